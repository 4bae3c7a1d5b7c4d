# SPDX-License-Identifier: Apache-2.0
"""The bindings of names in a Python file by scope, from its text alone. Nothing of it runs."""

import ast
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Union


DICT_READS = frozenset("items keys values copy get".split())


class Binding(NamedTuple):
    """A binding of a name. kind: value, import, from, def, class, argument, opaque."""

    kind: str
    node: Any
    line: int
    name: str = ""  # of a module; for an imported name MODULE:NAME


class Scope:
    """Names of a module, class or function (comprehensions are functions)."""

    def __init__(self, kind: str, node: ast.AST, parent: Optional["Scope"], source: "Source") -> None:
        self.kind = kind
        self.node = node
        self.parent = parent
        self.source = source
        self.names: Dict[str, List[Binding]] = {}
        self.elsewhere: Set[str] = set()  # global, nonlocal
        self.narrowed: Set[str] = set()  # expressions whose class isinstance() or a similar call tests

    def bind(self, name: str, binding: Binding) -> None:
        scope: Scope = self
        if name in self.elsewhere:
            scope = self.source.scope
        scope.names.setdefault(name, []).append(binding)

    def find(self, name: str) -> Optional["Scope"]:
        scope: Optional[Scope] = self
        while scope is not None:
            if name in scope.names and (scope is self or scope.kind != "class") and name not in scope.elsewhere:
                return scope
            scope = scope.parent
        return None


# Values. None in place of a list: unknown.
class Real(NamedTuple):
    """An object of this interpreter."""

    thing: Any


class RealInstance(NamedTuple):
    of: type


class RealMethod(NamedTuple):
    """A function of an installed class, found through an instance, which becomes its first argument."""

    thing: Any


class Source:
    """A file of the project, as a module."""

    def __init__(self, path: str, name: str, text: str) -> None:
        self.text = text
        self.path = path
        self.name = name
        self.is_package = os.path.basename(path) == "__init__.py"
        self.tree = ast.parse(text)
        self.scope = Scope("module", self.tree, None, self)
        self.scopes: Dict[ast.AST, Scope] = {self.tree: self.scope}
        self.stars: List[Binding] = []
        self.stored: Set[str] = set()  # attributes that are assigned
        self.asked: Set[str] = set()  # attribute names in hasattr() and similar calls
        self.is_dynamic = False  # its text does not have all of its names
        self.sets_any = False  # setattr() with a computed name
        Binder(self).visit(self.tree)


class Class(NamedTuple):
    node: ast.ClassDef
    scope: Scope  # that defines the class

    @property
    def source(self) -> Source:
        return self.scope.source


class Instance(NamedTuple):
    of: Class


class Function(NamedTuple):
    node: Any  # FunctionDef, AsyncFunctionDef, Lambda
    scope: Scope
    is_bound: bool = False


class Super(NamedTuple):
    of: Class


Value = Union[Real, RealInstance, RealMethod, Source, Class, Instance, Function, Super]
Values = Optional[List[Value]]


class Binder(ast.NodeVisitor):
    """Fills the scopes of a source."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.scope = source.scope

    def within(self, kind: str, node: ast.AST, body: Sequence[ast.AST]) -> None:
        outer, self.scope = self.scope, Scope(kind, node, self.scope, self.source)
        self.source.scopes[node] = self.scope
        if kind == "function":
            arguments = getattr(node, "args", None)
            if isinstance(arguments, ast.arguments):
                for argument in each_argument(arguments):
                    is_plain = argument is not arguments.vararg and argument is not arguments.kwarg
                    kind = "argument" if is_plain else "opaque"
                    self.scope.bind(argument.arg, Binding(kind, argument, node_line(node)))
        for part in body:  # a function may use names bound later
            self.declare(part)
        for part in body:
            self.visit(part)
        self.scope = outer

    def declare(self, node: ast.AST) -> None:
        stack = [node]
        while stack:
            part = stack.pop()
            if isinstance(part, (ast.Global, ast.Nonlocal)):
                self.scope.elsewhere.update(part.names)
                if isinstance(part, ast.Nonlocal):
                    for name in part.names:
                        found = self.scope.parent.find(name) if self.scope.parent is not None else None
                        if found is not None:
                            found.names[name].append(Binding("opaque", part, part.lineno))
            elif not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                stack.extend(ast.iter_child_nodes(part))

    def visit_FunctionDef(self, node: Any) -> None:
        self.scope.bind(node.name, Binding("def", node, node.lineno))
        for part in outside(node):
            self.visit(part)
        self.within("function", node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for part in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        self.within("function", node, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.bind(node.name, Binding("class", node, node.lineno))
        if any("enum" in decorator_name(one) for one in node.decorator_list):  # its members become names of the module
            self.source.is_dynamic = True
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self.within("class", node, node.body)

    def comprehension(self, node: Any) -> None:
        self.visit(node.generators[0].iter)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for i, generator in enumerate(node.generators):
            parts += [generator.target, *generator.ifs] + ([generator.iter] if i > 0 else [])
        self.within("function", node, parts)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = comprehension

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname is not None:
                self.scope.bind(alias.asname, Binding("import", node, node.lineno, alias.name))
            else:
                top = alias.name.split(".")[0]
                self.scope.bind(top, Binding("import", node, node.lineno, top))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = absolute(self.source, node)
        for alias in node.names:
            binding = Binding("from", node, node.lineno, f"{module}:{alias.name}")
            if alias.name == "*":
                self.source.stars.append(binding)
            else:
                self.scope.bind(alias.asname or alias.name, binding)

    def targets(self, target: ast.AST, value: Optional[ast.AST]) -> None:
        """Bind a name to `value`; names inside a tuple are opaque."""
        if isinstance(target, ast.Name):
            self.scope.bind(target.id, Binding("value" if value is not None else "opaque", value, target.lineno))
        else:
            self.visit(target)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.targets(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self.scope.bind(node.target.id, Binding("annotated", node, node.lineno))
        else:
            self.visit(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):  # it keeps its class, or is bound elsewhere
            if node.target.id not in self.scope.names:
                self.targets(node.target, None)
        else:
            self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        outer = self.scope
        while isinstance(self.scope.node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            self.scope = self.scope.parent or outer
        self.targets(node.target, node.value)
        self.scope = outer

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.scope.bind(node.id, Binding("opaque", node, node.lineno))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.source.stored.add(node.attr)
        inner = node.value
        if isinstance(inner, ast.Attribute) and inner.attr == "__dict__" and node.attr in DICT_READS:
            self.visit(inner.value)
            return
        if node.attr == "_convert_" or node.attr == "__dict__":
            self.source.sets_any = True
        if node.attr == "_convert_":
            self.source.is_dynamic = True
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self.scope.bind(node.name, Binding("opaque", node, node.lineno))
        self.generic_visit(node)

    def pattern(self, node: Any) -> None:
        name = getattr(node, "name", None) or getattr(node, "rest", None)
        if name is not None:
            self.scope.bind(name, Binding("opaque", node, node.lineno))
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = visit_MatchMapping = pattern

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if len(node.args) >= 2 and isinstance(node.args[0], (ast.Name, ast.Attribute)):  # hasattr() or a similar call
            name = node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                self.source.asked.add(name.value)
            elif called == "setattr" and isinstance(node.args[0], ast.Name) and node.args[0].id in ("self", "cls"):
                self.source.sets_any = True
        if called in ("isinstance", "issubclass", "hasattr", "type", "callable", "getattr") and node.args and not (
                called in ("hasattr", "getattr", "callable") and isinstance(node.args[0], ast.Name) and
                node.args[0].id == "self"):
            self.scope.narrowed.add(ast.dump(node.args[0]))
        if called in ("exec", "globals") or (called in ("vars", "locals") and self.scope.kind != "function"):
            self.source.is_dynamic = True
        if called == "vars":
            self.source.sets_any = True
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "modules" and \
                isinstance(node.slice, ast.Name) and node.slice.id == "__name__":
            self.source.is_dynamic = True
        self.generic_visit(node)


def each_argument(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from filter(None, (arguments.vararg, arguments.kwarg))


def each_annotation(node: Any) -> Iterator[ast.expr]:
    yield from filter(None, (argument.annotation for argument in each_argument(node.args)))
    if node.returns is not None:
        yield node.returns


def outside(node: Any) -> Iterator[ast.expr]:
    """Parts of a function that are evaluated in the scope that defines it."""
    yield from (*node.decorator_list, *each_annotation(node), *node.args.defaults)
    yield from filter(None, node.args.kw_defaults)


def node_line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


def absolute(source: Source, node: ast.ImportFrom) -> str:
    """The name of the imported module; "" = beyond the top."""
    if not node.level:
        return node.module or ""
    parts = source.name.split(".") if source.name else []
    drop = node.level - (1 if source.is_package else 0)
    if drop > len(parts):
        return ""
    return ".".join([*parts[:len(parts) - drop], *((node.module or "").split(".") if node.module else [])])


def decorator_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else "?"
