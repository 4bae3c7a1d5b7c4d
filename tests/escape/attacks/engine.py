# SPDX-License-Identifier: Apache-2.0
"""Attacks as data, and what runs them: first without the protection, then inside.

The judge is a canary that was planted: bytes that only the planted file holds, a listener
that hears, a process that dies. An attack that fails on the host as well proves nothing,
so the control run must succeed. Every attack carries its own bound.
"""

import contextlib
import json
import os
import secrets
import socket
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from collections.abc import Callable
from typing import Any

import lib

# What attack code can use. The mark becomes the name of its processes, for the host to see.
PREAMBLE = '''
import ctypes, fcntl, json, os, socket, struct, sys, termios, time
P = json.loads({planted!r})
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(15, P["mark"].encode(), 0, 0, 0)

def call(number, *args):
    """A system call by its number; -1 with ctypes.get_errno(), as in C."""
    libc.syscall.restype = ctypes.c_long
    return libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in (number, *args)])

def tell(*what):
    os.write(1, (" ".join(str(w) for w in what) + "\\n").encode(errors="surrogateescape"))

def hold(seconds=P["hold"], goes_on=lambda: True):
    """Keep what there is until the tester has seen it; inside it tells nobody, so as long as a limit may take."""
    end = time.monotonic() + seconds
    while goes_on() and time.monotonic() < end and not os.path.exists(P["seen"]):
        time.sleep(0.02)

def hold_briefly():
    """Inside only a moment, for a limit that refuses ends nothing."""
    hold(0.3 if P["inside"] else P["hold"])

def attempt(function, *args, **named):
    try:
        return function(*args, **named)
    except Exception as reason:
        tell("failed:", type(reason).__name__, reason)

def show(path):
    with open(path, "rb", buffering=0) as file:
        tell(path, file.read(1 << 20))

def show_below(top):
    for folder, _, names in os.walk(top):
        for name in names:
            attempt(show, os.path.join(folder, name))

tell("began")
if P["inside"]:  # what an attack kills may be what carries its output: first let that read it
    end = time.monotonic() + P["patience"]
    while struct.unpack("i", fcntl.ioctl(1, termios.FIONREAD, b"0000"))[0] > 0 and time.monotonic() < end:
        time.sleep(0.001)
'''

ROOT_ONLY = "control: not possible here: only root may do this on the host"
TRIES = 3  # of a run that said nothing


class World:
    """What was planted for one run: a folder of the user, a token nobody else knows, canaries."""

    def __init__(self, box: lib.Sandbox, inside: bool) -> None:
        self.box = box
        self.inside = inside  # False: this is the control run
        self.is_shared = False  # the interpreter has run attacks before, and will run more
        self.token = "token-" + secrets.token_hex(16)
        self.mark = "m" + secrets.token_hex(6)
        self.folder = tempfile.mkdtemp(prefix="w", dir=box.folder)
        os.chmod(self.folder, 0o755)
        self.own(self.folder)
        self.state: dict[str, Any] = {}  # of the attack's own functions
        self.cleanups: list[Callable[[], object]] = []  # the last is the first to be called
        self.exec_args: dict[str, Any] = {"options": []}
        self.popen_args: dict[str, Any] = {}

    def own(self, path: str) -> None:
        os.chown(path, self.box.uid, self.box.uid, follow_symlinks=False)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def plant_file(self, name: str, content: str | None = None, mode: int = 0o644) -> str:
        """A file of the user, below our folder or at an absolute path; holds the token if nothing else."""
        path = self.path(name)
        existed = os.path.exists(path)
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            os.makedirs(parent)
            self.own(parent)
        with open(path, "w") as out:
            out.write(self.token + "\n" if content is None else content)
        os.chmod(path, mode)
        self.own(path)
        if not existed:
            self.remove_later(path)
        return path

    def remove_later(self, path: str) -> None:
        """Also if the attack has done so, or has not made it."""
        def remove() -> None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

        self.cleanups.append(remove)

    def plant_process(self, *argv: str, **kwargs: Any) -> subprocess.Popen[bytes]:
        """A process of the user's on the host."""
        process = subprocess.Popen(argv or ("sleep", "600"), stdin=subprocess.DEVNULL,
                                   **{**self.box.identity(), **kwargs})
        self.cleanups += [process.wait, process.kill]
        return process

    def plant_listener(self, family: int, kind: int, address: Any) -> Any:
        """Something that hears; self.heard() is all it heard. Its address."""
        sock = socket.socket(family, kind)
        sock.bind(address)
        if kind != socket.SOCK_DGRAM:
            sock.listen(8)
        sock.settimeout(0.05)
        heard = self.state.setdefault("heard", [])
        over = threading.Event()

        def listen() -> None:
            while not over.is_set():
                try:
                    if kind == socket.SOCK_DGRAM:
                        heard.append(sock.recv(4096))
                    else:
                        peer, _ = sock.accept()
                        with peer:
                            peer.settimeout(lib.PATIENCE)
                            heard.append(b"connected " + peer.recv(4096))
                except OSError:
                    pass

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        self.cleanups += [sock.close, thread.join, over.set]
        return sock.getsockname()

    def heard(self) -> bytes:
        lib.wait_for(lambda: bool(self.state["heard"]), 0.15 if self.inside else lib.PATIENCE)
        return b"".join(self.state["heard"])

    def marked(self) -> list[int]:
        """Processes of the attack, as the host sees them."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/comm") as comm:
                        if comm.read().strip() == self.mark and lib.is_alive(int(name)):
                            found.append(int(name))
                except OSError:
                    pass
        return found

    def close(self) -> None:
        for cleanup in reversed(self.cleanups):
            cleanup()
        for pid in [] if self.is_shared else self.marked():
            os.kill(pid, 9)


@dataclass
class Outcome:
    """What one run left: text is everything it said, result the sandbox's."""

    text: str
    result: lib.Json | None = None
    timed_out: bool = False
    samples: list[float] = field(default_factory=list)  # the first is from before the run

    def peak(self) -> float:
        return max(self.samples, default=0)


def tier_of(box: lib.Sandbox) -> int:
    """The supervisor, which must run."""
    pid = box.tier_pid()
    assert pid is not None
    return pid


def told_token(world: World, outcome: Outcome) -> bool:
    return world.token in outcome.text


def heard_token(world: World, outcome: Outcome) -> bool:
    return world.token.encode() in world.heard()


def nothing(_world: World) -> lib.Json:
    return {}


def token_if_done(world: World) -> lib.Json:
    """For attacks whose success is a number or a state: the code says the token when it has it."""
    return {"token": world.token}


@dataclass(frozen=True)
class Attack:
    name: str
    control: str  # network, resources, filesystem, syscalls, disposable
    canary: str  # what tells, for people
    code: str
    plant: Callable[[World], lib.Json] = nothing  # what the code may know (P)
    won: Callable[[World, Outcome], bool] = told_token  # did the attack succeed
    wrap: tuple[str, ...] = ()  # in front of python on the host, e.g. namespaces that make it harmless
    no_control: dict[str, str] = field(default_factory=dict)  # {"user": reason}
    options: tuple[str, ...] = ()  # of exec
    statuses: tuple[str, ...] = ("ok", "error")  # how the cell may end
    # Taken all the time while the code runs. Outside the code may hold() what it has until `won` by the samples alone.
    sample: Callable[[World], float] | None = None
    also: Callable[[World, Outcome], None] | None = None  # further assertions on the outcome inside
    outside_seconds: float = lib.PATIENCE
    # Limits of the time inside; the next where the machine was too slow for the code to begin in the one before.
    timeouts: tuple[str, ...] = ("600",)
    docker_timeouts: tuple[str, ...] = ()  # others there; then a time limit is a right end
    # Held only by a memory cgroup. Where there is none the manifest must say "approximate",
    # and a success is what SECURITY.md calls the price of that.
    needs_memory_cgroup: bool = False
    # Held only by a file system of the sandbox's own; likewise "disk: ...".
    needs_own_disk: bool = False
    # Held only where files can be counted; likewise "workspace: ...".
    needs_file_count: bool = False
    # Did it succeed where it speaks to a kernel of the sandbox's own (gVisor's, so the manifest says)? What it does to
    # its own processes there is done to nobody else. None: as `won` says.
    won_in_own_kernel: Callable[[World, Outcome], bool] | None = None


def is_admitted(attack: Attack, result: lib.Json) -> bool:
    said = {text.split(":")[0] for text in result["manifest"]["degraded"]}
    return any((attack.needs_memory_cgroup and "memory" in said, attack.needs_own_disk and "disk" in said,
                attack.needs_file_count and "workspace" in said))


def has_won(attack: Attack, world: World, outcome: Outcome, result: lib.Json) -> bool:
    has_own_kernel = "gVisor's kernel" in str(result["manifest"]["controls"]["syscalls"].get("seccomp"))
    won = (has_own_kernel and attack.won_in_own_kernel) or attack.won
    return won(world, outcome) and not is_admitted(attack, result)


def in_text(word: str) -> Callable[[World, Outcome], bool]:
    return lambda _world, outcome: word in outcome.text


def never(_world: World, _outcome: Outcome) -> bool:
    return False


class Sampler:
    def __init__(self, world: World, attack: Attack) -> None:
        self.samples: list[float] = []
        self.over = threading.Event()
        self.world, self.attack = world, attack
        self.thread = threading.Thread(target=self.run, daemon=True) if attack.sample else None

    def take(self) -> None:
        self.samples.append(lib.some(self.attack.sample)(self.world))

    def run(self) -> None:
        while True:
            self.take()
            if not self.world.inside and self.attack.won(self.world, Outcome("", samples=self.samples)):
                open(seen(self.world), "w").close()
            if self.over.wait(0.02):
                return

    def __enter__(self) -> list[float]:
        if self.thread:
            self.take()
            self.thread.start()
        return self.samples

    def __exit__(self, *_: object) -> None:
        self.over.set()
        if self.thread:
            self.thread.join()


def seen(world: World) -> str:
    """The file that tells the code outside that it has succeeded."""
    return world.path("seen")


# In the local tier the session's folders are among the host's, under other names.
AT_HOME = '''
def at_home(value):
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in list(items):
            value[key] = at_home(item)
        return value
    return {"/workspace": os.getcwd(), "/tmp": os.environ["TMPDIR"]}.get(value, value)

P = at_home(P)
'''


def code_for(attack: Attack, world: World) -> str:
    planted = {**attack.plant(world), "mark": world.mark, "inside": world.inside, "seen": seen(world),
               "hold": lib.PATIENCE if world.inside or attack.sample else 0, "patience": lib.PATIENCE,
               "long": 10 * lib.PATIENCE}  # of what must not end by itself
    preamble = PREAMBLE.format(planted=json.dumps(planted))
    if not world.inside or world.box.tier != "local":
        return preamble + attack.code
    code = attack.code.replace('"/workspace"', 'at_home("/workspace")').replace('"/tmp"', 'at_home("/tmp")')
    return preamble + AT_HOME + code


def run_outside(attack: Attack, world: World) -> Outcome:
    code = code_for(attack, world)
    argv = [*attack.wrap, lib.PYTHON, "-c", code]
    with Sampler(world, attack) as samples:
        kwargs = {**world.box.identity(), **world.popen_args}
        process = subprocess.Popen(
            argv, env={**world.box.env, **world.state.get("env", {})},
            cwd=world.state.get("cwd", world.folder), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, **kwargs)
        timed_out = False
        try:
            text, _ = process.communicate(timeout=attack.outside_seconds)
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, 9)
            text, _ = process.communicate()
    return Outcome(text.decode(errors="replace"), None, timed_out, samples)


def run_inside(attack: Attack, world: World) -> Outcome:
    code = code_for(attack, world)
    options = [*world.exec_args.pop("options"), *attack.options]
    with Sampler(world, attack) as samples:
        # Again where it could not even say "began": in too short a time, or because it ended its own container, which
        # may take what it said along.
        docker_timeouts = attack.docker_timeouts if world.box.tier == "docker" else ()
        for seconds in (docker_timeouts or attack.timeouts) * TRIES:
            result = world.box.exec(code, options=[*options, "--timeout", seconds], env=world.state.get("env"),
                                    timeout=4 * lib.PATIENCE, **world.exec_args)
            if result["stdout"].startswith("began\n"):
                break
    return Outcome(json.dumps(result), result, result["status"] == "timeout", samples)


def try_outside(attack: Attack, box: lib.Sandbox) -> None:
    if box.who in attack.no_control:
        assert attack.no_control[box.who].startswith("control: not possible here: ")
        return
    world = World(box, inside=False)
    try:
        outcome = run_outside(attack, world)
        assert attack.won(world, outcome), \
            f"the control run did not succeed ({attack.canary}):\n{outcome.text[-2000:]}"
    finally:
        world.close()


def try_inside(attack: Attack, box: lib.Sandbox, session: str | None = None) -> None:
    world = World(box, inside=True)
    if session is not None:
        world.exec_args["session"] = session
        world.is_shared = True
    try:
        outcome = run_inside(attack, world)
        result = outcome.result
        assert result is not None
        said = json.dumps({k: result[k] for k in ("status", "stdout", "stderr", "error")})[-3000:]
        assert result["stdout"].startswith("began\n"), f"it did not run: {said}"
        assert not has_won(attack, world, outcome, result), f"ESCAPED ({attack.canary}): {said}"
        statuses = attack.statuses + (("limit",) if attack.needs_own_disk and box.tier == "local" else ()) + (
            ("timeout",) if attack.docker_timeouts and box.tier == "docker" else ())
        assert result["status"] in statuses, f"unexpected end: {said}"
        if attack.also:
            attack.also(world, outcome)
        if not world.exec_args.get("session"):
            assert lib.wait_for(lambda: not world.marked()), "processes of the attack are left"
    finally:
        world.close()
