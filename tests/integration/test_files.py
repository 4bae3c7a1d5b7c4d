# SPDX-License-Identifier: Apache-2.0
"""put, get and ls: bytes travel unchanged, and nothing but the session's own files is reached."""

import hashlib
import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lib
from scripted_daemon import Failure, ScriptedDaemon

DATA = {
    "empty": b"", "one": b"x", "text": b"line\n" * 10, "binary": bytes(range(256)) * 64,
    "chunk": random.Random(1).randbytes(1 << 20), "chunk and one": random.Random(2).randbytes((1 << 20) + 1),
    "5 MB": random.Random(3).randbytes(5_000_000),
}


@pytest.fixture(scope="module")
def session(sandbox: lib.Sandbox) -> Iterator[str]:
    done = sandbox.exec("x = 1", "files", options=["--workspace-size", "16m", "--file-size", "12m"])
    assert done["status"] == "ok", done["error"]
    yield "files"
    sandbox.destroy("files")


def done_well(done: subprocess.CompletedProcess[Any]) -> subprocess.CompletedProcess[Any]:
    assert done.returncode == 0, done.stderr
    return done


def refused(done: subprocess.CompletedProcess[Any], *words: str) -> None:
    assert done.returncode in (1, 2), done.stdout
    text = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
    assert text.count("\n") <= 3 and all(word in text for word in words), text


@pytest.mark.parametrize("name", DATA)
def test_round_trip(sandbox: lib.Sandbox, session: str, name: str) -> None:
    source = sandbox.make_file("in/data", DATA[name])
    done_well(sandbox.cli("put", source, f"{session}:there"))
    inside = sandbox.exec("import hashlib\nd = open('there', 'rb').read()\n(len(d), hashlib.sha256(d).hexdigest())",
                          session)

    assert inside["value"] == repr((len(DATA[name]), hashlib.sha256(DATA[name]).hexdigest()))
    assert done_well(sandbox.cli("get", f"{session}:there", "-", text=False)).stdout == DATA[name]
    target = os.path.join(sandbox.make_folder("out"), "back")
    assert done_well(sandbox.cli("get", f"{session}:there", target)).stderr.startswith(f"{session}:there -> {target} (")
    with open(target, "rb") as back:
        assert back.read() == DATA[name]


def test_a_shorter_file_replaces_a_longer_one(sandbox: lib.Sandbox, session: str) -> None:
    for content in (b"long content", b"short"):
        done_well(sandbox.cli("put", sandbox.make_file("in/data", content), f"{session}:again"))
    assert sandbox.cli("get", f"{session}:again", "-").stdout == "short"


def test_get_overwrites_what_was_changed_here_only_by_force(sandbox: lib.Sandbox, session: str) -> None:
    there = f"{session}:taken"
    here = os.path.join(sandbox.make_folder("taken"), "file")
    sandbox.make_file("taken/file", b"before the session")
    os.utime(here, (1, 1))
    for _ in range(2):  # older than the session, then unchanged since the previous copy
        sandbox.exec("n = globals().get('n', 0) + 1\nopen('taken', 'w').write(f'inside {n}')", session)
        done_well(sandbox.cli("get", there, here))
    sandbox.make_file("taken/file", b"mine")
    refused(sandbox.cli("get", there, here), f"{here} was changed here since the session began", "--force")
    with open(here) as file:
        assert file.read() == "mine"
    done_well(sandbox.cli("put", here, there))
    sandbox.exec("open('taken', 'a').write(' and more')", session)
    done_well(sandbox.cli("get", there, here))  # the session had it
    sandbox.make_file("taken/file", b"mine again")
    done_well(sandbox.cli("get", there, here, "--force"))
    with open(here) as file:
        assert file.read() == "mine and more"


@pytest.mark.parametrize("args, words", [
    (["get"], ["give SESSION:PATH"]), (["get", "files"], ["'files' names no file; give SESSION:PATH"]),
    (["get", "files:shown", "/nonexistent/d/f"], ["the folder of /nonexistent/d/f does not exist; make it first"]),
    (["put", "-", "files:" + "n" * 256], ["n' is too long: a name has at most 255 bytes"]),
    (["output", "nope"], ["'nope' is not an output handle: a result has one"]),
    (["rollback", "nope"], ["no snapshot 'nope'"]), (["exec", "--file", ""], ["'': no such file"]),
    (["exec", "--project", "", "1"], ["--project: no such folder: ''"])],
    ids=lambda value: " ".join(value) if isinstance(value, list) and len(value) > 0 else None)
def test_a_mistake_is_named_with_the_way_out(sandbox: lib.Sandbox, session: str, args: list[str],
                                             words: list[str]) -> None:
    done_well(sandbox.cli("put", "-", f"{session}:shown", input="x"))
    refused(sandbox.cli(*args), *words)


def test_put_reads_standard_input(sandbox: lib.Sandbox, session: str) -> None:
    """Of a pipe, of a device, and of a file from where somebody has read to."""
    large = os.urandom(3 << 20)
    done_well(sandbox.cli("put", "-", f"{session}:piped", input=large, text=False))
    assert done_well(sandbox.cli("get", f"{session}:piped", "-", text=False)).stdout == large
    with open(sandbox.make_file("home/lines", "1\n2\n")) as file, open(os.devnull) as null:
        os.lseek(file.fileno(), 2, os.SEEK_SET)
        done_well(sandbox.cli("put", "-s", session, "-", "rest", stdin=file))
        done_well(sandbox.cli("put", "-", f"{session}:empty", stdin=null))
    assert sandbox.exec("open('rest').read(), open('empty').read()", session)["value"] == "('2\\n', '')"
    refused(sandbox.cli("put", "-", f"{session}:d/", input=""), "standard input has no name", "d/NAME")


def test_modes_and_folders(sandbox: lib.Sandbox, session: str) -> None:
    script = sandbox.make_file("in/script.sh", "#!/bin/sh\necho ran\n", 0o755)
    done_well(sandbox.cli("put", script, f"{session}:new/folders/script.sh"))
    assert sandbox.exec(argv=["new/folders/script.sh"], session=session)["stdout"] == "ran\n"
    done_well(sandbox.cli("put", script, f"{session}:"))
    assert "script.sh" in sandbox.cli("ls", session).stdout
    target = sandbox.make_folder("target")
    done_well(sandbox.cli("get", f"{session}:new/folders/script.sh", target))
    assert os.path.exists(os.path.join(target, "script.sh"))


@pytest.mark.parametrize("name", ["ünï€", "a b", "a\nb", "-rf", "'\"$x", "x" * 255])
def test_names(sandbox: lib.Sandbox, session: str, name: str) -> None:
    source = sandbox.make_file("in/named", name)
    done_well(sandbox.cli("put", source, f"{session}:{name}"))
    assert sandbox.cli("get", f"{session}:{name}", "-").stdout == name
    listed = json.loads(done_well(sandbox.cli("ls", "--json", session)).stdout)["entries"]
    assert name in [entry["name"] for entry in listed]


def test_ls(sandbox: lib.Sandbox, session: str) -> None:
    sandbox.exec("import os\nos.makedirs('listing/sub')\nopen('listing/file', 'w').write('12345')\n"
                 "os.symlink('file', 'listing/link')\nos.mkfifo('listing/fifo')", session)
    listed = json.loads(done_well(sandbox.cli("ls", "--json", f"{session}:listing")).stdout)
    entries = {e["name"]: (e["type"], e["size"]) for e in listed["entries"]}
    assert not listed["truncated"] and set(entries) == {"sub", "file", "link", "fifo"}
    assert entries["file"] == ("file", 5) and entries["sub"][0] == "dir"
    assert entries["link"][0] == "link" and entries["fifo"][0] == "other"
    one = json.loads(done_well(sandbox.cli("ls", "--json", f"{session}:listing/file")).stdout)["entries"]
    assert [(e["name"], e["size"]) for e in one] == [("file", 5)]
    assert json.loads(sandbox.cli("ls", "--json", f"{session}:listing/sub").stdout)["entries"] == []


def test_ls_of_very_many_long_names(sandbox: lib.Sandbox) -> None:
    """Every byte of a name is six in JSON: the answer is cut, and other sessions do not notice."""
    sandbox.exec("kept = 1", "bystander")
    sandbox.exec("for i in range(19000): open(chr(1) * 240 + f'{i:05}', 'w').close()", "long")
    listed = json.loads(done_well(sandbox.cli("ls", "--json", "long")).stdout)
    assert listed["truncated"] and len(listed["entries"]) > 1000
    assert sandbox.exec("kept", "bystander")["value"] == "1"
    sandbox.destroy("long")
    sandbox.destroy("bystander")


def test_get_of_what_it_may_not(sandbox: lib.Sandbox, session: str) -> None:
    """In one test, so that `make check` tries all paths."""
    sandbox.exec("import os\nfor n, to in (('out-link', '/etc/passwd'), ('proc-link', '/proc/self/root')):\n"
                 "    os.path.lexists(n) or os.symlink(to, n)\nos.makedirs('folder', exist_ok=True)\n"
                 "os.path.exists('fifo') or os.mkfifo('fifo')", session)
    for path in ("missing", "no/such/file", "", "sub/../../etc/passwd", "/etc/passwd", "../etc/passwd",
                 "/proc/self/environ", "/workspace/../etc/passwd", "out-link", "proc-link", "folder", "fifo"):
        done = sandbox.cli("get", f"{session}:{path}", "-")
        refused(done, *([path] if path in ("missing", "no/such/file", "/etc/passwd", "folder") else []))
        assert "root:" not in done.stdout


def test_put_where_it_may_not(sandbox: lib.Sandbox, session: str) -> None:
    sandbox.exec("import os\nos.path.lexists('out-dir') or os.symlink('/var/tmp', 'out-dir')", session)
    source = sandbox.make_file("in/evil", "x")
    for path in ("/etc/evil", "../evil", "/workspace/../evil", "out-dir/evil", "x" * 300, "/dev/shm/evil"):
        refused(sandbox.cli("put", source, f"{session}:{path}"))


@pytest.mark.parametrize("source", ["missing", ".", "/dev/zero"])
def test_put_of_what_is_no_file(sandbox: lib.Sandbox, session: str, source: str) -> None:
    refused(sandbox.cli("put", source, f"{session}:x"))


def test_no_room(sandbox: lib.Sandbox, session: str) -> None:
    refused(sandbox.cli("put", sandbox.make_file("in/big", bytes(14 << 20)), f"{session}:big"), "--file-size")
    for i in range(3):
        last = sandbox.cli("put", sandbox.make_file("in/big", bytes(7 << 20)), f"{session}:big{i}")
    refused(last, "16 MiB", "--workspace-size")
    done = sandbox.exec("import os\nfor n in os.listdir('.'):\n    if n.startswith('big'): os.remove(n)\nx", session)
    assert done["value"] == "1"


def test_no_such_session(sandbox: lib.Sandbox) -> None:
    source = sandbox.make_file("in/x", "x")
    for args in (("put", source, "nobody:x"), ("get", "nobody:x", "-"), ("ls", "nobody")):
        refused(sandbox.cli(*args), "nobody")


def test_files_while_a_cell_runs(sandbox: lib.Sandbox, session: str) -> None:
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)"
    with sandbox.popen("exec", "--session", session, "--timeout", "600", code) as running:
        done_well(sandbox.cli("put", sandbox.make_file("in/x", "while running"), f"{session}:during"))
        assert sandbox.cli("get", f"{session}:during", "-").stdout == "while running"
        assert running.poll() is None
        done_well(sandbox.cli("put", sandbox.make_file("in/go"), f"{session}:"))
        assert running.wait() == 0


def test_folders_go_in_and_come_back(sandbox: lib.Sandbox, session: str) -> None:
    for path, content in [("tree/a.txt", "a"), ("tree/sub/b.sh", "#!/bin/sh\n"), ("tree/sub/deep/ü", "c")]:
        sandbox.make_file(path, content)
    source = os.path.join(sandbox.folder, "tree")
    os.chmod(os.path.join(source, "sub/b.sh"), 0o755)
    os.symlink("/etc/passwd", os.path.join(source, "link"))
    os.mkfifo(os.path.join(source, "fifo"))
    sandbox.make_folder("tree/none/below")
    put = done_well(sandbox.cli("put", "-r", source + "/", f"{session}:"))
    assert "3 files" in put.stderr and "Skipped 2 links" in put.stderr
    listed = sandbox.exec("import os\nsorted(os.path.join(d, f) for d, _, fs in os.walk('tree') for f in fs)", session)
    assert listed["value"] == "['tree/a.txt', 'tree/sub/b.sh', 'tree/sub/deep/ü']" and not any(listed["files"].values())
    assert sandbox.exec("os.listdir('tree/none/below')", session)["value"] == "[]"

    sandbox.exec("os.symlink('/etc', 'tree/etc'); os.symlink('../..', 'tree/sub/up')", session)
    target = os.path.join(sandbox.make_folder("back"), "new")
    got = done_well(sandbox.cli("get", "-r", f"{session}:tree", target))
    assert "3 files" in got.stderr and "Skipped 2 links" in got.stderr
    found = sorted(os.path.relpath(os.path.join(d, f), target) for d, _, fs in os.walk(target) for f in fs)
    assert found == ["a.txt", "sub/b.sh", "sub/deep/ü"] and os.access(os.path.join(target, "sub/b.sh"), os.X_OK)
    assert not os.path.lexists(os.path.join(target, "etc")) and os.listdir(os.path.join(target, "none/below")) == []
    refused(sandbox.cli("get", "-r", f"{session}:tree", os.path.dirname(target) + "/new/a.txt"), "exists")
    refused(sandbox.cli("get", "-r", f"{session}:no-such", os.path.join(sandbox.folder, "back/none")), "no-such")
    whole = os.path.join(sandbox.folder, "back/whole")
    done_well(sandbox.cli("get", "-r", session, whole))
    assert os.path.exists(os.path.join(whole, "tree/a.txt"))
    refused(sandbox.cli("put", source, f"{session}:"), "-r copies a folder")


def test_a_folder_is_never_copied_over_one_that_is_there(sandbox: lib.Sandbox, session: str) -> None:
    mine = sandbox.make_file("mine/results/keep.txt", "mine")
    sandbox.exec("import os\nos.makedirs('results', exist_ok=True)\nopen('results/keep.txt', 'w').write('theirs')",
                 session)
    refused(sandbox.cli("get", "-r", f"{session}:results", os.path.join(sandbox.folder, "mine")), "exists")
    with open(mine) as text:
        assert text.read() == "mine"


def stored(path: Path | str) -> int:
    return sum(os.lstat(os.path.join(d, f)).st_blocks * 512 for d, _, files in os.walk(path) for f in files)


def test_holes_stay_holes_both_ways(sandbox: lib.Sandbox) -> None:
    """What is nothing inside is nothing here, and the other way round, whatever it seems to be."""
    name = "sparse"
    made = sandbox.exec("""
import os
os.mkdir("d")
with open("d/hole", "wb") as f: f.truncate(3 << 30)
with open("d/island", "wb") as f: f.seek(2 << 30); f.write(b"land" * 1000); f.truncate(3 << 30)
with open("d/zeros", "wb") as f: f.write(bytes(5 << 20))
""", name, options=["--workspace-size", "16m", "--file-size", "4g", "--tmp-size", "16m"])
    assert made["status"] == "ok", made["error"]
    try:
        out = os.path.join(sandbox.make_folder("sparse"), "back")
        done_well(sandbox.cli("get", "-r", f"{name}:d", out))
        sizes = {f: os.stat(os.path.join(out, f)).st_size for f in os.listdir(out)}
        assert sizes == {"hole": 3 << 30, "island": 3 << 30, "zeros": 5 << 20}
        assert stored(out) < 1 << 20
        with open(os.path.join(out, "island"), "rb") as f:
            assert os.pread(f.fileno(), 5000, 2 << 30) == b"land" * 1000 + bytes(1000)
            assert os.pread(f.fileno(), 9, (3 << 30) - 5) == bytes(5)
        # Bytes that go into a pipe are written as they are, up to what the session has room for.
        assert done_well(sandbox.cli("get", f"{name}:d/zeros", "-", text=False)).stdout == bytes(5 << 20)
        refused(sandbox.cli("get", f"{name}:d/hole", "-"), "received more data", "holes")

        done_well(sandbox.cli("put", os.path.join(out, "island"), f"{name}:again"))
        done_well(sandbox.cli("put", os.path.join(out, "hole"), f"{name}:again2"))
        inside = sandbox.exec("""
with open("again", "rb") as f: f.seek(2 << 30); land = f.read(5000)
(land == b"land" * 1000 + bytes(1000), [(os.stat(n).st_size, os.stat(n).st_blocks < 100) for n in ("again", "again2")])
""", name)
        assert inside["value"] == f"(True, [({3 << 30}, True), ({3 << 30}, True)])"
        with open(os.path.join(out, "hole"), "r+b") as f:
            f.truncate(5 << 30)
        refused(sandbox.cli("put", os.path.join(out, "hole"), f"{name}:large"), "--file-size")
        assert sandbox.exec("1", name)["value"] == "1"
    finally:
        sandbox.destroy(name)


@pytest.mark.parametrize("name", ["../evil", "..", "sub/evil", ""])
def test_a_name_that_leads_elsewhere_is_not_written(name: str, tmp_path: Path) -> None:
    piece: lib.Json = {"size": 1, "mode": 0o644, "eof": True, "hole": 0, "room": 8 << 20, "project": False}
    (tmp_path / "here").mkdir()
    listed = {"entries": [{"name": name, "type": "file", "size": 1}], "truncated": False}
    with ScriptedDaemon({"get": [Failure("invalid", "it is a folder"), (piece, b"x")], "ls": listed}) as daemon:
        done = daemon.cli("get", "-r", "work:d", str(tmp_path / "here" / "d"))
    refused(done, f"the session lists a file '{name}'")
    assert os.listdir(tmp_path) == ["here"] and os.listdir(tmp_path / "here") == []


@pytest.mark.parametrize("holds", [b"\1", b"\0"], ids=["filled", "control"])
def test_a_file_filled_while_it_is_read_ends_at_the_room_of_its_session(holds: bytes, tmp_path: Path) -> None:
    """Code that writes before the reader and digs holes behind it: counted is what lands here."""
    piece: lib.Json = {"size": 1 << 32, "mode": 0o644, "eof": False, "hole": 0, "room": 8 << 20, "project": False}
    last = {**piece, "eof": True}
    with ScriptedDaemon({"get": [(piece, holds * (1 << 20))] * 20 + [(last, b"end")]}) as daemon:
        done = daemon.cli("get", "work:f", str(tmp_path / "f"))
        if holds == b"\0":
            done_well(done)
            assert os.stat(tmp_path / "f").st_size == (20 << 20) + 3 and stored(tmp_path) < 1 << 20
        else:
            refused(done, "received more data than the session can hold")
            assert os.listdir(tmp_path) == []
