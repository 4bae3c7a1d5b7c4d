# SPDX-License-Identifier: Apache-2.0
"""Every verb: one JSON value with --json, and exit codes that mean the same everywhere (docs/reference/cli.md)."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import lib

# Standard output of these is the thing itself.
NO_JSON = {"completion", "man", "logs export", "runs call"}
# One run of the model, from a script.
SCRIPT = [
    {"content": "", "tool_calls": [{"name": "execute_code", "arguments": {"code": "print(6 * 7)"}}]},
    {"content": "42"},
]


@pytest.fixture(scope="module")
def box() -> Iterator[lib.Sandbox]:
    box = lib.Sandbox()
    script = "".join(json.dumps(line) + "\n" for line in SCRIPT)
    box.make_file("home/answers.jsonl", script)
    box.make_file("home/final.jsonl",
                  json.dumps({"tool_calls": [{"name": "FINAL", "arguments": {"answer": "42"}}]}) + "\n")
    box.make_file("home/data.csv", "a,b\n")
    box.make_file("home/tree/one", "1")
    box.make_file("home/shown/one", "1")
    box.make_file("home/code/a.py", "def add(a, b):\n    return a + b\n")
    box.make_file("home/call.json", '{"filter": "add"}')
    box.make_file("home/no.snp", "no archive")
    os.mkdir(os.path.join(box.home, "there"))
    for args in (["exec", "-s", "w", "open('plot.png', 'wb').write(b'x')"], ["snapshot", "first", "-s", "w"],
                 ["run", "--model", "replay/answers.jsonl", "What?"], ["export", "w.snp", "-s", "w"]):
        done = box.cli(*args)
        assert done.returncode == 0, done.stderr
    yield box
    box.close()


def run_id(box: lib.Sandbox) -> str:
    return sorted(os.listdir(os.path.join(box.home, "logs")))[0][:8]


def handle(box: lib.Sandbox) -> str:
    return str(box.exec("print('x' * 300)", session="cut", options=["--output", "100"])["output"]["handle"])


def verbs(box: lib.Sandbox, *path: str) -> Iterator[str]:
    """All verbs as words, from the program's own help."""
    text = box.cli(*path, "--help").stdout
    listed = text.split("\nCommands:\n")[1].split("\n\n")[0] if path else text.split("\nStart with: ")[1]
    names = re.findall(r"^  ([a-z][a-z-]*) ", listed.split("\nOptions:\n")[0], re.M)
    for name in names:
        if "\nCommands:\n" in box.cli(*path, name, "--help").stdout:
            yield from verbs(box, *path, name)
        else:
            yield " ".join([*path, name])


SERVER = ["--", os.path.join(lib.BUILD, "snipara-sandbox"), "mcp-serve", "--no-project"]

# verb: (its words, members of its object; a list: an array)
ANSWERS: dict[str, tuple[Any, Any]] = {
    "exec": (["exec", "-s", "w", "1 + 1"], "status value manifest"),
    "ps": (["ps", "w"], []),
    "attach": (["attach", "attached"], {"state": "ended", "exit_code": 0, "signal": None}),
    "kill": (["kill", "killed"], {"sent": True}),
    "sessions list": (["sessions", "list"], []),
    "stats": (["stats", "--since", "7d"], "since repairs measures"),
    "sessions show": (["sessions", "show", "w"], "name state"),
    "sessions set": (["sessions", "set", "w", "--output", "99999"], "was limits at_wake state"),
    "sessions move": (["sessions", "move", "moved", "--to", "local"], "moved from to cell lost"),
    "sessions clear": (["sessions", "clear", "cleared"], "cleared epoch"),
    "sessions destroy": (["sessions", "destroy", "gone"], "destroyed"),
    "snapshot": (["snapshot", "-s", "w"], "snapshot name session cell where"),
    "snapshots list": (["snapshots", "list", "w"], "snapshots head"),
    "snapshots remove": (["snapshots", "remove", "w@spare"], "removed"),
    "rollback": (["rollback", "w@first"], "session cell how"),
    "fork": (["fork", "w", "--name", "try"], "sessions how"),
    "diff": (["diff", "w@first", "w"], "variables files"),
    "verify": (["verify", "tested", "--test", "test ! -e one"], "verdict reasons runs sha256 folder"),
    "apply": (["apply", "shown", "--yes", "--unverified"], {"applied": ["x"], "unverified": True}),
    "history": (["history", "w"], "cells session"),
    "show": (["show", "w:1"], "cell status code"),
    "rerun": (["rerun", "w:1"], "session reran"),
    "checkpoint": (["checkpoint", "w"], "checkpoint cell"),
    "hibernate": (["hibernate", "w"], "hibernated cell"),
    "export": (["export", "again.snp", "-s", "w"], "name cell bytes"),
    "import": (["import", "w.snp", "--name", "came"], "session name cell"),
    "gc": (["gc"], "freed_bytes is_met"),
    "template add": (["template", "add", "mine"], "name python hash"),
    "template list": (["template", "list"], []),
    "template show": (["template", "show", "mine"], "name hash state"),
    "template remove": (["template", "remove", "mine"], "removed"),
    "put": (["put", "data.csv", "w:"],
            {"session": "w", "path": "data.csv", "source": "data.csv", "files": 1, "bytes": 4,
             "left_out": 0}),
    "get": (["get", "w:plot.png", "here.png"],
            {"session": "w", "path": "plot.png", "destination": "here.png", "files": 1,
             "bytes": 1, "left_out": 0}),
    "ls": (["ls", "w"], "entries truncated"),
    "output": (["output", handle], {"stream": "stdout", "bytes": 301, "truncated": False, "text": "x" * 300 + "\n"}),
    "models": (["models"], "model providers"),
    "run": (["run", "--model", "replay/answers.jsonl", "What?"], "response trajectory_id success"),
    "agent": (["agent", "--model", "replay/final.jsonl", "What?"], "answer run_id success"),
    "resume": (["resume", run_id], "success error"),  # this one is done
    "replay": (["replay", run_id], "calls same difference"),
    "back": (["back", run_id], "run steps"),
    "runs list": (["runs", "list"], []),
    "runs show": (["runs", "show", run_id], "id state answer"),
    "runs cancel": (["runs", "cancel", run_id], None),  # none runs: refused
    "logs list": (["logs", "list"], []),
    "logs": (["logs", run_id], []),
    "logs show": (["logs", "show", run_id], []),
    "logs verify": (["logs", "verify", run_id], "id intact last_hash"),
    "logs diff": (["logs", "diff", run_id, run_id], []),
    "visualize": (["visualize", "--out", "page.html"], "file runs sessions bytes"),
    "check": (["check", "code/a.py", "--dir", "code"], {"errors": 0, "not_checked": 0}),
    "context index": (["context", "index", "code"], "files changed left_out"),
    "context query": (["context", "query", "add", "--dir", "code"], "sections total_tokens left_out"),
    "context search": (["context", "search", "d.f", "--dir", "code"], {"pattern": "d.f", "total_matches": 1}),
    "context read": (["context", "read", "a.py:1-2", "--dir", "code"], {"start_line": 1, "total_lines": 2}),
    "context map": (["context", "map", "--dir", "code"], "map"),
    "context skeleton": (["context", "skeleton", "a.py", "--dir", "code"], "skeleton total_tokens"),
    "context sections": (["context", "sections", "--dir", "code"], {"returned": 1, "has_more": False}),
    "context standards": (["context", "standards", "--dir", "code"], {"documents": [], "total_tokens": 0}),
    "context call": (["context", "call", "sections", "call.json", "--dir", "code"], {"returned": 1}),
    "context stats": (["context", "stats", "--dir", "code"], "files definitions"),
    "init": (["init", "new"], {"created": ["new/snipara-sandbox.toml", "new/.env.example"]}),
    "trust": (["trust", "trusted"], "files"),
    "config show": (["config", "show"], "config_file memory"),
    "doctor": (["doctor"], "usable checks"),
    "daemon status": (["daemon", "status"], "running pid version"),
    "mcp-install": (["mcp-install", "claude", "--yes"], "file written change"),
    "mcp info": (["mcp", "info", *SERVER], "era protocol server"),
    "mcp tools": (["mcp", "tools", *SERVER], "tools"),
    "mcp call": (["mcp", "call", "list_sessions", *SERVER], "content"),
    "mcp resources": (["mcp", "resources", *SERVER], "resources"),
    "mcp read": (["mcp", "read", "snipara://session/w/files/", *SERVER], "contents"),
    "mcp prompts": (["mcp", "prompts", *SERVER], "prompts"),
    "mcp prompt": (["mcp", "prompt", "repair", "-a", "command=ls", *SERVER], "messages"),
    "version": (["version"], "version"),
}
# Tested below: their end is another's beginning, or they serve.
ELSEWHERE = {"daemon stop", "eval", "mcp-serve"}
BEFORE = {
    "attach": ["exec", "-s", "attached", "--detach", "--sh", "true"],
    "kill": ["exec", "-s", "killed", "--detach", "--sh", "sleep 1000"],
    "trust": ["init", "trusted"],
    "verify": ["exec", "-s", "tested", "--project", "shown", "import os; os.remove('one')"],
    "apply": ["exec", "-s", "shown", "--project", "shown", "open('x', 'w').write('1')"],
    "sessions move": ["exec", "-s", "moved", "1"],
    "sessions clear": ["exec", "-s", "cleared", "1"],
    "sessions destroy": ["exec", "-s", "gone", "1"],
    "snapshots remove": ["snapshot", "spare", "-s", "w"],
    "template show": ["template", "add", "mine"],
    "template remove": ["template", "add", "mine"],
}


def with_json(words: Sequence[str]) -> list[Any]:
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--json", *words[at:]]


def test_the_table_has_every_verb(box: lib.Sandbox) -> None:
    known = set(ANSWERS) | ELSEWHERE | NO_JSON
    assert set(verbs(box)) - known == set()
    for verb in NO_JSON:
        assert "--json" not in box.cli(*verb.split(), "--help").stdout


@pytest.mark.parametrize("verb", ANSWERS)
def test_json_is_one_value(box: lib.Sandbox, verb: str) -> None:
    words, members = ANSWERS[verb]
    if verb in BEFORE and not (verb.startswith("template") and "mine" in box.cli("template", "list", "--names").stdout):
        assert box.cli(*BEFORE[verb]).returncode == 0
    if verb == "template add":
        box.cli("template", "remove", "mine")
    # A name that begins like others is shown in full by the program, so none of ours does.
    done = box.cli(*with_json([word(box) if callable(word) else word for word in words]))
    if members is None:
        assert json.loads(done.stdout)["error"]["code"] and done.returncode == 1
        assert done.stderr.startswith(f"snipara-sandbox {verb}: ")
        return
    assert done.returncode == (1 if verb in ("resume", "verify") else 0), done.stderr
    value = json.loads(done.stdout)
    if isinstance(members, dict):
        assert members.items() <= value.items()
    elif isinstance(members, list):
        assert isinstance(value, list)
    else:
        assert set(members.split()) <= set(value)


def on_terminal(box: lib.Sandbox, *words: str, columns: int = 80) -> str:
    """What a person at a terminal of so many columns sees, without colours."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(mine, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    with box.popen(*words, stdout=theirs, stderr=theirs, env={"TERM": "xterm", "PAGER": "cat"}) as process:
        os.close(theirs)
        text = b""
        while chunk := read_or_end(mine):
            text += chunk
        os.close(mine)
        process.wait(lib.PATIENCE)
    return re.sub("\x1b\\[[0-9;]*[mK]", "", text.decode())


def read_or_end(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # the other end is closed
        return b""


def too_long(box: lib.Sandbox, words: Sequence[str], columns: int = 80) -> list[str]:
    """Lines that a terminal breaks, but words, commands and lines of a difference, which may be as long as they are."""
    return [line for line in re.split("[\r\n]+", on_terminal(box, *words, columns=columns))
            if len(line) > columns and not re.fullmatch(r"[+-].*| *(\S+|snipara-sandbox .*)", line)]


# The others print the thing itself.
@pytest.mark.parametrize("verb", [verb for verb in ANSWERS
                                  if verb not in {"output", "mcp call", "mcp read", "mcp prompt"}])
def test_lines_fit_a_terminal(box: lib.Sandbox, verb: str) -> None:
    words = ANSWERS[verb][0]
    if verb in BEFORE:
        box.cli(*BEFORE[verb])
    assert too_long(box, [word(box) if callable(word) else word for word in words]) == []


def test_groups_alone_list(box: lib.Sandbox) -> None:
    for group, member in (("sessions", None), ("template", None), ("runs", None), ("replay", None), ("resume", None),
                          ("config", "memory"), ("daemon", "running")):
        value = json.loads(box.cli(group, "--json").stdout)
        assert isinstance(value, list) if member is None else member in value
    done = box.cli("sessions", "lst")
    assert done.returncode == 2 and "did you mean list?" in done.stderr


def test_a_session_is_named_as_a_word_or_with_s(box: lib.Sandbox) -> None:
    for words in (["twice"], ["-s", "twice"]):
        assert box.cli("exec", "-s", "twice", "1").returncode == 0
        assert box.cli("sessions", "destroy", *words).stdout == "destroyed twice\n"
    done = box.cli("sessions", "clear")  # nothing is cleared without being named, even if there is only one
    assert done.returncode == 2 and "name of the session" in done.stderr


def test_times_for_people_are_local_with_their_zone(box: lib.Sandbox) -> None:
    zone = {"TZ": "XST-11:30"}
    for words in (["ls", "w"], ["history", "w"], ["sessions", "show", "w"], ["logs", "list"], ["runs", "list"],
                  ["runs", "show", run_id(box)]):
        assert re.search(r"\d\d-\d\d \d\d:\d\d:\d\d XST", box.cli(*words, env=zone).stdout), words


def test_json_of_folders(box: lib.Sandbox) -> None:
    put = json.loads(box.cli("put", "-r", "tree", "w:", "--json").stdout)
    assert put == {"session": "w", "path": "tree", "source": "tree", "files": 1, "bytes": 1, "left_out": 0}
    got = json.loads(box.cli("get", "-r", "w:tree", "back", "--json").stdout)
    assert got == {"session": "w", "path": "tree", "destination": "back", "files": 1, "bytes": 1, "left_out": 0}


def test_json_of_output_that_is_no_text(box: lib.Sandbox) -> None:
    cut = box.exec(r"import os; os.write(1, b'\xff' * 300)", session="cut", options=["--output", "100"])
    value = json.loads(box.cli("output", cut["output"]["handle"], "--json").stdout)
    assert value["bytes"] == 300 and value["base64"] == "////" * 100 and "text" not in value


def test_a_change_can_be_looked_at_before_it_is_made(box: lib.Sandbox) -> None:
    folder = box.make_folder("other")
    done = box.cli("mcp-install", "claude", "--json", cwd=folder)
    value = json.loads(done.stdout)
    assert done.returncode == 1 and not value["written"] and "+" in value["change"] and os.listdir(folder) == []
    assert json.loads(box.cli("mcp-install", "claude", "--json", "--yes", cwd=folder).stdout)["written"]
    again = box.cli("mcp-install", "claude", "--json", "--yes", cwd=folder)
    assert again.returncode == 0 and json.loads(again.stdout)["change"] is None


@pytest.mark.parametrize("words, member", [
    (["mcp-serve", "--http", "0", "--no-project"], "token_file"), (["visualize", "--port", "0"], "url"),
])
def test_servers_say_their_address(box: lib.Sandbox, words: list[str], member: str) -> None:
    with box.popen(*words, "--json", text=True) as server:
        text = ""
        while not text.endswith("}\n"):
            line = lib.some(server.stdout).readline()
            assert line, lib.some(server.stderr).read()
            text += line
        value = json.loads(text)
        server.terminate()
        server.communicate(timeout=lib.PATIENCE)
    assert value["url"].startswith("http://127.0.0.1:") and member in value


def test_json_of_the_end_of_a_daemon(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox()
    pid = box.start()
    env = {**box.env}
    program = os.path.join(box.bin, "snipara-sandbox")
    for expected in ({"stopped": True, "pid": pid}, {"stopped": False}):
        done = subprocess.run([program, "daemon", "stop", "--json"], env=env, capture_output=True, text=True,
                              timeout=lib.PATIENCE)
        assert done.returncode == 0 and json.loads(done.stdout) == expected


# Exit codes ---------------------------------------------------------------------------------------

LONG = "n" * 65
WRONG = [  # 2: what was written cannot be right; nothing is done
    ["exce"], ["exec"], ["exec", "--timout", "1", "1"], ["exec", "--timeout", "x", "1"],
    ["exec", "--memory", "1k", "1"],
    ["exec", "-s", "b!", "1"], ["exec", "--env", "mars", "1"], ["exec", "--set-env", "x", "1"], ["exec", "-f", "tree"],
    ["exec", "--config", "tree", "1"], ["exec", "-s", "w", "--memory", "64m", "1"], ["sessions", "show", "b!"],
    ["sessions", "show", LONG], ["sessions", "move", "b!", "--to", "local"], ["sessions", "clear", "b!"],
    ["sessions", "move", "w"], ["sessions", "set", "w"], ["sessions", "set", "w", "--memory", "9t"],
    ["sessions", "destroy", "b!"], ["sessions", "destroy"], ["history", "b!"], ["history", "w", "-n", "0"],
    ["show", "w:x"],
    ["rerun", "w:x"], ["checkpoint", "b!"], ["hibernate", "b!"], ["snapshot", "b!", "-s", "w"], ["snapshots", "b!"],
    ["snapshots", "remove", "b!"], ["rollback", "b!"], ["rollback", "w@b!"], ["fork", "b!"], ["fork", "w", "-n", "0"],
    ["fork", "w", "--name", "b!"], ["diff", "w", "w", "w"], ["diff", "b!", "w"], ["diff", "w", "--project"],
    ["apply", "b!"], ["export", "x.snp", "-s", "b!"],
    ["export", "-", "-s", "w", "--json"], ["import", "no.snp"], ["import", "w.snp", "--name", "b!"],
    ["gc", "--budget", "x"],
    ["template", "add", "b!"], ["template", "show", "b!"], ["template", "remove", "b!"], ["template", "remove", "base"],
    ["put", "data.csv", "b!:"], ["put", "tree", "w:"], ["get", "w"], ["get", "w:plot.png", "-", "--json"], ["ls", "b!"],
    ["output", "b!"], ["run"], ["run", "--max-depth", "0", "x"], ["agent", "--tool-budget", "0", "x"],
    ["runs", "list", "--tail", "0"], ["logs", "--tail", "x"], ["logs", "export", "--format", "x", "y"],
    ["visualize", "--port", "99999"], ["visualize", "--host", "mars"], ["init", "a", "b"], ["mcp-install", "mars"],
    ["mcp-serve", "--tools", "mars"], ["mcp-serve", "--json"], ["mcp-serve", "--print-config", "mars"],
    ["get", "-r", "w:plot.png", "left"], ["history", "w", "--before", "0"], ["template", "remove", "mine", "base"],
    ["exec", "--", ""], ["snapshot", LONG, "-s", "w"],
    ["mcp", "info"], ["mcp", "info", "--url", "ftp://x"], ["mcp", "call", "t", "{", *SERVER], ["completion", "tcsh"],
]
FAILED = [  # 1: not there, there already, refused, out of reach, or the code failed
    ["exec", "1/0"], ["exec", "--timeout", "0.2", "while True: pass"],
    ["exec", "-f", "nowhere"], ["exec", "--stdin", "nowhere", "1"], ["exec", "--project", "/", "1"],
    ["exec", "--project", "nowhere", "1"], ["exec", "--rootfs", "nowhere", "1"], ["exec", "--template", "mars", "1"],
    ["exec", "--pass-env", "NOT_SET", "1"], ["rerun", "-s", "w", "--from", "999"],
    ["mcp", "info", "--pass-env", "NOT_SET", *SERVER],
    ["sessions", "show", "mars"], ["sessions", "move", "mars", "--to", "local"], ["sessions", "clear", "mars"],
    ["sessions", "set", "mars", "--cpus", "2"], ["sessions", "destroy", "mars"], ["history", "mars"],
    ["show", "w:99"], ["show", "mars:1"], ["rerun", "w:99"], ["checkpoint", "mars"], ["hibernate", "mars"],
    ["snapshot", "-s", "mars"], ["snapshot", "first", "-s", "w"], ["snapshots", "mars"],
    ["snapshots", "remove", "mars"],
    ["rollback", "mars"], ["rollback", "w@mars"], ["fork", "mars"], ["diff", "mars", "w"], ["apply", "mars"],
    ["export", "x.snp", "-s", "mars"],
    ["export", "w.snp", "-s", "w"], ["import", "nowhere.snp"], ["import", "w.snp", "--name", "w"],
    ["template", "show", "mars"], ["template", "remove", "mars"], ["template", "add", "x", "--python", "/nowhere"],
    ["put", "nowhere", "w:"], ["put", "data.csv", "mars:"], ["put", "data.csv", "w:/etc/x"], ["get", "w:nowhere"],
    ["get", "w:/etc/passwd"], ["get", "-r", "w:nowhere", "left"], ["get", "-r", "w:", "tree/one"], ["ls", "mars"],
    ["ls", "w:nowhere"], ["output", "0" * 32 + "/1"], ["run", "What?"], ["agent", "What?"],
    ["run", "--model", "replay/answers.jsonl", "--output", "there", "x"], ["resume", "mars"], ["replay", "mars"],
    ["runs", "show", "mars"], ["runs", "cancel", "mars"], ["logs", "mars"], ["logs", "verify", "mars"],
    ["logs", "export", "mars"], ["logs", "diff", "mars", "mars"], ["visualize", "--out", "x", "mars"],
    ["visualize", "--host", "0.0.0.0"], ["mcp-serve", "--http", "0.0.0.0:1"], ["mcp-serve", "--project", "/nowhere"],
    ["mcp", "info", "--", "nowhere"], ["mcp", "info", "--", "false"], ["mcp", "info", "--url", "http://127.0.0.1:1/"],
    ["mcp", "call", "mars", *SERVER], ["mcp", "read", "mars:", *SERVER], ["mcp", "prompt", "mars", *SERVER],
]


@pytest.mark.parametrize("words", WRONG + FAILED, ids=lambda words: " ".join(words)[:60])
def test_refusals_fit_a_terminal(box: lib.Sandbox, words: list[str]) -> None:
    assert too_long(box, words) == []


def refusal_is_json(done: subprocess.CompletedProcess[str], status: int, verb: str) -> None:
    """One value: a result, or why there is none."""
    value = json.loads(done.stdout)
    assert done.returncode == (2 if "unknown option" in done.stderr or "needs --" in done.stderr else status)
    if verb in ("run", "agent", "resume") and "success" in value:
        assert value["success"] is False and type(value["error"]) is str
    elif not {"status", "isError", "intact"} & set(value):
        assert {"code", "message"} <= set(value["error"]) <= {"code", "message", "errno", "object", "limit",
                                                              "remedy"}, value
        assert value["error"]["message"]


@pytest.mark.parametrize("status, words", [
    *((2, words) for words in WRONG), *((1, words) for words in FAILED),
], ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else str(value))
def test_exit_codes_mean_the_same_everywhere(box: lib.Sandbox, status: int, words: list[str]) -> None:
    before = sorted(os.listdir(box.home))
    done = box.cli(*words)
    assert done.returncode == status, done.stdout + done.stderr
    if words[:1] != ["exec"] or status == 2:
        assert done.stderr.startswith("snipara-sandbox"), done.stderr
        assert f" {words[0]}: {words[0]}: " not in done.stderr
    if words != ["mcp-serve", "--json"] and "--json" not in words:
        refusal_is_json(box.cli(*with_json(words)), status, words[0])
    assert done.stderr != "" and [name for name in sorted(os.listdir(box.home)) if name not in before] in ([], ["logs"])


@pytest.mark.parametrize("words", [
    ["exec", "1"], ["sessions", "list"], ["snapshots"], ["history", "w"], ["put", "data.csv", "w:"], ["get", "w:x"],
    ["ls", "w"], ["gc"], ["daemon", "status"], ["daemon", "stop"], ["diff", "a", "b"], ["fork", "a"],
], ids=" ".join)
def test_a_daemon_out_of_reach_is_a_failure(box: lib.Sandbox, words: list[str]) -> None:
    done = box.cli(*words, env={"SNIPARA_SANDBOX_RUNTIME_DIR": "/proc/nowhere"})
    assert done.returncode == 1 and "runtime folder" in done.stderr and done.stdout == ""


def test_commands_keep_their_own_exit_codes(box: lib.Sandbox) -> None:
    for line, status in (("exit 7", 7), ("kill -9 $$", 137), ("nosuchprogram", 127)):
        assert box.cli("exec", "--sh", line).returncode == status
    assert box.cli("exec", "--timeout", "0.2", "--", "sleep", "600").returncode == 124


@pytest.mark.parametrize("code, options, status", [
    ("import sys; sys.exit(3)", [], 3), ("import sys; sys.exit(-1)", [], 255), ("import sys; sys.exit(256)", [], 1),
    ("import sys; sys.exit('no')", [], 1), ("import sys; sys.exit()", [], 0), ("1 / 0", ["--check"], 1),
    ("!exit 7\n!true", [], 0), ("!exit 7\n!true", ["--check"], 7), ("%%bash\nkill -9 $$", ["--check"], 137),
    ("text = !exit 4", ["--check"], 4), ("!true", ["--check"], 0),
])
def test_python_has_the_exit_code_that_it_asks_for(box: lib.Sandbox, code: str, options: list[str],
                                                   status: int) -> None:
    assert box.cli("exec", *options, code).returncode == status
    again = box.exec(f"{code}\n", session="codes")  # of this cell, not of the previous one
    assert box.exec("1", session="codes")["exit_code"] is None, again


@pytest.mark.parametrize("words", [["exec", "1"], ["sessions", "move", "a", "--to"], ["doctor"]], ids=" ".join)
@pytest.mark.parametrize("name", ["nonesuch", "vm"])
def test_an_unknown_tier_is_a_usage_error(box: lib.Sandbox, words: list[str], name: str) -> None:
    assert box.cli(*words, *([] if words[-1] == "--to" else ["--env"]), name).returncode == 2
