# SPDX-License-Identifier: Apache-2.0
"""What a team asks of code: how its files are read, that they come first in what is found, and what
a verdict makes of them."""

import importlib.util
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import lib
import test_context
from lib import Json, Sandbox
from test_context import Project

PKCE = """---
title: OAuth uses PKCE
class: mandatory
tags: [auth, "security"]
files: src/auth/providers/**
require: code_challenge
forbid:
  - response_type=token
---
# OAuth
Every provider uses the PKCE flow.
"""
project = test_context.project


def standards(project: Project, **texts: str) -> None:
    folder = project.folder / ".snipara/standards"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text)


def test_files_are_read_in_their_classes(project: Project) -> None:
    standards(project, pkce=PKCE, plain="# Use short names\n", broken="---\nclass: ALWAYS\nforbid: (a\n---\ntext\n",
              endless="---\nclass: MANDATORY\n")
    project.write(**{"CODING_STANDARDS.md": "Errors follow RFC 7807.\n",
                     "AGENTS.md": "---\nclass: best practices\n---\n", "CONTRIBUTING.md": "Run make.\n",
                     "OTHER.md": "no standard\n"})
    answer = project.json("standards")
    rows = {row["id"]: row for row in answer["documents"]}
    assert {name: row["category"] for name, row in rows.items()} == {
        ".snipara/standards/pkce.md": "MANDATORY", "CODING_STANDARDS.md": "MANDATORY",
        ".snipara/standards/endless.md": "MANDATORY", "AGENTS.md": "BEST_PRACTICES",
        ".snipara/standards/plain.md": "GUIDELINES", ".snipara/standards/broken.md": "GUIDELINES",
        "CONTRIBUTING.md": "REFERENCE"}
    assert [row["is_mandatory"] for row in answer["documents"]] == [True] * 3 + [False] * 4
    pkce = rows[".snipara/standards/pkce.md"]
    assert (pkce["title"], pkce["tags"], pkce["lines"]) == ("OAuth uses PKCE", ["auth", "security"], [10, 11])
    assert [(rule["kind"], rule["text"]) for rule in pkce["rules"]] == [
        ("require", "code_challenge"), ("forbid", "response_type=token")]
    assert rows[".snipara/standards/plain.md"]["title"] == "Use short names"
    assert "class is" in rows[".snipara/standards/broken.md"]["problem"]
    assert "no end" in rows[".snipara/standards/endless.md"]["problem"]
    assert "regular expression" in rows[".snipara/standards/broken.md"]["rules"][0]["problem"]
    assert "Every provider uses the PKCE flow." in answer["merged_content"]
    assert len(answer["context_hash"]) == 64
    only = project.json("standards", "--category", "REFERENCE", "--no-content")
    assert [row["id"] for row in only["documents"]] == ["CONTRIBUTING.md"] and only["merged_content"] == ""
    assert "require: code_challenge\n" in project.run("standards").stdout
    assert "--category" in project.run("standards", "--category", "ALWAYS", status=2).stderr


def test_mandatory_ones_are_first_in_what_is_found(project: Project) -> None:
    standards(project, pkce=PKCE)
    project.write(**{"CODING_STANDARDS.md": "Errors follow RFC 7807.\n" * 400, "AGENTS.md": "Be kind to cats.\n",
                     "cats.py": "def feed_cats():\n    return 1\n"})
    for most in (100, 150, 400, 4000):
        answer = project.json("query", "feed_cats", "--max-tokens", str(most))
        kinds = [row["kind"] for row in answer["sections"]]
        assert kinds[:2] == ["standard"] * 2 and "standard" not in kinds[2:], most
        assert answer["total_tokens"] == sum(row["token_count"] for row in answer["sections"]) <= most
        assert answer["shared_context_included"] is True
        assert answer["shared_context_tokens"] == sum(row["token_count"] for row in answer["sections"][:2])
        assert "standard are rules" in answer["system_instructions"]
        if most >= 400:
            assert "cats.py" in [row["file"] for row in answer["sections"]]
            assert answer["sections"][1]["form"] == "cut" and answer["sections"][1]["truncated"] is True
    text = project.run("query", "feed_cats").stdout
    assert text.split("\n", 1)[1].startswith(".snipara/standards/pkce.md:10-11  # team standard: MANDATORY\n# OAuth\n")
    (project.folder / "CODING_STANDARDS.md").unlink()
    (project.folder / ".snipara/standards/pkce.md").unlink()
    assert project.json("query", "feed_cats")["shared_context_included"] is False


def test_no_link_and_no_secret_becomes_a_standard(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("planted\n")
    standards(project, good="fine\n")
    folder = project.folder / ".snipara/standards"
    (folder / "link.md").symlink_to(outside)
    (project.folder / "AGENTS.md").symlink_to(outside)
    (folder / "large.md").write_text("x" * (300 << 10))
    os.mkfifo(folder / "pipe.md")
    answer = project.json("standards")
    assert [row["id"] for row in answer["documents"]] == [".snipara/standards/good.md"] and answer["left_out"] == 4
    assert "planted" not in json.dumps(answer)
    (folder / "link.md").unlink()
    (folder / "copy.md").write_text(outside.read_text())  # the control: a file of the project is read
    assert "planted" in project.json("standards")["merged_content"]
    folder.rename(project.folder / "moved")
    folder.symlink_to(project.folder / "moved")
    assert project.json("standards")["documents"] == []


def test_collections_of_a_team_hold_in_every_project(project: Project, tmp_path: Path) -> None:
    """Folders, or links to them, below the user's own; the project cannot add one, and others may not write there."""
    shared = tmp_path / ".local/share/snipara-sandbox/standards"
    (shared / "acme").mkdir(parents=True)
    (shared / "acme/pkce.md").write_text(PKCE)
    (shared / "acme/README.md").write_text("# About this repository\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "names.md").write_text("# Short names\n")
    (shared / "linked").symlink_to(elsewhere)
    (shared / "acme/out.md").symlink_to(elsewhere / "names.md")
    project.write(**{"a.py": "def login():\n    pass\n"})
    standards(project, own="---\nclass: MANDATORY\n---\nOf the project.\n")
    answer = project.json("standards")
    assert [(row["id"], row["collection_name"]) for row in answer["documents"]] == [
        ("acme:pkce.md", "acme"), (".snipara/standards/own.md", None), ("linked:names.md", "linked")]
    assert answer["collections_loaded"] == 2 and answer["left_out"] == 1
    text = project.run("query", "login").stdout
    assert text.split("\n")[1] == "acme:pkce.md:10-11  # team standard: MANDATORY", text
    shared.chmod(0o777)
    for words in (["standards"], ["query", "login"]):
        assert "others can write to" in project.run(*words, status=1).stderr


@pytest.mark.parametrize("rule", ["(a*)*b", "(x+x+)+y"])
def test_a_title_cannot_imitate_lines(project: Project, rule: str) -> None:
    standards(project, odd=f"---\ntitle: A\x1b[2Jtitle\nforbid: {rule}\n---\n")
    shown = project.run("standards").stdout
    assert "\x1b" not in shown and f"forbid: {rule}\n" in shown


# The verdict on a change -------------------------------------------------------------------

AUTH = "def login_url(base, state):\n    return base\n\n\ndef other(x):\n    return x  # legacy_call\n"
AUTH_TESTS = ("from auth import login_url, other\n\n\ndef test_state():\n"
              "    assert login_url('u', 's').startswith('u?state=s')\n\n\n"
              "def test_other():\n    assert other(1) == 1\n")
GOOD = "return base + '?state=' + state + '&code_challenge=' + state"
BAD = "return base + '?state=' + state"
RULES = {
    "pkce": "---\ntitle: OAuth uses PKCE\nclass: MANDATORY\nfiles: auth.py\nrequire: code_challenge\n---\nUse PKCE.\n",
    "zod": "---\ntitle: All external data goes through Zod\nclass: MANDATORY\nfiles: api/**\n"
           "require: from ['\"]zod['\"]\nforbid: req\\.body as \n---\n",
    "old": "---\nclass: MANDATORY\nforbid: legacy_call\n---\nNo new calls of legacy_call.\n",
    "words": "---\nclass: MANDATORY\n---\nErrors follow RFC 7807.\n",
    "kind": "---\nclass: GUIDELINES\nforbid: return base\n---\n",
    "lines": "---\nclass: MANDATORY\nfiles: '*.py'\ncheck: python3 tools/lines.py\n---\n",
    "out": "---\nclass: MANDATORY\nfiles: '*.py'\ncheck: touch OUTSIDE; mkdir -p here && touch here/inside\n---\n",
    "red": "---\nclass: MANDATORY\nfiles: '*.py'\ncheck: exit 3\n---\n",
}
LINES = "import sys\nsys.exit(any(len(line) > 80 for line in open('auth.py')))\n"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    lib.need("pytest", importlib.util.find_spec("pytest") is not None, "python3-pytest is not installed")
    box = Sandbox("root")
    outside = os.path.join(box.folder, "outside")
    for place in ("project", "free"):
        box.make_file(f"{place}/auth.py", AUTH)
        box.make_file(f"{place}/tests/test_auth.py", AUTH_TESTS)
        box.make_file(f"{place}/tools/lines.py", LINES)
        box.make_file(f"{place}/api/old.ts", "export const a = 1\n")
    for name, text in RULES.items():
        box.make_file(f"project/.snipara/standards/{name}.md", text.replace("OUTSIDE", outside))
    time.sleep(0.05)
    yield box
    box.close()


def verdict(box: Sandbox, to: str, *, place: str = "project", more: str = "") -> Json:
    code = f"text = open('auth.py').read().replace('return base', {to!r})\nopen('auth.py', 'w').write(text)\n{more}"
    done = box.exec(code, session="change", options=["--project", os.path.join(box.folder, place)])
    assert done["status"] == "ok", done["error"]
    shown = box.cli("verify", "change", "--test", "python3 -m pytest -q tests", "--json", timeout=4 * lib.PATIENCE)
    box.destroy("change")
    assert shown.stdout, shown.stderr
    found: Json = json.loads(shown.stdout)
    assert (shown.returncode == 0) == (found["verdict"] == "ready for human review")
    return found


def statuses(found: Json) -> dict[str, str]:
    return {os.path.basename(row["id"])[:-3]: row["status"] for row in found["standards"]["documents"]}


def reasons(found: Json) -> str:
    return "\n".join(f"{row['word']}: {row['text']}" for row in found["reasons"])


@pytest.mark.slow
def test_a_change_that_keeps_the_rules_is_ready(box: Sandbox) -> None:
    found = verdict(box, GOOD)
    assert found["verdict"] == "ready for human review", reasons(found)
    assert statuses(found) == {"pkce": "passed", "zod": "not concerned", "old": "broken before",
                               "words": "not checkable", "kind": "broken", "lines": "passed", "out": "passed",
                               "red": "not checkable"}
    assert (found["standards"]["passed"], found["standards"]["not checkable"]) == (3, 2)
    text = Path(found["folder"], "summary.md").read_text()
    assert "- not checkable: `.snipara/standards/words.md` (MANDATORY): it has no forbid, require or check\n" in text
    assert not os.path.exists(os.path.join(box.folder, "outside"))  # the check ran inside
    check = RULES["out"].split("check: ")[1].split("\n")[0].replace("OUTSIDE", os.path.join(box.folder, "outside"))
    subprocess.run(["/bin/sh", "-c", check], cwd=box.folder, check=True)
    assert os.path.exists(os.path.join(box.folder, "outside"))  # the control: on the host it writes there


@pytest.mark.slow
def test_tests_that_pass_do_not_excuse_a_broken_rule(box: Sandbox) -> None:
    assert verdict(box, BAD, place="free")["verdict"] == "ready for human review"  # the control: nothing is asked there
    found = verdict(box, BAD, more="open('auth.py', 'a').write('LONG = ' + repr('x' * 90))\n"
                                   "import os\nos.makedirs('.snipara/standards', exist_ok=True)\n"
                                   "open('.snipara/standards/pkce.md', 'w').write('nothing')")
    assert found["verdict"] == "failed"
    assert {name for name, status in statuses(found).items() if status == "broken"} == {"pkce", "kind", "lines"}, found
    assert 'the change breaks "OAuth uses PKCE" (.snipara/standards/pkce.md), require `code_challenge`: auth.py' in (
        reasons(found))
    assert "(.snipara/standards/lines.md), check `python3 tools/lines.py`" in reasons(found)
    assert "not proven: .snipara/standards/pkce.md contains the team's rules for code" in reasons(found)


def test_external_data_goes_through_zod(box: Sandbox) -> None:
    good = "import { z } from 'zod'\nexport const body = (req) => z.object({}).parse(req.body)\n"
    bad = "export const body = (req) => req.body as User\n"
    cast = f"import {{ z }} from 'zod'\n{bad}"
    more = f"for name, text in {[('good', good), ('bad', bad), ('cast', cast)]!r}:\n    " \
           "open(f'api/{name}.ts', 'w').write(text)"
    found = verdict(box, GOOD, more=more)
    rules = {row["kind"]: row for row in next(row for row in found["standards"]["documents"]
                                              if row["id"].endswith("zod.md"))["rules"]}
    assert rules["require"]["findings"] == [{"file": "api/bad.ts", "line": 0}]
    assert rules["forbid"]["findings"] == [{"file": "api/bad.ts", "line": 1}, {"file": "api/cast.ts", "line": 2}]
    assert found["verdict"] == "failed" and "api/cast.ts:2" in reasons(found) and "zod['\"]`: api/bad.ts\n" in (
        reasons(found))


def test_what_could_not_be_searched_is_not_passed(box: Sandbox) -> None:
    found = verdict(box, GOOD, more="import os\nos.symlink('../auth.py', 'api/link.ts')\n"
                                    "open('tools/lines.py', 'w').write('')\n")
    assert statuses(found)["zod"] == "not checked" and statuses(found)["lines"] == "not checked"
    assert "was not checked: a link: api/link.ts" in reasons(found)
    assert "was not checked: the change touches a file that the check names: tools/lines.py" in reasons(found)
