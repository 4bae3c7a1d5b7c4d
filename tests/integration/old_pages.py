# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of tests/python/old_pages.md, with servers in place of OpenAI and Anthropic."""

import json
import os
import re
import subprocess

from lib import Sandbox
from test_models import KEY, Server, said, stream

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python", "old_pages.md")
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# A cell of a notebook: `await` is not in a function.
NOTEBOOK = """\
import ast, asyncio, inspect, sys
names = {}
code = compile(open(sys.argv[1]).read(), sys.argv[1], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
async def cell():
    made = eval(code, names)
    if inspect.iscoroutine(made):
        await made
asyncio.run(cell())
"""


def programs() -> list[tuple[str, str]]:
    """(how, program)"""
    with open(PAGE) as page:
        return re.findall(r"^```python ?(\w*)\n(.*?)^```", page.read(), re.S | re.M)


def check(box: Sandbox, python: str) -> None:
    """Run them all with this interpreter: the answer is printed, and the run is on record."""
    servers = {kind: Server(stream(*said(kind))) for kind in ("openai", "anthropic")}
    env = {**box.env, **{f"{kind.upper()}_API_KEY": KEY for kind in servers},
           **{f"{kind.upper()}_BASE_URL": server.url for kind, server in servers.items()}}
    for n, (how, program) in enumerate(programs()):
        folder = box.make_folder(f"page{n}")
        words = [box.make_file(f"page{n}/program.py", program)]
        if how == "notebook":
            words.insert(0, box.make_file(f"page{n}/notebook.py", NOTEBOOK))
        begun = {kind: len(server.requests) for kind, server in servers.items()}
        done = subprocess.run([python, *words], env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120, **box.identity())
        assert done.returncode == 0, program + done.stderr
        lines = done.stdout.splitlines()
        assert lines[:1] == (["Hi there"] if "print(result.response)" in program else []), program + done.stdout
        assert len(lines) < 2 or ID.fullmatch(lines[1]), done.stdout
        kind = "anthropic" if '"anthropic"' in program else "openai"
        asked = servers[kind].requests[begun[kind]:]
        assert len(asked) == ("completion(" in program), (program, asked)
        for request in asked:
            prompt = re.findall(r'completion\(\s*"+(.*?)"+\s*\)', program, re.S)[0]
            assert json.dumps(prompt)[1:-1] in json.dumps(request["body"]["messages"]), request["body"]
            wanted = re.search(r'model="(?:openai/)?([^"]*)"', program)
            assert wanted is None or request["body"]["model"] == wanted[1]
            assert len(os.listdir(os.path.join(folder, "logs"))) == 1
        assert ("no effect in this version: snipara_api_key=" in done.stderr) == ("snp-" in program), done.stderr
    for server in servers.values():
        server.close()
