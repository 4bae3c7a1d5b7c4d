#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Operations in flight at once, on several sessions, by clients of their own; then the daemon or its tier ends.

    SNP_BUILD=build tests/crash/overlap.py [--runs N] [--seed S] [--life I]

A run is a session: rounds of two or three operations at once, the last of which the end of the daemon overlaps. What
was answered must be there when the daemon has come back, in an order that is possible; what was not may be. After an
end in order nothing may be missing that was answered before the end was asked for. Sessions of one life share a daemon.
"""

import argparse
import contextlib
import hashlib
import os
import random
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import lib  # noqa: E402
import story  # noqa: E402
from story import KEEPS, Dead, Refused, Story, World, tokens_of  # noqa: E402

SESSIONS = 8  # of one life
TIMEOUT = 2 * lib.PATIENCE  # of an answer, beside all others
KINDS = {
    "ok": KEEPS,
    "slow": KEEPS + "import time\ntime.sleep({slow})\n",
    "large": KEEPS + "import os\nblock = os.urandom(12 << 20)\n",
    "image": story.KINDS["image"],
    "lock": story.KINDS["lock"],
}


def key_of(world: World) -> str:
    return repr((world.log, sorted(world.files.items()), sorted(world.cells.items()), sorted(world.unknown.items()),
                 sorted(world.snapshots.items()), sorted(world.forks.items())))


# Operations: what is asked, and which worlds it may leave behind -------------------------------------------


class Ask(threading.Thread):
    """One request of a client of its own. outcome: done, refused, or cut off."""

    method = ""

    def __init__(self, story: "Run", delay: float) -> None:
        super().__init__(daemon=True)
        self.story, self.delay = story, delay
        self.asked = self.answered = float("inf")
        self.outcome = "cut off"
        self.head: lib.Json = {}

    def request(self) -> tuple[bytes, lib.Json]:
        """(raw, members)"""
        return b"", {"session": self.story.name}

    def run(self) -> None:
        time.sleep(self.delay)
        raw, members = self.request()
        self.asked = time.monotonic()
        try:
            with lib.Client(self.story.box.socket, self.story.box.uid) as rpc:
                rpc.sock.settimeout(TIMEOUT)
                kind, self.head, _, _ = rpc.call(self.method, raw, **members)
            self.outcome = "refused" if kind == lib.ERROR else "done"
            self.story.hear(self.head)
        except (OSError, EOFError):
            return
        self.answered = time.monotonic()

    def leaves(self, world: World) -> list[World]:
        """Worlds after it, if it took place; none: it cannot have, as answered."""
        return [world]

    def after(self, world: World) -> list[World]:
        return self.leaves(world.copy()) + ([world] if self.outcome != "done" else [])

    def __str__(self) -> str:
        parts = {name: self.head[name] for name in ("cell", "how", "status") if name in self.head}
        what = self.head.get("message") or parts
        return f"{self.delay * 1000:.0f} ms {self.method} {self.detail()}: {self.outcome} {what or ''}"

    def detail(self) -> str:
        return ""


class Exec(Ask):
    method = "exec"

    def __init__(self, story: "Run", delay: float, chance: random.Random) -> None:
        super().__init__(story, delay)
        self.kind = chance.choice(["ok", "ok", "slow", "large", "image", "lock"])
        self.token = f"{self.kind}-{secrets.token_hex(4)}"
        self.code = KINDS[self.kind].format(token=self.token, slow=chance.choice([0.02, 0.1, 0.3])).encode()

    def request(self) -> tuple[bytes, lib.Json]:
        self.story.asked += 1
        return self.code, {"session": self.story.name, "kind": "python", "code_len": len(self.code),
                           **self.story.options}

    def leaves(self, world: World) -> list[World]:
        number = world.last + 1
        unknown, refused, whole = world, world.copy(), world.copy()
        whole.cells[number] = ("ok", "kept", self.token)
        whole.log.append((number, self.token))
        unknown.cells[number] = None
        unknown.unknown[number] = self.token
        refused.cells[number] = ("refused", "kept", None)
        if self.outcome == "done":
            right = self.head["cell"] == number and (self.head["status"], self.head["state"]) == ("ok", "kept")
            return [whole] if right else []
        return [unknown, refused] if self.outcome == "refused" else [unknown, whole]

    def detail(self) -> str:
        return self.token


class Put(Ask):
    method = "put"

    def __init__(self, story: "Run", delay: float, chance: random.Random) -> None:
        super().__init__(story, delay)
        self.path = chance.choice(["a.bin", "b.bin", "c.bin"])
        self.data = secrets.token_bytes(chance.choice([10, 100_000]))

    def request(self) -> tuple[bytes, lib.Json]:
        return self.data, {"session": self.story.name, "path": self.path, "offset": 0, "truncate": True, "mode": 0}

    def leaves(self, world: World) -> list[World]:
        world.files[self.path] = hashlib.sha256(self.data).hexdigest()
        return [world]

    def detail(self) -> str:
        return self.path


class Snapshot(Ask):
    method = "snapshot"

    def __init__(self, story: "Run", delay: float, chance: random.Random) -> None:
        super().__init__(story, delay)
        self.label = f"n{len(story.labels)}"
        self.waits = chance.random() < 0.3
        story.labels.append(self.label)

    def request(self) -> tuple[bytes, lib.Json]:
        return b"", {"session": self.story.name, "name": self.label, "wait": self.waits}

    def leaves(self, world: World) -> list[World]:
        if self.outcome == "done" and self.head["cell"] != world.last:
            return []
        world.snapshots[self.label] = (list(world.log), dict(world.files), world.last, 0)
        return [world]

    def detail(self) -> str:
        return self.label + (" --wait" if self.waits else "")


class Rollback(Ask):
    method = "rollback"

    def __init__(self, story: "Run", delay: float, chance: random.Random) -> None:
        super().__init__(story, delay)
        self.label = chance.choice(story.labels)

    def request(self) -> tuple[bytes, lib.Json]:
        return b"", {"session": self.story.name, "snapshot": f"{self.story.name}@{self.label}"}

    def leaves(self, world: World) -> list[World]:
        if self.label not in world.snapshots:
            return []
        log, files, at, _ = world.snapshots[self.label]
        world.log, world.files = list(log), dict(files)
        for number, known in world.cells.items():
            if number > at and known is not None:
                world.cells[number] = (known[0], "undone", known[2])
        world.unknown = {number: token for number, token in world.unknown.items() if number <= at}
        return [world]

    def detail(self) -> str:
        return self.label


class Fork(Ask):
    method = "fork"

    def __init__(self, story: "Run", delay: float, chance: random.Random) -> None:
        super().__init__(story, delay)
        self.label = f"{story.name}-f{secrets.token_hex(2)}"
        self.of = chance.choice([None, chance.choice(story.labels)])
        story.fork_names.append(self.label)

    def request(self) -> tuple[bytes, lib.Json]:
        return b"", {"from": self.story.name if self.of is None else f"{self.story.name}@{self.of}", "n": 1,
                     "name": self.label}

    def leaves(self, world: World) -> list[World]:
        if self.of is not None and self.of not in world.snapshots:
            return []
        log, files = (world.log, world.files) if self.of is None else world.snapshots[self.of][:2]
        world.forks[self.label] = (list(log), dict(files))
        return [world]

    def detail(self) -> str:
        return f"of {self.of or 'now'}"


class Plain(Ask):
    """It changes nothing that can be seen."""

    def after(self, world: World) -> list[World]:
        return [world]


class Checkpoint(Plain):
    method = "checkpoint"

    def __init__(self, story: "Run", delay: float, _: random.Random) -> None:
        super().__init__(story, delay)


class Hibernate(Checkpoint):
    method = "hibernate"


class Move(Plain):
    method = "sessions.move"

    def __init__(self, story: "Run", delay: float, chance: random.Random) -> None:
        super().__init__(story, delay)
        self.tier = chance.choice(["native", "local"])

    def request(self) -> tuple[bytes, lib.Json]:
        return b"", {"session": self.story.name, "tier": self.tier}

    def detail(self) -> str:
        return f"to {self.tier}"


Kind = Callable[["Run", float, random.Random], Ask]
DRAWN: tuple[Kind, ...] = (Exec, Exec, Put, Put, Snapshot, Snapshot, Rollback, Rollback, Checkpoint, Hibernate, Fork,
                           Move)


def worlds_after(worlds: list[World], asks: Sequence[Ask]) -> list[World]:
    """All that the operations may have left, in every order their times allow."""
    found: dict[str, World] = {}

    def go(world: World, left: Sequence[Ask]) -> None:
        if not left:
            found[key_of(world)] = world
            return
        first = min(ask.answered for ask in left)
        for ask in left:
            if ask.asked <= first:
                for after in ask.after(world):
                    go(after, [other for other in left if other is not ask])

    for world in worlds:
        go(world, asks)
    return list(found.values())


# One session ---------------------------------------------------------------------------------------------


class Run(Story):
    def __init__(self, box: lib.Sandbox, chance: random.Random) -> None:
        super().__init__(box, f"o{secrets.token_hex(4)}", chance.choice(["checkpoint", "replay"]))
        self.chance = chance
        self.labels: list[str] = []
        self.fork_names: list[str] = []
        self.said: list[list[Ask]] = []
        self.worlds = [World()]
        self.worlds[0].exists = True

    def draw(self, kinds: Sequence[Kind], spread: float = 0.04) -> list[Ask]:
        return [kind(self, self.chance.choice([0, self.chance.uniform(0, spread)]), self.chance) for kind in kinds]

    def one(self, ask: Ask) -> None:
        """An operation by itself."""
        self.round([ask])
        assert ask.outcome == "done", str(ask)

    def round(self, asks: list[Ask]) -> None:
        for ask in asks:
            ask.start()
        for ask in asks:
            ask.join()
        self.note(asks)

    def note(self, asks: list[Ask]) -> None:
        self.said.append(asks)
        self.worlds = worlds_after(self.worlds, asks)
        assert self.worlds, "no order explains the answers"

    def begin(self) -> None:
        first = Exec(self, 0, self.chance)
        self.one(first)
        taken = Snapshot(self, 0, self.chance)
        taken.waits = True
        self.one(taken)
        self.promised.add(taken.label)

    def drawn(self) -> list[Kind]:
        return [self.chance.choice(DRAWN) for _ in range(self.chance.choice([2, 2, 3]))]

    # Judging

    def judge(self, in_order: bool, end_asked: float) -> None:
        """What is wrong, once the daemon is there again."""
        asks = [ask for round_ in self.said for ask in round_]
        for ask in asks:
            if isinstance(ask, Snapshot) and ask.outcome == "done" and (in_order or ask.waits):
                self.promised.add(ask.label)
        history = self.history_at_rest()
        rows = {row["name"]: row for row in self.call("snapshots.list", session=self.name)[0]["snapshots"]}
        worlds = self.those(self.worlds, lambda world: self.differences(world, history, set(rows)))
        variable, disk, files, result = self.probe()
        worlds = self.those(worlds + [world.with_unknown() for world in worlds if world.unknown],
                            lambda world: self.state_differences(world, variable, disk, files, result))
        if in_order:
            self.nothing_missing(asks, result.get("restored") or {}, end_asked)
        for label, row in rows.items():
            if not row["where"]:
                assert label not in self.promised, f"lost: snapshot {label} is nowhere"
                continue
            self.call("rollback", session=self.name, snapshot=f"{self.name}@{label}")
            seen = self.probe()[:3]
            worlds = self.those(worlds, lambda world: self.unlike(f"snapshot {label}", world.snapshots[label], seen))
        for label in self.fork_names:
            row = self.row(label)
            if row is None:
                worlds = self.those(worlds, lambda world: [f"lost: fork {label}"] if label in world.forks else [])
                continue
            seen = self.probe(row["name"])[:3]
            worlds = self.those(worlds, lambda world: self.unlike(f"fork {label}", world.forks.get(label), seen))
            self.call("sessions.destroy", session=row["name"])
        self.call("sessions.destroy", session=self.name)

    @staticmethod
    def those(worlds: list[World], differences: Callable[[World], list[str]]) -> list[World]:
        """The worlds that fit."""
        found = [(differences(world), world) for world in worlds]
        assert not all(bad for bad, _ in found), " or ".join(sorted({"; ".join(bad) for bad, _ in found}))
        return [world for bad, world in found if not bad]

    @staticmethod
    def unlike(what: str, kept: tuple[Any, ...] | None, seen: tuple[Any, ...]) -> list[str]:
        if kept is None:
            return [f"wrong: {what} is there"]
        tokens = tokens_of(kept[0])
        return [] if seen == (tokens, tokens, kept[1]) else [f"torn: {what} holds {seen}, should be {tokens} {kept[1]}"]

    @staticmethod
    def nothing_missing(asks: Sequence[Ask], restored: lib.Json, end_asked: float) -> None:
        before = [ask for ask in asks if ask.outcome == "done" and ask.answered < end_asked]
        cells = {ask.head["cell"] for ask in before if isinstance(ask, Exec)} & set(restored.get("missing", ()))
        puts = {ask.path for ask in before if isinstance(ask, Put)} & set(restored.get("missing_puts", ()))
        # A later put of the same file may not have been answered.
        puts -= {ask.path for ask in asks if isinstance(ask, Put) and ask not in before}
        assert not cells and not puts, f"missing after an end in order: cells {sorted(cells)}, files {sorted(puts)}"

    def text(self) -> str:
        return "\n        ".join(" | ".join(map(str, asks)) for asks in self.said)


# One life of a daemon ------------------------------------------------------------------------------------


class Harness:
    def __init__(self, seed: int, who: str = "root", tier: str = "native",
                 say: Callable[[str], object] = print) -> None:
        self.seed, self.say = seed, say
        self.box = lib.Sandbox(who, tier=tier)
        self.problems: list[str] = []
        self.done = 0
        self.ends: dict[str, int] = {}

    def close(self) -> None:
        self.box.close()

    def end(self, how: str) -> None:
        daemon = self.box.daemon
        assert daemon is not None
        if how == "tier":
            with contextlib.suppress(ProcessLookupError):
                os.kill(lib.some(self.box.tier_pid()), signal.SIGKILL)
            return
        if how == "kill":
            daemon.kill()
        elif how == "term":
            daemon.terminate()
        else:
            with contextlib.suppress(OSError, EOFError), lib.Client(self.box.socket, self.box.uid) as rpc:
                rpc.call("shutdown", force=True)
        with contextlib.suppress(Exception):
            daemon.wait(4 * lib.PATIENCE)
        daemon.kill()
        daemon.wait()

    def life(self, number: int) -> dict[Run, str]:
        """Several sessions side by side; what went wrong, as texts."""
        chance = random.Random(f"{self.seed}:{number}")
        options = ("--checkpoint-after", chance.choice(["600", "0.05", "1"]))
        how = chance.choice(["term", "shutdown", "kill", "tier"])
        wait = chance.choice([0, chance.uniform(0, 0.05), chance.uniform(0, 0.4)])
        self.ends[how] = self.ends.get(how, 0) + 1
        self.box.start(*options)
        runs = [Run(self.box, random.Random(f"{self.seed}:{number}:{i}")) for i in range(SESSIONS)]
        bad: dict[Run, str] = {}
        self.side_by_side(runs, self.before, bad)
        last = {run: run.draw(run.drawn()) for run in runs if run not in bad}
        for asks in last.values():
            for ask in asks:
                ask.start()
        time.sleep(wait)
        end_asked = time.monotonic()
        self.end(how)
        for run, asks in last.items():
            for ask in asks:
                ask.join()
        if how != "tier":
            self.box.start(*options)
        in_order = how in ("term", "shutdown")
        self.side_by_side(last, lambda run: self.after(run, last[run], in_order, end_asked), bad)
        for run in runs:
            run.hang_up()
        self.done += len(runs)
        head = f"seed {self.seed} life {number}, {' '.join(options)}, {how} after {wait * 1000:.0f} ms"
        for run, text in bad.items():
            self.problems.append(f"{head}: {text}")
            self.say(f"{head} --recover {run.recover} {run.name}\n    {text[:1500]}\n        {run.text()}")
        return bad

    @staticmethod
    def side_by_side(runs: Iterable[Run], what: Callable[[Run], object], bad: dict[Run, str]) -> None:
        def one(run: Run) -> None:
            try:
                what(run)
            except (Dead, Refused, RuntimeError, AssertionError, OSError) as reason:
                bad[run] = f"{type(reason).__name__}: {reason}"

        threads = [threading.Thread(target=one, args=(run,)) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @staticmethod
    def before(run: Run) -> None:
        run.begin()
        for _ in range(run.chance.choice([0, 1, 1])):
            run.round(run.draw(run.drawn()))

    @staticmethod
    def after(run: Run, asks: list[Ask], in_order: bool, end_asked: float) -> None:
        run.note(asks)
        run.wait_for_journal()
        run.judge(in_order, end_asked)

    def run_all(self, runs: int) -> None:
        number = 0
        while self.done < runs:
            self.life(number)
            number += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--life", type=int, default=None, help="only that one, again and again")
    parser.add_argument("--who", default="root", choices=["root", "user"])
    parser.add_argument("--tier", default="native", choices=["native", "local"])
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbits(32)
    start = time.monotonic()
    harness = Harness(seed, options.who, options.tier, lambda text: print(text, flush=True))
    try:
        if options.life is None:
            harness.run_all(options.runs)
        else:
            while harness.done < options.runs:
                harness.life(options.life)
    finally:
        harness.close()
    print(f"{len(harness.problems)} of {harness.done} wrong, seed {seed}, ends {harness.ends}, "
          f"{time.monotonic() - start:.0f} s", flush=True)
    return 1 if harness.problems else 0


if __name__ == "__main__":
    sys.exit(main())
