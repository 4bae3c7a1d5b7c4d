# SPDX-License-Identifier: Apache-2.0
"""`diff --project` and `apply`: what a session changed goes into its project, and nothing else does."""

import base64
import hashlib
import json
import os
import pty
import resource
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import engine as engines
from lib import Json, PATIENCE, Sandbox
from scripted_daemon import PROGRAM, ScriptedDaemon

FLAGS = ("--yes", "--unverified")


BOXES = [("root", "native"), ("user", "native")]
COPIES = {"test_what_is_shown_is_applied_and_nothing_else": [("user", "local"), ("root", "docker")],
          "test_a_project_that_moved_is_not_overwritten": [("user", "local")],
          "test_an_apply_that_is_killed_is_finished_by_the_next": [("user", "local")]}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Over a project, and where it is a copy."""
    if "box" in metafunc.fixturenames:
        rows = [*BOXES, *COPIES.get(metafunc.function.__name__, [])]
        metafunc.parametrize("box", rows, indirect=True, ids=map("-".join, rows), scope="function")


@pytest.fixture
def box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    who, tier = request.param
    box = Sandbox(who, tier=tier, env=engines.env_for(request, tier))
    yield box
    box.close()


def project_of(box: Sandbox, name: str = "project", **files: str) -> str:
    """A folder that is older than the session that is made of it."""
    folder = box.make_folder(name)
    for path, text in {"a.txt": "one\ntwo\n", "old/x": "x\n", "old/deep/y": "y\n", "z": "z\n", **files}.items():
        box.make_file(f"{name}/{path}", text)
    time.sleep(0.05)  # ctime is of the last tick of the kernel's clock
    return folder


def tree(folder: str) -> dict[str, str]:
    """Paths with contents, modes of programs and targets of links."""
    found = {}
    for place, folders, names in os.walk(folder):
        for name in (*names, *folders):
            path = os.path.join(place, name)
            if os.path.islink(path):
                found[os.path.relpath(path, folder)] = f"-> {os.readlink(path)}"
            elif name in names:
                text = Path(path).read_bytes().decode("latin-1")
                found[os.path.relpath(path, folder)] = f"{text}{'*' if os.stat(path).st_mode & 0o100 else ''}"
    return found


CHANGES = """
import os, shutil
open("a.txt", "a").write("three\\n")
os.makedirs("new/deep", exist_ok=True)
open("new/deep/n.py", "w").write("n = 1\\n")
open("blob", "wb").write(bytes(range(256)))
shutil.rmtree("old", ignore_errors=True)
os.chmod("z", 0o777)
os.path.lexists("l") or os.symlink("new/deep", "l")
os.makedirs("__pycache__", exist_ok=True)
open("__pycache__/n.pyc", "w").write("cached")
"""


def session_of(box: Sandbox, folder: str, code: str = CHANGES, name: str = "work") -> None:
    result = box.exec(code, session=name, options=["--project", folder])
    assert result["status"] == "ok", result


def test_what_is_shown_is_applied_and_nothing_else(box: Sandbox) -> None:
    folder = project_of(box, keep="kept\n")
    box.make_file("project/quiet", "private\n", 0o600)
    time.sleep(0.05)
    before = tree(folder)
    session_of(box, folder, CHANGES + "open('quiet', 'a').write('more\\n')")
    shown = box.cli("diff", "work", "--project")
    assert shown.returncode == 0 and "Left out 1 cache file.\n" in shown.stderr, shown.stderr
    for line in ("+three", "+++ b/new/deep/n.py", "+n = 1", "deleted file mode 644", "--- a/old/deep/y", "new mode 755",
                 "new link to new/deep", "Binary files /dev/null and b/blob differ (0 B, 256 B)"):
        assert line in shown.stdout.splitlines(), (line, shown.stdout)
    rows = {row["path"]: row for row in json.loads(box.cli("diff", "work", "--project", "--json").stdout)["files"]}
    assert sorted(rows) == ["a.txt", "blob", "l", "new/deep/n.py", "old/deep/y", "old/x", "quiet", "z"]
    assert rows["a.txt"]["unified"] == "@@ -1,2 +1,3 @@\n one\n two\n+three\n"
    assert rows["a.txt"]["base"]["sha256"] == hashlib.sha256(b"one\ntwo\n").hexdigest()
    patch = json.loads(box.cli("diff", "work", "--project", "--patch").stdout)
    assert {row["path"]: base64.b64decode(row["now"]["base64"]) for row in patch["files"] if row["path"] == "blob"} == {
        "blob": bytes(range(256))}
    unverified = box.cli("apply", "work", "--yes")
    assert unverified.returncode == 1 and "use --unverified" in unverified.stderr and tree(folder) == before
    nobody = box.cli("apply", "work", "--unverified")
    assert nobody.returncode == 1 and "--yes applies without asking" in nobody.stderr and tree(folder) == before
    done = box.cli("apply", "work", *FLAGS)
    assert done.returncode == 0 and done.stdout == shown.stdout, done.stderr
    assert done.stderr.endswith(f"Applied 8 changes to {folder}.\n")
    assert tree(folder) == {"blob": bytes(range(256)).decode("latin-1"), "a.txt": "one\ntwo\nthree\n", "z": "z\n*",
                            "new/deep/n.py": "n = 1\n", "keep": "kept\n",
                            "l": "-> new/deep", "quiet": "private\nmore\n"}
    assert not os.path.exists(os.path.join(folder, "old")) and sorted(os.listdir(folder)) == [
        "a.txt", "blob", "keep", "l", "new", "quiet", "z"]
    assert stat.S_IMODE(os.stat(os.path.join(folder, "quiet")).st_mode) == 0o600
    assert "Session work and its project are identical." in box.cli("diff", "work", "--project").stderr
    if box.tier != "native":  # the copy is a snapshot like others, which only native does without
        moved = box.cli("sessions", "move", "work", "--to", "native")
        assert moved.returncode == 1 and "has a project, and tier" in moved.stderr and "apply" in moved.stderr
        assert box.cli("rollback", "work@project").returncode == 0
        assert box.exec("open('a.txt').read()", session="work")["value"] == "'one\\ntwo\\n'"
        assert box.cli("snapshots", "remove", "work@project").returncode == 0
        refused = box.cli("diff", "work", "--project")
        assert refused.returncode != 0 and 'no snapshot "project"' in refused.stderr and "native" in refused.stderr


def test_a_file_of_the_project_is_shown_in_a_cache_folder_too(box: Sandbox) -> None:
    folder = project_of(box, **{"__pycache__/kept": "mine\n"})
    session_of(box, folder, "open('__pycache__/kept', 'a').write('more\\n'); open('__pycache__/new', 'w').write('x')")
    shown = box.cli("diff", "work", "--project")
    assert "+more" in shown.stdout.splitlines() and "new" not in shown.stdout, shown.stdout
    assert "Left out 1 cache file.\n" in shown.stderr, shown.stderr


def test_a_second_apply_writes_what_came_since(box: Sandbox) -> None:
    folder = project_of(box)
    session_of(box, folder)
    assert box.cli("apply", "work", *FLAGS, "a.txt", "new").returncode == 0
    assert set(tree(folder)) == {"a.txt", "new/deep/n.py", "old/x", "old/deep/y", "z"}
    session_of(box, folder, "open('a.txt', 'a').write('four\\n')")
    done = box.cli("apply", "work", *FLAGS, "a.txt", "--json")  # what apply wrote itself has not moved
    assert done.returncode == 0 and json.loads(done.stdout)["applied"] == ["a.txt"], done.stderr
    assert tree(folder)["a.txt"].endswith("three\nfour\n")


def test_sessions_that_are_open_while_their_project_changes(box: Sandbox) -> None:
    """Each file is seen as a whole, old or new, and no session overwrites what another made."""
    folder = project_of(box)
    read = ("print(open('a.txt').read() in ('one\\ntwo\\n', 'one\\ntwo\\nthree\\n'),"
            " open('z').read() == 'z\\n')")
    session_of(box, folder, "open('a.txt', 'a').write('three\\n')")
    session_of(box, folder, f"held = open('a.txt')\n{read}", name="other")
    assert box.cli("apply", "work", *FLAGS).returncode == 0
    own = box.exec("print(open('a.txt').read())", session="work")
    assert own["stdout"] == "one\ntwo\nthree\n\n", own
    other = box.exec(f"{read}\nprint(held.read() == 'one\\ntwo\\n')\nopen('a.txt', 'a').write('mine\\n')",
                     session="other")
    assert other["stdout"] == "True True\nTrue\n", other
    done = box.cli("apply", "other", *FLAGS)
    assert done.returncode == 1 and "a.txt: it changed in the project after the session began\n" in done.stderr
    assert tree(folder)["a.txt"] == "one\ntwo\nthree\n"


def test_a_project_that_moved_is_not_overwritten(box: Sandbox) -> None:
    folder = project_of(box)
    session_of(box, folder)
    box.make_file("project/a.txt", "mine\n")
    before = tree(folder)
    done = box.cli("apply", "work", *FLAGS)
    assert done.returncode == 1 and "a.txt: it changed in the project after the session began\n" in done.stderr
    assert tree(folder) == before
    assert box.cli("apply", "work", *FLAGS, "--project-moved").returncode == 0
    assert tree(folder)["a.txt"] == "one\ntwo\nthree\n"


def test_files_that_tools_run_need_their_name(box: Sandbox) -> None:
    folder = project_of(box)
    session_of(box, folder, "import os\nfor path in ('.envrc', '.vscode/tasks.json', 'sub/.husky/pre-commit',"
                            " '.git/hooks/x', 'sub/.GIT/config', 'ok.py'):\n"
                            "  os.makedirs(os.path.dirname(path) or '.', exist_ok=True)\n"
                            "  open(path, 'w').write('x')\nos.symlink('../../etc/passwd', 'sub/out')\n"
                            "os.symlink('../ok.py', 'sub/in')\n"
                            "os.symlink('..', 'sub/top')\nos.symlink('sub/top/..', 'above')\n"
                            "os.symlink('top/..', 'sub/above')")
    before = tree(folder)
    refused = box.cli("apply", "work", *FLAGS)
    assert refused.returncode == 1 and tree(folder) == before
    assert [line.split(":")[0].strip() for line in refused.stderr.splitlines() if "version control" in line] == [
        ".git/hooks/x", "sub/.GIT/config"]
    names = [".envrc", ".vscode", "sub/.husky", "sub/out", "sub/in", "sub/top", "above", "sub/above", "ok.py"]
    unnamed = box.cli("apply", "work", *FLAGS, *names, "--allow", ".envrc")
    assert unnamed.returncode == 1 and tree(folder) == before
    assert [line.split(":")[0].strip() for line in unnamed.stderr.splitlines() if line.startswith("  ")] == [
        ".vscode/tasks.json", "above", "sub/.husky/pre-commit", "sub/above", "sub/out"]
    assert "sub/out: a link that may lead out of the project\n" in unnamed.stderr
    assert box.cli("apply", "work", *FLAGS, "ok.py", ".envrc", "--allow", ".envrc").returncode == 0
    assert set(tree(folder)) - set(before) == {"ok.py", ".envrc"}


def test_what_assistants_and_tools_obey_needs_its_name(box: Sandbox) -> None:
    """Some rules of each kind in src/base/patch/obeyed.c, also in folders and in capitals."""
    names = ["rlm.toml", "AGENTS.md", "docs/claude.md", ".cursorrules", "lefthook.toml", "prettier.config.mjs",
             ".pdbrc", ".Python-Version", "web/.pnpmfile.cjs", "jest.config.js", ".gitlab/ci/x.yml", "build.rs",
             "lib/x.pth"]
    plain = ["agents.py", "config.toml", "Makefile", "README.md", "gitlab/x.yml", "python-version"]
    folder = project_of(box)
    session_of(box, folder, f"import os\nfor path in {names + plain}:\n"
                            "  os.makedirs(os.path.dirname(path) or '.', exist_ok=True)\n  open(path, 'w').write('x')")
    refused = box.cli("apply", "work", *FLAGS)
    assert refused.returncode == 1
    named = {line.split(":")[0].strip() for line in refused.stderr.splitlines() if line.startswith("  ")}
    assert named == set(names)


def test_an_apply_that_is_killed_is_finished_by_the_next(box: Sandbox) -> None:
    """The kernel ends it (SIGXFSZ) as the record of its second file would pass a size."""
    code = "for name in 'bcdefg': open(name, 'w').write(name * 100)\nopen('a.txt', 'w').write('new\\n')"
    for name in ("twin", "project"):
        session_of(box, project_of(box, name), code, name)
    assert box.cli("apply", "twin", *FLAGS).returncode == 0
    record, = Path(box.state, "applied").iterdir()
    with open(record, "rb") as lines:
        sizes = [len(line) for line in lines]
    most = sum(sizes[:4]) + sizes[4] // 2  # head, intent, two files and a half

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    folder = os.path.join(box.folder, "project")
    killed = box.cli("apply", "project", *FLAGS, preexec_fn=limit)
    assert killed.returncode < 0, killed
    there = tree(folder)
    assert there["a.txt"] == "new\n" and any(".snipara-apply-" in path for path in there)
    assert 1 < sum(name in there for name in "abcdefg") < 7
    done = box.cli("apply", "project", *FLAGS)
    assert done.returncode == 0, done.stderr
    assert "The last apply was cut off after 2 of 7 files; these remain.\n" in done.stderr
    assert tree(folder) == tree(os.path.join(box.folder, "twin"))


# A daemon that lies, and a project that changes meanwhile -------------------------------------------


def row(path: str, text: bytes | None = b"inside\n", kind: str = "file", **more: Any) -> Json:
    found = {"change": "added", "path": path, "a": None,
             "b": None if text is None else hashlib.sha256(text).hexdigest(),
             "type_b": kind, "size_b": len(text or b""), "mode_b": 0o644}
    return {**found, **more}


class Lies:
    """A daemon with a session of a project, whose files are what rows say."""

    def __init__(self, folder: Path, rows: list[Json], contents: bytes = b"inside\n") -> None:
        self.folder = folder
        show = {"id": "0" * 31 + "1", "name": "work", "tier": "native", "project": str(folder),
                "created": time.time() + 3600}
        self.daemon = ScriptedDaemon({
            "sessions.list": {"sessions": [show]}, "sessions.show": show,
            "diff": {"variables": [], "files": rows, "lost_a": [], "lost_b": []},
            "blob": ({"size": len(contents), "eof": True}, contents)})

    def apply(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self.daemon:
            return self.daemon.cli("apply", "work", *FLAGS, *words)

    def apply_while(self, change: Callable[[], object], answer: bytes = b"y\n") -> str:
        """Answer its question, with yes unless told, after something else has happened."""
        mine, theirs = pty.openpty()
        with self.daemon, subprocess.Popen(
                [PROGRAM, "apply", "work", "--unverified"], env=self.daemon.env, stdin=theirs,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=self.daemon.folder) as process:
            assert process.stderr is not None
            text = b""
            while not text.endswith(b"[y/N] "):
                byte = process.stderr.read(1)
                assert byte, text
                text += byte
            change()
            os.write(mine, answer)
            text += process.stderr.read()
            assert process.wait(PATIENCE) == 1, text
            for record in Path(self.daemon.folder, "applied").iterdir():
                self.steps = [json.loads(line).get("step") for line in record.read_text().splitlines()]
        os.close(mine)
        os.close(theirs)
        return text.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("one\n")
    return folder


HOSTILE = {
    "dots": [row("../out")], "inner dots": [row("sub/../../out")], "absolute": [row("/tmp/out-of-it")],
    "empty part": [row("sub//out")], "dot": [row("./out")], "no name": [row("")], "long": [row("x" * 300)],
    "newline": [row("a\nb")], "escape": [row("\x1b[2J")], "bytes": [row("?", path_hex="ff66")],
    "git": [row(".git/config")], "git below": [row("sub/.GiT/hooks/pre-commit")], "hg": [row(".hg/hgrc")],
    "file to folder": [row("a.txt", None, "dir"), row("a.txt/b")], "folder to file": [row("sub")],
    "folder to link": [row("sub", None, "link", target_b="a.txt")], "device": [row("x", None, "special")],
    "huge": [row("x", size_b=17 << 20)], "holes": [row("x", size_b=4 << 20)], "shorter than said": [row("x", size_b=3)],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_paths_and_kinds_that_are_refused(folder: Path, what: str) -> None:
    before = {path: path.lstat().st_mtime_ns for path in folder.parent.rglob("*")}
    done = Lies(folder, [row("fine.txt"), *HOSTILE[what]]).apply()
    assert done.returncode == 1 and "nothing was applied: some changes cannot be applied" in done.stderr, done
    assert "\x1b" not in done.stderr and "  a\n" not in done.stderr
    assert {path: path.lstat().st_mtime_ns for path in folder.parent.rglob("*")} == before
    assert Lies(folder, [row("fine.txt"), *HOSTILE[what]]).apply("fine.txt").returncode == 0
    assert sorted(os.listdir(folder)) == ["a.txt", "fine.txt", "sub"]


def test_names_that_differ_in_case_must_be_named(folder: Path) -> None:
    done = Lies(folder, [row("sub/Read"), row("sub/read")]).apply()
    assert done.returncode == 1 and "sub/read: its name differs only in case from another one\n" in done.stderr
    assert Lies(folder, [row("sub/Read"), row("sub/read")]).apply("--allow", "sub/read").returncode == 0
    assert len(os.listdir(folder / "sub")) == 2


@pytest.mark.parametrize("place", ["a.txt", "sub"])
def test_a_link_in_the_project_is_never_followed(folder: Path, place: str) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("theirs\n")
    if place == "a.txt":
        (folder / "a.txt").unlink()
        (folder / "a.txt").symlink_to(outside / "b.txt")
        done = Lies(folder, [row("a.txt", kind="file")]).apply()  # the link itself is replaced
        assert done.returncode == 0 and not (folder / "a.txt").is_symlink()
    else:
        (folder / "sub").rmdir()
        (folder / "sub").symlink_to(outside)
        done = Lies(folder, [row("sub/b.txt"), row("sub/new.txt")]).apply()
        assert done.returncode == 1 and "behind a symbolic link" in done.stderr
    assert (outside / "b.txt").read_text() == "theirs\n" and os.listdir(outside) == ["b.txt"]


def test_a_hard_link_keeps_its_other_name_as_it_was(folder: Path) -> None:
    os.link(folder / "a.txt", folder.parent / "other")
    assert Lies(folder, [row("a.txt")]).apply().returncode == 0
    assert (folder / "a.txt").read_text() == "inside\n" and (folder.parent / "other").read_text() == "one\n"


def test_a_pipe_in_the_project_is_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    done = Lies(folder, [row("pipe")]).apply()
    assert done.returncode == 1 and "pipe: in the project it is a special file" in done.stderr
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)


def swap_for_link(folder: Path) -> None:
    (folder / "sub").rmdir()
    (folder / "sub").symlink_to(folder.parent)


MEANWHILE: dict[str, tuple[list[Json], Callable[[Path], object], str]] = {
    "edited": ([row("a.txt")], lambda folder: (folder / "a.txt").write_text("mine\n"), "a.txt changed in the project"),
    "deleted": ([row("a.txt")], lambda folder: (folder / "a.txt").unlink(), "a.txt changed in the project"),
    "made": ([row("b.txt")], lambda folder: (folder / "b.txt").write_text("mine\n"), "b.txt changed in the project"),
    "link": ([row("sub/c")], swap_for_link, "sub/c changed in the project"),
    "folder": ([row("b.txt")], lambda folder: (folder / "b.txt").mkdir(), "b.txt changed in the project"),
    "fifo": ([row("b.txt")], lambda folder: os.mkfifo(folder / "b.txt"), "b.txt changed in the project"),
    "program": ([row("a.txt")], lambda folder: (folder / "a.txt").chmod(0o755), "a.txt changed in the project"),
    "all of it": ([row("a.txt"), row("b.txt")], lambda folder: shutil.rmtree(folder), "a.txt changed in the project"),
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_what_changes_between_question_and_answer_stays(folder: Path, what: str) -> None:
    rows, change, why = MEANWHILE[what]
    told = Lies(folder, [row("0.txt"), *rows]).apply_while(lambda: change(folder))
    assert why in told, told
    assert not (folder / "0.txt").exists()
    assert not [path for path in folder.parent.rglob("*") if ".snipara-apply" in path.name]
    assert not (folder.parent / "c").exists()


def test_a_no_is_on_record(folder: Path) -> None:
    lies = Lies(folder, [row("0.txt")])
    assert "nothing was applied" in lies.apply_while(lambda: None, b"n\n")
    assert lies.steps[-1] == "declined"


def test_a_session_without_a_project(box: Sandbox) -> None:
    box.exec("1", session="plain")
    done = box.cli("diff", "plain", "--project")
    assert done.returncode == 2 and "session plain has no project; make one with: exec --project DIR" in done.stderr
