# SPDX-License-Identifier: Apache-2.0
"""Images of the docker tier: pulled where they are absent, and built for a workspace. From a registry and an index of
packages on this host, since there is no other network."""

import functools
import glob
import hashlib
import http.server
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest

import engine as engines
import lib
import mcp
import packages

BASE = "with-pip:1"
CONTEXT = "python -c 'import os; print(sorted((os.path.join(p, n)[2:], os.path.islink(os.path.join(p, n))) " \
          "for p, d, f in os.walk(\".\") for n in d + f), file=open(\"/etc/context\", \"w\"))'"


def tar_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def build(engine: engines.Engine, tag: str, files: dict[str, bytes]) -> None:
    status, said = engine.ask("POST", f"/build?t={tag}&networkmode=none&rm=1", tar_of(files))
    assert status == 200 and engine.ask("GET", f"/images/{tag}/json")[0] == 200, said


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def index() -> Iterator[str]:
    """The address of an index of packages."""
    folder = tempfile.mkdtemp(prefix="snp-index-", dir="/tmp")
    wheels = glob.glob("/usr/share/python-wheels/pip-*.whl")
    lib.need("docker", bool(wheels), "no wheel of pip (python3-venv)")
    os.mkdir(f"{folder}/pip")
    shutil.copy(wheels[0], f"{folder}/pip")
    for name in "pytest", "pytest_asyncio", "one_more":
        packages.wheel(f"{folder}/{name.replace('_', '-')}", name, {f"{name}.py": "here = True\n"})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def sandbox(engine: engines.Engine, index: str) -> Iterator[lib.Sandbox]:
    with zipfile.ZipFile(glob.glob("/usr/share/python-wheels/pip-*.whl")[0]) as pip:
        files = {f"root/usr/lib/python3/dist-packages/{name}": pip.read(name) for name in pip.namelist()
                 if not name.endswith("/")}
    build(engine, BASE, {"Dockerfile": (f"FROM {engines.IMAGE}\nCOPY root /\n"
                                        "RUN rm -f /usr/lib/python3*/EXTERNALLY-MANAGED; ln -sf python3 "
                                        "/usr/bin/python\n").encode(), **files})
    box = lib.Sandbox("root", tier="docker", env={
        **engine.env, **engines.NO_POOL, "PIP_INDEX_URL": index, "SNIPARA_SANDBOX_DOCKER_IMAGE": BASE,
        "SNIPARA_SANDBOX_DOCKER_WORKSPACE_BUILD_NETWORK": "host"})
    yield box
    box.close()


@pytest.fixture
def workspace(sandbox: lib.Sandbox) -> Iterator[str]:
    folder = sandbox.make_folder(f"workspace-{time.monotonic_ns()}")
    yield folder
    shutil.rmtree(folder)


def keys(**values: str) -> dict[str, str]:
    return {"SNIPARA_SANDBOX_DOCKER_" + name.upper(): value for name, value in values.items()}


def tag_of(path: str, command: str, dependencies: dict[str, str]) -> str:
    known = b"".join(name.encode() + b"\0" + text.encode() + b"\0" for name, text in dependencies.items())
    parts = (BASE, os.path.realpath(path), command, hashlib.sha256(known).hexdigest()[:16])
    return "snipara-sandbox-workspace:" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def image_of(done: Any) -> str:
    return str(done["manifest"]["rootfs"])


# Workspace images ----------------------------------------------------------------------------------------------------


def test_packages_are_there_and_the_image_is_built_once(sandbox: lib.Sandbox, workspace: str) -> None:
    """The three lines of a configuration that the documents of 2.x show."""
    box = sandbox
    box.make_file(os.path.join(workspace, "test_it.py"), "def test_it(): pass\n")
    config = box.make_file(os.path.join(box.home, "tests-only.toml"), (
        '[snipara_sandbox]\nenvironment = "docker"\ndocker_mount_workspace = true\n'
        'docker_workspace_setup = "tests-only"\n'))
    code = "import pytest, pytest_asyncio, os; pytest.here, os.listdir()"
    done = box.cli("exec", "--json", "--config", config, code, cwd=workspace)
    result = json.loads(done.stdout)
    assert result["value"] == "(True, ['test_it.py'])", done.stderr
    assert image_of(result) == tag_of(workspace, "python -m pip install pytest pytest-asyncio", {})
    assert f"preparing image {image_of(result)}: Step 1/" in done.stderr
    again = box.cli("exec", "--json", "--config", config, code, cwd=workspace)
    assert image_of(json.loads(again.stdout)) == image_of(result) and "preparing" not in again.stderr
    # Programs find the workspace's modules: `pytest` does not look in the current folder.
    path = "import os; os.environ.get('PYTHONPATH')"
    for value, more in {"/workspace": (), "/tmp": ("--set-env", "PYTHONPATH=/tmp")}.items():
        done = box.cli("exec", "--json", "--config", config, *more, path, cwd=workspace)
        assert json.loads(done.stdout)["value"] == repr(value), done.stdout + done.stderr


@pytest.mark.parametrize("files, values, command", [
    ({"requirements.txt": "one-more\n"}, {"setup": "package"}, "python -m pip install -r requirements.txt"),
    ({"requirements.txt": "one-more\n"}, {"setup": "dev"}, "python -m pip install -r requirements.txt pytest"),
    ({}, {"setup": "tests-only", "install_extras": "one-more>=1, pytest"},
     "python -m pip install pytest pytest-asyncio && python -m pip install 'one-more>=1' 'pytest'"),
])
def test_what_is_installed(
        sandbox: lib.Sandbox, workspace: str, files: dict[str, str], values: dict[str, str], command: str) -> None:
    for name, text in files.items():
        sandbox.make_file(os.path.join(workspace, name), text)
    done = sandbox.exec("import one_more; one_more.here", options=["--project", workspace], env=keys(
        workspace_path=workspace, **{"workspace_" + name: value for name, value in values.items()}))
    assert done["value"] == "True" and image_of(done) == tag_of(workspace, command, files)


def test_a_hostile_workspace_and_what_it_is_built_from(sandbox: lib.Sandbox, workspace: str) -> None:
    """Its Dockerfile and .dockerignore mean nothing; secrets, links' ends and what is no source stay out."""
    box = sandbox
    long = "n" * 90 + "/" + "m" * 90
    hostile = "FROM scratch\n"
    for name in (".env", "sub/.ssh/id", ".git/config", "node_modules/x", "sub/dist/x", "a.pyc",
                 ".snipara-sandbox-x", "kept.py", long, "line\nbreak"):
        box.make_file(os.path.join(workspace, name), "secret")
    for name in "Dockerfile", ".snipara-sandbox.Dockerfile":
        box.make_file(os.path.join(workspace, name), hostile)
    box.make_file(os.path.join(workspace, ".dockerignore"), "*\n")
    os.symlink("/etc/shadow", os.path.join(workspace, "out"))
    os.symlink("m" * 150, os.path.join(workspace, "far"))
    os.mkfifo(os.path.join(workspace, "fifo"))
    done = box.exec("eval(open('/etc/context').read()), open('/etc/context').read().count('secret')",
                    env=keys(workspace_path=workspace, workspace_setup="dev", workspace_install_command=CONTEXT))
    found, _ = eval(done["value"])
    assert sorted(found) == sorted((name, is_link) for name, is_link in (
        ("Dockerfile", False), (".snipara-sandbox.Dockerfile", False), ("kept.py", False), ("line\nbreak", False),
        ("n" * 90, False), (long, False), ("out", True), ("far", True), ("sub", False)))


@pytest.mark.parametrize("values, words", [
    ({"setup": "dev"}, ("Cannot infer an install command", "docker_workspace_install_command")),
    ({"setup": "package"}, ("Cannot infer an install command",)),
    ({"setup": "tests-only", "install_extras": "x;reboot"}, ("Invalid install extra 'x;reboot'",)),
    ({"setup": "tests-only", "install_extras": "-rx"}, ("Invalid install extra '-rx'",)),
    ({"setup": "everything"}, ("docker_workspace_setup", "tests-only")),
    ({"setup": "dev", "install_command": "seq 100; printf '\\033]0;x\\007red\\n'; false"},
     ("Failed to prepare workspace image 'snipara-sandbox-workspace:", "returned a non-zero code: 1",
      "Recent build log:", "  99\n", "\\x1b]0;x\\x07red")),
])
def test_an_image_that_cannot_be_built(
        sandbox: lib.Sandbox, workspace: str, values: dict[str, str], words: tuple[str, ...]) -> None:
    done = sandbox.cli("exec", "--env", "docker", "1", env=keys(
        workspace_path=workspace, **{"workspace_" + name: value for name, value in values.items()}))
    assert done.returncode != 0
    for word in words:
        assert word in done.stderr, done.stderr
    assert "\x1b" not in done.stderr and "  70\n" not in done.stderr


def test_another_image_of_that_name_is_not_taken(
        engine: engines.Engine, sandbox: lib.Sandbox, workspace: str) -> None:
    """The name has 16 digits of a hash, the image all of them."""
    tag = tag_of(workspace, "python -m pip install pytest pytest-asyncio", {})
    build(engine, tag, {"Dockerfile": f"FROM {BASE}\nLABEL snipara-sandbox.workspace=other\n".encode()})
    done = sandbox.exec("import pytest; pytest.here",
                        env=keys(workspace_path=workspace, workspace_setup="tests-only"))
    assert done["value"] == "True" and image_of(done) == tag


def test_a_server_that_started_before_its_engine_uses_the_workspace_image(
        sandbox: lib.Sandbox, workspace: str) -> None:
    """Not docker_image, which lacks the packages."""
    box = sandbox
    socket_of_engine = box.env["DOCKER_HOST"].removeprefix("unix://")
    late = os.path.join(workspace, "late.sock")
    given = {**keys(workspace_path=workspace, workspace_setup="tests-only"), "DOCKER_HOST": f"unix://{late}"}
    code = "import pytest; pytest.here"
    with mcp.Server(box, cwd=workspace, env=given) as server:
        server.initialize()
        assert "container engine" in str(server.tool("execute_python", code=code, session="early"))
        os.symlink(socket_of_engine, late)
        unbuilt = str(server.tool("execute_python", code=code, session="late"))
        assert "is not built yet; exec --env docker" in unbuilt, unbuilt
        assert box.exec(code, env=given)["value"] == "True"  # builds it
        assert "True" in str(server.tool("execute_python", code=code, session="late"))


def test_a_server_notices_changed_dependencies(sandbox: lib.Sandbox, workspace: str) -> None:
    """Sessions opened later use the new image, after it is built; open ones keep theirs, and a note reports it."""
    given = keys(workspace_path=workspace, workspace_setup="package")
    needed = sandbox.make_file(os.path.join(workspace, "requirements.txt"), "pytest\n")
    code = "import one_more; one_more.here"
    with mcp.Server(sandbox, cwd=workspace, env=given) as server:
        server.initialize()
        assert "No module named" in str(server.tool("execute_python", code=code, session_id="old"))
        sandbox.make_file(needed, "pytest\none_more\n")
        unbuilt = str(server.tool("execute_python", code=code, session_id="new"))
        assert "is not built yet; exec --env docker" in unbuilt, unbuilt
        assert sandbox.exec(code, env=given)["value"] == "True"  # builds it
        assert "True" in str(server.tool("execute_python", code=code, session_id="new"))
        kept = str(server.tool("execute_python", code=code, session_id="old"))
        assert "No module named" in kept and "rootfs" in kept, kept
        os.remove(needed)
        assert "has no pyproject.toml" in str(server.tool("execute_python", code="1", session_id="new"))


# Pulling -------------------------------------------------------------------------------------------------------------


def answers(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as asks:
        return asks.connect_ex((host, int(port))) == 0


@pytest.fixture
def registry() -> Iterator[str]:
    program = shutil.which("docker-registry")
    lib.need("docker", program is not None, "no docker-registry")
    folder = tempfile.mkdtemp(prefix="snp-registry-", dir="/tmp")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with open(f"{folder}/config.yml", "w") as out:
        json.dump({"version": "0.1", "storage": {"filesystem": {"rootdirectory": f"{folder}/data"}},
                   "http": {"addr": address}}, out)  # JSON is YAML, too
    with open(f"{folder}/log", "wb") as log:
        process = subprocess.Popen([str(program), "serve", f"{folder}/config.yml"], stdout=log, stderr=log)
    until = time.monotonic() + lib.PATIENCE
    while not answers(address):
        assert process.poll() is None and time.monotonic() < until, "docker-registry does not start"
        time.sleep(0.05)
    yield address
    process.kill()
    process.wait()
    shutil.rmtree(folder)


def test_an_image_that_is_absent_is_pulled(engine: engines.Engine, sandbox: lib.Sandbox, registry: str) -> None:
    name = registry + "/pulled:1"
    build(engine, name, {"Dockerfile": f"FROM {engines.IMAGE}\nCOPY new /new\n".encode(), "new": os.urandom(1 << 20)})
    assert engine.ask("POST", f"/images/{name}/push", b"", {"X-Registry-Auth": "e30="})[0] == 200
    assert engine.ask("DELETE", f"/images/{name}?force=1")[0] == 200
    done = sandbox.cli("exec", "--json", "--env", "docker", "import os; os.path.getsize('/new')",
                       env=keys(image=name))
    result = json.loads(done.stdout)
    assert result["value"] == str(1 << 20) and image_of(result) == name
    told = [line for line in done.stderr.splitlines() if line.startswith(f"preparing image {name}: ")]
    assert told[0].endswith("pulling it, once") and told[-1].endswith("pulled")
    done = sandbox.cli("exec", "--env", "docker", "1", env=keys(image=registry + "/none:1"))
    assert done.returncode == 1 and "cannot be pulled (" in done.stderr and "docker load" in done.stderr
