# SPDX-License-Identifier: Apache-2.0
"""Arrays that show the memory of another one stay views of it: it is saved once, and shared again."""

import builtins

# Ours, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import sys
from typing import Any, Tuple


def holders() -> int:
    """What getrefcount() says of an object that one other object holds, and a local name."""
    holder = [object()]
    thing = holder[0]
    return sys.getrefcount(thing)


ONE_HOLDER = holders()


def extent(array: Any) -> Tuple[int, int]:
    """Where the memory of its elements begins and ends."""
    low = high = array.__array_interface__["data"][0]
    for length, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high + array.itemsize


def reduce_view(array: Any) -> Any:
    """NotImplemented: it is an array of its own, or may become one unseen."""
    kind = type(array)
    owner = array.base
    if type(owner) is not kind or not array.size:
        return NotImplemented
    while type(owner.base) is kind:
        owner = owner.base
    if array.dtype.hasobject or owner.dtype.hasobject or not owner.itemsize:
        return NotImplemented
    if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        return NotImplemented
    if sys.getrefcount(owner) <= ONE_HOLDER and array.nbytes <= owner.nbytes:
        return NotImplemented  # nobody else sees what it shows
    low, high = extent(array)
    begin = owner.__array_interface__["data"][0]
    if low < begin or high > begin + owner.nbytes:
        return NotImplemented
    offset = array.__array_interface__["data"][0] - begin
    return _view, (owner, array.dtype, array.shape, array.strides, offset, array.flags.writeable)


def _view(owner: Any, dtype: Any, shape: Any, strides: Any, offset: int, is_writable: bool) -> Any:
    flat = owner.reshape(-1, order="A").view("u1")
    made = type(owner)(shape, dtype, flat, offset, strides)
    if not is_writable:
        made.flags.writeable = False
    return made


MAKERS = (_view,)
