# SPDX-License-Identifier: Apache-2.0
"""What of the interpreter itself belongs to a session: saved with its variables, restored before them."""

import builtins

# Ours, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import contextlib
import fcntl
import gc
import importlib
import os
import pickle
import stat
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from state_modules import note_modules, read_patches, write_patches
from state_texts import ATOMS, reason_of

SOURCES_MAX = 4 << 20  # characters of cells kept for tracebacks

_modules: Dict[str, Any] = sys.modules


def sources(filenames: Set[str]) -> Dict[str, str]:
    """The text of cells that functions come from, for tracebacks."""
    import linecache

    found = {}
    left = SOURCES_MAX
    for name in sorted(filenames):
        entry: Any = linecache.cache.get(name)
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
        self.aspects: Dict[str, Any] = {}
        for name in ASPECTS:
            with contextlib.suppress(Exception):
                self.aspects[name] = _read_aspect(name)
        self.loggers = dict(_loggers())
        self.finalizers = set(_finalizers())
        self.descriptors = _descriptors()
        note_modules(("builtins", "sys", "os"))  # the driver has changed some of it


def interpreter_settings(given: Dict[str, Any], order: List[Any], lose: Any) -> Dict[str, Any]:
    """Of the interpreter: what docs/wire.md lists. given is the driver's."""
    data = {key: given[key] for key in ("base", "flags", "first_cell")}
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
            lose("the current folder", "str", "the folder was removed")
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
OPTIONS: Dict[str, Tuple[Callable[..., Any], Callable[..., object]]] = {
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


# What one sets and expects to stay ------------------------------------------------------------
#
# Each aspect is read as a plain value, which is compared with what it was before the first cell.


def _zone() -> Any:
    return time.tzname, time.timezone, time.altzone, time.daylight


def _write_zone(value: Any) -> None:
    time.tzset()
    if _zone() != value:
        raise ValueError("TZ and what time.tzset() took from it are not the same")


def _read_mask() -> int:
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


CONTEXTS = ("DefaultContext", "BasicContext", "ExtendedContext")


def _contexts() -> List[Any]:
    decimal = _modules["decimal"]
    return [decimal.getcontext()] + [getattr(decimal, name) for name in CONTEXTS]


def _read_decimal() -> Any:
    return [context.__reduce__()[1] for context in _contexts()]


def _write_decimal(value: Any) -> None:
    for context, args in zip(_contexts(), value):
        other = type(context)(*args)
        for name in ("prec", "rounding", "Emin", "Emax", "capitals", "clamp", "flags", "traps"):
            setattr(context, name, getattr(other, name))


def _write_warnings(value: Any) -> None:
    warnings = _modules["warnings"]
    warnings.resetwarnings()
    warnings.filters[:] = value


def _categories() -> Dict[str, int]:
    locale = _modules["locale"]
    return {name: getattr(locale, name) for name in dir(locale) if name.startswith("LC_") and name != "LC_ALL"}


def _write_locale(value: Dict[str, str]) -> None:
    locale = _modules["locale"]
    for name, number in _categories().items():
        if name in value and locale.setlocale(number) != value[name]:
            locale.setlocale(number, value[name])


def _read_numpy() -> Any:
    found = _modules["numpy.random.mtrand"]._rand.get_state(legacy=False)
    inner = dict(found["state"])
    inner["key"] = inner["key"].tolist()
    return dict(found, state=inner)


def _read_logging() -> Any:
    logging = _modules["logging"]
    names = dict(logging._levelToName)
    is_captured = logging._warnings_showwarning is not None
    return logging.root.manager.disable, names, is_captured, logging.getLoggerClass()


def _write_logging(value: Any) -> None:
    logging = _modules["logging"]
    level, names, is_captured, kind = value
    logging.disable(level)
    for number, name in names.items():
        logging.addLevelName(number, name)
    logging.captureWarnings(is_captured)
    logging.setLoggerClass(kind)


def _read_signals() -> Dict[int, Any]:
    signal = _modules["signal"]
    found = {}
    for number in range(1, signal.NSIG):
        if number != signal.SIGINT:  # which is the driver's
            with contextlib.suppress(ValueError, OSError):
                found[number] = signal.getsignal(number)
    return found


def _write_signals(value: Dict[int, Any]) -> None:
    signal = _modules["signal"]
    for number, handler in value.items():
        if handler is not None and signal.getsignal(number) != handler:
            signal.signal(number, handler)


def _read_limits() -> Any:
    digits = getattr(sys, "get_int_max_str_digits", int)()
    return sys.getswitchinterval(), digits


def _write_limits(value: Any) -> None:
    sys.setswitchinterval(value[0])
    getattr(sys, "set_int_max_str_digits", bool)(value[1])


def _read_gc() -> Any:
    return gc.isenabled(), gc.get_threshold(), gc.get_debug()


def _write_gc(value: Any) -> None:
    (gc.enable if value[0] else gc.disable)()
    gc.set_threshold(*value[1])
    gc.set_debug(value[2])


Write = Callable[[Any], object]

# What, as people read it: (module that must be loaded, how it is read, how it is set).
ASPECTS: Dict[str, Tuple[str, Callable[[], Any], Write]] = {
    "the time zone": ("time", _zone, _write_zone),
    "the umask": ("os", _read_mask, os.umask),
    "the decimal context": ("decimal", _read_decimal, _write_decimal),
    "filters of warnings": ("warnings", lambda: list(_modules["warnings"].filters), _write_warnings),
    "the locale": (
        "locale",
        lambda: {name: _modules["locale"].setlocale(number) for name, number in _categories().items()},
        _write_locale,
    ),
    "random numbers": (
        "random",
        lambda: _modules["random"].getstate(),
        lambda value: _modules["random"].setstate(value),
    ),
    "random numbers of numpy": (
        "numpy.random.mtrand",
        _read_numpy,
        lambda value: _modules["numpy.random.mtrand"]._rand.set_state(value),
    ),
    "logging": ("logging", _read_logging, _write_logging),
    "handlers of signals": ("signal", _read_signals, _write_signals),
    "the time limit of sockets": (
        "socket",
        lambda: _modules["socket"].getdefaulttimeout(),
        lambda value: _modules["socket"].setdefaulttimeout(value),
    ),
    "limits of the interpreter": ("sys", _read_limits, _write_limits),
    "garbage collection": ("gc", _read_gc, _write_gc),
}


def _read_aspect(name: str) -> Any:
    module, read, _ = ASPECTS[name]
    return read() if module in _modules else None


# Loggers ------------------------------------------------------------------------------------

LOGGER_OWN = ("name", "manager", "parent", "_cache")
LOGGER_NEW = {"level": 0, "propagate": True, "disabled": False, "handlers": [], "filters": []}


def _loggers() -> Any:
    """(name, what was set) of each logger that is not as it was made."""
    logging = _modules.get("logging")
    if logging is None:
        return
    for name, logger in [("", logging.root)] + list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            own = {key: value for key, value in vars(logger).items() if key not in LOGGER_OWN}
            own["handlers"], own["filters"] = list(logger.handlers), list(logger.filters)
            kind = type(logger)
            if kind is logging.Logger and {type(one) for one in logger.handlers} <= {logging.NullHandler}:
                if dict(own, handlers=[]) == LOGGER_NEW:  # as libraries make theirs
                    continue
            yield name, (kind, own)


def _write_logger(name: str, value: Any) -> None:
    logging = importlib.import_module("logging")
    logger = logging.getLogger(name) if name else logging.root
    kind, own = value
    handlers = [one for one in own["handlers"] if isinstance(one, logging.Handler)]  # the others are lost
    if type(logger) is not kind:
        logger.__class__ = kind
    vars(logger).update(own, handlers=handlers)
    logging.root.manager._clear_cache()


# Descriptors without a file object --------------------------------------------------------------


def _descriptors() -> Dict[int, os.stat_result]:
    """All that are open, and what they lead to."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # the listing itself
                found[int(name)] = os.fstat(int(name))
    return found


def _remembered(names: Dict[Any, Any]) -> Set[int]:
    """Numbers that variables hold."""
    found = set()
    for value in list(names.values()):
        for one in value if type(value) in (tuple, list) and len(value) < 100 else (value,):
            if type(one) is int and one > 2:
                found.add(one)
    return found


def read_descriptors(baseline: Baseline, names: Dict[Any, Any], ours: Set[int], lose: Any) -> List[Any]:
    """Of what os.open() gave: (number, place, path, flags, whether programs inherit it)."""
    found = []
    wanted = _remembered(names)
    for fd, status in _descriptors().items():
        before = baseline.descriptors.get(fd)
        if fd <= 2 or fd in ours or (before is not None and os.path.samestat(before, status)):
            continue
        path, flags = os.readlink("/proc/self/fd/{}".format(fd)), fcntl.fcntl(fd, fcntl.F_GETFL)
        try:
            is_there = os.path.samestat(os.stat(path), status)
        except OSError:
            is_there = False
        if is_there and stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFCHR):
            place = os.lseek(fd, 0, os.SEEK_CUR) if stat.S_ISREG(status.st_mode) else 0
            found.append((fd, place, path, flags, os.get_inheritable(fd)))
        elif fd in wanted:
            lose("descriptor {}".format(fd), "int", "the file behind it cannot be opened again")
            found.append((fd, 0, "/", getattr(os, "O_PATH", 0), False))  # nothing else gets the number
    return found


def restore_descriptors(
    found: List[Any], moved: Callable[[str], str], fail: Callable[[str, BaseException], None]
) -> None:
    for fd, place, path, flags, is_inherited in found:
        try:
            if fd in _descriptors():
                raise ValueError("another open file has this number")
            new = os.open(moved(path), flags)
            if new != fd:
                os.dup2(new, fd)
                os.close(new)
            os.set_inheritable(fd, is_inherited)
            if place:
                os.lseek(fd, place, os.SEEK_SET)
        except Exception as error:
            fail("descriptor {}".format(fd), error)


# All of it ------------------------------------------------------------------------------------

LOGGER, PATCHES = "logger ", "changes to module "
FINALIZERS = "finalizers"


def _finalizers() -> List[Any]:
    import weakref

    return list(getattr(weakref.finalize, "_registry", {}))


def finalizers(baseline: Baseline, is_saved: Callable[[int], bool]) -> List[Any]:
    """Those made since, of objects that are saved."""
    found = []
    for one in _finalizers():
        if one not in baseline.finalizers:
            now = one.peek()
            if now is not None and is_saved(id(now[0])):
                found.append(one)
    return found


def read_ambient(
    baseline: Baseline, names: Dict[Any, Any], own_names: Any, given: Dict[str, Any], lose: Any
) -> Dict[str, Any]:
    """What is not as it was before the first cell: {what: value}. own_names: the driver's."""
    found: Dict[str, Any] = {}
    for name in ASPECTS:
        try:
            value = given["before_fork"].get(name) or _read_aspect(name)
            if value is not None and value != baseline.aspects.get(name):
                if name == "the time zone":
                    _write_zone(value)
                found[name] = value
        except Exception as error:
            lose(name, "setting", reason_of(error))
    for name, value in _loggers():
        if value != baseline.loggers.get(name):
            found[LOGGER + name] = value
    for name, value in read_patches(names, own_names, given["base"]):
        found[PATCHES + name] = value
    for what, is_set in (("sys.settrace()", sys.gettrace()), ("sys.setprofile()", sys.getprofile())):
        if is_set is not None:
            lose(what, "function", "trace functions apply to running code only")
    return found


def write_ambient(name: str, value: Any, moved: Callable[[str], str]) -> None:
    if name.startswith(LOGGER):
        _write_logger(name[len(LOGGER) :], value)
    elif name.startswith(PATCHES):
        write_patches(name[len(PATCHES) :], value, moved)
    elif name in ASPECTS:
        module, _, write = ASPECTS[name]
        importlib.import_module(module)
        write(value)
