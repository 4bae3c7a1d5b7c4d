# SPDX-License-Identifier: Apache-2.0
"""A sample of the benchmark of `check` (tests/bench/grounding.py), with its limits: found and false alarms."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import lib
from lib import Sandbox

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench"))

import grounding  # noqa: E402
from runtime import Failure  # noqa: E402


def limits_hold(box: Sandbox, top: str, language: str, copies: Any) -> None:
    def check(project: str, paths: list[str]) -> list[Any]:
        files = [os.path.join(project, path) for path in paths]
        done = box.cli("check", "--dir", project, "--json", "--timeout", "600", *files, timeout=10 * lib.PATIENCE)
        assert done.returncode in (0, 1), done.stderr
        rows: list[Any] = json.loads(done.stdout)["files"]
        return rows

    original, outcomes = grounding.look(check, top, language, copies)
    lost = [one.where for one in outcomes if not one.is_found]
    assert len(outcomes) >= 20 and original.functions >= 100
    assert len(lost) <= max(1, 0.05 * len(outcomes)), lost
    assert len(original.findings) <= 0.01 * original.functions, original.findings


def test_what_is_planted_into_python_is_found(tmp_path: Path) -> None:
    box = Sandbox("root")
    try:
        limits_hold(box, str(tmp_path), "Python", grounding.python_copies(8, 4))
    finally:
        box.close()


@pytest.mark.slow
def test_what_is_planted_into_typescript_is_found(tmp_path: Path) -> None:
    lib.need("grammars", os.path.exists(os.path.join(lib.BUILD, "context-parser")), "this build has no grammars")
    try:
        packages = grounding.sources(os.path.join(lib.BUILD, "typescript-sources"))
    except Failure as problem:
        lib.need("npm", False, str(problem))
    box = Sandbox("root")
    try:
        limits_hold(box, str(tmp_path), "TypeScript",
                    grounding.script_copies(lib.BUILD, str(tmp_path), packages, ("@tanstack/query-core",), 2))
    finally:
        box.close()
