# SPDX-License-Identifier: Apache-2.0
"""A daemon alone, its tier scripted_tier.py, and a client that knows cells; conftest.py has them as fixtures."""

import os
import signal
import subprocess
from typing import Any, ClassVar

import lib
from lib import ERROR, RESPONSE, Json


# A tier is not ended because the machine is slow, nor a cell that waits for something the test does.
NEVER_LATE = ("--tier-timeout", "3600")


class Client(lib.Client):
    """One connection, and cells in a line."""

    def __init__(self, path: str) -> None:
        super().__init__(path, seconds=2 * lib.PATIENCE)

    def start(self, code: str, session: str | None = None, **members: Any) -> int:
        raw = code.encode()
        return self.send({"method": "exec", "kind": "python", "code_len": len(raw),
                          "session": session, **members}, raw)

    def run(self, code: str, session: str | None = None, **members: Any) -> Any:
        """The value of a cell that must succeed."""
        kind, head, _, _ = self.end_of(self.start(code, session, **members))
        assert kind == RESPONSE, head
        return head["value"]

    def fail(self, code: str, session: str | None = None, **members: Any) -> Json:
        kind, head, _, _ = self.end_of(self.start(code, session, **members))
        assert kind == ERROR, head
        return head

    def is_closed(self) -> bool:
        try:
            while True:
                self.recv()
        except (EOFError, ConnectionError):
            return True


class Daemon:
    started: ClassVar[list["Daemon"]] = []  # ended with the test, whatever became of it

    def __init__(self, folder: str, bin_folder: str, *options: str) -> None:
        self.socket = os.path.join(folder, "s")
        self.log = os.path.join(folder, "log")
        read_end, write_end = os.pipe()
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [os.path.join(bin_folder, "snipara-sandboxd"), "--foreground", "--socket", self.socket,
                 "--state", folder, "--ready-fd", str(write_end), *NEVER_LATE, *options],
                stderr=log, pass_fds=[write_end])
        self.started.append(self)
        os.close(write_end)
        ready = os.read(read_end, 1)
        os.close(read_end)
        if ready != b"\1":
            self.process.wait(lib.PATIENCE)
            raise RuntimeError(self.text())

    def client(self) -> Client:
        return Client(self.socket)

    def text(self) -> str:
        with open(self.log) as log:
            return log.read()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(2 * lib.PATIENCE)  # it saves what it has, ends its tier, and may kill that


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as text:
        return [int(word) for word in text.read().split()]


def kill(daemon: Daemon, number: int = signal.SIGKILL) -> None:
    if daemon.process.poll() is None:
        daemon.process.send_signal(number)
        daemon.process.wait(2 * lib.PATIENCE)
