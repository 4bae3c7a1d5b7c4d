# SPDX-License-Identifier: Apache-2.0
"""A cell that has to be killed leaves variables and files as before it; snapshots in memory.

Each is run in the native tier and in the local one, as root and as an ordinary user.
"""

import contextlib
import hashlib
import json
import os
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lib
import pytest

MIB = 1 << 20
ENOUGH = ("--timeout", str(lib.PATIENCE / 30))  # for a cell to become deaf, and what it must have done before


@pytest.fixture(params=["native", "local"])
def tier(request: pytest.FixtureRequest, sandbox: lib.Sandbox) -> Iterator[Any]:
    sandbox.exec_options = ["--env", request.param]
    yield request.param
    sandbox.exec_options = []


@pytest.fixture
def session(sandbox: lib.Sandbox, tier: Any) -> Iterator[str]:
    """A session with x = 1 and a file of the same."""
    name = "t-" + secrets.token_hex(4)
    done = sandbox.exec("x = 1\nopen('f', 'w').write('one')", name)
    assert done["status"] == "ok" and done["state"] == "kept", done["error"]
    yield name
    sandbox.destroy(name)


def is_as_before(sandbox: lib.Sandbox, session: str) -> bool:
    done = sandbox.exec("x, open('f').read(), sorted(__import__('os').listdir())", session)
    assert done["value"] == "(1, 'one', ['f'])" and not done["restarted"], done
    return True


def covered(done: lib.Json) -> bool:
    cover = done["transaction"]
    return (cover["interpreter"], cover["workspace"]) == ("standby", "copied")


CHANGE = "x = 2\nopen('f', 'w').write('two')\nopen('g', 'w').write('g')\n"
KILLED = {
    "exit": "import os\nos._exit(3)",
    "signal": "import os\nos.kill(os.getpid(), 9)",
    "crash": "import ctypes\nctypes.string_at(0)",
    "deaf": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
    "fork bomb": "import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n"
                 "    try: os.fork()\n    except OSError: pass",
    # The interpreter stops when interrupted; its children at the limit of processes do not.
    "crowd": "import os, signal\nwhile True:\n    try: pid = os.fork()\n    except OSError: continue\n"
             "    if pid == 0:\n        signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
             "        while True: signal.pause()",
    "closed stream": "import os\nos.closerange(3, 1024)",
}


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_cell_leaves_variables_and_files_as_before(sandbox: lib.Sandbox, session: str, name: str) -> None:
    slow = name in ("deaf", "fork bomb", "crowd")
    done = sandbox.exec(CHANGE + KILLED[name], session, options=ENOUGH if slow else [])
    assert done["status"] in ("killed", "timeout"), done
    if name == "crowd" and done["state"] == "kept":  # it is not known that the limit was reached
        assert "approximate" in done["manifest"]["controls"]["resources"]["limits"]["processes"]["by"]
        return
    assert done["state"] == "rolled_back" and covered(done), done["transaction"]
    assert done["files"] == {"created": [], "modified": [], "deleted": [], "truncated": False}
    assert is_as_before(sandbox, session)


def test_without_a_transaction_the_same_is_lost(sandbox: lib.Sandbox, session: str) -> None:
    done = sandbox.exec(CHANGE + KILLED["exit"], session, options=["--no-transaction"])
    assert done["state"] == "lost"
    assert done["transaction"] == {"interpreter": "off", "workspace": "off", "notes": []}
    after = sandbox.exec("print(open('f').read())\nx", session)
    assert after["stdout"] == "two\n" and after["error"]["type"] == "NameError" and after["restarted"]


def state_of(sandbox: lib.Sandbox, session: str) -> Any:
    rows = json.loads(sandbox.cli("sessions", "list", "--json").stdout)
    return next(row["state"] for row in rows if row["name"] == session)


def test_an_interpreter_that_ends_between_cells_is_not_replaced_in_silence(sandbox: lib.Sandbox, session: str) -> None:
    """With a thread no copy stands by; then it is as if the whole sandbox had died."""
    done = sandbox.exec("import os, threading, time\nx = 2\ndef end():\n"
                        "    while not os.path.exists('go'): time.sleep(0.01)\n    os._exit(0)\n"
                        "threading.Thread(target=end).start()", session)
    assert done["state"] == "kept"
    assert sandbox.cli("put", sandbox.make_file("go", ""), session + ":").returncode == 0
    assert lib.wait_for(lambda: state_of(sandbox, session) not in ("idle", "saving"))
    with pytest.raises(lib.CliError) as refusal:
        sandbox.exec("x", session)
    assert "cell" in refusal.value.done.stderr and "--recover" in refusal.value.done.stderr
    done = sandbox.exec("x", session, options=["--recover", "checkpoint"])
    assert 2 in done["restored"]["missing"] and done["value"] != "2"


def test_one_that_ends_before_its_first_cell_is_replaced(sandbox: lib.Sandbox, tier: Any) -> None:
    """Nothing was in it: a command, which ends it, and then a cell."""
    name = "t-" + secrets.token_hex(4)
    sandbox.exec(session=name, sh="for p in /proc/[0-9]*; do case $(readlink $p/exe) in *python*) "
                                  "kill -9 ${p#/proc/} 2>/dev/null;; esac; done; true")
    with contextlib.suppress(lib.CliError):  # its copies may be gone, too
        assert sandbox.exec("1", name)["value"] == "1"
    assert sandbox.exec("2", name)["value"] == "2"
    sandbox.destroy(name)


def test_twice_and_in_the_first_cell(sandbox: lib.Sandbox, tier: Any) -> None:
    name = "t-" + secrets.token_hex(4)
    for _ in range(2):
        done = sandbox.exec("open('f', 'w').write('x')\n" + KILLED["exit"], name)
        assert done["state"] == "rolled_back" and covered(done), done["transaction"]
    assert sandbox.exec("import os; os.listdir()", name)["value"] == "[]"
    sandbox.destroy(name)


def test_errors_and_interrupts_keep_what_was_done(sandbox: lib.Sandbox, session: str) -> None:
    done = sandbox.exec(CHANGE + "1 / 0", session)
    assert (done["status"], done["state"]) == ("error", "kept")
    done = sandbox.exec("x = 3\nwhile True: pass", session, options=ENOUGH)
    assert (done["status"], done["state"]) == ("timeout", "kept")
    assert sandbox.exec("x, open('f').read()", session)["value"] == "(3, 'two')"


def test_atomic_undoes_errors(sandbox: lib.Sandbox, session: str) -> None:
    for code, status in (("1 / 0", "error"), ("import sys; sys.exit(3)", "error"), ("while True: pass", "timeout")):
        limit = ["--timeout", "0.5"] if status == "timeout" else []
        done = sandbox.exec(CHANGE + code, session, options=["--atomic", *limit])
        assert done["state"] == "rolled_back" and done["status"] == status, done
        assert done["error"]["type"] in ("ZeroDivisionError", "SystemExit", "KeyboardInterrupt")
        assert done["signal"] is None, "the kill that undoes a cell is not its end"
    assert is_as_before(sandbox, session)
    assert sandbox.exec("x = 5", session, options=["--atomic"])["state"] == "kept"
    assert sandbox.exec("x", session)["value"] == "5"


def test_commands_roll_files_back(sandbox: lib.Sandbox, session: str) -> None:
    done = sandbox.exec(sh="echo two >f; trap '' INT; while :; do :; done", session=session,
                        options=ENOUGH)
    assert (done["status"], done["state"]) == ("timeout", "rolled_back")
    assert is_as_before(sandbox, session)
    done = sandbox.exec(sh="echo two >f; exit 3", session=session, options=["--atomic"])
    assert (done["exit_code"], done["state"]) == (3, "rolled_back")
    assert is_as_before(sandbox, session)
    done = sandbox.exec(sh="echo -n two >f; exit 3", session=session)
    assert (done["exit_code"], done["state"]) == (3, "kept")
    assert sandbox.exec("x, open('f').read()", session)["value"] == "(1, 'two')"


# What is not covered is said ----------------------------------------------------------------------


def test_threads_are_named_and_atomic_is_refused_before_it_runs(sandbox: lib.Sandbox, session: str) -> None:
    sandbox.exec("import threading\nstop = threading.Event()\n"
                 "threading.Thread(target=stop.wait, name='worker', daemon=True).start()", session)
    done = sandbox.exec("x", session)
    assert done["value"] == "1" and done["transaction"]["interpreter"] == "unavailable"
    assert any("worker" in note for note in done["transaction"]["notes"])
    refused = sandbox.cli("exec", *sandbox.exec_options, "--session", session, "--atomic",
                          "open('ran', 'w').close()")
    assert refused.returncode != 0 and "worker" in refused.stderr
    assert sandbox.exec("import os; os.path.exists('ran')", session)["value"] == "False"
    done = sandbox.exec(KILLED["exit"], session)
    assert done["state"] == "lost" and "worker" in str(done["transaction"]["notes"])


def test_threads_that_have_ended_are_none(sandbox: lib.Sandbox, session: str) -> None:
    code = ("import concurrent.futures\nwith concurrent.futures.ThreadPoolExecutor(4) as pool:\n"
            "    numbers = list(pool.map(abs, range(-20, 0)))")
    for _ in range(5):
        assert sandbox.exec(code, session)["status"] == "ok"
        done = sandbox.exec("x", session)
        assert covered(done), done["transaction"]


def test_threads_of_asyncio_that_wait_for_work_are_none(sandbox: lib.Sandbox, session: str) -> None:
    for turn in range(3):
        call = f"import asyncio, time\nawait asyncio.gather(*[asyncio.to_thread(abs, -{turn}) for _ in range(3)])"
        assert sandbox.exec(call, session)["value"] == str([turn] * 3)
        done = sandbox.exec("x", session)
        assert covered(done), done["transaction"]
    left = ("import threading\nbegun = threading.Event()\ndef work():\n    begun.set()\n    time.sleep(600)\n"
            "left = asyncio.get_event_loop().run_in_executor(None, work)\nbegun.wait()")
    assert sandbox.exec(left, session)["status"] == "ok"
    done = sandbox.exec("await asyncio.to_thread(abs, -7)", session)  # the control run: one that works is not ended
    assert done["value"] == "7" and done["transaction"]["interpreter"] == "unavailable"


def test_pipes_between_cells_prevent_a_copy_and_are_no_longer_than_they_are(sandbox: lib.Sandbox, session: str) -> None:
    """A copy would hold the other end: the reader below would wait for ever."""
    sandbox.exec("import os\nr, w = os.pipe()", session)
    done = sandbox.exec("os.close(w)\nos.read(r, 1)", session)
    assert done["value"] == "b''" and done["transaction"]["interpreter"] == "unavailable"
    assert sandbox.exec("os.close(r)", session)["status"] == "ok"
    assert covered(sandbox.exec("x", session))


def test_atomic_outside_of_a_session_is_refused(sandbox: lib.Sandbox, tier: Any) -> None:
    done = sandbox.cli("exec", *sandbox.exec_options, "--atomic", "print('ran')")
    assert done.returncode != 0 and "ran" not in done.stdout and "atomic" in done.stderr


def with_word(mark: str) -> list[int]:
    """Processes that have it as an argument."""
    found = []
    for pid in lib.parents():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as text:
            found += [pid] if mark.encode() in text.read().split(b"\0") else []
    return found


def test_a_daemon_ends_with_the_cell_that_is_undone(sandbox: lib.Sandbox, session: str) -> None:
    """It is named before, and neither it nor what it writes outlives the sweep."""
    mark = secrets.token_hex(8)
    start = ("import subprocess\nsubprocess.Popen(['sh', '-c', "
             f"'setsid sh -c \"while sleep 0.05; do date >>beat; done\" {mark} &']).wait()")
    sandbox.exec(start, session)
    assert lib.wait_for(lambda: "beat" in sandbox.cli("ls", session).stdout)
    done = sandbox.exec("x", session)
    sandbox.exec("x", session)
    if sandbox.exec_options == ["--env", "native"]:  # pid 1 sees none in the local tier
        done = sandbox.exec("x", session)
        assert any("background" in note for note in done["transaction"]["notes"]), done["transaction"]
    for _ in range(20):  # a copy beside something that writes may take more than one try
        done = sandbox.exec(KILLED["exit"], session)
        if done["state"] == "rolled_back":
            break
        assert not covered(done), done
        sandbox.exec(start, session, options=["--recover", "checkpoint"])
    assert done["state"] == "rolled_back", done
    size = sandbox.exec("import os; os.path.getsize('beat')", session)["value"]
    assert lib.wait_for(lambda: not with_word(mark))
    assert sandbox.exec("import os; os.path.getsize('beat')", session)["value"] == size


# Code against its copies --------------------------------------------------------------------------

KILL_ALL = """
import os, signal, subprocess
mine = subprocess.Popen(["sleep", "1000"])
other = subprocess.Popen(["sleep", "1000"])
reached = []
for pid in sorted({*range(2, 200), mine.pid}):
    if pid not in (os.getpid(), other.pid):
        try:
            os.kill(pid, signal.SIGKILL)
            reached.append(pid)
        except OSError:
            pass
try: os.kill(-1, signal.SIGKILL)
except ProcessLookupError: pass
reached == [mine.pid], mine.wait(), other.wait()
"""


def test_no_signal_reaches_a_copy(sandbox: lib.Sandbox, session: str) -> None:
    """The same calls end the code's own processes: that is the control."""
    done = sandbox.exec(KILL_ALL, session)
    assert covered(done) and done["value"] == "(True, -9, -9)", done
    done = sandbox.exec(KILL_ALL + "x = 2\nos._exit(1)", session)
    assert done["state"] == "rolled_back"
    assert is_as_before(sandbox, session)


def test_nobody_waits_for_a_copy(sandbox: lib.Sandbox, session: str) -> None:
    code = "import os\ntry: answer = os.wait()\nexcept ChildProcessError: answer = None\nanswer"
    for _ in range(3):
        done = sandbox.exec(code, session)
        assert (done["status"], done["value"]) == ("ok", None) and covered(done)


def test_the_process_stays_the_same_one_and_keeps_nothing_of_copies(sandbox: lib.Sandbox, session: str) -> None:
    sandbox.exec("import os\ndef open_fd(fd):\n    try: return os.fstat(fd) and True\n"
                 "    except OSError: return False", session)
    seen = {sandbox.exec("os.getpid(), len([fd for fd in range(3, 1024) if open_fd(fd)])", session)["value"]
            for _ in range(5)}
    assert len(seen) == 1, seen


def test_forged_answers_make_no_copy(sandbox: lib.Sandbox, session: str) -> None:
    """It says HELD, ok, with every number that may come, while no copy is asked for."""
    code = """
import os, socket, struct
for fd in range(3, 1024):
    try: s = socket.socket(fileno=fd)
    except OSError: continue
    head = b'{"ok": true, "why": "", "written": ["forged"]}'
    for number in range(30):
        s.sendall(struct.pack("<IIIB3x", len(head), number, len(head), 36) + head)
    s.detach()
    break
x
"""
    done = sandbox.exec(code, session)
    assert done["value"] == "1", done
    for _ in range(2):
        done = sandbox.exec("x", session)
        assert covered(done) and "forged" not in str(done["transaction"])
    assert sandbox.exec(CHANGE + KILLED["exit"], session)["state"] == "rolled_back"
    assert is_as_before(sandbox, session)


def test_no_descriptor_left(sandbox: lib.Sandbox, session: str) -> None:
    done = sandbox.exec("import os\nfull = []\ntry:\n    while True: full.append(os.open('/dev/null', os.O_RDONLY))\n"
                        "except OSError: pass\nlen(full) > 10", session)
    assert done["value"] == "True"
    done = sandbox.exec("x", session)
    assert done["value"] == "1" and done["transaction"]["interpreter"] == "unavailable"
    assert sandbox.exec("for fd in full: os.close(fd)", session)["status"] == "ok"
    assert covered(sandbox.exec("x", session))


# Files and memory -----------------------------------------------------------------------------------


def test_open_files_are_where_they_were(sandbox: lib.Sandbox, tier: Any) -> None:
    name = "t-" + secrets.token_hex(4)
    sandbox.exec("open('r', 'w').write('abcdef')\nr = open('r')\nr.read(2)\n"
                 "w = open('w', 'w')\nw.write('one')\nw.flush()", name)
    done = sandbox.exec("r.read(); w.write('two'); w.flush()\n" + KILLED["exit"], name)
    assert done["state"] == "rolled_back"
    done = sandbox.exec("w.write('three'); w.flush(); (r.read(), open('w').read())", name)
    if tier == "native":
        assert done["value"] == "('cdef', 'onethree')", done
    else:  # no /proc to open them by: what was written stays, and that was said
        assert done["value"].startswith("('")
    sandbox.destroy(name)


def test_room_of_deleted_files_is_free_at_once(sandbox: lib.Sandbox) -> None:
    name = "t-" + secrets.token_hex(4)
    code = "f = open('/tmp/f', 'wb', 0)\nfor _ in range(6): f.write(bytes(1 << 20))"
    for _ in range(3):
        done = sandbox.exec(code, name, options=["--tmp-size", "8m"])
        assert done["status"] == "ok", done["error"]
        assert sandbox.exec("import os\nos.remove('/tmp/f')", name)["status"] == "ok"
    sandbox.destroy(name)


def test_files_that_were_put_stay(sandbox: lib.Sandbox, session: str) -> None:
    path = sandbox.make_file("put-" + session, "put")
    assert sandbox.cli("put", path, session + ":given").returncode == 0
    done = sandbox.exec("open('given').read()", session)
    assert done["value"] == "'put'"
    assert sandbox.cli("put", path, session + ":again").returncode == 0
    done = sandbox.exec("import os\nos.remove('given'); os.remove('again')\n" + KILLED["exit"], session)
    assert done["state"] == "rolled_back"
    assert sandbox.exec("open('given').read() + open('again').read()", session)["value"] == "'putput'"


def test_files_that_are_put_while_a_cell_runs_stay_if_it_is_undone(sandbox: lib.Sandbox, session: str) -> None:
    """Who put them has been told that they are there."""
    big = os.urandom(1 << 19) * 5  # in three parts
    paths = {"big": sandbox.make_file("big-" + session, big), "f": sandbox.make_file("f-" + session, "put"),
             "go": sandbox.make_file("go-" + session, "go")}
    code = ("import os, time\nos.close(os.open('begun', os.O_CREAT))\n"
            "while not os.path.exists('go') or not os.path.getsize('go'): time.sleep(0.01)\n"
            "assert open('f').read() == 'put'\n"
            "os.remove('f'); os.truncate('big', 7); x = 2\n" + KILLED["exit"])
    results = []
    cell = threading.Thread(target=lambda: results.append(sandbox.exec(
        code, session, options=["--timeout", "600"], timeout=4 * lib.PATIENCE)))
    cell.start()
    try:
        assert lib.wait_for(lambda: "begun" in sandbox.cli("ls", session).stdout)
        for name, path in paths.items():
            assert sandbox.cli("put", path, f"{session}:{name}").returncode == 0
    finally:
        cell.join()
    assert (results[0]["status"], results[0]["state"]) == ("killed", "rolled_back"), results
    for _ in range(2):  # and the next one that is undone does not take them along
        done = sandbox.exec("import os, hashlib\n(x, open('f').read(), sorted(os.listdir()), "
                            "hashlib.md5(open('big', 'rb').read()).hexdigest())", session)
        assert done["value"] == repr((1, "put", ["big", "f", "go"], hashlib.md5(big).hexdigest())), done
        assert sandbox.exec(CHANGE + KILLED["exit"], session)["state"] == "rolled_back"


@pytest.mark.parametrize("way", ["process", "thread"])
def test_what_is_written_between_cells_is_before_the_next_one(sandbox: lib.Sandbox, session: str, way: str) -> None:
    # If the cell takes longer than that, it is written in the cell, and less is proven.
    start = {"process": "import subprocess\np = subprocess.Popen(['/bin/sh', '-c', 'sleep 0.2; echo L >late; sleep "
                        "1000'])",
             "thread": "import threading, time\ndef late():\n    time.sleep(0.2); open('late', 'w').write('L\\n')\n"
                       "    time.sleep(1000)\nthreading.Thread(target=late, daemon=True).start()"}[way]
    assert sandbox.exec(start, session)["status"] == "ok"
    assert lib.wait_for(lambda: "late" in sandbox.cli("ls", session).stdout)
    done = sandbox.exec("open('late', 'a').write('more')\n" + KILLED["exit"], session)
    assert done["state"] == ("rolled_back" if way == "process" else "lost"), done
    assert done["transaction"]["workspace"] == "copied", done["transaction"]
    assert sandbox.exec("open('late').read()", session)["value"] == "'L\\n'"


@pytest.mark.parametrize("how", ["signal", "timeout"])
def test_a_killed_command_costs_no_variables_that_cannot_be_copied(sandbox: lib.Sandbox, session: str,
                                                                   how: str) -> None:
    """The interpreter, with a thread, has no part in what the command does."""
    code = "import threading, time\nt = threading.Thread(target=time.sleep, args=(1000,), daemon=True)\nt.start()"
    assert sandbox.exec(code, session)["status"] == "ok"
    end = {"signal": "kill -9 $$", "timeout": "trap '' INT; sleep 1000 & while :; do wait; done"}[how]
    done = sandbox.exec(sh="echo two >f; " + end, session=session, options=[] if how == "signal" else ENOUGH)
    assert (done["status"], done["state"]) == ({"signal": "killed", "timeout": "timeout"}[how], "kept"), done
    assert any("the command's files stay" in note for note in done["transaction"]["notes"]), done["transaction"]
    done = sandbox.exec("x, t.is_alive(), open('f').read()", session)
    assert (done["value"], done["restarted"]) == ("(1, True, 'two\\n')", False), done


def test_an_array_of_more_than_half_the_memory_is_changed_in_place(sandbox: lib.Sandbox) -> None:
    name = "t-" + secrets.token_hex(4)
    done = sandbox.exec("import time\na = bytearray(160 << 20)\ndef has_copy():\n"
                        "    with open('/proc/self/smaps_rollup') as text:\n"
                        "        return any(int(line.split()[1]) > 60000 for line in text if 'Shared_Dirty' in line)",
                        name, options=["--memory", "256m"])
    assert done["status"] == "ok", done["error"]
    is_counted = "cgroup" in done["manifest"]["controls"]["resources"]["limits"]["memory"]["by"]
    for turn in range(2):
        # It goes on once the tier has seen that the memory is short, however busy the machine is.
        done = sandbox.exec("for i in range(0, len(a), 4096):\n"
                            f"    a[i] = {turn}\n"
                            f"    while {is_counted} and i == 72 << 20 and has_copy(): time.sleep(0.01)\n"
                            "len(a) >> 20", name)
        assert (done["status"], done["state"], done["value"]) == ("ok", "kept", "160"), done
        if is_counted:
            # While the copy is on its way out what it holds is not counted as the code's.
            assert done["usage"]["memory_peak_bytes"] <= (256 + 64) * MIB
            assert done["transaction"]["interpreter"] in ("dropped_for_memory", "standby")
    assert sandbox.exec("a[4096]", name)["value"] == "1"
    sandbox.destroy(name)


def test_code_that_passes_the_memory_limit_is_undone(sandbox: lib.Sandbox) -> None:
    """By pages that no limit of a process counts, so that it is killed and not told."""
    name = "t-" + secrets.token_hex(4)
    sandbox.exec("x = 1\nopen('f', 'w').write('one')", name, options=["--memory", "128m"])
    done = sandbox.exec(CHANGE + """
for place in "big", "/tmp/big", "/dev/shm/big":
    try:
        with open(place, "wb") as out:
            while True:
                out.write(bytes(1 << 20))
    except OSError:
        pass
""", name)
    assert (done["status"], done["state"]) == ("oom", "rolled_back"), done
    assert is_as_before(sandbox, name)
    sandbox.destroy(name)


def test_forks_of_the_same_moment_draw_other_numbers(sandbox: lib.Sandbox, session: str) -> None:
    draw = "open(place, 'a').write(f'{random.random()}\\n')\n"
    sandbox.exec("import os, random\nrandom.seed(1)\nplace = os.environ['TMPDIR'] + '/n'", session)
    for _ in range(2):
        assert sandbox.exec(draw + "os._exit(1)", session)["state"] == "rolled_back"
    numbers = sandbox.exec("open(place).read().split()", session)["value"]  # not undone: not the workspace
    assert len(set(eval(numbers))) == 2, numbers


# Many cells -----------------------------------------------------------------------------------------


def census(box: lib.Sandbox) -> tuple[int, int]:
    daemon = lib.some(box.tier_pid())
    pids = [daemon, *lib.descendants(daemon)]
    fds = 0
    for pid in pids:
        try:
            fds += len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            pass
    return len(pids), fds


def is_as_small(after: tuple[int, int], before: tuple[int, int]) -> bool:
    return after[0] <= before[0] and after[1] <= before[1] + 8


@pytest.mark.slow
def test_hundreds_of_cells_leave_nothing_behind(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox("root", env={"SNIPARA_SANDBOX_POOL": "0"})  # nothing that comes and goes
    code = b"x = globals().get('x', 0) + 1\nx"

    def run(client: lib.Client, count: int) -> lib.Json:
        for _ in range(count):
            _, done, _, _ = client.call("exec", code, session="many", kind="python", code_len=len(code),
                                        durability="process")
            assert done["state"] == "kept" and covered(done), done
        return done

    with box.client() as client:
        run(client, 100)
        before = lib.settled(lambda: census(box))
        memory = client.call("sessions.show", session="many")[1]["memory_bytes"]
        done = run(client, 300)
        assert done["value"] == "400"
        assert lib.wait_for(lambda: is_as_small(census(box), before)), (before, census(box))
        grown = client.call("sessions.show", session="many")[1]["memory_bytes"] - memory
        assert grown < 8 * MIB, grown


# The tier's methods ---------------------------------------------------------------------------------


class Tier:
    """A tier program, asked by hand (docs/wire.md)."""

    def __init__(self, program: str, state: str) -> None:
        mine, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [os.path.join(lib.BUILD, program), "--state", state],
            preexec_fn=lambda: os.dup2(theirs.fileno(), 3), pass_fds=[3], stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "HOME": "/root", "SNIPARA_SANDBOX_POOL": "0"})
        theirs.close()
        self.client = lib.Client.__new__(lib.Client)
        self.client.sock = mine
        self.client.sock.settimeout(2 * lib.PATIENCE)
        self.client.last = 0
        self.session = secrets.token_hex(16)
        self.cells = 0
        self.ends: dict[int, tuple[int, lib.Json]] = {}
        self.ok("open", session=self.session, env={}, limits={}, lasting=True, epoch=1)

    def ok(self, method: str, **head: Any) -> Any:
        kind, answer = self.answer(self.client.send({"method": method, **head}))
        assert kind == lib.RESPONSE, answer
        return answer

    def error(self, method: str, **head: Any) -> Any:
        kind, answer = self.answer(self.client.send({"method": method, **head}))
        assert kind == lib.ERROR, answer
        return answer

    def start(self, code: str, epoch: int, number: int | None = None) -> int:
        """Send a cell; the id of its request."""
        self.cells += 1
        text = code.encode()
        return self.client.send({"method": "exec", "session": self.session, "cell": number or self.cells,
                                 "kind": "python", "code_len": len(text), "wall_ms": 600_000, "epoch": epoch}, text)

    def answer(self, ident: int) -> Any:
        """The end of that request; other frames are kept out."""
        while ident not in self.ends:
            kind, got, head, _ = self.client.recv()
            if kind in (lib.RESPONSE, lib.ERROR):
                self.ends[got] = kind, head
        return self.ends.pop(ident)

    def run(self, code: str, epoch: int = 1) -> Any:
        kind, head = self.answer(self.start(code, epoch))
        assert kind == lib.RESPONSE, head
        return head

    def close(self) -> None:
        self.client.sock.close()
        try:
            self.process.wait(lib.PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def names(self) -> list[Any]:
        return [entry["name"] for entry in self.ok("ls", session=self.session, path=".")["entries"]]


@pytest.fixture(params=["tier-native", "tier-local"])
def by_hand(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tier]:
    made = Tier(request.param, str(tmp_path / "state"))
    yield made
    made.close()


def test_snapshots_are_gone_back_to_and_dropped(by_hand: Tier) -> None:
    tier = by_hand
    tier.run("x = 1\nopen('f', 'w').write('one')")
    first = tier.ok("snapshot", session=tier.session)["branch"]
    tier.run("x = 2\nopen('f', 'w').write('two')")
    second = tier.ok("snapshot", session=tier.session)["branch"]
    assert second > first
    tier.run("x = 3")
    for number, epoch, value in ((first, 2, "(1, 'one')"), (second, 3, "(2, 'two')"), (first, 4, "(1, 'one')")):
        tier.ok("rollback", session=tier.session, branch=number, epoch=epoch)
        done = tier.run("x, open('f').read()", epoch)
        assert done["value"] == value and done["epoch"] == epoch and covered(done)
    tier.ok("drop", session=tier.session, branch=second)
    assert tier.error("rollback", session=tier.session, branch=second, epoch=5)["code"] == "not_found"
    assert tier.run("x", 4)["value"] == "1"


def test_many_rollbacks_are_no_flood_of_frames(by_hand: Tier) -> None:
    """Each new interpreter says that it is ready, to no cell."""
    tier = by_hand
    tier.run("x = 1")
    branch = tier.ok("snapshot", session=tier.session)["branch"]
    for epoch in range(2, 82):
        tier.ok("rollback", session=tier.session, branch=branch, epoch=epoch)
        done = tier.run("x += 1\nx", epoch)
        assert done["value"] == "2" and not done["restarted"] and covered(done), epoch


def test_another_epoch_is_refused(by_hand: Tier) -> None:
    tier = by_hand
    tier.run("x = 1")
    branch = tier.ok("snapshot", session=tier.session)["branch"]
    tier.ok("rollback", session=tier.session, branch=branch, epoch=2)
    kind, head = tier.answer(tier.start("x = 'late'", 1))
    assert kind == lib.ERROR and head["code"] == "invalid"
    assert tier.run("x", 2)["value"] == "1"


DEAF = """
import os, signal, threading, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
if os.fork() == 0:
    os.setsid()
    while True:
        open('late', 'a').write('late')
        time.sleep(0.01)
x = 'late'
while True: pass
"""

LATE = """
import os, socket, struct, time
for fd in range(3, 1024):
    try: s = socket.socket(fileno=fd)
    except OSError: continue
    break
x = 'late'
open('late', 'w').close()
head = b'{"status": "ok", "value": "late", "result": null, "error": null, "exit_code": null}'
while True:
    for number in range(1, 20):
        try: s.sendall(struct.pack("<IIIB3x", len(head), number, len(head), 35)[:7])
        except OSError: pass
    time.sleep(0.01)
"""


@pytest.mark.parametrize("code", [DEAF, LATE], ids=["deaf", "late"])
def test_an_executor_that_will_not_die_is_dead_before_the_next_runs(by_hand: Tier, code: str) -> None:
    tier = by_hand
    tier.run("x = 1\nopen('f', 'w').write('one')")
    branch = tier.ok("snapshot", session=tier.session)["branch"]
    running = tier.start(code, 1)
    assert lib.wait_for(lambda: "late" in tier.names() or running in tier.ends)  # or it was found out
    asked = tier.client.send({"method": "rollback", "session": tier.session, "branch": branch, "epoch": 2})
    kind, head = tier.answer(running)
    assert kind == lib.RESPONSE and (head["state"], head["epoch"]) == ("rolled_back", 1), head
    kind, head = tier.answer(asked)
    assert kind == lib.RESPONSE, head
    done = tier.run("import os\nx, sorted(os.listdir())", 2)
    assert done["value"] == "(1, ['f'])" and done["epoch"] == 2
    time.sleep(0.2)  # nothing comes after what a dead process does not write
    assert tier.run("sorted(os.listdir())", 2)["value"] == "['f']"


def test_no_snapshot_while_a_cell_runs_or_of_threads(by_hand: Tier) -> None:
    tier = by_hand
    tier.run("import threading, time")
    running = tier.start("import os\nwhile not os.path.exists('go'): time.sleep(0.02)", 1)
    assert tier.error("snapshot", session=tier.session)["code"] == "limit"
    tier.ok("put", session=tier.session, path="go", offset=0, truncate=True, mode=0o644)
    assert tier.answer(running)[1]["status"] == "ok"
    tier.run("threading.Thread(target=time.sleep, args=(100,), daemon=True, name='sleeper').start()")
    error = tier.error("snapshot", session=tier.session)
    assert error["code"] == "unsupported" and "sleeper" in error["message"]


def test_so_many_snapshots_and_no_more(by_hand: Tier) -> None:
    tier = by_hand
    for turn in range(64):
        tier.run(f"x = {turn}")
        tier.ok("snapshot", session=tier.session)
    tier.run("x = 64")
    assert tier.error("snapshot", session=tier.session)["code"] == "limit"
    tier.ok("rollback", session=tier.session, branch=1, epoch=1)
    assert tier.run("x")["value"] == "0"


LOCKS = {
    "flock": "import fcntl\nheld = open('f')\nfcntl.flock(held, fcntl.LOCK_SH)",
    "fcntl": "import fcntl\nheld = open('f', 'r+')\nfcntl.lockf(held, fcntl.LOCK_EX)",
    "SQLite": "import sqlite3\nheld = sqlite3.connect('g')\nheld.execute('create table t(x)')\n"
              "held.execute('insert into t values (1)')",
}


@pytest.mark.parametrize("kind", sorted(LOCKS))
def test_locks_on_files_are_named_and_atomic_is_refused_before_it_runs(
    sandbox: lib.Sandbox, session: str, kind: str
) -> None:
    """A copy would believe that it holds them: two connections of SQLite would write at once."""
    assert sandbox.exec(LOCKS[kind], session)["status"] == "ok"
    done = sandbox.exec("x", session)
    assert done["value"] == "1" and done["transaction"]["interpreter"] == "unavailable", done
    assert any("locks on files are held: " in note for note in done["transaction"]["notes"]), done
    refused = sandbox.cli("exec", *sandbox.exec_options, "--session", session, "--atomic",
                          "open('ran', 'w').close()")
    assert refused.returncode != 0 and "locks on files" in refused.stderr
    assert sandbox.exec("import os; os.path.exists('ran')", session)["value"] == "False"
    assert sandbox.exec("held.close()", session)["status"] == "ok"
    assert covered(sandbox.exec("x", session))


def test_processes_in_the_background_cost_no_cell_its_interpreter(sandbox: lib.Sandbox, session: str) -> None:
    """The code stands still while its files are copied. gVisor hangs up a process group in which one process stands
    still when another ends, whether or not a terminal or a session has ended."""
    loop = "trap '' HUP; while :; do sleep 0.01; done"
    start = f"import subprocess\nshells = [subprocess.Popen(['sh', '-c', {loop!r}]) for _ in range(3)]"
    assert sandbox.exec(start, session)["state"] == "kept"
    for turn in range(2, 17):
        done = sandbox.exec("x += 1\nx, [shell.poll() for shell in shells]", session)
        assert (done["status"], done["value"]) == ("ok", f"({turn}, [None, None, None])"), done
    assert sandbox.exec("for shell in shells: shell.kill()", session)["status"] == "ok"


def test_a_hangup_that_code_sends_ends_it(sandbox: lib.Sandbox, session: str) -> None:
    done = sandbox.exec("import os, signal\nos.kill(os.getpid(), signal.SIGHUP)", session)
    assert (done["status"], done["state"]) == ("killed", "rolled_back"), done
    assert is_as_before(sandbox, session)


def test_handlers_that_raise_all_the_time_disturb_no_copy(sandbox: lib.Sandbox, session: str) -> None:
    """Copies are made while alarms come, and what is rolled back to has its signals."""
    sandbox.exec(lib.LATE, session)
    sandbox.exec("signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)", session)
    for _ in range(60):
        done = sandbox.exec("x", session)
        assert done["state"] == "kept" and (done["error"] or {"type": "TimeoutError"})["type"] == "TimeoutError", done
    while sandbox.exec("signal.setitimer(signal.ITIMER_REAL, 0)", session)["error"]:
        pass
    done = sandbox.exec(KILLED["exit"], session)
    assert done["state"] == "rolled_back", done
    assert sandbox.exec("x, signal.pthread_sigmask(signal.SIG_BLOCK, ())", session)["value"] == "(1, set())"
