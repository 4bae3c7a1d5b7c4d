# SPDX-License-Identifier: Apache-2.0
"""/workspace: empty scratch, or a project that is read through and never written."""

import hashlib
import os
from collections.abc import Callable
from typing import Any

import pytest

import lib
from lib import Json, Sandbox

SECRETS = {
    ".env": "KEY=planted", ".env.local": "KEY=planted", "sub/.env": "KEY=planted", ".envrc": "planted",
    "id_rsa": "planted", "id_ed25519": "planted", ".ssh/config": "planted", ".aws/credentials": "planted",
    ".netrc": "planted", ".npmrc": "planted", ".pypirc": "planted", ".git-credentials": "planted",
    "keys/server.pem": "-----BEGIN PRIVATE KEY-----\nplanted\n", "deep/er/credentials.json": "planted",
    "prod.env": "planted", ".docker/config.json": "planted", ".cargo/credentials.toml": "planted",
    ".vault-token": "planted",
    "prod.tfvars": "planted", "terraform.tfstate": "planted", "id_rsa.bak": "planted", "kubeconfig": "planted",
    ".my.cnf": "planted", "deploy": "-----BEGIN OPENSSH PRIVATE KEY-----\nplanted\n",
    "docs/.environment": "planted", "UPPER.PEM": "-----BEGIN RSA PRIVATE KEY-----\nplanted\n",
}
SHOWN = {"env.py": "plain", "cert.pem": "-----BEGIN CERTIFICATE-----\nplain\n", "id_rsa.pub": "plain",
         "id_map.csv": "plain"}


def ok(result: Json) -> Json:
    assert result["status"] == "ok", result["error"]
    return result


@pytest.fixture
def project(sandbox: lib.Sandbox, request: pytest.FixtureRequest) -> str:
    """A folder of our user below its home."""
    name = "p" + hashlib.sha1(request.node.nodeid.encode()).hexdigest()[:12]
    return sandbox.make_folder(os.path.join("home", name))


def fill(sandbox: Sandbox, project: str, files: dict[str, str]) -> None:
    for path, content in files.items():
        sandbox.make_file(os.path.join(project, path), content)


def snapshot(folder: str) -> dict[Any, tuple[int, int, int, int, int, bytes]]:
    """Every path below a folder with its kind, mode, owner, times and content."""
    found = {}
    for at, dirs, files in os.walk(folder):
        for name in dirs + files:
            path = os.path.join(at, name)
            st = os.lstat(path)
            data = b""
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as text:
                    data = text.read()
            found[path] = (st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_ino, data)
    return found


# Scratch --------------------------------------------------------------------------------------


def test_alone_it_is_empty_scratch(sandbox: lib.Sandbox) -> None:
    done = ok(sandbox.exec("import os\nprint(os.getcwd(), os.listdir('.'), os.environ['HOME'])\n"
                           "os.makedirs('a/b'); open('a/b/f', 'w').write('x'); open('g', 'w').close()"))
    assert done["stdout"] == "/workspace [] /tmp/.home\n"
    assert lib.changes(done) == {"created": ["a/b/f", "g"], "modified": [], "deleted": [], "truncated": False}


def test_lists_of_changes_are_exact(sandbox: lib.Sandbox) -> None:
    ok(sandbox.exec("open('keep', 'w').write('1'); open('edit', 'w').write('1'); open('drop', 'w').write('1')", "chg"))
    done = ok(sandbox.exec("import os\nopen('edit', 'a').write('2'); os.remove('drop'); open('new', 'w').close()\n"
                           "open('keep').read(); open('brief', 'w').close(); os.remove('brief')\n"
                           "os.symlink('keep', 'link')", "chg"))
    assert lib.changes(done) == {"created": ["link", "new"], "modified": ["edit"], "deleted": ["drop"],
                                 "truncated": False}
    done = ok(sandbox.exec("os.rename('new', 'renamed'); os.chmod('keep', 0o600)", "chg"))
    assert done["files"]["created"] == ["renamed"] and done["files"]["deleted"] == ["new"]
    assert done["files"]["modified"] == ["keep"]
    assert ok(sandbox.exec("1", "chg"))["files"] == {"created": [], "modified": [], "deleted": [], "truncated": False}
    sandbox.destroy("chg")


def test_changed_contents_have_hashes(sandbox: lib.Sandbox) -> None:
    """Of regular files, within bounds: a pipe is not opened, a large or sparse file not read."""
    done = ok(sandbox.exec("""
import os
for name, text in (("empty", ""), ("a", "same"), ("b", "same"), ("c", "other")):
    open(name, "w").write(text)
os.mkfifo("pipe"); os.symlink("a", "link"); open("sparse", "w").truncate(100 << 20)
open(b"not-utf8-\\xff", "w").close()
"""))
    hashes = done["files"]["hashes"]
    assert set(hashes) == {"empty", "a", "b", "c"} and hashes["empty"] == "ef46db3751d8e999"
    assert hashes["a"] == hashes["b"] != hashes["c"]
    done = ok(sandbox.exec("for i in range(300): open(f'f{i:03}', 'w').write('x' * (40 << 10))"))
    assert list(done["files"]["hashes"]) == [f"f{i:03}" for i in range(102)]  # 4 MiB


def test_of_an_empty_workspace_all_is_known(sandbox: lib.Sandbox) -> None:
    nothing = {"created": [], "modified": [], "deleted": [], "truncated": False}
    assert ok(sandbox.exec("1", session="untouched"))["files"] == nothing
    assert ok(sandbox.exec("open('f', 'w').close()\nimport os; os.unlink('f')",
                           session="untouched"))["files"] == nothing
    sandbox.destroy("untouched")


def test_a_workspace_that_is_empty_again_tells_of_the_end_of_its_files(sandbox: lib.Sandbox) -> None:
    def deleted(code: str) -> list[str]:
        return list(ok(sandbox.exec(code, session="emptied"))["files"]["deleted"])

    assert deleted("1") == []
    given = sandbox.make_file("given", "text")
    assert sandbox.cli("put", given, "emptied:given").returncode == 0  # pid 1 knows of it
    assert deleted("import os; os.unlink('given')") == ["given"]
    assert deleted("open('made', 'w').close()") == []
    assert deleted("os.unlink('made')") == ["made"]
    assert deleted("1") == []
    sandbox.destroy("emptied")


def test_very_many_changes_are_cut_and_said_so(sandbox: lib.Sandbox) -> None:
    done = ok(sandbox.exec("for i in range(3000): open(f'f{i:04}', 'w').close()"))
    assert done["files"]["truncated"] and len(done["files"]["created"]) == 1000
    assert done["files"]["created"][:2] == ["f0000", "f0001"]


@pytest.mark.parametrize("name", ["ünï€𝄞", "a\nb", "tab\t", "  ", "-rf", "*", "a\"b\\", "\x01\x1b[2J", "x" * 255])
def test_names_of_any_characters(sandbox: lib.Sandbox, name: str) -> None:
    done = ok(sandbox.exec(f"open({name!r}, 'w').write('x')", "names"))
    assert done["files"]["created"] == [name]
    done = ok(sandbox.exec(f"import os\nos.remove({name!r})", "names"))
    assert done["files"]["deleted"] == [name]
    sandbox.destroy("names")


def test_a_name_that_is_no_utf8(sandbox: lib.Sandbox) -> None:
    done = ok(sandbox.exec("open(b'\\xff\\xfe', 'w').close()"))
    assert done["files"]["created"] == ["\ufffd\ufffd"]


# Project --------------------------------------------------------------------------------------


def test_project_is_read_through_and_never_written(sandbox: lib.Sandbox, project: str) -> None:
    fill(sandbox, project, {"data.csv": "a,b\n1,2\n", "src/mod.py": "VALUE = 41\n", "gone.txt": "x",
                            "dir/one": "1", "dir/two": "2", "script.sh": "#!/bin/sh\necho run\n"})
    os.chmod(os.path.join(project, "script.sh"), 0o755)
    before = snapshot(project)
    code = """
import os, shutil, subprocess, sys
sys.path.insert(0, 'src')
import mod
print(open('data.csv').read(), mod.VALUE + 1, sorted(os.listdir('.')))
print(subprocess.run(['./script.sh'], capture_output=True, text=True).stdout)
open('data.csv', 'a').write('3,4\\n')
open('new.txt', 'w').write('new')
os.remove('gone.txt')
shutil.rmtree('dir')
os.rename('src/mod.py', 'src/renamed.py')
os.chmod('script.sh', 0o600)
print(sorted(os.listdir('.')), open('data.csv').read())
"""
    done = ok(sandbox.exec(code, "proj", options=["--project", project]))
    assert "42 ['data.csv', 'dir', 'gone.txt', 'script.sh', 'src']\nrun\n" in done["stdout"]
    assert "['data.csv', 'new.txt', 'script.sh', 'src'] a,b\n1,2\n3,4\n" in done["stdout"]
    assert snapshot(project) == before
    files = done["files"]
    assert set(files["created"]) == {"new.txt", "src/renamed.py"}
    assert set(files["modified"]) == {"data.csv", "script.sh"}
    assert set(files["deleted"]) >= {"gone.txt", "src/mod.py"}
    assert any(path.startswith("dir") for path in files["deleted"])
    # The same session sees its own changes; a new one sees the project.
    assert ok(sandbox.exec("open('new.txt').read()", "proj"))["value"] == "'new'"
    assert ok(sandbox.exec("os.path.exists('new.txt') if 'os' in globals() else 'fresh'",
                           options=["--project", project]))["value"] == "'fresh'"
    sandbox.destroy("proj")


def test_a_file_of_the_project_that_is_replaced_is_modified(sandbox: lib.Sandbox, project: str) -> None:
    fill(sandbox, project, {"whole": "old", "moved": "x", "dir/deep": "old"})
    name = f"replace-{sandbox.who}"
    done = ok(sandbox.exec("""
import os
for path in ("whole", "dir/deep"):  # as editors save: a new file, renamed over the old one
    open("new", "w").write("new")
    os.rename("new", path)
os.rename("moved", "elsewhere")
os.symlink("/etc/passwd", "link")
""", name, options=["--project", project]))
    assert lib.changes(done) == {"created": ["elsewhere", "link"], "modified": ["dir/deep", "whole"],
                                 "deleted": ["moved"], "truncated": False}
    done = ok(sandbox.exec("os.remove('whole')", name))
    assert done["files"]["deleted"] == ["whole"]
    done = ok(sandbox.exec("open('whole', 'w').close(); open('elsewhere', 'a').write('y')", name))
    assert lib.changes(done) == {"created": ["whole"], "modified": ["elsewhere"], "deleted": [], "truncated": False}
    sandbox.destroy(name)


def test_manifest_says_that_it_is_a_project(sandbox: lib.Sandbox, project: str) -> None:
    plain = sandbox.exec("1")["manifest"]["controls"]["filesystem"]["workspace"]
    shown = sandbox.exec("1", options=["--project", project])["manifest"]["controls"]["filesystem"]["workspace"]
    assert plain != shown and "project" in shown


@pytest.mark.parametrize("path", ["/", "HOME", "HOME/.", "HOME/..", "/tmp"])
def test_home_and_what_holds_it_are_refused(sandbox: lib.Sandbox, path: str) -> None:
    path = path.replace("HOME", sandbox.home)
    done = sandbox.cli("exec", "--project", path, "print('ran')")
    assert done.returncode != 0 and done.stdout == "" and len(done.stderr.strip()) > 20
    assert "project" in done.stderr


def test_home_behind_a_link_is_refused(sandbox: lib.Sandbox, project: str) -> None:
    link = os.path.join(project, "link")
    os.symlink(sandbox.home, link)
    done = sandbox.cli("exec", "--project", link, "print('ran')")
    assert done.returncode != 0 and done.stdout == ""


@pytest.mark.parametrize("path", ["missing", "file"])
def test_no_such_project(sandbox: lib.Sandbox, project: str, path: str) -> None:
    sandbox.make_file(os.path.join(project, "file"), "x")
    done = sandbox.cli("exec", "--project", os.path.join(project, path), "print('ran')")
    assert done.returncode in (1, 2) and done.stdout == "" and path in done.stderr


READ_ALL = """
import os
def grab(folder):
    for at, dirs, files in os.walk(folder):
        for name in files + dirs:
            path = os.path.join(at, name)
            try: yield path, open(path).read()
            except OSError: yield path, ''
"""


def test_secrets_are_masked_and_listed(sandbox: lib.Sandbox, project: str) -> None:
    fill(sandbox, project, {**SECRETS, **SHOWN})
    done = ok(sandbox.exec(READ_ALL + "for path, text in grab('.'): print(path, text)\n"
                           "print(os.path.exists('.env'), [n for n in os.listdir('.') if 'env' in n])",
                           options=["--project", project]))
    assert "planted" not in done["stdout"] and done["stdout"].count("plain") == len(SHOWN)
    assert "False ['env.py']\n" in done["stdout"]
    masked = set(done["manifest"]["controls"]["filesystem"]["masked"])
    expected = {path if not path.startswith((".ssh/", ".aws/")) else path.split("/")[0] for path in SECRETS}
    assert masked == expected
    assert done["manifest"]["controls"]["filesystem"]["masked_total"] == len(expected)
    # The control: without protection the same reading finds them.
    assert "planted" in sandbox.outside(READ_ALL + "for path, text in grab('.'): print(path, text)",
                                        cwd=project).stdout


def test_credentials_in_git_config_are_cut_out(sandbox: lib.Sandbox, project: str) -> None:
    fill(sandbox, project, {".git/config": '[core]\n\tbare = false\n[remote "origin"]\n'
                            "\turl = https://me:planted@example.org/r.git\n[http]\n\textraheader = AUTH planted\n"
                            "[credential]\n\thelper = store --file planted\n[github]\n\toauth = planted\n",
                            ".gitmodules": '[submodule "s"]\n\turl = https://me:planted@example.org/s.git\n',
                            ".git/HEAD": "ref: refs/heads/main\n"})
    before = snapshot(project)
    done = ok(sandbox.exec("print(open('.git/config').read(), open('.git/HEAD').read(), open('.gitmodules').read())",
                           options=["--project", project]))
    assert "planted" not in done["stdout"] and "example.org/r.git" in done["stdout"]
    assert "example.org/s.git" in done["stdout"] and "refs/heads" in done["stdout"]
    assert ".git/config" in done["manifest"]["controls"]["filesystem"]["masked"]
    assert snapshot(project) == before


def test_secrets_cannot_be_had_by_links_or_a_new_name(sandbox: lib.Sandbox, project: str) -> None:
    fill(sandbox, project, {".env": "planted", "sub/keep": "x"})
    os.symlink(".env", os.path.join(project, "innocent"))
    os.symlink(os.path.join(project, ".env"), os.path.join(project, "absolute"))
    os.symlink("../" + os.path.basename(project) + "/.env", os.path.join(project, "around"))
    code = READ_ALL + """
for path, text in grab('.'): print(path, text)
for call in (lambda: os.link('.env', 'l'), lambda: os.rename('.env', 'r'), lambda: open('sub/../.env').read(),
             lambda: os.rename('sub', 'moved')):
    try: print(call())
    except OSError as e: print(type(e).__name__)
open('.env', 'w').write('own'); print(open('.env').read(), open('innocent').read())
"""
    done = ok(sandbox.exec(code, options=["--project", project]))
    assert "planted" not in done["stdout"] and "own own" in done["stdout"]


def test_links_out_of_the_project_lead_nowhere(sandbox: lib.Sandbox, project: str) -> None:
    outside = sandbox.make_file("home/outside.txt", "planted")
    os.symlink(outside, os.path.join(project, "abs"))
    os.symlink("../outside.txt", os.path.join(project, "rel"))
    os.symlink("/etc/shadow", os.path.join(project, "shadow"))
    done = ok(sandbox.exec("for n in ('abs', 'rel', 'shadow'):\n    try: print(open(n).read())\n"
                           "    except OSError as e: print(type(e).__name__)", options=["--project", project]))
    assert done["stdout"].splitlines() == ["FileNotFoundError"] * 3


def test_big_project(sandbox: lib.Sandbox, project: str) -> None:
    for folder in range(20):
        at = os.path.join(project, f"d{folder}")
        os.mkdir(at)
        for i in range(250):
            with open(os.path.join(at, f"f{i}"), "w") as out:
                out.write(str(i))
    with open(os.path.join(project, "big.bin"), "wb") as out:
        out.truncate(300 << 20)
    done = ok(sandbox.exec("import os\nn = sum(len(f) for _, _, f in os.walk('.'))\n(n, os.path.getsize('big.bin'))",
                           options=["--project", project]))
    assert done["value"] == f"(5001, {300 << 20})" and done["usage"]["written_bytes"] < 1 << 20


# Owners and modes -----------------------------------------------------------------------------


def test_own_private_files_are_readable(sandbox: lib.Sandbox, project: str) -> None:
    """0600 files and 0700 folders of the user who runs it are the code's own, too."""
    fill(sandbox, project, {"private/file": "mine", "plain": "p"})
    os.chmod(os.path.join(project, "private"), 0o700)
    os.chmod(os.path.join(project, "private/file"), 0o600)
    os.chmod(project, 0o700)
    done = ok(sandbox.exec("import os\nprint(open('private/file').read())\nopen('private/file', 'a').write('+')\n"
                           "open('private/new', 'w').close()\nos.remove('plain')\nopen('private/file').read()",
                           options=["--project", project]))
    assert done["value"] == "'mine+'" and "private/new" in done["files"]["created"]
    assert done["files"]["modified"] == ["private/file"] and done["files"]["deleted"] == ["plain"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
@pytest.mark.parametrize("owner", [0, 1000, 65534])
def test_files_of_others_in_ones_project(sandbox: lib.Sandbox, project: str, owner: int) -> None:
    """What others may read of them is read; what only their owner may, is not, unless one is the owner."""
    fill(sandbox, project, {"open": "shown", "closed": "hidden", "dir/inner": "hidden"})
    for name, mode in (("open", 0o644), ("closed", 0o600), ("dir", 0o700)):
        path = os.path.join(project, name)
        os.chown(path, owner, owner)
        os.chmod(path, mode)
    code = ("def r(n):\n    try: return open(n).read()\n    except OSError as e: return type(e).__name__\n"
            "[r('open'), r('closed'), r('dir/inner')]")
    done = ok(sandbox.exec(code, options=["--project", project]))
    kept = "['shown', 'PermissionError', 'PermissionError']"
    if sandbox.uid == owner:
        kept = "['shown', 'hidden', 'hidden']"
    assert done["value"] == kept


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
def test_project_of_another_user_as_root(fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    """The folder's owner is the one the code runs as, so its private files are there and stay theirs."""
    box = fresh_sandbox("root")
    project = box.make_folder("foreign")
    box.make_file(os.path.join(project, "private"), "theirs", 0o600)
    for path in (project, os.path.join(project, "private")):
        os.chown(path, 4321, 4321)
    before = snapshot(project)
    done = ok(box.exec("import os\nprint(os.getuid(), os.stat('private').st_uid)\nopen('private', 'a').write('+')\n"
                       "open('private').read()", options=["--project", project]))
    assert done["value"] == "'theirs+'" and done["stdout"] == "1000 1000\n"
    assert snapshot(project) == before
