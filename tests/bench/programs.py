# SPDX-License-Identifier: Apache-2.0
"""The same cell from programs in C, Python and TypeScript, in turns."""

import json
import os
import shutil
import subprocess

from runtime import PATIENCE_S, PYTHON, ROOT, Context, Failure, Runtime, Sample, percentile, take

BINDINGS = os.path.join(ROOT, "bindings")
MANY = 50
GAP_US = 5000  # by then the standby of the cell before exists
IMPORT = "import time; start = time.perf_counter(); import snipara_sandbox; print(time.perf_counter() - start)"


def python_package(ctx: Context) -> str:
    """A folder with the package, where its compiled files can be written."""
    folder = os.path.join(ctx.folder, "python")
    if not os.path.isdir(folder):
        shutil.copytree(os.path.join(BINDINGS, "python", "snipara_sandbox"), os.path.join(folder, "snipara_sandbox"),
                        ignore=shutil.ignore_patterns("__pycache__"))
    return folder


class Client:
    """A program that runs cells by a library, called as `snp-bench library` is, without the socket."""

    def __init__(self, key: str, text: str, runtime: Runtime, words: list[str], **env: str) -> None:
        self.key, self.text, self.words = key, text, words
        self.env = {**runtime.env, "SNIPARA_SANDBOX_LIBRARY": runtime.build, **env}
        self.times: list[float] = []

    def run(self, session: str, clients: int, runs: int, gap_us: int) -> list[Sample]:
        words = [*self.words, session, str(clients), str(runs), str(gap_us), "pass"]
        done = subprocess.run(words, env=self.env, cwd="/", capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=PATIENCE_S)
        if done.returncode != 0:
            raise Failure(f"{self.text}: {done.stderr.strip()[-400:]}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def cells_per_second(self, session: str, runs: int) -> float:
        rate: float = MANY * runs / self.run(session, MANY, runs, 0)[-1]["total_us"] * 1e6
        return rate


def each(ctx: Context, all_clients: list[Client]) -> None:
    """One session, one cell after the other."""
    for turn in range(ctx.runs(16, 2)):
        for one in all_clients if turn % 2 == 0 else reversed(all_clients):
            one.times += take(one.run("clients", 1, ctx.runs(50, 10), GAP_US))
    for one in all_clients:
        ctx.times(f"clients.{one.key}", f"cell 'pass' from a program in {one.text}", one.times)
    least = percentile(all_clients[0].times, 0.5)
    for one in all_clients[1:]:
        more = percentile(one.times, 0.5) - least
        ctx.add(f"clients.more.{one.key}", f"a cell from {one.text} costs more than one from C, p50", "ms", more / 1e3,
                n=len(one.times))


def together(ctx: Context, c: Client, loop: Client) -> None:
    """Many sessions at once: a process for each, or one event loop for all."""
    rates: dict[str, list[float]] = {c.key: [], loop.key: []}
    for turn in range(ctx.runs(6, 1)):
        for one in (c, loop) if turn % 2 == 0 else (loop, c):
            rates[one.key].append(one.cells_per_second("together", ctx.runs(20, 4)))
    for one, text in ((c, f"{MANY} programs in C"), (loop, "one program in Python with asyncio")):
        ctx.keep(f"clients.together.{one.key}", [{"cells_per_s": rate} for rate in rates[one.key]])
        ctx.add(f"clients.together.{one.key}", f"cells in a second, {MANY} sessions at once, {text}", "/s",
                percentile(rates[one.key], 0.5), n=len(rates[one.key]))
    shares = sorted(100 * mine / theirs for mine, theirs in zip(rates[loop.key], rates[c.key]))
    ctx.add("clients.together.share", "the latter over the former", "%", percentile(shares, 0.5), n=len(shares),
            note=f"{shares[0]:.0f} to {shares[-1]:.0f} % in the turns")


def clients(ctx: Context) -> None:
    """The same cell from C, Python and TypeScript, and many sessions at once."""
    runtime = ctx.runtime()
    folder = python_package(ctx)
    here = os.path.join(ROOT, "tests", "bench")
    script = os.path.join(here, "client.py")
    c = Client("c", "C", runtime, [runtime.watch, "library", runtime.socket])
    waiting = Client("python", "Python", runtime, [PYTHON, script, "sync"], PYTHONPATH=folder)
    loop = Client("asyncio", "Python, asyncio", runtime, [PYTHON, script, "async"], PYTHONPATH=folder)
    some = [c, waiting, loop]
    modules = os.path.join(runtime.build, "typescript-suite", "node_modules")
    node = shutil.which("node") or os.path.join(modules, "node", "bin", "node")
    if os.access(node, os.X_OK):
        some.append(Client("typescript", "TypeScript", runtime, [node, os.path.join(here, "client.mjs")]))
    runtime.exec("1")
    each(ctx, some)
    if len(some) == 3:
        ctx.add("clients.typescript", "cell 'pass' from a program in TypeScript", "", None, n=0,
                note="Node is not installed")
    together(ctx, c, loop)
    imports = [float(subprocess.run([PYTHON, "-c", IMPORT], env=waiting.env, cwd="/", capture_output=True, text=True,
                                    check=True).stdout) * 1e6 for _ in range(ctx.runs(20, 3))]
    ctx.times("clients.import", "import snipara_sandbox", imports)
    for i in range(MANY):
        runtime.try_bench("ask", runtime.socket, 1, json.dumps([
            {"method": "sessions.destroy", "session": f"together-{i}"}]))
