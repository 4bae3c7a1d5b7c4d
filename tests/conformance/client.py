#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""client.py PROGRAM URL: what the public conformance suite runs as its client: `snipara-sandbox mcp` does
what the scenario (a variable) wants from whoever drives a client. The exit status is the last one's."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

PROGRAM, URL = sys.argv[1:]
SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
# Scenarios of the old versions open with a handshake; others leave it to the client to find out.
LEGACY = ["--protocol", "legacy"] if os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] < "2026" else []


def mcp(*words: str, check: bool = True) -> str:
    done = subprocess.run([PROGRAM, "mcp", *words, "--url", URL, "--timeout", "20", *LEGACY],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if check and done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout


def call(tool: str, **arguments: Any) -> str:
    return mcp("call", tool, json.dumps(arguments))


def call_all() -> None:
    """Every tool that the client lists."""
    for tool in json.loads(mcp("tools", "--json"))["tools"]:
        mcp("call", tool["name"], '{"region": "us-west1"}')


def standard_headers() -> None:
    call("test_headers")
    call("my-hyphenated-tool")
    for resource in json.loads(mcp("resources", "--json"))["resources"]:
        mcp("read", resource["uri"], "--json")
    mcp("prompts")
    mcp("prompt", "test_prompt")


def inputs() -> None:
    for tool in ("echo_state", "unrelated", "no_state", "no_result_type"):
        mcp("call", f"test_mrtr_{tool}", "--accept-defaults")


SCENARIOS: dict[str, Callable[[], object]] = {
    "initialize": lambda: mcp("info"),
    "tools_call": lambda: call("add_numbers", a=5, b=3),
    "elicitation-sep1034-client-defaults":
        lambda: mcp("call", "test_client_elicitation_defaults", "--accept-defaults"),
    "sse-retry": lambda: call("test_reconnection"),
    "request-metadata": lambda: mcp("tools"),
    "http-standard-headers": standard_headers,
    "http-custom-headers": lambda: [call(one["name"], **one["arguments"]) for one in CONTEXT["toolCalls"]],
    "http-invalid-tool-headers": call_all,
    "sep-2322-client-request-state": inputs,
    "json-schema-ref-no-deref": lambda: mcp("tools"),
    "json-schema-2020-12-preservation": lambda: echo_schema(),
}


def echo_schema() -> None:
    tools = {tool["name"]: tool for tool in json.loads(mcp("tools", "--json"))["tools"]}
    focal = next(tool for name, tool in tools.items() if name != "json_schema_echo")
    call("json_schema_echo", schema=focal["inputSchema"])


SCENARIOS[SCENARIO]()
