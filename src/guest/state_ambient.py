# SPDX-License-Identifier: Apache-2.0
"""What of the interpreter itself belongs to a session: saved with its variables, restored before them."""

import builtins

# Ours, as in driver.py.
__builtins__ = dict(vars(builtins))

import importlib
import os
import pickle
import sys
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from state_texts import ATOMS, reason_of

SOURCES_MAX = 4 << 20  # characters of cells kept for tracebacks

_modules = sys.modules


def sources(filenames: Set[str]) -> Dict[str, str]:
    """The text of cells that functions come from, for tracebacks."""
    import linecache

    found = {}
    left = SOURCES_MAX
    for name in sorted(filenames):
        entry = linecache.cache.get(name)
        if entry is not None and len(entry) == 4:
            text = "".join(entry[2])
            left -= len(text)
            if left >= 0:
                found[name] = text
    return found


def restore_sources(texts: Dict[str, str]) -> None:
    import linecache

    for name, text in texts.items():
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)


class Baseline:
    """What the interpreter was like before its first cell."""

    def __init__(self) -> None:
        self.environ = dict(os.environ)
        self.path = list(sys.path)
        self.recursion_limit = sys.getrecursionlimit()


def interpreter_settings(given: Dict[str, Any], order: List[Any], lose: Any) -> Dict[str, Any]:
    """Of the interpreter: what docs/wire.md lists. given is the driver's."""
    data = {key: value for key, value in given.items() if key != "baseline"}
    baseline = given["baseline"]
    now = dict(os.environ)
    data["python"] = list(sys.version_info[:3])
    data["set"] = {k: v for k, v in now.items() if baseline.environ.get(k) != v}
    data["unset"] = [k for k in baseline.environ if k not in now]
    data["path"] = [entry for entry in sys.path if type(entry) is str]
    data["base_path"] = baseline.path
    limit = sys.getrecursionlimit()
    data["recursion_limit"] = limit if limit != baseline.recursion_limit else None
    data["order"] = [name for name in order if type(name) in ATOMS]
    data["cwd"] = None
    if given["base"] is not None:  # else no cell has begun, which is when it gets its folder
        try:
            data["cwd"] = os.getcwd()
        except OSError:
            lose("the current folder", "str", "it was removed")
    data["options"] = {}
    for name, (read, _) in OPTIONS.items():
        if name in _modules:
            try:
                options = read(_modules[name])
                data["options"][name] = pickle.dumps(options, 5)
            except Exception as error:
                lose("options of " + name, "dict", reason_of(error))
    return data


def _read_pandas(pandas: Any) -> Dict[str, Any]:
    registered = pandas._config.config._registered_options
    found = {}
    for key, option in registered.items():
        value = pandas._config.config._get_option(key, silent=True)
        if type(value) in ATOMS and value != option.defval:
            found[key] = value
    return found


def _write_pandas(pandas: Any, options: Dict[str, Any]) -> None:
    for key, value in options.items():
        pandas.set_option(key, value)


def _read_matplotlib(matplotlib: Any) -> Dict[str, Any]:
    default = matplotlib.rcParamsDefault
    found = {}
    for key, value in dict.items(matplotlib.rcParams):
        if key.startswith(("backend", "interactive")) or key not in default:
            continue
        if value != dict.__getitem__(default, key):
            found[key] = value
    return found


# Options of libraries that people set once and expect to stay.
OPTIONS: Dict[str, Tuple[Callable[..., Any], Callable[..., None]]] = {
    "numpy": (
        lambda numpy: numpy.get_printoptions(),
        lambda numpy, options: numpy.set_printoptions(**options),
    ),
    "pandas": (_read_pandas, _write_pandas),
    "matplotlib": (_read_matplotlib, lambda plot, options: plot.rcParams.update(options)),
}


def restore_settings(
    settings: Dict[str, Any], baseline: Baseline, base: Optional[str], moved: Callable[[str], str]
) -> None:
    """What interpreter_settings() found. base: the folder cells start in."""
    for key in settings["unset"]:
        os.environ.pop(key, None)
    for key, value in settings["set"].items():
        os.environ[key] = moved(value)
    _restore_path(settings, baseline, moved)
    if settings["recursion_limit"] is not None:
        sys.setrecursionlimit(settings["recursion_limit"])
    if settings["cwd"] is not None and base is not None:
        os.chdir(moved(settings["cwd"]))


def _restore_path(settings: Dict[str, Any], baseline: Baseline, moved: Callable[[str], str]) -> None:
    saved, old = settings["path"], settings["base_path"]
    if old == baseline.path:
        sys.path[:] = [moved(entry) for entry in saved]
        return
    # Another installation: what it has itself, and what the session added.
    added = [moved(entry) for entry in saved if entry not in old]
    sys.path[:] = added + [entry for entry in sys.path if entry not in added]


def restore_options(options: Dict[str, bytes], fail: Callable[[str, BaseException], None]) -> None:
    for name, data in options.items():
        try:
            OPTIONS[name][1](importlib.import_module(name), pickle.loads(data))
        except Exception as error:
            fail("options of " + name, error)
