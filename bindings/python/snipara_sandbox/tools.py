# SPDX-License-Identifier: Apache-2.0
"""Tools of a program that a model may call in a run. They run in the program, outside the sandbox."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional

from ._errors import names_nearest, wrong_kind
from ._old import also


def _nothing() -> Dict[str, Any]:
    return {"type": "object", "properties": {}}


@names_nearest
@dataclass
class Tool:
    """A tool: handler is called with the arguments by name, and its result is sent to the model.

    handler: a function or coroutine function. Functions are called in the thread of completion(), one after the other,
    or, if that is awaited, in the event loop. A plain function blocks completion() until it returns; timeouts and
    limits of the run cannot interrupt it: use a coroutine function for long work. Coroutines run in that event loop,
    else in a separate one. Text is sent to the model unchanged, other values as JSON. An exception of the handler
    reaches the model as an error of the tool, and the logger `snipara_sandbox` with its traceback.
    """

    name: str
    """1 to 64 of A-Z a-z 0-9 _ -"""
    description: str
    """Description for the model."""
    parameters: Dict[str, Any] = field(default_factory=_nothing)
    """JSON Schema of the arguments, an object; they are checked before each call."""
    handler: Optional[Callable[..., Any]] = None
    timeout: float = 30.0
    """Seconds of one call, at most 600."""

    def begin(self, **arguments: Any) -> Any:
        """Call the handler."""
        if self.handler is None:
            raise TypeError("the tool {!r} has no handler".format(self.name))
        return self.handler(**arguments)

    async def execute(self, **arguments: Any) -> Any:
        """Call the handler, and await its result if it is awaitable."""
        answer = self.begin(**arguments)
        return await answer if hasattr(answer, "__await__") else answer

    def to_openai_format(self) -> Dict[str, Any]:
        """The tool in the form of chat completions."""
        return {"type": "function", "function": {"name": self.name, "description": self.description,
                                                 "parameters": self.parameters}}

    def to_anthropic_format(self) -> Dict[str, Any]:
        """The tool in the form of Anthropic's messages."""
        return {"name": self.name, "description": self.description, "input_schema": self.parameters}


class ToolRegistry:
    """Tools by name."""

    def __init__(self) -> None:
        self._tools: Dict[str, Tool] = {}

    def register(self, tool: Tool) -> None:
        """Add a tool; one of the same name is replaced, with a warning."""
        if not isinstance(tool, Tool):
            raise wrong_kind("a tool", "a Tool: wrap it in Tool(name, description, parameters, handler)", tool)
        if tool.name in self._tools:
            from ._completion import tell
            tell("the tool {!r} is replaced".format(tool.name))
        self._tools[tool.name] = tool

    def unregister(self, name: str) -> bool:
        """Remove a tool; False: no such tool."""
        return self._tools.pop(name, None) is not None

    def get(self, name: str) -> Optional[Tool]:
        """Get a tool, or None."""
        return self._tools.get(name)

    def get_all(self) -> List[Tool]:
        """Get all tools."""
        return list(self._tools.values())

    def list_names(self) -> List[str]:
        """List the names of all tools."""
        return list(self._tools)

    def has(self, name: str) -> bool:
        """Whether there is such a tool."""
        return name in self._tools

    def clear(self) -> None:
        """Remove all tools."""
        self._tools.clear()

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.get_all())

    def __contains__(self, name: object) -> bool:
        return name in self._tools


also(__name__, "base", "registry")
