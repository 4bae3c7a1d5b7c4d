# SPDX-License-Identifier: Apache-2.0
"""What figures are measured with: runtimes of our own, the stop-watch, the machine's state."""

import datetime
import json
import os
import platform
import resource
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterable, Sequence
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = "/usr/bin/python3"
MIB = 1 << 20
Sample = dict[str, Any]
Row = dict[str, Any]  # a figure as it is shown
PATIENCE_S = 300  # what is started here and takes longer is stuck
ROLES = ("init", "python", "snapshot")  # names of a sandbox's processes
AWAKE = {"SNIPARA_SANDBOX_MAX_LIVE_SESSIONS": "8192", "SNIPARA_SANDBOX_LIVE_MEMORY": "1t",
         "SNIPARA_SANDBOX_CHECKPOINT_AFTER": "86400"}


class Failure(Exception):
    """A measurement could not be made."""


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as text:
            return text.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as text:
            return [int(word) for word in text.read().split()]
    except OSError:
        return []


def process_tree(pid: int) -> list[int]:
    found = []
    todo = children(pid)
    while todo:
        found.append(todo.pop())
        todo += children(found[-1])
    return found


class Runtime:
    """A daemon of our own, started by its first use; settings go to it as variables."""

    def __init__(self, build: str, folder: str, **settings: str) -> None:
        self.build = build
        self.program = os.path.join(build, "snipara-sandbox")
        self.watch = os.path.join(build, "snp-bench")
        self.run_dir = os.path.join(folder, "run")
        state_dir = os.path.join(folder, "state")
        for path in (folder, self.run_dir, state_dir):
            os.makedirs(path, mode=0o700, exist_ok=True)
        self.socket = os.path.join(self.run_dir, "sandboxd.sock")
        self.log = os.path.join(state_dir, "daemon.log")
        self.env = {"PATH": "/usr/bin:/bin", "HOME": folder, "LANG": "C.UTF-8",
                    "SNIPARA_SANDBOX_RUNTIME_DIR": self.run_dir, "SNIPARA_SANDBOX_STATE_DIR": state_dir,
                    **settings}

    def exec(self, code: str, *options: str) -> Sample:
        """One cell through the command line; its result."""
        words = [self.program, "exec", "--json", *options, code]
        try:
            done = subprocess.run(words, env=self.env, cwd="/", capture_output=True, stdin=subprocess.DEVNULL,
                                  timeout=PATIENCE_S)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"exec: no end after {PATIENCE_S} s") from late
        if done.returncode != 0:
            raise Failure(f"exec: {(done.stdout + done.stderr).decode(errors='replace')[-400:]}")
        result: Sample = json.loads(done.stdout)
        return result

    def bench(self, mode: str, *args: object) -> list[Sample]:
        """The stop-watch's samples."""
        samples, complaint = self.try_bench(mode, *args)
        if complaint is not None:
            raise Failure(f"{mode} {args[0]}: {complaint}")
        return samples

    def try_bench(self, mode: str, *args: object) -> tuple[list[Sample], str | None]:
        """Also its complaint, or None."""
        words = [self.watch, mode, *map(str, args)]
        try:
            done = subprocess.run(words, env=self.env, cwd="/", capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"{' '.join(words[1:3])}: no end after {PATIENCE_S} s") from late
        samples = [json.loads(line) for line in done.stdout.splitlines()]
        complaint = done.stderr.strip().removeprefix("snp-bench: ") if done.returncode != 0 else None
        return samples, complaint

    def bench_all(self, calls: Sequence[Sequence[object]]) -> float:
        """The stop-watch several times at once; the seconds until the last has ended."""
        start = time.perf_counter()
        running = [subprocess.Popen([self.watch, *map(str, words)], env=self.env, cwd="/", stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for words in calls]
        try:
            for process in running:
                complaint = process.communicate(timeout=PATIENCE_S)[1]
                if process.returncode != 0:
                    raise Failure(f"{calls[0][0]}: {complaint.strip()}")
            return time.perf_counter() - start
        except subprocess.TimeoutExpired as late:
            raise Failure(f"{calls[0][0]}: no end after {PATIENCE_S} s") from late
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                    process.wait()

    def daemon_pid(self) -> int | None:
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(self.socket)
                pid: int = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
                return pid
        except OSError:
            return None

    def tier_pid(self) -> int:
        return children(self.daemon_pid() or 0)[0]

    def close(self) -> None:
        pid = self.daemon_pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        while is_running(pid):
            time.sleep(0.005)


def percentile(values: Iterable[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


class Context:
    """Runtimes to measure with, and what was measured."""

    def __init__(self, build: str, folder: str, raw_folder: str, is_quick: bool) -> None:
        self.build = build
        self.folder = folder
        self.raw_folder = raw_folder
        self.is_quick = is_quick
        self.runtimes: dict[str, Runtime] = {}
        self.rows: dict[str, Row] = {}
        self.order: list[str] = []
        self.group = ""
        self.busy = 0.0

    def runtime(self, name: str = "pool", **settings: str) -> Runtime:
        """The runtime of that name; the settings count when it is made. Sessions stay awake and are not saved."""
        return self.plain_runtime(name, **AWAKE, **settings)

    def plain_runtime(self, name: str, **settings: str) -> Runtime:
        if name not in self.runtimes:
            self.runtimes[name] = Runtime(self.build, os.path.join(self.folder, name), **settings)
        return self.runtimes[name]

    def durable(self) -> Runtime:
        """One with its defaults."""
        return self.plain_runtime("durable")

    def on_demand(self) -> Runtime:
        return self.runtime("demand", SNIPARA_SANDBOX_POOL="0")

    def end(self, name: str) -> None:
        if name in self.runtimes:
            self.runtimes.pop(name).close()

    def runs(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full

    def begin(self, group: str) -> None:
        settle()
        self.group = group
        self.busy = busy_share()

    def times(self, key: str, text: str, values_us: Sequence[float]) -> None:
        """A row of times; values in microseconds, shown in milliseconds."""
        if not values_us:
            raise Failure(f"{text}: no sample")
        self.keep(key, ({"us": value} for value in values_us))
        self.add(key, text, "ms", percentile(values_us, 0.5) / 1e3, p95=percentile(values_us, 0.95) / 1e3,
                 p99=percentile(values_us, 0.99) / 1e3, n=len(values_us))

    def add(self, key: str, text: str, unit: str, value: float | None, **more: Any) -> None:
        self.rows[key] = {"key": key, "group": self.group, "text": text, "unit": unit, "value": value,
                          "busy_before": round(self.busy, 2), **more}
        self.order.append(key)

    def keep(self, key: str, samples: Iterable[Sample]) -> None:
        os.makedirs(self.raw_folder, exist_ok=True)
        with open(os.path.join(self.raw_folder, self.group + ".jsonl"), "a") as out:
            for sample in samples:
                out.write(json.dumps({"row": key, **sample}) + "\n")


def take(samples: Iterable[Sample], member: str = "us") -> list[float]:
    return [sample[member] for sample in samples if member in sample]


# The machine ----------------------------------------------------------------------------------


def memory_available() -> int:
    with open("/proc/meminfo") as text:
        for line in text:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    raise Failure("no MemAvailable in /proc/meminfo")


def busy_share(seconds: float = 0.5) -> float:
    """How much of the processors is in use while we do nothing, 0 to 1."""
    def ticks() -> tuple[int, int]:
        with open("/proc/stat") as text:
            numbers = [int(word) for word in text.readline().split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]

    total, idle = ticks()
    time.sleep(seconds)
    total_after, idle_after = ticks()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def settle(limit: float = 3.0) -> None:
    """Wait (bounded) until what earlier figures left behind has ended."""
    end = time.monotonic() + limit
    while busy_share(0.25) > 0.2 and time.monotonic() < end:
        pass


def cpu_name() -> str:
    with open("/proc/cpuinfo") as text:
        names = [line.partition(":")[2].strip() for line in text if line.startswith("model name")]
    return names[0] if names else platform.machine()


def system_name() -> str:
    with open("/etc/os-release") as text:
        names = dict(line.rstrip("\n").split("=", 1) for line in text if "=" in line)
    return names.get("PRETTY_NAME", "unknown").strip('"')


def commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()

    name = git("rev-parse", "--short=10", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/benchmarks.md")
    return (name or "unknown") + (" with changes" if changed else "")


def machine() -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "kernel": platform.release(), "system": system_name(), "cpu": cpu_name(), "cpus": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30), 1),
        "python": platform.python_version(), "user": "root" if os.getuid() == 0 else "an ordinary user",
        "commit": commit(), "load": os.getloadavg()[0],
        "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
    }
