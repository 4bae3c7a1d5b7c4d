# SPDX-License-Identifier: Apache-2.0
"""The risk class of a patch and its requirements; runs beside judge.py, without running any of the patch."""

import ast
import difflib
import glob
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import judge
from findings import findings_of
from judge import TOP, Json, base_text, is_test, lines_of, now_text

SAMPLED = "data-transformation"  # only if a rule other than the suffix matches: all Python files are of this class
DIFF_LINES = 60
NO_DATABASE = "the project has no SQLite database"
LEVELS = ["low", "low-medium", "medium", "high", "critical"]


class Kind(NamedTuple):
    name: str
    level: str
    automation: str
    strategy: str


class Rule(NamedTuple):
    kind: str
    of: str
    pattern: str


class Rules:
    def __init__(self, path: str) -> None:
        self.kinds: Dict[str, Kind] = {}
        self.rules: List[Rule] = []
        with open(path) as file:
            for line in file:
                if line.startswith("class "):
                    kind = Kind(*line.rstrip("\n").split(None, 4)[1:])
                    self.kinds[kind.name] = kind
                elif line.strip() and not line.startswith("#"):
                    self.rules.append(Rule(*line.rstrip("\n").split(None, 2)))

    def of_file(self, path: str, text: str) -> List[Rule]:
        """Matching rules, the most harmful first; tests are matched only as tests."""
        found = [rule for rule in self.rules
                 if (rule.of == "type" and path.lower().endswith(rule.pattern))
                 or (rule.of == "path" and re.search(rule.pattern, path.lower()))
                 or (rule.of == "content" and re.search(rule.pattern, text))]
        if is_test(path) and any(rule.kind == "unit-test" for rule in found):
            found = [rule for rule in found if rule.kind == "unit-test"]
        return sorted(found or [Rule("unknown", "type", "")], key=lambda rule: -self.rank(rule))

    def rank(self, rule: Rule) -> int:
        return LEVELS.index(self.kinds[rule.kind].level)


def text_of(row: Json) -> str:
    data = base_text(row["path"]) if row["now"] is None else now_text(row)
    return (data or b"").decode("utf-8", "replace")


# Queries ------------------------------------------------------------------------------------

STATEMENT = re.compile(r"\s*(select|insert|update|delete|replace|with)\s", re.I)


def statements_of(row: Json) -> Iterator[str]:
    """Statements in the new text that are not in the old one."""
    old = (base_text(row["path"]) or b"").decode("utf-8", "replace")
    texts = []
    if row["path"].endswith(".sql"):
        texts = text_of(row).split(";")
    elif row["path"].endswith(".py"):
        try:
            texts = [node.value for node in ast.walk(ast.parse(text_of(row)))
                     if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        except (SyntaxError, ValueError, RecursionError):
            pass
    yield from (text.strip() for text in texts if STATEMENT.match(text) and text.strip() not in old)


class Named(Dict[str, None]):
    def __missing__(self, key: str) -> None:
        return None


def explain(database: sqlite3.Connection, statement: str) -> Json:
    values: Any = Named()
    for _ in range(3):  # parameters by name, then none to learn their number, then that many
        try:
            rows = database.execute("EXPLAIN QUERY PLAN " + statement, values).fetchall()
            return {"statement": statement, "plan": [row[-1] for row in rows]}
        except sqlite3.Error as error:
            count = re.search(r"uses (\d+), and", str(error))
            values, why = [None] * int(count.group(1) if count else 0), str(error)
            if count is None and "has no name" not in why:
                break
    return {"statement": statement, "error": why}


def database_copy() -> Optional[str]:
    for path in sorted(glob.glob(os.path.join(TOP, "**"), recursive=True)):
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "rb") as file:
                if file.read(16) == b"SQLite format 3\0":
                    copy = os.path.join(tempfile.mkdtemp(), "copy.db")
                    shutil.copyfile(path, copy)
                    return copy
    return None


def explained(rows: List[Json]) -> List[Json]:
    statements = [each for row in rows for each in statements_of(row)][:100]
    copy = database_copy() if statements else None
    if copy is None:
        return [{"statement": each, "error": NO_DATABASE} for each in statements]
    database = sqlite3.connect(f"file:{copy}?mode=ro", uri=True)
    return [explain(database, each) for each in statements]


# The patch ----------------------------------------------------------------------------------


def has_integration_test(rows: List[Json]) -> bool:
    return any(is_test(row["path"]) and row["now"] is not None
               and re.search(r"integration|client\.(get|post|put|patch|delete)\(|urlopen\(|HTTPConnection\(",
                             row["path"] + text_of(row)) for row in rows)


def asked_for(kinds: List[str], rows: List[Json], queries: List[Json]) -> Iterator[Json]:
    """Requirements of a class that the patch does not meet: {"word", "text"}."""
    if "api-endpoint" in kinds and not has_integration_test(rows):
        yield {"word": "not proven", "text": "it changes an API endpoint without an integration test in the patch"}
    for query in queries:
        if "error" in query:
            yield {"word": "not proven", "text": f"not explained: {query['statement'][:80]!r}: {query['error']}",
                   "for_user": query["error"] == NO_DATABASE}
    if "database-query" in kinds and not queries:
        yield {"word": "tests passed", "text": "it queries a database, and none of its statements could be read"}
    for kind, text in (("infrastructure", "it changes infrastructure, whose effects are not planned here"),
                       ("migration", "it changes the schema of a database: that was not executed")):
        if kind in kinds:
            yield {"word": "tests passed", "text": text}


def risk_of(rows: List[Json], rules: Rules) -> Json:
    found = [(row, rules.of_file(row["path"], text_of(row))) for row in rows]
    row, fits = max(found, key=lambda each: rules.rank(each[1][0]))
    kind = rules.kinds[fits[0].kind]
    rules_that_fit = [rule for _, each in found for rule in each]
    kinds = [rule.kind for rule in rules_that_fit]
    queries = explained([row for row, each in found if any(rule.kind == "database-query" for rule in each)])
    return {"class": kind.name, "level": kind.level, "path": row["path"], "automation": kind.automation,
            "rule": f"{fits[0].of} {fits[0].pattern}".strip() if fits[0].pattern else None, "strategy": kind.strategy,
            "files": {row["path"]: each[0].kind for row, each in found}, "queries": queries,
            "needs_sample": any(rule.kind == SAMPLED and rule.of != "type" for rule in rules_that_fit),
            "reasons": list(asked_for(kinds, rows, queries))}


# Samples ------------------------------------------------------------------------------------


def changes(old: str, new: str, name: str) -> str:
    """The beginning of a diff."""
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), name, "patched", lineterm=""))
    more = [f"... and {len(lines) - DIFF_LINES} more lines"] if len(lines) > DIFF_LINES else []
    return "\n".join(line[:400] for line in lines[:DIFF_LINES] + more)


def sample_compare(folder: str) -> None:
    """Compare the output of a command on the patched project with that on the clean one and with the expected one."""
    with open(os.path.join(folder, "sample.json")) as file:
        texts = json.load(file)
    with open(os.path.join(folder, "changes.json"), "w") as file:
        json.dump({name: changes(texts[name], texts["patched"], name) for name in ("expected", "clean")}, file)


# Lint and types -----------------------------------------------------------------------------

# A tool, files that may configure it, and the text of such a configuration.
TOOLS = (("flake8", (".flake8", "setup.cfg", "tox.ini"), "[flake8]"), ("mypy", ("mypy.ini", ".mypy.ini"), "[mypy]"),
         ("mypy", ("setup.cfg",), "[mypy]"), ("mypy", ("pyproject.toml",), "[tool.mypy]"),
         ("ruff", ("ruff.toml", ".ruff.toml"), ""), ("ruff", ("pyproject.toml",), "[tool.ruff]"))


def is_configured(tool: str) -> bool:
    for name, files, section in TOOLS:
        for file in files if name == tool else ():
            if section in (base_text(file) or b"").decode("utf-8", "replace") and base_text(file) is not None:
                return True
    return False


def n_findings(tool: str, paths: List[str]) -> Optional[int]:
    """The tool's number of findings in these files; None: it is not installed, or failed."""
    here = [path for path in paths if path.endswith(".py") and base_text(path) is not None]
    options = {"ruff": ["check", "--no-cache", "--output-format=concise"],
               "mypy": ["--no-error-summary", "--cache-dir=/dev/null"]}.get(tool, [])
    if not here:
        return 0
    done = subprocess.run(["python3", "-I", "-m", tool, *options, *here], cwd=TOP, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=200)
    found = [line for line in lines_of(done.stdout) or [] if re.match(r"[^:\s]+:\d+:", line) and ": note:" not in line]
    return len(found) if done.returncode == 0 or (done.returncode == 1 and found) else None


def checked(paths: List[str]) -> Json:
    """{tool: number of findings} for the tools that the project configures."""
    return {tool: n_findings(tool, paths) for tool in ("flake8", "ruff", "mypy") if is_configured(tool)}


def look(folder: str) -> None:
    with open(os.path.join(folder, "patch.json")) as file:
        rows = json.load(file)["files"]
    judge.look(rows, os.path.join(folder, "look.json"), risk_of(rows, Rules(os.path.join(folder, "risk.rules"))),
               findings_of(rows))


def begin(folder: str) -> None:
    """List files of which a change needs a sample, before there is a change."""
    rules = Rules(os.path.join(folder, "risk.rules"))
    rules.rules = [rule for rule in rules.rules if rule.kind == SAMPLED and rule.of != "type"]
    paths = [os.path.relpath(each, TOP) for each in glob.glob(os.path.join(TOP, "**/*.py"), recursive=True)
             if not {"node_modules", "site-packages"} & set(each.split("/"))]
    found = [path for path in sorted(paths) if not is_test(path) and
             rules.of_file(path, (base_text(path) or b"").decode("utf-8", "replace"))[0].kind == SAMPLED]
    with open(os.path.join(folder, "begin.json"), "w") as file:
        json.dump({"needs_sample": found}, file)


def check(folder: str) -> None:
    """Count findings before and after the patch."""
    with open(os.path.join(folder, "patch.json")) as file:
        paths = [row["path"] for row in json.load(file)["files"] if not is_test(row["path"])]
    before = checked(paths)
    if before:
        judge.apply(os.path.join(folder, "patch.json"), None, [])
    after = checked(paths)
    with open(os.path.join(folder, "checks.json"), "w") as file:
        json.dump({tool: {"before": before[tool], "after": after[tool]} for tool in before}, file)
