# SPDX-License-Identifier: Apache-2.0
"""Random lives of sessions against a plain reference: the same Python code run here.

Cells that succeed, fail, are killed or time out; snapshots, forks, rollbacks, hibernation,
checkpoints, clearing; and the death of interpreter, tier and daemon in between. After each
step variables, what they share, functions and files are what the reference says, or what it said at
the cell that the result names. SNP_SEED repeats a life, SNP_MODEL_SECONDS bounds it.
"""

import contextlib
import copy
import io
import json
import os
import random
import re
import secrets
import shutil
import signal
import tempfile
import time
import types
from collections.abc import Callable
from typing import Any

import pytest

import lib

SECONDS = float(os.environ.get("SNP_MODEL_SECONDS", "12"))
LOOK = r"""
def _look():
    import hashlib, json, os
    def short(text):
        return text if len(text) < 50 else text[:20] + hashlib.sha256(text.encode()).hexdigest()
    found = {"names": {}, "same": [], "files": {}}
    lists = {}
    for name, value in sorted(globals().items()):
        if name.startswith("v"):
            found["names"][name] = short(repr(value))
            if isinstance(value, (list, dict)):
                lists[name] = id(value)
        elif name.startswith("f"):
            try:
                found["names"][name] = short(repr(value()))
            except Exception as error:
                found["names"][name] = repr(error)
    names = sorted(lists)
    found["same"] = [[a, b] for a in names for b in names if a < b and lists[a] == lists[b]]
    for folder, folders, files in os.walk("."):
        for name in folders + files:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if os.path.islink(path):
                found["files"][path] = ["link", os.readlink(path)]
            elif os.path.isdir(path):
                found["files"][path] = ["dir", mode & 0o777]
            else:
                with open(path, "rb") as data:
                    found["files"][path] = [short(data.read().decode("latin-1")), mode & 0o777]
    return json.dumps(found, sort_keys=True)
print(_look())
del _look
"""


class Reference:
    """A session as plain Python: a namespace and a folder."""

    def __init__(self) -> None:
        self.names = {"__name__": "__main__", "__builtins__": __builtins__}
        self.folder = tempfile.mkdtemp(prefix="snp-reference-", dir="/tmp")

    def close(self) -> None:
        shutil.rmtree(self.folder)

    def run(self, code: str) -> str:
        """What it prints; an exception ends it as it ends a cell."""
        out = io.StringIO()
        before = os.getcwd()
        os.chdir(self.folder)
        mask = os.umask(0o022)
        try:
            with contextlib.redirect_stdout(out), contextlib.suppress(Exception):
                exec(code, self.names)
        finally:
            os.umask(mask)
            os.chdir(before)
        return out.getvalue()

    def copy(self) -> "Reference":
        other = Reference()
        functions = {name: value for name, value in self.names.items() if isinstance(value, types.FunctionType)}
        plain = {name: value for name, value in self.names.items() if name.startswith("v")}
        other.names.update(copy.deepcopy(plain))  # at once, so that what is shared stays shared
        for name, value in functions.items():
            other.names[name] = types.FunctionType(value.__code__, other.names)
        shutil.rmtree(other.folder)
        shutil.copytree(self.folder, other.folder, symlinks=True)
        return other

    def look(self) -> Any:
        return json.loads(self.run(LOOK))


def different(some: Any, other: Any) -> lib.Json | list[Any]:
    """What of some is not in other."""
    if isinstance(some, dict):
        return {name: value for name, value in some.items() if other.get(name) != value}
    return [one for one in some if one not in other]


class Life:
    """One session and its reference, in lock step."""

    def __init__(self, box: lib.Sandbox, name: str, reference: Reference | None = None) -> None:
        self.box = box
        self.name = name
        self.now = reference or Reference()
        self.at = {0: self.now.copy()}  # cell: the state after it
        self.last = 0
        self.snapshots: dict[str, Any] = {}
        self.recover = "replay"  # what is said when cells are missing
        self.was_shot = False  # the interpreter, from outside
        self.results: list[lib.Json] = []  # for the report, as this:
        self.told: list[str] = []  # what was done, for the report

    def close(self) -> None:
        for reference in [self.now, *self.at.values(), *self.snapshots.values()]:
            reference.close()

    # Calls

    def call(self, method: str, raw: bytes = b"", /, **members: Any) -> tuple[Any, bytes | str, Any]:
        with self.box.client() as rpc:
            kind, head, raw, events = rpc.call(method, raw, **members)
        assert kind == lib.RESPONSE, (method, members, head)
        return head, raw, events

    def exec(self, code: str, **members: Any) -> lib.Json:
        for attempt in range(3):
            with self.box.client() as rpc:
                raw = code.encode()
                kind, head, _, events = rpc.call("exec", raw, session=self.name, kind="python", code_len=len(raw),
                                                 **members)
            if kind == lib.RESPONSE:
                break
            if lib.ways(head):  # it lacks cells, and asks what to do
                members["recover"] = self.recover
                continue
            # A session that died with its tier may say so once.
            assert attempt == 0 and head["code"] in ("peer", "not_found"), head
        else:
            raise AssertionError(head)
        self.results.append({name: head.get(name) for name in
                             ("cell", "epoch", "status", "state", "restarted", "restored", "transaction")})
        head["stdout"] = b"".join(raw for at, raw in events if at["event"] == "stdout").decode()
        if attempt > 0:  # it may count as a cell that nobody was told the end of
            self.last = max(self.last, head["cell"] - 1)
        if head.get("restored"):
            self.restore(head["restored"])
            self.last = max(self.last, head["cell"] - 1)  # those that were run again are cells too
        assert head["cell"] == self.last + 1, (self.name, head["cell"], self.last)
        self.last = head["cell"]
        return head

    def restore(self, restored: Any) -> None:
        """The session came back as it was after an earlier cell, and says which."""
        cell = restored["cell"] or 0
        assert set(restored["missing"]) <= set(range(cell + 1, self.last + 1)), restored
        # A replayed cell that prints otherwise is named; whether the state is right is compared with the reference.
        assert not [row for row in restored["failed"] if not row["name"].startswith("cell ")], restored
        if restored["missing"]:
            self.become(self.at[max(number for number in self.at if number <= cell)])

    def become(self, reference: Reference) -> None:
        old, self.now = self.now, reference.copy()
        old.close()

    def keep(self) -> None:
        """The state after the last cell, to be found again."""
        if self.last in self.at:
            self.at[self.last].close()
        self.at[self.last] = self.now.copy()

    def look(self) -> None:
        done = self.exec(LOOK)
        if self.was_shot and done["state"] != "kept":
            done = self.exec(LOOK)  # its death was noticed only with that cell, which says so
        self.was_shot = False
        assert done["status"] == "ok", done
        found, expected = json.loads(done["stdout"]), self.now.look()
        assert found == expected, "\n".join(
            [self.name, str([(one["cell"], one["state"], one["restored"]) for one in self.results]), *self.told] +
            [f"{part}: found {different(found[part], expected[part])}, "
             f"expected {different(expected[part], found[part])}"
             for part in found if found[part] != expected[part]])
        self.keep()

    # Steps

    def cell(self, code: str, ending: str = "") -> None:
        """Code that ends well, or with an exception: what it did stays."""
        done = self.exec(code + ending)
        assert done["state"] == "kept", done
        self.now.run(code)
        self.keep()

    def killed(self, code: str, ending: str, **members: Any) -> None:
        """Code that is killed at its end: nothing of it stays."""
        done = self.exec(code + ending, **members)
        assert done["status"] in ("killed", "timeout", "oom"), done
        assert done["state"] == "rolled_back", done
        self.keep()

    def atomic(self, code: str) -> None:
        done = self.exec(code + "raise KeyError('atomic')\n", atomic=True)
        assert (done["status"], done["state"]) == ("error", "rolled_back"), done
        self.keep()

    def snapshot(self) -> str:
        name = f"p{len(self.told)}"
        self.call("snapshot", session=self.name, name=name, wait=True)
        self.snapshots[name] = self.now.copy()
        return name

    def rollback(self, name: str) -> None:
        self.told.append(f"to {name}")
        self.call("rollback", session=self.name, snapshot=f"{self.name}@{name}")
        self.become(self.snapshots[name])
        self.keep()

    def clear(self) -> None:
        self.call("sessions.clear", session=self.name)
        self.become(Reference())
        for reference in [*self.at.values(), *self.snapshots.values()]:
            reference.close()
        self.at, self.snapshots, self.last = {0: self.now.copy()}, {}, 0

    def fork(self, name: str, of: str | None = None) -> "Life":
        origin = self.name if of is None else f"{self.name}@{of}"
        name = self.call("fork", **{"from": origin}, n=1, name=name)[0]["sessions"][0]["name"]
        self.told.append(f"fork {name} of {of}")
        other = Life(self.box, name, (self.now if of is None else self.snapshots[of]).copy())
        done = self.call("sessions.show", session=name)[0]
        other.last = done.get("cells", 0)
        other.at = {other.last: other.now.copy()}
        return other


class Chance:
    """What happens next, and the code of cells."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def variable(self) -> str:
        return f"v{self.random.randint(0, 7)}"

    def value(self) -> str:
        return self.random.choice([
            repr(self.random.randint(-9, 999)), repr(secrets_of(self.random)), "[1, [2, 3]]", "{'k': [1]}",
            "list(range(1000))", "'x' * 100000", "None", "(1, 2)", "1.5", "b'bytes'", "{1, 2}"])

    def statement(self) -> str:
        v, w, name = self.variable(), self.variable(), f"n{self.random.randint(0, 5)}"
        return self.random.choice([
            f"{v} = {self.value()}",
            f"{v} = [{self.value()}]",
            f"{v} = globals().get('{w}')",  # shared from now on, if it is a list
            f"{v} = globals().get('{v}'); {v} = {v} if isinstance({v}, list) else []; {v}.append({self.value()})",
            f"globals().pop('{v}', None)",
            f"def f{self.random.randint(0, 3)}(): return ({v}, {self.random.randint(0, 99)})",
            f"open('{name}', 'w').write({secrets_of(self.random)!r} * {self.random.choice([1, 10, 9000])})",
            f"open('{name}', 'a').write('more')",
            f"import os; os.path.lexists('{name}') and os.unlink('{name}')",
            f"import os; os.path.lexists('{name}') and os.rename('{name}', 'm{self.random.randint(0, 3)}')",
            f"import os; os.makedirs('d{self.random.randint(0, 2)}/{name}', exist_ok=True)",
            f"import os; os.path.lexists('l{name}') or os.symlink('{name}', 'l{name}')",
            f"import os; os.path.isfile('{name}') and "
            f"os.chmod('{name}', 0o{self.random.choice(['600', '644', '755'])})",
        ])

    def code(self) -> str:
        return "".join(f"{self.statement()}\n" for _ in range(self.random.randint(1, 6)))


def secrets_of(chance: random.Random) -> str:
    return "".join(chance.choices("abcdefghij", k=8))


ENDINGS = ["import os; os.kill(os.getpid(), 9)\n", "import ctypes; ctypes.string_at(8)\n"]
TIMEOUT = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(600)\n"


class World:
    """All lives of one daemon, and what may happen to them."""

    def __init__(self, box: lib.Sandbox, seed: int) -> None:
        self.box = box
        self.chance = Chance(seed)
        self.lives = [Life(box, "life")]
        self.made = 0
        self.steps = 0

    def close(self) -> None:
        for life in self.lives:
            life.close()

    def step(self) -> None:
        self.steps += 1
        life = self.chance.random.choice(self.lives)
        kinds = [(self.cell, 30), (self.error, 10), (self.killed, 6), (self.timeout, 1), (self.atomic, 4),
                 (self.snapshot, 6), (self.rollback, 6), (self.fork, 4), (self.hibernate, 4), (self.checkpoint, 4),
                 (self.clear, 1), (self.kill_interpreter, 4), (self.kill_tier, 2), (self.kill_daemon, 2)]
        what = self.chance.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        life.told.append(f"{life.last}: {what.__name__}")
        what(life)
        for one in self.lives:  # after a replay nothing is missing, because these cells do the same again
            one.recover = self.chance.random.choice(["replay", "checkpoint"])
        for one in self.lives if what in (self.kill_tier, self.kill_daemon) else [life]:
            one.look()

    def cell(self, life: Life) -> None:
        life.cell(self.chance.code())

    def error(self, life: Life) -> None:
        life.cell(self.chance.code(), "raise ValueError('on purpose')\n")

    def killed(self, life: Life) -> None:
        life.killed(self.chance.code(), self.chance.random.choice(ENDINGS))

    def timeout(self, life: Life) -> None:
        life.killed(self.chance.code(), TIMEOUT, limits={"timeout_ms": int(1000 * lib.PATIENCE / 30)})

    def atomic(self, life: Life) -> None:
        life.atomic(self.chance.code())

    def snapshot(self, life: Life) -> None:
        if life.last > 0 and len(life.snapshots) < 4:
            life.snapshot()

    def rollback(self, life: Life) -> None:
        if life.snapshots:
            life.rollback(self.chance.random.choice(sorted(life.snapshots)))

    def fork(self, life: Life) -> None:
        self.made += 1
        of = self.chance.random.choice([None, *sorted(life.snapshots)])
        if life.last == 0:
            return
        other = life.fork(f"fork{self.made}", of)
        other.look()
        if len(self.lives) >= 3:
            gone = self.chance.random.choice([one for one in self.lives if one is not life])
            self.lives.remove(gone)
            gone.call("sessions.destroy", session=gone.name)
            gone.close()
        self.lives.append(other)

    def hibernate(self, life: Life) -> None:
        if life.last > 0:
            life.call("hibernate", session=life.name)

    def checkpoint(self, life: Life) -> None:
        if life.last > 0:
            life.call("checkpoint", session=life.name)

    def clear(self, life: Life) -> None:
        if life.last > 0:
            life.clear()

    def kill_interpreter(self, life: Life) -> None:
        """From outside, between two cells; not the copies that sleep beside it."""
        done = life.exec("import os; print(os.getpid(), os.readlink('/proc/self/ns/pid'))")
        life.keep()
        inner, space = done["stdout"].split()
        for pid in lib.descendants(lib.some(self.box.tier_pid())):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/status") as status:
                    numbers = re.search(r"^NSpid:\s+(.*)$", status.read(), re.MULTILINE)
                if numbers and numbers.group(1).split()[-1] == inner and os.readlink(f"/proc/{pid}/ns/pid") == space:
                    os.kill(pid, signal.SIGKILL)
                    life.was_shot = True

    def kill_tier(self, _: Life) -> None:
        tier = self.box.tier_pid() or 0  # none after it was killed
        if tier:
            os.kill(tier, signal.SIGKILL)
            assert lib.wait_for(lambda: not lib.is_alive(tier))

    def kill_daemon(self, _: Life) -> None:
        self.box.start()  # no step before this one may have started it
        lib.some(self.box.daemon).kill()
        lib.some(self.box.daemon).wait()
        self.box.start()


def test_random_lives_follow_the_reference(fresh_sandbox: Callable[..., lib.Sandbox],
                                           capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("SNP_SEED", secrets.randbits(32)))
    box = fresh_sandbox("root" if os.geteuid() == 0 else "user")
    world = World(box, seed)
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            world.step()
    except AssertionError as error:
        story = {life.name: (life.told[-12:], life.results[-4:]) for life in world.lives}
        pytest.fail(f"SNP_SEED={seed}, step {world.steps}, {story}: {error}")
    finally:
        world.close()
    with capsys.disabled():
        print(f"\nstate model: {world.steps} steps, {len(world.lives)} lives (seed {seed})")
