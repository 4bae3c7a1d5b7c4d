# SPDX-License-Identifier: Apache-2.0
"""Code for the sandboxes of verdicts: write a patch, find its hunks, and measure it.

Nothing of the patch runs at the same time.
"""

import ast
import base64
import ctypes
import difflib
import json
import os
import re
import shlex
from typing import Any, Dict, Iterator, List, Optional, Tuple

Json = Dict[str, Any]
TOP = "/workspace"

CONFIGURATION = ("conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "setup.py", "pyproject.toml",
                 "noxfile.py", ".coveragerc", "package.json")
SCRIPT = re.compile(r"\.[cm]?js$")
# Names of tests for node's runner, and names of files that configure tools.
SCRIPT_TEST = re.compile(r"((^|[._-])(test|spec)s?|^test-.*|\.config|^\.\w+rc)\.[cm]?[jt]sx?$")


def is_test(path: str) -> bool:
    """Whether a file is a test or configures tests: such files stay as in the project."""
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
    """The lines with their newlines; None: not UTF-8."""
    try:
        return [] if data is None else data.decode("utf-8").splitlines(keepends=True)
    except UnicodeDecodeError:
        return None


# Hunks --------------------------------------------------------------------------------------

Block = Tuple[int, int, int, int]


def blocks_of(row: Json) -> List[Block]:
    """Changed lines: i1 to i2 of the base became j1 to j2. [] if the whole file is one hunk."""
    base, now = base_text(row["path"]), now_text(row)
    old, new = lines_of(base), lines_of(now)
    if base is None or now is None or old is None or new is None:
        return []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [(i1, i2, j1, j2) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"]


SCRIPT_FUNCTION = re.compile(
    r"(?:(?:export|default|async|static) )*(?:function\*? (\w+)|(?:(?:const|let|var) )?([\w.]+) ?[=:] ?(?:async )?"
    r"(?:function\b|\([^()]*\) ?=>|\w+ ?=>)|(?!(?:if|for|while|switch|catch|with|function)\b)(\w+) ?\([^()]*\) ?\{)")


def function_names(row: Json, wanted: List[int]) -> Dict[int, str]:
    """The functions that contain these lines of the new text; for scripts, by indentation."""
    found: Dict[int, str] = {}
    around: List[Tuple[int, str]] = []
    try:
        tree = ast.parse(now_text(row) or b"") if row["path"].endswith(".py") else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError):
        return found  # a finding
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node.name))
    for n, line in enumerate(lines_of(now_text(row)) or [] if SCRIPT.search(row["path"]) else [], 1):
        code = line.strip()
        indent = len(line) - len(line.lstrip())
        while around and code and indent < around[-1][0] + (code[0] not in ")}]"):
            around.pop()
        names = SCRIPT_FUNCTION.match(code)
        if names:
            around.append((indent, next(name for name in names.groups() if name)))
        if around:
            found[n] = around[-1][1]
    return {line: found[line] for line in wanted if line in found}


def hunks_of(rows: List[Json], unexecuted: List[str]) -> List[Json]:
    found = []
    for row in rows:
        is_pinned = is_manifest(row["path"]) and not list(manifest_findings(row))  # nothing here installs it
        if not is_test(row["path"]) and row["path"] not in unexecuted and not is_pinned:
            blocks = blocks_of(row)
            for n, (_, _, j1, j2) in enumerate(blocks):
                names = dict.fromkeys(function_names(row, list(range(j1 + 1, j2 + 1))).values())
                found.append({"path": row["path"], "line": j1 + 1, "block": n, "functions": ", ".join(names)})
            if not blocks:
                found.append({"path": row["path"], "line": 0, "block": None})
    return found


def without(row: Json, block: int) -> bytes:
    """The new text with one block as in the base."""
    i1, i2, j1, j2 = blocks_of(row)[block]
    old, new = lines_of(base_text(row["path"])), lines_of(now_text(row))
    assert old is not None and new is not None
    return "".join(new[:j1] + old[i1:i2] + new[j2:]).encode()


# Coverage -----------------------------------------------------------------------------------


def changed_lines(rows: List[Json], unexecuted: List[str]) -> Dict[str, List[int]]:
    """Lines of the new text that are not in the base, for Python and JavaScript."""
    found = {}
    for row in rows:
        lines = lines_of(now_text(row))
        is_code = row["path"].endswith(".py") or SCRIPT.search(row["path"])
        if lines and is_code and not is_test(row["path"]) and row["path"] not in unexecuted:
            blocks = blocks_of(row) if row["base"] is not None else [(0, 0, 0, len(lines))]
            found[row["path"]] = [n + 1 for _, _, j1, j2 in blocks for n in range(j1, j2) if re.search(r"\w", lines[n])]
    return found


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
    """Write a patch without its tests (unless has_tests), without unexecuted files, and without hunk if given."""
    with open(patch) as file:
        rows = json.load(file)["files"]
    if hunk is None and not has_tests:
        with open(os.path.join(os.path.dirname(patch), "snp_lines.json"), "w") as file:
            json.dump(changed_lines(rows, unexecuted), file)  # for report.py
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
    for row, data in todo:  # after the loop above, because `without` reads the old files
        write(row["path"], row, data)


# Names and dependencies ---------------------------------------------------------------------


def is_manifest(path: str) -> bool:
    return re.match(r"(requirements|constraints)[^/]*\.txt$", os.path.basename(path)) is not None


PINNED = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w, -]*\])?\s*==\s*[\w.!+-]+(\s*;((?!--)[^#])*?)?"
                    r"(\s+--hash=sha256:[0-9a-f]{64})+$")


def manifest_findings(row: Json) -> Iterator[Json]:
    """Findings for new dependencies without a name, a version and the SHA-256 of the package."""
    known = entries(base_text(row["path"]))
    for entry in entries(now_text(row)):
        if entry not in known and not PINNED.match(entry):
            yield {"path": row["path"], "line": 0, "blocks": True,
                   "why": f"adds {entry[:80]!r} without NAME==VERSION --hash=sha256:HASH"}


def entries(text: Optional[bytes]) -> List[str]:
    joined = re.sub(r"\\\r?\n", " ", (text or b"").decode("utf-8", "replace"))
    return [line for line in (re.sub(r"(^|\s)#.*", "", each).strip() for each in joined.splitlines()) if line]


def clean(folder: str) -> None:
    """Remove files that would reveal to a command which run it is. Link the library that moves its clock."""
    for name in os.listdir(folder):
        if not name.startswith("snp_"):
            os.remove(os.path.join(folder, name))
    for library in ("/run/guest/clock.so", "/run/snipara/guest/clock.so"):
        try:
            ctypes.CDLL(library)
            os.symlink(library, os.path.join(folder, "snp_clock.so"))
        except OSError:  # not in this tier, or not for this C library
            pass


# Measures -----------------------------------------------------------------------------------


def parameters(text: Optional[bytes]) -> Dict[str, str]:
    """The parameters of public functions and methods, by qualified name."""
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
    """The share of functions in changed files that kept their parameters; None: no such functions."""
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
    """The number of lines added and removed."""
    old, new = lines_of(base_text(row["path"])) or [], lines_of(now_text(row)) or []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return sum(i2 - i1 + j2 - j1 for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal")


def own_tests(rows: List[Json]) -> Dict[str, str]:
    """By runner, the command that runs the patch's own tests."""
    paths = [row["path"] for row in rows if is_test(row["path"]) and row["now"] is not None]
    found = {}
    for runner, command, pattern in (("pytest", "python3 -m pytest -q", r"(^|/)(test_[^/]*|[^/]*_test)\.py$"),
                                     ("unittest", "python3 -m unittest", r"(^|/)test[^/]*\.py$"),
                                     ("node", "node --test", r"((^|[/._-])tests?|/test-[^/]*)\.[cm]?js$")):
        of_runner = [path for path in paths if re.search(pattern, path)]
        if of_runner:
            found[runner] = " ".join([command, *map(shlex.quote, of_runner)])
    return found


def look(rows: List[Json], answer: str, risk: Json, findings: List[Json]) -> None:
    unexecuted = [path for path, name in risk["files"].items() if name == "migration"]
    changed = changed_lines(rows, unexecuted)
    found = {"hunks": hunks_of(rows, unexecuted), "findings": findings, "risk": risk, "unexecuted": unexecuted,
             "measures": {"signature_correctness": signatures(rows), "patch_size": sum(map(n_lines, rows))},
             "changed": changed,
             "functions": {row["path"]: function_names(row, changed.get(row["path"], [])) for row in rows},
             "tests": [row["path"] for row in rows if is_test(row["path"])], "own_tests": own_tests(rows)}
    with open(answer, "w") as file:
        json.dump(found, file)
