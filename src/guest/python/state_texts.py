# SPDX-License-Identifier: Apache-2.0
"""Texts about variables for users: types, summaries, and why one was not saved."""

import builtins

# A private copy, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import collections
import pickle
import sys
import types
from typing import Any, Dict, Iterable

NAME_MAX = 200  # characters shown of a name
REASON_MAX = 300
SUMMARY_MAX = 200

TICK_S = 0.05  # interval of time checks for a root
ROOT_PART = 0.5  # of the remaining time, for one root

# Types saved without a search for shared objects.
ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes))

_modules: Dict[str, Any] = sys.modules
_type_name = vars(type)["__name__"].__get__  # ignores overrides in metaclasses
_type_qualname = vars(type)["__qualname__"].__get__
_type_module = vars(type)["__module__"].__get__
_type_bases = vars(type)["__bases__"].__get__
_type_dict = vars(type)["__dict__"].__get__


class Refused(Exception):
    """An object that is not saved or restored; the text says why."""


class Slow(BaseException):
    """A root has exceeded its time."""


def clean(text: Any, limit: int) -> str:
    """At most limit characters that UTF-8 can carry."""
    if type(text) is not str:
        text = str.__str__(text) if isinstance(text, str) else "?"
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    cut: str = text.encode("utf-8", "backslashreplace").decode("utf-8")[:limit]
    return cut


def type_name(value: Any) -> str:
    return class_name(type(value))


def class_name(kind: type) -> str:
    """The name of a class for users: with the module, except for builtins and the session's classes."""
    try:
        module = _type_module(kind)
    except AttributeError:
        module = None
    name = _type_qualname(kind)
    if type(module) is str and module not in ("builtins", "__main__"):
        name = module + "." + name
    return clean(name, NAME_MAX)


THREAD = "threads cannot be saved"
LOCK = "locks on files cannot be saved"
REASONS = {
    types.GeneratorType: "generators cannot be saved",
    types.CoroutineType: "coroutines cannot be saved",
    types.AsyncGeneratorType: "generators cannot be saved",
    types.FrameType: "frames cannot be saved",
    types.TracebackType: "tracebacks cannot be saved: their frames have ended",
}
REASONS_BY_NAME = {
    "socket.socket": "connections cannot be saved",
    "ssl.SSLSocket": "connections cannot be saved",
    "sqlite3.Connection": "connections cannot be saved",
    "threading.Thread": THREAD,
    "_thread.lock": "locks of running threads cannot be saved",
    "_thread.RLock": "locks of running threads cannot be saved",
    "subprocess.Popen": "running processes cannot be saved",
    "_asyncio.Task": "asyncio tasks cannot be saved",
    "_asyncio.Future": "futures of a running event loop cannot be saved",
}
OURS = (TypeError, pickle.PicklingError, AttributeError)


def why_of(error: BaseException) -> Dict[str, str]:
    """Why something was not restored: a text, and the limit that was met, if any."""
    cause = {Slow: "timeout", MemoryError: "memory"}.get(type(error))
    return {"reason": reason_of(error), **({"cause": cause} if cause else {})}


def reason_of(error: BaseException, value: Any = None) -> str:
    """Why something was not saved or restored; runs no code of the session."""
    kind = type(error)
    if kind is Slow:
        return "it took too long"
    if kind is MemoryError:
        return "not enough memory"
    if kind is RecursionError:
        return "it is nested too deeply"
    text = ""
    args = error.args
    if type(args) is tuple and args and type(args[0]) is str:
        text = args[0]
    elif isinstance(error, OSError) and type(error.strerror) is str:
        text = error.strerror
    if kind is Refused:
        return clean(text, REASON_MAX)
    found = REASONS.get(type(value)) or REASONS_BY_NAME.get(class_name(type(value)))
    if found is not None:
        return found
    if kind in OURS and text:
        return clean(text, REASON_MAX)
    return clean("{}: {}".format(_type_name(kind), text), REASON_MAX)


def _first(names: Iterable[Any], most: int = 5) -> str:
    names = [name if type(name) is str else "?" for name in list(names)[:most]]
    return ", ".join(names)


def _signature(function: types.FunctionType) -> str:
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[:count])
    if code.co_kwonlyargcount:
        names.insert(code.co_argcount, "*")
    return "({})".format(", ".join(names))


def summarize(value: Any) -> str:
    """A description of a variable for users; runs no session code."""
    return clean(_summary(value), SUMMARY_MAX)


def _summary(value: Any) -> str:
    kind = type(value)
    if kind in (type(None), bool, float, complex):
        return repr(value)
    if kind is int:
        bits = value.bit_length()
        return repr(value) if bits < 500 else "an integer of {} bits".format(bits)
    if kind in (str, bytes):
        return repr(value[:SUMMARY_MAX])
    if kind in (list, tuple, set, frozenset, bytearray, collections.deque):
        return "{} items".format(len(value))
    if kind is dict:
        return "{} items: {}".format(len(value), _first(value))
    if kind is types.FunctionType:
        return "{}{}".format(clean(value.__name__, 100), _signature(value))
    if kind is types.ModuleType:
        return clean(vars(value).get("__name__"), 100)
    if issubclass(kind, type):
        return "class {}".format(class_name(value))
    return _summary_of_array(value, kind)


def _summary_of_array(value: Any, kind: type) -> str:
    numpy, pandas = _modules.get("numpy"), _modules.get("pandas")
    if kind is getattr(numpy, "ndarray", None):
        return "{} of {}".format(" x ".join(map(str, value.shape)) or "one", value.dtype)
    if kind is getattr(pandas, "DataFrame", None):
        return "{} rows x {} columns: {}".format(*value.shape, _first(value.columns))
    if kind is getattr(pandas, "Series", None):
        return "{} values of {}".format(len(value), value.dtype)
    return ""
