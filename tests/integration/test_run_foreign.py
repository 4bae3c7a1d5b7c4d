# SPDX-License-Identifier: Apache-2.0
"""Records of runs that somebody else has written, as a cloned repository may carry them: nothing they say of
project, session, model, limits or process is acted upon. Each with its control: the run's own record is."""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import trajectories
from lib import PYTHON, Json, some, wait_for
from scripted_runs import Runs, call, turn

Starter = tuple[Callable[[], tuple[subprocess.Popen[str], Any]], Callable[..., None]]
REFUSED = "the record was not made by this user on this machine"


@pytest.fixture
def stopped(runs: Runs) -> Iterator[Json]:
    """A run that stopped after its first cell, and can go on."""
    runs.box.make_file("project/data", "mine")
    result = runs.run(turn(call("execute_code", code="seen = open('data').read()\nprint(seen)")),
                      turn(call("list_files")),
                      turn(call("FINAL_VAR", variable_name="seen")), options=["--max-depth", "2"], code=1)
    assert result["stopped_by"] == "max_depth", result
    yield result
    runs.cli("sessions", "destroy", result["session"])


def plain(runs: Runs, result: Json) -> list[Json]:
    """Its records without what authenticates them."""
    return [{name: value for name, value in record.items() if name not in ("mac", "hash", "seq")}
            for record in runs.records(result)]


def planted(runs: Runs, records: list[Json]) -> tuple[str, str]:
    """A folder of records with these in it, as a repository would have it; folder and id."""
    folder = os.path.join(runs.folder, "cloned")
    ident = trajectories.write(folder, trajectories.chained(records))
    return folder, ident


def content_of(folder: str, ident: str) -> bytes:
    with open(os.path.join(folder, ident + ".jsonl"), "rb") as file:
        return file.read()


def other_folder(runs: Runs) -> str:
    """A folder of the same user that the run has nothing to do with."""
    runs.box.make_file("elsewhere/secret", "treasure")
    return os.path.join(runs.box.folder, "elsewhere")


def assert_refused(runs: Runs, folder: str, ident: str) -> None:
    before = content_of(folder, ident)
    sessions = runs.cli("sessions", "list", "--json").stdout
    done = runs.cli("resume", ident, "--dir", folder, "--max-depth", "9", "--json")
    assert done.returncode == 1 and REFUSED in json.loads(done.stdout)["error"], done.stdout + done.stderr
    assert content_of(folder, ident) == before
    strip = [{key: each[key] for key in ("id", "name", "cells")} for each in json.loads(sessions)]
    now = json.loads(runs.cli("sessions", "list", "--json").stdout)
    assert [{key: each[key] for key in ("id", "name", "cells")} for each in now] == strip


FORGERIES: dict[str, Callable[..., Any]] = {
    "nothing": lambda head, runs: None,
    "project": lambda head, runs: head["exec"].update(project=other_folder(runs)),
    "model": lambda head, runs: head.update(model="openai/gpt-4o"),
    "session": lambda head, runs: head.update(session="precious"),
    "budget": lambda head, runs: head["budget"].update(token_budget=0, max_depth=0, timeout_ms=0),
    "tier": lambda head, runs: head["exec"]["defaults"].update(tier="local"),
}


def test_a_record_of_somebody_else_is_not_resumed(runs: Runs, stopped: Json) -> None:
    """Heads changed in all ways, with macs left out, or left as they were."""
    assert runs.box.exec("kept = 'precious data'", "precious")["status"] == "ok"
    for name, forge in FORGERIES.items():
        records = plain(runs, stopped)
        forge(records[0], runs)
        assert_refused(runs, *planted(runs, records))
        assert name == "nothing" or records != plain(runs, stopped)
    records = [{name: value for name, value in record.items() if name != "hash"} for record in runs.records(stopped)]
    records[0]["exec"]["project"] = other_folder(runs)
    assert_refused(runs, *planted(runs, records))
    assert runs.box.exec("print(kept)", "precious")["stdout"] == "precious data\n"
    runs.cli("sessions", "destroy", "precious")
    own = runs.cli("resume", stopped["trajectory_id"], "--max-depth", "9", "--json")  # the control
    assert own.returncode == 0 and json.loads(own.stdout)["response"] == "mine", own.stdout + own.stderr


def test_steps_put_behind_a_genuine_head_are_not_believed(runs: Runs, stopped: Json) -> None:
    """A raised budget, as `resume` would record it, with a chain that is whole."""
    lines = runs.records(stopped)
    path = runs.path(stopped)
    with open(path) as file:
        text = file.read()
    more = trajectories.chained([{"_type": "step", "step": "resume",
                                  "budget": {**lines[0]["budget"], "token_budget": 0}}])
    last = lines[-1]["hash"]
    body = json.dumps({**json.loads(more[0]), "seq": len(lines) + 1}, separators=(",", ":"))
    record = {name: value for name, value in json.loads(body).items() if name != "hash"}
    body = json.dumps(record, separators=(",", ":"))
    digest = hashlib.sha256((last + body).encode()).hexdigest()
    runs.box.make_file(path, text + body[:-1] + f',"hash":"{digest}"' + "}\n", 0o600)
    assert runs.cli("logs", "verify", stopped["trajectory_id"]).returncode == 0  # nothing is wrong with the chain
    assert_refused(runs, os.path.dirname(path), stopped["trajectory_id"])
    runs.box.make_file(path, text, 0o600)
    assert runs.cli("resume", stopped["trajectory_id"], "--max-depth", "9").returncode == 0


def test_without_its_key_a_record_is_somebody_elses(runs: Runs, stopped: Json) -> None:
    key = os.path.join(runs.box.state, "run.key")
    with open(key, "rb") as file:
        kept = file.read()
    assert len(kept) == 32 and os.stat(key).st_mode & 0o7777 == 0o600
    try:
        runs.box.make_file(key, os.urandom(32), 0o600)
        assert_refused(runs, os.path.join(runs.folder, "logs"), stopped["trajectory_id"])
        runs.box.make_file(key, kept, 0o640)
        open_to_others = runs.cli("resume", stopped["trajectory_id"])
        assert open_to_others.returncode == 1 and "others cannot read" in open_to_others.stderr
    finally:
        runs.box.make_file(key, kept, 0o600)
    assert runs.cli("resume", stopped["trajectory_id"], "--max-depth", "9").returncode == 0


def test_replay_takes_the_code_and_nothing_else(runs: Runs, stopped: Json) -> None:
    own = runs.cli("replay", stopped["trajectory_id"])  # the control: its project is on record
    assert (own.returncode, own.stdout) == (0, "1 calls, all as recorded\n") and REFUSED not in own.stderr
    records = plain(runs, stopped)
    records[0]["exec"].update(project=other_folder(runs), tier="nonesuch", template="nonesuch")
    records[0]["exec"]["defaults"].update(tier="nonesuch", memory="nonesuch")
    records[0]["session"] = "precious"
    for record in records:
        if record.get("step") == "answer":
            record["answer"]["tool_calls"][0]["arguments"]["code"] = "import os\nprint(os.listdir('.'))"
    folder, ident = planted(runs, records)
    blind = runs.cli("replay", ident, "--dir", folder, "--json")
    assert REFUSED in blind.stderr and "without a project" in blind.stderr, blind.stderr
    assert json.loads(json.loads(blind.stdout)["difference"]["now"])["output"] == "[]\n", blind.stdout
    given = runs.cli("replay", ident, "--dir", folder, "--json", "--project", other_folder(runs))
    assert json.loads(json.loads(given.stdout)["difference"]["now"])["output"] == "['secret']\n", given.stdout
    assert "replay-" not in runs.cli("sessions", "list").stdout


# Processes --------------------------------------------------------------------------------------


WRITER = """
import fcntl, json, os, signal, struct, sys
stat = open('/proc/self/stat').read().rsplit(')', 1)[1].split()
boot = open('/proc/sys/kernel/random/boot_id').read().strip()
print(json.dumps({"pid": os.getpid(), "start": int(stat[19]), "boot": boot}), flush=True)
path = sys.stdin.readline().strip()
if path:
    file = os.open(path, os.O_RDWR)
    fcntl.fcntl(file, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))  # F_OFD_SETLK
print('ready', flush=True)
signal.pause()
"""


@pytest.fixture
def process(runs: Runs) -> Iterator[Starter]:
    """Starts processes of the user; each says what a record would say of it."""
    started = []

    def start() -> tuple[subprocess.Popen[str], Any]:
        child = subprocess.Popen([PYTHON, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                 **runs.box.identity())
        started.append(child)
        return child, json.loads(some(child.stdout).readline())

    def begin(child: subprocess.Popen[str], path: str = "") -> None:
        into = some(child.stdin)
        into.write(path + "\n")
        into.flush()
        assert some(child.stdout).readline() == "ready\n"

    yield start, begin
    for child in started:
        child.kill()
        child.communicate()


def test_only_who_holds_the_lock_is_told_to_stop(runs: Runs, process: Starter) -> None:
    start, begin = process
    victim, victim_on_record = start()
    writer, writer_on_record = start()
    folder = os.path.join(runs.folder, "cloned")
    forged = trajectories.write(folder, trajectories.chained([trajectories.head("a", process=victim_on_record)]))
    path = os.path.join(folder, forged + ".jsonl")
    os.chmod(path, 0o666)
    begin(victim)
    begin(writer, path)
    listed = json.loads(runs.cli("runs", "--dir", folder, "--json").stdout)
    assert [each["state"] for each in listed] == ["running"]
    refused = runs.cli("runs", "cancel", forged, "--dir", folder)
    assert refused.returncode == 1 and "cannot confirm" in refused.stderr, refused.stdout + refused.stderr
    assert victim.poll() is None and writer.poll() is None
    with open(path, "w") as file:  # the same file, still locked; now it tells the truth
        file.write(trajectories.chained([trajectories.head("a", process=writer_on_record)])[0] + "\n")
    told = runs.cli("runs", "cancel", forged, "--dir", folder)
    assert told.returncode == 0, told.stderr
    assert wait_for(lambda: writer.poll() is not None) and victim.poll() is None
