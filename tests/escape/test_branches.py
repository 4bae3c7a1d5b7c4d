# SPDX-License-Identifier: Apache-2.0
"""Code against the copies of its session: they cannot be read, traced, woken or ended by it.

What is tried is tried on a process of the code's own as well, where it must succeed.
"""

import secrets

import pytest

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
         "descriptors": lambda pid: os.readlink(f"/proc/{pid}/fd/1")}
mine = subprocess.Popen(["sleep", "60"], start_new_session=True)
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
    done = sandbox.exec(TRY, session=name, options=["--timeout", "20"])
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


MARKS = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
KILL = {"x86_64": 62, "aarch64": 129}[os.uname().machine]
libc.syscall.argtypes = [ctypes.c_long, ctypes.c_ulong, ctypes.c_ulong]
names = {int(name): open(f"/proc/{name}/comm").read().strip() for name in os.listdir("/proc") if name.isdigit()}
copy = min(pid for pid, name in names.items() if name == "snapshot")
numbers = set()
for line in open("/proc/self/maps"):
    if "memfd:filter" in line:
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        for code, _, _, number in struct.iter_unpack("<HBBI", ctypes.string_at(start, end - start)):
            if code == 0x15 and number > 0xffffff:
                numbers.add(number)
reached = [(high, low) for high in numbers for low in numbers
           if libc.syscall(KILL, high << 32 | copy, low << 32) == 0]
len(numbers), reached
"""


def test_the_mark_of_pid_1_is_not_in_the_filter_that_the_code_can_read(sandbox: Sandbox) -> None:
    """With it a signal, here none, goes past the supervisor."""
    done = sandbox.exec(MARKS, session="marks-" + secrets.token_hex(4))
    assert done["status"] == "ok", done["error"]
    count, reached = eval(done["value"])
    assert count >= 2 and not reached  # the places of the mark, in a program that is there to read
