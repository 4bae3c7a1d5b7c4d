# SPDX-License-Identifier: Apache-2.0
"""Container engines of the tests' own: dockerd and podman's service with their folders, mounts and control groups, and
an image made of this machine's Python. Nothing of them is left when they are closed."""

import contextlib
import fcntl
import functools
import glob
import hashlib
import http.client
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest

import lib

IMAGE = "python:3.11-slim"  # the default of docker_image
NO_PYTHON = "no-python:1"
TOOLS = ["/bin/sh", *("/usr/bin/" + name for name in (
    "env cat ls sleep true false id seq touch echo printf chmod kill head wc tr mkdir rm ln dd sort mv cp grep yes "
    "setsid date"
).split())]
USERS = b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/sh\n"
START_S = 2 * lib.PATIENCE
PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
CONFIG = "/etc/docker"  # where dockerd puts a key
# crun wants control groups of one version only
LAUNCH = ["unshare", "-m", "--propagation", "private", "sh", "-c",
          'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"', "sh"]


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=START_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class OtherVersion:
    """An engine with other versions of its API (1.oldest to 1.newest), in front of one that has 1.41."""

    def __init__(self, engine: "Engine", path: str, oldest: int, newest: int) -> None:
        self._target, self._oldest, self._newest = engine.socket, oldest, newest
        self.asked: set[int] = set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=self._listener.accept()[:1], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(1 << 16)
            line, _, rest = head.partition(b"\r\n")
            method, path, _ = line.split(b" ")
            found = re.match(rb"/v1\.(\d+)(/.*)", path)
            minor = int(found[1]) if found else self._newest
            if found:
                self.asked.add(minor)
            if path == b"/version":
                status, body = 200, {"Version": "x", "ApiVersion": f"1.{self._newest}",
                                     "MinAPIVersion": f"1.{self._oldest}"}
            elif not self._oldest <= minor <= self._newest:
                status, body = 400, {"message": f"client version 1.{minor} is not supported"}
            else:
                is_upgrade = b"Upgrade:" in rest
                self._forward(client, method + b" /v1.41" + (found[2] if found else path) + b" HTTP/1.1\r\n" +
                              (b"" if is_upgrade else b"Connection: close\r\n") + rest)
                return
            text = json.dumps(body).encode()
            client.sendall(b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" %
                           (status, len(text), text))

    def _forward(self, client: socket.socket, first: bytes) -> None:
        def copy(source: socket.socket, target: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(1 << 16):
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)

        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self._target)
            engine.sendall(first)
            up = threading.Thread(target=copy, args=(client, engine), daemon=True)
            up.start()
            copy(engine, client)
            up.join()


def _libraries(programs: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for program in programs:
        for line in subprocess.run(["ldd", program], capture_output=True, text=True).stdout.splitlines():
            found.update(word for word in line.split() if word.startswith("/"))
    return found


def _add(tar: tarfile.TarFile, path: str) -> None:
    """A file with what its links lead to, where the file system of the image has it."""
    real = os.path.realpath(path)
    place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    tar.add(real, real.lstrip("/"))
    if place != real:
        link = tarfile.TarInfo(place.lstrip("/"))
        link.type, link.linkname = tarfile.SYMTYPE, real
        tar.addfile(link)


@functools.cache
def _image(has_python: bool) -> bytes:
    """The root of an image, as a tar."""
    out = io.BytesIO()
    programs = list(TOOLS)
    library = sysconfig.get_path("stdlib", vars={"installed_base": "/usr", "base": "/usr"})
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in "bin", "sbin", "lib", "lib64":
            if os.path.islink("/" + name):
                tar.add("/" + name, name)
        for name in "etc", "tmp", "run", "proc", "dev", "sys", "workspace":
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        users = tarfile.TarInfo("etc/passwd")
        users.size = len(USERS)
        tar.addfile(users, io.BytesIO(USERS))
        if has_python:
            programs += ["/usr/bin/python3", os.path.realpath("/usr/bin/python3")]
            extensions = os.path.join(library, "lib-dynload")
            programs += [os.path.join(extensions, name) for name in os.listdir(extensions)]
            skipped = ("__pycache__", "/test", "/idlelib", "/ensurepip", "/lib2to3", "/config-")
            tar.add(library, library.lstrip("/"),
                    filter=lambda info: None if any(part in info.name for part in skipped) else info)
        for path in sorted(_libraries(programs) | set(programs[: len(TOOLS) + 1] if has_python else TOOLS)):
            _add(tar, path)
    return out.getvalue()


def foreign_image(name: str) -> bytes:
    """An image for other processors, as `docker save` writes it."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("empty"))
    config = json.dumps({"architecture": "arm64", "os": "linux", "config": {}, "rootfs": {
        "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, content in ("config.json", config), ("manifest.json", manifest), ("layer.tar", layer.getvalue()):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


@functools.cache
def runsc() -> str | None:
    """gVisor with systrap: this machine's, or that of Debian's backports, unpacked in the build folder."""
    folder = os.path.join(os.path.abspath(lib.BUILD), "runsc")
    kept = os.path.join(folder, "usr/bin/runsc")
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker's containers may run with it
        for path in shutil.which("runsc", path=PATH), kept:
            if path and os.access(path, os.X_OK) and "systrap" in subprocess.run(
                    [path, "flags"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout:
                return path
        return kept if _fetch_runsc(folder) else None


def _fetch_runsc(folder: str) -> bool:
    with open("/etc/os-release") as text:
        release, = (line.split("=")[1].strip() for line in text if line.startswith("VERSION_CODENAME="))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "lists/partial"))
    targets = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(SIGNED_BY)",
                              "Identifier: Packages", "Component: main"], capture_output=True, text=True).stdout
    uri = next((line.split()[0] for line in targets.splitlines() if line.split()[1] == release),
               "http://deb.debian.org/debian")
    with open(os.path.join(folder, "sources.list"), "w") as out:
        out.write(f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {uri} {release}-backports main\n")
    get = ["apt-get", "-qq", "-o", f"Dir::Etc::sourcelist={folder}/sources.list", "-o", "Dir::Etc::sourceparts=-",
           "-o", f"Dir::State::lists={folder}/lists", "-o", "APT::Sandbox::User=root"]
    for words in [*get, "update"], [*get, "download", "runsc"]:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            print("runsc: " + done.stderr, file=sys.stderr)
            return False
    package, = (name for name in os.listdir(folder) if name.endswith(".deb"))
    subprocess.run(["dpkg-deb", "-x", package, "."], cwd=folder, check=True)
    shutil.rmtree(os.path.join(folder, "lists"))
    return True


class Engine:
    """dockerd, and its API."""

    PROGRAM = "dockerd"

    def __init__(self) -> None:
        present = shutil.which(self.PROGRAM, path=PATH) is not None and os.geteuid() == 0
        lib.need("docker", present, f"no {self.PROGRAM}, or not root")
        self.folder = tempfile.mkdtemp(prefix="snp-docker-", dir="/tmp")
        os.chmod(self.folder, 0o755)
        self.group = "/" + os.path.basename(self.folder)
        self.socket = os.path.join(self.folder, "docker.sock")
        self.process: subprocess.Popen[bytes] | None = None
        self.had_config = os.path.exists(CONFIG)
        self.start()
        for name, has_python in (IMAGE, True), (NO_PYTHON, False):
            repository, tag = name.split(":")
            status, said = self.ask("POST", f"/images/create?fromSrc=-&repo={repository}&tag={tag}", _image(has_python))
            assert status == 200, said
            if self.PROGRAM != "dockerd":  # it forgets the tag
                assert self.ask("POST", f"/images/{repository}:latest/tag?repo={repository}&tag={tag}")[0] == 201

    @property
    def env(self) -> dict[str, str]:
        return {"DOCKER_HOST": "unix://" + self.socket}

    def command(self) -> list[str]:
        # gVisor would need a network of its own to bring up a loopback in the container's
        runtimes: dict[str, dict[str, Any]] = {"crun": {"path": "/usr/bin/crun"}, "broken": {"path": "/bin/false"}}
        gvisor = runsc()
        if gvisor is not None:
            runtimes["runsc"] = {"path": gvisor, "runtimeArgs": ["--platform=systrap", "--network=none"]}
        with open(f"{self.folder}/daemon.json", "w") as out:
            json.dump({"runtimes": runtimes}, out)
        return ["dockerd", "--config-file", f"{self.folder}/daemon.json", "--data-root", f"{self.folder}/data",
                "--exec-root", f"{self.folder}/exec", "-p", f"{self.folder}/pid", "-H", "unix://" + self.socket,
                "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
                "--cgroup-parent", self.group, "--exec-opt", "native.cgroupdriver=cgroupfs"]

    def start(self) -> None:
        command = self.command()
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(
                [*LAUNCH, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={"PATH": PATH, "HOME": self.folder, **self.surroundings()})
        until = time.monotonic() + START_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                with open(f"{self.folder}/log") as text:
                    raise AssertionError(f"{self.PROGRAM} does not start: " + text.read()[-2000:])
            time.sleep(0.05)
        os.chmod(self.socket, 0o666)

    def surroundings(self) -> dict[str, str]:
        return {}

    def _answers(self) -> bool:
        try:
            return self.ask("GET", "/_ping")[0] == 200
        except OSError:
            return False

    def ask(self, method: str, path: str, body: bytes | None = None,
            headers: dict[str, str] | None = None) -> tuple[int, Any]:
        connection = _Connection(self.socket)
        try:
            connection.request(method, "/v1.41" + path, body, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(said)
        except ValueError:
            return answer.status, said

    def build(self, name: str, dockerfile: str, **files: bytes) -> None:
        """An image; files are programs."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for path, content in {"Dockerfile": dockerfile.encode(), **files}.items():
                info = tarfile.TarInfo(path)
                info.size, info.mode = len(content), 0o755
                tar.addfile(info, io.BytesIO(content))
        status, said = self.ask("POST", f"/build?t={name}", out.getvalue(), {"Content-Type": "application/x-tar"})
        assert status == 200 and b"Successfully" in bytes(str(said), "utf-8"), said

    def containers(self, state: str | None = None) -> list[str]:
        """All, or those of the tier with that folder."""
        return [row["Id"] for row in self.ask("GET", "/containers/json?all=1")[1]
                if state in (None, row["Labels"].get("snipara-sandbox.state"))]

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(START_S)

    def close(self) -> None:
        if self.process is None:
            return
        try:
            for container in self.containers():
                self.ask("DELETE", f"/containers/{container}?force=1&v=1")
        except OSError:
            pass  # it is gone already
        self.stop()
        for controller in [""] + ["/" + name for name in os.listdir("/sys/fs/cgroup")]:
            for path, _, _ in os.walk(f"/sys/fs/cgroup{controller}{self.group}", topdown=False):
                os.rmdir(path)
        assert lib.wait_for(self._is_removed, 2 * lib.PATIENCE, 0.2), f"{self.folder} stays"
        if not self.had_config:
            shutil.rmtree(CONFIG, ignore_errors=True)

    def _is_removed(self) -> bool:
        """podman's last commands, which its containers start when they end, may still write there."""
        shutil.rmtree(self.folder, ignore_errors=True)
        return not os.path.exists(self.folder) and not any(map(self._is_named_by, glob.glob("/proc/[0-9]*/cmdline")))

    def _is_named_by(self, path: str) -> bool:
        with contextlib.suppress(OSError), open(path, "rb") as words:
            return self.folder.encode() in words.read()
        return False


class Podman(Engine):
    """The service of podman, which speaks the same."""

    PROGRAM = "podman"
    RUNTIME = "crun"

    def surroundings(self) -> dict[str, str]:
        with open(f"{self.folder}/containers.conf", "w") as out:
            # the usual limits are above what root may have in some places
            out.write('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
                      f'[engine]\nruntime = "{self.RUNTIME}"\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n')
        with open(f"{self.folder}/storage.conf", "w") as out:
            out.write(f'[storage]\ndriver = "overlay"\ngraphroot = "{self.folder}/data"\n'
                      f'runroot = "{self.folder}/run"\n')
        return {"CONTAINERS_CONF": f"{self.folder}/containers.conf", "TMPDIR": self.folder,
                "CONTAINERS_STORAGE_CONF": f"{self.folder}/storage.conf", "XDG_RUNTIME_DIR": self.folder}

    def close(self) -> None:
        super().close()
        for path in glob.glob("/sys/fs/cgroup/*/libpod_parent"):
            for folder, _, _ in os.walk(path, topdown=False):
                with contextlib.suppress(OSError):  # another podman's
                    os.rmdir(folder)

    def command(self) -> list[str]:
        return ["podman", "--tmpdir", f"{self.folder}/exec", "system", "service", "--time=0", "unix://" + self.socket]


class Rootless(Podman):
    """A user's own, which may not write control groups: it ignores limits. The host knows nothing of that user."""

    def __init__(self) -> None:
        lib.need("docker", shutil.which("newuidmap") is not None, "no newuidmap (uidmap)")
        super().__init__()

    def surroundings(self) -> dict[str, str]:
        user = lib.USER_ID
        for name, text in {"passwd": f"root:x:0:0::/root:/bin/sh\nsnp:x:{user}:{user}::{self.folder}:/bin/sh\n",
                           "group": f"root:x:0:\nsnp:x:{user}:\n", "subuid": "snp:300000:65536\n",
                           "subgid": "snp:300000:65536\n"}.items():
            with open(f"{self.folder}/{name}", "w") as out:
                out.write(text)
        env = super().surroundings()
        os.chown(self.folder, user, user)
        return {**env, "HOME": self.folder, "USER": "snp"}

    def command(self) -> list[str]:
        known = "".join(f"mount --bind {self.folder}/{name} /etc/{name} && "
                        for name in ("passwd", "group", "subuid", "subgid"))
        return ["sh", "-c", known + 'exec "$@"', "sh", "setpriv", "--reuid", str(lib.USER_ID), "--regid",
                str(lib.USER_ID), "--clear-groups", *super().command()]

    def stop(self, number: int = signal.SIGTERM) -> None:
        super().stop(number)
        with contextlib.suppress(OSError), open(f"{self.folder}/exec/pause.pid") as text:
            os.kill(int(text.read()), signal.SIGKILL)  # it holds the namespaces
        for path in filter(self._is_named_by, glob.glob("/proc/[0-9]*/cmdline")):  # the service it started again
            with contextlib.suppress(OSError):
                os.kill(int(path.split("/")[2]), signal.SIGKILL)


# The docker tier with other engines and runtimes: fixture, runtime.
OTHERS = {"docker-crun": ("engine", "crun"), "docker-runsc": ("engine", "runsc"), "docker-podman": ("podman", "crun")}
NO_POOL = {"SNIPARA_SANDBOX_POOL": "0"}  # each container costs seconds, and few tests open two sessions


def other_sandbox(request: pytest.FixtureRequest, name: str) -> lib.Sandbox:
    """A runtime of the docker tier with one of OTHERS."""
    fixture, runtime = OTHERS[name]
    lib.need("docker", runtime != "runsc" or runsc() is not None, "no gVisor with systrap")
    own: Engine = request.getfixturevalue(fixture)
    return lib.Sandbox("root", tier="docker", env={**own.env, **NO_POOL, "SNIPARA_SANDBOX_DOCKER_RUNTIME": runtime})


def env_for(request: pytest.FixtureRequest, tier: str) -> dict[str, str]:
    """What a runtime of that tier needs to know."""
    return {**request.getfixturevalue("engine").env, **NO_POOL} if tier == "docker" else {}


if __name__ == "__main__":  # for a look by hand
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    engine = Podman() if "podman" in sys.argv else Rootless() if "rootless" in sys.argv else Engine()
    print(engine.env, file=sys.stderr)
    try:
        signal.pause()
    except KeyboardInterrupt:
        engine.close()
