# SPDX-License-Identifier: Apache-2.0
"""The attacks again without Landlock and without control groups: the rest must hold alone,
and the manifest must say what is missing."""

import pytest

import lib
from attacks.engine import try_inside
from test_attacks import ATTACKS

SWITCHES = {
    "landlock": {"SNIPARA_SANDBOX_NO_LANDLOCK": "1"},
    "cgroup": {"SNIPARA_SANDBOX_NO_CGROUP": "1"},
}
FOR = {
    "landlock": [attack for attack in ATTACKS if attack.control == "filesystem"],
    "cgroup": [attack for attack in ATTACKS if attack.control in ("resources", "disposable")],
}
CASES = [(without, attack) for without in SWITCHES for attack in FOR[without]
         # These wait for clocks only, which both ways share.
         if not attack.name.startswith(("busy", "sleep", "loop", "stopped", "yes", "one line", "flood"))]


@pytest.fixture(scope="module")
def boxes():
    made = {}

    def get(who, without):
        if (who, without) not in made:
            made[who, without] = lib.Sandbox(who, env=SWITCHES[without])
            made[who, without].exec_options = ["--allow-degraded"]
        return made[who, without]

    yield get
    for box in made.values():
        box.close()


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("without", SWITCHES)
def test_the_manifest_says_what_is_missing(boxes, who, without):
    manifest = boxes(who, without).exec("1")["manifest"]
    assert manifest["degraded"]
    if without == "landlock":
        assert any("landlock" in text.lower() for text in manifest["degraded"])
        assert not manifest["controls"]["filesystem"]["landlock_abi"]
    else:
        assert manifest["controls"]["resources"]["memory"] == "approximate"
        assert any(text.startswith("memory: approximate") for text in manifest["degraded"])


@pytest.mark.parametrize("who", ["root", "user"])
def test_a_missing_fence_is_not_accepted_silently(fresh_sandbox, who):
    box = fresh_sandbox(who, SWITCHES["landlock"])
    done = box.cli("exec", "print('r' + 'an')")
    assert done.returncode == 1 and "Landlock" in done.stderr and "ran" not in done.stdout


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("without, attack", CASES, ids=lambda value: getattr(value, "name", value).replace(" ", "-"))
def test_attack_without(boxes, who, without, attack):
    try_inside(attack, boxes(who, without))  # its control run is test_attacks.py's
