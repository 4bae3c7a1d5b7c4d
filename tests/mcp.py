# SPDX-License-Identifier: Apache-2.0
"""A client of `mcp-serve` by hand: lines of JSON, nothing hidden.

    with mcp.Server(box) as server:                 # stdio; box is a lib.Sandbox
        server.initialize()
        server.tool("execute_python", code="1 + 1") # the result of tools/call
        server.request("tools/list"); server.receive()
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping
from typing import Any, Self

from lib import PATIENCE, Json, Sandbox, some, wait_for

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN: Json = {VERSION: "2026-07-28", CAPABILITIES: {}}
UNTIL = "import os, time\ndef until(name):\n    while not os.path.exists(name): time.sleep(0.01)\n"


def let_go(box: Sandbox, session: str, name: str = "go") -> None:
    """Make the file that until(), in a cell of the session, waits for; the session may not be there yet."""
    path = box.make_file("go")
    assert wait_for(lambda: box.cli("put", path, f"{session}:{name}").returncode == 0)


class Server:
    def __init__(self, box: Sandbox, *options: str, cwd: str | None = None,
                 env: Mapping[str, str] | None = None) -> None:
        self.box = box
        box.start()
        self.project = cwd or box.make_folder("project")
        args = [] if box.tier == "native" else ["--env", box.tier]
        self.process = subprocess.Popen(
            [os.path.join(box.bin, "snipara-sandbox"), "mcp-serve", *args, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.project,
            env={**box.env, **(env or {})}, **box.identity())
        self.buffer = b""
        self.last = 0
        self.notes: list[Json] = []  # notifications, in the order they came

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int:
        """End it as a client does: its exit status."""
        some(self.process.stdin).close()
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        some(self.process.stdout).close()
        with some(self.process.stderr) as errors:
            self.errors = errors.read().decode(errors="replace")
        assert "Sanitizer" not in self.errors and "runtime error" not in self.errors, self.errors
        return status

    # Messages

    def write(self, data: bytes) -> None:
        into = some(self.process.stdin)
        into.write(data)
        into.flush()

    def send(self, message: Json | list[Any]) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def request(self, method: str, params: Json | None = None, ident: Any = None) -> Any:
        self.last += 1
        ident = self.last if ident is None else ident
        message: Json = {"jsonrpc": "2.0", "id": ident, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return ident

    def notify(self, method: str, params: Json | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def receive(self, seconds: float = PATIENCE) -> Any:
        """The next message; None at the end or when nothing comes."""
        end = time.monotonic() + seconds
        source = some(self.process.stdout)
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([source], [], [], left)[0]:
                return None
            part = os.read(source.fileno(), 1 << 16)
            if not part:
                return None
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def answer(self, ident: Any, seconds: float = PATIENCE) -> Json:
        """The answer with this id; notifications before it go to notes."""
        while True:
            message: Json | None = self.receive(seconds)
            if message is None:
                raise AssertionError(f"no answer to {ident}")
            if "method" in message:
                self.notes.append(message)
            elif message["id"] == ident:
                return message
            else:
                raise AssertionError(f"an answer to another request: {message}")

    def call(self, method: str, params: Json | None = None) -> Json:
        return self.answer(self.request(method, params))

    def initialize(self, version: str = "2025-11-25") -> Json:
        done = self.call("initialize", {"protocolVersion": version, "capabilities": {},
                                        "clientInfo": {"name": "test", "version": "1"}})
        self.notify("notifications/initialized")
        result: Json = done["result"]
        return result

    # Tools

    def begin(self, name: str, meta: Json | None = None, /, **arguments: Any) -> Any:
        params: Json = {"name": name, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        return self.request("tools/call", params)

    def tool(self, name: str, meta: Json | None = None, /, **arguments: Any) -> Json:
        result: Json = self.answer(self.begin(name, meta, **arguments))["result"]
        return result

    def data(self, name: str, /, **arguments: Any) -> Json:
        """The same of a client that asks for data beside the text."""
        return self.tool(name, {"com.snipara/data": True}, **arguments)

    def text(self, name: str, /, **arguments: Any) -> str:
        """The text of a call that worked."""
        result = self.tool(name, **arguments)
        assert not result.get("isError"), result
        return text_of(result)

    def error(self, name: str, /, **arguments: Any) -> str:
        """The text of a call that failed."""
        result = self.tool(name, **arguments)
        assert result.get("isError") is True, result
        return text_of(result)


def text_of(result: Json) -> str:
    assert result["content"][0]["type"] == "text"
    text: str = result["content"][0]["text"]
    return text
