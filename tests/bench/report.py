# SPDX-License-Identifier: Apache-2.0
"""Figures as a document: with targets, and why a target was missed."""

import re
from collections.abc import Callable, Sequence

from runtime import Row

Rows = dict[str, Row]
HEAD = """# Benchmarks

`make bench` writes this page; `tools/bench --only GROUP` replaces one group. All samples are in `build/bench/`, one
JSON object per line. The value of a time is its median. A run is named by its commit; the last table has its machine,
and the load before and after it. The share of the processors that other programs used just before a group is in
brackets: the higher it is, the less the times of the group mean.

## Figures

| figure | value | p95 | p99 | samples | target | run |
|---|---:|---:|---:|---:|---|---|"""

TITLES = {
    "floor": ("The floor", "A message of 300 bytes passes a chain of processes that only forward it. The kernel and "
              "the processors need this time before any work is done. With several processors each step may wake a "
              "sleeping one."),
    "fresh": ("New sessions", "From the request to the first result, with all controls: namespaces, control groups, "
              "Landlock, seccomp. The main figure has an empty pool: every session is forked on demand and ended "
              "before the next. `bwrap` has the same namespaces and a similar root, but no control groups, no Landlock "
              "and no filter; it starts an interpreter each time. All were measured in turns. In this and the "
              "following groups cells are plain (no standby) and wait for no disk; Storage of a cell has the cost of "
              "both. All sessions stay awake and are not saved while idle."),
    "refill": ("The pool", "Sessions are opened back to back, so the pool is filled while they run."),
    "cell": ("Cells", "From the request of a client in C to the whole result, in a named session without a standby. "
             "The outcome is handed to the kernel; nothing waits for a disk."),
    "clients": ("Programs in C, Python and TypeScript", "Cells of the libraries with their defaults, transactional and "
                "synced, 5 ms after the previous one; programs in turns. At once: each session runs its cells back to "
                "back, in C from separate processes, in Python from one event loop for all."),
    "process": ("Whole commands", "From the start of the command to its end, in turns."),
    "rate": ("Sessions per second", "Each client asks for a session, runs one cell and ends it, back to back; a "
             "session has ended once all its processes, files and control groups are gone."),
    "burst": ("Bursts", "A hundred clients are connected and wait; then all ask at once."),
    "speed": ("Speed inside", "The same interpreter and the same code inside and outside, in turns; medians."),
    "cold": ("Cold start", "No daemon runs; the first command starts daemon, tier and template."),
    "journal": ("Storage of a cell", "The same cell with and without a standby of the interpreter (transactional, "
                "plain), and with its outcome on disk (synced) or handed to the kernel (process) before the answer. "
                "Transactional and synced are the defaults. The standby is made after the answer. A cell that comes at "
                "once waits for the standby; the difference between the two lines of each kind is the cost of waiting. "
                "5 ms after: the standby exists. 20 ms after: the processors sleep as well, so each process on the way "
                "wakes one, with cold caches. At once: the outcomes of several sessions share commits."),
    "snapshots": ("Snapshots in memory", "Template data, one array of random numbers of that size. A rollback is "
                  "requested once the snapshot is on disk too; earlier it would wait. A fork is a separate session "
                  "with separate namespaces, control groups and ids, and a copy of the contents. The last rows show "
                  "the same by hand, without isolation."),
    "images": ("Images of sessions", "Template data, one array of random numbers of that size, and a generator, which "
               "variables cannot hold. Results include the first cell."),
    "checkpoints": ("Checkpoints on disk", "Template data, one array of 30 MiB of random numbers, which do not "
                    "compress; hashed and synced. The last rows: pickle and fsync by hand, and CRIU where it works."),
    "pressure": ("Under pressure", "Cells of one session, plain, 5 ms after the previous one, beside sessions that do "
                 "their worst. Ends: whole commands, from the moment at which the cell had to end. The tests of these "
                 "wait for the event, however long it takes."),
    "containers": ("Tiers and containers", "Containers run on a separate dockerd; cells have the defaults of users, "
                   "transactional and synced. `docker exec` and `docker run` of the same image run in turns "
                   "with them, in the same minute. A session's memory is the proportional share (Pss) of all its "
                   "processes, with what the engine starts for its container."),
    "retrieval": ("What a question finds", "The question is the first sentence of a function's documentation without "
                  "the function's own name; the answer is the function. The indexed copy has no such documentation. "
                  "Settings were chosen with half of the questions; the figures are for the other half."),
    "context": ("The index of a project", "Python's standard library with its tests, and other programs on that tree. "
                "Questions are asked of an open index."),
    "grounding": ("What check finds", "Working functions of the standard library of Python, of QuixBugs (where "
                  "SNP_TEST_DATA has it) and of npm packages that ship TypeScript, with one invented error each, by a "
                  "fixed seed (tests/bench/plants.py). Places are chosen by how code looks: attributes of imported "
                  "modules and of `self` or `this`, and calls of functions that the module defines or imports by a "
                  "relative path. `check` was developed with one half of them; the other was kept aside. False alarms: "
                  "errors in the same files without anything planted."),
    "live": ("Many live sessions", "Sessions of template base that have run one trivial cell and stay."),
}

FORK = ("creating the processes of a session takes the kernel that long: copying the warm interpreter's page tables "
        "and the pages written first, namespaces, control groups and mounts")

BINDING = "the interpreter makes the request and reads the answer, with cold caches after the pause"

WORDS_LITTLE = "the encoder knows English sentences, not code; names and parameters tell it little"

FORK_BY_SIZE = "the kernel copies page tables, which grow with the size, and one more commit is synced"


def floor_reason(rows: Rows) -> str:
    three = rows.get("floor.3")
    pinned = rows.get("floor.3.pinned")
    if three is None or pinned is None:
        return "a request passes client, daemon, supervisor and interpreter; The floor has the least that this takes"
    return (f"passing three sockets without any work takes {three['value']:.2f} ms here ({pinned['value']:.2f} on one "
            "processor); reading and checking JSON at each process, the kernel's counters and the interpreter add to "
            "it")


def idle_reason(rows: Rows) -> str:
    plain = rows["journal.plain.synced.idle"]["value"]
    return ("sleeping processors have to wake in each process on the way, and the commit adds to it; without a "
            f"standby the same takes {plain:.2f} ms")


def sync_target(rows: Rows) -> float:
    value: float = rows["journal.sync"]["value"]
    return 0.5 + value


# (row, member, better than, target, why it is missed: text or function of all rows)
TARGETS: list[tuple[str, str, str, float | Callable[[Rows], float], str | Callable[[Rows], str]]] = [
    ("fresh.demand.data", "value", "<=", 3.5, FORK),
    ("fresh.demand.data", "p99", "<=", 8, FORK),
    ("fresh.demand.base", "value", "<=", 2, FORK),
    ("fresh.pool.data", "value", "<=", 0.5, "the session's limits and project are applied only when they are known"),
    ("fresh.pool.base", "value", "<=", 0.5, "the session's limits and project are applied only when they are known"),
    ("fresh.ratio.base", "value", ">=", 4, FORK),
    ("fresh.ratio.data", "value", ">=", 75, FORK),
    ("cell.base.pass", "value", "<=", 0.15, floor_reason),
    ("cell.base.pass", "p99", "<=", 1, "other programs used the machine"),
    ("clients.more.python", "value", "<=", 0.3, BINDING),
    ("clients.more.asyncio", "value", "<=", 0.3, BINDING),
    ("clients.more.typescript", "value", "<=", 0.5, BINDING),
    ("clients.import", "value", "<=", 30, "the interpreter reads that many modules"),
    ("clients.together.share", "value", ">=", 90, "one process makes all requests and reads all answers"),
    ("process.new", "value", "<=", 8, "the command makes a new session"),
    ("rate.base.2", "value", ">=", 350, FORK),
    ("burst.base", "value", "<=", 100, FORK),
    ("burst.base", "p95", "<=", 300, FORK),
    ("live.memory", "value", "<=", 2, "a running interpreter changes reference counters in its pages, and has "
     "page tables, as its standby has"),
    ("live.flat", "value", "<=", 1.25, "the kernel's lists of processes that share the interpreter's pages grow"),
    ("live.most", "value", ">=", 5000, lambda rows: str(rows["live.most"]["note"])),
    ("journal.transactional.synced.idle", "value", "<=", sync_target, idle_reason),
    ("journal.transactional.synced.soon", "value", "<=", sync_target, floor_reason),
    ("journal.plain.process", "value", "<=", 0.2, floor_reason),
    ("journal.together.32", "value", ">=", 1000,
     "32 clients, their sessions and the daemon need more than the processors"),
    ("snapshots.100", "value", "<=", 5, FORK_BY_SIZE),
    ("rollback.100", "value", "<=", 5, "the old interpreter ends, files are restored and the copy is forked, one after "
     "the other"),
    ("fork.100", "value", "<=", 5, "the contents are copied; a clone without a copy would need a process that moves "
     "into new namespaces"),
    ("checkpoint.first", "value", "<=", 50,
     "30 MiB pass a pipe and are hashed, written and synced; see the same by hand"),
    ("checkpoint.again", "value", "<=", 10, "a fork writes it, compares 30 MiB with the last checkpoint, and commits"),
    ("checkpoint.wake", "value", "<=", 30, "a new sandbox is made, and 30 MiB pass a pipe"),
    ("containers.cell.runc", "value", "<=", 2, "waking the processes on the way, and the commit; see native's"),
    ("containers.start.runc", "value", "<=", 10, "settings that the pool could not know are applied to its container"),
    ("containers.ratio.exec.runc", "value", ">=", 25, "see the cell's own time"),
    ("containers.ratio.run.runc", "value", ">=", 75, "see the cell's own time"),
    ("retrieval.python.gain", "value", ">=", 10, WORDS_LITTLE),
    ("retrieval.python.gain_recall", "value", ">=", 10, WORDS_LITTLE),
    ("retrieval.own.gain", "value", ">=", 10, WORDS_LITTLE),
    ("retrieval.own.gain_recall", "value", ">=", 10, WORDS_LITTLE),
    ("retrieval.python.exact", "value", ">=", 100, "another definition came first"),
    ("retrieval.own.exact", "value", ">=", 100, "another definition came first"),
    ("context.first", "value", "<=", 20, "other programs used the machine"),
    ("context.again", "value", "<=", 0.3, "other programs used the machine"),
    ("context.query.plain", "value", "<=", 15, "questions of common words match most of the index"),
    ("context.query.hybrid", "value", "<=", 40, "questions of common words match most of the index"),
    *((f"grounding.{language}.kept", "value", ">=", 95, "what such code means cannot be known without running it")
      for language in ("Python", "TypeScript")),
    *((f"grounding.{language}.alarms", "value", "<=", 1, "see the samples") for language in ("Python", "TypeScript")),
    ("speed.cpu", "value", ">=", 98, "other programs used the machine; the row has processor times"),
    ("speed.stat", "value", ">=", 85, "the filter and Landlock look at each call"),
    ("speed.files", "value", ">=", 85, "the filter and Landlock look at each call"),
]


def is_reached(value: float, better: str, target: float) -> bool:
    return value <= target if better == "<=" else value >= target


def judge(rows: Rows) -> list[Row]:
    """One verdict per target whose row was measured."""
    found = []
    for key, member, better, target, why in TARGETS:
        row = rows.get(key)
        if row is None or member not in row:
            continue
        limit = target(rows) if callable(target) else target
        reached = is_reached(row[member], better, limit)
        reason = "" if reached else why(rows) if callable(why) else why
        found.append({"key": key, "text": row["text"], "unit": row["unit"], "value": row[member],
                      "member": "p50" if member == "value" and "p99" in row else member,
                      "better": better, "target": limit,
                      "reached": reached, "why": reason})
    return found


def number(value: float, unit: str = "") -> str:
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    text = f"{value:.{digits}f}"
    return f"{text} {unit}".strip()


def goal(item: Row) -> str:
    member = "" if item["member"] in ("value", "p50") else item["member"] + " "
    sign = "≤" if item["better"] == "<=" else "≥"
    return f"{member}{sign} {number(item['target'])}"


def line(row: Row, found: Sequence[Row], run: str) -> str:
    """A row of the table."""
    text = row["text"] + (f" ({row['note']})" if row.get("note") else "")
    value = "–" if row["value"] is None else number(row["value"], row["unit"])
    ends = [number(row[part]) if part in row else "" for part in ("p95", "p99")]
    goals = "; ".join(goal(item) + ("" if item["reached"] else ", missed")
                      for item in found if item["key"] == row["key"])
    return "| " + " | ".join((text, value, *ends, str(row["n"]), goals, run)) + " |"


class Page:
    """docs/benchmarks.md: by title the lines of a group and how it was measured, by commit where it was measured."""

    def __init__(self, text: str = "") -> None:
        self.tables: dict[str, list[str]] = {}
        self.notes: dict[str, str] = {}
        self.runs: dict[str, str] = {}
        table: list[str] = []
        for one in text.splitlines():
            head = re.match(r"(?:\| |- )\*\*(.+?)\*\*", one)
            run = re.match(r"\| ([0-9a-f]{10}[^|]*) \| ", one)
            if head and one.startswith("-"):
                self.notes[head[1]] = one
            elif head:
                table = self.tables.setdefault(head[1], [])
                table.append(one)
            elif run:
                self.runs[run[1]] = one
            elif one.startswith("#"):
                table = []
            elif one.startswith("| "):
                table.append(one)

    def add(self, rows: Sequence[Row], found: Sequence[Row], run: str) -> None:
        """The rows of one group, in place of older ones."""
        title, note = TITLES[rows[0]["group"]]
        keys = {row["key"] for row in rows}
        missed = list(dict.fromkeys(item["why"] for item in found if item["key"] in keys and not item["reached"]))
        self.tables[title] = [f"| **{title}** (others used {100 * rows[0]['busy_before']:.0f} %) |" + 6 * " |",
                              *(line(row, found, run) for row in rows)]
        self.notes[title] = f"- **{title}**: {note}" + "".join(f" Missed: {why}." for why in missed)

    def __str__(self) -> str:
        titles = [title for title, _ in TITLES.values() if title in self.tables]
        rows = [row for title in titles for row in self.tables[title]]
        runs = [text for run, text in self.runs.items() if any(row.endswith(f"| {run} |") for row in rows)]
        return "\n".join([HEAD, *rows, "", "## How they are measured", "", *(self.notes[title] for title in titles), "",
                          "## Runs", "", "| run | when | machine | load |", "|---|---|---|---|", *runs]) + "\n"


def page(machine: Row, rows: Rows, order: Sequence[str], is_quick: bool, old: str = "") -> str:
    """The page with what was measured; other groups are those of the old page."""
    made, found = Page(old), judge(rows)
    for group in dict.fromkeys(rows[key]["group"] for key in order):
        made.add([rows[key] for key in order if rows[key]["group"] == group], found, machine["commit"])
    made.runs[machine["commit"]] = (
        f"| {machine['commit']} | {machine['date']} | {machine['cpus']} processors ({machine['cpu']}), "
        f"{machine['memory_gib']} GiB, {machine['system']}, kernel {machine['kernel']}, Python {machine['python']}, "
        f"as {machine['user']}"
        f"{'; quick, few samples' if is_quick else ''} | {machine['load']:.2f}, {machine['load_after']:.2f} |")
    return str(made)
