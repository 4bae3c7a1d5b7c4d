/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `back`: the session of a run as it was before a step.
 *
 * The run takes a snapshot of its session before each step. The record has the steps of the run;
 * the daemon has the remaining snapshots. A step that opened the session began with only the
 * project.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/cli/unsaved.h"
#include "base/str.h"
#include "cli/run/front.h"
#include "cli/run/runs.h"
#include "cli/sandbox/sandbox.h"
#include "main/verbs.h"
#include "trajectory/reader.h"

enum {
    ID_SHOWN = 8,
};

static const struct snp_opt options[] = {
    {"session", 's', SNP_OPT_STRING, "NAME", "name of the new session (default: back-RUN-STEP)", 0},
    {"remove", 0, SNP_OPT_FLAG, NULL, "remove the stored steps of the run", 0},
    SNP_RUNS_OPT_DIR('d'),
    SNP_CLI_OPT_JSON,
    SNP_CLI_OPT_CONFIG,
};
static const struct snp_opt_arg args[] = {
    {"RUN", "id of the run, or its beginning (default: list the runs)", 0, 1},
    {"STEP", "number of the step, as `logs RUN` shows it (default: list the steps)", 0, 1},
};

/* A run and its steps. */
struct past {
    char *path; /* owned */
    struct snp_trajectory_info info;
    json_t *calls;     /* owned: the last call of each id */
    json_t *steps;     /* owned: [{"step", "name", "code", "state", "why"}] */
    json_t *snapshots; /* owned: the remaining snapshots */
};

static void past_done(struct past *past)
{
    free(past->path);
    snp_trajectory_info_done(&past->info);
    json_decref(past->calls);
    json_decref(past->steps);
    json_decref(past->snapshots);
}

/* Steps --------------------------------------------------------------------------------------- */

static void calls_take(struct past *past, const json_t *record)
{
    const json_t *calls = json_object_get(json_object_get(record, "answer"), "tool_calls");
    size_t i;
    json_t *call;

    json_array_foreach((json_t *)(uintptr_t)calls, i, call)
    {
        (void)json_object_set(past->calls, snp_json_str(call, "id", ""), call);
    }
}

static void step_take(struct past *past, const json_t *record)
{
    const json_t *call = json_object_get(past->calls, snp_json_str(record, "tool_call_id", ""));
    int64_t number = snp_json_int(record, "number", 0);
    json_t *step;

    if (number != (int64_t)json_array_size(past->steps) + 1) {
        return; /* a user's tool; or a record of an older version */
    }
    step = snp_need(json_pack("{s:I, s:s, s:O?, s:s, s:O?}", "step", (json_int_t)number, "name",
                              snp_json_str(record, "name", "?"), "arguments",
                              json_object_get(call, "arguments"), "state",
                              snp_json_bool(record, "opens", false) ? "new" : "gone", "why",
                              json_object_get(record, "not_kept")));
    (void)json_array_append_new(past->steps, step);
}

static int on_record(void *ctx, json_t *record, struct snp_err *err)
{
    struct past *past = ctx;
    const char *step = snp_trajectory_step(record);

    (void)err;
    if (strcmp(step, "answer") == 0) {
        calls_take(past, record);
    } else if (strcmp(step, "tool") == 0) {
        step_take(past, record);
    }
    return 0;
}

static const char *session_of(const struct past *past)
{
    return snp_json_str(past->info.head, "session", "");
}

/* Find the steps that can be opened. */
static int snapshots_find(struct snp_cli *cli, struct past *past, struct snp_err *err)
{
    snp_autojson json_t *answer = NULL;
    size_t i;
    json_t *row;

    SNP_TRY(snp_sandbox_ask(
        cli, json_pack("{s:s, s:s}", "method", "snapshots.list", "run", session_of(past)), &answer,
        err));
    past->snapshots = json_incref(json_object_get(answer, "snapshots"));
    json_array_foreach(past->snapshots, i, row)
    {
        const char *number = strrchr(snp_json_str(row, "name", ""), ':');
        uint64_t n = 0;
        json_t *step;

        if (number == NULL || snp_parse_u64(number + 1, &n) < 0 || n == 0) {
            continue;
        }
        step = json_array_get(past->steps, n - 1);
        if (step != NULL && json_array_size(json_object_get(row, "where")) > 0) {
            (void)json_object_set_new(step, "state", json_string("kept"));
            (void)json_object_set(step, "snapshot", json_object_get(row, "id"));
        }
    }
    return 0;
}

static int past_find(struct snp_cli *cli,
                     const struct snp_opts *opts,
                     struct past *ret,
                     struct snp_err *err)
{
    struct snp_trajectory_check check;

    ret->calls = snp_need(json_object());
    ret->steps = snp_need(json_array());
    SNP_TRY(snp_runs_find(cli, opts, 0, &ret->path, err));
    SNP_TRY(snp_trajectory_info_read(ret->path, &ret->info, err));
    SNP_TRY(snp_trajectory_read(ret->path, on_record, ret, &check, err));
    return session_of(ret)[0] == '\0' ? 0 : snapshots_find(cli, ret, err);
}

/* The list ------------------------------------------------------------------------------------- */

static const char gone_text[] = "removed: the journal's budget was reached, the session was "
                                "destroyed, or the daemon was killed before it was on disk";

static const char *why_of(const json_t *step)
{
    return snp_json_str(step, "why", gone_text);
}

static json_t *answer_make(const struct past *past)
{
    return snp_need(json_pack("{s:s, s:O}", "run", past->info.id, "steps", past->steps));
}

static int list_print(struct snp_cli *cli, const struct past *past)
{
    static const char *const heads[] = {"Step", "Tool", "State", "What it ran"};
    struct snp_table table = SNP_TABLE(heads);
    snp_autofree char *next = snp_need_format("back %.*s STEP", ID_SHOWN, past->info.id);
    bool can_open = false;
    size_t i;
    json_t *step;

    json_array_foreach(past->steps, i, step)
    {
        const json_t *arguments = json_object_get(step, "arguments");
        const char *state = snp_json_str(step, "state", "");
        snp_autofree char *text = snp_json_text(arguments);

        snp_table_addf(&table, "%zu", i + 1);
        snp_table_add(&table, snp_json_str(step, "name", ""));
        snp_table_add(&table, state);
        snp_table_style(&table, snp_streq(state, "gone") ? SNP_STYLE_YELLOW : SNP_STYLE_GREEN);
        snp_table_add(&table, snp_streq(state, "gone")
                                  ? why_of(step)
                                  : snp_json_str(arguments, "code", text == NULL ? "" : text));
        can_open = can_open || !snp_streq(state, "gone");
    }
    snp_table_print(stdout, &table, "no steps: this run ran nothing in a sandbox");
    if (can_open) {
        snp_cli_next(cli, next);
    }
    return SNP_EXIT_OK;
}

/* Opening -------------------------------------------------------------------------------------- */

/* The step began in a new session. Projects and tiers of a foreign record are ignored. */
static int open_new(struct snp_cli *cli,
                    const struct past *past,
                    const char *name,
                    struct snp_err *err)
{
    struct snp_trajectory_check check;
    unsigned char key[SNP_RUN_KEY];
    snp_autojson json_t *settings = NULL;
    snp_autofree char *request = NULL;
    int r = snp_run_key(key, err);

    if (r < 0) {
        return r;
    }
    r = snp_trajectory_own(past->path, key, &check, err);
    explicit_bzero(key, sizeof(key));
    if (r < 0) {
        return snp_err_wrap(err,
                            "step 1 began with only the project of the record, which is not used");
    }
    if (snp_sandbox_ask(cli, json_pack("{s:s, s:s}", "method", "sessions.show", "session", name),
                        NULL, err) == 0) {
        return snp_fail(err, SNP_E_DENIED, "session %s already exists", name);
    }
    SNP_TRY(err->code == SNP_E_NOT_FOUND ? 0 : err->code);
    settings = snp_need(json_pack("{s:b}", "attached", false));
    (void)json_object_update_missing(settings, json_object_get(past->info.head, "exec"));
    request = snp_need(snp_json_text(settings));
    return snp_sandbox_run(cli, SNIPARA_RUN(.session = name, .request = request), NULL, err);
}

static int open_kept(struct snp_cli *cli,
                     const char *snapshot,
                     const char *name,
                     json_t **ret_lost,
                     struct snp_err *err)
{
    snp_autojson json_t *answer = NULL;

    SNP_TRY(snp_sandbox_ask(cli,
                            json_pack("{s:s, s:s, s:i, s:s, s:b}", "method", "fork", "from",
                                      snapshot, "n", 1, "name", name, "exact", true),
                            &answer, err));
    *ret_lost = json_incref(json_object_get(answer, "lost"));
    (void)json_array_extend(*ret_lost, json_object_get(answer, "failed"));
    return 0;
}

static void opened_tell(const struct past *past,
                        const json_t *step,
                        const char *name,
                        const json_t *lost)
{
    (void)puts(name);
    (void)fflush(stdout);
    snp_term_printf(stderr,
                    "opened run %.*s as it was before step %lld (%s), as session %s\n"
                    "look: snipara-sandbox exec -s %s 'print(dir())'; "
                    "snipara-sandbox ls %s\n"
                    "continue: snipara-sandbox exec -s %s 'CODE'\n",
                    ID_SHOWN, past->info.id, (long long)snp_json_int(step, "step", 0),
                    snp_json_str(step, "name", "?"), name, name, name, name);
    snp_lost_tell(lost, "not in the session");
}

static int step_open(struct snp_cli *cli,
                     const struct snp_opts *opts,
                     const struct past *past,
                     const json_t *step)
{
    const char *state = snp_json_str(step, "state", "");
    snp_autofree char *made = snp_need_format("back-%.*s-%lld", ID_SHOWN, past->info.id,
                                              (long long)snp_json_int(step, "step", 0));
    const char *given = snp_opts_str(opts, "session");
    const char *name = given == NULL ? made : given;
    snp_autojson json_t *lost = NULL;
    struct snp_err err;
    int r;

    if (snp_streq(state, "gone")) {
        r = snp_fail(&err, SNP_E_NOT_FOUND,
                     "step %lld of run %.8s is not stored: %.300s. `back %.8s` lists the stored "
                     "steps; `replay %.8s` runs its code again",
                     (long long)snp_json_int(step, "step", 0), past->info.id, why_of(step),
                     past->info.id, past->info.id);
    } else if (snp_streq(state, "new")) {
        r = open_new(cli, past, name, &err);
    } else {
        r = open_kept(cli, snp_json_str(step, "snapshot", ""), name, &lost, &err);
    }
    if (r < 0 && snp_has_suffix(err.msg, "already exists")) {
        (void)snp_fail(
            &err, r, "session %s already exists; use that one, or give another name with -s", name);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (cli->is_json) {
        snp_autojson json_t *answer = snp_need(json_pack(
            "{s:s, s:O, s:s, s:o}", "run", past->info.id, "step", json_object_get(step, "step"),
            "session", name, "lost", lost == NULL ? json_array() : json_incref(lost)));

        return snp_cli_print_json(answer);
    }
    opened_tell(past, step, name, lost);
    return SNP_EXIT_OK;
}

/* The verb ------------------------------------------------------------------------------------- */

static int steps_remove(struct snp_cli *cli, const struct past *past)
{
    snp_autojson json_t *done = snp_need(json_array());
    struct snp_err err;
    size_t i;
    json_t *row;

    json_array_foreach(past->snapshots, i, row)
    {
        const char *number = strrchr(snp_json_str(row, "name", ""), ':');

        if (snp_sandbox_ask(cli,
                            json_pack("{s:s, s:s}", "method", "snapshots.remove", "snapshot",
                                      snp_json_str(row, "id", "")),
                            NULL, &err) < 0) {
            return snp_cli_fail(cli, &err);
        }
        (void)json_array_append_new(done,
                                    json_sprintf("step %s", number == NULL ? "" : number + 1));
    }
    return snp_cli_done_list(cli, "removed", done, "no steps are kept", SNP_EXIT_OK);
}

static int back_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(past_done) struct past past = {0};
    struct snp_err err;
    int64_t number = 0;

    if (snp_opts_n_args(opts) == 0) {
        return snp_runs_tell(cli, opts, false, "back ID");
    }
    if (snp_opts_n_args(opts) == 2 &&
        (snp_parse_i64(snp_opts_arg(opts, 1), &number) < 0 || number < 1)) {
        return snp_cli_usage(cli, "'%.40s' is not a step: give its number, from 1",
                             snp_opts_arg(opts, 1));
    }
    if (past_find(cli, opts, &past, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "remove", false)) {
        return steps_remove(cli, &past);
    }
    if (number > (int64_t)json_array_size(past.steps)) {
        (void)snp_fail(&err, SNP_E_NOT_FOUND, "run %.8s has no step %lld; it made %zu",
                       past.info.id, (long long)number, json_array_size(past.steps));
        return snp_cli_fail(cli, &err);
    }
    if (number > 0) {
        return step_open(cli, opts, &past, json_array_get(past.steps, (size_t)number - 1));
    }
    if (cli->is_json) {
        snp_autojson json_t *answer = answer_make(&past);

        return snp_cli_print_json(answer);
    }
    return list_print(cli, &past);
}

const struct snp_verb snp_verb_back = {
    .name = "back",
    .summary = "open the session of a run as it was before a step",
    .description = "Make a new session with the variables and files that the run's session had "
                   "before a step. The run and its session do not change. State that cannot be "
                   "saved in variables is restored if the step has an image of the memory. Steps "
                   "of runs stay on disk within the budget of the journal; the oldest are removed "
                   "first. Without STEP the command lists the steps.",
    .spec = SNP_SPEC(options, args),
    .examples = "back 3f2a\nback 3f2a 3\nback 3f2a 3 -s before-it-broke\nback 3f2a --remove",
    .run = back_run,
};
