# SPDX-License-Identifier: Apache-2.0
"""Check which names, attributes, imports and arguments of Python files exist.

Runs inside a sandbox. Files of the project are read and never imported; installed modules are imported, here. Values
are followed as far as they are evident: all bindings of a name in its scope, literals, constructors, annotations.
Unknown values are counted and never reported: a wrong report costs more than a missing one.
"""

import ast
import builtins
import difflib
import gc
import json
import os
import re
import sys
import types
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ground_names import Class, Function, Instance, Real, RealMethod, Scope, Source, Value, absolute, decorator_name
from ground_names import node_line, outside
from ground_values import MODULE_NAMES, Judge, misfit
from ground_world import PROJECT_FILES, World, nearest
from script import Asking
from script_world import ENDS, FILES
from script_world import World as Scripts
from unit_names import CODE_ENDS
from unit_world import Units
from units import AskingUnits

Json = Dict[str, Any]
FINDINGS = 500  # for one file
CLASS_NAMES = frozenset(("__module__", "__qualname__"))
PLATFORM = re.compile(r"(?i)\b(platform|version_info|implementation|TYPE_CHECKING|hasattr|hexversion|getattr|"
                      r"find_spec|uname|nt)\b|os\.name|win(32|dows)|msvc|darwin|macos|pypy|jython|\bPY[23]|"
                      r"^_?HA(S|VE)_")
GUARDS = {"attribute": {"AttributeError"}, "name": {"NameError"}, "call": {"TypeError"},
          "import": {"ImportError", "ModuleNotFoundError", "Exception", "BaseException", "*"}}
DEPRECATED = re.compile(r"(?im)^\s*\.\. deprecated::|\bdeprecated since\b|^\s*deprecated\b|\b(is|are) deprecated\b")


class Finding(NamedTuple):
    kind: str
    line: int
    column: int
    name: str
    message: str
    nearest: str = ""
    where: Tuple[str, int] = ("", 0)
    severity: str = "error"


class Checker(ast.NodeVisitor):
    """Visits a file and reports names that do not exist."""

    def __init__(self, source: Source, judge: Judge) -> None:
        self.source = source
        self.judge = judge
        self.world = judge.world
        self.scope = source.scope
        self.guards: Set[str] = set()
        self.findings: List[Finding] = []
        self.unknown = 0
        self.known = 0
        self.called: Optional[ast.expr] = None

    def report(self, kind: str, node: ast.AST, name: str, message: str, near: str = "",
               where: Tuple[str, int] = ("", 0), severity: str = "error") -> None:
        if where[0] and self.world.is_inside(where[0]):
            where = (os.path.relpath(where[0], self.world.top), where[1])
        else:
            where = ("", 0)
        if len(self.findings) < FINDINGS:
            self.findings.append(Finding(kind, node_line(node), getattr(node, "col_offset", 0) + 1, name, message, near,
                                         where, severity))

    # Scopes and guards

    def within(self, node: ast.AST, parts: Sequence[ast.AST]) -> None:
        outer, self.scope = self.scope, self.source.scopes[node]
        self.body(parts)
        self.scope = outer

    def body(self, parts: Sequence[ast.AST]) -> None:
        """Visit statements; after `if PLATFORM: return` the rest also depends on the platform."""
        outer = set(self.guards)
        for part in parts:
            self.visit(part)
            if isinstance(part, ast.If) and isinstance(part.body[-1], (ast.Return, ast.Raise, ast.Continue)) and \
                    self.is_platform(part.test):
                self.guards.add("platform")
        self.guards = outer

    def is_guarded(self, kind: str, values: Sequence[Value] = ()) -> bool:
        """Whether a failure may be intended. Platforms do not change the project's own classes and functions."""
        is_own = bool(values) and all(isinstance(value, (Function, Class, Instance)) for value in values)
        return kind in self.guards or ("platform" in self.guards and not is_own)

    def is_platform(self, test: ast.expr) -> bool:
        for part in ast.walk(test):
            text = f"{getattr(part.value, 'id', '')}.{part.attr}" if isinstance(part, ast.Attribute) else \
                part.id if isinstance(part, ast.Name) else str(getattr(part, "value", ""))
            if PLATFORM.search(text):
                return True
        return False

    def visit_If(self, node: Any) -> None:
        outer = set(self.guards)
        self.visit(node.test)
        if self.is_platform(node.test):
            self.guards.add("platform")
        for part in ("body", "orelse"):
            value = getattr(node, part)
            if isinstance(value, list):
                self.body(value)
            else:
                self.visit(value)
        self.guards = outer

    visit_IfExp = visit_If

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        outer = set(self.guards)
        for part in node.values:
            self.visit(part)
            if self.is_platform(part):
                self.guards.add("platform")
        self.guards = outer

    def visit_Try(self, node: Any) -> None:
        outer = set(self.guards)
        caught = {decorator_name(one) for handler in node.handlers for one in (
            handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type or ast.Name("*", ast.Load())])}
        self.guards |= {kind for kind, names in GUARDS.items() if names & caught}
        self.body(node.body)
        if "import" not in self.guards - outer:
            self.guards = set(outer)
        for part in (*node.handlers, *node.orelse, *node.finalbody):  # the replacement of a missing module
            self.visit(part)
        self.guards = outer

    visit_TryStar = visit_Try

    def visit_With(self, node: ast.With) -> None:
        """In `with suppress(ImportError)` or `with raises(TypeError)` a failure is intended."""
        outer = set(self.guards)
        for item in node.items:
            self.visit(item)
            call = item.context_expr
            if isinstance(call, ast.Call) and decorator_name(call) in ("suppress", "raises", "assertRaises",
                                                                       "assertRaisesRegex"):
                self.guards |= set(GUARDS)
        self.body(node.body)
        self.guards = outer

    def visit_FunctionDef(self, node: Any) -> None:
        for part in outside(node):
            self.visit(part)
        self.within(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for part in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        self.within(node, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self.within(node, node.body)

    def visit_Module(self, node: ast.Module) -> None:
        self.body(node.body)

    def comprehension(self, node: Any) -> None:
        self.visit(node.generators[0].iter)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for i, one in enumerate(node.generators):
            parts += [one.target, *one.ifs] + ([one.iter] if i > 0 else [])
        self.within(node, parts)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = comprehension

    # Checked nodes

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.module_exists(alias.name, node)

    def module_exists(self, name: str, node: ast.AST) -> bool:
        if self.world.project_module(name, self.source) is not None:
            self.known += 1
            return True
        real = self.world.real_module(name)
        if real is not None:
            self.known += 1
            if name in self.world.why_deprecated:
                self.report("deprecated", node, name, f"module {name} is deprecated", severity="warning")
            return bool(real)
        near, where = self.near_module(name)
        parent = name.rpartition(".")[0]
        is_other = name.split(".")[0] in getattr(sys, "stdlib_module_names", ()) and not parent
        if self.is_guarded("import") or is_other or (parent and self.is_open(parent)) or \
                (not parent and self.world.requirements and
                 (not near or difflib.SequenceMatcher(None, near, name).ratio() < 0.8)):
            self.unknown += 1
        else:
            self.report("import", node, name, f"there is no module {name}", near, where)
        return False

    def is_open(self, name: str) -> bool:
        """Whether the submodules of this module are unknown."""
        if self.world.project_module(name, self.source) is not None:
            return False
        real = self.world.real_module(name)
        return real is False or (real is None and self.world.requirements)

    def near_module(self, name: str) -> Tuple[str, Tuple[str, int]]:
        parent, _, last = name.rpartition(".")
        if parent:
            real = self.world.real_module(parent)
            paths = [os.path.join(root, *parent.split(".")) for root in self.world.roots(self.source)]
            paths += list(getattr(real, "__path__", ()))
            among = {one.split(".")[0]: "" for path in paths if os.path.isdir(path) for one in os.listdir(path)
                     if not one.startswith("_")}
            near = nearest(last, sorted(among))
            return f"{parent}.{near}" if near else "", ("", 0)
        here = {self.world.name_of(path): path for path in self.world.each_file()}
        tops = set(getattr(sys, "stdlib_module_names", sys.builtin_module_names)) | set(here)
        near = nearest(name, sorted(one for one in tops if one and not one.startswith("_")))
        return near, (here.get(near, ""), 1 if near in here else 0)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = absolute(self.source, node)
        if not module:
            if node.level and self.source.name and "." not in self.source.name:
                for alias in node.names:  # a folder without __init__.py
                    self.unknown += 1
            return
        if module == "__future__" or not self.module_exists(module, node):
            return
        values = self.judge.module(module, self.source)
        if not values:
            self.unknown += 1
            return
        for alias in node.names:
            if alias.name == "*":
                continue
            is_there, names, _ = self.judge.has(values[0], alias.name)
            if is_there is False and not self.is_guarded("import") and not self.below(module, alias.name) and \
                    alias.name not in self.source.asked:
                near = nearest(alias.name, sorted(names))
                self.report("import", node, alias.name, f"module {module} has no {alias.name}", near,
                            names.get(near, ("", 0)))
            elif is_there is None:
                self.unknown += 1
            else:
                self.known += 1

    def below(self, module: str, name: str) -> bool:
        return self.world.project_module(f"{module}.{name}", self.source) is not None or \
            self.world.real_module(f"{module}.{name}") is not None

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            return
        name = node.id
        if self.scope.find(name) is not None or name in self.source.scope.names or name in MODULE_NAMES or \
                (name in CLASS_NAMES and self.scope.kind == "class") or name == "__class__":
            self.known += 1
            return
        if (self.source.is_dynamic and not self.is_call_of_nothing(node)) or self.is_guarded("name") or \
                self.is_starred(name) or \
                self.judge.is_submodule(self.source, name):
            self.unknown += 1
            return
        near, where = self.near_name(name)
        self.report("name", node, name, f"unknown name {name}", near, where)

    def is_call_of_nothing(self, node: ast.Name) -> bool:
        """Whether a name occurs only once in the text, as a call: then exec() or globals() in the file hardly define
        it."""
        return self.called is node and not node.id.isupper() and \
            len(re.findall(rf"\b{node.id}\b", self.source.text)) == 1

    def is_starred(self, name: str) -> bool:
        """Whether `from M import *` may define the name."""
        for star in self.source.stars:
            module = star.name.partition(":")[0]
            values = self.judge.module(module, self.source) if module else None
            if not values or self.judge.has(values[0], name)[0] is not False:
                return True
        return False

    def near_name(self, name: str) -> Tuple[str, Tuple[str, int]]:
        here: Dict[str, Tuple[str, int]] = {}
        scope: Optional[Scope] = self.scope
        while scope is not None:
            for one, bindings in scope.names.items():
                here.setdefault(one, (self.source.path, bindings[0].line))
            scope = scope.parent
        near = nearest(name, sorted({*here, *(one for one in dir(builtins) if not one.startswith("_"))}))
        if near:
            return near, here.get(near, ("", 0))
        there = self.world.definitions()
        near = nearest(name, there)
        return near, there.get(near, ("", 0))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        if not isinstance(node.ctx, ast.Load):
            return
        values = self.judge.value(node.value, self.scope)
        if not values or self.is_guarded("attribute", values) or node.attr in self.source.asked or \
                node.attr in self.source.stored and any(isinstance(value, (Real, Source)) for value in values):
            self.unknown += 1
            return
        looks = [self.judge.has(value, node.attr) for value in values]
        if any(is_there is not False for is_there, _, _ in looks):
            self.known += 1
            return
        _, names, what = looks[0]
        near = nearest(node.attr, sorted(one for one in names if not one.startswith("__")))
        text = expression(node.value)
        message = f"{text}.{node.attr}: attribute {near} exists, {node.attr} does not" if near else \
            f"{text}.{node.attr}: {what} has no attribute {node.attr}"
        self.report("attribute", node, node.attr, message, near, names.get(near, ("", 0)))

    def visit_Call(self, node: ast.Call) -> None:
        self.called = node.func
        self.visit(node.func)
        for part in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(part)
        values = self.judge.value(node.func, self.scope)
        if not values or self.is_guarded("call", values):
            self.unknown += 1
            return
        problems = []
        for value in values:
            self.deprecated(value, node)
            shape = self.judge.shape(value)
            problem = misfit(shape, node) if shape is not None else None
            if problem is None:
                self.unknown += shape is None
                self.known += shape is not None
                return
            problems.append(problem)
        kind, name, what, near = problems[0]
        self.report(kind, node, name or expression(node.func), f"{expression(node.func)}() {what}", near)

    def deprecated(self, value: Value, node: ast.Call) -> None:
        text = expression(node.func)
        why = None
        if isinstance(value, (Real, RealMethod)) and not isinstance(value.thing, type):
            why = getattr(value.thing, "__deprecated__", None)
            doc = (getattr(value.thing, "__doc__", None) or "")
            if why is None and isinstance(doc, str) and DEPRECATED.search("\n".join(doc.splitlines()[:6])):
                why = "its documentation says so"
            source = self.world.source_of_real(value.thing) if why is None and isinstance(
                value.thing, types.FunctionType) else None
            bindings = source.scope.names.get(value.thing.__qualname__, []) if source is not None else []
            if len(bindings) == 1 and bindings[0].kind == "def" and warns(bindings[0].node):
                why = "it warns when it is called"
        elif isinstance(value, Function) and not isinstance(value.node, ast.Lambda):
            if warns(value.node) or "deprecated" in {decorator_name(one) for one in value.node.decorator_list}:
                why = "it warns when it is called"
        if why is not None:
            self.report("deprecated", node, text, f"{text} is deprecated: {str(why)[:200]}", severity="warning")


def warns(node: Any) -> bool:
    """Whether a function first warns of its use, for any arguments."""
    for part in node.body[:6]:
        call = part.value if isinstance(part, ast.Expr) else None
        if isinstance(call, ast.Call) and decorator_name(call) in ("warn", "_deprecated", "warn_deprecated") and any(
                isinstance(one, ast.Name) and one.id in ("DeprecationWarning", "PendingDeprecationWarning")
                for one in ast.walk(call)):
            return True
    return False


def expression(node: ast.AST) -> str:
    """Names and attributes as written; a placeholder for other parts."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{expression(node.value)}.{node.attr}"
    if isinstance(node, ast.Call):
        return f"{expression(node.func)}()"
    if isinstance(node, (ast.Constant, ast.JoinedStr)):
        return "'...'" if not isinstance(node, ast.Constant) or isinstance(node.value, str) else str(node.value)[:20]
    return "(...)"


def check(world: World, path: str) -> Json:
    """Findings of a file, and the numbers of known and unknown names, attributes and calls."""
    full = os.path.join(world.top, path)
    text = world.read(full)
    if text is None:
        return {"path": path, "error": "it cannot be read as Python: no text, over 2 MiB, or a link"}
    try:
        source = Source(full, world.name_of(full), text)
    except SyntaxError as error:
        finding = Finding("syntax", error.lineno or 1, error.offset or 1, "", f"syntax error: {error.msg}")
        return {"path": path, "findings": [shown(finding)], "known": 0, "unknown": 0}
    except (ValueError, RecursionError, MemoryError) as error:
        return {"path": path, "error": f"it cannot be read as Python: {type(error).__name__}"}
    world.sources[full] = source
    world.requirements = world.read_requirements(full)
    checker = Checker(source, Judge(world))
    try:
        checker.visit(source.tree)
    except RecursionError:
        return {"path": path, "error": "it is nested too deep"}
    seen: Set[Tuple[int, int, str]] = set()
    findings = []
    for finding in sorted(checker.findings, key=lambda one: (one.line, one.column)):
        if (finding.line, finding.column, finding.message) not in seen:
            seen.add((finding.line, finding.column, finding.message))
            findings.append(shown(finding))
    return {"path": path, "findings": findings, "known": checker.known, "unknown": checker.unknown}


def shown(finding: Finding) -> Json:
    row: Json = {"kind": finding.kind, "severity": finding.severity, "line": finding.line, "column": finding.column,
                 "name": finding.name, "message": finding.message}
    if finding.nearest:
        row["nearest"] = {"name": finding.nearest}
        if finding.where[0]:
            row["nearest"].update(path=finding.where[0], line=finding.where[1])
    return row


class Reading:
    """Files of the project: Python files are checked at once, the others when their trees arrive."""

    def __init__(self, top: str, paths: Sequence[str]) -> None:
        sys.setrecursionlimit(3000)
        self.world = World(top)
        self.rows: List[Json] = []
        self.asking = [Asking(Scripts(top)), AskingUnits(Units(top))]
        self.asked = self.asking[0]
        waiting: List[List[str]] = [[], []]
        for path in paths:
            place = os.path.normpath(os.path.join(self.world.top, path))
            for below in self.below(place, path) if os.path.isdir(place) else [path]:
                end = os.path.splitext(below)[1].lower()
                if end in ENDS or end in CODE_ENDS:
                    waiting[end in CODE_ENDS].append(below)
                    self.rows.append({"path": below})
                elif end in (".py", ".pyi", ".pyw", ""):
                    self.rows.append(check(self.world, below))
                else:
                    self.rows.append({"path": below, "error": "its language is not looked up"})
        for asking, some in zip(self.asking, waiting):
            asking.waiting = list(dict.fromkeys(some))

    def below(self, place: str, path: str) -> List[str]:
        found: List[str] = []
        scripts, units = (asking.world.each_file() for asking in self.asking)
        for every, most, what in ((self.world.each_file(), PROJECT_FILES, "Python"),
                                  (scripts, FILES, "TypeScript and JavaScript"),
                                  (units, FILES, "Go, Java, Rust, C, C++, Ruby and Bash")):
            found += [os.path.relpath(file, self.world.top) for file in every
                      if place == self.world.top or file.startswith(place + "/")]
            if len(every) > most:
                self.rows.append({"path": path, "error": f"the project has more than {most} {what} files, and not all "
                                                         "were looked at; name single files, or a part of it by --dir"})
        return found

    def write(self, place: str) -> None:
        gc.disable()  # trees are many objects, and are freed with the session
        texts: List[Json] = []
        for asking in self.asking:
            if not texts:
                texts, self.asked = asking.advance(), asking
        found = {**self.asking[0].found, **self.asking[1].found}
        files = [] if texts else [found.get(row["path"], row) for row in self.rows]
        with open(os.path.join(place, "ground.json"), "w") as out:
            json.dump({"files": files, "texts": texts}, out)


reading: List[Tuple[Reading, str]] = []


def answer(top: str, place: str) -> None:
    """Read PLACE/paths.json; write PLACE/ground.json: findings, or texts whose trees are expected in PLACE/trees."""
    with open(os.path.join(place, "paths.json")) as asked:
        reading[:] = [(Reading(top, json.load(asked)["paths"]), place)]
    reading[0][0].write(place)


def go_on() -> None:
    now, place = reading[0]
    with open(os.path.join(place, "trees"), "rb") as file:
        now.asked.take(file.read())
    now.write(place)
