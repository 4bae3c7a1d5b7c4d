# SPDX-License-Identifier: Apache-2.0
"""A sample of the crash harness (harness.py runs all of it), and proof that it sees what is lost.

SNP_CRASH_RUNS: how many times as much; SNP_SEED repeats a sample. What goes wrong is printed with its
plan, which `harness.py --plan PLAN` repeats.
"""

import contextlib
import os
import random
import secrets
import sqlite3
import time
from collections.abc import Callable

import pytest

import lib
import overlap
from harness import Harness
from rig import MakeRig
from story import Story

TIMES = int(os.environ.get("SNP_CRASH_RUNS", "1"))


@pytest.mark.parametrize("who, tier, scenarios, runs", [("root", "native", 13, 24), ("user", "native", 3, 6),
                                                        ("user", "local", 2, 5)])
def test_nothing_is_lost_wherever_something_dies(who: str, tier: str, scenarios: int, runs: int,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    lib.need("root", who == "user" or os.geteuid() == 0, "the tests do not run as root")
    seed = int(os.environ.get("SNP_SEED", secrets.randbits(32)))
    start = time.monotonic()
    harness = Harness(seed, who, lambda _: None, tier)
    try:
        chosen = random.Random(seed).sample(harness.scenarios(), scenarios)
        done, failed = harness.run_all(chosen, runs * TIMES)
    finally:
        harness.close()
    with capsys.disabled():
        print(f"\n{failed} of {done} lost, torn or run twice, every unknown outcome reported "
              f"({who}, {tier}, seed {seed}; {dict(harness.outcomes)}; {time.monotonic() - start:.0f} s)",
              *harness.problems, sep="\n    ")
    assert not harness.problems, " | ".join(harness.problems)
    assert done >= runs * TIMES


@pytest.mark.parametrize("seed, runs", [(1, 32), (7, 32)])
def test_operations_in_flight_at_once_lose_nothing(seed: int, runs: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A sample of overlap.py."""
    harness = overlap.Harness(seed, say=lambda _: None)
    try:
        harness.run_all(runs * TIMES)
    finally:
        harness.close()
    with capsys.disabled():
        print(f"\n{len(harness.problems)} of {harness.done} wrong, seed {seed}, ends {harness.ends}")
    assert not harness.problems, " | ".join(harness.problems)


def lose_a_cell(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM cells WHERE cell = 2")


def change_an_outcome(db: sqlite3.Connection) -> None:
    db.execute("UPDATE cells SET status = 'error' WHERE cell = 2")


def lose_the_session(db: sqlite3.Connection) -> None:
    for table in ("items", "checkpoints", "snapshots", "effects", "cells", "sessions"):
        with contextlib.suppress(sqlite3.OperationalError):
            db.execute(f"DELETE FROM {table}")


@pytest.mark.parametrize("damage", [lose_a_cell, change_an_outcome, lose_the_session])
def test_a_loss_is_seen(make_rig: MakeRig, damage: Callable[[sqlite3.Connection], None]) -> None:
    """The control: the same judgement over a journal from which something was taken."""
    rig = make_rig()
    rig.start()
    story = Story(rig.box, "story")
    for _ in range(3):
        story.cell()
    story.checkpoint()
    assert story.verify() == []
    story.hang_up()
    rig.box.stop()
    with contextlib.closing(sqlite3.connect(os.path.join(rig.box.state, "journal", "journal.db"))) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        damage(db)
        db.commit()
    rig.start()
    assert story.verify() != []
    story.hang_up()
