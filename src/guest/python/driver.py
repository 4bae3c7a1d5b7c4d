# SPDX-License-Identifier: Apache-2.0
"""The interpreter loop inside a sandbox: reads cells, runs them, answers.

    python3 -I driver.py --template NAME --zygote FD    preload, then fork interpreters
    python3 -I driver.py --template NAME --fd FD        serve cells on this socket at once
    python3 -I driver.py --template NAME --start --fd FD    the same, after a START order

Standard library only, CPython 3.8 or later, the same file in every isolation tier. The stream is the guest protocol of
docs/wire.md; descriptors 0, 1 and 2 belong to the cells.

User code shares this process and can forge any answer: nothing here is a security boundary. The guarantee is that
ordinary mistakes of a cell (closed descriptors, replaced builtins, a hostile __repr__, any BaseException) leave the
next cell working, or end the process. For that:

- the names in use are bound when the file is loaded, builtins included;
- user code is entered in one place only, Session._guarded();
- an interrupt never raises in the frames that keep the stream's framing intact.
"""

import builtins

# A private copy: a cell that replaces builtins.len or deletes builtins.print does not affect it.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import __future__
import _signal
import argparse
import os
import select
import signal
import struct
import sys
import threading
import types
import warnings
from _signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask
from ast import Expr, Expression, Module, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST
from io import StringIO
from os import _exit, chdir, close, dup2, getpid, read
from sys import getrecursionlimit, setrecursionlimit
from time import monotonic
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

# Our modules are in the folder of this file, where -I does not look; the code inside cannot import them.
_here = os.path.dirname(os.path.abspath(__file__))
_hidden = set(sys.modules)
sys.path.insert(0, _here)
from imports import OWN, load_own, ours
from stream import (
    ANSWER, Cell, EXIT_GONE, EXIT_PRELOAD, EXIT_STREAM, FAILURES_MAX, HELD, HOLD, Interrupt, JOIN_S, LOAD, LOADED,
    Order, RECURSION_MIN, RESERVE, SAVE, SAVED, SEED, PRISTINE_FD, SOURCES_KEPT, START, Stream, WARM,
    _importers, _modules, _sources, _type_name, _urandom, clean, close_quietly, high_descriptor, receiver, to_json,
)
from stdio import Stdio
from display import Calls, Display, Figures
from errors import OUR_FILES, Denials, Errors, cell_name, error_line, safe_text
from openfiles import OpenFiles
from templates import PreloadError, TEMPLATES, activate, loaded_files, other_threads, preload

sys.path.remove(_here)
sys.path_importer_cache.pop(_here, None)
OURS = [globals()]  # namespaces of our modules: no variables of the session
for _name in set(OWN) - _hidden:
    _module = sys.modules.pop(_name, None)
    if _module is not None:
        OURS.append(vars(_module))
        OUR_FILES.add(vars(_module)["__file__"])
OUR_FILES.add(__file__)


class Quitter:
    """exit and quit: end the cell."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return "{}() ends the cell; the session continues".format(self._name)

    def __call__(self, code: Any = None) -> None:
        raise SystemExit(code)


class Outcome(NamedTuple):
    """The outcome of a cell."""

    status: str
    error: Optional[Dict[str, Any]]
    exit_code: Optional[int]


def failure(kind: str, message: str, trace: str, line: Optional[int]) -> Dict[str, Any]:
    """An `error` of DONE without hints."""
    return {"type": kind, "message": message, "traceback": trace, "line": line, "hint": None, "cause": None}


# Executes common code once, to warm it up, and leaves nothing behind.
WARMING = b"""
def f(a, b=2):
    return [a, {b: a}]
x = f'{f(1)}'
del f, x
"""

# All but SIGINT, whose handler is ours, and the signals that pid 1 and the kernel send to copies.
DISTURBING = frozenset(signal.valid_signals()) - {signal.SIGINT, signal.SIGCONT, signal.SIGHUP}
CATCHERS = 8  # nested, for exceptions raised by signal handlers while another is caught


class Session:
    """One interpreter: a namespace, and the loop that runs cells in it."""

    COMPILE = PyCF_ALLOW_TOP_LEVEL_AWAIT
    FUTURE = __future__.annotations.compiler_flag | __future__.barry_as_FLUFL.compiler_flag
    COROUTINE = 0x80  # inspect.CO_COROUTINE
    NOT_FORMATTED = "<the traceback cannot be formatted>"

    def __init__(self, fd: int, template: str, snp: Any = None) -> None:
        self._template = template
        self._pid = getpid()
        self._copy_self: Optional[Callable[[int, int, List[int]], int]] = getattr(
            snp, "leave_copy", None
        )
        self._warm: Callable[[], object] = getattr(snp, "warm", bool)
        self._snp = snp
        self._elsewhere: Any = None  # open files and folder of a thawed session, until its files are restored
        self._order: Union[Cell, Order, None] = None  # the current one
        self._failure: Optional[BaseException] = None  # while serving it
        self._failures = 0
        self._has_begun = False  # an order that cannot be repeated has begun
        self._interrupt = Interrupt()
        self._interrupt.shielded.add(Session._guarded.__code__)
        self._stream = Stream(fd, self._interrupt, receiver(fd, getattr(snp, "receive", None)))
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
        self._driver = _modules.get("__main__")  # kept alive: it is this module
        self._baseline: Any = None  # the interpreter's state before the first cell
        self._main = types.ModuleType("__main__")
        self._names = vars(self._main)
        self._commands: Any = None  # of notebooks

    def install(self) -> None:
        """Set up this process for cells."""
        _modules["__main__"] = self._main
        sys.argv = [""]
        sys.path.insert(0, "")
        builtins.display = self._display_function()  # type: ignore[attr-defined]
        query, batched = self._calls.functions()
        builtins.llm_query = query  # type: ignore[attr-defined]
        builtins.llm_query_batched = batched  # type: ignore[attr-defined]
        builtins.exit = Quitter("exit")  # type: ignore[assignment]
        builtins.quit = Quitter("quit")  # type: ignore[assignment]
        if ours.notebook is not None:
            self._commands = ours.notebook.install(self._names)
        self._interrupt.install()

    def watch(self) -> None:
        """Watch foreign code, which may fork and be refused actions."""
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
        """Report that cells can be run."""
        python = ".".join([str(part) for part in sys.version_info[:3]])
        self._stream.ready({"python": python, "template": self._template})

    def start(self, pristine_fd: int) -> None:
        """Wait until this becomes a session's interpreter. pristine_fd: for the pristine copy; -1 = none."""
        has_pristine = False
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
                if ours.state is not None:
                    ours.state.Baseline()  # read again in serve(), then without page faults
                self._serve_cell(Cell(0, 0, WARMING, None, None, None))
                _sources.pop(cell_name(0), None)
                continue
            if order.kind != SEED or has_pristine:
                _exit(EXIT_STREAM)
            has_pristine = True
            if pristine_fd >= 0 and self._leave_copy(pristine_fd, []):
                self._guarded(renew_randomness)
        if not has_pristine and pristine_fd >= 0:
            close(pristine_fd)
        replace_environment(order.raw.split(b"\0")[:-1])

    def serve(self) -> None:
        """Never returns."""
        os.environ.setdefault("MPLBACKEND", "Agg")
        if ours.state is not None:
            self._baseline = ours.state.Baseline()
        self._serve_on(CATCHERS)

    def _serve_on(self, catchers: int) -> None:
        """Serve, even if signal handlers of cells raise between two lines of the driver (see Stream). The next catcher
        catches an exception raised while one is left."""
        while True:
            try:
                if catchers:
                    self._serve_on(catchers - 1)
                else:
                    self._serve_all()
            except BaseException as error:  # no call here, so no handler runs
                self._failure = error

    def _serve_all(self) -> None:
        if self._failure is not None:  # the cell broke the driver, or memory is short
            self._failures += 1
            if self._failures == FAILURES_MAX or self._has_begun:
                _exit(EXIT_STREAM)
            self._reserve = None
            if self._stream.has_cell():
                self._stream.finish(self._done(None, None, self._unknown(self._failure)))
            self._failure = None
            if isinstance(self._order, Order):
                self._serve_one(self._order)
        while True:
            self._order = None
            self._order = order = self._stream.receive()
            self._failures = 0
            self._serve_one(order)

    def _serve_one(self, order: Union[Cell, Order, None]) -> None:
        if order is None:
            _exit(EXIT_GONE)
        if isinstance(order, Cell):
            self._serve_cell(order)
        elif order.kind == HOLD:
            self._undisturbed(self._hold, order)
        elif order.kind in (SAVE, LOAD):  # their time is limited by an alarm
            self._has_begun = True
            (self._save if order.kind == SAVE else self._load)(order)
            self._has_begun = False
        elif order.kind != ANSWER:  # a late answer to an ended cell
            _exit(EXIT_STREAM)

    def _undisturbed(self, serve: Callable[[Order], None], order: Order) -> None:
        """Serve an order with signals blocked: a handler that raises would leave it half done."""
        before = pthread_sigmask(SIG_BLOCK, ())
        try:
            pthread_sigmask(SIG_BLOCK, DISTURBING)
        except BaseException:  # raised by a handler, after they were blocked
            pass
        self._has_begun = True
        serve(order)
        self._order = None
        self._has_begun = False
        pthread_sigmask(SIG_SETMASK, before)

    # Sleeping copies -----------------------------------------------------------------

    def _leave_copy(self, socket_fd: int, closing: List[int]) -> bool:
        """Leave a sleeping copy on the socket. True in each process woken from it, which has a new stream, and the same
        random state as before."""
        assert self._copy_self is not None
        fd = self._copy_self(socket_fd, self._stream.fd, closing + self._stream.passed())
        if fd < 0:
            return False
        self._pid = getpid()
        self._stream.adopt(fd)
        self._guarded(renew_thread)  # user code may have replaced functions that they use
        self.announce()
        return True

    def _hold(self, order: Order) -> None:
        """Between cells: leave a copy that can continue from here."""
        try:
            why, kept = self._look_round(order.fd)
            if why:
                close_quietly(order.fd)
            elif self._leave_copy(order.fd, kept.to_close()):
                kept.restore()
                is_saver, _ = self._guarded(self._stream.has_next, SAVE)
                if not is_saver:  # a saver draws no random numbers, and ends
                    self._guarded(renew_randomness)
                return
        except BaseException as error:
            close_quietly(order.fd)
            why, kept = clean(repr(error), 200), None
        head = {"ok": not why, "why": why, "written": kept.written if kept else []}
        self._stream.answer(HELD, order, head)
        if not why:
            self._warm()  # before the next cell, which is hardly delayed by it

    def _look_round(self, socket_fd: int) -> Tuple[str, Any]:
        """Returns the reason why no copy can be made now, and the open files."""
        if socket_fd < 0:
            return "no file descriptor is left", None
        if self._copy_self is None:
            return "this interpreter was not forked from a template, so it cannot be copied", None
        self._end_idle_threads()
        threads = other_threads()
        if threads:
            return clean("threads: " + ", ".join(threads), 200), None
        files = self._open_files(socket_fd)
        if files.locked:
            return clean("locks on files are held: " + ", ".join(files.locked), 200), None
        if files.shared:
            return clean("pipes, sockets or deleted files are open: " + ", ".join(files.shared), 200), None
        return "", files

    def _open_files(self, fd: int) -> OpenFiles:
        """The session's files: fd is ours, too."""
        return OpenFiles({fd, self._stream.fd, 0, 1, 2, *self._stdio.spare, *self._inner()})

    def _end_idle_threads(self) -> None:
        """End idle threads of asyncio.to_thread; the next call starts new ones."""
        executor: Any = getattr(self._loop, "_default_executor", None)
        idle = getattr(executor, "_idle_semaphore", None)
        if idle is None or not executor._work_queue.empty() or idle._value < len(executor._threads):
            return
        self._loop._default_executor = None
        executor.shutdown(wait=False)
        for thread in list(executor._threads):
            thread.join(JOIN_S)

    def _inner(self) -> Iterator[int]:
        """Descriptors that work in a copy although they are shared with it."""
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
        """Between cells: write the variables to the passed pipe."""
        members, error = self._guarded(order.members)
        if error is not None:
            _exit(EXIT_STREAM)
        if members.get("image"):
            self._freeze(order)
            return
        if members.get("final"):
            items, why = self._keep(order) if members.get("keep") else (0, members.get("no_image", ""))
            if items < 0:
                return
            text = self._save_here(order, members, [], {}, items=items, no_image=why)
            self._stream.answer(SAVED, order, {"ok": not text, "error": text})
            _exit(EXIT_GONE)
        text, error = self._guarded(self._save_aside, order, members)
        close_quietly(order.fd)
        if error is not None:
            text = ours.state_error if ours.state is None else reason_of(error)
        self._stream.answer(SAVED, order, {"ok": not text, "error": text})

    def _save_here(
        self,
        order: Order,
        members: Dict[str, Any],
        threads: List[Any],
        before: Dict[str, Any],
        also: Tuple[int, ...] = (),
        items: int = 0,
        locks: Sequence[str] = (),
        no_image: str = "",
    ) -> str:
        """In a process that ends afterwards; returns an error. before: state that a fork does not preserve. items:
        number of items already in the part. locks: on these files. no_image: why the part has no image, if one was
        requested."""
        if ours.state is None:
            return ours.state_error
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
            "budget_s": members.get("budget_ms", 10000) / 1000,
            "module": self._snp,
            "threads": threads,
            "locks": locks,
            "processes": members.get("processes", 0),
            "detached": members.get("detached", []),
            "settings": settings,
            "items": items,
            "no_image": no_image,
        }
        _, error = self._guarded(ours.state.save, order.fd, self._names, OURS, order.raw, how)
        close_quietly(order.fd)
        return reason_of(error)

    # Images -------------------------------------------------------------------------

    def _freeze(self, order: Order) -> None:
        """In a copy that was left earlier: write all memory for a target, and end. Returns in the target."""
        first_to_go()
        files = OpenFiles({order.fd, self._stream.fd, 0, 1, 2, *self._stdio.spare})
        why, cwd = files.why_not_elsewhere(), os.getcwd()
        if not why:
            state, why, fd, ident, _ = self._snp.freeze(order.fd)
            if state > 0:
                self._thawed(order._replace(ident=ident, fd=-1), fd)
                self._elsewhere = files, cwd
                return
            if state == 0:
                _exit(EXIT_GONE)  # the target answers
        self._stream.answer(SAVED, order, {"ok": False, "error": why})
        _exit(EXIT_GONE)

    def _keep(self, order: Order) -> Tuple[int, str]:
        """In such a copy: write its memory as the first items of the part. Returns (their number, the reason if there
        are none); -1 in the interpreter that restores them."""
        first_to_go()
        files = OpenFiles({order.fd, self._stream.fd, 0, 1, 2, *self._stdio.spare})
        why = "it was not forked from a template" if self._copy_self is None else files.why_not_elsewhere()
        if why:
            return 0, why
        cwd = os.getcwd()
        state, why, fd, ident, items = self._snp.freeze(order.fd, bytes(order.raw).decode())
        if state > 0:
            self._thawed(order._replace(ident=ident, fd=-1), fd)
            self._elsewhere = files, cwd
            return -1, ""
        return (int(items), "") if state == 0 else (0, why)

    def _thawed(self, order: Order, fd: int) -> None:
        """In a new sandbox: continue like a woken copy."""
        self._pid = getpid()
        self._stream.adopt(fd)
        if not self._stdio.adopt():
            _exit(EXIT_STREAM)
        self._guarded(renew_thread)
        self._guarded(renew_randomness)
        self._stream.answer(LOADED, order, {"ok": True, "error": "", "failed": []})

    def _move_in(self) -> str:
        """Finish thawing when the files are restored."""
        if self._elsewhere is None:
            return "no image was restored"
        (files, cwd), self._elsewhere = self._elsewhere, None
        _, error = self._guarded(chdir, cwd)
        if error is not None or not files.restore():
            return "a file that was open no longer exists"
        return ""

    def _thaw(self, order: Order, is_rest: bool) -> str:
        """Before the first cell: become another session, or restore this one; returns the reason for a failure."""
        if self._copy_self is None or not hasattr(self._snp, "thaw"):
            return "the interpreter was not forked from a template"
        why: str = self._snp.thaw(order.fd, self._stream.fd, order.ident, is_rest)
        return why

    def _save_aside(self, order: Order, members: Dict[str, Any]) -> str:
        """Without a copy left earlier: save in a child, which lacks other threads."""
        deadline = monotonic() + members.get("budget_ms", 10000) / 1000
        threads = ours.state.threads() if ours.state is not None else []
        locks = self._open_files(order.fd).locked
        before = ours.state.before_fork() if ours.state is not None else {}
        said, say = os.pipe()
        try:
            with warnings.catch_warnings():  # a copy with one thread is intended
                warnings.simplefilter("ignore")
                pid = os.fork()
            if pid == 0:
                why = members.get("no_image", "")
                text = self._save_here(order, members, threads, before, (said, say), locks=locks, no_image=why)
                os.write(say, (text or "ok").encode())
                _exit(0)
        finally:
            close(say)
        try:
            left = deadline - monotonic()
            if left <= 0 or not select.select([said], [], [], left)[0]:
                return "it took too long"
            text = read(said, 4096).decode("utf-8", "replace")
            return "" if text == "ok" else text or "the process that does it has ended (memory may be short)"
        finally:
            close(said)
            end_child(pid)

    def _load(self, order: Order) -> None:
        """Before the first cell: become a saved session."""
        failed: List[Any] = []
        members, error = self._guarded(order.members)
        step = members.get("step") if error is None else None
        if step in ("thaw", "wake"):
            text = self._thaw(order, step == "wake")
        elif step == "move":
            text = self._move_in()
        elif error is None and ours.state is None:
            text = ours.state_error
        elif step == "restore" and order.fd >= 0:
            low, order = order.fd, order._replace(fd=high_descriptor(order.fd))
            close_quietly(low)  # the session may have had one of this number
            text, failed = self._restore(order.fd, members)
        else:
            _exit(EXIT_STREAM)
        close_quietly(order.fd)
        self._stream.answer(LOADED, order, {"ok": not text, "error": text, "failed": failed})

    def _restore(self, fd: int, members: Dict[str, Any]) -> Tuple[str, List[Any]]:
        """Returns the reason if it failed, and the missing items."""
        cwd = members.get("cwd")
        mute()  # until the first cell
        self._names["__builtins__"] = builtins
        if cwd is not None:
            _, error = self._guarded(chdir, cwd)
            if error is not None:
                return reason_of(error), []
            self._cwd = cwd
        loader = ours.state.Loader(self._names, members.get("room"), self._snp)
        budget_s = members.get("budget_ms", 10000) / 1000
        _, error = self._guarded(loader.restore, fd, self._baseline, cwd, budget_s)
        if error is not None:
            return reason_of(error), []
        self._flags |= loader.settings.get("flags", 0) & self.FUTURE
        self._errors.first_cell = loader.settings.get("first_cell", 0)
        return "", loader.failed

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
        else:
            code = getattr(self._commands, "failed", 0)
            outcome = Outcome("ok", None, code) if type(code) is int and 0 < code < 256 else None
            if self._reserve is None:
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
        if self._commands is not None:
            self._commands.failed = 0

    def _guarded(self, function: Callable[..., Any], *args: Any) -> Tuple[Any, Any]:
        """Enter user code: (what function returned, None) or (None, what it raised)."""
        self._interrupt.armed = True
        value = failure = None
        try:
            value = function(*args)
        except BaseException as error:  # of any type: the session continues
            failure = error
        self._interrupt.armed = False
        if failure is not None and failure.__traceback__ is not None:
            # Without this frame the exception does not keep itself alive.
            failure.__traceback__ = failure.__traceback__.tb_next
        return value, failure

    def _run(self, cell: Cell) -> Tuple[Optional[str], Optional[str]]:
        """Run a cell; returns the texts of its value and of its variable `result`."""
        self._interrupt.check()
        self._stdio.heal()
        if cell.cwd is not None and cell.cwd != self._cwd:
            chdir(cell.cwd)
            self._cwd = cell.cwd
        _importers.pop(self._cwd, None)  # files may have changed within the clock's resolution
        try:
            value = self._execute(str(cell.code, "utf-8"), cell.number)
        finally:
            if self._commands is not None:
                self._commands.end()
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
        """Run all statements; returns the value of the last if it is an expression, else None."""
        name = cell_name(number)
        lines = StringIO(source, newline=None).readlines()
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"  # traceback counts columns from the end of the line
        _sources[name] = (len(source), None, lines, name)
        _sources.pop(cell_name(number - SOURCES_KEPT), None)
        try:
            tree = compile(source, name, "exec", self._flags | PyCF_ONLY_AST, True)
        except SyntaxError as error:
            if ours.notebook is None:
                raise
            lines = ours.notebook.rewrite(lines, error, self._parser(name))
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
                task.exception()  # marks it as retrieved

    # The answer -------------------------------------------------------------------

    def _describe(self, error: BaseException, cell: Cell) -> Outcome:
        if isinstance(error, MemoryError):
            self._reserve = None
        outcome: Outcome
        outcome, again = self._guarded(self._outcome, error, cell)
        if again is None:
            return outcome
        return self._unknown(error)

    def _unknown(self, error: BaseException) -> Outcome:
        """For an exception that cannot be described."""
        return Outcome("error", failure(clean(_type_name(type(error)), 300), "", self.NOT_FORMATTED, None), None)

    def _outcome(self, error: BaseException, cell: Cell) -> Outcome:
        if not isinstance(error, SystemExit):
            return Outcome("error", self._errors.describe(error, cell.number), None)
        code = exit_code(error)
        if code == 0:
            return Outcome("ok", None, 0)
        text = safe_text(error)
        trace = clean("SystemExit: {}\n".format(text))
        return Outcome("error", failure("SystemExit", clean(text), trace, error_line(error, cell.number)), code)

    @staticmethod
    def _done(value: Optional[str], result: Optional[str], outcome: Optional[Outcome]) -> str:
        status, error, code = outcome or ("ok", None, None)
        return '{{"status":"{}","value":{},"result":{},"error":{},"exit_code":{}}}'.format(
            status, to_json(value), to_json(result), to_json(error), to_json(code)
        )

    def _leave_child(self, error: Optional[BaseException]) -> None:
        """A process forked by the cell has left the cell's code: end it here."""
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
    """Discard later output: it belongs to no cell."""
    fd = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for number in range(3):
        dup2(fd, number)
    if fd > 2:
        close(fd)


def first_to_go() -> None:
    """When memory is short, this process is killed, not the session."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, b"1000")
        close(fd)
    except OSError:
        pass


def end_child(pid: int) -> None:
    """The session's code may have reaped our child; then its pid is not used."""
    try:
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    except OSError:
        pass


def reason_of(error: Optional[BaseException]) -> str:
    """Why the variables could not be saved or restored; "" = success."""
    reason: str = "" if error is None else ours.state.reason_of(error)
    return reason


def is_silenced(source: str, lines: List[str], tree: Module) -> bool:
    """Whether the last statement ends in a semicolon."""
    if ";" not in source:
        return False
    last = tree.body[-1]
    rest = "".join(lines[last.end_lineno - 1 :]).encode("utf-8")  # type: ignore[operator]
    return rest[last.end_col_offset :].lstrip(b") \t\n\\").startswith(b";")


def exit_code(error: SystemExit) -> int:
    """The exit status for this exception; prints a message as Python does."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        code = int(code)
        return code if -(1 << 31) <= code < 1 << 31 else 255
    sys.stderr.write("{}\n".format(code))
    return 1


def renew_thread() -> None:
    """After a fork without fork handlers: update our thread's native id."""
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
    for old in list(os.environ):
        del os.environ[old]
    for item in items:
        name, _, value = item.partition(b"=")
        os.environb[name] = value
    if "TZ" in os.environ:
        _modules["time"].tzset()


def load_zygote() -> Any:
    try:
        return load_own("_snp")
    except ImportError as error:
        raise PreloadError("cannot load _snp: {}".format(error)) from error


def load_zygote_if_there() -> Any:
    """Without a zygote: for passing descriptors and copying pages in advance."""
    try:
        return load_zygote()
    except PreloadError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(prog="driver.py", description="interpreter of a sandbox")
    parser.add_argument("--template", default="base", help="a built-in template, or any name with --site")
    parser.add_argument("--site", metavar="DIR", help="virtual environment with the packages")
    parser.add_argument("--preload", metavar="LIST", help="modules to load from it, separated by commas")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--zygote", type=int, metavar="FD", help="preload, then fork")
    where.add_argument("--fd", type=int, metavar="FD", help="serve cells on this socket")
    parser.add_argument("--start", action="store_true", help="wait for the order to start")
    parser.add_argument("--pristine", type=int, default=-1, metavar="FD", help="leave a copy on this socket")
    options = parser.parse_args()
    site = options.site
    names = options.preload.split(",") if options.preload else []
    if site is None and options.template not in TEMPLATES:
        parser.error("there is no template {}".format(options.template))
    _signal.signal(signal.SIGINT, _signal.SIG_IGN)  # until a session handles it
    fd = options.fd
    snp: Any = None
    try:
        snp = load_zygote() if options.zygote is not None else load_zygote_if_there()
        if snp:
            snp.gather()
        preload(options.template, site, names)
        if options.zygote is not None:
            getattr(snp, "note_files", len)(loaded_files())
            fd = snp.serve(options.zygote)  # returns in each interpreter
        elif snp:
            snp.gathered()
            snp.no_hangups()  # sent by gVisor
    except PreloadError as error:
        os.write(2, (to_json({"error": clean(str(error), 1000)}) + "\n").encode())
        _exit(EXIT_PRELOAD)
    renew_randomness()
    sys.dont_write_bytecode = True  # for the cells' programs, the environment decides
    session = Session(fd, options.template, snp)
    session.install()
    session.announce()
    if options.zygote is not None or options.start:
        session.start(PRISTINE_FD if options.zygote is not None else options.pristine if snp else -1)
    if site is not None and not names:
        try:  # foreign code: after the pristine copy was left
            activate(site)
        except BaseException as error:  # of a .pth file: the packages may be incomplete
            os.write(2, "{}: {!r}\n".format(site, error).encode("utf-8", "replace"))
    session.watch()
    session.serve()


if __name__ == "__main__":
    # From foreign globals: before 3.10 a frame shares the builtins of a caller with the same globals.
    eval("main()", {"main": main})
