# SPDX-License-Identifier: Apache-2.0
"""`visualize` and `logs export --format html`: the page as bytes, and who gets it over HTTP."""

import base64
import hashlib
import html.parser
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any, Self

import pytest

import trajectories
from lib import PATIENCE, Sandbox, some

HOSTILE = "</script><script>alert(1)</script><!--<script>--><b>\u2028\u0000 \u202e</style>&lt;"


@pytest.fixture
def logs(box: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = box.make_folder(f"logs{time.monotonic_ns()}")
    return folder


def some_run(prompt: str = "Count", n: int = 2, answer: str = "42") -> list[str]:
    records = [trajectories.head(prompt)]
    for i in range(n):
        code = {"code": f"print({i})"}
        records += trajectories.turn(i, f"step {i}", ("execute_code", code, trajectories.cell(f"{i}\n"), False),
                                     clock=i * 600)
    return trajectories.chained([*records, trajectories.end(answer, n, 1100 * n)])


class Tags(html.parser.HTMLParser):
    """The elements of a page, and what is in its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, str | None]] = []
        self.scripts: list[list[Any]] = []  # type, id, text
        self.styles: list[list[Any]] = []
        self.policy = ""
        self.inside: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.tags.append((tag, known.get("id") if tag == "script" else None))
        if known.get("http-equiv") == "Content-Security-Policy":
            self.policy = known["content"] or ""
        self.inside = tag
        if tag in ("script", "style"):
            (self.scripts if tag == "script" else self.styles).append([known.get("type"), known.get("id"), ""])

    def handle_endtag(self, tag: str) -> None:
        self.inside = None

    def handle_data(self, data: str) -> None:
        if self.inside in ("script", "style"):
            (self.scripts if self.inside == "script" else self.styles)[-1][2] += data


def page_of(box: Sandbox, logs: str, *args: str) -> str:
    path = os.path.join(box.make_folder("out"), "page.html")
    done = box.cli("visualize", "--dir", logs, "--out", path, *args)
    assert done.returncode == 0, done.stderr
    with open(path) as file:
        return file.read()


# The page as bytes --------------------------------------------------------------------------------


def test_records_are_in_it_and_none_is_markup(box: Sandbox, logs: str) -> None:
    calm = trajectories.write(logs, some_run("calm"))
    wild = trajectories.write(logs, some_run(HOSTILE, answer=HOSTILE))
    pages = {name: Tags(page_of(box, logs, ident)) for name, ident in (("calm", calm), ("wild", wild))}
    assert pages["calm"].tags == pages["wild"].tags
    for ident, page in zip((calm, wild), pages.values()):
        (index, records, program) = page.scripts
        assert [each[:2] for each in page.scripts] == [["application/json", "index"], ["application/json", "run-0"],
                                                       [None, None]]
        assert "<" not in index[2] + records[2]
        with open(os.path.join(logs, ident + ".jsonl")) as lines:
            assert json.loads(records[2]) == [json.loads(line) for line in lines]
        for part, name in ((program[2], "script-src"), (page.styles[0][2], "style-src")):
            digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
            assert f"{name} 'sha256-{digest}'" in page.policy
        assert "default-src 'none'" in page.policy and "unsafe" not in page.policy
    assert not re.search(r"(src|href)=.?(https?:)?//", page_of(box, logs, calm))


def test_a_file_has_all_runs_or_the_one_that_is_named(box: Sandbox, logs: str) -> None:
    idents = [trajectories.write(logs, some_run(f"run {i}")) for i in range(3)]
    for i, ident in enumerate(idents):
        os.utime(os.path.join(logs, ident + ".jsonl"), (1000 + i, 1000 + i))
    whole = Tags(page_of(box, logs))
    listed = json.loads(whole.scripts[0][2])
    assert [each["id"] for each in listed["runs"]] == idents[::-1] and listed["shown"] == 0 and not listed["served"]
    assert [each[1] for each in whole.scripts] == ["index", "run-0", "run-1", "run-2", None]
    assert json.loads(whole.scripts[3][2])[0]["prompt"] == "run 0"
    two = json.loads(Tags(page_of(box, logs, "--tail", "2")).scripts[0][2])
    assert [each["id"] for each in two["runs"]] == idents[:0:-1] and two["more"] == 1
    one = json.loads(Tags(page_of(box, logs, idents[0][:8])).scripts[0][2])
    assert [each["id"] for each in one["runs"]] == idents[:1] and one["dir"] is None
    assert os.stat(os.path.join(box.folder, "out", "page.html")).st_mode & 0o777 == 0o600


def test_damaged_and_old_files_are_shown_and_told_of(box: Sandbox, logs: str) -> None:
    lines = some_run()
    lines[2] = lines[2].replace("step 0", "step X")
    lines.insert(5, "{not JSON")
    broken = trajectories.write(logs, lines)
    trajectories.write(logs, trajectories.old_lines("add", "two"), "old-one")
    done = box.cli("visualize", "--dir", logs, "--out", os.path.join(box.make_folder("out"), "both.html"))
    assert done.returncode == 0 and "skipped 1 line, first line 6: not a JSON object" in done.stderr
    runs = {each["id"]: each for each in json.loads(Tags(page_of(box, logs)).scripts[0][2])["runs"]}
    assert runs[broken]["corrupt"] == 1 and runs[broken]["broken"] == 1 and runs[broken]["first_bad"] == 3
    assert not runs["old-one"]["chained"] and runs["old-one"]["tokens"] == 42 and runs["old-one"]["state"] == "done"


def test_logs_export_makes_the_same_page(box: Sandbox, logs: str) -> None:
    ident = trajectories.write(logs, some_run())

    def without_time(text: str) -> str:
        return re.sub(r'"made":"[^"]*"', "", text)

    exported = box.cli("logs", "export", ident[:8], "--dir", logs, "--format", "html")
    assert without_time(exported.stdout) == without_time(page_of(box, logs, ident))


@pytest.fixture
def session(box: Sandbox) -> Iterator[str]:
    """A session of exec with three cells."""
    for code in ("1 + 1", f"import sys; print({HOSTILE!r}); print(1, file=sys.stderr)", "1 / 0"):
        box.cli("exec", "--session", "page.1", code)
    yield "page.1"
    box.cli("sessions", "destroy", "page.1")


def test_sessions_of_exec_are_in_it(box: Sandbox, logs: str, session: str) -> None:
    ident = trajectories.write(logs, some_run("a run"))
    scripts = Tags(page_of(box, logs)).scripts
    listed = json.loads(scripts[0][2])["runs"]
    assert [each["id"] for each in listed] == [ident, session] and listed[1]["kind"] == "session"
    page = Tags(page_of(box, logs, session))
    assert [each[1] for each in page.scripts] == ["index", "run-0", None] and "<" not in page.scripts[1][2]
    assert [each["id"] for each in json.loads(page.scripts[0][2])["runs"]] == [session]
    head, *cells = json.loads(page.scripts[1][2])
    assert head == {"_type": "session", "name": session, "before": 0}
    shown = [json.loads(box.cli("show", f"{session}:{n}", "--json").stdout) for n in (1, 2, 3)]
    assert [{**cell, "started": 0} for cell in cells] == [{**cell, "started": 0} for cell in shown]
    assert cells[1]["result"]["stdout"].startswith(HOSTILE[:20]) and cells[2]["status"] == "error"
    done = box.cli("visualize", "--dir", logs, "--out", os.path.join(box.folder, "out", "page.html"), "--json")
    assert json.loads(done.stdout)["runs"] == 1 and json.loads(done.stdout)["sessions"] == 1


@pytest.mark.parametrize("args, code, says", [
    (["--out", "x.html", "--port", "0"], 2, "--port is for serving pages"),
    (["--tail", "0"], 2, "--tail must be 1 to 1000"),
    (["--port", "70000"], 2, "--port must be 1 to 65535"),
    (["nothing"], 1, "no run nothing in "),
    (["../x"], 1, "no run ../x"),
    (["--out", "x.html"], 1, "and no sessions"),
    (["--host", "0.0.0.0"], 1, "--allow-remote"),
    (["--host", "::"], 1, "--allow-remote"),
    (["--host", "example.com"], 2, "a number, or localhost"),
    (["--host", "unix:/tmp/x"], 2, "a number, or localhost"),
])
def test_wrong_use_is_told(box: Sandbox, logs: str, args: list[str], code: int, says: str) -> None:
    done = box.cli("visualize", "--dir", logs, *args)
    assert done.returncode == code and says in done.stderr, done.stderr


# Over HTTP ----------------------------------------------------------------------------------------


class Served:
    def __init__(self, box: Sandbox, logs: str, *args: str) -> None:
        self.process = subprocess.Popen(
            [os.path.join(box.bin, "snipara-sandbox"), "visualize", "--dir", logs, "--port", "0", *args],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=box.env, cwd=box.folder, text=True, **box.identity())
        self.url = some(self.process.stdout).readline().strip()
        self.at = urllib.parse.urlsplit(self.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        some(self.process.stdout).close()

    def ask(self, path: str | None = None, method: str = "GET", headers: Sequence[tuple[str, str]] = (),
            host: str | None = None) -> tuple[int, http.client.HTTPMessage, str]:
        connection = http.client.HTTPConnection(self.at.hostname, self.at.port, timeout=PATIENCE)
        try:
            connection.putrequest(method, self.at.path if path is None else path, skip_host=True)
            connection.putheader("Host", self.at.netloc if host is None else host)
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()


def test_a_page_is_served_and_new_runs_are_in_the_next(box: Sandbox, logs: str) -> None:
    with Served(box, logs) as served:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[0-9a-f]{32}/", served.url), served.url
        status, headers, text = served.ask()
        assert status == 200 and json.loads(Tags(text).scripts[0][2])["runs"] == []
        assert headers["Content-Security-Policy"] == Tags(text).policy + "; frame-ancestors 'none'"
        for name, value in (("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"),
                            ("X-Frame-Options", "DENY"),
                            ("X-Content-Type-Options", "nosniff"), ("Cross-Origin-Resource-Policy", "same-origin"),
                            ("Content-Type", "text/html; charset=utf-8")):
            assert headers[name] == value
        first, second = trajectories.write(logs, some_run("one")), trajectories.write(logs, some_run("two"))
        os.utime(os.path.join(logs, first + ".jsonl"), (1000, 1000))
        page = Tags(served.ask()[2])
        index = json.loads(page.scripts[0][2])
        assert [each["id"] for each in index["runs"]] == [second, first] and index["served"]
        assert [each[1] for each in page.scripts] == ["index", "run-0", None]  # the others have pages of their own
        page = Tags(served.ask(served.at.path + first)[2])
        assert json.loads(page.scripts[0][2])["shown"] == 1 and json.loads(page.scripts[1][2])[0]["prompt"] == "one"
        assert served.ask(served.at.path + "missing")[0] == 404
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(PATIENCE) == 0


def test_a_session_is_served(box: Sandbox, logs: str, session: str) -> None:
    with Served(box, logs, session) as served:
        assert served.at.path.endswith("/" + session)
        cells = json.loads(Tags(served.ask()[2]).scripts[1][2])[1:]
        box.cli("daemon", "stop")  # a page has a connection of its own
        box.cli("exec", "--session", session, "--recover", "checkpoint", "40 + 2")
        more = json.loads(Tags(served.ask()[2]).scripts[1][2])[1:]
        assert [each["code"] for each in more] == [*(each["code"] for each in cells), "40 + 2"]
        assert more[-1]["result"]["value"] == "42"
        assert served.ask(served.at.path + "x")[0] == 404 and served.ask(served.at.path + "/..")[0] == 404


def test_nobody_else_gets_a_page(box: Sandbox, logs: str) -> None:
    ident = trajectories.write(logs, some_run("secret prompt"))
    with Served(box, logs, ident[:8]) as served:
        assert served.at.path.endswith("/" + ident) and "secret prompt" in served.ask()[2]
        secret = served.at.path.split("/")[1]
        port = served.at.port
        refused = {
            "another secret": (404, served.ask("/" + "0" * 32 + "/")),
            "a part of it": (404, served.ask(f"/{secret[:31]}/")),
            "none": (404, served.ask("/")),
            "no slash": (404, served.ask("/" + secret)),
            "a path": (404, served.ask(f"/{secret}/../../etc/passwd")),
            "an encoded path": (404, served.ask(f"/{secret}/..%2f..%2fetc%2fpasswd")),
            "rebinding": (403, served.ask(host="evil.example")),
            "rebinding with the port": (403, served.ask(host=f"evil.example:{port}")),
            "a host that begins like ours": (403, served.ask(host=f"127.0.0.1.evil.example:{port}")),
            "no host": (403, served.ask(host="")),
            "two hosts": (400, served.ask(headers=[("Host", "evil.example")])),
            "another origin": (403, served.ask(headers=[("Origin", "http://evil.example")])),
            "POST": (405, served.ask(method="POST")),
            "a body": (403, served.ask(headers=[("Content-Length", "0")])),
        }
        for why, (status, answer) in refused.items():
            assert answer[0] == status and "secret prompt" not in answer[2], why
        assert served.ask(host=f"localhost:{port}")[0] == 200


def test_heads_that_are_read_differently_are_refused(box: Sandbox, logs: str) -> None:
    """As in test_mcp_http.py; the first is the control."""
    heads = ["Host: {at}\r\nX: y \r\n\r\n", "Host : {at}\r\n\r\n", "X : y\r\nHost: {at}\r\n\r\n",
             "Host: {at}\nX: y\r\n\r\n",
             "Host: {at}\r\nX: y\r\n z\r\n\r\n", "Host: {at}\r\nX: y\0z\r\n\r\n", "Host: {at}\r\n\n"]
    with Served(box, logs) as served:
        for head in heads:
            with socket.create_connection((served.at.hostname, served.at.port), PATIENCE) as sock:
                sock.sendall(f"GET {served.at.path} HTTP/1.1\r\n{head.format(at=served.at.netloc)}".encode())
                assert int(sock.recv(1 << 16).split()[1]) == (200 if head is heads[0] else 400), head
        # a body is refused, and never taken for the next request
        page = f"GET {served.at.path} HTTP/1.1\r\nHost: {served.at.netloc}\r\n"
        hidden = page + "\r\n"
        for more in (f"Content-Length: {len(hidden)}\r\n\r\n{hidden}",
                     f"Transfer-Encoding: chunked\r\n\r\n5\nabcde\r\n0\n\r\n{hidden}"):
            with socket.create_connection((served.at.hostname, served.at.port), PATIENCE) as sock:
                sock.sendall((page + more).encode())
                sock.shutdown(socket.SHUT_WR)
                data = b""
                while part := sock.recv(1 << 16):
                    data += part
                assert data.count(b"HTTP/1.1 403 ") == 1 and b"HTTP/1.1 200 " not in data, more


def test_further_names_are_served_when_they_are_given(box: Sandbox, logs: str) -> None:
    with Served(box, logs, "--host", "localhost", "--allow-host", "My.Proxy.example") as served:
        assert served.ask(host="my.proxy.example")[0] == 200 and served.ask(host="other.example")[0] == 403


def test_a_port_that_is_taken_is_told(box: Sandbox, logs: str) -> None:
    with Served(box, logs) as served:
        done = box.cli("visualize", "--dir", logs, "--port", str(served.at.port))
        assert done.returncode == 1 and "--port 0" in done.stderr
