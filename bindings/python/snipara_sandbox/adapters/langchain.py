# SPDX-License-Identifier: Apache-2.0
"""A tool of LangChain that runs Python in a session.

    from snipara_sandbox.adapters.langchain import python_tool
    agent = create_agent(model, tools=[python_tool(memory="1g")])
"""
from __future__ import annotations

from typing import Any, Union

from . import DESCRIPTION, said
from .._sandbox import AsyncSandbox, Sandbox


def python_tool(sandbox: Union[Sandbox, AsyncSandbox, None] = None, *, name: str = "python",
                description: str = DESCRIPTION, **options: Any) -> Any:
    """A StructuredTool. Its text is for the model, its artifact is the Result. ImportError: langchain-core is missing.

    sandbox: where code runs; else a new session with these options, as in Sandbox(). With an AsyncSandbox the tool can
    only be awaited.
    """
    from langchain_core.tools import StructuredTool
    where = sandbox if sandbox is not None else Sandbox(**options)
    form = {"name": name, "description": description, "response_format": "content_and_artifact"}
    if isinstance(where, AsyncSandbox):
        there = where

        async def run_async(code: str) -> Any:  # LangChain reads the annotations: (text, Result)
            result = await there.run(code)
            return said(result), result
        return StructuredTool.from_function(coroutine=run_async, **form)
    here = where

    def run(code: str) -> Any:
        result = here.run(code)
        return said(result), result
    return StructuredTool.from_function(func=run, **form)
