# SPDX-License-Identifier: Apache-2.0
"""A session under fire: what was asked of it, what it acknowledged, and whether that is still so.

Each cell of a story leaves its token in a variable and in a file, so that what is there tells
which cells took effect, in which order, how often, and whether variables and files agree. What
was asked and not answered leaves several worlds that are all right; what is found must be one
of them. Nothing here knows how the daemon keeps its promises.
"""

import copy
import hashlib
import json
import secrets
import time
from collections.abc import Callable
from typing import Any, Self

import lib

Log = list[tuple[int, str]]  # (number of the cell, token) of those whose effects are kept
Files = dict[str, str]  # name: hash of its content
Known = tuple[str, str, str | None]  # of a cell: status, state, token

TIMEOUT = 2 * lib.PATIENCE  # of an answer
KEEPS = """
log = globals().get("log", []) + [{token!r}]
with open("log", "a") as out:
    out.write({token!r} + "\\n")
print({token!r})
"""
KINDS = {
    "ok": KEEPS,
    "error": KEEPS + "raise ValueError({token!r})\n",
    "killed": KEEPS + "import os\nos.kill(os.getpid(), 9)\n",
    "loud": KEEPS + "print('x' * 300_000)\n",
    "large": KEEPS + "import os\nblock = os.urandom(3 << 20)\n",
    # No variable and no image can hold a lock: it is said that it is gone.
    "lock": KEEPS + "import fcntl\nguard = open('log')\nfcntl.flock(guard, fcntl.LOCK_EX)\n",
    # No variable can hold a generator: an image does, or it is said that it is gone.
    "image": KEEPS + "def _hold(log):\n    while True:\n        yield list(log)\nheld = _hold(log)\nnext(held)\n",
}
STATUS = {"ok": "ok", "error": "error", "killed": "killed", "loud": "ok", "large": "ok", "image": "ok", "lock": "ok"}
PROBE = """
import fcntl, hashlib, json, os
def _is_locked():
    try:
        with open("log") as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
def _look():
    files = {}
    for name in os.listdir():
        with open(name, "rb") as data:
            files[name] = data.read()
            files[name] = files[name].decode() if name == "log" else hashlib.sha256(files[name]).hexdigest()
    held = next(globals()["held"]) if "held" in globals() else None
    return json.dumps({"log": globals().get("log", []), "files": files, "held": held,
                       "locked": "guard" in globals() and _is_locked()})
print(_look())
del fcntl, hashlib, json, os, _is_locked, _look
"""


class Dead(Exception):
    """The daemon is gone, or says nothing more."""


class Refused(Exception):
    """An answer that is an error; .head is its head."""

    def __init__(self, head: lib.Json) -> None:
        super().__init__(f"{head.get('code')}: {head.get('message')}")
        self.head = head


def is_admitted(result: lib.Json) -> bool:
    """Whether the cell was said, before it ran, not to be protected: a machine may be that slow."""
    protection = result.get("transaction") or {}
    return protection.get("interpreter") == "unavailable" and bool(protection.get("notes"))


class World:
    """One state the session may be in."""

    def __init__(self) -> None:
        self.exists = False
        self.log: Log = []
        self.files: Files = {}
        self.saved: set[str] = set()  # of these: on disk when their put was answered
        self.cells: dict[int, Known | None] = {}  # by number; None = unknown what became of it
        self.unknown: dict[int, str] = {}  # number: token that such a cell leaves if it is run again
        self.snapshots: dict[str, tuple[Log, Files, int, int]] = {}  # name: (log, files, cell, fresh_from)
        self.forks: dict[str, tuple[Log, Files]] = {}  # of overlap.py
        self.fresh_from = 0  # the last cell that was told lost: variables are of those after it only
        self.epoch = 0

    @property
    def last(self) -> int:
        return max(self.cells, default=0)

    def copy(self) -> Self:
        return copy.deepcopy(self)

    def with_unknown(self) -> Self:
        """If it lives on after a cell whose outcome could not be kept, that cell's effects are there."""
        other = self.copy()
        other.log = sorted(other.log + list(other.unknown.items()))
        other.unknown = {}
        return other


def tokens_of(log: Log, fresh_from: int = 0) -> list[str]:
    """What cells after that one have left."""
    return [token for number, token in log if number > fresh_from]


class Span:
    """The worlds possible between a request and its answer; the last one is open."""

    def __init__(self, worlds: list[World]) -> None:
        self.asked, self.answered = time.monotonic(), float("inf")
        self.worlds = worlds


class Story:
    def __init__(self, box: lib.Sandbox, name: str, recover: str = "checkpoint", **options: Any) -> None:
        """recover: what is said when a session was lost; options: members of each exec."""
        self.box = box
        self.name = name
        self.recover = recover
        self.held: list[str] | None = None  # what its generator yields; None = it has none
        self.is_told = False  # that its generator was lost, in some session of this story
        self.is_locked = False
        self.is_lock_told = False  # likewise of its lock
        self.is_shot = False  # whether somebody kills its guest: then cells may end otherwise
        self.options = options if box.tier == "native" else {"tier": box.tier, **options}
        self.world = World()
        self.worlds = [self.world]  # that are possible now; one, unless something was cut off
        self.asked = 0  # cells that were sent: no more may ever have been started
        self.forks: list[tuple[str, Log, Files, int]] = []  # that may exist: name, log, files, fresh_from
        self.promised: set[str] = set()  # snapshots whose making was acknowledged, so that they are on disk
        self.rpc: lib.Client | None = None
        self.events: lib.Events = []
        self.timeline: list[Span] = []

    # Asking

    def call(self, method: str, raw: bytes = b"", **members: Any) -> tuple[lib.Json, bytes]:
        try:
            if self.rpc is None:
                self.rpc = lib.Client(self.box.socket, self.box.uid)
                self.rpc.sock.settimeout(TIMEOUT)
            kind, head, raw, self.events = self.rpc.call(method, raw, **members)
        except (EOFError, OSError) as reason:
            self.hang_up()
            raise Dead(f"{method}: {reason!r}") from None
        if kind == lib.ERROR:
            raise Refused(head)
        return head, raw

    def output(self) -> str:
        """What the last cell that ran, or was shown, has printed."""
        return b"".join(raw for head, raw in self.events if head["event"] == "stdout").decode()

    def hang_up(self) -> None:
        if self.rpc is not None:
            self.rpc.close()
        self.rpc = None

    def may_be(self, worlds: list[World]) -> None:
        """From now on, until the answer comes."""
        self.worlds = worlds
        self.timeline.append(Span(worlds))

    def is_now(self, world: World) -> None:
        self.world, self.worlds = world, [world]
        self.timeline[-1].answered = time.monotonic()

    def worlds_at(self, when: float) -> list[World]:
        """What is possible if all ends at that time: of an answered call only what it answered."""
        worlds = [World()]
        for i, span in enumerate(self.timeline):
            if span.asked > when:
                break
            if span.answered > when:
                return span.worlds
            worlds = [self.timeline[i + 1].worlds[0]] if i + 1 < len(self.timeline) else self.worlds
        return worlds

    def ask(self, method: str, after: Callable[[World], object], raw: bytes = b"", **members: Any) -> lib.Json:
        """A request that, once answered, makes after(world) of the world."""
        before = self.world
        may = before.copy()
        after(may)
        self.may_be([before, may])
        head, raw = self.call(method, raw, **members)
        self.is_now(may)
        return head

    # What is done to a session

    def cell(self, kind: str = "ok", **members: Any) -> lib.Json:
        token = f"{kind}-{secrets.token_hex(4)}"
        code = KINDS[kind].format(token=token).encode()
        return self.run(kind, token, {"kind": "python", "code_len": len(code)}, code, **members)

    def command(self) -> lib.Json:
        token = f"command-{secrets.token_hex(4)}"
        return self.run("command", token, {"kind": "command", "code_len": 0, "argv": ["/bin/echo", token]}, b"")

    def run(self, kind: str, token: str, request: lib.Json, code: bytes, **members: Any) -> lib.Json:
        number = self.world.last + 1
        self.asked += 1
        before = self.world
        state = "rolled_back" if kind == "killed" else "kept"
        expected = STATUS.get(kind, "ok"), state
        whole = self.after_run(before, number, expected, token)
        unknown = before.copy()
        unknown.exists = True
        unknown.cells[number] = None
        if kind not in ("killed", "command"):
            unknown.unknown[number] = token
            whole.log.append((number, token))
        self.may_be([before, unknown, whole])
        result, _ = self.call("exec", code, session=self.name, **request, **{**self.options, **members})
        self.hear(result)
        if self.is_shot and result["cell"] == number + 1:
            # Its interpreter had ended when it came there: that number was refused, and it ran as the next.
            before = self.after_run(before, number, ("refused", "kept"), None)
            number += 1
            whole = self.after_run(before, number, expected, token)
            whole.log += [(number, token)] if kind not in ("killed", "command") else []
        assert result["cell"] == number, f"cell {result['cell']} instead of {number}: {result}"
        got = result["status"], result["state"]
        if got != expected:
            assert self.is_shot or is_admitted(result), result
            whole = self.after_shot(before, number, got, token if whole.log != before.log else None)
        if got[1] != "lost":
            whole.fresh_from = self.fresh_from(before, result.get("restored"))
        whole.epoch = result.get("epoch", 0)
        self.is_now(whole)
        return result

    def hear(self, answer: lib.Json) -> None:
        """What of the generator is told lost."""
        said = answer.get("restored") or answer
        rows = [*(said.get("failed") or []), *(said.get("lost") or [])]
        self.is_told = self.is_told or any(row.get("name") == "held" for row in rows)
        self.is_lock_told = self.is_lock_told or any(row.get("name", "").startswith("lock on ") for row in rows)

    @staticmethod
    def after_run(before: World, number: int, got: tuple[str, str], token: str | None) -> World:
        """The world after a cell that ended so, but for what it left."""
        world = before.copy()
        world.exists = True
        world.cells[number] = (*got, token)
        return world

    @staticmethod
    def after_shot(before: World, number: int, got: tuple[str, str], token: str | None) -> World:
        """The world after a cell whose guest was killed from outside."""
        assert got[1] in ("rolled_back", "restored_from_checkpoint", "lost"), got
        world = before.copy()
        world.exists = True
        world.cells[number] = (*got, None)
        if got[1] == "lost":
            world.fresh_from = number
        if got[1] == "lost" and token is not None:
            world.unknown[number] = token  # may be run again
        return world

    def put(self, path: str, data: bytes) -> None:
        def after(world: World) -> None:
            world.files[path] = hashlib.sha256(data).hexdigest()
            world.saved.discard(path)

        done = self.ask("put", after, data, session=self.name, path=path, offset=0, truncate=True, mode=0)
        if "unsaved" not in done and self.options.get("durability") != "process":
            self.world.saved.add(path)

    def checkpoint(self) -> lib.Json:
        return self.ask("checkpoint", lambda world: None, session=self.name)

    def hibernate(self) -> lib.Json:
        return self.ask("hibernate", lambda world: None, session=self.name)

    def move(self, tier: str) -> lib.Json:
        self.options.pop("tier", None)  # a cell is where its session is
        done = self.ask("sessions.move", lambda world: None, session=self.name, tier=tier)
        assert done["moved"], done
        return done

    def snapshot(self, name: str) -> lib.Json:
        def after(world: World) -> None:
            world.snapshots[name] = (list(world.log), dict(world.files), world.last, world.fresh_from)

        self.promised.discard(name)
        done = self.ask("snapshot", after, session=self.name, name=name, wait=True)
        self.promised.add(name)
        return done

    def drop(self, name: str) -> lib.Json:
        return self.ask("snapshots.remove", lambda world: world.snapshots.pop(name, None),
                        snapshot=f"{self.name}@{name}")

    def rollback(self, name: str) -> lib.Json:
        def after(world: World) -> None:
            log, files, at, world.fresh_from = world.snapshots[name]
            world.log, world.files, world.saved = list(log), dict(files), set()
            for number, known in world.cells.items():
                if number > at and known is not None:
                    world.cells[number] = (known[0], "undone", known[2])

        done = self.ask("rollback", after, session=self.name, snapshot=f"{self.name}@{name}")
        self.hear(done)
        return done

    def fork(self, name: str, of: str | None = None) -> tuple[lib.Json, bytes]:
        world = self.world
        now = world.log, world.files, 0, world.fresh_from
        log, files, _, fresh_from = now if of is None else world.snapshots[of]
        self.forks.append((name, list(log), dict(files), fresh_from))
        origin: dict[str, Any] = {"from": self.name if of is None else f"{self.name}@{of}"}
        made = self.call("fork", n=1, name=name, **origin)
        self.hear(made[0])
        return made

    def clear(self) -> lib.Json:
        def after(world: World) -> None:
            world.log, world.files, world.cells, world.snapshots, world.fresh_from = [], {}, {}, {}, 0

        return self.ask("sessions.clear", after, session=self.name)

    def destroy(self) -> lib.Json:
        def after(world: World) -> None:
            vars(world).update(vars(World()))

        return self.ask("sessions.destroy", after, session=self.name)

    def gc(self) -> tuple[lib.Json, bytes]:
        return self.call("gc")

    # Looking

    def row(self, name: str | None = None) -> lib.Json | None:
        """The session's line of the list, or None."""
        rows = self.call("sessions.list")[0]["sessions"]
        names = (self.name,) if name is None else (name, f"{name}-1")  # forks are numbered
        rows = [row for row in rows if row["name"] in names]
        assert len(rows) <= 1, rows
        return rows[0] if rows else None

    def wait_for_journal(self) -> None:
        """A daemon whose journal could not be opened says so, and tries again each second."""

        def is_open() -> bool:
            try:
                self.call("journal.events", limit=1)
                self.row()
                return True
            except Refused:
                return False

        lib.wait_for(is_open)

    def history(self) -> dict[int, lib.Json]:
        rows: list[lib.Json] = []
        before: lib.Json = {}
        while True:
            page = self.call("history", session=self.name, limit=100, **before)
            rows += page[0]["cells"]
            if len(page[0]["cells"]) < 100:
                return {row["cell"]: row for row in rows}
            before = {"before": rows[-1]["cell"]}

    def look(self, name: str, members: lib.Json) -> lib.Json:
        self.asked += 1
        code = PROBE.encode()
        return self.call("exec", code, session=name, kind="python", code_len=len(code), **members)[0]

    def history_at_rest(self) -> dict[int, lib.Json]:
        """When no cell runs any more: one whose client went away goes on to its end."""
        lib.wait_for(lambda: (self.row() or {}).get("state") != "running")
        return self.history()

    def probe(self, name: str | None = None) -> tuple[list[str], list[str], Files, lib.Json]:
        """(variable, file, other files, the result) of the session as it is."""
        members: lib.Json = {}
        result: lib.Json | None = None
        refusals = []
        missing: set[int] = set()
        missing_puts: set[str] = set()
        for attempt in range(6):
            try:
                result = self.look(name or self.name, members)
                self.hear(result)
                missing.update((result.get("restored") or {}).get("missing", ()))
                missing_puts.update((result.get("restored") or {}).get("missing_puts", ()))
            except Refused as error:
                refusals.append(f"{members}: {error}")
                # A session that died with its tier says so once, one that lacks cells asks what to do.
                if lib.ways(error.head) and members.get("recover") != "checkpoint":
                    # Once a replay has stopped there is only the checkpoint.
                    members = {"recover": "checkpoint" if members else self.recover}
                elif (attempt >= 2 and not self.is_shot) or error.head.get("code") not in ("peer", "not_found"):
                    raise
                continue
            # Whose guest was shot, and the spare ones with it, says so with its next cell.
            if result["status"] == "ok" or not self.is_shot:
                break
        assert result is not None, f"refused again and again: {refusals}"
        assert result["status"] == "ok", result
        if result.get("restored"):
            result["restored"]["missing"] = sorted(missing)
            result["restored"]["missing_puts"] = sorted(missing_puts)
        self.asked += len((result.get("restored") or {}).get("replayed", ()))
        found = json.loads(self.output())
        log: list[str] = found["files"].pop("log", "").split()
        self.held, self.is_locked = found["held"], found["locked"]
        return found["log"], log, found["files"], result

    # Judging

    def verify(self, is_forked: bool = False) -> list[str]:
        """What is wrong, as texts beginning with lost, torn, twice, unreported or wrong."""
        row = self.row()
        worlds = [world for world in self.worlds if world.exists == (row is not None)]
        if not worlds:
            return [f"{'lost' if row is None else 'wrong'}: the session is "
                    f"{'gone' if row is None else 'there again'}"]
        if row is None:
            self.world, self.worlds = worlds[0], worlds[:1]
            return self.verify_forks()
        history = self.history_at_rest()
        listed = {row["name"] for row in self.call("snapshots.list", session=self.name)[0]["snapshots"]}
        found = []
        for world in worlds:
            found.append((self.differences(world, history, listed), world))
        if all(bad for bad, _ in found):
            return [" or ".join("; ".join(bad) for bad, _ in found)]
        worlds = [world for bad, world in found if not bad]
        variable, disk, files, result = self.probe()
        found.clear()
        for world in worlds + [world.with_unknown() for world in worlds if world.unknown]:
            found.append((self.state_differences(world, variable, disk, files, result), world))
        if all(bad for bad, _ in found):
            return [" or ".join("; ".join(bad) for bad, _ in found)]
        world = next(world for bad, world in found if not bad)
        self.settle(world, files, result)
        return self.verify_snapshots() + self.verify_forks()

    def differences(self, world: World, history: dict[int, lib.Json], snapshots: set[str]) -> list[str]:
        """Between what a world says of its cells and snapshots, and what is there."""
        bad = []
        for number, known in world.cells.items():
            there = history.get(number)
            if there is None:
                bad.append(f"lost: cell {number} {known} is not in the history")
            elif known is None and there["status"] in ("ok", "running"):
                bad.append(f"unreported: cell {number} reads {there['status']} and nobody was told")
            elif known is not None and (there["status"], there["state"]) != known[:2]:
                bad.append(f"wrong: cell {number} was {known[:2]}, is {there['status'], there['state']}")
        # One that was not acknowledged is in memory at best, and that may go.
        if snapshots - set(world.snapshots) or (set(world.snapshots) & self.promised) - snapshots:
            bad.append(f"wrong: snapshots {sorted(snapshots)}, should be {sorted(world.snapshots)}")
        for number in set(history) - set(world.cells):
            if history[number]["replay_of"] in world.cells:
                continue
            bad.append(f"wrong: cell {number} is in the history and was not asked for")
        if not bad:
            for number in sorted(world.cells)[-2:]:
                bad += self.whole_differences(number, world.cells[number])
        return bad

    def whole_differences(self, number: int, known: Known | None) -> list[str]:
        """Of a cell's full record."""
        head, _ = self.call("cell.show", session=self.name, cell=number)
        if known is None or known[2] is None:
            return []
        result = head["result"]
        if result is None:
            return [f"torn: cell {number} has an outcome without a result"]
        # Not synced, a large output may be lost to a power cut though its cell is not.
        if known[2] not in self.output() and self.options.get("durability") != "process":
            return [f"torn: cell {number} printed {known[2]}, its record says {self.output()[:80]!r}"]
        return []

    def state_differences(self, world: World, variable: list[str], disk: list[str], files: Files,
                          result: lib.Json) -> list[str]:
        restored = result.get("restored")
        log, bad = self.kept_log(world, restored), []
        fresh_from = self.fresh_from(world, restored)
        held, tokens = tokens_of(log, fresh_from), tokens_of(log)
        if disk != tokens:
            bad.append(f"torn: variable {variable}, file {disk}")
        if len(set(disk)) != len(disk):
            bad.append(f"twice: {disk}")
        bad += self.held_differences(variable)
        if restored is not None:
            hidden = {number for number, _ in world.log} - {number for number, _ in log} - set(restored["missing"])
            if hidden:
                bad.append(f"unreported: effects of cells {sorted(hidden)} are missing, told were {restored}")
        if variable != held:
            bad.append(f"lost: variable {variable}, should be {held} (restored: {restored})")
        told = set((restored or {}).get("missing_puts", ())) - world.saved
        changed = {name for name in set(files) | set(world.files) if files.get(name) != world.files.get(name)} - told
        if changed:
            bad.append(f"lost: files {sorted(changed)} are not what they should be (restored: {restored})")
        return bad

    def held_differences(self, variable: list[str]) -> list[str]:
        """The generator is as the last cell that made it left it, and a lock is held, or was told lost."""
        if any(token.startswith("lock-") for token in variable) and not (self.is_locked or self.is_lock_told):
            return ["unreported: the lock is not held"]
        made = [i for i, token in enumerate(variable) if token.startswith("image-")]
        want = variable[:made[-1] + 1] if made else None
        if self.held == want or (self.held is None and self.is_told):
            return []
        return [f"{'unreported' if self.held is None else 'torn'}: the generator holds {self.held}, should be {want}"]

    @staticmethod
    def fresh_from(world: World, restored: lib.Json | None) -> int:
        """Gone back to before that loss, and run again from there, nothing of it is left."""
        return 0 if restored is not None and restored["cell"] < world.fresh_from else world.fresh_from

    @staticmethod
    def kept_log(world: World, restored: lib.Json | None) -> Log:
        """What of a world's cells took effect in a session that may have been restored."""
        if restored is None:
            return list(world.log)
        again = set(restored.get("replayed", ()))
        log = [(number, token) for number, token in world.log if number <= restored["cell"] or number in again]
        return sorted(log + [(number, token) for number, token in world.unknown.items() if number in again])

    def settle(self, world: World, files: Files, result: lib.Json) -> None:
        """Go on from what was found."""
        world = world.copy()
        world.log = self.kept_log(world, result.get("restored"))
        world.fresh_from = self.fresh_from(world, result.get("restored"))
        world.files = files
        given_up = (result.get("restored") or {}).get("missing", ())
        for number, row in self.history().items():
            known = world.cells.get(number)
            if known is None:
                world.cells[number] = (row["status"], row["state"], None)
            elif row["state"] == "undone" and (number in given_up or known[1] == "rolled_back"):
                world.cells[number] = (known[0], "undone", known[2])
        world.unknown = {}
        world.epoch = result.get("epoch", 0)
        self.world, self.worlds = world, [world]

    def verify_snapshots(self) -> list[str]:
        """Each snapshot can be gone back to, or says that it cannot."""
        bad: list[str] = []
        if not self.world.snapshots:
            return bad
        listed = {row["name"]: row for row in self.call("snapshots.list", session=self.name)[0]["snapshots"]}
        for name, (log, files, _, fresh_from) in list(self.world.snapshots.items()):
            if name not in self.promised:
                continue
            if name not in listed:
                bad.append(f"lost: snapshot {name} is not listed")
                continue
            if not listed[name]["where"]:
                bad.append(f"lost: snapshot {name}, written to disk before its answer, is nowhere")
                continue
            self.rollback(name)
            variable, disk, there, result = self.probe()
            held, tokens = tokens_of(log, fresh_from), tokens_of(log)
            bad += self.held_differences(variable)
            if variable != held or disk != tokens or there != files:
                bad.append(f"torn: snapshot {name} holds {variable}, {disk}, should be {held}, {tokens}")
            self.world.cells[result["cell"]] = ("ok", "kept", None)
        return bad

    def verify_forks(self) -> list[str]:
        """Each fork is there as a whole or not at all."""
        bad = []
        for name, log, files, fresh_from in self.forks:
            row = self.row(name)
            if row is None:
                continue
            name = row["name"]
            variable, disk, there, _ = self.probe(name)
            held, tokens = tokens_of(log, fresh_from), tokens_of(log)
            bad += self.held_differences(variable)
            if variable != held or disk != tokens or there != files:
                bad.append(f"torn: fork {name} holds {variable}, {disk}, should be {held}, {tokens}")
            self.call("sessions.destroy", session=name)
        self.forks = []
        return bad
