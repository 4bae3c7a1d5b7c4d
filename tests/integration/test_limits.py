# SPDX-License-Identifier: Apache-2.0
"""Each limit at its value and above it, met by a real program; what the result says; who else notices."""

import json
import os
import random
import subprocess
import time
from ast import literal_eval
from collections.abc import Callable, Iterator
from typing import Any

import lib
import pytest

MIB = 1 << 20
ENOUGH_S = lib.PATIENCE / 30  # for a cell to become deaf to interrupts


@pytest.fixture
def open_session(sandbox: lib.Sandbox) -> Iterator[Callable[..., str]]:
    """open_session(options) makes a session with x = 1 and a file; its name."""
    names = []

    def make(*options: str) -> str:
        name = f"limit{time.monotonic_ns()}"
        done = sandbox.exec("x = 1\nopen('kept', 'w').write('k')", name, options=options)
        assert done["status"] == "ok", done["error"]
        names.append(name)
        return name

    yield make
    for name in names:
        sandbox.destroy(name)


def named_limits(done: lib.Json) -> set[Any]:
    """Keys of the limits the result names, from the limit itself and from its denials."""
    keys = {done["limit"]["key"]} if done["limit"] else set()
    return keys | {d["rule"].split()[0] for d in done["denials"] if d["source"] == "limit"}


def guest_rules(done: lib.Json) -> set[Any]:
    return {d["rule"] for d in done["denials"] if d["source"] == "guest" and d["control"] == "resources"}


def has_cgroup(done: lib.Json, limit: str) -> bool:
    return "cgroup" in done["manifest"]["controls"]["resources"]["limits"][limit]["by"]


def still_usable(sandbox: lib.Sandbox, session: str, state: str) -> bool:
    """The session answers; its variables are there unless they were lost; its file is."""
    done = sandbox.exec("print(open('kept').read())\nx", session)
    assert done["stdout"] == "k\n"
    if state in ("kept", "rolled_back"):
        assert done["value"] == "1" and not done["restarted"]
    else:
        assert done["error"]["type"] == "NameError" and done["restarted"]
    return True


# Wall clock -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["while True: pass", "import time\ntime.sleep(100)",
                                  "import threading\nthreading.Event().wait()",
                                  "import subprocess\nsubprocess.run(['sleep', '100'])",
                                  "import asyncio\nawait asyncio.sleep(100)"])
def test_timeout_interrupts_and_keeps_state(sandbox: lib.Sandbox, open_session: Callable[..., str], code: str) -> None:
    session = open_session()
    done = sandbox.exec(code, session, options=["--timeout", "0.4"])
    assert (done["status"], done["state"]) == ("timeout", "kept")
    assert done["limit"] == {"key": "timeout", "value": 400, "text": "0.4 s", "flag": "--timeout"}
    assert done["error"]["type"] == "KeyboardInterrupt"
    assert done["usage"]["wall_us"] >= 400_000
    still_usable(sandbox, session, "kept")


@pytest.mark.parametrize("code", [
    "while True:\n    try:\n        for i in range(10 ** 9): pass\n    except BaseException: pass",
    "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
    "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\ntime.sleep(100)",
    "import hashlib\nhashlib.pbkdf2_hmac('sha256', b'p', b's', 1 << 30)",
])
def test_code_that_does_not_stop_is_killed_after_the_grace(sandbox: lib.Sandbox, open_session: Callable[..., str],
                                                           code: str) -> None:
    session = open_session()
    done = sandbox.exec("print('before', flush=True)\n" + code, session, options=["--timeout", str(ENOUGH_S)])
    assert (done["status"], done["state"], done["limit"]["key"]) == ("timeout", "rolled_back", "timeout")
    assert done["stdout"] == "before\n"
    assert done["usage"]["wall_us"] > (ENOUGH_S + 0.9) * 1e6  # the grace is a second
    still_usable(sandbox, session, "rolled_back")


def test_timeout_above_the_time_needed(sandbox: lib.Sandbox) -> None:
    assert sandbox.exec("import time\ntime.sleep(0.7)", options=["--timeout", "600"])["status"] == "ok"
    assert sandbox.exec("import time\ntime.sleep(600)", options=["--timeout", "0.6"])["status"] == "timeout"


@pytest.mark.parametrize("line, state", [("sleep 100", "ok"), ("trap '' INT; while :; do :; done", "killed")])
def test_timeout_of_commands(sandbox: lib.Sandbox, open_session: Callable[..., str], line: str, state: str) -> None:
    session = open_session()
    done = sandbox.exec(sh=line, session=session, options=["--timeout", "0.3" if state == "ok" else str(ENOUGH_S)])
    assert done["status"] == "timeout" and done["limit"]["key"] == "timeout"
    assert done["state"] == ("kept" if state == "ok" else "rolled_back")
    assert done["signal"] == ("SIGINT" if state == "ok" else "SIGKILL")
    still_usable(sandbox, session, "kept")


@pytest.mark.parametrize("flag, value", [
    ("--timeout", "601"), ("--timeout", "0.04"), ("--timeout", "-1"), ("--timeout", "x"), ("--cpus", "0"),
    ("--memory", "1m"), ("--memory", "-5"), ("--processes", "0"), ("--open-files", "3"), ("--output", "99"),
    ("--tmp-size", "1k"), ("--workspace-size", "1"), ("--workspace-files", "9"), ("--file-size", "1"),
])
def test_values_out_of_range_start_nothing(sandbox: lib.Sandbox, flag: str, value: str) -> None:
    done = sandbox.cli("exec", flag, value, "print('ran')")
    assert done.returncode == 2 and done.stdout == "" and flag in done.stderr


# CPU ------------------------------------------------------------------------------------------


def test_cpus_bound_the_time_on_processors(sandbox: lib.Sandbox) -> None:
    """CPU time by the wall clock, of more busy processes than the limit admits."""
    code = """
import multiprocessing, os, time
def burn(end):
    while time.monotonic() < end: pass
    return sum(os.times()[:2])
start = time.monotonic()
with multiprocessing.Pool(3) as pool:
    used = sum(pool.map(burn, [start + 2] * 3, chunksize=1))
used, used / (time.monotonic() - start)
"""
    half = sandbox.exec(code, options=["--cpus", "0.5"])
    ratio = literal_eval(half["value"])[1]
    if has_cgroup(half, "cpus"):
        assert ratio < 0.65
        assert half["usage"]["cpu_us"] / half["usage"]["wall_us"] < 0.65
    else:
        assert ratio < 1.15  # bound to one whole processor, as the manifest says
        assert any("cpus" in text for text in half["manifest"]["degraded"])
    one = sandbox.exec(code, options=["--cpus", "1"])
    used, ratio = literal_eval(one["value"])
    assert ratio < 1.2 and one["usage"]["cpu_us"] > 0.8e6 * used > 0


def test_processors_of_a_session_change_at_once(sandbox: lib.Sandbox, open_session: Callable[..., str]) -> None:
    session = open_session("--cpus", "2")
    done = json.loads(sandbox.cli("sessions", "set", session, "--cpus", "0.1", "--json").stdout)
    code = "from time import *\ns, e = time(), process_time() + 0.3\nwhile process_time() < e: pass\ntime() - s"
    busy = sandbox.exec(code, session)
    assert done["limits"]["cpus_milli"] == 100 and done["at_wake"] == ([] if has_cgroup(busy, "cpus") else ["cpus"])
    assert not has_cgroup(busy, "cpus") or float(busy["value"]) > 1
    still_usable(sandbox, session, "kept")


def test_unused_time_on_processors_may_be_used_a_little_later(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    """As much as one period's, where the kernel can (5.14): quick cells after a pause need not wait."""
    box = fresh_sandbox("root", env={"SNIPARA_SANDBOX_POOL": "0"})
    if not has_cgroup(box.exec("1", "s", options=["--cpus", "0.5"]), "cpus"):
        pytest.skip("no control group for processors")
    seen = set()
    for pid in lib.descendants(lib.some(box.tier_pid())):
        with open(f"/proc/{pid}/cgroup") as text:
            groups = {line.split(":")[1]: line.rstrip().split(":", 2)[2] for line in text}
        v1 = next((f"/sys/fs/cgroup/cpu{path}" for names, path in groups.items() if "cpu" in names.split(",")), None)
        knobs = ("cpu.cfs_quota_us", "cpu.cfs_burst_us") if v1 else ("cpu.max", "cpu.max.burst")
        folder = v1 or "/sys/fs/cgroup" + groups[""]
        if not os.path.exists(f"{folder}/{knobs[1]}"):
            continue  # an older kernel, or the root
        values = []
        for knob in knobs:
            with open(f"{folder}/{knob}") as file:
                values.append(file.read().split()[0])
        seen.add(tuple(values))
    assert not seen or ("50000", "50000") in seen


def test_cpu_time_of_a_cell_is_its_own(sandbox: lib.Sandbox, open_session: Callable[..., str]) -> None:
    session = open_session()
    busy = sandbox.exec("import time\ne = time.process_time() + 0.3\nwhile time.process_time() < e: pass", session)
    idle = sandbox.exec("time.sleep(0.2)", session)
    assert 250_000 < busy["usage"]["cpu_us"] < 1_500_000
    assert idle["usage"]["cpu_us"] < 150_000 and idle["usage"]["wall_us"] >= 200_000


# Memory ---------------------------------------------------------------------------------------

FILL = "b = bytearray({0} << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nlen(b) >> 20"


def test_memory_just_under_the_limit(sandbox: lib.Sandbox) -> None:
    # it is held for a while: without a cgroup the peak is what a sample saw
    code = FILL.format(100) + "\nimport time\ntime.sleep(1.5)\nlen(b) >> 20"
    done = sandbox.exec(code, options=["--memory", "128m"])
    assert (done["status"], done["value"]) == ("ok", "100"), done["error"]
    assert 80 * MIB < done["usage"]["memory_peak_bytes"] <= 128 * MIB


def test_memory_over_the_limit(sandbox: lib.Sandbox, open_session: Callable[..., str]) -> None:
    session = open_session("--memory", "64m")
    done = sandbox.exec(FILL.format(100), session)
    assert done["status"] in ("oom", "error")
    if done["status"] == "oom":
        assert done["state"] == "rolled_back" and done["limit"]["key"] == "memory"
        assert done["limit"]["value"] == 64 * MIB and done["limit"]["flag"] == "--memory"
    else:  # refused by the allocator before it was touched
        assert done["error"]["type"] == "MemoryError" and "memory" in guest_rules(done)
        assert done["state"] == "kept"
    still_usable(sandbox, session, done["state"])


@pytest.mark.parametrize("code", [
    "l = []\nwhile True: l.append(' ' * 1000 + str(len(l)))",
    "x = b'x'\nwhile True: x += x",
    "import mmap\nl = []\nwhile True:\n    l.append(mmap.mmap(-1, 1 << 20)); l[-1].write(bytes(1 << 20))",
    "import os\nf = os.open('/dev/shm/f', os.O_CREAT | os.O_WRONLY)\nwhile True: os.write(f, bytes(1 << 20))",
    "f = open('/tmp/f', 'wb')\nwhile True: f.write(bytes(1 << 20))",
    "f = open('/workspace/f', 'wb')\nwhile True: f.write(bytes(1 << 20))",
    "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        b = bytearray(20 << 20)\n"
    "        for i in range(0, len(b), 4096): b[i] = 1\n        time.sleep(600); os._exit(0)\n"
    "os.wait()\ntime.sleep(0.5)",
])
def test_memory_bombs(sandbox: lib.Sandbox, open_session: Callable[..., str], code: str) -> None:
    """Whatever takes the memory, it ends; the session answers afterwards and says what it lost."""
    session = open_session("--memory", "64m", "--tmp-size", "150m", "--workspace-size", "150m")
    done = sandbox.exec(code, session, options=["--timeout", "300"], timeout=6 * lib.PATIENCE)
    if has_cgroup(done, "memory"):
        assert "memory" in named_limits(done) | guest_rules(done)
    else:
        # Approximate, as the manifest says: files in memory have limits of their own.
        assert any("memory: approximate" in text for text in done["manifest"]["degraded"])
        assert {"memory", "tmp_size", "workspace_size"} & (named_limits(done) | guest_rules(done))
    assert done["usage"]["memory_peak_bytes"] <= 64 * MIB or not has_cgroup(done, "memory")
    after = sandbox.exec("1 + 1", session)
    if after["status"] != "ok":  # the workspace itself may fill what there is
        assert "memory" in named_limits(after)
    else:
        assert after["value"] == "2" and after["restarted"] == (done["state"] == "lost")


# Processes ------------------------------------------------------------------------------------


def test_processes_at_and_above_the_limit(sandbox: lib.Sandbox, open_session: Callable[..., str]) -> None:
    session = open_session("--processes", "8")
    code = """
import os, time
def fork(n):
    pids = []
    try:
        for _ in range(n):
            pid = os.fork()
            if pid == 0: time.sleep(600); os._exit(0)
            pids.append(pid)
    finally:
        for pid in pids: os.kill(pid, 9); os.waitpid(pid, 0)
    return len(pids)
fork({})
"""
    done = sandbox.exec(code.format(7), session)  # with the interpreter that makes 8
    assert (done["status"], done["value"]) == ("ok", "7"), done["error"]
    # Where none counts refusals, being at the limit may be taken for one.
    assert named_limits(done) <= (set() if has_cgroup(done, "processes") else {"processes"})
    done = sandbox.exec(code.format(12), session)
    assert done["error"]["type"] == "BlockingIOError" and "processes" in guest_rules(done)
    assert "processes" in named_limits(done) or not has_cgroup(done, "processes")
    still_usable(sandbox, session, "kept")


def test_threads_count_as_processes(sandbox: lib.Sandbox, open_session: Callable[..., str]) -> None:
    session = open_session("--processes", "8")
    code = ("import threading\ne = threading.Event()\nt = [threading.Thread(target=e.wait) for _ in range({})]\n"
            "try:\n    for one in t: one.start()\nfinally:\n    e.set()\nlen(t)")
    assert sandbox.exec(code.format(7), session)["value"] == "7"
    done = sandbox.exec(code.format(12), session)
    assert done["error"]["type"] == "RuntimeError" and "processes" in guest_rules(done) | named_limits(done)
    still_usable(sandbox, session, "kept")


@pytest.mark.parametrize("call", [
    {"code": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"},
    {"sh": "f() { f | f & }; f; sleep 5"},
])
def test_fork_bomb(sandbox: lib.Sandbox, open_session: Callable[..., str], call: dict[str, Any]) -> None:
    session = open_session("--processes", "30")
    done = sandbox.exec(session=session, options=["--timeout", str(lib.PATIENCE / 20)], **call)
    assert done["status"] in ("timeout", "ok", "error", "killed")
    assert "processes" in named_limits(done) or not has_cgroup(done, "processes")
    # What runs on from a shell's background is found and ended by a cell that is killed.
    after = sandbox.exec("1 + 1", session, options=["--timeout", "5"])
    assert after["value"] == "2" or after["status"] in ("timeout", "killed")
    assert sandbox.exec("2 + 2")["value"] == "4"


# Files ----------------------------------------------------------------------------------------

WRITE = "f = open('{0}', 'wb', 0)\nfor _ in range({1}): f.write(bytes(1 << 20))\nf.tell() >> 20"


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("flag, key, place", [
    ("--tmp-size", "tmp_size", "/tmp/f"), ("--tmp-size", "tmp_size", "/dev/shm/f"),
    ("--workspace-size", "workspace_size", "/workspace/f"),
])
def test_space(sandbox: lib.Sandbox, open_session: Callable[..., str], flag: str, key: str, place: str) -> None:
    session = open_session(flag, "8m")
    fits = 8 if key == "tmp_size" else 7  # there is a small file in the workspace already
    done = sandbox.exec(WRITE.format(place, fits), session)
    assert (done["status"], done["value"]) == ("ok", str(fits)), done["error"]
    done = sandbox.exec(WRITE.format(place, 9), session)
    assert "No space left" in done["error"]["message"] and key in named_limits(done)
    way = f"Delete files, or raise the limit {key}: snipara-sandbox sessions set {session} {flag} SIZE"
    assert {done["error"]["hint"], *(denial["hint"] for denial in done["denials"])} == {way}, done
    shown = sandbox.cli("exec", *sandbox.exec_options, "-s", session, WRITE.format(place + "2", 9)).stderr
    assert shown.count("hint: ") == 1, shown
    sandbox.exec(f"import os\nos.remove('{place}2')", session)
    done = sandbox.exec(sh=f"dd if=/dev/zero of={place} bs=1M count=20", session=session)
    assert done["exit_code"] == 1 and key in named_limits(done)
    assert sandbox.exec(f"import os\nos.remove('{place}')", session)["status"] == "ok"
    assert sandbox.exec(WRITE.format(place, fits), session)["status"] == "ok"
    still_usable(sandbox, session, "kept")


@pytest.mark.parametrize("project", [False, True])
def test_inodes_of_the_workspace(sandbox: lib.Sandbox, project: bool) -> None:
    options = ["--workspace-files", "50"]
    if project:
        options += ["--project", sandbox.make_folder("inodes")]
    name = f"inodes{project}"
    code = "for i in range({}): open(f'f{{i}}', 'w').close()"
    done = sandbox.exec(code.format(50), name, options=options)
    assert done["status"] == "ok" and len(done["files"]["created"]) == 50, done["error"]
    done = sandbox.exec(code.format(60), name)
    assert "No space left" in done["error"]["message"] and "workspace_files" in named_limits(done)
    sandbox.destroy(name)


def test_files_beyond_the_memory_are_refused(sandbox: lib.Sandbox, open_session: Callable[..., str]) -> None:
    """Whoever writes them: the session stays, and so does what is in it."""
    session = open_session("--memory", "96m", "--workspace-size", "512m")
    first = sandbox.exec("x = 42", session)
    done = sandbox.exec(sh="head -c 128000000 /dev/zero >f", session=session)
    assert named_limits(done) | guest_rules(done) == {"memory"} and "No space left" in done["stderr"]
    assert sandbox.exec("import os\nx, os.remove('f')", session)["value"] == "(42, None)"
    if not has_cgroup(first, "memory"):
        pytest.skip("nobody counts the memory between cells here")
    assert sandbox.exec("kept = b'x' * (50 << 20)", session)["status"] == "ok"
    put = sandbox.cli("put", "-", f"{session}:large", input=bytes(128 << 20), text=False)
    assert put.returncode == 1 and b"memory is full (limit 96 MiB)" in put.stderr and b"--memory" in put.stderr
    done = sandbox.exec("import os\nx, os.path.getsize('large') > 10 << 20, os.remove('large')", session)
    assert done["value"] == "(42, True, None)" and done["epoch"] == 1
    assert sandbox.cli("put", "-", f"{session}:small", input="x").returncode == 0


@pytest.mark.needs("namespaces")
def test_memory_is_named_where_it_allows_less_than_the_workspace_size(
        sandbox: lib.Sandbox, open_session: Callable[..., str]) -> None:
    session = open_session("--memory", "256m")
    shown = sandbox.cli("sessions", "show", session).stdout
    assert "; 1 GiB is set, but memory allows less" in shown and "next wake" not in shown, shown
    failed = sandbox.exec(WRITE.format("f", 256), session)["error"]
    way = f"snipara-sandbox sessions set {session} --memory SIZE"
    assert failed["hint"] == "Delete files, or raise the limit memory: " + way, failed
    failed = sandbox.exec(WRITE.format("f", 256), options=["--memory", "256m"])["error"]
    assert failed["hint"] == "Delete files, or raise --memory.", failed
    assert sandbox.cli("sessions", "set", session, "--workspace-size", "2g").returncode == 0
    assert "; 2 GiB at the next wake" in sandbox.cli("sessions", "show", session).stdout


def test_a_command_goes_before_the_interpreter(sandbox: lib.Sandbox, open_session: Callable[..., str]) -> None:
    session = open_session("--memory", "128m")
    if not has_cgroup(sandbox.exec("kept = bytearray(b'x') * (70 << 20)", session), "memory"):
        pytest.skip("nobody counts the memory of all processes here")
    # The kernel lets a program begin a moment before others may say that it goes first.
    done = sandbox.exec(sh="until [ $(cat /proc/$$/oom_score_adj) -gt 0 ]; do sleep 0.01; done; "
                           "python3 -c 'len(bytearray(b\"x\") * (80 << 20))'; exit $?", session=session)
    assert done["status"] != "ok" and "memory" in named_limits(done), done
    assert sandbox.exec("len(kept)", session)["value"] == str(70 << 20)


def test_file_size(sandbox: lib.Sandbox, open_session: Callable[..., str]) -> None:
    session = open_session("--file-size", "3m")
    done = sandbox.exec(WRITE.format("f", 3), session)
    assert (done["status"], done["value"]) == ("ok", "3")
    done = sandbox.exec(WRITE.format("f", 4), session)
    assert done["error"]["type"] == "OSError" and "file size" in guest_rules(done)
    assert "--file-size" in done["error"]["hint"]
    assert sandbox.exec("import os\nos.path.getsize('f')", session)["value"] == str(3 * MIB)
    done = sandbox.exec(argv=["dd", "if=/dev/zero", "of=g", "bs=1M", "count=5"], session=session)
    assert (done["status"], done["signal"]) == ("killed", "SIGXFSZ") and "file_size" in named_limits(done)
    still_usable(sandbox, session, "kept")


@pytest.mark.parametrize("limit", [16, 64, 300])
def test_open_files(sandbox: lib.Sandbox, open_session: Callable[..., str], limit: int) -> None:
    session = open_session("--open-files", str(limit))
    code = ("import os\nfds = []\ntry:\n    while len(fds) < 1000: fds.append(os.open('/dev/null', os.O_RDONLY))\n"
            "finally:\n    n = len(fds)\n    for fd in fds: os.close(fd)\nn")
    done = sandbox.exec(code, session)
    assert "Too many open files" in done["error"]["message"] and "open files" in guest_rules(done)
    left = int(sandbox.exec("n", session)["value"])
    assert limit - 12 <= left <= limit - 3
    assert sandbox.exec(sh="ulimit -n; ulimit -Hn", session=session)["stdout"] == f"{limit}\n{limit}\n"
    done = sandbox.exec("import os\nwhile True: os.dup(0)", session)
    assert done["error"]["type"] == "OSError"
    assert sandbox.exec("x", session)["value"] == "1"  # even with none left


# Output ---------------------------------------------------------------------------------------


def full_text(sandbox: lib.Sandbox, handle: str, stream: str = "stdout") -> bytes:
    done = sandbox.cli("output", handle, *(["--stderr"] if stream == "stderr" else []), text=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("unit", ["abcdefghij", "äöüßéèçñåø", "€日本語テスト漢字仮", "𝄞😀𝕏🎉🐍🚀🌍🔥💡🎲"])
def test_output_at_and_above_the_limit(sandbox: lib.Sandbox, open_session: Callable[..., str], unit: str) -> None:
    session = open_session("--output", "1000")
    assert len(unit) == 10
    done = sandbox.exec(f"print('{unit}' * 100, end='')", session)
    assert done["stdout"] == unit * 100 and done["limit"] is None
    assert done["output"] == {"truncated": False, "stdout_chars": 1000, "stderr_chars": 0, "handle": None}
    code = f"print(''.join(f'{{i:03}}{unit[:7]}' for i in range(300)), end='')"
    text = "".join(f"{i:03}{unit[:7]}" for i in range(300))
    done = sandbox.exec(code, session)
    assert done["stdout"].startswith(text[:500]) and done["stdout"].endswith(text[-500:])
    assert len(done["stdout"]) < 1200 and "2000" in done["stdout"][500:-500].replace(",", "")
    assert done["limit"]["key"] == "output" and done["status"] == "ok"
    assert done["output"]["truncated"] and done["output"]["stdout_chars"] == 3000
    assert full_text(sandbox, done["output"]["handle"]) == text.encode()


def test_one_character_over_the_limit(sandbox: lib.Sandbox) -> None:
    done = sandbox.exec("import sys\nprint('x' * 1000, file=sys.stderr)", options=["--output", "1000"])
    assert done["output"]["truncated"] and done["output"]["stderr_chars"] == 1001


@pytest.mark.parametrize("byte", [0x80, 0xff, 0xe2, 0x00])
def test_bytes_that_are_no_text_are_limited_too(sandbox: lib.Sandbox, open_session: Callable[..., str],
                                                byte: int) -> None:
    session = open_session("--output", "1000")
    done = sandbox.exec(f"import os\nfor _ in range(100): os.write(1, bytes([{byte}]) * 10_000)", session)
    assert done["output"]["truncated"] and len(done["stdout"]) < 1200
    assert done["output"]["stdout_chars"] == 1_000_000
    assert full_text(sandbox, done["output"]["handle"]) == bytes([byte]) * 1_000_000


def test_full_output_of_both_streams_byte_for_byte(sandbox: lib.Sandbox, open_session: Callable[..., str]) -> None:
    session = open_session()
    code = ("import random, os\nr = random.Random(1)\nfor _ in range(40):\n"
            "    os.write(1, r.randbytes(r.randrange(30_000)))\n    os.write(2, r.randbytes(r.randrange(20_000)))")
    r = random.Random(1)
    out, err = b"", b""
    for _ in range(40):
        out += r.randbytes(r.randrange(30_000))
        err += r.randbytes(r.randrange(20_000))
    done = sandbox.exec(code, session)
    assert done["usage"]["stdout_bytes"] == len(out) and done["usage"]["stderr_bytes"] == len(err)
    handle = done["output"]["handle"]
    assert full_text(sandbox, handle) == out and full_text(sandbox, handle, "stderr") == err


@pytest.mark.parametrize("call", [
    {"sh": "yes"},
    {"code": "import os\nline = b'x' * (1 << 20)\nwhile True: os.write(1, line)"},
    {"code": "import os\nwhile True: os.write(2, b'\\x80' * 65536)"},
    {"code": "class R:\n    def _repr_png_(self): return bytes(6 << 20)\nwhile True: display(R())"},
])
def test_floods(sandbox: lib.Sandbox, open_session: Callable[..., str], call: dict[str, Any]) -> None:
    session = open_session()
    done = sandbox.exec(session=session, options=["--timeout", "1"], **call)
    assert done["status"] in ("timeout", "killed") and len(done["stdout"]) < 101_000
    assert done["state"] == "kept" or done["status"] == "killed" or "display" in call.get("code", "")
    assert sandbox.exec("1 + 1", session)["value"] == "2"


def test_a_line_of_a_gibibyte(sandbox: lib.Sandbox, open_session: Callable[..., str]) -> None:
    session = open_session()
    done = sandbox.exec("import os\nfor _ in range(1024): os.write(1, b'x' * (1 << 20))", session,
                        options=["--timeout", "600"], timeout=12 * lib.PATIENCE)
    assert done["status"] == "ok" and done["output"]["stdout_chars"] == 1 << 30
    assert done["stdout"][:50_000] == "x" * 50_000 == done["stdout"][-50_000:]
    still_usable(sandbox, session, "kept")


# Others are not disturbed ---------------------------------------------------------------------


@pytest.mark.parametrize("bomb", [
    {"code": "while True: pass"},
    {"code": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"},
    {"sh": "yes"},
    {"code": "while True:\n    open('f', 'wb').write(bytes(8 << 20))"},
], ids=["busy", "fork", "yes", "disk"])
def test_another_session_answers_while_one_is_bombed(sandbox: lib.Sandbox, open_session: Callable[..., str],
                                                     bomb: dict[str, str]) -> None:
    victim, bomber = open_session(), open_session("--workspace-size", "64m")
    running = sandbox.popen(*sandbox.exec_args(bomber, ["--timeout", "600"], sh=bomb.get("sh")),
                            stdin=subprocess.PIPE, text=True)
    try:
        lib.some(running.stdin).write(bomb.get("code") or bomb["sh"])
        lib.some(running.stdin).close()
        assert lib.wait_for(lambda: "running" in sandbox.cli("sessions", "show", bomber).stdout)
        for _ in range(12):
            assert sandbox.exec("1 + 1", victim)["value"] == "2"
        assert running.poll() is None, lib.some(running.stdout).read()  # each was answered beside it
        sandbox.destroy(bomber)
        assert running.wait(lib.PATIENCE) != 0
    finally:
        running.kill()
        running.stdin = None
        running.communicate()


def test_the_manifest_tells_every_limit(sandbox: lib.Sandbox) -> None:
    limits = sandbox.exec("1")["manifest"]["controls"]["resources"]["limits"]
    values = {key: row["value"] for key, row in limits.items()}
    assert values == {"timeout": 30_000, "cpus": 1000, "memory": 512 * MIB, "processes": 64, "tmp_size": 64 * MIB,
                      "workspace_size": 448 * MIB, "workspace_files": 100_000, "file_size": 512 * MIB,
                      "open_files": 256, "output": 100_000}
    assert all(row["by"] for row in limits.values())


@pytest.mark.parametrize("how", ["destroy", "clear", "hibernated", "unnamed"])
def test_a_full_output_ends_with_its_session(sandbox: lib.Sandbox, open_session: Callable[..., str], how: str) -> None:
    session = None if how == "unnamed" else open_session()
    other = open_session()

    def cut(name: str | None) -> str:
        return str(sandbox.exec("print('x' * 200_000)", name)["output"]["handle"])

    handles, kept = [cut(session)], cut(other)
    if how == "unnamed":  # which has ended already
        assert full_text(sandbox, handles[0]) == b"x" * 200_000 + b"\n"
        return
    assert session is not None
    if how == "hibernated":  # it wakes in another sandbox, and ends asleep
        for _ in range(2):
            assert sandbox.cli("hibernate", session).returncode == 0
            handles.append(cut(session))
        assert sandbox.cli("hibernate", session).returncode == 0
    for handle in handles:
        assert full_text(sandbox, handle) == b"x" * 200_000 + b"\n"
    sandbox.cli("sessions", "clear" if how == "clear" else "destroy", session)
    for handle in handles:
        done = sandbox.cli("output", handle)
        assert done.returncode == 1 and "no full stdout is kept" in done.stderr, done
    assert full_text(sandbox, kept) == b"x" * 200_000 + b"\n"
    if how == "clear":  # cell 1 again
        assert full_text(sandbox, cut(session)) == b"x" * 200_000 + b"\n"
