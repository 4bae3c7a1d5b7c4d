# SPDX-License-Identifier: Apache-2.0
"""Objects that need more than pickle knows to be kept: how they are taken apart and made again."""

import builtins

# Ours, as in driver.py.
__builtins__ = dict(vars(builtins))

import functools
import io
import os
import stat
import sys
import types
import weakref
from typing import Any, Dict, NamedTuple, Optional

from state_texts import Refused, clean


class Work:
    """Who reads pickles now: what makes objects again acts for it."""

    loader: Any = None


work = Work()


def _lru_cache(function: Any, maxsize: Any, typed: bool, attributes: Dict[str, Any]) -> Any:
    made = functools.lru_cache(maxsize=maxsize, typed=typed)(function)
    made.__dict__.update(attributes)
    return made


def _cached_property(function: Any, name: Any, doc: Any) -> Any:
    made = functools.cached_property(function)
    made.attrname = name
    made.__doc__ = doc
    return made


def _stdio(name: str, is_buffer: bool) -> Any:
    stream = getattr(sys, "__" + name + "__")
    return stream.buffer if is_buffer else stream


def _weak_ref(*things: Any) -> Any:
    return weakref.ref(*things or (set(),))  # of nothing: one that is dead at once


class FileState(NamedTuple):
    """An open file, or one that was closed."""

    kind: str  # text, buffered, raw
    name: Any
    mode: str
    path: Optional[str]  # None: it is closed
    position: int
    encoding: str
    errors: str


FILE_KINDS = {io.TextIOWrapper: "text", io.BufferedReader: "buffered", io.FileIO: "raw"}


def _file(*values: Any) -> Any:
    state = FileState(*values)
    path = "/dev/null" if state.path is None else work.loader.moved(state.path)
    if state.path is not None and not os.path.isfile(path):
        raise Refused("the file {} is not there".format(clean(path, 150)))
    raw = io.FileIO(path, "rb")
    made: Any = raw
    if state.kind != "raw":
        made = io.BufferedReader(raw)
    if state.kind == "text":
        made = io.TextIOWrapper(made, state.encoding, state.errors)
        made.mode = state.mode
    raw.name = state.name  # type: ignore[misc]
    if state.path is None:
        made.close()
    else:
        made.seek(state.position)
    return made


def _reduce_method(method: Any) -> Any:
    function, owner = method.__func__, method.__self__
    name = getattr(function, "__name__", None)
    found = getattr(owner, name, None) if type(name) is str else None
    if type(found) is types.MethodType:
        if found.__func__ is function and found.__self__ is owner:
            return getattr, (owner, name)
    return types.MethodType, (function, owner)


def _reduce_lru_cache(wrapper: Any) -> Any:
    if hasattr(wrapper, "cache_parameters"):  # Python 3.9
        how = wrapper.cache_parameters()
    else:
        how = {"maxsize": wrapper.cache_info().maxsize, "typed": False}
    rest = {k: v for k, v in wrapper.__dict__.items() if k not in ("__wrapped__", "cache_parameters")}
    return _lru_cache, (wrapper.__wrapped__, how["maxsize"], how["typed"], rest)


def _reduce_cached_property(made: Any) -> Any:
    return _cached_property, (made.func, made.attrname, made.__doc__)


def _reduce_weakref(reference: Any) -> Any:
    if reference.__callback__ is not None:
        raise Refused("a weak reference with a callback")
    thing = reference()
    return _weak_ref, (() if thing is None else (thing,))


def _reduce_weak_dict(made: Any) -> Any:
    return type(made), (dict(made),)


def _reduce_file(file: Any) -> Any:
    kind = FILE_KINDS.get(type(file), "buffered")
    name = getattr(file, "name", None)
    mode = getattr(file, "mode", "")
    if type(name) not in (str, bytes, int) or type(mode) is not str:
        raise Refused("a file without a name")
    encoding, errors = ("", "")
    if kind == "text":
        encoding, errors = file.encoding, file.errors
    if file.closed:
        return _file, tuple(FileState(kind, name, mode, None, 0, encoding, errors))
    if type(file) not in FILE_KINDS or file.writable():
        raise Refused("a file open for writing")
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or type(name) is int:
        raise Refused("an open file that is not a regular one")
    path = os.path.abspath(os.fsdecode(name))
    try:
        now = os.stat(path)
    except OSError:
        now = None
    if now is None or (now.st_dev, now.st_ino) != (status.st_dev, status.st_ino):
        raise Refused("an open file that is no longer at its path")
    return _file, tuple(FileState(kind, name, mode, path, file.tell(), encoding, errors))


# How objects of these classes are taken apart.
REDUCERS = {
    types.MethodType: _reduce_method,
    type(functools.lru_cache()(len)): _reduce_lru_cache,
    functools.cached_property: _reduce_cached_property,
    weakref.ReferenceType: _reduce_weakref,
    weakref.WeakKeyDictionary: _reduce_weak_dict,
    weakref.WeakValueDictionary: _reduce_weak_dict,
    io.TextIOWrapper: _reduce_file,
    io.BufferedReader: _reduce_file,
    io.BufferedWriter: _reduce_file,
    io.BufferedRandom: _reduce_file,
    io.FileIO: _reduce_file,
}

# What pickles refer to by name.
MAKERS = (_lru_cache, _cached_property, _stdio, _weak_ref, _file)
