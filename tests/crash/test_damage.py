# SPDX-License-Identifier: Apache-2.0
"""Damaged files of the journal: the daemon comes up, says what it found, and shows nothing wrong."""

import glob
import os
import random
import secrets
import sqlite3

import pytest

from rig import MakeRig, Rig
from story import Refused, Story

TIMES = int(os.environ.get("SNP_DAMAGE_TIMES", "6"))


Lived = tuple[Rig, Story]


@pytest.fixture
def lived(make_rig: MakeRig) -> Lived:
    """A rig whose daemon has died after a life, and its story."""
    rig = make_rig()
    rig.start()
    story = Story(rig.box, "story")
    story.cell()
    story.cell("large")
    story.checkpoint()
    story.cell()
    story.cell("large")
    story.checkpoint()
    story.cell()
    story.hang_up()
    return rig, story


def doctor(rig: Rig) -> str:
    return rig.box.cli("doctor", "--json").stdout


def files_of(rig: Rig, pattern: str) -> list[str]:
    return sorted(glob.glob(os.path.join(rig.box.state, "journal", pattern)))


def garble(path: str, chance: random.Random, pieces: int = 3, start: int = 0) -> None:
    size = os.path.getsize(path)
    with open(path, "r+b") as out:
        for _ in range(pieces):
            out.seek(chance.randrange(start, max(start + 1, size)))
            out.write(chance.randbytes(512))


def test_a_garbled_database_is_set_aside_or_saved(lived: Lived, capsys: pytest.CaptureFixture[str]) -> None:
    rig, story = lived
    seed = int(os.environ.get("SNP_SEED", secrets.randbits(32)))
    chance = random.Random(seed)
    rig.box.stop()
    # Behind the head: another version there is one of a newer release, whose file is left alone.
    garble(files_of(rig, "journal.db")[0], chance, 8, 100)
    rig.start()
    # Whatever was saved must be true; what was not must have been said.
    other = Story(rig.box, "other")
    other.cell()
    assert other.verify() == []
    found = None
    try:
        row = story.row()
        if row is not None:
            history = story.history()
            for number, known in story.world.cells.items():
                if number in history:
                    assert known is not None
                    there = history[number]["status"], history[number]["state"]
                    assert there in (known[:2], ("unknown", None)), seed
            variable, disk, _, result = story.probe()
            tokens = [token for _, token in story.world.log]
            told = [row["name"] for row in result["restored"]["failed"]]
            assert disk == tokens[:len(disk)], (seed, disk, tokens)
            assert variable == ([] if "log" in told else disk), (seed, variable, disk, told)
            found = len(history)
    except Refused as error:
        assert error.head["message"], seed
    with capsys.disabled():
        print(f"\ngarbled database: {found} of 6 cells found again (seed {seed})")
    if found is None or found < 6:
        assert "database" in doctor(rig) or "journal" in doctor(rig)
    other.hang_up()
    story.hang_up()


@pytest.mark.parametrize("how", ["garbled", "cut", "gone", "empty"])
def test_a_damaged_blob_costs_only_what_needs_it(lived: Lived, how: str) -> None:
    rig, story = lived
    chance = random.Random(secrets.randbits(32))
    rig.kill()
    blobs = sorted(files_of(rig, "blobs/*/*"), key=os.path.getmtime)
    assert blobs, "no blob of a checkpoint is on disk"
    path = blobs[-1]  # of the last checkpoint
    if how == "garbled":
        garble(path, chance)
    elif how == "cut":
        os.truncate(path, os.path.getsize(path) // 2)
    elif how == "gone":
        os.unlink(path)
    else:
        os.truncate(path, 0)
    rig.start()
    assert set(story.history()) == set(story.world.cells)
    variable, disk, _, result = story.probe()
    tokens = [token for _, token in story.world.log]
    assert variable == disk == tokens[:len(variable)], (variable, disk, tokens)
    assert result["restored"] is not None
    missing = {number for number, token in story.world.log if token not in variable}
    assert missing <= set(result["restored"]["missing"]), result["restored"]
    assert "blob" in doctor(rig) or "checkpoint" in doctor(rig)
    story.hang_up()


def test_a_database_of_the_future_is_left_alone(lived: Lived) -> None:
    rig, story = lived
    rig.box.stop()
    path = files_of(rig, "journal.db")[0]
    with sqlite3.connect(path) as db:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute(f"PRAGMA user_version = {version + 1}")
    db.close()
    before = os.path.getsize(path)
    with pytest.raises((Refused, RuntimeError), match="(?i)newer|version"):
        rig.start()
        story.cell()
    story.hang_up()
    rig.box.stop()
    assert os.path.getsize(path) == before
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    rig.start()
    story.worlds = [story.timeline[-1].worlds[0]]  # the refused cell is no cell
    assert story.verify() == []
    story.hang_up()
