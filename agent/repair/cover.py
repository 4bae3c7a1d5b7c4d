# SPDX-License-Identifier: Apache-2.0
"""Record which lines of changed files run, and which parts of lines: branches within one line.

This file is the sitecustomize of every Python process that a test command starts. It reads cover.json beside it,
{PATH: [LINE or PART]}, and writes those that did not run to covered-PID.json when the process ends; a part is
"LINE:COLUMN `TEXT`". Tracing makes code many times slower, so a frame is traced by line or by instruction only while
lines or parts of its file remain. Instructions have columns since Python 3.11. For JavaScript, node records what ran
(NODE_V8_COVERAGE).
"""

import ast
import atexit
import dis
import json
import os
import re
import sys
import threading
import types
from typing import Any, Dict, Iterator, List, Set, Tuple

TOP = "/workspace/"
TEXT_MAX = 60
Asked = Dict[str, List[Any]]
Span = Tuple[int, int, int, int]  # line and column, of the start and the end


def text_of(path: str) -> str:
    try:
        with open(os.path.join(TOP, path), "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def part(line: int, column: int, text: str) -> str:
    return f"{line}:{column + 1} `{' '.join(text.split())[:TEXT_MAX]}`"


# Python -------------------------------------------------------------------------------------


def branches(node: ast.AST) -> Iterator[Any]:
    """The parts of a statement or an expression that may not run and may be on the same line."""
    if isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.BoolOp):
        yield from node.values[1:]
    elif isinstance(node, ast.Compare):
        yield from node.comparators[1:]
    elif isinstance(node, ast.Lambda):
        yield node.body
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        yield node.value if isinstance(node, ast.DictComp) else node.elt
        yield from (each for one in node.generators for each in one.ifs[1:])
    elif not isinstance(node, ast.Module):
        for name in ("body", "orelse", "finalbody"):
            yield from (each for each in getattr(node, name, []) if each.lineno == start_of(node))


def start_of(node: Any) -> int:
    line: int = getattr(node, "lineno", 0) or getattr(getattr(node, "pattern", None), "lineno", 0)
    return line


def span(node: Any) -> Span:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


class Parts:
    """Parts of the requested lines. A side of `or` and `and` is an additional part if it ends the expression."""

    def __init__(self, text: str, asked: List[Any]) -> None:
        self.texts = [each.encode() for each in text.split("\n")]
        self.asked = asked
        self.parts: Dict[str, Span] = {}
        self.sides: Dict[Span, List[str]] = {}
        try:
            nodes = list(ast.walk(ast.parse(text)))
        except (SyntaxError, ValueError, RecursionError):
            return
        for node in nodes:
            self.parts.update((name, span(each)) for each in branches(node) for name in self.names(each, ""))
            if isinstance(node, ast.BoolOp):
                end = " or" if isinstance(node.op, ast.Or) else " and"
                self.sides[span(node)] = [next(self.names(each, end), "") for each in node.values[:-1]]

    def names(self, node: Any, end: str) -> Iterator[str]:
        last = node.end_col_offset if node.end_lineno == node.lineno else None
        code = self.texts[node.lineno - 1][node.col_offset:last].decode("utf-8", "replace")
        name = part(node.lineno, node.col_offset, code + end)
        if node.lineno in self.asked or name in self.asked:
            yield name

    def within(self, code: types.CodeType) -> Dict[Any, Set[str]]:
        """The parts that each instruction of a function belongs to, and each jump from one to another."""
        found: Dict[Any, Set[str]] = {}
        sides = {each: list(names) for each, names in self.sides.items()}
        for each in dis.get_instructions(code) if self.parts or any(map(any, sides.values())) else ():
            place: Any = each.positions  # type: ignore[attr-defined]
            if None not in place:
                line, end_line, column, end_column = place
                found[each.offset] = {name for name, (first, start, last, end) in self.parts.items()
                                      if (first, start) <= (line, column) and (end_line, end_column) <= (last, end)}
                names = sides.get((line, column, end_line, end_column), [])
                if names and "JUMP_IF" in each.opname:
                    found[each.offset, each.argval] = {names.pop(0)} - {""}
        return {each: names for each, names in found.items() if names}


class Record:
    """The remaining lines and parts of one file; only those with instructions."""

    def __init__(self, path: str, asked: List[Any]) -> None:
        text = text_of(path)
        self.parts = Parts(text, asked if hasattr(compile("", "", "exec"), "co_positions") else [])
        self.lines: Set[int] = set()
        self.left: Set[str] = set()
        self.codes: Dict[int, Dict[Any, Set[str]]] = {}
        self.before: Dict[int, int] = {}  # the last instruction of a frame
        self.kept: List[types.CodeType] = []  # alive, so that their ids are not reused
        try:
            todo = [compile(text, "", "exec", dont_inherit=True)]
        except (SyntaxError, ValueError, RecursionError):
            todo = []  # a finding
        for code in todo:  # which grows
            self.lines.update(line for _, line in dis.findlinestarts(code) if line in asked)
            self.left.update(*self.parts.within(code).values())
            todo += [each for each in code.co_consts if isinstance(each, types.CodeType)]

    def instructions(self, code: types.CodeType) -> Dict[Any, Set[str]]:
        if id(code) not in self.codes:
            self.kept.append(code)
            self.codes[id(code)] = self.parts.within(code)
        return self.codes[id(code)]


RECORDS: Dict[str, Record] = {}


def trace_lines(frame: Any, event: str, _: Any) -> Any:
    record = RECORDS[frame.f_code.co_filename]
    record.lines.discard(frame.f_lineno)
    frame.f_trace_lines = bool(record.lines)
    if frame.f_trace_opcodes:
        here = record.instructions(frame.f_code)
        at = frame.f_lasti
        ran = here.get(at, set()) | here.get((record.before.get(id(frame)), at), set())
        if event == "opcode":
            record.before[id(frame)] = at
        if event == "opcode" and ran:
            record.left -= ran
            for each in [each for each, names in here.items() if not names & record.left]:
                del here[each]
        frame.f_trace_opcodes = bool(here)
    return trace_lines


def trace(frame: Any, event: str, _: Any) -> Any:
    record = RECORDS.get(frame.f_code.co_filename)
    if record is None or not (record.lines or record.left):
        if record is not None and not any(each.lines or each.left for each in RECORDS.values()):
            sys.settrace(None)
        return None
    frame.f_trace_opcodes = bool(record.left) and bool(record.instructions(frame.f_code))
    return trace_lines(frame, event, None)


def write(folder: str) -> None:
    sys.settrace(None)
    found = {path[len(TOP):]: [*sorted(each.lines), *sorted(each.left)] for path, each in RECORDS.items()}
    with open(os.path.join(folder, f"covered-{os.getpid()}.json"), "w") as file:
        json.dump(found, file)


def begin(folder: str) -> None:
    with open(os.path.join(folder, "cover.json")) as given:
        asked: Asked = json.load(given)
    RECORDS.update((TOP + path, Record(path, lines)) for path, lines in asked.items() if path.endswith(".py"))
    atexit.register(write, folder)
    threading.settrace(trace)
    frame: Any = sys._getframe()
    frame.f_trace_opcodes = True  # CPython 3.12 traces instructions only if a frame has requested it before
    sys.settrace(trace)


# JavaScript ---------------------------------------------------------------------------------


def ran(text: str, functions: List[Any]) -> bytes:
    """For each character, whether it ran, by V8's counts: the innermost range around it decides."""
    found = bytearray(len(text))
    ranges = [each for function in functions for each in function["ranges"]]
    for each in sorted(ranges, key=lambda each: int(each["startOffset"]) - int(each["endOffset"])):
        start, end = each["startOffset"], min(each["endOffset"], len(text))
        found[start:end] = (b"\1" if each["count"] else b"\0") * (end - start)
    return bytes(found)


def left_of_script(text: str, covered: bytes, asked: List[Any]) -> Iterator[Any]:
    at = 0
    for n, line in enumerate(text.splitlines(keepends=True), 1):
        is_run = covered[at + len(line) - len(line.lstrip())] if line.strip() else 0
        if n in asked and not is_run:
            yield n
        for each in re.finditer(rb"\0+", covered[at:at + len(line)]) if is_run else ():
            code = line[each.start():each.end()]
            word = re.search(r"\w", code)
            name = part(n, each.start() + (word.start() if word else 0), code[word.start():] if word else "")
            if word and (n in asked or name in asked):
                yield name
        at += len(line)


# The answer ---------------------------------------------------------------------------------


def uncovered(folder: str) -> None:
    """Write the lines and parts that no process of the command ran to uncovered.json."""
    with open(os.path.join(folder, "cover.json")) as file:
        asked: Asked = json.load(file)
    left: Dict[str, Set[Any]] = {}
    scripts: Dict[str, bytes] = {}
    for name in os.listdir(folder):
        if not name.startswith(("covered-", "coverage-")):
            continue
        with open(os.path.join(folder, name)) as file:
            found = json.load(file)
        for path, each in found.items() if name.startswith("covered-") else ():
            left[path] = left.get(path, set(each)) & set(each)
        for each in found["result"] if name.startswith("coverage-") else ():
            path = os.path.relpath(each["url"].partition("file://")[2] or "/", TOP)
            if path in asked:
                now = ran(text_of(path), each["functions"])
                scripts[path] = bytes(map(int.__or__, now, scripts.get(path, now)))
    for path, covered in scripts.items():
        left[path] = set(left_of_script(text_of(path), covered, asked[path]))
    answer = {}
    for path, lines in asked.items():
        rest = left.get(path, Record(path, lines).lines if path.endswith(".py") else set(lines))
        whole = {each for each in rest if isinstance(each, int)}
        parts = [each for each in rest - whole if int(each.partition(":")[0]) not in whole]
        parts.sort(key=lambda each: [int(n) for n in re.findall(r"\d+", each)[:2]])
        if rest:
            answer[path] = [*sorted(whole), *parts]
    with open(os.path.join(folder, "uncovered.json"), "w") as file:
        json.dump(answer, file)


if __name__ == "sitecustomize":
    begin(os.path.dirname(os.path.abspath(__file__)))
