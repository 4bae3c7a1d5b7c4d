# SPDX-License-Identifier: Apache-2.0
"""Detached processes: programs that run beside the cells of a session."""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

import lib
from lib import Json

MAXIMUM = 16  # of a session
PIECE = 64 << 10  # most bytes of a process.write
MANIFEST, CELL, SUM = 88, 89, 90  # frames of an exported session
# Runs until the workspace has a file.
UNTIL = "while [ ! -e {file} ]; do sleep 0.02; done; "


@pytest.fixture
def session(sandbox: lib.Sandbox) -> Iterator[str]:
    name = "p-" + secrets.token_hex(4)
    yield name
    sandbox.destroy(name)


def start(sandbox: lib.Sandbox, session: str, line: str, *options: str) -> int:
    """The number of a new process that runs a shell line."""
    done = sandbox.exec(sh=line, session=session, options=["--detach", *options])
    assert done["status"] == "ok" and done["exit_code"] is None, done
    return int(done["cell"])


def processes(sandbox: lib.Sandbox, session: str) -> list[Json]:
    found: list[Json] = json.loads(sandbox.cli("ps", session, "--json").stdout)
    return found


def state(sandbox: lib.Sandbox, session: str, number: int) -> Json:
    return next(row for row in processes(sandbox, session) if row["process"] == number)


def read(client: lib.Client, session: str, number: int, stdout: int = 0, stderr: int = 0, **more: Any) -> tuple[
        Json, bytes, bytes]:
    """The answer, with the bytes of both streams."""
    kind, head, raw, _ = client.call("process.read", session=session, process=number, stdout=stdout, stderr=stderr,
                                     **{"length": 1 << 20, "wait_ms": 5000, **more})
    assert kind == lib.RESPONSE, head
    return head, raw[:head["stdout_len"]], raw[head["stdout_len"]:]


def read_all(client: lib.Client, session: str, number: int) -> tuple[Json, bytes, bytes]:
    """The same until the process has ended and all is read."""
    texts = [b"", b""]
    while True:
        head, out, err = read(client, session, number, len(texts[0]), len(texts[1]))
        texts = [texts[0] + out, texts[1] + err]
        if head["eof"]:
            return head, texts[0], texts[1]


def write(client: lib.Client, session: str, number: int, data: bytes = b"", **more: Any) -> Json:
    """Write all of it to standard input, waiting for the process to read; the last answer."""
    end = time.monotonic() + lib.PATIENCE
    while True:
        assert time.monotonic() < end, "the process reads nothing"
        kind, head, _, _ = client.call("process.write", data[:PIECE], session=session, process=number,
                                       **{"wait_ms": 5000, **more})
        if kind != lib.RESPONSE or head["written"] == len(data):
            return head
        data = data[head["written"]:]


def fill(client: lib.Client, session: str, number: int) -> int:
    """Write until no byte more is taken; the bytes that were."""
    total = 0
    while (done := client.call("process.write", b"x" * PIECE, session=session, process=number)[1]["written"]) > 0:
        total += done
    return total


def renumber(path: str, number: int) -> None:
    """Give the only cell of an exported session another number (docs/archive.md)."""
    with open(path, "rb") as file:
        data = file.read()
    out, at = data[:16], 16
    while at < len(data):
        body_len, ident, head_len, kind = lib.HEADER.unpack(data[at:at + lib.HEADER.size])
        body = data[at + lib.HEADER.size:at + lib.HEADER.size + body_len]
        at += lib.HEADER.size + body_len
        head = json.loads(body[:head_len] or b"{}")
        if kind in (MANIFEST, CELL):
            head["cell"] = number
        if kind == SUM:
            head["sha256"] = hashlib.sha256(out).hexdigest()
        if kind in (MANIFEST, CELL, SUM):
            text = json.dumps(head, separators=(",", ":")).encode()
        else:
            text = body[:head_len]
        body = text + body[head_len:]
        out += lib.HEADER.pack(len(body), ident, len(text), kind) + body
    with open(path, "wb") as file:
        file.write(out)


def test_it_runs_beside_cells_until_it_exits(sandbox: lib.Sandbox, session: str) -> None:
    number = start(sandbox, session, "echo begin; " + UNTIL.format(file="go") + "echo oops >&2; exit 7")
    with sandbox.client() as client:
        assert read(client, session, number)[1] == b"begin\n"
        assert sandbox.exec("x = 5", session)["status"] == "ok"
        assert sandbox.exec("x", session)["value"] == "5"
        assert state(sandbox, session, number)["state"] == "running"
        assert sandbox.exec("open('go', 'w').close()", session)["status"] == "ok"
        head, out, err = read_all(client, session, number)
    assert (out, err) == (b"begin\n", b"oops\n")
    assert (head["state"], head["exit_code"], head["signal"]) == ("ended", 7, None)
    row = state(sandbox, session, number)
    assert (row["state"], row["exit_code"], row["stdout_bytes"], row["stderr_bytes"]) == ("ended", 7, 6, 5)
    assert sandbox.exec("x + 1", session)["value"] == "6"


def test_it_has_files_variables_input_and_arguments_of_the_session(sandbox: lib.Sandbox, session: str) -> None:
    assert sandbox.exec("open('f', 'w').write('in the workspace')", session)["status"] == "ok"
    path = sandbox.make_file("input", b"typed before\n")
    done = sandbox.exec(argv=["/bin/sh", "-c", 'cat f - ; echo "$1"', "sh", "two words"], session=session,
                        options=["--detach", "--stdin", path])
    with sandbox.client() as client:
        assert read_all(client, session, done["cell"])[1] == b"in the workspacetyped before\ntwo words\n"
    assert processes(sandbox, session)[0]["argv"][3:] == ["sh", "two words"]


def test_standard_input_is_written_while_it_runs_and_closed(sandbox: lib.Sandbox, session: str) -> None:
    number = start(sandbox, session, "read line; echo got $line; cat; echo end", "--open-stdin")
    with sandbox.client() as client:
        assert state(sandbox, session, number)["stdin"] is True
        assert write(client, session, number, b"a line\n") == {"written": 7}
        assert read(client, session, number)[1] == b"got a line\n"
        assert write(client, session, number, b"more\n", close=True) == {"written": 5}
        assert read_all(client, session, number)[1] == b"got a line\nmore\nend\n"
        assert state(sandbox, session, number)["stdin"] is False
        error = write(client, session, number, b"late")
        assert (error["code"], error["message"]) == ("not_found", f"process {number} has ended")


def test_without_open_standard_input_a_process_sees_its_end(sandbox: lib.Sandbox, session: str) -> None:
    number = start(sandbox, session, "cat; echo end; exec sleep 1000")
    with sandbox.client() as client:
        assert read(client, session, number)[1] == b"end\n"
        error = write(client, session, number, b"x")
        assert error["code"] == "invalid" and "was started without an open standard input" in error["message"]
        assert state(sandbox, session, number)["stdin"] is False
        for asked, stdin in ("command", False), ("process", True):
            kind, head, _, _ = client.call("exec", session=session, argv=["cat"], open_stdin=True, kind=asked,
                                           stdin=stdin)
            assert kind == lib.ERROR and "'open_stdin' is for kind" in head["message"], head


def test_no_more_input_is_taken_than_a_pipe_holds(sandbox: lib.Sandbox, session: str) -> None:
    data = os.urandom(3 << 20)
    number = start(sandbox, session, UNTIL.format(file="go") + "cat >copy; echo read", "--open-stdin")
    with sandbox.client() as client:
        first = client.call("process.write", data[:PIECE], session=session, process=number)[1]["written"]
        taken = first
        while (done := client.call("process.write", data[taken:taken + PIECE], session=session, process=number,
                                   wait_ms=100)[1]["written"]) > 0:
            taken += done
        assert 0 < first and taken <= 1 << 20
        sandbox.exec("open('go', 'w').close()", session)
        assert "written" in write(client, session, number, data[taken:])
        assert write(client, session, number, close=True) == {"written": 0}
        assert read_all(client, session, number)[1] == b"read\n"
    told = sandbox.exec("import hashlib; hashlib.sha256(open('copy', 'rb').read()).hexdigest()", session)["value"]
    assert told == repr(hashlib.sha256(data).hexdigest())


def test_input_that_the_process_has_closed_is_refused(sandbox: lib.Sandbox, session: str) -> None:
    number = start(sandbox, session, UNTIL.format(file="go") + "exec sleep 1000 <&-", "--open-stdin")
    with sandbox.client() as client:
        assert fill(client, session, number) > 0
        ident = client.send({"method": "process.write", "session": session, "process": number, "wait_ms": 5000}, b"x")
        sandbox.exec("open('go', 'w').close()", session)
        kind, head, _, _ = client.end_of(ident)  # it waited for room
        assert kind == lib.ERROR and head["code"] == "not_found", head
        assert head["message"] == f"the standard input of process {number} is closed"
        assert write(client, session, number, b"x")["message"] == head["message"]
        assert state(sandbox, session, number) | {"state": "running", "stdin": False} == state(sandbox, session, number)


def test_processes_that_never_read_cost_no_memory(sandbox: lib.Sandbox, session: str) -> None:
    numbers = [start(sandbox, session, "exec sleep 1000", "--open-stdin") for _ in range(MAXIMUM)]
    with sandbox.client() as client:
        assert sum(fill(client, session, number) for number in numbers) <= MAXIMUM << 20
        with sandbox.client() as other:  # it leaves before there is room
            other.send({"method": "process.write", "session": session, "process": numbers[0], "wait_ms": 5000}, b"x")
        waits = [client.send({"method": "process.write", "session": session, "process": number, "wait_ms": 5000},
                             b"x" * PIECE) for number in numbers]
        assert sandbox.exec("6 * 7", session)["value"] == "42"
        for number in numbers:
            assert sandbox.cli("kill", f"{session}:{number}", "--signal", "KILL").returncode == 0
        ends = [client.recv() for _ in waits]  # in any order; a slow machine may have waited 5 s
        assert {ident for _, ident, _, _ in ends} == {*waits}
        assert all(head == {"written": 0} or head["code"] == "not_found" for _, _, head, _ in ends)
        assert lib.wait_for(lambda: write(client, session, numbers[0], b"x").get("code") == "not_found")


def test_attach_passes_its_standard_input_on(sandbox: lib.Sandbox, session: str) -> None:
    name = f"{session}:{start(sandbox, session, 'read x; echo got $x; cat; exit 4', '--open-stdin')}"
    done = sandbox.cli("attach", name, "--stdin", "-", "--keep-open", "--no-follow", input="one\n")
    assert done.returncode == 0 and done.stderr == f"[{name}: running]\n", done
    assert lib.wait_for(lambda: sandbox.cli("attach", name, "--no-follow").stdout == "got one\n")
    done = sandbox.cli("attach", name, "--stdin", "-", input="two\n" * 20000)
    assert (done.returncode, done.stdout[-8:], done.stderr) == (4, "two\ntwo\n", f"[{name}: exited with 4]\n")
    closed = f"{session}:{start(sandbox, session, 'exec sleep 1000')}"
    for words, said in ((["attach", closed, "--stdin", "-"], "was started without an open standard input"),
                        (["attach", closed, "--stdin", "/nowhere/x"], "open /nowhere/x"),
                        (["attach", name, "--stdin", "-", "--no-follow"], "has ended"),
                        (["exec", "-s", session, "--open-stdin", "--sh", "cat"], "--open-stdin needs --detach"),
                        (["exec", "-s", session, "--detach", "--open-stdin", "--stdin", "-", "--sh", "cat"],
                         "excludes --stdin")):
        done = sandbox.cli(*words)
        assert done.returncode != 0 and said in done.stderr, (words, done.stderr)


def test_attach_ends_with_a_process_that_reads_no_more(sandbox: lib.Sandbox, session: str) -> None:
    name = f"{session}:{start(sandbox, session, 'head -n 1', '--open-stdin')}"
    with sandbox.popen("attach", name, "--stdin", "-", stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("first\n")
        process.stdin.flush()
        assert process.stdout.read() == "first\n"  # although our end of standard input stays open
        assert process.wait(lib.PATIENCE) == 0
    number = start(sandbox, session, "exec cat", "--open-stdin")
    with sandbox.popen("attach", f"{session}:{number}", "--stdin", "-", stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("here\n")
        process.stdin.flush()
        assert process.stdout.readline() == "here\n"
        process.kill()  # whatever it started ends with it, and the process continues
        assert process.stdout.read() == ""
    assert state(sandbox, session, number)["stdin"] is True


def test_a_signal_reaches_it_and_its_children(sandbox: lib.Sandbox, session: str) -> None:
    stubborn = start(sandbox, session, "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done")
    plain = start(sandbox, session, "sleep 1000 & echo ready; wait")
    with sandbox.client() as client:
        assert {read(client, session, number)[1] for number in (stubborn, plain)} == {b"ready\n"}
        for number in stubborn, plain:
            assert client.call("process.signal", session=session, process=number, signal=signal.SIGTERM)[1] == {
                "sent": True}
        head, _, _ = read_all(client, session, plain)
        assert (head["exit_code"], head["signal"]) == (None, "SIGTERM")  # at its end: the child holds no pipe
        lib.wait_for(lambda: read(client, session, stubborn, stdout=6)[1] == b"asked\n")  # its shell complains, too
        assert client.call("process.signal", session=session, process=stubborn, signal=0)[1]["code"] == "invalid"
        assert client.call("process.signal", session=session, process=stubborn, signal=signal.SIGKILL)[1]["sent"]
        assert read_all(client, session, stubborn)[0]["signal"] == "SIGKILL"
        assert client.call("process.signal", session=session, process=stubborn, signal=signal.SIGKILL)[1] == {
            "sent": False}


def test_a_signal_reaches_what_it_left_in_the_background(sandbox: lib.Sandbox, session: str) -> None:
    number = start(sandbox, session, "sleep 1000 & sleep 1000 & echo begun; exit 3")
    with sandbox.client() as client:
        lib.wait_for(lambda: read(client, session, number, length=0)[0]["state"] == "ended")
        assert not read(client, session, number)[0]["eof"]  # they hold its output
        assert client.call("process.signal", session=session, process=number, signal=signal.SIGTERM)[1]["sent"]
        assert read_all(client, session, number)[1] == b"begun\n"
        assert lib.wait_for(lambda: not client.call("process.signal", session=session, process=number,
                                                    signal=signal.SIGTERM)[1]["sent"])


def test_the_last_output_is_stored_and_read_by_position(sandbox: lib.Sandbox, session: str) -> None:
    line = "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done; " + UNTIL.format(file="go")
    assert sandbox.exec("1", session)["status"] == "ok"
    assert sandbox.cli("sessions", "set", session, "--output", "1000").returncode == 0
    number = start(sandbox, session, line)
    whole = b"".join(b"%d\n" % i for i in range(3000))
    lib.wait_for(lambda: state(sandbox, session, number)["stdout_bytes"] == len(whole))
    with sandbox.client() as client:
        head, out, _ = read(client, session, number)
        assert head["stdout"] == len(whole) - 1000 and out == whole[-1000:]
        head, out, _ = read(client, session, number, stdout=len(whole) - 10)
        assert head["stdout"] == len(whole) - 10 and out == whole[-10:]
        head, out, _ = read(client, session, number, stdout=len(whole) - 10, length=4)
        assert out == whole[-10:-6] and not head["eof"]
        head, out, _ = read(client, session, number, stdout=len(whole), wait_ms=0)
        assert out == b"" and not head["eof"]  # it may write more
        sandbox.exec("open('go', 'w').close()", session)
        head, out, _ = read(client, session, number, stdout=len(whole))
        assert out == b"" and head["eof"]


def test_a_read_of_no_bytes_waits_for_the_end_only(sandbox: lib.Sandbox, session: str) -> None:
    # A child keeps its output open.
    number = start(sandbox, session, "echo one; sleep 1000 & " + UNTIL.format(file="go") + "exit 5")
    with sandbox.client() as client:
        assert read(client, session, number)[1] == b"one\n"
        head, out, _ = read(client, session, number, length=0, wait_ms=1)
        assert (head["state"], out) == ("running", b"")
        ident = client.send({"method": "process.read", "session": session, "process": number, "stdout": 0, "stderr": 0,
                             "length": 0, "wait_ms": 5000})
        sandbox.exec("open('go', 'w').close()", session)
        head = client.end_of(ident)[1]
        assert (head["state"], head["exit_code"], head["eof"]) == ("ended", 5, False)


def test_too_many_are_refused_and_ended_ones_make_room(sandbox: lib.Sandbox, session: str) -> None:
    numbers = [start(sandbox, session, "exec sleep 1000") for _ in range(MAXIMUM)]
    with pytest.raises(lib.CliError, match="the session has 16 running processes, the maximum"):
        start(sandbox, session, "true")
    assert sandbox.cli("kill", f"{session}:{numbers[3]}").returncode == 0
    lib.wait_for(lambda: state(sandbox, session, numbers[3])["state"] == "ended")
    last = start(sandbox, session, "exec sleep 1000")
    found = [row["process"] for row in processes(sandbox, session)]
    assert found == [*(number for number in numbers if number != numbers[3]), last]
    done = sandbox.cli("attach", f"{session}:{numbers[3]}")
    assert done.returncode == 1 and f"no process {numbers[3]} in the session" in done.stderr


def test_a_flood_of_output_disturbs_no_other_session(sandbox: lib.Sandbox, session: str) -> None:
    """The daemon reads what it asks for, so what a process writes is in nobody's way."""
    number = start(sandbox, session, "exec yes")
    lib.wait_for(lambda: state(sandbox, session, number)["stdout_bytes"] > 8 << 20)
    other = sandbox.exec("6 * 7")
    assert other["value"] == "42"
    assert sandbox.exec("'here'", session)["value"] == "'here'"
    assert sandbox.cli("kill", f"{session}:{number}", "--signal", "KILL").returncode == 0
    with sandbox.client() as client:
        head, out, _ = read(client, session, number)
        assert head["stdout"] > 8 << 20 and set(out) == {*b"y\n"}


def test_standard_output_does_not_hide_standard_error(sandbox: lib.Sandbox, session: str) -> None:
    number = start(sandbox, session, "echo oops >&2; exec yes")
    lib.wait_for(lambda: state(sandbox, session, number)["stdout_bytes"] > 100000)
    with sandbox.client() as client:
        head, out, err = read(client, session, number, length=100)
        assert err == b"oops\n" and len(out) == 95


def test_readers_that_left_do_not_keep_others_out(sandbox: lib.Sandbox, session: str) -> None:
    number = start(sandbox, session, UNTIL.format(file="go") + "echo end")
    for _ in range(20):
        with sandbox.client() as client:
            client.send({"method": "process.read", "session": session, "process": number, "stdout": 0, "stderr": 0,
                         "length": 100, "wait_ms": 5000})
    with sandbox.client() as client:
        sandbox.exec("open('go', 'w').close()", session)
        assert read_all(client, session, number)[1] == b"end\n"


def test_numbers_of_any_length(sandbox: lib.Sandbox, session: str) -> None:
    """An imported session may have long numbers; an error lists those that fit."""
    assert sandbox.exec("1", session)["status"] == "ok"
    path = os.path.join(sandbox.make_folder("archive-" + session), "long.snp")
    os.chown(os.path.dirname(path), sandbox.uid, -1)
    assert sandbox.cli("export", path, "-s", session).returncode == 0
    renumber(path, 1 << 49)
    done = sandbox.cli("import", path, "--name", session + "-long")
    assert done.returncode == 0, done.stderr
    numbers = [start(sandbox, session + "-long", "exec sleep 1000") for _ in range(12)]
    assert numbers[0] > 1 << 49
    done = sandbox.cli("attach", f"{session}-long:1")
    assert done.returncode == 1 and f"its processes: {numbers[0]}, {numbers[1]}" in done.stderr, done.stderr
    sandbox.destroy(session + "-long")


def test_a_process_without_a_session_is_refused(sandbox: lib.Sandbox) -> None:
    with sandbox.client() as client:
        kind, head, _, _ = client.call("exec", kind="process", argv=["true"])
    assert kind == lib.ERROR and head["code"] == "invalid" and "needs a session" in head["message"]


@pytest.mark.needs("snapshot")
def test_a_rollback_ends_processes(sandbox: lib.Sandbox, session: str) -> None:
    assert sandbox.exec("x = 1", session)["status"] == "ok"
    assert sandbox.cli("snapshot", f"{session}@first").returncode == 0
    number = start(sandbox, session, "echo begin; exec sleep 1000")
    assert sandbox.cli("rollback", f"{session}@first").returncode == 0
    rows = processes(sandbox, session)  # none, if the session has another sandbox now
    assert all((row["process"], row["signal"]) == (number, "SIGKILL") for row in rows)


@pytest.mark.needs("save")
def test_hibernation_names_processes_and_ends_them(sandbox: lib.Sandbox, session: str) -> None:
    number = start(sandbox, session, "exec sleep 1000")
    done = sandbox.cli("hibernate", session)
    assert done.returncode == 0 and f"process {number}" in done.stderr and "exec sleep 1000" in done.stderr, done.stderr
    assert "background processes" not in done.stderr
    assert processes(sandbox, session) == []
    for verb in "attach", "kill":
        done = sandbox.cli(verb, f"{session}:{number}")
        assert done.returncode == 1 and "ended with the last one" in done.stderr, done.stderr
    after = start(sandbox, session, "echo new; exec sleep 1000")
    assert after > number  # a number never names another process
    assert [row["process"] for row in processes(sandbox, session)] == [after]


def test_the_words_of_the_command_line(sandbox: lib.Sandbox, session: str) -> None:
    assert sandbox.cli("ps").returncode == 0  # also where no session exists
    done = sandbox.cli("exec", *sandbox.exec_options, "-s", session, "--detach", "--sh",
                       "echo one; echo two >&2; " + UNTIL.format(file="go") + "exit 3")
    name = f"{session}:1"
    assert done.returncode == 0 and done.stdout == name + "\n", done
    assert f"started; for its output: snipara-sandbox attach {name}" in done.stderr
    shown = lib.wait_for(lambda: (now := sandbox.cli("attach", name, "--no-follow")).stdout and "two" in now.stderr and
                         now)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "one\n", f"two\n[{name}: running]\n")
    listed = sandbox.cli("ps", session).stdout.splitlines()
    assert len(listed) == 2 and listed[1].startswith(f"{name}  running") and "echo one; echo two" in listed[1]
    sandbox.exec("open('go', 'w').close()", session)
    ended = sandbox.cli("attach", session)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "one\n", f"two\n[{name}: exited with 3]\n")
    found = json.loads(sandbox.cli("attach", session, "--json").stdout)
    assert found == {"session": session, "process": 1, "state": "ended", "exit_code": 3, "signal": None,
                     "stdout": "one\n", "stderr": "two\n"}
    for words, said in ((["kill", name], f"{name} had ended"), (["attach", f"{session}:x"], "is not SESSION:NUMBER"),
                        (["kill", name, "--signal", "NOSUCH"], "no signal 'NOSUCH'"),
                        (["exec", "--detach", "--sh", "true"], "--detach needs --session"),
                        (["exec", "-s", session, "--detach", "1"], "--detach runs a command")):
        done = sandbox.cli(*words)
        assert done.returncode != 0 and said in done.stderr, done.stderr


def test_two_running_ones_are_not_guessed(sandbox: lib.Sandbox, session: str) -> None:
    for _ in range(2):
        start(sandbox, session, "exec sleep 1000")
    done = sandbox.cli("attach", session)
    assert done.returncode == 2 or done.returncode == 1
    assert f'session "{session}" has 2 processes (2 running); give {session}:NUMBER' in done.stderr


def test_a_daemon_that_is_killed_leaves_no_process(fresh_sandbox: Any) -> None:
    box = fresh_sandbox()
    assert box.exec("1", "work")["status"] == "ok"
    before = lib.descendants(box.tier_pid())
    start(box, "work", "exec sleep 1000")
    ours = lib.births(lib.descendants(box.tier_pid()) - before)
    assert ours
    os.kill(box.start(), signal.SIGKILL)
    lib.wait_for(lambda: not lib.still_there(ours))
    assert processes(box, "work") == []


@pytest.mark.parametrize("env", [{}, {"SNIPARA_SANDBOX_NO_CGROUP": "1"}], ids=["cgroups", "watched"])
@pytest.mark.parametrize("tier", ["native", "local"])
def test_memory_is_limited_between_cells_too(fresh_sandbox: Any, tier: str, env: dict[str, str]) -> None:
    box = fresh_sandbox("user", env, tier)
    # Eight children hold 48 MiB each; the parent ends with the first of them.
    code = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = b"x" * (48 << 20)
        time.sleep(1000)
os.wait()
os._exit(9)
"""
    done = box.exec(argv=["/usr/bin/python3", "-c", code], session="work", options=["--detach", "--memory", "64m"])
    assert done["status"] == "ok"
    row = lib.wait_for(lambda: (now := state(box, "work", done["cell"]))["state"] == "ended" and now)
    assert row["signal"] == "SIGKILL" or row["exit_code"] == 9
    assert box.exec("6 * 7", "work")["value"] == "42"


def recorded(sandbox: lib.Sandbox, session: str) -> dict[int, Json | None]:
    """How the process of each cell ended, as the journal has it."""
    return {row["cell"]: row.get("process") for row in
            json.loads(sandbox.cli("history", session, "--json").stdout)["cells"]}


def test_the_end_of_a_process_is_recorded(sandbox: lib.Sandbox, session: str) -> None:
    assert sandbox.exec("1", session)["status"] == "ok"
    numbers = [start(sandbox, session, line) for line in ("exit 7", "exec sleep 1000", "exec sleep 1000", "kill -9 $$")]
    assert sandbox.cli("kill", f"{session}:{numbers[1]}").returncode == 0
    ended = {"state": "ended", "exit_code": None, "signal": None}
    assert lib.wait_for(lambda: recorded(sandbox, session) == {
        1: None, numbers[0]: ended | {"exit_code": 7}, numbers[1]: ended | {"signal": "SIGTERM"},
        numbers[2]: ended | {"state": "running"}, numbers[3]: ended | {"signal": "SIGKILL"}})
    shown = sandbox.cli("history", session).stdout
    for words in "kept, exited with 7", "kept, ended by SIGTERM", "kept, running", "kept, ended by SIGKILL":
        assert words in shown, shown
    assert "\nprocess: exited with 7\n" in sandbox.cli("show", f"{session}:{numbers[0]}").stdout
    found = json.loads(sandbox.cli("show", f"{session}:{numbers[1]}", "--json").stdout)
    assert found["process"] == ended | {"signal": "SIGTERM"}


@pytest.mark.parametrize("who", ["tier", "daemon"])
def test_an_end_that_nothing_reported_is_unknown(fresh_sandbox: Any, who: str) -> None:
    box = fresh_sandbox()
    first, second = start(box, "work", "exit 3"), start(box, "work", "exec sleep 1000")
    assert lib.wait_for(lambda: (recorded(box, "work")[first] or {}).get("exit_code") == 3)
    os.kill(lib.some(box.tier_pid()) if who == "tier" else box.start(), signal.SIGKILL)
    assert lib.wait_for(lambda: (recorded(box, "work")[second] or {})["state"] == "unknown")
    assert recorded(box, "work")[first] == {"state": "ended", "exit_code": 3, "signal": None}


@pytest.mark.parametrize("way", ["replay", "checkpoint"])
def test_a_lost_process_is_started_again_only_by_replay(fresh_sandbox: Any, way: str) -> None:
    box = fresh_sandbox()
    assert box.exec("x = 1", "work", ["--checkpoint", "off"])["status"] == "ok"
    number = start(box, "work", "exec cat", "--checkpoint", "off", "--open-stdin")
    os.kill(lib.some(box.tier_pid()), signal.SIGKILL)
    lib.wait_for(lambda: "missing" in box.cli("sessions", "--json").stdout)
    done = box.exec("1", "work", ["--recover", way])
    assert done["status"] == "ok"
    assert [row["stdin"] for row in processes(box, "work")] == ([True] if way == "replay" else []), number
