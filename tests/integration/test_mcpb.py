# SPDX-License-Identifier: Apache-2.0
"""The MCPB bundle (`make mcpb`): what a client would unpack is started and asked; the public tool finds no fault."""

import json
import os
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

import lib

ROOT = os.path.dirname(lib.HERE)
URL = "https://example.com/releases/snipara-sandbox.mcpb"


def make(*words: str) -> subprocess.CompletedProcess[Any]:
    return subprocess.run([os.path.join(ROOT, "tools", "mcpb"), lib.BUILD, *words], capture_output=True, text=True,
                          timeout=2 * lib.PATIENCE, check=False)


@pytest.fixture(scope="module")
def bundle() -> tuple[Any, Any]:
    done = make(URL)
    assert done.returncode == 0, done.stderr
    digest, path = done.stdout.split()
    return path, digest


def test_the_same_build_makes_the_same_bundle(bundle: tuple[Any, Any]) -> None:
    assert make().stdout.split()[0] == bundle[1]


def test_what_is_unpacked_serves(bundle: tuple[Any, Any], tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle[0]) as packed:
        config = json.loads(packed.read("manifest.json"))["server"]["mcp_config"]
        for info in packed.infolist():  # with their modes, as clients unpack
            path = packed.extract(info, tmp_path)
            os.chmod(path, info.external_attr >> 16)
    command = config["command"].replace("${__dirname}", str(tmp_path))
    done = subprocess.run([os.path.join(lib.BUILD, "snipara-sandbox"), "mcp", "tools", "--json", "--", command,
                           *config["args"], "--no-project"], capture_output=True, text=True, timeout=lib.PATIENCE,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert "execute_python" in [tool["name"] for tool in json.loads(done.stdout)["tools"]]


def test_what_is_missing_is_said(bundle: tuple[Any, Any], tmp_path: Path) -> None:
    """Without the library it needs, the program ends with words a log shows."""
    with zipfile.ZipFile(bundle[0]) as packed:
        packed.extract("server/start", tmp_path)
    done = subprocess.run(["/bin/sh", str(tmp_path / "server" / "start")], capture_output=True, text=True,
                          timeout=lib.PATIENCE, check=False)
    assert done.returncode == 1 and "cannot start" in done.stderr and "apt install libuv1" in done.stderr


def test_the_entry_for_the_registry(bundle: tuple[Any, Any]) -> None:
    """What the registry's schema asks of a server, and of a package of this kind."""
    with open(os.path.join(lib.BUILD, "server.json")) as file:
        entry = json.load(file)
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"]) and 1 <= len(entry["description"]) <= 100
    assert entry["packages"] == [{"registryType": "mcpb", "identifier": URL, "version": entry["version"],
                                  "fileSha256": bundle[1], "transport": {"type": "stdio"}}]
    assert re.fullmatch(r"[a-f0-9]{64}", bundle[1])
    for wrong in (["http://example.com/x.mcpb"], [URL, "noslash"]):
        assert make(*wrong).returncode == 1


def test_the_public_tool_agrees(bundle: tuple[Any, Any]) -> None:
    tool = os.path.join(os.environ.get("SNP_MCP_SUITE", os.path.join(lib.BUILD, "mcp-suite")), "node_modules/.bin/mcpb")
    lib.need("npm", os.path.exists(tool), "tools/mcp-suite has not installed the tool")
    done = subprocess.run([tool, "info", bundle[0]], capture_output=True, text=True, timeout=lib.PATIENCE, check=False)
    assert done.returncode == 0 and "snipara-sandbox" in done.stdout, done.stdout + done.stderr
