# SPDX-License-Identifier: Apache-2.0
"""What sessions leave on disk, read by who has the disk: with a store key nothing of them, without one all."""

import json
import os
import secrets
import subprocess
from collections.abc import Callable

import pytest

from lib import PATIENCE, Sandbox

KINDS = ("code", "output", "variable", "generator", "file", "name", "environment")
# Among noise that does not shrink, so that contents lie on the disk as they are. `mark` is never in the code as it is.
CELL = """
# {code}
import os
def mark(kind):
    return bytes.fromhex({marks!r}[kind])[::-1]
def noise(kind):
    return os.urandom(300_000) + mark(kind) + os.urandom(300_000)
held = noise("variable")
def talk():
    own = noise("generator")
    yield 1
    yield own[300_000:-300_000]
talking = talk(); next(talking)
open(mark("name").hex(), "wb").write(noise("file"))
print(mark("output").hex())
"""
LOOK = """
[held[300_000:-300_000].hex(), next(talking).hex(), os.environ["SECRET"]] + [
    name + open(name, "rb").read()[300_000:-300_000].hex() for name in os.listdir()]
"""


def found(box: Sandbox, marks: dict[str, bytes]) -> set[str]:
    """Kinds of which a mark is in any file or name of the state folder, as bytes or as hex."""
    seen = set()
    for folder, _, names in os.walk(box.state):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                content = name.encode() + file.read()
            seen |= {kind for kind, mark in marks.items() if mark in content or mark.hex().encode() in content}
    return seen


def command(box: Sandbox, *args: str, **env: str) -> str:
    """As a user types it: the command starts the daemon."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [os.path.join(box.bin, "snipara-sandbox"), *args], env={**box.env, **env}, cwd=box.home, capture_output=True,
        text=True, timeout=2 * PATIENCE, **box.identity())
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("has_key", (True, False), ids=("key", "control"))
def test_a_disk_shows_sessions_only_without_a_store_key(
        fresh_sandbox: Callable[..., Sandbox], has_key: bool) -> None:
    box = fresh_sandbox("user")
    marks = {kind: secrets.token_bytes(24) for kind in KINDS}
    key = box.make_file("key", secrets.token_bytes(32), 0o600)
    given = {"SNIPARA_SANDBOX_STORE_KEY": key} if has_key else {}
    code = CELL.format(code=marks["code"].hex(), marks={kind: mark[::-1].hex() for kind, mark in marks.items()
                                                        if kind not in ("code", "environment")})
    try:
        command(box, "exec", "--session", "work", "--set-env", "SECRET=" + marks["environment"].hex(), code, **given)
    finally:
        command(box, "daemon", "stop")
    assert found(box, marks) == (set() if has_key else set(KINDS))
    # The next daemon is told of no key.
    value = box.exec(LOOK, "work")["value"]
    assert all(marks[kind].hex() in value for kind in ("variable", "generator", "name", "file", "environment"))
    report = json.loads(box.cli("doctor", "--json").stdout)["checks"]
    (row,) = [row for row in report if row["name"] == "store key"]
    assert (row["sealed"], row["unsealed"]) == (has_key, 0)
    with open(key, "rb") as file:
        content = file.read()
    assert content.hex() not in json.dumps(report) + box.log()
    box.stop()
    assert found(box, marks) == (set() if has_key else set(KINDS))
    os.rename(key, key + ".away")
    done = box.cli("exec", "--session", "work", "held[:1]")
    assert (done.returncode == 0) == (not has_key)
    if has_key:
        assert "no store key; restore its file" in done.stderr and str(key) in done.stderr
        assert box.cli("exec", "print(1)").stdout == "1\n"
    box.stop()
    assert found(box, marks) == (set() if has_key else set(KINDS))
