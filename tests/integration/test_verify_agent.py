# SPDX-License-Identifier: Apache-2.0
"""`agent --test`: it continues until tests prove its change, and of several candidates the first proven one is kept."""

import ast
import base64
import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lib
from lib import Json, Sandbox
from repairs import CALC, COMMAND, READY, TEST, calc_box, more
from scripted_runs import Runs, call, turn


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    box = calc_box()
    yield box
    box.close()


def edit(old: str, new: str, path: str = "calc.py") -> Json:
    return call("execute_code", code=f"t = open({path!r}).read()\n"
                                     f"open({path!r}, 'w').write(t.replace({old!r}, {new!r}))")


def final(text: str = "done") -> Json:
    return call("FINAL", answer=text)


def agent(box: Sandbox, *turns: Json, options: Sequence[str] = (), status: int = 0) -> Json:
    runs = Runs(box)
    done = runs.cli("agent", "Fix add()", *runs.options(runs.script(*turns)), "--cost-limit", "none", *TEST, "--json",
                    *options)
    assert done.returncode == status, done.stdout + done.stderr
    found: Json = json.loads(done.stdout)
    record, = os.listdir(os.path.join(runs.folder, "logs"))
    with open(os.path.join(runs.folder, "logs", record)) as lines:
        found["records"] = [json.loads(line) for line in lines]
    shutil.rmtree(os.path.join(runs.folder, "logs"))
    return found


@pytest.mark.slow
def test_an_agent_is_told_until_its_change_is_proven(box: Sandbox) -> None:
    found = agent(box, turn(edit("a - b", "a * b"), final(), call("execute_code", code="1"), text="HYPOTHESIS: times"),
                  turn(call("execute_code", code="print(open('calc.py').read())"), text="HYPOTHESIS: plus"),
                  turn(call("execute_code", code=f"import os\nos.system('{COMMAND}')"), edit("a - b", "a + b"),
                       final("it adds"), text="**INVARIANT: 1 + 2 is 3**"),
                  options=["--hidden-test", "python3 -m pytest hidden", "--hidden-files",
                           os.path.join(box.folder, "hidden"), "--expect", box.make_file("four.txt", "4\n"), "--sample",
                           "python3 -c 'from calc import add; print(add(2, 2))'"])
    assert found["verdict"]["samples"][0]["is_as_expected"]
    assert found["success"] and found["answer"] == "it adds" and found["verdict"]["verdict"] == READY
    wrong, right = [each for each in found["records"] if each.get("step") == "verdict"]
    assert wrong["verdict"] == "failed" and wrong["hypothesis"] == "HYPOTHESIS: times" and right["feedback"] is None
    assert "assert 2 == 3" in wrong["feedback"] and "1 hidden test failed" in wrong["feedback"]
    told = json.dumps([each for each in found["records"] if each.get("step") in ("iteration", "message", "ask")])
    assert "secret" not in wrong["feedback"] + told and "20, 22" not in wrong["feedback"]
    with open(os.path.join(right["folder"], "evidence.json"), "rb") as evidence:
        assert hashlib.sha256(evidence.read()).hexdigest() == right["evidence_sha256"]
    for each, explained, run in ((wrong, False, False), (right, True, True)):
        assert (each["explained_before_edit"], each["reproduced_before_edit"]) == (explained, run), each
    for each, retries in ((wrong, 0), (right, 1)):
        told_of = each["measures"]
        assert (told_of["retries"], told_of["first_attempt_pass_rate"]) == (retries, False) and each["run"] == (
            found["trajectory_id"]), told_of
        assert told_of["final_pass_rate"] == told_of["reproduction_before_edit"] == (retries == 1)
    assert right["hypothesis"] == "HYPOTHESIS: plus"
    assert right["invariant"] == "INVARIANT: 1 + 2 is 3**" and right["attempt"] == 2 and wrong["invariant"] is None
    begun, = [each for each in found["records"] if each.get("step") == "attempt"]
    seen = [each["content"] for each in found["records"] if each.get("step") == "tool_result" and
            each["seq"] > begun["seq"]]
    assert "a - b" in seen[0]  # what the first attempt did is gone
    before = open(os.path.join(box.folder, "project/calc.py")).read()
    applied = box.cli("apply", found["trajectory_id"][:8], "--yes", "--json")
    assert before == CALC and applied.returncode == 0 and json.loads(applied.stdout)["unverified"] is False
    box.make_file("project/calc.py", CALC)
    time.sleep(0.05)


@pytest.mark.slow
def test_an_agent_that_never_gets_it_right_is_stopped(box: Sandbox) -> None:
    found = agent(box, turn(edit("a - b", "a * b"), final()), turn(edit("a - b", "a * b"), final()),
                  turn(final()), turn(final()), status=1)
    assert not found["success"] and found["stopped_by"] == "repeated_failure"
    assert sum(each.get("step") == "verdict" for each in found["records"]) == 3
    nothing = agent(box, turn(final("looks fine")), turn(final()), turn(final()), status=1)
    assert nothing["verdict"]["reasons"][0]["text"] == "nothing was changed"


@pytest.mark.slow
def test_a_run_that_was_cut_off_is_resumed_and_judged(box: Sandbox) -> None:
    """By an interrupt while the tests run, which does not wait for them, and by a limit."""
    runs = Runs(box)
    box.make_file("project/tests/test_slow.py", "import time\nfrom pathlib import Path\nfrom calc import add\n\n\n"
                  "def test_slow():\n    assert add(1, 2) == 3\n    Path('began').touch()\n    time.sleep(5000)\n")
    asked = box.popen("agent", "Fix add()", *runs.options(runs.script(turn(edit("a - b", "a + b"), final()))),
                      "--cost-limit", "none", "--test", "python3 -m pytest -q tests/test_slow.py", "-v",
                      "--test-timeout", "600", cwd=runs.folder,
                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert asked.stderr is not None
    for _ in range(2):  # before the model is asked, and with its change
        while "Running python3 -m pytest" not in (line := asked.stderr.readline()):
            assert line
    asked.send_signal(signal.SIGINT)
    shown = asked.communicate(timeout=4 * lib.PATIENCE)
    assert asked.returncode == 130 and "cancelled" in "".join(shown), shown
    logs = os.path.join(runs.folder, "logs")
    run = os.listdir(logs)[0][:8]
    box.make_file("project/tests/test_slow.py", "from calc import add\n\n\n"
                  "def test_slow():\n    assert add(1, 2) == 3\n")
    done = runs.cli("resume", run, "--json")
    os.remove(os.path.join(runs.folder, "tests/test_slow.py"))
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["verdict"]["verdict"] == READY, done.stdout + done.stderr
    box.destroy(found["session"])
    shutil.rmtree(logs)
    done = runs.cli("agent", "Fix add()", *runs.options(runs.script(
        turn(edit("a - b", "a * b"), final()), turn(edit("a - b", "a + b"), final()))), "--cost-limit", "none", *TEST,
        "--max-iterations", "1", "--max-depth", "1", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["verdict"]["verdict"] == "failed"
    done = runs.cli("resume", os.listdir(logs)[0][:8], "--max-iterations", "3", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["verdict"]["verdict"] == READY, done.stdout + done.stderr
    box.destroy(found["session"])
    shutil.rmtree(logs)


def verdicts_of(logs: str) -> list[Json]:
    record, = os.listdir(logs)
    with open(os.path.join(logs, record)) as lines:
        return [each for each in map(json.loads, lines) if each.get("step") == "verdict"]


@pytest.mark.slow
def test_the_hypothesis_of_every_attempt_is_kept(box: Sandbox) -> None:
    """Also if it stands in an answer before the first call of the attempt, and after `resume`."""
    runs = Runs(box)
    logs = os.path.join(runs.folder, "logs")
    done = runs.cli("agent", "Fix add()", *runs.options(runs.script(
        turn(text="HYPOTHESIS: times\nINVARIANT: 2 * 2 is 4"), turn(edit("a - b", "a * b"), final()),
        turn(text="HYPOTHESIS: power\nINVARIANT: 0 ** 0 is 0"), turn(edit("a - b", "a ** b"), final()),
        turn(text="HYPOTHESIS: plus\nINVARIANT: 1 + 2 is 3"), turn(edit("a - b", "a + b"), final()))),
        "--cost-limit", "none", *TEST, "--max-iterations", "5", "--max-depth", "1", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["stopped_by"] == "max_iterations", done.stdout
    assert len(verdicts_of(logs)) == 2
    done = runs.cli("resume", os.listdir(logs)[0][:8], "--max-iterations", "9", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(each["attempt"], each["hypothesis"], each["invariant"], each["explained_before_edit"])
            for each in verdicts_of(logs)] == [
        (1, "HYPOTHESIS: times", "INVARIANT: 2 * 2 is 4", True),
        (2, "HYPOTHESIS: power", "INVARIANT: 0 ** 0 is 0", True),
        (3, "HYPOTHESIS: plus", "INVARIANT: 1 + 2 is 3", True)]
    box.destroy(json.loads(done.stdout)["session"])
    shutil.rmtree(logs)


@pytest.mark.slow
def test_what_only_the_user_can_give_is_not_asked_of_the_model(box: Sandbox) -> None:
    rows = "import csv\n\n\ndef sums(lines):\n    return [int(a) - int(b) for a, b in csv.reader(lines)]\n"
    files = {"rows.py": rows,
             "tests/test_rows.py": "from rows import sums\n\n\ndef test_sums():\n    assert sums(['1,2']) == [3]\n"}
    for path, text in files.items():
        box.make_file("project/" + path, text)
    time.sleep(0.05)
    runs = Runs(box)
    logs = os.path.join(runs.folder, "logs")
    done = runs.cli("agent", "Fix it", *runs.options(runs.script(turn(edit(" - ", " + ", "rows.py"), final()))),
                    "--cost-limit", "none", "--test", "python3 -m pytest -q tests/test_rows.py")
    judged, = verdicts_of(logs)
    assert done.returncode == 1 and judged["feedback"] is None and judged["verdict"] == "not proven", judged
    assert "give --sample CMD --expect FILE" in done.stderr and "The model cannot fix this" in done.stderr, done.stderr
    assert "a change of rows.py, which transforms data, is ready for human review only with --sample" in (
        done.stderr.splitlines()[0]), done.stderr  # before the model is asked
    box.destroy(f"run-{os.listdir(logs)[0][:13]}")
    shutil.rmtree(logs)
    for path in files:
        os.remove(os.path.join(box.folder, "project", path))
    time.sleep(0.05)


@pytest.mark.slow
def test_lines_that_no_test_runs_are_told_once(box: Sandbox) -> None:
    """The model may leave them out; only the user can allow them."""
    fix = turn(edit("return a - b", "if a > 99:\n        a = 7\n    return a + b"), final())
    found = agent(box, fix, fix, fix, status=1)
    assert found["success"] and found["stopped_by"] is None
    first, last = [each for each in found["records"] if each.get("step") == "verdict"]
    assert "calc.py:3 (function add)" in first["feedback"] and last["feedback"] is None, (first, last)
    box.destroy(found["session"])


def test_what_limits_every_verdict_is_reported_before_a_model_is_paid(box: Sandbox) -> None:
    runs = Runs(box)
    done = runs.cli("agent", "Fix it", *runs.options(runs.script(turn(final()))), "--cost-limit", "none", *TEST,
                    "--test", COMMAND + " -k mul")
    assert done.returncode == 2 and f"`{COMMAND} -k mul` fails no test of the unchanged project" in done.stderr, done
    done = runs.cli("agent", "Fix it", *runs.options(runs.script(turn(final()))), "--cost-limit", "none", "--test",
                    COMMAND + " --no-such-option")
    assert done.returncode == 2 and "--no-such-option` reports no test of the unchanged project" in done.stderr, done
    assert not os.path.exists(os.path.join(runs.folder, "logs"))
    done = runs.cli("agent", "Fix it", *runs.options(runs.script(turn(final()))), "--cost-limit", "none", "--test",
                    "make check", "--max-iterations", "1")
    assert "`make check` reports no results test by test" in done.stderr.splitlines()[0], done.stderr
    shutil.rmtree(os.path.join(runs.folder, "logs"))


SHIPPING = """import csv


def calculate_shipping(weight_kg, zone):
    with open("rate_card.csv", encoding="utf-8") as f:
        reader = csv.DictReader(f)
        for row in reader:
            if float(row["weight_kg"]) == weight_kg and row["zone"] == zone:
                return float(row["cost_usd"])
    return 0.0
"""
SHIPPING_TESTS = """from shipping import calculate_shipping


def test_heavy():
    assert calculate_shipping(5.0, "zone_3") == 12.50


def test_light():
    assert calculate_shipping(2.0, "zone_1") == 8.00
"""


@pytest.mark.slow
def test_a_new_function_over_a_table_is_judged(box: Sandbox) -> None:
    """The column name is wrong at first; the traceback says so, and the next attempt has the right one."""
    files = {"rate_card.csv": "weight,zone,cost_usd\n5.0,zone_3,12.50\n2.0,zone_1,8.00\n",
             "tests/test_shipping.py": SHIPPING_TESTS}
    for path, text in files.items():
        box.make_file("project/" + path, text)
    time.sleep(0.05)
    runs = Runs(box)
    turns = [turn(call("execute_code", code=more("shipping.py", text)), final())
             for text in (SHIPPING, SHIPPING.replace('row["weight_kg"]', 'row["weight"]'))]
    sample = "from shipping import calculate_shipping as f; print(f(5.0, 'zone_3'), f(2.0, 'zone_1'))"
    done = runs.cli("agent", "Write calculate_shipping(weight_kg, zone), which reads rate_card.csv",
                    *runs.options(runs.script(*turns)), "--cost-limit", "none", "--json",
                    "--test", "python3 -m pytest -q tests/test_shipping.py", "--allow-uncovered",
                    "--sample", f'python3 -c "{sample}"', "--expect", box.make_file("costs.txt", "12.5 8.0\n"))
    logs = os.path.join(runs.folder, "logs")
    wrong, right = verdicts_of(logs)
    assert wrong["verdict"] == "failed" and "KeyError: 'weight_kg'" in wrong["feedback"], wrong
    texts = [each["text"] for each in right["reasons"]]
    assert right["verdict"] == READY and done.returncode == 0, texts
    assert texts == ["no test command runs shipping.py:10 (function calculate_shipping)"], texts
    box.destroy(json.loads(done.stdout)["session"])
    shutil.rmtree(logs)
    for path in files:
        os.remove(os.path.join(box.folder, "project", path))
    time.sleep(0.05)


def test_without_a_project_no_model_is_asked(box: Sandbox) -> None:
    runs = Runs(box)
    words = ["agent", "Fix it", *runs.options(runs.script(turn(final()))), "--cost-limit", "none", *TEST]
    for options, why in ((["--env", "local"], "needs tier native"), (["--project", "/"], "cannot be the project")):
        done = runs.cli(*words, *options)
        assert done.returncode != 0 and why in done.stderr, done.stderr
    done = runs.cli(*words, "--allow-tools", "--env", "local", "--mcp-config", "x.json")
    reasons = ("cannot be combined with: --allow-tools (", "--mcp-config (", "--env (")
    assert all(reason in done.stderr for reason in reasons), done.stderr
    done = box.cli(*words, cwd="/")
    assert done.returncode != 0 and "--test needs a project" in done.stderr, done.stderr
    assert not os.path.exists(os.path.join(runs.folder, "logs"))


def code_only(text: str) -> str:
    """Without comments, and texts that stand alone."""
    body = [node for node in ast.parse(text).body if not isinstance(node, ast.Expr)]
    return ast.unparse(ast.Module(body, [])) + "\n"


def is_heavy(name: str, *args: Any) -> bool:
    """What the right program too has no memory or time for."""
    return (name == "knapsack" and args[0] > 10 ** 6) or (name == "levenshtein" and len(args[1]) > 40)


@pytest.mark.slow
def test_quixbugs_wrong_then_right_is_ready(box: Sandbox) -> None:
    """Machinery, not a rate of repair: the script knows the answer. SNP_TEST_QUIXBUGS=31 runs all of them."""
    path = os.path.join(os.environ.get("SNP_TEST_DATA", ""), "QuixBugs.jsonl.gz")
    lib.need("data", os.path.isfile(path), "SNP_TEST_DATA names no folder with QuixBugs.jsonl.gz")
    with gzip.open(path, "rt") as lines:
        bugs = [json.loads(line) for line in lines]
    assert len(bugs) == 31
    for bug in (bugs[1:] + bugs[:1])[:int(os.environ.get("SNP_TEST_QUIXBUGS", "2"))]:
        name = bug["name"]
        cases = [case for case in bug["tests"] if not is_heavy(name, *case[0])]
        tests = "".join(f"    if n == {n}:\n        assert near(plain({name}(*{args!r})), {expected!r})\n"
                        for n, (args, expected) in enumerate(cases))
        folder = box.make_folder("project")
        box.make_file(f"project/{name}.py", code_only(bug["buggy"]))
        box.make_file(f"project/tests/test_{name}.py",
                      f"import pytest\nimport signal\nfrom {name} import {name}\n\n"
                      # some never end; time on a processor, which a busy machine does not take from the right one
                      "signal.setitimer(signal.ITIMER_VIRTUAL, 4)\n\n\ndef plain(x):\n"
                      "    return x if isinstance(x, (int, float, str)) or x is None else"
                      " [plain(y) for y in x]\n\n\n"
                      "def near(x, y):\n"
                      "    return x == (pytest.approx(y, rel=1e-2) if isinstance(y, float) else y)\n\n\n"
                      f"@pytest.mark.parametrize('n', range({len(cases)}))\n"
                      f"def test_it(n):\n{tests}")
        time.sleep(0.05)
        fix = call("execute_code", code=f"open('{name}.py', 'w').write({code_only(bug['correct'])!r})")
        runs = Runs(box)
        done = runs.cli("agent", "Fix it", *runs.options(runs.script(
            turn(call("execute_code", code=f"open('{name}.py', 'a').write('\\n# maybe\\n')"), final()),
            turn(fix, final()))), "--cost-limit", "none", "--json", "--test",
            f"python3 -m pytest -q tests/test_{name}.py", timeout=8 * lib.PATIENCE)
        found = json.loads(done.stdout)
        assert found["verdict"]["verdict"] == READY, (name, found["verdict"]["reasons"])
        box.destroy(found["session"])
        shutil.rmtree(os.path.join(folder, "logs"))
        os.remove(os.path.join(folder, f"{name}.py"))
        os.remove(os.path.join(folder, f"tests/test_{name}.py"))


@pytest.mark.slow
def test_repairs_at_once_know_nothing_of_each_other(box: Sandbox) -> None:
    """SNP_TEST_REPAIRS=50 has that many."""
    runs = Runs(box)

    def repair(n: int) -> None:
        folder = box.make_folder(f"many-{n}")
        box.make_file(f"many-{n}/one.py", f"def f():\n    return -{n}\n")
        box.make_file(f"many-{n}/test_one.py", "import unittest\nfrom one import f\n\n\nclass One(unittest.TestCase):\n"
                      f"    def test_f(self):\n        self.assertEqual(f(), {n})\n")
        script = box.make_file(f"many-{n}.jsonl", "".join(json.dumps(each) + "\n" for each in (
            turn(edit(f"-{n}", str(n), "one.py")), turn(final(f"answer {n}")))))
        done = box.cli("agent", f"Fix {n}", *runs.options(script), "--cost-limit", "none", "--json", "--test",
                       "python3 -m unittest test_one.py", "--budget", 10000 + n, cwd=folder,
                       timeout=16 * lib.PATIENCE)
        found = json.loads(done.stdout)
        assert done.returncode == 0 and found["answer"] == f"answer {n}", done.stdout + done.stderr
        assert found["verdict"]["verdict"] == READY and found["total_tokens"] == 240, found
        record, = Path(folder, "logs").iterdir()
        assert json.loads(record.read_text().splitlines()[0])["budget"]["token_budget"] == 10000 + n
        with open(os.path.join(found["verdict"]["folder"], "patch.json")) as file:
            change, = json.load(file)["files"]
        assert base64.b64decode(change["now"]["base64"]).decode() == f"def f():\n    return {n}\n"
        box.destroy(found["session"])

    many = range(1, 1 + int(os.environ.get("SNP_TEST_REPAIRS", "6")))
    with ThreadPoolExecutor(len(many)) as pool:
        list(pool.map(repair, many))


def test_the_first_proven_candidate_is_kept(box: Sandbox) -> None:
    runs = Runs(box)
    logs = os.path.join(runs.folder, "logs")
    gate = call("execute_code", code="import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.02)")
    script = runs.script(turn(edit("a - b", "a + b")), turn(gate), turn(final("adds")))
    asked = box.popen("agent", "Fix add()", *runs.options(script),
                      "--cost-limit", "none", *TEST, "--json", "--candidates", "2", "--budget", "20000",
                      "--cell-timeout", "600", cwd=runs.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                      text=True)

    def working() -> set[str]:
        rows = json.loads(box.cli("sessions", "list", "--json").stdout)
        return {row["name"] for row in rows if row["name"].startswith("run-") and row["state"] == "running"}

    both: set[str] = lib.wait_for(lambda: names if len(names := working()) == 2 else None)
    assert both
    with open(f"/proc/{asked.pid}/task/{asked.pid}/children") as children:
        slow = int(children.read().split()[1])
    os.kill(slow, signal.SIGSTOP)
    open_files = [os.readlink(f"/proc/{slow}/fd/{fd}") for fd in os.listdir(f"/proc/{slow}/fd")]
    other, = [name for name in both if not any(os.path.basename(path)[:13] in name for path in open_files
                                               if path.endswith(".jsonl"))]
    assert box.cli("put", box.make_file("go"), f"{other}:/tmp/go").returncode == 0
    assert lib.wait_for(lambda: READY in "".join(Path(logs, each).read_text() for each in os.listdir(logs)))
    assert lib.wait_for(lambda: len(Path(f"/proc/{asked.pid}/task/{asked.pid}/children").read_text().split()) == 1)
    os.kill(slow, signal.SIGCONT)
    shown = asked.communicate(timeout=4 * lib.PATIENCE)
    found = json.loads(shown[0])
    assert asked.returncode == 0 and found["verdict"]["verdict"] == READY, shown
    first, second = found["candidates"]
    assert (first["chosen"], second["chosen"], second["session"]) == (True, False, None)
    assert second["stopped_by"] == "cancelled" and first["trajectory_id"] == found["trajectory_id"]
    names = [row["name"] for row in json.loads(box.cli("sessions", "list", "--json").stdout)]
    assert found["session"] in names and not [each for each in names if second["trajectory_id"][:13] in each]
    with open(os.path.join(logs, found["trajectory_id"] + ".jsonl")) as lines:
        assert json.loads(lines.readline())["budget"]["token_budget"] == 10000
    with open(os.path.join(found["verdict"]["folder"], "candidates.json")) as kept:
        assert json.load(kept) == found["candidates"]
    box.destroy(found["session"])
    shutil.rmtree(logs)
    for words in (["--candidates", "2"], ["--candidates", "17", *TEST], ["--candidates", "2", *TEST, "--events"]):
        assert runs.cli("agent", "x", *words).returncode == 2


def test_a_candidate_that_is_killed_leaves_no_session(box: Sandbox) -> None:
    def names() -> set[str]:
        shown = json.loads(box.cli("sessions", "list", "--json").stdout)
        return {row["name"] for row in shown if row["name"].startswith("run-")}

    before = names()
    runs = Runs(box)
    script = runs.script(turn(edit("a - b", "a + b")), turn(final(), delay_ms=600_000))
    asked = box.popen("agent", "Fix add()", *runs.options(script), "--cost-limit", "none", *TEST, "--candidates", "2",
                      cwd=runs.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert lib.wait_for(lambda: len(names() - before) == 2)
    with open(f"/proc/{asked.pid}/task/{asked.pid}/children") as children:
        for pid in children.read().split():
            os.kill(int(pid), signal.SIGKILL)
    shown = asked.communicate(timeout=4 * lib.PATIENCE)
    assert asked.returncode == 1 and "no candidate has a result" in shown[1], shown
    assert names() == before
    shutil.rmtree(os.path.join(runs.folder, "logs"))
