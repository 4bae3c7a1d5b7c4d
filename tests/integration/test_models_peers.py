# SPDX-License-Identifier: Apache-2.0
"""Providers of models before peers that are not ours: a server from npm that speaks all their protocols
(tools/model-suite), and what their official clients put on the wire (tests/conformance/sdk_requests.mjs)."""

import contextlib
import json
import os
import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import lib
import test_models
from test_models import ASK, HELLO, KEY, KINDS, TOOL, Server, said, stream

ROOT = os.path.dirname(lib.HERE)
each_kind = pytest.mark.parametrize("kind", list(KINDS))
FIXTURES = {"fixtures": [
    {"match": {"userMessage": "weather", "turnIndex": 0}, "response": {
        "content": "Let me look.", "toolCalls": [{"name": "look", "arguments": '{"at": "Paris"}'},
                                                 {"name": "look", "arguments": '{"at": "Rome"}'}]}},
    {"match": {"userMessage": "weather", "turnIndex": 1}, "response": {"content": "Sunny in both."}},
    {"match": {"userMessage": "hello"}, "response": {
        "content": "Hello there, how are you today? \u2764",
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "input_tokens": 11, "output_tokens": 7}}},
]}


# A server of others -----------------------------------------------------------------------------


class Peer:
    def __init__(self, suite: str, folder: str) -> None:
        fixtures = os.path.join(folder, "fixtures.json")
        with open(fixtures, "w") as out:
            json.dump(FIXTURES, out)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            ["node", os.path.join(suite, "node_modules/@copilotkit/aimock/dist/cli.js"), "-p", str(port), "-f",
             fixtures,
             "--chunk-size", "5"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in lib.some(self.process.stdout):
            if "listening" in line:
                return
        raise AssertionError("the server did not start")

    def chaos(self, **rates: float) -> None:
        request = urllib.request.Request(self.url + "/__aimock/chaos", json.dumps(rates).encode(),
                                         {"Content-Type": "application/json"}, method="POST" if rates else "DELETE")
        urllib.request.urlopen(request).close()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(lib.PATIENCE)
        lib.some(self.process.stdout).close()


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    folder = os.environ.get("SNP_MODEL_SUITE", os.path.join(lib.BUILD, "model-suite"))
    done = subprocess.run([os.path.join(ROOT, "tools", "model-suite"), folder], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=5 * lib.PATIENCE)
    lib.need("npm", done.returncode == 0, done.stdout.strip())
    made = Peer(folder, str(tmp_path_factory.mktemp("peer")))
    yield made
    made.close()


@each_kind
def test_a_stream(tmp_path: Path, peer: Peer, kind: str) -> None:
    seen, events = test_models.answer(tmp_path, kind, peer,
                                      {"messages": [{"role": "system", "content": "Brief."}, *HELLO]})
    assert seen["is_ok"] and seen["message"]["content"] == "Hello there, how are you today? \u2764"
    assert len(events) > 3 and "".join(text for _, text in events) == seen["message"]["content"]
    assert seen["usage"]["input"] > 0 and seen["usage"]["output"] > 0 and seen["stop"] == "end"


@each_kind
def test_a_conversation_with_tools(tmp_path: Path, peer: Peer, kind: str) -> None:
    messages = [{"role": "user", "content": "weather"}]
    first, events = test_models.answer(tmp_path, kind, peer, {"messages": messages, "tools": [TOOL]})
    calls = first["message"]["tool_calls"]
    assert first["stop"] == "tools" and [call["arguments"]["at"] for call in calls] == ["Paris", "Rome"]
    assert len({call["id"] for call in calls}) == 2 and ("call", "look") in events
    messages += [first["message"]] + [{"role": "tool", "tool_call_id": call["id"], "name": "look", "content": "sunny"}
                                      for call in calls]
    last, _ = test_models.answer(tmp_path, kind, peer, {"messages": messages, "tools": [TOOL]})
    assert last["is_ok"] and last["message"]["content"] == "Sunny in both."


@each_kind
@pytest.mark.parametrize("fault, failure", [("dropRate", "server"), ("malformedRate", "reply"),
                                            ("disconnectRate", "network"), ("rateLimitRate", "rate_limit")])
def test_chaos_passes(tmp_path: Path, peer: Peer, kind: str, fault: str, failure: str) -> None:
    """A fault that lasts is reported; one that ends while it is tried again is survived."""
    request = {"model": KINDS[kind][0], "messages": HELLO}
    peer.chaos(**{fault: 1})
    try:
        once = test_models.ask(tmp_path, test_models.environment(kind, peer), {**request, "max_tries": 1})
        assert once[-1][1]["failure"] == failure
        with subprocess.Popen([ASK], cwd=tmp_path, env=test_models.environment(kind, peer), text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            lib.some(process.stdin).write(json.dumps(request) + "\n")
            lib.some(process.stdin).close()
            assert "retry" in lib.some(process.stdout).readline()
            peer.chaos()
            lines = lib.some(process.stdout).read().splitlines()
    finally:
        peer.chaos()
    seen = json.loads(lines[-1])["answer"]
    assert process.returncode == 0 and seen["is_ok"] and seen["tries"] >= 2
    assert seen["message"]["content"].startswith("Hello there")


# What official clients send ---------------------------------------------------------------------


CONVERSATION = [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "look", "arguments": {"at": "x"}}]},
    {"role": "tool", "tool_call_id": "c1", "name": "look", "content": "seen"},
]
# The rest is as the clients send it.
DIFFERENCES: dict[str, lib.Json] = {
    # the key in the header of the version that is asked for; this one still lets older models have a temperature
    "anthropic": {"headers": {"authorization": None, "x-api-key": "KEY", "anthropic-version": "2023-06-01"}},
    "openai": {},
    "gemini": {"body": {"systemInstruction": {"parts": [{"text": "Be brief."}]}}},  # no role: it says nothing
}


@each_kind
def test_requests_are_what_official_clients_send(tmp_path: Path, kind: str) -> None:
    with open(os.path.join(lib.HERE, "integration", "golden", "model-requests.json")) as file:
        expected = json.load(file)[list(KINDS).index(kind)]
    with contextlib.closing(Server(stream(*said(kind)))) as server:
        test_models.answer(tmp_path, kind, server, {"messages": CONVERSATION, "tools": [TOOL], "max_tokens": 50},
                           SNIPARA_SANDBOX_TEMPERATURE="0")
    sent, = server.requests
    for part, changes in DIFFERENCES[kind].items():
        expected[part] = {name: value for name, value in {**expected[part], **changes}.items() if value is not None}
    headers = {name: sent["headers"].get(name) for name in expected["headers"]}
    assert {name: re.sub(KEY, "KEY", value or "") for name, value in headers.items()} == expected["headers"]
    assert (sent["method"], sent["path"]) == (expected["method"], expected["path"])
    assert sent["body"] == expected["body"]
