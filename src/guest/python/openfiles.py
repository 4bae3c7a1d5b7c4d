# SPDX-License-Identifier: Apache-2.0
"""Files a session has open, for a copy of it that goes on later."""

import builtins

# Ours, as in driver.py: not what a cell makes of them, and parts of the same program.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
__name__ = "__main__"

import os
from fcntl import FD_CLOEXEC, F_GETFD, F_GETFL, fcntl
from os import O_ACCMODE, O_RDONLY, SEEK_CUR, SEEK_SET, close, dup2, fstat, listdir, lseek, readlink, stat
from os import open as open_fd
from select import POLLNVAL, poll
from stat import S_ISBLK, S_ISCHR, S_ISDIR, S_ISREG
from typing import Any, List, NamedTuple, Optional, Set

from stream import clean


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
    POLLED = 64  # of them at once
    DELETED_MAX = 1 << 20  # bytes of deleted files a copy may keep open
    FOUND = ("/workspace/", "/usr/")  # what all sandboxes of a session have
    PATH_ONLY = getattr(os, "O_PATH", 0)

    def __init__(self, ours: Set[int]) -> None:
        self.shared: List[str] = []  # names of what only one process may have
        self.others: List[str] = []  # names of folders and devices
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
            return self._polled()

    def _polled(self) -> Any:
        """Without /proc: poll() tells of many at once which are not open, of no more than RLIMIT_NOFILE."""
        found: List[int] = []
        for first in range(0, self.WITHOUT_PROC, self.POLLED):
            some, closed = poll(), set()
            for fd in range(first, first + self.POLLED):
                some.register(fd, 0)
            try:
                closed = {fd for fd, event in some.poll(0) if event & POLLNVAL}
            except OSError:  # the limit is less: they are looked at one by one
                pass
            found += [fd for fd in range(first, first + self.POLLED) if fd not in closed]
        return found

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
        else:
            is_plain = S_ISDIR(mode) or S_ISCHR(mode) or S_ISBLK(mode)
            self._add(self.others if is_plain else self.shared, fd)

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

    def why_not_elsewhere(self) -> str:
        """What cannot be opened again in another sandbox, which has the files of this workspace; "" = nothing."""
        names = self.shared + self.others
        for file in self._files:
            if file.path is None or not file.path.startswith(self.FOUND):
                self._add(names, file.fd)
        return clean("open descriptors: " + ", ".join(names[: self.SHOWN]), 150) if names else ""

    def restore(self) -> bool:
        """In a copy that was woken, when the others are gone. Whether all of them are there."""
        is_whole = True
        for file in self._files:
            try:
                if file.path is not None:
                    is_whole = self._open(file) and is_whole
                lseek(file.fd, file.place, SEEK_SET)
            except OSError:
                is_whole = False
        return is_whole

    def _open(self, file: OpenFile) -> bool:
        assert file.path is not None
        is_there = True
        try:
            fd = open_fd(file.path, file.flags)
        except OSError:  # gone: what is there in its place says so when it is used
            fd = open_fd("/", self.PATH_ONLY)
            is_there = False
        if fd != file.fd:
            dup2(fd, file.fd, file.inherited)
            close(fd)
        return is_there
