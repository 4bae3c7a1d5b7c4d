# SPDX-License-Identifier: Apache-2.0
"""The classes of risk of agent/repair/risk.rules, and what they ask for."""

import base64
import importlib
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

import lib

REPAIR = os.path.join(lib.HERE, "../agent/repair")
PURE = "def f(x):\n    return [y * 2 for y in x]\n"
# Files of each class: "PATH" or "PATH: TEXT".
FILES = {
    "unit-test": [
        "tests/test_a.py", "test_b.py", "a_test.py", "pkg/tests/helper.py", "tests/data/x.csv", "spec/a_spec.py",
        "test/unit.py", "conftest.py", "pkg/a_tests.py", "tests/test_sql.py: con.execute('select a from b')",
        "tests/test_api.py: client.get('/x')"],
    "data-transformation": [
        "calc.py: " + PURE, "src/parse.py: import json\ndef f(x): return json.loads(x)",
        "clean.py: def select(x): return x", "a/b/c.py: X = 1", "rows.py: import csv", "join.py: def update(x): pass",
        "text.py: S = 'please select one from these'", "norm.py: import re\nR = re.compile('x')",
        "group.py: from collections import Counter",
        "etl/load.py: X = 1", "m.py: import pandas as pd", "m.py: rows = csv.reader(lines)",
        "get.py: def get(x): return x.get('a')", "gone.py: "],
    "api-endpoint": [
        "app.py: @app.route('/x')\ndef f(): pass", "m.py: @router.get('/x')\ndef f(): pass", "api/users.py: X = 1",
        "pkg/views.py: X = 1", "routes/a.py: X = 1", "m.py: from fastapi import FastAPI",
        "m.py: app = Flask(__name__)", "m.py: class A(APIView): pass", "m.py: @api_view(['GET'])\ndef f(): pass",
        "handlers/x.py: X = 1", "m.py: @bp.v1.post('/y')\ndef f(): pass", "openapi.yaml: openapi: 3.0.0",
        "urls.py: X = []"],
    "database-query": [
        "q.sql: select a from b", "m.py: Q = 'SELECT a, b FROM c WHERE d = ?'",
        "m.py: Q = 'insert into t values (1)'",
        "m.py: Q = 'update t set a = 1'", "m.py: Q = 'delete from t'", "m.py: con.execute(text)",
        "m.py: import sqlite3",
        "m.py: from sqlalchemy import select", "m.py: User.objects.filter(a=1)", "m.py: cur.executemany(q, rows)",
        "m.py: import psycopg2", "m.py: Q = (\n    'SELECT a '\n    'FROM b')\ncon.execute(Q)"],
    "infrastructure": [
        "main.tf", "x.tfvars", "Dockerfile", "docker-compose.yml", "compose.yaml", "k8s/a.yaml", "deploy/run.sh",
        ".github/workflows/ci.yml", "Makefile", "charts/values.yaml", "a.yaml: apiVersion: v1\nkind: Pod",
        "x.service", "m.py: import boto3", "play.yml: - hosts: all", ".gitlab-ci.yml", "app.Dockerfile"],
    "unknown": [
        "data.bin", "a.go", "x.json", "notes.md", "LICENSE", "run.sh", "m.py: import subprocess",
        "m.py: import socket",
        "m.py: os.remove(x)", "m.py: eval(x)", "m.py: import requests", "m.py: import pickle", "a.js: 1"],
    "migration": [
        "migrations/0001_initial.py", "alembic/versions/a.py", "db/migrate/1_x.rb", "V1__init.sql", "V2_1__x.sql",
        "x.sql: CREATE TABLE a (b int)", "x.sql: alter table a add b int", "m.py: op.add_column('a', x)",
        "m.py: Q = 'drop table a'", "m.py: class M(migrations.Migration): pass", "changelog.xml",
        "x.sql: create unique "
        "index i on a (b)", "app/migrations/0002.py: import os", "m.py: from flask_migrate import Migrate"],
}


@pytest.fixture
def risk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(REPAIR)
    for name in ("judge", "risk"):
        sys.modules.pop(name, None)
    module = importlib.import_module("risk")
    for each in (module, importlib.import_module("judge")):
        setattr(each, "TOP", str(tmp_path))
    return module


def row(said: str) -> dict[str, Any]:
    path, _, text = said.partition(": ")
    return {"path": path, "base": None, "now": {"type": "file", "executable": False,
                                                "base64": base64.b64encode(text.encode()).decode()}}


def test_every_class_knows_its_files(risk: Any) -> None:
    rules = risk.Rules(os.path.join(REPAIR, "risk.rules"))
    assert set(rules.kinds) == set(FILES) and all(len(files) >= 10 for files in FILES.values())
    for kind, files in FILES.items():
        for each in files:
            fits = rules.of_file(*[each.partition(": ")[n] for n in (0, 2)])
            assert fits[0].kind == kind, (each, kind, fits)
    found = risk.risk_of([row("calc.py: X = 1"), row("main.tf"), row("m.py: @app.route('/x')")], rules)
    assert (found["class"], found["level"], found["path"]) == ("infrastructure", "high", "main.tf")
    assert found["rule"] == "type .tf" and found["automation"] == "human-in-the-loop"


def test_what_a_class_asks_for(risk: Any, tmp_path: Path) -> None:
    rules = risk.Rules(os.path.join(REPAIR, "risk.rules"))
    endpoint = row("app.py: @app.route('/x')\ndef f(): pass")
    texts = [each["text"] for each in risk.risk_of([endpoint], rules)["reasons"]]
    assert texts == ["it changes an API endpoint without an integration test in the patch"]
    assert risk.risk_of([endpoint, row("tests/integration/test_x.py: 1")], rules)["reasons"] == []
    for each, needs in (("calc.py: " + PURE, False), ("rows.py: import csv", False), ("m.py: csv.reader(x)", True),
                        ("etl/load.py: X = 1", True), ("pipeline.py: X = 1", True), ("tests/etl/test_x.py: 1", False)):
        assert risk.risk_of([row(each)], rules)["needs_sample"] is needs, each
    query = row("m.py: Q = 'select a from t where b = ? and c = ?'\nR = 'select x from t where a = :a'")
    texts = [each["text"] for each in risk.risk_of([query], rules)["reasons"]]
    assert len(texts) == 2 and "no SQLite database" in texts[0]
    con = sqlite3.connect(tmp_path / "data.db")
    con.execute("create table t (a int, b int, c int)")
    con.commit()
    con.close()
    first, second = risk.risk_of([query], rules)["queries"]
    assert first["plan"] == ["SCAN t"] and "no such column: x" in second["error"]
    found = risk.risk_of([row("migrations/0001_x.py: import os")], rules)
    assert found["level"] == "critical" and found["reasons"][0]["word"] == "tests passed"


def test_lines_are_named_by_the_function_they_stand_in(risk: Any) -> None:
    python = ("m.py: import x\n\n\nclass A:\n    @x\n    def f(self,\n          a):\n        def g():\n"
              "            pass\n        return a\n")
    script = ("m.js: const x = 1\nfunction div(a, b) {\n  if (b) {\n    return a / b\n  }\n}\n"
              "const f = async (a) => {\n  return a\n}\n"
              "class A {\n  get(a) {\n    return a\n  }\n}\nx.run = function () { return 1 }\nf(x)\n")
    for text, names in ((python, {6: "f", 7: "f", 8: "g", 9: "g", 10: "f"}),
                        (script, {**dict.fromkeys(range(2, 7), "div"), **dict.fromkeys((7, 8, 9), "f"),
                                  **dict.fromkeys((11, 12, 13), "get"), 15: "x.run"}),
                        ("m.py: def f(:\n", {}), ("notes.txt: def f():\n", {})):
        assert risk.judge.function_names(row(text), list(range(1, 20))) == names
