# SPDX-License-Identifier: Apache-2.0
"""Names of models. The runtime calls the models; docs/reference/models.md lists the providers."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, NoReturn, Optional

from ._old import also
from .core import Record, ToolCall
from .tools import Tool

__all__ = ["BackendResponse", "BaseBackend", "LiteLLMBackend", "Tool"]


@dataclass
class BackendResponse(Record):
    """An answer of a model."""

    content: Optional[str] = None
    tool_calls: List[ToolCall] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0
    finish_reason: str = "stop"
    model: Optional[str] = None
    raw_response: Any = None
    parsed_output: Any = None


class BaseBackend:
    """A model and its provider: `SniparaSandbox(backend=LiteLLMBackend("gpt-4o-mini", api_key=...))`.

    name: the configuration's `backend`. temperature, api_key, api_base: its keys of these names and `base_url`; None:
    the value of the configuration.
    """

    name = "litellm"
    supports_tools = True
    supports_streaming = True

    def __init__(self, model: Optional[str] = None, temperature: Optional[float] = None,
                 api_key: Optional[str] = None, api_base: Optional[str] = None) -> None:
        self.model = model
        self.temperature, self.api_key, self.api_base = temperature, api_key, api_base

    def settings(self) -> Dict[str, Any]:
        """The backend as keys of the configuration."""
        if type(self).complete is not BaseBackend.complete:
            from ._completion import refuse
            refuse("backend", "a complete() of your class is never called; model=\"replay/FILE\" gives scripted "
                              "answers, base_url= any server of chat completions")
        given = {"backend": self.name, "model": self.model, "temperature": self.temperature,
                 "api_key": self.api_key, "base_url": self.api_base}
        return {name: value for name, value in given.items() if value is not None}

    def complete(self, messages: Any = None, tools: Any = None, **more: Any) -> NoReturn:
        """Models are called only in runs: completion() of a sandbox."""
        from ._errors import Unsupported
        raise Unsupported("a backend cannot be called directly; use completion() of a SniparaSandbox")

    stream = complete


class LiteLLMBackend(BaseBackend):
    """The provider by the model's name: "gpt-4o-mini", "anthropic/claude-sonnet-4-5", "mistral/NAME"."""


also(__name__, "base", "litellm")
