# SPDX-License-Identifier: Apache-2.0
"""Snapshots, history and what belongs to them, on the command line alone: a scripted daemon answers."""

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lib import Json
from scripted_daemon import Failure, ScriptedDaemon

HOSTILE = "evil\x1b]0;owned\x07\x1b[2J‮"
NOW = float(int(time.time()))


def session(name: str, **members: Any) -> Json:
    return {"id": hashlib.md5(name.encode()).hexdigest(), "name": name, "state": "idle", **members}


SESSIONS = {"sessions": [session("work")]}
TWO = {"sessions": [session("one"), session("two"), {"id": "0" * 32, "name": None}]}


def snapshot(ident: str, name: str, parent: str | None = None, owner: str = "work", **members: Any) -> Json:
    return {"id": ident, "name": name, "session": owner + "-id", "session_name": owner, "parent": parent,
            "cell": 3, "epoch": 1, "created": NOW - 180000, "where": ["memory", "disk"], "bytes": 2048, "lost": [],
            **members}


def plain(text: bytes) -> bytes:
    """Without the colours that we put in ourselves."""
    return re.sub(rb"\x1b\[[0-9]*m", b"", text)


def harmless(text: bytes) -> str:
    """No control character but newlines and our own colours reaches a terminal."""
    rest = plain(text)
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", rest), rest
    assert "‮".encode() not in rest
    return rest.decode()


# Which session ----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb, method", [
    (["snapshot", "x"], "snapshot"), (["history"], "history"), (["checkpoint"], "checkpoint"),
    (["hibernate"], "hibernate"), (["sessions", "show"], "sessions.show")])
def test_the_only_session_needs_no_name_and_several_are_named(verb: list[str], method: str) -> None:
    answer = {"name": "x", "cells": [], "where": []}
    with ScriptedDaemon({"sessions.list": SESSIONS, method: answer}) as daemon:
        assert daemon.cli(*verb).returncode == 0
        assert daemon.asked[-1][0]["session"] == "work"
    with ScriptedDaemon({"sessions.list": TWO, method: answer}) as daemon:
        done = daemon.cli(*verb)
        assert (done.returncode, done.stdout) == (2, "")
        assert "2 sessions exist; name one: one, two" in done.stderr
        assert [head["method"] for head, _ in daemon.asked] == ["sessions.list"]
    with ScriptedDaemon({"sessions.list": {"sessions": []}, method: answer}) as daemon:
        done = daemon.cli(*verb)
        assert done.returncode == 1 and "no sessions; exec --session NAME makes one" in done.stderr


WORD_OR_OPTION = [  # method, what is asked, and the ways to say it; the first names the session in a word
    ("history", {"session": "two"}, "history two", "history -s two", "history two -s two"),
    ("checkpoint", {"session": "two"}, "checkpoint two", "checkpoint -s two", "checkpoint two -s two"),
    ("hibernate", {"session": "two"}, "hibernate two", "hibernate -s two"),
    ("sessions.show", {"session": "two"}, "sessions show two", "sessions show -s two"),
    ("sessions.clear", {"session": "two"}, "sessions clear two", "sessions clear -s two"),
    ("sessions.move", {"session": "two", "tier": "local"}, "sessions move two --to local",
     "sessions move -s two --to local"),
    ("snapshot", {"session": "two", "name": "x"}, "snapshot two@x", "snapshot x -s two", "snapshot two@x -s two"),
    ("snapshots.list", {"session": "two"}, "snapshots two", "snapshots -s two", "rollback -s two", "diff two",
     "diff -s two"),
    ("snapshots.remove", {"snapshot": "two@x"}, "snapshots remove two@x", "snapshots remove x -s two"),
    ("rollback", {"snapshot": "two@x"}, "rollback two@x", "rollback x -s two"),
    ("fork", {"from": "two"}, "fork two", "fork -s two", "fork two -s two"),
    ("fork", {"from": "two@x"}, "fork two@x", "fork x -s two"),
    ("diff", {"a": "two@x", "b": "two@y"}, "diff two@x two@y", "diff x y -s two"),
    ("diff", {"a": "two@x", "b": "two"}, "diff two@x", "diff x -s two", "diff x two -s two"),
    ("cell.show", {"session": "two", "cell": 3}, "show two:3", "show 3 -s two", "rerun two:3", "rerun 3 -s two"),
    ("history", {"session": "two", "limit": 1}, "show two", "show -s two", "rerun two", "rerun -s two"),
    ("export", {"from": "two"}, "export FILE two --force", "export FILE -s two --force"),
    ("export", {"from": "two@x"}, "export FILE two@x --force", "export FILE -s two@x --force",
     "export FILE x -s two --force"),
    ("put", {"session": "two", "path": "a/b"}, "put FILE two:a/b", "put FILE a/b -s two"),
    ("put", {"session": "two", "path": "file"}, "put FILE two", "put FILE two:", "put FILE -s two"),
    ("get", {"session": "two", "path": "a/b"}, "get two:a/b -", "get a/b - -s two"),
    ("get", {"session": "two", "path": "./a:b"}, "get two:./a:b -", "get ./a:b - -s two"),
    ("ls", {"session": "two", "path": "a"}, "ls two:a", "ls a -s two"),
    ("ls", {"session": "two", "path": "."}, "ls two", "ls two:", "ls -s two"),
]


@pytest.mark.parametrize("row", WORD_OR_OPTION, ids=[str(row[2]) for row in WORD_OR_OPTION])
def test_a_session_is_a_word_or_an_option(tmp_path: Path, row: Any) -> None:
    method, asked, *ways = row
    (tmp_path / "file").write_text("x")
    words = [[str(tmp_path / "file") if word == "FILE" else word for word in way.split()] for way in ways]
    with ScriptedDaemon({"sessions.list": TWO, method: Failure("not_found", "only the question counts")}) as daemon:
        for way in words:
            daemon.cli(*way)
            assert daemon.asked[-1][0]["method"] == method and asked.items() <= daemon.asked[-1][0].items(), way
        del daemon.asked[:]
        done = daemon.cli(*words[0], "-s", "one")
        if re.search("two[@:]", ways[0]) or words[0][0] in ("history", "checkpoint", "hibernate", "sessions",
                                                            "snapshots"):
            assert done.returncode == 2 and "two sessions are named: two, and one" in done.stderr and daemon.asked == []


@pytest.mark.parametrize("words, answer, next_words", [
    (["show"], "two", "show SESSION:NUMBER"), (["fork"], "two", "fork SESSION"),
    (["rollback"], "loaded", "rollback SESSION@NAME"), (["diff"], "loaded", "diff SESSION@NAME")])
def test_a_verb_alone_lists_what_it_takes(words: list[str], answer: str, next_words: str) -> None:
    lists = {"sessions.list": TWO, "snapshots.list": {"snapshots": [snapshot("1" * 32, "loaded")], "heads": []}}
    with ScriptedDaemon(lists) as daemon:
        done = daemon.cli(*words)
        assert (done.returncode, done.stderr) == (0, f"next: snipara-sandbox {next_words}\n") and answer in done.stdout
        assert answer in json.dumps(json.loads(daemon.cli(*words, "--json").stdout))


MISSING = {"cells": [3, 4], "n_cells": 2, "files": [], "n_files": 0, "text": f"what cells 3, 4 did {HOSTILE}",
           "recover": ["replay", "checkpoint"]}


def test_what_a_session_lacks_is_told_with_the_ways_out() -> None:
    lacking = session("work", missing=MISSING, tier="native")
    lacking["state"] = "incomplete"
    answers = {"sessions.list": {"sessions": [session("whole"), lacking]}, "sessions.show": lacking,
               "history": {"cells": [], "state": "incomplete", "missing": MISSING}}
    with ScriptedDaemon(answers) as daemon:
        for verb in (["sessions", "list"], ["sessions", "show", "work"], ["history", "work"]):
            done = daemon.cli(*verb)
            assert done.stderr.startswith("incomplete: work lacks what cells 3, 4 did evil\\x1b"), verb
            assert "exec -s work --recover replay runs the cells again, --recover checkpoint continues" in done.stderr
            assert done.stderr.count("\n") == 1
            harmless(daemon.on_terminal(*verb))
        assert "incomplete" in daemon.cli("sessions", "list").stdout
        assert json.loads(daemon.cli("sessions", "show", "work", "--json").stdout)["missing"] == MISSING
        assert json.loads(daemon.cli("history", "work", "--json").stdout)["missing"] == MISSING


def test_the_session_called_default_comes_before_a_question() -> None:
    rows = {"sessions": [*TWO["sessions"], session("default")]}
    with ScriptedDaemon({"sessions.list": rows, "history": {"cells": []}}) as daemon:
        assert daemon.cli("history").returncode == 0
        assert daemon.asked[-1][0]["session"] == "default"


def test_a_wrong_session_name_is_refused_before_the_daemon_is_asked() -> None:
    with ScriptedDaemon({}) as daemon:
        done = daemon.cli("history", "../x")
        assert done.returncode == 2 and daemon.asked == []


LONG = "/home/somebody/projects/with/a/very/long/name"


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_tables_fit_the_terminal(columns: int) -> None:
    rows = [session("work", tier="native", template="data", cells=12, epoch=3, used=NOW, project=LONG),
            session("a-session-with-a-long-name-of-forty-chars-", tier="native", template="base", cells=1, epoch=1,
                    used=NOW)]
    cells = [{"cell": n, "status": "ok", "state": "kept", "started": NOW, "wall_us": 5000, "kind": "python",
              "first_line": f"value = compute({n}, 'ü' * 10) + something_long_that_goes_on_for_ever(1, 2, 3, 4)"}
             for n in (2, 1)]
    answers = {"sessions.list": {"sessions": rows}, "history": {"cells": cells, "state": "idle", "missing": None},
               "snapshots.list": TREE}
    with ScriptedDaemon(answers) as daemon:
        for verb, wanted in ((["sessions", "list"], ("work", "native", "12", "idle")),
                             (["history", "work"], ("ok", "kept", "value = comp")),
                             (["snapshots"], ("work@clean", "loaded", "cell 3", "memory, disk"))):
            text = harmless(daemon.on_terminal(*verb, columns=columns))
            assert max(len(line) for line in text.splitlines()) <= columns, text
            assert all(part in text for part in wanted), text
        # A pipe has all of it, whatever COLUMNS says.
        assert LONG in daemon.cli("sessions", "list", env={"COLUMNS": str(columns)}).stdout
        assert "1, 2, 3, 4)" in daemon.cli("history", "work", env={"COLUMNS": str(columns)}).stdout


def test_a_budget_that_is_not_met_is_said() -> None:
    answer = {"freed_bytes": 0, "blobs": 0, "bytes": 3 << 30, "budget_bytes": 1 << 30, "is_met": False}
    with ScriptedDaemon({"gc": answer}) as daemon:
        done = daemon.cli("gc", "--budget", "1g")
        assert done.returncode == 1 and "the journal uses 3 GiB, more than its limit of 1 GiB" in done.stderr
        assert "snapshots remove" in done.stderr and done.stdout.startswith("Freed 0 B (0 stored items)")
        assert json.loads(daemon.cli("gc", "--budget", "1g", "--json").stdout) == answer


# Snapshots --------------------------------------------------------------------------------------


def test_snapshot_says_what_where_and_what_is_not_saved() -> None:
    answer = {"snapshot": "5" * 32, "name": "loaded", "session": "w", "cell": 3, "epoch": 1, "parent": None,
              "where": ["memory", "disk"], "us": 4200,
              "lost": [{"name": HOSTILE, "type": "generator", "reason": "cannot be\nsaved"}]}
    with ScriptedDaemon({"snapshot": answer}) as daemon:
        done = daemon.cli("snapshot", "loaded", "-s", "work", "--wait")
        assert done.stdout == "work@loaded: work after cell 3 (4.2 ms; in memory and on disk)\n"
        assert "not saved: evil\\x1b]0;owned" in done.stderr and "(generator): cannot be saved\n" in done.stderr
        assert daemon.asked == [({"method": "snapshot", "session": "work", "name": "loaded", "wait": True}, b"")]
        assert json.loads(daemon.cli("snapshot", "-s", "work", "--json").stdout) == answer
        harmless(daemon.on_terminal("snapshot", "-s", "work"))


TREE = {
    "snapshots": [
        snapshot("a" * 32, "clean", cell=1),
        snapshot("b" * 32, "loaded", "a" * 32),
        snapshot("c" * 32, "other", "a" * 32, where=["disk"], lost=[{"name": "g", "reason": "r"}]),
        snapshot("d" * 32, "deep", "b" * 32, bytes=3 << 20),
        snapshot("e" * 32, "s1", "b" * 32, owner="try-1"),
    ],
    "head": "d" * 32,
    "heads": [{"session": "w", "name": "work", "snapshot": "d" * 32},
              {"session": "t", "name": "try-1", "snapshot": "e" * 32},
              {"session": "u", "name": "try-2", "snapshot": "d" * 32}],
}


def test_snapshots_are_a_tree_on_a_terminal() -> None:
    with ScriptedDaemon({"snapshots.list": TREE}) as daemon:
        text = harmless(daemon.on_terminal("snapshots"))
        assert [re.split(r"\s{2,}", line) for line in text.splitlines()] == [
            ["work@clean", "cell 1", "memory, disk", "2 KiB", "2 d ago"],
            ["├─ loaded", "cell 3", "memory, disk", "2 KiB", "2 d ago"],
            ["│", "├─ deep", "cell 3", "memory, disk", "3 MiB", "2 d ago", "← work, try-2"],
            ["│", "└─ try-1@s1", "cell 3", "memory, disk", "2 KiB", "2 d ago", "← try-1"],
            ["└─ other", "cell 3", "disk", "2 KiB", "2 d ago"],
            ["", "1 not on disk"],
        ]
        columns = {line.index("cell") for line in text.splitlines()[:5]}
        assert len(columns) == 1
        ascii_only = daemon.on_terminal("snapshots", env={"LANG": "C", "LC_ALL": "C"})
        assert plain(ascii_only).isascii()
        assert b"\n`- other" in plain(ascii_only) and b"  <- work, try-2\n" in plain(ascii_only)


def test_snapshots_are_a_plain_list_in_a_pipe() -> None:
    with ScriptedDaemon({"snapshots.list": TREE}) as daemon:
        lines = [re.split(r"\s{2,}", line) for line in daemon.cli("snapshots").stdout.splitlines()]
        assert lines[0] == ["Name", "Session", "Cell", "Where", "Size", "Created", "Parent", "Head of", "ID"]
        assert [line[0] for line in lines[1:]] == ["clean", "loaded", "other", "deep", "s1"]
        assert lines[1][6:] == ["-", "-", "a" * 32] and lines[4][6:] == ["loaded", "work, try-2", "d" * 32]
        assert daemon.cli("snapshots").stdout == daemon.cli("snapshots", "list").stdout
        assert json.loads(daemon.cli("snapshots", "--json").stdout) == TREE
        assert daemon.cli("snapshots", "list", "--names").stdout.split() == [
            "work@clean", "work@loaded", "work@other", "work@deep", "try-1@s1"]
        daemon.cli("snapshots", "work")
        assert daemon.asked[-1][0] == {"method": "snapshots.list", "session": "work"}


def test_a_tree_that_hangs_on_itself_and_very_deep_ones_end() -> None:
    ring = {"snapshots": [snapshot("a" * 32, "x", "b" * 32), snapshot("b" * 32, "y", "a" * 32)]}
    deep = {"snapshots": [snapshot(f"{n:032x}", f"s{n}", f"{n - 1:032x}") for n in range(200)]}
    for tree, count in ((ring, 2), (deep, 200)):
        with ScriptedDaemon({"snapshots.list": tree}) as daemon:
            text = harmless(daemon.on_terminal("snapshots"))
            assert text.count("cell 3") == count


def test_no_snapshots_and_their_removal() -> None:
    with ScriptedDaemon({"snapshots.list": {"snapshots": []},
                         "snapshots.remove": [{}, Failure("not_found", "there is no snapshot 'b'"), {}]}) as daemon:
        assert daemon.cli("snapshots").stdout == "no snapshots\n"
        done = daemon.cli("snapshots", "remove", "a", "b", "c")
        assert (done.returncode, done.stdout) == (1, "removed a\nremoved c\n")
        assert "there is no snapshot 'b'" in done.stderr
        assert daemon.cli("snapshots", "remove").returncode == 2
        assert daemon.cli("snapshots", "--help").stdout.startswith("Usage: snipara-sandbox snapshots COMMAND")


# Fork, rollback ----------------------------------------------------------------------------------


def test_fork_prints_the_names() -> None:
    answer = {"sessions": [{"session": "1", "name": "try-1", "epoch": 1},
                           {"session": "2", "name": "try-2", "epoch": 1}],
              "how": "checkpoint", "lost": [{"name": "gen", "type": "generator", "reason": "no"}], "us": 31000}
    with ScriptedDaemon({"fork": answer}) as daemon:
        done = daemon.cli("fork", "work@loaded", "-n", "2", "--name", "try")
        assert done.stdout == "try-1\ntry-2\n"
        assert done.stderr == ("forked work@loaded by checkpoint in 31 ms\n"
                               "not in the forks: gen (generator): no\n")
        assert daemon.asked[0][0] == {"method": "fork", "from": "work@loaded", "n": 2, "name": "try"}
        for number in ("0", "65"):
            assert daemon.cli("fork", "work", "-n", number).returncode == 2
        assert len(daemon.asked) == 1


@pytest.mark.parametrize("how, words", [("memory", "from memory"), ("checkpoint", "from its checkpoint on disk")])
def test_rollback_says_where_it_came_from(how: str, words: str) -> None:
    answer = {"session": "w", "session_name": "work", "cell": 3, "epoch": 2, "how": how, "us": 2000,
              "lost": [], "failed": [{"name": "m", "reason": "no module"}]}
    with ScriptedDaemon({"rollback": answer}) as daemon:
        done = daemon.cli("rollback", "loaded")
        assert done.stdout == f'Rolled back work to "loaded" (cell 3; {words}, 2.0 ms).\n'
        assert done.stderr == "could not be restored: m: no module\n"


# Diff ---------------------------------------------------------------------------------------------


class Blobs:
    def __init__(self, **contents: Any) -> None:
        self.contents = contents

    def __call__(self, head: Json, raw: bytes) -> tuple[Json, Any]:
        data = self.contents[head["hash"]]
        part = data[head["offset"]:head["offset"] + head["length"]]
        return {"size": len(data), "eof": head["offset"] + len(part) >= len(data)}, part


def changed(path: str, change: str, a: str | None = None, b: str | None = None, blobs: Blobs = Blobs(),
            modes: tuple[int, int] = (0o644, 0o644)) -> Json:
    row: Json = {"path": path, "change": change, "a": a, "b": b}
    for which, content, mode in (("a", a, modes[0]), ("b", b, modes[1])):
        if content:
            row.update({f"size_{which}": len(blobs.contents[content]), f"mode_{which}": mode,
                        f"type_{which}": "file"})
    return row


def difference() -> tuple[Blobs, Json]:
    blobs = Blobs(old=b"one\ntwo\nthree\n", new=b"one\n2\nthree\nfour\n", added=b"fresh\n", bin=b"\x00\x01" * 100,
                  evil=b"\x1b]0;owned\x07 text\n", big=b"x\n" * (1 << 20))
    return blobs, {
        "variables": [{"name": "rows", "change": "changed", "type_a": "list", "type_b": "dict"},
                      {"name": "x", "change": "added", "type_a": None, "type_b": "int"},
                      {"name": "y", "change": "removed", "type_a": "str", "type_b": None},
                      {"name": HOSTILE + "\n+++ b/forged", "change": "changed", "type_a": "T", "type_b": "T"}],
        "files": [changed("a.txt", "changed", "old", "new", blobs), changed("new.txt", "added", None, "added", blobs),
                  changed("gone.txt", "removed", "added", None, blobs),
                  changed("b.bin", "changed", "bin", "old", blobs),
                  changed("run.sh", "changed", "old", "old", blobs, (0o644, 0o755)),
                  changed(HOSTILE, "changed", "old", "evil", blobs), changed("big", "changed", "old", "big", blobs)],
        "lost_a": [], "lost_b": [{"name": "gen", "type": "generator", "reason": "cannot be saved"}]}


def test_diff_in_a_pipe_is_a_patch(tmp_path: Path) -> None:
    blobs, answer = difference()
    with ScriptedDaemon({"diff": answer, "blob": blobs}) as daemon:
        done = daemon.cli("diff", "work@a", "work", env={"TMPDIR": str(tmp_path), "PAGER": "false"})
        assert done.returncode == 0
        assert done.stdout.startswith(
            "variable rows: changed, list to dict\nvariable x: added, int\nvariable y: removed, str\n"
            'variable "evil\\033]0;owned')
        assert ("diff a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n three\n+four\n"
                in done.stdout)
        assert "new file mode 644\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+fresh\n" in done.stdout
        assert "deleted file mode 644\n--- a/gone.txt\n+++ /dev/null\n" in done.stdout
        assert "Binary files a/b.bin and b/b.bin differ (200 B, 14 B)\n" in done.stdout
        assert "old mode 644\nnew mode 755\n" in done.stdout
        # A name is never more than a name; what a file holds stays as it is in a pipe.
        assert done.stdout.count("\n+++ b/forged") == 0 and '+++ "b/evil\\033]0;owned' in done.stdout
        assert "\n+\x1b]0;owned\x07 text\n" in done.stdout
        assert done.stderr == "not compared, not saved in B: gen (generator): cannot be saved\n"
        assert os.listdir(tmp_path) == []


def test_diff_shows_links_folders_what_is_deleted_and_names_of_any_bytes() -> None:
    answer = {"variables": [], "lost_a": [], "lost_b": [], "truncated": True, "files": [
        {"path": "l", "change": "changed", "a": None, "b": None, "type_a": "link", "type_b": "link",
         "target_a": "old", "target_b": "\x1b[2Jnew", "mode_a": 0o777, "mode_b": 0o777, "size_a": 0, "size_b": 0},
        {"path": "d", "change": "added", "a": None, "b": None, "type_b": "dir", "mode_b": 0o755, "size_b": 0},
        {"path": "p", "change": "added", "a": None, "b": None, "type_b": "deleted", "mode_b": 0, "size_b": 0},
        {"path": "\ufffd", "path_hex": b"\xff\x0ax".hex(), "change": "removed", "a": None, "b": None,
         "type_a": "dir", "mode_a": 0o700, "size_a": 0}]}
    with ScriptedDaemon({"diff": answer}) as daemon:
        done = daemon.cli("diff", "a", "b")
        assert done.stdout == (
            'diff a/l b/l\nold link to old\nnew link to "\\033[2Jnew"\n'
            "diff a/d b/d\nnew dir mode 755\n"
            "diff a/p b/p\ndeleted file of the project\n"
            'diff "a/\\377\\012x" "b/\\377\\012x"\ndeleted dir mode 700\n')
        assert "there are more than one answer can hold" in done.stderr
        harmless(daemon.on_terminal("diff", "a", "b", env={"PAGER": "cat"}))


PLANTED = "int\x1b[2J\n--- /dev/null\n+++ b/planted\n@@ -0,0 +1 @@\n+planted\n"


def test_no_hunk_is_planted_by_what_is_compared(tmp_path: Path) -> None:
    blobs, answer = difference()
    link = {"path": "l", "change": "added", "a": None, "b": None, "type_b": "link", "target_b": PLANTED,
            "mode_b": 0o777, "size_b": 0}
    spaced = changed("a.txt x", "changed", "old", "new", blobs)
    answer["files"] = [link, spaced, changed("new.txt", "added", None, "added", blobs)]
    answer["variables"] = [{"name": "x", "change": change, "type_a": one, "type_b": other}
                           for change, one, other in (("added", None, PLANTED), ("removed", PLANTED, None),
                                                      ("changed", PLANTED, PLANTED), ("changed", "int", PLANTED))]
    with ScriptedDaemon({"diff": answer, "blob": blobs}) as daemon:
        text = daemon.cli("diff", "a", "b").stdout
    assert "\x1b" not in text and "\n+++ b/planted" not in text and text.count("planted\\012") == 10
    assert '+++ "b/a.txt x"\n' in text
    if shutil.which("patch") is None:
        pytest.skip("patch is not installed")
    for name in ("a.txt", "a.txt x"):
        (tmp_path / name).write_bytes(blobs.contents["old"])
    subprocess.run(["patch", "-p1", "-d", tmp_path], input=text, text=True, check=True)
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "a.txt x", "new.txt"]
    assert (tmp_path / "a.txt").read_bytes() == blobs.contents["old"]
    assert (tmp_path / "a.txt x").read_bytes() == blobs.contents["new"]


def test_diff_can_be_given_to_patch(tmp_path: Path) -> None:
    blobs, answer = difference()
    answer["files"] = answer["files"][:3]
    (tmp_path / "a.txt").write_bytes(blobs.contents["old"])
    (tmp_path / "gone.txt").write_bytes(blobs.contents["added"])
    with ScriptedDaemon({"diff": answer, "blob": blobs}) as daemon:
        text = daemon.cli("diff", "a", "b").stdout
    if shutil.which("patch") is None:
        pytest.skip("patch is not installed")
    subprocess.run(["patch", "-p1", "-d", tmp_path], input=text, text=True, check=True)
    assert (tmp_path / "a.txt").read_bytes() == blobs.contents["new"]
    assert (tmp_path / "new.txt").read_bytes() == b"fresh\n" and not (tmp_path / "gone.txt").exists()


def test_diff_on_a_terminal_is_coloured_and_harmless() -> None:
    blobs, answer = difference()
    answer["files"].pop()  # a terminal takes long to write the big one
    with ScriptedDaemon({"diff": answer, "blob": blobs}) as daemon:
        text = daemon.on_terminal("diff", "a", "b", env={"PAGER": "cat"})
        assert b"\x1b[32m+2\x1b[0m\n" in text and b"\x1b[31m-two\x1b[0m\n" in text
        assert "+\\x1b]0;owned\\x07 text" in harmless(text)
        assert b"\x1b[32m" not in daemon.on_terminal("diff", "a", "b", env={"PAGER": "cat", "NO_COLOR": "1"})


def test_diff_uses_the_pager_on_a_terminal_only(tmp_path: Path) -> None:
    blobs, answer = difference()
    answer["files"].pop()  # a terminal takes long to write the big one
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho \"paged $1 $LESS\"\nhead -c 20\n")
    pager.chmod(0o755)
    with ScriptedDaemon({"diff": answer, "blob": blobs}) as daemon:
        env = {"PAGER": "pager -x", "PATH": f"{tmp_path}:/usr/bin:/bin"}
        assert daemon.on_terminal("diff", "a", "b", env=env).startswith(b"paged -x FRX\n")
        assert b"paged" not in daemon.on_terminal("diff", "a", "b", "--no-pager", env=env)
        assert "paged" not in daemon.cli("diff", "a", "b", env=env).stdout
        own = {**env, "SNIPARA_SANDBOX_PAGER": ""}
        assert b"paged" not in daemon.on_terminal("diff", "a", "b", env=own)
        missing = {"PAGER": "/nonexistent/pager"}
        assert b"+2" in daemon.on_terminal("diff", "a", "b", env=missing)


def test_diff_stat_and_json() -> None:
    blobs, answer = difference()
    answer["files"] = answer["files"][:4]
    with ScriptedDaemon({"diff": answer, "blob": blobs}) as daemon:
        stat = daemon.cli("diff", "a", "b", "--stat").stdout
        assert stat.endswith(" a.txt | +2 -1\n new.txt | +1 -0\n gone.txt | +0 -1\n b.bin | 200 B -> 14 B\n"
                             "4 variables, 4 files changed, 3 lines added, 2 removed\n")
        found = json.loads(daemon.cli("diff", "a", "b", "--json").stdout)
        assert found["variables"] == answer["variables"]
        assert [row["unified"] is None for row in found["files"]] == [False, False, False, True]
        assert found["files"][0]["unified"].startswith("@@ -1,3 +1,4 @@\n")


def test_a_content_that_never_ends_or_lies_about_its_size_is_refused() -> None:
    endless = {"diff": {"variables": [], "files": [
        {"path": "f", "change": "changed", "a": "h", "b": "g", "type_a": "file", "type_b": "file", "size_a": 5,
         "size_b": 5, "mode_a": 0, "mode_b": 0}]},
        "blob": ({"size": 5, "eof": False}, b"x" * (1 << 20))}
    with ScriptedDaemon(endless) as daemon:
        done = daemon.cli("diff", "a", "b")
        assert done.returncode == 1 and "a file is larger than the daemon reported" in done.stderr


# History -------------------------------------------------------------------------------------------


def cell_row(cell: int, **members: Any) -> Json:
    return {"cell": cell, "epoch": 1, "kind": "python", "status": "ok", "state": "kept", "started": NOW - 5,
            "wall_us": 12345, "first_line": f"x = {cell}", **members}


def test_history_lists_cells_oldest_first_page_by_page() -> None:
    rows = [cell_row(n) for n in range(2500, 0, -1)]

    def answer(head: Json, raw: bytes) -> Json:
        before = head.get("before", 10**9)
        return {"cells": [row for row in rows if row["cell"] < before][:min(head["limit"], 1000)]}

    with ScriptedDaemon({"history": answer}) as daemon:
        lines = daemon.cli("history", "work").stdout.splitlines()
        assert lines[0].split() == ["Cell", "Status", "State", "Started", "Took", "Code"]
        assert [int(line.split()[0]) for line in lines[1:]] == list(range(2451, 2501))
        assert lines[-1].endswith("12 ms  x = 2500")
        found = json.loads(daemon.cli("history", "work", "-n", "5000", "--json").stdout)["cells"]
        assert [row["cell"] for row in found] == list(range(2500, 0, -1))
        assert "earlier cells" in daemon.cli("history", "work", "--before", "100", "-n", "3").stderr
        rows[-1:] = []  # internal
        assert "earlier cells" not in daemon.cli("history", "work", "--before", "3", "-n", "3").stderr
        assert daemon.cli("history", "work", "-n", "0").returncode == 2


def test_history_shows_hostile_first_lines_harmlessly_and_unknown_cells() -> None:
    rows = {"cells": [cell_row(2, status="unknown", state=None, wall_us=None, first_line=HOSTILE), cell_row(1)]}
    with ScriptedDaemon({"history": rows}) as daemon:
        text = harmless(daemon.on_terminal("history", "work"))
        assert "evil\\x1b]0;owned\\x07" in text and re.search(r"2 +unknown +- ", text)


RESULT: Json = {"status": "error", "state": "kept", "cell": 3, "name": "work", "value": "6",
                "error": {"type": "E", "message": "m", "traceback": "Traceback\nE: m\n"}, "denials": [],
                "files": {"created": ["f.txt"], "modified": [], "deleted": []}, "output": {}}
PRINTED = [({"event": "stdout"}, f"out {HOSTILE}\n".encode()), ({"event": "stderr"}, b"warned\n")]
CODE = f"print('{HOSTILE}')\n6\n".encode()
SHOWN: Json = {"cell": 3, "epoch": 1, "kind": "python", "status": "error", "state": "kept", "started": NOW,
               "wall_us": 900,
               "argv": None, "stdin": True, "stdin_bytes": 5, "code_len": len(CODE), "result": RESULT}


def test_show_prints_code_output_and_end() -> None:
    with ScriptedDaemon({"cell.show": (SHOWN, CODE + b"input", PRINTED)}) as daemon:
        done = daemon.cli("show", "work:3")
        assert done.returncode == 0 and daemon.asked[0][0] == {"method": "cell.show", "session": "work", "cell": 3}
        assert done.stdout.startswith("cell 3 of work: error, kept, ")
        assert CODE.decode() in done.stdout and "standard input: 5 B\n" in done.stdout
        assert f"stdout\nout {HOSTILE}\nstderr\nwarned\n" in done.stdout
        assert "Traceback\nE: m\n" in done.stderr and "created: f.txt\n" in done.stderr
        text = harmless(daemon.on_terminal("show", "3", "-s", "work"))
        assert "print('evil\\x1b]0;owned" in text
        found = json.loads(daemon.cli("show", "work:3", "--json").stdout)
        assert found["code"].encode() == CODE and "code_len" not in found
        assert found["result"]["stdout"] == f"out {HOSTILE}\n" and found["result"]["stderr"] == "warned\n"
        assert found["result"]["value"] == "6" and found["result"]["error"]["type"] == "E"
        for wrong in ("work:x", "work:0", "-1"):
            assert daemon.cli("show", "--", wrong).returncode == 2
        assert daemon.cli("show", "work:1", "-s", "other").returncode == 2


def test_show_of_a_cell_without_an_end() -> None:
    for status, dropped, words in (("running", False, "it is running"), ("unknown", False, "its outcome is unknown"),
                                   ("refused", False, "it was refused before it ran"),
                                   ("ok", True, "removed to save disk space")):
        head = {**SHOWN, "status": status, "dropped": dropped, "state": None, "result": None}
        with ScriptedDaemon({"cell.show": (head, CODE, PRINTED)}) as daemon:
            text = daemon.cli("show", "work:3").stdout
            assert words in text and f"stdout\nout {HOSTILE}\n" in text
            found = json.loads(daemon.cli("show", "work:3", "--json").stdout)
            assert found["result"] is None and found["seen"]["stderr"] == "warned\n"


def test_a_record_that_does_not_fit_its_bytes_is_refused() -> None:
    with ScriptedDaemon({"cell.show": ({**SHOWN, "code_len": 1000}, CODE)}) as daemon:
        done = daemon.cli("show", "work:3")
        assert done.returncode == 1 and "does not fit its bytes" in done.stderr


# Rerun -----------------------------------------------------------------------------------------------


def recorded(head: Json, raw: bytes) -> tuple[Json, bytes]:
    code = f"cell{head['cell']}".encode()
    return {**SHOWN, "cell": head["cell"], "code_len": len(code), "argv": ["a", "b"], "wall_ms": 1500}, code + b"IN"


def ran(status: str) -> Callable[[Any, Any], tuple[dict[str, str | None], bytes, list[tuple[dict[str, str], bytes]]]]:
    return lambda head, raw: ({**RESULT, "status": status, "error": None}, b"",
                              [({"event": "stdout"}, b"printed\n")])


def test_rerun_sends_what_was_recorded_and_says_so() -> None:
    with ScriptedDaemon({"cell.show": recorded, "exec": ran("ok"), "history": {"cells": [cell_row(7)]}}) as daemon:
        done = daemon.cli("rerun", "work:3")
        assert done.returncode == 0 and "rerun: cell 3 of work\n" in done.stderr and "printed\n" in done.stdout
        head, raw = daemon.asked[-1]
        assert (head["kind"], head["code_len"], head["stdin"], head["argv"], raw) == (
            "python", 5, True, ["a", "b"], b"cell3IN")
        assert head["limits"] == {"timeout_ms": 1500}
        daemon.asked.clear()
        assert daemon.cli("rerun", "-s", "work").returncode == 0
        assert daemon.asked[-1][1] == b"cell7IN"
        daemon.asked.clear()
        found = json.loads(daemon.cli("rerun", "-s", "work", "--from", "5", "--json").stdout)
        assert [row["cell"] for row in found["reran"]] == [5, 6, 7]
        assert [raw for head, raw in daemon.asked if head["method"] == "exec"] == [b"cell5IN", b"cell6IN", b"cell7IN"]
        assert daemon.cli("rerun", "work:3", "--from", "2").returncode == 2
        assert daemon.cli("rerun", "-s", "work", "--from", "8").returncode == 1


def test_rerun_stops_at_a_failure_unless_told_to_go_on() -> None:
    with ScriptedDaemon({"cell.show": recorded, "exec": ran("error"), "history": {"cells": [cell_row(3)]}}) as daemon:
        done = daemon.cli("rerun", "-s", "work", "--from", "1")
        assert done.returncode == 1 and "stopped; cells 2 to 3 were not run" in done.stderr
        assert sum(head["method"] == "exec" for head, _ in daemon.asked) == 1
        daemon.asked.clear()
        assert daemon.cli("rerun", "-s", "work", "--from", "1", "-k").returncode == 1
        assert sum(head["method"] == "exec" for head, _ in daemon.asked) == 3


# Disk ---------------------------------------------------------------------------------------------------


def test_doctor_warns_of_what_the_journal_lost() -> None:
    def row(*events: Json) -> Json:
        script = {"stats": {"pid": 1, "sessions": 0}, "hello": {"program": "x"},
                  "probe": {"usable": True, "features": []},
                  "journal.events": {"events": list(events)}}
        with ScriptedDaemon(script) as daemon:
            done = daemon.cli("doctor", "--json")
            return next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "journal")

    damaged: Json = {"at": NOW - 60, "kind": "salvage", "session": None, "text": "journal.db was damaged and set aside"}
    gc: Json = {"at": NOW, "kind": "gc", "session": None, "text": "results were removed"}
    found = row(gc, damaged)
    assert (found["status"], found["detail"]) == ("warning", damaged["text"])
    assert "are lost" in found["cost"] and "the renamed file" in found["fix"] and found["events"] == [gc, damaged]
    lost: Json = {"at": NOW, "kind": "journal_lost", "session": None, "text": "journal.db is new"}
    found = row(gc, lost)
    assert (found["status"], found["detail"]) == ("warning", lost["text"]) and "remove the file" in found["fix"]
    unsaved: Json = {"at": NOW, "kind": "end_unsaved", "session": None, "text": "not saved when the daemon ended: a, b"}
    found = row(gc, unsaved)
    assert (found["status"], found["detail"]) == ("warning", unsaved["text"]) and "--recover" in found["fix"]
    old = {**damaged, "at": NOW - 30 * 86400}
    assert row(gc, old)["detail"] == damaged["text"], "until it is solved"
    harmless: list[list[Json]] = [[], [gc], [gc, {**old, "solved": True}], [{**lost, "solved": True}],
                                  [{**unsaved, "at": NOW - 30 * 86400}], [{**unsaved, "solved": True}]]
    for harmless_events in harmless:
        found = row(*harmless_events)
        assert found["status"] == "ok" and found["detail"] != lost["text"], found


def test_an_empty_list_after_a_loss_is_no_clean_one() -> None:
    for solved in False, True:
        event = {"at": NOW, "kind": "journal_lost", "session": None, "text": "journal.db is new", "solved": solved}
        with ScriptedDaemon({"sessions.list": {"sessions": []}, "journal.events": {"events": [event]}}) as daemon:
            done = daemon.cli("sessions", "list")
            assert done.stdout.startswith("no sessions\n"), done
            assert ("sessions may be missing: the journal was lost or damaged" in done.stderr) != solved, done


def test_missing_puts_are_named() -> None:
    restored = {"checkpoint": 1, "cell": 2, "missing": [3], "replayed": [], "failed": [],
                "missing_puts": ["a.csv", HOSTILE + "\nb", "c", "d", "e", "f"], "wake_us": 1}
    head = {**SHOWN, "result": {**SHOWN["result"], "restored": restored}}
    with ScriptedDaemon({"cell.show": (head, CODE, PRINTED)}) as daemon:
        text = daemon.cli("show", "work:3").stderr
        assert "not restored: files that were put later: a.csv, evil\\x1b" in text and ", e and 1 more\n" in text


def test_checkpoint_hibernate_and_gc() -> None:
    answers = {
        "checkpoint": {"checkpoint": "c", "cell": 4, "items": 12, "written_bytes": 4096, "same_items": 9, "us": 48000,
                       "lost": [{"name": "sock", "type": "socket", "reason": "no"}]},
        "hibernate": {}, "gc": {"freed_bytes": 1 << 20, "blobs": 3, "bytes": 2048}}
    with ScriptedDaemon(answers) as daemon:
        done = daemon.cli("checkpoint", "work")
        assert done.stdout == "Saved work after cell 4: 12 items, 9 unchanged, 4 KiB written in 48 ms\n"
        assert done.stderr == "not saved: sock (socket): no\n"
        assert daemon.cli("hibernate", "work").stdout == "Hibernated work; the next cell wakes it.\n"
        assert daemon.cli("gc", "--budget", "2g").stdout == "Freed 1 MiB (3 stored items); the journal uses 2 KiB.\n"
        assert daemon.asked[-1][0] == {"method": "gc", "budget_bytes": 2 << 30}
        assert daemon.cli("gc", "--budget", "much").returncode == 2


def test_export_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    whole: Any = ({"lost": []}, b"", [({"event": "data"}, b"abc"), ({"event": "data"}, b"def")])
    target = tmp_path / "work.snp"
    with ScriptedDaemon({"export": [whole, whole, (Failure("limit", "disk"), b"", []), whole]}) as daemon:
        assert daemon.cli("export", target, "-s", "work").returncode == 0
        assert target.read_bytes() == b"abcdef" and target.stat().st_mode & 0o777 == 0o600
        refused = daemon.cli("export", target, "-s", "work")
        assert refused.returncode == 1 and "--force replaces it" in refused.stderr
        assert daemon.cli("export", "-", "-s", "work@x").stdout == "abcdef"
        assert daemon.asked[-1][0] == {"method": "export", "from": "work@x"}


def special_places(tmp_path: Path) -> tuple[Path, Path, Path]:
    """(path, what reads it or None): a FIFO, a device and a link to it; and what is never replaced."""
    fifo, link, other = tmp_path / "fifo", tmp_path / "null", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to("/dev/null")
    (tmp_path / "file").write_bytes(b"kept")
    other.symlink_to("file")
    return fifo, link, other


@pytest.mark.parametrize("verb", ["export", "get"])
def test_devices_fifos_and_links_are_never_replaced(tmp_path: Path, verb: str) -> None:
    data: Any = ({"lost": []}, b"", [({"event": "data"}, b"abcdef")])
    script = {"export": lambda head, raw: data, "get": lambda head, raw: ({"eof": True, "mode": 0o644}, b"abcdef")}
    fifo, device, link = special_places(tmp_path)

    def write(path: Path) -> subprocess.CompletedProcess[str]:
        args = ("export", "--force", path, "-s", "work") if verb == "export" else ("get", "--force", "work:f", path)
        return daemon.cli(*args)

    with ScriptedDaemon(script) as daemon:
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        assert write(fifo).returncode == 0 and os.read(reader, 100) == b"abcdef"
        os.close(reader)
        assert write(device).returncode == 0
        refused = write(link)
        assert refused.returncode == 2 and "is not a regular file, and is not replaced" in refused.stderr
        assert write(tmp_path / "file").returncode == 0
    assert stat.S_ISFIFO(os.lstat(fifo).st_mode) and os.readlink(device) == "/dev/null" and os.readlink(link) == "file"
    assert (tmp_path / "file").read_bytes() == b"abcdef" and len(os.listdir(tmp_path)) == 4


def test_a_failed_export_leaves_nothing(tmp_path: Path) -> None:
    def fails(head: Json, raw: bytes) -> Failure:
        return Failure("limit", "no room")

    with ScriptedDaemon({"export": fails}) as daemon:
        done = daemon.cli("export", tmp_path / "x", "-s", "work")
        assert done.returncode == 1 and "no room" in done.stderr and os.listdir(tmp_path) == []


def test_import_sends_all_in_order(tmp_path: Path) -> None:
    source = tmp_path / "work.snp"
    data = os.urandom((2 << 20) + 17)
    source.write_bytes(data)
    answers = {"import.begin": {"token": "t"}, "import.data": {},
               "import.end": {"session": "i", "name": "mine", "notes": ["memory: 512 MiB here"], "lost": [],
                              "failed": [{"name": "df", "reason": "No module named 'pandas'"}]}}
    with ScriptedDaemon(answers) as daemon:
        done = daemon.cli("import", source, "--name", "mine")
        assert done.stdout == "mine\n"
        assert "warning: memory: 512 MiB here" in done.stderr
        assert "could not be restored: df: No module named 'pandas'" in done.stderr
        begun = daemon.asked[0][0]
        assert (begun["method"], begun["name"], begun["tier"]) == ("import.begin", "mine", "auto")
        assert begun["limits"]["memory_bytes"] == 512 << 20 and begun["allow_degraded"] is False
        assert b"".join(raw for head, raw in daemon.asked if head["method"] == "import.data") == data
        daemon.asked.clear()
        assert daemon.cli("import", tmp_path / "missing").returncode == 1
        assert daemon.cli("import", source, "--name", "../x").returncode == 2
        os.mkfifo(tmp_path / "fifo")
        assert daemon.cli("import", tmp_path / "fifo").returncode == 2
        assert daemon.asked == []


def test_a_running_cell_is_cut_off_only_when_told() -> None:
    asked = []

    def clear(head: Json, _: bytes) -> Any:
        asked.append(head)
        return Failure("denied", "session work runs cell 3") if head.get("idle_only") else {
            "cleared": True, "epoch": 2, "ended": {"cell": 3, "ran_ms": 12000, "waiting": 0}}

    with ScriptedDaemon({"sessions.clear": clear}) as daemon:
        done = daemon.cli("sessions", "clear", "work")
        assert (done.returncode, done.stdout) == (1, "") and "session work runs cell 3" in done.stderr
        done = daemon.cli("sessions", "clear", "work", "--yes")
        assert done.returncode == 0 and "cut off: cell 3 of work, which had run for 12 s" in done.stderr
        assert [head.get("idle_only") for head in asked] == [True, None]
        for answer, times, status in ((b"n\n", 1, 1), (b"y\n", 2, 0)):
            del asked[:]
            text = daemon.on_terminal("sessions", "clear", "work", typed=answer, status=status)
            assert b"Clear the session and cut the cell off? [y/N]" in text and len(asked) == times, text


def test_sessions_of_others_are_left_unless_named() -> None:
    users: list[Json] = [{"name": "mine"}, {"name": "default"}, {"name": "default-0123abcd"}, {"name": None},
                         {"name": "job", "client": 7}]
    rows = [{"id": f"{i:032x}", "tier": "native", "template": "base", "state": "idle", **row}
            for i, row in enumerate(users)]
    ended = []

    def destroy(head: Json, _: bytes) -> Any:
        ended.append(head["session"])
        return {"destroyed": True}

    with ScriptedDaemon({"sessions.list": {"sessions": rows}, "sessions.destroy": destroy}) as daemon:
        done = daemon.cli("sessions", "destroy", "--all")
        assert (done.returncode, done.stdout, ended) == (0, "destroyed mine\n", [rows[0]["id"]]), done
        left = [line.split()[1] for line in done.stderr.splitlines()]
        assert left == ["default", "default-0123abcd", f"{3:032x}", "job"]
        for words, typed, count in (["--all"], b"n\n", 0), (["--all"], b"y\n", 1), (["--all", "--yes"], b"", 1):
            del ended[:]
            text = daemon.on_terminal("sessions", "destroy", *words, typed=typed, status=0 if count else 1)
            assert (b"Destroy 1 session and everything in it? [y/N]" in text) == (typed != b""), text
            assert len(ended) == count, text
        assert daemon.cli("sessions", "destroy", "job", "default").stdout == "destroyed job\ndestroyed default\n"


def test_tables_fit_80_columns() -> None:
    session = {"id": f"{1:032x}", "name": "work", "tier": "native", "state": "hibernated", "cells": 12, "used": 1,
               "memory_peak_bytes": 123 << 20, "project": "/home/someone/projects/one"}
    fix = " ".join(f"word{i}" for i in range(40))
    with ScriptedDaemon({"sessions.list": {"sessions": [session]},
                         "probe": {"usable": True, "features": [{"name": "a control", "ok": False, "fix": fix}]},
                         "stats": {"pid": 1, "sessions": 1}, "journal.events": {"events": []}}) as daemon:
        lines = harmless(daemon.on_terminal("sessions", columns=80)).splitlines()
        assert [line.split()[0] for line in lines] == ["Name", "work"] and max(map(len, lines)) <= 80, lines
        assert lines[1].split()[:2] == ["work", "hibernated"] and "/home/some" in lines[1], lines
        lines = harmless(daemon.on_terminal("doctor", columns=80)).splitlines()
        assert max(map(len, lines)) <= 80 and fix in " ".join(" ".join(lines).split()), lines


@pytest.mark.parametrize("code, message", [
    ("unsupported", "unknown method 'sessions.set'; did you mean 'sessions.list'?"),
    ("invalid", "sessions.set: unknown member 'limits'")])
def test_an_older_daemon_is_to_be_restarted(code: str, message: str) -> None:
    with ScriptedDaemon({"sessions.set": Failure(code, message)}) as daemon:
        done = daemon.cli("sessions", "set", "work", "--cpus", "2")
    assert done.returncode == 1 and done.stderr == (
        f"snipara-sandbox sessions set: the running daemon is older than this program ({message.split(';')[0]})\n"
        "  restart it with: snipara-sandbox daemon stop\n"), done


def test_members_that_an_older_daemon_lacks_are_left_out(tmp_path: Path) -> None:
    def put(head: Json, raw: bytes) -> Any:
        return Failure("invalid", "put: unknown member 'more'") if "more" in head else {"size": len(raw)}

    def shutdown(head: Json, _: bytes) -> Any:
        return Failure("invalid", "shutdown: unknown member 'force'") if "force" in head else {"lost": []}

    def cell(head: Json, _: bytes) -> Any:
        return Failure("invalid", "exec: 'defaults': limits: unknown member 'configured'") \
            if "configured" in head["defaults"] else (RESULT, b"", PRINTED)

    file = tmp_path / "large"
    file.write_bytes(bytes(3 << 20))
    with ScriptedDaemon({"put": put, "exec": cell, "shutdown": shutdown, "stats": {"sessions": 0, "pid": 1 << 30},
                         "sessions.list": {"sessions": []}}) as daemon:
        for words in ["put", str(file), "work:large"], ["daemon", "stop", "--force"]:
            done = daemon.cli(*words)
            assert done.returncode == 0, done
        done = daemon.cli("exec", "-s", "work", "--json", "6", env={"SNIPARA_SANDBOX_MEMORY": "300m"})
        assert json.loads(done.stdout)["value"] == "6", done
        assert [head["defaults"].pop("configured", None) for head, _ in daemon.asked[-2:]] == [["memory"], None]
        assert daemon.asked[-1] == daemon.asked[-2]


def test_sessions_clear() -> None:
    with ScriptedDaemon({"sessions.clear": {"session": "work", "epoch": 2}}) as daemon:
        assert daemon.cli("sessions", "clear", "work").stdout.startswith("cleared work: ")
