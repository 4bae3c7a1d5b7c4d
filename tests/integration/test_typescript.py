# SPDX-License-Identifier: Apache-2.0
"""The TypeScript package: packed, installed offline in a fresh project, and what its page says, on Node 18 and 22."""

import filecmp
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import lib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(ROOT, "bindings", "typescript")
TESTS = os.path.join(ROOT, "tests", "typescript")
NODES = {"18": "node18/bin/node", "22": "node/bin/node"}


@pytest.fixture(scope="module")
def modules() -> str:
    """The folder of what npm has: Node, TypeScript, and what the adapters are for."""
    folder = os.path.join(lib.BUILD, "typescript-suite")
    done = subprocess.run([os.path.join(ROOT, "tools", "mcp-suite"), folder, "typescript"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=10 * lib.PATIENCE)
    lib.need("npm", done.returncode == 0, done.stdout.strip())
    return os.path.join(folder, "node_modules")


@pytest.fixture(scope="module")
def box() -> Iterator[lib.Sandbox]:
    box = lib.Sandbox("root" if os.geteuid() == 0 else "user")
    box.env["SNIPARA_SANDBOX_BIN"] = box.bin
    box.env["SNP_TEST_PATIENCE"] = str(lib.PATIENCE)
    yield box
    subprocess.run([os.path.join(box.bin, "snipara-sandbox"), "daemon", "stop", "--force"], env=box.env, check=True,
                   stdout=subprocess.DEVNULL)
    box.close()


def tsc(modules: str, box: lib.Sandbox, folder: str, *args: str, version: str = "") -> None:
    run(box, folder, os.path.join(modules, NODES["22"]), os.path.join(modules, "typescript" + version, "bin", "tsc"),
        *args)


def run(box: lib.Sandbox, folder: str, *args: str) -> str:
    done = subprocess.run(args, cwd=folder, env=box.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=8 * lib.PATIENCE)
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


@pytest.fixture(scope="module")
def project(modules: str, box: lib.Sandbox) -> str:
    """A project with the packed package, and beside it what its documents import."""
    folder = box.make_folder("project")
    npm = ["npm", "--offline", "--silent", "--no-audit", "--no-fund"]
    run(box, folder, *npm, "pack", "--pack-destination", folder, PACKAGE)
    with open(os.path.join(folder, "package.json"), "w") as file:
        json.dump({"private": True, "type": "module"}, file)
    run(box, folder, *npm, "install", os.path.join(folder, "snipara-sandbox-3.0.0.tgz"))
    assert filecmp.cmp(os.path.join(ROOT, "LICENSE"), os.path.join(folder, "node_modules/snipara-sandbox/LICENSE"))
    for name in ("@langchain", "@openai", "@types", "zod"):
        os.symlink(os.path.join(modules, name), os.path.join(folder, "node_modules", name))
    for name in os.listdir(TESTS):
        shutil.copy(os.path.join(TESTS, name), folder)
    return folder


@pytest.mark.parametrize("node, name", [("18", "sandbox"), ("22", "sandbox"), ("18", "runs"), ("18", "hostile"),
                                        ("22", "adapters")])
def test_a_program(modules: str, project: str, box: lib.Sandbox, node: str, name: str) -> None:
    run(box, project, os.path.join(modules, NODES[node]), f"{name}.test.mjs")


def test_documents(modules: str, project: str, box: lib.Sandbox) -> None:
    """The page is what tsc --strict accepts, and does what it says."""
    with open(os.path.join(ROOT, "docs", "reference", "typescript.md")) as file:
        pages = re.findall(r"```ts\n(.*?)```", file.read(), re.S)
    said = ["42\n1 cities.csv\n43\n43 42\n0\n1\n2\n", None, "python 42\n"]
    assert len(pages) == len(said)
    for number, page in enumerate(pages):
        with open(os.path.join(project, f"page{number}.ts"), "w") as file:
            file.write(page)
    strict = ["--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--verbatimModuleSyntax",
              "--target", "es2022", "--module", "nodenext", "--types", "node"]
    tsc(modules, box, project, *strict, "page0.ts", "page1.ts", version="5")
    tsc(modules, box, project, *strict, "--skipLibCheck", "page2.ts")  # types of its packages want a browser's
    for number, node in ((0, "18"), (2, "22")):
        assert run(box, project, os.path.join(modules, NODES[node]), f"page{number}.js") == said[number]


def test_types_are_those_of_the_sources(modules: str, box: lib.Sandbox) -> None:
    """tsc --strict finds nothing in the sources, and types/ is what it makes of them."""
    copy = os.path.join(box.make_folder("copy"), "package")
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("node_modules"))
    os.symlink(modules, os.path.join(copy, "node_modules"))
    tsc(modules, box, copy, "-p", ".", "--outDir", "made")
    ours = sorted(set(os.listdir(os.path.join(PACKAGE, "types"))) - {"wire.d.ts"})
    assert ours == sorted(os.listdir(os.path.join(copy, "made")))
    differ = filecmp.cmpfiles(os.path.join(PACKAGE, "types"), os.path.join(copy, "made"), ours, shallow=False)[1:]
    assert differ == ([], [])


def test_create_snipara(modules: str, project: str, box: lib.Sandbox, tmp_path: Path) -> None:
    """It sets up a folder, keeps what is there, and says what is missing."""
    create = [os.path.join(modules, NODES["18"]), os.path.join(project, "node_modules", ".bin", "create-snipara")]
    place = str(tmp_path / "new")
    made = f"Created {place}/snipara-sandbox.toml\nCreated {place}/.mcp.json\n"
    assert run(box, project, *create, place).startswith(made)
    entry = json.loads((tmp_path / "new" / ".mcp.json").read_text())
    assert list(entry["mcpServers"]) == ["SniparaSandbox"]
    (tmp_path / "new" / ".mcp.json").write_text("mine")
    assert "Kept " in run(box, project, *create, place) and (tmp_path / "new" / ".mcp.json").read_text() == "mine"
    entry_file = str(tmp_path / "new" / ".mcp.json")
    for bad, program, said in ((place, "/nowhere", "the program snipara-sandbox is not installed"),
                               ("/proc/x", box.bin, "cannot make /proc/x: no such file or directory\n"),
                               (entry_file, box.bin, f"{entry_file} is a file, not a folder\n")):
        done = subprocess.run([*create, bad], env={**box.env, "SNIPARA_SANDBOX_BIN": program}, text=True,
                              capture_output=True, timeout=lib.PATIENCE)
        assert done.returncode == 1 and done.stderr.startswith(f"create-snipara: {said}"), done.stderr
