# SPDX-License-Identifier: Apache-2.0
"""Errors of a run, by the names of earlier releases. All of them are also SandboxErrors.

A run that reaches a limit does not raise: see RLMResult.error, and raise_for_error(), which raises one of these.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ._errors import SandboxError


class RLMError(SandboxError):
    """Base of these errors. context: details, also available as members of the exception."""

    def __init__(self, message: str, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.context: Dict[str, Any] = context
        self.__dict__.update(context)

    def _way(self) -> str:
        if self.remedy == "raise_limit":
            from .core import raised_by
            return raised_by(self.remedy_name)
        return super()._way()

    def __reduce__(self) -> Any:
        return _remade, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        shown = ", ".join("{}={}".format(name, value) for name, value in self.context.items())
        way = self._way()
        return self.message + (" ({})".format(shown) if shown else "") + ("; " + way if way else "")


def _remade(kind: Any, args: Tuple[Any, ...], members: Dict[str, Any]) -> RLMError:
    """Rebuild a pickled error, whose constructor takes other arguments than a message."""
    error: RLMError = kind.__new__(kind, *args)
    error.__dict__.update(members)
    return error


# Limits of a run ----------------------------------------------------------------------------


class MaxDepthExceeded(RLMError):
    """The turns of a run are used up."""

    depth: int
    max_depth: int

    def __init__(self, depth: int, max_depth: int) -> None:
        super().__init__("Maximum recursion depth exceeded: {}/{}".format(depth, max_depth),
                         depth=depth, max_depth=max_depth)


class TokenBudgetExhausted(RLMError):
    """The tokens of a run are used up."""

    tokens_used: int
    budget: int

    def __init__(self, tokens_used: int, budget: int) -> None:
        super().__init__("Token budget exhausted: {}/{} tokens used".format(tokens_used, budget),
                         tokens_used=tokens_used, budget=budget)


class CostBudgetExhausted(RLMError):
    """A run has reached its cost limit, in USD."""

    cost_used: float
    budget: float

    def __init__(self, cost_used: float, budget: float) -> None:
        super().__init__("Cost budget exhausted: ${:.4f}/${:.4f} USD".format(cost_used, budget),
                         cost_used=cost_used, budget=budget)


class ToolBudgetExhausted(RLMError):
    """The tool calls of a run are used up."""

    calls_made: int
    budget: int

    def __init__(self, calls_made: int, budget: int) -> None:
        super().__init__("Tool budget exhausted: {}/{} calls made".format(calls_made, budget),
                         calls_made=calls_made, budget=budget)


class TimeoutExceeded(RLMError, TimeoutError):
    """The time of a run is used up, in seconds."""

    elapsed_seconds: float
    timeout_seconds: float

    def __init__(self, elapsed_seconds: float, timeout_seconds: float) -> None:
        super().__init__("Execution timeout exceeded: {:.1f}s/{}s".format(elapsed_seconds, timeout_seconds),
                         elapsed_seconds=elapsed_seconds, timeout_seconds=timeout_seconds)


class SubCallBudgetExhausted(RLMError):
    """The sub-calls of a turn are used up."""

    calls_made: int
    max_per_turn: int

    def __init__(self, calls_made: int, max_per_turn: int) -> None:
        super().__init__("Sub-call budget exhausted: {}/{} calls this turn".format(calls_made, max_per_turn),
                         calls_made=calls_made, max_per_turn=max_per_turn)


class SubCallDepthExceeded(RLMError):
    """Sub-calls were nested too deeply."""

    current_depth: int
    max_depth: int

    def __init__(self, current_depth: int, max_depth: int) -> None:
        super().__init__("Sub-call depth exceeded: {}/{}".format(current_depth, max_depth),
                         current_depth=current_depth, max_depth=max_depth)


class SubCallCostExceeded(RLMError):
    """The sub-calls of a run have reached their cost limit, in USD."""

    session_cost: float
    max_cost: float

    def __init__(self, session_cost: float, max_cost: float) -> None:
        super().__init__("Sub-call session cost exceeded: ${:.4f}/${:.4f}".format(session_cost, max_cost),
                         session_cost=session_cost, max_cost=max_cost)


# Code ---------------------------------------------------------------------------------------


class REPLError(RLMError):
    """An error of code in the sandbox."""


class REPLExecutionError(REPLError):
    """The code failed."""

    error: str

    def __init__(self, code: str, error: str, output: str = "") -> None:
        super().__init__("REPL execution failed: " + error[:100], code_length=len(code), error=error[:200])
        self.source, self.error, self.output = code, error, output


class REPLTimeoutError(REPLError, TimeoutError):
    """The code reached its time limit, in seconds."""

    timeout: float

    def __init__(self, code: str, timeout: float) -> None:
        super().__init__("REPL execution timed out after {}s".format(timeout), code_length=len(code), timeout=timeout)
        self.source = code


class REPLImportError(REPLError):
    """A module is missing."""

    module: str

    def __init__(self, module: str, allowed: Optional[List[str]] = None) -> None:
        super().__init__("Import blocked: '{}' is not in the allowed list".format(module), module=module)
        self.allowed = allowed or []


class REPLSecurityError(REPLError):
    """The code tried a forbidden operation."""

    violation: str

    def __init__(self, violation: str) -> None:
        super().__init__("Security violation: " + violation, violation=violation)


class REPLResourceExceeded(REPLError):
    """The code reached a limit."""

    resource: str

    def __init__(self, resource: str, limit: str, actual: Optional[str] = None) -> None:
        how = "{}/{}".format(actual, limit) if actual else "limit: {}".format(limit)
        super().__init__("Resource limit exceeded: {} ({})".format(resource, how), resource=resource, limit=limit)
        self.actual = actual


# Tools --------------------------------------------------------------------------------------


class ToolError(RLMError):
    """An error of a tool of the program."""

    tool_name: str


class ToolNotFoundError(ToolError):
    """No tool has that name."""

    def __init__(self, tool_name: str, available_tools: Optional[List[str]] = None) -> None:
        super().__init__("Tool not found: '{}'".format(tool_name), tool_name=tool_name,
                         available_count=len(available_tools or ()))
        self.available_tools = available_tools or []


class ToolExecutionError(ToolError):
    """The tool failed."""

    error: str

    def __init__(self, tool_name: str, error: str, arguments: Optional[Dict[str, Any]] = None) -> None:
        super().__init__("Tool '{}' failed: {}".format(tool_name, error[:100]), tool_name=tool_name, error=error[:200])
        self.error, self.arguments = error, arguments or {}


class ToolValidationError(ToolError):
    """The arguments of the tool are wrong."""

    validation_error: str

    def __init__(self, tool_name: str, validation_error: str, arguments: Optional[Dict[str, Any]] = None) -> None:
        super().__init__("Tool '{}' validation failed: {}".format(tool_name, validation_error), tool_name=tool_name,
                         validation_error=validation_error)
        self.arguments = arguments or {}


class SniparaAPIError(ToolError):
    """The Snipara service refused a request. status_code: of HTTP, or None without an answer."""

    status_code: Optional[int]

    def __init__(self, tool_name: str, status_code: Optional[int], message: str) -> None:
        status = " (HTTP {})".format(status_code) if status_code else ""
        super().__init__("Snipara API error for '{}'{}: {}".format(tool_name, status, message[:200]),
                         tool_name=tool_name, status_code=status_code)


class ParallelExecutionError(RLMError):
    """Several concurrent tools failed. errors: [(tool, error)]."""

    def __init__(self, errors: List[Tuple[str, str]], succeeded: int = 0) -> None:
        shown = "; ".join("{}: {}".format(name, error[:50]) for name, error in errors[:3])
        super().__init__("Parallel execution failed ({} errors, {} succeeded): {}".format(
            len(errors), succeeded, shown), error_count=len(errors), succeeded=succeeded)
        self.errors = errors


# Models -------------------------------------------------------------------------------------


class BackendError(RLMError):
    """The model gave no answer."""


class BackendConnectionError(BackendError, ConnectionError):
    """The model's provider was not reached."""

    def __init__(self, backend: str, provider: str, error: str) -> None:
        super().__init__("Failed to connect to {}/{}: {}".format(backend, provider, error[:100]), backend=backend,
                         provider=provider)
        self.error = error


class BackendRateLimitError(BackendError):
    """The provider's rate limit was reached. retry_after: seconds, if given."""

    retry_after: Optional[float]

    def __init__(self, message: str, retry_after: Optional[float] = None) -> None:
        super().__init__(message, retry_after=retry_after)


class BackendAuthError(BackendError):
    """The provider refused the key."""

    provider: str

    def __init__(self, provider: str) -> None:
        super().__init__("Authentication failed for {}. Check your API key.".format(provider), provider=provider)


class StructuredOutputError(RLMError):
    """The answer does not have the requested form."""

    def __init__(self, content: str, schema: Optional[Dict[str, Any]] = None) -> None:
        super().__init__("Failed to parse structured output: " + content[:100], content_length=len(content))
        self.content, self.schema = content, schema


# Agents -------------------------------------------------------------------------------------


class AgentError(RLMError):
    """An agent did not finish."""


class AgentIterationLimitExceeded(AgentError):
    """The iterations of an agent are used up."""

    iterations: int
    max_iterations: int

    def __init__(self, iterations: int, max_iterations: int) -> None:
        super().__init__("Agent iteration limit exceeded: {}/{}".format(iterations, max_iterations),
                         iterations=iterations, max_iterations=max_iterations)


class AgentCostLimitExceeded(AgentError):
    """An agent has reached its cost limit, in USD."""

    total_cost: float
    cost_limit: float

    def __init__(self, total_cost: float, cost_limit: float) -> None:
        super().__init__("Agent cost limit exceeded: ${:.4f}/${:.4f}".format(total_cost, cost_limit),
                         total_cost=total_cost, cost_limit=cost_limit)


class AgentCancelled(AgentError):
    """An agent was cancelled."""

    run_id: str

    def __init__(self, run_id: str, iterations_completed: int = 0) -> None:
        super().__init__("Agent run cancelled: {} after {} iterations".format(run_id, iterations_completed),
                         run_id=run_id, iterations_completed=iterations_completed)


# Configuration ------------------------------------------------------------------------------


class ConfigError(RLMError):
    """The configuration is invalid."""


class ConfigNotFoundError(ConfigError, FileNotFoundError):
    """The configuration file is missing."""

    path: str

    def __init__(self, path: str) -> None:
        super().__init__("Configuration file not found: " + path, path=path)

    __str__ = RLMError.__str__


class ConfigValidationError(ConfigError, ValueError):
    """A value of the configuration is wrong."""
