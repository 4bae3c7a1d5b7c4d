# SPDX-License-Identifier: Apache-2.0
"""Figures as a document: beside each that has one its target, and why it was not reached."""

TITLES = {
    "floor": ("The floor", "A message of 300 bytes through a chain of processes that only pass it on: what the "
              "kernel and the processors take before anything is done. On several processors each step "
              "may wake one that sleeps."),
    "fresh": ("New sessions", "From the request until the first result is there, all controls on: namespaces, control "
              "groups, Landlock, seccomp. The headline is the pool kept empty: every session is forked on demand, one "
              "after the other, each ended before the next. `bwrap` has the same namespaces and a similar root, but no "
              "control groups, no Landlock and no filter; it starts an interpreter each time. Measured in turns. In this "
              "and the groups that follow cells are plain (no standby) and no disk is waited for; what these cost "
              "is in group journal. All sessions stay awake, and are not saved while idle."),
    "refill": ("The pool", "Sessions asked for as fast as they come, so that the pool is filled while they run."),
    "cell": ("Cells", "From the request of a client in C to the whole result, in a named session without a standby, "
             "its outcome handed to the kernel but no disk waited for."),
    "process": ("Whole commands", "From starting the command to its end, in turns."),
    "rate": ("Sessions per second", "Each client asks for a session, runs one cell and ends it, back to back; a session "
             "counts when nothing of it is left."),
    "burst": ("Bursts", "A hundred clients are connected and wait; then all ask at once."),
    "speed": ("Speed inside", "The same interpreter and the same code inside and outside, in turns; medians."),
    "cold": ("Cold start", "No daemon runs; the first command starts daemon, tier and template."),
    "journal": ("What is kept of a cell", "The same cell with and without a standby of the interpreter (transactional, "
                "plain), and with its outcome on disk (synced) or handed to the kernel (process) before the answer. "
                "Transactional and synced are the defaults. The standby is made after the answer; a cell that comes "
                "at once waits for it, so that it, too, is covered: what that costs is the difference between the two "
                "lines of each kind. 5 ms after: it is there. 20 ms after: the processors have gone to sleep, too, and "
                "each stop on the way wakes one, with cold caches. At once: sessions whose outcomes share commits."),
    "snapshots": ("Snapshots in memory", "Template data, one array of random numbers of that size. A rollback is asked "
                  "for when the snapshot is on disk, too; before that it waits. A fork is a session of its own, in "
                  "namespaces, control groups and ids of its own, and its contents a copy. Below: what a program can do "
                  "by hand, without isolation."),
    "checkpoints": ("Checkpoints on disk", "Template data, one array of random numbers of 30 MiB, which do not shrink; "
                    "hashed and synced. Below: pickle and fsync by hand, and CRIU where it works."),
    "live": ("Many live sessions", "Sessions that have run one trivial cell and stay, all of template base."),
}

FORK = ("what the kernel takes for the processes of a session: the copies of the warm interpreter's page tables and of "
        "the pages they write first, namespaces, control groups, mounts")

FORK_BY_SIZE = "the copy of the page tables, which grows with the size, and one more commit that is synced"


def floor_reason(rows):
    three = rows.get("floor.3")
    pinned = rows.get("floor.3.pinned")
    if three is None or pinned is None:
        return "the way through client, daemon, supervisor and interpreter, of which group floor tells the least"
    return (f"the way: three sockets with nothing done take {three['value']:.2f} ms here ({pinned['value']:.2f} on one "
            "processor); to that come JSON read and checked at each stop, the kernel's counters, and the interpreter")


def idle_reason(rows):
    plain = rows["journal.plain.synced.idle"]["value"]
    return ("processors that have slept and are woken at each stop on the way, and the commit; the same without a standby "
            f"takes {plain:.2f} ms")


# (row, member, better than, target, why not when it is missed: text or function of all rows)
TARGETS = [
    ("fresh.demand.data", "value", "<=", 3.5, FORK),
    ("fresh.demand.data", "p99", "<=", 8, FORK),
    ("fresh.demand.base", "value", "<=", 2, FORK),
    ("fresh.pool.data", "value", "<=", 0.5, "what is left to do when the session's limits and project are known"),
    ("fresh.pool.base", "value", "<=", 0.5, "what is left to do when the session's limits and project are known"),
    ("fresh.ratio.base", "value", ">=", 4, FORK),
    ("fresh.ratio.data", "value", ">=", 75, FORK),
    ("cell.base.pass", "value", "<=", 0.15, floor_reason),
    ("cell.base.pass", "p99", "<=", 1, "other work on the machine"),
    ("process.new", "value", "<=", 8, "the new session inside it"),
    ("rate.base.2", "value", ">=", 350, FORK),
    ("burst.base", "value", "<=", 100, FORK),
    ("burst.base", "p95", "<=", 300, FORK),
    ("live.memory", "value", "<=", 2, "the pages an interpreter writes by running at all (reference counts), its page "
     "tables, and those of the standby"),
    ("live.most", "value", ">=", 5000, lambda rows: rows["live.most"]["note"]),
    ("journal.transactional.synced.idle", "value", "<=", lambda rows: 0.5 + rows["journal.sync"]["value"], idle_reason),
    ("journal.transactional.synced.soon", "value", "<=", lambda rows: 0.5 + rows["journal.sync"]["value"], floor_reason),
    ("journal.plain.process", "value", "<=", 0.2, floor_reason),
    ("journal.together.32", "value", ">=", 1000, "what the processors take for 32 clients, sessions and their daemon"),
    ("snapshots.100", "value", "<=", 5, FORK_BY_SIZE),
    ("rollback.100", "value", "<=", 5, "the end of the old interpreter, files put back and the fork of the copy, one after "
     "the other"),
    ("fork.100", "value", "<=", 5, "the copy of the contents: a clone without one would need a process that is moved into "
     "new namespaces"),
    ("checkpoint.first", "value", "<=", 50, "30 MiB through a pipe, hashed, written and synced; see the same by hand"),
    ("checkpoint.again", "value", "<=", 10, "the fork that writes it, the look whether 30 MiB have changed, and its commits"),
    ("checkpoint.wake", "value", "<=", 30, "a new sandbox, and 30 MiB through a pipe"),
    ("speed.cpu", "value", ">=", 98, "other work on the machine; by processor time see the row"),
    ("speed.stat", "value", ">=", 85, "the filter and Landlock look at each call"),
    ("speed.files", "value", ">=", 85, "the filter and Landlock look at each call"),
]
FLAT_AT_MOST = 1.25  # of a new session's time among few


def is_reached(value, better, target):
    return value <= target if better == "<=" else value >= target


def judge(rows):
    """One verdict per target whose row was measured."""
    found = []
    for key, member, better, target, why in TARGETS:
        row = rows.get(key)
        if row is None or member not in row:
            continue
        if callable(target):
            target = target(rows)
        reached = is_reached(row[member], better, target)
        reason = "" if reached else why(rows) if callable(why) else why
        found.append({"key": key, "text": row["text"], "member": "p50" if member == "value" and "p99" in row else member,
                      "unit": row["unit"], "value": row[member], "better": better, "target": target,
                      "reached": reached, "why": reason})
    counts = sorted(int(key.rpartition(".")[2]) for key in rows if key.startswith("live.next."))
    if len(counts) > 1:
        few, most = (rows[f"live.next.{count}"]["value"] for count in (counts[0], counts[-1]))
        reached = most / few <= FLAT_AT_MOST
        found.append({"key": "live.flat", "text": f"new session among {counts[-1]} live ones over one among {counts[0]}",
                      "member": "value", "unit": "times", "value": most / few, "better": "<=", "target": FLAT_AT_MOST,
                      "reached": reached,
                      "why": "" if reached else "the kernel's lists of who shares the interpreter's pages grow"})
    return found


def number(value, unit=""):
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    text = f"{value:.{digits}f}"
    return f"{text} {unit}".strip()


def verdicts(found):
    lines = ["| figure | measured | target | reached |", "|---|---:|---:|---|"]
    reasons = list(dict.fromkeys(item["why"] for item in found if not item["reached"]))
    for item in found:
        member = "" if item["member"] == "value" else f", {item['member']}"
        sign = "≤" if item["better"] == "<=" else "≥"
        end = "yes" if item["reached"] else f"no ({reasons.index(item['why']) + 1})"
        lines.append(f"| {item['text']}{member} | {number(item['value'], item['unit'])} | "
                     f"{sign} {number(item['target'], item['unit'])} | {end} |")
    lines += [""] + [f"{place}. Not reached because of {why}." for place, why in enumerate(reasons, 1)]
    return "\n".join(lines).rstrip()


def table(rows):
    is_time = any("p95" in row for row in rows)
    if is_time:
        lines = ["| | p50 ms | p95 ms | p99 ms | samples |", "|---|---:|---:|---:|---:|"]
    else:
        lines = ["| | | samples | |", "|---|---:|---:|---|"]
    for row in rows:
        if is_time and "p95" in row:
            lines.append(f"| {row['text']} | {number(row['value'])} | {number(row['p95'])} | {number(row['p99'])} | "
                         f"{row['n']} |")
        elif is_time:
            text = row["text"] + (f" ({row['note']})" if row.get("note") else "")
            value = "–" if row["value"] is None else number(row["value"], row["unit"])
            lines.append(f"| {text} | {value} | | | {row['n']} |")
        else:
            note = row.get("note") or (f"p99 {number(row['p99'], 'ms')}" if "p99" in row else "")
            lines.append(f"| {row['text']} | {number(row['value'], row['unit'])} | {row['n']} | {note} |")
    return "\n".join(lines)


def markdown(machine, rows, order, failures, is_quick):
    kind = "quick run: few samples" if is_quick else "full run"
    parts = [f"""# Benchmarks

Written by `make bench` ({kind}). All samples are in `build/bench/`, one JSON object per line.

{machine['date']}, commit {machine['commit']}. {machine['cpus']} processors ({machine['cpu']}), {machine['memory_gib']} GiB,
{machine['system']}, kernel {machine['kernel']}, Python {machine['python']}, as {machine['user']}. Load when it began
{machine['load']:.2f}, when it ended {machine['load_after']:.2f}. Before each group the processors were watched while we
did nothing; what others used of them then is beside its title. The more that is, the less do its times mean.

## Targets

{verdicts(judge(rows))}"""]
    for group in dict.fromkeys(rows[key]["group"] for key in order):
        mine = [rows[key] for key in order if rows[key]["group"] == group]
        title, text = TITLES[group]
        parts.append(f"## {title} (others used {100 * mine[0]['busy_before']:.0f} %)\n\n{text}\n\n{table(mine)}")
    if failures:
        lines = "\n".join(f"- {name}: {why}" for name, why in failures.items())
        parts.append(f"## Not measured\n\n{lines}")
    return "\n\n".join(parts) + "\n"
