# SPDX-License-Identifier: Apache-2.0
"""Arrays that are views of another stay views: the memory is saved once, and shared again."""

import builtins

# A private copy, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import sys
from typing import Any, Tuple


def holders() -> int:
    """The value of getrefcount() for an object held by one other object and a local name."""
    holder = [object()]
    thing = holder[0]
    return sys.getrefcount(thing)


ONE_HOLDER = holders()


def extent(array: Any) -> Tuple[int, int]:
    """The first and last address of its elements' memory."""
    low = high = array.__array_interface__["data"][0]
    for length, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high + array.itemsize


def reduce_view(array: Any) -> Any:
    """NotImplemented: it owns its memory, or can be saved as if it did."""
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
        return NotImplemented  # the owner is not visible elsewhere
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
