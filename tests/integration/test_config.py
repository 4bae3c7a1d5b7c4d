# SPDX-License-Identifier: Apache-2.0
"""`init` and `config show`, black box: precedence, sources, .env, messages, exit codes."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import lib

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = pathlib.Path(lib.BUILD) / "snipara-sandbox"

# What users of the replaced product read from `config show --json`.
OLD_KEYS = """
config_file config_file_exists project_env_file project_env_file_exists backend model temperature
environment trust_level docker_image docker_cpus docker_memory docker_network_disabled
docker_mount_workspace docker_workspace_path docker_workspace_setup
docker_workspace_install_command docker_workspace_install_extras docker_timeout max_depth
max_subcalls token_budget cost_limit tool_budget timeout_seconds parallel_tools max_parallel
sub_calls_enabled sub_calls_max_per_turn sub_calls_budget_inheritance
sub_calls_max_cost_per_session allowed_paths log_dir verbose log_level api_key_set
snipara_enabled snipara_api_key_set snipara_project_slug snipara_base_url memory_enabled
""".split()

LIMIT_DEFAULTS = {
    "timeout": 30.0, "cpus": 1.0, "memory": 512 << 20, "processes": 64, "tmp_size": 64 << 20,
    "workspace_size": 1 << 30, "workspace_files": 100000, "file_size": 512 << 20,
    "open_files": 256, "output": 100000,
}

OLD_ROWS = """
Source:Config file|Source:Project .env|Runtime:Backend|Runtime:Model|Runtime:Temperature
Runtime:Environment|Runtime:Trust level|Docker:Image|Docker:CPUs|Docker:Memory
Docker:Network disabled|Docker:Workspace mount|Docker:Workspace setup|Limits:Max depth
Limits:Max subcalls|Limits:Token budget|Limits:Tool budget|Limits:Timeout seconds
Limits:Parallel tools|Limits:Max parallel|Sub-calls:Enabled|Sub-calls:Max per turn
Sub-calls:Budget inheritance|Sub-calls:Max cost/session|Security:Allowed paths
Security:Provider API key|Logging:Log dir|Logging:Verbose|Logging:Log level|Snipara:Enabled
Snipara:Project slug|Snipara:Base URL|Snipara:API key|Snipara:Memory enabled
""".strip().replace("\n", "|").split("|")


STATE = None  # of this test


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    global STATE
    STATE = tmp_path_factory.mktemp("state", numbered=True)
    STATE.chmod(0o700)
    return STATE


@pytest.fixture
def project(tmp_path: pathlib.Path) -> Path:
    """An empty repository: the search for .env ends here."""
    (tmp_path / ".git").mkdir()
    return tmp_path


def run(cwd: Path | str, *args: str, env: dict[str, str] | None = None,
        program: Path = PROGRAM) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *args], cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "SNIPARA_SANDBOX_STATE_DIR": str(STATE), **(env or {})},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=lib.PATIENCE,
    )


def show(cwd: Path, *args: str, env: dict[str, str] | None = None) -> Any:
    done = run(cwd, "config", "show", "--json", *args, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write(project: Path, text: str, name: str = "snipara-sandbox.toml") -> Path:
    (project / name).write_text(text)
    return project / name


def fails(done: subprocess.CompletedProcess[str], status: int, *parts: str) -> str:
    """One line on stderr with all parts, nothing on stdout."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr
    return done.stderr


# ---- config show ----


def test_json_has_every_key_users_know_and_a_source_for_each_value(project: Path) -> None:
    shown = show(project)
    assert set(OLD_KEYS) <= set(shown)
    for key, value in LIMIT_DEFAULTS.items():
        assert shown[key] == value
        assert shown["sources"][key] == "default"
    assert shown["config_file"] is None and shown["config_file_exists"] is False
    assert shown["environment"] == "auto" and shown["temperature"] == 0.0
    assert shown["allowed_paths"] == [] and shown["docker_workspace_path"] is None


def rows_of(text: str) -> list[list[Any]]:
    lines = [line for line in text.splitlines()[3:] if line.strip()]
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


def test_table_has_every_row_users_know(project: Path) -> None:
    done = run(project, "config", "show")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("Effective Configuration\n")
    rows = rows_of(done.stdout)
    names = [f"{row[0]}:{row[1]}" for row in rows]
    assert set(OLD_ROWS) <= set(names)
    assert all(len(row) == 4 for row in rows)
    values = {f"{row[0]}:{row[1]}": row[2] for row in rows}
    assert values["Source:Config file"] == values["Source:Project .env"] == "not found"
    assert values["Security:Allowed paths"] == "current working directory only"
    assert values["Docker:Workspace mount"] == "current working directory (read-only)"
    assert values["Snipara:Project slug"] == "not set"
    assert values["Sandbox:Timeout"] == "30 s" and values["Sandbox:Memory"] == "512 MiB"


def test_composed_rows(project: Path) -> None:
    write(project, "[snipara_sandbox]\ndocker_workspace_setup = 'dev'\n"
          "docker_workspace_install_command = 'make'\n"
          "docker_workspace_install_extras = ['a', 'b']\ndocker_mount_workspace = false\n")
    run(project, "trust")
    values = {f"{r[0]}:{r[1]}": r[2] for r in rows_of(run(project, "config", "show").stdout)}
    assert values["Docker:Workspace setup"] == "dev via custom install command + extras [a, b]"
    assert values["Docker:Workspace mount"] == "disabled"


# Keys of the replaced product for features that this one does not have: row, variable, value.
NO_EFFECT = {
    "trust_level": ("Runtime:Trust level", "RLM_TRUST_LEVEL", "docker"),
    "allowed_paths": ("Security:Allowed paths", "RLM_ALLOWED_PATHS", "/a"),
    "log_level": ("Logging:Log level", "RLM_LOG_LEVEL", "DEBUG"),
    "snipara_project_slug": ("Snipara:Project slug", "SNIPARA_PROJECT_SLUG", "demo"),
    "snipara_base_url": ("Snipara:Base URL", "SNIPARA_BASE_URL", "https://host/mcp"),
    "snipara_api_key": ("Snipara:API key", "SNIPARA_API_KEY", "hush"),
    "memory_enabled": ("Snipara:Memory enabled", "RLM_MEMORY_ENABLED", "true"),
}
NOTE = "accepted from 2.x, no effect"


def sources(project: Path, env: dict[str, str]) -> dict[str, str]:
    return {f"{row[0]}:{row[1]}": row[3] for row in rows_of(run(project, "config", "show", env=env).stdout)}


@pytest.mark.parametrize("key", NO_EFFECT)
def test_a_key_without_effect_is_shown_as_such_where_it_is_set(project: Path, key: str) -> None:
    row, variable, value = NO_EFFECT[key]
    assert show(project)["notes"] == {} and sources(project, {})[row] == "default"
    env = {variable: value}
    shown = show(project, env=env)
    assert shown["notes"] == {key: NOTE} and shown["sources"][key] == variable
    noted = {name: source for name, source in sources(project, env).items() if NOTE in source}
    assert noted == {row: f"{variable} ({NOTE})"}


def test_the_documents_and_python_know_the_same_keys_without_effect(project: Path) -> None:
    """All that have a note are those of the table; the others, set too, have none."""
    text = (ROOT / "docs/reference/configuration.md").read_text()
    parts = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    listed = set(re.findall(r"^\| `(\w+)`", parts["Keys without effect"], re.M))
    others = set(re.findall(r"^\| `(\w+)`", parts["Keys with effect"], re.M))
    env = {variable: value for _, variable, value in NO_EFFECT.values()}
    shown = show(project, env={**env, "RLM_VERBOSE": "true", "RLM_MAX_PARALLEL": "4", "RLM_DOCKER_IMAGE": "x"})
    assert set(shown["notes"]) == listed == set(NO_EFFECT) and not listed & others
    assert sources(project, env)["Snipara:Enabled"] == f"derived ({NOTE})"
    asked = "from snipara_sandbox import _completion as c; print(*set(c.NO_EFFECT) - set(c.IN_DOCKER))"
    told = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True,
                          env={"PYTHONPATH": str(ROOT / "bindings/python")}).stdout
    assert set(told.split()) == listed


def test_environment_beats_file_and_new_prefix_beats_legacy(project: Path) -> None:
    path = write(project, '[snipara_sandbox]\nmodel = "file"\nmax_depth = 3\nmemory = "256m"\n')
    assert show(project)["sources"]["model"] == str(path)
    legacy = {"RLM_MODEL": "legacy"}
    shown = show(project, env=legacy)
    assert (shown["model"], shown["sources"]["model"]) == ("legacy", "RLM_MODEL")
    shown = show(project, env={**legacy, "SNIPARA_SANDBOX_MODEL": "new"})
    assert (shown["model"], shown["sources"]["model"]) == ("new", "SNIPARA_SANDBOX_MODEL")
    assert shown["max_depth"] == 3 and shown["memory"] == 256 << 20


def test_dotenv_beats_file_and_process_beats_dotenv(project: Path) -> None:
    write(project, '[snipara_sandbox]\nmodel = "file"\n')
    env_file = write(project, "export SNIPARA_SANDBOX_MODEL='from dotenv' # comment\n", ".env")
    shown = show(project)
    assert shown["model"] == "from dotenv"
    assert shown["sources"]["model"] == f".env: {env_file}"
    assert shown["project_env_file"] == str(env_file) and shown["project_env_file_exists"] is True
    assert show(project, env={"SNIPARA_SANDBOX_MODEL": "process"})["model"] == "process"


def test_dotenv_is_found_in_a_parent_but_not_beyond_the_repository(project: Path) -> None:
    write(project, "RLM_MODEL=parent\n", ".env")
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    assert show(inner)["model"] == "parent"
    (project / "a" / ".git").mkdir()
    assert show(inner)["model"] == "gpt-4o-mini"


def test_list_variables_may_be_comma_lists_or_json(project: Path) -> None:
    for text in ("/a,/b", '["/a", "/b"]', " /a , /b ,"):
        assert show(project, env={"SNIPARA_SANDBOX_ALLOWED_PATHS": text})["allowed_paths"] == ["/a", "/b"]
    extras = {"SNIPARA_SANDBOX_DOCKER_WORKSPACE_INSTALL_EXTRAS": "fastapi,redis"}
    assert show(project, env=extras)["docker_workspace_install_extras"] == ["fastapi", "redis"]


@pytest.mark.parametrize("name, variable", [
    ("snipara_api_key", "SNIPARA_API_KEY"),
    ("snipara_api_key", "RLM_SNIPARA_API_KEY"),
    ("api_key", "SNIPARA_SANDBOX_LLM_API_KEY"),
    ("api_key", "RLM_API_KEY"),
])
def test_secrets_are_shown_only_as_set(project: Path, name: str, variable: str) -> None:
    env = {variable: "hush-hush-value"}
    for args in ((), ("--json",)):
        done = run(project, "config", "show", *args, env=env)
        assert "hush" not in done.stdout + done.stderr
    assert show(project, env=env)[f"{name}_set"] is True
    assert show(project)[f"{name}_set"] is False


@pytest.mark.parametrize("url", ["https://me:hush@host/v1", "https://me:hu/sh@host/v1", "me:hush@host/v1",
                                 "https://host/v1"])
def test_a_password_in_a_url_is_not_shown(project: Path, url: str) -> None:
    env = {"SNIPARA_SANDBOX_BASE_URL": url}
    said = run(project, "config", "show", env=env).stdout
    shown = show(project, env=env)["base_url"]
    assert shown in said and (shown == url or re.fullmatch(r"(https://)?\*\*\*@host/v1", shown)), shown
    assert (shown == url) == ("@" not in url)


def test_snipara_is_enabled_with_key_and_slug(project: Path) -> None:
    env = {"SNIPARA_API_KEY": "k"}
    assert show(project, env=env)["snipara_enabled"] is False
    env["SNIPARA_PROJECT_SLUG"] = "demo"
    assert show(project, env=env)["snipara_enabled"] is True


def test_legacy_file_and_table(project: Path) -> None:
    write(project, '[rlm]\nmodel = "legacy"\n', "rlm.toml")
    assert show(project)["model"] == "legacy"
    write(project, '[snipara_sandbox]\nmodel = "new"\n')
    assert show(project)["model"] == "new"
    assert show(project, "--config", "rlm.toml")["model"] == "legacy"


def test_docker_keys_apply_to_limits_that_are_not_set(project: Path) -> None:
    path = write(project, "[snipara_sandbox]\ndocker_timeout = 5\ndocker_memory = '256m'\n")
    shown = show(project)
    assert shown["timeout"] == 5 and shown["memory"] == 256 << 20
    assert shown["sources"]["timeout"] == f"docker_timeout: {path}"
    assert show(project, env={"SNIPARA_SANDBOX_TIMEOUT": "7"})["timeout"] == 7


def test_unknown_key_is_ignored_with_a_warning(project: Path) -> None:
    write(project, '[snipara_sandbox]\nmodle = "x"\n')
    done = run(project, "config", "show", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["model"] == "gpt-4o-mini"
    assert "warning: " in done.stderr
    assert "unknown key 'modle'; did you mean model?" in done.stderr


@pytest.mark.parametrize("text, parts", [
    ("[snipara_sandbox]\nmodel = = 1\n", ["snipara-sandbox.toml:2:9: "]),
    ('[snipara_sandbox]\nmodel = "abc\n', ["snipara-sandbox.toml:2:"]),
    ("[snipara_sandbox]\nmodel = 5\n", ["model in ", "expected text, got 5"]),
    ("[snipara_sandbox]\nmemory = '1k'\n", ["memory in ", "16 MiB to 1 TiB"]),
    ("[snipara_sandbox]\nenvironment = 'moon'\n", ["expected one of auto, native", "'moon'"]),
])
def test_bad_file_is_one_line_and_exit_2(project: Path, text: str, parts: list[str]) -> None:
    write(project, text)
    fails(run(project, "config", "show"), 2, *parts)
    done = run(project, "config", "show", "--json")
    said = json.loads(done.stdout)["error"]["message"]
    assert done.returncode == 2 and all(part in said for part in parts), said


@pytest.mark.parametrize("variable, value, part", [
    ("SNIPARA_SANDBOX_MAX_DEPTH", "deep", "expected a whole number, got 'deep'"),
    ("RLM_VERBOSE", "maybe", "expected true or false"),
    ("SNIPARA_SANDBOX_TIMEOUT", "601", "0.05 s to 600 s"),
    ("SNIPARA_SANDBOX_ALLOWED_PATHS", "[1", "comma list or a JSON array"),
])
def test_bad_variable_is_one_line_and_exit_2(project: Path, variable: str, value: str, part: str) -> None:
    fails(run(project, "config", "show", env={variable: value}), 2, variable, part)


def test_hostile_text_in_a_message_stays_on_one_line_and_is_escaped(project: Path) -> None:
    message = fails(run(project, "config", "show", env={"RLM_BACKEND": "a\n\x1b[2Jb"}), 2, "RLM_BACKEND")
    assert "\x1b" not in message


def test_missing_config_file_is_exit_1(project: Path) -> None:
    fails(run(project, "config", "show", "--config", "none.toml"), 1, "none.toml")


def test_a_folder_as_config_file_is_refused(project: Path) -> None:
    (project / "folder").mkdir()
    fails(run(project, "config", "show", "-c", "folder"), 2, "folder")


# ---- init ----


def test_init_writes_a_file_that_means_the_defaults(project: Path) -> None:
    done = run(project, "init")
    assert done.returncode == 0 and done.stderr == ""
    assert "Created ./snipara-sandbox.toml\n" in done.stdout
    assert "Created ./.env.example\n" in done.stdout
    table = tomllib.loads((project / "snipara-sandbox.toml").read_text())["snipara_sandbox"]
    assert table == {
        "backend": "litellm", "model": "gpt-4o-mini", "environment": "auto", "max_depth": 30,
        "max_subcalls": 60, "token_budget": 400000, "cost_limit": 2.0, "verbose": False,
        "docker_image": "python:3.11-slim", "docker_cpus": 1.0, "docker_memory": "512m",
        "docker_network_disabled": True, "docker_mount_workspace": True,
        "docker_workspace_setup": "none",
    }
    assert (project / ".env.example").read_text() == (
        "OPENAI_API_KEY=\nANTHROPIC_API_KEY=\nSNIPARA_API_KEY=\nSNIPARA_PROJECT_SLUG=\n")
    before = show(project / ".git")
    after = show(project)
    for key in set(before) - {"sources", "config_file", "config_file_exists"}:
        assert before[key] == after[key], key


def test_every_commented_line_of_the_template_is_valid(project: Path) -> None:
    run(project, "init")
    path = project / "snipara-sandbox.toml"
    head, *_, = path.read_text().split("[snipara_sandbox]")
    body = path.read_text()[len(head):]
    lines = [line[2:] if line.startswith("# ") and " = " in line else line for line in body.splitlines()]
    path.write_text("\n".join(lines) + "\n")
    shown = show(project)
    for key, value in LIMIT_DEFAULTS.items():
        assert shown[key] == value
        assert shown["sources"][key] == str(path)


def test_init_keeps_what_exists(project: Path) -> None:
    path = write(project, "mine", "rlm.toml")
    message = fails(run(project, "init"), 1, "Config already exists: ./rlm.toml", "--force")
    assert message
    assert sorted(p.name for p in project.iterdir()) == [".git", "rlm.toml"]
    (project / ".env.example").write_text("keep")
    done = run(project, "init", "--force")
    assert done.returncode == 0
    assert path.read_text() == "mine"
    assert (project / ".env.example").read_text() == "keep"
    assert (project / "snipara-sandbox.toml").exists()


def test_init_in_a_folder_of_its_own_without_snipara(project: Path) -> None:
    done = run(project, "init", "new/one", "--no-snipara")
    assert done.returncode == 0
    assert "Tip" not in done.stdout
    assert "snipara_api_key" not in (project / "new/one/snipara-sandbox.toml").read_text()
    assert "Tip" in run(project, "init", "other").stdout
    assert "# snipara_api_key" in (project / "other/snipara-sandbox.toml").read_text()


def test_init_where_nothing_can_be_written(project: Path) -> None:
    (project / "file").write_text("")
    fails(run(project, "init", "file"), 1, "file")
    assert (project / "file").read_text() == ""


def test_init_leaves_no_temporary_files(project: Path) -> None:
    run(project, "init")
    assert sorted(p.name for p in project.iterdir()) == [".env.example", ".git", "snipara-sandbox.toml"]


# ---- trust ----

WIDE = '[snipara_sandbox]\nbase_url = "http://127.0.0.1:1"\nenvironment = "local"\nmemory = "20g"\nmodel = "m"\n'
WIDE_ENV = "OPENAI_API_KEY=sk-theirs\nRLM_MAX_DEPTH=99\nRLM_TEMPERATURE=1\nDATABASE_URL=x\n"


def test_a_file_nobody_has_trusted_widens_nothing_and_is_named(project: Path, state: Path) -> None:
    path, env_file = write(project, WIDE), write(project, WIDE_ENV, ".env")
    done = run(project, "config", "show", "--json")
    shown = json.loads(done.stdout)
    assert done.returncode == 0 and done.stderr.count("\n") == 2
    for line, name, names in zip(done.stderr.splitlines(), (path, env_file),
                                 ("base_url, environment, memory", "OPENAI_API_KEY, RLM_MAX_DEPTH")):
        assert f"{name} is not trusted" in line and f": {names}. To " in line
        assert f": snipara-sandbox trust {shlex.quote(str(project))}" in line
    assert shown["ignored"] == ["base_url", "environment", "memory", "OPENAI_API_KEY", "RLM_MAX_DEPTH"]
    assert shown["base_url"] is None and shown["environment"] == "auto" and shown["memory"] == 512 << 20
    assert shown["max_depth"] == 30 and shown["model"] == "m" and shown["temperature"] == 1
    # what the user says himself is not missed
    given = run(project, "config", "show", env={"RLM_MAX_DEPTH": "5", "OPENAI_API_KEY": "sk-mine"})
    assert given.stderr.count("\n") == 1 and "OPENAI" not in given.stderr
    assert list(state.iterdir()) == []


def test_the_way_out_is_one_word_of_a_shell(project: Path) -> None:
    """A folder's name may be a command; what is shown to be pasted does not run it."""
    folder = project / "a 'b; touch ran; $(touch ran)"
    folder.mkdir()
    write(folder, WIDE)
    command = run(folder, "config", "show").stderr.strip().rsplit(": ", 1)[1]
    done = subprocess.run(["/bin/sh", "-c", command.replace("snipara-sandbox", "printf '%s|'", 1)], cwd=project,
                          stdout=subprocess.PIPE)
    assert done.stdout.decode() == f"trust|{folder}|" and not (project / "ran").exists()


def test_trust_shows_remembers_and_asks_anew_after_a_change(project: Path, state: Path) -> None:
    path, env_file = write(project, WIDE), write(project, WIDE_ENV, ".env")
    looked = run(project, "trust", "--show")
    assert looked.returncode == 0 and looked.stdout.count("not trusted") == 2
    assert "  memory = 20g\n" in looked.stdout and "theirs" not in looked.stdout
    assert show(project)["ignored"]
    inner = project / "inner"  # the same .env counts for folders below
    inner.mkdir()
    told = json.loads(run(project, "trust", "--json").stdout)
    assert [(file["path"], file["trusted"], sorted(file["sets"])) for file in told["files"]] == [
        (str(path), True, ["base_url", "environment", "memory"]),
        (str(env_file), True, ["OPENAI_API_KEY", "RLM_MAX_DEPTH"])]
    shown = show(project)
    assert shown["ignored"] == [] and shown["memory"] == 20 << 30 and shown["max_depth"] == 99
    assert show(inner)["max_depth"] == 99
    assert run(project, "config", "show").stderr == ""
    for record in (state / "trusted").iterdir():
        assert record.stat().st_mode & 0o077 == 0 and "theirs" not in record.read_text()
    # neither another content, nor the same one elsewhere
    write(project, WIDE + "# more\n")
    changed = run(project, "config", "show", "--json")
    assert "has changed since you trusted it" in changed.stderr and json.loads(changed.stdout)["memory"] == 512 << 20
    write(project, WIDE)
    assert show(project)["memory"] == 20 << 30
    write(inner, WIDE)
    (project / "link").symlink_to(inner)
    assert show(inner)["memory"] == show(project / "link")["memory"] == 512 << 20
    rows = {row["path"]: (row["state"], row["by"])
            for row in json.loads(run(project, "trust", "--list", "--json").stdout)}
    assert rows == {str(path): ("trusted", "trust"), str(env_file): ("trusted", "trust")}
    env_file.unlink()
    assert re.search(r"\.env +gone +trust ", run(project, "trust", "--list").stdout)
    assert json.loads(run("/", "trust", "--revoke", str(project),
                          "--json").stdout) == {"revoked": [str(path), str(env_file)]}
    assert show(project)["memory"] == 512 << 20
    fails(run(project, "trust", "--revoke"), 1, "nothing was trusted")
    assert run(project, "trust", "--list").stdout == "No file is trusted\n"
    fails(run(project / ".git", "trust"), 1, "no configuration that is yours")
    assert run(project, "trust", "--list", "--show").returncode == 2


def test_what_trust_shows_of_a_stranger_stays_in_its_line(project: Path) -> None:
    folder = project / "a\n  not trusted"
    folder.mkdir()
    (folder / "snipara-sandbox.toml").write_text('[snipara_sandbox]\nbase_url = "http://x/\\n  trusted\\u001b[2J"\n')
    lines = run(folder, "trust", "--show").stdout.splitlines()
    assert len(lines) == 3 and lines[0].endswith('a\\n  not trusted/snipara-sandbox.toml" sets:')
    assert lines[1:] == ['  base_url = "http://x/\\n  trusted\\u001B[2J"', "  not trusted"]


def test_what_init_wrote_is_trusted_until_it_is_changed(project: Path) -> None:
    run(project, "init")
    rows = json.loads(run(project, "trust", "--list", "--json").stdout)
    assert [(row["path"], row["state"], row["by"]) for row in rows] == [
        (str(project / "snipara-sandbox.toml"), "trusted", "init")]
    with open(project / "snipara-sandbox.toml", "a") as out:
        out.write('snipara_base_url = "http://127.0.0.1:1"\n')
    assert "has changed since" in run(project, "config", "show").stderr
    assert show(project, "--config", "snipara-sandbox.toml")["snipara_base_url"] == "http://127.0.0.1:1"


@pytest.mark.skipif(os.geteuid() != 0, reason="makes files of another user")
def test_a_strangers_file_is_never_read(project: Path) -> None:
    """Attack: in a folder of everybody, a file or a link of somebody else. Control: the same as the user's own."""
    shared, stranger, we = project / "shared", 4242, os.geteuid()
    (shared / "mine").mkdir(parents=True)
    shared.chmod(0o1777)

    def model(where: Path = shared) -> tuple[Any, Any]:
        done = run(where, "config", "show", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["model"], done.stderr

    for name, text in (("snipara-sandbox.toml", "[snipara_sandbox]\nmodel = 'theirs'\n"),
                       (".env", "RLM_MODEL=theirs\n")):
        path = write(shared, text, name)
        for where in (shared, shared / "mine") if name == ".env" else (shared,):
            os.chown(path, stranger, stranger)
            seen, said = model(where)
            assert seen == "gpt-4o-mini" and f"{path} belongs to uid 4242" in said
            os.chown(path, we, we)
            assert model(where)[0] == "theirs"
        os.chown(path, stranger, stranger)
        assert run(shared, "trust").returncode == 1
        # a link of the stranger's that leads to a file of the user's, and a thing that is no file
        os.chown(path, we, we)
        path.rename(shared / "mine" / "kept")
        path.symlink_to(shared / "mine" / "kept")
        os.chown(path, stranger, stranger, follow_symlinks=False)
        assert model()[0] == "gpt-4o-mini"
        os.chown(path, we, we, follow_symlinks=False)
        assert model()[0] == "theirs"
        path.unlink()
        os.mkfifo(path)
        os.chown(path, stranger, stranger)
        assert model()[0] == "gpt-4o-mini"
        path.unlink()
