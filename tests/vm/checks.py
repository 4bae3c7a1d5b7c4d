# SPDX-License-Identifier: Apache-2.0
"""The checks that tests/vm/run runs inside its machine: one line each, exit status 1 if one failed.

    checks.py all | no-landlock | systemd | apparmor    as root, the one process of the machine beside init
    checks.py part NAME               what "all" starts for each part, as root or as the user

A part gets folders and a daemon of its own. What the result says is compared with what the
kernel's files below /sys/fs/cgroup say.
"""

import glob
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
PROGRAM = "/opt/snipara/snipara-sandbox"
TOP = "/sys/fs/cgroup"
USER = 23456
MIB = 1 << 20
LONG = 120  # seconds for anything: the machine is emulated and its host may be busy


class Failed(Exception):
    pass


def check(condition: object, *seen: object) -> None:
    if not condition:
        raise Failed(" ".join(str(one) for one in seen))


def read(*parts: str) -> str:
    with open(os.path.join(*parts)) as file:
        return file.read().strip()


def write(text: str, *parts: str) -> None:
    with open(os.path.join(*parts), "w") as file:
        file.write(text)


def wait_for(condition: Callable[[], object], seconds: float) -> float | None:
    """Seconds until it was true; None if it was not in time."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds:
            return None
        time.sleep(0.02)
    return time.monotonic() - start


def parents() -> dict[int, int]:
    """{number: parent's} of all processes."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = read("/proc", name, "stat").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            found[int(name)] = int(fields[1])
    return found


def children(pid: int) -> set[int]:
    return {child for child, parent in parents().items() if parent == pid}


def descendants(pid: int) -> set[int]:
    table, found, todo = parents(), set(), [pid]
    while todo:
        at = todo.pop()
        below = {child for child, parent in table.items() if parent == at}
        found |= below
        todo.extend(below)
    return found


def program_of(pid: int) -> str:
    try:
        return os.path.basename(read("/proc", str(pid), "cmdline").split("\0")[0])
    except OSError:
        return ""


class Box:
    """The product with folders of its own, as whoever we are."""

    def __init__(self, name: str, **env: str) -> None:
        folder = f"/tmp/{name}"
        os.makedirs(folder, mode=0o700)
        self.env = {**os.environ, "SNIPARA_SANDBOX_POOL": "0", "HOME": folder,
                    "SNIPARA_SANDBOX_RUNTIME_DIR": folder + "/run",
                    "SNIPARA_SANDBOX_STATE_DIR": folder + "/state", **env}
        self.log_path = folder + "/state"
        # what later checks compare with: the control group of a part, of a session, of the tier's scope
        self.own_group = self.session_group = self.scope = ""

    def cli(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAM, *args], env=self.env, cwd=self.env["HOME"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LONG, errors="replace")

    def exec(self, code: str, *options: str, sh: bool = False) -> Json:
        done = self.cli("exec", "--json", *options, *(["--sh"] if sh else []), code)
        check(done.stdout.startswith("{"), "exit status", done.returncode, done.stdout, done.stderr)
        result: Json = json.loads(done.stdout)
        return result

    def ok(self, code: str, *options: str, **kwargs: Any) -> Json:
        result = self.exec(code, *options, **kwargs)
        check(result["status"] == "ok", result["status"], result["error"], result["limit"], result["stderr"])
        return result

    def doctor(self) -> dict[str, Json]:
        return {row["name"]: row for row in json.loads(self.cli("doctor", "--json").stdout)["checks"]}

    def daemon(self) -> int | None:
        """Number of our daemon; None without one."""
        for pid in parents():
            if program_of(pid) == "snipara-sandboxd" and self.env["SNIPARA_SANDBOX_RUNTIME_DIR"] in read(
                    "/proc", str(pid), "environ"):
                return pid
        return None

    def tier(self) -> int:
        return next(pid for pid in children(self.daemon() or 0) if program_of(pid) == "tier-native")

    def folder(self) -> str:
        """The control group that our tier made; there must be one."""
        name = f"snipara-sandbox-{os.getuid()}-{self.tier()}-"
        found = glob.glob(f"{TOP}/**/{name}*", recursive=True)
        check(found, "our tier has no control group")
        return found[0]

    def groups(self) -> dict[str, set[int]]:
        """Control groups of sandboxes: {path: processes}."""
        return {path: {int(pid) for pid in read(path, "cgroup.procs").split()}
                for path in glob.glob(self.folder() + "/*/")}

    def stop(self) -> None:
        pid = self.daemon()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            check(wait_for(lambda: self.daemon() is None, LONG) is not None, "the daemon does not end")


def rules(result: Json) -> dict[str, int]:
    """{first word of the rule: count} of denials that a limit caused."""
    return {d["rule"].split()[0]: d["count"] for d in result["denials"] if d["source"] == "limit"}


# What is checked. Each takes a box; in order, in one daemon. ---------------------------------


def unit_tests_pass(_: Box) -> str | None:
    path = os.path.join(os.path.dirname(PROGRAM), "cgroup_test")
    if not os.path.exists(path):
        return "not built"
    done = subprocess.run([path], capture_output=True, text=True, timeout=LONG)
    check(done.returncode == 0, done.stdout, done.stderr)
    return None


def doctor_sees_version_2(box: Box) -> None:
    rows = box.doctor()
    for name in ("memory", "pids", "cpu"):
        row = rows["cgroup " + name]
        check(row["status"] == "ok" and row["detail"] == "version 2", row)


def manifest_says_exact(box: Box) -> None:
    manifest = box.ok("6 * 7")["manifest"]
    resources = manifest["controls"]["resources"]
    check(resources["memory"] == "exact" and manifest["degraded"] == [], resources, manifest["degraded"])
    for limit, controller in (("memory", "memory"), ("processes", "pids"), ("cpus", "cpu")):
        check(resources["limits"][limit]["by"] == "cgroup v2 " + controller, resources["limits"][limit])


def exact_is_given_when_required(box: Box) -> None:
    box.ok("6 * 7", "--require-exact")


def kernel_has_the_limits(box: Box) -> None:
    before = set(box.groups())
    box.ok("x = 1", "--session", "s", "--memory", "64m", "--processes", "16", "--cpus", "0.5")
    found = [path for path in box.groups() if read(path, "memory.max") == str(64 * MIB)]
    check(len(found) == 1, "groups", box.groups(), before)
    box.session_group = found[0]
    check(read(found[0], "cpu.max") == "50000 100000", read(found[0], "cpu.max"))
    burst = os.path.join(found[0], "cpu.max.burst")
    check(not os.path.exists(burst) or read(burst) == "50000", "burst")
    check(16 <= int(read(found[0], "pids.max")) <= 20, read(found[0], "pids.max"))  # with those of ours
    swap = os.path.join(found[0], "memory.swap.max")
    check(not os.path.exists(swap) or read(swap) == "0", "swap")
    check(len(box.groups()[found[0]]) >= 2, "processes", box.groups())


def state_is_kept(box: Box) -> None:
    check(box.ok("x + 41", "--session", "s")["value"] == "42")


def cpu_limit_halves(box: Box) -> str:
    code = "import time\nend = time.monotonic() + 4\nwhile time.monotonic() < end: pass"
    usage = box.ok(code, "--session", "s")["usage"]
    ratio = usage["cpu_us"] / usage["wall_us"]
    check(0.3 < ratio < 0.62, "CPU time by wall clock", ratio)
    check("nr_throttled 0" not in read(box.session_group, "cpu.stat"), "never throttled")
    return f"{ratio:.2f}"


def timeout_keeps_state(box: Box) -> None:
    result = box.exec("while True: pass", "--session", "s", "--timeout", "2")
    check((result["status"], result["state"]) == ("timeout", "kept"), result["status"], result["state"])
    state_is_kept(box)


def memory_bomb_is_killed(box: Box) -> str:
    # Shared pages in /dev/shm: no allocator is asked, so only the control group sees them.
    code = "import os\nf = os.open('/dev/shm/f', os.O_CREAT | os.O_WRONLY)\nwhile True: os.write(f, bytes(1 << 20))"
    result = box.exec(code, "--memory", "64m", "--tmp-size", "200m")
    check(result["status"] == "oom" and result["limit"]["key"] == "memory", result["status"], result["limit"])
    check(result["limit"]["value"] == 64 * MIB, result["limit"])
    peak = result["usage"]["memory_peak_bytes"]
    check(56 * MIB < peak <= 64 * MIB, "peak", peak)
    return f"peak {peak / MIB:.1f} MiB"


def peak_is_a_cells_own(box: Box) -> None:
    # From 6.12 on; before, it is that of the session.
    code = "f = open('/tmp/f', 'wb')\nf.write(bytes(30 << 20))\nf.close()\nimport os\nos.remove('/tmp/f')"
    high = box.ok(code, "--session", "s")["usage"]["memory_peak_bytes"]
    low = box.ok("1", "--session", "s")["usage"]["memory_peak_bytes"]
    check(high > 30 * MIB, high)
    version = tuple(int(n) for n in os.uname().release.split(".")[:2])
    check(low < 20 * MIB if version >= (6, 12) else low >= high, version, high, low)


def allocations_end(box: Box) -> str:
    result = box.exec("l = []\nwhile True: l.append(bytearray(1 << 20))", "--session", "s")
    check(result["status"] in ("oom", "error"), result["status"])
    if result["status"] == "error":
        check(result["error"]["type"] == "MemoryError" and result["state"] == "kept", result["error"])
    check(box.ok("1 + 1", "--session", "s")["value"] == "2")
    return str(result["status"])


def fork_bomb_is_counted(box: Box) -> str:
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    result = box.exec(code, "--processes", "16", "--timeout", "3")
    check(result["status"] == "timeout" and rules(result).get("processes", 0) > 0, result["status"], result["denials"])
    return f"{rules(result)['processes']} refused"


def session_end_removes_its_group(box: Box) -> None:
    members = box.groups()[box.session_group]
    done = box.cli("sessions", "destroy", "s")
    check(done.returncode == 0, done.stderr)
    check(not os.path.exists(box.session_group), "the group is still there")
    check(not members & set(parents()), "processes are still there")


def killed_tier_leaves_nothing(box: Box) -> str:
    code = "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        os.setsid(); time.sleep(600)"
    box.ok(code, "--session", "k")
    folder, tier = box.folder(), box.tier()
    below = descendants(tier)
    check(len(below) > 4, "processes of the tier", below)
    os.kill(tier, signal.SIGKILL)
    took = wait_for(lambda: not below & set(parents()), 30)
    check(took is not None and took < 3, "processes after", took, below & set(parents()))  # 1 s, were it not emulated
    box.ok("1")
    check(not os.path.exists(folder), "not removed at the next start:", folder)
    check(box.folder() != folder, box.folder())
    return f"{took:.2f} s"


def killed_daemon_and_tier_too(box: Box) -> None:
    box.ok("x = 1", "--session", "d")
    folder, daemon = box.folder(), box.daemon()
    assert daemon is not None
    below = descendants(daemon)
    for pid in (daemon, box.tier()):
        os.kill(pid, signal.SIGKILL)
    took = wait_for(lambda: not below & set(parents()), 30)
    check(took is not None, "processes", below & set(parents()))
    box.ok("1")
    check(not os.path.exists(folder), "not removed at the next start:", folder)


def ordered_end_removes_all(box: Box) -> None:
    folder = box.folder()
    box.stop()
    check(not os.path.exists(folder), "still there:", folder)


Check = Callable[[Box], str | None]  # what it may say besides
EXACT: tuple[Check, ...] = (
    unit_tests_pass, doctor_sees_version_2, manifest_says_exact, exact_is_given_when_required,
    kernel_has_the_limits, state_is_kept, cpu_limit_halves, timeout_keeps_state, memory_bomb_is_killed,
    peak_is_a_cells_own, allocations_end, fork_bomb_is_counted, session_end_removes_its_group,
    killed_tier_leaves_nothing, killed_daemon_and_tier_too, ordered_end_removes_all)


def doctor_says_why(box: Box) -> str:
    rows = box.doctor()
    for name in ("memory", "pids", "cpu"):
        row = rows["cgroup " + name]
        check(row["status"] == "missing" and "cgroup v2" in row["detail"], row)
    return str(rows["cgroup memory"]["detail"])


def manifest_says_approximate(box: Box) -> None:
    manifest = box.ok("6 * 7")["manifest"]
    check(manifest["controls"]["resources"]["memory"] == "approximate", manifest["controls"]["resources"])
    check(any(text.startswith("memory: approximate") for text in manifest["degraded"]), manifest["degraded"])


def approximate_limits_hold(box: Box) -> None:
    code = ("import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        b = bytearray(20 << 20)\n"
            "        for i in range(0, len(b), 4096): b[i] = 1\n        time.sleep(20); os._exit(0)\ntime.sleep(20)")
    result = box.exec(code, "--memory", "64m")
    check(result["status"] == "oom" and result["limit"]["key"] == "memory", result["status"], result["limit"])


def exact_is_refused(box: Box) -> None:
    done = box.cli("exec", "--require-exact", "print('r' + 'an')")
    check(done.returncode == 1 and "memory: approximate" in done.stderr and "delegate" in done.stderr, done)


def burst_is_short(box: Box) -> str:
    """How far beyond the limit many processes at once get, as the host's free memory tells."""
    code = ("import os, time\nfor _ in range(30):\n    if os.fork() == 0:\n        b = bytearray(30 << 20)\n"
            "        b[::4096] = b'x' * len(b[::4096])\n        time.sleep(20); os._exit(0)\ntime.sleep(20)")
    box.ok("1")
    free = [int(line.split()[1]) for line in read("/proc/meminfo").split("\n") if line.startswith("MemAvailable")][0]
    least, done = free, subprocess.Popen(
        [PROGRAM, "exec", "--json", "--memory", "64m", code], env=box.env, cwd=box.env["HOME"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    while done.poll() is None:
        now = next(int(line.split()[1]) for line in read("/proc/meminfo").split("\n") if line.startswith("MemAv"))
        least = min(least, now)
        time.sleep(0.005)
    status = json.loads(done.communicate()[0])["status"]
    check(status == "oom" and free - least < 700 << 10, status, "KiB:", free - least)
    return f"{(free - least) >> 10} MiB of memory for a limit of 64"


def nothing_was_moved(box: Box) -> None:
    check(read("/proc/self/cgroup") == box.own_group, read("/proc/self/cgroup"))
    check(not glob.glob(f"{TOP}/**/snipara-s*-{os.getuid()}*", recursive=True), "groups were made")


def stops(box: Box) -> None:
    box.stop()


APPROXIMATE: tuple[Check, ...] = (doctor_says_why, manifest_says_approximate, exact_is_refused,
                                  approximate_limits_hold, burst_is_short, nothing_was_moved, stops)


def what_is_delegated_is_used(box: Box) -> None:
    """Memory and processes only, as systemd delegates them to users by default."""
    limits = box.ok("1")["manifest"]["controls"]["resources"]["limits"]
    check(limits["memory"]["by"] == "cgroup v2 memory" and limits["processes"]["by"] == "cgroup v2 pids", limits)
    check(limits["cpus"]["by"] == "bound to as many CPUs", limits["cpus"])
    half = box.ok("1", "--cpus", "0.5")["manifest"]
    check(half["controls"]["resources"]["limits"]["cpus"]["by"].startswith("approximate"), half)
    check(any(text.startswith("cpus:") for text in half["degraded"]), half["degraded"])
    row = box.doctor()["cgroup cpu"]
    check(row["status"] == "missing" and "not delegated" in row["detail"], row)


def cpu_time_is_counted_without_a_controller(box: Box) -> None:
    usage = box.ok("import time\ne = time.process_time() + 0.5\nwhile time.process_time() < e: pass")["usage"]
    check(usage["cpu_us"] >= 500_000, usage)


def a_second_start_is_no_deeper(box: Box) -> None:
    """The shell is in the leaf by now; its next daemon must find the group above."""
    check(read("/proc/self/cgroup").endswith(f"/snipara-supervisor-{os.getuid()}"), read("/proc/self/cgroup"))
    box.ok("1")
    check(box.folder().count("snipara-") == 1, box.folder())
    box.stop()


def refuses_without_landlock(box: Box) -> None:
    done = box.cli("exec", "print('r' + 'an')")
    check(done.returncode == 1 and "Landlock" in done.stderr and "ran" not in done.stdout, done)
    check(box.doctor()["landlock"]["status"] == "missing", box.doctor()["landlock"])


def runs_when_allowed(box: Box) -> None:
    manifest = box.ok("6 * 7", "--allow-degraded")["manifest"]
    check(any("landlock" in text.lower() for text in manifest["degraded"]), manifest["degraded"])
    check(not manifest["controls"]["filesystem"]["landlock_abi"], manifest["controls"]["filesystem"])


def systemd_gives_a_scope(box: Box) -> str:
    """The tier is in a group of its own below the user's systemd, and we stayed where we were."""
    resources = box.ok("6 * 7")["manifest"]["controls"]["resources"]
    check(resources["memory"] == "exact", resources, box.doctor()["cgroup memory"])
    check(resources["limits"]["memory"]["by"] == "cgroup v2 memory", resources["limits"])
    group = read("/proc", str(box.tier()), "cgroup")
    check(f"/user@{USER}.service/" in group and f"/snipara-sandbox-{box.tier()}.scope/" in group, group)
    check(read("/proc/self/cgroup") == box.own_group, read("/proc/self/cgroup"))
    box.scope = os.path.dirname(box.folder())
    return group


def scope_is_found_again(box: Box) -> None:
    box.scope = os.path.dirname(box.folder())
    check(box.scope.endswith(f"/snipara-sandbox-{box.tier()}.scope"), box.scope)


def scope_ends_with_the_tier(box: Box) -> str:
    box.stop()
    took = wait_for(lambda: not os.path.exists(box.scope), LONG)
    check(took is not None, "still there:", box.scope)
    return f"{took:.2f} s"


def says_that_there_is_no_bus(box: Box) -> str:
    resources = box.ok("6 * 7")["manifest"]
    check(resources["controls"]["resources"]["memory"] == "approximate", resources)
    check(any("session bus" in text for text in resources["degraded"]), resources["degraded"])
    return str(resources["degraded"])


def restriction_is_named(box: Box) -> str:
    done = box.cli("exec", "print('r' + 'an')")
    check(done.returncode == 1 and "user namespaces are refused here" in done.stderr and "ran" not in done.stdout, done)
    if os.path.exists(RESTRICTION):
        check(RESTRICTION in done.stderr and "make install" in done.stderr, done.stderr)
    else:
        check("security module" in done.stderr, done.stderr)
    return done.stderr.strip()


def profile_lets_it_run(box: Box) -> str:
    """Also after a kill of the interpreter; and the interpreters are in the profile, not beside it."""
    box.ok("x = 41", "--session", "s")
    check(box.ok("x + 1", "--session", "s")["value"] == "42")
    for pid in descendants(box.tier()):
        label = read("/proc", str(pid), "attr", "current")
        check(label.startswith("snipara-sandbox "), pid, program_of(pid), label)
    return read("/proc", str(box.tier()), "attr", "current")


def namespaces_stay_refused_inside(box: Box) -> None:
    result = box.exec("import os, ctypes\nctypes.CDLL(None).unshare(0x10000000)")
    check(result["value"] == "-1", result["value"], result["error"])


RESTRICTION = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
# All rights but user namespaces, for kernels that have no such setting: they ask profiled programs only.
DENYING = """
  allow capability,
  allow file,
  allow mount,
  allow remount,
  allow umount,
  allow pivot_root,
  allow network,
  allow unix,
  allow signal,
  allow ptrace,
"""


def restrict_namespaces() -> None:
    """As Ubuntu does; else as much of it as this kernel can."""
    if os.path.exists(RESTRICTION):
        write("1", RESTRICTION)
    else:
        load_profile(DENYING)


def load_profile(rules: str | None = None) -> None:
    text = read("/checks/snipara-sandbox.in").replace("@LIBEXEC@", os.path.dirname(PROGRAM)) + "\n"
    if rules is not None:
        text = text.replace(" flags=(unconfined)", "").replace("  userns,\n", rules)
    write(text, "/etc/apparmor.d/snipara-sandbox")
    subprocess.run(["apparmor_parser", "-r", "/etc/apparmor.d/snipara-sandbox"], check=True, timeout=LONG)


def start_user_manager() -> None:
    """As a login would."""
    subprocess.run(["systemctl", "start", f"user@{USER}.service"], check=True, timeout=LONG)
    bus = f"/run/user/{USER}/bus"
    if wait_for(lambda: os.path.exists(bus), LONG) is None:
        print("not ok - the user's bus does not come up")


# The parts -----------------------------------------------------------------------------------

LIMITS = ("memory", "pids", "cpu")
# name: (checks, as the user?, controllers of a group that is delegated to it, how it is marked)
Part = tuple[tuple[Check, ...], bool, str | None]
PARTS: dict[str, Part] = {
    "root": (EXACT, False, None),
    "user-without-delegation": (APPROXIMATE, True, None),
    "user-in-a-group-of-others": (APPROXIMATE, True, "plain"),
    "user-delegated": (EXACT + (a_second_start_is_no_deeper,), True, "own"),
    "user-delegated-by-mark": ((what_is_delegated_is_used, exact_is_given_when_required,
                                cpu_time_is_counted_without_a_controller, memory_bomb_is_killed,
                                fork_bomb_is_counted, ordered_end_removes_all), True, "marked"),
}
NO_LANDLOCK: dict[str, Part] = {
    "root-without-landlock": ((refuses_without_landlock, runs_when_allowed, stops), False, None),
    "user-without-landlock": ((refuses_without_landlock, runs_when_allowed, stops), True, None),
}


SYSTEMD: dict[str, Part] = {
    "user-before-a-login": ((says_that_there_is_no_bus, stops), True, None),
    "user-of-a-systemd": ((systemd_gives_a_scope, exact_is_given_when_required, memory_bomb_is_killed,
                           fork_bomb_is_counted, killed_tier_leaves_nothing, scope_is_found_again,
                           scope_ends_with_the_tier), True, "login"),
}


APPARMOR: dict[str, Part] = {
    "user-restricted": ((restriction_is_named, stops), True, "restricted"),
    "root-restricted": ((restriction_is_named, stops), False, "restricted"),
    "user-with-profile": ((profile_lets_it_run, namespaces_stay_refused_inside, stops), True, "profile"),
    "root-with-profile": ((profile_lets_it_run, namespaces_stay_refused_inside, stops), False, "profile"),
}
# What a part needs that its host does not have by itself; kinds of groups are enter_group's.
BEFORE: dict[str | None, Callable[[], None]] = {
    "login": start_user_manager, "restricted": restrict_namespaces, "profile": load_profile}


def run_part(name: str) -> int:
    checks = {**PARTS, **NO_LANDLOCK, **SYSTEMD, **APPARMOR}[name][0]
    box = Box(name)
    box.own_group = read("/proc/self/cgroup")
    failed = 0
    for one in checks:
        start = time.monotonic()
        try:
            said = one(box)
            line = "ok"
        except Exception as error:  # whatever it is, the other checks go on
            said = str(error) if isinstance(error, Failed) else traceback.format_exc()
            line = "not ok"
            failed += 1
        print(f"{line} - {name}: {one.__name__.replace('_', ' ')} [{time.monotonic() - start:.1f} s]"
              + (f": {said}" if said else ""), flush=True)
    if failed:
        for path in glob.glob(box.log_path + "/*.log"):
            print("  " + read(path).replace("\n", "\n  "))
    return 1 if failed else 0


def give(*parts: str, xattr: bool = False) -> None:
    """A group to the user, as systemd delegates one."""
    path = os.path.join(TOP, *parts)
    for name in (".", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
        os.chown(os.path.join(path, name), USER, USER)
    if xattr:
        os.setxattr(path, "user.delegate", b"1")


def enter_group(name: str, kind: str | None) -> None:
    """Make the group of a part and go there; kind: see PARTS."""
    if kind is None or kind in BEFORE:
        return
    path = os.path.join(TOP, name)
    os.mkdir(path)
    if kind == "own":
        write("+memory +pids +cpu", TOP, "cgroup.subtree_control")
        give(name)
    else:  # below a group of the user's own, like the scopes of a user's systemd
        write("+memory +pids", TOP, "cgroup.subtree_control")
        write("+memory +pids", path, "cgroup.subtree_control")
        give(name)
        path = os.path.join(path, "scope")
        os.mkdir(path)
        give(path, xattr=kind == "marked")
    write("0", path, "cgroup.procs")


def start_part(name: str, as_user: bool, kind: str | None) -> int:
    if kind in BEFORE:
        BEFORE[kind]()

    def prepare() -> None:
        enter_group(name, kind)
        if as_user:
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)

    part = subprocess.Popen([sys.executable, __file__, "part", name], preexec_fn=prepare)
    return part.wait()


def main() -> int:
    if sys.argv[1] == "part":
        return run_part(sys.argv[2])
    table = {"all": PARTS, "no-landlock": NO_LANDLOCK, "systemd": SYSTEMD, "apparmor": APPARMOR}[sys.argv[1]]
    return max([1 if start_part(name, as_user, kind) else 0 for name, (_, as_user, kind) in table.items()])


if __name__ == "__main__":
    sys.exit(main())
