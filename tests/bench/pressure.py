# SPDX-License-Identifier: Apache-2.0
"""Cells beside hostile or busy neighbours, and how soon limits act. Tests wait for events; only this file measures
times."""

import json
import subprocess
import time

from durable import ask, cell_step, destroy
from runtime import PATIENCE_S, Context, Failure, Runtime

LOCAL_LIMIT_MIB = 128
FORK_BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
REFUSED_CALLS = "import ctypes\nswapoff = ctypes.CDLL(None).swapoff\nwhile True: swapoff(b'/')"
BUSY = "while True: pass"
# {key: (text, code of each neighbour, number of neighbours)}
NEIGHBOURS = {
    "alone": ("cell 'pass', no other session", "", 0),
    "forks": ("the same beside a fork bomb", FORK_BOMB, 1),
    "refused": ("the same beside a session whose system calls are refused in a loop", REFUSED_CALLS, 1),
    "busy": ("the same beside four sessions that compute", BUSY, 4),
}
# {key: (text, limit in seconds, code that a limit or a defect ends)}
ENDS = {
    "time": ("time over a limit of 1 s, code that can be interrupted", 1, BUSY),
    "deaf": ("the same, code that ignores interrupts and is killed a second later", 1,
             "import signal\nsignal.signal(2, signal.SIG_IGN)\n" + BUSY),
    "stream": ("code that closes the interpreter's channel: time until the answer", 0,
               "import os\nos.closerange(3, 1024)"),
}
GROW = "data = []\nwhile True:\n    data.append(bytearray(b'x' * (1 << 20)))\n    print(len(data), flush=True)"


class Neighbour:
    """A session that runs code until close(), started by a separate command."""

    def __init__(self, runtime: Runtime, name: str, code: str) -> None:
        self.runtime, self.name = runtime, name
        runtime.exec("pass", "-s", name)
        words = [runtime.program, "exec", "-s", name, "--timeout", str(PATIENCE_S), "--no-transaction", code]
        self.process = subprocess.Popen(words, env=runtime.env, cwd="/", stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def close(self) -> None:
        if self.process.poll() is not None:
            raise Failure(f"{self.name}: its cell ended with status {self.process.returncode}")
        destroy(self.runtime, self.name)
        self.process.wait(timeout=PATIENCE_S)


def neighbours(ctx: Context) -> None:
    """Consecutive cells while other sessions load the machine."""
    runtime = ctx.runtime()
    runtime.exec("pass", "-s", "light")
    for key, (text, code, count) in NEIGHBOURS.items():
        others = [Neighbour(runtime, f"{key}-{i}", code) for i in range(count)]
        time.sleep(0.5)  # until they are at full load
        times = ask(runtime, ctx.runs(400, 40), cell_step("light", transaction=False, wait_us=5000))[0]
        for other in others:
            other.close()
        ctx.times(f"pressure.{key}", text, times)
    destroy(runtime, "light")


def run_to_its_end(runtime: Runtime, *words: str) -> tuple[float, str]:
    """A cell that fails: seconds, and its result as JSON."""
    start = time.perf_counter()
    done = subprocess.run([runtime.program, "exec", "--json", *words], env=runtime.env, cwd="/", text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)
    return time.perf_counter() - start, done.stdout


def ends(ctx: Context) -> None:
    """From the time at which a cell must end until its answer."""
    runtime = ctx.runtime()
    for key, (text, limit_s, code) in ENDS.items():
        times = []
        for _ in range(ctx.runs(20, 3)):
            runtime.exec("pass", "-s", "ends")
            seconds, _ = run_to_its_end(runtime, "-s", "ends", "--timeout", str(limit_s or PATIENCE_S), code)
            times.append(1e6 * (seconds - limit_s))
            destroy(runtime, "ends")
        ctx.times(f"pressure.end.{key}", text, times)
    held = []
    for _ in range(ctx.runs(10, 3)):
        _, text = run_to_its_end(runtime, "--env", "local", "--memory", f"{LOCAL_LIMIT_MIB}m", GROW)
        held.append(int(json.loads(text)["stdout"].split()[-1]))
    ctx.keep("pressure.memory", [{"held_mib": value} for value in held])
    ctx.add("pressure.memory", f"data held when the local tier ends a cell, limit {LOCAL_LIMIT_MIB} MiB, most of all",
            "MiB", max(held), n=len(held))


def workspaces(ctx: Context) -> None:
    """The cost of files in the workspace for a transactional cell, and for undoing it."""
    runtime = ctx.durable()
    for count in (0, 1000, 10000):
        name = f"files-{count}"
        runtime.exec(f"for i in range({count}):\n    open(f'file-{{i}}', 'w').write('x' * 1000)", "-s", name)
        kept, undone = [], []
        for _ in range(ctx.runs(20, 3)):
            kept += ask(runtime, 1, cell_step(name, "open('new', 'w').write('1')", wait_us=200000))[0]
            start = time.perf_counter()
            _, text = run_to_its_end(runtime, "-s", name, "import os\nos.remove('new')\nos._exit(3)")
            undone.append(1e6 * (time.perf_counter() - start))
            if json.loads(text)["state"] != "rolled_back":
                raise Failure(f"{name}: {json.loads(text)['state']} instead of rolled_back")
        ctx.times(f"pressure.kept.{count}", f"cell that writes a file, {count:,} files of 1,000 bytes", kept)
        ctx.times(f"pressure.undone.{count}", f"cell that is killed and undone, {count:,} files", undone)
        destroy(runtime, name)


def clients(ctx: Context) -> None:
    """From the exit of an MCP client until its server ends."""
    runtime = ctx.runtime()
    times = []
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}})
    for _ in range(ctx.runs(20, 3)):
        with subprocess.Popen([runtime.program, "mcp-serve"], env=runtime.env, cwd="/", stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
            assert server.stdin is not None and server.stdout is not None
            server.stdin.write(hello.encode() + b"\n")
            server.stdin.flush()
            server.stdout.readline()
            start = time.perf_counter()
            server.stdin.close()
            server.wait(timeout=PATIENCE_S)
            times.append(1e6 * (time.perf_counter() - start))
    ctx.times("pressure.mcp.close", "mcp-serve, from the end of its input to its own", times)


def pressure(ctx: Context) -> None:
    """Cells beside hostile neighbours; how soon limits act; undoing with many files."""
    neighbours(ctx)
    ends(ctx)
    workspaces(ctx)
    clients(ctx)
