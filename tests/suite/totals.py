# SPDX-License-Identifier: Apache-2.0
"""What a run of tests has counted: outcomes, second tries, times. Reports of meson and pytest are read here."""

import json
import os
import re
import threading
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from typing import Any

OUTCOMES = ("passed", "failed", "skipped")
SECOND_TRIES = 3  # more tests that pass only on the second try fail the run
SLOWEST = 10
# "ok 1 - name", "not ok 2 - name", and as cmocka writes a skipped one: "not ok 3 # SKIP name"
TAP_LINE = re.compile(r"^(not )?ok \d+ (?:- )?(?=(?:# SKIP )?(.*))(# SKIP)?", re.MULTILINE)


class Totals:
    """Counts of a run; any thread may add. `folder` keeps totals.txt, totals.json, times.json and flaky.txt."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.count = dict.fromkeys(OUTCOMES, 0)
        self.notes: list[str] = []
        self.second_tries: list[str] = []
        self.times: dict[str, float] = {}

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def add(self, outcome: str, name: str, why: str = "", count: int = 1) -> None:
        with self.lock:
            self.count[outcome] += count
            if outcome != "passed":
                self.notes.append(f"{outcome.upper()} {name}" + (f": {why}" if why else ""))

    def add_second_try(self, name: str, message: str) -> None:
        """Count a test that failed, then passed alone."""
        with self.lock:
            self.count["passed"] += 1
            self.second_tries.append(name)
            self.notes.append(f"passed on the second try: {name}, after: {message}")
        with open(self.path("flaky.txt"), "a") as out:
            out.write(f"{name}: {message}\n")

    def add_time(self, name: str, seconds: float) -> None:
        with self.lock:
            self.times[name] = self.times.get(name, 0) + seconds

    def resume(self) -> None:
        """Continue the counts of the run before, which another process wrote into the same folder."""
        try:
            with open(self.path("totals.json")) as text:
                said = json.load(text)
        except FileNotFoundError:
            self.add("failed", "check", "it left no counts")
            return
        self.count, self.notes, self.second_tries = said["count"], said["notes"], said["second_tries"]
        self.times = said["times"]

    def line(self) -> str:
        return "{passed} passed, {failed} failed, {skipped} skipped".format(**self.count)

    def finish(self) -> bool:
        """Print what was found, its counts last, and write both; true if nothing failed."""
        if len(self.second_tries) > SECOND_TRIES:
            self.add("failed", "second tries", f"{len(self.second_tries)} tests needed one, {SECOND_TRIES} may")
        os.makedirs(self.folder, exist_ok=True)
        print("\n".join(["", *self.slowest()]))
        text = "".join(note + "\n" for note in self.notes) + self.line()
        print(text, flush=True)
        with open(self.path("totals.txt"), "w") as out:
            out.write(text + "\n")
        with open(self.path("totals.json"), "w") as out:
            json.dump({"count": self.count, "notes": self.notes, "second_tries": self.second_tries,
                       "times": self.times}, out)
        return self.count["failed"] == 0

    def slowest(self) -> Iterator[str]:
        """Lines about what took longest, beside the figures of the last run, which these replace."""
        try:
            with open(self.path("times.json")) as text:
                last = json.load(text)
        except (FileNotFoundError, ValueError):
            last = {}
        for name in sorted(self.times, key=lambda name: -self.times[name])[:SLOWEST]:
            before = f"   last {last[name]:7.1f} s" if name in last else ""
            yield f"{self.times[name]:7.1f} s{before}   {name}"
        with open(self.path("times.json"), "w") as out:
            json.dump({**last, **{name: round(seconds, 1) for name, seconds in self.times.items()}}, out, indent=1)

    # Reports

    def add_meson(self, path: str, title: str) -> list[str]:
        """Count the tests of meson's log, one that speaks TAP by its lines, but for those that failed: their names."""
        failed = []
        for test in read_meson(path):
            short = test["name"].split(" / ")[-1]
            cases = TAP_LINE.findall(test.get("stdout") or "")
            self.add_time(f"{title} {short}", test["duration"])
            if any(bad and not skip for bad, _, skip in cases) or test["returncode"] not in (0, 77):
                failed.append(short)
                continue
            for _, case, skip in cases:
                self.add("skipped" if skip else "passed", f"{title} {short}: {case}")
            if not cases:
                self.add("skipped" if test["returncode"] == 77 else "passed", f"{title} {short}")
        return failed

    def add_junit(self, path: str, title: str) -> int:
        """Count the cases of a report that did not fail; how many there are at all."""
        cases = 0
        if os.path.exists(path):
            for case in xml.parse(path).getroot().iter("testcase"):
                cases += 1
                module = (case.get("classname") or "").rpartition(".")[2]
                self.add_time(f"{title} {module}", float(case.get("time") or 0))
                skip = case.find("skipped")
                if skip is not None:
                    why = (skip.get("message") or "").splitlines()
                    self.add("skipped", f"{title} {module}.{case.get('name')}", why[0][:200] if why else "")
                elif case.find("failure") is None and case.find("error") is None:
                    self.add("passed", module)
        return cases


def read_meson(path: str) -> Iterator[dict[str, Any]]:
    if os.path.exists(path):
        with open(path) as log:
            for line in log:
                yield json.loads(line)
