# SPDX-License-Identifier: Apache-2.0
"""Attacks on the second control: more than its share. Each is bounded by itself, so that the
host is safe if the limit fails; while it runs, another session must answer."""

import resource
import time
from collections.abc import Callable
from typing import Any


import lib
from attacks.engine import Attack, Outcome, World, token_if_done, told_token

MIB = 1 << 20


def count(world: World) -> int:
    return len(world.marked())


def resident(world: World) -> int:
    """Memory of the attack's processes as the host counts it, bytes: what is shared counts once."""
    total = 0
    for pid in world.marked():
        try:
            with open(f"/proc/{pid}/smaps_rollup") as rollup:
                total += sum(int(line.split()[1]) for line in rollup if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
        except OSError:
            pass
    return total * 1024


def shared_memory(_world: World) -> int:
    """All tmpfs pages of the host, bytes: of other tests, too, so that little counts for nothing."""
    with open("/proc/meminfo") as info:
        return next(int(line.split()[1]) for line in info if line.startswith("Shmem:")) * 1024


def socket_buffers(_world: World) -> int:
    """Buffers of all TCP and UDP sockets of the host, bytes: this file counts all network namespaces."""
    with open("/proc/net/sockstat") as stat:
        words = stat.read().split()
    pages = sum(int(words[at + 1]) for at, word in enumerate(words) if word == "mem")
    return pages * resource.getpagesize()


def peak_over(limit: float) -> Callable[[World, Outcome], bool]:
    return lambda _world, outcome: outcome.peak() > limit


def held_over(limit: float) -> Callable[[World, Outcome], bool]:
    """Inside, where a limit may be enforced by looking, it must not be held to the end, where the token is said."""
    return lambda world, outcome: told_token(world, outcome) if world.inside else outcome.peak() > limit


def growth_over(limit: float) -> Callable[[World, Outcome], bool]:
    return lambda _world, outcome: outcome.peak() > outcome.samples[0] + limit


def beside(world: World) -> lib.Json:
    """Another session that was there before, and must answer while the attack runs."""
    world.box.exec("kept = 41", session="beside")
    return {}


def beside_answers(world: World) -> int:
    """For `sample`: processes, and now and then, but not before the run, a question to the other session."""
    now = time.monotonic()
    if "asked" not in world.state:
        world.state["asked"], world.state["answers"] = 0.0, []
    elif world.inside and now - world.state["asked"] > 0.5:
        world.state["asked"] = now
        world.state["answers"].append("none")
        world.state["answers"][-1] = world.box.exec("kept + 1", session="beside", timeout=lib.PATIENCE)["value"]
    return count(world)


def answered(world: World, _outcome: Outcome) -> None:
    answers = world.state["answers"]
    assert answers and set(answers) == {"42"}, answers


def limited_by(key: str) -> Callable[[World, Outcome], None]:
    def also(_world: World, outcome: Outcome) -> None:
        assert outcome.result is not None
        limit = outcome.result["limit"]
        assert limit is not None and limit["key"] == key, outcome.result["limit"]

    return also


def denied_by(word: str) -> Callable[[World, Outcome], None]:
    """A limit that does not end the cell is told in the denials."""

    def also(_world: World, outcome: Outcome) -> None:
        assert outcome.result is not None
        rules = [denial["rule"] for denial in outcome.result["denials"]]
        assert any(word in rule for rule in rules), outcome.result["denials"]

    return also


def runs_on(_world: World, outcome: Outcome) -> bool:
    """Outside it was still running at the end of its time; inside there is a result, which says that it was ended."""
    return outcome.timed_out and outcome.result is None


def processors(world: World) -> int:
    """Remember on which processors the attack was seen; how many there were."""
    seen = world.state.setdefault("processors", set())
    for pid in world.marked():
        try:
            with open(f"/proc/{pid}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
            if fields[0] == "R":
                seen.add(fields[36])
        except OSError:
            pass
    return len(seen)


def is_over_its_share(world: World, outcome: Outcome) -> bool:
    """0.25 processors; where no cgroup divides them, one whole processor. Outside it must be seen on two of them: how
    much it gets there is a matter of what else runs."""
    if not world.inside:
        return outcome.peak() > 1
    limits = world.box.exec("1")["manifest"]["controls"]["resources"]["limits"]
    if not limits["cpus"]["by"].startswith(("cgroup", "the container's")):
        return outcome.peak() > 1
    wall = float(lib.search(r"wall ([0-9.]+)", outcome.text).group(1))
    return sum(BURNED) / wall > 0.35


BURNED = [0.15] * 4  # seconds of processor time of each


def folder(world: World) -> lib.Json:
    return {"folder": "/workspace" if world.inside else world.folder, "token": world.token,
            "cap": 64, "mib": MIB}


HANG: dict[str, Any] = {"timeouts": ("0.5", "5", "50"), "outside_seconds": 1.5, "won": runs_on,
                        "statuses": ("timeout",), "also": limited_by("timeout")}

MEMORY = '''
held = []
for block in range(P["blocks"]):
    held.append(bytearray(b"x" * (1 << 20)))
hold()
tell(P["token"])
'''

HELD: dict[str, Any] = {"options": ("--memory", "64m", "--cpus", "2"), "statuses": ("ok", "oom", "error", "killed")}

# Seven processes hold something at once, until a limit has met one. The one that waits is told when each has it.
MANY = '''
there = os.pipe()
os.set_blocking(there[0], False)
children = []
for number in range(7):
    children.append(os.fork())
    if children[-1] == 0:
        try:
HOLD
            os.write(there[1], b"x")
            time.sleep(P["long"])
        finally:
            os._exit(0)
def all_live():
    for child in list(children):
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            children.remove(child)
    return len(children) == 7
got = 0
while got < 7 and all_live():
    try:
        got += len(os.read(there[0], 7))
    except BlockingIOError:
        time.sleep(0.02)
if got == 7:
    hold(goes_on=all_live)
if got == 7 and all_live():
    tell(P["token"])
for child in children:
    os.kill(child, 9)
'''

ATTACKS = [
    Attack("fork bomb", "resources", "the host counts more processes than the limit", '''
# At most 2 ** 7 processes, whatever happens.
for turn in range(7):
    try:
        os.fork()
    except OSError:
        pass
hold(1 if P["inside"] else P["hold"])
os._exit(0)
''', beside, peak_over(40), sample=beside_answers, also=answered, options=("--processes", "32"),
           statuses=("ok", "error", "killed", "oom", "timeout")),
    Attack("fork bomb that never waits", "resources", "the host counts more processes than the limit", '''
made = 0
while made < 300:
    try:
        made += 1
        if os.fork() == 0:
            hold(3.2 if P["inside"] else P["hold"])
            os._exit(0)
    except OSError:
        pass
hold_briefly()
''', beside, peak_over(40), sample=beside_answers, also=answered, options=("--processes", "32"),
           statuses=("ok", "error", "killed")),
    Attack("threads without end", "resources", "more run at once than the limit", '''
import threading
over = threading.Event()
threads = []
try:
    for number in range(200):
        thread = threading.Thread(target=over.wait)
        thread.start()
        threads.append(thread)
except RuntimeError:
    pass
if len(threads) > 40:
    tell(P["token"])
over.set()
''', token_if_done, options=("--processes", "32")),
    Attack("memory bomb", "resources", "the host sees it hold four times the limit", MEMORY,
           lambda world: {"blocks": 256, "token": world.token}, held_over(160 * MIB), sample=resident,
           options=("--memory", "64m"), statuses=("oom", "error", "killed")),
    Attack("memory bomb in many processes", "resources", "the host sees them hold four times the limit",
           MANY.replace("HOLD", '''
            block = bytearray(b"x" * (37 << 20))
'''), token_if_done, held_over(160 * MIB), sample=resident, options=("--memory", "64m"),
           statuses=("ok", "oom", "error", "killed")),
    Attack("memory by files", "resources", "tmpfs of the host grows by more than all limits", '''
block = b"x" * (1 << 20)
for folder in P["folders"]:
    def fill():
        with open(folder + "/fill-" + P["mark"], "wb") as out:
            for number in range(P["each"]):
                out.write(block)
                out.flush()
    attempt(fill)
hold_briefly()
for folder in P["folders"]:
    attempt(os.unlink, folder + "/fill-" + P["mark"])
''', lambda world: {"folders": ["/tmp", "/dev/shm", "/workspace"], "each": 192} if world.inside
           else {"folders": ["/dev/shm"], "each": 512},
           growth_over(384 * MIB), sample=shared_memory,
           options=("--memory", "64m", "--tmp-size", "16m", "--workspace-size", "16m"),
           statuses=("ok", "oom", "killed"), needs_own_disk=True),
    Attack("memory by descriptors without a name", "resources", "anonymous files of eight times the limit", '''
block = b"x" * (1 << 20)
fds = []
for number in range(16):
    fd = os.memfd_create("m")
    fds.append(fd)
    for part in range(32):
        attempt(os.write, fd, block)
hold_briefly()
''', won=growth_over(384 * MIB), sample=shared_memory, options=("--memory", "64m"),
           statuses=("ok", "oom", "error", "killed")),
    Attack("memory shared and dropped from view", "resources", "tmpfs of the host grows by eight times the limit", '''
import mmap
held = []
for number in range(64):
    block = mmap.mmap(-1, 8 << 20)
    held.append(block)
    block.write(b"x" * (8 << 20))
    block.madvise(mmap.MADV_DONTNEED)
hold_briefly()
''', won=growth_over(384 * MIB), sample=shared_memory, options=("--memory", "64m"),
           statuses=("ok", "oom", "error", "killed"), needs_memory_cgroup=True),
    Attack("memory in pipes and sockets", "resources", "the kernel holds three times the limit for it", '''
import fcntl
pairs, total = [], 0
block = b"x" * 65536
try:
    for number in range(4000):
        read_end, write_end = os.pipe()
        attempt(fcntl.fcntl, write_end, 1031, 1 << 20)
        left, right = socket.socketpair()
        for fd in (write_end, left.fileno()):
            os.set_blocking(fd, False)
            try:
                while total < 200 << 20:
                    total += os.write(fd, block)
            except BlockingIOError:
                pass
        pairs.append((read_end, left, right))
except OSError:
    pass
if total >= 192 << 20:
    tell(P["token"])
''', token_if_done, options=("--memory", "64m", "--open-files", "4096"),
           statuses=("ok", "oom", "error", "killed"), needs_memory_cgroup=True),
    Attack("memory shared by processes", "resources", "the host sees it hold four times the limit", '''
import mmap
held = []
for number in range(8):
    block = mmap.mmap(-1, 32 << 20)
    held.append(block)
    block.write(b"x" * (32 << 20))
hold()
tell(P["token"])
''', token_if_done, held_over(160 * MIB), sample=resident, options=("--memory", "64m"),
           statuses=("oom", "error", "killed")),
    Attack("page tables without pages", "resources", "three times the limit is held to the end", '''
import mmap
def fill():
    held = []
    for number in range(110):
        held.append(mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ))
        for at in range(0, 1 << 30, 2 << 20):
            held[-1][at]
    hold()
    tell(P["token"])
attempt(fill)
''', token_if_done, **HELD),
    Attack("shared memory that nobody maps", "resources", "four times the limit is held to the end", '''
import mmap
def of_no_file():
    return mmap.mmap(-1, 16 << 20)
def of_zeros():
    fd = os.open("/dev/zero", os.O_RDWR)
    return mmap.mmap(fd, 16 << 20)
def fill(make):
    held = []
    for number in range(16):
        held.append(make())
        held[-1].write(b"x" * (16 << 20))
        held[-1].madvise(mmap.MADV_DONTNEED)
    hold()
    tell(P["token"])
attempt(fill, of_zeros)
attempt(fill, of_no_file)
''', token_if_done, **HELD),
    Attack("mappings without end", "resources", "kernel memory of twice the limit is held to the end",
           MANY.replace("HOLD", '''
            libc.mmap.restype = ctypes.c_void_p
            libc.mmap.argtypes = [ctypes.c_size_t] * 4 + [ctypes.c_long] * 2
            for at in range(60000):
                libc.mmap(0, 4096, at % 2, 0x4022, -1, 0)
'''), token_if_done, **dict(HELD, options=("--memory", "32m", "--cpus", "2"))),
    Attack("memory of a process whose first thread has ended", "resources", "four times the limit is held to the end",
           MANY.replace("HOLD", '''
            import threading
            def take():
                time.sleep(0.2)  # so that the other thread has ended, likely; it does so in any case while this holds
                block = bytearray(40 << 20)
                block[::4096] = b"x" * len(block[::4096])
                os.write(there[1], b"x")
                time.sleep(P["long"])
            threading.Thread(target=take).start()
            call(60, 0)
'''), token_if_done, **HELD),
    Attack("buffers of sockets", "resources", "the host counts three times the limit in buffers of TCP and UDP", '''
held = []
def fill(kind, ways):
    listener = socket.socket(socket.AF_INET, kind)
    listener.bind(("127.0.0.1", 0))
    held.append(listener)
    if kind == socket.SOCK_STREAM:
        listener.listen(8)
    sent = 0
    for number in range(60):
        near = socket.create_connection(listener.getsockname()) if kind == socket.SOCK_STREAM else \
            socket.socket(socket.AF_INET, kind)
        far = listener.accept()[0] if kind == socket.SOCK_STREAM else near
        held.extend((near, far))
        for one, other in ((near, far), (far, near))[:ways]:
            one.setblocking(False)
            if kind == socket.SOCK_DGRAM:
                one.bind(("127.0.0.1", 0))
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            try:
                while sent < 320 << 20:
                    sent += one.send(b"x" * 65536) if kind == socket.SOCK_STREAM else \
                        one.sendto(b"x" * 1000, one.getsockname())
                    if kind == socket.SOCK_DGRAM and sent > (number + 1) * 6 << 20:
                        break
            except OSError:
                pass
attempt(fill, socket.SOCK_STREAM, 2)
attempt(fill, socket.SOCK_DGRAM, 1)
hold_briefly()
''', won=growth_over(200 * MIB), sample=socket_buffers, options=("--memory", "64m"),
           statuses=("ok", "oom", "error", "killed")),
    Attack("disk bomb", "resources", "four times the limit is written", '''
block = b"x" * (1 << 20)
total = 0
for number in range(32):
    def fill():
        global total
        with open("%s/fill-%d" % (P["folder"], number), "wb", buffering=0) as out:
            total += out.write(block)
    attempt(fill)
if total >= 32 << 20:
    tell(P["token"])
''', folder, options=("--workspace-size", "8m"), also=denied_by("workspace_size"), needs_own_disk=True),
    Attack("inode bomb", "resources", "four times as many files exist", '''
made = 0
for number in range(400):
    try:
        os.close(os.open("%s/i%d" % (P["folder"], number), os.O_CREAT | os.O_WRONLY))
        made += 1
    except OSError:
        pass
if made == 400:
    tell(P["token"])
''', folder, options=("--workspace-files", "100"), needs_own_disk=True, needs_file_count=True),
    Attack("one huge file", "resources", "a file of four times the limit", '''
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def grow():
    with open(P["folder"] + "/huge", "wb") as out:
        out.truncate(16 << 20)
attempt(grow)
if os.path.getsize(P["folder"] + "/huge") >= 16 << 20:
    tell(P["token"])
''', folder, options=("--file-size", "4m")),
    Attack("descriptors without end", "resources", "more are open than the limit", '''
fds = []
for number in range(P["number"]):
    try:
        fds.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        break
if len(fds) >= 128:
    tell(P["token"])
for fd in fds:
    os.close(fd)
''', lambda world: {"number": 200, "token": world.token}, options=("--open-files", "64")),
    Attack("yes", "resources", "more text comes out than may be shown", '''
import subprocess
subprocess.run(["/bin/sh", "-c", "yes | head -c 20000000"])
''', won=lambda world, out: len(out.text) > MIB, also=limited_by("output"), options=("--output", "10000")),
    Attack("one line without end", "resources", "more text comes out than may be shown", '''
block = b"z" * (1 << 20)
for number in range(P["blocks"]):
    os.write(1, block)
''', lambda world: {"blocks": 64 if world.inside else 8}, lambda world, out: len(out.text) > MIB,
           also=limited_by("output")),
    Attack("flood of both streams", "resources", "more text comes out than may be shown", '''
import threading
def flood(fd):
    for number in range(2000):
        os.write(fd, b"flood %d\\n" % number * 100)
threads = [threading.Thread(target=flood, args=(fd,)) for fd in (1, 2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
''', won=lambda world, out: len(out.text) > MIB, also=limited_by("output"), options=("--output", "10000")),
    Attack("busy loop", "resources", "it is still running", "while True: pass\n", **HANG),
    Attack("sleep without end", "resources", "it is still running", 'time.sleep(P["long"])\n', **HANG),
    Attack("loop that ignores interrupts", "resources", "it is still running", '''
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
''', **HANG),
    Attack("loop inside C code", "resources", "it is still running", "10 ** 10 ** 8\n", **HANG),
    Attack("stopped by itself", "resources", "it is still there", '''
import signal
if os.fork() == 0:
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(P["long"])
os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(P["long"])
''', **HANG),
    Attack("processor time of many", "resources",
           "more processor time than its share of the wall time, or two processors", '''
children = []
before = time.monotonic()
for seconds in P["burned"]:
    pid = os.fork()
    if pid == 0:
        end = time.process_time() + (seconds if P["inside"] else P["hold"])
        while time.process_time() < end and not os.path.exists(P["seen"]):
            pass
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
tell("wall", time.monotonic() - before)
''', lambda world: {"burned": BURNED}, is_over_its_share, sample=processors,
           options=("--cpus", "0.25")),
]
