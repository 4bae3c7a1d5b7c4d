# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed, and runs that are cancelled, wherever they are: `resume` goes on from the last record and
does nothing twice; Ctrl-C ends what is waited for."""

import contextlib
import fcntl
import glob
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lib import PATIENCE, Json, some, wait_for
from test_models import KEY, Server, http, said, stream
from scripted_runs import Runs, call, turn

F_SETPIPE_SZ = 1031


# Killed -----------------------------------------------------------------------------------------


class Steps:
    """A program that writes records, held at each: its standard output is a pipe with room for one write, so
    that it stands still between a record that is on disk and telling of it."""

    def __init__(self, runs: Runs, *args: str) -> None:
        read_end, write_end = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
        fcntl.fcntl(write_end, F_SETPIPE_SZ, os.sysconf("SC_PAGESIZE"))
        os.write(write_end, b"\n")
        self.runs, self.read_end = runs, read_end
        self.process = runs.box.popen(*args, "--events", cwd=runs.folder, stdout=write_end)
        os.close(write_end)

    def step(self) -> None:
        """Let it go on to its next record."""
        text = b""
        while not text.endswith(b"\n"):
            text += os.read(self.read_end, 1 << 16)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        some(self.process.stderr).close()
        os.close(self.read_end)


def lines_of(runs: Runs, ident: str | None) -> list[Any]:
    """The records on disk; none while the file is not there."""
    path = glob.glob(os.path.join(runs.folder, "logs", (ident or "*") + ".jsonl"))
    if not path:
        return []
    with open(path[0]) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def kind(record: Json) -> str:
    """What a record is, but for what only an interrupted run has."""
    if "_type" not in record:
        return "event"
    if record["_type"] == "trajectory_metadata":
        return "end" if "end" in record else "head"
    if record["step"] == "answer" and not record["answer"]["ok"]:
        return "lost"
    return str(record["step"])


def killed_at(runs: Runs, ident: str | None, n_before: int, wanted: str, *args: str) -> list[Any]:
    """Run until the next record of the kind that is wanted is on disk, then kill -9; all its records."""
    steps = Steps(runs, *args)
    try:
        while True:
            assert wait_for(lambda: len(lines_of(runs, ident)) > n_before, step=0.002), lines_of(runs, ident)[-1]
            lines = lines_of(runs, ident)
            n_before += 1
            if kind(lines[n_before - 1]) == wanted:
                assert len(lines) == n_before  # it was held there
                return lines
            steps.step()
    finally:
        steps.kill()


@pytest.mark.slow
def test_killed_after_every_record_of_an_agent(runs: Runs) -> None:
    """Ten turns in four iterations. The run is killed after each of its records in turn, and gone on with; each
    cell leaves a mark in a file and in a variable, each answer of the model can be given once only."""
    cell = "marks = globals().get('marks', '') + '{k}'\nwith open('marks', 'a') as f: _ = f.write('{k}')\nprint(marks)"
    turns = [turn(call("execute_code", code=cell.format(k=k)), text=f"turn {k}") for k in range(9)]
    turns[4]["tool_calls"].append(call("file_read", path="marks"))
    turns.append(turn(call("execute_code", code="whole = marks + ' ' + open('marks').read()"),
                      call("FINAL_VAR", variable_name="whole"), text="turn 9"))
    options = ["agent", "Do it", *runs.options(runs.script(*turns)), "--cost-limit", "none"]
    reference = json.loads(runs.cli(*options, "--json").stdout)
    assert reference["answer"] == "012345678 012345678" and reference["success"]
    whole = lines_of(runs, None)
    plan = [kind(each) for each in whole]
    assert plan.count("ask") == 10 and plan.count("tool_result") == 12 and plan[-1] == "end"
    runs.cli("sessions", "destroy", reference["session"])
    os.unlink(runs.path(reference))

    lines: list[Json] = []
    ident: str | None = None
    for wanted in plan:
        args = options if ident is None else ["resume", ident]
        lines = killed_at(runs, ident, len(lines), wanted, *args)
        ident = lines[0]["trajectory_id"]
    kinds = [kind(each) for each in lines]
    again = [each for each in kinds if each not in ("resume", "lost")]
    for _ in range(kinds.count("lost")):  # the question whose answer was lost
        again.pop(again.index("ask"))
    assert sorted(again) == sorted(plan) and kinds.count("lost") == 10 and kinds.count("resume") == len(plan) - 1
    texts = [each["answer"]["message"]["content"] for each in lines if kind(each) == "answer"]
    assert texts == [f"turn {k}" for k in range(10)]  # each answer once
    said, told = ([each["content"] for each in records if kind(each) == "tool_result"] for records in (whole, lines))
    times = re.compile(r'"execution_time_ms":\s*\d+')
    assert [times.sub("", each) for each in said] == [times.sub("", each) for each in told]
    end = lines[-1]["end"]
    assert end["success"] and end["final"] == {"answer": reference["answer"], "answer_source": "final_var"}
    assert end["files"] == reference["files"] == {"created": ["marks"], "modified": [], "deleted": []}
    session = lines[0]["session"]
    assert runs.cli("get", f"{session}:/workspace/marks", "-").stdout == "012345678"
    assert runs.cli("logs", "verify", ident).returncode == 0
    refused = runs.cli("resume", ident)
    assert refused.returncode == 1 and "done" in refused.stderr
    runs.cli("sessions", "destroy", session)


# Cancelled --------------------------------------------------------------------------------------


LONG = 600  # seconds of what is waited for; nothing here waits for its end


def asleep(text: str) -> Json:
    return turn(call("execute_code", code=f"import time\nprint('begun')\ntime.sleep({LONG})"), text=text)


@contextlib.contextmanager
def server_of(*replies: Any) -> Iterator[Server]:
    server = Server(*replies)
    try:
        yield server
    finally:
        server.close()


def interrupted(runs: Runs, *args: str, until: Callable[..., Any], **kwargs: Any) -> tuple[Any, Any]:
    """Ctrl-C when until(records so far, process) says so: the last line, and what was said."""
    process = runs.box.popen(*args, "--events", cwd=runs.folder, text=True, start_new_session=True, **kwargs)
    try:
        lines: list[Json] = []
        while not until(lines, process):
            line = some(process.stdout).readline()
            assert line, some(process.stderr).read()
            lines.append(json.loads(line))
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, rest + errors
    return json.loads(rest.splitlines()[-1]), errors


def has(step: str) -> Callable[[Any, Any], bool]:
    return lambda lines, _: any(each.get("step") == step for each in lines)


@pytest.mark.parametrize("where", ["model", "cell"])
def test_ctrl_c_ends_what_is_waited_for(runs: Runs, where: str) -> None:
    waits = turn(text="late", delay_ms=LONG * 1000) if where == "model" else asleep("asleep")
    script = runs.script(turn(call("execute_code", code="n = 1"), text="before"), waits,
                         turn(call("FINAL", answer="on")))
    until = has("ask") if where == "model" else has("tool")
    seen: list[Json] = []

    def second(lines: Any, process: Any) -> Any:
        seen[:] = [each for each in lines if each.get("step") == ("ask" if where == "model" else "tool")]
        return len(seen) == 2 and until(lines, process) and (where == "model" or wait_for(
            lambda: "running" in runs.cli("history", seen[1]["session"], "--json").stdout))

    result, _ = interrupted(runs, "run", "Do it", *runs.options(script), "--cell-timeout", str(LONG), until=second)
    assert result["stopped_by"] == "cancelled" and result["success"] is False
    assert result["response"] == ("before" if where == "model" else "asleep")
    state = json.loads(runs.cli("runs", "show", result["trajectory_id"], "--json").stdout)
    assert state["state"] == "stopped"
    if where == "cell":  # the cell has ended too, and says how
        answer = json.loads(runs.cli("resume", result["trajectory_id"], "--json").stdout)
        assert answer["response"] == "on" and "KeyboardInterrupt" in runs.results(answer)[1]["error"]


def test_the_model_is_told_the_schema_and_the_answer_is_checked(runs: Runs) -> None:
    schema = runs.box.make_file("schema", b'{"type": "object", "required": ["n"]}')
    for text, wrong in (('{"n": 1}', False), ('{"m": 1}', True)):
        with server_of(stream(*said("openai", text))) as server:
            done = runs.cli("run", "x", "--model", "gpt-4o", "--json", "--schema", "@" + schema,
                            env={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url})
            sent = server.requests[0]["body"]["response_format"]
        assert done.returncode == 0 and sent["json_schema"]["schema"]["required"] == ["n"], done.stderr
        assert ("schema_error" in json.loads(done.stdout)) == wrong


def test_ctrl_c_ends_a_retry_a_reply_and_a_key(runs: Runs, tmp_path: Path) -> None:
    """What the network waits for: the time to the next try, a reply that does not come, a stream that stands
    still, a command that gives the key."""
    busy = http(429, {"error": {"message": "slow down"}}, retry_after=50)
    run = ["run", "Do it", "--model", "gpt-4o"]
    rows: list[list[list[Any]]] = [[busy], [[float(LONG)]], [stream(*said("openai", whole=False), float(LONG))]]
    for replies in rows:
        with server_of(*replies) as server:
            env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}
            asked: list[Any] = []

            def waits(lines: Any, process: Any) -> list[Any] | bool:
                if has("ask")(lines, process) and not asked:
                    asked.append(wait_for(lambda: server.requests))
                return asked and (replies != [busy] or wait_for(lambda: server.answered))

            result, _ = interrupted(runs, *run, until=waits, env=env)
            assert result["stopped_by"] == "cancelled" and len(server.requests) == 1
            lost = lines_of(runs, result["trajectory_id"])[-2]
            assert kind(lost) == "lost" and lost["answer"]["usage"]["estimated"]
            assert (result["total_tokens"] > 0) == (replies != [busy])  # what was refused has used nothing

    started = runs.box.make_file("started")
    script = runs.box.make_file("say", f"#!/bin/sh\necho $$ >{started}\nexec sleep {LONG}\n", 0o755)
    env = {"OPENAI_API_KEY_COMMAND": script, "OPENAI_BASE_URL": "http://127.0.0.1:9"}
    result, _ = interrupted(runs, *run, env=env, until=lambda lines, _: has("ask")(lines, _) and wait_for(
        lambda: os.path.getsize(started)))
    assert result["stopped_by"] == "cancelled"
    with open(started) as file:
        pid = int(file.read())
    assert wait_for(lambda: not os.path.exists(f"/proc/{pid}") or
                    b"sleep" not in open(f"/proc/{pid}/cmdline", "rb").read())


def test_a_second_ctrl_c_does_not_wait(runs: Runs) -> None:
    """Not for a daemon that stands still either; what was done is on record."""
    process = runs.box.popen("run", "Do it", *runs.options(runs.script(asleep("asleep"))), "--events",
                             "--cell-timeout", LONG, cwd=runs.folder, text=True)

    def has_it() -> bool:
        """The process has been given the signal: a second one of the same moment would be lost."""
        with open(f"/proc/{process.pid}/status") as text:
            waiting = re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)", text.read(), re.M)
        return not any(int(mask, 16) >> (signal.SIGINT - 1) & 1 for mask in waiting)

    try:
        while "tool" != json.loads(some(process.stdout).readline()).get("step"):
            pass
        os.kill(some(runs.box.daemon).pid, signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        assert wait_for(has_it)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=PATIENCE)
    finally:
        os.kill(some(runs.box.daemon).pid, signal.SIGCONT)
        process.kill()
        process.wait()
    assert process.returncode == 130 and "continue with resume" in json.loads(rest.splitlines()[-1])["error"]
