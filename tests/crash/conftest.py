# SPDX-License-Identifier: Apache-2.0
"""Tests of builds with -Dfaults=true; with any other build they are skipped, or fail by SNP_TEST_MUST."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib  # noqa: E402
from rig import MakeRig, Rig  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def _programs_with_faults() -> None:
    with open(os.path.join(lib.BUILD, "snipara-sandboxd"), "rb") as program:
        lib.need("faults", b"SNP_FAULT_FILE" in program.read(), "SNP_BUILD has no fault points")


@pytest.fixture
def make_rig() -> Iterator[MakeRig]:
    rigs = []

    def make(**kwargs: Any) -> Rig:
        rigs.append(Rig(**kwargs))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    return make_rig()
