# SPDX-License-Identifier: Apache-2.0
"""The names of a file of TypeScript or JavaScript: its scopes, and the bindings of each name."""

import re
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from script_tree import Node

FUNCTIONS = frozenset(
    "function_declaration generator_function_declaration function_signature function_expression generator_function "
    "arrow_function method_definition method_signature abstract_method_signature function_type constructor_type "
    "construct_signature call_signature".split())
CLASSES = frozenset("class_declaration abstract_class_declaration class".split())
BLOCKS = frozenset("statement_block for_statement for_in_statement switch_body catch_clause class_static_block "
                   "object_type interface_body enum_body mapped_type_clause conditional_type".split())
PATTERNS = frozenset("object_pattern array_pattern pair_pattern assignment_pattern object_assignment_pattern "
                     "rest_pattern".split())
WRAPPED = frozenset("parenthesized_expression non_null_expression".split())


class Binding(NamedTuple):
    kind: str  # import, function, class, interface, type, enum, space, variable, parameter, opaque
    node: Node
    name: str = ""  # of an import: the imported name; "*" = the module
    module: str = ""


class Scope:
    def __init__(self, kind: str, node: Node, parent: Optional["Scope"], script: "Script") -> None:
        self.kind = kind  # module, function, class, block
        self.node = node
        self.parent = parent
        self.script = script
        self.names: Dict[str, List[Binding]] = {}

    def bind(self, name: str, binding: Binding) -> None:
        self.names.setdefault(name, []).append(binding)

    def find(self, name: str) -> Optional["Scope"]:
        scope: Optional[Scope] = self
        while scope is not None and name not in scope.names:
            scope = scope.parent
        return scope


def string_of(node: Optional[Node]) -> str:
    """The content of a quoted string; "": not a plain string."""
    if node is None or node.type != "string":
        return ""
    return "".join(part.text for part in node.children if part.type == "string_fragment")


def plain(node: Optional[Node]) -> Optional[Node]:
    while node is not None and node.type in WRAPPED and node.parts:
        node = node.parts[0]
    return node


def required(node: Optional[Node]) -> str:
    """The module of require("M") or import("M")."""
    node = plain(node)
    if node is None or node.type != "call_expression":
        return ""
    function, arguments = node.get("function"), node.get("arguments")
    if function is None or arguments is None or len(arguments.parts) < 1 or \
            function.text not in ("require", "import"):
        return ""
    return string_of(arguments.parts[0])


class Script:
    """A file. `exports`: name: (local name, module it is from); None for an expression."""

    def __init__(self, path: str, tree: Node) -> None:
        self.path = path
        self.tree = tree
        self.is_typed = path.endswith((".ts", ".tsx", ".mts", ".cts"))
        self.scope = Scope("module", tree, None, self)
        self.scopes: Dict[Node, Scope] = {tree: self.scope}
        self.exports: Dict[str, Tuple[str, str, Node]] = {}
        self.stars: List[Tuple[str, Node]] = []  # export * from
        self.is_module = False  # has import or export
        self.is_common = False  # has require or module.exports
        self.is_open = False  # may have exports that are not visible here
        self.assigned: Set[str] = set()  # reassigned names
        self.stored: Set[str] = set()  # assigned attributes
        self.asked: Set[str] = set()  # names and attributes whose existence is tested
        self.narrowed: Set[Tuple[Node, str]] = set()  # (function, expression) whose type is narrowed
        self.ambient: Dict[str, Scope] = {}  # declare module "M"
        text = tree.source
        self.is_loose = b"@ts-nocheck" in text or b"@flow" in text
        Builder(self).visit(tree, self.scope)

    @staticmethod
    def rough(path: str, text: bytes) -> "Script":
        """For a file that cannot be parsed: it may export any of its words, and nothing else."""
        made = Script(path, Node("program", "", 0, len(text), True, text))
        words = set(re.findall(r"[\w$]+", text.decode()))
        made.is_module = "export" in words
        made.is_open = re.search(rb"export\s*[*=]|\bexports\b|\brequire\b", text) is not None
        made.exports = {word: ("", "", made.tree) for word in words}
        return made

    def function_of(self, node: Node) -> Node:
        at: Optional[Node] = node
        while at is not None and at.type not in FUNCTIONS:
            at = at.parent
        return at if at is not None else self.tree


class Builder:
    def __init__(self, script: Script) -> None:
        self.script = script

    def children(self, node: Node, scope: Scope) -> None:
        for child in node.children:
            if child.named:
                self.visit(child, scope)

    def open(self, kind: str, node: Node, scope: Scope) -> Scope:
        made = Scope(kind, node, scope, self.script)
        self.script.scopes[node] = made
        return made

    def visit(self, node: Node, scope: Scope) -> None:
        how = getattr(self, "visit_" + node.type, None)
        if how is not None:
            how(node, scope)
        elif node.type in FUNCTIONS:
            self.function(node, scope)
        elif node.type in CLASSES:
            self.declare_class(node, scope)
        elif node.type in BLOCKS:
            self.children(node, self.open("block", node, scope))
        else:
            self.children(node, scope)

    # Declarations

    def name(self, node: Node, scope: Scope, kind: str) -> None:
        name = node.get("name")
        if name is not None:
            scope.bind(name.text, Binding(kind, node))

    def function(self, node: Node, scope: Scope) -> None:
        inner = self.open("function", node, scope)
        if node.type.endswith(("_declaration", "function_signature")):
            self.name(node, scope, "function")
        elif node.type in ("function_expression", "generator_function"):
            self.name(node, inner, "function")
        one = node.get("parameter")
        if one is not None:
            inner.bind(one.text, Binding("opaque", one))
        for child in node.parts:
            if child.field == "name" and child.type != "computed_property_name":
                continue
            if child.type == "statement_block" and child.field == "body":
                self.script.scopes[child] = inner
                self.children(child, inner)
            else:
                self.visit(child, inner)

    def parameter(self, node: Node, scope: Scope) -> None:
        pattern = node.get("pattern")
        if pattern is not None and pattern.type == "identifier":
            scope.bind(pattern.text, Binding("parameter", node))
        elif pattern is not None:
            self.pattern(pattern, scope)
        for child in node.parts:
            if child.field != "pattern":
                self.visit(child, scope)

    visit_required_parameter = visit_optional_parameter = parameter

    def visit_formal_parameters(self, node: Node, scope: Scope) -> None:
        for child in node.parts:
            if child.type in ("identifier", *PATTERNS):  # of JavaScript
                self.pattern(child, scope)
            else:
                self.visit(child, scope)

    def pattern(self, node: Node, scope: Scope) -> None:
        """Bind the names in a pattern; other parts are expressions."""
        if node.type in ("identifier", "shorthand_property_identifier_pattern"):
            scope.bind(node.text, Binding("opaque", node))
        elif node.type in ("assignment_pattern", "object_assignment_pattern"):
            for child in node.parts:
                if child.field == "left":
                    self.pattern(child, scope)
                else:
                    self.visit(child, scope)
        elif node.type == "pair_pattern":
            for child in node.parts:
                if child.field == "value":
                    self.pattern(child, scope)
                elif child.type == "computed_property_name":
                    self.visit(child, scope)
        elif node.type in PATTERNS:
            for child in node.parts:
                self.pattern(child, scope)
        else:
            self.visit(node, scope)

    def declarations(self, node: Node, scope: Scope) -> None:
        into = scope
        if node.type == "variable_declaration":
            while into.kind == "block" and into.parent is not None:
                into = into.parent
        for one in node.all("variable_declarator"):
            name = one.get("name")
            if name is not None and name.type == "identifier":
                into.bind(name.text, Binding("variable", one))
            elif name is not None:
                module = required(one.get("value"))
                if module and name.type == "object_pattern":
                    self.taken(name, module, into)
                else:
                    self.pattern(name, into)
            for child in one.parts:
                if child.field != "name":
                    self.visit(child, scope)

    visit_lexical_declaration = visit_variable_declaration = declarations

    def taken(self, pattern: Node, module: str, scope: Scope) -> None:
        """const {a, b: c} = require("M")."""
        for part in pattern.parts:
            if part.type == "shorthand_property_identifier_pattern":
                scope.bind(part.text, Binding("import", part, part.text, module))
            elif part.type == "pair_pattern" and (part.get("value") or part).type == "identifier" and \
                    (part.get("key") or part).type == "property_identifier":
                key, value = part.get("key"), part.get("value")
                assert key is not None and value is not None
                scope.bind(value.text, Binding("import", key, key.text, module))
            else:
                self.pattern(part, scope)

    def visit_for_in_statement(self, node: Node, scope: Scope) -> None:
        inner = self.open("block", node, scope)
        for child in node.parts:
            if child.field == "left" and node.get("kind") is not None:
                into: Scope = inner
                if node.has("var"):
                    while into.kind == "block" and into.parent is not None:
                        into = into.parent
                self.pattern(child, into)
            else:
                if child.field == "left" and child.type == "identifier":
                    self.script.assigned.add(child.text)
                self.visit(child, inner)

    def visit_catch_clause(self, node: Node, scope: Scope) -> None:
        inner = self.open("block", node, scope)
        for child in node.parts:
            if child.field == "parameter":
                self.pattern(child, inner)
            else:
                self.visit(child, inner)

    def declare_class(self, node: Node, scope: Scope) -> None:
        inner = self.open("class", node, scope)
        self.name(node, inner if node.type == "class" else scope, "class")
        for child in node.parts:
            if child.field != "name":
                self.visit(child, scope if child.type == "decorator" else inner)

    def with_types(self, node: Node, scope: Scope, kind: str) -> None:
        self.name(node, scope, kind)
        inner = self.open("block", node, scope)
        for child in node.parts:
            if child.field != "name":
                self.visit(child, inner)

    def visit_interface_declaration(self, node: Node, scope: Scope) -> None:
        self.with_types(node, scope, "interface")

    def visit_type_alias_declaration(self, node: Node, scope: Scope) -> None:
        self.with_types(node, scope, "type")

    def visit_enum_declaration(self, node: Node, scope: Scope) -> None:
        self.with_types(node, scope, "enum")

    def visit_enum_body(self, node: Node, scope: Scope) -> None:
        for child in node.parts:
            name = child.get("name") or child
            scope.bind(name.text.strip("'\""), Binding("opaque", name))
            for part in child.parts:
                if part.field == "value":
                    self.visit(part, scope)

    def visit_type_parameter(self, node: Node, scope: Scope) -> None:
        self.name(node, scope, "opaque")
        self.children(node, scope)

    def visit_mapped_type_clause(self, node: Node, scope: Scope) -> None:
        inner = self.open("block", node, scope)
        self.name(node, inner, "opaque")
        self.children(node, inner)

    def visit_infer_type(self, node: Node, scope: Scope) -> None:
        for child in node.all("type_identifier"):
            scope.bind(child.text, Binding("opaque", child))
        self.children(node, scope)

    def visit_index_signature(self, node: Node, scope: Scope) -> None:
        inner = self.open("block", node, scope)
        self.name(node, inner, "opaque")
        self.children(node, inner)

    def space(self, node: Node, scope: Scope) -> None:
        """namespace A.B {}, declare module "M" {}."""
        name = node.get("name")
        inner = self.open("module", node, scope)
        if name is not None and name.type == "string":
            self.script.ambient[string_of(name)] = inner
        elif name is not None:
            scope.bind(name.text.split(".")[0], Binding("space" if "." not in name.text else "opaque", node))
        for child in node.parts:
            if child.field == "body":
                self.script.scopes[child] = inner
                self.children(child, inner)

    visit_internal_module = visit_module = space

    # Imports and exports

    def visit_import_statement(self, node: Node, scope: Scope) -> None:
        self.script.is_module = True
        module = string_of(node.get("source"))
        for clause in node.all("import_clause", "import_require_clause"):
            if clause.type == "import_require_clause":
                name, module = clause.first("identifier"), string_of(clause.get("source"))
                if name is not None:
                    scope.bind(name.text, Binding("import", node, "*", module))
                continue
            for part in clause.parts:
                if part.type == "identifier":
                    scope.bind(part.text, Binding("import", part, "default", module))
                elif part.type == "namespace_import":
                    scope.bind(part.parts[0].text, Binding("import", part, "*", module))
                elif part.type == "named_imports":
                    for one in part.all("import_specifier"):
                        name, alias = one.get("name"), one.get("alias")
                        if name is not None:
                            taken = string_of(name) or name.text
                            scope.bind((alias or name).text, Binding("import", one, taken, module))

    def visit_import_alias(self, node: Node, scope: Scope) -> None:
        names = node.all("identifier")
        if names:
            scope.bind(names[0].text, Binding("opaque", node))

    def export(self, name: str, local: str, module: str, node: Node) -> None:
        self.script.exports.setdefault(name, (local, module, node))

    def visit_export_statement(self, node: Node, scope: Scope) -> None:
        is_top = scope is self.script.scope
        if is_top:
            self.script.is_module = True
            self.exported(node)
        for child in node.parts:
            if child.field != "source" and child.type not in ("export_clause", "namespace_export"):
                self.visit(child, scope)

    def exported(self, node: Node) -> None:
        module = string_of(node.get("source"))
        clause, declaration = node.first("export_clause"), node.get("declaration")
        space = node.first("namespace_export")
        for one in clause.all("export_specifier") if clause is not None else []:
            name, alias = one.get("name"), one.get("alias")
            if name is not None:
                public = alias or name
                self.export(string_of(public) or public.text, string_of(name) or name.text, module, one)
        if space is not None and space.parts:
            self.export(string_of(space.parts[0]) or space.parts[0].text, "*", module, node)
        elif node.has("*"):
            self.stars.append((module, node))
        if node.has("="):
            self.script.is_open = True
        name = declaration.get("name") if declaration is not None else None
        if node.has("default"):
            self.export("default", name.text if name is not None else "", "", node)
        elif declaration is not None:
            for local in names_of(declaration):
                self.export(local, local, "", declaration)

    @property
    def stars(self) -> List[Tuple[str, Node]]:
        return self.script.stars

    # Facts collected on the way

    def visit_assignment_expression(self, node: Node, scope: Scope) -> None:
        left, right = plain(node.get("left")), node.get("right")
        if left is not None and left.type in ("identifier", "object_pattern", "array_pattern"):
            for part in left.walk():
                if part.type in ("identifier", "shorthand_property_identifier_pattern"):
                    self.script.assigned.add(part.text)
        if left is not None and left.type == "member_expression":
            self.stored(left, right)
        self.children(node, scope)

    visit_augmented_assignment_expression = visit_assignment_expression

    def stored(self, left: Node, right: Optional[Node]) -> None:
        name, of = left.get("property"), left.get("object")
        if name is None or of is None:
            return
        self.script.stored.add(name.text)
        if of.text in ("exports", "module.exports"):
            self.script.is_common = True
            self.export(name.text, "", "", name)
        if left.text == "module.exports":
            self.script.is_common = True
            if right is None or right.type != "object" or left.parent is None or left.parent.parent is None or \
                    left.parent.parent.type != "expression_statement":
                self.script.is_open = True
            elif right.first("spread_element") is not None or "\0" in self.script.exports:
                self.script.is_open = True
            else:
                self.export("\0", "", "", right)
                for part in right.parts:
                    key = part.get("key") or part.get("name") or part
                    local = part.text if part.type == "shorthand_property_identifier" else ""
                    self.export(string_of(key) or key.text, local, "", part)
        elif of.text == "exports" or "exports" in left.text:
            self.script.is_common = True

    def visit_call_expression(self, node: Node, scope: Scope) -> None:
        function, arguments = node.get("function"), node.get("arguments")
        if function is not None and function.type == "identifier" and function.text == "require":
            self.script.is_common = True
        if arguments is not None:
            for part in arguments.parts:
                if part.text in ("exports", "module.exports", "module"):
                    self.script.is_open = True
            last = function.text.split(".")[-1] if function is not None else ""
            if last.startswith(("has", "call", "define")):  # hasOwnProperty.call(x, "name")
                self.script.asked.update(string_of(part) for part in arguments.parts)
            is_guard = last.startswith(("is", "has", "assert"))
            if function is not None and (is_asked(node) or is_guard):
                for one in arguments.parts:
                    self.narrow(one)
            if function is not None and is_asked(node) and is_guard:
                self.narrow(function.get("object"))
        self.children(node, scope)

    def visit_binary_expression(self, node: Node, scope: Scope) -> None:
        operator = node.get("operator")
        if operator is not None and operator.type in ("instanceof", "in"):
            self.narrow(node.get("left" if operator.type == "instanceof" else "right"))
            left = node.get("left")
            if operator.type == "in":
                self.script.asked.add(string_of(left))
        self.children(node, scope)

    def narrow(self, node: Optional[Node]) -> None:
        """Mark an expression as narrowed: after a test in a function, it may have more members than its type."""
        node = plain(node)
        if node is not None and node.type in ("identifier", "this", "member_expression"):
            self.script.narrowed.add((self.script.function_of(node), node.text))

    def visit_unary_expression(self, node: Node, scope: Scope) -> None:
        argument = plain(node.get("argument"))
        if node.has("typeof") and argument is not None:
            if argument.type == "identifier":
                self.script.asked.add(argument.text)
            elif argument.type == "member_expression" and argument.get("property") is not None:
                self.script.asked.add((argument.get("property") or argument).text)
            self.narrow(argument)
        self.children(node, scope)


def is_asked(node: Node) -> bool:
    """Whether the result of an expression is a condition."""
    child, parent = node, node.parent
    while parent is not None and parent.type in ("parenthesized_expression", "unary_expression", "binary_expression"):
        if parent.type == "binary_expression" and (parent.get("operator") or parent).type in ("&&", "||", "??"):
            return True
        child, parent = parent, parent.parent
    return parent is not None and (child.field == "condition" or parent.type == "return_statement" or
                                   (parent.type == "arrow_function" and child.field == "body"))


def names_of(declaration: Node) -> List[str]:
    """Names defined by an exported declaration."""
    name = declaration.get("name")
    if name is not None:
        return [name.text.split(".")[0]]
    if declaration.type == "ambient_declaration":
        return [one for part in declaration.parts for one in names_of(part)]
    if declaration.type == "import_alias":
        return [part.text for part in declaration.all("identifier")[:1]]
    found: List[str] = []
    for one in declaration.all("variable_declarator"):
        pattern = one.get("name")
        if pattern is not None:
            found += [part.text for part in pattern.walk()
                      if part.type in ("identifier", "shorthand_property_identifier_pattern")]
    if declaration.type in ("expression_statement",):
        found += [one for part in declaration.parts for one in names_of(part)]
    return found
