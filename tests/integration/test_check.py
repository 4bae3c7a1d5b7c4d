# SPDX-License-Identifier: Apache-2.0
"""`check`: what does not exist is named, with what is nearest; what may exist is not; nothing of the project runs."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lib
from lib import Sandbox

AUTH = '''"""Tokens."""
import dataclasses
import warnings


def verify_auth_token(token, *, leeway=0):
    return token == "x"


@dataclasses.dataclass
class User:
    email: str
    age: int = 0

    def send(self, text: str) -> "User":
        return self


class Open:
    def __getattr__(self, name):
        return name


def old():
    warnings.warn("use verify_auth_token", DeprecationWarning)
'''
# a line of a file that imports auth: what is said of it, or None
LINES = {
    "validateAuthToken('t')": "unknown name validateAuthToken, nearest: verify_auth_token (auth.py:6)",
    "auth.verify_auth_token('t')": None,
    "auth.verify_token('t')": "auth.verify_token: attribute verify_auth_token exists, verify_token does not",
    "auth.verify_auth_token('t', leway=3)": "takes no argument named leway, nearest: leeway",
    "auth.verify_auth_token()": "auth.verify_auth_token() needs the argument token",
    "auth.verify_auth_token('t', 3)": "takes at most 1 argument by place, 2 given",
    "auth.verify_auth_token(*x, **y)": None,
    "import jsn": "there is no module jsn, nearest: json",
    "import os.pth": "there is no module os.pth",
    "from auth import Usr": "module auth has no Usr, nearest: User (auth.py:11)",
    "try:\n    import ujson\nexcept ImportError:\n    ujson = None": None,
    "import sys\nif sys.platform == 'win32':\n    import winreg, nothing_at_all": None,
    "user = auth.User('a')\nuser.getEmail()": "user.getEmail: attribute email exists, getEmail does not (auth.py:12)",
    "auth.User('a').send('b').send('c').email": None,
    "auth.User('a').send('b').sned('c')": "attribute send exists, sned does not",
    "auth.User()": "auth.User() needs the argument email",
    "def f(user: auth.User):\n    return user.mail": "user.mail: attribute email exists, mail does not",
    "def f(user: auth.User):\n    if isinstance(user, dict):\n        return user.mail": None,
    "def f(user):\n    return user.mail": None,
    "auth.Open().anything(1, 2)": None,
    "class Mine(auth.User):\n    def go(self):\n        return self.emial":
        "self.emial: attribute email exists, emial does not",
    "class Theirs(unknown_base()):\n    def go(self):\n        return self.emial": "unknown name unknown_base",
    "def g(unknown):\n    class Theirs(unknown):\n        def go(self):\n            return self.emial": None,
    "import json\njson.dumps({}, indnt=2)": None,  # dumps takes any: it passes them on
    "import json\njson.load_s('1')": "attribute loads exists, load_s does not",
    "'a,b'.splt(',')": "attribute split exists, splt does not",
    "'a,b'.split(',').apend(1)": "attribute append exists, apend does not",
    "import os\nos.path.joinn('a')": "attribute join exists, joinn does not",
    "from os import *\ngetcwd()\nsome_name_of_nothing": "unknown name some_name_of_nothing",
    "[y for y in [1] if z]": "unknown name z",
    "[y for y in [1] if (w := y)]\nprint(w)": None,
    "def h():\n    global made\n    made = 1\nprint(made)": None,
    "auth.added = 1\nprint(auth.added)": None,
    "class Named:\n    limit = 3\n    more = limit\n    def go(self):\n        return limit": "unknown name limit",
    "print(auth.old())": "auth.old is deprecated: it warns when it is called",
    "x = (": "syntax error",
}


AUTH_TS = '''/** Tokens. */
import { readFileSync } from "node:fs";

export function verifyAuthToken(token: string, leeway = 0): boolean {
    return token === readFileSync("x", "utf8") && leeway === 0;
}
export interface Options { timeout?: number; retries?: number }
export enum Color { Red, Green }
export class User {
    email = "";
    constructor(private name: string, readonly age?: number) {}
    send(text: string, options?: Options): User { return this; }
    /** @deprecated use send */
    post(text: string): void {}
    static make(name: string): User { return new User(name); }
}
export abstract class Base { abstract go(): void; run() { this.go(); } }
export type Odd<in out T> = { [key: string]: T };
export function pick(a: string): void;
export function pick(a: string, b: number): void;
export function pick(a: string, b?: number) {}
'''
# the same for TypeScript
SCRIPTS = {
    "import { verifyToken } from './auth';":
        "module ./auth has no verifyToken, nearest: verifyAuthToken (script/auth.ts:4)",
    "import { x } from './missing';": "there is no module ./missing",
    "import { x } from './dist/made';": None,
    "import { x } from 'lodahs';": "there is no module lodahs, nearest: lodash",
    "import lodash from 'lodash';": None,
    "import { x } from 'node:fss';": "there is no module node:fss",
    "import { readFile } from 'fs';": None,
    "import what from '@/somewhere';": None,
    "export { nothing } from './auth';": "module ./auth has no nothing",
    "validateAuthToken('t');": "unknown name validateAuthToken, nearest: verifyAuthToken (script/auth.ts:4)",
    "if (typeof aGlobal !== 'undefined') aGlobal();": None,
    "const { foo } = require('./auth');": "module ./auth has no foo",
    "let one; try { one = require('./optional'); } catch { }": None,
    "auth.verifyTokens('a');": "auth.verifyTokens: attribute verifyAuthToken exists, verifyTokens does not",
    "auth.verifyAuthToken();": "auth.verifyAuthToken() needs the argument token",
    "auth.verifyAuthToken('a', 1, 2);": "takes at most 2 arguments, 3 given",
    "auth.verifyAuthToken(...anything);": None,
    "auth.pick('a', 1); auth.pick('a');": None,
    "auth.pick();": "auth.pick() needs the argument a",
    "user.getEmail();": "user.getEmail: attribute email exists, getEmail does not (script/auth.ts:10)",
    "user.email.trimm();": "user.email.trimm: attribute trim exists, trimm does not",
    "user.send('a').send('b').email;": None,
    "user.send('a').send('b').sned('c');": "attribute send exists, sned does not",
    "user.send('a', { timout: 3 });": "user.send() takes no option named timout, nearest: timeout",
    "const given: auth.Options = { retires: 3 };": "given takes no option named retires, nearest: retries",
    "new auth.User();": "auth.User() needs the argument name",
    "auth.Color.Gren;": "auth.Color.Gren: attribute Green exists, Gren does not",
    "user.post('x');": "user.post is deprecated: use send",
    "auth.User.mak('x');": "auth.User.mak: attribute make exists, mak does not",
    "class Mine extends auth.User { go() { return this.emial; } }": "this.emial: attribute email exists",
    "const tag: string | symbol = (() => 'x')();\nclass Tagged { [tag]() { return this.sned; } send() {} }":
        "this.sned: attribute send exists, sned does not",
    "const tag = 'sned';\nclass Tagged { [tag]() { return this.sned; } send() {} }": None,
    "class Theirs extends anything.Base { go() { return this.emial; } }": None,
    "function f(u: auth.User) { return u.mail; }": "u.mail: attribute email exists, mail does not",
    "function f(u: auth.User) { if ('mail' in u) return u.mail; }": None,
    "function f(u: auth.User | string) { return u.mail; }": None,
    "function f(o: auth.Odd<number>) { return o.anything; }": None,
    "function f(x: [first: string, second: number]) { return x; }": None,
    "// @ts-expect-error\nuser.getEmail();": None,
    "Math.clmp(1);": "Math.clmp: Math has no attribute clmp",
    "[1, 2].mapp((x) => x);": "attribute map exists, mapp does not",
}
PLAIN = {  # JavaScript, where nothing says what may be left out
    "own(1, 2, 3);": "own() takes at most 2 arguments, 3 given",
    "own();": None,
    "free(1, 2, 3);": None,
    "thing.anything;": None,
    "new Local().sned();": "attribute send exists, sned does not",
    "new Local().later;": None,
    "import { x } from './nothing.js';": "there is no module ./nothing.js",
    "unknownThing();": "unknown name unknownThing",
    "import * as a from './common.js'; a.b;": "a.b: module has no attribute b",
    "import * as a from './made.js'; a.b;": None,
    "const { writ } = require('./common.js');": "module ./common.js has no writ, nearest: write",
}
PLAIN_HEAD = '''export function own(a, b) {}
function free() { return arguments.length; }
class Local { send() {} }
Local.prototype.later = 1;
const thing = {};
'''


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    box = Sandbox("root")
    box.make_folder("project")
    box.make_file("project/auth.py", AUTH)
    yield box
    box.close()


def place(box: Sandbox, *names: str) -> str:
    return os.path.join(box.folder, "project", *names)


def check(box: Sandbox, *words: str, status: int = 0) -> Any:
    done = box.cli("check", "--dir", place(box), "--json", "--timeout", "600", *words, timeout=10 * lib.PATIENCE)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_what_does_not_exist_is_named_and_nothing_else(box: Sandbox) -> None:
    names = []
    for n, line in enumerate(LINES):
        names.append(f"lines/case{n}.py")
        box.make_file(f"project/{names[-1]}", f"import auth\nx = y = None\n{line}\n")
    found = check(box, *(place(box, name) for name in names), status=1)
    for (line, wanted), name, row in zip(LINES.items(), names, found["files"]):
        assert row["path"] == name
        said = [finding["message"] + (f", nearest: {finding['nearest']['name']}" if "nearest" in finding else "") +
                (f" ({finding['nearest']['path']}:{finding['nearest']['line']})"
                 if "path" in finding.get("nearest", {}) else "") for finding in row["findings"]]
        assert len(said) == (wanted is not None), (line, said)
        assert wanted is None or wanted in said[0].replace(" does not, nearest: email (", " does not ("), (line, said)
    assert found["warnings"] == 1 and found["errors"] == len([text for text in LINES.values() if text]) - 1
    shown = box.cli("check", "--dir", place(box), place(box, names[0]))
    assert shown.returncode == 1 and shown.stdout == f"{names[0]}:3:1: error: {next(iter(LINES.values()))}\n"
    assert "1 file: 1 error, 0 warnings" in shown.stderr


def said_of(finding: Any) -> str:
    """A finding as people read it."""
    near = finding.get("nearest", {})
    name = f", nearest: {near['name']}" if near and " exists, " not in finding["message"] else ""
    return str(finding["message"]) + name + (f" ({near['path']}:{near['line']})" if "path" in near else "")


def test_scripts_what_does_not_exist_is_named_and_nothing_else(box: Sandbox) -> None:
    need_grammars()
    box.make_file("project/script/auth.ts", AUTH_TS)
    box.make_file("project/script/common.js", "module.exports = { write() {}, read: 1 };\n")
    box.make_file("project/script/made.js", "module.exports = make();\n")
    box.make_file("project/script/package.json", '{"dependencies": {"lodash": "^4"}}')
    cases = {}
    for n, (line, wanted) in enumerate(SCRIPTS.items()):
        cases[f"script/case{n}.ts"] = (line, wanted)
        box.make_file(f"project/script/case{n}.ts", "import * as auth from './auth.js';\n"
                                                    "import anything from 'lodash';\n"
                                                    f"const user = new auth.User('a');\n{line}\nexport {{}};\n")
    for n, (line, wanted) in enumerate(PLAIN.items()):
        cases[f"script/plain{n}.js"] = (line, wanted)
        box.make_file(f"project/script/plain{n}.js", f"{PLAIN_HEAD}{line}\n")
    found = check(box, *(place(box, name) for name in cases), status=1)
    for row in found["files"]:
        line, wanted = cases[row["path"]]
        said = [said_of(finding) for finding in row["findings"]]
        assert len(said) == (wanted is not None) and (wanted is None or wanted in said[0]), (line, said)
    assert found["warnings"] == 1 and found["not_checked"] == 0
    other = box.cli("check", "--dir", place(box), place(box, "script", "package.json"))
    assert "its language is not looked up" in other.stdout and other.returncode == 1


def need_grammars() -> None:
    lib.need("grammars", os.path.exists(os.path.join(lib.BUILD, "context-parser")), "this build has no grammars")


def test_scripts_of_a_stranger_run_nowhere_and_end_in_time(box: Sandbox) -> None:
    """Parser bombs, and what Node or a bundler would run. Control: Node runs it."""
    need_grammars()
    mark = "require('fs').writeFileSync('mark', 'ran');\n"
    texts = {"deep.ts": "x = " + "(" * 5000 + ")" * 5000, "tower.ts": "a" + ".b" * 9000, "open.ts": "{[(" * 9000,
             "wide.js": "f(" + "1," * 300000 + "1)", "templates.js": "`${" * 9000, "generic.ts": "a<" * 9000,
             "bytes.ts": "let x = '\udcff'", "large.ts": "//" + "x" * (3 << 20), "null.js": "let x = '\0';\n",
             "jsx.tsx": "<a>" * 9000, "loop.ts": "export class A extends A { f() { return this.g; } }\ntype T = T;\n",
             "circle.ts": "export * from './circle';\nimport { x } from './circle';\nx.y;\n",
             "mark.js": mark, "jest.config.js": mark, "tsconfig.json": '{"extends": "./tsconfig.json", ' + "/*" * 9000,
             "node_modules/evil/package.json": '{"exports": {"./*": {"types": "../../../../etc/passwd"}}}',
             "node_modules/evil/index.js": mark,
             "uses.ts": "import evil from 'evil';\nimport 'evil/x';\nimport './mark';\n"}
    for name, text in texts.items():
        os.makedirs(os.path.dirname(place(box, "bomb", name)), exist_ok=True)
        with open(place(box, "bomb", name), "w", errors="surrogateescape") as file:
            file.write(text)
    found = check(box, place(box, "bomb"), place(box, "bomb", "large.ts"), status=1)
    rows = {os.path.basename(row["path"]): row for row in found["files"]}
    refused = {name for name, row in rows.items() if "error" in row}
    assert refused >= {"deep.ts", "tower.ts", "open.ts", "wide.js", "templates.js", "generic.ts", "bytes.ts",
                       "large.ts", "jsx.tsx"}
    assert not refused & {"loop.ts", "circle.ts", "mark.js", "uses.ts"}, rows
    assert not os.path.exists(place(box, "mark")) and not os.path.exists(place(box, "bomb", "mark"))
    node = shutil.which("node")
    if node is not None:
        subprocess.run([node, "mark.js"], cwd=place(box, "bomb"), check=True)
        assert os.path.exists(place(box, "bomb", "mark"))


def test_a_project_that_needs_packages_may_have_what_is_not_here(box: Sandbox) -> None:
    box.make_file("project/needs.py", "import flask_of_some_kind\nimport jsn\n")
    assert check(box, place(box, "needs.py"), status=1)["errors"] == 2
    box.make_file("project/requirements.txt", "flask_of_some_kind\n")
    found = check(box, place(box, "needs.py"), status=1)
    os.remove(place(box, "requirements.txt"))
    for name, text in {"part/setup.py": "setup(install_requires=['flask_of_some_kind'])", "part/pack/__init__.py": "",
                       "part/pack/flask_of_some_kind.py": "from flask_of_some_kind.tools import route\n"}.items():
        box.make_file(f"project/{name}", text)
    assert check(box, place(box, "part/pack/flask_of_some_kind.py"))["unknown"] == 1
    assert [row["name"] for row in found["files"][0]["findings"]] == ["jsn"] and found["unknown"] == 1


def test_nothing_of_the_project_runs_and_nothing_outside_is_read(box: Sandbox, tmp_path: Path) -> None:
    """Control: run, the same file leaves its mark."""
    mark = "open('/workspace/mark', 'w').write('ran')\n"
    box.make_file("project/evil.py", mark)
    box.make_file("project/uses.py", "import evil\nfrom evil import nothing\n")
    assert box.exec("import sys, os\nsys.path.insert(0, '/workspace')\nimport evil\nprint(os.path.exists('mark'))",
                    options=["--project", place(box)])["stdout"] == "True\n"
    spoiled = "ground script script_names json ast sitecustomize usercustomize ground_names inspect".split()
    for name in spoiled:
        box.make_file(f"project/{name}.py", "raise SystemExit('ran')\n")
    found = check(box, place(box, "uses.py"), status=1)
    for name in spoiled:
        os.remove(place(box, f"{name}.py"))
    assert [row["message"] for row in found["files"][0]["findings"]] == ["module evil has no nothing"]
    assert not os.path.exists(place(box, "mark"))
    outside = tmp_path / "outside.py"
    outside.write_text("x = 1\n")
    os.symlink(outside, place(box, "link.py"))
    for given in (str(outside), place(box, "link.py"), place(box, "..")):
        done = box.cli("check", "--dir", place(box), given)
        assert done.returncode == 1 and "is outside the project" in done.stderr, done.stderr
    os.remove(place(box, "link.py"))


def test_hostile_files_are_not_checked_and_say_why(box: Sandbox) -> None:
    texts = {"deep.py": "x = " + "(" * 5000 + ")" * 5000 + "\n", "tower.py": "a" + ".b" * 50000 + "\n",
             "null.py": "x = '\0'\n", "bytes.py": "x = '\udcff'\n", "large.py": "#" * (3 << 20),
             "odd\nname.py": "unknown_thing\n", "loop.py": "class A(A): pass\nA().x\nx = x\nx.y\n"}
    for name, text in texts.items():
        with open(place(box, name), "w", errors="surrogateescape") as file:
            file.write(text)
    found = check(box, *(place(box, name) for name in texts), status=1)
    rows = {row["path"]: row for row in found["files"]}
    shown = box.cli("check", "--dir", place(box), place(box, "odd\nname.py")).stdout
    assert shown.startswith("odd name.py:1:1: error: unknown name unknown_thing") and shown.count("\n") == 1, shown
    for name in texts:
        os.remove(place(box, name))
        is_read = name in ("odd\nname.py", "loop.py")
        assert is_read == ("error" not in rows[name] and not any(
            one["kind"] == "syntax" for one in rows[name]["findings"])), rows[name]
    assert rows["odd\nname.py"]["findings"][0]["name"] == "unknown_thing"


def test_many_unknown_names_are_looked_for_in_the_project_once(box: Sandbox) -> None:
    """Each is compared with all definitions of the project, and the limit of time is said to be one."""
    box.make_file("project/wide.py", "".join(f"def w{n:05}_of_the_project(): pass\n" for n in range(10_000)))
    box.make_file("project/many.py", "".join(f"unknown_thing_{n}\n" for n in range(400)) + "w00007_of_a_project\n")
    findings = check(box, place(box, "many.py"), status=1)["files"][0]["findings"]
    cut = box.cli("check", "--dir", place(box), "--timeout", "0.05", place(box, "wide.py"), place(box, "many.py"))
    for name in ("wide.py", "many.py"):
        os.remove(place(box, name))
    assert len(findings) == 401
    assert findings[-1]["nearest"] == {"name": "w00007_of_the_project", "path": "wide.py", "line": 8}
    assert cut.returncode == 1 and "raise it (check: --timeout" in cut.stderr, cut.stderr


@pytest.mark.slow
def test_a_change_that_uses_what_does_not_exist_is_not_ready(box: Sandbox) -> None:
    """Control: the same change without it. What cannot be looked up is not ready either; a name that was used once and
    is used twice now is new."""
    box.make_file("project/odd\nname.py", "def f():\n    return check_token(1)\n")
    box.make_file("project/user.ts", "export const one = 1;\n")
    deep = "x" + ".b" * 50000 + "\n"
    later = "\n\n\ndef later(token):\n    return check_token(token)\n"
    for name, path, extra, errors in (("bad", "auth.py", later, 1), ("good", "auth.py", "", 0),
                                      ("twice", "odd\nname.py", later, 1), ("once", "odd\nname.py", "", 0),
                                      ("script", "user.ts", "export const n = check_token(1);\n", 1),
                                      ("deep", "auth.py", deep, 0)):
        mine = "// Mine.\n" if path.endswith(".ts") else "# Mine.\n"
        code = f"text = open({path!r}).read()\nopen({path!r}, 'w').write({mine!r} + text + {extra!r})"
        assert box.exec(code, session=name, options=["--project", place(box)])["status"] == "ok"
        evidence = json.loads(box.cli("verify", name, "--test", "true", "--json", timeout=4 * lib.PATIENCE).stdout)
        box.destroy(name)
        assert len(evidence["grounding"]["findings"]) == errors, evidence["grounding"]
        said = [row["text"] for row in evidence["reasons"] if "unknown name check_token" in row["text"]]
        assert len(said) == errors and evidence["measures"]["hallucinated_call_rate"] is (errors > 0)
        assert all(text.startswith(path.replace("\n", " ") + ":") for text in said)
        unread = [row["path"] for row in evidence["grounding"]["not_checked"]]
        assert unread == (["auth.py"] if name == "deep" else []), unread
        assert any("names and calls were not looked up" in row["text"] for row in evidence["reasons"]) == bool(unread)
    os.remove(place(box, "odd\nname.py"))
