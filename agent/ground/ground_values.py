# SPDX-License-Identifier: Apache-2.0
"""The values of expressions, as far as they are evident, their attributes, and the arguments that calls accept."""

import abc
import ast
import builtins
import functools
import inspect
import io
import os
import re
import sys
import types
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from ground_names import Binding, Class, Function, Instance, Real, RealInstance, RealMethod, Scope, Source, Super
from ground_names import Value, Values, decorator_name
from ground_world import World, nearest

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement or in the same way
DEPTH = 12  # of nested look-ups for a value
CANDIDATES = 8  # possible values of one name
MODULE_NAMES = frozenset(dir(builtins)) | {
    "__file__", "__name__", "__doc__", "__package__", "__spec__", "__loader__", "__path__", "__builtins__", "__debug__",
    "__annotations__", "__cached__", "__dict__", "WindowsError"}
SYS_NAMES = frozenset("last_traceback last_type last_value last_exc ps1 ps2 tracebacklimit exitfunc".split())
# Attributes of every class and object, even if little is known about it.
OBJECT_NAMES = frozenset(dir(object)) | frozenset(dir(type)) | {
    "__dict__", "__weakref__", "__annotations__", "__slots__", "__func__", "__self__", "__wrapped__"}
FUNCTION_NAMES = frozenset(dir(lambda: 0))
# Decorators that keep the arguments of a function, or the members of a class.
SAME_FUNCTION = frozenset("abstractmethod staticmethod classmethod final override contextmanager asynccontextmanager "
                          "lru_cache cache wraps deprecated no_type_check".split())
TAKE_CLASS = frozenset(("__new__", "__init_subclass__", "__class_getitem__"))
SAME_CLASS = frozenset("dataclass total_ordering final runtime_checkable unique".split())
SAME_META = frozenset(("ABCMeta", "type"))
# Results of methods of built-in types; others are unknown.
RETURNS: Dict[type, Dict[str, type]] = {
    str: {**dict.fromkeys("capitalize casefold center expandtabs format format_map join ljust lower lstrip replace "
                          "rjust rstrip strip swapcase title translate upper zfill removeprefix "
                          "removesuffix".split(), str),
          **dict.fromkeys("split rsplit splitlines".split(), list), "encode": bytes, "count": int, "find": int,
          "index": int, "partition": tuple, "rpartition": tuple},
    bytes: {"decode": str, "hex": str, "strip": bytes, "split": list, "replace": bytes, "join": bytes},
    list: {"copy": list, "count": int, "index": int},
    dict: {"copy": dict},
    set: {"copy": set, "union": set, "difference": set, "intersection": set},
}
FUNCTION_RETURNS = {"len": int, "repr": str, "sorted": list, "chr": str, "ord": int, "hex": str, "bin": str,
                    "ascii": str, "input": str, "id": int, "hash": int, "format": str, "dir": list}


class Shape(NamedTuple):
    """The arguments that a call accepts: names of positional ones (and of positional-only ones), and required ones."""

    positional: List[str]
    required: Set[str]
    only_by_place: Set[str]
    named: Set[str]
    takes_any: bool  # *args
    takes_named: bool  # **kwargs


def shape_of_arguments(arguments: ast.arguments, is_bound: bool) -> Optional[Shape]:
    every = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    required = set(every[:len(every) - len(arguments.defaults)])
    named = {argument.arg for argument in arguments.kwonlyargs}
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults)
    required |= {argument.arg for argument, default in by_name if default is None}
    by_place = {argument.arg for argument in arguments.posonlyargs}
    if is_bound:
        if not every and arguments.vararg is None:
            return None
        required -= set(every[:1])
        by_place -= set(every[:1])
        every = every[1:]
    return Shape(every, required, by_place, named, arguments.vararg is not None, arguments.kwarg is not None)


def shape_of_real(thing: Any, skip: int) -> Optional[Shape]:
    try:
        parameters = list(inspect.signature(thing).parameters.values())
    except Exception:
        return None
    shape = Shape([], set(), set(), set(), any(p.kind is p.VAR_POSITIONAL for p in parameters),
                  any(p.kind is p.VAR_KEYWORD for p in parameters))
    for parameter in parameters[skip:]:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            shape.positional.append(parameter.name)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            shape.only_by_place.add(parameter.name)
        if parameter.kind is parameter.KEYWORD_ONLY:
            shape.named.add(parameter.name)
        is_one = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and is_one:
            shape.required.add(parameter.name)
    return shape


def misfit(shape: Shape, call: ast.Call) -> Optional[Tuple[str, str, str, str]]:
    """(kind, name, problem, nearest) of a call; None: it fits, or may fit."""
    has_star = any(isinstance(argument, ast.Starred) for argument in call.args)
    has_stars = any(keyword.arg is None for keyword in call.keywords)
    n = len(call.args)
    if n > len(shape.positional) and not has_star and not shape.takes_any:
        most = len(shape.positional)
        return "arity", "", f"takes at most {most} argument{'' if most == 1 else 's'} by place, {n} given", ""
    by_name = (set(shape.positional) - shape.only_by_place) | shape.named
    given = set() if has_star else set(shape.positional[:n])
    for keyword in call.keywords:
        if keyword.arg is None or shape.takes_named:
            continue
        if keyword.arg not in by_name:
            near = nearest(keyword.arg, sorted(by_name))
            return "keyword", keyword.arg, f"takes no argument named {keyword.arg}", near
        if keyword.arg in given:
            return "arity", keyword.arg, f"gets {keyword.arg} twice", ""
    missing = shape.required - given - {keyword.arg for keyword in call.keywords}
    if missing and not has_star and not has_stars:
        first = next((name for name in shape.positional if name in missing), min(missing))
        return "arity", first, f"needs the argument {first}", ""
    return None


# Values ------------------------------------------------------------------------------------------


def joined(every: Sequence[Values]) -> Values:
    """All values, or unknown."""
    found: List[Value] = []
    for values in every:
        if values is None:
            return None
        found += [value for value in values if value not in found]
    return found if len(found) <= CANDIDATES else None


def real_value(thing: Any) -> Values:
    """Modules, classes and functions as themselves; other objects by their class."""
    if isinstance(thing, io.IOBase):  # sys.stdout may be replaced
        return None
    if isinstance(thing, (types.ModuleType, type)) or callable(thing):
        return [Real(thing)]
    return [RealInstance(type(thing))] if thing is not None else []


def is_concrete(thing: type) -> bool:
    """Whether an annotation with this class means an instance of it, and not of a similar class."""
    return thing not in (object, float, complex) and thing.__module__ not in ("typing", "abc", "collections.abc") and \
        not getattr(thing, "_is_protocol", False)


def makes_itself(thing: type) -> bool:
    return inspect.getattr_static(thing, "__new__") is object.__dict__["__new__"]


def is_empty(node: Any) -> bool:
    """Whether a method is only a placeholder for those of subclasses."""
    return isinstance(node.body, list) and all(
        isinstance(part, (ast.Pass, ast.Raise)) or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
        for part in node.body)


class Judge:
    """Finds values of expressions, and members of classes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.depth = 0
        self.busy: Set[Tuple[Scope, str]] = set()
        self.is_cut = False  # the value is unknown only because of a cycle or the depth
        self.names: Dict[Tuple[Scope, str], Values] = {}
        self.stores: Dict[ast.AST, Dict[str, List[Tuple[Optional[ast.expr], Scope]]]] = {}
        self.subclasses: Dict[Tuple[ast.AST, str], bool] = {}

    # Values of names

    def module(self, name: str, source: Source) -> Values:
        found = self.world.project_module(name, source)
        if isinstance(found, Source):
            return [found]
        if found is not None:
            return None
        real = self.world.real_module(name)
        return [Real(real)] if isinstance(real, types.ModuleType) else None

    def name(self, name: str, scope: Scope) -> Values:
        where = scope.find(name)
        if where is None:
            if not scope.source.stars and not scope.source.is_dynamic and hasattr(builtins, name):
                return real_value(getattr(builtins, name))
            for star in scope.source.stars:
                values = self.taken(star.name.partition(":")[0], name, scope.source)
                if values:
                    return values
            return None
        if where.kind == "class" and where.parent is not None and where.parent.find(name) is not None:
            return None  # in a class body, the name is the outer one until the class binds it
        key = (where, name)
        if key in self.names:
            return self.names[key]
        if key in self.busy or self.depth > DEPTH:
            self.is_cut = True
            return None
        outer, self.is_cut = self.is_cut, False
        self.busy.add(key)
        self.depth += 1
        try:
            values = joined([self.bound(binding, where) for binding in where.names[name]])
        finally:
            self.depth -= 1
            self.busy.discard(key)
        if not self.is_cut or not self.busy:
            self.names[key] = values
        self.is_cut = outer or (self.is_cut and bool(self.busy))
        return values

    def bound(self, binding: Binding, scope: Scope) -> Values:
        node = binding.node
        if binding.kind == "value":
            return self.value(node, scope)
        if binding.kind == "annotated":
            return self.annotated(node.annotation, scope)
        if binding.kind == "argument":
            return self.argument(node, scope)
        if binding.kind == "def":
            return self.function(node, scope)
        if binding.kind == "class":
            return [Class(node, scope)]
        if binding.kind == "import":
            return self.module(binding.name, scope.source)
        if binding.kind == "from":
            module, _, name = binding.name.partition(":")
            return self.taken(module, name, scope.source)
        return None

    def taken(self, module: str, name: str, source: Source) -> Values:
        """The value in `from module import name`."""
        if not module:
            return None
        values = self.module(module, source)
        if values is None:
            return self.module(f"{module}.{name}", source)
        return self.attribute(values[0], name)

    def argument(self, node: ast.arg, scope: Scope) -> Values:
        function = scope.node
        owner = scope.parent
        if owner is not None and owner.kind == "class" and isinstance(owner.node, ast.ClassDef) and \
                isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            every = [*function.args.posonlyargs, *function.args.args]
            how = {decorator_name(decorator) for decorator in function.decorator_list}
            if every and node is every[0] and "staticmethod" not in how:
                of = Class(owner.node, owner.parent or owner)
                is_class = "classmethod" in how or function.name in TAKE_CLASS
                if how - SAME_FUNCTION - {"property", "setter", "deleter", "getter", "cached_property"}:
                    return None
                return [of] if is_class else [Instance(of)]
        default = None
        arguments = getattr(function, "args", None)
        if isinstance(arguments, ast.arguments):
            every = [*arguments.posonlyargs, *arguments.args]
            if node in every[len(every) - len(arguments.defaults):]:
                default = arguments.defaults[every.index(node) - len(every) + len(arguments.defaults)]
        if isinstance(default, ast.Constant) and default.value is None and node.annotation is None:
            return None
        return self.annotated(node.annotation, scope.parent or scope) if node.annotation is not None else None

    def annotated(self, node: ast.expr, scope: Scope) -> Values:
        """An instance of the class in an annotation. Unknown unless it is a plain class."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
        if isinstance(node, ast.Subscript):
            of = decorator_name(node.value)
            if of == "Optional" and isinstance(node.slice, ast.expr):
                return self.annotated(node.slice, scope)
            made = {"list": list, "dict": dict, "set": set}.get(of.lower())
            return [RealInstance(made)] if made is not None else None
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        found: List[Value] = []
        for value in self.value(node, scope) or ():
            if isinstance(value, Class):
                found.append(Instance(value))
            elif isinstance(value, Real) and isinstance(value.thing, type) and is_concrete(value.thing):
                found.append(RealInstance(value.thing))
            else:
                return None
        return found or None

    def function(self, node: Any, scope: Scope) -> Values:
        how = [decorator_name(decorator) for decorator in node.decorator_list]
        if scope.kind == "class" and any(name in ("property", "cached_property") for name in how):
            is_plain = set(how) <= {"property", "cached_property", "abstractmethod"}
            return self.result(Function(node, scope)) if is_plain else None
        if any(name not in SAME_FUNCTION for name in how):
            return None
        return [Function(node, scope)]

    # Values of expressions

    def value(self, node: ast.AST, scope: Scope) -> Values:
        if self.depth > DEPTH:
            self.is_cut = True
            return None
        self.depth += 1
        try:
            return self.value_of(node, scope)
        except RecursionError:
            return None
        finally:
            self.depth -= 1

    def value_of(self, node: ast.AST, scope: Scope) -> Values:
        if isinstance(node, ast.Constant):
            return [] if node.value is None else [RealInstance(type(node.value))]
        if isinstance(node, ast.Name):
            return None if ast.dump(node) in scope.narrowed else self.name(node.id, scope)
        if isinstance(node, ast.Attribute):
            if ast.dump(node) in scope.narrowed:
                return None
            values = self.value(node.value, scope)
            return None if not values else joined([self.attribute(value, node.attr) for value in values])
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
                return self.superior(scope)
            values = self.value(node.func, scope)
            return None if not values else joined([self.result(value) for value in values])
        if isinstance(node, ast.IfExp):
            return joined([self.value(node.body, scope), self.value(node.orelse, scope)])
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            return joined([self.value(part, scope) for part in node.values])
        if isinstance(node, ast.NamedExpr):
            return self.value(node.value, scope)
        if isinstance(node, ast.Lambda):
            return [Function(node, scope)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            values = self.value(node.left, scope)
            return values if values == [RealInstance(str)] else None
        for kinds, made in ((ast.JoinedStr, str), ((ast.List, ast.ListComp), list), ((ast.Dict, ast.DictComp), dict),
                            ((ast.Set, ast.SetComp), set), (ast.Tuple, tuple)):
            if isinstance(node, kinds):  # type: ignore[arg-type]
                return [RealInstance(made)]
        return None

    def superior(self, scope: Scope) -> Values:
        found: Optional[Scope] = scope
        while found is not None and found.kind != "class":
            found = found.parent
        if found is None or not isinstance(found.node, ast.ClassDef):
            return None
        return [Super(Class(found.node, found.parent or found))]

    def result(self, value: Value) -> Values:
        """The result of a call."""
        if isinstance(value, Class):
            _, is_known = self.members(value)
            return [Instance(value)] if is_known and self.finds(value, "__new__") is None else None
        if isinstance(value, Real):
            thing = value.thing
            if isinstance(thing, type):
                is_plain = type(thing) is type or type(thing).__name__ == "ABCMeta"
                return [RealInstance(thing)] if is_plain and thing not in (type, object, super, property) and (
                    makes_itself(thing) or thing.__module__ == "builtins") else None
            if isinstance(thing, types.BuiltinFunctionType) and thing.__module__ == "builtins":
                made = FUNCTION_RETURNS.get(thing.__name__)
                return [RealInstance(made)] if made is not None else None
            return None
        if isinstance(value, RealMethod):
            made = RETURNS.get(getattr(value.thing, "__objclass__", type(None)), {}).get(value.thing.__name__)
            return [RealInstance(made)] if made is not None else None
        if isinstance(value, Function) and isinstance(value.node, ast.FunctionDef):
            return self.returned(value)
        return None

    def returned(self, function: Function) -> Values:
        node = function.node
        scope = function.scope.source.scopes.get(node)
        if scope is None or any(decorator_name(decorator) in ("contextmanager", "asynccontextmanager", "abstractmethod")
                                for decorator in node.decorator_list):
            return None
        if node.returns is not None:
            return self.annotated(node.returns, function.scope)
        found: List[Values] = []
        stack: List[ast.AST] = list(node.body)
        while stack:
            part = stack.pop()
            if isinstance(part, (ast.Yield, ast.YieldFrom)):
                return None
            if isinstance(part, ast.Return):
                found.append(self.value(part.value, scope) if part.value is not None else [])
            if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                stack.extend(ast.iter_child_nodes(part))
        return joined(found) or None

    # Attributes

    def bases(self, of: Class) -> Values:
        return joined([self.value(base, of.scope) for base in of.node.bases])

    def finds(self, of: Class, name: str, skip: bool = False) -> Optional[Tuple[Class, Scope]]:
        """The class itself or a base, whose text binds a name."""
        stack, seen = [of], []
        while stack:
            now = stack.pop(0)
            if now.node in seen:
                continue
            seen.append(now.node)
            scope = now.source.scopes[now.node]
            if name in scope.names and not (skip and now is of):
                return now, scope
            stack = [base for base in self.bases(now) or () if isinstance(base, Class)] + stack
        return None

    def members(self, of: Class) -> Tuple[Dict[str, Tuple[str, int]], bool]:
        """Names with the places of their definitions, and whether these are all."""
        key = of.node
        if key not in self.world.classes:
            self.world.classes[key] = ({}, False)  # for a class that is its own base
            self.world.classes[key] = self.find_members(of)
        return self.world.classes[key]

    def find_members(self, of: Class) -> Tuple[Dict[str, Tuple[str, int]], bool]:
        source, node = of.source, of.node
        scope = source.scopes[node]
        names = {name: (source.path, bindings[0].line) for name, bindings in scope.names.items()}
        is_whole = not source.sets_any and all(
            decorator_name(one) in SAME_CLASS for one in node.decorator_list) and all(
            word.arg == "metaclass" and decorator_name(word.value) in SAME_META for word in node.keywords)
        if any(decorator_name(one) == "dataclass" for one in node.decorator_list):
            names["__dataclass_fields__"] = (source.path, node.lineno)
        if {"__getattr__", "__getattribute__", "__init_subclass__", "__class_getitem__"} & set(names):
            is_whole = False
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load):
                names.setdefault(part.attr, (source.path, part.lineno))
        if "__slots__" in scope.names:
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    names.setdefault(part.value, (source.path, part.lineno))
        bases = self.bases(of)
        for base in bases or ():
            if isinstance(base, Class):
                theirs, is_base_whole = self.members(base)
            elif isinstance(base, Real) and isinstance(base.thing, type):
                theirs, is_base_whole = self.real_members(base.thing)
                is_base_whole &= type(base.thing).__name__ in ("type", "ABCMeta")
            else:
                theirs, is_base_whole = {}, False
            is_whole &= is_base_whole
            for name, where in theirs.items():
                names.setdefault(name, where)
        return names, is_whole and bases is not None and len(bases) == len(node.bases)

    def real_members(self, thing: type) -> Tuple[Dict[str, Tuple[str, int]], bool]:
        names: Dict[str, Tuple[str, int]] = {name: ("", 0) for name in (*dir(thing), *dir(type(thing)))}
        is_plain = inspect.getattr_static(thing, "__getattribute__") is object.__dict__["__getattribute__"]
        is_whole = not hasattr(thing, "__getattr__") and (is_plain or not thing.__flags__ & HEAP_TYPE)
        for one in thing.__mro__:
            if not one.__flags__ & HEAP_TYPE and one.__dictoffset__ != 0 and not issubclass(one, BaseException):
                return names, False
            if not one.__flags__ & HEAP_TYPE or one.__dictoffset__ == 0:  # a class in C, or without __dict__
                continue
            source = self.world.source_of_real(one)
            bindings = source.scope.names.get(one.__qualname__) if source is not None else None
            if source is None or source.sets_any or bindings is None or [one.kind for one in bindings] != ["class"]:
                return names, False
            for part in ast.walk(bindings[0].node):
                if isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load):
                    names.setdefault(part.attr, ("", 0))
            names.update(dict.fromkeys(source.stored & source.asked, ("", 0)))
        return names, is_whole

    def attribute(self, value: Value, name: str) -> Values:
        """The value of an attribute; None: unknown or missing."""
        if isinstance(value, Source):
            if name in value.scope.names:
                return self.name(name, value.scope)
            return self.module(f"{value.name}.{name}", value) if value.is_package else None
        if isinstance(value, Real):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return real_value(getattr(value.thing, name))
            except Exception:
                if isinstance(value.thing, types.ModuleType):
                    found = self.world.real_module(f"{value.thing.__name__}.{name}")
                    return [Real(found)] if isinstance(found, types.ModuleType) else None
                return None
        if isinstance(value, RealInstance):
            thing = inspect.getattr_static(value.of, name, None)
            is_method = isinstance(thing, (types.FunctionType, types.MethodDescriptorType))
            return [RealMethod(thing)] if is_method else None
        if isinstance(value, (Class, Instance)):
            return self.member(value, name)
        return None

    def member(self, value: Union[Class, Instance], name: str) -> Values:
        of = value if isinstance(value, Class) else value.of
        found = self.finds(of, name)
        stored = self.stored_values(of, name) if isinstance(value, Instance) else []
        if found is None:
            return stored or None
        owner, scope = found
        values = joined([self.bound(binding, scope) for binding in scope.names[name]])
        if not self.members(owner)[1] and not all(isinstance(one, (Function, Class)) for one in values or ()):
            return None  # such as members of an enumeration
        if values is None or (stored != [] and not (stored and values == [])):
            return None
        return [self.bind(one, isinstance(value, Instance)) for one in values] or stored or None

    def bind(self, value: Value, is_instance: bool) -> Value:
        if not isinstance(value, Function) or not hasattr(value.node, "decorator_list"):
            return value
        how = {decorator_name(decorator) for decorator in value.node.decorator_list}
        is_static = "staticmethod" in how or value.node.name == "__new__"
        is_of_class = "classmethod" in how or value.node.name in TAKE_CLASS
        return value._replace(is_bound=not is_static and (is_instance or is_of_class))

    def stored_values(self, of: Class, name: str) -> Values:
        """All values that methods of the class assign to self.name. []: none."""
        if of.node not in self.stores:
            self.stores[of.node] = self.find_stores(of)
        return joined([None if node is None else self.value(node, scope)
                       for node, scope in self.stores[of.node].get(name, ())])

    def find_stores(self, of: Class) -> Dict[str, List[Tuple[Optional[ast.expr], Scope]]]:
        found: Dict[str, List[Tuple[Optional[ast.expr], Scope]]] = {}
        for method in of.node.body:
            if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            scope = of.source.scopes[method]
            plain: Dict[ast.expr, Optional[ast.expr]] = {}
            for part in ast.walk(method):
                if isinstance(part, ast.Assign):
                    plain.update(dict.fromkeys(part.targets, part.value))
                elif isinstance(part, ast.AnnAssign):
                    plain[part.target] = None
                if isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load):
                    found.setdefault(part.attr, []).append((plain.get(part), scope))
        return found

    def has(self, value: Value, name: str) -> Tuple[Optional[bool], Dict[str, Tuple[str, int]], str]:
        """Whether it has an attribute (None: unknown), all attributes with their places, and a description."""
        if name in OBJECT_NAMES:
            return True, {}, ""
        if isinstance(value, Source):
            names = {one: (value.path, bindings[0].line) for one, bindings in value.scope.names.items()}
            is_there = name in names or name in MODULE_NAMES or self.is_submodule(value, name)
            is_open = value.stars or value.is_dynamic or "__getattr__" in names
            return is_there or (None if is_open else False), names, f"module {value.name}"
        if isinstance(value, Real):
            return self.real_has(value.thing, name)
        if isinstance(value, RealInstance):
            names, is_whole = self.real_members(value.of)
            return name in names or (False if is_whole else None), names, value.of.__name__
        if isinstance(value, (Class, Instance)):
            of = value if isinstance(value, Class) else value.of
            names, is_whole = self.members(of)
            if name in names or name in of.source.stored or name in of.source.asked:
                return True, names, of.node.name
            if not is_whole or (isinstance(value, Class) and hasattr(abc.ABCMeta, name)) or \
                    self.subclass_has(of, name):
                return None, names, of.node.name
            return False, names, of.node.name
        if isinstance(value, Function) and not isinstance(value.node, ast.Lambda) and not value.node.decorator_list:
            is_there = name in FUNCTION_NAMES or name in value.scope.source.stored or name in value.scope.source.asked
            return is_there or False, {}, f"function {value.node.name}"
        if isinstance(value, Super):
            names, is_whole = self.members(value.of)
            is_known = is_whole and not self.subclass_has(value.of, name)
            return name in names or (False if is_known else None), names, "super()"
        return None, {}, ""

    def is_submodule(self, value: Source, name: str) -> bool:
        return value.is_package and any(os.path.exists(os.path.join(os.path.dirname(value.path), name + end))
                                        for end in ("", ".py", ".pyi", ".so"))

    def real_has(self, thing: Any, name: str) -> Tuple[Optional[bool], Dict[str, Tuple[str, int]], str]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                is_there = hasattr(thing, name)
        except Exception:
            return None, {}, ""
        if isinstance(thing, types.ModuleType):
            if not is_there and hasattr(thing, "__path__"):
                is_there = self.world.real_module(f"{thing.__name__}.{name}") is not None
            if thing is sys and name in SYS_NAMES:
                is_there = True
            return is_there, {one: ("", 0) for one in dir(thing)}, f"module {thing.__name__}"
        if isinstance(thing, type):
            names, is_whole = self.real_members(thing)
            is_whole |= type(thing) is type
            return is_there or name in names or (False if is_whole else None), names, thing.__name__
        if isinstance(thing, (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType)):
            return is_there, {}, f"function {thing.__name__}"
        return is_there or None, {}, ""

    def subclass_has(self, of: Class, name: str) -> bool:
        """Whether a subclass may have the name: a base class uses names of its subclasses."""
        key = (of.node, name)
        if key not in self.subclasses:
            self.subclasses[key] = self.find_in_subclasses(of, name)
        return self.subclasses[key]

    def find_in_subclasses(self, of: Class, name: str) -> bool:
        stores = re.compile(r"\.%s\s*(?::[^=\n]+)?=[^=]" % re.escape(name))
        derives = re.compile(r"class\s+\w+\s*\([^)]*\b%s\b" % re.escape(of.node.name))
        for path in {*(self.world.each_file() if self.world.is_inside(of.source.path) else ()), of.source.path}:
            text = self.world.read(path) or ""
            if stores.search(text):
                return True
            makes = r"(def|class)\s+%s\b|^\s+%s\s*[:=]" if path == of.source.path else r"\b(%s|%s)\b"
            if derives.search(text) and re.search(makes % (name, name), text, re.M):
                return True
        return bool(re.search(r"(?i)mixin|^_?(base|abstract)|base$", of.node.name))

    # Arguments of calls

    def shape(self, value: Value) -> Optional[Shape]:
        if isinstance(value, Function):
            is_open = value.is_bound and is_empty(value.node)
            return None if is_open else shape_of_arguments(value.node.args, value.is_bound)
        if isinstance(value, Class):
            return self.class_shape(value)
        if isinstance(value, Real):
            return self.real_shape(value.thing)
        if isinstance(value, RealMethod) and not hasattr(value.thing, "__wrapped__"):
            return shape_of_real(value.thing, 1)
        return None

    def real_shape(self, thing: Any) -> Optional[Shape]:
        if isinstance(thing, type) and (type(thing) is not type or not isinstance(
                inspect.getattr_static(thing, "__init__"), types.FunctionType) or not makes_itself(thing)):
            return None if thing.__flags__ & HEAP_TYPE or thing.__module__ == "builtins" else shape_of_real(thing, 0)
        if hasattr(thing, "__wrapped__") or isinstance(thing, functools.partial):
            return None
        return shape_of_real(thing, 0)

    def class_shape(self, of: Class) -> Optional[Shape]:
        _, is_whole = self.members(of)
        found = self.finds(of, "__init__")
        if not is_whole or self.finds(of, "__new__") is not None or of.node.keywords:
            return None
        if any(decorator_name(one) == "dataclass" for one in of.node.decorator_list):
            return None if found is not None else self.fields_shape(of)
        if found is not None:
            bindings = found[1].names["__init__"]
            node = bindings[0].node
            if len(bindings) == 1 and bindings[0].kind == "def" and not node.decorator_list:
                return shape_of_arguments(node.args, True)
            return None
        bases = self.bases(of)
        if bases is not None and all(isinstance(base, Real) and base.thing is object for base in bases):
            return Shape([], set(), set(), set(), False, False)
        return None

    def fields_shape(self, of: Class) -> Optional[Shape]:
        """The shape of a dataclass without bases."""
        plain = next(one for one in of.node.decorator_list if decorator_name(one) == "dataclass")
        if of.node.bases or (isinstance(plain, ast.Call) and plain.keywords):
            return None
        shape = Shape([], set(), set(), set(), False, False)
        for part in of.node.body:
            if not isinstance(part, ast.AnnAssign) or not isinstance(part.target, ast.Name):
                continue
            text = ast.dump(part.annotation)
            if "ClassVar" in text or "KW_ONLY" in text or isinstance(part.annotation, ast.Constant) or \
                    any(word.arg in ("init", "kw_only") for word in getattr(part.value, "keywords", ())):
                return None
            shape.positional.append(part.target.id)
            is_field = isinstance(part.value, ast.Call) and decorator_name(part.value.func) == "field"
            has_default = part.value is not None and (not is_field or any(
                word.arg in ("default", "default_factory") for word in getattr(part.value, "keywords", ())))
            if not has_default:
                shape.required.add(part.target.id)
        return shape
