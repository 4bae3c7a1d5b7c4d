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
    ours = made["mcpServers"].pop("SniparaSandbox")
    assert ours["args"] == ["mcp-serve"] and ours.get("env") == ({"A": "1"} if '"env"' in old else None)
    before.get("mcpServers", {}).pop("SniparaSandbox", None)
    assert {"mcpServers": {}, **before} == made
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    if "0.1" in old:
        assert '"a": 0.1, "b": 1e3}' in new  # as it was written
    changed = [line for line in done.stdout.splitlines() if line[:1] in "+-"]
    assert any(line.startswith("+") and "SniparaSandbox" in line for line in changed)


@pytest.mark.parametrize("old, kept", [
    ("// mine\n{\n  // servers\n}\n", ["// mine", "// servers"]),
    ('{ /* a */ "mcpServers": { /* b */ }, // c: {"mcpServers": 1}\n}', ["/* a */", "/* b */", '// c: {"mcpServers": 1}']),
    ('{"mcpServers": {"x": {"command": "//no", "args": ["/*", "*/",]},},}', ['"//no"', '"*/",]},']),
    ('\ufeff{"a": [1, 2, ], }', ["\ufeff", "[1, 2, ]"]),
    ('{"mcpServers": {"SniparaSandbox": {"command": "old" /* was */}, /* z */ "y": 1}}', ["/* z */", '"y": 1']),
])
def test_comments_stay(box, old, kept):
    """As editors allow them in their settings; what is read after it is what was, and we."""
    path = box.make_file("project/.vscode/mcp.json", old.replace("mcpServers", "servers"))
    done = install(box, "vscode", "--yes")
    assert done.returncode == 0, done.stderr
    new = open(path).read()
    assert all(one.replace("mcpServers", "servers") in new for one in kept) and "mcp-serve" in new
    again = install(box, "vscode", "--yes")
    assert "already" in again.stdout and open(path).read() == new


def test_options_of_its_owner_stay(box):
    """Only what starts us is ours to change, and nothing if it is right."""
    install(box, "cursor", "--yes")
    path = os.path.join(box.folder, FILES["cursor"])
    config = json.loads(open(path).read())
    entry = config["mcpServers"]["SniparaSandbox"]
    entry["args"] += ["--tools", "core"]
    entry["env"] = {"A": "1"}
    text = json.dumps(config)
    box.make_file("home/.cursor/mcp.json", text)
    assert "already" in install(box, "cursor", "--yes").stdout and open(path).read() == text
    entry["command"] = "/old/place"
    box.make_file("home/.cursor/mcp.json", json.dumps(config))
    assert install(box, "cursor", "--yes").returncode == 0
    assert json.loads(open(path).read()) == json.loads(text)


@pytest.mark.parametrize("old", ["[]", "nonsense", "/* no end {}", "// only this", '{"a":1,"a":2}', "{,}", "[" * 100])
def test_what_cannot_be_read_is_left(box, old):
    path = box.make_file("project/.mcp.json", old)
    done = install(box, "claude", "--yes")
    assert done.returncode == 2 and "by hand" in done.stderr and open(path).read() == old


def test_toml_is_appended(box):
    path = box.make_file("home/.codex/config.toml", '# mine\nmodel = "m"\n[mcp_servers.x]\ncommand = "y"')
    assert install(box, "codex", "--yes").returncode == 0
    assert open(path).read().startswith(
        '# mine\nmodel = "m"\n[mcp_servers.x]\ncommand = "y"\n\n[mcp_servers.SniparaSandbox]\n')


def test_toml_with_an_older_place(box):
    old = ('[mcp_servers.SniparaSandbox] # ours\n# where\ncommand = "/old/place"\nargs = ["mcp-serve", "--tools", "core"]\n'
           'startup_timeout_sec = 9\n[mcp_servers.x]\ncommand = "y" # theirs\n')
    path = box.make_file("home/.codex/config.toml", old)
    assert install(box, "codex", "--yes").returncode == 0
    before, after = old.splitlines(), open(path).read().splitlines()
    changed = [(a, b) for a, b in zip(before, after) if a != b]
    assert len(changed) == 1 and len(before) == len(after) and changed[0][0] == 'command = "/old/place"'
    assert "already" in install(box, "codex", "--yes").stdout


@pytest.mark.parametrize("old", ['mcp_servers = {x = {command = "y"}}', "model = ", '[mcp_servers]\nSniparaSandbox = {command = "x"}',
                                 '["mcp_servers"."SniparaSandbox"]\ncommand = "x"', 'mcp_servers = 7'])
def test_toml_that_is_not_ours_to_change(box, old):
    path = box.make_file("home/.codex/config.toml", old)
    done = install(box, "codex", "--yes")
    assert done.returncode == 2 and "by hand" in done.stderr and open(path).read() == old


# Links and owners ---------------------------------------------------------------------------


def test_a_link_of_ones_own_stays_a_link(box):
    """Configuration kept in another folder of one's own."""
    real = box.make_file("dotfiles/mcp.json", "{}", mode=0o640)
    os.symlink(real, os.path.join(box.make_folder("home/.cursor"), "mcp.json"))
    assert install(box, "cursor", "--yes").returncode == 0
    assert os.path.islink(os.path.join(box.folder, FILES["cursor"])) and "SniparaSandbox" in open(real).read()
    assert stat.S_IMODE(os.stat(real).st_mode) == 0o640


@pytest.mark.parametrize("way", ["file", "folder", "dangling"])
def test_a_project_leads_nowhere_else(box, way):
    """A repository's links: to a file of the user's, to a folder, to what is not there. The control writes it."""
    project = box.make_folder("project")
    target = os.path.join(box.make_folder("private"), "mcp.json")
    if way == "folder":
        os.symlink(os.path.dirname(target), os.path.join(project, ".vscode"))
    else:
        if way == "file":
            box.make_file("private/mcp.json", "{}")
        os.symlink(target, os.path.join(box.make_folder("project/.vscode"), "mcp.json"))
    done = install(box, "vscode", "--yes")
    assert done.returncode != 0 and "link" in done.stderr, done.stderr
    assert not os.path.exists(target) or open(target).read() == "{}"
    with open(os.path.join(project, ".vscode", "mcp.json"), "w") as text:  # the control: links can be written through
        text.write("through")
    assert open(target).read() == "through"


def test_neither_devices_nor_folders(box):
    os.mkfifo(os.path.join(box.make_folder("project"), ".mcp.json"))
    assert install(box, "claude", "--yes").returncode != 0


def test_files_of_others_are_theirs(box):
    lib.need("root", os.geteuid() == 0, "to have a file of somebody else")
    path = box.make_file("project/.mcp.json", "{}", mode=0o666)
    os.chown(path, 65534, 65534)
    done = install(box, "claude", "--yes")
    assert done.returncode != 0 and "belongs to user 65534" in done.stderr and open(path).read() == "{}"


def test_nobody(box):
    done = install(box, "emacs")
    assert done.returncode == 2 and "gemini" in done.stderr
