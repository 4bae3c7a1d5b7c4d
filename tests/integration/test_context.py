# SPDX-License-Identifier: Apache-2.0
"""`context`, black box: what is indexed and what never is, what a question finds, budgets, hostile repositories."""

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

import lib

PROGRAM = os.path.join(lib.BUILD, "snipara-sandbox")
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nplanted\n-----END OPENSSH PRIVATE KEY-----\n"
# language: name of a file, its text, what is found in it
CODE = {
    "python": ("a.py", "import os.path\nLIMIT = 3\nclass Box:\n    \"\"\"Holds.\"\"\"\n    def put(self, x):\n"
               "        return os.path.join(x)\ndef open_box():\n    return Box()\n",
               {("constant", "LIMIT"), ("class", "Box"), ("method", "Box.put"), ("function", "open_box")}),
    "javascript": ("a.js",
                   "import x from './b.js';\nexport class Lid { shut() { return x(); } }\nconst lift = (a) => a;\n",
                   {("class", "Lid"), ("method", "Lid.shut"), ("function", "lift")}),
    "typescript": ("a.ts", "export interface Jar { size: number }\ntype Id = string;\n"
                   "abstract class Pot<T> { fill(x: T): void {} }\nexport function cook(p: Jar): Id { return ''; }\n",
                   {("interface", "Jar"), ("type", "Id"), ("class", "Pot"), ("method", "Pot.fill"),
                    ("function", "cook")}),
    "tsx": ("a.tsx", "export function View() { return <b>x</b>; }\n", {("function", "View")}),
    "go": ("a.go", "package a\nimport \"fmt\"\ntype Cup struct { N int }\nfunc (c *Cup) Sip() { fmt.Println(c) }\n"
           "func Brew() *Cup { return nil }\n", {("class", "Cup"), ("function", "Sip"), ("function", "Brew")}),
    "rust": ("a.rs", "use std::fmt;\nstruct Pan { n: u8 }\nimpl Pan { fn fry(&self) {} }\n"
             "trait Hot { fn heat(&self); }\n",
             {("class", "Pan"), ("method", "Pan.fry"), ("interface", "Hot"), ("method", "Hot.heat")}),
    "java": ("A.java", "import java.util.List;\npublic class Kettle { public int boil(int n) { return n; } }\n",
             {("class", "Kettle"), ("method", "Kettle.boil")}),
    "c": ("a.c", "#include \"a.h\"\n/* Stirs. */\nstatic int stir(int n)\n{\n    return n;\n}\n"
          "struct spoon { int n; };\n",
          {("function", "stir"), ("class", "spoon")}),
    "cpp": ("a.cpp", "#include <map>\nnamespace bar { class Fork { int prong() { return 3; } }; }\n"
            "int bar_tip() { return 1; }\n",
            {("module", "bar"), ("class", "bar.Fork"), ("method", "bar.Fork.prong"), ("function", "bar_tip")}),
    "ruby": ("a.rb", "class Tray\n  def carry(x)\n    x\n  end\nend\n", {("class", "Tray"), ("method", "Tray.carry")}),
    "bash": ("a.sh", "PLACE=/tmp\nwipe() {\n  echo $1\n}\n", {("constant", "PLACE"), ("function", "wipe")}),
}


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.state = folder / "state"
        self.folder.mkdir()
        self.state.mkdir(mode=0o700)

    def run(self, *words: str, status: int = 0) -> "subprocess.CompletedProcess[str]":
        env = {**os.environ, "XDG_STATE_HOME": str(self.state), "HOME": str(self.folder.parent)}
        env.pop("SNIPARA_SANDBOX_STATE_DIR", None)
        done = subprocess.run([PROGRAM, "context", *words], cwd=self.folder, env=env, text=True,
                              errors="surrogateescape", stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json").stdout)

    def write(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.folder / name).write_text(text)

    def sections(self, *words: str) -> set[tuple[str, str]]:
        return {(row["kind"], row["title"]) for row in self.json("sections", "--limit", "500", *words)["sections"]
                if row["file"] in words or not words}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def parsed(project: Project) -> Project:
    there = os.path.exists(os.path.join(lib.BUILD, "context-parser"))
    lib.need("grammars", there, "this build has no parser (tools/grammars)")
    return project


def test_definitions_are_found_in_each_language(parsed: Project) -> None:
    for name, text, _ in CODE.values():
        (parsed.folder / name).write_text(text)
    assert parsed.json("stats")["languages"] == dict.fromkeys(CODE, 1)
    for name, _, expected in CODE.values():
        assert parsed.sections(name) == expected, name
    assert parsed.run("skeleton", "a.c").stdout == "static int stir(int n)  # Stirs.\nstruct spoon\n"
    assert parsed.run("skeleton", "a.py").stdout == ("LIMIT = 3\nclass Box:  # Holds.\n    def put(self, x):\n"
                                                     "def open_box():\n")


def test_code_without_a_parser_is_plain_text(project: Project) -> None:
    project.write(**{"notes.md": "# Bread\nflour\n# Soup\nwater\n"})
    assert project.sections() == {("section", "# Bread"), ("section", "# Soup")}
    assert "flour" in project.run("query", "what is bread made of").stdout


def test_an_exact_name_is_first_and_the_budget_holds(parsed: Project) -> None:
    rest = "".join(f"def other_{i}(token):\n    '''verify token validate auth {i}'''\n    return token * {i}\n"
                   for i in range(200))
    parsed.write(**{"auth.py": "class Auth:\n    def verify_auth_token(self, token):\n        return token\n",
                    "rest.py": rest,
                    "use.py": "from auth import Auth\ndef main():\n    return Auth().verify_auth_token('x')\n"})
    done = parsed.run("query", "verify_auth_token")
    assert done.stdout.startswith('auth.py:2-3  # exact match: "verify_auth_token"\n'), done.stdout
    assert '# uses "verify_auth_token"' in done.stdout
    for most in (100, 101, 137, 400, 3000):
        answer = parsed.json("query", "how do I validate an auth token", "--max-tokens", str(most))
        assert answer["total_tokens"] <= answer["max_tokens"] == most
        assert sum(row["token_count"] for row in answer["sections"]) == answer["total_tokens"]
        assert (answer["left_out"] > 0) == (most < 3000) and "untrusted" in answer["system_instructions"]
        text = parsed.run("query", "how do I validate an auth token", "--max-tokens", str(most)).stdout
        assert len(text) / 4 <= most + len(answer["sections"])  # blank lines between them
    near = parsed.json("query", "token", "--file", "use.py")["sections"]
    assert "imported by the current file" in next(row for row in near if row["file"] == "auth.py")["why"]
    assert parsed.json("query", "rest.py")["sections"][0]["file"] == "rest.py"
    assert "not installed" in parsed.run("query", "x", "--mode", "semantic", status=1).stderr
    assert "100 to 100000" in parsed.run("query", "x", "--max-tokens", "7", status=2).stderr


def test_only_what_changed_is_read_again(project: Project) -> None:
    project.write(one="alpha\n", two="beta\n", three="gamma\n")
    assert project.json("index")["changed"] == 3
    assert project.json("index")["changed"] == 0
    old = os.stat(project.folder / "one")
    project.write(one="delta\n")  # the same size, at the same time, in the same file
    os.utime(project.folder / "one", ns=(old.st_atime_ns, old.st_mtime_ns))
    os.unlink(project.folder / "two")
    report = project.json("index")
    assert (report["changed"], report["removed"], report["files"]) == (1, 1, 2)
    assert [row["file_path"] for row in project.json("search", "alpha|beta|delta|gamma")["results"]] == ["one", "three"]
    assert project.json("query", "delta")["sections"] and not project.json("query", "alpha beta")["sections"]
    assert project.json("index", "--rebuild")["changed"] == 2


def test_files_are_left_out_as_git_does(project: Project) -> None:
    chance = random.Random(5)
    names = ["a", "b", "build", "x.o", "keep.o", "y.log"]
    rules = ["*.o", "!keep.o", "build/", "/a", "a/b", "**/b/*.log", "b/**", "!/b/a", "[xy].*", "?", "a/**/x.o",
             "\\!a", "*"]
    for folder in ["", *(f"{one}/" for one in names[:3]), *(f"{one}/{two}/" for one in names[:3] for two in names[:3])]:
        (project.folder / folder).mkdir(exist_ok=True)
        for name in names[3:]:
            (project.folder / folder / name).write_text("text\n")
    subprocess.run(["git", "init", "-q"], cwd=project.folder, check=True)
    for _ in range(25):
        for place in ("", "a", "b/build"):
            (project.folder / place / ".gitignore").write_text("\n".join(chance.sample(rules, 3)) + "\n")
        listed = subprocess.run(["git", "-c", "core.excludesFile=", "ls-files", "-oz", "--exclude-standard"],
                                cwd=project.folder, check=True, capture_output=True, text=True).stdout
        expected = {name for name in listed.split("\0") if name}
        project.json("index")
        found = project.json("search", "^", "--max-results", "1000")["results"]
        assert {row["file_path"] for row in found} == expected


def test_secrets_links_and_what_is_no_text_stay_out(project: Project) -> None:
    outside = project.folder.parent / "outside"
    outside.write_text("planted\n")
    project.write(**{".env": "planted", "id_rsa": "planted", "key.txt": "x\n" + KEY, "nul.bin": "planted\0",
                     "good.txt": "good\n", "new\nline": "named\n",
                     "finds_keys.py": "MARK = '-----BEGIN PRIVATE KEY-----'\n"})
    (project.folder / "latin.txt").write_bytes(b"caf\xe9 latin\n")
    (project.folder / "link").symlink_to(outside)
    (project.folder / "loop").symlink_to(project.folder)
    os.mkfifo(project.folder / "pipe")
    with open(project.folder / "sparse.txt", "wb") as sparse:
        sparse.truncate(1 << 30)
    deep = project.folder
    for _ in range(80):
        deep = deep / "d"
        deep.mkdir()
    (deep / "deep.txt").write_text("planted\n")
    report = project.json("index")
    assert report["left_out"] == {"ignored": 0, "secret": 2, "special": 3, "beyond": 1}
    assert not project.json("search", "planted")["results"]
    files = project.json("stats")["files"]
    assert (files["secret"], files["binary"], files["large"]) == (1, 1, 1)
    assert {row["file_path"] for row in project.json("search", "good|named|latin|mark")["results"]} == {
        "good.txt", "new\nline", "latin.txt", "finds_keys.py"}
    assert "new line:1: named\n" in project.run("search", "named").stdout
    index = Path(project.json("stats")["index"])
    assert index.stat().st_mode & 0o777 == 0o600 and index.parent.stat().st_mode & 0o777 == 0o700
    assert b"planted" not in index.read_bytes()


def test_bombs_for_the_parser_end_and_the_rest_is_found(parsed: Project) -> None:
    for name, text, _ in CODE.values():
        ending = name.split(".")[1]
        (parsed.folder / f"bomb.{ending}").write_text("(" * 4000 + "[{" * 1000 + "a=" * 1000 + "class X " * 200)
        (parsed.folder / f"z{name}").write_text(text)
    (parsed.folder / "long.cpp").write_text("a<b(" * 250000)
    parsed.run("index")
    assert parsed.json("stats")["files"]["unparsed"] >= 1
    for name, _, expected in CODE.values():
        assert expected <= parsed.sections(f"z{name}"), name


def test_searches_end_and_wrong_words_are_told(project: Project) -> None:
    project.write(**{"a.txt": "one\nTwo\nthree\n" + "a" * 200000 + "\n"})
    assert project.json("search", "^t\\w+$")["results"] == [
        {"file_path": "a.txt", "line_number": 2, "content": "Two"},
        {"file_path": "a.txt", "line_number": 3, "content": "three"}]
    assert project.json("search", "(a*)*(a|b|c)*(x+x+)+y")["results"] == []
    assert "500 bytes" in project.run("search", "x" * 501, status=2).stderr
    assert project.run("read", "a.txt:2-3").stdout == "    2| Two\n    3| three\n"
    assert project.json("read", "./a.txt")["total_lines"] == 4
    assert "did you mean 'a.txt'" in project.run("read", "b.txt", status=1).stderr
    assert "FILE:A-B" in project.run("read", "a.txt:3-1", status=2).stderr
    assert project.run("map").stdout.startswith("a.txt\n")
    assert "home" in project.run("index", str(project.folder.parent), status=1).stderr
