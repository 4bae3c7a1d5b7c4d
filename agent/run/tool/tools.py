# SPDX-License-Identifier: Apache-2.0
"""The file tools of a run, inside the sandbox.

    python3 -I -c THIS TOOL <ARGUMENTS >RESULT

ARGUMENTS and RESULT are JSON objects; a result with "error" is a failure. It runs in a separate process, so that
changes of the session's code to its interpreter have no effect. All paths are in the root: the working directory.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import sys

TYPE_CHECKING = False  # what `typing` would say, without the time that it takes
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

    Members = Dict[str, Any]
    File = Tuple[Optional[str], Optional[str], List["Hunk"]]  # old name, new name, hunks

ROOT = os.path.realpath(os.getcwd())
IGNORED = {
    ".git", ".hg", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".snipara", ".tox", ".venv",
    "__pycache__", "build", "dist", "htmlcov", "logs", "node_modules", "site-packages", "venv",
}
TEXT_MAX = 12000  # characters of one result
LINE_MAX = 500
FILE_MAX = 8 << 20  # bytes of a file that is read, searched or patched
WALK_MAX = 200000  # entries


class Failure(Exception):
    """A failure reported to the model."""


def clamp(value: object, low: int, high: int, default: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    return max(low, min(high, int(value)))


def inside(path: object) -> str:
    """The real path, which must be in the root."""
    if not isinstance(path, str) or "\0" in path:
        raise Failure("path must be a text without NUL")
    full = os.path.realpath(os.path.join(ROOT, path))
    if full != ROOT and not full.startswith(ROOT + os.sep):
        raise Failure(f"Access denied: path '{path}' is outside allowed directories")
    return full


def shown(full: str) -> str:
    return os.path.relpath(full, ROOT)


def read_text(full: str, path: str) -> str:
    if os.path.isdir(full):
        raise Failure(f"Not a file: {path}")
    if not os.path.exists(full):
        raise Failure(f"File not found: {path}")
    if not os.path.isfile(full):
        raise Failure(f"Not a file: {path}")
    if os.path.getsize(full) > FILE_MAX:
        raise Failure(f"{path} is larger than {FILE_MAX >> 20} MiB: read a part of it with execute_code")
    with open(full, "rb") as file:
        data = file.read(FILE_MAX + 1)
    if b"\0" in data[:8192]:
        raise Failure(f"{path} is binary: look at it with execute_code")
    return data.decode("utf-8", "surrogateescape")


def file_read(args: Members) -> Members:
    path = args.get("path", "")
    lines = read_text(inside(path), path).split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    asked = args.get("max_lines", 80)
    most = clamp(asked, 1, 120, 80)
    start = clamp(args.get("start_line", 1), 1, max(len(lines), 1), 1)
    end = min(clamp(args.get("end_line"), start, len(lines), len(lines)), start + most - 1)
    taken: List[str] = []
    room = TEXT_MAX
    for line in lines[start - 1 : end]:
        line = line if len(line) <= LINE_MAX else line[:LINE_MAX] + " ... (line cut)"
        room -= len(line) + 1
        if room < 0:
            break
        taken.append(line)
    last = start + len(taken) - 1
    return {
        "content": "\n".join(taken), "path": path, "start_line": start, "end_line": last,
        "total_lines": len(lines), "truncated": last < len(lines), "max_lines": most,
        "limit_capped": isinstance(asked, int) and asked > 120,
    }


def walk(top: str) -> Iterator[str]:
    """All files below top except generated ones, sorted."""
    left = WALK_MAX
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in IGNORED)
        for name in sorted(files):
            left -= 1
            if left < 0:
                return
            yield os.path.join(folder, name)


def file_search(args: Members) -> Members:
    pattern = args.get("pattern", "")
    if not pattern:
        raise Failure("No search pattern provided")
    path = args.get("path", ".")
    top = inside(path)
    if not os.path.exists(top):
        raise Failure(f"Path not found: {path}")
    try:
        found = re.compile(pattern if args.get("regex", True) else re.escape(pattern))
    except (re.error, RecursionError, OverflowError) as why:
        raise Failure(f"Invalid regex: {why}") from None
    most = clamp(args.get("max_results", 40), 1, 80, 40)
    around = clamp(args.get("context_lines", 0), 0, 3, 0)
    glob = args.get("glob")
    matches: List[Members] = []
    room, truncated = TEXT_MAX, False
    for full in walk(top) if os.path.isdir(top) else [top]:
        name = shown(full)
        if glob and not fnmatch.fnmatch(os.path.basename(full), glob) and not fnmatch.fnmatch(name, glob):
            continue
        try:
            lines = read_text(full, name).split("\n")
        except (Failure, OSError):
            continue
        for number, line in enumerate(lines):
            if not found.search(line[:10000]):
                continue
            first = max(0, number - around)
            text = "\n".join(part[:LINE_MAX] for part in lines[first : number + around + 1])
            room -= len(text) + len(name)
            if len(matches) >= most or room < 0:
                truncated = True
                break
            matches.append({"path": name, "line": number + 1, "text": text})
        if truncated:
            break
    return {"matches": matches, "count": len(matches), "truncated": truncated, "path": path,
            "glob": glob, "max_results": most}


def list_files(args: Members) -> Members:
    path, pattern = args.get("path", "."), args.get("pattern", "*")
    recursive = args.get("recursive", False) is True
    top = inside(path)
    if not os.path.exists(top):
        raise Failure(f"Path not found: {path}")
    if not os.path.isdir(top):
        raise Failure(f"Not a directory: {path}")
    if recursive and pattern in ("*", "**", "**/*", "./**/*"):
        raise Failure("a list of everything is too long: give a pattern such as *.py, or use file_search")
    asked = args.get("max_results", 60)
    most = clamp(asked, 1, 100, 60)
    pattern = pattern[3:] if pattern.startswith("**/") else pattern
    names: Iterable[str]
    if recursive:
        names = (full for full in walk(top))
    else:
        names = (os.path.join(top, name) for name in sorted(os.listdir(top)) if name not in IGNORED)
    files: List[Members] = []
    room, truncated = TEXT_MAX, False
    for full in names:
        name = os.path.basename(full)
        if not fnmatch.fnmatch(name, pattern) and not fnmatch.fnmatch(os.path.relpath(full, top), pattern):
            continue
        room -= len(shown(full)) + 60
        if len(files) >= most or room < 0:
            truncated = True
            break
        is_dir = os.path.isdir(full) and not os.path.islink(full)
        size = 0 if is_dir else os.lstat(full).st_size
        files.append({"path": shown(full), "name": name, "is_dir": is_dir, "size": size})
    return {"files": files, "count": len(files), "truncated": truncated, "directory": path,
            "max_results": most, "limit_capped": isinstance(asked, int) and asked > 100}


# Patches -------------------------------------------------------------------------------------


class Hunk:
    def __init__(self, at: Optional[int] = None) -> None:
        self.at = at  # line it claims to begin at, from 1; None = anywhere
        self.old: List[str] = []
        self.new: List[str] = []
        self.no_end = False  # the file's last line has no line end


def name_of(text: str) -> Optional[str]:
    name = text.split("\t")[0].strip()
    if name.startswith('"') and name.endswith('"'):
        name = name[1:-1]
    if name == "/dev/null":
        return None
    return name[2:] if name[:2] in ("a/", "b/") else name


def parse_unified(lines: List[str]) -> List[File]:
    files: List[File] = []
    hunk: Optional[Hunk] = None
    i = 0
    left_old = left_new = 0
    while i < len(lines):
        line = lines[i]
        if hunk is not None and (left_old > 0 or left_new > 0):
            mark, rest = (line[:1] or " "), line[1:]
            if mark == "\\":
                i += 1
                continue
            if mark not in " +-":
                left_old = left_new = 0  # the counts were wrong: use the actual lines
                continue
            if mark in " -":
                hunk.old.append(rest)
                left_old -= 1
            if mark in " +":
                hunk.new.append(rest)
                left_new -= 1
        elif hunk is not None and line[:1] in ("+", "-", " ") and not (
            line.startswith("--- ") and i + 1 < len(lines) and lines[i + 1].startswith("+++ ")
        ):
            if line[0] in " -":
                hunk.old.append(line[1:])
            if line[0] in " +":
                hunk.new.append(line[1:])
        elif line.startswith("\\ No newline"):
            if hunk is not None:
                hunk.no_end = True
        elif line.startswith("--- ") and i + 1 < len(lines) and lines[i + 1].startswith("+++ "):
            files.append((name_of(line[4:]), name_of(lines[i + 1][4:]), []))
            hunk = None
            i += 1
        elif line.startswith("@@") and files:
            head = re.match(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line)
            hunk = Hunk(int(head.group(1)) if head else None)
            left_old = int(head.group(2) or 1) if head else 0
            left_new = int(head.group(4) or 1) if head else 0
            files[-1][2].append(hunk)
        i += 1
    return files


def parse_marked(lines: List[str]) -> List[File]:
    """The form with "*** Begin Patch" and "*** Update File: NAME"."""
    files: List[File] = []
    hunk: Optional[Hunk] = None
    for line in lines:
        head = re.match(r"\*\*\* (Update|Add|Delete) File: (.+)", line)
        move = re.match(r"\*\*\* Move to: (.+)", line)
        if head:
            kind, name = head.group(1), head.group(2).strip()
            files.append((None if kind == "Add" else name, None if kind == "Delete" else name, []))
            hunk = None
            if kind == "Add":
                hunk = Hunk()
                files[-1][2].append(hunk)
        elif move and files:
            files[-1] = (files[-1][0], move.group(1).strip(), files[-1][2])
        elif line.startswith("***"):
            hunk = None if line.startswith("*** End Patch") else hunk
        elif line.startswith("@@") and files:
            hunk = Hunk()
            files[-1][2].append(hunk)
        elif files and files[-1][1] is not None and (line[:1] in ("+", "-", " ") or line == ""):
            if hunk is None:
                hunk = Hunk()
                files[-1][2].append(hunk)
            if line[:1] != "+":
                hunk.old.append(line[1:])
            if line[:1] != "-":
                hunk.new.append(line[1:])
    return files


def place(lines: List[str], hunk: Hunk, start: int) -> int:
    """The position of the hunk's old lines: nearest to the expected line; exact, else without trailing blanks."""
    n = len(hunk.old)
    if n == 0:
        return len(lines) if hunk.at is None else min(max(hunk.at, 0), len(lines))
    wanted = start if hunk.at is None else hunk.at - 1
    looks: Tuple[Callable[[str], str], ...] = (str, str.rstrip)
    for look in looks:
        spots = [
            at for at in range(len(lines) - n + 1)
            if all(look(lines[at + k]) == look(hunk.old[k]) for k in range(n))
        ]
        if spots:
            return min(spots, key=lambda at: abs(at - wanted))
    return -1


def patched(text: str, hunks: List[Hunk], name: str) -> str:
    ended = text.endswith("\n") or text == ""
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    start = 0
    for number, hunk in enumerate(hunks, 1):
        while hunk.old and hunk.new and hunk.old[-1] == "" and hunk.new[-1] == "" and place(lines, hunk, start) < 0:
            hunk.old.pop()
            hunk.new.pop()
        at = place(lines, hunk, start)
        if at < 0:
            first = hunk.old[0] if hunk.old else ""
            raise Failure(
                f"hunk {number} does not fit {name}: its lines, which begin with {first[:80]!r}, "
                "are not in the file as written; read the file and make a new patch. Nothing was changed"
            )
        lines[at : at + len(hunk.old)] = hunk.new
        start = at + len(hunk.new)
        ended = ended and not hunk.no_end
    return "\n".join(lines) + ("\n" if ended and lines else "")


def apply_patch(args: Members) -> Members:
    patch = args.get("patch", "")
    if not isinstance(patch, str) or not patch.strip():
        raise Failure("No patch provided")
    lines = patch.split("\n")
    if lines[-1] == "":
        lines.pop()
    marked = any(line.startswith("*** ") and " File: " in line for line in lines)
    files = parse_marked(lines) if marked else parse_unified(lines)
    if not files:
        raise Failure("not a patch: give a unified diff with --- and +++ lines, or *** Update File: NAME")
    writes: Dict[str, Optional[str]] = {}
    done: List[Members] = []
    for old, new, hunks in files:
        name = new if new is not None else old
        if name is None:
            raise Failure("a patch from /dev/null to /dev/null changes nothing")
        source = inside(old) if old is not None else None
        target = inside(new) if new is not None else None
        text = ""
        if old is not None and source is not None:
            patched_before = writes.get(source)
            text = read_text(source, old) if patched_before is None else patched_before
        elif target is not None and os.path.exists(target):
            raise Failure(f"{new} is there already: update it instead. Nothing was changed")
        if target is not None:
            writes[target] = patched(text, hunks, name)
        if source is not None and source != target:
            writes[source] = None
        done.append({"path": name, "change": "added" if old is None else "deleted" if new is None
                     else "updated" if source == target else "moved"})
    # All hunks fit: write only now.
    for full, made in writes.items():
        if made is None:
            os.unlink(full)
            continue
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(made.encode("utf-8", "surrogateescape"))
    return {"applied": done, "count": len(done)}


def main() -> None:
    tools = {"file_read": file_read, "file_search": file_search, "list_files": list_files,
             "apply_patch": apply_patch}
    try:
        result = tools[sys.argv[1]](json.loads(sys.stdin.buffer.read().decode("utf-8", "replace")))
    except Failure as why:
        result = {"error": str(why)}
    except OSError as why:
        result = {"error": f"{type(why).__name__}: {why}"}
    sys.stdout.write(json.dumps(result))


main()
