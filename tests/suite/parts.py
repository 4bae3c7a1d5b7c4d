# SPDX-License-Identifier: Apache-2.0
"""What `make check` leaves to `make check-all`, in parts of about five minutes: `tools/test BUILD list` prints them.

CI runs as many as fit: first those that the change touches, then the others in an order that the commit's hash
chooses, so that none waits for ever.
"""

import dataclasses
import functools
import glob
import os
from collections.abc import Callable, Sequence

from suite.lane import ROOT, Lane, remove
from suite.totals import Totals

CLANG = {"CC": "clang", "CXX": "clang++"}
SANITIZED = ("cli_json", "config", "context", "history_cli", "mcp_client", "mcp_http", "mcp_protocol", "mcp_tools",
             "models", "run", "run_tools", "snapshots_cli", "standards", "exec", "cli", "files", "daemon", "durable",
             "snapshots")


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    minutes: float  # on two idle processors of the machine whose speed is 1 (tools/test)
    touched_by: tuple[str, ...]  # beginnings of paths; a change of one of these runs this part first
    run: Callable[[Lane, str], None]  # with the folder of the default build
    rest_of: tuple[str, ...] = ()  # files or tests of which it runs what `check` leaves


def rest(name: str, minutes: float, touched_by: Sequence[str], tests: Sequence[str], shares: int = 1) -> list[Part]:
    """What `check` leaves of some files of tests."""
    def part(share: int) -> Part:
        title = f"{name} {share}/{shares}" if shares > 1 else name
        env = {"SNP_TEST_RUN": "rest", "SNP_TEST_SHARE": f"{share}/{shares}"}
        return Part(title, minutes, tuple(touched_by), lambda lane, folder: lane.pytest(title, folder, tests, env),
                    tuple(tests))
    return [part(share) for share in range(1, shares + 1)]


def integration(*names: str) -> list[str]:
    return [f"tests/integration/test_{name}.py" for name in names]


@functools.cache
def build_sanitized(totals: Totals, folder: str) -> bool:
    """By clang; once in a run."""
    return Lane(totals).build("asan", folder + "-asan", ["-Db_sanitize=address,undefined", "-Doptimization=1"], CLANG)


def sanitized(run: Callable[[Lane, str], None]) -> Callable[[Lane, str], None]:
    """A part that runs the sanitized build. A report that its programs wrote is a failure, whatever the tests saw."""
    def part(lane: Lane, folder: str) -> None:
        if not build_sanitized(lane.totals, folder):
            return
        reports = os.path.join(folder + "-asan", "sanitizer")
        os.makedirs(reports, exist_ok=True)
        for name in os.listdir(reports):
            remove(os.path.join(reports, name))
        run(lane, folder + "-asan")
        found = sorted(name for name in os.listdir(reports) if name.startswith("report."))
        for name in found:
            with open(os.path.join(reports, name), errors="replace") as text:
                lane.say(text.read())
        lane.totals.add("failed" if found else "passed", "reports of sanitizers", " ".join(found))
    return part


def run_sanitized_tests(lane: Lane, folder: str) -> None:
    """The tests of `check` again, as the other user."""
    log = f"log_path={folder}/sanitizer/report"
    tests = [*integration(*SANITIZED), "tests/escape/test_paths.py", "tests/escape/test_calls.py"]
    lane.pytest("asan", folder, tests, {"SNP_TEST_SANITIZE": "1", "SNP_TEST_RUN": "check", "ASAN_OPTIONS": log,
                                        "UBSAN_OPTIONS": f"{log}:print_stacktrace=1"})


def run_unit_tests(lane: Lane, folder: str) -> None:
    lane.meson("asan", folder, ["unit", "fuzz"], {"ASAN_OPTIONS": "detect_leaks=1"})


def run_crash_tests(lane: Lane, folder: str) -> None:
    """Its build is not the sanitized one: fault points stand in for calls of libc, and so do the sanitizers'. It is not
    optimized, as that takes long and changes no outcome; warnings are for the other builds."""
    options = ["-Dfaults=true", "-Dgrammars=disabled", "-Doptimization=0", "-Dwerror=false"]
    if lane.build("faults", folder + "-faults", options, targets=["programs"]):
        lane.pytest("crash", folder + "-faults", ["tests/crash"])


def tidy(share: int, shares: int) -> Part:
    """The analyzer of clang-tidy on a share of all files."""
    name = f"tidy {share}/{shares}"
    return Part(name, 4, ("src/", "agent/", "tests/unit/", "tests/fuzz/"),
                lambda lane, folder: lane.gate(name, ["tools/check-tidy", ".", folder, f"{share}/{shares}"]))


TIER = ("src/tier/", "src/guest/", "src/init/", "src/base/policy/")
STATE = ("src/store/", "src/daemon/", "src/guest/", "src/tier/engine/")
SUITE = ("agent/",)

NAMED = [
    Part("asan unit", 4, ("src/", "agent/", "tests/unit/", "tests/fuzz/"), sanitized(run_unit_tests)),
    Part("crash", 2, ("src/store/", "src/daemon/", "tests/crash/"), run_crash_tests),
    Part("asan", 3, ("src/", "agent/"), sanitized(run_sanitized_tests)),
    Part("aarch64", 5, ("src/base/", "src/init/", "src/guest/"),
         lambda lane, folder: lane.gate("aarch64", ["tools/check-aarch64", folder])),
    *(tidy(share, 4) for share in range(1, 5)),
    *rest("attacks", 2, TIER, ["tests/escape/test_attacks.py::test_attack",
                               "tests/escape/test_attacks.py::test_attacks_by_a_process_from_an_image"]),
    *rest("attacks in containers", 3, TIER, ["tests/escape/test_attacks.py::test_attack_in_a_container"], 8),
    *rest("tiers", 3, TIER, integration("tiers"), 8),
    *rest("docker", 3, ("src/tier/docker/",), integration("docker"), 2),
    *rest("docker images", 3, ("src/tier/docker/",), integration("docker_images")),
    *rest("packages", 5, ("dist/", "tools/", "meson.build", "bindings/"), integration("packages", "release")),
    *rest("judges", 3, ("src/mcp/", "src/base/mcp/", "bindings/"),
          integration("mcp_judges", "mcpb", "models_peers", "typescript")),
    *rest("pages", 3, ("src/cli/", "agent/cli/", "agent/trajectory/"), integration("visualize_page", "demo")),
    *rest("verdicts", 5, ("agent/", "src/guest/clock/"),
          integration("verify", "verify_agent", "verify_script", "standards"), 2),
    *rest("programs", 3, SUITE, integration("humaneval", "eval", "image_programs")),
    *rest("state", 3, STATE, integration("soak", "state_model", "durable_tiers", "tier_state", "bench")),
]


def others() -> list[Part]:
    """What no part above names, so that no file of tests is forgotten."""
    named = {test.split("::")[0] for part in NAMED for test in part.rest_of}
    found = {os.path.relpath(path, ROOT) for folder in ("integration", "escape")
             for path in glob.glob(os.path.join(ROOT, "tests", folder, "test_*.py"))}
    return rest("others", 6, ("src/", "agent/", "tests/"), sorted(found - named), 3)


PARTS = [*NAMED, *others()]


def in_order(changed: Sequence[str], commit: str) -> list[Part]:
    """The parts that a change touches, then the others; each begins where the commit's hash says."""
    turn = int(commit[:8] or "0", 16) % len(PARTS)
    turned = [*PARTS[turn:], *PARTS[:turn]]
    return sorted(turned, key=lambda part: not any(path.startswith(part.touched_by) for path in changed))
