# SPDX-License-Identifier: Apache-2.0
"""The docker tier on an engine of the tests' own: what a container may do, errors, the end. Sessions, cells and results
are as in native: test_tiers.py, and files whose tests have a box for each tier."""

import contextlib
import glob
import itertools
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import engine as engines
import lib
from scripted_runs import Runs, call, turn
from test_python import PACKAGE, pytestmark as no_sanitizers, with_package

BINDINGS = os.path.dirname(PACKAGE)


@pytest.fixture(scope="module")
def sandbox(engine: engines.Engine) -> Iterator[lib.Sandbox]:
    box = lib.Sandbox("root", tier="docker", env={**engine.env, **engines.NO_POOL})
    yield box
    box.close()


@pytest.fixture
def session(sandbox: lib.Sandbox) -> Iterator[str]:
    """A session with x = 1 and a file of the same."""
    name = "d-" + secrets.token_hex(4)
    assert sandbox.exec("x = 1\nopen('f', 'w').write('one')", name)["status"] == "ok"
    yield name
    sandbox.destroy(name)


def container_of(engine: engines.Engine, box: lib.Sandbox, session: str) -> Any:
    """What the engine says of the container of a session."""
    box.exec("1", session)
    for container in engine.containers():
        status, shown = engine.ask("GET", f"/containers/{container}/json")
        name = box.exec("open('/etc/hostname').read().strip()", session)["value"]
        if status == 200 and repr(shown["Config"]["Hostname"]) == name:
            return shown
    raise AssertionError("no container has the session")


def state_of(box: lib.Sandbox) -> str:
    """The folder of its tier, a label of its containers."""
    return os.path.join(box.state, "docker")


def wait_for_none(engine: engines.Engine, ids: list[str]) -> None:
    until = time.monotonic() + lib.PATIENCE
    while set(engine.containers()) & set(ids):
        assert time.monotonic() < until, "containers stay"
        time.sleep(0.05)


# What a container may do ---------------------------------------------------------------------------------------------


def test_a_container_is_given_nothing(engine: engines.Engine, sandbox: lib.Sandbox, session: str) -> None:
    """As the engine has it, and as the code finds it."""
    host = container_of(engine, sandbox, session)["HostConfig"]
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]) == ("none", True, ["ALL"])
    assert not host["Privileged"] and host["IpcMode"] == "private" and host["LogConfig"]["Type"] == "none"
    assert host["Memory"] == host["MemorySwap"] > 512 << 20 and host["NanoCpus"] == 10**9 and host["PidsLimit"] > 64
    assert all(mount["ReadOnly"] for mount in host["Mounts"]) and not host["Binds"]
    assert any(option.startswith("seccomp={") for option in host["SecurityOpt"])
    done = sandbox.exec('''
import os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
facts = {name: status[name].split()[0] for name in ("Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")}
facts["net"] = [line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]]
facts["kept"] = [mount.split()[1] for mount in open("/proc/self/mounts") if " rw," in mount
                 and mount.split()[2] in ("ext4", "overlay", "xfs", "btrfs")]
facts''', session)
    facts = eval(done["value"])
    assert facts == {"Uid": "65534", "Gid": "65534", "CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1",
                     "Seccomp": "2", "net": ["lo"], "kept": facts["kept"]}
    # what an engine puts into containers from its own folders is shown read-only
    assert set(facts["kept"]) <= {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts"}


def test_streams_are_given_to_pid_1_only(fresh_sandbox: Callable[..., lib.Sandbox], engine: engines.Engine) -> None:
    """Who may enter the folder and comes before it gets nothing; pid 1 still gets them, and needs no relay."""
    box = fresh_sandbox(tier="docker", env={**engine.env, "SNIPARA_SANDBOX_POOL": "0"})
    got: list[tuple[bytes, list[int]]] = []
    is_over = threading.Event()

    def come_first() -> None:
        while not is_over.is_set():  # before there are streams, and when there are
            for path in glob.glob(f"{state_of(box)}/line-*"):
                with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as mine:
                    folder = os.open(path, os.O_PATH)  # the whole may be too long for a socket
                    try:
                        mine.connect(f"/proc/self/fd/{folder}/s")
                    finally:
                        os.close(folder)
                    mine.settimeout(lib.PATIENCE)
                    got.append(socket.recv_fds(mine, 1, 3)[:2])

    numbers = itertools.count()

    def has_come_first() -> bool:  # pid 1 may be first
        name = f"s{next(numbers)}"
        assert box.exec("1", name)["value"] == "1"
        if not got:
            box.destroy(name)
        return bool(got)

    thief = threading.Thread(target=come_first)
    thief.start()
    try:
        lib.wait_for(has_come_first, 4 * lib.PATIENCE)
    finally:
        is_over.set()
        thief.join()
    assert got and set(map(repr, got)) == {repr((b"", []))}
    container, = engine.containers(state_of(box))
    rows = engine.ask("GET", f"/containers/{container}/top")[1]["Processes"]
    names = [pathlib.Path(f"/proc/{row[1]}/comm").read_text().strip() for row in rows]
    assert "init" in names and "relay" not in names


@pytest.mark.parametrize("code, error", [
    ("open('/usr/bin/x', 'w')", "OSError"),
    ("open('/run/snipara/guest/driver.py', 'a')", "PermissionError"),
    ("open('/run/snipara/snp-init')", "PermissionError"),
    ("open('/run/copies/x', 'w')", "PermissionError"),
    ("open('/etc/hosts', 'a')", "OSError"),
    ("__import__('os').kill(1, 9)", "PermissionError"),
    ("__import__('os').listdir('/proc/1/fd')", "PermissionError"),
    ("__import__('socket').create_connection(('192.0.2.1', 80), 5)", "OSError"),
    ("__import__('socket').socket(16, 3, 0)", "PermissionError"),
    ("__import__('ctypes').CDLL(None, use_errno=True).unshare(0x10000000) == 0 or 1 / 0", "ZeroDivisionError"),
    ("open('/tmp/x', 'wb').write(bytes(65 << 20))", "OSError"),
    ("open('/tmp/p', 'w').write('#!/bin/sh'); __import__('os').chmod('/tmp/p', 0o755); "
     "__import__('os').execv('/tmp/p', ['p'])", "PermissionError"),
])
def test_what_is_refused(sandbox: lib.Sandbox, session: str, code: str, error: str) -> None:
    done = sandbox.exec(code, session)
    found = done["error"]["type"]
    assert done["status"] == "error" and found in (error, "PermissionError"), done["error"]
    assert sandbox.exec("x", session)["value"] == "1"


HOSTILE = f"""FROM {engines.IMAGE}
ENV LD_PRELOAD=/x PYTHONHOME=/none PATH=/none SNIPARA_SANDBOX_ROOM=99999999 SNIPARA_SANDBOX_SPACE=1
VOLUME /data /workspace /tmp /run /run/snipara
ENTRYPOINT ["/bin/false"]
HEALTHCHECK --interval=1s CMD kill -9 1
LABEL snipara-sandbox.state=/x snipara-sandbox.mark=0
ONBUILD RUN false
USER root
STOPSIGNAL SIGCONT
WORKDIR /none
"""


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_an_image_changes_nothing_but_its_files(
        engine: engines.Engine, sandbox: lib.Sandbox, runtime: str) -> None:
    engine.build("hostile:1", HOSTILE)
    done = sandbox.exec("""
import os
found = []
for path in "/data", "/run", "/run/snipara":
    for step in lambda: os.chmod(path, 0o777), lambda: open(path + "/x", "w"):
        try:
            step()
        except OSError:
            found.append(path)
open("f", "w").close()
os.getuid(), len(found), os.environ.get("LD_PRELOAD")""", env={
        "SNIPARA_SANDBOX_DOCKER_IMAGE": "hostile:1", "SNIPARA_SANDBOX_DOCKER_RUNTIME": runtime})
    assert done["value"] == "(65534, 6, None)", done


def test_memory_and_processes_are_bounded(sandbox: lib.Sandbox) -> None:
    done = sandbox.exec("x = bytearray(1 << 30)", options=["--memory", "64m"])
    assert done["error"]["type"] == "MemoryError" or done["status"] == "oom"
    done = sandbox.exec("import os, time\nn = 0\ntry:\n    while os.fork(): n += 1\n    time.sleep(600)\n"
                        "except OSError: print(n)", options=["--processes", "8"])
    assert done["status"] == "ok" and 8 - 1 <= int(done["stdout"]) <= 8 + 2
    assert all(denial["operation"] == "fork" for denial in done["denials"])  # seen in samples only
    done = sandbox.exec("import subprocess; subprocess.run(['sleep', '0.3'])", options=["--processes", "2"])
    assert not done["denials"], done
    assert not sandbox.exec("__import__('time').sleep(0.3)", options=["--processes", "1"])["denials"]


def test_code_cannot_take_the_processes_of_ours(sandbox: lib.Sandbox) -> None:
    """As many as may be run in the background: cells are undone and the session is saved all the same."""
    few = ["--processes", "8"]
    assert sandbox.exec("import os, time\nn = 0\ntry:\n    while os.fork(): n += 1\n    time.sleep(600)\n"
                        "except OSError: pass\nn", "full", options=few)["value"] in ("7", "8", "9")
    done = sandbox.exec("n = 0\nos.kill(os.getpid(), 9)", "full")
    assert (done["status"], done["state"], done["transaction"]["interpreter"]) == ("killed", "rolled_back", "standby")
    assert sandbox.exec("n > 0", "full")["value"] == "True"
    sandbox.destroy("full")


@pytest.mark.parametrize("options, code", [
    (["--open-files", "16"], "import resource; 16 == resource.getrlimit(resource.RLIMIT_NOFILE)[1]"),
    (["--memory", "32m"], "True"),
    (["--memory", "128m"], "len(bytearray(100 << 20)) == 100 << 20"),
])
def test_small_limits_leave_what_they_say(sandbox: lib.Sandbox, options: list[str], code: str) -> None:
    assert sandbox.exec(code, options=options)["value"] == "True"


# A session is one warm container -------------------------------------------------------------------------------------


def test_a_session_keeps_its_container_to_the_end(engine: engines.Engine, sandbox: lib.Sandbox) -> None:
    first = container_of(engine, sandbox, "warm")["Id"]
    assert container_of(engine, sandbox, "warm")["Id"] == first
    sandbox.destroy("warm")
    wait_for_none(engine, [first])


def test_a_session_is_saved_and_woken_in_another_container(engine: engines.Engine, sandbox: lib.Sandbox) -> None:
    sandbox.exec("x = {'n': [1, 2]}\ndef f(): return x\nopen('f', 'w').write('kept')", "sleeper")
    first = container_of(engine, sandbox, "sleeper")["Id"]
    assert sandbox.cli("hibernate", "sleeper").returncode == 0
    wait_for_none(engine, [first])
    done = sandbox.exec("f(), open('f').read()", "sleeper")
    assert done["value"] == "({'n': [1, 2]}, 'kept')" and done["manifest"]["tier"] == "docker"
    sandbox.destroy("sleeper")


def test_output_comes_whole_and_before_the_end(sandbox: lib.Sandbox, session: str) -> None:
    """More than the streams hold at once, on both of them."""
    code = "import os\nfor n in range(200):\n    os.write(1, b'o' * 40000); os.write(2, b'e' * 40000)\n'end'"
    done = sandbox.exec(code, session)
    assert done["value"] == "'end'" and done["usage"]["stdout_bytes"] == done["usage"]["stderr_bytes"] == 200 * 40000


# The end -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who, by, runtime", [
    ("root", "engine", ""), ("user", "engine", ""), ("root", "engine", "runsc"), ("root", "podman", "")])
def test_nothing_is_left_when_daemon_and_tier_are_killed(
        request: pytest.FixtureRequest, fresh_sandbox: Callable[..., lib.Sandbox], who: str, by: str,
        runtime: str) -> None:
    engine: engines.Engine = request.getfixturevalue(by)
    box = fresh_sandbox(who, tier="docker", env={**engine.env, "SNIPARA_SANDBOX_DOCKER_RUNTIME": runtime})
    pid = box.start()
    box.exec("1", "left")

    def are_begun() -> list[str]:
        """One that is made but not started is removed at the next start only, which the test below has."""
        mine = engine.containers(state_of(box))
        shown = [engine.ask("GET", f"/containers/{container}/json")[1] for container in mine]
        return mine if all((row.get("State") or {}).get("Running") for row in shown) else []

    mine = lib.wait_for(are_begun)
    tiers = [int(name) for name in os.listdir("/proc") if name.isdigit() and parent_of(int(name)) == pid]
    assert mine and tiers
    for number in (pid, *tiers):
        os.kill(number, signal.SIGKILL)
    wait_for_none(engine, mine)


def parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@pytest.mark.parametrize("by, runtime", [("engine", ""), ("engine", "runsc"), ("podman", "")])
def test_what_an_earlier_tier_left_is_removed(
        request: pytest.FixtureRequest, fresh_sandbox: Callable[..., lib.Sandbox], by: str, runtime: str) -> None:
    """By its labels; what another's tier has made stays."""
    engine: engines.Engine = request.getfixturevalue(by)
    box = fresh_sandbox(tier="docker", env={**engine.env, "SNIPARA_SANDBOX_DOCKER_RUNTIME": runtime})
    state = state_of(box)
    made = {}
    for folder in state, "/somebody/else":
        labels = {"snipara-sandbox.state": folder, "snipara-sandbox.mark": "0" * 16}
        made[folder] = engine.ask("POST", "/containers/create", json.dumps(
            {"Image": engines.IMAGE, "Cmd": ["sleep", "1000"], "Labels": labels,
             "HostConfig": {"NetworkMode": "none", **({"Runtime": runtime} if runtime else {})}}).encode())[1]["Id"]
        assert engine.ask("POST", f"/containers/{made[folder]}/start")[0] == 204
    box.exec("1")
    wait_for_none(engine, [made[state]])
    assert made["/somebody/else"] in engine.containers()
    engine.ask("DELETE", f"/containers/{made['/somebody/else']}?force=1")


# Engines and runtimes ------------------------------------------------------------------------------------------------


class Kind:
    """What is different with a runtime: data, as its manifest has it."""

    def __init__(self, engine: str, runtime: str, degraded: str = "", has_own_kernel: bool = False) -> None:
        self.engine = engine
        self.runtime = runtime
        self.degraded = degraded
        self.has_own_kernel = has_own_kernel


KINDS = [
    Kind("engine", "crun"),
    Kind("engine", "runsc", "processes: gVisor", has_own_kernel=True),
    Kind("podman", "crun", "workspace: its size is bounded"),
]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{kind.engine}-{kind.runtime}")
def other(request: pytest.FixtureRequest) -> Iterator[tuple[Kind, lib.Sandbox]]:
    kind: Kind = request.param
    lib.need("docker", kind.runtime != "runsc" or engines.runsc() is not None, "no gVisor with systrap")
    own: engines.Engine = request.getfixturevalue(kind.engine)
    box = lib.Sandbox("root", tier="docker", env={**own.env, "SNIPARA_SANDBOX_DOCKER_RUNTIME": kind.runtime})
    yield kind, box
    box.close()


@pytest.mark.parametrize("oldest, newest", [(44, 52), (24, 41), (12, 40)])
def test_the_version_of_the_api_is_one_that_the_engine_has(
        engine: engines.Engine, tmp_path: pathlib.Path, oldest: int, newest: int) -> None:
    """Docker 29 has 1.44 and later; before 20.10 it had 1.40 and earlier, which is too old."""
    box = lib.Sandbox("root", tier="docker", env={**engine.env, **engines.NO_POOL,
                                                  "DOCKER_HOST": f"unix://{tmp_path}/s"})
    other = engines.OtherVersion(engine, f"{tmp_path}/s", oldest, newest)
    try:
        if newest > 40:
            assert box.exec("6 * 7")["value"] == "42" and other.asked == {max(41, oldest)}
        else:
            failed = box.cli("exec", "--env", "docker", "1")
            assert failed.returncode != 0 and "API version 1.40, and 1.41 or later is needed" in failed.stderr, failed
            assert "1.41 or later" in box.cli("doctor", "--env", "docker").stdout
    finally:
        box.close()
        other.close()


def test_cells_are_the_same_in_all_of_them(other: tuple[Kind, lib.Sandbox]) -> None:
    kind, box = other
    done = box.exec("import os, sys\nx = 1\nopen('f', 'w').write('one')\nprint('out', 'ü')\n"
                    "print('err', file=sys.stderr)\nos.uname().release", "s")
    assert (done["status"], done["stdout"], done["stderr"]) == ("ok", "out ü\n", "err\n"), done
    assert (done["value"] != repr(os.uname().release)) == kind.has_own_kernel
    assert done["manifest"]["controls"]["syscalls"]["runtime"] == kind.runtime
    assert any(text.startswith(kind.degraded) for text in done["manifest"]["degraded"])
    assert sum(text.startswith("processes: ") for text in done["manifest"]["degraded"]) == 1
    assert not any("warns" in text or "does not bound" in text for text in done["manifest"]["degraded"]), done
    mounts = box.exec("print(open('/proc/self/mountinfo').read())")["stdout"]
    shows = any(path in mounts for path in (box.bin, box.state))
    assert shows == any(text.startswith("mounts: ") for text in done["manifest"]["degraded"]) != kind.has_own_kernel
    change = "import signal\nsignal.signal(2, signal.SIG_IGN)\nx = 2\nopen('f', 'w').write('two')\n"
    assert box.exec(change + "os._exit(1)", "s")["state"] == "rolled_back"
    done = box.exec(change + "while True: pass", "s", options=["--timeout", str(lib.PATIENCE / 12)])
    assert done["state"] == "rolled_back"
    assert box.exec("x, open('f').read()", "s")["value"] == "(1, 'one')"
    assert box.exec("import os\n[os.write(n, b'x' * 300000) for n in (1, 2)]", "s")["usage"]["stderr_bytes"] == 300000
    assert kind.has_own_kernel or box.exec("import os\nos.listdir('/proc/irq'), open('/proc/zoneinfo').read()",
                                           "s")["value"] == "([], '')"
    for code in "open('/usr/bin/x', 'w')", "__import__('socket').create_connection(('192.0.2.1', 80), 5)":
        assert box.exec(code, "s")["error"]["type"] in ("OSError", "PermissionError")
    done = box.exec("x = bytearray(1 << 30)", "s")
    assert done["status"] == "oom" or done["error"]["type"] == "MemoryError", done


def test_a_session_is_saved_woken_and_moved_in_all_of_them(other: tuple[Kind, lib.Sandbox]) -> None:
    """With more than the streams hold, of variables and of files."""
    kind, box = other
    box.exec("import os\ny = {'n': [1, 2]}\nz = os.urandom(3_000_000)\nopen('f', 'wb').write(z)", "w")
    look = "y, z == open('f', 'rb').read(), len(z)"
    seen = "({'n': [1, 2]}, True, 3000000)"
    for name, tier, *words in (
            ("w", "docker", "hibernate", "w"), ("v-1", "docker", "fork", "w", "--name", "v"),
            ("w", "native", "sessions", "move", "w", "--to", "native"),
            ("w", "docker", "sessions", "move", "w", "--to", "docker")):
        said = box.cli(*words)
        assert said.returncode == 0, said
        assert box.exec(look, name, options=["--env", tier])["value"] == seen, words
    assert box.cli("snapshot", "kept", "-s", "w").returncode == 0
    done = box.exec("y, z = 0, b''\nos.remove('f')", "w")
    assert done["status"] == "ok" and done["manifest"]["controls"]["syscalls"]["runtime"] == kind.runtime
    assert box.cli("rollback", "w@kept").returncode == 0
    assert box.exec(look, "w")["value"] == seen


@pytest.mark.parametrize("runtime, words", [
    ("nothing", ("runtime", "nothing", "docker info", "docker_runtime")),
    ("a b", ("not a valid runtime name", "runc, runsc or crun")),
    ("broken", ("could not start the container", "/bin/false", "docker_runtime")),
])
def test_a_runtime_that_the_engine_does_not_have(
        sandbox: lib.Sandbox, runtime: str, words: tuple[str, ...]) -> None:
    env = {"SNIPARA_SANDBOX_DOCKER_RUNTIME": runtime}
    done = sandbox.cli("exec", "--env", "docker", "1", env=env)
    assert done.returncode != 0 and len(done.stderr.strip().splitlines()) <= 2, done.stderr
    judged = sandbox.cli("doctor", "--env", "docker", env=env)
    assert judged.returncode == 1 and "only the native tier can run here" in judged.stdout
    for word in words:
        assert word in done.stderr and word in judged.stdout


def test_podman_says_which_runtime_it_has(podman: engines.Engine) -> None:
    box = lib.Sandbox("root", tier="docker", env=podman.env)
    done = box.cli("exec", "--env", "docker", "1", env={"SNIPARA_SANDBOX_DOCKER_RUNTIME": "runc"})
    box.close()
    assert "runs crun, not docker_runtime runc" in done.stderr, done.stderr


def test_limits_that_a_rootless_engine_ignores_are_not_claimed(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    own = engines.Rootless()
    try:
        box = fresh_sandbox("user", tier="docker", env=own.env)
        done = box.exec("x = 1", "s")
        resources = done["manifest"]["controls"]["resources"]
        ignored = {name for name, limit in resources["limits"].items() if "engine does not bound" in limit["by"]}
        assert not resources["enforced"] and ignored == {"cpus", "memory", "processes"}, resources
        assert ignored <= {text.split(":")[0] for text in done["manifest"]["degraded"] if "does not bound" in text}
        made = "import os, time\nfor n in range(20):\n    if not os.fork():\n        time.sleep(600)\nn + 1"
        assert box.exec(made, options=["--processes", "8"])["value"] == "20"  # it is so
        for verb in "exec", "doctor":
            said = box.cli(verb, "--env", "docker", *(["1"] if verb == "exec" else []),
                           env={"SNIPARA_SANDBOX_GUARANTEES": "resources"})
            assert said.returncode == 1 and "does not guarantee resources here" in said.stdout + said.stderr, said
        assert box.exec("x = 2; import os; os._exit(1)", "s")["state"] == "rolled_back"
        assert box.exec("x", "s")["value"] == "1"
        for code in "open('/usr/bin/x', 'w')", "__import__('socket').create_connection(('192.0.2.1', 80), 5)":
            assert box.exec(code, "s")["error"]["type"] in ("OSError", "PermissionError")
    finally:
        own.close()


# Errors, and what doctor says ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("image, words", [
    ("nobody/has:this", ("no image nobody/has:this", "docker pull nobody/has:this", "docker_image")),
    (engines.NO_PYTHON, ("has no python3", "Python 3.8 or later")),
    ("mislabelled:1", ("python3 of image mislabelled:1 does not work here", "Exec format error")),
    ("arm:1", ("is for linux/arm64", "this host is linux/", "--platform linux/")),
    ("../etc", ("not a valid image name", "NAME:TAG")),
])
def test_an_image_that_cannot_be_used(
        engine: engines.Engine, sandbox: lib.Sandbox, image: str, words: tuple[str, ...]) -> None:
    if image == "arm:1":
        assert engine.ask("POST", "/images/load", engines.foreign_image(image))[0] == 200
    if image == "mislabelled:1":  # a program for another machine
        other = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\xff\xff\x01" + bytes(400)
        engine.build(image, f"FROM {engines.IMAGE}\nCOPY python3 /usr/bin/python3\n", python3=other)
    env = {"SNIPARA_SANDBOX_DOCKER_IMAGE": image}
    done = sandbox.cli("exec", "--env", "docker", "1", env=env)
    assert done.returncode != 0 and len(done.stderr.strip().splitlines()) <= 2, done.stderr
    judged = sandbox.cli("doctor", "--env", "docker", env=env)
    assert judged.returncode == 1
    for word in words:
        assert word in done.stderr and word in judged.stdout


def test_the_modules_need_nothing_that_musl_lacks() -> None:
    """Its libc resolves what is not Python's, by name and not by version."""
    libc = f"/lib/ld-musl-{os.uname().machine}.so.1"
    lib.need("docker", os.path.exists(libc), "musl is not installed")

    def symbols(path: str, which: str) -> set[tuple[str, ...]]:
        out = subprocess.run(["nm", "-D", which, path], capture_output=True, text=True, check=True).stdout
        return {tuple(line.split()[-2:]) for line in out.splitlines()}

    has = {name for _, name in symbols(libc, "--defined-only")}
    needs = {name.split("@")[0] for file in ("_snp.abi3.so", "clock.so")
             for kind, name in symbols(os.path.join(lib.BUILD, "guest", file), "--undefined-only")
             if kind == "U" and not name.lstrip("_").startswith("Py")}
    assert {"recvmsg", "sem_trywait"} <= needs and needs - has == set()


def test_an_engine_that_goes_away_and_comes_back(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    own = engines.Engine()
    try:
        box = lib.Sandbox("user", tier="docker", env=own.env)
        box.exec("x = 1", "s")
        assert box.cli("export", box.home + "/s.snp", "s").returncode == 0
        assert box.cli("hibernate", "s").returncode == 0
        own.stop()
        done = box.cli("exec", "-s", "s", "x")
        assert done.returncode != 0 and "no container engine answers" in done.stderr and "start docker" in done.stderr
        # a named session is created in no other tier
        for words in (["exec", "-s", "new", "1"], ["import", box.home + "/s.snp", "--name", "new"]):
            done = box.cli(*words, "--env", "docker")
            assert done.returncode == 1 and "no container engine answers" in done.stderr, done
        assert box.cli("sessions", "list", "--names").stdout == "s\n"
        # an unnamed session runs in an available tier
        done = box.cli("exec", "--env", "docker", "--json", "1")
        assert json.loads(done.stdout)["manifest"]["tier"] == "native"
        assert "no docker tier here (--env); code runs in native" in done.stderr
        own.start()
        assert box.exec("x", "s")["value"] == "1"
        os.chmod(own.socket, 0o600)
        done = box.cli("doctor", "--env", "docker")
        assert "no permission" in done.stdout and "usermod -aG docker" in done.stdout
    finally:
        box.close()
        own.close()


def test_doctor_tells_of_the_engine(
        engine: engines.Engine, sandbox: lib.Sandbox, fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    done = sandbox.cli("doctor", "--env", "docker")
    assert done.returncode == 0 and "docker tier" in done.stdout and engine.socket in done.stdout
    assert f"{engines.IMAGE}, Python 3." in done.stdout
    done = fresh_sandbox().cli("doctor")  # nobody has asked for it
    assert done.returncode == 0 and "sandboxes can run here" in done.stdout


@pytest.mark.parametrize("place", ["docker.sock", "podman/podman.sock"])
def test_an_engine_of_ones_own_is_found(engine: engines.Engine, place: str) -> None:
    """A rootless one, where it puts its socket."""
    box = lib.Sandbox("user", tier="docker", env={"DOCKER_HOST": ""})
    try:
        box.env["XDG_RUNTIME_DIR"] = box.make_folder("xdg")
        path = os.path.join(box.env["XDG_RUNTIME_DIR"], place)
        box.make_folder(os.path.dirname(path))
        os.symlink(engine.socket, path)
        assert box.exec("1")["manifest"]["tier"] == "docker"
        assert path in box.cli("doctor", "--env", "docker").stdout
    finally:
        box.close()


@contextlib.contextmanager
def forwarded(path: str) -> Iterator[int]:
    """A port of this host that leads to a socket."""
    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, far = server.accept()[0], socket.socket(socket.AF_UNIX)
                far.connect(path)
                for ends in (near, far), (far, near):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_an_engine_at_a_port_of_this_host(engine: engines.Engine) -> None:
    with forwarded(engine.socket) as port:
        box = lib.Sandbox("root", tier="docker", env={"DOCKER_HOST": f"tcp://localhost:{port}"})
        try:
            assert box.exec("x = 'ü' * 100000", "s")["manifest"]["tier"] == "docker"
            assert box.exec("import os; os._exit(1)", "s")["state"] == "rolled_back"
            assert box.exec("len(x)", "s")["value"] == "100000"
            assert f"127.0.0.1:{port}" in box.cli("doctor", "--env", "docker").stdout
            for host in "tcp://192.0.2.1:2375", "ssh://me@host", "tcp://127.0.0.1:1x":
                assert box.cli("daemon", "stop").returncode == 0  # it has the variable of its start
                box.env["DOCKER_HOST"] = host
                said = box.cli("doctor", "--env", "docker").stdout
                assert "needs an engine on this host" in said and "tcp://127.0.0.1:PORT" in said, said
        finally:
            box.close()


def test_an_engine_whose_default_is_gvisor_is_named(
        engine: engines.Engine, fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    """A container for gVisor has other limits, so who gets one has asked for it."""
    path = f"{engine.folder}/daemon.json"
    with open(path) as text:
        before = text.read()

    def configure(text: str, wanted: str) -> None:
        with open(path, "w") as out:
            out.write(text)
        assert engine.process is not None
        os.kill(int(open(f"{engine.folder}/pid").read()), signal.SIGHUP)
        lib.wait_for(lambda: engine.ask("GET", "/info")[1]["DefaultRuntime"] == wanted)

    try:
        configure(json.dumps({**json.loads(before), "default-runtime": "runsc"}), "runsc")
        box = fresh_sandbox("root", tier="docker", env=engine.env)
        done = box.cli("exec", "--env", "docker", "1")
        assert done.returncode != 0 and 'set docker_runtime = "runsc"' in done.stderr, done
        assert box.cli("exec", "--env", "docker", "40 + 2", env={
            **engine.env, "SNIPARA_SANDBOX_DOCKER_RUNTIME": "runsc"}).stdout == "42\n"
    finally:
        configure(json.dumps({**json.loads(before), "default-runtime": "runc"}), "runc")
        with open(path, "w") as out:
            out.write(before)


def test_auto_is_the_strongest_with_the_guarantees(sandbox: lib.Sandbox) -> None:
    box, kernel = sandbox, {"SNIPARA_SANDBOX_GUARANTEES": "kernel, network"}
    own = {**kernel, "SNIPARA_SANDBOX_DOCKER_RUNTIME": "runsc"}
    done = box.cli("exec", "import platform; print(platform.release())", env=own)
    assert done.stdout.startswith("4.4") and "auto is docker here" in done.stderr, done  # gVisor's
    for words, env in ((), kernel), (("--env", "docker"), kernel), (("--env", "native"), own):
        done = box.cli("exec", *words, "1", env=env)
        assert done.returncode != 0 and "does not guarantee kernel" in done.stderr, done
        assert "--env docker with docker_runtime" in done.stderr and "network" not in done.stderr
        judged = box.cli("doctor", *words, env=env)
        assert judged.returncode == 1 and "does not guarantee kernel" in judged.stdout, judged
    assert box.cli("exec", "--env", "native", "-s", "open", "x = 1").returncode == 0
    assert "does not guarantee kernel" in box.cli("exec", "-s", "open", "x", env=own).stderr
    assert box.cli("exec", "-s", "open", "x", env={"SNIPARA_SANDBOX_GUARANTEES": "namespaces"}).returncode == 0
    assert "does not guarantee namespaces" in box.cli("sessions", "move", "open", "--to", "local").stderr
    done = box.cli("exec", "1", env={"SNIPARA_SANDBOX_GUARANTEES": "kernle"})
    assert done.returncode != 0 and "did you mean kernel?" in done.stderr
    box.destroy("open")


def test_a_configuration_file_is_enough(sandbox: lib.Sandbox) -> None:
    box = sandbox
    path = box.make_file(os.path.join(box.home, "p", "snipara-sandbox.toml"),
                         f'[snipara_sandbox]\nenvironment = "docker"\ndocker_image = "{engines.IMAGE}"\n')
    done = box.cli("exec", "--json", "1", cwd=os.path.dirname(path))
    assert json.loads(done.stdout)["manifest"]["tier"] == "native" and "environment" in done.stderr
    assert "snipara-sandbox trust" in done.stderr  # docker is weaker than native
    assert box.cli("trust", cwd=os.path.dirname(path)).returncode == 0
    done = box.cli("exec", "--json", "1", cwd=os.path.dirname(path))
    assert json.loads(done.stdout)["manifest"]["rootfs"] == engines.IMAGE, done.stderr


def test_a_network_only_where_the_user_says_so(
        engine: engines.Engine, sandbox: lib.Sandbox, fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = sandbox
    asked = {"SNIPARA_SANDBOX_DOCKER_NETWORK_DISABLED": "false"}
    done = box.exec("1", "net", env=asked)
    assert container_of(engine, box, "net")["HostConfig"]["NetworkMode"] == "default"
    assert done["manifest"]["controls"]["network"]["enforced"] is False
    code = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
    assert not box.exec(code, "net", env=asked)["denials"]  # this engine's leads nowhere, but nobody has refused it
    assert any(line.startswith("network: ") for line in done["manifest"]["degraded"])
    assert box.cli("exec", "--env", "docker", "--require-exact", "1", env=asked).returncode == 1
    for words in ("-s", "net"), ():
        said = box.cli("exec", "--env", "docker", *words, "1", env={**asked, "SNIPARA_SANDBOX_GUARANTEES": "network"})
        assert said.returncode == 1 and "does not guarantee network here (the engine's" in said.stderr, said
    box.destroy("net")
    path = box.make_file(os.path.join(box.home, "untrusted", "snipara-sandbox.toml"),
                         "[snipara_sandbox]\ndocker_network_disabled = false\n")
    done = box.exec("1", cwd=os.path.dirname(path))
    assert done["manifest"]["controls"]["network"]["enforced"] is True


PROGRAM = """
from snipara_sandbox import Sandbox
with Sandbox(environment="docker", docker_image=IMAGE, docker_network_disabled=False, docker_workspace_path=".") as s:
    manifest = s.run("1").raw["manifest"]
    print(manifest["tier"], manifest["rootfs"] == IMAGE, manifest["controls"]["network"]["enforced"])
    print(s.run("open('seen').read()").value)
with Sandbox("kept", environment="docker", docker_network_disabled=False) as s:
    print(s.run("1").value, Sandbox("kept", environment="docker").run("2").value)
with Sandbox("shut", environment="docker", docker_network_disabled=True) as s:
    print(s.run("1").value)
for name, disabled in ("kept", True), ("shut", False):
    try:
        print(Sandbox(name, environment="docker", docker_network_disabled=disabled).run("3").value)
    except Exception as error:
        print(type(error).__name__, "network" in str(error))
    Sandbox(name).destroy()
try:
    Sandbox(environment="docker", docker_runtime="none").run("1")
except Exception as error:
    print(type(error).__name__, "none" in str(error))
for tier, wanted in ("native", ["network", "namespaces"]), ("native", "kernel, network"), ("local", ["namespaces"]):
    with Sandbox(tier=tier, guarantees=wanted) as s:
        try:
            print(s.run("1").value)
        except Exception as error:
            print(type(error).__name__, "does not guarantee " + wanted.split(",")[0] in str(error)
                  if isinstance(wanted, str) else "namespaces" in str(error))
"""


@no_sanitizers
def test_a_program_in_python_chooses_too(sandbox: lib.Sandbox, project: str) -> None:
    sandbox.make_file(os.path.join(project, "seen"), "1")
    env = {**sandbox.env, "PYTHONPATH": BINDINGS, "PYTHONDONTWRITEBYTECODE": "1",
           "SNIPARA_SANDBOX_LIBRARY": sandbox.bin}
    done = subprocess.run([lib.PYTHON, "-W", "error", "-c", f"IMAGE = {engines.IMAGE!r}" + PROGRAM], env=env,
                          cwd=project, capture_output=True, text=True, timeout=2 * lib.PATIENCE)
    said = "docker True False\n'1'\n1 2\n1\nUnsupported True\nInvalidArgument True\n"
    said += "Unsupported True\n1\nUnsupported True\nUnsupported True\n"
    assert done.stdout == said, done.stdout + done.stderr


@pytest.mark.parametrize("keys, option, is_seen", [
    ({}, False, False),
    ({"DOCKER_MOUNT_WORKSPACE": "true"}, False, True),
    ({"DOCKER_WORKSPACE_PATH": "."}, False, True),
    ({"DOCKER_MOUNT_WORKSPACE": "false", "DOCKER_WORKSPACE_PATH": "."}, False, False),
    ({"DOCKER_MOUNT_WORKSPACE": "false"}, True, True),
])
def test_the_workspace_is_shown_as_configured(
        sandbox: lib.Sandbox, project: str, keys: dict[str, str], option: bool, is_seen: bool) -> None:
    sandbox.make_file(os.path.join(project, "seen"), "1")
    done = sandbox.exec("import os; os.listdir()", cwd=project, options=["--project", "."] if option else [],
                        env={"SNIPARA_SANDBOX_" + name: value for name, value in keys.items()})
    assert done["value"] == ("['seen']" if is_seen else "[]")


# Projects ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(sandbox: lib.Sandbox) -> Iterator[str]:
    folder = sandbox.make_folder("project-" + secrets.token_hex(4))
    yield folder
    shutil.rmtree(folder)


def names_in(folder: str) -> list[str]:
    return sorted(os.path.join(path, name)[len(folder) + 1:] for path, folders, files in os.walk(folder)
                  for name in folders + files)


def test_a_project_is_seen_and_never_changed(sandbox: lib.Sandbox, project: str) -> None:
    """As a copy: what cells do to it is undone, saved and woken as all files are; the folder stays as it is."""
    box = sandbox
    for name, text in (("a.py", "one"), ("sub/b", "two"), ("line\nbreak", "three"), ("big", "x" * 3_000_000)):
        box.make_file(os.path.join(project, name), text)
    before = names_in(project)
    seen = "import os; sorted(os.path.join(p, n)[2:] for p, d, f in os.walk('.') for n in d + f)"
    done = box.exec(seen, "p", options=["--project", project])
    assert eval(done["value"]) == before and not done["files"]["created"], done
    assert done["manifest"]["controls"]["filesystem"]["workspace"] == "a copy of the project in a sized tmpfs"
    done = box.exec("open('a.py', 'a').write('!'); os.remove('sub/b'); open('n', 'w').close()", "p")
    assert [done["files"][kind] for kind in ("created", "modified", "deleted")] == [["n"], ["a.py"], ["sub/b"]]
    assert box.exec("open('a.py', 'w').write('bad'); os._exit(1)", "p")["state"] == "rolled_back"
    assert box.cli("hibernate", "p").returncode == 0
    done = box.exec("import os; open('a.py').read(), os.listdir('sub')", "p")
    assert done["value"] == "('one!', [])"
    box.destroy("p")
    with open(os.path.join(project, "a.py")) as file:
        assert names_in(project) == before and file.read() == "one"


def test_a_hostile_project(sandbox: lib.Sandbox, project: str) -> None:
    """Secrets stay out, also those behind links and of git; no link is followed, what is no file is left out."""
    box = sandbox
    for name, text in ((".env", "secret"), ("sub/.ssh/id", "secret"), ("ok", "fine"), ("key.pem", "PRIVATE KEY"),
                       (".git/config", '[remote "o"]\n url = https://user:secret@host/x\n')):
        box.make_file(os.path.join(project, name), text)
    outside = box.make_file(os.path.join(box.home, "outside"), "secret")
    os.symlink(outside, os.path.join(project, "out"))
    os.symlink(".env", os.path.join(project, "link"))
    os.symlink(os.path.dirname(outside), os.path.join(project, "folder"))
    os.link(os.path.join(project, ".env"), os.path.join(project, ".env.other"))
    os.mkfifo(os.path.join(project, "fifo"))
    os.chmod(os.path.join(project, "ok"), 0o4711)
    modes = {name: os.lstat(os.path.join(project, name)).st_mode for name in names_in(project)}
    done = box.exec("""
import os, stat
found = []
for path, folders, files in os.walk("."):
    for name in folders + files:
        at = os.path.join(path, name)[2:]
        text = open(at).read() if os.path.isfile(at) else ""
        found.append((at, os.readlink(at) if os.path.islink(at) else "", oct(os.lstat(at).st_mode), "secret" in text))
sorted(found)""", options=["--project", project])
    found = {row[0]: row[1:] for row in eval(done["value"])}
    assert sorted(found) == [".git", ".git/config", "folder", "link", "ok", "out", "sub"]
    assert (found["out"][0], found["link"][0]) == (outside, ".env") and found["ok"][1] == "0o100711"
    assert not any(row[2] for row in found.values())
    assert set(done["manifest"]["controls"]["filesystem"]["masked"]) >= {".env", "sub/.ssh", "key.pem", ".git/config"}
    assert modes == {name: os.lstat(os.path.join(project, name)).st_mode for name in names_in(project)}


@pytest.mark.parametrize("options, words", [
    (["--workspace-size", "1m"], ("more than 1 MiB", "--workspace-size")),
    (["--workspace-files", "1000"], ("more than 1000 files", "--workspace-files")),
    (["--memory", "64m"], ("more than", "--memory")),
])
def test_a_project_that_is_too_large(
        sandbox: lib.Sandbox, project: str, options: list[str], words: tuple[str, ...]) -> None:
    with open(os.path.join(project, "big"), "wb") as file:
        file.write(os.urandom(64 << 20) if "--memory" in options else os.urandom(2 << 20))
    for n in range(1001 if "--workspace-files" in options else 0):
        open(os.path.join(project, str(n)), "w").close()
    done = sandbox.cli("exec", "--env", "docker", "--project", project, *options, "1")
    assert done.returncode == 1
    for word in ("the docker tier copies it", *words):
        assert word in done.stderr, done.stderr


def test_a_project_is_copied_into_a_container_of_the_pool(
        fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    """As it is when the session is opened, and without what is secret then."""
    box = fresh_sandbox("root", tier="docker", env={"SNIPARA_SANDBOX_POOL": "1"})
    project = box.make_folder("project")
    until = time.monotonic() + 4 * lib.PATIENCE
    for n in itertools.count():
        box.make_file(os.path.join(project, "n"), str(n))
        box.make_file(os.path.join(project, f".env{n}"), "secret")
        done = box.exec("import os; open('n').read(), os.listdir()", f"p{n}", options=["--project", project])
        assert done["value"] == f"('{n}', ['n'])"
        assert len(done["manifest"]["controls"]["filesystem"]["masked"]) == n + 1
        box.destroy(f"p{n}")
        if done["manifest"]["from_pool"]:
            break
        assert time.monotonic() < until, "the pool stays empty"
    assert box.exec("import os; os.listdir()", "none")["value"] == "[]"


def test_an_engine_that_is_named_after_the_daemon_started(engine: engines.Engine) -> None:
    """DOCKER_HOST of the command selects the engine. The session keeps it when another command wakes it."""
    with contextlib.closing(lib.Sandbox("root", env=engines.NO_POOL)) as box:
        assert box.exec("1")["manifest"]["tier"] == "native"  # the daemon's DOCKER_HOST names nothing
        done = box.cli("exec", "--env", "docker", "--json", "--session", "late", "x = 42; x", env=engine.env)
        result = json.loads(done.stdout)
        assert (result["value"], result["manifest"]["tier"]) == ("42", "docker"), done.stderr
        assert len(engine.containers()) == 1
        assert box.exec("x", "late")["value"] == "42"
        assert box.cli("daemon", "stop").returncode == 0
        assert engine.containers() == []
        assert box.exec("x + 1", "late")["value"] == "43"
        box.destroy("late")
        assert engine.containers() == []
        program = ("import snipara_sandbox\nwith snipara_sandbox.Sandbox(tier='docker') as own:\n"
                   "    print(own.run('6 * 7').value, own.run('7').raw['manifest']['tier'])")
        script = (f"import {{ Sandbox }} from {os.path.join(os.path.dirname(BINDINGS), 'typescript/src/index.js')!r};\n"
                  "const own = new Sandbox({ tier: 'docker' }); const result = await own.run('6 * 7');\n"
                  "console.log(result.value, result.raw.manifest.tier); await own.close();")
        programs = [[lib.PYTHON, "-c", program]]
        programs += [[node, "--input-type=module", "-e", script] for node in [shutil.which("node")] if node]
        env = {**with_package(box).env, **engine.env, "SNIPARA_SANDBOX_BIN": box.bin}
        for words in programs:
            done = subprocess.run(words, env=env, cwd=box.home, text=True, capture_output=True, check=False,
                                  timeout=4 * lib.PATIENCE)
            assert done.stdout == "42 docker\n", done.stderr


def test_an_agents_change_is_proven_and_applied(sandbox: lib.Sandbox, project: str) -> None:
    code = "def add(a, b):\n    return a - b\n"
    sandbox.make_file(os.path.join(project, "calc.py"), code)
    sandbox.make_file(os.path.join(project, "test_calc.py"), (
        "import unittest\nfrom calc import add\n\n\nclass Test(unittest.TestCase):\n    def test_add(self):\n"
        "        self.assertEqual(add(1, 2), 3)\n"))
    runs = Runs(sandbox)
    turns = [turn(call("execute_code", code=f"open('calc.py', 'w').write({code.replace('-', sign)!r})"),
                  call("FINAL", answer=sign)) for sign in "*+"]
    words = ["--test", "python3 -m unittest"]
    sandbox.make_file(os.path.join(project, "snipara-sandbox.toml"), '[snipara_sandbox]\nenvironment = "docker"\n')
    done = sandbox.cli("agent", "Fix add()", *runs.options(runs.script(*turns)), "--cost-limit", "none", "--json",
                       *words, cwd=project)
    found = json.loads(done.stdout)
    assert found["answer"] == "+" and found["verdict"]["verdict"] == "ready for human review", done.stderr
    judged = sandbox.cli("verify", found["session"], *words, "--json")
    assert judged.returncode == 0 and json.loads(judged.stdout)["verdict"] == "ready for human review", judged
    assert sandbox.cli("apply", found["session"], "--yes").returncode == 0
    with open(os.path.join(project, "calc.py")) as text:
        assert text.read() == code.replace("-", "+")
    sandbox.make_file(os.path.join(project, "calc.py"), code)
    late = f"import time\n\n\n{code.replace('a - b', f'a + b + (time.time() > {time.time() + 2e7:.0f})')}"
    sandbox.exec(f"open('calc.py', 'w').write({late!r})", "late", options=["--project", project])
    judged = sandbox.cli("verify", "late", *words, "--json")
    assert "another outcome when run again, with a clock" in json.loads(judged.stdout)["reasons"][0]["text"], judged
    sandbox.destroy(found["session"])


@pytest.mark.parametrize("more", [
    "docker_image = \"python:3.11-slim\"\ndocker_memory = \"512m\"\n",
    "max_depth = 4\nmax_subcalls = 12\ntoken_budget = 8000\nverbose = false\n\ndocker_image = \"python:3.11-slim\"\n"
    "docker_cpus = 1.0\ndocker_memory = \"512m\"\ndocker_network_disabled = true\ndocker_mount_workspace = true\n"
    "docker_workspace_setup = \"none\"  # use \"tests-only\" or \"dev\" for repo-backed test runs\n",
])
def test_configurations_that_documents_of_2_x_show(sandbox: lib.Sandbox, project: str, more: str) -> None:
    sandbox.make_file(os.path.join(project, "snipara-sandbox.toml"), (
        '[snipara_sandbox]\nbackend = "litellm"\nmodel = "gpt-4o-mini"\nenvironment = "docker"\n' + more))
    assert sandbox.cli("trust", cwd=project).returncode == 0
    done = sandbox.cli("run", "print('Hello from Docker', open('snipara-sandbox.toml').read()[:9])", cwd=project)
    assert done.returncode == 0 and done.stdout == "Hello from Docker [snipara_\n", done.stderr
