# SPDX-License-Identifier: Apache-2.0
"""A cell that is killed leaves the workspace as it was before it: in both tiers, as root and as an
ordinary user, with and without a project."""

import os
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

import lib

DIE = "\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)"
STATES = ["native-root", "native-user", "local-root", "local-user"]


@pytest.fixture(scope="module", params=STATES)
def box(request: pytest.FixtureRequest) -> Iterator[lib.Sandbox]:
    tier, who = request.param.split("-")
    made = lib.Sandbox(who, tier=tier)
    yield made
    made.close()


@pytest.fixture
def session(box: lib.Sandbox) -> Iterator[str]:
    name = "s" + secrets.token_hex(4)
    yield name
    box.destroy(name)


@pytest.fixture
def project(box: lib.Sandbox) -> str:
    folder = box.make_folder(f"home/p{secrets.token_hex(4)}")
    for name, text in {"readme": "readme", "src/a.py": "a", "src/deep/b.py": "b", ".env": "SECRET=hidden",
                       "data": "d" * 100000}.items():
        box.make_file(os.path.join(folder, name), text)
    return folder


TREE = """
import hashlib, os
def tree():
    found = {}
    for folder, names, files in os.walk('.'):
        for name in names + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            if os.path.islink(path):
                found[path] = os.readlink(path)
            elif os.path.isdir(path):
                found[path] = oct(st.st_mode)
            else:
                found[path] = (oct(st.st_mode), open(path, 'rb').read()[:50], st.st_size)
    return found
sorted(tree().items())
"""


def tree(box: lib.Sandbox, session: str) -> Any:
    done = box.exec(TREE, session=session)
    assert done["error"] is None, done["error"]
    return done["value"]


def die(box: lib.Sandbox, session: str, code: str, **kwargs: Any) -> lib.Json:
    done = box.exec(code + DIE, session=session, **kwargs)
    assert done["state"] == "rolled_back", (done["state"], done["transaction"], done["error"])
    assert done["transaction"]["workspace"] == "copied"
    return done


def test_what_a_killed_cell_did_to_files_is_undone(box: lib.Sandbox, session: str) -> None:
    box.exec("""
import os
open('kept', 'w').write('kept'); open('changed', 'w').write('before'); os.mkdir('folder', 0o750)
open('folder/x', 'w').write('x'); os.symlink('changed', 'link'); os.chmod('changed', 0o640)
""", session=session)
    before = tree(box, session)
    die(box, session, """
import os, shutil
open('changed', 'w').write('BEFORE'); os.chmod('changed', 0o600); shutil.rmtree('folder')
open('folder', 'w').write('a file now'); os.unlink('link'); os.mkdir('link'); open('new', 'w').write('n')
os.rename('kept', 'moved')
""")
    assert tree(box, session) == before


def test_a_project_a_killed_cell_deleted_is_there_again(box: lib.Sandbox, session: str, project: str) -> None:
    box.exec("open('mine', 'w').write('m'); open('readme', 'a').write('+')", session=session,
             options=["--project", project])
    before = tree(box, session)
    die(box, session, "import os, shutil\n"
                      "for n in os.listdir('.'): shutil.rmtree(n) if os.path.isdir(n) else os.unlink(n)")
    assert tree(box, session) == before
    # What was hidden is hidden still, and the folder on the host is as it was.
    assert box.exec("import os; os.path.exists('.env')", session=session)["value"] == "False"
    assert open(os.path.join(project, "readme")).read() == "readme"
    assert open(os.path.join(project, ".env")).read() == "SECRET=hidden"


def test_the_next_cell_is_told_its_own_changes_only(box: lib.Sandbox, session: str) -> None:
    box.exec("open('a', 'w').write('a'); open('b', 'w').write('b')", session=session)
    done = die(box, session, "import os; os.unlink('a'); open('b', 'w').write('other'); open('c', 'w')")
    assert done["files"]["created"] == done["files"]["modified"] == done["files"]["deleted"] == []
    done = box.exec("open('b', 'w').write('again'); open('d', 'w').write('d')", session=session)
    assert done["files"]["modified"] == ["b"] and done["files"]["created"] == ["d"]
    assert done["files"]["deleted"] == []
    done = box.exec("1", session=session)
    assert done["files"]["created"] == done["files"]["modified"] == done["files"]["deleted"] == []


def test_a_link_in_the_place_of_a_folder_leads_no_restore_out(box: lib.Sandbox, session: str) -> None:
    target = box.make_folder(f"home/t{secrets.token_hex(4)}", 0o777)
    box.make_file(os.path.join(target, "x"), "precious", 0o666)
    box.exec("import os; os.mkdir('folder'); open('folder/x', 'w').write('mine'); open('f', 'w').write('mine')",
             session=session)
    for name in (target, "/tmp", "/proc/self/fd", "/proc/1/root/tmp"):
        die(box, session, f"import shutil, os; shutil.rmtree('folder'); os.symlink({name!r}, 'folder')\n"
                          f"os.unlink('f'); os.symlink({name + '/x'!r}, 'f')")
        done = box.exec("import os; open('folder/x').read() + open('f').read() + str(os.path.islink('folder'))",
                        session=session)
        assert done["value"] == "'minemineFalse'"
    assert open(os.path.join(target, "x")).read() == "precious" and os.listdir(target) == ["x"]
    if box.tier == "native":
        assert box.exec("import os; os.path.exists('/tmp/x')", session=session)["value"] == "False"


def test_a_workspace_that_is_full_is_restored(box: lib.Sandbox, session: str) -> None:
    if box.tier == "local":
        pytest.skip("in the local tier a workspace over its limit ends the session, full or not")
    box.exec("open('a', 'wb').write(b'a' * (3 << 20))", session=session,
             options=["--workspace-size", "8m", "--workspace-files", "200"])
    die(box, session, """
import os
os.unlink('a')
try: open('b', 'wb').write(b'b' * (20 << 20))
except OSError: pass
try:
    for i in range(1000): os.mkdir(f'd{i}')
except OSError: pass
""")
    assert box.exec("import os; os.listdir(), os.stat('a').st_size, open('a').read(2)",
                    session=session)["value"] == "(['a'], 3145728, 'aa')"


def test_a_write_through_a_mapping_is_undone(box: lib.Sandbox, session: str) -> None:
    """In memory it leaves no other trace than in the contents."""
    box.exec("""
import mmap
open('m', 'wb').write(b'0' * 9000)
""", session=session)
    box.exec("import time; time.sleep(0.05)", session=session)
    one_more = "import mmap\nwith open('m', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: m[0] = m[0] + 1"
    box.exec(one_more, session=session)  # this one is kept
    die(box, session, one_more)
    assert box.exec("open('m', 'rb').read(1)", session=session)["value"] == "b'1'"


def test_more_than_is_kept_is_said_before(box: lib.Sandbox, session: str) -> None:
    if box.tier == "local":
        pytest.skip("so many files on a disk take long, and the rule is pid 1's in both tiers")
    box.exec("for i in range(20001): open(f'f{i}', 'w').close()", session=session)
    done = box.exec("open('more', 'w').write('m')" + DIE, session=session)
    assert done["transaction"]["workspace"] == "unavailable"
    assert done["transaction"]["notes"]


def test_a_copy_that_memory_has_no_room_for_costs_no_variable(box: lib.Sandbox, session: str) -> None:
    """The cell was answered: a kill for the lack of memory may not follow it."""
    if box.tier == "local":
        pytest.skip("there copies are on a disk")
    box.exec("1", session=session, options=["--memory", "256m"])
    done = box.exec("""
big = bytearray(90 << 20)
for i in range(0, len(big), 4096): big[i] = 1
with open('f', 'wb') as f:
    for i in range(80): f.write(b'x' * (1 << 20))
""", session=session)
    assert done["status"] == "ok" and done["state"] == "kept"
    done = box.exec("len(big), open('f', 'rb').read(3)", session=session)
    assert done["value"] == "(94371840, b'xxx')"
    assert done["transaction"]["workspace"] == "unavailable"
    assert any("memory" in note for note in done["transaction"]["notes"])


@pytest.mark.parametrize("with_project", [False, True], ids=["own", "project"])
def test_files_are_the_same_after_a_sleep_on_disk(box: lib.Sandbox, session: str, project: str,
                                                  with_project: bool) -> None:
    box.exec(r"""
import os, shutil
open('a', 'w').write('a'); os.chmod('a', 0o600); os.mkdir('folder', 0o700); open('folder/x', 'w').write('x' * 70000)
open(b'\xff\xfe "\n', 'w').write('odd name'); os.symlink('/nowhere', 'link'); open('empty', 'w').close()
if os.path.exists('src'):
    open('readme', 'a').write('+'); shutil.rmtree('src/deep'); os.unlink('data')
    shutil.rmtree('src'); os.mkdir('src'); open('src/mine', 'w').write('m')
""", session=session, options=["--project", project] if with_project else [])
    before = tree(box, session)
    for _ in range(2):  # the second time nearly nothing is written
        assert box.cli("hibernate", session).returncode == 0
        assert tree(box, session) == before
        assert box.exec("import os; os.path.exists('.env')", session=session)["value"] == "False"
    done = box.exec("open('a', 'w').write('b'); open('new', 'w').close()", session=session)
    assert (done["files"]["created"], done["files"]["modified"], done["files"]["deleted"]) == (["new"], ["a"], [])
    die(box, session, "import os; os.unlink('folder/x'); open('a', 'w').write('c')")
    assert box.exec("import os; os.stat('folder/x').st_size, open('a').read()",
                    session=session)["value"] == "(70000, 'b')"
