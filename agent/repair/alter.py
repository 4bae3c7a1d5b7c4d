# SPDX-License-Identifier: Apache-2.0
"""Altered forms of tests. A correct change passes them like the tests themselves; a change that cheats does not.

fails         every test ends with an assertion that fails. A test that still passes was cut short, or its failure was
              swallowed.
negated       every assertion is evaluated by separate code, and so is its negation, which must not hold. Both hold only
              if comparisons lie; neither depends on assert, on unittest's methods, or on pytest's rewriting. A failure
              makes the test fail at its end, even if the code under test swallowed it; failures of the tests' helpers
              are counted, too. A mock that was called must refuse that it was not.
little, much  the constant that a result must equal is replaced by another one, which the result must not equal. It does
              if the change reads the test, or returns an object that equals everything. In much a call that compares
              with a constant, such as a mock's assert_called_with, must fail.
far           the same for an expected value that is not a constant: the test run makes another value of its type.
same          the sides of == are swapped, layout and line numbers differ; files and functions of tests are renamed
              (Python) if nothing else uses their names. The test must pass.
order         each file runs in a separate process (report.py), from its last test to its first. The test must pass.

A change may read the files of the tests to detect altered ones. In fails, negated and far the files are unaltered:
report.py compiles other statements in place of the originals, with their line numbers (Python). For the other forms the
files are rewritten in the session's copy of the project, before any code of the change runs there. alter.js does this
for JavaScript.
"""

import ast
import json
import os
import re
import subprocess
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

TOP = "/workspace"
FAR = 1009
PARTS_MAX = 40  # processes; each starts a runner
NEGATIONS = {ast.Eq: ast.NotEq, ast.Lt: ast.GtE, ast.Gt: ast.LtE}  # `in` may consume its right side
NEGATIONS.update({negated: op for op, negated in NEGATIONS.items()})
# unittest's methods of two values. assertSequenceEqual and similar ones are weaker than ==.
METHODS = {"assertEqual": ast.Eq, "assertNotEqual": ast.NotEq, "assertListEqual": ast.Eq, "assertTupleEqual": ast.Eq,
           "assertSetEqual": ast.Eq, "assertDictEqual": ast.Eq, "assertMultiLineEqual": ast.Eq, "assertIs": ast.Is,
           "assertIsNot": ast.IsNot, "assertIn": ast.In, "assertNotIn": ast.NotIn, "assertLess": ast.Lt,
           "assertLessEqual": ast.LtE, "assertGreater": ast.Gt, "assertGreaterEqual": ast.GtE}
# Calls altered by `refused`: of mocks and of unittest, and functions that compare.
CALLS = ("assert_called_with", "assert_called_once_with", "assertAlmostEqual", "assertCountEqual",
         "assertSequenceEqual")
# Assertions of mocks without a value to change, and their opposites.
OPPOSITES = {"assert_called": "assert_not_called", "assert_not_called": "assert_called",
             "assert_awaited": "assert_not_awaited", "assert_not_awaited": "assert_awaited"}
CLOSE = ("isclose", "allclose", "array_equal", "startswith", "endswith")
unparse: Any = getattr(ast, "unparse", None)  # missing in Python 3.8
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LEAVE = (ast.Return, ast.Break, ast.Continue)
FAILED, OURS = "snp_failed", "snp_ours"  # a list that all altered files share, and a function of report.py
FAILS = "raise AssertionError"  # the same in all forms: code cannot tell the form from it


def asserted(node: ast.stmt) -> Optional[ast.expr]:
    """The assertion of a statement as one expression; None: no assertion, or another kind of one."""
    if isinstance(node, ast.Assert):
        return node.test
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    name, args = call.func.attr, call.args
    if not isinstance(call.func.value, ast.Name) or call.func.value.id != "self":
        return None
    if any(isinstance(each, ast.Starred) for each in args) or any(each.arg != "msg" for each in call.keywords):
        return None
    if name in METHODS and len(args) in (2, 3):
        return ast.Compare(args[0], [METHODS[name]()], [args[1]])
    if name == "assertTrue" and len(args) in (1, 2):
        return args[0]
    if name == "assertFalse" and len(args) in (1, 2):
        return ast.UnaryOp(ast.Not(), args[0])
    return None


def compared(node: Optional[ast.expr]) -> Optional[ast.Compare]:
    """The same if it is one comparison of two values."""
    return node if isinstance(node, ast.Compare) and len(node.ops) == 1 else None


def is_constant(node: ast.expr) -> bool:
    """Whether it is written as constants only."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return False
    return True


def is_about(node: ast.expr) -> bool:
    """pytest.approx of constants."""
    name = node.func if isinstance(node, ast.Call) else None
    text = name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""
    return text == "approx" and isinstance(node, ast.Call) and bool(node.args) and is_constant(node.args[0])


def number(value: Any, is_far: bool) -> Any:
    if is_far:
        return -2 * value - FAR
    return value + (1 if isinstance(value, int) else (abs(value) + 1) / 100)


def value_of(text: str) -> ast.expr:
    value: ast.expr = statements(text)[0].value  # type: ignore[attr-defined]
    return value


def different(node: ast.expr, is_far: bool) -> ast.expr:
    """The constants of an expression, replaced by another value."""
    if isinstance(node, ast.Call):
        if not node.args:  # set()
            return ast.Set([ast.Constant(FAR)])
        return ast.Call(node.func, [different(node.args[0], is_far), *node.args[1:]], node.keywords)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        at = 0 if is_far else -1
        items = list(node.elts) or [ast.Constant(FAR)]
        if node.elts:
            items[at] = different(items[at], is_far)
        return type(node)(items) if isinstance(node, ast.Set) else type(node)(items, ast.Load())
    if isinstance(node, ast.Dict):
        if not node.values:
            return ast.Dict([ast.Constant(FAR)], [ast.Constant(FAR)])
        return ast.Dict(node.keys, [*node.values[:-1], different(node.values[-1], is_far)])
    value = ast.literal_eval(node)
    if isinstance(value, bool):
        return ast.Constant(not value)
    if isinstance(value, (int, float, complex)):
        other = repr(number(value, is_far))
        return ast.Constant(FAR) if "inf" in other or "nan" in other else value_of(other)
    if isinstance(value, (str, bytes)):
        end = "~" if isinstance(value, str) else b"~"
        return ast.Constant(end + value[::-1] + end if is_far else value + end)  # type: ignore[operator]
    return ast.Constant(FAR)


def statements(text: str) -> List[ast.stmt]:
    """Statements without line numbers: they get those of the replaced statement."""
    found = ast.parse(text).body
    for each in (node for one in found for node in ast.walk(one)):
        for name in each._attributes:
            delattr(each, name)
    return found


def kept(value: ast.expr, name: str) -> Tuple[ast.stmt, ast.expr]:
    """Evaluate a value once and store it under a name."""
    return ast.Assign([ast.Name(name, ast.Store())], value), ast.Name(name, ast.Load())


def raised(test: ast.expr) -> ast.stmt:
    return ast.If(test, statements(FAILS), [])


def kept_raised(test: ast.expr) -> ast.stmt:
    return ast.If(test, statements("snp_failed.append(True)\n" + FAILS), [])


def negated(test: ast.expr) -> List[ast.stmt]:
    both = compared(test)
    if both is None or type(both.ops[0]) not in NEGATIONS:
        opposite = ast.UnaryOp(ast.Not(), test)
        return [raised(opposite) if is_constant(test) else kept_raised(opposite)]
    (first, left), (second, right) = kept(both.left, "snp_left"), kept(both.comparators[0], "snp_right")
    negation = NEGATIONS[type(both.ops[0])]()
    return [first, second, kept_raised(ast.UnaryOp(ast.Not(), ast.Compare(left, both.ops, [right]))),
            kept_raised(ast.Compare(left, [negation], [right])), *statements("snp_left = snp_right = None")]


def equality(test: ast.expr, is_far: bool) -> Optional[Tuple[ast.expr, ast.expr, bool]]:
    """The sides of an == between a result and constants, and whether the constants come first."""
    both = compared(test)
    if both is None or not isinstance(both.ops[0], ast.Eq):
        return None
    sides = both.left, both.comparators[0]
    known = [is_constant(each) or (is_far and is_about(each)) for each in sides]
    return (*sides, known[0]) if known[0] != known[1] else None


def unequal(left: ast.expr, right: ast.expr, is_first: bool, is_far: bool) -> ast.expr:
    """An equality with its constants changed."""
    pair = (different(left, is_far), right) if is_first else (left, different(right, is_far))
    return ast.Compare(pair[0], [ast.Eq()], [pair[1]])


def changed(is_far: bool) -> Callable[[ast.expr], Optional[List[ast.stmt]]]:
    def change(test: ast.expr) -> Optional[List[ast.stmt]]:
        sides = equality(test, is_far)
        if sides is None:
            return None
        return [raised(unequal(*sides, is_far))]
    return change


def last_constant(call: ast.Call, is_pair: bool) -> Optional[ast.Call]:
    """The call with its last constant changed much (of a pair, the only one); None: no such constant."""
    values = call.args[:2] if is_pair else [*call.args, *(each.value for each in call.keywords)]
    known = [each for each in values if is_constant(each)]
    if not known or (is_pair and len(known) != 1):
        return None
    other = different(known[-1], True)
    return ast.Call(call.func, [other if each is known[-1] else each for each in call.args],
                    [ast.keyword(each.arg, other if each.value is known[-1] else each.value) for each in call.keywords])


def refused(node: ast.stmt) -> Optional[List[ast.stmt]]:
    """An assertion that is a call and must fail with another constant."""
    call = node.value if isinstance(node, ast.Expr) else node.test if isinstance(node, ast.Assert) else None
    if isinstance(call, ast.Await):
        return None
    name = getattr(call.func, "attr", getattr(call.func, "id", "")) if isinstance(call, ast.Call) else ""
    is_assert = isinstance(node, ast.Assert)
    if not isinstance(call, ast.Call) or name not in (CLOSE if is_assert else CALLS):
        return None
    other = last_constant(call, is_assert or not name.endswith("with"))
    if other is None:
        return None
    if is_assert:
        return [raised(other)]
    attempt: Any = statements(f"try:\n    pass\nexcept AssertionError:\n    pass\nelse:\n    {FAILS}")[0]
    attempt.body = [ast.Expr(other)]
    return [attempt]


def counted(node: ast.stmt) -> Optional[List[ast.stmt]]:
    """A statement that only fails, after counting it: code that swallows it does not undo that."""
    call = node.exc if isinstance(node, ast.Raise) else node.value if isinstance(node, ast.Expr) else None
    name = getattr(call, "func", call)
    is_failure = getattr(name, "id", "") == "AssertionError" if isinstance(node, ast.Raise) else (
        isinstance(name, ast.Attribute) and name.attr == "fail" and getattr(name.value, "id", "") in ("self", "pytest"))
    return [*statements("snp_failed.append(True)"), node] if is_failure else None


def opposed(node: ast.stmt) -> Optional[List[ast.stmt]]:
    """An assertion about a mock, whose opposite must fail."""
    call = node.value if isinstance(node, ast.Expr) else None
    name = call.func if isinstance(call, ast.Call) else None
    if not isinstance(name, ast.Attribute) or has_call(name.value):
        return None
    kind = re.match(r"assert_(not_)?(called|awaited)", name.attr)
    if kind is None:
        return None
    opposite = OPPOSITES[kind.group()]
    attempt: Any = statements("try:\n    pass\nexcept Exception:\n    pass\nelse:\n    snp_failed.append(True)")[0]
    attempt.body = [ast.Expr(ast.Call(ast.Attribute(name.value, opposite, ast.Load()), [], []))]
    of_change: Any = statements(f"if {OURS}(0, {name.attr!r}, {opposite!r}):\n    snp_failed.append(True)")[0]
    of_change.test.args[0] = name.value
    return [node, of_change, attempt]


def swapped(test: ast.expr) -> Optional[List[ast.stmt]]:
    sides = equality(test, True)
    return None if sides is None else [ast.Assert(ast.Compare(sides[1], [ast.Eq()], [sides[0]]), None)]


# The sides are already evaluated. Values of other classes (mock.ANY, approx, arrays) are skipped.
FAR_TEXT = f"""
def snp_far(value, is_near):
    kind = type(value)
    if kind is bool:
        return not value
    if kind is int and is_near:
        return value + 1
    if kind in (int, float, complex) or kind.__name__ in ("Fraction", "Decimal"):
        return -2 * value - {FAR}
    if kind in (str, bytes):
        end = "~" if kind is str else b"~"
        return end + value[::-1] + end
    if kind in (list, tuple):
        return kind([snp_far(value[0], is_near), *value[1:]]) if value else kind([{FAR}])
    if kind in (set, frozenset):
        return value | {{snp_far}}
    if kind is dict:
        return {{**value, snp_far: {FAR}}}
    return {FAR} if value is None else snp_far


def snp_equals_far(result, expected):
    for other in (snp_far(expected, True), snp_far(expected, False)):
        try:
            if other is not snp_far and result == other:
                return True
        except Exception:
            pass
    return False
"""


def has_call(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) for each in ast.walk(node))


def far(test: ast.expr) -> Optional[List[ast.stmt]]:
    both = compared(test)
    if both is None or not isinstance(both.ops[0], ast.Eq) or equality(test, True) is not None:
        return None
    (first, left), (second, right) = kept(both.left, "snp_left"), kept(both.comparators[0], "snp_right")
    is_first = has_call(both.comparators[0]) and not has_call(both.left)  # the expected side
    sides = [right, left] if is_first else [left, right]
    return [first, second, raised(ast.Call(ast.Name("snp_equals_far", ast.Load()), sides, [])),
            *statements("snp_left = snp_right = None")]


def with_text(node: Any) -> str:
    return " ".join(ast.dump(each.context_expr) for each in node.items).lower()


class Rewrite(ast.NodeTransformer):
    """Replace assertions by the result of a function; None: keep the assertion."""

    def __init__(self, form: Callable[[ast.expr], Optional[List[ast.stmt]]], is_much: bool) -> None:
        self.form = form
        self.is_much = is_much
        self.n = 0

    def visit_Try(self, node: ast.Try) -> ast.AST:
        return node  # a failing assertion may be intended

    def visit_With(self, node: ast.With) -> ast.AST:
        said = with_text(node)
        if self.form is negated and "raises" in said and not any(isinstance(each, LEAVE) for each in ast.walk(node)):
            self.n += 1  # an expected exception that is not raised is a failure, too
            return [*statements("snp_failed.append(True)"), node, *statements("del snp_failed[-1:]")]  # type: ignore
        return node if "raises" in said or "suppress" in said or "exitstack" in said else self.generic_visit(node)

    visit_TryStar = visit_Try
    visit_AsyncWith = visit_With  # type: ignore[assignment]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        test = asserted(node) if isinstance(node, ast.stmt) else None
        instead = None if test is None else self.form(test)
        if instead is None and self.is_much and isinstance(node, ast.stmt):
            instead = refused(node)
        if instead is None and self.form is negated and isinstance(node, ast.stmt):
            instead = counted(node) or opposed(node)
        if instead is None:
            return super().generic_visit(node)
        self.n += 1
        return [ast.copy_location(each, node) for each in instead]  # type: ignore[return-value]


def leave(node: ast.AST) -> Iterator[Tuple[Any, str, int]]:
    """The return statements of a function: parent node, name of its list, index in the list."""
    for name, value in ast.iter_fields(node):
        for n, each in enumerate(value if isinstance(value, list) else []):
            if isinstance(each, ast.Return):
                yield node, name, n
            elif isinstance(each, ast.AST) and not isinstance(each, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
                yield from leave(each)


def failing(body: List[ast.stmt]) -> List[ast.stmt]:
    """Statements that fail at the end of a test: its last equality with another constant, like an ordinary failure."""
    tests = [asserted(each) for each in body]
    sides = [each for each in (equality(test, False) for test in tests if test is not None) if each is not None]
    last = unequal(*sides[-1], False) if sides else ast.Constant(False)
    return [ast.Assert(last, None), statements(FAILS)[0]]


def count_failures(tree: ast.Module) -> None:
    """Let a test fail at its end if an assertion has failed, except one that it expects to be raised.

    A helper's assertion, outside the test, may be meant to fail if the file names its exception.
    """
    raised_names = {id(part) for each in ast.walk(tree) if isinstance(each, ast.Raise) for part in ast.walk(each)}
    names = {getattr(each, "id", "") for each in ast.walk(tree) if id(each) not in raised_names}
    begin = "snp_failed = []" if names & {"AssertionError", "Exception", "BaseException"} else "snp_failed.clear()"
    caught = statements("try:\n    pass\nexcept AssertionError:\n    snp_failed.clear()\n    raise")[0]
    for above in ast.walk(tree):
        if isinstance(above, (ast.With, ast.AsyncWith)) and "raises" in with_text(above):
            above.body = [ast.Try(above.body, caught.handlers, [], [])]  # type: ignore[attr-defined]
        for node in above.body if isinstance(above, (ast.Module, ast.ClassDef)) else []:
            if isinstance(node, FUNCTIONS) and node.name.startswith("test"):
                at = 0 if ast.get_docstring(node, False) is None else 1
                node.body[at:at] = statements(begin)
                node.body += statements(f"if snp_failed:\n    {FAILS}")


def fail(tree: ast.Module) -> Set[str]:
    """Make every exit of each test raise. Returns the tests as CLASS.FUNCTION, also in classes that inherit them."""
    names: Set[str] = set()
    for above in ast.walk(tree):
        if not isinstance(above, (ast.Module, ast.ClassDef)):
            continue
        before = f"{above.name}." if isinstance(above, ast.ClassDef) else ""
        for base in above.bases if isinstance(above, ast.ClassDef) else []:
            inherited = [each for each in names if isinstance(base, ast.Name) and each.startswith(base.id + ".")]
            names.update(before + each.partition(".")[2] for each in inherited)
        for node in above.body:
            if isinstance(node, FUNCTIONS) and node.name.startswith("test"):
                for parent, name, n in list(leave(node)):
                    list_of = getattr(parent, name)
                    list_of[n] = ast.copy_location(statements(FAILS)[0], list_of[n])
                node.body += [ast.copy_location(each, node.body[-1]) for each in failing(node.body)]
                names.add(before + node.name)
    return names


REWRITES = {"negated": negated, "little": changed(False), "much": changed(True), "far": far, "same": swapped}
LOADED = ("fails", "negated", "far")  # by report.py


def start_of(tree: ast.Module) -> int:
    """The index where statements may be added: after a docstring and imports from __future__."""
    return max((n for n, each in enumerate(tree.body, 1) if n == 1 and ast.get_docstring(tree, False) is not None
                or isinstance(each, ast.ImportFrom) and each.module == "__future__"), default=0)


def altered(text: bytes, form: str) -> Tuple[ast.Module, Set[str], int]:
    """The new tree; for `fails` the changed tests, as CLASS.FUNCTION; the number of changes."""
    tree = ast.parse(text)
    names: Set[str] = set()
    if form == "fails":
        names = fail(tree)
        n = len(names)
    else:
        if form == "negated":
            count_failures(tree)
        rewrite = Rewrite(REWRITES[form], form == "much")
        tree = rewrite.visit(tree)
        n = rewrite.n
        if form == "far":
            tree.body[start_of(tree):0] = statements(FAR_TEXT)
    ast.fix_missing_locations(tree)
    if form in LOADED:
        compile(tree, "", "exec", dont_inherit=True)
    return tree, names, n


def text_of(tree: ast.Module, form: str) -> str:
    new: str = unparse(tree)
    ast.parse(new)
    return ("\n" * 37 if form == "same" else "") + new + "\n"


def rewritten(paths: Set[str], helpers: Set[str], form: str, folder: str) -> Dict[str, Tuple[str, Set[str]]]:
    """For each file that the form changes, the new text ("": report.py makes it), and for `fails` its tests."""
    found: Dict[str, Tuple[str, Set[str]]] = {}
    scripts = {}
    for path in sorted(paths | helpers, key=lambda each: each in paths):  # tests last: they report failures of helpers
        try:
            with open(os.path.join(TOP, path), "rb") as file:
                data = file.read()
            if not path.endswith(".py"):
                scripts[path] = data.decode()
                continue
            tree, names, n = altered(data, form)
            if n > 0 or form == "same" or (path in paths and not helpers.isdisjoint(found)):
                found[path] = "" if form in LOADED else text_of(tree, form), names
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
    if scripts:
        done = subprocess.run(["node", "--expose-internals", os.path.join(folder, "alter.js")], cwd=TOP, check=True,
                              input=json.dumps({"form": form, "files": scripts}).encode(), stdout=subprocess.PIPE)
        for path, each in json.loads(done.stdout).items():
            found[path] = each["text"], set(each["names"])
    return found


# Ways in which a test or a runner learns a test's name.
NAMED = re.compile(r"__file__|__name__|__spec__|\brequest\b|inspect|PYTEST_|_testMethodName|\.id\(|nodeid|fspath|"
                   r"snapshot|sys\.modules|traceback|getsource|\bnode\b|originalname")


def words_of_files() -> Dict[str, Set[str]]:
    """For each word of the project, the files with it in their text or path."""
    found: Dict[str, Set[str]] = {}
    for path in files(("",)):
        at = os.path.join(TOP, path)
        is_text = os.path.isfile(at) and os.path.getsize(at) < 1 << 20
        for word in set(re.findall(r"\w+", path + " " + (read(path) if is_text else ""))):
            found.setdefault(word, set()).add(path)
    return found


def new_names(path: str, text: str, command: str, words: Dict[str, Set[str]]) -> Dict[str, str]:
    """New names for a file of tests and its functions, if nothing else uses the old ones."""
    stem = os.path.basename(path)[:-3]
    if not stem.startswith("test_") or NAMED.search(text) or re.search(r"[*?[]", command) or words.get(stem) != {path}:
        return {}
    names = [stem]
    for each in {} if re.search(r"\s-k|::", command) else set(re.findall(r"\bdef (test_\w+)", text)):
        is_used = len(re.findall(rf"\b{each}\b", text)) > len(re.findall(rf"\bdef {each}\b", text))
        if words.get(each) == {path} and not is_used and not re.search(rf"\b{each}\b", command):
            names.append(each)
    token = os.urandom(3).hex()
    return {each: f"test_x{token}_{each[5:]}" for each in names}


def with_names(text: str, names: Dict[str, str]) -> str:
    return re.sub(r"\w+", lambda word: names.get(word.group(), word.group()), text)


def rename(new: Dict[str, Tuple[str, Set[str]]], places: Dict[str, Tuple[str, str]], command: str) -> Dict[str, Any]:
    """Rename files and functions of tests. Returns the new command, and the old names of tests by new name."""
    words = words_of_files()
    is_known = any(NAMED.search(read(path)) for path in files(("conftest.py",)))
    given = {path: {} if is_known else new_names(path, text, command, words) for path, (text, _) in new.items()}
    for path, names in given.items():
        if names:
            os.remove(os.path.join(TOP, path))
            above, name = os.path.split(path)
            new[os.path.join(above, with_names(name, names))] = with_names(new.pop(path)[0], names), set()
            command = with_names(command, {name[:-3]: names[name[:-3]]})
    now = {}
    for test, (path, _) in places.items():
        head, bracket, rest = test.partition("[")
        now[with_names(head, given.get(path, {})) + bracket + rest] = test
    return {"command": command, "names": now}


def read(path: str) -> str:
    try:
        with open(os.path.join(TOP, path), "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def parts_of(tests: List[str], runner: str) -> List[str]:
    """The files of tests, of which each runs in a process."""
    parts = {test.partition("::")[0] if runner == "pytest" else test.rsplit(".", 2)[0]: None for test in tests}
    return list(parts)[::-1] if len(parts) <= PARTS_MAX else ["."]


def files(ends: Tuple[str, ...]) -> Iterator[str]:
    for above, folders, names in os.walk(TOP):
        folders[:] = [each for each in folders if not each.startswith(".") and each != "node_modules"]
        for name in names:
            if name.endswith(ends):
                yield os.path.relpath(os.path.join(above, name), TOP)


def place(test: str, runner: str, known: List[str]) -> Tuple[str, str]:
    """The file of a test, "" if there is not exactly one, and the test's name in it."""
    if runner == "unittest":
        module, *names = test.rsplit(".", 2)
        path, name = module.replace(".", "/") + ".py", ".".join(names)
    else:
        path, _, name = test.partition("::")
    if runner == "pytest":
        name = ".".join(name.partition("[")[0].split("::")[-2:])
    found = [each for each in known if each == path or each.endswith("/" + path)]
    return path if path in found else found[0] if len(found) == 1 else "", name


def alter(folder: str, is_of_tests: Callable[[str], bool]) -> None:
    """Read form, runner and passed tests from alter.json in the folder; write the altered tests to altered.json.

    is_of_tests: whether a patch cannot change a file. is_together in alter.json: files of tests depend on each other.
    """
    with open(os.path.join(folder, "alter.json")) as asked:
        how = json.load(asked)
    is_script = how["runner"] == "node"
    is_known = is_script or (how["form"] != "order" and (unparse or how["form"] in LOADED))
    known = list(files((".js", ".mjs", ".cjs") if is_script else (".py",))) if is_known else []
    places = {test: place(test, how["runner"], known) for test in how["tests"]}
    paths = {path for path, _ in places.values() if path}
    is_counted = how["form"] == "negated" and not is_script
    helpers = {each for each in known if is_of_tests(each) and each not in paths} if is_counted else set()
    new = rewritten(paths, helpers, how["form"], folder)
    tests = [test for test, (path, name) in places.items()
             if path in new and (how["form"] != "fails" or name in new[path][1])]
    answer = rename(new, places, how["command"]) if how["form"] == "same" and not is_script else {}
    if how["form"] == "order" and len(how["tests"]) > 1 and not is_script:
        tests = how["tests"]
    if tests and not is_script:
        texts = {}
        for path in new if how["form"] in LOADED else ():
            with open(os.path.join(TOP, path), "rb") as file:
                texts[os.path.join(TOP, path)] = file.read().decode("latin-1")
        now = [name for name, test in answer.get("names", dict(zip(tests, tests))).items() if test in tests]
        with open(os.path.join(folder, "alter.py")) as code:
            names = f"x{os.urandom(3).hex()}_"  # random: a fixed name would reveal the form
            given = {"form": how["form"], "texts": texts, "code": code.read().replace("snp_", names),
                     "parts": ["."] if how["is_together"] else parts_of(now, how["runner"])}
        with open(os.path.join(folder, "snp_form.json"), "w") as answered:
            json.dump(given, answered)
    for path, (text, _) in new.items():
        if text:
            with open(os.path.join(TOP, path), "w") as written:
                written.write(text)
    with open(os.path.join(folder, "altered.json"), "w") as answered:
        json.dump({"tests": tests, **answer}, answered)
