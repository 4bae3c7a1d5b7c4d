# SPDX-License-Identifier: Apache-2.0
"""What is installed has no places where it can be told to fail."""

import glob
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import lib

SOURCES = os.path.join(lib.HERE, "..", "src")


def points() -> set[Any]:
    """The names given to SNP_FAULT and SNP_FAULT_FAILS in all sources."""
    found = set()
    for path in glob.glob(os.path.join(SOURCES, "**", "*.c"), recursive=True):
        with open(path) as source:
            found.update(re.findall(r"SNP_FAULT(?:_FAILS)?\(\s*\"([^\"]+)\"", source.read()))
    return found


@pytest.mark.parametrize("name", [name for name in lib.PROGRAMS if name != "guest"])
def test_no_fault_points_in_programs_that_are_installed(name: str) -> None:
    with open(os.path.join(lib.BUILD, name), "rb") as program:
        text = program.read()
    if b"SNP_FAULT_FILE" in text and "faults" in lib.BUILD:
        pytest.skip("SNP_BUILD is a build with fault points")
    assert b"SNP_FAULT" not in text
    for point in points():
        assert point.encode() + b"\0" not in text


def test_manual_page_and_completions_come_and_go_with_the_programs(tmp_path: Path) -> None:
    env = {**os.environ, "DESTDIR": str(tmp_path), "PREFIX": "/usr/local"}
    subprocess.run(["meson", "install", "-C", lib.BUILD, "--no-rebuild", "--quiet"], check=True, capture_output=True,
                   env=env)
    share = tmp_path / "usr/local/share"
    for name in ("man/man1/snipara-sandbox.1", "man/man1/rlm.1", "bash-completion/completions/snipara-sandbox.bash",
                 "bash-completion/completions/rlm.bash", "zsh/site-functions/_snipara-sandbox",
                 "fish/vendor_completions.d/snipara-sandbox.fish"):
        assert (share / name).stat().st_size > 10000, name
    done = subprocess.run([os.path.join(lib.HERE, "..", "tools", "install"), "uninstall", lib.BUILD],
                          capture_output=True,
                          text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_the_manual_page_is_sound() -> None:
    lib.need("groff", shutil.which("groff") is not None, "groff is not installed")
    page = subprocess.run([os.path.join(lib.BUILD, "snipara-sandbox"), "man"], capture_output=True, check=True).stdout
    shown = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-Kutf8", "-P-cbou"], input=page, capture_output=True,
                           check=True)
    assert shown.stderr == b"" and b"\nEXIT STATUS\n" in shown.stdout and b"--workspace-size SIZE" in shown.stdout
