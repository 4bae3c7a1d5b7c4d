# SPDX-License-Identifier: Apache-2.0
"""Runs of models from Python: tests/python/runs.py as a user, and the programs of earlier releases' pages."""

import os
from collections.abc import Iterator

import pytest

import lib
import old_pages
from test_models import KEY, Server, said, stream
from test_python import pytestmark as no_sanitizers, run, with_package

pytestmark = no_sanitizers


@pytest.fixture(scope="module")
def box() -> Iterator[lib.Sandbox]:
    box = with_package(lib.Sandbox("user"))
    box.start()
    yield box
    box.close()


@pytest.mark.parametrize("name", ["names", "arguments", "configuration", "results", "limits", "tools", "agents",
                                  "keys", "stops", "repl"])
def test_a_program(box: lib.Sandbox, name: str) -> None:
    box.home = box.make_folder("home-" + name)  # a working folder, without what the one before left
    script = os.path.join(box.folder, "python", "runs.py")
    assert run(box, lib.PYTHON, "-X", "dev", "-W", "error", script, name) == ""


def test_the_pages_of_earlier_releases(box: lib.Sandbox) -> None:
    old_pages.check(box, lib.PYTHON)


def test_keys_of_the_program_reach_the_provider(box: lib.Sandbox) -> None:
    """And no record."""
    server = Server(stream(*said("openai")))
    box.home = box.make_folder("home-keys")
    code = ("import os\n"
            "from snipara_sandbox import SniparaSandbox\n"
            "from snipara_sandbox.backends import LiteLLMBackend\n"
            f"key, url = {KEY!r}, {server.url!r}\n"
            "SniparaSandbox(model='gpt-4o-mini', api_key=key, base_url=url).completion('x').raise_for_error()\n"
            "backend = LiteLLMBackend('gpt-4o-mini', api_key=key, api_base=url)\n"
            "SniparaSandbox(backend=backend).completion('x').raise_for_error()\n"
            "for name in os.listdir('logs'):\n"
            "    with open('logs/' + name) as file:\n"
            "        assert key not in file.read()\n")
    assert run(box, lib.PYTHON, "-W", "error", "-c", code) == ""
    assert [request["headers"]["authorization"] for request in server.requests] == ["Bearer " + KEY] * 2
    server.close()
