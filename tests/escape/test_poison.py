# SPDX-License-Identifier: Apache-2.0
"""Python code that waits where an interpreter looks by itself: in the project, in packages, in the
environment, in the home folder. It must reach neither the home folder nor another template.

What is planted writes a file into the home folder. The control runs let it."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator

import packages
import pytest

import lib
from lib import Sandbox


@pytest.fixture
def place(sandbox: Sandbox) -> Iterator[str]:
    """A folder outside /tmp, for our user."""
    path = f"/var/tmp/snp-{secrets.token_hex(6)}"
    os.mkdir(path)
    yield packages.own(sandbox, path)
    shutil.rmtree(path)


@pytest.fixture
def name(sandbox: Sandbox) -> Iterator[str]:
    name = "p-" + secrets.token_hex(4)
    yield name
    sandbox.cli("template", "remove", "--force", name)


class Bomb:
    """Code that leaves a file in the home folder, and a mark in its process."""

    def __init__(self, box: Sandbox) -> None:
        self.path = os.path.join(box.home, "pwned-" + secrets.token_hex(4))
        self.mark = "mark_" + secrets.token_hex(4)
        plant = f"try: open({self.path!r}, 'w')\nexcept OSError: pass"
        self.line = f"import builtins; builtins.{self.mark} = 1; exec({plant!r})\n"
        self.look = f"import builtins\nhasattr(builtins, {self.mark!r})"

    def went_off(self) -> bool:
        if not os.path.exists(self.path):
            return False
        os.unlink(self.path)
        return True


def add(box: Sandbox, name: str, *options: str) -> None:
    done = box.cli("template", "add", name, *options, timeout=2 * lib.PATIENCE)
    assert done.returncode == 0, done.stderr


def test_a_module_in_the_project_does_not_reach_the_template(sandbox: Sandbox, place: str) -> None:
    bomb = Bomb(sandbox)
    for module in ("numpy.py", "json.py", "sitecustomize.py"):
        with open(os.path.join(place, module), "w") as out:
            out.write(bomb.line)
    sandbox.outside("import numpy", cwd=place)
    assert bomb.went_off()  # the control run
    inside = sandbox.exec(bomb.look, options=["--project", place, "--template", "base"])
    assert inside["value"] == "False"  # nothing was imported before the code ran
    sandbox.exec("import numpy", options=["--project", place, "--template", "base"])
    assert sandbox.exec(bomb.look)["value"] == "False"  # the next session of the template
    assert not bomb.went_off()


@pytest.mark.parametrize("preload", [True, False])
def test_packages_of_a_template_reach_neither_home_nor_other_templates(sandbox: Sandbox, place: str, name: str,
                                                                       preload: bool) -> None:
    bomb = Bomb(sandbox)
    folder = packages.own(sandbox, packages.venv(os.path.join(place, "venv"), {"bomb.pth": bomb.line, "quiet.py": ""}))
    python = os.path.join(folder, "bin", "python")
    sandbox.outside("", argv=[python, "-c", "pass"])
    assert bomb.went_off()  # the control run
    add(sandbox, name, "--venv", folder, *(["--preload", "quiet"] if preload else []))
    assert not bomb.went_off()  # adding runs nothing of it
    assert sandbox.exec(bomb.look, options=["--template", name])["value"] == "True"  # there it may
    assert sandbox.exec(bomb.look)["value"] == "False"
    assert not bomb.went_off()


def test_a_preload_list_is_needed_for_code_to_run_in_the_template(sandbox: Sandbox, place: str, name: str) -> None:
    """Each sandbox has a network namespace of its own, and so has the template."""
    seen = "import builtins, os; builtins.seen_in = os.readlink('/proc/self/ns/net')\n"
    folder = packages.own(sandbox, packages.venv(os.path.join(place, "venv"), {"bomb.pth": seen, "quiet.py": ""}))
    add(sandbox, name, "--venv", folder)
    same = "import builtins, os\nbuiltins.seen_in == os.readlink('/proc/self/ns/net')"
    assert sandbox.exec(same, options=["--template", name])["value"] == "True"
    add(sandbox, name, "--replace", "--preload", "quiet")  # the control run
    assert sandbox.exec(same, options=["--template", name])["value"] == "False"


def test_a_projects_venv_is_run_in_the_sandbox_only(sandbox: Sandbox, place: str) -> None:
    bomb = Bomb(sandbox)
    project = os.path.join(place, "project")
    packages.venv(os.path.join(project, ".venv"), {"bomb.pth": bomb.line})
    packages.own(sandbox, place)
    sandbox.outside("", argv=[os.path.join(project, ".venv", "bin", "python"), "-c", "pass"])
    assert bomb.went_off()  # the control run
    look = bomb.look + "\nimport os\n[hasattr(builtins, %r), os.getpid()]" % bomb.mark
    result = sandbox.exec(look, options=["--project", project])
    assert result["manifest"]["template"] == "venv" and eval(result["value"])[0] is True
    assert sandbox.exec(bomb.look)["value"] == "False" and not bomb.went_off()


def test_a_project_cannot_name_a_program_as_its_interpreter(sandbox: Sandbox, place: str) -> None:
    """pyvenv.cfg of a hostile project: the program in it would be the template."""
    bomb = Bomb(sandbox)
    project = os.path.join(place, "project")
    packages.venv(os.path.join(project, ".venv"), {})
    for folder in (os.path.join(project, "evil"), os.path.join(place, "beside")):
        os.makedirs(os.path.join(folder, "bin"))
        os.makedirs(os.path.join(folder, "lib", "python3.11"))
        open(os.path.join(folder, "lib", "python3.11", "os.py"), "w").close()
        program = os.path.join(folder, "bin", "python3.11")
        with open(program, "w") as out:
            out.write(f"#!/bin/sh\ntouch {bomb.path}\n")
        os.chmod(program, 0o755)
        with open(os.path.join(project, ".venv", "pyvenv.cfg"), "w") as config:
            config.write(f"home = {folder}/bin\nversion = 3.11.2\n")
        packages.own(sandbox, place)
        sandbox.outside("", argv=[program])
        assert bomb.went_off()  # the control run
        result = sandbox.exec("1", options=["--project", project])
        assert result["manifest"]["template"] == "base" and result["manifest"]["venv_unused"]
        assert not bomb.went_off()


def test_a_link_as_venv_shows_nothing_of_where_it_leads(sandbox: Sandbox, place: str) -> None:
    token = secrets.token_hex(8)
    folder = packages.venv(os.path.join(place, "private"), {"token.py": f"token = {token!r}"})
    os.mkdir(os.path.join(place, "project"))
    os.symlink(folder, os.path.join(place, "project", ".venv"))
    packages.own(sandbox, place)
    python = os.path.join(place, "project", ".venv", "bin", "python")
    assert token in sandbox.outside("", argv=[python, "-c", "import token; print(token.token)"]).stdout + \
        sandbox.outside("", argv=["grep", "-r", token, folder]).stdout  # the control run
    code = f"import subprocess\nsubprocess.run(['grep', '-rs', {token!r}, '/workspace/', '/run', {place!r}], " \
           "capture_output=True).stdout"
    result = sandbox.exec(code, options=["--project", os.path.join(place, "project")])
    assert result["manifest"]["template"] == "base" and token not in (result["value"] or token)


def test_python_variables_and_the_user_site_are_not_looked_at(fresh_sandbox: Callable[..., Sandbox]) -> None:
    box = fresh_sandbox("user" if os.geteuid() == 0 else "root")
    bomb = Bomb(box)
    folder = box.make_folder("poison")
    box.make_file(os.path.join(folder, "sitecustomize.py"), bomb.line)
    version = "python" + packages.version()
    box.make_file(f"home/.local/lib/{version}/site-packages/bomb.pth", bomb.line)
    poison = {"PYTHONPATH": folder, "PYTHONSTARTUP": os.path.join(folder, "sitecustomize.py"),
              "PYTHONUSERBASE": os.path.join(box.home, ".local"), "PYTHONINSPECT": "1"}
    box.outside("pass")  # the control runs: the user site, then the variable
    assert bomb.went_off()
    box.outside("pass", env={"PYTHONPATH": folder, "PYTHONNOUSERSITE": "1"})
    assert bomb.went_off()
    box.env.update(poison)  # of the daemon as well
    assert box.exec(bomb.look)["value"] == "False"
    assert not bomb.went_off()
    add(box, "clean")
    assert not bomb.went_off()
    assert box.exec(bomb.look, options=["--template", "clean"])["value"] == "False"
    assert not bomb.went_off()


def test_one_session_changes_nothing_for_the_next_of_its_template(sandbox: Sandbox, place: str, name: str) -> None:
    folder = packages.own(sandbox, packages.venv(os.path.join(place, "venv"), {"shared.py": "value = 1\n"}))
    site = os.path.join("/run/venv/lib", "python" + packages.version(), "site-packages")
    attack = f"""
import os, shared, subprocess
shared.value = 2
for path in ({site + '/shared.py'!r}, {site + '/new.pth'!r}, '/run/venv/pyvenv.cfg', '/run/guest/driver.py'):
    for act in (lambda: open(path, 'w').write('value = 2'), lambda: os.unlink(path), lambda: os.chmod(path, 0o666),
                lambda: os.rename(path, path + '.old'), lambda: os.utime(path)):
        try:
            act()
            print('done:', path)
        except OSError:
            pass
print(subprocess.run(['mount', '-o', 'remount,rw', '/run/venv'], capture_output=True).returncode == 0)"""
    outside = attack.replace("/run/venv", folder).replace("/run/guest/driver.py", os.path.join(folder, "bin", "none"))
    add(sandbox, name, "--venv", folder, "--preload", "shared")
    inside = sandbox.exec(attack, options=["--template", name])
    assert inside["stdout"] == "False\n"
    assert sandbox.exec("import shared\nshared.value", options=["--template", name])["value"] == "1"
    python = os.path.join(folder, "bin", "python")
    assert "done:" in sandbox.outside("", argv=[python, "-c", outside]).stdout  # the control run
