# SPDX-License-Identifier: Apache-2.0
"""Snapshots, rollback, fork, diff, export and import in the daemon, with a tier that obeys.

The tier is scripted_tier.py; its branches are copies of its variables and files.
"""

import contextlib
import hashlib
import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from daemons import Client, Daemon, kill
from lib import ERROR, HEADER, PATIENCE, Json, RESPONSE, wait_for
from test_durable import LATER, history, row

SUM = 90  # the last frame of an exported file
WITHOUT_PICKLE = "globals().update(gen=(i for i in range(9)))"


def good(answer: tuple[int, Json, bytes, list[tuple[Json, bytes]]]) -> Json:
    kind, head, _, _ = answer
    assert kind == RESPONSE, head
    return head


def bad(answer: tuple[int, Json, bytes, list[tuple[Json, bytes]]]) -> Json:
    kind, head, _, _ = answer
    assert kind == ERROR, head
    return head


def take(client: Client, name: str | None = None, session: str = "s", wait: bool = True, **members: Any) -> Json:
    return good(client.call("snapshot", session=session, name=name, wait=wait, **members))


def listed(client: Client, session: str | None = None) -> Json:
    answer = good(client.call("snapshots.list", **({"session": session} if session else {})))
    return {item["name"]: item for item in answer["snapshots"]}


def sessions(client: Client) -> Json:
    return {item["name"]: item for item in good(client.call("sessions.list"))["sessions"]}


def put(client: Client, path: str, data: bytes, session: str = "s") -> None:
    good(client.call("put", data, session=session, path=path, offset=0, truncate=True))


def get(client: Client, path: str, session: str = "s") -> Any:
    kind, head, raw, _ = client.call("get", session=session, path=path, offset=0, length=1 << 20)
    return raw if kind == RESPONSE else None


# Taking and listing -----------------------------------------------------------------------------------


def test_a_snapshot_is_in_memory_and_on_disk_with_a_row(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    first = take(client, "clean")
    assert (first["name"], first["cell"], first["parent"], first["where"], first["lost"]) == (
        "clean", 1, None, ["memory", "disk"], [])
    client.run(WITHOUT_PICKLE, "s")
    second = take(client)
    assert (second["name"], second["parent"]) == ("s1", first["snapshot"])
    assert [(item["name"], item["type"]) for item in second["lost"]] == [("gen", "generator")]
    assert take(client)["name"] == "s2"
    rows = listed(client)
    assert list(rows) == ["clean", "s1", "s2"] and rows["s1"]["parent"] == first["snapshot"]
    assert all(item["where"] == ["memory", "disk"] and item["bytes"] > 0 for item in rows.values())
    assert rows["s1"]["lost"][0]["name"] == "gen" and rows["s1"]["session_name"] == "s"
    answer = good(client.call("snapshots.list", session="s"))
    assert answer["head"] == rows["s2"]["id"]
    assert answer["heads"] == [{"session": row(client)["id"], "name": "s", "snapshot": rows["s2"]["id"]}]
    taken = bad(client.call("snapshot", session="s", name="clean"))
    assert taken["code"] == "denied" and "clean" in taken["message"]
    assert client.run("branches()", "s") == "[1, 2, 3]"  # the branch of the one that was refused is gone


@pytest.mark.parametrize("name", ["a b", "../x", "", "-x", "0" * 32, "x" * 65])
def test_names_of_snapshots_are_checked(start: Callable[..., Daemon], name: str) -> None:
    client = start(*LATER).client()
    client.run("1", "s")
    assert bad(client.call("snapshot", session="s", name=name))["code"] == "invalid"
    assert listed(client) == {} and client.run("branches()", "s") == "[]"


def test_a_snapshot_waits_for_the_running_cell_and_cells_wait_for_it(start: Callable[..., Daemon],
                                                                     tmp_path: Path) -> None:
    daemon = start(*LATER)
    client, other = daemon.client(), daemon.client()
    client.run("globals().update(x=1)", "s")
    go = tmp_path / "go"
    cell = client.start(f"until({str(go)!r}), globals().update(x=2)", "s")
    assert wait_for(lambda: row(other)["state"] == "running")
    snapshot = other.send({"method": "snapshot", "session": "s", "name": "after"})
    other.call("hello", version=1)  # it has been asked
    go.touch()
    assert client.end_of(cell)[0] == RESPONSE
    assert good(other.end_of(snapshot))["cell"] == 2
    client.run("globals().update(x=3)", "s")
    good(other.call("rollback", snapshot="after"))
    assert client.run("x", "s") == "2"


def test_without_a_branch_it_goes_by_disk_and_says_why(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("refuse('threads: worker-1'), globals().update(x=5)", "s")
    taken = take(client, "t")
    assert (taken["where"], taken["not_in_memory"]) == (["disk"], "threads: worker-1")
    client.run("globals().update(x=6)", "s")
    back = good(client.call("rollback", snapshot="t"))
    assert back["how"] == "checkpoint" and client.run("x", "s") == "5"


def test_a_hibernated_session_can_be_kept_too(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=5)", "s")
    good(client.call("hibernate", session="s"))
    assert take(client, "cold")["where"] == ["disk"] and row(client)["state"] == "hibernated"
    client.run("globals().update(x=6)", "s")
    assert good(client.call("rollback", snapshot="cold"))["how"] == "checkpoint"
    assert client.run("x", "s") == "5"


def test_removing_forgets_branch_row_and_mends_the_tree(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    for name in "abc":
        client.run("1", "s")
        take(client, name)
    ids = {name: item["id"] for name, item in listed(client).items()}
    assert good(client.call("snapshots.remove", snapshot="s@b"))["removed"] == ids["b"]
    rows = listed(client)
    assert list(rows) == ["a", "c"] and rows["c"]["parent"] == ids["a"]
    assert client.run("branches()", "s") == "[1, 3]"
    assert bad(client.call("snapshots.remove", snapshot="b"))["code"] == "not_found"
    assert bad(client.call("rollback", snapshot="b"))["code"] == "not_found"


def test_memory_is_bounded_the_oldest_goes_first_and_only_from_memory(start: Callable[..., Daemon]) -> None:
    client = start(*LATER, "--snapshots-in-memory", "2").client()
    for n in range(1, 5):
        client.run(f"globals().update(x={n})", "s")
        take(client, f"n{n}")
    assert wait_for(lambda: client.run("branches()", "s") == "[3, 4]")
    assert [item["where"] for item in listed(client).values()] == [
        ["disk"], ["disk"], ["memory", "disk"], ["memory", "disk"]]
    assert good(client.call("rollback", snapshot="n1"))["how"] == "checkpoint"
    assert client.run("x", "s") == "1"


def test_memory_is_bounded_by_bytes_too(start: Callable[..., Daemon]) -> None:
    client = start(*LATER, "--snapshots-memory", "100m").client()
    client.run(f"each({40 << 20})", "s")
    for name in "abc":
        take(client, name)
    assert wait_for(lambda: client.run("branches()", "s") == "[2, 3]")
    assert [item["where"] for item in listed(client).values()] == [
        ["disk"], ["memory", "disk"], ["memory", "disk"]]
    assert row(client)["snapshots_bytes"] == 80 << 20
    client.run(f"each({200 << 20})", "s")  # the memory of one is too much
    take(client, "d")
    assert wait_for(lambda: client.run("branches()", "s") == "[]")
    assert [item["where"] for item in listed(client).values()] == [["disk"]] * 4
    assert good(client.call("rollback", snapshot="d"))["how"] == "checkpoint"


def test_half_the_memory_of_a_session_is_for_snapshots(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run(f"each({33 << 20})", "s", limits={"memory_bytes": 128 << 20})
    for name in "ab":
        take(client, name)
    assert wait_for(lambda: client.run("branches()", "s") == "[2]")


def test_what_the_tier_gave_up_is_not_said_to_be_in_memory(start: Callable[..., Daemon], tmp_path: Path) -> None:
    client = start(*LATER).client()
    client.run("1", "s")
    for name in "ab":
        take(client, name)
    client.run("give_up(1)", "s")
    take(client, "c")  # when it is on disk the tier is asked
    assert wait_for(lambda: listed(client)["a"]["where"] == ["disk"])
    assert listed(client)["b"]["where"] == ["memory", "disk"]
    # One that nothing else has is no snapshot any more.
    go = tmp_path / "go"
    client.run(f"slow({str(go)!r})", "s")
    take(client, "first", wait=False)
    take(client, "second", wait=False)
    client.run("give_up(5)", "s")
    go.touch()
    assert wait_for(lambda: list(listed(client)) == ["a", "b", "c", "first"])
    assert any(event["kind"] == "snapshot_lost" and "s@second" in event["text"]
               for event in client.call("journal.events")[1]["events"])


def test_a_name_in_two_sessions_must_say_which(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    for name in ("one", "two"):
        client.run("1", name)
        take(client, "same", name)
    answer = bad(client.call("rollback", snapshot="same"))
    assert answer["code"] == "invalid" and "@" in answer["message"]
    good(client.call("rollback", snapshot="same", session="two"))
    good(client.call("rollback", snapshot="one@same"))


def test_a_rollback_of_two_minds_does_nothing(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    for name in ("one", "two"):
        client.run("globals().update(x=1)", name)
        ident = take(client, "same", name)["snapshot"]
        client.run("globals().update(x=2)", name)
    for snapshot, session in (("one@same", "two"), (ident, "one"), ("one@same", "none")):
        answer = bad(client.call("rollback", snapshot=snapshot, session=session))
        assert answer["code"] == "invalid" and session in answer["message"], answer
    assert [client.run("x", name) for name in ("one", "two")] == ["2", "2"]
    good(client.call("rollback", snapshot=ident, session="two"))
    good(client.call("rollback", snapshot="one@same", session=row(client, "one")["id"]))
    assert [client.run("x", name) for name in ("one", "two")] == ["1", "1"]


def test_the_beginning_of_an_id_stands_for_a_session_that_is_there(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    ident = row(client)["id"]
    take(client, "a")
    for n in (8, 12, 31, 32):
        assert row(client, ident[:n])["id"] == ident
        assert history(client, ident[:n]) == history(client)
        assert list(listed(client, ident[:n])) == ["a"]
        good(client.call("rollback", snapshot="a", session=ident[:n]))
    assert row(client, ident[:7]) is None and row(client, ident[:12] + "x") is None
    assert row(client, ("0" if ident[0] != "0" else "1") + ident[1:12]) is None
    client.run("1", ident[:12])  # a cell may make a session: this is a name
    assert sessions(client)[ident[:12]]["id"] != ident and row(client, ident[:12])["id"] != ident


# Rollback -------------------------------------------------------------------------------------------------


def test_rollback_takes_variables_files_and_history_back_as_one(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1, kept=[1])", "s")
    client.run(WITHOUT_PICKLE, "s")
    put(client, "f", b"old")
    taken = take(client, "good")
    policy = row(client)["limits"]
    client.run("globals().update(x=2), kept.append(2), globals().pop('gen')", "s")
    put(client, "f", b"new")
    put(client, "g", b"later")
    back = good(client.call("rollback", snapshot="good"))
    assert (back["how"], back["cell"], back["session_name"], back["lost"]) == ("memory", 2, "s", [])
    assert back["epoch"] == taken["epoch"] + 1
    assert client.run("[x, kept, next(gen)]", "s") == "[1, [1], 0]"  # memory keeps what disk cannot
    assert get(client, "f") == b"old" and get(client, "g") is None
    assert row(client)["limits"] == policy and row(client)["epoch"] == back["epoch"]
    cells = {cell["cell"]: cell for cell in history(client)}
    assert [cells[n]["state"] for n in (1, 2, 3, 4)] == ["kept", "kept", "undone", "kept"]
    assert good(client.call("snapshots.list", session="s"))["head"] == taken["snapshot"]
    assert client.run("HEAD['epoch']", "s") == str(back["epoch"])


def test_rollback_and_later_snapshots_make_a_tree(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    a = take(client, "a")
    client.run("globals().update(x=2)", "s")
    b = take(client, "b")
    good(client.call("rollback", snapshot="a"))
    client.run("globals().update(x=3)", "s")
    c = take(client, "c")
    rows = listed(client)
    assert {rows["b"]["parent"], rows["c"]["parent"]} == {a["snapshot"]} and c["cell"] == 3
    for name, value in (("b", "2"), ("c", "3"), ("a", "1"), ("b", "2")):
        assert good(client.call("rollback", snapshot=name))["how"] == "memory"
        assert client.run("x", "s") == value
    assert good(client.call("snapshots.list", session="s"))["head"] == b["snapshot"]


def test_a_rollback_outlasts_the_daemon_and_is_not_undone_by_what_came_after(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    take(client, "a")
    client.run("globals().update(x=2)", "s")
    good(client.call("checkpoint", session="s"))  # later than the snapshot's
    good(client.call("rollback", snapshot="a"))
    client = start(*LATER).client()
    assert client.run("x", "s") == "1"  # nothing is missing: cell 2 was undone
    assert listed(client)["a"]["where"] == ["disk"]
    assert [cell["state"] for cell in history(client)] == ["kept", "undone", "kept"]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_copy_that_is_written_late_does_not_undo_a_rollback(start: Callable[..., Daemon], end: signal.Signals,
                                                              tmp_path: Path) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    client.run("globals().update(x=1)", "s")
    take(client, "a")
    go = tmp_path / "go"
    client.run(f"globals().update(x=2), slow({str(go)!r})", "s")
    take(client, "b", wait=False)  # its copy is on its way until then
    good(client.call("rollback", snapshot="a"))
    go.touch()
    if end == signal.SIGKILL:
        assert wait_for(lambda: listed(client)["b"]["where"] == ["memory", "disk"])
    kill(daemon, end)
    client = start(*LATER).client()
    assert client.run("x", "s") == "1"
    assert [cell["state"] for cell in history(client)][-2:] == ["undone", "kept"]
    assert good(client.call("rollback", snapshot="b"))["how"] == "checkpoint"
    assert client.run("x", "s") == "2"


def test_a_rollback_whose_checkpoint_is_damaged_is_missed(start: Callable[..., Daemon], place: str) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    client.run("globals().update(x=1)", "s")
    take(client, "a")
    client.run("globals().update(x=2)", "s")
    good(client.call("checkpoint", session="s"))
    good(client.call("rollback", snapshot="a"))
    kill(daemon)
    with contextlib.closing(sqlite3.connect(os.path.join(place, "journal", "journal.db"))) as db, db:
        db.execute("UPDATE checkpoints SET damaged = 1 WHERE epoch = (SELECT MAX(epoch) FROM checkpoints)")
    client = start(*LATER).client()
    error = client.fail("x", "s")
    assert error["code"] == "denied" and "rollback to cell 1" in error["message"]
    assert wait_for(lambda: row(client)["state"] == "incomplete")
    kind, head, _, _ = client.end_of(client.start("x", "s", recover="checkpoint"))
    assert kind == RESPONSE and head["value"] == "2"
    assert any("rollback to cell 1" in item["name"] for item in head["restored"]["failed"])
    assert client.run("x", "s") == "2"  # told once


def test_a_file_put_while_a_snapshot_is_written_is_not_in_it(start: Callable[..., Daemon], tmp_path: Path) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    go = tmp_path / "go"
    client.run(f"globals().update(x=1), slow({str(go)!r})", "s", durability="process")
    put(client, "before", b"0")
    take(client, "a", wait=False)
    put(client, "after", b"1")
    go.touch()
    assert wait_for(lambda: "disk" in listed(client)["a"]["where"])
    kill(daemon)
    client = start(*LATER).client()
    assert client.fail("x", "s")["code"] == "denied"
    kind, head, _, _ = client.end_of(client.start("x", "s", recover="checkpoint"))
    assert kind == RESPONSE and head["restored"]["missing_puts"] == ["after"]
    assert get(client, "before") == b"0"


def test_when_memory_is_gone_it_comes_from_disk_and_says_so(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    client.run(WITHOUT_PICKLE, "s")
    take(client, "a")
    client.run("globals().update(x=2)", "s")
    good(client.call("hibernate", session="s"))
    back = good(client.call("rollback", snapshot="a"))
    assert back["how"] == "checkpoint" and [item["name"] for item in back["lost"]] == ["gen"]
    assert client.run("[x, 'gen' in globals()]", "s") == "[1, False]"


def test_a_snapshot_that_could_not_be_written_is_written_when_it_is_needed(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=0), torn()", "s")
    # tried again
    assert good(client.call("snapshot", session="s", name="zero", wait=True))["where"] == ["memory", "disk"]
    client.run("globals().update(x=1), torn(3)", "s")
    kind, head, _, _ = client.call("snapshot", session="s", name="one", wait=True)
    assert kind == ERROR, head
    client.run("globals().update(x=2)", "s")
    kind, head, _, _ = client.call("rollback", session="s", snapshot="s@one")
    assert kind == RESPONSE, head
    assert client.run("x", "s") == "1"
    assert {item["name"]: item["where"] for item in client.call("snapshots.list", session="s")[1]["snapshots"]} == \
        {name: ["memory", "disk"] for name in ("zero", "one")}


def test_the_tier_that_lost_a_branch_is_not_believed_blindly(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    take(client, "a")
    client.run("globals().update(x=2), sys.modules['__main__'].sessions[HEAD['session']].branches.clear()"
               .replace("sys.", "__import__('sys')."), "s")
    assert good(client.call("rollback", snapshot="a"))["how"] == "checkpoint"
    assert client.run("x", "s") == "1"


def test_a_fork_of_a_snapshot_misses_its_own_cells_though_its_origin_gave_some_up(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    client.run("globals().update(x=2)", "s")
    client = start(*LATER).client()
    assert client.end_of(client.start("None", "s", recover="checkpoint"))[0] == RESPONSE
    take(client, "a")
    name = good(client.call("fork", **{"from": "s@a"}, n=1, name="t"))["sessions"][0]["name"]
    client.run("globals().update(y=1)", name)
    client = start(*LATER).client()
    assert client.fail("y", name)["code"] == "denied"


def test_rollback_of_a_session_whose_last_cell_is_unknown(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    take(client, "a")
    client.start("globals().update(x=2), wait(600)", "s")
    # Its intent is in the journal.
    assert wait_for(lambda: len(client.call("history", session="s")[1]["cells"]) == 2)
    client = start(*LATER).client()
    assert row(client)["state"] == "unknown"
    assert good(client.call("rollback", snapshot="a"))["how"] == "checkpoint"
    assert client.run("x", "s") == "1"  # without --recover: nothing is missing any more


# Kill -9 between the steps ------------------------------------------------------------------------------------


def test_a_snapshot_cut_off_before_it_is_on_disk_is_no_more_and_doctor_hears_of_it(start: Callable[...,
                                                                                                   Daemon]) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    client.run("globals().update(x=1)", "s")
    good(client.call("checkpoint", session="s"))
    client.run("globals().update(x=2), slow(600)", "s")
    taken = take(client, "a", wait=False)
    assert taken["where"] == ["memory"]
    client = start(*LATER).client()
    assert listed(client) == {}
    events = good(client.call("journal.events"))["events"]
    assert any(event["kind"] == "snapshot_lost" and "s@a" in event["text"] for event in events)
    assert bad(client.call("rollback", snapshot="a"))["code"] == "not_found"


def test_kill_at_any_moment_leaves_all_or_nothing(start: Callable[..., Daemon]) -> None:
    """A daemon killed while it snapshots, rolls back and forks: what is there afterwards is whole."""
    client = start(*LATER).client()
    client.run("globals().update(x=0)", "s")
    take(client, "base")
    whole = {"0"}
    for n in range(1, 13):
        daemon = start(*LATER)
        client, other = daemon.client(), daemon.client()
        good(client.call("rollback", snapshot="base"))
        client.run(f"globals().update(x={n})", "s")
        whole.add(str(n))
        for method in ({"method": "snapshot", "session": "s", "name": f"n{n}", "wait": True},
                       {"method": "rollback", "snapshot": "base"},
                       {"method": "fork", "from": "s", "n": 3, "name": f"f{n}"})[n % 3:]:
            other.send(method)
        time.sleep(0.004 * n)
        kill(daemon)
        client = start(*LATER).client()
        for name, item in listed(client).items():
            assert item["where"] == ["disk"], (name, item)
        forks = [name for name in sessions(client) if name.startswith(f"f{n}-")]
        assert len(forks) in (0, 3)
        for name in forks:
            assert client.run("x", name) in whole
            good(client.call("sessions.destroy", session=name))
        answer = client.end_of(client.start("x", "s", recover="checkpoint"))
        assert answer[0] == RESPONSE and answer[1]["value"] in whole


# Fork -----------------------------------------------------------------------------------------------------------


def test_forks_begin_where_the_origin_is_and_go_their_own_way(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=[1])", "s", limits={"processes": 9}, env={"A": "b"})
    client.run(WITHOUT_PICKLE, "s")
    put(client, "f", b"data")
    answer = good(client.call("fork", **{"from": "s"}, n=3, name="try"))
    assert [item["name"] for item in answer["sessions"]] == ["try-1", "try-2", "try-3"]
    assert answer["how"] == "checkpoint" and [item["name"] for item in answer["lost"]] == ["gen"]
    for n in (1, 2, 3):
        assert client.run(f"x.append('t{n}') or x", f"try-{n}") == f"[1, 't{n}']"
        assert get(client, "f", f"try-{n}") == b"data"
        shown = good(client.call("sessions.show", session=f"try-{n}"))
        assert shown["limits"]["processes"] == 9 and shown["cells"] == 1
    assert client.run("[x, next(gen)]", "s") == "[[1], 0]"
    assert len({item["id"] for item in sessions(client).values()}) == 4
    again = good(client.call("fork", **{"from": "s"}, name="try"))
    assert [item["name"] for item in again["sessions"]] == ["try-4"]
    assert good(client.call("fork", **{"from": "try-1"}))["sessions"][0]["name"] == "try-1-1"


def test_forks_of_a_snapshot_record_it_and_outlast_the_daemon(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    taken = take(client, "a")
    client.run("globals().update(x=2)", "s")
    answer = good(client.call("fork", **{"from": "s@a"}, n=2, name="try"))
    assert answer["parent"] == taken["snapshot"]
    heads = {head["name"]: head["snapshot"] for head in good(client.call("snapshots.list"))["heads"]}
    assert heads == dict.fromkeys(["s", "try-1", "try-2"], taken["snapshot"])
    client = start(*LATER).client()
    assert [client.run("x", name) for name in ("try-1", "try-2")] == ["1", "1"]
    assert client.run("x", "s", recover="replay") == "2"


def test_forks_are_all_made_or_none(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    take(client, "a")
    client.run("python('3.99')", "s")  # what opens from now on cannot read what was saved
    answer = bad(client.call("fork", **{"from": "a"}, n=3, name="try"))
    assert "made no fork" in answer["message"] and "3.99" in answer["message"]
    assert list(sessions(client)) == ["s"]
    client.run("python('3')", "s")
    assert len(good(client.call("fork", **{"from": "a"}, n=3, name="try"))["sessions"]) == 3


def test_fork_says_what_it_does_not_find_or_take(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("1", "s")
    assert bad(client.call("fork", **{"from": "nobody"}))["code"] == "not_found"
    assert bad(client.call("fork", **{"from": "s"}, n=0))["code"] == "invalid"
    assert bad(client.call("fork", **{"from": "s"}, n=65))["code"] == "invalid"
    assert bad(client.call("fork", **{"from": "s"}, name="a b"))["code"] == "invalid"
    assert list(sessions(client)) == ["s"]


# Diff -----------------------------------------------------------------------------------------------------------


def test_diff_of_variables_and_files(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(same=1, changed=[1], typed=1, left=2)", "s")
    put(client, "same", b"s")
    put(client, "text", b"one\ntwo\n")
    put(client, "gone", b"g")
    take(client, "a")
    client.run("globals().update(changed=[2], typed='1', new=3), globals().pop('left')", "s")
    client.run(WITHOUT_PICKLE, "s")
    put(client, "text", b"one\n2\n")
    put(client, "new", b"n" * 100)
    answer = good(client.call("diff", a="s@a", b="s"))
    assert {(v["name"], v["change"], v["type_a"], v["type_b"]) for v in answer["variables"]} == {
        ("changed", "changed", "list", "list"), ("typed", "changed", "int", "str"), ("left", "removed", "int", None),
        ("new", "added", None, "int")}
    files = {f["path"]: f for f in answer["files"]}
    assert {(path, f["change"]) for path, f in files.items()} == {
        ("text", "changed"), ("new", "added"), ("gone", "changed")} - {("gone", "changed")}
    assert (files["text"]["size_a"], files["text"]["size_b"], files["text"]["type_a"]) == (8, 6, "file")
    assert [item["name"] for item in answer["lost_b"]] == ["gen"] and answer["lost_a"] == []
    kind, head, raw, _ = client.call("blob", hash=files["text"]["b"], offset=0, length=100)
    assert (kind, head, raw) == (RESPONSE, {"size": 6, "eof": True}, b"one\n2\n")
    kind, head, raw, _ = client.call("blob", hash=files["text"]["b"], offset=2, length=2)
    assert (head["eof"], raw) == (False, b"e\n")
    back = good(client.call("diff", a="s", b="s@a"))
    assert {(f["path"], f["change"]) for f in back["files"]} == {("text", "changed"), ("new", "removed")}
    assert good(client.call("diff", a="s", b="s"))["files"] == []


def test_diff_between_forks_compares_contents(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    put(client, "f", b"1")
    good(client.call("fork", **{"from": "s"}, n=2, name="t"))
    put(client, "f", b"2", "t-2")
    client.run("globals().update(x=2)", "t-2")
    answer = good(client.call("diff", a="t-1", b="t-2"))
    assert [v["name"] for v in answer["variables"]] == ["x"] and [f["path"] for f in answer["files"]] == ["f"]


@pytest.mark.parametrize("members", [{"hash": "x"}, {"hash": "../" * 10}, {"hash": "A" * 64}, {"hash": "0" * 64}])
def test_blobs_are_asked_for_by_their_hash_only(start: Callable[..., Daemon], members: dict[str, str]) -> None:
    client = start(*LATER).client()
    assert bad(client.call("blob", **members, offset=0, length=10))["code"] in ("invalid", "not_found")


# Export, import ---------------------------------------------------------------------------------------------------


def exported(client: Client, ref: str) -> tuple[Any, bytes]:
    kind, head, _, events = client.call("export", **{"from": ref})
    assert kind == RESPONSE, head
    return head, b"".join(raw for _, raw in events)


def imported(client: Client, data: bytes, name: str | None = None, step: int = 1 << 20, **members: Any) -> Any:
    token = good(client.call("import.begin", name=name, **members))["token"]
    for at in range(0, len(data), step):
        answer = client.call("import.data", data[at:at + step], token=token)
        if answer[0] == ERROR:
            return answer
    return client.call("import.end", token=token)


@pytest.mark.parametrize("parts", [(b"PK\3\4",), (b"snipara-", b"archive!")])
def test_another_file_is_refused_with_its_first_bytes(start: Callable[..., Daemon], parts: Sequence[bytes]) -> None:
    client = start(*LATER).client()
    token = good(client.call("import.begin", name="x"))["token"]
    for part in parts[:-1]:
        good(client.call("import.data", part, token=token))
    answer = bad(client.call("import.data", parts[-1], token=token))
    assert answer["code"] == "invalid" and "export" in answer["message"]
    assert bad(client.call("import.end", token=token))["code"] == "not_found"


def test_what_an_import_wakes_can_be_destroyed(start: Callable[..., Daemon]) -> None:
    daemon = start("--live-max", "1", *LATER)
    client, other = daemon.client(), daemon.client()
    client.run("1", "s")
    data = exported(client, "s")[1]
    running = other.start("wait(600)", "s")
    assert wait_for(lambda: row(client)["state"] == "running")
    token = good(client.call("import.begin", name="mine"))["token"]
    good(client.call("import.data", data, token=token))
    waits = client.send({"method": "import.end", "token": token})  # for room, which the cell has
    ask = daemon.client()
    assert wait_for(lambda: "mine" in sessions(ask))
    good(ask.call("sessions.destroy", session="mine"))
    assert client.end_of(waits)[0] == ERROR
    good(ask.call("interrupt", session="s"))
    assert other.end_of(running)[0] in (RESPONSE, ERROR)
    assert client.run("2", "s") == "2"


def test_export_here_import_there(start: Callable[..., Daemon], tmp_path: Path, bin_folder: str) -> None:
    client = start(*LATER).client()
    big = os.urandom(3 << 20)
    client.run("globals().update(x=[1, 2], big=HEAD)", "s", limits={"processes": 9}, env={"A": "b"})
    client.run(WITHOUT_PICKLE, "s")
    client.end_of(client.start("emit('shown'), 1/0", "s"))
    put(client, "f", big[:1 << 20])
    head, data = exported(client, "s")
    assert (head["name"], head["cell"], head["bytes"]) == ("s", 3, len(data))
    assert [item["name"] for item in head["lost"]] == ["gen"] and data.startswith(b"snipara-session\n")
    there = str(tmp_path / "there")
    os.mkdir(there, 0o700)
    other = Daemon(there, bin_folder, *LATER)
    try:
        client = other.client()
        answer = good(imported(client, data, "mine"))
        assert (answer["name"], answer["cell"], answer["notes"], answer["failed"]) == ("mine", 3, [], [])
        assert [item["name"] for item in answer["lost"]] == ["gen"]
        assert client.run("x", "mine") == "[1, 2]" and get(client, "f", "mine") == big[:1 << 20]
        shown = good(client.call("sessions.show", session="mine"))
        assert shown["limits"]["processes"] == 9 and shown["cells"] == 4
        cells = history(client, "mine")
        assert [(cell["cell"], cell["status"]) for cell in cells] == [(4, "ok"), (3, "error"), (2, "ok"), (1, "ok")]
        kind, cell, raw, events = client.call("cell.show", session="mine", cell=3)
        assert events == [({"event": "stdout"}, b"shown")]
        assert raw == b"emit('shown'), 1/0" and cell["result"]["error"]["type"] == "ZeroDivisionError"
        assert bad(imported(client, data, "mine"))["code"] == "denied"
        assert good(imported(client, data))["name"] == "s"
        assert good(imported(client, exported(client, "mine")[1], "again"))["cell"] == 4
    finally:
        kill(other)


def test_a_snapshot_and_an_empty_session_are_exported_too(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    take(client, "a")
    client.run("globals().update(x=2)", "s")
    _, data = exported(client, "s@a")
    assert good(imported(client, data, "old"))["cell"] == 1
    assert client.run("x", "old") == "1" and len(history(client, "old")) == 2


def test_limits_and_tier_are_the_readers(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("1", "s", limits={"processes": 40, "memory_bytes": 64 << 20}, allow_degraded=True)
    _, data = exported(client, "s")
    answer = good(imported(client, data, "mine", limits={"processes": 30}))
    assert len(answer["notes"]) == 1 and "processes is 30 here, not 40" in answer["notes"][0]
    limits = good(client.call("sessions.show", session="mine"))["limits"]
    assert (limits["processes"], limits["memory_bytes"]) == (30, 64 << 20)
    opened = json.loads(client.run("__import__('json').dumps(OPEN)", "mine").strip("'"))
    assert opened["allow_degraded"] is False and opened["limits"]["processes"] == 30


def frames_of(data: bytes) -> list[tuple[int, Any, Any, Any]]:
    """[(offset, type, head, raw)] of the frames after the mark."""
    at, found = 16, []
    while at < len(data):
        body_len, _, head_len, kind = HEADER.unpack_from(data, at)
        body = data[at + 16:at + 16 + body_len]
        found.append((at, kind, json.loads(body[:head_len] or b"{}"), body[head_len:]))
        at += 16 + body_len
    return found


def packed(frames: Sequence[tuple[Any, Any, Any]], summed: bool = True) -> bytes:
    """A file of these frames; the last one, with the hash of all before it, is made anew."""
    out = b"snipara-session\n"
    for kind, head, raw in frames:
        text = head if isinstance(head, bytes) else json.dumps(head).encode()
        if kind != SUM:
            out += HEADER.pack(len(text) + len(raw), 0, len(text), kind) + text + raw
    end = b'{"sha256":"%s"}' % hashlib.sha256(out).hexdigest().encode()
    return out + HEADER.pack(len(end), 0, len(end), SUM) + end if summed else out


def test_what_was_changed_on_the_way_is_found(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x='text' * 100)", "s")
    client.end_of(client.start("emit('shown'), 1/0", "s"))
    put(client, "f", b"data" * 100)
    _, data = exported(client, "s")
    at, kind, head, _ = frames_of(data)[-1]
    assert (kind, head) == (SUM, {"sha256": hashlib.sha256(data[:at]).hexdigest()})
    step = len(data) // 40
    for at in [*range(0, len(data), step), len(data) - 1, len(data) - 40, len(data) - 80]:
        flipped = bytearray(data)
        flipped[at] ^= 1 << (at % 8)
        kind, head, _, _ = imported(client, bytes(flipped), "evil")
        assert kind == ERROR and head["code"] == "invalid", (at, head)
        if at > 16:
            assert "damaged" in head["message"] or "incomplete" in head["message"], (at, head)
    for cut in (1, 50, 100, len(data) // 2):
        assert bad(imported(client, data[:-cut], "evil"))["code"] == "invalid"
    assert list(sessions(client)) == ["s"]
    # In pieces of any size.
    assert good(imported(client, data, "mine", step=61))["name"] == "mine"
    assert client.run("x == 'text' * 100", "mine") == "True"


def test_a_file_of_the_first_version_is_still_read(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    client.end_of(client.start("emit('shown')", "s"))
    frames = []
    for _, kind, head, raw in frames_of(exported(client, "s")[1]):
        if kind == 88:
            head["version"] = 1
        elif kind == 89:
            raw = raw[:len(raw) - head.pop("shown_len")]
        frames.append((kind, head, raw))
    assert good(imported(client, packed(frames, summed=False), "old"))["name"] == "old"
    assert client.run("x", "old") == "1" and len(history(client, "old")) == 3
    assert client.call("cell.show", session="old", cell=2)[3] == []


def test_the_newest_outputs_are_in_the_file_as_far_as_there_is_room(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    for size in (10, 2 << 20, 20):
        client.end_of(client.start(f"emit('x' * {size})", "s"))
    cells = [head for _, kind, head, _ in frames_of(exported(client, "s")[1]) if kind == 89]
    assert [cell["shown_len"] > 0 for cell in cells] == [True, False, True]


def test_hostile_and_broken_files_leave_nothing(start: Callable[..., Daemon], place: str) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    put(client, "f", b"1")
    _, data = exported(client, "s")
    frames = [(kind, head, raw) for _, kind, head, raw in frames_of(data)]
    assert packed(frames).startswith(b"snipara-session\n") and [kind for kind, _, _ in frames[:2]] == [88, 89]

    def changed(at: int, **members: Any) -> bytes:
        copy = list(frames)
        kind, head, raw = copy[at]
        copy[at] = (kind, {**head, **members}, raw)
        return packed(copy)

    def shown(events: bytes) -> bytes:
        kind, head, raw = frames[1]
        raw = raw[:len(raw) - head["shown_len"]] + events
        return packed([frames[0], (kind, {**head, "shown_len": len(events)}, raw), *frames[2:]])

    spec = frames[0][1]["spec"]
    item = next(i for i, (kind, head, _) in enumerate(frames) if kind == 80)
    file_item = next(i for i, (kind, head, _) in enumerate(frames) if kind == 80 and head["kind"] == "file")
    attacks = {
        "empty": b"", "mark only": data[:16], "no mark": b"x" * 100, "cut": data[:-1],
        "cut in half": data[:len(data) // 2],
        "more after it": data + b"x", "twice": data + data[16:],
        "version": changed(0, version=3), "no sum": packed(frames, summed=False),
        "shown too long": changed(1, shown_len=2 << 20), "shown is no event": shown(b"x" * 40),
        "shown is another frame": shown(HEADER.pack(2, 0, 2, 2) + b"{}"), "shown is strange": shown(
            HEADER.pack(18, 0, 18, 4) + b'{"event":"strange"}'[:18]),
        "format": changed(0, format="tar"), "cell": changed(0, cell=-1),
        "spec missing": changed(0, spec=None), "spec strange": changed(0, spec={"x": 1}),
        "limits strange": changed(0, spec={**spec, "limits": {"memory_bytes": -1}}),
        "limits huge": changed(0, spec={**spec, "limits": {"memory_bytes": 1 << 62}}),
        "env strange": changed(0, spec={**spec, "env": {"A=B": "c"}}),
        "env no text": changed(0, spec={**spec, "env": {"A": 1}}),
        "env nul": changed(0, spec={**spec, "env": {"A": "b\0c"}}), "lost strange": changed(0, lost={}),
        "template": changed(0, spec={**spec, "template": "../../x"}),
        "cell number": changed(1, cell=99), "cell kind": changed(1, kind="shell"),
        "cell status": changed(1, status="\x1b[2J"),
        "cell lengths": changed(1, code_len=1 << 20), "cell argv": changed(1, argv="{}"),
        "cells twice": packed([frames[0], frames[1], *frames[1:]]),
        "no manifest": packed(frames[1:]), "two manifests": packed([frames[0], *frames]),
        "item up": changed(file_item, name="../../etc/passwd"), "item absolute": changed(file_item, name="/etc/passwd"),
        "item size": changed(file_item, size=1 << 60), "item kind": changed(item, kind="device"),
        "item unknown data": changed(item, same=True),
        "bad json": packed([(88, b"{", b"")]), "huge frame": data[:16] + HEADER.pack(0xffffffff, 0, 0, 88),
        "head beyond body": data[:16] + HEADER.pack(4, 0, 400, 88) + b"abcd",
    }
    refused = 0
    for name, attack in attacks.items():
        kind, head, _, _ = imported(client, attack, "evil")
        if kind == ERROR:
            refused += 1
            assert head["code"] != "internal", (name, head)
        else:  # what is harmless: a file name that only a sandbox will see
            assert name in ("item up", "item absolute"), (name, head)
            good(client.call("sessions.destroy", session="evil"))
        assert list(sessions(client)) == ["s"], name
    assert refused >= len(attacks) - 2
    assert client.run("x", "s") == "1"
    left = [name for _, _, names in os.walk(place) for name in names if "archive" in name]
    assert left == []
    client = start(*LATER).client()
    assert list(sessions(client)) == ["s"]
    # The control: the same file without a change is a session.
    assert good(imported(client, packed(frames), "evil"))["name"] == "evil" and client.run("x", "evil") == "1"


def test_an_import_belongs_to_its_connection_and_ends_with_it(start: Callable[..., Daemon]) -> None:
    daemon = start(*LATER)
    client, other = daemon.client(), daemon.client()
    token = good(client.call("import.begin", name="x"))["token"]
    assert bad(other.call("import.data", b"x", token=token))["code"] == "not_found"
    tokens = [good(other.call("import.begin"))["token"] for _ in range(7)]
    assert bad(other.call("import.begin"))["code"] == "limit"
    assert len(set(tokens)) == 7
    other.close()
    assert wait_for(lambda: client.call("import.begin")[0] == RESPONSE)
    assert bad(client.call("import.end", token="0" * 32))["code"] == "not_found"
    assert bad(client.call("import.begin", name="default"))["code"] in ("invalid", "limit")


def test_what_was_saved_by_another_python_is_named_and_makes_no_session(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    _, data = exported(client, "s")
    client.run("python('3.99')", "s")
    answer = bad(imported(client, data, "mine"))
    assert answer["code"] == "invalid" and "3.99" in answer["message"]
    assert list(sessions(client)) == ["s"]


def test_a_daemon_killed_while_it_imports_leaves_nothing(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    put(client, "f", os.urandom(1 << 20))
    _, data = exported(client, "s")
    for n in range(6):
        daemon = start(*LATER)
        client = daemon.client()
        token = good(client.call("import.begin", name="mine"))["token"]
        for at in range(0, len(data), 1 << 20):
            good(client.call("import.data", data[at:at + (1 << 20)], token=token))
        client.send({"method": "import.end", "token": token})
        time.sleep(0.005 * n)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait(PATIENCE)
        client = start(*LATER).client()
        found = sessions(client)
        assert set(found) in ({"s"}, {"s", "mine"})
        if "mine" in found:
            assert client.run("x", "mine") == "1"
            good(client.call("sessions.destroy", session="mine"))


def test_stopping_the_daemon_in_order_keeps_snapshots(start: Callable[..., Daemon]) -> None:
    daemon = start(*LATER)
    client = daemon.client()
    client.run("globals().update(x=1), slow(0.5)", "s")
    take(client, "a", wait=False)
    client.run("globals().update(x=2)", "s")
    take(client, "b", wait=False)
    kill(daemon, signal.SIGTERM)
    client = start(*LATER).client()
    assert {name: item["where"] for name, item in listed(client).items()} == {"a": ["disk"], "b": ["disk"]}
    assert client.run("x", "s") == "2"


def test_who_waits_for_a_session_that_never_comes_about_is_told(start: Callable[..., Daemon]) -> None:
    daemon = start(*LATER)
    client, other = daemon.client(), daemon.client()
    client.run("1", "other")
    cell = client.start("1", "s", project="/nonexistent-folder")
    kind, _, _, _ = other.call("snapshot", session="s")
    assert kind == ERROR
    assert client.end_of(cell)[0] == ERROR


def test_a_put_that_was_rolled_back_is_not_missed_and_a_later_one_is(start: Callable[..., Daemon]) -> None:
    client = start(*LATER).client()
    client.run("globals().update(x=1)", "s")
    take(client, "a")
    put(client, "undone", b"1")
    good(client.call("rollback", snapshot="a"))
    client = start(*LATER).client()
    assert client.run("x", "s", durability="process") == "1" and get(client, "undone") is None
    good(client.call("rollback", snapshot="a"))
    put(client, "late", b"2")
    client = start(*LATER).client()
    assert client.fail("x", "s")["code"] == "denied"  # its file was put after what it comes back from
    kind, head, _, _ = client.end_of(client.start("x", "s", recover="checkpoint"))
    assert kind == RESPONSE and head["restored"]["missing_puts"] == ["late"]
