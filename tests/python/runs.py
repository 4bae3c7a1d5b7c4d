# SPDX-License-Identifier: Apache-2.0
"""runs.py NAME: a program with the Python package, for tests/integration/test_python_runs.py: each function is one."""

import asyncio
import contextlib
import io
import json
import logging
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from inspect import iscoroutinefunction, signature
from typing import Any, Callable, Dict, Iterator, List, Tuple, Type

import snipara_sandbox
from snipara_sandbox import (
    AgentConfig, AgentRunner, AsyncSandbox, CompletionOptions, InvalidArgument, Message, RLMResult, Sandbox,
    SniparaSandbox, SniparaSandboxConfig, StreamOptions, Tool, ToolCall, ToolRegistry, ToolResult, load_config)
from snipara_sandbox import exceptions
from snipara_sandbox.logging import TrajectoryLogger

# In development mode it warns of each step that took 0.1 s, which a slow machine does.
logging.getLogger("asyncio").setLevel(logging.ERROR)

Turn = Dict[str, Any]


def call(name: str, **arguments: Any) -> Turn:
    return {"name": name, "arguments": arguments}


def turn(*calls: Turn, text: str = "", **more: Any) -> Turn:
    return {"content": text, "tool_calls": list(calls), "usage": {"input": 100, "output": 20}, **more}


def code(text: str) -> Turn:
    return turn(call("execute_code", code=text))


_scripts = 0


def script(*turns: Turn) -> str:
    """A model that says this."""
    global _scripts
    _scripts += 1
    name = "script{}.jsonl".format(_scripts)
    with open(name, "w") as file:
        file.write("".join(json.dumps(each) + "\n" for each in turns))
    return "replay/" + name


def raises(kind: Type[BaseException], text: str, way: Callable[[], object]) -> Any:
    try:
        way()
    except kind as error:
        assert text in str(error), str(error)
        return error
    raise AssertionError("{} was not raised".format(kind.__name__))


@contextlib.contextmanager
def quiet() -> Iterator[List[logging.LogRecord]]:
    """What the package logs, instead of on stderr."""
    records: List[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Kept()
    logger = logging.getLogger("snipara_sandbox")
    logger.addHandler(handler)
    logger.propagate = False
    yield records
    logger.removeHandler(handler)


# Without a daemon ---------------------------------------------------------------------------


def names() -> None:
    """Both packages, old paths of modules, exceptions and records."""
    import rlm
    from importlib import import_module
    from rlm import RLM, RLMConfig
    assert import_module("rlm") is snipara_sandbox and rlm.__version__ == snipara_sandbox.__version__
    same = {"agent": AgentRunner, "agent.runner": AgentRunner, "tools.registry": ToolRegistry, "tools.base": Tool,
            "core.types": RLMResult, "core.config": SniparaSandboxConfig, "core.exceptions": exceptions.RLMError,
            "logging.trajectory": TrajectoryLogger, "core": SniparaSandbox}
    for path, kind in same.items():
        for package in ("rlm.", "snipara_sandbox."):
            assert getattr(import_module(package + path), kind.__name__) is kind, path
        assert import_module("rlm." + path) is import_module("snipara_sandbox." + path)
    for path in ("backends", "repl", "mcp", "visualizer"):
        assert import_module("rlm." + path) is getattr(snipara_sandbox, path)
    assert SniparaSandbox is Sandbox and issubclass(Sandbox, RLM)
    assert RLMConfig is SniparaSandboxConfig is snipara_sandbox.Config
    assert all(hasattr(snipara_sandbox, name) for name in snipara_sandbox.__all__)
    said = {
        exceptions.MaxDepthExceeded(4, 4): "Maximum recursion depth exceeded: 4/4 (depth=4, max_depth=4)",
        exceptions.TokenBudgetExhausted(9, 8): "Token budget exhausted: 9/8 tokens used (tokens_used=9, budget=8)",
        exceptions.CostBudgetExhausted(1, 0.5): "Cost budget exhausted: $1.0000/$0.5000 USD (cost_used=1, budget=0.5)",
        exceptions.TimeoutExceeded(1.5, 1): "Execution timeout exceeded: 1.5s/1s (elapsed_seconds=1.5, "
                                            "timeout_seconds=1)",
        exceptions.ToolNotFoundError("x", ["y"]): "Tool not found: 'x' (tool_name=x, available_count=1)",
        exceptions.ToolExecutionError("x", "e" * 300): "Tool 'x' failed: {} (tool_name=x, error={})".format(
            "e" * 100, "e" * 200),
        exceptions.SubCallBudgetExhausted(5, 5): "Sub-call budget exhausted: 5/5 calls this turn (calls_made=5, "
                                                 "max_per_turn=5)",
        exceptions.SubCallCostExceeded(1, 1): "Sub-call session cost exceeded: $1.0000/$1.0000 (session_cost=1, "
                                              "max_cost=1)",
        exceptions.SniparaAPIError("x", 429, "no"): "Snipara API error for 'x' (HTTP 429): no (tool_name=x, "
                                                    "status_code=429)"}
    for error, text in said.items():
        assert str(error) == text and isinstance(error, snipara_sandbox.SandboxError)
        assert str(pickle.loads(pickle.dumps(error))) == text
    for name in ("REPLTimeoutError", "REPLImportError", "BackendRateLimitError", "BackendAuthError", "AgentCancelled",
                 "AgentIterationLimitExceeded", "ConfigValidationError", "StructuredOutputError",
                 "ParallelExecutionError"):
        assert issubclass(getattr(exceptions, name), exceptions.RLMError)
    assert Message("user", "hi", [ToolCall("1", "t", {})]).to_dict() == {
        "role": "user", "content": "hi", "tool_calls": [{"id": "1", "name": "t", "arguments": {}}]}
    assert ToolResult("1", "x").to_dict() == {"tool_call_id": "1", "content": "x", "is_error": False}
    result = RLMResult(response="x", events=[])
    assert list(result.to_dict())[:12] == [
        "response", "trajectory_id", "total_calls", "total_tokens", "total_input_tokens", "total_output_tokens",
        "total_tool_calls", "duration_ms", "total_cost_usd", "error", "success", "events"]
    assert asyncio.run(result) is result
    registry = ToolRegistry()
    tool = Tool("t", "does", {"type": "object"}, lambda: 1)
    registry.register(tool)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        registry.register(tool)
    assert len(seen) == 1 and registry.get("t") is tool and registry.list_names() == ["t"] and "t" in registry
    assert list(registry) == registry.get_all() and registry.unregister("t") and not registry.unregister("t")
    assert len(registry) == 0 and asyncio.run(tool.execute()) == 1
    assert tool.to_openai_format() == {"type": "function", "function": {"name": "t", "description": "does",
                                                                        "parameters": {"type": "object"}}}
    assert tool.to_anthropic_format() == {"name": "t", "description": "does", "input_schema": {"type": "object"}}


def arguments() -> None:
    """All documented ones are taken, those without effect are named, and a wrong one is told the nearest."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        SniparaSandbox(
            backend="litellm", model="m", environment="docker", max_depth=4, max_subcalls=12, token_budget=8000,
            verbose=False, memory_enabled=True, docker_image="x", docker_cpus=1.0, docker_memory="512m",
            docker_network_disabled=True, docker_mount_workspace=True, docker_workspace_path=".",
            docker_workspace_setup="none", docker_timeout=30, snipara_api_key="snp-...", tool_budget=3,
            snipara_project_slug="s", snipara_base_url="u", tools=[], temperature=0.5, timeout_seconds=60)
    assert [str(each.message) for each in seen] == [
        "no effect in this version: docker_image=, docker_workspace_path=, memory_enabled=, snipara_api_key=, "
        "snipara_base_url=, snipara_project_slug="] and seen[0].filename == __file__
    for wrong, near in (("max_dept", "max_depth"), ("memroy", "memory"), ("tool", "tools"), ("docker_img", "docker_i")):
        raises(TypeError, "did you mean " + near, lambda: SniparaSandbox(**{wrong: 1}))  # type: ignore[arg-type]
    raises(TypeError, "no argument 'max_dept'; did you mean max_depth?", lambda: SniparaSandboxConfig(max_dept=1))
    raises(InvalidArgument, "no limit 'cpu'; did you mean cpus?", lambda: Sandbox(limits={"cpu": 2}))
    raises(InvalidArgument, "contradict", lambda: Sandbox(tier="native", environment="local"))

    class Own(snipara_sandbox.backends.BaseBackend):
        complete = print  # type: ignore[assignment]

    raises(InvalidArgument, "complete() of your class", lambda: SniparaSandbox(backend=Own("m")))
    raises(InvalidArgument, "backend: a name", lambda: SniparaSandbox(backend=1))  # type: ignore[arg-type]
    raises(InvalidArgument, "response_format", lambda: SniparaSandbox().completion("x", options=CompletionOptions(
        response_format="json")))

    s, anything = Sandbox(), {"x": 1}
    given: Any = anything
    for text, way in {
            "code must be text or bytes (not dict)": lambda: s.run(given),
            "line must be text or bytes (not dict)": lambda: s.sh(given),
            "timeout must be seconds, a number (not str)": lambda: s.run("1", timeout="10s"),  # type: ignore[arg-type]
            "input must be text or bytes (not dict)": lambda: s.run("1", input=given),
            "data must be text or bytes (not dict)": lambda: s.files.write("a", given),
            "path must be text (not dict)": lambda: s.files.write(given, "a"),
            "name must be text (not dict)": lambda: (Sandbox(given), s.snapshot(given)),
            "snapshot must be a name or a Snapshot (not dict)": lambda: s.rollback(given),
            'env must be a dict, as in {"CITY": "Oslo"} (not str)': lambda: Sandbox(env="A=1"),  # type: ignore
            'limits must be a dict, as in {"cpus": 2} (not str)': lambda: Sandbox(limits="cpus=2"),  # type: ignore
            "a tool must be a Tool: wrap it": lambda: Sandbox(tools=[print]),  # type: ignore[list-item]
            "tools must be a list, as in [Tool(...)] (not Tool)": lambda: Sandbox(tools=Tool("t", "")),  # type: ignore
            "prompt must be text (not dict)": lambda: s.completion(given),
            "options must be CompletionOptions(...) (not dict)": lambda: s.completion("x", options=given),
            "options=CompletionOptions(max_depth=...)": lambda: s.completion("x", max_depth=3),  # type: ignore
            "the first argument must be a Sandbox (not dict)": lambda: AgentRunner(given)}.items():
        raises(TypeError, text, way)
    none: Any = None
    needed: Dict[str, Callable[[], object]] = {
        "code": lambda: s.run(none), "line": lambda: s.sh(none), "expression": lambda: s.get(none),
        "path": lambda: s.files.read(none), "snapshot": lambda: s.rollback(none),
        "prompt": lambda: s.completion(none), "task": lambda: AgentRunner(s).run(none),
        "env['A']": lambda: Sandbox(env={"A": none})}
    for name, use in needed.items():
        assert str(raises(TypeError, name + " must be ", use)).endswith("(not NoneType)")
    for variable in ("A=", "", "="):
        raises(InvalidArgument, "not a valid variable name", lambda: Sandbox(env={variable: "1"}))
    for seconds in (0, float("inf"), float("nan")):
        raises(InvalidArgument, "timeout must be more than 0 seconds", lambda: s.run("1", timeout=seconds))
    later: Any = AsyncSandbox()
    of: Any = s
    kinds: List[Any] = [AgentConfig, CompletionOptions]
    unknown: Dict[str, Callable[[], object]] = {
        "run() has no argument 'tiemout'; did you mean timeout?": lambda: of.run("1", tiemout=1),
        "sh() has no argument 'tiemout'; did you mean timeout?": lambda: asyncio.run(later.sh("1", tiemout=1)),
        "AgentConfig() has no argument 'max_iter'; did you mean max_iterations?": lambda: kinds[0](max_iter=1),
        "CompletionOptions() has no argument 'max_dept'; did you mean max_depth?": lambda: kinds[1](max_dept=1),
        "read() has no argument 'mots'; did you mean most?": lambda: of.files.read("a", mots=1),
        "n must be a whole number (not str)": lambda: of.fork("2"),
        "history() has no argument 'x'; it takes limit": lambda: of.history(x=1),
        "completion() has no argument 'sytem'; did you mean system?": lambda: of.completion("x", sytem="")}
    for text, use in unknown.items():
        raises(TypeError, text, use)
    assert list(signature(s.run).parameters)[:2] == ["code", "timeout"] and iscoroutinefunction(AsyncSandbox.run)


def configuration() -> None:
    """Arguments, then variables, then the file, then defaults; lists of variables; secrets stay where they are."""
    with open("snipara-sandbox.toml", "w") as file:
        file.write('[snipara_sandbox]\nmodel = "replay/file"\nmax_depth = 5\ntoken_budget = 1000\n')
    os.environ.update(RLM_MAX_DEPTH="6", SNIPARA_SANDBOX_TOKEN_BUDGET="2000", RLM_TOKEN_BUDGET="3000",
                      SNIPARA_SANDBOX_ALLOWED_PATHS="/a,/b", SNIPARA_SANDBOX_LLM_API_KEY="sk-secret")
    config = load_config("snipara-sandbox.toml")
    assert (config.model, config.max_depth, config.token_budget) == ("replay/file", 6, 2000)
    shown = repr(config)
    assert "config_file=" in shown and "max_depth=6" in shown and "timeout" not in shown
    assert [str(path) for path in config.allowed_paths] == ["/a", "/b"] and str(config.log_dir) == "logs"
    assert config.api_key_set and "sk-secret" not in repr(config) + json.dumps(config.to_dict())
    raises(AttributeError, "api_key is set", lambda: config.api_key)
    raises(AttributeError, "did you mean max_depth?", lambda: config.max_dept)
    sandbox = SniparaSandbox(config=config, max_depth=7)
    assert SniparaSandboxConfig(environment="wasm").tier == "native"
    assert (sandbox.config.max_depth, sandbox.config.model, sandbox.backend.model) == (7, "replay/file", "replay/file")
    given = SniparaSandboxConfig(model="m", docker_workspace_setup="none")
    assert (given.model, given.snipara_enabled, given.get_snipara_url()) == ("m", False, None)
    assert "pw" not in repr(SniparaSandboxConfig(base_url="http://u:pw@h/v1"))
    assert Sandbox(project=".", allow_degraded=True).config.max_depth == 6
    raises(exceptions.ConfigNotFoundError, "none.toml", lambda: load_config("none.toml"))
    raises(FileNotFoundError, "none.toml", lambda: SniparaSandbox(config="none.toml"))
    raises(exceptions.ConfigValidationError, "max_depth", lambda: SniparaSandboxConfig(max_depth="many").max_depth)
    from snipara_sandbox._completion import KEYS
    told = {name[:-4] if name in ("api_key_set", "snipara_api_key_set") else name for name in config.to_dict()}
    assert set(KEYS) == told & set(config.to_dict()["sources"]), set(KEYS) ^ told


# Runs ---------------------------------------------------------------------------------------


def results() -> None:
    """What a run returns, outside and inside an event loop, and how it reads afterwards."""
    os.environ.pop("SNIPARA_SANDBOX_LOG_DIR", None)
    logger = TrajectoryLogger("logs")
    assert logger.list_recent() == [] and not os.path.exists("logs")
    sandbox = SniparaSandbox(model=script(code("print(6 * 7)"), turn(text="42")))
    result = sandbox.completion("How many?", "Be short.", CompletionOptions(include_trajectory=True))
    assert (result.response, result.success, result.total_calls, result.total_tokens) == ("42", True, 2, 240)
    assert (result.total_input_tokens, result.total_output_tokens, result.total_tool_calls) == (200, 40, 1)
    assert result.total_cost_usd == 0.0 and len(str(result.trajectory_id)) == 36 and result.raise_for_error() is result
    first, second = result.events
    assert second.parent_call_id == first.call_id and json.loads(first.tool_results[0].content)["output"] == "42\n"
    assert asyncio.run(result) is result  # as what was made for a coroutine expects

    async def main() -> None:
        assert await result is result and list(await asyncio.gather(result)) == [result]
        other = SniparaSandbox(model=script(turn(text="a", repeat=True)))
        pending = other.completion("x")
        raises(AttributeError, "await", lambda: pending.response)
        made = await asyncio.gather(pending, *(other.completion("x") for _ in range(5)))
        assert [each.response for each in made] == ["a"] * 6 and made[0].events == []
        assert (await asyncio.create_task(other.completion("x"))).response == "a"
        chunks = [chunk async for chunk in other.stream("x")]
        assert "".join(chunks) == "a"
        async with Sandbox(model=script(turn(text="b"))) as box:
            assert (await box.completion("x")).response == "b" and (await box.run("1")).value == "1"
    asyncio.run(main())
    in_thread: List[str] = []
    thread = threading.Thread(target=lambda: in_thread.append(
        SniparaSandbox(model=script(turn(text="c"))).completion("x").response))
    thread.start()
    thread.join()
    assert in_thread == ["c"]
    records(sandbox.trajectory_logger, result)


def records(logger: TrajectoryLogger, result: RLMResult) -> None:
    """Ids may be short, but no paths; broken lines harm nothing, and calls keep their cost."""
    rows = logger.list_recent(3)
    assert len(rows) == 3 and list(rows[0]) == ["id", "timestamp", "calls", "tokens", "duration_ms", "path"]
    loaded = logger.load_trajectory(str(result.trajectory_id)[:8])
    assert [event.to_dict() for event in loaded] == [event.to_dict() for event in result.events]
    assert [event.estimated_cost_usd for event in loaded] == [0.0, 0.0]
    with open("logs/broken.jsonl", "w") as file:
        file.write("{\n[1]\n\n")
    with open("outside.jsonl", "w") as file:
        file.write('{"call_id": "x"}\n')
    assert logger.load_trajectory("broken") == [] and len(logger.list_recent(100)) == len(os.listdir("logs")) - 1
    raises(InvalidArgument, "not the id", lambda: logger.load_trajectory("../outside"))
    raises(LookupError, "no run", lambda: logger.load_trajectory("zzz"))
    assert logger.delete_trajectory("broken") and not logger.delete_trajectory("broken")
    assert logger.cleanup_old(1) == 0


def limits() -> None:
    """A run that is stopped keeps what it has, is on record, and says how to go on."""
    more = [code("print({})".format(n)) for n in range(3)] + [turn(text="done")]
    for n in range(3):
        more[n]["content"] = "step {}".format(n)
    ways: List[Tuple[Dict[str, float], Type[exceptions.RLMError], str]] = [
        ({"max_depth": 2.0}, exceptions.MaxDepthExceeded, "pass a higher max_depth="),
        ({"token_budget": 4000.0}, exceptions.TokenBudgetExhausted, "pass a higher token_budget="),
        ({"timeout_seconds": 3.0}, exceptions.TimeoutExceeded, "pass a higher timeout_seconds=")]
    for settings, kind, way in ways:
        turns: List[Turn] = [{**each, "usage": {"input": 900, "output": 50}} for each in more]
        if kind is exceptions.TimeoutExceeded:  # it ends by nothing else
            turns[2] = {**code("import time\ntime.sleep(600)"), "content": "step 2"}
        result = SniparaSandbox(model=script(*turns), **settings).completion("x")  # type: ignore[arg-type]
        assert not result.success and result.response.startswith("step ") and str(result.error).endswith(way), result
        error = raises(kind, "); " + way, result.raise_for_error)
        higher: Any = {name: 9000 for name in settings}
        again = SniparaSandbox(**higher).resume(str(result.trajectory_id)[:8])
        assert (again.response, again.error, again.trajectory_id) == ("done", None, result.trajectory_id), again
        assert error.context and TrajectoryLogger().load_trajectory(result.trajectory_id)
    result = SniparaSandbox(model=script(*more)).completion("x", options=CompletionOptions(tool_budget=1))
    assert result.success and result.total_tool_calls == 1  # calls beyond it are refused, and not counted
    refusing = script({"error": {"failure": "auth", "message": "no", "final": True}})
    uses: List[Callable[[Sandbox], object]] = [lambda box: box.run("1"), lambda box: box.completion("x")]
    for use in uses:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            use(SniparaSandbox(model=script(turn(text="done")), environment="wasm"))
        assert "no wasm tier here" in str(seen[0].message) and seen[0].filename == __file__ and len(seen) == 1
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for form in ({"type": "json_schema", "json_schema": {"name": "sum", "schema": SUM}}, SUM):
            asked = SniparaSandbox(model=script(turn(text='{"a": 1, "b": "2"}'))).completion(
                "x", options=CompletionOptions(response_format=form, stop_sequences=["x"]))
            assert asked.success and "b: must be of type integer" in str(asked.schema_error), asked.schema_error
            raises(exceptions.StructuredOutputError, "b: must be", asked.raise_for_error)
    assert "stop_sequences= has no effect" in str(seen[0].message)
    failed = SniparaSandbox(model=refusing).completion("x")
    raises(exceptions.BackendError, "", failed.raise_for_error)

    async def main() -> None:
        sandbox = SniparaSandbox(model=script(*more), max_depth=2)
        try:
            async for _ in sandbox.stream("x", options=StreamOptions(timeout_seconds=60)):
                pass
        except exceptions.MaxDepthExceeded:
            return
        raise AssertionError("the stream ended well")
    asyncio.run(main())
    sandbox = SniparaSandbox(model="gpt-4o-mini")
    raises(snipara_sandbox.SandboxError, "OPENAI_API_KEY", lambda: sandbox.completion("x"))
    raises(InvalidArgument, "litellm, openai, anthropic", lambda: SniparaSandbox(backend="no").completion("x"))
    raises(InvalidArgument, "docker, local, wasm", lambda: SniparaSandbox(environment="no").completion("x"))


SUM = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}


def tools() -> None:
    """Tools of the program: their results, their failures, several at once."""
    seen: List[int] = []

    async def add(a: int, b: int) -> Dict[str, int]:
        await asyncio.sleep(0)
        return {"sum": a + b}

    def fails(**_: int) -> None:
        raise ValueError("not today")

    inner = Sandbox()

    def runs(a: int, b: int) -> str:  # in the thread of the program, with a cell and a run inside
        seen.append(threading.get_ident())
        answer = SniparaSandbox(model=script(turn(text="inner"))).completion("y").response
        return "{} {}".format(inner.run("{} * {}".format(a, b)).value, answer)

    async def slow(a: int, b: int) -> str:
        await asyncio.sleep(60)
        return "late"

    def blocks(a: int, b: int) -> str:
        time.sleep(2)
        return "late"

    with contextlib.redirect_stderr(io.StringIO()) as said:
        SniparaSandbox(model=script(turn(text="\x1b]0;title\x07 ä\u202e")), verbose=True).completion("x")
    assert said.getvalue() == "snipara_sandbox: model: \\x1b]0;title\\x07 ä\\u202e\n", ascii(said.getvalue())

    offered = [Tool("add", "adds", SUM, add), Tool("fails", "fails", SUM, fails), Tool("runs", "runs", SUM, runs),
               Tool("slow", "slow", SUM, slow, timeout=0.3), Tool("blocks", "blocks", SUM, blocks, timeout=0.3)]
    model = script(*(turn(call(name, a=6, b=7)) for name in ("add", "fails", "runs", "slow", "blocks")),
                   turn(call("add", a="x", b=1)), turn(text="done"))
    with quiet() as logged:
        result = SniparaSandbox(model=model, tools=offered, verbose=False).completion(
            "x", options=CompletionOptions(include_trajectory=True))
    told = [each for event in result.events for each in event.tool_results]
    shown = [json.loads(each.content) for each in told]
    assert [each.is_error for each in told] == [False, True, False, True, True, True], shown
    assert json.loads(shown[0]["output"]) == {"sum": 13} and shown[2]["output"] == "42 inner"  # JSON, no repr
    assert shown[1]["error"] == "ValueError: not today" and "a:" in shown[5]["error"]
    assert shown[3]["error"] == shown[4]["error"] == "no answer within 0.3 s"
    assert seen == [threading.get_ident()]
    assert [record.getMessage().split(":")[0] for record in logged][0] == "Tool 'fails' failed"
    assert logged[0].exc_info is not None and len(logged) == 3
    parallel(script(turn(*(call("meet", n=n) for n in range(3))), turn(text="done")))

    def stops(a: int, b: int) -> None:
        raise KeyboardInterrupt

    async def leaves(a: int, b: int) -> None:
        raise SystemExit(3)

    for handler, kind in ((stops, KeyboardInterrupt), (leaves, SystemExit)):
        sandbox = SniparaSandbox(model=script(turn(call("end", a=1, b=2)), turn(text="done")))
        sandbox.tool_registry.register(Tool("end", "ends", SUM, handler))
        raises(kind, "", lambda: sandbox.completion("x"))

    async def main() -> None:
        sandbox = SniparaSandbox(model=script(turn(call("add", a=1, b=2)), turn(call("inner")), turn(text="done")),
                                 tools=offered)
        sandbox.tool_registry.register(Tool("inner", "a run", handler=lambda: SniparaSandbox(
            model=script(turn(text="inner"))).completion("y")))
        result = await sandbox.completion("x", options=CompletionOptions(include_trajectory=True))
        told = [json.loads(event.tool_results[0].content) for event in result.events[:2]]
        assert json.loads(told[0]["output"]) == {"sum": 3}
        assert json.loads(told[1]["output"])["response"] == "inner", told
    asyncio.run(main())
    inner.close()


def parallel(model: str) -> None:
    """Three that wait for each other."""
    met: List[int] = []

    async def meet(n: int) -> int:
        met.append(n)
        while len(met) < 3:
            await asyncio.sleep(0.01)
        return n

    tool = Tool("meet", "meets", {"type": "object", "properties": {"n": {"type": "integer"}}}, meet)
    result = SniparaSandbox(model=model, tools=[tool], parallel_tools=True, max_parallel=3).completion("x")
    assert result.success and sorted(met) == [0, 1, 2]


def agents() -> None:
    """An agent to its end, to its limit, and cancelled by a tool of its own."""
    final = script(code("x = 6 * 7"), turn(call("FINAL_VAR", variable_name="x")))
    runner = AgentRunner(SniparaSandbox(model=final))
    result = runner.run("Compute it")
    assert (result.answer, result.answer_source, result.success, result.error) == ("42", "final_var", True, None)
    assert result.run_id == runner.status["run_id"] and len(result.run_id) == 8 and result.trajectory
    assert list(result.to_dict())[:9] == ["answer", "answer_source", "iterations", "total_tokens", "total_cost",
                                          "duration_ms", "forced_termination", "run_id", "success"]
    assert runner.status["is_terminal"] and runner.status["total_tokens"] == result.total_tokens == 240
    forced = AgentRunner(SniparaSandbox(model=script(turn(text="hm", repeat=True))), AgentConfig(max_iterations=2))
    ended = forced.run("x")
    assert (ended.answer_source, ended.success, ended.iterations) == ("forced", False, 2)
    assert str(ended.error).endswith("; pass a higher max_iterations=")
    raises(exceptions.AgentIterationLimitExceeded, "2/2", ended.raise_for_error)
    more = AgentRunner(SniparaSandbox(), AgentConfig(max_iterations=3)).resume(ended.trajectory_id)
    assert (more.iterations, more.run_id, len(more.trajectory) > len(ended.trajectory)) == (3, ended.run_id, True)
    raises(InvalidArgument, "AgentRunner(sandbox).resume()", lambda: SniparaSandbox().resume(ended.trajectory_id))
    raises(LookupError, "no run", lambda: SniparaSandbox().resume("zzz"))
    sandbox = SniparaSandbox(model=script(turn(call("halt")), turn(text="hm", repeat=True)))
    cancelled = AgentRunner(sandbox)
    sandbox.tool_registry.register(Tool("halt", "halts", handler=cancelled.cancel))

    async def main() -> None:
        stopped = await cancelled.run("x")
        assert stopped.answer_source == "error" and stopped.stopped_by == "cancelled", stopped
        assert cancelled.status["cancelled"] and not stopped.success
        raises(exceptions.AgentCancelled, stopped.run_id, stopped.raise_for_error)
    asyncio.run(main())
    for high, name in ((AgentConfig(max_iterations=51), "iterations"), (AgentConfig(max_depth=6), "depth"),
                       (AgentConfig(cost_limit=11.0), "cost")):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert AgentRunner(SniparaSandbox(model=final), high).run("x").success
        assert len(seen) == 1 and name in str(seen[0].message) and "at most" in str(seen[0].message), seen
    given: Any = {"max_depth": 2, "token_budget": 7000, "tool_budget": 4, "cost_limit": 0.25, "timeout_seconds": 77}
    for config in (None, AgentConfig(max_iterations=4)):  # sets none of these limits
        budget = AgentRunner(SniparaSandbox(model=final, **given), config).run("x").limits
        assert {**{name: budget[name] for name in given if name in budget}, "timeout_seconds": 77} == given, budget
    own = AgentRunner(SniparaSandbox(model=final, **given), AgentConfig(max_depth=3, cost_limit=2.0)).run("x").limits
    assert (own["max_depth"], own["cost_limit"], own["token_budget"]) == (3, 2.0, 7000), own
    for low in (AgentConfig(max_iterations=0), AgentConfig(timeout_seconds=0), AgentConfig(max_depth=-1)):
        raises(InvalidArgument, "", lambda: AgentRunner(SniparaSandbox(model=final), low).run("x"))
    raises(InvalidArgument, "trajectory_log", lambda: AgentRunner(sandbox, AgentConfig(trajectory_log=False)).run("x"))


def keys() -> None:
    """A key of the program is in no argument and no variable of any process."""
    key = "sk-" + "".join(("a", "b", "c")) * 5
    seen: List[str] = []

    def look() -> int:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("cmdline", "environ"):
                with contextlib.suppress(OSError), open("/proc/{}/{}".format(pid, name)) as file:
                    seen.append(file.read())
        return len(seen)

    sandbox = SniparaSandbox(model=script(turn(call("look")), turn(text="done")), api_key=key,
                             tools=[Tool("look", "looks", handler=look)])
    assert sandbox.completion("x").success
    assert any("snipara-sandbox" in each for each in seen) and not any(key in each for each in seen)
    assert key not in repr(sandbox.config) and sandbox.config.api_key == key and sandbox.config.api_key_set


def stops() -> None:
    """Ctrl-C and cancelling: the run ends at once, on record."""
    endless = [code("import time\ntime.sleep(600)"), turn(text="late")]
    sandbox = SniparaSandbox(model=script(*endless))

    def until_in_a_cell(n_runs: int) -> None:
        logger = sandbox.trajectory_logger
        while len(logger.list_recent(9)) < n_runs or not any(
                record.get("step") == "tool" for record in logger.load_records(logger.list_recent(1)[0]["id"])):
            time.sleep(0.05)

    def interrupt() -> None:
        until_in_a_cell(1)
        os.kill(os.getpid(), signal.SIGINT)

    def is_on_record() -> None:
        """A cancelled call returns before the run has written its end."""
        logger = sandbox.trajectory_logger
        ends: List[Dict[str, Any]] = []
        until = time.monotonic() + float(os.environ.get("SNP_TEST_PATIENCE", "60"))
        while not ends and time.monotonic() < until:
            ends = [record for record in logger.load_records(logger.list_recent(1)[0]["id"]) if "end" in record]
        assert ends and ends[-1]["end"]["stopped_by"] == "cancelled", ends

    thread = threading.Thread(target=interrupt)
    thread.start()
    raises(KeyboardInterrupt, "", lambda: sandbox.completion("x"))
    thread.join()
    is_on_record()
    logger = sandbox.trajectory_logger

    def die() -> None:
        for record in logger.load_records(logger.list_recent(1)[0]["id"]):
            if "process" in record:
                os.kill(record["process"]["pid"], signal.SIGKILL)

    dying = SniparaSandbox(model=script(turn(call("die")), turn(text="done")), tools=[Tool("die", "dies", handler=die)])
    lost = raises(snipara_sandbox.SandboxLost, "", lambda: dying.completion("x"))
    assert str(lost).endswith("; `snipara-sandbox resume {}` continues it".format(lost.object)), lost

    async def main() -> None:
        run = asyncio.ensure_future(SniparaSandbox(model=script(*endless)).completion("x"))
        await asyncio.get_running_loop().run_in_executor(None, until_in_a_cell, 3)
        run.cancel()
        try:
            await run
        except asyncio.CancelledError:
            return
        raise AssertionError("it was not cancelled")
    asyncio.run(main())
    is_on_record()


def repl() -> None:
    """Code by the old names, with what was wrong with them put right."""
    with SniparaSandbox(docker_memory="256m") as sandbox:
        shell = sandbox.repl
        assert shell is sandbox.repl
        assert shell.execute("n = 0\nn += 1\nclass A: pass\na, b = 1, 2\nresult = n").success
        for expected in ("2\n", "3\n"):  # no cache, and no old result again
            assert shell.execute("n = n + 1\nn").output == expected
        failed = shell.execute("def f(): print('in f')\nf()\n1/0")
        assert (failed.output, failed.error) == ("in f\n", "ZeroDivisionError: division by zero")
        assert not shell.execute("while True: pass", timeout=0.5).success
        assert not shell.execute("raise SystemExit(3)").success
        shell.execute("n = 3")
        shell.set_context("city", {"name": "Oslo"})
        assert shell.execute("print(city['name'], context['city']['name'])").output == "Oslo Oslo\n"
        context = shell.get_context()
        assert (context["n"], context["city"]) == (3, {"name": "Oslo"})
        shell.clear_context()
        assert shell.get_context() == {} and not shell.execute("n").success

        async def main() -> None:
            assert (await shell.execute("1")).output == "1\n"
        asyncio.run(main())
        raises(InvalidArgument, "`for` runs code", lambda: list(sandbox.stream("1", "system")))
        assert "".join(sandbox.stream("print(1)")) == "1\n"
        limits = sandbox.run("1").raw["manifest"]["controls"]["resources"]["limits"]
        assert limits["memory"]["value"] == 256 << 20


if __name__ == "__main__":
    globals()[sys.argv[1]]()
