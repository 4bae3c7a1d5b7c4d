# SPDX-License-Identifier: Apache-2.0
"""The fault points themselves: they are reached, obey, and write down what happens to files."""

import contextlib
import os
import random
import signal
from typing import Any

import pytest

import lib
from power import Disk
from rig import MakeRig, Rig
from story import Story


def test_points_are_counted_without_a_list(rig: Rig) -> None:
    rig.box.exec("1", session="s")
    counts = rig.faults.counts()
    assert counts["daemon", "send.socket"] > 0
    assert counts["tier-native", "recv.socket"] > 0
    assert counts["tier-native", "mkdir.cgroup"] > 0 or os.environ.get("SNIPARA_SANDBOX_NO_CGROUP")


@pytest.mark.parametrize("program", ["daemon", "tier-native"])
def test_a_program_dies_where_it_is_told_to(rig: Rig, program: str) -> None:
    rig.box.exec("1", session="s")
    tier = rig.box.tier_pid()
    assert tier is not None
    victim = rig.daemon.pid if program == "daemon" else tier
    rig.faults.order(program, "send.socket", 1, "kill")
    # By hand, because the command line would start a daemon again.
    with rig.box.client() as rpc, contextlib.suppress(EOFError, ConnectionError):
        rpc.call("exec", b"2", session="s", kind="python", code_len=1)
    assert lib.wait_for(lambda: not lib.is_alive(victim))
    assert rig.faults.obeyed() == 1
    if program == "daemon":
        assert rig.daemon.wait(lib.PATIENCE) == -signal.SIGKILL
    # An order is obeyed once: what comes after it lives.
    assert rig.box.exec("3", session="t")["value"] == "3"


def test_an_order_may_come_from_the_environment(make_rig: MakeRig) -> None:
    rig = make_rig(env={"SNP_FAULT": "daemon/send.socket:1:kill"})
    pid = rig.box.start()
    with rig.box.client() as rpc, contextlib.suppress(EOFError, ConnectionError):
        rpc.call("hello", version=1)
    assert lib.wait_for(lambda: not lib.is_alive(pid))


def test_calls_fail_when_they_are_told_to(rig: Rig) -> None:
    rig.box.exec("1")
    rig.faults.order("tier-native", "mkdir.cgroup", 1, "full", "ENOSPC")
    with pytest.raises((lib.CliError, AssertionError)):
        for i in range(8):  # those made ahead need none
            assert rig.box.exec("1", session=f"s{i}").get("status") == "ok"
    assert rig.faults.obeyed() > 0
    rig.faults.forget()
    assert lib.wait_for(lambda: rig.value("40 + 2") == "42")


def test_the_clock_is_what_tests_say(rig: Rig) -> None:
    rig.box.exec("1", session="s")
    with rig.box.client() as rpc:
        before = rpc.call("sessions.list")[1]["sessions"][0]
    rig.faults.set_clock(-10_000)
    rig.box.exec("1", session="t")
    with rig.box.client() as rpc:
        rows = {row["name"]: row for row in rpc.call("sessions.list")[1]["sessions"]}
    assert rows["s"]["created"] == before["created"]
    assert rows["t"]["created"] < before["created"] - 9_000


def test_the_record_has_every_change_of_the_state_folder(make_rig: MakeRig) -> None:
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


@pytest.mark.parametrize("point", ["apply.swapped", "apply.file"])
def test_an_apply_that_dies_is_gone_on_with(rig: Rig, point: str) -> None:
    """After the second of three files; nothing of it stays beside them."""
    folder = rig.box.make_folder("project")
    for name in "abc":
        rig.box.make_file(f"project/{name}", "old")
    rig.box.exec("for name in 'abc': open(name, 'w').write('new')", session="s", options=["--project", folder])
    dead = rig.box.cli("apply", "s", "--yes", "--unverified", env={"SNP_FAULT": f"{point}:2:kill"})
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    assert [open(os.path.join(folder, name)).read() for name in "abc"] == ["new", "new", "old"]
    done = rig.box.cli("apply", "s", "--yes", "--unverified")
    assert done.returncode == 0 and "cut off after 1 of 3 files" in done.stderr, done.stderr
    assert {name: open(os.path.join(folder, name)).read() for name in os.listdir(folder)} == dict.fromkeys("abc", "new")


def ask(rpc: lib.Client, method: str, raw: bytes = b"", **members: Any) -> Any:
    if method == "exec":
        members |= {"kind": "python", "code_len": len(raw), "checkpoint": "off"}
    kind, head, _, _ = rpc.call(method, raw, session="s", **members)
    return head if kind == lib.RESPONSE else head["message"]


def statuses(rpc: lib.Client) -> list[str]:
    return [cell["status"] for cell in ask(rpc, "history")["cells"]][::-1]


def test_a_journal_with_a_full_queue_loses_no_cell_from_the_history(rig: Rig) -> None:
    pid = rig.start()
    with rig.box.client() as rpc:
        ask(rpc, "exec", b"x = 1")
        rig.faults.order("daemon", "store.submit", 1, "full", "ENOSPC")
        assert "cell 2 ran, but the journal could not record its outcome" in ask(rpc, "exec", b"x += 1")
        rig.faults.forget()
        # What works in between does not make the next cell forget the one that is owed.
        ask(rpc, "put", b"1", path="a", offset=0, truncate=True, mode=0)
        assert ask(rpc, "exec", b"x += 1")["status"] == "ok"
        assert statuses(rpc) == ["ok", "unknown", "ok"]
    assert rig.daemon.pid == pid and rig.daemon.poll() is None


def test_a_cell_that_was_cut_off_is_not_said_to_have_run(rig: Rig) -> None:
    rig.box.exec("x = 1", session="s")
    with rig.box.client() as rpc, rig.box.client() as other:
        code = b"import time; time.sleep(600)"
        cell = rpc.send({"method": "exec", "session": "s", "kind": "python", "code_len": len(code),
                         "limits": {"timeout_ms": 600_000}}, code)
        assert lib.wait_for(lambda: statuses(other)[-1] == "running")
        rig.faults.order("daemon", "store.submit", 1, "full", "ENOSPC")
        tier = rig.box.tier_pid()
        assert tier is not None
        os.kill(tier, signal.SIGKILL)
        message = rpc.end_of(cell)[1]["message"]
        rig.faults.forget()
    assert "cell killed" in message and "not in the journal" in message and " ran" not in message
