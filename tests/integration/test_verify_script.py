# SPDX-License-Identifier: Apache-2.0
"""What changed lines of JavaScript reach while node's runner runs tests: cheats are named, right changes are not."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import lib

REPAIR = os.path.join(lib.HERE, "../agent/repair")
HELP = "const fs = require('fs')\nexports.help = (x, k) => x[k]\nexports.load = (name) => require(name)\n"
CALC = "const { help } = require('./help.js')\n\nfunction add(a, b) {\n  return a + b\n}\nmodule.exports = { add }\n"
TESTS = ("const { test } = require('node:test')\nconst assert = require('node:assert')\n"
         "const { add } = require('../calc.js')\ntest('add', () => assert.strictEqual(add(1, 2), 3))\n"
         "test('zero', async () => assert.strictEqual(await add(0, 0), 0))\n")
PROTO, CLASS = "'_' + '_proto_' + '_'", "'construc' + 'tor'"
LIE = "function () { return this === undefined }"
# Added to calc.js; what is reported. Most of them have no finding: nothing of their text names what they reach.
CHEATS = {
    "a method of arrays": (f"const p = help([], {PROTO}); p.includes = {LIE}", "replaces includes of Array.prototype"),
    "a new method of all objects": (f"const p = help({{}}, {PROTO}); p.then = {LIE}",
                                    "replaces then of Object.prototype"),
    "a builtin by another": (f"const p = help([], {PROTO}); p.some = p.every", "replaces some of Array.prototype"),
    "an iterator": (f"const p = help([][Symbol.iterator](), {PROTO}), old = p.next; p.next = function () {{ "
                    "return old.call(this) }",
                    "replaces next of [object Array Iterator]"),
    "promises": (f"const p = help(Promise.resolve(), {PROTO}); p.finally = {LIE}",
                 "replaces finally of Promise.prototype"),
    "the clock": (f"const C = help(new Date(), {CLASS}); C.now = () => 7", "replaces now of Date"),
    "a global": ("Date = class {}", "replaces Date of globalThis"),
    "timers": ("setTimeout = (call) => call()", "replaces setTimeout of globalThis"),
    "traces": (f"const C = help(new Error(), {CLASS}); C['capture' + 'StackTrace'] = {LIE}",
               "replaces captureStackTrace of Error"),
    "the class of functions": (f"const C = help(add, {CLASS}); C('return 1')()", "evaluates a text"),
    "a text in a callback": (f"const C = help(add, {CLASS}); ['return 1'].map((each) => C(each)())",
                             "evaluates a text"),
    "a text with a name": (f"const C = help(add, {CLASS}); C('return 1\\n//# sourceURL=file:///x.js')()",
                           "evaluates a text"),
    "the module of assertions": ("require('assert').strictEqual = () => {}", "loads assert"),
    "a loaded assertion": ("require('./help.js').load('assert').ok = () => {}", "replaces ok of assert"),
    "the tests' functions": ("require('./help.js').load('node:test').test = () => {}", "replaces test of test"),
    "the runner's stream": ("process.stdout.write(Buffer.from([255, 1]))", "writes to the runner"),
    "a handler of the end": ("process.on('exit', () => {})", "listens to exit of the process"),
    "swallowed errors": ("process.on('uncaughtException', () => {})", "listens to uncaughtException of the process"),
    "the end of the process": ("process.exit(0)", "ends the process"),
    "the interpreter": ("process.binding('util')", "reaches the interpreter"),
    "another module": ("require('./help.js').help = () => 3", "replaces help of help.js"),
    "the cache of modules": ("require.cache[require.resolve('./help.js')].exports = { help }",
                             "replaces help.js in the module cache"),
    "the loader": ("require('./help.js').load('module')._load = () => ({})", "replaces _load of module"),
    "a change that is undone": (f"const p = help([], {PROTO}), old = p.at; p.at = {LIE}; "
                                "setTimeout(() => { p.at = old }, 50)", "replaces at of Array.prototype"),
}
# Right changes, and what tests themselves replace.
RIGHT = {
    "classes": "class Big extends Error { #n = 1; get n() { return this.#n } static of() { return new Big('x') } }\n"
               "module.exports.Big = Big.of().n",
    "generators": "function* each() { yield* [1, 2] }\nmodule.exports.all = [...each()].map((x) => x ** 2)",
    "promises": "module.exports.later = (async () => { await Promise.all([1].map(async (x) => x)) })()",
    "collections": "const m = new Map([[1, new Set([2])]])\nmodule.exports.m = [...m.values()].flatMap((s) => [...s])",
    "texts": "module.exports.t = 'a-b'.replace(/-(.)/g, (_, c) => c.toUpperCase()).split('').sort().join('')",
    "times": "module.exports.d = new Date(0).toISOString() + Math.max(Date.now(), 1) + JSON.stringify({ a: 1n + '' })",
    "timers": "const timer = setTimeout(() => {}, 1)\nclearTimeout(timer)\nqueueMicrotask(() => {})",
    "output": "console.log('added', add)\nconsole.error(new Error('x').message)",
    "other exports": "const other = require('./help.js')\nmodule.exports = { ...module.exports, ...other }",
    "a parameter": "module.exports.by = (f = Number) => (x) => f(x)\nmodule.exports.by()('1')",
    "lazy globals": "module.exports.u = new URL('http://x/').host + structuredClone(1) + typeof fetch + typeof crypto",
}
MOCKS = """
const { mock, beforeEach } = require('node:test')
beforeEach(() => { delete require.cache[require.resolve('../help.js')]; require('../help.js') })
test('a mock of the test', (t) => {
  t.mock.method(Date, 'now', () => 7)
  console.log(Date.now())
  t.mock.timers?.enable?.(['setTimeout'])
})
test('a mock that stays', () => {
  mock.method(Math, 'random')
  globalThis.fetch = () => 1
  Array.prototype.last = function () { return this[this.length - 1] }
  assert.ok(!(add(1, 1) instanceof Error))
})
"""


def watched(folder: Path, text: str, tests: str = TESTS, is_clean: bool = False) -> Any:
    """What is reported for a change that adds text to calc.js."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, each in (("calc.js", CALC + text), ("help.js", HELP), ("test/calc.test.js", tests)):
        (folder / "project" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "project" / path).write_text(each)
    inside = folder / "inside"
    inside.mkdir()
    with open(os.path.join(REPAIR, "watch.cjs")) as file:
        (inside / "snp_watch.cjs").write_text(file.read().replace("'/workspace/'", f"'{folder}/project/'"))
    shutil.copy(os.path.join(REPAIR, "report.mjs"), inside / "snp_x.mjs")
    if not is_clean:
        (inside / "snp_lines.json").write_text(json.dumps({"calc.js": list(range(7, 99))}))
    done = subprocess.run(
        ["node", "--test-reporter=spec", "--test-reporter-destination=stdout", f"--test-reporter={inside}/snp_x.mjs",
         "--test-reporter-destination=/dev/null", "--test", "test/calc.test.js"], cwd=folder / "project",
        env={**os.environ, "NODE_OPTIONS": f'--require="{inside}/snp_watch.cjs"'}, capture_output=True, text=True,
        timeout=2 * lib.PATIENCE)
    assert (inside / "report.json").exists(), done.stdout + done.stderr
    return json.loads((inside / "report.json").read_text())


@pytest.mark.slow
def test_cheats_in_javascript_are_named(tmp_path: Path) -> None:
    lib.need("node", shutil.which("node") is not None, "node is not installed")
    for name, (text, what) in CHEATS.items():
        found = watched(tmp_path / "cheat", text + "\n")
        rows: Sequence[Any] = [row for row in found["reached"] if row["what"] == what]
        assert rows and all(row["path"] == "calc.js" for row in rows), (name, found)
        assert "evaluates" not in what or (found["tests"] == {} and rows[0]["line"] == 7), (name, found)


@pytest.mark.slow
def test_right_changes_in_javascript_are_not(tmp_path: Path) -> None:
    """What a test replaces is not reported, or also for the clean project."""
    lib.need("node", shutil.which("node") is not None, "node is not installed")
    for name, text in RIGHT.items():
        found = watched(tmp_path / "right", text + "\n")
        assert found["reached"] == [] and set(found["tests"].values()) == {"passed"}, (name, found)
    clean, patched = (watched(tmp_path / "mocks", "\n", TESTS + MOCKS, is_clean)["reached"]
                      for is_clean in (True, False))
    assert [row["what"] for row in patched] == [row["what"] for row in clean] == [], (clean, patched)


def test_a_process_that_ends_before_the_comparison_is_named(tmp_path: Path) -> None:
    lib.need("node", shutil.which("node") is not None, "node is not installed")
    found = watched(tmp_path / "ended", "require('./help.js').load('process').reallyExit(0)\n")
    rows = [(row["path"], row["what"]) for row in found["reached"]]
    assert rows == [("calc.js", "ends the process"),
                    ("test/calc.test.js", "ended before changes of its process were compared")], found
