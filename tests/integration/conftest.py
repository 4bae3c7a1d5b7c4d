# SPDX-License-Identifier: Apache-2.0
"""Fixtures that several files here use."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest

import lib
from daemons import Daemon, kill
from scripted_runs import Runs


@pytest.fixture
def session(sandbox: lib.Sandbox, request: pytest.FixtureRequest) -> Iterator[str]:
    """A name for a session of this test; it is destroyed at the end."""
    name = "t" + str(abs(hash(request.node.nodeid)))
    yield name
    sandbox.destroy(name)


# A daemon with a scripted tier


@pytest.fixture(scope="session")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bin")
    for name in ("snipara-sandboxd", "snipara-sandbox"):
        shutil.copy(os.path.join(lib.BUILD, name), folder)
    shutil.copy(os.path.join(lib.HERE, "integration", "scripted_tier.py"), folder / "tier-native")
    os.chmod(folder / "tier-native", 0o755)
    return str(folder)


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield str(tmp_path_factory.mktemp("d"))
    for daemon in Daemon.started:
        daemon.process.kill()
        daemon.process.wait()
    Daemon.started.clear()


@pytest.fixture
def start(place: str, bin_folder: str) -> Iterator[Callable[..., Daemon]]:
    """start(*options) -> a daemon on the same folder; those of before are killed."""
    running: list[Daemon] = []

    def begin(*options: str) -> Daemon:
        for daemon in running:
            kill(daemon)
        running[:] = [Daemon(place, bin_folder, *options)]
        return running[0]

    yield begin
    for daemon in running:
        kill(daemon)


# Runs with a scripted model


@pytest.fixture(scope="module")
def box() -> Iterator[lib.Sandbox]:
    box = lib.Sandbox("user")
    yield box
    box.close()


@pytest.fixture
def runs(box: lib.Sandbox) -> Runs:
    runs = Runs(box)
    for name in os.listdir(runs.folder):
        subprocess.run(["rm", "-rf", os.path.join(runs.folder, name)], check=True)
    return runs
