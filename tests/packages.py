# SPDX-License-Identifier: Apache-2.0
"""Packages, virtual environments and interpreters for tests, made from nothing and offline."""

import base64
import glob
import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping

from lib import Sandbox

PYTHON = "/usr/bin/python3"


def wheel(folder: str, name: str, files: Mapping[str, str], version: str = "1.0", scripts: str = "") -> None:
    """A wheel of these {path: text} in folder."""
    info = f"{name}-{version}.dist-info"
    files = {**files, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    if scripts:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{scripts}\n"
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    os.makedirs(folder, exist_ok=True)
    with zipfile.ZipFile(os.path.join(folder, f"{name}-{version}-py3-none-any.whl"), "w") as out:
        for path, text in files.items():
            out.writestr(path, text)


def venv(folder: str, files: Mapping[str, str], python: str = PYTHON) -> str:
    """A virtual environment without pip whose site-packages hold these {path: text}."""
    subprocess.run([python, "-I", "-m", "venv", "--without-pip", folder], check=True)
    site, = glob.glob(os.path.join(folder, "lib", "python3*", "site-packages"))
    for path, text in files.items():
        path = os.path.join(site, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as out:
            out.write(text)
    return folder


def own(box: Sandbox, folder: str) -> str:
    """Give a folder and all in it to the user of a sandbox."""
    subprocess.run(["chown", "-RhP", f"{box.uid}:{box.uid}" if box.uid else "0:0", folder], check=True)
    return folder


def installation(folder: str, python: str = PYTHON) -> str:
    """A copy of an interpreter and its standard library with a prefix of its own; its program."""
    ask = "import sys, os; print('%d.%d' % sys.version_info[:2], sys.base_prefix, os.path.realpath(sys.executable))"
    version, prefix, program = subprocess.run([python, "-I", "-S", "-c", ask], check=True, text=True,
                                              stdout=subprocess.PIPE).stdout.split()
    os.makedirs(os.path.join(folder, "bin"))
    shutil.copy(program, os.path.join(folder, "bin", "python" + version))
    shutil.copytree(os.path.join(prefix, "lib", "python" + version), os.path.join(folder, "lib", "python" + version),
                    symlinks=True, ignore=shutil.ignore_patterns(
                        "test", "tests", "site-packages", "dist-packages", "__pycache__", "idlelib", "lib2to3",
                        "config-*", "pydoc_data", "turtledemo", "tkinter", "*.a"))
    return os.path.join(folder, "bin", "python" + version)


def other_pythons() -> list[str]:
    """Programs of CPython >= 3.8 that are not the system's: other versions, other builds."""
    found: list[str] = []
    places = ["/usr/bin/python3.*-dbg", "/usr/local/bin/python3.[0-9]*", "/opt/python*/bin/python3.[0-9]*",
              "/root/.pyenv/versions/*/bin/python3.[0-9]*",
              os.path.expanduser("~/.pyenv/versions/*/bin/python3.[0-9]*")]
    check = "import sys; assert sys.version_info >= (3, 8) and sys.implementation.name == 'cpython'"
    for place in places:
        for path in sorted(glob.glob(place)):
            known = [os.path.realpath(each) for each in found]
            if path.endswith(("-config", "-gdb.py")) or os.path.realpath(path) in known:
                continue
            if subprocess.run([path, "-I", "-S", "-c", check], stderr=subprocess.DEVNULL).returncode == 0:
                found.append(path)
    return found


def version(python: str = PYTHON) -> str:
    """"3.11" """
    return subprocess.run([python, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], check=True,
                          text=True, stdout=subprocess.PIPE).stdout.strip()
