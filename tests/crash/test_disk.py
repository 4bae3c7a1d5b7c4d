# SPDX-License-Identifier: Apache-2.0
"""A state folder that is full, read-only, or shared by two; a clock that jumps."""

import contextlib
import errno
import os
import random
import secrets
import subprocess
from collections.abc import Callable, Iterator

import pytest

import lib
from rig import MakeRig, Rig
from story import Dead, Refused, Story

STEPS = int(os.environ.get("SNP_DISK_STEPS", "8"))


@pytest.fixture
def small_disk(make_rig: MakeRig) -> Iterator[Callable[[str], Rig]]:
    """A rig whose state folder is a file system of its own: make(bytes) before its daemon starts."""
    lib.need("root", os.geteuid() == 0, "mounting needs root")
    mounted: list[Rig] = []

    def make(size: str) -> Rig:
        rig = make_rig()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "none", rig.box.state], check=True)
        mounted.append(rig)
        return rig

    yield make
    for rig in mounted:
        rig.box.stop()
        subprocess.run(["umount", rig.box.state], check=True)


def fill(rig: Rig, leave: int) -> Callable[[], None]:
    """Take all room of the state folder but so many bytes."""
    path = os.path.join(rig.box.state, "filler")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        while True:
            room = os.statvfs(rig.box.state)
            size = room.f_bavail * room.f_frsize - leave
            try:
                if size > 0:
                    os.posix_fallocate(fd, 0, size)
                return lambda: os.unlink(path)
            except OSError as error:  # the daemon has written something since it was looked
                if error.errno != errno.ENOSPC:
                    raise
    finally:
        os.close(fd)


def life(story: Story) -> None:
    story.cell()
    story.cell("large")
    story.put("a.bin", b"data" * 20_000)
    story.checkpoint()
    story.snapshot("one")
    story.cell("error")
    story.rollback("one")
    story.cell()
    story.hibernate()
    story.cell()


def test_a_full_disk_is_said_and_loses_nothing(small_disk: Callable[[str], Rig],
                                               capsys: pytest.CaptureFixture[str]) -> None:
    """Room runs out at another place each time; with room again, life goes on in the same daemon."""
    seed = int(os.environ.get("SNP_SEED", secrets.randbits(32)))
    chance = random.Random(seed)
    rig = small_disk("64m")
    rig.start()
    refused = 0
    bad: list[str] = []
    for step in range(STEPS):
        story = Story(rig.box, f"full{step}")
        story.cell()
        leave = chance.choice([0, 1, 3, 7, 20, 60, 200, 600, 2000, 6000]) * 4096
        give_back = fill(rig, leave)
        try:
            life(story)
        except Refused as error:
            refused += 1
            text = str(error).lower()
            if not any(word in text for word in ("full", "space", "room")):
                bad.append(f"{leave} bytes left: refused, but not for the disk: {error}")
        except (Dead, AssertionError) as reason:
            bad.append(f"{leave} bytes left: {reason!r}")
        give_back()
        try:
            story.wait_for_journal()
            found = story.verify()
            if not found:
                story.cell()
                found = story.verify()
            bad += [f"{leave} bytes left: {text}" for text in found]
            story.destroy()
        except (Dead, Refused, AssertionError) as reason:
            bad.append(f"{leave} bytes were left, room again: {reason!r}")
            rig.start()
        story.hang_up()
    with capsys.disabled():
        print(f"\ndisk full: {STEPS} times, {refused} refused, {len(bad)} wrong (seed {seed})")
    assert not bad, "\n".join([f"seed {seed}", *bad])
    assert refused > 0, "the disk was never full"


def test_a_read_only_state_folder_is_said(small_disk: Callable[[str], Rig]) -> None:
    rig = small_disk("64m")
    rig.start()
    story = Story(rig.box, "kept")
    story.cell()
    story.checkpoint()
    story.hang_up()
    rig.box.stop()
    subprocess.run(["mount", "-o", "remount,ro", rig.box.state], check=True)
    try:
        with pytest.raises((Refused, RuntimeError), match="(?i)read-only"):
            rig.start()
            story.cell()
    finally:
        story.hang_up()
        subprocess.run(["mount", "-o", "remount,rw", rig.box.state], check=True)
        rig.box.stop()
    rig.start()
    story.worlds = [story.timeline[-1].worlds[0]]  # the refused cell is no cell
    assert story.verify() == []
    story.hang_up()


def test_a_disk_that_becomes_read_only_is_said(small_disk: Callable[[str], Rig]) -> None:
    rig = small_disk("64m")
    rig.start()
    story = Story(rig.box, "kept")
    story.cell()
    story.checkpoint()
    rig.faults.order("daemon", "write.state/*", 1, "full", "EROFS")
    with pytest.raises(Refused) as refusal:
        for _ in range(3):
            story.cell()
    assert "read-only" in str(refusal.value).lower()
    rig.faults.forget()
    story.wait_for_journal()
    assert story.verify() == []
    story.cell()
    assert story.verify() == []
    story.hang_up()


def test_two_daemons_never_share_a_state_folder(make_rig: MakeRig) -> None:
    """Another runtime folder, the same state folder: the second says who has it."""
    rig = make_rig()
    rig.start()
    story = Story(rig.box, "mine")
    story.cell()
    other = lib.Sandbox("root", env={"SNIPARA_SANDBOX_STATE_DIR": rig.box.state})
    try:
        with pytest.raises((Refused, RuntimeError)) as refusal:
            other.start()
            theirs = Story(other, "theirs")
            theirs.cell()
        assert rig.box.state in str(refusal.value)
    finally:
        other.close()
    story.cell()
    assert story.verify() == []
    story.hang_up()


@pytest.mark.parametrize("jump", [-400 * 86400, 400 * 86400, 1 << 33])
def test_a_clock_that_jumps_changes_nothing(make_rig: MakeRig, jump: int) -> None:
    rig = make_rig()
    rig.start()
    story = Story(rig.box, "timeless")
    story.cell()
    story.snapshot("one")
    rig.faults.set_clock(jump)
    story.cell()
    story.checkpoint()
    story.rollback("one")
    story.cell()
    assert story.verify() == []
    rig.faults.set_clock(0)
    story.hang_up()
    rig.kill()
    rig.start()
    assert story.verify() == []
    story.cell()
    assert story.verify() == []
    story.hang_up()
