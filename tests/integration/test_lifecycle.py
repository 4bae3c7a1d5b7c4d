# SPDX-License-Identifier: Apache-2.0
"""Starting, ending, dying: daemon, tier, clients and sessions, and that nothing is left of them."""

import concurrent.futures
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lib


@pytest.fixture(params=["root", "user"])
def box(request: pytest.FixtureRequest, fresh_sandbox: Callable[..., lib.Sandbox]) -> lib.Sandbox:
    return fresh_sandbox(request.param)


class Autostart:
    """A runtime whose daemon the program starts by itself."""

    def __init__(self, box: lib.Sandbox) -> None:
        self.box = box

    def pids(self) -> list[int]:
        return [pid for pid in lib.parents()
                if lib.program_of(pid) == "snipara-sandboxd" and self.box.runtime in environ_of(pid)]

    def run(self, *args: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [os.path.join(self.box.bin, "snipara-sandbox"), *args], env=self.box.env, cwd=self.box.home,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=lib.PATIENCE, **self.box.identity(),
            **kwargs)


@pytest.fixture
def autostart(fresh_sandbox: Callable[..., lib.Sandbox]) -> Iterator[Callable[[str], Autostart]]:
    made: list[Autostart] = []

    def make(who: str) -> Autostart:
        made.append(Autostart(fresh_sandbox(who)))
        return made[-1]

    yield make
    for one in made:
        for pid in one.pids():
            os.kill(pid, signal.SIGTERM)
        assert lib.wait_for(lambda: not one.pids())


def environ_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/environ", "rb") as text:
            return text.read().decode(errors="replace")
    except OSError:
        return ""


def rss(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) << 10


def sessions(box: lib.Sandbox) -> list[lib.Json]:
    return list(json.loads(box.cli("sessions", "list", "--json").stdout))


def usable(box: lib.Sandbox, session: str | None = None) -> lib.Json:
    done = box.exec("20 + 22", session)
    assert done["value"] == "42", done
    return done


# Starting -------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["root", "user"])
def test_the_daemon_starts_by_itself(autostart: Callable[[str], Autostart], who: str) -> None:
    runtime = autostart(who)
    done = runtime.run("exec", "print('first')")
    assert (done.returncode, done.stdout) == (0, "first\n"), done.stderr
    assert len(runtime.pids()) == 1
    mode = os.stat(runtime.box.socket).st_mode & 0o777, os.stat(runtime.box.runtime).st_mode & 0o777
    assert mode == (0o600, 0o700)


@pytest.mark.parametrize("who", ["root", "user"])
def test_several_clients_at_a_cold_start_share_one_daemon(autostart: Callable[[str], Autostart], who: str) -> None:
    runtime = autostart(who)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in pool.map(lambda i: runtime.run("exec", f"print({i})"), range(4)):
            assert done.returncode == 0 and done.stdout in "0\n1\n2\n3\n", done.stderr
    assert lib.wait_for(lambda: len(runtime.pids()) == 1)  # who came second may be on its way out


def test_an_idle_daemon_is_small(box: lib.Sandbox) -> None:
    pid = box.start()
    usable(box)
    usable(box, "s")
    box.destroy("s")
    assert sessions(box) == []
    size = rss(pid)
    print(f"idle daemon as {box.who}: {size / 1048576:.1f} MiB")
    assert size <= (15 << 20) or "SNP_TEST_SANITIZE" in os.environ


def test_an_idle_daemon_ends(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox("root" if os.geteuid() == 0 else "user")
    pid = box.start("--idle", "1")
    with box.client():  # it is not idle, however long the cell takes
        usable(box)
    assert lib.wait_for(lambda: not lib.is_alive(pid))
    assert not os.path.exists(box.socket)
    assert usable(box)["state"] == "kept"


# Sessions -------------------------------------------------------------------------------------


def test_list_show_destroy(box: lib.Sandbox) -> None:
    assert sessions(box) == []
    usable(box)
    assert sessions(box) == []  # an unnamed session ends with its cell
    first = usable(box, "one")
    usable(box, "two")
    usable(box, "two")
    listed = {s["name"]: s for s in sessions(box)}
    assert set(listed) == {"one", "two"} and (listed["one"]["cells"], listed["two"]["cells"]) == (1, 2)
    assert listed["one"]["state"] == "idle" and listed["one"]["id"] == first["session"]
    shown = json.loads(box.cli("sessions", "show", "one", "--json").stdout)
    assert shown["id"] == first["session"] and shown["limits"] and shown["manifest"]["controls"]["network"]["enforced"]
    assert json.loads(box.cli("sessions", "show", first["session"], "--json").stdout)["name"] == "one"
    text = box.cli("sessions", "show", "one").stdout
    assert " ago)\n" in text or "(just now)\n" in text
    assert text.count("512 MiB (") == 2 and text.count("\ntimeout ") == 1  # each limit once, with who holds it
    assert box.destroy("one").returncode == 0 and [s["name"] for s in sessions(box)] == ["two"]
    gone = box.destroy("one")
    assert gone.returncode == 1 and "one" in gone.stderr
    assert box.cli("sessions", "show", "one").returncode == 1


def test_an_existing_session_keeps_its_policy(box: lib.Sandbox) -> None:
    usable(box, "fixed")
    for options in (["--memory", "64m"], ["--template", "data"], ["--project", box.make_folder("p")]):
        done = box.cli("exec", "--session", "fixed", *options, "print('ran')")
        assert done.returncode in (1, 2) and done.stdout == "" and done.stderr
    assert box.exec("1", "fixed", options=["--timeout", "600"])["status"] == "ok"


def test_destroy_ends_a_running_cell(box: lib.Sandbox) -> None:
    with box.popen("exec", "--json", "--timeout", "600", "--session", "run", "import time\ntime.sleep(600)",
                   text=True) as running:
        assert lib.wait_for(lambda: any(s["state"] == "running" for s in sessions(box)))
        assert box.destroy("run").returncode == 0
        out, errors = running.communicate(timeout=lib.PATIENCE)
        assert running.returncode != 0 and "was destroyed" in out + errors, (out, errors)
    assert sessions(box) == []


# Clients --------------------------------------------------------------------------------------


UNTIL_GO = ("import os, time\nprint('in', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
            "open('done', 'w').close()")


def start_cell(box: lib.Sandbox, *args: str, code: str = UNTIL_GO) -> subprocess.Popen[Any]:
    """A cell that ends by what the test does to it: its limit is above any patience."""
    process = box.popen("exec", "--timeout", "600", *args, code, text=True)
    assert lib.some(process.stdout).readline() == "in\n"
    return process


def let_go(box: lib.Sandbox, session: str) -> None:
    assert box.cli("put", box.make_file(os.path.join(box.home, "go"), ""), f"{session}:go").returncode == 0


def running_code(box: lib.Sandbox, mark: str) -> list[int]:
    """Processes of the tier that a cell has given the name mark."""
    found = []
    for pid in lib.descendants(lib.some(box.tier_pid())):
        try:
            with open(f"/proc/{pid}/comm") as comm:
                found += [pid] if comm.read().strip() == mark else []
        except OSError:
            pass
    return found


def test_an_unnamed_session_ends_with_its_killed_client(box: lib.Sandbox) -> None:
    mark = "m" + os.urandom(4).hex()
    code = (f"import ctypes, time\nctypes.CDLL(None).prctl(15, b'{mark}', 0, 0, 0)\n"
            "print('in', flush=True)\ntime.sleep(600)")
    with start_cell(box, code=code) as client:
        assert len(sessions(box)) <= 1
        assert lib.wait_for(lambda: running_code(box, mark))
        client.kill()
    assert lib.wait_for(lambda: not running_code(box, mark))
    assert sessions(box) == []
    usable(box)


def test_who_waits_for_a_busy_session_is_told(box: lib.Sandbox) -> None:
    with start_cell(box, "-s", "s") as first:
        with box.popen("exec", "-s", "s", "6 * 7", text=True) as second:
            assert re.fullmatch(r"waiting: cell 1 is running \(\d+\.\d s so far\)\n",
                                lib.some(second.stderr).readline())
            as_json = box.popen("exec", "-s", "s", "--json", "1", text=True)
            let_go(box, "s")
            assert second.communicate(timeout=lib.PATIENCE)[0] == "42\n"
        out, err = as_json.communicate(timeout=lib.PATIENCE)
        assert json.loads(out)["value"] == "1" and "waiting" not in err
        first.communicate(timeout=lib.PATIENCE)


def test_a_named_session_finishes_its_cell(box: lib.Sandbox) -> None:
    usable(box, "stay")
    with start_cell(box, "--session", "stay") as client:
        client.kill()
    assert sessions(box)[0]["state"] == "running"
    let_go(box, "stay")
    assert lib.wait_for(lambda: sessions(box)[0]["state"] in ("idle", "saving"))
    assert box.exec("import os\nos.path.exists('done')", "stay")["value"] == "True"


def test_the_program_that_uses_a_session_is_listed_while_it_is_connected(box: lib.Sandbox) -> None:
    def users() -> list[Any]:
        return [row.get("client") for row in json.loads(box.cli("sessions", "list", "--json").stdout)]

    box.exec("1", "ours")
    assert users() == [None]
    with box.client() as client:
        client.call("exec", b"1", session="ours", kind="python", code_len=1)
        assert users() == [os.getpid()]
        assert "kept: ours (in use by a program)" in box.cli("sessions", "destroy", "--all").stderr
    assert lib.wait_for(lambda: users() == [None])
    assert box.cli("sessions", "destroy", "--all").stdout == "destroyed ours\n"


def test_ctrl_c_interrupts_the_cell(box: lib.Sandbox) -> None:
    box.exec("x = 1", "int")
    with start_cell(box, "--session", "int") as client:
        client.send_signal(signal.SIGINT)
        assert client.wait(lib.PATIENCE) != 0
    done = box.exec("import os\n(x, os.path.exists('done'))", "int")
    assert done["value"] == "(1, False)" and not done["restarted"]


def test_interrupted_is_what_the_result_says(box: lib.Sandbox) -> None:
    box.exec("x = 1", "int")
    code = "import time\nopen('in', 'w').close()\ntime.sleep(600)"
    with box.popen("exec", "--json", "--timeout", "600", "--session", "int", code, text=True) as client:
        assert lib.wait_for(lambda: box.cli("ls", "int:in").returncode == 0)
        client.send_signal(signal.SIGINT)
        out, _ = client.communicate(timeout=lib.PATIENCE)
    done = json.loads(out)
    assert (done["status"], done["state"], done["limit"]) == ("interrupted", "kept", None)


# Deaths ---------------------------------------------------------------------------------------


def test_killed_tier(box: lib.Sandbox) -> None:
    usable(box, "lost")
    tier = lib.some(box.tier_pid())
    inside = lib.births(lib.descendants(tier))
    os.kill(tier, signal.SIGKILL)
    assert lib.wait_for(lambda: not lib.still_there(inside)), "processes outlive the tier"
    # It goes on from its checkpoint, or says what it lacks and what can be done.
    done = box.cli("exec", "--session", "lost", "x = 1")
    assert done.returncode == 0 or "--recover replay" in done.stderr, done.stderr
    usable(box)
    assert box.tier_pid() not in (None, tier)


def test_killed_daemon(box: lib.Sandbox) -> None:
    daemon = box.start()
    usable(box, "lost")
    inside = lib.births(lib.descendants(daemon))
    assert inside
    os.kill(daemon, signal.SIGKILL)
    lib.some(box.daemon).wait()
    assert lib.wait_for(lambda: not lib.still_there(inside)), "processes outlive the daemon"
    usable(box)
    # What the journal has of it is there again; nothing of it runs.
    assert [(s["name"], s["cells"]) for s in sessions(box)] == [("lost", 1)]
    assert sessions(box)[0]["state"] in ("lost", "hibernated")
    assert box.destroy("lost").returncode == 0 and sessions(box) == []


def test_daemon_and_tier_killed_at_once(box: lib.Sandbox) -> None:
    """Mounts and namespaces live and die with the processes; cgroups go at the next start."""
    daemon = box.start()
    usable(box, "lost")
    with start_cell(box, "--session", "busy") as client:
        tier = lib.some(box.tier_pid())
        assert cgroups(tier) or not has_cgroups(box)
        everything = lib.births(lib.descendants(daemon))
        os.kill(tier, signal.SIGKILL)
        os.kill(daemon, signal.SIGKILL)
        lib.some(box.daemon).wait()
        assert lib.wait_for(lambda: not lib.still_there(everything))
        _, said = client.communicate(timeout=lib.PATIENCE)
        assert client.returncode != 0 and "last message" not in said, said
    usable(box)
    assert lib.wait_for(lambda: not cgroups(tier)), cgroups(tier)


def test_sigterm_leaves_nothing(box: lib.Sandbox) -> None:
    usable(box, "a")
    daemon = lib.some(box.daemon).pid
    tier = lib.some(box.tier_pid())
    assert cgroups(tier) or not has_cgroups(box)
    everything = lib.births(lib.descendants(daemon))
    assert box.stop() == 0
    # A template ends when its stream does; on a busy machine that is a moment later.
    assert lib.wait_for(lambda: not lib.still_there(everything))
    assert not cgroups(tier) and not os.path.exists(box.socket)


# Leaks ----------------------------------------------------------------------------------------


def cgroups(tier: int) -> set[str]:
    """Cgroup folders of one supervisor, which runs or ran as process number tier."""
    mark = re.compile(rf"/snipara-sandbox-\d+-{tier}-\d+")
    found: set[str] = set()
    for at, dirs, _ in os.walk("/sys/fs/cgroup"):
        found.update(path for path in (os.path.join(at, name) for name in dirs) if mark.search(path))
    return found


def has_cgroups(box: lib.Sandbox) -> bool:
    done = usable(box)
    return bool(done["manifest"]["controls"]["resources"]["memory"] == "exact")


def count(box: lib.Sandbox) -> lib.Json:
    """What daemon and tier hold: descriptors, children, mounts, cgroups, files."""
    tier = lib.some(box.tier_pid())
    daemon = lib.some(box.daemon).pid
    with open(f"/proc/{tier}/mountinfo") as mine:
        mounts = lib.host_mounts(), len(mine.readlines())
    return {
        "daemon descriptors": len(os.listdir(f"/proc/{daemon}/fd")),
        "tier descriptors": len(os.listdir(f"/proc/{tier}/fd")),
        "processes": len(lib.descendants(daemon)),
        "mounts": mounts,
        "cgroups": len(cgroups(tier)),
        "runtime files": len(os.listdir(box.runtime)),
        "state files": sum(len(files) for _, _, files in os.walk(box.state)),
    }


def holds_no_more(now: lib.Json, before: lib.Json) -> bool:
    """Less is right: what was on its way out a second ago may have been counted before."""
    return now["mounts"] == before["mounts"] and all(now[what] <= before[what] for what in before if what != "mounts")


@pytest.mark.slow
@pytest.mark.parametrize("who", ["root", "user"])
def test_fifty_sessions_leave_nothing(fresh_sandbox: Callable[..., lib.Sandbox], who: str) -> None:
    # Nothing that comes and goes.
    box = fresh_sandbox(who, env={"SNIPARA_SANDBOX_POOL": "0", "SNIPARA_SANDBOX_TEMPLATE_IMAGES": "0"})
    project = box.make_folder("project")
    kinds: list[Callable[[int], Any]] = [
        lambda i: usable(box),
        lambda i: box.exec("import os\nos._exit(3)"),
        lambda i: box.exec(sh="sleep 1000 & sleep 1000 & true"),
        lambda i: box.exec("print('x' * 10)", options=["--project", project]),
        lambda i: box.exec("while True: pass", options=["--timeout", "0.1"]),
        lambda i: box.exec("b = bytearray(100 << 20)", options=["--memory", "32m"]),
        lambda i: (usable(box, f"s{i}"), box.destroy(f"s{i}")),
        lambda i: box.exec("import socket, os\nl = [socket.socketpair() for _ in range(50)]\n"
                           "if os.fork() == 0:\n    import time; time.sleep(1000)"),
    ]
    for kind in kinds:
        kind(0)
    before = lib.settled(lambda: count(box))
    for i in range(50):
        kinds[i % len(kinds)](i)
    assert lib.wait_for(lambda: holds_no_more(count(box), before)), f"{before}\n{count(box)}"


def test_the_daemon_is_asked_about_and_stopped(fresh_sandbox: Callable[..., lib.Sandbox], tmp_path: Path) -> None:
    box = fresh_sandbox("root")
    box.start()
    status = json.loads(box.cli("daemon", "status", "--json").stdout)
    assert status["running"] and status["pid"] == lib.some(box.daemon).pid and status["sessions"] == 0
    box.exec("x = 6", "kept")
    with start_cell(box, "--session", "busy") as client:
        refused = box.cli("daemon", "stop")
        assert refused.returncode == 1 and "busy" in refused.stderr and "--force" in refused.stderr
        assert lib.some(box.daemon).poll() is None
        client.send_signal(signal.SIGINT)
        client.wait(lib.PATIENCE)
    stopped = box.cli("daemon", "stop")
    assert stopped.returncode == 0, stopped.stderr
    assert lib.some(box.daemon).wait(lib.PATIENCE) == 0

    def unstarted(*args: str) -> subprocess.CompletedProcess[Any]:
        return subprocess.run([os.path.join(box.bin, "snipara-sandbox"), "daemon", *args],
                              env={**box.env, "SNIPARA_SANDBOX_RUNTIME_DIR": str(tmp_path)},
                              capture_output=True, text=True, timeout=lib.PATIENCE)

    assert unstarted("status").returncode == 1
    assert json.loads(unstarted("status", "--json").stdout) == {"running": False}
    assert unstarted("stop").returncode == 0
    assert os.listdir(tmp_path) == []  # nothing was started to be asked


# Without a way to the daemon


def test_a_daemon_nobody_finds_saves_its_sessions_and_ends(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    """/run/user/UID goes with the last login: the next one's daemon is to have the journal."""
    box = fresh_sandbox()
    box.start()
    first = lib.some(box.daemon)
    assert box.exec("x = 5", session="s")["status"] == "ok"
    code = "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('/tmp/go'): time.sleep(0.05)\ny = 6"
    with box.popen("exec", "-s", "other", "--timeout", "600", code, text=True) as cell:
        assert lib.some(cell.stdout).readline() == "begun\n"
        with box.client() as client:
            shutil.rmtree(box.runtime)
            os.mkdir(box.runtime, 0o700)
            # Somebody waits for an answer: nothing is cut off, and who is connected is served.
            assert client.call("put", b"", session="other", path="/tmp/go", offset=0, truncate=True,
                               mode=0o644)[0] == lib.RESPONSE
        assert cell.communicate(timeout=lib.PATIENCE)[0] == "" and cell.returncode == 0
    assert first.wait(lib.PATIENCE) == 0
    box.daemon = None
    assert box.exec("x", session="s")["value"] == "5" and box.exec("y", session="other")["value"] == "6"


def test_the_end_of_a_daemon_leaves_the_socket_of_another(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox()
    box.start()
    first = lib.some(box.daemon)
    with start_cell(box) as cell:
        shutil.rmtree(box.runtime)  # the first one has a request open, so it stays
        os.mkdir(box.runtime, 0o700)
        box.daemon = None
        second = box.start()
        assert first.poll() is None
        # It has no journal, which the other holds; to be ended it needs none.
        assert "journal" in box.cli("sessions", "list").stderr
        first.terminate()
        first.wait(lib.PATIENCE)
        cell.communicate(timeout=lib.PATIENCE)
    assert json.loads(box.cli("daemon", "status", "--json").stdout)["pid"] == second


def test_a_daemon_without_a_journal_can_be_stopped(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    holder, other = fresh_sandbox(), fresh_sandbox()
    holder.exec("1", session="s")
    other.env["SNIPARA_SANDBOX_STATE_DIR"] = holder.state
    other.start()
    assert "journal" in other.cli("sessions", "list").stderr
    stopped = other.cli("daemon", "stop")
    assert stopped.returncode == 0 and stopped.stdout.startswith("stopped, pid "), stopped.stderr
    assert lib.some(other.daemon).wait(lib.PATIENCE) == 0


# Upgrades, and systemd

STATS = b'{"method": "stats"}'


def test_an_upgrade_is_taken_up_once_no_cell_runs(autostart: Callable[[str], Autostart]) -> None:
    run = autostart("user")
    own = os.path.join(run.box.folder, "own")
    shutil.copytree(lib.BUILD, own, ignore=lambda folder, names: set(names) - set(lib.PROGRAMS)
                    if folder == lib.BUILD else set())
    run.box.bin = own

    def upgrade(*names: str) -> None:
        for path in (os.path.join(own, name) for name in names):
            shutil.copy(path, path + ".new")
            os.replace(path + ".new", path)  # as dpkg does

    assert run.run("exec", "-s", "s", "x = 5").returncode == 0
    old = run.pids()
    with lib.Client(run.box.socket, run.box.uid) as client:
        assert client.call("stats")[0] == lib.RESPONSE  # connected: whoever still waits to be goes to the next daemon
        code = b"import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)"
        ident = client.send({"method": "exec", "kind": "python", "code_len": len(code), "session": "busy",
                             "limits": {"timeout_ms": 600_000}}, code)
        upgrade("tier-native", "snipara-sandboxd")
        assert run.run("exec", "-s", "s", "x += 1").returncode == 0 and run.pids() == old
        refused = run.run("exec", "--template", "data", "1")
        assert refused.returncode == 1 and "snipara-sandbox daemon stop" in refused.stderr
        assert client.call("put", b"", session="busy", path="/tmp/go", offset=0, truncate=True,
                           mode=0o644)[0] == lib.RESPONSE
        assert client.end_of(ident)[0] == lib.RESPONSE
        first, second = (lib.HEADER.pack(len(STATS), number, len(STATS), lib.REQUEST) + STATS for number in (98, 99))
        client.sock.sendall(first + second[:20])  # the daemon has half a request, which is not lost
        assert client.end_of(98)[0] == lib.RESPONSE
        assert run.run("exec", "-s", "s", "x").stdout == "6\n" and run.pids() == old
        client.sock.sendall(second[20:])
        assert client.end_of(99)[0] == lib.RESPONSE
        done = run.run("exec", "-s", "s", "x")
        assert done.stdout == "6\n" and set(run.pids()).isdisjoint(old), done.stderr
        with pytest.raises((EOFError, ConnectionError)):
            client.call("stats")
    os.unlink(os.path.join(own, "snipara-sandboxd"))  # removed: it saves and goes
    run.run("exec", "1")
    assert lib.wait_for(lambda: not run.pids())


ACTIVATE = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.execve(sys.argv[2], sys.argv[2:], {**os.environ, "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"})"""


def activate(box: lib.Sandbox, listener: socket.socket, *options: str) -> subprocess.Popen[str]:
    """What systemd does with a socket unit: it listens, and passes descriptor 3."""
    return subprocess.Popen(
        [lib.PYTHON, "-c", ACTIVATE, str(listener.fileno()), os.path.join(box.bin, "snipara-sandboxd"), "--foreground",
         *options], env=box.env, pass_fds=[listener.fileno()], stderr=subprocess.PIPE, text=True, **box.identity())


def test_a_socket_of_systemd(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox("user")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(box.socket)
        os.chown(box.socket, box.uid, box.uid)
        listener.listen()
        for value in ("41", "42"):  # it ends when idle; the socket stays, and starts the next one
            with lib.Client(box.socket, box.uid) as client:  # before the daemon runs
                with activate(box, listener, "--idle", "0.5") as daemon:
                    assert client.call("hello", version=1)[0] == lib.RESPONSE
                    assert client.call("sessions.list")[1] == {"sessions": []}, value
                    client.close()
                    assert daemon.wait(lib.PATIENCE) == 0
            assert os.path.exists(box.socket)
        box.env["SNIPARA_SANDBOX_RUNTIME_DIR"] = box.make_folder("elsewhere", 0o700)
        with activate(box, listener) as daemon:
            errors = daemon.communicate(timeout=lib.PATIENCE)[1]
        assert daemon.returncode == 2 and "ListenStream=" + box.folder + "/elsewhere/sandboxd.sock" in errors
