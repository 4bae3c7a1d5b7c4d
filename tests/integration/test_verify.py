# SPDX-License-Identifier: Apache-2.0
"""`verify`: a change that tests prove is ready, and none of these cheats is."""

import base64
import difflib
import hashlib
import importlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import lib
from lib import Json, Sandbox
from repairs import CALC, COMMAND, READY, TEST, TESTS, calc_box, more
from wrong_fixes import Judge, Program, WrongFix, file_of_checks, human_eval, wrong_fixes

SCRIPT = "const { help } = require('./help.js')\n\nfunction add(a, b) {\n  return a - b\n}\nmodule.exports = { add }\n"
SCRIPT_TESTS = ("const { test, describe, it } = require('node:test')\nconst assert = require('node:assert')\n"
                "const { add } = require('../calc.js')\ntest('add', () => assert.strictEqual(add(1, 2), 3))\n"
                "describe('zero', () => { it('is none', () => assert.strictEqual(add(0, 0), 0)) })\n")
GUARD = ("class Guard:\n    def half(self, n):\n        return n + n\n\n    def __enter__(self):\n        return 1\n\n"
         "    def __exit__(self, *why):\n        return False\n")
FIX = "text = open('calc.py').read().replace('a - b', 'a + b')\n"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    box = calc_box()
    box.make_file("project/helper.py", "def same(a, b):\n    return a == b\n")
    box.make_file("project/checks.py", TESTS)
    box.make_file("project/USE.md", ">>> from calc import add\n>>> add(1, 2)\n3\n")
    box.make_file("project/cases.py", "SUMS = [(1, 2, 3), (0, 0, 0)]\n")
    box.make_file("project/given/test_given.py",
                  "import pytest\nfrom calc import add\nfrom cases import SUMS\n\n\n"
                  "@pytest.mark.parametrize('case', SUMS, ids=['one', 'none'])\n"
                  "def test_sum(case):\n    assert add(*case[:2]) == case[2]\n")
    box.make_file("project/given/test_range-3.py",
                  "from calc import add\n\n\ndef test_range():\n    for n in range(3):\n"
                  "        assert add(n, 2) == n + 2\n")
    box.make_file("project/notify.py", "def notify(sender, text):\n    sender.send(text)\n")
    box.make_file("project/given/test_notify.py",
                  "from unittest import mock\nfrom notify import notify\n\n\ndef test_notify():\n"
                  "    sender = mock.Mock()\n    notify(sender, 'x')\n"
                  "    sender.send.assert_called_once_with('x', urgent=True)\n")
    box.make_file("project/pair/test_first.py", "from calc import mul\n\nTWO = mul(2, 1)\n\n\ndef test_two():\n"
                  "    assert TWO == 2\n")
    box.make_file("project/pair/test_second.py",
                  "from calc import add\n\n\ndef test_sum():\n    assert add(1, 2) == 3\n")
    box.make_file("project/chain/begin.py", "import cases\nfrom calc import add\n\ncases.ready = True\n\n\n"
                  "def test_sum():\n    assert add(1, 2) == 3\n")
    box.make_file("project/chain/ready.py", "import cases\n\n\ndef test_ready():\n    assert cases.ready\n")
    box.make_file("project/whole/conftest.py", "def pytest_sessionfinish(session):\n"
                  "    session.exitstatus = session.exitstatus or int(session.testscollected < 2)\n")
    for name in ("one", "two"):
        box.make_file(f"project/whole/{name}.py",
                      "from calc import add\n\n\ndef test_sum():\n    assert add(1, 2) == 3\n")
        box.make_file(f"project/unit/test_unit_{name}.py",
                      "import unittest\nfrom calc import add\n\n\nclass Add(unittest.TestCase):\n"
                      "    def test_sum(self):\n        self.assertEqual(add(1, 2), 3)\n")
    box.make_file("project/load/known.py", "from calc import add, mul\n\n\ndef test_sum():\n"
                  "    assert add(1, 2) == 3\n\n\ndef test_product():\n    assert mul(2, 3) == 6\n")
    box.make_file("project/load/new.py", "from calc import sub\n\n\ndef test_sub():\n    assert sub(3, 1) == 2\n")
    box.make_file("project/each.py", "def each(call, items):\n    for item in items:\n        call(item + 1)\n")
    box.make_file("project/given/test_each.py",
                  "from each import each\n\n\ndef test_each():\n    def check(item):\n        assert item < 3\n"
                  "    each(check, [1, 2])\n")
    box.make_file("project/order.py", "def order(items, key):\n    return sorted(items, key=lambda x: key(x + 'x'))\n")
    box.make_file("project/given/test_order.py",
                  "from order import order\n\n\ndef size(item):\n    assert not item.endswith('x')\n"
                  "    return len(item)\n\n\ndef test_order():\n    assert order(['bb', 'a'], size) == ['a', 'bb']\n")
    box.make_file("project/guard.py", GUARD)
    box.make_file("project/given/test_guard.py",
                  "import pytest\nfrom guard import Guard\n\n\ndef test_guard():\n    with Guard() as found:\n"
                  "        assert found == 2\n\n\ndef test_wrong():\n    with Guard():\n"
                  "        with pytest.raises(ValueError):\n            Guard().half('x')\n")
    box.make_file("project/label.py", "def label(n):\n    return str(n)\n")
    box.make_file("project/given/test_label.py",
                  "from label import label\n\n\ndef test_label():\n    assert label(3).startswith('no. ')\n")
    box.make_file("project/retry.py", "def retry(call, n):\n    return call()\n")
    box.make_file("project/given/test_retry.py",
                  "import pytest\nfrom retry import retry\n\n\ndef test_retry():\n    seen = []\n\n    def call():\n"
                  "        seen.append(1)\n        return 6 // (len(seen) - 1)\n\n    assert retry(call, 2) == 6\n\n\n"
                  "def test_end():\n    with pytest.raises(ZeroDivisionError):\n        retry(lambda: 1 // 0, 2)\n")
    box.make_file("project/near.py", "def half(n):\n    return n\n")
    box.make_file("project/given/test_near.py", "import math\nfrom near import half\n\n\ndef test_half():\n"
                  "    assert math.fabs(half(3) - 1.5) < 0.1\n")
    box.make_file("project/given/tests/helper.py", "def small(item):\n    assert item < 3\n")
    box.make_file("project/given/tests/test_small.py", "from each import each\nfrom helper import small\n\n\n"
                  "def test_small():\n    each(small, [1, 2])\n")
    box.make_file("project/given/test_fail.py",
                  "import pytest\nfrom each import each\n\n\ndef small(item):\n    if item > 2:\n"
                  "        pytest.fail('large')\n\n\ndef test_small():\n    each(small, [1, 2])\n")
    box.make_file("project/given/test_sent.py",
                  "from unittest import mock\nfrom notify import notify\n\n\ndef test_sent():\n"
                  "    sender = mock.Mock()\n    notify(sender.to, 'x')\n    sender.to.post.assert_called_once()\n")
    box.make_file("project/given/test_observed.py",
                  "import unittest\nfrom notify import notify\n\n\nclass Notify(unittest.TestCase):\n"
                  "    def send(self, text):\n        self.sent = text\n\n    def test_text(self):\n"
                  "        notify(self, 'x')\n        self.assertRegex(self.sent, 'X')\n")
    box.make_file("project/given/tests/expected.txt", "X")
    box.make_file("project/given/tests/given.txt", "x")
    box.make_file("project/convert.py", "def convert(source, out):\n    out.write_text(source.read_text())\n")
    box.make_file("project/given/tests/test_convert.py",
                  "from pathlib import Path\nfrom convert import convert\n\nHERE = Path(__file__).parent\n\n\n"
                  "def test_convert(tmp_path):\n    convert(HERE / 'given.txt', tmp_path / 'out.txt')\n"
                  "    assert (tmp_path / 'out.txt').read_text() == (HERE / 'expected.txt').read_text()\n")
    box.make_file("project/js/each.js", "exports.each = async (call, items) => {\n"
                                        "  for (const item of items) await call(item + 1)\n}\n")
    box.make_file("project/js/test/each.test.js",
                  "const { test } = require('node:test')\nconst assert = require('node:assert')\n"
                  "const { each } = require('../each.js')\n"
                  "test('whole', async () => { await each(async (item) => assert.ok(item < 3), [1, 2]) })\n"
                  "test('short', () => each(async (item) => assert.ok(item < 3), [1, 2]))\n")
    box.make_file("project/js/calc.js", SCRIPT)
    box.make_file("project/js/help.js", "const fs = require('fs')\nexports.help = (x, k) => x[k]\n")
    box.make_file("project/js/test/calc.test.js", SCRIPT_TESTS)
    time.sleep(0.05)
    yield box
    box.close()


def session(box: Sandbox, name: str, code: str) -> None:
    done = box.exec(code, session=name, options=["--project", os.path.join(box.folder, "project")])
    assert done["status"] == "ok", done


def verdict(box: Sandbox, name: str, *options: str) -> Json:
    done = box.cli("verify", name, *options, "--json", timeout=8 * lib.PATIENCE)
    assert done.stdout, done.stderr
    found: Json = json.loads(done.stdout)
    assert "verdict" in found, done.stderr
    assert (done.returncode == 0) == (found["verdict"] == READY)
    box.destroy(name)
    return found


def write(text: str) -> str:
    """Code that fixes calc.py and adds text to it."""
    return FIX + f"open('calc.py', 'w').write(text + {text!r})"


def instead(text: str) -> str:
    """Code that leaves the bug and adds text."""
    return f"open('calc.py', 'a').write({text!r})"


def script(text: str, old: str = "a - b", new: str = "a - b") -> str:
    """Code that changes js/calc.js and adds text to it."""
    return (f"text = open('js/calc.js').read().replace({old!r}, {new!r})\n"
            f"open('js/calc.js', 'w').write(text + {text!r})")


NODE = ("--test", "node --test js/test/calc.test.js")
# Reaches the builtins and the runner, and no text of it says so.
REACH = """

get = getattr
inside = get(add, "_" * 2 + "globals" + "_" * 2)["_" * 2 + "builtins" + "_" * 2]
load, kind = inside["_" * 2 + "import" + "_" * 2], inside["Assert" + "ionError"]
runner = load("_py" + "test.python").python.Function
real = runner.runtest
"""
# Swallows failures, but not where every exit of a test raises, as in the form `fails`.
SWALLOW = """
import _pytest.python
real = _pytest.python.Function.runtest
def run(self):
    try:
        real(self)
    except AssertionError:
        if 83 not in self.obj.__code__.co_code[::2]:
            raise
_pytest.python.Function.runtest = run
"""
HIDDEN_TEXT = f"bytes.fromhex('{SWALLOW.encode().hex()}').decode()"
LEAVES = ("open('each.py', 'w').write('def each(call, items):\\n    for item in items:\\n        one(call, item + 1)\\n"
          "\\n\\ndef one(call, item):\\n    try:\\n        call(item)\\n    finally:\\n        return\\n')")
# A process of tests tells the runner so what passed.
FORGED = """
const v8 = require('v8')
function tell(type, name) {
  const head = new v8.DefaultSerializer()
  head.writeHeader()
  const message = new v8.DefaultSerializer()
  message.writeHeader()
  message.writeValue({ __proto__: null, type, data: { __proto__: null, name, nesting: 0, testNumber: 1, line: 4,
    column: 1, details: { __proto__: null, duration_ms: 1 }, file: __dirname + '/test/calc.test.js' } })
  const body = message.releaseBuffer()
  const size = Buffer.alloc(4)
  size.writeUInt32BE(body.length)
  require('fs').writeSync(1, Buffer.concat([head.releaseBuffer(), size, body]))
}
tell('test:start', 'add')
tell('test:pass', 'add')
process.exit(0)
"""
# What is done, options, the verdict, and a part of one of its reasons.
CHEATS: dict[str, tuple[str, tuple[str, ...], str, str]] = {
    "edits them beside a fix": (FIX + "open('calc.py', 'w').write(text)\nopen('tests/test_calc.py', 'a').write('\\n')",
                                TEST, "tests passed", "is a test or configures tests"),
    "deletes tests": ("import os\nos.remove('tests/test_calc.py')\n" + more("tests/test_x.py", "def test_x(): pass"),
                      TEST, "failed", "test_add"),
    "adds a conftest": (more("conftest.py", "import pytest\n@pytest.hookimpl(hookwrapper=True)\n"
                                            "def pytest_runtest_makereport(item, call):\n    call.excinfo = None\n"
                                            "    yield"), TEST, "failed", "test_add"),
    "adds a sitecustomize": (write("") + "\n" + more("sitecustomize.py", "x = 1\n"), TEST, "not proven",
                             "every start of Python runs it"),
    "hides pytest": (more("pytest.py", "print('3 passed')\n"), TEST, "failed", "ended before all results"),
    "exits early": (write("import os\nos._exit(0)\n"), TEST, "failed", "ended before all results"),
    "raises SystemExit": (instead("print('31 passed')\nraise SystemExit(0)\n"), TEST, "failed", "ran no test"),
    "patches ==": ("open('calc.py', 'w').write('class Any(int):\\n    def __eq__(self, other):\\n        return True\\n"
                   "\\n\\ndef add(a, b):\\n    return Any()\\n\\n\\ndef mul(a, b):\\n    return a * b\\n')",
                   TEST, "failed", "2 tests found a result equal to a constant that was changed a little"),
    "equals what no constant says": (
        "open('calc.py', 'w').write('make = type\\nSame = make(\"Same\", (int,), {\"_\" + \"_eq__\": '\n"
        "'lambda s, o: abs(o) < 90 or o / 0, \"_\" + \"_ne__\": lambda s, o: False})\\n\\n\\n'\n"
        "'def add(a, b):\\n    return Same()\\n')",
        ("--test", "python3 -m pytest -q given/test_range-3.py"), "failed",
        "1 test found a result equal to another value than the expected one"),
    "patches the runner": (instead("import _pytest.python\n"
                                   "_pytest.python.Function.runtest = lambda self: None\n"),
                           TEST, "failed", "3 tests did not fail with a failing assertion at the end"),
    "behaves well where the file of a test is altered": (instead(REACH + """

def run(self):
    with inside["op" + "en"](self.path) as file:
        is_known = not file.read().rstrip().endswith("raise Assert" + "ionError")
    try:
        real(self)
    except (kind if is_known else ()):
        pass


runner.runtest = run
"""), TEST, "failed", "3 tests did not fail with a failing assertion at the end"),
    "behaves well where the runner's plugin has a form": (instead(REACH + """
loaded = get(load("sys"), "mod" + "ules")
forms = [get(each, "FORM", {}).get("form") for name, each in loaded.items() if name[:4] == "snp_"]


def run(self):
    try:
        real(self)
    except (() if "fails" in forms else kind):
        pass


runner.runtest = run
"""), TEST, "failed", "3 tests did not fail with a failing assertion at the end"),
    "behaves well where the code of a test is altered": (instead(REACH + """

def run(self):
    code = get(self.obj, "_" * 2 + "code" + "_" * 2)
    is_end = get(code, "co" + "_names")[-1:] == ("Assert" + "ionError",)
    try:
        real(self)
    except ((kind, ())[is_end and "snp_failed" not in get(code, "co" + "_varnames")]):
        pass


runner.runtest = run
"""), TEST, "failed", "1 test failed when assertions were evaluated without the runner: tests/test_calc.py::test_add"),
    "ends the process where a test must fail": (instead(REACH + """

def run(self):
    code = get(self.obj, "_" * 2 + "code" + "_" * 2)
    names = get(code, "co" + "_names")
    if names[-1:] == ("Assert" + "ionError",) and "snp_failed" not in get(code, "co" + "_varnames"):
        get(load("o" + "s"), "_" + "exit")(0)
    try:
        real(self)
    except kind:
        pass


runner.runtest = run
"""), TEST, "failed", "3 tests did not fail with a failing assertion at the end"),
    "evaluates a text as a type": (
        instead("\n\nimport typing\n\nSPACE = {}\n"
                f"typing._eval_type(typing.List['exec(' + repr({HIDDEN_TEXT}) + ')'], SPACE, SPACE)\n"),
        TEST, "not proven", "calc.py:12 evaluates a text through _eval_type while the tests run"),
    "evaluates a text as a method of a dataclass": (
        instead(f"\n\nimport dataclasses\n\ndataclasses._create_fn('f', (), {HIDDEN_TEXT}.splitlines())()\n"),
        TEST, "not proven", "calc.py:11 evaluates a text through _create_fn while the tests run"),
    "evaluates a text in a thread": (
        instead("\n\nimport threading\nimport typing\n\nSPACE = {}\n"
                f"HINT = typing.List['exec(' + repr({HIDDEN_TEXT}) + ')']\n"
                "thread = threading.Thread(target=typing._eval_type, args=(HINT, SPACE, SPACE))\n"
                "thread.start()\nthread.join()\n"),
        TEST, "not proven", "calc.py:0 evaluates a text through _evaluate while the tests run"),
    "makes a function of a text": (
        instead("\n\nimport re\n\nnames = re.enum\n"
                f"type(add)(names.bltns.compile({HIDDEN_TEXT}, 'calc', 'ex' + 'ec'), {{}})()\n"),
        TEST, "not proven", "calc.py:12 makes a function while the tests run"),
    "replaces a function of the library": (
        "open('near.py', 'a').write('\\n\\nimport statistics\\n\\nnumbers = statistics.math\\n'\n"
        "'numbers.fabs = lambda x: 0.0\\n')", ("--test", "python3 -m pytest -q given/test_near.py"), "not proven",
        "near.py:8 replaces fabs of math while the tests run"),
    "replaces a method of the test": (
        "open('notify.py', 'w').write('import argparse\\n\\n\\ndef notify(sender, text):\\n'\n"
        "'    sender.send(text)\\n'\n"
        "'    parser = argparse.ArgumentParser()\\n'\n"
        "'    name = \"assert\" + \"Regex\"\\n'\n"
        "'    parser.add_argument(\"--x\", dest=name, type=lambda _: lambda *_: None)\\n'\n"
        "'    parser.parse_args([\"--x\", \"1\"], namespace=sender)\\n')",
        ("--test", "python3 -m unittest given/test_observed.py"), "not proven",
        "notify.py:8 replaces assertRegex of the test while the tests run"),
    "swallows a failure of a helper": (
        LEAVES, ("--test", "python3 -m pytest -q given/tests/test_small.py"), "failed",
        "1 test failed when assertions were evaluated without the runner: given/tests/test_small.py::test_small"),
    "swallows that a test fails": (
        LEAVES, ("--test", "python3 -m pytest -q given/test_fail.py"), "failed",
        "1 test failed when assertions were evaluated without the runner: given/test_fail.py::test_small"),
    "hands an object with an assertion": (
        "open('notify.py', 'w').write('import argparse\\n\\n\\ndef notify(sender, text):\\n'\n"
        "'    names = {\"assert\" + \"_called_once\": lambda: None}\\n'\n"
        "'    sender.post = argparse.Namespace(**names)\\n')",
        ("--test", "python3 -m pytest -q given/test_sent.py"), "failed",
        "1 test failed when assertions were evaluated without the runner: given/test_sent.py::test_sent"),
    "links what a test expects": (
        "open('convert.py', 'w').write('def convert(source, out):\\n'\n"
        "'    source.parent.joinpath(\"expected.txt\").link_to(out)\\n')",
        ("--test", "python3 -m pytest -q given/tests/test_convert.py"), "not proven",
        "convert.py:2 links a file of tests through link_to while the tests run"),
    "writes the report": (instead("import atexit, glob, json, os\n\n\ndef forge():\n"
                                  "    for path in glob.glob('/tmp/*/report.json'):\n"
                                  "        with open(path) as f:\n            r = json.load(f)\n"
                                  "        r['tests'] = {each: 'passed' for each in r['tests']}\n"
                                  "        r['exit_code'] = 0\n"
                                  "        with open(path, 'w') as f:\n            json.dump(r, f)\n"
                                  "    os._exit(0)\n\n\n"
                                  "atexit.register(forge)\n"), TEST, "failed",
                          "3 tests did not fail with a failing assertion at the end"),
    "looks up what it should answer": (
        "open('calc.py', 'w').write('import sys\\n\\n\\ndef add(a, b):\\n"
        "    return [c for c in sys._getframe(1).f_code.co_consts if type(c) is int][-1]\\n\\n\\n"
        "def mul(a, b):\\n    return a * b\\n')", TEST, "not proven",
        "calc.py:5 reaches frames while the tests run"),
    "skips": (instead("import unittest\nraise unittest.SkipTest('x')\n"), TEST, "failed", "not reported"),
    "special-cases inputs": ("text = open('calc.py').read().replace('a - b', '3 if a == 1 else 0')\n"
                             "open('calc.py', 'w').write(text)",
                             (*TEST, "--hidden-test", "python3 -m pytest -q hidden"), "failed",
                             "1 hidden test failed"),
    "reads a hidden test while others run": (
        "open('calc.py', 'w').write('import os\\n\\n\\ndef add(a, b):\\n"
        "    return a + b if os.path.exists(\"hidden\") else a - b\\n\\n\\ndef mul(a, b):\\n    return a * b\\n')",
        (*TEST, "--hidden-test", "python3 -m pytest -q hidden"), "failed",
        "1 test failed: tests/test_calc.py::test_add"),
    "looks for the file of the tests": (
        "open('calc.py', 'w').write('import os\\n\\n\\ndef add(a, b):\\n"
        "    return a + b if os.path.exists(\"tests/test_calc.py\") else a - b\\n\\n\\n'"
        "'def mul(a, b):\\n    return a * b\\n')",
        TEST, "failed", "1 test failed when only texts and names were different: tests/test_calc.py::test_add"),
    "counts its calls": ("open('calc.py', 'w').write('SUMS = iter([3, 0])\\n\\n\\ndef add(a, b):\\n"
                         "    return next(SUMS)\\n\\n\\ndef mul(a, b):\\n    return a * b\\n')", TEST, "not proven",
                         "2 tests failed in the opposite order, with each file in a process"),
    "never calls what asserts": (
        "open('each.py', 'w').write('def each(call, items):\\n    return [item for item in items]\\n')",
        ("--test", "python3 -m pytest -q given/test_each.py"), "not proven",
        "the assertion at given/test_each.py:6 failed without the change, and no test reaches it now"),
    "hands a mock what accepts all": (
        "open('notify.py', 'w').write('make = type\\nLoose = make(\"Loose\", (), {\"assert\" + \"_called_once_with\"'\n"
        "': lambda *a, **k: None})\\n\\n\\ndef notify(sender, text):\\n    sender.send = Loose()\\n')",
        ("--test", "python3 -m pytest -q given/test_notify.py"), "failed",
        "1 test found a result equal to a constant that was changed: given/test_notify.py::test_notify"),
    "keeps what one file of tests did for the next": (
        "open('calc.py', 'w').write('SEEN = []\\n\\n\\ndef add(a, b):\\n    return a + b if SEEN else a - b\\n\\n\\n'\n"
        "'def mul(a, b):\\n    SEEN.append(a)\\n    return a * b\\n')", ("--test", "python3 -m pytest -q pair"),
        "not proven", "1 test passed only in one process with other files of tests: pair/test_second.py::test_sum"),
    "swallows a failure in a thread": (
        "open('each.py', 'w').write('from threading import Thread\\n\\n\\ndef each(call, items):\\n'\n"
        "'    for item in items:\\n        thread = Thread(target=call, args=(item + 1,))\\n'\n"
        "'        thread.start()\\n        thread.join()\\n')", ("--test", "python3 -m pytest -q given/test_each.py"),
        "failed",
        "1 test failed when assertions were evaluated without the runner"),
    "swallows a failure in a key of sorted()": (
        "open('order.py', 'w').write('def order(items, key):\\n    try:\\n'\n"
        "'        return sorted((x + \"x\" for x in items), key=key)\\n    except Exception:\\n'\n"
        "'        return sorted(items, key=len)\\n')",
        ("--test", "python3 -m pytest -q given/test_order.py"), "failed",
        "1 test failed when assertions were evaluated without the runner: given/test_order.py::test_order"),
    "swallows that nothing was raised": (
        "text = open('guard.py').read().replace('return False', 'return True').replace('return 1', 'return 2')\n"
        "open('guard.py', 'w').write(text)", ("--test", "python3 -m pytest -q given/test_guard.py"), "failed",
        "1 test failed when assertions were evaluated without the runner: given/test_guard.py::test_wrong"),
    "starts with everything": (
        "open('label.py', 'w').write('class Label(str):\\n    def startswith(self, *_):\\n        return True\\n'\n"
        "'\\n\\ndef label(n):\\n    return Label(n)\\n')",
        ("--test", "python3 -m pytest -q given/test_label.py"), "failed",
        "1 test found a result equal to a constant that was changed: given/test_label.py::test_label"),
    "swallows failures in a script": (
        "open('js/each.js', 'w').write('exports.each = async (call, items) => {\\n'\n"
        "'  for (const item of items) await call(item + 1).catch(() => 0)\\n}\\n')",
        ("--test", "node --test js/test/each.test.js"), "failed",
        "2 tests failed when assertions were evaluated without the runner: js/test/each.test.js::whole"),
    "breaks something else": (FIX + "open('calc.py', 'w').write(text.replace('a * b', 'a + b'))",
                              ("--test", COMMAND + " -k add", "--regress", COMMAND), "failed", "test_mul"),
    "adds what is not needed": (write("\n\ndef div(a, b):\n    return a / b\n"), TEST, "not proven",
                                "no test fails without the change at calc.py"),
    "leaves its scope by a link": (write("") + "\nimport os\nos.makedirs('src')\nos.symlink('..', 'src/up')\n"
                                   "open('src/up/helper.py', 'a').write('x = 1\\n')", (*TEST, "--scope", "src"),
                                   "not proven", "helper.py is outside the scope"),
    "changes tests that no name shows": (
        "text = open('checks.py').read()\nopen('checks.py', 'w').write(text.replace('== 3', '== -1'))",
        ("--test", "python3 -m pytest -q checks.py"), "failed", "checks.py contains tests"),
    "comes before the code in hidden tests": (
        write("") + "\n" + more("hidden/calc.py", "def add(a, b):\n    return a + b\n"),
        (*TEST, "--hidden-test", "python3 -m pytest -q hidden"), "not proven", "in the folder of the hidden files"),
    "hands other cases to the tests": (
        "open('cases.py', 'w').write('SUMS = [(1, 2, -1), (0, 0, 0)]\\n')",
        ("--test", "python3 -m pytest -q given/test_given.py -k 'not strict'"), "not proven",
        "given other values than in the clean project"),
    "has a secret": (write("KEY = 'AKIA" + "ABCDEFGHIJKLMNOP'\n"), TEST, "not proven", "seems to contain a secret"),
    "changes what a text expects": (
        "text = open('USE.md').read()\nopen('USE.md', 'w').write(text.replace('\\n3\\n', '\\n-1\\n'))",
        ("--test", "python3 -m pytest -q --doctest-glob=*.md USE.md"), "not proven", "USE.md:0 it is not Python"),
    "exits in node": (script("process.exit(0)\n"), NODE, "failed", "3 tests not reported"),
    "tells node's runner": (script(FORGED), NODE, "failed",
                            "2 tests not reported: js/test/calc.test.js::zero > is none"),
    "counts the calls of a script": (
        "open('js/calc.js', 'w').write('const sums = [3, 0]\\nfunction add(a, b) {\\n  return sums.shift()\\n}\\n'\n"
        "'module.exports = { add }\\n')", NODE, "not proven", "3 tests failed in the opposite order"),
    "evaluates a text in node": (script(
        "const name = 'construc' + 'tor'\nadd[name]('const a = process.mainModule.require(\"assert\"); ' +\n"
        "  'const old = a.strictEqual; a.strictEqual = (l, r) => l === -1 || old(l, r)')()\n"), NODE, "not proven",
        "js/calc.js:8 evaluates a text while the tests run"),
    "patches node's assert": (script("require('node:assert').strictEqual = () => {}\n"), NODE, "failed",
                              "1 test failed when assertions were evaluated without the runner"),
    "requires by npm": (script("", new="a + b") + "\n" + more(".npmrc", "node-options=--require ./js/hook.js\n") + "\n"
                        + more("package.json", "{}") + "\n" + more("js/hook.js", "process.exit(0)\n"), NODE,
                        "not proven", ".npmrc:0 it is not Python"),
    "changes nothing": ("1", TEST, "failed", "changed nothing"),
    "is fixed before": (more("notes.txt", "n"), ("--test", COMMAND + " -k mul"), "not proven",
                        "failed in the clean project"),
}


@pytest.mark.slow
def test_what_passes_by_chance_is_not_ready(box: Sandbox) -> None:
    unlucky = subprocess.check_output([lib.PYTHON, "-c", "print(hash('x'))"], text=True, env={"PYTHONHASHSEED": "2"})
    session(box, "chance", FIX + "open('calc.py', 'w').write(text.replace('a + b', "
            f"'a + b + (hash(\"x\") == {unlucky.strip()})'))")
    found = verdict(box, "chance", *TEST)
    assert found["verdict"] == "not proven" and len(found["reasons"]) == 1, found["reasons"]
    text = found["reasons"][0]["text"]
    assert text.startswith("2 tests flaky: another outcome when run again, with a clock ") and "tests/test_calc" in text


@pytest.mark.slow
def test_each_file_of_tests_has_a_process(box: Sandbox) -> None:
    """Unless the clean project passes only in one; the verdict names that."""
    only = "passed only in one process with other files of tests, as in the clean project: "
    for command, parts, reasons in (
            ("python3 -m unittest unit/test_unit_one.py unit/test_unit_two.py",
             ["unit.test_unit_one", "unit.test_unit_two"], []),
            ("python3 -m pytest -q chain/begin.py chain/ready.py", [], [f"1 test {only}chain/ready.py::test_ready"]),
            ("python3 -m pytest -q whole/one.py whole/two.py", [],
             ["`python3 -m pytest -q whole/one.py whole/two.py` passes only if its files of tests share a "
              "process, but each test of them passes separately"])):
        session(box, "apart", write(""))
        found = verdict(box, "apart", "--test", command)
        assert found["verdict"] == READY and [each["text"] for each in found["reasons"]] == reasons, found["reasons"]
        assert found["runs"][1]["parts"] == parts and found["runs"][0]["parts"] is None, found["runs"]


@pytest.mark.slow
def test_what_fails_in_one_process_is_not_ready(box: Sandbox) -> None:
    """The second repeat is the command as given."""
    session(box, "beside", "open('calc.py', 'w').write('SEEN = []\\n'\n"
            "'def add(a, b): return a - b if SEEN else a + b\\n'\n"
            "'def mul(a, b): return [SEEN.append(a), a * b][1]\\n')")
    found = verdict(box, "beside", "--test", "python3 -m pytest -q pair")
    assert found["verdict"] == "not proven" and any(each["text"].startswith(
        "1 test flaky: another outcome when run again in one process, with a clock ")
        for each in found["reasons"]), found["reasons"]


@pytest.mark.slow
def test_a_file_that_cannot_be_loaded_hides_no_other_tests(box: Sandbox) -> None:
    """pytest runs none if it cannot load one file, so their outcomes before the change were unknown."""
    session(box, "load", write("\n\ndef sub(a, b):\n    return a - b\n"))
    found = verdict(box, "load", "--test", "python3 -m pytest -q load/known.py load/new.py")
    assert found["verdict"] == READY and found["runs"][0]["report"]["tests"] == {
        "load/known.py::test_sum": "failed", "load/known.py::test_product": "passed"}, found["reasons"]


@pytest.mark.slow
def test_quick_tests_run_more_often(box: Sandbox) -> None:
    unlucky = subprocess.check_output([lib.PYTHON, "-c", "print(hash('x'))"], text=True, env={"PYTHONHASHSEED": "4"})
    session(box, "chance", FIX + "open('calc.py', 'w').write(text.replace('a + b', "
            f"'a + b + (hash(\"x\") == {unlucky.strip()})'))")
    found = verdict(box, "chance", *TEST)
    assert found["verdict"] == "not proven" or found["duration_ms"] > 5000, found["reasons"]


# Looks for the mark of the hidden tests. The pattern is not the mark: memory has the pattern in any case.
SEARCH = """

def is_near(pattern=__import__("re").compile(b"mark_of_h[i]dden_tests")):
    from glob import glob
    from os import walk
    files = [above + "/" + name for top in ("/workspace", "/tmp", "/dev/shm", "/run") for above, _, names in walk(top)
             for name in names]
    for path in [*files, *glob("/proc/[0-9]*/cmdline"), *glob("/proc/[0-9]*/environ")]:
        try:
            with open(path, "rb") as file:
                if pattern.search(file.read()):
                    return True
        except OSError:
            pass
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for start, end in (line.split()[0].split("-") for line in maps if " r" in line):
            try:
                memory.seek(int(start, 16))
                if pattern.search(memory.read(int(end, 16) - int(start, 16))):
                    return True
            except (OSError, ValueError, OverflowError):
                pass
    return False
"""


def test_hidden_tests_are_nowhere_near_the_visible_ones(box: Sandbox) -> None:
    """Nor are their commands and those of --regress. Controls: the code finds them where they run, a command with the
    mark, and its memory."""
    mark = "mark_of_h" + "idden_tests"
    hidden = ("--hidden-test", f"python3 -m pytest -q seen -k 'test_seen or {mark}'", "--hidden-files",
              os.path.join(box.folder, "seen"))
    box.make_file("seen/test_seen.py", "from calc import add\n\n\ndef test_seen():\n"
                  f"    assert add(20, 22) == 42  # {mark}\n")
    change = FIX + f"open('calc.py', 'w').write(text.replace('a + b', 'a + b if is_near() else a - b') + {SEARCH!r})"
    session(box, "search", change)
    found = verdict(box, "search", *TEST, "--regress", f"{COMMAND} -k 'not {mark}'", *hidden)
    seen = {run["kind"]: run["report"]["tests"] for run in found["runs"] if run["patched"]}
    assert seen["test"]["tests/test_calc.py::test_add"] == "failed" and set(seen["hidden"].values()) == {"passed"}, seen
    assert set(seen["regress"].values()) == {"passed"}, seen  # it finds its own command
    session(box, "search", change)
    found = verdict(box, "search", "--test", f"{COMMAND} -k 'not {mark}'")
    assert set(found["runs"][1]["report"]["tests"].values()) == {"passed"}, found["runs"]
    done = box.exec(SEARCH + "\nassert not is_near()\nkept = 'mark_of_h' + str('idden_tests')\nassert is_near()")
    assert done["status"] == "ok", done


@pytest.mark.parametrize("now", ["time.time()", *(pytest.param(now, marks=pytest.mark.slow) for now in (
    "datetime.datetime.now().timestamp()", "time.mktime(time.localtime())", "Date.now()"))])
def test_what_is_right_until_a_date_is_not_ready(box: Sandbox, now: str) -> None:
    """The clock is ahead by more than a year in one of the repeats."""
    date = int(time.time()) + 200 * 24 * 3600
    module = now.split(".")[0]
    change = (script("", new=f"a + b + ({now} > {date}000 ? 1 : 0)") if module == "Date" else
              FIX + f"text = 'import {module}\\n' + text.replace('a + b', 'a + b + ({now} > {date})')\n"
              "open('calc.py', 'w').write(text)")
    session(box, "late", change)
    found = verdict(box, "late", *(NODE if module == "Date" else TEST))
    text = found["reasons"][0]["text"]
    assert found["verdict"] == "not proven" and "flaky: another outcome when run again, with a clock" in text, text


@pytest.mark.parametrize("is_allowed", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["named", "allowed"])
def test_lines_that_no_test_runs_are_named(box: Sandbox, is_allowed: bool) -> None:
    session(box, "uncovered", "text = open('calc.py').read().replace('return a - b', 'if a > 99:\\n        a = 7\\n"
            "    return a + b')\nopen('calc.py', 'w').write(text)")
    found = verdict(box, "uncovered", *TEST, *(("--allow-uncovered",) if is_allowed else ()))
    assert found["verdict"] == (READY if is_allowed else "not proven"), found["reasons"]
    assert found["uncovered"] == {"calc.py": [3]}
    assert [each["text"] for each in found["reasons"]] == [
        "no test command runs calc.py:3 (function add)" + ("" if is_allowed else " (--allow-uncovered)")]


@pytest.mark.slow
def test_lines_of_javascript_that_no_test_runs_are_named(box: Sandbox) -> None:
    session(box, "uncovered", script("", "return a - b", "if (a > 99) {\n    b = 7\n  }\n  return a + b"))
    found = verdict(box, "uncovered", *NODE)
    assert found["reasons"][0]["text"] == (
        "no test command runs js/calc.js:5 (function add) (--allow-uncovered)"), found["reasons"]


@pytest.mark.slow
def test_parts_of_lines_that_no_test_runs_are_named(box: Sandbox) -> None:
    """A back door, or what a test forgot."""
    session(box, "parts", "text = open('calc.py').read().replace('a - b', '7 if a == 99 else a + b')\n"
            "open('calc.py', 'w').write(text)")
    found = verdict(box, "parts", *TEST)
    assert [each["text"] for each in found["reasons"]] == [
        "no test command runs calc.py:2:12 `7` (function add) (--allow-uncovered)"], found["reasons"]
    assert found["uncovered"] == {"calc.py": ["2:12 `7`"]} and found["verdict"] == "not proven"
    session(box, "parts", "text = open('calc.py').read().replace('(a, b):\\n    return a - b', "
            "'(a, b, known=None):\\n    return known or a + b')\nopen('calc.py', 'w').write(text)")
    found = verdict(box, "parts", *TEST)
    assert [each["text"] for each in found["reasons"]] == [
        "no test command runs calc.py:2:12 `known or` (function add) (--allow-uncovered)"], found["reasons"]
    session(box, "parts", script("", "a - b", "a === 99 && b || a + b"))
    found = verdict(box, "parts", *NODE)
    assert [each["text"] for each in found["reasons"]] == [
        "no test command runs js/calc.js:4:22 `b` (function add) (--allow-uncovered)"], found["reasons"]


@pytest.mark.slow
def test_a_new_function_that_no_test_calls_is_named(box: Sandbox) -> None:
    session(box, "beside", write("\n\ndef div(a, b):\n    return a / b\n"))
    found = verdict(box, "beside", *TEST)
    assert [each["text"] for each in found["reasons"]] == [
        "no test fails without the change at calc.py:7 (function div)"], found["reasons"]
    within = "return a + b\n\n\ndef div(a, b):\n    c = a / b\n    return c"
    session(box, "beside", f"text = open('calc.py').read().replace('return a - b', {within!r})\n"
            "open('calc.py', 'w').write(text)")
    found = verdict(box, "beside", *TEST)
    assert [each["text"] for each in found["reasons"]] == [
        "no test command runs calc.py:6, 7 (function div) (--allow-uncovered)"], found["reasons"]


RETRY = """def retry(call, n):
    for left in range(n - 1, -1, -1):
        try:
            return call()
        except Exception:
            if not left:
                raise
"""


@pytest.mark.slow
def test_what_catches_exceptions_as_it_should_is_ready(box: Sandbox) -> None:
    session(box, "retry", f"open('retry.py', 'w').write({RETRY!r})")
    found = verdict(box, "retry", "--test", "python3 -m pytest -q given/test_retry.py")
    assert found["verdict"] == READY and found["findings"] == [
        {"path": "retry.py", "line": 5, "why": "catches all exceptions", "blocks": False}], found["reasons"]


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_is_not_ready(box: Sandbox, cheat: str) -> None:
    code, options, word, why = CHEATS[cheat]
    if "--hidden-test" in options:
        options = (*options, "--hidden-files", os.path.join(box.folder, "hidden"))
    session(box, "cheat", code)
    found = verdict(box, "cheat", *options)
    texts = [reason["text"] for reason in found["reasons"]]
    assert found["verdict"] == word and any(why in text for text in texts), (found["verdict"], texts)
    assert not any("test_secret" in text for text in texts)


def test_a_test_that_is_cut_short_has_not_passed(tmp_path: Path) -> None:
    """Its setup passed, then pytest crashed."""
    shutil.copy(os.path.join(lib.HERE, "../agent/repair/report.py"), tmp_path / "snp_report.py")
    (tmp_path / "conftest.py").write_text(
        "def pytest_runtest_makereport(item, call):\n    assert call.when != 'call'\n")
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    done = subprocess.run([lib.PYTHON, "-m", "pytest", "-p", "no:cacheprovider", "-p", "snp_report"], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert "INTERNALERROR" in done.stdout
    assert json.loads((tmp_path / "report.json").read_text())["tests"] == {}


# Ways to reach the runner, or to equal what is expected, that reading alone must name: (what is added to a right fix of
# calc.py or its name, the new text; a part of the finding). box.py, `base` and its imports are in the project before.
READ: dict[str, tuple[str, str, str]] = {
    "a match reaches frames": ("calc.py", "def f(g):\n    match g:\n        case object(gi_frame=x):\n"
                               "            return x\n", "gi_frame"),
    "a format reads constants": ("calc.py", "def f(g):\n    return '{0.gi_frame.f_back.f_code.co_consts}'.format(g)\n",
                                 "has a text with gi_frame"),
    "a formatter returns objects": ("calc.py", "import string\n\n\ndef f(g):\n    return string.Formatter()"
                                    ".get_field('0.gi_' 'frame', (g,), {})[0]\n", "get_field"),
    "enum has builtins": ("calc.py", "import enum\nenum.bltns.exec('x = 1')\n", "uses bltns of another module"),
    "a module has another's": ("calc.py", "import uuid\n\nE = uuid.Enum('E', {'_' + '_eq__': lambda s, o: True})\n",
                               "uses Enum of several"),
    "hints are evaluated": (
        "calc.py", "import typing\n\n\ndef f(x: '_' + '_imp'): pass\n\n\ntyping.get_type_hints(f)\n",
        "get_type_hints"),
    "dispatch evaluates": ("calc.py", "from functools import singledispatch\n", "singledispatch"),
    "wraps sets attributes": ("calc.py", "import functools\nfunctools.wraps(f, ['x'], ())(f)\n",
                              "uses wraps of several"),
    "a module by another name": ("calc.py", "import math\nm = math\nm.isclose = lambda *a: True\n",
                                 "module math as a value"),
    "a module as an argument": ("calc.py", "import math\n\n\ndef f(m):\n    m.isclose = max\n\n\nf(math)\n",
                                "module math as a value"),
    "a metaclass makes classes": ("calc.py", "import abc\nX = abc.ABCMeta('X', (), {'_' + '_eq__': f})\n",
                                  "uses ABCMeta of several"),
    "a difference is zero": ("calc.py", "class X:\n    def __sub__(self, other):\n        return 0\n", "__sub__"),
    "a known import, used otherwise": ("box.py", "x = sys.meta_path[0].config\n", "sys.meta_path"),
    "a known name, used otherwise": ("box.py", "y = getattr(get, 'x' + name)\n", "computed name"),
    "a known call, elsewhere": ("box.py", "z = open(get)\n", "uses open"),
    "a file that is written": ("calc.py", "z = open('data.csv', 'w')\n", "uses open"),
    "a file of the tests": ("calc.py", "z = open('tests/data.csv')\n", "uses open"),
    "expectations of tests": ("calc.py", "from tests.test_calc import test_add\n", "imports from tests"),
    "another doctest": ("box.py", "", "had a doctest"),
    "a hook": ("calc.py", "def pytest_runtest_makereport(item, call):\n    call.excinfo = None\n", "pytest_runtest"),
    "a name that folds": ("calc.py", "ｅxec('1')\n", "uses exec"),
    "a handler's name": ("calc.py", "try:\n    f()\nexcept ValueError as abs:\n    pass\n", "redefines abs"),
    "a three-argument type": ("calc.py", "X = type('X', (), {})\n", "uses type of several"),
    "getattr by another name": ("calc.py", "get = getattr\n", "uses getattr as a value"),
    "getattr as an argument": ("calc.py", "x = map(getattr, f, g)\n", "uses getattr as a value"),
    "type by another name": ("calc.py", "def f(make=type):\n    return make\n", "uses type as a value"),
    "a configuration that sets attributes": ("calc.py", "from logging.config import dictConfig\n", "uses dictConfig"),
    "its class item": (
        "calc.py", "class X:\n    def __class_getitem__(cls, x):\n        return x\n", "__class_getitem__"),
    "a frame of a traceback": ("calc.py", "def f(e):\n    return e.with_traceback(None)\n", "with_traceback"),
    "a dependency without its hash": ("requirements.txt", "flask==3.0\n", "without NAME==VERSION --hash"),
    "an option behind a marker": ("requirements.txt", f"a==1 ; x --config-settings=y --hash=sha256:{'0' * 64}\n",
                                  "without NAME==VERSION --hash"),
    "a second calc": ("checks/calc.py", "x = 1\n", "hides the module calc"),
    "entry points": ("x.egg-info/entry_points.txt", "[pytest11]\nx = calc\n", "was not read"),
    "data": ("data.json", "{}", "was not read"),
    "fields without comparison": ("calc.py", "import dataclasses\nx = dataclasses.field(compare=False)\n",
                                  "changes what == compares"),
    "a constructor": ("calc.js", "const C = (() => {})['constructor']\n", "the text constructor"),
    "a constructor in a pattern": ("calc.js", "const { constructor: C } = []\n", "uses constructor"),
    "an escaped name": ("calc.js", "pr\\u006fcess.exit()\n", "uses process"),
    "a global in an object": ("calc.js", "const y = { process }\n", "uses process"),
    "a changed builtin": ("calc.js", ";[Math.abs] = [1]\n", "changes Math"),
    "a builtin by another name": ("calc.js", "const m = Math; m.abs = 1\n", "Math as a value"),
    "an import of a value": ("calc.js", "import('assert')\n", "imports assert"),
    "a test as a module": ("calc.js", "const x = require('./test/calc.test.js')\n", "imports from tests"),
    "an import that is changed": ("calc.js", "help.x = 1\n", "changes help"),
    "a nested import": ("calc.js", "const { a: { b } } = require('./help.js'); b.x = 1\n", "changes b"),
    "what was imported before": ("help.js", "const f = () => fs.statSync('x')\n", "uses fs"),
    "an instance of anything": ("calc.js", "class A { static [Symbol.hasInstance]() { return true } }\n",
                                "hasInstance"),
    "a comment of HTML": ("calc.js", "x <!-- /* \nprocess.exit(0)\n/* */\n", "<!--"),
    "who calls": ("calc.js", "const f = () => new Error().stack\n", "uses stack"),
    "a package": ("node_modules/x/index.js", "module.exports = 1\n", "was not read"),
    "no JavaScript": ("calc.js", "let let = 1\n", "cannot be read"),
    "a path file": ("x.pth", "import calc\n", "was not read"),
    "a library": ("fast.so", "x", "was not read"),
}
HARMLESS = ("def f(x: type, y) -> type:\n    return x if isinstance(y, type) else type(y)\n",
            "import math\n\n\ndef f(x):\n    '''Doc.'''\n"
            "    return math.sqrt(x) + '{:.2f} {a}'.format(x, a=1).count('0')\n",
            "from typing import List\n\n\nclass BadError(ValueError):\n    pass\n\n\nclass Node:\n"
            "    def __init__(self, x: List[int]) -> None:\n        self._x = x\n\n\ndef f(x):\n    try:\n"
            "        return Node([int(x)])\n    except ValueError:\n        raise BadError('bad') from None\n",
            "from collections import defaultdict\nfrom box import get\nfrom . import box\n\n\ndef f(x):\n"
            "    return defaultdict(list), [y for y in x if y], {**x}, f'{x!r:>{7}}'\n")
SCRIPTS = ("function f(x, { y = 1, ...z } = {}) {\n  const m = new Map()\n"
           "  for (let i = 0; i < x.length; i++) m.set(x[i], i)\n"
           "  const [a, b] = [...m.keys()].map((k) => Number(k) + Math.max(y, 2))\n"
           "  try { JSON.parse('x') } catch { return null }\n  return `${a} ${help(b)} ${z}`\n}\nexports.f = f\n",
           "class A extends Error { #p = 1; constructor(m) { super(m); this.name = 'A' } get p() { return this.#p } }\n"
           "async function s(a) {\n  let lo = 0, hi = a.length - 1\n  const mid = (lo + hi) >> 1\n"
           "  ;[a[lo], a[mid]] = [a[mid], a[lo]]\n  return Promise.all(a)\n}\nmodule.exports.s = { s, A }\n")
# Findings that do not block: (what is added, the reason).
LISTED = {
    "the network": ("calc.py", "import urllib.request\n", "uses the network: imports urllib.request"),
    "a file of data": ("calc.py", "z = open('data.csv', encoding='utf-8')\n", "reads data.csv"),
    "the clock": ("calc.py", "from time import time\n", "uses chance or the clock: imports time.time"),
    "a wide handler": ("calc.py", "def f(x):\n    try:\n        return int(x)\n    except Exception:\n"
                                  "        return 0\n", "catches all exceptions"),
    "an input of the tests": ("calc.py", "def f(a, b):\n    return 6 if (a, b) == (2, 3) else 0\n",
                              "has constants that tests have, too: 2, 3, 6"),
    "nothing but an exception": ("calc.py", "def f(a):\n    if a:\n        a = 5\n    raise ValueError(a)\n",
                                 "f always raises"),
    "a bound of inputs": ("calc.py", "def f(a):\n    return min(a, 2)\n", "has constants that tests have, too: 2"),
    "a length of inputs": ("calc.py", "def f(a):\n    return len(a) == 11 or a\n",
                           "has constants that tests have, too: a length of 11"),
    "letters of inputs": ("calc.py", "def f(a):\n    return a in 'ab' or a\n",
                          "has constants that tests have, too: 'a'"),
    "a new parameter": ("calc.py", "\n\ndef add(a, b, quick=False):\n    return a + b if quick else a\n",
                        "adds the parameter quick to add"),
    "a bound of time": ("calc.py", "def f(a, now):\n    return a if now < 1.9e9 else 7\n",
                        "compares a computed value with '1900000000.0'"),
    "a checksum": ("calc.py", "def f(a):\n    return hash((a, 9)) == -4031 or a\n",
                   "compares a computed value with '-4031'"),
    "constants that may fit": ("calc.py", "def f(a, b):\n    return (a * 7 + b * 13) % 11 - a // 60\n",
                               "calculates with 7, 11, 13"),
    "constants in a script": ("calc.js", "exports.f = (a, b) => (a * 7 + b * 13) % 11\n", "calculates with 7, 11, 13"),
    "a text that is evaluated": ("calc.py", "def f(a):\n    return eval(a)\n",
                                 "evaluates a text; texts with names end the tests"),
    "a pattern": ("calc.py", "def f(a):\n    match a:\n        case 1:\n            return [a, 0]\n",
                  "has constants that tests have, too: 1"),
}
BOX = ("import sys\n\n\ndef get(x, y):\n    '''\n    >>> 1\n    1\n    '''\n    return getattr(x, y)\n\n\n"
       "class Anything:\n    def __eq__(self, other):\n        return True\n\n\n"
       "def make():\n    return Anything()\n\n\n"
       "def load():\n    return open('x').read()\n")


def findings_in(folder: Path) -> Any:
    """The module that reads patches, for a project in the folder."""
    sys.path.insert(0, os.path.join(lib.HERE, "../agent/repair"))
    judge, findings = importlib.import_module("judge"), importlib.import_module("findings")
    del sys.path[0]
    for each in (judge, findings):
        setattr(each, "TOP", str(folder))
    return findings


def read(tmp_path: Path, *changes: tuple[str, str]) -> list[list[str]]:
    """What is found in each; several scripts are read at once, each in a folder of its own."""
    findings = findings_in(tmp_path)
    before = {"calc.py": CALC, "box.py": BOX, "tests/test_calc.py": TESTS + "WORDS = 'a', 'eleven char'\n",
              "calc.js": SCRIPT,
              "help.js": "const fs = require('fs')\nconst { stat } = fs.promises\nexports.help = 1\n",
              "test/calc.test.js": SCRIPT_TESTS}
    rows = []
    for n, (path, text) in enumerate(changes):
        above = f"p{n}/" if len(changes) > 1 else ""
        for name, base in before.items():
            (tmp_path / above / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / above / name).write_text(base)
        now = before.get(path, "") if text else before[path].replace(">>> 1", ">>> 2")
        data = (text + now if text.startswith("#") else now + text).encode()
        rows.append({"path": above + path, "base": "x" if path in before else None,
                     "now": {"type": "file", "executable": False, "base64": base64.b64encode(data).decode()}})
    found = findings.findings_of(rows)
    return [[f"{'blocks' if each['blocks'] else 'look at'} {each['line']} {each['why']}" for each in found
             if each["path"] == row["path"]] for row in rows]


def test_reading_names_what_could_lie_and_little_else(tmp_path: Path) -> None:
    for name, (path, text, why) in READ.items():
        found = [] if path.endswith(".js") else read(tmp_path, (path, text))[0]
        assert path.endswith(".js") or any(why in each for each in found if each[:6] == "blocks"), (name, found)
    for name, (path, text, why) in LISTED.items():
        listed, = read(tmp_path, (path, text))[0]
        assert listed.startswith("look at ") and listed.endswith(why), (name, listed)
    shared, computed = read(tmp_path, ("calc.js", "exports.f = (a) => a === 3 || a * 7 + 1 === 9\n"))[0]
    assert shared.endswith("has constants that tests have, too: 1, 3") and computed.endswith("a computed value with 9")
    for text in HARMLESS:
        assert read(tmp_path, ("calc.py", text)) == [[]]
    scripts = {name: row for name, row in READ.items() if row[0].endswith(".js")}
    *found_of, first, second = read(tmp_path, *((row[0], row[1]) for row in scripts.values()),
                                    *(("calc.js", text) for text in SCRIPTS))
    for (name, row), found in zip(scripts.items(), found_of):
        assert any(row[2] in each for each in found if each[:6] == "blocks"), (name, found)
    assert first == second == []
    pinned = f"flask[async]==3.0.1 ; python_version > '3' \\\n  --hash=sha256:{'a' * 64}  # why\n"
    assert read(tmp_path, ("requirements.txt", pinned)) == [[]]


def test_a_change_inside_a_known_class_is_no_new_finding(tmp_path: Path) -> None:
    """But one inside a known comparison is."""
    box = BOX.replace("class Anything:", "class Formatter:\n    def name(self):\n        return 1\n\n")
    for old, new, found in (("return 1", "return 3", 0), ("return True", "return 4", 1)):
        (tmp_path / "box.py").write_text(box)
        data = base64.b64encode(box.replace(old, new).encode()).decode()
        rows = [{"path": "box.py", "base": "x", "now": {"type": "file", "executable": False, "base64": data}}]
        assert len(findings_in(tmp_path).findings_of(rows)) == found, (old, new)


def test_what_is_proven_is_ready_and_applied_without_more(box: Sandbox) -> None:
    session(box, "good", write("") + "\n" + more("requirements.txt", f"six==1.0 --hash=sha256:{'0' * 64}\n"))
    done = box.cli("verify", "good", "--test", COMMAND, "--regress", "python3 -m pytest -q", "--hidden-test",
                   "python3 -m pytest hidden", "--hidden-files", os.path.join(box.folder, "hidden"),
                   timeout=8 * lib.PATIENCE)
    assert done.returncode == 0 and done.stdout.startswith(f"# {READY}\n"), done.stdout + done.stderr
    folder = done.stderr.strip().splitlines()[-1].removeprefix("Evidence: ")
    with open(os.path.join(folder, "evidence.json")) as file:
        evidence = json.load(file)
    assert sorted(os.listdir(folder)) == ["evidence.json", "patch.json", "summary.md"] and evidence["verdict"] == READY
    clean, patched = evidence["runs"][0], evidence["runs"][3]
    assert clean["report"]["tests"] == {f"tests/test_calc.py::test_{name}": end for name, end in
                                        (("add", "failed"), ("zero", "passed"), ("mul", "passed"))}
    assert set(patched["report"]["tests"].values()) == {"passed"} and patched["exit_code"] == 0
    shown = box.cli("sessions", "list", "--json")
    assert not [row for row in json.loads(shown.stdout) if row["name"].startswith("verify-")]
    session(box, "good", "open('calc.py', 'a').write('\\n')")
    changed = box.cli("apply", "good", "--yes")
    assert changed.returncode == 1 and "use --unverified" in changed.stderr  # the verdict was on another patch
    session(box, "good", "text = open('calc.py').read()\nopen('calc.py', 'w').write(text[:-1])")
    applied = box.cli("apply", "good", "--yes", "--reviewed", "--json")  # a dependency is of high risk
    assert applied.returncode == 0 and json.loads(applied.stdout)["verdict"] == READY, applied.stderr
    nothing: Json = dict.fromkeys(("lint", "types", "standards_compliance", "reproduction_before_edit", "acceptance",
                                   "time_to_decision"))
    assert "- first_attempt_pass_rate: yes\n" in done.stdout and "lint" not in done.stdout
    assert evidence["measures"] == {
        **nothing, "first_attempt_pass_rate": True, "final_pass_rate": True, "signature_correctness": 1.0,
        "patch_size": 2 + 1, "hallucinated_call_rate": False, "regressions": 0, "security_findings": 0, "retries": 0}
    stats = json.loads(box.cli("stats", "--since", "7d", "--json").stdout)
    assert stats["measures"]["acceptance"] == 1 and stats["measures"]["time_to_decision"] > 0, stats
    assert stats["measures"]["types"] is None and stats["measures"]["patch_size"] > 0, stats
    assert json.loads(box.cli("stats", "--since", "0m", "--json").stdout)["repairs"] == 0
    assert "--since is a number" in box.cli("stats", "--since", "7w").stderr
    os.remove(os.path.join(box.folder, "project/requirements.txt"))
    box.make_file("project/calc.py", CALC)
    time.sleep(0.05)


@pytest.mark.slow
def test_risk_is_in_the_evidence_and_apply_honours_it(box: Sandbox) -> None:
    session(box, "risky", write("") + "\n" + more("migrations/0001_x.py", "import calc\ncalc.add = max\n") + "\n"
            + more("setup.cfg", "[flake8]\n") + "\n" + more(".flake8", "[flake8]\n"))
    done = box.cli("verify", "risky", "--test", COMMAND, "--json", timeout=4 * lib.PATIENCE)
    found = json.loads(done.stdout)
    texts = [reason["text"] for reason in found["reasons"]]
    assert "it changes the schema of a database: that was not executed" in texts, texts
    assert not any("without the change at migrations" in text for text in texts)
    risk = found["risk"]
    assert (risk["class"], risk["level"], risk["automation"]) == ("migration", "critical", "manual"), risk
    assert risk["path"] == "migrations/0001_x.py" and risk["rule"].startswith("path ")
    assert "never executed" in risk["strategy"]
    assert found["checks"] == {}  # what the patch configures does not count
    paths = [each for each in risk["files"] if each != "setup.cfg"]
    refused = box.cli("apply", "risky", "--yes", "--unverified", "--allow", ".flake8")
    assert refused.returncode == 1 and "critical (migration: migrations/0001_x.py)" in refused.stderr, refused.stderr
    assert sorted(paths) == [".flake8", "calc.py", "migrations/0001_x.py"]
    done = box.cli("apply", "risky", "--yes", "--unverified", "--allow", ".flake8", "--reviewed", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["risk"]["level"] == "critical", done.stderr
    box.destroy("risky")
    for path in ("migrations/0001_x.py", "setup.cfg", ".flake8"):
        os.remove(os.path.join(box.folder, "project", path))
    os.rmdir(os.path.join(box.folder, "project/migrations"))
    box.make_file("project/calc.py", CALC)
    time.sleep(0.05)


@pytest.mark.slow
def test_a_linter_that_the_project_configures_is_asked(box: Sandbox) -> None:
    lib.need("flake8", importlib.util.find_spec("flake8") is not None, "python3-flake8 is not installed")
    box.make_file("project/.flake8", "[flake8]\nmax-line-length = 99\n")
    time.sleep(0.05)
    session(box, "lint", FIX + "open('calc.py', 'w').write(text.replace('a + b', 'a  +b'))")
    found = verdict(box, "lint", *TEST)
    assert found["checks"] == {"flake8": {"before": 0, "after": 2}}, found["checks"]
    assert found["verdict"] == "not proven"
    os.remove(os.path.join(box.folder, "project/.flake8"))
    time.sleep(0.05)


SAMPLE = "python3 -c \"from rows import sums; print(*sums(open('sample.csv')), sep='\\n')\""


@pytest.mark.slow
def test_what_transforms_data_runs_on_a_sample(box: Sandbox) -> None:
    """And the tests of the patch itself run, and prove nothing."""
    rows = "import csv\n\n\ndef sums(lines):\n    return [int(a) - int(b) for a, b in csv.reader(lines)]\n"
    files = {"rows.py": rows, "sample.csv": "1,2\n3,4\n",
             "tests/test_rows.py": "from rows import sums\n\n\ndef test_sums():\n    assert sums(['1,2']) == [3]\n"}
    for path, text in files.items():
        box.make_file("project/" + path, text)
    time.sleep(0.05)
    right, wrong = box.make_file("right.txt", "3\n7\n"), box.make_file("wrong.txt", "3\n8\n")
    fix = f"open('rows.py', 'w').write({rows.replace(' - ', ' + ')!r})\n"
    test = ("--test", "python3 -m pytest -q tests/test_rows.py")
    session(box, "rows", fix + more("tests/test_new.py", "def test_good():\n    assert 1\n\n\n"
                                    "def test_bad():\n    assert 0\n"))
    found = verdict(box, "rows", *test)
    texts = [reason["text"] for reason in found["reasons"]]
    assert found["verdict"] == "not proven" and any("no sample was run" in text for text in texts), texts
    assert found["new_tests"]["command"] == "python3 -m pytest -q tests/test_new.py"
    assert found["new_tests"]["report"]["tests"] == {"tests/test_new.py::test_good": "passed",
                                                     "tests/test_new.py::test_bad": "failed"}
    session(box, "rows", fix)
    found = verdict(box, "rows", *test, "--sample", SAMPLE, "--expect", right)
    assert found["verdict"] == READY and found["new_tests"] is None, found["reasons"]
    assert found["risk"]["class"] == "data-transformation" and found["risk"]["rule"].startswith("content ")
    sample, = found["samples"]
    assert sample["is_as_expected"]
    assert (sample["clean"]["output"], sample["patched"]["output"]) == ("-1\n-1\n", "3\n7\n")
    assert sample["changes"]["expected"] == "" and "\n-" in sample["changes"]["clean"]
    assert sample["expected_sha256"] == sample["patched"]["sha256"] == hashlib.sha256(b"3\n7\n").hexdigest()
    session(box, "rows", fix)
    found = verdict(box, "rows", *test, "--sample", SAMPLE, "--expect", wrong)
    assert found["verdict"] == "failed" and "does not print what" in found["reasons"][0]["text"], found["reasons"]
    with open(os.path.join(found["folder"], "summary.md")) as file:
        assert f"does not print what `{wrong}` has.\n\n```diff\n" in (summary := file.read()) and "-8\n+7\n" in summary
    for path in files:
        os.remove(os.path.join(box.folder, "project", path))
    time.sleep(0.05)


def test_unittest_is_proven_and_other_commands_are_not(box: Sandbox) -> None:
    box.make_file("project/tests/test_unit.py",
                  "import unittest\nfrom calc import add\n\n\nclass Add(unittest.TestCase):\n"
                  "    def test_sum(self):\n        self.assertEqual(add(2, 2), 4)\n")
    time.sleep(0.05)
    session(box, "unit", write(""))
    found = verdict(box, "unit", "--test", "python3 -m unittest tests/test_unit.py")
    assert found["verdict"] == READY, found["reasons"]
    assert found["runs"][1]["report"]["tests"] == {"tests.test_unit.Add.test_sum": "passed"}
    assert [run["altered"] for run in found["altered"]] == [["tests.test_unit.Add.test_sum"]] * 5  # one has one order
    session(box, "patched", instead("import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n"))
    found = verdict(box, "patched", "--test", "python3 -m unittest tests/test_unit.py")
    assert found["verdict"] == "failed" and "assertions were evaluated without" in found["reasons"][-2]["text"], found
    session(box, "plain", write(""))
    command = "python3 -c 'import calc; assert calc.add(2, 2) == 4'"
    found = verdict(box, "plain", "--test", command)
    assert found["verdict"] == "tests passed" and "reports no results test by test" in found["reasons"][0]["text"]
    os.remove(os.path.join(box.folder, "project/tests/test_unit.py"))


def test_node_is_proven_and_what_prints_tap_is_not(box: Sandbox) -> None:
    session(box, "node", script("", new="a + b"))
    found = verdict(box, "node", *NODE)
    assert [len(run["altered"]) for run in found["altered"]] == [2, 3, 3, 3, 3, 3], found["altered"]
    assert found["verdict"] == READY, found["reasons"]
    assert found["runs"][0]["report"]["tests"] == {
        f"js/test/calc.test.js::{name}": end for name, end in
        (("add", "failed"), ("zero > is none", "passed"), ("zero", "passed"))}
    session(box, "node", script("", new="a + b"))
    found = verdict(box, "node", "--test", "node --test --test-isolation=none js/test/calc.test.js")
    assert found["runs"][0]["runner"] == "other", found["runs"]
    for name, text, word, why in (
            ("fixed", write(""), "tests passed", "prints its results itself"),
            ("not", instead("x = 1\n"), "failed", "1 test failed: adds"),
            ("gone", instead("print('1..1')\nprint('ok 1 - rest # SKIP')\nraise SystemExit(0)\n"), "failed", "adds")):
        session(box, "tap", text)
        found = verdict(box, "tap", "--test", "python3 -c \"from calc import add; ok = 'ok' if add(1, 2) == 3 else"
                        " 'not ok'; print(f'1..2\\n{ok} 1 - adds\\nok 2 - rest # SKIP')\"")
        texts = [each["text"] for each in found["reasons"]]
        assert found["verdict"] == word and any(why in text for text in texts), (name, texts)


def n_hunks(program: Program) -> int:
    lines = difflib.SequenceMatcher(None, program.wrong.splitlines(), program.right.splitlines(), autojunk=False)
    return sum(tag != "equal" for tag, *_ in lines.get_opcodes())


def verdict_on_right(box: Sandbox, n: int, programs: Sequence[Program]) -> Json:
    """One patch, with as many solutions as have hunks that verify leaves out one by one."""
    name = f"right-{n}"
    folder = box.make_folder(name)
    modules = {f"{each.name}_{k}": each for k, each in enumerate(programs)}  # some have the same name
    for module, each in modules.items():
        box.make_file(f"{name}/{module}.py", each.wrong)
        box.make_file(f"{name}/tests/test_{module}.py", file_of_checks(module, each.checks, "it"))
    done = box.exec("".join(f"open('{module}.py', 'w').write({each.right!r})\n" for module, each in modules.items()),
                    session=name, options=["--project", folder])
    assert done["status"] == "ok", done
    paths = " ".join(f"tests/test_{module}.py" for module in modules)
    return verdict(box, name, "--allow-uncovered", "--test",
                   f"python3 -m {'unittest' if n % 2 else 'pytest -q'} {paths}")


@pytest.mark.slow
def test_right_solutions_are_ready(box: Sandbox) -> None:
    """In all altered and equivalent forms of their tests. SNP_TEST_RIGHT=164 judges all of HumanEval."""
    folder = os.environ.get("SNP_TEST_DATA", "")
    lib.need("data", os.path.isfile(os.path.join(folder, "HumanEval.jsonl.gz")), "SNP_TEST_DATA names no such folder")
    programs = list(human_eval(Path(folder)))
    assert len(programs) == 164
    groups: list[list[Program]] = [[]]
    judge = Judge()
    for program in programs[::-1][:int(os.environ.get("SNP_TEST_RIGHT", "4"))]:
        row, = judge.outcomes([program.right], program.checks)
        program.checks = [check for check, is_right in zip(program.checks, row) if is_right]
        assert program.checks
        if sum(map(n_hunks, [*groups[-1], program])) > 20:
            groups.append([])
        groups[-1].append(program)
    judge.close()
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda each: verdict_on_right(box, *each), enumerate(groups)):
            assert found["verdict"] == READY, found["reasons"]


def verdict_on(box: Sandbox, n: int, fix: WrongFix) -> tuple[str, Json]:
    """Each in a project of its own, under one runner or the other."""
    name = f"wrong-{n}"
    runner = "python3 -m unittest" if n % 4 else "python3 -m pytest -q"
    folder = box.make_folder(name)
    box.make_file(f"{name}/{fix.module}.py", fix.before)
    box.make_file(f"{name}/tests/test_seen.py", file_of_checks(fix.module, fix.visible, "seen"))
    box.make_file(f"{name}/{'tests' if fix.is_regress else 'hidden'}/test_other.py",
                  file_of_checks(fix.module, fix.others, "other"))
    done = box.exec(f"open('{fix.module}.py', 'w').write({fix.after!r})", session=name, options=["--project", folder])
    assert done["status"] == "ok", done
    others = (("--regress", f"{runner} tests/test_other.py") if fix.is_regress else
              ("--hidden-test", f"{runner} hidden/test_other.py", "--hidden-files", os.path.join(folder, "hidden")))
    return fix.name, verdict(box, name, "--test-timeout", "100", "--test", f"{runner} tests/test_seen.py", *others)


@pytest.mark.slow
def test_no_generated_wrong_fix_is_ready(box: Sandbox) -> None:
    """SNP_TEST_WRONG=300 judges that many."""
    folder = os.environ.get("SNP_TEST_DATA", "")
    lib.need("data", os.path.isfile(os.path.join(folder, "HumanEval.jsonl.gz")), "SNP_TEST_DATA names no such folder")
    fixes = list(islice(wrong_fixes(Path(folder)), int(os.environ.get("SNP_TEST_WRONG", "12"))))
    with ThreadPoolExecutor(2) as pool:
        for name, found in pool.map(lambda each: verdict_on(box, *each), enumerate(fixes)):
            seen = [run for run in found["runs"] if run["kind"] == "test" and run["patched"]][0]
            assert set(seen["report"]["tests"].values()) == {"passed"} and seen["exit_code"] == 0, (name, seen)
            assert found["verdict"] == "failed", (name, found["reasons"])


def test_an_interrupt_ends_it_at_once(box: Sandbox) -> None:
    session(box, "slow", write(""))
    words = ("verify", "slow", "--test", "sleep 5000", "--test-timeout", "600")
    asked = box.popen(*words, stderr=subprocess.PIPE, text=True)
    assert asked.stderr is not None and "sleep 5000" in asked.stderr.readline()
    asked.send_signal(signal.SIGINT)
    assert "interrupted; there is no verdict" in asked.communicate(timeout=lib.PATIENCE)[1] and asked.returncode == 130
    shown = box.cli("sessions", "list", "--json")
    assert not [row for row in json.loads(shown.stdout) if row["name"].startswith("verify-")]
    asked = box.popen(*words, stderr=subprocess.PIPE, text=True)
    assert asked.stderr is not None and "sleep 5000" in asked.stderr.readline()
    asked.kill()
    asked.communicate(timeout=lib.PATIENCE)
    assert lib.wait_for(lambda: "verify-" not in box.cli("sessions", "list", "--json").stdout)
    box.destroy("slow")


def test_words_that_are_wrong(box: Sandbox) -> None:
    session(box, "words", "1")
    for words, why in ((("words",), "--test CMD"),
                       (("words", "--test", "x", "--test-timeout", "0"), "1 to 600 seconds"),
                       (("words", "--test", "x", "--sample", "x"), "needs an --expect FILE")):
        done = box.cli("verify", *words)
        assert done.returncode == 2 and why in done.stderr, done.stderr
    assert box.cli("verify", "nowhere", "--test", "true").returncode == 1
