# SPDX-License-Identifier: Apache-2.0
"""What it costs that nothing is lost: journal, transactions, snapshots, checkpoints."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any

from runtime import PATIENCE_S, PYTHON, Context, Runtime

Step = dict[str, Any]  # a request of snp-bench ask

MIB_OF_NUMPY = "import numpy; data = numpy.random.default_rng(1).random({} * 131072)"
# The same by hand, without isolation: what a program does that looks after itself.
BY_HAND = """
import json, os, pickle, sys, time, numpy
folder, mib, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
state = {"data": numpy.random.default_rng(1).random(mib * 131072), "small": list(range(1000))}
path = os.path.join(folder, "state.pickle")
for _ in range(runs):
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    forked = time.perf_counter()
    os.waitpid(pid, 0)
    begun = time.perf_counter()
    with open(path, "wb") as out:
        pickle.dump(state, out, protocol=5)
        out.flush()
        os.fsync(out.fileno())
    saved = time.perf_counter()
    with open(path, "rb") as file:
        pickle.load(file)
    print(json.dumps({"fork": (forked - start) * 1e6, "save": (saved - begun) * 1e6,
                      "load": (time.perf_counter() - saved) * 1e6}), flush=True)
"""
HELD = "import numpy, os, sys, time\nx = numpy.ones(int(sys.argv[1]) * 131072)\nprint(os.getpid(), flush=True)\n" \
       "while True: time.sleep(0.05)\n"


def ask(runtime: Runtime, runs: int, *steps: Step) -> list[list[float]]:
    """Times in microseconds of each step, run by run."""
    samples = runtime.bench("ask", runtime.socket, runs, json.dumps(steps))
    return [[s["us"] for s in samples if s["step"] == number] for number in range(len(steps))]


def destroy(runtime: Runtime, *names: str) -> None:
    for name in names:
        steps = json.dumps([{"method": "sessions.destroy", "session": name}])
        runtime.try_bench("ask", runtime.socket, 1, steps)


def cell_step(session: str, code: str = "pass", **more: Any) -> Step:
    return {"method": "exec", "session": session, "code": code, "tier": "native", **more}


def fdatasync_us(folder: str, runs: int) -> list[float]:
    """One page written and synced, as a journal does it."""
    path = os.path.join(folder, "synced")
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    times = []
    try:
        os.write(fd, bytes(65536))
        os.fsync(fd)
        for i in range(runs):
            os.pwrite(fd, bytes(4096), (i % 16) * 4096)
            start = time.perf_counter()
            os.fdatasync(fd)
            times.append((time.perf_counter() - start) * 1e6)
    finally:
        os.close(fd)
        os.unlink(path)
    return times


def journal(ctx: Context) -> None:
    """What a cell costs with and without transaction, on disk at once or after a while."""
    runtime = ctx.durable()
    runs = ctx.runs(2000, 200)
    ctx.times("journal.sync", "fdatasync of one page, by hand", fdatasync_us(ctx.folder, ctx.runs(500, 100)))
    kinds = [(t, d) for t in (True, False) for d in ("synced", "process")]
    times: dict[tuple[bool, str], list[float]] = {kind: [] for kind in kinds}
    idle: dict[tuple[bool, str], list[float]] = {kind: [] for kind in kinds}
    soon: dict[tuple[bool, str], list[float]] = {kind: [] for kind in kinds}
    for transaction, durability in kinds:
        options = ["--no-transaction"] * (not transaction) + ["--durability", durability]
        runtime.exec("x = 1", "-s", f"journal-{transaction}-{durability}", *options)
    for _ in range(4):
        for kind in kinds:
            transaction, durability = kind
            step = cell_step(f"journal-{transaction}-{durability}", transaction=transaction, durability=durability)
            times[kind] += ask(runtime, runs // 4, step)[0]
            idle[kind] += ask(runtime, runs // 40, dict(step, wait_us=20000))[0]
            soon[kind] += ask(runtime, runs // 40, dict(step, wait_us=5000))[0]
    for kind in kinds:
        name = ("transactional" if kind[0] else "plain") + ", " + kind[1]
        key = ("transactional" if kind[0] else "plain") + "." + kind[1]
        ctx.times(f"journal.{key}", f"cell 'pass', {name}, back to back", times[kind])
        ctx.times(f"journal.{key}.idle", f"cell 'pass', {name}, 20 ms after the one before", idle[kind])
        ctx.times(f"journal.{key}.soon", f"cell 'pass', {name}, 5 ms after the one before", soon[kind])
    destroy(runtime, *(f"journal-{transaction}-{durability}" for transaction, durability in kinds))
    together(ctx)


def together(ctx: Context) -> None:
    """Sessions side by side: their outcomes share commits, each on disk before it is answered."""
    runtime = ctx.durable()
    runs, clients = ctx.runs(400, 50), 32
    names = [f"together-{i}" for i in range(clients)]
    for name in names:
        runtime.exec("x = 1", "-s", name, "--no-transaction")
    steps = {name: json.dumps([cell_step(name, transaction=False, durability="synced")]) for name in names}
    for count in (1, 8, clients):
        seconds = runtime.bench_all([("ask", runtime.socket, runs, steps[name]) for name in names[:count]])
        ctx.keep(f"journal.together.{count}", [{"cells": runs * count, "s": seconds}])
        ctx.add(f"journal.together.{count}",
                f"cells in a second, {count} session{'s' * (count > 1)} at once, plain, synced", "/s",
                runs * count / seconds, n=runs * count)
    destroy(runtime, *names)


def snapshots(ctx: Context) -> None:
    """Snapshot, rollback and fork in memory, by size, and fork and pickle by hand."""
    runtime = ctx.durable()
    for mib in (1, 10, 30, 100, 300):
        name = f"snapshots-{mib}"
        runtime.exec(MIB_OF_NUMPY.format(mib), "-s", name, "--template", "data", "--memory", "2g")
        # A rollback waits until the snapshot is on disk, too: here it is asked for after that.
        pause_us = 50000 + 3000 * mib
        steps = [{"method": "snapshot", "session": name, "wait_us": 50000},
                 cell_step(name, "data[0] = 1"),
                 {"method": "rollback", "session": name, "snapshot": "$snapshot", "wait_us": pause_us},
                 {"method": "snapshots.remove", "snapshot": "$snapshot", "wait_us": 50000}]
        try:
            first = [dict(step, wait_us=20 * step.get("wait_us", 0)) for step in steps]
            ask(runtime, 1, *first)
            times = ask(runtime, ctx.runs(30, 5), *steps)
            ctx.times(f"snapshots.{mib}", f"snapshot of a session that holds {mib} MiB", times[0])
            ctx.times(f"rollback.{mib}", f"rollback to the snapshot, {mib} MiB", times[2])
            forks: list[Step] = [
                {"method": "fork", "from": name, "n": 1, "name": name + "-copy", "wait_us": 50000},
                {"method": "sessions.destroy", "session": name + "-copy-1"}]
            times = ask(runtime, ctx.runs(10, 3), *forks)
            ctx.times(f"fork.{mib}", f"fork of the snapshot into a separate session, {mib} MiB", times[0])
        finally:
            destroy(runtime, name, name + "-copy-1")
    by_hand(ctx, 100)


def images(ctx: Context) -> None:
    """Sessions that variables cannot hold: fork of a live one, image after a small change, wake; by size."""
    runtime = ctx.durable()
    medians = []
    for mib in (0, 100, 300):
        name, runs = f"images-{mib}", ctx.runs(10, 3)
        code = MIB_OF_NUMPY.format(mib) + "\nsquares = (n * n for n in range(10 ** 9))"
        runtime.exec(code, "-s", name, "--template", "data", "--memory", "2g", "--checkpoint", "off")
        copies = [f"{name}-copy-{number}" for number in range(1, 17)]
        change = cell_step(name, "data[:1] = next(squares)", checkpoint="off", wait_us=100000)
        save: Step = {"method": "checkpoint", "session": name, "wait_us": 100000}
        ends: list[Step] = [{"method": "sessions.destroy", "session": copy} for copy in copies]
        fork: Step = {"method": "fork", "from": name, "n": 1, "name": name + "-copy", "wait_us": 100000}
        try:
            ask(runtime, 1, save)
            times = ask(runtime, runs, fork, cell_step(copies[0], "next(squares)"), ends[0])
            firsts = [made + looked for made, looked in zip(times[0], times[1])]
            medians.append(sorted(firsts)[len(firsts) // 2])
            ctx.times(f"images.fork.{mib}", f"fork of a live session by image to its first result, {mib} MiB", firsts)
            if mib == 0:
                many = ask(runtime, ctx.runs(5, 1), dict(fork, n=16), *ends)[0]
                ctx.times("images.fork.16", "fork -n 16 by image, each", [us / 16 for us in many])
            times = ask(runtime, runs, change, save)
            ctx.times(f"images.save.{mib}", f"checkpoint with an image after a small change, {mib} MiB", times[1])
            times = ask(runtime, runs, {"method": "hibernate", "session": name},
                        dict(change, wait_us=300000))
            ctx.times(f"images.wake.{mib}", f"wake by image to the first result, {mib} MiB", times[1])
        finally:
            destroy(runtime, name, *copies)
    ctx.add("images.fork.ratio", "fork by image, 300 MiB to 0 MiB", "times", medians[-1] / medians[0], n=1)


def by_hand(ctx: Context, mib: int) -> None:
    done = subprocess.run([PYTHON, "-c", BY_HAND, ctx.folder, str(mib), str(ctx.runs(10, 3))],
                          capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for key, text in (("fork", "os.fork by hand of an interpreter that holds"),
                      ("save", "pickle and fsync by hand of"), ("load", "unpickle by hand of")):
        ctx.times(f"hand.{key}.{mib}", f"{text} {mib} MiB", [row[key] for row in rows])


def checkpoints(ctx: Context) -> None:
    """A session of 30 MiB to disk and back."""
    runtime = ctx.durable()
    first: list[float] = []
    again: list[float] = []
    wakes: list[float] = []
    for i in range(ctx.runs(20, 3)):
        name = f"checkpoints-{i}"
        runtime.exec(MIB_OF_NUMPY.format(30), "-s", name, "--template", "data", "--checkpoint", "off")
        steps = [{"method": "checkpoint", "session": name, "wait_us": 100000},
                 cell_step(name, "small = 1", checkpoint="off"),
                 {"method": "checkpoint", "session": name, "wait_us": 100000},
                 {"method": "hibernate", "session": name},
                 cell_step(name, "small", checkpoint="off", wait_us=200000)]
        try:
            times = ask(runtime, 1, *steps)
        finally:
            destroy(runtime, name)
        first += times[0]
        again += times[2]
        wakes += times[4]
    ctx.times("checkpoint.first", "first checkpoint of an idle session, 30 MiB", first)
    ctx.times("checkpoint.again", "the next one, after a small change", again)
    ctx.times("checkpoint.wake", "wake by a cell, 30 MiB", wakes)
    by_hand(ctx, 30)
    criu(ctx, 30)


def criu_run(folder: str, *words: str) -> str | None:
    """Whether it worked; else what it says first of what went wrong."""
    log = os.path.join(folder, "log")
    done = subprocess.run(["criu", words[0], "-D", folder, "-v1", "-o", log, *words[1:]], capture_output=True,
                          text=True, timeout=PATIENCE_S)
    if done.returncode == 0:
        return None
    try:
        with open(log) as text:
            lines = text.read().splitlines()
    except OSError:
        lines = []
    said = [line for line in lines + done.stderr.splitlines() if "Error" in line and "exited, status" not in line]
    return said[0].partition("): ")[2][:150] or said[0][:150] if said else f"it ends with {done.returncode}"


def criu(ctx: Context, mib: int) -> None:
    """Dump and restore of an interpreter by CRIU, where it works; else a row that says why not."""
    text = f"CRIU dump and restore of an interpreter that holds {mib} MiB"
    if shutil.which("criu") is None:
        ctx.add("criu", text, "", None, n=0, note="not installed")
        return
    dumps, restores = [], []
    for _ in range(ctx.runs(5, 1)):
        folder = tempfile.mkdtemp(dir=ctx.folder)
        held = subprocess.Popen([PYTHON, "-c", HELD, str(mib)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, start_new_session=True)
        output = held.stdout
        assert output is not None
        try:
            output.readline()
            start = time.perf_counter()
            problem = criu_run(folder, "dump", "-t", str(held.pid))
            dumped = time.perf_counter()
            if problem is None:
                held.wait(PATIENCE_S)
                restoring = time.perf_counter()
                problem = criu_run(folder, "restore", "-d")
                restored = time.perf_counter()
            if problem is not None:
                ctx.add("criu", text, "", None, n=0, note="does not work here: " + problem)
                return
            os.kill(held.pid, signal.SIGKILL)  # it has its number again, and is nobody's child
            dumps.append((dumped - start) * 1e6)
            restores.append((restored - restoring) * 1e6)
        finally:
            if held.poll() is None:
                held.kill()
            held.wait()
            output.close()
            shutil.rmtree(folder, ignore_errors=True)
    ctx.times("criu.dump", f"CRIU dump of an interpreter that holds {mib} MiB", dumps)
    ctx.times("criu.restore", "CRIU restore of it", restores)


GROUPS = (journal, snapshots, images, checkpoints)
