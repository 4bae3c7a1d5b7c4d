# SPDX-License-Identifier: Apache-2.0
"""Rich output of a cell, and calls to the host."""

import builtins

# A private copy, as in driver.py: cells cannot change it. This module is a part of the same program.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
__name__ = "__main__"

import sys
from importlib.machinery import PathFinder
from io import BytesIO
from os import getpid
from typing import Any, Callable, Dict, List, Optional, Tuple

from stream import (
    CALL_MAX, DISPLAY, DISPLAYS_MAX, DISPLAY_MAX, Interrupt, MIMES_MAX, PROMPTS_MAX, PROMPT_MAX,
    Stream, SubCallError, _b64decode, _encode_any, _modules, _scan_json, clean, get_thread, main_thread_number,
    to_json,
)
from stdio import Stdio


# --- display --------------------------------------------------------------------------


class Display:
    """Rich output: the builtin display() and the last expression's representations."""

    PLAIN = frozenset({int, str, float, bool, complex, bytes, list, tuple, dict, set})
    METHODS = (
        ("text/html", "_repr_html_"),
        ("text/markdown", "_repr_markdown_"),
        ("image/svg+xml", "_repr_svg_"),
        ("image/png", "_repr_png_"),
        ("image/jpeg", "_repr_jpeg_"),
        ("text/latex", "_repr_latex_"),
        ("application/json", "_repr_json_"),
    )
    TOO_LARGE = "\n(skipped other formats: larger than {} MiB)".format(DISPLAY_MAX >> 20)

    def __init__(self, stream: Stream, stdio: Stdio) -> None:
        self._stream = stream
        self._stdio = stdio
        self._count = 0

    def begin(self) -> None:
        self._count = 0

    def show(self, *values: Any) -> None:
        """The builtin: send each value to the reader of the result."""
        for value in values:
            self._send(clean(repr(value)), self._rich_forms(value))

    def show_value(self, value: Any, text: str) -> None:
        """Display the last expression, if it has more than its repr."""
        if type(value) not in self.PLAIN:
            forms = self._rich_forms(value)
            if forms:
                self._send(text, forms)

    def show_png(self, text: str, png: bytes) -> None:
        self._send(text, {"image/png": png})

    def _rich_forms(self, value: Any) -> Dict[str, bytes]:
        forms: Dict[str, bytes] = {}
        for mime, method in (("", "_repr_mimebundle_"),) + self.METHODS:
            # Look on the type: a class is not its instances, and mocks answer to any name.
            if getattr(type(value), method, None) is None or mime in forms:
                continue
            try:
                data = getattr(value, method)()
                found = mimebundle(data) if not mime else {mime: mime_data(data)}
                for name, form in found.items():
                    if form is not None:
                        forms[name] = mime_bytes(name, form)
            except Exception:
                continue  # skip a failing representation
        forms.pop("text/plain", None)
        return forms

    def _send(self, text: str, forms: Dict[str, bytes]) -> None:
        self._count += 1
        if self._count > DISPLAYS_MAX:
            if self._count == DISPLAYS_MAX + 1:
                note = "display: a cell shows at most {} outputs; skipped the rest\n"
                sys.stderr.write(note.format(DISPLAYS_MAX))
            return
        plain = text.encode()
        parts = [("text/plain", plain)] + list(forms.items())[: MIMES_MAX - 1]
        if sum([len(data) for _, data in parts]) > DISPLAY_MAX:
            parts = [("text/plain", plain + self.TOO_LARGE.encode())]
        self._stdio.turn.settle()
        head = to_json({"mime": [[mime, len(data)] for mime, data in parts]})
        self._stream.emit(DISPLAY, head, b"".join([data for _, data in parts]))


def mime_data(data: Any) -> Any:
    """The data of a _repr_*_ result: the data, or data and metadata."""
    return data[0] if isinstance(data, tuple) and data else data


def mimebundle(data: Any) -> Dict[str, Any]:
    """The usable members of what _repr_mimebundle_ returned."""
    return {
        name: form
        for name, form in dict(mime_data(data) or {}).items()
        if type(name) is str and "/" in name and len(name) <= 100 and name.isascii()
    }


def mime_bytes(mime: str, data: Any) -> bytes:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if isinstance(data, str):
        is_binary = mime.startswith(("image/", "audio/", "video/")) and mime != "image/svg+xml"
        if is_binary or mime == "application/pdf":
            return _b64decode(data)
        return data.encode("utf-8", "backslashreplace")
    return _encode_any(data).encode("utf-8", "backslashreplace")


# --- calls ----------------------------------------------------------------------------


class Calls:
    """llm_query() and llm_query_batched(): the cell's client calls a model."""

    NOT_HERE = (
        "llm_query works in code that the model of a run writes (snipara-sandbox run and agent), "
        "while sub-calls are on; this cell is not part of a run"
    )

    def __init__(self, stream: Stream, interrupt: Interrupt) -> None:
        self._stream = stream
        self._interrupt = interrupt
        interrupt.shielded.add(Calls.query.__code__)
        self._pid = getpid()
        self._is_on = False
        self._number = 0  # of this cell's last call
        self._waits = 0  # number of the awaited answer; 0 = none

    def begin(self, is_on: bool) -> None:
        self._pid = getpid()
        self._is_on = is_on
        self._number = self._waits = 0

    def query(self, prompts: List[str], system: Optional[str], max_tokens: Optional[int]) -> Any:
        """Returns one row for each prompt."""
        if not self._is_on:
            raise SubCallError(self.NOT_HERE)
        if getpid() != self._pid or get_thread() != main_thread_number():
            text = "llm_query works only in a cell's first process and thread; llm_query_batched asks in parallel"
            raise SubCallError(text)
        raw = self._encode(prompts, system, max_tokens)
        if self._waits:  # interrupted while waiting: the earlier answer comes first
            self._stream.wait(self._waits)
        self._number += 1
        self._waits = self._number
        self._stream.call(self._number, raw)
        is_ok, answer = self._stream.wait(self._number)
        self._waits = 0
        self._interrupt.check()
        said, _ = _scan_json(str(answer, "utf-8"), 0)
        if not is_ok:
            raise SubCallError(said["error"])
        return said["results"]

    @staticmethod
    def _encode(prompts: List[str], system: Optional[str], max_tokens: Optional[int]) -> bytes:
        if system is not None and not isinstance(system, str):
            raise TypeError("system is a str or None")
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
            raise ValueError("max_tokens is an int, at least 1, or None")
        if not 1 <= len(prompts) <= PROMPTS_MAX:
            raise ValueError("llm_query_batched takes 1 to {} prompts".format(PROMPTS_MAX))
        texts = []
        for prompt in prompts:
            if not isinstance(prompt, str):
                raise TypeError("a prompt is a str")
            text = clean(prompt, len(prompt))
            if not text or len(text.encode()) > PROMPT_MAX:
                raise ValueError("a prompt has 1 to {} bytes".format(PROMPT_MAX))
            texts.append(text)
        head: Dict[str, Any] = {"prompts": texts, "max_tokens": max_tokens}
        head["system"] = None if system is None else clean(system, len(system))
        raw = to_json(head).encode()
        if len(raw) > CALL_MAX:
            raise ValueError("prompts of one call have at most {} bytes".format(CALL_MAX))
        return raw

    def functions(self) -> Tuple[Callable[..., str], Callable[..., List[str]]]:
        query = self.query

        def llm_query(
            prompt: str, *, system: Optional[str] = None, max_tokens: Optional[int] = None
        ) -> str:
            """Call a model once, without tools. It uses the run's budgets; RuntimeError if they are used up."""
            (row,) = query([prompt], system, max_tokens)
            if "error" in row:
                raise SubCallError(row["error"])
            return row["response"]  # type: ignore[no-any-return]

        def llm_query_batched(
            prompts: List[str], *, system: Optional[str] = None, max_tokens: Optional[int] = None
        ) -> List[str]:
            """Ask a model each of the prompts at once. If one fails: RuntimeError, whose responses has the rest."""
            prompts = list(prompts)
            if not prompts:
                return []
            rows = query(prompts, system, max_tokens)
            failed = [row["error"] for row in rows if "error" in row]
            if failed:
                text = "{} of {} prompts have no answer: {}"
                error = SubCallError(text.format(len(failed), len(rows), failed[0]))
                error.responses = [row.get("response") for row in rows]
                raise error
            return [row["response"] for row in rows]

        return llm_query, llm_query_batched


class Figures:
    """Open matplotlib figures: each becomes a PNG display at plt.show() or the cell's end."""

    PYPLOT = "matplotlib.pyplot"

    def __init__(self, display: Display) -> None:
        self._display = display
        if self.PYPLOT in _modules:
            self._adopt(_modules[self.PYPLOT])
        else:
            sys.meta_path.insert(0, self)

    def _adopt(self, pyplot: Any) -> None:
        def show(*_args: Any, **_kwargs: Any) -> None:
            """Send the open figures and close them."""
            self.flush()

        pyplot.show = show

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """An import hook: notices pyplot, loads nothing."""
        if name != self.PYPLOT:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                run(module)
                self._adopt(module)

            spec.loader.exec_module = exec_module  # type: ignore[assignment]
        return spec

    def flush(self) -> None:
        pyplot = _modules.get(self.PYPLOT)
        if pyplot is None:
            return
        numbers = pyplot.get_fignums()
        for number in numbers:
            figure = pyplot.figure(number)
            try:
                self._send(figure)
            except Exception as error:
                sys.stderr.write("could not draw a figure: {!r}\n".format(error))
        if numbers:
            pyplot.close("all")

    def _send(self, figure: Any) -> None:
        png = BytesIO()
        figure.savefig(png, format="png", bbox_inches="tight")
        self._display.show_png(clean(repr(figure)), png.getvalue())

    def show(self, *values: Any) -> None:
        """display(), extended for figures."""
        kind = getattr(_modules.get("matplotlib.figure"), "Figure", None)
        for value in values:
            if kind is not None and isinstance(value, kind):
                self._send(value)
                if self.PYPLOT in _modules:
                    _modules[self.PYPLOT].close(value)
            else:
                self._display.show(value)
