# SPDX-License-Identifier: Apache-2.0
"""The MCP server before judges that are not ours: the public conformance suite (through a bridge to
stdio), both generations of the official client, the Inspector. They come from npm (tools/mcp-suite)."""

import json
import os
import re
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import lib  # noqa: E402

ROOT = os.path.dirname(lib.HERE)
CONFORMANCE = os.path.join(lib.HERE, "conformance")
SECONDS = 240


@pytest.fixture(scope="module")
def suite():
    """The folder with node_modules."""
    folder = os.environ.get("SNP_MCP_SUITE", os.path.join(lib.BUILD, "mcp-suite"))
    done = subprocess.run([os.path.join(ROOT, "tools", "mcp-suite"), folder], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600)
    lib.need("npm", done.returncode == 0, done.stdout.strip())
    return folder


@pytest.fixture(scope="module")
def box():
    made = lib.Sandbox("root" if os.geteuid() == 0 else "user")
    made.start()
    yield made
    made.close()


def node(suite, *args):
    return [os.path.join(suite, "node_modules", ".bin", "node"), *args]


@pytest.mark.parametrize("revision, scored", [("2025-11-25", 30), ("2026-07-28", 37)])
def test_conformance(suite, tmp_path, revision, scored):
    """Every scored server scenario of the suite passes: its exit status counts these only."""
    bridge = subprocess.Popen(
        node(suite, os.path.join(CONFORMANCE, "bridge.mjs"), "--", os.path.join(lib.BUILD, "mcp-fixture")),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = int(bridge.stdout.readline())
        done = subprocess.run(
            node(suite, os.path.join(suite, "node_modules/@modelcontextprotocol/conformance/dist/index.js"), "server",
                 "--url", f"http://127.0.0.1:{port}/mcp", "--requirements", revision, "-o", str(tmp_path)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    finally:
        bridge.stdin.close()
        bridge.wait(20)
        bridge.stdout.close()
    passed = re.findall(r"^✓ ([a-z0-9-]+): \d+ passed, 0 failed", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stdout[-6000:]
    assert len(set(passed)) >= scored, done.stdout[-6000:]


@pytest.mark.parametrize("which", ["v1", "v2", "v2-modern"])
def test_official_clients(suite, box, which):
    program = os.path.join(box.bin, "snipara-sandbox")
    done = subprocess.run(
        node(suite, os.path.join(CONFORMANCE, "sdk.mjs"), which, program, "mcp-serve", "--no-project"),
        cwd=suite, env={**os.environ, **box.env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "execute_python" in seen["tools"] and seen["prompts"] == ["repair", "analyze_data"]
    assert seen["value"] == "42" and seen["structured"] == "42" and seen["failed"] is True
    assert len(seen["progress"]) >= 2 and seen["progress"] == sorted(set(seen["progress"]))
    assert seen["cancelled"] is True and seen["after"] == "'free'"
    assert seen["errors"] == []  # nothing came late or unasked
    assert seen["closed_ms"] < 1900  # it left by itself: the client waits two seconds, then kills


def inspect(suite, box, *args):
    launcher = os.path.join(suite, "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
    # it gives its servers a few variables only: without these they would start a daemon elsewhere
    folders = [word for name, value in box.env.items() if name.startswith("SNIPARA_SANDBOX_")
               for word in ("-e", f"{name}={value}")]
    return subprocess.run(
        node(suite, launcher, "--cli", *folders, os.path.join(box.bin, "snipara-sandbox"), "mcp-serve", *args,
             "--format", "json"),
        cwd=box.home, env={**os.environ, **box.env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, timeout=SECONDS)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector(suite, box, era):
    """It lists, finds nothing to complain of in the schemas (--strict), and calls."""
    listed = inspect(suite, box, "--protocol-era", era, "--method", "tools/list", "--strict")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert "execute_python" in listed.stdout
    called = inspect(suite, box, "--protocol-era", era, "--method", "tools/call", "--tool-name", "execute_python",
                     "--tool-args-json", '{"code": "6 * 7"}')
    assert called.returncode == 0 and "42" in called.stdout, called.stdout + called.stderr
    failed = inspect(suite, box, "--protocol-era", era, "--method", "tools/call", "--tool-name", "execute_python",
                     "--tool-args-json", '{"code": "1 / 0"}')
    assert failed.returncode == 5, failed.stdout + failed.stderr  # its status for isError
