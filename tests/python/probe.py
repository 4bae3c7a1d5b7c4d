# SPDX-License-Identifier: Apache-2.0
"""probe.py NAME: a program with the Python package, for tests/integration/test_python.py: each function is one."""

import asyncio
import base64
import datetime
import fcntl
import gc
import os
import pickle
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import warnings
from importlib.util import find_spec
from inspect import signature
from pathlib import Path, PurePosixPath
from typing import Any, Callable, Dict, List, Tuple, Type, Union

from snipara_sandbox import (
    AsyncSandbox, CellFailed, Denied, Display, Ended, Function, InvalidArgument, Limit, LimitReached, NotFound, Output,
    Result, Sandbox, SandboxError, SandboxLost, SandboxTimeout, Snapshot, sandboxed)
from snipara_sandbox._library import Connection, connection

PATIENCE = float(os.environ.get("SNP_TEST_PATIENCE", "60"))  # as of tests/lib.py


def results() -> None:
    with Sandbox(memory=256 << 20, env={"CITY": "Oslo"}) as s:
        said: List[Output] = []
        r = s.run("import os, sys\nprint('out')\nsys.stderr.write('err')\nos.environ['CITY']", on_output=said.append)
        assert (r.ok, r.value, r.stdout, r.stderr, r.cell) == (True, "'Oslo'", "out\n", "err", 1)
        assert {(piece.stream, str(piece)) for piece in said} >= {("stderr", "err")}
        assert repr(r) == "out\nerr\n'Oslo'" and r.raise_for_error() is r
        assert r.usage.wall_us > 0
        limits = r.raw["manifest"]["controls"]["resources"]["limits"]
        assert limits["memory"]["value"] == 256 << 20
        r = s.run("class Page:\n  def _repr_html_(self): return '<script>alert(1)</script>'\n"
                  "display(Page())\nopen('a', 'w')")
        assert r.displays[0]["text/html"] == "<script>alert(1)</script>" and r.files.created == ["a"]
        html = r._repr_mimebundle_()["text/html"]
        assert "<script" not in html and 'sandbox=""' in html
        failed = s.run("x = 1\n1/0")
        assert failed.error is not None and (failed.error.type, failed.error.line) == ("ZeroDivisionError", 2)
        refuse(failed, "ZeroDivisionError: division by zero (line 2 of the cell)", "error")
        large = s.run("bytearray(1 << 40)")
        refuse(large, "MemoryError (line 1 of the cell) (limit: memory 256 MiB); pass a higher memory= to Sandbox()",
               "error")
        assert large.error is not None and str(large.error.hint).endswith("or raise the limit memory.")
        assert s.set_limits(memory="512m") == ["memory"]
        refuse(s.run("bytearray(1 << 40)"), "MemoryError (line 1 of the cell) (limit: memory 256 MiB); the new limit "
               "applies at the next wake: hibernate()", "error")
        missing = s.run("open('no.csv')").error
        assert missing is not None and "the option project" in str(missing.hint) and "--" not in str(missing.hint)
        module = s.run("import no_such_module").error
        assert module is not None and str(module.hint).endswith('; then open the session with template="NAME"'), module
        try:
            s.run(5)  # type: ignore[arg-type]
        except TypeError as e:
            assert "int" in str(e)
        else:
            raise AssertionError("a number was run as code")
        slow = s.run("while True: pass", timeout=0.2)
        assert slow.limit == Limit("timeout", 200, "0.2 s") and failed.limit is None
        refuse(slow, "the cell ended with status timeout (limit: timeout 0.2 s); pass a higher timeout= to run()",
               "timeout", SandboxTimeout)
        assert repr(slow).startswith("Traceback") and repr(slow).endswith(
            "KeyboardInterrupt\ntimeout (0.2 s): pass a higher timeout= to run()")
        denied = s.run("import socket\ntry: socket.create_connection(('192.0.2.1', 80))\nexcept OSError: 5")
        assert repr(denied).startswith("denied: network: connect 192.0.2.1:80, ") and "\nhint: " in repr(denied)
        assert [(row.control, row.operation, row.object) for row in denied.denials][:1] == [
            ("network", "connect", "192.0.2.1:80")] and 'template="NAME"' in str(denied.denials[0].hint)
        assert failed.output() == failed.stdout and failed.denials == []
        text = "".join("ä{}\n".format(i) for i in range(300000))  # more than one part of the stored output
        long = s.run("import sys\nprint(''.join('ä%d\\n' % i for i in range(300000)), end='')\nsys.stderr.write('e')")
        assert len(long.stdout) < len(text) and (long.output(), long.output("stderr")) == (text, "e")
        assert s.result(long.cell).output() == text
        figure = s.run("class F:\n  def __repr__(self): return 'F'\n  def _repr_png_(self): return b'x'\nf = F()\nf")
        figure.displays.append(Display({"text/plain": "G"}))  # as of a figure that is shown after the value
        assert repr(figure) == "F\nG" and "F</pre>" not in figure._repr_mimebundle_()["text/html"]
        assert repr(s.sh("cat; exit 3", input="in")) == "in\nexit status 3"
        s.run("x = {'a': [1, 2.5, None, True, 'ä']}")
        assert s.get("x") == {"a": [1, 2.5, None, True, "ä"]} and s.get("'y' * 300000") == "y" * 300000
        with s.stream("for i in range(3): print('ä' * i)\n7") as stream:
            pieces = list(stream)
            assert "".join(pieces) == "\nä\nää\n7" and stream.result.value == "7"
            assert [piece.stream for piece in pieces if piece.stream != "stdout"] == ["value"] and list(stream) == []
        for piece in s.stream("import time\nprint('first', flush=True)\ntime.sleep(60)"):
            break  # ends the cell
        del piece
        s.run("1")
        assert [cell.status for cell in s.history(3)] == ["ok", "interrupted", "ok"] and list(s.stream("1/0")) == []
        number = s.run("class R:\n    def _repr_html_(self): return '<b>x</b>'\nprint('out'); display(R())").cell
        s.run("1")
        again = s.result(number)
        assert (again.stdout, again.displays[0]["text/html"], again.status) == ("out\n", "<b>x</b>", "ok")
        assert [cell.displays for cell in s.history(2)] == [0, 1]
        try:
            raise AssertionError(s.result(999))
        except NotFound:
            pass
        name = s.name
    assert name not in [row["name"] for row in sessions()]


def refuse(result: Result, message: str, code: str, kind: Type[SandboxError] = CellFailed) -> None:
    try:
        result.raise_for_error()
    except CellFailed as error:
        assert (str(error).split("\n")[0], error.code) == (message, code), str(error)
        assert isinstance(error, kind) and isinstance(error, TimeoutError) == (kind is SandboxTimeout)
    else:
        raise AssertionError("no exception")


def sessions() -> List[Dict[str, Any]]:
    from snipara_sandbox._library import connection
    call = connection().request("sessions.list")
    call.wait()
    rows: List[Dict[str, Any]] = call.answer()["sessions"]
    call.free()
    return rows


def state() -> None:
    with Sandbox() as s:
        s.files.write("folder/", b"")
        s.files.write("folder/a.txt", "täxt", mode=0o600)
        assert s.files.read_text(PurePosixPath("folder", "a.txt")) == "täxt"
        for name in ("class", "a b", "a=1;b"):
            try:
                s.set(name, 1)
            except InvalidArgument as error:
                assert "not a valid variable name" in str(error)
            else:
                raise AssertionError(name)
        assert [(entry.name, entry.type, entry.size) for entry in s.files.list("folder")] == [("a.txt", "file", 5)]
        ways: List[Tuple[Type[SandboxError], Callable[[], object]]] = [
            (NotFound, lambda: s.files.read("none")), (LimitReached, lambda: s.files.read("folder/a.txt", most=1)),
            (InvalidArgument, lambda: Sandbox(memory="lots").run("1")),
            (InvalidArgument, lambda: Sandbox("-bad").run("1")), (NotFound, lambda: Sandbox("no").history())]
        for kind, way in ways:
            try:
                way()
            except kind as error:
                if kind is LimitReached:
                    assert (error.limit, error.limit_value, error.remedy_value) == ("most", 1, 5)
                    assert str(error).endswith("; pass most=5 to files.read()")
            else:
                raise AssertionError(kind)
        s.run("x = 1")
        kept = s.snapshot("kept")
        assert s.snapshots() == [kept]
        try:
            s.rollback("two")
        except NotFound as error:
            assert str(error).endswith("; the session has kept"), error
        else:
            raise AssertionError("no snapshot was found")
        snapshots: List[Union[str, Snapshot]] = ["kept", kept]
        for way_back in snapshots:
            s.run("x = 2")
            s.rollback(way_back)
            assert s.get("x") == 1
        a, b = s.fork(2)
        a.run("x = 3")
        assert (a.get("x"), b.get("x")) == (3, 1)
        s.hibernate()
        assert s.run("x").value == "1"
        a.destroy()
    del a, b
    with Sandbox("stays", memory="256m") as t:
        t.run("x = 4")
        assert t.set_limits(memory="1g", timeout=60) == ["memory"]
        assert t.run("x").value == "4"  # sends its limits again
        try:
            Sandbox("stays", memory="256m").run("x")
        except InvalidArgument as error:
            assert str(error).endswith("is 1 GiB, not 256 MiB; set_limits(memory=...) changes it"), error
        else:
            raise AssertionError("it has another limit")
    for closed in (s, t):
        uses: List[Callable[[], object]] = [
            lambda: closed.run("1"), lambda: closed.files.list(), closed.history, closed.snapshot, closed.__enter__,
            closed.interrupt, lambda: next(closed.stream("1"))]
        for use in uses:
            try:
                use()
            except InvalidArgument as error:
                assert str(error) == "this sandbox was closed; make another one"
            else:
                raise AssertionError("it makes a new session")
        closed.close()
    again = Sandbox("stays")
    assert again.get("x") == 4 and [row["name"] for row in Sandbox.list()] == ["stays"]
    again.destroy()
    Sandbox().run("1")  # and dropped


def functions() -> None:
    @sandboxed
    def add(a: int, b: int = 0) -> int:
        import math
        return math.floor(a) + b

    assert isinstance(add, Function) and add(1, b=2) == 3
    assert add.sandbox.history()[0].first_line == "def add(a: int, b: int = 0) -> int:"
    with Sandbox() as s:
        s.set("x", 1)
        s.run("class A:\n  def tolist(self): return self.no")
        assert [(cell.number, cell.first_line) for cell in s.history()] == [(2, "class A:")] and s.get("x") == 1
        header, own = "\n\nTraceback (most recent call last):\n", '  File "<cell {}>", line 1, in <module>\n'.format
        for expression, said in (
                ("1/0", "ZeroDivisionError: division by zero (line 1 of the cell)" + header + own(4) + "    1/0"),
                ("\n(1 +", "SyntaxError: "),
                ("{1}", "TypeError: JSON cannot represent builtins.set; convert it first\n\nTypeError"),
                ("A()", "AttributeError: 'A' object has no attribute 'no'" + header + '  File "<cell 2>", line 2')):
            try:
                s.get(expression)
            except CellFailed as error:
                assert str(error).startswith(said) and "_sent" not in str(error), str(error)
            else:
                raise AssertionError(expression)

    with Sandbox() as s:
        @sandboxed(sandbox=s, trust=True)
        def pair(a: int) -> object:
            return (a, {a})

        assert pair(1) == (1, {1})

        @sandboxed(sandbox=s)
        def fails() -> None:
            raise ValueError("no")

        try:
            fails()
        except CellFailed as error:
            assert str(error) == ("ValueError: no (line 2 of the cell)\n\nTraceback (most recent call last):\n"
                                  '  File "<cell 2>", line 2, in fails\n    raise ValueError("no")\nValueError: no')

        @sandboxed(sandbox=s)
        def outside() -> str:
            return os.getcwd()

        try:
            outside()
        except CellFailed as error:
            assert "; outside() sees nothing of this program: import or define os inside it\n" in str(error)
        else:
            raise AssertionError("no CellFailed")

    @sandboxed
    async def later(a: int) -> int:
        import asyncio
        await asyncio.sleep(0)
        return a + 1

    async def main() -> None:
        async with AsyncSandbox() as there:
            @sandboxed(sandbox=there)
            def twice(a: int) -> int:
                return 2 * a

            assert await asyncio.gather(twice(1), later(2)) == [2, 3]
        await later.sandbox.close()

    asyncio.run(main())


def values() -> None:
    """By value: JSON, and arrays and frames where both sides have the module."""
    has = find_spec("numpy") is not None
    with Sandbox(template="data") as s:
        s.run("import datetime, numpy as np, pandas as pd")
        s.set("given", {"a": [1, b"x", None], "d": datetime.date(2020, 1, 2)})
        assert s.run("given").value == "{'a': [1, b'x', None], 'd': datetime.date(2020, 1, 2)}"
        assert s.get("[b'x', datetime.date(2020, 1, 2), (1,)]") == [b"x", datetime.date(2020, 1, 2), [1]]
        columns = {"a": [1, 2], "b": ["x", None]}
        array, frame = s.get("np.arange(6.0).reshape(2, 3)"), s.get("pd.DataFrame({})".format(columns))
        most = "\\" * ((4 << 20) - 1)  # each is two bytes of the text, whose quotes are the last two
        s.set("most", most)
        assert s.get("most") == most
        try:
            s.set("more", most + "x")
        except LimitReached as error:
            assert "limit 8 MiB" in str(error) and "files.write()" in str(error)
        else:
            raise AssertionError("it is larger than what can be read")
        try:
            s.get("np.zeros(2000000)")
        except CellFailed as error:
            assert "limit 8 MiB" in str(error) and "files.read()" in str(error)
        if not has:
            assert (array, frame) == ([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], columns)
            return
        import numpy
        import pandas
        assert array.dtype == "f8" and array.shape == (2, 3) and array.sum() == 15
        assert list(frame.dtypes) == ["int64", "object"] and frame.equals(pandas.DataFrame(columns))
        for made in ("np.zeros((0, 2), 'i2')", "np.array(['ä', 'bb'])", "np.datetime64('2020-01-02')", "np.int64(3)"):
            expected = eval(made, {"np": numpy})
            found = s.get(made)
            assert numpy.array_equal(found, expected) and getattr(found, "shape", ()) == expected.shape, made
        s.set("frame", frame)
        assert s.run("frame.equals(pd.DataFrame({}))".format(columns)).value == "True"
        table = "pd.DataFrame({'k': [1, 1], 'l': 'x', 't': pd.date_range('2020', periods=2)}).set_index(['k', 'l'])"
        assert s.get(table).equals(eval(table, {"pd": pandas}))

        @sandboxed(sandbox=s)
        def mean(array: "numpy.ndarray[Any, Any]", frame: Union[
                "pandas.DataFrame", Any], *rest: List[int]) -> Union[str, Any]:  # types that the sandbox does not know
            def ärger(a: List[str]) -> int: return len(a)
            return {"mean": array.mean(), "twice": frame * 2}

        found = mean(numpy.arange(3), frame=pandas.DataFrame({"a": [1]}))
        assert found["mean"] == 1.0 and list(found["twice"]["a"]) == [2]
        assert s.run("[name for name in dir() if name.startswith('_') and not name.endswith('_')]").value == "[]"


def says(kind: Type[SandboxError], words: str, way: Callable[[], object]) -> None:
    try:
        way()
    except kind as error:
        assert words in str(error) and "--" not in str(error), str(error)
    else:
        raise AssertionError(words)


def commands() -> None:
    """What the command line does with a session and its project."""
    os.makedirs("project/.git")
    with open("project/a.txt", "w") as file:
        file.write("one\n")
    with Sandbox(project="project") as s:
        s.run("x = 1")
        before = s.snapshot("before")
        s.run("x = 'y'; open('a.txt', 'w').write('two\\n'); open('.envrc', 'w').write('z')")
        for found in (s.diff("before"), s.diff(before, s)):
            assert found["variables"] == [{"name": "x", "change": "changed", "type_a": "int", "type_b": "str"}]
            assert [row["path"] for row in found["files"]] == [".envrc", "a.txt"]
        says(NotFound, "no snapshot", lambda: s.diff("none"))
        assert s.diff()["files"][1]["unified"] == "@@ -1 +1 @@\n-one\n+two\n"
        exported = s.export("-", snapshot=before)  # a file of that name
        assert os.path.getsize("-") == exported["bytes"] and exported["lost"] == []
        says(Denied, "exists; force=True replaces it", lambda: s.export("-"))
        s.export("-", force=True)
        says(Denied, "allow each with allow=[PATH] (the first is '.envrc')", s.apply)
        says(Denied, "run `snipara-sandbox verify`, or use unverified=True if you reviewed it",
             lambda: s.apply("a.txt"))
        assert s.apply("a.txt", unverified=True)["applied"] == ["a.txt"]
        assert s.apply(unverified=True, allow=".envrc")["applied"] == [".envrc"] and s.apply()["applied"] == []
        with open("project/a.txt") as file:
            assert file.read() == "two\n"
        with Sandbox() as other:
            other.run("x = 2")
            assert [row["name"] for row in s.diff(other)["variables"]] == ["x"]
            says(InvalidArgument, "has no project; make one with: Sandbox(project=DIR)", other.diff)
    says(NotFound, "none.snp: no such file", lambda: Sandbox.import_("none.snp"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = Sandbox.import_("-", name="imported", limits={"memory": "256m"})
    assert [str(each.message).partition(" ")[0] for each in told] == ["memory", "the"]  # limit, project
    limits = made.run("x").raw["manifest"]["controls"]["resources"]["limits"]
    assert (made.get("x"), limits["memory"]["value"], made.name) == ("y", 256 << 20, "imported")

    async def main() -> None:
        async with AsyncSandbox() as there:
            await there.run("x = 3")
            assert (await there.export("async.snp"))["cell"] == 1
            one = await AsyncSandbox.import_("async.snp", name="async")
            assert await one.get("x") == 3 and (await there.diff(one))["variables"] == []
            try:
                await there.apply()
            except InvalidArgument:
                await one.destroy()

    asyncio.run(main())
    made.destroy()


FORGE = """
import json
def forged(value, default):
    token, = [cell.cell_contents for cell in default.__closure__ if len(str(cell.cell_contents)) == 32]
    return PAYLOAD.replace("TOKEN", token)
json.dumps = forged
"""


def hostile() -> None:
    """What a sandbox writes in place of a value is never run, and an exception says what is wrong."""
    class Trap:
        def __reduce__(self) -> Tuple[Any, ...]:
            return os.mkdir, ("trapped",)

    data = base64.b64encode(pickle.dumps(Trap())).decode()
    arrays = ["'|O', [1]", "'O', [1]", "'<O8', [1]", "'i4,O', [1]", "[['a', '|O']], [1]", "'<f8', [1000000000000]",
              "'<f8', [-1]", "'<f8', ['x']", "'<f8', " + str([1] * 99), "'|V8', [1]", "'<f8', 7", "'<U1', [9]",
              "'<M8[pickle]', [1]"]
    forms = ['5', '[]', '["pickle", "DATA"]', '["bytes"]', '["date", "DATA"]', '["arrow", "DATA"]', '["Series", 5]',
             '["DataFrame", ["a"], [null], [1], [[1, 2]]]', '["Series", [[]], 5, {}, null]',
             '["array", "<U999999999", [0], ""]', '["array", "<U0", [1099511627776], ""]',
             '["array", "<i8", [1125899906842624, 0], ""]',
             *('["array", %s, "DATA"]' % each.replace("'", '"') for each in arrays)]
    payloads = [data, "not JSON", "[" * 100000, "9" * 5000 + "x",
                *('{"TOKEN": %s}' % each.replace("DATA", data) for each in forms)]
    with Sandbox() as s:
        s.run(FORGE)
        for payload in payloads:
            s.run("PAYLOAD = {!r}".format(payload))
            try:
                found = s.get("1")
            except SandboxError as error:
                assert "is not a value" in str(error) and not isinstance(error, CellFailed), str(error)
            else:
                raise AssertionError((payload, found))
        s.run("json.dumps = lambda *_, **__: display({'no': 1})\n__import__('builtins').display = print")
        try:
            s.get("1")
        except SandboxError:
            pass
        else:
            raise AssertionError("no exception")
    assert not os.path.exists("trapped")
    pickle.loads(base64.b64decode(data))  # the control run: read as a pickle, it is one
    os.rmdir("trapped")


def spread() -> None:
    """A value takes no more memory than its text can fill: an error names the limit before it is built."""
    import resource
    rows, names = "', '.join('0' * 150000)", "', '.join(['0'] * 400)"
    frame = "'[\"DataFrame\", [%s], [null], [%s], [%s]]' % "
    payloads = [
        ("limit: one for each row", frame + "({}, {}, ', '.join('1' * 400))".format(names, rows)),
        ("limit: one for each row", frame + "({}, {}, ', '.join(['{{\"0\": 1}}'] * 400))".format(names, rows)),
        ("limit: one for each row", "'[\"Series\", [\"a\"], [null], [%s], [\"x\"]]' % " + rows),
        ("limit 65536", "'[\"DataFrame\", [], [null], [], [%s]]' % ', '.join(['[]'] * 200000)"),
        ("limit: all of one length", frame + "('0', ', '.join([str([0] * 3000)] + ['[0]'] * 150000), '1')"),
        ("limit 64", frame + "(str([0] * 20000), '0', '[0]')"),
        ("limit: all of one length", frame + "('[0, 0], [0]', '0', '[0], [0]')")]
    with Sandbox() as s:
        if find_spec("pandas") is None:
            return
        s.get("1")  # what the first one imports
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        s.run(FORGE)
        for limit, code in payloads:
            s.run("PAYLOAD = '{\"TOKEN\": ' + " + code + " + '}'").raise_for_error()
            try:
                found = s.get("1")
            except SandboxError as error:
                assert limit in str(error) and not isinstance(error, CellFailed), str(error)
            else:
                raise AssertionError((code, found.memory_usage(deep=True)))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 300 << 10, grown  # KiB
        wide = "(str(list(range(1 << 16)))[1:-1], '', ', '.join(['[]'] * (1 << 16)))"
        s.run("PAYLOAD = '{\"TOKEN\": ' + " + frame + wide + " + '}'").raise_for_error()
        began = time.process_time()
        assert s.get("1").shape == (0, 1 << 16) and time.process_time() - began < 1  # 2.4 with a Series for each


def threads() -> None:
    """Several threads, a callback that runs a cell, a forked child, and Ctrl-C."""
    with Sandbox() as s, Sandbox() as other:
        s.run("n = 0")
        workers = [threading.Thread(target=lambda: s.run("n += 1")) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert s.get("n") == 8
        inner: List[str] = []
        s.run("print('x', end='')", on_output=lambda piece: inner.append(str(other.run("5"))))
        assert inner == ["5"]
        try:
            s.run("print(1)\nwhile True: pass", on_output=lambda piece: [].pop())
        except IndexError:
            assert s.get("n") == 8
        child = os.fork()
        if child == 0:
            os._exit(0 if s.get("n") == 8 and s.run("m = 5").ok else 1)
        assert os.waitpid(child, 0)[1] == 0 and s.get("m") == 5
        child = os.fork()
        if child == 0:
            s.close()  # the parent's session, which stays
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0 and s.get("m") == 5
        here = threading.main_thread().ident
        assert here is not None

        timers: List[threading.Timer] = []

        def interrupt(piece: Output) -> None:  # from another thread, after this; there may be two pieces
            if not timers:
                timers.append(threading.Timer(0.1, signal.pthread_kill, (here, signal.SIGINT)))
                timers[0].start()

        try:
            s.run("print(1, flush=True)\nwhile True: pass", on_output=interrupt)
        except KeyboardInterrupt:
            assert s.get("n") == 8 and [cell.status for cell in s.history(1)] == ["interrupted"]
        else:
            raise AssertionError("no KeyboardInterrupt")


def signals() -> None:
    """Ctrl-C at any moment, also as a callback begins."""
    with Sandbox() as s:
        s.run("n = 0")
        for i in range(16):
            try:
                threading.Timer(0.01 + i / 1000, os.kill, (os.getpid(), signal.SIGINT)).start()
                endless = "while True: print('x' * 50)"
                s.run(endless) if i % 2 else s.stream(endless).result
            except KeyboardInterrupt:
                continue
            raise AssertionError("no KeyboardInterrupt")
        assert s.get("n") == 0
        begin = Connection.run

        def interrupted(*args: Any, **kwargs: Any) -> Any:  # before anybody has the call
            call = begin(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGINT)
            return call

        setattr(Connection, "run", interrupted)
        try:
            s.run("while True: pass")
        except KeyboardInterrupt:
            setattr(Connection, "run", begin)
        assert s.get("n") == 0 and s.history(1)[0].status != "timeout"  # it ended, or never began


def collect() -> None:
    gc.collect()  # the loop
    gc.collect()  # what it had


def loop() -> None:
    async def one(number: int) -> Union[str, None]:
        async with AsyncSandbox() as s:
            return (await s.run("{} * 2".format(number))).value

    async def one_endless() -> None:
        async with AsyncSandbox() as s:
            await s.run("while True: pass")

    async def forever(name: str) -> None:
        s = AsyncSandbox(name)
        await s.run("1")
        await asyncio.wait_for(s.run("while True: pass"), 0.3)

    async def main() -> None:
        assert await asyncio.gather(*(one(i) for i in range(50))) == [str(2 * i) for i in range(50)]
        async with Sandbox() as s:
            pieces = [piece async for piece in s.stream("print('a')\n5")]
            assert "".join(pieces) == "a\n5" and {piece.stream for piece in pieces[:-1]} == {"stdout"}
            assert pieces[-1].stream == "value"
            await s.set("y", 5)
            assert await s.get("y") == 5 and len(await AsyncSandbox.list()) >= 1
            await s.files.write("f", b"data")
            assert await s.files.read("f") == b"data"
            assert len(await (await s.run("print('x' * 300000)")).output()) == 300001
            answers = await asyncio.gather(*(s.run(str(i)) for i in range(50)))
            assert [answer.value for answer in answers] == [str(i) for i in range(50)]
            await s.run("x = 1")
            begun = asyncio.Event()
            endless = asyncio.ensure_future(s.run("print(1, flush=True)\nwhile True: pass", timeout=600,
                                                  on_output=lambda piece: begun.set()))
            await begun.wait()
            endless.cancel()
            assert isinstance((await asyncio.gather(endless, return_exceptions=True))[0], asyncio.CancelledError)
            assert (await s.get("x"), (await s.history(1))[0].status) == (1, "interrupted")
            cells = [asyncio.ensure_future(one_endless()) for _ in range(30)]
            await asyncio.sleep(0.3)
            for cell in cells:
                cell.cancel()
            assert all(isinstance(end, asyncio.CancelledError)
                       for end in await asyncio.gather(*cells, return_exceptions=True))
            a, b = await s.fork(2)
            assert await asyncio.gather(a.get("x"), b.get("x")) == [1, 1]
            await a.close()
            await b.close()
            forking = asyncio.ensure_future(s.fork(2))
            await asyncio.sleep(0)
            forking.cancel()  # nobody gets these, so they go
            c, = await s.fork()
            while [row["name"] for row in Sandbox.list() if row["name"].startswith(c.name[:-1])] != [c.name]:
                await asyncio.sleep(0.05)
            await c.close()
            with Sandbox() as blocking:  # as in Jupyter: it waits in a running loop, too
                assert blocking.run("6 * 7").value == "42"
        assert threading.active_count() == 1

    for _ in range(2):
        asyncio.run(main())
    collect()
    n_open = len(os.listdir("/proc/self/fd"))
    try:
        asyncio.run(forever("endless"))
    except asyncio.TimeoutError:
        pass
    collect()
    assert len(os.listdir("/proc/self/fd")) == n_open
    Sandbox("endless").destroy()


def processes() -> None:
    with Sandbox() as s:
        assert s.processes() == []
        process = s.start("read x; echo got $x; cat; echo ä >&2; exit 3", open_input=True)
        assert process.wait(0) is None and process.read() == []
        process.write("one\n")
        assert (s.run("6 * 7").value, process.read(PATIENCE)) == ("42", ["got one\n"])
        process.write(b"x" * 90000, close=True)
        pieces = list(process)
        assert len("".join(piece for piece in pieces if piece.stream == "stdout")) == 90000
        assert [piece for piece in pieces if piece.stream == "stderr"] == ["ä\n"] and list(process) == []
        assert process.wait() == Ended(3, None) and not process.signal()
        says(NotFound, "process 1 has ended", lambda: process.write("late"))
        sleeper = s.start(["sleep", "1000"])
        says(InvalidArgument, "was started without an open standard input", sleeper.close)
        says(InvalidArgument, "there is no signal 'NOSUCH'", lambda: sleeper.signal("NOSUCH"))
        assert [(one.number, one.argv) for one in s.processes()][1:] == [(sleeper.number, ["sleep", "1000"])]
        again = s.processes()[1]
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            again.wait()
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("the process ended")
        assert again.signal("SIGINT") and sleeper.wait() == Ended(None, "SIGINT")

    async def main() -> None:
        async with AsyncSandbox() as s:
            process = await s.start("cat", open_input=True)
            await process.write("a\n")
            assert await process.read(PATIENCE) == ["a\n"]
            waiting = asyncio.ensure_future(process.wait())
            await process.close()
            assert (await waiting, [piece async for piece in process]) == (Ended(0, None), [])
            other, = [one for one in await s.processes() if one.number == process.number]
            assert [piece async for piece in other] == ["a\n"] and not await other.signal(9)
    asyncio.run(main())


def adapters() -> None:
    """Tools of other libraries, against their signatures."""
    import recorded
    assert not {name for name in sys.modules if name.startswith("snipara_sandbox.adapters")}
    recorded.install()
    from snipara_sandbox.adapters import langchain, openai_agents
    from snipara_sandbox.adapters.inspect_ai import SniparaEnvironment
    from snipara_sandbox.adapters.smolagents import SandboxExecutor
    for ours, theirs in ((SniparaEnvironment, recorded.SandboxEnvironment), (SandboxExecutor, recorded.PythonExecutor)):
        for name in theirs.__abstractmethods__:
            assert list(signature(getattr(ours, name)).parameters) == list(signature(getattr(theirs, name)).parameters)
    with Sandbox() as s:
        tool = langchain.python_tool(s)
        text, result = tool.func(code="x = 6\nprint('a')\nx * 7")
        assert (text, result.value, tool.coroutine, tool.response_format) == (
            "a\n42", "42", None, "content_and_artifact")
        text, _ = tool.func("print('y' * 50000)")
        assert len(text) < 21000 and "[left out 30000 characters]" in text
        executor = SandboxExecutor(s)
        executor.send_variables({"given": {"a": [1, b"x"]}})
        executor.send_tools({"more": None, "final_answer": None})
        output = executor("print('said')\nmore(given['a'][0])")
        assert (output.output, output.logs, output.is_final_answer) == ("2", "said", False)
        output = executor("try:\n  final_answer(answer=given)\nexcept Exception: pass")
        assert (output.output, output.is_final_answer) == ({"a": [1, b"x"]}, True)
        try:
            executor("1/0")
        except CellFailed as error:
            assert str(error).startswith("ZeroDivisionError")

    async def main() -> None:
        async with AsyncSandbox() as there:
            assert (await langchain.python_tool(there).coroutine(code="6 * 7"))[0] == "42"
            tool = openai_agents.python_tool(there)
            assert await tool.on_invoke_tool(None, '{"code": "1/0"}') != await tool.on_invoke_tool(None, '{"code": 5}')
            assert await tool.on_invoke_tool(None, '{"code": "6 * 7"}') == "42" and tool.strict_json_schema
        SniparaEnvironment.options = {"memory": "256m"}
        found = await SniparaEnvironment.sample_init("task", None, {})
        box = found["default"]
        await box.write_file("d/f.txt", "täxt")
        assert await box.read_file("/workspace/d/f.txt") == "täxt" and await box.read_file("d/f.txt", text=False)
        done = await box.exec(["sh", "-c", "cat; echo $A; pwd; exit 3"], input="in ", cwd="d", env={"A": "b c"})
        assert (done.success, done.returncode, done.stdout) == (False, 3, "in b c\n/workspace/d\n")
        ways: List[Tuple[Type[BaseException], Any]] = [
            (TimeoutError, box.exec(["sleep", "600"], timeout=1)), (PermissionError, box.exec(["/etc/passwd"])),
            (PermissionError, box.exec(["true"], user="root")), (FileNotFoundError, box.read_file("none")),
            (IsADirectoryError, box.read_file("d")), (IsADirectoryError, box.write_file("d", "")),
            (PermissionError, box.write_file("/etc/x", ""))]
        for kind, way in ways:
            try:
                await way
            except kind:
                continue
            raise AssertionError(kind)
        await SniparaEnvironment.sample_cleanup("task", None, found, True)

    asyncio.run(main())


class Notebook:
    """A Jupyter kernel, and what it shows."""

    def __init__(self) -> None:
        from jupyter_client.manager import start_new_kernel
        made: Any = start_new_kernel(startup_timeout=PATIENCE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.manager, self.client = made

    def run(self, code: str, interrupt_at: str = "") -> Tuple[str, Dict[str, str]]:
        """How the cell ended, and what was printed ("stream") and shown, by type."""
        shown: Dict[str, str] = {}

        def take(message: Dict[str, Any]) -> None:
            content = message["content"]
            parts = content.get("data", {"stream": content["text"]} if "text" in content else {})
            for kind, text in parts.items():
                shown[kind] = shown.get(kind, "") + text
                if interrupt_at and interrupt_at in text:
                    self.manager.interrupt_kernel()

        reply = self.client.execute_interactive(code, timeout=PATIENCE, output_hook=take,
                                                stop_on_error=False)["content"]
        return reply.get("ename", reply["status"]), shown

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def notebook() -> None:
    book = Notebook()
    try:
        book.run("from snipara_sandbox import AsyncSandbox, Sandbox\ns = Sandbox('book')\ns.run('x = 6')")
        assert book.run("s.run('x * 7')") == ("ok", {"text/plain": "42"})
        ended, shown = book.run("s.run('class T:\\n def _repr_html_(self): return \"<table><tr><td>1</table>\"\\nT()')")
        assert ended == "ok" and "&lt;table&gt;" in shown["text/html"] and 'sandbox=""' in shown["text/html"], shown
        ended, shown = book.run("s.run('class P:\\n def _repr_png_(self): return b\"PNG\"\\nP()')")
        assert '<img src="data:image/png;base64,UE5H">' in shown["text/html"], shown
        assert book.run("s.run('x * 7').displays") == ("ok", {"text/plain": "[]"})
        endless = "print(1, flush=True)\\nwhile True: pass"
        ended, shown = book.run("s.run('{}', on_output=lambda piece: print(piece, flush=True))".format(endless), "1")
        assert ended == "KeyboardInterrupt", ended
        ended, shown = book.run("for piece in s.stream('{}'): print(piece, flush=True)".format(endless), "1")
        assert ended == "KeyboardInterrupt", ended
        assert book.run("s.get('x'), [cell.status for cell in s.history(2)]") == (
            "ok", {"text/plain": "(6, ['interrupted', 'interrupted'])"})
        assert book.run("a = AsyncSandbox('book')\nawait a.run('x')") == ("ok", {"text/plain": "6"})
        ended, shown = book.run("async for piece in a.stream('{}'): print(piece, flush=True)".format(endless), "1")
        assert ended == "CancelledError", ended
        assert book.run("await a.get('x'), s.history(1)[0].status") == ("ok", {"text/plain": "(6, 'interrupted')"})
        assert book.run("import asyncio\nasync def one(i):\n    async with AsyncSandbox() as t:\n"
                        "        return await t.get(str(i))\n"
                        "sum(await asyncio.gather(*(one(i) for i in range(10))))") == ("ok", {"text/plain": "45"})
        assert book.run("s.destroy()")[0] == "ok"
    finally:
        book.close()


LOST = "; the next call restores the session, or names the cells that are missing"


def daemon_dies() -> None:
    s = Sandbox("survivor")
    s.run("x = 1")
    s.hibernate()
    try:
        s.run("print('running', flush=True)\nimport time\ntime.sleep(600)", timeout=600,
              on_output=lambda piece: print(end=piece, flush=True))
    except SandboxLost as error:
        print(error.code, str(error).endswith(LOST))
    r = s.run("x", recover="checkpoint")
    print(r.value, [cell.number for cell in s.history()][-1])


def daemon_dies_awaited() -> None:
    async def main() -> None:
        s = AsyncSandbox("survivor")
        await s.run("x = 1")
        await s.hibernate()
        try:
            async for piece in s.stream("print('running', flush=True)\nimport time\ntime.sleep(600)", timeout=600):
                print(end=piece, flush=True)
        except SandboxLost as error:
            print(error.code, str(error).endswith(LOST))
        print((await s.run("x", recover="checkpoint")).value, [cell.number for cell in await s.history()][-1])

    asyncio.run(main())


def stopped() -> int:
    """Stop the daemon, which then reads nothing: its process id."""
    call = connection().request("stats")
    call.wait()
    pid = int(call.answer()["pid"])
    call.free()
    os.kill(pid, signal.SIGSTOP)
    while ") T " not in Path("/proc/{}/stat".format(pid)).read_text():
        time.sleep(0.001)
    return pid


def kill_unread(pid: int) -> None:
    """Kill the daemon when something that it has not read waits for it."""
    def waits(fd: str) -> bool:
        try:
            return struct.unpack("i", fcntl.ioctl(int(fd), termios.TIOCOUTQ, bytes(4))) > (0,)
        except OSError:
            return False
    while not any(waits(fd) for fd in os.listdir("/proc/self/fd")):
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)


def daemon_dies_unread() -> None:
    """What the daemon did not read goes to the next one; a cell runs once."""
    s = Sandbox("unread")
    asks: List[Callable[[], object]] = [
        lambda: s.run("x += 1\nx").value, lambda: s.files.write("a", b"abc"), lambda: list(s.stream("x"))]
    s.run("x = 1")
    for ask in asks:
        s.hibernate()
        killer = threading.Thread(target=kill_unread, args=(stopped(),))
        killer.start()
        print(ask())
        killer.join()
    print(s.files.read("a"), s.get("x"))

    async def main() -> None:
        a = AsyncSandbox("unread")
        await a.hibernate()
        pid = stopped()
        task = asyncio.ensure_future(a.run("x += 1\nx"))
        await asyncio.get_running_loop().run_in_executor(None, kill_unread, pid)
        print((await task).value, len(await a.history()))
    asyncio.run(main())


if __name__ == "__main__":
    os.chdir(os.environ["HOME"])
    globals()[sys.argv[1]]()
