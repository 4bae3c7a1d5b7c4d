# SPDX-License-Identifier: Apache-2.0
"""The command line itself, black box: help, spelling, exit codes, terminals, completion."""

import json
import os
import pathlib
import pty
import re
import select
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lib
from scripted_daemon import ScriptedDaemon

PROGRAM = pathlib.Path(lib.BUILD) / "snipara-sandbox"
VERBS = ("exec sessions snapshot snapshots rollback fork diff history show rerun checkpoint hibernate export "
         "import gc template put get ls output init trust config doctor daemon version completion man").split()
LATER = "snipara-status".split()


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str, env: dict[str, str] | None = None, program: Path = PROGRAM,
        **kwargs: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *args], env={"PATH": "/usr/bin:/bin", **(env or {})},
        stdin=subprocess.DEVNULL, stdout=kwargs.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE, text=True, timeout=lib.PATIENCE, **kwargs,
    )


def on_terminal(*args: str, env: dict[str, str] | None = None) -> bytes:
    """What the program writes when its standard output is a terminal."""
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, *args], env={"PATH": "/usr/bin:/bin", "TERM": "xterm", **(env or {})},
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            chunk = os.read(mine, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        text += chunk
    os.close(mine)
    assert process.wait(timeout=lib.PATIENCE) == 0
    return text


def usage_error(done: subprocess.CompletedProcess[str], message: str, help_of: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"{help_of}: {message}\nsee '{help_of} --help'\n"


def test_no_arguments_and_help_list_every_verb() -> None:
    bare, helped, short = run(), run("--help"), run("-h")
    assert bare.returncode == helped.returncode == short.returncode == 0
    assert bare.stdout == helped.stdout == short.stdout
    for verb in VERBS:
        assert f"\n  {verb} " in bare.stdout
    assert "\nStart with: snipara-sandbox exec 'print(6 * 7)'\n\nRun code:\n  exec " in bare.stdout
    titles = [line for line in bare.stdout.splitlines() if re.fullmatch("[A-Z][a-z ]+:", line)]
    assert titles == ["Run code:", "Sessions:", "Files:", "Projects:", "Models:", "Setup:", "Options:"]


@pytest.mark.skipif("SNP_TEST_SANITIZE" in os.environ, reason="the sanitizers' runtime needs more")
def test_it_loads_few_libraries() -> None:
    """Each costs every command time: libcrypto and the C++ library a third of `exec`."""
    text = subprocess.run(["readelf", "-d", PROGRAM], capture_output=True, text=True, check=True).stdout
    names = {line.split("[")[1].split(".so")[0] for line in text.splitlines() if "(NEEDED)" in line}
    assert names <= {"libjansson", "libuv", "libm", "libc", "ld-linux-x86-64", "ld-linux-aarch64"}


@pytest.mark.parametrize("args", [["version"], ["--version"], ["-V"]])
def test_version_is_one_line(args: list[str]) -> None:
    done = run(*args)
    assert done.returncode == 0
    assert done.stdout.startswith("snipara-sandbox 3.") and done.stdout.count("\n") == 1


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_that_fits_the_width(verb: str) -> None:
    done = run(verb, "--help", env={"COLUMNS": "72"})
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith(f"Usage: snipara-sandbox {verb} ")
    assert "\nExit codes:\n" in done.stdout
    body = done.stdout.split("\nExamples:\n")[0].splitlines()[1:]
    examples = done.stdout.partition("\nExamples:\n")[2].partition("\nExit codes:")[0].split("\n")
    for line in filter(None, examples):
        words = line.split()
        assert words[0] == "snipara-sandbox" and words[1] in VERBS and "&&" not in words, line
    assert max(len(line) for line in body) <= 72


def test_a_run_is_called_a_run() -> None:
    """All help is in the manual page."""
    assert not re.findall("(?i)trajector|recursion", run("man").stdout)


def test_help_is_in_plain_words() -> None:
    """Turns of phrase that readers stumbled over."""
    assert "\n  verify      test a session's changes to its project\n" in run().stdout
    turns = "(?i)what tests prove|whoever|nobody|meanwhile|(?:go|goes|going) on\\b|by themselves|comes along"
    assert not re.findall(turns, run("man").stdout)


def test_unknown_verb_suggests_the_nearest() -> None:
    usage_error(run("exce"), "unknown command 'exce'; did you mean exec?", "snipara-sandbox")
    usage_error(run("qqqqqq"), "unknown command 'qqqqqq'", "snipara-sandbox")
    usage_error(run("config", "shwo"), "unknown command 'shwo'; did you mean show?",
                "snipara-sandbox config")


@pytest.mark.parametrize("verb", LATER)
def test_verbs_of_earlier_releases_say_that_they_are_missing(verb: str) -> None:
    usage_error(run(verb), f"unknown command '{verb}': this version does not have it yet",
                "snipara-sandbox")


def test_unknown_option_suggests_the_nearest() -> None:
    usage_error(run("exec", "--timout", "3", "1"),
                "unknown option '--timout'; did you mean --timeout?", "snipara-sandbox exec")
    usage_error(run("init", "--froce"), "unknown option '--froce'; did you mean --force?",
                "snipara-sandbox init")
    usage_error(run("--versoin"), "unknown option '--versoin'; did you mean --version?",
                "snipara-sandbox")


@pytest.mark.parametrize("args, message", [
    (["init", "a", "b"], "unexpected argument 'b'"),
    (["init", "--force=1"], "--force takes no value"),
    (["init", "-q"], "unknown option '-q'"),
    *[(["exec", *option, "1"], f"{option[0]} needs --session: without one, nothing is kept after the code ends")
      for option in (["--atomic"], ["--durability", "synced"], ["--checkpoint", "cell"], ["--recover", "ask"])],
    (["exec", "-s", "w", "--atomic", "--no-transaction", "1"],
     "--atomic needs the transaction that --no-transaction turns off"),
    (["exec", "-s", "w", "--recover", "yes", "1"], "--recover is ask, replay, skip or checkpoint, not 'yes'"),
    (["completion"], "missing argument SHELL"),
    (["completion", "tcsh"], "unknown shell 'tcsh': expected bash, zsh or fish"),
])
def test_other_mistakes(args: list[str], message: str) -> None:
    usage_error(run(*args), message, f"snipara-sandbox {args[0]}")


def test_option_without_its_value() -> None:
    usage_error(run("config", "show", "--config"), "--config needs a value: PATH",
                "snipara-sandbox config show")


def test_a_limit_out_of_range_is_refused_before_anything_starts(folder: Path) -> None:
    env = {"SNIPARA_SANDBOX_RUNTIME_DIR": str(folder / "run"), "HOME": str(folder)}
    done = run("exec", "--memory", "1k", "1", env=env)
    assert done.returncode == 2 and done.stdout == ""
    assert "--memory: 1k is out of range: 16 MiB to 1 TiB" in done.stderr
    assert sorted(p.name for p in folder.iterdir()) == [".git"]


def test_groups_without_a_verb_show_help() -> None:
    done = run("mcp")
    assert done.returncode == 0
    assert "\n  tools " in done.stdout


def test_help_is_a_command_too() -> None:
    assert run("help").stdout == run("--help").stdout
    assert run("help", "config", "show").stdout == run("config", "show", "--help").stdout != ""
    usage_error(run("help", "exce"), "unknown command 'exce'; did you mean exec?", "snipara-sandbox")


def test_built_in_templates_are_shown_and_stay(folder: Path) -> None:
    env = {"SNIPARA_SANDBOX_STATE_DIR": str(folder), "HOME": str(folder)}
    assert json.loads(run("template", "show", "data", "--json", env=env).stdout) == {
        "name": "data", "state": "built in", "preload": ["numpy", "pandas"]}
    done = run("template", "remove", "base", env=env)
    assert done.returncode == 2 and "'base' is built in" in done.stderr
    done = run("template", "add", "x", "--venv", "no-such-folder", env=env)
    assert done.returncode == 1 and "--venv no-such-folder: No such file" in done.stderr


def test_called_as_rlm(folder: Path) -> None:
    link = folder / "rlm"
    link.symlink_to(PROGRAM)
    assert run(program=link).stdout.startswith("Usage: rlm ")
    usage_error(run("exce", program=link), "unknown command 'exce'; did you mean exec?", "rlm")
    assert run("version", program=link).stdout == run("version").stdout


def test_output_that_cannot_be_written_is_a_failure() -> None:
    with open("/dev/full", "w") as full:
        done = run("version", stdout=full)
    assert done.returncode == 1
    assert "standard output cannot be written" in done.stderr


def test_closed_standard_descriptors_do_no_harm(folder: Path) -> None:
    done = subprocess.run(["/bin/sh", "-c", '"$0" init new >&- 2>&- <&-', str(PROGRAM)],
                          env={"PATH": "/usr/bin:/bin"}, timeout=lib.PATIENCE)
    assert done.returncode == 0
    assert (folder / "new" / "snipara-sandbox.toml").read_text().startswith("# snipara-sandbox")


def test_colour_on_a_terminal_only() -> None:
    assert b"\x1b[" in on_terminal("config", "show")
    assert b"\x1b[" not in on_terminal("config", "show", env={"NO_COLOR": "1"})
    assert b"\x1b[" not in on_terminal("config", "show", env={"TERM": "dumb"})
    assert "\x1b" not in run("config", "show").stdout


def test_a_terminal_never_gets_control_characters_of_a_value() -> None:
    env = {"SNIPARA_SANDBOX_MODEL": "a\x1b]0;owned\x07b\u202ec"}
    shown = on_terminal("config", "show", env=env)
    assert b"a\\x1b]0;owned\\x07b\\u202ec" in shown
    assert b"\x1b]0;" not in shown and b"\x07" not in shown
    shown = on_terminal("config", "show", "--json", env=env)
    assert b"\x1b" not in shown and b"\\u001b]0;owned" in shown.lower() and "\u202e".encode() not in shown


def complete(folder: Path, *words: str, env: dict[str, str] | None = None) -> list[str]:
    """What bash offers for the last word."""
    script = folder / "completion.bash"
    script.write_text(run("completion", "bash").stdout)
    code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
            '_snipara_sandbox; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["/bin/bash", "-c", code, "bash", script, PROGRAM, *words],
                          env={"PATH": "/usr/bin:/bin", "SNIPARA_SANDBOX_STATE_DIR": str(folder),
                               "SNIPARA_SANDBOX_RUNTIME_DIR": str(folder), **(env or {})},
                          capture_output=True, text=True, timeout=lib.PATIENCE, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completion_offers_what_fits(folder: Path) -> None:
    assert complete(folder, "comp") == ["completion"]
    assert complete(folder, "exec", "--env", "") == ["auto", "native", "docker", "local"]
    assert set(VERBS) <= set(complete(folder, ""))
    assert complete(folder, "config", "") == ["show", "--help"]
    assert complete(folder, "exec", "--mem") == ["--memory"]
    assert complete(folder, "exec", "--json", "--template", "") == ["base", "data", "plot"]
    assert complete(folder, "exec", "--recover", "") == ["ask", "replay", "checkpoint", "skip"]
    assert complete(folder, "template", "show", "p") == ["plot"]
    assert complete(folder, "template", "show", "--") == ["--json", "--help"]
    assert complete(folder, "completion", "") == ["bash", "zsh", "fish"]
    assert complete(folder, "config", "show", "--config", "x") == []
    assert complete(folder, "init", "ls", "--f") == ["--force"]


def test_bash_completion_knows_sessions(folder: Path, fresh_sandbox: Callable[..., lib.Sandbox]) -> None:
    box = fresh_sandbox("root")
    for name in ("one", "other"):
        assert box.exec("1", name)["status"] == "ok"
    for words, names in [
        (["exec", "-s", ""], ["one", "other"]), (["exec", "--session", "ot"], ["other"]),
        (["sessions", "show", ""], ["one", "other"]), (["sessions", "destroy", "on"], ["one"]),
        (["sessions", "move", "ot"], ["other"]), (["sessions", "move", "one", "--to", "na"], ["native"]),
        (["ls", ""], ["one:", "other:"]), (["get", "ot"], ["other:"]), (["put", "a", ""], ["one:", "other:"]),
        (["put", ""], []),  # a file first: bash offers those itself
    ]:
        assert complete(folder, *words, env=box.env) == names


def test_completion_starts_no_daemon(folder: Path) -> None:
    assert complete(folder, "exec", "-s", "") == []
    assert "sandboxd.sock" not in os.listdir(folder)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_verb_and_every_limit(shell: str) -> None:
    done = run("completion", shell)
    assert done.returncode == 0
    for word in [*VERBS, "memory", "workspace-files", "no-snipara"]:
        assert word in done.stdout


class Ending(ScriptedDaemon):
    """It ends with what follows `hello`, or the first part of a file, unread."""

    def end(self, peer: socket.socket) -> None:
        select.select([peer], [], [], lib.PATIENCE)
        self.listener.close()
        os.unlink(os.path.join(self.folder, "sandboxd.sock"))
        raise EOFError

    def greeted(self, peer: socket.socket) -> None:
        if "put" not in self.answers:
            self.end(peer)

    def answer(self, peer: socket.socket, ident: int, method: str, head: lib.Json, raw: bytes) -> None:
        super().answer(peer, ident, method, head, raw)
        if method == "put":
            self.end(peer)


def test_what_an_ending_daemon_did_not_read_goes_to_the_next_one() -> None:
    with Ending({}) as daemon:
        try:
            done = daemon.cli("exec", "-s", "s", "--env", "local", "6 * 7")
            assert (done.returncode, done.stdout, daemon.asked) == (0, "42\n", []), done
            assert [cell["cell"] for cell in json.loads(daemon.cli("history", "s", "--json").stdout)["cells"]] == [1]
        finally:
            daemon.cli("daemon", "stop", "--force")


def test_parts_of_a_file_go_to_one_daemon() -> None:
    """Another one may not have the parts before."""
    with Ending({"put": {"size": 1 << 20}}) as daemon:
        done = daemon.cli("put", "-", "s:f", stdin=open("/dev/zero", "rb"))
        assert done.returncode == 1 and "the daemon disconnected" in done.stderr, done
        assert [head["offset"] for head, _ in daemon.asked] == [0]
        assert not os.path.exists(os.path.join(daemon.folder, "sandboxd.sock"))  # no other was started
