# SPDX-License-Identifier: Apache-2.0
"""Results of calls."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple, Type, TypeVar, Union

R = TypeVar("R", bound="Result")
DENIALS_SHOWN = 4


class CellError(NamedTuple):
    """The exception that ended a cell. The code can forge all of it."""

    type: str
    message: str
    traceback: Optional[str]
    line: Optional[int]
    """Line of the cell, from 1."""
    hint: Optional[str]
    """Advice for a person."""


class Usage(NamedTuple):
    """Resources used by a cell: microseconds and bytes; None: this host cannot measure it."""

    wall_us: int
    cpu_us: Optional[int]
    memory_peak_bytes: Optional[int]
    stdout_bytes: int
    stderr_bytes: int
    written_bytes: Optional[int]
    setup_us: int


class Limit(NamedTuple):
    """The limit that ended or cut a cell."""

    key: str
    """Its name, as in Sandbox(limits=...)."""
    value: int
    """Bytes, milliseconds or a count."""
    text: str
    """For people."""


class Denial(NamedTuple):
    """A refused operation."""

    source: str
    """Who reports it: "kernel", "limit", or "guest", which the code can forge."""
    control: str
    """"network", "resources", "filesystem" or "syscalls"."""
    operation: str
    object: Optional[str]
    rule: Optional[str]
    """What refused it."""
    hint: Optional[str]
    """Advice for a person."""
    count: int  # type: ignore[assignment]


class Changes(NamedTuple):
    """Files changed by a cell, as paths below /workspace."""

    created: List[str]
    modified: List[str]
    deleted: List[str]
    truncated: bool
    """There are more."""


class Entry(NamedTuple):
    """An entry of a folder."""

    name: str
    type: str
    """"file", "dir", "link" or "other"."""
    size: int
    """Bytes."""
    mtime: Optional[float]
    """Unix seconds."""


class Cell(NamedTuple):
    """A cell of a session's history."""

    number: int
    kind: str
    """"python", "command" or "process" (a detached process)."""
    status: str
    state: Optional[str]
    started: float
    """Unix seconds."""
    wall_us: int
    first_line: Optional[str]
    displays: int = 0
    """Number of displays that `result(number)` returns."""


class Snapshot(NamedTuple):
    """A snapshot of a session."""

    name: str
    id: str
    cell: int
    """It is the state after this cell."""


class Output(str):
    """A piece of a cell's output, or its value. .stream names the stream."""

    stream: str
    """"stdout" or "stderr"; in a stream also "value"."""

    @classmethod
    def of(cls, stream: str, text: str) -> Output:
        """Make a piece."""
        piece = cls(text)
        piece.stream = stream
        return piece


class Ended(NamedTuple):
    """How a process ended."""

    exit_code: Optional[int]
    """None: it was ended by a signal."""
    signal: Optional[str]
    """"SIGTERM"..., or None."""


class Display(Dict[str, Union[str, bytes]]):
    """An object displayed by a cell: its forms by MIME type, text as str and other types as bytes."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        return {"text/plain": str(self.get("text/plain", "")), "text/html": self._html()}

    def _html(self) -> str:
        for kind in ("image/png", "image/jpeg", "image/svg+xml"):
            if kind in self:
                data = self[kind]
                data = data.encode() if isinstance(data, str) else data
                return '<img src="data:{};base64,{}">'.format(kind, _base64(data))
        if "text/html" in self:
            return _frame(str(self["text/html"]))
        return _pre(str(self.get("text/plain", "")))


def _base64(data: bytes) -> str:
    from binascii import b2a_base64
    return b2a_base64(data, newline=False).decode()


def _pre(text: str) -> str:
    from html import escape
    return "<pre>{}</pre>".format(escape(text)) if text else ""


# First in a frame: it limits the requests of its HTML, and DNS lookups made in advance.
_POLICY = ('<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
           'style-src \'unsafe-inline\'; form-action \'none\'; base-uri \'none\'">'
           '<meta http-equiv="x-dns-prefetch-control" content="off">')


def _frame(html: str) -> str:
    """HTML of a sandbox, in a frame without scripts, network and this page's rights: notebooks trust outputs."""
    import re
    from html import escape
    height = min(600, 40 + 25 * (html.count("<tr") + html.count("<br") + html.count("<p")))
    style = "width:100%;height:{}px;border:0".format(height)
    html = _POLICY + re.sub("<(?=link|meta)", "&lt;", html, flags=re.IGNORECASE)  # no policy covers preconnect
    return '<iframe sandbox="" srcdoc="{}" style="{}"></iframe>'.format(escape(html), style)


def _in_python(hint: str) -> str:
    """A hint in words of this package."""
    return hint.replace('the option template "', 'template="').replace("the option template", 'template="NAME"')


def _denial(row: Dict[str, Any]) -> str:
    what = " ".join(part for part in (row["operation"], row["object"]) if part)
    times = " ({} times)".format(row["count"]) if row["count"] > 1 else ""
    rule = ", " + row["rule"] if row["rule"] else ""
    return "denied: {}: {}{}{} [{}]".format(row["control"], what, times, rule, row["source"])


class Result:
    """The result of a cell: docs/result.md. Prints as output and value; notebooks show tables and images."""

    __slots__ = ("raw", "displays", "_cut")

    raw: Dict[str, Any]
    """The whole as in docs/result.md."""
    displays: List[Display]
    """What the cell displayed, in that order."""

    def __init__(self, raw: Dict[str, Any], displays: List[Display], cut: Set[str]) -> None:
        """cut: streams that raw has only in part."""
        self.raw = raw
        self.displays = displays
        self._cut = cut

    @property
    def value(self) -> Optional[str]:
        """repr of the last expression; None if there is none. For a Python object see Sandbox.get()."""
        value: Optional[str] = self.raw["value"]
        return value

    @property
    def stdout(self) -> str:
        """Standard output; only head and tail if it is longer than the limit `output`: output() has all."""
        return str(self.raw["stdout"])

    @property
    def stderr(self) -> str:
        """Standard error, as stdout."""
        return str(self.raw["stderr"])

    @property
    def status(self) -> str:
        """"ok", "error", "timeout", "oom", "killed", "limit" or "interrupted"."""
        return str(self.raw["status"])

    @property
    def state(self) -> str:
        """State of the session after the cell: "kept", "rolled_back", "restored_from_checkpoint" or "lost"."""
        return str(self.raw["state"])

    @property
    def ok(self) -> bool:
        """Whether the status is "ok"."""
        return bool(self.raw["status"] == "ok")

    @property
    def exit_code(self) -> Optional[int]:
        """Exit status of a command, or the argument of sys.exit(); None if there is none."""
        code: Optional[int] = self.raw["exit_code"]
        return code

    @property
    def cell(self) -> int:
        """Number of the cell in its session, from 1."""
        return int(self.raw["cell"])

    @property
    def error(self) -> Optional[CellError]:
        """The exception that ended the cell, or None."""
        error = self.raw["error"]
        if error is None:
            return None
        found = CellError(*(error.get(name) for name in CellError._fields))
        return found if found.hint is None else found._replace(hint=_in_python(found.hint))

    @property
    def limit(self) -> Optional[Limit]:
        """The limit that ended or cut the cell, or None."""
        limit = self.raw.get("limit")
        return None if limit is None else Limit(*(limit[name] for name in Limit._fields))

    @property
    def denials(self) -> List[Denial]:
        """Refused operations: the first 32; raw["denials_dropped"] is the number of further ones."""
        found = [Denial(*(row.get(name) for name in Denial._fields)) for row in self.raw["denials"]]
        return [row if row.hint is None else row._replace(hint=_in_python(row.hint)) for row in found]

    @property
    def unsaved(self) -> Optional[str]:
        """"not saved since cell N: REASON" if the latest save of the session failed, else None."""
        row = self.raw.get("unsaved")
        return row["text"] if row else None

    @property
    def usage(self) -> Usage:
        """Resources used by the cell."""
        return Usage(*(self.raw["usage"].get(name) for name in Usage._fields))

    @property
    def files(self) -> Changes:
        """Files changed by the cell."""
        return Changes(*(self.raw["files"].get(name) for name in Changes._fields))

    def output(self, stream: str = "stdout") -> str:
        """Read the full output on "stdout" or "stderr", of which the property has at most head and tail.

        At most 64 MiB of a stream are stored; a warning reports a longer one. NotFound: the full text is not stored, or
        no longer: docs/result.md (output.handle).
        """
        from ._sandbox import _ask_output, _do
        text, handle = bytearray(), self._stored(stream)
        while handle is not None:
            part, is_last = _do(_ask_output(handle, stream, len(text)))
            text += part
            handle = None if is_last else handle
        return self._whole(stream, text)

    def _stored(self, stream: str) -> Optional[str]:
        """The handle of the full stored stream; None: raw has all of it."""
        from ._errors import InvalidArgument, NotFound
        if stream not in ("stdout", "stderr"):
            raise InvalidArgument('stream must be "stdout" or "stderr" (not {!r})'.format(stream))
        handle: Optional[str] = self.raw["output"]["handle"] if stream in self._cut else None
        if stream in self._cut and handle is None:
            raise NotFound("the full {} of cell {} is not stored".format(stream, self.cell))
        return handle

    def _whole(self, stream: str, stored: bytearray) -> str:
        return stored.decode("utf-8", "replace") if stream in self._cut else str(self.raw[stream])

    def raise_for_error(self) -> Result:
        """Return this, or raise CellFailed if the status is not "ok"; CellTimeout if it is "timeout"."""
        if not self.ok:
            from ._errors import CellFailed, CellTimeout
            raise CellTimeout(self) if self.status == "timeout" else CellFailed(self)
        return self

    def _limit_way(self, key: str) -> str:
        from ._errors import AT_WAKE, limit_way
        return AT_WAKE if key in self.raw.get("at_wake", ()) else limit_way(key, -1)

    def _ending(self) -> str:
        """The outcome for people: the value, or the traceback, and the status with its limit."""
        error, limit = self.error, self.raw.get("limit")
        if self.ok:
            return self.value or ""
        status = self.status
        if limit:
            status += " ({}): {}".format(limit["text"], self._limit_way(limit["key"]))
        if error is None:
            return "exit status {}".format(self.exit_code) if self.exit_code else status
        return (error.traceback or "{}: {}\n".format(error.type, error.message)) + (
            error.hint + "\n" if error.hint else "") + (status if limit else "")

    def _unshown(self) -> str:
        """The outcome without a value that is also displayed, such as a table, possibly with figures after it."""
        ending = self._ending()
        is_shown = any(item.get("text/plain") == ending and (len(item) > 1 or item is self.displays[-1])
                       for item in self.displays)
        return "" if is_shown else ending

    def _denied(self) -> str:
        """Denials, a line each, except those of the limit that ended the cell."""
        rows = [row for row in self.raw["denials"] if not self.raw.get("limit") or row["source"] != "limit"]
        told = {self.error.hint if self.error else None}
        lines: List[str] = []
        for row in rows[:DENIALS_SHOWN]:
            lines.append(_denial(row))
            is_limit = row["source"] == "limit" and row["rule"]
            hint = self._limit_way(row["rule"].split()[0]) if is_limit else _in_python(row["hint"])
            if hint not in told:
                lines.append("hint: " + hint)
                told.add(hint)
        n_more = len(rows[DENIALS_SHOWN:]) + self.raw["denials_dropped"]
        return "\n".join([*lines, *(["denied: {} more".format(n_more)] if n_more else [])])

    def __repr__(self) -> str:
        shown = [str(item.get("text/plain", "")) for item in self.displays]
        parts = [part.rstrip("\n") for part in (self.stdout, self.stderr, *shown, self._unshown(), self._denied())]
        return "\n".join(part for part in parts if part) or "<Result: {}>".format(self.status)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        bundle = {"text/plain": repr(self)}
        if self.displays:
            parts = [_pre(self.stdout), _pre(self.stderr), *(item._html() for item in self.displays),
                     _pre(self._unshown()), _pre(self._denied())]
            bundle["text/html"] = "\n".join(part for part in parts if part)
        return bundle


class AsyncResult(Result):
    """A Result of an AsyncSandbox: output() is awaited."""

    __slots__ = ()

    async def output(self, stream: str = "stdout") -> str:  # type: ignore[override]
        """As in Result."""
        from ._sandbox import _ask_output, _do_async
        text, handle = bytearray(), self._stored(stream)
        while handle is not None:
            part, is_last = await _do_async(_ask_output(handle, stream, len(text)))
            text += part
            handle = None if is_last else handle
        return self._whole(stream, text)


def is_text(mime: str) -> bool:
    """Whether this type is text (docs/result.md)."""
    return mime.startswith("text/") or mime in ("image/svg+xml", "application/json", "application/javascript")


def make_result(kind: Type[R], raw: Dict[str, Any], printed: Tuple[List[bytes], List[bytes]],
                shown: List[Dict[str, bytes]]) -> R:
    """Make a result from an answer and its events."""
    cut: Set[str] = set()
    for name, parts in zip(("stdout", "stderr"), printed):
        text = b"".join(parts)
        raw[name] = text.decode("utf-8", "replace")
        if len(text) < raw["usage"][name + "_bytes"]:
            cut.add(name)
    displays: List[Display] = []
    for forms in shown:
        item = Display()
        for mime, data in forms.items():
            item[mime] = data.decode("utf-8", "replace") if is_text(mime) else data
        displays.append(item)
    raw["displays"] = [{mime: data if isinstance(data, str) else _base64(data) for mime, data in item.items()}
                       for item in displays]
    return kind(raw, displays, cut)
