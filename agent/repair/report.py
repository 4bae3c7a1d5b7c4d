# SPDX-License-Identifier: Apache-2.0
"""Report the result of each test: a plugin of pytest (-p), and a runner for unittest (run as a program).

Its name and folder are random for each run, and the report is written once, at the end. snp_form.json beside it has the
parts of the run (a path for pytest, a module for unittest; . = all), of which each runs in a process forked before any
code of the project runs; this process merges their reports. It also has the altered form of the tests (alter.py; "":
unaltered), and is removed before the fork.
snp_lines.json has the lines that a patch changed: what they reach at run time is reported, too.
"""

import ast
import hashlib
import importlib.machinery
import json
import os
import sys
import time
import types
import unittest
from typing import Any, Dict, Iterable, Iterator, List, Set, Tuple

TESTS: Dict[str, str] = {}
COLLECTED: List[str] = []  # also if the runner then ends because it could not load a file
GIVEN: Dict[str, str] = {}  # hashes of the parameters of tests that have any
ERRORS: List[str] = []
ASSERTED: Dict[str, Set[int]] = {}  # failed assertions that a passing test must reach
TOP = "/workspace/"
PART = ""  # of this process; "": all
WORST = ["passed", "xfailed", "skipped", "xpassed", "failed", "error"]


def add(name: str, outcome: str) -> None:
    TESTS[name] = max(outcome, TESTS.get(name, "passed"), key=WORST.index)


def beside(name: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def keep(name: str, value: Any) -> None:
    with open(beside(name), "x") as file:
        json.dump(value, file)


def parts_of(tests: Iterable[str]) -> List[str]:
    """The files of tests (pytest) or their modules (unittest), and those that could not be loaded."""
    parts = [each.rsplit(".", 2)[0] if __name__ == "__main__" else each.partition("::")[0] for each in tests]
    return list(dict.fromkeys([*parts, *(each.partition("::")[0] for each in ERRORS)]))


def write(code: int) -> None:
    asserted = {path: sorted(lines) for path, lines in ASSERTED.items()}
    keep("report.json", {"tests": TESTS, "errors": ERRORS, "given": GIVEN, "asserted": asserted, "reached": REACHED,
                         "exit_code": code, "parts": parts_of(COLLECTED or TESTS)})


def begin(names: List[str]) -> None:
    """Write the collected tests, for a run of the clean project that does not end."""
    COLLECTED[:] = names
    if not PART:
        tests = dict.fromkeys(names, "error")
        keep("begun.json", {"tests": tests, "errors": ERRORS, "given": GIVEN, "is_cut": True,
                            "parts": parts_of(tests)})


# What changed lines reach -------------------------------------------------------------------

# Code that evaluates a text, or reaches frames and objects of others, can also change the runner and its results. So an
# event of the interpreter that changed lines cause ends the process before it takes effect.

LINES: Dict[str, Set[int]] = {}  # by path; none in the clean project
REACHED: List[Dict[str, Any]] = []
EVENTS = {"exec": "evaluates a text", "function.__new__": "makes a function", "code.__new__": "makes code",
          "object.__setattr__": "changes code", "sys._getframe": "reaches frames",
          "sys._current_frames": "reaches frames", "sys.settrace": "traces", "sys.setprofile": "traces",
          "gc.get_objects": "reaches all objects",
          "gc.get_referrers": "reaches all objects", "gc.get_referents": "reaches all objects",
          "os.link": "links a file of tests", "os.symlink": "links a file of tests",
          "os.rename": "renames a file of tests"}
FOLDERS = {"tests", "test", "testing", "spec", "fixtures"}
LIBRARY = os.path.dirname(os.__file__) + os.sep
SEEN_S = 2.0  # for `replaced` after single tests
WATCHED = ("builtins", "math", "operator", "unittest.case")  # plugins of pytest replace parts of it
BEFORE: Dict[Tuple[str, str], Any] = {}
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type)
SPENT: List[float] = []
end = os._exit


def cause(frame: Any) -> Tuple[str, int, List[types.CodeType]]:
    """The changed line that led to a frame ("": another one, or none), and the code between, from inside."""
    between: List[types.CodeType] = []
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        path = frame.f_code.co_filename
        if path.startswith(TOP):
            return path[len(TOP):] if is_changed(path, frame.f_lineno) else "", frame.f_lineno, between
        between.append(frame.f_code)
        frame = frame.f_back
    return "", 0, between


def is_changed(path: str, line: int) -> bool:
    return path.startswith(TOP) and line in LINES.get(path[len(TOP):], ())


def is_evaluator(between: List[types.CodeType]) -> bool:
    """Our own functions, and public ones that evaluate only their own texts: of the library or an installed package."""
    first, last = between[0], between[-1]
    if first.co_filename.startswith(beside("")):  # cover.py
        return True
    if os.sep + "dataclasses.py" in first.co_filename:
        return last.co_name in ("dataclass", "wrap", "make_dataclass")
    is_tuple = first.co_name == "namedtuple" and first.co_filename.endswith(os.path.join("collections", "__init__.py"))
    return is_tuple or ("-packages" in last.co_filename and not last.co_name.startswith("_"))


def is_private(between: List[types.CodeType]) -> bool:
    """Whether a private function of the library evaluates, and no installed package called it."""
    n = 0
    while n + 1 < len(between) and between[n + 1].co_filename == between[0].co_filename:
        n += 1
    name, path = between[n].co_name, between[n].co_filename
    above = between[n + 1].co_filename if n + 1 < len(between) else ""
    is_of_library = path.startswith(LIBRARY) and "-packages" not in path + above
    return is_of_library and name.startswith("_") and not name.endswith("__")


def is_of_tests(path: Any) -> bool:
    place = os.path.abspath(os.fsdecode(path))
    parts = place[len(TOP):].split("/")
    return place.startswith(TOP) and (not FOLDERS.isdisjoint(parts) or parts[-1].startswith(("test_", "conftest")))


def is_plain(code: Any) -> bool:
    """Whether code only calculates with constants: it reaches no names."""
    return not code.co_names and not any(isinstance(each, types.CodeType) for each in code.co_consts)


def reached(path: str, line: int, what: str) -> None:
    row = {"path": path, "line": line, "what": what}
    if row not in REACHED:
        REACHED.append(row)


def heard(event: str, args: Any) -> None:
    what = EVENTS.get(event, "reaches memory" if event.startswith("ctypes.") else "")
    if not what or (event == "object.__setattr__" and args[1] != "__code__"):
        return
    if event == "exec" and is_plain(args[0]):
        return
    if event.startswith("os.") and not any(map(is_of_tests, args[:2])):
        return
    try:
        raise LookupError
    except LookupError as error:  # sys._getframe would be an event, too
        place: Any = error.__traceback__
    path, line, between = cause(place.tb_frame.f_back)
    if not path and event == "exec" and between and is_private(between):  # in a thread, or a partial that a test calls
        path, line = next(iter(LINES)), 0
    if not path or (between and (event == "sys._getframe" or is_evaluator(between))):
        return
    if not os.path.exists(beside("report.json")):
        reached(path, line, what + (f" through {between[-1 if line else 0].co_name}" if between else ""))
        TESTS.clear()
        write(1)
    end(1)


def of_others() -> Iterator[Tuple[str, str, Any]]:
    """Names and values of modules outside the project, and of their classes."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and not str(module.__dict__.get("__file__")).startswith(TOP):
            for attribute, value in list(module.__dict__.items()):
                yield name, attribute, value
                if isinstance(value, type) and type.__getattribute__(value, "__module__") == name:
                    yield from ((f"{name}.{attribute}", each, part) for each, part in list(vars(value).items()))


def changed_line(value: Any) -> Tuple[str, int]:
    """Where changed code defines a function, also one in a decorator; "": not there."""
    for name in ("__func__", "fget", "func"):
        is_wrapped = not isinstance(value, types.FunctionType) and type(value).__module__ in ("builtins", "functools")
        value = getattr(value, name, value) if is_wrapped else value
    code = value.__code__ if isinstance(value, types.FunctionType) else None
    if code is not None and is_changed(code.co_filename, code.co_firstlineno):
        return code.co_filename[len(TOP):], code.co_firstlineno
    return "", 0


def is_of_change(holder: Any, name: str, opposite: str) -> bool:
    """Whether an assertion of a mock is code of the change, or no assertion, or its calls were not made."""
    value = getattr(holder, name)
    calls = getattr(holder, "call_args_list", None)
    path = str(getattr(sys.modules.get(type(holder).__module__), "__file__", ""))
    is_other = not path.startswith(TOP) and "-packages" not in path
    return (changed_line(value)[0] != "" or not isinstance(value, (types.FunctionType, types.MethodType))
            or (is_other and not hasattr(holder, opposite))
            or (isinstance(calls, list) and len(calls) != holder.call_count))


def replaced(test: Any = None) -> None:
    """Report functions of other modules and of a test that changed code replaced."""
    if not LINES or (test is not None and sum(SPENT) > SEEN_S):
        return
    began = time.perf_counter()
    kind = vars(unittest.TestCase)
    own = [*vars(type(test)).items(), *vars(test).items()] if isinstance(test, unittest.TestCase) else []
    for above, name, value in [*of_others(), *(("the test", each, part) for each, part in own if each in kind)]:
        path, line = changed_line(value)
        if path:
            reached(path, line, f"replaces {name} of {above}")
        elif BEFORE.get((above, name), value) is not value:
            reached(next(iter(LINES)), 0, f"replaces {name} of {above}")
    SPENT.append(time.perf_counter() - began)


def watch() -> None:
    with open(beside("snp_lines.json")) as file:
        LINES.update((path, set(lines)) for path, lines in json.load(file).items() if path.endswith(".py"))
    if LINES:
        BEFORE.update(((above, name), value) for above, name, value in of_others()
                      if above.startswith(WATCHED) and isinstance(value, FUNCTIONS))
        sys.addaudithook(heard)


if os.path.exists(beside("snp_lines.json")):
    watch()


# Altered forms ------------------------------------------------------------------------------

GIVEN_FORM: List[str] = []  # for workers of pytest-xdist, which start after the file is removed
PARTS: List[str] = []
INTERRUPTED = (2, 3)  # exit codes of pytest
IS_REVERSED: List[bool] = [False]  # each part runs from its last test to its first
CODES: Dict[str, Any] = {}  # compiled replacements of test files, made before other code can change the files
SHARED: Dict[str, Any] = {}  # a name in all of them


class Altered(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        return CODES[self.path]

    def exec_module(self, module: Any) -> None:
        module.__dict__.update(SHARED)
        super().exec_module(module)


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
    PARTS[:] = form["parts"]
    IS_REVERSED[0] = form["form"] == "order"
    if not form["texts"]:
        return
    code: Dict[str, Any] = {"__name__": "alter"}
    exec(compile(form["code"], "alter.py", "exec"), code)
    SHARED.update({code["FAILED"]: [], code["OURS"]: is_of_change})
    for path, data in form["texts"].items():
        tree, _, _ = code["altered"](data.encode("latin-1"), form["form"])
        CODES[path] = compile(tree, path, "exec", dont_inherit=True)
    sys.meta_path.insert(0, Finder)


def forked(is_altered: bool) -> None:
    """Return in a process for each part. This one loads no code of the project, and reports only if all parts end."""
    global PART
    merged: Dict[str, Any] = {}
    code = 0
    for PART in PARTS:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            return
        status = os.waitpid(child, 0)[1]
        if not os.path.exists(beside("report.json")):
            end(1)
        with open(beside("report.json")) as file:
            report = json.load(file)
        if report["reached"] and not report["tests"]:
            end(1)  # `heard` ended it: the run has its report
        os.remove(beside("report.json"))
        if is_altered and (not report["tests"] or report["exit_code"] in INTERRUPTED):
            end(1)
        code = code or os.WEXITSTATUS(status)
        for name, value in report.items():
            if isinstance(value, dict):
                merged.setdefault(name, {}).update(value)
            elif isinstance(value, list):
                merged[name] = merged.get(name, []) + [each for each in value if each not in merged.get(name, [])]
    if PARTS:
        keep("report.json", {**merged, "exit_code": code})
        end(code)


if os.path.exists(beside("snp_form.json")):
    with open(beside("snp_form.json")) as given:
        GIVEN_FORM.append(given.read())
    os.remove(beside("snp_form.json"))
    form_begin(GIVEN_FORM[0])
    forked(json.loads(GIVEN_FORM[0])["form"] != "")


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
    if IS_REVERSED[0]:
        items.reverse()


def pytest_collection_finish(session: Any) -> None:
    for item in session.items:
        if hasattr(item, "callspec"):
            GIVEN[item.nodeid] = hashlib.sha256(told(item.callspec.params).encode("utf-8", "replace")).hexdigest()
    if not hasattr(session.config, "workerinput"):
        begin([item.nodeid for item in session.items])


def pytest_runtest_logfinish() -> None:
    replaced(True)


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    replaced()
    if not hasattr(session.config, "workerinput"):
        write(int(exitstatus))


# unittest -----------------------------------------------------------------------------------


class Result(unittest.TextTestResult):
    def startTest(self, test: Any) -> None:
        super().startTest(test)
        add(test.id(), "passed")

    def stopTest(self, test: Any) -> None:
        super().stopTest(test)
        replaced(test)

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
        begin([each.id() for each in reversed(tests)])
        if IS_REVERSED[0]:
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
    replaced()
    write(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
