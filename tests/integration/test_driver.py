# SPDX-License-Identifier: Apache-2.0
"""driver.py alone, black box: over a socket pair and two pipes, without any sandbox."""

import base64
import contextlib
import json
import re
import sys
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import lib

DRIVER = pathlib.Path(__file__).resolve().parents[2] / "src" / "guest" / "python" / "driver.py"
PYTHON = os.environ.get("SNP_TEST_PYTHON", "/usr/bin/python3")
BUILD = pathlib.Path(lib.BUILD)
HEADER = struct.Struct("<IIIB3x")
CELL, START, SEED, WARM, HOLD = 16, 17, 18, 19, 20
READY, DISPLAY, DENIAL, DONE, HELD = 32, 33, 34, 35, 36
LIMIT = 100000


class Answer:
    """What one cell gave."""

    def __init__(self, done: lib.Json, out: str, err: str, displays: list[Any], denials: list[Any],
                 order: list[Any]) -> None:
        self.done = done
        self.status = done["status"]
        self.value = done["value"]
        self.result = done["result"]
        self.error = done["error"]
        self.exit_code = done["exit_code"]
        self.out = out
        self.err = err
        self.displays = displays
        self.denials = denials
        self.order = order  # [stream, bytes] as they were read


class Driver:
    """A driver process and the host's side of its protocol."""

    def __init__(self, cwd: Path, template: str = "base", env: Mapping[str, str] | None = None,
                 program: Path = DRIVER) -> None:
        self.cwd = str(cwd)
        mine, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        self.process = subprocess.Popen(
            [PYTHON, "-I", str(program), "--template", template, "--fd", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=out_write,
            stderr=err_write,
            pass_fds=[theirs.fileno()],
            cwd=self.cwd,
            env=dict(os.environ, **(env or {})),
            start_new_session=True,
        )
        theirs.close()
        os.close(out_write)
        os.close(err_write)
        self.socket = mine
        self.pipes = {out_read: "out", err_read: "err"}
        self.data = bytearray()
        self.cells = 0
        kind, ident, self.ready, raw = self.read_frame()
        assert (kind, ident, raw) == (READY, 0, b"")

    def close(self) -> None:
        self.socket.close()
        try:
            self.process.wait(lib.PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            for fd in self.pipes:
                os.close(fd)

    def send(self, code: str, stdin: bytes | None = None, cell: int | None = None, cwd: str | None = None) -> None:
        self.cells += 1
        source = code.encode()
        head = {
            "cell": cell or self.cells,
            "code_len": len(source),
            "stdin": stdin is not None,
            "cwd": cwd or self.cwd,
        }
        text = json.dumps(head).encode()
        raw = source + (stdin or b"")
        self.socket.sendall(HEADER.pack(len(text) + len(raw), self.cells, len(text), CELL))
        self.socket.sendall(text + raw)

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def run(self, code: str, stdin: bytes | None = None, cell: int | None = None) -> Answer:
        self.send(code, stdin, cell)
        return self.collect()

    def collect(self) -> Answer:
        """Read until DONE, then what is left in the pipes."""
        displays: list[Any] = []
        denials: list[lib.Json] = []
        order: list[tuple[str, bytes]] = []
        deadline = time.monotonic() + lib.PATIENCE
        done = None
        while done is None:
            left = deadline - time.monotonic()
            assert left > 0, "no answer from the driver"
            ready, _, _ = select.select([self.socket, *self.pipes], [], [], left)
            for fd in self.pipes:
                if fd in ready:
                    self.read_pipe(fd, order)
            if self.socket in ready:
                chunk = self.socket.recv(1 << 20)
                if not chunk:
                    raise EOFError("the driver has gone")
                self.data += chunk
            done = self.take_events(displays, denials)
        for fd in self.pipes:
            while select.select([fd], [], [], 0)[0] and self.read_pipe(fd, order):
                pass
        texts = {
            name: b"".join(data for stream, data in order if stream == name).decode()
            for name in ("out", "err")
        }
        return Answer(done, texts["out"], texts["err"], displays, denials, order)

    def read_pipe(self, fd: int, order: list[tuple[str, bytes]]) -> bool:
        chunk = os.read(fd, 1 << 16)
        if chunk:
            order.append((self.pipes[fd], chunk))
        return bool(chunk)

    def take_events(self, displays: list[Any], denials: list[lib.Json]) -> Any:
        frame = self.take_frame()
        while frame is not None:
            kind, ident, head, raw = frame
            assert ident == self.cells
            if kind == DONE:
                assert not self.data, "frames after DONE"
                return head
            if kind == DISPLAY:
                displays.append(bundle(head["mime"], raw))
            else:
                assert kind == DENIAL
                assert set(head) == {"control", "operation", "object", "rule"}
                denials.append(head)
            frame = self.take_frame()
        return None

    def take_frame(self) -> tuple[Any, Any, Any, bytes] | None:
        if len(self.data) < HEADER.size:
            return None
        body_len, ident, head_len, kind = HEADER.unpack_from(self.data)
        assert head_len <= body_len <= 12 << 20
        end = HEADER.size + body_len
        if len(self.data) < end:
            return None
        body = bytes(self.data[HEADER.size : end])
        del self.data[:end]
        return kind, ident, json.loads(body[:head_len]), body[head_len:]

    def read_frame(self) -> tuple[Any, Any, Any, bytes]:
        self.socket.settimeout(lib.PATIENCE)
        frame = self.take_frame()
        while frame is None:
            chunk = self.socket.recv(1 << 16)
            if not chunk:
                for fd in self.pipes:
                    print(os.read(fd, 1 << 16).decode())
                raise EOFError("the driver has gone")
            self.data += chunk
            frame = self.take_frame()
        self.socket.settimeout(None)
        return frame


def bundle(mime: Any, raw: bytes) -> lib.Json:
    parts, at = {}, 0
    for name, size in mime:
        parts[name] = raw[at : at + size]
        at += size
    assert at == len(raw)
    return parts


@contextlib.contextmanager
def driver_for(cwd: Path, template: str = "base", env: Mapping[str, str] | None = None,
               program: Path = DRIVER) -> Iterator[Driver]:
    driver = Driver(cwd, template, env, program)
    try:
        yield driver
    finally:
        driver.close()


@pytest.fixture
def driver(tmp_path: pathlib.Path) -> Iterator[Driver]:
    with driver_for(tmp_path) as one:
        yield one


def has_module(name: str) -> bool:
    code = "import importlib.util as u, sys; sys.exit(u.find_spec({!r}) is None)".format(name)
    return subprocess.run([PYTHON, "-I", "-c", code]).returncode == 0


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not has_module(name), reason=name + " is not installed")


# --- values ---------------------------------------------------------------------------


def test_ready_names_python_and_template(driver: Driver) -> None:
    assert driver.ready["template"] == "base"
    assert driver.ready["python"].startswith("3.")


@pytest.mark.parametrize(
    "code, value",
    [
        ("1+1", "2"),
        ("x = 3", None),
        ("None", None),
        ("", None),
        ("# only a comment", None),
        ("'a\\nb'", "'a\\nb'"),
        ("x = 1\nx + 1", "2"),
        ("1 + 1;", None),
        ("(1 + 1) ; # quiet", None),
        ("(\n1 + 1\n);", None),
        ("a = 1;\r\na  # ;", "1"),
        ("'\x0c\u2028'\n'ö' ;", None),
        ("1; 2", "2"),
        ("'äöü;'", "'äöü;'"),
        ("'ä'; 'ö';", None),
        ("'\\x00\\ud800'", "'\\x00\\ud800'"),
        ("if True:\n    5", None),
        ("f'{1}'", "'1'"),
    ],
)
def test_value_of_last_expression(driver: Driver, code: str, value: str | None) -> None:
    answer = driver.run(code)
    assert (answer.status, answer.value, answer.error) == ("ok", value, None)


def test_names_persist_and_last_value_is_underscore(driver: Driver) -> None:
    driver.run("class A:\n    def f(self): return 40\na = A()")
    assert driver.run("a.f() + 2").value == "42"
    assert driver.run("_ + 1").value == "43"
    assert driver.run("a.f.__module__, __name__").value == "('__main__', '__main__')"


def test_result_is_reset_per_cell(driver: Driver) -> None:
    assert driver.run("result = {'a': 1}").result == "{'a': 1}"
    second = driver.run("result is None")
    assert (second.value, second.result) == ("True", None)
    assert driver.run("result = 7\nresult").done["result"] == "7"
    failed = driver.run("result = 8\n1/0")
    assert (failed.status, failed.result) == ("error", "8")
    assert driver.run("del result").status == "ok"


def test_long_texts_are_cut(driver: Driver) -> None:
    assert len(driver.run("'x' * 1000000").value) == LIMIT
    assert len(driver.run("result = 'ü' * 1000000").result) == LIMIT
    answer = driver.run("raise ValueError('m' * 1000000)")
    assert len(answer.error["message"]) == LIMIT
    assert len(answer.error["traceback"]) <= LIMIT
    assert answer.error["traceback"].startswith("Traceback")


def test_lone_surrogates_reach_the_host_as_text(driver: Driver) -> None:
    code = "class A:\n    def __repr__(self): return 'a\\ud800b'\nA()"
    assert driver.run(code).value == "a\\ud800b"


def test_str_subclass_as_repr(driver: Driver) -> None:
    code = (
        "class S(str):\n"
        "    def __len__(self): return 10**9\n"
        "    def isascii(self): raise SystemExit(9)\n"
        "class A:\n    def __repr__(self): return S('fine')\n"
        "A()"
    )
    assert driver.run(code).value == "fine"


def test_future_imports_persist(driver: Driver) -> None:
    driver.run("from __future__ import annotations")
    assert driver.run("def f(x: missing_name): pass\nf.__annotations__").value == (
        "{'x': 'missing_name'}"
    )


def test_top_level_await_on_one_loop(driver: Driver) -> None:
    code = "import asyncio\nasync def f(): return asyncio.get_running_loop()\na = await f()"
    assert driver.run(code).status == "ok"
    assert driver.run("b = await f()\na is b").value == "True"
    assert driver.run("await asyncio.sleep(0, 'done')").value == "'done'"
    assert driver.run("[x async for x in g()] if False else await f() is a").value == "True"
    assert driver.run("asyncio.run(asyncio.sleep(0, 5))").value == "5"
    assert driver.run("import sys\nawait asyncio.sleep(0)\nsys.exit(4)").exit_code == 4


def test_modern_syntax_and_dataclasses(driver: Driver) -> None:
    code = (
        "from dataclasses import dataclass\nimport typing, pickle\n"
        "@dataclass\nclass P:\n    x: int = 1\n    y: typing.Optional[int] = None\n"
        "n = 1\nn += 2\n"
        "assert pickle.loads(pickle.dumps(P(n))) == P(3)\n"
        "typing.get_type_hints(P)['x'], P(n)"
    )
    assert driver.run(code).value == "(<class 'int'>, P(x=3, y=None))"


def test_module_written_in_one_cell_is_imported_in_the_next(driver: Driver) -> None:
    for i in range(5):
        driver.run("open('mod{}.py', 'w').write('A = {}')".format(i, i))
        assert driver.run("import mod{0}; mod{0}.A".format(i)).value == str(i)


def test_source_of_cell_functions_is_known(driver: Driver) -> None:
    driver.run("def f():\n    return 'here'\n")
    assert driver.run("import inspect; inspect.getsource(f)").value == repr(
        "def f():\n    return 'here'\n"
    )


# --- errors ---------------------------------------------------------------------------


def test_traceback_shows_only_user_frames(driver: Driver) -> None:
    driver.run("def f(x):\n    return 1 / x")
    answer = driver.run("y = 0\nf(y)")
    assert answer.status == "error"
    assert answer.error["type"] == "ZeroDivisionError"
    assert answer.error["message"] == "division by zero"
    assert answer.error["line"] == 2
    text = answer.error["traceback"]
    assert 'File "<cell 2>", line 2' in text and "    f(y)" in text
    assert 'File "<cell 1>", line 2, in f' in text and "    return 1 / x" in text
    assert "driver.py" not in text
    assert (answer.value, answer.result, answer.exit_code) == (None, None, None)


def test_traceback_of_chained_exceptions(driver: Driver) -> None:
    code = "try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('bad') from e"
    text = driver.run(code).error["traceback"]
    assert "KeyError: 'k'" in text and "direct cause" in text and "ValueError: bad" in text
    assert text.count('File "<cell 1>"') == 2 and "driver.py" not in text


def test_traceback_of_await_has_no_event_loop_frames(driver: Driver) -> None:
    code = "async def f():\n    raise OSError('x')\n\nawait f()"
    answer = driver.run(code)
    assert answer.error["line"] == 2
    assert "line 4, in <module>" in answer.error["traceback"]
    assert "asyncio" not in answer.error["traceback"]


def test_syntax_error_shows_line_and_caret(driver: Driver) -> None:
    error = driver.run("a = 1\nb = = 2\n").error
    assert (error["type"], error["line"]) == ("SyntaxError", 2)
    assert "b = = 2" in error["traceback"] and "^" in error["traceback"]
    assert error["traceback"].lstrip().startswith('File "<cell 1>", line 2')


@pytest.mark.parametrize(
    "code", ["x = 1\x00", "(" * 5000, "'" * 3, "\ud7ff = 1", "if 1:\npass"]
)
def test_uncompilable_code_is_an_error(driver: Driver, code: str) -> None:
    assert driver.run(code).status == "error"
    assert driver.run("1").value == "1"


def test_code_that_is_not_utf8(driver: Driver) -> None:
    driver.cells += 1
    head = json.dumps({"cell": 1, "code_len": 2, "stdin": False, "cwd": driver.cwd}).encode()
    raw = b"\xff\xfe"
    frame = HEADER.pack(len(head) + 2, driver.cells, len(head), CELL) + head + raw
    driver.socket.sendall(frame)
    assert driver.collect().error["type"] == "UnicodeDecodeError"


def test_recursion_error(driver: Driver) -> None:
    answer = driver.run("def f(): f()\nf()")
    assert answer.error["type"] == "RecursionError"
    assert len(answer.error["traceback"]) < 5000


def test_deep_chain_of_exceptions(driver: Driver) -> None:
    code = (
        "def f(n):\n    e = None\n    for i in range(n):\n"
        "        try:\n            raise ValueError(i) from e\n"
        "        except ValueError as x: e = x\n    raise e\nf(3000)"
    )
    answer = driver.run(code)
    assert (answer.status, answer.error["type"]) == ("error", "ValueError")
    assert len(answer.error["traceback"]) <= LIMIT
    assert driver.run("1").value == "1"


def test_hints_for_missing_modules_and_names(driver: Driver) -> None:
    error = driver.run("import no_such_module_xyz").error
    assert (error["cause"], error["module"], error["hint"]) == ("no such module", "no_such_module_xyz", None)
    assert driver.run("jsonx.dumps(1)", cell=5).error["hint"] is None


def test_name_hint_says_that_the_interpreter_was_restarted(driver: Driver) -> None:
    hint = driver.run("df.head()", cell=4).error["hint"]
    assert "before cell 4 are gone: the interpreter was restarted" in hint


def test_name_hint_of_a_module(driver: Driver) -> None:
    assert driver.run("sys.exit(3)").error["hint"] == "sys is a module: import sys"
    assert driver.run("np.zeros(3)").error["hint"] == "np is a module: import numpy as np"


@pytest.mark.parametrize("code, out, value", [
    ("%matplotlib inline\n1 + 1", "", "2"),
    ("x = 'a'\nfor i in range(2):\n    !echo {x}$((1 + 1)) \"it's\"", "a2 it's\na2 it's\n", None),
    ("y = !echo one; echo two\ny", "", "['one', 'two']"),
    ("!echo a \\\n  b \\\n  c\n5", "a b c\n", "5"), ("!echo 1 \\\n-2", "1 -2\n", None),
    ("%time z = 5\nz", "Wall time", "5"), ("%%time\nz = 6\nz", "Wall time", "6"),
    ("def f(a, b=1):\n    'Adds.'\nf?", "f(a, b=1)\nAdds.\n", None), ("%pwd", "", "os.getcwd()"),
    ("```python\n1 + 2\n```", "", "3"), ("```\n4\n```\n", "", "4"), ("```bash\necho hi\n```", "hi\n", None),
    ("%%bash\nfor i in 1 2; do\necho $i\ndone", "1\n2\n", None), ("%%writefile t.txt\na\n%b\n", "", None),
    # Valid Python is never changed, nor what is in a string.
    ("s = '''\n%time x\n!ls\n'''\ns", "", "'\\n%time x\\n!ls\\n'"),
    ("s = '''\n%time x\n'''\n%matplotlib inline\ns", "", "'\\n%time x\\n'"), ("a = (7\n% 4)\na", "", "3"),
])
def test_habits_of_notebooks(driver: Driver, code: str, out: str, value: str | None) -> None:
    answer = driver.run(code)
    driver.run("import os")
    assert answer.status == "ok", answer.error
    assert answer.value == (driver.run(value).value if value and "(" in value else value)
    assert answer.out.startswith(out) and bool(answer.out) == bool(out)


def test_timeit_tells_the_time_of_one_loop(driver: Driver) -> None:
    assert re.fullmatch(r"[\d.e+]+ [mun]?s per loop \(mean of \d+ loops\)\n", driver.run("%timeit -n 3 len('a')").out)


def test_what_is_no_habit_stays_an_error_on_its_line(driver: Driver) -> None:
    error = driver.run("1\n%no_such_thing 3").error
    assert (error["type"], error["cause"], error["line"]) == ("UsageError", "notebook", 2)
    assert error["traceback"].count("File ") == 1 and "%no_such_thing 3" in error["traceback"]
    error = driver.run("try:\n import no_such\nexcept ImportError:\n "
                       "raise ImportError('Missing optional dependency')").error
    assert (error["cause"], error["module"]) == ("no such module", "no_such")
    assert driver.run("input('name? ')").error["cause"] == "no input"
    for code in "1 +\n!ls\nx y", "x = = 1", "```python\nx = = 1\n```":
        assert driver.run(code).error["type"] == "SyntaxError"
    assert driver.run("!ls\n1/0").error["line"] == 2


def test_ipython_display_shows_through_ours(driver: Driver) -> None:
    code = ("from IPython.display import display, HTML, Image\nimport IPython\ndisplay(HTML('<b>x</b>'))\n"
            "Image(b'\\x89PNG')")
    shown = driver.run(code).displays
    assert shown[0]["text/html"] == b"<b>x</b>" and shown[1]["image/png"] == b"\x89PNG"
    assert driver.run("IPython.get_ipython()").value is None


def test_carets_without_a_final_newline(driver: Driver) -> None:
    for code in ("1/0", "1/0\n"):
        lines = driver.run(code).error["traceback"].splitlines()
        assert lines[-2] == "    ~^~" if sys.version_info >= (3, 11) else True


def test_name_hint_of_first_cell(driver: Driver) -> None:
    assert "same session" in driver.run("df.head()").error["hint"]


# --- the end of a cell ----------------------------------------------------------------


@pytest.mark.parametrize(
    "code, status, exit_code, err",
    [
        ("import sys; sys.exit()", "ok", 0, ""),
        ("import sys; sys.exit(0)", "ok", 0, ""),
        ("import sys; sys.exit(3)", "error", 3, ""),
        ("import sys; sys.exit('sorry')", "error", 1, "sorry\n"),
        ("exit(5)", "error", 5, ""),
        ("quit()", "ok", 0, ""),
        ("raise SystemExit(True)", "error", 1, ""),
        ("raise SystemExit(10**30)", "error", 255, ""),
    ],
)
def test_exit_ends_the_cell(driver: Driver, code: str, status: str, exit_code: int, err: str) -> None:
    answer = driver.run("before = 1\n" + code + "\nprint('never')")
    assert (answer.status, answer.exit_code, answer.err) == (status, exit_code, err)
    assert answer.out == ""
    assert (answer.error is None) == (status == "ok")
    if answer.error:
        assert answer.error["type"] == "SystemExit"
    assert driver.run("before").value == "1"


def test_interrupt_ends_the_cell_and_keeps_names(driver: Driver) -> None:
    driver.send("kept = 5\nprint('in', flush=True)\nwhile True: pass")
    wait_for_output(driver)
    driver.interrupt()
    answer = driver.collect()
    assert (answer.status, answer.error["type"]) == ("error", "KeyboardInterrupt")
    assert answer.error["line"] in (2, 3)
    assert driver.run("kept").value == "5"


@pytest.mark.parametrize(
    "code",
    [
        "import time; print(1); time.sleep(3600)",
        "import asyncio; print(1); await asyncio.sleep(3600)",
        "print(1)\nwhile True: print(2)",
        "print(1); import threading; threading.Event().wait(3600)",
        "print(1); import subprocess; subprocess.run(['sleep', '3600'])",
        "class A:\n    def __repr__(self):\n        while True: pass\nprint(1)\nA()",
        "class E(Exception):\n    def __str__(self):\n        while True: pass\n"
        "print(1)\nraise E",
    ],
)
def test_interrupt_reaches_whatever_runs(driver: Driver, code: str) -> None:
    driver.send(code)
    wait_for_output(driver)
    time.sleep(0.1)  # so that it is mostly there; wherever it is, it is reached
    driver.interrupt()
    assert driver.collect().status == "error"
    assert driver.run("1 + 1").value == "2"
    assert driver.run("import asyncio; await asyncio.sleep(0, 3)").value == "3"


def test_interrupt_between_cells_is_ignored(driver: Driver) -> None:
    driver.run("1")
    for _ in range(20):
        driver.interrupt()
    assert driver.run("1 + 1").value == "2"


def test_interrupts_at_any_moment_lose_no_cell(driver: Driver) -> None:
    """The race of a signal and the end of a cell: each cell has exactly one answer."""
    seen = set()
    for i in range(400):
        driver.send("sum(range(2000))")
        if i % 2:
            time.sleep((i % 40) * 2e-6)
        driver.interrupt()
        answer = driver.collect()
        seen.add(answer.status)
        if answer.error:
            assert answer.error["type"] == "KeyboardInterrupt"
    assert driver.run("1 + 1").value == "2"
    assert seen <= {"ok", "error"}


def test_signal_handler_of_a_cell_is_undone(driver: Driver) -> None:
    driver.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    driver.send("print(1)\nwhile True: pass")
    wait_for_output(driver)
    driver.interrupt()
    assert driver.collect().error["type"] == "KeyboardInterrupt"


def test_alarm_handler_that_raises_between_cells(driver: Driver, tmp_path: pathlib.Path) -> None:
    rung = tmp_path / "rung"
    driver.run(
        "import signal\ndef h(*a):\n    open('rung', 'a').write('x')\n    raise TimeoutError('late')\n"
        "signal.signal(signal.SIGALRM, h)"
    )
    for times in range(1, 6):
        os.kill(driver.process.pid, signal.SIGALRM)
        assert lib.wait_for(lambda: rung.exists() and len(rung.read_text()) == times)
    assert driver.run("2").value == "2"


def test_alarm_handler_that_raises_all_the_time(driver: Driver) -> None:
    """Each cell is answered once, at whatever line of the driver an alarm fires, and the session stays."""
    driver.run(lib.LATE + "\nn = 0")
    driver.run("signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)")
    answers = [driver.run("n += 1\nn") for _ in range(1000)]
    while driver.run("signal.setitimer(signal.ITIMER_REAL, 0)").error:
        pass
    last = driver.run("n").value
    assert last is not None and 0 <= int(last) <= 1000
    assert {"TimeoutError"} >= {answer.error["type"] for answer in answers if answer.error}


def wait_for_output(driver: Driver) -> None:
    ready, _, _ = select.select(list(driver.pipes), [], [], lib.PATIENCE)
    assert ready
    os.read(ready[0], 1 << 16)


# --- standard streams -----------------------------------------------------------------


def test_output_of_everything_is_captured(driver: Driver) -> None:
    code = (
        "import os, subprocess, sys\n"
        "print('a', end='')\nos.system('printf b')\n"
        "subprocess.run(['printf', 'c'])\nsys.stdout.buffer.write(b'd')\n"
        "sys.stdout.buffer.flush()\nos.write(1, b'e')\nprint('f', flush=True)\n"
        "subprocess.run('echo g >&2', shell=True)"
    )
    answer = driver.run(code + ";")
    assert (answer.out, answer.err) == ("abcdef\n", "g\n")


def test_order_between_stdout_and_stderr(tmp_path: pathlib.Path) -> None:
    """However slowly we read: the wait for the reader is without end here."""
    code = (
        "import sys\nfor i in range(50):\n"
        "    print(i)\n    print(-i, file=sys.stderr)"
    )
    program = copy_of_the_driver(tmp_path, "WAIT_S = 0.250", "WAIT_S = 3600.0")
    with driver_for(tmp_path, program=program) as driver:
        order = driver.run(code).order
    text = b"".join(data for _, data in order).decode().split()
    assert text == [str(s * i) for i in range(50) for s in (1, -1)]


def test_order_wait_is_bounded_when_nobody_reads(driver: Driver) -> None:
    driver.send("import sys\nfor i in range(500):\n    print(i)\n    print(i, file=sys.stderr)")
    assert select.select([driver.socket], [], [], lib.PATIENCE)[0]  # it has ended
    answer = driver.collect()
    assert answer.status == "ok" and answer.out.count("\n") == 500


def test_stdout_has_the_usual_parts(driver: Driver) -> None:
    code = (
        "import sys\n"
        "s = sys.stdout\n"
        "(s.fileno(), s.encoding, s.buffer.raw.fileno(), s.isatty(), s.writable(), s.mode,\n"
        " s.reconfigure(line_buffering=True), s.name, s is sys.__stdout__)"
    )
    assert driver.run(code).value == (
        "(1, 'utf-8', 1, False, True, 'w', None, '<stdout>', True)"
    )


def test_large_writes_are_whole(driver: Driver) -> None:
    answer = driver.run("print('x' * 3000000)\nimport sys\nsys.stderr.write('y' * 300000);")
    assert (len(answer.out), len(answer.err)) == (3000001, 300000)
    answer = driver.run("import array; sys.stdout.buffer.write(array.array('i', [0] * 100000))")
    assert (answer.value, len(answer.out)) == ("400000", 400000)


def test_surrogates_can_be_printed(driver: Driver) -> None:
    driver.send("import os, sys; print(os.fsdecode(b'\\xff'), '\\u20ac')")
    raw = b""
    while b"\n" not in raw:
        ready, _, _ = select.select(list(driver.pipes), [], [], lib.PATIENCE)
        raw += os.read(ready[0], 1000)
    assert raw == b"\xff \xe2\x82\xac\n"
    assert driver.collect().status == "ok"


def test_standard_input(driver: Driver) -> None:
    answer = driver.run("a = input('? ')\nb = input()\na, b", stdin="eins\nzwei ü\n".encode())
    assert answer.value == "('eins', 'zwei ü')" and answer.out == "? "
    assert driver.run("input()").error["type"] == "EOFError"
    raw = bytes(range(256)) * 4000
    code = "import sys, hashlib; d = sys.stdin.buffer.read(); len(d), d[:3]"
    assert driver.run(code, stdin=raw).value == "(1024000, b'\\x00\\x01\\x02')"
    assert driver.run("import os; os.system('cat')", stdin=b"to a child").out == "to a child"
    assert driver.run("sys.stdin.read()").value == "''"
    assert driver.run("sys.stdin.read()", stdin=b"").value == "''"


def test_thread_output_and_background_threads(driver: Driver) -> None:
    code = (
        "import threading, time\n"
        "def f():\n    while True:\n        time.sleep(0.01); n.append(1)\n"
        "n = []\nthreading.Thread(target=f, daemon=True).start()\n"
        "t = threading.Thread(target=print, args=('hi',)); t.start(); t.join()"
    )
    assert driver.run(code).out == "hi\n"
    assert lib.wait_for(lambda: driver.run("len(n) > 0").value == "True")


# --- processes ------------------------------------------------------------------------


def test_multiprocessing_with_functions_of_cells(driver: Driver) -> None:
    driver.run("import multiprocessing as mp\ndef sq(x): return x * x")
    code = "with mp.get_context('fork').Pool(2) as p:\n    r = p.map(sq, range(5))\nr"
    assert driver.run(code).value == "[0, 1, 4, 9, 16]"
    code = (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "with ProcessPoolExecutor(2) as p: r = list(p.map(sq, range(3)))\nr"
    )
    assert driver.run(code).value == "[0, 1, 4]"
    code = "p = mp.Process(target=print, args=('child',)); p.start(); p.join(); p.exitcode"
    answer = driver.run(code)
    assert (answer.out, answer.value) == ("child\n", "0")


@pytest.mark.parametrize(
    "tail, code, err",
    [
        ("pass", 0, ""),
        ("1/0", 1, "ZeroDivisionError"),
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('why')", 1, "why"),
        ("1", 0, ""),
    ],
)
def test_forked_child_never_continues_the_loop(driver: Driver, tail: str, code: int, err: str) -> None:
    cell = (
        "import os\npid = os.fork()\n"
        "if pid == 0:\n    print('child', end='')\n    {}\n"
        "else:\n    status = os.waitpid(pid, 0)[1] >> 8\n    print(status)"
    ).format(tail)
    answer = driver.run(cell)
    assert answer.status == "ok"
    assert answer.out == "child{}\n".format(code)
    assert err in answer.err and "driver.py" not in answer.err
    assert driver.run("status").value == str(code)


def test_child_that_outlives_the_cell_has_no_stream(driver: Driver) -> None:
    code = (
        "import os, time\nif os.fork() == 0:\n"
        "    while not os.path.exists('go'): time.sleep(0.01)\n    display('x')\n"
        "    n = len([f for f in os.listdir('/proc/self/fd')])\n"
        "    open('fds', 'w').write(str(n))\n    os._exit(0)"
    )
    driver.run(code)
    (pathlib.Path(driver.cwd) / "go").touch()
    fds = pathlib.Path(driver.cwd) / "fds"
    assert lib.wait_for(lambda: fds.exists() and fds.read_text())
    assert driver.run("open('fds').read()").value == "'4'"  # 0, 1, 2 and the listing itself


# --- display --------------------------------------------------------------------------


def test_plain_values_have_no_display(driver: Driver) -> None:
    assert driver.run("[1, 2]").displays == []
    assert driver.run("class A: pass\nA").displays == []
    assert driver.run("from unittest.mock import Mock; Mock()").displays == []


def test_rich_representations(driver: Driver) -> None:
    code = (
        "class A:\n"
        "    def __repr__(self): return 'A!'\n"
        "    def _repr_html_(self): return '<b>ä</b>'\n"
        "    def _repr_png_(self): return b'PNG'\n"
        "    def _repr_jpeg_(self): return None\n"
        "    def _repr_svg_(self): raise ValueError\n"
        "    def _repr_json_(self): return {'a': [1]}\n"
        "    def _repr_markdown_(self): return '*a*', {'meta': 1}\n"
        "A()"
    )
    answer = driver.run(code)
    assert answer.value == "A!"
    assert answer.displays == [
        {
            "text/plain": b"A!",
            "text/html": "<b>ä</b>".encode(),
            "text/markdown": b"*a*",
            "image/png": b"PNG",
            "application/json": b'{"a": [1]}',
        }
    ]
    twice = driver.run("display(A(), 5)\nNone")
    assert [sorted(one)[-1] for one in twice.displays] == ["text/plain"] * 2
    assert twice.displays[1] == {"text/plain": b"5"}


def test_mimebundle(driver: Driver) -> None:
    png = base64.b64encode(b"\x89PNG").decode()
    code = (
        "class A:\n"
        "    def _repr_mimebundle_(self, include=None, exclude=None):\n"
        "        return {{'image/png': {!r}, 'text/x': 'y', 5: 'no', 'bad': 'no'}}, {{}}\n"
        "display(A())"
    ).format(png)
    (shown,) = driver.run(code).displays
    shown.pop("text/plain")
    assert shown == {"image/png": b"\x89PNG", "text/x": b"y"}


def test_display_limits(driver: Driver) -> None:
    answer = driver.run("for i in range(100): display(i)")
    assert len(answer.displays) == 64 and "64" in answer.err
    code = (
        "class Big:\n    def __repr__(self): return 'big'\n"
        "    def _repr_html_(self): return 'x' * (9 << 20)\nBig()"
    )
    (shown,) = driver.run(code).displays
    assert list(shown) == ["text/plain"] and shown["text/plain"].startswith(b"big")


def test_display_from_a_thread_after_the_cell_is_dropped(driver: Driver, tmp_path: pathlib.Path) -> None:
    code = (
        "import os, threading, time\ndef f():\n    while not os.path.exists('go'): time.sleep(0.01)\n"
        "    display(1); open('shown', 'w').close()\n"
        "threading.Thread(target=f).start()"
    )
    driver.run(code)
    (tmp_path / "go").touch()
    assert lib.wait_for((tmp_path / "shown").exists)
    assert driver.run("5").displays == []


@needs("pandas")
def test_data_template(tmp_path: pathlib.Path) -> None:
    with driver_for(tmp_path, "data") as driver:
        answer = driver.run("import pandas as pd; pd.DataFrame({'a': [1, 2]})")
        assert b"<table" in answer.displays[0]["text/html"]
        assert answer.displays[0]["text/plain"].decode() == answer.value


@needs("matplotlib")
def test_plot_template(tmp_path: pathlib.Path) -> None:
    with driver_for(tmp_path, "plot") as driver:
        code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('x');"
        answer = driver.run(code)
        assert answer.displays[0]["image/png"].startswith(b"\x89PNG")
        assert answer.displays[0]["text/plain"].startswith(b"<Figure")
        assert driver.run("plt.get_fignums()").value == "[]"
        code = "plt.plot([1]); plt.show(); plt.figure(); plt.figure(); plt.show()"
        assert len(driver.run(code).displays) == 3
        answer = driver.run("fig, ax = plt.subplots(); display(fig); 1/0")
        assert (len(answer.displays), answer.status) == (1, "error")
        assert driver.run("import os; os.environ['MPLBACKEND']").value == "'Agg'"


@needs("matplotlib")
def test_figures_when_matplotlib_comes_late(tmp_path: pathlib.Path) -> None:
    with driver_for(tmp_path, "base") as driver:
        code = (
            "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\n"
            "print(plt.get_fignums())"
        )
        answer = driver.run(code)
        assert (answer.status, answer.err, answer.out) == ("ok", "", "[]\n")
        assert len(answer.displays) == 1


# --- denials --------------------------------------------------------------------------


def test_denial_of_a_connection(driver: Driver) -> None:
    code = (
        "import socket\ns = socket.socket(); s.settimeout(0.01)\n"
        "for i in range(3):\n"
        "    try: s.connect(('192.0.2.1', 80))\n    except OSError: pass"
    )
    (denial,) = driver.run(code).denials
    assert (denial["control"], denial["operation"]) == ("network", "connect")
    assert denial["object"] == "192.0.2.1:80" and denial["rule"] == "no network"


def test_loopback_and_unix_sockets_are_not_denials(driver: Driver) -> None:
    code = (
        "import socket\n"
        "for a in ('127.0.0.1', 'localhost'):\n"
        "    try: socket.create_connection((a, 1))\n    except OSError: pass\n"
        "try: socket.socket(socket.AF_UNIX).connect('/nowhere')\n"
        "except OSError: pass"
    )
    assert driver.run(code).denials == []


@pytest.mark.parametrize(
    "code, control, rule",
    [
        ("raise MemoryError", "resources", "memory"),
        ("raise OSError(30, 'ro', '/usr/x')", "filesystem", "read-only"),
        ("open('/proc/1/environ_nope', 'w')", None, None),
        ("raise OSError(13, 'no', '/etc/shadow')", "filesystem", "no permission"),
        ("raise OSError(1, 'no')", "syscalls", "not permitted"),
        ("raise OSError(101, 'unreachable')", "network", "no network"),
        ("raise OSError(28, 'full', '/tmp/x')", "resources", "disk space"),
        ("raise OSError(28, 'full')", "resources", "disk space"),
        ("raise OSError(24, 'many')", "resources", "open files"),
        ("raise RuntimeError(\"can't start new thread\")", "resources", "processes"),
        ("raise OSError(11, 'again')", None, None),
        ("try:\n    raise OSError(30, 'ro')\nexcept OSError as e: raise ValueError from e",
         "filesystem", "read-only"),
    ],
)
def test_denial_behind_an_error(driver: Driver, code: str, control: str | None, rule: str | None) -> None:
    answer = driver.run(code)
    if control is None:
        assert answer.denials == []
    else:
        (denial,) = answer.denials
        assert (denial["control"], denial["rule"]) == (control, rule)
        assert answer.error["cause"] == rule


@pytest.mark.parametrize("code, cause, path", [
    ("open('no-such/x.csv')", "no such file", "no-such/x.csv"),
    ("import os; os.listdir(b'/home/u')", "no such file", "/home/u"),
    ("import subprocess; subprocess.run(['no-such-program'])", "no such program", "no-such-program"),
    ("open(99)", None, None),
    ("ls -la", "shell line", None),
    ("cd /tmp", "shell line", None),
    ("export A=1", "shell line", None),
    ("pwd", "shell line", None),
    ("1\nls /usr", "shell line", None),
    ("git status" if os.path.exists("/usr/bin/git") else "cat x y", "shell line", None),
    ("ls - 1", None, None),
    ("print 'x'", None, None),
    ("import os x", None, None),
    ("no_such_program -la", None, None),
])
def test_cause_of_what_is_not_there(driver: Driver, code: str, cause: str | None, path: str | None) -> None:
    error = driver.run(code).error
    assert (error["cause"], error["path"]) == (cause, path)


def test_denials_are_limited(driver: Driver) -> None:
    code = (
        "import socket\ns = socket.socket(); s.setblocking(False)\n"
        "for i in range(60):\n"
        "    try: s.connect(('192.0.2.%d' % i, 80))\n    except OSError: pass"
    )
    assert len(driver.run(code).denials) == 20


def test_memory_error_keeps_the_session(driver: Driver) -> None:
    driver.run("import resource\nresource.setrlimit(resource.RLIMIT_AS, (400 << 20,) * 2)")
    answer = driver.run("b = []\nwhile True: b.append(bytearray(100000))")
    assert answer.error["type"] == "MemoryError"
    assert [one["rule"] for one in answer.denials] in (["memory"], [])
    assert driver.run("del b\n1").value == "1"
    (denial,) = driver.run("'a' * (1 << 30)").denials
    assert denial["rule"] == "memory"


# --- hostile cells --------------------------------------------------------------------


HOSTILE = [
    "import os; os.close(0)",
    "import os; os.close(1)",
    "import os; os.close(2)",
    "import os; [os.close(i) for i in range(3)]",
    "import os; os.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
    "import sys; sys.stdout = None",
    "import sys; sys.stdout = sys.stderr = sys.stdin = None",
    "import sys; del sys.stdout, sys.stderr",
    "import sys; sys.stdout.close(); sys.stderr.close(); sys.stdin.close()",
    "import sys; sys.stdout.detach()",
    "import sys; sys.stdout = 5",
    "class B:\n    @property\n    def closed(self): raise SystemError\n"
    "import sys; sys.stdout = B()",
    "class W:\n    def write(self, t): pass\n    def flush(self): raise BaseException('f')\n"
    "import sys; sys.stdout = W()",
    "raise BaseException('x')",
    "class E(BaseException): pass\nraise E",
    "raise GeneratorExit",
    "del __builtins__",
    "__builtins__ = None",
    "__builtins__ = {}",
    "import sys; sys.setrecursionlimit(50)",
    "import sys\ndef f(n):\n    try: sys.setrecursionlimit(n)\n"
    "    except RecursionError: f(n + 1)\nf(10)",
    "class A:\n    def __repr__(self): raise SystemExit(3)\nA()",
    "class A:\n    def __repr__(self): raise KeyboardInterrupt\nresult = A()",
    "class A:\n    def __repr__(self): return 5\nA()",
    "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E",
    "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
    "class E(SystemExit):\n    @property\n    def code(self): raise ValueError\nraise E",
    "class M(type):\n    @property\n    def __name__(cls): return 5\n"
    "class E(Exception, metaclass=M): pass\nraise E",
    "import json, builtins\njson.dumps = json.loads = None\nbuiltins.print = None",
    "import json\njson.JSONEncoder.encode = json.JSONDecoder.decode = None\n"
    "json.encoder.encode_basestring = json.decoder.WHITESPACE = None",
    "import builtins\nfor n in ('len', 'repr', 'type', 'isinstance', 'getattr', 'str',"
    " 'compile', 'eval', 'int', 'list', 'BaseException'):\n    delattr(builtins, n)",
    "import os, struct, socket\nos.read = os.write = os.getpid = struct.Struct = None\n"
    "socket.socket = None",
    "import traceback, linecache\ntraceback.TracebackException = linecache.getline = None\n1/0",
    "import traceback\ntraceback.TracebackException.format = None\n1/0",
    "import sys; del sys.modules['__main__']",
    "import sys; sys.modules.clear()",
    "import ast; ast.PyCF_ONLY_AST = ast.Expr = ast.Expression = None",
    "import gc; gc.disable(); del gc",
    "import sys; sys.settrace(lambda *a: 1/0)",
    "import sys; sys.setprofile(lambda *a: 1/0)",
    "globals().clear()",
    "import asyncio; asyncio.get_event_loop_policy = None; asyncio.new_event_loop = None",
    "import threading; threading.Lock = None; threading.excepthook = None",
    "raise type('X' * 10**6, (Exception,), {})('\\ud800' * 10**6)",
    "result = type('R', (), {'__repr__': lambda s: 'r' * 10**7})()",
    "import sys; sys.meta_path.clear(); sys.path.clear(); sys.path_importer_cache.clear()",
    "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
    "import os; os.environ.clear(); os.chdir('/')",
    "import warnings; warnings.simplefilter('error')\n'x' is 'y'",
    "import sys, builtins; builtins.__import__ = None",
    "import os; os.rmdir(os.getcwd()) if not os.listdir('.') else None",
]


@pytest.mark.parametrize("code", HOSTILE)
def test_hostile_cell_leaves_the_next_one_working(driver: Driver, code: str) -> None:
    if "setrecursionlimit(n)" in code and driver.ready["python"].startswith("3.8."):
        pytest.skip("CPython 3.8 aborts: Cannot recover from stack overflow")
    driver.run(code)
    driver.run("import signal\n")  # the second cell may meet what is left of the first
    answer = driver.run("6 * 7")
    assert answer.value == "42", answer.done
    assert driver.run("raise ValueError('plain')").status == "error"
    if "builtins.print" not in code and "W()" not in code and "settrace" not in code:
        assert driver.run("print('still here')").out == "still here\n"


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.closerange(3, 256)",
        "import os; os.closerange(0, 256)",
        "import os; os._exit(3)",
        "import os; os.kill(os.getpid(), 9)",
        "import ctypes; ctypes.string_at(0)",
        "import os\nfor i in range(3, 256):\n    try: os.dup2(1, i)\n    except OSError: pass",
    ],
)
def test_process_ends_cleanly_when_the_stream_is_gone(driver: Driver, code: str) -> None:
    with pytest.raises((EOFError, ConnectionError)):
        driver.run(code)
    driver.process.wait(lib.PATIENCE)


def test_end_of_stream_ends_the_process(driver: Driver) -> None:
    driver.run("import threading, time")
    driver.run("threading.Thread(target=time.sleep, args=(3600,)).start()")
    driver.socket.shutdown(socket.SHUT_WR)
    assert driver.process.wait(lib.PATIENCE) == 0


@pytest.mark.parametrize(
    "frame",
    [
        HEADER.pack(0, 1, 0, 17),
        HEADER.pack((16 << 20) + 1, 1, 0, CELL),
        HEADER.pack(2, 1, 4, CELL) + b"{}",
        HEADER.pack(2, 1, 2, CELL) + b"{}",
        HEADER.pack(2, 1, 2, CELL) + b"{]",
        HEADER.pack(2, 1, 2, CELL) + b"[]",
        HEADER.pack(0, 1, 0, CELL),
    ],
)
def test_a_wrong_frame_ends_the_process(driver: Driver, frame: bytes) -> None:
    driver.socket.sendall(frame)
    assert driver.process.wait(lib.PATIENCE) == 70


def test_frames_in_pieces_and_in_a_row(driver: Driver) -> None:
    code = b"x = 1\nx"
    head = json.dumps({"cell": 1, "code_len": len(code), "stdin": False}).encode()
    frame = HEADER.pack(len(head) + len(code), 1, len(head), CELL) + head + code
    driver.cells = 1
    for i in range(len(frame)):
        driver.socket.sendall(frame[i : i + 1])
        time.sleep(0.0005)  # so that they mostly come one by one
    assert driver.collect().value == "1"
    driver.send("2")
    driver.collect()
    big = "y = '" + "a" * 3000000 + "'; len(y)"
    assert driver.run(big).value == "3000000"


def copy_of_the_driver(folder: Path, replace: str = "", by: str = "") -> Path:
    """driver.py in this folder, with its modules."""
    for module in DRIVER.parent.glob("*.py"):
        (folder / module.name).write_text(module.read_text().replace(replace, by, 1) if replace else module.read_text())
    return folder / "driver.py"


def test_preload_error_names_the_module(tmp_path: pathlib.Path) -> None:
    copy = copy_of_the_driver(tmp_path, '["numpy", "pandas"]', '["no_such_thing", "pandas"]')
    done = subprocess.run(
        [PYTHON, "-I", str(copy), "--template", "data", "--fd", "9"], stderr=subprocess.PIPE
    )
    assert done.returncode == 3
    assert "no_such_thing" in json.loads(done.stderr)["error"]


def test_template_with_a_thread_is_refused(tmp_path: pathlib.Path) -> None:
    copy = copy_of_the_driver(
        tmp_path,
        "    use_fork()\n",
        "    use_fork()\n    import threading, time\n"
        "    threading.Thread(name='stray', target=time.sleep, args=(3600,), daemon=True).start()\n",
    )
    done = subprocess.run([PYTHON, "-I", str(copy), "--fd", "9"], stderr=subprocess.PIPE)
    assert done.returncode == 3
    assert "stray" in json.loads(done.stderr)["error"]


def test_zygote_without_its_extension_says_so(tmp_path: pathlib.Path) -> None:
    copy = copy_of_the_driver(tmp_path)
    done = subprocess.run([PYTHON, "-I", str(copy), "--zygote", "9"], stderr=subprocess.PIPE)
    assert done.returncode == 3
    assert "_snp" in json.loads(done.stderr)["error"]


GATHERING = """
import gc, os, sys
sys.path.insert(0, sys.argv[1])
import _snp
_snp.gather()
kept = [{i: str(i)} for i in range(40000)]
os.dup2(os.open("/dev/null", os.O_RDONLY), 4)  # no filter: it ends there
try:
    _snp.serve(3)
except OSError as error:
    print(error)
with open("/proc/self/smaps_rollup") as text:
    print(*[line.split()[1] for line in text if line.startswith("AnonHugePages")])
_snp.gather()
del kept[::2]
gc.collect()
more = [{i: str(i)} for i in range(60000)]
print(sum(int(text) for row in kept + more for text in row.values()))
def data():
    with open("/proc/self/statm") as text:
        return int(text.read().split()[5]) * os.sysconf("SC_PAGESIZE")
before = data()
numbers = list(range(3 * 10 ** 6))
taken = data() - before
del numbers
print(data() - before < taken / 4)
"""


def test_what_a_template_loads_lies_in_large_pages() -> None:
    """A fork of it copies one entry for hundreds; memory is taken and given back as ever."""
    with open("/sys/kernel/mm/transparent_hugepage/enabled") as text:
        if "[never]" in text.read():
            pytest.skip("this host has no large pages")
    done = subprocess.run([PYTHON, "-I", "-c", GATHERING, str(BUILD)], capture_output=True, text=True)
    words = done.stdout.split("\n")
    assert done.returncode == 0 and "filter" in words[0], done.stderr
    assert int(words[1]) >= 4096, "nothing was gathered"
    assert int(words[2]) == sum(range(1, 40000, 2)) + sum(range(60000))
    assert words[3] == "True", "the limit of memory still includes what was freed"


def test_zygote_with_a_stand_in_extension(tmp_path: pathlib.Path) -> None:
    """serve() returns the guest stream; SEED calls leave_copy(), START brings the environment."""
    copy_of_the_driver(tmp_path)
    (tmp_path / "_snp.py").write_text(
        "import os\ndef gather(): pass\ndef serve(fd): return fd\n"
        "def leave_copy(to, fd, closing):\n    os.fstat(fd)\n    os.write(2, b'planted')\n    return -1\n"
    )
    mine, theirs = socket.socketpair()
    args = [PYTHON, "-I", str(tmp_path / "driver.py"), "--zygote", str(theirs.fileno())]
    process = subprocess.Popen(
        args, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    theirs.close()
    code = b"import os, sys; sorted(os.environ.items()), '_snp' in sys.modules, sys.path[0]"
    head = json.dumps({"cell": 1, "code_len": len(code), "stdin": False}).encode()
    environment = b"A=1\0TZ=UTC\0B=x=y\0"
    mine.sendall(HEADER.pack(0, 0, 0, SEED) + HEADER.pack(0, 0, 0, WARM) + HEADER.pack(len(environment), 0, 0, START) +
                 environment)
    mine.sendall(HEADER.pack(len(head) + len(code), 1, len(head), CELL) + head + code)
    data = b""
    while b'"status"' not in data:
        chunk = mine.recv(65536)
        assert chunk
        data += chunk
    mine.close()
    _, errors = process.communicate(timeout=lib.PATIENCE)
    assert errors == b"planted"
    done = json.loads(data[data.rindex(b'{"status"') :])
    assert done["value"] == (
        "([('A', '1'), ('B', 'x=y'), ('MPLBACKEND', 'Agg'), ('TZ', 'UTC')], False, '')"
    )


def test_random_state_differs_between_interpreters(tmp_path: pathlib.Path) -> None:
    code = "import random, uuid; random.random(), uuid.uuid4().hex"
    values = set()
    for _ in range(2):
        with driver_for(tmp_path) as driver:
            values.add(driver.run(code).value)
    assert len(values) == 2


def test_a_copy_is_refused_where_none_can_be_made(tmp_path: pathlib.Path) -> None:
    """HOLD without a descriptor, as when the code has filled its table: a reason, and it goes on."""
    driver = Driver(tmp_path)
    try:
        driver.socket.sendall(HEADER.pack(2, 7, 2, HOLD) + b"{}")
        kind, ident, head, raw = driver.read_frame()
        assert (kind, ident, raw) == (HELD, 7, b"")
        assert head["ok"] is False and "descriptor" in head["why"] and head["written"] == []
        assert driver.run("1 + 1").value == "2"
    finally:
        driver.close()
