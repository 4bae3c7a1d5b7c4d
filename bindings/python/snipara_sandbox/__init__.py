# SPDX-License-Identifier: Apache-2.0
"""Run code that nobody has checked, in sessions that last.

    from snipara_sandbox import Sandbox

    with Sandbox() as s:
        print(s.run("6 * 7").value)

docs/reference/python.md has the rest.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._errors import (
    CellFailed, Denied, InvalidArgument, LimitReached, NotFound, SandboxError, SandboxLost, SandboxTimeout, Unsupported)
from ._result import Cell, CellError, Changes, Display, Entry, Output, Result, Snapshot, Usage
from ._sandbox import AsyncFiles, AsyncSandbox, AsyncStream, Files, Sandbox, Stream

if TYPE_CHECKING:
    from ._function import Function, sandboxed

    __version__: str

__all__ = [
    "AsyncFiles", "AsyncSandbox", "AsyncStream", "Cell", "CellError", "CellFailed", "Changes", "Denied", "Display",
    "Entry", "Files", "Function", "InvalidArgument", "LimitReached", "NotFound", "Output", "Result", "Sandbox",
    "SandboxError", "SandboxLost", "SandboxTimeout", "Snapshot", "Stream", "Unsupported", "Usage", "__version__",
    "sandboxed"]


def __getattr__(name: str) -> Any:
    """What takes time to load, when it is first asked for."""
    if name == "__version__":
        from ._library import VERSION
        return VERSION
    if name in ("Function", "sandboxed"):
        from . import _function
        return getattr(_function, name)
    raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))
