# SPDX-License-Identifier: Apache-2.0
"""How much `check` finds of what plants.py plants, and what it says of the same code as it was."""

import gzip
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, NamedTuple

import plants
from runtime import ROOT, Context, Failure

SEED = 19
MODULES = 75  # of the standard library
PACKAGES = ("rxjs", "@tanstack/query-core", "immer", "redux", "@reduxjs/toolkit", "zod")
BATCH = 40  # files of one command
Check = Callable[[str, list[str]], list[Any]]  # project, paths: rows of files


class Outcome(NamedTuple):
    language: str
    kind: str
    is_reported: bool
    is_found: bool
    where: str


class Original(NamedTuple):
    language: str
    functions: int
    findings: list[str]


def is_said(plant: plants.Plant, finding: Any) -> bool:
    is_it = plant.name in finding["name"] if plant.name else finding["kind"] == "arity"
    return bool(is_it and finding["severity"] == "error")


def write(top: str, path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(os.path.join(top, path)), exist_ok=True)
    with open(os.path.join(top, path), "wb") as file:
        file.write(data)


def ask(check: Check, top: str, paths: list[str]) -> dict[str, Any]:
    rows = {}
    for at in range(0, len(paths), BATCH):
        for row in check(top, paths[at:at + BATCH]):
            rows[row["path"]] = row
    return rows


def look(check: Check, top: str, language: str, copies: list[plants.Copy]) -> tuple[Original, list[Outcome]]:
    """top has the rest of the project, if there is one."""
    for copy in copies:
        write(top, copy.path, copy.original)
    before = ask(check, top, [copy.path for copy in copies])
    said = [f"{path}:{one['line']} {one['message']}" for path, row in before.items() for one in row.get("findings", [])
            if one["severity"] == "error"]
    every = [(copy, plant, copy.path_of(plant)) for copy in copies for plant in copy.plants]
    for copy, plant, path in every:
        write(top, path, copy.planted(plant)[0])
    after = ask(check, top, [path for _, _, path in every])
    outcomes = []
    for copy, plant, path in every:
        line = copy.planted(plant)[1]
        is_found = any(one["line"] == line and is_said(plant, one) for one in after[path].get("findings", []))
        outcomes.append(Outcome(language, plant.kind, copy.is_reported(plant), is_found,
                                f"{copy.path}:{line} {plant.kind} {plant.text.strip() or plant.name}"))
        os.unlink(os.path.join(top, path))
    return Original(language, sum(copy.functions for copy in copies), said), outcomes


def quixbugs() -> dict[str, bytes]:
    path = os.path.join(os.environ.get("SNP_TEST_DATA", ""), "QuixBugs.jsonl.gz")
    if not os.path.isfile(path):
        return {}
    with gzip.open(path, "rt") as file:
        rows = [json.loads(line) for line in file]
    return {f"quix_{row['name']}.py": row["correct"].encode() for row in rows}


def python_copies(modules: int, per_file: int) -> list[plants.Copy]:
    texts = plants.standard_library()
    some = random.Random(SEED).sample(sorted(texts), min(modules, len(texts)))
    return plants.python_copies({name: texts[name] for name in some}, SEED, per_file) + \
        plants.python_copies(quixbugs(), SEED, 2)


def sources(folder: str) -> str:
    """Where the packages are; an exception says why not."""
    program = os.path.join(ROOT, "tools", "typescript-sources")
    done = subprocess.run([program, folder], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failure(done.stdout.strip())
    return os.path.join(folder, "node_modules")


def script_copies(build: str, top: str, packages: str, names: tuple[str, ...], per_file: int) -> list[plants.Copy]:
    """The sources of packages, put below top, without their tests."""
    paths = []
    for name in names:
        place = os.path.join(top, name.replace("/", "_"))
        shutil.copytree(os.path.join(packages, name, "src"), os.path.join(place, "src"))
        shutil.copy(os.path.join(packages, name, "package.json"), place)
        for folder, folders, files in os.walk(place):
            folders[:] = sorted(one for one in folders if "test" not in one and one != "benchmarks")
            paths += [os.path.relpath(os.path.join(folder, file), top) for file in sorted(files)
                      if file.endswith((".ts", ".tsx")) and ".d.ts" not in file and ".test" not in file]
    parser = plants.Parser(build)
    try:
        return plants.script_copies(top, paths, parser, SEED, per_file)
    finally:
        parser.close()


def share(outcomes: list[Outcome]) -> float:
    return 100 * sum(one.is_found for one in outcomes) / max(1, len(outcomes))


def grounding(ctx: Context) -> None:
    """What check finds of planted hallucinations, and false alarms."""
    runtime = ctx.plain_runtime("grounding")

    def check(top: str, paths: list[str]) -> list[Any]:
        done = subprocess.run([os.path.join(ctx.build, "snipara-sandbox"), "check", "--dir", top, "--json",
                               "--timeout", "600", *(os.path.join(top, path) for path in paths)], env=runtime.env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode not in (0, 1) or not done.stdout:
            raise Failure(f"check: {done.stderr}")
        files: list[Any] = json.loads(done.stdout)["files"]
        return files

    looks = []
    top = os.path.join(ctx.folder, "python")
    looks.append(look(check, top, "Python", python_copies(ctx.runs(MODULES, 12), plants.PER_FILE)))
    top = os.path.join(ctx.folder, "typescript")
    packages = sources(os.path.join(ctx.build, "typescript-sources"))
    names = PACKAGES if not ctx.is_quick else PACKAGES[1:2]
    looks.append(look(check, top, "TypeScript", script_copies(ctx.build, top, packages, names, 2)))
    for original, outcomes in looks:
        language = original.language
        ctx.keep(language, [one._asdict() for one in outcomes])
        ctx.keep(f"{language} originals", [original._asdict()])
        for half, is_reported in (("looked at while it was written", False), ("kept aside", True)):
            some = [one for one in outcomes if one.is_reported is is_reported]
            ctx.add(f"grounding.{language}.{half.split()[0]}", f"{language}, {half}: all kinds", "%", share(some),
                    n=len(some))
        for kind in plants.KINDS:
            some = [one for one in outcomes if one.kind == kind and one.is_reported]
            if some:
                ctx.add(f"grounding.{language}.{kind}", f"{language}, kept aside: {kind}", "%", share(some),
                        n=len(some))
        ctx.add(f"grounding.{language}.alarms", f"{language}: false alarms for each function as it was", "%",
                100 * len(original.findings) / max(1, original.functions), n=original.functions)
