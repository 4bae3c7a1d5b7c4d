# SPDX-License-Identifier: Apache-2.0
"""Every block of README.md, docs and the examples' READMEs is run in order, and prints what the document says.

A block is text indented by four spaces or between fences. In it `$ ` begins a command, `> ` goes on
with it, and what follows is what a terminal shows, both outputs as they come. In expected output `…` stands
for any text of a line, on a line alone for any lines; eight hexadecimal digits are an id, which
is the same one wherever the document repeats it. Lines of the test's surroundings are no part of the comparison:
`degraded: `, and warnings
about its HOME and its runtime folder.

Each document has a folder of its own, which holds examples/ as a clone does, a home, a state folder and a
daemon. pip is set up to find the package flask, in a stand-in. A comment before a block says what its text cannot:

    <!-- file: NAME -->         it is the content of this file
    <!-- serves -->             its last command goes on until the document ends
    <!-- not run: REASON -->    it cannot run here; counted as skipped
    <!-- run                    commands that readers need not see
    $ COMMAND
    OUTPUT
    -->
"""

import dataclasses
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import threading

import lib
import packages
from collections.abc import Callable, Sequence
from typing import Any
import pytest
from test_demo import ROOT, need_data, own

SECONDS = 2 * lib.PATIENCE  # of a command
PORT = "8765"  # in documents; a free one in its place
ID = r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{8}\b"
SURROUNDINGS = re.compile(r"degraded: |snipara-sandbox [a-z-]+: warning: (HOME|SNIPARA_SANDBOX_RUNTIME_DIR) is ")
DOCUMENTS = [os.path.relpath(path, ROOT)
             for pattern in ("README.md", "docs/*.md", "docs/*/*.md", "examples/*/README.md", "tests/integration/*.md")
             for path in sorted(glob.glob(os.path.join(ROOT, pattern)))]
# Options in documents that are not of our commands: of docker, mmdebstrap, tiers, programs in tests/crash, and one of
# nobody.
FOREIGN = {"hash", "rm", "security-opt", "variant", "include", "runs", "seed", "life", "option", "describe", "outputs",
           "start", "fd", "pristine", "only", "with-semantic", "test-isolation"}


@dataclasses.dataclass
class Block:
    line: int
    comment: str  # the last one before it, with nothing between but empty lines
    text: list[str]


def blocks_of(document: str) -> list[Block]:
    """All blocks, hidden ones too, in their order."""
    with open(os.path.join(ROOT, document)) as file:
        lines = file.read().splitlines() + [""]
    found, comment, at = [], "", 0
    while at < len(lines):
        first, line = at, lines[at]
        at += 1
        if line.startswith("<!-- "):
            while not lines[at - 1].endswith("-->"):
                at += 1
            comment = "\n".join(lines[first:at])[5:-3].strip()
            if comment.startswith("run\n"):
                found.append(Block(first + 1, "", comment.splitlines()[1:]))
                comment = ""
        elif line.startswith("```"):
            at = lines.index("```", at) + 1
            found.append(Block(first + 1, comment, lines[first + 1:at - 1]))
            comment = ""
        elif line.startswith("    "):
            while at < len(lines) and (lines[at].startswith("    ") or
                                       not lines[at] and lines[at + 1:at + 2] and lines[at + 1].startswith("    ")):
                at += 1
            found.append(Block(first + 1, comment, [text[4:] for text in lines[first:at]]))
            comment = ""
        elif line:
            comment = ""
    return found


def steps_of(block: Block) -> list[Any]:
    """[(command, lines it prints)]"""
    steps: list[Any] = []
    for line in block.text:
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif line.startswith("> ") and steps and not steps[-1][1]:
            steps[-1] = (steps[-1][0] + "\n" + line[2:], [])
        else:
            assert steps, f"line {block.line}: neither commands nor a comment that says what it is"
            steps[-1][1].append(line)
    return steps


class Reader:
    """Who has a document before him and a terminal, and types what it says."""

    def __init__(self, box: lib.Sandbox) -> None:
        self.box = box
        self.folder = os.path.join(box.folder, "clone")
        shutil.copytree(os.path.join(ROOT, "examples"), os.path.join(self.folder, "examples"))
        own(box, self.folder)
        self.cwd = self.folder
        self.ids: dict[str, str] = {}
        self.servers: list[Any] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        # The folders are where documents say: below the home.
        del box.env["SNIPARA_SANDBOX_STATE_DIR"]
        box.make_folder("home/.local/state")
        wheels = os.path.join(box.folder, "wheels")
        packages.wheel(wheels, "flask", {"flask/__init__.py": "__version__ = '3.1.2'\n"}, "3.1.2")
        box.make_file("home/.config/pip/pip.conf", f"[global]\nno-index = true\nfind-links = {wheels}\n")
        self.env = {**box.env, "PATH": f"{box.bin}:{box.env['PATH']}", "TZ": "UTC"}
        box.start()

    def start(self, command: str) -> tuple[subprocess.Popen[str], int]:
        """In bash, where the last command was; it writes into the second pipe where it ended."""
        at_end, where = os.pipe()
        for said, bound in {PORT: self.port, **self.ids}.items():
            command = command.replace(said, bound)
        process = subprocess.Popen(["/bin/bash", "-c", f'eval "$0" {where}>&-; pwd >&{where}', command], cwd=self.cwd,
                                   env=self.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True,
                                   pass_fds=[where], start_new_session=True, **self.box.identity())
        os.close(where)
        return process, at_end

    def run(self, command: str, expected: list[str], serves: bool = False) -> None:
        process, at_end = self.start(command)
        with os.fdopen(at_end) as where:
            if serves:
                self.servers.append(process)
                patience = threading.Timer(SECONDS, process.kill)
                patience.start()
                lines = [lib.some(process.stdout).readline().rstrip("\n") for _ in expected]
                patience.cancel()
                self.compare(command, expected, lines)
                return
            try:
                printed, _ = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            self.cwd = where.read().rstrip("\n") or self.cwd
        self.compare(command, expected, printed.splitlines())

    def compare(self, command: str, expected: list[str], lines: Sequence[str]) -> None:
        """Expected lines are a pattern as the head of this file says; ids that it meets are learnt."""
        printed = "".join(line + "\n" for line in lines if not SURROUNDINGS.match(line))
        pattern, new = "", []
        for line in expected:
            if line.strip() == "…":
                pattern += "(?:.*\n)*"
                continue
            for part in re.split(f"(…|{ID}|{PORT})", line):
                if part == "…":
                    pattern += ".*"
                elif part == PORT:
                    pattern += self.port
                elif part in self.ids:
                    pattern += re.escape(self.ids[part])
                elif re.fullmatch(ID, part):
                    pattern += f"(?P=id_{part})" if part in new else f"(?P<id_{part}>[0-9a-f]{{8}})"
                    new.append(part)
                else:
                    pattern += re.escape(part)
            pattern += "\n"
        match = re.fullmatch(pattern, printed)
        shown = "".join(line + "\n" for line in expected)
        assert match, f"$ {command}\n--- the document:\n{shown}--- printed:\n{printed}"
        self.ids.update((part, match["id_" + part]) for part in new)

    def read(self, block: Block) -> None:
        """Do what a block says."""
        if block.comment.startswith("file: "):
            path = os.path.relpath(os.path.join(self.cwd, block.comment[len("file: "):]), self.box.folder)
            self.box.make_file(path, "\n".join(block.text) + "\n")
            return
        assert block.comment in ("", "serves"), f"line {block.line}: what is {block.comment!r}?"
        steps = steps_of(block)
        for number, (command, expected) in enumerate(steps, 1):
            self.run(command, expected, block.comment == "serves" and number == len(steps))

    def leave(self) -> None:
        for server in self.servers:
            with server:
                os.killpg(server.pid, signal.SIGTERM)


def not_run(block: Block) -> bool:
    return block.comment.startswith("not run: ")


@pytest.mark.parametrize("document", [document for document in DOCUMENTS
                                      if any(not not_run(block) for block in blocks_of(document))])
def test_a_document_shows_what_happens(fresh_sandbox: Callable[..., lib.Sandbox], document: str) -> None:
    need_data()
    reader = Reader(fresh_sandbox("root" if os.geteuid() == 0 else "user"))
    try:
        for block in blocks_of(document):
            if not not_run(block):
                reader.read(block)
    finally:
        reader.leave()


@pytest.mark.parametrize("block", [pytest.param(block, id=f"{document}-{block.text[0][:40]}") for document in DOCUMENTS
                                   for block in blocks_of(document) if not_run(block)])
def test_a_block_is_not_run(block: Block) -> None:
    pytest.skip(block.comment[len("not run: "):])


def helps(box: lib.Sandbox, *verb: str) -> str:
    """--help of the command and of all below it, as one text."""
    text = box.cli(*verb, "--help").stdout
    verbs = re.search(r"^Commands:\n(.*?)(\n\n|\Z)" if verb else r"^Start with: (.*?)^Options:", text,
                      re.MULTILINE | re.DOTALL) if len(verb) < 2 else None
    below = re.findall(r"^  ([a-z-]+) ", verbs.group(1), re.MULTILINE) if verbs else []
    return text + "".join(helps(box, *verb, name) for name in below)


def test_options_in_documents_exist(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox("root" if os.geteuid() == 0 else "user")
    daemon = subprocess.run([os.path.join(box.bin, "snipara-sandboxd"), "--help"], capture_output=True, text=True,
                            **box.identity())
    known = set(re.findall(r"--(?:\[no-\]|no-)?([a-z][a-z-]+)", helps(box) + daemon.stdout + daemon.stderr)) | FOREIGN
    for document in DOCUMENTS:
        with open(os.path.join(ROOT, document)) as text:
            named = set(re.findall(r"(?<![\w-])--(?:no-)?([a-z][a-z-]+)",
                                   " ".join(re.findall(r"`([^`]*)`", text.read()))))
        assert sorted(named - known) == [], document


@pytest.mark.parametrize("expected, printed, same", [
    ("a … c", "a b c\n", True), ("a … c", "a b\nc\n", False), ("…\nc", "a\nb\nc\n", True), ("c", "a\nc\n", False),
    ("", "a\n", False), ("run 1234abcd\n1234abcd", "run 0f0f0f0f\n0f0f0f0f\n", True),
    ("run 1234abcd\n1234abcd", "run 0f0f0f0f\n0f0f0f01\n", False), ("1.0 s", "110 s\n", False)])
def test_output_is_compared_as_documents_are_told(expected: str, printed: str, same: bool) -> None:
    reader = Reader.__new__(Reader)
    reader.ids, reader.port = {}, "1"
    try:
        reader.compare("x", expected.splitlines(), printed.splitlines())
    except AssertionError:
        assert not same
    else:
        assert same


def test_make_builds_neither_tests_nor_fuzzers_nor_benches() -> None:
    made = subprocess.run(["ninja", "-C", lib.BUILD, "-t", "inputs", "programs"], capture_output=True, text=True,
                          check=True)
    assert "snipara-sandboxd" in made.stdout and "tests/" not in made.stdout
    for target, words in (("all", " programs\n"), ("bench", " programs snp-bench\n")):
        said = subprocess.run(["make", "-n", "-C", ROOT, target], capture_output=True, text=True, check=True).stdout
        assert words in said, said
