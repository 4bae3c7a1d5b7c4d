# SPDX-License-Identifier: Apache-2.0
"""The stream of variables: frames written to a pipe and read from one (docs/wire.md), and contents of items, which are
never in memory twice: neither while pickling, nor while reading.
"""

import builtins

# A private copy, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import codecs
import json
import mmap
import resource
import struct
from fcntl import fcntl
from os import readv, writev
from pickle import PickleBuffer
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from state_texts import Refused

ITEM, DATA, END = 80, 81, 82
PART = "vars"

RAW_MAX = 1 << 20  # bytes of one frame besides its head
HEAD_MAX = 64 << 10
PIPE_SIZE = 1 << 20  # requested
F_SETPIPE_SZ = 1031
MAPPED_MIN = 256 << 10  # bytes of a buffer that is mapped, not allocated
LARGE = 64 << 10  # pickle passes these on directly, not in a frame of many objects
KEPT_MAX = 8 << 20  # bytes of a pickle kept until it is written, beside those held by objects
PIECE = 1 << 20
TEXT_MIN = 16 << 20  # characters of a text that is saved beside the pickle, which would copy it whole
TEXT_BIT = 1 << 63  # of the length of a buffer that is one

_FRAME = struct.Struct("<IIIB3x")
_CONTENT = struct.Struct("<8sQI4x")  # magic, bytes of the pickle, number of buffers
_LENGTH = struct.Struct("<Q")
_MAGIC = b"SNPVARS1"
BUFFERS_MAX = 1 << 20  # of one item

_encode = json.JSONEncoder(ensure_ascii=False).encode
_decode = json.JSONDecoder().decode


CHANGED = "an object changed while it was saved"


class Torn(Exception):
    """The stream is invalid."""


def widen(fd: int) -> None:
    """Enlarge a pipe, if allowed."""
    try:
        fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE)
    except OSError:
        pass


# --- writing ----------------------------------------------------------------------------


class Sink:
    """Writes the items of one part."""

    def __init__(self, fd: int, items: int = 0) -> None:
        self._fd = fd
        self._items = items  # including those already in the part
        self._start: Optional[Tuple[int, bytes]] = None  # type and head of the next frame
        self._pending: List[memoryview] = []
        self._size = 0  # of the head and the pending data
        self._left = 0  # remaining bytes of the item
        widen(fd)

    def begin(self, head: Dict[str, Any]) -> None:
        """Begin an item; its content, unless it is `same`, is added until end_item()."""
        self._items += 1
        self._start = ITEM, _encode(head).encode("utf-8")
        self._left = 0 if head["same"] else head["size"]

    def add(self, part: Any) -> None:
        if type(part) is Text:
            for piece in part.pieces():
                self.add(piece)
            return
        self._left -= part.nbytes
        if self._left < 0:
            raise Refused(CHANGED)
        while self._size + part.nbytes >= RAW_MAX:
            room = RAW_MAX - self._size
            self._pending.append(part[:room])
            self._size = RAW_MAX
            self._flush()
            part = part[room:]
        if part.nbytes:
            self._pending.append(part)
            self._size += part.nbytes

    def end_item(self) -> None:
        if self._left:
            raise Refused(CHANGED)
        if self._size or self._start is not None:
            self._flush()

    def end(self) -> None:
        self._frame(END, _encode({"part": PART, "items": self._items}).encode(), [], 0)

    def _flush(self) -> None:
        kind, text = self._start or (DATA, b"")
        self._start = None
        pending, self._pending = self._pending, []
        size, self._size = self._size, 0
        self._frame(kind, text, pending, size)

    def _frame(self, kind: int, head: bytes, raw: List[Any], raw_len: int) -> None:
        start = _FRAME.pack(len(head) + raw_len, 0, len(head), kind) + head
        pending = [memoryview(start)] + raw
        while pending:
            done = writev(self._fd, pending[:500])
            while pending and done >= pending[0].nbytes:
                done -= pending[0].nbytes
                del pending[0]
            if done:
                pending[0] = pending[0][done:]


def is_content(header: bytes, size: int) -> bool:
    """Whether the next write of a pickler is the content of an object, which is in memory anyway."""
    return header[-5:] == b"B" + struct.pack("<I", size & 0xFFFFFFFF) or header[-9:-8] in (b"\x8e", b"\x96")


def bytes_of(data: Any) -> memoryview:
    return data.raw() if type(data) is PickleBuffer else memoryview(data).cast("B")


class Text:
    """A large text as a buffer, encoded piece by piece."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.nbytes = sum([piece.nbytes for piece in self.pieces()])

    def pieces(self) -> Iterator[memoryview]:
        for at in range(0, len(self._text), PIECE):
            yield memoryview(self._text[at : at + PIECE].encode("utf-8", "surrogatepass"))


def lengths_of(buffers: List[Any]) -> bytes:
    return b"".join([_LENGTH.pack(one.nbytes | (TEXT_BIT if type(one) is Text else 0)) for one in buffers])


class Pickled:
    """The output of a pickler. Large contents stay in their objects. The rest is kept; if it is too large it is only
    counted, and the object is pickled again, into the pipe."""

    def __init__(self, digest: Callable[[List[Any]], str], buffers: Optional[List[Any]] = None) -> None:
        self.pickler: Any = None  # keeps objects alive that its memo identifies
        self.how: Any = None  # its class
        self.is_dropped = False  # it was kept, and can be made again
        self.buffers = buffers if buffers is not None else []
        self.is_kept = True
        self.has_text = False  # a large one, in the pickle
        self.own = 0  # bytes kept
        self._digest = digest
        self._parts: List[memoryview] = []
        self._keys: List[bytes] = []  # of parts that are not kept
        self._bytes = 0
        self._last = b""
        self._key = ""

    def write(self, data: Any) -> None:
        part = bytes_of(data)
        size = part.nbytes
        self._bytes += size
        self.has_text |= size >= TEXT_MIN and (self._last[-5:-4] == b"X" or self._last[-9:-8] == b"\x8d")
        self.own += 0 if size >= LARGE and is_content(self._last, size) else size
        self._last = bytes(part[-9:])
        self._parts.append(part)
        if not self.is_kept or self.own > KEPT_MAX:
            self.is_kept = False
            self._keys += [self._digest([one]).encode() for one in self._parts]
            self._parts = []

    def drop(self) -> None:
        """Keep only what identifies the content."""
        self.key()
        self.is_dropped = self.is_kept
        self.is_kept = False
        self._parts, self.own, self.pickler = [], 0, None

    def data(self) -> bytes:
        return b"".join(self._parts)

    def head(self) -> bytes:
        return _CONTENT.pack(_MAGIC, self._bytes, len(self.buffers)) + lengths_of(self.buffers)

    def size(self) -> int:
        buffered: int = sum([view.nbytes for view in self.buffers])
        return len(self.head()) + self._bytes + buffered

    def parts(self) -> List[Any]:
        """The content of a kept item."""
        return [memoryview(self.head())] + self._parts + [v for v in self.buffers if v.nbytes]

    def name(self, key: str) -> None:
        """Set the key, from the hash known before pickling."""
        self._key = "{}:{:x}".format(key, self.size())

    def _hashable(self, part: Any) -> Any:
        return part if type(part) is not Text else "".join([self._digest([one]) for one in part.pieces()]).encode()

    def key(self) -> str:
        if not self._key:
            keys = [memoryview(b"".join(self._keys))] if self._keys else []
            parts = [self._hashable(part) for part in self.parts()]
            self._key = self._digest(parts[:1] + keys + parts[1:])
        return self._key


class Pouring:
    """The second pickling, into the pipe."""

    def __init__(self, sink: Sink, counted: Pickled) -> None:
        self.buffers: List[Any] = []
        self._sink = sink
        self._head = counted.head()
        sink.add(memoryview(self._head))

    def write(self, data: Any) -> None:
        self._sink.add(bytes_of(data))

    def finish(self) -> None:
        if lengths_of(self.buffers) != self._head[_CONTENT.size :]:
            raise Refused(CHANGED)
        for view in self.buffers:
            self._sink.add(view)


# --- reading ----------------------------------------------------------------------------


def writable(size: int, stays: bool = True) -> Any:
    """Memory for a buffer. Large ones that stay use huge pages, which are faster to allocate."""
    if size < MAPPED_MIN:
        return bytearray(size)
    room = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if stays and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            room.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            pass
    return room


class Source:
    """Reads the items of one part, and not a byte more."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._left = 0  # of the frame's raw bytes
        self.items = 0
        widen(fd)

    def _fill(self, view: memoryview) -> None:
        while view:
            done = readv(self._fd, [view])
            if not done:
                raise Torn("the stream ended early")
            view = view[done:]

    def _exact(self, size: int) -> bytearray:
        data = bytearray(size)
        self._fill(memoryview(data))
        return data

    def _header(self) -> Tuple[int, bytearray]:
        body_len, _, head_len, kind = _FRAME.unpack(self._exact(_FRAME.size))
        if head_len > HEAD_MAX or head_len > body_len or body_len - head_len > RAW_MAX:
            raise Torn("a frame that is too large")
        self._left = body_len - head_len
        return kind, self._exact(head_len)

    def next(self) -> Optional[Dict[str, Any]]:
        """The head of the next item; None at the end of the part."""
        kind, text = self._header()
        head: Dict[str, Any] = _decode(str(text, "utf-8"))
        if kind == END:
            if head.get("part") != PART or head.get("items") != self.items or self._left:
                raise Torn("the part is not complete")
            return None
        if kind != ITEM:
            raise Torn("a frame of type {}".format(kind))
        self.items += 1
        return head

    def into(self, view: memoryview) -> None:
        """Read the next bytes of the item's content."""
        while view:
            if not self._left:
                kind, _ = self._header()
                if kind != DATA or not self._left:
                    raise Torn("an item is not complete")
            size = min(self._left, view.nbytes)
            self._fill(view[:size])
            self._left -= size
            view = view[size:]

    def skip(self, size: int) -> None:
        """Skip them."""
        view = memoryview(bytearray(min(size, PIECE)))
        while size:
            part = view[: min(size, len(view))]
            self.into(part)
            size -= part.nbytes

    def done(self) -> None:
        """The item must end here."""
        if self._left:
            raise Torn("an item is longer than its declared size")


def limit_data(most: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 or 0 <= most < hard else hard, hard))


class Outside:
    """Pieces of large pickles, in shared memory, which RLIMIT_DATA does not count: it would count an object and the
    pieces that fill it twice, though each page is in memory once. The size of all pieces, except those that fill the
    current object, is subtracted from the limit instead."""

    def __init__(self) -> None:
        self._before = self._most = resource.getrlimit(resource.RLIMIT_DATA)[0]
        self.size = 0
        self._filling = 0

    def _update(self) -> None:
        if self._most >= 0:
            limit_data(max(self._most - self.size + self._filling, 0))

    def bound(self, most: int) -> None:
        """Use a lower limit until end()."""
        self._most = most if self._most < 0 else min(most, self._most)
        self._update()

    def end(self) -> None:
        limit_data(self._before)

    def piece(self, size: int) -> Any:
        private = writable(size, False)  # fails beyond the limit
        try:
            made = mmap.mmap(-1, size)
        except OSError:  # where no control group bounds memory; docs/security/controls.md
            return private
        self.size += size
        self._update()
        return made

    def free(self, size: int) -> None:
        """A piece was freed."""
        self.size = max(self.size - size, 0)
        self._filling = max(self._filling - size, 0)
        self._update()

    def fill(self, size: int) -> None:
        """Reserve an object that the next pieces fill."""
        self._filling = size
        self._update()


ONE_BYTE = b"KhqCU\x82\x8a\x8c"  # opcodes with an argument of one byte
LENGTHS = {b"B": 4, b"X": 4, b"\x8d": 8, b"\x8e": 8, b"\x96": 8}  # opcodes of contents, and bytes of their length


class Pieces:
    """A pickle, read in pieces by an unpickler. Pieces of a large one are freed after reading: it can be read once."""

    def __init__(self, source: Source, size: int, outside: Outside) -> None:
        self.is_once = size > KEPT_MAX
        self._pieces: List[Any] = []
        self._size = size
        self._outside = outside
        self._is_argument = False  # the next byte, not an opcode
        self._width = 0  # of a length of bytes, which is next
        self.rewind()
        while size:
            length = min(size, PIECE)
            room = outside.piece(length) if self.is_once else writable(length, False)
            self._pieces.append(room)
            source.into(memoryview(room))
            size -= length

    def rewind(self) -> None:
        self._piece = 0  # the current one
        self._at = 0  # offset in it
        self._left = self._size

    def release(self) -> None:
        if self.is_once:
            self._outside.free(sum([len(piece) for piece in self._pieces if piece is not None]))
            self._outside.fill(0)
        self._pieces = []

    def texts(self) -> Iterator[str]:
        decode = codecs.getincrementaldecoder("utf-8")("surrogatepass").decode
        while self._left:
            part = bytearray(min(PIECE, self._left))
            self.readinto(memoryview(part))
            yield decode(part, not self._left)

    def readinto(self, view: Any) -> int:
        done = 0
        while done < len(view) and self._piece < len(self._pieces):
            piece = self._pieces[self._piece]
            size = min(len(view) - done, len(piece) - self._at)
            view[done : done + size] = memoryview(piece)[self._at : self._at + size]
            done += size
            self._at += size
            self._left -= size
            if self._at == len(piece):
                if self.is_once:
                    self._pieces[self._piece] = None
                    self._outside.free(len(piece))
                self._piece += 1
                self._at = 0
        return done

    def read(self, size: int) -> bytearray:
        room = bytearray(min(size, self._left))
        self.readinto(memoryview(room))
        if self.is_once:
            self._announce(room)
        return room

    def _announce(self, read: bytearray) -> None:
        """Contents of large objects are outside pickle's frames: opcode, length, contents."""
        if len(read) == self._width:
            self._outside.fill(min(int.from_bytes(read, "little"), self._left))
        is_opcode = len(read) == 1 and not self._is_argument
        self._is_argument = is_opcode and read in ONE_BYTE
        self._width = LENGTHS.get(bytes(read), 0) if is_opcode else 0

    def readline(self) -> bytes:
        raise Torn("a pickle of an older kind")
