# SPDX-License-Identifier: Apache-2.0
"""Reducers and makers for objects that pickle alone cannot save."""

import builtins

# A private copy, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import array
import collections
import contextlib
import contextvars
import copyreg
import functools
import gc
import importlib
import io
import logging
import os
import stat
import sys
import types
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from state_texts import Refused, clean


_modules: Dict[str, Any] = sys.modules
_type_dict = vars(type)["__dict__"].__get__  # ignores overrides in metaclasses
_type_flags = vars(type)["__flags__"].__get__
_type_mro = vars(type)["__mro__"].__get__
_HEAP_TYPE = 1 << 9  # of type.__flags__: made at run time
SEARCHED_MAX = 64 << 20  # bytes searched for a memoryview's offset


class Work:
    """The active loader and saver, on whose behalf reducers and makers act."""

    loader: Any = None
    saver: Any = None


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
    return weakref.ref(*things or (set(),))  # of no object: already dead


class FileState(NamedTuple):
    """An open or closed file."""

    kind: str  # text, buffered, raw
    name: Any
    mode: str
    path: Optional[str]  # None: closed
    position: int
    encoding: str
    errors: str
    newline: Optional[str] = None


FILE_KINDS: Dict[type, str] = {io.TextIOWrapper: "text", io.BufferedReader: "buffered", io.FileIO: "raw"}


def _file(*values: Any) -> Any:
    state = FileState(*values)
    path = "/dev/null" if state.path is None else work.loader.moved(state.path)
    if state.path is not None and not os.path.isfile(path):
        raise Refused("the file {} does not exist".format(clean(path, 150)))
    raw = io.FileIO(path, "rb")
    made: Any = raw
    if state.kind != "raw":
        made = io.BufferedReader(raw)
    if state.kind == "text":
        made = io.TextIOWrapper(made, state.encoding, state.errors, state.newline)
        made.mode = state.mode
    raw.name = state.name
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
        raise Refused("weak references with callbacks cannot be saved")
    thing = reference()
    return _weak_ref, (() if thing is None else (thing,))


def _reduce_weak_dict(made: Any) -> Any:
    return type(made), (dict(made),)


def _reduce_file(file: Any) -> Any:
    kind = FILE_KINDS.get(type(file), "buffered")
    name: Any = getattr(file, "name", None)
    mode = getattr(file, "mode", "")
    if type(name) not in (str, bytes, int) or type(mode) is not str:
        raise Refused("open files without a name cannot be saved")
    encoding, errors = ("", "")
    if kind == "text":
        encoding, errors = file.encoding, file.errors
    if file.closed:
        return _file, tuple(FileState(kind, name, mode, None, 0, encoding, errors))
    with contextlib.suppress(OSError, ValueError):
        work.saver.owned.add(file.fileno())
    if type(file) not in FILE_KINDS or file.writable():
        raise Refused("files open for writing cannot be saved")
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or type(name) is int:
        raise Refused("of open files, only regular files can be saved")
    path = os.path.abspath(os.fsdecode(name))
    try:
        now = os.stat(path)
    except OSError:
        now = None
    if now is None or (now.st_dev, now.st_ino) != (status.st_dev, status.st_ino):
        raise Refused("the open file is no longer at its path")
    place = file.tell()
    newline = _newline_of(file, path) if kind == "text" else None
    return _file, tuple(FileState(kind, name, mode, path, place, encoding, errors, newline))


_newlines: Dict[int, Optional[str]] = {}  # of files, by id: each file is probed once

PROBE = "a\r\nb\rc\n"
NEWLINES = {
    ("a\n", "b\n", "c\n"): None,
    ("a\r\n", "b\r", "c\n"): "",
    ("a\r\nb\rc\n",): "\n",
    ("a\r", "\nb\r", "c\n"): "\r",
    ("a\r\n", "b\rc\n"): "\r\n",
}


def _newline_of(file: Any, path: str) -> Optional[str]:
    """The newline mode of a text file, which only reading reveals: in this process, which only saves, its descriptor is
    redirected to a probe text, and then to the reopened file (the session's file offset is in the original open file,
    and stays)."""
    if id(file) not in _newlines:
        fd, place = file.fileno(), file.tell()
        probe = io.open("/tmp", "w+b", opener=_nameless)
        with probe, io.open(path, "rb") as again:
            probe.write(PROBE.encode(file.encoding))
            probe.flush()
            file.buffer.tell()
            os.dup2(probe.fileno(), fd)
            file.buffer.seek(1 << 40)  # discards the read-ahead buffer
            file.seek(0)
            lines = tuple(file)
            os.dup2(again.fileno(), fd)
            file.buffer.seek(1 << 40)
            file.seek(place)
        if lines not in NEWLINES:
            raise Refused("the newline mode of the open file is unknown")
        _newlines[id(file)] = NEWLINES[lines]
    return _newlines[id(file)]


def _nameless(_path: str, _flags: int) -> int:
    try:
        return os.memfd_create("probe")
    except (AttributeError, OSError):
        import tempfile

        fd, path = tempfile.mkstemp()
        os.unlink(path)
        return fd


# Placeholders for lost objects ----------------------------------------------------------------


class Lost:
    """Replaces an unsaved part in a list, dict or object."""

    def __init__(self, kind: str, reason: str) -> None:
        object.__setattr__(self, "_what", "{} was lost while this session hibernated: {}".format(kind, reason))

    def _gone(self, *_: Any) -> Any:
        raise RuntimeError(self._what)

    __call__ = __iter__ = __next__ = __getitem__ = __setitem__ = __enter__ = __len__ = _gone

    def __getattr__(self, name: str) -> Any:
        raise AttributeError("{}: {}".format(name, self.__dict__.get("_what", "lost")))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "<{}>".format(self._what)

    def __reduce__(self) -> Any:
        return _lost, (None, self._what)


def _lost(kind: Optional[str], reason: str) -> Any:
    made = Lost(kind or "", reason)
    if kind is None:  # called again
        object.__setattr__(made, "_what", reason)
    return made


# Instances ---------------------------------------------------------------------------------
#
# pickle makes them by calling session code (__new__, and __init__ of exceptions, sets, dates), perhaps with wrong
# arguments. Here the builtin base class makes the object, and its attributes are set.


def is_heap(kind: type) -> bool:
    return bool(_type_flags(kind) & _HEAP_TYPE)


def _owner_of(bases: Any, name: str) -> Any:
    return next((base for base in bases if name in _type_dict(base)), object)


def _make(kind: type, new: type, init: Optional[type], args: Tuple[Any, ...]) -> Any:
    made = new.__new__(kind, *args)
    if init is not None:
        init.__init__(made, *args)  # type: ignore[misc]
    return made


HOOKS = ("__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")


def is_plain(kind: type) -> bool:
    """Whether objects are saved by their attributes, without hooks of the class."""
    names = HOOKS + ("__getstate__", "__setstate__")
    return all([_owner_of(_type_mro(kind), name) is object for name in names])


def plan_of(kind: type, is_own: Any) -> Any:
    """How to make objects of a class without session code: (class whose __new__, class whose __init__), or None when
    pickle's way is right. is_own: whether a class is the session's."""
    if issubclass(kind, BaseException):
        own = [base for base in _type_mro(kind) if is_heap(base)]
    else:
        own = [base for base in _type_mro(kind) if is_own(base)]
    if not own or kind in copyreg.dispatch_table:
        return None
    for base in own:
        for name in HOOKS:
            hook = _type_dict(base).get(name)
            if hook is not None and getattr(hook, "__module__", None) != "collections":
                return None
    others = [base for base in _type_mro(kind) if base not in own]
    has_new, has_init = [any([name in _type_dict(base) for base in own]) for name in ("__new__", "__init__")]
    is_called = any([_owner_of(others, name) is not object for name in HOOKS[:2]])  # with the base's arguments
    if not has_new and not (has_init and is_called):
        return None
    if any([base.__module__ == "enum" for base in others]):
        return None
    return _owner_of(others, "__new__"), _owner_of(others, "__init__")


def reduce_instance(thing: Any, kind: type, plan: Any) -> Any:
    reduced = thing.__reduce_ex__(5)
    if type(reduced) is not tuple or len(reduced) < 2 or type(reduced[1]) is not tuple:
        return reduced
    new, init = plan
    function, args = reduced[:2]
    if function is copyreg.__newobj__ and args and args[0] is kind:  # type: ignore[attr-defined]
        args = args[1:]
        if new is tuple:
            args = (tuple(thing),)
        return (_make, (kind, new, None, args)) + reduced[2:]
    if function is kind:
        return (_make, (kind, new, init, args)) + reduced[2:]
    return reduced


# Exceptions --------------------------------------------------------------------------------


def reduce_exception(error: Any, kind: type, plan: Any) -> Any:
    """Includes state outside its attributes: causes, and the traceback."""
    reduced = error.__reduce_ex__(5) if plan is None else reduce_instance(error, kind, plan)
    if type(reduced) is not tuple or len(reduced) > 3:
        return reduced
    more = (error.__cause__, error.__context__, error.__suppress_context__, error.__traceback__)
    if more == (None, None, False, None):
        return reduced
    state = reduced[2] if len(reduced) == 3 else None
    return reduced[0], reduced[1], (state, more), None, None, _exception_set


def _exception_set(error: Any, state: Any) -> None:
    state, (cause, context, is_suppressed, trace) = state
    if state:
        error.__setstate__(state)
    error.__cause__, error.__context__ = cause, context
    error.__suppress_context__ = is_suppressed
    error.__traceback__ = trace


def _reduce_traceback(trace: Any) -> Any:
    """The lines that it shows. Frames have ended, and their variables are not saved."""
    lines: List[Tuple[str, str, int, Any]] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        work.saver.note_source(code.co_filename)
        where = trace.tb_frame.f_globals.get("__name__")
        lines.append((code.co_filename, code.co_name, trace.tb_lineno, where if type(where) is str else None))
        trace = trace.tb_next
    return _traceback, (lines,)


def _traceback(lines: List[Tuple[str, str, int, Any]]) -> Any:
    made = None
    plain = compile("raise error", "", "exec")
    for filename, name, number, where in reversed(lines):
        code = plain.replace(co_filename=filename, co_name=name, co_firstlineno=max(number, 1))
        try:
            exec(code, {"error": StopIteration(), "__name__": where})
        except StopIteration as error:
            frame = error.__traceback__.tb_next.tb_frame  # type: ignore[union-attr]
            made = types.TracebackType(made, frame, -1, number)
    return made


# Views -------------------------------------------------------------------------------------


def _mapping_view(mapping: Any, how: str) -> Any:
    return getattr(mapping, how)()


def _reduce_view(view: Any) -> Any:
    (mapping,) = [thing for thing in gc.get_referents(view) if isinstance(thing, dict)]
    return _mapping_view, (mapping, type(view).__name__.split("_")[1])


def _reduce_proxy(proxy: Any) -> Any:
    (mapping,) = gc.get_referents(proxy)
    if isinstance(mapping, type):
        raise Refused("mappings of class attributes cannot be saved")
    return types.MappingProxyType, (mapping,)


def _memory(base: Any, start: int, size: int, form: str, shape: Any, is_readonly: bool) -> Any:
    made = memoryview(base)
    if made.format != form or made.shape != shape or start:
        made = made.cast("B")[start : start + size]
        made = made if form == "B" and len(shape) == 1 else made.cast(form, shape)
    return made.toreadonly() if is_readonly and not made.readonly else made


def _reduce_memory(view: memoryview) -> Any:
    try:
        base: Any = view.obj
    except ValueError:
        raise Refused("the memoryview was released") from None
    if not view.c_contiguous or type(base) not in (bytes, bytearray, array.array):
        if not (type(base).__module__ == "numpy" and view.c_contiguous and view.nbytes == base.nbytes):
            raise Refused("views of another object's memory cannot be saved")
    start = _place_of(view, memoryview(base))
    return _memory, (base, start, view.nbytes, view.format, tuple(view.shape or ()), view.readonly)


def _place_of(view: memoryview, whole: memoryview) -> int:
    """The offset of a view. It is not recorded, so a byte is changed to find it; this process only saves."""
    if view.nbytes == whole.nbytes or not view.nbytes:
        return 0
    if whole.nbytes > SEARCHED_MAX or (view.readonly and not whole.readonly):
        raise Refused("views of another object's memory cannot be saved")
    before = bytes(whole)
    if view.readonly:  # any offset with the same bytes will do
        return before.index(bytes(view))
    part = view.cast("B")
    old, part[0] = part[0], part[0] ^ 255
    after = bytes(whole)
    part[0] = old
    return len(os.path.commonprefix([before, after]))


def reduce_memmap(made: Any) -> Any:
    """numpy.memmap: reopened after a wake, with writes going to the file."""
    numpy = _modules["numpy"]
    if made.mode == "c" or made.filename is None and made.base is None:
        return NotImplemented  # it has private contents
    if made.filename is None or type(made.base) is numpy.memmap:
        raise Refused("views of memory-mapped files cannot be saved")
    path = os.path.abspath(os.fspath(made.filename))
    now = os.stat(path)
    if not stat.S_ISREG(now.st_mode) or now.st_size < made.offset + made.nbytes:
        raise Refused("the memory-mapped file is no longer at its path")
    order = "F" if made.flags.f_contiguous and not made.flags.c_contiguous else "C"
    mode = "r" if made.mode == "r" else "r+"
    return _memmap, (path, made.dtype, mode, made.offset, made.shape, order)


def _memmap(path: str, dtype: Any, mode: str, offset: int, shape: Any, order: str) -> Any:
    numpy = importlib.import_module("numpy")
    return numpy.memmap(work.loader.moved(path), dtype, mode, offset, shape, order)


# Objects of the standard library ------------------------------------------------------------------


def _reduce_context_var(var: Any) -> Any:
    """Includes its current value, and its value where unset."""
    default: List[Any] = []
    now: List[Any] = []
    for context, found in ((contextvars.Context(), default), (contextvars.copy_context(), now)):
        try:
            found.append(context.run(var.get))
        except LookupError:
            pass
    state = tuple(now) if now and not (default and default[0] is now[0]) else None
    return _context_var, (var.name, tuple(default)), state, None, None, _context_var_set


def _context_var(name: str, default: Tuple[Any, ...]) -> Any:
    return contextvars.ContextVar(name, default=default[0]) if default else contextvars.ContextVar(name)


def _context_var_set(var: Any, state: Tuple[Any]) -> None:
    var.set(state[0])


def _reduce_finalize(made: Any) -> Any:
    found = made.peek()
    if found is None:
        return _finalize, (None, None, (), {}, False)
    thing, function, args, named = found
    return _finalize, (thing, function, args, named or {}, made.atexit)


def _finalize(thing: Any, function: Any, args: Any, named: Dict[str, Any], at_exit: bool) -> Any:
    if function is None:
        made = weakref.finalize(Work(), bool)  # already dead
        made.detach()
        return made
    made = weakref.finalize(thing, function, *args, **named)
    made.atexit = at_exit
    return made


def reduce_handler(handler: Any) -> Any:
    """For logging. The lock is recreated; a handler of a file reopens it and appends."""
    reduced = handler.__reduce_ex__(5)
    if type(reduced) is not tuple or len(reduced) < 3 or type(reduced[2]) is not dict:
        return reduced
    state = {key: value for key, value in reduced[2].items() if key != "lock"}
    if isinstance(handler, logging.FileHandler) and state.get("stream") is not None:
        work.saver.owned.add(state["stream"].fileno())
        state["stream"] = None
        state["mode"] = str(state.get("mode", "a")).replace("w", "a").replace("x", "a")
    return reduced[0], reduced[1], state, None, None, _handler_set


def _handler_set(handler: Any, state: Dict[str, Any]) -> None:
    handler.__dict__.update(state)
    if "baseFilename" in state:
        handler.baseFilename = work.loader.moved(handler.baseFilename)
    handler.createLock()
    logging._addHandlerRef(handler)  # type: ignore[attr-defined]
    if handler._name:
        logging._handlers[handler._name] = handler  # type: ignore[attr-defined]


# Reducers by class.
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
    types.TracebackType: _reduce_traceback,
    types.MappingProxyType: _reduce_proxy,
    memoryview: _reduce_memory,
    contextvars.ContextVar: _reduce_context_var,
    weakref.finalize: _reduce_finalize,
    **{
        type(getattr(kind(), how)()): _reduce_view
        for kind in (dict, collections.OrderedDict)
        for how in ("keys", "values", "items")
    },
}

# Functions that pickles refer to by name.
MAKERS = (
    _lru_cache,
    _cached_property,
    _stdio,
    _weak_ref,
    _file,
    _lost,
    _make,
    _exception_set,
    _traceback,
    _mapping_view,
    _memory,
    _memmap,
    _context_var,
    _context_var_set,
    _finalize,
    _handler_set,
)
