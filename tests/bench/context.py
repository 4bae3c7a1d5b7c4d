# SPDX-License-Identifier: Apache-2.0
"""`context`: what a question finds, and how long an index takes."""

import json
import os
import shutil
import sqlite3
import subprocess
import time
from typing import Any

import corpora
from runtime import PYTHON, ROOT, Context, Failure, percentile, process_tree

PLACES = 10
MODES = {"keyword": "exact names and BM25", "semantic": "meaning alone", "plain": "hybrid without semantic search",
         "hybrid": "hybrid"}
LIBRARY = f"/usr/lib/{os.path.basename(os.path.realpath(PYTHON))}"
SUITE = "libpython3.11-testsuite"
NOT_LIBRARY = {"test", "tests", "idle_test", "__pycache__", "dist-packages", "site-packages", "lib2to3"}


def start(ctx: Context, *words: str) -> "subprocess.Popen[str]":
    """`context WORDS --json`, with an index of the benchmark's own."""
    env = {**os.environ, "XDG_STATE_HOME": os.path.join(ctx.folder, "context-state"), "HOME": "/nonexistent"}
    env.pop("SNIPARA_SANDBOX_STATE_DIR", None)
    os.makedirs(env["XDG_STATE_HOME"], mode=0o700, exist_ok=True)
    return subprocess.Popen([os.path.join(ctx.build, "snipara-sandbox"), "context", *words, "--json"], env=env, cwd="/",
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)


def run(ctx: Context, *words: str) -> Any:
    process = start(ctx, *words)
    out, complaint = process.communicate()
    if process.returncode != 0:
        raise Failure(f"context {words[0]}: {complaint.strip()[-400:]}")
    return json.loads(out)


def most_memory(ctx: Context, *words: str) -> float:
    """MiB of its largest process. What wait4() says would begin with this program's own."""
    most = 0
    with start(ctx, *words) as process:
        while process.poll() is None:
            for pid in [process.pid, *process_tree(process.pid)]:
                try:
                    with open(f"/proc/{pid}/status") as text:
                        most = max([most, *(int(line.split()[1]) for line in text if line.startswith("VmHWM:"))])
                except OSError:
                    pass
            time.sleep(0.005)
    return most / 1024


def can_encode(ctx: Context) -> bool:
    """Vectors of these corpora take minutes."""
    return not ctx.is_quick and os.path.exists(os.path.join(ctx.build, "encoder.bin"))


def ask(ctx: Context, folder: str, mode: str, texts: list[str]) -> list[tuple[float, list[str]]]:
    """The time and the first places of each question."""
    env = {**os.environ, "XDG_STATE_HOME": os.path.join(ctx.folder, "context-state")}
    done = subprocess.run([os.path.join(ctx.build, "context-bench"), folder, mode], env=env, capture_output=True,
                          text=True, input="".join(text + "\n" for text in texts))
    if done.returncode != 0:
        raise Failure(done.stderr.strip()[-400:])
    return [(float(line.split("\t")[0]), line.split("\t")[1:]) for line in done.stdout.splitlines()]


def score(ctx: Context, key: str, text: str, found: list[list[str]],
          questions: list[corpora.Question]) -> tuple[float, float]:
    """MRR@10 and recall@10."""
    places = [next((i for i, place in enumerate(one[:PLACES]) if place in question.answers), None)
              for one, question in zip(found, questions)]
    ctx.keep(key, [{"place": place, "question": question.text} for place, question in zip(places, questions)])
    n = len(questions)
    mrr = sum(1 / (place + 1) for place in places if place is not None) / n
    recall = sum(place is not None for place in places) / n
    ctx.add(key, text, "MRR@10", mrr, n=n, note=f"recall@10 {100 * recall:.1f} %")
    return mrr, recall


def functions(index: str) -> list[tuple[str, str, str]]:
    """(PATH:LINE, name, text in lower case) of each function."""
    with sqlite3.connect(f"file:{index}?mode=ro", uri=True) as db:
        rows = db.execute("SELECT f.path, c.first, c.name, t.text, c.start, c.end FROM chunk c JOIN file f ON"
                          " f.id = c.file JOIN content t ON t.file = f.id WHERE c.kind IN (2, 3)"
                          " ORDER BY f.path, c.ordinal").fetchall()
    return [(f"{path}:{line}", name, bytes(text)[start:end].decode(errors="replace").lower())
            for path, line, name, text, start, end in rows]


def places_of_names(index: str) -> dict[str, set[str]]:
    """Of each name that is defined, as PATH:LINE: functions, classes, constants."""
    found: dict[str, set[str]] = {}
    with sqlite3.connect(f"file:{index}?mode=ro", uri=True) as db:
        for path, line, name in db.execute("SELECT f.path, c.first, c.name FROM chunk c JOIN file f ON f.id = c.file"
                                           " WHERE c.kind > 1"):
            found.setdefault(name, set()).add(f"{path}:{line}")
    return found


def search_words(known: list[tuple[str, str, str]], questions: list[corpora.Question]) -> list[list[str]]:
    """As one searches by hand: `rg -i -F` for each word of the question; the functions with most of the words first."""
    having: dict[str, list[int]] = {}
    found = []
    for question in questions:
        counts: dict[int, int] = {}
        for word in {word.lower() for word in corpora.WORD.findall(question.text) if len(word) > 2}:
            if word not in having:
                having[word] = [i for i, (_, _, text) in enumerate(known) if word in text]
            for i in having[word]:
                counts[i] = counts.get(i, 0) + 1
        found.append([known[i][0] for i in sorted(counts, key=lambda i: (-counts[i], i))[:PLACES]])
    return found


def library_files() -> list[str]:
    found = []
    for folder, folders, names in os.walk(LIBRARY):
        folders[:] = [name for name in folders if name not in NOT_LIBRARY]
        found += [os.path.relpath(os.path.join(folder, name), LIBRARY) for name in names if name.endswith(".py")]
    return found


def corpus(ctx: Context, key: str, text: str, source: str, paths: list[str]) -> None:
    folder = os.path.join(ctx.folder, f"corpus-{key}")
    every = [one for one in corpora.copy(source, paths, folder) if not one.is_tuning]
    questions = every[::max(1, len(every) // ctx.runs(len(every), 100))]
    known = functions(run(ctx, "stats", "--dir", folder)["index"])
    has_encoder = can_encode(ctx)
    scores = {"words": score(ctx, f"retrieval.{key}.words", f"{text}: search of words, as rg",
                             search_words(known, questions), questions)}
    for mode, name in MODES.items():
        if mode in ("semantic", "hybrid") and not has_encoder:
            ctx.add(f"retrieval.{key}.{mode}", f"{text}: {name}", "MRR@10", None, n=0, note="not measured")
            continue
        answers = ask(ctx, folder, mode, [one.text for one in questions])
        scores[mode] = score(ctx, f"retrieval.{key}.{mode}", f"{text}: {name}", [places for _, places in answers],
                             questions)
        ctx.times(f"retrieval.{key}.{mode}.time", f"{text}: {name}, a question", [us for us, _ in answers])
    for measure, (gain, what) in enumerate((("gain", "MRR@10"), ("gain_recall", "recall@10"))):
        best = max(scores[mode][measure] for mode in ("words", "keyword", "semantic") if mode in scores)
        whole = scores["hybrid" if has_encoder else "plain"][measure]
        ctx.add(f"retrieval.{key}.{gain}", f"{text}: {what} of hybrid over the best single one", "%",
                100 * whole / best - 100, n=len(questions))
    named = places_of_names(run(ctx, "stats", "--dir", folder)["index"])
    names = {name: named[name] for _, name, _ in known}
    some = sorted(names)[::max(1, len(names) // ctx.runs(1000, 50))]
    firsts = [places[:1] for _, places in ask(ctx, folder, "hybrid" if has_encoder else "plain", some)]
    right = sum(bool(first) and first[0] in names[name] for first, name in zip(firsts, some))
    ctx.add(f"retrieval.{key}.exact", f"{text}: a function's name as the question, a definition of it first", "%",
            100 * right / len(some), n=len(some))


def retrieval(ctx: Context) -> None:
    """What a sentence of documentation finds: by words, by meaning, by both."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    corpus(ctx, "python", "Python's standard library", LIBRARY, library_files())
    own = [path for path in listed.split("\0") if path.endswith((".c", ".h", ".py"))]
    corpus(ctx, "own", "this project", ROOT, own)


def seconds(*words: str) -> float:
    start = time.monotonic()
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False)
    return time.monotonic() - start


def with_tests(ctx: Context) -> tuple[str, str]:
    """A copy of the standard library with its tests, if they can be had."""
    folder = os.path.join(ctx.folder, "library")
    shutil.copytree(LIBRARY, folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "dist-packages"))
    place = os.path.join(ctx.folder, "suite")
    os.makedirs(place)
    done = subprocess.run(f"apt-get -qq download {SUITE} && dpkg-deb -x {SUITE}_*.deb .", shell=True, cwd=place,
                          capture_output=True)
    if done.returncode == 0:
        shutil.copytree(os.path.join(place, LIBRARY[1:]), folder, symlinks=True, dirs_exist_ok=True)
    return folder, "" if done.returncode == 0 else f"without tests: {SUITE} could not be had"


def context(ctx: Context) -> None:
    """Indexing Python's standard library with its tests, and other programs on the same tree."""
    folder, note = with_tests(ctx)
    began = time.monotonic()
    most = most_memory(ctx, "stats", "--dir", folder)  # `stats` brings the index up to date and makes no vectors
    times = [time.monotonic() - began]
    for _ in range(ctx.runs(9, 3)):
        began = time.monotonic()
        files = sum(run(ctx, "stats", "--dir", folder)["files"].values())
        times.append(time.monotonic() - began)
    ctx.add("context.first", f"first index, {files} files, without vectors", "s", times[0], n=1, note=note)
    ctx.add("context.again", "the same when nothing has changed", "s", percentile(times[1:], 0.5), n=len(times) - 1)
    ctx.add("context.memory", "most memory of a process for the first", "MiB", most, n=1)
    some = ["parse a header", "HTTPConnection", "open a file for writing", "verify certificate host name", "splitext"]
    for mode in ("plain", "hybrid") if can_encode(ctx) else ("plain",):
        times = [us for us, _ in ask(ctx, folder, mode, some * ctx.runs(20, 2))]
        ctx.times(f"context.query.{mode}", f"a question, {MODES[mode]}", times)
    others = {"rg": ["rg", "-c", "verify_\\w+", folder], "ctags": ["ctags", "-R", "-f", "/dev/null", folder]}
    for name, words in others.items():
        if shutil.which(name) is None:
            ctx.add(f"context.{name}", name, "s", None, n=0, note="not installed")
            continue
        times = [seconds(*words) for _ in range(3)]
        ctx.add(f"context.{name}", "rg for one pattern" if name == "rg" else "ctags of all files", "s",
                percentile(times, 0.5), n=3)
