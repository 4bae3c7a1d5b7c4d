# SPDX-License-Identifier: Apache-2.0
"""Every attack, as root and as a user: it succeeds on the host, and fails inside; also in containers, of each engine
and runtime. Under gVisor the host sees one process for all, so attacks that are judged by counting processes or their
memory prove less there: what bounds them is the container's, as the manifest says."""

import json
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
def containers(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    if request.param == "docker":
        box = Sandbox("root", tier="docker", env=engines.env_for(request, "docker"))
    else:
        box = engines.other_sandbox(request, request.param)
    yield box
    box.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "containers" in metafunc.fixturenames:
        rows = [(tier, attack) for tier in ("docker", *engines.OTHERS) for attack in ATTACKS]
        metafunc.parametrize("containers, attack", rows, indirect=["containers"], scope="module",
                             ids=[f"{tier}-{attack.name.replace(' ', '-')}" for tier, attack in rows])


def test_attack_in_a_container(containers: Sandbox, attack: Attack) -> None:
    try_inside(attack, containers)  # its control run is above


# What holds for a process, and must hold for one that took another's memory in.
OF_A_PROCESS = {
    "tcp to the host's loopback", "abstract unix socket", "raw IP socket", "io_uring",
    "read a file of the home folder", "inherited descriptors", "open a file by its handle",
    "other processes in /proc", "kill a process of the host", "ptrace", "process_vm_readv",
    "memory of pid 1 and of the host by /proc", "pidfd_getfd", "nested namespaces", "enter a namespace",
    "mount", "bpf", "userfaultfd", "another user's rights", "capabilities", "raise a limit"}


@pytest.mark.parametrize("way", ["forked", "woken"])
def test_attacks_by_a_process_from_an_image(sandbox: Sandbox, way: str) -> None:
    attacks = [attack for attack in ATTACKS if attack.name in OF_A_PROCESS and not attack.options]
    assert len(attacks) == len(OF_A_PROCESS)
    name = "attacker-1" if way == "forked" else "attacker"
    sandbox.exec("held = (n for n in range(9)); next(held)", session="attacker")
    try:
        if way == "forked":
            assert json.loads(sandbox.cli("fork", "attacker", "--json").stdout)["how"] == "image"
        else:
            assert sandbox.cli("hibernate", "attacker").returncode == 0
            assert sandbox.exec("1", session=name)["restored"]["image"]
        for attack in attacks:
            try_inside(attack, sandbox, name)
        assert sandbox.exec("next(held)", session=name)["value"] == "1"
    finally:
        for session in {name, "attacker"}:
            sandbox.destroy(session)


def test_the_table_is_sound() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len(names) >= 30 and len(set(names)) == len(names)
    for control in CONTROLS:
        assert sum(attack.control == control for attack in ATTACKS) >= 4
    without = sum(len(attack.no_control) for attack in ATTACKS)
    assert without * 10 <= 2 * len(ATTACKS), "too many attacks without a control run"
