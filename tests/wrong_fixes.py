# SPDX-License-Identifier: Apache-2.0
"""Wrong fixes of small programs: they pass the tests that one sees, and fail others.

Made of HumanEval and QuixBugs: programs with one thing changed, and programs that know only the answers that are asked
for. The same files give the same fixes in the same order.
"""

import ast
import copy
import gzip
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

# Which checks of each program pass. One that does not end passes none.
RUNNER = """
import json, resource, signal, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
sys.setrecursionlimit(400)
def late(*_):
    raise TimeoutError
signal.signal(signal.SIGVTALRM, late)
def passes(program, check):
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.1)
        space = {"__name__": "m"}
        exec(program, space)
        exec(check, space)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return True
    except BaseException as error:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return None if isinstance(error, TimeoutError) else False
for line in sys.stdin:
    rows = []
    programs, checks = json.loads(line)
    for program in programs:
        row = []
        for check in checks:
            row.append(False if None in row else passes(program, check))
        rows.append([end is True and None not in row for end in row])
    print(json.dumps(rows), flush=True)
"""
COMPARED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
COUNTED = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


@dataclass
class Program:
    name: str  # of its module and function
    wrong: str  # as the project has it
    right: str
    checks: list[str]


@dataclass
class WrongFix:
    name: str
    module: str
    before: str
    after: str
    visible: list[str]  # fail before, pass after
    others: list[str]  # some fail after
    is_regress: bool  # the others passed before


def file_of_checks(module: str, checks: list[str], kind: str) -> str:
    """A file of tests for both runners."""
    methods = "".join(f"    def test_{kind}_{n}(self):\n{indent(check, ' ' * 8)}\n\n" for n, check in enumerate(checks))
    return f"import unittest\nfrom {module} import *\n\n\nclass Checks(unittest.TestCase):\n{methods}"


def changed(tree: ast.Module) -> Iterator[ast.Module]:
    """The program with one thing changed."""
    for n, node in enumerate(ast.walk(tree)):
        for change in changes_of(node):
            other = copy.deepcopy(tree)
            place = next(each for at, each in enumerate(ast.walk(other)) if at == n)
            for field, value in change.items():
                setattr(place, field, value)
            yield ast.fix_missing_locations(other)


def changes_of(node: ast.AST) -> Iterator[Mapping[str, object]]:
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], COMPARED):
        yield from ({"ops": [kind(), *node.ops[1:]]} for kind in COMPARED if not isinstance(node.ops[0], kind))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, COUNTED):
        yield from ({"op": kind()} for kind in COUNTED if not isinstance(node.op, kind))
    elif isinstance(node, ast.BoolOp):
        yield {"op": ast.Or() if isinstance(node.op, ast.And) else ast.And()}
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield from ({"value": node.value + by} for by in (1, -1))
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield {"value": not node.value}
    elif isinstance(node, (ast.If, ast.While)):
        yield {"test": ast.UnaryOp(ast.Not(), node.test)}
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from ({"value": ast.Constant(value)} for value in (None, 0, True, ""))
    elif isinstance(node, (ast.Expr, ast.AugAssign, ast.Assign)):
        yield {"value": ast.Constant(0)}


def plain(program: str) -> str:
    """Without comments, and texts that stand alone."""
    tree = ast.parse(program)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not (  # type: ignore[attr-defined]
                isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))] or [ast.Pass()]
    return ast.unparse(tree) + "\n"


def human_eval(folder: Path) -> Iterator[Program]:
    with gzip.open(folder / "HumanEval.jsonl.gz", "rt") as lines:
        for line in lines:
            row = json.loads(line)
            name = row["entry_point"]
            check = next(node for node in ast.parse(row["test"]).body if isinstance(node, ast.FunctionDef))
            checks = []
            for node in check.body:
                if isinstance(node, ast.Assert) and "candidate" in ast.unparse(node.test):
                    checks.append("assert " + ast.unparse(node.test).replace("candidate(", f"{name}("))
            if not checks:  # they are in loops
                body = [each for each in check.body if not isinstance(each, ast.Expr)]
                checks = ["\n".join(map(ast.unparse, body)).replace("candidate(", f"{name}(")]
            head = ast.parse(row["prompt"] + "    pass\n")
            next(node for node in head.body if isinstance(node, ast.FunctionDef)
                 and node.name == name).body = [ast.parse("raise NotImplementedError").body[0]]
            yield Program(name, plain(ast.unparse(head)), plain(row["prompt"] + row["canonical_solution"]), checks)


def quix_bugs(folder: Path) -> Iterator[Program]:
    with gzip.open(folder / "QuixBugs.jsonl.gz", "rt") as lines:
        for line in lines:
            row = json.loads(line)
            name = row["name"]
            checks = [f"assert {name}(*{args!r}) == {expected!r}" for args, expected in row["tests"]]
            yield Program(name, plain(row["buggy"]), plain(row["correct"]), checks)


class Judge:
    """Runs programs, in a process of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", RUNNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={"PYTHONHASHSEED": "0"})

    def outcomes(self, programs: list[str], checks: list[str]) -> list[list[bool]]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([programs, checks]) + "\n")
        self.process.stdin.flush()
        rows: list[list[bool]] = json.loads(self.process.stdout.readline())
        return rows

    def close(self) -> None:
        self.process.communicate()


def table_of(program: Program, visible: list[str]) -> str:
    """A program that knows the visible answers alone."""
    tree = ast.parse(program.right)
    main = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == program.name)
    body: list[ast.stmt] = []
    for check in visible:
        test = ast.parse(check).body[0]
        assert isinstance(test, ast.Assert) and isinstance(test.test, ast.Compare)
        call = test.test.left
        if isinstance(call, ast.Call) and not call.keywords and isinstance(test.test.ops[0], ast.Eq):
            given = ", ".join(arg.arg for arg in main.args.args)
            args = ", ".join(ast.unparse(arg) for arg in call.args)
            body += ast.parse(f"if [{given}] == [{args}]:\n    return {ast.unparse(test.test.comparators[0])}").body
    main.body = [*body, *ast.parse("return None").body]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def of_program(program: Program, chance: random.Random, judge: Judge) -> Iterator[WrongFix]:
    mutants = sorted({ast.unparse(tree) + "\n" for tree in changed(ast.parse(program.right))})
    mutants = chance.sample(mutants, min(24, len(mutants)))
    checks = [check for check in program.checks if len(check) < 2000][:16]
    rows = judge.outcomes([program.right, program.wrong, *mutants], checks)
    checks = [check for check, is_right in zip(checks, rows[0]) if is_right]
    rows = [[end for end, is_right in zip(row, rows[0]) if is_right] for row in rows]
    made = 0
    for mutant, row in zip(mutants, rows[2:]):  # visible: what it passes, of what failed before
        visible = [check for check, was, end in zip(checks, rows[1], row) if end and not was]
        others = [check for check, end in zip(checks, row) if not end]
        if visible and others and made < 2:
            made += 1
            yield WrongFix(f"{program.name} {made}", program.name, program.wrong, mutant, visible, others, False)
    for mutant, row in zip(mutants, rows[2:]):  # and what breaks something that another wrong program had right
        for before, was in zip(mutants, rows[2:]):
            visible = [check for check, a, b in zip(checks, was, row) if b and not a]
            others = [check for check, a, b in zip(checks, was, row) if a and not b]
            if visible and others:
                yield WrongFix(f"{program.name} breaks", program.name, before, mutant, visible, others, True)
                break
        else:
            continue
        break
    half = [check for check, was in zip(checks, rows[1]) if not was][::2]
    try:
        table = table_of(program, half)
    except (AssertionError, StopIteration, SyntaxError):
        return
    row = judge.outcomes([table], checks)[0]
    if all(row[checks.index(check)] for check in half) and half and not all(row):
        yield WrongFix(f"{program.name} knows", program.name, program.wrong, table, half,
                       [check for check, end in zip(checks, row) if not end], False)


def wrong_fixes(folder: Path) -> Iterator[WrongFix]:
    chance = random.Random(18)
    programs = [*human_eval(folder), *quix_bugs(folder)]
    chance.shuffle(programs)
    judge = Judge()
    try:
        for program in programs:
            yield from of_program(program, chance, judge)
    finally:
        judge.close()
