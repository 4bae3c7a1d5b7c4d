# SPDX-License-Identifier: Apache-2.0
"""Finds variables unchanged since they were saved, without pickling them."""

import builtins

# A private copy, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import re
import struct
import types
from typing import Any, Dict, Iterable, List, Optional, Tuple

from state_objects import _type_mro, is_heap, is_plain
from state_texts import Refused, _type_dict
from state_views import reduce_view

# Keys of hashed items: version of the hash, the hash, and bytes of the pickle. Changes to the hash's rules, or to
# pickling, need another version.
FORM = "c1:{}"
KEY = re.compile("(c1:[0-9a-f]{32}):([0-9a-f]{1,16})")

# A class with one of these affects how its objects are pickled, or the values of their attributes.
HANDS = frozenset(("__getattribute__", "__getattr__", "__class__", "__call__", "__slots__"))
NUMBERS = frozenset("biufcmMSU")  # kinds of numpy's types without state besides their bytes
BUILTIN_NUMBERS = 24  # numpy numbers foreign types from here on
POINTER = struct.calcsize("P")

_basic_size, _dict_offset, _weak_offset = [
    vars(type)[name].__get__ for name in ("__basicsize__", "__dictoffset__", "__weakrefoffset__")
]


def has_hash(kind: Any) -> bool:
    """Whether session code hashes objects of a class: as keys they must be complete first."""
    return kind.__hash__ is not None and kind.__hash__ is not object.__hash__


def is_attributes(kind: type) -> bool:
    """Whether objects of a class consist of their attributes, without hooks."""
    *bases, last = _type_mro(kind)
    if last is not object or not all([is_heap(base) for base in bases]) or not is_plain(kind):
        return False
    for base in bases:
        own = _type_dict(base)
        if not HANDS.isdisjoint(own) or own.get("__slotnames__"):
            return False
        if type(own.get("__dict__")) not in (types.GetSetDescriptorType, type(None)):
            return False
    size = _basic_size(object) + POINTER * ((_dict_offset(kind) > 0) + (_weak_offset(kind) > 0))
    return _dict_offset(kind) != 0 and _basic_size(kind) <= size and not has_hash(kind)


def bytes_of(array: Any) -> Any:
    """The state of a numpy array besides its contents; None if it has more."""
    dtype = array.dtype
    if dtype.kind not in NUMBERS or dtype.num >= BUILTIN_NUMBERS:
        return None
    if dtype.metadata is not None or not array.flags.forc or not array.size or not array.itemsize:
        return None
    if reduce_view(array) is not NotImplemented:
        return None
    head = (dtype.str, array.shape, array.flags.c_contiguous, array.flags.f_contiguous, array.flags.writeable)
    return repr(head).encode(), array.reshape(-1, order="A").view("u1")


class Same:
    """Hashes the contents of variables, and knows which hashes the reader has."""

    def __init__(self, saver: Any, module: Any, known: Iterable[str]) -> None:
        """module: _snp, or None: then there are no hashes."""
        self._saver = saver
        self._module = module if hasattr(module, "content") else None
        self._walkers: List[Any] = []  # of each call: the root
        self._held: List[Any] = []  # keeps the addresses of hashed objects valid
        self._kinds: Dict[int, Tuple[type, Optional[str]]] = {}
        found = [KEY.fullmatch(key) for key in known]
        self._sizes = {one.group(1): int(one.group(2), 16) for one in found if one}
        if self._module is not None:
            self._module.content_refuse(list(saver.known_things) + list(saver.known_containers))

    def look(self, root: Any) -> None:
        """Before pickling: is it needed, and which objects does it share with earlier roots?"""
        hashed = self._hash([root], len(self._walkers), root)
        root.is_hashed, root.mark = hashed is not None, hashed or ""

    def key_of(self, group: List[Any]) -> str:
        """The prefix of a group's item key; "" if unknown."""
        if not all([root.is_hashed for root in group]):
            return ""
        if len(group) == 1 and group[0].mark:
            return FORM.format(group[0].mark)
        hashed = self._hash(group, 0, group[0])
        return FORM.format(hashed) if hashed else ""

    def size_of(self, key: str) -> int:
        """The size of the reader's content with this key; -1 if it has none."""
        return self._sizes.get(key, -1)

    def holders(self, ids: List[int]) -> List[Any]:
        """The roots that contain these objects."""
        return [self._walkers[number] for number in self._module.content_held(ids)] if self._walkers else []

    def _hash(self, roots: List[Any], first: int, root: Any) -> Optional[str]:
        """None: unknown; "": it shares objects with calls before first."""
        if self._module is None:
            return None
        payload = [(one.special, one.name, one.value) for one in roots]
        self._held.append(payload)
        while True:
            self._walkers.append(root)
            hashed, links, given_back, classes, unknown = self._module.content(payload, first)
            root.links += [self._walkers[number] for number in links]
            if unknown is None or id(unknown) in self._kinds or not self._allow(unknown):
                break
        if hashed is None:
            return None
        root.refs |= {self._kinds[id(kind)][1] for kind in classes} - {None}
        return self._with_arrays(hashed, given_back)

    def _with_arrays(self, hashed: str, arrays: List[Any]) -> Optional[str]:
        parts = [bytes_of(array) for array in arrays]
        if None in parts:
            return None
        if not parts or not hashed:
            return hashed
        keys = [head + self._module.digest([data]).encode() for head, data in parts]
        digest: str = self._module.digest([hashed.encode()] + keys)
        return digest

    def _allow(self, kind: type) -> bool:
        saver = self._saver
        ident, token = None, None
        if kind is saver.array:
            token = b""
        elif is_attributes(kind) and kind not in saver.reducers and saver.how_of(kind) is None:
            try:
                ident = saver.ident_of(kind)
                token = repr((ident, kind.__module__, kind.__qualname__)).encode("utf-8", "backslashreplace")
            except Refused:
                pass
        self._kinds[id(kind)] = (kind, ident)
        if token is not None:
            self._module.content_allow(kind, token)
        return token is not None
