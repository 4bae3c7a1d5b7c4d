# SPDX-License-Identifier: Apache-2.0
"""A container engine of the tests' own: dockerd with its folders, mounts and control groups, and an image made of
this machine's Python. Nothing of it is left when it is closed."""

import hashlib
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Iterable
from typing import Any

import lib

IMAGE = "python:3.11-slim"  # the default of docker_image
NO_PYTHON = "no-python:1"
TOOLS = ["/bin/sh", *("/usr/bin/" + name for name in (
    "env cat ls sleep true false id seq touch echo printf chmod kill head wc tr mkdir rm ln dd sort mv cp grep"
).split())]
USERS = b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/sh\n"
START_S = 60
PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
CONFIG = "/etc/docker"  # where dockerd puts a key


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=START_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


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


class Engine:
    """dockerd, and its API."""

    def __init__(self) -> None:
        present = shutil.which("dockerd", path=PATH) is not None and os.geteuid() == 0
        lib.need("docker", present, "no dockerd, or not root")
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

    @property
    def env(self) -> dict[str, str]:
        return {"DOCKER_HOST": "unix://" + self.socket}

    def start(self) -> None:
        command = ["dockerd", "--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec",
                   "-p", f"{self.folder}/pid", "-H", "unix://" + self.socket, "--bridge=none", "--iptables=false",
                   "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--cgroup-parent", self.group,
                   "--exec-opt", "native.cgroupdriver=cgroupfs"]
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(
                ["unshare", "-m", "--propagation", "private", *command], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, env={"PATH": PATH, "HOME": self.folder})
        until = time.monotonic() + START_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                with open(f"{self.folder}/log") as text:
                    raise AssertionError("dockerd does not start: " + text.read()[-2000:])
            time.sleep(0.05)
        os.chmod(self.socket, 0o666)

    def _answers(self) -> bool:
        try:
            return self.ask("GET", "/_ping")[0] == 200
        except OSError:
            return False

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        connection = _Connection(self.socket)
        try:
            connection.request(method, "/v1.41" + path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(said)
        except ValueError:
            return answer.status, said

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
        for controller in os.listdir("/sys/fs/cgroup"):
            for path, _, _ in os.walk(f"/sys/fs/cgroup/{controller}{self.group}", topdown=False):
                os.rmdir(path)
        if os.path.isdir("/sys/fs/cgroup" + self.group):
            for path, _, _ in os.walk("/sys/fs/cgroup" + self.group, topdown=False):
                os.rmdir(path)
        shutil.rmtree(self.folder)
        if not self.had_config:
            shutil.rmtree(CONFIG, ignore_errors=True)


if __name__ == "__main__":  # for a look by hand
    engine = Engine()
    print(engine.env, file=sys.stderr)
    try:
        signal.pause()
    except KeyboardInterrupt:
        engine.close()
