# SPDX-License-Identifier: Apache-2.0
"""The values of expressions in TypeScript or JavaScript, as far as they are evident; their members, and results of
calls."""

from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from script_known import OF_INSTANCES, OF_OBJECTS
from script_names import CLASSES, FUNCTIONS, Binding, Scope, Script, plain, required, string_of
from script_tree import Node
from script_world import World

DEPTH = 14  # of nested look-ups for a value
OBJECT_NAMES = frozenset("constructor toString toLocaleString valueOf hasOwnProperty isPrototypeOf "
                         "propertyIsEnumerable __proto__ __defineGetter__ __lookupGetter__".split())
FUNCTION_NAMES = frozenset("apply call bind length name prototype arguments caller".split())
PRIMITIVES = {"string": "String", "number": "Number", "boolean": "Boolean"}
GENERICS = {"Array": "Array", "ReadonlyArray": "Array", "Promise": "Promise", "Map": "Map", "Set": "Set",
            "RegExp": "RegExp", "Date": "Date"}
LITERALS = {"string": "String", "template_string": "String", "number": "Number", "array": "Array", "regex": "RegExp",
            "true": "Boolean", "false": "Boolean"}
RETURNS: Dict[str, Dict[str, str]] = {
    "String": {**dict.fromkeys("charAt concat normalize padEnd padStart repeat replace replaceAll slice substr "
                               "substring toLowerCase toUpperCase toLocaleLowerCase toLocaleUpperCase trim trimEnd "
                               "trimStart toString".split(), "String"), "split": "Array",
               **dict.fromkeys("indexOf lastIndexOf charCodeAt search".split(), "Number")},
    "Array": {**dict.fromkeys("concat filter map slice splice flat flatMap".split(), "Array"),
              **dict.fromkeys("join toString".split(), "String"), "indexOf": "Number"},
    "Number": dict.fromkeys("toFixed toPrecision toString toExponential".split(), "String"),
}
Place = Tuple[Node, Scope]


class Value(NamedTuple):
    """kind: module (script), function, class, type, instance, enum, space, object, std, static, builtin (name)."""

    kind: str
    places: Tuple[Place, ...] = ()
    name: str = ""
    script: Optional[Script] = None


class Member(NamedTuple):
    nodes: List[Node]
    scope: Scope


class Members(NamedTuple):
    names: Dict[str, Member]
    is_whole: bool


class Shape(NamedTuple):
    least: int
    most: Optional[int]  # None: any number
    names: List[str]
    node: Node
    scope: Scope


def std(name: str, places: Tuple[Place, ...] = ()) -> Value:
    return Value("std", places, name)


def key_of(node: Node) -> str:
    """The name of a member; "": computed."""
    name = node.get("name") or node.get("property") or node.get("key")
    if name is None:
        return ""
    if name.type == "computed_property_name":
        return string_of(name.parts[0]) if name.parts else ""
    return string_of(name) if name.type == "string" else name.text


class Judge:
    def __init__(self, world: World) -> None:
        self.world = world
        self.depth = 0
        self.busy: Set[Tuple[Node, str]] = set()
        self.cache: Dict[Tuple[Scope, str], Optional[Value]] = {}
        self.held: Dict[Tuple[Tuple[Place, ...], bool], Members] = {}

    # Modules

    def module(self, spec: str, script: Script) -> Optional[Value]:
        found = self.world.resolve(spec, script.path)
        if found.kind == "builtin":
            return Value("builtin", name=found.path)
        if found.kind == "file" and found.path.endswith((".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")):
            other = self.world.script(found.path) or self.world.rough.get(found.path)
            return Value("module", script=other) if other is not None else None
        return None

    def exports(self, script: Script, depth: int = 0) -> Tuple[Set[str], bool]:
        """Names that a module exports, and whether these are all."""
        is_declared = script.path.endswith((".d.ts", ".d.mts", ".d.cts"))
        names = {name for name in script.exports if name != "\0"}
        is_whole = (script.is_module or (script.is_common and bool(names))) and not script.is_open and \
            not script.is_loose and depth < DEPTH
        if is_declared:
            names |= set(script.scope.names)
        if script.is_module and script.is_common and not script.is_typed:
            is_whole = False
        for spec, _ in script.stars if is_whole else []:
            other = self.module(spec, script)
            if other is None or other.script is None:
                return names, False
            theirs, is_all = self.exports(other.script, depth + 1)
            names |= theirs - {"default"}
            is_whole = is_whole and is_all
        return names, is_whole

    def exported(self, script: Script, name: str, depth: int = 0) -> Optional[Value]:
        if depth > DEPTH or script.is_loose:
            return None
        row = script.exports.get(name)
        if row is not None:
            local, module, node = row
            if module:
                return self.taken(module, local, script, depth + 1)
            if local:
                return self.name(local, script.scope)
            return None
        for spec, _ in script.stars:
            other = self.module(spec, script)
            if other is not None and other.script is not None and name in self.exports(other.script)[0]:
                return self.exported(other.script, name, depth + 1)
        return None

    def taken(self, module: str, name: str, script: Script, depth: int = 0) -> Optional[Value]:
        of = self.module(module, script)
        if of is None or name == "*":
            return of
        if of.kind == "builtin" or of.script is None:
            return of if name == "default" else None
        if of.script.is_common and not of.script.is_module:
            return of if name == "default" else None
        return self.exported(of.script, name, depth)

    # Names

    def name(self, name: str, scope: Scope) -> Optional[Value]:
        where = scope.find(name)
        if where is None:
            return Value("static", name=name) if name in OF_OBJECTS else None
        key = (where, name)
        if key in self.cache:
            return self.cache[key]
        if (where.node, name) in self.busy or self.depth > DEPTH:
            return None
        self.busy.add((where.node, name))
        self.depth += 1
        try:
            value = self.bound(name, where)
        finally:
            self.depth -= 1
            self.busy.discard((where.node, name))
        if not self.busy:
            self.cache[key] = value
        return value

    def bound(self, name: str, scope: Scope) -> Optional[Value]:
        every = scope.names[name]
        kinds = {binding.kind for binding in every}
        first = every[0]
        if name in scope.script.assigned and kinds & {"function", "class"}:
            return None
        if kinds <= {"class", "interface", "space"} and "class" in kinds or kinds == {"interface"}:
            kind = "class" if "class" in kinds else "type"
            return Value(kind, tuple((binding.node, scope) for binding in every), name)
        if kinds <= {"function", "space"}:
            return Value("function", tuple((binding.node, scope) for binding in every), name)
        if kinds <= {"enum", "space"}:
            kind = "enum" if "enum" in kinds else "space"
            return Value(kind, tuple((binding.node, scope) for binding in every), name)
        if kinds == {"type"} and len(every) == 1:
            return Value("type", ((first.node, scope),), name)
        values = [binding for binding in every if binding.kind not in ("interface", "type")]
        if len(values) != 1:
            return None
        return self.one(values[0], name, scope)

    def one(self, binding: Binding, name: str, scope: Scope) -> Optional[Value]:
        if binding.kind == "import":
            return self.taken(binding.module, binding.name, scope.script)
        if binding.kind == "variable":
            return self.variable(binding.node, name, scope)
        if binding.kind == "parameter":
            return self.typed(binding.node.get("type"), scope)
        return None

    def variable(self, node: Node, name: str, scope: Scope) -> Optional[Value]:
        if node.get("type") is not None:
            return self.typed(node.get("type"), scope)
        is_const = node.parent is not None and node.parent.has("const")
        value = node.get("value")
        if value is None or (not is_const and name in scope.script.assigned) or (
                not is_const and not scope.script.is_typed):
            return None
        module = required(value)
        if module and plain(value) is not None:
            return self.module(module, scope.script)
        if plain(value) is not value and value.type == "non_null_expression":
            return self.value(value, scope)
        if value.type in FUNCTIONS:
            return Value("function", ((value, scope),), name)
        if value.type in CLASSES:
            return Value("class", ((value, scope),), name)
        return self.value(value, scope)

    # Types

    def typed(self, node: Optional[Node], scope: Scope) -> Optional[Value]:
        """A value of the type."""
        if node is None or self.depth > DEPTH:
            return None
        self.depth += 1
        try:
            return self.of_type(node, scope)
        finally:
            self.depth -= 1

    def of_type(self, node: Node, scope: Scope) -> Optional[Value]:
        if node.type in ("type_annotation", "parenthesized_type", "readonly_type"):
            return self.typed(node.parts[0], scope) if len(node.parts) == 1 else None
        if node.type == "predefined_type":
            return std(PRIMITIVES[node.text]) if node.text in PRIMITIVES else None
        if node.type in ("array_type", "tuple_type"):
            return std("Array", ((node.parts[0], scope),) if node.type == "array_type" else ())
        if node.type == "literal_type" and node.parts:
            return std(LITERALS[node.parts[0].type]) if node.parts[0].type in LITERALS else None
        if node.type == "object_type":
            return Value("instance", ((node, scope),))
        if node.type == "union_type":
            some = [part for part in flat(node, "union_type") if part.text not in ("null", "undefined")]
            return self.typed(some[0], scope) if len(some) == 1 else None
        if node.type == "intersection_type":
            return self.both(node, scope)
        if node.type == "generic_type":
            return self.generic(node, scope)
        if node.type == "type_identifier":
            return self.instance(self.name(node.text, scope)) if scope.find(node.text) is not None else \
                std(GENERICS[node.text]) if node.text in ("RegExp", "Date") and \
                node.text not in self.world.words().merged else None
        if node.type == "nested_type_identifier":
            module, name = node.get("module"), node.get("name")
            if module is None or name is None or module.type != "identifier":
                return None
            of = self.name(module.text, scope)
            if of is not None and of.script is not None:
                return self.instance(self.exported(of.script, name.text))
        return None

    def both(self, node: Node, scope: Scope) -> Optional[Value]:
        places: List[Place] = []
        for part in flat(node, "intersection_type"):
            value = self.typed(part, scope)
            if value is None or value.kind != "instance":
                return None
            places += value.places
        return Value("instance", tuple(places))

    def generic(self, node: Node, scope: Scope) -> Optional[Value]:
        name, arguments = node.get("name"), node.get("type_arguments")
        if name is None or arguments is None:
            return None
        if scope.find(name.text) is None and name.text in ("Partial", "Required", "Readonly", "NonNullable"):
            return self.typed(arguments.parts[0], scope) if arguments.parts else None
        if scope.find(name.text) is None and name.text in GENERICS:
            inner = tuple((part, scope) for part in arguments.parts[:1])
            return std(GENERICS[name.text], inner)
        value = self.name(name.text, scope) if name.type == "type_identifier" else None
        return self.instance(value) if value is not None and value.kind in ("class", "type") else None

    def instance(self, value: Optional[Value]) -> Optional[Value]:
        """A value of the type with a name."""
        if value is None:
            return None
        if value.kind == "type" and len(value.places) == 1 and value.places[0][0].type == "type_alias_declaration":
            alias, scope = value.places[0]
            return self.typed(alias.get("value"), scope.script.scopes[alias])
        if value.kind in ("class", "type"):
            return Value("instance", value.places, value.name)
        return None

    # Expressions

    def value(self, node: Optional[Node], scope: Scope) -> Optional[Value]:
        if node is None or self.depth > DEPTH:
            return None
        self.depth += 1
        try:
            return self.of_node(node, scope)
        finally:
            self.depth -= 1

    def of_node(self, node: Node, scope: Scope) -> Optional[Value]:
        kind = node.type
        if kind in ("identifier", "this", "member_expression") and self.is_narrowed(node, scope):
            return None
        if kind == "identifier":
            return self.name(node.text, scope)
        if kind in ("parenthesized_expression", "non_null_expression"):
            return self.value(node.parts[0], scope) if len(node.parts) == 1 else None
        if kind in ("as_expression", "satisfies_expression"):
            return self.typed(node.parts[1], scope) if len(node.parts) == 2 and kind == "as_expression" else None
        if kind in LITERALS:
            return std(LITERALS[kind])
        if kind == "this":
            return self.this(node, scope)
        if kind == "member_expression":
            return self.member(node, scope)
        if kind == "call_expression":
            return self.called(node, scope)
        if kind == "new_expression":
            return self.made(node, scope)
        if kind == "object" and scope.script.is_typed:
            return Value("object", ((node, scope),))
        if kind == "await_expression" and node.parts:
            value = self.value(node.parts[0], scope)
            if value is not None and value.kind == "std" and value.name == "Promise":
                return self.typed(value.places[0][0], value.places[0][1]) if value.places else None
            module = required(node.parts[0])
            return self.module(module, scope.script) if module else None
        return None

    def is_narrowed(self, node: Node, scope: Scope) -> bool:
        text = node.text
        at = scope.script.function_of(node)
        while True:
            if (at, text) in scope.script.narrowed:
                return True
            if at.parent is None:
                return False
            at = scope.script.function_of(at.parent)

    def this(self, node: Node, scope: Scope) -> Optional[Value]:
        at, is_static = node.parent, False
        while at is not None and at.type != "class_body":
            if at.type in FUNCTIONS and at.type not in ("arrow_function", "method_definition"):
                return None
            if at.type == "object" and node_in_method(node, at):
                return None
            if at.type in ("method_definition", "public_field_definition", "field_definition"):
                is_static = at.has("static")
            is_static = is_static or at.type == "class_static_block"
            at = at.parent
        if at is None or at.parent is None:
            return None
        owner = at.parent
        name = owner.get("name")
        outer = scope.script.scopes[owner].parent or scope
        every: Tuple[Place, ...] = ((owner, outer),)
        if name is not None and owner.type != "class":
            bindings = outer.names.get(name.text, [])
            every = tuple((one.node, outer) for one in bindings if one.kind in ("class", "interface", "space"))
        return Value("class" if is_static else "instance", every, name.text if name is not None else "")

    def member(self, node: Node, scope: Scope) -> Optional[Value]:
        of, name = self.value(node.get("object"), scope), node.get("property")
        return self.attribute(of, name.text) if of is not None and name is not None else None

    def attribute(self, of: Value, name: str) -> Optional[Value]:
        if of.kind == "module" and of.script is not None:
            return self.exported(of.script, name)
        if of.kind not in ("class", "instance", "object", "space"):
            return None
        found = self.members(of).names.get(name)
        if found is None:
            return None
        first = found.nodes[0]
        if first.type in ("method_definition", "method_signature", "abstract_method_signature", "function_signature",
                          "function_declaration"):
            if first.has("get"):
                return self.typed(first.get("return_type"), self.inner(first, found.scope))
            if first.has("set"):
                return None
            return Value("function", tuple((one, found.scope) for one in found.nodes), name)
        if len(found.nodes) > 1:
            return None
        if first.type in ("public_field_definition", "property_signature", "required_parameter", "optional_parameter"):
            if first.get("type") is not None:
                return self.typed(first.get("type"), found.scope)
            value = first.get("value")
            if value is not None and found.scope.script.is_typed and (
                    value.type in LITERALS or value.type == "new_expression"):
                return self.value(value, found.scope)
        if first.type == "shorthand_property_identifier":
            return self.name(first.text, found.scope)
        if first.type in ("class_declaration", "enum_declaration", "abstract_class_declaration"):
            return self.name(name, found.scope)
        if first.type == "pair" and of.kind == "object":
            value = first.get("value")
            return Value("function", ((value, found.scope),), name) if value is not None and value.type in FUNCTIONS \
                else None
        return None

    def inner(self, node: Node, scope: Scope) -> Scope:
        return scope.script.scopes.get(node, scope)

    def called(self, node: Node, scope: Scope) -> Optional[Value]:
        function = node.get("function")
        value = self.value(function, scope)
        if value is None:
            return self.known_result(function, scope)
        if value.kind != "function" or len(value.places) != 1:
            return None
        made, where = value.places[0]
        returns = made.get("return_type")
        if returns is None or not returns.parts:
            return None
        if returns.parts[0].type == "this_type" and function is not None and function.type == "member_expression":
            return self.value(function.get("object"), scope)
        if made.get("type_parameters") is not None:  # T may be anything
            result = self.typed(returns, self.inner(made, where))
            return result if result is not None and result.kind == "instance" else None
        return self.typed(returns, self.inner(made, where))

    def known_result(self, function: Optional[Node], scope: Scope) -> Optional[Value]:
        if function is None or function.type != "member_expression":
            return None
        of, name = self.value(function.get("object"), scope), function.get("property")
        if of is None or of.kind != "std" or name is None:
            return None
        made = RETURNS.get(of.name, {}).get(name.text)
        keeps = made == "Array" and name.text in ("filter", "slice", "splice", "concat")
        return std(made, of.places if keeps else ()) if made is not None else None

    def made(self, node: Node, scope: Scope) -> Optional[Value]:
        of = node.get("constructor")
        if of is None:
            return None
        value = self.value(of, scope)
        if value is not None:
            return self.instance(value) if value.kind == "class" else None
        if of.type == "identifier" and scope.find(of.text) is None and of.text in GENERICS:
            return std(of.text)
        return None

    # Members of values

    def has(self, value: Value, name: str) -> Tuple[Optional[bool], Dict[str, Optional[Node]], str]:
        """Whether it has a member (None: unknown), all members, and a description."""
        names: Dict[str, Optional[Node]] = {}
        if value.kind == "builtin":
            has = self.world.node().get(value.name)
            names = dict.fromkeys(has or ())
            return (name in names or name == "default" if has else None), names, f"module {value.name}"
        if value.kind == "module" and value.script is not None:
            every, is_whole = self.exports(value.script)
            names = {one: script_place(value.script, one) for one in every}
            is_there = name in every or (name == "default" and value.script.is_common)
            return is_there or (False if is_whole else None), names, "module"
        if value.kind in ("std", "static"):
            table = OF_INSTANCES if value.kind == "std" else OF_OBJECTS
            names = dict.fromkeys(table[value.name])
            words = self.world.words()
            if name in names or name in OBJECT_NAMES or name in FUNCTION_NAMES:
                return True, names, value.name
            of = {value.name, value.name + "Constructor", "Readonly" + value.name}
            return (None if of & words.merged or name in words.members else False), names, value.name
        if value.kind in ("class", "instance", "enum", "space", "object", "function"):
            members = self.members(value)
            names = {one: member.nodes[0] for one, member in members.names.items()}
            is_there = name in names or name in OBJECT_NAMES or (value.kind in ("class", "function") and
                                                                 name in FUNCTION_NAMES)
            is_open = not members.is_whole or self.is_added(value, name)
            what = value.name or "it"
            return is_there or (None if is_open else False), names, what
        return None, names, ""

    def is_added(self, value: Value, name: str) -> bool:
        """Whether other code may have added the member."""
        words = self.world.words()
        if value.name and value.name in words.merged:
            return True
        scripts = [scope.script for _, scope in value.places]
        if any(not script.is_typed for script in scripts):
            return name in words.members
        return any(name in script.stored and value.kind in ("function", "class", "object") for script in scripts)

    def members(self, value: Value) -> Members:
        is_static = value.kind in ("class", "enum", "space", "function", "object")
        key = (value.places, is_static)
        if key not in self.held:
            self.held[key] = Members({}, False)  # while it is being collected
            names: Dict[str, Member] = {}
            is_whole = True
            for node, scope in value.places:
                is_whole = self.collect(node, scope, is_static, names, 0) and is_whole
            if value.kind == "function" and not any(node.type in ("internal_module", "module")
                                                    for node, _ in value.places):
                is_whole = is_whole and all(scope.script.is_typed for _, scope in value.places)
            self.held[key] = Members(names, is_whole)
        return self.held[key]

    def collect(self, node: Node, scope: Scope, is_static: bool, names: Dict[str, Member], depth: int) -> bool:
        """Members of a declaration and its bases; whether these are all."""
        if depth > DEPTH:
            return False
        if node.type in CLASSES:
            return self.of_class(node, scope, is_static, names, depth)
        if node.type == "interface_declaration":
            if is_static:
                return True
            body, inner = node.get("body"), self.inner(node, scope)
            is_whole = body is not None and self.of_body(body, inner, names)
            for clause in node.all("extends_type_clause"):
                for part in clause.parts:
                    is_whole = self.of_base(self.typed(part, inner), names, depth) and is_whole
            return is_whole
        if node.type == "object_type":
            return self.of_body(node, scope, names)
        if node.type == "enum_declaration":
            body = node.get("body")
            for part in body.parts if body is not None else []:
                name = part.get("name") or part
                names[string_of(name) or name.text] = Member([part], scope)
            return body is not None
        if node.type in ("internal_module", "module"):
            if not is_static:
                return True
            inner = self.inner(node, scope)
            for one, bindings in inner.names.items():
                names[one] = Member([bindings[0].node], inner)
            return not any(binding.kind == "opaque" for some in inner.names.values() for binding in some)
        if node.type == "object":
            return self.of_object(node, scope, names)
        return node.type in FUNCTIONS

    def of_object(self, node: Node, scope: Scope, names: Dict[str, Member]) -> bool:
        is_whole = True
        for part in node.parts:
            name = part.text if part.type == "shorthand_property_identifier" else key_of(part)
            if name:
                names[name] = Member([part], scope)
            else:
                is_whole = False
        return is_whole

    def of_base(self, value: Optional[Value], names: Dict[str, Member], depth: int) -> bool:
        if value is None or value.kind != "instance":
            return False
        is_whole = value.name not in self.world.words().merged
        for node, scope in value.places:
            inherited: Dict[str, Member] = {}
            is_whole = self.collect(node, scope, False, inherited, depth + 1) and is_whole
            for name, member in inherited.items():
                names.setdefault(name, member)
        return is_whole

    def of_class(self, node: Node, scope: Scope, is_static: bool, names: Dict[str, Member], depth: int) -> bool:
        body, inner = node.get("body"), self.inner(node, scope)
        is_whole = body is not None and not node.all("decorator") and not (
            node.parent is not None and node.parent.all("decorator"))
        for part in body.parts if body is not None else []:
            is_whole = self.of_part(part, inner, is_static, names) and is_whole
        if not scope.script.is_typed and body is not None:
            self.set_in(body, inner, names)
        for heritage in node.all("class_heritage"):
            clause = heritage.first("extends_clause")
            base = clause.get("value") if clause is not None else heritage.parts[0] if heritage.first(
                "implements_clause") is None and heritage.parts else None
            if base is None:
                continue
            is_whole = self.of_parent(base, scope, is_static, names, depth) and is_whole
        return is_whole

    def of_parent(self, base: Node, scope: Scope, is_static: bool, names: Dict[str, Member], depth: int) -> bool:
        if base.type == "identifier" and scope.find(base.text) is None and base.text in OF_INSTANCES:
            for name in OF_INSTANCES[base.text]:
                names.setdefault(name, Member([base], scope))
            return base.text not in self.world.words().merged and not is_static
        value = self.value(base, scope)
        if value is None or value.kind != "class":
            return False
        is_whole = value.name not in self.world.words().merged
        for node, where in value.places:
            inherited: Dict[str, Member] = {}
            is_whole = self.collect(node, where, is_static, inherited, depth + 1) and is_whole
            for name, member in inherited.items():
                names.setdefault(name, member)
        return is_whole

    def of_part(self, part: Node, scope: Scope, is_static: bool, names: Dict[str, Member]) -> bool:
        if part.type == "index_signature":
            return False
        name = key_of(part)
        if part.type in ("decorator", "class_static_block"):
            return True
        if not name:
            computed = part.get("name") or part.get("property")
            return computed is not None and ("Symbol." in computed.text or self.names_nothing(computed, scope))
        if name == "constructor":
            if not is_static:
                self.of_constructor(part, scope, names)
            return True
        if part.has("static") == is_static:
            held = names.get(name)
            names[name] = Member([*held.nodes, part] if held is not None else [part], scope)
        return True

    def names_nothing(self, computed: Node, scope: Scope) -> bool:
        """Whether [NAME] is a constant returned by a call: TypeScript knows no name for such a member."""
        name = computed.parts[0].text if computed.parts and computed.parts[0].type == "identifier" else ""
        where = scope.find(name) if scope.script.is_typed else None
        for _ in range(DEPTH):
            bindings = where.names.get(name, []) if where is not None else []
            if len(bindings) != 1 or where is None:
                return False
            one = bindings[0]
            if one.kind != "import":
                value, kind, made = one.node.get("value"), one.node.get("type"), one.node.parent
                return one.kind == "variable" and made is not None and made.has("const") and value is not None and \
                    value.type == "call_expression" and (kind is None or "symbol" in kind.text)
            of = self.module(one.module, where.script)
            row = of.script.exports.get(one.name) if of is not None and of.script is not None else None
            if row is None or row[1] or of is None or of.script is None:
                return False
            name, where = row[0], of.script.scope
        return False

    def of_constructor(self, part: Node, scope: Scope, names: Dict[str, Member]) -> None:
        """constructor(private readonly x: X)."""
        parameters = part.get("parameters")
        for one in parameters.parts if parameters is not None else []:
            pattern = one.get("pattern")
            is_field = one.first("accessibility_modifier", "override_modifier") is not None or one.has("readonly")
            if pattern is not None and is_field:
                names[pattern.text] = Member([one], scope)

    def set_in(self, body: Node, scope: Scope, names: Dict[str, Member]) -> None:
        for node in body.walk():
            if node.type == "member_expression" and (node.get("object") or node).type == "this" and \
                    node.field == "left":
                name = node.get("property")
                if name is not None:
                    names.setdefault(name.text, Member([node], scope))

    def of_body(self, body: Node, scope: Scope, names: Dict[str, Member]) -> bool:
        is_whole = True
        for part in body.parts:
            if part.type in ("index_signature", "mapped_type_clause"):
                is_whole = False
            elif part.type in ("call_signature", "construct_signature"):
                for name in FUNCTION_NAMES:
                    names.setdefault(name, Member([part], scope))
            else:
                name = key_of(part)
                if name:
                    held = names.get(name)
                    names[name] = Member([*held.nodes, part] if held is not None else [part], scope)
                elif part.type != "comment" and "Symbol." not in part.text.split("]")[0]:
                    is_whole = False
        return is_whole

    # Arguments of calls

    def shapes(self, value: Value, is_new: bool) -> Optional[List[Shape]]:
        """One shape for each signature; None: unknown."""
        if value.kind == "function" and not is_new:
            places = [place for place in value.places if place[0].type not in ("internal_module", "module")]
        elif value.kind == "class" and is_new:
            found = self.constructors(value, 0)
            if found is None:
                return None
            places = found
        else:
            return None
        if len(places) > 1:  # an implementation is not called by its own signature
            signatures = [place for place in places if place[0].type.endswith("signature")]
            places = signatures or places[-1:]
        shapes = [self.shape(node, scope) for node, scope in places]
        return [one for one in shapes if one is not None] if all(one is not None for one in shapes) else None

    def constructors(self, value: Value, depth: int) -> Optional[List[Place]]:
        """Empty: no constructor, so there are no arguments. None: unknown."""
        for node, scope in value.places:
            if node.type not in CLASSES or depth > DEPTH:
                continue
            body, inner = node.get("body"), self.inner(node, scope)
            if node.all("decorator") or body is None:
                return None
            found: List[Place] = [(part, inner) for part in body.parts if key_of(part) == "constructor" and
                                  not part.has("static")]
            if found:
                return found
            heritage = node.first("class_heritage")
            if heritage is None or (heritage.first("implements_clause") and not heritage.first("extends_clause")):
                return []
            clause = heritage.first("extends_clause")
            base = self.value(clause.get("value") if clause is not None else heritage.parts[0], scope)
            if base is None or base.kind != "class" or (clause is not None and clause.get("value") is None):
                return None
            return self.constructors(base, depth + 1)
        return None

    def shape(self, node: Node, scope: Scope) -> Optional[Shape]:
        one, parameters = node.get("parameter"), node.get("parameters")
        inner = self.inner(node, scope)
        if one is not None:
            return Shape(1, 1, [one.text], node, inner)
        if parameters is None:
            return None
        least, most, names = 0, 0, []
        is_typed = scope.script.is_typed
        has_rest = False
        for part in parameters.parts:
            pattern = part.get("pattern") or part
            if part.type == "decorator" or pattern.type == "this" or pattern.text == "this":
                continue
            if pattern.type == "rest_pattern":
                has_rest = True
                continue
            most += 1
            names.append(pattern.text if pattern.type == "identifier" else f"number {most}")
            is_needed = part.type == "required_parameter" and part.get("value") is None and \
                not self.may_be_void(part.get("type"), inner)
            least = most if is_needed else least
        if not is_typed:
            body = node.get("body")
            least = 0
            has_rest = has_rest or body is None or any(
                part.type == "identifier" and part.text == "arguments" for part in body.walk())
        return Shape(least, None if has_rest else most, names, node, inner)

    def may_be_void(self, node: Optional[Node], scope: Scope, depth: int = 0) -> bool:
        """Whether the argument may be left out because its type includes void."""
        if node is None or not node.parts:
            return False
        for part in flat(node.parts[0] if node.type == "type_annotation" else node, "union_type"):
            if part.text == "void" or part.type in ("conditional_type", "lookup_type", "type_query"):
                return True
            name = part.get("name") if part.type == "generic_type" else part
            if name is None or name.type != "type_identifier" or name.text in GENERICS:
                continue
            where = scope.find(name.text)
            first = where.names[name.text][0] if where is not None else None
            if first is None or where is None:
                if part.type == "generic_type":
                    return True
            elif first.kind == "type" and part.type != "generic_type" and depth < 3:
                if self.may_be_void(first.node.get("value"), where, depth + 1):
                    return True
            elif first.kind == "opaque" or (part.type == "generic_type" and first.kind not in ("class", "interface")):
                return True
        return False


def flat(node: Node, kind: str) -> List[Node]:
    """Parts of A | B | C, in any nesting."""
    if node.type != kind:
        return [node]
    return [one for part in node.parts for one in flat(part, kind)]


def node_in_method(node: Node, of: Node) -> bool:
    """Whether `this` belongs to a method of an object literal."""
    at: Optional[Node] = node
    while at is not None and at is not of:
        if at.type == "method_definition" and at.parent is of:
            return True
        at = at.parent
    return False


def script_place(script: Script, name: str) -> Optional[Node]:
    row = script.exports.get(name)
    return row[2] if row is not None else None
