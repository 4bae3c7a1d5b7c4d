# SPDX-License-Identifier: Apache-2.0
"""The figures. Each function measures one group, in turns where things are compared.

A group gets a Context of runtime.py and adds rows to it; what a row is compared with is in report.py, by the
row's key. All samples are kept.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence

import containers
import context
import durable
import grounding
import pressure
import programs
from runtime import (MIB, PYTHON, ROLES, Context, Runtime, memory_available, percentile, process_tree, settle, take)

CODE = "print(1)"
IMPORTS = "import numpy, pandas"
KEEP_FREE = 3 << 30  # bytes; trying for many sessions must not take the machine down

BWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
         "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
         "--symlink", "usr/lib64", "/lib64", "--ro-bind-try", "/etc/alternatives", "/etc/alternatives",
         "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace",
         "--chdir", "/workspace", "--setenv", "PATH", "/usr/bin:/bin"]

CPU_CODE = """
import time, json, re
def work():
    a, b, words, text = 0, 1, {}, "the quick brown fox 12 jumps over 345 lazy dogs " * 40
    for i in range(LOOPS * 1000):
        a, b = b, (a + b) % 1000003
        words[a & 1023] = i
    for _ in range(LOOPS // 4):
        json.loads(json.dumps({str(k): v for k, v in words.items()}))
        re.sub(r"[0-9]+", "#", text)
    return sorted(words.values())[-1]
start, cpu = time.perf_counter(), time.process_time()
work()
wall, cpu = time.perf_counter() - start, time.process_time() - cpu
"""
STAT_CODE = """
import os, time
path = FOLDER + "/bench-stat"
open(path, "w").close()
stat = os.stat
start, cpu = time.perf_counter(), time.process_time()
for _ in range(COUNT):
    stat(path)
wall, cpu = time.perf_counter() - start, time.process_time() - cpu
os.unlink(path)
"""
FILES_CODE = """
import os, time
path = FOLDER + "/bench-file"
start, cpu = time.perf_counter(), time.process_time()
for _ in range(COUNT):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    os.unlink(path)
wall, cpu = time.perf_counter() - start, time.process_time() - cpu
"""


# Groups ---------------------------------------------------------------------------------------


def floor(ctx: Context) -> None:
    """The least a round trip costs here: processes in a chain that only pass a message on."""
    runs = ctx.runs(5000, 1000)
    watch = ctx.runtime()
    for hops in (1, 3, 5):
        sides: dict[str, list[float]] = {"free": [], "one": []}
        for _ in range(4):
            sides["free"] += take(watch.bench("pingpong", hops, runs // 4, 300))
            pinned = subprocess.run(["taskset", "-c", "0", watch.watch, "pingpong", str(hops), str(runs // 4),
                                     "300"], capture_output=True, text=True, check=True)
            sides["one"] += take(map(json.loads, pinned.stdout.splitlines()))
        word = "socket" + "s" * (hops > 1)
        ctx.times(f"floor.{hops}", f"message through {hops} {word} and back, no work done", sides["free"])
        ctx.times(f"floor.{hops}.pinned", "the same, all processes on one processor", sides["one"])


def fresh(ctx: Context) -> None:
    """New sessions: forked on demand, from the pool, and what others start, in turns."""
    demand, pool = ctx.on_demand(), ctx.runtime()
    rounds = ctx.runs(20, 3)
    ours: dict[tuple[str, str], list[float]] = {
        (kind, template): [] for kind in ("demand", "pool") for template in ("base", "data", "plot")}
    closes: list[float] = []
    rivals: dict[str, list[float]] = {"python": [], "python.imports": [], "bwrap": [], "bwrap.imports": []}
    has_bwrap = shutil.which("bwrap") is not None

    def ours_once(kind: str, template: str) -> None:
        runtime, gap_us, count = (demand, 0, 15) if kind == "demand" else (pool, 60000, 6)
        if template == "plot":
            count = (count + 2) // 3
        samples = runtime.bench("fresh", runtime.socket, template, count, gap_us, CODE)
        if kind == "demand":
            closes.extend(take(samples, "close_us"))
        samples = [s for s in samples if s["hit"] == (kind == "pool")]
        ours[kind, template] += take(samples)

    def rivals_once() -> None:
        words = ["1", PYTHON, "-c", "pass", "--", PYTHON, "-c", IMPORTS]
        if has_bwrap:
            words += ["--", *BWRAP, PYTHON, "-c", "pass", "--", *BWRAP, PYTHON, "-c", IMPORTS]
        for sample in pool.bench("spawn", *words):
            list(rivals.values())[sample["row"]].append(sample["us"])

    for kind, template in ours:
        (demand if kind == "demand" else pool).exec(CODE, "--template", template)
    for turn in range(rounds):
        steps = [lambda k=k, t=t: ours_once(k, t) for k, t in ours] + [rivals_once]
        for step in steps if turn % 2 == 0 else reversed(steps):
            step()
    for template in ("data", "base", "plot"):
        ctx.times(f"fresh.demand.{template}", f"new session to first result, {template}, pool empty, back to back",
                  ours["demand", template])
        if ours["pool", template]:
            ctx.times(f"fresh.pool.{template}", f"new session to first result, {template}, from the pool",
                      ours["pool", template])
    ctx.times("fresh.close", "end of a session until nothing is left", closes)
    ctx.times("rival.python", "python3 -c pass, no isolation", rivals["python"])
    ctx.times("rival.python.imports", f"python3 -c '{IMPORTS}', no isolation", rivals["python.imports"])
    if has_bwrap:
        ctx.times("rival.bwrap", "bwrap python3 -c pass", rivals["bwrap"])
        ctx.times("rival.bwrap.imports", f"bwrap python3 -c '{IMPORTS}'", rivals["bwrap.imports"])
        for key, text, rival in (("base", "pass", "bwrap"), ("data", IMPORTS, "bwrap.imports")):
            ratio = percentile(rivals[rival], 0.5) / percentile(ours["demand", key], 0.5)
            ctx.add(f"fresh.ratio.{key}", f"bwrap python3 -c '{text}' over new session on demand, {key}",
                    "times", ratio, n=rounds)


def refill(ctx: Context) -> None:
    """How many sessions in a second the pool hands out when they are asked for back to back."""
    pool = ctx.runtime()
    for template in ("base", "data"):
        pool.exec(CODE, "--template", template)
        hits, total_us, count = 0, 0.0, ctx.runs(60, 20)
        for _ in range(ctx.runs(5, 1)):
            samples = pool.bench("live", pool.socket, template, 0, count, CODE)
            pool.bench("end", pool.socket, 0, count)
            ctx.keep(f"refill.{template}", samples)
            hits += sum(s["hit"] for s in samples)
            total_us += sum(take(samples))
        asked = count * ctx.runs(5, 1)
        ctx.add(f"refill.{template}", f"{template}: sessions from the pool, back to back, none ended", "/s",
                hits / total_us * 1e6, n=asked, note=f"{100 * hits / asked:.0f} % of all came from it")


def cell(ctx: Context) -> None:
    """Cells in a session that is there."""
    runtime = ctx.runtime()
    for template in ("base", "data"):
        session = f"cell-{template}"
        runtime.exec("x = 1", "-s", session, "--template", template)
        runtime.bench("cell", runtime.socket, session, 50, "pass")
        for code in ("pass", CODE):
            samples = take(runtime.bench("cell", runtime.socket, session, ctx.runs(3000, 400), code))
            ctx.times(f"cell.{template}.{'print' if code == CODE else 'pass'}",
                      f"cell '{code}', {template}, through client, daemon and sandbox", samples)


def process(ctx: Context) -> None:
    """Whole commands, from start to exit."""
    runtime = ctx.runtime()
    program = runtime.program
    runtime.exec("x = 1", "-s", "process")
    rows = [
        ("process.new", "snipara-sandbox exec 'print(1)', new session", [program, "exec", CODE]),
        ("process.session", "snipara-sandbox exec -s NAME 'print(1)'", [program, "exec", "-s", "process", CODE]),
        ("process.version", "snipara-sandbox version", [program, "version"]),
        ("process.true", "/bin/true, the least that a process costs", ["/bin/true"]),
        ("process.python", "python3 -c pass, no isolation", [PYTHON, "-c", "pass"]),
    ]
    words: list[str] = []
    for _, _, command in rows:
        words += ["--", *command]
    samples = runtime.bench("spawn", ctx.runs(150, 20), *words[1:])
    for number, (key, text, _) in enumerate(rows):
        ctx.times(key, text, [s["us"] for s in samples if s["row"] == number])


def cold(ctx: Context) -> None:
    """No daemon runs: the first exec starts daemon, tier and template."""
    for template in ("base", "data", "plot"):
        times = []
        for _ in range(ctx.runs(5, 1)):
            runtime = ctx.runtime("cold")
            start = time.perf_counter_ns()
            runtime.exec(CODE, "--template", template)
            times.append((time.perf_counter_ns() - start) / 1e3)
            ctx.end("cold")
        ctx.times(f"cold.{template}", f"first exec, nothing running, {template}", times)


def rate(ctx: Context) -> None:
    """Sessions created, used once and ended, by several clients at once."""
    runtime = ctx.runtime()
    for template in ("base", "data"):
        runtime.exec(CODE, "--template", template)
        for clients in (1, 2, 8, 32):
            seconds = ctx.runs(4, 1)
            samples = runtime.bench("rate", runtime.socket, template, clients, seconds, CODE)
            ctx.keep(f"rate.{template}.{clients}", samples)
            total = samples[-1]
            times = [s["us"] + s["close_us"] for s in samples[:-1]]
            ctx.add(f"rate.{template}.{clients}",
                    f"{template}, {clients} client{'s' * (clients > 1)}: created, used and ended", "/s",
                    total["sessions"] / total["total_us"] * 1e6, n=total["sessions"],
                    note=f"p50 {percentile(times, 0.5) / 1e3:.1f} ms, p99 {percentile(times, 0.99) / 1e3:.1f} ms; "
                         f"{100 * sum(s['hit'] for s in samples[:-1]) / len(times):.0f} % from the pool")


def burst(ctx: Context) -> None:
    """A hundred clients ask for a session in the same moment."""
    runtime = ctx.runtime()
    for template in ("base", "data"):
        runtime.exec(CODE, "--template", template)
        times: list[float] = []
        for _ in range(ctx.runs(5, 1)):
            times += take(runtime.bench("burst", runtime.socket, template, 100, CODE))
        ctx.times(f"burst.{template}", f"first result, 100 new sessions asked for at once, {template}", times)


def page_tables(pids: Iterable[int]) -> int:
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status") as text:
                total += sum(int(line.split()[1]) << 10 for line in text if line.startswith("VmPTE:"))
        except OSError:
            pass
    return total


def by_role(pids: Iterable[int]) -> dict[str, list[int]]:
    """{role: pids} of the processes inside sandboxes."""
    found: dict[str, list[int]] = {role: [] for role in ROLES}
    for pid in pids:
        try:
            with open(f"/proc/{pid}/comm") as text:
                name = text.read().strip()
        except OSError:
            continue
        if name in found:
            found[name].append(pid)
    return found


def private_bytes(pids: Sequence[int]) -> float:
    """Mean of what processes have for themselves, page tables included."""
    sizes = []
    for pid in pids[:: max(1, len(pids) // 40)]:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as text:
                own = sum(int(line.split()[1]) << 10 for line in text if line.startswith("Private_"))
        except OSError:
            continue
        sizes.append(own + page_tables([pid]))
    return sum(sizes) / len(sizes) if sizes else 0


def live(ctx: Context) -> None:
    """Many sessions at once: what each costs, what the next costs, what ends it."""
    runtime = ctx.runtime("live")
    runtime.exec(CODE)
    settle()
    before, opened = memory_available(), 0
    steps = (1, 100, 500, 1000) if not ctx.is_quick else (1, 50, 200)
    runtime.bench("fresh", runtime.socket, "base", 5, 0, CODE)
    for count in steps:
        samples = runtime.bench("live", runtime.socket, "base", opened, count, CODE)
        ctx.keep("live.opened", samples)
        opened = count
        settle()
        times = take(runtime.bench("fresh", runtime.socket, "base", ctx.runs(40, 10), 0, CODE))
        ctx.times(f"live.next.{count}", f"new session to first result, base, while {count} live", times)
        session = take(runtime.bench("cell", runtime.socket, "live-0", ctx.runs(300, 100), "pass"))
        ctx.times(f"live.cell.{count}", f"cell in one of {count} live sessions", session)
    few, most = (ctx.rows[f"live.next.{count}"]["value"] for count in (steps[0], steps[-1]))
    ctx.add("live.flat", f"new session among {steps[-1]} live ones over one among {steps[0]}", "times", most / few, n=1)
    settle()
    used = (before - memory_available()) / opened
    pids = process_tree(runtime.tier_pid())
    inside = by_role(pids)
    own = {role: private_bytes(inside[role]) for role in ROLES}
    least = sum(own.values())
    note = None
    if used < least:  # others gave memory back meanwhile: what is private is used for certain
        note = f"by MemAvailable {used / MIB:.2f}, which others changed meanwhile; this is the sum of the private parts"
    ctx.add("live.memory", f"memory of each of {opened} live sessions, by MemAvailable", "MiB", max(used, least) / MIB,
            n=opened, **({"note": note} if note else {}))
    ctx.add("live.tables", "of that, page tables (VmPTE of all its processes)", "MiB",
            page_tables(sum(inside.values(), [])) / opened / MIB, n=opened)
    for role, text in (("init", "pid 1"), ("python", "the interpreter"), ("snapshot", "the pristine copy")):
        ctx.add(f"live.own.{role}", f"of that, private to {text}, page tables included", "MiB",
                own[role] / MIB, n=min(40, len(inside[role])))
    ctx.add("live.processes", "processes of a session", "", sum(map(len, inside.values())) / opened, n=opened)
    ctx.add("live.descriptors", "descriptors of the supervisor for a session", "",
            len(os.listdir(f"/proc/{runtime.tier_pid()}/fd")) / opened, n=opened)
    standbys(ctx, runtime, opened)
    if not ctx.is_quick:
        many(ctx, runtime, opened)
    ctx.end("live")


def private_each(runtime: Runtime, opened: int) -> float:
    """Bytes that the processes of a session have for themselves."""
    inside = by_role(process_tree(runtime.tier_pid()))
    return sum(private_bytes(inside[role]) * len(inside[role]) for role in ROLES) / opened


def standbys(ctx: Context, runtime: Runtime, opened: int) -> None:
    """What it adds that each session can go back to before its last cell."""
    before = private_each(runtime, opened)
    for _ in range(4):  # by then an interpreter knows which pages to have copied ahead
        for first in range(0, opened, 100):
            steps = [durable.cell_step(f"live-{i}", CODE, transaction=True, durability="process")
                     for i in range(first, min(first + 100, opened))]
            runtime.bench("ask", runtime.socket, 1, json.dumps(steps))
    settle()
    ctx.add("live.standby", "with a standby each, after four more cells: more private memory", "MiB",
            (private_each(runtime, opened) - before) / MIB, n=opened)


def many(ctx: Context, runtime: Runtime, opened: int) -> None:
    """5,000 live: how far it goes, and what says no first."""
    want = 5000
    complaint: str | None = None
    while opened < want and complaint is None:
        if memory_available() < KEEP_FREE:
            complaint = f"memory: less than {KEEP_FREE >> 30} GiB available, stopped by the benchmark"
            break
        samples, complaint = runtime.try_bench("live", runtime.socket, "base", opened, opened + 100, CODE)
        ctx.keep("live.opened", samples)
        opened += len(samples)
    ctx.add("live.most", f"sessions live at once, {want} tried", "", opened, n=1, note=complaint or "no limit met")


def compare(ctx: Context, key: str, text: str, code: str, runs: int) -> None:
    """The same code inside and outside, in turns; its own time, and that of its processor."""
    runtime = ctx.runtime()
    folder = tempfile.mkdtemp(prefix="snp-bench-", dir="/dev/shm")
    inside: list[list[float]] = []
    outside: list[list[float]] = []

    def inside_once() -> None:
        done = runtime.exec(code.replace("FOLDER", "'/tmp'") + "\n(wall, cpu)", "-s", "compare", "--timeout", "300")
        inside.append(json.loads(done["value"].replace("(", "[").replace(")", "]")))

    def outside_once() -> None:
        words = [PYTHON, "-I", "-c", code.replace("FOLDER", repr(folder)) + "\nprint([wall, cpu])"]
        done = subprocess.run(words, env=runtime.env, cwd="/", capture_output=True, check=True)
        outside.append(json.loads(done.stdout))

    try:
        for turn in range(runs + 1):
            for step in (inside_once, outside_once) if turn % 2 == 0 else (outside_once, inside_once):
                step()
    finally:
        os.rmdir(folder)
    inside, outside = inside[1:], outside[1:]  # the first turn warms
    ctx.keep(key, [{"inside_s": a, "outside_s": b} for a, b in zip(inside, outside)])
    wall, cpu = ([percentile([pair[i] for pair in side], 0.5) for side in (outside, inside)] for i in (0, 1))
    ctx.add(key, text, "%", 100 * wall[0] / wall[1], n=runs,
            note=f"by processor time {100 * cpu[0] / cpu[1]:.1f} %; {wall[1]:.2f} s inside, {wall[0]:.2f} s outside")


def speed(ctx: Context) -> None:
    """Code inside against the same interpreter outside."""
    ctx.runtime().exec("1", "-s", "compare")
    scale = ctx.runs(1, 10)
    compare(ctx, "speed.cpu", "CPU-bound Python inside, share of native speed",
            CPU_CODE.replace("LOOPS", str(ctx.runs(2000, 500))), ctx.runs(11, 3))
    compare(ctx, "speed.stat", f"{1000000 // scale:,} × stat inside, share of native speed (tmpfs)",
            STAT_CODE.replace("COUNT", str(1000000 // scale)), ctx.runs(7, 3))
    compare(ctx, "speed.files", f"{100000 // scale:,} × create and delete inside, share of native speed (tmpfs)",
            FILES_CODE.replace("COUNT", str(100000 // scale)), ctx.runs(7, 3))


GROUPS = {group.__name__: group for group in
          (floor, fresh, refill, cell, programs.clients, *durable.GROUPS, process, rate, burst, speed, cold, live,
           pressure.pressure, containers.containers, context.retrieval, context.context, grounding.grounding)}
