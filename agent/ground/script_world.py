# SPDX-License-Identifier: Apache-2.0
"""Modules of TypeScript and JavaScript: files of the project and of packages, which are only read, and modules of Node,
which lists their members."""

import fnmatch
import functools
import gc
import json
import os
import re
import shutil
import subprocess
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from script_known import NODE_MODULES
from script_names import Script
from script_tree import Unread, decode

FILE_MAX = 2 << 20
FILES = 5000  # in a project
TEXTS_MAX = 64 << 20  # of all files searched for a word
ROUND_MAX = 5 << 19  # bytes of text for one round of the parser
NODES_MAX = 1_500_000  # of all cached trees, about
SKIPPED = {"node_modules", "venv", "build", "dist", "bower_components", "__pycache__"}
MADE = {"build", "dist", "out", "lib", "es", "esm", "cjs", "gen", "generated", "__generated__", "_generated",
        "coverage", "target", "pkg"}
ENDS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
TRIED = (".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json", ".node", ".vue", ".svelte",
         ".d.mts", ".d.cts")
SAME = {".js": (".ts", ".tsx", ".d.ts"), ".jsx": (".tsx", ".d.ts"), ".mjs": (".mts", ".d.mts"),
        ".cjs": (".cts", ".d.cts")}
MAKES_NAMES = re.compile(r"nuxt|auto-import|^vue$|svelte|astro|ember|meteor|@wordpress|sails|jquery|angular$")
DEFINES = re.compile(r"^[ \t]*export[ \t]+(?:default[ \t]+)?(?:declare[ \t]+)?(?:abstract[ \t]+)?(?:async[ \t]+)?"
                     r"(?:function\*?|class|const|let|var|interface|enum|type)[ \t]+([\w$]+)", re.M)
MEMBERS = re.compile(r"(?:\.|^[ \t]*|[{,][ \t]*)(?:static |async |get |set |\* ?|#)*['\"]?([\w$]+)['\"]?"
                     r"(?:[ \t]*=[^=>]|[ \t]*:|[ \t]*\([^()\n]{0,300}\)[ \t]*\{)", re.M)
ADDS = re.compile(r"\bdeclare\s+(?:global|module)\b")
VALUES = re.compile(r"\b(?:const|let|var|function|class|namespace|enum)\s+([\w$]+)")
GLOBALS_SET = re.compile(r"\b(?:globalThis|window|global|self)(?:\.| as [^)\n]{0,40}\)\.)([\w$]+)")
LOOK = ("const m = require('module'), r = {}; for (const n of m.builtinModules) { if (n[0] === '_') continue; try { "
        "const s = new Set(); let x = require(n); while (x && x !== Object.prototype && x !== Function.prototype) { "
        "for (const k of Object.getOwnPropertyNames(x)) s.add(k); x = Object.getPrototypeOf(x) } r[n] = [...s] } "
        "catch { } } console.log(JSON.stringify(r))")
# Syntax that the grammar does not know and that is irrelevant here: <in out T>, typeof import("M")
ODD = re.compile(rb"([<,]\s*|^[ \t]*)((?:(?:in|out)\s+)+)(?=[A-Z$_])|"
                 rb"\btypeof\s+import\(\s*(?:'[^'\n]*'|\"[^\"\n]*\")\s*\)", re.M)


def without_odd(text: bytes) -> bytes:
    """Replace such syntax by blanks of the same length."""
    return ODD.sub(lambda found: found.group(1) + re.sub(rb"\S", b" ", found.group(2)) if found.group(2) else
                   b"any" + re.sub(rb"[^\n]", b" ", found.group(0)[3:]), text)


class Found(NamedTuple):
    """kind: file (path), builtin (path: its name), none, unknown."""

    kind: str
    path: str = ""


UNKNOWN, NONE = Found("unknown"), Found("none")


class Words(NamedTuple):
    """Words in the text of all scripts of the project."""

    defined: Dict[str, Tuple[str, int]]
    globals: Set[str]
    merged: Set[str]  # interfaces that another file adds to
    members: Set[str]  # assigned or defined as an attribute of any object
    ambient: List[str]  # declare module "..."


def loose_json(text: str) -> Any:
    """JSON with comments and trailing commas, as in tsconfig.json."""
    comments = r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)'
    text = re.sub(comments, lambda found: found.group(1) or "", text)
    try:
        return json.loads(re.sub(r",(\s*[}\]])", r"\1", text))
    except (ValueError, RecursionError):
        return None


def additions(text: str) -> str:
    """The contents of declare global {} and declare module "M" {}."""
    parts: List[str] = []
    at = 0
    while True:
        found = ADDS.search(text, at)
        if found is None:
            return "".join(parts)
        at = text.find("\n}", found.end())
        at = len(text) if at < 0 else at
        parts.append(text[found.end():at])


class World:
    ends: Tuple[str, ...] = ENDS
    nodes_max = NODES_MAX

    def __init__(self, top: str) -> None:
        self.top = os.path.realpath(top)
        self.scripts: Dict[str, Optional[Script]] = {}
        self.why: Dict[str, str] = {}
        self.rough: Dict[str, Script] = {}  # for files that cannot be parsed
        self.wanted: Dict[str, bytes] = {}
        self.n_nodes = 0
        self.n_missed = 0  # accesses to trees that are not yet there
        self.builtins: Optional[Dict[str, Set[str]]] = None
        self.looked: Optional[Words] = None
        self.files: Optional[List[str]] = None
        self.jsons: Dict[str, Any] = {}
        self.resolved: Dict[Tuple[str, str], Found] = {}

    def is_inside(self, path: str) -> bool:
        return (os.path.realpath(path) + "/").startswith(self.top + "/")

    def read(self, path: str) -> Optional[bytes]:
        try:
            if not self.is_inside(path) or not os.path.isfile(path) or os.path.getsize(path) > FILE_MAX:
                return None
            with open(path, "rb") as file:
                data = file.read()
            data.decode()
            return data
        except (OSError, UnicodeDecodeError, ValueError):
            return None

    # Trees

    def script(self, path: str) -> Optional[Script]:
        """The script of a file. None: it is unreadable, or its tree is requested for the next round."""
        if path not in self.scripts and path not in self.wanted:
            text = self.read(path)
            if text is None:
                self.scripts[path] = None
                self.why[path] = "it cannot be read: no UTF-8, over 2 MiB, or a link out of the project"
            else:
                self.wanted[path] = text
        self.n_missed += path in self.wanted
        return self.scripts.get(path)

    def batch(self) -> List[Tuple[str, bytes]]:
        """The texts for the next request."""
        chosen: List[Tuple[str, bytes]] = []
        size = 0
        for path, text in self.wanted.items():
            if chosen and size + len(text) > ROUND_MAX:
                break
            chosen.append((path, text))
            size += len(text)
        return chosen

    def take(self, path: str, text: bytes, tree: Optional[bytes], why: str) -> None:
        self.wanted.pop(path, None)
        try:
            if tree is None:
                raise Unread(why)
            self.n_nodes += len(tree) // 16
            self.scripts[path] = self.made(path, text, tree)
        except (Unread, RecursionError) as problem:
            self.scripts[path] = None
            self.rough[path] = Script.rough(path, text)
            self.why[path] = str(problem) if isinstance(problem, Unread) else "it is nested too deep"

    def prepared(self, text: bytes) -> bytes:
        return without_odd(text)

    def named(self, path: str, text: bytes) -> str:
        """The path whose suffix selects the language for the parser."""
        return path

    def made(self, path: str, text: bytes, tree: bytes) -> Any:
        return Script(path, decode(tree, text))

    def forget(self) -> None:
        """Trees are large: free those of other files."""
        if self.n_nodes > self.nodes_max:
            self.scripts.clear()
            gc.collect()
            self.n_nodes = 0

    # Modules

    def json(self, path: str) -> Any:
        if path not in self.jsons:
            text = self.read(path)
            self.jsons[path] = loose_json(text.decode()) if text is not None else None
        return self.jsons[path]

    def above(self, path: str) -> Iterator[str]:
        folder = os.path.dirname(path)
        while self.is_inside(folder):
            yield folder
            if os.path.realpath(folder) == self.top:
                break
            folder = os.path.dirname(folder)

    def resolve(self, spec: str, path: str) -> Found:
        key = (spec, os.path.dirname(path))
        if key not in self.resolved:
            try:
                self.resolved[key] = self.find(spec, path)
            except (OSError, ValueError, TypeError, AttributeError, RecursionError):
                self.resolved[key] = UNKNOWN
        return self.resolved[key]

    def find(self, spec: str, path: str) -> Found:
        if not spec or "?" in spec or "!" in spec or "*" in spec or "\\" in spec:
            return UNKNOWN
        if spec.startswith("."):
            return self.find_file(os.path.normpath(os.path.join(os.path.dirname(path), spec)), path)
        bare = spec[5:] if spec.startswith("node:") else spec
        if bare in NODE_MODULES:
            return Found("builtin", bare)
        if spec.startswith("node:"):
            return UNKNOWN if bare in self.node() else NONE
        if ":" in spec or spec.startswith(("/", "#", "~", "@/", "$")):
            return self.by_config(spec, path) or UNKNOWN
        return self.by_config(spec, path) or self.find_package(spec, path)

    def find_file(self, place: str, path: str) -> Found:
        if not self.is_inside(place):
            return UNKNOWN
        base, end = os.path.splitext(place)
        tried = [base + other for other in SAME.get(end, ())] + [place] + [place + other for other in TRIED]
        for one in tried:
            if os.path.isfile(one):
                return Found("file", one)
        if os.path.isdir(place):
            about = self.json(os.path.join(place, "package.json"))
            for key in ("types", "typings", "module", "main"):
                main = about.get(key) if isinstance(about, dict) else None
                if isinstance(main, str):
                    found = self.find_file(os.path.normpath(os.path.join(place, main)), path)
                    return found if found.kind == "file" else UNKNOWN
            for other in TRIED:
                if os.path.isfile(os.path.join(place, "index" + other)):
                    return Found("file", os.path.join(place, "index" + other))
            return UNKNOWN if os.path.islink(place) else NONE
        if os.path.lexists(place) or self.is_made(place) or self.has_roots(path):
            return UNKNOWN
        ambient = [pattern for pattern in self.words().ambient if "*" in pattern]
        return UNKNOWN if any(fnmatch.fnmatchcase(place, pattern) for pattern in ambient) else NONE

    def is_made(self, place: str) -> bool:
        """Whether a build may make a missing file: by the name of its folder, or .gitignore."""
        parts = os.path.relpath(place, self.top).split(os.sep)
        at = self.top
        for i, part in enumerate(parts):
            at = os.path.join(at, part)
            if os.path.exists(at):
                continue
            if part in MADE and i < len(parts) - 1 or re.search(r"\b_?_?gen(erated)?\b|\bpb\b|\.g\b", part):
                return True
            ignored = self.ignored()
            return any(fnmatch.fnmatchcase(name, pattern) for pattern in ignored
                       for name in {part, os.path.splitext(part)[0], *(part + end for end in TRIED)})
        return False

    @functools.lru_cache(maxsize=None)
    def ignored(self) -> List[str]:
        text = self.read(os.path.join(self.top, ".gitignore")) or b""
        lines = [line.strip() for line in text.decode().splitlines()]
        return [line.strip("/").split("/")[-1] for line in lines if line and line[0] not in "#!"]

    def config(self, path: str) -> Optional[Tuple[str, Dict[str, Any]]]:
        """compilerOptions of the tsconfig.json for a file, and the folder to which its paths are relative."""
        for folder in self.above(path):
            for name in ("tsconfig.json", "jsconfig.json"):
                if os.path.isfile(os.path.join(folder, name)):
                    return folder, self.options(os.path.join(folder, name), 0)
        return None

    def options(self, place: str, depth: int) -> Dict[str, Any]:
        about = self.json(place)
        if not isinstance(about, dict):
            return {}
        found: Dict[str, Any] = {}
        extends = about.get("extends")
        for one in extends if isinstance(extends, list) else [extends]:
            if isinstance(one, str) and one.startswith(".") and depth < 5:
                other = os.path.join(os.path.dirname(place), one)
                found.update(self.options(other if other.endswith(".json") else other + ".json", depth + 1))
        own = about.get("compilerOptions")
        if isinstance(own, dict):
            found.update(own)
            for key in ("paths", "baseUrl"):
                if key in own:
                    found["from " + key] = os.path.dirname(place)
        return found

    def has_roots(self, path: str) -> bool:
        config = self.config(path)
        return config is not None and "rootDirs" in config[1]

    def by_config(self, spec: str, path: str) -> Optional[Found]:
        """Find a module by paths or baseUrl of tsconfig.json; None: they do not match."""
        config = self.config(path)
        if config is None:
            return None
        options = config[1]
        base = os.path.join(options.get("from baseUrl", config[0]), options.get("baseUrl", "."))
        paths = options.get("paths", {})
        for pattern, places in paths.items():
            head, star, tail = pattern.partition("*")
            if spec != pattern and not (star and spec.startswith(head) and spec.endswith(tail) and
                                        len(spec) >= len(head) + len(tail)):
                continue
            middle = spec[len(head):len(spec) - len(tail)] if star else ""
            root = base if "baseUrl" in options else options.get("from paths", config[0])
            for place in places:
                found = self.find_file(os.path.normpath(os.path.join(root, place.replace("*", middle))), path)
                if found.kind == "file":
                    return found
            return None if head == "" else UNKNOWN
        if "baseUrl" in options and not spec.startswith(("#", "/")) and ":" not in spec:
            found = self.find_file(os.path.normpath(os.path.join(base, spec)), path)
            return found if found.kind == "file" else None
        return None

    def find_package(self, spec: str, path: str) -> Found:
        parts = spec.split("/")
        name = "/".join(parts[:2]) if spec.startswith("@") else parts[0]
        below = spec[len(name) + 1:]
        typed = "@types/" + name.lstrip("@").replace("/", "__")
        is_declared, has_list = False, False
        for folder in self.above(path):
            for one in (name, typed):
                place = os.path.join(folder, "node_modules", one)
                if os.path.isdir(place):
                    found = self.in_package(place, below)
                    if found.kind != "none" or one == typed or not os.path.isdir(
                            os.path.join(folder, "node_modules", typed)):
                        return found
            about = self.json(os.path.join(folder, "package.json"))
            if isinstance(about, dict):
                has_list = True
                needs = [about.get(key) for key in ("dependencies", "devDependencies", "peerDependencies",
                                                    "optionalDependencies")]
                is_declared = is_declared or about.get("name") == name or any(
                    name in need or typed in need for need in needs if isinstance(need, dict))
            is_declared = is_declared or any(os.path.isfile(os.path.join(folder, other)) for other in (
                "deno.json", "deno.jsonc", "import_map.json", ".pnp.cjs", "importmap.json"))
        if is_declared or not has_list or name in self.workspaces():
            return UNKNOWN
        return UNKNOWN if any(fnmatch.fnmatchcase(spec, one) for one in self.words().ambient) else NONE

    def in_package(self, place: str, below: str) -> Found:
        about = self.json(os.path.join(place, "package.json"))
        if not isinstance(about, dict):
            return UNKNOWN
        exports = about.get("exports")
        if exports is not None and not place.split("node_modules/")[-1].startswith("@types/"):
            if not isinstance(exports, dict) or not any(key.startswith(".") for key in exports):
                exports = {".": exports}
            for key, value in exports.items():
                head, star, tail = key.partition("*")
                wanted = "./" + below if below else "."
                if key == wanted:
                    return self.types_of(place, value)
                if star and wanted.startswith(head) and wanted.endswith(tail):
                    return UNKNOWN
            return NONE if below else UNKNOWN
        if below:
            return self.find_file(os.path.join(place, below), place)
        for key in ("types", "typings"):
            if isinstance(about.get(key), str):
                found = self.find_file(os.path.normpath(os.path.join(place, about[key])), place)
                return found if found.kind == "file" else UNKNOWN
        index = os.path.join(place, "index.d.ts")
        return Found("file", index) if os.path.isfile(index) else UNKNOWN

    def types_of(self, place: str, value: Any) -> Found:
        """The declarations for a row of `exports`."""
        while isinstance(value, dict):
            keys = [key for key in ("types", "import", "require", "node", "default") if key in value]
            value = value[keys[0]] if keys else None
        if not isinstance(value, str):
            return UNKNOWN
        base = os.path.normpath(os.path.join(place, value))
        for one in (base, re.sub(r"\.([mc]?)js$", r".d.\1ts", base)):
            if one.endswith((".d.ts", ".d.mts", ".d.cts")) and os.path.isfile(one):
                return Found("file", one)
        return UNKNOWN

    @functools.lru_cache(maxsize=None)
    def workspaces(self) -> Set[str]:
        """Names of the project's own packages."""
        names = set()
        for folder in {os.path.dirname(path) for path in self.each_file()} | {self.top}:
            for above in self.above(os.path.join(folder, "x")):
                about = self.json(os.path.join(above, "package.json"))
                names.add(str(about.get("name")) if isinstance(about, dict) else "")
        return names

    def needs(self, path: str, pattern: "re.Pattern[str]") -> bool:
        for folder in self.above(path):
            about = self.json(os.path.join(folder, "package.json"))
            for key in ("dependencies", "devDependencies", "peerDependencies") if isinstance(about, dict) else ():
                if isinstance(about.get(key), dict) and any(pattern.search(name) for name in about[key]):
                    return True
        return False

    def node(self) -> Dict[str, Set[str]]:
        """Members of the installed Node's modules; empty: Node is not installed."""
        if self.builtins is None:
            self.builtins = {}
            folders = [folder for folder in os.environ.get("PATH", "").split(":")
                       if folder.startswith("/") and not self.is_inside(folder)]
            program = shutil.which("node", path=":".join(folders))
            try:
                if program is not None:
                    done = subprocess.run([program, "-e", LOOK], cwd="/", env={"PATH": "/usr/bin:/bin"},
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                          timeout=20, check=True)
                    self.builtins = {name: set(names) for name, names in json.loads(done.stdout).items()}
            except (OSError, subprocess.SubprocessError, ValueError):
                pass
        return self.builtins

    # All files, as text

    def each_file(self) -> List[str]:
        if self.files is None:
            self.files = []
            for folder, folders, names in os.walk(self.top):
                folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
                self.files += [os.path.join(folder, name) for name in sorted(names) if name.endswith(self.ends)]
                if len(self.files) > FILES:
                    break
        return self.files

    def words(self) -> Words:
        if self.looked is None:
            self.looked = Words({}, set(), set(), set(), [])
            size = 0
            for path in self.each_file():
                text = (self.read(path) or b"").decode()
                size += len(text)
                if size > TEXTS_MAX:
                    break
                self.look(path, text, self.looked)
        return self.looked

    def look(self, path: str, text: str, words: Words) -> None:
        line, at = 1, 0
        for found in DEFINES.finditer(text):
            line, at = line + text.count("\n", at, found.start()), found.start()
            words.defined.setdefault(found.group(1), (path, line))
        words.members.update(MEMBERS.findall(text))
        words.globals.update(GLOBALS_SET.findall(text))
        if "declare " in text:
            added = additions(text)
            if not re.search(r"^(import|export)\b", text, re.M):
                words.globals.update(VALUES.findall(text))
            words.globals.update(VALUES.findall(added))
            words.merged.update(re.findall(r"\b(?:interface|namespace|class)\s+([\w$]+)", added))
            words.ambient.extend(re.findall(r"declare\s+module\s+['\"]([^'\"]+)['\"]", text))
