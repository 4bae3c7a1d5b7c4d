# SPDX-License-Identifier: Apache-2.0
"""An executor of smolagents: the code of a CodeAgent runs in a session.

    from snipara_sandbox.adapters.smolagents import SandboxExecutor
    agent = CodeAgent(tools=[], model=model, executor=SandboxExecutor(memory="1g"))
"""
from __future__ import annotations

from typing import Any, Dict, Optional

from smolagents.local_python_executor import CodeOutput, PythonExecutor
from smolagents.tools import get_tools_definition_code

from .._sandbox import Sandbox, _do

_FINAL = """\
class FinalAnswer(BaseException): pass
def final_answer(answer):
    global _final_answer
    _final_answer = answer
    raise FinalAnswer
"""


class SandboxExecutor(PythonExecutor):  # type: ignore[misc]
    """Runs code in a session. The source of tools is sent there: the template needs the modules that they import."""

    def __init__(self, sandbox: Optional[Sandbox] = None, **options: Any) -> None:
        """sandbox: where code runs; else a new session with these options, as in Sandbox()."""
        self.sandbox = sandbox if sandbox is not None else Sandbox(**options)

    def send_tools(self, tools: Dict[str, Any]) -> None:
        """Define tools in the session. CellFailed: one cannot be defined there."""
        others = {name: tool for name, tool in tools.items() if name != "final_answer"}
        self.sandbox.run((get_tools_definition_code(others) + "\n" if others else "") + _FINAL).raise_for_error()

    def send_variables(self, variables: Dict[str, Any]) -> None:
        """Set variables of the session, by value. TypeError: one cannot be passed."""
        if variables:
            _do(self.sandbox._ask_given(variables, "globals().update(_given)\n"))

    def __call__(self, code_action: str) -> Any:
        """Run code. Its output is the repr of the last expression, or the final answer by value."""
        result = self.sandbox.run(code_action)
        logs = "\n".join(part.rstrip("\n") for part in (result.stdout, result.stderr) if part)
        if result.error is not None and result.error.type.rpartition(".")[2] == "FinalAnswer":
            return CodeOutput(output=self.sandbox.get("_final_answer"), logs=logs, is_final_answer=True)
        result.raise_for_error()
        return CodeOutput(output=result.value, logs=logs, is_final_answer=False)

    def cleanup(self) -> None:
        """Destroy the session, unless it has a name."""
        self.sandbox.close()
