# SPDX-License-Identifier: Apache-2.0
"""The syntax tree of a file. agent/context/parsed.h describes its bytes."""

import array
import struct
from typing import Iterator, List, Optional

NAMED, MISSING = 1 << 30, 1 << 29
PLAIN = frozenset("( ) { } [ ] , ; : . ? ' \" ` => < > </ /> ${".split())  # tokens that are irrelevant here
DEPTH = 250  # of a tree; a deeper one is refused


class Node:
    """A part of the text. `named`: not an anonymous token. `doc`: the comment before it."""

    __slots__ = ("type", "field", "start", "end", "named", "children", "parent", "source", "doc")

    def __init__(self, kind: str, field: str, start: int, end: int, named: bool, source: bytes) -> None:
        self.type = kind
        self.field = field
        self.start = start
        self.end = end
        self.named = named
        self.source = source
        self.children: List["Node"] = []
        self.parent: Optional["Node"] = None
        self.doc = ""

    @property
    def text(self) -> str:
        return self.source[self.start:self.end].decode("utf-8", "replace")

    @property
    def line(self) -> int:
        return self.source.count(b"\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        return len(self.source[self.source.rfind(b"\n", 0, self.start) + 1:self.start].decode("utf-8", "replace")) + 1

    def get(self, field: str) -> Optional["Node"]:
        for child in self.children:
            if child.field == field:
                return child
        return None

    def all(self, *kinds: str) -> List["Node"]:
        return [child for child in self.children if child.type in kinds]

    def first(self, *kinds: str) -> Optional["Node"]:
        for child in self.children:
            if child.type in kinds:
                return child
        return None

    def has(self, token: str) -> bool:
        return any(child.type == token for child in self.children)

    @property
    def parts(self) -> List["Node"]:
        return [child for child in self.children if child.named]

    def walk(self) -> Iterator["Node"]:
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)


class Unread(Exception):
    """Why a file is not checked."""


def decode(data: bytes, source: bytes, is_lenient: bool = False) -> Node:
    """Decode the parser's bytes, which may be invalid: the parser may have been taken over. is_lenient: keep parts
    unknown to the grammar as ERROR."""
    try:
        n_kinds, n_fields, n_nodes = struct.unpack_from("=III", data)
        kinds = data[12:12 + n_kinds].decode().split("\0")
        fields = data[12 + n_kinds:12 + n_kinds + n_fields].decode().split("\0")
        at = (12 + n_kinds + n_fields + 3) & ~3
        numbers = array.array("I")
        numbers.frombytes(data[at:at + n_nodes * 16])
        return build(numbers, kinds, fields, source, is_lenient)
    except (struct.error, ValueError, IndexError) as error:
        raise Unread("its tree is damaged") from error


def build(numbers: "array.array[int]", kinds: List[str], fields: List[str], source: bytes,
          is_lenient: bool) -> Node:
    above: List[Node] = []
    doc = ""
    for i in range(0, len(numbers) - 3, 4):
        what, start, end, flags = numbers[i:i + 4]
        symbol, depth = what & 0xffff, flags & 0xffffff
        if depth > DEPTH:
            raise Unread("it is nested too deep")
        kind = "ERROR" if symbol == 0xffff else kinds[symbol]
        if kind in PLAIN and not flags & (NAMED | MISSING):
            continue
        node = Node(kind, fields[what >> 16], start, end,
                    bool(flags & NAMED), source)
        if flags & MISSING:
            node.type = "ERROR"
        if node.type == "ERROR" and not is_lenient:
            raise Unread(f"line {node.line} cannot be parsed")
        if node.type in ("comment", "html_comment"):
            doc = node.text if source[start:start + 3] == b"/**" else ""
            continue
        node.doc, doc = doc, ""
        del above[depth:]
        if above:
            node.parent = above[-1]
            above[-1].children.append(node)
        above.append(node)
    if not above:
        raise Unread("its tree is damaged")
    return above[0]
