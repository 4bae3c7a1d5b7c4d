# SPDX-License-Identifier: Apache-2.0
"""Runs: a model works on a prompt, with code in a sandbox and tools of this program. RLM is the base of sandboxes."""
from __future__ import annotations

import os
import sys
from typing import (
    TYPE_CHECKING, Any, AsyncIterator, Callable, Coroutine, Dict, Generator, Iterable, List, NoReturn, Optional,
    Tuple, TypeVar, Union, cast)

from ._errors import InvalidArgument, check_kinds, check_needed, nearest, wrong_kind

if TYPE_CHECKING:
    from ._ask import Ask
    from .backends import BaseBackend
    from .core import CompletionOptions, RLMResult, SniparaSandboxConfig, StreamOptions
    from .logging import TrajectoryLogger
    from .repl import BaseREPL
    from .tools import Tool, ToolRegistry

T = TypeVar("T")

SECRETS = ("api_key", "snipara_api_key")
PATHS = ("allowed_paths", "docker_workspace_path", "log_dir", "price_file", "record_file", "replay_file")
# Keys of features that this version lacks: docs/reference/configuration.md, "Keys without effect".
IN_DOCKER = (  # effective in the docker tier
    "docker_image", "docker_mount_workspace", "docker_network_disabled", "docker_runtime",
    "docker_workspace_build_network", "docker_workspace_install_command", "docker_workspace_install_extras",
    "docker_workspace_path", "docker_workspace_setup")
NO_EFFECT = (
    *IN_DOCKER, "allowed_paths", "log_level", "memory_enabled", "snipara_api_key", "snipara_base_url",
    "snipara_project_slug", "trust_level")
# Fixed defaults: no warning that the key has no effect is needed.
AS_IT_IS = {"docker_mount_workspace": True, "docker_network_disabled": True, "docker_workspace_setup": "none",
            "memory_enabled": False, "trust_level": "sandboxed"}
NO_KEYS = ("allow_degraded", "project")  # options of a run that a resumed run keeps
KEYS = (
    *NO_EFFECT, "api_key", "backend", "base_url", "checkpoint", "context_embeddings", "cost_limit", "cpus",
    "docker_cpus", "docker_memory", "docker_timeout", "durability", "environment", "file_size", "guarantees",
    "log_dir", "max_depth", "max_parallel", "max_subcalls", "memory", "model", "model_retries", "open_files", "output",
    "parallel_tools", "price_file", "processes", "record_file", "replay_file", "require_exact",
    "sub_calls_budget_inheritance", "sub_calls_enabled", "sub_calls_max_cost_per_session", "sub_calls_max_per_turn",
    "temperature", "template", "timeout", "timeout_seconds", "tmp_size", "token_budget", "tool_budget", "transaction",
    "verbose", "workspace_files", "workspace_size")
_OF_SESSIONS = ("allow_degraded", "config", "env", "limits", "name", "project", "tier", "tools")


def refuse(name: str, why: str) -> NoReturn:
    """Refuse an argument that cannot be honoured."""
    error = InvalidArgument("{}: {}".format(name, why))
    error.object = name
    raise error


_FOLDER = os.path.dirname(os.path.abspath(__file__))
_told: Dict[Any, Any] = {}


def caller() -> Tuple[str, int]:
    """File and line that called this package."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == _FOLDER:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def shown(text: str) -> str:
    """Escape characters that control a terminal or change the direction of text."""
    import re
    return re.sub("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]",
                  lambda found: repr(found.group())[1:-1], text)


def tell(message: str, place: Optional[Tuple[str, int]] = None) -> None:
    """Warn about a place, once."""
    from warnings import warn_explicit
    file, line = place or caller()
    warn_explicit(shown(message), UserWarning, file, line, registry=_told)


def tier_of(environment: Optional[str]) -> str:
    """The tier that runs the code. None: as configured."""
    from ._ask import settings
    return str(settings({} if environment is None else {"environment": environment})["tier"])


def checked(of: str, settings: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments that are not None. TypeError: unknown argument. A warning names keys without effect."""
    for name in settings:
        if name not in KEYS:
            raise TypeError("{}() has no argument {!r}{}".format(of, name, nearest(name, [*KEYS, *_OF_SESSIONS])))
    given = {name: value for name, value in settings.items() if value is not None}
    idle = [name for name in NO_EFFECT if name in given and given[name] != AS_IT_IS.get(name)]
    if any(name in IN_DOCKER for name in idle) and tier_of(given.get("environment")) == "docker":
        idle = [name for name in idle if name not in IN_DOCKER]
    if idle:
        tell("no effect in this version: {}".format(", ".join(name + "=" for name in idle)))
    return given


# Waiting and awaiting -----------------------------------------------------------------------


class Pending(Coroutine[Any, Any, T]):
    """An awaitable; access to its members reports that it must be awaited."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """As in any coroutine."""
        return self._coroutine.send(value)

    def throw(self, *how: Any) -> Any:
        """As in any coroutine."""
        return self._coroutine.throw(*how)

    def close(self) -> None:
        """As in any coroutine."""
        self._coroutine.close()

    def __repr__(self) -> str:
        return "<not awaited yet: an event loop runs here, so write `result = await ...`>"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError("no {!r} before it is awaited: an event loop runs here, so write `result = await ...`"
                             .format(name))


def in_loop() -> bool:
    """Whether an event loop runs in this thread."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def both(begin: Callable[[], Coroutine[Any, Any, T]], wait: Callable[[], T]) -> T:
    """Wait for the result; in an event loop, return an awaitable for it."""
    return cast(T, Pending(begin())) if in_loop() else wait()


def result_of(ask: Ask, make: Callable[[Dict[str, Any]], T]) -> T:
    """The result of a run."""
    async def begin() -> T:
        return make(await ask.run())
    return both(begin, lambda: make(ask.wait()))


# Sandboxes ----------------------------------------------------------------------------------


class RLM:
    """A model with its limits and tools. A Sandbox is an RLM and also a session."""

    def __init__(self, backend: Union[str, BaseBackend, None] = None, model: Optional[str] = None,
                 environment: Union[str, BaseREPL, None] = None, config: Any = None,
                 tools: Optional[Iterable[Tool]] = None, verbose: Optional[bool] = None, **settings: Any) -> None:
        """Settings of runs: keys of docs/reference/configuration.md. None: the value of the environment or the file.

        backend: "litellm" (the provider by the model's name), "openai", "anthropic"... environment: where code runs.
        config: a SniparaSandboxConfig, or the path of a file. verbose: print the progress of runs on stderr, and give
        results their events. Values are checked when they are first used. TypeError: unknown argument.
        """
        self._given: Dict[str, Any]
        self._config_given: Optional[SniparaSandboxConfig] = None
        if config is not None:
            from .core import SniparaSandboxConfig, load_config
            self._config_given = config if isinstance(config, SniparaSandboxConfig) else load_config(config)
        if environment is not None and not isinstance(environment, str):
            settings = {**environment.sandbox._given, **settings}
            environment = None
        if backend is not None and not isinstance(backend, str):
            settings = {**_of_backend(backend), **settings}
            backend = None
        named = {"backend": backend, "model": model, "environment": environment, "verbose": verbose}
        self._given = checked(type(self).__name__, {**settings, **{k: v for k, v in named.items() if v is not None}})
        self._tools: Optional[ToolRegistry] = None
        self._repl: Optional[BaseREPL] = None
        check_kinds(tools=tools)
        for tool in tools or ():
            self.tool_registry.register(tool)

    def _as(self, other: RLM) -> None:
        """Take over the settings of another."""
        self._given, self._config_given, self._tools = other._given, other._config_given, other._tools

    def _session_settings(self) -> Dict[str, Any]:
        """The options of a session as settings of runs."""
        return {}

    def _settings(self) -> Dict[str, Any]:
        given: Dict[str, Any] = {}
        config = self._config_given
        if config is not None:
            given.update({"config": config._file} if config._file else {}, **config._given)
        return {**given, **self._session_settings(), **self._given}

    @property
    def config(self) -> SniparaSandboxConfig:
        """The configuration in force for runs."""
        from .core import SniparaSandboxConfig
        config = SniparaSandboxConfig()
        config._given = {name: value for name, value in self._settings().items() if name not in NO_KEYS}
        config._file = config._given.pop("config", None)
        return config

    @property
    def backend(self) -> BaseBackend:
        """The model that is called."""
        from .backends import BaseBackend
        config = self.config
        backend = BaseBackend(config.model, config.temperature, None, config.base_url)
        backend.name = config.backend
        return backend

    @property
    def tool_registry(self) -> ToolRegistry:
        """Tools of this program that the model may call."""
        if self._tools is None:
            from .tools import ToolRegistry
            self._tools = ToolRegistry()
        return self._tools

    @property
    def trajectory_logger(self) -> TrajectoryLogger:
        """The records of runs."""
        from .logging import TrajectoryLogger
        return TrajectoryLogger(self.config.log_dir)

    @property
    def repl(self) -> BaseREPL:
        """The session of this sandbox, by the names of earlier releases. Runs have separate sessions."""
        if self._repl is None:
            from ._sandbox import Sandbox
            from .repl import BaseREPL
            self._repl = BaseREPL(self if isinstance(self, Sandbox) else Sandbox(**self._given))
        return self._repl

    def completion(self, prompt: str, system: Optional[str] = None,
                   options: Optional[CompletionOptions] = None, **unknown: NoReturn) -> RLMResult:
        """Let the model work on a prompt. system: instructions before it. options: settings of this run alone.

        Outside an event loop it waits and returns the result, which may also be awaited; in an event loop it returns an
        awaitable. Ctrl-C, or cancelling the task, stops the run; its record stays, and `snipara-sandbox resume`
        continues it.

        A run that reaches a limit, or whose model fails, does not raise: see RLMResult.success, .error and
        .raise_for_error(). SandboxError: the run did not start: no key, a wrong setting. InvalidArgument: a wrong
        option.
        """
        from ._ask import Ask
        from .core import RLMResult
        check_needed(prompt=prompt)
        for name in unknown:
            raise TypeError("completion() has no argument {!r}{}".format(name, nearest(name, (
                "prompt", "system", "options")) or "; settings of one run go in options=CompletionOptions({}=...)"
                .format(name)))
        ask = Ask(prompt, self._settings(), _of_options(options), system=system, tools=self._tools_now())
        return result_of(ask, lambda answer: RLMResult.of({**answer, "limits": ask.limits}))

    def resume(self, trajectory_id: object, options: Optional[CompletionOptions] = None, *,
               recover: Optional[str] = None) -> RLMResult:
        """Resume a run that was stopped, reached a limit or was lost. Waits or is awaited, like completion().

        trajectory_id: of its result, or a prefix of it. The run keeps its prompt, model, session and limits, except for
        limits given by this sandbox or options: `SniparaSandbox(max_depth=8).resume(result.trajectory_id)`. Its tools
        must be the same as before. recover: if cells of its session are missing after a crash: "replay" or
        "checkpoint". NotFound: no such record. Denied: the run is finished, or its tools or files differ.
        """
        from ._ask import Ask
        from .core import RLMResult
        ask = Ask(None, self._settings(), {**_of_options(options), **({} if recover is None else {"recover": recover})},
                  resume=self._recorded(trajectory_id, "run")[0]["trajectory_id"], tools=self._tools_now())
        return result_of(ask, lambda answer: RLMResult.of({**answer, "limits": ask.limits}))

    def _recorded(self, trajectory_id: object, kind: str) -> List[Dict[str, Any]]:
        """The records of a run to resume."""
        check_needed(trajectory_id=None if trajectory_id is None else str(trajectory_id))
        records = self.trajectory_logger.load_records(trajectory_id)
        if not records or records[0].get("kind") != kind:
            refuse("trajectory_id", "{} is not the record of {}".format(
                trajectory_id, "a run; AgentRunner(sandbox).resume() continues an agent" if kind == "run" else
                "an agent; resume() of the sandbox continues a run"))
        return records

    def _tools_now(self) -> List[Tool]:
        return [] if self._tools is None else self._tools.get_all()

    async def _chunks(self, prompt: str, system: Optional[str],
                      options: Optional[StreamOptions]) -> AsyncIterator[str]:
        from asyncio import Queue, ensure_future
        from ._ask import Ask
        from .core import RLMResult
        chunks: Queue[Optional[str]] = Queue()
        ask = Ask(prompt, self._settings(), _of_options(options), system=system, tools=self._tools_now(),
                  on_text=chunks.put_nowait)
        task = ensure_future(ask.run())
        task.add_done_callback(lambda _: chunks.put_nowait(None))
        try:
            while True:
                chunk = await chunks.get()
                if chunk is None:
                    break
                yield chunk
            RLMResult.of({**(await task), "limits": ask.limits}).raise_for_error()
        finally:
            task.cancel()

    def stream(self, prompt: str, system: Optional[str] = None, options: Optional[StreamOptions] = None) -> Any:
        """Read the model's text in a run as it arrives: `async for chunk in sandbox.stream("...")`.

        The run is like that of completion(), with a record. It raises at the end if the run is not finished:
        CostBudgetExhausted, TimeoutExceeded, BackendError.
        """
        return self._chunks(prompt, system, options)


def _of_backend(backend: Any) -> Dict[str, Any]:
    from .backends import BaseBackend
    if not isinstance(backend, BaseBackend):
        refuse("backend", "a name (litellm, openai, anthropic, gemini, replay) or a LiteLLMBackend is needed")
    settings: Dict[str, Any] = backend.settings()
    return settings


_OPTIONS = {"cost_budget_usd": "cost_limit", "include_trajectory": "verbose"}


def _schema_of(form: Any) -> str:
    """The JSON Schema of a response_format, as text."""
    import json
    if isinstance(form, type) and hasattr(form, "model_json_schema"):  # pydantic
        form = form.model_json_schema()
    if isinstance(form, dict) and form.get("type") == "json_object":
        form = {"type": "object"}
    elif isinstance(form, dict) and form.get("type") == "json_schema":
        inner = form.get("json_schema")
        form = inner.get("schema") if isinstance(inner, dict) else None
    if not isinstance(form, dict) or form.get("type") == "text":
        refuse("response_format", 'a JSON Schema is needed, {"type": "json_schema", ...}, or a pydantic class')
    return json.dumps(form)


def _of_options(options: Union[CompletionOptions, StreamOptions, None]) -> Dict[str, Any]:
    """Options as settings."""
    if options is not None:
        from .core import CompletionOptions, StreamOptions
        if not isinstance(options, (CompletionOptions, StreamOptions)):
            raise wrong_kind("options", "CompletionOptions(...)", options)
    given = {name: value for name, value in vars(options).items() if value is not None} if options is not None else {}
    if given.pop("stop_sequences", None):
        tell("stop_sequences= has no effect")
    if given.get("response_format"):
        given["schema"] = _schema_of(given["response_format"])
    given.pop("response_format", None)
    if not given.get("include_trajectory"):
        given.pop("include_trajectory", None)
    return {_OPTIONS.get(name, name): value for name, value in given.items()}


def text_of(value: object) -> str:
    """The text of a setting."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (list, tuple)):
        import json
        return json.dumps([text_of(each) for each in value])
    return str(os.fspath(value)) if isinstance(value, os.PathLike) else str(value)
