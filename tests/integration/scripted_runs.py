# SPDX-License-Identifier: Apache-2.0
"""Runs in a project folder with a model that says what a script says; conftest.py has one as a fixture."""

import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from lib import PATIENCE, Json, Sandbox


def call(name: str, /, **arguments: Any) -> Json:
    return {"name": name, "arguments": arguments}


def turn(*calls: Json, text: str | None = "", tokens: tuple[int, int] = (100, 20), **more: Any) -> Json:
    """One answer of the model."""
    usage = {"input": tokens[0], "output": tokens[1]}
    return {"content": text, "tool_calls": list(calls), "usage": usage, **more}


class Runs:
    """A project folder, and a model that says what a script says."""

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self.folder = box.make_folder("project")
        self.count = 0

    def script(self, *turns: Json) -> str:
        self.count += 1
        text = "".join(json.dumps(each) + "\n" for each in turns)
        return self.box.make_file(f"script{self.count}.jsonl", text)

    def options(self, script: str) -> list[str]:
        return ["--model", f"replay/{script}"]

    def cli(self, *args: object, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        kwargs.setdefault("cwd", self.folder)
        kwargs.setdefault("timeout", 4 * PATIENCE)  # many cells, and the calls of a model
        return self.box.cli(*args, **kwargs)

    def json(self, verb: str, prompt: str, *turns: Json, options: Sequence[object] = (),
             code: int | None = None) -> Json:
        done = self.cli(verb, prompt, *self.options(self.script(*turns)), "--json", *options)
        result: Json = json.loads(done.stdout)
        if code is not None:
            assert done.returncode == code, done.stdout + done.stderr
        return result

    def run(self, *turns: Json, options: Sequence[object] = (), code: int | None = 0) -> Json:
        return self.json("run", "Do it", *turns, options=options, code=code)

    def agent(self, *turns: Json, options: Sequence[object] = (), code: int | None = 0) -> Json:
        return self.json("agent", "Do it", *turns, options=["--cost-limit", "none", *options], code=code)

    def path(self, result: Json) -> str:
        return os.path.join(self.folder, "logs", result["trajectory_id"] + ".jsonl")

    def records(self, result: Json) -> list[Json]:
        with open(self.path(result)) as lines:
            return [json.loads(line) for line in lines]

    def results(self, result: Json) -> list[Json]:
        """What the tools said, as the model got it."""
        return [json.loads(each["content"]) for each in self.records(result)
                if each.get("step") == "tool_result"]


def work(n: int) -> Json:
    return turn(call("execute_code", code=f"print({n})"), text=f"step {n}")
