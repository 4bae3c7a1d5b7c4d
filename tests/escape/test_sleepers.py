# SPDX-License-Identifier: Apache-2.0
"""Copies of a session that the code prepares to run by themselves: none does, and after a rollback nothing does.

A handler of the copy is called whenever it is let go on; from its second time on it writes for ever. What
lets it go on is tried on a stopped process outside first, where it must succeed."""

import functools
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import lib
import pytest

# The ways: what the copy does when it is woken by us (and the control before it stops).
PREPARE = {
    # A child whose end lets its parent go on.
    "exit_signal": """
def prepare():
    if libc.syscall(CLONE, int(signal.SIGCONT), 0, 0, 0, 0) == 0:
        be_deaf()
        await_stop(os.getppid())
        os._exit(0)
""",
    # Somebody in the copy's own process group.
    "group": """
def prepare():
    if os.fork() == 0:
        be_deaf()
        for turn in range(TURNS):
            time.sleep(0.1)
            try: os.kill(0, signal.SIGCONT)
            except OSError: pass
        os._exit(0)
""",
    # The last one whose parent is in another group: the kernel lets stopped groups that are orphaned go on.
    "orphaned_group": """
def prepare():
    group = os.getpgrp()
    mine, theirs = os.pipe()
    if os.fork() == 0:
        be_deaf()
        os.setpgid(0, 0)
        last = os.fork()
        if last == 0:
            os.setpgid(0, group)
            os.write(theirs, b"x")
            await_stop(group)
            os._exit(0)
        os.waitpid(last, 0)
        os._exit(0)
    os.close(theirs)
    os.read(mine, 1)
    os.close(mine)
""",
}

COMMON = """
import ctypes, os, platform, signal, time
libc = ctypes.CDLL(None, use_errno=True)
CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]

def be_deaf():
    for number in (signal.SIGCONT, signal.SIGHUP):
        libc.signal(int(number), 1)

# Inside nobody may be able to see the state of the copy; it has likely been stopped by then.
def await_stop(pid):
    time.sleep(0.8)

TURNS = 10
"""

# In the session: the first time the copy runs it is woken by us.
ARM = COMMON + """
turns = []

def write_on():
    while True:
        with open(os.environ["HOME"] + "/ran", "a") as out:
            out.write(f"{os.getpid()} ")
        time.sleep(0.01)

def on_signal(number):
    name = ctypes.create_string_buffer(16)
    libc.prctl(16, name)
    if name.value == b"snapshot":
        turns.append(number)
        (write_on if len(turns) > FREE else prepare)()

HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)(on_signal)
libc.signal(int(signal.SIGCONT), HANDLER)
libc.signal(int(signal.SIGHUP), HANDLER)
"""

CONTROL = COMMON + """
def await_stop(pid):
    while open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)

TURNS = 10 * PATIENCE
PREPARE
pid = os.fork()
if pid == 0:
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    prepare()
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)
end = time.monotonic() + PATIENCE
went_on = False
while not went_on and time.monotonic() < end:
    got, status = os.waitpid(pid, os.WCONTINUED | os.WNOHANG)
    went_on = got == pid and os.WIFCONTINUED(status)
    time.sleep(0.02)
print(went_on)
os.killpg(pid, signal.SIGKILL)
"""

LOOK = """
import os, time
def written():
    try: return open(os.environ["HOME"] + "/ran").read().split()
    except FileNotFoundError: return []
before = len(written())
time.sleep(WAIT)
others = []
try: names = os.listdir("/proc")
except PermissionError: names = []  # in the local tier
for name in names:
    if name.isdigit() and int(name) not in (1, os.getpid()):
        try: text = open(f"/proc/{name}/stat").read()
        except OSError: continue
        if "(files) S" not in text:  # pid 1's helper, which runs no code of the session
            others.append((int(name), text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2]))
{int(pid) for pid in written()[before:]}, others
"""


@pytest.fixture
def name(sandbox: lib.Sandbox) -> Iterator[str]:
    name = "sleepers-" + secrets.token_hex(4)
    yield name
    sandbox.destroy(name)


class Died(Exception):
    """The interpreter ended by the handler: that is Python code, wherever the signal meets it."""


def once_more(test: Callable[..., None]) -> Callable[..., None]:
    """Begin anew where the interpreter died of its handler."""
    @functools.wraps(test)
    def tried(sandbox: lib.Sandbox, name: str, **others: Any) -> None:
        for _ in range(6):
            try:
                test(sandbox, name, **others)
                return
            except Died:
                sandbox.destroy(name)
        pytest.fail("the interpreter died each time")

    return tried


def cell(sandbox: lib.Sandbox, name: str, code: str) -> lib.Json:
    """The result of code that does not fail."""
    try:
        done = sandbox.exec(code, session=name)
    except lib.CliError as error:
        if "--recover" in error.done.stderr:
            raise Died() from None
        raise
    if done["status"] == "killed":
        raise Died()
    assert done["status"] == "ok", done["error"]
    return done


def end(sandbox: lib.Sandbox, name: str) -> Any:
    """What has become of a session whose interpreter ended in a cell."""
    try:
        return sandbox.exec("import os\nos._exit(1)", session=name)["state"]
    except lib.CliError:
        raise Died() from None


def look(sandbox: lib.Sandbox, name: str, seconds: float = 0.3) -> tuple[Any, ...]:
    """Who wrote meanwhile, and who else is there: a list of (pid, name, state)."""
    return tuple(eval(cell(sandbox, name, LOOK.replace("WAIT", str(seconds)))["value"]))


@pytest.mark.parametrize("way", PREPARE)
@once_more
def test_a_copy_is_let_go_on_by_nobody(sandbox: lib.Sandbox, name: str, way: str) -> None:
    control = CONTROL.replace("PREPARE", PREPARE[way]).replace("PATIENCE", str(int(lib.PATIENCE)))
    done = sandbox.outside(control, timeout=2 * lib.PATIENCE)
    assert done.stdout == "True\n", done.stderr  # the control
    cell(sandbox, name, "FREE = 1" + ARM + PREPARE[way])
    state = end(sandbox, name)
    # It was rolled back with the copy, or it says that the copy was lost.
    assert state in ("rolled_back", "lost")
    writers, others = look(sandbox, name, 1.2)
    assert not writers, others
    assert cell(sandbox, name, "'turns' in globals()")["value"] == str(state == "rolled_back")


@once_more
def let_go_on(sandbox: lib.Sandbox, name: str) -> None:
    cell(sandbox, name, "FREE = 1" + ARM + PREPARE["orphaned_group"])
    assert end(sandbox, name) == "rolled_back"
    cell(sandbox, name, "FREE, prepare = 99, int")  # of later copies
    look(sandbox, name, 1.2)
    assert not look(sandbox, name, 0.3)[0]
    assert end(sandbox, name) == "rolled_back" and not look(sandbox, name)[0]  # with a copy that was made since


def test_a_copy_that_was_let_go_on_is_ended() -> None:
    """In the local tier it cannot be told beforehand that others share its group."""
    box = lib.Sandbox("root", tier="local")
    try:
        let_go_on(box, "s")
    finally:
        box.close()


def undone_while_it_writes(sandbox: lib.Sandbox, name: str) -> tuple[Any, ...]:
    """Roll back while somebody writes; who that was, who writes then, and who else is there."""
    assert sandbox.cli("snapshot", "one", "-s", name).returncode == 0
    assert lib.wait_for(lambda: bool(look(sandbox, name, 0.1)[0]))  # the control
    cell(sandbox, name, "FREE = 99")  # of later copies
    before, _ = look(sandbox, name, 0.1)
    state = end(sandbox, name)
    return (state, before) + look(sandbox, name)


@once_more
def test_a_copy_that_is_woken_to_be_saved_does_not_outlive_a_rollback(sandbox: lib.Sandbox, name: str) -> None:
    """It writes instead of leaving the process that saves."""
    cell(sandbox, name, "FREE = 0" + ARM + "prepare = int")
    state, _, writers, others = undone_while_it_writes(sandbox, name)
    assert state == "rolled_back" and not writers
    # The pristine copy among them; who has been killed may still be going.
    assert others and lib.wait_for(lambda: {state for _, _, state in look(sandbox, name)[1]} == {"T"}), others


def test_what_saves_does_not_outlive_a_rollback(sandbox: lib.Sandbox, name: str) -> None:
    """Pickling runs code, here code that writes and does not end."""
    sandbox.exec(ARM[:ARM.index("def on_signal")] +
                 "class Slow:\n    def __reduce__(self): write_on()\nslow = Slow()", session=name)
    state, before, writers, others = undone_while_it_writes(sandbox, name)
    assert state == "rolled_back"
    assert not before & writers  # it may have been begun anew
    assert lib.wait_for(lambda: not before & {pid for pid, _, _ in look(sandbox, name)[1]}), others
