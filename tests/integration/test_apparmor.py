# SPDX-License-Identifier: Apache-2.0
"""The AppArmor profile: its syntax, by the parser itself, and where `make install` puts it.

Enforcement needs a kernel with AppArmor: tests/vm with --system and --apparmor.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import lib

SOURCE = os.path.join(lib.HERE, "..", "dist", "apparmor", "snipara-sandbox.in")
PARSER = shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin") or ""


def parse(text: str, tmp_path: Path) -> subprocess.CompletedProcess[Any]:
    path = tmp_path / "profile"
    path.write_text(text)
    return subprocess.run([PARSER, "--skip-kernel-load", "--skip-cache", "--skip-read-cache", str(path)],
                          capture_output=True, text=True)


@pytest.fixture
def profile() -> str:
    lib.need("apparmor", PARSER != "", "no apparmor_parser")
    with open(SOURCE) as source:
        text = source.read().replace("@LIBEXEC@", "/usr/local/libexec/snipara-sandbox")
    said = subprocess.run([PARSER, "--version"], capture_output=True, text=True).stdout
    version = int(lib.search(r"version (\d+)", said).group(1))
    if version < 4:  # knows neither the newer features nor the rule; the rest must be sound all the same
        assert "\n  userns,\n" in text and "\nabi <abi/4.0>,\n" in text
        text = text.replace("  userns,\n", "").replace("abi <abi/4.0>,\n", "")
    return text


def test_the_parser_takes_it(profile: str, tmp_path: Path) -> None:
    done = parse(profile, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_parser_would_notice_a_mistake(profile: str, tmp_path: Path) -> None:
    """The control run."""
    for broken in (profile.replace("}", ""), profile.replace("flags=", "flag:"), profile + "\nnonsense,\n"):
        assert parse(broken, tmp_path).returncode != 0


def test_it_names_the_program_and_nothing_else(profile: str) -> None:
    assert re.findall(r"^profile (\S+) (\S+) ", profile, re.MULTILINE) == [
        ("snipara-sandbox", "/usr/local/libexec/snipara-sandbox/tier-native")]
