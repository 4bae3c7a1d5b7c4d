# SPDX-License-Identifier: Apache-2.0
"""Agents: a model that works on a task in iterations, until it gives its final answer."""
from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from . import exceptions
from ._errors import check_needed, names_nearest, wrong_kind
from ._old import also
from .core import Outcome, Record, plain

if TYPE_CHECKING:
    from ._ask import Ask
    from ._completion import RLM


@names_nearest
@dataclass
class AgentConfig(Record):
    """Settings of an agent. A value above its maximum is lowered to it, with a warning.

    Limits that are not given come from the sandbox or the configuration, else from the defaults here.
    """

    max_iterations: int = 10
    """1 to 50"""
    max_depth: int = 3
    """Turns of the model in an iteration: 1 to 5."""
    token_budget: Optional[int] = None
    """Of the whole agent."""
    cost_limit: Optional[float] = 2.0
    """USD, at most 10. None: no limit."""
    timeout_seconds: Optional[float] = None
    """Wall clock of the whole agent."""
    auto_context: bool = True
    """Begin with what the index of the project has on the task."""
    context_budget: int = 4000
    """Tokens of that: 100 to 10000."""
    trajectory_log: bool = True
    tool_budget: int = 50
    """Tool calls in an iteration."""

    def __new__(cls, *args: Any, **kwargs: Any) -> AgentConfig:
        """Record which settings are passed, even if they equal the default."""
        self = super().__new__(cls)
        self.__dict__["_passed"] = {*[each.name for each in fields(cls)][:len(args)], *kwargs}
        return self

    def _given(self) -> Dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)
                if each.name in vars(self)["_passed"] or getattr(self, each.name) != each.default}


@dataclass(eq=False)
class AgentResult(Outcome):
    """The result of an agent. It is complete, and may also be awaited."""

    answer: str = ""
    answer_source: str = "error"
    """ "final", "final_var", "forced" (a limit was met) or "error"."""
    iterations: int = 0
    total_tokens: int = 0
    total_cost: Optional[float] = None
    """USD; None: the price of a model is not known."""
    duration_ms: int = 0
    forced_termination: bool = False
    run_id: str = ""
    iteration_summaries: List[Dict[str, Any]] = field(default_factory=list, repr=False)
    trajectory_id: str = ""
    trajectory: List[Dict[str, Any]] = field(default_factory=list, repr=False)
    """The records of the agent, as they were written: docs/reference/trajectory.md."""

    @property
    def success(self) -> bool:
        """Whether the agent gave a final answer."""
        return not self.forced_termination and self.answer_source in ("final", "final_var")

    def to_dict(self) -> Dict[str, Any]:
        """A dict in the form of `snipara-sandbox agent --json`."""
        names = [each.name for each in fields(AgentResult)][len(fields(Outcome)):-3]
        order = [*names, "success", "iteration_summaries", "trajectory_id", "error", "stopped_by", "session", "files"]
        return {name: plain(getattr(self, name)) for name in order}

    def _reason(self) -> Optional[exceptions.RLMError]:
        if self.success:
            return None
        limits = self.limits
        if self.stopped_by == "cancelled":
            return exceptions.AgentCancelled(self.run_id, self.iterations)
        if self.stopped_by == "cost_limit":
            return exceptions.AgentCostLimitExceeded(self.total_cost or 0.0, limits.get("cost_limit") or 0.0)
        if self.stopped_by == "max_iterations":
            return exceptions.AgentIterationLimitExceeded(self.iterations, limits.get("max_iterations", 0))
        return exceptions.AgentError(self.error or self.answer)


AGENT_MOST = {"max_depth": 5, "tool_budget": 1000, "cost_limit": 10}


@names_nearest
class AgentRunner:
    """Runs agents with the settings, tools and model of a sandbox: `AgentRunner(sandbox).run("...")`."""

    def __init__(self, rlm: RLM, config: Optional[AgentConfig] = None) -> None:
        if not hasattr(rlm, "_settings"):
            raise wrong_kind("the first argument", "a Sandbox", rlm)
        if config is not None and not isinstance(config, AgentConfig):
            raise wrong_kind("config", "AgentConfig(...)", config)
        self.rlm = rlm
        self.config = config if config is not None else AgentConfig()
        self._ask: Optional[Ask] = None
        self._is_cancelled = False

    def run(self, task: str) -> AgentResult:
        """Run an agent. Like completion(), it waits outside an event loop, and is awaited in one.

        A limit does not raise: see AgentResult.error, and raise_for_error().
        """
        check_needed(task=task)
        budget = self.config.context_budget if self.config.auto_context else 0
        return self._result(task, {**self._limits(), "context_budget": budget}, None, [])

    def resume(self, trajectory_id: object, *, recover: Optional[str] = None) -> AgentResult:
        """Resume an agent that was stopped, reached a limit or was lost, like resume() of a sandbox.

        It keeps its limits, except those set by AgentConfig or the sandbox.
        """
        records = self.rlm._recorded(trajectory_id, "agent")
        return self._result(None, {**self._limits(), "recover": recover}, records[0]["trajectory_id"], records)

    def _limits(self) -> Dict[str, Any]:
        from ._completion import refuse
        config = self.config
        if not config.trajectory_log:
            refuse("trajectory_log", "every run is recorded; log_dir= sets the folder")
        given = {name: value for name, value in config._given().items()
                 if name not in ("auto_context", "context_budget", "trajectory_log")}
        if "cost_limit" in given and config.cost_limit is None:
            given["cost_limit"] = "none"
        return given

    def _result(self, task: Optional[str], settings: Dict[str, Any], resumed: Optional[str],
                records: List[Dict[str, Any]]) -> AgentResult:
        from ._ask import Ask
        from ._completion import result_of
        ask = Ask(task, self._shared(), {name: value for name, value in settings.items() if value is not None},
                  resume=resumed, tools=self.rlm.tool_registry.get_all(), is_agent=True)
        ask.records.extend(records)
        self._ask, self._is_cancelled = ask, False

        def result(answer: Dict[str, Any]) -> AgentResult:
            return AgentResult.of({**answer, "limits": ask.limits, "trajectory": ask.records})
        return result_of(ask, result)

    def _shared(self) -> Dict[str, Any]:
        """Settings of the sandbox. completion() shares them and has higher maxima: lowered without a warning."""
        shared = self.rlm._settings()
        for name, most in AGENT_MOST.items():
            value = shared.get(name)
            if isinstance(value, (int, float)) and not 0 < value <= most:
                shared[name] = most
        return shared

    def cancel(self) -> None:
        """Stop the agent, from another task, thread or tool. Its result has `answer_source` "error"."""
        self._is_cancelled = True
        if self._ask is not None:
            self._ask.stop()

    @property
    def status(self) -> Dict[str, Any]:
        """State of the agent: run_id, iteration, total_tokens, total_cost, is_terminal, cancelled."""
        ask = self._ask
        events = [] if ask is None else [record for record in ask.records if "_type" not in record]
        costs = [event["estimated_cost_usd"] for event in events]
        return {"run_id": "" if ask is None else ask.id[:8],
                "iteration": 0 if ask is None else sum(each.get("step") == "iteration" for each in ask.records),
                "total_tokens": sum(event["input_tokens"] + event["output_tokens"] for event in events),
                "total_cost": None if None in costs else sum(costs), "is_terminal": ask is None or ask.is_done,
                "cancelled": self._is_cancelled}


also(__name__, "config", "result", "runner")
