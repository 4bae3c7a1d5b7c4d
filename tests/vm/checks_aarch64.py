# SPDX-License-Identifier: Apache-2.0
"""What tests/vm/run-aarch64 checks besides checks.py: the system calls of the architecture.

Nothing an ordinary program does is refused; what reaches out of a sandbox is, with a record
that names it; and programs of the 32-bit architecture, which this kernel runs, are killed.
"""

import os
import signal
import struct
import subprocess
import sys
import time
import traceback
from typing import Any

from checks import Box, Failed, check

# As libraries of this architecture do it: getpgid for getpgrp, clone for fork and vfork, ppoll,
# dup3, pipe2, the calls with a folder's descriptor.
ORDINARY = """
import multiprocessing, os, pathlib, select, signal, socket, subprocess, tempfile, threading, time
seen = []
def step(what, value): seen.append(what) if value else print("wrong:", what)
step("getpgrp", os.getpgrp() > 0)
pid = os.fork()
if pid == 0: os._exit(3)
step("fork", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3)
step("spawn", subprocess.run(["/bin/echo", "x"], capture_output=True).stdout == b"x\\n")
line = "mkdir d; touch d/f; mv d/f d/g; ln -s g d/l; chmod 600 d/g; rm -r d; trap : USR1"
step("shell", subprocess.run(line, shell=True))
thread = threading.Thread(target=lambda: seen.append("thread")); thread.start(); thread.join()
read, write = os.pipe(); os.dup2(write, write + 50); os.write(write + 50, b"x")
poll = select.poll(); poll.register(read, select.POLLIN); step("poll", poll.poll(1000))
with select.epoll() as epoll: epoll.register(read); step("epoll", epoll.poll(1))
step("select", select.select([read], [], [], 1)[0])
signal.signal(signal.SIGALRM, lambda *_: seen.append("alarm")); signal.alarm(1); signal.pause()
pathlib.Path("f").touch(); os.link("f", "g"); os.unlink("g"); os.chmod("f", 0o600)
step("access", os.access("f", os.R_OK))
os.mkdir("a"); os.rename("a", "b"); os.symlink("b", "l"); step("readlink", os.readlink("l") == "b"); os.rmdir("b")
step("tempfile", tempfile.TemporaryFile().write(b"x"))
server = socket.create_server(("127.0.0.1", 0)); step("socket", socket.create_connection(server.getsockname()))
with multiprocessing.get_context("fork").Pool(2) as pool: step("pool", pool.map(abs, [-1, 2]) == [1, 2])
step("random", os.urandom(4)); step("time", time.sleep(0.01) is None); step("cpus", os.sched_getaffinity(0))
len(seen)
"""

# Name, number here, arguments; as root without a sandbox none of them is refused with EPERM.
REFUSED = [
    ("unshare", 97, [0x10000000]),
    ("clone", 220, [0x10000000 | signal.SIGCHLD, 0, 0, 0, 0]),
    ("mount", 40, [0, 0, 0, 0, 0]),
    ("setns", 268, [-1, 0]),
    ("ptrace", 117, [0xffff, 0, 0, 0]),
    ("process_vm_readv", 270, [1, 0, 0, 0, 0, 0]),
    ("bpf", 280, [-1, 0, 0]),
    ("perf_event_open", 241, [0, 0, 0, -1, 0]),
    ("io_uring_setup", 425, [0, 0]),
    ("keyctl", 219, [0, -4, 0, 0, 0]),
    ("userfaultfd", 282, [-1]),
    ("socket", 198, [16, 3, 0]),
    ("personality", 92, [0x0040000]),
    ("getpgid", 155, [1]),
]

CALL = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, args):
    ctypes.set_errno(0)
    back = libc.syscall(*[ctypes.c_long(value) for value in (number, *args)])
    if back == 0 and number == 220: os._exit(0)
    return back if back >= 0 else -ctypes.get_errno()
"""


def program_of_32_bits() -> bytes:
    """mov r7, #20; svc 0 (getpid); mov r0, #42; mov r7, #1; svc 0 (exit)"""
    code = struct.pack("<5I", 0xE3A07014, 0xEF000000, 0xE3A0002A, 0xE3A07001, 0xEF000000)
    base, start = 0x10000, 84
    header = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack(
        "<2H5I6H", 2, 40, 1, base + start, 52, 0, 0x05000200, 52, 32, 1, 0, 0, 0)
    segment = struct.pack("<8I", 1, 0, base, base, start + len(code), start + len(code), 5, 0x1000)
    return header + segment + code


def ordinary_programs_meet_no_refusal(box: Box) -> str:
    result = box.ok(ORDINARY)
    check(result["value"] == "17" and result["stdout"] == "", result["value"], result["stdout"], result["stderr"])
    check(result["denials"] == [], result["denials"])
    return f"{result['value']} things"


def refused_calls_are_named(box: Box) -> str:
    outside: dict[str, Any] = {}
    exec(CALL, outside)
    for name, number, args in REFUSED:
        child = os.fork()
        if child == 0:
            os._exit(1 if outside["call"](number, args) == -1 else 0)
        check(os.waitpid(child, 0)[1] == 0, "without a sandbox refused too:", name)
    for name, number, args in REFUSED:
        result = box.ok(f"{CALL}\ncall({number}, {args})")
        check(result["value"] == "-1", name, "answers", result["value"])
        named = [d["operation"] for d in result["denials"] if d["source"] == "kernel"]
        check(named == [name], name, "is recorded as", named)
    return f"{len(REFUSED)} calls"


def programs_of_32_bits_are_killed(box: Box) -> None:
    with open("/tmp/arm", "wb") as file:
        file.write(program_of_32_bits())
    os.chmod("/tmp/arm", 0o755)
    outside = subprocess.run(["/tmp/arm"]).returncode
    check(outside == 42, "without a sandbox it does not run:", outside)
    box.ok("1", "--session", "old")
    done = box.cli("put", "/tmp/arm", "old:arm")
    check(done.returncode == 0, done.stderr)
    code = "import os, subprocess; os.chmod('arm', 0o755); subprocess.run(['./arm']).returncode"
    result = box.ok(code, "--session", "old")
    check(result["value"] == str(-signal.SIGSYS), result["value"])


# Calls that the supervisor of the local tier looks at: a signal to a child, modes of a file.
WITHOUT_NAMESPACES = """
import os, signal, time
pid = os.fork()
if pid == 0: time.sleep(600)
os.kill(pid, signal.SIGTERM)
open("f", "w").close(); os.chmod("f", 0o640)
os.waitpid(pid, 0)[1], oct(os.stat("f").st_mode & 0o777), os.getpgrp() > 0
"""


def local_tier_runs(box: Box) -> None:
    result = box.ok(WITHOUT_NAMESPACES, "--env", "local")
    check(result["manifest"]["tier"] == "local", result["manifest"]["tier"])
    check(result["value"] == "(15, '0o640', True)", result["value"])
    check(result["denials"] == [], result["denials"])


def ends(box: Box) -> None:
    box.stop()


def main() -> int:
    box = Box("aarch64")
    failed = 0
    check(os.uname().machine == "aarch64", os.uname())
    for one in (ordinary_programs_meet_no_refusal, refused_calls_are_named, programs_of_32_bits_are_killed,
                local_tier_runs, ends):
        start = time.monotonic()
        try:
            said, line = one(box), "ok"
        except Exception as error:
            said, line = str(error) if isinstance(error, Failed) else traceback.format_exc(), "not ok"
            failed += 1
        print(f"{line} - aarch64: {one.__name__.replace('_', ' ')} [{time.monotonic() - start:.1f} s]"
              + (f": {said}" if said else ""), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
