# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin of tools/test: lines of progress instead of dots, and a list of what failed for a second try.

SNP_TEST_PART names the part in the lines. SNP_TEST_FAILURES is a file that gets a line of JSON per failed test.
Each worker reads all tests. pytest's changes to them take most of that time, so the build folder keeps the result.
"""

import json
import os
import sys
import time

import pytest

EVERY_S = 20

sys.pycache_prefix = os.path.join(os.environ["SNP_BUILD"], "pycache")
sys.dont_write_bytecode = False


class Progress:
    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.part = os.environ.get("SNP_TEST_PART", "tests")
        self.failures = os.environ.get("SNP_TEST_FAILURES")
        self.all = self.done = self.failed = 0
        self.began = self.told = time.monotonic()

    def say(self, text: str) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        reporter.ensure_newline()
        reporter.write_line(text)
        reporter.flush()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.all = self.all or len(session.items)

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.all = len(ids)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        if report.passed and report.when == "call":
            return "passed", "", ""
        if report.skipped:
            return "skipped", "", ""
        return ("failed" if report.when == "call" else "error", "", "") if report.failed else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed += 1
            self.say(f"FAILED {report.nodeid}: {message(report)}")
            if self.failures:
                with open(self.failures, "a") as out:
                    out.write(json.dumps({"test": report.nodeid, "message": message(report),
                                          "log": report.longreprtext}) + "\n")
        self.done += report.when == "teardown"
        now = time.monotonic()
        if now - self.told > EVERY_S:
            self.told = now
            passed = int(now - self.began)
            self.say(f"{self.part}: {self.done} of {self.all} tests, {self.failed} failed, "
                     f"{passed // 60}:{passed % 60:02}")


def message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash else report.longreprtext)
    return (text.strip().splitlines() or [""])[0][:200]


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # workers report to us
        config.pluginmanager.register(Progress(config))
