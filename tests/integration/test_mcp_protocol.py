# SPDX-License-Identifier: Apache-2.0
"""mcp-serve on the wire: both eras, malformed input, order, cancellation, progress, the end."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lib
import mcp

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")


@pytest.fixture(scope="module")
def box() -> Iterator[lib.Sandbox]:
    made = lib.Sandbox("root" if os.geteuid() == 0 else "user")
    yield made
    made.close()


@pytest.fixture
def server(box: lib.Sandbox) -> Iterator[mcp.Server]:
    with mcp.Server(box) as made:
        yield made


def modern(**params: Any) -> lib.Json:
    return {**params, "_meta": dict(mcp.MODERN)}


# Golden transcripts -------------------------------------------------------------------------


def settled(message: lib.Json) -> Any:
    """A message without what differs from run to run."""
    text = json.dumps(message, sort_keys=True)
    text = re.sub(r'"duration_ms": \d+', '"duration_ms": 0', text)
    return json.loads(text)


@pytest.mark.parametrize("name", ["legacy", "modern"])
def test_golden_transcript(box: lib.Sandbox, name: str) -> None:
    """Lines "> sent" and "< received", in order, byte for byte but for times."""
    with open(os.path.join(GOLDEN, f"mcp-{name}.txt")) as text:
        lines = [line.rstrip("\n") for line in text if line[0] in "<>"]
    with mcp.Server(box, "--no-project") as server:
        server.tool("destroy_session", session_id="golden")
        for line in lines:
            if line[0] == ">":
                server.write(line[2:].encode() + b"\n")
            else:
                assert settled(server.receive()) == json.loads(line[2:])
        assert server.receive(0.2) is None


# Eras ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked, given", [
    ("2025-11-25", "2025-11-25"), ("2025-06-18", "2025-06-18"), ("2025-03-26", "2025-03-26"),
    ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25"), ("2026-07-28", "2025-11-25")])
def test_legacy_versions(server: mcp.Server, asked: str, given: str) -> None:
    done = server.initialize(asked)
    assert done["protocolVersion"] == given
    assert done["serverInfo"]["name"] == "SniparaSandbox"
    assert "resultType" not in done and set(done["capabilities"]) >= {"tools", "resources", "prompts"}


def test_both_eras_on_one_pipe(server: mcp.Server) -> None:
    """As Claude Code does: discover, and the handshake on the same pipe."""
    found = server.call("server/discover", modern())["result"]
    assert found["supportedVersions"] == ["2026-07-28"] and found["resultType"] == "complete"
    assert found["ttlMs"] > 0 and found["cacheScope"] in ("public", "private")
    assert server.initialize()["protocolVersion"] == "2025-11-25"
    assert server.call("ping")["result"] == {}
    assert server.call("tools/list", modern())["result"]["resultType"] == "complete"
    assert "resultType" not in server.call("tools/list")["result"]


def test_modern_refusals(server: mcp.Server) -> None:
    cases: list[tuple[str, lib.Json, int]] = [
        ("server/discover", {}, -32602),
        ("tools/list", {"_meta": {mcp.VERSION: "2026-07-28"}}, -32602),
        ("tools/list", {"_meta": {mcp.VERSION: 7, mcp.CAPABILITIES: {}}}, -32602),
        ("initialize", modern(), -32601),
        ("ping", modern(), -32601),
        ("logging/setLevel", modern(level="info"), -32601),
        ("resources/subscribe", modern(uri="x"), -32601),
        ("tools/call", modern(name="nope"), -32602),
        ("tools/call", modern(), -32602),
        ("tools/list", modern(cursor="x"), -32602),
        ("resources/read", modern(uri="test://nothing"), -32602),
    ]
    for method, params, code in cases:
        assert server.call(method, params)["error"]["code"] == code, (method, params)
    refused = server.call("tools/list", {"_meta": {mcp.VERSION: "2099-01-01", mcp.CAPABILITIES: {}}})
    assert refused["error"]["code"] == -32022
    assert refused["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2099-01-01"}
    missing = server.call("resources/read", modern(uri="snipara://session/none/files/x"))
    assert missing["error"]["code"] == -32602 and missing["error"]["data"]["uri"].endswith("/x")


def test_absent_arguments_are_none(server: mcp.Server) -> None:
    assert "Active sessions" in mcp.text_of(server.call("tools/call", {"name": "list_sessions"})["result"])
    assert server.call("tools/call", {"name": "execute_python"})["result"]["isError"] is True


# Malformed input ----------------------------------------------------------------------------


@pytest.mark.parametrize("line, code", [
    (b"{bad", -32700), (b"[]", -32600), (b"7", -32700), (b'{"a":1,"a":2}', -32700),
    (b'{"id":1}', -32600), (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"' + b"m" * 500 + b'"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"nothing/here"}', -32601),
    (b"[" * 100000, -32600), (b'{"a":' * 50000, -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\xff', -32700),
])
def test_malformed_is_answered(server: mcp.Server, line: bytes, code: int) -> None:
    server.write(line + b"\n")
    assert server.receive()["error"]["code"] == code
    assert server.call("ping")["result"] == {}


def test_tolerated_lines(server: mcp.Server) -> None:
    """Blank lines, CRLF, unknown notifications, answers nobody asked for: no word, no harm."""
    server.write(b"\n   \n\r\n")
    server.write(b'{"jsonrpc":"2.0","method":"notifications/unheard"}\r\n')
    server.write(b'{"jsonrpc":"2.0","id":77,"result":{}}\n')
    server.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}\n')
    server.write(b'{"jsonrpc":"2.0","id":"x","method":"ping"}\r\n')
    assert server.receive() == {"jsonrpc": "2.0", "id": "x", "result": {}}


def test_half_characters_become_replacements(server: mcp.Server) -> None:
    server.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_python",'
                 b'"arguments":{"code":"print(ascii(\'\\ud83d|\\ud83d\\ude00|\\\\\\\\ud83d\'))"}}}\n')
    assert mcp.text_of(server.receive()["result"]) == r"'\ufffd|\U0001f600|\\ud83d'"


@pytest.mark.parametrize("number", ["9223372036854775808", "-9" + "9" * 40, "1e400", "-1.5E+999", "1" * 400 + ".5"])
def test_numbers_that_cannot_be_held_are_answered_by_the_call_s_id(server: mcp.Server, number: str) -> None:
    """An answer without it would leave who called waiting; text that looks so is not touched."""
    server.initialize()
    arguments = '{"path": "\\\\\\" 99999999999999999999", "offset": %s, "limit": 9223372036854775807}' % number
    server.write(b'{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "read_file", "arguments": '
                 b'%s}}\n'
                 % arguments.encode())
    message = server.receive()
    assert message["id"] == 9 and "'offset' must be below 10^15" in message["result"]["content"][0]["text"]
    server.write(b'{"jsonrpc": "2.0", "id": %s, "method": "ping"}\n' % number.encode())
    message = server.receive()
    assert message["id"] is None and message["error"]["code"] == -32700


def test_a_line_that_is_too_long_is_passed_over(server: mcp.Server) -> None:
    server.write(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"y" * (25 << 20) + b'"}}\n')
    assert server.receive()["error"]["code"] == -32600
    assert server.call("ping")["result"] == {}


def test_input_in_pieces(server: mcp.Server) -> None:
    for byte in b'{"jsonrpc":"2.0","id":5,"method":"ping"}\n':
        server.write(bytes([byte]))
    assert server.receive()["id"] == 5


# Batches ------------------------------------------------------------------------------------


def ask(ident: int | str, method: str, params: lib.Json | None = None) -> lib.Json:
    return {"jsonrpc": "2.0", "id": ident, "method": method, "params": params or {}}


def run(ident: str, code: str, **more: Any) -> lib.Json:
    return ask(ident, "tools/call", {"name": "execute_python", "arguments": {"code": code, **more}})


def test_a_batch_is_answered_by_a_batch(server: mcp.Server) -> None:
    """Of 2025-03-26: one array of answers, errors among them; notifications have none."""
    server.initialize("2025-03-26")
    server.send([run("slow", "import time; time.sleep(0.3); 1", session_id="b1"), run("quick", "2", session_id="b2"),
                 {"jsonrpc": "2.0", "method": "notifications/unheard"}, ask(3, "nothing/here"), 7, {"id": 4},
                 ask(5, "ping"), ask(5, "ping"), ask(6, "initialize"),
                 ask(8, "tools/list", {"_meta": dict(mcp.MODERN)})])
    answers = server.receive()
    codes = [(one["id"], one["error"]["code"]) for one in answers if "error" in one]
    assert codes == [(3, -32601), (None, -32600), (4, -32600), (6, -32600), (8, -32600)]
    values = {one["id"]: one["result"] for one in answers if "result" in one}
    assert mcp.text_of(values["slow"]) == "1" and mcp.text_of(values["quick"]) == "2"
    assert [one["id"] for one in answers].count(5) == 2 and len(answers) == 9
    server.send([{"jsonrpc": "2.0", "method": "notifications/unheard"}])  # nothing to be answered: no word
    assert server.call("ping")["result"] == {}


def test_what_is_cancelled_is_left_out_of_its_batch(server: mcp.Server) -> None:
    server.initialize("2025-03-26")
    server.send([run("x", "import time; time.sleep(600)", timeout=600), ask("y", "ping")])
    server.notify("notifications/cancelled", {"requestId": "x"})
    assert [one["id"] for one in server.receive()] == ["y"]
    server.send([run("x", "import time; time.sleep(600)", timeout=600)])
    server.notify("notifications/cancelled", {"requestId": "x"})
    assert server.text("execute_python", code="'free'") == "'free'"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_other_versions_have_no_batches(server: mcp.Server, version: str) -> None:
    server.initialize(version)
    server.send([ask(1, "ping")])
    refused = server.receive()["error"]
    assert refused["code"] == -32600 and "2025-03-26" in refused["message"]


def test_batches_are_bounded(server: mcp.Server) -> None:
    server.initialize("2025-03-26")
    batches: list[list[lib.Json]] = [[], [ask(n, "ping") for n in range(33)]]
    for batch in batches:
        server.send(batch)
        refused = server.receive()["error"]
        assert refused["code"] == -32600 and "1 to 32" in refused["message"]


# Requests in flight -------------------------------------------------------------------------


def test_one_session_in_order_others_beside(server: mcp.Server, box: lib.Sandbox) -> None:
    slow = server.begin("execute_python",
                        code="order = ['slow']; open('in', 'w').close(); import time; time.sleep(500)",
                        session_id="o1", timeout=600)
    after = server.begin("execute_python", code="order.append('after'); order", session_id="o1")
    other = server.begin("execute_python", code="'beside'", session_id="o2")
    assert server.receive()["id"] == other
    assert lib.wait_for(lambda: box.cli("ls", "o1:in").returncode == 0)
    server.notify("notifications/cancelled", {"requestId": slow})
    done = server.receive()
    assert (done["id"], mcp.text_of(done["result"])) == (after, "['slow', 'after']")


def test_ids_in_use(server: mcp.Server, box: lib.Sandbox) -> None:
    server.request("tools/call", {"name": "execute_python", "arguments": {
        "code": mcp.UNTIL + "until('go')", "session_id": "used", "timeout": 600}}, "a")
    server.request("ping", ident="a")
    assert server.receive()["error"]["code"] == -32600
    mcp.let_go(box, "used")
    assert "result" in server.receive()


def test_requests_beyond_the_most_wait(server: mcp.Server, box: lib.Sandbox) -> None:
    """They can be cancelled, keep their order, and do not hold up the question whether the server lives."""
    slow = server.begin("execute_python", code="open('in', 'w').close(); import time; time.sleep(500)", timeout=600,
                        session_id="beyond")
    waiting = [server.begin("execute_python", code=str(n), session_id="beyond") for n in range(150)]
    alive = server.request("ping")
    assert server.receive()["id"] == alive
    server.request("ping", ident=waiting[-1])  # its id is known
    assert server.receive()["error"]["code"] == -32600
    cancelled = waiting.pop(100)
    server.notify("notifications/cancelled", {"requestId": cancelled})
    assert lib.wait_for(lambda: box.cli("ls", "beyond:in").returncode == 0)
    server.notify("notifications/cancelled", {"requestId": slow})
    assert [server.receive()["id"] for _ in waiting] == waiting
    server.tool("destroy_session", session_id="beyond")


def test_what_waits_is_bounded(server: mcp.Server, box: lib.Sandbox) -> None:
    """In number and in bytes; what is too much is refused, and all else is answered."""
    slow = server.begin("execute_python", code="open('in', 'w').close(); import time; time.sleep(500)", timeout=600,
                        session_id="bounded")
    begun = [server.begin("execute_python", code="1", session_id="bounded") for _ in range(63)]
    large = [server.begin("execute_python", code="1 #" + "x" * (10 << 20), session_id="bounded") for _ in range(6)]
    refused = server.begin("execute_python", code="1 #" + "x" * (10 << 20), session_id="bounded")
    message = server.receive()
    assert message["id"] == refused and "too many requests wait (6, 60 MiB)" in message["error"]["message"]
    for ident in large:
        server.notify("notifications/cancelled", {"requestId": ident})
    small = [server.begin("list_sessions") for _ in range(1024)]
    refused = server.begin("list_sessions")
    message = server.receive()
    assert message["id"] == refused and "(1024, 0 MiB)" in message["error"]["message"]
    assert lib.wait_for(lambda: box.cli("ls", "bounded:in").returncode == 0)
    server.notify("notifications/cancelled", {"requestId": slow})
    assert sorted(server.receive()["id"] for _ in begun + small) == sorted(begun + small)
    server.tool("destroy_session", session_id="bounded")


def test_many_sessions_at_once(server: mcp.Server) -> None:
    """More than the daemon takes of one client: the rest waits, none fails; what needs no session goes on."""
    idents = [server.begin("execute_python", code=f"import time; time.sleep(0.5); {n}", session_id=f"many{n}")
              for n in range(40)]
    listed = server.begin("list_sessions")
    done: dict[Any, str] = {}
    while len(done) < 41:
        message = server.receive()
        done[message["id"]] = mcp.text_of(message["result"])
    assert [done[ident] for ident in idents] == [str(n) for n in range(40)]
    assert done[listed].startswith("Active sessions")
    for n in range(40):
        server.tool("destroy_session", session_id=f"many{n}")


def test_progress_increases_and_shows_output(server: mcp.Server, box: lib.Sandbox) -> None:
    ident = server.begin("execute_python", {"progressToken": "tok"}, session_id="steps", timeout=600,
                         code="import os, time\nwhile not os.path.exists('go'):\n"
                              "    print('step', flush=True); time.sleep(0.1)")
    sent = [server.receive()["params"] for _ in range(3)]
    mcp.let_go(box, "steps")
    server.answer(ident)
    sent += [note["params"] for note in server.notes]
    assert all(one["progressToken"] == "tok" for one in sent)
    values = [one["progress"] for one in sent]
    assert values == sorted(set(values)) and "step" in sent[-1]["message"]
    assert server.receive(1.5) is None  # none after the answer, where one a second came before


def test_output_is_streamed_where_it_is_asked_for(server: mcp.Server, box: lib.Sandbox) -> None:
    """Whole lines, clean, each once, in the order they were printed; only for who asks."""
    code = (mcp.UNTIL + "import sys\nfor i in range(3):\n    print(i, '\\x1b[31mred', end='\\n', flush=True)\n"
            "    print('err', file=sys.stderr, flush=True); until(f'go{i}')\nprint('half', end='')")
    ident = server.begin("execute_python", {"progressToken": 1, "com.snipara/output": True}, code=code,
                         session_id="lines", timeout=600)
    parts: list[lib.Json] = []
    for i in range(3):
        while f"{i} red\n" not in "".join(part.get("stdout", "") for part in parts):
            parts.append(server.receive()["params"].get("_meta", {}).get("com.snipara/output", {}))
        mcp.let_go(box, "lines", f"go{i}")
    server.answer(ident)
    parts += [note["params"]["_meta"]["com.snipara/output"] for note in server.notes if "_meta" in note["params"]]
    assert "".join(part.get("stdout", "") for part in parts) == "0 red\n1 red\n2 red\n"
    assert set("".join(part.get("stderr", "") for part in parts).split()) == {"err"}
    server.notes.clear()
    ident = server.begin("execute_python", {"progressToken": 2}, code=mcp.UNTIL + "print('x', flush=True); until('go')",
                         session_id="plain", timeout=600)
    server.notes.append(server.receive())
    mcp.let_go(box, "plain")
    server.answer(ident)
    assert all("_meta" not in note["params"] for note in server.notes)


def test_no_progress_unless_asked(server: mcp.Server) -> None:
    server.tool("execute_python", code="import time; time.sleep(2.5)")  # who asks for it gets some each second
    assert server.notes == []


# The end ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [None, signal.SIGINT, signal.SIGTERM], ids=["eof", "SIGINT", "SIGTERM"])
def test_the_end_is_quick_and_sessions_stay(box: lib.Sandbox, how: signal.Signals | None) -> None:
    server = mcp.Server(box)
    server.tool("execute_python", code="kept = 42", session_id="stay")
    server.begin("execute_python", code="open('in', 'w').close(); import time; time.sleep(600)", timeout=600,
                 session_id="running")
    assert lib.wait_for(lambda: box.cli("ls", "running:in").returncode == 0)
    if how is None:
        lib.some(server.process.stdin).close()
    else:
        server.process.send_signal(how)
    assert server.process.wait(lib.PATIENCE) == 0
    server.close()
    with mcp.Server(box) as again:
        # the cell was interrupted: its session is free at once
        assert again.text("execute_python", code="'free'", session_id="running") == "'free'"
        assert again.text("execute_python", code="kept", session_id="stay") == "42"


def test_answers_come_before_the_end(box: lib.Sandbox) -> None:
    """A pipeline: all requests, then end of input."""
    server = mcp.Server(box)
    server.initialize()
    ident = server.begin("execute_python", code="6 * 7")
    lib.some(server.process.stdin).close()
    assert mcp.text_of(server.answer(ident)["result"]) == "42"
    assert server.receive() is None and server.close() == 0


def test_input_from_a_file(box: lib.Sandbox) -> None:
    path = box.make_file("requests", '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
                                     '{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n')
    with open(path) as requests:
        done = subprocess.run([os.path.join(box.bin, "snipara-sandbox"), "mcp-serve", "--no-project"],
                              stdin=requests, capture_output=True, env=box.env, timeout=lib.PATIENCE, cwd=box.home,
                              **box.identity())
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


def test_the_daemon_may_go_away(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    made = fresh_sandbox("root" if os.geteuid() == 0 else "user")
    with mcp.Server(made) as server:
        server.tool("execute_python", code="x = 1")
        ident = server.begin("execute_python", code="import time; time.sleep(600)", timeout=600)
        assert lib.wait_for(lambda: any(session["state"] == "running" for session in json.loads(
            made.cli("sessions", "list", "--json").stdout)))
        made.stop()
        failed = server.answer(ident)["result"]
        assert failed["isError"] is True and "daemon" in mcp.text_of(failed)
        made.start()
        # nothing is run again unasked, and the way out is an argument of the tool
        text = server.error("execute_python", code="x")
        assert 'recover="replay"' in text and "destroy_session" in text and "--recover" not in text
        assert server.text("execute_python", code="1 + 1", session_id="new") == "2"
        text = server.text("destroy_session", session_id="default")
        assert server.text("execute_python", code="2 + 2") == "4"


def test_stdout_is_protocol_only(box: lib.Sandbox) -> None:
    """Every line is JSON, whatever the code prints; warnings go to standard error."""
    with mcp.Server(box, cwd="/") as server:
        server.initialize()
        server.tool("execute_python", code="import os; os.write(1, b'{\"jsonrpc\"'); os.write(2, b'noise')")
        assert server.call("ping")["result"] == {}
    assert "no project" in server.errors
