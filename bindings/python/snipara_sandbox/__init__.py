# SPDX-License-Identifier: Apache-2.0
"""Run untrusted code in persistent sandbox sessions.

    from snipara_sandbox import Sandbox

    with Sandbox() as s:
        print(s.run("6 * 7").value)

docs/reference/python.md has the rest.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

from ._completion import RLM
from ._errors import (
    CellFailed, CellTimeout, Denied, InvalidArgument, LimitReached, NotFound, SandboxError, SandboxLost, SandboxTimeout,
    Unsupported)
from ._result import (
    AsyncResult, Cell, CellError, Changes, Denial, Display, Ended, Entry, Limit, Output, Result, Snapshot, Usage)
from ._sandbox import AsyncFiles, AsyncProcess, AsyncSandbox, AsyncStream, Files, Process, Sandbox, Stream

SniparaSandbox = Sandbox

if TYPE_CHECKING:
    from . import agent, backends, core, exceptions, logging, mcp, repl, tools, visualizer
    from ._function import Function, sandboxed
    from .agent import AgentConfig, AgentResult, AgentRunner
    from .core import (
        CompletionOptions, Config, Message, REPLResult, RLMConfig, RLMResult, SniparaSandboxConfig, StreamOptions,
        ToolCall, ToolResult, TrajectoryEvent, load_config)
    from .exceptions import RLMError
    from .tools import Tool, ToolRegistry

    __version__: str

__all__ = [
    "AgentConfig", "AgentResult", "AgentRunner", "AsyncFiles", "AsyncProcess", "AsyncResult", "AsyncSandbox",
    "AsyncStream", "Cell", "CellError", "CellFailed", "CellTimeout", "Changes", "CompletionOptions", "Config", "Denial",
    "Denied", "Display", "Ended", "Entry", "Files", "Function", "InvalidArgument", "Limit", "LimitReached", "Message",
    "NotFound", "Output", "Process", "REPLResult", "RLM", "RLMConfig", "RLMError", "RLMResult", "Result", "Sandbox",
    "SandboxError", "SandboxLost", "SandboxTimeout", "Snapshot", "SniparaSandbox", "SniparaSandboxConfig", "Stream",
    "StreamOptions", "Tool", "ToolCall", "ToolRegistry", "ToolResult", "TrajectoryEvent", "Unsupported", "Usage",
    "__version__", "agent", "backends", "core", "exceptions", "load_config", "logging", "mcp", "repl", "sandboxed",
    "tools", "visualizer"]

# Modules and names that are imported at first use.
_LATER = {
    "_function": ("Function", "sandboxed"),
    "agent": ("AgentConfig", "AgentResult", "AgentRunner"),
    "core": ("CompletionOptions", "Config", "Message", "REPLResult", "RLMConfig", "RLMResult", "SniparaSandboxConfig",
             "StreamOptions", "ToolCall", "ToolResult", "TrajectoryEvent", "load_config"),
    "exceptions": ("RLMError",), "tools": ("Tool", "ToolRegistry"),
    "backends": (), "logging": (), "mcp": (), "repl": (), "visualizer": ()}


def __dir__() -> List[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from ._library import VERSION
        return VERSION
    from importlib import import_module
    for module, names in _LATER.items():
        if name == module or name in names:
            found = import_module("." + module, __name__)
            return found if name == module else getattr(found, name)
    raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))
