# SPDX-License-Identifier: Apache-2.0
"""Declarations and uses in a file of Go, Java, Rust, C, C++, Ruby or Bash: one reader, with a table for each language.

A file has functions, types with their members, and for each name the evident values. Things with the same name are
merged, so a name has too many meanings rather than too few: a member that none of them has does not exist.
"""

import re
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

from script_tree import Node

WORD = re.compile(r"[A-Za-z_]\w*")
NAMES = frozenset("identifier field_identifier type_identifier shorthand_field_identifier constant package_identifier "
                  "namespace_identifier word operator_name setter".split())
WRAPPED = frozenset("pointer_type reference_type generic_type type_descriptor parenthesized_type struct_specifier "
                    "class_specifier union_specifier enum_specifier template_type superclass annotated_type "
                    "type_elem type_list mut_pattern ref_pattern".split())
QUALIFIED = {"qualified_type": ("package", "name"), "scoped_type_identifier": ("path", "name"),
             "scoped_identifier": ("path", "name"), "qualified_identifier": ("scope", "name"),
             "scope_resolution": ("scope", "name")}
OPAQUE = frozenset("ERROR token_tree token_tree_pattern macro_definition preproc_arg attribute_item "
                   "attribute_declaration gnu_asm_expression heredoc_body attribute_specifier macro_type_specifier "
                   "ms_declspec_modifier".split())
# Arguments that stand for any number of arguments
BUNDLES = frozenset("variadic_argument splat_argument hash_splat_argument forward_argument parameter_pack_expansion "
                    "hash_splat_nil preproc_if preproc_ifdef".split())


def words(text: str) -> FrozenSet[str]:
    return frozenset(text.split())


class Table(NamedTuple):
    """Kinds of nodes, and their fields."""

    ends: Tuple[str, ...]
    functions: FrozenSet[str] = frozenset()
    types: FrozenSet[str] = frozenset()
    bases: FrozenSet[str] = frozenset()  # nodes with the base types of the type around them
    fields: Dict[str, str] = {}  # of types, with the field of the name
    binders: Dict[str, Tuple[str, str, str]] = {}  # nodes that declare names: fields of name, type, value
    calls: FrozenSet[str] = frozenset()
    members: Dict[str, Tuple[str, str]] = {}  # x.name: fields of x and of the name
    makers: Dict[str, str] = {}  # nodes whose value has the type in that field
    inner: FrozenSet[str] = frozenset()  # nodes with the value of the enclosed expression, or a pointer to it
    this: FrozenSet[str] = frozenset()
    constructor: str = ""  # name of constructors
    imports: FrozenSet[str] = frozenset()
    has_outer_names: bool = False  # a bare name may be a member of an enclosing type


C_BINDERS = {"declaration": ("declarator", "type", ""), "parameter_declaration": ("declarator", "type", ""),
             "optional_parameter_declaration": ("declarator", "type", ""), "for_range_loop": ("declarator", "type", ""),
             "variadic_parameter_declaration": ("declarator", "", ""), "enumerator": ("name", "", ""),
             "preproc_def": ("name", "", ""), "lambda_capture_initializer": ("left", "", ""),
             "using_declaration": ("", "", ""), "namespace_alias_definition": ("name", "", ""),
             "lambda_capture_specifier": ("", "", ""), "concept_definition": ("name", "", ""),
             "labeled_statement": ("label", "", "")}
C = Table(ends=(".c", ".h"), functions=words("function_definition preproc_function_def"),
          types=words("struct_specifier union_specifier type_definition"), fields={"field_declaration": "declarator"},
          binders=C_BINDERS, calls=words("call_expression"), members={"field_expression": ("argument", "field")},
          makers={"cast_expression": "type", "compound_literal_expression": "type"},
          inner=words("parenthesized_expression pointer_expression subscript_expression"),
          imports=words("preproc_include"))
TABLES: Dict[str, Table] = {
    "Go": Table(
        ends=(".go",), functions=words("function_declaration method_declaration method_elem"),
        types=words("type_spec type_alias"), bases=words("type_elem"), fields={"field_declaration": "name"},
        binders={"parameter_declaration": ("name", "type", ""), "variadic_parameter_declaration": ("name", "", ""),
                 "var_spec": ("name", "type", "value"), "const_spec": ("name", "type", ""),
                 "short_var_declaration": ("left", "", "right"), "range_clause": ("left", "", ""),
                 "receive_statement": ("left", "", ""), "type_switch_statement": ("alias", "", "")},
        calls=words("call_expression"), members={"selector_expression": ("operand", "field")},
        makers={"composite_literal": "type", "type_assertion_expression": "type"},
        inner=words("parenthesized_expression unary_expression"), imports=words("import_spec")),
    "Java": Table(
        ends=(".java",), functions=words("method_declaration constructor_declaration compact_constructor_declaration"),
        types=words("class_declaration interface_declaration enum_declaration record_declaration "
                    "annotation_type_declaration"),
        bases=words("superclass super_interfaces extends_interfaces"),
        fields={"field_declaration": "declarator", "enum_constant": "name", "constant_declaration": "declarator",
                "annotation_type_element_declaration": "name"},
        binders={"local_variable_declaration": ("declarator", "type", ""), "formal_parameter": ("name", "type", ""),
                 "spread_parameter": ("", "", ""), "catch_formal_parameter": ("name", "", ""),
                 "enhanced_for_statement": ("name", "type", ""), "resource": ("name", "type", "value"),
                 "instanceof_expression": ("name", "right", ""), "inferred_parameters": ("", "", ""),
                 "lambda_expression": ("parameters", "", ""), "type_pattern": ("", "", ""),
                 "record_pattern_component": ("", "", "")},
        calls=words("method_invocation object_creation_expression"), members={"field_access": ("object", "field")},
        makers={"object_creation_expression": "type", "cast_expression": "type"},
        inner=words("parenthesized_expression"), this=words("this"), constructor="<init>",
        imports=words("import_declaration"), has_outer_names=True),
    "Rust": Table(
        ends=(".rs",), functions=words("function_item function_signature_item"),
        types=words("struct_item enum_item union_item trait_item impl_item type_item"),
        fields={"field_declaration": "name", "enum_variant": "name", "const_item": "name", "associated_type": "name",
                "type_item": "name"},
        binders={"let_declaration": ("pattern", "type", "value"), "parameter": ("pattern", "type", ""),
                 "closure_parameters": ("", "", ""), "match_pattern": ("", "", ""),
                 "let_condition": ("pattern", "", ""),
                 "for_expression": ("pattern", "", ""), "const_item": ("name", "type", ""),
                 "static_item": ("name", "type", ""), "const_parameter": ("name", "", "")},
        calls=words("call_expression"), members={"field_expression": ("value", "field")},
        makers={"struct_expression": "name", "type_cast_expression": "type"},
        inner=words("parenthesized_expression reference_expression"), this=words("self"),
        imports=words("use_declaration mod_item")),
    "C": C,
    "C++": C._replace(
        ends=(".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".ipp"),
        types=C.types | words("class_specifier alias_declaration"), bases=words("base_class_clause"),
        makers={**C.makers, "new_expression": "type"}, inner=C.inner - {"subscript_expression"},
        this=words("this"), has_outer_names=True),
    "Ruby": Table(
        ends=(".rb", ".rake", ".gemspec"), functions=words("method singleton_method"), types=words("class module"),
        bases=words("superclass"),
        binders={"assignment": ("left", "", "right"), "operator_assignment": ("left", "", ""),
                 "method_parameters": ("", "", ""), "block_parameters": ("", "", ""), "lambda_parameters": ("", "", ""),
                 "exception_variable": ("", "", ""), "for": ("pattern", "", ""), "in_clause": ("pattern", "", ""),
                 "left_assignment_list": ("", "", "")},
        calls=words("call"), inner=words("parenthesized_statements"), this=words("self"), constructor="initialize",
        imports=words("call"), has_outer_names=True),
    "Bash": Table(ends=(".sh", ".bash"), imports=words("command")),
}
LANGUAGE = {end: name for name, table in TABLES.items() for end in table.ends}
CODE_ENDS = tuple(LANGUAGE)


ENUM = words("values valueOf ordinal name compareTo getDeclaringClass describeConstable")


class Hint(NamedTuple):
    """The value of a name: a type, or an expression (`at`: one of several results)."""

    type: Optional[Node]
    value: Optional[Node] = None
    at: int = 0


class Type:
    def __init__(self, name: str, unit: "Unit", outer: Optional["Type"]) -> None:
        self.name = name
        self.unit = unit
        self.outer = outer
        self.nodes: List[Node] = []  # the definition; none: the type is only extended
        self.fields: Dict[str, List[Tuple[Node, Optional[Node]]]] = {}
        self.methods: Dict[str, List[Node]] = {}
        self.bases: List[Node] = []
        self.is_open = False


class Use(NamedTuple):
    node: Node
    owner: Optional[Type]
    function: Optional[Node]


def named(node: Optional[Node]) -> Optional[Tuple[str, str]]:
    """The name of a type: (package, name)."""
    while node is not None and node.type in WRAPPED:
        if node.type in ("class_specifier", "struct_specifier", "union_specifier") and node.get("name") is None:
            return None
        node = node.get("type") or node.get("name") or next((part for part in node.parts if part.type in WRAPPED or
                                                             part.type in NAMES or part.type in QUALIFIED), None)
    if node is None:
        return None
    if node.type in QUALIFIED:
        of, name = (node.get(field) for field in QUALIFIED[node.type])
        inner = named(name)
        return (of.text if of is not None else "", inner[1]) if inner is not None else None
    return ("", node.text) if node.type in NAMES or node.type in ("self", "crate", "super") else None


def declared(node: Optional[Node]) -> Tuple[Optional[Node], Optional[Node]]:
    """The name in a declarator of C, and the parameters of a function."""
    parameters, is_pointer = None, False
    while node is not None and node.type not in NAMES and node.type not in QUALIFIED:
        if node.type == "function_declarator":
            parameters, is_pointer = node.get("parameters"), False
        elif node.type in ("pointer_declarator", "reference_declarator"):
            is_pointer = True
        node = node.get("declarator") or node.get("name") or next(
            (part for part in node.parts if part.type not in ("type_qualifier", "ms_call_modifier")), None)
    return node, None if is_pointer and parameters is not None else parameters


class Unit:
    """A file. `text`: words in parts that are not parsed, or only later, such as macros."""

    def __init__(self, path: str, tree: Node, language: str) -> None:
        self.path = path
        self.tree = tree
        self.language = language
        self.table = TABLES[language]
        self.functions: Dict[str, List[Node]] = {}
        self.types: Dict[str, Type] = {}
        self.names: Dict[str, Node] = {}
        self.hints: Dict[Optional[Node], Dict[str, List[Hint]]] = {}
        self.places: Dict[Node, Tuple[Optional[Node], Optional[Type]]] = {}  # function: what encloses it
        self.variables: Set[str] = set()  # of types
        self.opaque: Set[str] = set()
        self.made: Set[str] = set()  # words in places where a macro defines types
        self.uses: List[Use] = []
        self.imports: List[Node] = []
        self.imported: Dict[str, str] = {}  # imported name: its full name
        self.stars: List[str] = []  # modules or classes imported with *
        self.is_broken = False  # some parts could not be parsed
        clause = tree.first("package_clause", "package_declaration")
        self.package = clause.parts[0].text if clause is not None and clause.parts else ""
        self.visit(tree, None, None)

    def visit(self, node: Node, owner: Optional[Type], function: Optional[Node]) -> None:
        kind, table = node.type, self.table
        if kind.endswith("comment"):
            return
        if kind in OPAQUE:
            self.opaque.update(WORD.findall(node.text))
            self.is_broken = self.is_broken or kind == "ERROR"
            if kind == "token_tree" and re.search(r"\b(impl|struct|enum|union|trait)\b", node.text):
                self.made.update(WORD.findall(node.text))
            in_field = node.parent is not None and node.parent.type == "field_declaration"
            if owner is not None and (kind == "ERROR" or in_field or (kind == "token_tree" and function is None)):
                owner.is_open = True
            return
        if kind in table.types or (kind == "class_body" and node.parent is not None and
                                   node.parent.type in ("object_creation_expression", "enum_constant")):
            owner = self.open(node, owner)
        elif kind == "using_declaration" or kind.startswith("type_parameter"):
            self.variables.update(part.text for part in node.walk() if part.field != "type" and
                                  part.type in ("identifier", "type_identifier"))
        if kind in table.functions:
            owner, function = self.function(node, owner, function), node
        if kind in table.bases and owner is not None:
            owner.bases += [part for list_ in (node.all("type_list") or [node]) for part in list_.parts
                            if part.type not in ("access_specifier", "virtual")]
        if kind in table.fields and owner is not None:
            self.field(node, owner)
        if kind in table.binders:
            self.bind(node, owner, function)
        if kind in table.calls or kind in table.members:
            self.uses.append(Use(node, owner, function))
        if kind in table.imports:
            if owner is not None and kind == "preproc_include":
                owner.is_open = True
            self.imports.append(node)
            self.take(node)
        if self.language == "Ruby" and kind in ("call", "alias", "singleton_class") and owner is not None:
            self.made_by(node, owner, function)
        for child in node.children:
            if child.named:
                self.visit(child, owner, function)

    # Declarations

    def type(self, name: str, outer: Optional[Type]) -> Type:
        if not name:
            return Type("", self, outer)
        if name not in self.types:
            self.types[name] = Type(name, self, outer)
        return self.types[name]

    def open(self, node: Node, owner: Optional[Type]) -> Optional[Type]:
        parent = node.parent
        if node.type == "class_body" and parent is not None:
            made = self.type("", owner)
            base = parent.get("type")
            if base is not None:
                made.bases.append(base)
            elif owner is not None:
                made.fields, made.methods, made.bases = dict(owner.fields), dict(owner.methods), list(owner.bases)
            made.nodes.append(node)
            return made
        if node.type == "impl_item":
            name, trait = named(node.get("type")), node.get("trait")
            made = self.type(name[1] if name is not None else "", owner)
            made.bases += [trait] if trait is not None else []
            made.is_open = made.is_open or not made.name
            return made
        name_node = node.get("name")
        if node.type == "type_definition":
            for one in node.children:
                at = declared(one)[0] if one.field == "declarator" else None
                if at is not None:
                    self.alias(at, node, owner)
            return owner
        if name_node is None or node.type == "type_item" and owner is not None:
            return owner if node.type != "class_specifier" else self.type("", owner)
        name_text = (named(name_node) or ("", name_node.text))[1]
        kind = node.get("type")
        if node.type in ("alias_declaration", "type_alias", "type_item"):
            return self.alias(name_node, node, owner)
        if node.type.endswith("_specifier") and node.get("body") is None:
            return owner  # struct S *x
        made = self.type(name_text, owner)
        made.nodes.append(node)
        if owner is not None:
            owner.fields.setdefault(name_text, []).append((name_node, None))
        if node.type == "enum_declaration":
            made.methods.update({one: [] for one in ENUM if one not in made.methods})
        if node.type == "type_spec" and kind is not None and kind.type not in ("struct_type", "interface_type"):
            made.bases += [kind] if named(kind) is not None else []
        bounds = node.get("bounds")
        made.bases += bounds.parts if bounds is not None else []
        parameters = node.get("parameters")
        for part in parameters.parts if parameters is not None else []:  # of a record
            self.field(part, made)
            made.methods.setdefault((part.get("name") or part).text, [])
        if node.type == "struct_item" and (node.get("body") or node).type == "ordered_field_declaration_list":
            self.functions.setdefault(name_text, []).append(node)
        return made

    def alias(self, name: Node, node: Node, owner: Optional[Type]) -> Type:
        made = self.type(name.text, owner)
        made.nodes.append(node)
        of = node.get("type")
        if of is not None and of.get("body") is not None and of.get("name") is None:
            for one in of.walk():  # typedef struct { ... } T
                if one.type in self.table.fields:
                    self.field(one, made)
                made.is_open = made.is_open or one.type in OPAQUE and one.type != "comment"
        elif of is not None and named(of) not in (None, ("", name.text)):
            made.bases.append(of)
        elif named(of) is None:
            made.is_open = True
        return made

    def field(self, node: Node, owner: Type) -> None:
        field = self.table.fields.get(node.type, "name")
        kind = node.get("type")
        every = [child for child in node.children if child.field == field]
        for one in every:
            name, parameters = declared(one)
            if name is None:
                continue
            if parameters is not None or node.type == "annotation_type_element_declaration":
                owner.methods.setdefault(name.text, []).append(node)
            is_array = self.language not in ("C", "C++") and one.get("dimensions") is not None
            owner.fields.setdefault(name.text, []).append((name, None if is_array or parameters else kind))
        if not every and kind is not None and kind.type == "type_identifier" and self.language in ("C", "C++"):
            owner.is_open = True  # a macro
        if not every and kind is not None and self.language == "Go":  # embedded
            owner.bases.append(kind)
            name_of = named(kind)
            if name_of is not None:
                owner.fields.setdefault(name_of[1], []).append((node, kind))

    def function(self, node: Node, owner: Optional[Type], function: Optional[Node]) -> Optional[Type]:
        """Read a function; returns the type whose members its body may use as bare names."""
        at = node.parent
        while at is not None and at.type not in self.table.types and at.type not in self.table.functions and \
                at.type != "class_body":
            at = at.parent
        of = owner if at is not None and at.type not in self.table.functions else None
        name: Optional[Node] = node.get("name")
        declarator, receiver = node.get("declarator"), node.get("receiver")
        if declarator is not None:
            name = declared(declarator)[0]
            scopes = name.text.split("::") if name is not None else []
            if name is not None and len(scopes) > 1:
                owner = of = self.type(re.sub(r"<.*", "", scopes[-2]), None)
                while name.type in QUALIFIED:
                    inner = name.get("name")
                    if inner is None:
                        break
                    name = inner
        elif receiver is not None and receiver.parts:
            kind = named(receiver.parts[0].get("type"))
            of = self.type(kind[1], None) if kind is not None else None
        if name is not None:
            known_as = self.table.constructor if "constructor" in node.type else name.text
            of_that = of.methods if of is not None else self.functions
            of_that.setdefault(known_as, []).append(node)
        self.places[node] = (function, owner)
        return owner if self.language != "Go" else of if node.type == "method_elem" else None

    def hint(self, name: Node, function: Optional[Node], hint: Hint) -> None:
        self.names.setdefault(name.text, name)
        self.hints.setdefault(function, {}).setdefault(name.text, []).append(hint)

    def bind(self, node: Node, owner: Optional[Type], function: Optional[Node]) -> None:
        field, type_field, value_field = self.table.binders[node.type]
        kind = node.get(type_field) if type_field else None
        value = node.get(value_field) if value_field else None
        every = [child for child in node.children if child.named and (child.field == field or not field)]
        if self.language in ("C", "C++") or field == "declarator":
            for one in every:
                name, parameters = declared(one)
                if name is not None and parameters is not None and node.type == "declaration":
                    self.prototype(name, node, owner, function)
                elif name is not None and name.type in NAMES:
                    is_array = self.language not in ("C", "C++") and one.get("dimensions") is not None
                    self.hint(name, function, Hint(None if is_array else kind, one.get("value")))
                for part in one.walk() if name is not one else ():
                    if part.type == "structured_binding_declarator":
                        self.rest(part, name, function)
            return
        flat = [part for one in every for part in (one.parts if one.type == "expression_list" else [one])]
        is_list = value is not None and value.type == "expression_list"
        values: List[Optional[Node]] = [*value.parts] if value is not None and is_list else [value]
        for i, one in enumerate(flat):
            inner = one.parts[-1] if one.type in ("mut_pattern", "ref_pattern") and one.parts else one
            if inner.type in NAMES:
                self.hint(inner, function, Hint(kind) if kind is not None else Hint(None) if value is None else
                          Hint(None, values[i]) if len(values) == len(flat) else Hint(None, values[0], i + 1))
            else:
                self.rest(inner, None, function)

    def rest(self, node: Node, name: Optional[Node], function: Optional[Node]) -> None:
        """Bind all names in a pattern to unknown values."""
        for part in node.walk():
            if part.type in NAMES and part is not name and not part.parts:
                self.hint(part, function, Hint(None))

    def prototype(self, name: Node, node: Node, owner: Optional[Type], function: Optional[Node]) -> None:
        in_type = owner is not None and function is None
        of_that = owner.methods if owner is not None and in_type else self.functions
        of_that.setdefault(name.text.rpartition("::")[2], []).append(node)

    # Imports

    def take(self, node: Node) -> None:
        text = node.text
        if node.type == "import_spec":
            path, alias = node.get("path"), node.get("name")
            spec = path.text.strip('"`') if path is not None else ""
            if alias is not None and alias.type == "dot":
                self.stars.append(spec)
            else:
                last = [part for part in spec.split("/") if re.fullmatch(r"v\d+", part) is None][-1:]
                self.imported[alias.text if alias is not None else (last or [""])[0]] = spec
        elif node.type == "import_declaration":
            path = node.first("scoped_identifier", "identifier")
            spec = path.text if path is not None else ""
            if node.first("asterisk") is not None:
                self.stars.append(("static " if node.has("static") else "") + spec)
            elif node.has("static"):
                self.imported.setdefault(spec.rpartition(".")[2], "static " + spec)
            else:
                self.imported[spec.rpartition(".")[2]] = spec
        elif node.type == "use_declaration":
            for spec, alias_text in used(node.get("argument")):
                if alias_text == "*":
                    self.stars.append(spec)
                else:
                    self.imported[alias_text] = spec
        elif node.type == "mod_item":
            name = (node.get("name") or node).text
            self.imported.setdefault(name, "self::" + name)
        elif node.type == "extern_crate_declaration":
            self.opaque.update(WORD.findall(text))

    def made_by(self, node: Node, owner: Type, function: Optional[Node]) -> None:
        """Definitions made by calls in the body of a Ruby class."""
        method, arguments = node.get("method"), node.get("arguments")
        name = method.text if method is not None else node.type
        if name == "alias":
            for part in node.parts[:1]:
                owner.methods.setdefault(part.text.strip(":"), []).append(node)
            return
        given = arguments.parts if arguments is not None else []
        literal = given[0].type in ("simple_symbol", "string") if given else False
        sent = given[0].text.strip(":'\"") if given and name.endswith("send") else ""
        if name in MAKING or sent in MAKING or sent in MIXING:
            owner.is_open = owner.is_open or not (literal and name.startswith("define"))
        if function is not None or node.get("receiver") is not None or name == "singleton_class":
            return
        symbols = [part.text.strip(":'\"") for part in given if part.type in ("simple_symbol", "string")]
        if name in ("include", "extend", "prepend"):
            owner.bases += given
        elif name.startswith("attr_") or name in ("alias_method", "define_method", "def_delegators", "def_delegator",
                                                  "def_instance_delegators", "define_singleton_method"):
            for one in symbols:
                owner.methods.setdefault(one, []).append(node)
                owner.methods.setdefault(one + "=", []).append(node)
            owner.is_open = owner.is_open or len(symbols) < len(given) - (name == "define_method") or not symbols
        elif name not in QUIET and node.parent is not None and node.parent.type == "body_statement":
            owner.is_open = True


# Methods that define methods, wherever they are called; and those called through `send`
MAKING = words("class_eval module_eval class_exec module_exec define_method define_singleton_method eval")
MIXING = words("alias_method attr_accessor attr_reader attr_writer include extend prepend")
QUIET = words("private public protected private_constant private_class_method public_class_method module_function "
              "require require_relative freeze raise puts autoload using refine deprecate_constant ruby2_keywords")


def used(node: Optional[Node], before: str = "") -> List[Tuple[str, str]]:
    """A `use` in Rust: (path, local name); * for all."""
    if node is None:
        return []
    head = before + "::" if before else ""
    if node.type == "scoped_use_list":
        path = node.get("path")
        return used(node.get("list"), head + path.text if path is not None else before)
    if node.type == "use_list":
        return [one for part in node.parts for one in used(part, before)]
    if node.type == "use_as_clause":
        path, alias = node.get("path"), node.get("alias")
        return [(head + path.text, alias.text)] if path is not None and alias is not None else []
    if node.type == "use_wildcard":
        return [(head + node.parts[0].text if node.parts else before, "*")]
    if node.type == "self":
        return [(before, before.rpartition("::")[2])]
    return [(head + node.text, node.text.rpartition("::")[2])]


# Calls and arguments -------------------------------------------------------------------------------


class Call(NamedTuple):
    """A call of.name(arguments); `of` is None: a bare name. is_path: T::name."""

    of: Optional[Node]
    name: Optional[Node]
    arguments: Optional[Node]
    is_path: bool = False


def call_of(node: Node) -> Call:
    arguments = node.get("arguments")
    function = node.get("function")
    while function is not None and function.type in ("generic_function", "template_function", "template_method"):
        function = function.get("function") or function.get("name")
    if function is None:
        return Call(node.get("object") or node.get("receiver"), node.get("name") or node.get("method"), arguments)
    if function.type in QUALIFIED:
        of, name = (function.get(field) for field in QUALIFIED[function.type])
        return Call(of, name if name is not None and name.type == "identifier" else None, arguments, True)
    if function.type in NAMES:
        return Call(None, function, arguments)
    for of_field, name_field in (("operand", "field"), ("value", "field"), ("argument", "field")):
        if function.get(name_field) is not None and function.get(of_field) is not None:
            return Call(function.get(of_field), function.get(name_field), arguments)
    return Call(function, None, arguments)


class Shape(NamedTuple):
    """The number of arguments; None: any number. has_self: a method of Rust; has_keywords: of Ruby."""

    least: int
    most: Optional[int]
    has_self: bool = False
    has_keywords: bool = False


def shape_of(node: Node, language: str) -> Optional[Shape]:
    """The shape of a function; None: unknown."""
    if node.type in ("struct_item", "enum_variant"):
        body = node.get("body")
        n = sum(part.field == "type" for part in body.parts) if body is not None else 0
        return Shape(n, n)
    declarator = next((child for child in node.children if child.field == "declarator"), None)
    if declarator is not None and any(part.type == "ERROR" for part in declarator.walk()):
        return None
    parameters = declared(declarator)[1] if declarator is not None else node.get("parameters")
    if parameters is None:
        return Shape(0, 0) if node.type in ("method", "singleton_method") else None
    least, most = 0, 0
    open_ended = parameters.has("...") or (language == "C" and not parameters.parts and "define" not in node.type)
    has_self = has_keywords = False
    for part in parameters.parts:
        kind = part.type
        if kind == "self_parameter":
            has_self = True
        elif kind in ("keyword_parameter", "hash_splat_parameter", "hash_splat_nil"):
            has_keywords = True
        elif kind in ("optional_parameter", "optional_parameter_declaration"):
            most += 1
        elif kind in ("receiver_parameter", "block_parameter", "attribute_item", "comment", "line_comment",
                      "block_comment"):
            pass
        elif kind in ("parameter_declaration", "formal_parameter", "parameter", "identifier", "destructured_parameter"):
            if kind == "parameter_declaration" and part.text.strip() == "void":
                continue
            open_ended = open_ended or (kind == "parameter_declaration" and part.text.isupper())  # a macro
            n = max(1, sum(child.field == "name" for child in part.children)) if kind == "parameter_declaration" else 1
            least, most = least + n, most + n
        else:
            open_ended = True
    return Shape(least, None if open_ended else most, has_self, has_keywords)
