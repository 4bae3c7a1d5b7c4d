# SPDX-License-Identifier: Apache-2.0
"""Attacks on the fourth control: calls that reach other processes, the kernel's rarely used
parts, or more rights. On the host they run in namespaces of their own where they need rights."""

import os
import platform
import pty
import subprocess
import tty

import lib
from attacks.engine import (
    Attack, in_text, never, Outcome, ROOT_ONLY, tier_of, token_if_done, World)

IN_USERNS = ("unshare", "-Urmpf", "--mount-proc")
X86_ONLY = platform.machine() == "x86_64"

# A victim whose memory holds the token; it tells where.
VICTIM = '''
import ctypes, sys, time
token = ctypes.create_string_buffer(sys.argv[1].encode())
print(ctypes.addressof(token), flush=True)
fd = open(sys.argv[2])
time.sleep(600)
'''


def victim(world: World) -> lib.Json:
    """A process of the user; its memory and one of its descriptors hold the token."""
    secret = world.plant_file("victim.txt")
    process = world.plant_process("/usr/bin/python3", "-c", VICTIM, world.token, secret, stdout=subprocess.PIPE)
    with lib.some(process.stdout) as output:
        address = int(output.readline())
    world.state["victim"] = process
    # Inside, every process there is may be tried, at the same address.
    return {"pid": process.pid, "address": address, "token": world.token}


def is_victim_dead(world: World, _outcome: Outcome) -> bool:
    try:
        world.state["victim"].wait(0.1 if world.inside else lib.PATIENCE)
        return True
    except subprocess.TimeoutExpired:
        return False


# A server of the user that takes what it is sent, and answers; not before a second one connects.
SERVER = '''
import os, socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print(flush=True)
peer, _ = server.accept()
second = server.accept()
while peer.recv(1):
    peer.send(b"x")
'''


def peer(world: World) -> lib.Json:
    """A process of the user at the other end of a socket. Inside it is who runs the sandbox."""
    process = world.plant_process("/usr/bin/python3", "-c", SERVER, world.path("peer"), stdout=subprocess.PIPE)
    with lib.some(process.stdout) as output:
        output.readline()
    world.state["victim"] = process
    if world.inside:
        world.box.exec("1")
        world.state["tier"] = tier_of(world.box)
    return {"path": world.path("peer"), "token": world.token}


def is_peer_dead(world: World, outcome: Outcome) -> bool:
    if not world.inside:
        return is_victim_dead(world, outcome)
    return not lib.is_alive(world.state["tier"]) or world.box.exec("6 * 7")["value"] != "42"


# sockets: a connected one, or inside every descriptor that is one.
OTHER_END = '''
import array, signal, stat
def is_socket(fd):
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False
sockets = [socket.socket(fileno=os.dup(fd)) for fd in filter(is_socket, range(1024 if P["inside"] else 0))]
if not P["inside"]:
    sockets.append(socket.socket(socket.AF_UNIX))
    sockets[0].connect(P["path"])
'''


def host_keyring(world: World) -> lib.Json:
    """A key in the user's keyring, which its processes share."""
    code = ("import ctypes,sys; l=ctypes.CDLL(None,use_errno=True); "
            "r=l.syscall(248,b'user',sys.argv[1].encode(),sys.argv[2].encode(),len(sys.argv[2]),-4); "
            "l.syscall(250,5,r,0x3f3f0000); print(r)")
    done = world.box.outside("", argv=["/usr/bin/python3", "-c", code, world.mark, world.token])
    key = int(done.stdout)
    assert key > 0
    revoke = f"import ctypes; ctypes.CDLL(None).syscall(250, 3, {key})"
    world.cleanups.append(lambda: world.box.outside(revoke))
    return {"key": key}


def terminal(world: World) -> lib.Json:
    """The caller's terminal; what is pushed into it would be typed to the user's shell."""
    mine, theirs = pty.openpty()
    tty.setraw(mine)
    world.cleanups += [lambda: os.close(theirs), lambda: os.close(mine)]
    world.state["terminal"] = mine
    os.set_blocking(theirs, False)
    world.state["typed"] = theirs
    if world.inside:
        world.exec_args["pass_fds"] = [theirs]
        return {"fd": theirs, "name": os.ttyname(theirs)}
    os.chmod(os.ttyname(theirs), 0o666)
    world.popen_args["pass_fds"] = [theirs]
    return {"fd": theirs, "name": os.ttyname(theirs)}


def was_typed(world: World, _outcome: Outcome) -> bool:
    try:
        return b"x" in os.read(world.state["typed"], 100)
    except BlockingIOError:
        return False


NAMESPACES = '''
names = ("user", "mnt", "net", "pid_for_children", "uts", "ipc")
before = {name: os.readlink("/proc/self/ns/" + name) for name in names}
def inside(way):
    after = {name: os.readlink("/proc/self/ns/" + name) for name in before}
    if after != before:
        tell(P["token"], way)
for flags in (0x10000000, 0x10000000 | 0x00020000, 0x40000000, 0x00020000, 0x04000000, 0x08000000, 0x02000000, 0x80):
    def by_fork():
        pid = os.fork()
        if pid == 0:
            try:
                call(272, flags)
                inside("unshare")
                stack = ctypes.create_string_buffer(65536)
                child = call(56, flags | 17, 0, 0, 0, 0)
                if child == 0:
                    inside("clone")
                    os._exit(0)
                clone3 = ctypes.create_string_buffer(struct.pack("<QQQQQ24x", flags, 0, 0, 0, 17), 64)
                child = call(435, clone3, 64)
                if child == 0:
                    inside("clone3")
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
    attempt(by_fork)
time.sleep(0.05)  # for children that nobody waits for; outside the tester waits for all
'''

# getpid, as a 32-bit program asks for it
CALL_32_BIT = '''
import ctypes, mmap, os
memory = mmap.mmap(-1, 4096, prot=7)
memory.write(bytes.fromhex("53b814000000cd805bc3"))
function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
'''


def no_32_bit() -> dict[str, str]:
    """Some hosts (paravirtual ones) end whoever makes such a call."""
    code = CALL_32_BIT + "raise SystemExit(function() != os.getpid())"
    if not X86_ONLY or subprocess.run(["/usr/bin/python3", "-c", code], stderr=subprocess.DEVNULL).returncode == 0:
        return {}
    why = "control: not possible here: this kernel runs no 32-bit calls"
    return {"root": why, "user": why}


ATTACKS = [
    Attack("kill a process of the host", "syscalls", "a planted process dies", '''
import signal
me = {os.getpid(), os.getppid(), os.getpgid(0)}
# Outside only the victim is a target.
targets = {P["pid"]} if P["only"] else {P["pid"], *range(2, 40)} - me
for pid in targets:
    attempt(os.kill, pid, signal.SIGKILL)
    attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL))
''', lambda world: {**victim(world), "only": not world.inside}, is_victim_dead,
           statuses=("ok", "error", "killed")),
    Attack("kill everything with -1", "syscalls", "a planted process dies", '''
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
attempt(os.kill, -1 if not P["only"] else P["pid"], signal.SIGTERM)
''', lambda world: {**victim(world), "only": not world.inside}, is_victim_dead,
           statuses=("ok", "error", "killed")),
    Attack("kill the other end of a socket", "syscalls", "the peer of a socket, inside the supervisor, dies",
           OTHER_END + '''
for peer in sockets:
    def end():
        peer.setsockopt(1, 76, 1)
        signal.pidfd_send_signal(struct.unpack("i", peer.getsockopt(1, 77, 4))[0], signal.SIGKILL)
    attempt(end)
    attempt(lambda: signal.pidfd_send_signal(struct.unpack("i", peer.getsockopt(1, 77, 4))[0], signal.SIGKILL))
''', peer, is_peer_dead, statuses=("ok", "error", "killed")),
    Attack("hold up the other end of a socket", "syscalls", "who closes a descriptor that was sent waits for seconds",
           OTHER_END + '''
def hold(peer):
    listener = socket.socket()
    listener.setsockopt(1, 8, 4096)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    with socket.socket() as full:
        full.connect(listener.getsockname())
        # Inside that long that there would be no result: who is held up is who gives it.
        full.setsockopt(1, 13, struct.pack("ii", 1, int(P["long"]) if P["inside"] else 3))
        full.setblocking(False)
        try:
            while full.send(bytes(65536)):
                pass
        except BlockingIOError:
            pass
        peer.sendmsg([bytes(1)], [(1, 1, array.array("i", [full.fileno()]))])
    if not P["inside"]:
        started = time.monotonic()
        with socket.socket(socket.AF_UNIX) as second:
            second.connect(P["path"])  # what was sent is closed here, so the peer will be the last
            if peer.recv(1) and time.monotonic() - started > 2:
                tell(P["token"])
for peer in sockets * (5 if P["inside"] else 1):
    attempt(hold, peer)
# A container's own pid 1 may be held up, until the supervisor ends it at the time limit.
''', peer, statuses=("ok", "error", "killed"), docker_timeouts=(str(int(lib.PATIENCE)),)),
    Attack("ptrace", "syscalls", "bytes of another process's memory", '''
child = os.fork()
if child == 0:
    time.sleep(P["long"])
    os._exit(0)
for pid in [P["pid"], *([child, 1, 2, 3, os.getppid()] if P["inside"] else [])]:
    if call(101, 16, pid, 0, 0) == 0:
        os.waitpid(pid, 0x40000000)
        words = [call(101, 2, pid, P["address"] + i, ctypes.byref(ctypes.c_long())) for i in range(0, 48, 8)]
        value = ctypes.c_long()
        tell("attached", "to its child" if pid == child else "to another", P["token"])
        call(101, 17, pid, 0, 0)
os.kill(child, 9)
''', victim, won_in_own_kernel=in_text("to another")),
    Attack("process_vm_readv", "syscalls", "bytes of another process's memory", '''
class Vec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
known = ctypes.create_string_buffer(b"known here and in the child")
child = os.fork()
if child == 0:
    time.sleep(P["long"])
    os._exit(0)
for pid, address in [(P["pid"], P["address"]), (child, ctypes.addressof(known)), (1, ctypes.addressof(known))]:
    there = ctypes.create_string_buffer(64)
    if call(310, pid, ctypes.byref(Vec(ctypes.addressof(there), 27)), 1, ctypes.byref(Vec(address, 27)), 1, 0) > 0:
        tell(there.raw, "of its child" if pid == child else "of another", P["token"])
os.kill(child, 9)
''', victim, won_in_own_kernel=in_text("of another")),
    Attack("memory of pid 1 and of the host by /proc", "syscalls", "bytes of another process's memory", '''
def read(pid, address):
    with open("/proc/%d/mem" % pid, "rb", buffering=0) as memory:
        memory.seek(address)
        tell("read", pid, memory.read(48))
        if pid != os.getpid():
            tell(P["token"])
attempt(read, P["pid"], P["address"])
if P["inside"]:
    for turn in range(200):
        for pid in [1, 3]:
            try:
                with open("/proc/%d/maps" % pid) as maps:
                    line = maps.readline()
                    tell(pid, line, P["token"])
                    read(pid, int(line.split("-")[0], 16))
            except OSError:
                pass
''', victim, won_in_own_kernel=in_text("read ")),
    Attack("pidfd_getfd", "syscalls", "a descriptor of another process", '''
for pid in [P["pid"], 1, 2, 3]:
    pidfd = call(434, pid, 0)
    for number in range(3, 8):
        fd = call(438, pidfd, number, 0)
        if fd >= 0:
            tell(P["token"])
''', victim),
    Attack("kcmp", "syscalls", "the kernel compares two processes", '''
child = os.fork()
if child == 0:
    time.sleep(P["long"])
    os._exit(0)
if call(312, os.getpid(), child, 0, 1, 1) >= 0:
    tell(P["token"])
os.kill(child, 9)
''', token_if_done),
    Attack("nested namespaces", "syscalls", "the links in /proc/self/ns change", NAMESPACES, token_if_done),
    Attack("enter a namespace", "syscalls", "setns succeeds", '''
for name in ("user", "mnt", "net", "uts", "ipc", "pid"):
    for pid in ("1", "self"):
        def enter():
            fd = os.open("/proc/%s/ns/%s" % (pid, name), os.O_RDONLY)
            if call(308, fd, 0) == 0:
                tell(P["token"])
        attempt(enter)
''', token_if_done, wrap=IN_USERNS),
    Attack("mount", "syscalls", "a file shows through a mount of one's own", '''
here = P["folder"] if os.path.isdir(P["folder"]) else "/workspace"
os.chdir(here)
for name in ("from", "to"):
    attempt(os.mkdir, name)
attempt(lambda: open("from/" + P["mark"], "w").close())
libc.mount(b"from", b"to", None, 4096, None)
fd = call(428, -100, b"from", 1)
if fd >= 0:
    call(429, fd, b"", -100, b"to", 4)
for kind in (b"tmpfs", b"proc", b"sysfs", b"cgroup2", b"devtmpfs"):
    if libc.mount(kind, b"to", kind, 0, None) == 0:
        tell(P["token"])
        libc.umount2(b"to", 2)
for target in (b"/proc/sys", b"/proc/kcore", b"/workspace", b"/tmp", b"/proc"):
    if os.getpid() > 2 and libc.umount2(target, 2) == 0:
        tell(P["token"])
if os.path.exists("to/" + P["mark"]):
    tell(P["token"])
''', lambda world: {"folder": world.folder, "token": world.token}, wrap=IN_USERNS),
    Attack("chroot and pivot_root", "syscalls", "the root is another folder", '''
here = P["folder"] if os.path.isdir(P["folder"]) else "/workspace"
os.chdir(here)
os.makedirs("jail/" + P["mark"], exist_ok=True)
call(155, b"jail", b"jail")
attempt(os.chroot, "jail")
if P["mark"] in os.listdir("/"):
    tell(P["token"])
''', lambda world: {"folder": world.folder, "token": world.token}, wrap=IN_USERNS),
    Attack("host name", "syscalls", "the name changes", '''
call(170, P["mark"].encode(), len(P["mark"]))
attempt(lambda: open("/proc/sys/kernel/hostname", "w").write(P["mark"]))
if os.uname().nodename == P["mark"]:
    tell(P["token"])
''', token_if_done, wrap=("unshare", "-Uru")),
    Attack("kernel settings", "syscalls", "a value below /proc/sys changes", '''
settings = (("net/ipv4/ip_forward", "1"), ("net/ipv4/ping_group_range", "0 0"), ("kernel/domainname", P["mark"]))
for name, value in settings:
    def change():
        with open("/proc/sys/" + name, "w") as out:
            out.write(value)
        tell(P["token"])
    attempt(change)
''', token_if_done, wrap=("unshare", "-Urnu")),
    Attack("bpf", "syscalls", "a map exists", '''
attributes = ctypes.create_string_buffer(struct.pack("<IIIII", 2, 4, 8, 1, 0), 120)
if call(321, 0, attributes, 72) >= 0:
    tell(P["token"])
''', token_if_done, no_control={"user": ROOT_ONLY}),
    Attack("perf events", "syscalls", "a counter exists", '''
attributes = ctypes.create_string_buffer(struct.pack("<IIQ", 1, 112, 0), 112)
for flags in (0, 1 << 5 | 1 << 6):  # all, or user space only
    ctypes.memmove(ctypes.byref(attributes, 40), struct.pack("<Q", flags), 8)
    if call(298, attributes, 0, -1, -1, 0) >= 0:
        tell(P["token"])
''', token_if_done),
    Attack("userfaultfd", "syscalls", "a descriptor exists", '''
if call(323, 1) >= 0 or call(323, 0) >= 0:
    tell(P["token"])
''', token_if_done),
    Attack("keys of the host", "syscalls", "the payload of a planted key", '''
buffer = ctypes.create_string_buffer(100)
found = call(249, b"user", P["mark"].encode(), 0, 0)
for key in (found, P["key"]):
    if call(250, 11, key, buffer, 100) > 0:
        tell(buffer.value)
attempt(show, "/proc/keys")
''', host_keyring),
    Attack("keys of one's own", "syscalls", "a key exists, which other sessions could find", '''
if call(248, b"user", P["mark"].encode(), b"x", 1, -2) > 0:
    tell(P["token"])
''', token_if_done),
    Attack("type into the caller's terminal", "syscalls", "a character in its input", '''
import fcntl
os.setsid() if os.getpid() != os.getsid(0) else None
attempt(lambda: fcntl.ioctl(os.open(P["name"], os.O_RDWR), 0x540E, 0))
for fd in (0, 1, 2, P["fd"]):
    attempt(fcntl.ioctl, fd, 0x5412, b"x")
for name in ("/dev/tty", "/dev/console", P["name"]):
    attempt(lambda: fcntl.ioctl(os.open(name, os.O_RDWR | os.O_NOCTTY), 0x5412, b"x"))
''', terminal, was_typed),
    Attack("rights from a setuid program", "syscalls", "su runs as root", '''
import subprocess
child = subprocess.Popen(["/usr/bin/su", "-c", "true", "root"], stdin=subprocess.PIPE,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
turns, has_won = 0, False
while child.poll() is None and not has_won and (turns < 200 or not P["inside"]):
    turns += 1
    def look():
        global has_won
        with open("/proc/%d/status" % child.pid) as status:
            uids = [line for line in status if line.startswith("Uid:")][0].split()
        if "0" in uids[2:]:
            tell(P["token"])
            has_won = True
    attempt(look)
    time.sleep(0.001)
child.kill()
child.wait()
''', token_if_done),
    Attack("another user's rights", "syscalls", "the user id changes", '''
for attempt_number in (105, 117, 113):
    call(attempt_number, 0, 0, 0)
    if os.geteuid() == 0:
        tell(P["token"])
''', token_if_done, wrap=("unshare", "-Ur")),
    Attack("capabilities", "syscalls", "one is effective", '''
data = ctypes.create_string_buffer(struct.pack("<IIIIII", 1 << 21, 1 << 21, 0, 0, 0, 0), 24)
call(126, ctypes.create_string_buffer(struct.pack("<II", 0x20080522, 0), 8), data)
with open("/proc/self/status") as status:
    for line in status:
        if line.startswith(("CapEff", "CapPrm", "CapBnd")) and int(line.split()[1], 16) != 0:
            tell(P["token"])
''', token_if_done),
    Attack("raise a limit", "syscalls", "the hard limit of open files or processes rises", '''
import resource
for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
    before = resource.getrlimit(limit)[1]
    wanted = before - 1 if P["lower"] else before + 1 if before >= 0 else 5
    attempt(resource.setrlimit, limit, (wanted, wanted))
    after = resource.getrlimit(limit)[1]
    if after != before and (P["lower"] or after > before or after < 0):
        tell(P["token"], "raised" if before >= 0 and (after > before or after < 0) else "lowered")
''', lambda world: {"token": world.token, "lower": not world.inside}, won_in_own_kernel=in_text("raised")),
    Attack("choose one's processors", "syscalls", "the affinity changes", '''
before = os.sched_getaffinity(0)
for wanted in ({min(before)}, {max(before)}, set(range(64))):
    attempt(os.sched_setaffinity, 0, wanted)
    if os.sched_getaffinity(0) != before:
        tell(P["token"])
''', token_if_done, won_in_own_kernel=never),
    Attack("scheduling class", "syscalls", "the class changes", '''
attempt(os.sched_setscheduler, 0, os.SCHED_BATCH, os.sched_param(0))
attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
with open("/proc/self/stat") as stat:
    if stat.read().rpartition(")")[2].split()[38] != "0":
        tell(P["token"])
''', token_if_done),
    Attack("personality", "syscalls", "it changes: addresses without chance", '''
call(135, 0x0040000)
if call(135, 0xffffffff) == 0x0040000:
    tell(P["token"])
''', token_if_done),
    Attack("modify_ldt", "syscalls", "the kernel answers", '''
if call(154, 0, ctypes.create_string_buffer(64), 64) >= 0:
    tell(P["token"])
''', token_if_done),
    Attack("calls of 32-bit programs", "syscalls", "getpid by int 0x80 answers", CALL_32_BIT + '''
if function() == os.getpid():
    tell(P["token"])
''', token_if_done, statuses=("ok", "error", "killed"), no_control=no_32_bit()),
    Attack("secret memory", "syscalls", "memory that nobody can account for or read", '''
if call(447, 0) >= 0:
    tell(P["token"])
''', token_if_done),
    Attack("queue in the kernel", "syscalls", "a System V or POSIX queue, segment or semaphore exists", '''
made = [call(29, 0, 4096, 0o1600), call(68, 0, 0o1600), call(64, 0, 1, 0o1600),
        call(240, P["mark"].encode(), 0o102, 0o600, 0)]
if any(number >= 0 for number in made):
    tell(P["token"])
for remove, number in ((31, made[0]), (71, made[1])):
    if number >= 0:
        call(remove, number, 0, 0)
if made[2] >= 0:
    call(66, made[2], 0, 0, 0)
call(241, P["mark"].encode())
''', token_if_done, won_in_own_kernel=never),
]
