# SPDX-License-Identifier: Apache-2.0
"""The agent tools of mcp-serve: runs in the background, asked about and ended by their ids. Models are scripts, or
a server of the test's own that never answers."""

import contextlib
import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import lib
import mcp
import mcp_http
from test_models import KEY, Server as Peer

COUNT = itertools.count()  # of scripts
# A cell ends after its limit of 30 s; the model asks for it again and again.
SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(500)"


def turn(code: str | None = None, final: str | None = None, text: str = "", tokens: tuple[int, int] = (100, 20),
         **arguments: Any) -> lib.Json:
    calls = []
    if code is not None:
        calls.append({"name": "execute_code", "arguments": {"code": code}})
    if final is not None:
        calls.append({"name": "FINAL", "arguments": {"answer": final}})
    return {"content": text, "tool_calls": calls, "usage": {"input": tokens[0], "output": tokens[1]}, **arguments}


@pytest.fixture(scope="module")
def box() -> Iterator[lib.Sandbox]:
    box = lib.Sandbox("user")
    yield box
    box.close()


@pytest.fixture
def script(box: lib.Sandbox) -> Callable[..., dict[str, str]]:
    """A model that says what is given, as environment of a server."""
    def make(*turns: lib.Json) -> dict[str, str]:
        text = "".join(json.dumps(each) + "\n" for each in turns)
        return {"SNIPARA_SANDBOX_MODEL": "replay/" + box.make_file(f"script{next(COUNT)}.jsonl", text)}
    return make


@contextlib.contextmanager
def stdio(box: lib.Sandbox, env: dict[str, str], *options: str) -> Iterator[mcp.Server]:
    with mcp.Server(box, *options, env=env) as server:
        server.initialize()
        yield server


class Http:
    """Tools over HTTP, called as over stdio."""

    def __init__(self, server: mcp_http.Server) -> None:
        self.client = server.client()
        self.process = server.process
        self.project = server.project

    def tool(self, name: str, meta: lib.Json | None = None, /, **arguments: Any) -> lib.Json:
        answer = self.client.begin_tool(name, meta, **arguments)
        message = answer.messages()[-1]
        answer.sock.close()
        result: lib.Json = message["result"]
        return result


@contextlib.contextmanager
def http(box: lib.Sandbox, env: Mapping[str, str] | None, *options: str) -> Iterator[Http]:
    with mcp_http.Server(box, *options, env=env) as server:
        yield Http(server)


Tools = mcp.Server | Http


def start(server: Tools, task: str = "Do it", **arguments: Any) -> str:
    result = server.tool("snipara_agent_run", task=task, **arguments)
    assert not result.get("isError"), result
    assert set(result) == {"content"}
    return str(json.loads(mcp.text_of(result))["run_id"])


def status(server: Tools, run: str, wait: int = 0, alias: bool = False) -> lib.Json:
    result = server.tool("rlm_agent_status" if alias else "snipara_agent_status", run_id=run, wait=wait)
    assert not result.get("isError"), result
    text = mcp.text_of(result)
    assert len(text) < 10000
    shown: lib.Json = json.loads(text)
    assert shown["run_id"] == run
    return shown


def over(server: Tools, run: str) -> lib.Json:
    """Its status when it has ended."""
    for _ in range(10):
        shown = status(server, run, wait=30)
        if shown["status"] != "running":
            return shown
    raise AssertionError(shown)


def running(box: lib.Sandbox, server: Tools, run: str) -> None:
    """It works, and its cell has begun."""
    name = status(server, run)["session"]

    def has_begun() -> bool:
        sessions = json.loads(box.cli("sessions", "list", "--json").stdout)
        return any(each["name"] == name and each["state"] == "running" for each in sessions)
    assert lib.wait_for(has_begun)
    assert status(server, run)["status"] == "running"


def records(server: Tools, run: str) -> list[Any]:
    folder = os.path.join(server.project, "logs")
    name, = [name for name in os.listdir(folder) if name.startswith(run)]
    with open(os.path.join(folder, name), errors="replace") as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def error(server: Tools, name: str, /, **arguments: Any) -> str:
    result = server.tool(name, **arguments)
    assert result["isError"] is True and set(result) == {"content", "isError"}, result
    return mcp.text_of(result)


# Runs to their end --------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", [stdio, http])
def test_a_run_from_its_start_to_its_answer(box: lib.Sandbox, script: Callable[..., dict[str, str]],
                                            transport: Callable[..., Any]) -> None:
    model = script(turn("open('made.txt', 'w').write('x')\nprint(6 * 7)"), turn(final="forty-two"))
    with transport(box, model) as server:
        result = server.tool("snipara_agent_run", task="Say " + "what " * 100, max_iterations=70, cost_limit=99)
        begun = json.loads(mcp.text_of(result))
        assert list(begun)[:4] == ["run_id", "status", "task", "config"] and begun["status"] == "running"
        assert begun["config"] == {"max_iterations": 50, "token_budget": 400000, "cost_limit": 10.0}
        assert len(begun["run_id"]) == 8 and len(begun["task"]) <= 210
        shown = over(server, begun["run_id"])
        assert shown["status"] == "completed" and shown["total_tokens"] == 240 and shown["total_cost"] == 0
        done = shown["result"]
        assert done["answer"] == "forty-two" and done["answer_source"] == "final" and done["success"] is True
        assert done["run_id"] == begun["run_id"] and done["files"]["created"] == ["made.txt"]
        assert [each["tool_calls"] for each in done["iteration_summaries"]] == [2]
        # what it made is in its session, which the other tools reach
        assert mcp.text_of(server.tool("read_file", path="made.txt", session_id=shown["session"])).endswith("\nx")
        assert "had already ended: completed" in mcp.text_of(
            server.tool("rlm_agent_cancel", run_id=begun["run_id"]))
        assert status(server, begun["run_id"], alias=True) == shown


def test_the_servers_settings_hold_for_its_agents(box: lib.Sandbox, script: Callable[..., dict[str, str]]) -> None:
    """What mcp-serve was given on its command line: the project, limits, the tier; and the cell sees no key."""
    box.make_file("elsewhere/seen.txt", "here")
    folder = box.make_folder("elsewhere")
    model = script(turn("import os\nprint(open('seen.txt').read(), sorted(os.environ))"), turn(final="ok"))
    with stdio(box, {**model, "OPENAI_API_KEY": KEY}, "--project", folder, "--memory", "96m") as server:
        run = start(server, cost_limit=-1)
        assert over(server, run)["status"] == "completed"
        lines = records(server, run)
        result, = [line["content"] for line in lines if line.get("step") == "tool_result" and "here" in line["content"]]
        assert "API_KEY" not in result and lines[0]["exec"]["project"] == folder
        assert lines[0]["exec"]["defaults"]["memory_bytes"] == 96 << 20
        assert lines[0]["budget"]["cost_limit"] == -1 and KEY not in json.dumps(lines)


def test_configured_limits_hold_for_agents(box: lib.Sandbox, script: Callable[..., dict[str, str]]) -> None:
    """Unless the client sets other limits."""
    given = {"max_depth": 2, "token_budget": 7000, "tool_budget": 4, "cost_limit": 0.25, "timeout_seconds": 77}
    env = {f"SNIPARA_SANDBOX_{name.upper()}": str(value) for name, value in given.items()}
    others: list[lib.Json] = [{}, {"token_budget": 9000, "cost_limit": 0.5}]
    with stdio(box, {**script(turn(final="ok")), **env}) as server:
        for arguments in others:
            run = start(server, **arguments)
            assert over(server, run)["status"] == "completed"
            budget = records(server, run)[0]["budget"]
            assert {name: budget.get(name, budget["timeout_ms"] / 1000) for name in given} == {**given, **arguments}


def test_limits_end_a_run_and_are_named(box: lib.Sandbox, script: Callable[..., dict[str, str]]) -> None:
    model = script(*[turn("print('again')", text=f"try {n}", tokens=(9000, 1000)) for n in range(4)])
    with stdio(box, model) as server:
        shown = over(server, start(server, token_budget=15000))
        assert shown["status"] == "completed" and shown["result"]["success"] is False
        assert shown["result"]["stopped_by"] == "token_budget" and shown["result"]["forced_termination"] is True
        assert "Token budget" in shown["error"] and shown["resume"].startswith("snipara-sandbox resume ")


def test_hostile_answers_are_clean_and_bounded(box: lib.Sandbox, script: Callable[..., dict[str, str]]) -> None:
    loud = "\x1b[31mred\u202e\x07 [note] run this " + "y" * 50000
    names = "for n in range(60):\n    open(f'file{n}\\x1b[2J' + 'n' * 150, 'w').close()"
    model = script(turn(names, text=loud), *[turn("print('[note] from us\\n' * 5000)", text=loud) for n in range(3)],
                   turn(text=loud, final=loud))
    with stdio(box, model) as server:
        result = server.tool("snipara_agent_status", run_id=start(server, task=loud), wait=60)
        text = mcp.text_of(result)
        shown = json.loads(text)
        assert shown["status"] == "completed" and len(text) < 10000
        whole = json.dumps(shown, ensure_ascii=False)
        for hidden in ("\x1b", "\\u001b", "\x07", "\\u0007", "\u202e"):
            assert hidden not in text and hidden not in whole
        assert not any(line.startswith("[note]") for line in text.splitlines())
        assert shown["result"]["files"]["total"] == 60


# Ends before the end ------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", [stdio, http])
def test_a_cancelled_run_is_cancelled(box: lib.Sandbox, script: Callable[..., dict[str, str]],
                                      transport: Callable[..., Any]) -> None:
    with transport(box, script(turn(SLEEP, repeat=True))) as server:
        run = start(server, task="nobody else's business")
        running(box, server, run)
        with open(f"/proc/{records(server, run)[0]['process']['pid']}/cmdline") as cmdline:
            words = cmdline.read()
        assert "--attached" in words and "business" not in words  # which everybody may read
        result = server.tool("snipara_agent_cancel", run_id=run)
        assert mcp.text_of(result) == f"Agent run '{run}' cancelled"
        shown = status(server, run)
        assert shown["status"] == "cancelled" and shown["result"]["stopped_by"] == "cancelled"
        assert shown["result"]["answer_source"] == "error" and shown["result"]["success"] is False
        assert [line["end"]["stopped_by"] for line in records(server, run) if "end" in line] == ["cancelled"]


def test_cancelling_ends_the_model_call(box: lib.Sandbox) -> None:
    peer = Peer([b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", 500.0])
    env = {"SNIPARA_SANDBOX_MODEL": "gpt-4o-mini", "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": peer.url + "/v1"}
    try:
        with stdio(box, env) as server:
            run = start(server)
            assert lib.wait_for(lambda: peer.requests)
            assert status(server, run)["status"] == "running"
            assert KEY not in json.dumps(records(server, run))
            server.tool("snipara_agent_cancel", run_id=run)
            assert peer.gone.wait(lib.PATIENCE) and status(server, run)["status"] == "cancelled"
    finally:
        peer.close()


def test_several_at_once_are_bounded_and_apart(box: lib.Sandbox, script: Callable[..., dict[str, str]]) -> None:
    with stdio(box, script(turn(SLEEP, repeat=True))) as server:
        runs = [start(server) for _ in range(4)]
        assert len(set(runs)) == 4
        assert "4 agents are running" in error(server, "snipara_agent_run", task="one more")
        running(box, server, runs[1])
        server.tool("snipara_agent_cancel", run_id=runs[1])
        assert [status(server, run)["status"] for run in runs] == ["running", "cancelled", "running", "running"]
        runs.append(start(server))
        for run in runs:
            server.tool("snipara_agent_cancel", run_id=run)
        assert [status(server, run)["status"] for run in runs] == ["cancelled"] * 5


@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "SIGKILL"])
def test_runs_end_with_their_server_and_go_on_later(box: lib.Sandbox, script: Callable[..., dict[str, str]],
                                                    how: str) -> None:
    # a cell that had not begun yet is run when the run goes on
    model = script(turn(mcp.UNTIL + "until('go')"), turn(final="went on"))
    with stdio(box, model) as server:
        run = start(server)
        running(box, server, run)
        name = status(server, run)["session"]
        writer = records(server, run)[0]["process"]["pid"]
        if how == "end of input":
            lib.some(server.process.stdin).close()
        else:
            server.process.send_signal(getattr(signal, how))
        server.process.wait(lib.PATIENCE)
        assert lib.wait_for(lambda: not lib.is_alive(writer))
        folder = server.project
    with stdio(box, model) as later:
        shown = status(later, run)
        assert shown["status"] == "interrupted" and shown["resume"] == f"snipara-sandbox resume {run}"
        assert "result" not in shown
        assert "had already ended: interrupted" in mcp.text_of(later.tool("snipara_agent_cancel", run_id=run))
        for there in (os.path.join(folder, "go"), "go"):  # for a session that is opened later, or is there
            path = box.make_file(there)
        box.cli("put", path, f"{name}:go")
        done = box.cli("resume", run, "--json", cwd=folder)  # as the status says; the cell was ended, too
        assert done.returncode == 0, done.stdout + done.stderr
        shown = status(later, run)
        assert shown["status"] == "completed" and shown["result"]["answer"] == "went on"
    os.unlink(os.path.join(folder, "go"))


@pytest.mark.slow
def test_an_agent_that_does_not_stop_is_killed_by_its_server_only(box: lib.Sandbox,
                                                                  script: Callable[..., dict[str, str]]) -> None:
    env = script(turn(SLEEP, repeat=True))
    with stdio(box, env) as server, stdio(box, env) as other:
        run = start(server)
        running(box, server, run)
        writer = records(server, run)[0]["process"]["pid"]
        os.kill(writer, signal.SIGSTOP)
        assert "another server started it" in error(other, "snipara_agent_cancel", run_id=run)
        assert lib.is_alive(writer) and status(other, run)["status"] == "running"
        assert error(server, "snipara_agent_cancel", run_id=run).endswith("was killed: its status is interrupted")
        assert status(server, run)["status"] == "interrupted"


def test_a_cancelled_start_leaves_no_run(box: lib.Sandbox, script: Callable[..., dict[str, str]]) -> None:
    """Nobody learns its id, so nobody could end it."""
    folder = os.path.join(box.make_folder("project"), "logs")
    with stdio(box, script(turn(SLEEP, repeat=True))) as server:
        os.makedirs(folder, exist_ok=True)
        before = set(os.listdir(folder))
        ident = server.begin("snipara_agent_run", task="Do it")
        server.notify("notifications/cancelled", {"requestId": ident})
        assert lib.wait_for(lambda: set(os.listdir(folder)) - before)
        name, = set(os.listdir(folder)) - before
        assert lib.wait_for(lambda: records(server, name[:8]))
        assert lib.wait_for(lambda: status(server, name[:8])["status"] != "running")
        assert status(server, name[:8])["status"] == "cancelled"


# Questions ----------------------------------------------------------------------------------------


def test_waiting_says_how_it_goes(box: lib.Sandbox, script: Callable[..., dict[str, str]]) -> None:
    with stdio(box, script(turn(SLEEP, repeat=True))) as server:
        run = start(server)
        running(box, server, run)
        shown = json.loads(mcp.text_of(server.tool("snipara_agent_status", {"progressToken": "p"}, run_id=run, wait=2)))
        assert shown["status"] == "running" and shown["iteration"] >= 1
        assert any("running execute_code" in note["params"]["message"] for note in server.notes), server.notes
        ident = server.begin("snipara_agent_status", run_id=run, wait=60)
        server.notify("notifications/cancelled", {"requestId": ident})
        server.tool("snipara_agent_cancel", run_id=run)  # which is answered, and the other is not
        assert status(server, run)["status"] == "cancelled"


def test_what_is_no_run(box: lib.Sandbox, script: Callable[..., dict[str, str]]) -> None:
    with stdio(box, script(turn(final="x"))) as server:
        assert error(server, "snipara_agent_status") == "Error: No run_id provided"
        for odd in ("r1", "0", "../../../../etc/passwd", "ffffffff", "\x1b[31m", "x" * 5000):
            for tool in ("snipara_agent_status", "snipara_agent_cancel"):
                text = error(server, tool, run_id=odd)
                assert text.startswith("Error: Run '") and text.endswith("' not found") and "\x1b" not in text
        assert "NUL" in error(server, "snipara_agent_run", task="a\0b")
        for arguments in ({"max_iterations": 0}, {"token_budget": -1}):
            assert "at least 1" in error(server, "snipara_agent_run", task="t", **arguments)
        assert "at most 10000000" in error(server, "snipara_agent_run", task="t", token_budget=10000001)
        folder = os.path.join(server.project, "logs")
        os.makedirs(folder, exist_ok=True)
        broken = "deadbeef-0000-4000-8000-000000000000"
        with open(os.path.join(folder, broken + ".jsonl"), "w") as out:
            out.write('{"_type":"trajectory_metadata","trajectory_id":"x","prompt":"p"}\nno JSON\n')
        shown = server.tool("snipara_agent_status", run_id="deadbeef")
        assert shown["isError"] is True or json.loads(mcp.text_of(shown))["status"] == "interrupted"
        with open(os.path.join(folder, broken + ".jsonl"), "wb") as out:
            out.truncate(40 << 20)
        assert "40 MiB (limit 32 MiB)" in error(server, "snipara_agent_status", run_id="deadbeef")
        os.unlink(os.path.join(folder, broken + ".jsonl"))


def test_a_start_that_fails_says_why(box: lib.Sandbox, script: Callable[..., dict[str, str]]) -> None:
    with stdio(box, {"SNIPARA_SANDBOX_MODEL": "openai/nobody-knows-it", "OPENAI_API_KEY": KEY}) as server:
        text = error(server, "snipara_agent_run", task="t")
        assert "price" in text and "cost_limit=-1" in text and "--cost-limit" not in text and KEY not in text
    with stdio(box, {"SNIPARA_SANDBOX_MODEL": "openai/gpt-4o-mini", "OPENAI_API_KEY": KEY}) as server:
        text = error(server, "snipara_agent_run", task="t", cost_limit=-1)
        assert "gpt-4o-mini" in text and "at most 10 USD" in text and KEY not in text
    with stdio(box, {"SNIPARA_SANDBOX_MODEL": "gpt-4o-mini"}) as server:
        text = error(server, "snipara_agent_run", task="t")
        assert text.startswith("Error starting agent: no key for openai: set OPENAI_API_KEY")
        assert error(server, "snipara_agent_run", task=" \n") == "Error: No task provided"


def test_a_cloned_folder_leads_no_records_of_agents_out(box: lib.Sandbox,
                                                        script: Callable[..., dict[str, str]]) -> None:
    """Attack: `logs` is a link, or an untrusted file names a folder behind one; and it lists no agents by naming a
    model."""
    folder, outside = box.make_folder("project/cloned"), box.make_folder("outside")
    os.symlink(outside, os.path.join(folder, "logs"))
    box.make_file("project/cloned/snipara-sandbox.toml", '[snipara_sandbox]\nlog_dir = "logs/deep"\nmodel = "gpt-4o"\n')
    settings: list[dict[str, str]] = [{}, {"SNIPARA_SANDBOX_LOG_DIR": "logs"}]
    for chosen in settings:
        with mcp.Server(box, env={**script(turn(final="x")), **chosen}, cwd=folder) as server:
            server.initialize()
            if chosen:
                assert over(server, start(server))["status"] == "completed"
            else:
                assert "could put records outside" in error(server, "snipara_agent_run", task="t")
            assert bool(os.listdir(outside)) == bool(chosen)
    with mcp.Server(box, cwd=folder) as server:
        server.initialize()
        assert not [tool for tool in server.call("tools/list")["result"]["tools"] if "agent" in tool["name"]]


def test_agents_are_listed_where_a_model_is_configured(box: lib.Sandbox, script: Callable[..., dict[str, str]]) -> None:
    replay = {"SNIPARA_SANDBOX_BACKEND": "replay", "SNIPARA_SANDBOX_REPLAY_FILE": box.make_file("r.jsonl", "{}\n")}
    only = {"SNIPARA_SANDBOX_BACKEND": "replay"}
    rows: list[tuple[dict[str, str], bool]] = [({}, False), (script(turn(final="x")), True), (replay, True),
                                               (only, False)]
    for env, is_listed in rows:
        with stdio(box, env) as server:
            tools = server.call("tools/list")["result"]["tools"]
            listed = [tool["name"] for tool in tools if "agent" in tool["name"]]
            assert listed == (["snipara_agent_run", "snipara_agent_status", "snipara_agent_cancel"] if is_listed
                              else [])
            assert len(json.dumps(tools, separators=(",", ":"))) < 10500
