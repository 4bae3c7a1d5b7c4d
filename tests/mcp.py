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

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = {VERSION: "2026-07-28", CAPABILITIES: {}}
SECONDS = 60


class Server:
    def __init__(self, box, *options, cwd=None, env=None):
        box.start()
        self.project = cwd or box.make_folder("project")
        args = [] if box.tier == "native" else ["--env", box.tier]
        self.process = subprocess.Popen(
            [os.path.join(box.bin, "snipara-sandbox"), "mcp-serve", *args, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.project,
            env={**box.env, **(env or {})}, **box.identity())
        self.buffer = b""
        self.last = 0
        self.notes = []  # notifications, in the order they came

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """End it as a client does: its exit status."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            status = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        self.errors = self.process.stderr.read().decode(errors="replace")
        self.process.stderr.close()
        assert "Sanitizer" not in self.errors and "runtime error" not in self.errors, self.errors
        return status

    # Messages

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.write(json.dumps(message).encode() + b"\n")

    def request(self, method, params=None, ident=None):
        self.last += 1
        ident = self.last if ident is None else ident
        message = {"jsonrpc": "2.0", "id": ident, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return ident

    def notify(self, method, params=None):
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def receive(self, seconds=SECONDS):
        """The next message; None at the end or when nothing comes."""
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                return None
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def answer(self, ident, seconds=SECONDS):
        """The answer with this id; notifications before it go to notes."""
        while True:
            message = self.receive(seconds)
            if message is None:
                raise AssertionError(f"no answer to {ident}")
            if "method" in message:
                self.notes.append(message)
            elif message["id"] == ident:
                return message
            else:
                raise AssertionError(f"an answer to another request: {message}")

    def call(self, method, params=None):
        return self.answer(self.request(method, params))

    def initialize(self, version="2025-11-25"):
        done = self.call("initialize", {"protocolVersion": version, "capabilities": {},
                                        "clientInfo": {"name": "test", "version": "1"}})
        self.notify("notifications/initialized")
        return done["result"]

    # Tools

    def begin(self, name, meta=None, /, **arguments):
        params = {"name": name, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        return self.request("tools/call", params)

    def tool(self, name, meta=None, /, **arguments):
        return self.answer(self.begin(name, meta, **arguments))["result"]

    def data(self, name, /, **arguments):
        """The same of a client that asks for data beside the text."""
        return self.tool(name, {"com.snipara/data": True}, **arguments)

    def text(self, name, /, **arguments):
        """The text of a call that worked."""
        result = self.tool(name, **arguments)
        assert not result.get("isError"), result
        return text_of(result)

    def error(self, name, /, **arguments):
        """The text of a call that failed."""
        result = self.tool(name, **arguments)
        assert result.get("isError") is True, result
        return text_of(result)


def text_of(result):
    assert result["content"][0]["type"] == "text"
    return result["content"][0]["text"]
