# SPDX-License-Identifier: Apache-2.0
"""Sessions as tools of other libraries: langchain, openai_agents, smolagents, inspect_ai.

Each imports its library only when it is used. They were not run against the libraries: docs/reference/python.md.
"""
from __future__ import annotations

from .._result import Result

DESCRIPTION = ("Run Python code in a sandbox without a network. Variables, imports and files stay from call to call. "
               "Returns what the code prints, the value of a last expression, and errors.")
MOST = 20000  # characters for a model


def said(result: Result) -> str:
    """The text of a result for a model: head and tail if it is long."""
    text = repr(result)
    if len(text) > MOST:
        text = "{}\n[left out {} characters]\n{}".format(text[:MOST // 2], len(text) - MOST, text[-(MOST // 2):])
    return text
