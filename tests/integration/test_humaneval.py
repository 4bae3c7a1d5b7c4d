# SPDX-License-Identifier: Apache-2.0
"""The 164 problems of HumanEval: each solution passes its tests inside, each mutant fails, in every tier.

The data is not ours and not in the repository: SNP_TEST_DATA names the folder that holds
HumanEval.jsonl.gz. Without it the test is skipped, or fails if SNP_TEST_MUST has "data".
"""

import ast
import concurrent.futures
import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import engine as engines
import lib

DATA = os.path.join(os.environ.get("SNP_TEST_DATA", ""), "HumanEval.jsonl.gz")
AT_ONCE = 2


@pytest.fixture(scope="module")
def problems() -> list[Any]:
    lib.need("data", os.path.isfile(DATA), "SNP_TEST_DATA names no folder with HumanEval.jsonl.gz")
    with gzip.open(DATA, "rt") as lines:
        return [json.loads(line) for line in lines]


def program(problem: lib.Json, solution: str) -> str:
    return f"{solution}\n{problem['test']}\ncheck({problem['entry_point']})\nprint('passed')\n"


def mutant(problem: lib.Json) -> str:
    """The solution with `return None` for the body of the function that is asked for."""
    tree = ast.parse(problem["prompt"] + problem["canonical_solution"])
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == problem["entry_point"]:
            node.body = [ast.Return(ast.Constant(None))]
    return ast.unparse(ast.fix_missing_locations(tree))


def run_all(box: lib.Sandbox, programs: dict[Any, str]) -> tuple[lib.Json, float]:
    """Each in a session of its own; {task: result} and the seconds it took."""
    box.exec("'warm'")
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        results = dict(zip(programs, pool.map(box.exec, programs.values())))
    return results, time.monotonic() - start


def passed(done: lib.Json) -> bool:
    return (done["status"], done["stdout"], done["state"]) == ("ok", "passed\n", "kept")


def report(capsys: pytest.CaptureFixture[str], what: str, results: lib.Json, seconds: float) -> None:
    with capsys.disabled():
        print(f"\nHumanEval {what}: {len(results)} sessions in {seconds:.1f} s, {len(results) / seconds:.0f}/s")


def test_every_solution_passes(problems: list[Any], sandbox: lib.Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    programs = {p["task_id"]: program(p, p["prompt"] + p["canonical_solution"]) for p in problems}
    assert len(programs) == 164
    results, seconds = run_all(sandbox, programs)
    failed = {task: done["error"] for task, done in results.items() if not passed(done)}
    assert not failed
    assert len({done["session"] for done in results.values()}) == 164
    report(capsys, f"solutions as {sandbox.who}", results, seconds)


def test_every_mutant_fails(problems: list[Any], sandbox: lib.Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    results, seconds = run_all(sandbox, {p["task_id"]: program(p, mutant(p)) for p in problems})
    assert len(results) == 164
    survived = [task for task, done in results.items() if done["status"] != "error" or "passed" in done["stdout"]]
    assert not survived
    assert all(done["error"]["type"] != "SyntaxError" for done in results.values())
    report(capsys, f"mutants as {sandbox.who}", results, seconds)


@pytest.fixture(params=["local", "docker", *engines.OTHERS])
def other(request: pytest.FixtureRequest, fresh_sandbox: Callable[..., lib.Sandbox]) -> Iterator[lib.Sandbox]:
    box = engines.other_sandbox(request, request.param) if request.param in engines.OTHERS else fresh_sandbox(
        tier=request.param)
    yield box
    box.close()


def test_solutions_pass_and_mutants_fail_in_one_session(
        problems: list[Any], other: lib.Sandbox, request: pytest.FixtureRequest) -> None:
    """In the other tiers, as cells of one session: what is judged is the cells, not how many sessions there can be. A
    part of the problems: all 164 run natively."""
    box, tier = other, other.tier
    name = request.node.callspec.params["other"]
    for problem in problems[::16 if name in engines.OTHERS else 4]:
        done = box.exec(program(problem, problem["prompt"] + problem["canonical_solution"]), session="humaneval")
        assert passed(done) and done["manifest"]["tier"] == tier, (problem["task_id"], done["error"])
        done = box.exec(program(problem, mutant(problem)), session="humaneval")
        assert done["status"] == "error" and "passed" not in done["stdout"], problem["task_id"]
        assert done["error"]["type"] != "SyntaxError"


def run_with_kills(box: lib.Sandbox, numbered: Any) -> lib.Json:
    """Solution and tests in two cells of a session; in every tenth one a cell between them is killed."""
    number, problem = numbered
    name = f"humaneval-{number}"
    solution = box.exec(problem["prompt"] + problem["canonical_solution"], session=name)
    assert solution["status"] == "ok", solution["error"]
    if number % 10 == 0:
        spoilt = f"{problem['entry_point']} = None\n{problem['test']}\nimport os\nos.kill(os.getpid(), 9)\n"
        killed = box.exec(spoilt, session=name)
        assert (killed["status"], killed["state"]) == ("killed", "rolled_back"), killed
    done = box.exec(program(problem, ""), session=name)
    box.destroy(name)
    return done


def test_a_third_passes_though_every_tenth_interpreter_is_killed(problems: list[Any], sandbox: lib.Sandbox,
                                                                 capsys: pytest.CaptureFixture[str]) -> None:
    sandbox.exec("'warm'")
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        done = list(pool.map(lambda numbered: run_with_kills(sandbox, numbered), enumerate(problems[::3])))
    results = {problem["task_id"]: one for problem, one in zip(problems[::3], done)}
    assert len(results) == 55
    assert not {task: one["error"] for task, one in results.items() if not passed(one)}
    report(capsys, f"solutions with kills as {sandbox.who}", results, time.monotonic() - start)
