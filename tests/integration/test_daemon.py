# SPDX-License-Identifier: Apache-2.0
"""The daemon, black box: its protocol, its limits, and what it survives.

The tier is scripted_tier.py, which lies, dies and dawdles on request. The programs are
copied beside it, because the daemon looks for its tier in its own folder.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lib
from daemons import Client, Daemon, children
from lib import BUILD, ERROR, HEADER, Json, REQUEST, RESPONSE, is_alive, wait_for

MIB = 1 << 20
CLIENTS_MAX, SESSIONS_MAX = 512, 8192  # src/daemon/caps.h
with open(os.path.join(BUILD, "snipara-sandboxd"), "rb") as program:
    # The sanitizer keeps what was freed.
    IDLE_RSS = (15 if b"__asan_init" not in program.read() else 512) * MIB


@pytest.fixture
def daemon(place: str, bin_folder: str) -> Iterator[Daemon]:
    daemon = Daemon(place, bin_folder)
    yield daemon
    daemon.stop()


# The protocol


def test_hello_names_version_and_program(daemon: Daemon) -> None:
    kind, head, _, _ = daemon.client().call("hello", version=1)
    assert kind == RESPONSE
    assert head["version"] == 1 and head["pid"] == daemon.process.pid
    assert set(head) == {"version", "program", "pid", "uptime_ms", "state_dir", "state_id"}


def test_another_protocol_version_is_refused(daemon: Daemon) -> None:
    kind, head, _, _ = daemon.client().call("hello", version=2)
    assert kind == ERROR and head["code"] == "unsupported"
    assert "version 2" in head["message"]


def test_a_cell_streams_and_answers(daemon: Daemon) -> None:
    client = daemon.client()
    kind, head, raw, events = client.end_of(client.start("emit('a'), emit('b', 'stderr'), 5"))
    assert kind == RESPONSE and raw == b"", head
    assert events == [({"event": "stdout"}, b"a"), ({"event": "stderr"}, b"b")]
    assert head["name"] is None and head["cell"] == 1 and len(head["session"]) == 32


def test_a_result_has_the_manifest_of_its_session(daemon: Daemon) -> None:
    client = daemon.client()
    for session in (None, "s"):
        kind, head, _, _ = client.end_of(client.start("5", session))
        assert kind == RESPONSE and head["name"] == session
        assert head["manifest"]["interpreter"] == "scripted" and head["manifest"]["degraded"] == []
    assert client.call("sessions.show", session="s")[1]["manifest"] == head["manifest"]
    kind, head, _, _ = client.end_of(client.start("own(degraded=['x'])", "s"))
    assert kind == RESPONSE and head["manifest"]["degraded"] == ["x"]  # unless the cell had its own


def test_stdin_follows_the_code(daemon: Daemon) -> None:
    code = b"STDIN"
    kind, head, _, _ = daemon.client().call(
        "exec", code + b"in\0put", kind="python", code_len=len(code), stdin=True)
    assert kind == RESPONSE and head["value"] == repr(b"in\0put")


def test_a_command_reaches_the_tier(daemon: Daemon) -> None:
    kind, head, _, _ = daemon.client().call("exec", kind="command", argv=["ls", "-l"])
    assert kind == RESPONSE and head["value"] == "['ls', '-l']"


def test_a_named_session_keeps_its_variables_across_clients(daemon: Daemon) -> None:
    daemon.client().run("globals().update(x=41)", "s")
    client = daemon.client()
    assert client.run("x + 1", "s") == "42"
    row = client.call("sessions.list")[1]["sessions"][0]
    assert row["name"] == "s" and row["state"] == "idle" and row["cells"] == 2
    assert client.run("x", row["id"]) == "41"


def test_an_unnamed_session_leaves_nothing(daemon: Daemon) -> None:
    client = daemon.client()
    client.run("1")
    assert wait_for(lambda: client.call("stats")[1]["sessions"] == 0)
    assert client.call("sessions.list")[1]["sessions"] == []


def test_an_open_session_keeps_its_policy(daemon: Daemon) -> None:
    client = daemon.client()
    client.run("1", "s", limits={"processes": 9})
    assert client.run("2", "s") == "2"
    assert client.run("2", "s", limits={"processes": 9, "timeout_ms": 1000}) == "2"
    assert client.run("HEAD['wall_ms']", "s", limits={"timeout_ms": 1000}) == "1000"
    error = client.fail("2", "s", limits={"processes": 10})
    assert error["code"] == "invalid" and error["object"] == "s"
    assert error["remedy"] == {"kind": "set_limit", "name": "processes", "value": 10}
    assert client.fail("2", "s", template="data")["code"] == "invalid"
    assert client.run("2", "s", defaults={"processes": 11, "template": "plot"}) == "2"


def test_a_new_session_takes_defaults_below_explicit_limits(daemon: Daemon) -> None:
    client = daemon.client()
    limits = client.run("OPEN['limits']['processes'], OPEN['limits']['open_files'], OPEN['template']",
                        defaults={"processes": 11, "open_files": 77, "template": "plot"},
                        limits={"processes": 12})
    assert limits == "(12, 77, 'plot')"


@pytest.mark.parametrize("head, says", [
    ({"method": "exce"}, "did you mean 'exec'"),
    ({"method": 5}, "'method'"),
    ({"method": "hello"}, "'version' is missing"),
    ({"method": "hello", "version": "1"}, "must be an integer"),
    ({"method": "stats", "more": 1}, "unknown member 'more'"),
    ({"method": "exec", "kind": "python", "sesion": "s"}, "did you mean 'session'"),
    ({"method": "exec", "kind": "python", "session": "a/b"}, "session name"),
    ({"method": "exec", "kind": "python", "code_len": 5}, "'code_len' is 5"),
    ({"method": "exec", "kind": "python", "tier": "vm"}, 'no tier "vm"; use auto or native'),
    ({"method": "exec", "kind": "python", "session": "0" * 32}, "no session"),
    ({"method": "exec", "kind": "python", "project": "/"}, "cannot be the project"),
    ({"method": "exec", "kind": "python", "project": "relative"}, "absolute"),
    ({"method": "exec", "kind": "python", "project": "/no/such/folder"}, "No such file"),
    ({"method": "sessions.show", "session": "nobody"}, "no session 'nobody'"),
    ({"method": "history", "session": "wrok"}, "no session 'wrok'; did you mean 'work'?"),
    ({"method": "fork", "from": "wrk"}, "no session or snapshot 'wrk'; did you mean 'work'?"),
    ({"method": "get", "session": "s", "path": "x", "offset": 0, "length": MIB + 1}, "at most"),
    ({"method": "interrupt"}, "either"),
])
def test_wrong_requests_are_named_and_harmless(daemon: Daemon, head: Json, says: str) -> None:
    client = daemon.client()
    client.run("1", "work")
    kind, answer, _, _ = client.end_of(client.send(head))
    assert kind == ERROR and says in answer["message"], answer
    assert client.run("1 + 1") == "2"


def test_home_and_links_are_no_project(place: str, bin_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home = os.path.join(place, "home")
    os.makedirs(os.path.join(home, "p"))
    os.symlink(home, os.path.join(place, "link"))
    monkeypatch.setenv("HOME", home)
    daemon = Daemon(place, bin_folder)
    client = daemon.client()
    assert client.fail("1", project=home)["code"] == "denied"
    assert client.fail("1", project=place)["code"] == "denied"
    assert "link" in client.fail("1", project=os.path.join(place, "link"))["message"]
    assert client.run("OPEN['project']", project=os.path.join(home, "p")) == repr(home + "/p")
    daemon.stop()


def test_files_come_back_as_they_went(daemon: Daemon) -> None:
    client = daemon.client()
    client.run("1", "s")
    data = os.urandom(MIB) + b"end"
    client.call("put", data[:MIB], session="s", path="f", offset=0, truncate=True, mode=0)
    assert client.call("put", data[MIB:], session="s", path="f", offset=MIB)[1]["size"] == len(data)
    parts = [client.call("get", session="s", path="f", offset=at, length=MIB) for at in (0, MIB)]
    assert b"".join(part[2] for part in parts) == data
    assert [part[1]["eof"] for part in parts] == [False, True]
    assert client.call("ls", session="s", path=".")[1]["entries"][0]["size"] == len(data)
    assert client.call("get", session="s", path="no", offset=0, length=1)[1]["code"] == "not_found"
    for handle in ("h", "l/s/1"):  # neither says that it is of the local tier, which is not there
        assert client.call("output", handle=handle, stream="stdout", offset=5, length=9)[2] == b"text"


def test_probe_comes_from_the_tier(daemon: Daemon) -> None:
    assert daemon.client().call("probe")[1]["features"][0]["name"] == "scripted"


# Order and interrupts


def test_one_cell_at_a_time_in_order(daemon: Daemon, tmp_path: Path) -> None:
    client = daemon.client()
    go = tmp_path / "go"
    first = client.start(f"globals().update(seen=['a'], t=until({str(go)!r}))", "s")
    others = [client.start(f"seen.append({n})", "s") for n in range(5)]
    last = client.start("seen", "s")
    assert client.call("sessions.list")[0] == RESPONSE  # all of them have come
    go.touch()
    ended = [client.recv()[1] for _ in range(7)]
    assert ended == [first, *others, last]
    assert client.run("seen", "s") == "['a', 0, 1, 2, 3, 4]"


def test_sessions_run_side_by_side(daemon: Daemon) -> None:
    client = daemon.client()
    slow = client.start("wait()", "slow")
    assert client.run("1", "fast") == "1"
    assert client.call("interrupt", session="slow")[1] == {"interrupted": True}
    assert client.call("sessions.show", session="slow")[0] == RESPONSE
    client.close()
    assert slow


def test_129_waiting_cells_are_too_many(daemon: Daemon) -> None:
    first, last, *clients = [daemon.client() for _ in range(6)]
    first.start("wait()", "s")
    assert wait_for(lambda: first.call("sessions.show", session="s")[1].get("cells") == 1)
    for client in clients:
        for _ in range(31):
            client.start("1", "s")
        assert client.call("sessions.show", session="s")[0] == RESPONSE  # the daemon has read them
    for _ in range(4):
        last.start("1", "s")
    assert last.fail("1", "s")["code"] == "limit"
    first.call("interrupt", session="s")


def test_interrupt_by_request_and_of_a_waiting_cell(daemon: Daemon) -> None:
    client = daemon.client()
    running = client.start("wait()", "s")
    assert wait_for(lambda: client.call("sessions.show", session="s")[1].get("cells") == 1)
    waiting = client.start("1", "s")
    ask = client.send({"method": "interrupt", "request": waiting})
    ends: dict[int, Any] = {}
    while len(ends) < 2:
        kind, ident, head, _ = client.recv()
        ends[ident] = (kind, head)
    assert ends[waiting][0] == ERROR and ends[waiting][1]["code"] == "timeout"
    assert ends[ask] == (RESPONSE, {"interrupted": True})
    client.send({"method": "interrupt", "request": running})
    assert client.end_of(running)[1]["status"] == "interrupted"
    assert client.call("interrupt", session="s")[1] == {"interrupted": False}


def test_destroy_ends_running_and_waiting_cells(daemon: Daemon) -> None:
    client = daemon.client()
    running = client.start("wait()", "s")
    waiting = client.start("1", "s")
    other = daemon.client()
    assert wait_for(lambda: other.call("sessions.show", session="s")[1].get("cells") == 1)
    done = other.call("sessions.destroy", session="s")[1]
    assert done["destroyed"] and (done["ended"]["cell"], done["ended"]["waiting"]) == (1, 1)
    ends = {client.recv()[1] for _ in range(2)}
    assert ends == {running, waiting}
    assert other.call("sessions.destroy", session="s")[1]["code"] == "not_found"
    assert other.run("'x' in globals()", "s") == "False"
    client.start("wait()")  # one without a name

    def running_now() -> list[Any]:
        rows = other.call("sessions.list")[1]["sessions"]
        return [row["id"] for row in rows if row["state"] == "running" and row["cells"] == 1]

    assert wait_for(running_now)
    done = other.call("sessions.destroy", session=running_now()[0])[1]
    assert done["ended"]["ran_ms"] < 365 * 24 * 3600 * 1000  # not since 1970


def test_the_input_of_cells_that_were_ended_no_longer_counts(daemon: Daemon) -> None:
    """What a client holds is bounded (64 MiB); a cell whose session went from under it gives its part back."""
    client = daemon.client()
    head = {"method": "exec", "kind": "python", "code_len": 6, "stdin": True, "session": "gone"}

    def frame(head: Json, ident: int, raw: bytes = b"") -> bytes:
        text = json.dumps(head).encode()
        return HEADER.pack(len(text) + len(raw), ident, len(text), REQUEST) + text + raw

    for i in range(8):
        client.run("1", "gone")
        # In one piece: the session ends before the cell's intent is written.
        client.sock.sendall(frame(head, 1000 + i, b"wait()" + bytes(10 * MIB)) +
                            frame({"method": "sessions.destroy", "session": "gone"}, 2000 + i))
        cell = 1000 + i
        kind, said, *_ = client.end_of(cell)
        assert kind == ERROR and "of code and input waiting" not in said["message"], said


# Clients that misbehave


@pytest.mark.parametrize("data", [
    b"GET / HTTP/1.1\r\n\r\n" * 4,
    b"\xff" * 64,
    HEADER.pack(1 << 30, 1, 2, 1),
    HEADER.pack(2, 1, 5, 1) + b"{}",
    HEADER.pack(2, 1, 2, 9) + b"{}",
    HEADER.pack(2, 0, 2, 1) + b"{}",
    HEADER.pack(2, 1, 2, 2) + b"{}",
    HEADER.pack(1, 1, 1, 1) + b"{",
    HEADER.pack(17, 1, 17, 1) + b'{"a": 1, "a": 2} ',
])
def test_garbage_is_cut_off_and_others_go_on(daemon: Daemon, data: bytes) -> None:
    other = daemon.client()
    other.run("globals().update(x=1)", "s")
    bad = daemon.client()
    bad.sock.sendall(data)
    assert bad.is_closed()
    assert other.run("x", "s") == "1"


def test_bad_json_is_answered_before_the_end(daemon: Daemon) -> None:
    client = daemon.client()
    client.send(b"{nonsense")
    kind, _, head, _ = client.recv()
    assert kind == ERROR and head["code"] == "invalid"
    assert client.is_closed()


def test_a_request_id_in_use_is_cut_off(daemon: Daemon) -> None:
    client = daemon.client()
    client.start("wait()", "s")
    client.send({"method": "stats"}, ident=client.last)
    assert client.is_closed()


def test_half_a_frame_is_waited_for_ten_seconds(daemon: Daemon) -> None:
    client, other = daemon.client(), daemon.client()
    text = b'{"method": "stats"}'
    frame = HEADER.pack(len(text), 1, len(text), 1) + text
    for byte in frame[:5]:
        client.sock.sendall(bytes([byte]))
        assert other.call("stats")[0] == RESPONSE  # so that it is read by itself
    begin = time.monotonic()
    client.sock.sendall(frame[5:] + frame[:7])
    assert client.recv()[0] == RESPONSE
    assert client.is_closed()
    assert time.monotonic() - begin > 9.5


def test_a_client_that_does_not_read_is_cut_off_and_its_session_kept(daemon: Daemon) -> None:
    client = daemon.client()
    client.run("globals().update(x=7)", "s")
    client.start("[emit('y' * (1 << 20)) for _ in range(100)] and None", "s")
    other = daemon.client()
    assert wait_for(lambda: other.call("stats")[1]["clients"] == 1, 2 * lib.PATIENCE)
    assert other.run("x", "s") == "7"
    assert "stopped reading" in daemon.text()
    assert wait_for(lambda: other.call("stats")[1]["rss_bytes"] < IDLE_RSS)


def test_a_client_that_dies_ends_its_unnamed_cell(daemon: Daemon) -> None:
    client = daemon.client()
    client.start("wait()")
    other = daemon.client()
    assert wait_for(lambda: other.call("stats")[1]["sessions"] == 1)
    client.close()
    assert wait_for(lambda: other.call("stats")[1]["sessions"] == 0)


def test_a_client_that_dies_leaves_its_named_cell(daemon: Daemon, tmp_path: Path) -> None:
    client, go = daemon.client(), tmp_path / "go"
    client.start(f"globals().update(t=until({str(go)!r}), done=1)", "s")
    other = daemon.client()
    assert wait_for(lambda: other.call("sessions.show", session="s")[1].get("cells") == 1)
    client.close()
    assert wait_for(lambda: other.call("stats")[1]["clients"] == 1)
    go.touch()
    assert other.run("done", "s") == "1"


def test_one_client_too_many_is_turned_away(daemon: Daemon) -> None:
    clients = [daemon.client() for _ in range(CLIENTS_MAX)]
    assert all(client.call("stats")[0] == RESPONSE for client in clients)
    late = daemon.client()
    kind, _, head, _ = late.recv()
    assert kind == ERROR and head["code"] == "limit"
    assert late.is_closed()
    clients.pop().close()
    assert wait_for(lambda: clients[0].call("stats")[1]["clients"] == CLIENTS_MAX - 1)
    assert daemon.client().call("stats")[0] == RESPONSE


def test_the_thirty_third_open_request_is_refused(daemon: Daemon) -> None:
    client = daemon.client()
    slow = [client.start("wait()", f"s{n}") for n in range(32)]
    refused = client.send({"method": "stats"})
    kind, ident, head, _ = client.recv()
    assert (kind, ident, head["code"]) == (ERROR, refused, "limit")
    other = daemon.client()
    assert wait_for(lambda: sum(row["cells"] for row in other.call("sessions.list")[1]["sessions"]) == 32)
    for n in range(32):
        other.call("interrupt", session=f"s{n}")
    assert {client.recv()[1] for _ in slow} == set(slow)
    assert client.run("1") == "1"


@pytest.mark.slow
def test_one_session_too_many_is_refused(place: str, bin_folder: str) -> None:
    daemon = Daemon(place, bin_folder, "--live-max", str(SESSIONS_MAX), "--checkpoint-after", "600")
    client = daemon.client()
    for first in range(0, SESSIONS_MAX, 32):
        ids = [client.start("1", f"s{n}") for n in range(first, first + 32)]
        for _ in ids:
            kind, _, head, _ = client.recv()
            assert kind == RESPONSE, head
    assert client.fail("1", "more")["code"] == "limit"
    assert client.fail("1")["code"] == "limit"
    client.call("sessions.destroy", session="s7")
    assert client.run("1", "more") == "1"
    daemon.process.kill()  # an end in order would save all of them first
    daemon.process.wait()


def test_a_frame_at_the_cap_passes_and_one_above_does_not(daemon: Daemon) -> None:
    client = daemon.client()
    head = {"method": "exec", "kind": "python", "code_len": 5, "stdin": True}
    room = 16 * MIB - len(json.dumps(head).encode())
    code = b"len(STDIN)"
    head["code_len"] = len(code)
    room = 16 * MIB - len(json.dumps(head).encode())
    # What the daemon adds for the tier must still fit, so its answer is a limit, not the end.
    kind, answer, _, _ = client.end_of(client.send(head, code + b"x" * (room - len(code))))
    assert kind == ERROR and answer["code"] == "limit"
    kind, answer, _, _ = client.end_of(client.send(head, code + b"x" * (room - len(code) - 4096)))
    assert kind == RESPONSE and answer["value"] == str(room - len(code) - 4096)
    client.sock.sendall(HEADER.pack(16 * MIB + 1, 9, 2, 1))
    assert client.is_closed()


# Tiers that misbehave


def test_a_dead_tier_is_replaced_and_nothing_goes_on_unasked(place: str, bin_folder: str) -> None:
    daemon = Daemon(place, bin_folder, "--checkpoint-after", "600")
    client = daemon.client()
    client.run("globals().update(x=1)", "idle")
    error = client.fail("die()", "busy")
    assert error["code"] == "peer" and "lost" in error["message"]
    states = {row["name"]: row["state"] for row in client.call("sessions.list")[1]["sessions"]}
    assert states == {"idle": "lost", "busy": "unknown"}
    # Whatever needs the session is told what it lacks, as long as nobody has decided.
    for _ in range(2):
        error = client.call("ls", session="idle", path=".")[1]
        assert error["code"] == "denied" and error["object"] == "idle" and "replay" in lib.ways(error)
    assert "cell 1" in client.fail("x", "idle")["message"]
    assert client.run("'x' in globals()", "idle", recover="checkpoint") == "False"
    assert client.run("1", "idle") == "1"
    assert wait_for(lambda: len(children(daemon.process.pid)) == 1)
    daemon.stop()


@pytest.mark.parametrize("code", ["bad()", "emit('x', 'no-such-event')"])
def test_a_tier_that_breaks_the_protocol_is_ended(daemon: Daemon, code: str) -> None:
    client = daemon.client()
    client.run("1")
    old = children(daemon.process.pid)
    assert client.fail(code)["code"] == "peer"
    assert client.run("1 + 1") == "2"
    assert wait_for(lambda: not set(old) & set(children(daemon.process.pid)))
    assert "broke the protocol" in daemon.text()


def test_a_session_that_ends_by_itself_is_not_begun_anew_unasked(place: str, bin_folder: str) -> None:
    daemon = Daemon(place, bin_folder, "--checkpoint-after", "600")
    client = daemon.client()
    client.run("gone()", "s")
    assert client.call("sessions.show", session="s")[1]["state"] == "lost"
    assert "cell 1" in client.fail("1", "s")["message"]
    assert client.run("1", "s", recover="checkpoint") == "1"
    daemon.stop()


def test_a_missing_tier_is_a_clear_error(place: str, bin_folder: str, tmp_path: Path) -> None:
    shutil.copy(os.path.join(bin_folder, "snipara-sandboxd"), tmp_path)
    daemon = Daemon(place, str(tmp_path))
    assert "tier-native" in daemon.client().fail("1")["message"]
    daemon.stop()


def test_nothing_is_inherited_by_the_tier(daemon: Daemon) -> None:
    client = daemon.client()
    fds = client.run("__import__('os').listdir('/proc/self/fd')")
    # 0 to 3, and the one listdir itself holds
    assert sorted(map(int, eval(fds)))[:4] == [0, 1, 2, 3] and len(eval(fds)) == 5


# Its own life


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(place: str, bin_folder: str, number: signal.Signals) -> None:
    daemon = Daemon(place, bin_folder)
    client = daemon.client()
    client.run("1", "s")
    tiers = children(daemon.process.pid)
    daemon.process.send_signal(number)
    assert daemon.process.wait(2 * lib.PATIENCE) == 0
    assert not os.path.exists(daemon.socket)
    assert client.is_closed()
    assert not any(map(is_alive, tiers))


def test_shutdown_is_answered_when_sessions_are_gone(place: str, bin_folder: str) -> None:
    daemon = Daemon(place, bin_folder)
    client = daemon.client()
    client.run("1", "s")
    tiers = children(daemon.process.pid)
    slow = client.start("wait()", "s")
    kind, head, _, _ = client.call("shutdown")
    assert (kind, head) == (RESPONSE, {"lost": []})
    assert not any(map(is_alive, tiers))
    assert daemon.process.wait(2 * lib.PATIENCE) == 0
    assert slow


def test_it_ends_when_idle_but_not_with_a_client_or_session(place: str, bin_folder: str) -> None:
    is_met = False
    while not is_met:
        daemon = Daemon(place, bin_folder, "--idle", "0.3", "--session-idle", "600")
        with contextlib.suppress(OSError, EOFError):  # on a busy machine it ends before
            client = daemon.client()
            is_met = client.call("hello", version=1)[0] == RESPONSE
        if not is_met:
            daemon.process.wait(lib.PATIENCE)
    time.sleep(0.8)  # nothing follows an end that does not come
    client.run("1", "s")
    client.close()
    time.sleep(0.8)  # likewise
    client = daemon.client()
    assert client.call("hibernate", session="s")[1]["hibernated"]
    client.close()
    assert daemon.process.wait(2 * lib.PATIENCE) == 0
    assert not os.path.exists(daemon.socket)


def test_an_idle_session_hibernates(place: str, bin_folder: str) -> None:
    daemon = Daemon(place, bin_folder, "--session-idle", "0.3")
    client = daemon.client()
    client.run("globals().update(x=1)", "s")
    assert wait_for(lambda: client.call("sessions.show", session="s")[1]["state"] == "hibernated")
    assert client.run("x", "s") == "1"
    daemon.stop()


def test_limits_are_set_where_the_tier_cannot_change_them(place: str, bin_folder: str) -> None:
    """The test tier has no `limit` method. A running cell need not end first."""
    daemon = Daemon(place, bin_folder)
    client, other = daemon.client(), daemon.client()
    client.run("1", "s")
    running = other.start("wait(600)", "s")
    assert wait_for(lambda: client.call("sessions.show", session="s")[1]["state"] == "running")
    answer = client.call("sessions.set", session="s", limits={"timeout_ms": 600000, "memory_bytes": 1 << 30})[1]
    assert (answer["was"]["timeout_ms"], answer["limits"]["timeout_ms"]) == (30000, 600000), answer
    assert (answer["at_wake"], answer["state"]) == (["memory"], "running")
    for limits in ({}, {"memory_bytes": 1}, {"mars": 1}, {"cpus_milli": "2"}):
        kind, bad, *_ = client.call("sessions.set", session="s", limits=limits)
        assert kind == RESPONSE if not limits else (kind == ERROR and bad["code"] == "invalid"), bad
    other.call("interrupt", session="s")
    assert other.end_of(running)[0] in (RESPONSE, ERROR)
    assert client.call("hibernate", session="s")[1]["hibernated"]
    answer = client.call("sessions.set", session="s", limits={"cpus_milli": 500})[1]
    assert (answer["at_wake"], answer["state"]) == (["cpus"], "hibernated")
    daemon.process.kill()
    daemon.process.wait()
    daemon = Daemon(place, bin_folder)
    shown = daemon.client().call("sessions.show", session="s")[1]["limits"]
    assert (shown["timeout_ms"], shown["memory_bytes"], shown["cpus_milli"]) == (600000, 1 << 30, 500)
    daemon.stop()


def test_idle_memory_is_small(daemon: Daemon) -> None:
    client = daemon.client()
    for _ in range(20):
        client.run("1")
    client.call("exec", b"len(STDIN)" + b"x" * (8 * MIB), kind="python", code_len=10, stdin=True)
    assert wait_for(lambda: client.call("stats")[1]["rss_bytes"] < IDLE_RSS)


def test_a_stale_socket_is_replaced(place: str, bin_folder: str) -> None:
    first = Daemon(place, bin_folder)
    first.process.kill()
    first.process.wait()
    assert os.path.exists(first.socket)
    second = Daemon(place, bin_folder)
    assert second.client().run("1") == "1"
    assert os.stat(second.socket).st_mode & 0o777 == 0o600
    second.stop()


def test_a_killed_daemon_takes_its_tier_along(place: str, bin_folder: str) -> None:
    daemon = Daemon(place, bin_folder)
    daemon.client().run("1", "s")
    tiers = children(daemon.process.pid)
    daemon.process.kill()
    daemon.process.wait()
    assert tiers and wait_for(lambda: not any(map(is_alive, tiers)))


@pytest.mark.skipif(os.geteuid() != 0, reason="root: only it can act as another user")
def test_another_user_is_turned_away_without_a_word(bin_folder: str, place: str) -> None:
    folder = tempfile.mkdtemp(prefix="snp-peer-")
    daemon = Daemon(folder, bin_folder)
    os.chmod(folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    talk = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(float(sys.argv[2]))\n"
            "s.connect(sys.argv[1]); print(s.recv(100))")
    runs = [subprocess.run(["/usr/bin/python3", "-c", talk, daemon.socket, seconds], user=user,
                           capture_output=True, text=True, timeout=2 * lib.PATIENCE)
            for user, seconds in ((65534, str(lib.PATIENCE)), (0, "1"))]
    daemon.stop()
    log = daemon.text()
    shutil.rmtree(folder)
    assert runs[0].stdout == "b''\n"
    assert "TimeoutError" in runs[1].stderr  # our own user is waited for
    assert log.count("client-refused") == 1


def test_a_second_daemon_leaves_without_a_word(daemon: Daemon, bin_folder: str, place: str) -> None:
    again = subprocess.run([os.path.join(bin_folder, "snipara-sandboxd"), "--foreground", "--socket",
                            daemon.socket, "--state", place], capture_output=True, text=True, timeout=lib.PATIENCE)
    assert (again.returncode, again.stderr) == (0, "")
    assert daemon.client().run("1") == "1"


def test_a_file_in_the_place_of_the_socket_is_not_removed(place: str, bin_folder: str) -> None:
    path = os.path.join(place, "s")
    with open(path, "w") as out:
        out.write("mine")
    with pytest.raises(RuntimeError, match="not a socket"):
        Daemon(place, bin_folder)
    with open(path) as text:
        assert text.read() == "mine"


@pytest.mark.parametrize("options", [["--idle", "x"], ["--nonsense"], ["--log-level", "loud"],
                                     ["extra"], ["--ready-fd", "1"], ["--socket", "relative"]])
def test_wrong_options_are_refused(bin_folder: str, place: str, options: list[str]) -> None:
    run = subprocess.run([os.path.join(bin_folder, "snipara-sandboxd"), "--state", place, "--foreground",
                          *options], capture_output=True, text=True, timeout=lib.PATIENCE)
    assert run.returncode == 2 and run.stderr.count("\n") == 1


# The command line against it


class Cli:
    """The command line in an empty world."""

    def __init__(self, place: str, bin_folder: str) -> None:
        self.place, self.program = place, os.path.join(bin_folder, "snipara-sandbox")
        self.folder = os.path.join(place, "run")
        self.env = {"PATH": os.environ["PATH"], "HOME": place, "SNIPARA_SANDBOX_RUNTIME_DIR": self.folder,
                    "SNIPARA_SANDBOX_STATE_DIR": os.path.join(place, "state"), "SECRET_KEY": "sesame"}

    def __call__(self, *args: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        options.setdefault("timeout", 2 * lib.PATIENCE)
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            [self.program, *args], env=self.env, cwd=self.place, capture_output=True, **options)
        return done


@pytest.fixture
def cli(place: str, bin_folder: str) -> Iterator[Cli]:
    """Its daemon is ended afterwards."""
    cli = Cli(place, bin_folder)
    yield cli
    path = os.path.join(cli.folder, "sandboxd.sock")
    if os.path.exists(path):
        Client(path).call("shutdown")


def test_the_first_call_starts_the_daemon(cli: Cli) -> None:
    done = cli("exec", "6 * 7")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"42\n", b"")
    client = Client(os.path.join(cli.folder, "sandboxd.sock"))
    pid = client.call("hello", version=1)[1]["pid"]
    with open(f"/proc/{pid}/environ", "rb") as environ:
        assert b"sesame" not in environ.read()
    assert os.getsid(pid) == pid


def test_twenty_first_calls_at_once_share_one_daemon(cli: Cli) -> None:
    with ThreadPoolExecutor(20) as pool:
        runs = list(pool.map(lambda n: cli("exec", f"{n} + {n}"), range(20)))
    assert [run.stdout for run in runs] == [b"%d\n" % (2 * n) for n in range(20)]
    log = open(os.path.join(cli.env["SNIPARA_SANDBOX_STATE_DIR"], "daemon.log")).read()
    assert log.count(" daemon start ") == 1


def test_output_goes_where_the_code_sent_it(cli: Cli) -> None:
    done = cli("exec", "emit('out'), emit('err', 'stderr'), None")
    assert done.stdout == b"out\n(None, None, None)\n" and done.stderr == b"err"


def test_json_is_one_result(cli: Cli) -> None:
    done = cli("exec", "--json", "--session", "s", "emit('out') or display(b'\\x00\\x01')")
    result = json.loads(done.stdout)
    assert done.returncode == 0 and done.stderr == b""
    assert result["stdout"] == "out" and result["name"] == "s"
    assert result["displays"] == [{"image/png": "AAE="}]
    assert list(result)[:5] == ["session", "name", "cell", "epoch", "status"]


def test_a_failed_cell_is_exit_one_with_its_traceback(cli: Cli) -> None:
    done = cli("exec", "1 / 0")
    assert done.returncode == 1 and done.stdout == b"" and b"ZeroDivisionError" in done.stderr


def test_code_comes_from_file_and_stdin(cli: Cli, place: str) -> None:
    path = os.path.join(place, "code.py")
    with open(path, "w") as out:
        out.write("40 + 2")
    assert cli("exec", "-f", path).stdout == b"42\n"
    assert cli("exec", "-", input=b"40 + 3").stdout == b"43\n"
    assert cli("exec", "--stdin", "-", "STDIN", input=b"in").stdout == b"b'in'\n"
    pipe = path + ".pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(cli, "exec", "-f", pipe)
        with open(pipe, "w") as out:
            out.write("40 + 4")
        assert run.result().stdout == b"44\n"
    missing = cli("exec", "-f", path + "x")
    assert missing.returncode == 1 and missing.stderr.count(b"\n") == 1


def test_commands_and_shell_lines(cli: Cli) -> None:
    assert cli("exec", "--", "ls", "-l", "--json").stdout == b"['ls', '-l', '--json']\n"
    assert cli("exec", "--sh", "ls | wc").stdout == b"['/bin/sh', '-c', 'ls | wc']\n"


@pytest.mark.parametrize("args, status, says", [
    (["exec"], 2, "nothing to run"), (["exec", __file__], 2, "is a file, not code; run it with --file"),
    (["exec", "1", "2"], 2, "one argument"),
    (["exec", "1", "--", "2"], 2, "not both"),
    (["exec", "--env", "vm", "1"], 2, "native"),
    (["exec", "--memory", "1", "1"], 2, "--memory"),
    (["exec", "--project", ".", "1"], 1, "cannot be the project"),
    (["exec", "--project", "/no/such", "1"], 1, "no such folder"),
    (["exec", "--session", "a/b", "1"], 2, "session name"),
    (["exec", "--set-env", "A", "1"], 2, "NAME=VALUE"),
    (["exec", "--pass-env", "NOT_SET", "1"], 1, "not set"),
    (["exec", "--template", "big", "1"], 1, "base"),
    (["sessions", "show", "nobody"], 1, "no session"),
    (["sessions", "destroy"], 2, "--all"),
    (["put", "no-such-file", "s:x"], 1, "no such file"),
    (["put", "/dev/null", "s:x"], 2, "not a regular file"),
    (["get", "s"], 2, "SESSION:PATH"),
    (["get", "nobody:x"], 1, "no session"),
    (["ls", "nobody"], 1, "no session"),
])
def test_wrong_use_is_one_clear_line(cli: Cli, args: list[str], status: int,
                                     says: str) -> None:
    done = cli(*args)
    assert done.returncode == status, done.stderr
    assert says in done.stderr.decode() and done.stdout == b""


def test_variables_reach_the_code_only_by_name(cli: Cli) -> None:
    cli.env["GIVEN"] = "yes"
    done = cli("exec", "--pass-env", "GIVEN", "--set-env", "MORE=a=b", "OPEN['env']")
    assert done.stdout == b"{'GIVEN': 'yes', 'MORE': 'a=b'}\n"


def test_put_get_ls_keep_every_byte(cli: Cli, place: str) -> None:
    data = os.urandom(2 * MIB + 17)
    for name, content in (("data.bin", data), ("empty", b"")):
        with open(os.path.join(place, name), "wb") as out:
            out.write(content)
        cli("exec", "--session", "s", "1")
        assert cli("put", name, "s:").returncode == 0
        assert cli("get", f"s:{name}", "back").returncode == 0
        with open(os.path.join(place, "back"), "rb") as back:
            assert back.read() == content
        assert cli("get", f"s:{name}", "-").stdout == content
    assert os.stat(os.path.join(place, "back")).st_mode & 0o777 == 0o640
    names = {entry["name"] for entry in json.loads(cli("ls", "s", "--json").stdout)["entries"]}
    assert names == {"data.bin", "empty"}
    failed = cli("get", "s:no-such", "kept")
    assert failed.returncode == 1 and not [name for name in os.listdir(place) if "kept" in name]


def test_sessions_are_listed_and_destroyed(cli: Cli) -> None:
    cli("exec", "--session", "a", "1")
    cli("exec", "--session", "b", "1")
    rows = json.loads(cli("sessions", "list", "--json").stdout)
    assert {row["name"] for row in rows} == {"a", "b"}
    assert "a" in cli("sessions", "list").stdout.decode()
    assert json.loads(cli("sessions", "show", "a", "--json").stdout)["limits"]["processes"] == 64
    partly = cli("sessions", "destroy", "a", "nobody")
    assert partly.returncode == 1 and partly.stdout == b"destroyed a\n"
    assert cli("sessions", "destroy", "--all").returncode == 0
    assert json.loads(cli("sessions", "list", "--json").stdout) == []


def test_displays_are_saved_where_told(cli: Cli, place: str) -> None:
    done = cli("exec", "--display-dir", "pics", "display(b'\\x89PNG')")
    assert done.returncode == 0
    with open(os.path.join(place, "pics", "cell1-1.png"), "rb") as saved:
        assert saved.read() == b"\x89PNG"
    assert b"--display-dir" in cli("exec", "display(b'\\x89PNG')").stderr


def test_ctrl_c_interrupts_the_cell_and_keeps_the_session(cli: Cli,
                                                          bin_folder: str) -> None:
    cli("exec", "--session", "s", "globals().update(x=5)")
    process = subprocess.Popen([os.path.join(bin_folder, "snipara-sandbox"), "exec", "--session", "s",
                                "--timeout", "600", "emit('go') or wait()"], env=cli.env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    assert lib.some(process.stdout).read(2) == b"go"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=lib.PATIENCE)
    assert process.returncode == 130 and b"interrupted" in stderr
    assert cli("exec", "--session", "s", "x").stdout == b"5\n"


def test_a_second_ctrl_c_gives_up(cli: Cli, bin_folder: str) -> None:
    process = subprocess.Popen([os.path.join(bin_folder, "snipara-sandbox"), "exec", "--timeout", "600",
                                "emit('go') or until('/never')"], env=cli.env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert lib.some(process.stdout).read(2) == b"go"
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)  # nothing follows an end that does not come
    assert process.poll() is None
    # One more, or as many as it takes: two that come before it looks are one.

    def has_ended() -> bool:
        process.send_signal(signal.SIGINT)
        return process.poll() is not None

    assert wait_for(has_ended)
    _, stderr = process.communicate(timeout=lib.PATIENCE)
    assert process.returncode == 130 and b"interrupted twice" in stderr


def test_doctor_reports_and_judges(cli: Cli) -> None:
    report = json.loads(cli("doctor", "--json").stdout)
    assert report["usable"] is True
    assert {"daemon", "scripted", "git", "runtime folder"} <= {row["name"] for row in report["checks"]}
    assert "Check" in cli("doctor").stdout.decode().splitlines()[0]


def test_doctor_fails_when_nothing_can_run(cli: Cli) -> None:
    os.makedirs(cli.folder, mode=0o755)
    os.chmod(cli.folder, 0o755)
    done = cli("doctor", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["usable"] is False


@pytest.mark.parametrize("spoil", ["open", "link"])
def test_a_runtime_folder_others_can_reach_is_refused(cli: Cli, place: str,
                                                      spoil: str) -> None:
    if spoil == "open":
        os.makedirs(cli.folder)
        os.chmod(cli.folder, 0o750)
    else:
        os.symlink(place, cli.folder)
    done = cli("exec", "1")
    assert done.returncode == 1 and b"runtime folder" in done.stderr
    os.rename(cli.folder, cli.folder + ".spoilt")


def test_a_daemon_that_cannot_start_says_why(cli: Cli, place: str) -> None:
    os.makedirs(os.path.join(cli.folder, "sandboxd.sock"), mode=0o700)
    os.chmod(cli.folder, 0o700)
    done = cli("exec", "1")
    assert done.returncode == 1 and b"not a socket" in done.stderr
    os.rmdir(os.path.join(cli.folder, "sandboxd.sock"))


def test_a_too_long_socket_path_is_named(cli: Cli) -> None:
    cli.env["SNIPARA_SANDBOX_RUNTIME_DIR"] = cli.folder + "/" + "x" * 120
    done = cli("exec", "1")
    assert done.returncode == 1 and b"SNIPARA_SANDBOX_RUNTIME_DIR" in done.stderr


@pytest.mark.parametrize("variable", ["SNIPARA_SANDBOX_STATE_DIR", "XDG_STATE_HOME"])
def test_a_state_folder_that_cannot_be_used_is_named(cli: Cli, variable: str) -> None:
    """Sessions are not kept elsewhere instead."""
    taken = os.path.join(cli.place, "taken")
    open(taken, "w").close()
    del cli.env["SNIPARA_SANDBOX_STATE_DIR"]
    cli.env[variable] = os.path.join(taken, "state")
    done = cli("exec", "-s", "kept", "6 * 7")
    assert done.returncode != 0 and b"state folder " + os.fsencode(taken) in done.stderr, done
    assert not os.path.exists(os.path.join(cli.place, ".local")) and not os.path.exists(cli.folder + "/journal")


def test_a_state_folder_other_than_the_running_daemons_is_refused(cli: Cli) -> None:
    assert cli("exec", "-s", "s", "x = 42").returncode == 0
    own = cli.env["SNIPARA_SANDBOX_STATE_DIR"]
    for folder in (os.path.join(cli.place, "other"), "/proc/nope"):
        cli.env["SNIPARA_SANDBOX_STATE_DIR"] = folder
        for words in (["exec", "-s", "s", "x"], ["sessions", "list"], ["doctor"]):
            done = cli(*words)
            said = (done.stdout + done.stderr).decode()
            assert done.returncode != 0 and own in said and folder in said and "daemon stop" in said, (words, said)
    os.symlink(own, link := os.path.join(cli.place, "link"))
    cli.env["SNIPARA_SANDBOX_STATE_DIR"] = link
    assert cli("exec", "-s", "s", "x").stdout == b"42\n"
    del cli.env["SNIPARA_SANDBOX_STATE_DIR"]
    assert cli("exec", "-s", "s", "x").stdout == b"42\n"
    assert f"the running daemon has {own}" in cli("doctor").stdout.decode()
    cli.env["SNIPARA_SANDBOX_STATE_DIR"] = "/proc/nope"
    assert cli("daemon", "status").returncode == 0 and cli("daemon", "stop").returncode == 0
    done = cli("exec", "-s", "s", "x")
    assert done.returncode != 0 and b"state folder /proc/nope" in done.stderr, done


def test_the_runtime_folder_is_no_state_folder(cli: Cli) -> None:
    del cli.env["SNIPARA_SANDBOX_STATE_DIR"]
    for home in ("/proc/1/none", None):
        cli.env.pop("HOME", None)
        cli.env.update({"HOME": home} if home else {})
        done = cli("exec", "6 * 7")
        assert done.returncode != 0 and b"no state folder: HOME" in done.stderr, done
