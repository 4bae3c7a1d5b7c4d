# SPDX-License-Identifier: Apache-2.0
"""Finds variables that are as they were when they were saved, without pickling them."""

import builtins

# Ours, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import re
import struct
import types
from typing import Any, Dict, Iterable, List, Optional, Tuple

from state_objects import _type_mro, is_heap, is_plain
from state_texts import Refused, _type_dict
from state_views import reduce_view

# Of an item that was hashed: version of the hash, the hash, and bytes of the pickle. A hash by other rules, or
# of what is pickled in another way, needs another version.
FORM = "c1:{}"
KEY = re.compile("(c1:[0-9a-f]{32}):([0-9a-f]{1,16})")

# A class that has one of these takes part in how its objects are pickled, or in what their attributes are.
HANDS = frozenset(("__getattribute__", "__getattr__", "__class__", "__call__", "__slots__"))
NUMBERS = frozenset("biufcmMSU")  # kinds of numpy's types whose bytes are all there is
BUILTIN_NUMBERS = 24  # from here on numpy numbers the types of others
POINTER = struct.calcsize("P")

_basic_size, _dict_offset, _weak_offset = [
    vars(type)[name].__get__ for name in ("__basicsize__", "__dictoffset__", "__weakrefoffset__")
]


def has_hash(kind: Any) -> bool:
    """Whether code of the session hashes objects of a class: as keys they are complete first."""
    return kind.__hash__ is not None and kind.__hash__ is not object.__hash__


def is_attributes(kind: type) -> bool:
    """Whether objects of a class are their attributes, and nothing else has a hand in it."""
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
    """What a numpy array is besides its contents, and these; None where that is not all."""
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
    """Hashes what variables hold, and knows which hashes the reader has."""

    def __init__(self, saver: Any, module: Any, known: Iterable[str]) -> None:
        """module: _snp, or None: then nothing has a hash."""
        self._saver = saver
        self._module = module if hasattr(module, "content") else None
        self._walkers: List[Any] = []  # of each call: the root
        self._held: List[Any] = []  # what was looked at stays where it is
        self._kinds: Dict[int, Tuple[type, Optional[str]]] = {}
        found = [KEY.fullmatch(key) for key in known]
        self._sizes = {one.group(1): int(one.group(2), 16) for one in found if one}
        if self._module is not None:
            self._module.content_refuse(list(saver.known_things) + list(saver.known_containers))

    def look(self, root: Any) -> None:
        """Before it is pickled: whether it need be, and what it shares with roots that were looked at."""
        hashed = self._hash([root], len(self._walkers), root)
        root.is_hashed, root.mark = hashed is not None, hashed or ""

    def key_of(self, group: List[Any]) -> str:
        """What the key of a group's item begins with; "" if that is not known."""
        if not all([root.is_hashed for root in group]):
            return ""
        if len(group) == 1 and group[0].mark:
            return FORM.format(group[0].mark)
        hashed = self._hash(group, 0, group[0])
        return FORM.format(hashed) if hashed else ""

    def size_of(self, key: str) -> int:
        """Of the content that the reader has under such a key; -1 if it has none."""
        return self._sizes.get(key, -1)

    def holders(self, ids: List[int]) -> List[Any]:
        """The roots in which these objects were met."""
        return [self._walkers[number] for number in self._module.content_held(ids)] if self._walkers else []

    def _hash(self, roots: List[Any], first: int, root: Any) -> Optional[str]:
        """None: not known; "": it shares objects with calls before first."""
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
