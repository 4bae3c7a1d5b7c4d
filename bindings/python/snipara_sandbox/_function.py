# SPDX-License-Identifier: Apache-2.0
"""Functions that run in a sandbox."""
from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Generic, List, Optional, TypeVar, Union, cast, overload

from ._errors import CellFailed, InvalidArgument
from ._sandbox import AsyncSandbox, Sandbox
from ._values import Exchange

if TYPE_CHECKING:
    from ._result import Result

R = TypeVar("R")


def _annotations(node: ast.AST) -> List[ast.expr]:
    """Annotations of arguments and results that name more than builtins, which the sandbox would not find."""
    found = [each.annotation if isinstance(each, ast.arg) else each.returns for each in ast.walk(node)
             if isinstance(each, (ast.arg, ast.FunctionDef, ast.AsyncFunctionDef))]
    return [each for each in found if each is not None and any(
        isinstance(name, ast.Name) and not hasattr(builtins, name.id) for name in ast.walk(each))]


def _source(function: Callable[..., object]) -> str:
    """The definition of a function, without decorators and without annotations that the sandbox does not know."""
    try:
        lines, _ = inspect.getsourcelines(function)
    except OSError:
        raise InvalidArgument("cannot read the source of {}; define it in a file or a notebook".format(
            function.__qualname__)) from None
    except TypeError:  # a builtin
        lines = ["..."]
    text = textwrap.dedent("".join(lines))
    node = ast.parse(text).body[0]
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise InvalidArgument("{} is not defined with `def`; a lambda or a builtin has no source to run".format(
            function.__qualname__))
    rows = [line.encode() for line in text.split("\n")]
    for each in sorted(_annotations(node), key=lambda each: (each.lineno, each.col_offset), reverse=True):
        first, last = each.lineno - 1, (each.end_lineno or each.lineno) - 1
        rows[first:last + 1] = [rows[first][:each.col_offset] + b"object" + rows[last][each.end_col_offset:],
                                *[b""] * (last - first)]
    return b"\n".join(rows[node.lineno - 1:node.end_lineno]).decode()


class Function(Generic[R]):
    """A function whose body runs in a sandbox: its source is sent there, and is a cell in the session's history.

    It has access to its arguments, its own imports, and variables of the session, but not to this program.
    """

    sandbox: Any
    """Where it runs: a Sandbox, or an AsyncSandbox if the function is awaited."""

    def __init__(self, function: Callable[..., R], sandbox: Union[Sandbox, AsyncSandbox], trust: bool) -> None:
        self.__wrapped__ = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.sandbox = sandbox
        self._trust = trust

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Run the function. Arguments and result are passed by value, as in Sandbox.set() and get().

        CellFailed: the function raised, or its result cannot be passed. TypeError: an argument cannot be passed.
        """
        exchange = Exchange(self._trust)
        call = self.__name__ + "(*_given[0], **_given[1])"
        if inspect.iscoroutinefunction(self.__wrapped__):
            call = '__import__("asyncio").run({})'.format(call)
        code = "{}\n{}_sent = {}\ndel _given\n{}".format(
            exchange.calling(_source(self.__wrapped__)), exchange.giving([args, kwargs]), call, exchange.sending())
        if isinstance(self.sandbox, AsyncSandbox):
            return cast(R, self._awaited(exchange, code))
        return cast(R, self._value(exchange, self.sandbox.run(code, input=exchange.input)))

    async def _awaited(self, exchange: Exchange, code: str) -> Any:
        return self._value(exchange, await self.sandbox.run(code, input=exchange.input))

    def _value(self, exchange: Exchange, result: Result) -> Any:
        try:
            return exchange.sent(result)
        except CellFailed as failed:
            missed = re.match("NameError: name '([^']*)'", failed.args[0])
            if missed is not None and missed[1] in getattr(self.__wrapped__, "__globals__", {}):
                failed.args = ("{}; {}() sees nothing of this program: import or define {} inside it".format(
                    failed.args[0], self.__name__, missed[1]),)
            raise


@overload
def sandboxed(function: Callable[..., R]) -> Function[R]: ...


@overload
def sandboxed(*, sandbox: AsyncSandbox,
              trust: bool = False) -> Callable[[Callable[..., Any]], Function[Coroutine[Any, Any, Any]]]: ...


@overload
def sandboxed(*, sandbox: Optional[Sandbox] = None, trust: bool = False,
              **options: Any) -> Callable[[Callable[..., R]], Function[R]]: ...


def sandboxed(function: Optional[Callable[..., Any]] = None, *, sandbox: Union[Sandbox, AsyncSandbox, None] = None,
              trust: bool = False, **options: Any) -> Any:
    """Decorate a function so that it runs in a sandbox, by value: `@sandboxed` or `@sandboxed(memory="1g")`.

    sandbox: where it runs; else a new session with these options, as in Sandbox(). An `async def` function, or one in
    an AsyncSandbox, is awaited. trust: the result is pickled, which lets code in the sandbox run anything in this
    program: only for code that you would run without a sandbox.
    """
    def decorate(decorated: Callable[..., Any]) -> Function[Any]:
        is_async = inspect.iscoroutinefunction(decorated)
        where = sandbox if sandbox is not None else AsyncSandbox(**options) if is_async else Sandbox(**options)
        if is_async and not isinstance(where, AsyncSandbox):
            raise InvalidArgument("{} is an `async def`: it needs an AsyncSandbox".format(decorated.__qualname__))
        return Function(decorated, where, trust)
    return decorate if function is None else decorate(function)
