#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kills daemon, tier and guest, or lets their calls fail, at every point a scenario reaches.

    SNP_BUILD=build-faults tests/crash/harness.py [--runs N] [--seed S] [--only SCENARIO] [--who user] [--tier local]

First each scenario runs once and the points it reaches are counted; then it runs again for each
point, the n-th time it is reached chosen at random, and dies or fails there. What was acknowledged
must be there afterwards (story.py). The last line is the count of the whole.
"""

import argparse
import collections
import contextlib
import functools
import glob
import os
import random
import re
import secrets
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Self

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import lib  # noqa: E402
from rig import Rig  # noqa: E402
from story import Dead, Refused, Story  # noqa: E402

RUNS_OF_A_RIG = 40


# What is done -------------------------------------------------------------------------------


def cells(story: Story, _: Rig) -> None:
    story.cell()
    story.cell("error")
    story.cell("killed")
    story.command()
    story.cell("loud")


def files(story: Story, _: Rig) -> None:
    story.cell()
    story.put("a.bin", b"first " * 1000)
    story.cell()
    story.put("a.bin", b"second")
    story.put("b.bin", b"other")
    story.cell()


def checkpoints(story: Story, _: Rig) -> None:
    story.cell("large")
    story.put("a.bin", b"data" * 50_000)
    story.checkpoint()
    story.cell()
    story.checkpoint()
    story.cell("killed")


def sleep(story: Story, _: Rig) -> None:
    story.cell()
    story.hibernate()
    story.cell()
    story.hibernate()


def move(story: Story, rig: Rig) -> None:
    story.cell()
    story.move("local" if rig.box.tier == "native" else "native")
    story.cell()
    story.move(rig.box.tier)
    story.cell()


def snapshots(story: Story, _: Rig) -> None:
    story.cell()
    story.snapshot("one")
    story.cell()
    story.snapshot("two")
    story.rollback("one")
    story.cell()
    story.drop("two")


def forks(story: Story, _: Rig) -> None:
    story.cell()
    story.fork(f"{story.name}-a")
    story.snapshot("one")
    story.cell()
    story.fork(f"{story.name}-b", "one")


def clear(story: Story, _: Rig) -> None:
    story.cell()
    story.checkpoint()
    story.cell()
    story.clear()
    story.cell()


def collect(story: Story, _: Rig) -> None:
    story.cell("large")
    story.checkpoint()
    story.cell("large")
    story.checkpoint()
    story.gc()
    story.cell()


def destroy(story: Story, _: Rig) -> None:
    story.cell()
    story.checkpoint()
    story.destroy()


def restart(story: Story, rig: Rig) -> None:
    """The daemon dies between cells and comes up again, and perhaps dies again while it does."""
    story.cell()
    story.checkpoint()
    story.cell()
    story.hang_up()
    rig.kill()
    rig.start()
    story.row()


def images(story: Story, _: Rig) -> None:
    """What variables cannot hold is saved, woken, gone back to and forked by image."""
    story.cell("image")
    story.hibernate()
    story.cell()
    story.fork(f"{story.name}-a")
    story.snapshot("one")
    story.cell("image")
    story.hibernate()
    story.rollback("one")
    story.cell()


def thaw(story: Story, rig: Rig) -> None:
    """A template writes its image, and the next daemon starts it from there; what was woken before wakes again."""
    folder = os.path.join(rig.box.state, "images")

    def images() -> list[str]:
        return glob.glob(os.path.join(folder, "*.image"))

    for is_thawed in (False, True):
        story.cell("image")
        story.hibernate()
        story.hang_up()
        rig.kill()
        for name in os.listdir(folder) if os.path.isdir(folder) and not is_thawed else ():
            os.unlink(os.path.join(folder, name))
        rig.start()
        story.cell()
        if not is_thawed:
            lib.wait_for(lambda: images() or rig.faults.obeyed())
            lib.wait_for(images, 3)  # what went wrong may keep it away: then there is nothing to wait for


NEEDS: dict[str, tuple[Callable[[Story, Rig], None], tuple[str, ...]]] = {
    "cells": (cells, ()),
    "files": (files, ()),
    "checkpoints": (checkpoints, ("checkpoint",)),
    "sleep": (sleep, ("hibernate",)),
    "move": (move, ("sessions.move",)),
    "snapshots": (snapshots, ("snapshot", "rollback", "snapshots.remove")),
    "forks": (forks, ("fork", "snapshot")),
    "clear": (clear, ("sessions.clear",)),
    "collect": (collect, ("gc", "checkpoint")),
    "destroy": (destroy, ("checkpoint",)),
    "restart": (restart, ("checkpoint",)),
    "images": (images, ("hibernate", "fork", "snapshot", "rollback")),
    "thaw": (thaw, ("hibernate",)),
}


VICTIMS = ("interpreters", "interpreter", "init", "tier")
STOPS = tuple(("stop", victim) for victim in VICTIMS)


def actions(point: str) -> list[tuple[str, str]]:
    """What can go wrong at a point: (action, errno or victim), by kinds that are equally likely."""
    call, _, what = point.partition(".")
    if call == "write" and what in ("cgroup", "proc"):  # the kernel takes them whole
        return [("kill", ""), ("fail", "EIO"), ("full", "ENOSPC")]
    if call == "write" and what == "pipe":  # libuv's own are among them, and it ends if one fails
        return [("kill", ""), ("torn", "")]
    if call == "write":
        return [("kill", ""), ("torn", ""), ("fail", "EIO"), ("full", "ENOSPC")]
    if call == "fsync":
        return [("kill", ""), ("fail", "EIO")]
    if call in ("rename", "unlink", "create", "mkdir", "link", "truncate"):
        return [("kill", ""), ("full", "ENOSPC")]
    if call == "send":
        return [("kill", ""), ("torn", ""), ("fail", "ECONNRESET"), *STOPS]
    if call == "recv":  # ECONNRESET would say that the peer closed with unread data, and the request is sent again
        return [("kill", ""), ("fail", "ENOMEM"), *STOPS]
    return [("kill", ""), *STOPS]


class Plan:
    """One run: a scenario, where it goes wrong and how, and what its user asks for.

    detail: the errno of a failure, or whom a program that stops loses.
    """

    def __init__(self, scenario: str, program: str, point: str, nth: int, action: str, detail: str = "",
                 recover: str = "checkpoint", durability: str = "synced") -> None:
        self.scenario, self.program, self.point = scenario, program, point
        self.nth, self.action, self.detail = nth, action, detail
        self.recover, self.durability = recover, durability

    @classmethod
    def parse(cls, text: str) -> Self:
        scenario, where, nth, action, *asked = text.replace(": ", ":").split(":")
        program, _, point = where.partition("/")
        action, _, detail = action.partition("=")
        return cls(scenario, program, point, int(nth), action, detail, *asked)

    def __str__(self) -> str:
        how = f"{self.action}={self.detail}" if self.detail else self.action
        return (f"{self.scenario}: {self.program}/{self.point}:{self.nth}:{how}"
                f":{self.recover}:{self.durability}")

    @property
    def is_shot(self) -> bool:
        """Whether the guest may die for a reason that is not the daemon's."""
        return self.action == "stop" or (self.program != "daemon" and self.action in ("fail", "full"))


class Harness:
    def __init__(self, seed: int, who: str = "root", say: Callable[[str], object] = print,
                 tier: str = "native") -> None:
        self.random = random.Random(seed)
        self.who, self.tier = who, tier
        self.say = say
        self.rig: Rig | None = None
        self.tiers: set[int] = set()
        self.problems: list[str] = []
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.runs = 0

    # The rig, which several runs share

    def open(self) -> Rig:
        if self.rig is None:
            self.rig = Rig(self.who, {"SNIPARA_SANDBOX_TEMPLATE_IMAGES": "50"}, tier=self.tier)
            self.runs = 0
        self.rig.start()
        return self.rig

    def close(self) -> None:
        """End it, and look for what is left behind."""
        if self.rig is None:
            return
        rig, self.rig = self.rig, None
        rig.faults.forget()
        for _ in range(2):  # what a dead one left is cleared by the next
            rig.start()
            self.note_tier(rig)
            rig.value("1")
            self.note_tier(rig)
            with rig.box.client() as rpc:
                rpc.call("gc")
            rig.box.stop()
        self.problems += leftovers(rig, self.tiers)
        rig.close()

    def note_tier(self, rig: Rig) -> None:
        pid = rig.box.tier_pid()
        if pid is not None:
            self.tiers.add(pid)

    def has(self, *methods: str) -> bool:
        return all(self.open().has(method) for method in methods)

    def scenarios(self, only: Sequence[str] | None = None) -> list[str]:
        names = [name for name in NEEDS if name != "thaw" or self.tier == "native"]  # others have no such images
        return [name for name in names if (not only or name in only) and self.has(*NEEDS[name][1])]

    # Recording

    def record(self, scenario: str) -> collections.Counter[tuple[str, str]]:
        """{(program, point): times} of a run where nothing goes wrong; it must be without fault."""
        rig = self.open()
        rig.value("1")
        before = rig.faults.counts()
        story = self.story()
        try:
            NEEDS[scenario][0](story, rig)
            reached = rig.faults.counts() - before
            bad = story.verify()
        except (Dead, Refused, AssertionError) as reason:
            bad = [repr(reason)]
        assert not bad, f"{scenario} goes wrong by itself: {bad}"
        self.forget(story)
        return reached

    def plans(self, scenarios: Sequence[str], runs: int) -> Iterator[Plan]:
        """At least one run for each point while there are runs, the rest by chance."""
        every = []
        for name in scenarios:
            for (program, point), times in sorted(self.record(name).items()):
                every.append((name, program, point, times))
        self.random.shuffle(every)
        weights = [times ** 0.5 for _, _, _, times in every]
        chosen = every[:runs] + self.random.choices(every, weights, k=max(0, runs - len(every)))
        for name, program, point, times in chosen:
            kinds = actions(point)
            action = self.random.choice(sorted({action for action, _ in kinds}))
            detail = self.random.choice([detail for kind, detail in kinds if kind == action])
            # Our own death costs nothing either way: only a power cut can tell durabilities apart.
            yield Plan(name, program, point, self.random.randint(1, times), action, detail,
                       self.random.choice(["checkpoint", "replay"]), self.random.choice(["synced", "process"]))

    def story(self, recover: str = "checkpoint", durability: str = "synced") -> Story:
        assert self.rig is not None
        return Story(self.rig.box, f"s{secrets.token_hex(4)}", recover, durability=durability)

    @staticmethod
    def forget(story: Story) -> None:
        with contextlib.suppress(Refused):
            story.destroy()
        story.hang_up()

    # One run

    def run(self, plan: Plan) -> list[str]:
        """What went wrong, as texts."""
        rig = self.open()
        self.runs += 1
        rig.value("1")
        self.note_tier(rig)
        starts = rig.faults.count(f"tier-{rig.box.tier}", "cell.start")
        story = self.story(plan.recover, plan.durability)
        story.is_shot = plan.is_shot
        daemon = rig.daemon
        rig.faults.order(plan.program, plan.point, plan.nth, plan.action,
                         plan.detail if plan.action in ("fail", "full") else 0)
        try:
            with Guard(rig, plan, self.random):
                NEEDS[plan.scenario][0](story, rig)
            how = "answered"
        except Dead:
            how = "cut off"
        except Refused as error:
            how = f"refused ({error.head.get('code')})"
        except RuntimeError:
            how = "refused (the daemon did not start)"
        except AssertionError as error:
            how = f"answered wrongly: {error}"
        rig.faults.forget()
        if plan.action == "stop":  # it may have stopped itself when nobody looked any more
            go_on(rig)
        reached = rig.faults.obeyed() > 0
        if reached and plan.action in ("kill", "torn") and plan.program == "daemon":
            # It may have been started again since, by a scenario that does so, and then lives on.
            with contextlib.suppress(subprocess.TimeoutExpired):
                rig.daemon.wait(lib.PATIENCE if rig.daemon is daemon else 3)
        self.outcomes[how.split(":")[0].split(" (")[0] if reached else "not reached"] += 1
        bad = self.judge(rig, story)
        if how.startswith("answered wrongly"):
            bad.append(f"wrong: {how[:300]}")
        started = rig.faults.count(f"tier-{rig.box.tier}", "cell.start") - starts
        if started > story.asked:
            bad.append(f"twice: {started} cells were started, {story.asked} were asked for")
        if self.runs >= RUNS_OF_A_RIG or bad:
            self.close()
        return bad

    def judge(self, rig: Rig, story: Story) -> list[str]:
        """After the fault: what is found, and whether life goes on."""
        try:
            story.hang_up()
            rig.start()
            story.wait_for_journal()
            bad = story.verify() or self.go_on(story)
            if not bad:
                self.forget(story)
            return bad
        except (Dead, Refused, RuntimeError, AssertionError) as reason:
            where = traceback.extract_tb(reason.__traceback__)[1:4]
            return [f"wrong: after it {type(reason).__name__}: {str(reason)[:400]} "
                    f"({' > '.join(f'{frame.name} {frame.line}' for frame in where)})"]
        finally:
            story.hang_up()

    @staticmethod
    def go_on(story: Story) -> list[str]:
        try:
            story.cell()
        except Refused:  # a death that is noticed only now is said now
            bad = story.verify()
            if bad:
                return bad
            story.cell()
        return story.verify()

    def run_all(self, scenarios: Sequence[str], runs: int) -> tuple[int, int]:
        """(runs, those that went wrong)"""
        done, failed = 0, 0
        for plan in list(self.plans(scenarios, runs)):
            bad = self.run(plan)
            done += 1
            if bad:
                failed += 1
                self.problems += [f"{plan}: {text}" for text in bad]
                self.say(f"{plan}\n    " + "\n    ".join(bad))
        self.close()
        return done, failed


class Guard:
    """While a scenario runs: a program that stopped itself loses its guest, and goes on."""

    def __init__(self, rig: Rig, plan: Plan, chance: random.Random) -> None:
        self.rig, self.plan, self.chance = rig, plan, chance
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch) if plan.action == "stop" else None

    def __enter__(self) -> None:
        if self.thread:
            self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        if self.thread:
            self.thread.join()

    def watch(self) -> None:
        while not self.rig.faults.obeyed():
            if self.over.wait(0.002):
                return
        for pid in self.victims():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
        go_on(self.rig)
        while not self.over.wait(0.1):  # it said so before it stopped, which may be later
            go_on(self.rig)

    def victims(self) -> list[int]:
        tier = self.rig.box.tier_pid()
        if self.plan.detail == "tier" and self.plan.program == "daemon":
            return [tier] if tier else []
        inits = [pid for pid in lib.descendants(tier) if is_init(pid)] if tier else []
        if self.plan.detail == "init":
            return inits
        # Interpreters, asleep or awake, and whatever else runs in a sandbox.
        found = [pid for init in inits for pid in lib.descendants(init) if name_of(pid) != "files"]
        return [self.chance.choice(found)] if found and self.plan.detail == "interpreter" else found


def go_on(rig: Rig) -> None:
    """Whoever stopped itself goes on; it need not be a daemon or tier of now, but may be one that was replaced."""
    for pid in lib.parents():
        if rig.folder_of(pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)


def is_init(pid: int) -> bool:
    """Whether a process is the init of a sandbox."""
    try:
        program = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
    return name_of(pid) == "init" and ("memfd" in program or program.endswith("snp-init"))


def name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return ""


def state_of(pid: int) -> str:
    """Its state, and what it waits for in the kernel."""
    try:
        with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/wchan") as wchan:
            return stat.read().rpartition(")")[2].split()[0] + " " + wchan.read()
    except OSError:
        return "gone"


# What may not be left -----------------------------------------------------------------------


def leftovers(rig: Rig, tiers: set[int]) -> list[str]:
    """After the daemon has ended in order."""
    bad = []
    groups = [path for pid in tiers for path in glob.glob("/sys/fs/cgroup/**/snipara-sandbox-*", recursive=True)
              if re.search(rf"\b{pid}\b", os.path.basename(path))]
    if groups:
        bad.append(f"left: control groups {groups[:3]}")
    ours = [pid for pid in lib.parents() if rig.folder_of(pid)]
    if not lib.wait_for(lambda: not [pid for pid in ours if lib.is_alive(pid)]):
        left = [(pid, lib.program_of(pid), state_of(pid)) for pid in ours if lib.is_alive(pid)]
        bad.append(f"left: processes {left}")
    with open("/proc/self/mounts") as mounts:
        mine = [line for line in mounts if rig.box.folder in line]
    if mine:
        bad.append(f"left: mounts {mine}")
    return bad + store_leftovers(rig)


CHECKS = (
    ("torn: blobs are counted wrongly",
     "SELECT hex(hash), refs FROM blobs b WHERE refs != (SELECT count(*) FROM items WHERE blob = b.row)"
     " + (SELECT count(*) FROM parts WHERE blob = b.row)"),
    ("left: blobs that nothing needs, after gc", "SELECT hex(hash) FROM blobs WHERE refs = 0"),
    ("left: checkpoints that were never whole", "SELECT row FROM checkpoints WHERE complete = 0"),
    ("left: cells that run for ever", "SELECT cell FROM cells WHERE status = 'running'"),
    ("torn: items without their blob",
     "SELECT row FROM items WHERE blob IS NOT NULL AND blob NOT IN (SELECT row FROM blobs)"),
    ("torn: parts without their blob",
     "SELECT row FROM parts WHERE blob IS NOT NULL AND blob NOT IN (SELECT row FROM blobs)"),
    ("torn: rows without their parent", "PRAGMA foreign_key_check"),
)


def store_leftovers(rig: Rig) -> list[str]:
    """Blobs without a row, rows without a blob, a database that is not whole."""
    folder = os.path.join(rig.box.state, "journal")
    bad = []
    with contextlib.closing(sqlite3.connect(os.path.join(folder, "journal.db"))) as db:
        whole = db.execute("PRAGMA integrity_check").fetchall()
        if whole != [("ok",)]:
            bad.append(f"torn: the database: {whole[:3]}")
        for text, query in CHECKS:
            rows = db.execute(query).fetchall()
            if rows:
                bad.append(f"{text}: {len(rows)}, e.g. {rows[0]}")
        expected = {row[0].lower() for row in db.execute("SELECT hex(hash) FROM blobs WHERE data IS NULL")}
    there = {os.path.basename(path) for path in glob.glob(os.path.join(folder, "blobs", "*", "*"))}
    if there - expected:
        bad.append(f"left: {len(there - expected)} blobs that no row knows, e.g. {sorted(there - expected)[0]}")
    if expected - there:
        bad.append(f"lost: {len(expected - there)} blobs are not on disk, e.g. {sorted(expected - there)[0]}")
    return bad


def run_one(harness: Harness, plan: Plan) -> int:
    """One plan, with what the daemon had to say."""
    box = harness.open().box
    closing = box.close

    def close() -> None:
        print(box.log())
        closing()

    setattr(box, "close", close)
    bad = harness.run(plan)
    harness.close()
    print("\n".join(bad + harness.problems) or "nothing was lost")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=600)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", action="append")
    parser.add_argument("--who", default="root", choices=["root", "user"])
    parser.add_argument("--tier", default="native", choices=["native", "local"])
    parser.add_argument("--plan", help="SCENARIO:PROGRAM/POINT:NTH:ACTION[=DETAIL][:RECOVER:DURABILITY], "
                                       "as printed: only that")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbits(32)
    harness = Harness(seed, options.who, functools.partial(print, flush=True), options.tier)
    start = time.monotonic()
    if options.plan:
        try:
            return run_one(harness, Plan.parse(options.plan))
        finally:
            harness.close()
    scenarios = harness.scenarios(options.only)
    print(f"seed {seed}, scenarios: {', '.join(scenarios)}", flush=True)
    try:
        done, failed = harness.run_all(scenarios, options.runs)
    finally:
        harness.close()
    for problem in harness.problems:
        if problem.startswith("left") or problem.startswith("torn"):
            print(problem)
    print(", ".join(f"{count} {how}" for how, count in harness.outcomes.most_common()))
    print(f"{time.monotonic() - start:.0f} s")
    if failed == 0 and not harness.problems:
        print(f"0 of {done} lost, torn or run twice, every unknown outcome reported")
    else:
        print(f"{failed} of {done} runs went wrong, {len(harness.problems)} problems")
    return 1 if harness.problems else 0


if __name__ == "__main__":
    sys.exit(main())
