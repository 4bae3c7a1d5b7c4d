# SPDX-License-Identifier: Apache-2.0
"""The guest stream of docs/wire.md: cells and orders in, answers out; and the interrupt that never tears a frame."""

import builtins

# A private copy, as in driver.py: cells cannot change it. This module is a part of the same program.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
__name__ = "__main__"

import _signal
import base64
import errno
import json
import linecache
import os
import select
import signal
import struct
import sys
import threading
import traceback
import types
from fcntl import F_DUPFD_CLOEXEC, fcntl
from os import _exit, close, fstat, read, write
from stat import S_ISSOCK
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

CELL, START, SEED, WARM, HOLD, SAVE, LOAD, ANSWER = 16, 17, 18, 19, 20, 21, 22, 23  # from the host
WITH_DESCRIPTOR = frozenset([HOLD, SAVE, LOAD])
READY, DISPLAY, DENIAL, DONE, HELD, SAVED, LOADED, CALL = 32, 33, 34, 35, 36, 37, 38, 39

BODY_MAX = 16 << 20  # bytes of one frame from the host
READ_SIZE = 1 << 16
TEXT_MAX = 100000  # characters of value, result, traceback, message
DISPLAY_MAX = 8 << 20  # bytes of one display
DISPLAYS_MAX = 64  # per cell
DENIALS_MAX = 20  # per cell
CALL_MAX = 4 << 20  # bytes of one call
PROMPT_MAX = 1 << 20  # bytes of one prompt
PROMPTS_MAX = 100  # of one call
MIMES_MAX = 16  # representations of one display
JOIN_S = 0.05  # for each idle thread
SOURCES_KEPT = 1000  # cells whose source lines tracebacks can show
CHAIN_MAX = 16  # causes of an exception searched for a denial
RESERVE = 4 << 20  # bytes of address space reserved for answers when memory runs out
FAILURES_MAX = 100  # consecutive exceptions while a frame is read or answered
RECURSION_MIN = 1000  # for the driver; a cell may have lowered it

PRISTINE_FD = 4  # given to an interpreter; closed when it starts

EXIT_GONE = 0  # the host closed the stream
EXIT_PRELOAD = 3
EXIT_STREAM = 70  # the guest stream was replaced

_HEADER = struct.Struct("<IIIB3x")
_scan_json: Callable[[str, int], Tuple[Any, int]] = getattr(json.JSONDecoder(), "scan_once")
_quote: Callable[[str], str] = getattr(json.encoder, "encode_basestring")
_encode_any = json.JSONEncoder(ensure_ascii=False).encode
_modules: Dict[str, Any] = sys.modules
_importers: Dict[Any, Any] = sys.path_importer_cache
_sources = linecache.cache
_TracebackException = traceback.TracebackException
_allocate_lock = threading.Lock
_b64decode = base64.b64decode
_urandom = os.urandom
select_fds = select.select
get_thread = threading.get_ident
_int_text = int.__repr__
_type_name = vars(type)["__name__"].__get__  # ignores overrides in metaclasses


def to_json(value: Any) -> str:
    """JSON of None, bools, ints, strings, lists and dicts; cells cannot patch it."""
    kind = type(value)
    if kind is str:
        return _quote(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return _int_text(value)
    if kind is dict:
        return "{" + ",".join([_quote(k) + ":" + to_json(v) for k, v in value.items()]) + "}"
    return "[" + ",".join([to_json(item) for item in value]) + "]"


def clean(text: str, limit: int = TEXT_MAX) -> str:
    """An exact str of at most limit characters, valid in UTF-8."""
    if type(text) is not str:
        text = str.__str__(text)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")[:limit]
    return text


def clean_middle(text: str) -> str:
    """Like clean(), but keeps both ends of a long text."""
    if len(text) > TEXT_MAX:
        half = TEXT_MAX // 2 - 50
        note = "\n... {} characters omitted ...\n".format(len(text) - 2 * half)
        text = text[:half] + note + text[-half:]
    return clean(text)


# --- interrupt ------------------------------------------------------------------------


class Interrupt:
    """Turns SIGINT into KeyboardInterrupt, only while user code runs.

    In a shielded frame, and before user code is entered, nothing is raised: the signal stays pending until check(). A
    signal pending between cells is dropped.
    """

    def __init__(self) -> None:
        self.armed = False
        self.pending = False
        self.shielded: Set[types.CodeType] = set()

    def install(self) -> None:
        if _signal.getsignal(signal.SIGINT) != self.handle:
            _signal.signal(signal.SIGINT, self.handle)

    def handle(self, _number: int, frame: Optional[types.FrameType]) -> None:
        if not self.armed or (frame is not None and frame.f_code in self.shielded):
            self.pending = True
        else:
            raise KeyboardInterrupt

    def check(self) -> None:
        if self.pending and self.armed:
            self.pending = False
            raise KeyboardInterrupt


# --- guest stream ---------------------------------------------------------------------


# (descriptor, most bytes) -> bytes and a passed descriptor (see passed_descriptor()). Iterating receives, in C code,
# which raises no interrupts.
Receive = Callable[[int, int], Iterator[Tuple[Any, ...]]]


class Cell(NamedTuple):
    """A CELL frame, decoded."""

    ident: int
    number: int
    code: bytes
    stdin: Optional[bytes]
    cwd: Optional[str]
    argv: Optional[List[str]]
    has_calls: bool = False


class Order(NamedTuple):
    """A frame other than CELL, or one before all cells."""

    kind: int
    ident: int
    head: bytes  # JSON
    raw: bytes
    fd: int  # a descriptor passed with it, to be closed by us; -1 = none

    def members(self) -> Dict[str, Any]:
        members: Dict[str, Any]
        members, _ = _scan_json(str(self.head, "utf-8"), 0)
        return members


class Outgoing(NamedTuple):
    """A frame that is being sent; sum(sent) bytes are sent."""

    kind: int
    ident: int
    data: bytes
    sent: List[int]


NO_FRAME = Outgoing(0, 0, b"", [])


class StreamError(Exception):
    """The host violated the protocol."""


class SubCallError(RuntimeError):
    """A model call failed. responses: the available ones of llm_query_batched, else None."""

    responses: List[Optional[str]] = []


class Stream:
    """The guest stream. Frames other than DONE are sent only between CELL and DONE.

    A signal handler installed by a cell may raise at any call. Received data and the progress of sending are therefore
    stored in members, and changed by one call of C code: list.extend() of map(). Each method can be repeated after such
    an exception.
    """

    def __init__(self, fd: int, interrupt: Interrupt, receive: Receive) -> None:
        self.fd = high_descriptor(fd)
        close(fd)
        self._identity = identity(self.fd)
        self._interrupt = interrupt
        self._receive = receive
        self._received: List[Tuple[Any, ...]] = []  # not yet moved to _passed and _input
        self._passed = -1  # a descriptor received with the data in _input
        self._input = bytearray()
        self._outgoing = NO_FRAME
        self._lock = _allocate_lock()
        self._ident: Optional[int] = None  # of the running cell
        own = (Stream.emit, Stream.call, Stream.wait, Stream.has_next, Stream._send, Stream._flush, Stream._peek,
               Stream._read, receive, passed_descriptor)
        interrupt.shielded.update([method.__code__ for method in own])

    def adopt(self, fd: int) -> None:
        """Continue with another stream: this process is a copy of the stream's owner."""
        self.fd = high_descriptor(fd)
        close(fd)
        self._identity = identity(self.fd)
        self._received.clear()
        self._input.clear()  # already read, for the original process
        self._outgoing = NO_FRAME
        self._passed = -1  # closed: see passed()

    def passed(self) -> List[int]:
        """Descriptors received for orders that are not read yet: copies must not keep them open."""
        return [self._passed] if self._passed >= 0 else []

    def has_cell(self) -> bool:
        """Whether a cell is waiting for its DONE."""
        return self._ident is not None

    def receive(self) -> Union[Cell, Order, None]:
        """The next cell or order; None at the end of the stream. StreamError: invalid data."""
        frame = self._peek()
        if frame is None:
            return None
        size = len(frame)
        _, ident, head_len, kind = _HEADER.unpack_from(frame)
        if kind == CELL:
            cell = self._parse(frame)
            self._outgoing = NO_FRAME
            self._ident = cell.ident
            del self._input[:size]
            return cell
        start = _HEADER.size + head_len
        fd = self._passed if kind in WITH_DESCRIPTOR else -1
        order = Order(kind, ident, frame[_HEADER.size : start], frame[start:], fd)
        if fd >= 0:
            self._passed = -1
        del self._input[:size]
        return order

    def has_next(self, kind: int) -> bool:
        """Whether the next frame has arrived and is of that kind."""
        if not self._input and select_fds([self.fd], [], [], 0)[0]:
            self._read()
        data = self._input
        return len(data) >= _HEADER.size and _HEADER.unpack_from(data)[3] == kind

    def _peek(self) -> Optional[bytes]:
        """The next frame, which stays in the input; None at the end of the stream."""
        data = self._input
        while True:
            try:
                if len(data) >= _HEADER.size:
                    size = _HEADER.size + _HEADER.unpack_from(data)[0]
                    if size > _HEADER.size + BODY_MAX:
                        raise StreamError("frame too large")
                    if len(data) >= size:
                        return bytes(data[:size])
                if not self._read():
                    return None
            except OSError as error:
                if error.errno is not None:
                    raise
            except (MemoryError, StreamError):
                raise
            except BaseException:  # raised by a signal handler: nothing is lost
                pass

    def _read(self) -> bool:
        """Receive more; False at the end of the stream."""
        received = self._received
        if not received:
            received.extend(self._receive(self.fd, READ_SIZE))
        data: bytes = received[0][0]
        fd = passed_descriptor(received[0][1])
        if fd >= 0 and fd != self._passed:
            unused, self._passed = self._passed, fd
            if unused >= 0:
                close(unused)
        self._input += data  # no call, so no handler runs, before clear()
        received.clear()
        return data != b""

    @staticmethod
    def _parse(frame: bytes) -> Cell:
        body_len, ident, head_len, kind = _HEADER.unpack_from(frame)
        start = _HEADER.size + head_len
        if kind != CELL or head_len > body_len:
            raise StreamError("not a cell")
        head, _ = _scan_json(str(frame[_HEADER.size : start], "utf-8"), 0)
        end = start + head["code_len"]
        stdin = frame[end:] if head.get("stdin") else None
        cwd, argv = head.get("cwd"), head.get("argv")
        has_calls = head.get("calls") is True
        return Cell(ident, head["cell"], frame[start:end], stdin, cwd, argv, has_calls)

    def ready(self, head: Dict[str, Any]) -> None:
        self._send(READY, 0, to_json(head).encode(), b"")

    def answer(self, kind: int, order: Order, head: Dict[str, Any]) -> None:
        """Answer an order, between cells."""
        self._send(kind, order.ident, to_json(head).encode(), b"")

    def emit(self, kind: int, head: str, raw: bytes = b"") -> None:
        """Send an event of the running cell, from any thread; dropped when none runs."""
        with self._lock:
            if self._ident is not None and self.fd >= 0:
                self._send(kind, self._ident, head.encode(), raw)
        self._interrupt.check()

    def call(self, number: int, raw: bytes) -> None:
        """Send a call to the cell's client; wait() gets the answer."""
        with self._lock:
            if self._ident is None or self.fd < 0:
                raise SubCallError("no cell is running")
            self._send(CALL, self._ident, to_json({"call": number}).encode(), raw)

    def wait(self, number: int) -> Tuple[bool, bytes]:
        """Wait for the answer to our call of this number. An interrupt takes effect between two frames."""
        while True:
            self._interrupt.check()
            if not self._input:
                wait_readable(self.fd)
            frame = self._peek()
            if frame is None:
                _exit(EXIT_GONE)
            size = len(frame)
            _, ident, head_len, kind = _HEADER.unpack_from(frame)
            start = _HEADER.size + head_len
            if kind != ANSWER:
                _exit(EXIT_STREAM)
            head, _ = _scan_json(str(frame[_HEADER.size : start], "utf-8"), 0)
            is_ours = ident == self._ident and head["call"] == number
            del self._input[:size]
            if is_ours:
                return head["ok"] is True, frame[start:]

    def finish(self, head: str) -> None:
        """Send DONE, once per cell, however often this is called."""
        with self._lock:
            ident = self._ident
            if ident is not None and self.fd >= 0:
                if self._outgoing[:2] != (DONE, ident):
                    self._send(DONE, ident, head.encode(), b"")
                self._flush()
            self._ident = None

    def _send(self, kind: int, ident: int, head: bytes, raw: bytes) -> None:
        data = _HEADER.pack(len(head) + len(raw), ident, len(head), kind) + head + raw
        self._flush()
        self._outgoing = Outgoing(kind, ident, data, [])
        self._flush()

    def _flush(self) -> None:
        """Send the rest of the frame."""
        fd = self.fd
        while True:
            try:
                _, _, data, sent = self._outgoing
                start = sum(sent)
                if start == len(data):
                    return
                status = fstat(fd)
                if (status.st_dev, status.st_ino) != self._identity:
                    _exit(EXIT_STREAM)  # the cell closed it, and the number may be reused
                sent.extend(map(write, (fd,), (data[start:],)))
            except OSError as error:
                if error.errno is not None:
                    _exit(EXIT_STREAM)
            except BaseException:  # raised by a signal handler: nothing is lost
                pass

    def forget(self) -> None:
        """Close the stream in a forked child: it is the parent's."""
        fd, self.fd = self.fd, -1
        close_quietly(fd)


def wait_readable(fd: int) -> None:
    """The only place in a call where an interrupt raises: nothing was read."""
    select_fds([fd], [], [])


def main_thread_number() -> Optional[int]:
    return threading.main_thread().ident


def receiver(fd: int, receive_one: Optional[Callable[[int, int], Tuple[bytes, int]]]) -> Receive:
    """A function that receives data and passed descriptors. receive_one: of our module, if loaded."""
    if receive_one is not None:
        one = receive_one
        return lambda number, size: map(one, (number,), (size,))
    if not S_ISSOCK(fstat(fd).st_mode):  # no descriptors are passed
        return lambda number, size: zip(map(read, (number,), (size,)), (-1,))
    import _socket

    space, flags = _socket.CMSG_SPACE(4 * 4), _socket.MSG_CMSG_CLOEXEC
    kept: Dict[int, Any] = {}  # a dropped socket object would close its descriptor

    def receive(number: int, size: int) -> Iterator[Tuple[Any, ...]]:
        if number not in kept:
            kept[number] = _socket.socket(fileno=number)
        return map(kept[number].recvmsg, (size,), (space,), (flags,))

    return receive


def passed_descriptor(passed: Any) -> int:
    """The descriptor in an item of a Receive, or -1."""
    fd: int = passed if type(passed) is int else struct.unpack_from("<i", passed[0][2])[0] if passed else -1
    return fd


def high_descriptor(fd: int) -> int:
    """A duplicate above the low numbers, which code may rely on."""
    for lowest in (240, 100, 10, 3):
        try:
            return fcntl(fd, F_DUPFD_CLOEXEC, lowest)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EMFILE):
                raise
    raise OSError(errno.EMFILE, "no descriptor left")


def identity(fd: int) -> Optional[Tuple[int, int]]:
    """The file behind a descriptor; None if it is closed."""
    try:
        status = fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def close_quietly(fd: int) -> None:
    try:
        close(fd)
    except OSError:
        pass
