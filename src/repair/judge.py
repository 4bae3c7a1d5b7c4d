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
import importlib.machinery
import json
import os
import sys
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

Json = Dict[str, Any]
TOP = "/workspace"

TEXTS = (".md", ".rst", ".txt", ".json", ".csv")
CONFIGURATION = ("conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "setup.py", "pyproject.toml",
                 "noxfile.py", ".coveragerc", "package.json")
HARMLESS = frozenset(
    "__future__ abc base64 bisect calendar collections contextlib copy csv datetime decimal difflib enum fractions "
    "functools hashlib heapq html itertools json keyword math numbers random re statistics string struct textwrap time "
    "typing unicodedata uuid zlib".split())
NAMES = frozenset("exec eval compile globals locals vars getattr setattr delattr breakpoint open input memoryview type "
                  "exit quit SystemExit KeyboardInterrupt GeneratorExit BaseException".split())
ATTRIBUTES = frozenset(
    "modules settrace setprofile argv environ currentframe f_back f_globals f_locals f_builtins tb_frame gi_frame "
    "gi_code cr_frame ag_frame func_globals sys os inspect builtins gc types ctypes importlib subprocess threading "
    "signal atexit codecs exit abort kill system write_text write_bytes attrgetter methodcaller mro".split())
# A class may define these without changing what a test compares.
METHODS = frozenset("__init__ __repr__ __str__ __iter__ __next__ __enter__ __exit__ __call__ __add__ __sub__ __mul__ "
                    "__post_init__ __doc__ __name__ __all__ __main__ __version__ __author__ __slots__".split())
WORDS = ("/proc", "/tmp", "/dev", "pytest", "unittest", "conftest", "__")


def is_test(path: str) -> bool:
    """Tests, and what says how they run: they stay as the project has them."""
    *folders, name = path.lower().split("/")
    return (any(each in ("tests", "test", "testing", "__tests__", "spec", "fixtures") for each in folders)
            or name.startswith(("test_", "tests.", "test.")) or name.endswith(("_test.py", "_tests.py"))
            or name in CONFIGURATION)


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


def hunks_of(rows: List[Json]) -> List[Json]:
    found = []
    for row in rows:
        if not is_test(row["path"]):
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


def apply(patch: str, hunk: Optional[Json] = None) -> None:
    """All of a patch but its tests, or all but one hunk of it."""
    with open(patch) as file:
        rows = json.load(file)["files"]
    todo = []
    for row in rows:
        if is_test(row["path"]):
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


def imported_names(tree: ast.AST) -> Set[str]:
    return {(alias.asname or alias.name).split(".")[0] for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}


def is_local(name: str) -> bool:
    return any(os.path.exists(os.path.join(TOP, folder, name + end)) for folder in ("", "src") for end in (".py", ""))


def modules_of(node: ast.AST) -> List[str]:
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [(node.module or "").split(".")[0]]
    return []


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name not in METHODS


def identifiers(node: ast.AST) -> Iterator[str]:
    """Every name that a node says, wherever the language allows one."""
    for _, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str) and not isinstance(node, ast.Constant):
                yield from each.split(".")


def why_not(node: ast.AST, imports: Set[str]) -> Optional[str]:
    """What speaks against a node, seen alone."""
    for name in modules_of(node):
        if name not in HARMLESS and not is_local(name):
            return f"imports {name}"
    if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
        return "imports all names of a module"
    if isinstance(node, ast.Name) and node.id in NAMES:
        return f"uses {node.id}"
    if isinstance(node, (ast.Attribute, ast.alias)):
        name = node.attr if isinstance(node, ast.Attribute) else node.name.split(".")[-1]
        if name in ATTRIBUTES or (name.startswith("_") and not is_own(node)):
            return f"uses {name}"
    for name in identifiers(node):
        if is_dunder(name):
            return f"defines or uses {name}"
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        for word in WORDS:
            if word in text.lower():
                return f"has a text with {word}"
    if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) and not isinstance(node, ast.Name):
        if root_name(node) in imports:
            return f"changes {root_name(node)}, which it imports"
    return None


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


def suspicious(text: bytes) -> List[Tuple[str, int, str]]:
    """(the node as text, its line, what speaks against it)."""
    tree = ast.parse(text)
    imports = imported_names(tree)
    docs = {id(node.body[0].value) for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.body
            and isinstance(node.body[0], ast.Expr)}
    found = []
    for node in ast.walk(tree):
        why = None if id(node) in docs else why_not(node, imports)
        if why is not None:
            found.append((ast.dump(node), getattr(node, "lineno", 0), why))
    for node, name in bound_above(tree):
        if hasattr(builtins, name) or name in ("pytest", "unittest"):
            found.append((f"bound {name}", getattr(node, "lineno", 0), f"gives the name {name} another meaning"))
    return found


def code_findings(row: Json) -> Iterator[Json]:
    """What the new text has that the old one has not."""
    known: List[str] = []
    base, now = base_text(row["path"]), now_text(row)
    try:
        known = [] if base is None else [text for text, _, _ in suspicious(base)]
    except (SyntaxError, ValueError, RecursionError):
        pass
    try:
        found = [] if now is None else suspicious(now)
    except (SyntaxError, ValueError, RecursionError) as error:
        yield {"path": row["path"], "line": 0, "why": f"cannot be read as Python ({type(error).__name__})"}
        return
    for text, line, why in found:
        if text in known:
            known.remove(text)
        else:
            yield {"path": row["path"], "line": line, "why": why}


def hides(path: str) -> Optional[str]:
    """The module that a new file comes before."""
    places = [place for place in sys.path if place and not place.startswith(TOP)]
    for n, part in enumerate(path.split("/")):
        name = part[:-3] if part.endswith(".py") else part
        above = os.path.join(TOP, *path.split("/")[:n])
        is_new = not os.path.exists(os.path.join(above, part))
        if not is_new or os.path.exists(os.path.join(above, "__init__.py")) or not name.isidentifier():
            continue
        if name in sys.builtin_module_names or importlib.machinery.PathFinder.find_spec(name, places) is not None:
            return name
    return None


def findings_of(rows: List[Json]) -> Iterator[Json]:
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
            yield from code_findings(row)
        elif not path.endswith(TEXTS) or lines_of(now_text(row)) is None:
            yield {"path": path, "line": 0, "why": "it is neither Python nor a plain text, and was not read"}


def look(patch: str, answer: str) -> None:
    with open(patch) as file:
        rows = json.load(file)["files"]
    found = {"hunks": hunks_of(rows), "findings": list(findings_of(rows))[:100],
             "tests": [row["path"] for row in rows if is_test(row["path"])]}
    with open(answer, "w") as file:
        json.dump(found, file)
