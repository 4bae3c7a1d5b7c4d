# SPDX-License-Identifier: Apache-2.0
"""Sessions that last: the journal, recovery, checkpoints, waking, fencing; with a tier that obeys.

The tier is scripted_tier.py (see test_daemon.py), whose variables are what a session holds.
"""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lib
from daemons import Client, Daemon, children, kill
from lib import ERROR, Json, RESPONSE, is_alive, wait_for

LATER = ("--checkpoint-after", "600")  # no checkpoints by themselves
SOON = ("--checkpoint-after", "0.05")


def row(client: lib.Client, name: str = "s") -> Any:
    kind, head, _, _ = client.call("sessions.show", session=name)
    return head if kind == RESPONSE else None


def result(client: Client, code: str, session: str = "s", **members: Any) -> Json:
    kind, head, _, _ = client.end_of(client.start(code, session, **members))
    assert kind == RESPONSE, head
    return head


def history(client: lib.Client, session: str = "s") -> list[Json]:
    return list(client.call("history", session=session)[1]["cells"])


def saved(client: lib.Client, cell: int, session: str = "s") -> bool:
    return bool(wait_for(lambda: row(client, session)["checkpoint_cell"] == cell))


# The journal


def test_what_was_answered_is_there_after_kill_9(start: Callable[..., Daemon]) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    client.run("globals().update(x=41)", "s", limits={"processes": 9}, env={"A": "b"})
    client.end_of(client.start("emit('shown'), emit('bad', 'stderr'), 1/0", "s"))
    code = b"STDIN"
    client.call("exec", code + b"in\0put", kind="python", code_len=len(code), stdin=True, session="s")
    before = history(client)
    shown = client.call("cell.show", session="s", cell=2)
    client = start(*LATER).client()
    assert [cell["status"] for cell in before] == ["ok", "error", "ok"] and history(client) == before
    assert before[0]["first_line"] == "STDIN" and before[2]["first_line"].startswith("globals()")
    kind, head, raw, events = client.call("cell.show", session="s", cell=2)
    assert (kind, head, raw, events) == shown
    assert events == [({"event": "stdout"}, b"shown"), ({"event": "stderr"}, b"bad")]
    assert head["result"]["error"]["type"] == "ZeroDivisionError" and head["result"]["epoch"] == 1
    assert head["result"]["manifest"]["interpreter"] == "scripted" and head["result"]["name"] == "s"
    assert client.call("cell.show", session="s", cell=3)[1]["stdin_bytes"] == 6
    assert client.call("cell.show", session="s", cell=3)[2] == code + b"in\0put"
    listed = row(client)
    assert (listed["state"], listed["cells"], listed["limits"]["processes"]) == ("lost", 3, 9)


def test_history_is_read_from_a_cell_back(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    for n in range(4):
        client.run(str(n), "s")
    for before, limit, cells in ((3, 50, [2, 1]), (4, 2, [3, 2]), (1, 50, []), (9, 1, [4])):
        rows = client.call("history", session="s", before=before, limit=limit)[1]["cells"]
        assert [cell["cell"] for cell in rows] == cells, (before, limit)


def test_the_first_line_of_a_command_is_its_words(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    for argv in (["ls", "-l", "a b"], ["sh", "-c", "\n echo 1\necho 2"], ["x" * 300]):
        client.call("exec", kind="command", argv=argv, session="s")
    lines = [cell["first_line"] for cell in history(client)]
    assert lines == ["x" * 200, "sh -c ", "ls -l a b"]


def test_unnamed_cells_are_in_no_journal(start: Callable[..., Daemon], place: str) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    client.run("5")
    client.run("6", "s")
    kill(daemon)
    with sqlite3.connect(os.path.join(place, "journal", "journal.db")) as journal:
        assert journal.execute("SELECT count(*) FROM cells").fetchone() == (1,)
        assert journal.execute("SELECT count(*) FROM sessions").fetchone() == (1,)


def shown_of(client: lib.Client) -> bytes:
    return b"".join(raw for _, raw in client.call("cell.show", session="s", cell=2)[3])


def test_a_cell_cut_off_reads_unknown_with_what_it_had_shown(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    client.start("emit('seen ' * 3), [emit('.') for _ in iter(lambda: wait(0.1), True)]", "s")
    # What is read of a cell that runs is read from the journal.
    assert wait_for(lambda: b"." in shown_of(client))
    client = start(*LATER).client()
    assert [cell["status"] for cell in history(client)] == ["unknown", "ok"]
    assert row(client)["state"] == "unknown"
    kind, head, _, _ = client.call("cell.show", session="s", cell=2)
    assert kind == RESPONSE and head["result"] is None
    assert shown_of(client).startswith(b"seen seen seen .")
    error = client.fail("x", "s")
    assert error["code"] == "denied" and "cells 1, 2" in error["message"] and "unknown" in error["message"]
    assert any("unknown" in event["kind"] for event in client.call("journal.events")[1]["events"])


def test_replay_runs_what_is_missing_once_and_in_order(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    for code in ("globals().update(seen=[1])", "seen.append(2)", "1/0", "seen.append(STDIN)"):
        client.end_of(client.start(code, "s"))
    client = start(*LATER).client()
    done = result(client, "seen", recover="replay")
    assert done["value"] == "[1, 2, b'']" and done["epoch"] == 2
    assert done["restored"]["replayed"] == [1, 2, 3, 4] and done["restored"]["missing"] == []
    assert [cell["replay_of"] for cell in history(client)] == [None, 4, 3, 2, 1, None, None, None, None]
    # The same again: what repeats a cell counts as that cell.
    client = start(*LATER).client()
    done = result(client, "seen", recover="replay")
    assert done["value"] == "[1, 2, b'']" and done["restored"]["replayed"] == [1, 2, 3, 4, 9]
    assert done["epoch"] == 3 and result(client, "seen")["restored"] is None


def test_an_internal_cell_is_replayed_and_in_no_history(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    client.run("globals().update(y=2)", "s", internal=True)
    client = start(*LATER).client()
    done = result(client, "x + y", recover="replay")
    assert (done["value"], done["restored"]["replayed"], done["cell"]) == ("3", [1, 2], 5)
    assert [(cell["cell"], cell["replay_of"]) for cell in history(client)] == [(5, None), (3, 1), (1, None)]
    assert client.call("history", session="s", limit=2)[1]["cells"][-1]["cell"] == 3
    assert client.call("cell.show", session="s", cell=2)[1]["status"] == "ok"


def test_a_replay_that_ends_differently_stops(start: Callable[..., Daemon], tmp_path: Path) -> None:
    client = start(*LATER).client()
    mark = tmp_path / "mark"
    client.run("globals().update(x=1)", "s")
    client.run(f"open({str(mark)!r}, 'x').close()", "s")
    client.run("globals().update(x=3)", "s")
    client = start(*LATER).client()
    error = client.fail("x", "s", recover="replay")
    assert "cell 2: it ended with ok before and with error now" in error["message"] and error["code"] == "denied"
    assert lib.ways(client.fail("x", "s")) == ["replay", "checkpoint"]
    os.unlink(mark)
    assert client.run("x", "s", recover="replay") == "3"
    # What the replay that stopped had run is in no executor any more.
    states = [(cell["replay_of"], cell["status"], cell["state"]) for cell in history(client)]
    assert states == [(None, "ok", "kept"), (3, "ok", "kept"), (2, "ok", "kept"), (1, "ok", "kept"),
                      (2, "error", "undone"), (1, "ok", "undone"), (None, "ok", "kept"), (None, "ok", "kept"),
                      (None, "ok", "kept")]


def test_a_cell_that_succeeds_only_when_replayed_stops_it_too(start: Callable[..., Daemon], tmp_path: Path) -> None:
    client = start(*LATER).client()
    mark = tmp_path / "mark"
    assert result(client, f"open({str(mark)!r}).close()")["status"] == "error"
    client.run("globals().update(x=2)", "s")
    mark.touch()
    error = start(*LATER).client().fail("x", "s", recover="replay")
    assert "cell 1: it ended with error before and with ok now" in error["message"], error


def test_a_cell_that_ends_its_session_when_replayed_can_be_left_out(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=[1])", "s")
    client.end_of(client.start("x.append(2), die()", "s"))
    error = client.fail("x", "s", recover="replay")
    assert "Replaying cell 2 ended session s" in error["message"] and lib.ways(error) == ["skip", "checkpoint"]
    # It is not run for ever, not even after a restart; the others come back without it.
    n = len(history(client))
    for restarts in (False, True):
        client = start(*LATER).client() if restarts else client
        error = client.fail("x", "s", recover="replay")
        assert "Replaying cell 2 ended session s before" in error["message"] and "skip" in lib.ways(error)
        assert len(history(client)) == n
    # Nor is it offered to who asks again.
    assert lib.ways(client.fail("x", "s")) == row(client)["missing"]["recover"] == ["skip", "checkpoint"]
    done = result(client, "x", recover="skip")
    assert done["value"] == "[1]" and (done["restored"]["replayed"], done["restored"]["missing"]) == ([1], [2])
    assert done["restored"]["cell"] == 0


def test_a_stopped_replay_can_go_on_without_the_cell(start: Callable[..., Daemon], tmp_path: Path) -> None:
    client = start(*LATER).client()
    for code in ("globals().update(x=[1])", f"open({str(tmp_path / 'mark')!r}, 'x').close()", "x.append(3)"):
        client.run(code, "s")
    client = start(*LATER).client()
    assert "skip" in lib.ways(client.fail("x", "s", recover="replay"))
    done = result(client, "x", recover="skip")
    assert done["value"] == "[1, 3]" and (done["restored"]["replayed"], done["restored"]["missing"]) == ([1, 3], [2])


def test_a_stopped_replay_forgets_nothing(start: Callable[..., Daemon], tmp_path: Path) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    client.run(f"open({str(tmp_path / 'mark')!r}, 'x').close()", "s", durability="process")
    put(client, "f")
    client = start(*LATER).client()
    assert "cell 2: it ended with ok before and with error now" in client.fail("1", "s", recover="replay")["message"]
    client = start(*LATER).client()
    assert "1 file put into it (f)" in client.fail("1", "s")["message"]
    done = result(client, "'x' in globals()", recover="checkpoint")
    assert done["value"] == "False"
    assert (done["restored"]["missing"], done["restored"]["missing_puts"]) == ([1, 2], ["f"])
    states = [(cell["replay_of"], cell["state"]) for cell in history(client)]
    assert states == [(None, "kept"), (2, "undone"), (1, "undone"), (None, "undone"), (None, "undone")]
    assert result(client, "1")["restored"] is None


def test_going_on_without_is_told_once_and_stays_decided(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    client = start(*LATER).client()
    done = result(client, "'x' in globals()", recover="checkpoint")
    assert done["value"] == "False" and done["restored"]["missing"] == [1] and done["cell"] == 2
    assert result(client, "globals().update(y=2)")["restored"] is None
    client = start(*LATER).client()
    assert "cells 2, 3" in client.fail("y", "s")["message"]  # the first is not asked about again
    assert any(event["kind"] == "accepted_loss" for event in client.call("journal.events")[1]["events"])


def test_destroy_and_clear_survive_a_restart(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    for name in ("gone", "clear", "default"):
        client.run("globals().update(x=1)", name)
    kept = row(client, "clear")["id"]
    assert client.call("sessions.destroy", session="gone")[1] == {"destroyed": True}
    assert client.call("sessions.clear", session="clear")[1] == {"cleared": True, "epoch": 2}
    assert client.call("sessions.destroy", session="default")[1] == {"destroyed": True, "reset": True}
    client = start(*LATER).client()
    assert {line["name"] for line in client.call("sessions.list")[1]["sessions"]} == {"clear", "default"}
    assert row(client, "clear")["id"] == kept and row(client, "clear")["cells"] == 0
    assert history(client, "clear") == []
    assert client.run("'x' in globals()", "clear") == "False" and client.run("'x' in globals()", "default") == "False"
    assert result(client, "1", "clear")["cell"] == 2 and row(client, "clear")["epoch"] == 3


def test_a_name_is_free_while_its_session_ends(start: Callable[..., Daemon], tmp_path: Path) -> None:
    """What the next one of that name ran is in the journal, whenever the sandbox of the first is gone."""
    gone = str(tmp_path / "gone")
    daemon = start(*LATER)
    client, other = daemon.client(), daemon.client()
    client.run(f"lingers({gone!r})", "s")
    asked = client.send({"method": "sessions.destroy", "session": "s"})
    assert wait_for(lambda: row(other) is None)
    assert result(other, "globals().update(x=1)")["cell"] == 1
    assert result(other, "x")["cell"] == 2
    assert [cell["status"] for cell in history(other)] == ["ok", "ok"]
    ident = row(other)["id"]
    Path(gone).touch()
    assert client.end_of(asked)[1] == {"destroyed": True}
    client = start(*LATER).client()  # kill -9
    assert (row(client)["id"], [cell["cell"] for cell in history(client)]) == (ident, [2, 1])


def test_what_ran_and_waited_hears_of_the_end(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    for method, why in (("clear", "the session was cleared"), ("destroy", "the session was destroyed")):
        started = [client.start("wait()", "s"), client.start("1", "s")]
        assert wait_for(lambda: row(client)["state"] == "running")
        asked = client.send({"method": f"sessions.{method}", "session": "s"})
        ends: dict[int, Any] = {}
        while len(ends) < 3:
            kind, ident, head, _ = client.recv()
            ends[ident] = kind, head
        assert ends[asked][0] == RESPONSE
        assert all(ends[cell][0] == ERROR and why in ends[cell][1]["message"] for cell in started), ends


def test_clearing_only_what_is_idle(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    running = client.start("wait()", "s")
    assert wait_for(lambda: row(client)["cells"] == 1)
    kind, head, _, _ = client.call("sessions.clear", session="s", idle_only=True)
    assert (kind, head["code"]) == (ERROR, "denied") and "session s has been running cell 1 for" in head["message"]
    client.send({"method": "interrupt", "request": running})
    client.end_of(running)
    assert client.call("sessions.clear", session="s", idle_only=True)[1] == {"cleared": True, "epoch": 2}


def test_clearing_ends_what_runs(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    running = client.start("wait()", "s")
    assert wait_for(lambda: row(client)["state"] == "running")
    asked = client.send({"method": "sessions.clear", "session": "s"})
    ends: dict[int, Any] = {}
    while len(ends) < 2:
        kind, ident, head, _ = client.recv()
        ends[ident] = kind, head
    kind, head = ends[asked]
    assert kind == RESPONSE and (head["cleared"], head["epoch"]) == (True, 2) and ends[running][0] == ERROR
    assert (head["ended"]["cell"], head["ended"]["waiting"]) == (2, 0)
    assert client.run("'x' in globals()", "s") == "False"


# A journal that cannot be used


def small_disk(folder: str, size: str) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]).returncode != 0:
        pytest.skip("no mounts here")


def fill(place: str) -> str:
    ballast = os.path.join(place, "ballast")
    with open(ballast, "wb") as out:
        try:
            while True:
                out.write(os.urandom(1 << 14))
                out.flush()
        except OSError:
            pass
    return ballast


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_full_disk_is_said_and_nothing_runs_unrecorded(place: str, bin_folder: str, tmp_path: Path) -> None:
    small_disk(place, "16m")
    daemon = Daemon(place, bin_folder, *LATER)
    try:
        client = daemon.client()
        client.run("globals().update(n=0)", "s")
        ballast = fill(place)
        error = client.fail("globals().update(n=n + 1), '%s'" % os.urandom(100000).hex(), "s")
        assert "cell 2 ran" in error["message"] and "journal" in error["message"], error
        # The second ran and is not recorded; a third does not run.
        error = client.fail("globals().update(n=n + 1), '%s'" % os.urandom(100000).hex(), "s")
        assert "was not run" in error["message"], error
        assert client.run("5") == "5"  # unnamed cells still run
        # One that the journal has no row of: nothing can be saved of it, and it stays as it is.
        error = client.fail("globals().update(x=1), '%s'" % os.urandom(100000).hex(), "new")
        assert "cell 1 ran" in error["message"], error
        unsaved = {one["session"]: one["text"] for one in client.call("stats")[1]["unsaved"]}
        assert unsaved == dict.fromkeys(("s", "new"), "not saved since it began: disk full")
        refused: list[tuple[str, dict[str, Any]]] = [
            ("hibernate", {"session": "new"}), ("checkpoint", {"session": "new"}),
            ("snapshot", {"session": "new", "wait": True}), ("fork", {"from": "new"})]
        for method, members in refused:
            kind, head, _, _ = client.call(method, **members)
            assert kind == ERROR, (method, head)
        # Until it can be written down, the cell is listed all the same.
        assert [(cell["cell"], cell["status"], cell["first_line"][:9]) for cell in history(client)] == [
            (2, "unknown", "globals()"), (1, "ok", "globals()")]
        assert [cell["cell"] for cell in client.call("history", session="s", limit=1)[1]["cells"]] == [2]
        assert [cell["cell"] for cell in client.call("history", session="s", before=2)[1]["cells"]] == [1]
        os.unlink(ballast)
        assert wait_for(lambda: client.end_of(client.start("n", "s"))[0] == RESPONSE)
        assert client.run("n", "s") == "1" and client.run("x", "new") == "1"
        # What ran is there, although it could not be written down when it ended.
        assert [(cell["cell"], cell["status"]) for cell in history(client)][-2:] == [(2, "unknown"), (1, "ok")]
        assert {cell["status"] for cell in history(client)} == {"ok", "unknown"}
    finally:
        kill(daemon)
        subprocess.run(["umount", "-l", place])


def leave(place: str, room: int) -> str:
    """Fill the disk except for so many bytes; returns the file."""
    ballast = os.path.join(place, "ballast")
    free = os.statvfs(place)
    with open(ballast, "wb") as out:
        os.posix_fallocate(out.fileno(), 0, free.f_bavail * free.f_frsize - room)
    return ballast


def cli(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command with this daemon."""
    place = os.path.dirname(daemon.socket)
    run = os.path.join(place, "run")
    if not os.path.isdir(run):
        os.mkdir(run, 0o700)
        os.symlink(daemon.socket, os.path.join(run, "sandboxd.sock"))
    env = {**os.environ, "SNIPARA_SANDBOX_RUNTIME_DIR": run, "SNIPARA_SANDBOX_STATE_DIR": place}
    program = os.path.join(os.path.dirname(os.readlink(f"/proc/{daemon.process.pid}/exe")), "snipara-sandbox")
    return subprocess.run([program, *words], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_what_a_full_disk_leaves_unsaved_is_said_until_there_is_room(place: str, bin_folder: str) -> None:
    """Cells still fit into the journal, and succeed; each answer says that the session could not be saved."""
    small_disk(place, "16m")
    daemon = Daemon(place, bin_folder, *SOON)
    told = "not saved since cell 1: disk full"
    try:
        client = daemon.client()
        client.run("globals().update(x=1)", "s")
        assert saved(client, 1)
        ballast = leave(place, 2 << 20)
        assert result(client, "globals().update(big=__import__('os').urandom(4 << 20))")["status"] == "ok"
        assert wait_for(lambda: row(client).get("unsaved"))
        answers = [row(client), result(client, "x"), client.call("ls", session="s", path=".")[1],
                   client.call("history", session="s")[1], client.call("sessions.list")[1]["sessions"][0]]
        assert [answer["unsaved"]["text"] for answer in answers] == [told] * len(answers)
        unsaved = client.call("stats")[1]["unsaved"]
        assert [(one["session"], one["cell"], one["reason"]) for one in unsaved] == [("s", 1, "disk full")]
        assert unsaved[0]["error"]["remedy"]["kind"] == "state_dir"
        assert "unsaved" not in client.end_of(client.start("1"))[1]  # unnamed cells still run
        for words in ("sessions", "doctor", "daemon status", "history -s s"):
            done = cli(daemon, *words.split())
            said = done.stdout + done.stderr
            assert f"session s: {told}; {place}/journal" in said and "STATE_DIR" in said and "destroy" not in said, done
        os.unlink(ballast)
        assert wait_for(lambda: row(client)["checkpoint_cell"] == 3)
        assert "unsaved" not in row(client) and client.call("stats")[1]["unsaved"] == []
    finally:
        kill(daemon)
        subprocess.run(["umount", "-l", place])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_an_end_does_not_lose_what_a_full_disk_leaves_unsaved(place: str, bin_folder: str) -> None:
    """`daemon stop` refuses, unless forced; an upgrade waits until there is room."""
    small_disk(place, "16m")
    try:
        daemon = Daemon(place, bin_folder, *LATER)
        client = daemon.client()
        client.run("globals().update(x=1)", "s")
        client.run("globals().update(x=1)", "small")
        ballast = leave(place, 2 << 20)
        client.run("globals().update(big=__import__('os').urandom(4 << 20), n=1)", "s")
        done = cli(daemon, "daemon", "stop")
        assert done.returncode == 1 and "session s: not saved since it began: disk full" in done.stderr, done
        assert "--force" in done.stderr and "destroy" not in done.stderr and "small" not in done.stderr, done
        assert row(client, "small")["checkpoint_cell"] == 1 and client.run("n", "s") == "1"
        # An upgrade in place: this daemon serves new clients until all sessions are saved.
        program = os.path.join(bin_folder, "snipara-sandboxd")
        os.rename(program, program + ".old")
        shutil.copy(program + ".old", program)
        assert daemon.client().call("hello", version=1)[1]["pid"] == daemon.process.pid
        assert wait_for(lambda: "end-waits" in daemon.text()) and client.run("n", "s") == "1"
        done = cli(daemon, "daemon", "stop", "--force")
        assert done.returncode == 0 and "session s: " in done.stderr, done
        daemon.process.wait(lib.PATIENCE)
        os.unlink(ballast)
        daemon = Daemon(place, bin_folder, *LATER)
        client = daemon.client()
        assert "cells 1, 2" in client.fail("n", "s")["message"]  # reported
        client.run("globals().update(x=2)", "small")
        assert cli(daemon, "daemon", "stop").returncode == 0
        daemon.process.wait(lib.PATIENCE)
        daemon = Daemon(place, bin_folder, *LATER)
        assert daemon.client().run("x", "small") == "2"
    finally:
        for one in Daemon.started:
            kill(one)
        subprocess.run(["umount", "-l", place])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
@pytest.mark.parametrize("then", ["room", "again"])
def test_an_end_by_a_signal_waits_for_room(place: str, bin_folder: str, then: str) -> None:
    """For some seconds. A second signal ends it at once; what is lost then is on record, on a full disk too."""
    journal = os.path.join(place, "journal")
    os.mkdir(journal, 0o700)
    small_disk(journal, "48m")
    try:
        daemon = Daemon(place, bin_folder, *LATER)
        client = daemon.client()
        client.run("globals().update(x=1)", "s")
        assert client.call("checkpoint", session="s")[0] == RESPONSE
        assert wait_for(lambda: os.path.exists(os.path.join(journal, "reserve")))
        ballast = fill(journal)
        error = client.fail("globals().update(x=2, big=__import__('os').urandom(4 << 20)), '%s'" %
                            os.urandom(100000).hex(), "s")
        assert "cell 2 ran" in error["message"], error
        daemon.process.send_signal(signal.SIGTERM)
        assert wait_for(lambda: "end-save" in daemon.text()) and daemon.process.poll() is None
        if then == "room":
            os.unlink(ballast)
        else:
            daemon.process.send_signal(signal.SIGTERM)
        daemon.process.wait(lib.PATIENCE)
        if then == "again":
            os.unlink(ballast)
        daemon = Daemon(place, bin_folder, *LATER)
        client = daemon.client()
        assert [(cell["cell"], cell["status"]) for cell in history(client)] == [(2, "unknown"), (1, "ok")]
        events = [one["text"] for one in client.call("journal.events")[1]["events"] if one["kind"] == "end_unsaved"]
        if then == "room":
            assert client.run("x", "s") == "2" and events == []
        else:
            assert "cell 2" in client.fail("x", "s")["message"]
            assert len(events) == 1 and "ended: s (" in events[0], events
    finally:
        for one in Daemon.started:
            kill(one)
        subprocess.run(["umount", "-l", journal])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_what_became_of_cells_that_could_not_be_written_down(place: str, bin_folder: str, tmp_path: Path) -> None:
    """How they ended is unknown; that a rollback undid them, or its interpreter was lost, is not."""
    small_disk(place, "16m")
    daemon = Daemon(place, bin_folder, *LATER)
    large = "emit(__import__('os').urandom(200000).hex())"
    try:
        client = daemon.client()
        client.run("globals().update(n=0)", "s")
        assert client.call("snapshot", session="s", name="a", wait=True)[0] == RESPONSE
        client.run("globals().update(n=1)", "s")
        ballast = fill(place)
        error = client.fail("globals().update(n=2), " + large, "s")
        assert "cell 3 ran" in error["message"], error
        kind, head, _, _ = client.call("rollback", session="s", snapshot="a")
        assert kind == RESPONSE, head
        error = client.fail("lose(), " + large, "s")
        assert "cell 4 ran" in error["message"], error
        os.unlink(ballast)
        assert wait_for(lambda: client.end_of(client.start("n", "s"))[0] == RESPONSE)
        seen = [(cell["cell"], cell["status"], cell["state"]) for cell in history(client)]
        assert seen[-4:] == [(4, "unknown", "restored_from_checkpoint"),
                             (3, "unknown", "undone"), (2, "ok", "undone"), (1, "ok", "kept")]
    finally:
        kill(daemon)
        subprocess.run(["umount", "-l", place])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_read_only_state_folder_leaves_what_needs_no_journal(place: str, bin_folder: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    small_disk(str(state), "1m")
    subprocess.run(["mount", "-o", "remount,ro", str(state)], check=True)
    try:
        daemon = Daemon(place, bin_folder, "--state", str(state))
        try:
            client = daemon.client()
            assert client.run("5") == "5"
            error = client.fail("5", "s")
            assert "journal" in error["message"] and str(state) in error["message"], error
        finally:
            kill(daemon)
    finally:
        subprocess.run(["umount", "-l", str(state)])


def rss(daemon: Daemon) -> int:
    with open(f"/proc/{daemon.process.pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_a_light_client_beside_four_that_are_heavy(start: Callable[..., Daemon]) -> None:
    """It is answered in its turn while they run, clear and destroy sessions of many cells, whose memory goes back."""
    cells = int(os.environ.get("SNP_TEST_CELLS", "2500")) // 4
    daemon = start(*LATER)
    light = daemon.client()
    light.run("1", "light")
    before = rss(daemon)
    passed_by: list[int] = []  # answers of the heavy ones while the light one waited for its own
    answered = [0] * 4

    def heavy(number: int) -> None:
        client, waiting, name = daemon.client(), [], f"heavy{number}"
        for _ in range(cells):
            waiting.append(client.start("emit('y' * 3500)", name))
            if len(waiting) == 10:
                client.end_of(waiting.pop(0))
                answered[number] += 1
        for ident in waiting:
            client.end_of(ident)
            answered[number] += 1
        assert client.call("sessions.clear", session=name)[0] == RESPONSE
        assert client.call("sessions.destroy", session=name)[0] == RESPONSE

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(heavy, number) for number in range(4)]
        while not all(one.done() for one in running):
            before_it = sum(answered)
            assert light.run("1", "light") == "1" and light.call("sessions.list")[0] == RESPONSE
            passed_by.append(sum(answered) - before_it)
        for one in running:
            one.result()
    assert max(passed_by) < 2 * cells, "half of all; 10 on a machine that has nothing else to do"
    if "SNP_TEST_SANITIZE" not in os.environ:  # which keeps what was freed
        assert wait_for(lambda: rss(daemon) < before + (4 << 20)), (before, rss(daemon))
    assert [one["name"] for one in light.call("sessions.list")[1]["sessions"]] == ["light"]
    assert light.run("1", "heavy0") == "1" and len(history(light, "heavy0")) == 1


def test_a_session_whose_record_was_lost_does_not_begin_empty_without_a_word(start: Callable[..., Daemon],
                                                                             place: str) -> None:
    daemon = start(*LATER)
    daemon.client().run("globals().update(x=1)", "s")
    kill(daemon, signal.SIGTERM)
    path = os.path.join(place, "journal", "journal.db")
    with sqlite3.connect(path) as db:
        root, = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sessions'").fetchone()
        size, = db.execute("PRAGMA page_size").fetchone()
    db.close()
    with open(path, "r+b") as out:
        out.seek((root - 1) * size)
        out.write(bytes(size))
    for _ in range(2):  # it is remembered
        client = start(*LATER).client()
        failed = result(client, "'x' in globals()", "s")["restored"]["failed"]
        assert failed[0]["name"] == "s" and "may have been lost" in failed[0]["reason"], failed
        assert result(client, "1", "s")["restored"] is None
        client.call("sessions.destroy", session="s")
    for name in os.listdir(os.path.dirname(path)):
        if ".broken-" in name:
            os.remove(os.path.join(os.path.dirname(path), name))
    assert result(start(*LATER).client(), "1", "s")["restored"] is None


def test_a_corrupt_journal_does_not_keep_the_daemon_down(start: Callable[..., Daemon], place: str) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    kill(start(*LATER), signal.SIGTERM)
    path = os.path.join(place, "journal", "journal.db")
    with open(path, "r+b") as out:
        out.write(os.urandom(4096))
    client = start(*LATER).client()
    assert client.run("5") == "5"
    assert client.run("5", "new") == "5"
    assert client.call("journal.events")[1]["events"]


def test_two_daemons_on_one_state_folder(start: Callable[..., Daemon], place: str, bin_folder: str,
                                         tmp_path: Path) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    second = Daemon(str(tmp_path), bin_folder, "--state", place)
    try:
        other = second.client()
        assert other.run("5") == "5"
        error = other.fail("x", "s")
        assert "journal" in error["message"], error
        # Nor does it say that there are no sessions, which it cannot know.
        for kind, head, *_ in (other.call("sessions.list"), other.call("sessions.show", session="s")):
            assert kind == ERROR and head["code"] != "not_found" and "journal" in head["message"], head
        assert client.run("x", "s") == "1"
        kill(start(*LATER), signal.SIGTERM)
        assert wait_for(lambda: other.call("sessions.list")[0] == RESPONSE)
        assert row(other)["name"] == "s"
    finally:
        kill(second)


# Checkpoints


def test_an_idle_session_is_saved_and_comes_back(start: Callable[..., Daemon]) -> None:
    client = start(*SOON).client()
    client.run("1", "s")
    client.call("put", b"data", session="s", path="f", offset=0, truncate=True, mode=0)
    client.run("globals().update(x={'a': [1, 2]}, y=2)", "s")
    assert saved(client, 2)
    client = start(*SOON).client()
    assert row(client)["state"] == "hibernated"
    done = result(client, "x, y")
    assert done["value"] == "({'a': [1, 2]}, 2)" and done["epoch"] == 2
    assert done["restored"]["cell"] == 2 and done["restored"]["missing"] == []
    assert done["restored"]["failed"] == [] and done["restored"]["wake_us"] > 0
    assert client.call("get", session="s", path="f", offset=0, length=9)[2] == b"data"


def test_put_alone_is_saved_too(start: Callable[..., Daemon]) -> None:
    daemon = start("--log-level", "debug", *SOON)
    client = daemon.client()
    client.run("1", "s")
    assert saved(client, 1)
    before = daemon.text().count(" checkpoint session=")
    client.call("put", b"data", session="s", path="f", offset=0, truncate=True, mode=0)
    assert wait_for(lambda: daemon.text().count(" checkpoint session=") > before)
    client = start(*SOON).client()
    assert client.call("get", session="s", path="f", offset=0, length=9)[2] == b"data"


def put(client: lib.Client, path: str, data: bytes = b"data",
        session: str = "s") -> tuple[int, Json, bytes, list[tuple[Json, bytes]]]:
    return client.call("put", data, session=session, path=path, offset=0, truncate=True, mode=0)


def test_a_put_that_no_checkpoint_has_is_told(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("1", "s", durability="process")
    put(client, "early")
    client.call("checkpoint", session="s")
    for name in ("late", "later"):
        assert put(client, name)[0] == RESPONSE
    client = start(*LATER).client()
    error = client.fail("1", "s")
    assert error["code"] == "denied" and "2 files" in error["message"] and "(late" in error["message"]
    assert client.call("ls", session="s", path=".")[0] == ERROR
    done = result(client, "1", recover="checkpoint")
    assert done["restored"]["missing_puts"] == ["late", "later"] and done["restored"]["missing"] == []
    assert [entry["name"] for entry in client.call("ls", session="s", path=".")[1]["entries"]] == ["early"]
    # Decided once; the next loss is another one.
    client.call("checkpoint", session="s")
    client = start(*LATER).client()
    assert result(client, "1")["restored"]["missing_puts"] == []


def refused(client: lib.Client, method: str, **members: Any) -> Json:
    kind, head, _, _ = client.call(method, **members)
    assert (kind, head["code"]) == (ERROR, "denied"), head
    return head


def test_a_session_that_lacks_cells_has_a_state_of_its_own(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(seen=[1])", "s")
    client.call("checkpoint", session="s")
    for code in ("seen.append(2)", "1/0", "member(state='rolled_back')"):
        client.end_of(client.start(code, "s"))
    assert row(client)["missing"] is None
    client = start(*LATER).client()
    listed = row(client)
    assert (listed["state"], listed["checkpoint_cell"], listed["cells"]) == ("incomplete", 1, 4)
    assert (listed["missing"]["cells"], listed["missing"]["n_cells"]) == ([2, 3], 2)
    assert listed["missing"]["recover"] == ["replay", "checkpoint"]
    assert listed["missing"]["text"] == "cells 2, 3"
    told = client.call("history", session="s")[1]
    assert (told["state"], told["missing"]) == ("incomplete", listed["missing"])
    of_it: Json = {"session": "s"}
    from_it: Json = {"from": "s"}
    for method, members in (("hibernate", of_it), ("snapshot", of_it), ("checkpoint", of_it), ("export", from_it),
                            ("fork", {**from_it, "n": 1})):
        why = refused(client, method, **members)
        assert ("session s was last saved after cell " in why["message"] and "cells 2, 3" in why["message"] and
                "replay" in lib.ways(why)), (method, why)
    assert client.call("snapshots.list")[1]["snapshots"] == [] and len(history(client)) == 4
    assert result(client, "len(seen)", recover="replay")["value"] == "2"
    assert (row(client)["state"], row(client)["missing"]) == ("idle", None)


def test_what_left_nothing_is_not_missing(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    client.call("checkpoint", session="s")
    client.end_of(client.start("member(state='rolled_back')", "s"))
    client = start(*LATER).client()
    assert (row(client)["state"], row(client)["missing"]) == ("hibernated", None)
    assert client.call("hibernate", session="s")[1]["hibernated"] and client.run("x", "s") == "1"


def test_it_lacks_what_it_did_also_when_only_its_executor_went(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    client.call("checkpoint", session="s")
    client.run("globals().update(x=2)", "s", durability="process")
    put(client, "f")
    client.end_of(client.start("gone()", "s"))
    assert wait_for(lambda: row(client)["missing"] is not None)
    lacks = row(client)
    assert lacks["state"] == "incomplete" and lacks["missing"]["cells"] == [2, 3]
    assert (lacks["missing"]["files"], lacks["missing"]["n_files"]) == (["f"], 1)
    assert lacks["missing"]["text"] == "cells 2, 3, and 1 file put into it (f)"
    assert result(client, "x", recover="checkpoint")["value"] == "1" and row(client)["missing"] is None


def test_a_file_alone_can_be_missing(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("1", "s", durability="process")
    client.call("checkpoint", session="s")
    put(client, "late")
    client = start(*LATER).client()
    assert row(client)["state"] == "incomplete" and row(client)["missing"]["files"] == ["late"]
    assert "1 file put into it (late)" in refused(client, "fork", **{"from": "s", "n": 1})["message"]
    assert "1 file put into it (late)" in refused(client, "hibernate", session="s")["message"]


def test_notes_of_puts_go_when_every_checkpoint_has_them(start: Callable[..., Daemon], place: str) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    for n in range(6):
        put(client, f"f{n}")
        client.run("1", "s")
        client.call("checkpoint", session="s")
    kill(daemon, signal.SIGTERM)
    with contextlib.closing(sqlite3.connect(os.path.join(place, "journal", "journal.db"))) as db:
        assert 0 < db.execute("SELECT COUNT(*) FROM effects").fetchone()[0] < 6


@pytest.mark.parametrize("when", ["idle", "after", None])
def test_what_comes_while_a_copy_is_saved_does_not_wait(start: Callable[..., Daemon], when: str | None,
                                                        tmp_path: Path) -> None:
    """The save ends when the file is there, which the cell makes that came after it."""
    go = str(tmp_path / "go")
    daemon = start("--log-level", "debug", *(SOON if when else LATER))
    client = daemon.client()
    client.run(f"aside(), globals().update(x=[1]), slow({go!r})", "s", checkpoint=when)
    if when is None:
        asked = client.send({"method": "checkpoint", "session": "s"})
    elif when == "idle":
        assert wait_for(lambda: " saving session=" in daemon.text())
    client.run("x.append(2)", "s", durability="process")
    put(client, "late")
    opened = client.start(f"open({go!r}, 'x').close()", "s")
    if when is None:  # either may end first
        ends: dict[int, Json] = {}
        while not {asked, opened} <= set(ends):
            kind, at, head, _ = client.recv()
            ends.update({at: head} if kind == RESPONSE else {})
        assert ends[asked]["cell"] == 1 and ends[opened]["status"] == "ok"
        client = start(*LATER).client()
        assert "cells 2, 3, and 1 file put into it (late)" in client.fail("x", "s")["message"]
        assert result(client, "x", recover="checkpoint")["value"] == "[1]"
    else:  # and what came is saved in its turn
        assert client.end_of(opened)[0] == RESPONSE and saved(client, 3)
        assert result(start(*LATER).client(), "x")["value"] == "[1, 2]"


def test_a_put_beside_a_checkpoint_counts_as_not_in_it(start: Callable[..., Daemon], tmp_path: Path) -> None:
    daemon, go = start(*LATER), tmp_path / "go"
    client, other = daemon.client(), daemon.client()
    client.run(f"slow({str(go)!r})", "s", durability="process")
    put(client, "first")
    asked = client.send({"method": "checkpoint", "session": "s"})
    during = client.send({"method": "put", "session": "s", "path": "during", "offset": 0, "truncate": True,
                          "mode": 0}, b"data")
    assert other.call("sessions.list")[0] == RESPONSE  # it has come
    go.touch()
    ends = {client.recv()[1] for _ in range(2)}
    assert ends == {asked, during}
    client = start(*LATER).client()
    error = client.fail("1", "s")
    assert "during" in error["message"], error
    assert "during" in result(client, "1", recover="checkpoint")["restored"]["missing_puts"]


def test_a_checkpoint_before_each_answer(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    done = result(client, "globals().update(x=1)", checkpoint="cell")
    assert done["checkpoint"]["made"]["cell"] == 1 and done["checkpoint"]["error"] is None
    client.run("globals().update(x=2)", "s", checkpoint="cell")
    failed = result(client, "torn()", "bad", checkpoint="cell")
    assert failed["status"] == "ok" and failed["checkpoint"]["made"] is None and failed["checkpoint"]["error"]
    client = start(*LATER).client()
    assert client.run("x", "s") == "2"


def test_unchanged_variables_are_not_written_again(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(big=__import__('os').urandom(3 << 20), x=1)", "s")
    first = client.call("checkpoint", session="s")[1]
    client.run("globals().update(x=2)", "s")
    second = client.call("checkpoint", session="s")[1]
    assert first["same_items"] == 0 and first["written_bytes"] > 3 << 20
    assert second["same_items"] == 1 and second["written_bytes"] < 1 << 16
    client = start(*LATER).client()
    assert client.run("len(big), x", "s") == f"({3 << 20}, 2)"


def test_what_cannot_be_saved_is_named_and_keeps_the_session_awake(start: Callable[..., Daemon]) -> None:
    daemon = start("--session-idle", "0.3", *SOON)
    client = daemon.client()
    client.run("globals().update(x=1, lock=__import__('threading').Lock())", "s")
    assert saved(client, 1)
    assert wait_for(lambda: "hibernate-not" in daemon.text())
    assert row(client)["state"] == "idle"  # it would lose its lock
    client.run("globals().update(y=1)", "free")
    assert wait_for(lambda: row(client, "free")["state"] == "hibernated")
    kind, head, _, _ = client.call("hibernate", session="s")
    assert kind == RESPONSE and head["hibernated"] and [item["name"] for item in head["lost"]] == ["lock"]
    done = result(client, "x, 'lock' in globals()")
    assert done["value"] == "(1, False)" and [item["name"] for item in done["restored"]["failed"]] == ["lock"]


def test_nothing_sleeps_that_was_not_seen_to_come_back(start: Callable[..., Daemon]) -> None:
    """The tier cannot restore a variable "heavy"; what is large is tried when the daemon ends, too."""
    daemon = start("--session-idle", "0.3", *SOON)
    client = daemon.client()
    client.run("globals().update(x=1, heavy=b'h' * (9 << 20))", "s")
    assert saved(client, 1)
    kind, head, _, _ = client.call("hibernate", session="s")
    assert (kind, head["code"]) == (ERROR, "limit") and "could not be restored when tried" in head["message"]
    assert wait_for(lambda: "hibernate-not" in daemon.text())  # by itself
    assert row(client)["state"] == "idle" and client.run("x, len(heavy)", "s") == f"(1, {9 << 20})"
    told = client.call("shutdown")[1]["lost"]
    assert [one["session"] for one in told] == ["s"] and "could not be restored" in told[0]["reason"]
    client = start(*LATER).client()
    done = result(client, "x, 'heavy' in globals()")
    assert done["value"] == "(1, False)"
    assert [one["name"] for one in done["restored"]["failed"]] == ["heavy"], "all else came back"


def test_a_wake_that_was_aborted_while_it_closed_leaves_the_next_one_alone(start: Callable[..., Daemon],
                                                                           tmp_path: Path) -> None:
    daemon = start(*LATER)
    client, other = daemon.client(), daemon.client()
    gone = tmp_path / "gone"
    client.run("globals().update(heavy=1)", "s", env={"LINGERS": str(gone)})
    client.call("checkpoint", session="s")
    client.fail("die()", "s")
    waking = client.start("1", "s", recover="checkpoint")  # its sandbox is closed until the file is there
    assert wait_for(lambda: 'effort=0 error="the interpreter has ended"' in daemon.text())
    assert other.call("sessions.clear", session="s")[0] == RESPONSE
    assert client.end_of(waking)[0] == ERROR
    assert client.run("globals().update(x=7)", "s") == "None"
    gone.touch()
    assert client.run("x", "s") == "7" and client.run("x", "s") == "7"
    assert row(client)["epoch"] == 4


def test_calls_of_a_session_that_never_opens_all_fail(start: Callable[..., Daemon], tmp_path: Path) -> None:
    """A call that fails lets none behind it use a session that is about to be removed."""
    daemon = start(*LATER)
    client = daemon.client()
    may_fail = tmp_path / "may_fail"
    asked = [client.start("1", "s", env={"NEVER": str(may_fail)}),
             client.send({"method": "snapshot", "session": "s"}), client.send({"method": "hibernate", "session": "s"})]
    assert wait_for(lambda: row(daemon.client())), "all were read"
    may_fail.touch()
    for kind, head, _, _ in map(client.end_of, asked):
        assert kind == ERROR and "no sandbox is left" in head["message"]
    assert row(client) is None


def test_a_file_is_on_disk_before_its_put_is_answered(start: Callable[..., Daemon], tmp_path: Path) -> None:
    """If the file cannot be saved, the answer says so."""
    def put(session: str, name: str, data: bytes = b"data") -> Json:
        kind, head, _, _ = client.call("put", data, session=session, path=name, offset=0, truncate=True)
        assert kind == RESPONSE, head
        return head

    daemon = start(*LATER)
    client = daemon.client()
    client.run("globals().update(x=1)", "s")
    client.run("1", "light", durability="process")
    client.run("1", "off", checkpoint="off")
    part = bytes(1 << 20)
    assert put("s", "a") == {"size": 4} and put("light", "a") == {"size": 4}
    assert put("off", "a")["unsaved"]["reason"] == "automatic saving is off"
    assert "saved with the next" in put("s", "large", part)["unsaved"]["reason"]
    asked = [client.send({"method": "put", "session": "s", "path": name, "offset": 0}, b"b") for name in "bcd"]
    asked.append(client.send({"method": "put", "session": "s", "path": "large", "offset": 1 << 20}))
    assert all("unsaved" not in client.end_of(one)[1] for one in asked)
    for n in range(2):  # a folder is saved once, with its last file
        (tmp_path / f"f{n}").write_bytes(b"in")
    done = cli(daemon, "put", "-r", str(tmp_path), "s:tree")
    assert done.returncode == 0 and "not saved" not in done.stderr, done
    client = start(*LATER).client()  # kill -9
    for name, data in [("tree/f0", b"in"), ("tree/f1", b"in"), ("a", b"data"),
                       ("b", b"b"), ("c", b"b"), ("d", b"b"), ("large", part)]:
        kind, head, raw, _ = client.call("get", session="s", path=name, offset=0, length=1 << 20)
        assert kind == RESPONSE and (raw, head["size"]) == (data, len(data)), (name, head)
    assert "1 file put into it (a)" in client.fail("x", "light")["message"]
    cell = client.start("wait()", "s")
    assert wait_for(lambda: row(client)["state"] == "running")
    assert put("s", "e")["unsaved"]["text"] == "not saved since cell 1: cell 2 runs; the file is saved after it"
    client.call("interrupt", session="s")
    client.end_of(cell)


def test_a_torn_checkpoint_leaves_the_one_before(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    assert client.call("checkpoint", session="s")[0] == RESPONSE
    client.run("globals().update(x=2), torn(99)", "s")  # it is tried again
    kind, head, _, _ = client.call("checkpoint", session="s")
    assert kind == ERROR and client.run("x", "s") == "2"
    client = start(*LATER).client()
    assert "cells 2, 3" in client.fail("x", "s")["message"]
    assert client.run("x", "s", recover="checkpoint") == "1"


def test_a_save_that_the_tier_failed_is_tried_again(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1), torn()", "s")
    assert client.call("checkpoint", session="s")[0] == ERROR
    assert saved(client, 1) and "unsaved" not in row(client)


def test_cells_wait_for_a_checkpoint_and_nothing_is_made_twice(start: Callable[..., Daemon], tmp_path: Path) -> None:
    client, go = start(*LATER).client(), tmp_path / "go"
    client.run(f"globals().update(x=1), slow({str(go)!r})", "s")
    asked = [client.send({"method": "checkpoint", "session": "s"}) for _ in range(2)]
    cell = client.start("globals().update(x=2)", "s")
    assert client.call("sessions.list")[0] == RESPONSE  # all of them have come, and none has ended
    go.touch()
    ends = [client.recv()[1] for _ in range(3)]
    assert sorted(ends) == sorted([*asked, cell])


def test_a_killed_tier_is_invisible_but_for_the_time(start: Callable[..., Daemon]) -> None:
    daemon = start(*SOON)
    client = daemon.client()
    client.run("globals().update(x=1)", "s")
    assert saved(client, 1)
    os.kill(children(daemon.process.pid)[0], signal.SIGKILL)
    assert wait_for(lambda: row(client)["state"] == "hibernated")
    done = result(client, "x")
    assert done["value"] == "1" and done["epoch"] == 2 and done["restored"]["cell"] == 1


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def stop_tier(daemon: Daemon) -> int:
    """Its requests stay unread from now on."""
    tier, = children(daemon.process.pid)
    os.kill(tier, signal.SIGSTOP)
    assert wait_for(lambda: is_stopped(tier))
    return tier


def test_what_a_killed_tier_had_not_read_is_asked_of_the_next(start: Callable[..., Daemon]) -> None:
    daemon = start(*SOON)
    client = daemon.client()
    client.run("globals().update(x=1)", "s")
    assert saved(client, 1)
    asks: list[Callable[[], int]] = [lambda: client.send({"method": "ls", "session": "s", "path": "."}),
                                     lambda: client.start("2"), lambda: client.start("x", "s")]
    for ask in asks:
        tier = stop_tier(daemon)
        asked = ask()
        assert client.call("stats")[0] == RESPONSE  # the request is on its way
        os.kill(tier, signal.SIGKILL)
        kind, head, _, _ = client.end_of(asked)
        assert kind == RESPONSE, head
    assert head["value"] == "1" and head["restored"]["cell"] == 1
    assert [(cell["cell"], cell["status"]) for cell in history(client)] == [(2, "ok"), (1, "ok")]


def test_a_file_that_a_killed_tier_had_not_read_is_put_by_the_next(start: Callable[..., Daemon]) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    client.run("globals().update(x=1)", "s")
    put(client, "f", b"old")  # saves the session, too
    for saves in (True, False):
        assert client.call("checkpoint", session="s")[0] == RESPONSE
        tier = stop_tier(daemon)
        asked = client.send({"method": "put", "session": "s", "path": "f", "mode": 0o644, "offset": 0,
                             "truncate": True, "more": not saves}, b"new")
        assert client.call("history", session="s")[0] == RESPONSE  # the file is noted, and on its way
        os.kill(tier, signal.SIGKILL)
        kind, head, _, _ = client.end_of(asked)
        assert kind == RESPONSE, head
        assert client.call("get", session="s", path="f", offset=0, length=10)[2] == b"new"
        done = result(client, "x")
        assert done["value"] == "1" and done["epoch"] == 2 + (not saves), done
        assert ("unsaved" in head) == (not saves), head
    # A part before it that was read is missing: that is not hidden.
    assert client.call("checkpoint", session="s")[0] == RESPONSE
    client.call("put", b"new", session="s", path="f", mode=0o644, offset=0, more=True)
    tier = stop_tier(daemon)
    asked = client.send({"method": "put", "session": "s", "path": "f", "mode": 0o644, "offset": 3}, b"er")
    assert client.call("history", session="s")[0] == RESPONSE
    os.kill(tier, signal.SIGKILL)
    kind, head, _, _ = client.end_of(asked)
    assert kind == ERROR and "missing: 1 file put into it (f)" in head["message"], head
    assert row(client)["state"] == "incomplete"


def test_a_file_that_a_killed_tier_may_have_read_is_not_put_again(start: Callable[..., Daemon]) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    for name in ("s", "t"):
        client.run("globals().update(x=1)", name)
        put(client, "f", b"old", name)
    tier = stop_tier(daemon)
    first = client.send({"method": "put", "session": "s", "path": "f", "mode": 0o644, "offset": 0}, b"new")
    assert client.call("history", session="s")[0] == RESPONSE
    last = client.send({"method": "put", "session": "t", "path": "f", "mode": 0o644, "offset": 0}, b"new")
    assert client.call("history", session="t")[0] == RESPONSE
    os.kill(tier, signal.SIGKILL)
    ends = {ident: kind for kind, ident, _, _ in (client.recv(), client.recv())}
    assert ends == {first: ERROR, last: RESPONSE}
    assert row(client)["state"] == "incomplete" and row(client, "t")["state"] == "idle"


def test_an_unnamed_cell_that_a_killed_tier_had_not_read_runs_in_the_next(start: Callable[..., Daemon],
                                                                          tmp_path: Path) -> None:
    daemon, stop = start(*LATER), tmp_path / "stop"
    client = daemon.client()
    client.run("1")
    tier, = children(daemon.process.pid)
    asked = client.start("emit('once'), HEAD['cell']", env={"STOP": str(stop)})
    assert wait_for(lambda: is_stopped(tier) and any(line["cells"] for line in daemon.client().call("sessions.list")
                                                     [1]["sessions"]))
    os.kill(tier, signal.SIGKILL)
    kind, head, _, events = client.end_of(asked)
    assert kind == RESPONSE and head["value"].endswith("1)"), head
    assert events == [({"event": "stdout"}, b"once")]


def test_a_cell_that_a_killed_tier_may_have_read_is_not_run_again(start: Callable[..., Daemon]) -> None:
    daemon = start(*SOON)
    client = daemon.client()
    for name in ("s", "t"):
        client.run("globals().update(x=1)", name)
        assert saved(client, 1, name)
    tier = stop_tier(daemon)
    first, last = client.start("x", "s"), client.start("x", "t")
    assert client.call("stats")[0] == RESPONSE
    os.kill(tier, signal.SIGKILL)
    ends = {ident: kind for kind, ident, _, _ in (client.recv(), client.recv())}
    assert ends == {first: ERROR, last: RESPONSE}
    assert history(client)[0]["status"] == "unknown" and history(client, "t")[0]["status"] == "ok"


def test_a_lost_interpreter_comes_back_from_the_checkpoint(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    client.call("checkpoint", session="s")
    done = result(client, "globals().update(x=2), lose()")
    assert done["state"] == "restored_from_checkpoint" and done["restored"] is None
    done = result(client, "x")
    assert done["value"] == "1" and done["epoch"] == 2 and done["restored"]["missing"] == []


def test_an_interpreter_that_ended_between_cells_is_not_gone_on_with(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    assert result(client, "member(restarted=True)")["state"] == "lost"  # nothing to go back to
    client.run("globals().update(x=2)", "s")
    client.call("checkpoint", session="s")
    assert result(client, "member(restarted=True)")["state"] == "restored_from_checkpoint"
    done = result(client, "x")
    assert done["value"] == "2" and done["epoch"] == 2 and done["restored"]["missing"] == []
    # After a loss that was told the next cell says so too, and goes on.
    client.call("sessions.clear", session="s")
    client.run("member(state='lost')", "s")
    assert result(client, "member(restarted=True)")["state"] == "kept"


@pytest.mark.parametrize("late", [False, True])
def test_a_cell_that_met_no_executor_is_run_in_the_next(start: Callable[..., Daemon], late: bool,
                                                        tmp_path: Path) -> None:
    """Also where the tier says so only after the cell's intent was written, as it may at any time on a busy machine."""
    client, go = start(*LATER).client(), tmp_path / "go"
    client.run(f"globals().update(x=1), vanish({str(go) if late else '/'!r})", "s")
    client.call("checkpoint", session="s")
    asked = client.start("x", "s")
    assert not late or wait_for(lambda: len(history(client)) == 2)  # as the journal has it
    go.touch()
    done = client.end_of(asked)[1]
    assert (done["value"], done["epoch"]) == ("1", 2) and done["restored"]["missing"] == []
    tried = ["refused"] * (done["cell"] - 2)
    assert len(tried) <= 1 and [cell["status"] for cell in history(client)] == ["ok", *tried, "ok"]
    assert not late or tried
    assert client.run("x + 1", "s") == "2"


def test_another_python_is_named_with_the_way_out(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    client.call("checkpoint", session="s")
    client.run("python('9.9.1')", "other")
    assert client.call("hibernate", session="s")[0] == RESPONSE
    error = client.fail("x", "s")
    assert "Python 3" in error["message"] and "9.9" in error["message"] and error["remedy"] == {"kind": "clear_session",
                                                                                                "name": "s"}
    client.run("python('3')", "other")
    assert client.run("x", "s") == "1"
    client.run("python('9.9.1')", "other")
    client.call("hibernate", session="s")
    assert client.call("sessions.clear", session="s")[0] == RESPONSE
    assert client.run("'x' in globals()", "s") == "False"


def test_a_damaged_checkpoint_falls_back_to_the_one_before(start: Callable[..., Daemon], place: str) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    client.call("checkpoint", session="s")
    client.run("globals().update(big=__import__('os').urandom(1 << 20))", "s")
    client.call("checkpoint", session="s")
    client.call("hibernate", session="s")
    for folder, _, files in os.walk(os.path.join(place, "journal", "blobs")):
        for name in files:
            if os.path.getsize(os.path.join(folder, name)) > 1 << 19:
                with open(os.path.join(folder, name), "r+b") as out:
                    out.seek(1 << 18)
                    out.write(os.urandom(4096))
    error = client.fail("x", "s")
    assert "is damaged" in error["message"] and error["message"].endswith("use the previous checkpoint"), error
    assert wait_for(lambda: row(client)["checkpoint_cell"] == 1)
    assert "cell 2" in client.fail("x", "s")["message"]
    done = result(client, "x", recover="checkpoint")
    assert done["value"] == "1" and done["restored"]["missing"] == [2]


# Hibernation and waking


def test_the_least_recently_used_makes_room(start: Callable[..., Daemon]) -> None:
    client = start("--live-max", "2", *LATER).client()
    for n in range(4):
        client.run(f"globals().update(x={n})", f"s{n}")
        assert wait_for(lambda: sum(line["state"] != "hibernated" for line in
                                    client.call("sessions.list")[1]["sessions"]) <= 2)
    states = {line["name"]: line["state"] for line in client.call("sessions.list")[1]["sessions"]}
    assert states == {"s0": "hibernated", "s1": "hibernated", "s2": "idle", "s3": "idle"}
    for n in range(4):
        assert client.run("x", f"s{n}") == str(n)


def test_live_sessions_are_bounded_in_memory(start: Callable[..., Daemon]) -> None:
    """By what they take now, not by what their last cell took at most."""
    client = start("--live-memory", "100m", "--idle", "2", *LATER).client()  # looked at often
    for name, size in (("a", 60), ("b", 10), ("c", 50), ("d", 45)):
        client.run(f"holds({size << 20})", name)

    def states() -> Json:
        return {line["name"]: line["state"] for line in client.call("sessions.list")[1]["sessions"]}

    assert wait_for(lambda: {states()["a"], states()["b"]} == {"hibernated"})
    assert states() == {"a": "hibernated", "b": "hibernated", "c": "idle", "d": "idle"}


def test_running_sessions_are_not_put_to_sleep(start: Callable[..., Daemon]) -> None:
    client = start("--live-max", "2", *LATER).client()
    running = [client.start("wait()", f"r{n}") for n in range(2)]
    assert wait_for(lambda: sum(line["state"] == "running" for line in
                                client.call("sessions.list")[1]["sessions"]) == 2)
    more = client.start("1", "more")
    assert client.run("1") == "1"  # what lasts no longer than its call needs no place
    assert row(client, "more")["state"] == "running" and row(client, "more")["cells"] == 0
    client.send({"method": "interrupt", "session": "r0"})
    assert client.end_of(more)[1]["value"] == "1"
    states = {line["name"]: line["state"] for line in client.call("sessions.list")[1]["sessions"]}
    assert states == {"r0": "hibernated", "r1": "running", "more": "idle"}
    assert running


def test_room_is_given_to_one_client_after_the_other(start: Callable[..., Daemon], tmp_path: Path) -> None:
    daemon, go, order = start("--live-max", "1", *LATER), tmp_path / "go", tmp_path / "order"
    many, few = daemon.client(), daemon.client()
    many.start(f"until({str(go)!r})", "busy")
    assert wait_for(lambda: row(daemon.client(), "busy")["state"] == "running")
    for name, client in [*((f"m{n}", many) for n in range(6)), ("f0", few), ("f1", few)]:
        client.start(f"open({str(order)!r}, 'a').write('{name} ')", name)
    assert (many.call("stats")[0], few.call("stats")[0]) == (RESPONSE, RESPONSE)  # all have come
    go.touch()
    assert wait_for(lambda: order.exists() and len(order.read_text().split()) == 8)
    first, rest = order.read_text().split()[:4], order.read_text().split()[4:]
    assert sorted(first) == ["f0", "f1", "m0", "m1"] and rest == ["m2", "m3", "m4", "m5"], (first, rest)


def test_a_place_that_nobody_can_leave_is_said(start: Callable[..., Daemon]) -> None:
    client = start("--live-max", "1", *LATER).client()
    client.run("globals().update(lock=__import__('threading').Lock())", "s")
    error = client.fail("1", "more")
    assert error["code"] == "limit" and "cannot be saved" in error["message"], error
    assert client.run("'lock' in globals()", "s") == "True"


@pytest.mark.parametrize("aside", ["", "aside(), "], ids=["alone", "aside"])
def test_a_session_hibernates_after_the_save_that_is_under_way(aside: str, start: Callable[..., Daemon],
                                                               tmp_path: Path) -> None:
    client, go = start(*LATER).client(), tmp_path / "go"
    client.run(f"{aside}globals().update(x=2), slow({str(go)!r})", "s", checkpoint="after")
    asked = client.send({"method": "hibernate", "session": "s"})
    assert row(client)["state"] != "hibernated"  # it has come
    go.touch()
    assert client.end_of(asked)[0] == RESPONSE and row(client)["state"] == "hibernated"
    assert client.run("x", "s") == "2"


@pytest.mark.parametrize("aside", ["", "aside(), "], ids=["alone", "aside"])
def test_what_is_asked_during_a_save_waits_for_it(aside: str, start: Callable[..., Daemon],
                                                  tmp_path: Path) -> None:
    client = start(*LATER).client()
    for turn, (name, methods) in enumerate((("s", ["hibernate", "hibernate"]), ("s", ["sessions.clear"]),
                                            ("default", ["sessions.destroy"]))):
        go = tmp_path / str(turn)
        client.run(f"{aside}globals().update(x={turn}), slow({str(go)!r})", name)
        asked = [client.send({"method": method, "session": name}) for method in ["checkpoint", *methods]]
        assert client.call("sessions.list")[0] == RESPONSE  # all of them have come
        go.touch()
        ends = {ident: (kind, head) for kind, ident, head, _ in [client.recv() for _ in asked]}
        assert [ends[ident][0] for ident in asked] == [RESPONSE] * len(asked), ends
        assert methods[0] != methods[-1] or ends[asked[1]] == ends[asked[-1]]
        kept = methods[-1] == "hibernate"
        assert client.run("'x' in globals()", name) == str(kept) and row(client, name)["cells"] == (2 if kept else 1)


def test_sessions_that_are_not_saved_are_named_and_counted(start: Callable[..., Daemon]) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    names = [f"{n:02}" + "n" * 30 for n in range(20)]
    for name in names:
        client.run("torn(99)", name)
    kind, head, _, _ = client.call("shutdown", force=False)
    shown = head["message"].removeprefix("20 sessions could not be saved: ").split(", ")
    last, _, more = shown[-1].partition(" and ")
    assert kind == ERROR and [*shown[:-1], last] == names[:len(shown)], head
    assert more == f"{20 - len(shown)} more", head


def test_a_session_hibernates_when_its_cell_has_ended(start: Callable[..., Daemon]) -> None:
    daemon = start(*LATER)
    client, other = daemon.client(), daemon.client()
    client.run("1", "s")
    running = client.start("wait(600)", "s")
    assert wait_for(lambda: row(other)["state"] == "running")
    asked = other.send({"method": "hibernate", "session": "s"})
    again = other.send({"method": "hibernate", "session": "s"})
    ask = daemon.client()
    assert row(ask)["state"] == "running"
    assert ask.call("interrupt", session="s")[1]["interrupted"]
    assert client.end_of(running)[0] == RESPONSE
    assert other.end_of(asked)[1]["hibernated"] and other.end_of(again)[1]["hibernated"]
    assert row(ask)["state"] == "hibernated"


def test_what_is_queued_does_not_make_hibernate_fail(start: Callable[..., Daemon], tmp_path: Path) -> None:
    """Cells, files, snapshots and saves that come while it is saved and tried wait, and wake it."""
    daemon = start(*LATER)
    client, other = daemon.client(), daemon.client()
    go = tmp_path / "go"
    client.run(f"globals().update(n=0), slow({str(go)!r})", "s")
    asked = other.send({"method": "hibernate", "session": "s"})
    assert other.call("stats")[0] == RESPONSE  # it has come
    queued = [client.start("globals().update(n=n + 1)", "s") for _ in range(5)]
    queued.append(client.send({"method": "put", "session": "s", "path": "f", "mode": 0o644, "offset": 0}, b"1"))
    queued.append(client.send({"method": "snapshot", "session": "s", "name": "now"}))
    queued.append(client.send({"method": "checkpoint", "session": "s"}))
    assert client.call("stats")[0] == RESPONSE
    go.touch()
    kind, head, _, _ = other.end_of(asked)
    assert kind == RESPONSE and head["hibernated"], head
    ends = {ident: (kind, head) for kind, ident, head, _ in (client.recv() for _ in queued)}
    assert {ends[ident][0] for ident in queued} == {RESPONSE}, ends
    assert client.run("n", "s") == "5" and row(client)["epoch"] == 2


@pytest.mark.parametrize("phase", ["saved", "tried"])
def test_what_changes_a_session_waits_while_it_hibernates(phase: str, start: Callable[..., Daemon],
                                                          tmp_path: Path) -> None:
    daemon = start(*LATER)
    client, other = daemon.client(), daemon.client()
    clear: Json = {"method": "sessions.clear"}
    destroy: Json = {"method": "sessions.destroy"}
    higher: Json = {"method": "sessions.set", "limits": {"timeout_ms": 50000}}
    lower: Json = {"method": "sessions.set", "limits": {"memory_bytes": 1 << 27}}
    for n, asks in enumerate([[higher], [lower], [clear], [destroy], [higher, clear, destroy], [clear, higher, lower]]):
        go, name = tmp_path / str(n), f"s{n}"
        client.run(f"globals().update(x=1), {'slow' if phase == 'saved' else 'loads'}({str(go)!r})", name)
        hibernating = other.send({"method": "hibernate", "session": name})
        assert other.call("stats")[0] == RESPONSE  # it has come
        assert phase == "saved" or wait_for(lambda: Path(f"{go}.begun").exists())
        idents = [client.send({**ask, "session": name}) for ask in asks]
        assert client.call("stats")[0] == RESPONSE
        go.touch()
        kind, head, _, _ = other.end_of(hibernating)
        assert kind == RESPONSE and head["hibernated"], (asks, head)
        ends = {ident: (kind, head) for kind, ident, head, _ in (client.recv() for _ in idents)}
        if destroy in asks:
            assert ends[idents[-1]][0] == RESPONSE, ends
            assert name not in [line["name"] for line in client.call("sessions.list")[1]["sessions"]]
            continue
        assert {kind for kind, _ in ends.values()} == {RESPONSE}, ends
        shown = client.call("sessions.show", session=name)[1]["limits"]
        assert all(shown[key] == value for ask in asks for key, value in ask.get("limits", {}).items()), shown
        assert client.run("'x' in globals()", name) == str(clear not in asks)


@pytest.mark.parametrize("aside", ["", "aside(), "], ids=["alone", "aside"])
def test_a_save_that_was_asked_for_ends_before_its_session(aside: str, start: Callable[..., Daemon],
                                                           tmp_path: Path) -> None:
    client, go = start(*LATER).client(), tmp_path / "go"
    client.run(f"{aside}globals().update(x=1), slow({str(go)!r})", "s")
    asked = [client.send({"method": method, "session": "s"}) for method in ("checkpoint", "sessions.destroy")]
    assert client.call("stats")[0] == RESPONSE
    go.touch()
    ends = {ident: (kind, head) for kind, ident, head, _ in [client.recv() for _ in asked]}
    assert [ends[ident][0] for ident in asked] == [RESPONSE] * 2, ends
    assert client.run("'x' in globals()", "s") == "False"


def test_a_session_ends_at_once_if_its_save_was_not_asked_for(start: Callable[..., Daemon], tmp_path: Path) -> None:
    client, go = start(*LATER).client(), tmp_path / "go"
    client.run(f"slow({str(go)!r})", "s", checkpoint="after")
    assert client.call("sessions.destroy", session="s")[0] == RESPONSE
    go.touch()


def test_files_of_a_hibernated_session_wake_it(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("1", "s")
    client.call("put", b"one", session="s", path="f", offset=0, truncate=True, mode=0)
    assert client.call("hibernate", session="s")[0] == RESPONSE
    assert row(client)["state"] == "hibernated"
    assert [entry["name"] for entry in client.call("ls", session="s", path=".")[1]["entries"]] == ["f"]
    assert row(client)["state"] == "idle"


def test_an_end_in_order_saves_all(start: Callable[..., Daemon]) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    for n in range(5):
        client.run(f"globals().update(x={n})", f"s{n}")
    kill(daemon, signal.SIGTERM)
    client = start(*LATER).client()
    for n in range(5):
        assert client.run("x", f"s{n}") == str(n)


def test_an_end_by_a_signal_names_what_it_could_not_save(start: Callable[..., Daemon]) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    for name, code in (("a", "torn(99)"), ("b", "torn(99)"), ("c", "globals().update(x=1)")):
        client.run(code, name)
    kill(daemon, signal.SIGTERM)
    either = ("a, b", "b, a")  # the order in which saving them failed
    assert any(f'end-unsaved sessions="{names}"' in daemon.text() for names in either)
    client = start(*LATER).client()
    event, = (one for one in client.call("journal.events")[1]["events"] if one["kind"].startswith("end_"))
    assert event["kind"] == "end_unsaved" and any(f"ended: {names} (" in event["text"] for names in either), event
    assert {line["name"]: line["state"] for line in client.call("sessions.list")[1]["sessions"]} == {
        "a": "lost", "b": "lost", "c": "hibernated"}


def test_an_end_in_order_waits_for_what_is_in_flight(start: Callable[..., Daemon], tmp_path: Path) -> None:
    daemon, go = start(*LATER), tmp_path / "go"
    client = daemon.client()
    client.run("globals().update(x=1), torn()", "torn")  # its first save is torn
    client.run("globals().update(x=1)", "s")
    running = client.start(f"until({str(go)!r})", "s")
    queued = client.start("globals().update(x=2)", "s")
    assert wait_for(lambda: row(daemon.client())["state"] == "running")
    put(daemon.client(), "beside")
    daemon.process.send_signal(signal.SIGTERM)
    kind, head, *_ = client.end_of(queued)
    assert kind == ERROR and "ending" in head["message"]
    go.touch()
    assert client.end_of(running)[0] == RESPONSE
    kill(daemon, signal.SIGTERM)
    client = start(*LATER).client()
    assert client.run("x", "torn") == "1"
    done = result(client, "x")
    assert done["value"] == "1" and (done["restored"]["missing"], done["restored"]["missing_puts"]) == ([], [])


# Fencing


def test_a_stopped_tier_is_killed_before_the_next_one_starts(place: str, bin_folder: str) -> None:
    daemon = Daemon(place, bin_folder, "--tier-timeout", str(lib.PATIENCE / 6), *SOON)
    try:
        client = daemon.client()
        client.run("globals().update(x=1)", "s")
        assert saved(client, 1)
        old = children(daemon.process.pid)[0]
        os.kill(old, signal.SIGSTOP)
        asked = client.start("x", "s", limits={"timeout_ms": 100})
        kind, head, _, _ = client.end_of(asked)
        assert kind == ERROR, head
        assert wait_for(lambda: not is_alive(old))
        done = result(client, "x", recover="checkpoint")
        assert done["value"] == "1" and done["epoch"] == 2
        assert children(daemon.process.pid)[0] != old
    finally:
        kill(daemon)


def test_each_executor_has_an_id_of_its_own(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    ids = set()
    for _ in range(4):
        done = result(client, "HEAD['session'], HEAD['epoch'], OPEN['session'], OPEN['epoch']")
        inside = eval(done["value"])
        assert inside[:2] == inside[2:] and inside[1] == done["epoch"]
        assert done["session"] == row(client)["id"]
        ids.add(inside[0])
        assert client.call("hibernate", session="s")[0] == RESPONSE
    assert len(ids) == 4 and row(client)["epoch"] == 4


@pytest.mark.parametrize("late", ["epoch", "session"])
def test_the_answer_of_another_executor_is_refused(start: Callable[..., Daemon], late: str) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    client.run("1", "s")
    lie = {"epoch": "member(epoch=7)", "session": "member(session='0' * 32)"}[late]
    error = client.fail(lie, "s")
    assert error["code"] == "peer" and "for another" in error["message"]
    assert "broke the protocol" in daemon.text()
    assert [cell["status"] for cell in history(client)] == ["unknown", "ok"]


def test_a_late_answer_of_a_cleared_session_counts_for_nothing(start: Callable[..., Daemon], tmp_path: Path) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    client.run("globals().update(x=1)", "s")
    mark = str(tmp_path / "mark")
    running = client.start(f"until({mark!r})", "s")
    assert wait_for(lambda: row(client)["state"] == "running")
    asked = client.send({"method": "sessions.clear", "session": "s"})
    ends: dict[int, Any] = {}
    while len(ends) < 1:
        kind, ident, head, _ = client.recv()
        ends[ident] = kind, head
    assert ends == {asked: (RESPONSE, ends[asked][1])} and ends[asked][1]["epoch"] == 2
    assert client.run("'x' in globals()", "s") == "False"
    open(mark, "w").close()
    kind, head, _, _ = client.end_of(running)
    assert kind == ERROR and "the session was cleared" in head["message"]
    assert wait_for(lambda: "late-result" in daemon.text()) and len(history(client)) == 1


# Many, and slow ones


def test_two_hundred_clients_at_once(start: Callable[..., Daemon]) -> None:
    daemon = start("--live-max", "8", *SOON)

    def work(n: int) -> bool:
        client = daemon.client()
        try:
            for step in range(3):
                assert client.run(f"globals().update(x={step})", f"s{n % 20}", durability="process") is not None
            return client.run("x", f"s{n % 20}") in "012"
        finally:
            client.close()

    with ThreadPoolExecutor(200) as pool:
        assert all(pool.map(work, range(200)))
    client = daemon.client()
    assert sum(line["cells"] for line in client.call("sessions.list")[1]["sessions"]) == 800


def test_a_client_that_stops_reading_loses_no_outcome(start: Callable[..., Daemon]) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    client.start("[emit('y' * (1 << 20)) for _ in range(100)] and None", "s")
    other = daemon.client()
    assert wait_for(lambda: "stopped reading" in daemon.text(), 2 * lib.PATIENCE)
    assert wait_for(lambda: [cell["status"] for cell in history(other)] == ["ok"], 2 * lib.PATIENCE)


DIFFERS = {
    "value": "random.random()",
    "result": "member(result=str(random.random()))",
    "stdout": "emit(str(random.random()))",
    "stderr": "emit(str(random.random()), 'stderr')",
    "displays": "display(os.urandom(9))",
    "exit_code": "member(exit_code=random.randrange(1 << 30))",
    "error": "{}[random.random()]",
    "files": "member(files={'created': [str(random.random())], 'modified': [], 'deleted': [], 'truncated': False})",
    "contents of a": "member(files={'created': [], 'modified': ['a', 'b'], 'deleted': [], 'truncated': False, "
                     "'hashes': {'a': os.urandom(8).hex(), 'b': '0'}})",
}


@pytest.mark.parametrize("what", sorted(DIFFERS))
def test_a_replay_that_leaves_something_else_says_so(start: Callable[..., Daemon], what: str) -> None:
    """With the same status: the session is not as it was."""
    client = start(*LATER).client()
    for code in ("globals().update(random=__import__('random'), os=__import__('os'))", "emit('one'), emit('two'), 7",
                 DIFFERS[what], "1/0"):
        client.end_of(client.start(code, "s"))
    client = start(*LATER).client()
    done = result(client, "1", recover="replay")
    reason = f"its replay differs from its first run: {what}"
    assert done["restored"]["failed"] == [{"name": "cell 3", "reason": reason}], done["restored"]
    assert done["restored"]["replayed"] == [1, 2, 3, 4] and result(client, "1")["restored"] is None


def test_each_replay_without_a_file_that_was_put_names_it(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s", durability="process")
    put(client, "f")
    client.run("globals().update(x=2)", "s")
    for _ in range(2):
        client = start(*LATER).client()
        done = result(client, "x", recover="replay")
        assert done["value"] == "2" and done["restored"]["missing_puts"] == ["f"], done["restored"]
    assert result(client, "x")["restored"] is None
    client.call("checkpoint", session="s")
    client = start(*LATER).client()
    assert result(client, "x")["restored"]["missing_puts"] == []


# A database that is not the one of its contents


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal"])
def test_a_database_or_log_that_was_removed_is_reported(start: Callable[..., Daemon], place: str, name: str) -> None:
    """What the sessions had is neither forgotten in silence nor deleted."""
    folder = os.path.join(place, "journal")

    def contents() -> set[str]:
        return {file for at, _, files in os.walk(os.path.join(folder, "blobs")) for file in files if len(file) == 64}

    client = start(*LATER).client()
    client.run("globals().update(big=__import__('os').urandom(1 << 20))", "s")
    client.call("checkpoint", session="s")
    before = contents()
    assert before
    daemon = start(*LATER)  # kills the first
    daemon.client().run("1", "t")
    kill(daemon, signal.SIGKILL)
    os.remove(os.path.join(folder, name))
    daemon = start(*LATER)
    client = daemon.client()
    event, = (one for one in client.call("journal.events")[1]["events"] if one["kind"] == "journal_lost")
    note = event["text"].split(" until ")[1].split(" is removed")[0]
    assert os.path.exists(note) and " journal-lost " in daemon.text() and event["solved"] is False
    failed = result(client, "1", "t")["restored"]["failed"]
    assert "may have been lost" in failed[0]["reason"], failed
    kill(daemon, signal.SIGTERM)
    daemon = start(*LATER)
    assert daemon.client().call("gc")[0] == RESPONSE and before <= contents()
    kill(daemon, signal.SIGTERM)
    os.remove(note)
    for other in os.listdir(folder):
        if ".broken-" in other:
            os.remove(os.path.join(folder, other))
    client = start(*LATER).client()
    event, = (one for one in client.call("journal.events")[1]["events"] if one["kind"] == "journal_lost")
    assert event["solved"] is True
    assert name == "journal.db-wal" or wait_for(lambda: not before & contents())


@pytest.mark.parametrize("name", ["journal", "journal/journal.db", "journal/journal.db-wal"])
def test_a_journal_that_is_moved_while_in_use_is_said_until_it_is_back(start: Callable[..., Daemon], place: str,
                                                                       name: str) -> None:
    """Cells still run, and nothing that was written is lost; but no answer calls the session saved."""
    at, away = os.path.join(place, name), os.path.join(place, "away")
    daemon = start(*LATER)
    client = daemon.client()
    client.run("globals().update(x=1)", "s")
    client.call("checkpoint", session="s")
    os.rename(at, away)
    said = f"{at} was moved to {away} while in use; move it back"
    if name != "journal":
        said = f"{at} was removed or replaced while in use; put it back"
    assert said in result(client, "globals().update(x=2)")["unsaved"]["text"]
    for words in ("sessions", "doctor", "daemon status"):
        done = cli(daemon, *words.split())
        assert said in done.stdout + done.stderr, done
    for method in ("checkpoint", "hibernate"):
        kind, head, _, _ = client.call(method, session="s")
        assert kind == ERROR and said in head["message"], head
    done = cli(daemon, "daemon", "stop")
    assert done.returncode == 1 and f"session s: not saved since cell 2: {said}" in done.stderr, done
    assert client.call("journal.events")[1]["events"][0]["kind"] == "journal_moved"
    assert " journal-moved " in daemon.text() and not os.path.exists(at)
    os.rename(away, at)
    assert client.call("stats")[1]["unsaved"] == [] and "unsaved" not in result(client, "x")
    assert client.call("hibernate", session="s")[0] == RESPONSE
    client = start(*LATER).client()
    assert result(client, "x")["value"] == "2"


@pytest.mark.parametrize("is_forced", [False, True])
def test_a_journal_that_is_moved_has_what_was_saved_there(start: Callable[..., Daemon], place: str,
                                                          is_forced: bool) -> None:
    """Neither the end of the daemon nor a folder made in its place loses what the sessions have."""
    at, away = os.path.join(place, "journal"), os.path.join(place, "away")
    daemon = start(*LATER)
    client = daemon.client()
    client.run("globals().update(x=1)", "s")
    os.rename(at, away)
    shutil.copytree(away, at)
    client.run("globals().update(x=2)", "s")
    log = os.path.getsize(os.path.join(at, "journal.db-wal"))
    if is_forced:
        lost = client.call("shutdown", force=True)[1]["lost"]
        assert [one["session"] for one in lost] == ["s"] and "was moved to" in lost[0]["reason"], lost
    kill(daemon, signal.SIGTERM)
    assert os.path.getsize(os.path.join(at, "journal.db-wal")) == log  # not the daemon's
    shutil.rmtree(at)
    os.rename(away, at)
    client = start(*LATER).client()
    assert row(client)["state"] == "hibernated" and result(client, "x")["value"] == "2"
