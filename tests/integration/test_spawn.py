# SPDX-License-Identifier: Apache-2.0
"""pid 1 starts an interpreter by itself, where no template forks one in: the init and the guest
protocol from Python, in plain namespaces, with and without our extension module."""

import json
import os
import signal
import socket
import struct
import time
from typing import Any

import pytest

import shadow_world
from lib import PATIENCE, Json
from shadow_world import COMMAND, EXIT, HEADER, HOLD_COPY, PUT, REPLY, SIGNAL, SPAWN, WAKE, World

CELL, START, WARM, HOLD, SAVE, LOAD, READY, DONE, HELD, SAVED, LOADED = 16, 17, 19, 20, 21, 22, 32, 35, 36, 37, 38


BUDGET_MS = int(1000 * PATIENCE)  # more than a save takes


def strings(*texts: str) -> bytes:
    return struct.pack("<I", len(texts)) + b"".join(text.encode() + b"\0" for text in texts)


class Interpreter:
    """One life of an interpreter that pid 1 of the world has started."""

    def __init__(self, world: World, driver: str) -> None:
        self.world, self.next = world, 0
        self.sock, inner = socket.socketpair()
        self.sock.settimeout(2 * PATIENCE)
        raw = strings("/usr/bin/python3", "-I", driver, "--start", "--fd",
                      "3") + strings("PATH=/usr/bin:/bin") + b"/workspace\0"
        self.pid, = struct.unpack("<i", world.ask(SPAWN, raw, inner.fileno()))
        inner.close()
        assert self.take(READY)["template"] == "base"
        self.send(WARM)
        self.send(START, {}, b"GREETING=hello\0PATH=/usr/bin:/bin\0")

    def send(self, kind: int, head: Json | None = None, raw: bytes = b"", fd: int | None = None) -> None:
        self.next += 1
        text = json.dumps(head or {}).encode()
        frame = HEADER.pack(len(text) + len(raw), self.next, len(text), kind) + text + raw
        if fd is None:
            self.sock.sendall(frame)
        else:
            socket.send_fds(self.sock, [frame[:16]], [fd])
            self.sock.sendall(frame[16:])
            os.close(fd)

    def take(self, kind: int) -> Any:
        while True:
            size, _, head_len, got = HEADER.unpack(World._exactly(self.sock, 16))
            body = World._exactly(self.sock, size)
            if got == kind:
                return json.loads(body[:head_len] or b"{}")

    def begin(self, code: str) -> None:
        self.send(CELL, {"cell": self.next, "code_len": len(code), "stdin": False, "cwd": "/workspace"}, code.encode())

    def run(self, code: str) -> Any:
        self.begin(code)
        return self.take(DONE)

    def save(self) -> bytes:
        reading, writing = os.pipe()
        self.send(SAVE, {"final": False, "budget_ms": BUDGET_MS, "processes": 0}, b"", writing)
        with os.fdopen(reading, "rb") as stream:
            saved = stream.read()
        assert self.take(SAVED) == {"ok": True, "error": ""}
        return saved

    def load(self, saved: bytes) -> Any:
        reading, writing = os.pipe()
        head = {"step": "restore", "cwd": "/workspace", "budget_ms": BUDGET_MS, "room": None}
        self.send(LOAD, head, b"", reading)
        with os.fdopen(writing, "wb") as stream:
            stream.write(saved)
        return self.take(LOADED)


@pytest.mark.parametrize("has_module", [False, True], ids=["plain", "module"])
def test_an_interpreter_of_pid_1s_own(has_module: bool) -> None:
    with World() as world:
        if not has_module:
            os.unlink(os.path.join(world.top, "guest", "_snp.abi3.so"))
        with pytest.raises(shadow_world.InitError):
            world.ask(SPAWN, strings() + strings() + b"/\0", 0)  # no program
        one = Interpreter(world, "/py/guest/driver.py")
        assert one.run("import os\nx = 40\nos.environ['GREETING']")["value"] == "'hello'"
        assert one.run("x + 2")["value"] == "42"

        # Files and commands are there for both.
        world.ask(PUT, struct.pack("<QBI", 0, 1, 0) + b"data\0" + b"abc")
        assert one.run("open('data').read()")["value"] == "'abc'"
        number = world.send(COMMAND, strings("sh", "-c", "test $(cat data) = abc && exit 7") +
                            strings("PATH=/usr/bin:/bin") + b"/workspace\0\0")
        assert os.WEXITSTATUS(exit_of(world, number)) == 7

        # A cell that is stopped leaves its session as it was.
        one.begin("import time\nopen('runs', 'w').close()\ntime.sleep(600)")
        while "runs" not in world.changes():
            time.sleep(0.01)
        world.ask(SIGNAL, struct.pack("<BI", 0, signal.SIGINT))
        assert one.take(DONE)["error"]["type"] == "KeyboardInterrupt"
        assert one.run("x")["value"] == "40"

        # What it can do only as one of a template's it says.
        mine, other = socket.socketpair()
        one.send(HOLD, {}, b"", other.detach())
        held = one.take(HELD)
        assert has_module == held["ok"] and (has_module or "not forked from a template" in held["why"])
        mine.close()

        saved = one.save()
        world.ask(SIGNAL, struct.pack("<BI", 0, signal.SIGKILL))
        assert exit_of(world, 0) == signal.SIGKILL
        two = Interpreter(world, "/py/guest/driver.py")
        assert two.pid != one.pid
        assert two.load(saved)["failed"] == [] and two.run("x + 2")["value"] == "42"
        three = Interpreter(world, "/py/guest/driver.py")  # ends the one that is there
        assert two.sock.recv(1) == b"" and three.run("'x' in globals()")["value"] == "False"


def test_a_copy_is_woken_twice_at_once() -> None:
    """The second wake waits until the copy is at rest again."""
    with World() as world:
        one = Interpreter(world, "/py/guest/driver.py")
        assert one.run("x = 40")["error"] is None
        mine, other = socket.socketpair()
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        asked = world.send(HOLD_COPY, struct.pack("<I", 1), mine.fileno())
        one.send(HOLD, {}, b"", other.detach())
        assert one.take(HELD)["ok"]
        world.reply(asked)
        streams = [socket.socketpair() for _ in range(2)]
        wakes = [world.send(WAKE, struct.pack("<IB", 1, 1), inner.fileno()) for _, inner in streams]
        answers: dict[int, int] = {}
        while len(answers) < 2:
            size, ident, _, kind = HEADER.unpack(World._exactly(world.control, 16))
            body = World._exactly(world.control, size)
            if kind == REPLY and ident in wakes:
                answers[ident] = struct.unpack_from("<I", body)[0]
        assert [answers[ident] for ident in wakes] == [0, 0]


def exit_of(world: World, number: int) -> Any:
    """The wait status in the EXIT of this id."""
    while True:
        size, ident, _, kind = HEADER.unpack(World._exactly(world.control, 16))
        body = World._exactly(world.control, size)
        if kind == EXIT and ident == number:
            return struct.unpack_from("<I", body, 1)[0]
