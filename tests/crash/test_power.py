# SPDX-License-Identifier: Apache-2.0
"""Power cuts: at any moment, with the disk in any state it may then be in, what was acknowledged
as synced is there, and nothing is there by half. SNP_POWER_CUTS says how many (the seed is printed)."""

import glob
import os
import random
import secrets
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

import lib
from faults import Io
from power import VARIANTS, Disk, Tree, lay_out
from rig import MakeRig
from story import Dead, Refused, Story, World

CUTS = int(os.environ.get("SNP_POWER_CUTS", "7"))
RECORD_MAX = 512 << 20


def live(story: Story) -> None:
    """A life with all that writes."""
    story.cell()
    story.put("a.bin", b"one" * 30_000)
    story.checkpoint()
    story.cell("large")
    story.snapshot("s1")
    story.cell("error")
    story.cell("killed")
    story.checkpoint()
    story.rollback("s1")
    story.cell("loud")
    story.hibernate()
    story.cell()
    story.put("a.bin", b"two")
    story.gc()
    story.cell()
    story.drop("s1")
    story.checkpoint()


class Cutter:
    """A daemon on a state folder as a cut has left it."""

    def __init__(self) -> None:
        self.box = lib.Sandbox("root")

    def look(self, tree: Tree, name: str, worlds: list[World], **options: Any) -> list[str]:
        self.box.stop()
        shutil.rmtree(self.box.state)
        self.box.make_folder("state", 0o700)
        lay_out(tree, self.box.state, self.box.uid)
        try:
            self.box.start()
            story = Story(self.box, name, **options)
            story.worlds = worlds
            bad = story.verify()
            if not bad:
                story.cell()
                bad = story.verify()
            story.hang_up()
            bad += glob.glob(self.box.state + "/journal/journal.db.broken-*")  # a cut is no loss of the journal
            return bad
        except (Dead, Refused, RuntimeError, AssertionError) as reason:
            return [f"wrong: {type(reason).__name__}: {reason}"]


@pytest.fixture
def cutter() -> Iterator[Cutter]:
    one = Cutter()
    yield one
    one.box.close()


@pytest.mark.parametrize("durability", ["synced", "process"])
def test_what_was_acknowledged_survives_a_power_cut(make_rig: MakeRig, cutter: Cutter, durability: str,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("SNP_SEED", secrets.randbits(32)))
    chance = random.Random(seed)
    rig = make_rig(io_max=RECORD_MAX)
    rig.start()
    story = Story(rig.box, "life", durability=durability)
    live(story)
    story.hang_up()
    rig.kill()
    records = rig.faults.io()
    cuts = sorted(chance.choices(range(len(records)), k=CUTS))
    disk, played = Disk(), 0
    bad: list[str] = []
    for cut in cuts:
        for record in records[played:cut + 1]:
            disk.play(record)
        played = max(played, cut + 1)
        variant = chance.choice(VARIANTS)
        when = records[cut].time
        worlds = story.worlds_at(when)
        if durability == "process":  # may lose the last cells, but is a state that once was
            worlds = [world for at in [0, *(span.asked for span in story.timeline if span.asked <= when), when]
                      for world in story.worlds_at(at)]
        found = cutter.look(disk.after_cut(variant, chance), "life", worlds, durability=durability)
        bad += [f"cut after record {cut} ({records[cut].op} {records[cut].path}), {variant}: {text}" for text in found]
    with capsys.disabled():
        print(f"\npower cuts, {durability}: {len(bad)} of {CUTS} lost or torn something (seed {seed})")
    assert not bad, "\n".join([f"seed {seed}", *bad])


def made(*steps: tuple[Any, ...]) -> Disk:
    """A disk after steps as the record has them: (op, path, offset, data, other)."""
    disk = Disk()
    for op, path, *rest in steps:
        offset, data, other = (*rest, 0, b"", None)[:3] if rest else (0, b"", None)
        disk.play(Io(op, 0, offset, 0.0, path, other, data))
    return disk


def cut(disk: Disk, variant: str, seed: int = 0) -> Tree:
    return disk.after_cut(variant, random.Random(seed))


def test_a_cut_loses_what_was_not_synced() -> None:
    new = [("create", "a.tmp"), ("write", "a.tmp", 0, b"new"), ("rename", "a.tmp", 0, b"", "a")]
    old = [("create", "a"), ("write", "a", 0, b"old"), ("sync", "a"), ("sync", "")]
    assert cut(made(*new), "all") == {"a": b"new"}
    assert cut(made(*new), "none") == {}
    # The mistake that this finds: a file renamed before it was synced is there, and empty.
    assert cut(made(*old, *new), "names") == {"a": b""}
    assert cut(made(*old, *new), "none") == {"a": b"old"}
    right = [*new[:2], ("sync", "a.tmp"), new[2]]
    assert cut(made(*old, *right), "names") == {"a": b"new"}
    assert cut(made(*old, *right), "none") == {"a": b"old"}
    assert cut(made(*old, *right, ("sync", "")), "none") == {"a": b"new"}


def test_a_name_moved_to_a_synced_folder_is_in_the_other_no_more() -> None:
    steps = [("mkdir", "d"), ("sync", ""), ("create", "a"), ("write", "a", 0, b"x"), ("sync", "a"),
             ("rename", "a", 0, b"", "d/a"), ("sync", "d")]
    assert {variant: cut(made(*steps), variant) for variant in VARIANTS} == dict.fromkeys(
        VARIANTS, {"d": None, "d/a": b"x"})


def test_a_cut_leaves_pieces_of_what_was_not_synced() -> None:
    old, new = b"o" * 5000, b"n" * 5000
    disk = made(("create", "a"), ("write", "a", 0, old), ("sync", "a"), ("sync", ""), ("write", "a", 0, new))
    found = {cut(disk, "pieces", seed)["a"] or b"" for seed in range(20)}
    assert len(found) > 10
    assert all({content[i:i + 512] for i in range(0, 5000, 512)} <= {b"o" * 512, b"n" * 512, b"o" * 392, b"n" * 392}
               for content in found)
    disk.play(Io("sync", 0, 0, 0.0, "a", None, b""))
    assert {cut(disk, variant)["a"] for variant in VARIANTS} == {new}


def test_a_file_removed_and_not_synced_may_be_there_again() -> None:
    disk = made(("create", "a"), ("write", "a", 0, b"x"), ("sync", "a"), ("sync", ""), ("unlink", "a"))
    assert cut(disk, "none") == {"a": b"x"}
    assert cut(disk, "all") == {}
