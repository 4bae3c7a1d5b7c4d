# SPDX-License-Identifier: Apache-2.0
"""Hallucinations, planted into code that works: for the benchmark of `check`.

A place is chosen by how the code looks, never by what `check` knows of it: an attribute of an imported module or of
`self` that the class defines; a call of a function that the same module, or one it imports from by a relative path,
defines once and without decorators. Every plant is one that fails when it runs, or that the compiler refuses.
"""

import ast
import hashlib
import importlib
import os
import random
import re
import struct
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "agent", "ground"))

from script_tree import Node, Unread, decode  # noqa: E402

KINDS = ("attribute", "import", "invented", "missing", "extra", "keyword")
RARE = ("missing", "attribute", "keyword", "invented", "extra", "import")
PER_FILE = 6
OTHER = {"get": "fetch", "read": "load", "write": "store", "is": "check", "add": "append", "make": "build",
         "set": "assign", "to": "as", "find": "lookup", "remove": "drop", "parse": "decode", "create": "new",
         "open": "start"}


class Plant(NamedTuple):
    kind: str
    start: int  # bytes of the text that are replaced
    end: int
    text: str
    name: str
    function: str  # what it is planted in


class Copy(NamedTuple):
    """A file and its plants; `functions`: how many it has."""

    path: str
    original: bytes
    plants: list[Plant]
    functions: int

    def planted(self, plant: Plant) -> tuple[bytes, int]:
        """The text with one of them, and its line."""
        before = self.original[:plant.start]
        return before + plant.text.encode() + self.original[plant.end:], before.count(b"\n") + 1

    def path_of(self, plant: Plant) -> str:
        """A file beside the original, so that what it imports is there."""
        base, end = os.path.splitext(self.path)
        return f"{base}__{self.plants.index(plant)}{end}"

    def is_reported(self, plant: Plant) -> bool:
        """Whether it is of the half that nothing was tuned on."""
        return hashlib.sha256(f"{os.path.basename(self.path)} {plant.kind} {plant.start}".encode()).digest()[0] % 2 == 1


def altered(name: str, chance: random.Random) -> str:
    """A name that somebody may have thought of."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|_+", name)
    for i, word in enumerate(words):
        if word.lower() in OTHER and chance.random() < 0.7:
            other = OTHER[word.lower()]
            return "".join([*words[:i], other.capitalize() if word[0].isupper() else other, *words[i + 1:]])
    camel = "_" not in name and any(letter.isupper() for letter in name[1:])
    end = chance.choice(["all", "async", "now", "info", "by_name"])
    if camel:
        return name + "".join(part.capitalize() for part in end.split("_"))
    return f"{name}_{end}"


def chosen(every: list[Plant], chance: random.Random, per_file: int) -> list[Plant]:
    """One for each function; kinds that few files have come first."""
    chance.shuffle(every)
    every.sort(key=lambda one: RARE.index(one.kind))
    taken: list[Plant] = []
    while every and len(taken) < per_file:
        plant = every.pop(0)
        if all(plant.function != one.function and plant.kind != one.kind for one in taken):
            taken.append(plant)
    return taken


# Python ------------------------------------------------------------------------------------------


class Text:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.lines = [0]
        for line in data.split(b"\n"):
            self.lines.append(self.lines[-1] + len(line) + 1)

    def span(self, node: Any) -> tuple[int, int]:
        return self.lines[node.lineno - 1] + node.col_offset, self.lines[node.end_lineno - 1] + node.end_col_offset


def python_plants(data: bytes, chance: random.Random) -> tuple[list[Plant], int]:
    tree, text = ast.parse(data), Text(data)
    bound: dict[str, int] = {}
    for node in ast.walk(tree):
        names = [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)) else \
            [one.asname or one.name.split(".")[0] for one in node.names] \
            if isinstance(node, (ast.Import, ast.ImportFrom)) else \
            [node.id] if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else \
            [node.arg] if isinstance(node, ast.arg) else []
        for name in names:
            bound[name] = bound.get(name, 0) + 1
    modules = {one.asname or one.name: one.name for part in tree.body if isinstance(part, ast.Import)
               for one in part.names if "." not in one.name and bound.get(one.asname or one.name) == 1}
    functions = {part.name: part for part in tree.body if isinstance(part, ast.FunctionDef) and
                 not part.decorator_list and bound.get(part.name) == 1}
    plants: list[Plant] = []
    count = 0
    for owner, function in each_function(tree):
        count += 1
        where = f"{owner.name if owner is not None else ''}.{function.name}:{function.lineno}"
        methods = {part.name: part for part in owner.body
                   if isinstance(part, ast.FunctionDef) and not part.decorator_list} \
            if owner is not None and not owner.decorator_list and function.args.args[:1] and \
            function.args.args[0].arg == "self" else {}
        for node in body_of(function):
            plants += plants_at(node, where, text, (modules, functions, methods), chance)
        if modules:
            plants.append(import_plant(function, where, text, chance.choice(sorted(modules.values())), chance))
    words = set(re.findall(r"\w+", data.decode()))
    return [one for one in plants if one.name not in words or one.kind in ("missing", "extra")], count


def each_function(tree: ast.Module) -> Iterator[tuple[Any, ast.FunctionDef]]:
    for part in tree.body:
        if isinstance(part, ast.FunctionDef):
            yield None, part
        for method in part.body if isinstance(part, ast.ClassDef) else []:
            if isinstance(method, ast.FunctionDef):
                yield part, method


def body_of(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """All but nested functions and what may be meant to fail."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.Try, ast.If, ast.IfExp, ast.With)):
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


def plants_at(node: ast.AST, where: str, text: Text, known: tuple[Any, Any, Any], chance: random.Random) -> list[Plant]:
    modules, functions, methods = known
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
        is_module = node.value.id in modules
        if is_module or (node.value.id == "self" and node.attr in methods):
            name = altered(node.attr, chance)
            end = text.span(node)[1]
            if is_module and hasattr(importlib.import_module(modules[node.value.id]), name):
                return []
            return [Plant("attribute", end - len(node.attr.encode()), end, name, name, where)]
    if not isinstance(node, ast.Call) or node.lineno != node.end_lineno or any(
            isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
        return []
    function, skip = None, 0
    if isinstance(node.func, ast.Name):
        function = functions.get(node.func.id)
    elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and \
            node.func.value.id == "self":
        function, skip = methods.get(node.func.attr), 1
    if function is None:
        return []
    return call_plants(node, function, skip, where, text, chance)


def call_plants(node: ast.Call, function: ast.FunctionDef, skip: int, where: str, text: Text,
                chance: random.Random) -> list[Plant]:
    takes, most = function.args, len(function.args.args) + len(function.args.posonlyargs) - skip
    end = text.span(node)[1] - 1
    comma = b", " if node.args or node.keywords else b""
    if text.data[:end].rstrip()[-1:] == b",":
        comma = b" "
    plants = []
    if isinstance(node.func, ast.Name):
        start, stop = text.span(node.func)
        name = altered(node.func.id, chance)
        plants.append(Plant("invented", start, stop, name, name, where))
    if takes.vararg is None:
        more = ", ".join(["None"] * (most - len(node.args) + 1))
        if not node.keywords:
            plants.append(Plant("extra", end, end, comma.decode() + more, "", where))
    least = most - len(takes.defaults)
    if node.args and len(node.args) == least and not node.keywords and takes.vararg is None:
        last = text.span(node.args[-1])
        start = text.span(node.args[-2])[1] if len(node.args) > 1 else last[0]
        plants.append(Plant("missing", start, last[1], "", "", where))
    if takes.kwarg is None and takes.args[skip:]:
        name = altered(takes.args[-1].arg, chance)
        plants.append(Plant("keyword", end, end, f"{comma.decode()}{name}=None", name, where))
    return plants


def import_plant(function: ast.FunctionDef, where: str, text: Text, module: str, chance: random.Random) -> Plant:
    first = function.body[1 if len(function.body) > 1 and ast.get_docstring(function, False) is not None else 0]
    at = text.lines[first.lineno - 1]
    indent = " " * first.col_offset
    name = altered(module, chance)
    made = chance.choice([f"{name}", f"{module}.{name}", f"{module}"])
    line = f"from {made} import {name}" if made == module else f"import {made}"
    return Plant("import", at, at, f"{indent}{line}\n", name, where)


def python_copies(texts: dict[str, bytes], seed: int, per_file: int = PER_FILE) -> list[Copy]:
    copies = []
    for name, data in sorted(texts.items()):
        chance = random.Random(f"{seed} {name}")
        try:
            every, count = python_plants(data, chance)
        except (SyntaxError, ValueError, ImportError):
            continue
        copies.append(Copy(name, data, chosen(every, chance, per_file), count))
    return copies


def standard_library() -> dict[str, bytes]:
    """Modules that are one file, and do not import relatively. A file has another name, so that it hides no module."""
    folder = os.path.dirname(types.__file__)
    texts = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.endswith(".py") and not name.startswith(("_", "this.", "antigravity.")) and os.path.isfile(path):
            with open(path, "rb") as file:
                data = file.read()
            if re.search(rb"^\s*from \.", data, re.M) is None:
                texts[f"std_{name}"] = data
    return texts


# TypeScript --------------------------------------------------------------------------------------


class Parser:
    """The parser that the product has, asked directly."""

    def __init__(self, build: str) -> None:
        self.program = subprocess.Popen([os.path.join(build, "context-parser")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def tree(self, path: str, data: bytes) -> Node | None:
        language = {".js": 2, ".mjs": 2, ".ts": 3, ".tsx": 4}[os.path.splitext(path)[1]]
        assert self.program.stdin is not None and self.program.stdout is not None
        self.program.stdin.write(struct.pack("=III", language, len(data), 1) + data)
        self.program.stdin.flush()
        is_whole, size = struct.unpack("=II", self.program.stdout.read(8))
        answer = self.program.stdout.read(size)
        try:
            return decode(answer, data) if is_whole else None
        except Unread:
            return None

    def close(self) -> None:
        self.program.communicate()


def up_to(node: Node, *kinds: str) -> Node | None:
    at = node.parent
    while at is not None and at.type not in kinds:
        at = at.parent
    return at


def place_of(node: Node) -> str:
    at = up_to(node, "function_declaration", "method_definition", "arrow_function")
    return f"{at.start if at is not None else 0}"


def script_plants(tree: Node, declared: dict[str, list[Node]], data: bytes, chance: random.Random) -> list[Plant]:
    """declared: functions that the file or those that it imports from declare at their top."""
    plants: list[Plant] = []
    for node in tree.walk():
        name = node.text if node.end - node.start < 80 else ""
        if node.type == "string" and node.field == "source" and re.match(r"['\"]\.", name):
            made = altered(name[1:-1].rsplit("/", 1)[-1].split(".")[0] or "index", chance)
            path = "/".join([*name[1:-1].split("/")[:-1], made])
            plants.append(Plant("import", node.start + 1, node.end - 1, path, made, f"import {node.start}"))
        taken = node.get("name") if node.type == "import_specifier" and node.get("alias") is None else None
        if taken is not None and from_here(node):
            name = taken.text
            made = altered(name, chance)
            plants.append(Plant("import", taken.start, taken.end, f"{made} as {name}", made, f"import {node.start}"))
        if node.type == "member_expression" and (node.get("object") or node).type == "this":
            what = node.get("property")
            owner = up_to(node, "class_body")
            if what is not None and owner is not None and is_own(node) and any(
                    (part.get("name") or part).text == what.text for part in owner.parts):
                made = altered(what.text, chance)
                plants.append(Plant("attribute", what.start, what.end, made, made, place_of(node)))
        function = node.get("function") if node.type == "call_expression" else None
        if function is not None and function.type == "identifier" and len(declared.get(function.text, [])) == 1:
            plants += script_calls(node, function, declared[function.text][0], chance)
    names = set(re.findall(r"[\w$]+", data.decode()))
    return [one for one in plants if one.name not in names or one.kind in ("missing", "extra")]


def is_own(node: Node) -> bool:
    """Whether `this` is of the class: in no function but its methods and arrows."""
    at = node.parent
    while at is not None and at.type != "class_body":
        if at.type in ("function_expression", "function_declaration", "object", "if_statement", "try_statement"):
            return False
        at = at.parent
    return node.field != "left"


def from_here(node: Node) -> bool:
    statement = up_to(node, "import_statement")
    source = statement.get("source") if statement is not None else None
    return source is not None and source.text[1:2] == "."


def script_calls(node: Node, function: Node, made: Node, chance: random.Random) -> list[Plant]:
    arguments, parameters = node.get("arguments"), made.get("parameters")
    if arguments is None or parameters is None or "\n" in node.text or \
            up_to(node, "if_statement", "try_statement") is not None or any(
                part.type == "spread_element" for part in arguments.parts):
        return []
    given, takes = arguments.parts, parameters.parts
    plants = []
    name = altered(function.text, chance)
    where = place_of(node)
    plants.append(Plant("invented", function.start, function.end, name, name, where))
    if any((part.get("pattern") or part).type in ("rest_pattern", "this") for part in takes):
        return plants
    more = ", ".join(["undefined"] * (len(takes) - len(given) + 1))
    inside = node.source[arguments.start:arguments.end - 1].rstrip()
    comma = "" if inside[-1:] in (b",", b"(") else ", "
    plants.append(Plant("extra", arguments.end - 1, arguments.end - 1, comma + more, "", where))
    plain = [part for part in takes if part.type == "required_parameter" and part.get("value") is None]
    is_typed = all(re.match(r":\s*[\w.\[\]]{3,}$", (part.get("type") or part).text) for part in plain)
    if plain and len(plain) == len(takes) == len(given) and is_typed and made.get("type_parameters") is None:
        start = given[-2].end if len(given) > 1 else given[-1].start
        plants.append(Plant("missing", start, given[-1].end, "", "", where))
    return plants


def functions_at_top(tree: Node) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for part in tree.parts:
        one = part.get("declaration") if part.type == "export_statement" else part
        is_function = one is not None and one.type in ("function_declaration", "function_signature")
        name = one.get("name") if one is not None and is_function else None
        if one is not None and name is not None:
            found.setdefault(name.text, []).append(one)
    return found


def script_copies(top: str, paths: list[str], parser: Parser, seed: int, per_file: int = PER_FILE) -> list[Copy]:
    trees: dict[str, Node] = {}
    for path in sorted(paths):
        with open(os.path.join(top, path), "rb") as file:
            tree = parser.tree(path, file.read())
        if tree is not None:
            trees[path] = tree
    copies = []
    for path, tree in trees.items():
        chance = random.Random(f"{seed} {path}")
        declared = functions_at_top(tree)
        for name, module in re.findall(r"\b([\w$]+)\b(?=[^{}]*\} from '(\.[^']+)')", tree.source.decode()):
            other = os.path.normpath(os.path.join(os.path.dirname(path), re.sub(r"\.m?js$", "", module) + ".ts"))
            if other in trees:
                declared.setdefault(name, functions_at_top(trees[other]).get(name, []))
        count = sum(node.type in ("function_declaration", "method_definition", "arrow_function") and
                    node.get("body") is not None for node in tree.walk())
        plants = chosen(script_plants(tree, declared, tree.source, chance), chance, per_file)
        copies.append(Copy(path, tree.source, plants, count))
    return copies
