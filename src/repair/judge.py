# SPDX-License-Identifier: Apache-2.0
"""What verdict runs need inside their sandboxes: writing a patch, finding its hunks, and reading its code.

Nothing of the patch runs while this does. Reading decides whether a change stays away from what collects the results:
tests and candidate share a process, so whoever can reach the test runner's objects could say anything. What is not
known to be harmless is a finding, and a finding is never ready.
"""

import ast
import base64
import builtins
import difflib
import dis
import importlib
import importlib.machinery
import json
import os
import re
import shlex
import subprocess
import sys
import types
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

Json = Dict[str, Any]
TOP = "/workspace"
DIFF_LINES = 60

CONFIGURATION = ("conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "setup.py", "pyproject.toml",
                 "noxfile.py", ".coveragerc", "package.json")
SCRIPT = re.compile(r"\.[cm]?js$")
# What node's runner takes for tests by its name, and what configures tools.
SCRIPT_TEST = re.compile(r"((^|[._-])(test|spec)s?|^test-.*|\.config|^\.\w+rc)\.[cm]?[jt]sx?$")
HARMLESS = frozenset(
    "__future__ abc base64 bisect calendar collections collections.abc contextlib copy csv datetime decimal difflib "
    "fractions functools hashlib heapq html itertools json keyword math numbers random re statistics string struct "
    "textwrap time typing unicodedata uuid zlib".split())
# Of other modules that a file imports already.
PURE = frozenset("os.path.join os.path.basename os.path.dirname os.path.splitext os.path.normpath os.path.isabs os.sep "
                 "os.linesep os.fspath sys.maxsize sys.byteorder sys.version_info sys.float_info sys.intern".split())
NAMES = frozenset("exec eval compile globals locals vars getattr setattr delattr breakpoint open input memoryview type "
                  "exit quit help SystemExit KeyboardInterrupt GeneratorExit BaseException".split())
# Of modules and of objects: evaluate texts, set or read what a text names, make classes, or swallow what a test raises.
ATTRIBUTES = frozenset(
    "modules settrace setprofile argv environ currentframe sys os inspect builtins bltns gc types ctypes importlib "
    "subprocess threading signal atexit codecs exit abort kill system write_text write_bytes open unlink rename "
    "rglob glob iterdir symlink_to hardlink_to attrgetter methodcaller mro with_traceback func_globals exec eval "
    "getattr setattr delattr get_type_hints ForwardRef singledispatch singledispatchmethod update_wrapper wraps "
    "Formatter get_field format_map EnumMeta EnumType Enum IntEnum Flag IntFlag StrEnum suppress ExitStack "
    "AsyncExitStack meta_path path_hooks".split())
INNER = ("f_", "tb_", "gi_", "cr_", "ag_", "co_")
# A class may define these without changing what a test compares.
METHODS = frozenset("__init__ __repr__ __str__ __iter__ __next__ __enter__ __call__ __post_init__ __doc__ __name__ "
                    "__all__ __main__ __version__ __author__ __slots__".split())
SWALLOWED = ("Exception", "AssertionError")
BASES = ("object", "ABC", "NamedTuple", "TypedDict", "Protocol", "Generic")
WORDS = ("/proc", "/tmp", "/dev", "pytest", "unittest", "conftest", "__")


def is_test(path: str) -> bool:
    """Tests, and what says how they run: they stay as the project has them."""
    *folders, name = path.lower().split("/")
    return (any(each in ("tests", "test", "testing", "__tests__", "spec", "fixtures") for each in folders)
            or name.startswith(("test_", "tests.", "test.")) or name.endswith(("_test.py", "_tests.py"))
            or name in CONFIGURATION or SCRIPT_TEST.search(name) is not None)


def now_text(row: Json) -> Optional[bytes]:
    now = row["now"]
    return None if now is None or now["type"] != "file" else base64.b64decode(now["base64"])


def base_text(path: str) -> Optional[bytes]:
    try:
        with open(os.path.join(TOP, path), "rb") as file:
            return file.read()
    except OSError:
        return None


def lines_of(data: Optional[bytes]) -> Optional[List[str]]:
    """With their ends; None: not a text."""
    try:
        return [] if data is None else data.decode("utf-8").splitlines(keepends=True)
    except UnicodeDecodeError:
        return None


# Hunks --------------------------------------------------------------------------------------

Block = Tuple[int, int, int, int]


def blocks_of(row: Json) -> List[Block]:
    """What differs: lines i1 to i2 of the base became lines j1 to j2. [] if the file is one hunk as a whole."""
    base, now = base_text(row["path"]), now_text(row)
    old, new = lines_of(base), lines_of(now)
    if base is None or now is None or old is None or new is None:
        return []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [(i1, i2, j1, j2) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"]


def hunks_of(rows: List[Json], unexecuted: List[str]) -> List[Json]:
    found = []
    for row in rows:
        is_pinned = is_manifest(row["path"]) and not list(manifest_findings(row))  # nothing here installs it
        if not is_test(row["path"]) and row["path"] not in unexecuted and not is_pinned:
            blocks = blocks_of(row)
            found += [{"path": row["path"], "line": block[2] + 1, "block": n} for n, block in enumerate(blocks)]
            if not blocks:
                found.append({"path": row["path"], "line": 0, "block": None})
    return found


def without(row: Json, block: int) -> bytes:
    """The new text with one of its blocks as the base has it."""
    i1, i2, j1, j2 = blocks_of(row)[block]
    old, new = lines_of(base_text(row["path"])), lines_of(now_text(row))
    assert old is not None and new is not None
    return "".join(new[:j1] + old[i1:i2] + new[j2:]).encode()


# Coverage -----------------------------------------------------------------------------------


def code_lines(text: bytes) -> Set[int]:
    """Lines of Python on which something runs."""
    found: Set[int] = set()
    todo = [compile(text, "", "exec", dont_inherit=True)]
    while todo:
        code = todo.pop()
        found.update(line for _, line in dis.findlinestarts(code) if line)
        todo += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return found


def changed_lines(rows: List[Json], unexecuted: List[str]) -> Dict[str, List[int]]:
    """Of Python and JavaScript, lines of the new text that the base has not, without those on which nothing runs."""
    found = {}
    for row in rows:
        text = now_text(row)
        lines = lines_of(text)
        is_python = row["path"].endswith(".py")
        if not text or not lines or is_test(row["path"]) or row["path"] in unexecuted:
            continue
        if not is_python and not SCRIPT.search(row["path"]):
            continue
        blocks = blocks_of(row) if row["base"] is not None else [(0, 0, 0, len(lines))]
        changed = {n + 1 for _, _, j1, j2 in blocks for n in range(j1, j2)}
        try:
            runs = code_lines(text) if is_python else {n + 1 for n, line in enumerate(lines) if re.search(r"\w", line)}
        except (SyntaxError, ValueError, RecursionError):
            continue  # a finding
        if changed & runs:
            found[row["path"]] = sorted(changed & runs)
    return found


def covered_scripts(text: str, ranges: List[Json], changed: List[int]) -> Set[int]:
    """Executed lines of a script, by V8's counts: the innermost range around a line decides."""
    starts = [0]
    for each_line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(each_line))
    found: Set[int] = set()
    for line in changed:
        code = text[starts[line - 1]:starts[line]]
        at = starts[line - 1] + len(code) - len(code.lstrip())
        around = [each for each in ranges if each["startOffset"] <= at < each["endOffset"]]
        if around and min(around, key=lambda each: int(each["endOffset"]) - int(each["startOffset"]))["count"] > 0:
            found.add(line)
    return found


def uncovered(folder: str) -> None:
    """Answers in uncovered.json with the changed lines that no process of the command ran."""
    with open(os.path.join(folder, "cover.json")) as file:
        left = {path: set(lines) for path, lines in json.load(file).items()}
    changed = {path: sorted(lines) for path, lines in left.items()}
    for name in os.listdir(folder):
        if not name.startswith(("covered-", "coverage-")):
            continue
        with open(os.path.join(folder, name)) as file:
            found = json.load(file)
        for path, lines in found.items() if name.startswith("covered-") else ():
            left.get(path, set()).difference_update(lines)
        for each in found["result"] if name.startswith("coverage-") else ():
            path = os.path.relpath(each["url"].partition("file://")[2] or "/", TOP)
            if path in left:
                text = (base_text(path) or b"").decode("utf-8", "replace")
                ranges = [one for function in each["functions"] for one in function["ranges"]]
                left[path].difference_update(covered_scripts(text, ranges, changed[path]))
    with open(os.path.join(folder, "uncovered.json"), "w") as file:
        json.dump({path: sorted(lines) for path, lines in left.items() if lines}, file)


# Writing ------------------------------------------------------------------------------------


def write(path: str, row: Json, data: Optional[bytes]) -> None:
    place = os.path.join(TOP, path)
    now = row["now"]
    if os.path.lexists(place):
        os.remove(place)
    if now is None:
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if data is None:
        os.symlink(now["target"], place)
        return
    with open(place, "wb") as file:
        file.write(data)
    os.chmod(place, 0o755 if now["executable"] else 0o644)


def apply(patch: str, hunk: Optional[Json], unexecuted: List[str], has_tests: bool = False) -> None:
    """All of a patch but its tests (unless they are asked for) and what is never executed, or all but one hunk."""
    with open(patch) as file:
        rows = json.load(file)["files"]
    todo = []
    for row in rows:
        if (is_test(row["path"]) and not has_tests) or row["path"] in unexecuted:
            continue
        data = now_text(row)
        if hunk is not None and hunk["path"] == row["path"]:
            if hunk["block"] is None:
                continue
            data = without(row, hunk["block"])
        todo.append((row, data))
    for row, data in todo:  # only now, because `without` reads what is there
        write(row["path"], row, data)


# Reading ------------------------------------------------------------------------------------


def root_name(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.AST) -> str:
    """a.b.c; "": it is something else."""
    if isinstance(node, ast.Attribute):
        above = dotted(node.value)
        return above and f"{above}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def exists(name: str) -> bool:
    return any(os.path.exists(os.path.join(TOP, folder, name + end)) for folder in ("", "src") for end in (".py", ""))


def is_local(name: str) -> bool:
    root = name.split(".")[0]
    return exists(root) and root not in getattr(sys, "stdlib_module_names", sys.builtin_module_names)


def is_public(module: str, name: str) -> bool:
    """Whether a module means to offer it, rather than having imported it for itself."""
    try:
        value = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return False
    is_own = getattr(value, "__module__", module) in (module, "_" + module, None)
    offered = getattr(importlib.import_module(module), "__all__", None)
    return not isinstance(value, types.ModuleType) and (is_own if offered is None else name in offered)


class Facts:
    """What a file says about itself, before its nodes are seen one by one."""

    def __init__(self, tree: ast.AST) -> None:
        self.imports: Set[str] = set()  # names that are bound by imports
        self.modules: Dict[str, str] = {}  # of these, modules
        self.outside: Set[str] = set()  # of these, what is not the project's own
        self.foreign: Set[str] = set()  # of these, what is not harmless either
        self.fine: Set[int] = set()  # nodes that are harmless where they stand
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.bind(alias.asname or alias.name.split(".")[0],
                              alias.name if alias.asname else alias.name.split(".")[0], alias.name)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    is_module = exists("/".join([*(node.module or "").split("."), alias.name]).lstrip("/"))
                    self.bind(alias.asname or alias.name, alias.name if is_module or not node.module else "",
                              "" if node.level else node.module or "")
            self.find_fine(node)

    def bind(self, name: str, module: str, source: str) -> None:
        self.imports.add(name)
        if module:
            self.modules[name] = module
        if source and not is_local(source):
            self.outside.add(name)
            if source not in HARMLESS:
                self.foreign.add(name)

    def find_fine(self, node: ast.AST) -> None:
        if isinstance(node, ast.Attribute):
            self.fine.add(id(node.value))
        elif isinstance(node, ast.Raise) and node.exc is not None:
            self.fine.add(id(node.exc.func if isinstance(node.exc, ast.Call) else node.exc))
        elif isinstance(node, ast.ClassDef):
            self.fine.update(id(base) for base in node.bases if not isinstance(base, ast.Attribute))
        elif isinstance(node, ast.keyword) and node.arg == "metaclass" and dotted(node.value).endswith("ABCMeta"):
            self.fine.add(id(node.value))
        elif (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
              and isinstance(node.func.value, ast.Constant) and isinstance(node.func.value.value, str)
              and not re.search(r"\{[^}:!]*[.\[]|\{[^}]*\{", node.func.value.value)):
            self.fine.add(id(node.func))


def imported_from(node: ast.AST) -> List[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [node.module or ""]
    return []


def why_not_import(node: ast.AST) -> Optional[str]:
    for name in imported_from(node):
        if name not in HARMLESS and not is_local(name):
            return f"imports {name}"
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            full = f"{getattr(node, 'module', None) or ''}.{alias.name}".strip(".")
            if is_test(full.replace(".", "/") + ".py") or is_test(full.rpartition(".")[0].replace(".", "/") + ".py"):
                return f"imports from tests: {full}"
            if alias.name == "*":
                return "imports all names of a module"
            if isinstance(node, ast.ImportFrom) and node.module in HARMLESS and node.module != "__future__":
                if node.level == 0 and not is_public(node.module, alias.name):
                    return f"imports {full}"
    return None


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name not in METHODS


def is_inner(name: str, is_self: bool) -> bool:
    return (name in ATTRIBUTES or name.startswith(INNER) or is_dunder(name)
            or (name.startswith("_") and name not in METHODS and not is_self))


def identifiers(node: ast.AST) -> Iterator[str]:
    """Every name that a node says, wherever the language allows one."""
    for _, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str) and not isinstance(node, ast.Constant):
                yield from each.split(".")


def why_not_name(node: ast.AST, facts: Facts) -> Optional[str]:
    """Names and attributes."""
    full = dotted(node)
    root, _, name = full.partition(".")
    if isinstance(node, ast.Name):
        if node.id in NAMES or (node.id in SWALLOWED and id(node) not in facts.fine):
            return f"uses {node.id}"
        if node.id == "ABCMeta" and id(node) not in facts.fine:
            return "uses ABCMeta"
        if isinstance(node.ctx, ast.Load) and id(node) not in facts.fine and node.id in facts.modules:
            return f"uses the module {node.id} as a value"
        if node.id in facts.foreign and id(node) not in facts.fine:
            return f"uses {node.id}, which is not known to be harmless"
    if isinstance(node, ast.Attribute):
        is_pure = any(each == full or each.startswith(full + ".") for each in PURE)
        if root in facts.foreign and not is_pure:
            return f"uses {full}, which is not known to be harmless"
        module = facts.modules.get(root, "")
        if module in HARMLESS and "." not in name and not is_public(module, name) and full != "collections.abc":
            return f"uses {full}"
        if is_inner(node.attr, is_own(node)) and not is_pure:
            return f"uses {node.attr}"
        if node.attr in ("format", "ABCMeta") and id(node) not in facts.fine:
            return f"uses {node.attr}"
    for each in [node.name.split(".")[-1]] if isinstance(node, ast.alias) else getattr(node, "kwd_attrs", []):
        if is_inner(each, False):
            return f"uses {each}"
    return None


def why_not_block(node: ast.AST, facts: Facts) -> Optional[str]:
    """What could swallow the failure of a test, or be one."""
    if isinstance(node, ast.ExceptHandler) and node.type is None:
        return "catches everything, failures of tests too"
    if isinstance(node, ast.Try):
        if node.handlers and any(isinstance(each, (ast.Yield, ast.YieldFrom, ast.Await))
                                 for part in node.body for each in ast.walk(part)):
            return "catches what the code around its yield raises"
        if any(isinstance(each, (ast.Return, ast.Break, ast.Continue))
               for part in node.finalbody for each in ast.walk(part)):
            return "leaves a finally block, and forgets what was raised"
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if node.name.startswith(("test", "Test", "pytest_", "load_tests")) or node.name == "mro":
            return f"has the test or hook {node.name}"
    if isinstance(node, ast.ClassDef):
        for base in node.bases:
            name = dotted(base.value if isinstance(base, ast.Subscript) else base).split(".")[-1]
            is_known = name in BASES or name.endswith(("Error", "Exception", "Warning"))
            if not is_known and (not name or hasattr(builtins, name) or root_name(base) in facts.outside):
                return f"is a {name or 'class of a value'} of its own"
        if any(each.arg == "metaclass" and id(each.value) not in facts.fine for each in node.keywords):
            return "has a metaclass"
    return None


def why_not(node: ast.AST, facts: Facts) -> Optional[str]:
    """What speaks against a node, seen alone."""
    for name in identifiers(node):
        if is_dunder(name):
            return f"defines or uses {name}"
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        for word in WORDS:
            if word in text.lower():
                return f"has a text with {word}"
    if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) and not isinstance(node, ast.Name):
        if root_name(node) in facts.imports:
            return f"changes {root_name(node)}, which it imports"
    return why_not_import(node) or why_not_name(node, facts) or why_not_block(node, facts)


def is_own(node: ast.AST) -> bool:
    """self._x and cls._x."""
    return isinstance(node, ast.Attribute) and root_name(node) in ("self", "cls") and not node.attr.startswith("__")


def bound_above(tree: ast.Module) -> Iterator[Tuple[ast.AST, str]]:
    """Names that a module gives to whoever imports all of it."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node, node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node, node.id
        elif isinstance(node, ast.alias):
            yield node, node.asname or node.name
        elif isinstance(node, ast.ExceptHandler) or type(node).__name__ in ("MatchAs", "MatchStar", "MatchMapping"):
            yield node, getattr(node, "name", None) or getattr(node, "rest", None) or ""


def placed(node: ast.AST, within: str = "") -> Iterator[Tuple[ast.AST, str]]:
    """Every node, and the statement that it is in: what is harmless in one may not be in another."""
    for child in ast.iter_child_nodes(node):
        is_block = isinstance(getattr(child, "body", None), list)
        text = "" if is_block else within or ast.dump(child)
        yield child, text
        yield from placed(child, text)


def suspicious(text: bytes, false_friends: Set[str]) -> List[Tuple[str, int, str]]:
    """(the node as text and its statement, its line, what speaks against it)."""
    tree = ast.parse(text)
    facts = Facts(tree)
    docs = {id(node.body[0].value) for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.body
            and isinstance(node.body[0], ast.Expr)}
    found = []
    for node, within in placed(tree):
        why = None if id(node) in docs else why_not(node, facts)
        for name in identifiers(node) if why is None else []:
            if name in false_friends:
                why = f"uses {name}, which the project lets equal anything"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ">>>" in node.value:
            why = "has a doctest"
        if why is not None:
            found.append((f"{ast.dump(node)} in {within}", getattr(node, "lineno", 0), why))
    for node, name in bound_above(tree):
        if (hasattr(builtins, name) and not name.startswith("__")) or name in ("pytest", "unittest"):
            found.append((f"bound {name}", getattr(node, "lineno", 0), f"gives the name {name} another meaning"))
    return found


def is_encoded(text: bytes) -> bool:
    return any(re.search(rb"coding[:=]\s*(?!utf-?8)", line, re.I) and line.lstrip().startswith(b"#")
               for line in text.splitlines()[:2])


def code_findings(row: Json, false_friends: Set[str]) -> Iterator[Json]:
    """What the new text has that the old one has not, and the tests that it has no more."""
    known: List[Tuple[str, int, str]] = []
    base, now = base_text(row["path"]), now_text(row)
    try:
        known = [] if base is None else suspicious(base, false_friends)
    except (SyntaxError, ValueError, RecursionError):
        pass
    try:
        found = [] if now is None else suspicious(now, false_friends)
    except (SyntaxError, ValueError, RecursionError) as error:
        yield {"path": row["path"], "line": 0, "why": f"cannot be read as Python ({type(error).__name__})"}
        return
    if now is not None and is_encoded(now) and not (base is not None and is_encoded(base)):
        yield {"path": row["path"], "line": 1, "why": "has an encoding of its own"}
    texts = [text for text, _, _ in known]
    for text, line, why in found:
        if text in texts:
            texts.remove(text)
        else:
            yield {"path": row["path"], "line": line, "why": why}
    for text, line, why in known:
        if text in texts and why.startswith(("has the test", "has a doctest")):
            yield {"path": row["path"], "line": 0, "why": f"{why.replace('has', 'had', 1)}, and changes it"}


# Names and dependencies ---------------------------------------------------------------------


def is_manifest(path: str) -> bool:
    return re.match(r"(requirements|constraints)[^/]*\.txt$", os.path.basename(path)) is not None


PINNED = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w, -]*\])?\s*==\s*[\w.!+-]+(\s*;((?!--)[^#])*?)?"
                    r"(\s+--hash=sha256:[0-9a-f]{64})+$")


def manifest_findings(row: Json) -> Iterator[Json]:
    """New dependencies have a name, a version and the SHA-256 of what is installed."""
    known = entries(base_text(row["path"]))
    for entry in entries(now_text(row)):
        if entry not in known and not PINNED.match(entry):
            yield {"path": row["path"], "line": 0,
                   "why": f"adds {entry[:80]!r} without NAME==VERSION --hash=sha256:HASH"}


def entries(text: Optional[bytes]) -> List[str]:
    joined = re.sub(r"\\\r?\n", " ", (text or b"").decode("utf-8", "replace"))
    return [line for line in (re.sub(r"(^|\s)#.*", "", each).strip() for each in joined.splitlines()) if line]


# What equals anything -----------------------------------------------------------------------


def project_trees() -> Iterator[ast.Module]:
    """Without its tests: importing from them is a finding by itself."""
    for above, folders, names in os.walk(TOP):
        folders[:] = [each for each in folders if not each.startswith(".") and each != "node_modules"]
        for name in names:
            path = os.path.join(above, name)
            if name.endswith(".py") and not is_test(os.path.relpath(path, TOP)):
                try:
                    with open(path, "rb") as file:
                        yield ast.parse(file.read())
                except (OSError, SyntaxError, ValueError, RecursionError):
                    pass


def is_lax(node: ast.AST) -> bool:
    """A comparison that asks nothing of what it compares with."""
    if not isinstance(node, ast.FunctionDef) or node.name not in ("__eq__", "__ne__") or len(node.args.args) < 2:
        return False
    other = node.args.args[1].arg
    return not any(isinstance(each, ast.Attribute) and root_name(each) == other for each in ast.walk(node))


def lax_names() -> Set[str]:
    """Classes of the project that equal more than themselves, doubles of unittest.mock, and what says their names."""
    names = {"ANY", "Mock", "MagicMock", "NonCallableMock", "AsyncMock"}
    said = []
    for tree in project_trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                said.append((node.name, {dotted(base).split(".")[-1] for base in node.bases}))
                names.update([node.name] if any(is_lax(each) for each in node.body) else [])
            elif isinstance(node, ast.FunctionDef):
                said.append((node.name, {word for each in ast.walk(node) for word in identifiers(each)} - {node.name}))
            elif isinstance(node, ast.Assign) and node in tree.body:
                words = {word for each in ast.walk(node.value) for word in identifiers(each)}
                said += [(dotted(target), words) for target in node.targets if dotted(target)]
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                said += [(alias.asname, {alias.name}) for alias in node.names if alias.asname]
    n = 0
    while n != len(names):
        n = len(names)
        names.update(name for name, words in said if words & names and not is_dunder(name) and name not in METHODS)
    return names


def hides(path: str) -> Optional[str]:
    """The module that a new file comes before."""
    places = [place for place in sys.path if place and not place.startswith(TOP)]
    for n, part in enumerate(path.split("/")):
        name = part[:-3] if part.endswith(".py") else part
        above = os.path.join(TOP, *path.split("/")[:n])
        is_new = not os.path.exists(os.path.join(above, part))
        if not is_new or os.path.exists(os.path.join(above, "__init__.py")) or not name.isidentifier():
            continue
        if exists(name):
            return name
        if name in sys.builtin_module_names or importlib.machinery.PathFinder.find_spec(name, places) is not None:
            return name
    return None


def is_module(path: str) -> bool:
    """Whether node takes a script as a module; package.json stays as the project has it."""
    above = os.path.dirname(path)
    while not path.endswith((".mjs", ".cjs")):
        text = base_text(os.path.join(above, "package.json"))
        if text is not None or not above:
            try:
                return text is not None and json.loads(text).get("type") == "module"
            except (ValueError, AttributeError):
                return False
        above = os.path.dirname(above)
    return path.endswith(".mjs")


def script_findings(rows: List[Json]) -> Iterator[Json]:
    """Node's own parser reads them."""
    asked = {}
    for row in rows:
        base, now = base_text(row["path"]), now_text(row)
        if SCRIPT.search(row["path"]) and not is_test(row["path"]) and now is not None:
            asked[row["path"]] = {"base": None if base is None else base.decode("utf-8", "replace"),
                                  "now": now.decode("utf-8", "replace"), "module": is_module(row["path"])}
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "script.js")
    try:
        done = subprocess.run(["node", "--expose-internals", script], input=json.dumps(asked).encode(), cwd=TOP,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60) if asked else None
        found = [] if done is None else json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        found = [{"path": path, "line": 0, "why": "is JavaScript, and node was not there to read it"} for path in asked]
    for each in found:
        module = each.pop("imports", None)
        if module is None or is_test(module):
            yield each


def findings_of(rows: List[Json]) -> Iterator[Json]:
    false_friends = lax_names()
    yield from script_findings(rows)
    for row in rows:
        path, now = row["path"], row["now"]
        if is_test(path):
            continue
        for member in ("refused", "must_be_named"):
            if member in row:
                yield {"path": path, "line": 0, "why": row[member]}
        if now is not None and now["type"] != "file":
            yield {"path": path, "line": 0, "why": "it is a link"}
        elif row["base"] is None and hides(path) is not None:
            yield {"path": path, "line": 0, "why": f"it hides the module {hides(path)}"}
        elif path.endswith(".py"):
            yield from code_findings(row, false_friends)
        elif is_manifest(path):
            yield from manifest_findings(row)
        elif SCRIPT.search(path) is None or "node_modules" in path.split("/"):
            # No text either: tests that read it may take from it what they expect.
            yield {"path": path, "line": 0, "why": "it is not Python, and was not read"}


# Measures -----------------------------------------------------------------------------------


def parameters(text: Optional[bytes]) -> Dict[str, str]:
    """Of functions and methods that are not private, by where they stand."""
    found = {}
    todo: List[Tuple[str, ast.AST]] = [("", ast.parse(text or b""))]
    while todo:
        above, node = todo.pop()
        for child in getattr(node, "body", []):
            if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                name = f"{above}.{child.name}"
                if isinstance(child, ast.ClassDef):
                    todo.append((name, child))
                elif not child.name.startswith("_") or child.name == "__init__":
                    found[name] = ast.dump(child.args)
    return found


def signatures(rows: List[Json]) -> Optional[float]:
    """The share of the functions of changed files that kept their parameters; None: they had none."""
    kept = []
    for row in rows:
        if row["path"].endswith(".py") and not is_test(row["path"]):
            try:
                now = parameters(now_text(row))
                before = parameters(base_text(row["path"]))
                kept += [now.get(name) == args for name, args in before.items()]
            except (SyntaxError, ValueError, RecursionError):
                pass
    return sum(kept) / len(kept) if kept else None


def n_lines(row: Json) -> int:
    """Added and removed."""
    old, new = lines_of(base_text(row["path"])) or [], lines_of(now_text(row)) or []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return sum(i2 - i1 + j2 - j1 for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal")


def measured(rows: List[Json]) -> Json:
    return {"signature_correctness": signatures(rows), "patch_size": sum(n_lines(row) for row in rows)}


def own_tests(rows: List[Json]) -> Dict[str, str]:
    """By runner, the command that runs the tests which the patch itself has."""
    paths = [row["path"] for row in rows if is_test(row["path"]) and row["now"] is not None]
    found = {}
    for runner, command, pattern in (("pytest", "python3 -m pytest -q", r"(^|/)(test_[^/]*|[^/]*_test)\.py$"),
                                     ("unittest", "python3 -m unittest", r"(^|/)test[^/]*\.py$"),
                                     ("node", "node --test", r"((^|[/._-])tests?|/test-[^/]*)\.[cm]?js$")):
        of_runner = [path for path in paths if re.search(pattern, path)]
        if of_runner:
            found[runner] = " ".join([command, *map(shlex.quote, of_runner)])
    return found


def changes(old: str, new: str, name: str) -> str:
    """The beginning of what differs."""
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), name, "patched", lineterm=""))
    more = [f"... and {len(lines) - DIFF_LINES} more lines"] if len(lines) > DIFF_LINES else []
    return "\n".join(line[:400] for line in lines[:DIFF_LINES] + more)


def sample_compare(folder: str) -> None:
    """What a command printed of the clean project and of the patched one, and what it should have printed."""
    with open(os.path.join(folder, "sample.json")) as file:
        texts = json.load(file)
    with open(os.path.join(folder, "changes.json"), "w") as file:
        json.dump({name: changes(texts[name], texts["patched"], name) for name in ("expected", "clean")}, file)


def look(patch: str, answer: str, risk: Json) -> None:
    with open(patch) as file:
        rows = json.load(file)["files"]
    unexecuted = [path for path, name in risk["files"].items() if name == "migration"]
    findings = list(findings_of(rows))
    found = {"hunks": hunks_of(rows, unexecuted), "findings": findings[:100], "risk": risk,
             "measures": measured(rows), "unexecuted": unexecuted, "changed": changed_lines(rows, unexecuted),
             "tests": [row["path"] for row in rows if is_test(row["path"])], "own_tests": own_tests(rows)}
    with open(answer, "w") as file:
        json.dump(found, file)
