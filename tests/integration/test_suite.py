# SPDX-License-Identifier: Apache-2.0
"""How tools/test runs commands (tests/suite)."""

import os
import sys
from pathlib import Path

import lib
from suite.lane import Behind
from suite.totals import Totals

# A process that lasts as long as a file.
PROCESS = """
import os, subprocess, sys, time
{}
print(os.getpid(), file=open({!r}, "a"), flush=True)
while os.path.exists({!r}):
    time.sleep(0.05)
"""


def priority(pid: int) -> tuple[int, str]:
    """The policy of a process, and the weight of its session: "" where the kernel has none."""
    try:
        with open(f"/proc/{pid}/autogroup") as autogroup:
            weight = autogroup.read().split()[-1]
    except FileNotFoundError:
        weight = ""
    return os.sched_getscheduler(pid), weight


def test_what_runs_behind_has_normal_priority_once_the_foreground_is_done(tmp_path: Path) -> None:
    pids, first, second = tmp_path / "pids", tmp_path / "first", tmp_path / "second"

    def command(last: Path) -> list[str]:
        child = PROCESS.format("", str(pids), str(last))
        start = f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)"
        return [sys.executable, "-c", PROCESS.format(start, str(pids), str(last))]

    def priorities(count: int) -> list[tuple[int, str]]:
        """Of the last command and its child, which leads another session, once `count` processes have begun."""
        begun = [int(line) for line in pids.read_text().split()] if pids.exists() else []
        return [priority(pid) for pid in begun[-2:]] if len(begun) == count else []

    first.touch()
    second.touch()
    behind = Behind(Totals(str(tmp_path)), "behind", lambda lane: lane.run(command(first)),
                    lambda lane: lane.run(command(second)))
    weighted = priority(os.getpid())[1] != ""
    idle = os.SCHED_IDLE if os.geteuid() == 0 else os.SCHED_OTHER, "19" if weighted else ""
    normal = os.SCHED_OTHER, "0" if weighted else ""
    try:
        assert lib.wait_for(lambda: priorities(2) == [idle] * 2), priorities(2)
        behind.join(0.1)
        assert lib.wait_for(lambda: priorities(2) == [normal] * 2), priorities(2)
        first.unlink()
        assert lib.wait_for(lambda: priorities(4) == [normal] * 2), priorities(4)
    finally:
        first.unlink(missing_ok=True)
        second.unlink()
        behind.join(lib.PATIENCE)
    assert not behind.is_alive()
