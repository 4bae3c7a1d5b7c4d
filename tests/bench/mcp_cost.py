#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/mcp_cost.py BUILD [RUNS [SUITE]]: how much the MCP server adds, measured in turns.

The same cell through the daemon's protocol and through mcp-serve, with durability `process`, so that
the disk does not hide the difference, each a moment after the one before, when the copy that stands by is
made; tools/list; start to first answer, with the daemon up and
without; 10 MB of output, and the server's memory after it. The same over HTTP on one connection that stays, then
16 at once as fast as they go. SUITE (a folder of tools/mcp-suite): beside it an
echo tool on the official TypeScript server. Everything is asked by this one process, by hand and
one after the other; what it costs itself (some 20 us, over HTTP 60) is in all figures. Of the server also the time it
had a processor is told, which says the same on a busy machine.
"""

import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if len(sys.argv) < 2:
    sys.exit(__doc__)
os.environ["SNP_BUILD"] = os.path.abspath(sys.argv[1])

import lib  # noqa: E402
import mcp_http  # noqa: E402

RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 500
CROWD = 16
PAUSE_S = 0.005
DIRECT = "the daemon's protocol, the same cell"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ECHO_HTTP = """
import http from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const require = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { McpServer } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const { StreamableHTTPServerTransport } = await load("@modelcontextprotocol/sdk/server/streamableHttp.js");
http.createServer(async (request, response) => {
    const server = new McpServer({ name: "echo", version: "1" });
    server.registerTool("echo", { description: "echo" }, async () => ({ content: [{ type: "text", text: "2" }] }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
    response.on("close", () => { transport.close(); server.close(); });
    await server.connect(transport);
    await transport.handleRequest(request, response);
}).listen(0, "127.0.0.1", function () { console.log(`http://127.0.0.1:${this.address().port}/mcp`); });
"""
ECHO = """
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const require = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { McpServer } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/server/stdio.js");
const server = new McpServer({ name: "echo", version: "1" });
server.registerTool("echo", { description: "echo" }, async () => ({ content: [{ type: "text", text: "2" }] }));
await server.connect(new StdioServerTransport());
"""


class Pipe:
    """Lines to a server and back, as plain as can be."""

    def __init__(self, command: Sequence[str], **kwargs: Any) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **kwargs)
        self.input, self.output = lib.some(self.process.stdin), lib.some(self.process.stdout)
        self.in_fd, self.out_fd = self.input.fileno(), self.output.fileno()

    def ask(self, line: bytes) -> bytes:
        os.write(self.in_fd, line)
        answer = b""
        while not answer.endswith(b"\n"):
            answer += os.read(self.out_fd, 1 << 20)
        return answer

    def begin(self) -> bytes:
        return self.ask(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
                        b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n')

    def close(self) -> None:
        self.input.close()
        self.process.wait()
        self.output.close()


class Http:
    """One connection that stays: a request, and the answer with its length."""

    def __init__(self, server: mcp_http.Server, message: Any) -> None:
        body = json.dumps(message).encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in server.headers().items())
        self.request = f"POST /mcp HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self.sock = server.connect()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        assert self.ask().startswith(b"HTTP/1.1 200"), self.buffer

    def send(self) -> None:
        self.buffer = b""
        self.sock.sendall(self.request)

    def take(self) -> bool:
        """Read once; whether the answer is whole."""
        self.buffer += self.sock.recv(1 << 16)
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return False
        at = head.lower().find(b"content-length:")
        if at < 0:  # a stream: it took more than a second
            return body.endswith(b"0\r\n\r\n")
        return len(body) >= int(head[at + 15:].split(b"\r", 1)[0])

    def ask(self) -> bytes:
        self.send()
        while not self.take():
            pass
        return self.buffer

    def close(self) -> None:
        self.sock.close()


def crowd(label: str, clients: Sequence[Http], count: int) -> None:
    """Each of them asks again when it is answered, `count` times in all."""
    with selectors.DefaultSelector() as waiting:
        for client in clients:
            waiting.register(client.sock, selectors.EVENT_READ, client)
        begun, sent, got = time.perf_counter(), 0, 0
        for client in clients:
            client.send()
            sent += 1
        while got < sent:
            for key, _ in waiting.select():
                if key.data.take():
                    got += 1
                    if sent < count:
                        key.data.send()
                        sent += 1
        spent = time.perf_counter() - begun
    print(f"{label:50} {got / spent:8.0f} calls/s, {len(clients)} at once, n {got}")


def over_http(box: lib.Sandbox, suite: str | None) -> None:
    """The same over HTTP: one, then a crowd, in turns with the official server."""
    cell = json.loads(call("execute_python", code="1 + 1", session_id="http"))
    with mcp_http.Server(box, "--no-project") as server:
        asked = {"HTTP, execute_python \"1 + 1\"": (server, cell), "HTTP, tools/list": (server, LIST),
                 "HTTP, ping": (server, PING)}
        other = None
        if suite:
            other = mcp_http.Server(None, command=[os.path.join(suite, "node_modules", ".bin", "node"),
                                                   "--input-type=module", "-e", ECHO_HTTP], cwd=suite)
            asked["official TypeScript server over HTTP, echo"] = (other, json.loads(call("echo")))
        clients = {label: Http(*what) for label, what in asked.items()}
        samples: dict[str, list[float]] = {label: [] for label in asked}
        used = dict.fromkeys(asked, 0.0)
        for _ in range(RUNS):
            for label, client in clients.items():
                pause(label)
                before = cpu(asked[label][0])
                timed(samples[label], client.ask)
                used[label] += cpu(asked[label][0]) - before
        for label, values in samples.items():
            line(label, values)
        for label, seconds in used.items():
            print(f"{label:50} {seconds / RUNS * 1e6:8.0f} us of a processor each")
        for label, (where, message) in asked.items():
            many = []
            for number in range(CROWD):
                if "arguments" in message.get("params", {}) and message["params"]["arguments"]:
                    message = json.loads(json.dumps(message))
                    message["params"]["arguments"]["session_id"] = f"http{number}"
                many.append(Http(where, message))
            crowd(label, many, RUNS * 8)
            for one in many:
                one.close()
        if other:
            other.close()


def call(name: str, **arguments: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    return json.dumps(message).encode() + b"\n"


def pause(label: str) -> None:
    if "execute_python" in label:
        time.sleep(PAUSE_S)


def line(label: str, samples: Iterable[float]) -> None:
    ordered = sorted(samples)
    p50, p90 = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 for share in (0.5, 0.9))
    print(f"{label:50} p50 {p50:8.3f} ms   p90 {p90:8.3f} ms   n {len(ordered)}")


def timed(samples: list[float], what: Callable[..., object], *args: object) -> None:
    begun = time.perf_counter()
    what(*args)
    samples.append(time.perf_counter() - begun)


def cpu(pipe: Pipe | mcp_http.Server) -> float:
    """Seconds a server has had a processor."""
    with open(f"/proc/{pipe.process.pid}/schedstat") as stat:
        return int(stat.read().split()[0]) / 1e9


def memory(pipe: Pipe) -> int:
    """KiB it holds."""
    with open(f"/proc/{pipe.process.pid}/statm") as stat:
        return int(stat.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10


def start_cold(user: str) -> dict[str, list[float]]:
    """Start to the first answer and to the first cell's result where no daemon runs yet."""
    first, cell = [], []
    for _ in range(5):
        box = lib.Sandbox(user, env={"SNIPARA_SANDBOX_DURABILITY": "process"})
        begun = time.perf_counter()
        one = Pipe([os.path.join(box.bin, "snipara-sandbox"), "mcp-serve", "--no-project"], env=box.env, cwd=box.home,
                   **box.identity())
        one.begin()
        first.append(time.perf_counter() - begun)
        one.ask(call("execute_python", code="1 + 1"))
        cell.append(time.perf_counter() - begun)
        one.close()
        subprocess.run([os.path.join(box.bin, "snipara-sandbox"), "daemon", "stop"], env=box.env, cwd=box.home,
                       stdout=subprocess.DEVNULL, check=True, **box.identity())
        box.close()
    return {"without a daemon, start to the first answer": first,
            "without a daemon, start to the first cell's result": cell}


def much_output(pipe: Pipe) -> tuple[list[float], int, int]:
    """10 MB printed, some times over: milliseconds each, and memory before and after."""
    message = call("execute_python", code="import sys; _ = sys.stdout.write('x' * 10_000_000)", session_id="much")
    pipe.ask(message)
    before = memory(pipe)
    samples: list[float] = []
    for _ in range(5):
        timed(samples, pipe.ask, message)
    return samples, before, memory(pipe)


def main() -> None:
    box = lib.Sandbox("root" if os.geteuid() == 0 else "user", env={"SNIPARA_SANDBOX_DURABILITY": "process"})
    box.start()
    program = os.path.join(box.bin, "snipara-sandbox")
    command = [program, "mcp-serve", "--no-project"]
    where = {"env": box.env, "cwd": box.home, **box.identity()}
    server = Pipe(command, **where)
    server.begin()
    rpc = box.client()
    assert b'"2"' in server.ask(call("execute_python", code="1 + 1", session_id="mcp"))
    code = b"1 + 1"

    def direct() -> lib.End:
        return rpc.call("exec", code, session="direct", kind="python", code_len=len(code), stream=False,
                        durability="process")

    direct()
    servers = {"mcp-serve, execute_python \"1 + 1\"": (server, call("execute_python", code="1 + 1", session_id="mcp")),
               "mcp-serve, tools/list": (server, b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n'),
               "mcp-serve, ping": (server, b'{"jsonrpc":"2.0","id":3,"method":"ping"}\n')}
    if len(sys.argv) > 3:
        node = os.path.join(sys.argv[3], "node_modules", ".bin", "node")
        echo = Pipe([node, "--input-type=module", "-e", ECHO], cwd=sys.argv[3])
        echo.begin()
        echo.ask(call("echo"))
        servers["official TypeScript server, echo tool"] = (echo, call("echo"))
        servers["official TypeScript server, tools/list"] = (echo, b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n')
    samples: dict[str, list[float]] = {DIRECT: []}
    samples.update((label, []) for label in servers)
    used = dict.fromkeys(servers, 0.0)
    for _ in range(RUNS):
        time.sleep(PAUSE_S)
        timed(samples[DIRECT], direct)
        for label, (pipe, message) in servers.items():
            pause(label)
            before = cpu(pipe)
            timed(samples[label], pipe.ask, message)
            used[label] += cpu(pipe) - before
    starts, cells = [], []
    for _ in range(20):
        begun = time.perf_counter()
        one = Pipe(command, **where)
        one.begin()
        starts.append(time.perf_counter() - begun)
        one.ask(call("execute_python", code="1 + 1", session_id="mcp"))
        cells.append(time.perf_counter() - begun)
        one.close()
    samples["mcp-serve, start to the first answer"] = starts
    samples["mcp-serve, start to the first cell's result"] = cells
    samples["mcp-serve, 10 MB printed"], before, after = much_output(server)
    samples.update(start_cold("root" if os.geteuid() == 0 else "user"))
    for label, values in samples.items():
        line(label, values)
    for label, seconds in used.items():
        print(f"{label:50} {seconds / RUNS * 1e6:8.0f} us of a processor each")
    print(f"memory {before} KiB, after 50 MB of output {after} KiB")
    print(f"tools/list has {len(server.ask(servers['mcp-serve, tools/list'][1]))} bytes")
    for pipe in {id(pipe): pipe for pipe, _ in servers.values()}.values():
        pipe.close()
    rpc.close()
    over_http(box, sys.argv[3] if len(sys.argv) > 3 else None)
    box.close()


if __name__ == "__main__":
    main()
