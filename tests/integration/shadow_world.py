# SPDX-License-Identifier: Apache-2.0
"""pid 1 alone, in namespaces with a workspace and a place for shadows like those of a sandbox,
and beside it a process that does what code would do.

    with World(project={"a": "text"}) as w:
        w.run("open('f', 'w').write('x')")    # in /workspace; the value of an expression comes back
        w.keep(1)
        w.restore(1)

Neither filter nor Landlock: what they add is tested through the tiers. It all runs as a user who
owns nothing of the host, because what the code does here it does by chance.
"""

import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from typing import Any, Self

Json = dict[str, Any]
HEADER = struct.Struct("<IIIB3x")
DROP, KEEP, RESTORE, PACK, UNPACK, CHANGES, REPLY = 58, 59, 60, 61, 62, 55, 64
COMMAND, SIGNAL, SWEEP, WAKE, PUT, HOLD_COPY, EXIT, SPAWN = 48, 49, 50, 51, 52, 57, 65, 68
OVER, OPEN, LOST, STOPPED, SHORT = 1, 2, 4, 8, 16
LIVE = 0xFFFFFFFF
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_STRICTATIME = 1, 2, 4, 32, 4096, 1 << 24
MNT_DETACH = 2
DROPPED = ["/usr/bin/setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]


class InitError(OSError):
    """The errno of a REPLY."""


class World:
    def __init__(self, project: dict[str, str] | None = None, size: str = "64m", inodes: int = 20000,
                 store: str = "64m", relatime: bool = False) -> None:
        import lib  # the build's place; not needed inside

        unshare = ["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork"]
        done = subprocess.run([*unshare, "/bin/true"], capture_output=True, text=True)
        lib.need("userns", done.returncode == 0, done.stderr)
        self.top = tempfile.mkdtemp(prefix="snp-shadow-")
        for file in (os.path.join(lib.BUILD, "snp-init"), os.path.join(lib.BUILD, "snp-files"),
                     os.path.abspath(__file__)):
            shutil.copy(file, self.top)
        shutil.copytree(os.path.join(lib.BUILD, "guest"), os.path.join(self.top, "guest"))
        if project is not None:
            for path, text in project.items():
                full = os.path.join(self.top, "lower", path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w") as out:
                    out.write(text)
        control, inner_control = socket.socketpair()
        code, inner_code = socket.socketpair()
        spec: Json = {"top": self.top, "project": project is not None, "size": size, "store": store,
                      "inodes": inodes, "relatime": relatime,
                      "control": inner_control.fileno(), "code": inner_code.fileno()}
        who = []
        if os.geteuid() == 0:
            who = ["/usr/bin/setpriv", f"--reuid={lib.USER_ID}", f"--regid={lib.USER_ID}",
                   "--clear-groups"]
            for folder, names, files in os.walk(self.top):
                for name in [".", *names, *files]:
                    os.lchown(os.path.join(folder, name), lib.USER_ID, lib.USER_ID)
        self.process = subprocess.Popen(
            [*who, *unshare, "--kill-child", "--mount-proc", lib.PYTHON, "-B",
             os.path.join(self.top, os.path.basename(__file__)), json.dumps(spec)],
            pass_fds=(spec["control"], spec["code"]), stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE)
        inner_control.close()
        inner_code.close()
        self.control, self.code, self.next = control, code, 0
        self.patience = lib.PATIENCE
        self.control.settimeout(self.patience)
        self.code.settimeout(self.patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.control.close()
        self.code.close()
        try:
            self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
        shutil.rmtree(self.top, ignore_errors=True)

    def run(self, text: str) -> Any:
        """Let the code run text, an expression or statements; its value (through repr and eval)."""
        self.code.sendall(struct.pack("<I", len(text.encode())) + text.encode())
        size, = struct.unpack("<I", self._exactly(self.code, 4))
        answer = json.loads(self._exactly(self.code, size))
        if answer["error"]:
            raise RuntimeError(answer["error"])
        return eval(answer["value"])  # of our own making

    def tree(self) -> Any:
        """All of the workspace: path to (kind, mode, contents or target)."""
        return self.run("snapshot()")

    @staticmethod
    def _exactly(sock: socket.socket, n: int) -> bytes:
        got = b""
        while len(got) < n:
            part = sock.recv(n - len(got))
            if not part:
                raise EOFError("the world ended")
            got += part
        return got

    def send(self, kind: int, raw: bytes = b"", fd: int | None = None) -> int:
        self.next += 1
        frame = HEADER.pack(len(raw), self.next, 0, kind)
        if fd is not None:
            socket.send_fds(self.control, [frame], [fd])
            self.control.sendall(raw)
        else:
            self.control.sendall(frame + raw)
        return self.next

    def reply(self, number: int) -> bytes:
        while True:
            size, ident, _, kind = HEADER.unpack(self._exactly(self.control, 16))
            body = self._exactly(self.control, size)
            if kind == REPLY and ident == number:
                eno, = struct.unpack_from("<I", body)
                if eno:
                    raise InitError(eno, os.strerror(eno))
                return body[4:]

    def ask(self, kind: int, raw: bytes = b"", fd: int | None = None) -> bytes:
        return self.reply(self.send(kind, raw, fd))

    def keep(self, number: int, most_bytes: int = 64 << 20, most_files: int = 20000, most_new: int = 64 << 20) -> Json:
        raw = self.ask(KEEP, struct.pack("<IQIQ", number, most_bytes, most_files, most_new))
        return dict(zip(("bytes", "files", "flags"), struct.unpack("<QIB", raw)))

    def restore(self, number: int) -> None:
        self.ask(RESTORE, struct.pack("<I", number))

    def changes(self) -> Json:
        raw = self.ask(CHANGES)
        at, files = 17, {}
        while at < len(raw):
            kind, = struct.unpack_from("<B", raw, at)
            end = raw.index(b"\0", at + 17)
            files[os.fsdecode(raw[at + 17:end])] = kind
            at = end + 1
        return files

    def pack(self, number: int = LIVE, known: bytes = b"") -> bytes:
        r, w = os.pipe()
        ident = self.send(PACK, struct.pack("<I", number) + known, w)
        os.close(w)
        with os.fdopen(r, "rb") as stream:
            got = stream.read()
        self.reply(ident)
        return got

    def unpack(self, stream: bytes) -> None:
        r, w = os.pipe()
        ident = self.send(UNPACK, b"", r)
        os.close(r)
        try:
            with os.fdopen(w, "wb") as out:
                out.write(stream)
        except BrokenPipeError:
            pass
        self.reply(ident)


def items(stream: bytes) -> Json:
    """The heads of a bundle, by name."""
    at, found = 0, {}
    while at < len(stream):
        size, _, head_len, kind = HEADER.unpack_from(stream, at)
        head = json.loads(stream[at + 16:at + 16 + head_len] or b"{}")
        if kind == 80:
            found[head["name"]] = head
        at += 16 + size
    return found


# Inside -------------------------------------------------------------------------------------


def mount(source: str, target: str, kind: str, flags: int, data: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags),
                  data.encode()):
        raise OSError(ctypes.get_errno(), f"mount {target}: {os.strerror(ctypes.get_errno())}")


def become_code(fd: int) -> None:
    """Run what is asked for, in the workspace."""

    def snapshot(folder: bytes = b".") -> dict[bytes, tuple[str, int, Any]]:
        found: dict[bytes, tuple[str, int, Any]] = {}
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode & 0o7777
            key = path[2:]
            if os.path.islink(path):
                found[key] = ("link", 0, os.readlink(path))
            elif os.path.isdir(path):
                found[key] = ("dir", mode, None)
                os.chmod(path, 0o700)  # its owner may not be able to look into it
                found.update(snapshot(path))
                os.chmod(path, mode)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[key] = ("file", mode, file.read())
            else:
                found[key] = ("other", mode, None)
        return found

    os.chdir("/workspace")
    sock = socket.socket(fileno=fd)
    scope = {"os": os, "shutil": shutil, "snapshot": snapshot, "signal": signal}
    while True:
        head = sock.recv(4)
        if len(head) < 4:
            return
        text = World._exactly(sock, struct.unpack("<I", head)[0]).decode()
        answer = {"error": None, "value": "None"}
        try:
            try:
                answer["value"] = repr(eval(compile(text, "<code>", "eval"), scope))
            except SyntaxError:
                exec(compile(text, "<code>", "exec"), scope)
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        raw = json.dumps(answer).encode()
        sock.sendall(struct.pack("<I", len(raw)) + raw)


def become_init(spec: Json) -> None:
    top = spec["top"]
    atime = 0 if spec["relatime"] else MS_STRICTATIME
    size = f"size={spec['size']},nr_inodes={spec['inodes']},mode=755"
    os.makedirs(f"{top}/root", exist_ok=True)
    workspace, base = "/workspace", -1
    mount("tmpfs", f"{top}/root", "tmpfs", 0, "")
    for name in ("workspace", "tmp", "proc", "usr", "dev", "etc", "scratch", "run", "py"):
        os.mkdir(f"{top}/root/{name}")
    for name in ("usr", "dev", "etc", "proc"):
        mount(f"/{name}", f"{top}/root/{name}", "", MS_BIND | 16384, "")
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{top}/root/{name}")
    mount(top, f"{top}/root/py", "", MS_BIND, "")
    scratch = f"{top}/root/scratch"
    mount("tmpfs", scratch, "tmpfs", MS_NOSUID | MS_NODEV, f"size={spec['store']},mode=700")
    store = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
    ctypes.CDLL(None).umount2(scratch.encode(), MNT_DETACH)
    if spec["project"]:
        mount("tmpfs", scratch, "tmpfs", MS_NOSUID | MS_NODEV | atime, size)
        for name in ("upper", "work", "base", "mask"):
            os.mkdir(f"{scratch}/{name}")
        mount("overlay", f"{scratch}/base", "overlay", MS_RDONLY,
              f"lowerdir={scratch}/mask:{top}/lower,userxattr")
        base = os.open(f"{scratch}/base", os.O_RDONLY | os.O_DIRECTORY)
        mount("overlay", f"{top}/root{workspace}", "overlay", MS_NOSUID | MS_NODEV | atime,
              f"lowerdir={scratch}/mask:{top}/lower,upperdir={scratch}/upper,"
              f"workdir={scratch}/work,userxattr")
        layer = os.open(f"{scratch}/upper", os.O_RDONLY | os.O_DIRECTORY)
        ctypes.CDLL(None).umount2(scratch.encode(), MNT_DETACH)
    else:
        mount("tmpfs", f"{top}/root{workspace}", "tmpfs", MS_NOSUID | MS_NODEV | atime, size)
        layer = os.open(f"{top}/root{workspace}", os.O_RDONLY | os.O_DIRECTORY)
    program = os.open(f"{top}/snp-init", os.O_RDONLY)
    files = os.open(f"{top}/snp-files", os.O_RDONLY)
    mount("tmpfs", f"{top}/root/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "")
    mount("", f"{top}/root", "", MS_REMOUNT | MS_BIND | MS_RDONLY, "")
    os.chroot(f"{top}/root")
    os.chdir("/")
    child = os.fork()
    if child == 0:
        for fd in (store, layer, program, files, spec["control"], *([base] if base >= 0 else [])):
            os.close(fd)
        os.set_inheritable(spec["code"], True)
        os.execv(DROPPED[0], [*DROPPED, sys.executable, "-B", "/py/shadow_world.py", "code",
                              str(spec["code"])])
    seed, other = socket.socketpair()
    wanted = {3: spec["control"], 4: seed.fileno(), 5: layer, 6: store, 7: base, 8: files}
    high = {low: os.dup(fd) if fd >= 0 else -1 for low, fd in wanted.items()}
    high = {low: 100 + low for low, fd in high.items() if fd >= 0 and os.dup2(fd, 100 + low)}
    os.dup2(program, 120)
    other.detach()
    for low in range(3, 100):
        try:
            os.close(low)
        except OSError:
            pass
    for low, fd in high.items():
        os.dup2(fd, low)
        os.close(fd)
    os.execv(DROPPED[0], [*DROPPED, "/proc/self/fd/120", str(child)])


if __name__ == "__main__":
    if sys.argv[1] == "code":
        become_code(int(sys.argv[2]))
    else:
        become_init(json.loads(sys.argv[1]))
