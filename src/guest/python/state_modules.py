# SPDX-License-Identifier: Apache-2.0
"""What a session has changed in modules: saved with its variables, restored after them."""

import builtins

# Ours, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import importlib
import os
import sys
import types
from typing import Any, Callable, Dict, Tuple

from state_texts import ATOMS, _type_dict

_modules: Dict[str, Any] = sys.modules

# Of sys: what cells have of their own, or what is kept otherwise.
NOT_PATCHES = frozenset(
    "argv path modules last_type last_value last_traceback last_exc path_importer_cache environ environb _".split()
)
STREAMS = ("stdin", "stdout", "stderr")

_fresh: Dict[str, Dict[str, Any]] = {}  # attributes of modules as they were loaded


def note_modules(names: Any) -> None:
    for name in list(names):
        module = _modules.get(name)
        if isinstance(module, types.ModuleType):
            _fresh[name] = dict(vars(module))


def is_noted(name: str) -> bool:
    return name in _fresh


def _patches(module: types.ModuleType, names: Dict[Any, Any], own_names: Any, workspace: str) -> Dict[str, Any]:
    """What the session has changed in a module, of what has a public name. own_names: the driver's."""
    found: Dict[str, Any] = {}
    own = vars(module)
    name, file = own.get("__name__"), own.get("__file__")
    fresh = _fresh.get(name) if type(name) is str else None
    is_of_session = type(file) is str and file.startswith(workspace)
    for key, value in list(own.items()):
        if type(key) is not str or key.startswith("_") or key in NOT_PATCHES or isinstance(value, types.ModuleType):
            continue
        if type(value) is types.FunctionType and value.__globals__ is own_names:
            continue
        if module is sys and key in STREAMS:
            if value is not getattr(sys, "__" + key + "__"):
                found[key] = value
        elif fresh is not None and fresh.get(key, fresh) is value:
            continue
        elif fresh is not None and key in fresh and fresh[key] is None and type(value) in ATOMS:
            if type(value) is str and value.startswith(workspace):  # else found out when first asked for
                found[key] = value
        elif (
            (fresh is not None and (key in fresh or type(value) in ATOMS))
            or (type(value) is types.FunctionType and value.__globals__ is names)
            or (isinstance(value, type) and value.__dict__.get("__module__") == "__main__")
            or (is_of_session and type(value) in ATOMS)
        ):
            found[key] = value
    return found


def _class_patches(module: types.ModuleType, names: Dict[Any, Any]) -> Dict[Tuple[str, str], Any]:
    """Functions of the session in classes of a module."""
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


def read_patches(names: Dict[Any, Any], own_names: Any, workspace: Any) -> Any:
    """(name, changes) of each module that the session can name without a search."""
    seen = {id(module): module for module in (builtins, sys, os)}
    seen.update({id(value): value for value in names.values() if type(value) is types.ModuleType})
    for module in seen.values():
        name = vars(module).get("__name__")
        if type(name) is str and _modules.get(name) is module and name != "__main__":
            found = _patches(module, names, own_names, (workspace or "/workspace") + "/"), _class_patches(module, names)
            if found[0] or found[1]:
                yield name, found
