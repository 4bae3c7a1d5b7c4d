# SPDX-License-Identifier: Apache-2.0
"""Descriptions of a cell's failures: tracebacks, hints, and denials."""

import builtins

# A private copy, as in driver.py: cells cannot change it. This module is a part of the same program.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
__name__ = "__main__"

import errno
import sys
from keyword import iskeyword
from os import fsdecode
from os.path import exists
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from imports import ours
from stream import (
    CHAIN_MAX, DENIAL, DENIALS_MAX, Stream, _TracebackException, _modules, _sources, _type_name, clean,
    clean_middle, to_json,
)
from stdio import Turn

# Our files, which tracebacks omit; driver.py adds its own and others.
OUR_FILES = {__file__}


# --- denials --------------------------------------------------------------------------


class Denial(NamedTuple):
    control: str
    operation: str
    object: str
    rule: str  # the host has a text for it, as for the `cause` of an error


STANDARD = frozenset(getattr(sys, "stdlib_module_names", ()))

# Customary names, and their imports.
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
    """Actions that the sandbox seems to have refused, as far as Python notices (unverified)."""

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
        """For sys.addaudithook(): called for every event, so it must be fast."""
        find = self._events.get

        def audit(event: str, args: Tuple[Any, ...]) -> None:
            handle = find(event)
            if handle is not None:
                try:
                    handle(args)
                except Exception:
                    pass  # odd arguments: the call will raise an error

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
        if host is None or is_local(host):
            return
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
        if ":" not in name and not name.replace(".", "").isdigit():  # an address needs no look-up
            self._report_network("resolve", name)

    def _on_fork(self, _args: Tuple[Any, ...]) -> None:
        self._forked = True
        self._turn.settle()

    def explain(self, error: BaseException) -> Optional[str]:
        """Report the denial behind an exception that ended a cell; returns its rule."""
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
        if is_quiet_exit(error):
            return Denial("network", "connect", "", "no network")
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
        row = OS_ERRORS.get(number)
        return row and Denial(row[0], row[1], name, row[2])


def is_local(host: Any) -> bool:
    """Whether a host name stays inside: loopback, or any address of the sandbox."""
    if isinstance(host, (bytes, bytearray)):
        host = host.decode("ascii", "replace")
    host = host.lower()
    return host.startswith("127.") or host in ("localhost", "::1", "", "0.0.0.0", "::")


def is_quiet_exit(error: BaseException) -> bool:
    """Whether a program's exit status may indicate that it reached no host."""
    if type(error).__name__ != "CalledProcessError":
        return False
    command, code = getattr(error, "cmd", None), getattr(error, "returncode", None)
    text = command if type(command) is str else command[0] if type(command) in (list, tuple) and command else ""
    return type(text) is str and ("curl" in text and code in (6, 7) or "wget" in text and code == 4)


def chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and its causes, nearest first."""
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
            "cause": self._cause(error, cell),
            "module": None if is_standard(missing_module(error)) else missing_module(error),
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
        """Hints for what only the interpreter knows; the host has texts for causes."""
        if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
            return self._hint_name(str(getattr(error, "name", None) or ""), cell)
        name = missing_module(error)
        if is_standard(name):
            return (
                "{} is a part of Python's standard library that this interpreter does not have. pip cannot install it; "
                "another interpreter or a package of your distribution may have it.".format(name)
            )
        return None

    def _cause(self, error: BaseException, cell: int) -> Optional[str]:
        if missing_module(error) is not None:
            return "no such module"
        if ours.notebook is not None and isinstance(error, ours.notebook.UsageError):
            return "notebook"
        if isinstance(error, EOFError) and safe_text(error) == "EOF when reading a line":
            return "no input"
        if isinstance(error, FileNotFoundError):
            return "no such program" if is_of_start(error) else "no such file"
        if isinstance(error, (NameError, SyntaxError)) and is_shell_line(error, cell):
            return "shell line"
        return self._denials.explain(error)

    def _hint_name(self, name: str, cell: int) -> Optional[str]:
        usual = USUAL_NAMES.get(name)
        if usual is None and name in _modules:  # loaded in the template, not imported here
            usual = "import " + name
        if usual is not None:
            return "{} is a module: {}".format(name, usual)
        if self.first_cell > 1:
            return (
                "the variables of cells before cell {} are gone: the interpreter was restarted, or those "
                "cells were undone".format(self.first_cell)
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


def is_standard(module: Optional[str]) -> bool:
    """Whether it is a module that Python comes with (known from 3.10 on), so that no index has it."""
    return module in STANDARD


def missing_file(error: BaseException) -> Optional[str]:
    """The missing path, as given by the code."""
    path = error.filename if isinstance(error, FileNotFoundError) else None
    if isinstance(path, (str, bytes)):
        return clean(fsdecode(path), 300)
    return None


def is_of_start(error: BaseException) -> bool:
    """Whether it was raised by the start of a program."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and step.tb_frame.f_code.co_name in ("_execute_child", "execvp", "_execvpe")


def error_line(error: BaseException, cell: int) -> Optional[int]:
    """The line of this cell that failed: the innermost one."""
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


def is_shell_line(error: BaseException, cell: int) -> bool:
    """Whether the line that failed is a program's name and its arguments: `ls -la`, `git status`."""
    entry: Any = _sources.get(cell_name(cell))
    lines: List[str] = entry[2] if entry else []
    number = error_line(error, cell) or 0
    line = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    word, _, rest = line.partition(" ")
    if isinstance(error, NameError):  # also valid Python: a difference, a quotient
        is_difference = bool(rest) and (rest[0] not in "-/" or not rest[1:2].strip())
        if is_difference or (rest and word in _modules) or "'" + word + "'" not in safe_text(error):
            return False
    is_word = word.replace("-", "").isalnum() and not iskeyword(word) and not hasattr(builtins, word)
    return is_word and (word in ("cd", "export", "source", "alias", "unset") or exists("/usr/bin/" + word))


def user_frames(stack: Any) -> List[Any]:
    """Without our frames, and without those between them and the cell."""
    frames = list(stack)
    if frames and frames[0].filename in OUR_FILES:
        starts = [i for i, frame in enumerate(frames) if frame.filename.startswith("<cell ")]
        frames = frames[starts[0] :] if starts else frames
    habits = getattr(ours.notebook, "__file__", None)
    return [frame for frame in frames if frame.filename not in OUR_FILES and frame.filename != habits]


def safe_text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "<the exception's text cannot be formatted>"
