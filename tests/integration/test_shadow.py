# SPDX-License-Identifier: Apache-2.0
"""Shadows: pid 1 keeps the workspace and puts it back, whatever was done to it meanwhile."""

import errno
import os
import random
import time
from typing import Any

import pytest
import lib
from shadow_world import LOST, OPEN, OVER, SHORT, STOPPED, InitError, World, items

PROJECT = {"readme": "readme", "src/a.py": "a", "src/b.py": "b", "src/deep/c.py": "c", "data/x": "x" * 9000}
KINDS = pytest.mark.parametrize("project", [None, PROJECT], ids=["own", "project"])

# What code may do to names out of a small set, so that they collide.
CHAOS = """
def chaos(seed):
    import random
    r = random.Random(seed)
    names = ["a", "b", "src", "src/a.py", "src/b.py", "src/deep", "src/deep/c.py", "data", "data/x",
             "readme", "n", "n/m", "n/m/o", "src/new", "weird \\udcff\\n\\"name"]
    def gone(p):
        if os.path.islink(p) or os.path.isfile(p): os.unlink(p)
        elif os.path.isdir(p): shutil.rmtree(p)
    def write(p):
        if os.path.isdir(p): gone(p)
        with open(p, "w") as f: f.write(chr(97 + r.randrange(26)) * r.choice([0, 1, 5, 5000]))
    def replace(p): gone(p); write(p)
    def folder(p): gone(p); os.mkdir(p)
    def link(p): gone(p); os.symlink(r.choice(names + ["/etc", "../..", "/nowhere"]), p)
    def mode(p): os.chmod(p, r.choice([0o600, 0o644, 0o755, 0o711]))
    def move(p): os.rename(p, r.choice(names))
    def hard(p): q = r.choice(names); gone(q); os.link(p, q)
    def inplace(p):
        with open(p, "r+") as f: f.write("Z")
    for _ in range(r.randrange(1, 25)):
        try: r.choice([write, write, replace, folder, link, mode, move, hard, inplace, gone])(r.choice(names))
        except OSError: pass
"""


@KINDS
@pytest.mark.parametrize("seed", [*range(6), 300, 320, 328])  # the last ones found something
def test_any_state_comes_back_after_any_other(project: dict[str, str] | None, seed: int) -> None:
    r = random.Random(seed)
    kept: dict[int, Any] = {}
    with World(project=project) as w:
        w.run(CHAOS)
        for step in range(40):
            if kept and r.random() < 0.5:
                number = r.choice(list(kept))
                w.restore(number)
                assert w.tree() == kept[number], f"seed {seed}, step {step}, shadow {number}"
                assert w.changes() == {}
            else:
                number = r.randrange(5)
                assert w.keep(number)["flags"] & (OVER | LOST) == 0
                kept[number] = w.tree()
            w.run(f"chaos({seed * 1000 + step})")
            w.changes()


@KINDS
@pytest.mark.parametrize("seed", range(4))
def test_any_state_comes_back_from_a_bundle(project: dict[str, str] | None, seed: int) -> None:
    with World(project=project) as w, World(project=project) as other:
        w.run(CHAOS)
        w.run(f"chaos({seed})")
        w.keep(3)
        live = w.pack()
        before = w.tree()  # which may copy folders up
        w.run(f"chaos({seed + 100})")
        shadow = w.pack(3)
        assert items(shadow) == items(live)
        other.run(CHAOS)
        other.run(f"chaos({seed + 200})")
        other.unpack(shadow)
        assert other.tree() == before
        assert other.changes() == {}
        # What is in it now is a state like any other.
        other.keep(1)
        other.run("shutil.rmtree('src', ignore_errors=True); open('n2', 'w').close()")
        other.restore(1)
        assert other.tree() == before


def test_a_whole_project_deleted_by_the_code_is_there_again() -> None:
    with World(project=PROJECT) as w:
        before = w.tree()
        w.keep(0)
        w.run("[shutil.rmtree(n) if os.path.isdir(n) else os.unlink(n) for n in os.listdir('.')]")
        assert w.tree() == {}
        w.restore(0)
        assert w.tree() == before


@pytest.mark.parametrize("relatime", [False, True], ids=["strict", "relatime"])
def test_a_write_through_a_mapping_alone_is_undone(relatime: bool) -> None:
    """It changes no size and no time of modification: np.memmap's m[0] += 1 is one. Without strict
    times of access contents are compared each time."""
    grow = "import mmap\nf = open('m', 'r+b')\nm = mmap.mmap(f.fileno(), 0)\nm[0] = m[0] + 1\n"
    with World(relatime=relatime) as w:
        w.run("open('m', 'wb').write(b'0' * 9000)")
        time.sleep(0.05)
        w.keep(1)
        times = w.run("os.stat('m').st_mtime_ns, os.stat('m').st_ctime_ns")
        time.sleep(0.05)
        w.run(grow + "m.close(); f.close()")
        # Control: nothing but the contents tells.
        assert w.run("os.stat('m').st_mtime_ns, os.stat('m').st_ctime_ns") == times
        assert w.run("open('m', 'rb').read(1)") == b"1"
        w.keep(2)
        w.restore(1)
        assert w.run("open('m', 'rb').read(1)") == b"0"
        w.restore(2)
        assert w.run("open('m', 'rb').read(1)") == b"1"
        # A mapping that stays, written to again without a fault.
        w.run(grow)
        time.sleep(0.05)
        assert w.keep(3)["flags"] & OPEN
        w.run("m[0] = 57")
        w.keep(4)
        w.restore(3)
        assert w.run("open('m', 'rb').read(1)") == b"2"
        w.restore(4)
        assert w.run("open('m', 'rb').read(1)") == b"9"


@KINDS
def test_modes_that_shut_even_the_owner_out(project: dict[str, str] | None) -> None:
    with World(project=project) as w:
        w.run("os.mkdir('shut'); open('shut/f', 'w').write('f'); open('g', 'w').write('g')")
        w.run("os.chmod('shut', 0); os.chmod('g', 0)")
        assert w.keep(1)["flags"] & LOST == 0
        assert w.run("oct(os.stat('shut').st_mode & 0o777), oct(os.stat('g').st_mode & 0o777)") == ("0o0", "0o0")
        w.run("os.chmod('shut', 0o700); os.chmod('g', 0o600); os.unlink('shut/f'); open('g', 'w').write('changed')")
        w.run("os.chmod('g', 0); os.chmod('shut', 0); os.mkdir('other'); open('other/x', 'w'); os.chmod('other', 0)")
        w.run("os.chmod('.', 0)")
        w.restore(1)
        assert w.run("oct(os.stat('shut').st_mode & 0o777), oct(os.stat('g').st_mode & 0o777)") == ("0o0", "0o0")
        w.run("os.chmod('shut', 0o700); os.chmod('g', 0o600)")
        assert w.run("open('shut/f').read() + open('g').read()") == "fg"
        assert not w.run("os.path.exists('other')")


def test_a_full_workspace_is_restored() -> None:
    with World(size="16m", inodes=300) as w:
        w.run("open('a', 'wb').write(b'a' * (6 << 20)); open('b', 'wb').write(b'b' * (6 << 20))")
        w.keep(1)
        w.run("os.unlink('a')")
        fill = "open('c', 'wb').write(b'c' * (32 << 20))"
        with pytest.raises(RuntimeError, match="No space"):
            w.run(fill)
        with pytest.raises(RuntimeError, match="No space"):
            w.run("for i in range(400): open(f'f{i}', 'w')")
        w.restore(1)
        assert w.run("sorted(os.listdir())") == ["a", "b"]
        assert w.run("os.stat('a').st_size, open('a').read(3)") == (6 << 20, "aaa")


def test_a_full_place_for_shadows_is_over_the_limit_and_harms_nothing() -> None:
    with World(store="4m") as w:
        w.run("open('a', 'wb').write(b'a' * (2 << 20))")
        assert w.keep(1)["flags"] == 0
        w.run("open('a', 'wb').write(b'b' * (3 << 20))")
        assert w.keep(2)["flags"] & OVER
        with pytest.raises(InitError) as e:
            w.restore(2)
        assert e.value.errno == errno.ENOENT
        w.restore(1)
        assert w.run("os.stat('a').st_size, open('a').read(1)") == (2 << 20, "a")


def test_what_a_project_has_may_not_fit_into_the_workspace() -> None:
    with World(project={"big": "x" * (6 << 20)}, size="4m") as w:
        w.keep(0)
        w.run("os.unlink('big')")
        with pytest.raises(InitError) as e:
            w.restore(0)
        assert e.value.errno == errno.ENOSPC


def test_very_many_files_are_over_the_limit() -> None:
    with World(inodes=200000) as w:
        w.run("for i in range(30000): open(f'{i}', 'w')")
        assert w.keep(1, most_files=2000)["flags"] & OVER
        w.run("for i in range(30000): os.unlink(f'{i}')")
        w.keep(1)
        w.run("for i in range(30000): open(f'{i}', 'w')")
        w.restore(1)
        assert w.run("os.listdir()") == []


def test_threads_and_processes_stand_still_and_go_on() -> None:
    with World() as w:
        assert w.keep(1)["flags"] & STOPPED == 0
        w.run("""
import threading, subprocess, time
done = []
def count():
    f = open('log', 'w')
    while not done:
        f.write('x' * 100); f.flush()
thread = threading.Thread(target=count); thread.start()
child = subprocess.Popen(['/bin/sh', '-c', 'while :; do echo y >> other; done'])
stopped = subprocess.Popen(['/bin/sleep', '1000']); stopped.send_signal(signal.SIGSTOP)
while open(f'/proc/{stopped.pid}/stat').read().split()[2] != 'T' or not os.path.exists('other'): time.sleep(0.01)
""")
        assert w.keep(2)["flags"] & STOPPED
        seen = w.run("os.stat('log').st_size, os.stat('other').st_size")
        assert lib.wait_for(lambda: all(now > then for now, then in zip(
            w.run("os.stat('log').st_size, os.stat('other').st_size"), seen)))
        # Who was stopped by the code itself stays so.
        assert w.run("open(f'/proc/{stopped.pid}/stat').read().split()[2]") == "T"
        w.run("done.append(1); child.kill(); stopped.kill(); thread.join(); child.wait(); stopped.wait()")


def test_a_racing_link_leads_no_write_out() -> None:
    """While a bundle is read, code swaps a folder for a link that leads out of it."""
    race = """
import threading
os.makedirs('/tmp/outside', exist_ok=True)
done = []
def swap():
    while not done:
        try:
            os.rename('d', 'e'); os.symlink('/tmp/outside', 'd'); os.unlink('d'); os.rename('e', 'd')
        except OSError:
            pass
thread = threading.Thread(target=swap)
"""
    with World() as w, World() as source:
        source.run("os.mkdir('d')\nfor i in range(300): open(f'd/{i}', 'w').write('x')")
        bundle = source.pack()
        w.run(race + "thread.start()")
        outcomes = set()
        for _ in range(30):
            try:
                w.unpack(bundle)
                outcomes.add(0)
            except InitError as e:
                outcomes.add(e.errno)
        assert w.run("os.listdir('/tmp/outside')") == []
        # Control: one who follows names is led out.
        w.run("""
for _ in range(200):
    for i in range(20):
        try: open(f'd/{i}', 'w').close()
        except OSError: pass
done.append(1); thread.join()
""")
        if not w.run("os.listdir('/tmp/outside')"):
            pytest.skip("the race was never won by the control either")
        assert outcomes


def test_a_worker_that_is_stopped_or_killed_is_told() -> None:
    with World() as w:
        w.run("for i in range(20): open(f'{i}', 'wb').write(os.urandom(1 << 20))")
        w.run("""
import threading, time
def worker():
    for p in os.listdir('/proc'):
        try:
            if p.isdigit() and open(f'/proc/{p}/comm').read() == 'worker\\n': return int(p)
        except OSError: pass
def attack(number):
    while (p := worker()) is None: pass
    os.kill(p, number)
""")
        w.run("t = threading.Thread(target=attack, args=(signal.SIGSTOP,)); t.start()")
        assert len(items(w.pack())) == 20
        w.run("t.join(); t = threading.Thread(target=attack, args=(signal.SIGKILL,)); t.start()")
        with pytest.raises(InitError) as e:
            # Nobody reads: it lives until it is killed.
            r, out = os.pipe()
            try:
                number = w.send(61, b"\xff\xff\xff\xff\0", out)
                os.close(out)
                w.reply(number)
            finally:
                os.close(r)
        assert e.value.errno == errno.EIO
        w.run("t.join()")
        assert len(items(w.pack())) == 20


def test_what_is_dropped_gives_back_its_memory() -> None:
    with World(store="8m") as w:
        for i in range(20):
            w.run(f"open('a', 'wb').write(bytes([{i}]) * (3 << 20))")
            assert w.keep(1)["flags"] == 0
        for i in range(2, 400):
            assert w.keep(i)["flags"] == 0  # unchanged: it costs nothing


def test_what_the_reader_has_is_not_packed_again() -> None:
    with World() as w:
        w.run("open('a', 'wb').write(b'a' * 50000); open('b', 'wb').write(b'b' * 50000)")
        w.keep(1)
        whole = w.pack(1)
        key = items(whole)["a"]["key"]
        for number in (1, 0xFFFFFFFF):
            part = w.pack(number, known=f"{key}\n".encode())
            assert items(part)["a"]["same"] is True and items(part)["b"]["same"] is False
            assert len(whole) - 51000 < len(part) < len(whole) - 49000


def test_only_what_is_copied_counts_as_new() -> None:
    with World() as w:
        w.run("open('a', 'wb').write(b'a' * (2 << 20)); open('b', 'wb').write(b'b' * 1000)")
        assert w.keep(1, most_new=(2 << 20) + 999)["flags"] == OVER | SHORT
        assert w.keep(1, most_new=(2 << 20) + 1000)["flags"] == 0
        time.sleep(0.05)
        w.keep(1)
        w.run("open('b', 'wb').write(b'c' * 1000)")
        assert w.keep(2, most_new=999)["flags"] == OVER | SHORT
        assert w.keep(2, most_new=1000)["flags"] == 0
        w.restore(1)
        assert w.run("open('b').read(1)") == "b"


@KINDS
def test_holes_stay_holes_in_copies_and_bundles(project: dict[str, str] | None) -> None:
    """Apparent sizes far above every limit: what counts is what is there."""
    make = """
with open("hole", "wb") as f: f.truncate(3 << 30)
with open("island", "wb") as f: f.seek(5 << 30); f.write(b"x" * 5000); f.truncate(6 << 30)
with open("comb", "wb") as f:
    for i in range(300): f.seek(i * 20000); f.write(bytes([i % 255 + 1]) * 100)
with open("zeros", "wb") as f: f.write(bytes(8 << 20))
with open("short", "wb") as f: f.write(bytes(10))
with open("tail", "wb") as f: f.write(b"t" * 4096 + bytes(4096 * 40 + 7))
"""
    look = """{n: (os.stat(n).st_size, __import__("zlib").crc32(os.pread(f, 9000, 5 << 30) + os.pread(f, 7 << 20, 0)))
              for n in ["hole", "island", "comb", "zeros", "short", "tail"] for f in [os.open(n, 0)]}"""
    used = "os.statvfs('.').f_blocks - os.statvfs('.').f_bfree"
    with World(project=project) as w, World(project=project) as other:
        w.run(make)
        before = w.run(look)
        assert before["hole"][0] == 3 << 30
        for number in (1, 2):  # the second finds all as it was
            kept = w.keep(number)
            assert kept["flags"] & OVER == 0 and kept["bytes"] < 16 << 20
        live, shadow = w.pack(), w.pack(1)
        heads = items(live)
        assert heads == items(shadow) and len(live) < 8 << 20
        assert heads["hole"]["size"] == 0 and heads["hole"]["meta"]["length"] == 3 << 30
        assert heads["short"]["size"] == 10 and "length" not in heads["short"]["meta"]
        known = "".join(h["key"] + "\n" for h in heads.values() if h["key"]).encode()
        assert len(w.pack(1, known=known)) < 8 << 10
        w.run("with open('island', 'r+b') as f: f.seek(1 << 30); f.write(b'y')")
        w.run("with open('hole', 'r+b') as f: f.write(b'z' * (30 << 20))")
        w.restore(1)
        assert w.run(look) == before and w.run(used) * 4096 < 12 << 20
        other.unpack(live)
        assert other.run(look) == before and other.run(used) * 4096 < 12 << 20

        def le(*values: int) -> bytes:
            return b"".join(v.to_bytes(8, "little") for v in values)

        for run in ((1 << 62, 8192), (6 << 30, 8192), ((6 << 30) - 4096, 8192), (0, 0), (0, 8193)):
            bad = live.replace(le(5 << 30, 8192), le(*run), 1)  # outside of the file, or too much
            assert bad != live
            with pytest.raises(InitError) as e:
                other.unpack(bad)
            assert e.value.errno == errno.EBADMSG


def test_without_its_helper_pid_1_does_not_go_on() -> None:
    """Nobody knows what it had done: single files are served, and the next request to it ends the sandbox."""
    with World() as w:
        w.run("open('f', 'w').write('x')")
        w.keep(1)
        w.run("[os.kill(int(p), 9) for p in os.listdir('/proc') if p.isdigit() and open(f'/proc/{p}/comm').read() == "
              "'files\\n']")
        assert w.changes() == {"f": 0}
        with pytest.raises((EOFError, OSError)):
            w.restore(1)
