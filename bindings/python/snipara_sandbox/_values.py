# SPDX-License-Identifier: Apache-2.0
"""Python objects by value, between this program and untrusted code.

They travel as JSON. Objects without a JSON form become {token: [kind, ...]}, with a new token each time, so that no
dict in the data is mistaken for one. Nothing is unpickled, and data from the sandbox is checked before use.

pack(), unpack() and special() run here and, as source, in the sandbox: they use no other names of this module.
"""
from __future__ import annotations

import re
from functools import lru_cache
from io import StringIO
from typing import Any, List, Match, Optional

from ._errors import LimitReached, SandboxError
from ._result import Result

PACKED, PICKLE = "application/json", "application/x-python-pickle"
VALUE_MOST = 8 << 20  # bytes of text, the limit of a display and of standard input
ARROW_SAFE = (14, 0, 1)  # older versions of pyarrow ran code contained in the data
_HEADER = "Traceback (most recent call last):\n"
_forms: List[str] = []  # kinds of objects that this program can make


def pack(value: object, token: str, forms: str) -> str:
    """A value as JSON, with special forms of the modules in `forms`; without them an array is a list."""
    import base64
    import datetime
    import json

    def text(data: bytes) -> str:
        return base64.b64encode(data).decode()

    def form(item: "Any") -> object:
        module, name = type(item).__module__.partition(".")[0], type(item).__name__
        if isinstance(item, (bytes, bytearray)):
            return {token: ["bytes", text(bytes(item))]}
        if name in ("NAType", "NaTType"):
            return None
        if isinstance(item, datetime.datetime):
            return {token: ["datetime", item.isoformat(timespec="microseconds")]}
        if isinstance(item, datetime.date):
            return {token: ["date", item.isoformat()]}
        if module == "numpy" and "numpy" in forms and (name == "ndarray" and item.dtype.kind in "biufcSU"
                                                       or item.dtype.kind in "mM"):
            return {token: ["array", item.dtype.str, item.shape, text(item.tobytes())]}
        if module == "pandas" and name in ("DataFrame", "Series"):
            columns = [item] if name == "Series" else [item.iloc[:, i] for i in range(item.shape[1])]
            names = [item.name] if name == "Series" else list(item.columns)
            if "pandas" not in forms:
                return item.tolist() if name == "Series" else dict(zip(names, (each.tolist() for each in columns)))
            return {token: [name, names, list(item.index.names), item.index.to_numpy(),
                            [each.to_numpy() for each in columns]]}
        if module == "pyarrow" and name == "Table" and "pyarrow" in forms:
            import pyarrow.ipc  # type: ignore[import]
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, item.schema) as stream:
                stream.write_table(item)
            return {token: ["arrow", text(sink.getvalue().to_pybytes())]}
        if hasattr(item, "tolist"):
            return item.tolist()
        raise TypeError("JSON cannot represent {}.{}; convert it first".format(type(item).__module__, name))
    return json.dumps(value, default=form)


def special(kind: str, parts: "Any") -> "Any":
    """The object of a special form; raises any exception if the form is invalid."""
    from binascii import a2b_base64
    if kind == "bytes":
        return a2b_base64(parts[0])
    if kind in ("datetime", "date"):
        import datetime
        return getattr(datetime, kind).fromisoformat(parts[0])
    if kind == "array":
        import re
        import numpy
        form, shape, data = parts[0], tuple(parts[1]), bytearray(a2b_base64(parts[2]))
        if not re.match(r"[<>|=][biufcSUmM][0-9]{1,9}(\[[0-9]{0,3}[a-zA-Z]{1,2}\])?\Z", form):
            raise ValueError("arrays of dtype {!r} are not supported".format(form))
        size = numpy.dtype(form).itemsize  # below 0 if numpy overflows
        if not 0 < size <= max(len(data), 8 << 20):
            raise ValueError("arrays of dtype {!r} are not supported".format(form))
        array: "Any" = numpy.ndarray(shape, form, data)
        n_rows = 1  # rows even without elements, since a list would have them
        for each in array.shape:
            n_rows *= each or 1
        if n_rows > max(len(data), 8 << 20):
            raise ValueError("an array has the shape {}".format(array.shape))
        if array.nbytes != len(data):
            raise ValueError("an array has {} bytes instead of {}".format(len(data), array.nbytes))
        if form[1] == "U" and (numpy.frombuffer(data, form[0] + "u4") > 0x10ffff).any():
            raise ValueError("an array has a character that does not exist")
        return array if shape else array[()]
    if kind == "arrow":
        import pyarrow.ipc
        table = pyarrow.ipc.open_stream(a2b_base64(parts[0])).read_all()
        table.validate(full=True)
        return table
    if kind not in ("DataFrame", "Series"):
        raise ValueError("there is no kind {!r}".format(kind))
    import numpy
    import pandas

    def labels(values: "Any") -> "Any":
        if not isinstance(values, (list, numpy.ndarray)):
            raise ValueError("labels of a table are a {}, not a list".format(type(values).__name__))
        if isinstance(values, list):
            values = [tuple(each) if isinstance(each, list) else each for each in values]
            widths = {len(each) for each in values if isinstance(each, tuple)}
            if len(widths) > 1:  # pandas would pad the shorter ones
                raise ValueError("labels of a table have {} to {} parts (limit: all of one length)".format(
                    min(widths), max(widths)))
            if max(widths, default=0) > 64:  # each part is a level, which takes more time than its text
                raise ValueError("labels of a table have {} parts (limit 64)".format(max(widths)))
        return pandas.Index(values)

    names, index_names, values, columns = parts
    index = labels(values)
    if len(columns) > 1 << 16:  # each takes more memory than its text
        raise ValueError("a table has {} columns (limit 65536)".format(len(columns)))
    for each in columns:  # pandas would repeat a scalar, or a dict, in all rows
        count = len(each) if isinstance(each, (list, numpy.ndarray)) else 1
        if count != len(index) or not isinstance(each, (list, numpy.ndarray)):
            raise ValueError("a column of a table of {} rows and {} columns has {} values (limit: one for each "
                             "row)".format(len(index), len(columns), count))
    if kind == "Series":
        found = pandas.Series(columns[0], index, object if isinstance(columns[0], list) else None, name=names[0])
    else:  # a Series for each column would take 25 us each
        lists = [n for n, each in enumerate(columns) if isinstance(each, list)]
        block = numpy.empty((len(index), len(lists)), object)
        for n, place in enumerate(lists):
            block[:, n] = columns[place]
        found = pandas.concat((
            pandas.DataFrame(block, index, lists, object),
            pandas.DataFrame({n: each for n, each in enumerate(columns) if not isinstance(each, list)}, index)), axis=1)
        found = found[list(range(len(columns)))]
        found.columns = labels(names)
    found.index.names = index_names
    return found


def unpack(text: str, token: str, special: "Any") -> "Any":
    """The object that pack() made a text of; raises any exception if the text is invalid."""
    import json

    def form(found: "Any") -> "Any":
        if len(found) != 1 or token not in found:
            return found
        return special(found[token][0], found[token][1:])
    return json.loads(text, object_hook=form)


# Code of cells ------------------------------------------------------------------------------

_SEND = """\
class _Sent:
    def __init__(self, text): self.text = text
    def __repr__(self):  # also in the display, which has the same limit as a value
        return self.text if len(self.text) < 200 else self.text[:200] + "..." if len(self.text) < {most} - 203 else ""
    def _repr_mimebundle_(self, *_): return {{{mime!r}: self.text}}
{pack}
try:
    _sent = {packed}
    if len(_sent) > {most}:
        raise ValueError("the value has {{}} bytes as text (limit 8 MiB); write it to a file and read that with "
                         "files.read()".format(len(_sent)))
    __import__("builtins").display(_Sent(_sent))
finally:
    del _Sent, _sent
"""
_INPUT = '__import__("sys").__stdin__.read()'
_GIVE = """\
class _Given:
{functions}
_given = _Given.unpack({text}, {token!r}, _Given.special)
del _Given
"""


@lru_cache(maxsize=None)
def _method(function: Any) -> str:
    from inspect import getsource
    return "".join("    " + line if line.strip() else line for line in getsource(function).splitlines(True))


def forms() -> str:
    """Modules of special forms that this program has."""
    if not _forms:
        from importlib.util import find_spec
        _forms.extend(name for name in ("numpy", "pandas", "pyarrow") if find_spec(name) is not None)
        if "pyarrow" in _forms:
            from importlib.metadata import version
            if tuple(int(part) for part in version("pyarrow").split(".")[:3] if part.isdigit()) < ARROW_SAFE:
                _forms.remove("pyarrow")
        _forms.append("json")
    return " ".join(_forms)


def _count(code: str) -> int:
    """Number of lines, by the rules of the sandbox."""
    return len(StringIO(code, newline=None).readlines())


def without_ours(text: str, cell: int, lines: range) -> str:
    """A traceback without this package's frames in that cell and above it. lines: the caller's, renumbered from 1."""
    frame = re.compile(r'^([ |]*)  File "<cell {}>", line (\d{{1,9}})(, in .*)?\n(?:\1    .*\n)*'.format(cell), re.M)

    def renumber(found: Match[str]) -> str:
        return found.group().replace("line " + found[2], "line {}".format(lines.index(int(found[2])) + 1), 1)

    parts = text.split(_HEADER)
    for i, part in enumerate(parts):
        for found in list(frame.finditer(part))[::-1]:
            if int(found[2]) not in lines:
                part = part[found.end():]
                break
        has_frames = i > 0 and re.match(r'[ |]*  File "', part) is not None
        parts[i] = (_HEADER if has_frames else "") + frame.sub(renumber, part)
    return "".join(parts)


class Exchange:
    """A value to be returned, and arguments to be passed."""

    def __init__(self, trust: bool = False) -> None:
        from binascii import hexlify
        from os import urandom
        self.token = hexlify(urandom(16)).decode()
        self.trust = trust
        self.lines = range(0)
        """Lines of the code that are the caller's; all others are ours."""
        self.input: Optional[bytes] = None
        """Standard input of the code."""

    def calling(self, source: str) -> str:
        """The caller's code, which comes first."""
        self.lines = range(1, 1 + _count(source))
        return source + "\n"

    def getting(self, expression: str) -> str:
        """Code that sends the value of an expression."""
        self.lines = range(2, 2 + _count(expression))
        return "_sent = (\n{}\n)\n{}".format(expression, self.sending())

    def giving(self, value: object) -> str:
        """Code that sets its variable _given to the value. TypeError: it cannot be passed; LimitReached: too large."""
        text = pack(value, self.token, "numpy pandas pyarrow")
        if len(text) > VALUE_MOST:
            error = LimitReached("the value has {} bytes as text (limit 8 MiB); write it to a file with "
                                 "files.write()".format(len(text)))
            error.limit, error.limit_value = "value", VALUE_MOST
            raise error
        self.input = text.encode()
        if self.token not in text:
            return '_given = __import__("json").loads({})\n'.format(_INPUT)
        return _GIVE.format(functions=_method(special) + _method(unpack), text=_INPUT, token=self.token)

    def sending(self) -> str:
        """Code that sends the value of its variable _sent."""
        if self.trust:
            packed = '__import__("base64").b64encode(__import__("pickle").dumps(_sent)).decode()'
            return _SEND.format(mime=PICKLE, pack="", packed=packed, most=VALUE_MOST)
        packed = "_Sent.pack(_sent, {!r}, {!r})".format(self.token, forms())
        return _SEND.format(mime=PACKED, pack=_method(pack), packed=packed, most=VALUE_MOST)

    def check(self, result: Result) -> None:
        """CellFailed: the code failed; its traceback has no lines of this package."""
        error = result.raw["error"]
        if error is not None:
            if error["line"] is not None:
                error["line"] = error["line"] - self.lines.start + 1 if error["line"] in self.lines else None
            if error["traceback"] is not None:
                error["traceback"] = without_ours(error["traceback"], result.cell, self.lines)
        result.raise_for_error()

    def sent(self, result: Result) -> Any:
        """The value that the code sent. CellFailed: the code failed; SandboxError: the data is not a value."""
        self.check(result)
        mime = PICKLE if self.trust else PACKED
        for item in reversed(result.displays):  # the last is from this package; code may have displayed others
            if mime in item:
                break
        else:
            raise SandboxError("the code sent no value back")
        if self.trust:
            import pickle
            from binascii import a2b_base64
            return pickle.loads(a2b_base64(item[mime]))
        try:
            return unpack(str(item[mime]), self.token, special)
        except Exception as error:
            raise SandboxError("what the code sent back is not a value: {}".format(error)) from error
