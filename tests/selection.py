# SPDX-License-Identifier: Apache-2.0
"""Which collected tests run: SNP_TEST_RUN=check takes each promise once, rest takes the others, unset takes all.

A test function with parameters has cases (a code, an attack, a limit) and places (a user, a tier, an engine). `check`
takes CASES cases of each function, and of an escape test all of them, each in one place; a hash of the test's name
chooses, so both users and all tiers are met. Files of SLOW, tests that are marked slow, and what only an engine can
run, but for ROWS, are left to `rest`.
SNP_TEST_SHARE=I/N takes one of N shares of what is left.
"""

import os
import zlib
from collections.abc import Sequence

import pytest

# Words of a parameter that says where a test runs.
PLACES = frozenset(("root", "user", "native", "local", "example", "docker", "docker-crun", "docker-runsc",
                    "docker-podman", "caller", "tier-native", "tier-local"))
SLOW = frozenset((
    "test_apparmor", "test_bench", "test_demo", "test_docker", "test_docker_images", "test_eval", "test_humaneval",
    "test_image_programs", "test_mcp_judges", "test_mcpb", "test_models_peers", "test_packages", "test_release",
    "test_soak", "test_state_model", "test_typescript", "test_visualize_page"))
CASES = 3
# A row of the conformance suite for each engine; skipped where the engine is not installed.
ROWS = {f"test_tiers.py::test_state_is_kept_between_cells[{place}]"
        for place in ("docker", "docker-crun", "docker-runsc", "docker-podman")}
# Files that take longest begin first, so that no worker is left with one of them at the end.
LONGEST = ("test_verify", "test_state", "test_durable_tiers", "test_attacks", "test_templates", "test_verify_agent",
           "test_durable", "test_python", "test_images", "test_driver", "test_tiers", "test_run", "test_local_attacks",
           "test_rootfs", "test_mcp_install", "test_limits")


def words(value: object) -> list[str]:
    """The words of a parameter: of "root", ("root", "native") and "root native"."""
    parts = value if isinstance(value, tuple) else (value,)
    return [word for part in parts for word in (part.split() if isinstance(part, str) else ["?"])]


def is_place(value: object) -> bool:
    said = words(value)
    return bool(said) and PLACES.issuperset(said)


def parameters(item: pytest.Item) -> dict[str, object]:
    call = getattr(item, "callspec", None)
    return dict(call.params) if call else {}


def needs_an_engine(item: pytest.Item) -> bool:
    return any("docker" in word for value in parameters(item).values() if is_place(value) for word in words(value))


def order(item: pytest.Item) -> tuple[bool, bool, int]:
    """Which case is preferred: a quick one without an engine, then by chance, with sanitizers another chance."""
    salt = os.environ.get("SNP_TEST_SANITIZE", "")
    return is_slow(item), needs_an_engine(item), zlib.crc32((salt + item.nodeid).encode())


def each_case_once(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Of the cases of one function as few as have each value of each parameter that is not a place, or CASES."""
    kept: list[pytest.Item] = []
    seen: set[tuple[str, int]] = set()
    names = {name for item in items for name in parameters(item)}
    cases = {name for name in names if not all(is_place(parameters(item).get(name, "root")) for item in items)}
    for item in sorted(items, key=order):
        values = {(name, id(value)) for name, value in parameters(item).items() if name in cases}
        if not kept or not values <= seen:
            kept.append(item)
            seen |= values
    return kept if items[0].path.parent.name == "escape" else kept[:CASES]


def is_slow(item: pytest.Item) -> bool:
    return item.path.stem in SLOW or item.get_closest_marker("slow") is not None


def of_check(items: Sequence[pytest.Item]) -> set[str]:
    """Names of the tests that `make check` runs."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        functions.setdefault(item.nodeid.split("[")[0], []).append(item)
    once = [item for cases in functions.values() for item in each_case_once(cases)]
    chosen = {item.nodeid for item in once if not is_slow(item) and not needs_an_engine(item)}
    return chosen | {item.nodeid for item in items if item.nodeid.rpartition("/")[2] in ROWS}


def weight(item: pytest.Item) -> int:
    return LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST)


def is_of_the_share(item: pytest.Item) -> bool:
    share, _, shares = os.environ.get("SNP_TEST_SHARE", "1/1").partition("/")
    return zlib.crc32(item.nodeid.encode()) % int(shares) == int(share) - 1


def choose(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """(what runs, in its order; what does not)."""
    run = os.environ.get("SNP_TEST_RUN")
    if not run:
        return items, []
    check = of_check(items)
    kept = [item for item in items if (item.nodeid in check) == (run == "check") and is_of_the_share(item)]
    left = set(items).difference(kept)
    return sorted(kept, key=weight), [item for item in items if item in left]
