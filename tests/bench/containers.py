# SPDX-License-Identifier: Apache-2.0
"""The tiers side by side, containers on an engine of our own, and what `docker` itself needs for the same."""

import glob
import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any

from runtime import MIB, PATIENCE_S, PYTHON, ROOT, Context, Failure, Runtime, percentile, process_tree, settle, take

GAP_US = 50000  # by then the standby of the cell before exists, where the first touch of a page takes 20 us, too
LOOP = """
import time
start = time.process_time()
total = 0
for i in range(LOOPS):
    total = (total * 31 + i) % 1000003
cpu = time.process_time() - start
"""
POOL_S = 60
REFILL_S = 30  # containers for all pools
LIVE = 4  # sessions whose memory is looked at


class Tier:
    def __init__(self, key: str, text: str, name: str, runtime: str = "") -> None:
        self.key, self.text, self.runtime = key, text, runtime
        self.has_pool = name != "local"
        self.place = {"tier": name, **({"rootfs": f"python:3.11-slim#{runtime}"} if runtime else {})}
        self.session = "bench-" + key
        self.cells: list[float] = []
        self.starts: list[float] = []
        self.forks: list[float] = []
        self.cpu: list[float] = []


def steps(runtime: Runtime, runs: int, *asked: dict[str, Any]) -> list[dict[str, Any]]:
    return runtime.bench("ask", runtime.socket, runs, json.dumps(asked))


def has(engine: Any, name: str) -> bool:
    words = ["docker", "-H", engine.env["DOCKER_HOST"], "run", "--rm", "--network", "none", "--runtime", name,
             "python:3.11-slim", "true"]
    return subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S).returncode == 0


def cell(tier: Tier, code: str = "pass", **more: Any) -> dict[str, Any]:
    return {"method": "exec", "session": tier.session, "code": code, **tier.place, **more}


def warm(runtime: Runtime, tier: Tier, runs: int) -> None:
    tier.cells += take(steps(runtime, runs, cell(tier, wait_us=GAP_US)))


def start(runtime: Runtime, tier: Tier, runs: int) -> None:
    """Sessions of the pool, where there is one; asked again until that many came from it."""
    until = time.monotonic() + POOL_S
    hits = 0
    while hits < runs:
        if time.monotonic() > until:
            raise Failure(f"{tier.text}: the pool stays empty")
        sample = steps(runtime, 1, cell(tier, session=None, wait_us=200000))[0]
        if sample["hit"] or not tier.has_pool:
            hits += 1
            tier.starts.append(sample["us"])


def fork(runtime: Runtime, tier: Tier, runs: int) -> None:
    asked: list[dict[str, Any]] = [
        {"method": "fork", "from": tier.session, "n": 1, "name": tier.session + "-copy", "wait_us": 50000},
        {"method": "sessions.destroy", "session": tier.session + "-copy-1"}]
    tier.forks += [s["us"] for s in steps(runtime, runs, *asked) if s["step"] == 0]


def loop(runtime: Runtime, tier: Tier, loops: int) -> None:
    """Its processor time, inside over outside."""
    code = LOOP.replace("LOOPS", str(loops))
    outside = subprocess.run([PYTHON, "-I", "-c", code + "print(cpu)"], capture_output=True, check=True, text=True)
    inside = runtime.exec(code + "cpu", "-s", tier.session, "--timeout", "300")
    tier.cpu.append(float(inside["value"]) / float(outside.stdout))


def private_bytes(runtime: Runtime, engine: Any) -> int:
    """Of all processes of the tiers and of the engine's containers, with what the engine starts for each."""
    ours = set(process_tree(runtime.daemon_pid() or 0))
    total = 0
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/cgroup") as groups, open(path + "/cmdline") as words:
                if int(path[6:]) not in ours and engine.group not in groups.read() and \
                        f"-address {engine.folder}/" not in words.read().replace("\0", " "):
                    continue
            with open(path + "/smaps_rollup") as text:
                total += sum(int(line.split()[1]) << 10 for line in text if line.startswith("Pss:"))
        except (OSError, ValueError):
            pass
    return total


def memory(ctx: Context, engine: Any, tier: Tier) -> float:
    runtime = ctx.runtime("memory", SNIPARA_SANDBOX_POOL="0", **engine.env)
    runtime.exec("1")
    steps(runtime, 1, cell(tier))  # what is made once
    settle()
    before = private_bytes(runtime, engine)
    for number in range(LIVE):
        steps(runtime, 1, cell(tier, session=f"{tier.key}-{number}"))
    settle()
    used = (private_bytes(runtime, engine) - before) / LIVE
    ctx.end("memory")
    return used


def rivals(ctx: Context, runtime: Runtime, engine: Any, tier: Tier, runs: int) -> None:
    """A cell, and the same by `docker`, in turns."""
    docker = ["docker", "-H", engine.env["DOCKER_HOST"]]
    made = ["--network", "none", "--runtime", tier.runtime]
    held = subprocess.run([*docker, "run", "-d", "--rm", *made, "python:3.11-slim", "sleep", "3600"],
                          capture_output=True, text=True, check=True).stdout.strip()
    times: list[list[float]] = [[], []]
    code = ["python3", "-c", "pass"]
    try:
        for _ in range(runs):
            warm(runtime, tier, 10)
            for sample in runtime.bench("spawn", 1, *docker, "exec", held, *code, "--", *docker, "run", "--rm", *made,
                                        "python:3.11-slim", *code):
                times[sample["row"]].append(sample["us"])
    finally:
        subprocess.run([*docker, "kill", held], capture_output=True, check=False)
    for verb, found in ("exec", times[0]), ("run", times[1]):
        ctx.times(f"rival.docker.{verb}.{tier.runtime}", f"docker {verb} python3 -c pass, {tier.runtime}", found)
        ctx.add(f"containers.ratio.{verb}.{tier.runtime}", f"docker {verb} over a cell, {tier.runtime}", "times",
                percentile(found, 0.5) / percentile(tier.cells, 0.5), n=runs)


def show(ctx: Context, tier: Tier, used: float) -> None:
    pool = ", from the pool" if tier.has_pool else ""
    ctx.times(f"containers.start.{tier.key}", f"new session to first result{pool}, {tier.text}", tier.starts)
    ctx.times(f"containers.cell.{tier.key}", f"cell 'pass', transactional, synced, 50 ms after the one before, "
              f"{tier.text}", tier.cells)
    ctx.times(f"containers.fork.{tier.key}", f"fork of a live session, {tier.text}", tier.forks)
    ctx.add(f"containers.memory.{tier.key}", f"memory of a live session, {tier.text}", "MiB", used / MIB, n=LIVE)
    ctx.add(f"containers.cpu.{tier.key}", f"processor time of a loop over the host's, {tier.text}", "times",
            percentile(tier.cpu, 0.5), n=len(tier.cpu))


def containers(ctx: Context) -> None:
    """The tiers side by side, and docker exec and docker run of the same image."""
    if os.geteuid() != 0 or shutil.which("docker") is None:
        raise Failure("a container engine of our own needs root, dockerd and docker")
    os.environ["SNP_BUILD"] = ctx.build
    sys.path.insert(0, os.path.join(ROOT, "tests"))
    import engine as engines
    engine = engines.Engine()
    try:
        all_tiers = [Tier("native", "native", "native"), Tier("local", "local", "local"),
                     *(Tier(name, f"docker with {name}", "docker", name) for name in ("runc", "crun", "runsc")
                       if has(engine, name))]
        runtime = ctx.plain_runtime("containers", **engine.env)
        runtime.exec("1")
        for tier in all_tiers:
            steps(runtime, 3, cell(tier, "x = 1"))
        for _ in range(ctx.runs(5, 1)):
            settle(REFILL_S)
            for tier in all_tiers:
                warm(runtime, tier, ctx.runs(100, 10))
                fork(runtime, tier, ctx.runs(4, 2))
                loop(runtime, tier, ctx.runs(5000000, 500000))
            for tier in all_tiers:  # last: pools are filled behind
                start(runtime, tier, ctx.runs(6, 2))
        for tier in all_tiers:
            show(ctx, tier, memory(ctx, engine, tier))
            if tier.runtime:
                rivals(ctx, runtime, engine, tier, ctx.runs(20, 2))
    finally:
        ctx.end("memory")
        ctx.end("containers")
        engine.close()
