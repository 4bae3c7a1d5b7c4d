# SPDX-License-Identifier: Apache-2.0
"""One suite for all tiers: tests of sessions, cells, files and limits that run natively in their own files run here in
each other tier.

What a tier does not do is its own data (`probe`): its tests of that are not there, and what it lacks is `unsupported`,
with the tier that can. Engines and runtimes of the docker tier are rows of the same table.
"""

import json
import os
import runpy
import secrets
import subprocess
from collections.abc import Iterator

import pytest

import engine as engines
import lib
import test_transaction
from test_exec import (  # noqa: F401
    test_a_dead_interpreter_loses_variables_and_keeps_files, test_a_line_split_over_writes,
    test_arguments_arrive_as_they_are, test_commands_and_cells_share_workspace_and_session, test_displays,
    test_exit_codes_and_signals_of_commands, test_exit_status_of_the_program,
    test_output_is_streamed_while_the_cell_runs, test_output_of_any_bytes, test_result_variable_is_reset_by_each_cell,
    test_sessions_do_not_see_each_other, test_standard_input, test_standard_input_of_commands,
    test_state_is_kept_between_cells, test_stdout_and_stderr_are_told_apart,
    test_sys_exit_ends_the_cell_and_not_the_session, test_two_cells_at_once_on_one_session_queue)
from test_files import (  # noqa: F401
    test_files_while_a_cell_runs, test_folders_go_in_and_come_back, test_ls, test_modes_and_folders, test_names)
from test_limits import (  # noqa: F401
    open_session, test_code_that_does_not_stop_is_killed_after_the_grace, test_file_size,
    test_full_output_of_both_streams_byte_for_byte, test_memory_over_the_limit, test_one_character_over_the_limit,
    test_output_at_and_above_the_limit, test_space, test_timeout_interrupts_and_keeps_state,
    test_timeout_of_commands)
from test_process import (  # noqa: F401
    test_a_flood_of_output_disturbs_no_other_session, test_a_rollback_ends_processes,
    test_a_signal_reaches_it_and_its_children, test_a_signal_reaches_what_it_left_in_the_background,
    test_hibernation_names_processes_and_ends_them,
    test_input_that_the_process_has_closed_is_refused, test_it_has_files_variables_input_and_arguments_of_the_session,
    test_it_runs_beside_cells_until_it_exits, test_no_more_input_is_taken_than_a_pipe_holds,
    test_standard_input_is_written_while_it_runs_and_closed, test_the_last_output_is_stored_and_read_by_position,
    test_too_many_are_refused_and_ended_ones_make_room)
from test_transaction import (  # noqa: F401
    test_a_daemon_ends_with_the_cell_that_is_undone, test_a_hangup_that_code_sends_ends_it,
    test_a_killed_command_costs_no_variables_that_cannot_be_copied, test_atomic_undoes_errors,
    test_commands_roll_files_back, test_errors_and_interrupts_keep_what_was_done,
    test_files_that_are_put_while_a_cell_runs_stay_if_it_is_undone, test_forged_answers_make_no_copy,
    test_forks_of_the_same_moment_draw_other_numbers,
    test_locks_on_files_are_named_and_atomic_is_refused_before_it_runs, test_open_files_are_where_they_were,
    test_processes_in_the_background_cost_no_cell_its_interpreter, test_room_of_deleted_files_is_free_at_once,
    test_threads_are_named_and_atomic_is_refused_before_it_runs, test_without_a_transaction_the_same_is_lost)

# Who runs each; in their own files the tests of transactions are of the local tier, too.
TIERS = {"local": "user", "docker": "root", "example": "user"}
# What engine.OTHERS do not do.
LACKS = {"docker-runsc": {"test_memory_over_the_limit",  # it holds address space, 128 MiB above
                          "test_input_that_the_process_has_closed_is_refused"}}  # its relay keeps the pipe open
NEEDS = {"test_files": ["filesystem"], "test_limits": ["resources"], "test_process": ["process.list"],
         "test_transaction": ["snapshot", "namespaces"]}


def about(tier: str) -> lib.Json:
    """What it says of itself."""
    if tier == "example":
        path = os.path.join(lib.HERE, "..", "examples", "tier-python", "tier-example")
        found: lib.Json = runpy.run_path(path)["ABOUT"]
        return found
    done = subprocess.run([os.path.join(lib.BUILD, "tier-" + tier), "--describe"], stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    return found


ABOUT = {tier: about(tier) for tier in ("native", *TIERS)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    needs = NEEDS.get(metafunc.function.__module__, []) + [
        mark.args[0] for mark in metafunc.definition.iter_markers("needs")]
    tiers = [tier for tier in TIERS if set(needs) <= {*ABOUT[tier]["verbs"], *ABOUT[tier]["guarantees"]}]
    name = metafunc.function.__name__
    others = [other for other in engines.OTHERS if "docker" in tiers and name not in LACKS.get(other, ())]
    if "sandbox" in metafunc.fixturenames:
        metafunc.parametrize("sandbox", [*tiers, *others], indirect=True, scope="module")


@pytest.fixture(scope="module")
def sandbox(request: pytest.FixtureRequest) -> Iterator[lib.Sandbox]:
    tier = request.param
    if tier in engines.OTHERS:
        box = engines.other_sandbox(request, tier)
    else:
        box = lib.Sandbox(TIERS[tier], tier=tier, env=engines.env_for(request, tier))
    yield box
    box.close()


@pytest.fixture
def tier(sandbox: lib.Sandbox) -> str:
    return sandbox.tier


@pytest.fixture
def session(sandbox: lib.Sandbox, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of one; but for tests of cells it is there, with x = 1 and a file of the same."""
    name = "t-" + secrets.token_hex(4)
    if request.function.__module__ != "test_exec":
        assert sandbox.exec("x = 1\nopen('f', 'w').write('one')", name)["status"] == "ok"
    yield name
    sandbox.destroy(name)


@pytest.mark.needs("snapshot")
@pytest.mark.parametrize("name", sorted(set(test_transaction.KILLED) - {"fork bomb", "crowd"}))
def test_a_killed_cell_leaves_all_as_before(sandbox: lib.Sandbox, session: str, name: str) -> None:
    test_transaction.test_a_killed_cell_leaves_variables_and_files_as_before(sandbox, session, name)


# What a person asks for that needs a verb
ASKS = {"save": ["checkpoint"], "snapshot": ["snapshot"], "process.list": ["ps"]}


def test_what_a_tier_lacks_is_unsupported_and_names_the_tier_that_can(sandbox: lib.Sandbox, session: str) -> None:
    lacks = set(ABOUT["native"]["verbs"]) - set(ABOUT[sandbox.tier]["verbs"])
    for verb in lacks & set(ASKS):
        done = sandbox.cli(*ASKS[verb], session, "--json")
        error = json.loads(done.stdout)["error"]
        assert done.returncode == 1 and error["code"] == "unsupported", done.stdout
        assert f"the {sandbox.tier} tier does not support" in error["message"] and "native" in error["message"]
    if "rootfs" in lacks and sandbox.tier != "example":  # that has words of its own
        done = sandbox.cli("exec", "--env", sandbox.tier, "--rootfs", "/", "1")
        assert done.returncode != 0 and "native" in done.stderr, done.stderr
    assert sandbox.exec("x", session)["value"] == "1"  # and it goes on
