# SPDX-License-Identifier: Apache-2.0
"""The local tier: the same sessions without namespaces, when it is asked for or allowed."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lib

FILTER = [lib.PYTHON, os.path.join(lib.HERE, "outer_filter.py")]
NO_NAMESPACES = [*FILTER, "unshare:10000000=EPERM", "clone:10000000=EPERM", "clone3=ENOSYS", "--"]


@pytest.fixture(scope="module", params=["root", "user"])
def local(request: pytest.FixtureRequest) -> Iterator[lib.Sandbox]:
    box = lib.Sandbox(request.param, tier="local")
    yield box
    box.close()


@pytest.fixture
def session(local: lib.Sandbox, request: pytest.FixtureRequest) -> Iterator[Any]:
    name = request.node.name.split("[")[0][-40:]
    yield name
    local.destroy(name)


# Cells ---------------------------------------------------------------------------------------


def test_a_cell_runs_and_says_where(local: lib.Sandbox) -> None:
    result = local.exec("print('hello'); 6 * 7")
    assert (result["status"], result["stdout"], result["value"]) == ("ok", "hello\n", "42")
    manifest = result["manifest"]
    assert manifest["tier"] == "local" and manifest["degraded"]
    assert all(control["enforced"] for control in manifest["controls"].values())
    assert manifest["controls"]["resources"]["limits"]["workspace_size"]["by"].startswith("approximate")
    assert manifest["controls"]["disposable"]["own_ids"] == (local.who == "root")


def test_doctor_has_a_row_for_what_is_degraded(local: lib.Sandbox) -> None:
    said = local.cli("exec", "--env", "local", "1").stderr
    names, _, command = said.partition("degraded: ")[2].partition("\n")[0].partition(" (why: snipara-sandbox ")
    rows = {row["name"]: row for row in json.loads(local.cli(*command.rstrip(")").split(), "--json").stdout)["checks"]}
    assert "disk" in names and all(rows[name]["detail"] for name in names.split(", ")), said
    assert rows["template base"]["detail"] == local.env.get("SNIPARA_SANDBOX_PYTHON", "/usr/bin/python3")
    assert "python3" not in rows  # python3 in PATH may be another


def test_nothing_in_tmp_can_be_executed(local: lib.Sandbox) -> None:
    result = local.exec('''
import os, shutil, subprocess, tempfile
for folder in (os.getcwd(), tempfile.gettempdir()):
    path = os.path.join(folder, "program")
    shutil.copy("/bin/true", path)
    try:
        print(subprocess.run([path]).returncode)
    except PermissionError:
        print("refused")
''')
    assert result["stdout"] == "0\nrefused\n", result


def test_the_listing_names_the_tier(local: lib.Sandbox, session: Any) -> None:
    local.exec("1", session=session)
    rows = json.loads(local.cli("sessions", "list", "--json").stdout)
    rows = rows["sessions"] if isinstance(rows, dict) else rows
    assert [row["tier"] for row in rows if row["name"] == session] == ["local"]
    line = next(line for line in local.cli("sessions", "list").stdout.splitlines() if line.startswith(session[:5]))
    assert " local " in line


def test_usual_programs_work(local: lib.Sandbox) -> None:
    result = local.exec('''
import asyncio, os, shutil, subprocess, tempfile, threading, signal
open("a", "w").write("x")
shutil.copy2("a", "b"); os.chmod("b", 0o600); os.utime("b", (1, 2))
with tempfile.TemporaryDirectory() as folder:
    os.symlink("a", "l")
    shutil.copytree(".", folder + "/c", symlinks=True)
child = subprocess.Popen(["sleep", "60"])
child.terminate()
ended = child.wait()
async def ask():
    process = await asyncio.create_subprocess_exec("echo", "x", stdout=-1)
    return (await process.communicate())[0]
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
os.kill(os.getpid(), signal.SIGUSR1); signal.raise_signal(signal.SIGUSR1)
git = subprocess.run("git --version || exit 0; git init -q g && cd g && git status --short", shell=True).returncode
(git, ended, asyncio.run(ask()), oct(os.stat("b").st_mode & 0o777), os.stat("b").st_mtime, len(got))
''')
    assert result["value"] == "(0, -15, b'x\\n', '0o600', 2.0, 2)", result
    assert result["denials"] == []


def test_only_the_session_can_be_written(local: lib.Sandbox) -> None:
    result = local.exec('''
import os
told = []
for path in ("/tmp/x-" + str(os.getpid()), "/dev/shm/x", "/etc/x", "/var/tmp/x", os.environ["HOME"] + "/../../x"):
    try:
        open(path, "w").close()
        told.append(path)
    except OSError:
        pass
told
''')
    assert result["value"] == "[]"


# Limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(60)",
                                  "import re; re.match('(a+)+$', 'a' * 40 + 'b')"])
def test_the_wall_clock_stops_code(local: lib.Sandbox, session: Any, code: str) -> None:
    local.exec("kept = 1", session=session)
    result = local.exec(code, session=session, options=["--timeout", "0.4"])
    assert result["status"] == "timeout" and result["limit"]["key"] == "timeout"
    after = local.exec("2", session=session)
    assert after["value"] == "2"


def test_what_ignores_the_interrupt_is_killed_with_its_children(local: lib.Sandbox, session: Any) -> None:
    code = '''
import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
    else:
        os.wait()
while True:
    time.sleep(1)
'''
    local.exec("open('kept', 'w').write('x')", session=session)
    enough = str(lib.PATIENCE / 30)  # for its children, and to become deaf
    result = local.exec(code, session=session, options=["--timeout", enough])
    assert (result["status"], result["state"]) == ("timeout", "rolled_back"), result["transaction"]
    after = local.exec("open('kept').read()", session=session)
    assert after["value"] == "'x'" and not after["restarted"]
    tier = lib.some(local.tier_pid())

    def pythons() -> list[int]:
        return [pid for pid in lib.descendants(tier) if lib.is_alive(pid) and uses_session(pid)]

    # The first process, the interpreter, the seed, two branches at most.
    assert lib.wait_for(lambda: len(pythons()) <= 5), pythons()


def uses_session(pid: int) -> bool:
    try:
        return "workspace" in os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False


def left(local: lib.Sandbox) -> list[int]:
    return [pid for pid in lib.descendants(lib.some(local.tier_pid())) if lib.is_alive(pid) and uses_session(pid)]


def test_memory_is_limited(local: lib.Sandbox) -> None:
    result = local.exec("blocks = [bytearray(b'x' * (1 << 20)) for _ in range(300)]", options=["--memory", "64m"])
    assert result["status"] in ("oom", "error")
    assert result["error"]["type"] in ("MemoryError", "Killed")


def test_files_that_pass_their_limit_end_the_cell(local: lib.Sandbox, session: Any) -> None:
    """Measured, not capped: what counts is that it ends, and how far it got."""
    code = '''
import time
for number in range(4000):
    with open("f%d" % number, "wb") as out:
        out.write(b"x" * (1 << 18))
    time.sleep(0.02)
'''
    result = local.exec(code, session=session, options=["--workspace-size", "8m", "--timeout", "600"],
                        timeout=12 * lib.PATIENCE)
    assert result["status"] == "limit" and result["limit"]["key"] == "workspace_size"
    assert any("workspace_size" in denial["rule"] for denial in result["denials"])
    assert result["usage"]["written_bytes"] < 256 << 20


@pytest.mark.parametrize("hold", [
    "held.append(os.dup(fd))",
    "held.append(mmap.mmap(fd, 4 << 20))",
    # a thread with descriptors of its own: CLONE_VM, SIGHAND, THREAD, but not CLONE_FILES
    "libc.prctl(4, 0); held.append(os.dup(fd))",
    "libc.clone(thread, ctypes.addressof(stack) + (1 << 16), 0x10900, None)",
], ids=["open", "mapped", "closed to others", "in another table"])
def test_files_that_were_removed_count_while_they_are_held(local: lib.Sandbox, session: Any, hold: str) -> None:
    """Their sum is 160 MiB; the control run has room for them."""
    code = '''
import ctypes, mmap, os, time
libc = ctypes.CDLL(None)
libc.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
thread = ctypes.cast(libc.pause, ctypes.c_void_p)
stack = ctypes.create_string_buffer(1 << 16)
held = []
for number in range(40):
    fd = os.open("f", os.O_CREAT | os.O_RDWR)
    os.unlink("f")
    os.write(fd, b"x" * (4 << 20))
    HOLD
    os.close(fd)
    time.sleep(0.02)
time.sleep(600)
'''.replace("HOLD", hold)
    result = local.exec(code, options=["--workspace-size", "16m", "--timeout", "600"], timeout=2 * lib.PATIENCE)
    assert result["status"] == "limit" and result["limit"]["key"] == "workspace_size", result["error"]
    if "clone" not in hold:
        assert local.exec(code.replace("sleep(600)", "sleep(0)"), session=session)["status"] == "ok"


def test_no_removed_file_hides_on_its_way_through_a_socket(local: lib.Sandbox) -> None:
    """Nobody has it open then, so nothing would count it."""
    code = '''
import os, socket
a, b = socket.socketpair()
fd = os.open("f", os.O_CREAT | os.O_RDWR)
os.unlink("f")
a.send(b"bytes go through")
try:
    socket.send_fds(a, [b"x"], [fd])
except OSError as error:
    print(error.errno, b.recv(99))
'''
    result = local.exec(code)
    assert result["stdout"].strip() == "1 b'bytes go through'", result
    assert [denial["operation"] for denial in result["denials"]] == ["sendmsg"]


def test_one_file_is_capped_exactly(local: lib.Sandbox) -> None:
    result = local.exec('''
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
fd = os.open("f", os.O_CREAT | os.O_WRONLY)
total = 0
try:
    while total < 64 << 20:
        total += os.write(fd, b"x" * (1 << 20))
except OSError:
    pass
total
''', options=["--file-size", "4m"])
    assert result["value"] == str(4 << 20)


# Files ----------------------------------------------------------------------------------------


def test_get_follows_no_link_out(local: lib.Sandbox, session: Any) -> None:
    secret = local.make_file("secret.txt", "secret")
    local.exec(f"import os; os.symlink({secret!r}, 'link'); os.symlink('/usr/bin', 'bin')", session=session)
    for name in ("link", "bin/env", "../../x"):
        done = local.cli("get", f"{session}:{name}", "-")
        assert done.returncode == 1 and "secret" not in done.stdout


# Projects -------------------------------------------------------------------------------------


def make_project(box: lib.Sandbox, name: str) -> str:
    folder = box.make_folder(name)
    box.make_file(f"{name}/main.py", "print('main')\n")
    box.make_file(f"{name}/sub/data.txt", "data")
    box.make_file(f"{name}/run.sh", "#!/bin/sh\necho ran\n", 0o755)
    box.make_file(f"{name}/.env", "TOKEN=secret-of-env")
    box.make_file(f"{name}/sub/id_rsa", "secret-of-key")
    box.make_file(f"{name}/sub/deploy", "-----BEGIN PRIVATE KEY-----\nsecret-of-deploy\n")
    box.make_file(f"{name}/.git/config", '[remote "o"]\nurl = https://me:secret-of-git@host/x\n')
    return folder


def test_a_project_is_copied_and_its_secrets_are_not(local: lib.Sandbox) -> None:
    folder = make_project(local, "project")
    result = local.exec('''
import os, subprocess
texts = []
for top, _, names in os.walk("."):
    texts += [os.path.join(top, name) + "=" + open(os.path.join(top, name)).read() for name in names]
open("sub/data.txt", "a").write(" more")
os.unlink("main.py")
open("new.txt", "w").close()
print(subprocess.run(["./run.sh"], capture_output=True, text=True).stdout)
print("\\n".join(sorted(texts)))
''', options=["--project", folder])
    assert "ran" in result["stdout"] and "main.py" in result["stdout"] and "data" in result["stdout"]
    assert "secret-of" not in json.dumps(result)
    assert set(result["manifest"]["controls"]["filesystem"]["masked"]) >= {".env", "sub/id_rsa", "sub/deploy",
                                                                           ".git/config"}
    assert lib.changes(result) == {"created": ["new.txt"], "modified": ["sub/data.txt"], "deleted": ["main.py"],
                                   "truncated": False}
    with open(os.path.join(folder, "sub/data.txt")) as data:
        assert data.read() == "data"
    assert sorted(os.listdir(folder)) == [".env", ".git", "main.py", "run.sh", "sub"]


def test_a_project_that_is_too_large_is_refused(local: lib.Sandbox) -> None:
    folder = make_project(local, "large")
    local.make_file("large/big.bin", b"x" * (2 << 20))
    done = local.cli("exec", "--env", "local", "--project", folder, "--workspace-size", "1m", "1")
    assert done.returncode == 1 and "--workspace-size" in done.stderr and "1 MiB" in done.stderr


def test_a_link_in_a_project_leads_nowhere(local: lib.Sandbox) -> None:
    folder = make_project(local, "links")
    secret = local.make_file("outside.txt", "secret-outside")
    os.symlink(secret, os.path.join(folder, "link"))
    os.mkfifo(os.path.join(folder, "fifo"))
    result = local.exec("import os\nprint(os.path.lexists('fifo'))\nopen('link').read()", options=["--project", folder])
    assert result["status"] == "error" and result["stdout"] == "False\n" and "secret-outside" not in json.dumps(result)


# Which tier runs ------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["root", "user"])
def test_auto_is_native_where_it_runs(fresh_sandbox: Callable[..., lib.Sandbox], who: str) -> None:
    box = fresh_sandbox(who)
    assert box.exec("1", options=["--env", "auto"])["manifest"]["tier"] == "native"
    assert "auto is native here" in box.cli("exec", "--env", "auto", "1").stderr
    assert "auto" not in box.cli("exec", "1").stderr
    assert box.exec("1")["manifest"]["tier"] == "native"


@pytest.mark.parametrize("who", ["root", "user"])
def test_a_configuration_that_says_local_runs_local_and_says_once_that_native_is_there(
        fresh_sandbox: Callable[..., lib.Sandbox], who: str) -> None:
    box = fresh_sandbox(who)
    box.make_file(os.path.join(box.home, "snipara-sandbox.toml"), '[snipara_sandbox]\nenvironment = "local"\n')
    box.cli("trust")
    first = box.cli("exec", "print(6 * 7)")
    assert first.returncode == 0 and first.stdout == "42\n"
    said = [line for line in first.stderr.splitlines() if "native" in line]
    assert len(said) == 1 and "snipara-sandbox.toml" in said[0] and "--env native" in said[0]
    second = box.cli("exec", "print(6 * 7)")
    assert second.stdout == "42\n" and "native" not in second.stderr
    assert box.exec("1")["manifest"]["tier"] == "local"
    assert box.exec("1", options=["--env", "native"])["manifest"]["tier"] == "native"


@pytest.fixture(params=["root", "user"])
def without_namespaces(request: pytest.FixtureRequest) -> Iterator[lib.Sandbox]:
    box = lib.Sandbox(request.param, prefix=NO_NAMESPACES)
    yield box
    box.close()


def test_a_weaker_tier_is_never_taken_silently(without_namespaces: lib.Sandbox) -> None:
    box = without_namespaces
    done = box.cli("exec", "print('r' + 'an')")
    assert done.returncode == 1 and "ran" not in done.stdout
    assert "user namespaces are refused" in done.stderr and "--env local" in done.stderr
    allowed = box.exec("6 * 7", options=["--allow-degraded"])
    assert allowed["value"] == "42" and allowed["manifest"]["tier"] == "local"
    assert allowed["manifest"]["degraded"][0].startswith("environment: local, because native cannot run:")
    asked = box.cli("exec", "--env", "local", "print(6 * 7)")
    assert asked.stdout == "42\n" and "--env native" not in asked.stderr
    for tier in "native", "docker", "wasm":
        assert box.cli("exec", "--env", tier, "--allow-degraded", "1").returncode == 1


def test_doctor_judges_what_exec_does(without_namespaces: lib.Sandbox) -> None:
    for tier in "auto", "native", "docker", "local":
        says = [without_namespaces.cli(*verb, "--env", tier, *rest).returncode for verb,
                *rest in ((["doctor"],), (["exec"], "1"))]
        assert says == [0 if tier == "local" else 1] * 2, tier
    done = without_namespaces.cli("doctor", "--json")
    assert json.loads(done.stdout)["usable"] is False
    rows = {row["name"]: row["status"] for row in json.loads(done.stdout)["checks"]}
    assert rows["local tier"] == "ok" and rows["user namespaces"] != "ok"
    assert "only the weaker local tier" in without_namespaces.cli("doctor").stdout


@pytest.mark.parametrize("who", ["root", "user"])
def test_without_landlock_nothing_runs_in_local(fresh_sandbox: Callable[..., lib.Sandbox], who: str) -> None:
    box = fresh_sandbox(who, {"SNIPARA_SANDBOX_NO_LANDLOCK": "1"})
    done = box.cli("exec", "--env", "local", "--allow-degraded", "print('r' + 'an')")
    assert done.returncode == 1 and "Landlock" in done.stderr and "ran" not in done.stdout


def test_a_session_says_once_that_it_is_degraded(local: lib.Sandbox) -> None:
    said = [local.cli("exec", *local.exec_options, "-s", "told", "1").stderr for _ in range(2)]
    assert "degraded: " in said[0] and "degraded" not in said[1]
    assert "degraded: " in local.cli("exec", *local.exec_options, "1").stderr
    local.cli("hibernate", "told")
    # it has come back elsewhere
    assert "degraded: " in local.cli("exec", *local.exec_options, "-s", "told", "1").stderr
    local.destroy("told")


def test_docker_and_wasm_run_in_native_and_say_so(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    """Chosen by option, variable and file (docker only by a trusted file); vm is stronger than native."""
    box = fresh_sandbox("user")
    box.make_file(os.path.join(box.home, "snipara-sandbox.toml"), '[snipara_sandbox]\nenvironment = "docker"\n')
    done = box.cli("exec", "--json", "1")
    assert json.loads(done.stdout)["manifest"]["tier"] == "native" and "runs in native" not in done.stderr
    assert "snipara-sandbox trust" in done.stderr
    assert box.cli("trust").returncode == 0
    for options, env, word in (("", None, "snipara-sandbox.toml"),
                               ("", {"SNIPARA_SANDBOX_ENVIRONMENT": "wasm"}, "wasm"),
                               ("--env docker", None, "--env")):
        done = box.cli("exec", *options.split(), "--json", "1", env=env)
        assert json.loads(done.stdout)["manifest"]["tier"] == "native", done.stderr
        said = [line for line in done.stderr.splitlines() if "runs in native" in line]
        assert len(said) == 1 and word in said[0]
    assert box.cli("doctor", env={"SNIPARA_SANDBOX_ENVIRONMENT": "wasm"}).returncode == 0
    for verb in ["exec", "--env", "vm", "1"], ["doctor", "--env", "vm"]:
        done = box.cli(*verb)
        assert done.returncode == 2 and "vm" in done.stderr + done.stdout and "native" in done.stderr + done.stdout


def test_a_session_stays_in_its_tier(local: lib.Sandbox, session: Any) -> None:
    local.exec("1", session=session)
    done = local.cli("exec", "--env", "native", "--session", session, "1")
    assert done.returncode != 0 and "tier local" in done.stderr


# The end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["root", "user"])
def test_nothing_is_left_when_daemon_and_tier_are_killed(fresh_sandbox: Callable[..., lib.Sandbox], who: str) -> None:
    box = fresh_sandbox(who)
    box.tier = "local"
    box.exec_options = ["--env", "local"]
    box.exec('''
import os, time
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(3000)
        os._exit(0)
''', session="s")
    tier = lib.some(box.tier_pid())
    below = lib.descendants(tier)
    born = lib.births(below)
    assert len(below) >= 8
    os.kill(lib.some(box.daemon).pid, 9)
    os.kill(tier, 9)
    lib.some(box.daemon).wait()
    box.daemon = None

    assert lib.wait_for(lambda: not lib.still_there(born)), "processes are left"
    box.exec("1")  # the next supervisor removes the folders
    state = os.path.join(box.state, "local")
    assert len([name for name in os.listdir(state) if name.startswith("local-")]) == 1


def test_the_session_folder_goes_with_the_session(local: lib.Sandbox, session: Any) -> None:
    path = local.exec("import os; os.makedirs('a/b'); open('a/b/c', 'w').close(); os.chmod('a/b', 0); os.getcwd()",
                      session=session)["value"].strip("'")
    deep = "import os\nfor n in range(120):\n    os.mkdir('d'); os.chdir('d')"
    assert local.exec(deep, session=session)["status"] == "ok"
    assert os.path.isdir(os.path.dirname(path))
    local.destroy(session)
    assert not os.path.exists(os.path.dirname(path))


def test_no_file_gets_the_rights_of_its_user(local: lib.Sandbox, session: Any) -> None:
    """Set-id bits by each call that makes or changes a mode; and nobody else passes the session's folder."""
    code = '''
import ctypes, os
libc = ctypes.CDLL(None)
def attempt(call, *args):
    try:
        call(*args)
    except OSError:
        pass
os.umask(0)
open("plain", "w").close()
attempt(lambda: os.close(os.open("opened", os.O_CREAT | os.O_WRONLY, 0o6777)))
attempt(os.mknod, "made", 0o106777)
libc.syscall(85, b"created", 0o6777)
for mode in (0o6777, 0o4755, 0o2755):
    attempt(os.chmod, "plain", mode)
    attempt(lambda: os.fchmod(os.open("plain", os.O_RDONLY), mode))
    libc.syscall(268, -100, b"plain", mode)
for path in ("..", os.path.dirname(os.getcwd()), "../../workspace/.."):
    attempt(os.chmod, path, 0o777)
    libc.syscall(268, -100, path.encode(), 0o777)
    attempt(os.chown, path, os.getuid(), os.getgid())
os.chmod("plain", 0o1640)
os.getcwd()
'''
    path = local.exec(code, session=session)["value"].strip("'")
    modes = {name: os.stat(os.path.join(path, name)).st_mode & 0o7777 for name in os.listdir(path)}
    assert modes["plain"] == 0o1640 and not any(mode & 0o6000 for mode in modes.values()), modes
    folder = os.stat(os.path.dirname(path))
    assert folder.st_mode & 0o7777 == 0o710 and folder.st_uid == local.uid
    if os.geteuid() == 0:
        look = subprocess.run(["ls", path], user=65534, group=65534, extra_groups=[], capture_output=True)
        assert look.returncode != 0, "others see into the session's folder"


def test_a_fork_bomb_ends_with_its_session(local: lib.Sandbox, session: Any) -> None:
    code = '''
import os, time
def bomb():
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
        except OSError:
            time.sleep(0.001)
if os.fork() == 0:
    bomb()
'''
    local.exec(code, session=session, options=["--processes", "40"])
    local.destroy(session)
    assert lib.wait_for(lambda: not left(local)), left(local)


def test_the_youngest_of_very_many_children_is_reached(local: lib.Sandbox, session: Any) -> None:
    """The kernel lists children by the page; what comes after the first counts too."""
    code = '''
import os, signal
children = []
for number in range(900):
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    children.append(pid)
os.kill(children[-1], 9)
result = os.WTERMSIG(os.waitpid(children[-1], 0)[1])
'''
    options = ["--processes", "1000", "--memory", "2g", "--timeout", "600"]
    done = local.exec(code, session=session, options=options, timeout=12 * lib.PATIENCE)
    assert done["result"] == "9", done["error"]
    local.destroy(session)
    assert lib.wait_for(lambda: not left(local)), left(local)


def test_the_tier_program_says_how_it_is_used(local: lib.Sandbox) -> None:
    done = subprocess.run([os.path.join(local.bin, "tier-local")], capture_output=True, text=True)
    assert done.returncode == 2 and "tier-local" in done.stderr


def test_its_state_folder_is_the_users_alone(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox("user", tier="local")
    folder = os.path.join(box.state, "local")
    os.mkdir(folder)
    done = box.cli("exec", "--env", "local", "1")
    assert done.returncode != 0 and f"{folder} belongs to user 0" in done.stderr
    assert f"run as root: chown -R {box.uid} {folder}" in done.stderr
    os.chown(folder, box.uid, box.uid)
    os.chmod(folder, 0o777)
    assert box.exec("1")["value"] == "1"
    assert os.stat(folder).st_mode & 0o7777 == 0o700
