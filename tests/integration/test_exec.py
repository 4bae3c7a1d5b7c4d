# SPDX-License-Identifier: Apache-2.0
"""Cells: Python and commands, what they give back, and what stays between them."""

import base64
import concurrent.futures
import contextlib
import json
import os
import re
import socket
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import pytest

import lib
from browser import Browser
from lib import Json


def ok(result: Json) -> Json:
    assert result["status"] == "ok", result["error"]
    return result


def test_sources_are_those_of_the_documents(sandbox: lib.Sandbox) -> None:
    with open(os.path.join(os.path.dirname(__file__), "../../docs/result.md"), encoding="utf-8") as page:
        rows = re.findall(r"^\| `(\w+)` \|[^|]*\| (attested|claimed)(;| for|, but)", page.read(), re.M)
    python, command = sandbox.exec("1")["sources"], sandbox.exec(argv=["true"])["sources"]
    for source in "attested", "claimed":
        fixed = {name for name, said, more in rows if said == source and more == ";"}
        assert fixed and fixed <= {*python[source]} and fixed <= {*command[source]}
    either = {name for name, _, more in rows if more != ";"}
    assert either == {"status", "exit_code"} == {*python["claimed"]} & {*command["attested"]}


# Values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("code, value", [
    ("6 * 7", "42"),
    ("x = 1", None),
    ("None", None),
    ("x = 3\nx + 1", "4"),
    ("'a\\nb'", "'a\\nb'"),
    ("x = 1; x", "1"),
    ("if True: 5", None),
    ("", None),
    ("   \n\n", None),
    ("# only a comment", None),
    ("'\\0'", "'\\x00'"),
    ("'\\ud800'", "'\\ud800'"),
    ("'ü€𝄞'", "'ü€𝄞'"),
    ("class C:\n    def __repr__(self): return 'a\\0b\\udcff'\nC()", "a\0b\\udcff"),
])
def test_value_of_the_last_expression(sandbox: lib.Sandbox, code: str, value: str | None) -> None:
    assert ok(sandbox.exec(code))["value"] == value


def test_result_variable_is_reset_by_each_cell(sandbox: lib.Sandbox, session: str) -> None:
    first = ok(sandbox.exec("result = {'a': 1}", session))
    assert (first["result"], first["value"]) == ("{'a': 1}", None)
    assert ok(sandbox.exec("1", session))["result"] is None
    assert ok(sandbox.exec("result", session))["result"] is None
    assert ok(sandbox.exec("result = None", session))["result"] is None
    assert ok(sandbox.exec("result = 'x'\nresult", session))["result"] == "'x'"


def test_huge_repr_is_cut(sandbox: lib.Sandbox) -> None:
    done = ok(sandbox.exec("'a' * 5_000_000"))
    assert 99_000 <= len(done["value"]) <= 100_000
    done = ok(sandbox.exec("result = [i for i in range(200_000)]"))
    assert 99_000 <= len(done["result"]) <= 100_000 and done["result"].startswith("[0, 1, 2")


def test_longest_texts_of_all_kinds_at_once(sandbox: lib.Sandbox, session: str) -> None:
    """Every character escaped in JSON: the answer is still one frame, and nobody else is hurt."""
    code = """
import os
class C:
    def __repr__(self): return chr(1) * 1_000_000
result = C()
for i in range(1200):
    open(f'{i:04}' + chr(2) * 240, 'w').close()
raise ValueError(chr(1) * 1_000_000)
"""
    sandbox.exec("kept = 1", session)
    done = sandbox.exec(code)
    assert done["status"] == "error" and len(done["error"]["message"]) <= 100_000
    assert done["files"]["truncated"] and len(done["files"]["created"]) > 100
    assert ok(sandbox.exec("kept", session))["value"] == "1"


def test_code_of_a_megabyte(sandbox: lib.Sandbox) -> None:
    code = "\n".join(f"v{i} = {i}" for i in range(75_000)) + "\nv74999"
    assert len(code) > 1 << 20
    assert ok(sandbox.exec(code))["value"] == "74999"


# Language -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code, out", [
    ("class A:\n    x: int = 1\n    def f(self): return self.x\n"
     "class B(A):\n    def f(self): return super().f() + 1\nprint(B().f())", "2\n"),
    ("match {'k': [1, 2]}:\n    case {'k': [a, *rest]}: print(a, rest)", "1 [2]\n"),
    ("x = [1]; x += [2]; x *= 2; y = 5; y //= 2; y **= 3; print(x, y)", "[1, 2, 1, 2] 8\n"),
    ("import asyncio\nawait asyncio.sleep(0.01)\nprint(await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2)))",
     "[1, 2]\n"),
    ("import asyncio\nasync def f(): return 3\nprint(asyncio.run(f()))", "3\n"),
    ("async def g():\n    yield 1\nprint([x async for x in g()])", "[1]\n"),
    ("import threading\nt = [threading.Thread(target=print, args=(i,)) for i in range(3)]\n"
     "for x in t:\n    x.start(); x.join()", "0\n1\n2\n"),
    ("import multiprocessing as m\ndef f(x): return x * x\n"
     "with m.Pool(3) as p: print(p.map(f, range(5)))", "[0, 1, 4, 9, 16]\n"),
    ("import multiprocessing as m\nq = m.Queue()\ndef f(q): q.put('from a child')\n"
     "p = m.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join(); print(p.exitcode)",
     "from a child\n0\n"),
    ("from concurrent.futures import ProcessPoolExecutor as E\nwith E(2) as e: print(sum(e.map(abs, [-1, -2])))",
     "3\n"),
    ("import subprocess\nprint(subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout)", "hi\n\n"),
    ("import subprocess\nsubprocess.run('echo direct; echo piped | tr a-z A-Z', shell=True)", "direct\nPIPED\n"),
    ("import os\nos.system('echo system')", "system\n"),
    ("print(f'{__name__}', 'x' if (n := 3) else '')", "__main__ x\n"),
    ("global_name = 1\ndef f():\n    global global_name\n    global_name += 1\nf()\nprint(global_name)", "2\n"),
    ("from __future__ import annotations\ndef f(x: Unknown) -> Other: return x\nprint(f(1))", "1\n"),
    ("import sqlite3, json, re, decimal\nprint(sqlite3.connect(':memory:').execute('select 1+1').fetchone())",
     "(2,)\n"),
    ("import socket\na, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))", "b'x'\n"),
])
def test_language_and_library(sandbox: lib.Sandbox, code: str, out: str) -> None:
    assert ok(sandbox.exec(code))["stdout"] == out


def test_state_is_kept_between_cells(sandbox: lib.Sandbox, session: str) -> None:
    ok(sandbox.exec("import math\nx = 1\ndef f(): return x\nclass C: pass\nopen('f', 'w').write('text')", session))
    done = ok(sandbox.exec("x = 2\n(f(), math.floor(2.5), C.__name__, open('f').read())", session))
    assert done["value"] == "(2, 2, 'C', 'text')"
    assert (done["cell"], done["name"], done["state"], done["restarted"]) == (2, session, "kept", False)


@pytest.mark.needs("namespaces")
def test_sessions_do_not_see_each_other(sandbox: lib.Sandbox, session: str) -> None:
    ok(sandbox.exec("secret = 1; open('s', 'w').close(); open('/tmp/s', 'w').close()", session))
    done = sandbox.exec("import os\nprint(os.listdir('/workspace') + os.listdir('/tmp') + "
                        "os.listdir(os.environ['HOME']))\nsecret")
    assert done["error"]["type"] == "NameError" and done["stdout"] == "['.home']\n"


@pytest.mark.parametrize("tier", ["native", "local"])
@pytest.mark.parametrize("project", [False, True])
def test_home_and_caches_are_no_files_of_the_workspace(sandbox: lib.Sandbox, session: str, tier: str,
                                                       project: bool) -> None:
    """They are writable, private, kept from cell to cell, and bounded by the size of /tmp."""
    folder = sandbox.make_folder("cached")
    options = ["--env", tier, "--tmp-size", "1m"] + (["--project", folder] if project else [])
    done = ok(sandbox.exec("""
import os, pathlib
for name in "~/.cache/fontconfig/a", "~/.config/matplotlib/b", "~/c":
    file = pathlib.Path(name).expanduser()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("kept")
assert os.system("cd && echo kept >d") == 0
""", session, options=options))
    assert done["files"]["created"] == [] and done["files"]["modified"] == []
    read = "[open(os.path.expanduser('~/' + name)).read().strip() for name in ('.cache/fontconfig/a', 'c', 'd')]"
    done = ok(sandbox.exec(read, session))
    assert done["value"] == "['kept', 'kept', 'kept']"
    if tier == "native":  # in the local tier a sample sees it
        done = sandbox.exec("open(os.path.expanduser('~/large'), 'wb').write(bytes(4 << 20))", session)
        assert done["status"] != "ok" and "--tmp-size" in json.dumps(done), done


# Errors ---------------------------------------------------------------------------------------


def test_traceback_shows_the_users_lines(sandbox: lib.Sandbox, session: str) -> None:
    ok(sandbox.exec("def first():\n    return 1 / 0", session))
    error = sandbox.exec("def second():\n    first()  # marked\n\nsecond()", session)["error"]
    assert (error["type"], error["message"], error["line"]) == ("ZeroDivisionError", "division by zero", 2)
    for text in ("return 1 / 0", "first()  # marked", "second()", "line 2"):
        assert text in error["traceback"]
    assert "driver.py" not in error["traceback"]


@pytest.mark.parametrize("code, kind, line", [
    ("x = (", "SyntaxError", 1),
    ("a = 1\n  b = 2", "IndentationError", 2),
    ("\n\nraise KeyError('k')", "KeyError", 3),
    ("raise BaseException('b')", "BaseException", 1),
    ("def f(): f()\nf()", "RecursionError", 1),
    ("raise KeyboardInterrupt", "KeyboardInterrupt", 1),
    ("raise GeneratorExit", "GeneratorExit", 1),
    ("assert 1 == 2, 'no'", "AssertionError", 1),
    ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E", "E", 3),
    ("class E(Exception):\n    def __str__(self): return 5\nraise E", "E", 3),
    ("import asyncio\nraise asyncio.CancelledError", "CancelledError", 2),
    ("raise ExceptionGroup('g', [ValueError(1)])", "ExceptionGroup", 1),
    ("b'\\xff'.decode()", "UnicodeDecodeError", 1),
    ("x = '\0'", "SyntaxError", None),
])
def test_exceptions(sandbox: lib.Sandbox, session: str, code: str, kind: str, line: int | None) -> None:
    ok(sandbox.exec("kept = 1", session))
    done = sandbox.exec(code, session)
    assert (done["status"], done["state"]) == ("error", "kept")
    assert done["error"]["type"] in (kind, "ValueError" if "\0" in code else kind)
    assert line is None or done["error"]["line"] == line
    assert ok(sandbox.exec("kept", session))["value"] == "1"


@pytest.mark.parametrize("text", ["a\\0b", "\\udcff\\ud800", "\\x01\\x1b[31m", "ü" * 200_000, "\\\"}]"])
def test_exception_message_of_any_characters(sandbox: lib.Sandbox, session: str, text: str) -> None:
    ok(sandbox.exec("kept = 1", session))
    done = sandbox.exec(f"raise ValueError('{text}')", session)
    assert done["status"] == "error" and done["error"]["message"]
    assert len(done["error"]["message"]) <= 100_000
    assert "\0" in done["error"]["message"] or "\\0" not in text
    assert ok(sandbox.exec("kept", session))["value"] == "1"


@pytest.mark.parametrize("code, exit_code, status, out", [
    ("sys.exit()", 0, "ok", ""),
    ("sys.exit(0)", 0, "ok", ""),
    ("sys.exit(3)", 3, "error", ""),
    ("sys.exit('words')", 1, "error", "words\n"),
    ("exit(4)", 4, "error", ""),
    ("raise SystemExit(5)", 5, "error", ""),
])
def test_sys_exit_ends_the_cell_and_not_the_session(sandbox: lib.Sandbox, session: str, code: str, exit_code: int,
                                                    status: str, out: str) -> None:
    ok(sandbox.exec("import sys\nkept = 1", session))
    done = sandbox.exec(code + "\nprint('not reached')", session)
    assert (done["exit_code"], done["status"], done["state"]) == (exit_code, status, "kept")
    assert (done["stdout"], done["stderr"]) == ("", out)
    assert ok(sandbox.exec("kept", session))["value"] == "1"


@pytest.mark.parametrize("code, exit_code, signal", [
    ("import os\nos._exit(9)", 9, None),
    ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", None, "SIGKILL"),
    ("import os\nos.abort()", None, "SIGABRT"),
    ("import ctypes\nctypes.string_at(0)", None, "SIGSEGV"),
])
def test_a_dead_interpreter_loses_variables_and_keeps_files(sandbox: lib.Sandbox, session: str, code: str,
                                                            exit_code: int | None, signal: str | None) -> None:
    ok(sandbox.exec("x = 1\nopen('f', 'w').write('kept')", session))
    done = sandbox.exec("print('before', flush=True)\n" + code, session, options=["--no-transaction"])
    assert (done["status"], done["state"]) == ("killed", "lost")
    assert (done["exit_code"], done["signal"]) == (exit_code, signal)
    assert done["stdout"] == "before\n"
    after = sandbox.exec("print(open('f').read())\nx", session)
    assert after["restarted"] and after["state"] == "kept"
    assert (after["stdout"], after["error"]["type"]) == ("kept\n", "NameError")
    assert not ok(sandbox.exec("1", session))["restarted"]


# Output ---------------------------------------------------------------------------------------


def test_stdout_and_stderr_are_told_apart(sandbox: lib.Sandbox) -> None:
    done = ok(sandbox.exec("import sys, os\nprint('o')\nprint('e', file=sys.stderr)\nos.write(1, b'O')\n"
                           "os.system('echo sub; echo suberr >&2')"))
    assert (done["stdout"], done["stderr"]) == ("o\nOsub\n", "e\nsuberr\n")
    assert done["usage"]["stdout_bytes"] == 7 and done["usage"]["stderr_bytes"] == 9


def test_streams_come_in_order(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    """Events on the wire: what was written first arrives first, whoever wrote it; but a cell waits only so long for
    who reads. Where that ran out, on a busy machine, it is tried again."""
    code = """
import sys, subprocess
for i in range(20):
    print('out', i)
    print('err', i, file=sys.stderr)
    if i % 5 == 0:
        subprocess.run(['sh', '-c', f'echo sub {i}'])
        print('end', i, file=sys.stderr)
sys.stdout.buffer.raw._turn._given_up
"""
    # The daemon answers only its own user, so here it runs as the tests do.
    expected = "".join(f"out {i}\nerr {i}\n" + (f"sub {i}\nend {i}\n" if i % 5 == 0 else "") for i in range(20))
    with fresh_sandbox("root" if os.geteuid() == 0 else "user").client() as rpc:
        defaults = {"template": "base"}

        def was_read_in_time() -> bool:
            kind, head, _, events = rpc.call(
                "exec", code.encode(), session=None, kind="python", code_len=len(code), stdin=False, argv=None,
                tier="native", template=None, limits={}, defaults=defaults, project=None, env={},
                allow_degraded=False, stream=True)
            assert kind == 2, head
            text = b"".join(raw for event, raw in events if event["event"] in ("stdout", "stderr"))
            assert text.decode() == expected or int(head["value"]) > 0
            return bool(head["value"] == "0")

        assert lib.wait_for(was_read_in_time)


def test_output_is_streamed_while_the_cell_runs(sandbox: lib.Sandbox, session: str) -> None:
    code = "import os, time\nprint('first')\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint('last')"
    with sandbox.popen("exec", "--session", session, "--timeout", "600", code, text=True) as process:
        assert lib.some(process.stdout).readline() == "first\n"
        assert sandbox.cli("put", sandbox.make_file("go"), f"{session}:").returncode == 0
        assert lib.some(process.stdout).readline() == "last\n"
        assert process.wait() == 0


@pytest.mark.parametrize("data, text", [
    (r"b'a\0b'", "a\0b"),
    (r"b'\xff\xfe'", "\ufffd\ufffd"),
    (r"b'\xe2\x82'", "\ufffd"),
    (r"b'\xe2\x82\xac'", "€"),
    (r"b'\x1b[31m\r\n'", "\x1b[31m\r\n"),
])
def test_output_of_any_bytes(sandbox: lib.Sandbox, data: str, text: str) -> None:
    assert ok(sandbox.exec(f"import os\n_ = os.write(1, {data})"))["stdout"] == text


def test_lone_surrogate_in_output(sandbox: lib.Sandbox) -> None:
    done = sandbox.exec("print('a\\udcffb')")
    assert done["status"] == "ok" and done["stdout"] == "a\ufffdb\n"


def test_a_line_split_over_writes(sandbox: lib.Sandbox) -> None:
    code = "import os, time\nfor byte in '€'.encode():\n    os.write(1, bytes([byte])); time.sleep(0.02)\n"
    assert ok(sandbox.exec(code))["stdout"] == "€"


@pytest.mark.needs("filesystem")
def test_displays(sandbox: lib.Sandbox, session: str) -> None:
    code = """
class Rich:
    def _repr_html_(self): return '<b>bold</b>'
    def _repr_markdown_(self): return '**bold**'
    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + bytes(10)
    def _repr_json_(self): return {'a': 1}
    def _repr_latex_(self): raise ValueError
    def __repr__(self): return 'plain'
Rich()
"""
    done = ok(sandbox.exec(code, session))
    (display,) = done["displays"]
    assert display["text/plain"] == "plain" and display["text/html"] == "<b>bold</b>"
    assert display["text/markdown"] == "**bold**"
    assert base64.b64decode(display["image/png"]).startswith(b"\x89PNG")
    many = ok(sandbox.exec("for i in range(100): display(Rich())", session))
    assert len(many["displays"]) == 64


def test_displays_of_an_earlier_cell_are_saved_later(sandbox: lib.Sandbox, session: str) -> None:
    ok(sandbox.exec("class R:\n    def _repr_html_(self): return '<b>bold</b>'\ndisplay(R())\ndisplay('mid')\n7",
                    session))
    ok(sandbox.exec("1", session))
    rows = json.loads(sandbox.cli("history", session, "--json").stdout)["cells"]
    assert [row.get("displays") for row in rows] == [None, 2]
    assert ", 2 displays" in sandbox.cli("history", session).stdout
    shown = sandbox.cli("show", f"{session}:1")
    assert "'mid'\n" in shown.stdout and "7\n" in shown.stdout and "1 display: text/html" in shown.stderr
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        for number, args in enumerate((("show",), ("show", "--json"), ("rerun",), ("rerun", "--json"))):
            place = f"{folder}/{number}"
            done = sandbox.cli(args[0], f"{session}:1", *args[1:], "--display-dir", place)
            assert done.returncode == 0, done.stderr
            with open(f"{place}/cell{(1, 1, 3, 4)[number]}-1.html") as saved:
                head, _, html = saved.read().partition("\n")
                assert html == "<b>bold</b>" and "default-src 'none'" in head


def collect(server: socket.socket, came: list[Any]) -> None:
    with contextlib.suppress(OSError):
        while True:
            came.append(server.accept())
            came[-1][0].close()


def test_saved_html_runs_its_scripts_and_requests_nothing(sandbox: lib.Sandbox) -> None:
    """Of a document as of a fragment; the same file without our head is the control."""
    html = """<!DOCTYPE html><html><head><title>before</title><link rel="stylesheet" href="{0}/a"></head><body>
<img src="{0}/b"><iframe src="{0}/c"></iframe><script src="{0}/d"></script><b style="color: red">\u00e4</b>
<script>fetch("{0}/e").catch(() => {{}}); new Image().src = "{0}/f"; navigator.sendBeacon("{0}/g");
document.title = new Function("return 'ran'")()</script></body></html>"""
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        page = html.format(f"http://127.0.0.1:{server.getsockname()[1]}")
        code = f"class R:\n    def _repr_html_(self): return {page!r}\ndisplay(R())"
        assert sandbox.cli("exec", "--display-dir", f"{folder}/it", code).returncode == 0
        with open(f"{folder}/control.html", "w") as control:
            control.write(page)
        came: list[Any] = []
        threading.Thread(target=collect, args=(server, came), daemon=True).start()
        with Browser() as browser:
            shown = browser.open(f"file://{folder}/it/cell1-1.html")
            assert shown.value("document.title + document.querySelector('b').innerText + document.compatMode") == (
                "ranäCSS1Compat")
            assert not came, came
            browser.open(f"file://{folder}/control.html")
            assert came
            server.shutdown(socket.SHUT_RDWR)


def test_displays_of_pandas_and_matplotlib(sandbox: lib.Sandbox) -> None:
    code = """
import pandas, matplotlib.pyplot as plt
display(pandas.DataFrame({'column': [1, 2]}))
plt.plot([1, 2, 3])
plt.show()
pandas.DataFrame({'second': [3.5]})
"""
    done = ok(sandbox.exec(code, options=["--template", "plot"]))
    frame, figure, last = done["displays"]
    assert "column" in frame["text/plain"] and "<table" in frame["text/html"]
    png = base64.b64decode(figure["image/png"])
    assert png.startswith(b"\x89PNG") and png.rstrip().endswith(b"IEND\xaeB`\x82")
    assert "second" in last["text/html"] and "3.5" in done["value"]


# Input and environment ------------------------------------------------------------------------


def test_standard_input(sandbox: lib.Sandbox, session: str) -> None:
    done = ok(sandbox.exec("import sys\nprint(input('? ') + '|' + sys.stdin.read())", session, stdin="one\ntwo\nthree"))
    assert done["stdout"] == "? one|two\nthree\n"
    assert ok(sandbox.exec("import sys\nsys.stdin.read()", session))["value"] == "''"
    assert sandbox.exec("input()", session)["error"]["type"] == "EOFError"
    data = bytes(range(256)) * 100
    done = ok(sandbox.exec("import sys\nd = sys.stdin.buffer.read()\n(len(d), d == bytes(range(256)) * 100)",
                           session, stdin=data))
    assert done["value"] == "(25600, True)"


def test_standard_input_of_commands(sandbox: lib.Sandbox) -> None:
    assert ok(sandbox.exec(sh="tr a-z A-Z", stdin="text"))["stdout"] == "TEXT"
    assert ok(sandbox.exec(argv=["cat"], stdin=b"\0\xff"))["stdout"] == "\0\ufffd"
    assert ok(sandbox.exec(argv=["cat"]))["stdout"] == ""


def test_only_named_variables_reach_the_code(sandbox: lib.Sandbox) -> None:
    env = {"SECRET_OF_HOST": "s3cret", "PASSED": "p=1", "PYTHONPATH": "/tmp/evil", "LD_PRELOAD_X": "x"}
    code = "import os\nprint(sorted(os.environ.items()))"
    done = ok(sandbox.exec(code, options=["--pass-env", "PASSED", "--set-env", "GIVEN=g"], env=env))
    assert "('PASSED', 'p=1')" in done["stdout"] and "('GIVEN', 'g')" in done["stdout"]
    for absent in ("SECRET_OF_HOST", "s3cret", "PYTHONPATH", "LD_PRELOAD_X", "SNIPARA", sandbox.home):
        assert absent not in done["stdout"]
    done = ok(sandbox.exec(sh="env", options=["--pass-env", "PASSED"], env=env))
    assert "PASSED=p=1\n" in done["stdout"] and "s3cret" not in done["stdout"]
    names = {line.split("=")[0] for line in done["stdout"].splitlines()}
    assert names <= {"PATH", "HOME", "LANG", "TERM", "SHELL", "PYTHONDONTWRITEBYTECODE", "MPLBACKEND", "TMPDIR",
                     "OMP_NUM_THREADS", "PIP_RETRIES", "PIP_DISABLE_PIP_VERSION_CHECK", "PASSED", "PWD", "SHLVL", "_",
                     "OLDPWD"}


# Hints ----------------------------------------------------------------------------------------


def test_a_file_of_the_machine_is_named_to_the_person_alone(sandbox: lib.Sandbox) -> None:
    """What exists outside is said on the person's terminal, never inside, nor in a result; of other folders nothing is
    said."""
    sandbox.make_file("home/here/data.csv", "1\n")
    sandbox.make_file("home/here/helper.py", "")
    sandbox.make_file("home/here/sub/x.csv", "")
    sandbox.make_file("home/here/odd name.csv", "")
    sandbox.make_file("beside/other.csv", "")
    here, home = sandbox.home + "/here", sandbox.home
    os.symlink(sandbox.folder + "/beside", here + "/link")
    there, general = "is on this machine, not in the sandbox", "Only files of the session"
    for args, says in (
            (["open('data.csv')"],
             f"data.csv {there}. With --project . it is /workspace/data.csv; or run the code in a session (exec -s "
             f"NAME)"),
            (["-s", "work", "open('data.csv')"], "; or copy it: snipara-sandbox put data.csv work:"),
            ([f"open('{here}/data.csv')"], "it is /workspace/data.csv"), ([f"open('{home}/here')"], there),
            (["import helper"], "helper.py " + there), (["--", "cat", "data.csv"], "data.csv " + there),
            (["open('none.csv')"], general), (["open('odd name.csv')"], general), (["open('link/other.csv')"], general),
            (["open('../../beside/other.csv')"], general), ([f"open('{sandbox.folder}/beside/other.csv')"], general)):
        done = sandbox.cli("exec", *args, cwd=here)
        hints = [line for line in done.stderr.splitlines() if line.startswith("hint: ")]
        assert len(hints) == 1 and says in hints[0], (args, done.stderr)
    assert sandbox.cli("put", "data.csv", "work:",
                       cwd=here).returncode == 0 and sandbox.cli("exec", "-s", "work",
                                                                 "open('data.csv').read()").stdout == "'1\\n'\n"
    for path, command in (("sub/x.csv", "sub/x.csv work:sub/x.csv"), ("~/here/data.csv", "~/here/data.csv work:"),
                          (f"{here}/data.csv", f"{here}/data.csv work:")):
        done = sandbox.cli("exec", "-s", "work", f"import os; open(os.path.expanduser('{path}'))", cwd=here)
        assert f"copy it: snipara-sandbox put {command}\n" in done.stderr
    errors = [json.loads(sandbox.cli("exec", "--json", f"open('{name}.csv')", cwd=here).stdout)["error"]
              for name in ("data", "none")]
    assert {error["cause"] for error in errors} == {"no such file"} and errors[0]["hint"] == errors[1]["hint"]
    assert sandbox.cli("exec", "--project", ".", "open('data.csv').read()", cwd=here).stdout == "'1\\n'\n"
    # A command that fails for another reason may well have the file.
    assert "hint" not in sandbox.cli("exec", "--project", ".", "--", "grep", "none", "data.csv", cwd=here).stderr


@pytest.mark.parametrize("tier", ["native", "local"])
@pytest.mark.parametrize("line, is_missed", [
    ("echo 'ERROR: No matching distribution found for x' >&2; exit 1", True),
    ("echo 'curl: (6) Could not resolve host: x' >&2; exit 6", True),
    ("true curl -s http://x; exit 6", True), ("true wget -q http://x; exit 4", True), ("exit 6", False),
    ("true curl http://localhost:1; exit 7", False), ("echo 'error: externally-managed-environment' >&2; exit 1", True),
    ("echo 'Could not resolve host'", False), ("echo no >&2; exit 1", False)])
def test_programs_that_miss_the_network_are_told_the_way(sandbox: lib.Sandbox, tier: str, line: str,
                                                         is_missed: bool) -> None:
    done = sandbox.exec(sh=line, options=["--env", tier])
    said = [denial for denial in done["denials"] if denial["rule"] in ("no network", "no packages")]
    assert len(said) == is_missed
    assert not said or (said[0]["source"] == "guest" and "template add" in said[0]["hint"])


def test_hints_name_the_way(sandbox: lib.Sandbox) -> None:
    for code, person in (("import no_such_module_x", "snipara-sandbox template add"),
                         ("import winreg", "is a part of Python's standard library"),
                         ("open('no.csv')", "--project DIR"), ("from snipara_sandbox import Sandbox", "already"),
                         ("import subprocess; subprocess.run('curl -s x; exit 6', shell=True, check=True)", "put or")):
        done = sandbox.exec(code)
        assert person in done["error"]["hint"] and done["error"]["cause"], done["error"]


@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="no bash")
@pytest.mark.parametrize("tier", ["native", "local"])
@pytest.mark.parametrize("how",
                         [{"code": "!echo hi"}, {"sh": "bash -c 'echo hi'"}, {"argv": ["bash", "-c", "echo hi"]}])
def test_bash_is_denied_nothing_at_its_start(sandbox: lib.Sandbox, tier: str, how: Json) -> None:
    """What it would ask of the system's user database is in its environment; asking for oneself is still on record."""
    done = ok(sandbox.exec(**how, options=["--env", tier]))
    assert done["stdout"] == "hi\n" and done["denials"] == []


# Commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize("call, exit_code, signal, status", [
    ({"sh": "exit 0"}, 0, None, "ok"),
    ({"sh": "exit 7"}, 7, None, "error"),
    ({"sh": "kill -TERM $$"}, None, "SIGTERM", "killed"),
    ({"sh": "kill -SEGV $$"}, None, "SIGSEGV", "killed"),
    ({"argv": ["true"]}, 0, None, "ok"),
    ({"argv": ["false"]}, 1, None, "error"),
    ({"argv": ["no-such-program"]}, 127, None, "error"),
    ({"argv": ["/etc/passwd"]}, 126, None, "error"),
    ({"argv": ["sh", "-c", "exit 3"]}, 3, None, "error"),
])
def test_exit_codes_and_signals_of_commands(sandbox: lib.Sandbox, call: Json, exit_code: int | None, signal: str | None,
                                            status: str) -> None:
    done = sandbox.exec(**call)
    assert (done["exit_code"], done["signal"], done["status"]) == (exit_code, signal, status)


def test_exit_status_of_the_program(sandbox: lib.Sandbox) -> None:
    assert sandbox.cli("exec", "--sh", "exit 7").returncode == 7
    assert sandbox.cli("exec", "--sh", "kill -TERM $$").returncode == 128 + 15
    assert sandbox.cli("exec", "1").returncode == 0
    assert sandbox.cli("exec", "raise ValueError").returncode == 1
    assert sandbox.cli("exec", "--timeout", "0.3", "--sh", "sleep 600").returncode == 124


@pytest.mark.needs("namespaces")
def test_commands_and_cells_share_workspace_and_session(sandbox: lib.Sandbox, session: str) -> None:
    ok(sandbox.exec("x = 1\nopen('a.txt', 'w').write('from python')", session))
    done = ok(sandbox.exec(sh="cat a.txt; echo from shell > b.txt; pwd", session=session))
    assert done["stdout"] == "from python/workspace\n" and done["files"]["created"] == ["b.txt"]
    assert ok(sandbox.exec("(x, open('b.txt').read())", session))["value"] == "(1, 'from shell\\n')"


def test_arguments_arrive_as_they_are(sandbox: lib.Sandbox) -> None:
    words = ["a b", "", "'\"$x`", "-n", "--", "ü", "\n"]
    code = "import sys; print(sys.argv[1:])"
    assert ok(sandbox.exec(argv=["python3", "-c", code, *words]))["stdout"] == repr(words) + "\n"


# Several at once ------------------------------------------------------------------------------


def test_two_cells_at_once_on_one_session_queue(sandbox: lib.Sandbox, session: str) -> None:
    ok(sandbox.exec("log = []", session))
    code = "import time\nlog.append('in')\ntime.sleep(0.4)\nlog.append('out')"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in list(pool.map(lambda _: sandbox.exec(code, session), range(2))):
            ok(done)
    assert ok(sandbox.exec("log", session))["value"] == "['in', 'out', 'in', 'out']"


def test_twenty_sessions_at_once(sandbox: lib.Sandbox) -> None:
    def one(i: int) -> str:
        name = f"many{i}"
        ok(sandbox.exec(f"n = {i}\nopen('f', 'w').write(str(n))", name))
        return str(ok(sandbox.exec("import time\ntime.sleep(0.2)\n(n, open('f').read())", name))["value"])

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        values = list(pool.map(one, range(20)))
    assert values == [f"({i}, '{i}')" for i in range(20)]
    for i in range(20):
        sandbox.destroy(f"many{i}")


def test_a_file_has_arguments_and_other_cells_have_none(sandbox: lib.Sandbox) -> None:
    script = sandbox.make_file("script.py", "import sys\nresult = sys.argv\n")
    name = f"argv-{sandbox.who}"
    rows: list[tuple[list[str], list[str]]] = [(["a", "b c", "é"], ["a", "b c", "é"]),
                                               (["--", "-x", "--json"], ["-x", "--json"]), ([], [])]
    for args, argv in rows:
        done = json.loads(sandbox.cli("exec", "--json", "-s", name, "-f", script, *args).stdout)
        assert done["result"] == repr([script, *argv])
    assert sandbox.exec("import sys; sys.argv", name)["value"] == "['']"
    shell = sandbox.make_file("script.sh", 'echo "$0,$1,$2"')
    assert sandbox.cli("exec", "--sh", "-f", shell, "1", "2 3").stdout == f"{shell},1,2 3\n"
    refused = sandbox.cli("exec", "-f", script, b"\xff".decode("utf-8", "surrogateescape"))
    assert refused.returncode == 2 and "not UTF-8" in refused.stderr
    sandbox.destroy(name)


def test_what_is_said_beside_the_output(sandbox: lib.Sandbox) -> None:
    code = ("import os, socket\nopen('x', 'w').close()\nos.makedirs('a/__pycache__')\n"
            "for i in range(3): open(f'a/__pycache__/{i}', 'w').close()\n"
            "try: socket.create_connection(('192.0.2.1', 80), 1)\nexcept OSError: print('out')\n")
    plain = sandbox.cli("exec", code)
    assert plain.stdout == "out\n" and "denied: network" in plain.stderr
    assert "created: x, 3 cache files\n" in plain.stderr
    quiet = sandbox.cli("exec", "--quiet", code)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "out\n", "")
    failed = sandbox.cli("exec", "-q", "--timeout", "0.3", "while True: pass")
    assert failed.returncode == 1 and "timeout" in failed.stderr, failed  # a busy host may have to kill it
    assert "KeyboardInterrupt" in failed.stderr or "did not stop when interrupted" in failed.stderr
    assert "degraded" not in failed.stderr
