# SPDX-License-Identifier: Apache-2.0
"""Check which imports, functions, members and numbers of arguments of Go, Java, Rust, C, C++, Ruby and Bash exist.

Files of the project are read and never run; a parser outside makes their trees (as in script.py). Names are looked up
where the language does: the folder, the class, the included headers. If any of these is unknown, nothing is reported.
"""

import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from ground_world import nearest
from script import Asking
from script_tree import Node
from unit_known import BASES, BUILTINS, CORE, DERIVES, OF_ALL
from unit_names import BUNDLES, NAMES, QUALIFIED, Call, Hint, Shape, Type, Unit, Use, call_of, named, shape_of
from unit_world import Units

DEPTH = 12
FINDINGS = 500
FILES_OF_TYPE = 20


class Member(NamedTuple):
    node: Node
    type: Optional[Node]
    unit: Unit


class Value(NamedTuple):
    """A value of these types, or the package or type itself."""

    types: Tuple[Type, ...] = ()
    package: Optional[str] = None


Members = Dict[str, List[Member]]


def result_of(node: Node) -> Optional[Node]:
    modifiers = node.first("function_modifiers")
    if modifiers is not None and modifiers.has("async"):
        return None
    return node.get("result") or node.get("return_type") or node.get("type")


class Judge:
    def __init__(self, world: Units) -> None:
        self.world = world
        self.depth = 0
        self.held: Dict[Tuple[Type, ...], Tuple[Members, bool]] = {}
        self.near: Dict[str, Tuple[Members, Set[str], bool]] = {}
        self.packages: Dict[Tuple[str, str], Tuple[Members, bool]] = {}

    # Types

    def types(self, unit: Unit, of: str, name: str) -> Optional[Tuple[Type, ...]]:
        """The types with a name; None: unknown."""
        if name in unit.variables or (of and unit.language not in ("Go", "Ruby")) or \
                (unit.language == "Ruby" and of.split("::")[0] in ("", *CORE) and of):
            return None
        if unit.language == "Rust" and name == "Self":
            return None
        units, is_whole = self.world.declaring(unit, of, name)
        found = tuple(one.types[name] for one in units if name in one.types)
        if unit.language == "Ruby" and any(name in one.names for one in units):
            return None
        if unit.language == "Rust" and any(name in one.made for one in [unit, *units]):
            return None
        return found if is_whole and any(one.nodes for one in found) and len(found) <= FILES_OF_TYPE else None

    def of_type(self, node: Optional[Node], unit: Unit, owner: Optional[Type] = None) -> Optional[Value]:
        """A value of the type."""
        name = named(node)
        if name is None or (node is not None and node.type == "superclass"):
            return None
        if name == ("", "Self") and owner is not None:
            return self.own(owner)
        found = self.types(unit, *name)
        return Value(found) if found is not None else None

    def own(self, owner: Type) -> Optional[Value]:
        if not owner.name:
            return Value((owner,))
        found = self.types(owner.unit, "", owner.name)
        return Value(found) if found is not None else None

    def members(self, types: Tuple[Type, ...], depth: int = 0) -> Tuple[Members, bool]:
        """Members of values of these types, and whether these are all."""
        if types in self.held:
            return self.held[types]
        names: Members = {}
        is_whole = depth < DEPTH and bool(types)
        for one in types:
            is_whole = is_whole and not one.is_open and not self.is_added_to(one)
            for name, fields in one.fields.items():
                names.setdefault(name, []).extend(Member(node, kind, one.unit) for node, kind in fields)
            for name, nodes in one.methods.items():
                names.setdefault(name, []).extend(Member(node, result_of(node), one.unit) for node in nodes)
            for base in one.bases:
                inherited, is_all = self.base(base, one, depth + 1)
                is_whole = is_whole and is_all
                for name, every in inherited.items():
                    names.setdefault(name, []).extend(every)
        if not depth:
            self.held[types] = (names, is_whole)
        return names, is_whole

    def base(self, node: Node, of: Type, depth: int) -> Tuple[Members, bool]:
        name = named(node)
        if name is None:
            return {}, node.type in ("self", "lifetime", "integral_type")
        if name[1] == of.name and not name[0]:
            return {}, of.unit.language == "Ruby" and node.type == "constant"
        found = self.types(of.unit, *name)
        if found is not None and depth < DEPTH:
            return self.members(found, depth)
        known = BASES.get(of.unit.language, {}).get(name[1])
        return {one: [] for one in known or ()}, known is not None

    def is_added_to(self, one: Type) -> bool:
        """Whether macros or generators add members."""
        if one.unit.language == "Java":
            return any(spec.startswith("lombok") for spec in [*one.unit.imported.values(), *one.unit.stars])
        if one.unit.language == "Ruby":
            return "method_missing" in one.methods or (one.outer is not None and one.outer.name in CORE)
        for node in one.nodes if one.unit.language == "Rust" else ():
            siblings = node.parent.children if node.parent is not None else []
            at = siblings.index(node) - 1
            while at >= 0 and siblings[at].type == "attribute_item":
                text = siblings[at].text
                made = re.match(r"#\[\s*(?:derive\s*\((.*)\)|(?:cfg_attr|derive_where|pin_project)\b)", text, re.S)
                if made is not None and set(re.findall(r"\w+", made.group(1) or "x")) - DERIVES:
                    return True
                at -= 1
        return False

    # Values

    def hints(self, name: str, use: Use, unit: Unit) -> Optional[List[Hint]]:
        """Hints for a name; None: it is not declared where the use could see it."""
        found: List[Hint] = []
        function = use.function
        while function is not None:
            found += unit.hints.get(function, {}).get(name, [])
            function = unit.places.get(function, (None, None))[0]
        found += unit.hints.get(None, {}).get(name, []) if not found else []
        return found or None

    def value(self, node: Optional[Node], use: Use, unit: Unit) -> Optional[Value]:
        if node is None or self.depth > DEPTH:
            return None
        self.depth += 1
        try:
            return self.of_node(node, use, unit)
        finally:
            self.depth -= 1

    def of_node(self, node: Node, use: Use, unit: Unit) -> Optional[Value]:
        kind, table = node.type, unit.table
        if kind in table.inner:
            inner = node.get("argument") or (node.parts[-1] if node.parts else None)
            return self.value(inner, use, unit)
        if kind in table.this:
            return self.own(use.owner) if use.owner is not None else None
        if kind in table.makers:
            return self.of_type(node.get(table.makers[kind]), unit, use.owner) \
                if node.first("class_body") is None else None
        if kind in NAMES:
            return self.name(node.text, use, unit)
        if kind in table.members:
            of_field, name_field = table.members[kind]
            return self.of_member(node.get(of_field), node.get(name_field), use, unit)
        if kind in table.calls:
            call = call_of(node)
            given = call.arguments.parts if call.arguments is not None else []
            if call.name is None:
                return None
            if unit.language == "Ruby":
                return self.value(call.of, use, unit) if call.name.text == "new" and call.of is not None and \
                    call.of.type in ("constant", "scope_resolution") else None
            if call.of is None and call.name.text == "new" and unit.language == "Go" and given:
                return self.of_type(given[0], unit)
            if call.of is None:
                return self.of_functions(self.bare(call.name.text, use, unit)[0], use)
            return self.of_member(call.of, call.name, use, unit)
        if kind in QUALIFIED and unit.language == "Ruby":
            return self.of_type(node, unit)
        return None

    def name(self, name: str, use: Use, unit: Unit) -> Optional[Value]:
        hints = self.hints(name, use, unit)
        if hints is not None and name in unit.imported and unit.language == "Go":
            return None
        if hints is not None and use.owner is not None and name in use.owner.fields and \
                name not in unit.hints.get(use.function, {}):
            return None  # a variable of a function around the class, or a field of the class
        if hints is None and unit.table.has_outer_names and unit.language != "Ruby":
            owner = use.owner
            while owner is not None:
                value = self.own(owner)
                names, is_whole = self.members(value.types) if value is not None else ({}, False)
                if name in names or not is_whole:
                    return self.same([self.of_type(one.type, one.unit, owner) for one in names.get(name, [])])
                owner = owner.outer
        if hints is None:
            if unit.language == "Go":
                if name in unit.imported:
                    return Value(package=unit.imported[name])
                every = [one.hints[None][name] for one in self.world.reach(unit)[0] if name in one.hints.get(None, {})]
                return None if len(every) != 1 or len(every[0]) != 1 else self.of_type(every[0][0].type, unit)
            if name == "Self" and use.owner is not None:
                return self.own(use.owner)
            found = self.types(unit, "", name)
            return Value(found) if found is not None else None
        return self.same([self.of_hint(one, use, unit) for one in hints])

    def of_hint(self, hint: Hint, use: Use, unit: Unit) -> Optional[Value]:
        if hint.type is not None and hint.type.text not in ("var", "auto"):
            return self.of_type(hint.type, unit, use.owner)
        if hint.value is None or hint.value.type in NAMES:
            return None
        value = self.value(hint.value, use, unit)
        if hint.at:
            call = call_of(hint.value) if hint.value.type in unit.table.calls else None
            return self.of_result(call, hint.at, use, unit) if call is not None else value if hint.at == 1 and \
                hint.value.type in unit.table.makers else None
        return value

    def of_result(self, call: Call, at: int, use: Use, unit: Unit) -> Optional[Value]:
        """x, err := f()"""
        if call.name is None:
            return None
        functions = self.bare(call.name.text, use, unit)[0] if call.of is None else \
            self.found(call.of, call.name.text, use, unit)
        every = []
        for one in functions:
            parts = one.type.parts if one.type is not None and one.type.type == "parameter_list" else []
            flat = [part.get("type") for part in parts for _ in range(max(1, len([
                child for child in part.children if child.field == "name"])))]
            every.append(self.of_type(flat[at - 1], one.unit) if at <= len(flat) else None)
        return self.same(every)

    def same(self, values: List[Optional[Value]]) -> Optional[Value]:
        return values[0] if values and all(one is not None and one == values[0] for one in values) else None

    def of_functions(self, functions: List[Member], use: Use) -> Optional[Value]:
        return self.same([self.of_type(one.type, one.unit, use.owner) for one in functions])

    def found(self, of: Optional[Node], name: str, use: Use, unit: Unit) -> List[Member]:
        value = self.value(of, use, unit)
        if value is None:
            return []
        return self.has(value, unit)[0].get(name, [])

    def of_member(self, of: Optional[Node], name: Optional[Node], use: Use, unit: Unit) -> Optional[Value]:
        if name is None:
            return None
        value = self.value(of, use, unit)
        if value is None:
            return None
        every = self.has(value, unit)[0].get(name.text, [])
        owner = value.types[0] if value.types else None
        return self.same([self.of_type(one.type, one.unit, owner) for one in every])

    def has(self, value: Value, unit: Unit) -> Tuple[Members, bool]:
        if value.package is None:
            return self.members(value.types)
        key = (os.path.dirname(unit.path), value.package)
        if key in self.packages:
            return self.packages[key]
        units, is_whole = self.world.package(unit, value.package)
        names: Members = {}
        for one in units:
            for name, nodes in one.functions.items():
                names.setdefault(name, []).extend(Member(node, result_of(node), one) for node in nodes)
            for name, kind in one.types.items():
                names.setdefault(name, []).append(Member((kind.nodes or [one.tree])[0], None, one))
            for name, hints in one.hints.get(None, {}).items():
                names.setdefault(name, []).extend(Member(one.names[name], hint.type, one) for hint in hints)
        self.packages[key] = names, is_whole and bool(units)
        return self.packages[key]

    # Bare names

    def bare(self, name: str, use: Use, unit: Unit) -> Tuple[List[Member], Optional[Members]]:
        """The functions that a call may mean; without one, all candidates; None: unknown."""
        names: Members = {}
        if unit.table.has_outer_names:
            owner = use.owner
            while owner is not None:
                value = self.own(owner)
                theirs, is_whole = self.members(value.types) if value is not None else ({}, False)
                if not is_whole:
                    return [], None
                if name in theirs:
                    return theirs[name], None
                for one, every in theirs.items():
                    names.setdefault(one, every)
                owner = owner.outer if unit.language != "Ruby" else None
        functions, others, is_whole = self.within(unit)
        if name in functions:
            return functions[name], None
        if not is_whole or name in BUILTINS[unit.language] or name in OF_ALL[unit.language] or name in others or \
                self.world.is_word(unit, name):
            return [], None
        return [], {**functions, **names}

    def within(self, unit: Unit) -> Tuple[Members, Set[str], bool]:
        """Functions that a file can call by bare names, other names, and whether these are all."""
        if unit.path not in self.near:
            units, is_whole = self.world.reach(unit)
            functions: Members = {}
            others: Set[str] = set()
            for one in units:
                for name, nodes in one.functions.items():
                    functions.setdefault(name, []).extend(Member(node, result_of(node), one) for node in nodes)
                others.update(one.opaque, one.types, one.hints.get(None, {}), one.variables if one is unit else ())
            self.near[unit.path] = functions, others, is_whole
        return self.near[unit.path]


class Checker:
    def __init__(self, unit: Unit, judge: Judge, world: Units) -> None:
        self.unit = unit
        self.judge = judge
        self.world = world
        self.known = 0
        self.unknown = 0
        self.findings: List[Dict[str, object]] = []

    def report(self, kind: str, node: Node, name: str, message: str, near: str = "",
               where: Optional[Member] = None) -> None:
        if len(self.findings) >= FINDINGS:
            return
        row: Dict[str, Any] = {"kind": kind, "severity": "error", "line": node.line, "column": node.column,
                               "name": name, "message": message}
        if near:
            place: Dict[str, Any] = {} if where is None else {
                "path": os.path.relpath(where.unit.path, self.world.top), "line": where.node.line}
            row["nearest"] = {"name": near, **place}
        self.findings.append(row)

    def check(self) -> None:
        for node in self.unit.imports:
            problem = self.world.import_problem(node, self.unit)
            self.known += problem == ""
            self.unknown += problem is None
            if isinstance(problem, tuple):
                spec, near = problem
                self.report("import", node, spec, f"there is no module {spec}" if ":" not in spec else
                            f"there is no {spec}", near)
        for use in self.unit.uses:
            node = use.node
            if self.is_conditional(node):
                self.unknown += 1
            elif node.type in self.unit.table.calls:
                self.call(use)
            elif not (node.field == "function" and node.parent is not None and
                      node.parent.type in self.unit.table.calls):
                of_field, name_field = self.unit.table.members[node.type]
                self.member(node.get(of_field), node.get(name_field), use, None)

    def is_conditional(self, node: Node) -> bool:
        """Whether a node is between #if and #endif inside a function."""
        at = node.parent if self.unit.language in ("C", "C++") else None
        while at is not None and not at.type.startswith("preproc_"):
            at = at.parent
        return at is not None and not (at.type == "preproc_ifdef" and at.parent is not None and
                                       at.parent.type == "translation_unit" and at.has("#ifndef"))

    def call(self, use: Use) -> None:
        call = call_of(use.node)
        if use.node.type == "object_creation_expression":
            self.constructor(use.node.get("type"), use, call.arguments)
        elif call.name is None or call.name.type not in NAMES:
            self.unknown += 1
        elif call.of is not None:
            if self.unit.language == "Ruby" and call.name.text == "new" and \
                    call.of.type in ("constant", "scope_resolution"):
                self.constructor(call.of, use, call.arguments)
            else:
                self.member(call.of, call.name, use, call.arguments, call.is_path)
        else:
            self.bare(call.name, use, call.arguments)

    def bare(self, node: Node, use: Use, arguments: Optional[Node]) -> None:
        name, unit = node.text, self.unit
        if self.judge.hints(name, use, unit) is not None or name in unit.imported:
            self.known += 1
            return
        found, others = self.judge.bare(name, use, unit)
        if found and unit.language == "C++" and any(one.is_broken for one in self.world.reach(unit)[0]):
            self.known += 1  # there may be more functions of that name
        elif found:
            self.fits(found, name, use.node, arguments, False)
        elif others is None or not self.is_sure(use):
            self.unknown += 1
        else:
            near = nearest(name, sorted(one for one in others if one.isidentifier()))
            self.report("name", node, name, f"unknown name {name}", near, next(iter(others.get(near, [])), None))

    def is_sure(self, use: Use) -> bool:
        if self.unit.language == "Ruby":  # blocks may have another self; modules and top levels, other objects
            return self.world.is_plain_ruby(use.node, use.owner)
        return True

    def member(self, of: Optional[Node], node: Optional[Node], use: Use, arguments: Optional[Node],
               is_path: bool = False) -> None:
        unit = self.unit
        value = self.judge.value(of, use, unit) if of is not None and node is not None and node.type in NAMES else None
        if value is None or node is None or of is None:
            self.unknown += 1
            return
        name = node.text
        names, is_whole = self.judge.has(value, unit)
        if name in names:
            if arguments is not None and is_whole:
                self.fits(names[name], f"{of.text[:80]}.{name}", use.node, arguments, is_path)
            else:
                self.known += 1
            return
        if not is_whole or name in OF_ALL[unit.language] or self.world.may_be_member(unit, name, arguments is not None):
            self.unknown += 1
            return
        among = sorted(one for one in names if one.isidentifier() and names[one])
        near = nearest(name, among)
        text = of.text if len(of.text) < 80 and "\n" not in of.text else "(...)"
        what = f"package {value.package}" if value.package is not None else value.types[0].name or "it"
        message = f"{text}.{name}: attribute {near} exists, {name} does not" if near else \
            f"{text}.{name}: {what} has no attribute {name}"
        self.report("attribute", node, name, message, near, next(iter(names.get(near, [])), None))

    def constructor(self, kind: Optional[Node], use: Use, arguments: Optional[Node]) -> None:
        value = self.judge.of_type(kind, self.unit, use.owner)
        names, is_whole = self.judge.members(value.types) if value is not None else ({}, False)
        if value is None or not is_whole or use.node.first("class_body") is not None:
            self.unknown += 1
            return
        found = [Member(node, None, one.unit) for one in value.types
                 for node in one.methods.get(self.unit.table.constructor, [])]
        nodes = [(node, one.unit) for one in value.types for node in one.nodes]
        found += [Member(node, None, unit) for node, unit in nodes if node.type == "record_declaration"]
        if len(nodes) > 1 or (self.unit.language == "Ruby" and not found):
            self.unknown += 1
            return
        name = value.types[0].name
        self.fits(found, f"new {name}" if self.unit.language == "Java" else f"{name}.new", use.node, arguments, False,
                  Shape(0, 0))

    def fits(self, found: List[Member], name: str, node: Node, arguments: Optional[Node], is_path: bool,
             default: Optional[Shape] = None) -> None:
        shapes = [None if one.unit.is_broken and (one.unit.language == "C++" or one.unit.path.endswith(".h")) else
                  shape_of(one.node, one.unit.language) for one in found]
        shapes = shapes if shapes or default is None else [default]
        given = given_of(arguments, self.unit.language)
        if not shapes or given is None or None in shapes or self.world.is_macro(self.unit, name):
            self.known += bool(found)
            self.unknown += not found
            return
        n, n_keywords = given
        problems = []
        for shape in shapes:
            assert shape is not None
            extra = shape.has_self and is_path
            count = n + (1 if n_keywords and not shape.has_keywords else 0)
            least, most = shape.least + extra, None if shape.most is None else shape.most + extra
            if count < least and not (n_keywords and count + 1 >= least):
                problems.append(f"needs {least} argument{'' if least == 1 else 's'}, {count} given")
            elif most is not None and count > most:
                problems.append(f"takes at most {most} argument{'' if most == 1 else 's'}, {count} given")
        if len(problems) < len(shapes):
            self.known += 1
        else:
            self.report("arity", node, name, f"{name}() {problems[0]}")


class AskingUnits(Asking):
    def __init__(self, world: Units) -> None:
        super().__init__(world)
        self.units = world

    def judge(self) -> Any:
        return Judge(self.units)

    def checked(self, script: Any, judge: Any) -> Any:
        checker = Checker(script, judge, self.units)
        checker.check()
        return checker


def given_of(arguments: Optional[Node], language: str) -> Optional[Tuple[int, int]]:
    """Numbers of positional and of keyword arguments; None: unknown."""
    parts = [part for part in (arguments.parts if arguments is not None else [])
             if "comment" not in part.type and part.type not in ("block_argument", "attribute_item")]
    if any(part.type in BUNDLES or part.type == "ERROR" or part.type == "identifier" and part.text.isupper() and
           len(part.text) > 1 for part in parts) or (arguments is not None and arguments.has("...")):
        return None
    if len(parts) == 1 and parts[0].type == "call_expression" and language == "Go":
        return None  # f(g()), where g has several results
    if any(part.type == "call_expression" and (part.get("function") or part).text.isupper() for part in parts):
        return None  # a macro
    named_ones = [part for part in parts if part.type == "pair"]
    return len(parts) - len(named_ones), len(named_ones)
