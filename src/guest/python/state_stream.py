# SPDX-License-Identifier: Apache-2.0
"""The stream of variables: frames written to a pipe and read from one (docs/wire.md), and contents of items. Large
objects are never in memory twice: they are written from their memory, and read into it.
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
from time import monotonic
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
_MAGIC = b"SNPVARS2"
_MAGIC_OLD = b"SNPVARS1"  # the pickle precedes the buffers
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
        return [memoryview(self.head())] + [v for v in self.buffers if v.nbytes] + self._parts

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
    """The second pickling, into the pipe. The buffers are those of the first."""

    def __init__(self, sink: Sink, counted: Pickled) -> None:
        self.buffers: List[Any] = []
        self._sink = sink
        self._head = counted.head()
        for part in counted.parts():
            sink.add(part)

    def write(self, data: Any) -> None:
        self._sink.add(bytes_of(data))

    def finish(self) -> None:
        if lengths_of(self.buffers) != self._head[_CONTENT.size :]:
            raise Refused(CHANGED)


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
        self._start = bytearray(_FRAME.size)
        self._is_torn = False
        self.items = 0
        self.left = 0  # of the item
        self.is_reading = False  # then a signal handler must not raise
        self.waited_s = 0.0  # spent reading
        widen(fd)

    def _fill(self, view: memoryview) -> None:
        while view:
            done = readv(self._fd, [view])
            if not done:
                raise Torn("the stream ended early")
            view = view[done:]

    def _header(self) -> Tuple[int, bytearray]:
        self._fill(memoryview(self._start))
        body_len, _, head_len, kind = _FRAME.unpack(self._start)
        if head_len > HEAD_MAX or head_len > body_len or body_len - head_len > RAW_MAX:
            raise Torn("a frame that is too large")
        self._left = body_len - head_len
        head = bytearray(head_len)
        self._fill(memoryview(head))
        return kind, head

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
        self.left = head["size"]
        return head

    def into(self, view: memoryview) -> None:
        """Read the next bytes of the item's content. After a failure nothing more can be read."""
        start = monotonic()
        self.is_reading = True
        try:
            if self._is_torn or view.nbytes > self.left:
                raise Torn("an item is not complete")
            self._is_torn = True
            while view:
                if not self._left:
                    kind, _ = self._header()
                    if kind != DATA or not self._left:
                        raise Torn("an item is not complete")
                size = min(self._left, view.nbytes)
                self._fill(view[:size])
                self._left -= size
                self.left -= size
                view = view[size:]
            self._is_torn = False
        finally:
            self.waited_s += monotonic() - start
            self.is_reading = False

    def skip(self) -> None:
        """Skip the remaining content of the item."""
        view = memoryview(bytearray(min(self.left, LARGE)))
        while self.left:
            self.into(view[: min(self.left, len(view))])

    def done(self) -> None:
        """The item must end here."""
        if self.left or self._left:
            raise Torn("an item is longer than its declared size")


def limit_data(most: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 or 0 <= most < hard else hard, hard))


class Arriving:
    """Bytes of an item as they arrive: a pickle, read by an unpickler straight into its objects, or a text."""

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self._left = size

    def readinto(self, view: Any) -> int:
        part = memoryview(view)[: self._left]
        self._source.into(part)
        self._left -= part.nbytes
        return part.nbytes

    def read(self, size: int) -> bytearray:
        room = bytearray(min(size, self._left))
        self.readinto(room)
        return room

    def readline(self) -> bytes:
        raise Torn("a pickle of an older kind")

    def texts(self) -> Iterator[str]:
        decode = codecs.getincrementaldecoder("utf-8")("surrogatepass").decode
        while self._left:
            part = self.read(PIECE)
            yield decode(part, not self._left)
