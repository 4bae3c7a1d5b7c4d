# SPDX-License-Identifier: Apache-2.0
"""Images of sessions, forked and at rest: all of their memory is there, or it is said why not and pickles are used."""

import contextlib
import glob
import itertools
import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import pytest

from lib import PATIENCE, Sandbox, wait_for

WHOLE = """
import collections, contextlib, csv, decimal, io, itertools, random, re, sqlite3, sys, threading, zlib
def counter():
    n = 0
    def count():
        nonlocal n
        n += 1
        return n
    return count
count = counter(); count(); count()
squares = (n * n for n in range(99)); next(squares); next(squares)
def talk():
    heard = []
    while True:
        heard.append((yield list(heard)))
talking = talk(); next(talking); talking.send("a")
db = sqlite3.connect(":memory:"); db.execute("create table t(x)")
db.executemany("insert into t values (?)", [(1,), (2,), (3,)])
rows = db.execute("select x from t order by x"); next(rows)
lock = threading.Lock(); lock.acquire()
own = [1]; own.append(own)
squeeze = zlib.compressobj(); started = squeeze.compress(b"x" * 99999)
digest = __import__("hashlib").sha256(b"first")
tee, other = itertools.tee(iter("abcdef")); next(tee)
stack = contextlib.ExitStack(); stack.callback(own.append, "end")
reader = csv.reader(io.StringIO("1,2\\n3,4\\n")); next(reader)
found = re.finditer("[a-z]", "a1b2c3"); next(found)
big = bytearray(range(256)) * (32 << 10)
open("notes", "w").write("one\\ntwo\\nthree\\n")
notes = open("notes"); first = notes.readline()
decimal.getcontext().prec = 50
sys.setrecursionlimit(4321)
"""
LOOK = """
import hashlib
look = [count(), next(squares), talking.send("b"), next(rows), db.execute("select sum(x) from t").fetchone(),
        lock.locked(), own[1] is own, zlib.decompress(started + squeeze.flush()) == b"x" * 99999, digest.hexdigest(),
        list(tee), list(other), list(reader), [m.group() for m in found], notes.readline(), first,
        hashlib.sha256(big).hexdigest(), str(decimal.Decimal(1) / 7), sys.getrecursionlimit()]
stack.close(); look.append(own[2:])
look
"""


def fork(box: Sandbox, name: str, *options: str) -> Any:
    done = box.cli("fork", name, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def value(box: Sandbox, code: str, session: str, *options: str) -> Any:
    result = box.exec(code, session=session, options=list(options))
    assert result["status"] == "ok", result
    return result["value"]


def sleep(box: Sandbox, name: str) -> None:
    done = box.cli("hibernate", name)
    assert done.returncode == 0, done.stderr


def woken(box: Sandbox, name: str) -> Any:
    result = box.exec("kept_list", session=name)
    assert result["status"] == "ok" and result["restored"] is not None, result
    return result["restored"]


@pytest.fixture
def named(sandbox: Sandbox) -> Any:
    names: list[str] = []

    def take(name: str) -> str:
        names.append(name)
        return name

    yield take
    for name in names:
        for number in ("", "-1", "-2", "-3", "-1-1"):
            if sandbox.cli("sessions", "show", name + number).returncode == 0:
                sandbox.destroy(name + number)


def test_a_fork_goes_on_where_the_session_stands(sandbox: Sandbox, named: Any) -> None:
    name = named("whole")
    value(sandbox, WHOLE + "\nimport numpy.random, secrets, uuid; numpy.random.random()\n", name)
    made = fork(sandbox, name, "-n", "2")
    assert (made["how"], made["lost"], made["failed"], "no_image" in made) == ("image", [], [], False)
    again = fork(sandbox, name + "-1")
    assert again["how"] == "image", again
    looks = [value(sandbox, LOOK, each) for each in (name, "whole-1", "whole-2", "whole-1-1")]
    assert len(set(looks)) == 1 and "0.14285714285714285714285714285714285714285714285714" in looks[0]
    # What is of a process, and what must not be the same.
    draws = ("import os, random, secrets, time, uuid, numpy\n"
             "[time.time(), uuid.uuid4().hex, numpy.random.random(), numpy.random.default_rng().random(), "
             "secrets.token_hex(), os.urandom(8), random.random()]")
    drawn = []
    for each in (name, "whole-1", "whole-2"):
        before = time.time()
        drawn.append(eval(value(sandbox, draws, each)))
        assert before <= drawn[-1][0] <= time.time(), drawn
    assert all(len(set(kind)) == 3 for kind in zip(*drawn)), drawn
    of_the_process = ("import os, threading\n"
                      "len({os.getpid(), int(os.readlink('/proc/self')), threading.get_native_id()}) == 1")
    assert value(sandbox, of_the_process, "whole-1") == "True"
    assert value(sandbox, "import subprocess; subprocess.run(['echo', 'hi'], capture_output=True).stdout",
                 "whole-1") == "b'hi\\n'"
    # A cell that is killed goes back to the fork, not to the template.
    ended = sandbox.exec("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", session="whole-2")
    assert ended["status"] != "ok"
    assert value(sandbox, "count(), own[1] is own", "whole-2") == "(4, True)"


def test_a_fork_while_the_session_is_saved_is_exact(sandbox: Sandbox, named: Any) -> None:
    name = named("saved")
    value(sandbox, "squares = (n * n for n in range(99)); held = __import__('random').randbytes(32 << 20)", name)
    for number in (1, 2):
        first = value(sandbox, f"held += b'x'; open('n', 'w').write('{number}'); next(squares)", name)
        with sandbox.popen("checkpoint", name) as saving:
            assert fork(sandbox, name)["how"] == "image"
            assert saving.wait(PATIENCE) == 0
        forked = value(sandbox, "open('n').read(), next(squares)", f"{name}-{number}")
        assert forked == f"('{number}', {number ** 2})", first


def test_a_session_wakes_as_it_stood(sandbox: Sandbox, named: Any) -> None:
    name = named("asleep")
    value(sandbox, WHOLE + "\nkept_list = [1]", name)
    assert fork(sandbox, name)["how"] == "image"
    for _ in range(2):  # what was woken is saved as well as what was not
        sleep(sandbox, name)
        restored = woken(sandbox, name)
        assert (restored.get("image"), restored["failed"], restored.get("no_image")) == (True, [], None), restored
    assert value(sandbox, LOOK, name) == value(sandbox, LOOK, "asleep-1")
    # A snapshot on disk, a fork of one who sleeps, and a fork of that.
    done = sandbox.cli("snapshot", "loaded", "-s", name, "--wait")
    assert done.returncode == 0, done.stderr
    before = value(sandbox, "next(squares)", name)
    sleep(sandbox, name)
    assert sandbox.cli("rollback", "loaded", "-s", name).returncode == 0
    assert value(sandbox, "next(squares), lock.locked()", name) == f"({before}, True)"
    sleep(sandbox, name)
    assert fork(sandbox, name)["how"] == "image"
    assert value(sandbox, "next(squares)", "asleep-2") == value(sandbox, "next(squares)", name)
    assert len({value(sandbox, "import os, random; os.urandom(8), random.random()", each)
                for each in (name, "asleep-2")}) == 2


def test_a_snapshot_between_variables_and_image_has_both(sandbox: Sandbox, named: Any) -> None:
    """The variables of the moment are on disk, its image is still being written."""
    name = named("between")
    sandbox.exec("import os\nlarge = os.urandom(60 << 20)", name, options=["--checkpoint", "after", "--memory", "1g"])
    value(sandbox, "numbers = (n for n in range(9))\nnext(numbers)", name)
    assert wait_for(lambda: json.loads(
        sandbox.cli("sessions", "show", name, "--json").stdout)["checkpoint_cell"] == 2)
    assert sandbox.cli("snapshot", "between", "-s", name, "--wait").returncode == 0
    sleep(sandbox, name)
    assert sandbox.cli("rollback", "between", "-s", name).returncode == 0
    assert value(sandbox, "next(numbers)", name) == "1"


def test_a_killed_daemon_and_tier_lose_nothing(fresh_sandbox: Callable[..., Sandbox]) -> None:
    """The template's image is not due for an hour: a session's image asks for it."""
    box = fresh_sandbox(env={"SNIPARA_SANDBOX_TEMPLATE_IMAGES": "3600000"})
    if os.uname().machine != "x86_64":
        pytest.skip("images of templates are for x86-64")
    guest = glob.glob(os.path.join(box.bin, "guest", "*"))
    wait_for(lambda: all(os.stat(path).st_ctime < time.time() - 4 for path in guest))  # else it is not trusted
    value(box, "squares = (n * n for n in range(99)); next(squares); kept_list = [1]", "s")
    assert wait_for(lambda: json.loads(box.cli("checkpoint", "s", "--json").stdout).get("image"))
    assert wait_for(lambda: glob.glob(os.path.join(box.state, "images", "*.image")))
    tier, daemon = box.tier_pid(), box.daemon
    assert tier is not None and daemon is not None
    for pid in (daemon.pid, tier):
        os.kill(pid, signal.SIGKILL)
    daemon.wait()
    restored = woken(box, "s")
    assert (restored.get("image"), restored["failed"]) == (True, []), restored
    assert value(box, "next(squares)", "s") == "1"


def test_a_template_is_replaced_while_its_sessions_are_forked(fresh_sandbox: Callable[..., Sandbox]) -> None:
    """A fork is exact or says why it is not; none has half of an image."""
    box = fresh_sandbox(env={"SNIPARA_SANDBOX_TEMPLATE_FORKS": "9"})
    value(box, "gen = iter([1, 2, 3]); next(gen); kept_list = [1]", "s")
    ways: list[str] = []

    def is_replaced() -> bool:  # the next template starts meanwhile
        made = fork(box, "s", "-n", "4")
        ways.append(made["how"])
        assert made["how"] == "image" or "template was" in made["no_image"], made
        for each in made["sessions"]:
            look = "kept_list, next(gen)" if made["how"] == "image" else "kept_list"
            assert value(box, look, each["name"]) == ("([1], 2)" if made["how"] == "image" else "[1]"), made
            box.destroy(each["name"])
        return ways[-1] == "checkpoint"

    assert wait_for(is_replaced) and ways[0] == "image", ways
    assert value(box, "next(gen)", "s") == "2"


NOT = {
    "a process": ("import subprocess; p = subprocess.Popen(['sleep', '3600'])", "processes run in the background"),
    "a pipe": ("import os; ends = os.pipe()", "pipes, sockets or deleted files are open"),
    "a device": ("z = open('/dev/zero', 'rb')", "open descriptors: /dev/zero"),
    "a folder": ("import os; it = os.scandir('/usr'); next(it)", "open descriptors: /usr"),
    "a file elsewhere": ("f = open('/tmp/x', 'w+')", "open descriptors: /tmp/x"),
    "a thread": ("import threading, time; threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()",
                 "threads"),
    "shared memory": ("import mmap; m = mmap.mmap(-1, 4096)", "memory is shared"),
    "a mapped file": ("import mmap; open('f', 'wb').write(bytes(9999)); "
                      "f = open('f', 'rb'); m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ); f.close()",
                      "the mapped file"),
    "many mappings": ("import mmap\nkept = []\nfor n in range(9000):\n"
                      "    m = mmap.mmap(-1, 8192, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, "
                      "mmap.PROT_READ if n % 2 else mmap.PROT_READ | mmap.PROT_WRITE)\n    kept.append(m)", "mappings"),
    "all mappings that a process may have": (
        "import ctypes, mmap; c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p\n"
        "at = c.mmap(None, ctypes.c_size_t(1 << 28), 3, 0x22, -1, 0)\n"
        "n = 0\n"
        "while c.mprotect(ctypes.c_void_p(at + n * 4096), ctypes.c_size_t(4096), 1) == 0 and n < 65000: n += 2\n"
        "del n", "mappings"),
    "memory at our place": ("import ctypes; c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p\n"
                            "hex(c.mmap(ctypes.c_void_p(1 << 40), ctypes.c_size_t(8192), 3, 0x32, -1, 0))",
                            "where images are restored"),
    "memory of no child": ("import ctypes, mmap; c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p\n"
                           "at = c.mmap(None, ctypes.c_size_t(8192), 3, 0x22, -1, 0)\n"
                           "assert c.madvise(ctypes.c_void_p(at), ctypes.c_size_t(8192), 18) == 0",
                           "differs in a child"),
    "hidden memory": ("import ctypes; c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p\n"
                      "at = c.mmap(None, ctypes.c_size_t(1 << 20), 3, 0x22, -1, 0); ctypes.memset(at, 1, 1 << 20)\n"
                      "assert c.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(1 << 20), 0) == 0", "unreadable memory"),
}


@pytest.mark.parametrize("case", sorted(NOT))
def test_what_an_image_cannot_hold_is_said_and_pickled(sandbox: Sandbox, named: Any, case: str) -> None:
    code, why = NOT[case]
    name = named("not")
    value(sandbox, "kept_list = [1, 2]; gen = iter([1, 2, 3]); next(gen)", name)
    done = sandbox.exec(code, session=name)
    if case == "shared memory" and done["denials"]:
        return  # where no control group counts it there is none
    assert done["status"] == "ok", done
    made = fork(sandbox, name)
    assert made["how"] == "checkpoint" and why in made["no_image"], made
    assert value(sandbox, "kept_list", "not-1") == "[1, 2]"
    assert value(sandbox, "next(gen)", name) == "2"  # the origin has lost nothing
    value(sandbox, "lost = (n for n in [1])", name)
    sleep(sandbox, name)
    restored = woken(sandbox, name)
    if not restored.get("image"):  # shared memory, say, ends with what maps it
        assert restored["no_image"] and restored["failed"], restored
    assert value(sandbox, "next(gen)", name) == "3"


def test_a_checkpoint_without_an_image_says_why(sandbox: Sandbox, named: Any) -> None:
    name = named("why")
    value(sandbox, "import os; kept_list = [1]; gen = (n for n in [1]); ends = os.pipe()", name)
    saved = json.loads(sandbox.cli("checkpoint", name, "--json").stdout)
    (why,) = [row["reason"] for row in saved["lost"] if row["name"] == "image of memory"]
    assert why.startswith("pipes, sockets or deleted files are open: pipe:"), saved
    sleep(sandbox, name)
    assert json.loads(sandbox.cli("sessions", "show", name, "--json").stdout)["no_image"] == why
    restored = woken(sandbox, name)
    assert restored["no_image"] == why, restored
    assert "gen" in [row["name"] for row in restored["failed"]], restored
    assert "image of memory" not in [row["name"] for row in restored["failed"]], restored


HOSTILE = {
    "stack": "import ctypes; at = id(ctypes); c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p\n"
             "low = [int(l.split('-')[0], 16) for l in open('/proc/self/maps') if '[stack]' in l][0]\n"
             "c.mmap(ctypes.c_void_p(low - (3 << 20)), ctypes.c_size_t(1 << 20), 3, 0x32, -1, 0)",
    "holes": "import ctypes; c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p\n"
             "at = c.mmap(None, ctypes.c_size_t(16 << 20), 3, 0x22, -1, 0)\n"
             "for n in range(0, 3000, 2): c.munmap(ctypes.c_void_p(at + n * 4096), ctypes.c_size_t(4096))\n"
             "for n in range(1, 3000, 4): ctypes.memset(at + n * 4096, n % 256, 4096)",
    "code": "import ctypes; c = ctypes.CDLL(None)\n"
            "a, b = [l.split()[0].split('-') for l in open('/proc/self/maps') if '_snp' in l and 'r-x' in l][0]\n"
            "at, n = int(a, 16), int(b, 16) - int(a, 16); text = ctypes.string_at(at, n)\n"
            "c.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(n), 7); ctypes.memmove(at, text, n)\n"
            "c.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(n), 5)",
    "vdso": "import ctypes; c = ctypes.CDLL(None); c.mmap.restype = c.mremap.restype = ctypes.c_void_p\n"
            "a, b = [l.split()[0].split('-') for l in open('/proc/self/maps') if '[vdso]' in l][0]\n"
            "at, n = int(a, 16), int(b, 16) - int(a, 16); text = ctypes.string_at(at, n)\n"
            "to = c.mmap(None, ctypes.c_size_t(n), 3, 0x22, -1, 0)\n"
            "moved = c.mremap(ctypes.c_void_p(at), ctypes.c_size_t(n), ctypes.c_size_t(n), 3, ctypes.c_void_p(to))\n"
            "c.mmap(ctypes.c_void_p(at), ctypes.c_size_t(n), 7, 0x32, -1, 0); ctypes.memmove(at, text, n)\n"
            "assert moved == to",
}


@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_memory_that_was_prepared_is_exact_or_refused(sandbox: Sandbox, named: Any, case: str) -> None:
    name = named("odd")
    value(sandbox, "kept_list = [1]; gen = iter([1, 2, 3]); next(gen)\n" + HOSTILE[case], name)
    if case == "holes":
        value(sandbox, "import hashlib\ndef seen():\n    pages = [ctypes.string_at(at + n * 4096, 4096) "
                       "for n in range(1, 3000, 2)]\n    return hashlib.sha256(b''.join(pages)).hexdigest()", name)
    made = fork(sandbox, name)
    assert value(sandbox, "kept_list", "odd-1") == "[1]"
    if made["how"] == "image":
        assert value(sandbox, "next(gen)", "odd-1") == "2"
        if case == "holes":
            assert value(sandbox, "seen()", "odd-1") == value(sandbox, "seen()", name)
    assert value(sandbox, "next(gen)", name) == "2"
    seen = value(sandbox, "seen()", name) if case == "holes" else ""
    value(sandbox, "lost = (n for n in [1])", name)
    sleep(sandbox, name)
    restored = woken(sandbox, name)
    assert value(sandbox, "next(gen)", name) == "3"
    if case == "holes" and restored.get("image"):
        assert value(sandbox, "seen()", name) == seen


# The code of a session can write any image of it: its saver is a copy of it.
FORGE = '''
import gc, os, struct
kept_list = [1]; lost = (n for n in [1, 2]); next(lost)
class Forger:
    def __init__(self, real): self.real = real
    def __getattr__(self, name): return getattr(self.real, name)
    def freeze(self, fd, *known):
        own = os.open("/tmp/image", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        done = self.real.freeze(own, "")
        if done[0]:
            return done
        with open(own, "rb") as file: file.seek(0); raw = file.read()
        image = bytearray()
        while raw:
            body, _, head = struct.unpack_from("<III", raw)
            image += raw[16 + head:16 + body]; raw = raw[16 + body:]
        N_VMAS, N_FILES, TEXT, N_RUNS, KERNEL, VMA = 80, 88, 96, 104, 136, 40
        def get(at): return struct.unpack_from("<Q", image, at)[0]
        def put(at, number): struct.pack_into("<Q", image, at, number & (1 << 64) - 1)
        vmas = 200; files = vmas + get(N_VMAS) * VMA; runs = files + get(N_FILES) * 56 + get(TEXT)
        def vma(kind):
            every = range(vmas, vmas + get(N_VMAS) * VMA, VMA)
            return [at for at in every if image[at + 36] == kind]
        FORGERY
        pieces = [image[at:at + (1 << 20)] for at in range(0, len(image), 1 << 20)]
        for n, piece in enumerate(pieces):
            head = '{"kind":"image","name":"%d","key":"x%d-%d","size":%d,"same":false,"meta":{}}'
            head %= n, n, os.getpid(), len(piece)
            left = struct.pack("<IIIB3x", len(head) + len(piece), 0, len(head), 80) + head.encode() + piece
            while left: left = left[os.write(fd, left):]
        return 0, "", -1, 0, len(pieces)
session = [o for o in gc.get_objects() if type(o).__name__ == "Session" and hasattr(o, "_snp")][0]
session._snp = Forger(session._snp)
'''
FORGERIES = {
    "as it is": ("pass", None),
    "of another template": ("image[32] ^= 1", "the template was restarted"),
    "of another kernel": ("image[32] ^= 1; image[KERNEL] ^= 1", "it was made on another kernel; this one is "),
    "of another version": ("image[:8] = b'SNIPIMG2'", "it was made by another version"),
    "more mappings than there can be": ("put(N_VMAS, 1 << 60)", "incomplete"),
    "mappings that overlap": ("put(vmas + VMA, get(vmas))", "wrong mappings"),
    "a mapping of the kernel's half": ("put(vmas + (get(N_VMAS) - 1) * VMA + 8, 1 << 63)", "wrong mappings"),
    "a path outside of the paths": ('struct.pack_into("<I", image, files + 48, 1 << 30)', "wrong mappings"),
    "a file outside of the files": ('struct.pack_into("<I", image, vma(3)[0] + 32, 1 << 30)', "wrong mappings"),
    "no vdso": ("image[vma(5)[0] + 36] = 0", "the kernel's mappings"),
    "a file that nobody has": ("put(files + 40, 1)", "differs in the new sandbox"),
    "parts that overlap": ("put(runs + 24, get(runs))", "wrong parts"),
    "a part outside of mappings": ("put(runs, 1 << 46)", "wrong parts"),
    "another stack": ("put(vma(2)[0] + 8, get(vma(2)[0] + 8) + 4096)", "stack"),
    "cut in its pages": ("del image[-5000:]", "ended"),
    "pages of nothing": ("image[runs + get(N_RUNS) * 24:] = bytes(len(image) - runs - get(N_RUNS) * 24)", "ended"),
}


@pytest.mark.parametrize("case", sorted(FORGERIES))
def test_a_forged_image_is_refused_or_harms_its_own_sandbox(sandbox: Sandbox, named: Any, case: str) -> None:
    forgery, why = FORGERIES[case]
    name = named("forged")
    value(sandbox, FORGE.replace("FORGERY", forgery), name)
    sleep(sandbox, name)
    if case == "of another template":  # as people read it
        done = sandbox.cli("exec", "-s", name, "1")
        assert "not restored: lost" in done.stderr and f"no image: {why}" in done.stderr, done
        return
    restored = woken(sandbox, name)
    if why is None:
        assert restored.get("image") and value(sandbox, "next(lost)", name) == "2", restored
    else:
        assert why in restored["no_image"] and "lost" in [row["name"] for row in restored["failed"]], restored


def test_an_image_of_an_older_epoch_harms_its_own_sandbox(sandbox: Sandbox, named: Any) -> None:
    """A session that hands in the image of an epoch before: its memory is of then, all that we keep is of now."""
    name = named("replayed")
    older = ("if os.path.exists('/workspace/older'): image = bytearray(open('/workspace/older', 'rb').read())\n"
             "        else: open('/tmp/whole', 'wb').write(image)")
    value(sandbox, FORGE.replace("FORGERY", older), name)
    assert sandbox.cli("checkpoint", name).returncode == 0
    value(sandbox, "import shutil; shutil.copy('/tmp/whole', 'older'); next(lost)", name)
    sleep(sandbox, name)
    first = sandbox.exec("open('now', 'w').write('now'); os.path.exists('older'), next(lost)", session=name)
    assert first["value"] == "(True, 2)", first
    sleep(sandbox, name)
    again = sandbox.exec("open('now').read(), next(lost)", session=name)
    assert again["restored"].get("image") and again["value"] == "('now', 2)", again
    assert (again["epoch"], again["cell"]) == (first["epoch"] + 1, first["cell"] + 1)


# What a saver writes is kept beside, where the session can read it.
KEEP = """
import gc, os
lost = (n for n in [1, 2]); next(lost); own = "own" + "ed"
class Keeper:
    def __init__(self, real): self.real = real
    def __getattr__(self, name): return getattr(self.real, name)
    def freeze(self, fd, *known):
        self.real.freeze(os.open("/tmp/image", os.O_RDWR | os.O_CREAT | os.O_TRUNC), "")
        return self.real.freeze(fd, *known)
session = [o for o in gc.get_objects() if type(o).__name__ == "Session" and hasattr(o, "_snp")][0]
session._snp = Keeper(session._snp)
"""


def test_an_image_holds_its_session_and_nothing_else(fresh_sandbox: Any) -> None:
    """Nothing of another session, of the supervisor or of the daemon's surroundings; at rest only for its user."""
    box = fresh_sandbox(env={"SNIPARA_PROBE": "fromthedaemon"})
    value(box, "mine = 'of' + 'another' * 9", "other", "--set-env", "SECRET=inthesurroundings")
    assert fork(box, "other")["how"] == "image"
    value(box, KEEP, "kept")
    assert box.cli("snapshot", "kept@one", "--wait").returncode == 0
    # Backwards, so that asking for them does not bring them in.
    words = ["dewo", "rehtonarehtona", "sgnidnuorruseht", "nomeadehtmorf", f"{box.state}/"[::-1]]
    assert value(box, f"image = open('/tmp/image', 'rb').read()\n[w[::-1].encode() in image for w in {words}]",
                 "kept") == "[True, False, False, False, False]"
    for folder, _, files in os.walk(box.state):
        for name in files:
            mode = os.stat(os.path.join(folder, name)).st_mode & 0o777
            assert mode & 0o77 == 0, (folder, name, oct(mode))


def test_images_that_were_swapped_are_not_used(fresh_sandbox: Any) -> None:
    """Of another session, or of an older moment of the same: contents are known by their hash."""
    box = fresh_sandbox()
    for name in ("one", "two"):
        value(box, f"kept_list = ['{name}']; lost = (n for n in [1, 2]); next(lost)\n"
                   f"import random; big = random.Random('{name}').randbytes(3 << 20)", name)
        sleep(box, name)
    box.stop()
    with contextlib.closing(sqlite3.connect(os.path.join(box.state, "journal", "journal.db"))) as db:
        hashes = {row[0].lower() for row in db.execute("SELECT hex(hash) FROM blobs WHERE data IS NULL AND row IN"
                                                       " (SELECT blob FROM items WHERE kind = 6)")}
    blobs = sorted((path for path in glob.glob(os.path.join(box.state, "journal", "blobs", "*", "*"))
                    if os.path.basename(path) in hashes), key=os.path.getsize)
    assert len(blobs) > 4
    for a, b in itertools.pairwise(blobs):
        with open(a, "rb") as first, open(b, "rb") as second:
            contents = first.read(), second.read()
        for path, content in zip((a, b), reversed(contents)):
            with open(path, "wb") as file:
                file.write(content)
    for name in ("one", "two"):
        done = box.exec("kept_list, len(big), 'lost' in globals()", session=name)
        assert done["value"] == f"(['{name}'], {3 << 20}, False)", done
        assert "damaged" in done["restored"]["no_image"] and not done["restored"].get("image"), done


def test_memory_of_copies_is_their_own(sandbox: Sandbox, named: Any) -> None:
    """Each copy counts what it holds, and what it then takes ends it and no other."""
    name = named("copied")
    value(sandbox, "big = bytearray(b'x' * (100 << 20)); gen = iter([1, 2]); next(gen)", name, "--memory", "256m")
    assert fork(sandbox, name, "-n", "2")["how"] == "image"
    told = json.loads(sandbox.cli("sessions", "show", "copied-1", "--json").stdout)
    assert told["memory_bytes"] == 256 << 20
    used = sandbox.exec("for i in range(0, len(big), 4096): big[i] = 0\nlen(big)", session="copied-1")
    assert used["value"] == str(100 << 20) and used["usage"]["memory_peak_bytes"] > 100 << 20, used
    ended = sandbox.exec("more = [bytearray(b'y' * (50 << 20)) for _ in range(8)]", session="copied-2")
    assert ended["status"] in ("oom", "error"), ended
    assert [value(sandbox, "big[4096], next(gen)", each) for each in (name, "copied-1")] == ["(120, 2)", "(0, 2)"]


# Objects that no pickle holds, made of each other at random, each some steps on its way.
STARTS = [
    "(n * n for n in range(500))", "iter(range(500))", "walk(tree(7))", "map(hash, range(500))", "reversed(range(500))",
    "(int(w) for w in re.findall('[0-9]+', ' '.join(map(str, range(500)))))", "(b for b in memoryview(bytes(250) * 2))",
    "iter(db.execute('select x from t order by x desc'))", "iter(random.Random(5).random, None)",
    "(m.start() for m in re.finditer('a', 'ba' * 300))", "iter(collections.deque(range(500)))",
    "(r[0] for r in struct.iter_unpack('<H', bytes(range(250)) * 4))", "iter(dict.fromkeys(range(500)).items())",
    "iter(frame.itertuples())", "frame.a.items()", "iter(frame.groupby('b'))", "np.nditer(np.arange(500.0))",
    "np.ndenumerate(np.arange(500).reshape(50, 10))", "iter(np.random.default_rng(7).random, None)",
    "ET.iterparse(io.BytesIO(b'<a>' + b'<b/>' * 300 + b'</a>'), ('start', 'end'))"]
STEPS = [
    "enumerate({})", "itertools.chain({}, 'end')", "zip({}, itertools.cycle('xyz'))", "itertools.islice({}, 3, 300)",
    "(repr(item) for item in {})", "itertools.tee({})[0]", "filter(None, {})", "twice({})",
    "itertools.accumulate({}, lambda a, b: (b,))", "itertools.takewhile(lambda item: True, {})",
    "map(lambda item, n=n: (n, item), {})"]
PROGRAMS = """
import collections, io, itertools, json, random, re, sqlite3, struct, sys, xml.etree.ElementTree as ET
import numpy as np, pandas as pd
db = sqlite3.connect(":memory:"); db.execute("create table t(x)")
db.executemany("insert into t values (?)", [(n,) for n in range(500)])
frame = pd.DataFrame({"a": range(500), "b": [n % 50 for n in range(500)]})
def tree(depth): return [tree(depth - 1), depth, tree(depth - 1)] if depth else []
def walk(node):
    for item in node:
        if isinstance(item, list): yield from walk(item)
        else: yield item
def twice(items):
    for item in items:
        yield item; yield item
running = []
for n, (text, steps) in enumerate(json.loads(TEXT)):
    program = eval(text)
    try:
        for step in range(steps): next(program)
    except Exception: pass  # no truth value, and the like
    running.append(program)
del program
def rest(program):
    try:
        for item in itertools.islice(program, 40): yield repr(item)
    except Exception as error: yield repr(error)
"""


@pytest.mark.slow
def test_random_programs_go_on_byte_for_byte(sandbox: Sandbox, named: Any) -> None:
    chance = random.Random(17)
    texts = []
    for _ in range(120):
        text = chance.choice(STARTS)
        for _ in range(chance.randrange(5)):
            text = chance.choice(STEPS).replace("{}", text)
        texts.append((text, chance.randrange(9)))
    name = named("many")
    value(sandbox, f"TEXT = {json.dumps(texts)!r}\n" + PROGRAMS, name, "--template", "data", "--memory", "1g")
    assert fork(sandbox, name)["how"] == "image"
    value(sandbox, "texts = [list(rest(program)) for program in running]", name)
    value(sandbox, "texts = [list(rest(program)) for program in running]", "many-1")
    assert int(value(sandbox, "sum(map(len, texts))", name)) > 2000
    value(sandbox, "again = [list(rest(program)) for program in running]", "many-1")
    sleep(sandbox, name)
    value(sandbox, "again = [list(rest(program)) for program in running]", name)
    digest = "import hashlib; hashlib.sha256(repr((texts, again)).encode()).hexdigest()"
    assert value(sandbox, digest, name) == value(sandbox, digest, "many-1")


# What code holds that no image has: name, what holds it, what is named as lost, why there is no image.
HELD = {
    "a transaction of SQLite": (
        "db = sqlite3.connect('shop.db'); db.execute('insert into t values (1)')", "db", "locks on files"),
    "a cursor of SQLite": (
        "db = sqlite3.connect('shop.db'); rows = db.execute('select x from t'); next(rows)", "rows", "locks on files"),
    "a connection of SQLite": (
        "db = sqlite3.connect('shop.db'); db.execute('select x from t').fetchall()", "db", "by device and inode"),
    "a connection of SQLite to nothing yet": (
        "db = sqlite3.connect('new.db')", "db", "by device and inode"),
    "a file of HDF5": (
        "open('a.h5', 'wb').write(b'\\x89HDF\\r\\n\\x1a\\n' + bytes(99)); h5 = open('a.h5', 'r+b')", "h5",
        "by device and inode"),
    "a lock of flock": (
        "shared = open('shop.db', 'rb'); fcntl.flock(shared, fcntl.LOCK_SH)", "lock on /workspace/shop.db",
        "locks on files"),
    "a lock of fcntl": (
        "fd = os.open('shop.db', os.O_RDWR); fcntl.lockf(fd, fcntl.LOCK_EX)", "lock on /workspace/shop.db",
        "locks on files"),
    "a lock on a folder": (
        "fd = os.open('.', os.O_RDONLY); fcntl.flock(fd, fcntl.LOCK_EX)", "lock on /workspace", "locks on files"),
}


@pytest.mark.parametrize("case", sorted(HELD))
def test_locks_and_files_known_by_inode_have_no_image(sandbox: Sandbox, named: Any, case: str) -> None:
    """After a wake or in a fork a database is whole, and that its connection is lost is said."""
    code, lost, why = HELD[case]
    name = named("held")
    value(sandbox, "import fcntl, os, sqlite3\nkept_list = [1]; gen = iter([1, 2])\n"
                   "with sqlite3.connect('shop.db') as made: made.execute('create table t(x)')\n"
                   "made.executemany('insert into t values (?)', [(n,) for n in range(3)]); made.commit()\n"
                   "made.close(); del made", name)
    value(sandbox, code, name)
    made = fork(sandbox, name)
    assert made["how"] == "checkpoint" and why in made["no_image"], made
    assert lost in [row["name"] for row in made["lost"]], made
    sleep(sandbox, name)
    restored = woken(sandbox, name)
    assert not restored.get("image") and lost in [row["name"] for row in restored["failed"]], restored
    for each in (name, "held-1"):
        assert value(sandbox, "import sqlite3\nnew = sqlite3.connect('shop.db', timeout=0)\n"
                              "with new: new.executemany('insert into t values (?)', [(n,) for n in range(999)])\n"
                              "new.execute('pragma integrity_check').fetchone()[0], "
                              "new.execute('select count(*) from t').fetchone()[0]", each) == "('ok', 1002)"


def test_what_a_snapshot_could_not_save_is_named_when_the_tier_dies(fresh_sandbox: Callable[..., Sandbox]) -> None:
    """The session comes back from the snapshot's checkpoint, with the losses of that and not of its own last."""
    box = fresh_sandbox()

    def ask(*words: str) -> Any:
        done = box.cli(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    value(box, "kept_list = [1]", "s", "--checkpoint", "off")
    assert ask("checkpoint", "s")["lost"] == []
    value(box, "gen = iter([1, 2, 3]); next(gen); lost = (n for n in [1])", "s")
    taken = ask("snapshot", "one", "-s", "s", "--wait")
    assert [row["name"] for row in taken["lost"]] == ["lost"], taken
    tier = box.tier_pid()
    assert tier is not None
    os.kill(tier, signal.SIGKILL)
    wait_for(lambda: ask("sessions", "show", "s")["checkpoint_cell"] == 2)
    restored = woken(box, "s")
    assert restored.get("image") or [row["name"] for row in restored["failed"]] == ["lost"], restored
    assert value(box, "'lost' in globals()", "s") == str(bool(restored.get("image")))


def test_a_new_daemon_knows_that_a_checkpoint_has_an_image(fresh_sandbox: Callable[..., Sandbox]) -> None:
    box = fresh_sandbox()
    for name, code, expected in (("s", "gen = (n for n in [1])", True), ("t", "plain = 1", None)):
        value(box, code + "\nopen('notes', 'w').write('one')", name)
        sleep(box, name)
        box.stop()
        done = box.cli("hibernate", name, "--json")
        assert done.returncode == 0 and (json.loads(done.stdout).get("image") or None) == expected, done
