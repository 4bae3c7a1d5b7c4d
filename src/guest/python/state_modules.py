# SPDX-License-Identifier: Apache-2.0
"""A session's changes to modules: saved with its variables, restored after them."""

import builtins

# A private copy, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import codecs
import contextlib
import encodings
import enum
import functools
import gc
import importlib
import os
import sys
import threading
import types
from abc import ABCMeta
from typing import Any, Callable, Dict, Iterator, List, Set, Tuple

from state_classes import NOT_STATE, registered
from state_objects import Lost
from state_texts import ATOMS, Refused, _type_dict, _type_module, _type_qualname

_modules: Dict[str, Any] = sys.modules

# Names of sys that belong to cells, or that are saved separately.
NOT_PATCHES = frozenset(
    "argv path modules last_type last_value last_traceback last_exc path_importer_cache environ environb _".split()
)
STREAMS = ("stdin", "stdout", "stderr")

_fresh: Dict[str, Dict[str, Any]] = {}  # attributes of modules as loaded


def note_modules(names: Any) -> None:
    for name in list(names):
        module = _modules.get(name)
        if isinstance(module, types.ModuleType):
            _fresh[name] = dict(vars(module))
            for one in registries_of(name):
                _fresh_entries[one] = _entries(*one)
            for kind in _abstract(module):
                _fresh_classes[kind] = {id(one) for one in registered(kind)}


def is_noted(name: str) -> bool:
    return name in _fresh


def _patches(
    module: types.ModuleType, names: Dict[Any, Any], is_part: Callable[[Any], bool], workspace: str
) -> Dict[str, Any]:
    """The session's changes to public names of a module."""
    found: Dict[str, Any] = {}
    own = vars(module)
    name = own.get("__name__")
    fresh = _fresh.get(name) if type(name) is str else None
    for key, value in list(own.items()):
        if type(key) is not str or key.startswith("_") or key in NOT_PATCHES or isinstance(value, types.ModuleType):
            continue
        if type(value) is types.FunctionType and is_part(value.__globals__):
            continue
        if module is sys and key in STREAMS:
            if value is not getattr(sys, "__" + key + "__"):
                found[key] = value
        elif fresh is not None and fresh.get(key, fresh) is value:
            continue
        elif fresh is not None and key in fresh and fresh[key] is None and type(value) in ATOMS:
            if type(value) is str and (value + "/").startswith(workspace):  # others are computed on first use
                found[key] = value
        elif (fresh is not None and (key in fresh or type(value) in ATOMS)) or _is_of_cells(value, names):
            found[key] = value
    return found


def _is_of_cells(value: Any, names: Dict[Any, Any]) -> bool:
    if type(value) is types.FunctionType:
        return value.__globals__ is names
    return isinstance(value, type) and _type_dict(value).get("__module__") == "__main__"


def _class_patches(module: types.ModuleType, names: Dict[Any, Any]) -> Dict[Tuple[str, str], Any]:
    """Functions that the session put into classes of a module."""
    found = {}
    for name, kind in list(vars(module).items()):
        if not isinstance(kind, type) or _type_dict(kind).get("__module__") == "__main__":
            continue
        for key, value in list(_type_dict(kind).items()):
            inner = getattr(value, "fget", None) if type(value) is property else value
            inner = inner.__func__ if type(inner) in (staticmethod, classmethod) else inner
            if type(inner) is types.FunctionType and inner.__globals__ is names:
                found[name, key] = value
    return found


def write_patches(name: str, value: Any, moved: Callable[[str], str]) -> None:
    module = importlib.import_module(name)
    attributes, of_classes = value
    for key, one in attributes.items():
        setattr(module, key, moved(one) if type(one) is str else one)
    for (kind, key), one in of_classes.items():
        setattr(getattr(module, kind), key, one)


def read_patches(
    names: Dict[Any, Any], is_part: Callable[[Any], bool], workspace: str
) -> Iterator[Tuple[str, Any]]:
    """(name, changes) of each module that a variable names, directly or as its package."""
    seen = {id(module): module for module in (builtins, sys, os)}
    seen.update({id(value): value for value in names.values() if type(value) is types.ModuleType})
    for module in seen.values():
        name = vars(module).get("__name__")
        if type(name) is not str or _modules.get(name) is not module or name == "__main__":
            continue
        if not is_of_workspace(module, workspace):
            found = _patches(module, names, is_part, workspace), _class_patches(module, names)
            if found[0] or found[1]:
                yield name, found
    # After "import urllib.request" the variable names urllib.
    for outer in list(seen.values()):
        for module in [one for one in vars(outer).values() if type(one) is types.ModuleType and id(one) not in seen]:
            name = vars(module).get("__name__")
            if type(name) is not str or _modules.get(name) is not module or is_of_workspace(module, workspace):
                continue
            if outer is not os and not name.startswith("{}.".format(vars(outer).get("__name__"))):
                continue
            seen[id(module)] = module
            patches = _patches(module, names, is_part, workspace)
            patches = {key: value for key, value in patches.items() if _is_of_cells(value, names)}
            if patches:
                yield name, (patches, {})


# Modules of the workspace ---------------------------------------------------------------------
#
# Such a module is imported again. Then its variables, attributes of its classes, and attributes, defaults and
# closures of its functions are restored. A place is a path such as "Shop.items".

STATE_OF = "state of "
FUNCTIONS = (types.FunctionType, type(functools.lru_cache()(len)))
LOCKS = (type(threading.Lock()), type(threading.RLock()))  # recreated by the import


def is_of_workspace(module: Any, workspace: str) -> bool:
    file = vars(module).get("__file__") if isinstance(module, types.ModuleType) else None
    return type(file) is str and file.startswith(workspace) and "/site-packages/" not in file


def _inner(value: Any) -> Any:
    """The function behind an attribute of a class."""
    if type(value) in (staticmethod, classmethod):
        return value.__func__
    return value.fget if type(value) is property else value.func if type(value) is functools.cached_property else value


def _attributes(owner: Any) -> Iterator[Tuple[str, Any]]:
    is_class = isinstance(owner, type)
    for name, value in list((_type_dict(owner) if is_class else getattr(owner, "__dict__", {})).items()):
        is_hidden = type(name) is not str or "." in name or name.startswith("__") and name.endswith("__")
        if not is_hidden and not (is_class and name in NOT_STATE):
            yield name, value
    if type(owner) not in FUNCTIONS:
        return
    for name in ("__defaults__", "__kwdefaults__"):
        value = getattr(owner, name, None) or ()
        if not ATOMS.issuperset(map(type, value.values() if type(value) is dict else value)):
            yield name, value
    if type(getattr(owner, "__wrapped__", None)) in FUNCTIONS:
        yield "__wrapped__", owner.__wrapped__
    for number, cell in enumerate(getattr(owner, "__closure__", None) or ()):
        with contextlib.suppress(ValueError):  # an empty cell
            yield "__closure__.{}".format(number), cell.cell_contents


def _read_module(module: types.ModuleType) -> Dict[str, Any]:
    """{place: value}, without values that the import recreates."""
    name = vars(module)["__name__"]
    found: Dict[str, Any] = {}
    pending: List[Tuple[str, Any]] = [("", module)]
    seen: Set[int] = set()
    while pending:
        path, owner = pending.pop()
        for key, value in _attributes(owner):
            place, inner = path + key, _inner(value)
            if type(inner) in FUNCTIONS:
                where = getattr(inner, "__module__", None)
                is_made = where == name and (owner is not module or inner.__qualname__ == key)
                is_wanted = owner is module or where == "__main__"
            elif isinstance(inner, type):
                is_made = _type_module(inner) == name and _type_qualname(inner) == place
                is_wanted = type(owner) not in FUNCTIONS
            else:
                is_free = type(value) in LOCKS and "unlocked" in repr(value)
                is_made = is_free or type(value) is object and owner is module
                is_wanted = not isinstance(owner, type) or not hasattr(type(value), "__get__")
            if is_wanted and not is_made:
                found[place] = value
            elif is_made and id(inner) not in seen and not isinstance(inner, enum.EnumMeta):
                seen.add(id(inner))
                pending.append((place + ".", inner))
    return found


def sentinels(module: types.ModuleType) -> List[Tuple[str, Any]]:
    """Sentinels, compared by identity: the import recreates them."""
    return [(name, value) for name, value in vars(module).items() if type(value) is object]


def workspace_modules(workspace: str) -> Iterator[Tuple[str, types.ModuleType]]:
    for name, module in list(_modules.items()):
        if name != "__main__" and is_of_workspace(module, workspace) and vars(module).get("__name__") == name:
            yield name, module


def read_modules(workspace: str) -> Iterator[Tuple[str, Dict[str, Any]]]:
    for name, module in workspace_modules(workspace):
        found = _read_module(module)
        if found:
            yield name, found


def _put(owner: Any, place: str, value: Any) -> None:
    *path, last = place.split(".")
    for step in path:
        if type(owner) is tuple:
            owner = owner[int(step)].cell_contents
        else:
            owner = _inner(_type_dict(owner)[step] if isinstance(owner, type) else getattr(owner, step))
    if type(owner) is tuple:
        owner[int(last)].cell_contents = value
    elif isinstance(owner, type):
        type.__setattr__(owner, last, value)
    elif isinstance(owner, types.ModuleType):
        vars(owner)[last] = value
    else:
        setattr(owner, last, value)


def write_module(
    name: str, state: Dict[str, Any], moved: Callable[[str], str], fail: Callable[[str, BaseException], None]
) -> None:
    module = importlib.import_module(name)
    for place, value in state.items():
        if type(value) is not Lost:
            try:
                _put(module, place, moved(value) if type(value) is str else value)
            except (AttributeError, KeyError, IndexError):
                fail("{}{}.{}".format(STATE_OF, name, place), Refused("its file no longer defines it"))


# Registries ---------------------------------------------------------------------------------

# Lists and dicts of modules that code adds entries to, mostly by a function.
REGISTRIES = {
    "codecs": "register register_error",
    "copyreg": "dispatch_table _extension_registry _inverted_registry",
    "email.charset": "CHARSETS ALIASES CODEC_MAP",
    "encodings.aliases": "aliases",
    "gc": "callbacks",
    "shutil": "_ARCHIVE_FORMATS _UNPACK_FORMATS",
    "sqlite3": "adapters converters",
    "sys": "meta_path path_hooks warnoptions",
    "urllib.parse": "uses_netloc uses_relative uses_params",
    "xml.etree.ElementTree": "_namespace_map",
}
OWNED = (type, ABCMeta, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
Registry = Tuple[str, str]

_fresh_entries: Dict[Registry, Any] = {}  # when their modules were loaded


def _codec_registries() -> Dict[Registry, Any]:
    """Find the registries of codecs, which have no names, by an entry that every interpreter registers."""
    found: Dict[Registry, Any] = {}
    for one in gc.get_referrers(encodings.search_function):
        if type(one) is list:
            found["codecs", "register"] = one
    for one in gc.get_referrers(codecs.lookup_error("surrogateescape")):
        if type(one) is dict and "xmlcharrefreplace" in one:
            found["codecs", "register_error"] = one
    return found


_of_codecs = _codec_registries()


def _registry(module: str, name: str) -> Any:
    return _of_codecs.get((module, name)) or vars(_modules[module]).get(name)


def registries_of(module: str) -> List[Registry]:
    return [(module, name) for name in REGISTRIES.get(module, "").split()]


def _entries(module: str, name: str) -> Any:
    """A copy of a registry, or None if it does not exist."""
    found = _registry(module, name)
    return type(found)(found) if type(found) in (list, dict) else None


def read_registries(workspace: str) -> Iterator[Tuple[str, Any]]:
    """(name, added or replaced entries, removed entries) of each changed registry."""
    for one, fresh in _fresh_entries.items():
        now = _entries(*one)
        if fresh is None or type(now) is not type(fresh):
            continue
        if type(now) is dict:
            added: Any = {key: value for key, value in now.items() if fresh.get(key, _fresh) is not value}
            added = {key: value for key, value in added.items() if not _comes_again(value, workspace)}
            removed: List[Any] = [key for key in fresh if key not in now]
        else:
            old, new = set(map(id, fresh)), set(map(id, now))
            added = [value for value in now if id(value) not in old and not _comes_again(value, workspace)]
            removed = [value for value in fresh if id(value) not in new]
        if added or removed:
            is_first = type(now) is list and bool(added) and now[0] is added[0]
            yield ".".join(one), (added, removed, is_first)


def _comes_again(value: Any, workspace: str) -> bool:
    """Whether an entry belongs to a library that registers it on import."""
    owner = value if type(value) in OWNED else type(value)
    name = _type_module(owner) if isinstance(owner, type) else owner.__module__
    if type(name) is not str or name in _fresh or name == "__main__":
        return False
    module = _modules.get(name)
    return module is not None and not is_of_workspace(module, workspace)


def write_registry(name: str, value: Any) -> None:
    module, _, attribute = name.rpartition(".")
    importlib.import_module(module)
    registry, (added, removed, is_first) = _registry(module, attribute), value
    if type(registry) is dict:
        registry.update({key: one for key, one in added.items() if type(one) is not Lost})
        for key in removed:
            registry.pop(key, None)
        return
    for one in removed:
        if one in registry:
            registry.remove(one)
    new = [one for one in added if type(one) is not Lost and one not in registry]
    place = 0 if is_first else len(registry)
    registry[place:place] = new


# Classes that are registered with abstract classes ------------------------------------------------

_fresh_classes: Dict[Any, Set[int]] = {}  # abstract classes of the template: ids of the classes registered with them


def _abstract(module: types.ModuleType) -> List[Any]:
    return [one for one in list(vars(module).values()) if issubclass(type(one), ABCMeta)]


def read_abstract() -> Iterator[Tuple[str, List[Tuple[Any, List[type]]]]]:
    """Abstract classes of libraries, and the classes that the session registered with each."""
    kinds = set(_fresh_classes)
    for name, module in list(_modules.items()):
        if name != "__main__" and name not in _fresh and isinstance(module, types.ModuleType):
            kinds.update(_abstract(module))
    found = []
    for kind in kinds:
        fresh = _fresh_classes.get(kind)
        wanted = ("__main__",) if fresh is None else ("__main__", *_fresh)  # imports register the others
        new = [one for one in registered(kind) if id(one) not in (fresh or ()) and _type_module(one) in wanted]
        if new and _type_module(kind) != "__main__":
            found.append((kind, new))
    if found:
        yield "abstract classes", found


def write_abstract(value: List[Tuple[Any, List[type]]]) -> None:
    for kind, classes in value:
        for one in classes:
            if isinstance(one, type):
                ABCMeta.register(kind, one)
