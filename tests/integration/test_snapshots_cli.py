# SPDX-License-Identifier: Apache-2.0
"""Snapshots, forks, differences and exported sessions of real sandboxes, through the command line."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from lib import Sandbox

CODE = """
import collections, dataclasses
class Point:
    def __init__(self, x): self.x = x
    def twice(self): return self.x * factor
factor = 2
rows = [{"n": n} for n in range(5)]
alias = rows
point = Point(21)
double = lambda n: n * factor
open("notes.txt", "w").write("one\\ntwo\\nthree\\n")
open("data.bin", "wb").write(bytes(range(256)))
"""


@pytest.fixture(params=[("root", "native"), ("user", "native"), ("root", "local"), ("user", "local"),
                        ("root", "docker")], ids=lambda param: "-".join(param))
def box(request: pytest.FixtureRequest, fresh_sandbox: Callable[..., Sandbox]) -> Sandbox:
    return fresh_sandbox(request.param[0], tier=request.param[1])


def value(box: Sandbox, code: str, session: str = "work") -> Any:
    result = box.exec(code, session=session)
    assert result["status"] == "ok", result
    return result["value"]


def answer(box: Sandbox, *args: str, status: int = 0) -> Any:
    done = box.cli(*args, "--json")
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def test_back_to_a_snapshot_with_variables_and_files(box: Sandbox) -> None:
    value(box, CODE)
    taken = answer(box, "snapshot", "loaded", "--wait")
    assert "disk" in taken["where"] and taken["cell"] == 1
    value(box, "rows.clear(); factor = 3; del point; open('notes.txt', 'a').write('four\\n'); "
               "import os; os.remove('data.bin'); os.mkdir('new')")
    back = answer(box, "rollback", "loaded")
    assert back["how"] == ("memory" if "memory" in taken["where"] else "checkpoint")
    look = ("(len(rows), rows is alias, point.twice(), double(4), open('notes.txt').read(), "
            "sorted(__import__('os').listdir('.')))")
    whole = "(5, True, 42, 8, 'one\\ntwo\\nthree\\n', ['data.bin', 'notes.txt'])"
    assert value(box, look) == whole
    value(box, "factor = 10")  # what came back sees what is bound later
    assert value(box, "point.twice(), double(4)") == "(210, 40)"
    answer(box, "hibernate", "work")
    assert answer(box, "rollback", "loaded")["how"] == "checkpoint"
    assert value(box, look) == whole


def test_an_unknown_snapshot_names_the_nearest(box: Sandbox) -> None:
    value(box, "1")
    for name in ("loaded", "later"):
        answer(box, "snapshot", f"work@{name}")
    for words, nearest in (("rollback wrok@loaded", "work@loaded"), ("rollback laoded", "loaded"),
                           ("diff work@lter work", "work@later"),
                           ("snapshots remove work@loadde", "work@loaded"), ("fork lodaed -s work", "work@loaded"),
                           ("rollback work@xyz", None)):
        done = box.cli(*words.split())
        assert done.returncode == 1 and ": no s" in done.stderr, done.stderr
        assert (f"did you mean '{nearest}'?" if nearest
                else "\n") in done.stderr and (nearest is not None) == ("mean" in done.stderr), done.stderr


def test_what_differs(box: Sandbox) -> None:
    value(box, CODE)
    answer(box, "snapshot", "a", "--wait")
    value(box, "rows = {}; extra = 1; del point; open('notes.txt', 'w').write('one\\n2\\nthree\\n'); "
               "open('data.bin', 'ab').write(b'\\0'); open('new.txt', 'w').write('n\\n')")
    done = box.cli("diff", "work@a", "work")
    assert done.returncode == 0, done.stderr
    for line in ("variable rows: changed, list to dict", "variable extra: added, int", "variable point: removed, Point",
                 "-two", "+2", "+++ b/new.txt", "Binary files a/data.bin and b/data.bin differ (256 B, 257 B)"):
        assert line in done.stdout.splitlines(), (line, done.stdout)
    assert "variable factor" not in done.stdout and "double" not in done.stdout


def test_forks_of_a_snapshot(box: Sandbox) -> None:
    value(box, CODE)
    answer(box, "snapshot", "a", "--wait")
    value(box, "factor = 99")
    made = answer(box, "fork", "work@a", "-n", "2", "--name", "try")
    assert [item["name"] for item in made["sessions"]] == ["try-1", "try-2"]
    for name in ("try-1", "try-2"):
        assert value(box,
                     f"factor, point.twice(), open('{name}', 'w').write('x'), sorted(__import__('os').listdir('.'))",
                     name) == f"(2, 42, 1, ['data.bin', 'notes.txt', '{name}'])"
    assert value(box, "factor") == "99"


def test_export_in_one_state_folder_and_import_in_another(box: Sandbox, fresh_sandbox: Callable[..., Sandbox]) -> None:
    value(box, CODE)
    box.exec("generator = (n for n in range(3))", session="work")
    target = os.path.join(box.home, "work.snp")
    done = box.cli("export", target, "-s", "work")
    assert done.returncode == 0, done.stderr
    assert "not in the file: generator (generator):" in done.stderr
    assert os.stat(target).st_mode & 0o777 == 0o600
    other = fresh_sandbox(box.who, tier=box.tier)
    with open(target, "rb") as file:
        there = other.make_file("work.snp", file.read())
    options = [] if box.tier == "native" else ["--env", box.tier]
    done = other.cli("import", there, "--name", "mine", "--memory", "256m", *options)
    assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr
    assert "memory is 256 MiB here, not 512 MiB as in the file" in done.stderr
    assert value(other, "len(rows), rows is alias, point.twice(), double(4), open('notes.txt').read()[:3]",
                 "mine") == "(5, True, 42, 8, 'one')"
    assert "one\\ntwo" in other.cli("show", "mine:1").stdout
    done = other.cli("import", there, "--name", "large", "--memory", "1g", "--timeout", "60", "--json", *options)
    assert "memory is 1 GiB here, not 512 MiB as in the file" in json.loads(done.stdout)["notes"], done
    limits = json.loads(other.cli("sessions", "show", "large", "--json").stdout)["limits"]
    assert (limits["memory_bytes"], limits["timeout_ms"], limits["cpus_milli"]) == (1 << 30, 60000, 1000)
    refused = other.cli("import", there, "--name", "mine", *options)
    assert refused.returncode == 1 and "session mine already exists" in refused.stderr


def test_history_and_rerun(box: Sandbox) -> None:
    value(box, "x = 1")
    value(box, "x += 1")
    done = box.cli("rerun", "-s", "work", "--from", "2")
    assert done.returncode == 0, done.stderr
    assert value(box, "x") == "3"
    first = box.exec("import sys; sys.stdin.read()", session="fed", stdin="given")
    again = answer(box, "rerun", "fed:1")["reran"][0]["result"]
    assert first["value"] == again["value"] == "'given'" and again["cell"] == 2
    refused = box.cli("rerun", "-s", "fed", "--from", "9")
    assert refused.returncode == 1 and "the last cell of fed is 2" in refused.stderr
    rows = answer(box, "history", "work")["cells"]
    assert [row["rerun_of"] for row in rows] == [None, 2, None, None]
    assert [(row["cell"], row["status"], row["first_line"]) for row in rows] == [
        (4, "ok", "x"), (3, "ok", "x += 1"), (2, "ok", "x += 1"), (1, "ok", "x = 1")]
    assert "kept, rerun of 2" in box.cli("history", "work").stdout
    again = answer(box, "rerun", "-s", "work", "--from", "2")["reran"]
    assert [row["cell"] for row in again] == [2, 4]  # not the rerun between them
    shown = answer(box, "show", "work:4")
    assert (shown["code"], shown["result"]["value"]) == ("x", "3")
