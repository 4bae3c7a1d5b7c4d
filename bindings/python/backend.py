# SPDX-License-Identifier: Apache-2.0
"""The build backend of the wheel (PEP 517), in pure Python: the package, and the programs that it finds beside itself.

The programs are those of the build folder (SNP_BUILD, else build), which is brought up to date, or made, first. That
takes what `make` takes: tools/setup says which packages are missing.
"""
from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import zipfile
from typing import Any, Dict, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NAME = "snipara_sandbox"
EXTRAS = ("all", "docker", "mcp", "snipara", "visualizer")  # of releases before 3: nothing more is needed for them
KEPT = re.compile(r"(bin/snipara-sandbox|libexec/snipara-sandbox/.*|lib/(?:[^/]*/)?(libsnipara-sandbox\.so\.0))$")
COMMANDS = "[console_scripts]\nrlm = {0}.__main__:main\nsnipara-sandbox = {0}.__main__:main\n".format(NAME)
Entry = Tuple[str, bytes, int]  # name in the wheel, contents, permissions


def _version() -> str:
    with open(os.path.join(ROOT, "meson.build")) as file:
        found = re.search(r"^\s*version: '([^']+)'", file.read(), re.M)
    assert found is not None, "meson.build has no version"
    return found.group(1)


def _metadata() -> str:
    lines = ["Metadata-Version: 2.1", "Name: snipara-sandbox", "Version: " + _version(),
             "Summary: Run code that nobody has checked, in sessions that last", "License: Apache-2.0",
             "Requires-Python: >=3.8", *("Provides-Extra: " + name for name in EXTRAS),
             "Description-Content-Type: text/markdown"]
    with open(os.path.join(ROOT, "docs", "reference", "python.md")) as file:
        return "\n".join(lines) + "\n\n" + file.read()


def _tag() -> str:
    return "py3-none-linux_" + platform.machine()


def _info(name: str) -> str:
    return "{}-{}.dist-info/{}".format(NAME, _version(), name)


def _metadata_files() -> List[Entry]:
    wheel = "Wheel-Version: 1.0\nGenerator: snipara-sandbox\nRoot-Is-Purelib: false\nTag: {}\n".format(_tag())
    with open(os.path.join(ROOT, "LICENSE"), "rb") as file:
        terms = file.read()
    return [(_info("METADATA"), _metadata().encode(), 0o644), (_info("WHEEL"), wheel.encode(), 0o644),
            (_info("entry_points.txt"), COMMANDS.encode(), 0o644), (_info("LICENSE"), terms, 0o644)]


def _files(folder: str) -> List[Tuple[str, str]]:
    """(path below it, path) of all files of a folder."""
    found = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return [(os.path.relpath(path, folder), path) for path in sorted(found)]


def _read(path: str) -> Tuple[bytes, int]:
    with open(path, "rb") as file:
        return file.read(), 0o755 if os.access(path, os.X_OK) else 0o644


def _programs() -> List[Entry]:
    """What `make install` installs, as far as a program in Python needs it."""
    build = os.path.join(ROOT, os.environ.get("SNP_BUILD", "build"))
    if not os.path.exists(os.path.join(build, "build.ninja")):
        subprocess.run(["tools/configure", build], cwd=ROOT, check=True)
    subprocess.run(["ninja", "-C", build, "--quiet", "programs"], cwd=ROOT, check=True)
    entries: List[Entry] = []
    with tempfile.TemporaryDirectory() as staged:
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--strip", "--destdir", staged],
                       cwd=ROOT, check=True)
        for _, path in _files(staged):
            kept = KEPT.search(path)
            if kept is not None and "/share/" not in path:
                name = "lib/" + kept.group(2) if kept.group(2) else kept.group(1)
                entries.append(("{}/programs/{}".format(NAME, name), *_read(path)))
    return entries


def _package() -> List[Entry]:
    return [("{}/{}".format(package, name), *_read(path)) for package in (NAME, "rlm")
            for name, path in _files(os.path.join(HERE, package)) if not name.endswith(".pyc")]


def _record(entries: List[Entry]) -> Entry:
    lines = ["{},sha256={},{}".format(
        name, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("="), len(data))
        for name, data, _ in entries]
    return _info("RECORD"), "\n".join([*lines, _info("RECORD") + ",,", ""]).encode(), 0o644


def _write(path: str, entries: List[Entry]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data, mode in entries:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.external_attr = (0o100000 | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(info, data)


# What pip calls ---------------------------------------------------------------------------------


def build_wheel(wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None,
                metadata_directory: Optional[str] = None) -> str:
    """Make the wheel; its name."""
    name = "{}-{}-{}.whl".format(NAME, _version(), _tag())
    entries = sorted(_package() + _programs()) + _metadata_files()
    _write(os.path.join(wheel_directory, name), [*entries, _record(entries)])
    return name


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Optional[Dict[str, Any]] = None) -> str:
    """Write the metadata alone; the name of its folder."""
    for name, data, _ in _metadata_files():
        path = os.path.join(metadata_directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    return _info("").rstrip("/")


def build_sdist(sdist_directory: str, config_settings: Optional[Dict[str, Any]] = None) -> str:
    """Pack the files that git knows; the name of the archive."""
    base = "{}-{}".format(NAME, _version())
    with tempfile.TemporaryDirectory() as staged:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.decode()
        for name in filter(None, listed.split("\0")):
            path = os.path.join(staged, base, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, name), path, follow_symlinks=False)
        with open(os.path.join(staged, base, "PKG-INFO"), "w") as file:
            file.write(_metadata())
        return os.path.basename(shutil.make_archive(os.path.join(sdist_directory, base), "gztar", staged, base))
