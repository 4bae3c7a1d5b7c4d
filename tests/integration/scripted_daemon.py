# SPDX-License-Identifier: Apache-2.0
"""A daemon that answers from a table, for tests of the command line alone.

    with ScriptedDaemon({"history": {"cells": []}}) as daemon:
        daemon.cli("history", "work")          # CompletedProcess
        daemon.asked                           # [(head, raw)] of every request but hello

An answer is a head, (head, raw), an Exception (its text becomes an ERROR), or a function of
(head, raw) that returns one of these; a list of those is used up in order, its last one stays.
"""

import fcntl
import json
import os
import pty
import shutil
import socket
import struct
import subprocess
import tempfile
import termios
import threading
from typing import Any, Self

import lib

PROGRAM = os.path.join(lib.BUILD, "snipara-sandbox")
HEADER = struct.Struct("<IIIB3x")
RESPONSE, ERROR, EVENT = 2, 3, 4


class Failure(Exception):
    """code, message"""


class ScriptedDaemon:
    def __init__(self, answers: lib.Json) -> None:
        self.answers = answers
        self.asked: list[tuple[lib.Json, bytes]] = []
        self.folder = tempfile.mkdtemp(prefix="snp-", dir="/tmp")
        os.chmod(self.folder, 0o700)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(self.folder, "sandboxd.sock"))
        self.listener.listen()
        self.env = {"PATH": "/usr/bin:/bin", "HOME": self.folder, "LANG": "C.UTF-8",
                    "SNIPARA_SANDBOX_RUNTIME_DIR": self.folder,
                    "SNIPARA_SANDBOX_STATE_DIR": self.folder}
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        self.thread.join(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def serve(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer:
                try:
                    self.talk(peer)
                except (EOFError, OSError):
                    pass

    @staticmethod
    def take(peer: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = peer.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    @staticmethod
    def send(peer: socket.socket, kind: int, ident: int, head: lib.Json, raw: bytes = b"") -> None:
        text = json.dumps(head).encode()
        peer.sendall(HEADER.pack(len(text) + len(raw), ident, len(text), kind) + text + raw)

    def talk(self, peer: socket.socket) -> None:
        while True:
            body_len, ident, head_len, _ = HEADER.unpack(self.take(peer, HEADER.size))
            body = self.take(peer, body_len)
            head, raw = json.loads(body[:head_len]), body[head_len:]
            method = head.pop("method")
            if method == "hello":
                self.send(peer, RESPONSE, ident,
                          {"version": head["version"], "program": "3.0.0", "pid": 1, "uptime_ms": 1})
                self.greeted(peer)
                continue
            self.asked.append(({"method": method, **head}, raw))
            self.answer(peer, ident, method, head, raw)

    def greeted(self, peer: socket.socket) -> None:
        """What follows the answer to `hello`."""

    def answer(self, peer: socket.socket, ident: int, method: str, head: lib.Json, raw: bytes) -> None:
        if method not in self.answers:
            self.send(peer, ERROR, ident, {"code": "unsupported", "message": f"unknown method '{method}'"})
            return
        answer = self.answers[method]
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        answer = answer(head, raw) if callable(answer) else answer
        events = []
        if isinstance(answer, tuple) and len(answer) == 3:
            events, answer = answer[2], answer[:2]
        for event, data in events:
            self.send(peer, EVENT, ident, event, data)
        if isinstance(answer, Failure):
            self.send(peer, ERROR, ident, {"code": answer.args[0], "message": answer.args[1]})
        elif isinstance(answer, tuple):
            self.send(peer, RESPONSE, ident, *answer)
        else:
            self.send(peer, RESPONSE, ident, answer)

    # The program

    def cli(self, *args: object, env: dict[str, str] | None = None, text: bool = True,
            **kwargs: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAM, *map(str, args)], env={**self.env, **(env or {})},
                              stdin=kwargs.pop("stdin", subprocess.DEVNULL), capture_output=True,
                              text=text, timeout=lib.PATIENCE, cwd=self.folder, **kwargs)

    def on_terminal(self, *args: object, env: dict[str, str] | None = None, typed: bytes = b"", columns: int = 0,
                    status: int = 0) -> bytes:
        """What the program writes when all its streams are a terminal: bytes. columns: its width; 0 = not known."""
        mine, theirs = pty.openpty()
        if columns:
            fcntl.ioctl(mine, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        if typed:
            os.write(mine, typed)
        process = subprocess.Popen([PROGRAM, *map(str, args)],
                                   env={**self.env, "TERM": "xterm", **(env or {})}, cwd=self.folder,
                                   stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        text = bytearray()
        while True:
            try:
                chunk = os.read(mine, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            text += chunk
        os.close(mine)
        assert process.wait(timeout=lib.PATIENCE) == status, text
        return bytes(text).replace(b"\r\n", b"\n")
