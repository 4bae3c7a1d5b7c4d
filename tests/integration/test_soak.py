# SPDX-License-Identifier: Apache-2.0
"""Many cells in one session, many clients at once: nothing grows, nobody is forgotten.

SNP_SOAK_CELLS: how many cells (10,000 for the figures of docs/reliability.md).
"""

import concurrent.futures
import json
import os
import pytest
import threading
import time
from collections.abc import Callable

import lib

CELLS = int(os.environ.get("SNP_SOAK_CELLS", "800"))
CLIENTS = 200
CACHE_KIB = 8192  # of the journal, src/base/db/db.c
INSIDE = """
import json, os, re
lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({"interpreter KiB": int(lines["RssAnon"].split()[0]),
                  "interpreter descriptors": len(os.listdir("/proc/self/fd"))}))
"""


def holdings(box: lib.Sandbox) -> dict[str, int]:
    """Of daemon and tier: descriptors and memory; how many processes are below them."""
    found = {}
    for name, pid in (("daemon", lib.some(box.daemon).pid), ("tier", box.tier_pid())):
        with open(f"/proc/{pid}/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        found[f"{name} KiB"] = int(lines["RssAnon"].split()[0])
        found[f"{name} descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
    found["processes"] = len(lib.descendants(lib.some(box.daemon).pid))
    found.update(json.loads(box.exec(INSIDE, session="long")["stdout"]))
    return found


def settled(box: lib.Sandbox) -> dict[str, int]:
    """What they hold when nothing is under way any more."""
    last: dict[str, int] = {}
    for _ in range(int(10 * lib.PATIENCE)):
        now = holdings(box)
        if last and all(now[name] == last[name] for name in now if "KiB" not in name):
            return now
        last = now
        time.sleep(0.1)
    return last


def run_cells(rpc: lib.Client, count: int, session: str) -> None:
    for i in range(count):
        code = f"x = {i}\nwith open('file', 'w') as out:\n    out.write(str(x))\nx".encode()
        kind, head, _, _ = rpc.call("exec", code, session=session, kind="python", code_len=len(code))
        assert kind == lib.RESPONSE, head
        assert head["value"] == str(i) and head["state"] == "kept", head


def test_cells_of_one_session_leave_nothing_behind(fresh_sandbox: Callable[..., lib.Sandbox],
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    box = fresh_sandbox("root" if os.geteuid() == 0 else "user")
    warm = max(100, CELLS // 4)
    with box.client() as rpc:
        run_cells(rpc, warm, "long")
        before = settled(box)
        start = time.monotonic()
        run_cells(rpc, CELLS - warm, "long")
        seconds = time.monotonic() - start
        after = settled(box)
    with capsys.disabled():
        print(f"\nsoak: {CELLS} cells, {1000 * seconds / (CELLS - warm):.1f} ms each; after {warm}: {before}; "
              f"at the end: {after}")
    for name in before:
        # what an allocator, the journal's page cache and a spare sandbox may still take, not something for each cell
        room = 8 if "KiB" not in name else 1024 if name != "daemon KiB" else 1024 + CACHE_KIB
        assert after[name] <= before[name] + room, (name, before, after)


def test_two_hundred_clients_at_once(fresh_sandbox: Callable[..., lib.Sandbox],
                                     capsys: pytest.CaptureFixture[str]) -> None:
    """Each is answered; who is told that there is no room yet asks again."""
    box = fresh_sandbox("root" if os.geteuid() == 0 else "user")
    box.exec("1")
    together = threading.Barrier(CLIENTS)
    turned_away = []

    def client(i: int) -> str | None:
        code = f"{i} * 2".encode()
        with box.client() as rpc:
            together.wait(lib.PATIENCE)
            end = time.monotonic() + 4 * lib.PATIENCE
            while time.monotonic() < end:
                kind, head, _, _ = rpc.call("exec", code, kind="python", code_len=len(code))
                if kind == lib.RESPONSE:
                    return str(head["value"])
                assert head["code"] in ("limit", "busy"), head
                turned_away.append(i)
                time.sleep(0.05)
        return None

    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        values = list(pool.map(client, range(CLIENTS)))
    assert values == [str(2 * i) for i in range(CLIENTS)]
    with capsys.disabled():
        print(f"\n{CLIENTS} clients at once: all answered in {time.monotonic() - start:.1f} s, "
              f"{len(turned_away)} times told to wait")
