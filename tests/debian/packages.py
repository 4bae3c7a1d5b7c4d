#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run as root in a Debian without our packages, by tests/integration/test_packages.py; they are in /new. Prints what it
does; fails with what went wrong."""

import glob
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

PATIENCE = float(os.environ.get("SNP_TEST_PATIENCE", "60"))  # as of tests/lib.py
OURS = "snipara-sandbox snipara-agent libsnipara-sandbox0 libsnipara-sandbox-dev python3-snipara-sandbox"
HOME = "/home/u"
AS_USER: dict[str, Any] = {"user": "u", "group": "u", "extra_groups": [], "cwd": HOME, "text": True,
                           "env": {**os.environ, "HOME": HOME}, "stdout": subprocess.PIPE}
HOLDER = """from snipara_sandbox import Sandbox
with Sandbox() as s:
    s.run("held = 1")
    print("ready", flush=True)
    input()
    print(s.run("held + 1").value)
"""


def run(command: str) -> str:
    """Of root."""
    print("+ " + command, flush=True)
    return subprocess.run(command, shell=True, check=True, stdout=subprocess.PIPE, text=True).stdout


def user(*command: str, status: int = 0) -> str:
    done = subprocess.run(command, timeout=PATIENCE, **AS_USER)
    assert done.returncode == status, (command, done)
    return str(done.stdout)


def start(*command: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(command, stdin=subprocess.PIPE, **AS_USER)


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def daemons() -> list[int]:
    found = []
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            with open(path) as file:
                if file.read() == "snipara-sandbox"[:15] + "\n" and "sandboxd" in os.readlink(path[:-4] + "exe"):
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


def wait(check: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < end, check
        time.sleep(0.1)


def files() -> set[str]:
    """All but what is of processes, of the user, of the test, and what dpkg, apt and ldconfig write for any package."""
    skipped = ("/proc", "/sys", "/dev", "/run", "/tmp", "/home", "/new", "/var/lib/dpkg", "/var/lib/apt", "/var/cache",
               "/var/log", "/etc/ld.so.cache")
    found: set[str] = set()
    for folder, folders, names in os.walk("/"):
        folders[:] = [name for name in folders if not os.path.join(folder, name).startswith(skipped)]
        found.update(os.path.join(folder, name) for name in folders + names)
    return {path for path in found if not path.startswith(skipped) and "__pycache__" not in path}


def install(version: str) -> None:
    os.chdir("/new/" + version)
    run(sys.argv[1].replace("apt ", "apt-get -y "))  # as it is documented
    assert version in run("dpkg-query -W snipara-sandbox python3-snipara-sandbox")


def compiled() -> None:
    """An example, with nothing but what the packages of the library bring; also from its static library."""
    flags = "pkg-config --cflags --libs snipara-sandbox"
    for made in (flags, flags + " --static | sed s/-lsnipara-sandbox/-l:libsnipara-sandbox.a/"):
        run(f"cc -Wall -Werror -o {HOME}/hello /new/hello.c $({made})")
        assert "value: 42\n" in user(HOME + "/hello")


def served(enable: str) -> None:
    """By the systemd of a user: a socket that starts the daemon, stopped and started again."""
    group, runtime = "/sys/fs/cgroup/snp-test-" + os.urandom(4).hex(), "/run/user/1000"
    run("mount -t cgroup2 cgroup2 /sys/fs/cgroup; mkdir -p /run/systemd/system /run/user; chmod 755 /run/user")
    run(f"install -d -m 700 -o u -g u {runtime}; install -d -o u -g u {group}; chown u:u {group}/cgroup.*")
    AS_USER["env"]["XDG_RUNTIME_DIR"] = runtime
    manager = subprocess.Popen(f"echo $$ >{group}/cgroup.procs; exec setpriv --reuid=u --regid=u --clear-groups "
                               "/lib/systemd/systemd --user", shell=True, env=AS_USER["env"])

    def pid() -> int:
        return int(user("systemctl", "--user", "show", "-P", "MainPID", "snipara-sandbox.service"))
    try:
        wait(lambda: os.path.exists(runtime + "/systemd/private"))
        user(*enable.split())
        assert pid() == 0 and user("snipara-sandbox", "exec", "-s", "kept", "x = 41; x + 1") == "42\n"
        first = pid()
        assert [first] == daemons()
        user("systemctl", "--user", "stop", "snipara-sandbox.service")
        assert pid() == 0 and user("snipara-sandbox", "exec", "-s", "kept", "x") == "41\n"
        assert [pid()] == daemons() != [first]
        user("snipara-sandbox", "daemon", "stop")
        wait(lambda: pid() == 0)
        assert user("snipara-sandbox", "exec", "6 * 7") == "42\n" and pid() != 0
        user(*enable.replace("enable", "disable").split())
    finally:
        manager.terminate()
        manager.wait()
        del AS_USER["env"]["XDG_RUNTIME_DIR"]
        wait(lambda: daemons() == [])
        run(f"find {group} -depth -type d -exec rmdir {{}} +; umount /sys/fs/cgroup; rmdir /run/systemd/system")


before = files()
install("8.0")
assert user("snipara-sandbox", "exec", "-s", "work", "x = 41; x + 1") == "42\n"
for name in ("bin/rlm", "share/man/man1/snipara-sandbox.1.gz", "share/man/man3/snipara_run.3.gz",
             "share/bash-completion/completions/snipara-sandbox.bash", "share/zsh/vendor-completions/_snipara-sandbox",
             "share/fish/vendor_completions.d/snipara-sandbox.fish", "include/snipara/sandbox.h",
             "lib/systemd/user/snipara-sandbox.socket", "lib/systemd/user/snipara-sandbox.service"):
    assert os.path.exists("/usr/" + name), name
with open("/usr/lib/systemd/user/snipara-sandbox.service") as unit:
    program = [line.split('"')[1] for line in unit if line.startswith("ExecStart=")]
assert user(*program, "--version").startswith("snipara-sandboxd ")

first = daemons()
assert len(first) == 1, first
with open(HOME + "/holder.py", "w") as script:
    script.write(HOLDER)
with start("python3", "holder.py") as holder, \
        start("snipara-sandbox", "exec", "-s", "busy", "--timeout", "600",
              "import os, time\nprint('begun', flush=True)\n"
              "while not os.path.exists('/tmp/go'): time.sleep(0.1)\n'done'") as cell:
    assert (said(holder), said(cell)) == ("ready\n", "begun\n")
    install("9.0")
    # Nobody is cut off, and sessions go on in the daemon that has them,
    assert user("snipara-sandbox", "exec", "-s", "work", "x") == "41\n" and daemons() == first
    user("snipara-sandbox", "put", "holder.py", "busy:/tmp/go")
    assert cell.communicate(timeout=PATIENCE)[0] == "'done'\n"
    # then in the new one.
    assert user("snipara-sandbox", "exec", "-s", "work", "x + 1") == "42\n"
    assert set(daemons()).isdisjoint(first) or len(daemons()) == 2
    assert holder.communicate("\n", timeout=PATIENCE)[0] == "2\n"
wait(lambda: len(daemons()) == 1 and daemons() != first)

run("apt-get remove -y " + OURS)
wait(lambda: daemons() == [])  # it has saved its sessions
assert os.path.isdir(HOME + "/.local/state/snipara-sandbox")
run("dpkg --purge " + OURS)
assert files() == before, files() ^ before

install("8.0")  # sessions outlive even that
assert user("snipara-sandbox", "exec", "-s", "work", "x") == "41\n"
user("snipara-sandbox", "daemon", "stop")
compiled()
assert "\n  run  " in user("snipara-sandbox", "--help") and "Usage: " in user("snipara-sandbox", "run", "--help")
run("apt-get remove -y snipara-agent")  # the runtime is whole without the suite
assert "\n  run  " not in user("snipara-sandbox", "--help") and user("snipara-sandbox", "exec", "6 * 7") == "42\n"
user("snipara-sandbox", "run", "x", status=2)
assert user("python3", "-c", "from snipara_sandbox import Sandbox, SandboxError\n"
            "with Sandbox() as s:\n  print(s.run('6 * 7').value)\n"
            "  try: s.export('/tmp/x')\n  except SandboxError as why: print(why)").startswith(
                "42\nruns, diff, apply, export and import need the package snipara-agent")
user("snipara-sandbox", "daemon", "stop")
served(sys.argv[2])
run("apt-get purge -y snipara-sandbox")
assert files() == before, files() ^ before
print("all is as it was")
