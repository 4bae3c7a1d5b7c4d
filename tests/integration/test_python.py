# SPDX-License-Identifier: Apache-2.0
"""The Python package: what its documents say, in programs of a user; and its wheel, installed offline."""

import glob
import http.server
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

import lib
import old_pages
from browser import Browser
from scripted_daemon import Failure, ScriptedDaemon

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(ROOT, "bindings", "python", "snipara_sandbox")
pytestmark = pytest.mark.skipif("SNP_TEST_SANITIZE" in os.environ,
                                reason="an interpreter without the sanitizers' runtime cannot load a library with them")


def with_package(box: lib.Sandbox) -> lib.Sandbox:
    """Its user may read the package, and programs find it."""
    folder = os.path.join(box.folder, "python")
    for name in ("snipara_sandbox", "rlm"):
        shutil.copytree(os.path.join(os.path.dirname(PACKAGE), name), os.path.join(folder, name),
                        ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("probe.py", "recorded.py", "runs.py"):
        shutil.copy(os.path.join(ROOT, "tests", "python", name), folder)
    box.env.update(PYTHONPATH=folder, PYTHONDONTWRITEBYTECODE="1", SNIPARA_SANDBOX_LIBRARY=box.bin,
                   SNP_TEST_PATIENCE=str(lib.PATIENCE))
    return box


@pytest.fixture(scope="module")
def box() -> Iterator[lib.Sandbox]:
    box = with_package(lib.Sandbox("user"))
    box.start()
    yield box
    box.close()


def start(box: lib.Sandbox, *args: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(args, env=box.env, cwd=box.home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **box.identity())


def run(box: lib.Sandbox, *args: str) -> str:
    with start(box, *args) as process:
        out, _ = process.communicate(timeout=4 * lib.PATIENCE)
    assert process.returncode == 0, out
    return out


def probe(box: lib.Sandbox, name: str) -> list[str]:
    return [lib.PYTHON, "-W", "default", os.path.join(box.folder, "python", "probe.py"), name]


PROGRAMS = ["results", "state", "commands", "functions", "values", "adapters", "hostile", "spread", "threads",
            "signals", "loop", "processes"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(box: lib.Sandbox, name: str) -> None:
    assert run(box, *probe(box, name)) == ""
    with box.client() as client:
        assert client.call("sessions.list")[1] == {"sessions": []}


@pytest.mark.slow
def test_the_programs_on_python_3_13(box: lib.Sandbox) -> None:
    """In the file system of a Debian 13, with its libraries and the package; the daemon is the host's."""
    lib.need("mmdebstrap", bool(shutil.which("mmdebstrap")) and os.geteuid() == 0, "mmdebstrap is not installed")
    root = box.make_folder("trixie")
    done = subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--aptopt=Acquire::Languages \"none\"",
                           "--format=directory", "--include=python3.13-minimal,libpython3.13-stdlib,libjansson4",
                           "trixie", root], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lib.need("mmdebstrap", done.returncode == 0, "no packages: " + done.stderr[-300:])
    for name in ("lib", "lib64"):
        if not os.path.lexists(os.path.join(root, name)):
            os.symlink("usr/" + name, os.path.join(root, name))
    os.makedirs(root + box.folder)
    os.makedirs(os.path.join(root, "proc"), exist_ok=True)
    library = os.path.join(box.folder, "python", "libsnipara-sandbox.so.0")
    shutil.copy(os.path.join(box.bin, os.path.basename(library)), library)
    enter = ('mount --bind "$2" "$1$2"; mount --bind /proc "$1/proc"; exec /usr/sbin/chroot --userspec="$3" '
             '--groups= "$1" python3.13 -W default "$2/python/$4.py" "$5"')
    names = [name for name in PROGRAMS if name != "commands"]  # which needs the command line, and that its libraries
    for script, name in (*(("probe", name) for name in names), ("runs", "names")):
        done = subprocess.run(["unshare", "-m", "sh", "-ec", enter, "sh", root, box.folder, f"{box.uid}:{box.uid}",
                               script, name], env={**box.env, "SNIPARA_SANDBOX_LIBRARY": library},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=4 * lib.PATIENCE)
        assert (done.returncode, done.stdout) == (0, ""), name


def test_a_notebook(box: lib.Sandbox) -> None:
    """In Jupyter's own kernel: what is shown, Ctrl-C, await."""
    lib.need("jupyter", bool(glob.glob("/usr/lib/python3/dist-packages/ipykernel")), "no python3-ipykernel")
    box.env["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # the kernel's debugger warns about itself
    assert run(box, lib.PYTHON, *probe(box, "notebook")[3:]) == ""


@pytest.mark.parametrize("name", ["daemon_dies", "daemon_dies_awaited"])
def test_the_daemon_dies_and_is_started_again(name: str) -> None:
    box = with_package(lib.Sandbox("user"))
    pid = box.start()
    try:
        with start(box, *probe(box, name)) as process:
            out = lib.some(process.stdout)
            assert out.readline() == "running\n"
            os.kill(pid, signal.SIGKILL)
            assert [line for line in out.read().split("\n") if line] == ["peer True", "1 1"]
    finally:
        run(box, os.path.join(box.bin, "snipara-sandbox"), "daemon", "stop")
        box.close()


def test_what_a_killed_daemon_did_not_read_goes_to_the_next_one() -> None:
    box = with_package(lib.Sandbox("user"))
    try:
        assert run(box, *probe(box, "daemon_dies_unread")) == "2\nNone\n['2']\nb'abc' 2\n3 4\n"
    finally:
        run(box, os.path.join(box.bin, "snipara-sandbox"), "daemon", "stop")
        box.close()


class Dying(ScriptedDaemon):
    """It ends, as to its client, with the second part of a file unread."""

    def answer(self, peer: socket.socket, ident: int, method: str, head: lib.Json, raw: bytes) -> None:
        super().answer(peer, ident, method, head, raw)
        if method in ("put", "get"):
            select.select([peer], [], [], lib.PATIENCE)
            raise EOFError


RESULT: lib.Json = {"status": "ok", "state": "kept", "cell": 1, "value": None, "error": None, "denials": [],
                    "exit_code": None, "usage": {"stdout_bytes": 0, "stderr_bytes": 0}}


def scripted(daemon: ScriptedDaemon, code: str) -> str:
    """What a program prints with the package and that daemon."""
    env = {**daemon.env, "PYTHONPATH": os.path.dirname(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1",
           "SNIPARA_SANDBOX_LIBRARY": os.path.abspath(lib.BUILD)}
    done = subprocess.run([lib.PYTHON, "-c", "from snipara_sandbox import *\n" + code], env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=lib.PATIENCE)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


UNSAVED = """
import os, time, warnings
from snipara_sandbox import Sandbox
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    s = Sandbox("full")
    result = s.run("import os; x = os.urandom(20 << 20)")
    until = time.monotonic() + float(os.environ["SNP_TEST_PATIENCE"])
    while result.unsaved is None and time.monotonic() < until:
        time.sleep(2)  # a session is saved early once it is idle
        result = s.run("1")
    del told[:]
    s.run("2")
    s.files.write("a", b"x")
    print(result.unsaved, [str(each.message) for each in told], sep="\\n")
"""


def test_what_is_not_saved_is_told() -> None:
    box = with_package(lib.Sandbox(env={"SNIPARA_SANDBOX_JOURNAL_BUDGET": "16m"}))
    try:
        text = "not saved since it began: journal budget reached"
        assert run(box, lib.PYTHON, "-c", UNSAVED).splitlines() == [text, str([f"session full: {text}"] * 2)]
        box.cli("daemon", "stop", "--force")
    finally:
        box.close()


def test_parts_of_a_file_go_to_one_daemon() -> None:
    """Another one may not have the parts before."""
    code = """
for ask in (lambda: Sandbox("s").files.write("a", bytes(1 << 20 | 1)), lambda: Sandbox("s").files.read("a")):
    try:
        ask()
    except SandboxLost as error:
        print(error.code)
"""
    answers: lib.Json = {"sessions.show": {"name": "s"}, "put": {"size": 1 << 20},
                         "get": ({"size": 2, "eof": False, "mode": 420}, b"a")}
    with Dying(answers) as daemon:
        assert scripted(daemon, code) == "peer\npeer\n"
        assert [head["method"] for head, _ in daemon.asked if head["method"] != "sessions.show"] == ["put", "get"]


def test_an_older_daemon() -> None:
    """It knows no internal cells: set() and get() go on without. What it cannot do names the program to restart."""
    def cell(head: lib.Json, raw: bytes) -> object:
        if "internal" in head:
            return Failure("invalid", "exec: unknown member 'internal'")
        shown = [({"event": "display", "mime": [["application/json", 2]]}, b"42")]
        return RESULT, b"", shown if b"_sent" in raw else []

    code = """
s = Sandbox("s")
s.set("x", 5)
print(s.get("x"), s.run("1").status)
try:
    s.set_limits(cpus=2)
except Unsupported as error:
    print(error)
"""
    unknown = Failure("unsupported", "unknown method 'sessions.set'")
    with ScriptedDaemon({"exec": cell, "sessions.set": unknown}) as daemon:
        assert scripted(daemon, code) == (
            "42 ok\nthe running daemon is older than this program (unknown method 'sessions.set'); restart it with: "
            "snipara-sandbox daemon stop\n")
        asked = [(head.pop("internal", False), head, raw) for head, raw in daemon.asked if head["method"] == "exec"]
        assert [internal for internal, _, _ in asked] == [True, False, True, False, False]
        assert asked[0][1:] == asked[1][1:] and asked[2][1:] == asked[3][1:]


def test_import_is_cheap(box: lib.Sandbox) -> None:
    costly = {"ctypes", "asyncio", "json", "dataclasses", "inspect"}
    code = f"import sys, rlm; print({costly} & set(sys.modules))"
    assert run(box, lib.PYTHON, "-c", code) == "set()\n"


ANSWERS = """\
{"tool_calls": [{"name": "FINAL", "arguments": {"answer": "one"}}], "contains": "Compare"}
{"tool_calls": [{"name": "price", "arguments": {"sku": "ab12"}}]}
{"content": "4.20 EUR", "contains": "4.2"}
"""


def page() -> list[str]:
    with open(os.path.join(ROOT, "docs", "reference", "python.md")) as file:
        return re.findall(r"```python\n(.*?)```", file.read(), re.S)


@pytest.mark.slow
def test_the_wheel(box: lib.Sandbox) -> None:
    """Made and installed without a network, it runs the page of the package with its own programs."""
    lib.need("venv", bool(glob.glob("/usr/share/python-wheels/pip-*")), "python3-venv is not installed")
    venv, folder = os.path.join(box.folder, "venv"), box.make_folder("wheel")
    env = {**os.environ, "SNP_BUILD": lib.BUILD, "PIP_NO_INDEX": "1", "PIP_NO_CACHE_DIR": "1"}
    # pip then hides the packages of the system from all Python that it starts: meson must find its own all the same
    subprocess.run([lib.PYTHON, "-m", "venv", "--system-site-packages", venv], check=True, stdout=subprocess.DEVNULL)
    pip = [os.path.join(venv, "bin", "python"), "-m", "pip", "-q"]
    for step in ([*pip, "wheel", "--no-deps", "-w", folder, ROOT],
                 [*pip, "install", "--find-links", folder, "snipara-sandbox[all]"]):
        done = subprocess.run(step, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    python = os.path.join(venv, "bin", "python")
    own = lib.Sandbox("user")
    try:
        own.home = own.make_folder("work")  # a home folder is no project
        own.make_file("work/answers.jsonl", ANSWERS)
        for code, said in zip(page(), ["42\n1 cities.csv\n43\n43 42\n0\n1\n2\n", "6\n", "4.20 EUR 2\nprice\none\n"],
                              strict=True):
            script = own.make_file("page.py", code)
            assert run(own, python, script) == said
        old_pages.check(own, python)
        assert run(own, python, "-c", "import rlm.agent as a, snipara_sandbox.agent as b; print(a is b)") == "True\n"
        assert run(own, os.path.join(venv, "bin", "rlm"), "--help").startswith("Usage: rlm ")
        assert run(own, os.path.join(venv, "bin", "snipara-sandbox"), "exec", "6 * 7").startswith("42\n")
        run(own, os.path.join(venv, "bin", "snipara-sandbox"), "daemon", "stop")
    finally:
        own.close()


# HTML of a cell, and the request (AT) that shows what it sends out.
FETCHES = {
    "img": '<img src="AT">', "srcset": '<img srcset="AT 1x">', "css": '<link rel="stylesheet" href="AT">',
    "import": '<style>@import "AT";</style>', "style": '<p style="background:url(AT)">x',
    "font": '<style>@font-face { font-family: f; src: url(AT) } p { font-family: f }</style><p>x',
    "iframe": '<iframe src="AT"></iframe>', "object": '<object data="AT"></object>', "embed": '<embed src="AT">',
    "video": '<video src="AT"></video>', "poster": '<video poster="AT"></video>',
    "audio": '<audio src="AT" preload="auto"></audio>', "input": '<input type="image" src="AT">',
    "svg": '<svg><image href="AT" width="9" height="9"/></svg>', "base": '<base href="AT/"><img src="x">',
    "prefetch": '<link rel="prefetch" href="AT">', "preload": '<LINK rel="preload" as="image" href="AT">',
    "refresh": '<meta http-equiv="refresh" content="0;url=AT">', "script": '<script>fetch("AT")</script>',
    "handler": '<img src="data:,x" onerror="fetch(\'AT\')">',
}


class Listener:
    """A server of pages, and what was asked of it."""

    def __init__(self) -> None:
        pages: dict[str, str] = {}
        asked: set[str] = set()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.add(self.path)
                body = pages.get(self.path, "").encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.pages, self.asked = pages, asked
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def seen(self) -> set[str]:
        return {path.split("/")[2] for path in self.asked if path.startswith("/at/")}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_html_of_a_cell_sends_nothing_out(box: lib.Sandbox) -> None:
    code = ("import sys\nfrom snipara_sandbox import Display\nfor html in sys.argv[1:]:\n"
            "    print(Display({'text/html': html})._repr_mimebundle_()['text/html'])")
    listeners = Listener(), Listener()
    shown, plain = listeners
    try:
        with Browser() as browser:
            for listener in listeners:  # the frames first, so what they send would be here before the controls are
                html = [attack.replace("AT", f"{listener.url}/at/{name}") for name, attack in FETCHES.items()]
                html = run(box, lib.PYTHON, "-c", code, *html).splitlines() if listener is shown else html
                for name, text in zip(FETCHES, html, strict=True):
                    listener.pages["/" + name] = "<!doctype html><body>" + text
                    browser.open(f"{listener.url}/{name}")
            assert lib.wait_for(lambda: plain.seen() == set(FETCHES)), set(FETCHES) - plain.seen()
            assert shown.seen() == set()
        # No policy covers connections made ahead, and this Chromium makes none.
        ahead = run(box, lib.PYTHON, "-c", code, '<LINK rel=preconnect href="https://secret.example"><p>x')
        assert "&lt;link" not in ahead.lower() and "&lt;p&gt;x" in ahead and "x-dns-prefetch-control" in ahead
    finally:
        for listener in listeners:
            listener.close()
