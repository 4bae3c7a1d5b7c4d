# SPDX-License-Identifier: Apache-2.0
"""The C library through ctypes: include/snipara/sandbox.h documents each function.

Each thread has one connection, an event loop as many as it needs; a forked child opens new ones.
"""
from __future__ import annotations

import ctypes
import json
import os
import sys
from _signal import SIGINT, getsignal, signal  # the module signal takes ten times as long to import
from codecs import getincrementaldecoder
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int, c_int64, c_size_t, c_void_p, sizeof
from itertools import count
from threading import Timer, current_thread, get_ident, local, main_thread
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from ._errors import CLASSES, SandboxError, wrong_kind
from ._result import Output

if TYPE_CHECKING:
    import asyncio

STREAMS = {1: "stdout", 2: "stderr"}
SLICE_MS = 200  # longest wait in the library before Python checks for signals: one may arrive just before the wait
CALLS_MAX = 24  # of one connection; the daemon allows 32, and interrupting needs some
STOP_MS = 30000  # longest wait for an interrupted cell


class _Error(Structure):
    _fields_ = [("code", c_int), ("system_error", c_int), ("name", c_char_p), ("message", c_char_p),
                ("object", c_char_p), ("limit", c_char_p), ("limit_value", c_int64), ("remedy", c_char_p),
                ("remedy_name", c_char_p), ("remedy_value", c_int64), ("remedy_ways", c_char_p)]


class _Options(Structure):
    _fields_ = [("size", c_size_t), ("socket", c_char_p), ("no_start", c_bool), ("later", c_bool)]


class _Session(Structure):
    _fields_ = [("size", c_size_t), ("tier", c_char_p), ("template_name", c_char_p), ("project", c_char_p),
                ("limits", POINTER(c_char_p)), ("env", POINTER(c_char_p)), ("allow_degraded", c_bool),
                ("require_exact", c_bool), ("rootfs", c_char_p), ("network", c_bool), ("temporary", c_bool),
                ("guarantees", POINTER(c_char_p))]


class _Part(Structure):
    _fields_ = [("type", c_char_p), ("data", c_void_p), ("len", c_size_t)]


_OnOutput = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p, c_size_t)
_OnDisplay = ctypes.CFUNCTYPE(None, c_void_p, POINTER(_Part), c_size_t)
_OnDone = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)


class _Cell(Structure):
    _fields_ = [("size", c_size_t), ("session", c_char_p), ("with_", POINTER(_Session)), ("code", c_char_p),
                ("code_len", c_size_t), ("shell", c_bool), ("argv", c_void_p), ("input", c_char_p),
                ("input_len", c_size_t), ("timeout_ms", c_int64), ("no_rollback", c_bool), ("atomic", c_bool),
                ("attached", c_bool), ("quick", c_bool), ("recover", c_char_p), ("output", _OnOutput),
                ("display", _OnDisplay), ("called", c_void_p), ("ctx", c_void_p), ("internal", c_bool),
                ("request", c_char_p), ("event", c_void_p), ("open_input", c_bool)]


# Finding it ---------------------------------------------------------------------------------


def programs() -> str:
    """The folder with bin/, lib/ and libexec/ of this package; "" if it has none."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
    return folder if os.path.isdir(folder) else ""


def _places() -> List[str]:
    name = "libsnipara-sandbox.so.0"
    given = os.environ.get("SNIPARA_SANDBOX_LIBRARY", "")
    if given:  # a file, or its folder
        return [os.path.join(given, name) if os.path.isdir(given) else given]
    usual = [folder + "/" + name for folder in
             (os.path.expanduser("~/.local/lib"), "/usr/local/lib",
              "/usr/local/lib/{}-linux-gnu".format(os.uname().machine))]
    return [*([os.path.join(programs(), "lib", name)] if programs() else []), name,
            *(path for path in usual if os.path.exists(path))]


def _load() -> ctypes.CDLL:
    why: List[str] = []
    for place in _places():
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            why.append(str(error))
    raise ImportError("the library libsnipara-sandbox.so.0 cannot be loaded: {}; install it (make install), or set "
                      "SNIPARA_SANDBOX_LIBRARY to its folder".format("; ".join(why)))


_POINTER_RESULTS = ("run", "open", "put", "get", "list", "snapshot", "snapshots", "rollback", "fork", "history", "show",
                    "hibernate", "destroy", "request", "sessions", "set_limits", "command", "start", "processes",
                    "process_read", "process_write", "process_wait", "process_signal")
_lib = _load()
_lib.snipara_version.restype = c_char_p
VERSION: str = _lib.snipara_version().decode()
_lib.snipara_connect.restype = _lib.snipara_call_error.restype = POINTER(_Error)
_lib.snipara_call_error.argtypes = _lib.snipara_free.argtypes = _lib.snipara_interrupt.argtypes = [c_void_p]
_lib.snipara_close.argtypes = _lib.snipara_fd.argtypes = _lib.snipara_step.argtypes = [c_void_p]
_lib.snipara_step.restype = c_size_t
_lib.snipara_wait.argtypes, _lib.snipara_wait.restype = [c_void_p, c_int], c_bool
_lib.snipara_is_done.argtypes, _lib.snipara_is_done.restype = [c_void_p], c_bool
_lib.snipara_on_done.argtypes, _lib.snipara_on_done.restype = [c_void_p, _OnDone, c_void_p], None
_lib.snipara_json.argtypes, _lib.snipara_json.restype = [c_void_p], c_char_p
_lib.snipara_data.argtypes, _lib.snipara_data.restype = [c_void_p, POINTER(c_size_t)], c_void_p
for _name in _POINTER_RESULTS:
    getattr(_lib, "snipara_" + _name).restype = c_void_p


def _error(found: Any) -> SandboxError:
    """The exception for a snipara_error."""
    at = found.contents
    name = at.name.decode()
    error = CLASSES.get(name, SandboxError)(at.message.decode("utf-8", "replace"))
    error.code = name
    for member in ("object", "limit", "remedy", "remedy_name"):
        setattr(error, member, (getattr(at, member) or b"").decode("utf-8", "replace"))
    error.limit_value, error.remedy_value = at.limit_value, at.remedy_value
    error.remedy_ways = tuple((at.remedy_ways or b"").decode().split())
    return error


def text(value: Optional[str], what: str) -> Optional[bytes]:
    """A string for the library, without NUL characters."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise wrong_kind(what, "text", value)
    if "\0" in value:
        raise CLASSES["invalid"]("{} must not contain a NUL character".format(what))
    return value.encode("utf-8", "surrogateescape")


def texts(values: Sequence[str], what: str) -> Any:
    array = (c_char_p * (len(values) + 1))()
    array[:] = [*(text(value, what) for value in values), None]
    return array


class Policy:
    """The options of a session as a C structure."""

    def __init__(self, *, tier: Optional[str], template: Optional[str], project: Optional[str],
                 limits: Sequence[str], env: Mapping[str, str], allow_degraded: bool, require_exact: bool,
                 network: bool = False, rootfs: Optional[str] = None, temporary: bool = False,
                 guarantees: Sequence[str] = ()) -> None:
        variables = ["{}={}".format(name, value) for name, value in env.items()]
        self.raw = _Session(
            sizeof(_Session), text(tier, "tier"), text(template, "template"), text(project, "project"),
            texts(limits, "limits") if limits else None, texts(variables, "env") if variables else None,
            allow_degraded, require_exact, text(rootfs, "docker_image"), network, temporary,
            texts(guarantees, "guarantees") if guarantees else None)


# Calls --------------------------------------------------------------------------------------


class Call:
    """A call of the library. Ended by free(); used only by the thread of its connection."""

    def __init__(self, box: Connection, key: int) -> None:
        self.box = box
        box.n_calls += 1
        self.key = key
        self.handle: Optional[int] = None
        self.printed: Tuple[List[bytes], List[bytes]] = ([], [])  # stdout and stderr
        self.shown: List[Dict[str, bytes]] = []
        self.on_output: Optional[Callable[[Output], object]] = None
        self.decoders: Dict[int, Any] = {}
        self.ended: Optional[Callable[[], object]] = None
        self.failure: Optional[BaseException] = None
        self.is_watched = False  # an event loop waits for it

    def take_output(self, stream: int, data: bytes) -> None:
        self.printed[stream - 1].append(data)
        if self.on_output is not None:
            if stream not in self.decoders:
                self.decoders[stream] = getincrementaldecoder("utf-8")("replace")
            piece = Output.of(STREAMS[stream], self.decoders[stream].decode(data))
            if piece:
                self.on_output(piece)

    def fail(self, failure: BaseException) -> None:
        """Interrupt the cell after an exception in a callback; check() raises the exception."""
        if self.failure is None:
            self.failure = failure
            self.interrupt()

    @property
    def is_done(self) -> bool:
        return bool(_lib.snipara_is_done(self.handle))

    def interrupt(self) -> None:
        if self.handle is not None:
            _lib.snipara_interrupt(self.handle)

    def check(self) -> None:
        """Raise the error of the call."""
        if self.failure is not None:
            raise self.failure
        found = _lib.snipara_call_error(self.handle)
        if found:
            raise _error(found)

    def answer(self) -> Dict[str, Any]:
        """The answer of the call; raises its error."""
        self.check()
        answer: Dict[str, Any] = json.loads(_lib.snipara_json(self.handle))
        return answer

    def data(self) -> bytes:
        """The bytes of the answer."""
        self.check()
        size = c_size_t()
        at = _lib.snipara_data(self.handle, byref(size))
        return ctypes.string_at(at, size.value)

    def free(self) -> None:
        self.box.calls.pop(self.key, None)
        if self.handle is not None:
            _lib.snipara_free(self.handle)
            self.handle = None
            self.box.n_calls -= 1

    def let_go(self, lose: Callable[[Call], object] = lambda call: None) -> None:
        """Interrupt the cell and free the call at its end; until then it counts as one of the connection's open calls.

        lose: called before the call is freed.
        """
        def ended() -> None:
            lose(self)
            self.free()
        self.on_output = None
        self.interrupt()
        if self.is_done or not self.is_watched:
            ended()
        else:
            self.ended = ended

    def drop(self) -> None:
        """Interrupt the cell and ignore its end, for a stream that was not read to its end."""
        if self.box.owner == get_ident() and self.box.pid == os.getpid():  # another thread may be using it
            self.let_go()

    def wait(self) -> None:
        """Wait for the end of the call. An exception from a signal handler, such as Ctrl-C, interrupts the cell."""
        try:
            with Signals(self.box) as signals:
                while not _lib.snipara_wait(self.handle, SLICE_MS):
                    signals.check()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Interrupt the cell, and wait for its end; a second Ctrl-C returns at once."""
        self.interrupt()
        for _ in range(STOP_MS // SLICE_MS):
            if _lib.snipara_wait(self.handle, SLICE_MS):
                break


_boxes: WeakValueDictionary[int, Connection] = WeakValueDictionary()
_keys = count(1)


def _call_of(key: Optional[int]) -> Optional[Call]:
    """The call of a callback, by its key, whose upper bits are the key of the connection."""
    box = _boxes.get((key or 0) >> 40)
    return None if box is None or key is None else box.calls.get(key)


def _on_output(key: Optional[int], stream: int, data: int, size: int) -> None:
    call = _call_of(key)
    if call is not None:
        call.box.depth += 1
        try:
            call.take_output(stream, ctypes.string_at(data, size))
        except BaseException as error:
            call.fail(error)
        call.box.depth -= 1


def _on_display(key: Optional[int], parts: Any, n_parts: int) -> None:
    call = _call_of(key)
    if call is not None:
        call.shown.append({parts[i].type.decode("utf-8", "replace"): ctypes.string_at(parts[i].data, parts[i].len)
                           for i in range(n_parts)})


def _on_done(key: Optional[int], handle: int) -> None:
    call = _call_of(key)
    if call is not None and call.ended is not None:
        call.box.depth += 1
        try:
            call.ended()
        except BaseException as error:
            call.fail(error)
        call.box.depth -= 1


class Held:
    """Delays Ctrl-C in the main thread, where it could leave a cell without an owner.

    is_final: for finalizers, where Python drops exceptions: the signal is sent again shortly after.
    """

    def __init__(self, is_final: bool = False) -> None:
        self.is_final = is_final
        self.before: Any = None
        self.come: Any = None

    def __enter__(self) -> Held:
        if current_thread() is main_thread() and callable(getsignal(SIGINT)):
            self.before = signal(SIGINT, self.take)
        return self

    def take(self, *come: Any) -> None:
        self.come = come

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            signal(SIGINT, self.before)
        if self.come is not None and self.is_final:
            Timer(SLICE_MS / 1e3, os.kill, (os.getpid(), SIGINT)).start()
        elif self.come is not None:
            self.before(*self.come)


class Signals:
    """Keeps an exception that a signal handler raises at the start of a callback: ctypes would drop it, and Ctrl-C be
    lost."""

    def __init__(self, box: Connection) -> None:
        self.box, self.depth = box, box.depth
        self.raised: Optional[BaseException] = None
        self.is_main = current_thread() is main_thread()  # only there handlers run

    def __enter__(self) -> Signals:
        if self.is_main:
            self.before, sys.unraisablehook = sys.unraisablehook, self.take
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.box.depth = self.depth  # even if a callback did not finish
        if self.is_main:
            sys.unraisablehook = self.before
        if kind is None:
            self.check()

    def take(self, dropped: Any) -> None:
        words = "{} {!r}".format(dropped.err_msg, dropped.object)  # the Python version decides which has the function
        if any(repr(callback) in words for callback in (_on_output, _on_display, _on_done)):
            self.raised = dropped.exc_value
        else:
            self.before(dropped)

    def check(self) -> None:
        if self.raised is not None:
            raise self.raised


_output_thunk, _display_thunk, _done_thunk = _OnOutput(_on_output), _OnDisplay(_on_display), _OnDone(_on_done)


# Connections --------------------------------------------------------------------------------


class Connection:
    """A connection to the daemon of this user, which is started if none runs."""

    def __init__(self) -> None:
        self.box = c_void_p()
        self.pid = os.getpid()
        self.owner = get_ident()
        self.depth = 0  # of running callbacks
        self.n_calls = 0  # not yet freed
        self.calls: Dict[int, Call] = {}  # those with callbacks
        self.key, self.last = next(_keys), 0
        _boxes[self.key] = self
        options = _Options(size=sizeof(_Options), later=True)  # runs and settings need no connection
        found = _lib.snipara_connect(byref(options), byref(self.box))
        if found:
            raise _error(found)
        self.fd: int = _lib.snipara_fd(self.box)

    def __del__(self, close: Any = _lib.snipara_close) -> None:
        box, self.box = self.box, c_void_p()
        close(box)
        for call in list(self.calls.values()):
            call.free()

    def step(self) -> None:
        _lib.snipara_step(self.box)

    def _call(self) -> Call:
        self.last += 1
        return Call(self, self.key << 40 | self.last)

    def ask(self, function: str, *arguments: Any) -> Call:
        """Begin snipara_FUNCTION(box, arguments)."""
        call = self._call()
        call.handle = getattr(_lib, "snipara_" + function)(self.box, *arguments)
        return call

    def request(self, method: str, **members: Any) -> Call:
        """Begin a request of docs/wire.md."""
        head = json.dumps({"method": method, **members}).encode()
        return self.ask("request", c_char_p(head), None, c_size_t(0))

    def run(self, session: bytes, policy: Optional[Policy], code: Optional[bytes], *, shell: bool = False,
            input: Optional[bytes] = None, timeout_ms: int = 0, atomic: bool = False,
            recover: Optional[bytes] = None, on_output: Optional[Callable[[Output], object]] = None,
            internal: bool = False) -> Call:
        """Begin a cell."""
        call = self._call()
        call.on_output = on_output
        self.calls[call.key] = call
        cell = _Cell(size=sizeof(_Cell), session=session, code=code, code_len=len(code or b""), shell=shell,
                     input=input, input_len=len(input or b""), timeout_ms=timeout_ms, atomic=atomic, recover=recover,
                     output=_output_thunk, display=_display_thunk, ctx=call.key, internal=internal)
        if policy is not None:
            cell.with_ = ctypes.pointer(policy.raw)
        call.handle = _lib.snipara_run(self.box, byref(cell))
        return call

    def start(self, session: bytes, policy: Optional[Policy], command: Sequence[str], open_input: bool) -> Call:
        """Begin to start a process."""
        words = texts(command, "command")  # copied by the call
        cell = _Cell(size=sizeof(_Cell), session=session, argv=ctypes.cast(words, c_void_p), open_input=open_input)
        if policy is not None:
            cell.with_ = ctypes.pointer(policy.raw)
        return self.ask("start", byref(cell))

    def show(self, session: bytes, number: int) -> Call:
        """Request the result of an earlier cell."""
        call = self._call()
        self.calls[call.key] = call
        cell = _Cell(size=sizeof(_Cell), output=_output_thunk, display=_display_thunk, ctx=call.key)
        call.handle = _lib.snipara_show(self.box, c_char_p(session), c_int64(number), byref(cell))
        return call

    def when_done(self, call: Call, ended: Callable[[], object]) -> None:
        """Call ended() in step() when the call is done; at once if it already is."""
        call.ended = ended
        call.is_watched = True
        self.calls[call.key] = call
        _lib.snipara_on_done(call.handle, _done_thunk, call.key)


_mine = local()


def connection() -> Connection:
    """The connection of this thread; in a callback another one, because the callback runs during a step."""
    stack: List[Connection] = _mine.__dict__.setdefault("stack", [])
    if stack and stack[0].pid != os.getpid():
        stack.clear()
    for box in stack:
        if box.depth == 0:
            return box
    stack.append(Connection())
    return stack[-1]


_loops: Any = None


def loop_connection(loop: asyncio.AbstractEventLoop) -> Connection:
    """A connection of a running event loop, which steps it when data arrives."""
    global _loops
    if _loops is None:
        _loops = WeakKeyDictionary()
    boxes: List[Connection] = _loops.setdefault(loop, [])
    if boxes and boxes[0].pid != os.getpid():
        boxes.clear()
    for box in boxes:
        if box.n_calls < CALLS_MAX:
            return box
    boxes.append(Connection())
    loop.add_reader(boxes[-1].fd, boxes[-1].step)
    return boxes[-1]


def hear_signals(loop: asyncio.AbstractEventLoop, call: Call) -> None:
    """Run the loop at short intervals until the call is done: Jupyter's kernel notices Ctrl-C only while it runs."""
    if "ipykernel" in sys.modules and call.handle is not None and not call.is_done:
        loop.call_later(SLICE_MS / 1000, hear_signals, loop, call)
