# SPDX-License-Identifier: Apache-2.0
"""Limits of runs, each below, at and above; what a stop says and leaves; what comes out of a sandbox."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from lib import PATIENCE, Json
from scripted_runs import Runs, call, turn

Rows = list[tuple[list[Any], dict[str, str], int, bool]]  # see try_limits()


def steps(runs: Runs, result: Json, name: str) -> list[Any]:
    return [each for each in runs.records(result) if each.get("step") == name]


def head(runs: Runs, result: Json) -> Json:
    return runs.records(result)[0]


# Below, at and above ----------------------------------------------------------------------------


UNKNOWN = call("no_such_tool", n=1)  # answered without a sandbox: limits of the model alone are cheap to reach


def talk(n: int, **more: Any) -> list[Json]:
    """n turns that say something and call a tool, then the answer."""
    return [turn(call("no_such_tool", n=k), text=f"step {k}", **more) for k in range(n)] + [turn(text="answer", **more)]


def try_limits(runs: Runs, verb: str, turns: list[Json], rows: Rows, by: str,
               option: str, partial: Callable[[Any], str]) -> None:
    """rows: options, environment, and how many calls of the model there are; the last member whether it is done."""
    for options, env, calls, is_done in rows:
        done = runs.cli(verb, "Do it", *runs.options(runs.script(*turns)), "--json", *options, env=env)
        result = json.loads(done.stdout)
        answer = result["response" if verb == "run" else "answer"]
        where = (options, env, result)
        assert done.returncode == (0 if is_done else 1), where
        assert len(steps(runs, result, "answer")) == calls, where
        assert answer == ("answer" if is_done else partial(calls)), where
        assert result["stopped_by"] == (None if is_done else by), where
        assert result["raise_with"] == (None if is_done else option), where
        if not is_done:
            assert option is None or f"{option} raises the limit" in result["error"], where
            end = runs.records(result)[-1]["end"]
            assert (end["stopped_by"], end["partial"]) == (by, answer), where


def test_model_turns(runs: Runs) -> None:
    rows: Rows = [(["--max-depth", n], {}, min(n, 3), n >= 3) for n in (1, 2, 3, 4)]
    try_limits(runs, "run", talk(2), rows, "max_depth", "--max-depth", lambda calls: f"step {calls - 1}")


def test_model_calls(runs: Runs) -> None:
    rows: Rows = [(["--max-calls", n], {}, min(n, 3), n >= 3) for n in (1, 2, 3, 4)]
    try_limits(runs, "run", talk(2), rows, "max_subcalls", "--max-calls", lambda calls: f"step {calls - 1}")


def test_tokens(runs: Runs) -> None:
    """The third call needs what the first two have used, an estimate of its question, and room for an answer."""
    reference = runs.run(*talk(2), options=["--token-budget", 100000])
    first, _, third = (each["estimate"] for each in steps(runs, reference, "ask"))
    used = first + 300  # by each call
    rows: Rows = [(["--token-budget", n], {}, calls, calls == 3)
                  for n, calls in ((first + 63, 0), (used, 1), (2 * used, 2), (2 * used + third + 63, 2),
                                   (2 * used + third + 64, 3), (50 * used, 3))]
    try_limits(runs, "run", talk(2, tokens=(first + 200, 100)), rows, "token_budget", "--token-budget",
               lambda calls: f"step {calls - 1}" if calls else "")


def test_cost(runs: Runs) -> None:
    """1.25 USD a call."""
    turns = talk(2, tokens=(100000, 100000), model="gpt-4o")
    base = ["--token-budget", 10**7]
    rows: Rows = [([*base, "--cost-limit", usd], {}, calls, calls == 3)
                  for usd, calls in (("1.25", 1), ("2.5", 2), ("2.6", 3), ("none", 3), ("1000", 3))]
    try_limits(runs, "run", turns, rows, "cost_limit", "--cost-limit", lambda calls: f"step {calls - 1}")


def test_tool_calls(runs: Runs) -> None:
    """None passes the limit, whatever number one answer asks for; never more after it either."""
    for limit in (2, 3, 4):
        result = runs.run(turn(*[UNKNOWN | {"arguments": {"n": n}} for n in range(3)]),
                          turn(*[UNKNOWN | {"arguments": {"n": n}} for n in range(3, 9)]), turn(text="answer"),
                          options=["--tool-budget", limit])
        said = [each["error"].split(";")[0] for each in runs.results(result)]
        ran = "Tool not found: 'no_such_tool'"
        assert (said == [ran] * limit +
                ["Error: Tool budget exceeded. No more tool calls will be executed."] * (9 - limit))
        assert result["total_tool_calls"] == limit and result["response"] == "answer"


def test_tool_calls_of_an_agent(runs: Runs) -> None:
    """The limit is of an iteration: the next one has all of it again."""
    unknown = [UNKNOWN | {"arguments": {"n": n}} for n in range(6)]
    result = runs.agent(turn(*unknown[:3]), turn(text="step 1"), turn(*unknown[3:]),
                        turn(call("FINAL", answer="answer")),
                        options=["--tool-budget", 2])
    said = [each["error"].split(";")[0] for each in runs.results(result)[:6]]
    ran, over = "Tool not found: 'no_such_tool'", "Error: Tool budget exceeded. No more tool calls will be executed."
    assert said == [ran, ran, over] * 2 and result["answer"] == "answer" and result["iterations"] == 2
    for given, held in (("1001", 1000), ("1000", 1000), ("1", 1)):
        done = runs.cli("agent", "Do it", *runs.options(runs.script(turn(call("FINAL", answer="x")))), "--cost-limit",
                        "none",
                        "--tool-budget", given, "--json")
        assert head(runs, json.loads(done.stdout))["budget"]["tool_budget"] == held
    done = runs.cli("agent", "Do it", "--show-config", "--tool-budget", "1001")
    assert "--tool-budget is at most 1000; using that" in done.stderr and "Tool Budget: 1000\n" in done.stdout
    done = runs.cli("agent", "Do it", *runs.options(runs.script(turn(text="x"))), "--tool-budget", "0")
    assert done.returncode == 2 and "--tool-budget must be at least 1" in done.stderr


def test_iterations(runs: Runs) -> None:
    turns = [turn(text="step 0"), turn(text="step 1"), turn(call("FINAL", answer="answer"))]
    rows: Rows = [(["-i", n, "--cost-limit", "none"], {}, min(n, 3), n >= 3) for n in (1, 2, 3, 4)]
    try_limits(runs, "agent", turns, rows, "max_iterations", "--max-iterations", lambda calls: f"step {calls - 1}")
    last = runs.agent(*turns, options=["-i", 3])
    told = [each["content"] for each in steps(runs, last, "iteration")]
    assert ["last iteration" in each for each in told] == [False, False, True]
    assert "Iteration: 3/3" in told[2] and "Remaining token budget: 399760" in told[2]


def test_resume_keeps_an_agent_below_its_maximum(runs: Runs) -> None:
    """Resume proposes no higher limits. At the maximum no command continues the agent."""
    stopped = runs.agent(*[turn(text=f"step {n}") for n in range(60)], options=["-i", 30], code=1)
    assert stopped["resume_with"] == "--max-iterations 50"
    words = ["--max-iterations", 60, "--max-depth", 6, "--tool-budget", 1001]
    shown = runs.cli("resume", stopped["trajectory_id"], *words, "--cost-limit", "10.5")
    assert shown.returncode == 1 and shown.stderr.count("; using that") == 4 and "Continue with" not in shown.stderr
    budget = steps(runs, stopped, "resume")[-1]["budget"]
    assert [budget[name] for name in ("max_iterations", "max_depth", "tool_budget", "cost_limit")] == [50, 5, 1000, 10]
    assert len(steps(runs, stopped, "iteration")) == 50
    result = json.loads(runs.cli("resume", stopped["trajectory_id"], "--json").stdout)
    assert (result["stopped_by"], result["resume_with"], result["raise_with"]) == ("max_iterations", None, None)
    dear = [turn(text=f"step {n}", tokens=(2_000_000, 9), model="claude-sonnet-4-5") for n in range(3)]
    for limit, with_ in (("8", "--cost-limit 10.00"), ("10", None)):
        result = runs.json("agent", "Do it", *dear, options=["--cost-limit", limit, "--budget", 10**8], code=1)
        assert (result["stopped_by"], result["resume_with"]) == ("cost_limit", with_), result


@pytest.mark.parametrize("where", ["model", "retry"])
def test_the_wall_clock_of_the_whole_run(runs: Runs, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the model is asked, and between tries; cells: test_run.py."""
    slow = turn(text="late", delay_ms=600_000)
    monkeypatch.setitem(runs.box.env, "SNIPARA_SANDBOX_MODEL_RETRIES", "10")  # beyond its time
    if where == "retry":
        slow = {"error": {"failure": "server", "message": "busy", "http_status": 500}, "repeat": True}
    result = runs.run(*talk(1)[:1], slow, options=["--timeout", int(PATIENCE / 20)], code=1)
    assert (result["response"], result["total_calls"]) == ("step 0", 2)
    assert result["stopped_by"] == "timeout" and result["raise_with"] == "--timeout", result
    assert "Execution timeout exceeded" in result["error"]


def test_the_wall_clock_of_a_cell(runs: Runs) -> None:
    """It ends the cell; the model is told and goes on."""
    result = runs.run(turn(call("execute_code", code="x = 1")),
                      turn(call("execute_code", code="import time\nprint('begun')\ntime.sleep(600)")),
                      turn(call("execute_code", code="print(x)")), turn(text="answer"),
                      options=["--cell-timeout", "2"])
    first, slow, after = runs.results(result)
    assert first["success"] and not slow["success"] and slow["output"] == "begun\n"
    assert slow["error"].startswith("Execution timed out after 2 seconds\n") and slow["limit"] == "timeout is 2 s"
    assert result["success"] and head(runs, result)["cell_ms"] == 2000
    for seconds in ("601", "0.01"):
        refused = runs.cli("run", "Do it", *runs.options(runs.script(turn(text="x"))), "--cell-timeout", seconds)
        assert refused.returncode == 2 and "--cell-timeout" in refused.stderr


def test_defaults_and_caps(runs: Runs) -> None:
    """CONTRACT 10; a number above its most is the most, and that is said, below its least it is refused."""
    budget = head(runs, runs.run(turn(text="x")))["budget"]
    assert budget == {"max_depth": 30, "max_subcalls": 60, "token_budget": 400000, "tool_budget": 100,
                      "max_iterations": 0,
                      "timeout_ms": 900000,
                      "cost_limit": 2.0} | {name: budget[name] for name in budget if "sub_" in name}
    final = turn(call("FINAL", answer="x"))
    done = head(runs, runs.json("agent", "Do it", final, code=0))
    assert done["cell_ms"] == 30000
    rest = {name: value for name, value in done["budget"].items() if "sub" not in name}
    assert rest == {"max_depth": 3, "token_budget": 400000, "tool_budget": 50, "max_iterations": 10,
                    "timeout_ms": 900000,
                    "cost_limit": 2.0}
    over = ["--max-iterations", 51, "--max-depth", 6, "--cost-limit", "10.5"]
    said = runs.cli("agent", "Do it", *runs.options(runs.script(final)), *over)
    assert said.returncode == 0 and said.stderr.count("; using that") == 3
    capped = head(runs, runs.json("agent", "Do it", final, options=over, code=0))["budget"]
    assert (capped["max_iterations"], capped["max_depth"], capped["cost_limit"]) == (50, 5, 10)
    for option in ("--max-iterations", "--max-depth", "--budget"):
        for value in ("0", "-1"):
            refused = runs.cli("agent", "Do it", *runs.options(runs.script(final)), option, value)
            assert refused.returncode == 2 and option in refused.stderr, (option, value)


GIVEN = {"max_depth": 2, "token_budget": 7000, "tool_budget": 4, "cost_limit": 0.25, "timeout_seconds": 77}


def budget_of(runs: Runs, verb: str, *options: str, env: dict[str, str] | None = None) -> Json:
    end = turn(text="x") if verb == "run" else turn(call("FINAL", answer="x"))
    done = runs.cli(verb, "Do it", *runs.options(runs.script(end)), "--json", *options, env=env)
    budget: Json = head(runs, json.loads(done.stdout))["budget"]
    return {**budget, "timeout_seconds": budget["timeout_ms"] / 1000}


@pytest.mark.parametrize("verb, names", [
    ("run", {"timeout_seconds": "timeout"}), ("agent", {"timeout_seconds": "timeout", "token_budget": "budget"})])
def test_each_key_in_each_front_end(runs: Runs, verb: str, names: dict[str, str]) -> None:
    """By options, variables and files. Programs: test_library.py, tests/python/runs.py; MCP: test_mcp_agents.py."""
    def holds(budget: Json) -> bool:
        return {name: budget[name] for name in GIVEN} == GIVEN
    assert not holds(budget_of(runs, verb))
    assert holds(budget_of(runs, verb, *[f"--{names.get(name, name).replace('_', '-')}={value}"
                                         for name, value in GIVEN.items()]))
    assert holds(budget_of(runs, verb, env={f"SNIPARA_SANDBOX_{name.upper()}": str(value)
                                            for name, value in GIVEN.items()}))
    write_keys(runs, GIVEN)
    assert holds(budget_of(runs, verb))


def write_keys(runs: Runs, keys: dict[str, float]) -> None:
    runs.box.make_file("project/snipara-sandbox.toml",
                       "[snipara_sandbox]\n" + "".join(f"{name} = {value}\n" for name, value in keys.items()))


def test_an_untrusted_file_raises_no_limit_of_an_agent(runs: Runs) -> None:
    """Defaults of runs are higher. A trusted file can raise a limit to the agent's maximum."""
    write_keys(runs, {"max_depth": 30, "tool_budget": 90})
    budget = budget_of(runs, "agent")
    assert (budget["max_depth"], budget["tool_budget"]) == (3, 50)
    runs.cli("trust")
    budget = budget_of(runs, "agent")
    assert (budget["max_depth"], budget["tool_budget"]) == (5, 90)


def test_the_defaults_are_enough_for_a_repair_of_fifteen_turns(runs: Runs) -> None:
    """With the tokens that a provider counts: what the first turns said is sent again with each; and its price."""
    repair = [turn(call("execute_code",
                        code=f"try_{n} = {n}\nassert try_{n} == 14, {n}" if n % 2 else f"try_{n} = {n}"),
                   text=f"attempt {n}", tokens=(1900 + 1500 * n, 500), model="claude-sonnet-4-5") for n in range(15)]
    for verb, end in (("run", turn(text="Mended.")), ("agent", turn(call("FINAL", answer="Mended.")))):
        result = runs.json(verb, "Mend it", *repair, end, code=0)
        assert result["response" if verb == "run" else "answer"] == "Mended." and result["total_tokens"] > 190000
    # what an old file says holds as before
    runs.box.make_file("project/rlm.toml",
                       "[rlm]\nmax_depth = 4\ntoken_budget = 8000\ntool_budget = 20\ncost_limit = 0.5\n")
    stopped = runs.run(*repair, code=1)
    budget = head(runs, stopped)["budget"]
    assert stopped["stopped_by"] == "token_budget" and stopped["total_calls"] == 2
    assert [budget[name] for name in ("max_depth", "token_budget", "tool_budget", "cost_limit")] == [4, 8000, 20, 0.5]


def test_without_a_price_the_limit_of_cost_that_nobody_set_is_none(runs: Runs) -> None:
    """And that is said; one that was set is refused."""
    key = {"OPENAI_API_KEY": "sk-none", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
           "SNIPARA_SANDBOX_MODEL_RETRIES": "0"}
    asked = ["run", "Do it", "--model", "openai/nobody-knows-it"]
    done = runs.cli(*asked, env=key)
    assert done.returncode == 1
    assert "price of nobody-knows-it is not known, so only --token-budget (400000 tokens)" in done.stderr
    # the control is a model that has one
    priced = json.loads(runs.cli(*asked[:3], "openai/gpt-4o-mini", "--json", env=key).stdout)
    assert head(runs, priced)["budget"]["cost_limit"] == 2.0
    rows: list[tuple[str, dict[str, str]]] = [("--cost-limit 1", {}), ("", {"SNIPARA_SANDBOX_COST_LIMIT": "1"})]
    for options, more in rows:
        done = runs.cli(*asked, *options.split(), env={**key, **more})
        assert done.returncode == 2 and "--cost-limit none" in done.stderr


def test_the_short_option_of_tokens_is_of_run_alone(runs: Runs) -> None:
    assert head(runs, runs.run(turn(text="x"), options=["-t", 5000]))["budget"]["token_budget"] == 5000
    for verb in (["resume", "3f2a"], ["mcp", "info"], ["agent", "Do it"]):
        done = runs.cli(*verb, "-t", "5000")
        assert done.returncode == 2 and "-t" in done.stderr, done.stderr


@pytest.mark.parametrize("side", ["input", "output"])
def test_usage_that_no_model_can_have_is_not_believed(runs: Runs, side: str) -> None:
    """Sums of it would overflow, and no budget would hold: it is estimated, and the budget stops the run."""
    usage = {"input": 10, "output": 10, side: 2**63 - 1}
    turns = [{"content": "x" * 4000, "tool_calls": [call("list_files", path=".", max_results=n)], "usage": usage}
             for n in range(1, 9)]
    result = runs.run(*turns, options=["--max-depth", 9, "--token-budget", 3000], code=1)
    assert result["stopped_by"] == "token_budget" and result["tokens_estimated"]
    assert 0 < result["total_tokens"] < 20000
    assert result["total_tokens"] == result["total_input_tokens"] + result["total_output_tokens"]


# Circles ----------------------------------------------------------------------------------------


def test_circles_end_with_what_was_tried(runs: Runs) -> None:
    """The same edit; the same error of different code; not what only looks alike."""
    runs.box.make_file("project/a.txt", "one\n")
    patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-two\n+three\n"
    edit = turn(call("apply_patch", patch=patch), text="again")
    result = runs.run(*[edit] * 5, options=["--max-depth", 9], code=1)
    assert (result["stopped_by"], result["total_calls"]) == ("repeated_failure", 3)
    assert "3 times in a row" in result["error"] and "apply_patch" in result["error"]
    assert "Nothing was changed" in result["error"]

    code = "import os, time\ntime.sleep(os.urandom(1)[0] / 5000)\nprint(1)"  # it takes another time each time
    result = runs.run(turn(call("execute_code", code=code), repeat=True), options=["--max-depth", 9], code=1)
    assert (result["stopped_by"], result["total_calls"]) == ("repeated_failure", 3)
    assert "The same call with the same result came 3 times in a row" in result["error"]

    errors = [turn(call("execute_code", code="\n" * n + f"int('x{n}')"), text=f"try {n}") for n in range(1, 6)]
    result = runs.run(*errors, options=["--max-depth", 9], code=1)
    assert (result["stopped_by"], result["total_calls"], result["response"]) == ("repeated_failure", 3, "try 3")
    assert "ValueError" in result["error"] and "execute_code" in result["error"]

    fine = [turn(call("execute_code", code="raise ValueError(1)")),
            turn(call("execute_code", code="raise KeyError(1)"))] * 2
    result = runs.run(*fine, turn(call("execute_code", code="print(1)")), *fine, turn(text="answer"),
                      options=["--max-depth", 12, "--token-budget", 100000])
    assert result["success"]


# Out of the sandbox -----------------------------------------------------------------------------


def test_an_agent_that_repeats_its_answer_is_stopped(runs: Runs) -> None:
    """Resume continues the agent. A call between equal answers ends the repetition."""
    result = runs.agent(turn(text="Done.", repeat=True), code=1)
    assert (result["stopped_by"], result["iterations"], result["answer"]) == ("repeated_failure", 3, "Done.")
    assert "The same answer came 3 times in a row" in result["error"]
    more = json.loads(runs.cli("resume", result["trajectory_id"], "--json").stdout)
    assert (more["stopped_by"], more["iterations"]) == ("repeated_failure", 6)
    said = turn(text="Done.")
    other = turn({**UNKNOWN, "arguments": {"n": 2}})
    result = runs.agent(said, said, other, said, said, turn(call("FINAL", answer="x")))
    assert result["answer"] == "x"


def test_a_report_comes_out(runs: Runs) -> None:
    """`agent --output`: "analyze all CSV files and generate a report"."""
    runs.box.make_file("project/a.csv", "city,n\nRome,3\nParis,4\n")
    runs.box.make_file("project/data/b.csv", "city,n\nRome,5\n")
    read = ("import csv, glob, collections\nsums = collections.Counter()\n"
            "for path in glob.glob('**/*.csv', recursive=True):\n"
            "    for row in csv.DictReader(open(path)):\n        sums[row['city']] += int(row['n'])\nprint(dict(sums))")
    write = ("import os\nos.makedirs('report', exist_ok=True)\nopen('report/index.md', 'w').write('# Report\\n' + "
             "''.join(f'* {c}: {n}\\n' for c, n in sorted(sums.items())))")
    result = runs.agent(turn(call("list_files", pattern="*.csv", recursive=True), call("execute_code", code=read)),
                        turn(call("execute_code", code=write)),
                        turn(call("FINAL", answer="The report is in report/index.md")),
                        options=["--output", "out"])
    with open(os.path.join(runs.folder, "out/report/index.md")) as report:
        assert report.read() == "# Report\n* Paris: 4\n* Rome: 8\n"
    assert result["success"] and result["output"] == "out" and result["session"] is None
    assert sorted(os.listdir(runs.folder)) == ["a.csv", "data", "logs", "out"]


def test_what_comes_out_is_files_and_stays_below(runs: Runs) -> None:
    """Attack: names and kinds of files that would write elsewhere, run, or wait. Control: the session has them."""
    outside = runs.box.make_file("outside", "mine")
    code = f"""import os, socket
open('report.md', 'w').write('ok')
open('--rf', 'w').write('flag')
open('new\\nline', 'w').write('x')
open(b'bad\\xff', 'wb').write(b'x')
os.mkfifo('fifo')
os.symlink('{outside}', 'link')
os.symlink('/etc', 'dir')
os.symlink('../../..', 'up')
os.makedirs('a/..b')
open('a/..b/c', 'w').write('c')
os.chmod('a/..b/c', 0o6777)
s = socket.socket(socket.AF_UNIX)
s.bind('sock')
print(sorted(os.listdir(b'.')))"""
    result = runs.agent(turn(call("execute_code", code=code)), turn(call("FINAL", answer="made")),
                        options=["--output", "out"])
    assert "fifo" in runs.results(result)[0]["output"] and result["success"]
    found = {}
    for folder, folders, names in os.walk(os.path.join(runs.folder, "out")):
        for name in names + folders:
            path = os.path.join(folder, name)
            assert not os.path.islink(path) and (os.path.isfile(path) or os.path.isdir(path)), path
            assert os.stat(path).st_mode & 0o7000 == 0
            if os.path.isfile(path):
                with open(path) as file:
                    found[os.path.relpath(path, os.path.join(runs.folder, "out"))] = file.read()
    assert found == {"report.md": "ok", "--rf": "flag", "new\nline": "x", "a/..b/c": "c"}
    with open(outside) as file:
        assert file.read() == "mine"
    assert result["session"] is not None  # what was left out can still be had
    runs.cli("sessions", "destroy", result["session"])


def test_output_is_a_new_folder(runs: Runs) -> None:
    os.symlink("/etc", os.path.join(runs.folder, "link"))
    script = runs.script(turn(call("execute_code", code="open('x', 'w').close()"), call("FINAL", answer="made")))
    for where in ("link", "link/new", "none/new", "/dev/null/x"):
        done = runs.cli("agent", "Do it", *runs.options(script), "--cost-limit", "none", "--output", where)
        assert done.returncode != 0 and "--output" in done.stderr, (where, done.stderr)
    assert not os.path.exists("/etc/new") and not os.path.exists("/etc/x")
