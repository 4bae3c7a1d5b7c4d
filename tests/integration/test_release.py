# SPDX-License-Identifier: Apache-2.0
"""What is installed has no places where it can be told to fail."""

import glob
import os
import re

import pytest

import lib

SOURCES = os.path.join(lib.HERE, "..", "src")


def points():
    """The names given to SNP_FAULT and SNP_FAULT_FAILS in all sources."""
    found = set()
    for path in glob.glob(os.path.join(SOURCES, "**", "*.c"), recursive=True):
        with open(path) as source:
            found.update(re.findall(r"SNP_FAULT(?:_FAILS)?\(\s*\"([^\"]+)\"", source.read()))
    return found


@pytest.mark.parametrize("name", [name for name in lib.PROGRAMS if name != "guest"])
def test_no_fault_points_in_programs_that_are_installed(name):
    with open(os.path.join(lib.BUILD, name), "rb") as program:
        text = program.read()
    if b"SNP_FAULT_FILE" in text and "faults" in lib.BUILD:
        pytest.skip("SNP_BUILD is a build with fault points")
    assert b"SNP_FAULT" not in text
    for point in points():
        assert point.encode() + b"\0" not in text
