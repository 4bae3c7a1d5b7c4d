# SPDX-License-Identifier: Apache-2.0
"""Copies of the workspace: the code can neither see nor reach them, by name, by descriptor of
another process, by mount or by handle. The control runs find what was planted there."""

import ctypes
import json
import os
import secrets
import subprocess

import lib
import pytest

STORE_FD = 6  # SNP_INIT_SHADOW_FD

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


def handle_of(path):
    class Handle(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]

    handle, mount = Handle(128, 0), ctypes.c_int()
    if ctypes.CDLL(None, use_errno=True).name_to_handle_at(
            -100, path.encode(), ctypes.byref(handle), ctypes.byref(mount), 0):
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    return [handle.type, list(handle.data[:handle.bytes])]


def pid1(box):
    """The pid 1 of the only session that has a place for shadows, as the host numbers it."""
    def is_it(pid):
        try:
            with open(f"/proc/{pid}/comm") as comm:
                return comm.read() == "init\n" and os.path.isdir(f"/proc/{pid}/fd/{STORE_FD}")
        except OSError:
            return False

    found = [pid for pid in lib.descendants(box.start()) if is_it(pid)]
    assert found, "no session keeps shadows"
    return found


def plant(store, name):
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


@pytest.fixture
def planted(request):
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


def search(name, store, tops, pids, mounts):
    st = os.stat(store)
    values = {"NAME": name, "TOPS": tops, "PIDS": pids, "MOUNTS": mounts, "HANDLE": handle_of(f"{store}/{name}"),
              "DEVICE": f"{os.major(st.st_dev)}:{os.minor(st.st_dev)}"}
    return "".join(f"{key} = {value!r}\n" for key, value in values.items()) + SEARCH


@pytest.mark.parametrize("planted", [("root", "native"), ("user", "native")], indirect=True, ids=["root", "user"])
def test_nothing_leads_to_the_copies(planted):
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
def test_the_copies_of_the_local_tier_are_closed(planted):
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
