# SPDX-License-Identifier: Apache-2.0
"""mcp-install: what it writes into which file, and that it leaves the rest of it alone."""

import json
import os
import stat
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import lib  # noqa: E402

FILES = {"claude": "project/.mcp.json", "vscode": "project/.vscode/mcp.json", "cursor": "home/.cursor/mcp.json",
         "claude-desktop": "home/.config/Claude/claude_desktop_config.json", "gemini": "home/.gemini/settings.json",
         "codex": "home/.codex/config.toml"}


@pytest.fixture
def box():
    made = lib.Sandbox("user")
    yield made
    made.close()


def install(box, client, *options, **kwargs):
    return box.cli("mcp-install", client, *options, cwd=box.make_folder("project"), **kwargs)


@pytest.mark.parametrize("client", FILES)
def test_a_new_file(box, client):
    path = os.path.join(box.folder, FILES[client])
    done = install(box, client)
    assert done.returncode == 1 and "--yes" in done.stderr and "+" in done.stdout and not os.path.exists(path)
    done = install(box, client, "--yes")
    assert done.returncode == 0 and path in done.stdout
    text = open(path).read()
    if client == "codex":
        assert text.startswith("[mcp_servers.SniparaSandbox]\ncommand = ") and 'args = ["mcp-serve"]' in text
    else:
        entry = json.loads(text)["servers" if client == "vscode" else "mcpServers"]["SniparaSandbox"]
        assert entry["args"] == ["mcp-serve"] and os.access(entry["command"], os.X_OK)
    again = install(box, client, "--yes")
    assert again.returncode == 0 and "already" in again.stdout and open(path).read() == text


@pytest.mark.parametrize("old", [
    "{}", "", "  \n", '{"a": 0.1, "b": 1e3}', '{"mcpServers": {}}', '{\t"x":[{"mcpServers":{"y":"}"}}],"mcpServers":null}',
    '{"mcpServers":{"other":{"command":"c","args":["\\"}{"]}},"z":1}',
    '{"z": {"SniparaSandbox": 1},\n  "mcpServers": {"SniparaSandbox": {"command": "old", "env": {"A": "1"}}, "b": 2}}'])
def test_all_else_stays(box, old):
    path = box.make_file("project/.mcp.json", old, mode=0o600)
    done = install(box, "claude", "--yes")
    new = open(path).read()
    if '"mcpServers":null' in old:
        assert done.returncode == 2 and "by hand" in done.stderr and new == old
        return
    assert done.returncode == 0, done.stderr
    made, before = json.loads(new), json.loads(old if old.strip() else "{}")
    assert made["mcpServers"].pop("SniparaSandbox")["args"] == ["mcp-serve"]
    before.get("mcpServers", {}).pop("SniparaSandbox", None)
    assert {"mcpServers": {}, **before} == made
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    if "0.1" in old:
        assert '"a": 0.1, "b": 1e3}' in new  # as it was written
    changed = [line for line in done.stdout.splitlines() if line[:1] in "+-"]
    assert any(line.startswith("+") and "SniparaSandbox" in line for line in changed)


@pytest.mark.parametrize("old", ["[]", "nonsense", "// comment\n{}", '{"a":1,"a":2}', "[" * 100])
def test_what_cannot_be_read_is_left(box, old):
    path = box.make_file("project/.mcp.json", old)
    done = install(box, "claude", "--yes")
    assert done.returncode == 2 and "by hand" in done.stderr and open(path).read() == old


def test_toml_is_appended(box):
    path = box.make_file("home/.codex/config.toml", 'model = "m"\n[mcp_servers.x]\ncommand = "y"')
    assert install(box, "codex", "--yes").returncode == 0
    assert open(path).read().startswith('model = "m"\n[mcp_servers.x]\ncommand = "y"\n\n[mcp_servers.SniparaSandbox]\n')


def test_a_link_stays_a_link(box):
    real = box.make_file("dotfiles/mcp.json", "{}")
    os.symlink(real, os.path.join(box.make_folder("project"), ".mcp.json"))
    assert install(box, "claude", "--yes").returncode == 0
    assert os.path.islink(os.path.join(box.folder, "project/.mcp.json")) and "SniparaSandbox" in open(real).read()


def test_nobody(box):
    done = install(box, "emacs")
    assert done.returncode == 2 and "gemini" in done.stderr
