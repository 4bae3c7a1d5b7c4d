# SPDX-License-Identifier: Apache-2.0
"""Output of a cell: descriptors 0, 1 and 2, in the order of writes."""

import builtins

# A private copy, as in driver.py: cells cannot change it. This module is a part of the same program.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
__name__ = "__main__"

import os
import sys
from fcntl import ioctl
from io import BufferedReader, FileIO, TextIOWrapper
from os import SEEK_SET, close, dup2, fstat, lseek, write
from stat import S_ISFIFO
from termios import FIONREAD
from time import monotonic, sleep
from typing import Any, List, Optional

from stream import close_quietly, high_descriptor, identity


# --- standard streams -----------------------------------------------------------------


class Turn:
    """Keeps the order between stdout and stderr, which are two pipes.

    Before changing from one to the other, wait until the first has been read. The same is done before a child process
    starts; its output is awaited after it.
    """

    WAIT_S = 0.250
    GIVE_UP = 4  # expired waits in a cell: the pipes have no reader

    def __init__(self) -> None:
        self._last = 0  # written last: 1, 2, or 0 = unknown
        self._given_up = 0

    def begin(self) -> None:
        self._last = self._given_up = 0

    def take(self, fd: int) -> None:
        if fd != self._last:
            self._last = fd
            self._wait(3 - fd)

    def settle(self) -> None:
        """Wait until the output is read, before another message goes to the host."""
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
    """Descriptor 1 or 2 as a Python file: writes reach the pipe at once."""

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

    A cell starts with the session's descriptors, whatever the previous one did to them. Replaced sys.stdout and the
    like stay, as in any interpreter, unless they are unusable.
    """

    NAMES = ("stdin", "stdout", "stderr")

    def __init__(self) -> None:
        self.turn = Turn()
        self.spare = [high_descriptor(fd) for fd in range(3)]
        self._identity = [identity(fd) for fd in range(3)]
        self._own: List[TextIOWrapper] = [self._make(fd) for fd in range(3)]
        self._given = False  # standard input of the last cell was its own text
        for fd in range(3):
            self._show(fd)

    def adopt(self) -> bool:
        """Continue in another sandbox, where 0, 1 and 2 are other files. Are the spare ones there, too?"""
        self._identity = [identity(fd) for fd in range(3)]
        return [identity(fd) for fd in self.spare] == self._identity

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
        """Prepare the descriptors for a cell."""
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
        """Replace unusable objects in sys; accesses user objects."""
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
    """An unnamed file."""
    try:
        return os.memfd_create("stdin")
    except (AttributeError, OSError):
        import tempfile

        fd, path = tempfile.mkstemp()
        os.unlink(path)
        return fd
