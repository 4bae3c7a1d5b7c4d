# SPDX-License-Identifier: Apache-2.0
"""What a session keeps, asked for otherwise: an option is refused, a configured setting is reported in the result."""

import os
import shutil
from collections.abc import Iterator

import pytest

import lib
import mcp
from test_python import PACKAGE, run, with_package

# Limit, a value that no session has by default, and that value as people read it.
LIMITS = [("cpus", "0.5", "0.5"), ("memory", "300m", "300 MiB"), ("processes", "63", "63"),
          ("tmp_size", "63m", "63 MiB"), ("workspace_size", "800m", "800 MiB"), ("workspace_files", "99999", "99999"),
          ("file_size", "511m", "511 MiB"), ("open_files", "255", "255"), ("output", "99999", "99999")]
PYTHON = """
import snipara_sandbox, sys
for key, value in {!r}:
    options = {{key: value}} if key in {!r} else {{"limits": {{key: value}}}}
    try:
        print(key, snipara_sandbox.Sandbox("kept", **options).run("1").status)
    except snipara_sandbox.SandboxError as error:
        print(key, str(error).replace("\\n", " "))
print(snipara_sandbox.Sandbox("kept", memory="512m", timeout=7).run("n").value)
"""


NAMED = ("memory", "template", "project", "tier", "env")  # arguments of Sandbox


@pytest.fixture(scope="module")
def box() -> Iterator[lib.Sandbox]:
    box = with_package(lib.Sandbox("user"))
    box.start()
    box.exec("n = 5", session="kept", options=["--set-env", "A=1"])
    yield box
    box.close()


def others(box: lib.Sandbox) -> list[tuple[str, str, str, str]]:
    """Setting, the option for it, a value that the session does not have, and a part of the refusal."""
    folder = box.make_folder("other")
    for name in ("usr", "etc"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    return [("template", "--template", "data", "template base, not data"),
            ("tier", "--env", "local", "tier native, not local"),
            ("project", "--project", folder, f"project (none), not {folder}"),
            ("rootfs", "--rootfs", folder, f"rootfs (the host's files), not {folder}"),
            ("env", "--set-env", "A=2", "variable A is not what session kept")]


def test_an_option_that_an_open_session_does_not_have_is_refused(box: lib.Sandbox) -> None:
    for _, option, value, text in others(box):
        done = box.cli("exec", "--session", "kept", option, value, "n = 6")
        assert done.returncode == 2 and text in done.stderr and "destroy it or use another name" in done.stderr, done
    for key, value, text in LIMITS:
        done = box.cli("exec", "--session", "kept", "--" + key.replace("_", "-"), value, "n = 6")
        assert done.returncode == 2 and f"the limit {key} of session kept is " in done.stderr, done
        assert f"not {text}" in done.stderr and "sessions set kept" in done.stderr, done
    done = box.cli("exec", "--session", "kept", "--memory", "512m", "--template", "base", "--env", "native",
                   "--set-env", "A=1", "--timeout", "5", "n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")


def test_an_option_of_the_library_is_refused_alike(box: lib.Sandbox) -> None:
    rows: list[tuple[str, object]] = [(key, value) for key, value, _ in LIMITS]
    rows += [(name, value if name != "env" else {"A": "2"}) for name, _, value, _ in others(box) if name != "rootfs"]
    printed = run(box, lib.PYTHON, "-c", PYTHON.format(rows, NAMED)).splitlines()
    lines = dict(line.split(" ", 1) for line in printed[:-1])
    for key, _, text in LIMITS:
        assert f"the limit {key} of session kept is " in lines[key] and f"not {text}" in lines[key], lines[key]
    for name, _, _, text in others(box):
        assert name == "rootfs" or text in lines[name], lines
    assert printed[-1] == "5"


def test_a_configured_setting_that_it_does_not_have_is_reported(box: lib.Sandbox) -> None:
    configured = {"SNIPARA_SANDBOX_" + key.upper(): value for key, value, _ in LIMITS}
    configured.update(SNIPARA_SANDBOX_TEMPLATE="data", SNIPARA_SANDBOX_TIMEOUT="7", SNIPARA_SANDBOX_ENVIRONMENT="local")
    done = box.cli("exec", "--session", "kept", "n", env=configured)
    assert done.returncode == 0 and done.stdout == "5\n"
    for key, _, text in [*LIMITS, ("timeout", "7", "7 s")]:
        assert f"; {text} (SNIPARA_SANDBOX_{key.upper()}) applies to new sessions; change it with: " \
            f"snipara-sandbox sessions set kept --{key.replace('_', '-')} " in done.stderr, (key, done.stderr)
    assert "session kept has template base; data (SNIPARA_SANDBOX_TEMPLATE) applies to new sessions" in done.stderr
    assert "session kept is in the native tier; local (SNIPARA_SANDBOX_ENVIRONMENT) applies" in done.stderr
    rows = box.exec("n", session="kept", env=configured)["not_applied"]
    assert {"setting": "memory", "session": "512 MiB", "asked": "300 MiB"} in rows and len(rows) == len(LIMITS) + 3
    assert "not_applied" not in box.exec("n", session="kept")
    same = box.cli("exec", "--session", "kept", "n",
                   env={"SNIPARA_SANDBOX_MEMORY": "512m", "SNIPARA_SANDBOX_TEMPLATE": "base"})
    assert same.stderr == ""


def test_a_tier_that_cannot_run_is_no_other_tier_for_a_session(box: lib.Sandbox) -> None:
    """docker without an engine is refused, wasm is native with a notice: in commands, servers and libraries."""
    none = "no container engine answers at /no/socket"
    docker = {"DOCKER_HOST": "unix:///no/socket", "SNIPARA_SANDBOX_ENVIRONMENT": "docker"}
    wasm = {"SNIPARA_SANDBOX_ENVIRONMENT": "wasm"}
    assert box.exec("n = 5", session="in-local", options=["--env", "local"])["status"] == "ok"
    done = box.cli("exec", "-s", "new", "1", env=docker)
    assert done.returncode == 1 and none in done.stderr, done
    assert none in box.cli("doctor", env=docker).stdout
    done = box.cli("sessions", "move", "in-local", "--to", "docker", env={"DOCKER_HOST": docker["DOCKER_HOST"]})
    assert done.returncode == 1 and none in done.stderr, done
    done = box.cli("exec", "-s", "in-local", "n", env=docker)
    assert done.stdout == "5\n" and "is in the local tier; docker (SNIPARA_SANDBOX_ENVIRONMENT) applies" in done.stderr
    done = box.cli("exec", "-s", "in-local", "n", env=wasm)
    assert done.stdout == "5\n"
    assert "no wasm tier here (SNIPARA_SANDBOX_ENVIRONMENT); code runs in local\n" in done.stderr
    with mcp.Server(box, cwd=box.make_folder("served"), env=docker) as server:
        assert none in server.error("execute_python", code="1")
        text = server.error("execute_python", code="n", session_id="in-local")
        assert "tier local, but this server is configured for docker" in text, text
    with mcp.Server(box, cwd=box.make_folder("served"), env=wasm) as server:
        assert server.text("execute_python", code="5") == "5\n[note] no wasm tier here; code runs in native"
    code = ("import snipara_sandbox as s\ntry: s.Sandbox('new', environment='docker').run('1')\n"
            "except s.Unsupported as error: print(error)")
    assert none in run(box, "env", *(f"{name}={value}" for name, value in docker.items()), lib.PYTHON, "-c", code)
    assert "new" not in box.cli("sessions", "list", "--names").stdout.split()


def test_a_library_refuses_another_state_folder_than_the_daemons(box: lib.Sandbox) -> None:
    script = (f"import {{ Sandbox }} from {os.path.join(os.path.dirname(PACKAGE), '../typescript/src/index.js')!r}\n"
              "await new Sandbox().run('1').catch((error) => console.log(error.message))")
    programs = [[lib.PYTHON, "-c", "import snipara_sandbox as s\ntry: s.Sandbox().run('1')\n"
                                   "except s.InvalidArgument as error: print(error)"]]
    programs += [[node, "--input-type=module", "-e", script] for node in [shutil.which("node")] if node]
    for program in programs:
        said = run(box, "env", "SNIPARA_SANDBOX_STATE_DIR=/proc/nope", *program)
        assert f"state folder {box.state}, but SNIPARA_SANDBOX_STATE_DIR is /proc/nope" in said, said


def test_a_server_reports_it_alike(box: lib.Sandbox) -> None:
    configured = {"SNIPARA_SANDBOX_" + key.upper(): value for key, value, _ in LIMITS}
    with mcp.Server(box, cwd=box.make_folder("served"), env=configured) as server:
        text = server.text("execute_python", code="n", session_id="kept")
        for key, _, value in LIMITS:
            assert f"[note] this session has {key} " in text, text
            assert f"; this server is configured for {value}" in text, text
        assert text.startswith("5\n") and "[note] this session was opened without a project folder" in text
        assert "[note]" not in server.text("execute_python", code="5", session_id="served-new")
