# SPDX-License-Identifier: Apache-2.0
"""--rootfs: another file system, as a folder or as an archive, made by us or by mmdebstrap."""

import glob
import os
import re
import shutil
import subprocess
import tarfile

import lib
import packages
from collections.abc import Callable, Iterator
from typing import Any
import pytest


def libraries(path: str) -> list[Any]:
    """What a program or library is linked with, as the loader finds it."""
    done = subprocess.run(["ldd", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return re.findall(r"(/\S+) \(0x", done.stdout)


def copy(path: str, root: str) -> None:
    target = root + path
    if not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(path, target)


def closure(root: str) -> str:
    """The host's Python, its standard library and what they are linked with, in a folder of their own."""
    program = os.path.realpath(packages.PYTHON)
    library = "/usr/lib/python" + packages.version()
    os.makedirs(os.path.join(root, "usr"))
    for link in ("bin", "lib", "lib64"):
        os.makedirs(os.path.join(root, "usr", link), exist_ok=True)
        os.symlink("usr/" + link, os.path.join(root, link))
    shutil.copytree(library, root + library, symlinks=True, ignore=shutil.ignore_patterns(
        "test", "tests", "__pycache__", "config-*", "idlelib", "tkinter", "lib2to3", "*.a", "dist-packages"))
    for path in [program, "/usr/bin/dash", "/usr/bin/cat", *glob.glob(library + "/lib-dynload/*.so")]:
        if not path.startswith(library):
            copy(path, root)
        for needed in libraries(path):
            copy(os.path.join("/usr", needed.lstrip("/")) if not needed.startswith("/usr") else needed, root)
    os.symlink(os.path.basename(program), os.path.join(root, "usr", "bin", "python3"))
    os.symlink("dash", os.path.join(root, "usr", "bin", "sh"))
    os.makedirs(os.path.join(root, "etc", "ssl"))
    os.makedirs(os.path.join(root, "usr", "share"))
    with open(os.path.join(root, "usr", "share", "which"), "w") as mark:
        mark.write("the other one")
    return root


@pytest.fixture(scope="module")
def made() -> Iterator[str]:
    """Outside /tmp and readable for everybody; nothing changes it."""
    folder = "/var/tmp/snp-rootfs-%d" % os.getpid()
    os.mkdir(folder)
    yield closure(os.path.join(folder, "root"))
    shutil.rmtree(folder)


@pytest.fixture
def broken(made: str, sandbox: lib.Sandbox) -> Iterator[str]:
    """A copy to be damaged: links to the files, so that it is quick."""
    folder = os.path.join(os.path.dirname(made), "broken-" + sandbox.who)
    shutil.copytree(made, folder, symlinks=True, copy_function=os.link)
    yield folder
    shutil.rmtree(folder)


def refused(box: lib.Sandbox, root: str, *words: str) -> None:
    done = box.cli("exec", "--rootfs", root, "1")
    assert done.returncode in (1, 2) and done.stdout == ""
    for word in words:
        assert word in done.stderr


LOOK = "import os\n[open('/usr/share/which').read(), sorted(os.listdir('/usr')), os.path.exists('/usr/sbin/adduser')]"


def test_code_sees_the_other_file_system(sandbox: lib.Sandbox, made: str) -> None:
    result = sandbox.exec(LOOK, session="other", options=["--rootfs", made])
    assert eval(result["value"]) == ["the other one", sorted(os.listdir(os.path.join(made, "usr"))), False]
    assert result["manifest"]["rootfs"] == made and result["manifest"]["interpreter"] == "/usr/bin/python3"
    assert sandbox.exec(sh="cat /usr/share/which", session="other")["stdout"] == "the other one"
    assert sandbox.exec("import os; os.kill(os.getpid(), 9)", session="other")["state"] == "rolled_back"
    assert eval(sandbox.exec(LOOK, session="other")["value"])[0] == "the other one"
    sandbox.destroy("other")
    here = sandbox.exec("import os\nos.path.exists('/usr/share/which')")  # the next session is the host's again
    assert here["value"] == "False" and here["manifest"]["rootfs"] is None


def test_it_is_read_only_and_as_confined_as_ever(sandbox: lib.Sandbox, made: str) -> None:
    code = """
import os, socket
failed = []
for path in ('/usr/new', '/usr/share/which', '/etc/new', '/new'):
    try:
        open(path, 'w')
    except OSError as error:
        failed.append(path)
try:
    socket.create_connection(('192.0.2.1', 80), 1)
except OSError:
    failed.append('network')
failed"""
    result = sandbox.exec(code, options=["--rootfs", made])
    assert eval(result["value"]) == ["/usr/new", "/usr/share/which", "/etc/new", "/new", "network"]
    assert all(control["enforced"] for control in result["manifest"]["controls"].values())
    with open(os.path.join(made, "usr", "share", "which")) as mark:
        assert mark.read() == "the other one"


def test_a_session_keeps_its_file_system(sandbox: lib.Sandbox, made: str) -> None:
    sandbox.exec("1", session="keeps")
    done = sandbox.cli("exec", "--session", "keeps", "--rootfs", made, "1")
    assert done.returncode == 2 and "the host's files" in done.stderr
    sandbox.destroy("keeps")


@pytest.mark.parametrize("who", ["root", "user"])
def test_an_archive_is_unpacked_once(fresh_sandbox: Callable[..., lib.Sandbox], made: str, who: str) -> None:
    box = fresh_sandbox(who)
    archive = os.path.join(box.folder, "root.tar.gz")
    subprocess.run(["tar", "-C", made, "-I", "gzip -1", "-cf", archive, "."], check=True)
    first = box.cli("exec", "--rootfs", archive, "print(open('/usr/share/which').read())", timeout=2 * lib.PATIENCE)
    assert first.stdout == "the other one\n", first.stderr
    assert "unpacking" in first.stderr
    again = box.cli("exec", "--rootfs", archive, "print(1)")
    assert again.stdout == "1\n" and "unpacking" not in again.stderr
    kept = [name for name in os.listdir(os.path.join(box.state, "rootfs")) if not name.startswith(".")]
    assert len(kept) == 1 and len(kept[0]) == 64


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


@pytest.mark.parametrize("bad, word", [
    (entry("../../escaped"), "leads out"),
    (entry("/tmp/escaped"), "leads out"),
    (entry("usr/../../escaped"), "leads out"),
    (entry("usr/device", tarfile.CHRTYPE), "device"),
    (entry("usr/fifo", tarfile.FIFOTYPE), "device or pipe"),
    (entry("usr/../../escaped", tarfile.SYMTYPE, "usr"), "leads out"),
    (entry("usr/a -> ../../../escaped", tarfile.SYMTYPE, "usr"), "unreadable link"),
    (entry("usr/hard", tarfile.LNKTYPE, "usr/../../../etc/passwd"), "tar failed"),
    (entry("usr/huge", size=20 << 30), ""),
])
def test_hostile_archives_are_refused(sandbox: lib.Sandbox, bad: Any, word: str) -> None:
    archive = os.path.join(sandbox.folder, "bad.tar")
    with open(archive, "wb") as out:
        out.write(bad.tobuf() + bytes(10240))
    os.chmod(archive, 0o644)
    refused(sandbox, archive, word)
    left = [name for name in os.listdir(os.path.join(sandbox.state, "rootfs")) if not name.startswith(".")]
    assert left == []
    assert not os.path.exists("/tmp/escaped")


@pytest.mark.parametrize("link", ["absolute", "up", "chain"])
def test_a_link_in_an_archive_is_not_written_through(sandbox: lib.Sandbox, link: str) -> None:
    target = sandbox.make_folder("link-target-" + link)
    archive = os.path.join(sandbox.folder, "link.tar")
    lead = target if link == "absolute" else "../" * 30 + target[1:]
    with tarfile.open(archive, "w") as out:
        out.addfile(entry("usr", tarfile.DIRTYPE))
        if link == "chain":
            out.addfile(entry("usr/lib", tarfile.SYMTYPE, "other"))
            out.addfile(entry("usr/other", tarfile.SYMTYPE, lead))
        else:
            out.addfile(entry("usr/lib", tarfile.SYMTYPE, lead))
        out.addfile(entry("usr/lib/written"))
    os.chmod(archive, 0o644)
    assert sandbox.cli("exec", "--rootfs", archive, "1").returncode == 1
    assert os.listdir(target) == []
    control = sandbox.make_folder("link-control-" + link)  # the control run: an unpacker that follows links
    os.symlink(target, os.path.join(control, "lib"))
    open(os.path.join(control, "lib", "written"), "w").close()
    assert os.listdir(target) == ["written"]


def test_an_archive_keeps_links_upwards_and_folders_called_dev(sandbox: lib.Sandbox, made: str) -> None:
    archive = os.path.join(sandbox.folder, "links.tar")
    with tarfile.open(archive, "w") as out:
        out.add(made, ".")
        out.addfile(entry("./usr/share/up", tarfile.SYMTYPE, "../../usr/share/which"))
        out.addfile(entry("./usr/share/above", tarfile.SYMTYPE, ".."))
        out.addfile(entry("./usr/share/dev", tarfile.DIRTYPE))
        out.addfile(entry("./usr/share/dev/kept"))
        out.addfile(entry("./dev/device", tarfile.CHRTYPE))
    os.chmod(archive, 0o644)
    code = "import os\nprint(open('/usr/share/up').read(), os.path.samefile('/usr/share/above', '/usr'), " \
           "os.listdir('/usr/share/dev'), os.path.exists('/dev/device'))"
    done = sandbox.cli("exec", "--rootfs", archive, code, timeout=2 * lib.PATIENCE)
    assert done.stdout == "the other one True ['kept'] False\n", done.stderr


def test_links_of_a_hostile_file_system_do_not_leave_it(sandbox: lib.Sandbox, broken: str) -> None:
    token = "token-" + os.urandom(8).hex()
    secret = sandbox.make_folder("secret")
    sandbox.make_file(os.path.join(secret, "fonts", "token"), token)
    sandbox.make_file(os.path.join(secret, "mime.types"), token)
    os.rmdir(os.path.join(broken, "etc", "ssl"))
    os.rmdir(os.path.join(broken, "etc"))
    os.symlink(secret, os.path.join(broken, "etc"))
    with open(os.path.join(broken, "etc", "mime.types")) as followed:  # the control run: a lookup that follows
        assert followed.read() == token
    code = f"import subprocess\nsubprocess.run(['grep', '-rs', {token!r}, '/etc'], capture_output=True).stdout" \
        if os.path.exists(os.path.join(broken, "usr", "bin", "grep")) else \
        ("import os\n"
         "[open(os.path.join(f, n), errors='replace').read() for f, _, names in os.walk('/etc') for n in names]")
    result = sandbox.exec(code, options=["--rootfs", broken])
    assert result["value"] and token not in result["value"]
    # Up and out, and through /proc.
    for target in ("../../../../../../../../etc", "/proc/1/root/etc", "/proc/self/root/etc"):
        os.unlink(os.path.join(broken, "etc"))
        os.symlink(target, os.path.join(broken, "etc"))
        result = sandbox.exec("open('/etc/passwd').read()", options=["--rootfs", broken])
        assert "sandbox:x:1000" in result["value"] and "daemon:" not in result["value"]


def test_a_usr_that_is_a_link_to_the_host_is_not_followed(sandbox: lib.Sandbox, broken: str) -> None:
    shutil.rmtree(os.path.join(broken, "usr"))
    os.symlink("/usr", os.path.join(broken, "usr"))
    assert os.path.exists(os.path.join(broken, "usr", "bin", "python3"))  # the control run
    refused(sandbox, broken, "neither /usr/bin/python3")


def test_top_links_lead_into_usr_only(sandbox: lib.Sandbox, broken: str) -> None:
    os.unlink(os.path.join(broken, "lib"))
    os.symlink("/workspace", os.path.join(broken, "lib"))
    refused(sandbox, broken, "not into /usr")


def test_what_cannot_be_a_file_system_is_said(sandbox: lib.Sandbox, made: str, broken: str) -> None:
    refused(sandbox, "/", "home folder")
    refused(sandbox, sandbox.home, "home folder")
    refused(sandbox, os.path.join(sandbox.folder, "none"), "no such file or folder")
    refused(sandbox, sandbox.make_folder("empty"), "neither /usr/bin/python3")
    done = sandbox.cli("exec", "--rootfs", made, "--template", "venv", "1")
    assert done.returncode == 2 and "base, data" in done.stderr
    program = os.path.join(broken, "usr", "bin", "python3")
    with open(os.path.join(made, "usr", "bin", "python3"), "rb") as out:
        right = out.read(65536)
    for data, word in ((b"#!/bin/sh\n", "not a program"),
                       (right[:18] + b"\xf3\0" + right[20:], "another processor"),
                       (right.replace(b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-musl-x86_64.so.1\0\0\0"), "musl")):
        os.unlink(program)
        with open(program, "wb") as out:
            out.write(data)
        os.chmod(program, 0o755)
        if word != "musl" or b"ld-musl" in data:
            refused(sandbox, broken, word)


def test_an_incomplete_python_is_said(sandbox: lib.Sandbox, broken: str) -> None:
    os.unlink(os.path.join(broken, "usr", "lib", "python" + packages.version(), "base64.py"))
    refused(sandbox, broken, "base64", "complete CPython")


@pytest.mark.slow
def test_a_file_system_of_mmdebstrap(sandbox: lib.Sandbox, tmp_path_factory: pytest.TempPathFactory) -> None:
    lib.need("mmdebstrap", bool(shutil.which("mmdebstrap")) and os.geteuid() == 0,
             "mmdebstrap is not installed, or not root")
    archive = os.path.join(sandbox.folder, "debian.tar")
    shared = tmp_path_factory.getbasetemp() / "debian.tar"
    if not shared.exists():
        done = subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--include=python3,libc-bin,dash",
                               "bookworm", str(shared)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        lib.need("mmdebstrap", done.returncode == 0, "no packages: " + done.stderr[-300:])
    shutil.copy(shared, archive)
    os.chmod(archive, 0o644)
    code = "import sys, ssl, sqlite3, os\n[sys.version_info[:2], os.path.exists('/usr/bin/git')]"
    result = sandbox.exec(code, options=["--rootfs", archive], timeout=3 * lib.PATIENCE)
    assert eval(result["value"]) == [(3, 11), False]
    assert sandbox.exec(argv=["/bin/sh", "-c", "echo $((6 * 7))"], options=["--rootfs", archive])["stdout"] == "42\n"
    os.unlink(archive)


def test_the_local_tier_has_none(sandbox: lib.Sandbox, made: str) -> None:
    done = sandbox.cli("exec", "--env", "local", "--rootfs", made, "1")
    assert done.returncode == 1 and "--env native" in done.stderr
