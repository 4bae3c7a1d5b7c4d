# SPDX-License-Identifier: Apache-2.0
"""Calls that would change or own the machine, with arguments that do nothing: on the host the
kernel looks at the arguments and finds them wrong, inside it does not get that far."""

import errno
import json
import platform

import pytest

from lib import Sandbox

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86_64")

# vhangup takes no arguments, so it is never tried on the host.
CALLS = {
    "kexec_load": 246, "kexec_file_load": 320, "reboot": 169, "swapon": 167, "swapoff": 168, "settimeofday": 164,
    "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305, "init_module": 175, "finit_module": 313,
    "delete_module": 176, "ioperm": 173, "iopl": 172, "acct": 163, "quotactl": 179, "syslog": 103,
    "sethostname": 170, "setdomainname": 171, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "mount_setattr": 442, "name_to_handle_at": 303, "open_by_handle_at": 304, "fanotify_init": 300,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "process_madvise": 440,
    "process_mrelease": 448, "move_pages": 279, "migrate_pages": 256, "mbind": 237, "set_mempolicy": 238,
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438,
    "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "add_key": 248, "request_key": 249, "keyctl": 250,
    "unshare": 272, "setns": 308, "seccomp": 317, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190,
    "setpriority": 141, "ioprio_set": 251, "sched_setaffinity": 203, "sched_setscheduler": 144,
    "sched_setattr": 314, "setuid": 105, "setgid": 106, "setgroups": 116, "setresuid": 117, "setfsuid": 122,
    "capset": 126, "modify_ldt": 154, "personality": 135, "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240,
    "memfd_secret": 447, "lookup_dcookie": 212, "io_setup": 206, "vmsplice": 278, "tee": 276, "splice": 275,
    "inotify_init1": 294, "mknod": 133, "mlockall": 151, "remap_file_pages": 216,
    "mseal": 462, "lsm_set_self_attr": 460, "map_shadow_stack": 453, "futex_wait": 455,
}
# ENOTSUP is what tools expect that only try to keep attributes.
REFUSED = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP}

TRY = '''
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
answers = {}
for name, number in CALLS.items():
    ctypes.set_errno(0)
    back = libc.syscall(*[ctypes.c_long(value) for value in (number, -1, -1, -1, -1, -1, -1)])
    answers[name] = ctypes.get_errno() if back < 0 else 0
print(json.dumps(answers))
'''


def test_calls_are_refused_before_the_kernel_looks_at_them(sandbox: Sandbox) -> None:
    code = f"CALLS = {CALLS!r}\n" + TRY
    result = sandbox.exec(code)
    inside = json.loads(result["stdout"])
    assert {name: errno.errorcode.get(number, number) for name, number in inside.items() if number not in REFUSED} == {}
    if sandbox.who == "root":  # a user gets EPERM for some of them everywhere
        harmless = {name: number for name, number in CALLS.items() if not name.startswith(("set", "ioprio"))}
        outside = json.loads(sandbox.outside(f"CALLS = {harmless!r}\n" + TRY).stdout)
        reached = [name for name, number in outside.items() if number not in REFUSED]
        assert len(reached) > 0.7 * len(harmless), outside
    kept = result["denials"]
    assert len(kept) == 32 and all(denial["source"] == "kernel" for denial in kept)
    assert result["denials_dropped"] >= len(CALLS) - 40


def test_hangup_of_the_terminal_is_refused(sandbox: Sandbox) -> None:
    code = "import ctypes; l = ctypes.CDLL(None, use_errno=True); l.syscall(153), ctypes.get_errno()"
    value = sandbox.exec(code)["value"]
    assert value == f"(-1, {errno.EPERM})"


@pytest.mark.parametrize("number", [39, 59, 520, 544])
def test_numbers_of_the_third_kind_do_nothing(sandbox: Sandbox, number: int) -> None:
    """x32 numbers reach the same calls past a filter that forgets them."""
    code = ("import ctypes; l = ctypes.CDLL(None, use_errno=True)\n"
            f"l.syscall(ctypes.c_long(0x40000000 | {number}), 0, 0, 0)")
    result = sandbox.exec(code)
    assert result["status"] == "killed" or result["value"] == "-1"


def test_numbers_without_a_call_do_nothing(sandbox: Sandbox) -> None:
    code = '''
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
[number for number in [*range(470, 600), 1023, 1 << 20] if libc.syscall(ctypes.c_long(number), 0) >= 0]
'''
    assert sandbox.exec(code)["value"] == "[]"


@pytest.mark.parametrize("flags", [0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x08000000, 0x04000000, 0x02000000])
def test_clone_flags_are_seen_whatever_else_is_set(sandbox: Sandbox, flags: int) -> None:
    """High bits and other flags beside them must not hide a namespace flag from the filter."""
    code = f'''
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
before = {{name: os.readlink("/proc/self/ns/" + name) for name in os.listdir("/proc/self/ns")}}
new = []
for more in (17, 17 | 1 << 33, 17 | 0x00800000, 17 | 0x8000):
    pid = libc.syscall(56, ctypes.c_long({flags} | more), 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    if pid > 0:
        new.append(more)
        os.waitpid(pid, 0) if not more & 0x8000 else None
new
'''
    assert sandbox.exec(code)["value"] == "[]"


def test_the_number_of_calls_is_bounded(sandbox: Sandbox) -> None:
    """Some are older names of others: open, stat, lstat, fork, select, accept."""
    manifest = sandbox.exec("1")["manifest"]["controls"]["syscalls"]
    assert manifest["enforced"] and manifest["allowed"] <= 156 and manifest["capabilities"] == 0


def test_what_a_session_holds(sandbox: Sandbox) -> None:
    """docs/reference/reach.md has it as a table: whatever is new there must be thought about first."""
    code = """
import os
def link(number):
    try:
        return os.readlink("/proc/self/fd/" + number).split(":")[0]
    except OSError:
        return None
held = sorted(filter(None, map(link, os.listdir("/proc/self/fd"))))
with open("/proc/self/maps") as maps:
    mapped = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
with open("/proc/self/mountinfo") as mounts:
    kinds = {(words[4].split("/")[1], words[words.index("-") + 1]) for words in map(str.split, mounts)}
[held, sorted(name for name in mapped if not name.startswith(("/usr/", "/run/guest/"))), sorted(kinds)]
"""
    held, mapped, kinds = eval(sandbox.exec(code, session="held")["value"])
    assert held == ["/dev/null"] * 2 + ["pipe"] * 4 + ["socket"]
    assert set(mapped) <= {"/memfd:filter (deleted)"}
    covered = {(place, kind) for place, kind in kinds if place not in ("dev", "proc", "tmp", "workspace", "")}
    assert {kind for _, kind in covered} == {"overlay"}, covered
    sandbox.destroy("held")
