# SPDX-License-Identifier: Apache-2.0
"""A tool of the OpenAI Agents SDK that runs Python in a session.

    from snipara_sandbox.adapters.openai_agents import python_tool
    agent = Agent(name="Analyst", tools=[python_tool(memory="1g")])
"""
from __future__ import annotations

from typing import Any, Dict, Optional

from . import DESCRIPTION, said
from .._sandbox import AsyncSandbox

_PARAMETERS: Dict[str, Any] = {
    "type": "object", "properties": {"code": {"type": "string", "description": "Python code"}},
    "required": ["code"], "additionalProperties": False}


def python_tool(sandbox: Optional[AsyncSandbox] = None, *, name: str = "python", description: str = DESCRIPTION,
                **options: Any) -> Any:
    """A FunctionTool. A cancelled task ends the code. ImportError: openai-agents is missing.

    sandbox: where code runs; else a new session with these options, as in Sandbox().
    """
    from agents import FunctionTool
    where = sandbox if sandbox is not None else AsyncSandbox(**options)

    async def invoke(context: Any, arguments: str) -> str:
        from json import loads
        try:
            code = loads(arguments)["code"]
            if not isinstance(code, str):
                raise TypeError
        except (ValueError, TypeError, KeyError):  # the model gets the error and may try again
            return 'The arguments must be a JSON object with a string "code".'
        return said(await where.run(code))
    return FunctionTool(name=name, description=description, params_json_schema=_PARAMETERS, on_invoke_tool=invoke)
