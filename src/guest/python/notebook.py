# SPDX-License-Identifier: Apache-2.0
"""Notebook syntax: lines that are not Python, and the module IPython.display.

driver.py calls this for a cell with a syntax error, so valid Python keeps its meaning. Line by line, where the compiler
stops, notebook syntax becomes a call; line numbers stay.
"""

import builtins
import importlib.machinery
import os
import re
import sys
import types
from time import perf_counter
from typing import Any, Callable, Dict, List, Optional, Tuple

FUNCTION = "__notebook__"  # a builtin while cells run
CHANGES_MAX = 200  # lines of one cell
TIMEIT_SECONDS = 0.2  # %timeit repeats until this has passed

# Commands without effect: plots show anyway, and modules are not reloaded.
NOTHING = frozenset("matplotlib load_ext reload_ext autoreload config precision".split())
SHELL = frozenset("ls cat mkdir rm cp mv pip conda".split())

LINE = re.compile(r"(\s*)(%|!)(?!%)\s*(.*?)\s*$")
GIVEN = re.compile(r"(\s*)([A-Za-z_]\w*\s*=)\s*!\s*(.*?)\s*$")
LOOPS = re.compile(r"(-[nr]\s*\d+\s+)+")  # options of %timeit
HELP = re.compile(r"(\s*)\?{0,2}([A-Za-z_][\w.]*)\?{0,2}\s*$")
FENCE = re.compile(r"```+\s*([\w+-]*)\s*$")
NAME = re.compile(r"\{([A-Za-z_]\w*)\}")


class UsageError(Exception):
    """An unsupported notebook command."""


def rewrite(lines: List[str], error: SyntaxError, parse: Callable[[str], Any]) -> List[str]:
    """The cell in Python, line for line; raises the syntax error if it cannot be converted."""
    lines = whole(unfenced(lines))
    for _ in range(CHANGES_MAX):
        try:
            parse("".join(lines))
            return lines
        except SyntaxError as again:
            number = (again.lineno or 0) - 1
        if not 0 <= number < len(lines):
            break
        joined(lines, number)
        text = one(lines[number])
        if text is None:
            break
        lines[number] = text
    raise error


def call(*args: str) -> str:
    return "{}({})".format(FUNCTION, ", ".join([repr(arg) for arg in args]))


def one(line: str) -> Optional[str]:
    """The call for a line; None if it is not a command."""
    found = GIVEN.match(line)
    if found:
        return "{}{} {}\n".format(found.group(1), found.group(2), call("=", found.group(3)))
    found = LINE.match(line)
    if found and found.group(2) == "!":
        return "{}{}\n".format(found.group(1), call("!", found.group(3).lstrip("!")))
    if found and found.group(3):
        name, _, rest = found.group(3).partition(" ")
        return "{}{}\n".format(found.group(1), call(name, rest.strip()))
    found = HELP.match(line)
    if found and "?" in line:
        return "{}{}('?', '', {})\n".format(found.group(1), FUNCTION, found.group(2))
    return None


def joined(lines: List[str], number: int) -> None:
    """Join shell lines continued by a backslash; the others become empty."""
    found = GIVEN.match(lines[number]) or LINE.match(lines[number])
    at = number
    while found and lines[at].endswith("\\\n") and at + 1 < len(lines):
        at += 1
    if at > number:
        parts = [line[:-2] for line in lines[number:at]]
        lines[number : at + 1] = ["".join(parts + [lines[at]])] + ["\n"] * (at - number)


def unfenced(lines: List[str]) -> List[str]:
    """Remove a Markdown fence around the whole cell."""
    there = [i for i, line in enumerate(lines) if line.strip()]
    lines = list(lines)
    found = FENCE.match(lines[there[0]]) if there else None
    if found:
        shell = found.group(1) in ("bash", "sh", "shell")
        lines[there[0]] = "%%bash\n" if shell else "\n"
        if len(there) > 1 and FENCE.match(lines[there[-1]]):
            lines[there[-1]] = "\n"
    return lines


def whole(lines: List[str]) -> List[str]:
    """Convert a cell with a cell command (%%)."""
    for i, line in enumerate(lines):
        if line.startswith("%%"):
            name, _, rest = line[2:].strip().partition(" ")
            if name in ("time", "timeit", "capture"):
                first = "\n" if name == "capture" else call("%%time") + "\n"
                return lines[:i] + [first] + lines[i + 1 :]
            text = call("%%" + name, rest.strip(), "".join(lines[i + 1 :]))
            return lines[:i] + [text + "\n"] + ["\n"] * (len(lines) - i - 1)
        if line.strip():
            break
    return lines


class Commands:
    """The builtin that rewritten lines call."""

    def __init__(self, names: Dict[str, Any]) -> None:
        self._names = names
        self._began: Optional[float] = None  # of a cell with %%time
        self.failed = 0  # exit code of the last failed shell line of the cell

    def run(self, name: str, rest: str = "", body: Any = "") -> Any:
        if name in NOTHING:
            return None
        if name in ("!", "%%bash", "%%sh"):
            self._shell(body if body else rest)
        elif name == "=":
            return self._lines(rest)
        elif name in SHELL:
            self._shell(name + " " + rest)
        elif name == "time":
            return self._time(rest)
        elif name == "timeit":
            self._timeit(LOOPS.sub("", rest))
        elif name == "%%time":
            self._began = perf_counter()
        elif name == "?":
            describe(body)
        elif name == "cd":
            os.chdir(os.path.expanduser(rest or "~"))
        elif name == "pwd":
            return os.getcwd()
        elif name in ("%%writefile", "%%file"):
            with open(rest, "w") as out:
                out.write(body)
        else:
            name = name if name.startswith("%%") else "%" + name
            raise UsageError("the notebook command {} is not available".format(name))
        return None

    def _command(self, text: str) -> List[str]:
        known = self._names
        text = NAME.sub(lambda m: str(known[m.group(1)]) if m.group(1) in known else m.group(0), text)
        return ["/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh", "-c", text]

    def _shell(self, text: str) -> None:
        import subprocess

        sys.stdout.flush()
        self._ended(subprocess.call(self._command(text)))

    def _lines(self, text: str) -> List[str]:
        import subprocess

        done = subprocess.run(self._command(text), stdout=subprocess.PIPE, universal_newlines=True)
        self._ended(done.returncode)
        return done.stdout.splitlines()

    def _ended(self, code: int) -> None:
        self._names["_exit_code"] = code
        if code != 0:
            self.failed = code if code > 0 else 128 - code

    def _time(self, text: str) -> Any:
        code = compiled(text)
        began = perf_counter()
        value = eval(code, self._names)
        print("Wall time: " + shown(perf_counter() - began))
        return value

    def _timeit(self, text: str) -> None:
        code, loops, took = compiled(text), 0, 0.0
        while took < TIMEIT_SECONDS:
            loops = max(1, loops * 4)
            began = perf_counter()
            for _ in range(loops):
                eval(code, self._names)
            took = perf_counter() - began
        print("{} per loop (mean of {} loops)".format(shown(took / loops), loops))

    def end(self) -> None:
        """At the end of the cell."""
        began, self._began = self._began, None
        if began is not None:
            print("Wall time: " + shown(perf_counter() - began))


def compiled(text: str) -> Any:
    try:
        return compile(text, "<%time>", "eval")
    except SyntaxError:
        return compile(text, "<%time>", "exec")


def shown(seconds: float) -> str:
    for unit, scale in ("s", 1), ("ms", 1e3), ("us", 1e6):
        if seconds * scale >= 1:
            return "{:.3g} {}".format(seconds * scale, unit)
    return "{:.3g} ns".format(seconds * 1e9)


def describe(value: Any) -> None:
    """Output of `?`: help() of a DataFrame has thousands of lines."""
    import inspect

    try:
        print("{}{}".format(getattr(value, "__name__", type(value).__name__), inspect.signature(value)))
    except (TypeError, ValueError):
        print("Type: " + type(value).__name__)
    print(inspect.getdoc(value) or "No documentation.")


# IPython.display -----------------------------------------------------------------------------


class Shown:
    """Data with its display type."""

    mime = "text/plain"
    is_binary = False

    def __init__(self, data: Any = None, url: Any = None, filename: Any = None, **_options: Any) -> None:
        if filename is not None:
            with open(filename, "rb" if self.is_binary else "r") as file:
                data = file.read()
        self.data = data
        self.url = url

    def _repr_mimebundle_(self, **_options: Any) -> Dict[str, Any]:
        return {} if self.data is None else {self.mime: self.data}


class HTML(Shown):
    mime = "text/html"


class Markdown(Shown):
    mime = "text/markdown"


class Latex(Shown):
    mime = "text/latex"


class SVG(Shown):
    mime = "image/svg+xml"


class JSON(Shown):
    mime = "application/json"


class Pretty(Shown):
    pass


class Image(Shown):
    mime = "image/png"
    is_binary = True

    def __init__(self, data: Any = None, url: Any = None, filename: Any = None, **options: Any) -> None:
        if isinstance(data, (str, os.PathLike)):
            data, filename = None, data
        super().__init__(data, url, filename, **options)
        if isinstance(self.data, bytes) and self.data[:2] == b"\xff\xd8":
            self.mime = "image/jpeg"


def display(*values: Any, **_options: Any) -> None:
    """Show values as rich output of the cell."""
    builtins.display(*values)  # type: ignore[attr-defined]


def clear_output(*_args: Any, **_options: Any) -> None:
    """Does nothing: output is already sent."""


SHOWN: Tuple[Any, ...] = (HTML, Markdown, Latex, SVG, JSON, Pretty, Image, display, clear_output)
PACKAGES = ("IPython", "IPython.core")
MODULES = ("IPython.display", "IPython.core.display")
for _each in SHOWN:
    _each.__module__ = "IPython.display"
del _each


class Finder:
    """The last importer: an installed IPython takes precedence."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name not in PACKAGES and name not in MODULES:
            return None
        return importlib.machinery.ModuleSpec(name, Finder, is_package=name in PACKAGES)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: Any) -> Any:
        return types.ModuleType(spec.name)

    @staticmethod
    def exec_module(module: Any) -> None:
        if module.__name__ in MODULES:
            vars(module).update({each.__name__: each for each in SHOWN})
        else:
            module.version_info = (8, 0, 0)
            module.get_ipython = lambda: None  # there is no notebook
            module.display = display


class Installed:
    """The first importer, for an installed IPython: without its shell, its display() would only print."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name not in ("IPython.core.display_functions", "IPython.core.display"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            if hasattr(module, "display"):
                module.display = display
        setattr(spec.loader, "exec_module", exec_module)
        return spec


def install(names: Dict[str, Any]) -> Commands:
    """Prepare the namespace of cells."""
    commands = Commands(names)
    setattr(builtins, FUNCTION, commands.run)
    sys.meta_path.insert(0, Installed)
    sys.meta_path.append(Finder)
    return commands
