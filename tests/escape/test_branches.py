# SPDX-License-Identifier: Apache-2.0
"""Code against the copies of its session: they cannot be read, traced, woken or ended by it.

What is tried is tried on a process of the code's own as well, where it must succeed.
"""

import secrets

import pytest

import lib
from lib import Sandbox

TRY = """
import ctypes, os, resource, signal, subprocess
libc = ctypes.CDLL(None, use_errno=True)

def outcome(function, *args):
    try: function(*args)
    except OSError as error: return error.errno
    return 0

def read_memory(pid):
    for line in open(f"/proc/{pid}/maps"):
        if line.split()[1].startswith("rw"):
            with open(f"/proc/{pid}/mem", "rb", 0) as memory:
                memory.seek(int(line.split("-")[0], 16))
                return memory.read(8)
    raise PermissionError(1, "nothing to read")

def by_pidfd(pid):
    fd = os.pidfd_open(pid)
    try: signal.pidfd_send_signal(fd, signal.SIGCONT)
    finally: os.close(fd)

tries = {"kill": lambda pid: os.kill(pid, signal.SIGKILL),
         "wake": lambda pid: os.kill(pid, signal.SIGCONT),
         "group": lambda pid: os.killpg(pid, signal.SIGCONT),
         "pidfd": by_pidfd,
         "memory": read_memory,
         "environment": lambda pid: open(f"/proc/{pid}/environ", "rb").read(),
         "descriptors": lambda pid: os.readlink(f"/proc/{pid}/fd/1"),
         "root": lambda pid: os.stat(f"/proc/{pid}/root/."),
         "namespace": lambda pid: os.stat(f"/proc/{pid}/ns/net")}
mine = subprocess.Popen(["sleep", "600"], start_new_session=True)
names = {int(name): open(f"/proc/{name}/comm").read().strip() for name in os.listdir("/proc") if name.isdigit()}
copies = [pid for pid, name in names.items() if name == "snapshot"]
order = [name for name in tries if name != "kill"] + ["kill"]
found = {name: ([outcome(tries[name], pid) for pid in copies], outcome(tries[name], mine.pid)) for name in order}
mine.wait()
len(copies), found
"""


@pytest.mark.parametrize("cells", [1, 3])
def test_copies_are_out_of_reach(sandbox: Sandbox, cells: int) -> None:
    name = "copies-" + secrets.token_hex(4)
    for number in range(cells):
        sandbox.exec(f"x = {number}", session=name)
    done = sandbox.exec(TRY, session=name, options=["--timeout", "600"])
    assert done["status"] == "ok", done["error"]
    count, found = eval(done["value"])
    assert count >= 2  # the pristine copy, and what stands by
    for attack, (copies, own) in found.items():
        assert own == 0, (attack, own)  # the control
        assert all(copies), (attack, copies)
    assert sandbox.exec("x", session=name)["value"] == str(cells - 1)
    done = sandbox.exec("import os\nx = 'gone'\nos._exit(1)", session=name)
    assert done["state"] == "rolled_back"
    assert sandbox.exec("x", session=name)["value"] == str(cells - 1)
    sandbox.destroy(name)


def test_a_descriptor_sends_no_signals(sandbox: Sandbox) -> None:
    """F_SETOWN would let the kernel send them, to whomever the code names."""
    code = ("import fcntl, os, signal\nr, w = os.pipe()\nanswers = []\n"
            "for command in (fcntl.F_SETOWN, fcntl.F_SETSIG):\n"
            "    try: answers.append(fcntl.fcntl(r, command, {}))\n"
            "    except OSError as error: answers.append(error.errno)\n{}")
    done = sandbox.exec(code.format("signal.SIGUSR1", "answers"))
    assert done["value"] == "[1, 1]" and done["denials"], done
    outside = sandbox.outside(code.format("os.getpid() if command == fcntl.F_SETOWN else signal.SIGUSR1",
                                          "print(answers)"))
    assert outside.stdout.strip() == "[0, 0]", outside.stderr


def has_filter(maps: str) -> bool:
    return any("memfd:filter" in line for line in maps.splitlines())


def maps_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/maps") as text:
            return text.read()
    except OSError:  # it has ended
        return ""


def test_the_filter_with_the_mark_of_pid_1_is_not_there_to_read(sandbox: Sandbox) -> None:
    """With the mark a signal goes past the supervisor. The template, which the code cannot see, has it."""
    done = sandbox.exec("print(open('/proc/self/maps').read())", session="marks-" + secrets.token_hex(4))
    assert done["status"] == "ok" and "[stack]" in done["stdout"] and not has_filter(done["stdout"]), done
    below = lib.descendants(lib.some(sandbox.daemon).pid)
    assert any(has_filter(maps_of(pid)) for pid in below)  # the control
