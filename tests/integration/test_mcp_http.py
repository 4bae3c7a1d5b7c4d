# SPDX-License-Identifier: Apache-2.0
"""mcp-serve --http: who is let in, what is refused, streams, sessions, the end. Attacks have a control: the
same request without the fault goes through."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import lib
import mcp
import mcp_http

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
FIXTURE = os.path.join(lib.BUILD, "mcp-fixture")
LIST: lib.Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
PING: lib.Json = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def box() -> Iterator[lib.Sandbox]:
    made = lib.Sandbox("root" if os.geteuid() == 0 else "user")
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(box: lib.Sandbox) -> Iterator[mcp_http.Server]:
    with mcp_http.Server(box) as made:
        yield made


@pytest.fixture
def fixture() -> Iterator[mcp_http.Server]:
    """Our transport with tools that need no daemon, and no token."""
    with mcp_http.Server(None, command=[FIXTURE, "0"]) as made:
        yield made


# Who is let in ------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", ["native", "local"])
def test_token_is_kept_secret(tier: str) -> None:
    """Items 4 and 21: a file that only its owner reads; not in argv, logs, or the sandbox."""
    box = lib.Sandbox("root" if os.geteuid() == 0 else "user", tier=tier)
    try:
        with mcp_http.Server(box) as server:
            look_for_token(box, server)
    finally:
        box.close()


def look_for_token(box: lib.Sandbox, server: mcp_http.Server) -> None:
    path = os.path.join(box.env["SNIPARA_SANDBOX_STATE_DIR"], "mcp-token")
    status = os.stat(path)
    assert stat.S_IMODE(status.st_mode) == 0o600 and len(server.token) == 64
    with open(f"/proc/{server.process.pid}/cmdline") as file:
        assert server.token not in file.read()
    client = server.client()
    # from inside: neither the file, nor the environment, nor the server itself
    code = f"""
import os, socket
seen = []
for path in {path!r}, "/proc/1/environ", "/proc/{server.process.pid}/environ":
    try:
        seen.append(open(path).read())
    except OSError as problem:
        seen.append(type(problem).__name__)
seen.append(str(dict(os.environ)))
try:
    socket.create_connection(("127.0.0.1", {server.port}), 2)
    seen.append("reached the server")
except OSError as problem:
    seen.append("no way")
print(seen)
"""
    inside = client.text("execute_python", code=code)
    assert server.token not in inside and "no way" in inside and "reached" not in inside, inside
    with open(path) as file:  # the control
        assert file.read().strip() == server.token
    assert server.token not in box.log()
    with mcp_http.Server(box) as again:
        assert again.token == server.token
        assert again.ask(PING).status == 200
    assert server.token not in again.errors and path in again.errors


def test_token_others_could_read_is_refused(box: lib.Sandbox) -> None:
    path = os.path.join(box.make_folder("tokens"), "token")
    box.make_file(path, "x" * 40, 0o644)
    with pytest.raises(AssertionError, match="only you can read"):
        mcp_http.Server(box, "--token-file", path)
    os.chmod(path, 0o600)
    with mcp_http.Server(box, "--token-file", path) as made:
        assert made.token == "x" * 40 and made.ask(PING).status == 200


@pytest.mark.parametrize("given", [
    None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic {token}", "{token}", "Bearer {token}x", "Bearer {start}",
    "Bearer {upper}", "Bearer {token}, Bearer {token}"])
def test_token_is_wanted(server: mcp_http.Server, given: str | None) -> None:
    token = server.token
    text = given and given.format(token=token, start=token[:-1], upper=token.upper() + "Z")
    refused = server.ask(LIST, headers=server.headers(Authorization=text))
    assert refused.status == 401 and refused.headers["www-authenticate"].startswith("Bearer")
    assert b"execute_python" not in refused.body and token.encode() not in refused.body
    assert b"execute_python" in server.ask(LIST).body


def test_token_in_the_query_counts_nothing(server: mcp_http.Server) -> None:
    path = f"/mcp?token={server.token}&access_token={server.token}"
    assert server.ask(LIST, path=path, headers=server.headers("Authorization")).status == 401
    assert server.ask(LIST, path=path).status == 200


def test_token_compare_takes_as_long_for_all() -> None:
    """It is the library's comparison, which does not stop at the first difference."""
    symbols = subprocess.run(["nm", "-D", "--undefined-only", os.path.join(lib.BUILD, "mcp-http")],
                             stdout=subprocess.PIPE, text=True).stdout
    assert "CRYPTO_memcmp" in symbols


HOSTS = [("127.0.0.1", 200), ("localhost", 200), ("LocalHost:1", 200), ("[::1]", 200), ("[::1]:99", 200),
         ("evil.example.com", 403), ("127.0.0.1.evil.example.com", 403), ("localhost.evil.example.com:80", 403),
         ("localhost:80:80", 403), ("localhost:", 403), ("localhost:x", 403), ("", 403), ("[::1", 403),
         ("127.0.0.2", 403), ("0.0.0.0", 403), ("localhost@evil.example.com", 403)]


@pytest.mark.parametrize("host, status", HOSTS)
def test_host_is_checked(server: mcp_http.Server, host: str, status: int) -> None:
    """Item 2: a name that a stranger's DNS points here does not get in, not even with the token."""
    assert server.ask(LIST, headers=server.headers(Host=host)).status == status


ORIGINS = [("http://localhost:3000", 200), ("https://127.0.0.1", 200), ("http://[::1]:8", 200),
           ("http://evil.example.com", 403), ("null", 403), ("", 403), ("localhost", 403), ("file://", 403),
           ("http://localhost.evil.example.com", 403), ("http://localhost:3000/path", 403),
           ("http://localhost@evil.example.com", 403), ("ftp://localhost", 403)]


@pytest.mark.parametrize("origin, status", ORIGINS)
@pytest.mark.parametrize("method", ["POST", "OPTIONS", "GET"])
def test_origin_is_checked(server: mcp_http.Server, method: str, origin: str, status: int) -> None:
    """Item 1, and item 5: no header that lets a page read what comes back."""
    answer = server.ask(LIST if method == "POST" else None, method=method, headers=server.headers(Origin=origin))
    assert answer.status == (status if method == "POST" or status == 403 else 405)
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_further_hosts_are_named(box: lib.Sandbox) -> None:
    with mcp_http.Server(box, "--allow-host", "Sandbox.example.com", "--allow-host", "other") as made:
        for name in "sandbox.example.com", "SANDBOX.example.com:443", "other", "localhost":
            assert made.ask(PING, headers=made.headers(Host=name, Origin=f"https://{name}")).status == 200
        assert made.ask(PING, headers=made.headers(Host="example.com")).status == 403


def listening(pid: int) -> set[str]:
    """Addresses a process listens on, as /proc/net has them."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        found = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}"))
        inodes.add(found and found.group(1))
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}


def test_only_this_machine_reaches_it(box: lib.Sandbox, server: mcp_http.Server) -> None:
    """Item 3. The control listens where others reach it, because it was told so twice."""
    assert listening(server.process.pid) == {"0100007F"}
    for options in (), ("--no-token", "--allow-remote"):
        with pytest.raises(AssertionError, match="allow-remote|needs a token"):
            mcp_http.Server(box, *options, address="0.0.0.0:0")
    with mcp_http.Server(box, "--allow-remote", address="0.0.0.0:0") as made:
        assert listening(made.process.pid) == {"00000000"}
        assert made.ask(PING).status == 200
        assert made.ask(PING, headers=made.headers("Authorization")).status == 401


def test_unix_socket(box: lib.Sandbox) -> None:
    """Item 10: mode 0600, from the first moment; what is left of a dead server is in nobody's way."""
    path = os.path.join(box.make_folder("sockets", 0o755), "mcp.sock")
    for _ in range(2):
        with mcp_http.Server(box, "--no-token", address=f"unix:{path}") as made:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert made.ask(PING, headers=made.headers(Host="localhost")).status == 200
            if os.geteuid() == 0:
                knock = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
                other = subprocess.run(["setpriv", "--reuid=4321", "--clear-groups", sys.executable, "-c", knock, path],
                                       stderr=subprocess.PIPE, text=True)
                assert "PermissionError" in other.stderr
                assert subprocess.run([sys.executable, "-c", knock, path]).returncode == 0
            with pytest.raises(AssertionError, match="already in use"):
                mcp_http.Server(box, "--no-token", address=f"unix:{path}")
            made.process.kill()
            made.process.wait()
    with mcp_http.Server(box, "--no-token", address=f"unix:{path}") as made:
        assert made.close() == 0 and not os.path.exists(path)


@pytest.mark.parametrize("option", ["--no-token", "--allow-remote", "--token-file=x", "--allow-host=x"])
def test_options_of_http_want_http(box: lib.Sandbox, option: str) -> None:
    done = box.cli("mcp-serve", option, input="")
    assert done.returncode == 2 and "--http" in done.stderr


@pytest.mark.parametrize("address", ["", "x", "70000", "example.com:80", "1.2.3:80", "[::1", "::1:80", "unix:relative",
                                     "unix:/" + "x" * 200])
def test_bad_addresses(box: lib.Sandbox, address: str) -> None:
    done = box.cli("mcp-serve", f"--http={address}", input="")
    assert done.returncode in (1, 2) and "--http" in done.stderr


# What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("changed, status", [
    ({"method": "GET"}, 405), ({"method": "PUT"}, 405), ({"method": "OPTIONS"}, 405), ({"method": "HEAD"}, 405),
    ({"method": "DELETE"}, 400), ({"path": "/"}, 404), ({"path": "/mcp/"}, 404), ({"path": "/sse"}, 404),
    ({"path": "/.well-known/oauth-protected-resource"}, 404), ({"path": "/mcp?x=1"}, 200)])
def test_methods_and_paths(server: mcp_http.Server, changed: dict[str, Any], status: int) -> None:
    answer = server.send(LIST, **changed).head()
    assert answer.status == status
    assert status != 405 or "POST" in answer.headers["allow"]


@pytest.mark.parametrize("given, status", [
    ("text/plain", 415), ("application/x-www-form-urlencoded", 415), ("multipart/form-data; boundary=x", 415),
    (None, 415), ("application/jsonx", 415), ("application/json; charset=utf-8", 200), ("Application/JSON", 200)])
def test_content_types(server: mcp_http.Server, given: str | None, status: int) -> None:
    """Item 6: what a page can send without asking first is not taken."""
    assert server.ask(LIST, headers=server.headers(Content_Type=given)).status == status


@pytest.mark.parametrize("given, status", [
    (None, 406), ("text/html", 406), ("application/json", 406), ("text/event-stream", 406),
    ("application/json, text/event-stream;q=0", 406), ("*/*", 200), ("text/*,application/*", 200),
    ("application/json;q=0.9, text/event-stream;q=0.1", 200), ("text/event-stream , application/json", 200)])
def test_accept(server: mcp_http.Server, given: str | None, status: int) -> None:
    assert server.ask(LIST, headers=server.headers(Accept=given)).status == status


@pytest.mark.parametrize("given, type_", [
    ("application/json", "application/json"), ("text/event-stream", "text/event-stream")])
def test_modern_takes_one_type(server: mcp_http.Server, given: str, type_: str) -> None:
    answer = server.ask(**server.modern("tools/list", Accept=given))
    assert answer.status == 200 and answer.headers["content-type"] == type_


@pytest.mark.parametrize("version, status", [
    (None, 200), ("2025-11-25", 200), ("2025-06-18", 200), ("2025-03-26", 200), ("1999-01-01", 400), ("x", 400),
    ("2025-11-25x", 400), ("", 400), ("2026-07-28", 400), ("2099-01-01", 400)])
def test_legacy_version_header(server: mcp_http.Server, version: str | None, status: int) -> None:
    assert server.ask(LIST, headers=server.headers(MCP_Protocol_Version=version)).status == status


MODERN = [
    ({}, 200, None), ({"Mcp_Method": None}, 400, -32020), ({"Mcp_Method": "tools/list"}, 400, -32020),
    ({"Mcp_Method": "TOOLS/CALL"}, 400, -32020), ({"Mcp_Name": None}, 400, -32020),
    ({"Mcp_Name": "other"}, 400, -32020),
    ({"Mcp_Name": "=?base64?bGlzdF9zZXNzaW9ucw==?="}, 200, None),
    ({"Mcp_Name": "=?base64?bGlzdF9zZXNzaW9ucw?="}, 400, -32020),
    ({"Mcp_Name": "=?base64?b3RoZXI=?="}, 400, -32020), ({"Mcp_Name": "=?BASE64?bGlzdF9zZXNzaW9ucw==?="}, 400, -32020),
    ({"Mcp_Name": "list_sessions\xe9"}, 400, -32020), ({"Mcp_Name": "  list_sessions  "}, 200, None),
    ({"MCP_Protocol_Version": None}, 400, -32020), ({"MCP_Protocol_Version": "2025-11-25"}, 400, -32020),
    ({"MCP_Protocol_Version": "2026-07-28 "}, 200, None), ({"Mcp_Session_Id": "nobody's"}, 200, None),
    ({"Last_Event_ID": "1"}, 200, None)]


@pytest.mark.parametrize("changed, status, code", MODERN)
def test_modern_headers_repeat_the_message(server: mcp_http.Server, changed: lib.Json, status: int,
                                           code: int | None) -> None:
    """Item 9."""
    answer = server.ask(**server.modern("tools/call", {"name": "list_sessions", "arguments": {}}, **changed))
    assert (answer.status, answer.json().get("error", {}).get("code")) == (status, code)
    assert answer.json()["id"] == 1 and "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("method, params", [("resources/read", {"uri": "snipara://session/none/files/x"}),
                                            ("prompts/get", {"name": "none"})])
def test_modern_headers_repeat_what_is_read(server: mcp_http.Server, method: str, params: lib.Json) -> None:
    for name in ("other", None):
        answer = server.ask(**server.modern(method, params, Mcp_Name=name))
        assert answer.status == 400 and answer.json()["error"]["code"] == -32020
    assert server.ask(**server.modern(method, params)).messages()[-1]["error"]["code"] != -32020


@pytest.mark.parametrize("name", ["legacy", "modern"])
def test_golden_transcript_over_http(box: lib.Sandbox, name: str) -> None:
    """The conversations of stdio: message by message the same answers."""
    with mcp_http.Server(box, "--no-project") as server:
        client = server.client()
        client.text("destroy_session", session_id="golden")
        with open(os.path.join(GOLDEN, f"mcp-{name}.txt")) as text:
            lines = [line.rstrip("\n") for line in text if line[0] in "<>"]
        wanted = [json.loads(line[2:]) for line in lines if line[0] == "<"]
        for line in (line[2:] for line in lines if line[0] == ">"):
            sent = json.loads(line)
            params = sent.get("params", {})
            headers = client.headers() if name == "legacy" else server.headers(
                MCP_Protocol_Version="2026-07-28", Mcp_Method=sent["method"],
                Mcp_Name=params.get("name", params.get("uri")))
            answer = server.ask(line.encode(), headers=headers)
            if "id" not in sent:
                assert (answer.status, answer.body) == (202, b"")
            elif "_meta" in params or name == "legacy":
                got = json.dumps(answer.messages()[-1])
                assert json.loads(re.sub(r'"duration_ms": \d+', '"duration_ms": 0', got)) == wanted.pop(0)
            else:
                wanted.pop(0)  # what is missing is told sooner, by its header
        assert not wanted


def test_golden_exchange(server: mcp_http.Server) -> None:
    """Lines "> METHOD {headers} body" and "< status {headers} body"."""
    with open(os.path.join(GOLDEN, "mcp-http.txt")) as text:
        lines = [line.rstrip("\n") for line in text if line[0] in "<>"]
    for sent, wanted in zip(lines[::2], lines[1::2]):
        _, method, headers, body = sent.split(" ", 3)
        answer = server.ask(body.encode() if method == "POST" else None, method=method,
                            headers=server.headers(**{name: value or None for name,
                                                      value in json.loads(headers).items()}))
        for name in "date", "content-length", "cache-control", "x-content-type-options":
            answer.headers.pop(name, None)
        if answer.headers.get("content-type") == "text/event-stream":
            answer.body = re.sub(rb"id: [0-9a-f]{32}-", b"id: STREAM-", answer.body).replace(b"\n", b"\\n")
        got = f"< {answer.status} {json.dumps(answer.headers, separators=(',', ':'))} {answer.body.decode()}"
        assert got == wanted, sent


# Limits -------------------------------------------------------------------------------------


def good(server: mcp_http.Server, more: str = "",
         body: bytes = b'{"jsonrpc":"2.0","id":1,"method":"ping"}') -> tuple[bytes, bytes]:
    head = "".join(f"{name}: {value}\r\n" for name, value in server.headers().items())
    return f"POST /mcp HTTP/1.1\r\n{head}{more}".encode(), body


SMUGGLED = [
    ("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", b"28\r\n%s\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n", b"28\r\n%s\r\n0\r\n\r\n"),
    ("Content-Length: %d\r\nContent-Length: 3\r\n", b"%s"),
    ("Content-Length: 3\r\nContent-Length: %d\r\n", b"%s"),
    ("Content-Length: +%d\r\n", b"%s"),
    ("Content-Length: 0x28\r\n", b"%s"),
    ("Content-Length: %d, %d\r\n", b"%s"),
    ("Transfer-Encoding: xchunked\r\n", b"28\r\n%s\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"28\r\n%s\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", b"zz\r\n%s\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", b"-28\r\n%s\r\n0\r\n\r\n"),
    ("Host: evil.example.com\r\nContent-Length: %d\r\n", b"%s"),
    ("Transfer-Encoding: chunked\r\n", b"28\r\n%s\r\n0\r\nX : y\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", b"28\r\n%s\r\n0\r\nContent-Length: 3\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", b"28\r\n%s\r\n0\r\nX: y\n\n"),
]
# How servers tell where a chunk ends, or the last one, differs in these.
ODD_CHUNKS = [b"28\n%s\r\n0\r\n\r\n", b"28\r\n%s\n0\r\n\r\n", b"28\r\n%s\r\n0\n\r\n", b"28\r\n%s\r\n0\r\n\n",
              b"28;a\n%s\r\n0\r\n\r\n", b"28 \r\n%s\r\n0\r\n\r\n", b"0x28\r\n%s\r\n0\r\n\r\n"]


@pytest.mark.parametrize("more, form", SMUGGLED)
def test_no_smuggling(fixture: mcp_http.Server, more: str, form: bytes) -> None:
    """Item 8: two lengths, and the second request that one of them hides, are never both believed."""
    head, body = good(fixture, more.replace("%d", str(40)))
    hidden, _ = good(fixture, "Content-Length: 40\r\n\r\n")
    sock = fixture.connect()
    sock.sendall(head + b"\r\n" + form.replace(b"%s", body) + hidden + body)
    data = b""
    while part := sock.recv(1 << 16):
        data += part
    sock.close()
    assert set(re.findall(rb"HTTP/1\.[01] (\d+)", data)) <= {b"400"}, data


# Lines of a good head, changed; servers differ in what they take them for. {h}: the other headers.
ODD = [
    "POST /mcp HTTP/1.1\r\n{h}Content-Length : 40\r\n\r\n",
    "POST /mcp HTTP/1.1\r\n{h}Transfer-Encoding\t: chunked\r\n\r\n",
    "POST /mcp HTTP/1.1\r\n{h}: x\r\nContent-Length: 40\r\n\r\n", "POST /mcp HTTP/1.1\r\n{h}Content-Length: 40\n\r\n",
    "POST /mcp HTTP/1.1\n{h}Content-Length: 40\r\n\r\n", "POST /mcp HTTP/1.1\r\n{h}Content-Length: 40\r\n\n",
    "POST /mcp HTTP/1.1\r\n{h}X: y\rContent-Length: 40\r\n\r\n",
    "POST /mcp HTTP/1.1\r\n{h}X: y\r\n z\r\nContent-Length: 40\r\n\r\n",
    "POST /mcp HTTP/1.1\r\n{h}Content-Length: 40\r\nX: y\r\n\tz\r\n\r\n",
    "POST /mcp HTTP/1.1\r\n Content-Length: 3\r\n{h}Content-Length: 40\r\n\r\n",
    "POST /mcp HTTP/1.1\r\n{h}Transfer-Encoding:\r\n chunked\r\nContent-Length: 40\r\n\r\n",
    "POST /mcp HTTP/1.1\r\n{h}X: a\0b\r\nContent-Length: 40\r\n\r\n",
    "POST /mcp HTTP/1.1\r\n{h}X: a\0\r\nContent-Length: 40\r\n\r\n",
    "POST /mcp HTTP/1.1\r\n{h}X: a\0\0Content-Length: 3\r\nContent-Length: 40\r\n\r\n",
    "POST /mcp HTTP/1.1\r\n{h}X\0: a\r\nContent-Length: 40\r\n\r\n",
    "POST /mcp HTTP/1.1\r\n{h}Content-Length: 40\0\r\n\r\n",
    "POST /mcp HTTP/1.0\r\n{h}Transfer-Encoding: chunked\r\n\r\n",
    "POST /mcp\0x HTTP/1.1\r\n{h}Content-Length: 40\r\n\r\n", "POST\0 /mcp HTTP/1.1\r\n{h}Content-Length: 40\r\n\r\n",
    "POST  /mcp HTTP/1.1\r\n{h}Content-Length: 40\r\n\r\n",
    "POST /mcp HTTP/1.1\r\n{h}X: a\x01b\r\nContent-Length: 40\r\n\r\n",
]
PLAIN = [
    "\r\nPOST /m%63p?a=b%20c&d HTTP/1.1\r\n{h}X:\r\nY: \t\r\nZ:\tz \t\r\nCONTENT-length:40\r\n\r\n",
    "POST /mcp HTTP/1.0\r\n{h}X: \xe9:\r\nContent-Length: 40\r\n\r\n",
]


@pytest.mark.parametrize("form", ODD + PLAIN)
def test_heads_that_are_read_differently_are_refused(fixture: mcp_http.Server, form: str) -> None:
    """Attack: a blank before the colon, a lone LF or CR, a folded line, NUL. Control: what looks odd and is none of
    it."""
    head, body = good(fixture)
    others = head.split(b"\r\n", 1)[1].decode()
    sent = form.replace("{h}", others).encode("latin-1") + body
    if form in PLAIN:
        assert fixture.raw(sent).status == 200
        return
    hidden, _ = good(fixture, "Content-Length: 40\r\n\r\n")
    for more in (b"", hidden + body):  # what follows is not believed either, wherever the body ends
        for rest in (sent + more, sent[:-len(body)] + more):
            with fixture.connect() as sock:
                sock.sendall(rest)
                sock.shutdown(socket.SHUT_WR)
                data = b""
                while part := sock.recv(1 << 16):
                    data += part
            assert re.findall(rb"HTTP/1\.[01] (\d+)", data) == [b"400"], data


def answers(server: mcp_http.Server, sent: bytes, is_over: bool = True) -> list[Any]:
    """The statuses of all answers."""
    with server.connect() as sock:
        sock.sendall(sent)
        if is_over:
            sock.shutdown(socket.SHUT_WR)
        data = b""
        while part := sock.recv(1 << 16):
            data += part
    return re.findall(rb"HTTP/1\.[01] (\d+)", data)


def test_nothing_behind_chunks_is_believed(fixture: mcp_http.Server) -> None:
    """Attack: lines of chunks that end with a lone LF, a number with blanks. Control: what comes behind a length is."""
    hidden, body = good(fixture, "Content-Length: 40\r\n\r\n")
    head, _ = good(fixture, "Transfer-Encoding: chunked\r\n\r\n")
    for form in ODD_CHUNKS:
        assert answers(fixture, head + form.replace(b"%s", body) + hidden + body) in ([b"200"], [b"400"]), form
    assert answers(fixture, head + b"28\r\n" + body + b"\r\n0\r\n\r\n" + hidden + body) == [b"200"]
    last, _ = good(fixture, "Content-Length: 40\r\nConnection: close\r\n\r\n")
    assert answers(fixture, hidden + body + last + body, is_over=False) == [b"200", b"200"]


@pytest.mark.parametrize("verb, path",
                         [("GET", "/mcp"), ("DELETE", "/mcp"), ("PUT", "/mcp"), ("POST", "/other"), ("GET", "/")])
def test_a_body_that_nobody_wants_is_no_request(fixture: mcp_http.Server, verb: str, path: str) -> None:
    hidden, body = good(fixture, "Content-Length: 40\r\n\r\n")
    head, _ = good(fixture, f"Content-Length: {len(hidden + body)}\r\n\r\n")
    got = answers(fixture, head.replace(b"POST /mcp", f"{verb} {path}".encode(), 1) + hidden + body)
    assert len(got) == 1 and got != [b"200"]


@pytest.mark.parametrize("more, status", [
    ("X-Long: " + "x" * 40000 + "\r\n", 431), ("X: y\r\n" * 10000, 431), ("X-Long: " + "x" * 8000 + "\r\n", 200)])
def test_long_heads(fixture: mcp_http.Server, more: str, status: int) -> None:
    """Item 7."""
    head, body = good(fixture, "Content-Length: 40\r\n" + more)
    assert fixture.raw(head + b"\r\n" + body).status == status


def test_long_path(fixture: mcp_http.Server) -> None:
    assert fixture.raw(b"POST /" + b"x" * 40000 + b" HTTP/1.1\r\n\r\n").status == 414


def test_long_bodies(fixture: mcp_http.Server) -> None:
    """Announced, and not announced; the control is as long as can be."""
    most = 24 << 20
    head, _ = good(fixture, f"Content-Length: {most + 1}\r\n")
    assert fixture.raw(head + b"\r\n").status == 413
    chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    head, _ = good(fixture, "Transfer-Encoding: chunked\r\n")
    assert fixture.raw(head + b"\r\n" + chunk * 25 + b"0\r\n\r\n").status == 413
    body = json.dumps(PING).encode()
    assert fixture.ask(body + b" " * (most - len(body))).status == 200


@pytest.mark.parametrize("depth, status", [(28, 200), (40, 400), (100000, 400)])
def test_nested_json(fixture: mcp_http.Server, depth: int, status: int) -> None:
    nested = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * depth + b"]" * depth + b"}}"
    assert fixture.ask(nested).status == status


@pytest.mark.parametrize("sent", [
    "", "POST", "POST /mcp HTTP/1.1\r\nHost: local", "head", "body"], ids=["nothing", "line", "head", "all", "body"])
def test_slow_clients_are_dropped(sent: str) -> None:
    """Item 7: a byte now and then buys no time, whatever it is a byte of. The control is as slow between requests of
    the same length, and is served."""
    with mcp_http.Server(None, command=[FIXTURE, "0", str(int(50 * lib.PATIENCE))]) as made:
        head, body = good(made, "Content-Length: 40\r\n")
        data = {"head": head + b"\r\n", "body": head + b"\r\n" + body[:20]}.get(sent, sent.encode())
        sock = made.connect()
        sock.sendall(data)
        sock.settimeout(0.1)
        for _ in range(int(10 * lib.PATIENCE)):
            try:
                if not sock.recv(100):
                    break
            except socket.timeout:
                pass
            except ConnectionError:
                break
            try:
                sock.sendall(b"x")
            except OSError:
                break
        else:
            raise AssertionError("it is still connected")
        sock = made.connect()
        sock.sendall(head + b"\r\n" + body[:20])
        sock.sendall(body[20:])
        assert mcp_http.Answer(sock).read().status == 200


def test_many_connections(fixture: mcp_http.Server) -> None:
    """Item 7: those that only wait give way, so that one who asks is heard; the server holds a bounded number."""
    socks = []
    try:
        for _ in range(900):
            socks.append(fixture.connect())
            socks[-1].sendall(b"POST /mcp HT")
        answer = fixture.ask(PING)
        assert answer.status == 200
        held = len(os.listdir(f"/proc/{fixture.process.pid}/fd"))
        assert held < 560, held
    finally:
        for sock in socks:
            sock.close()


def test_one_that_does_not_read_harms_nobody(server: mcp_http.Server) -> None:
    """It asks for all it can and takes nothing; others are served, and memory is bounded."""
    client = server.client()
    lazy: list[socket.socket] = []
    for _ in range(50):
        sock = server.connect()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for ident in range(4):  # one behind the other
            client.begin("tools/list", ident=f"{len(lazy)}-{ident}", sock=sock)
        lazy.append(sock)
    assert "execute_python" in str(client.call("tools/list")["result"])
    assert client.text("execute_python", code="6 * 7") == "42"
    for sock in lazy:
        sock.close()


def test_much_output_in_constant_memory(server: mcp_http.Server) -> None:
    client = server.client()
    client.text("execute_python", code="1", session_id="much")

    def most() -> int:
        with open(f"/proc/{server.process.pid}/status") as file:
            return int(lib.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1)) << 10

    before = most()
    answer = client.begin_tool("execute_python", {"progressToken": 1}, session_id="much",
                               code="for i in range(160): print('x' * 65535)")
    last = answer.messages()[-1]
    answer.sock.close()
    assert len(mcp.text_of(last["result"])) <= 10100 and "[full stdout]" in mcp.text_of(last["result"])
    assert most() - before < 24 << 20


# Streams ------------------------------------------------------------------------------------


def begin_until_go(client: mcp_http.Client, token: str | int, session: str) -> mcp_http.Answer:
    return client.begin_tool("execute_python", {"progressToken": token}, code=mcp.UNTIL + "until('go')\n'end'",
                             session_id=session, timeout=600)


def let_go(server: mcp_http.Server, session: str) -> None:
    mcp.let_go(lib.some(server.box), session)


def test_progress(server: mcp_http.Server) -> None:
    """Events of one call, on its own stream, increasing; then the answer, and the end."""
    answer = begin_until_go(server.client(), "mine", "progress")
    coming = answer.events()
    events = [next(coming) for _ in range(4)]
    let_go(server, "progress")
    events += coming
    notes = [event["data"]["params"] for event in events if event["data"] and "params" in event["data"]]
    seen = [note["progress"] for note in notes]
    assert len(seen) >= 2 and seen == sorted(set(seen)) and {note["progressToken"] for note in notes} == {"mine"}
    assert events[-1]["data"]["result"]["content"][0]["text"] == "'end'"
    assert events[0]["data"] == "" and events[0]["retry"].isdigit()  # something to resume after
    ids = [event["id"] for event in events]
    assert len(set(ids)) == len(ids) and len({one.rsplit("-", 1)[0] for one in ids}) == 1


def test_modern_progress(server: mcp_http.Server) -> None:
    answer = server.send(**server.modern("tools/call", {
        "name": "execute_python", "arguments": {"code": mcp.UNTIL + "until('go')\n'end'", "session_id": "modern",
                                                "timeout": 600}, "_meta": {"progressToken": 7}}))
    coming = answer.events()
    events = [next(coming)]
    let_go(server, "modern")
    events += coming
    assert answer.headers["x-accel-buffering"] == "no" and answer.headers["cache-control"] == "no-store"
    assert [event["data"].get("method") for event in events][-2:] == ["notifications/progress", None]
    assert all("id" not in event for event in events)  # nothing is resumed in this version
    assert events[-1]["data"]["result"]["resultType"] == "complete"


def test_long_calls_become_streams(server: mcp_http.Server) -> None:
    """Without progress too: headers come soon, and a client sees that we live."""
    answer = server.client().begin_tool("execute_python", code=mcp.UNTIL + "until('go')", session_id="long",
                                        timeout=600).head()
    let_go(server, "long")
    assert answer.headers["content-type"] == "text/event-stream"
    assert "result" in answer.messages()[-1]
    short = server.client().begin("ping").read()
    assert short.headers["content-type"] == "application/json"


def test_cancellation(server: mcp_http.Server) -> None:
    """Item 14. An explicit one ends the code and the stream, without a word; another client's does not."""
    one, other = server.client(), server.client()
    answer = one.begin("tools/call", {"name": "execute_python", "arguments": {
        "code": "import time; time.sleep(600)", "timeout": 600, "session_id": "cancelled"},
        "_meta": {"progressToken": 1}}, ident=5)
    next(event for event in answer.events() if event["data"])
    assert other.notify("notifications/cancelled", {"requestId": 5}).status == 202
    next(event for event in answer.events() if event["data"])  # it goes on
    assert one.notify("notifications/cancelled", {"requestId": 5}).status == 202
    assert all("result" not in message and "error" not in message for message in answer.messages())
    assert one.text("execute_python", code="'free'", session_id="cancelled") == "'free'"


def test_requests_beyond_the_most_wait(server: mcp_http.Server) -> None:
    """Those of one client; a cancelled one ends, also while it waits, and others are not held up."""
    one, other = server.client(), server.client()
    call = {"name": "execute_python",
            "arguments": {"code": "import time; time.sleep(500)", "timeout": 600, "session_id": "beyond"}}
    slow = one.begin("tools/call", {**call, "_meta": {"progressToken": 1}}, ident="slow")
    next(event for event in slow.events() if event["data"])
    call = {"name": "execute_python", "arguments": {"code": "1", "session_id": "beyond"}, "_meta": {"progressToken": 2}}
    sent = {number: one.begin("tools/call", call, ident=number) for number in range(70)}
    first = {number: next(event["data"] for event in answer.events() if event["data"]) for number,
             answer in sent.items()}
    waiting = [number for number, data in first.items() if data["params"]["message"].startswith("waiting: 64 requests")]
    assert len(waiting) == 7
    assert other.text("execute_python", code="'beside'") == "'beside'"
    for ident in waiting[0], "slow":
        assert one.notify("notifications/cancelled", {"requestId": ident}).status == 202
    for number, answer in sent.items():
        ends = [(message["id"], mcp.text_of(message["result"])) for message in answer.messages() if "id" in message]
        assert ends == ([] if number == waiting[0] else [(number, "1")])
    other.text("destroy_session", session_id="beyond")


def test_clients_do_not_take_each_others_places(server: mcp_http.Server) -> None:
    """24 calls of one client run, and one more waits; another client's runs."""
    one, other = server.client(), server.client()
    sent = [one.begin("tools/call", {"name": "execute_python", "arguments": {
        "code": "import time; time.sleep(500)", "timeout": 600, "session_id": f"place-{number}"},
        "_meta": {"progressToken": number}}, ident=number) for number in range(25)]
    told = [next(event["data"]["params"]["message"] for event in answer.events() if event["data"]) for answer in sent]
    assert [text.startswith("waiting") for text in told].count(True) == 1, told
    assert other.text("execute_python", code="'beside'", session_id="beside") == "'beside'"
    for number in range(25):
        assert one.notify("notifications/cancelled", {"requestId": number}).status == 202
    for number in range(25):
        other.text("destroy_session", session_id=f"place-{number}")


def test_a_modern_client_that_leaves_cancels(server: mcp_http.Server) -> None:
    """Item 13: closing the connection ends the code, before and after the stream began."""
    for has_begun in False, True:
        began = server.send(**server.modern("tools/call", {
            "name": "execute_python", "arguments": {"code": "import time; time.sleep(600)", "timeout": 600,
                                                    "session_id": "left"}}))
        if has_begun:
            began.head()
        began.sock.close()
        done = server.ask(**server.modern("tools/call", {
            "name": "execute_python", "arguments": {"code": "'free'", "session_id": "left"}}))
        assert mcp.text_of(done.messages()[-1]["result"]).startswith("'free'")


def test_a_legacy_client_that_leaves_does_not(server: mcp_http.Server) -> None:
    client = server.client()
    began = client.begin_tool("execute_python", code="import time; time.sleep(0.7); kept = 'kept'", session_id="stays")
    began.sock.close()
    assert client.text("execute_python", code="kept", session_id="stays") == "'kept'"


def test_streams_are_resumed(server: mcp_http.Server) -> None:
    """What comes after the event that was seen last, once, and nothing of another stream or client."""
    client, other = server.client(), server.client()
    broken = begin_until_go(client, 1, "broken")
    noise = client.begin_tool("execute_python", {"progressToken": 2}, code="1", session_id="noise")
    events = broken.events()
    first, second = next(events), next(events)
    broken.sock.close()
    stranger = other.resume(second["id"])
    assert stranger.head().status == 400
    coming = client.resume(second["id"]).events()
    resumed = [next(coming)]
    let_go(server, "broken")
    resumed += coming
    assert resumed[-1]["data"]["result"]["content"][0]["text"] == "'end'"
    ids = [event["id"] for event in resumed]
    assert second["id"] not in ids and first["id"] not in ids and len(set(ids)) == len(ids)
    assert all(message.get("params", {}).get("progressToken") in (None, 1)
               for message in (event["data"] for event in resumed))
    # once more, from the begin, though it has ended: it was just sent
    again = list(client.resume(first["id"]).events())
    assert [event["id"] for event in again] == [second["id"], *ids]
    assert client.resume("nothing-1").head().status == 400
    noise.messages()


def test_a_newer_reader_takes_over(server: mcp_http.Server) -> None:
    client = server.client()
    old = begin_until_go(client, 1, "taken")
    event = next(old.events())
    new = client.resume(event["id"])
    assert new.head().status == 200
    let_go(server, "taken")
    assert all("result" not in message for message in old.messages())
    assert "result" in new.messages()[-1]


# Sessions -----------------------------------------------------------------------------------


def test_sessions(box: lib.Sandbox, server: mcp_http.Server) -> None:
    """They begin, end, and are known again by a server that begins anew; what nobody made is not found."""
    client = server.client()
    assert re.fullmatch(r"[!-~]{32,}", client.session)
    flipped = client.session[:-1] + ("0" if client.session[-1] != "0" else "1")
    for bad in "", "x", flipped, "0" * len(client.session):
        answer = server.ask(LIST, headers=server.headers(Mcp_Session_Id=bad))
        assert answer.status == 404 and answer.json()["error"]["code"] == -32001
    with mcp_http.Server(box) as again:
        client.server = again
        assert "result" in client.call("ping")
        client.server = server
    ended = server.ask(None, method="DELETE", headers=client.headers(Content_Type=None))
    assert ended.status == 200
    assert client.begin("ping").head().status == 404
    assert server.ask(None, method="DELETE", headers=client.headers(Content_Type=None)).status == 404
    assert server.ask(LIST).status == 200  # without one, as before


def test_batches(server: mcp_http.Server) -> None:
    """Only the version that has them, and says so, in its header or when it began."""
    batch = [PING, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}},
             {**LIST, "id": 2}, {"jsonrpc": "2.0", "id": 3, "method": "nothing"}]
    client = server.client("2025-03-26")
    for headers in client.headers(), client.headers(MCP_Protocol_Version=None), server.headers(
            MCP_Protocol_Version="2025-03-26"):
        answer = server.ask(batch, headers=headers)
        assert answer.status == 200 and [one["id"] for one in answer.json()] == [1, 2, 3], answer.body
    assert (server.ask(batch[1:2], headers=client.headers()).status) == 202
    for headers in server.headers(), server.client().headers(), client.headers(MCP_Protocol_Version="2025-11-25"):
        answer = server.ask(batch, headers=headers)
        assert answer.status == 400 and answer.json()["error"]["code"] == -32600, answer.body
    assert server.ask([], headers=client.headers()).status == 400


def test_sandbox_sessions_are_not_the_clients(server: mcp_http.Server) -> None:
    """What is kept between calls has a name of its own, whoever asks."""
    server.client().text("execute_python", code="shared = 5", session_id="named")
    assert server.client().text("execute_python", code="shared", session_id="named") == "5"
    done = server.ask(**server.modern("tools/call", {
        "name": "execute_python", "arguments": {"code": "shared", "session_id": "named"}}))
    assert mcp.text_of(done.messages()[-1]["result"]) == "5"


def test_ids_of_clients_never_cross(server: mcp_http.Server) -> None:
    """Item 11: three clients, the same ids at once, on sessions of their own and without any."""
    clients = [server.client() for _ in range(3)]
    begun = []
    for round_ in range(4):
        for number, client in enumerate(clients):
            last = "until('go')" if number == 0 and round_ == 3 else ""  # of the client that uses its id again
            code = mcp.UNTIL + f"{last}; 'client {number} round {round_}'".strip("; ")
            begun.append((f"'client {number} round {round_}'", client.begin("tools/call", {
                "name": "execute_python", "arguments": {"code": code, "session_id": f"c{number}"}}, ident=round_)))
    for ident in range(2):  # the same id twice in one client is a fault
        assert "in use" in str(clients[0].begin("ping", ident=3).messages()) or ident
    let_go(server, "c0")
    for wanted, answer in begun:
        assert mcp.text_of(answer.messages()[-1]["result"]) == wanted


def test_questions_find_their_client(fixture: mcp_http.Server) -> None:
    """What a client is asked comes on its stream, and only its own answer counts."""
    one, other = fixture.client(), fixture.client()
    streams = [client.begin("tools/call", {"name": "test_elicitation", "arguments": {"message": "?"}}, ident=1)
               for client in (one, other)]
    events = [stream.events() for stream in streams]
    asked = []
    for each in events:
        asked.append(next(event["data"] for event in each if event["data"]))
    answer = {"jsonrpc": "2.0", "result": {"action": "accept", "content": {"username": "me", "email": "m@e"}}}
    assert asked[0]["id"] != asked[1]["id"]
    fixture.ask({**answer, "id": asked[0]["id"]}, headers=other.headers())  # not its question
    assert fixture.ask({**answer, "id": asked[0]["id"]}, headers=one.headers()).status == 202
    assert "result" in next(events[0])["data"]
    assert fixture.ask({**answer, "id": asked[1]["id"]}, headers=other.headers()).status == 202
    assert "result" in next(events[1])["data"]


# The end ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_ends_at_once(box: lib.Sandbox, number: signal.Signals) -> None:
    """With calls in flight, whose code ends too; the sessions stay."""
    with mcp_http.Server(box) as made:
        client = made.client()
        client.text("execute_python", code="stays = 1", session_id="ending")
        begun = client.begin_tool("execute_python", {"progressToken": 1}, session_id="ending",
                                  code="import time; time.sleep(600)", timeout=600)
        next(begun.events())
        made.process.send_signal(number)
        assert made.process.wait(lib.PATIENCE) == 0
        begun.read()
    with mcp_http.Server(box) as made:
        assert made.client().text("execute_python", code="stays", session_id="ending") == "1"
