# SPDX-License-Identifier: Apache-2.0
"""The local tier, where there is no namespace between code and host: all attacks again, and those
that namespaces would stop."""

import pytest
from collections.abc import Iterator

import lib
from attacks import local as local_attacks
from attacks.engine import Attack, try_inside, try_outside
from test_attacks import ATTACKS


@pytest.fixture(scope="module", params=["root", "user"])
def local(request: pytest.FixtureRequest) -> Iterator[lib.Sandbox]:
    box = lib.Sandbox(request.param, tier="local")
    yield box
    box.close()


@pytest.fixture(scope="module", params=["root", "user"])
def old_landlock(request: pytest.FixtureRequest) -> Iterator[lib.Sandbox]:
    """ABI 2 knows nothing of truncation, TCP or signals."""
    box = lib.Sandbox(request.param, env={"SNIPARA_SANDBOX_LANDLOCK_ABI": "2"}, tier="local")
    yield box
    box.close()


def name(attack: Attack) -> str:
    return attack.name.replace(" ", "-")


@pytest.mark.parametrize("attack", ATTACKS, ids=name)
def test_attack_in_local(local: lib.Sandbox, attack: Attack) -> None:
    try_inside(attack, local)  # its control run is test_attacks.py's


@pytest.mark.parametrize("attack", local_attacks.ATTACKS, ids=name)
def test_attack_on_local(local: lib.Sandbox, attack: Attack) -> None:
    try_outside(attack, local)
    try_inside(attack, local)


@pytest.mark.parametrize("attack", local_attacks.ATTACKS, ids=name)
def test_attack_on_local_with_an_old_landlock(old_landlock: lib.Sandbox, attack: Attack) -> None:
    try_inside(attack, old_landlock)


def test_the_manifest_names_what_an_old_landlock_lacks(old_landlock: lib.Sandbox) -> None:
    manifest = old_landlock.exec("1")["manifest"]
    assert manifest["controls"]["filesystem"]["landlock_abi"] == 2
    assert any(text.startswith("landlock: ABI 2") for text in manifest["degraded"])
