# SPDX-License-Identifier: Apache-2.0
"""`mcp`: our client before servers that are good, old, or hostile (hostile_mcp.py). What a server does wrong ends in an
error that says what, within the limits; nothing it says reaches a terminal raw or another call."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, NamedTuple

import pytest

import lib
import mcp_http

PROGRAM = os.path.join(lib.BUILD, "snipara-sandbox")
HOSTILE = [lib.PYTHON, os.path.join(os.path.dirname(os.path.abspath(__file__)), "hostile_mcp.py")]
TOKEN = "sesame-0123456789"


class Done(NamedTuple):
    returncode: int
    out: str
    err: str


def mcp(*words: str, env: dict[str, str] | None = None, **more: Any) -> Done:
    """`snipara-sandbox mcp ...`; nothing of ours is inherited but what it needs."""
    done = subprocess.run([PROGRAM, "mcp", *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=lib.PATIENCE,
                          env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **san(), **(env or {})}, **more)
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    assert "Sanitizer" not in err and "runtime error" not in err, err
    return Done(done.returncode, out, err)


def patiently(attempt: Callable[..., Any]) -> Any:
    """The first attempt(seconds) that works: how long a start takes on this host nobody knows."""
    for seconds in ("0.7", "4", "20", str(lib.PATIENCE - 1)):
        done = attempt(seconds)
        if done:
            return done
    raise AssertionError("not in any time")


def san() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}


def call(how: str, *options: str, tool: str = "echo", arguments: str = '{"text": "hi"}',
         **more: Any) -> Done:
    return mcp("call", tool, arguments, *options, "--", *HOSTILE, how, **more)


class Http:
    """The hostile server behind a port of its own."""

    def __init__(self, how: str, tmp_path: Path, **env: Any) -> None:
        self.record = str(tmp_path / f"record-{how}-{time.monotonic_ns()}")
        self.process = subprocess.Popen([*HOSTILE, how, "--http"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**os.environ, "RECORD": self.record, **env})
        self.port = int(lib.some(self.process.stdout).readline())
        self.url = f"http{'s' if 'CERT' in env else ''}://127.0.0.1:{self.port}/mcp"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        lib.some(self.process.stdin).close()
        self.process.wait(lib.PATIENCE)
        lib.some(self.process.stdout).close()

    def requests(self) -> list[Any]:
        if not os.path.exists(self.record):
            return []
        with open(self.record) as lines:
            return [json.loads(line) for line in lines]

    def call(self, *options: str, arguments: str = '{"text": "hi"}', **more: Any) -> Done:
        return mcp("call", "echo", arguments, "--url", self.url, *options, **more)


# Good servers, of both eras ------------------------------------------------------------------


@pytest.mark.parametrize("how, version", [("good", "2026-07-28"), ("legacy", "2025-11-25"),
                                          ("legacy-dies-of-discover", "2025-11-25")])
def test_the_era_is_found_out(how: str, version: str) -> None:
    done = mcp("info", "--json", "--", *HOSTILE, how)
    assert done.returncode == 0 and json.loads(done.out)["protocol"] == version, done.err


def test_a_server_that_does_not_answer_the_question_is_legacy() -> None:
    """The question has the time that opening has; then the handshake is tried."""
    done = patiently(lambda seconds: mcp("info", "--json", "--timeout", seconds, "--", *HOSTILE, "legacy-silent").out)
    assert json.loads(done)["era"] == "legacy"


def test_a_tool_is_called() -> None:
    done = call("good")
    assert (done.returncode, done.out) == (0, '{"text": "hi"}\n'), done.err
    done = mcp("call", "echo", "-a", "text=5", "-a", "n=5", "--json", "--", *HOSTILE, "good")
    assert json.loads(json.loads(done.out)["content"][0]["text"]) == {"text": "5", "n": 5}
    done = mcp("call", "echo", "-a", "n=five", "--", *HOSTILE, "good")
    assert done.returncode == 2 and "integer" in done.err
    done = mcp("call", "ehco", "--", *HOSTILE, "good")
    assert done.returncode == 1 and "did you mean 'echo'?" in done.err


def test_used_wrongly() -> None:
    for words in (["tools"], ["tools", "server"], ["tools", "--url", "http://127.0.0.1:1/", "--", "true"],
                  ["call", "--", "true"],
                  ["tools", "--protocol", "none", "--", "true"], ["tools", "--timeout", "0", "--", "true"],
                  ["call", "t", "[1]", "--", "true"], ["tools", "--url", "http://a:b@127.0.0.1/"],
                  ["tools", "--url", "ftp://127.0.0.1/"], ["tools", "--url", "http://127.0.0.1/#x"],
                  ["tools", "--token-file", "x", "--", "true"],
                  ["tools", "--set-env", "A=1", "--url", "http://127.0.0.1:1/"]):
        done = mcp(*words)
        assert done.returncode == 2 and done.err.count("\n") <= 2, (words, done.err)
    done = mcp("tools", "--", "/nonexistent/server")
    assert done.returncode == 1 and "no program" in done.err


def test_our_own_server() -> None:
    """Both eras, a real sandbox, and files of a session as resources."""
    box = lib.Sandbox("root" if os.geteuid() == 0 else "user")
    try:
        box.start()
        serve = ["--", os.path.join(box.bin, "snipara-sandbox"), "mcp-serve", "--no-project"]
        keep = [word for name in box.env if name.startswith("SNIPARA_SANDBOX_") for word in ("--pass-env", name)]
        for era in ("modern", "legacy"):
            done = mcp("call", "execute_python", "-a", "code=open('a', 'w').write('x' * 3)", "-a", "session_id=peer",
                       "--protocol", era, *keep, *serve, env=box.env)
            assert (done.returncode, done.out.splitlines()[0]) == (0, "3"), done.err
        done = mcp("call", "execute_python", '{"code": "1/0"}', *keep, *serve, env=box.env)
        assert done.returncode == 1 and "ZeroDivisionError" in done.out
        done = mcp("read", "snipara://session/peer/files/a", *keep, *serve, env=box.env)
        assert done.out == "xxx", done.err
        done = mcp("prompt", "repair", "-a", "command=make", *keep, *serve, env=box.env)
        assert done.returncode == 0 and "make" in done.out, done.err
    finally:
        box.close()


def test_our_own_server_over_http() -> None:
    """With the token its first start made; without it the answer says what is missing."""
    box = lib.Sandbox("root" if os.geteuid() == 0 else "user")
    try:
        with mcp_http.Server(box, "--no-project") as server:
            where = ["--url", server.url, "--token-file", os.path.join(box.state, "mcp-token")]
            for era in ("modern", "legacy"):
                done = mcp("call", "execute_python", "-a", "code=6 * 7", "--protocol", era, *where)
                assert (done.returncode, done.out.splitlines()[0]) == (0, "42"), done.err
            refused = mcp("tools", "--url", server.url)
            assert refused.returncode == 1 and "token is missing or wrong" in refused.err
    finally:
        box.close()


# Processes ------------------------------------------------------------------------------------


def test_a_server_gets_few_variables_and_no_descriptors() -> None:
    secret = {"AWS_SECRET_ACCESS_KEY": "1", "LD_PRELOAD": "", "PYTHONPATH": "", "GIVEN": "2"}
    done = call("env", "--pass-env", "GIVEN", "--set-env", "PATH=/usr/bin", env={**secret, "HOME": "/root"})
    given = json.loads(done.out)
    assert given.pop("GIVEN") == "2" and given.pop("PATH") == "/usr/bin" and given.pop("HOME") == "/root"
    given.pop("LC_CTYPE", None)  # the interpreter's own
    assert set(given) == {"LANG"}
    control = subprocess.run([*HOSTILE, "env"], input=b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}\n',
                             capture_output=True, env={**secret, "PATH": "/usr/bin"}, check=True)
    assert b"AWS_SECRET" in control.stdout
    assert call("fds").out.split() == ["0", "1", "2", "3"]  # 3: the folder that is read


def test_its_process_group_ends_with_it() -> None:
    done = call("child")
    server, child = map(int, done.out.split())
    assert lib.wait_for(lambda: not lib.is_alive(server) and not lib.is_alive(child))


def test_a_stubborn_server_is_killed() -> None:
    """It reads the end of its input and SIGTERM, and stays."""
    process = subprocess.Popen([PROGRAM, "mcp", "call", "echo", "{}", "--", *HOSTILE, "stubborn"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env={"PATH": "/usr/bin"})
    assert lib.some(process.stdout).readline() == "{}\n"
    children = lib.descendants(process.pid)
    assert children and process.wait(lib.PATIENCE) == 0
    lib.some(process.stdout).close()
    assert lib.wait_for(lambda: not any(lib.is_alive(pid) for pid in children))


def test_an_interrupt_ends_both() -> None:
    process = subprocess.Popen([PROGRAM, "mcp", "call", "echo", "{}", "--", *HOSTILE, "never-call"], text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={"PATH": "/usr/bin", **san()})
    assert lib.wait_for(lambda: lib.descendants(process.pid))
    children = lib.descendants(process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=lib.PATIENCE)
    assert process.returncode == 130 and "interrupted" in errors
    assert lib.wait_for(lambda: not any(lib.is_alive(pid) for pid in children))


def test_a_server_that_dies_says_why() -> None:
    done = mcp("tools", "--protocol", "legacy", "--", *HOSTILE, "dies-at-start")
    assert done.returncode == 1 and "status 3" in done.err and "cannot find my configuration" in done.err
    assert "\x1b" not in done.err


# Hostile words ---------------------------------------------------------------------------------


def is_clean(text: str) -> bool:
    return not any(c in text for c in "\x1b\x07\u202e")


def test_hostile_words_are_cleaned() -> None:
    """A control run shows that they would be obeyed: `--json` in a pipe has them as they were sent."""
    for words in (["info"], ["tools"]):
        done = mcp(*words, "--", *HOSTILE, "ansi")
        assert done.returncode == 0 and is_clean(done.out + done.err), done.out + done.err
    assert "Skipped tool" in done.err  # the name is no name
    failed = mcp("prompts", "--", *HOSTILE, "ansi")
    assert failed.returncode == 1 and "no such method" in failed.err and is_clean(failed.err)
    assert not is_clean(json.loads(mcp("tools", "--json", "--", *HOSTILE, "ansi").out)["tools"][0]["description"])


def test_results_are_shown_on_a_terminal_not_obeyed() -> None:
    import pty
    leader, follower = pty.openpty()
    process = subprocess.Popen([PROGRAM, "mcp", "call", "echo", "--", *HOSTILE, "ansi"], stdin=subprocess.DEVNULL,
                               stdout=follower, stderr=follower, env={"PATH": "/usr/bin", "TERM": "xterm"})
    os.close(follower)
    shown = b""
    try:
        while part := os.read(leader, 4096):
            shown += part
    except OSError:
        pass
    os.close(leader)
    assert process.wait(lib.PATIENCE) == 0
    assert b"\\x1b]0;owned" in shown and b"\x1b" not in shown


def test_unfit_tools_are_left_out() -> None:
    done = mcp("tools", "--json", "--", *HOSTILE, "bad-tools")
    listed = json.loads(done.out)
    assert [tool["name"] for tool in listed["tools"]] == ["echo"]
    assert len(listed["left_out"]) == 6


def test_changed_tools_are_told(tmp_path: Path) -> None:
    """What was agreed to is pinned; another definition of the same tool is neither listed in silence nor called."""
    pins = str(tmp_path / "pins")
    assert mcp("call", "echo", "--pins", pins, "--", *HOSTILE, "good").returncode == 1  # nothing is pinned yet
    assert mcp("tools", "--pins", pins, "--", *HOSTILE, "good").returncode == 0
    assert mcp("tools", "--pins", pins, "--", *HOSTILE, "good").returncode == 0
    assert call("good", "--pins", pins).returncode == 0
    done = mcp("tools", "--pins", pins, "--json", "--", *HOSTILE, "changed")
    assert done.returncode == 1 and json.loads(done.out)["pins"] == {"changed": ["echo"], "new": ["extra"], "gone": []}
    refused = call("changed", "--pins", pins)
    assert refused.returncode == 1 and "changed since its fingerprint" in refused.err
    assert call("changed").returncode == 0  # without pins nothing is noticed


# Hostile deeds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how, says", [
    ("never", "did not answer"), ("never-call", "did not answer"), ("flood", "no answer"), ("garbage", "not MCP"),
    ("huge-line", "too long"), ("bomb", "did not answer"), ("deep", "did not answer"),
    ("wrong-id", "did not answer"),
    ("endless", "does not end"), ("input-forever", "asked for input 8 times"), ("input-undeclared", "does not allow"),
    ("alien-type", "unknown resultType"), ("future", "no common protocol version"),
    ("legacy-alien", "does not support"),
])
def test_a_hostile_process(how: str, says: str) -> None:
    limits = ["--timeout", "0.7"] if says == "did not answer" else []
    done = call(how, *limits)
    assert done.returncode == 1 and says in done.err and "WRONG" not in done.out, (done.out, done.err)


def test_the_first_answer_counts() -> None:
    done = call("twice")
    assert (done.returncode, done.out) == (0, '{"text": "hi"}\n'), done.err


def test_progress_only_rises() -> None:
    done = call("progress", "--verbose")
    told = [line for line in done.err.splitlines() if line.startswith("progress")]
    assert [line[:len("progress: 1 of 3 at red")] for line in told] == [f"progress: {at} of 3 at red"
                                                                        for at in (1, 2, 3)]
    assert is_clean(done.err)


def test_a_timeout_is_told_to_the_server(tmp_path: Path) -> None:
    record = tmp_path / "record"

    def attempt(seconds: str) -> bool:
        record.write_text("")
        assert mcp("call", "echo", "--timeout", seconds, "--set-env", f"RECORD={record}", "--", *HOSTILE,
                   "never-record").returncode == 1
        return "tools/call" in record.read_text()

    patiently(attempt)
    last = [json.loads(line) for line in record.read_text().splitlines()]
    asked = next(one for one in last if one["method"] == "tools/call")
    assert last[-1]["method"] == "notifications/cancelled" and last[-1]["params"]["requestId"] == asked["id"]


# HTTP ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["good", "stream", "legacy-http", "legacy-session"])
def test_http(tmp_path: Path, how: str) -> None:
    with Http(how, tmp_path) as server:
        done = server.call()
        assert (done.returncode, done.out) == (0, '{"text": "hi"}\n'), done.err
        asked = [one["body"]["method"] for one in server.requests() if one["body"]]
        assert asked[0] == "server/discover" and ("initialize" in asked) == how.startswith("legacy")
        if how == "legacy-session":
            assert asked.count("initialize") == 2 and asked.count("tools/call") == 2
            # The session is ended; a client in a hurry does not wait until that is heard.
            last = lib.wait_for(lambda: [one for one in server.requests() if one["method"] == "DELETE"])
            assert [one["headers"]["Mcp-Session-Id"] for one in last] == ["session-2"]


def test_secrets_go_to_the_server_only(tmp_path: Path) -> None:
    """Token and headers reach the URL that was given; neither a redirect's target nor a proxy sees anything."""
    token, headers = tmp_path / "token", tmp_path / "headers"
    token.write_text(TOKEN + "\n")
    headers.write_text("X-API-Key: k-1\n\nX-Empty:\n")
    secrets = ["--token-file", str(token), "--header-file", str(headers)]
    with Http("good", tmp_path) as thief:
        with Http("redirect", tmp_path, TARGET=thief.url) as server:
            done = server.call(*secrets)
            assert done.returncode == 1 and "redirects" in done.err and thief.url in done.err
            assert server.requests()[0]["headers"]["Authorization"] == f"Bearer {TOKEN}"
            assert server.requests()[0]["headers"]["X-API-Key"] == "k-1"
            assert server.requests()[0]["headers"]["X-Empty"] == ""
            assert TOKEN not in done.out + done.err
        assert thief.requests() == []
        with Http("good", tmp_path) as server:
            proxied = {"http_proxy": thief.url, "HTTP_PROXY": thief.url, "ALL_PROXY": thief.url}
            assert server.call(*secrets, env=proxied).returncode == 0
        assert thief.requests() == []
        assert thief.call("--protocol", "modern", env={"SNIPARA_SANDBOX_MCP_TOKEN": TOKEN}).returncode == 0
        assert thief.requests()[0]["headers"]["Authorization"] == f"Bearer {TOKEN}"  # it would have seen it
    done = mcp("tools", "--url", "http://192.0.2.1/mcp", *secrets)
    assert done.returncode == 2 and "use https" in done.err
    token.write_text("two words")
    assert mcp("tools", "--url", "http://127.0.0.1:1/", *secrets).returncode == 2


def test_certificates_are_checked(tmp_path: Path) -> None:
    cert = tmp_path / "cert.pem"
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                           "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                           "-keyout", str(cert), "-out", str(tmp_path / "only")], capture_output=True, check=False) \
        if os.path.exists("/usr/bin/openssl") else None
    lib.need("openssl", made is not None and made.returncode == 0, "no certificate can be made")
    with open(cert, "a") as out:
        out.write((tmp_path / "only").read_text())
    with Http("good", tmp_path, CERT=str(cert)) as server:
        refused = server.call()
        assert refused.returncode == 1 and "certificate" in refused.err.lower() and server.requests() == []
        assert server.call("--ca-file", str(tmp_path / "only")).returncode == 0


@pytest.mark.parametrize("how, says", [
    ("unauthorized", "token is missing or wrong"), ("broken", "HTTP 500"), ("html", "does not answer"),
    ("other-id", "before its answer"),
    ("cut", "before its answer"), ("slow", "did not answer"), ("event-flood", "no answer"), ("endless-event", ""),
    ("endless-comment", ""), ("endless-header", ""), ("endless-body", "larger than"),
])
def test_a_hostile_url(tmp_path: Path, how: str, says: str) -> None:
    with Http(how, tmp_path) as server:
        done = server.call("--timeout", {"slow": "1", "endless-comment": "2"}.get(how, "600"))
        assert done.returncode == 1 and says in done.err and is_clean(done.err), (done.out, done.err)
