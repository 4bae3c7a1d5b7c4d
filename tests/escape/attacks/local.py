# SPDX-License-Identifier: Apache-2.0
"""Attacks that namespaces would stop and Landlock does not look at: signals by every way, modes,
owners and times of files, sockets by path, other processes by number."""

import os
import resource
import socket

import lib
from attacks.engine import Attack, Outcome, World, heard_token, tier_of
from attacks.syscalls import is_victim_dead, victim


def only_victim(world: World) -> lib.Json:
    """Outside only the planted process is a target, inside also those of the sandbox itself."""
    return {**victim(world), "inside": world.inside, **own_processes(world)}


def own_processes(world: World) -> lib.Json:
    """Supervisor, keepers, templates and other sessions, by number, as code might guess them."""
    if not world.inside:
        return {"others": []}
    world.box.exec("1", session="neighbour")
    tier = tier_of(world.box)
    found = sorted(lib.descendants(tier) | {tier, world.box.start()})
    world.state["own"] = {pid: lib.start_time(pid) for pid in found}
    return {"others": found}


def is_anybody_dead(world: World, outcome: Outcome) -> bool:
    if is_victim_dead(world, outcome):
        return True
    if not world.inside:
        return False
    answer = world.box.exec("40 + 2", session="neighbour")
    daemon = world.box.daemon
    assert daemon is not None and lib.is_alive(daemon.pid) and world.box.tier_pid() in world.state["own"]
    return bool(answer["value"] != "42" or answer["restarted"] or answer["cell"] < 2)


def mode_file(world: World) -> lib.Json:
    path = world.plant_file("mode.txt", mode=0o640)
    os.utime(path, (1000000000, 1000000000))
    world.state["path"] = path
    return {"path": path, "folder": world.folder}


def is_changed(world: World, _outcome: Outcome) -> bool:
    """Mode, owner or time of the planted file or its folder are not what they were."""
    status = os.stat(world.state["path"])
    return status.st_mode & 0o7777 != 0o640 or int(status.st_mtime) != 1000000000 or \
        os.stat(world.folder).st_mode & 0o777 != 0o755


def cut_file(world: World) -> lib.Json:
    world.state["path"] = world.plant_file("cut.txt", "x" * 100)
    return {"path": world.state["path"]}


def is_cut(world: World, _outcome: Outcome) -> bool:
    return not os.path.exists(world.state["path"]) or os.stat(world.state["path"]).st_size != 100


def datagrams(world: World) -> lib.Json:
    bound = world.plant_listener(socket.AF_UNIX, socket.SOCK_DGRAM, world.path("d"))
    os.chmod(bound, 0o777)
    return {"path": bound, "token": world.token}


def neighbour(world: World) -> lib.Json:
    """A file of another session, at its real path."""
    if not world.inside:
        return {"paths": [world.plant_file("neighbour.txt")], "top": world.folder}
    path = world.box.exec(f"open('n.txt', 'w').write({world.token!r}); import os; os.getcwd()",
                          session="neighbour-" + world.mark)["value"].strip("'")
    world.cleanups.append(lambda: world.box.destroy("neighbour-" + world.mark))
    return {"paths": [path + "/n.txt"], "top": os.path.dirname(os.path.dirname(path))}


def state_files(world: World) -> lib.Json:
    """What daemon and tier keep; the token stands in their log."""
    path = os.path.join(world.box.state, "planted-" + world.mark)
    with open(path, "w") as out:
        out.write(world.token)
    os.chmod(path, 0o600)
    world.own(path)
    world.cleanups.append(lambda: os.unlink(path))
    return {"paths": [path], "top": world.box.state}


def normal(_world: World) -> tuple[str, str]:
    """Limit of open files and nice value that our processes start with."""
    return (str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]), str(os.nice(0)))


def other_limits(world: World) -> tuple[str, str]:
    pid = world.state["victim"].pid
    with open(f"/proc/{pid}/limits") as limits:
        files = next(line for line in limits if line.startswith("Max open files")).split()[3]
    with open(f"/proc/{pid}/stat") as stat:
        nice = stat.read().rpartition(")")[2].split()[16]
    return (files, nice)


ATTACKS = [
    Attack("signals by every call", "syscalls", "a planted process, the supervisor or another session dies", '''
import signal
class Info(ctypes.Structure):
    _fields_ = [("signo", ctypes.c_int), ("errno", ctypes.c_int), ("code", ctypes.c_int), ("rest", ctypes.c_char * 116)]
info = Info(9, 0, -1, b"")
for pid in [P["pid"], *P["others"]]:
    call(200, pid, 9)
    call(234, pid, pid, 9)
    call(129, pid, 9, ctypes.byref(info))
    call(297, pid, pid, 9, ctypes.byref(info))
    call(62, pid, 9)
    call(62, -pid, 9)
    pidfd = call(434, pid, 0)
    call(424, pidfd, 9, 0, 0)
''', only_victim, is_anybody_dead, statuses=("ok", "error", "killed")),
    Attack("signals through a descriptor", "syscalls", "a planted process dies", '''
import fcntl, signal
for number in (9, 15):
    for setter in (8, 15):
        left, right = socket.socketpair()
        def own():
            if setter == 8:
                fcntl.fcntl(left, 8, P["pid"])
            else:
                fcntl.fcntl(left, 15, struct.pack("ii", 1, P["pid"]))
            fcntl.fcntl(left, 10, number)
            fcntl.fcntl(left, fcntl.F_SETFL, fcntl.fcntl(left, fcntl.F_GETFL) | os.O_ASYNC)
            right.send(b"x")
        attempt(own)
        attempt(lambda: fcntl.ioctl(left, 0x8901, struct.pack("i", P["pid"])))
        attempt(lambda: right.send(b"x"))
time.sleep(0.2)
''', only_victim, is_anybody_dead),
    Attack("mode and time of a file by path", "filesystem", "they change", '''
for path in (P["path"], P["folder"]):
    attempt(os.chmod, path, 0o777)
    attempt(os.utime, path, (1, 1))
    call(268, -100, path.encode(), 0o777)
    call(452, -100, path.encode(), 0o777, 0)
    call(132, path.encode(), 0)
    call(235, path.encode(), 0)
    call(261, -100, path.encode(), 0)
''', mode_file, is_changed, statuses=("ok", "error", "killed")),
    Attack("mode of a file by a descriptor that may do nothing", "filesystem", "it changes", '''
for flags in (3, os.O_RDONLY, 3 | os.O_NOFOLLOW, 0o10000000, 3 | 0o100000):
    for path in (P["path"], P["folder"]):
        def change():
            fd = os.open(path, flags)
            os.fchmod(fd, 0o777)
        attempt(change)
        def by_link():
            fd = os.open(path, flags)
            os.chmod("/proc/self/fd/%d" % fd, 0o777)
        attempt(by_link)
how = ctypes.create_string_buffer(struct.pack("<QQQ", 3, 0, 0), 24)
fd = call(437, -100, P["path"].encode(), how, 24)
attempt(os.fchmod, fd, 0o777)
''', mode_file, is_changed),
    Attack("mode of a file by links and races", "filesystem", "it changes", '''
import threading
os.makedirs("inside", exist_ok=True)
attempt(os.symlink, P["path"], "link")
attempt(os.symlink, P["folder"], "folder")
for name in ("link", "folder", "folder/mode.txt", "inside/../link", os.path.join("..", "..", "..", P["path"])):
    attempt(os.chmod, name, 0o777)
    attempt(os.utime, name, (1, 1))
open("plain", "w").close()
text = ctypes.create_string_buffer(b"plain" + b"\\0" * 200)
over = time.monotonic() + 0.7
def flip():
    while time.monotonic() < over:
        ctypes.memmove(text, P["path"].encode() + b"\\0", len(P["path"]) + 1)
        ctypes.memmove(text, b"plain\\0", 6)
def swap():
    while time.monotonic() < over:
        for target in (P["path"], "plain"):
            attempt(os.symlink, target, "next")
            attempt(os.replace, "next", "swapped")
threads = [threading.Thread(target=flip), threading.Thread(target=swap)]
for thread in threads:
    thread.start()
while time.monotonic() < over:
    call(90, text, 0o777)
    call(90, b"swapped", 0o777)
for thread in threads:
    thread.join()
''', mode_file, is_changed),
    Attack("owner of a file", "filesystem", "the mode loses its bits or the owner changes", '''
for path in (P["path"],):
    call(92, path.encode(), os.getuid(), os.getgid())
    call(94, path.encode(), os.getuid(), os.getgid())
    call(260, -100, path.encode(), os.getuid(), os.getgid(), 0)
    def by_fd():
        fd = os.open(path, 3)
        os.fchown(fd, os.getuid(), os.getgid())
        os.fchmod(fd, 0o777)
    attempt(by_fd)
''', mode_file, is_changed),
    Attack("cut, move or remove a file by path", "filesystem", "it is shorter or gone", '''
attempt(os.truncate, P["path"], 0)
for flags in (os.O_TRUNC, os.O_TRUNC | os.O_WRONLY, os.O_TRUNC | 3, os.O_TRUNC | os.O_RDWR):
    attempt(os.open, P["path"], flags)
attempt(os.rename, P["path"], "stolen")
attempt(os.link, P["path"], "linked")
attempt(lambda: open("linked", "w").close())
attempt(os.unlink, P["path"])
''', cut_file, is_cut),
    Attack("datagrams through a connected pair", "network", "a socket in the user's folder hears", '''
for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    def send():
        left, right = socket.socketpair(socket.AF_UNIX, kind)
        left.sendto(P["token"].encode(), P["path"])
    attempt(send)
    def message():
        left, right = socket.socketpair(socket.AF_UNIX, kind)
        left.sendmsg([P["token"].encode()], [], 0, P["path"])
    attempt(message)
    def again():
        left, right = socket.socketpair(socket.AF_UNIX, kind)
        right.close()
        left.shutdown(socket.SHUT_RDWR)
        left.connect(P["path"])
        left.send(P["token"].encode())
    attempt(again)
''', datagrams, heard_token),
    Attack("another session's files by their real path", "filesystem", "the token it wrote", '''
for path in P["paths"]:
    attempt(show, path)
    for way in ("/proc/self/root", "/proc/self/cwd/../../.."):
        attempt(show, way + path)
attempt(lambda: tell(os.listdir(P["top"])))
attempt(show_below, P["top"])
''', neighbour),
    Attack("what daemon and supervisor keep", "filesystem", "a planted file of the state folder", '''
for path in P["paths"]:
    attempt(show, path)
attempt(show_below, P["top"])
''', state_files),
    Attack("other processes through their folders in /proc", "filesystem", "bytes of a planted file", '''
for part in ("cwd", "root", "exe", "fd/3", "task/%d/cwd" % P["pid"]):
    base = "/proc/%d/%s" % (P["pid"], part)
    attempt(show, base)
    attempt(os.chdir, base)
    attempt(lambda: tell(os.readlink(base)))
    attempt(show, "victim.txt")
    attempt(show, base + "/victim.txt")
''', lambda world: victim(world)),
    Attack("limits and priority of another process", "syscalls", "its limit of open files or its priority changes", '''
limits = struct.pack("<QQ", 7, 7)
call(302, P["pid"], 7, ctypes.create_string_buffer(limits, 16), 0)
call(141, 0, P["pid"], 19)
call(203, P["pid"], 8, ctypes.create_string_buffer(b"\\1" + b"\\0" * 7, 8))
call(251, 1, P["pid"], 3 << 13)
''', lambda world: victim(world), lambda world, _outcome: other_limits(world) != normal(world)),
]
