# SPDX-License-Identifier: Apache-2.0
"""Errors, with remedies in names of this package."""
from __future__ import annotations

from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, SupportsFloat, Tuple, Type, TypeVar

from ._result import Snapshot

if TYPE_CHECKING:
    from ._result import Result

K = TypeVar("K", bound=Type[Any])
VAR_KEYWORDS, COROUTINE = 0x08, 0x80  # flags of code

# Remedies by kind (docs/wire.md): {name} and {object} are filled in.
_WAYS: Dict[str, str] = {
    "other_name": "choose another name",
    "set_limit": "set_limits({name}=...) changes it",
    "clear_session": "to drop its variables and files, destroy() it",
    "end_session": "destroy() a session that is not needed",
    "no_session": "`snipara-sandbox doctor` says more",
    "tier": 'pass tier="{name}" to Sandbox()',
    "weaker_tier": 'pass tier="{name}" to Sandbox(); that tier contains less',
    "allow_degraded": "pass allow_degraded=True to Sandbox() to run without it",
    "allow_inexact": "leave out require_exact=True; `snipara-sandbox doctor` lists them",
    "template": 'pass template="{name}" to Sandbox()',
    "add_template": "`snipara-sandbox template add` makes one",
    "renew_template": "`snipara-sandbox template add {name} --replace` rebuilds it",
    "allow_python": "`snipara-sandbox template add NAME --python {name}` allows it",
    "state_dir": "or set SNIPARA_SANDBOX_STATE_DIR to a folder on another disk",
    "list_sessions": "Sandbox.list() has all sessions",
    "list_files": "files.list() has those of a folder",
    "doctor": "`snipara-sandbox doctor` says more",
    "resume": "`snipara-sandbox resume {object}` continues it",
}
_RECOVER_WAYS: Dict[str, str] = {
    "replay": 'recover="replay" to run the missing cells again',
    "skip": 'recover="skip" to run the others again',
    "checkpoint": 'recover="checkpoint" to continue without them',
}
_LIMIT_WAYS: Dict[str, str] = {
    "memory": "pass a higher memory= to Sandbox()",
    "timeout": "pass a higher timeout= to run()",
    "most": "pass most={value} to files.read()",
    "project_size": 'pass limits={{"workspace_size": ...}} to Sandbox(), or choose a smaller folder',
    "journal_budget": "remove snapshots, or raise it: snipara-sandbox gc --journal-budget SIZE",
}


AT_WAKE = "the new limit applies at the next wake: hibernate()"


def limit_way(name: str, value: int) -> str:
    """The remedy for a limit; value: a sufficient limit."""
    words = _LIMIT_WAYS.get(name, 'pass a higher limits={{"{name}": ...}} to Sandbox()')
    return words.format(name=name, value=value)


# Names of the command line in failures of commands, and names in this package.
_ARGUMENTS = (
    ("--allow PATH", "allow=[PATH]"), ("apply SESSION PATH...", "apply(PATH, ...)"),
    ("exec --project DIR", "Sandbox(project=DIR)"), ("run verify", "run `snipara-sandbox verify`"),
    *(("--" + name.replace("_", "-"), name + "=True") for name in (
        "force", "unverified", "reviewed", "project_moved", "allow_degraded")))


def in_arguments(error: SandboxError) -> SandboxError:
    """Put the failure of a command into names of this package."""
    text = str(error.args[0])
    for theirs, ours in _ARGUMENTS:
        text = text.replace(theirs, ours)
    is_of_file = text.startswith("nothing was applied") and error.object != ""
    error.args = ("{} (the first is {!r})".format(text, error.object) if is_of_file else text,)
    return error


# The types of arguments, and their description; all others are text.
_KINDS: Dict[str, Tuple[Any, str]] = {
    "timeout": (SupportsFloat, "seconds, a number"),
    "snapshot": ((str, Snapshot), "a name or a Snapshot"),
    "env": (Mapping, 'a dict, as in {"CITY": "Oslo"}'),
    **{name: (int, "a whole number") for name in ("cell", "limit", "mode", "most", "n")},
    "limits": (Mapping, 'a dict, as in {"cpus": 2}'),
    "tools": (Iterable, "a list, as in [Tool(...)]"),
}


def wrong_kind(name: str, words: str, value: object) -> TypeError:
    """An argument has the wrong type."""
    return TypeError("{} must be {} (not {})".format(name, words, type(value).__name__))


def check_kinds(**given: object) -> None:
    """Raise TypeError for an argument that is neither None nor of its type."""
    for name, value in given.items():
        kinds, words = _KINDS.get(name, (str, "text"))
        if value is not None and not isinstance(value, kinds):
            raise wrong_kind(name, words, value)


def check_needed(**given: object) -> None:
    """The same, for arguments that must not be None."""
    for name, value in given.items():
        if value is None:
            raise wrong_kind(name, _KINDS.get(name, (str, "text"))[1], value)
    check_kinds(**given)


def nearest(name: str, names: Iterable[str]) -> str:
    """"; did you mean ...?", or nothing."""
    from difflib import get_close_matches
    found = get_close_matches(name, list(names), 1)
    return "; did you mean {}?".format(found[0]) if found else ""


def _naming(function: FunctionType, called: str) -> Callable[..., Any]:
    code = function.__code__
    names = code.co_varnames[1:code.co_argcount + code.co_kwonlyargcount]

    def check(given: Iterable[str]) -> None:
        for name in given:
            if name not in names:
                raise TypeError("{}() has no argument {!r}{}".format(
                    called, name, nearest(name, names) or "; it takes " + (", ".join(names) or "none")))

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check(kwargs)
        return function(*args, **kwargs)

    @wraps(function)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        check(kwargs)
        return await function(*args, **kwargs)
    return call_async if code.co_flags & COROUTINE else call


def names_nearest(kind: K) -> K:
    """Let a class name the nearest argument if its constructor or a method gets an unknown one."""
    for name, member in list(vars(kind).items()):
        if isinstance(member, FunctionType) and not member.__code__.co_flags & VAR_KEYWORDS and (
                name == "__init__" or name[0] != "_"):
            setattr(kind, name, _naming(member, kind.__name__ if name == "__init__" else name))
    return kind


class SandboxError(Exception):
    """A request failed. Failed code is not an error of this kind: see Result.status."""

    code = "internal"
    """Kind of the error, as on the wire: "invalid", "not_found", "limit"..."""
    object = ""
    """The subject: a session, a file, an option; "" if there is none."""
    limit = ""
    """The limit that was reached: "memory"; "" if none."""
    limit_value = 0
    """Its value, in the unit of that limit."""
    remedy = ""
    """The kind of remedy, a word of docs/wire.md: "raise_limit"; "" if there is none."""
    remedy_name = ""
    """The object of the remedy: the nearest name, the limit to raise."""
    remedy_value = -1
    """The number of the remedy: a sufficient limit; -1 = none."""
    remedy_ways: Tuple[str, ...] = ()
    """For the remedy "recover": suitable values of recover=."""

    def _way(self) -> str:
        if self.remedy == "recover":
            ways = [_RECOVER_WAYS[way] for way in self.remedy_ways if way in _RECOVER_WAYS]
            return "pass to run() " + ", or ".join(ways) if ways else ""
        if self.remedy == "raise_limit":
            return limit_way(self.remedy_name, self.remedy_value)
        return _WAYS.get(self.remedy, "").format(name=self.remedy_name, object=self.object)

    def __str__(self) -> str:
        message, way = super().__str__(), self._way()
        return message + "; " + way if way else message


class InvalidArgument(SandboxError, ValueError):
    """An argument is wrong; the message says which."""

    code = "invalid"


class NotFound(SandboxError, LookupError):
    """There is no such session, snapshot, file or template."""

    code = "not_found"


class LimitReached(SandboxError):
    """A limit was reached: see .limit and .limit_value."""

    code = "limit"


class Denied(SandboxError):
    """Policy forbids it."""

    code = "denied"


class Unsupported(SandboxError):
    """This host or tier cannot do it."""

    code = "unsupported"


class SandboxTimeout(SandboxError, TimeoutError):
    """A request, or a cell (CellTimeout), took too long."""

    code = "timeout"


class SandboxLost(SandboxError, ConnectionError):
    """The daemon ended during a call. The next call restores the session, or names the missing cells.
    history() shows whether the interrupted call began."""

    code = "peer"

    def _way(self) -> str:
        return super()._way() or "the next call restores the session, or names the cells that are missing"


class CellFailed(SandboxError):
    """A cell failed; from Result.raise_for_error(). code is its status."""

    result: Result
    """The result of the cell."""

    def __init__(self, result: Result) -> None:
        error, limit, status = result.error, result.raw.get("limit"), result.status
        text = "the cell failed" if status == "error" else "the cell ended with status " + status
        if error is not None and status == "error":
            text = "{}: {}".format(error.type, error.message) if error.message else error.type
            if error.line is not None:
                text += " (line {} of the cell)".format(error.line)
        elif status == "error" and result.exit_code:
            text = "the command ended with exit status {}".format(result.exit_code)
        if limit is None and error is not None and error.type == "MemoryError":
            known = result.raw["manifest"]["controls"]["resources"]["limits"].get("memory")
            limit = {"key": "memory", **known} if known else None
        if limit:
            text += " (limit: {} {})".format(limit["key"], limit["text"])
            self.limit, self.limit_value = limit["key"], limit["value"]
            if limit["key"] in result.raw.get("at_wake", ()):
                text += "; " + AT_WAKE
            else:
                self.remedy, self.remedy_name = "raise_limit", limit["key"]
        super().__init__(text)
        self.code = status
        self.result = result

    def __str__(self) -> str:
        error = self.result.error
        traceback = error.traceback if error is not None else None
        return super().__str__() + ("\n\n" + traceback.rstrip("\n") if traceback else "")


class CellTimeout(CellFailed, SandboxTimeout):
    """A cell reached its time limit."""


CLASSES: Dict[str, Type[SandboxError]] = {
    kind.code: kind
    for kind in (InvalidArgument, NotFound, LimitReached, Denied, Unsupported, SandboxTimeout, SandboxLost)}
