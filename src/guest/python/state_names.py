# SPDX-License-Identifier: Apache-2.0
"""Names in pickles of variables: cloudpickle, and our functions."""

import builtins

# A private copy, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import importlib
import marshal
import os
import sys
import types
from abc import ABCMeta
from importlib.util import MAGIC_NUMBER
from typing import Any, Dict, List, Tuple

from state_objects import MAKERS, work
from state_texts import Refused, _type_dict
from state_views import MAKERS as VIEW_MAKERS

_modules: Dict[str, Any] = sys.modules


STATE = "_snp_state"  # our names, in pickles only
CLOUD = "_snp_cloudpickle"


def _load_cloudpickle() -> Tuple[Any, Dict[str, Any]]:
    """Our pickler's base class, and its modules; a program's own cloudpickle is unaffected."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cloudpickle")
    package = types.ModuleType(CLOUD)
    package.__path__ = [here]
    _modules[CLOUD] = package
    try:
        fast = importlib.import_module(CLOUD + ".cloudpickle_fast")
        pickler = fast.CloudPickler
        return pickler, {name: _modules[name] for name in _modules if name.startswith(CLOUD)}
    finally:
        for name in [name for name in _modules if name.startswith(CLOUD)]:
            del _modules[name]


_CloudPickler, _cloud_modules = _load_cloudpickle()


# Pickles refer to these names when they are read. They act for the active loader.

def _ref(ident: str) -> Any:
    """A class of the session, or another object that exists once."""
    return work.loader.find_ref(ident)


def _body(ident: str, state: Dict[str, Any]) -> None:
    kind = work.loader.find_ref(ident)
    for name, value in state["attributes"].items():
        try:
            type.__setattr__(kind, name, value)
        except Exception as error:
            work.loader.half_failed["{}.{}".format(ident, name)] = error
    for name, attributes in state.get("members", {}).items():
        vars(_type_dict(kind)["_member_map_"][name]).update(attributes)
    for one in state.get("registry", ()):
        ABCMeta.register(kind, one)


def _code(magic: bytes, data: bytes) -> types.CodeType:
    if magic != MAGIC_NUMBER:
        text = "its code was compiled by another version of Python; this one is {}.{}"
        raise Refused(text.format(*sys.version_info[:2]))
    code: types.CodeType = marshal.loads(data)
    return code


def _function(code: types.CodeType, where: Any, name: str, closure: Any) -> Any:
    """where: a module's name, a namespace, or None for the session's."""
    if where is None:
        where = work.loader.names
    if isinstance(where, str):
        where = importlib.import_module(where)
    names = vars(where) if isinstance(where, types.ModuleType) else where
    has_own = "__builtins__" in names  # perhaps not yet, but a function takes them when it is made
    names.setdefault("__builtins__", builtins)
    try:
        return types.FunctionType(code, names, name, None, closure)
    finally:
        if not has_own:
            del names["__builtins__"]


def _module(name: str, is_known: bool) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__dict__["__builtins__"] = builtins
    return sys.modules.setdefault(name, made) if is_known else made


def _module_set(made: types.ModuleType, state: Dict[Any, Any]) -> None:
    made.__dict__.update(state)


def _fill(late: Any, items: List[Any]) -> None:
    for item in items:
        if type(late) is dict:
            late[item[0]] = item[1]
        else:
            late.add(item)


FUNCTION_PARTS = (
    "__defaults__", "__kwdefaults__", "__annotations__", "__doc__", "__module__", "__qualname__", "__type_params__",
)


def _function_set(function: Any, state: Tuple[Dict[str, Any], Dict[str, Any]]) -> None:
    parts, attributes = state
    for name, value in parts.items():
        setattr(function, name, value)
    function.__dict__.update(attributes)


def _cell() -> Any:
    return types.CellType()


def _cell_set(cell: Any, state: Tuple[Any]) -> None:
    cell.cell_contents = state[0]


BY_NAME = {
    function.__name__: function
    for function in (
        _ref,
        _body,
        _code,
        _function,
        _function_set,
        _module,
        _module_set,
        _fill,
        _cell,
        _cell_set,
        *MAKERS,
        *VIEW_MAKERS,
    )
}


# Pickles find our functions under this name.
OURSELVES = types.ModuleType(STATE)
for _each in BY_NAME.values():
    _each.__module__ = STATE
    setattr(OURSELVES, _each.__name__, _each)
for _each in _cloud_modules.values():
    # An id per process for each class would change the keys of items.
    if hasattr(_each, "_get_or_create_tracker_id"):
        _each._get_or_create_tracker_id = lambda _class: None
del _each
