# SPDX-License-Identifier: Apache-2.0
"""mcp-install: what it writes into which file, and that it leaves the rest of it alone. What it writes, and the
clients'
own commands that docs/ shows, connect to us: tried with the clients (tools/mcp-suite), without an account."""

import glob
import json
import os
import re
import shlex
import stat
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lib
import mcp_http

ROOT = os.path.dirname(lib.HERE)

FILES = {"claude": "project/.mcp.json", "vscode": "project/.vscode/mcp.json", "cursor": "home/.cursor/mcp.json",
         "claude-desktop": "home/.config/Claude/claude_desktop_config.json", "gemini": "home/.gemini/settings.json",
         "qwen": "home/.qwen/settings.json",
         "codex": "home/.codex/config.toml"}


@pytest.fixture
def box() -> Iterator[lib.Sandbox]:
    made = lib.Sandbox("user")
    yield made
    made.close()


def install(box: lib.Sandbox, client: str, *options: str, **kwargs: Any) -> subprocess.CompletedProcess[Any]:
    return box.cli("mcp-install", client, *options, cwd=box.make_folder("project"), **kwargs)


@pytest.mark.parametrize("client", FILES)
def test_a_new_file(box: lib.Sandbox, client: str) -> None:
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
    "{}", "", "  \n", '{"a": 0.1, "b": 1e3}', '{"mcpServers": {}}',
    '{\t"x":[{"mcpServers":{"y":"}"}}],"mcpServers":null}',
    '{"mcpServers":{"other":{"command":"c","args":["\\"}{"]}},"z":1}',
    '{"z": {"SniparaSandbox": 1},\n  "mcpServers": {"SniparaSandbox": {"command": "old", "env": {"A": "1"}}, "b": 2}}'])
def test_all_else_stays(box: lib.Sandbox, old: str) -> None:
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
    ('{ /* a */ "mcpServers": { /* b */ }, // c: {"mcpServers": 1}\n}',
     ["/* a */", "/* b */", '// c: {"mcpServers": 1}']),
    ('{"mcpServers": {"x": {"command": "//no", "args": ["/*", "*/",]},},}', ['"//no"', '"*/",]},']),
    ('\ufeff{"a": [1, 2, ], }', ["\ufeff", "[1, 2, ]"]),
    ('{"mcpServers": {"SniparaSandbox": {"command": "old" /* was */}, /* z */ "y": 1}}', ["/* z */", '"y": 1']),
])
def test_comments_stay(box: lib.Sandbox, old: str, kept: list[str]) -> None:
    """As editors allow them in their settings; what is read after it is what was, and we."""
    path = box.make_file("project/.vscode/mcp.json", old.replace("mcpServers", "servers"))
    done = install(box, "vscode", "--yes")
    assert done.returncode == 0, done.stderr
    new = open(path).read()
    assert all(one.replace("mcpServers", "servers") in new for one in kept) and "mcp-serve" in new
    again = install(box, "vscode", "--yes")
    assert "already" in again.stdout and open(path).read() == new


def test_options_of_its_owner_stay(box: lib.Sandbox) -> None:
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
def test_what_cannot_be_read_is_left(box: lib.Sandbox, old: str) -> None:
    path = box.make_file("project/.mcp.json", old)
    done = install(box, "claude", "--yes")
    assert done.returncode == 2 and "by hand" in done.stderr and open(path).read() == old


@pytest.mark.parametrize("client, file, old", [
    ("claude", "project/.mcp.json",
     '{"mcpServers": {"snipara-sandbox": {"command": "snipara-sandbox", "args": ["mcp-serve"], "env": {"A": "1"}}}}'),
    ("codex", "home/.codex/config.toml",
     '[mcp_servers.snipara-sandbox]\ncommand = "/old/place"\nargs = ["mcp-serve"]\n'),
])
def test_the_entry_of_earlier_documents_is_ours(box: lib.Sandbox, client: str, file: str, old: str) -> None:
    path = box.make_file(file, old)
    assert install(box, client, "--yes", "--memory", "1g").returncode == 0
    new = open(path).read()
    assert "SniparaSandbox" not in new and "--memory" in new and new.count("snipara-sandbox") >= 1
    assert "already" in install(box, client, "--yes").stdout
    box.make_file(file, old.replace("mcp-serve", "other"))  # an entry of another program
    assert install(box, client, "--yes").returncode == 0 and "SniparaSandbox" in open(path).read()


def test_toml_is_appended(box: lib.Sandbox) -> None:
    path = box.make_file("home/.codex/config.toml", '# mine\nmodel = "m"\n[mcp_servers.x]\ncommand = "y"')
    assert install(box, "codex", "--yes").returncode == 0
    assert open(path).read().startswith(
        '# mine\nmodel = "m"\n[mcp_servers.x]\ncommand = "y"\n\n[mcp_servers.SniparaSandbox]\n')


def test_toml_with_an_older_place(box: lib.Sandbox) -> None:
    old = ('[mcp_servers.SniparaSandbox] # ours\n# where\ncommand = "/old/place"\n'
           'args = ["mcp-serve", "--tools", "core"]\n'
           'startup_timeout_sec = 9\n[mcp_servers.x]\ncommand = "y" # theirs\n')
    path = box.make_file("home/.codex/config.toml", old)
    assert install(box, "codex", "--yes").returncode == 0
    before, after = old.splitlines(), open(path).read().splitlines()
    changed = [(a, b) for a, b in zip(before, after) if a != b]
    assert len(changed) == 1 and len(before) == len(after) and changed[0][0] == 'command = "/old/place"'
    assert "already" in install(box, "codex", "--yes").stdout


@pytest.mark.parametrize("old", ['mcp_servers = {x = {command = "y"}}', "model = ",
                                 '[mcp_servers]\nSniparaSandbox = {command = "x"}',
                                 '["mcp_servers"."SniparaSandbox"]\ncommand = "x"', 'mcp_servers = 7'])
def test_toml_that_is_not_ours_to_change(box: lib.Sandbox, old: str) -> None:
    path = box.make_file("home/.codex/config.toml", old)
    done = install(box, "codex", "--yes")
    assert done.returncode == 2 and "by hand" in done.stderr and open(path).read() == old


# Links and owners ---------------------------------------------------------------------------


def test_a_link_of_ones_own_stays_a_link(box: lib.Sandbox) -> None:
    """Configuration kept in another folder of one's own."""
    real = box.make_file("dotfiles/mcp.json", "{}", mode=0o640)
    os.symlink(real, os.path.join(box.make_folder("home/.cursor"), "mcp.json"))
    assert install(box, "cursor", "--yes").returncode == 0
    assert os.path.islink(os.path.join(box.folder, FILES["cursor"])) and "SniparaSandbox" in open(real).read()
    assert stat.S_IMODE(os.stat(real).st_mode) == 0o640


@pytest.mark.parametrize("way", ["file", "folder", "dangling"])
def test_a_project_leads_nowhere_else(box: lib.Sandbox, way: str) -> None:
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


def test_neither_devices_nor_folders(box: lib.Sandbox) -> None:
    os.mkfifo(os.path.join(box.make_folder("project"), ".mcp.json"))
    assert install(box, "claude", "--yes").returncode != 0


def test_files_of_others_are_theirs(box: lib.Sandbox) -> None:
    lib.need("root", os.geteuid() == 0, "to have a file of somebody else")
    path = box.make_file("project/.mcp.json", "{}", mode=0o666)
    os.chown(path, 65534, 65534)
    done = install(box, "claude", "--yes")
    assert done.returncode != 0 and "belongs to user 65534" in done.stderr and open(path).read() == "{}"


# Options, and where ----------------------------------------------------------------------------


def entry_of(path: str) -> lib.Json:
    """Our entry in a client's file, JSON or our own TOML."""
    with open(path) as file:
        text = file.read()
    if path.endswith(".toml"):
        return {key: json.loads(value) for key, value in re.findall(r"^(\w+) = (.*)$", text, re.MULTILINE)}
    whole = json.loads(text)
    entry: lib.Json = whole.get("servers", whole.get("mcpServers"))["SniparaSandbox"]
    return entry


@pytest.mark.parametrize("client", FILES)
def test_options_go_along(box: lib.Sandbox, client: str) -> None:
    """And are right wherever the client starts the server; both verbs say the same, and what others add stays."""
    other = box.make_folder("other")
    words = ["--tools", "core", "--project", "../other", "--memory=1g", "--no-require-exact", "--allow-degraded"]
    assert install(box, client, "--yes", *words).returncode == 0
    path = os.path.join(box.folder, FILES[client])
    wanted = ["mcp-serve", "--tools", "core", "--project", other, "--memory", "1g", "--allow-degraded",
              "--no-require-exact"]
    assert entry_of(path)["args"] == wanted
    printed = box.cli("mcp-serve", "--print-config", client, *words, cwd=os.path.join(box.folder, "project"))
    assert printed.returncode == 0 and all(word in printed.stdout for word in wanted)
    assert "already" in install(box, client, "--yes").stdout  # none given: those that are there stay
    assert install(box, client, "--yes", "--no-project").returncode == 0
    assert entry_of(path)["args"] == ["mcp-serve", "--no-project"]


@pytest.mark.parametrize("words", [["--tools", "mars"], ["--memory", "banana"], ["--project", "/not/there"],
                                   ["--http", "unix:/x"],
                                   ["--http", "0"], ["--http", "x"], ["--no-token"], ["--config", "/not/there"]])
def test_what_the_server_would_refuse(box: lib.Sandbox, words: list[str]) -> None:
    done = install(box, "codex", "--yes", *words)
    assert done.returncode == 2 and words[0] in done.stderr or "mars" in done.stderr
    assert not os.path.exists(os.path.join(box.folder, FILES["codex"]))


@pytest.mark.parametrize("client", FILES)
def test_http_and_back(box: lib.Sandbox, client: str) -> None:
    """The token is in no file; the entry changes from one kind to the other and keeps what its owner added."""
    path = os.path.join(box.folder, FILES[client])
    done = install(box, client, "--yes", "--http", "8765")
    if client == "claude-desktop":
        assert done.returncode != 0 and "leave out --http" in done.stderr and not os.path.exists(path)
        return
    entry = entry_of(path)
    assert entry.get("url", entry.get("httpUrl")) == "http://127.0.0.1:8765/mcp" and "command" not in entry
    assert "SNIPARA_SANDBOX_MCP_TOKEN" in open(path).read()
    assert "mcp-serve --http 8765\n" in done.stderr and "export SNIPARA_SANDBOX_MCP_TOKEN=" in done.stderr
    assert "already" in install(box, client, "--yes", "--http", "8765").stdout
    assert install(box, client, "--yes", "--http", "https://box.example/mcp", "--no-token").returncode == 0
    entry = entry_of(path)
    assert entry.get("url", entry.get("httpUrl")) == "https://box.example/mcp" and "TOKEN" not in open(path).read()
    assert install(box, client, "--yes").returncode == 0
    assert set(entry_of(path)) - {"type"} == {"command", "args"} and entry_of(path).get("type") != "http"


@pytest.mark.parametrize("client, variable, file", [
    ("codex", "CODEX_HOME", "config.toml"), ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
    ("qwen", "QWEN_HOME", "settings.json"),
    ("claude-desktop", "XDG_CONFIG_HOME", "Claude/claude_desktop_config.json")])
def test_variables_of_clients_count(box: lib.Sandbox, client: str, variable: str, file: str) -> None:
    elsewhere = box.make_folder("elsewhere")
    done = install(box, client, "--yes", env={variable: elsewhere})
    assert done.returncode == 0 and os.path.exists(os.path.join(elsewhere, file))
    assert not os.path.exists(os.path.join(box.folder, FILES[client]))
    assert elsewhere in box.cli("mcp-serve", "--print-config", client, env={variable: elsewhere}).stderr
    done = install(box, client, "--yes", env={variable: "/not/there"})
    assert done.returncode != 0 and variable in done.stderr


def test_another_daemon_is_told(box: lib.Sandbox) -> None:
    """Where a client will not have what leads this command to its daemon."""
    plain = {**box.env, "SNIPARA_SANDBOX_RUNTIME_DIR": "", "SNIPARA_SANDBOX_STATE_DIR": ""}
    run = box.make_folder("run-of-login", 0o700)
    rows: list[tuple[dict[str, str], list[str]]] = [
        ({}, []), ({"XDG_RUNTIME_DIR": run}, ["XDG_RUNTIME_DIR"]), ({"XDG_RUNTIME_DIR": "/not/there"}, []),
        ({"XDG_STATE_HOME": run}, ["XDG_STATE_HOME"]), ({"SNIPARA_SANDBOX_RUNTIME_DIR": run}, ["RUNTIME_DIR"]),
        ({"SUDO_UID": "1", "SUDO_USER": "ann", "XDG_STATE_HOME": run}, ["ann", "without sudo"])]
    for env, told in rows:
        done = box.cli("mcp-serve", "--print-config", "cursor", env={**plain, **env})
        notes = [line for line in done.stderr.splitlines() if "another daemon" in line and
                 "warning: HOME is" not in line]
        assert len(notes) == bool(told) and all(word in notes[0] for word in told), done.stderr
    path = box.make_file("home/.cursor/mcp.json", json.dumps(
        {"mcpServers": {"SniparaSandbox": {"command": "x", "env": {"XDG_STATE_HOME": run}}}}))
    done = install(box, "cursor", "--yes", env={**plain, "XDG_STATE_HOME": run})
    assert done.returncode == 0 and "XDG_STATE_HOME is" not in done.stderr and run in open(path).read()  # it was done


# The clients themselves ------------------------------------------------------------------------


DOCUMENTED = sorted({(os.path.relpath(path, ROOT), line.strip().removeprefix("$ "))
                     for path in [os.path.join(ROOT, "README.md"),
                                  *glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True)]
                     for line in open(path) if re.match(r"\s+(\$ )?\w+ mcp add ", line)})


@pytest.fixture(scope="module")
def commands() -> str:
    """A folder with the clients' commands."""
    folder = os.environ.get("SNP_MCP_CLIENTS", os.path.join(lib.BUILD, "mcp-clients"))
    done = subprocess.run([os.path.join(ROOT, "tools", "mcp-suite"), folder, "clients"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=10 * lib.PATIENCE)
    lib.need("npm", done.returncode == 0, done.stdout.strip())
    return os.path.join(folder, "node_modules", ".bin")


@pytest.fixture(scope="module")
def served() -> Iterator[mcp_http.Server]:
    made = lib.Sandbox("root" if os.geteuid() == 0 else "user")
    with mcp_http.Server(made, "--no-project") as server:
        yield server
    made.close()


class Desk:
    """A user's home and project, with the clients and our program in PATH."""

    def __init__(self, commands: str, served: mcp_http.Server, folder: Path) -> None:
        self.served, self.home, self.project = served, str(folder), str(folder / "project")
        os.makedirs(os.path.join(self.home, ".local/state/snipara-sandbox"))
        os.makedirs(self.project)
        with open(os.path.join(self.home, ".local/state/snipara-sandbox/mcp-token"), "w") as file:
            file.write(served.token)
        box = lib.some(served.box)
        self.env = {**box.env, "HOME": self.home, "PATH": f"{commands}:{box.bin}:{box.env['PATH']}",
                    "GEMINI_CLI_TRUST_WORKSPACE": "true", "DISABLE_AUTOUPDATER": "1", "NO_COLOR": "1"}

    def run(self, line: str, **env: Any) -> subprocess.CompletedProcess[Any]:
        return subprocess.run(["bash", "-c", line], cwd=self.project, env={**self.env, **env}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=2 * lib.PATIENCE)

    def approve(self) -> None:
        """As a user does whom Claude Code asks about the project's file."""
        path = os.path.join(self.home, ".claude.json")
        with open(path, "w") as file:
            json.dump({"projects": {self.project: {"hasTrustDialogAccepted": True,
                                                   "enabledMcpjsonServers": ["SniparaSandbox"]}}}, file)

    def connected(self, client: str, name: str) -> Any:
        """Whether the client says so; Codex says what it would do, which is then done."""
        env = {"SNIPARA_SANDBOX_MCP_TOKEN": self.served.token}
        if client != "codex":
            listed = self.run(f"{client} mcp list", **env)
            told = listed.stdout + listed.stderr
            return re.search(rf"{name}: .* - (✔ )?Connected$", told, re.MULTILINE) or told
        got = self.run(f"codex mcp get {name} --json", **env)
        way = json.loads(got.stdout)["transport"]
        hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
        if way["type"] == "stdio":
            said = subprocess.run([way["command"], *way["args"]], input=hello + "\n", cwd=self.project,
                                  stdout=subprocess.PIPE,
                                  text=True, env={**self.env, **(way["env"] or {})},
                                  timeout=lib.PATIENCE).stdout
        else:
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            if way["bearer_token_env_var"]:
                headers["Authorization"] = "Bearer " + env[way["bearer_token_env_var"]]
            asked = urllib.request.Request(way["url"], hello.encode(), headers)
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            said = opener.open(asked, timeout=lib.PATIENCE).read().decode()
        return json.loads(said)["result"]["serverInfo"]["name"] == "SniparaSandbox"


@pytest.fixture
def desk(commands: str, served: mcp_http.Server, tmp_path: Path) -> Desk:
    return Desk(commands, served, tmp_path)


def test_there_are_documented_commands() -> None:
    assert {line.split()[0] for _, line in DOCUMENTED} == {"claude", "codex", "gemini", "qwen"} and len(DOCUMENTED) == 8


@pytest.mark.parametrize("place, line", DOCUMENTED)
def test_documented_commands(desk: Desk, place: str, line: str) -> None:
    client = line.split()[0]
    done = desk.run(line.replace("http://127.0.0.1:8765/mcp", desk.served.url))
    assert done.returncode == 0, f"{place}: {line}\n{done.stderr}"
    told = desk.connected(client, "sandbox")
    assert told and not isinstance(told, str), told


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("client", FILES)
def test_installed_entries(desk: Desk, client: str, way: str) -> None:
    if client not in ("claude", "codex", "gemini", "qwen"):
        pytest.skip(f"{client}: the registry has no package of it")
    desk.approve()
    words = [] if way == "stdio" else ["--http", desk.served.url]
    done = desk.run(shlex.join(["snipara-sandbox", "mcp-install", client, "--yes", *words]))
    assert done.returncode == 0, done.stderr
    if way == "http":  # the line that is printed sets the variable
        line, = re.findall(r"export SNIPARA_SANDBOX_MCP_TOKEN=.*", done.stderr)
        assert desk.run(f'{line}; echo "$SNIPARA_SANDBOX_MCP_TOKEN"').stdout.strip() == desk.served.token
    told = desk.connected(client, "SniparaSandbox")
    assert told and not isinstance(told, str), told


def test_nobody(box: lib.Sandbox) -> None:
    done = install(box, "emacs")
    assert done.returncode == 2 and "gemini" in done.stderr
