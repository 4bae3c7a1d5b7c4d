# SPDX-License-Identifier: Apache-2.0
"""Classes of the session: first made without their bodies, then filled."""

import builtins

# A private copy, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import enum
import functools
import types
from abc import ABCMeta
from typing import Any, Dict, List, Tuple

from state_texts import ATOMS, _type_bases, _type_dict, _type_name, _type_qualname

try:
    from _abc import _get_dump as abc_dump
except ImportError:
    abc_dump = None


NOT_STATE = frozenset(
    "__dict__ __weakref__ _abc_impl _abc_registry _abc_cache _abc_negative_cache "
    "_abc_negative_cache_version __class__".split()
)
ENUM_OWN = frozenset(
    "_generate_next_value_ _member_names_ _member_map_ _member_type_ _value2member_map_ "
    "_unhashable_values_ _unhashable_values_map_ _hashable_values_ __new__ _new_member_ "
    "__new_member__ _use_args_ _value_repr_ _singles_mask_ _all_bits_ _inverted_".split()
)
MEMBER_OWN = frozenset("_value_ _name_ __objclass__ _sort_order_ _inverted_".split())


def skeleton_of(thing: Any) -> Tuple[Any, ...]:
    """A class without its body; for other things, the whole description."""
    if not isinstance(thing, type):
        return skeleton_of_typing(thing)
    own = _type_dict(thing)
    names = {"__module__": own.get("__module__"), "__qualname__": _type_qualname(thing)}
    if issubclass(thing, enum.Enum):
        members = [(name, member._value_) for name, member in own["_member_map_"].items()]
        return "enum", type(thing), _type_name(thing), _type_bases(thing), names, members
    slots = own.get("__slots__")
    if slots is not None:
        slots = slots if type(slots) is str else tuple([str(name) for name in slots])
        names["__slots__"] = slots
    for name in ("__orig_bases__", "__type_params__"):
        if name in own:
            names[name] = own[name]
    if type(own.get("__dict__")) is property:
        names["__dict__"] = own["__dict__"]
    return "class", type(thing), _type_name(thing), _type_bases(thing), names


def skeleton_of_typing(thing: Any) -> Tuple[Any, ...]:
    kind = type(thing)
    more: Dict[str, Any] = {}
    args: Tuple[Any, ...] = (thing.__name__,)
    if hasattr(thing, "__supertype__"):
        args += (thing.__supertype__,)
    elif hasattr(thing, "__constraints__"):
        args += tuple(thing.__constraints__)
    for name in ("bound", "covariant", "contravariant", "infer_variance"):
        value = getattr(thing, "__{}__".format(name), None)
        if value:
            more[name] = value
    return "typing", kind, thing.__module__, args, more


# Types of methods, and of values that refer to hardly anything.
EARLY = ATOMS | frozenset(
    (
        types.FunctionType,
        types.BuiltinFunctionType,
        staticmethod,
        classmethod,
        property,
        functools.cached_property,
        type(functools.lru_cache()(len)),
    )
)


def registered(kind: Any) -> List[Any]:
    """Classes registered with an abstract class."""
    found = [reference() for reference in abc_dump(kind)[0]] if abc_dump is not None else []
    return [one for one in found if one is not None]


def class_state(kind: Any) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """The body of a class: attributes to set first, and the rest."""
    own = _type_dict(kind)
    is_enum = issubclass(kind, enum.Enum)
    members = own.get("_member_map_", {}) if is_enum else {}
    early: Dict[str, Any] = {}
    late: Dict[str, Any] = {}
    for name, value in own.items():
        if type(name) is not str or name in NOT_STATE or name in members:
            continue
        if is_enum and name in ENUM_OWN:
            continue
        if type(value) in (types.MemberDescriptorType, types.GetSetDescriptorType):
            if value.__objclass__ is kind:
                continue
        (early if type(value) in EARLY else late)[name] = value
    state: Dict[str, Any] = {"attributes": late}
    if members:
        state["members"] = {
            name: {k: v for k, v in vars(member).items() if k not in MEMBER_OWN}
            for name, member in members.items()
        }
    if isinstance(kind, ABCMeta):
        state["registry"] = registered(kind)
    return {"attributes": early}, state


def make_class(how: str, *args: Any) -> Any:
    """Make the object described by skeleton_of()."""
    if how == "typing":
        kind, module, values, more = args
        made = kind(*values, **more)
        made.__module__ = module
        return made
    meta, name, bases, names = args[:4]
    if how == "enum":
        body = meta.__prepare__(name, bases)
        for key, value in args[4]:
            body[key] = value
        made = meta.__new__(meta, name, bases, body)
        made.__module__, made.__qualname__ = names["__module__"], names["__qualname__"]
        return made
    names = {key: value for key, value in names.items() if value is not None}
    if issubclass(meta, ABCMeta):
        return ABCMeta.__new__(meta, name, bases, names)
    try:
        # The body is set later, including the metaclass's additions.
        return type.__new__(meta, name, bases, names)
    except TypeError:
        return meta.__new__(meta, name, bases, names)
