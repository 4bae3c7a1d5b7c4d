# SPDX-License-Identifier: Apache-2.0
"""Grade whether a sample passes the tests of its task, in two processes, of which only one has the tests.

The tests run in this process. The sample runs in a child, which calls its functions on request and returns only data:
no object of the sample is ever in the process of the tests, and the sample can neither read nor write its memory. The
outcome is a line with a secret, which is passed on standard input alone.
"""

import ast
import builtins
import ctypes
import json
import os
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional

DEPTH = 200
LINE = 16 << 20
PR_SET_DUMPABLE = 4
REFS: List[Any] = []  # in the child: objects other than data stay there


def pack(value: Any, keep: Optional[Callable[[Any], Any]], depth: int = 0) -> Any:
    if depth > DEPTH:
        raise ValueError("nested too deeply")
    if value is None or isinstance(value, (bool, str)):
        return value if value is None or isinstance(value, bool) else str.__str__(value)
    if isinstance(value, int):
        return {"i": str(int(value))}
    for kind, name in ((float, "f"), (complex, "c")):
        if isinstance(value, kind):
            return {name: repr(kind(value))}
    if isinstance(value, bytes):
        return {"b": value.hex()}
    for each, name in ((list, "l"), (tuple, "t"), (set, "s"), (frozenset, "z")):
        if isinstance(value, each):
            return {name: [pack(item, keep, depth + 1) for item in value]}
    if isinstance(value, dict):
        return {"d": [[pack(k, keep, depth + 1), pack(v, keep, depth + 1)] for k, v in value.items()]}
    if isinstance(value, Handle):
        return {"r": value.number}
    if keep is None:
        raise TypeError("an argument is not data: " + type(value).__name__)
    return keep(value)


def unpack(value: Any, held: Callable[[int], Any]) -> Any:
    if not isinstance(value, dict):
        return [] if isinstance(value, list) else value
    (name, inner), = value.items()
    if name == "r":
        return held(int(inner))
    if name in "ifcb":
        read: Dict[str, Callable[[str], Any]] = {"i": int, "f": float, "c": complex, "b": bytes.fromhex}
        return read[name](str(inner))
    if name == "d":
        return {unpack(k, held): unpack(v, held) for k, v in inner}
    return {"l": list, "t": tuple, "s": set, "z": frozenset}[name](unpack(each, held) for each in inner)


# The sample ---------------------------------------------------------------------------------


def refer(value: Any) -> Any:
    REFS.append(value)
    return {"r": len(REFS) - 1}


def serve() -> None:
    asked, answers = sys.stdin, os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    space: Dict[str, Any] = {"__name__": "solution"}
    for line in asked:
        request = json.loads(line)
        try:
            if "code" in request:
                exec(compile(request["code"], "solution.py", "exec"), space)
                value: Any = sorted(name for name in space if name.isidentifier())
            else:
                args = [unpack(each, REFS.__getitem__) for each in request["args"]]
                more = {k: unpack(v, REFS.__getitem__) for k, v in request["more"].items()}
                target = request["call"]
                value = (list(REFS[request["list"]]) if target is None else
                         (space[target] if isinstance(target, str) else REFS[target])(*args, **more))
            answer = {"value": pack(value, refer)}
        except BaseException as error:  # SystemExit, too, is an answer
            names = [kind.__name__ for kind in type(error).__mro__]
            answer = {"error": names[:8], "text": str(error)[:200]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


# The tests ----------------------------------------------------------------------------------


class Ended(BaseException):
    """The sample's process has ended; no test can swallow this exception."""


class Handle:
    """An object of the child other than data: it can be called, iterated over, and passed back."""

    def __init__(self, sample: "Sample", number: int) -> None:
        self.sample, self.number = sample, number

    def __call__(self, *args: Any, **more: Any) -> Any:
        return self.sample.call(self.number, args, more)

    def __iter__(self) -> Any:
        return iter(self.sample.ask({"call": None, "list": self.number, "args": [], "more": {}}))


class Sample:
    def __init__(self, source: str) -> None:
        self.kinds: List[str] = []  # of the last exception
        self.child = subprocess.Popen([sys.executable, "-I", "-c", source, "sample"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def ask(self, request: Any) -> Any:
        assert self.child.stdin is not None and self.child.stdout is not None
        try:
            self.child.stdin.write(json.dumps(request) + "\n")
            self.child.stdin.flush()
            line = self.child.stdout.readline(LINE)
            answer = json.loads(line)
            if "error" not in answer:
                return unpack(answer["value"], lambda number: Handle(self, number))
            self.kinds, text = [str(each) for each in answer["error"]], str(answer["text"])
        except Exception:
            raise Ended("the sample's process ended, or gave no valid answer") from None
        known = [getattr(builtins, kind, None) for kind in self.kinds]
        errors = [each for each in known if isinstance(each, type) and issubclass(each, Exception)]
        raise (errors[0] if errors else RuntimeError)(text)

    def call(self, target: Any, args: Any, more: Any) -> Any:
        return self.ask({"call": target, "args": [pack(each, None) for each in args],
                         "more": {k: pack(v, None) for k, v in more.items()}})

    def function(self, name: str) -> Callable[..., Any]:
        return lambda *args, **more: self.call(name, args, more)


def parameters(text: str, name: str) -> Optional[List[str]]:
    """The parameters of the last function of this name; None: no such function, or the text is invalid."""
    try:
        found = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    args = found[-1].args if found else None
    return None if args is None else [each.arg for each in args.posonlyargs + args.args + args.kwonlyargs]


def used(text: str) -> List[str]:
    return sorted({node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} - set(dir(builtins)))


def judge(task: Any, sample: Sample) -> None:
    names = sample.ask({"code": task["code"]})
    space: Dict[str, Any] = {"__name__": "tests"}
    exec(compile(task["setup"], "setup.py", "exec"), space)
    wanted = [task["entry"]] if task["entry"] else [each for each in used(task["test"]) if each not in space]
    for name in wanted:
        if name in names:
            space[name] = sample.function(name)
    if task["entry"] and task["entry"] not in names:
        raise NameError(f"there is no function {task['entry']}")
    exec(compile(task["test"], "test.py", "exec"), space)
    if task["entry"] and callable(space.get("check")):
        space["check"](space[task["entry"]])


def main() -> None:
    task = json.load(sys.stdin)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # no other process reads or writes this one
    sample = Sample(task["self"])
    outcome, why = "passed", ""
    try:
        judge(task, sample)
    except (Exception, Ended, SystemExit) as error:
        outcome = "failed" if isinstance(error, AssertionError) else "error"
        why = f"{type(error).__name__}: {error}"[:200]
    sample.child.kill()
    was, now = (parameters(task[each], task["entry"]) for each in ("setup", "code"))
    unresolved = any(each in ("NameError", "AttributeError", "ImportError") for each in sample.kinds)
    print("\n" + task["secret"] + json.dumps({
        "outcome": outcome, "why": why, "signature": None if was is None or now is None else was == now,
        "unresolved": outcome == "error" and unresolved}), flush=True)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["sample"] else main()
