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

FOLDERS = [os.path.join(lib.HERE, "..", name) for name in ("src", "agent")]


def points() -> set[Any]:
    """The names given to SNP_FAULT and SNP_FAULT_FAILS in all sources."""
    found = set()
    for path in (path for folder in FOLDERS for path in glob.glob(os.path.join(folder, "**", "*.c"), recursive=True)):
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
    env = {**os.environ, "DESTDIR": str(tmp_path / "root"), "PREFIX": "/opt/a b"}

    def make(action: str) -> None:
        done = subprocess.run([os.path.join(lib.HERE, "..", "tools", "install"), action, lib.BUILD],
                              capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr

    make("install")
    prefix = tmp_path / "root/opt/a b"
    for name in ("man/man1/snipara-sandbox.1", "man/man1/rlm.1", "bash-completion/completions/snipara-sandbox.bash",
                 "bash-completion/completions/rlm.bash", "zsh/site-functions/_snipara-sandbox",
                 "fish/vendor_completions.d/snipara-sandbox.fish"):
        assert (prefix / "share" / name).stat().st_size > 10000, name
    unit = (prefix / "share/systemd/user/snipara-sandbox.service").read_text()
    assert 'ExecStart="/opt/a b/libexec/snipara-sandbox/snipara-sandboxd"' in unit
    shown = subprocess.run([prefix / "bin/rlm", "version"], capture_output=True, text=True, check=True).stdout
    assert "snipara-sandbox" in shown
    make("uninstall")
    assert list(tmp_path.iterdir()) == []


def test_the_manual_page_is_sound() -> None:
    lib.need("groff", shutil.which("groff") is not None, "groff is not installed")
    page = subprocess.run([os.path.join(lib.BUILD, "snipara-sandbox"), "man"], capture_output=True, check=True).stdout
    shown = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-Kutf8", "-P-cbou"], input=page, capture_output=True,
                           check=True)
    assert shown.stderr == b"" and b"\nEXIT STATUS\n" in shown.stdout and b"--workspace-size SIZE" in shown.stdout
