# SPDX-License-Identifier: Apache-2.0
"""`context`, black box: what is indexed and what never is, what a question finds, budgets, hostile repositories."""

import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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

# sentence: the first numbers of its vector, as the model's own code gives them (float32)
REFERENCE = {
    "Split a path into folder and name": [-0.0619424, -0.0610396, 0.0301702, 0.0550867, 0.0578417, 0.0006992],
    "parse JSON in C": [-0.0526220, -0.0526327, -0.0517335, -0.0105655, -0.0335983, 0.0073737],
    "read a JSON document in the C language": [-0.0582037, -0.0591491, -0.0559976, 0.0570684, 0.0531145, -0.0288169],
}


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.state = folder / "state"
        self.more: dict[str, str] = {}
        self.folder.mkdir()
        self.state.mkdir(mode=0o700)

    @property
    def env(self) -> dict[str, str]:
        env = {**os.environ, "XDG_STATE_HOME": str(self.state), "HOME": str(self.folder.parent)}
        env.pop("SNIPARA_SANDBOX_STATE_DIR", None)
        return {**env, **self.more}

    def run(self, *words: str, status: int = 0) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run([PROGRAM, "context", *words], cwd=self.folder, env=self.env, text=True,
                              errors="surrogateescape", stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=5 * lib.PATIENCE)
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
    assert done.stdout.split("\n", 1)[1].startswith('auth.py:2-3  # exact match: "verify_auth_token"\n'), done.stdout
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
    if not os.path.exists(os.path.join(lib.BUILD, "encoder.bin")):
        assert "not installed" in parsed.run("query", "x", "--mode", "semantic", status=1).stderr
    assert "100 to 100000" in parsed.run("query", "x", "--max-tokens", "7", status=2).stderr


def test_the_tests_of_a_name_are_found_with_it(parsed: Project) -> None:
    (parsed.folder / "tests").mkdir()
    parsed.write(**{"auth.py": "def verify_auth_token(token):\n    return token\n",
                    "use.py": "def main():\n    return verify_auth_token('x')\n",
                    "tests/checks.py": "def check_all():\n    assert verify_auth_token('y')\n",
                    "auth_test.go": "package a\nfunc TestToken() { verify_auth_token() }\n",
                    "tests/late.py": "def test_verify_auth_token():\n    assert verify_auth_token('z')\n"})
    for path in parsed.folder.rglob("*.*"):
        os.utime(path, (1e9, 1e9))  # none was changed last
    sections = parsed.json("query", "verify_auth_token")["sections"]
    found = {row["file"]: row["why"] for row in sections if row["why"] != "keywords"}
    tests, uses = 'tests "verify_auth_token"', 'uses "verify_auth_token"'
    assert found == {"auth.py": 'exact match: "verify_auth_token"', "use.py": uses, "tests/late.py": tests,
                     "tests/checks.py": tests, "auth_test.go": tests}
    names = [name for name in found if found[name] == tests]
    assert names[0] == "tests/late.py", names  # named after it


def test_among_equals_what_was_changed_last_is_first(parsed: Project) -> None:
    names = [f"{letter}.py" for letter in "abcdefgh"]
    parsed.write(**{name: f"def read_{name[0]}():\n    \"\"\"Reads the header.\"\"\"\n" for name in names})

    def first(mode: str = "hybrid") -> tuple[str, str]:
        section = parsed.json("query", "reads the header", "--mode", mode)["sections"][0]
        return section["file"], section["why"]

    for name in names:
        os.utime(parsed.folder / name, (1e9, 1e9))
    assert first() == ("a.py", "keywords")  # a checkout, whose files have one time
    os.utime(parsed.folder / "c.py", (1e9 + 7200, 1e9 + 7200))
    assert first() == ("c.py", "keywords, changed recently")
    assert first("keyword") == ("a.py", "keywords")


def test_a_name_in_the_same_letters_is_first(parsed: Project) -> None:
    parsed.write(**{"a.py": "def detach():\n    \"\"\"Detach, detach and detach.\"\"\"\n    detach()\n",
                    "b.py": "class Handle:\n    def Detach(self):\n        return 1\n\n\ndef g():\n    return 2\n"})
    for name, place in (("Detach", "b.py"), ("detach", "a.py"), ("g", "b.py")):
        section = parsed.json("query", name)["sections"][0]
        assert (section["file"], section["why"]) == (place, f'exact match: "{name}"')


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *words], cwd=folder, check=True,
                   env={**os.environ, "HOME": str(folder)}, capture_output=True, stdin=subprocess.DEVNULL)


def test_among_equals_what_a_commit_changed_last_is_first(parsed: Project) -> None:
    names = ["a.py", "b\nc.py", "e.py"]

    def first() -> tuple[str, str]:
        for name in os.listdir(parsed.folder):
            os.utime(parsed.folder / name, (1e9, 1e9))
        section = parsed.json("query", "reads the header")["sections"][0]
        return section["file"], section["why"]

    git(parsed.folder, "init", "-q")
    git(parsed.folder, "config", "core.attributesFile", "~/attributes")  # git ends without a HOME
    for name in names:
        parsed.write(**{name: f"def read_{name[0]}():\n    \"\"\"Reads the header.\"\"\"\n"})
    assert first() == ("a.py", "keywords")
    for name in names:
        git(parsed.folder, "add", name)
        git(parsed.folder, "commit", "-qm", name)
    assert first() == ("e.py", "keywords, changed recently")
    parsed.write(**{names[1]: f"{(parsed.folder / names[1]).read_text()}    return 1\n"})
    assert first()[0] == "e.py"
    git(parsed.folder, "commit", "-qam", "again")
    assert first() == (names[1], "keywords, changed recently")
    os.rename(parsed.folder / ".git", parsed.folder / "kept")  # as of a worktree
    parsed.write(**{".git": "gitdir: kept\n", ".gitignore": "kept\n"})
    git(parsed.folder, "commit", "-q", "--allow-empty", "-m", "x")
    assert first() == (names[1], "keywords, changed recently")
    os.unlink(parsed.folder / ".git")
    assert first()[1] == "keywords"


def test_what_git_can_read_in_part_counts_for_nothing(parsed: Project) -> None:
    git(parsed.folder, "init", "-q")
    for name in ("a.py", "b.py", "c.py"):
        parsed.write(**{name: f"def read_{name[0]}():\n    \"\"\"Reads the header.\"\"\"\n"})
        git(parsed.folder, "add", name)
        git(parsed.folder, "commit", "-qm", name)
    first = parsed.json("query", "reads the header")["sections"][0]
    assert (first["file"], first["why"]) == ("c.py", "keywords, changed recently")
    os.unlink(parsed.folder / "c.py")
    parsed.run("index")
    parsed.write(**{"d.py": "def read_d():\n    \"\"\"Reads the header.\"\"\"\n"})  # it may get the number of c.py
    whys = {row["file"]: row["why"] for row in parsed.json("query", "reads the header")["sections"]}
    assert whys["d.py"] == "keywords" and whys["b.py"] == "keywords, changed recently", whys
    old = subprocess.check_output(["git", "rev-parse", "HEAD~2"], cwd=parsed.folder, text=True).strip()
    os.unlink(parsed.folder / ".git/objects" / old[:2] / old[2:])
    git(parsed.folder, "commit", "-q", "--allow-empty", "-m", "x")
    assert {row["why"] for row in parsed.json("query", "reads the header")["sections"]} == {"keywords"}


def test_what_a_repository_has_git_run_does_not_run(parsed: Project) -> None:
    """A tree is missing, and the repository says what to run to get it."""
    ran = parsed.folder / "ran"
    (parsed.folder / "d").mkdir()
    git(parsed.folder, "init", "-q")
    parsed.write(**{"d/a.py": "def read_a():\n    \"\"\"Reads the header.\"\"\"\n"})
    git(parsed.folder, "add", ".")
    git(parsed.folder, "commit", "-qm", "x")
    tree = subprocess.check_output(["git", "rev-parse", "HEAD:d"], cwd=parsed.folder, text=True).strip()
    os.unlink(parsed.folder / ".git/objects" / tree[:2] / tree[2:])
    for key, value in {"core.repositoryformatversion": "1", "extensions.partialClone": "origin",
                       "remote.origin.url": "file:///nonexistent", "remote.origin.promisor": "true",
                       "remote.origin.uploadpack": f"touch '{ran}'; false"}.items():
        git(parsed.folder, "config", key, value)
    assert parsed.json("query", "reads the header")["sections"][0]["why"] == "keywords" and not ran.exists()
    # the control: git by itself
    with pytest.raises(subprocess.CalledProcessError):
        git(parsed.folder, "log", "--name-only")
    assert ran.exists()


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
    assert project.json("query", "delta", "--mode", "keyword")["sections"]
    assert not project.json("query", "alpha beta", "--mode", "keyword")["sections"]
    assert project.json("index", "--rebuild")["changed"] == 2


def test_two_that_make_an_index_wait_for_each_other(project: Project) -> None:
    project.write(**{"a.py": "def one(): pass\n"})
    project.run("index")
    database, = project.state.rglob("*.db")
    for path in database.parent.glob(database.name + "*"):
        path.unlink()
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # as the other one has it while it makes the file
    asked = subprocess.Popen([PROGRAM, "context", "search", "one"], cwd=project.folder, env=project.env, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def waits() -> bool:
        """It sleeps again and again, with the file open; or it has ended."""
        if asked.poll() is not None:
            return True
        status = Path(f"/proc/{asked.pid}/status").read_text()
        files = [os.path.realpath(fd) for fd in Path(f"/proc/{asked.pid}/fd").iterdir()]
        slept.append(int(lib.search(r"\nvoluntary_ctxt_switches:\s*(\d+)", status).group(1)))
        return str(database) in files and slept[-1] > slept[0] + 20

    slept: list[int] = []
    assert lib.wait_for(waits)
    other.execute("ROLLBACK")
    other.close()
    shown = asked.communicate(timeout=lib.PATIENCE)
    assert asked.returncode == 0 and "def one" in shown[0], shown


def test_an_index_that_watches_follows_each_change(project: Project) -> None:
    """Also in folders that come later; what is ignored, and a moment without a change, say nothing."""
    project.write(**{"one": "alpha\n", ".gitignore": "out/\n"})
    (project.folder / "out").mkdir()
    with subprocess.Popen([PROGRAM, "context", "index", "--watch", "--json"], cwd=project.folder, env=project.env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as watch:
        try:
            def told() -> Any:
                report = json.loads(lib.some(watch.stdout).readline())
                return report["files"], report["changed"], report["removed"]

            assert told() == (2, 2, 0)
            (project.folder / "sub/empty").mkdir(parents=True)
            (project.folder / "out/no").write_text("x\n")
            (project.folder.parent / "two").write_text("beta\n")  # it may look at any moment, so all in one step
            (project.folder.parent / "two").rename(project.folder / "sub/empty/two")
            assert told() == (3, 1, 0)
            (project.folder / "one").unlink()
            assert told() == (2, 0, 1)
            (project.folder / "sub").rename(project.folder / "moved")
            (project.folder / "moved/empty/two").write_text("gamma\n")
            assert told()[0] == 2
            assert lib.wait_for(lambda: [row["file_path"] for row in project.json("search", "gamma")["results"]] == [
                "moved/empty/two"])
            shutil.rmtree(project.folder)
            assert watch.wait(lib.PATIENCE) == 1
        finally:
            watch.kill()


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
    for name in (".aws", "sub/.ssh"):
        (project.folder / name).mkdir(parents=True)
    project.write(**{".env": "planted", "id_rsa": "planted", "key.txt": "x\n" + KEY, "nul.bin": "planted\0",
                     "good.txt": "good\n", "new\nline": "named\n",
                     "logs.jsonl": '{"_type":"trajectory_metadata"}\nplanted',
                     ".aws/config": "planted", "sub/.ssh/config": "planted",
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
    assert report["left_out"] == {"ignored": 0, "secret": 4, "special": 3, "beyond": 1}
    assert not project.json("search", "planted")["results"]
    files = project.json("stats")["files"]
    assert (files["secret"], files["binary"], files["large"]) == (1, 2, 1)
    assert {row["file_path"] for row in project.json("search", "good|named|latin|mark")["results"]} == {
        "good.txt", "new\nline", "latin.txt", "finds_keys.py"}
    assert "new line:1: named\n" in project.run("search", "named").stdout
    index = Path(project.json("stats")["index"])
    assert index.stat().st_mode & 0o777 == 0o600 and index.parent.stat().st_mode & 0o777 == 0o700
    assert b"planted" not in index.read_bytes()


@pytest.mark.slow
def test_bombs_for_the_parser_end_and_the_rest_is_found(parsed: Project) -> None:
    (parsed.folder / "deep.rs").write_text("mod a {\n" * 25000 + "}\n" * 25000)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    parsed.run("index")
    # of a processor, whose limit is a second; without it 15, and all of it several times that with sanitizers
    limit = 35 if os.environ.get("ASAN_OPTIONS") else 7
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < limit
    for name, text, _ in CODE.values():
        ending = name.split(".")[1]
        (parsed.folder / f"bomb.{ending}").write_text("(" * 4000 + "[{" * 1000 + "a=" * 1000 + "class X " * 200)
        (parsed.folder / f"z{name}").write_text(text)
    (parsed.folder / "long.cpp").write_text("a<b(" * 250000)
    parsed.run("index")
    assert parsed.json("stats")["files"]["unparsed"] >= 1
    for name, _, expected in CODE.values():
        assert expected <= parsed.sections(f"z{name}"), name


def test_very_many_tiny_files_are_indexed_in_little_memory(project: Project) -> None:
    project.more = {"SNIPARA_SANDBOX_CONTEXT_EMBEDDINGS": "off"}
    for folder in range(20):
        (project.folder / f"d{folder}").mkdir()
        for number in range(1000):
            os.close(os.open(project.folder / f"d{folder}" / f"f{number}", os.O_CREAT | os.O_WRONLY))
    project.write(needle="tiny needle\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert project.json("index")["files"] == 20001
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(before, 500 << 10)  # KiB, with sanitizers
    assert project.json("query", "needle")["sections"][0]["file"] == "needle"
    assert project.json("index")["changed"] == 0


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


@pytest.fixture
def semantic(parsed: Project) -> Project:
    lib.need("semantic", os.path.exists(os.path.join(lib.BUILD, "encoder.bin")), "no encoder (tools/semantic)")
    return parsed


def test_vectors_are_those_of_the_reference(semantic: Project) -> None:
    """Sentences by the model's own code (TensorFlow.js), whose first numbers are here."""
    bench = os.path.join(lib.BUILD, "context-bench")
    lib.need("bench", os.path.exists(bench), "context-bench is not built")
    sentences = list(REFERENCE)
    done = subprocess.run([bench, "-", "vectors"], input="\n".join(sentences) + "\n", capture_output=True, text=True,
                          check=True)
    vectors = [[float(number) for number in line.split()] for line in done.stdout.splitlines()]
    assert [len(vector) for vector in vectors] == [512] * len(sentences)
    for vector, expected in zip(vectors, REFERENCE.values()):
        assert max(abs(a - b) for a, b in zip(vector, expected)) < 1e-5
        assert abs(sum(number * number for number in vector) - 1) < 1e-4


def test_meaning_finds_what_words_do_not(semantic: Project) -> None:
    semantic.write(**{"a.py": "def discard_user():\n    pass\n\n\ndef draw_circle(radius):\n    pass\n\n\n"
                              "def send_email(address):\n    pass\n"})
    for question, name in (("sketch a round shape", "draw_circle"), ("write a message to somebody", "send_email")):
        found = semantic.json("query", question, "--mode", "semantic")
        assert found["sections"][0]["title"] == name and found["search_mode"] == "semantic"
        assert found["sections"][0]["why"] == "similar meaning"
        assert name not in [row["title"] for row in semantic.json("query", question, "--mode", "keyword")["sections"]]
        hybrid = semantic.json("query", question)
        assert hybrid["sections"][0]["title"] == name and hybrid["search_mode_downgraded"] is False
    assert semantic.json("index")["vectors_made"] == 0
    semantic.write(**{"b.py": "def erase_account():\n    pass\n"})
    os.unlink(semantic.folder / "a.py")
    assert [row["title"] for row in semantic.json("query", "drop a user", "--mode", "semantic")["sections"]] == [
        "erase_account"]
    assert semantic.json("index", "--rebuild")["vectors_made"] == 1


def test_words_that_are_forms_of_another_are_found(project: Project) -> None:
    project.write(one="parsing headers quickly\n", two="copies of running creations\n")
    for question, name in (("the parser of a header", "one"), ("copy, run, create", "two")):
        assert project.json("query", question, "--mode", "keyword")["sections"][0]["file"] == name


# An endpoint of embeddings ----------------------------------------------------------------------


class Endpoint:
    """Speaks OpenAI's /embeddings; the numbers of a text count its words about shapes and about mail."""

    WORDS = (("draw", "circle", "sketch", "round", "shape"), ("send", "email", "write", "message"), ("user", "account"))

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []  # the key, and what was asked
        self.fault = ""
        self.is_over = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.path == "/v1/embeddings"
                endpoint.requests.append((self.headers["Authorization"], asked))
                status, body = endpoint.answer(asked["input"])
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, texts: list[str]) -> tuple[int, bytes]:
        if self.fault == "status":
            return 503, b'{"error": {"message": "the model is being loaded"}}'
        if self.fault == "page":
            return 200, b"<html>who are you</html>"
        if self.fault == "slow":
            self.is_over.wait()
        rows = [{"index": i, "embedding": [sum(word in text for word in words) for words in self.WORDS] + [0.1]}
                for i, text in enumerate(texts)]
        if self.fault == "few":
            rows = rows[1:]
        if self.fault == "twice":
            rows = [{**row, "index": 0} for row in rows]
        if self.fault == "numbers":
            rows[-1]["embedding"] = [1.0, 0.5, None, "a"]
        if self.fault == "zeros":
            rows[-1]["embedding"] = [0.0, -0.0, 0, 0]
        if self.fault == "dimension":
            rows[-1]["embedding"] = [1.0] * 7
        return 200, json.dumps({"data": rows[::-1]}).encode()

    def sent(self) -> list[str]:
        """The texts since the last time."""
        texts = [text for _, asked in self.requests for text in asked["input"]]
        self.requests.clear()
        return texts


MODEL = "hosted_vllm/some/model"


@pytest.fixture
def endpoint(project: Project) -> Iterator[Endpoint]:
    made = Endpoint()
    project.more = {"SNIPARA_SANDBOX_CONTEXT_EMBEDDINGS": MODEL, "HOSTED_VLLM_API_KEY": "key-of-the-user",
                    "HOSTED_VLLM_API_BASE": f"http://127.0.0.1:{made.server.server_port}/v1"}
    project.write(**{"a.md": "# draw circle\n", "b.md": "# send email\n", "c.md": "# discard user\n"})
    yield made
    made.is_over.set()
    made.server.shutdown()
    made.server.server_close()


def test_an_endpoint_makes_vectors(project: Project, endpoint: Endpoint) -> None:
    """Each text once, none of a secret, and all anew for another model."""
    project.write(**{".env": "TOKEN=planted\n", "id_rsa": KEY, "notes.txt": KEY})
    assert project.json("index")["vectors_made"] == 3
    key, asked = endpoint.requests[0]
    assert key == "Bearer key-of-the-user" and asked["model"] == "some/model"
    assert sorted(endpoint.sent()) == ["discard user", "draw circle", "send email"]
    found = project.json("query", "sketch a round shape", "--mode", "semantic")
    assert found["sections"][0]["file"] == "a.md" and found["sections"][0]["why"] == "similar meaning"
    assert found["embeddings"] == MODEL and endpoint.sent() == ["sketch a round shape"]
    hybrid = project.json("query", "a message")
    assert hybrid["sections"][0]["file"] == "b.md" and hybrid["search_mode_downgraded"] is False
    endpoint.sent()
    project.write(**{"a.md": "# draw circle\n\n# erase account\n", "d.md": "# send email\n"})
    assert project.json("index")["vectors_made"] == 2 and endpoint.sent() == ["erase account"]
    assert project.json("stats")["embeddings"] == {"by": MODEL, "numbers": 4, "files": 4, "pending": 0}
    project.more["SNIPARA_SANDBOX_CONTEXT_EMBEDDINGS"] = "hosted_vllm/other"
    assert project.json("index")["vectors_made"] == 4 and len(endpoint.sent()) == 4
    assert project.json("stats")["embeddings"]["by"] == "hosted_vllm/other"


def test_many_texts_go_together(project: Project, endpoint: Endpoint) -> None:
    del project.more["HOSTED_VLLM_API_KEY"]
    project.more["HOSTED_VLLM_API_KEY_COMMAND"] = "echo key-of-a-command"
    project.write(**{"many.md": "".join(f"# part {i}\n" for i in range(150))})
    project.run("index")
    assert {key for key, _ in endpoint.requests} == {"Bearer key-of-a-command"}
    assert [len(asked["input"]) for _, asked in endpoint.requests] == [64, 64, 25]
    endpoint.requests.clear()
    project.write(**{f"{i}.md": f"# single {i}\n" for i in range(100)})
    project.run("index")
    assert [len(asked["input"]) for _, asked in endpoint.requests] == [64, 36]


@pytest.mark.parametrize("fault, told", [
    ("status", "the model is being loaded"), ("page", "no JSON"), ("slow", ""), ("few", "0 vectors for 1 texts"),
    ("numbers", "not a number"), ("zeros", "only zeros"), ("dimension", "numbers"), ("gone", ""),
    ("twice", "no vector for some text")])
def test_an_endpoint_that_fails_takes_only_meaning(project: Project, endpoint: Endpoint, fault: str, told: str) -> None:
    """One line says so; before, the same question was answered by meaning."""
    if fault == "twice":
        project.write(**{"a.md": "# draw circle\n\n# send email\n"})
    else:
        project.run("index")
        assert project.json("query", "draw circle")["embeddings"] == MODEL
    endpoint.fault = fault
    if fault == "gone":
        endpoint.server.server_close()
    done = project.run("query", "draw circle", "--json")
    answer = json.loads(done.stdout)
    assert answer["sections"][0]["file"] == "a.md" and answer["sections"][0]["why"].startswith("keywords")
    assert answer["embeddings"] == "off" and answer["search_mode_downgraded"] is True
    (line,) = done.stderr.splitlines()
    assert f"no semantic search: {MODEL}: " in line and told in line and "key-of-the-user" not in line
    if fault != "slow":
        assert MODEL in project.run("query", "draw circle", "--mode", "semantic", status=1).stderr
        project.write(**{"new.md": "# round shape\n"})
        assert MODEL in project.run("index").stderr  # and exits with 0


def test_nobody_is_asked_unless_the_user_says_so(project: Project, endpoint: Endpoint) -> None:
    asks = project.more.pop("SNIPARA_SANDBOX_CONTEXT_EMBEDDINGS")
    project.write(**{"snipara-sandbox.toml": f'[snipara_sandbox]\ncontext_embeddings = "{asks}"\n'})
    project.run("index")
    project.run("query", "draw circle")
    project.more["SNIPARA_SANDBOX_CONTEXT_EMBEDDINGS"] = "off"
    assert project.json("query", "draw circle")["embeddings"] == "off"
    assert "context_embeddings is off" in project.run("query", "x", "--mode", "semantic", status=1).stderr
    assert endpoint.requests == []
    project.more.update(SNIPARA_SANDBOX_CONTEXT_EMBEDDINGS="anthropic/claude", ANTHROPIC_API_KEY="key-of-the-user")
    assert "no embeddings" in project.run("query", "draw circle").stderr
    assert endpoint.requests == []
