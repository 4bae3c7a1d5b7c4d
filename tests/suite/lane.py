# SPDX-License-Identifier: Apache-2.0
"""Where commands of a test run are started, ended and counted: in the foreground, or behind it at idle priority."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

import lib
from suite.totals import Totals

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = "/usr/bin/python3"
# Four files of tests at a time, the tests of a file in their order: with one per processor the processors wait for
# tests that wait.
WORKERS = ("-n", "4", "--dist", "loadfile")
GRACE_S = 60
MOST_SECOND_TRIES = 20  # with more failures it is the product

# Commands that run, of any lane: ended when we are.
started: set[subprocess.Popen[bytes]] = set()
started_lock = threading.Lock()


def end_all() -> None:
    with started_lock:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@contextlib.contextmanager
def odd_surroundings() -> Iterator[dict[str, str]]:
    """Variables of a host on which nothing is as expected; the tests are to be right there, too.

    Another snipara-sandbox comes first in PATH and fails, folders have blanks and letters of other
    alphabets, /dev/shm holds somebody's file, this program is configured in the environment.
    """
    settings = os.environ.get("NPM_CONFIG_USERCONFIG", os.path.expanduser("~/.npmrc"))
    with tempfile.TemporaryDirectory(prefix="snp odd ") as place, \
            tempfile.NamedTemporaryFile(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as shared:
        shared.write(b"somebody's" * 1000)
        shared.flush()
        os.chmod(place, 0o755)
        for name in ("home é", "tmp", "bin"):
            os.mkdir(os.path.join(place, name))
        os.chmod(os.path.join(place, "tmp"), 0o1777)
        for name in ("snipara-sandbox", "snipara-sandboxd", "rlm"):
            with open(os.path.join(place, "bin", name), "w") as other:
                other.write("#!/bin/sh\necho 'another program of that name' >&2\nexit 97\n")
            os.chmod(other.name, 0o755)
        yield {"HOME": os.path.join(place, "home é"), "TMPDIR": os.path.join(place, "tmp"),
               "PATH": os.path.join(place, "bin") + ":" + os.environ["PATH"], "NPM_CONFIG_USERCONFIG": settings,
               "LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8", "TZ": "Pacific/Chatham", "COLUMNS": "31",
               "NO_COLOR": "1", "PAGER": "false", "XDG_STATE_HOME": place, "XDG_CONFIG_HOME": place,
               "SNIPARA_SANDBOX_MODEL": "odd", "RLM_TIMEOUT_SECONDS": "7", "OPENAI_API_KEY": "sk-odd"}


def set_priority(pid: int, policy: int, weight: int, sessions: set[int]) -> None:
    """Set the policy of a process's threads and the weight of its session, unless `sessions` has that already."""
    for thread in os.listdir(f"/proc/{pid}/task") if os.geteuid() == 0 else ():  # a user cannot leave SCHED_IDLE
        os.sched_setscheduler(int(thread), policy, os.sched_param(0))
    session = os.getsid(pid)
    if session not in sessions:
        with open(f"/proc/{pid}/autogroup", "w") as autogroup:
            autogroup.write(str(weight))
        sessions.add(session)


def stand_back(process: subprocess.Popen[bytes], foreground_done: threading.Event) -> None:
    """Wait for a process; until the foreground is done, it and its descendants run only when a processor is idle.

    SCHED_IDLE applies among the processes of a session; each session also has a weight (autogroup, sched(7)),
    and some programs start sessions for their children.
    """
    idle: set[int] = set()  # sessions
    normal: set[int] = set()
    while True:
        for pid in lib.descendants(process.pid) | {process.pid}:
            with contextlib.suppress(OSError):  # it ended already, or the kernel has no such groups
                if not foreground_done.is_set():
                    set_priority(pid, os.SCHED_IDLE, 19, idle)
                else:
                    set_priority(pid, os.SCHED_OTHER, 0, normal)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)
            return


class Lane:
    """Commands one after the other. With a log their output goes there. With an event they run at idle priority until
    it is set."""

    def __init__(self, totals: Totals, log: IO[str] | None = None, deadline: float | None = None,
                 foreground_done: threading.Event | None = None) -> None:
        self.totals = totals
        self.log = log
        self.deadline = deadline  # of time.monotonic(): a command that is not done by then is killed
        self.foreground_done = foreground_done

    def say(self, text: str) -> None:
        print(text, file=self.log, flush=True)

    def run(self, command: Sequence[str], env: Mapping[str, str] | None = None, umask: int = -1) -> int:
        """Run a command in the repository and return its exit status, 124 at the deadline."""
        self.say("+ " + " ".join(command))
        environment = dict(os.environ, **(env or {}))
        process = subprocess.Popen(command, cwd=ROOT, env=environment, umask=umask, stdin=subprocess.DEVNULL,
                                   stdout=self.log, stderr=subprocess.STDOUT if self.log else None,
                                   start_new_session=True)
        with started_lock:
            started.add(process)
        try:
            if self.foreground_done is not None:
                stand_back(process, self.foreground_done)
            return process.wait(None if self.deadline is None else max(1, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.say("stopped at the deadline")
            with contextlib.suppress(subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGINT)  # fixtures end what they started
                process.wait(GRACE_S)
            return 124
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            with started_lock:
                started.discard(process)

    def gate(self, name: str, command: Sequence[str]) -> None:
        """A command that passes, fails, or cannot run here (77)."""
        began = time.monotonic()
        code = self.run(command)
        self.totals.add_time(name, time.monotonic() - began)
        if code == 77 and not lib.must(name):
            self.totals.add("skipped", name, "it cannot run here, see above")
        else:
            self.totals.add("failed" if code else "passed", name, f"exit status {code}")

    def build(self, title: str, folder: str, options: Sequence[str] = (), env: Mapping[str, str] | None = None,
              targets: Sequence[str] = ()) -> bool:
        began = time.monotonic()
        ok = (self.run(["tools/configure", folder, *options], env) == 0 and
              self.run(["ninja", "-C", folder, "--quiet", *targets]) == 0)
        self.totals.add_time(f"{title} build", time.monotonic() - began)
        self.totals.add("passed" if ok else "failed", f"{title} build")
        return ok

    def meson(self, title: str, folder: str, suites: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Run suites of meson. A unit test that fails runs once more."""
        chosen = [part for suite in suites for part in ("--suite", suite)]
        report = self._meson(folder, [*chosen], env)
        failed = self.totals.add_meson(report, title)
        if not os.path.exists(report):
            self.totals.add("failed", f"{title} {' '.join(suites)}", "no test ran")
        if failed and "lint" not in suites:
            still = self.totals.add_meson(self._meson(folder, failed, env), title)
            for name in failed:
                if name not in still:
                    self.totals.add_second_try(f"{title} {name}", "see the log")
            failed = still
        for name in failed:
            self.totals.add("failed", f"{title} {name}")

    def _meson(self, folder: str, chosen: Sequence[str], env: Mapping[str, str] | None) -> str:
        report = os.path.join(folder, "meson-logs", "testlog.json")
        remove(report)
        self.run(["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs", "--timeout-multiplier", "20",
                  *chosen], env)
        return report

    def pytest(self, title: str, folder: str, tests: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Run files of tests with the programs of a build; what fails runs once more, alone."""
        code = self._pytest(title, folder, [*WORKERS, *tests], env)
        cases = self.totals.add_junit(os.path.join(folder, "pytest.junit.xml"), title)
        failed = read_failures(folder)
        if code == 124:
            self.totals.add("skipped", title, f"stopped at the deadline after {cases} tests")
            self.deadline = None  # of what failed there is a second try
        elif cases == 0 and code != 5:  # 5: nothing was collected, as for a share of a small file
            self.totals.add("failed", title, "no test ran")
        elif code not in (0, 5) and not failed:
            self.totals.add("failed", title, f"exit status {code}")
        still = failed
        if failed and len(failed) <= MOST_SECOND_TRIES:
            self.say(f"--- {title}: a second try of what failed")
            self._pytest(f"{title}, again", folder, list(failed), {**(env or {}), "SNP_TEST_RUN": ""})
            still = read_failures(folder)
        for name, message in failed.items():
            if name in still:
                self.totals.add("failed", f"{title} {name}", message)
            else:
                self.totals.add_second_try(f"{title} {name}", message)

    def _pytest(self, title: str, folder: str, words: Sequence[str], env: Mapping[str, str] | None) -> int:
        report = os.path.join(folder, "pytest.junit.xml")
        failures = os.path.join(folder, "failures.jsonl")
        remove(report)
        remove(failures)
        command = [PYTHON, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "progress", "-rN",
                   f"--junit-xml={report}", *words]
        ours = {"SNP_BUILD": folder, "SNP_TEST_PART": title, "SNP_TEST_FAILURES": failures,
                "PYTHONPATH": os.path.join(ROOT, "tests")}
        with odd_surroundings() as odd:
            return self.run(command, {**odd, **(env or {}), **ours}, umask=0o077)


def read_failures(folder: str) -> dict[str, str]:
    """{test: message} of the list that tests/progress.py keeps."""
    path = os.path.join(folder, "failures.jsonl")
    found: dict[str, str] = {}
    if os.path.exists(path):
        with open(path) as lines:
            for line in lines:
                row = json.loads(line)
                found.setdefault(row["test"], row["message"])
    return found


class Behind(threading.Thread):
    """A lane behind the foreground: steps, each a function of a lane, one after the other. What they print is printed
    when the last is done."""

    def __init__(self, totals: Totals, title: str, *steps: Callable[[Lane], object]) -> None:
        super().__init__(daemon=True)
        self.totals = totals
        self.title = title
        self.steps = steps
        self.foreground_done = threading.Event()
        self.start()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the last step. The foreground is done: the steps run at normal priority."""
        self.foreground_done.set()
        super().join(timeout)

    def run(self) -> None:
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            try:
                for step in self.steps:
                    step(Lane(self.totals, log, foreground_done=self.foreground_done))
            except Exception as error:  # a run must not pass because its judge died
                self.totals.add("failed", self.title, repr(error))
            log.seek(0)
            print(f"--- {self.title}, which ran behind:\n" + log.read(), flush=True)
