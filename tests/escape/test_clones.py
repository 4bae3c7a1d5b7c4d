# SPDX-License-Identifier: Apache-2.0
"""Forks of one session: none sees, signals or starves another, and none has another's chance.

The control does the same to two processes of the host, where all of it works.
"""

import json
import signal
import subprocess
from collections.abc import Iterator

import pytest

from lib import PATIENCE, PYTHON, Sandbox, descendants, is_alive, some, wait_for

MARK = "import ctypes; ctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0)"
SEE = """
import os
def names():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            yield open(f"/proc/{pid}/comm").read().strip()
        except OSError:
            pass
sorted(set(names()))
"""
SIGNAL = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sent = []
for pid in [*range(2, 70000)]:
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGTERM)
            sent.append(pid)
        except OSError:
            pass
try:
    os.kill(-1, signal.SIGTERM)
except OSError:
    pass
len(sent)
"""


@pytest.fixture
def clones(sandbox: Sandbox) -> Iterator[list[str]]:
    assert sandbox.exec("x = [1]; open('f', 'w').write('origin')", session="origin",
                        options=["--memory", "256m"])["status"] == "ok"
    done = sandbox.cli("fork", "origin", "-n", "2", "--name", "clone", "--json")
    assert done.returncode == 0, done.stderr
    names = [item["name"] for item in json.loads(done.stdout)["sessions"]]
    assert names == ["clone-1", "clone-2"]
    yield names
    for name in ["origin", *names]:
        sandbox.destroy(name)


def test_clones_go_their_own_way(sandbox: Sandbox, clones: list[str]) -> None:
    for name in clones:
        assert sandbox.exec(f"x.append('{name}'); open('f', 'a').write('{name}'); x", session=name)["value"] == (
            f"[1, '{name}']")
    for name in clones:
        assert sandbox.exec("open('f').read()", session=name)["value"] == repr("origin" + name)
    assert sandbox.exec("x, open('f').read()", session="origin")["value"] == "([1], 'origin')"


def test_a_clone_does_not_see_its_sibling(sandbox: Sandbox, clones: list[str]) -> None:
    for name in ["origin", *clones]:
        sandbox.exec(MARK.format(name="is-" + name), session=name)
    for name in ["origin", *clones]:
        seen = [mark for mark in eval(sandbox.exec(SEE, session=name)["value"]) if mark.startswith("is-")]
        assert seen == ["is-" + name]


def test_a_clone_does_not_signal_its_sibling(sandbox: Sandbox, clones: list[str]) -> None:
    first, second = clones
    sandbox.exec("import signal; got = []; signal.signal(signal.SIGTERM, lambda *_: got.append(1))", session=second)
    assert sandbox.exec(SIGNAL, session=first)["status"] in ("ok", "error")
    assert sandbox.exec("got", session=second)["value"] == "[]"
    assert sandbox.exec("x", session="origin")["value"] == "[1]"


HOGS = {
    "memory": "blocks = []\ntry:\n    while True: blocks.append(bytearray(8 << 20))\nexcept MemoryError: pass\n",
    "processes": "try:\n    while os.fork(): pass\nexcept OSError: pass\n",
}


@pytest.mark.parametrize("what", HOGS)
def test_a_clone_does_not_starve_its_sibling(sandbox: Sandbox, clones: list[str], what: str) -> None:
    """Each has its memory and processes: what one uses up is not the other's."""
    first, second = clones
    hog = sandbox.popen("exec", "--session", first, "--timeout", "600",
                        "import os, time\nmain = os.getpid()\n" + HOGS[what] +
                        "if os.getpid() == main: os.write(1, b'full\\n')\ntime.sleep(600)")
    try:
        assert some(hog.stdout).readline() == b"full\n"
        room = sandbox.exec("import os; a = bytearray(64 << 20); p = os.fork()\n"
                            "if p == 0: os._exit(7)\n(len(a), os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))",
                            session=second)
        assert room["status"] == "ok" and room["value"] == f"({64 << 20}, 7)", room
        assert hog.poll() is None
    finally:
        hog.kill()
        hog.wait()


def test_clones_have_chance_of_their_own(sandbox: Sandbox, clones: list[str]) -> None:
    code = ("import random, os, uuid, socket\n"
            "(random.random(), os.urandom(8), str(uuid.uuid4()), os.readlink('/proc/self/ns/pid'), "
            "os.readlink('/proc/self/ns/mnt'), os.readlink('/proc/self/ns/net'))")
    values = [eval(sandbox.exec(code, session=name)["value"]) for name in ["origin", *clones]]
    for of_all in zip(*values):
        assert len(set(of_all)) == 3, of_all


def test_clones_have_the_policy_of_their_origin(sandbox: Sandbox, clones: list[str]) -> None:
    shown = [json.loads(sandbox.cli("sessions", "show", name, "--json").stdout) for name in ["origin", *clones]]
    assert shown[0]["limits"]["memory_bytes"] == 256 << 20
    for clone in shown[1:]:
        assert clone["limits"] == shown[0]["limits"]
        for control, is_held in shown[0]["manifest"]["controls"].items():
            assert clone["manifest"]["controls"][control]["enforced"] == is_held["enforced"]


def test_the_control_without_sandboxes_sees_and_signals_its_sibling(sandbox: Sandbox) -> None:
    """Two processes of one user on the host: one sees the other by its name and ends it."""
    code = ("import ctypes, time\n"
            "ctypes.CDLL(None).prctl(15, b'is-clone-2', 0, 0, 0)\nprint(flush=True)\ntime.sleep(600)")
    victim = subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.PIPE, **sandbox.identity())
    try:
        some(victim.stdout).readline()
        assert "is-clone-2" in sandbox.outside(SEE + "print(*names())").stdout
        sandbox.outside(f"import os, signal; os.kill({victim.pid}, signal.SIGTERM)")
        assert victim.wait(PATIENCE) == -signal.SIGTERM
    finally:
        victim.kill()
        victim.wait()
    assert not is_alive(victim.pid) and victim.pid not in descendants(1)


FORGE = """
import ctypes, os, socket, sys

def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value

def forge():
    '''In the process whose memory is sent: go where no signal to it comes, and let the interpreter close nothing.'''
    if sys._getframe(1).f_code.co_name != "_freeze":
        return
    libc = ctypes.PyDLL(None)
    if libc.fork() != 0:
        os.waitpid(-1, 0)
        real_exit(0)
    os.setsid()
    for line in open("/proc/self/maps").read().splitlines():
        where, rights = line.split()[:2]
        if "_snp.abi3" not in line or "x" in rights:
            continue
        start, end = (int(part, 16) for part in where.split("-"))
        for at in range(start, end, 8):
            if ctypes.c_uint64.from_address(at).value == address(libc.close):
                assert libc.mprotect(ctypes.c_void_p(at & ~4095), 4096, 3) == 0
                ctypes.c_uint64.from_address(at).value = address(libc.labs)

def kept():
    '''Sockets and pipes that are not the interpreter's stream and output: (descriptor, kind).'''
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            kind = os.readlink("/proc/self/fd/" + number).partition(":")[0]
        except OSError:
            continue
        if 2 < int(number) < 240 and kind in ("socket", "pipe"):
            found.append((int(number), kind))
    return found

def reach(path):
    '''Send what path is, as a descriptor, and take what comes: what was sent, bytes, descriptors that came.'''
    sent, data, came = 0, b"", []
    file = os.open(path, os.O_RDWR)
    for fd, kind in kept():
        os.set_blocking(fd, True)
        try:
            if kind == "socket":
                with socket.socket(fileno=os.dup(fd)) as stream:
                    socket.send_fds(stream, [b"x"], [file])
                    sent += 1
                    now = b"x"
                    while now and (is_writer or not came):
                        now, came_now, _, _ = socket.recv_fds(stream, 64, 4)
                        came += came_now
            elif is_writer:
                sent += os.sendfile(fd, file, 0, 4096)
            else:
                os.set_blocking(fd, False)
                data += os.read(fd, 1 << 20)
        except OSError:
            pass
    return sent, data, came

def end(status):
    '''The same process, when all is written: try to reach the fork.'''
    global is_writer
    if sys._getframe(1).f_code.co_name == "_freeze":
        is_writer = True
        found = reach("/workspace/secret")
        with open("/workspace/.said", "w") as out:
            out.write(repr((kept(), *found)))
        os.rename("/workspace/.said", "/workspace/said")
    real_exit(status)

def thawed():
    '''In the fork, before it reports: how many ways lead back.'''
    global early
    if sys._getframe(1).f_code.co_name == "_thawed":
        for fd, _ in kept():
            try:
                early += os.write(fd, b"x")
            except OSError:
                pass
    return real_getpid()

real_exit, real_getpid, is_writer, early = os._exit, os.getpid, False, 0
open("/workspace/secret", "w").write("of the origin")
frame = sys._getframe()
while "first_to_go" not in frame.f_globals:
    frame = frame.f_back
frame.f_globals.update(_exit=end, first_to_go=forge, getpid=thawed)
"""


def test_a_fork_that_keeps_its_descriptors_reaches_nothing(sandbox: Sandbox) -> None:
    """Code forges what its fork closes: the fork and the writer of its memory keep all that this went through."""
    try:
        assert sandbox.exec(FORGE, session="forger")["status"] == "ok"
        done = sandbox.cli("fork", "forger", "-n", "1", "--name", "forged", "--json")
        assert done.returncode == 0 and json.loads(done.stdout)["how"] == "image", done.stdout + done.stderr
        kept = eval(sandbox.exec("open('secret', 'w').write('of the fork'); kept()", session="forged-1")["value"])
        assert "socket" in [kind for _, kind in kept], "the attack did not take place"
        assert eval(sandbox.exec("reach('/workspace/secret')", session="forged-1")["value"]) == (0, b"", [])
        assert sandbox.exec("early", session="forged-1")["value"] == "0"

        def said() -> str:
            return str(sandbox.exec("import os; os.path.exists('said') and open('said').read()",
                                    session="forger")["value"])

        wait_for(lambda: said() != "False")
        writer = eval(eval(said()))
        assert writer[0] and writer[3] == [], writer
        assert sandbox.exec("open('secret').read()", session="forger")["value"] == "'of the origin'"
    finally:
        sandbox.destroy("forger")
        sandbox.destroy("forged-1")
