# SPDX-License-Identifier: Apache-2.0
"""What all tests share: lib.py can be imported, and what must run may not be skipped.

SNP_TEST_MUST is a comma list of what this host is known to have (root, user, cgroup,
landlock, ...; "all" for everything): a skip for the lack of one of these is a failure.
"""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib  # noqa: E402


@pytest.fixture(scope="session", params=["root", "user"])
def sandbox(request):
    """One runtime per user, shared by all tests of a run; each test runs as root and as a user."""
    box = lib.Sandbox(request.param)
    yield box
    box.close()


@pytest.fixture
def fresh_sandbox():
    """A factory of runtimes of a test's own: fresh_sandbox("user", env={...})."""
    boxes = []

    def make(who="root", env=None):
        boxes.append(lib.Sandbox(who, env=env))
        return boxes[-1]

    yield make
    for box in boxes:
        box.close()
