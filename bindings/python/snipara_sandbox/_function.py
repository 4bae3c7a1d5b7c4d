# SPDX-License-Identifier: Apache-2.0
"""Functions that run in a sandbox."""
from __future__ import annotations

import ast
import inspect
import json
import textwrap
from typing import Any, Callable, Generic, Optional, TypeVar, Union, cast, overload

from ._errors import InvalidArgument
from ._sandbox import _GET, JSON, Sandbox, sent

R = TypeVar("R")
PICKLE = "application/x-python-pickle"
_GET_PICKLE = '__import__("base64").b64encode(__import__("pickle").dumps({})).decode()'


def _source(function: Callable[..., object]) -> str:
    """Its definition, without decorators."""
    try:
        lines, _ = inspect.getsourcelines(function)
    except OSError:
        raise InvalidArgument("the source of {} is not to be had".format(function.__qualname__)) from None
    text = textwrap.dedent("".join(lines))
    node = ast.parse(text).body[0]
    if not isinstance(node, ast.FunctionDef):
        raise InvalidArgument("{} is no function with a `def` of its own".format(function.__qualname__))
    return "\n".join(text.split("\n")[node.lineno - 1:node.end_lineno])


class Function(Generic[R]):
    """A function whose body runs in a sandbox: its source goes there, and is a cell in the session's history.

    It sees its arguments, what it imports itself, and variables of the session; nothing of this program.
    """

    def __init__(self, function: Callable[..., R], sandbox: Optional[Sandbox], trust: bool, **options: Any) -> None:
        self.__wrapped__ = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.sandbox = sandbox if sandbox is not None else Sandbox(**options)
        self._trust = trust

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Run it. Arguments go there as JSON, and so does the result come back: tuples become lists.

        CellFailed: it raised. TypeError: an argument has no form in JSON.
        """
        given = json.dumps([args, kwargs])
        call = "{0}(*_given[0], **_given[1])".format(self.__name__)
        code = "{}\n\n_given = __import__(\"json\").loads({!r})\n".format(_source(self.__wrapped__), given)
        if not self._trust:
            return cast(R, json.loads(sent(self.sandbox.run(code + _GET.format(mime=JSON, expression=call)))))
        import pickle
        from binascii import a2b_base64
        code += _GET.format(mime=PICKLE, expression=_GET_PICKLE.format(call))
        return cast(R, pickle.loads(a2b_base64(json.loads(sent(self.sandbox.run(code), PICKLE)))))


@overload
def sandboxed(function: Callable[..., R]) -> Function[R]: ...


@overload
def sandboxed(*, sandbox: Optional[Sandbox] = None, trust: bool = False,
              **options: Any) -> Callable[[Callable[..., R]], Function[R]]: ...


def sandboxed(function: Optional[Callable[..., R]] = None, *, sandbox: Optional[Sandbox] = None, trust: bool = False,
              **options: Any) -> Union[Function[R], Callable[[Callable[..., R]], Function[R]]]:
    """Decorate a function so that it runs in a sandbox, by value: `@sandboxed` or `@sandboxed(memory="1g")`.

    sandbox: where; else one of its own with these options, as of Sandbox(). trust: the result comes back by pickle,
    which lets code in the sandbox run anything in this program: only for code that you would run without a sandbox.
    """
    if function is not None:
        return Function(function, sandbox, trust, **options)
    return lambda decorated: Function(decorated, sandbox, trust, **options)
