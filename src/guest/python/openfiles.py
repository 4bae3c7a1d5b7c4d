# SPDX-License-Identifier: Apache-2.0
"""Open files of a session, for a copy that continues later."""

import builtins

# A private copy, as in driver.py: cells cannot change it. This module is a part of the same program.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
__name__ = "__main__"

import os
from errno import EMFILE, EWOULDBLOCK
from fcntl import FD_CLOEXEC, F_GETFD, F_GETFL, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, fcntl, flock
from os import O_ACCMODE, O_CLOEXEC, O_NOFOLLOW, O_RDONLY, O_WRONLY, SEEK_CUR, SEEK_SET
from os import close, dup2, fstat, listdir, lseek, pread, read, readlink, stat
from os import open as open_fd
from select import POLLNVAL, poll
from stat import S_ISBLK, S_ISCHR, S_ISDIR, S_ISREG
from struct import pack, unpack_from
from typing import Any, List, NamedTuple, Optional, Set

from stream import clean, close_quietly

F_OFD_GETLK = 36  # Python 3.8 does not name it


class OpenFile(NamedTuple):
    """An open regular file of the session."""

    fd: int
    place: int  # offset in the file
    path: Optional[str]  # None: it cannot be opened again, so the copy keeps it open
    flags: int
    inherited: bool  # by executed programs


class OpenFiles:
    """Open files of the session, except ours.

    A copy shares the files that it keeps open: a pipe has no end, and a deleted file uses space, as long as the copy
    lives. So files are closed in the copy, and opened again when it wakes.
    """

    SHOWN = 5
    LOCKED = 1000  # by name
    WITHOUT_PROC = 1024
    POLLED = 64  # together
    DELETED_MAX = 1 << 20  # bytes of deleted files that a copy may keep open
    FOUND = ("/workspace/", "/usr/")  # present in all sandboxes of a session
    PATH_ONLY = getattr(os, "O_PATH", 0)
    BY_INODE = (b"SQLite format 3\0", b"\x89HDF\r\n\x1a\n")  # their libraries identify a file by device and inode

    def __init__(self, ours: Set[int]) -> None:
        self.shared: List[str] = []  # names of files for only one process
        self.locked: List[str] = []  # names of files that this process has locked: a copy loses the lock
        self.others: List[str] = []  # names of folders and devices
        self.written: List[str] = []  # names of files open for writing that remain shared
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
        """Without /proc: poll() finds closed descriptors in groups, up to RLIMIT_NOFILE."""
        found: List[int] = []
        for first in range(0, self.WITHOUT_PROC, self.POLLED):
            some, closed = poll(), set()
            for fd in range(first, first + self.POLLED):
                some.register(fd, 0)
            try:
                closed = {fd for fd, event in some.poll(0) if event & POLLNVAL}
            except OSError:  # above the limit: check them one by one
                pass
            found += [fd for fd in range(first, first + self.POLLED) if fd not in closed]
        return found

    def _look(self, fd: int) -> None:
        status = fstat(fd)
        mode = status.st_mode
        path = None
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
        if self._is_locked(fd, path):
            self._add(self.locked, fd, self.LOCKED)

    @staticmethod
    def _path(fd: int) -> Optional[str]:
        try:
            path = readlink("/proc/self/fd/{}".format(fd))
            again, now = stat(path), fstat(fd)
        except OSError:
            return None
        return path if (again.st_dev, again.st_ino) == (now.st_dev, now.st_ino) else None

    def _is_locked(self, fd: int, path: Optional[str]) -> bool:
        """Whether a file is locked, by fcntl, flock or a lease."""
        text = b""
        try:
            info = open_fd("/proc/self/fdinfo/{}".format(fd), O_RDONLY | O_CLOEXEC)
            text = read(info, 4096)
            close(info)
        except OSError as error:
            if error.errno == EMFILE:
                return True  # unknown
        return b"\nlock:" in text if b"\nmnt_id:" in text else self._is_found_locked(fd, path)

    @staticmethod
    def _is_found_locked(fd: int, path: Optional[str]) -> bool:
        """Locked by any process; where /proc does not show it, as in the local tier and under gVisor."""
        found = fcntl(fd, F_OFD_GETLK, pack("hhqqi4x", F_WRLCK, SEEK_SET, 0, 0, 0))
        if unpack_from("h", found)[0] != F_UNLCK:
            return True
        if path is None:
            return False  # a copy shares the open file, and with it a flock
        again = -1
        try:
            again = open_fd(path, fcntl(fd, F_GETFL) & O_ACCMODE | O_CLOEXEC)
            flock(again, LOCK_EX | LOCK_NB)
        except OSError as error:
            return error.errno in (EMFILE, EWOULDBLOCK)
        finally:
            close_quietly(again)  # this frees fcntl locks, but there are none
        return False

    def _is_by_inode(self, file: OpenFile) -> bool:
        """SQLite never follows links; older versions, and HDF5, are recognized by their first bytes."""
        can_read = file.flags & O_ACCMODE != O_WRONLY
        return bool(file.flags & O_NOFOLLOW) or (can_read and pread(file.fd, 16, 0).startswith(self.BY_INODE))

    def _add(self, names: List[str], fd: int, most: int = SHOWN) -> None:
        if len(names) < most:
            try:
                names.append(clean(readlink("/proc/self/fd/{}".format(fd)), 200))
            except OSError:
                names.append("descriptor {}".format(fd))

    def to_close(self) -> List[int]:
        """Descriptors to close in the copy."""
        return [file.fd for file in self._files if file.path is not None]

    def why_not_elsewhere(self) -> str:
        """Files that cannot be opened in another sandbox with the same workspace; "" = none."""
        names = self.shared + self.others
        for file in self._files:
            if file.path is None or not file.path.startswith(self.FOUND):
                self._add(names, file.fd)
        if names:
            return clean("open descriptors: " + ", ".join(names[: self.SHOWN]), 150)
        for file in self._files:
            if self._is_by_inode(file):
                self._add(names, file.fd)
        return clean("open by device and inode, which change: " + ", ".join(names), 150) if names else ""

    def restore(self) -> bool:
        """Restore the files in a woken copy, after the old processes have ended. Returns whether all are restored."""
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
        except OSError:  # gone: using the replacement raises an error
            fd = open_fd("/", self.PATH_ONLY)
            is_there = False
        if fd != file.fd:
            dup2(fd, file.fd, file.inherited)
            close(fd)
        return is_there
