# SPDX-License-Identifier: Apache-2.0
"""Helpers of the black box tests: a runtime of one's own, as root or as an unprivileged user.

    box = Sandbox("user")              # folders of its own; its daemon starts with the first call
    done = box.exec("6 * 7")           # the result, docs/result.md
    box.exec("x = 1", session="s", options=["--memory", "64m"])
    box.cli("sessions", "list")        # the program itself: CompletedProcess, text
    with box.client() as rpc:          # docs/wire.md by hand
        kind, head, raw, events = rpc.call("hello", version=1)
    box.close()

Only processes that were started here are ended, by their pid.
"""

import contextlib
import ctypes
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar, overload

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("SNP_BUILD", os.path.join(HERE, "..", "build")))
PYTHON = "/usr/bin/python3"
# Without an entry in /etc/passwd, so nothing else runs as it; another one for each worker of pytest,
# since some limits count all processes of a user.
USER_ID = 23456 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
PROGRAMS = ("snipara-sandbox", "snipara-sandboxd", "tier-native", "tier-local", "tier-docker", "mcp-http", "agent",
            "agent.json", "context", "visualize", "snp-init", "snp-files", "guest", "libsnipara-sandbox.so.0",
            "example-hello", "example-state", "example-loop", "library-probe")
HEADER = struct.Struct("<IIIB3x")
REQUEST, RESPONSE, ERROR, EVENT = 1, 2, 3, 4
Json = dict[str, Any]  # an object of JSON: heads of messages, results, rows
Events = list[tuple[Json, bytes]]
End = tuple[int, Json, bytes, Events]  # of a request: type, head, raw, events before it
T = TypeVar("T")


# What may be missing ------------------------------------------------------------------------


def must(what: str) -> bool:
    names = os.environ.get("SNP_TEST_MUST", "").split(",")
    return what in names or "all" in names


def need(what: str, present: bool, why: str) -> None:
    """Skip for the lack of something, or fail if this host is known to have it."""
    if present:
        return
    if must(what):
        pytest.fail(f"{what} must run here: {why}")
    pytest.skip(f"{what}: {why}")


# Deadline in seconds of an event that must happen. A right program takes a moment; the machine may be slow or
# busy, so tools/test scales it by the speed it measured. A cell ends by itself after its time limit, by default
# 30 s: a test that could take that for the event gives the cell a limit above PATIENCE.
PATIENCE = float(os.environ.get("SNP_TEST_PATIENCE", "60"))
# An alarm handler that raises, less and less often: a cell that is slower than the alarms succeeds in the end, too.
LATE = ("import signal\nalarms = 0\ndef late(*_):\n    global alarms\n    alarms += 1\n"
        "    if alarms % (1 + alarms // 1000) == 0:\n        raise TimeoutError\nsignal.signal(signal.SIGALRM, late)")


def ways(error: Json) -> list[str]:
    """What `recover` may be to deal with what a session lacks, as an error says."""
    return list((error.get("remedy") or {}).get("ways", []))


def changes(result: Json) -> Json:
    """The changed files of a result, without their hashes."""
    return {name: value for name, value in result["files"].items() if name != "hashes"}


def wait_for(check: Callable[[], Any], seconds: float = PATIENCE, step: float = 0.02) -> Any:
    """The first true answer of check(), or its last one when the time is over."""
    end = time.monotonic() + seconds
    while True:
        answer = check()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(step)


def settled(count: Callable[[], T], seconds: float = PATIENCE) -> T:
    """What count() says once it has said so for a second: nothing begins or ends any more."""
    end = time.monotonic() + seconds
    last, since = count(), time.monotonic()
    while time.monotonic() < min(since + 1, end):
        time.sleep(0.1)
        now = count()
        if now != last:
            last, since = now, time.monotonic()
    return last


def some(value: T | None) -> T:
    """What must be there: a pipe of a process, the daemon, its tier."""
    assert value is not None
    return value


def search(pattern: str, text: str, flags: int = 0) -> re.Match[str]:
    """Where a pattern is in a text; it must be there."""
    found = re.search(pattern, text, flags)
    assert found is not None, f"no {pattern} in {text}"
    return found


def host_mounts() -> list[str]:
    """Where something is mounted on the host; but for the small disks of other tests, which run beside."""
    with open("/proc/self/mountinfo") as table:
        points = [line.split()[4] for line in table]
    return sorted(point for point in points if not re.search(r"/(pytest-|snp-[^/]*/state$)", point))


# Processes ----------------------------------------------------------------------------------


def parents() -> dict[int, int]:
    """{pid: parent} of all processes that can be seen."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat:
                    found[int(name)] = int(stat.read().rpartition(")")[2].split()[1])
            except OSError:
                pass
    return found


def descendants(pid: int) -> set[int]:
    """All processes below pid, as numbers of this pid namespace."""
    by_parent: dict[int, list[int]] = {}
    for child, parent in parents().items():
        by_parent.setdefault(parent, []).append(child)
    found: set[int] = set()
    todo = [pid]
    while todo:
        children = by_parent.get(todo.pop(), [])
        found.update(children)
        todo.extend(children)
    return found


def is_alive(pid: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def start_time(pid: int) -> str | None:
    """When it began, in ticks since boot: tells a process from a later one of the same number."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except OSError:
        return None


def births(pids: Iterable[int]) -> dict[int, str | None]:
    """{pid: when it began}, for still_there()."""
    return {pid: start_time(pid) for pid in pids}


def still_there(born: Mapping[int, str | None]) -> set[int]:
    """Those of births() that live: neither gone, nor a zombie, nor a later process of the same number."""
    return {pid for pid, at in born.items() if is_alive(pid) and start_time(pid) == at}


def program_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as text:
            return os.path.basename(text.read().split(b"\0")[0].decode(errors="replace"))
    except OSError:
        return ""


# The client protocol ------------------------------------------------------------------------


SETRES = {"x86_64": (119, 117), "aarch64": (149, 147)}.get(os.uname().machine, ())  # setresgid, setresuid


@contextlib.contextmanager
def this_thread_as(uid: int | None) -> Iterator[None]:
    """Let the calling thread alone act as a user; os.seteuid() is of all threads."""
    if uid is None or uid == os.geteuid():
        yield
        return
    assert SETRES, "the numbers of setresgid and setresuid are not known here"
    call = ctypes.CDLL(None, use_errno=True).syscall
    for number in SETRES:
        assert call(number, -1, uid, -1) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        for number in reversed(SETRES):
            assert call(number, -1, 0, -1) == 0, os.strerror(ctypes.get_errno())


class Client:
    """One connection to a daemon, spoken by hand. uid: whose it is; a daemon talks to its own user only."""

    def __init__(self, path: str, uid: int | None = None, seconds: float = PATIENCE) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(seconds)
        with this_thread_as(uid):
            self.sock.connect(path)
        self.last = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def send(self, head: Json | bytes, raw: bytes = b"", kind: int = REQUEST, ident: int | None = None) -> int:
        self.last += 1
        ident = self.last if ident is None else ident
        text = head if isinstance(head, bytes) else json.dumps(head).encode()
        self.sock.sendall(HEADER.pack(len(text) + len(raw), ident, len(text), kind) + text + raw)
        return ident

    def take(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self.sock.recv(count - len(data))
            if not part:
                raise EOFError("the daemon closed the connection")
            data += part
        return bytes(data)

    def recv(self) -> tuple[int, int, Json, bytes]:
        body_len, ident, head_len, kind = HEADER.unpack(self.take(HEADER.size))
        body = self.take(body_len)
        return kind, ident, json.loads(body[:head_len] or b"{}"), body[head_len:]

    def end_of(self, ident: int) -> End:
        """(type, head, raw, events before it) of the end of a request; others are passed over."""
        events: Events = []
        while True:
            kind, at, head, raw = self.recv()
            if at == ident and kind == EVENT:
                events.append((head, raw))
            elif at == ident:
                return kind, head, raw, events

    def call(self, method: str, raw: bytes = b"", /, **members: Any) -> End:
        return self.end_of(self.send({"method": method, **members}, raw))


# The runtime --------------------------------------------------------------------------------


class CliError(AssertionError):
    """The program gave no result; .done is its CompletedProcess."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        super().__init__(f"{done.args}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        self.done = done


TIERS = "home/.local/share/snipara-sandbox/tiers"  # below a Sandbox's folder


class Sandbox:
    """The programs of SNP_BUILD with folders, a home and a daemon of their own.

    who: "root", or "user" for a user without privileges. env: more variables for the
    daemon and the command line. prefix: a program and arguments that run the daemon, to
    give it another host; it must execute it, not fork. tier: where cells run. A program that cannot be had as
    `who` skips the test.
    """

    def __init__(self, who: str = "root", env: Mapping[str, str] | None = None, prefix: Sequence[str] = (),
                 tier: str = "native") -> None:
        need("root", who != "root" or os.geteuid() == 0, "the tests do not run as root")
        self.who = who
        self.uid = USER_ID if who == "user" and os.geteuid() == 0 else os.geteuid()
        # Short, because a socket's path is; in no folder that others may not enter.
        self.folder = tempfile.mkdtemp(prefix="snp-", dir="/tmp")
        os.chmod(self.folder, 0o755)
        self.home = self.make_folder("home")
        self.runtime = self.make_folder("run", 0o700)
        self.state = self.make_folder("state", 0o700)
        self.bin = self._bin()
        self.socket = os.path.join(self.runtime, "sandboxd.sock")
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.home, "LANG": "C.UTF-8",
            "DOCKER_HOST": "unix:///nonexistent/docker.sock",  # an engine of this machine is not the tests'
            "SNIPARA_SANDBOX_RUNTIME_DIR": self.runtime, "SNIPARA_SANDBOX_STATE_DIR": self.state,
            **{name: value for name, value in os.environ.items()
               if name.endswith("SAN_OPTIONS") or name == "SNIPARA_SANDBOX_PYTHON"},
            **(env or {}),
        }
        self.prefix = list(prefix)
        self.tier = tier
        # given to every exec, e.g. ["--allow-degraded"]
        self.exec_options: list[str] = [] if tier == "native" else ["--env", tier]
        if tier == "example":  # it is no program of ours: it is found in the user's folder
            with open(os.path.join(HERE, "..", "examples", "tier-python", "tier-example")) as source:
                self.make_file(os.path.join(TIERS, "tier-example"), source.read(), 0o755)
        self.daemon: subprocess.Popen[bytes] | None = None

    def _bin(self) -> str:
        """The build folder, or a copy of the programs where the user may not read it."""
        test = ["test", "-x", os.path.join(BUILD, "snipara-sandboxd")]
        if subprocess.run(test, **self.identity()).returncode == 0:
            return BUILD
        folder = os.path.join(self.folder, "bin")
        os.mkdir(folder, 0o755)
        for name in PROGRAMS:
            source = os.path.join(BUILD, name)
            if os.path.isdir(source):
                shutil.copytree(source, os.path.join(folder, name))
            elif os.path.exists(source):
                shutil.copy(source, folder)
        return folder

    def identity(self) -> dict[str, Any]:
        """What makes subprocess start something as our user."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.uid, "extra_groups": []}

    def make_folder(self, name: str, mode: int = 0o755) -> str:
        """A folder below ours that belongs to our user; its path."""
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        os.chown(path, self.uid, self.uid if self.uid != os.geteuid() else os.getegid())
        return path

    def make_file(self, path: str, content: str | bytes = "", mode: int = 0o644) -> str:
        """A file of our user (path absolute, or below our folder); its path."""
        path = os.path.join(self.folder, path)
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            self.make_folder(parent)
        with open(path, "wb") as out:
            out.write(content.encode() if isinstance(content, str) else content)
        os.chmod(path, mode)
        os.chown(path, self.uid, self.uid if self.uid != os.geteuid() else os.getegid())
        return path

    # Daemon

    def start(self, *options: str, pass_fds: Collection[int] = ()) -> int:
        """Start the daemon if it does not run; its pid."""
        if self.daemon is not None and self.daemon.poll() is None:
            return self.daemon.pid
        read_end, write_end = os.pipe()
        with open(os.path.join(self.folder, "daemon.log"), "a") as log:
            self.daemon = subprocess.Popen(
                [*self.prefix, os.path.join(self.bin, "snipara-sandboxd"), "--foreground",
                 "--ready-fd", str(write_end), *options],
                env=self.env, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[write_end, *pass_fds], start_new_session=True, **self.identity())
        os.close(write_end)
        ready = os.read(read_end, 1)
        os.close(read_end)
        if ready != b"\1":
            try:
                self.daemon.wait(PATIENCE)
            except subprocess.TimeoutExpired:  # it runs, and could not say so
                self.daemon.kill()
                self.daemon.wait()
            raise RuntimeError("the daemon did not start:\n" + self.log())
        return self.daemon.pid

    def tier_pid(self) -> int | None:
        """The supervisor below the daemon; None if there is none yet."""
        for pid, parent in parents().items():
            if self.daemon is not None and parent == self.daemon.pid and program_of(pid) == "tier-" + self.tier:
                return pid
        return None

    def log(self) -> str:
        try:
            with open(os.path.join(self.folder, "daemon.log"), errors="replace") as text:
                return text.read()
        except FileNotFoundError:
            return ""

    def stop(self) -> int | None:
        """End the daemon and with it all sessions; its exit status."""
        if self.daemon is None:
            return None
        if self.daemon.poll() is None:
            self.daemon.terminate()
        try:
            status = self.daemon.wait(2 * PATIENCE)  # it saves what it has, ends its tier, and may kill that
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            status = self.daemon.wait()
        self.daemon = None
        return status

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Command line

    def popen(self, *args: object, env: Mapping[str, str] | None = None, **kwargs: Any) -> subprocess.Popen[Any]:
        """Start the program; the daemon is started first, so that it is ours to end."""
        self.start()
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        kwargs.setdefault("cwd", self.home)
        return subprocess.Popen(
            [os.path.join(self.bin, "snipara-sandbox"), *map(str, args)],
            env={**self.env, **(env or {})}, **self.identity(), **kwargs)

    @overload
    def cli(self, *args: object, input: str | None = None, timeout: float = 2 * PATIENCE,
            env: Mapping[str, str] | None = None,
            text: Literal[True] = True, **kwargs: Any) -> subprocess.CompletedProcess[str]: ...

    @overload
    def cli(self, *args: object, input: bytes | None = None, timeout: float = 2 * PATIENCE,
            env: Mapping[str, str] | None = None, text: Literal[False],
            **kwargs: Any) -> subprocess.CompletedProcess[bytes]: ...

    def cli(self, *args: object, input: str | bytes | None = None, timeout: float = 2 * PATIENCE,
            env: Mapping[str, str] | None = None, text: bool = True,
            **kwargs: Any) -> subprocess.CompletedProcess[Any]:
        """Run the program to its end: CompletedProcess."""
        if input is not None:
            kwargs["stdin"] = subprocess.PIPE
        if text:
            kwargs.setdefault("errors", "replace")
        with self.popen(*args, env=env, text=text, **kwargs) as process:
            try:
                out, errors = process.communicate(input, timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors)

    @staticmethod
    def exec_args(session: str | None = None, options: Sequence[str] = (), argv: Sequence[str] | None = None,
                  sh: str | None = None) -> list[str]:
        """Arguments of the program for a cell; code and shell lines go to its standard input."""
        args = ["exec", "--json", *options, *(["--session", session] if session else [])]
        if argv is not None:
            return [*args, "--", *argv]
        return [*args, "-"] if sh is None else [*args, "--sh", "-"]

    def exec(self, code: str | None = None, session: str | None = None, options: Sequence[str] = (),
             argv: Sequence[str] | None = None, sh: str | None = None, stdin: str | bytes | None = None,
             timeout: float = 2 * PATIENCE, env: Mapping[str, str] | None = None, **kwargs: Any) -> Json:
        """Run a cell: Python code, argv=[...] or sh="..."; its result. CliError if there is none.

        kwargs are those of subprocess, e.g. pass_fds.
        """
        if stdin is not None:
            path = self.make_file(f"stdin-{time.monotonic_ns()}", stdin)
            options = [*options, "--stdin", path]
        args = self.exec_args(session, [*self.exec_options, *options], argv, sh)
        done = self.cli(*args, input=code if sh is None else sh, timeout=timeout, env=env, **kwargs)
        try:
            result: Json = json.loads(done.stdout)
        except ValueError:
            raise CliError(done) from None
        if "status" not in result:  # {"error": ...}: there is none
            raise CliError(done)
        return result

    def client(self) -> Client:
        """A connection of our user; the daemon accepts no other."""
        self.start()
        return Client(self.socket, self.uid)

    def destroy(self, session: str) -> subprocess.CompletedProcess[str]:
        return self.cli("sessions", "destroy", session)

    # The same code without protection

    def outside(self, code: str, timeout: float = PATIENCE, env: Mapping[str, str] | None = None,
                cwd: str | None = None,
                argv: Sequence[str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run Python code (or argv) on the host as our user: CompletedProcess, text."""
        return subprocess.run(
            argv or [PYTHON, "-c", code], env={**self.env, **(env or {})}, cwd=cwd or self.home,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace", timeout=timeout, **self.identity())
