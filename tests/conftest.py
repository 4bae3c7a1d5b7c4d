# SPDX-License-Identifier: Apache-2.0
"""What all tests share: lib.py can be imported, and what must run may not be skipped.

SNP_TEST_MUST is a comma list of what this host is known to have (root, user, cgroup,
landlock, ...; "all" for everything): a skip for the lack of one of these is a failure.

What the caller has set for himself is nothing to the tests: his umask, languages, folders, keys, settings
of this program and of others. tools/test runs them where all of these are odd.

SNP_TEST_RUN chooses among the tests (selection.py).
"""

import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping

import pytest

import engine as engines
import lib
import selection

CALLERS_OWN = re.compile(r"(XDG_|SNIPARA_(?!SANDBOX_PYTHON$)|RLM_|LC_|LESS|PYTHON).*|.*_API_KEY|"
                         "TMPDIR|PAGER|EDITOR|VISUAL|NO_COLOR|COLUMNS|LINES|TERM|TZ")
for variable in list(os.environ):
    if CALLERS_OWN.fullmatch(variable):
        del os.environ[variable]
os.environ["LANG"] = "C.UTF-8"
os.umask(0o022)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and its children do


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(what): a verb or guarantee of the tier that the test runs in")
    config.addinivalue_line("markers", "slow: `make check` leaves the test to `make check-all`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept, left = selection.choose(items)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


@pytest.fixture(scope="session", params=["root", "user"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[lib.Sandbox]:
    """One runtime per user, shared by all tests of a run; each test runs as root and as a user."""
    box = lib.Sandbox(request.param)
    yield box
    box.close()


@pytest.fixture(scope="session")
def engine() -> Iterator[engines.Engine]:
    """A container engine, shared by all tests of a run."""
    own = engines.Engine()
    yield own
    own.close()


@pytest.fixture(scope="session")
def podman() -> Iterator[engines.Engine]:
    own = engines.Podman()
    yield own
    own.close()


@pytest.fixture
def fresh_sandbox(request: pytest.FixtureRequest) -> Iterator[Callable[..., lib.Sandbox]]:
    """A factory of runtimes of a test's own: fresh_sandbox("user", env={...})."""
    boxes = []

    def make(who: str = "root", env: Mapping[str, str] | None = None, tier: str = "native") -> lib.Sandbox:
        boxes.append(lib.Sandbox(who, env={**engines.env_for(request, tier), **(env or {})}, tier=tier))
        return boxes[-1]

    yield make
    for box in boxes:
        box.close()
