# SPDX-License-Identifier: Apache-2.0
"""Projects of root, of user 1000 and of the user, with tight modes and setgid folders: readable
inside where the user may read them outside, written only to the overlay, with owners that fit."""

import ast
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lib

LOOK = """
import os
def show(path):
    s = os.stat(path)
    return [s.st_uid, s.st_gid, oct(s.st_mode & 0o7777)]
result = {p: show(p) for p in [".", "file", "folder"]}
"""


@pytest.fixture(scope="module")
def boxes() -> Iterator[Callable[[str], lib.Sandbox]]:
    made = {}

    def get(who: str) -> lib.Sandbox:
        if who not in made:
            made[who] = lib.Sandbox(who)
        return made[who]

    yield get
    for box in made.values():
        box.close()


def make_project(box: lib.Sandbox, name: str, owner: int, mode: int, file_mode: int = 0o600,
                 group: int | None = None) -> str:
    """A folder of owner with a file and a folder; its path."""
    path = os.path.join(box.folder, name)
    os.makedirs(os.path.join(path, "folder"))
    with open(os.path.join(path, "file"), "w") as out:
        out.write("outside\n")
    os.chmod(os.path.join(path, "file"), file_mode)
    for one in (path, os.path.join(path, "folder"), os.path.join(path, "file")):
        os.chown(one, owner, owner if group is None else group)
    os.chmod(os.path.join(path, "folder"), mode)
    os.chmod(path, mode)
    return path


def tree(path: str) -> dict[Any, tuple[int, int, int, str | None]]:
    """What is below, with owners, modes and contents."""
    found = {}
    for folder, folders, names in os.walk(path):
        for name in [".", *folders, *names]:
            one = os.path.join(folder, name)
            s = os.lstat(one)
            content = open(one).read() if stat.S_ISREG(s.st_mode) else None
            found[os.path.normpath(one)] = (s.st_uid, s.st_gid, s.st_mode, content)
    return found


def owners_inside(result: lib.Json) -> dict[Any, tuple[Any, ...]]:
    return {path: tuple(row) for path, row in ast.literal_eval(result["result"]).items()}


WRITE = """
import os
text = open("file").read()
open("file", "w").write("inside")
open("new", "w").write("inside")
open("folder/new", "w").write("inside")
os.chmod("file", 0o640)
os.mkdir("folder/deeper")
os.remove("file")
result = [text, sorted(os.listdir("."))]
"""


@pytest.mark.parametrize("owner", [0, 1000, 4242, 0x7fffff00], ids=["root", "1000", "4242", "huge"])
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2775], ids=["0700", "0755", "setgid"])
def test_as_root_every_owner_is_the_user_inside(boxes: Callable[[str], lib.Sandbox], owner: int, mode: int) -> None:
    box = boxes("root")
    project = make_project(box, f"p-{owner}-{mode:o}", owner, mode)
    before = tree(project)
    seen = box.exec(LOOK, options=["--project", project])
    assert seen["status"] == "ok", seen["error"]
    assert owners_inside(seen) == {".": (1000, 1000, oct(mode)), "file": (1000, 1000, "0o600"),
                                   "folder": (1000, 1000, oct(mode))}
    done = box.exec(WRITE, options=["--project", project])
    assert done["status"] == "ok", done["error"]
    assert ast.literal_eval(done["result"]) == ["outside\n", ["folder", "new"]]
    assert sorted(done["files"]["created"]) == ["folder/new", "new"] and done["files"]["deleted"] == ["file"]
    assert tree(project) == before


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2775], ids=["0700", "0755", "setgid"])
def test_as_a_user_ones_own_folder(boxes: Callable[[str], lib.Sandbox], mode: int) -> None:
    box = boxes("user")
    project = make_project(box, f"own-{mode:o}", box.uid, mode)
    before = tree(project)
    seen = box.exec(LOOK, options=["--project", project])
    assert owners_inside(seen) == {".": (1000, 1000, oct(mode)), "file": (1000, 1000, "0o600"),
                                   "folder": (1000, 1000, oct(mode))}
    done = box.exec(WRITE, options=["--project", project])
    assert done["status"] == "ok" and ast.literal_eval(done["result"]) == ["outside\n",
                                                                           ["folder", "new"]], done["error"]
    assert tree(project) == before


def test_setgid_passes_the_group_on(boxes: Callable[[str], lib.Sandbox]) -> None:
    box = boxes("root")
    project = make_project(box, "group", 1000, 0o755)
    shared = os.path.join(project, "folder")
    os.chown(shared, 1000, 50)
    os.chmod(shared, 0o2775)
    before = tree(project)
    code = """
import os
open("folder/new", "w").close()
os.mkdir("folder/below")
result = [os.stat(p).st_gid for p in ("folder", "folder/new", "folder/below")]
result += [oct(os.stat("folder/below").st_mode & 0o7777)]
"""
    done = box.exec(code, options=["--project", project])
    assert done["status"] == "ok" and ast.literal_eval(done["result"]) == [50, 50, 50,
                                                                           "0o2755"], (done["result"], done["error"])
    assert tree(project) == before


def test_other_owners_in_a_project_keep_theirs(boxes: Callable[[str], lib.Sandbox]) -> None:
    """Only the folder's owner becomes the user inside; what others closed stays closed."""
    box = boxes("root")
    project = make_project(box, "mixed", 1000, 0o755)
    box.make_file(os.path.join(project, "closed"), "root's", 0o600)
    box.make_file(os.path.join(project, "open"), "root's", 0o644)
    code = """
import os
try:
    open("closed").read()
    result = "read"
except PermissionError:
    result = [os.stat("closed").st_uid, open("open").read()]
"""
    done = box.exec(code, options=["--project", project])
    assert ast.literal_eval(done["result"]) == [0, "root's"]


def test_what_was_made_ahead_is_not_taken_for_another_owner_or_mode(boxes: Callable[[str], lib.Sandbox]) -> None:
    box = boxes("root")
    path = make_project(box, "given-away", 0, 0o750)
    options = ["--project", path]

    def is_ahead() -> bool:
        return bool(box.exec("1", options=options)["manifest"]["from_pool"])

    assert lib.wait_for(is_ahead)
    for one in tree(path):
        os.chown(one, 4321, 4321)
    os.chmod(path, 0o710)
    done = box.exec(LOOK, options=options)
    assert owners_inside(done) == {".": (1000, 1000, "0o710"), "file": (1000, 1000, "0o600"),
                                   "folder": (1000, 1000, "0o750")}
    assert lib.wait_for(is_ahead)  # the control: others are made, and taken
    assert owners_inside(box.exec(LOOK, options=options)) == owners_inside(done)


@pytest.mark.parametrize("owner", [0, 1000], ids=["root", "1000"])
def test_as_a_user_what_may_be_read_can_be_read(boxes: Callable[[str], lib.Sandbox], owner: int) -> None:
    box = boxes("user")
    project = make_project(box, f"open-{owner}", owner, 0o755, 0o644)
    before = tree(project)
    code = """
import os
text = open("file").read()
errors = []
for path in ("file", "folder/new"):
    try:
        open(path, "w").write("inside")
    except OSError as error:
        errors.append(type(error).__name__)
open("new", "w").write("inside")
result = [text, errors, os.stat("file").st_uid, os.stat(".").st_uid]
"""
    done = box.exec(code, options=["--project", project])
    assert done["status"] == "ok", done["error"]
    # nobody's inside, as a user namespace shows whom it does not know; the top is the overlay's own
    assert ast.literal_eval(done["result"]) == ["outside\n", ["PermissionError"] * 2, 65534, 1000]
    assert tree(project) == before


@pytest.mark.parametrize("owner", [0, 1000], ids=["root", "1000"])
def test_as_a_user_what_may_not_be_read_is_refused(boxes: Callable[[str], lib.Sandbox], owner: int) -> None:
    box = boxes("user")
    project = make_project(box, f"closed-{owner}", owner, 0o700)
    done = box.cli("exec", "--project", project, "print('r' + 'an')")
    assert done.returncode == 1 and "ran" not in done.stdout
    assert project in done.stderr and "Permission denied" in done.stderr
    done = box.outside(f"open({project!r} + '/file')")  # the control run: not ours to read outside either
    assert "PermissionError" in done.stderr


def test_a_closed_file_in_an_open_project_is_closed_inside_too(boxes: Callable[[str], lib.Sandbox]) -> None:
    box = boxes("user")
    project = make_project(box, "half", 0, 0o755, 0o600)
    done = box.exec("open('file').read()", options=["--project", project])
    assert done["status"] == "error" and done["error"]["type"] == "PermissionError"


@pytest.mark.parametrize("path, kind", [("/proc", "proc"), ("/sys", "sysfs"), ("/proc/self/fdinfo", "")])
@pytest.mark.parametrize("who", ["root", "user"])
def test_a_file_system_of_the_kernel_is_no_project(boxes: Callable[[str], lib.Sandbox], who: str, path: str,
                                                   kind: str) -> None:
    done = boxes(who).cli("exec", "--project", path, "print('r' + 'an')")
    assert done.returncode in (1, 2) and "ran" not in done.stdout
    if kind:
        assert f"a {kind} file system cannot be a project" in done.stderr
        assert "copy" in done.stderr
