# SPDX-License-Identifier: Apache-2.0
"""tools/bench: a group of it with few samples, and its page; what it measures is not looked at."""

import json
import os
import subprocess
import sys

import pytest

import lib

pytestmark = pytest.mark.skipif("SNP_TEST_SANITIZE" in os.environ,
                                reason="an interpreter without the sanitizers' runtime cannot load a library with them")
TOOL = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools", "bench")


def test_a_quick_group(tmp_path: os.PathLike[str]) -> None:
    done = subprocess.run([lib.PYTHON, TOOL, "--quick", "--json", "--only", "clients", "--raw", str(tmp_path)],
                          capture_output=True, text=True, timeout=5 * lib.PATIENCE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = {row["key"]: row for row in found["rows"]}
    assert rows["clients.python"]["n"] == rows["clients.c"]["n"] == 20 and found["failures"] == {}
    assert rows["clients.together.share"]["value"] > 1
    missed = [line for line in done.stderr.splitlines() if line.startswith("bench: missed: ")]
    assert len(missed) == sum(not item["reached"] for item in found["targets"])
    assert os.path.getsize(os.path.join(tmp_path, "clients.jsonl")) > 0


def test_a_group_replaces_its_part_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    root = os.path.dirname(os.path.dirname(TOOL))
    monkeypatch.setattr(sys, "path", [os.path.join(root, "tests", "bench"), *sys.path])
    import report
    with open(os.path.join(root, "docs", "benchmarks.md")) as page:
        before = page.read()
    assert str(report.Page(before)) == before  # nothing in it that the tool would drop
    machine = dict.fromkeys(("date", "cpus", "cpu", "memory_gib", "system", "kernel", "python", "user"), "x")
    row = {"key": "refill.base", "group": "refill", "text": "one", "unit": "/s", "value": 3, "n": 1, "busy_before": 0}
    after = report.page({**machine, "commit": "0123456789", "load": 1, "load_after": 2}, {"refill.base": row},
                        ["refill.base"], False, before)
    assert set(before.splitlines()) - set(after.splitlines()) == set(report.Page(before).tables["The pool"])
    assert "| one | 3.00 /s |  |  | 1 |  | 0123456789 |" in after and "\n| 0123456789 | x | " in after
