# SPDX-License-Identifier: Apache-2.0
"""put, get and ls walk paths that the code prepared: they must not leave the workspace, hang,
or touch the host. And the folder of a project is swapped while a session opens."""

import os
import secrets
import subprocess
import threading
from collections.abc import Iterator

import lib
import pytest


@pytest.fixture
def session(sandbox: lib.Sandbox) -> Iterator[str]:
    name = "files-" + secrets.token_hex(4)
    sandbox.exec("1", session=name)
    yield name
    sandbox.destroy(name)


@pytest.fixture
def canary(sandbox: lib.Sandbox) -> tuple[str, str]:
    token = "token-" + secrets.token_hex(16)
    return sandbox.make_file(f"home/canary-{secrets.token_hex(4)}", token, 0o600), token


LINKS = ["{}", "../../../../../..{}", "/proc/1/root{}", "/proc/self/root{}", "/proc/self/cwd/../../..{}"]


@pytest.mark.parametrize("target", LINKS)
def test_get_through_a_link_does_not_reach_the_host(sandbox: lib.Sandbox, session: str, canary: tuple[str, str],
                                                    target: str) -> None:
    path, token = canary
    link = target.format(path)
    outside = os.path.join(sandbox.home, "link")
    os.symlink(path, outside)  # the control run
    assert token in sandbox.outside("", argv=["cat", outside]).stdout
    os.unlink(outside)
    code = f"import os; os.symlink({link!r}, 'link'); os.symlink({os.path.dirname(link)!r}, 'dir')"
    sandbox.exec(code, session=session)
    for name in ("link", "dir/" + os.path.basename(path), link, ".." + link, "../../.." + link):
        done = sandbox.cli("get", f"{session}:{name}", "-")
        assert token not in done.stdout + done.stderr and done.returncode in (1, 2)


def test_get_of_passwd_through_a_link_is_not_the_hosts(sandbox: lib.Sandbox, session: str) -> None:
    sandbox.exec("import os; os.symlink('/etc/passwd', 'p'); os.symlink('/proc/1/environ', 'e')", session=session)
    with open("/etc/passwd") as passwd:
        host = passwd.read()
    assert host not in sandbox.cli("get", f"{session}:p", "-").stdout
    assert sandbox.cli("get", f"{session}:e", "-").returncode == 1


@pytest.mark.parametrize("name", ["../../../../{}", "{}", "link/x", "dir/../../../../../{}", "a/../../{}", "..", ".",
                                  "dir"])
def test_put_does_not_leave_the_workspace(sandbox: lib.Sandbox, session: str, canary: tuple[str, str],
                                          name: str) -> None:
    path, token = canary
    target = os.path.join(sandbox.home, "written-" + secrets.token_hex(4))
    sandbox.exec(f"import os; os.symlink({sandbox.home!r}, 'link'); os.mkdir('dir')", session=session)
    assert sandbox.outside("", argv=["cp", path, target]).returncode == 0 and os.path.exists(target)  # the control run
    os.unlink(target)
    sandbox.cli("put", path, f"{session}:{name.format(target.lstrip('/') if name != '{}' else target)}")
    assert not os.path.exists(target) and not os.path.exists(os.path.join(sandbox.home, "x"))
    assert sandbox.exec("1 + 1", session=session)["value"] == "2"


def test_put_through_a_link_does_not_reach_the_host(sandbox: lib.Sandbox, session: str,
                                                    canary: tuple[str, str]) -> None:
    path, token = canary
    source = sandbox.make_file("home/source", "changed")
    sandbox.exec(f"import os; os.symlink({path!r}, 'link')", session=session)
    sandbox.cli("put", source, f"{session}:link")
    with open(path) as file:
        assert file.read() == token


SPECIAL = {
    "fifo": "os.mkfifo('x')",
    "socket": "import socket; s = socket.socket(socket.AF_UNIX); s.bind('x')",
    "link to a device": "os.symlink('/dev/zero', 'x')",
    "link to itself": "os.symlink('x', 'x')",
    "folder": "os.mkdir('x')",
    "link to its own stream": "os.symlink('/proc/self/fd/1', 'x')",
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_special_files_are_not_waited_for(sandbox: lib.Sandbox, session: str, kind: str) -> None:
    if kind == "fifo":  # the control run: reading one waits without end
        path = os.path.join(sandbox.home, "fifo-" + secrets.token_hex(4))
        os.mkfifo(path)
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(["cat", path], timeout=0.2)
    assert sandbox.exec("import os\n" + SPECIAL[kind], session=session)["status"] == "ok"
    done = sandbox.cli("get", f"{session}:x", "-", text=False)
    assert done.returncode in (1, 2) and len(done.stdout) < 1 << 20
    put = sandbox.cli("put", sandbox.make_file("home/small", "small"), f"{session}:x")
    assert put.returncode in (1, 2) or kind in ("link to itself", "folder")
    assert "x" in sandbox.cli("ls", session).stdout
    assert sandbox.exec("1 + 1", session=session)["value"] == "2"


def test_names_that_confuse_terminals_are_shown_harmlessly(sandbox: lib.Sandbox, session: str) -> None:
    sandbox.exec(r"open('a\x1b]0;title\x07b', 'w'); open('c\nd', 'w'); open(b'\xff\xfe', 'w')", session=session)
    done = sandbox.cli("ls", session, text=False)
    assert done.returncode == 0 and b"\x1b" not in done.stdout and b"\x07" not in done.stdout
    assert len(done.stdout.splitlines()) <= 4


def test_swapping_the_project_does_not_open_the_home_folder(sandbox: lib.Sandbox, canary: tuple[str, str]) -> None:
    """The home folder is refused as a project; another name for it must not help."""
    path, token = canary
    good = sandbox.make_folder("good")
    name = os.path.join(sandbox.folder, "swapped")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target in (good, sandbox.home):
                os.symlink(target, name + ".new")
                os.rename(name + ".new", name)

    os.symlink(good, name)
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        # The control run: whoever just opens the path sees the home folder sooner or later.
        seen = lib.wait_for(lambda: os.path.basename(path) in os.listdir(name), step=0)
        assert seen
        for _ in range(30):
            done = sandbox.cli("exec", "--project", name, "--sh", "cat /workspace/canary-*")
            assert token not in done.stdout, "the home folder was shown"
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("place", ["home", "root", "above"])
def test_refused_projects(sandbox: lib.Sandbox, place: str) -> None:
    path = {"home": sandbox.home, "root": "/", "above": os.path.dirname(sandbox.home)}[place]
    done = sandbox.cli("exec", "--project", path, "1")
    assert done.returncode in (1, 2) and done.stderr
