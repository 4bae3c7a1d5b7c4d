# SPDX-License-Identifier: Apache-2.0
"""Interpreter state that belongs to a session: saved with its variables, restored before them."""

import builtins

# A private copy, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import contextlib
import copy
import fcntl
import gc
import importlib
import os
import pickle
import stat
import sys
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

from state_modules import STATE_OF, note_modules, read_abstract, read_modules, read_patches, read_registries
from state_modules import write_abstract, write_patches, write_registry
from state_objects import Lost
from state_texts import ATOMS, class_name, reason_of

SOURCES_MAX = 4 << 20  # characters of cells kept for tracebacks

_modules: Dict[str, Any] = sys.modules


def sources(filenames: Set[str]) -> Dict[str, str]:
    """The text of cells that define functions, for tracebacks."""
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
    """The interpreter's state before its first cell."""

    def __init__(self) -> None:
        self.environ = dict(os.environ)
        self.path = list(sys.path)
        self.recursion_limit = sys.getrecursionlimit()
        self.aspects: Dict[str, Any] = {}
        for name in ASPECTS:
            if name not in FROM_DEFAULTS:
                with contextlib.suppress(Exception):
                    self.aspects[name] = _read_aspect(name)
        self.loggers = dict(_loggers())
        self.finalizers = set(_finalizers())
        self.descriptors = _descriptors()
        note_modules(("builtins", "sys", "os"))  # the driver has changed some of their attributes


def interpreter_settings(given: Dict[str, Any], order: List[Any], lose: Any) -> Dict[str, Any]:
    """The interpreter's settings, listed in docs/wire.md. given: from the driver."""
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
    if given["base"] is not None:  # else no cell has begun, and the folder is not set
        try:
            data["cwd"] = os.getcwd()
        except OSError:
            lose("the current folder", "str", "the folder was removed")
    return data


def restore_settings(
    settings: Dict[str, Any], baseline: Baseline, base: Optional[str], moved: Callable[[str], str]
) -> None:
    """Restore the settings of interpreter_settings(). base: the initial folder of cells."""
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
    # Another installation: keep its entries, and those that the session added.
    added = [moved(entry) for entry in saved if entry not in old]
    sys.path[:] = added + [entry for entry in sys.path if entry not in added]


def restore_options(options: Dict[str, bytes], fail: Callable[[str, BaseException], None]) -> None:
    """Restore options from a checkpoint of an older version."""
    for name, data in options.items():
        try:
            write_ambient("options of " + name, pickle.loads(data), str)
        except Exception as error:
            fail("options of " + name, error)


# Settings that users expect to persist ------------------------------------------------------------
#
# Each aspect is read as a value and compared with its value before the first cell.


def _zone() -> Any:
    return time.tzname, time.timezone, time.altzone, time.daylight


def _write_zone(value: Any) -> None:
    time.tzset()
    if _zone() != value:
        raise ValueError("TZ has changed since time.tzset() was called")


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


def _numpy_errors() -> Any:
    numpy = _modules["numpy"]
    return numpy.geterr(), numpy.geterrcall(), numpy.getbufsize()


def _write_numpy_errors(value: Any) -> None:
    numpy = _modules["numpy"]
    numpy.seterr(**value[0])
    numpy.seterrcall(value[1])
    numpy.setbufsize(value[2])


def _read_pandas() -> Any:
    config = _modules["pandas"]._config.config
    found = {}
    for key, option in config._registered_options.items():
        value = config._get_option(key, silent=True)
        if value is not option.defval and value != option.defval:
            found[key] = value
    return found or None


def _write_pandas(value: Dict[str, Any]) -> None:
    for key, one in kept(value).items():
        _modules["pandas"].set_option(key, one)


def _read_matplotlib() -> Any:
    default, found = _modules["matplotlib"].rcParamsDefault, {}
    for key, value in dict.items(_modules["matplotlib"].rcParams):
        if not key.startswith(("backend", "interactive")) and key in default:
            if value != dict.__getitem__(default, key):
                found[key] = value
    return found or None


DIALECT = "delimiter doublequote escapechar lineterminator quotechar quoting skipinitialspace strict".split()


def _read_csv() -> Any:
    csv = _modules["csv"]
    dialects = {name: csv.get_dialect(name) for name in csv.list_dialects()}
    found = {name: {key: getattr(dialect, key) for key in DIALECT} for name, dialect in dialects.items()}
    return found, csv.field_size_limit()


def _write_csv(value: Any) -> None:
    csv = _modules["csv"]
    dialects, limit = value
    for name in csv.list_dialects():
        if name not in dialects:
            csv.unregister_dialect(name)
    for name, how in dialects.items():
        csv.register_dialect(name, **how)
    csv.field_size_limit(limit)


TYPES = ("encodings_map", "suffix_map", "types_map", "types_map_inv")


def _read_types() -> Any:
    """None until the first lookup of a type."""
    known = _modules["mimetypes"]._db
    return known and [copy.deepcopy(getattr(known, name)) for name in TYPES]


def _write_types(value: Any) -> None:
    mimetypes = _modules["mimetypes"]
    mimetypes.init()
    known = mimetypes._db
    for name, one in zip(TYPES, value):
        setattr(known, name, one)
    mimetypes.encodings_map, mimetypes.suffix_map = known.encodings_map, known.suffix_map
    mimetypes.common_types, mimetypes.types_map = known.types_map


def _read_resources() -> Any:
    resource = _modules["resource"]
    numbers = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
    return {name: resource.getrlimit(number) for name, number in numbers.items()}


def _write_resources(value: Dict[str, Any]) -> None:
    resource = _modules["resource"]
    for name, limit in value.items():
        resource.setrlimit(getattr(resource, name), limit)


def _read_streams() -> Any:
    found = []
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, "__{}__".format(name))
        found.append({key: getattr(stream, key) for key in ("encoding", "errors", "line_buffering", "write_through")})
    return found


def _write_streams(value: Any) -> None:
    for name, how in zip(("stdin", "stdout", "stderr"), value):
        getattr(sys, "__{}__".format(name)).reconfigure(**how)


def _write_threads(value: Any) -> None:
    threading = _modules["threading"]
    threading.stack_size(value[0])
    threading.excepthook = value[1]


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
        if number != signal.SIGINT:  # the driver's
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

# Aspects by display name: (module that must be loaded, reader, writer).
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
    "options of numpy": (
        "numpy",
        lambda: _modules["numpy"].get_printoptions(),
        lambda value: _modules["numpy"].set_printoptions(**kept(value)),
    ),
    "errors of numpy": ("numpy", _numpy_errors, _write_numpy_errors),
    "options of pandas": ("pandas", _read_pandas, _write_pandas),
    "options of matplotlib": (
        "matplotlib",
        _read_matplotlib,
        lambda value: _modules["matplotlib"].rcParams.update(kept(value)),
    ),
    "the first day of weeks": (
        "calendar",
        lambda: _modules["calendar"].firstweekday(),
        lambda value: _modules["calendar"].setfirstweekday(value),
    ),
    "dialects of csv": ("csv", _read_csv, _write_csv),
    "types of files": ("mimetypes", _read_types, _write_types),
    "limits of resources": ("resource", _read_resources, _write_resources),
    "standard streams": ("sys", _read_streams, _write_streams),
    "settings of threads": (
        "threading",
        lambda: (_modules["threading"].stack_size(), _modules["threading"].excepthook),
        _write_threads,
    ),
    "how processes are started": (
        "multiprocessing",
        lambda: _modules["multiprocessing"].get_start_method(allow_none=True),
        lambda value: _modules["multiprocessing"].set_start_method(value, force=True),
    ),
    "certificates of https": (
        "ssl",
        lambda: _modules["ssl"]._create_default_https_context,
        lambda value: setattr(_modules["ssl"], "_create_default_https_context", value),
    ),
    "the path of time zones": (
        "zoneinfo",
        lambda: _modules["zoneinfo"].TZPATH,
        lambda value: _modules["zoneinfo"].reset_tzpath(value),
    ),
    "faulthandler": (
        "faulthandler",
        lambda: _modules["faulthandler"].is_enabled() or None,
        lambda _: _modules["faulthandler"].enable(2),
    ),
    "tracemalloc": (
        "tracemalloc",
        lambda: _modules["tracemalloc"].is_tracing() and _modules["tracemalloc"].get_traceback_limit() or None,
        lambda value: _modules["tracemalloc"].start(value),
    ),
}
FROM_DEFAULTS = ("options of pandas", "options of matplotlib")  # values that differ from the defaults


def kept(value: Dict[str, Any]) -> Dict[str, Any]:
    """The values that could be saved."""
    return {key: one for key, one in value.items() if type(one) is not Lost}


def _read_aspect(name: str) -> Any:
    module, read, _ = ASPECTS[name]
    return read() if module in _modules else None


# Loggers ------------------------------------------------------------------------------------

LOGGER_OWN = ("name", "manager", "parent", "_cache")
LOGGER_NEW = {"level": 0, "propagate": True, "disabled": False, "handlers": [], "filters": []}


def _loggers() -> Any:
    """(name, changed settings) of each logger that has any."""
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
    """All open descriptors, and their status."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # the listing itself
                found[int(name)] = os.fstat(int(name))
    return found


def _remembered(names: Dict[Any, Any]) -> Set[int]:
    """Numbers held by variables."""
    found = set()
    for value in list(names.values()):
        for one in value if type(value) in (tuple, list) and len(value) < 100 else (value,):
            if type(one) is int and one > 2:
                found.add(one)
    return found


def read_descriptors(baseline: Baseline, names: Dict[Any, Any], ours: Set[int], lose: Any) -> List[Any]:
    """Descriptors from os.open(): (number, place, path, flags, whether programs inherit it)."""
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
            lose("descriptor {}".format(fd), "int", "its file cannot be opened again")
            found.append((fd, 0, "/", getattr(os, "O_PATH", 0), False))  # reserves the number
    return found


def restore_descriptors(
    found: List[Any], moved: Callable[[str], str], fail: Callable[[str, BaseException], None]
) -> None:
    for fd, place, path, flags, is_inherited in found:
        try:
            if fd in _descriptors():
                raise ValueError("another open file has this descriptor number")
            new = os.open(moved(path), flags)
            if new != fd:
                os.dup2(new, fd)
                os.close(new)
            os.set_inheritable(fd, is_inherited)
            if place:
                os.lseek(fd, place, os.SEEK_SET)
        except Exception as error:
            fail("descriptor {}".format(fd), error)


# All state ------------------------------------------------------------------------------------

LOGGER, PATCHES, REGISTRY = "logger ", "changes to module ", "entries of "
ABSTRACT = "registrations with "
FINALIZERS = "finalizers"


def _finalizers() -> List[Any]:
    import weakref

    return list(getattr(weakref.finalize, "_registry", {}))


def finalizers(baseline: Baseline, is_saved: Callable[[int], bool]) -> List[Any]:
    """Finalizers made since, of saved objects."""
    found = []
    for one in _finalizers():
        if one not in baseline.finalizers:
            now = one.peek()
            if now is not None and is_saved(id(now[0])):
                found.append(one)
    return found


def read_ambient(
    baseline: Baseline, names: Dict[Any, Any], is_part: Callable[[Any], bool], given: Dict[str, Any], lose: Any
) -> Dict[str, Any]:
    """Aspects changed since the first cell: {aspect: value}. is_part: whether a namespace is the driver's."""
    found: Dict[str, Any] = {}
    for name in ASPECTS:
        try:
            value = given["before_fork"].get(name) or _read_aspect(name)
            if value is not None and value != baseline.aspects.get(name):
                if name == "the time zone":
                    _write_zone(value)
                elif name == "limits of resources":  # the sandbox sets the others
                    value = dict(value.items() - baseline.aspects[name].items())
                found[name] = value
        except Exception as error:
            lose(name, "setting", reason_of(error))
    for name, value in _loggers():
        if value != baseline.loggers.get(name):
            found[LOGGER + name] = value
    workspace = (given["base"] or "/workspace") + "/"
    parts: Tuple[Tuple[str, Callable[[], Iterable[Tuple[str, Any]]]], ...] = (
        (STATE_OF, lambda: read_modules(workspace)),
        (PATCHES, lambda: read_patches(names, is_part, workspace)),
        (REGISTRY, lambda: read_registries(workspace)),
        (ABSTRACT, read_abstract),
    )
    for prefix, read in parts:
        try:
            found.update({prefix + name: value for name, value in read()})
        except Exception as error:
            lose(prefix + "modules", "setting", reason_of(error))
    threading = _modules.get("threading")
    for what, is_set in (
        ("sys.settrace()", sys.gettrace()),
        ("sys.setprofile()", sys.getprofile()),
        ("threading.settrace()", getattr(threading, "_trace_hook", None)),
        ("threading.setprofile()", getattr(threading, "_profile_hook", None)),
    ):
        if is_set is not None:
            lose(what, "function", "trace functions apply to running code only")
    policy = getattr(_modules.get("asyncio.events"), "_event_loop_policy", None)
    if policy is not None and not type(policy).__module__.startswith("asyncio"):
        lose("the event loop policy", class_name(type(policy)), "event loops cannot be saved")
    return found


def write_ambient(name: str, value: Any, moved: Callable[[str], str]) -> None:
    if name.startswith(LOGGER):
        _write_logger(name[len(LOGGER) :], value)
    elif name.startswith(PATCHES):
        write_patches(name[len(PATCHES) :], value, moved)
    elif name.startswith(REGISTRY):
        write_registry(name[len(REGISTRY) :], value)
    elif name.startswith(ABSTRACT):
        write_abstract(value)
    elif name in ASPECTS:
        module, _, write = ASPECTS[name]
        importlib.import_module(module)
        write(value)
