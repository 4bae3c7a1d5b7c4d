# SPDX-License-Identifier: Apache-2.0
"""
Random programs, each compared byte for byte with one that nothing happened to: after a fork, after hibernating, after
going back, and after daemon and tier were killed and the template came from its image.
SNP_SEED is the first program, SNP_PROGRAMS how many; 300 and more are run by hand.
"""

import glob
import json
import os
import signal
import time
from collections.abc import Callable

import pytest

from image_programs import PROBE, Program
from lib import Json, Sandbox, wait_for

SEED = int(os.environ.get("SNP_SEED", "1"))
PROGRAMS = int(os.environ.get("SNP_PROGRAMS", "8"))
TOGETHER = 12  # that a daemon's death meets


def ask(box: Sandbox, *words: str) -> Json:
    done = box.cli(*words, "--json")
    assert done.returncode == 0, (words, done.stderr)
    answer: Json = json.loads(done.stdout)
    return answer


class Session:
    """A session with a program, and what it must say when it is looked at."""

    def __init__(self, box: Sandbox, seed: int, modules: list[str]) -> None:
        self.box = box
        self.name = f"program-{seed}"
        self.program = Program(seed, modules)
        self.options = ["--template", self.program.template]
        self.expected = json.loads(self.run(self.program.code + self.program.look)["stdout"])
        self.run(self.program.code, self.name)

    def run(self, code: str, session: str | None = None) -> Json:
        done = self.box.exec(code, session=session, options=self.options)
        assert done["status"] == "ok", (self.name, done)
        return done

    def look(self, after: str, session: str | None = None) -> None:
        done = self.run(self.program.look, session or self.name)
        found = json.loads(done["stdout"])
        assert found == self.expected, (self.name, after, {
            piece: (found.get(piece), said) for piece, said in self.expected.items() if found.get(piece) != said})

    def woken(self) -> None:
        restored = self.run("kept_list", self.name)["restored"]
        assert restored and restored.get("image") and not restored["failed"], (
            self.name, json.dumps(restored), [line for line in self.box.log().splitlines() if "template" in line])

    def live(self) -> None:
        """All that happens to it while the daemon lives."""
        made = ask(self.box, "fork", self.name)
        assert made["how"] == "image", (self.name, made)
        self.look("fork", f"{self.name}-1")
        self.box.destroy(f"{self.name}-1")
        ask(self.box, "hibernate", self.name)
        self.woken()
        ask(self.box, "snapshot", "before", "-s", self.name)
        self.look("hibernate, snapshot")
        ask(self.box, "rollback", "before", "-s", self.name)
        self.look("rollback")
        ask(self.box, "rollback", "before", "-s", self.name)
        assert wait_for(lambda: ask(self.box, "checkpoint", self.name).get("image")), self.name


def kill(box: Sandbox) -> None:
    tier, daemon = box.tier_pid(), box.daemon
    assert tier is not None and daemon is not None
    for pid in (daemon.pid, tier):
        os.kill(pid, signal.SIGKILL)
    daemon.wait()


@pytest.mark.parametrize("first", range(SEED, SEED + PROGRAMS, TOGETHER))
def test_nothing_of_a_program_is_lost(fresh_sandbox: Callable[..., Sandbox], first: int) -> None:
    box = fresh_sandbox()
    if os.uname().machine != "x86_64":
        pytest.skip("images of templates are for x86-64")
    guest = glob.glob(os.path.join(box.bin, "guest", "*"))
    wait_for(lambda: all(os.stat(path).st_ctime < time.time() - 4 for path in guest))  # else it is not trusted
    modules = box.exec(PROBE, options=["--template", "data"])["stdout"].split()
    sessions = [Session(box, seed, modules) for seed in range(first, min(first + TOGETHER, SEED + PROGRAMS))]
    for session in sessions:
        session.live()
    templates = len({session.program.template for session in sessions})
    assert wait_for(lambda: len(glob.glob(os.path.join(box.state, "images", "*.image"))) >= templates)
    kill(box)
    for session in sessions:
        session.woken()
        session.look("kill -9, a template from its image")
