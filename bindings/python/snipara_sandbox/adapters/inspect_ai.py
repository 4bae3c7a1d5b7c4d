# SPDX-License-Identifier: Apache-2.0
"""A sandbox of Inspect: each sample has a separate session.

    from snipara_sandbox.adapters.inspect_ai import SniparaEnvironment
    SniparaEnvironment.options = {"memory": "1g"}
    Task(..., sandbox="snipara")
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Union

from inspect_ai.util import ExecResult, OutputLimitExceededError, SandboxEnvironment, sandboxenv

from .._errors import Denied, InvalidArgument, LimitReached, NotFound
from .._sandbox import AsyncSandbox

OUTPUT_MOST, FILE_MOST = 10_000_000, 100 << 20


@sandboxenv(name="snipara")
class SniparaEnvironment(SandboxEnvironment):  # type: ignore[misc]
    """A session. Relative paths are below /workspace; files outside it and /tmp cannot be read or written."""

    options: Dict[str, Any] = {}
    """Of each session, as of AsyncSandbox()."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        super().__init__()
        self.sandbox = sandbox

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: Dict[str, str]) -> Dict[str, Any]:
        options: Dict[str, Any] = {**cls.options, "limits": {"output": OUTPUT_MOST, **cls.options.get("limits", {})}}
        return {"default": cls(AsyncSandbox(**options))}

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: Any, environments: Dict[str, Any], interrupted: bool) -> None:
        for environment in environments.values():
            await environment.sandbox.close()

    async def exec(self, cmd: List[str], input: Union[str, bytes, None] = None, cwd: Optional[str] = None,
                   env: Optional[Dict[str, str]] = None, user: Optional[str] = None, timeout: Optional[int] = None,
                   timeout_retry: bool = True, concurrency: bool = True) -> Any:
        from shlex import join, quote
        if user is not None:
            raise PermissionError("a session has one user; leave out user={!r}".format(user))
        line = join(["env", *("{}={}".format(*pair) for pair in (env or {}).items()), *cmd] if env else cmd)
        result = await self.sandbox.sh("cd {} && {}".format(quote(cwd), line) if cwd else line, input=input,
                                       timeout=timeout)
        if result.status == "timeout":
            raise TimeoutError("the command took more than {}".format(result.raw["limit"]["text"]))
        if result.exit_code == 126:
            raise PermissionError(result.stderr.strip())
        code = result.exit_code if result.exit_code is not None else 0 if result.ok else 137  # like a killed process
        return ExecResult(code == 0, code, result.stdout, result.stderr)

    async def write_file(self, file: str, contents: Union[str, bytes]) -> None:
        try:
            await self.sandbox.files.write(file, contents)
        except Denied as error:
            raise PermissionError(str(error)) from error
        except InvalidArgument as error:
            raise IsADirectoryError(str(error)) from error

    async def read_file(self, file: str, text: bool = True) -> Union[str, bytes]:
        try:
            data = await self.sandbox.files.read(file, most=FILE_MOST)
        except NotFound as error:
            raise FileNotFoundError(str(error)) from error
        except Denied as error:
            raise PermissionError(str(error)) from error
        except InvalidArgument as error:
            raise IsADirectoryError(str(error)) from error
        except LimitReached as error:
            raise OutputLimitExceededError("100 MiB", None) from error
        return data.decode() if text else data
