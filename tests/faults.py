# SPDX-License-Identifier: Apache-2.0
"""The shared file of a build with -Dfaults=true: orders to programs, counts, the record of writes.

    faults = Faults(path)                          # made anew
    box = lib.Sandbox(env=faults.env)
    faults.order("daemon", "fsync.state/*", 3, "kill")
    faults.counts()                                # {("daemon", "send.socket"): 17, ...}
    faults.io()                                    # what was done to the state folder, in order

tests/crash/fault.h has the layout; this is its other half.
"""

import collections
import errno
import mmap
import os
import struct
from typing import NamedTuple

MAGIC, N_ORDERS, N_POINTS, IO_AT = 0x54465053, 8, 1024, 128 << 10
HEADER = struct.Struct("<IIqQQ")
ORDER = struct.Struct("<16s72sQQIiII")
POINT = struct.Struct("<16s72sQ")
RECORD = struct.Struct("<IIQQQIIII")
ORDERS_AT = HEADER.size
POINTS_AT = ORDERS_AT + N_ORDERS * ORDER.size
ACTIONS = {"none": 0, "kill": 1, "torn": 2, "stop": 3, "fail": 4, "full": 5}
OPS = (None, "write", "sync", "truncate", "rename", "unlink", "create", "mkdir", "rmdir", "link")


class Io(NamedTuple):
    op: str | None
    ino: int
    offset: int
    time: float
    path: str
    other: str | None
    data: bytes


def text(field: bytes) -> str:
    return field.split(b"\0")[0].decode()


class Faults:
    def __init__(self, path: str, io_max: int = 0) -> None:
        """io_max: bytes of a record of all that is done to the state folder; 0 = none."""
        self.path = path
        self.env = {"SNP_FAULT_FILE": path}
        size = IO_AT + io_max
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        os.fchmod(fd, 0o666)  # also for programs of another user
        os.ftruncate(fd, size)
        self.map = mmap.mmap(fd, size)
        os.close(fd)
        HEADER.pack_into(self.map, 0, MAGIC, 0, 0, 0, io_max)

    def close(self) -> None:
        self.map.close()

    # Orders

    def order(self, program: str, name: str, nth: int, action: str, eno: int | str = 0, slot: int = 0) -> None:
        """At the nth time from now that program ("" = any) reaches name ('*' may end it): action."""
        at = ORDERS_AT + slot * ORDER.size
        eno = getattr(errno, eno) if isinstance(eno, str) else eno
        ORDER.pack_into(self.map, at, program.encode(), name.encode(), nth, 0, 0, eno, 0, 0)
        # The action last: it makes the order complete.
        struct.pack_into("<I", self.map, at + 16 + 72 + 16, ACTIONS[action])

    def forget(self) -> None:
        """No order holds any more."""
        for slot in range(N_ORDERS):
            struct.pack_into("<I", self.map, ORDERS_AT + slot * ORDER.size + 16 + 72 + 16, 0)

    def obeyed(self, slot: int = 0) -> int:
        """How often the order of a slot was carried out."""
        return int(ORDER.unpack_from(self.map, ORDERS_AT + slot * ORDER.size)[6])

    def set_clock(self, offset_s: float) -> None:
        """Let the programs believe that it is so many seconds later."""
        struct.pack_into("<q", self.map, 8, int(offset_s * 1e6))

    # Counts

    def counts(self) -> collections.Counter[tuple[str, str]]:
        """{(program, point): how often it was reached}"""
        found: collections.Counter[tuple[str, str]] = collections.Counter()
        n = min(HEADER.unpack_from(self.map, 0)[1], N_POINTS)
        for i in range(n):
            program, name, count = POINT.unpack_from(self.map, POINTS_AT + i * POINT.size)
            found[text(program), text(name)] += count
        return found

    def count(self, program: str, name: str) -> int:
        return self.counts()[program, name]

    # The record

    def io_len(self) -> int:
        return int(HEADER.unpack_from(self.map, 0)[3])

    def io(self) -> list[Io]:
        """All records so far, up to one whose writer was killed in the middle of it: a cut may be there, too."""
        length, most = HEADER.unpack_from(self.map, 0)[3:5]
        assert length <= most, f"the record of writes needs more than {most} bytes"
        found, at = [], 0
        while at < length:
            size, op, ino, offset, time_us, path_len, other_len, data_len, _ = RECORD.unpack_from(
                self.map, IO_AT + at)
            if size == 0:
                assert at > length // 2, "a record that was not finished, and what came after it is most"
                break
            start = IO_AT + at + RECORD.size
            path = self.map[start:start + path_len - 1].decode()
            start += path_len
            other = self.map[start:start + other_len - 1].decode() if other_len else None
            start += other_len
            data = self.map[start:start + data_len]
            found.append(Io(OPS[op], ino, offset, time_us / 1e6, path, other, data))
            at += size
        return found
