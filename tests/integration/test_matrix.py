# SPDX-License-Identifier: Apache-2.0
"""Hosts that lack something, made by force: refused with the reason and the way out, or degraded
when that is allowed, and the manifest says it. docs/security/controls.md has the same rows as a table."""

import fcntl
import json
import os
import signal
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lib

FILTER = [lib.PYTHON, os.path.join(lib.HERE, "outer_filter.py")]
NEW_NAMESPACES = "7e020000"  # the CLONE_NEW* bits of clone and unshare
# What Docker's own filter does to a container without CAP_SYS_ADMIN.
CONTAINER = [*FILTER, f"clone:{NEW_NAMESPACES}=EPERM", f"unshare:{NEW_NAMESPACES}=EPERM", "clone3=ENOSYS",
             "mount=EPERM", "setns=EPERM", "--"]
MIB = 1 << 20


@pytest.fixture
def box() -> Iterator[Callable[..., lib.Sandbox]]:
    """A factory of runtimes: box("user", env={...}, prefix=[...])."""
    made = []

    def make(who: str = "root", **kwargs: Any) -> lib.Sandbox:
        made.append(lib.Sandbox(who, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.close()


def refused(box: lib.Sandbox, *options: str) -> str:
    """What is said when nothing runs."""
    done = box.cli("exec", *options, "print('r' + 'an')")
    assert done.returncode == 1 and "ran" not in done.stdout, done.stderr
    return done.stderr


def manifest_of(box: lib.Sandbox, *options: str) -> lib.Json:
    done = box.exec("6 * 7", options=options)
    assert done["value"] == "42", done
    manifest: lib.Json = done["manifest"]
    return manifest


def features(box: lib.Sandbox) -> lib.Json:
    """Rows of doctor by name."""
    return {row["name"]: row for row in json.loads(box.cli("doctor", "--json").stdout)["checks"]}


def shell(script: str) -> list[Any]:
    """A prefix: the shell line, in mounts of its own, then the daemon."""
    return ["/usr/bin/unshare", "-m", "--propagation", "private", "/bin/sh", "-ec", script + '; exec "$@"', "sh"]


def user_shell(script: str) -> list[Any]:
    """The same without privileges: user 0 of a new user namespace, as in a rootless container."""
    return ["/usr/bin/unshare", "-Urm", "--propagation", "private", "/bin/sh", "-ec", script + '; exec "$@"', "sh"]


# An overlay of /usr -------------------------------------------------------------------------------

BELOW_USR = "mount --bind /usr/share/doc /usr/local/games"


@pytest.mark.parametrize("who, prefix", [("root", shell(BELOW_USR)), ("user", user_shell(BELOW_USR))])
def test_what_is_mounted_below_usr_is_shown(box: Callable[..., lib.Sandbox], who: str, prefix: list[str]) -> None:
    """Not what it covers; as an ordinary user the kernel then allows no overlay, which is said."""
    one = box(who, prefix=prefix)
    done = one.exec("import os; os.listdir('/usr/share/doc') == os.listdir('/usr/local/games')")
    assert done["value"] == "True"
    said = [text for text in done["manifest"]["degraded"] if text.startswith("network: sockets")]
    assert bool(said) == (who == "user") == (features(one)["overlay of /usr"]["status"] != "ok")


# Landlock ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("abi", [1, 2, 3, 4, 5, 6])
def test_an_older_landlock_is_used_as_far_as_it_goes(box: Callable[..., lib.Sandbox], who: str, abi: int) -> None:
    one = box(who, env={"SNIPARA_SANDBOX_LANDLOCK_ABI": str(abi)})
    code = """
import os
os.makedirs("a"); os.makedirs("b")
open("a/f", "w").write("1")
open("a/f", "a").truncate(0)
try:
    os.rename("a/f", "b/f")
    moved = True
except OSError as error:
    moved = error.errno
try:
    open("/proc/self/../../etc/hostname", "w")
    wrote = True
except OSError as error:
    wrote = error.errno
result = [moved, wrote]
"""
    done = one.exec(code)
    manifest = done["manifest"]
    lib.need("landlock", manifest["controls"]["filesystem"]["landlock_abi"] > 0, "no Landlock here")
    assert manifest["controls"]["filesystem"]["landlock_abi"] == abi
    moved, wrote = json.loads(done["result"].replace("True", "true"))
    # ABI 1 takes a move between folders for an escape; from ABI 2 on it can be told apart.
    assert (moved == 18) == (abi == 1) and (moved is True) == (abi > 1)
    assert wrote in (13, 30)
    assert any("landlock: ABI 1" in text for text in manifest["degraded"]) == (abi == 1)
    if abi == 1:
        said = refused(one, "--require-exact")
        assert "ABI 1" in said and "5.19" in said


@pytest.mark.parametrize("who", ["root", "user"])
def test_no_landlock_is_refused_unless_allowed(box: Callable[..., lib.Sandbox], who: str) -> None:
    one = box(who, env={"SNIPARA_SANDBOX_LANDLOCK_ABI": "0"})
    said = refused(one)
    assert "Landlock" in said and "--allow-degraded" in said
    manifest = manifest_of(one, "--allow-degraded")
    assert manifest["controls"]["filesystem"]["landlock_abi"] == 0
    assert any(text.startswith("landlock:") for text in manifest["degraded"])
    assert "landlock" in refused(one, "--allow-degraded", "--require-exact")
    assert features(one)["landlock"]["status"] == "missing"


# Namespaces and containers ----------------------------------------------------------------------


@pytest.mark.parametrize("who", ["root", "user"])
def test_no_user_namespaces_is_refused(box: Callable[..., lib.Sandbox], who: str) -> None:
    one = box(who, prefix=[*FILTER, "unshare:10000000=EPERM", "clone:10000000=EPERM", "clone3=ENOSYS", "--"])
    said = refused(one)
    assert "user namespaces are refused here" in said and "--security-opt" in said and "--env local" in said
    assert "user namespaces are refused here" in refused(one, "--env", "native", "--allow-degraded")
    manifest = manifest_of(one, "--allow-degraded")
    assert manifest["tier"] == "local"
    assert any(text.startswith("environment: local, because native cannot run: user namespaces")
               for text in manifest["degraded"])
    assert manifest_of(one, "--env", "local")["tier"] == "local"
    assert features(one)["user namespaces"]["status"] != "ok"


def test_the_setting_that_forbids_them_is_named(box: Callable[..., lib.Sandbox]) -> None:
    """It counts per user namespace, so one of our own can have it without touching the host's."""
    one = box("user", prefix=user_shell("echo 0 >/proc/sys/user/max_user_namespaces"))
    said = refused(one)
    assert "/proc/sys/user/max_user_namespaces" in said and "sysctl" in said
    assert "/proc/sys/user/max_user_namespaces" in features(one)["user namespaces"]["detail"]


@pytest.mark.parametrize("who", ["root", "user"])
def test_in_a_container_with_the_usual_filter_it_is_refused(box: Callable[..., lib.Sandbox], who: str) -> None:
    said = refused(box(who, prefix=CONTAINER))
    assert "user namespaces are refused here" in said and "seccomp=unconfined" in said


@pytest.mark.parametrize("who", ["root", "user"])
def test_without_clone3_clone_does(box: Callable[..., lib.Sandbox], who: str) -> None:
    one = box(who, prefix=[*FILTER, "clone3=ENOSYS", "--"])
    manifest = manifest_of(one)
    assert manifest["degraded"] == [] or who == "user"
    row = features(one)["clone3"]
    assert row["status"] == "missing" and "clone is used" in row["cost"]
    one.exec("x = 41", session="s")
    assert one.exec("x + 1", session="s")["value"] == "42"


@pytest.mark.parametrize("who", ["root", "user"])
def test_clone3_refused_as_old_runtimes_do_is_named(box: Callable[..., lib.Sandbox], who: str) -> None:
    with pytest.raises(RuntimeError, match="clone3 .* EPERM.* update the runtime"):  # of the daemon's log
        box(who, prefix=[*FILTER, "clone3=EPERM", "--"]).exec("1")


@pytest.mark.parametrize("who", ["root", "user"])
def test_where_proc_is_partly_covered_the_way_out_is_named(box: Callable[..., lib.Sandbox], who: str) -> None:
    """Docker covers parts of /proc; the kernel then refuses a fresh one to an unprivileged namespace."""
    cover = "mount -t tmpfs none /proc/acpi 2>/dev/null || mount -t tmpfs none /proc/bus"
    one = box("user" if who == "user" else "root", prefix=user_shell(cover))
    said = refused(one)
    assert "/proc" in said and "systempaths=unconfined" in said and "unmask=ALL" in said
    assert features(one)["own /proc"]["status"] != "ok"


def test_in_a_rootless_container_it_runs(box: Callable[..., lib.Sandbox]) -> None:
    """User 0 of a namespace that holds one id, with a /proc and processes of its own."""
    one = box("user", prefix=user_shell("true"))
    manifest = manifest_of(one)
    assert manifest["controls"]["disposable"]["own_ids"] is False
    assert one.exec("import os; os.getuid()")["value"] == "1000"


# Control groups ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["option", "variable", "file"])
@pytest.mark.parametrize("who", ["root", "user"])
def test_exact_or_nothing(box: Callable[..., lib.Sandbox], who: str, how: str) -> None:
    variables = {"SNIPARA_SANDBOX_NO_CGROUP": "1"}
    if how == "variable":
        variables["RLM_REQUIRE_EXACT"] = "true"
    one = box(who, env=variables)
    if how == "file":
        one.make_file("home/snipara-sandbox.toml", "[snipara_sandbox]\nrequire_exact = true\n")
    options = ["--require-exact"] if how == "option" else []
    said = refused(one, *options)
    assert "memory: approximate" in said and "--no-require-exact" in said and "delegate" in said
    assert one.exec("1", options=["--no-require-exact"])["status"] == "ok"
    # Nor in a session that was opened by somebody less particular.
    one.exec("x = 1", session="s", options=["--no-require-exact"])
    said = refused(one, "--session", "s", *options)
    assert "memory: approximate" in said
    assert one.exec("x", session="s", options=["--no-require-exact"])["value"] == "1"


def test_exact_is_given_where_it_can_be(box: Callable[..., lib.Sandbox]) -> None:
    one = box("root")
    manifest = manifest_of(one)
    lib.need("cgroup", manifest["degraded"] == [], str(manifest["degraded"]))
    assert manifest_of(one, "--require-exact")["controls"]["resources"]["memory"] == "exact"


def test_a_read_only_sys_means_approximate(box: Callable[..., lib.Sandbox]) -> None:
    script = "for at in $(awk '$2 ~ \"^/sys\" { print $2 }' /proc/self/mounts); do mount -o remount,bind,ro $at; done"
    one = box("root", prefix=shell(script))
    manifest = manifest_of(one)
    assert manifest["controls"]["resources"]["memory"] == "approximate"
    assert any(text.startswith("memory: approximate") and "(cgroup" in text
               for text in manifest["degraded"]), manifest["degraded"]
    assert "memory: approximate" in refused(one, "--require-exact")
    assert features(one)["cgroup memory"]["status"] == "missing"


HOLD = """
import os, time
for n in range({n}):
    if os.fork() == 0:
        {take}
        time.sleep(600)
        os._exit(0)
time.sleep(600)
"""
TAKES = {
    "private": "b = bytearray(20 << 20); b[::4096] = b'x' * len(b[::4096])",
    "shared": "import mmap; f = open(f'/dev/shm/{n}', 'w+b'); f.truncate(20 << 20); os.unlink(f.name)\n"
              "        b = mmap.mmap(f.fileno(), 20 << 20); f.close(); b[::4096] = b'x' * len(b[::4096])",
    "datagrams of closed senders": "import socket; kept = []\n        for _ in range(70):\n"
                                   "            a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                                   "            kept.append(b); a.send(b'x' * 99999); a.send(b'x' * 99999); a.close()",
    "a file in /tmp": "open(f'/tmp/{n}', 'wb').write(bytes(20 << 20))",
    "a file in /dev/shm": "open(f'/dev/shm/{n}', 'wb').write(bytes(20 << 20))",
    # alone it cannot: the workspace takes a part of the memory
    "a file in the workspace": "open(f'/tmp/{n}' if n % 2 else f'{n}', 'wb').write(bytes(18 << 20))",
}


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("who", ["root", "user"])
def test_without_a_group_all_kinds_of_memory_count(box: Callable[..., lib.Sandbox], who: str, take: str) -> None:
    one = box(who, env={"SNIPARA_SANDBOX_NO_CGROUP": "1"})
    options = ["--memory", "64m", "--tmp-size", "512m", "--timeout", "600"]
    done = one.exec(HOLD.format(n=8, take=TAKES[take]), options=options)
    assert done["status"] == "oom" and done["limit"]["key"] == "memory", (done["status"], done["error"])
    assert done["usage"]["memory_peak_bytes"] > 64 * MIB
    # The control run: the same within the limit.
    less = HOLD.format(n=2, take=TAKES[take]).replace("time.sleep(600)", "time.sleep(0.3)")
    assert one.exec(less, options=options)["status"] == "ok"


@pytest.mark.parametrize("who", ["root", "user"])
def test_without_a_group_a_crowd_is_reported(box: Callable[..., lib.Sandbox], who: str) -> None:
    one = box(who, env={"SNIPARA_SANDBOX_NO_CGROUP": "1"})
    code = """
import os, time
for n in range(40):
    try:
        if os.fork() == 0:
            time.sleep(600); os._exit(0)
    except OSError:
        refused = True
time.sleep(1.5)
refused
"""
    done = one.exec(code, options=["--processes", "16"])
    assert done["value"] == "True"
    assert [d["object"] for d in done["denials"] if d["rule"].startswith("processes")] == [""], done["denials"]
    done = one.exec("import time; time.sleep(0.2)", options=["--processes", "16"])
    assert not [d for d in done["denials"] if d["rule"].startswith("processes")]


# What is full stays full, but is told once --------------------------------------------------------


def test_a_full_workspace_is_told_by_the_cell_that_met_it(sandbox: lib.Sandbox) -> None:
    fill = "f = open('f', 'wb')\ntry:\n    while True: f.write(bytes(65536))\nexcept OSError: pass"
    options = ["--workspace-size", "4m"]
    met = sandbox.exec(fill, session="full", options=options)
    assert [d["object"] for d in met["denials"] if d["source"] == "limit"] == ["/workspace"]
    later = sandbox.exec("1 + 1", session="full")
    assert later["value"] == "2" and not [d for d in later["denials"] if d["source"] == "limit"]
    again = sandbox.exec("f.close(); import os; os.remove('f')\n" + fill.replace("'f'", "'g'"), session="full")
    sandbox.destroy("full")
    assert again["status"] == "ok"


# Folders ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["root", "user"])
def test_without_a_runtime_folder_one_of_our_own_is_made(box: Callable[..., lib.Sandbox], who: str) -> None:
    """Neither XDG_RUNTIME_DIR nor our variable: a folder in /tmp (here a private one), closed to others."""
    lib.need("root", os.geteuid() == 0, "needs root to make a private /tmp")
    one = box(who)
    script = f"""
mount --bind {one.bin} /mnt
mount -t tmpfs -o mode=1777 none /tmp
[ ! -d /run/user ] || mount -t tmpfs none /run/user
mkdir /tmp/snipara-sandbox-{one.uid}
chown 12345 /tmp/snipara-sandbox-{one.uid}
! setpriv --reuid={one.uid} --regid={one.uid} --clear-groups env HOME=/ /mnt/snipara-sandbox exec 1
rmdir /tmp/snipara-sandbox-{one.uid}
exec setpriv --reuid={one.uid} --regid={one.uid} --clear-groups sh -ec '
mkdir /tmp/home
export HOME=/tmp/home
/mnt/snipara-sandbox exec "6 * 7"
stat -c %a:%u /tmp/snipara-sandbox-{one.uid}
/mnt/snipara-sandbox doctor --json
'"""
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "/bin/sh", "-ec", script], cwd="/",
                          env={"PATH": one.env["PATH"]}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    value, mode, report = done.stdout.split("\n", 2)
    rows = {row["name"]: row for row in json.loads(report)["checks"]}
    pid = int(lib.search(r"pid (\d+)", rows["daemon"]["detail"]).group(1))
    os.kill(pid, signal.SIGTERM)
    assert lib.wait_for(lambda: not lib.is_alive(pid))
    assert (value, mode) == ("42", f"700:{one.uid}"), (done.stdout, done.stderr)
    assert "set SNIPARA_SANDBOX_RUNTIME_DIR" in done.stderr and "belongs to user 12345" in done.stderr
    assert rows["runtime folder"]["detail"] == f"/tmp/snipara-sandbox-{one.uid}"


@pytest.mark.parametrize("who", ["root", "user"])
def test_the_usual_runtime_folder_is_found_without_its_variable(box: Callable[..., lib.Sandbox], who: str) -> None:
    """AI clients start servers with few variables: these are to find the daemon of the user's shell."""
    lib.need("root", os.geteuid() == 0, "needs root to make a private /run")
    one = box(who)
    script = f"""
mount --bind {one.bin} /mnt
mount -t tmpfs none /run
mkdir -p /run/user/{one.uid}
chmod 700 /run/user/{one.uid}
chown {one.uid} /run/user/{one.uid}
exec setpriv --reuid={one.uid} --regid={one.uid} --clear-groups sh -ec '
export HOME={one.home}
/mnt/snipara-sandbox doctor --json || true
XDG_RUNTIME_DIR=/run/user/{one.uid} /mnt/snipara-sandbox doctor --json || true
/mnt/snipara-sandbox daemon stop --force >/dev/null
'"""
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "/bin/sh", "-ec", script], cwd="/",
                          env={"PATH": one.env["PATH"]}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    reports = done.stdout.replace("}\n{", "}\0{").split("\0")
    places = [row["detail"] for text in reports
              for row in json.loads(text)["checks"] if row["name"] == "runtime folder"]
    assert places == [f"/run/user/{one.uid}/snipara-sandbox"] * 2, (done.stdout, done.stderr)


# Two daemons --------------------------------------------------------------------------------------

SLOTS = 4096
BASE = 0x70000000


def lock_all_but(fd: int, free: int) -> None:
    for slot in range(SLOTS):
        if slot != free:
            fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, slot, 1, 0))  # F_OFD_SETLK


def test_ids_that_another_daemon_uses_are_not_taken(box: Callable[..., lib.Sandbox], tmp_path: Path) -> None:
    lib.need("root", os.geteuid() == 0, "ids are root's to give")
    run = tmp_path / "run"
    run.mkdir()
    one = box("root", prefix=shell(f"mount --bind '{run}' /run"))
    fd = os.open(run / "snipara-sandbox-ids", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock_all_but(fd, 77)
        ids = one.exec("open('/proc/self/uid_map').read().split()")["value"]
        assert ids == str(["0", str(BASE + 77 * 65536), "65536"])
        one.exec("x = 1", session="s")
        said = refused(one)
        assert "user ids" in said
        fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, SLOTS, 0))
        assert one.exec("6 * 7")["value"] == "42"
    finally:
        os.close(fd)


def test_without_a_place_for_locks_nothing_runs_as_root(box: Callable[..., lib.Sandbox], tmp_path: Path) -> None:
    lib.need("root", os.geteuid() == 0, "ids are root's to give")
    for name in ("run", "shm"):
        (tmp_path / name).mkdir()
    script = "".join(f"mount --bind '{tmp_path}/{a}' {b}; mount -o remount,bind,ro {b}; "
                     for a, b in (("run", "/run"), ("shm", "/dev/shm")))
    said = refused(box("root", prefix=shell(script + "true")))
    assert "/run/snipara-sandbox-ids" in said and "root must be able to write" in said


def test_locks_that_failed_for_a_moment_are_tried_again(box: Callable[..., lib.Sandbox], tmp_path: Path) -> None:
    lib.need("root", os.geteuid() == 0, "ids are root's to give")
    script = ""
    for name, place in (("run", "/run"), ("shm", "/dev/shm")):
        (tmp_path / name / "snipara-sandbox-ids").mkdir(parents=True)
        script += f"mount --bind '{tmp_path}/{name}' {place}; "
    one = box("root", prefix=shell(script + "true"))
    assert "Is a directory" in refused(one)
    tier = one.tier_pid()
    (tmp_path / "run" / "snipara-sandbox-ids").rmdir()
    assert one.exec("6 * 7")["value"] == "42"
    assert one.tier_pid() == tier
