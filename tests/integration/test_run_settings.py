# SPDX-License-Identifier: Apache-2.0
"""What is said of a run's settings: who set them, what is weaker, and where the record goes."""

import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator

import pytest

from scripted_runs import Runs, turn


@pytest.fixture
def configure(runs: Runs) -> Iterator[Callable[..., None]]:
    """Write the project's configuration; it is gone afterwards."""
    paths = []

    def make(*lines: str, name: str = "snipara-sandbox.toml", head: str = "[snipara_sandbox]\n") -> None:
        paths.append(os.path.join(runs.folder, name))
        with open(paths[-1], "w") as out:
            out.write(head + "".join(line + "\n" for line in lines))

    yield make
    for path in set(paths):
        if os.path.exists(path):
            os.unlink(path)


def go(runs: Runs, *options: str) -> subprocess.CompletedProcess[str]:
    return runs.cli("run", "Do it", *runs.options(runs.script(turn(text="done"))), *options)


def test_records_outside_the_project_are_told_of(runs: Runs, configure: Callable[..., None]) -> None:
    outside = runs.box.make_folder("outside")
    assert "records go to" not in go(runs).stderr
    for name, head, line in (("snipara-sandbox.toml", "[snipara_sandbox]\n", f'log_dir = "{outside}"'),
                             ("snipara-sandbox.toml", "[snipara_sandbox]\n", 'log_dir = "new/../../outside"'),
                             ("snipara-sandbox.toml", "[snipara_sandbox]\n", 'log_dir = "../outside"'),
                             (".env", "", f"SNIPARA_SANDBOX_LOG_DIR={outside}")):
        configure(line, name=name, head=head)
        done = go(runs)
        assert "records go to" not in done.stderr and os.listdir(outside) == []
        assert "so these are not used: " in done.stderr and "log_dir" in done.stderr.lower()
        runs.cli("trust")
        done = go(runs)
        assert "records go to" in done.stderr and name in done.stderr, line
        assert "records go to" not in go(runs, "--log-dir", outside).stderr
        os.unlink(os.path.join(runs.folder, name))
        for record in os.listdir(outside):
            os.unlink(os.path.join(outside, record))
    configure('log_dir = "new/below"')
    done = go(runs)
    assert done.returncode == 0 and "records go to" not in done.stderr
    assert stat.S_IMODE(os.stat(os.path.join(runs.folder, "new/below")).st_mode) == 0o700


@pytest.mark.parametrize("where, line", [("logs", None), ("logs", 'log_dir = "logs"'), ("a", 'log_dir = "a/b"')])
def test_a_link_in_a_cloned_folder_leads_no_records_out(runs: Runs, configure: Callable[..., None], where: str,
                                                        line: str | None) -> None:
    """Attack: the folder of records, or one on the way, is a link that came with the project. Control: the user chose
    it."""
    outside = runs.box.make_folder("outside-" + where + str(line is None))
    os.symlink(outside, os.path.join(runs.folder, where))
    if line:
        configure(line)
    done = go(runs)
    assert done.returncode == 1 and "could put records outside" in done.stderr and "--log-dir" in done.stderr
    assert os.listdir(outside) == []
    if line:
        runs.cli("trust")
        done = go(runs)
    else:
        done = go(runs, "--log-dir", "logs")
    assert done.returncode == 0 and os.listdir(outside), done.stderr
    ident = next(name for _, _, names in os.walk(outside) for name in names)[:-6]
    os.unlink(os.path.join(runs.folder, "snipara-sandbox.toml")) if where == "logs" and line else None
    resumed = runs.cli("resume", ident)
    assert ("could put records outside" in resumed.stderr) == (where == "logs"), resumed.stderr


@pytest.mark.parametrize("mode, note", [(0o700, None), (0o755, None), (0o775, "is writable by others"),
                                        (0o1777, "is writable by others")])
def test_folders_that_are_there(runs: Runs, mode: int, note: str | None) -> None:
    folder = runs.box.make_folder(f"logs-{mode:o}")
    os.chmod(folder, mode)
    done = go(runs, "--log-dir", folder)
    assert done.returncode == 0, done.stderr
    assert (note in done.stderr) if note else ("folder of records" not in done.stderr)
    name, = os.listdir(folder)
    assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(folder).st_mode) == mode


def test_a_folder_of_everybody_is_refused_and_a_link_told_of(runs: Runs) -> None:
    folder = runs.box.make_folder("everybody")
    os.chmod(folder, 0o777)
    done = go(runs, "--log-dir", folder)
    assert done.returncode == 1 and "is world-writable (mode 0777)" in done.stderr
    assert os.listdir(folder) == []
    os.chmod(folder, 0o700)
    link = folder + "-link"
    os.symlink(folder, link)
    done = go(runs, "--log-dir", link)
    assert done.returncode == 0 and "is a symbolic link; records go to " + folder in done.stderr


def test_the_settings_say_what_will_be_asked_and_who_set_it(runs: Runs, configure: Callable[..., None]) -> None:
    script = runs.script(turn(text="done"))
    configure('backend = "replay"', f'replay_file = {json.dumps(script)}', "token_budget = 7000000",
              'environment = "local"', "sub_calls_max_cost_per_session = 90", "sub_calls_max_per_turn = 50")
    shown = runs.cli("run", "Do it", "--show-config")
    assert "set by" not in shown.stdout and "weaker" not in shown.stderr
    told = shown.stderr.replace("\n", " ")
    assert ("backend, environment, replay_file, sub_calls_max_cost_per_session, sub_calls_max_per_turn, "
            "token_budget") in told
    runs.cli("trust")
    shown = runs.cli("run", "Do it", "--show-config")
    assert f"Model: replay/{script}" in shown.stdout and "gpt-4o-mini" not in shown.stdout
    for each in ("token_budget", "backend", "environment", "sub_calls_max_cost_per_session", "sub_calls_max_per_turn"):
        line, = [line for line in shown.stdout.splitlines() if line.startswith(f"  {each}: set by ")]
        assert "snipara-sandbox.toml" in line
    assert "max_depth: set by" not in shown.stdout
    assert "local is weaker than native" in shown.stderr and "snipara-sandbox.toml" in shown.stderr
    shown = runs.cli("agent", "Do it", "--show-config", "--env", "native", "--backend", "openai", "--model", "x")
    assert "Model: x (not usable)" in shown.stdout and "weaker" not in shown.stderr
    assert "token_budget: set by" in shown.stdout and "Token Budget: 7000000" in shown.stdout
    assert "Max Iterations: 10" in shown.stdout and "Cost Limit: 2 USD" in shown.stdout
    shown = runs.cli("agent", "Do it", "--show-config", "--budget", "900", "--cost-limit", "none")
    assert "Token Budget: 900" in shown.stdout and "Cost Limit: none" in shown.stdout


@pytest.mark.parametrize("verb", ["run", "agent"])
def test_the_weaker_tier_is_told_of_as_in_exec(runs: Runs, configure: Callable[..., None], verb: str) -> None:
    mark = os.path.join(runs.box.state, "local-notice")
    configure('environment = "local"')
    runs.cli("trust")
    script = runs.script(turn(text="FINAL(1)"))
    said = []
    for args in (["exec", "1"], [verb, "Do it", *runs.options(script)]):
        if os.path.exists(mark):
            os.unlink(mark)
        done = runs.cli(*args)
        said.append("this ran in the local tier, as configured" in done.stderr)
        assert said[-1] == (open(mark).read() == "said"), done.stderr
    assert said[0] == said[1]


def test_an_error_of_the_setup_is_said_once(runs: Runs) -> None:
    script = runs.box.make_file("broken.jsonl", "bad\n")
    done = runs.cli("run", "Do it", *runs.options(script))
    assert done.returncode == 1
    assert (done.stdout + done.stderr).count("broken.jsonl:1:") == 1 and "broken.jsonl:1:" in done.stderr
