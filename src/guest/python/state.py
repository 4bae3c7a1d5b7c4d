# SPDX-License-Identifier: Apache-2.0
"""The variables of a session as the part "vars" of a bundle (docs/wire.md): save, restore.

Loaded by driver.py into CPython 3.8 or later, with the copy of cloudpickle beside this file under a private name.

Saving happens in a process that only saves (a copy of the interpreter), so session code that runs during pickling
(__reduce__ and the like) changes only that copy.

- A root is a variable, or the body of a class that no import can find. Each is pickled alone; roots that hold the same
  mutable object become one group, pickled together.
- All classes of the session are made first, without their bodies; groups refer to them by name, so that each class
  exists once and their order does not matter.
- Functions whose globals are the session's namespace get the namespace they are restored into; closures keep shared
  cells.
- A failure costs only its root, or a class's attribute, and is listed.

No security boundary: the output is hostile to its reader, and the input may be hostile, inside the sandbox.
"""

import builtins

# A private copy, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import collections
import contextlib
import datetime
import decimal
import enum
import gc
import itertools
import json
import logging
import marshal
import os
import pathlib
import pickle
import re
import signal
import sys
import threading
import types
import typing
import uuid
import weakref
from fractions import Fraction
from importlib.util import MAGIC_NUMBER
from os import listdir
from time import monotonic
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

from state_ambient import FINALIZERS, Baseline, finalizers, interpreter_settings, read_ambient, read_descriptors
from state_ambient import sources
from state_classes import class_state, skeleton_of
from state_load import Loader as Loader  # noqa: F401: used by the driver from here
from state_modules import STATE_OF, is_noted, sentinels, workspace_modules
from state_modules import note_modules as note_modules  # noqa: F401: used by the templates from here
from state_names import FUNCTION_PARTS, OURSELVES, STATE, _body, _cell, _cell_set, _CloudPickler
from state_names import _cloud_modules, _code, _fill, _function, _function_set, _module, _module_set, _ref
from state_objects import REDUCERS, _lost, _stdio, is_heap, is_plain, plan_of, work
from state_objects import reduce_exception, reduce_handler, reduce_instance, reduce_memmap
from state_same import Same
from state_stream import BUFFERS_MAX, HEAD_MAX, KEPT_MAX, LARGE, TEXT_MIN, Pickled, Pouring, Sink, Text
from state_texts import ATOMS, LOCK, NAME_MAX, REASON_MAX, ROOT_PART, THREAD, TICK_S, Refused, Slow, clean
from state_texts import _type_dict, _type_module, _type_name, _type_qualname, reason_of, summarize, type_name
from state_views import reduce_view


HEAD_LEFT = 8 << 10  # for members other than lists
INLINE_MAX = 4096  # bytes of a buffer stored inside the pickle
ROOTS_KEPT_MAX = 64 << 20  # bytes of pickles kept until they are written
GROUPS_MAX = 100000  # the remaining variables form one more
LOST_MAX = 1000  # items; further ones are counted
IMAGE = "image of memory"  # src/daemon/session/no_image.c
WHERE_TRIES = 200  # elements checked to locate a failing part

_encode = json.JSONEncoder(ensure_ascii=False).encode
_modules: Dict[str, Any] = sys.modules
_HEAP_TYPE = 1 << 9  # of type.__flags__: made at run time

# Names that the interpreter adds to a namespace.
INTERNAL = frozenset(
    "__name__ __doc__ __package__ __loader__ __spec__ __builtins__ __warningregistry__ result".split()
)


class Failed(BaseException):
    """Attaches the pickler to the exception that stopped it."""

    def __init__(self, cause: BaseException, pickler: Any) -> None:
        super().__init__()
        self.cause = cause
        self.pickler = pickler


def before_fork() -> Dict[str, Any]:
    """State that a fork does not preserve."""
    return {"random numbers": _modules["random"].getstate()} if "random" in _modules else {}


def threads() -> List[Tuple[str, str]]:
    """Names and types of the threads besides the first."""
    found = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    return [(t.name if type(t.name) is str else "?", type_name(t)) for t in found]


def digest_with(parts: List[Any]) -> str:
    """The key of some bytes without the extension module."""
    import hashlib

    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(part)
    return "b2:" + state.hexdigest()


# --- saving -----------------------------------------------------------------------------

LEADS_MAX = 10000  # objects
NOT_LED = (type, types.ModuleType, types.FunctionType)

# Types of objects that are not distinguished by identity.
FIXED = ATOMS | frozenset(
    (
        tuple,
        frozenset,
        range,
        slice,
        type(Ellipsis),
        type(NotImplemented),
        types.BuiltinFunctionType,
        types.ModuleType,
        types.CodeType,
        types.MethodType,
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        types.GetSetDescriptorType,
        types.MemberDescriptorType,
        weakref.ReferenceType,
        re.Pattern,
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        datetime.timezone,
        decimal.Decimal,
        Fraction,
        uuid.UUID,
        logging.Logger,
        logging.RootLogger,
    )
)
FIXED_BASES = (type, enum.Enum, pathlib.PurePath, datetime.tzinfo, datetime.date)

REF_TYPES = tuple(
    getattr(typing, name)
    for name in ("TypeVar", "ParamSpec", "TypeVarTuple", "NewType")
    if isinstance(getattr(typing, name, None), type)
)


class Ref:
    """A class, or another object that all groups refer to by one name."""

    def __init__(self, ident: str, thing: Any) -> None:
        self.ident = ident
        self.thing = thing
        self.skeleton: Optional[bytes] = None  # None: not yet, or impossible
        self.error: Optional[str] = None
        self.refs: Set[str] = set()


class Root:
    """A variable, the body of a class, or the last value (builtins._)."""

    def __init__(self, name: Any, value: Any, ref: Optional[Ref] = None) -> None:
        self.name = name
        self.value = value
        self.ref = ref
        self.special: Optional[str] = None  # not a variable: "_", the last value, or of the interpreter
        self.late: List[Any] = []  # containers that are filled at the end
        self.has_lost = False  # whether a part cannot be saved
        self.state: Any = None  # of a class
        self.pickled: Optional[Pickled] = None
        self.shared: List[int] = []  # ids of objects that other roots may hold
        self.refs: Set[str] = set()
        self.is_hashed = False  # instead of being pickled
        self.mark = ""  # that hash, if it shares nothing with others
        self.links: List["Root"] = []  # roots that share objects with it
        self.parent = self

    def top(self) -> "Root":
        root = self
        while root.parent is not root:
            root.parent = root.parent.parent
            root = root.parent
        return root

    def label(self) -> str:
        if self.ref is not None:
            return clean("class " + self.ref.ident, NAME_MAX)
        return clean(self.special, NAME_MAX) if self.special is not None else label_of(self.name)


def special_root(name: str, value: Any) -> Root:
    root = Root(name, value)
    root.special = name
    return root


def payload_of(roots: List[Root]) -> Tuple[Any, ...]:
    """The payload of a group's pickle. Bodies are set while it is read: first methods, then data, then variables, so
    that instances are made with their methods."""
    bodies = [root for root in roots if root.ref is not None]
    early = [Body(root.ref.ident, root.state[0]) for root in bodies]  # type: ignore[union-attr]
    late = [Body(root.ref.ident, root.state[1]) for root in bodies]  # type: ignore[union-attr]
    variables = [root for root in roots if root.ref is None]
    names = {root.name: root.value for root in variables if root.special is None}
    specials = {root.special: root.value for root in variables if root.special is not None}
    fills = {id(container): Fill(container) for root in roots for container in root.late}
    return early, late, names, specials, list(fills.values())


class Body:
    """A part of a class's body, set when it is read."""

    def __init__(self, ident: str, state: Dict[str, Any]) -> None:
        self._what = (ident, state)

    def __reduce__(self) -> Any:
        return _body, self._what


class Fill:
    """The contents of a container, set when they are complete."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def __reduce__(self) -> Any:
        container = self._container
        return _fill, (container, list(container.items() if type(container) is dict else container))


def label_of(name: Any) -> str:
    return clean(name if type(name) is str else "<{}>".format(type_name(name)), NAME_MAX)


def _reduce_cell(cell: Any) -> Any:
    try:
        contents = cell.cell_contents
    except ValueError:
        return _cell, ()
    return _cell, (), (contents,), None, None, _cell_set


class Pickler(_CloudPickler):  # type: ignore[misc]
    """Pickles one payload; see Saver."""

    dispatch_table = collections.ChainMap(
        {
            types.CodeType: lambda code: (_code, (MAGIC_NUMBER, code_bytes(code))),
            types.CellType: _reduce_cell,
            **REDUCERS,
        },
        _CloudPickler.dispatch_table,
    )

    def __init__(self, saver: "Saver", file: Any, buffers: Optional[List[Any]]) -> None:
        _CloudPickler.__init__(self, file, 5, buffer_callback=self._take)
        self.saver = saver
        self.lost: Set[int] = set()  # placeholders for unsaved objects
        self.late: Set[int] = set()  # containers that are filled at the end
        self.texts: Dict[int, Tuple[str, int]] = {}  # saved beside the pickle, by id
        self.buffers = buffers
        self.refs: Set[str] = set()
        self.made: Set[int] = set()  # functions and modules that are recreated on restore
        self.seen: Optional[Dict[int, Any]] = None  # a copy of the memo, made when needed

    def _take(self, buffer: Any) -> bool:
        """Whether a buffer stays inside the pickle."""
        if self.buffers is None:
            return True
        view = buffer.raw()
        if view.nbytes < INLINE_MAX or len(self.buffers) >= BUFFERS_MAX:
            return True
        self.buffers.append(view)
        return False

    def reducer_override(self, thing: Any) -> Any:
        known = self.saver.known_things.get(id(thing))
        if known is not None:
            if known[0] is _lost:
                self.lost.add(id(thing))
            return known
        kind = type(thing)
        if kind is types.FunctionType:
            return self._reduce_function(thing)
        if kind is self.saver.array:
            return reduce_view(thing)
        if issubclass(kind, type):
            return self._reduce_class(thing)
        if kind is types.ModuleType:
            return self._reduce_module(thing)
        if kind in REF_TYPES and not is_importable(thing, thing.__module__, thing.__name__):
            return self._refer(thing)
        how = self.saver.how_of(kind)
        return NotImplemented if how is None else how(thing)

    def _refer(self, thing: Any) -> Any:
        ref = self.saver.refer(thing)
        self.refs.add(ref.ident)
        return _ref, (ref.ident,)

    def _reduce_class(self, kind: type) -> Any:
        module, name = _type_module(kind), _type_qualname(kind)
        if is_importable(kind, module, name):
            return NotImplemented
        if not kind.__flags__ & _HEAP_TYPE or self.saver.is_ours(kind):
            return NotImplemented  # cannot be pickled by name either, which raises an error
        return self._refer(kind)

    def _reduce_function(self, function: Any) -> Any:
        names = function.__globals__
        where: Any = None
        if names is not self.saver.names:
            if is_importable(function, function.__module__, function.__qualname__):
                return NotImplemented
            where = names.get("__name__")
            if self.saver.is_part(names):
                raise Refused("it is part of the interpreter")
            if self.saver.is_foreign(names):
                where = self.saver.holder_of(names)  # such as one given to exec()
        self.made.add(id(function))
        self.saver.note_source(function.__code__.co_filename)
        parts = {}
        for name in FUNCTION_PARTS:
            value = getattr(function, name, None)
            if value:
                parts[name] = value
        args = (function.__code__, where, function.__name__, function.__closure__)
        return _function, args, (parts, function.__dict__), None, None, _function_set

    def _reduce_module(self, module: types.ModuleType) -> Any:
        name = vars(module).get("__name__")
        is_known = type(name) is str and _modules.get(name) is module
        if is_known and name not in self.saver.by_hand:
            return NotImplemented
        self.made.add(id(module))
        state = {key: value for key, value in vars(module).items() if key != "__builtins__"}
        return _module, (name, is_known), state, None, None, _module_set


# Types distinguished by identity only if large: from this length on.
SIZED: Dict[type, int] = {str: LARGE, bytes: LARGE, tuple: LARGE // 8, frozenset: LARGE // 32}


def large_in(value: Any) -> List[int]:
    """The large parts of a flat value."""
    kind = type(value)
    if kind is bytearray:
        return []  # its bytes are private; iterating would yield numbers
    parts = [value] if kind in ATOMS else itertools.chain(value, value.values()) if kind is dict else value
    return [id(part) for part in parts if type(part) in SIZED and len(part) >= SIZED[type(part)]]


class ContainerPickler(Pickler):
    """For payloads with globals() or the like, or large texts: slower, it checks each object."""

    def persistent_id(self, thing: Any) -> Any:
        if type(thing) is str and len(thing) >= TEXT_MIN and self.buffers is not None:
            if id(thing) not in self.texts and len(self.buffers) < BUFFERS_MAX:
                self.texts[id(thing)] = "text", len(self.texts)
                self.buffers.append(Text(thing))
            return self.texts.get(id(thing))
        found = self.saver.known_containers.get(id(thing))
        if type(found) is tuple:
            self.late.add(id(thing))
        return found


def is_flat_value(value: Any) -> bool:
    """Whether it contains nothing that could be shared."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return ATOMS.issuperset(map(type, value))
    if kind is dict:
        return ATOMS.issuperset(map(type, value)) and ATOMS.issuperset(map(type, value.values()))
    return kind in ATOMS or kind is bytearray


def code_bytes(code: types.CodeType) -> bytes:
    """The same bytes for the same code, regardless of references to its parts."""
    try:
        return marshal.dumps(code, 2)
    except ValueError:  # constants that the format does not support
        return marshal.dumps(code)


def leads_to(start: Any, wanted: Any) -> bool:
    """Whether an object is reachable from the attributes of another."""
    pending, seen = [start], {id(start)}
    while pending and len(seen) < LEADS_MAX:
        for thing in gc.get_referents(pending.pop()):
            if thing is wanted:
                return True
            if id(thing) not in seen and not isinstance(thing, NOT_LED):
                seen.add(id(thing))
                pending.append(thing)
    return False


def is_importable(thing: Any, module: Any, name: Any) -> bool:
    """Whether another interpreter can import it under this name."""
    if type(module) is not str or type(name) is not str or module == "__main__" or module in work.saver.by_hand:
        return False
    found: Any = _modules.get(module)
    if found is None:
        return False
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is thing


def known_things(names: Dict[str, Any]) -> Dict[int, Any]:
    """Objects that exist once in every interpreter, and how to find them."""
    found: Dict[int, Any] = {}

    def add(thing: Any, *how: Any) -> None:
        if thing is not None:
            found[id(thing)] = how

    add(os.environ, getattr, (os, "environ"))
    add(os.environb, getattr, (os, "environb"))
    for name in ("display", "exit", "quit"):
        add(getattr(builtins, name, None), getattr, (builtins, name))
    if "decimal" in _modules:
        add(_modules["decimal"].getcontext(), _modules["decimal"].getcontext, ())
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, "__" + name + "__", None)
        add(stream, _stdio, (name, False))
        add(getattr(stream, "buffer", None), _stdio, (name, True))
    for name, kind in vars(types).items():
        if isinstance(kind, type) and not is_importable(kind, kind.__module__, kind.__qualname__):
            add(kind, getattr, (types, name))
    single = {
        "dataclasses": "MISSING KW_ONLY _HAS_DEFAULT_FACTORY _FIELD _FIELD_CLASSVAR _FIELD_INITVAR",
        "random": "_inst",  # our own random state is renewed, not saved
        "numpy.random.mtrand": "_rand",
        "threading": "_main_thread",
        "decimal": "DefaultContext BasicContext ExtendedContext",
    }
    for module, attributes in single.items():
        if module in _modules:
            for name in attributes.split():
                thing = vars(_modules[module]).get(name)
                add(thing, getattr, (_modules[module], name))
    return found


def modules_by_hand(names: Dict[Any, Any]) -> Dict[str, types.ModuleType]:
    """Modules made by the session, which cannot be imported, by name."""
    held = {id(value) for value in names.values() if type(value) is types.ModuleType}
    found = {}
    for name, module in list(_modules.items()):
        if type(module) is not types.ModuleType or type(name) is not str or name == "__main__":
            continue
        own = vars(module)
        if own.get("__spec__") is None and "__file__" not in own and own.get("__name__") == name:
            inner = [one.__code__.co_filename for one in own.values() if type(one) is types.FunctionType]
            if not is_noted(name) and (id(module) in held or any([file.startswith("<") for file in inner])):
                found[name] = module
    return found


class Saver:
    """Writes the variables of one namespace."""

    def __init__(self, names: Dict[Any, Any], own: List[Dict[str, Any]], module: Any, known: Set[str]) -> None:
        """module: _snp, or None. known: keys of items that the reader has."""
        self.names = names
        # Whether a namespace belongs to one of our modules.
        self.is_part: Callable[[Any], bool] = lambda names: any([names is one for one in own])
        self.own = {name: value for part in own for name, value in part.items()}
        self._digest = getattr(module, "digest", digest_with)
        self._known = known
        self._refs: Dict[int, Ref] = {}
        self._idents: Set[str] = set()
        self._skeletons: List[Ref] = []
        self._bodies: List[Root] = []  # classes whose bodies are not pickled yet
        self._lost: List[Dict[str, Any]] = []
        self.no_image = ""  # why there is no image, which would hold the lost state
        self._room = ROOTS_KEPT_MAX
        self._kinds: Dict[type, bool] = {}  # whether their objects are distinguished
        self._of_classes: Set[int] = set()
        self._workspace: Set[str] = set()  # names of modules of the workspace
        self._sources: Set[str] = set()
        self._limit: Optional[float] = None
        self._deadline = 0.0
        self._main: Any = None
        self.array = getattr(_modules.get("numpy"), "ndarray", None)
        self._hows: Dict[int, Tuple[type, Any]] = {}
        self._opens: Dict[int, Tuple[type, bool]] = {}
        self._holders: Dict[int, Any] = {}
        self._lost_parts: Dict[int, Tuple[Any, str, str]] = {}  # unsaved parts: id, type, reason
        self._hashed: Set[type] = set()
        self._late: Dict[int, Any] = {}  # containers that are filled at the end
        self.by_hand = modules_by_hand(names)
        self.owned: Set[int] = set()  # descriptors owned by file objects
        work.saver = self
        self.known_things = known_things(names)
        self.known_containers: Dict[int, Any] = {
            id(names): "names",
            id(sys.path): "path",
            id(sys.argv): "argv",
            id(sys.modules): "modules",
            id(vars(builtins)): "builtins",
        }
        if "argparse" in _modules:
            self.known_containers[id(_modules["argparse"].SUPPRESS)] = "argparse.SUPPRESS"
        self.reducers = Pickler.dispatch_table
        self._same = Same(self, module, known)

    # The order of things ----------------------------------------------------------

    def save(self, sink: Sink, budget_s: float, settings: Any) -> None:
        """Write the part. settings: from the driver, in addition to the interpreter's."""
        self._deadline = monotonic() + budget_s
        ambient = read_ambient(settings["baseline"], self.names, self.is_part, settings, self.lose)
        for name, module in workspace_modules((settings["base"] or "/workspace") + "/"):
            self._workspace.add(name)
            self.known_things.update({id(one): (getattr, (module, key)) for key, one in sentinels(module)})
        gc.disable()
        self._main = _modules.get("__main__")
        # Objects that look up their module there must not be saved under that name.
        _modules["__main__"] = types.ModuleType("__main__")
        _modules[STATE] = OURSELVES
        _modules.update(_cloud_modules)
        signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        groups = self._groups(self._roots(settings["baseline"], ambient))
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._write(sink, groups, settings)

    def _tick(self, _number: int, _frame: Any) -> None:
        if self._limit is not None and monotonic() > self._limit:
            raise Slow()

    def _roots(self, baseline: Baseline, ambient: Dict[str, Any]) -> List[Root]:
        """Everything that can be pickled, each root alone."""
        roots = [Root(k, v) for k, v in list(self.names.items()) if not self._is_internal(k)]
        if hasattr(builtins, "_"):
            roots.append(special_root("_", builtins._))
        roots += [special_root(name, value) for name, value in ambient.items()]
        roots += [special_root("module " + name, module) for name, module in self.by_hand.items()]
        for root in roots:
            self._same.look(root)
        done = [root for root in roots if root.is_hashed or self._try_root(root)]
        saved = set([key for root in done for key in root.shared])
        made = finalizers(baseline, lambda key: key in saved or bool(self._same.holders([key])))
        if made:
            roots = [special_root(FINALIZERS, made)]
            done += [root for root in roots if self._try_root(root)]
        bodies: List[Root] = []
        while self._bodies:
            root = self._bodies.pop(0)
            if self._try_body(root):
                bodies.append(root)
        return bodies + done

    @staticmethod
    def _is_internal(name: Any) -> bool:
        return type(name) is str and name in INTERNAL

    def _try_root(self, root: Root, is_told: bool = True) -> bool:
        if id(root.value) in self._lost_parts:
            if is_told:
                self.lose(root.label(), *self._lost_parts[id(root.value)][1:])
            return False
        try:
            try:
                self._pickle_root(root)
            except Exception as error:
                if type(error) in (MemoryError, RecursionError) or not self._give_up_parts(root):
                    raise
                self._pickle_root(root)
        except BaseException as error:
            if is_told:
                self.lose(root.label(), type_name(root.value), self._explain(error, root.value))
            return False
        if root.has_lost:
            self._name_parts(root)
        return True

    def _give_up_parts(self, root: Root) -> bool:
        """Find unsaveable parts in lists, dicts and objects of the session. A placeholder raises an error on use, and
        the rest is saved."""
        now = monotonic()
        until = now + (self._deadline - now) * ROOT_PART / 2
        leaves: Dict[int, Any] = {}
        for _, part in self._walk(root.value):
            if monotonic() > until:
                return False
            if not self._is_open(part) and id(part) not in self._lost_parts:
                leaves[id(part)] = part
        found = {}
        for part, error in self._refused(list(leaves.values()), until):
            found[id(part)] = (part, type_name(part), self._explain(error, part))
        self._lost_parts.update(found)
        for key, lost in found.items():  # it may have been refused for another reason
            del self._lost_parts[key]
            if self._refused([lost[0]], until):
                self._lost_parts[key] = lost
        self.known_things.update({key: (_lost, lost[1:]) for key, lost in self._lost_parts.items()})
        return bool(found)

    def _refused(self, parts: List[Any], until: float) -> List[Tuple[Any, BaseException]]:
        """Find the unsaveable parts, by bisection."""
        if not parts:
            return []
        if monotonic() > until:
            raise Slow()
        try:
            self._pickle(parts, True)
            return []
        except Slow:
            raise
        except BaseException as error:
            if len(parts) == 1:
                return [(parts[0], error)]
        half = len(parts) // 2
        return self._refused(parts[:half], until) + self._refused(parts[half:], until)

    def _is_open(self, value: Any) -> bool:
        """Whether parts of it can be replaced."""
        kind = type(value)
        if kind in ATOMS:
            return False
        if kind in CONTAINERS:
            return id(value) not in self.known_containers or id(value) in self._late
        if kind is types.FunctionType:
            return not is_importable(value, value.__module__, value.__qualname__)
        found = self._opens.get(id(kind))
        if found is None:
            is_open = self._is_own(kind) and is_plain(kind)
            found = self._opens[id(kind)] = (kind, is_open)
        return found[1] and type(getattr(value, "__dict__", None)) is dict

    def _walk(self, value: Any) -> Iterable[Tuple[str, Any]]:
        """All parts that are not plain values, with their paths."""
        pending, seen = [("", value)] if self._is_open(value) else [], {id(value)}
        while pending:
            where, whole = pending.pop()
            for name, part in parts_of(whole, None):
                if type(part) not in ATOMS:
                    yield where + name, part
                    if id(part) not in seen and self._is_open(part):
                        seen.add(id(part))
                        pending.append((where + name, part))

    def _name_parts(self, root: Root) -> None:
        named = False
        is_state = root.special is not None and root.special.startswith(STATE_OF)
        for where, part in self._walk(root.value):
            if id(part) in self._lost_parts:
                named = True
                where = re.sub(r"^\['(.*?)'\]", r".\1", where) if is_state else where
                label = clean(root.label() + where, NAME_MAX)
                self.lose(label, *self._lost_parts[id(part)][1:])
        if not named:
            self.lose(root.label() + " (part of it)", "object", "an object that it refers to cannot be saved")

    def _explain(self, error: BaseException, value: Any) -> str:
        """The reason, with the place inside the value if it is found quickly."""
        try:
            where, inner, error = self._search(error, value, [WHERE_TRIES], 4)
        except BaseException:
            where, inner = "", value
        text = reason_of(error, inner)
        if where:
            text = "at {}: {} ({})".format(clean(where, 100), text, type_name(inner))
        return clean(text, REASON_MAX)

    def _search(self, error: Any, value: Any, tries: List[int], depth: int) -> Tuple[str, Any, Any]:
        if type(error) in (Slow, MemoryError, RecursionError) or not depth:
            return "", value, error
        for name, part in parts_of(value):
            tries[0] -= 1
            if tries[0] < 0:
                break
            if type(part) in ATOMS:
                continue
            try:
                self._pickle(part)
            except BaseException as inner_error:
                rest, inner, why = self._search(inner_error, part, tries, depth - 1)
                return name + rest, inner, why
        return "", value, error

    def _try_body(self, root: Root) -> bool:
        """Pickle a class; unsaveable attributes are left out."""
        ref = root.ref
        assert ref is not None
        try:
            root.state = class_state(ref.thing)
            self._pickle_root(root)
            if root.has_lost:
                raise Refused("a part of it")
            return True
        except BaseException:
            pass
        try:
            root.state = self._reduced_state(ref, root.state)
            self._pickle_root(root)
            return True
        except BaseException as error:
            self.lose(root.label(), "type", self._explain(error, ref.thing))
            return False

    def _reduced_state(self, ref: Ref, state: Any) -> Any:
        if state is None:
            raise Refused("its attributes cannot be read")
        left = []
        for half in state:
            attributes = {}
            for name, value in half["attributes"].items():
                try:
                    if self._pickle(value).pickler.lost:
                        raise Refused("a part of it")
                    attributes[name] = value
                except BaseException as error:
                    label = clean("{}.{}".format(ref.ident, name), NAME_MAX)
                    part = Root(label, value)
                    if isinstance(error, Exception) and self._try_root(part, is_told=False):
                        attributes[name] = value
                        continue
                    lost = self._lost_parts.get(id(value)) or (value, type_name(value), self._explain(error, value))
                    self.lose(label, *lost[1:])
            left.append(dict(half, attributes=attributes))
        return left

    def lose(self, name: str, kind: str, reason: str) -> None:
        self._lost.append({"name": name, "type": kind, "reason": reason})

    # One pickle -------------------------------------------------------------------

    def _pickle(self, value: Any, with_buffers: bool = False, is_flat: bool = False) -> Pickled:
        pickled = Pickled(self._digest)
        try:
            self._pickle_with(Pickler, value, pickled, with_buffers)
            if not pickled.has_text and (is_flat or not self._holds_container(pickled.pickler)):
                return pickled
        except Failed as error:
            if type(error.cause) is not MemoryError and not self._holds_container(error.pickler):
                raise error.cause from None
        pickled = Pickled(self._digest)
        try:
            self._pickle_with(ContainerPickler, value, pickled, with_buffers)
            return pickled
        except Failed as error:
            raise error.cause from None

    def _pickle_with(self, how: Any, value: Any, file: Any, with_buffers: bool) -> None:
        """Write into the file, which handles large contents."""
        pickler = how(self, file, file.buffers if with_buffers else None)
        outer = self._limit
        now = monotonic()
        if outer is None:
            self._limit = now + max((self._deadline - now) * ROOT_PART, TICK_S)
        try:
            pickle.Pickler.dump(pickler, value)
        except BaseException as error:
            raise Failed(error, pickler) from None
        finally:
            self._limit = outer
        file.pickler, file.how = pickler, how

    def _holds_container(self, pickler: Any) -> bool:
        memo = pickler.seen = pickler.memo.copy()
        return any([key in memo for key in self.known_containers])

    def _pickle_root(self, root: Root) -> None:
        is_flat = root.ref is None and is_flat_value(root.value)
        pickled = self._pickle(payload_of([root]), True, is_flat)
        if not is_flat and self._hashed and self._find_late(root, pickled.pickler):
            pickled = self._pickle(payload_of([root]), True)
        root.pickled = pickled
        root.refs = pickled.pickler.refs
        root.has_lost = bool(pickled.pickler.lost)
        if is_flat:
            root.shared = [] if type(root.value) in ATOMS else [id(root.value)]
            if pickled.size() >= LARGE:
                root.shared += large_in(root.value)
        else:
            root.shared = self._shared_ids(pickled.pickler, pickled.size() >= LARGE) + list(map(id, root.late))
        if pickled.own > self._room or not pickled.is_kept:
            pickled.drop()
        self._room -= pickled.own

    def _find_late(self, root: Root, pickler: Any) -> bool:
        """Containers reachable from one of their keys: they must be complete when the key is inserted."""
        memo = pickler.memo.copy()
        found = [thing for _, thing in memo.values() if type(thing) in (dict, set) and self._is_late(thing)]
        root.late = found + [thing for key, thing in self._late.items() if key in pickler.late]
        for thing in found:
            self._late[id(thing)] = thing
            self.known_containers[id(thing)] = ("late", type(thing).__name__, len(self._late))
        return bool(found)

    def _is_late(self, container: Any) -> bool:
        return any([leads_to(key, container) for key in container if type(key) in self._hashed])

    # Classes ----------------------------------------------------------------------

    def is_ours(self, kind: type) -> bool:
        return self.own.get(_type_name(kind)) is kind

    def _is_own(self, kind: type) -> bool:
        """Whether a class was made by the session."""
        if not is_heap(kind) or self.is_ours(kind):
            return False
        return not is_importable(kind, _type_module(kind), _type_qualname(kind))

    def ident_of(self, kind: type) -> Optional[str]:
        """The name of a session's class; None: it can be imported."""
        if is_importable(kind, _type_module(kind), _type_qualname(kind)):
            return None
        if self.is_ours(kind):
            raise Refused("it is part of the interpreter")
        return self.refer(kind).ident

    def how_of(self, kind: type) -> Optional[Callable[[Any], Any]]:
        """The function that reduces objects of a class, where pickle's way is not right."""
        found = self._hows.get(id(kind))
        if found is None:
            found = self._hows[id(kind)] = (kind, self._find_how(kind))
        return found[1]

    def _find_how(self, kind: type) -> Optional[Callable[[Any], Any]]:
        if issubclass(kind, logging.Handler):
            return reduce_handler
        if issubclass(kind, getattr(_modules.get("numpy"), "memmap", ())):
            return reduce_memmap
        if is_heap(kind) and type(getattr(kind, "__hash__", None)) is types.FunctionType:
            self._hashed.add(kind)
        plan = plan_of(kind, self._is_own)
        if issubclass(kind, BaseException):
            return lambda error: reduce_exception(error, kind, plan)
        if plan is None:
            return None
        return lambda thing: reduce_instance(thing, kind, plan)

    def holder_of(self, names: Dict[str, Any]) -> Any:
        """The handmade module with this namespace, if any."""
        if id(names) not in self._holders:
            found = [one for one in gc.get_referrers(names) if type(one) is types.ModuleType and vars(one) is names]
            self._holders[id(names)] = found[0] if found else names
        return self._holders[id(names)]

    def is_foreign(self, names: Dict[str, Any]) -> bool:
        """Whether a namespace belongs neither to the session nor to an importable module."""
        where: Any = names.get("__name__")
        if names is self.names or self.is_part(names):
            return False
        return vars(_modules.get(where, types)) is not names or where == "__main__" or where in self.by_hand

    def note_source(self, filename: str) -> None:
        if filename.startswith("<cell "):
            self._sources.add(filename)

    def refer(self, thing: Any) -> Ref:
        """The name of a class. Pickles its skeleton, and those of its bases, first."""
        ref = self._refs.get(id(thing))
        if ref is None:
            ref = self._refs[id(thing)] = Ref(self._new_ident(thing), thing)
            try:
                pickled = self._pickle(skeleton_of(thing))
                if not pickled.is_kept:
                    raise Refused("it is too large to save")
                ref.skeleton = pickled.data()
                ref.refs = pickled.pickler.refs
            except Slow:
                raise
            except BaseException as error:
                ref.error = reason_of(error)
            else:
                self._skeletons.append(ref)
                if isinstance(thing, type):
                    self._bodies.append(Root(None, thing, ref))
        if ref.error is not None:
            raise Refused("class {}: {}".format(ref.ident, ref.error))
        if ref.skeleton is None:
            raise Refused("class {} contains itself".format(ref.ident))
        return ref

    def _new_ident(self, thing: Any) -> str:
        name = _type_qualname(thing) if isinstance(thing, type) else thing.__name__
        name = ident = clean(name, 150)
        number = 1
        while ident in self._idents:
            number += 1
            ident = "{}~{}".format(name, number)
        self._idents.add(ident)
        return ident

    # Groups -----------------------------------------------------------------------

    def _groups(self, roots: List[Root]) -> List[List[Root]]:
        """Combine roots that hold the same mutable objects."""
        owner: Dict[int, Root] = {}
        by_ref = {root.ref.ident: root for root in roots if root.ref is not None}
        for root in roots:
            if isinstance(root.value, type) and id(root.value) in self._refs:
                body = by_ref.get(self._refs[id(root.value)].ident)
                if body is not None:
                    root.top().parent = body.top()
            for key in root.shared:
                if key in self._of_classes:
                    continue
                first = owner.setdefault(key, root)
                if first is not root:
                    root.top().parent = first.top()
            for first in root.links + self._same.holders(root.shared):
                root.top().parent = first.top()
        members: Dict[int, List[Root]] = {}
        for root in roots:
            members.setdefault(id(root.top()), []).append(root)
        groups = self._ordered(list(members.values()), by_ref)
        if len(groups) > GROUPS_MAX:
            groups[GROUPS_MAX:] = [[root for group in groups[GROUPS_MAX:] for root in group]]
        return groups

    def _shared_ids(self, pickler: Any, is_large: bool) -> List[int]:
        made, kinds, known = pickler.made, self._kinds, self.known_things
        found = list(pickler.texts)
        memo, pickler.seen = pickler.seen or pickler.memo.copy(), None
        for key, (_, thing) in memo.items():
            kind = type(thing)
            is_shared = kinds.get(kind)
            if is_shared is None:
                is_shared = kinds[kind] = self._has_identity(kind)
                self._note_class(kind)
            if key in made or is_shared and kind is not types.FunctionType and key not in known:
                found.append(key)
            elif is_large and kind in SIZED and len(thing) >= SIZED[kind]:
                found.append(key)
        return found

    def _note_class(self, kind: type) -> None:
        """Attributes of an imported class are not shared objects of its instances."""
        for base in kind.__mro__:
            if id(base) not in self._refs and _type_dict(base).get("__module__") not in self._workspace:
                self._of_classes.update([id(value) for value in _type_dict(base).values()])

    @staticmethod
    def _has_identity(kind: type) -> bool:
        if kind in FIXED or any([base in kind.__mro__ for base in FIXED_BASES]):
            return False
        numpy = _modules.get("numpy")
        for name in ("dtype", "generic", "ufunc"):
            if getattr(numpy, name, None) in kind.__mro__:
                return False
        return True

    def _ordered(self, groups: List[List[Root]], by_ref: Dict[str, Root]) -> List[List[Root]]:
        """Order groups after those that they depend on, as far as possible."""
        place = {id(root): group for group in groups for root in group}
        skeleton_refs = {ref.ident: ref.refs for ref in self._skeletons}
        ordered: List[List[Root]] = []
        seen: Set[int] = set()

        def weight(group: List[Root]) -> int:
            if any([root.ref is not None for root in group]):
                return 0
            if any([r.pickled is not None and r.pickled.size() > KEPT_MAX for r in group]):
                return 3  # read once, so after all that it may need
            return 1 if all([type(r.value) is types.FunctionType for r in group]) else 2

        # A stack, not recursion: chains of classes may be long.
        pending = [(group, False) for group in sorted(groups, key=weight)][::-1]
        while pending:
            group, is_ready = pending.pop()
            if is_ready:
                ordered.append(group)
                continue
            if id(group) in seen:
                continue
            seen.add(id(group))
            pending.append((group, True))
            wanted: Set[str] = set()
            for root in group:
                wanted |= root.refs
                if root.ref is not None:
                    wanted |= root.ref.refs
            closure = list(wanted)
            while closure:
                more = skeleton_refs.get(closure.pop(), set()) - wanted
                wanted |= more
                closure.extend(more)
            for ident in sorted(wanted):
                body = by_ref.get(ident)
                if body is not None and id(place[id(body)]) not in seen:
                    pending.append((place[id(body)], False))
        return ordered

    # Writing ----------------------------------------------------------------------

    def _write(self, sink: Sink, groups: Any, settings: Any) -> None:
        order = [k for k in self.names if not self._is_internal(k)]
        data = interpreter_settings(settings, order, self.lose)
        ours = self.owned | settings["ours"]
        data["descriptors"] = read_descriptors(settings["baseline"], self.names, ours, self.lose)
        self._put(sink, ":interpreter", {}, self._plain(data))
        if self._sources:
            texts = sources(self._sources)
            self._put(sink, ":sources", {}, self._plain(texts))
        if self._skeletons:
            skeletons = [(ref.ident, ref.skeleton) for ref in self._skeletons]
            idents = [clean(ref.ident, NAME_MAX) for ref in self._skeletons]
            meta = {"classes": trim(idents, HEAD_MAX // 2)}
            self._put(sink, ":classes", meta, self._plain(skeletons))
        for number, group in enumerate(groups):
            self._write_group(sink, number, group)
        if self.no_image and any([one["name"][:1] != "/" for one in self._lost]):
            row = {"name": IMAGE, "type": "image", "reason": clean(self.no_image, REASON_MAX)}
            self._lost.insert(LOST_MAX - 1, row)
        if len(self._lost) > LOST_MAX:
            text = "more than {} items cannot be saved".format(LOST_MAX)
            self._lost[LOST_MAX:] = [{"name": "others", "type": "object", "reason": text}]
        for one in self._lost:
            meta = {"type": one["type"], "reason": one["reason"]}
            sink.begin({"kind": "lost", "name": one["name"], "key": "", "size": 0, "same": False, "meta": meta})
            sink.end_item()
        sink.end()

    def _write_group(self, sink: Any, number: int, group: List[Root]) -> None:
        meta = self._meta(number, group)
        label = meta.pop("label")
        key = self._same.key_of(group)
        size = self._same.size_of(key)
        if size >= 0:
            sink.begin(head_of(label, "{}:{:x}".format(key, size), size, True, meta))
            sink.end_item()
            return
        pickled = group[0].pickled if len(group) == 1 else None
        for root in group:
            root.pickled = None
        if pickled is None or pickled.is_dropped and pickled.key() not in self._known:
            pickled = self._pickle_group(group, bool(key))
        if pickled is not None:
            if key and not pickled.pickler.lost:
                pickled.name(key)
            self._put(sink, label, meta, pickled, group)

    def _pickle_group(self, group: List[Root], is_plain: bool) -> Optional[Pickled]:
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        try:
            return self._pickle(payload_of(group), True, is_plain)
        except BaseException as error:
            for root in group:
                self.lose(root.label(), type_name(root.value), self._explain(error, root.value))
            return None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _meta(self, number: int, group: List[Root]) -> Dict[str, Any]:
        variables = [root for root in group if root.ref is None and root.special is None]
        classes = [root.ref.ident for root in group if root.ref is not None]
        names, summary, parts = {}, {}, {}
        room = HEAD_MAX - HEAD_LEFT - len(_encode(trim(classes, HEAD_MAX // 4)))
        left = len(variables)
        for root in variables:
            label = root.label()
            name, text = type_name(root.value), summarize(root.value)
            room -= 3 * len(_encode(label).encode()) + len(_encode(name + text).encode()) + 100
            if room < 0:
                break
            left -= 1
            names[label], summary[label] = name, text
            if len(group) > 1 and root.pickled is not None:
                parts[label] = [root.pickled.size(), root.pickled.key()]
        meta: Dict[str, Any] = {"order": number, "names": names, "summary": summary}
        if classes:
            meta["classes"] = trim(classes, HEAD_MAX // 4)
        if parts:
            meta["parts"] = parts
        if left:
            meta["more"] = left
        first = variables or [root for root in group if root.special is None]
        meta["label"] = first[0].label() if first else clean(":" + group[0].label(), NAME_MAX)
        return meta

    def _put(self, sink: Sink, name: str, meta: Any, pickled: Pickled, group: Any = ()) -> None:
        same = pickled.key() in self._known
        sink.begin(head_of(name, pickled.key(), pickled.size(), same, meta))
        if not same and not pickled.is_kept:
            pouring = Pouring(sink, pickled)
            try:
                self._pickle_with(pickled.how, payload_of(group), pouring, True)
            except Failed as error:
                raise error.cause from None
            pouring.finish()
        for part in pickled.parts() if not same and pickled.is_kept else ():
            sink.add(part)
        sink.end_item()

    def _plain(self, value: Any) -> Pickled:
        """The content of an item that holds only builtin objects."""
        made = Pickled(self._digest)
        made.write(pickle.dumps(value, 5))
        return made


def head_of(name: str, key: str, size: int, same: bool, meta: Any) -> Dict[str, Any]:
    return {"kind": "vars", "name": name, "key": key, "size": size, "same": same, "meta": meta}


def trim(names: List[str], most: int) -> List[str]:
    """The first names that fit into this many bytes of JSON."""
    kept = []
    for name in names:
        most -= len(_encode(name).encode()) + 2
        if most < 0:
            break
        kept.append(name)
    return kept


CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict)


def parts_of(value: Any, most: Optional[int] = WHERE_TRIES) -> Iterable[Tuple[str, Any]]:
    """The parts of a value, with their paths; runs no code of the session."""
    kind = type(value)
    if kind in (list, tuple, collections.deque):
        return [("[{}]".format(i), part) for i, part in enumerate(list(value)[:most])]
    if kind in (set, frozenset):
        return [("{...}", part) for part in list(value)[:most]]
    if kind in CONTAINERS:
        items = list(value.items())[:most]
        keys = [(".keys()", key) for key, _ in items if type(key) not in ATOMS]
        return keys + [("[{}]".format(repr(k) if type(k) in ATOMS else "?"), part) for k, part in items]
    if kind is types.FunctionType:
        found = []
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            with contextlib.suppress(ValueError):  # an empty cell
                found.append((" " + name, cell.cell_contents))
        for name in ("__defaults__", "__kwdefaults__", "__dict__"):
            part = getattr(value, name)
            if part:
                found.append(("." + name, part))
        return found
    if issubclass(kind, type) or kind is types.ModuleType:
        return []
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    return [("." + str(name), part) for name, part in list(attributes.items())[:most]]


def scratch(workspace: Optional[str]) -> List[Tuple[str, int]]:
    """Folders for writing outside the workspace, and their numbers of entries, if any."""
    found = []
    tmp = os.path.join(os.path.dirname(workspace or "/workspace"), "tmp")
    for name, path in (("/tmp", tmp), ("/dev/shm", "/dev/shm")):
        try:
            held = [file for file in listdir(path) if file != ".home"]
        except OSError:  # as in the local tier, where it belongs to the host
            continue
        try:  # programs recreate caches and settings; files of the code are lost
            held += [file for file in listdir(os.path.join(path, ".home")) if file[:1] != "."]
        except OSError:
            pass
        if held:
            found.append((name, len(held)))
    return found


def save(fd: int, names: Dict[Any, Any], own: List[Dict[str, Any]], known: bytes, order: Dict[str, Any]) -> None:
    """Write the variables in names to the pipe fd.

    order: budget_s, module (_snp; None: slower), threads and locks (which this process lacks), processes (the number
    besides this session's interpreter and detached, "3: npm run dev"), settings (of the driver, with `baseline`), items
    (written before), no_image (why they are no image; ""). The process must not be used afterwards. OSError: the pipe.
    """
    keys = set(known.decode("ascii", "replace").split("\n"))
    saver = Saver(names, own, order["module"], keys)
    saver.no_image = order["no_image"]
    for name, kind in order["threads"]:
        saver.lose(clean("thread " + name, NAME_MAX), kind, THREAD)
    for path in order["locks"]:
        saver.lose(clean("lock on " + path, NAME_MAX), "lock", LOCK)
    for number, _, line in [each.partition(": ") for each in order["detached"]]:
        saver.lose("process " + number, "process", clean(line, 200) + "; it ends with this sandbox")
    if order["processes"] > 0:
        saver.lose("background processes", "process", "%d run; they end with this sandbox" % order["processes"])
    for folder, n in scratch(order["settings"]["base"]):
        saver.lose(folder, "folder", "entries: %d; only /workspace is saved" % n)
    saver.save(Sink(fd, order["items"]), order["budget_s"], order["settings"])
