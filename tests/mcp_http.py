# SPDX-License-Identifier: Apache-2.0
"""A client of `mcp-serve --http` by hand: one connection a request, nothing hidden.

    with mcp_http.Server(box) as server:
        client = server.client()                    # legacy: shakes hands, keeps the session's id
        client.call("tools/list")["result"]
        server.raw(b"GET /mcp HTTP/1.1\\r\\n...")     # bytes in, bytes out
"""

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import mcp
from lib import PATIENCE, Json, Sandbox, some, search


class Server:
    """mcp-serve --http, or any program that prints its URL (`command`)."""

    def __init__(self, box: Sandbox | None, *options: str, address: str = "0", command: Sequence[str] | None = None,
                 env: Mapping[str, str] | None = None, cwd: str | None = None) -> None:
        self.box = box
        self.project = box.make_folder("project") if box else ""
        args = [] if not box or box.tier == "native" else ["--env", box.tier]
        if command is None:
            assert box is not None
            box.start()
            command = [os.path.join(box.bin, "snipara-sandbox"), "mcp-serve", "--http", address, *args, *options]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, cwd=cwd or self.project or None,
                                        env={**(box.env if box else os.environ), **(env or {})},
                                        **(box.identity() if box else {}))
        self.url = some(self.process.stdout).readline().decode().strip()
        self.errors = ""
        if not self.url:
            self.close()
            raise AssertionError(self.errors)
        self.path = self.url[5:] if self.url.startswith("unix:") else None
        self.port = 0 if self.path else int(search(r":(\d+)/mcp$", self.url).group(1))
        self.token = ""  # none
        if box and "--no-token" not in options:
            place = (options[options.index("--token-file") + 1] if "--token-file" in options else
                     os.path.join(box.env["SNIPARA_SANDBOX_STATE_DIR"], "mcp-token"))
            with open(place) as file:
                self.token = file.read().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int:
        """End it with SIGTERM: its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        errors = some(self.process.stderr)
        if not errors.closed:
            self.errors += errors.read().decode(errors="replace")
            errors.close()
            some(self.process.stdout).close()
        assert "Sanitizer" not in self.errors and "runtime error" not in self.errors, self.errors
        return status

    def connect(self) -> socket.socket:
        if self.path:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self.path)
        else:
            sock = socket.create_connection(("127.0.0.1", self.port))
        sock.settimeout(PATIENCE)
        return sock

    def headers(self, *without: str, **changed: str | None) -> dict[str, str]:
        """What a good request says; names with _ for -, None leaves one out."""
        made: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}", "Content-Type": "application/json",
                                       "Accept": "application/json, text/event-stream"}
        if self.token:
            made["Authorization"] = f"Bearer {self.token}"
        made.update({name.replace("_", "-"): value for name, value in changed.items()})
        return {name: value for name, value in made.items() if value is not None and name not in without}

    def send(self, body: Any = None, method: str = "POST", path: str = "/mcp",
             headers: Mapping[str, str] | None = None, sock: socket.socket | None = None) -> "Answer":
        """Begin a request: an Answer."""
        sock = sock or self.connect()
        body = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        headers = dict(self.headers() if headers is None else headers)
        if body is not None and "Transfer-Encoding" not in headers:
            headers.setdefault("Content-Length", str(len(body)))
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        sock.sendall(head.encode("latin-1") + b"\r\n" + (body or b""))
        return Answer(sock)

    def ask(self, *args: Any, **kwargs: Any) -> "Answer":
        """A request and its whole answer; its connection is closed."""
        answer = self.send(*args, **kwargs)
        answer.read()
        answer.sock.close()
        return answer

    def raw(self, data: bytes) -> "Answer":
        """Bytes in, the answer's bytes out, until the server closes or one answer is whole."""
        with self.connect() as sock:
            sock.sendall(data)
            answer = Answer(sock)
            answer.read()
            return answer

    def modern(self, method: str, params: Json | None = None, ident: Any = 1, **changed: str | None) -> Json:
        """One request of 2026-07-28 with the headers it needs."""
        params = {**(params or {}), "_meta": {**mcp.MODERN, **(params or {}).get("_meta", {})}}
        named: dict[str, str | None] = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method,
                                        "Mcp_Name": params.get("name", params.get("uri"))}
        headers = self.headers(**{**named, **changed})
        return {"body": {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}, "headers": headers}

    def client(self, version: str = "2025-11-25") -> "Client":
        return Client(self, version)


class Answer:
    """What comes back on a connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = b""
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_over = False

    def fill(self) -> bool:
        """False: the server closed."""
        part = self.sock.recv(1 << 16)
        self.buffer += part
        return bool(part)

    def head(self) -> Self:
        while b"\r\n\r\n" not in self.buffer:
            if not self.fill():
                self.is_over = True
                return self
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1])
        if self.status == 100:
            return self.head()
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        return self

    def part(self) -> bytes | None:
        """One part of the body; None at its end."""
        if "content-length" in self.headers:
            while len(self.buffer) < int(self.headers["content-length"]) and self.fill():
                pass
            part, self.buffer = self.buffer, b""
            self.is_over = True
            return part
        while b"\r\n" not in self.buffer:
            if not self.fill():
                self.is_over = True
                return None
        line, _, rest = self.buffer.partition(b"\r\n")
        size = int(line, 16)
        while len(rest) < size + 2:
            if not self.fill():
                self.is_over = True
                return None
            rest = self.buffer.partition(b"\r\n")[2]
        self.buffer = rest[size + 2:]
        self.is_over = size == 0
        return rest[:size] if size else None

    def read(self) -> Self:
        if self.status is None:
            self.head()
        while not self.is_over:
            part = self.part()
            self.body += part or b""
        return self

    def json(self) -> Any:
        self.read()
        assert self.headers["content-type"] == "application/json", self.headers
        return json.loads(self.body)

    def events(self) -> Iterator[Json]:
        """The events of a stream as they come: dicts with id, retry, data (JSON, or "")."""
        if self.status is None:
            self.head()
        assert self.headers["content-type"] == "text/event-stream", (self.status, self.headers)
        text = self.body  # of an answer that was read as a whole
        while text or not self.is_over:
            text += b"" if self.is_over else self.part() or b""
            if self.is_over and b"\n\n" not in text:
                break
            while b"\n\n" in text:
                block, _, text = text.partition(b"\n\n")
                parts = [line.partition(": ") for line in block.decode().split("\n") if not line.startswith(":")]
                event: Json = {name.rstrip(":"): value for name, _, value in parts}
                if event:
                    event["data"] = json.loads(event["data"]) if event.get("data") else ""
                    yield event

    def messages(self) -> list[Any]:
        """All messages, of a stream or the one JSON text."""
        if self.status is None:
            self.head()
        if self.headers.get("content-type") == "application/json":
            return [self.json()]
        return [event["data"] for event in self.events() if event["data"]]


class Client:
    """A legacy client."""

    def __init__(self, server: Server, version: str) -> None:
        self.server = server
        self.last = 0
        self.version = version
        done = server.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}})
        assert done.status == 200, done.body
        self.hello = done.json()["result"]
        self.session = done.headers["mcp-session-id"]
        assert self.notify("notifications/initialized").status == 202

    def headers(self, **changed: str | None) -> dict[str, str]:
        named: dict[str, str | None] = {"Mcp_Session_Id": self.session, "MCP_Protocol_Version": self.version}
        return self.server.headers(**{**named, **changed})

    def notify(self, method: str, params: Json | None = None) -> Answer:
        return self.server.ask({"jsonrpc": "2.0", "method": method, "params": params or {}}, headers=self.headers())

    def begin(self, method: str, params: Json | None = None, ident: Any = None,
              sock: socket.socket | None = None) -> Answer:
        self.last += 1
        ident = self.last if ident is None else ident
        return self.server.send({"jsonrpc": "2.0", "id": ident, "method": method, "params": params or {}},
                                headers=self.headers(), sock=sock)

    def call(self, method: str, params: Json | None = None) -> Any:
        answer = self.begin(method, params)
        message = answer.messages()[-1]
        answer.sock.close()
        return message

    def begin_tool(self, name: str, meta: Json | None = None, /, **arguments: Any) -> Answer:
        return self.begin("tools/call", {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})})

    def text(self, name: str, /, **arguments: Any) -> str:
        result = self.call("tools/call", {"name": name, "arguments": arguments})["result"]
        return mcp.text_of(result)

    def resume(self, event: str) -> Answer:
        return self.server.send(None, method="GET", headers=self.headers(
            Last_Event_ID=event, Accept="text/event-stream", Content_Type=None))
