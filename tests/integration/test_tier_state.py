# SPDX-License-Identifier: Apache-2.0
"""The tier's methods save and load, over its own protocol: bundles written, read, and attacked."""

import array
import json
import os
import secrets
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

import engine as engines
import lib

HEADER = struct.Struct("<IIIB3x")
ITEM, DATA, END = 80, 81, 82


class TierError(Exception):
    pass


class Tier:
    """A tier program, and the daemon's side of its protocol."""

    def __init__(self, name: str, env: Mapping[str, str]) -> None:
        self.state = tempfile.TemporaryDirectory(prefix="snp-tier-")
        os.chmod(self.state.name, 0o700)
        mine, theirs = socket.socketpair()
        os.set_inheritable(theirs.fileno(), True)
        fd = theirs.fileno()
        self.process = subprocess.Popen(
            [os.path.join(lib.BUILD, f"tier-{name}"), "--state", self.state.name], pass_fds=[3],
            preexec_fn=lambda: os.dup2(fd, 3), env={**os.environ, **env, "SNIPARA_SANDBOX_POOL": "0"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        theirs.close()
        self.socket = mine
        self.count = 0
        self.answers: dict[int | str, Any] = {}
        self.lock = threading.Lock()

    def close(self) -> None:
        self.socket.close()
        try:
            self.process.wait(lib.PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.state.cleanup()

    def send(self, method: str, raw: bytes = b"", fd: int | None = None, **members: Any) -> int:
        self.count += 1
        text = json.dumps(dict(members, method=method)).encode()
        start = HEADER.pack(len(text) + len(raw), self.count, len(text), 1)
        if fd is None:
            self.socket.sendall(start)
        else:
            self.socket.sendmsg([start], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        self.socket.sendall(text + raw)
        return self.count

    def take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise EOFError("the tier has ended")
            data += chunk
        return data

    def answer(self, ident: int, timeout: float = 2 * lib.PATIENCE) -> Any:
        self.socket.settimeout(timeout)
        while ident not in self.answers:
            body_len, which, head_len, kind = HEADER.unpack(self.take(HEADER.size))
            body = self.take(body_len)
            if kind in (2, 3):
                self.answers[which] = kind, json.loads(body[:head_len] or b"{}")
            elif which == 0:
                self.answers["gone"] = json.loads(body[:head_len])
        kind, head = self.answers.pop(ident)
        if kind == 3:
            raise TierError(head["message"])
        return head

    def call(self, method: str, raw: bytes = b"", fd: int | None = None, **members: Any) -> Any:
        return self.answer(self.send(method, raw, fd, **members))

    def open(self, **members: Any) -> "Session":
        session = secrets.token_hex(16)
        self.call("open", session=session, template="base", limits=members.pop("limits", {}), env={}, lasting=True,
                  **members)
        return Session(self, session)


class Session:
    def __init__(self, tier: Tier, ident: str) -> None:
        self.tier = tier
        self.id = ident
        self.cell = 0

    def start(self, code: str, wall_ms: int = 600_000, **members: Any) -> int:
        self.cell += 1
        source = code.encode()
        return self.tier.send("exec", source, session=self.id, cell=self.cell, kind="python", code_len=len(source),
                              stdin=False, wall_ms=wall_ms, stream=False, **members)

    def run(self, code: str, **members: Any) -> Any:
        return self.tier.answer(self.start(code, **members))

    def ok(self, code: str) -> Any:
        result = self.run(code)
        assert result["status"] == "ok", result
        return result["value"]

    def save_start(self, known: Sequence[str] = (), branch: int | None = None, **members: Any) -> tuple[Any, int]:
        read, write = os.pipe()
        ident = self.tier.send("save", "\n".join(known).encode(), write, session=self.id, branch=branch, **members)
        os.close(write)
        return ident, read

    def save(self, known: Sequence[str] = (), branch: int | None = None, **members: Any) -> "Parts":
        ident, read = self.save_start(known, branch, **members)
        reader = Reader(read)
        try:
            answer = self.tier.answer(ident)
        finally:
            data = reader.end()
        assert set(answer) == {"us"}
        return Parts(data)

    def load(self, data: bytes, **members: Any) -> Any:
        read, write = os.pipe()
        ident = self.tier.send("load", b"", read, session=self.id, **members)
        os.close(read)

        def feed() -> None:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(write, view) :]
            except BrokenPipeError:
                pass
            os.close(write)

        writer = threading.Thread(target=feed)
        writer.start()
        try:
            return self.tier.answer(ident)
        finally:
            writer.join(2 * lib.PATIENCE)
            assert not writer.is_alive()

    def names(self) -> list[Any]:
        return [entry["name"] for entry in self.tier.call("ls", session=self.id, path=".")["entries"]]

    def close(self) -> None:
        self.tier.call("close", session=self.id)


class Reader:
    """Reads a pipe to its end."""

    def __init__(self, fd: int) -> None:
        self.data = bytearray()
        self.thread = threading.Thread(target=self.run, args=(fd,))
        self.thread.start()

    def run(self, fd: int) -> None:
        while True:
            chunk = os.read(fd, 1 << 20)
            if not chunk:
                break
            self.data.extend(chunk)
        os.close(fd)

    def end(self) -> bytes:
        self.thread.join(2 * lib.PATIENCE)
        assert not self.thread.is_alive(), "the stream has no end"
        return bytes(self.data)


class Parts:
    """Both parts of a bundle."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.items: dict[str, list[lib.Json]] = {"vars": [], "files": []}
        self.ends: list[str] = []
        self.to_load = b""  # the files first, as a sandbox reads them
        at, begin, items = 0, 0, []
        while at < len(data):
            body_len, _, head_len, kind = HEADER.unpack_from(data, at)
            at += HEADER.size
            assert kind in (ITEM, DATA, END), "torn"
            head = json.loads(data[at : at + head_len] or b"{}")
            at += body_len
            if kind == ITEM:
                items.append(head)
            elif kind == END:
                assert head["items"] == len(items)
                self.items[head["part"]] = items
                self.ends.append(head["part"])
                self.to_load = data[begin:at] + self.to_load
                begin, items = at, []
        assert self.ends == ["vars", "files"], "torn"

    def names(self) -> set[Any]:
        return {name for item in self.items["vars"] for name in item["meta"].get("names", ())}

    def files(self) -> set[Any]:
        return {item["name"] for item in self.items["files"] if item["kind"] == "file"}

    def lost(self) -> lib.Json:
        return {item["name"]: item["meta"]["reason"] for item in self.items["vars"] if item["kind"] == "lost"}

    def keys(self) -> list[Any]:
        return [item["key"] for part in self.items.values() for item in part if item["key"]]


# Of containers: what streams have to carry. Who attacks the bundle meets the same code in each tier.
IN_CONTAINERS = ("test_a_session_moves_to_another_sandbox", "test_unchanged_things_are_not_written_again",
                 "test_a_save_is_of_the_moment_before_a_running_cell")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "tier" in metafunc.fixturenames:
        more = ["docker"] if metafunc.function.__name__ in IN_CONTAINERS else []
        metafunc.parametrize("tier", ["native", "local", *more], indirect=True, scope="module")


@pytest.fixture(scope="module")
def tier(request: pytest.FixtureRequest) -> Iterator[Tier]:
    lib.need("root", os.getuid() == 0, "the tier is started without a daemon")
    made = Tier(request.param, engines.env_for(request, request.param))
    try:
        first = made.open()
        first.close()
    except TierError as error:
        made.close()
        lib.need(request.param, False, str(error))
    yield made
    made.close()


@pytest.fixture
def session(tier: Tier) -> Iterator[Session]:
    made = tier.open()
    yield made
    try:
        made.close()
    except TierError:
        pass  # it has ended by itself, as the test wanted


def count_fds(tier: Tier) -> int:
    return len(os.listdir(f"/proc/{tier.process.pid}/fd"))


def test_a_session_moves_to_another_sandbox(tier: Tier, session: Session) -> None:
    session.ok("x = [1, 2]; y = {'x': x}\ndef f(): return k\nk = 5\nclass C:\n    def m(self): return f()\nc = C()\n"
               "open('data.txt', 'w').write('hello'); import os; os.mkdir('sub'); open('sub/b', 'w').write('b')\n"
               "fh = open('data.txt'); fh.read(2)")
    parts = session.save()
    assert {"x", "y", "f", "k", "C", "c", "fh"} <= parts.names() and {"data.txt", "sub/b"} <= parts.files()
    other = tier.open()
    answer = other.load(parts.to_load)
    assert answer["failed"] == []
    other.ok("assert y['x'] is x and c.m() == 5\nk = 6\n"
             "assert f() == 6 and fh.read() == 'llo' and open('sub/b').read() == 'b'\n"
             "import os; assert os.path.exists('data.txt')")
    assert session.ok("x") == "[1, 2]"  # the first goes on
    other.close()


def test_unchanged_things_are_not_written_again(session: Session) -> None:
    session.ok("big = bytes(3 << 20); open('f', 'wb').write(bytes(2 << 20)); n = 1")
    first = session.save()
    second = session.save(known=first.keys())
    assert len(second.data) < 20000 and second.keys() == first.keys()
    session.ok("n = 2")
    third = session.save(known=first.keys())
    assert [i["name"] for i in third.items["vars"] if not i["same"] and i["kind"] == "vars"] == ["n"]


def test_saving_before_the_first_cell(tier: Tier, session: Session) -> None:
    parts = session.save()
    assert parts.names() == set() and parts.files() == set()
    other = tier.open()
    assert other.load(parts.to_load)["failed"] == []
    other.ok("x = 1")
    other.close()


def test_a_save_is_of_the_moment_before_a_running_cell(session: Session) -> None:
    session.ok("x = 1; open('f', 'w').write('before')")
    ident = session.start("import os, time\nx = 2; open('f', 'w').write('after'); open('g', 'w').write('')\n"
                          "while not os.path.exists('go'): time.sleep(0.02)")
    assert lib.wait_for(lambda: "g" in session.names())
    parts = session.save()
    assert parts.files() == {"f"}
    session.tier.call("put", b"", session=session.id, path="go", offset=0, truncate=True, mode=0o644)
    assert session.tier.answer(ident)["status"] == "ok"
    assert session.save().keys() != parts.keys()
    assert b"before" in parts.data and b"after" not in parts.data


def test_a_snapshot_is_saved_while_cells_go_on(session: Session) -> None:
    session.ok("x = 'of the snapshot'")
    branch = session.tier.call("snapshot", session=session.id)["branch"]
    session.ok("x = 'later'")
    parts = session.save(branch=branch)
    assert b"of the snapshot" in parts.data and b"later" not in parts.data
    session.tier.call("drop", session=session.id, branch=branch)
    with pytest.raises(TierError, match="no snapshot"):
        session.save(branch=branch)


def test_beside_threads_it_is_the_interpreter_that_forks(tier: Tier, session: Session) -> None:
    session.ok("import threading\nstop = threading.Event()\nt = threading.Thread(target=stop.wait, daemon=True); "
               "t.start()\nx = 1")
    parts = session.save()
    assert "x" in parts.names() and "t" in parts.lost()
    session.ok("assert t.is_alive() and x == 1; stop.set(); t.join()")
    parts = session.save()
    assert "t" in parts.lost()


def test_a_cell_waits_for_a_save_beside_threads(session: Session) -> None:
    session.ok("import threading, time\nt = threading.Thread(target=time.sleep, args=(600,), daemon=True); t.start()\n"
               "class Slow:\n    def __reduce__(self):\n        time.sleep(1)\n        return (int, ())\ns = Slow()\n"
               "open('f', 'w').write('one')")
    ident, read = session.save_start()
    reader = Reader(read)
    cell = session.start("open('f', 'w').write('two'); open('new', 'w').write('')")
    session.tier.answer(ident)
    assert session.tier.answer(cell)["status"] == "ok"
    parts = Parts(reader.end())
    assert parts.files() == {"f"} and b"two" not in parts.data


def test_busy_and_wrong_requests(tier: Tier, session: Session) -> None:
    with pytest.raises(TierError, match="descriptor is missing"):
        tier.call("save", session=session.id)
    with pytest.raises(TierError, match="takes no descriptor"):
        tier.call("memory", fd=0, session=session.id)
    with pytest.raises(TierError, match="no snapshot 77"):
        session.save(branch=77)
    with pytest.raises(TierError, match="must be a number"):
        session.save(branch=-5)
    with open("/dev/null", "wb") as file, pytest.raises(TierError, match="not a pipe"):
        tier.call("save", fd=file.fileno(), session=session.id)
    session.ok("1")
    with pytest.raises(TierError, match="has run nothing yet"):
        session.load(b"")


def test_epochs(tier: Tier) -> None:
    session = tier.open(epoch=4)
    with pytest.raises(TierError, match="epoch 4, not 3"):
        session.save(epoch=3)
    parts = session.save(epoch=4)
    other = tier.open(epoch=9)
    with pytest.raises(TierError, match="epoch 9, not 4"):
        other.load(parts.to_load, epoch=4)
    assert other.load(parts.to_load, epoch=9)["failed"] == []
    other.close()
    session.close()


def test_what_cannot_be_restored_is_told(tier: Tier, session: Session) -> None:
    session.ok("import os\nclass Bad:\n    def __setstate__(self, s): raise ValueError('no')\n"
               "    def __getstate__(self): return 1\nbad = Bad(); x = 1")
    parts = session.save()
    other = tier.open()
    assert other.load(parts.to_load)["failed"] == [{"name": "bad", "reason": "ValueError: no"}]
    other.ok("assert x == 1 and Bad")
    other.close()


def test_a_killed_cell_goes_back_to_what_was_loaded(tier: Tier, session: Session) -> None:
    session.ok("x = [1]; open('f', 'w').write('one')")
    parts = session.save()
    other = tier.open(transaction=True)
    other.load(parts.to_load)
    result = other.run("x.append(2); open('f', 'w').write('two')\nwhile True: pass",
                       wall_ms=int(1000 * lib.PATIENCE / 30), transaction=True)
    assert result["state"] in ("rolled_back", "kept")
    if result["state"] == "rolled_back":
        other.ok("assert x == [1] and open('f').read() == 'one'")
    else:
        other.ok("assert x == [1, 2]")
    result = other.run("import os; x.append(3); os.kill(os.getpid(), 9)", transaction=True)
    assert result["state"] == "rolled_back", result
    other.ok("assert 3 not in x")
    other.close()


# Attacks: the saver is the session's code ---------------------------------------------------------

# (name, what __reduce__ does in the saver, what the error says; None: the save goes well all the same)
ATTACKS = [
    ("ends early", "os._exit(0)", "has ended"),
    ("dies", "__import__('ctypes').string_at(0)", "has ended"),
    ("closes the stream", "[os.close(f) for f in range(3, 300) if closes(f)]; os._exit(0)", "has ended"),
    # Without the alarm that ends a variable whose saving takes too long, as on a slow machine.
    ("writes without end", "import signal; signal.setitimer(signal.ITIMER_REAL, 0); w = pipe()\n"
     "        while True: os.write(w, bytes(1 << 16))",
     "larger than the session's memory"),
    ("forges its answer",
     "s = stream(); os.write(s, struct.pack('<IIIB3x', 20, 1, 20, 37) + b'{\"ok\":true,\"error\":1}'); "
     "__import__('time').sleep(1000)", "broke the protocol"),
    ("floods its stream", "s = stream()\n        while True: os.write(s, b'x' * 65536)", "protocol|has ended"),
    ("a huge frame",
     "s = stream(); os.write(s, struct.pack('<IIIB3x', 1 << 30, 1, 0, 37)); __import__('time').sleep(1000)",
     "has ended"),
]
SILENT = [
    ("never ends",
     "import signal; signal.setitimer(signal.ITIMER_REAL, 0)\n        for n in range(1, 65):\n"
     "            try: signal.signal(n, signal.SIG_IGN)\n"
     "            except (OSError, ValueError): pass\n        while True: pass", "nothing was written for 18 s"),
    ("sleeps", "import signal; signal.setitimer(signal.ITIMER_REAL, 0); __import__('time').sleep(1000)",
     "nothing was written for 18 s"),
]
HELPERS = """
import os, struct, stat
def closes(f):
    try: os.fstat(f)
    except OSError: return False
    return True
def kinds(test):
    return [f for f in range(3, 400) if closes(f) and test(os.fstat(f).st_mode)]
def pipe():
    return [f for f in kinds(stat.S_ISFIFO) if os.readlink(f'/proc/self/fd/{f}') not in outputs][-1]
def stream(): return kinds(stat.S_ISSOCK)[-1]
outputs = [os.readlink(f'/proc/self/fd/{f}') for f in (1, 2)]
saved = os.getpid()
"""


class Attack:
    """A session with a variable that does something while it is saved."""

    def __init__(self, tier: Tier, name: str, body: str, message: str) -> None:
        self.tier, self.message = tier, message
        self.session = tier.open(limits={"memory_bytes": 96 << 20} if name == "writes without end" else {})
        self.session.ok(HELPERS + f"class Bad:\n    def __reduce__(self):\n        {body}\n        return (int, ())\n"
                                  f"bad = Bad(); x = [1]")
        self.ident, read = self.session.save_start()
        self.reader = Reader(read)

    def end(self) -> None:
        with pytest.raises(TierError, match=self.message):
            self.tier.answer(self.ident)
        with pytest.raises(AssertionError, match="torn"):
            Parts(self.reader.end())
        self.session.ok("assert x == [1] and os.getpid() == saved; del bad")
        assert "x" in self.session.save().names(), "the session can be saved again"
        self.session.close()


@pytest.mark.parametrize("name, body, message", ATTACKS, ids=[row[0] for row in ATTACKS])
def test_a_hostile_saver_is_bounded_and_the_session_unharmed(tier: Tier, name: str, body: str, message: str) -> None:
    fds = count_fds(tier)
    Attack(tier, name, body, message).end()
    assert lib.wait_for(lambda: count_fds(tier) <= fds), "descriptors are left"


@pytest.mark.slow
def test_savers_that_say_nothing_are_ended(tier: Tier) -> None:
    fds = count_fds(tier)
    for attack in [Attack(tier, *row) for row in SILENT]:  # at once, because it takes 18 s
        attack.end()
    assert lib.wait_for(lambda: count_fds(tier) <= fds), "descriptors are left"


def test_a_grandchild_of_the_saver_holds_nothing_up(tier: Tier, session: Session) -> None:
    session.ok(HELPERS + "class Bad:\n    def __reduce__(self):\n        if os.fork() == 0:\n            os.setsid()\n"
                         "            __import__('time').sleep(5000)\n            os._exit(0)\n"
               "        return (int, ())\nbad = Bad(); x = 1")
    parts = session.save()
    assert "x" in parts.names()


def test_savers_do_not_stay(tier: Tier, session: Session) -> None:
    session.ok("x = 1")
    session.save()
    before = lib.settled(lambda: len(lib.descendants(tier.process.pid)))
    for _ in range(5):
        session.save()
    assert lib.wait_for(lambda: len(lib.descendants(tier.process.pid)) <= before)


def test_torn_bundles_end_the_load_and_nothing_else(tier: Tier, session: Session) -> None:
    session.ok("x = 1; open('f', 'wb').write(bytes(100000))")
    parts = session.save()
    for cut in (0, 30, 2000, len(parts.to_load) - 5):
        other = tier.open()
        with pytest.raises(TierError):
            other.load(parts.to_load[:cut])
        try:
            other.close()
        except TierError as error:
            assert "no session" in str(error)
    session.ok("assert x == 1")


def test_a_session_that_ends_meanwhile_answers(tier: Tier) -> None:
    session = tier.open()
    session.ok("import time\nclass Slow:\n    def __reduce__(self):\n        open('saving', 'w').close()\n"
               "        time.sleep(600)\n        return (int, ())\ns = Slow()")
    ident, read = session.save_start()
    reader = Reader(read)
    assert lib.wait_for(lambda: "saving" in session.names())
    session.close()
    with pytest.raises(TierError, match="ended"):
        tier.answer(ident)
    reader.end()
