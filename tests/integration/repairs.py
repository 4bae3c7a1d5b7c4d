# SPDX-License-Identifier: Apache-2.0
"""A project with a bug and its tests, for tests of `verify` and of `agent --test`."""

import importlib.util
import time

import lib
from lib import Sandbox

READY = "ready for human review"
CALC = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
TESTS = ("from calc import add, mul\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
         "def test_zero():\n    assert add(0, 0) == 0\n\n\ndef test_mul():\n    assert mul(2, 3) == 6\n")
HIDDEN = "from calc import add\n\n\ndef test_secret():\n    assert add(20, 22) == 42\n"
COMMAND = "python3 -m pytest -q tests"
TEST = ("--test", COMMAND)


def calc_box() -> Sandbox:
    """A sandbox with the project, and its hidden test beside it."""
    lib.need("pytest", importlib.util.find_spec("pytest") is not None, "python3-pytest is not installed")
    box = Sandbox("root")
    box.make_folder("project")
    box.make_file("project/calc.py", CALC)
    box.make_file("project/tests/test_calc.py", TESTS)
    box.make_file("hidden/test_hidden.py", HIDDEN)
    time.sleep(0.05)
    return box


def more(path: str, text: str) -> str:
    return (f"import os\nos.makedirs(os.path.dirname({path!r}) or '.', exist_ok=True)\n"
            f"open({path!r}, 'w').write({text!r})")
