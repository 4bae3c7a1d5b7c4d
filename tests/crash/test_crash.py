# SPDX-License-Identifier: Apache-2.0
"""A sample of the crash harness (harness.py runs all of it), and proof that it sees what is lost.

SNP_CRASH_RUNS: how many; SNP_SEED repeats a sample.
"""

import contextlib
import os
import secrets
import sqlite3

import pytest

from harness import Harness
from story import Story

RUNS = int(os.environ.get("SNP_CRASH_RUNS", "27"))


@pytest.mark.parametrize("who", ["root"])  # a daemon of another user does not talk to the harness
def test_nothing_is_lost_wherever_something_dies(who, capsys):
    seed = int(os.environ.get("SNP_SEED", secrets.randbits(32)))
    runs = RUNS
    harness = Harness(seed, who, say=lambda _: None)
    done, failed = harness.run_all(harness.scenarios(), runs)
    with capsys.disabled():
        print(f"\n{failed} of {done} lost, torn or run twice, every unknown outcome reported "
              f"({who}, seed {seed}; {dict(harness.outcomes)})")
    assert not harness.problems, "\n".join([f"seed {seed}", *harness.problems])
    assert done >= runs


def lose_a_cell(db):
    db.execute("DELETE FROM cells WHERE cell = 2")


def change_an_outcome(db):
    db.execute("UPDATE cells SET status = 'error' WHERE cell = 2")


def lose_the_session(db):
    for table in ("items", "checkpoints", "snapshots", "effects", "cells", "sessions"):
        with contextlib.suppress(sqlite3.OperationalError):
            db.execute(f"DELETE FROM {table}")


@pytest.mark.parametrize("damage", [lose_a_cell, change_an_outcome, lose_the_session])
def test_a_loss_is_seen(make_rig, damage):
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
