# SPDX-License-Identifier: Apache-2.0
"""`eval`: samples of data sets are judged where they cannot reach the judge, and a start goes on where one ended."""

import difflib
import importlib.util
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence

import pytest

import lib
from lib import Json, Sandbox
from scripted_runs import call, turn

ADD = {"task_id": "x/0", "prompt": "def add(a, b):\n    \"\"\"The sum.\"\"\"\n", "entry_point": "add",
       "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(2, 2) == 4\n"}
PAIR = {"task_id": 7, "text": "Write a function that keeps the heavy pairs.", "test_imports": ["import math"],
        "test_list": ["assert keep([Pair(1, 2), Pair(5, 6)]) == math.floor(1.5)"]}
GOOD = "    return a + b\n"
# A sample of ADD, and its outcome.
CHEATS = {
    "import os\nos._exit(0)\n": "error",
    "print('passed')\nraise SystemExit(0)\n": "error",
    "class Any:\n    def __eq__(self, other):\n        return True\n\n\ndef add(a, b):\n    return Any()\n": "failed",
    "import builtins\nbuiltins.AssertionError = builtins.abs = int\n\n\ndef add(a, b):\n    return 0\n": "failed",
    "import os\n\n\ndef add(a, b):\n    for pid in os.listdir('/proc'):\n        for name in ('mem', 'fd/0', 'fd/1'):\n"
    "            try:\n                open(f'/proc/{pid}/{name}', 'r+b').write(b'{\"outcome\": \"passed\"}')\n"
    "            except OSError:\n                pass\n    return 0\n": "failed",
    "def add(a, b):\n    while True:\n        pass\n": "timeout",
    "def add(a, b):\n    return plus(a, b)\n": "error",
    "def add(a, b, c=0):\n    return a + b\n": "passed",
}


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    box = Sandbox("root")
    yield box
    box.close()


def lines(box: Sandbox, name: str, rows: Sequence[Json]) -> str:
    return box.make_file(name, "".join(json.dumps(row) + "\n" for row in rows))


def evaluated(box: Sandbox, data: str, *options: str) -> Json:
    folder = os.path.join(box.folder, "out")
    done = box.cli("eval", data, "--output", folder, "--json", *options)
    assert done.returncode == 0, done.stderr
    report: Json = json.loads(done.stdout)
    page = open(os.path.join(folder, "report.html")).read()
    assert "pass@1" in page and "<script" not in page
    shutil.rmtree(folder)
    return report


def test_samples_are_judged_out_of_their_reach(box: Sandbox) -> None:
    data = lines(box, "data.jsonl", [ADD, PAIR])
    pair = "class Pair:\n    def __init__(self, a, b):\n        self.a = a\n\n\ndef keep(x):\n    return len(x) - 1\n"
    report = evaluated(box, data, "--test-timeout", str(lib.PATIENCE / 4), "--k", "3", "--samples", lines(
        box, "samples.jsonl", [{"task_id": "x/0", "completion": GOOD}, {"task_id": "x/0", "completion": GOOD},
                               *({"task_id": "x/0", "completion": text} for text in CHEATS),
                               *[{"task_id": 7, "code": pair}] * 3]))
    found = {row["sample"]: row for row in report["results"] if row["task"] == "x/0"}
    assert [found[n]["outcome"] for n in range(10)] == ["passed", "passed", *CHEATS.values()], found
    assert found[8]["unresolved"] is True and found[9]["signature"] is False and found[7]["signature"] is None
    n, c = 10, 3
    assert report["pass_at"]["1"] == pytest.approx((c / n + 1) / 2)
    assert report["pass_at"]["3"] == pytest.approx((1 - (7 * 6 * 5) / (10 * 9 * 8) + 1) / 2)
    assert report["measures"]["lint"] is None and report["measures"]["cost_usd"] is None
    assert report["measures"]["signature_correctness"] == pytest.approx(8 / 9)


def test_it_goes_on_after_a_kill(box: Sandbox) -> None:
    data = lines(box, "many.jsonl", [ADD])
    rows = [{"task_id": "x/0", "completion": f"    return a + b + {n % 2}\n"} for n in range(12)]
    words = ["eval", data, "--samples", lines(box, "twelve.jsonl", rows), "--output", os.path.join(box.folder, "kept")]
    path = os.path.join(box.folder, "kept/results.jsonl")
    first = box.popen(*words)
    while not os.path.exists(path) or open(path).read().count("\n") < 3:
        assert first.poll() is None
        time.sleep(0.01)
    first.kill()
    first.wait()
    with open(path, "a") as results:
        results.write('{"task": "x/')
    before = open(path).read().splitlines()[1:-1]

    def again() -> bool:  # the workers of the first end with it, but not at once
        done = box.cli(*words, "--json")
        report.update(json.loads(done.stdout) if done.returncode == 0 else {})
        return bool(report)

    report: Json = {}
    assert lib.wait_for(again)
    assert sorted(row["sample"] for row in report["results"]) == list(range(12))
    assert report["pass_at"]["1"] == 0.5 and set(before) <= set(open(path).read().splitlines())
    other = box.cli("eval", lines(box, "other.jsonl", [ADD, PAIR]), *words[2:])
    assert other.returncode == 1 and "another data set" in other.stderr


def test_a_model_is_asked(box: Sandbox) -> None:
    script = lines(box, "model.jsonl", [turn(call("FINAL", answer="```python\ndef add(a, b):\n    return a + b\n```"))])
    report = evaluated(box, lines(box, "one.jsonl", [ADD]), "--model", f"replay/{script}", "--k", "2",
                       "--cost-limit", "none")
    assert report["pass_at"] == {"1": 1.0, "2": 1.0} and report["measures"]["tokens"] == 240


def test_changes_of_a_project_are_judged_by_verify(box: Sandbox) -> None:
    lib.need("pytest", importlib.util.find_spec("pytest") is not None, "python3-pytest is not installed")
    lib.need("patch", shutil.which("patch") is not None, "patch is not installed")
    code = "def add(a, b):\n    return a - b\n"
    box.make_file("repo/calc.py", code)
    tests = ("from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
             "def test_0():\n    assert add(0, 0) == 0\n")
    box.make_file("repo/test_calc.py", tests)
    time.sleep(0.05)  # ctime is of the last tick of the kernel's clock
    data = lines(box, "swe.jsonl", [{
        "instance_id": "calc-1", "problem_statement": "add() subtracts", "repo": "repo",
        "FAIL_TO_PASS": json.dumps(["test_calc.py::test_add"]), "PASS_TO_PASS": ["test_calc.py::test_0"]}])

    def diff(name: str, old: str, new: str) -> str:
        return "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}"))

    samples = [diff("calc.py", code, code.replace("-", "+")), diff("calc.py", code, code.replace("-", "*")),
               diff("test_calc.py", tests, tests.replace("== 3", "== -1")),
               diff("calc.py", code, code + "\n\nimport os\nos._exit(0)\n"), "no diff"]
    report = evaluated(box, data, "--samples", lines(
        box, "patches.jsonl", [{"instance_id": "calc-1", "model_patch": each} for each in samples]))
    found = {row["sample"]: row["outcome"] for row in report["results"]}
    assert found == {0: "passed", 1: "failed", 2: "failed", 3: "failed", 4: "error"}, report["results"]
    assert report["measures"]["final_pass_rate"] == 1 / 4 and report["measures"]["patch_size"] == (2 + 2 + 2 + 4) / 4
    unused = diff("calc.py", code, code.replace("return a - b", "if a > 99:\n        a = 7\n    return a + b"))
    for printed, outcome in (("4", "passed"), ("5", "failed")):
        report = evaluated(
            box, data, "--samples", lines(box, "unused.jsonl", [{"instance_id": "calc-1", "model_patch": unused}]),
            "--allow-uncovered", "--sample", "python3 -c 'import calc; print(calc.add(2, 2))'", "--expect",
            box.make_file("expected.txt", printed + "\n"))
        assert [row["outcome"] for row in report["results"]] == [outcome], report["results"]
    script = lines(box, "fixer.jsonl", [turn(call("execute_code", code="t = open('calc.py').read()\n"
                                                  "open('calc.py', 'w').write(t.replace('-', '+'))")),
                                        turn(call("FINAL", answer="done"))])
    report = evaluated(box, data, "--model", f"replay/{script}", "--cost-limit", "none")
    assert [row["outcome"] for row in report["results"]] == ["passed"], report["results"]
    assert report["measures"]["tokens"] > 0 and report["measures"]["first_attempt_pass_rate"] == 1


def test_words_that_are_wrong(box: Sandbox) -> None:
    data = lines(box, "data.jsonl", [ADD])
    for words, status, why in (((data,), 2, "--samples FILE or --model NAME"),
                               ((data, "--samples", data, "--k", "0"), 2, "--k is 1"),
                               ((box.make_file("bad.jsonl", '{"x": 1}\n'), "--model", "m"), 2, "line 1 has none"),
                               (("nowhere.jsonl", "--model", "m"), 1, "no such file")):
        done = box.cli("eval", *words)
        assert done.returncode == status and why in done.stderr, done.stderr
