# SPDX-License-Identifier: Apache-2.0
"""client.py KIND SESSION CLIENTS RUNS GAP_US CODE: cells of a program in Python, with the package.

KIND sync is one client that waits, async are any number in one event loop. Prints what `snp-bench library` prints.
"""

import asyncio
import json
import sys
import time

from snipara_sandbox import AsyncSandbox, Sandbox

KIND, SESSION, CODE = sys.argv[1], sys.argv[2], sys.argv[6]
CLIENTS, RUNS, GAP_US = (int(word) for word in sys.argv[3:6])


def program(samples: list[float]) -> float:
    s = Sandbox(SESSION + "-0")
    s.run(CODE).raise_for_error()
    begin = time.perf_counter()
    for _ in range(RUNS):
        time.sleep(GAP_US / 1e6)
        start = time.perf_counter()
        result = s.run(CODE)
        samples.append(time.perf_counter() - start)
        result.raise_for_error()
    return time.perf_counter() - begin


async def client(s: AsyncSandbox, samples: list[float]) -> None:
    for _ in range(RUNS):
        if GAP_US > 0:
            await asyncio.sleep(GAP_US / 1e6)
        start = time.perf_counter()
        result = await s.run(CODE)
        samples.append(time.perf_counter() - start)
        result.raise_for_error()


async def loop(samples: list[float]) -> float:
    sessions = [AsyncSandbox(f"{SESSION}-{i}") for i in range(CLIENTS)]
    for result in await asyncio.gather(*(s.run(CODE) for s in sessions)):
        result.raise_for_error()
    begin = time.perf_counter()
    await asyncio.gather(*(client(s, samples) for s in sessions))
    return time.perf_counter() - begin


def main() -> None:
    samples: list[float] = []
    seconds = program(samples) if KIND == "sync" else asyncio.run(loop(samples))
    for sample in samples:
        print(json.dumps({"us": sample * 1e6}))
    print(json.dumps({"total_us": seconds * 1e6}))


main()
