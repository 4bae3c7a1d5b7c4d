# SPDX-License-Identifier: Apache-2.0
"""Report the result of each test: a plugin of pytest (-p), and a runner for unittest (run as a program).

Its name and folder are random for each run, and the report is written once, at the end. snp_form.json beside it has the
altered form of the tests (alter.py) and is removed before any code of the project runs. With SNP_PART the process runs
one file of several (a path for pytest, a module for unittest; . = all), from its last test to its first, and adds its
results to the report.
"""

import ast
import hashlib
import importlib.machinery
import json
import os
import sys
import types
import unittest
from typing import Any, Dict, List, Set

TESTS: Dict[str, str] = {}
GIVEN: Dict[str, str] = {}  # hashes of the parameters of tests that have any
ERRORS: List[str] = []
ASSERTED: Dict[str, Set[int]] = {}  # failed assertions that a passing test must reach
TOP = "/workspace/"
PART = os.environ.pop("SNP_PART", "")
WORST = ["passed", "xfailed", "skipped", "xpassed", "failed", "error"]


def add(name: str, outcome: str) -> None:
    TESTS[name] = max(outcome, TESTS.get(name, "passed"), key=WORST.index)


def beside(name: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def keep(name: str, value: Any) -> None:
    with open(beside(name), "x") as file:
        json.dump(value, file)


def write(code: int) -> None:
    if PART and os.path.exists(beside("report.json")):
        with open(beside("report.json")) as file:
            before = json.load(file)
        TESTS.update(before["tests"])
        ERRORS.extend(before["errors"])
        os.remove(beside("report.json"))
    asserted = {path: sorted(lines) for path, lines in ASSERTED.items()}
    keep("report.json", {"tests": TESTS, "errors": ERRORS, "given": GIVEN, "asserted": asserted, "exit_code": code})


def begin(names: List[str]) -> None:
    """Write the collected tests, for a run of the clean project that does not end."""
    if not PART:
        tests = dict.fromkeys(names, "error")
        keep("begun.json", {"tests": tests, "errors": ERRORS, "given": GIVEN, "is_cut": True})


# Altered forms ------------------------------------------------------------------------------

GIVEN_FORM: List[str] = []  # for workers of pytest-xdist, which start after the file is removed
CODES: Dict[str, Any] = {}  # compiled replacements of test files, made before other code can change the files


class Altered(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        return CODES[self.path]


class Finder:
    """Import altered tests without changing their files."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        origin = os.path.realpath(spec.origin) if spec is not None and spec.origin is not None else ""
        if spec is None or origin not in CODES:
            return None
        spec.loader = Altered(name, origin)
        return spec


def form_begin(text: str) -> None:
    form = json.loads(text)
    code: Dict[str, Any] = {"__name__": "alter"}
    exec(compile(form["code"], "alter.py", "exec"), code)
    for path, data in form["texts"].items():
        tree, _ = code["altered"](data.encode("latin-1"), form["form"])
        CODES[path] = compile(tree, path, "exec", dont_inherit=True)
    sys.meta_path.insert(0, Finder)


if os.path.exists(beside("snp_form.json")):
    with open(beside("snp_form.json")) as given:
        GIVEN_FORM.append(given.read())
    os.remove(beside("snp_form.json"))
    form_begin(GIVEN_FORM[0])


PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


def told(value: Any, depth: int = 0) -> str:
    """A text for a value, made without code of its class."""
    kind = type(value)
    if kind in PLAIN:
        return repr(value)
    if depth > 20:
        return "..."
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind in (list, tuple):
        return f"{name}({','.join(told(each, depth + 1) for each in value)})"
    if kind in (set, frozenset):
        return f"{name}({','.join(sorted(told(each, depth + 1) for each in value))})"
    if kind is dict:
        return f"{name}({','.join(told(each, depth + 1) for pair in value.items() for each in pair)})"
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return f"{name}({value.__module__}.{value.__qualname__})"
    try:
        return f"{name}({told(dict(object.__getattribute__(value, '__dict__')), depth + 1)})"
    except AttributeError:
        return name


def is_needed(path: str, line: int) -> bool:
    """Whether the line is an assertion outside branches and handlers that is not a constant."""
    with open(path, "rb") as file:
        todo: List[ast.AST] = [ast.parse(file.read())]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.stmt) and node.lineno == line and isinstance(node, (ast.Assert, ast.Expr)):
            said = node.test if isinstance(node, ast.Assert) else node.value
            name = getattr(getattr(said, "func", None), "attr", "")
            return not isinstance(said, ast.Constant) if isinstance(node, ast.Assert) else name.startswith("assert")
        if not isinstance(node, (ast.If, ast.ExceptHandler)):
            todo.extend(ast.iter_child_nodes(node))
    return False


def assertion_add(path: str, error: Any, place: Any) -> None:
    """Record the assertion at which a test failed; place: a traceback."""
    line = 0
    while place is not None and isinstance(error, AssertionError) and path.startswith(TOP):
        line = place.tb_lineno if place.tb_frame.f_code.co_filename == path else line
        place = place.tb_next
    if line and is_needed(path, line):
        ASSERTED.setdefault(path[len(TOP):], set()).add(line)


# pytest -------------------------------------------------------------------------------------


def pytest_runtest_logreport(report: Any) -> None:
    outcome = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = "xpassed" if outcome == "passed" else "xfailed"
    elif outcome == "failed" and report.when != "call":
        outcome = "error"
    if outcome != "passed" or report.when == "call":  # a pass counts only after the call: the test may be cut short
        add(report.nodeid, outcome)


def pytest_exception_interact(node: Any, call: Any) -> None:
    assertion_add(str(getattr(node, "path", None) or node.fspath), call.excinfo.value, call.excinfo.tb)


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        ERRORS.append(report.nodeid)


def pytest_configure_node(node: Any) -> None:
    node.workerinput["snp_form"] = (GIVEN_FORM, PART)


pytest_configure_node.pytest_impl = {"optionalhook": True}  # type: ignore[attr-defined]


def pytest_configure(config: Any) -> None:
    global PART
    if hasattr(config, "workerinput"):
        given, PART = config.workerinput["snp_form"]
        for text in given:
            form_begin(text)
    elif getattr(config.option, "dist", "no") == "no":
        GIVEN_FORM.clear()
    part = os.path.join(str(getattr(config, "rootpath", None) or config.rootdir), PART)
    if PART and os.path.isfile(part):
        config.args[:] = [each for each in config.args if os.path.abspath(each.split("::")[0]) == part] or [part]


def pytest_collection_modifyitems(items: List[Any]) -> None:
    if PART:
        items.reverse()


def pytest_collection_finish(session: Any) -> None:
    for item in session.items:
        if hasattr(item, "callspec"):
            GIVEN[item.nodeid] = hashlib.sha256(told(item.callspec.params).encode("utf-8", "replace")).hexdigest()
    if not hasattr(session.config, "workerinput"):
        begin([item.nodeid for item in session.items])


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    if not hasattr(session.config, "workerinput"):
        write(int(exitstatus))


# unittest -----------------------------------------------------------------------------------


class Result(unittest.TextTestResult):
    def startTest(self, test: Any) -> None:
        super().startTest(test)
        add(test.id(), "passed")

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        add(test.id(), "failed")
        assertion_add(str(getattr(sys.modules[type(test).__module__], "__file__", "")), err[1], err[2])

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        if test.id().startswith("unittest.loader._FailedTest."):
            ERRORS.append(test.id().split(".", 3)[3])
            TESTS.pop(test.id(), None)
        else:
            add(test.id(), "error")

    def addSkip(self, test: Any, reason: str) -> None:
        super().addSkip(test, reason)
        add(test.id(), "skipped")

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        super().addExpectedFailure(test, err)
        add(test.id(), "xfailed")

    def addUnexpectedSuccess(self, test: Any) -> None:
        super().addUnexpectedSuccess(test)
        add(test.id(), "xpassed")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            add(test.id(), "failed")


class Runner(unittest.TextTestRunner):
    resultclass = Result

    def run(self, test: Any) -> Any:
        todo, tests = [test], []
        while todo:
            each = todo.pop()
            if isinstance(each, unittest.TestSuite):
                todo.extend(each)
            else:
                tests.append(each)  # in reverse order
        begin([each.id() for each in tests])
        if PART:
            test = unittest.TestSuite(tests)
        del tests  # a suite drops each test after running it
        return super().run(test)


def of_part(args: List[str]) -> List[str]:
    """The arguments reduced to one module."""
    names = [each for before, each in zip(["", *args], args) if not each.startswith("-") and before != "-k"]
    if not names or names[0] == "discover":
        return ["discover", *(each for each in args if each != "discover"), "-p", PART.rpartition(".")[2] + ".py"]
    others = [each for each in names if not (os.path.splitext(each)[0] if each.endswith(".py") else each)
              .replace("/", ".").startswith(PART)]
    return args if len(others) == len(names) else [each for each in args if each not in others]


def main() -> None:
    sys.path[0] = os.getcwd()
    args = of_part(sys.argv[1:]) if PART not in ("", ".") else sys.argv[1:]
    program = unittest.main(module=None, argv=["python -m unittest", *args], exit=False, testRunner=Runner)
    code = 0 if program.result.wasSuccessful() else 1
    write(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
