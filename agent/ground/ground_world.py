# SPDX-License-Identifier: Apache-2.0
"""Modules: files of the project, which are read, and installed modules, which are imported here."""

import ast
import contextlib
import difflib
import functools
import importlib
import importlib.util
import io
import os
import re
import sys
import warnings
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Sequence, Tuple, Union

from ground_names import Source

FILE_MAX = 2 << 20
PROJECT_FILES = 5000
SKIPPED = {"node_modules", "__pycache__", "site-packages", "venv", "build", "dist"}


@functools.lru_cache(maxsize=None)
def words_of(name: str) -> FrozenSet[str]:
    return frozenset(part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name))


def nearest(name: str, among: Iterable[str]) -> str:
    """The most similar name, by letters and by words."""
    best, best_score = "", 0.5
    mine, plain = words_of(name), name.lower().replace("_", "")
    matcher = difflib.SequenceMatcher(None, "", plain)
    for other in among:
        theirs = words_of(other)
        shared = len(mine & theirs) / (len(mine | theirs) or 1)
        is_part = mine > theirs and bool(theirs)
        matcher.set_seq1(other.lower().replace("_", ""))
        for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio):  # the first two are upper bounds
            letters = ratio()
            score = max(letters, 0.4 * letters + 0.6 * shared, 0.35 + 0.3 * letters if is_part else 0)
            if score <= best_score:
                break
        else:
            if other != name:
                best, best_score = other, score
    return best


class World:
    """Finds modules: files of the project are read, installed modules are imported."""

    def __init__(self, top: str) -> None:
        self.top = os.path.realpath(top)
        self.sources: Dict[str, Optional[Source]] = {}
        self.real: Dict[str, Any] = {}
        self.why_deprecated: Dict[str, str] = {}
        self.files: Optional[List[str]] = None
        self.defined: Optional[Dict[str, Tuple[str, int]]] = None
        self.classes: Dict[ast.AST, Tuple[Dict[str, Any], bool]] = {}
        sys.path[:] = [path for path in sys.path if path and not self.is_inside(path)]
        self.requirements = False  # of the checked file

    def is_inside(self, path: str) -> bool:
        return (os.path.realpath(path) + "/").startswith(self.top + "/")

    def read_requirements(self, path: str) -> bool:
        """Whether a folder above a file lists required packages: a missing module may be in one of them."""
        folder = os.path.dirname(path)
        while not self.says_requirements(folder):
            if folder == self.top or not self.is_inside(folder):
                return False
            folder = os.path.dirname(folder)
        return True

    def says_requirements(self, folder: str) -> bool:
        for name in ("requirements.txt", "requirements-dev.txt", "pyproject.toml", "setup.cfg", "setup.py", "Pipfile",
                     "environment.yml"):
            text = self.read(os.path.join(folder, name))
            if text is not None and (name.startswith("req") or re.search(r"requires|dependencies|packages", text)):
                return True
        return False

    def read(self, path: str) -> Optional[str]:
        try:
            if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > FILE_MAX:
                return None
            with open(path, "rb") as file:
                return importlib.util.decode_source(file.read())
        except (OSError, SyntaxError, UnicodeDecodeError, LookupError):
            return None

    def source(self, path: str, name: str) -> Optional[Source]:
        if path not in self.sources:
            self.sources[path] = None
            text = self.read(path)
            with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                if text is not None:
                    self.sources[path] = Source(path, name, text)
        return self.sources[path]

    def each_file(self) -> List[str]:
        """Python files of the project, at most PROJECT_FILES."""
        if self.files is None:
            self.files = []
            for folder, folders, names in os.walk(self.top):
                folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
                self.files += [os.path.join(folder, name) for name in sorted(names) if name.endswith((".py", ".pyi"))]
                if len(self.files) > PROJECT_FILES:
                    break
        return self.files

    def definitions(self) -> Dict[str, Tuple[str, int]]:
        """Functions and classes of the project's modules, with their places."""
        if self.defined is None:
            self.defined = {}
            for path in self.each_file():
                text = self.read(path) or ""
                line, at = 1, 0
                for found in re.finditer(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", text, re.M):
                    line, at = line + text.count("\n", at, found.start()), found.start()
                    self.defined.setdefault(found.group(1), (path, line))
        return self.defined

    def roots(self, source: Source) -> List[str]:
        """Folders that may be the root of module names in a file."""
        folder = os.path.dirname(source.path)
        found = [folder]
        while self.is_inside(folder) and os.path.realpath(folder) != self.top:
            folder = os.path.dirname(folder)
            found.append(folder)
        return [*found, os.path.join(self.top, "src"), os.path.join(self.top, "lib")]

    def project_module(self, name: str, source: Source) -> Union[Source, str, None]:
        """A source; "": unreadable; the path of a folder without __init__.py; None: the project has no such module."""
        if not self.is_inside(source.path):
            return None
        roots = self.roots(source)
        packages = [root for root in roots if os.path.isfile(os.path.join(root, "__init__.py"))]
        found = self.find_below([root for root in roots if root not in packages], name)
        if found is None and packages and self.real_module(name.split(".")[0]) is None:
            found = self.find_below(packages, name)  # a program inside a package
        return None if found is source else found  # adapters/flask.py imports another flask

    def find_below(self, roots: Sequence[str], name: str) -> Union[Source, str, None]:
        for root in roots:
            place = os.path.join(root, *name.split("."))
            if not self.is_inside(place):
                continue
            for path in (place + ".py", os.path.join(place, "__init__.py"), place + ".pyi"):
                if os.path.isfile(path):
                    return self.source(path, self.name_of(path)) or ""
            if os.path.isdir(place) and (self.has_python(place) or "." in name):
                return place
        return None

    def has_python(self, folder: str) -> bool:
        try:
            return any(name.endswith((".py", ".so")) or os.path.isdir(os.path.join(folder, name))
                       for name in os.listdir(folder))
        except OSError:
            return False

    def name_of(self, path: str) -> str:
        """The import name of a file: packages are folders with __init__.py."""
        folder, name = os.path.split(path)
        parts = [] if name == "__init__.py" else [name.rsplit(".", 1)[0]]
        while os.path.isfile(os.path.join(folder, "__init__.py")) and self.is_inside(folder):
            folder, last = os.path.split(folder)
            parts.insert(0, last)
        return ".".join(parts)

    def real_module(self, name: str) -> Any:
        """An installed module; None: not installed; False: installed, but it cannot be imported here."""
        if name not in self.real:
            self.real[name] = self.import_real(name)
        return self.real[name]

    def import_real(self, name: str) -> Any:
        if name in sys.modules and name != "__main__":
            return sys.modules[name]
        try:
            parent = name.rpartition(".")[0]
            if parent and not self.real_module(parent):
                return self.real_module(parent)
            if importlib.util.find_spec(name) is None:
                return None
        except ModuleNotFoundError:
            return None
        except Exception:
            return False
        try:
            with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()), \
                    contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("always")
                module = importlib.import_module(name)
            for warning in caught:
                if issubclass(warning.category, (DeprecationWarning, PendingDeprecationWarning)) and \
                        name.split(".")[0] in str(warning.message):
                    self.why_deprecated[name] = str(warning.message).splitlines()[0][:200]
            return module
        except BaseException:
            return False

    def source_of_real(self, thing: Any) -> Optional[Source]:
        """The source that defines a class or function of an installed module."""
        module = sys.modules.get(getattr(thing, "__module__", None) or "")
        path = getattr(module, "__file__", None)
        if module is None or not isinstance(path, str) or not path.endswith(".py"):
            return None
        return self.source(path, module.__name__)
