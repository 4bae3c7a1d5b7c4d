# SPDX-License-Identifier: Apache-2.0
"""The interpreter loop that runs inside a sandbox: reads cells, runs them, answers.

    python3 -I driver.py --template NAME --zygote FD    preload, then fork interpreters
    python3 -I driver.py --template NAME --fd FD        serve cells on this socket at once
    python3 -I driver.py --template NAME --start --fd FD    the same, when it is told to start

Standard library only, CPython 3.8 or later, the same file in every isolation tier. The
stream is the guest protocol of docs/wire.md; descriptors 0, 1 and 2 belong to the cells.

User code shares this process and can forge whatever we say: nothing here is a security
boundary. What is promised is that ordinary mistakes of a cell (closed descriptors,
replaced builtins, a hostile __repr__, any BaseException) leave the next cell working,
or end the process. For that:

- the names we use are bound when the file is loaded, builtins included;
- user code is entered in one place only, Session._guarded();
- an interrupt never raises in the frames that keep the stream's framing intact.
"""

import builtins

# Ours: a cell that replaces builtins.len or deletes builtins.print does not reach it.
__builtins__ = dict(vars(builtins))

import __future__
import _signal
import argparse
import base64
import errno
import gc
import importlib
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
import warnings
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST, Expr, Expression, Module
from fcntl import F_DUPFD_CLOEXEC, F_GETFD, F_GETFL, FD_CLOEXEC, fcntl, ioctl
from importlib.machinery import PathFinder
from io import BufferedReader, BytesIO, FileIO, StringIO, TextIOWrapper
from os import (
    O_ACCMODE,
    O_RDONLY,
    SEEK_CUR,
    SEEK_SET,
    _exit,
    chdir,
    close,
    dup2,
    fsdecode,
    fstat,
    getpid,
    listdir,
    lseek,
    read,
    readlink,
    stat,
    write,
)
from os import open as open_fd
from stat import S_ISBLK, S_ISCHR, S_ISDIR, S_ISFIFO, S_ISREG, S_ISSOCK
from sys import getrecursionlimit, setrecursionlimit
from termios import FIONREAD
from time import monotonic, sleep
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
JOIN_S = 0.05  # for each thread that has nothing to do
SOURCES_KEPT = 1000  # cells whose source lines tracebacks can show
CHAIN_MAX = 16  # causes of an exception searched for a denial
RESERVE = 4 << 20  # bytes of address space set aside for answering when there are no more
RECURSION_MIN = 1000  # what we need ourselves; a cell may leave less behind

SEED_FD = 4  # given to an interpreter; gone when it starts

EXIT_GONE = 0  # the host closed the stream
EXIT_PRELOAD = 3
EXIT_STREAM = 70  # the guest stream is no longer ours

_FILE = __file__
_HEADER = struct.Struct("<IIIB3x")
_scan_json = json.JSONDecoder().scan_once
_quote = json.encoder.encode_basestring
_encode_any = json.JSONEncoder(ensure_ascii=False).encode
_modules = sys.modules
_importers = sys.path_importer_cache
_sources = linecache.cache
_TracebackException = traceback.TracebackException
_allocate_lock = threading.Lock
_b64decode = base64.b64decode
_urandom = os.urandom
select_fds = select.select
get_thread = threading.get_ident
_int_text = int.__repr__
_type_name = type.__dict__["__name__"].__get__  # whatever a metaclass says


def to_json(value: Any) -> str:
    """JSON of None, bools, ints, strings, lists and dicts; nothing a cell can patch."""
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
    """An exact str of at most limit characters that UTF-8 can carry."""
    if type(text) is not str:
        text = str.__str__(text)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")[:limit]
    return text


def clean_middle(text: str) -> str:
    """As clean(), but of a long text both ends are kept."""
    if len(text) > TEXT_MAX:
        half = TEXT_MAX // 2 - 50
        note = "\n... {} characters left out ...\n".format(len(text) - 2 * half)
        text = text[:half] + note + text[-half:]
    return clean(text)


# --- interrupt ------------------------------------------------------------------------


class Interrupt:
    """Turns SIGINT into KeyboardInterrupt, while user code runs and nowhere else.

    In a shielded frame, and before user code is entered, nothing is raised: the signal
    stays pending until check(). What is pending between cells is forgotten.
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


# (descriptor, most bytes) -> bytes, and a descriptor that was passed with them or -1.
Receive = Callable[[int, int], Tuple[bytes, int]]


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
    fd: int  # a descriptor that was passed with it, ours to close; -1 = none

    def members(self) -> Dict[str, Any]:
        members, _ = _scan_json(str(self.head, "utf-8"), 0)
        return members


class StreamError(Exception):
    """The host does not speak our protocol."""


class Stream:
    """The guest stream. Frames other than DONE leave only between CELL and DONE."""

    def __init__(self, fd: int, interrupt: Interrupt, receive: Receive) -> None:
        self.fd = high_descriptor(fd)
        close(fd)
        self._identity = identity(self.fd)
        self._interrupt = interrupt
        self._receive = receive
        self._passed = -1  # a descriptor that came with what is in _input
        self._input = bytearray()
        self._lock = _allocate_lock()
        self._ident: Optional[int] = None  # of the running cell
        own = (Stream.emit, Stream.call, Stream.wait, Stream.has_next, Stream._send, Stream._frame, Stream._read)
        interrupt.shielded.update([method.__code__ for method in own])

    def adopt(self, fd: int) -> None:
        """Go on with another stream: this process is a copy of the one that had ours."""
        self.fd = high_descriptor(fd)
        close(fd)
        self._identity = identity(self.fd)
        self._input.clear()  # read already, and meant for the other

    def receive(self) -> Union[Cell, Order, None]:
        """What comes next; None at the end of the stream. StreamError: not our protocol."""
        frame = self._frame()
        if frame is None:
            return None
        _, ident, head_len, kind = _HEADER.unpack_from(frame)
        if kind != CELL:
            fd = -1
            if kind in WITH_DESCRIPTOR:
                fd, self._passed = self._passed, -1
            start = _HEADER.size + head_len
            return Order(kind, ident, frame[_HEADER.size : start], frame[start:], fd)
        try:
            cell = self._parse(frame)
        except Exception as error:
            raise StreamError("not a cell") from error
        self._ident = cell.ident
        return cell

    def has_next(self, kind: int) -> bool:
        """Whether a frame of that kind is what comes next, and has come."""
        data = self._input
        if not data and select_fds([self.fd], [], [], 0)[0]:
            data += self._read()
        return len(data) >= _HEADER.size and _HEADER.unpack_from(data)[3] == kind

    def _frame(self) -> Optional[bytes]:
        data = self._input
        while True:
            if len(data) >= _HEADER.size:
                size = _HEADER.size + _HEADER.unpack_from(data)[0]
                if size > _HEADER.size + BODY_MAX:
                    raise StreamError("frame too large")
                if len(data) >= size:
                    break
            chunk = self._read()
            if not chunk:
                return None
            data += chunk
        frame = bytes(data[:size])
        del data[:size]
        return frame

    def _read(self) -> bytes:
        while True:
            try:
                data, fd = self._receive(self.fd, READ_SIZE)
                if fd >= 0:
                    if self._passed >= 0:
                        close(self._passed)
                    self._passed = fd
                return data
            except OSError as error:
                if error.errno is not None:
                    raise
            except MemoryError:
                raise
            except BaseException:
                pass
            # Raised by a signal handler that a cell left behind: nothing was read.

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
        """To an order, between cells."""
        self._send(kind, order.ident, to_json(head).encode(), b"")

    def emit(self, kind: int, head: str, raw: bytes = b"") -> None:
        """Send an event of the running cell, from any thread; dropped when none runs."""
        with self._lock:
            if self._ident is not None and self.fd >= 0:
                self._send(kind, self._ident, head.encode(), raw)
        self._interrupt.check()

    def call(self, number: int, raw: bytes) -> None:
        """Ask who ordered the running cell; the answer is to be waited for."""
        with self._lock:
            if self._ident is None or self.fd < 0:
                raise SubCallError("no cell runs")
            self._send(CALL, self._ident, to_json({"call": number}).encode(), raw)

    def wait(self, number: int) -> Tuple[bool, bytes]:
        """The answer to our call of this number. An interrupt ends it between two frames."""
        while True:
            self._interrupt.check()
            if not self._input:
                wait_readable(self.fd)
            frame = self._frame()
            if frame is None:
                _exit(EXIT_GONE)
            _, ident, head_len, kind = _HEADER.unpack_from(frame)
            start = _HEADER.size + head_len
            if kind != ANSWER:
                _exit(EXIT_STREAM)
            head, _ = _scan_json(str(frame[_HEADER.size : start], "utf-8"), 0)
            if ident == self._ident and head["call"] == number:
                return head["ok"] is True, frame[start:]

    def finish(self, head: str) -> None:
        """Send DONE, once per cell."""
        with self._lock:
            ident, self._ident = self._ident, None
            if ident is not None and self.fd >= 0:
                self._send(DONE, ident, head.encode(), b"")

    def _send(self, kind: int, ident: int, head: bytes, raw: bytes) -> None:
        fd = self.fd
        data = _HEADER.pack(len(head) + len(raw), ident, len(head), kind) + head + raw
        if identity(fd) != self._identity:
            _exit(EXIT_STREAM)  # closed by the cell, the number perhaps reused
        while data:
            try:
                data = data[write(fd, data) :]
            except OSError as error:
                if error.errno is not None:
                    _exit(EXIT_STREAM)
            except BaseException:  # as in _read()
                pass

    def forget(self) -> None:
        """In a forked child: the stream is the parent's."""
        fd, self.fd = self.fd, -1
        close_quietly(fd)


def wait_readable(fd: int) -> None:
    """The only place of a call where an interrupt raises: nothing was read."""
    select_fds([fd], [], [])


def main_thread_number() -> Optional[int]:
    return threading.main_thread().ident


def read_plain(fd: int, size: int) -> Tuple[bytes, int]:
    """What receives a stream where no descriptors are passed."""
    return read(fd, size), -1


def receiver(fd: int) -> Receive:
    """What receives a stream, and descriptors passed on it, where our module cannot be loaded."""
    import _socket

    space, flags = _socket.CMSG_SPACE(4 * 4), _socket.MSG_CMSG_CLOEXEC
    passed = _socket.SOL_SOCKET, _socket.SCM_RIGHTS
    make = _socket.socket

    def receive(number: int, size: int) -> Tuple[bytes, int]:
        sock = make(fileno=number)
        try:
            data, parts, _, _ = sock.recvmsg(size, space, flags)
        finally:
            sock.detach()
        given: List[int] = []
        for level, kind, raw in parts:
            if (level, kind) == passed:
                given += struct.unpack("<{}i".format(len(raw) // 4), raw)
        for extra in given[1:]:
            close(extra)
        return data, given[0] if given else -1

    return receive if S_ISSOCK(fstat(fd).st_mode) else read_plain


def high_descriptor(fd: int) -> int:
    """A duplicate out of the way of code that counts on low numbers."""
    for lowest in (240, 100, 10, 3):
        try:
            return fcntl(fd, F_DUPFD_CLOEXEC, lowest)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EMFILE):
                raise
    raise OSError(errno.EMFILE, "no descriptor left")


def identity(fd: int) -> Optional[Tuple[int, int]]:
    """What a descriptor refers to; None if it is closed."""
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


# --- standard streams -----------------------------------------------------------------


class Turn:
    """Keeps the order between stdout and stderr, which are two pipes.

    Before writing changes from one to the other we wait until the first has been read. So
    we do before a child process starts; what it wrote itself is waited for behind it.
    """

    WAIT_S = 0.250
    GIVE_UP = 4  # waits in one cell that ran out: nobody is reading

    def __init__(self) -> None:
        self._last = 0  # written last: 1, 2, or 0 = either may have been
        self._given_up = 0

    def begin(self) -> None:
        self._last = self._given_up = 0

    def take(self, fd: int) -> None:
        if fd != self._last:
            self._last = fd
            self._wait(3 - fd)

    def settle(self) -> None:
        """Wait for what was written, before something else goes to the host."""
        self._last = 0
        self._wait(1)
        self._wait(2)

    def _wait(self, fd: int) -> None:
        try:
            if self._given_up >= self.GIVE_UP or not S_ISFIFO(fstat(fd).st_mode):
                return
            deadline = monotonic() + self.WAIT_S
            pause = 0.00002
            while any(ioctl(fd, FIONREAD, b"\0\0\0\0")):
                if monotonic() > deadline:
                    self._given_up += 1
                    return
                sleep(pause)
                pause = min(2 * pause, 0.001)
        except OSError:
            pass  # closed by the cell


class OutputPipe(FileIO):
    """Descriptor 1 or 2 as Python sees it: what is written is in the pipe at once."""

    def __init__(self, fd: int, turn: Turn) -> None:
        super().__init__(fd, "wb", closefd=False)
        self._turn = turn

    @property
    def raw(self) -> "OutputPipe":
        """Code that expects a buffered writer looks for this."""
        return self

    def write(self, data: Any) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        fd = self.fileno()
        self._turn.take(fd)
        done = write(fd, data)
        with memoryview(data) as view:
            size = view.nbytes
            if done < size:
                rest = view.cast("B")
                while done < size:
                    done += write(fd, rest[done:])
        return size


class Stdio:
    """Descriptors 0, 1, 2 and sys.stdin, stdout, stderr over them.

    A cell starts with the session's own descriptors, whatever the one before did to them.
    Objects put into sys.stdout and the like stay, as in any interpreter, unless they
    cannot be used.
    """

    NAMES = ("stdin", "stdout", "stderr")

    def __init__(self) -> None:
        self.turn = Turn()
        self.spare = [high_descriptor(fd) for fd in range(3)]
        self._identity = [identity(fd) for fd in range(3)]
        self._own: List[TextIOWrapper] = [self._make(fd) for fd in range(3)]
        self._given = False  # standard input of the last cell was not the session's
        for fd in range(3):
            self._show(fd)

    def _make(self, fd: int) -> TextIOWrapper:
        if fd == 0:
            raw = BufferedReader(FileIO(0, "rb", closefd=False))
            return TextIOWrapper(raw, "utf-8", "surrogateescape")
        buffer: Any = OutputPipe(fd, self.turn)
        buffer.name = "<{}>".format(self.NAMES[fd])
        errors = "surrogateescape" if fd == 1 else "backslashreplace"
        text = TextIOWrapper(buffer, "utf-8", errors, newline="\n", write_through=True)
        text.mode = "w"  # type: ignore[misc]
        return text

    def _show(self, fd: int) -> None:
        setattr(sys, self.NAMES[fd], self._own[fd])
        setattr(sys, "__" + self.NAMES[fd] + "__", self._own[fd])

    def begin(self, stdin: Optional[bytes]) -> None:
        """Make the descriptors right for a cell."""
        self.turn.begin()
        for fd in (1, 2):
            if identity(fd) != self._identity[fd]:
                self._restore(fd)
        if stdin is not None:
            self._give(stdin)
        elif self._given or identity(0) != self._identity[0]:
            self._restore(0)
            self._given = False
            self._renew(0)

    def _restore(self, fd: int) -> None:
        try:
            dup2(self.spare[fd], fd)
        except OSError:
            pass  # the spare was closed as well: this stream is gone

    def _give(self, stdin: bytes) -> None:
        fd = temporary_file()
        try:
            rest = memoryview(stdin)
            while rest:
                rest = rest[write(fd, rest) :]
            lseek(fd, 0, SEEK_SET)
            if fd != 0:
                dup2(fd, 0)
        finally:
            if fd != 0:
                close(fd)
        self._given = True
        self._renew(0)

    def _renew(self, fd: int) -> None:
        self._own[fd] = self._make(fd)
        self._show(fd)

    def heal(self) -> None:
        """Replace what cannot be used in sys; looks at user objects."""
        for fd, name in enumerate(self.NAMES):
            now = getattr(sys, name, None)
            try:
                usable = now is not None and not getattr(now, "closed", False)
                usable = usable and hasattr(now, "write" if fd else "readline")
            except Exception:
                usable = False
            if not usable:
                self._renew(fd)

    def flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()

    def forget(self) -> None:
        for fd in self.spare:
            close_quietly(fd)


def temporary_file() -> int:
    """A file without a name."""
    try:
        return os.memfd_create("stdin")
    except (AttributeError, OSError):
        import tempfile

        fd, path = tempfile.mkstemp()
        os.unlink(path)
        return fd


# --- display --------------------------------------------------------------------------


class Display:
    """Rich output: the builtin display() and the last expression's representations."""

    PLAIN = frozenset({int, str, float, bool, complex, bytes, list, tuple, dict, set})
    METHODS = (
        ("text/html", "_repr_html_"),
        ("text/markdown", "_repr_markdown_"),
        ("image/svg+xml", "_repr_svg_"),
        ("image/png", "_repr_png_"),
        ("image/jpeg", "_repr_jpeg_"),
        ("text/latex", "_repr_latex_"),
        ("application/json", "_repr_json_"),
    )
    TOO_LARGE = "\n(other forms left out: larger than {} MiB)".format(DISPLAY_MAX >> 20)

    def __init__(self, stream: Stream, stdio: Stdio) -> None:
        self._stream = stream
        self._stdio = stdio
        self._count = 0

    def begin(self) -> None:
        self._count = 0

    def show(self, *values: Any) -> None:
        """The builtin: send each value to whoever reads the result."""
        for value in values:
            self._send(clean(repr(value)), self._rich_forms(value))

    def show_value(self, value: Any, text: str) -> None:
        """The last expression, if there is more to it than its repr."""
        if type(value) not in self.PLAIN:
            forms = self._rich_forms(value)
            if forms:
                self._send(text, forms)

    def show_png(self, text: str, png: bytes) -> None:
        self._send(text, {"image/png": png})

    def _rich_forms(self, value: Any) -> Dict[str, bytes]:
        forms: Dict[str, bytes] = {}
        for mime, method in (("", "_repr_mimebundle_"),) + self.METHODS:
            # On the type: a class is not its instances, and mocks answer to any name.
            if getattr(type(value), method, None) is None or mime in forms:
                continue
            try:
                data = getattr(value, method)()
                found = mimebundle(data) if not mime else {mime: mime_data(data)}
                for name, form in found.items():
                    if form is not None:
                        forms[name] = mime_bytes(name, form)
            except Exception:
                continue  # a form that fails is a form less
        forms.pop("text/plain", None)
        return forms

    def _send(self, text: str, forms: Dict[str, bytes]) -> None:
        self._count += 1
        if self._count > DISPLAYS_MAX:
            if self._count == DISPLAYS_MAX + 1:
                note = "display: more than {} outputs in one cell, the rest is left out\n"
                sys.stderr.write(note.format(DISPLAYS_MAX))
            return
        plain = text.encode()
        parts = [("text/plain", plain)] + list(forms.items())[: MIMES_MAX - 1]
        if sum([len(data) for _, data in parts]) > DISPLAY_MAX:
            parts = [("text/plain", plain + self.TOO_LARGE.encode())]
        self._stdio.turn.settle()
        head = to_json({"mime": [[mime, len(data)] for mime, data in parts]})
        self._stream.emit(DISPLAY, head, b"".join([data for _, data in parts]))


def mime_data(data: Any) -> Any:
    """What _repr_*_ methods return: the data, or the data and metadata."""
    return data[0] if isinstance(data, tuple) and data else data


def mimebundle(data: Any) -> Dict[str, Any]:
    """The usable members of what _repr_mimebundle_ returned."""
    return {
        name: form
        for name, form in dict(mime_data(data) or {}).items()
        if type(name) is str and "/" in name and len(name) <= 100 and name.isascii()
    }


def mime_bytes(mime: str, data: Any) -> bytes:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if isinstance(data, str):
        is_binary = mime.startswith(("image/", "audio/", "video/")) and mime != "image/svg+xml"
        if is_binary or mime == "application/pdf":
            return _b64decode(data)
        return data.encode("utf-8", "backslashreplace")
    return _encode_any(data).encode("utf-8", "backslashreplace")


# --- calls ----------------------------------------------------------------------------


class SubCallError(RuntimeError):
    """A model could not be asked. responses: of llm_query_batched, what there is, else None."""

    responses: List[Optional[str]] = []


class Calls:
    """llm_query() and llm_query_batched(): who ordered the cell asks a model for us."""

    NOT_HERE = (
        "llm_query works in code that the model of a run writes (snipara-sandbox run and agent) "
        "while sub-calls are on; this cell is not part of one"
    )

    def __init__(self, stream: Stream, interrupt: Interrupt) -> None:
        self._stream = stream
        self._interrupt = interrupt
        interrupt.shielded.add(Calls.query.__code__)
        self._pid = getpid()
        self._is_on = False
        self._number = 0  # of the last call of this cell
        self._waits = 0  # for the answer to this one; 0 = for none

    def begin(self, is_on: bool) -> None:
        self._pid = getpid()
        self._is_on = is_on
        self._number = self._waits = 0

    def query(self, prompts: List[str], system: Optional[str], max_tokens: Optional[int]) -> Any:
        """One row for each prompt."""
        if not self._is_on:
            raise SubCallError(self.NOT_HERE)
        if getpid() != self._pid or get_thread() != main_thread_number():
            text = "llm_query works in a cell's first process and thread; llm_query_batched asks side by side"
            raise SubCallError(text)
        raw = self._encode(prompts, system, max_tokens)
        if self._waits:  # it was interrupted while it waited: what it asked is answered first
            self._stream.wait(self._waits)
        self._number += 1
        self._waits = self._number
        self._stream.call(self._number, raw)
        is_ok, answer = self._stream.wait(self._number)
        self._waits = 0
        self._interrupt.check()
        said, _ = _scan_json(str(answer, "utf-8"), 0)
        if not is_ok:
            raise SubCallError(said["error"])
        return said["results"]

    @staticmethod
    def _encode(prompts: List[str], system: Optional[str], max_tokens: Optional[int]) -> bytes:
        if system is not None and not isinstance(system, str):
            raise TypeError("system is a str or None")
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
            raise ValueError("max_tokens is an int, at least 1, or None")
        if not 1 <= len(prompts) <= PROMPTS_MAX:
            raise ValueError("1 to {} prompts can be asked at once".format(PROMPTS_MAX))
        texts = []
        for prompt in prompts:
            if not isinstance(prompt, str):
                raise TypeError("a prompt is a str")
            text = clean(prompt, len(prompt))
            if not text or len(text.encode()) > PROMPT_MAX:
                raise ValueError("a prompt has 1 to {} bytes".format(PROMPT_MAX))
            texts.append(text)
        head: Dict[str, Any] = {"prompts": texts, "max_tokens": max_tokens}
        head["system"] = None if system is None else clean(system, len(system))
        raw = to_json(head).encode()
        if len(raw) > CALL_MAX:
            raise ValueError("prompts of one call have at most {} bytes".format(CALL_MAX))
        return raw

    def functions(self) -> Tuple[Callable[..., str], Callable[..., List[str]]]:
        query = self.query

        def llm_query(
            prompt: str, *, system: Optional[str] = None, max_tokens: Optional[int] = None
        ) -> str:
            """Ask a model once, without tools. Counts in the run's budgets; RuntimeError if they are used up."""
            (row,) = query([prompt], system, max_tokens)
            if "error" in row:
                raise SubCallError(row["error"])
            return row["response"]  # type: ignore[no-any-return]

        def llm_query_batched(
            prompts: List[str], *, system: Optional[str] = None, max_tokens: Optional[int] = None
        ) -> List[str]:
            """Ask a model each of the prompts, side by side. If one fails: RuntimeError, whose responses has the rest."""
            prompts = list(prompts)
            if not prompts:
                return []
            rows = query(prompts, system, max_tokens)
            failed = [row["error"] for row in rows if "error" in row]
            if failed:
                text = "{} of {} prompts have no answer: {}"
                error = SubCallError(text.format(len(failed), len(rows), failed[0]))
                error.responses = [row.get("response") for row in rows]
                raise error
            return [row["response"] for row in rows]

        return llm_query, llm_query_batched


class Figures:
    """Open matplotlib figures: each becomes a PNG display at plt.show() or the cell's end."""

    PYPLOT = "matplotlib.pyplot"

    def __init__(self, display: Display) -> None:
        self._display = display
        if self.PYPLOT in _modules:
            self._adopt(_modules[self.PYPLOT])
        else:
            sys.meta_path.insert(0, self)  # type: ignore[arg-type]

    def _adopt(self, pyplot: Any) -> None:
        def show(*_args: Any, **_kwargs: Any) -> None:
            """Send the open figures and close them."""
            self.flush()

        pyplot.show = show

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """An import hook: notices pyplot, finds nothing itself."""
        if name != self.PYPLOT:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                run(module)
                self._adopt(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def flush(self) -> None:
        pyplot = _modules.get(self.PYPLOT)
        if pyplot is None:
            return
        numbers = pyplot.get_fignums()
        for number in numbers:
            figure = pyplot.figure(number)
            try:
                self._send(figure)
            except Exception as error:
                sys.stderr.write("a figure cannot be drawn: {!r}\n".format(error))
        if numbers:
            pyplot.close("all")

    def _send(self, figure: Any) -> None:
        png = BytesIO()
        figure.savefig(png, format="png", bbox_inches="tight")
        self._display.show_png(clean(repr(figure)), png.getvalue())

    def show(self, *values: Any) -> None:
        """display(), which knows figures as well."""
        kind = getattr(_modules.get("matplotlib.figure"), "Figure", None)
        for value in values:
            if kind is not None and isinstance(value, kind):
                self._send(value)
                if self.PYPLOT in _modules:
                    _modules[self.PYPLOT].close(value)
            else:
                self._display.show(value)


# --- denials --------------------------------------------------------------------------


class Denial(NamedTuple):
    control: str
    operation: str
    object: str
    rule: str  # the host has words for it, as for the `cause` of an error


# Names people use without the import that everybody writes.
USUAL_NAMES = {
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "plt": "import matplotlib.pyplot as plt",
}

# By errno: control, operation, rule.
OS_ERRORS = {
    errno.ENETUNREACH: ("network", "connect", "no network"),
    errno.EROFS: ("filesystem", "write", "read-only"),
    errno.EDQUOT: ("resources", "write", "disk space"),
    errno.ENOSPC: ("resources", "write", "disk space"),
    errno.EFBIG: ("resources", "write", "file size"),
    errno.EMFILE: ("resources", "open", "open files"),
    errno.ENOMEM: ("resources", "allocate", "memory"),
}


class Denials:
    """What the sandbox seems to have refused, as far as Python notices (unverified)."""

    def __init__(self, stream: Stream, turn: Turn) -> None:
        self._stream = stream
        self._turn = turn
        self._seen: Set[Denial] = set()
        self._forked = False
        self._events: Dict[str, Callable[[Tuple[Any, ...]], None]] = {
            "socket.connect": self._on_connect,
            "socket.getaddrinfo": self._on_resolve,
            "socket.gethostbyname": self._on_resolve,
            "os.fork": self._on_fork,
            "os.forkpty": self._on_fork,
            "os.posix_spawn": self._on_fork,
            "os.system": self._on_fork,
            "subprocess.Popen": self._on_fork,
        }

    def begin(self) -> None:
        self._seen.clear()
        self._forked = False

    def hook(self) -> Callable[[str, Tuple[Any, ...]], None]:
        """For sys.addaudithook(): called for every event, so it decides quickly."""
        find = self._events.get

        def audit(event: str, args: Tuple[Any, ...]) -> None:
            handle = find(event)
            if handle is not None:
                try:
                    handle(args)
                except Exception:
                    pass  # odd arguments: the call itself will complain

        return audit

    def report(self, denial: Denial) -> None:
        if denial not in self._seen and len(self._seen) < DENIALS_MAX:
            self._seen.add(denial)
            self._stream.emit(DENIAL, to_json(denial._asdict()))

    def _report_network(self, operation: str, name: str) -> None:
        name = clean(name, 300)
        self.report(Denial("network", operation, name, "no network"))

    def _on_connect(self, args: Tuple[Any, ...]) -> None:
        address = args[1]
        if type(address) is tuple and not is_local(address[0]):
            name = "{}:{}".format(*address[:2])
            self._report_network("connect", name)

    def _on_resolve(self, args: Tuple[Any, ...]) -> None:
        host = args[0]
        if host is not None and not is_local(host):
            name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
            self._report_network("resolve", name)

    def _on_fork(self, _args: Tuple[Any, ...]) -> None:
        self._forked = True
        self._turn.settle()

    def explain(self, error: BaseException) -> Optional[str]:
        """Report the denial behind an exception that ended a cell; its rule."""
        for cause in chain(error):
            denial = self._classify(cause)
            if denial is not None:
                if denial.control != "network" or not self._has_network():
                    self.report(denial)
                return denial.rule
        return None

    def _has_network(self) -> bool:
        return any([denial.control == "network" for denial in self._seen])

    def _classify(self, error: BaseException) -> Optional[Denial]:
        if isinstance(error, MemoryError):
            return Denial("resources", "allocate", "", "memory")
        if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
            return Denial("resources", "thread", "", "processes")
        if not isinstance(error, OSError):
            return None
        if type(error).__name__ == "gaierror":
            return Denial("network", "resolve", "", "no network")
        return self._classify_errno(error)

    def _classify_errno(self, error: OSError) -> Optional[Denial]:
        number = error.errno
        path = error.filename
        name = clean(fsdecode(path), 300) if isinstance(path, (str, bytes)) else ""
        if number in (errno.EPERM, errno.EACCES):
            if name:
                return Denial("filesystem", "access", name, "no permission")
            text = clean(str(error), 300)
            return Denial("syscalls", "call", text, "not permitted")
        if number == errno.EAGAIN:
            if self._forked and not name:
                return Denial("resources", "fork", "", "processes")
            return None
        row = OS_ERRORS.get(number)  # type: ignore[arg-type]
        return row and Denial(row[0], row[1], name, row[2])


def is_local(host: Any) -> bool:
    """Whether a host name stays inside: loopback, or any own address."""
    if isinstance(host, (bytes, bytearray)):
        host = host.decode("ascii", "replace")
    host = host.lower()
    return host.startswith("127.") or host in ("localhost", "::1", "", "0.0.0.0", "::")


def chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and what led to it, nearest first."""
    now: Optional[BaseException] = error
    for _ in range(CHAIN_MAX):
        if now is None:
            return
        yield now
        reason = getattr(now, "reason", None)  # urllib's URLError wraps without chaining
        if isinstance(reason, BaseException) and now.__cause__ is None:
            now = reason
        else:
            now = now.__cause__ or now.__context__


# --- errors ---------------------------------------------------------------------------


class Errors:
    """Describes exceptions as users should see them: their frames, their lines."""

    HEADER = "Traceback (most recent call last):\n"

    def __init__(self, denials: Denials) -> None:
        self._denials = denials
        self.first_cell = 0  # number of the first cell of this interpreter

    def describe(self, error: BaseException, cell: int) -> Dict[str, Any]:
        """The `error` member of DONE. Runs user code (__str__)."""
        return {
            "type": clean(_type_name(type(error)), 300),
            "message": clean(safe_text(error)),
            "traceback": clean_middle(self.format(error)),
            "line": error_line(error, cell),
            "hint": self._hint(error, cell),
            "cause": self._cause(error),
            "module": missing_module(error),
            "path": missing_file(error),
        }

    def format(self, error: BaseException) -> str:
        report = _TracebackException(type(error), error, error.__traceback__)
        pending, seen = [report], set()
        while pending:
            one = pending.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            one.stack[:] = user_frames(one.stack)
            links = [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or [])]
            pending.extend([link for link in links if link is not None])
        text = "".join(report.format())
        if not report.stack and text.startswith(self.HEADER):
            text = text[len(self.HEADER) :]
        return text

    def _hint(self, error: BaseException, cell: int) -> Optional[str]:
        """Of what only the interpreter knows; for a cause the host has words."""
        if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
            return self._hint_name(str(getattr(error, "name", None) or ""), cell)
        return None

    def _cause(self, error: BaseException) -> Optional[str]:
        if missing_module(error) is not None:
            return "no such module"
        if _notebook is not None and isinstance(error, _notebook.UsageError):
            return "notebook"
        if isinstance(error, EOFError) and safe_text(error) == "EOF when reading a line":
            return "no input"
        if isinstance(error, FileNotFoundError):
            return "no such program" if is_of_start(error) else "no such file"
        return self._denials.explain(error)

    def _hint_name(self, name: str, cell: int) -> Optional[str]:
        usual = USUAL_NAMES.get(name)
        if usual is None and name in _modules:  # loaded in the template, not yet imported here
            usual = "import " + name
        if usual is not None:
            return "{} is a module: {}".format(name, usual)
        if self.first_cell > 1:
            return (
                "no variable of a cell before cell {} is here: the interpreter was restarted, or "
                "what they did was undone".format(self.first_cell)
            )
        if cell == 1:
            return (
                "this is the first cell of its session: variables are kept only between cells "
                "of the same session"
            )
        return None


def cell_name(number: int) -> str:
    return "<cell {}>".format(number)


def missing_module(error: BaseException) -> Optional[str]:
    """The package that an import did not find."""
    if type(error) is ImportError and error.name is None:  # pandas: "Missing optional dependency"
        error = error.__cause__ or error.__context__ or error
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    return clean(name.partition(".")[0], 100) if type(name) is str else None


def missing_file(error: BaseException) -> Optional[str]:
    """The path that led nowhere, as the code gave it."""
    path = error.filename if isinstance(error, FileNotFoundError) else None
    if isinstance(path, (str, bytes)):
        return clean(fsdecode(path), 300)
    return None


def is_of_start(error: BaseException) -> bool:
    """Whether it was raised because a program was to be started."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and step.tb_frame.f_code.co_name in ("_execute_child", "execvp", "_execvpe")


def error_line(error: BaseException, cell: int) -> Optional[int]:
    """The line of this cell where it happened: the innermost one."""
    name = cell_name(cell)
    if isinstance(error, SyntaxError) and error.filename == name:
        return error.lineno if type(error.lineno) is int else None
    line = None
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == name:
            line = step.tb_lineno
        step = step.tb_next
    return line


def user_frames(stack: Any) -> List[Any]:
    """Without our frames, and without what lies between them and the cell."""
    frames = list(stack)
    if frames and frames[0].filename == _FILE:
        starts = [i for i, frame in enumerate(frames) if frame.filename.startswith("<cell ")]
        frames = frames[starts[0] :] if starts else frames
    return [frame for frame in frames if frame.filename not in (_FILE, getattr(_notebook, "__file__", _FILE))]


def safe_text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "<the exception's text cannot be made>"


# --- session --------------------------------------------------------------------------


class Quitter:
    """exit and quit: end the cell."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return "{}() ends the cell; the session goes on".format(self._name)

    def __call__(self, code: Any = None) -> None:
        raise SystemExit(code)


class OpenFile(NamedTuple):
    """A regular file the session has open."""

    fd: int
    place: int  # where it is read or written
    path: Optional[str]  # None: it cannot be opened again, so the copy keeps it open
    flags: int
    inherited: bool  # by programs that are executed


class OpenFiles:
    """What the session has open, but for what is ours.

    A copy shares what it keeps open: a pipe has no end and a deleted file keeps its room
    while the copy has it. So files are closed in the copy, and opened again when it wakes.
    """

    SHOWN = 5
    WITHOUT_PROC = 1024
    DELETED_MAX = 1 << 20  # bytes of deleted files a copy may keep open
    PATH_ONLY = getattr(os, "O_PATH", 0)

    def __init__(self, ours: Set[int]) -> None:
        self.shared: List[str] = []  # names of what only one process may have
        self.written: List[str] = []  # names of files open for writing that stay shared
        self._files: List[OpenFile] = []
        self._deleted = 0
        for fd in self._numbers():
            if fd not in ours:
                try:
                    self._look(fd)
                except OSError:
                    pass  # not open: our own listing, or no /proc

    def _numbers(self) -> Any:
        try:
            return [int(name) for name in listdir("/proc/self/fd")]
        except OSError:
            return range(self.WITHOUT_PROC)

    def _look(self, fd: int) -> None:
        status = fstat(fd)
        mode = status.st_mode
        if S_ISREG(mode):
            path = self._path(fd) if status.st_nlink else None
            flags = fcntl(fd, F_GETFL)
            inherited = not fcntl(fd, F_GETFD) & FD_CLOEXEC
            self._files.append(OpenFile(fd, lseek(fd, 0, SEEK_CUR), path, flags, inherited))
            if path is None and flags & O_ACCMODE != O_RDONLY:
                self._add(self.written, fd)
            if not status.st_nlink:
                self._deleted += status.st_blocks * 512
                if self._deleted > self.DELETED_MAX:
                    self._add(self.shared, fd)
        elif not (S_ISDIR(mode) or S_ISCHR(mode) or S_ISBLK(mode)):
            self._add(self.shared, fd)

    @staticmethod
    def _path(fd: int) -> Optional[str]:
        try:
            path = readlink("/proc/self/fd/{}".format(fd))
            again, now = stat(path), fstat(fd)
        except OSError:
            return None
        return path if (again.st_dev, again.st_ino) == (now.st_dev, now.st_ino) else None

    def _add(self, names: List[str], fd: int) -> None:
        if len(names) < self.SHOWN:
            try:
                names.append(clean(readlink("/proc/self/fd/{}".format(fd)), 200))
            except OSError:
                names.append("descriptor {}".format(fd))

    def to_close(self) -> List[int]:
        """Descriptors that are to be closed in the copy."""
        return [file.fd for file in self._files if file.path is not None]

    def restore(self) -> None:
        """In a copy that was woken, when the others are gone."""
        for file in self._files:
            try:
                if file.path is not None:
                    self._open(file)
                lseek(file.fd, file.place, SEEK_SET)
            except OSError:
                pass

    def _open(self, file: OpenFile) -> None:
        assert file.path is not None
        try:
            fd = open_fd(file.path, file.flags)
        except OSError:  # gone: what is there in its place says so when it is used
            fd = open_fd("/", self.PATH_ONLY)
        if fd != file.fd:
            dup2(fd, file.fd, file.inherited)
            close(fd)


class Outcome(NamedTuple):
    """How a cell failed or exited."""

    status: str
    error: Optional[Dict[str, Any]]
    exit_code: Optional[int]


# Touches what every first cell touches, and leaves nothing behind.
WARMING = b"""
def f(a, b=2):
    return [a, {b: a}]
x = f'{f(1)}'
del f, x
"""


class Session:
    """One interpreter: a namespace, and the loop that runs cells in it."""

    COMPILE = PyCF_ALLOW_TOP_LEVEL_AWAIT
    FUTURE = __future__.annotations.compiler_flag | __future__.barry_as_FLUFL.compiler_flag
    COROUTINE = 0x80  # inspect.CO_COROUTINE
    NOT_FORMATTED = "<the traceback cannot be made>"

    def __init__(self, fd: int, template: str, snp: Any = None) -> None:
        self._template = template
        self._pid = getpid()
        self._branch: Optional[Callable[[int, int, List[int]], int]] = getattr(
            snp, "branch", None
        )
        self._warm: Callable[[], None] = getattr(snp, "warm", bool)
        self._interrupt = Interrupt()
        self._interrupt.shielded.add(Session._guarded.__code__)
        self._stream = Stream(fd, self._interrupt, snp.receive if snp is not None else receiver(fd))
        self._stdio = Stdio()
        self._display = Display(self._stream, self._stdio)
        self._figures = Figures(self._display)
        self._calls = Calls(self._stream, self._interrupt)
        self._denials = Denials(self._stream, self._stdio.turn)
        self._errors = Errors(self._denials)
        self._flags = self.COMPILE
        self._loop: Any = None
        self._is_watching = False
        self._reserve: Optional[bytes] = bytes(RESERVE)
        self._cwd: Optional[str] = None
        self._has_argv = False  # the last cell was given arguments
        self._driver = _modules.get("__main__")  # kept alive: it is us
        self._baseline: Any = None  # what the interpreter was before the first cell
        self._loader: Any = None  # variables that were read, to be restored
        self._digest = getattr(snp, "digest", None)
        self._main = types.ModuleType("__main__")
        self._names = vars(self._main)
        self._notebook_end: Optional[Callable[[], None]] = None

    def install(self) -> None:
        """Give this process to the cells."""
        _modules["__main__"] = self._main
        sys.argv = [""]
        sys.path.insert(0, "")
        builtins.display = self._display_function()  # type: ignore[attr-defined]
        query, batched = self._calls.functions()
        builtins.llm_query = query  # type: ignore[attr-defined]
        builtins.llm_query_batched = batched  # type: ignore[attr-defined]
        builtins.exit = Quitter("exit")  # type: ignore[assignment]
        builtins.quit = Quitter("quit")  # type: ignore[assignment]
        if _notebook is not None:
            self._notebook_end = _notebook.install(self._names)
        self._interrupt.install()

    def watch(self) -> None:
        """From now on there is code of others, which may fork and be refused things."""
        if self._is_watching:
            return
        self._is_watching = True
        os.register_at_fork(after_in_child=self._after_fork)
        sys.addaudithook(self._denials.hook())

    def _display_function(self) -> Callable[..., None]:
        figures = self._figures

        def display(*values: Any) -> None:
            """Show values as rich output of the cell: text, HTML, images."""
            figures.show(*values)

        return display

    def _after_fork(self) -> None:
        self._stream.forget()
        self._stdio.forget()

    def announce(self) -> None:
        """Say that cells may come."""
        python = ".".join([str(part) for part in sys.version_info[:3]])
        self._stream.ready({"python": python, "template": self._template})

    def start(self, seed_fd: int) -> None:
        """Wait until this becomes somebody's session. seed_fd: for a copy of before; -1 = none is wanted."""
        has_seed = False
        while True:
            try:
                order = self._stream.receive()
            except BaseException:
                _exit(EXIT_STREAM)
            if order is None:
                _exit(EXIT_GONE)
            if type(order) is not Order:
                _exit(EXIT_STREAM)
            if order.kind == START:
                break
            if order.kind == WARM:
                replace_environment([b"HOME=/tmp/.home", b"PATH=/usr/bin:/bin"])
                self.watch()
                if _state is not None:
                    _state.Baseline()  # looked at again in serve(), then without page faults
                self._serve_cell(Cell(0, 0, WARMING, None, None, None))
                _sources.pop(cell_name(0), None)
                continue
            if order.kind != SEED or has_seed:
                _exit(EXIT_STREAM)
            has_seed = True
            if seed_fd >= 0 and self._leave_branch(seed_fd, []):
                self._guarded(renew_randomness)
        if not has_seed and seed_fd >= 0:
            close(seed_fd)
        replace_environment(order.raw.split(b"\0")[:-1])

    def serve(self) -> None:
        """Never returns."""
        os.environ.setdefault("MPLBACKEND", "Agg")
        if _state is not None:
            self._baseline = _state.Baseline()
        while True:
            try:
                order = self._stream.receive()
            except MemoryError:
                if self._reserve is None:
                    _exit(EXIT_STREAM)
                self._reserve = None
                continue
            except BaseException:  # out of step, or the descriptor is gone
                _exit(EXIT_STREAM)
            if order is None:
                _exit(EXIT_GONE)
            if type(order) is Cell:
                try:
                    self._serve_cell(order)
                except BaseException as error:  # the cell has broken something of ours
                    self._give_up(error)
            elif order.kind == HOLD:
                self._hold(order)
            elif order.kind == SAVE:
                self._save(order)
            elif order.kind == LOAD:
                self._load(order)
            elif order.kind == ANSWER:
                pass  # to a cell that has ended without waiting for it
            else:
                _exit(EXIT_STREAM)

    def _give_up(self, error: BaseException) -> None:
        self._reserve = None
        self._stream.finish(self._done(None, None, self._unknown(error)))

    # Branches ---------------------------------------------------------------------

    def _leave_branch(self, socket_fd: int, closing: List[int]) -> bool:
        """Leave a copy asleep on the socket. True in what comes of it, which has a new stream, and
        still draws the same random numbers."""
        assert self._branch is not None
        fd = self._branch(socket_fd, self._stream.fd, closing)
        if fd < 0:
            return False
        self._pid = getpid()
        self._stream.adopt(fd)
        self._guarded(renew_thread)  # user code may have replaced what they use
        self.announce()
        return True

    def _hold(self, order: Order) -> None:
        """Between cells: leave a copy that can go on from here."""
        try:
            why, kept = self._look_round(order.fd)
            if why:
                close_quietly(order.fd)
            elif self._leave_branch(order.fd, kept.to_close()):
                kept.restore()
                is_saver, _ = self._guarded(self._stream.has_next, SAVE)
                if not is_saver:  # which draws no numbers of its own, and ends
                    self._guarded(renew_randomness)
                return
        except BaseException as error:
            close_quietly(order.fd)
            why, kept = clean(repr(error), 200), None
        head = {"ok": not why, "why": why, "written": kept.written if kept else []}
        self._stream.answer(HELD, order, head)
        if not why:
            self._warm()  # before the next cell comes; if it does meanwhile, it waits for little

    def _look_round(self, socket_fd: int) -> Tuple[str, Any]:
        """Why no copy can be made now, and the open files as they are."""
        if self._branch is None:
            return "this interpreter was not forked from a template, so it cannot leave a copy", None
        if socket_fd < 0:
            return "no descriptor is left", None
        self._end_idle_threads()
        threads = other_threads()
        if threads:
            return clean("threads: " + ", ".join(threads), 200), None
        ours = {socket_fd, self._stream.fd, 0, 1, 2, *self._stdio.spare, *self._inner()}
        files = OpenFiles(ours)
        if files.shared:
            return clean("pipes, sockets or deleted files are open: " + ", ".join(files.shared), 200), None
        return "", files

    def _end_idle_threads(self) -> None:
        """What asyncio.to_thread leaves: threads that wait for the next call, which makes others."""
        executor = getattr(self._loop, "_default_executor", None)
        idle = getattr(executor, "_idle_semaphore", None)
        if idle is None or not executor._work_queue.empty() or idle._value < len(executor._threads):
            return
        self._loop._default_executor = None
        executor.shutdown(wait=False)
        for thread in list(executor._threads):
            thread.join(JOIN_S)

    def _inner(self) -> Iterator[int]:
        """Descriptors that go on working in a copy although they are shared with it."""
        if self._loop is not None and not self._loop.is_closed():
            for name in ("_selector", "_ssock", "_csock"):
                end = getattr(self._loop, name, None)
                if end is not None:
                    yield end.fileno()
        tracker = getattr(_modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
        fd = getattr(tracker, "_fd", None)
        if type(fd) is int:
            yield fd

    # Variables --------------------------------------------------------------------

    def _save(self, order: Order) -> None:
        """Between cells: write the variables to the pipe that was passed."""
        members, error = self._guarded(order.members)
        if error is not None:
            _exit(EXIT_STREAM)
        if members.get("final"):
            text = self._save_here(order, members, [], {})
            self._stream.answer(SAVED, order, {"ok": not text, "error": text})
            _exit(EXIT_GONE)
        text, error = self._guarded(self._save_aside, order, members)
        close_quietly(order.fd)
        if error is not None:
            text = clean(repr(_type_name(type(error))), 200)
        self._stream.answer(SAVED, order, {"ok": not text, "error": text})

    def _save_here(
        self,
        order: Order,
        members: Dict[str, Any],
        threads: List[Any],
        before: Dict[str, Any],
        also: Tuple[int, ...] = (),
    ) -> str:
        """In a process that does nothing else from now on; what went wrong. before: what a child
        would not have as it was."""
        if _state is None:
            return _state_error
        mute()
        first_to_go()
        settings = {
            "baseline": self._baseline,
            "base": self._cwd,
            "flags": self._flags & self.FUTURE,
            "first_cell": self._errors.first_cell,
            "before_fork": before,
            "ours": {order.fd, self._stream.fd, *self._stdio.spare, *self._inner(), *also},
        }
        how = {
            "describe": bool(members.get("describe")),
            "budget_s": members.get("budget_ms", 10000) / 1000,
            "digest": self._digest,
            "threads": threads,
            "processes": members.get("processes", 0),
            "settings": settings,
        }
        own = main.__globals__  # type: ignore[attr-defined]
        _, error = self._guarded(_state.save, order.fd, self._names, own, order.raw, how)
        close_quietly(order.fd)
        return "" if error is None else _state.reason_of(error)

    def _save_aside(self, order: Order, members: Dict[str, Any]) -> str:
        """As it cannot be done in a copy left earlier, in a child; threads are not in it."""
        deadline = monotonic() + members.get("budget_ms", 10000) / 1000
        threads = _state.threads() if _state is not None else []
        before = _state.before_fork() if _state is not None else {}
        said, say = os.pipe()
        try:
            with warnings.catch_warnings():  # that a copy has one thread is just what is wanted
                warnings.simplefilter("ignore")
                pid = os.fork()
            if pid == 0:
                text = self._save_here(order, members, threads, before, (said, say))
                os.write(say, (text or "ok").encode())
                _exit(0)
        finally:
            close(say)
        try:
            left = deadline - monotonic()
            if left <= 0 or not select.select([said], [], [], left)[0]:
                return "it took too long"
            text = read(said, 4096).decode("utf-8", "replace")
            return "" if text == "ok" else text or "the process that was to do it has ended"
        finally:
            close(said)
            end_child(pid)

    def _load(self, order: Order) -> None:
        """Before the first cell: take variables in; with the second order restore them."""
        failed: List[Any] = []
        members, error = self._guarded(order.members)
        if error is None and _state is None:
            text = _state_error
        elif error is None and members.get("step") == "read":
            self._loader = _state.Loader(self._names, members.get("room"))
            _, error = self._guarded(self._loader.read, order.fd)
            text = "" if error is None else _state.reason_of(error)
        elif error is None and self._loader is not None:
            text = self._restore(members)
            failed = self._loader.failed
            self._loader = None
        else:
            _exit(EXIT_STREAM)
        close_quietly(order.fd)
        self._stream.answer(LOADED, order, {"ok": not text, "error": text, "failed": failed})

    def _restore(self, members: Dict[str, Any]) -> str:
        loader, cwd = self._loader, members.get("cwd")
        mute()  # until the first cell begins
        self._names["__builtins__"] = builtins
        if cwd is not None:
            _, error = self._guarded(chdir, cwd)
            if error is not None:
                return _state.reason_of(error)
            self._cwd = cwd
        budget_s = members.get("budget_ms", 10000) / 1000
        _, error = self._guarded(loader.restore, self._baseline, cwd, budget_s)
        if error is not None:
            return _state.reason_of(error)
        self._flags |= loader.settings.get("flags", 0) & self.FUTURE
        self._errors.first_cell = loader.settings.get("first_cell", 0)
        return ""

    # One cell ---------------------------------------------------------------------

    def _serve_cell(self, cell: Cell) -> None:
        self._interrupt.pending = False
        self._begin(cell)
        texts, error = self._guarded(self._run, cell)
        self._interrupt.pending = False
        if getrecursionlimit() < RECURSION_MIN:
            setrecursionlimit(RECURSION_MIN)
        if getpid() != self._pid:
            self._leave_child(error)
        outcome = None
        value, result = texts or (None, None)
        if error is not None:
            outcome = self._describe(error, cell)
            result, _ = self._guarded(self._result_text)
        elif self._reserve is None:
            self._reserve, _ = self._guarded(bytes, RESERVE)
        if Figures.PYPLOT in _modules:
            self._guarded(self._figures.flush)
        self._guarded(self._stdio.flush)
        self._interrupt.install()
        self._stream.finish(self._done(value, result, outcome))

    def _begin(self, cell: Cell) -> None:
        if not self._errors.first_cell:
            self._errors.first_cell = cell.number
        _modules["__main__"] = self._main
        self._names["__builtins__"] = builtins
        self._names["result"] = None
        if cell.argv is not None or self._has_argv:
            sys.argv = cell.argv or [""]
            self._has_argv = cell.argv is not None
        self._stdio.begin(cell.stdin)
        self._display.begin()
        self._denials.begin()
        self._calls.begin(cell.has_calls)

    def _guarded(self, function: Callable[..., Any], *args: Any) -> Tuple[Any, Any]:
        """Enter user code: (what function returned, None) or (None, what it raised)."""
        self._interrupt.armed = True
        value = failure = None
        try:
            value = function(*args)
        except BaseException as error:  # whatever it is, the session goes on
            failure = error
        self._interrupt.armed = False
        if failure is not None and failure.__traceback__ is not None:
            # Without this frame the exception does not keep itself alive.
            failure.__traceback__ = failure.__traceback__.tb_next
        return value, failure

    def _run(self, cell: Cell) -> Tuple[Optional[str], Optional[str]]:
        """Run a cell; the texts of its value and of its variable `result`."""
        self._interrupt.check()
        self._stdio.heal()
        if cell.cwd is not None and cell.cwd != self._cwd:
            chdir(cell.cwd)
            self._cwd = cell.cwd
        _importers.pop(self._cwd, None)  # files may have come within the clock's grain
        try:
            value = self._execute(str(cell.code, "utf-8"), cell.number)
        finally:
            if self._notebook_end is not None:
                self._notebook_end()
        if value is None:
            return None, self._result_text()
        builtins._ = value  # type: ignore[attr-defined]
        text = clean(repr(value))
        self._display.show_value(value, text)
        if self._names.get("result") is value:
            return text, text
        return text, self._result_text()

    def _result_text(self) -> Optional[str]:
        result = self._names.get("result")
        return None if result is None else clean(repr(result))

    def _execute(self, source: str, number: int) -> Any:
        """Run all statements; the value of the last if it is an expression, else None."""
        name = cell_name(number)
        lines = StringIO(source, newline=None).readlines()
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"  # traceback counts columns from the end of the line
        _sources[name] = (len(source), None, lines, name)
        _sources.pop(cell_name(number - SOURCES_KEPT), None)
        try:
            tree = compile(source, name, "exec", self._flags | PyCF_ONLY_AST, True)
        except SyntaxError as error:
            if _notebook is None:
                raise
            lines = _notebook.rewrite(lines, error, self._parser(name))
            source = "".join(lines)
            tree = self._parser(name)(source)
        last = None
        if tree.body and type(tree.body[-1]) is Expr and not is_silenced(source, lines, tree):
            last = Expression(tree.body.pop().value)
        if tree.body:
            code = compile(tree, name, "exec", self._flags, True)
            self._flags |= code.co_flags & self.FUTURE
            self._evaluate(code)
        if last is None:
            return None
        return self._evaluate(compile(last, name, "eval", self._flags, True))

    def _parser(self, name: str) -> Callable[[str], Any]:
        flags = self._flags | PyCF_ONLY_AST
        return lambda source: compile(source, name, "exec", flags, True)

    def _evaluate(self, code: types.CodeType) -> Any:
        value = eval(code, self._names)
        if code.co_flags & self.COROUTINE:
            value = self._await(value)
        return value

    def _await(self, coroutine: Any) -> Any:
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        loop = self._loop
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        finally:
            if not task.done():  # interrupted: let it clean up once
                task.cancel()
                loop.call_soon(loop.stop)
                loop.run_forever()
            elif not task.cancelled():
                task.exception()  # seen

    # The answer -------------------------------------------------------------------

    def _describe(self, error: BaseException, cell: Cell) -> Outcome:
        if isinstance(error, MemoryError):
            self._reserve = None
        outcome, again = self._guarded(self._outcome, error, cell)
        if again is None:
            return outcome
        return self._unknown(error)

    def _unknown(self, error: BaseException) -> Outcome:
        """For an exception that cannot be described."""
        fail = {
            "type": clean(_type_name(type(error)), 300),
            "message": "",
            "traceback": self.NOT_FORMATTED,
            "line": None,
            "hint": None,
            "cause": None,
        }
        return Outcome("error", fail, None)

    def _outcome(self, error: BaseException, cell: Cell) -> Outcome:
        if not isinstance(error, SystemExit):
            return Outcome("error", self._errors.describe(error, cell.number), None)
        code = exit_code(error)
        if code == 0:
            return Outcome("ok", None, 0)
        fail = {
            "type": "SystemExit",
            "message": clean(safe_text(error)),
            "traceback": clean("SystemExit: {}\n".format(safe_text(error))),
            "line": error_line(error, cell.number),
            "hint": None,
            "cause": None,
        }
        return Outcome("error", fail, code)

    @staticmethod
    def _done(value: Optional[str], result: Optional[str], outcome: Optional[Outcome]) -> str:
        status, error, code = outcome or ("ok", None, None)
        return '{{"status":"{}","value":{},"result":{},"error":{},"exit_code":{}}}'.format(
            status, to_json(value), to_json(result), to_json(error), to_json(code)
        )

    def _leave_child(self, error: Optional[BaseException]) -> None:
        """A process the cell forked has come out of the cell: it ends here."""
        code = 0
        if isinstance(error, SystemExit):
            code, _ = self._guarded(exit_code, error)
        elif error is not None:
            code = 1
            text, _ = self._guarded(self._errors.format, error)
            self._guarded(lambda: sys.stderr.write(text or self.NOT_FORMATTED + "\n"))
        self._guarded(self._stdio.flush)
        _exit(1 if code is None else code & 0xFF)


def mute() -> None:
    """Nothing printed from here on belongs to a cell."""
    fd = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for number in range(3):
        dup2(fd, number)
    if fd > 2:
        close(fd)


def first_to_go() -> None:
    """Under memory pressure this process goes, not the session."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, b"1000")
        close(fd)
    except OSError:
        pass


def end_child(pid: int) -> None:
    """Ours may have been waited for by code of the session; then the number is not used."""
    try:
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    except OSError:
        pass


def is_silenced(source: str, lines: List[str], tree: Module) -> bool:
    """Whether the last statement ends in a semicolon."""
    if ";" not in source:
        return False
    last = tree.body[-1]
    rest = "".join(lines[last.end_lineno - 1 :]).encode("utf-8")  # type: ignore[operator]
    return rest[last.end_col_offset :].lstrip(b") \t\n\\").startswith(b";")


def exit_code(error: SystemExit) -> int:
    """What a process would exit with; prints a message as Python does."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        code = int(code)
        return code if -(1 << 31) <= code < 1 << 31 else 255
    sys.stderr.write("{}\n".format(code))
    return 1


# --- templates ------------------------------------------------------------------------


class PreloadError(Exception):
    """A template cannot be made; the text names the module."""


BASE = """
    json re math collections itertools functools datetime random statistics csv io os sys
    asyncio dataclasses typing decimal fractions hashlib subprocess threading traceback ast
    inspect pathlib tempfile sqlite3 unittest string textwrap copy operator heapq bisect time
    uuid base64 enum contextlib abc types struct glob shutil argparse logging pickle queue
    socket ssl secrets urllib.parse zlib gzip zipfile html xml.etree.ElementTree
    concurrent.futures concurrent.futures.thread concurrent.futures.process multiprocessing
    multiprocessing.connection multiprocessing.context multiprocessing.pool
    multiprocessing.popen_fork multiprocessing.queues multiprocessing.reduction
    multiprocessing.synchronize multiprocessing.util linecache tokenize codecs pprint calendar
    locale signal platform encodings.ascii encodings.latin_1 encodings.utf_8 encodings.utf_16
    encodings.cp1252 encodings.idna encodings.unicode_escape _strptime
""".split()

# Nice to have ready; not in every version or build of Python.
BASE_EXTRA = """
    array cmath configparser difflib doctest email.message fnmatch getpass graphlib hmac
    html.parser http.client importlib.metadata importlib.resources importlib.util ipaddress
    keyword lzma bz2 mimetypes multiprocessing.heap multiprocessing.managers
    multiprocessing.resource_tracker multiprocessing.shared_memory multiprocessing.sharedctypes
    numbers selectors shlex stat tarfile timeit tomllib unittest.mock urllib.request warnings
    weakref xml.dom.minidom xml.etree.cElementTree zoneinfo encodings.cp437 encodings.utf_8_sig
    encodings.utf_32 encodings.raw_unicode_escape encodings.hex_codec encodings.base64_codec
""".split()

ONE_THREAD = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def load(names: List[str]) -> None:
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise PreloadError("cannot load {}: {}".format(name, error)) from error
        check_threads("module {} leaves".format(name))


def load_if_there(names: List[str]) -> None:
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            pass


def load_base() -> None:
    load(BASE)
    load_if_there(BASE_EXTRA)
    use_fork()


def use_one_thread() -> None:
    """Libraries of arithmetic start no threads of their own while they are loaded."""
    for name in ONE_THREAD:
        os.environ[name] = "1"


def load_added(site: str, names: List[str]) -> None:
    """A template that was added: any interpreter, so none of our own modules must be there."""
    use_one_thread()
    load_if_there(BASE + BASE_EXTRA)
    use_fork()
    if names:
        activate(site)
        load(names)


def activate(site_path: str) -> None:
    """Take up a virtual environment as an interpreter does that was started from it.

    Code of its packages runs here (.pth files, sitecustomize).
    """
    import site

    sys.executable = os.path.join(site_path, "bin", "python")
    sys.prefix = sys.exec_prefix = site_path
    _modules.pop("sysconfig", None)  # it has read the prefix
    site.main()


def use_fork() -> None:
    """Processes by fork, as before 3.14: functions of a cell exist only in this process."""
    import multiprocessing
    import multiprocessing.context as context

    default = context._default_context  # type: ignore[attr-defined]
    if hasattr(default, "_default_context"):
        default._default_context = multiprocessing.get_context("fork")


def load_data() -> None:
    use_one_thread()
    load_base()
    load(["numpy", "pandas"])
    import pandas

    frame = pandas.read_csv(StringIO("when,kind,x\n2020-01-01,a,1\n2020-01-02,b,2.5\n"))
    frame["when"] = pandas.to_datetime(frame["when"])
    summary = frame.groupby("kind").agg({"x": ["mean", "sum"]})
    warm = (repr(frame), frame._repr_html_(), repr(summary), repr(frame.describe()))
    frame.merge(frame, on="kind").sort_values("x_x").to_csv(StringIO())
    del warm


def load_plot() -> None:
    os.environ["MPLBACKEND"] = "Agg"
    load_data()
    load(["matplotlib"])
    import matplotlib

    matplotlib.use("Agg")
    load(["matplotlib.pyplot"])
    import matplotlib.pyplot as pyplot

    figure, axes = pyplot.subplots()
    axes.plot([1, 2, 3], label="x")
    axes.set_title("$x$")
    axes.legend()
    figure.savefig(BytesIO(), format="png", bbox_inches="tight")
    pyplot.close("all")
    # Its fonts read from files they keep open; those do not survive into a sandbox.
    from matplotlib import font_manager, mathtext

    for cached in (
        getattr(font_manager, "_get_font", None),
        getattr(mathtext.MathTextParser, "_parse_cached", None),
    ):
        clear = getattr(cached, "cache_clear", None)
        if clear is not None:
            clear()


# Standard streams, control socket, filter.
LAST_GIVEN_FD = 4

TEMPLATES = {"base": load_base, "data": load_data, "plot": load_plot}


def check_threads(what: str) -> None:
    """A process with threads cannot be forked safely."""
    threads = [thread.name for thread in threading.enumerate()]
    if len(threads) > 1:
        names = ", ".join(threads[1:])
        raise PreloadError("{} threads running: {}".format(what, names))
    tasks = task_names()
    if len(tasks) > 1:
        names = ", ".join(tasks[1:])
        raise PreloadError("{} threads running outside Python: {}".format(what, names))


def preload(template: str, site: Optional[str], names: List[str]) -> None:
    """Load a template's modules and leave a process that can be forked."""
    load_state()
    try:
        if site is None:
            TEMPLATES[template]()
        else:
            load_added(site, names)
    except PreloadError:
        raise
    except Exception as error:
        raise PreloadError("template {}: {!r}".format(template, error)) from error
    check_threads("template {} has".format(template))
    if _state is not None:
        _state.note_modules(_modules)
    if "ssl" in _modules:
        # Its generator is built when first used. Built here it is shared, not made by every
        # fork; OpenSSL seeds it anew in each, and renew_randomness adds to it.
        _modules["ssl"].RAND_bytes(1)
    gc.collect()
    files = open_files()
    if files:
        text = "template {} keeps files open, which sandboxes would miss: {}"
        raise PreloadError(text.format(template, ", ".join(files)))
    gc.freeze()


def open_files() -> List[str]:
    """Regular files this process has open, but for what it was given; empty without /proc."""
    names = []
    try:
        for number in os.listdir("/proc/self/fd"):
            if int(number) > LAST_GIVEN_FD:
                try:
                    name = os.readlink("/proc/self/fd/" + number)
                except OSError:
                    continue  # the listing itself
                if name.startswith("/") and not name.startswith(("/proc", "/dev", "/memfd:")):
                    names.append(name)
    except OSError:
        pass
    return names


def task_names() -> List[str]:
    """The kernel's names of our threads; empty when there is no /proc."""
    try:
        names = []
        for task in os.listdir("/proc/self/task"):
            with open("/proc/self/task/{}/comm".format(task)) as comm:
                names.append(comm.read().strip())
        return names
    except OSError:
        return []


def other_threads() -> List[str]:
    """Names of the threads besides ours: Python's, else the kernel's."""
    names = [thread.name for thread in threading.enumerate()][1:]
    tasks: List[str] = []
    for pause in (0.001, 0.005, 0.02, 0.05):  # one that has just ended is there for a moment
        tasks = names or task_names()[1:]
        if names or not tasks:
            break
        sleep(pause)
    return tasks


def renew_thread() -> None:
    """After a fork that no handler has seen: the kernel's number of our thread."""
    renew = getattr(threading.main_thread(), "_set_native_id", None)
    if renew is not None:
        renew()


def renew_randomness() -> None:
    """Two forks of one template must not draw the same numbers."""
    if "random" in _modules:
        _modules["random"].seed()
    if "numpy.random" in _modules:
        _modules["numpy.random"].seed(list(struct.unpack("<16I", _urandom(64))))
    if "ssl" in _modules:
        _modules["ssl"].RAND_add(_urandom(32), 32.0)
    if "tempfile" in _modules:
        _modules["tempfile"]._name_sequence = None
    if "multiprocessing.process" in _modules:
        _modules["multiprocessing.process"].current_process().authkey = _urandom(32)


def replace_environment(items: List[bytes]) -> None:
    for name in list(os.environ):
        del os.environ[name]
    for item in items:
        name, _, value = item.partition(b"=")
        os.environb[name] = value
    if "TZ" in os.environ:
        _modules["time"].tzset()


OWN = ("_snp", "notebook", "state", "state_ambient", "state_odd", "state_stream", "state_texts", "state_views")


def load_own(name: str) -> Any:
    """A module that lies beside us; the code inside does not get to see it."""
    here = os.path.dirname(os.path.abspath(_FILE))
    hidden = {own: _modules.pop(own) for own in OWN if own in _modules}
    sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(here)
        _importers.pop(here, None)
        for own in OWN:
            _modules.pop(own, None)
        _modules.update(hidden)


def load_zygote() -> Any:
    try:
        return load_own("_snp")
    except ImportError as error:
        raise PreloadError("cannot load _snp: {}".format(error)) from error


def load_zygote_if_there() -> Any:
    """Where nothing is forked it only lets descriptors be passed."""
    try:
        return load_zygote()
    except PreloadError:
        return None


# What saves and restores variables; None: why not.
_state: Any = None
_state_error = ""
_notebook: Any = None  # habits of notebooks; None: they are syntax errors


def load_state() -> None:
    """Before anything of others is loaded. Without it sandboxes work, but are not saved."""
    global _state, _state_error, _notebook
    try:
        _notebook = load_own("notebook")
    except Exception:
        pass
    try:
        _state = load_own("state")
    except Exception as error:
        text = "this interpreter cannot save variables: {!r}".format(error)
        _state_error = clean(text, 300)


def main() -> None:
    parser = argparse.ArgumentParser(prog="driver.py", description="interpreter of a sandbox")
    parser.add_argument("--template", default="base", help="one of ours, or any with --site")
    parser.add_argument("--site", metavar="DIR", help="virtual environment with the packages")
    parser.add_argument("--preload", metavar="LIST", help="modules of it to load, with commas")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--zygote", type=int, metavar="FD", help="preload, then fork")
    where.add_argument("--fd", type=int, metavar="FD", help="serve cells on this socket")
    parser.add_argument("--start", action="store_true", help="wait for the order to start")
    options = parser.parse_args()
    site = options.site
    names = options.preload.split(",") if options.preload else []
    if site is None and options.template not in TEMPLATES:
        parser.error("there is no template {}".format(options.template))
    _signal.signal(signal.SIGINT, _signal.SIG_IGN)  # until a session handles it
    fd = options.fd
    snp = None
    try:
        if options.zygote is not None:
            snp = load_zygote()
            snp.gather()
        preload(options.template, site, names)
        if options.zygote is not None:
            fd = snp.serve(options.zygote)  # returns in each interpreter
        else:
            snp = load_zygote_if_there()
    except PreloadError as error:
        os.write(2, (to_json({"error": clean(str(error), 1000)}) + "\n").encode())
        _exit(EXIT_PRELOAD)
    renew_randomness()
    sys.dont_write_bytecode = True  # as the environment says for what a cell starts
    session = Session(fd, options.template, snp)
    session.install()
    session.announce()
    if options.zygote is not None or options.start:
        session.start(SEED_FD if options.zygote is not None else -1)
    if site is not None and not names:
        try:  # code of others: after the seed was left
            activate(site)
        except BaseException as error:  # of a .pth file: the packages may be incomplete
            os.write(2, "{}: {!r}\n".format(site, error).encode("utf-8", "replace"))
    session.watch()
    session.serve()


if __name__ == "__main__":
    # From foreign globals: before 3.10 a frame shares the builtins of a caller with its own.
    eval("main()", {"main": main})
