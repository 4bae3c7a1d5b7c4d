# SPDX-License-Identifier: Apache-2.0
"""The build backend of the wheel (PEP 517, 660), in pure Python: the package with the programs.

The programs are those of the build folder (SNP_BUILD, else build), which is first created or brought up to date. That
needs the packages that `make` needs: tools/setup lists missing ones. The same sources and tools produce the same bytes.
"""
from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from typing import Any, Dict, Iterable, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NAME = "snipara_sandbox"
EXTRAS = ("all", "docker", "mcp", "snipara", "visualizer")  # of releases before 3; now empty
KEPT = re.compile(r"(bin/snipara-sandbox|libexec/snipara-sandbox/.*|lib/(?:[^/]*/)?(libsnipara-sandbox\.so\.0))$")
COMMANDS = "[console_scripts]\nrlm = {0}.__main__:main\nsnipara-sandbox = {0}.__main__:main\n".format(NAME)
Entry = Tuple[str, bytes, int]  # name in the wheel, contents, permissions


def version() -> str:
    with open(os.path.join(ROOT, "meson.build")) as file:
        found = re.search(r"^\s*version: '([^']+)'", file.read(), re.M)
    assert found is not None, "meson.build has no version"
    return found.group(1)


def _metadata() -> str:
    lines = ["Metadata-Version: 2.1", "Name: snipara-sandbox", "Version: " + version(),
             "Summary: Run untrusted code in persistent sandbox sessions", "License: Apache-2.0",
             "Requires-Python: >=3.8", *("Provides-Extra: " + name for name in EXTRAS),
             "Description-Content-Type: text/markdown"]
    with open(os.path.join(ROOT, "docs", "reference", "python.md")) as file:
        return "\n".join(lines) + "\n\n" + file.read()


def _tag() -> str:
    return "py3-none-linux_" + platform.machine()


def _info(name: str) -> str:
    return "{}-{}.dist-info/{}".format(NAME, version(), name)


def _metadata_files() -> List[Entry]:
    wheel = "Wheel-Version: 1.0\nGenerator: snipara-sandbox\nRoot-Is-Purelib: false\nTag: {}\n".format(_tag())
    with open(os.path.join(ROOT, "LICENSE"), "rb") as file:
        terms = file.read()
    return [(_info("METADATA"), _metadata().encode(), 0o644), (_info("WHEEL"), wheel.encode(), 0o644),
            (_info("entry_points.txt"), COMMANDS.encode(), 0o644), (_info("LICENSE"), terms, 0o644)]


def files(folder: str) -> List[Tuple[str, str]]:
    """(path below the folder, path) of each file in a folder."""
    found = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return [(os.path.relpath(path, folder), path) for path in sorted(found)]


def _read(path: str) -> Tuple[bytes, int]:
    with open(path, "rb") as file:
        return file.read(), 0o755 if os.access(path, os.X_OK) else 0o644


def _run(*words: str) -> None:
    """Run a program without pip's variables for its build environment, which mislead system programs such as meson."""
    env = {name: value for name, value in os.environ.items()
           if name not in ("PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONPATH")}
    subprocess.run(words, cwd=ROOT, env=env, check=True)


def _build() -> str:
    """Create the build folder or bring it up to date."""
    build = os.path.join(ROOT, os.environ.get("SNP_BUILD", "build"))
    if not os.path.exists(os.path.join(build, "build.ninja")):
        _run("tools/configure", build)
    _run("ninja", "-C", build, "--quiet", "programs")
    return build


def _programs() -> List[Entry]:
    """The files of `make install` that a Python program needs."""
    entries: List[Entry] = []
    with tempfile.TemporaryDirectory() as folder:
        staged = os.path.join(folder, "staged")
        _run("tools/install", "stage", _build(), staged, "/usr")
        for name, path in files(staged):
            kept = KEPT.match(name)
            if kept is not None:
                name = "lib/" + kept.group(2) if kept.group(2) else kept.group(1)
                entries.append(("{}/programs/{}".format(NAME, name), *_read(path)))
    return entries


def _package() -> List[Entry]:
    return [("{}/{}".format(package, name), *_read(path)) for package in (NAME, "rlm")
            for name, path in files(os.path.join(HERE, package)) if not name.endswith(".pyc")]


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


def _unpack(folder: str, entries: List[Entry]) -> None:
    for name, data, mode in entries:
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        os.chmod(path, mode)


def install(folder: str) -> None:
    """Install the package alone, for a system with the programs and the library in another package."""
    _unpack(folder, _package() + _metadata_files()[:1])


def epoch() -> int:
    """Seconds: SOURCE_DATE_EPOCH, else the time of the commit, else of the archive with these sources."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not given:
        done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
        given = done.stdout.decode().strip() if _is_clone() else ""
    return int(given or os.stat(os.path.join(ROOT, "meson.build")).st_mtime)


def write_tar(path: str, base: str, files: Iterable[Tuple[str, str]], texts: Iterable[Tuple[str, bytes]] = ()) -> None:
    """Write a tar.gz of (name, path) and (name, contents), below the folder base; of modes only x is kept."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as tar:
        both: Dict[str, Any] = {**dict(files), **dict(texts)}
        for name in sorted(both):
            source = both[name]
            info = tarfile.TarInfo(base + "/" + name)
            info.mtime, info.mode, data = epoch(), 0o644, b""
            if isinstance(source, str) and os.path.islink(source):
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, os.readlink(source), 0o777
            else:
                data, info.mode = _read(source) if isinstance(source, str) else (source, 0o644)
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    with open(path, "wb") as out, gzip.GzipFile("", "wb", 9, out, 0) as packed:
        packed.write(plain.getvalue())


def _is_clone() -> bool:
    return os.path.exists(os.path.join(ROOT, ".git"))


def _sources() -> List[str]:
    """The files tracked by git and those of tools/grammars; in an unpacked archive, all except build products."""
    if _is_clone():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()
        return [name for name in listed.split("\0") if name] + [
            "grammars/" + name for name, _ in files(os.path.join(ROOT, "grammars"))]
    return [name for name, _ in files(ROOT) if not re.match(r"build[-/]|PKG-INFO$|.*\.pyc$", name)]


# What pip calls ---------------------------------------------------------------------------------


def build_wheel(wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None,
                metadata_directory: Optional[str] = None) -> str:
    """Make the wheel; returns its name."""
    name = "{}-{}-{}.whl".format(NAME, version(), _tag())
    entries = sorted(_package() + _programs()) + _metadata_files()
    _write(os.path.join(wheel_directory, name), [*entries, _record(entries)])
    return name


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Optional[Dict[str, Any]] = None) -> str:
    """Write only the metadata; returns the name of its folder."""
    _unpack(metadata_directory, _metadata_files())
    return _info("").rstrip("/")


def build_sdist(sdist_directory: str, config_settings: Optional[Dict[str, Any]] = None) -> str:
    """Pack the sources; returns the name of the archive."""
    base = "{}-{}".format(NAME, version())
    write_tar(os.path.join(sdist_directory, base + ".tar.gz"), base,
              [(name, os.path.join(ROOT, name)) for name in _sources()], [("PKG-INFO", _metadata().encode())])
    return base + ".tar.gz"


def build_editable(wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None,
                   metadata_directory: Optional[str] = None) -> str:
    """Make a wheel with a path into the build folder: to links to the package's files, beside the programs."""
    folder = os.path.join(_build(), "editable")
    shutil.rmtree(folder, ignore_errors=True)
    _unpack(folder, _package() + _programs())
    for name, _, _ in _package():
        os.unlink(os.path.join(folder, name))
        os.symlink(os.path.join(HERE, name), os.path.join(folder, name))
    name = "{}-{}-{}.whl".format(NAME, version(), _tag())
    entries = [(NAME + ".pth", (os.path.abspath(folder) + "\n").encode(), 0o644), *_metadata_files()]
    _write(os.path.join(wheel_directory, name), [*entries, _record(entries)])
    return name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
