# SPDX-License-Identifier: Apache-2.0
"""Check which imports, names, attributes and arguments of TypeScript and JavaScript exist.

Files of the project and of its packages are read and never run. A parser outside makes their trees, in rounds: files
that need a missing tree are checked again in the next round. Unknown values are counted and never reported.
"""

import difflib
import os
import re
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from ground_world import nearest
from script_known import GLOBALS, NODE_MODULES
from script_names import CLASSES, Scope, Script, plain, required, string_of
from script_tree import Node
from script_values import Judge, Shape, Value, key_of
from script_world import MAKES_NAMES, World

Json = Dict[str, Any]
FINDINGS = 500  # for one file
SLICE = 40  # files checked together
ROUNDS = 24  # for one file
NOT_NAMES = frozenset("import_specifier namespace_import export_specifier namespace_export import_alias "
                      "nested_identifier meta_property jsx_namespace_name statement_identifier".split())


class Checker:
    def __init__(self, script: Script, judge: Judge, world: World) -> None:
        self.script = script
        self.judge = judge
        self.world = world
        self.known = 0
        self.unknown = 0
        self.findings: List[Json] = []
        text = script.tree.source.decode()
        self.quiet = {n + 2 for n, line in enumerate(text.split("\n"))
                      if "@ts-ignore" in line or "@ts-expect-error" in line}
        said = re.findall(r"/\* ?(?:global|globals|exported)\b([^*]*)\*/", text)
        self.said = set(re.findall(r"[\w$]+", " ".join(said)))
        self.names_open = not (script.is_module or script.is_common) or script.is_loose or \
            world.needs(script.path, MAKES_NAMES)

    def report(self, kind: str, node: Node, name: str, message: str, near: str = "", where: Optional[Node] = None,
               place: Tuple[str, int] = ("", 0), severity: str = "error") -> None:
        if len(self.findings) >= FINDINGS or node.line in self.quiet or self.script.is_loose:
            return
        row: Json = {"kind": kind, "severity": severity, "line": node.line, "column": node.column, "name": name,
                     "message": message}
        if near:
            row["nearest"] = {"name": near}
            if where is not None:
                path = next((one.path for one in self.world.scripts.values()
                             if one is not None and one.tree.source is where.source), self.script.path)
                place = (path, where.line)
            if place[0] and "node_modules" not in place[0]:
                row["nearest"].update(path=os.path.relpath(place[0], self.world.top), line=place[1])
        self.findings.append(row)

    def visit(self, node: Node, scope: Scope) -> None:
        scope = self.script.scopes.get(node, scope)
        how = getattr(self, "visit_" + node.type, None)
        if how is not None:
            how(node, scope)
        if node.type not in NOT_NAMES:
            for child in node.children:
                if child.named:
                    self.visit(child, scope)

    # Names

    def visit_identifier(self, node: Node, scope: Scope) -> None:
        name = node.text
        if scope.find(name) is not None or name in GLOBALS or name == "arguments":
            self.known += 1
            return
        parent = node.parent
        if parent is not None and parent.type in ("required_parameter", "optional_parameter") and node.field == "name":
            return  # [name: type]
        is_element = parent is not None and parent.type.startswith("jsx_")
        if (is_element and name[0].islower()) or (parent is not None and parent.type in (
                "tuple_parameter", "optional_tuple_parameter", "type_predicate", "asserts", "nested_type_identifier")):
            return
        if self.names_open or name in self.script.asked or name in self.said or name.startswith(("$", "__")) or \
                name.upper() == name or name in self.world.words().globals:
            self.unknown += 1
            return
        here: Dict[str, Node] = {}
        at: Optional[Scope] = scope
        while at is not None:
            for one, bindings in at.names.items():
                here.setdefault(one, bindings[0].node)
            at = at.parent
        near = nearest(name, sorted(here))
        if near:
            self.report("name", node, name, f"unknown name {name}", near, here[near])
            return
        there = self.world.words().defined
        near = nearest(name, there)
        self.report("name", node, name, f"unknown name {name}", near, place=there.get(near, ("", 0)))

    visit_shorthand_property_identifier = visit_identifier

    # Imports

    def visit_import_statement(self, node: Node, scope: Scope) -> None:
        source = node.get("source")
        for require in node.all("import_require_clause"):
            source = require.get("source")
        spec = string_of(source)
        if source is None or not self.module_exists(spec, source):
            return
        of = self.judge.module(spec, self.script)
        clause = node.first("import_clause")
        named = clause.first("named_imports") if clause is not None else None
        default = clause.first("identifier") if clause is not None else None
        if default is not None:
            self.taken(of, spec, "default", default)
        for one in named.all("import_specifier") if named is not None else []:
            name = one.get("name")
            if name is not None:
                self.taken(of, spec, string_of(name) or name.text, name)

    def visit_export_statement(self, node: Node, scope: Scope) -> None:
        source, clause = node.get("source"), node.first("export_clause")
        if source is not None:
            spec = string_of(source)
            of = self.judge.module(spec, self.script) if self.module_exists(spec, source) else None
            for one in clause.all("export_specifier") if clause is not None and of is not None else []:
                name = one.get("name")
                if name is not None:
                    self.taken(of, spec, string_of(name) or name.text, name)
        elif clause is not None:
            for one in clause.all("export_specifier"):
                name = one.get("name")
                if name is not None and name.type == "identifier" and name.text != "default":
                    self.visit_identifier(name, scope)

    def module_exists(self, spec: str, node: Node, is_guarded: bool = False) -> bool:
        found = self.world.resolve(spec, self.script.path)
        if found.kind in ("file", "builtin"):
            self.known += 1
            return True
        if found.kind == "unknown" or is_guarded or spec in self.script.ambient:
            self.unknown += 1
            return False
        near = self.near_module(spec)
        self.report("import", node, spec, f"there is no module {spec}", near)
        return False

    def near_module(self, spec: str) -> str:
        if spec.startswith("."):
            head, _, last = spec.rpartition("/")
            folder = os.path.normpath(os.path.join(os.path.dirname(self.script.path), head))
            try:
                names = sorted({re.sub(r"(\.d)?\.\w+$", "", name) for name in os.listdir(folder)}) \
                    if self.world.is_inside(folder) else []
            except OSError:
                names = []
            near = nearest(re.sub(r"\.\w+$", "", last), names)
            return f"{head}/{near}" if near else ""
        among = set(NODE_MODULES)
        for folder in self.world.above(self.script.path):
            about = self.world.json(os.path.join(folder, "package.json"))
            for key in ("dependencies", "devDependencies", "peerDependencies") if isinstance(about, dict) else ():
                among |= set(about.get(key) or ())
        near = nearest(spec, sorted(among))
        return near if near and difflib.SequenceMatcher(None, near, spec).ratio() > 0.5 else ""

    def taken(self, of: Optional[Value], spec: str, name: str, node: Node) -> None:
        if of is None or (name == "default" and (of.script is None or "node_modules" in of.script.path)):
            self.unknown += 1
            return
        is_there, names, _ = self.judge.has(of, name)
        may_be_type = of.kind == "builtin" and self.script.is_typed and name[:1].isupper()
        if is_there is None or (is_there is False and (may_be_type or name in self.script.asked)):
            self.unknown += 1
        elif is_there:
            self.known += 1
        else:
            near = nearest(name, sorted(names))
            self.report("import", node, name, f"module {spec} has no {name}" if name != "default" else
                        f"module {spec} has no default export", near if name != "default" else "",
                        names.get(near))

    # Attributes

    def visit_member_expression(self, node: Node, scope: Scope) -> None:
        name, of = node.get("property"), node.get("object")
        if name is None or of is None:
            return
        value = self.judge.value(of, scope)
        is_set = node.field == "left" and node.parent is not None and node.parent.type == "assignment_expression"
        if value is None or (is_set and (not self.script.is_typed or value.kind != "instance")) or \
                name.text in self.script.asked:
            self.unknown += 1
            return
        is_there, names, what = self.judge.has(value, name.text)
        if is_there is None:
            self.unknown += 1
            return
        if is_there:
            self.known += 1
            return
        near = nearest(name.text, sorted(names))
        text = expression(of)
        message = f"{text}.{name.text}: attribute {near} exists, {name.text} does not" if near else \
            f"{text}.{name.text}: {what} has no attribute {name.text}"
        self.report("attribute", name, name.text, message, near, names.get(near))

    # Calls

    def visit_call_expression(self, node: Node, scope: Scope) -> None:
        function, arguments = node.get("function"), node.get("arguments")
        module = required(node)
        if module and function is not None and scope.find(function.text) is None:
            self.module_exists(module, node, in_try(node))
            self.taken_apart(node, module)
            return
        if function is None or arguments is None or arguments.type != "arguments":
            return
        if function.type == "super":
            self.fits(self.parent_class(node, scope), node, function, arguments, True)
        else:
            self.fits(self.judge.value(function, scope), node, function, arguments, False)

    def visit_new_expression(self, node: Node, scope: Scope) -> None:
        of, arguments = node.get("constructor"), node.get("arguments")
        if of is not None:
            self.fits(self.judge.value(of, scope), node, of, arguments, True)

    def taken_apart(self, node: Node, module: str) -> None:
        """const {a, b: c} = require("M")."""
        at = node.parent
        while at is not None and at.type in ("await_expression", "parenthesized_expression"):
            at = at.parent
        pattern = at.get("name") if at is not None and at.type == "variable_declarator" else None
        if pattern is None or pattern.type != "object_pattern":
            return
        of = self.judge.module(module, self.script)
        for part in pattern.parts:
            name = part if part.type == "shorthand_property_identifier_pattern" else part.get("key")
            if name is not None and name.type in ("shorthand_property_identifier_pattern", "property_identifier"):
                self.taken(of, module, name.text, name)

    def parent_class(self, node: Node, scope: Scope) -> Optional[Value]:
        at: Optional[Node] = node
        while at is not None and at.type not in CLASSES:
            at = at.parent
        heritage = at.first("class_heritage") if at is not None else None
        if heritage is None or at is None:
            return None
        clause = heritage.first("extends_clause")
        return self.judge.value(clause.get("value") if clause is not None else heritage.parts[0],
                                self.script.scopes[at].parent or scope)

    def fits(self, value: Optional[Value], node: Node, function: Node, arguments: Optional[Node], is_new: bool) -> None:
        shapes = self.judge.shapes(value, is_new) if value is not None else None
        if value is None or shapes is None:
            self.unknown += 1
            return
        given = arguments.parts if arguments is not None else []
        name = expression(function)
        self.deprecated(value, shapes, node, name)
        if any(part.type == "spread_element" for part in given):
            self.unknown += 1
            return
        shapes = shapes or [Shape(0, 0 if self.script.is_typed else None, [], node, self.script.scope)]
        problems = [misfit(shape, len(given)) for shape in shapes]
        if all(problems):
            self.report("arity", node, name, f"{name}() {problems[0]}")
            return
        self.known += 1
        if len(shapes) == 1:
            self.options(shapes[0], given, name)

    def options(self, shape: Shape, given: Sequence[Node], name: str) -> None:
        """Check f({optoin: 1}) if f declares the type of its argument."""
        parameters = shape.node.get("parameters")
        takes = [part for part in parameters.parts if (part.get("pattern") or part).text != "this"] \
            if parameters is not None else []
        for part, argument in zip(takes, given):
            if argument.type == "object" and part.get("type") is not None and self.script.is_typed:
                self.keys(argument, self.judge.typed(part.get("type"), shape.scope), name + "()")

    def keys(self, node: Node, value: Optional[Value], what: str) -> None:
        if value is None or value.kind != "instance" or node.all("spread_element"):
            return
        for part in node.parts:
            key = part.text if part.type == "shorthand_property_identifier" else key_of(part)
            is_there, names, _ = self.judge.has(value, key) if key else (None, {}, "")
            if is_there is False:
                near = nearest(key, sorted(names))
                self.report("keyword", part, key, f"{what} takes no option named {key}", near, names.get(near))

    def visit_variable_declarator(self, node: Node, scope: Scope) -> None:
        value, kind, name = node.get("value"), node.get("type"), node.get("name")
        if value is not None and value.type == "object" and kind is not None and name is not None:
            self.keys(value, self.judge.typed(kind, scope), name.text[:80])

    def deprecated(self, value: Value, shapes: Sequence[Shape], node: Node, name: str) -> None:
        nodes = [shape.node for shape in shapes] if value.kind == "function" else \
            [place[0] for place in value.places[:1]]
        if nodes and all("@deprecated" in doc_of(one) for one in nodes):
            why = re.search(r"@deprecated[ \t]*([^\n*]*)", doc_of(nodes[0]))
            text = why.group(1).strip() if why is not None else ""
            self.report("deprecated", node, name, f"{name} is deprecated" + (f": {text[:200]}" if text else ""),
                        severity="warning")


def misfit(shape: Shape, n: int) -> str:
    if shape.most is not None and n > shape.most:
        return f"takes at most {shape.most} argument{'' if shape.most == 1 else 's'}, {n} given"
    return f"needs the argument {shape.names[n]}" if n < shape.least else ""


def doc_of(node: Node) -> str:
    at: Optional[Node] = node
    while at is not None:
        if at.doc:
            return at.doc
        is_wrapped = at.parent is not None and (at.parent.type in ("export_statement", "variable_declarator") or
                                                at.type == "variable_declarator")
        at = at.parent if is_wrapped else None
    return ""


def in_try(node: Node) -> bool:
    at: Optional[Node] = node
    while at is not None and at.parent is not None:
        if at.parent.type == "try_statement" and at.field == "body":
            return True
        at = at.parent
    return False


def expression(node: Node) -> str:
    """Names and attributes as written; a placeholder for other parts."""
    inner = plain(node)
    if inner is None:
        return "(...)"
    if inner.type in ("identifier", "this", "super"):
        return inner.text
    if inner.type == "member_expression":
        of, name = inner.get("object"), inner.get("property")
        return f"{expression(of) if of is not None else ''}.{name.text if name is not None else ''}"
    if inner.type == "call_expression":
        function = inner.get("function")
        return f"{expression(function) if function is not None else ''}()"
    return "'...'" if inner.type in ("string", "template_string") else "(...)"


# Rounds ------------------------------------------------------------------------------------------


class Asking:
    """Files that are checked again until all trees that they need are there."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.waiting: List[str] = []
        self.now: List[str] = []
        self.rounds = 0
        self.found: Dict[str, Json] = {}
        self.asked: List[Tuple[str, bytes]] = []

    def advance(self) -> List[Json]:
        """Texts whose trees are needed; none: all files are done."""
        while self.now or self.waiting:
            if not self.now:
                self.world.forget()
                self.now, self.waiting = self.waiting[:SLICE], self.waiting[SLICE:]
                self.rounds = 0
            judge = self.judge()
            for path in list(self.now):
                n = self.world.n_missed
                row = self.check(path, judge)
                if self.world.n_missed == n or self.rounds >= ROUNDS:
                    self.found[path] = row
                    self.now.remove(path)
            self.rounds += 1
            self.asked = self.world.batch() if self.now else []
            if self.asked:
                return [{"path": self.world.named(path, text), "text": self.world.prepared(text).decode()}
                        for path, text in self.asked]
            self.world.wanted.clear()
        return []

    def judge(self) -> Any:
        return Judge(self.world)

    def checked(self, script: Any, judge: Any) -> Any:
        checker = Checker(script, judge, self.world)
        checker.visit(script.tree, script.scope)
        return checker

    def check(self, path: str, judge: Any) -> Json:
        full = os.path.join(self.world.top, path)
        script = self.world.script(full)
        if script is None:
            return {"path": path, "error": self.world.why.get(full, "its tree is not there")}
        try:
            checker = self.checked(script, judge)
        except RecursionError:
            return {"path": path, "error": "it is nested too deep"}
        seen: Set[Tuple[int, int, str]] = set()
        findings = []
        for row in sorted(checker.findings, key=lambda one: (one["line"], one["column"])):
            if (row["line"], row["column"], row["message"]) not in seen:
                seen.add((row["line"], row["column"], row["message"]))
                findings.append(row)
        return {"path": path, "findings": findings, "known": checker.known, "unknown": checker.unknown}

    def take(self, data: bytes) -> None:
        """Take the requested trees, each preceded by its size."""
        at = 0
        for path, text in self.asked:
            size = int.from_bytes(data[at:at + 4], "little")
            is_none = size in (0, 0xffffffff)
            self.world.take(path, text, None if is_none else data[at + 4:at + 4 + size],
                            "this build has no grammars" if size else "the parser gave up on it")
            at += 4 + (0 if is_none else size)
