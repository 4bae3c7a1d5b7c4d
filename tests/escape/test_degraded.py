# SPDX-License-Identifier: Apache-2.0
"""The attacks again without Landlock and without control groups: the rest must hold alone,
and the manifest must say what is missing."""

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest

import lib
from attacks.engine import Attack, try_inside
from test_attacks import ATTACKS

SWITCHES = {
    "landlock": {"SNIPARA_SANDBOX_NO_LANDLOCK": "1"},
    "cgroup": {"SNIPARA_SANDBOX_NO_CGROUP": "1"},
}
FOR = {
    "landlock": [attack for attack in ATTACKS if attack.control == "filesystem"],
    "cgroup": [attack for attack in ATTACKS if attack.control in ("resources", "disposable")],
}
CASES = [(without, attack) for without in SWITCHES for attack in FOR[without]
         # These wait for clocks only, which both ways share.
         if not attack.name.startswith(("busy", "sleep", "loop", "stopped", "yes", "one line", "flood"))]


Boxes = Callable[[str, str], lib.Sandbox]  # of a user, without something


@pytest.fixture(scope="module")
def boxes() -> Iterator[Boxes]:
    made = {}

    def get(who: str, without: str) -> lib.Sandbox:
        if (who, without) not in made:
            made[who, without] = lib.Sandbox(who, env=SWITCHES[without])
            made[who, without].exec_options = ["--allow-degraded"]
        return made[who, without]

    yield get
    for box in made.values():
        box.close()


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("without", SWITCHES)
def test_the_manifest_says_what_is_missing(boxes: Boxes, who: str, without: str) -> None:
    manifest = boxes(who, without).exec("1")["manifest"]
    assert manifest["degraded"]
    if without == "landlock":
        assert any("landlock" in text.lower() for text in manifest["degraded"])
        assert not manifest["controls"]["filesystem"]["landlock_abi"]
    else:
        assert manifest["controls"]["resources"]["memory"] == "approximate"
        assert any(text.startswith("memory: approximate") for text in manifest["degraded"])


@pytest.mark.parametrize("who", ["root", "user"])
def test_a_missing_fence_is_not_accepted_silently(fresh_sandbox: Callable[..., lib.Sandbox], who: str) -> None:
    box = fresh_sandbox(who, SWITCHES["landlock"])
    done = box.cli("exec", "print('r' + 'an')")
    assert done.returncode == 1 and "Landlock" in done.stderr and "ran" not in done.stdout


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("without, attack", CASES,
                         ids=[f"{without}-{attack.name.replace(' ', '-')}" for without, attack in CASES])
def test_attack_without(boxes: Boxes, who: str, without: str, attack: Attack) -> None:
    try_inside(attack, boxes(who, without))  # its control run is test_attacks.py's


BURST = """
import os
there, over = os.pipe(), os.pipe()
for n in range({n}):
    if os.fork() == 0:
        os.close(over[1])
        b = bytearray(60 << 20)
        b[::4096] = b'x' * len(b[::4096])
        os.write(there[1], b'x')
        os.read(over[0], 1)
        os._exit(0)
os.close(there[1])
for n in range({n}):
    os.read(there[0], 1)
os.close(over[1])
for n in range({n}):
    os.wait()
"""


@pytest.fixture
def meter() -> Iterator[str]:
    """A memory control group without a limit, for a daemon whose tier is to have none; the kernel's own count.

    To be asked for before the runtime that goes in, which then ends first.
    """
    parent, name = "/sys/fs/cgroup/memory", "snp-test-meter-"
    if not os.path.exists(parent + "/memory.max_usage_in_bytes") or not os.access(parent, os.W_OK):
        pytest.skip("takes root and cgroup v1, which counts peaks that can be reset")
    for old in os.listdir(parent):
        if old.startswith(name) and not os.path.exists("/proc/" + old[len(name):]):
            remove(os.path.join(parent, old))  # of a run that was killed
    folder = os.path.join(parent, f"{name}{os.getpid()}")
    os.mkdir(folder)
    yield folder
    assert lib.wait_for(lambda: not remove(folder)), f"{folder} is in use"


def remove(folder: str) -> bool:
    """True while it is still there."""
    try:
        os.rmdir(folder)
    except OSError:
        pass
    return os.path.exists(folder)


# Each holds 1,000 or 2,000 full buffers, 100 to 200 MiB, for longer than samples are apart.
SOCKETS = """
import socket, time
held = []
def fill(one):
    one.setblocking(False)
    try:
        while True: one.send(b"x" * 50000)
    except BlockingIOError: pass
for turn in range(1000):
    KIND
print("all", flush=True)
time.sleep(1)
print("held")
"""
KINDS = {
    "unix": "held += socket.socketpair()\n    fill(held[-1])",
    "unix without a sender": "near, far = socket.socketpair()\n    held.append(far)\n    fill(near)\n    near.close()",
    "udp": "held.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))\n    held[-1].bind(('127.0.0.1', 0))\n"
           "    for _ in range(4): held[-1].sendto(b'x' * 50000, held[-1].getsockname())",
    "tcp": "there = socket.create_server(('127.0.0.1', 0))\n    for _ in range(2):\n"
           "        held += [socket.create_connection(there.getsockname()), there.accept()[0]]\n"
           "        fill(held[-2])\n    there.close()",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("who", ["root", "user"])
def test_buffers_of_sockets_count(fresh_sandbox: Callable[..., lib.Sandbox], who: str, kind: str) -> None:
    """The limit of the control run allows them."""
    box = fresh_sandbox(who, SWITCHES["cgroup"])
    code = SOCKETS.replace("KIND", KINDS[kind])
    met = box.exec(code, options=["--memory", "64m", "--open-files", "8192"])
    assert met["status"] == "oom" and "held" not in met["stdout"], met
    assert box.exec(code, options=["--memory", "1g", "--open-files", "8192"])["stdout"] == "all\nheld\n"


@pytest.mark.parametrize("who", ["root", "user"])
def test_the_approximate_limit_is_near(meter: str, fresh_sandbox: Callable[..., lib.Sandbox], who: str) -> None:
    """As the kernel counts: many processes that hold memory at once are past the limit for a moment only.

    How far depends on the machine; docs/security/controls.md has the worst that was measured. The control run
    has a limit that allows them.
    """
    box = fresh_sandbox(who, SWITCHES["cgroup"])
    daemon = box.start()
    box.exec("1")  # its tier and templates are there, too
    for pid in (daemon, *lib.descendants(daemon)):
        with contextlib.suppress(OSError), open(meter + "/cgroup.procs", "w") as procs:  # one may have ended
            procs.write(str(pid))

    def peak(code: str, *options: str) -> tuple[str, int]:
        box.exec("1")
        with open(meter + "/memory.max_usage_in_bytes", "w") as knob:
            knob.write("0")
        before = int(open(meter + "/memory.usage_in_bytes").read())
        done = box.exec(code, options=options)
        return done["status"], int(open(meter + "/memory.max_usage_in_bytes").read()) - before

    status, most = peak(BURST.format(n=60), "--memory", "64m", "--cpus", "2")
    assert status == "oom" and most < 1000 << 20, (status, most >> 20)
    status, most = peak(BURST.format(n=20), "--memory", "8g", "--cpus", "2")
    assert status == "ok" and most > 1100 << 20, (status, most >> 20)
    box.close()
