/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `runs call`: answer the MCP server's tools about a run, for the model that calls them. The state
 * of a run follows from its record alone (run/state.h), so it survives a restart of the server.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cli/need.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/text/text.h"
#include "cli/run/runs.h"
#include "run/outcome.h"
#include "trajectory/reader.h"
#include "trajectory/writer.h"

enum {
    WAIT_MAX_S = 3600,   /* for the end of a run */
    RECORD_MAX_MIB = 32, /* of a record that is read */
    LOOK_MS = 50,        /* between two looks whether a run has ended */
    END_MS = 5000,       /* for the end of a cancelled run to be recorded */
    KILLED_MS = 5000,    /* for the kernel to end a killed one */
    TEXT_INDENT = 2,
    REAL_DIGITS = 10,
    ID_MIN = 8,            /* characters of a run's id */
    TASK_SHOWN = 200,      /* characters */
    ITERATIONS_SHOWN = 15, /* summaries, the last ones */
    FILES_SHOWN = 15,      /* names of each kind */
    SHOWN_MAX = 8000,      /* characters of the whole, unindented */
    CLEAN_GROWTH = 8,      /* bytes that one may become */
};

/* Reading ----------------------------------------------------------------------------------- */

struct record_reader {
    struct snp_run_state state;
    json_t *process; /* owned: who writes, or NULL */
};

static void reading_done(struct record_reader *reading)
{
    snp_run_state_done(&reading->state);
    json_decref(reading->process);
}

static int on_line(void *ctx, json_t *record, struct snp_err *err)
{
    struct record_reader *reading = ctx;
    json_t *process = json_object_get(record, "process");

    if (json_is_object(process)) {
        json_decref(reading->process);
        reading->process = json_incref(process);
    }
    return snp_run_state_apply(&reading->state, record, err);
}

static int record_read(const char *path,
                       struct record_reader *reading,
                       uint64_t *ret_age_ms,
                       struct snp_err *err)
{
    struct snp_trajectory_check check = {0};
    struct stat st;
    uint64_t now = snp_wall_us() / 1000;
    uint64_t changed;
    int r;

    if (stat(path, &st) < 0) {
        return snp_fail_sys(err, errno, "%s", path);
    }
    if (st.st_size > (off_t)RECORD_MAX_MIB << 20) {
        return snp_fail(err, SNP_E_LIMIT,
                        "the record %s has %lld MiB (limit %d MiB); snipara-sandbox runs show "
                        "reads larger ones",
                        path, (long long)(st.st_size >> 20), RECORD_MAX_MIB);
    }
    changed = (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000;
    *ret_age_ms = now > changed ? now - changed : 0;
    r = snp_run_state_init(&reading->state) < 0
            ? snp_fail(err, SNP_E_NOMEM, "out of memory")
            : snp_trajectory_read(path, on_line, reading, &check, err);
    if (r == 0 && (reading->state.head == NULL || check.n_broken > 0)) {
        r = snp_fail(err, SNP_E_INVALID,
                     "the record %s is damaged or of another program; check it with "
                     "snipara-sandbox logs verify",
                     path);
    }
    return r;
}

/* Showing ----------------------------------------------------------------------------------- */

/* A text of at most max characters on one line. New reference, NULL when out of memory. */
static json_t *line_json(const char *text, size_t max)
{
    snp_autobuf struct snp_buf line = {0};

    snp_buf_init(&line, max * CLEAN_GROWTH);
    return snp_text_line(&line, text, strlen(text), max) < 0 ? NULL : snp_text_json(&line);
}

static json_t *text_clean(const json_t *text)
{
    snp_autobuf struct snp_buf clean = {0};
    size_t n = json_string_length(text);

    snp_buf_init(&clean, n * CLEAN_GROWTH + 1);
    return snp_text_clean(&clean, json_string_value(text), n) < 0 ? NULL : snp_text_json(&clean);
}

/* A copy with cleaned texts. Keys are ours. New reference, NULL when out of memory. */
static json_t *clean_copy(
    const json_t *value) /* NOLINT(misc-no-recursion): results have three levels */
{
    json_t *copy = NULL;
    json_t *item;
    const char *key;
    size_t i;

    if (json_is_string(value)) {
        return text_clean(value);
    }
    if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach((json_t *)(uintptr_t)value, i, item)
        {
            (void)json_array_append_new(copy, clean_copy(item));
        }
        return copy;
    }
    if (json_is_object(value)) {
        copy = json_object();
        json_object_foreach((json_t *)(uintptr_t)value, key, item)
        {
            (void)json_object_set_new(copy, key, clean_copy(item));
        }
        return copy;
    }
    return json_incref((json_t *)(uintptr_t)value);
}

/* Keep at most max items of a list, the first or the last. */
static void list_cut(json_t *list, size_t max, bool is_first)
{
    while (json_array_size(list) > max) {
        (void)json_array_remove(list, is_first ? json_array_size(list) - 1 : 0);
    }
}

/* {"created", "modified", "deleted"}: names of a few, and "total". */
static json_t *files_json(const struct snp_run_state *state)
{
    static const char *const kinds[] = {"created", "modified", "deleted"};
    json_t *files = snp_run_state_files(state);
    size_t total = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(kinds); i++) {
        json_t *list = json_object_get(files, kinds[i]);

        total += json_array_size(list);
        list_cut(list, FILES_SHOWN, true);
    }
    (void)json_object_set_new(files, "total", json_integer((json_int_t)total));
    return files;
}

static json_t *result_json(const struct snp_run_state *state)
{
    const struct snp_run_ending ending = snp_run_ending_of(state);
    json_t *result = snp_run_outcome_agent(state, &ending);

    list_cut(json_object_get(result, "iteration_summaries"), ITERATIONS_SHOWN, false);
    (void)json_object_set_new(result, "stopped_by",
                              ending.stopped_by == NULL ? json_null()
                                                        : json_string(ending.stopped_by));
    (void)json_object_set_new(result, "files", files_json(state));
    return result;
}

static const char *status_of(const struct snp_run_state *state, bool is_open)
{
    const char *by = snp_json_str(state->end, "stopped_by", "");

    if (state->end == NULL) {
        return is_open ? "running" : "interrupted";
    }
    return strcmp(by, "cancelled") == 0 ? "cancelled"
           : strcmp(by, "error") == 0   ? "error"
                                        : "completed";
}

/* The session of a run; NULL: it ended with a run that is done and changed no file. */
static const char *session_of(const struct snp_run_state *state)
{
    bool is_done = state->end != NULL && snp_json_bool(state->end, "success", false);
    size_t n = json_object_size(state->files.created) + json_object_size(state->files.modified) +
               json_object_size(state->files.deleted);

    return is_done && n == 0 ? NULL : snp_json_str(state->head, "session", NULL);
}

/* Progress of the run. */
static json_t *brief_json(const struct snp_run_state *state, const char *status, double elapsed)
{
    return json_pack(
        "{s:O, s:s, s:o, s:f, s:O, s:s*, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "run_id",
        json_object_get(state->head, "run_id"), "status", status, "task",
        line_json(snp_json_str(state->head, "prompt", ""), TASK_SHOWN), "elapsed_seconds", elapsed,
        "trajectory_id", json_object_get(state->head, "trajectory_id"), "session",
        session_of(state), "iteration", (json_int_t)state->iteration, "max_iterations",
        (json_int_t)state->budget.iterations, "tool_calls", (json_int_t)state->tool_calls,
        "total_tokens", (json_int_t)snp_run_state_tokens(state), "token_budget",
        (json_int_t)state->budget.tokens, "total_cost", snp_run_outcome_cost(state), "cost_limit",
        state->budget.cost_usd < 0 ? json_null() : json_real(state->budget.cost_usd));
}

/* Add members that depend on the status. */
static int more_add(const struct snp_run_state *state, const char *status, json_t *shown)
{
    const char *error = snp_json_str(state->end, "error", NULL);
    const char *id = snp_json_str(state->head, "run_id", "");
    int r = 0;

    if (state->end != NULL) {
        r |= json_object_set_new(shown, "result", result_json(state));
    }
    if (error != NULL) {
        r |= json_object_set_new(shown, "error", json_string(error));
    }
    /* The id is pasted into a shell: nothing else may be there. */
    if (strlen(id) == ID_MIN && strspn(id, "0123456789abcdef") == ID_MIN &&
        strcmp(status, "running") != 0 && (state->end == NULL || error != NULL)) {
        r |= json_object_set_new(shown, "resume", json_sprintf("snipara-sandbox resume %s", id));
    }
    return r;
}

/*
 * The answer about a run: {"run_id", "status", ...}; bounded, and text of models and sandboxes is
 * cleaned. *ret: new reference.
 */
static int state_json(const char *path, json_t **ret, struct snp_err *err)
{
    snp_cleanup(reading_done) struct record_reader reading = {0};
    snp_autojson json_t *shown = NULL;
    const struct snp_run_state *state = &reading.state;
    bool is_open = snp_trajectory_is_written(path); /* before reading: an end is not missed */
    uint64_t age_ms = 0;
    const char *status;
    int r = record_read(path, &reading, &age_ms, err);

    if (r < 0) {
        return r;
    }
    status = status_of(state, is_open);
    shown = brief_json(
        state, status,
        (double)(state->elapsed_ms + (strcmp(status, "running") == 0 ? (int64_t)age_ms : 0)) /
            1000);
    if (shown == NULL || more_add(state, status, shown) != 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *ret = clean_copy(shown);
    if (*ret == NULL || snp_text_bound(*ret, SHOWN_MAX) < 0) {
        json_decref(*ret);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

/* The verb ---------------------------------------------------------------------------------- */

static void wait_for_end(const char *path, uint64_t ms)
{
    uint64_t until = snp_now_us() + ms * 1000;

    while (snp_trajectory_is_written(path) && snp_now_us() < until) {
        (void)poll(NULL, 0, LOOK_MS);
    }
}

/* Stop a run; may_kill: kill it if it does not end. SNP_E_NOT_FOUND: it had ended. */
static int stop(const char *path, bool may_kill, struct snp_err *err)
{
    snp_cleanup(reading_done) struct record_reader reading = {0};
    uint64_t age_ms;

    SNP_TRY(record_read(path, &reading, &age_ms, err));
    SNP_TRY(snp_trajectory_stop(path, reading.process, SIGTERM, err));
    wait_for_end(path, END_MS);
    if (!snp_trajectory_is_written(path)) {
        return 0;
    }
    if (!may_kill) {
        return snp_fail(err, SNP_E_LIMIT,
                        "the agent is still running; another server started it, so this one does "
                        "not kill it");
    }
    SNP_TRY(snp_trajectory_stop(path, reading.process, SIGKILL, err));
    wait_for_end(path, KILLED_MS);
    return snp_fail(err, SNP_E_LIMIT,
                    "the agent did not stop and was killed: its status is interrupted");
}

static int answer_cancel(const char *path, const char *id, bool may_kill, struct snp_err *err)
{
    snp_autojson json_t *shown = NULL;
    const char *status;
    int r = snp_trajectory_is_written(path) ? stop(path, may_kill, err) : 0;

    if (r < 0 && r != SNP_E_NOT_FOUND) {
        return r;
    }
    SNP_TRY(state_json(path, &shown, err));
    status = snp_json_str(shown, "status", "");
    if (snp_streq(status, "cancelled")) {
        (void)printf("Agent run '%s' cancelled", id);
    } else {
        (void)printf("Agent run '%s' had already ended: %s", id, status);
    }
    return 0;
}

static int answer_status(const char *path, uint64_t wait_ms, struct snp_err *err)
{
    snp_autojson json_t *shown = NULL;

    wait_for_end(path, wait_ms);
    SNP_TRY(state_json(path, &shown, err));
    return json_dumpf(shown, stdout, JSON_INDENT(TEXT_INDENT) | JSON_REAL_PRECISION(REAL_DIGITS)) <
                   0
               ? snp_fail(err, SNP_E_SYS, "standard output cannot be written")
               : 0;
}

/* Errors are the answer's text, with exit status 1. */
int snp_runs_call(struct snp_cli *cli, const struct snp_opts *opts)
{
    const char *id = snp_opts_arg(opts, 1);
    int64_t asked_s = snp_opts_int(opts, "wait", 0);
    uint64_t wait_s = asked_s < 0 ? 0 : asked_s > WAIT_MAX_S ? WAIT_MAX_S : (uint64_t)asked_s;
    snp_autofree char *path = NULL;
    struct snp_err err;
    int r = snp_trajectory_find(snp_opts_arg(opts, 0), id, &path, &err);

    (void)cli;
    if (r == SNP_E_NOT_FOUND) {
        (void)printf("Error: Run '%s' not found", id);
        return SNP_EXIT_FAILED;
    }
    if (r == 0) {
        r = snp_opts_flag(opts, "cancel", false)
                ? answer_cancel(path, id, snp_opts_flag(opts, "kill", false), &err)
                : answer_status(path, wait_s * 1000, &err);
    }
    if (r < 0) {
        (void)printf("Error: %s", err.msg);
    }
    return r < 0 ? SNP_EXIT_FAILED : SNP_EXIT_OK;
}
