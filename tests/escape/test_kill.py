# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the daemon, of its tier, and of both: no process, namespace or mount is left; after the
next start no control group and no file. Counted by the host."""

import glob
import os
import signal
import time
from collections.abc import Callable, Iterable

import lib
import pytest
from attacks.engine import tier_of

KILLS = ("daemon", "tier", "both")
# The log, the lock beside the socket, and the list of groups to remove.
KEPT = {"daemon.log", "sandboxd.sock.lock", "cgroups"}
MARK = "import ctypes; ctypes.CDLL(None).prctl(15, b'{}', 0, 0, 0)\n"
BUSY = '''
import os, signal, time
for number in range(5):
    if os.fork() == 0:
        os.setsid()
        for ignored in (1, 2, 3, 15):
            signal.signal(ignored, signal.SIG_IGN)
        time.sleep(600)
open("/tmp/left", "w").write("x" * 100000)
open("/workspace/left", "w").write("x" * 100000)
'''


def namespaces_of(pids: Iterable[int]) -> set[str]:
    found = set()
    for pid in pids:
        for kind in ("user", "mnt", "net", "pid", "ipc", "uts"):
            try:
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
            except OSError:
                pass
    return found


def now_ticks() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")


def left_in(spaces: set[str], ticks: float) -> list[tuple[int, str]]:
    """Processes that are in one of these namespaces and were there before.

    The numbers of ended namespaces are given out again, so what is younger, or belongs to
    a daemon that lives, is somebody else's. One that ended and waits for its parent is in none.
    """
    pids = [int(pid) for pid in os.listdir("/proc") if pid.isdigit()]
    others = set().union(*(lib.descendants(pid) for pid in pids if lib.program_of(pid) == "snipara-sandboxd"))
    return [(pid, lib.program_of(pid)) for pid in pids
            if pid not in others and spaces & namespaces_of([pid]) and lib.is_alive(pid)
            and int(lib.start_time(pid) or ticks + 1) <= ticks]


def cgroups_of(tier: int) -> list[str]:
    """Control groups are named after the user and the pid of their tier."""
    return [path for path in glob.glob("/sys/fs/cgroup/**/snipara-sandbox-*", recursive=True)
            if f"-{tier}-" in os.path.basename(path)]


def names_in(box: lib.Sandbox) -> set[str]:
    """Of its files, but for the home folder, and the journal: what was acknowledged is to stay."""
    return {name for folder, folders, names in os.walk(box.folder)
            for name in names if "/home" not in folder and "/state/journal" not in folder}


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("what", KILLS)
def test_nothing_remains_after_kill_9(fresh_sandbox: Callable[..., lib.Sandbox], who: str, what: str) -> None:
    box = fresh_sandbox(who)
    before = lib.host_mounts()
    daemon = box.start()
    box.exec(BUSY, session="one")
    box.exec(BUSY, session="two")
    running = box.popen("exec", "--session", "three", "--timeout", "600",
                        "print('in', flush=True); import time; time.sleep(600)")
    assert lib.some(running.stdout).readline() == b"in\n"
    tier = tier_of(box)
    processes = lib.descendants(daemon)
    started = lib.births(processes)
    spaces = namespaces_of(processes) - namespaces_of([os.getpid()])
    groups = cgroups_of(tier)
    assert len(processes) >= 18 and len(spaces) > 12
    assert lib.host_mounts() == before, "mounts of sessions show on the host"

    ticks = now_ticks()
    if what in ("tier", "both"):
        os.kill(tier, signal.SIGKILL)
    if what in ("daemon", "both"):
        os.kill(daemon, signal.SIGKILL)
    assert lib.wait_for(lambda: not lib.still_there(started)), "processes are left"
    # Begun just before the end, some may not have been seen.
    assert lib.wait_for(lambda: not left_in(spaces, ticks)), left_in(spaces, ticks)
    assert lib.host_mounts() == before
    running.communicate(timeout=lib.PATIENCE)
    assert running.returncode == 1

    # The next start removes what a dead one could not.
    if what != "tier" and box.daemon is not None:
        box.daemon.wait()
    assert box.exec("6 * 7")["value"] == "42"
    assert lib.wait_for(lambda: not cgroups_of(tier)), groups
    # Those of that cell's session are removed after its answer.
    assert lib.wait_for(lambda: names_in(box) <= KEPT | {"sandboxd.sock"}), names_in(box)


@pytest.mark.parametrize("who", ["root", "user"])
def test_nothing_remains_after_an_orderly_end(fresh_sandbox: Callable[..., lib.Sandbox], who: str) -> None:
    box = fresh_sandbox(who)
    before = lib.host_mounts()
    daemon = box.start()
    box.exec(BUSY, session="one")
    box.exec("print('x' * 1000000)", session="two")
    tier = tier_of(box)
    processes = lib.descendants(daemon)
    started = lib.births(processes)
    spaces = namespaces_of(processes) - namespaces_of([os.getpid()])
    ticks = now_ticks()
    assert box.stop() == 0
    assert lib.wait_for(lambda: not lib.still_there(started)), "processes are left"
    # Begun just before the end, some may not have been seen.
    assert lib.wait_for(lambda: not left_in(spaces, ticks)), left_in(spaces, ticks)
    assert lib.host_mounts() == before and cgroups_of(tier) == []
    assert names_in(box) <= KEPT


def test_nothing_remains_of_a_session_that_was_destroyed(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    for who in ("root", "user"):
        box = fresh_sandbox(who, env={"SNIPARA_SANDBOX_POOL": "0"})  # nothing that comes and goes
        box.exec(BUSY, session="gone")
        box.destroy("gone")
        tier = tier_of(box)

        def counts() -> tuple[int, int, int]:
            return len(lib.descendants(tier)), len(cgroups_of(tier)), len(os.listdir(f"/proc/{tier}/fd"))

        before = lib.settled(counts)
        for turn in range(5):
            box.exec(BUSY, session="gone")
            box.destroy("gone")
        assert lib.wait_for(lambda: counts() == before), (who, before, counts())


def test_a_client_that_dies_ends_its_unnamed_session(sandbox: lib.Sandbox) -> None:
    sandbox.exec("1")
    mark = "dies" + os.urandom(4).hex()
    running = sandbox.popen("exec", "--timeout", "600", MARK.format(mark) + "import time; time.sleep(600)")

    def marked() -> list[str]:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm") as comm:
                    found += [pid] if comm.read().strip() == mark else []
            except OSError:
                pass
        return found

    assert lib.wait_for(marked)
    running.kill()
    running.communicate()
    assert lib.wait_for(lambda: not marked())
