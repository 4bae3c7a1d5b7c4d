# SPDX-License-Identifier: Apache-2.0
"""tools/bench: a group of it with few samples; what it measures is not looked at."""

import json
import os
import subprocess

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
