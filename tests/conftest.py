# SPDX-License-Identifier: Apache-2.0
"""What all tests share: lib.py can be imported, and what must run may not be skipped.

SNP_TEST_MUST is a comma list of what this host is known to have (root, user, cgroup,
landlock, ...; "all" for everything): a skip for the lack of one of these is a failure.

What the caller has set for himself is nothing to the tests: his umask, languages, folders, keys, settings
of this program and of others. tools/test runs them where all of these are odd.

A run of whole folders leaves out what says little more: what is the same for root and an unprivileged user runs as
one of them, file by file, and with sanitizers as the other; of files with many cases of a promise (PARTS) runs a part,
which is another one for each commit (SNP_TEST_SEED, which tools/test sets). SNP_TEST_ALL=1 runs all.
"""

import os
import re
import signal
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping

import pytest

import engine as engines
import lib

# Of a file's tests one in so many runs: files that take long. In the second table those with sanitizers.
PARTS = {**dict.fromkeys((
    "test_apply", "test_daemon", "test_docker_images", "test_driver", "test_durable", "test_durable_tiers",
    "test_forks", "test_guest", "test_image_programs", "test_images", "test_lifecycle", "test_limits", "test_local",
    "test_local_attacks", "test_matrix", "test_mcp_agents", "test_mcp_install", "test_mcp_items", "test_poison",
    "test_python", "test_rootfs", "test_run_interrupted", "test_run_limits", "test_run_subs", "test_shadow",
    "test_shadow_reach", "test_soak", "test_snapshots", "test_state", "test_state_model", "test_tier_state",
    "test_transaction", "test_typescript", "test_visualize_page", "test_workspace_rollback"), 3),
    **dict.fromkeys(("test_attacks", "test_docker", "test_mcp_judges", "test_packages", "test_templates", "test_tiers",
                     "test_verify"), 4),
    **dict.fromkeys(("test_degraded", "test_demo", "test_eval", "test_exec", "test_humaneval"), 2)}
SANITIZED_PARTS = {
    **dict.fromkeys(("test_calls", "test_cli", "test_daemon", "test_durable", "test_exec", "test_files", "test_paths",
                     "test_snapshots"), 3),
    **dict.fromkeys(("test_cli_json", "test_config", "test_history_cli", "test_mcp_http", "test_mcp_tools",
                     "test_models", "test_run", "test_run_tools"), 2)}

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


def is_of_the_part(item: pytest.Item) -> bool:
    parts = SANITIZED_PARTS if os.environ.get("SNP_TEST_SANITIZE") else PARTS
    one_in = parts.get(item.path.stem, 1)
    return zlib.crc32((os.environ.get("SNP_TEST_SEED", "") + item.nodeid).encode()) % one_in == 0


def has_a_twin(item: pytest.Item, ids: Collection[str]) -> bool:
    """That another user runs it, too, and this one is not needed."""
    is_odd = bool(zlib.crc32(item.path.name.encode()) & 1) != bool(os.environ.get("SNP_TEST_SANITIZE"))
    other, one = ("root", "user") if is_odd else ("user", "root")
    twin = re.sub(rf"(?<=[\[-]){other}(?=[\]-])", one, item.nodeid)
    return twin != item.nodeid and twin in ids and item.path.parent.name != "escape"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if lib.ALL or len(items) < 500:  # chosen by hand: as asked
        return
    ids = {item.nodeid for item in items}
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (left if has_a_twin(item, ids) or not is_of_the_part(item) else kept).append(item)
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
