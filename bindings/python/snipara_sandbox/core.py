# SPDX-License-Identifier: Apache-2.0
"""Records of runs, and their configuration. Times are in the unit of their name, money in USD."""
from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import Any, Coroutine, Dict, Generator, List, NoReturn, Optional, Type, TypeVar, Union
from uuid import UUID

from . import exceptions
from ._completion import RLM
from ._errors import names_nearest, nearest
from ._old import also
from ._sandbox import Sandbox
from .exceptions import RLMError

__all__ = [
    "CompletionOptions", "Config", "Message", "REPLResult", "RLM", "RLMConfig", "RLMError", "RLMResult",
    "SniparaSandbox", "SniparaSandboxConfig", "StreamOptions", "ToolCall", "ToolResult", "TrajectoryEvent",
    "exceptions", "load_config"]
SniparaSandbox = Sandbox

R = TypeVar("R", bound="Record")
S = TypeVar("S", bound="Ready")


def plain(value: Any) -> Any:
    """A value in JSON types."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, UUID) else value


class Record:
    """Base of records."""

    def to_dict(self) -> Dict[str, Any]:
        """The record as a dict in JSON types."""
        return {each.name: plain(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def of(cls: Type[R], members: Any) -> R:
        """Make a record from a dict of to_dict() or of a trajectory; unknown members are left out."""
        if isinstance(members, cls):
            return members
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in members.items() if name in known})


class Ready(Coroutine[Any, Any, Any]):
    """A complete result that may also be awaited: `await`, gather() and asyncio.run() return it."""

    def __await__(self: S) -> Generator[Any, None, S]:
        return self
        yield

    def send(self, value: Any) -> NoReturn:
        """As in a coroutine that returns at once."""
        raise StopIteration(self)

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> NoReturn:
        """As in a coroutine that has not started."""
        raise kind if value is None else value

    def close(self) -> None:
        """Nothing is open."""


# Messages and calls -------------------------------------------------------------------------


@dataclass
class ToolCall(Record):
    """A tool call requested by a model."""

    id: str
    name: str
    arguments: Dict[str, Any]


@dataclass
class ToolResult(Record):
    """The result of a tool, in the form given to the model."""

    tool_call_id: str
    content: str
    is_error: bool = False


@dataclass
class Message(Record):
    """A message. role: "user", "assistant", "system" or "tool"."""

    role: str
    content: Union[str, List[Dict[str, Any]]]
    tool_calls: List[ToolCall] = field(default_factory=list)
    tool_call_id: Optional[str] = None
    name: Optional[str] = None

    def to_dict(self) -> Dict[str, Any]:
        """Convert to JSON values, without empty ones."""
        return {name: value for name, value in super().to_dict().items() if value or name in ("role", "content")}


@dataclass(eq=False)
class REPLResult(Record, Ready):
    """The result of code in a sandbox."""

    output: str
    error: Optional[str] = None
    execution_time_ms: int = 0
    truncated: bool = False
    memory_peak_bytes: Optional[int] = None
    cpu_time_ms: Optional[int] = None

    @property
    def success(self) -> bool:
        """Whether there was no error."""
        return self.error is None


def _uuid(value: Any) -> Any:
    try:
        return UUID(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _time(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return value


@dataclass
class TrajectoryEvent(Record):
    """A call of the model, with its tool calls and their results."""

    trajectory_id: UUID
    call_id: UUID
    parent_call_id: Optional[UUID]
    depth: int
    prompt: str
    response: Optional[str] = None
    tool_calls: List[ToolCall] = field(default_factory=list)
    tool_results: List[ToolResult] = field(default_factory=list)
    repl_results: List[REPLResult] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0
    duration_ms: int = 0
    error: Optional[str] = None
    timestamp: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    estimated_cost_usd: Optional[float] = None
    """None: the price is not known."""
    sub_call_type: Optional[str] = None
    """ "sub_complete", "batch" or "llm_query"; None: a call of the run itself."""

    def __post_init__(self) -> None:
        for name in ("trajectory_id", "call_id", "parent_call_id"):
            setattr(self, name, _uuid(getattr(self, name)))
        self.timestamp = _time(self.timestamp)
        self.tool_calls = [ToolCall.of(each) for each in self.tool_calls]
        self.tool_results = [ToolResult.of(each) for each in self.tool_results]


# Runs ---------------------------------------------------------------------------------------


@names_nearest
@dataclass
class CompletionOptions(Record):
    """Settings of one run. None: the value of the sandbox, the environment or the configuration file, else the default.

    include_trajectory: the result has events. response_format: a JSON Schema of the answer, in OpenAI's form, or a
    pydantic class. stop_sequences, of earlier releases, have no effect.
    """

    max_depth: Optional[int] = None
    max_subcalls: Optional[int] = None
    token_budget: Optional[int] = None
    tool_budget: Optional[int] = None
    timeout_seconds: Optional[float] = None
    include_trajectory: bool = False
    temperature: Optional[float] = None
    stop_sequences: Optional[List[str]] = None
    cost_budget_usd: Optional[float] = None
    response_format: Optional[Any] = None
    parallel_tools: Optional[bool] = None
    max_parallel: Optional[int] = None


@names_nearest
@dataclass
class StreamOptions(Record):
    """Settings of stream()."""

    cost_budget_usd: Optional[float] = None
    timeout_seconds: Optional[float] = None


@dataclass(eq=False)
class Outcome(Record, Ready):
    """Base of the results of runs and of agents."""

    error: Optional[str] = None
    """Why the run is not finished, with the remedy; None: it is finished."""
    stopped_by: Optional[str] = None
    """The limit that stopped it ("max_depth", "token_budget"...), "cancelled" or "error"."""
    session: Optional[str] = None
    """The session with the effects of the run, if it stays: Sandbox(result.session)."""
    files: Dict[str, List[str]] = field(default_factory=dict)
    """Files changed in the session: created, modified, deleted."""
    limits: Dict[str, Any] = field(default_factory=dict, repr=False)
    """The limits in force."""
    schema_error: Optional[str] = None
    """Why the answer does not match response_format; None: it does, or there was no response_format."""

    def _reason(self) -> Optional[RLMError]:
        return None

    def raise_for_error(self: S) -> S:
        """Return this, or raise the reason for the end: MaxDepthExceeded, TokenBudgetExhausted, BackendError..."""
        error = self._reason()  # type: ignore[attr-defined]
        if error is not None:
            limit = self.stopped_by  # type: ignore[attr-defined]
            if limit not in (None, "cancelled", "error") and raised_by(limit) not in str(error):
                error.remedy, error.remedy_name, error.limit = "raise_limit", limit, limit
            raise error
        return self


def raised_by(limit: str) -> str:
    """The remedy for a limit of a run."""
    name = {"timeout": "timeout_seconds", "sub_calls": "sub_calls_max_per_turn",
            "sub_cost": "sub_calls_max_cost_per_session"}.get(limit, limit)
    return "pass a higher {}=".format(name)


@dataclass(eq=False)
class RLMResult(Outcome):
    """The result of a run. It is complete, and may also be awaited."""

    response: str = ""
    """The answer; for a stopped run, the part received."""
    trajectory_id: Any = None
    """UUID of its record: trajectory_logger.load_trajectory(), `snipara-sandbox logs`."""
    total_calls: int = 0
    total_tokens: int = 0
    total_input_tokens: int = 0
    total_output_tokens: int = 0
    total_tool_calls: int = 0
    duration_ms: int = 0
    total_cost_usd: Optional[float] = None
    """None: the price of a model is not known."""
    events: List[TrajectoryEvent] = field(default_factory=list, repr=False)
    """Calls of the model, with verbose=True or include_trajectory=True."""

    def __post_init__(self) -> None:
        self.trajectory_id = _uuid(self.trajectory_id)
        self.events = [TrajectoryEvent.of(each) for each in self.events]

    @property
    def success(self) -> bool:
        """Whether the run is finished."""
        return self.error is None and all(event.error is None for event in self.events)

    def to_dict(self) -> Dict[str, Any]:
        """A dict in the form of `snipara-sandbox run --json`."""
        names = [each.name for each in fields(RLMResult)]
        order = [*names[len(fields(Outcome)):-1], "error", "success", "events"]
        return {name: plain(getattr(self, name)) for name in [*order, "stopped_by", "session", "files"]}

    def _reason(self) -> Optional[RLMError]:
        if self.error is None:
            return exceptions.StructuredOutputError(self.schema_error) if self.schema_error is not None else None
        limits, text = self.limits, self.error
        cost = limits.get("cost_limit") or 0.0
        made: Dict[str, RLMError] = {
            "max_depth": exceptions.MaxDepthExceeded(self.total_calls, limits.get("max_depth", 0)),
            "max_subcalls": exceptions.MaxDepthExceeded(self.total_calls, limits.get("max_subcalls", 0)),
            "token_budget": exceptions.TokenBudgetExhausted(self.total_tokens, limits.get("token_budget", 0)),
            "cost_limit": exceptions.CostBudgetExhausted(self.total_cost_usd or 0.0, cost),
            "timeout": exceptions.TimeoutExceeded(self.duration_ms / 1e3, limits.get("timeout_ms", 0) / 1e3),
        }
        error = made.get(self.stopped_by or "")
        return error if error is not None else exceptions.BackendError(text) if self.stopped_by == "error" else \
            RLMError(text)


# Configuration ------------------------------------------------------------------------------


def _shown(name: str, value: Any) -> str:
    """Hide a secret, and the password in an address."""
    from re import sub
    from ._completion import SECRETS
    return "'...'" if name in SECRETS else sub("//.*@", "//...@", repr(value))


class SniparaSandboxConfig:
    """The effective configuration: arguments, else variables, .env, the file in the folder, the defaults.

    Its members are the keys of docs/reference/configuration.md: config.model, config.max_depth. They are read at the
    first access; ConfigValidationError names a wrong value and its file.
    """

    def __init__(self, **settings: Any) -> None:
        from ._completion import checked
        self._given: Dict[str, Any] = checked(type(self).__name__, settings)
        self._file: Optional[str] = None
        self._all: Optional[Dict[str, Any]] = None

    def _load(self) -> Dict[str, Any]:
        if self._all is None:
            from ._ask import settings
            self._all = settings({**({"config": self._file} if self._file else {}), **self._given})
        return self._all

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        from ._completion import PATHS, SECRETS
        if name in SECRETS:
            if name not in self._given and self._load()[name + "_set"]:
                raise AttributeError("{0} is set ({1}), but its value is secret; {0}_set is true".format(
                    name, self._load()["sources"][name]))
            return self._given.get(name)
        try:
            value = self._load()[name]
        except KeyError:
            raise AttributeError("the configuration has no {!r}{}".format(name, nearest(name, self._load()))) from None
        if name in PATHS and value is not None:
            from pathlib import Path
            return [Path(each) for each in value] if isinstance(value, list) else Path(value)
        return value

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._load()]

    def __repr__(self) -> str:
        known = self._all or {"sources": {}}
        shown = ["config_file={!r}".format(known["config_file"])] if known.get("config_file_exists") else []
        given = {name: known[name] for name, source in known["sources"].items()
                 if source != "default" and name in known}
        shown += ("{}={}".format(name, _shown(name, value)) for name, value in {**given, **self._given}.items())
        return "{}({})".format(type(self).__name__, ", ".join(shown))

    def to_dict(self) -> Dict[str, Any]:
        """All keys in the form of `snipara-sandbox config show --json`, without secrets."""
        return dict(self._load())

    def get_snipara_url(self) -> Optional[str]:
        """Address of the project at the Snipara service; None: no key, or no project."""
        base, slug = self.snipara_base_url, self.snipara_project_slug
        return "{}/{}".format(base.rstrip("/"), slug) if self.snipara_enabled else None


def load_config(config_path: Union[str, "os.PathLike[str]", None] = None) -> SniparaSandboxConfig:
    """Read the configuration: from this file, or in the working folder like the command line.

    ConfigNotFoundError: no such file. ConfigValidationError: a value is wrong, or the file is not TOML.
    """
    config = SniparaSandboxConfig()
    if config_path is not None:
        config._file = os.fspath(config_path)
        if not os.path.exists(config._file):
            raise exceptions.ConfigNotFoundError(config._file)
    config._load()
    return config


Config = RLMConfig = SniparaSandboxConfig

also(__name__, "types", "config", "orchestrator")
also(__name__, "exceptions", of=exceptions)
