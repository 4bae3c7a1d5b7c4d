# SPDX-License-Identifier: Apache-2.0
"""Signatures that adapters use of libraries which Debian does not have, as modules.

From the public sources of langchain-core 1.5.3, openai-agents 0.17.3, smolagents at commit 01770cac and inspect-ai
0.3.232.
"""

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Awaitable, Callable, Dict, List, Optional, Type, Union

# langchain_core/tools/structured.py


class StructuredTool:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    @classmethod
    def from_function(cls, func: Optional[Callable[..., Any]] = None,
                      coroutine: Optional[Callable[..., Awaitable[Any]]] = None, name: Optional[str] = None,
                      description: Optional[str] = None, return_direct: bool = False, args_schema: Any = None,
                      infer_schema: bool = True, *, response_format: str = "content", parse_docstring: bool = False,
                      error_on_invalid_docstring: bool = False, **kwargs: Any) -> "StructuredTool":
        return cls(func=func, coroutine=coroutine, name=name, description=description, response_format=response_format)


# agents/tool.py


@dataclass
class FunctionTool:
    name: str
    description: str
    params_json_schema: Dict[str, Any]
    on_invoke_tool: Callable[[Any, str], Awaitable[Any]]
    strict_json_schema: bool = True


# smolagents/local_python_executor.py, smolagents/tools.py


@dataclass
class CodeOutput:
    output: Any
    logs: str
    is_final_answer: bool


class PythonExecutor(ABC):
    @abstractmethod
    def send_tools(self, tools: Dict[str, Any]) -> None: ...

    @abstractmethod
    def send_variables(self, variables: Dict[str, Any]) -> None: ...

    @abstractmethod
    def __call__(self, code_action: str) -> CodeOutput: ...


def get_tools_definition_code(tools: Dict[str, Any]) -> str:
    return "".join("def {}(a): return a + 1\n".format(name) for name in tools)


# inspect_ai/util/_sandbox/environment.py, inspect_ai/util/_subprocess.py, inspect_ai/util/_sandbox/limits.py


@dataclass
class ExecResult:
    success: bool
    returncode: int
    stdout: str
    stderr: str


class OutputLimitExceededError(Exception):
    def __init__(self, limit_str: str, truncated_output: Optional[str]) -> None:
        super().__init__(limit_str)


class SandboxEnvironment(ABC):
    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: Dict[str, str]) -> Dict[str, Any]:
        return {}

    @classmethod
    @abstractmethod
    async def sample_cleanup(cls, task_name: str, config: Any, environments: Dict[str, Any],
                             interrupted: bool) -> None: ...

    @abstractmethod
    async def exec(self, cmd: List[str], input: Union[str, bytes, None] = None, cwd: Optional[str] = None,
                   env: Optional[Dict[str, str]] = None, user: Optional[str] = None, timeout: Optional[int] = None,
                   timeout_retry: bool = True, concurrency: bool = True) -> ExecResult: ...

    @abstractmethod
    async def write_file(self, file: str, contents: Union[str, bytes]) -> None: ...

    @abstractmethod
    async def read_file(self, file: str, text: bool = True) -> Union[str, bytes]: ...


def sandboxenv(name: str) -> Callable[[Type[Any]], Type[Any]]:
    return lambda made: made


def install() -> None:
    """Have them imported in place of the libraries."""
    places: Dict[str, List[Any]] = {
        "langchain_core": [], "langchain_core.tools": [StructuredTool], "agents": [FunctionTool], "smolagents": [],
        "smolagents.local_python_executor": [CodeOutput, PythonExecutor],
        "smolagents.tools": [get_tools_definition_code], "inspect_ai": [],
        "inspect_ai.util": [ExecResult, OutputLimitExceededError, SandboxEnvironment, sandboxenv]}
    for place, members in places.items():
        module = sys.modules[place] = ModuleType(place)
        for member in members:
            setattr(module, member.__name__, member)
