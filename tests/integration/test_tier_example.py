# SPDX-License-Identifier: Apache-2.0
"""Tiers of the user's: where they may lie, and what is said of them. The one of examples/tier-python also passes those
of test_tiers.py that its data allows."""

import json
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lib

NAME = os.path.join(lib.TIERS, "tier-example")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[lib.Sandbox]:
    box = lib.Sandbox("user", tier="example")
    yield box
    box.close()


# Sessions, beyond test_tiers.py ---------------------------------------------------------------


@pytest.mark.parametrize("code, state", [
    ("while True: pass", "kept"),
    ("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", "lost"),
], ids=["interrupted", "killed"])
def test_the_wall_clock_stops_code(sandbox: lib.Sandbox, session: str, code: str, state: str) -> None:
    sandbox.exec("kept = 1", session)
    done = sandbox.exec(code, session, options=["--timeout", str(lib.PATIENCE / 30)])
    assert (done["status"], done["state"], done["limit"]["flag"]) == ("timeout", state, "--timeout")
    after = sandbox.exec("kept", session)
    assert after["value"] == "1" if state == "kept" else after["error"]["type"] == "NameError"


def test_files_go_in_and_out_and_nowhere_else(sandbox: lib.Sandbox, session: str) -> None:
    sandbox.exec("1", session)
    source = sandbox.make_file("source.txt", "from outside")
    assert sandbox.cli("put", source, f"{session}:in/a.txt").returncode == 0
    done = sandbox.exec("open('b.txt', 'w').write(open('in/a.txt').read() + '!')", session)
    assert done["files"]["created"] == ["b.txt"]
    assert sandbox.cli("get", f"{session}:b.txt", "-").stdout == "from outside!"
    assert "b.txt" in sandbox.cli("ls", f"{session}:").stdout
    outside = sandbox.cli("get", f"{session}:../../../../run/sandboxd.sock", "-")
    assert outside.returncode == 1 and "not below /workspace" in outside.stderr


def test_a_destroyed_session_leaves_no_process_and_no_folder(sandbox: lib.Sandbox) -> None:
    pid = int(sandbox.exec("import os; os.getpid()", "ends")["value"])
    sandbox.destroy("ends")
    assert not os.path.exists(f"/proc/{pid}")
    assert os.listdir(os.path.join(sandbox.state, "example")) == []


# What is said of it -------------------------------------------------------------------------------


def test_it_is_claimed_and_never_taken_unasked(sandbox: lib.Sandbox) -> None:
    manifest = sandbox.exec("1")["manifest"]
    assert (manifest["tier"], manifest["claimed"], manifest["rank"]) == ("example", True, 0)
    taken = json.loads(sandbox.cli("exec", "--json", "--allow-degraded", "1").stdout)["manifest"]
    assert taken["tier"] == "native" and not taken["claimed"] and taken["rank"] >= 100
    rows = {row["name"]: row for row in json.loads(sandbox.cli("doctor", "--json").stdout)["checks"]}
    assert "its claims are not checked: no guarantees" in rows["example tier"]["detail"]
    assert sandbox.cli("doctor", "--names").stdout.split() == ["auto", "native", "docker", "local", "example"]
    wrong = sandbox.cli("exec", "--env", "exampel", "1")
    assert wrong.returncode == 2 and "mean example?" in wrong.stderr
    assert "auto, native, docker, local, example" in wrong.stderr


def test_a_name_that_is_promised_is_taken_once_there_is_such_a_tier(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox("user", tier="example")
    assert box.exec("1", options=["--env", "wasm"])["manifest"]["tier"] == "native"
    with open(os.path.join(box.folder, NAME)) as source:
        box.make_file(os.path.join(lib.TIERS, "tier-wasm"), source.read(), 0o755)
    assert box.exec("1", options=["--env", "wasm"])["manifest"]["claimed"]
    # a file that anybody may have written does not choose it
    box.make_file(os.path.join(box.home, "snipara-sandbox.toml"), '[snipara_sandbox]\nenvironment = "wasm"\n')
    done = box.cli("exec", "print('ran')")
    assert done.returncode == 1 and "ran" not in done.stdout and "may not name your own tier" in done.stderr
    assert box.cli("trust").returncode == 0
    assert box.cli("exec", "print('r' + 'an')").stdout == "ran\n"


def test_a_session_whose_tier_has_gone_says_so(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox("user", tier="example")
    box.exec("1", "work")
    box.stop()
    os.unlink(os.path.join(box.folder, NAME))
    assert " example " in box.cli("sessions", "list").stdout
    done = box.cli("exec", "-s", "work", "--recover", "checkpoint", "1")
    assert done.returncode == 1 and 'no tier "example"' in done.stderr


# Where it may lie ----------------------------------------------------------------------------------


def other_owner(path: str) -> None:
    os.chown(path, 12345, -1, follow_symlinks=False)


def by_link(path: str) -> None:
    os.rename(path, path + ".real")
    os.symlink(path + ".real", path)


def above(path: str, n: int) -> str:
    for _ in range(n):
        path = os.path.dirname(path)
    return path


@pytest.mark.parametrize("spoil, says", [
    (lambda path: os.chmod(path, 0o757), "others may write"),
    (lambda path: os.chmod(path, 0o775), "others may write"),
    (lambda path: os.chmod(above(path, 1), 0o1777), "others may write"),
    (lambda path: os.chmod(above(path, 2), 0o775), "others may write"),
    (other_owner, "belongs to user 12345"),
    (lambda path: other_owner(above(path, 1)), "belongs to user 12345"),
    (by_link, "not a regular file"),
    (lambda path: by_link(above(path, 1)), "not a real folder"),
    (lambda path: os.rename(path, above(path, 1) + "/tier-Example"), "expected one of"),
    (lambda path: os.rename(path, above(path, 5) + "/tier-example"), "expected one of"),  # where one works
], ids=["file others", "file group", "folder others", "above group", "file owner", "folder owner", "file link",
        "folder link", "name", "project"])
def test_a_tier_that_somebody_else_may_have_put_there_is_refused(sandbox_root_user: Callable[[], lib.Sandbox],
                                                                 spoil: Callable[..., Any], says: str) -> None:
    box = sandbox_root_user()
    path = os.path.join(box.folder, NAME)
    assert box.exec("6 * 7")["value"] == "42"  # the control
    spoil(path)
    done = box.cli("exec", "--env", "example", "print('ran')")
    assert done.returncode != 0 and "ran" not in done.stdout and says in done.stderr, done.stderr
    box.stop()  # nor by a daemon that has not seen it before, asked directly
    box.start()
    with lib.Client(box.socket, box.uid) as client:
        assert client.call("probe", tier="example")[1]["code"] in ("denied", "unsupported")


@pytest.fixture
def sandbox_root_user(fresh_sandbox: Callable[..., lib.Sandbox]) -> Callable[[], lib.Sandbox]:
    lib.need("root", os.geteuid() == 0, "files of other users are made")
    return lambda: fresh_sandbox("user", tier="example")


@pytest.mark.parametrize("name", ["../example", "/tmp/tier-x", ".", "", "Example", "-x"])
def test_names_are_no_paths(sandbox: lib.Sandbox, name: str) -> None:
    box = sandbox
    assert stat.S_ISREG(os.lstat(os.path.join(box.folder, NAME)).st_mode)
    done = box.cli("exec", f"--env={name}", "print('ran')")
    assert done.returncode == 2 and "ran" not in done.stdout
