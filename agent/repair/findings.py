# SPDX-License-Identifier: Apache-2.0
"""Findings for a reviewer of a patch: a place and a reason. Nothing of the patch runs.

Running the tests shows what a change does; reading it proves nothing. A finding with `blocks` can reach the tools of
the tests: objects, files and processes of their runner, the interpreter, or the meaning of comparisons. Other findings
only name a place. Statements that the file already had are ignored.
"""

import ast
import builtins
import copy
import importlib.machinery
import json
import os
import re
import subprocess
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from judge import SCRIPT, TOP, Json, base_text, is_manifest, is_test, manifest_findings, now_text

# Modules that give access to the runner, the interpreter, or texts that it runs.
TOOLS = frozenset(
    "pytest unittest doctest mock nose pluggy hypothesis coverage ctypes cffi gc inspect builtins bltns importlib imp "
    "runpy pkgutil zipimport types marshal pickle shelve dis opcode code codeop bdb pdb trace tracemalloc linecache "
    "traceback faulthandler atexit signal site weakref timeit profile cProfile symtable tokenize os sys pydoc "
    "rlcompleter py_compile compileall venv modulefinder".split())
# Names of os and sys that give no access to files, processes or the interpreter.
PARTS = frozenset("os.path os.sep os.linesep os.fspath os.PathLike os.name os.curdir os.pardir sys.maxsize "
                  "sys.byteorder sys.version sys.version_info sys.float_info sys.intern sys.stderr sys.stdout sys.exit "
                  "sys.platform sys.maxunicode os sys".split())
NETWORK = frozenset("socket ssl http urllib requests httpx aiohttp ftplib smtplib xmlrpc".split())
CHANCE = frozenset("random secrets time uuid".split())
# Builtins that evaluate texts, or set and read attributes by name; names and attributes that give access to frames and
# to classes of other modules.
BUILTINS = frozenset("exec eval compile globals locals vars setattr delattr breakpoint open".split())
REACH = frozenset(
    "exec eval setattr modules settrace setprofile currentframe meta_path path_hooks attrgetter methodcaller mro "
    "with_traceback func_globals get_type_hints ForwardRef singledispatch singledispatchmethod update_wrapper "
    "configure_mock return_value side_effect call_args call_args_list mock_calls stack_info findCaller "
    "Formatter get_field format_map argv environ dictConfig fileConfig create_subprocess_exec "
    "create_subprocess_shell".split())
FILES = frozenset(
    "open fdopen read_text write_text read_bytes write_bytes unlink iterdir rglob glob scandir listdir symlink_to "
    "hardlink_to FileIO subprocess multiprocessing shutil tempfile fileinput pty mmap popen Popen".split())
# A class may define these without changing the meaning of comparisons with its objects.
METHODS = ("init repr str iter next enter call post_init doc name all main version author slots len getitem setitem "
           "delitem annotations class module qualname file future args origin exit aexit aenter round floor ceil trunc "
           "int float index").replace(" ", "|")
INNER = re.compile(rf"__(?!(?:{METHODS})__)\w+__|\b(f|tb|gi|cr|ag|co)_\w+|\bassert(_|[A-Z])\w+|/proc|/tmp|"
                   r"[Pp]y[Tt]est|PYTEST|[Uu]nit[Tt]est|conftest")
# With more than one argument, these make classes or set attributes with arbitrary names.
MAKERS = frozenset(
    "type ABCMeta EnumMeta EnumType Enum IntEnum StrEnum Flag IntFlag make_dataclass new_class wraps".split())
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
EQUALS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
TYPES = (int, float, str, bytes)
COMMON = (0, 1, 2, 10, 100, "", b"")  # numbers and texts on which no input of tests depends
UNITS = (*COMMON, 0.5, 24, 60, 1000, 1024, 3600)
Reason = Optional[Tuple[str, bool]]  # why, and whether it blocks


class Found(NamedTuple):
    key: str  # the node and its statement
    line: int
    why: str
    blocks: bool


def root_name(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def words_of(node: ast.AST) -> Iterator[str]:
    """Every name in a node, at any place where the language allows one."""
    for _, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str) and not isinstance(node, ast.Constant):
                yield from each.split(".")


def is_true(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def is_length(node: ast.AST) -> bool:
    return getattr(getattr(node, "func", None), "id", "") == "len"


def full_name(node: ast.AST, alias: ast.alias) -> str:
    return f"{getattr(node, 'module', None) or ''}.{alias.name}".strip(".")


def is_tool(name: str) -> bool:
    parts = [each.lstrip("_") for each in name.split(".")]
    return name not in PARTS and parts[:2] != ["os", "path"] and not TOOLS.isdisjoint(parts)


def data_path(node: ast.Call) -> str:
    """The path if the call opens a file of the project for reading that no test names; "": another call."""
    modes = [*node.args[1:], *(each.value for each in node.keywords if each.arg in (None, "mode", "opener"))]
    path = getattr(node.args[0], "value", "") if node.args else ""
    if getattr(node.func, "id", "") != "open" or not isinstance(path, str) or re.match(r"/|$|.*\.\.", path):
        return ""
    is_reading = all(getattr(each, "value", "") in ("r", "rb", "rt") for each in modes)
    is_of_tests = is_test(path) or any(os.path.basename(path) in each for each in test_constants())
    return path if is_reading and not is_of_tests else ""


class File:
    """The text of a Python file, with the names that its imports bind."""

    def __init__(self, text: bytes) -> None:
        self.tree = ast.parse(text)
        self.modules: Dict[str, str] = {}  # name: its module
        self.imported: Set[str] = set()
        self.tools: Set[str] = set()  # imports of TOOLS
        self.objects: Set[int] = set()  # of attributes
        self.operands: Set[int] = set()
        self.called: Set[int] = set()  # functions of calls, classes of isinstance, annotations
        self.docs: Set[int] = set()
        self.data: Dict[int, str] = {}  # id of an `open` call of a data file: its path
        for node in ast.walk(self.tree):
            self.learn(node)

    def learn(self, node: ast.AST) -> None:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {alias.asname or alias.name.split(".")[0]: full_name(node, alias) for alias in node.names}
            self.imported.update(names)
            self.modules.update(names if isinstance(node, ast.Import) else {})
            self.tools.update(name for name in names if is_tool(names[name]))
        elif isinstance(node, ast.Call):
            is_kind = getattr(node.func, "id", "") in ("isinstance", "issubclass")
            self.called.update(id(each) for each in [node.func, *(node.args if is_kind else [])])
            self.data.update({id(node.func): data_path(node)} if data_path(node) else {})
        elif isinstance(node, ast.Attribute):
            self.objects.add(id(node.value))
        elif isinstance(node, ast.BinOp):
            self.operands.update((id(node.left), id(node.right)))
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            self.called.update(map(id, ast.walk(part)) if part is not None else ())
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            self.docs.add(id(body[0].value))

    def of_import(self, node: ast.AST) -> Reason:
        for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else []:
            full = full_name(node, alias)
            first = full.split(".")[0]
            if any(is_test(each.replace(".", "/") + ".py") for each in (full, full.rpartition(".")[0])):
                return f"imports from tests: {full}", True
            if is_tool(full):
                return f"imports {full}", True
            if first in NETWORK | CHANCE:
                return f"uses {'the network' if first in NETWORK else 'chance or the clock'}: imports {full}", False
        return None

    def of_name(self, node: ast.AST) -> Reason:
        """A finding about a name, an attribute, or a keyword argument."""
        if id(node) in self.data:
            return f"reads {self.data[id(node)]}", False
        name = node.attr if isinstance(node, ast.Attribute) else ""
        module = self.modules.get(root_name(node), "")
        if name and isinstance(node.value, ast.Name) and module in ("os", "sys"):  # type: ignore[attr-defined]
            return None if f"{module}.{name}" in PARTS else (f"uses {module}.{name}", True)
        if module and name.lstrip("_") in TOOLS:
            return f"uses {name} of another module", True
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for word in words_of(node):
            if word == "eval" and id(node) in self.called and isinstance(node, ast.Name):
                return "evaluates a text; texts with names end the tests", False
            if INNER.search(word) or (word in REACH and not is_function) or (
                    word in BUILTINS and isinstance(node, ast.Name)):
                return f"{'defines' if is_function else 'uses'} {word}", True
            if word in FILES and not is_function:
                return f"uses {word}, which reaches files or programs, those of the tests too", True
        if isinstance(node, ast.keyword) and node.arg in ("eq", "compare") and not is_true(node.value):
            return "changes what == compares", True
        if isinstance(node, ast.Name) and node.id in ("getattr", "type") and id(node) not in self.called:
            return f"uses {node.id} as a value", True
        if isinstance(node, ast.Name) and node.id in self.tools:
            return f"uses {node.id}, which it imports", True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in self.objects:
            return (f"uses the module {node.id} as a value", True) if node.id in self.modules else None
        return None

    def of_call(self, node: ast.AST) -> Reason:
        name = next(words_of(node.func), "") if isinstance(node, ast.Call) else ""
        args = getattr(node, "args", [])
        if name in MAKERS and len(args) > 1:
            return f"uses {name} of several arguments", True
        if name == "id" and id(node.func) in self.called and args:  # type: ignore[attr-defined]
            return "uses chance or the clock: id", False
        if name == "getattr" and not (len(args) > 1 and isinstance(args[1], ast.Constant)):
            return "reads an attribute with a computed name", True
        return self.of_name(ast.Attribute(args[0], str(args[1].value))) if name == "getattr" else None

    def of_change(self, node: ast.AST) -> Reason:
        is_target = isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) and not isinstance(node, ast.Name)
        is_other = is_target and root_name(node) in self.imported
        return (f"changes {root_name(node)}, which it imports", True) if is_other else None

    def of_text(self, node: ast.AST) -> Reason:
        value = node.value if isinstance(node, ast.Constant) else ""
        text = value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else ""
        if ">>>" in text:
            return "has a doctest", False
        found = None if id(node) in self.docs else INNER.search(text)
        return (f"has a text with {found.group()}", True) if found else None

    def of_handler(self, node: ast.AST) -> Reason:
        if not isinstance(node, ast.ExceptHandler):
            return None
        kinds = {word for each in ast.walk(node.type or ast.Name("Exception")) for word in words_of(each)}
        return ("catches all exceptions", False) if kinds & {"Exception", "BaseException", "AssertionError"} else None

    def of_function(self, node: ast.AST) -> Reason:
        is_end = isinstance(node, FUNCTIONS) and isinstance(node.body[-1], ast.Raise)
        other = is_end and any(isinstance(each, (ast.Return, ast.Yield, ast.YieldFrom)) for each in ast.walk(node))
        return (f"{getattr(node, 'name', '')} always raises", False) if is_end and not other else None

    def of_comparison(self, node: ast.AST) -> Reason:
        """A computed value, such as a checksum, may stand for an input of the tests."""
        is_bounded = isinstance(node, ast.Compare) and len(node.ops) > 1
        is_equal = is_bounded or (isinstance(node, ast.Compare) and isinstance(node.ops[0], EQUALS))
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else getattr(node, "keys", [])
        known = [value for value in map(folded, sides) if type(value) in TYPES and value not in COMMON]
        others = [each for each in sides if folded(each) is None and (is_bounded or not is_length(each))]
        is_computed = is_equal and any(isinstance(part, (ast.Call, ast.BinOp)) for each in others
                                       for part in ast.walk(each))
        is_large = isinstance(node, (ast.Compare, ast.Dict)) and any(
            isinstance(value, (int, float)) and abs(value) > 1000 for value in known)
        if not known or not (is_computed or is_large):
            return None
        return f"compares a computed value with {str(known[0])[:40]!r}", False

    def of_arithmetic(self, node: ast.AST) -> Reason:
        """Several constants in one calculation may be chosen to fit the inputs of the tests."""
        if not isinstance(node, ast.BinOp) or id(node) in self.operands:
            return None
        known = sorted({each.value for each in ast.walk(node) if isinstance(each, ast.Constant)
                        and type(each.value) in (int, float) and each.value not in UNITS})
        return (f"calculates with {', '.join(map(str, known))}", False) if len(known) > 1 else None

    def findings(self) -> Iterator[Found]:
        rules = (self.of_import, self.of_name, self.of_call, self.of_change, self.of_text, self.of_handler,
                 self.of_function, self.of_comparison, self.of_arithmetic)
        todo: List[Tuple[ast.AST, str]] = [(self.tree, "")]
        while todo:
            above, within = todo.pop()
            for node in ast.iter_child_nodes(above):
                statement = "" if isinstance(getattr(node, "body", None), list) else within or ast.dump(node)
                todo.append((node, statement))
                for why, blocks in filter(None, (rule(node) for rule in rules)):
                    yield Found(f"{dumped(node)} in {statement}", getattr(node, "lineno", 0), why, blocks)
                    break
        for node, name in bound_above(self.tree):
            if hasattr(builtins, name) and not name.startswith("__"):
                yield Found(f"bound {name}", getattr(node, "lineno", 0), f"redefines {name}", True)


def dumped(node: ast.AST) -> str:
    """A node as text; of a statement with blocks, except a function, without them: their statements are nodes, too."""
    head = copy.copy(node)
    is_block = isinstance(getattr(node, "body", None), list) and not isinstance(node, FUNCTIONS)
    for name in ("body", "orelse", "handlers", "finalbody", "cases") if is_block else ():
        if hasattr(head, name):
            setattr(head, name, [])
    return ast.dump(head)


def bound_above(tree: ast.AST) -> Iterator[Tuple[ast.AST, str]]:
    """Names bound at the top level, as for `from MODULE import *`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            yield node, getattr(node, "name", "")
        else:
            if isinstance(node, (ast.alias, ast.ExceptHandler)) or isinstance(getattr(node, "ctx", None), ast.Store):
                yield node, next(reversed(list(words_of(node))), "")
            yield from bound_above(node)


def finding(row: Json, line: int, why: str, blocks: bool = True) -> Json:
    return {"path": row["path"], "line": line, "why": why, "blocks": blocks}


def code_findings(row: Json) -> Iterator[Json]:
    """Findings in the new text that are not in the old one, and removed doctests."""
    texts = base_text(row["path"]), now_text(row)
    found: List[List[Found]] = [[], []]
    for n, text in enumerate(texts):
        try:
            found[n] = [] if text is None else sorted(File(text).findings(), key=lambda each: each.line)
        except (SyntaxError, ValueError, RecursionError) as error:
            if n == 1:
                yield finding(row, 0, f"cannot be read as Python ({type(error).__name__})")
    keys = [each.key for each in found[0]]
    for each in found[1]:
        if each.key in keys:
            keys.remove(each.key)
        else:
            yield finding(row, each.line, each.why, each.blocks)
    if any(each.key in keys and each.why == "has a doctest" for each in found[0]):
        yield finding(row, 0, "had a doctest, and changes it")


# Inputs of the tests ------------------------------------------------------------------------


def folded(node: Optional[ast.AST]) -> Any:
    """The value of constants and of their sums; None: not written as constants."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -folded(node.operand) if isinstance(folded(node.operand), (int, float)) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = folded(node.left), folded(node.right)
        return left + right if type(left) is type(right) and isinstance(left, (int, str, bytes)) else None
    return None


def deciding(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that names are compared with, also by patterns, bounds and keys."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], EQUALS):
        sides = [node.left, *node.comparators]
        yield from sides if any(isinstance(each, (ast.Name, ast.Tuple)) for each in sides) else ()
    elif isinstance(node, ast.Dict):
        yield from filter(None, node.keys)
    elif type(node).__name__ == "MatchValue" or getattr(getattr(node, "func", None), "id", "") in ("min", "max"):
        yield node


def lengths_and_letters(node: ast.AST, is_any: bool) -> Iterator[str]:
    """Lengths that tests use or the code compares with, and letters of a text that names are looked up in."""
    if is_any and isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        yield f"a length of {len(node.value)}"
        yield from (repr(each) for each in re.findall(r"\w{4,}", str(node.value)) for each in {each, each.lower()})
    elif is_any and isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        yield f"a length of {len(node.elts)}"
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        sides = [node.left, *node.comparators]
        if any(map(is_length, sides)):
            yield from (f"a length of {each.value}" for each in sides if isinstance(each, ast.Constant))
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        text = getattr(node.comparators[0], "value", None)
        yield from map(repr, text if isinstance(text, str) else ())


def constants_of(text: Optional[bytes], is_any: bool) -> Dict[str, int]:
    """Constants, as texts, with a line of each. is_any: also common ones on which nothing depends."""
    try:
        nodes = list(ast.walk(ast.parse(text or b"")))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    known = {id(part) for node in nodes for each in deciding(node) for part in ast.walk(each)}
    found = {each: getattr(node, "lineno", 0) for node in nodes for each in lengths_and_letters(node, is_any)}
    found.update((repr(node.value), node.lineno) for node in nodes if isinstance(node, ast.Constant)
                 and not isinstance(node.value, (bool, type(None), type(...))) and (is_any or id(node) in known or (
                     len(node.value) > 1 if isinstance(node.value, (str, bytes))
                     else node.value not in COMMON)))
    found.update((repr(folded(node)), node.lineno) for node in nodes
                 if isinstance(node, ast.BinOp) and isinstance(folded(node), str))
    return found


NUMBERS = tuple(map(str, COMMON))
SCRIPT_CONSTANT = r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`[^`$]*`|\b\d[\w.]*"
SCRIPT_DECIDING = re.compile(
    rf"[!=]==?\s*({SCRIPT_CONSTANT})|({SCRIPT_CONSTANT})\s*[!=]==?|\bcase\s+({SCRIPT_CONSTANT})")
SCRIPT_COMPUTED = re.compile(rf"(?:\)|[*/%+-]\s*[\w.]+)\s*[!=]==?\s*({SCRIPT_CONSTANT})")


def script_constants(text: Optional[bytes], is_any: bool) -> Dict[str, int]:
    """The same for scripts, by the form of constants alone."""
    code = (text or b"").decode("utf-8", "replace")
    places = [(each.group(), each.start()) for each in re.finditer(SCRIPT_CONSTANT, code)
              if is_any or (len(each.group()) > 3 if each.group()[0] in "'\"`" else each.group() not in NUMBERS)]
    if not is_any:
        places += [(next(filter(None, each.groups())), each.start()) for each in SCRIPT_DECIDING.finditer(code)]
    return {constant.strip("'\"`"): code.count("\n", 0, at) + 1 for constant, at in reversed(places)}


def script_literal_findings(rows: List[Json]) -> Iterator[Json]:
    scripts = [row for row in rows if SCRIPT.search(row["path"])]
    paths = test_paths(SCRIPT) if scripts else ()
    of_tests = {each for path in paths for each in script_constants(base_text(path), True)}
    for row in scripts:
        old, new = script_constants(base_text(row["path"]), False), script_constants(now_text(row), False)
        yield from shared_findings(row, of_tests, old, new)
        text = (now_text(row) or b"").decode("utf-8", "replace")
        computed = [each.group(1) for each in SCRIPT_COMPUTED.finditer(text) if each.group(1) not in NUMBERS]
        if computed and computed[0].strip("'\"`") not in old:
            yield finding(row, 0, f"compares a computed value with {computed[0][:40]}", False)


def test_constants() -> Set[str]:
    return {each for path in test_paths(re.compile(r"\.py$")) for each in constants_of(base_text(path), True)}


def test_paths(ends: "re.Pattern[str]") -> Iterator[str]:
    for above, folders, names in os.walk(TOP):
        folders[:] = [each for each in folders if each != "node_modules"]
        paths = [os.path.relpath(os.path.join(above, name), TOP) for name in names if ends.search(name)]
        yield from filter(is_test, paths)


def shared_findings(row: Json, of_tests: Set[str], old: Dict[str, int], new: Dict[str, int]) -> Iterator[Json]:
    same = sorted((line, each) for each, line in new.items() if each in of_tests and each not in old)
    if same:
        shown = ", ".join(each[:40] for _, each in same[:5])
        yield finding(row, same[0][0], f"has constants that tests have, too: {shown}", False)


def literal_findings(rows: List[Json]) -> Iterator[Json]:
    """Constants of the change that tests have, too: it may know their inputs instead of the rule."""
    changed = {row["path"]: row for row in rows if row["path"].endswith(".py")}
    of_tests = test_constants() if changed else set()
    for path, row in changed.items():
        old, new = constants_of(base_text(path), False), constants_of(now_text(row), False)
        yield from shared_findings(row, of_tests, old, new)


def parameters_of(text: Optional[bytes]) -> Dict[str, Dict[str, int]]:
    """{function: {parameter: its line}}"""
    try:
        nodes = list(ast.walk(ast.parse(text or b"")))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return {node.name: {each.arg: each.lineno for each in ast.walk(node.args) if isinstance(each, ast.arg)}
            for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def parameter_findings(row: Json) -> Iterator[Json]:
    """New parameters of functions: tests that do not know them get the default."""
    old = parameters_of(base_text(row["path"]))
    for name, parameters in parameters_of(now_text(row)).items():
        for parameter, line in parameters.items():
            if name in old and parameter not in old[name]:
                yield finding(row, line, f"adds the parameter {parameter} to {name}", False)


# Other files --------------------------------------------------------------------------------


def hides(path: str) -> Optional[str]:
    """The module that a new file hides."""
    places = [place for place in sys.path if place and not place.startswith(TOP)]
    for n, part in enumerate(path.split("/")):
        name = part[:-3] if part.endswith(".py") else part
        above = os.path.join(TOP, *path.split("/")[:n])
        is_new = not os.path.exists(os.path.join(above, part))
        if not is_new or os.path.exists(os.path.join(above, "__init__.py")) or not name.isidentifier():
            continue
        is_here = any(os.path.exists(os.path.join(TOP, folder, name + end))
                      for folder in ("", "src") for end in (".py", ""))
        if is_here or name in sys.builtin_module_names or importlib.machinery.PathFinder.find_spec(name, places):
            return name
    return None


def script_findings(rows: List[Json]) -> Iterator[Json]:
    """Findings in JavaScript, read by node's own parser."""
    asked = {}
    for row in rows:
        base, now = base_text(row["path"]), now_text(row)
        if SCRIPT.search(row["path"]) and now is not None:
            asked[row["path"]] = {"base": None if base is None else base.decode("utf-8", "replace"),
                                  "now": now.decode("utf-8", "replace")}
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "script.js")
    try:
        done = subprocess.run(["node", "--expose-internals", script], input=json.dumps(asked).encode(), cwd=TOP,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60) if asked else None
        yield from (each for each in ([] if done is None else json.loads(done.stdout))
                    if "imports" not in each or is_test(each.pop("imports")))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        yield from (finding({"path": path}, 0, "is JavaScript, and node was not there to read it") for path in asked)


def file_findings(row: Json) -> Iterator[Json]:
    path, now = row["path"], row["now"]
    for member in ("refused", "must_be_named"):
        if member in row:
            yield finding(row, 0, row[member])
    if now is not None and now["type"] != "file":
        yield finding(row, 0, "it is a link")
    elif row["base"] is None and hides(path) is not None:
        yield finding(row, 0, f"it hides the module {hides(path)}")
    elif path.endswith(".py"):
        yield from code_findings(row)
        yield from parameter_findings(row)
    elif is_manifest(path):
        yield from manifest_findings(row)
    elif SCRIPT.search(path) is None or "node_modules" in path.split("/"):
        # No text either: tests that read it may take from it what they expect.
        yield finding(row, 0, "it is not Python, and was not read")


def findings_of(rows: List[Json]) -> List[Json]:
    ours = [row for row in rows if not is_test(row["path"])]
    found = [*script_findings(ours), *(each for row in ours for each in file_findings(row)), *literal_findings(ours),
             *script_literal_findings(ours)]
    return sorted(found, key=lambda each: not each["blocks"])[:100]
