# SPDX-License-Identifier: Apache-2.0
"""Names of Go, Java, Rust, C, C++, Ruby and Bash: from files of the project, and from headers of the system."""

import difflib
import glob
import os
import re
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple, Union

from ground_world import nearest
from script_tree import Node, decode
from script_world import FILES, TEXTS_MAX, World
from unit_known import CORE, EXTENDED, KEEPS_SELF
from unit_names import CODE_ENDS, LANGUAGE, TABLES, Type, Unit, used

FAMILY = {"C": ("C", "C++"), "C++": ("C", "C++")}
CLOSURE_MAX = 600  # headers
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include(?:_next)?[ \t]*(?:\"([^\"\n]+)\"|<([^>\n]+)>|(\w+))", re.M)
PASTE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+\w+\(([^)]*)\)((?:[^\n\\]|\\.|\\\n)*)", re.M)
CHAIN = re.compile(r"\w+(?:\s*##\s*\w+)+")
WORD = re.compile(r"[A-Za-z_]\w*")
SYSTEM = ("/usr/include", "/usr/local/include", "/usr/include/*-linux-gnu", "/usr/lib/gcc/*/*/include",
          "/usr/include/c++/*", "/usr/include/*-linux-gnu/c++/*")
TYPES = {
    "Java": re.compile(r"\b(?:class|interface|enum|record)\s+(\w+)"),
    "Rust": re.compile(r"\b(?:struct|enum|union|trait|type)\s+(\w+)|\bimpl\b([^{;]{0,400})\{"),
    "Ruby": re.compile(r"^\s*(?:class|module)\s+([\w:]+)|\b([A-Z]\w*)\s*=[^=~]", re.M),
}
FUNCTIONS = {"Rust": re.compile(r"\bfn\s+(\w+)|\bstruct\s+(\w+)\s*(?:<[^>]*>)?\s*\("),
             "Ruby": re.compile(r"\bdef\s+(?:\w+\.)?(\w+[?!=]?)|:(\w+[?!=]?)|\"(\w+[?!=]?)\"")}
IS_CPP = re.compile(rb"^\s*(class|namespace|template|public:|private:|using)\b", re.M)
GUARDED = frozenset("list if_statement elif_clause test_command while_statement".split())
BUILDS = re.compile(r"(?i)^(meson\.build|CMakeLists\.txt|.*makefile.*|configure|BUILD|"
                    r".*\.(mk|am|ac|cmake|in|bazel|gn|gyp|def|y|l|py|sh|pl))$")
Problem = Union[None, str, Tuple[str, str]]


class Closure(NamedTuple):
    """The headers that #include reaches."""

    paths: List[str]  # in the project
    headers: List["Header"]
    is_whole: bool

    def has(self, word: str, is_system: bool = False) -> bool:
        return any(word in one.words for one in self.headers if not (is_system and one.is_own))


class Header(NamedTuple):
    words: Set[str]
    includes: List[List[str]]  # the files that each may be
    pasted: List["re.Pattern[str]"]
    is_own: bool  # in the project


class Index(NamedTuple):
    types: Dict[str, Set[str]]  # name: files
    functions: Set[str]
    packages: Dict[str, Set[str]]  # of Java: package: files


def pasted(text: str) -> List["re.Pattern[str]"]:
    """Patterns of names made by a ## b."""
    made = []
    for found in PASTE.finditer(text) if "##" in text else ():
        parameters = set(WORD.findall(found.group(1)))
        for chain in CHAIN.findall(found.group(2)):
            parts = re.split(r"\s*##\s*", chain)
            if any(part not in parameters for part in parts):
                if sum(part in parameters for part in parts) > 3:  # else matching takes forever
                    parts = [*parts[:1], next(iter(parameters)), *parts[-1:]]
                made.append(re.compile("".join(r"(\w*)" if part in parameters else part for part in parts)))
    return made


class Units(World):
    ends = CODE_ENDS
    nodes_max = 500_000  # the data of a file is about as large as its tree

    def __init__(self, top: str) -> None:
        super().__init__(top)
        self.indexes: Dict[str, Index] = {}
        self.closures: Dict[str, Closure] = {}
        self.headers: Dict[str, Header] = {}
        self.by_name: Optional[Dict[str, List[str]]] = None
        self.built: Optional[str] = None
        self.said: Dict[str, Set[str]] = {}
        self.native: Optional[bool] = None
        self.system_folders = [folder for pattern in SYSTEM for folder in sorted(glob.glob(pattern))]

    def prepared(self, text: bytes) -> bytes:
        return text

    def named(self, path: str, text: bytes) -> str:
        return path + "pp" if path.endswith(".h") and IS_CPP.search(text) is not None else path

    def made(self, path: str, text: bytes, tree: bytes) -> Unit:
        language = LANGUAGE[os.path.splitext(self.named(path, text))[1].lower()]
        return Unit(path, decode(tree, text, language in ("C", "C++", "Bash")), language)

    def unit(self, path: str) -> Optional[Unit]:
        found: Any = self.script(path)
        return found  # type: ignore[no-any-return]

    def several(self, paths: List[str], package: Optional[str] = None) -> Tuple[List[Unit], bool]:
        units: List[Optional[Unit]] = [self.unit(path) for path in paths]
        known = [one for one in units if one is not None]
        return [one for one in known if package is None or one.package == package], len(known) == len(units)

    # Visible names

    def reach(self, unit: Unit) -> Tuple[List[Unit], bool]:
        """Files whose functions can be called by bare names, and whether these are all."""
        language = unit.language
        if language == "Go":
            units, is_whole = self.several(self.siblings(os.path.dirname(unit.path), ".go"), unit.package)
            return units, is_whole and not unit.stars and "C" not in unit.imported
        if language in ("C", "C++"):
            closure = self.closure(unit)
            units, is_whole = self.several(closure.paths)
            return [unit, *units], is_whole and closure.is_whole
        if language == "Rust":
            return [unit], all(self.is_own(spec, unit) for spec in unit.stars)
        return [unit], not any(spec.startswith("static ") for spec in unit.stars)

    def is_own(self, spec: str, unit: Unit) -> bool:
        """Whether a path of Rust begins in the project."""
        first = spec.split("::")[0]
        return first in ("crate", "self", "super", "Self") or first in unit.types or \
            (first in unit.imported and unit.imported[first] != first and first != spec and
             self.is_own(unit.imported[first], unit))

    def siblings(self, folder: str, end: str) -> List[str]:
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(end))
        except OSError:
            return []
        return [os.path.join(folder, name) for name in names]

    def declaring(self, unit: Unit, of: str, name: str) -> Tuple[List[Unit], bool]:
        """Files with a type of that name, where it is visible; whether these are all."""
        language = unit.language
        if language == "Go":
            return self.package(unit, unit.imported[of]) if of in unit.imported else ([], False) if of else \
                self.reach(unit)
        if language in ("C", "C++"):
            units, is_whole = self.reach(unit)
            return [one for one in units if name in one.types], is_whole
        paths = self.index(language).types.get(name, set())
        if language == "Java":
            if name in unit.types:
                return [unit], True
            there = self.index(language).packages.get(
                unit.imported[name].rpartition(".")[0] if name in unit.imported else unit.package, set())
            return self.several(sorted(path for path in paths & there
                                       if os.path.basename(path) == name + ".java"))
        if language == "Rust":
            is_own = (name in unit.types and bool(unit.types[name].nodes)) or (
                self.is_own(unit.imported[name], unit) if name in unit.imported else
                bool(unit.stars) and all(self.is_own(spec, unit) for spec in unit.stars))
            return self.several(sorted(paths)) if is_own else ([], False)
        is_own = all(part in self.index(language).types for part in of.split("::") if part) and not self.has_native()
        return self.several(sorted(paths)) if name not in CORE and is_own else ([], False)

    def has_native(self) -> bool:
        """Whether C code may extend the classes of a Ruby project."""
        if self.native is None:
            self.native = any(os.path.basename(path) == "extconf.rb" or re.search(
                rb"require.*\.(so|bundle|jar)['\"]", self.read(path) or b"") is not None
                for path in self.each_file() if path.endswith(".rb"))
        return self.native

    def package(self, unit: Unit, spec: str) -> Tuple[List[Unit], bool]:
        """The files of a Go package of the project."""
        folder = self.go_folder(unit, spec)
        if folder is None or not os.path.isdir(folder):
            return [], False
        units, is_whole = self.several(self.siblings(folder, ".go"))
        is_whole = is_whole and not any("C" in one.imported for one in units)
        return [one for one in units if not one.package.endswith("_test")], is_whole

    def go_folder(self, unit: Unit, spec: str) -> Optional[str]:
        for folder in self.above(unit.path):
            text = self.read(os.path.join(folder, "go.mod"))
            found = re.search(r"^module[ \t]+\"?([^\s\"]+)", text.decode(), re.M) if text is not None else None
            if found is not None:
                name = found.group(1)
                is_own = (spec + "/").startswith(name + "/")
                return os.path.join(folder, spec[len(name):].strip("/")) if is_own else None
        return None

    def index(self, language: str) -> Index:
        if language not in self.indexes:
            made = self.indexes[language] = Index({}, set(), {})
            size = 0
            for path in self.each_file():
                if LANGUAGE.get(os.path.splitext(path)[1].lower()) != language or size > TEXTS_MAX:
                    continue
                text = (self.read(path) or b"").decode()
                size += len(text)
                for found in TYPES[language].finditer(text):
                    for word in WORD.findall(" ".join(part for part in found.groups() if part)):
                        made.types.setdefault(word, set()).add(path)
                if language in FUNCTIONS:
                    made.functions.update(word for found in FUNCTIONS[language].finditer(text)
                                          for word in found.groups() if word)
                package = re.search(r"^\s*package\s+([\w.]+)\s*;", text, re.M)
                made.packages.setdefault(package.group(1) if package is not None else "", set()).add(path)
        return self.indexes[language]

    def is_word(self, unit: Unit, name: str) -> bool:
        """Whether a part that is not parsed may define the name."""
        if unit.language in ("C", "C++"):
            closure = self.closure(unit)
            if len(name) > 100 or closure.has(name) or (unit.is_broken and name in self.mentioned(unit)) or \
                    name.isupper() or name.startswith("__"):
                return True
            own = self.header(unit.path)
            made = [one.fullmatch(name) for header in [own, *closure.headers] for one in header.pasted]
            return any(all(not part or part in own.words or closure.has(part) for part in one.groups())
                       for one in made if one is not None)
        if unit.language == "Rust":
            return bool(unit.stars) and (name in self.index("Rust").functions or name[:1].isupper())
        return unit.language == "Ruby" and name in self.index("Ruby").functions

    def mentioned(self, unit: Unit) -> Set[str]:
        """Words in other places than before arguments."""
        if unit.path not in self.said:
            text = self.text_of(unit)
            self.said[unit.path] = {*re.findall(r"\b(\w+)\b(?!\s*\()", text),
                                    *re.findall(r"\b(\w+)\s*\([^()]*\)\s*\{", text)}
        return self.said[unit.path]

    def may_be_member(self, unit: Unit, name: str, is_call: bool) -> bool:
        """Whether an extension of any type may have the member."""
        if unit.language in ("C", "C++"):
            every = [one.names[name].parent for one in self.reach(unit)[0] if name in one.names]
            return any(one is not None and one.type == "preproc_def" for one in every) or \
                name.startswith(("st_", "sa_", "si_", "s6_", "s_", "h_")) and self.closure(unit).has(name, True)
        if unit.language == "Rust":
            extends = any(re.search(r"(?i)ext$|prelude", spec) for spec in unit.imported.values())
            return is_call and (extends or name in self.index("Rust").functions or
                                not all(self.is_own(spec, unit) for spec in unit.stars))
        return unit.language == "Ruby" and (name in EXTENDED or name in self.index("Ruby").functions)

    def is_macro(self, unit: Unit, name: str) -> bool:
        if unit.language not in ("C", "C++"):
            return False
        return self.closure(unit).has(name, True) or any(name in one.names for one in self.reach(unit)[0])

    def is_plain_ruby(self, node: Node, owner: Optional[Type]) -> bool:
        """Whether the code runs as a method of its class."""
        if owner is None or not owner.nodes or owner.nodes[0].type != "class" or \
                re.search(r"(?i)not.?implemented|abstract|must (be )?(implement|overrid)", self.text_of(owner.unit)):
            return False
        at = node.parent
        while at is not None and at.type not in ("method", "singleton_method", "class", "program"):
            call = at.parent if at.type in ("block", "do_block") else None
            method = call.get("method") if call is not None and call.type == "call" else None
            if call is not None and (method is None or method.text not in KEEPS_SELF):
                return False
            at = at.parent
        return at is not None and at.type.endswith("method")

    # Headers

    def header(self, path: str) -> Header:
        if path not in self.headers:
            is_own = self.is_inside(path)
            try:
                if is_own:
                    text = (self.read(path) or b"").decode()
                else:
                    with open(path, encoding="latin-1") as file:
                        text = file.read(4 << 20)
            except OSError:
                text = "#include UNREAD"
            self.headers[path] = Header(set(map(sys.intern, WORD.findall(text))), [
                self.includes(a or b, bool(a), path) if a or b else [] for a, b, _ in INCLUDE.findall(text)],
                pasted(text), is_own)
        return self.headers[path]

    def includes(self, spec: str, is_quoted: bool, path: str) -> List[str]:
        """The files that an #include may mean."""
        others: List[str] = []
        beside = os.path.normpath(os.path.join(os.path.dirname(path), spec))
        if is_quoted and os.path.isfile(beside):
            return [beside]
        if self.is_inside(path):
            if self.by_name is None:
                self.by_name = {}
                for one in self.each_file():
                    self.by_name.setdefault(os.path.basename(one), []).append(one)
            end = "/" + re.sub(r"^(?:\.\.?/)+", "", spec)
            own = [one for one in self.by_name.get(os.path.basename(spec), []) if one.endswith(end)]
            if own and is_quoted:
                return own
            others = own
        found = [os.path.join(folder, spec) for folder in self.system_folders
                 if os.path.isfile(os.path.join(folder, spec))][:2]
        return found + others or ([beside] if os.path.isfile(beside) else [])

    def closure(self, unit: Unit) -> Closure:
        if unit.path not in self.closures:
            seen, waiting, is_whole = {unit.path}, [unit.path], True
            paths: List[str] = []
            headers: List[Header] = []
            while waiting and len(seen) < CLOSURE_MAX:
                path = waiting.pop()
                header = self.header(path)
                if path != unit.path:
                    headers.append(header)
                    paths += [path] if header.is_own else []
                for there in header.includes:
                    is_whole = is_whole and (bool(there) or not header.is_own)
                    waiting += [one for one in there if one not in seen]
                    seen.update(there)
            is_whole = is_whole and not waiting
            paths = [one for one in paths if one.endswith(TABLES["C"].ends + TABLES["C++"].ends)]
            self.closures[unit.path] = Closure(paths, headers, is_whole)
        return self.closures[unit.path]

    # Imports

    def import_problem(self, node: Node, unit: Unit) -> Problem:
        """"": it exists; None: unknown; else the missing name and a similar one."""
        how = getattr(self, "import_" + unit.language.lower().replace("c++", "c"))
        found: Problem = how(node, unit)
        return found

    def missing(self, spec: str, place: str, among: str) -> Problem:
        """The problem of a missing file or folder; `among`: the folder with candidates."""
        if not self.is_inside(place) or os.path.lexists(place) or self.is_made(place):
            return None
        try:
            names = sorted({name.split(".")[0] for name in os.listdir(among)})
        except OSError:
            names = []
        last = re.sub(r"\.\w+$", "", os.path.basename(spec))
        near = nearest(last, names)
        return spec, spec[:len(spec) - len(os.path.basename(spec))] + near if near and "::" not in spec else near

    def import_go(self, node: Node, unit: Unit) -> Problem:
        path = node.get("path")
        spec = path.text.strip('"`') if path is not None else ""
        folder = self.go_folder(unit, spec)
        if folder is None:
            return None
        if self.siblings(folder, ".go"):
            return ""
        if os.path.isdir(folder) or any(os.path.isfile(os.path.join(one, "go.mod")) for one in self.above(folder + "/x")
                                        if len(one) > len(self.top) and os.path.join(one, "") not in unit.path):
            return None
        return self.missing(spec, folder, os.path.dirname(folder))

    def import_java(self, node: Node, unit: Unit) -> Problem:
        path = node.first("scoped_identifier", "identifier")
        spec = path.text if path is not None else ""
        index = self.index("Java")
        if node.first("asterisk") is not None:
            return "" if spec in index.packages else None
        parts = spec.split(".")
        at = next((i for i, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
        package, name = ".".join(parts[:at]), parts[at]
        there = index.packages.get(package, set())
        if not there:
            return None
        if index.types.get(name, set()) & there:
            return ""
        if "_" in name or any("generated" in path for path in there) or self.says("annotationProcessor"):
            return None
        names = {one for one, paths in index.types.items() if paths & there}
        near = nearest(name, sorted(names))
        return (spec, f"{package}.{near}") if near else None

    def import_rust(self, node: Node, unit: Unit) -> Problem:
        in_crate = os.sep + "src" + os.sep in unit.path or os.path.exists(os.path.join(
            os.path.dirname(os.path.dirname(unit.path)), "Cargo.toml"))
        name = node.get("name")
        at = node.parent
        if not in_crate or (at is not None and at.type not in ("source_file",)) or "#[path" in self.text_of(unit) or \
                "cfg" in self.before(node):
            return None
        base = os.path.splitext(os.path.basename(unit.path))[0]
        folder = os.path.dirname(unit.path)
        below = folder if base in ("mod", "lib", "main", "build") else os.path.join(folder, base)
        if node.type == "mod_item":
            if name is None or node.get("body") is not None:
                return None
            if any(os.path.isfile(os.path.join(one, name.text + end)) for one in (below, folder)
                   for end in (".rs", "/mod.rs")):
                return ""
            return self.missing(name.text, os.path.join(below, name.text + ".rs"), below)
        problems = [self.path_problem(spec, below, unit) for spec, _ in used(node.get("argument"))]
        return next((one for one in problems if one), None if None in problems else "")

    def path_problem(self, spec: str, below: str, unit: Unit) -> Problem:
        parts = spec.split("::")
        if parts[0] != "crate" or len(parts) < 2 or os.sep + "bin" + os.sep in unit.path:
            return None
        root = unit.path[:unit.path.rfind(os.sep + "src" + os.sep) + 4]
        texts = [self.read(os.path.join(root, name)) for name in ("lib.rs", "main.rs")]
        text = b"".join(one for one in texts if one is not None).decode()
        for part in parts[1:]:
            if "#[path" in text or not text:
                return None
            there = [os.path.join(root, part + ".rs"), os.path.join(root, part, "mod.rs")]
            files = [one for one in there if os.path.isfile(one)]
            if not files:
                if re.search(rf"\b{re.escape(part)}\b", text) or "*" in "".join(re.findall(r"\buse\b[^;]*;", text)) or \
                        re.search(r"^\s*[\w:]+!\s*[({\[]|include!|macro_use", text, re.M) or part in ("self", "super"):
                    return None
                names = set(re.findall(r"\b(?:fn|struct|enum|union|trait|type|mod|const|static)\s+(\w+)", text))
                return spec, nearest(part, sorted(names))
            text, root = (self.read(files[0]) or b"").decode(), os.path.join(root, part)
        return ""

    def text_of(self, unit: Unit) -> str:
        return unit.tree.source.decode("utf-8", "replace")

    def before(self, node: Node) -> str:
        siblings = node.parent.children if node.parent is not None else []
        at = siblings.index(node) if node in siblings else 0
        return siblings[at - 1].text if at and siblings[at - 1].type == "attribute_item" else ""

    def import_c(self, node: Node, unit: Unit) -> Problem:
        path = node.get("path")
        if path is None or path.type != "string_literal":
            return None
        spec = path.text.strip('"')
        if self.includes(spec, True, unit.path):
            return ""
        folder = os.path.dirname(spec)
        own = {os.path.dirname(one) for one in self.each_file()}
        among = [one for one in own if one.endswith("/" + folder)] if folder else [os.path.dirname(unit.path)]
        at = node.parent
        while at is not None and not (at.type in ("preproc_if", "preproc_elif", "preproc_else") or
                                      at.type == "preproc_ifdef" and not at.has("#ifndef")):
            at = at.parent
        if not among or at is not None or self.says(os.path.basename(spec)) or "config" in spec or "version" in spec:
            return None
        headers = sorted({os.path.basename(one) for place in among
                          for one in self.siblings(place, os.path.splitext(spec)[1])})
        near = nearest(os.path.basename(spec), headers)
        is_like = difflib.SequenceMatcher(None, near, os.path.basename(spec)).ratio() > (0.5 if folder else 0.8)
        return (spec, os.path.join(folder, near)) if near and is_like and not any(
            self.is_made(os.path.join(place, os.path.basename(spec))) for place in among) else None

    def says(self, word: str) -> bool:
        """Whether a build file of the project has the word."""
        if self.built is None:
            texts = []
            for folder, folders, names in os.walk(self.top):
                folders[:] = [one for one in folders if not one.startswith(".") and one != "node_modules"]
                texts += [(self.read(os.path.join(folder, name)) or b"").decode() for name in names
                          if BUILDS.match(name) or name in ("pom.xml", "build.gradle", "build.gradle.kts")]
                texts += [name for name in names if name.endswith(".in")]
                if len(texts) > FILES:
                    break
            self.built = "\n".join(texts)
        return word in self.built

    def import_ruby(self, node: Node, unit: Unit) -> Problem:
        method, arguments = node.get("method"), node.get("arguments")
        given = arguments.parts if arguments is not None else []
        if method is None or method.text != "require_relative" or node.get("receiver") is not None:
            return None if method is not None and method.text in ("require", "load") else ""
        if len(given) != 1 or given[0].type != "string" or given[0].first("interpolation") is not None:
            return None
        spec = given[0].text[1:-1]
        place = os.path.normpath(os.path.join(os.path.dirname(unit.path), spec))
        if any(os.path.isfile(place + end) for end in ("", ".rb", ".so")):
            return ""
        at: Optional[Node] = node
        while at is not None:
            if at.type in ("begin", "rescue", "rescue_modifier", "if", "if_modifier", "unless", "unless_modifier",
                           "case"):
                return None
            at = at.parent
        return self.missing(spec, place + ".rb", os.path.dirname(place))

    def import_bash(self, node: Node, unit: Unit) -> Problem:
        name = node.get("name")
        given = [part for part in node.children if part.field == "argument"]
        if name is None or name.text not in ("source", ".") or not given:
            return ""
        here = r"^\"?(\$\(dirname \"?(\$0|\$\{?BASH_SOURCE(\[0\])?\}?)\"?\)|\$\{(0|BASH_SOURCE(\[0\])?)%/\*\})/"
        text = re.sub(here, "./", given[0].text).strip("\"'")
        if re.fullmatch(r"[\w./-]+", text) is None or "/" not in text or text.startswith(("/", "~")):
            return None
        folders = [os.path.dirname(unit.path), self.top]
        if any(os.path.isfile(os.path.join(folder, text)) for folder in folders):
            return ""
        at = node.parent
        while at is not None:
            if at.type in GUARDED or at.type in ("if_statement", "case_statement"):
                return None
            at = at.parent
        if "cd " in self.text_of(unit) or "pushd" in self.text_of(unit):
            return None
        place = os.path.normpath(os.path.join(folders[0], text))
        return self.missing(text, place, os.path.dirname(place))
