# SPDX-License-Identifier: Apache-2.0
"""The demo runs and judges; limits are as docs/reference/configuration.md says."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import lib
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNITS = {"": 1, "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gib": 1 << 30,
         "t": 1 << 40, "tib": 1 << 40, "s": 1}


def need_data() -> None:
    done = subprocess.run([lib.PYTHON, "-c", "import pandas, matplotlib"], capture_output=True)
    lib.need("data", done.returncode == 0, "pandas and matplotlib are not installed")


def own(box: lib.Sandbox, path: str) -> None:
    """Give a tree to the user of box."""
    if box.uid != os.geteuid():
        for folder, _, names in os.walk(path):
            for name in [folder, *(os.path.join(folder, n) for n in names)]:
                os.chown(name, box.uid, box.uid)


def run_demo(box: lib.Sandbox, build: str) -> subprocess.CompletedProcess[str]:
    """tools/demo from a copy of the tree that the user of box can read."""
    tree = os.path.join(box.folder, "tree")
    shutil.copytree(os.path.join(ROOT, "examples"), os.path.join(tree, "examples"))
    os.mkdir(os.path.join(tree, "tools"))
    demo = shutil.copy(os.path.join(ROOT, "tools", "demo"), os.path.join(tree, "tools"))
    own(box, tree)
    return subprocess.run([lib.PYTHON, "-B", demo], env={**box.env, "SNP_BUILD": build}, cwd="/", text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=5 * lib.PATIENCE, **box.identity())


@pytest.mark.parametrize("who", ["root", "user"])
def test_demo_succeeds(fresh_sandbox: Callable[..., lib.Sandbox], who: str) -> None:
    need_data()
    box = fresh_sandbox(who)
    done = run_demo(box, box.bin)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("demo: all as promised")
    assert done.stdout.count("ok: ") >= 14 and "\033" not in done.stdout


def test_demo_fails_when_a_promise_is_broken(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    need_data()
    box = fresh_sandbox("user")
    build = box.make_folder("broken")
    real = os.path.join(box.bin, "snipara-sandbox")
    box.make_file(os.path.join(build, "snipara-sandbox"),
                  f"#!/bin/sh\n{real} \"$@\" | sed 's/\"status\": \"error\"/\"status\": \"ok\"/'\n", 0o755)
    done = run_demo(box, build)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NOT AS PROMISED: the listener heard" in done.stdout


def test_demo_without_a_build_says_so(tmp_path: Path) -> None:
    done = subprocess.run([lib.PYTHON, "-B", os.path.join(ROOT, "tools", "demo")], text=True,
                          env={"PATH": "/usr/bin:/bin", "SNP_BUILD": str(tmp_path)}, capture_output=True)
    assert done.returncode == 2 and "run make first" in done.stderr


def number(text: str) -> float:
    value, unit = lib.search(r"^([\d.,]+) ?([a-zA-Z]*)$", text.strip()).groups()
    return float(value.replace(",", "")) * UNITS[unit.lower()]


def test_the_documented_limits_are_those_of_exec(sandbox: lib.Sandbox) -> None:
    text = " ".join(sandbox.cli("exec", "--help").stdout.split())
    with open(os.path.join(ROOT, "docs", "reference", "configuration.md")) as page:
        rows = re.findall(r"^\| `[a-z_]+` \| `(--[a-z-]+)` \| (.+?) \| (.+?) to (.+?) \| ", page.read(), re.MULTILINE)
    said = {flag: (low, high, default) for flag, low, high, default in re.findall(
        r"(--[a-z-]+) [A-Z]+ (?:(?! --).)*?: ([\d.]+[a-z]?) to ([\d.]+[a-z]?) \(default ([\d.]+[a-z]?)[),]", text)}
    assert len(rows) == 10 and set(said) == {row[0] for row in rows}
    for flag, default, low, high in rows:
        assert tuple(map(number, said[flag])) == (number(low), number(high), number(default)), flag
