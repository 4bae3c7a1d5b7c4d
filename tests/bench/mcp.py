#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/mcp.py BUILD [RUNS [SUITE]]: how much the MCP server adds, measured in turns.

The same cell through the daemon's protocol and through mcp-serve, with durability `process`, so that
the disk does not hide the difference; tools/list; start to first answer, with the daemon up and
without; 10 MB of output, and the server's memory after it. SUITE (a folder of tools/mcp-suite): beside it an
echo tool on the official TypeScript server. Everything is asked by this one process, by hand and
one after the other; what it costs itself (some 20 us) is in all figures. Of the server also the time it
had a processor is told, which says the same on a busy machine.
"""

import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if len(sys.argv) < 2:
    sys.exit(__doc__)
os.environ["SNP_BUILD"] = os.path.abspath(sys.argv[1])

import lib  # noqa: E402

RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 500
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

    def __init__(self, command, **kwargs):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **kwargs)
        self.in_fd, self.out_fd = self.process.stdin.fileno(), self.process.stdout.fileno()

    def ask(self, line):
        os.write(self.in_fd, line)
        answer = b""
        while not answer.endswith(b"\n"):
            answer += os.read(self.out_fd, 1 << 20)
        return answer

    def begin(self):
        return self.ask(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
                        b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n')

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def call(name, **arguments):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    return json.dumps(message).encode() + b"\n"


def line(label, samples):
    samples = sorted(samples)
    at = lambda share: samples[min(len(samples) - 1, int(len(samples) * share))] * 1000  # noqa: E731
    print(f"{label:50} p50 {at(0.5):8.3f} ms   p90 {at(0.9):8.3f} ms   n {len(samples)}")


def timed(samples, what, *args):
    begun = time.perf_counter()
    what(*args)
    samples.append(time.perf_counter() - begun)


def cpu(pipe):
    """Seconds a server has had a processor."""
    with open(f"/proc/{pipe.process.pid}/schedstat") as stat:
        return int(stat.read().split()[0]) / 1e9


def memory(pipe):
    """KiB it holds."""
    with open(f"/proc/{pipe.process.pid}/statm") as stat:
        return int(stat.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10


def start_cold(user):
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


def much_output(pipe):
    """10 MB printed, some times over: milliseconds each, and memory before and after."""
    message = call("execute_python", code="import sys; _ = sys.stdout.write('x' * 10_000_000)", session_id="much")
    pipe.ask(message)
    before, samples = memory(pipe), []
    for _ in range(5):
        timed(samples, pipe.ask, message)
    return samples, before, memory(pipe)


def main():
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
    direct = lambda: rpc.call("exec", code, session="direct", kind="python", code_len=len(code), stream=False,
                              durability="process")  # noqa: E731
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
    samples = {"the daemon's protocol, the same cell": []}
    samples.update((label, []) for label in servers)
    used = dict.fromkeys(servers, 0.0)
    for _ in range(RUNS):
        timed(samples["the daemon's protocol, the same cell"], direct)
        for label, (pipe, message) in servers.items():
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
    box.close()


if __name__ == "__main__":
    main()
