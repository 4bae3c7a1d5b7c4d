# SPDX-License-Identifier: Apache-2.0
"""Code in a sandbox by the names of earlier releases. Sandbox offers the same and more: run(), get(), files."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional

from ._errors import InvalidArgument
from ._old import also
from .core import REPLResult

if TYPE_CHECKING:
    from ._result import Result
    from ._sandbox import Sandbox

_SET = """\
_given = __import__("json").loads({!r})
context = dict(globals()["context"] if isinstance(globals().get("context"), dict) else {{}}, **_given)
globals().update({{key: value for key, value in _given.items() if key.isidentifier() and key != "context"}})
del _given
"""
_GET = """\
{k: v for k, v in [*(globals()["context"].items() if isinstance(globals().get("context"), dict) else ()),
                   *globals().items()]
 if not k.startswith("_") and k != "context" and (k != "result" or v is not None) and _is_json(v)}
"""
_IS_JSON = """\
def _is_json(value):
    try:
        __import__("json").dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
"""
_CLEAR = "[globals().pop(name, None) for name in list(globals()) if not name.startswith('__')]; None"


def _record(result: Result) -> REPLResult:
    output = result.stdout + (result.value + "\n" if result.value is not None else "")
    error = result.error
    text = None if result.ok else "{}: {}".format(error.type, error.message) if error else result._ending()
    cpu_us = result.usage.cpu_us
    return REPLResult(output, text, result.usage.wall_us // 1000, bool(result.raw.get("truncated")),
                      result.usage.memory_peak_bytes, None if cpu_us is None else cpu_us // 1000)


class BaseREPL:
    """The session of a sandbox for code. The code's variables are the context, and vice versa."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def execute(self, code: str, timeout: Optional[float] = None) -> REPLResult:
        """Run Python code. timeout: seconds. Like completion() it waits, and in an event loop is awaited."""
        from ._completion import both
        if not isinstance(code, str):
            raise InvalidArgument("code must be a str")

        async def execute() -> REPLResult:
            from ._sandbox import _do_async
            return _record(await _do_async(self.sandbox._ask_run(code, timeout=timeout)))
        return both(execute, lambda: _record(self.sandbox.run(code, timeout=timeout)))

    def _run(self, code: str) -> None:
        from ._sandbox import _do
        _do(self.sandbox._ask_run(code, internal=True)).raise_for_error()

    def get_context(self) -> Dict[str, Any]:
        """Get the variables that JSON can represent."""
        self._run(_IS_JSON)
        context: Dict[str, Any] = self.sandbox.get(_GET)
        return context

    def set_context(self, key: str, value: Any) -> None:
        """Set a variable, also in the dict `context`. TypeError: JSON has no form for the value."""
        import json
        self._run(_SET.format(json.dumps({key: value})))

    def clear_context(self) -> None:
        """Remove all variables."""
        self._run(_CLEAR)

    def reset(self) -> None:
        """Start over in a new session, without the files of this one."""
        self.sandbox.destroy()


also(__name__, "base", "local", "docker")
LocalREPL = DockerREPL = BaseREPL
