# SPDX-License-Identifier: Apache-2.0
"""Every attack, as root and as a user: it succeeds on the host, and fails inside; also in a container."""

from collections.abc import Iterator

import pytest

import engine as engines
from lib import Sandbox
from attacks import disposal, files, network, resources, syscalls
from attacks.engine import Attack, try_inside, try_outside

ATTACKS = [*network.ATTACKS, *resources.ATTACKS, *files.ATTACKS, *syscalls.ATTACKS, *disposal.ATTACKS]
CONTROLS = ("network", "resources", "filesystem", "syscalls", "disposable")


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name.replace(" ", "-") for attack in ATTACKS])
def test_attack(sandbox: Sandbox, attack: Attack) -> None:
    try_outside(attack, sandbox)
    try_inside(attack, sandbox)


@pytest.fixture(scope="module")
def containers(engine: engines.Engine) -> Iterator[Sandbox]:
    box = Sandbox("root", tier="docker", env=engine.env)
    yield box
    box.close()


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name.replace(" ", "-") for attack in ATTACKS])
def test_attack_in_a_container(containers: Sandbox, attack: Attack) -> None:
    try_inside(attack, containers)  # its control run is above


def test_the_table_is_sound() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len(names) >= 30 and len(set(names)) == len(names)
    for control in CONTROLS:
        assert sum(attack.control == control for attack in ATTACKS) >= 4
    without = sum(len(attack.no_control) for attack in ATTACKS)
    assert without * 10 <= 2 * len(ATTACKS), "too many attacks without a control run"
