# SPDX-License-Identifier: Apache-2.0
"""Sessions that last, in real sandboxes: what is there again after each kind of death."""

import json
import os
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

import engine as engines
import lib

SOON = ("--checkpoint-after", "0.1")
STATE = """
import math, dataclasses, os
@dataclasses.dataclass
class Point:
    x: int
def total(n):
    return sum(seen) + n
seen = [1, 2]
point = Point(5)
with open('file', 'w') as out:
    out.write('kept')
os.link('file', 'same')
"""
LOOK = "seen, total(1), point.x, math.tau > 6, open('file').read(), os.stat('same').st_nlink"
SEEN = "([1, 2], 4, 5, True, 'kept', 2)"


FORKED = ["root native", "user native", "user local"]
forked = pytest.mark.parametrize("box", FORKED, indirect=True, scope="function")


@pytest.fixture(params=[*FORKED, "root docker"])
def box(request: pytest.FixtureRequest, fresh_sandbox: Callable[..., lib.Sandbox]) -> lib.Sandbox:
    who, tier = request.param.split()
    return fresh_sandbox(who, tier=tier)


def listed(box: lib.Sandbox, name: str = "s") -> Any:
    rows = json.loads(box.cli("sessions", "list", "--json").stdout)
    return next((row for row in rows if row["name"] == name), None)


def cells(box: lib.Sandbox) -> list[lib.Json]:
    shown = json.loads(box.cli("history", "s", "--json").stdout)
    return list(shown["cells"] if isinstance(shown, dict) else shown)


def saved(box: lib.Sandbox, cell: int) -> None:
    assert lib.wait_for(lambda: listed(box)["checkpoint_cell"] == cell), box.log()


def restart(box: lib.Sandbox, *options: str) -> None:
    os.kill(lib.some(box.daemon).pid, signal.SIGKILL)
    lib.some(box.daemon).wait()
    box.daemon = None
    box.start(*options)


def test_variables_functions_and_files_survive_daemon_and_tier(box: lib.Sandbox) -> None:
    box.start(*SOON)
    box.exec(STATE, "s")
    saved(box, 1)
    os.kill(lib.some(box.tier_pid()), signal.SIGKILL)
    assert lib.wait_for(lambda: listed(box)["state"] == "hibernated")
    done = box.exec(LOOK, "s")
    assert done["value"] == SEEN and done["epoch"] == 2, done
    assert done["restored"]["cell"] == 1 and done["restored"]["missing"] == [] and done["restored"]["failed"] == []
    saved(box, 2)
    restart(box, *SOON)
    assert listed(box)["state"] == "hibernated"
    done = box.exec(LOOK, "s")
    assert done["value"] == SEEN and done["epoch"] == 3, done
    # Functions of before see what is assigned now; and what pid 1 does on the way is no denial.
    again = box.exec("seen = [10]\nopen('file', 'a').close()\ntotal(1)", "s")
    assert again["value"] == "11" and done["denials"] + again["denials"] == []


def test_an_end_in_order_saves_and_hibernation_is_invisible(box: lib.Sandbox) -> None:
    box.start("--checkpoint-after", "600")
    box.exec(STATE, "s")
    assert box.stop() == 0
    box.start("--session-idle", "0.5", *SOON)
    assert box.exec(LOOK, "s")["value"] == SEEN
    assert lib.wait_for(lambda: listed(box)["state"] == "hibernated"), box.log()
    done = box.exec(LOOK, "s")
    assert done["value"] == SEEN and done["restored"]["missing"] == []


def test_a_save_that_fails_gives_the_reason(box: lib.Sandbox) -> None:
    box.start("--checkpoint-after", "600")
    box.exec("kept = []\ntry:\n    while True: kept.append(open('/etc/passwd'))\nexcept OSError: pass", "s")
    done = box.cli("checkpoint", "-s", "s")
    assert done.returncode == 0 or "could not be saved: OSError: Too many open files" in done.stderr, done
    box.exec("kept.clear()", "s")
    assert box.cli("checkpoint", "-s", "s").returncode == 0


@pytest.mark.parametrize("env", [{}, {"SNIPARA_SANDBOX_NO_CGROUP": "1"}], ids=["cgroups", "watched"])
@pytest.mark.parametrize("who", ["root", "user"])
def test_most_of_the_memory_comes_back(fresh_sandbox: Callable[..., lib.Sandbox], who: str, env: lib.Json) -> None:
    """A large object is read into its place: it is in memory once, however the limit is enforced."""
    box = fresh_sandbox(who, env=env)
    box.start("--checkpoint-after", "600")
    box.exec("big = bytes(200 << 20); texts = ['z' * 99] * 9", "s", ["--memory", "256m"])
    slept = box.cli("hibernate", "s")
    assert slept.returncode == 0, slept
    done = box.exec("len(big) >> 20, len(set(map(id, texts)))", "s")
    assert done["value"] == "(200, 1)" and done["restored"]["failed"] == [], done


# Limits --------------------------------------------------------------------------------------


def limits(box: lib.Sandbox, name: str = "s") -> Any:
    return json.loads(box.cli("sessions", "show", name, "--json").stdout)["limits"]


def test_limits_of_a_session_change(box: lib.Sandbox) -> None:
    """Limits of the next wake are named; then they apply, also in a memory image, after kill -9, in forks."""
    fill = "b = bytearray(b'x') * (150 << 20); len(b)"
    box.start("--checkpoint-after", "600")
    box.exec("x = 1\nrest = (i for i in range(9))", "s", ["--memory", "128m", "--timeout", "5"])
    done = box.cli("exec", *box.exec_options, "-s", "s", "--memory", "1g", "1")
    assert done.returncode == 2 and "snipara-sandbox sessions set s --memory 1g" in done.stderr, done
    answer = json.loads(box.cli("sessions", "set", "s", "--memory", "512m", "--timeout", "60", "--json").stdout)
    assert (answer["was"]["memory_bytes"], answer["was"]["timeout_ms"]) == (128 << 20, 5000), answer
    assert (answer["limits"], answer["at_wake"], answer["state"]) == (limits(box), ["memory"], "idle")
    assert (limits(box)["memory_bytes"], limits(box)["timeout_ms"]) == (512 << 20, 60000)
    hints = []
    for done in (box.cli("exec", "-s", "s", fill), box.cli("exec", "-s", "s", "--json", fill)):
        assert done.returncode == 1 and "sessions set" not in done.stderr + done.stdout, done
        hints.append("The new limit memory applies at the next wake: snipara-sandbox hibernate s" in done.stderr)
    assert hints == [True, False] and json.loads(done.stdout)["at_wake"] == ["memory"], (hints, done)
    assert "128 MiB" in (shown := box.cli("sessions", "show", "s").stdout) and "; 512 MiB at the next wake" in shown
    assert box.cli("hibernate", "s").returncode == 0
    woken = box.exec(fill, "s")
    assert woken["value"] == str(150 << 20) and "at_wake" not in woken
    # A limit is lowered only if the data fit: of an idle session, of one that sleeps, and after a running cell.
    for step in "idle", "asleep", "running":
        if step == "asleep":
            assert box.cli("hibernate", "s").returncode == 0
        cell = box.popen("exec", "-s", "s", "import time; time.sleep(2)") if step == "running" else None
        assert cell is None or lib.wait_for(lambda: listed(box)["state"] == "running")
        done = box.cli("sessions", "set", "s", "--memory", "64m")
        assert done.returncode == 1 and "the limits of session s are unchanged" in done.stderr, done
        assert re.search(r"a trial restore failed: .* \(memory used: [0-9.]+ MiB\)", done.stderr), done
        assert limits(box)["memory_bytes"] == 512 << 20 and (cell is None or cell.wait() == 0)
    box.exec("del b", "s")
    done = box.cli("sessions", "set", "s", "--memory", "64m")
    assert done.stdout == "memory: 512 MiB -> 64 MiB, at the next wake\n" and "next: " in done.stderr, done
    restart(box)
    assert box.exec(fill, "s")["error"]["type"] == "MemoryError"
    # A sleeping session is woken to lower a limit, not to raise one.
    assert box.cli("hibernate", "s").returncode == 0
    assert box.cli("sessions", "set", "s", "--memory", "256m", "--processes", "65").returncode == 0
    assert listed(box)["state"] == "hibernated"
    assert box.cli("sessions", "set", "s", "--processes", "63").returncode == 0 and listed(box)["state"] == "idle"
    fork = box.cli("fork", "s", "--name", "f").stdout.strip()
    assert (limits(box, fork)["memory_bytes"], limits(box, fork)["processes"]) == (256 << 20, 63)


# Moving --------------------------------------------------------------------------------------


def move(box: lib.Sandbox, tier: str, *options: str) -> Any:
    return box.cli("sessions", "move", "s", "--to", tier, *options)


@pytest.mark.parametrize("who, other", [("root", "local"), ("user", "local"), ("root", "docker")])
def test_a_session_moves_and_comes_back(who: str, other: str, request: pytest.FixtureRequest,
                                        fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox(who, env=engines.env_for(request, other))
    box.start("--checkpoint-after", "600")
    box.exec(STATE, "s")
    assert box.cli("snapshot", "first", "-s", "s").returncode == 0  # in memory, until it moves
    for turn, tier in enumerate((other, "native")):
        done = move(box, tier)
        assert done.returncode == 0 and done.stdout.startswith("Moved s from "), done
        assert done.stderr == "" and listed(box)["state"] == "hibernated", done
        if turn == 0:
            restart(box)
        assert listed(box)["tier"] == tier
        cell = box.exec(f"point.x += 1\n{LOOK.replace('point.x', 'point.x - 1 - ' + str(turn))}", "s")
        assert (cell["value"], cell["manifest"]["tier"], cell["epoch"]) == (SEEN, tier, 2 + turn), cell
        assert cell["restored"]["missing"] == cell["restored"]["failed"] == []
    # One that is asleep is not woken for it.
    assert box.cli("hibernate", "s").returncode == 0
    assert json.loads(move(box, other, "--json").stdout) == {
        "moved": True, "from": "native", "to": other, "cell": 3, "lost": []}
    assert listed(box)["epoch"] == 3
    assert box.cli("rollback", "s@first").returncode == 0
    cell = box.exec(LOOK, "s")
    assert (cell["value"], cell["manifest"]["tier"]) == (SEEN, other), cell
    assert [row["epoch"] for row in cells(box)][-3:] == [3, 2, 1]


def test_a_session_moves_while_cells_are_queued(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox()
    box.start("--checkpoint-after", "600")
    box.exec("n = 0", "s")
    for tier, sleeps in (("local", False), ("native", True)):
        if sleeps:
            assert box.cli("hibernate", "s").returncode == 0
        with box.popen("sessions", "move", "s", "--to", tier, text=True) as moving:
            while moving.poll() is None:
                box.exec("n += 1", "s")
            assert moving.returncode == 0, moving.communicate()
    cell = box.exec("n", "s")
    assert cell["value"] == str(cell["cell"] - 2) and cell["manifest"]["tier"] == "native", cell


def test_what_cannot_move_is_named_and_stays(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox()
    box.start("--checkpoint-after", "600")
    box.exec("import os\nx = 1\nrest = (i for i in range(9))\nnext(rest)", "s")
    pid = box.exec("os.getpid()", "s")["value"]
    done = move(box, "local")
    assert done.returncode == 1 and "cannot move: rest (generator)" in done.stderr and "--yes" in done.stderr, done
    assert json.loads(move(box, "local", "--json").stdout)["lost"][0]["name"] == "rest"
    for tier, words in (("native", "is already in the native tier"), ("docker", "no container engine answers"),
                        ("auto", "not to auto"), ("vm", "vm"), ("mars", "'mars'")):
        done = move(box, tier)
        assert done.returncode != 0 and words in done.stderr and len(done.stderr.splitlines()) <= 2, done
    with box.popen("exec", "-s", "s", "--timeout", "600", "print('in', flush=True)\nimport time\ntime.sleep(600)",
                   text=True) as client:
        assert lib.some(client.stdout).readline() == "in\n"
        with box.popen("sessions", "move", "s", "--to", "local", text=True) as waiting:  # waits for its turn
            assert waiting.poll() is None and listed(box)["state"] == "running"
            client.send_signal(signal.SIGINT)
            client.wait(lib.PATIENCE)
            assert "cannot move: rest (generator)" in waiting.communicate()[1]
    # All of that has left it as it was: the same process, which goes on.
    cell = box.exec("os.getpid(), next(rest)", "s")
    assert (cell["value"], cell["epoch"]) == (f"({pid}, 1)", 1), cell
    done = move(box, "local", "--yes")
    assert done.returncode == 0 and "left behind: rest" in done.stderr, done
    assert box.exec("x, 'rest' in globals()", "s")["value"] == "(1, False)"
    # What it was promised when it was opened holds there too; cells that are missing are asked about first.
    box.exec("x = 2", "exact", options=["--require-exact"])
    done = box.cli("sessions", "move", "exact", "--to", "local")
    assert done.returncode == 1 and "cannot move session exact to local" in done.stderr, done
    assert box.exec("x", "exact")["epoch"] == 1
    restart(box)
    done = box.cli("sessions", "move", "exact", "--to", "local")
    assert done.returncode == 1 and "missing: cell" in done.stderr, done


def test_a_cell_that_was_running_is_unknown_and_asked_about(box: lib.Sandbox) -> None:
    box.start(*SOON)
    box.exec(STATE, "s")
    saved(box, 1)
    with box.popen("exec", *box.exec_options, "--session", "s", "--timeout", "600",
                   "print('in', flush=True)\nseen.append(3)\nimport time\ntime.sleep(600)", text=True) as client:
        assert lib.some(client.stdout).readline() == "in\n"
        assert lib.wait_for(lambda: len(cells(box)) == 2)  # its intent is in the journal
        restart(box, *SOON)
        assert "the next call restores the session, or names the cells that are missing" in client.communicate()[1]
    assert listed(box)["state"] == "unknown"
    asked = box.cli("exec", *box.exec_options, "--session", "s", "seen")
    assert asked.returncode == 1 and "cell 2" in asked.stderr and "--recover replay" in asked.stderr
    assert "session s was last saved after cell 1; missing: cell 2" in asked.stderr.replace("\n  ", "; "), asked
    assert [cell["status"] for cell in cells(box)] == ["unknown", "ok"]
    done = box.exec(LOOK, "s", options=["--recover", "checkpoint"])
    assert done["value"] == SEEN and done["restored"]["missing"] == [2]


def test_cells_after_the_checkpoint_are_run_again_on_demand(box: lib.Sandbox) -> None:
    box.start("--checkpoint-after", "600")
    box.exec("seen = [1]", "s")
    assert box.cli("checkpoint", "s").returncode == 0
    box.exec("seen.append(2)", "s")
    box.exec(sh="echo three > file", session="s")
    box.exec("import os; print('a' * 150000 + 'same' + 'b' * 150000)", "s")
    box.exec("print('a' * 150000 + os.urandom(8).hex() + 'b' * 150000)", "s")
    box.exec("open('drawn', 'w').write(os.urandom(8).hex()); open('large', 'wb').write(b'x' * (9 << 20))", "s")
    restart(box, "--checkpoint-after", "600")
    done = box.exec("seen, open('file').read()", "s", options=["--recover", "replay"])
    assert done["value"] == "([1, 2], 'three\\n')" and done["restored"]["replayed"] == [2, 3, 4, 5, 6]
    assert [(row["name"], row["reason"]) for row in done["restored"]["failed"]] == [
        ("cell 5", "its replay differs from its first run: stdout"),  # in the part that is not shown
        ("cell 6", "its replay differs from its first run: contents of drawn"),
        ("cell 6", "contents of files not compared with its first run: large")]


@forked
def test_a_stopped_supervisor_is_replaced(box: lib.Sandbox) -> None:
    box.start("--tier-timeout", str(lib.PATIENCE / 6), *SOON)
    box.exec(STATE, "s")
    saved(box, 1)
    tier = lib.some(box.tier_pid())
    os.kill(tier, signal.SIGSTOP)
    failed = box.cli("exec", *box.exec_options, "--session", "s", "--timeout", "0.1", "1")
    assert failed.returncode == 1
    assert lib.wait_for(lambda: not lib.is_alive(tier))
    done = box.exec(LOOK, "s", options=["--recover", "checkpoint"])
    assert done["value"] == SEEN and done["epoch"] == 2


def test_what_would_not_come_back_keeps_it_awake(box: lib.Sandbox) -> None:
    """One number under 4,000,000 places is as many numbers when it comes back: more than the limit."""
    box.start("--checkpoint-after", "600")
    code = "b = [1.5] * 4000000; keep = [1]\nwith open('file', 'w') as out: out.write('kept')"
    assert box.exec(code, "s", options=["--memory", "128m"])["status"] == "ok"
    done = box.cli("hibernate", "s")
    assert done.returncode != 0 and "could not be restored when tried" in done.stderr, done
    assert box.exec("len(b)", "s")["value"] == "4000000"
    assert box.exec("import os\nx = os.urandom(8 << 20)", "fine", options=["--memory", "128m"])["status"] == "ok"
    done = box.cli("daemon", "stop")
    assert "fine" not in done.stderr, "tried, and well"
    assert (done.returncode == 0 and "will be lost" in done.stderr + done.stdout or
            "not be restored" in done.stderr), done
    lib.some(box.daemon).wait()
    box.daemon = None
    box.start()
    woken = box.exec("keep, open('file').read()", "s")
    assert woken["value"] == "([1], 'kept')" and "b" in [one["name"] for one in woken["restored"]["failed"]]


@forked
def test_a_cell_that_could_not_be_saved_says_so(box: lib.Sandbox) -> None:
    code = "class K:\n    def __reduce__(self):\n        import os\n        os._exit(1)\nk = K()"
    done = box.cli("exec", *box.exec_options, "--session", "s", "--checkpoint", "cell", code)
    assert done.returncode == 0 and "not saved: this cell could not be saved" in done.stderr, done


@forked
@pytest.mark.parametrize("when", ["after", "idle"])
def test_the_next_call_does_not_wait_for_a_save(box: lib.Sandbox, when: str) -> None:
    """Its pickle is done when the file is there that the next call makes: in the session's workspace, which it sees."""
    code = ("class K:\n    def __reduce__(self):\n        import os, time\n"
            "        while not os.path.exists('go'): time.sleep(0.01)\n        return list, ()\nk = K()")
    box.start("--checkpoint-after", "0.05" if when == "idle" else "600")
    assert box.cli("exec", *box.exec_options, "--session", "s", "--checkpoint", when, code).returncode == 0
    box.exec("open('go', 'w').close()", "s")
    saved(box, 2)
    restart(box)
    done = box.exec("k", "s")
    assert done["value"] == "[]" and not done["restored"]["failed"], done


@pytest.mark.parametrize("box", ["root native", "user native"], indirect=True, scope="function")
def test_a_copy_that_is_saved_makes_room_for_a_cell(box: lib.Sandbox) -> None:
    """Beside the copy these cells would meet the limit, by themselves they do not; and they are saved in their turn."""
    options = "--memory", "300m", "--checkpoint", "after", "--timeout", "600"
    grown = "b = bytearray(b'x') * ({} << 20)"  # the one grows while the copy waits for a file that it makes
    slow = ("class K:\n    def __reduce__(self):\n        import os, time\n"
            "        while not os.path.exists('go'): time.sleep(0.01)\n        return list, ()\nk = K()\n")
    slowly = ("import time\nm = []\nfor i in range(170): m.append(b'x' * (1 << 20)); time.sleep(0.01)\n"
              "m = open('go', 'w').close()")
    change = "for i in range(0, len(b), 4096): b[i] += 1\n"
    for name, before, cell in (("s", slow + grown.format(60), change + slowly),
                               ("t", grown.format(120), change + "len(bytearray(b))")):
        box.exec(before, name, options)
        done = box.exec(cell, name, ["--timeout", "600"])
        assert done["status"] == "ok" and done["cell"] == 2, done
        assert lib.wait_for(lambda: listed(box, name)["checkpoint_cell"] == 2), box.log()


def test_what_cannot_be_saved_is_named(box: lib.Sandbox) -> None:
    box.start(*SOON)
    box.exec("numbers = (n for n in range(9))\nkept = 1", "s")
    saved(box, 1)
    slept = box.cli("hibernate", "s")
    assert slept.returncode == 0 and "numbers (generator)" in slept.stderr, slept
    done = box.exec("kept, 'numbers' in globals()", "s")
    if box.tier == "native":  # its memory was saved, too
        assert done["value"] == "(1, True)" and done["restored"]["image"], done
        return
    assert done["value"] == "(1, False)"
    assert [item["name"] for item in done["restored"]["failed"]] == ["numbers"], done["restored"]
    assert "generator" in json.dumps(done["restored"]["failed"])


def test_a_rollback_right_after_a_snapshot_leaves_that_whole(box: lib.Sandbox) -> None:
    """Its copy on disk is being written while everything else of the session is killed."""
    for turn in range(3):
        box.exec(f"n = {turn}", "s")
        assert box.cli("snapshot", f"a{turn}", "-s", "s").returncode == 0
        box.exec(f"n = {turn} + 100", "s")
        assert box.cli("snapshot", f"b{turn}", "-s", "s").returncode == 0
        assert box.cli("rollback", f"a{turn}").returncode == 0, box.log()
        done = box.cli("rollback", f"b{turn}")
        assert done.returncode == 0, done.stderr + box.log()
        assert box.exec("n", "s")["value"] == str(turn + 100)


def test_background_processes_are_named_and_what_they_wrote_is_saved(box: lib.Sandbox) -> None:
    box.start(*SOON)
    box.exec(sh="(sleep 0.5; echo L >late; sleep 4321) & :", session="s")
    saved(box, 1)
    assert lib.wait_for(lambda: "late" in box.cli("ls", "s").stdout)
    assert "background processes (process): " in box.cli("hibernate", "s").stderr
    done = box.exec("open('late').read()", "s")
    assert done["value"] == "'L\\n'" and done["epoch"] == 2, done
    assert [lost["name"] for lost in done["restored"]["failed"]] == ["background processes"], done["restored"]


@forked
def test_a_session_with_background_processes_does_not_hibernate_by_itself(box: lib.Sandbox) -> None:
    box.start(*SOON, "--session-idle", "0.5")
    box.exec(sh="sleep 4321 & :", session="s")
    box.exec("1", "other")
    assert lib.wait_for(lambda: listed(box, "other")["state"] == "hibernated"), box.log()
    assert lib.wait_for(lambda: "hibernate-not" in box.log())
    below = {pid for pid in lib.descendants(lib.some(box.daemon).pid) if lib.program_of(pid) == "sleep"}
    assert listed(box)["state"] in ("idle", "saving") and len(below) == 1, below
    os.kill(below.pop(), signal.SIGKILL)
    # Once it has ended nothing keeps the session awake, although nobody called it.
    assert lib.wait_for(lambda: listed(box)["state"] == "hibernated"), box.log()


@forked
def test_what_is_in_tmp_is_named_when_it_has_gone(box: lib.Sandbox) -> None:
    """A checkpoint has /workspace only. That keeps no session awake, but is told, of files that were put there too."""
    box.start(*SOON, "--session-idle", "0.5")
    box.exec("import os, tempfile\nopen(os.path.expanduser('~/.cached'), 'w').close()\n"
             "with open(tempfile.gettempdir() + '/t', 'w') as out: print('t', file=out)", "s")
    assert lib.wait_for(lambda: listed(box)["state"] == "hibernated"), box.log()
    done = box.exec("os.listdir(tempfile.gettempdir()) + os.listdir(os.path.expanduser('~'))", "s")
    assert done["value"] == "['.home']", done
    assert done["restored"]["failed"] == [
        {"name": "/tmp", "type": "folder", "reason": "entries: 1; only /workspace is saved"}], done["restored"]
    assert lib.wait_for(lambda: listed(box)["state"] == "hibernated"), box.log()
    assert box.exec("1", "s")["restored"]["failed"] == []


def test_clear_leaves_nothing_of_before(box: lib.Sandbox) -> None:
    box.start(*SOON)
    box.exec(STATE, "s")
    saved(box, 1)
    assert box.cli("sessions", "clear", "s").returncode == 0
    done = box.exec("import os\n'seen' in globals(), os.listdir('.')", "s")
    assert done["value"] == "(False, [])"


@forked
def test_what_snapshots_hold_is_measured_and_bounded(box: lib.Sandbox) -> None:
    """What a snapshot still has and the session no longer: the oldest beyond the bound is on disk only."""
    box.start("--snapshots-memory", "100m", "--checkpoint-after", "600")

    def where() -> list[Any]:
        return [item["where"] for item in json.loads(box.cli("snapshots", "list", "--json").stdout)["snapshots"]]

    for value in (1, 2):
        box.exec(f"a = bytearray(b'{value}') * (60 << 20)", "s")
        assert box.cli("snapshot", "-s", "s", "--wait").returncode == 0
    assert lib.wait_for(lambda: 45 << 20 < listed(box)["snapshots_bytes"] < 90 << 20), listed(box)
    assert where() == [["memory", "disk"]] * 2
    box.exec("a = bytearray(b'3') * (60 << 20)", "s")
    assert box.cli("snapshot", "-s", "s", "--wait").returncode == 0
    assert lib.wait_for(lambda: where() == [["disk"], ["memory", "disk"], ["memory", "disk"]]), listed(box)


FILL = """
import os
x%d = os.urandom(2 << 20)
open('f%d', 'wb').write(os.urandom(2 << 20))
print(os.urandom(1 << 20).hex())
"""


def test_full_outputs_follow_a_changed_budget() -> None:
    """An eighth of it in each tier: of those that run at once, of others when they start."""
    sandbox = lib.Sandbox(env={"SNIPARA_SANDBOX_JOURNAL_BUDGET": "64m"})

    def loud(*tier: str) -> int:
        done = sandbox.cli("exec", *tier, "-s", "loud" + "".join(tier[1:]), "--json", "print('x' * (12 << 20))")
        handle = json.loads(done.stdout)["output"]["handle"]
        return len(sandbox.cli("output", handle).stdout)

    def stored() -> int:
        return sum(os.path.getsize(os.path.join(folder, name))
                   for folder, _, names in os.walk(sandbox.state) for name in names
                   if os.path.basename(folder) == "out")

    try:
        assert loud() == stored() == 8 << 20
        assert sandbox.cli("gc", "--journal-budget", "16m").returncode == 0
        assert lib.wait_for(lambda: stored() == 0)
        assert loud() == loud("--env", "local") == 2 << 20
        assert sandbox.cli("gc", "--journal-budget", "256m").returncode == 0
        assert loud() == loud("--env", "local") == (12 << 20) + 1
    finally:
        sandbox.close()


@pytest.mark.parametrize("budget", ["24m", pytest.param("0", marks=pytest.mark.slow)])
def test_the_state_folder_keeps_to_its_budget(budget: str) -> None:
    """Whatever fills it: cells, outputs, files, snapshots, checkpoints; with a control that has no budget."""
    top = 0
    sandbox = lib.Sandbox(env={"SNIPARA_SANDBOX_TEMPLATE_IMAGES": "0", "SNIPARA_SANDBOX_JOURNAL_BUDGET": budget})
    try:
        said = set()
        for i in range(6):
            for args in (["exec", "-s", f"s{i % 4}", "--checkpoint", "cell", FILL % (i, i)],
                         ["exec", "-s", f"s{i % 4}", "# " + os.urandom(50_000).hex()],
                         ["snapshot", "-s", f"s{i % 4}", "--wait"],
                         ["exec", "-s", "loud", "print(open('/dev/urandom', 'rb').read(2 << 20).hex())"]):
                done = sandbox.cli(*args)
                said |= {done.stderr} if done.returncode else set()
            used = sum(os.lstat(os.path.join(d, f)).st_blocks * 512
                       for d, _, files in os.walk(sandbox.state) for f in files)
            top = max(top, used)
        assert all("budget" in text for text in said), said
        assert any(text.startswith("snipara-sandbox snapshot:") for text in said) == (budget != "0"), said
        sandbox.cli("exec", "-s", "s0", "much = os.urandom(20 << 20)")
        done = sandbox.cli("checkpoint", "-s", "s0")
        assert ("reached its budget" in done.stderr and "JOURNAL_BUDGET" in done.stderr) == (budget != "0"), done
        lowered = sandbox.cli("sessions", "set", "s0", "--processes", "50")
        assert lowered.returncode == 0 and lowered.stdout.startswith("processes: 64 -> 50"), lowered
        assert ("not tested whether session s0 fits" in lowered.stderr) == (budget != "0"), lowered
        for i in range(34 if budget != "0" else 0):  # at the budget no file is taken that could not be saved
            put = sandbox.cli("put", sandbox.make_file("small", os.urandom(700_000 + 10_000 * i)), f"loud:small{i}")
            if put.returncode:
                break
            sandbox.cli("checkpoint", "-s", "loud")
        assert budget == "0" or put.returncode == 1 and "reached its budget" in put.stderr, put
        # There are ways out, and what was acknowledged is there until one is taken.
        if budget != "0":
            assert "gc --journal-budget" in done.stderr and sandbox.cli("checkpoint", "-s", "s0").returncode == 1
            assert sandbox.cli("gc", "--journal-budget", "256m").returncode == 0
            assert sandbox.cli("checkpoint", "-s", "s0").returncode == 0
            assert sandbox.cli("export", sandbox.home + "/s0.snp", "s0").returncode == 0
            assert sandbox.cli("gc", "--journal-budget", "15m").returncode != 0
        names = {row["name"] for row in json.loads(sandbox.cli("sessions", "list", "--json").stdout)}
        assert {"s0", "s1", "s2", "s3", "loud"} <= names
        assert sandbox.cli("sessions", "destroy", "--all").returncode == 0
        assert lib.wait_for(lambda: sandbox.cli("exec", "-s", "new", "1").returncode == 0)
    finally:
        sandbox.close()
    assert (top <= 24 << 20) == (budget != "0"), top
