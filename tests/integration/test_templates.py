# SPDX-License-Identifier: Apache-2.0
"""Templates that users add: any CPython, packages the system lacks, a project's own .venv."""

import ctypes
import errno
import functools
import glob
import json
import os
import secrets
import shutil
import socket
import struct
import subprocess
import tarfile
import time

import lib
import packages
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast
import pytest

SNOW = {"snowball_x/__init__.py": "value = 42\n\ndef main():\n    print('from a script', value)\n"}
OTHERS = packages.other_pythons()


@pytest.fixture
def place(sandbox: lib.Sandbox) -> Iterator[str]:
    """A folder outside /tmp, which a sandbox has of its own; for our user."""
    path = f"/var/tmp/snp-{secrets.token_hex(6)}"
    os.mkdir(path)
    yield packages.own(sandbox, path)
    shutil.rmtree(path)


@pytest.fixture
def name(sandbox: lib.Sandbox) -> Iterator[str]:
    name = "t-" + secrets.token_hex(4)
    yield name
    sandbox.cli("template", "remove", "--force", name)


def add(box: lib.Sandbox, name: str, *options: str) -> Any:
    done = box.cli("template", "add", name, "--json", *options, timeout=2 * lib.PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wheels(box: lib.Sandbox) -> tuple[Any, Any]:
    """(folder of wheels, requirements file)"""
    folder = box.make_folder("wheels")
    packages.wheel(folder, "snowball_x", SNOW, scripts="snowball=snowball_x:main")
    return folder, box.make_file("requirements.txt", "snowball_x\n")


def test_a_package_that_the_system_lacks(sandbox: lib.Sandbox, name: str) -> None:
    folder, requirements = wheels(sandbox)
    before = sandbox.exec("import snowball_x")
    assert before["error"]["type"] == "ModuleNotFoundError"
    done = sandbox.cli("template", "add", name, "--requirements", requirements, "--index", folder,
                       timeout=2 * lib.PATIENCE)
    assert done.returncode == 0 and "added " + name in done.stdout
    assert "installing" in done.stderr and "reading its files" in done.stderr  # progress
    result = sandbox.exec("import snowball_x\nsnowball_x.value", options=["--template", name])
    assert result["value"] == "42"
    shown = json.loads(sandbox.cli("template", "show", name, "--json").stdout)
    manifest = result["manifest"]
    assert shown["state"] == "as built" and shown["hash"] == manifest["template_hash"]
    assert shown["hash"].startswith("sha256:") and "snowball_x" in shown["modules"]
    assert (manifest["template"], manifest["python"]) == (name, shown["version"])
    assert manifest["interpreter"] == shown["python"]
    assert sandbox.exec(argv=["snowball"], options=["--template", name])["stdout"] == "from a script 42\n"
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'snowball_x.x'], capture_output=True).stderr"
    assert "snowball_x.x" in sandbox.exec(code, options=["--template", name])["value"]
    listed = sandbox.cli("template", "list").stdout
    assert name in listed and shown["hash"][:19] in listed
    assert name in sandbox.cli("template", "list", "--names").stdout.split()


def test_a_failing_import_names_the_template_that_has_it(sandbox: lib.Sandbox, name: str) -> None:
    folder, requirements = wheels(sandbox)
    error = sandbox.exec("import snowball_x.part")["error"]
    assert error["module"]["name"] == "snowball_x" and error["module"]["templates"] == []
    assert "template add NAME --requirements" in error["module"]["command"]
    assert "template add NAME --requirements" in sandbox.cli("exec", "import snowball_x").stderr
    add(sandbox, name, "--requirements", requirements, "--index", folder)
    error = sandbox.exec("import snowball_x.part")["error"]
    assert error["module"]["templates"] == [name]
    assert f"--template {name}" in error["hint"]
    assert f"hint: snowball_x comes with template {name}" in sandbox.cli("exec", "import snowball_x").stderr
    assert sandbox.exec("raise ModuleNotFoundError('x', name='a; rm -rf ~')")["error"]["module"] is None
    error = sandbox.exec("import sys; sys.modules['snowball_y'] = None; import snowball_y")["error"]
    assert error["module"]["name"] == "snowball_y"


def test_packages_can_be_read_and_not_changed(sandbox: lib.Sandbox, name: str) -> None:
    folder, requirements = wheels(sandbox)
    record = add(sandbox, name, "--requirements", requirements, "--index", folder)
    code = """
import snowball_x, os
failed = []
for path in (snowball_x.__file__, os.path.dirname(snowball_x.__file__) + '/new.py', '/run/venv/new', '/run/python/new'):
    try:
        open(path, 'w')
    except OSError as error:
        failed.append(error.errno)
failed"""
    assert eval(sandbox.exec(code, options=["--template", name])["value"]) in ([13] * 4, [30] * 4, [30, 30, 30, 13])
    with open(os.path.join(record["venv"], "pyvenv.cfg"), "a") as outside:  # the control run
        outside.write("\n")


def test_a_changed_template_is_refused_until_it_is_replaced(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox("user" if os.geteuid() == 0 else "root")
    folder, requirements = wheels(box)
    record = add(box, "web", "--requirements", requirements, "--index", folder)
    assert box.exec("1", options=["--template", "web"])["value"] == "1"  # the control run
    box.stop()
    site = os.path.join(record["venv"], "lib", f"python{record['version'].rpartition('.')[0]}", "site-packages")
    with open(os.path.join(site, "snowball_x", "__init__.py"), "a") as module:
        module.write("value = 43\n")
    done = box.cli("exec", "--template", "web", "1")
    assert done.returncode == 1 and "changed since it was added" in done.stderr
    assert "template add web --replace" in done.stderr
    assert "changed since it was added" in box.cli("template", "show", "web").stdout
    assert "template web exists" in box.cli("template", "add", "web").stderr
    again = add(box, "web", "--replace")  # from what it was made of
    assert again["hash"] != record["hash"] or again["venv"] != record["venv"]
    assert not os.path.exists(record["venv"])
    code = "import snowball_x\nsnowball_x.value"
    assert box.exec(code, options=["--template", "web"])["value"] == "42"


def test_a_template_in_use_is_not_taken_away(sandbox: lib.Sandbox, name: str) -> None:
    add(sandbox, name)
    sandbox.exec("1", session="user-of-" + name, options=["--template", name])
    for words in (["remove", name], ["add", name, "--replace"]):
        done = sandbox.cli("template", *words)
        assert done.returncode == 1 and "in use by session user-of-" + name in done.stderr
    sandbox.destroy("user-of-" + name)
    assert sandbox.cli("template", "remove", name).returncode == 0
    done = sandbox.cli("exec", "--template", name, "1")
    assert done.returncode == 1 and "base, data, plot" in done.stderr


@pytest.mark.parametrize("python", OTHERS or [""])
def test_another_interpreter(sandbox: lib.Sandbox, name: str, python: str) -> None:
    lib.need("second-python", python != "", "no other CPython is installed (python3-dbg is one)")
    if sandbox.outside("", argv=["test", "-x", python]).returncode != 0:
        pytest.skip(f"{python} is in a folder of somebody else")
    record = add(sandbox, name, "--python", python)
    # A pool that has ended holds pipes as long as it is there, and with them no copy is made.
    code = ("import gc, sys, subprocess, multiprocessing, json\n"
            "child = subprocess.run([sys.executable, '-c', 'import sys; print(sys.version)'], capture_output=True)\n"
            "with multiprocessing.Pool(1) as pool: squares = pool.map(abs, [-1, 2])\n"
            "del pool\ngc.collect()\n"
            "[sys.version, child.stdout.decode().strip(), hasattr(sys, 'gettotalrefcount'), squares, sys.prefix]")
    result = sandbox.exec(code, session=name, options=["--template", name])
    assert result["error"] is None, result["error"]
    version, child, is_debug, squares, prefix = eval(result["value"])
    outside = sandbox.outside("import sys; print([sys.version, hasattr(sys, 'gettotalrefcount')])",
                              argv=[python, "-c", "import sys; print([sys.version, hasattr(sys, 'gettotalrefcount')])"])
    assert [version, is_debug] == eval(outside.stdout) and child == version
    assert squares == [1, 2] and prefix == "/run/venv"
    assert version.startswith(record["version"]) and result["manifest"]["python"] == record["version"]
    # An interpreter that was killed comes back as the same.
    assert sandbox.exec("import os; os.kill(os.getpid(), 9)", session=name)["state"] == "rolled_back"
    assert eval(sandbox.exec("import sys; sys.version", session=name)["value"]) == version
    sandbox.destroy(name)


def test_an_installation_of_its_own_is_shown_and_nothing_beside_it(sandbox: lib.Sandbox, name: str, place: str) -> None:
    program = packages.installation(os.path.join(place, "here", "python"))
    with open(os.path.join(place, "here", "secret"), "w") as secret:
        secret.write("token")
    packages.own(sandbox, place)
    record = add(sandbox, name, "--python", program)
    assert record["prefix"] == os.path.join(place, "here", "python")
    code = f"import os, sys\n[sys.base_prefix, os.listdir({place!r}), os.listdir({place + '/here'!r})]"
    result = sandbox.exec(code, options=["--template", name])
    assert eval(result["value"]) == [record["prefix"], ["here"], ["python"]]
    assert os.listdir(os.path.join(place, "here")) != ["python"]  # the control run


def test_folders_that_may_not_be_shown_are_refused(sandbox: lib.Sandbox, name: str) -> None:
    program = packages.installation(os.path.join(sandbox.folder, "covered"))  # below /tmp
    done = sandbox.cli("template", "add", name, "--python", program)
    assert done.returncode == 1 and "a separate" in done.stderr
    shutil.rmtree(os.path.join(sandbox.folder, "covered"))
    packages.installation(os.path.join(sandbox.folder, "i"))
    for part in ("bin", "lib"):
        os.rename(os.path.join(sandbox.folder, "i", part), os.path.join(sandbox.home, part))
    program = os.path.join(sandbox.home, "bin", os.path.basename(program))
    done = sandbox.cli("template", "add", name, "--python", program)
    assert done.returncode == 1 and "home folder" in done.stderr
    for part in ("bin", "lib"):
        shutil.rmtree(os.path.join(sandbox.home, part))
    done = sandbox.cli("template", "add", name, "--python", "/bin/true")
    assert done.returncode == 1 and "not a usable Python" in done.stderr
    done = sandbox.cli("template", "add", name, "--venv", sandbox.home)
    assert done.returncode == 2 and "pyvenv.cfg" in done.stderr


def test_a_venv_of_the_users_is_used_where_it_is(sandbox: lib.Sandbox, name: str, place: str) -> None:
    folder = packages.own(sandbox, packages.venv(os.path.join(place, "venv"), SNOW))
    record = add(sandbox, name, "--venv", folder, "--preload", "snowball_x")
    assert record["venv"] == folder and not record["is_ours"] and record["preload"] == ["snowball_x"]
    code = f"import sys\n['snowball_x' in sys.modules, open({folder + '/pyvenv.cfg'!r}).read(9)]"
    assert eval(sandbox.exec(code, options=["--template", name])["value"])[0] is True
    # Its own Python may write bytecode there meanwhile.
    packages_in = os.path.join(folder, "bin", "python")
    assert sandbox.outside("", argv=[packages_in, "-c", "import snowball_x"]).returncode == 0
    assert "as built" in sandbox.cli("template", "show", name).stdout
    sandbox.cli("template", "remove", name)
    assert os.path.exists(folder)


def test_sockets_and_pipes_beside_packages_lead_nowhere(sandbox: lib.Sandbox, name: str, place: str) -> None:
    folder = packages.own(sandbox, packages.venv(os.path.join(place, "venv"), SNOW))
    add(sandbox, name, "--venv", folder)
    sandbox.exec("1", options=["--template", name])  # later it would not start with these in it
    code = ("import os, socket\ndef connect():\n    with socket.socket(socket.AF_UNIX) as peer:\n"
            "        peer.connect('s')\n"
            "def read(): return os.read(os.open('p', os.O_RDONLY | os.O_NONBLOCK), 9)\n"
            "def tried(what):\n    try: return what() or 'done'\n    except OSError as error: return error.errno\n"
            "os.chdir({!r})\nprint([tried(connect), tried(read)])")
    os.mkfifo(os.path.join(folder, "p"))
    os.chmod(os.path.join(folder, "p"), 0o666)
    pipe = os.open(os.path.join(folder, "p"), os.O_RDWR | os.O_NONBLOCK)
    os.write(pipe, b"secret" * 3)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.join(folder, "s"))
        os.chmod(os.path.join(folder, "s"), 0o777)
        server.listen(8)
        assert sandbox.outside(code.format(folder)).stdout == "['done', b'secretsec']\n"  # the control run
        done = sandbox.exec(code.format("/run/venv"), options=["--template", name])
    os.close(pipe)
    assert done["stdout"] == f"[{errno.ECONNREFUSED}, 'done']\n", done


def test_a_projects_own_venv_is_found(sandbox: lib.Sandbox, place: str) -> None:
    packages.venv(os.path.join(place, "project", ".venv"), SNOW)
    script = os.path.join(place, "project", ".venv", "bin", "snow")
    with open(script, "w") as out:
        out.write(f"#!{place}/project/.venv/bin/python\nimport snowball_x\nprint(snowball_x.value)\n")
    os.chmod(script, 0o755)
    packages.own(sandbox, place)
    options = ["--project", os.path.join(place, "project")]
    result = sandbox.exec("import snowball_x, sys\n[snowball_x.value, sys.prefix]", options=options)
    assert eval(result["value"]) == [42, "/workspace/.venv"]
    manifest = result["manifest"]
    assert manifest["template"] == "venv" and manifest["packages"] == "/workspace/.venv"
    assert manifest["template_hash"] is None and manifest["venv_unused"] is None
    assert sandbox.exec(argv=["snow"], options=options)["stdout"] == "42\n"
    named = sandbox.exec("import sys; sys.prefix", options=[*options, "--template", "base"])
    assert named["manifest"]["template"] == "base" and eval(named["value"]) == "/usr"
    # What is written there stays in the sandbox.
    sandbox.exec("open('.venv/new', 'w')", options=options)
    assert not os.path.exists(os.path.join(place, "project", ".venv", "new"))


def test_a_venv_that_cannot_be_used_is_said(sandbox: lib.Sandbox, place: str) -> None:
    packages.venv(os.path.join(place, "project", ".venv"), SNOW)
    with open(os.path.join(place, "project", ".venv", "pyvenv.cfg"), "w") as config:
        config.write("home = /nonexistent\nversion = 3.11.2\n")
    packages.own(sandbox, place)
    options = ["--project", os.path.join(place, "project")]
    result = sandbox.exec("1", options=options)
    assert result["value"] == "1" and result["manifest"]["template"] == "base"
    assert "not on this machine; create the .venv again" in result["manifest"]["venv_unused"]
    assert "the project's .venv is not used" in sandbox.cli("exec", *options, "1").stderr
    done = sandbox.cli("exec", *options, "--template", "venv", "1")
    assert done.returncode == 1 and "cannot be used" in done.stderr and "python3 -m venv" in done.stderr


def test_a_preload_that_leaves_a_thread_is_refused_by_its_name(sandbox: lib.Sandbox, name: str, place: str) -> None:
    files = {"quiet.py": "", "noisy.py": "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), "
             "name='worker', daemon=True).start()\n"}
    folder = packages.own(sandbox, packages.venv(os.path.join(place, "venv"), files))
    add(sandbox, name, "--venv", folder, "--preload", "quiet,noisy")
    done = sandbox.cli("exec", "--template", name, "1")
    assert done.returncode == 1 and "module noisy leaves threads running: worker" in done.stderr
    add(sandbox, name, "--replace", "--preload", "quiet")  # the control run
    assert sandbox.exec("import noisy, threading\nthreading.active_count()",
                        options=["--template", name])["value"] == "2"


def test_a_preload_that_is_not_there_is_named(sandbox: lib.Sandbox, name: str) -> None:
    add(sandbox, name, "--preload", "no_such_module_x")
    done = sandbox.cli("exec", "--template", name, "1")
    assert done.returncode == 1 and "cannot load no_such_module_x" in done.stderr


def test_what_cannot_start_is_not_tried_for_ever(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    """Sandboxes are made ahead of the kinds that were asked for lately; this one would end each time."""
    box = fresh_sandbox()
    add(box, "none", "--preload", "no_such_module_x")
    assert box.cli("exec", "--template", "none", "1").returncode == 1
    path = f"/proc/{box.tier_pid()}/stat"

    def faults_of_children() -> int:
        return int(Path(path).read_text().rpartition(")")[2].split()[8])  # cminflt, proc(5)

    def is_calm() -> bool:
        before = faults_of_children()
        time.sleep(1)
        return faults_of_children() == before

    assert lib.wait_for(is_calm)


def openblas() -> str:
    """The library with threads; what it does is up to the machine's processors."""
    found = glob.glob("/usr/lib/*/openblas-pthread/libopenblas.so.0")
    lib.need("openblas", bool(found), "libopenblas0 is not installed")
    lib.need("openblas", (os.cpu_count() or 1) > 1, "one processor: OpenBLAS makes no threads")
    return found[0]


def test_threads_of_openblas_are_held_back_while_it_is_preloaded(sandbox: lib.Sandbox, name: str, place: str) -> None:
    load = f"import ctypes\nlibrary = ctypes.CDLL({openblas()!r})\n"
    outside = sandbox.outside(load + "import os; print(len(os.listdir('/proc/self/task')))")
    assert int(outside.stdout) > 1, outside.stderr  # the control run
    files = {"held.py": load, "loose.py": "import os\nos.environ['OPENBLAS_NUM_THREADS'] = '2'\n" + load}
    folder = packages.own(sandbox, packages.venv(os.path.join(place, "venv"), files))
    add(sandbox, name, "--venv", folder, "--preload", "held")
    code = "import os, sys\n['held' in sys.modules, len(os.listdir('/proc/self/task'))]"
    assert eval(sandbox.exec(code, options=["--template", name])["value"]) == [True, 1]
    add(sandbox, name, "--replace", "--preload", "loose")
    done = sandbox.cli("exec", "--template", name, "1")
    assert done.returncode == 1 and "module loose leaves threads running outside Python" in done.stderr


@pytest.mark.parametrize("options,cover,threads", [
    ([], "standby", 1), (["--cpus", "0.3"], "standby", 1), (["--cpus", "2"], "unavailable", 2),  # the control run
    (["--cpus", "2", "--set-env", "OMP_NUM_THREADS=1"], "standby", 1)])
def test_threads_of_openblas_are_no_more_than_processors(sandbox: lib.Sandbox, name: str, options: Sequence[str],
                                                         cover: str, threads: int) -> None:
    """Each would be one too many for a copy of the interpreter, and so for a cell that can be undone."""
    session = "s" + name
    code = f"import ctypes, os\nlibrary = ctypes.CDLL({openblas()!r})\nlen(os.listdir('/proc/self/task'))"
    try:
        seen = int(sandbox.exec(code, session, options=options)["value"])
        assert seen == 1 if threads == 1 else seen > 1
        assert sandbox.exec("1", session)["transaction"]["interpreter"] == cover
    finally:
        sandbox.destroy(session)


@pytest.mark.parametrize("with_openblas", [True, False])
def test_data_with_openblas_and_without(fresh_sandbox: Callable[..., lib.Sandbox], tmp_path: Path,
                                        with_openblas: bool) -> None:
    """numpy takes the library that Debian's alternatives name: the daemon is shown others."""
    openblas()
    box = fresh_sandbox()
    alternatives = tmp_path / "alternatives"
    shutil.copytree("/etc/alternatives", alternatives, symlinks=True)
    for link in sorted(alternatives.glob("lib*.so.3-*")):
        kind = link.name.partition(".")[0][3:]
        folder = os.path.dirname(os.path.dirname(os.readlink(link)))
        if kind in ("blas", "lapack"):
            link.unlink()
            link.symlink_to(f"{folder}/{'openblas-pthread' if with_openblas else kind}/lib{kind}.so.3")
    box.prefix = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/alternatives && exec "$@"', str(alternatives)]
    code = ("import numpy, os\nm = numpy.ones((300, 300))\n"
            "[float((m @ m)[0, 0]), 'openblas' in open('/proc/self/maps').read(),"
            " len(os.listdir('/proc/self/task'))]")
    assert eval(box.exec(code, options=["--template", "data"])["value"]) == [300.0, with_openblas, 1]


MAPPINGS = """
import {0}, collections
maps = {{}}
for line in open('/proc/self/maps'):
    words = line.split()
    maps.setdefault(words[5] if len(words) > 5 else '', []).append(words[1])
dict(collections.Counter(maps[{0}.__file__])), sum('w' in m and 'x' in m for each in maps.values() for m in each)
"""


def test_a_library_has_two_mappings_and_none_is_written_and_executed(sandbox: lib.Sandbox) -> None:
    """Forks copy them. One that no template has loaded is as the linker leaves it."""
    assert eval(sandbox.exec(MAPPINGS.format("_lzma"))["value"]) == ({"r-xp": 1, "rw-p": 1}, 0)
    kinds, both = eval(sandbox.exec(MAPPINGS.format("ossaudiodev"))["value"])  # the control run
    assert sum(kinds.values()) >= 4 and both == 0


@pytest.mark.slow
def test_source_packages_are_built_only_when_allowed(sandbox: lib.Sandbox, name: str) -> None:
    """Building one runs its code as the user."""
    marker = os.path.join(sandbox.home, "built-" + secrets.token_hex(4))
    source = sandbox.make_folder("source-" + secrets.token_hex(4))
    sandbox.make_file(os.path.join(source, "pyproject.toml"),
                      "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n")
    sandbox.make_file(os.path.join(source, "backend.py"),
                      f"def build_wheel(*_, **__):\n    open({marker!r}, 'w')\n    raise SystemExit(1)\n")
    with tarfile.open(os.path.join(sandbox.make_folder("sources"), "snow-1.0.tar.gz"), "w:gz") as out:
        out.add(source, "snow-1.0")
    requirements = sandbox.make_file("source.txt", "snow\n")
    options = ["--requirements", requirements, "--index", sandbox.make_folder("sources")]
    done = sandbox.cli("template", "add", name, *options, timeout=2 * lib.PATIENCE)
    if os.path.exists(marker):
        pytest.fail("a source package was built")
    assert done.returncode == 1 and "--allow-source" in done.stderr
    sandbox.cli("template", "add", name, "--allow-source", *options, timeout=2 * lib.PATIENCE)  # the control run
    assert os.path.exists(marker)
    left = [entry for entry in os.listdir(os.path.join(sandbox.state, "templates")) if entry.startswith(name)]
    assert left == []  # nothing of a build that failed


def test_templates_are_recycled_after_a_number_of_forks(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    """Forks of one generation share a hash seed; with a limit there is more than one generation."""
    code = "hash('x'), 1\nhash('x')"
    for forks, is_recycled in (("4", True), ("1000", False)):
        box = fresh_sandbox("user" if os.geteuid() == 0 else "root", env={"SNIPARA_SANDBOX_TEMPLATE_FORKS": forks})
        seeds = {box.exec(code)["value"] for _ in range(12)}
        if is_recycled:  # the old generation serves until the next one is there
            assert lib.wait_for(lambda: box.exec(code)["value"] not in seeds)
        else:
            assert len(seeds) == 1


# What code sees that must be as in a template that imports, and what must differ between two sandboxes.
SEEN = """
import os, random, sys, threading, time, uuid
assert abs(time.time() - time.clock_gettime(time.CLOCK_REALTIME)) < 5
assert os.path.samefile('/proc/self/exe', sys.executable) and 'LD_PRELOAD' not in os.environ
assert threading.main_thread().native_id == threading.get_native_id() == os.getpid()
maps = open('/proc/self/maps').read()
assert 'image' not in maps and 'thaw' not in maps and maps.count('[stack]') == maps.count('[vdso]') == 1
assert b'/driver.py' in open('/proc/self/cmdline', 'rb').read()
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
assert int(status['SigIgn'], 16) >> 12 & 1 and int(status['SigCgt'], 16) >> 1 & 1  # SIGPIPE, SIGINT
pid = os.fork()
os._exit(7) if pid == 0 else None
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
thread = threading.Thread(target=bytearray, args=(1 << 26,))
thread.start(), thread.join()
(lambda n: [n] and sys.getsizeof([0] * 10**6))(1)
hash('x'), random.random(), uuid.uuid4()
"""


def with_images(box: lib.Sandbox, count: int) -> list[str]:
    """Paths of the images, when so many have been written."""
    def written() -> list[str] | None:
        found = sorted(glob.glob(os.path.join(box.state, "images", "*.image")))
        return found if len(found) == count else None
    return cast("list[str]", lib.wait_for(written))


def about_images(box: lib.Sandbox) -> lib.Json:
    """What doctor says; of images of sessions the same, because those outlive a template only with one."""
    rows = {row["name"]: row for row in json.loads(box.cli("doctor", "--json").stdout)["checks"]}
    row: lib.Json = rows["template images"]
    assert rows["session images"]["status"] == row["status"]
    assert row["status"] == "ok" or rows["session images"]["detail"].endswith(f": {row['detail']}"), rows
    return row


def from_image(box: lib.Sandbox, code: str = "1", *options: str) -> tuple[bool, Any]:
    """By a new daemon."""
    box.stop()
    result = box.exec(code, options=list(options))
    assert result["status"] == "ok", result
    return result["manifest"]["from_image"], result["value"]


@pytest.mark.parametrize("who", ["root", "user"])
def test_a_template_is_started_from_its_image(fresh_sandbox: Callable[..., lib.Sandbox], who: str) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("images are for x86-64")
    box = fresh_sandbox(who, env={"SNIPARA_SANDBOX_TEMPLATE_IMAGES": "50"})
    path = os.path.join(box.state, "images")
    is_thawed, first = from_image(box, SEEN)
    assert not is_thawed
    image, = with_images(box, 1)
    mode = os.stat(image)
    assert (mode.st_mode & 0o7777, mode.st_uid) == (0o600, box.uid) and os.listdir(path) == [os.path.basename(image)]
    seen = [eval(from_image(box, SEEN)[1], {"UUID": str}) for _ in range(2)]
    seed, number, name = eval(first, {"UUID": str})
    assert [one[0] for one in seen] == [seed] * 2  # the same memory
    assert len({number, *(one[1] for one in seen)}) == len({name, *(one[2] for one in seen)}) == 3
    assert box.log().count("from=image") == 2 and box.log().count("from=import") == 1
    # A session from it has copies, and is woken in another.
    box.exec("x = [1]\ng = iter(range(3)); next(g)", session="work")
    assert box.exec("x.append(next(g)); x", session="work")["value"] == "[1, 1]"
    box.stop()
    woken = box.exec("x", session="work")
    assert woken["value"] == "[1, 1]" and woken["manifest"]["from_image"]
    off = fresh_sandbox(who, env={"SNIPARA_SANDBOX_TEMPLATE_IMAGES": "0"})
    off.exec("1")
    assert from_image(off)[0] is False and not os.path.exists(os.path.join(off.state, "images"))
    assert [about_images(one)["status"] for one in (box, off)] == ["ok", "missing"]


def forged(good: bytes) -> dict[str, bytes]:
    """Images whose checksums are right and whose tables are not; the first is as it was."""
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    library.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    counts = struct.unpack_from("<6Q", good, 40 + 80)
    lengths = [n * size for n, size in zip(counts, (40, 56, 1, 24, 16))]
    head, process = 200, len(good) - 40 - 200 - sum(lengths) - counts[5]
    parts = [head, process, *lengths]
    at = [40 + head + process + sum(lengths[:i]) for i in range(6)]  # mappings, files, text, runs, large parts, bytes
    kinds = [good[at[0] + 40 * i + 36] for i in range(counts[0])]

    def sealed(place: int, content: bytes) -> bytes:
        image = bytearray(good)
        image[place:place + len(content)] = content
        image[48:56] = bytes(8)
        seed = 0
        for i, length in enumerate(parts):
            start = 40 + sum(parts[:i])
            seed = library.XXH3_64bits_withSeed(bytes(image[start:start + length]), length, seed)
        image[48:56] = seed.to_bytes(8, "little")
        return bytes(image)

    return {
        "": sealed(at[0], good[at[0]:at[0] + 8]),
        "a kind that is not there": sealed(at[0] + 36, b"\x09"),
        "a file that is not there": sealed(at[0] + 40 * kinds.index(3) + 32, b"\xff\xff\0\0"),
        "mappings that overlap": sealed(at[0] + 40, good[at[0]:at[0] + 8]),
        "a mapping of everything": sealed(at[0] + 40 * (counts[0] - 1) + 8, bytes(7) + b"\x10"),
        "no code of the kernel": sealed(at[0], b"".join(
            good[place:place + 36] + (b"\0" if good[place + 36] == 5 else good[place + 36:place + 37])
            + good[place + 37:place + 40] for place in range(at[0], at[1], 40))),
        "pages where nothing is": sealed(at[3], (0x10000).to_bytes(8, "little")),
        "a page that is not whole": sealed(at[3] + 8, (100).to_bytes(4, "little")),
        "pages without bytes": sealed(at[3] + 12, b"\1"),
        "no process": sealed(40 + 72, b"\0"),
        "a name without an end": sealed(at[3] - 1, b"x"),
        "more than there may be": sealed(40 + 80, (4097).to_bytes(8, "little")),
        "of another version": sealed(40, b"SNIPIMG2"),
    }


@pytest.mark.parametrize("is_quick", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["quick", "all"])
def test_an_image_that_is_not_as_it_was_written_is_not_used(fresh_sandbox: Callable[..., lib.Sandbox],
                                                            is_quick: bool) -> None:
    """Each damage starts a daemon; a quick run has one damage of each check."""
    if os.uname().machine != "x86_64":
        pytest.skip("images are for x86-64")
    box = fresh_sandbox("user" if os.geteuid() == 0 else "root", env={"SNIPARA_SANDBOX_TEMPLATE_IMAGES": "50"})
    box.exec("1")
    path, = with_images(box, 1)
    box.stop()
    with open(path, "rb") as image:
        good = image.read()
    other = os.path.join(box.folder, "other")

    def put(content: bytes, place: str = path) -> None:
        box.make_file(place, content, 0o600)

    def flip(at: int) -> None:
        put(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])

    def link() -> None:
        os.rename(path, other)
        os.symlink(other, path)

    def folder() -> None:
        os.unlink(path)
        os.mkdir(path)

    damages: dict[str, Callable[[], object]] = {
        "": lambda: None,  # the control run
        "cut": lambda: put(good[:-4096]),
        "cut to its label": lambda: put(good[:40]),
        "empty": lambda: put(b""),
        "another's": lambda: flip(8),
        "head": lambda: flip(100),
        "tables": lambda: flip(5000),
        "memory": lambda: flip(len(good) - 10_000),
        "readable for others": lambda: os.chmod(path, 0o644),
        "link": link,
        "hard link": lambda: os.link(path, other),
        "folder": folder,
        "of tomorrow": lambda: put(good[:24] + (int(time.time()) + 90000).to_bytes(8, "little") + good[32:]),
        "of last month": lambda: put(good[:24] + (int(time.time()) - 30 * 86400).to_bytes(8, "little") + good[32:]),
    }
    if os.geteuid() == 0:
        damages["of another user"] = lambda: os.chown(path, 0, 0)
    damages.update((name or "sealed again", functools.partial(put, content)) for name, content in forged(good).items())
    if is_quick:
        damages = {name: damages[name] for name in ("", "cut", "another's", "readable for others", "of last month",
                                                    "memory", "a mapping of everything")}
    used = ("", "sealed again")
    reasons = {"cut": "it is cut short", "another's": "it is of another template", "of last month": "it is too old",
               "cut to its label": "it is cut short", "empty": "it is cut short", "of tomorrow": "it is too old",
               **dict.fromkeys(("readable for others", "link", "hard link", "folder", "of another user"),
                               "it is not a file that is only yours")}
    for name, damage in damages.items():
        for left in (path, other):
            if os.path.isdir(left) and not os.path.islink(left):
                os.rmdir(left)
            elif os.path.lexists(left):
                os.unlink(left)
        put(good)
        damage()
        before = len(box.log())
        assert from_image(box, "6 * 7") == (name in used, "42"), name
        box.stop()
        assert name in used or reasons.get(name, "image: it is damaged") in box.log()[before:], name
    assert "error=it ended image: it is damaged" in box.log() and "image: it is damaged" in box.log()
    assert "image" not in box.cli("exec", "1").stderr


def test_what_a_module_set_up_outside_memory_is_in_no_image(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("images are for x86-64")
    files = {
        "own_filter.py": "import ctypes\ncode = ctypes.create_string_buffer(bytes([6, 0, 0, 0, 0, 0, 255, 127]))\n"
                         "class Program(ctypes.Structure):\n"
                         "    _fields_ = [('n', ctypes.c_ushort), ('code', ctypes.c_void_p)]\n"
                         "program = Program(1, ctypes.cast(code, ctypes.c_void_p))\n"
                         "assert ctypes.CDLL(None).syscall(317, 1, 0, ctypes.byref(program)) == 0\n",
        "many_maps.py": "import mmap\n"
                        "kept = [mmap.mmap(-1, 4096, mmap.MAP_PRIVATE, (1, 3)[i % 2]) for i in range(6000)]\n",
        "own_umask.py": "import os\nos.umask(0o027)\n",
        "own_limit.py": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (500, 600))\n"}
    box = fresh_sandbox("user" if os.geteuid() == 0 else "root", env={"SNIPARA_SANDBOX_TEMPLATE_IMAGES": "50"})
    folder = packages.own(box, packages.venv(box.make_folder("venv"), files))
    for module, reason in (("own_filter", "it has a seccomp filter that a module installed"),
                           ("many_maps", "it has a mapping"), ("own_umask", "it has a umask that a module set"),
                           ("own_limit", "it has a limit that a module set")):
        add(box, "mine", "--venv", folder, "--preload", module, *(["--replace"] if module != "own_filter" else []))
        assert box.exec("1", options=["--template", "mine"])["value"] == "1"
        assert lib.wait_for(lambda: reason in about_images(box)["detail"]), about_images(box)
        assert from_image(box, "6 * 7", "--template", "mine") == (False, "42")
        box.stop()


def test_a_changed_file_is_imported_again(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("images are for x86-64")
    box = fresh_sandbox("user" if os.geteuid() == 0 else "root", env={"SNIPARA_SANDBOX_TEMPLATE_IMAGES": "50"})
    copy = os.path.join(box.folder, "own")
    shutil.copytree(box.bin, copy, ignore=lambda folder, names: set(names) - set(lib.PROGRAMS)
                    if folder == box.bin else set())
    subprocess.run(["chown", "-R", f"{box.uid}", copy], check=True)
    box.bin = copy
    box.exec("1")
    path, = with_images(box, 1)
    box.stop()
    with open(path + ".new", "wb") as torn:  # as if a daemon had been killed while it wrote one
        torn.write(b"x")
    os.rename(path + ".new", path[:-len("image")] + "new")
    box.make_file(os.path.join(os.path.dirname(path), "0" * 32 + ".new"), b"of another template")
    assert from_image(box)[0]
    with open(os.path.join(copy, "guest", "display.py"), "a") as module:
        module.write("# another\n")
    os.utime(module.name, (time.time() + 90000,) * 2)  # no image holds files that changed while they were loaded
    assert not from_image(box)[0] and "from=import image: /run/guest/display.py changed" in box.log()
    assert lib.wait_for(lambda: "/run/guest/display.py" in about_images(box)["detail"])
    os.utime(module.name)  # an image can hold files that changed just before
    assert not from_image(box)[0]
    with_images(box, 1)
    assert lib.wait_for(lambda: os.listdir(os.path.dirname(path)) == [os.path.basename(path)])
    assert lib.wait_for(lambda: from_image(box)[0])


def test_templates_belong_to_one_user(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    first, second = fresh_sandbox(), fresh_sandbox("user")
    add(first, "mine")
    assert "mine" in first.cli("template", "list", "--names").stdout.split()  # the control run
    assert "mine" not in second.cli("template", "list", "--names").stdout.split()
    assert second.cli("exec", "--template", "mine", "1").returncode == 1
    done = second.cli("template", "list", env={"SNIPARA_SANDBOX_STATE_DIR": first.state})
    assert done.returncode == 1


@pytest.mark.parametrize("words", [["base"], ["venv"], ["../x"], ["-x"], ["x", "--venv", "a", "--python", "b"],
                                   ["x", "--index", "."], ["x", "--preload", "a b"]])
def test_wrong_use(sandbox: lib.Sandbox, words: list[str]) -> None:
    done = sandbox.cli("template", "add", *words)
    assert done.returncode == 2 and done.stdout == ""
