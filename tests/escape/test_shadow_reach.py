# SPDX-License-Identifier: Apache-2.0
"""Copies of the workspace, and who makes them: the code can neither see nor reach them, by name, by descriptor of
another process, by mount or by handle. The control runs find what was planted there."""

import contextlib
import ctypes
import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import lib
import pytest

STORE_FD = 6  # SNP_INIT_COPIES_FD

# Prints where a file of this name was found. Runs inside, and outside as the control.
SEARCH = r"""
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
found = []

def look(folder):
    try:
        if NAME in os.listdir(folder):
            found.append(folder)
    except OSError:
        pass

def below(top, depth):
    look(top)
    try:
        names = os.listdir(top) if depth else []
    except OSError:
        return
    for name in names:
        path = os.path.join(top, name)
        if os.path.isdir(path) and not os.path.islink(path) and path not in ("/proc", "/sys", "/usr"):
            below(path, depth - 1)

for top in TOPS:
    below(top, 3)
for pid in PIDS or [p for p in os.listdir("/proc") if p.isdigit()]:
    for name in ("root", "cwd"):
        below(f"/proc/{pid}/{name}/workspace", 1)
        look(f"/proc/{pid}/{name}")
    for fd in range(0, 40):
        look(f"/proc/{pid}/fd/{fd}")
    try:
        with open(f"/proc/{pid}/mountinfo") as mounts:
            if any(line.split()[2] == DEVICE for line in mounts):
                found.append(f"mountinfo of {pid}")
    except OSError:
        pass

class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]

handle = Handle(len(HANDLE[1]), HANDLE[0], (ctypes.c_ubyte * 128)(*HANDLE[1]))
for mount in MOUNTS:
    try:
        at = os.open(mount, os.O_RDONLY)
    except OSError:
        continue
    fd = libc.open_by_handle_at(at, ctypes.byref(handle), os.O_RDONLY)
    if fd >= 0:
        found.append(f"handle through {mount}")
    os.close(at)
for pid in PIDS or [1]:
    try:
        held = os.pidfd_open(int(pid))
    except OSError:
        continue
    fd = libc.syscall(438, held, 6, 0)  # pidfd_getfd
    if fd >= 0:
        look(f"/proc/self/fd/{fd}")
        found.append(f"descriptor of {pid}")
print(json.dumps(found))
"""


def handle_of(path: str) -> list[Any]:
    class Handle(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]

    handle, mount = Handle(128, 0), ctypes.c_int()
    if ctypes.CDLL(None, use_errno=True).name_to_handle_at(
            -100, path.encode(), ctypes.byref(handle), ctypes.byref(mount), 0):
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    return [handle.type, list(handle.data[:handle.bytes])]


def pid1(box: lib.Sandbox) -> list[int]:
    """The pid 1 of the only session that has a place for shadows, as the host numbers it."""
    def is_it(pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/comm") as comm:
                return comm.read() == "init\n" and os.path.isdir(f"/proc/{pid}/fd/{STORE_FD}")
        except OSError:
            return False

    found = [pid for pid in lib.descendants(box.start()) if is_it(pid)]
    assert found, "no session keeps shadows"
    return found


def plant(store: str, name: str) -> None:
    """A file of the sandbox's own user, the only one its file system knows."""
    folder = os.open(store, os.O_RDONLY)
    owner = os.fstat(folder)
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        marker = os.open(name, os.O_WRONLY | os.O_CREAT, 0o666, dir_fd=folder)
        os.write(marker, name.encode())
        os.close(marker)
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.close(folder)


Planted = tuple[lib.Sandbox, str, list[str]]


@pytest.fixture
def planted(request: pytest.FixtureRequest) -> Iterator[Planted]:
    """A session with a marker beside its copies: (box, session, name, the store seen from the host)."""
    who, tier = request.param
    lib.need("root", os.geteuid() == 0, "only root can look into pid 1")
    box = lib.Sandbox(who, tier=tier)
    try:
        box.exec("1", session="s")
        stores = [f"/proc/{pid}/fd/{STORE_FD}" for pid in pid1(box)]
        name = "marker-" + secrets.token_hex(8)
        for store in stores:  # of a spare too: one of them is the session's
            plant(store, name)
        yield box, name, stores
    finally:
        box.close()


def search(name: str, store: str, tops: Sequence[str], pids: Sequence[str] | None, mounts: Sequence[str]) -> str:
    st = os.stat(store)
    values = {"NAME": name, "TOPS": tops, "PIDS": pids, "MOUNTS": mounts, "HANDLE": handle_of(f"{store}/{name}"),
              "DEVICE": f"{os.major(st.st_dev)}:{os.minor(st.st_dev)}"}
    return "".join(f"{key} = {value!r}\n" for key, value in values.items()) + SEARCH


@pytest.mark.parametrize("planted", [("root", "native"), ("user", "native")], indirect=True, ids=["root", "user"])
def test_nothing_leads_to_the_copies(planted: Planted) -> None:
    box, name, stores = planted
    for store in stores:
        pid = store.split("/")[2]
        control = subprocess.run([lib.PYTHON, "-c", search(name, store, [], [pid], [store])],
                                 capture_output=True, text=True, check=True)
        seen = json.loads(control.stdout)
        assert any("fd/" in place for place in seen) and any("handle" in place for place in seen), seen
        done = box.exec(search(name, store, ["/"], None, ["/", "/workspace", "/tmp", "/dev/shm", "/proc"]), session="s")
        assert json.loads(done["stdout"]) == [], done["stdout"]


# What code would try that knows where the copies are, in the local tier.
KNOWN_PLACE = r"""
import json, os
got = []
def attempt(what, *args):
    try:
        what(*args)
        got.append([what.__name__, str(args[0])])
    except OSError:
        pass
def read(path):
    with open(path) as file:
        file.read()
def opened(path):
    os.close(os.open(path, os.O_PATH))
CHMOD(CLOSED)
for path in (CLOSED + "/shadow/" + NAME, "../closed/shadow/" + NAME):
    attempt(read, path)
    attempt(opened, path)
    attempt(os.stat, path)
    attempt(os.truncate, path, 0)
    attempt(os.unlink, path + "x")
    attempt(os.link, path, "mine")
    try:
        os.symlink(path, "link")
        attempt(read, "link")
        os.unlink("link")
    except OSError:
        pass
for path in (CLOSED, CLOSED + "/shadow", "../closed", "../closed/shadow"):
    attempt(os.listdir, path)
    attempt(os.rename, path, path + "2")
    attempt(os.chdir, path)
    attempt(os.chmod, path, 0o777)
print(json.dumps(got))
"""


@pytest.mark.parametrize("planted", [("root", "local"), ("user", "local")], indirect=True, ids=["root", "user"])
def test_the_copies_of_the_local_tier_are_closed(planted: Planted) -> None:
    box, name, stores = planted
    closed = os.path.dirname(os.path.realpath(stores[0]))
    assert os.path.basename(closed) == "closed" and os.stat(closed).st_mode & 0o777 == 0
    text = f"NAME = {name!r}\nCLOSED = {closed!r}\n" + KNOWN_PLACE
    done = box.exec(text.replace("CHMOD(CLOSED)", "attempt(os.chmod, CLOSED, 0o700)"), session="s")
    assert json.loads(done["stdout"]) == [], done["stdout"]
    box.exec(f"import os; os.symlink({closed + '/shadow/' + name!r}, 'l')", session="s")
    assert name not in box.cli("get", "s:l", "-").stdout
    # Control: the same user, kept back by neither Landlock nor the filter.
    owner = os.stat(closed).st_uid
    control = subprocess.run([lib.PYTHON, "-c", text.replace("CHMOD(CLOSED)", "os.chmod(CLOSED, 0o700)")],
                             capture_output=True, text=True, check=True, cwd="/tmp",
                             user=owner, group=owner, extra_groups=[])
    assert any(place[0] == "read" for place in json.loads(control.stdout)), control.stdout


# What code would try on the process that makes the copies: prints what it could do to TARGET.
ON_HELPER = r"""
import ctypes, json, os, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
could = []
def attempt(name, what, *args):
    try:
        if what(*args) not in (-1, b""):
            could.append(name)
    except OSError:
        pass
def memory():
    local = (ctypes.c_char * 8)()
    class Part(ctypes.Structure):
        _fields_ = [("at", ctypes.c_void_p), ("n", ctypes.c_size_t)]
    mine, theirs = Part(ctypes.addressof(local), 8), Part(PLACE, 8)
    return libc.process_vm_readv(TARGET, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
def file(name):
    with open(f"/proc/{TARGET}/{name}", "rb") as opened:
        return opened.read(64)
attempt("fds", os.listdir, f"/proc/{TARGET}/fd")
attempt("maps", file, "maps")
attempt("exe", os.readlink, f"/proc/{TARGET}/exe")
attempt("vm", memory)
attempt("ptrace", libc.ptrace, 0x4206, TARGET, 0, 0)  # SEIZE
attempt("limit", resource.prlimit, TARGET, resource.RLIMIT_CORE, (0, 0))
try:
    held = os.pidfd_open(TARGET)
    attempt("getfd", libc.syscall, 438, held, 0, 0)
    attempt("pidfd signal", signal.pidfd_send_signal, held, signal.SIGCONT)
except OSError:
    pass
for number in (signal.SIGCONT, signal.SIGSTOP, signal.SIGKILL):
    attempt(f"tgkill {number}", libc.tgkill, TARGET, TARGET, number)
    attempt(f"kill {number}", os.kill, TARGET, number)
print(json.dumps(could))
"""


def helper_of(box: lib.Sandbox) -> tuple[int, int] | None:
    """The host's and the inner number of the helper of the only session."""
    for pid in lib.descendants(box.start()):
        # Another one, of a template, may end meanwhile.
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/maps") as maps:
            if comm.read() == "files\n" and "memfd:files" in maps.read():  # it has been asked already
                with open(f"/proc/{pid}/status") as status:
                    return pid, int(next(line for line in status if line.startswith("NSpid")).split()[-1])
    return None


@pytest.mark.parametrize("who,tier", [("root", "native"), ("user", "native"), ("root", "local"), ("user", "local")])
def test_who_makes_the_copies_is_out_of_reach(who: str, tier: str) -> None:
    lib.need("root", os.geteuid() == 0, "only root can look into it")
    box = lib.Sandbox(who, tier=tier, env={"SNIPARA_SANDBOX_POOL": "0"})
    try:
        box.exec("open('f', 'w').write('kept')", session="s")
        assert lib.wait_for(lambda: helper_of(box))
        helper = helper_of(box)
        assert helper is not None
        pid, inner = helper
        born = lib.start_time(pid)
        code = ON_HELPER.replace("TARGET", str(inner)).replace("PLACE", str(0x400000))
        done = box.exec(code + "open('f', 'w').write('lost')\nos._exit(1)", session="s")
        assert done["stdout"] == "[]\n" and done["state"] == "rolled_back", done
        assert lib.start_time(pid) == born and os.listdir(f"/proc/{pid}/fd"), "it did not survive"
        assert box.exec("print(open('f').read())", session="s")["stdout"] == "kept\n"
    finally:
        box.close()
    # Control: the same on a process of the same user, kept back by nothing.
    user: dict[str, Any] = {"user": lib.USER_ID, "group": lib.USER_ID, "extra_groups": []}
    other = subprocess.Popen([lib.PYTHON, "-c", "import ctypes\nb = ctypes.create_string_buffer(8)\n"
                              "print(ctypes.addressof(b), flush=True)\ninput()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **user)
    place = lib.some(other.stdout).readline().strip()
    seen = subprocess.run([lib.PYTHON, "-c", ON_HELPER.replace("TARGET", str(other.pid)).replace("PLACE", place)],
                          capture_output=True, text=True, check=True, **user)
    other.communicate()
    assert len(json.loads(seen.stdout)) == 14 and other.returncode == -9, seen.stdout
