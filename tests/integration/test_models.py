# SPDX-License-Identifier: Apache-2.0
"""Providers of models before a server of ours that can misbehave in every way: what they send, what they
make of what comes back, when they try again, whom they give a key. tests/conformance/ask.c is what speaks."""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lib

ASK = os.path.join(lib.BUILD, "model-ask")
CLI = os.path.join(lib.BUILD, "snipara-sandbox")
KEY = "sk-test-0123456789abcdef"
HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"name": "look", "description": "Look at something",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}
KINDS = {
    "openai": ("gpt-4o-mini", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": ("claude-sonnet-4-5", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "gemini": ("gemini-2.5-flash", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
}


# The server -------------------------------------------------------------------------------------


class Server:
    """Answers the n-th request with the n-th of its replies (the last one for ever). A reply is a list of
    bytes to send, numbers of seconds to wait and events to wait for, then the connection is closed; None: closed at
    once."""

    def __init__(self, *replies: Any, address: str = "127.0.0.1") -> None:
        self.replies = list(replies)
        self.requests: list[lib.Json] = []
        self.gone = threading.Event()  # a client left before its reply was whole
        self.answered = 0  # replies that were sent whole
        self.socket = socket.create_server((address, 0), backlog=16)
        self.url = f"http://{address}:{self.socket.getsockname()[1]}"
        self.stop = False
        self.lock = threading.Lock()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            text = b""
            while b"\r\n\r\n" not in text:
                more = connection.recv(65536)
                if not more:
                    return
                text += more
            head, _, body = text.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
            while len(body) < int(headers.get("content-length", 0)):
                body += connection.recv(65536)
            method, path, _ = lines[0].split(" ")
            with self.lock:
                n = len(self.requests)
                self.requests.append({"method": method, "path": path, "headers": headers,
                                      "body": json.loads(body)})
            for part in self.replies[min(n, len(self.replies) - 1)] or []:
                if isinstance(part, bytes):
                    try:
                        connection.sendall(part)
                    except OSError:
                        self.gone.set()
                        raise
                elif isinstance(part, threading.Event):
                    part.wait()
                elif self.left(connection, part):
                    self.gone.set()
                    return
            self.answered += 1

    def left(self, connection: socket.socket, seconds: float) -> bool:
        """Whether the client goes within these seconds."""
        connection.settimeout(seconds)
        try:
            return connection.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True
        finally:
            connection.settimeout(None)

    def close(self) -> None:
        self.socket.close()


def http(status: int, body: lib.Json | bytes, kind: str = "application/json", **headers: Any) -> list[bytes]:
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return [f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n".encode() + body]


def stream(*parts: Any) -> list[Any]:
    """Events: objects become JSON, texts are sent as they are, numbers wait."""
    made: list[Any] = [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"]
    for part in parts:
        if isinstance(part, dict):
            name = f"event: {part['type']}\n" if "type" in part else ""
            made.append(f"{name}data: {json.dumps(part)}\n\n".encode())
        else:
            made.append(part.encode() if isinstance(part, str) else part)
    return made


def said(kind: str, text: str = "Hi there", whole: bool = True) -> list[Any]:
    """The events of a short answer, or all but those that end it."""
    if kind == "openai":
        events = [{"id": "c1", "model": "gpt-4o-mini-2024-07-18",
                   "choices": [{"index": 0, "delta": {"content": text}}]},
                  {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                  {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}, "data: [DONE]\n\n"]
        return events if whole else events[:1]
    if kind == "anthropic":
        events = [{"type": "message_start", "message": {"id": "m1", "model": "claude-sonnet-4-5-20250929", "usage":
                                                        {"input_tokens": 9, "output_tokens": 1}}},
                  {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                  {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
                  {"type": "content_block_stop", "index": 0},
                  {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
                  {"type": "message_stop"}]
        return events if whole else events[:3]
    head: lib.Json = {"modelVersion": "gemini-2.5-flash", "responseId": "g1"}
    events = [{"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}], **head},
              {"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}], **head,
               "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3}}]
    return events if whole else events[:1]


def whole_reply(kind: str, text: str = "Hi there") -> lib.Json:
    if kind == "openai":
        return {"id": "c1", "model": "m", "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 3}}
    if kind == "anthropic":
        return {"type": "message", "id": "m1", "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 3}}
    return {"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3}}


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    made = []

    def start(*replies: Any, **options: Any) -> Server:
        made.append(Server(*replies, **options))
        return made[-1]

    yield start
    for server in made:
        server.close()


# Asking -----------------------------------------------------------------------------------------


def environment(kind: str | None = None, server: Any = None, **more: Any) -> dict[str, str]:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LSAN_OPTIONS": os.environ.get("LSAN_OPTIONS", "")}
    if kind:
        _, key, base = KINDS[kind]
        env[key] = KEY
        env[base] = server.url + ("/v1" if kind == "openai" else "")
    return {**env, **more}


def ask(cwd: Path, env: dict[str, str], *requests: lib.Json) -> list[Any]:
    """[(kind, value)] of all lines."""
    text = "".join(json.dumps({"messages": HELLO, **request}) + "\n" for request in requests)
    done = subprocess.run([ASK], input=text, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=2 * lib.PATIENCE)
    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout + done.stderr
    return [next(iter(json.loads(line).items())) for line in done.stdout.splitlines()]


def answer(tmp_path: Path, kind: str, server: Any, request: lib.Json | None = None, **env: Any) -> tuple[Any, Any]:
    lines = ask(tmp_path, environment(kind, server, **env), {"model": KINDS[kind][0], **(request or {})})
    assert lines[-1][0] == "answer", lines
    return lines[-1][1], lines[:-1]


each_kind = pytest.mark.parametrize("kind", list(KINDS))


@each_kind
def test_an_answer(tmp_path: Path, serve: Callable[..., Server], kind: str) -> None:
    server = serve(stream(*said(kind)))
    seen, events = answer(tmp_path, kind, server)
    assert seen["is_ok"] and seen["message"] == {"role": "assistant", "content": "Hi there"}
    assert events == [("text", "Hi there")]
    assert (seen["usage"]["input"], seen["usage"]["output"], seen["usage"]["is_estimated"]) == (9, 3, False)
    assert seen["cost_usd"] > 0 and seen["stop"] == "end" and seen["tries"] == 1
    request, = server.requests
    assert request["method"] == "POST" and request["headers"]["content-type"] == "application/json"
    assert KEY in str(request["headers"]) and KEY not in request["path"] + json.dumps(request["body"])


@each_kind
def test_a_reply_in_one_piece(tmp_path: Path, serve: Callable[..., Server], kind: str) -> None:
    server = serve(http(200, whole_reply(kind)))
    seen, events = answer(tmp_path, kind, server)
    assert seen["is_ok"] and seen["message"]["content"] == "Hi there" and seen["usage"]["input"] == 9


# Failures that pass -----------------------------------------------------------------------------


FAILING = {
    "429": http(429, {"error": {"message": "slow down", "type": "rate_limit_error"}}, retry_after_ms=20),
    "500": http(500, {"error": {"message": "oops", "type": "api_error"}}, retry_after="0.02"),
    "503 page": http(503, b"<html>busy</html>", kind="text/html", retry_after_ms=20),
    "529": http(529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, retry_after_ms=20),
    "closed": None,
    "cut head": [b"HTTP/1.1 200 OK\r\nContent-"],
}


@each_kind
@pytest.mark.parametrize("fault", list(FAILING))
def test_a_failure_that_passes(tmp_path: Path, serve: Callable[..., Server], kind: str, fault: str) -> None:
    server = serve(FAILING[fault], stream(*said(kind)))
    seen, events = answer(tmp_path, kind, server)
    assert seen["is_ok"] and seen["tries"] == 2 and len(server.requests) == 2
    assert events[0][0] == "retry" and events[0][1]["next_try"] == 2
    assert server.requests[0]["body"] == server.requests[1]["body"]
    assert not seen["usage"]["is_estimated"]  # nothing was used by what was refused


def test_a_key_that_a_provider_repeats_is_in_no_event(tmp_path: Path, serve: Callable[..., Server]) -> None:
    busy = http(429, {"error": {"message": f"slow down, {KEY}", "type": "rate_limit_error"}}, retry_after_ms=20)
    seen, events = answer(tmp_path, "openai", serve(busy, stream(*said("openai"))))
    assert seen["is_ok"] and "slow down" in str(events[0]) and KEY not in str(events)


@each_kind
@pytest.mark.parametrize("fault", ["cut", "cut in an event", "wrong JSON", "error event"])
def test_a_stream_that_breaks_is_asked_for_again(tmp_path: Path, serve: Callable[..., Server], kind: str,
                                                 fault: str) -> None:
    begun = said(kind, "Hi th", whole=False)
    broken = {
        "cut": stream(*begun),
        "cut in an event": stream(*begun, 'data: {"choi'),
        "wrong JSON": stream(*begun, "data: {nonsense}\n\n"),
        "error event": stream(*begun, {"type": "error", "error": {"type": "overloaded_error", "status": "UNAVAILABLE",
                                                                  "message": "overloaded_error"}}),
    }[fault]
    server = serve(broken, stream(*said(kind)))
    seen, events = answer(tmp_path, kind, server)
    assert seen["is_ok"] and seen["tries"] == 2
    assert seen["message"]["content"] == "Hi there"  # nothing of the first try is in it
    assert [name for name, _ in events] == ["text", "retry", "text"]
    assert seen["usage"]["is_estimated"] and seen["usage"]["input"] > 9  # the lost try is counted


def test_tries_have_a_number(tmp_path: Path, serve: Callable[..., Server]) -> None:
    server = serve(FAILING["429"])
    seen, _ = answer(tmp_path, "openai", server, SNIPARA_SANDBOX_MODEL_RETRIES="2")
    assert not seen["is_ok"] and seen["failure"] == "rate_limit" and seen["http_status"] == 429
    assert len(server.requests) == 3 and "tried 3 times" in seen["error"]["message"]


def test_who_asks_for_too_long_is_not_waited_for(tmp_path: Path, serve: Callable[..., Server]) -> None:
    server = serve(http(429, {"error": {"message": "later"}}, retry_after=3600))
    seen, _ = answer(tmp_path, "openai", server)
    assert seen["failure"] == "rate_limit" and "3600 s" in seen["error"]["message"] and len(server.requests) == 1
    server = serve(http(429, {"error": {"message": "later"}}, retry_after=50))
    seen, _ = answer(tmp_path, "openai", server, {"deadline_ms": 40000})
    assert seen["failure"] == "rate_limit" and len(server.requests) == 1


@pytest.mark.parametrize("status, error, failure", [
    (401, {"message": "Incorrect API key provided: " + KEY}, "auth"),
    (403, {"message": "no"}, "auth"),
    (404, {"message": "no such model", "code": "model_not_found"}, "model"),
    (400, {"message": "too long", "code": "context_length_exceeded"}, "context"),
    (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}, "quota"),
    (400, {"message": "bad\nthing\u001b[31m"}, "request"),
])
def test_a_failure_that_does_not_pass(tmp_path: Path, serve: Callable[..., Server], status: int, error: dict[str, str],
                                      failure: str) -> None:
    server = serve(http(status, {"error": error}))
    seen, events = answer(tmp_path, "openai", server)
    assert not seen["is_ok"] and seen["failure"] == failure and len(server.requests) == 1 and events == []
    assert "\n" not in seen["error"]["message"] and "\x1b" not in seen["error"]["message"]


def test_a_parameter_that_is_not_taken_is_left_out(tmp_path: Path, serve: Callable[..., Server]) -> None:
    def refuse(name: str) -> list[bytes]:
        return http(400, {"error": {"message": f"Unsupported value: '{name}' is not supported with this model"}})

    server = serve(refuse("temperature"), refuse("stream_options"), refuse("max_tokens"), stream(*said("openai")))
    lines = ask(tmp_path, environment("openai", server),
                *[{"model": "gpt-4o-mini", "max_tokens": 7, "max_tries": 1}] * 2)
    answers = [value for name, value in lines if name == "answer"]
    assert [(one["is_ok"], one["tries"]) for one in answers] == [(True, 1), (True, 1)]
    assert len(server.requests) == 5  # the second call knows
    first, last = server.requests[0]["body"], server.requests[-1]["body"]
    assert {"temperature", "stream_options", "max_tokens"} <= set(first)
    assert not {"temperature", "stream_options", "max_tokens"} & set(last) and last["max_completion_tokens"] == 7


@each_kind
def test_a_stream_as_others_write_it(tmp_path: Path, serve: Callable[..., Server], kind: str) -> None:
    """CRLF and CR, comments, events in several lines and pieces, names nobody knows, another content type's letters."""
    whole = b"".join(stream(*said(kind))[1:]).decode()
    data = [line[6:] for line in whole.split("\n") if line.startswith("data: ")]
    lines = ": a comment\r\n\r\nretry: 5\r\n\r\nevent: ping\r\ndata: {\"type\": \"ping\"}\r\n\r\n"
    for k, text in enumerate(data):
        first, last = text.split(", ", 1) if k == 0 else (text, None)
        lines += f"id: {k}\r\ndata:{first}," if last else f"data: {text}"
        lines += f"\r\ndata: {last}\r\n\r\n" if last else "\r\r"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nConnection: close\r\n\r\n\xef\xbb\xbf"
    raw = lines.encode()
    server = serve([head, *[raw[at:at + 7] for at in range(0, len(raw), 7)]])
    seen, _ = answer(tmp_path, kind, server)
    assert seen["is_ok"] and seen["message"]["content"] == "Hi there" and len(server.requests) == 1, seen


def test_retry_after_in_both_forms(tmp_path: Path, serve: Callable[..., Server]) -> None:
    """Seconds, and a date: one that is past means at once, one that is far is not waited for."""
    past, far = "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2065 07:28:00 GMT"
    for status in (429, 503):
        for when, tries in (("0.01", 2), (past, 2), (far, 1), ("86400", 1)):
            server = serve(http(status, {"error": {"message": "later"}}, retry_after=when), stream(*said("openai")))
            seen, _ = answer(tmp_path, "openai", server)
            assert seen["is_ok"] == (tries == 2) and len(server.requests) == tries, (status, when, seen)
            assert tries == 2 or "asks to wait" in seen["error"]["message"]


@pytest.mark.parametrize("reply, failure, tries", [
    ([b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"],
     "request", 1),
    (http(200, b"<html>login</html>", kind="text/html"), "reply", 2),
    (http(200, b"\xff\xfe\x00not json", kind="application/octet-stream"), "reply", 2),
    (http(200, b"[1, 2, 3]"), "reply", 2),
    (http(200, b'{"choices": "none"}'), "reply", 2),
    (http(200, b""), "reply", 2),
    ([b"nonsense that is no HTTP\r\n\r\n"], "network", 2),
    ([b"HTTP/1.1 200 OK\r\n" + b"X-Pad: " + b"y" * 1000 + b"\r\n"] + [b"X-More: " + b"z" * 8000 + b"\r\n"] * 200,
     "reply", 1),
    ([b"HTTP/1.1 100 Continue\r\n\r\n" * 20000], "reply", 1),
])
def test_a_reply_that_is_none(tmp_path: Path, serve: Callable[..., Server], reply: list[bytes], failure: str,
                              tries: int) -> None:
    """A redirect would take the key elsewhere; a page, other types, endless heads: reported as what they are."""
    server = serve(reply)
    seen, _ = answer(tmp_path, "openai", server, {"max_tries": 2})
    assert not seen["is_ok"] and (seen["failure"], len(server.requests)) == (failure, tries), seen
    assert (("returned HTML, not JSON; check base_url" in seen["error"]["message"]) ==
            (b"<html>" in b"".join(reply))), seen


def test_a_certificate_of_nobody(tmp_path: Path) -> None:
    """Attack: somebody in between with a certificate of his own. The key is not sent; nothing is tried again."""
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
                           certificate,
                           "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], capture_output=True)
    lib.need("openssl", made.returncode == 0, "openssl makes no certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))
    seen = []

    def serve_tls() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as inside:
                    seen.append(inside.recv(65536))
                    inside.sendall(b"".join(http(200, whole_reply("openai"))))

    threading.Thread(target=serve_tls, daemon=True).start()
    url = f"https://127.0.0.1:{listener.getsockname()[1]}/v1"
    env = environment(OPENAI_API_KEY=KEY, OPENAI_BASE_URL=url)
    refused = ask(tmp_path, env, {"model": "gpt-4o-mini"})
    assert [name for name, _ in refused] == ["answer"] and refused[0][1]["failure"] == "setup", refused
    assert "certificate" in refused[0][1]["error"]["message"] and seen == []
    # control: a client that believes anybody
    asked = urllib.request.Request(url, b"{}", {"Authorization": "Bearer " + KEY})
    with contextlib.suppress(OSError):  # whatever is answered
        urllib.request.urlopen(asked, context=ssl._create_unverified_context(), timeout=lib.PATIENCE).close()
    assert lib.wait_for(lambda: seen) and KEY.encode() in seen[0]
    listener.close()


def test_memory_is_bounded(tmp_path: Path, serve: Callable[..., Server]) -> None:
    """200 MB of a reply, and of a stream of comments, do not end in the program."""
    chunk = b"x" * (1 << 20)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    for parts in ([head] + [chunk] * 200, stream() + [b": " + chunk[:4000] + b"\n"] * 50000):
        server = serve(parts)
        request = json.dumps({"messages": HELLO, "model": "gpt-4o-mini", "max_tries": 1}) + "\n"
        with subprocess.Popen([ASK], cwd=tmp_path, env=environment("openai", server), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            lib.some(process.stdin).write(request)
            lib.some(process.stdin).flush()
            line = lib.some(process.stdout).readline()
            with open(f"/proc/{process.pid}/status") as status:  # ru_maxrss would begin with ours
                peak = next(int(row.split()[1]) for row in status if row.startswith("VmHWM:"))
            lib.some(process.stdin).close()
            process.wait(lib.PATIENCE)
        assert json.loads(line)["answer"]["is_ok"] is False
        assert "ASAN_OPTIONS" in os.environ or peak < 300 * 1024  # that counts what was freed


# Time and size ----------------------------------------------------------------------------------


@each_kind
def test_a_deadline_ends_a_slow_drip(tmp_path: Path, serve: Callable[..., Server], kind: str) -> None:
    drip: list[Any] = []
    for _ in range(4000):  # far longer than the deadline
        drip += [*said(kind, "x", whole=False)[-1:], 0.05]
    parts = stream()
    for part in drip:
        parts.append(part if isinstance(part, float) else f"data: {json.dumps(part)}\n\n".encode())
    server = serve(parts)
    seen, events = answer(tmp_path, kind, server, {"deadline_ms": int(50 * lib.PATIENCE)})
    assert not seen["is_ok"] and seen["failure"] == "timeout" and seen["message"]["content"].startswith("x")
    assert seen["usage"]["is_estimated"] and seen["usage"]["input"] > 0
    assert server.gone.wait(lib.PATIENCE)


def test_cancelling_closes_the_connection(tmp_path: Path, serve: Callable[..., Server]) -> None:
    server = serve(stream(*said("openai", whole=False), 600.0))
    lines = ask(tmp_path, environment("openai", server), {"model": "gpt-4o-mini", "cancel": 1})
    assert [name for name, _ in lines] == ["text", "cancelled"]
    assert lines[1][1]["input"] > 0 and lines[1][1]["output"] > 0
    assert server.gone.wait(lib.PATIENCE)


def test_what_is_too_large_is_refused(tmp_path: Path, serve: Callable[..., Server]) -> None:
    event = f"data: {json.dumps(said('openai', 'y' * (1 << 20))[0])}\n\n".encode()
    long_line = [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: "] + [b"z" * (1 << 20)] * 6
    for parts in (stream() + [event] * 20, long_line):
        server = serve(parts)
        seen, _ = answer(tmp_path, "openai", server)
        assert not seen["is_ok"] and seen["failure"] == "reply" and seen["error"]["code"] == "limit"
        assert len(server.requests) == 1


def test_a_server_that_keeps_a_finished_stream_open(tmp_path: Path, serve: Callable[..., Server]) -> None:
    server = serve(stream(*said("openai"), 600.0))
    seen, _ = answer(tmp_path, "openai", server)
    assert seen["is_ok"] and server.gone.wait(lib.PATIENCE)  # nobody waited for its end


# Tools ------------------------------------------------------------------------------------------


def test_calls_of_servers_that_are_careless(tmp_path: Path, serve: Callable[..., Server]) -> None:
    def piece(**call: Any) -> lib.Json:
        return {"choices": [{"delta": {"tool_calls": [call]}}]}

    server = serve(stream(
        piece(id="a", function={"name": "look", "arguments": '{"at":'}), piece(function={"arguments": '"x"}'}),
        piece(id="b", function={"name": "look", "arguments": {"at": "y"}}), piece(id="c", function={"name": "look"}),
        piece(function={"name": "", "arguments": "{broken"}), {"choices": [{"finish_reason": "stop", "delta": {}}]}))
    seen, events = answer(tmp_path, "openai", server, {"tools": [TOOL]})
    calls = seen["message"]["tool_calls"]
    assert seen["stop"] == "tools" and [call["id"] for call in calls] == ["a", "b", "c"]
    assert [call["arguments"] for call in calls[:2]] == [{"at": "x"}, {"at": "y"}]
    assert "not a JSON object" in calls[2]["arguments"]["_error"] and calls[2]["arguments"]["_raw"] == "{broken"
    assert [name for name, _ in events] == ["call", "call", "call"]
    assert seen["usage"]["is_estimated"]


def test_thoughts_and_signatures_travel(tmp_path: Path, serve: Callable[..., Server]) -> None:
    """What a provider wants to see again is sent again as it was."""
    thinking: list[Any] = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "So \u2764"}},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "redacted_thinking", "data": "d"}},
        {"type": "content_block_start", "index": 3,
         "content_block": {"type": "tool_use", "id": "t", "name": "look", "input": {}}},
        {"type": "content_block_delta", "index": 3,
         "delta": {"type": "input_json_delta", "partial_json": '{"at": "x"}'}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
    signed: lib.Json = {"candidates": [{"content": {"parts": [{"functionCall": {"name": "look", "args": {"at": "x"}},
                                                               "thoughtSignature": "sig"}]}, "finishReason": "STOP"}]}
    asked = {"index": 0, "id": "t", "function": {"name": "look", "arguments": '{"at": "x"}'}}
    thought: list[Any] = [{"choices": [{"delta": {"reasoning_content": "hm"}}]},
                          {"choices": [{"delta": {"tool_calls": [asked]}, "finish_reason": "tool_calls"}]}]
    expect: dict[str, tuple[list[Any], Any]] = {
        "anthropic": (thinking, {"type": "thinking", "thinking": "hm", "signature": "sig"}),
        "gemini": ([signed], signed["candidates"][0]["content"]["parts"][0]),
        "openai": (thought, None)}
    for kind, (events, part) in expect.items():
        server = serve(stream(*events), stream(*said(kind)))
        first, _ = answer(tmp_path, kind, server, {"tools": [TOOL]})
        call, = first["message"]["tool_calls"]
        after = HELLO + [first["message"],
                         {"role": "tool", "tool_call_id": call["id"], "name": "look", "content": "seen"}]
        answer(tmp_path, kind, server, {"tools": [TOOL], "messages": after})
        sent = server.requests[1]["body"]
        if kind == "anthropic":
            assert sent["messages"][1]["content"] == [
                part, {"type": "text", "text": "So \u2764"}, {"type": "redacted_thinking", "data": "d"},
                {"type": "tool_use", "id": "t", "name": "look", "input": {"at": "x"}}]
            assert sent["messages"][2]["content"][0]["tool_use_id"] == "t"
        elif kind == "gemini":
            assert sent["contents"][1]["parts"] == [part]
            assert sent["contents"][2]["parts"][0]["functionResponse"] == {"name": "look",
                                                                           "response": {"output": "seen"}}
        else:
            assert sent["messages"][1]["reasoning_content"] == "hm"


@each_kind
def test_an_answer_that_follows_a_schema(tmp_path: Path, serve: Callable[..., Server], kind: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    server = serve(stream(*said(kind, '{"n": 4}')))
    seen, _ = answer(tmp_path, kind, server, {"schema": schema})
    assert seen["parsed"] == {"n": 4} and 'required' in json.dumps(server.requests[0]["body"])


def test_text_that_is_no_text(tmp_path: Path, serve: Callable[..., Server]) -> None:
    """NULs and broken UTF-8 neither end a text nor break a request."""
    server = serve([stream()[0] +
                    b'data: {"choices":[{"delta":{"content":"a\xff\\u0000b"},"finish_reason":"stop"}]}\n\n'])
    messages = [{"role": "user", "content": "x\0y"}]
    seen, _ = answer(tmp_path, "openai", server, {"messages": messages})
    assert seen["is_ok"], seen
    assert seen["message"]["content"].startswith("a\ufffd")
    assert server.requests[0]["body"]["messages"][0]["content"] == "x y"


# Keys -------------------------------------------------------------------------------------------


def test_keys_from_files_and_commands(tmp_path: Path, serve: Callable[..., Server]) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    (tmp_path / "say").write_text(f"#!/bin/sh\necho x >>'{tmp_path}/asked'\necho '{KEY}'\n")
    (tmp_path / "say").chmod(0o755)
    rows = [({"OPENAI_API_KEY_FILE": str(tmp_path / "key")}, None),
            ({"OPENAI_API_KEY_COMMAND": f"'{tmp_path}/say' \"one word\""}, None),
            ({"OPENAI_API_KEY_COMMAND": "false"}, "failed with exit status 1"),
            ({"OPENAI_API_KEY_COMMAND": "echo two words"}, "gives no key"),
            ({"OPENAI_API_KEY_COMMAND": "'open"}, "quotes closed"),
            ({"OPENAI_API_KEY_COMMAND": "/no/such/program"}, "No such file"),
            ({"OPENAI_API_KEY_FILE": "/no/such/file"}, "OPENAI_API_KEY_FILE")]
    for env, why in rows:
        server = serve(stream(*said("openai")))
        lines = ask(tmp_path, environment(OPENAI_BASE_URL=server.url, **env), *[{"model": "gpt-4o-mini"}] * 2)
        for _, seen in [line for line in lines if line[0] == "answer"]:
            assert seen["is_ok"] == (why is None), seen
            if why:
                assert seen["failure"] == "setup" and why in seen["error"]["message"] and not server.requests
            else:
                assert server.requests[0]["headers"]["authorization"] == "Bearer " + KEY
    assert (tmp_path / "asked").read_text() == "x\n"  # once, for two calls


def test_a_command_is_asked_again_when_its_key_is_refused(tmp_path: Path, serve: Callable[..., Server]) -> None:
    (tmp_path / "say").write_text(f"#!/bin/sh\necho x >>'{tmp_path}/asked'\n"
                                  f"echo 'old-key-00000'$(wc -l <'{tmp_path}/asked')\n")
    (tmp_path / "say").chmod(0o755)
    server = serve(http(401, {"error": {"message": "expired"}}), stream(*said("openai")))
    lines = ask(tmp_path, environment(OPENAI_BASE_URL=server.url, OPENAI_API_KEY_COMMAND=f"'{tmp_path}/say'"),
                {"model": "gpt-4o-mini"})
    assert lines[-1][1]["is_ok"]
    assert [r["headers"]["authorization"][-1] for r in server.requests] == ["1", "2"]


def trust(folder: Path, env: dict[str, str]) -> None:
    done = subprocess.run([CLI, "trust"], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    assert done.returncode == 0 and KEY not in done.stdout + done.stderr, done.stderr


def plant(folder: Path, where: str, server: Server) -> Path:
    """A file that names the listener, as its path."""
    name, text = {"toml": ("snipara-sandbox.toml", f'[snipara_sandbox]\nbase_url = "{server.url}"\n'),
                  "dotenv": (".env", f"OPENAI_BASE_URL={server.url}\n")}[where]
    (folder / name).write_text(text)
    return folder / name


ONCE: lib.Json = {"model": "gpt-4o-mini", "max_tries": 1, "deadline_ms": 30000}


@pytest.mark.parametrize("where", ["toml", "dotenv"])
@pytest.mark.parametrize("whose", ["cloned", "sticky"])
def test_a_project_does_not_say_where_the_users_key_goes(tmp_path: Path, serve: Callable[..., Server], where: str,
                                                         whose: str) -> None:
    """Attack: a folder one has cloned, or one of everybody's with another user's file in it, names an address of this
    host, where anybody may listen. Control: the same file, the user's own, once the user has trusted it."""
    if whose == "sticky" and os.geteuid() != 0:
        pytest.skip("makes files of another user")
    server = serve(stream(*said("openai")))
    project, state = tmp_path / "project", tmp_path / "state"
    project.mkdir()
    path = plant(project, where, server)
    if whose == "sticky":
        project.chmod(0o1777)
        os.chown(path, 4242, 4242)
    env = environment(OPENAI_API_KEY=KEY, SNIPARA_SANDBOX_STATE_DIR=str(state), HTTPS_PROXY="http://127.0.0.1:9")
    assert not ask(project, env, ONCE)[-1][1]["is_ok"]
    said_so = subprocess.run([CLI, "models", "--json"], cwd=project, env=env, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    assert said_so.returncode == 0 and json.loads(said_so.stdout)["model"]["base_url"] == "https://api.openai.com/v1"
    assert f"{path} belongs to uid 4242" in said_so.stderr if whose == "sticky" else \
        f"{path} is not trusted" in said_so.stderr and "snipara-sandbox trust" in said_so.stderr
    assert server.requests == []

    os.chown(path, os.geteuid(), -1)
    trust(project, env)
    assert ask(project, env, ONCE)[-1][1]["is_ok"] and KEY in str(server.requests[0]["headers"])


def test_a_project_names_no_keys_commands_and_files(tmp_path: Path, serve: Callable[..., Server]) -> None:
    server = serve(stream(*said("openai")))
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY=sk-of-the-project\n"
                                   f"ANTHROPIC_API_KEY_COMMAND=\"touch '{tmp_path}/ran'\"\n"
                                   "SNIPARA_SANDBOX_RECORD_FILE=over\n")
    env = environment(SNIPARA_SANDBOX_STATE_DIR=str(tmp_path / "state"), OPENAI_BASE_URL=server.url,
                      ANTHROPIC_BASE_URL=server.url)
    both = (ONCE, {**ONCE, "model": "claude-sonnet-4-5"})
    ask(tmp_path, env, *both)
    assert "authorization" not in server.requests[0]["headers"]
    assert not (tmp_path / "ran").exists() and not (tmp_path / "over").exists()
    trust(tmp_path, env)  # control
    ask(tmp_path, env, *both)
    assert "sk-of-the-project" in str([request["headers"] for request in server.requests])
    assert (tmp_path / "ran").exists() and (tmp_path / "over").exists()


def test_a_model_that_a_project_chooses_gets_its_own_providers_key_only(tmp_path: Path,
                                                                        serve: Callable[..., Server]) -> None:
    """Its file picks a well-known provider: that one's key may go there, the key of this program and one for a port of
    this host not."""
    def key_for(model: str, **env: Any) -> str | None:
        (tmp_path / "snipara-sandbox.toml").write_text(f'[snipara_sandbox]\nmodel = "{model}"\n')
        done = subprocess.run([CLI, "models", "--json"], cwd=tmp_path, env={**environment(), **env},
                              stdout=subprocess.PIPE, text=True)
        key: str | None = json.loads(done.stdout)["model"]["key_from"]
        return key

    own = {"SNIPARA_SANDBOX_LLM_API_KEY": KEY}
    assert key_for("claude-sonnet-4-5", ANTHROPIC_API_KEY=KEY) == "ANTHROPIC_API_KEY"
    assert key_for("claude-sonnet-4-5", **own) is None
    assert key_for("gpt-4o", **own) == "SNIPARA_SANDBOX_LLM_API_KEY"  # the provider without any file
    assert key_for("claude-sonnet-4-5", **own,
                   SNIPARA_SANDBOX_MODEL="claude-sonnet-4-5") == "SNIPARA_SANDBOX_LLM_API_KEY"
    assert key_for("ollama/x", OLLAMA_API_KEY=KEY, SNIPARA_SANDBOX_MODEL="ollama/x") == "OLLAMA_API_KEY"


@pytest.mark.parametrize("where", ["toml", "dotenv"])
@pytest.mark.parametrize("name", ["ollama/x", "ollama_chat/x", "hosted_vllm/x", "azure/x"])
def test_a_project_sends_no_prompt_to_a_listener_of_this_host(tmp_path: Path, where: str, name: str) -> None:
    """Attack: its file names a model of an address where anybody may listen. Control: the user has trusted the file."""
    file, text = {"toml": ("snipara-sandbox.toml", f'[snipara_sandbox]\nmodel = "{name}"\n'),
                  "dotenv": (".env", f"RLM_MODEL={name}\n")}[where]
    (tmp_path / file).write_text(text)
    env = environment(SNIPARA_SANDBOX_STATE_DIR=str(tmp_path / "state"), HOSTED_VLLM_API_BASE="http://127.0.0.1:9",
                      AZURE_API_BASE="http://127.0.0.1:9")
    for provider in ("openai", name.split("/")[0].replace("_chat", "")):
        done = subprocess.run([CLI, "models", "--json"], cwd=tmp_path, env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        assert json.loads(done.stdout)["model"]["provider"] == provider
        assert ("is not trusted, so these are not used: " in done.stderr) == (provider == "openai")
        trust(tmp_path, env)


def test_the_own_key_goes_to_the_configured_provider_only(tmp_path: Path, serve: Callable[..., Server]) -> None:
    server = serve(stream(*said("openai")))
    other = serve(stream(*said("anthropic")))
    env = environment(SNIPARA_SANDBOX_LLM_API_KEY=KEY, OPENAI_BASE_URL=server.url, ANTHROPIC_BASE_URL=other.url)
    ask(tmp_path, env, {"model": "gpt-4o"}, {"model": "claude-sonnet-4-5"})
    assert KEY in str(server.requests[0]["headers"]) and KEY not in str(other.requests[0]["headers"])


def test_keys_are_no_arguments(tmp_path: Path, serve: Callable[..., Server]) -> None:
    looked = threading.Event()
    server = serve([looked] + stream(*said("openai")))
    process = subprocess.Popen([CLI, "models", "--check"], cwd=tmp_path, env=environment("openai", server),
                               stdout=subprocess.PIPE, text=True)
    assert lib.wait_for(lambda: server.requests)
    with open(f"/proc/{process.pid}/cmdline") as arguments:
        assert "models" in (words := arguments.read()) and KEY not in words
    looked.set()
    out = process.communicate(timeout=lib.PATIENCE)[0]
    assert process.returncode == 0 and "Answered in" in out and KEY not in out


def test_keys_stay_in_the_program_that_asks(serve: Callable[..., Server]) -> None:
    """A whole run: the key is neither in the daemon nor in the sandbox, nor in any file that is left."""
    code = "import os; print(sorted(os.environ), open('/proc/self/environ').read())"
    calls = [{"id": "c1", "type": "function",
              "function": {"name": "execute_code", "arguments": json.dumps({"code": code})}}]
    server = serve(http(200, {"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}),
                   http(200, {"choices": [{"message": {"content": "the key is " + KEY[:4]}, "finish_reason": "stop"}]}))
    box = lib.Sandbox("user")
    program = os.path.join(box.bin, "snipara-sandbox")
    options: lib.Json = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": lib.PATIENCE,
                         **box.identity()}
    try:
        project = box.make_folder("project")
        env = {**box.env, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}
        # starts a daemon
        done = subprocess.run([program, "run", "look", "--json", "-v"], cwd=project, env=env, **options)
        assert json.loads(done.stdout)["success"] and KEY in str(server.requests[1]["headers"])
        told = server.requests[1]["body"]["messages"][-1]["content"]
        assert "PATH" in told and KEY not in told + done.stdout + done.stderr
        status = subprocess.run([program, "daemon", "status", "--json"], cwd=project, env=box.env, **options)
        daemon = json.loads(status.stdout)["pid"]
        for pid in {daemon, *lib.descendants(daemon)}:
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/environ", "rb") as environ:
                assert KEY.encode() not in environ.read()
        found = subprocess.run(["grep", "-rlF", "--", KEY, box.folder], stdout=subprocess.PIPE, text=True)
        assert found.stdout == ""
        with open(os.path.join(project, "control"), "w") as control:
            control.write(KEY)
        assert subprocess.run(["grep", "-rlF", "--", KEY, box.folder], stdout=subprocess.DEVNULL).returncode == 0
    finally:
        subprocess.run([program, "daemon", "stop"], cwd=box.home, env=box.env, **options)
        box.close()


# Choosing ---------------------------------------------------------------------------------------


def models(cwd: Path, *args: str, **env: Any) -> lib.Json:
    done = subprocess.run([CLI, "models", "--json", *args], cwd=cwd, env=environment(**env), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=lib.PATIENCE)
    assert done.returncode == 0, done.stderr
    model: lib.Json = json.loads(done.stdout)["model"]
    return model


@pytest.mark.parametrize("name, env, provider, model", [
    ("gpt-4o", {}, "openai", "gpt-4o"), ("openai/gpt-4o", {}, "openai", "gpt-4o"),
    ("claude-sonnet-4-5", {}, "anthropic", "claude-sonnet-4-5"),
    ("gemini/gemini-2.5-pro", {}, "gemini", "gemini-2.5-pro"),
    ("openrouter/meta/llama", {}, "openrouter", "meta/llama"), ("ollama/llama3", {}, "ollama", "llama3"),
    ("ollama_chat/llama3", {}, "ollama", "llama3"), ("mistral/mistral-small", {}, "mistral", "mistral-small"),
    ("azure/mine", {"AZURE_API_BASE": "https://x.example", "AZURE_API_KEY": KEY}, "azure", "mine"),
    ("anything/at-all", {"SNIPARA_SANDBOX_BASE_URL": "http://127.0.0.1:4000"}, "openai", "anything/at-all"),
    ("anthropic/claude-x", {"SNIPARA_SANDBOX_BACKEND": "anthropic"}, "anthropic", "claude-x"),
    ("replay/turns.jsonl", {}, "replay", "turns.jsonl"),
    (None, {"ANTHROPIC_API_KEY": KEY}, "anthropic", "claude-sonnet-5-5"),
    (None, {"SNIPARA_SANDBOX_BACKEND": "gemini"}, "gemini", "gemini-3.6-flash"),
    (None, {"SNIPARA_SANDBOX_MODEL": "o3-mini", "ANTHROPIC_API_KEY": KEY}, "openai", "o3-mini"),
])
def test_routes(tmp_path: Path, name: str | None, env: lib.Json, provider: str, model: str) -> None:
    seen = models(tmp_path, *([name] if name else []), **env)
    assert (seen["provider"], seen["model"]) == (provider, model)


def test_addresses_on_the_wire(tmp_path: Path, serve: Callable[..., Server]) -> None:
    """Azure has a path, a version and a header of its own; others are chat completions under their address."""
    rows: list[tuple[str, dict[str, str], str, str, str, tuple[str, str | None]]] = [
        ("azure/mine", {"AZURE_API_KEY": KEY, "AZURE_API_VERSION": "2024-10-21"}, "AZURE_API_BASE", "",
         "/openai/deployments/mine/chat/completions?api-version=2024-10-21", ("api-key", KEY)),
        ("ollama/llama3", {}, "OLLAMA_API_BASE", "", "/v1/chat/completions", ("authorization", None)),
        ("openrouter/meta/llama", {"OPENROUTER_API_KEY": KEY}, "OPENROUTER_API_BASE", "/api/v1",
         "/api/v1/chat/completions", ("authorization", "Bearer " + KEY)),
        ("hosted_vllm/m", {}, "HOSTED_VLLM_API_BASE", "/v1", "/v1/chat/completions", ("authorization", None))]
    for model, env, base, prefix, path, (header, value) in rows:
        server = serve(stream(*said("openai")))
        lines = ask(tmp_path, environment(**env, **{base: server.url + prefix}), {"model": model})
        assert lines[-1][1]["is_ok"], (model, lines)
        sent, = server.requests
        assert (sent["path"], sent["headers"].get(header)) == (path, value), sent
        assert model.startswith("azure") or sent["body"]["model"] == model.split("/", 1)[1]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    assert "OPENAI_API_KEY" in models(tmp_path)["problem"]
    assert "AZURE_API_BASE" in models(tmp_path, "azure/x", AZURE_API_KEY=KEY)["problem"]
    assert "openrouter/NAME" in models(tmp_path, "nobodys")["problem"]
    for url in ("ftp://x", "http://user:password@x", "http://"):
        problem = models(tmp_path, "gpt-4o", OPENAI_BASE_URL=url, OPENAI_API_KEY=KEY)["problem"]
        assert problem.startswith("OPENAI_BASE_URL: ") and "password@" not in problem
    assert "replay_file" in models(tmp_path, SNIPARA_SANDBOX_BACKEND="replay")["problem"]


def test_prices(tmp_path: Path) -> None:
    for name, price in [("gpt-4o-mini-2024-07-18", 0.15), ("gpt-4o-2024-08-06", 2.5), ("o1-mini", 3), ("gpt-4.1", 2),
                        ("claude-sonnet-4-20250514", 3), ("openrouter/openai/gpt-4o", 2.5), ("ollama/x", 0),
                        ("gpt-5-pro", None), ("gpt-4o-audio-preview", None), ("claude-sonnet-4-9", None),
                        ("gpt-9", None)]:
        assert models(tmp_path, name)["input_usd_per_million"] == price, name
    own = tmp_path / "prices.json"
    own.write_text('{"models": {"gpt-9*": {"input": 7, "output": 8}, "gpt-4o": {"input": 1, "output": 1}}}')
    assert models(tmp_path, "gpt-9-large", SNIPARA_SANDBOX_PRICE_FILE=str(own))["input_usd_per_million"] == 7
    assert models(tmp_path, "gpt-4o", SNIPARA_SANDBOX_PRICE_FILE=str(own))["input_usd_per_million"] == 1
    for text, why in [('{"models": {"x": {"input": 1}}}', "output is missing"), ('{"x"', "JSON"), ("{}", "expected"),
                      ('{"models": {"x": {"input": -1, "output": 1}}}', "not a valid price"),
                      ('{"models": {"x": {"input": 1, "output": 1, "long_prompt": {"above": 5, "input_factor": -1, '
                       '"output_factor": 1}}}}', "long_prompt")]:
        own.write_text(text)
        done = subprocess.run([CLI, "models"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
                              env=environment(SNIPARA_SANDBOX_PRICE_FILE=str(own)))
        assert done.returncode == 2 and why in done.stderr and str(own) in done.stderr


def test_cached_tokens_cost_what_they_cost(tmp_path: Path, serve: Callable[..., Server]) -> None:
    usage = {"input_tokens": 1000, "cache_read_input_tokens": 10000, "cache_creation_input_tokens": 2000,
             "output_tokens": 100}
    server = serve(http(200, {**whole_reply("anthropic"), "usage": usage}))
    seen, _ = answer(tmp_path, "anthropic", server)
    assert seen["usage"]["input"] == 13000
    assert abs(seen["cost_usd"] - (1000 * 3 + 10000 * 0.3 + 2000 * 3.75 + 100 * 15) / 1e6) < 1e-12


def test_a_price_beyond_numbers_is_one(tmp_path: Path) -> None:
    """Prices so large that their sum is infinite: the cost is a number, and more than any limit."""
    own = tmp_path / "prices.json"
    own.write_text('{"models": {"gpt-4o": {"input": 1e308, "output": 1e308}}}')
    env = script(tmp_path / "turns.jsonl",
                 {"content": "x", "usage": {"input": 10**9, "output": 10**9}, "model": "gpt-4o"})
    (name, seen), = [each for each in ask(tmp_path, environment(**env, SNIPARA_SANDBOX_PRICE_FILE=str(own)), {})
                     if each[0] == "answer"]
    assert seen["is_ok"] and seen["cost_usd"] == 1e9


# Replay -----------------------------------------------------------------------------------------


def script(path: Path, *turns: lib.Json) -> dict[str, str]:
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    return {"SNIPARA_SANDBOX_BACKEND": "replay", "SNIPARA_SANDBOX_REPLAY_FILE": str(path)}


def test_replay(tmp_path: Path) -> None:
    env = script(tmp_path / "turns.jsonl", {"content": "one"}, {"label": "sub", "content": "below", "repeat": True},
                 {"contains": "again", "content": "two", "usage": {"input": 5, "output": 6}, "model": "gpt-4o"},
                 {"tool_calls": [{"name": "look", "arguments": {"at": "x"}}, {"name": "look", "arguments": "{"}]},
                 {"error": {"failure": "server", "message": "busy", "http_status": 500}}, {"content": "after"},
                 {"error": {"failure": "auth", "message": "no"}})
    again = [{"role": "user", "content": "once again"}]
    asked: list[lib.Json] = [{}, {"label": "sub"}, {"label": "sub"}, {}, {"messages": again}, {}, {}, {}]
    first = [value for name, value in ask(tmp_path, environment(**env), *asked) if name == "answer"]
    second = [value for name, value in ask(tmp_path, environment(**env), *asked) if name == "answer"]
    for one in first + second:
        del one["duration_ms"]
    assert first == second
    texts = [one.get("message", {}).get("content") for one in first]
    assert texts[:5] == ["one", "below", "below", None, "two"]
    calls = first[3]["message"]["tool_calls"]
    assert [call["id"] for call in calls] == ["call_1_0", "call_1_1"] and "_error" in calls[1]["arguments"]
    assert first[4]["cost_usd"] == pytest.approx((5 * 2.5 + 6 * 10) / 1e6)
    assert texts[5] == "after" and first[5]["tries"] == 2 and first[0]["cost_usd"] == 0
    assert first[6]["failure"] == "auth"
    assert first[7]["failure"] == "replay" and "has no answer for request" in first[7]["error"]["message"]


def test_two_scripts_at_once(tmp_path: Path) -> None:
    script(tmp_path / "a", {"content": "a1"}, {"content": "a2"})
    script(tmp_path / "b", {"content": "b1"})
    lines = ask(tmp_path, environment(), {"model": "replay/a"}, {"model": "replay/b"}, {"model": "replay/a"})
    assert [value["message"]["content"] for name, value in lines if name == "answer"] == ["a1", "b1", "a2"]


def test_a_resumed_run_goes_on_in_the_script(tmp_path: Path) -> None:
    env = script(tmp_path / "t", {"content": "one"}, {"content": "two"})
    lines = ask(tmp_path, environment(**env), {"skip": True}, {})
    assert lines[-1][1]["message"]["content"] == "two"


@pytest.mark.parametrize("line, why", [("{", "JSON"), ('{"contnet": "x"}', "did you mean content"),
                                       ('{"stop": "maybe"}', "not a valid stop"),
                                       ('{"error": {"failure": "x"}}', "not a valid failure"),
                                       ('{"tool_calls": [{}]}', "a tool call is"), ('{"content": 7}', "wrong type")])
def test_a_script_that_is_none(tmp_path: Path, line: str, why: str) -> None:
    env = script(tmp_path / "t", {"content": "fine"})
    with open(tmp_path / "t", "a") as out:
        out.write(line + "\n")
    message = ask(tmp_path, environment(**env), {})[-1][1]["error"]["message"]
    assert why in message and "/t:2" in message


@each_kind
def test_a_record_replays_the_same(tmp_path: Path, serve: Callable[..., Server], kind: str) -> None:
    record = str(tmp_path / "record.jsonl")
    server = serve(stream(*said(kind)), FAILING["429"], stream(*said(kind, "Second")),
                   http(400, {"error": {"message": "no"}}))
    request = {"model": KINDS[kind][0]}
    real = ask(tmp_path, environment(kind, server, SNIPARA_SANDBOX_RECORD_FILE=record), request, request, request)
    assert os.stat(record).st_mode & 0o777 == 0o600
    with open(record) as text:
        assert KEY not in text.read()
    again = ask(tmp_path, environment(SNIPARA_SANDBOX_BACKEND="replay", SNIPARA_SANDBOX_REPLAY_FILE=record), {}, {}, {})
    keep = ("is_ok", "message", "stop", "usage", "cost_usd", "model", "reply_id", "failure", "http_status")
    real, again = ([{name: one.get(name) for name in keep} for kind_, one in lines if kind_ == "answer"]
                   for lines in (real, again))
    real[2]["cost_usd"] = again[2]["cost_usd"] = None
    real[2]["model"] = again[2]["model"] = None
    assert real == again and real[1]["message"]["content"] == "Second"


def test_parallel_calls(tmp_path: Path, serve: Callable[..., Server]) -> None:
    server = serve(*[[0.2] + stream(*said("openai", f"n{i}")) for i in range(8)])
    requests = [{"model": "gpt-4o-mini", "parallel": True}] * 8
    lines = ask(tmp_path, environment("openai", server), *requests)
    assert sorted(v["message"]["content"] for name, v in lines if name == "answer") == [f"n{i}" for i in range(8)]
