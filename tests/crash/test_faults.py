# SPDX-License-Identifier: Apache-2.0
"""The fault points themselves: they are reached, obey, and write down what happens to files."""

import contextlib
import os
import random
import signal

import pytest

import lib
from power import Disk
from story import Story


def test_points_are_counted_without_a_list(rig):
    rig.box.exec("1", session="s")
    counts = rig.faults.counts()
    assert counts["daemon", "send.socket"] > 0
    assert counts["tier-native", "recv.socket"] > 0
    assert counts["tier-native", "mkdir.cgroup"] > 0 or os.environ.get("SNIPARA_SANDBOX_NO_CGROUP")


@pytest.mark.parametrize("program", ["daemon", "tier-native"])
def test_a_program_dies_where_it_is_told_to(rig, program):
    rig.box.exec("1", session="s")
    victim = rig.box.daemon.pid if program == "daemon" else rig.box.tier_pid()
    rig.faults.order(program, "send.socket", 1, "kill")
    # By hand, because the command line would start a daemon again.
    with rig.box.client() as rpc, contextlib.suppress(EOFError, ConnectionError):
        rpc.call("exec", b"2", session="s", kind="python", code_len=1)
    assert lib.wait_for(lambda: not lib.is_alive(victim))
    assert rig.faults.obeyed() == 1
    if program == "daemon":
        assert rig.box.daemon.wait(60) == -signal.SIGKILL
    # An order is obeyed once: what comes after it lives.
    assert rig.box.exec("3", session="t")["value"] == "3"


def test_an_order_may_come_from_the_environment(make_rig):
    rig = make_rig(env={"SNP_FAULT": "daemon/send.socket:1:kill"})
    pid = rig.box.start()
    with rig.box.client() as rpc, contextlib.suppress(EOFError, ConnectionError):
        rpc.call("hello", version=1)
    assert lib.wait_for(lambda: not lib.is_alive(pid))


def test_calls_fail_when_they_are_told_to(rig):
    rig.box.exec("1")
    rig.faults.order("tier-native", "mkdir.cgroup", 1, "full", "ENOSPC")
    with pytest.raises((lib.CliError, AssertionError)):
        for i in range(8):  # those made ahead need none
            assert rig.box.exec("1", session=f"s{i}")["status"] == "ok"
    assert rig.faults.obeyed() > 0
    rig.faults.forget()
    assert lib.wait_for(lambda: rig.value("40 + 2") == "42")


def test_the_clock_is_what_tests_say(rig):
    rig.box.exec("1", session="s")
    with rig.box.client() as rpc:
        before = rpc.call("sessions.list")[1]["sessions"][0]
    rig.faults.set_clock(-10_000)
    rig.box.exec("1", session="t")
    with rig.box.client() as rpc:
        rows = {row["name"]: row for row in rpc.call("sessions.list")[1]["sessions"]}
    assert rows["s"]["created"] == before["created"]
    assert rows["t"]["created"] < before["created"] - 9_000


def test_the_record_has_every_change_of_the_state_folder(make_rig):
    rig = make_rig(io_max=256 << 20)
    rig.start()
    story = Story(rig.box, "s")
    for kind in ("ok", "error", "loud", "large"):
        story.cell(kind)
    story.put("file", b"x" * 100_000)
    story.checkpoint()
    story.hang_up()
    rig.box.stop()
    disk = Disk()
    for record in rig.faults.io():
        disk.play(record)
    tree = disk.after_cut("all", random.Random(0))
    for folder, _, names in os.walk(rig.box.state):
        for name in names:
            path = os.path.join(folder, name)
            rel = os.path.relpath(path, rig.box.state)
            if rel.endswith(("-shm", "/reserve")):  # mapped memory; room without a content
                continue
            with open(path, "rb") as real:
                assert tree[rel] == real.read(), rel
