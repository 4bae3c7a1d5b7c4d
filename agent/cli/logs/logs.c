/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `logs`: list, show, check, export and compare records of runs. The titles of its list and of one
 * record are those of version 2.x.
 *
 * Records hold text of models and of sandboxed code: hostile text, which is shown escaped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/history.h"
#include "base/cli/session/list.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/text/text.h"
#include "cli/logs/logs_export.h"
#include "cli/logs/page.h"
#include "cli/run/calls.h"
#include "cli/run/runs.h"
#include "main/verbs.h"
#include "run/code_prompt.h"
#include "trajectory/reader.h"

enum {
    ID_SHOWN = 8,
    TEXT_SHOWN = 80, /* characters of prompt and response */
    TAIL_DEFAULT = 10,
    TAIL_MAX = 1000000,
    LINE_BYTES = 4096,
};

static void faults_tell(const struct snp_cli *cli,
                        const char *path,
                        const struct snp_trajectory_check *check)
{
    snp_autofree char *text = snp_trajectory_passed_over(path, check);

    if (text != NULL) {
        snp_cli_warn(cli, "%s", text);
    }
}

/* List -------------------------------------------------------------------------------------- */

static const char *stamp_of(const struct snp_trajectory_info *info)
{
    return snp_json_str(info->head, "timestamp", snp_json_str(info->end, "timestamp", ""));
}

static void row_add(struct snp_table *table, const struct snp_trajectory_info *info)
{
    snp_table_addf(table, "%.*s", ID_SHOWN, info->id);
    snp_table_add(table, snp_human_stamp(stamp_of(info)).text);
    snp_table_addf(table, "%lld", (long long)info->calls);
    snp_table_addf(table, "%lld", (long long)info->tokens);
    snp_table_addf(table, "%lldms", (long long)info->duration_ms);
    snp_table_add(table, snp_trajectory_state_name(info->state));
}

static json_t *row_json(const struct snp_trajectory_info *info)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:s, s:s?, s:s?}", "id", info->id, "timestamp",
                     stamp_of(info), "calls", (json_int_t)info->calls, "tokens",
                     (json_int_t)info->tokens, "duration_ms", (json_int_t)info->duration_ms, "path",
                     snp_json_bytes(info->path, strlen(info->path)), "state",
                     snp_trajectory_state_name(info->state), "kind",
                     snp_json_str(info->head, "kind", NULL), "prompt",
                     snp_json_str(info->head, "prompt", NULL));
}

/* Unreadable records are reported on stderr and skipped. */
static int list_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    static const char *const heads[] = {"ID", "Timestamp", "Calls", "Tokens", "Duration", "State"};
    struct snp_table table = SNP_TABLE(heads);
    int64_t tail = snp_opts_int(opts, "tail", TAIL_DEFAULT);
    snp_autojson json_t *paths = NULL;
    snp_autojson json_t *list = json_array();
    snp_autofree char *dir = NULL;
    struct snp_err err;
    size_t i;
    json_t *path;

    if (tail < 1 || tail > TAIL_MAX) {
        return snp_cli_usage(cli, "--tail must be 1 to %d", TAIL_MAX);
    }
    if (snp_runs_folder(cli, opts, &dir, &err) < 0 ||
        snp_trajectory_list(dir, (size_t)tail, &paths, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    json_array_foreach(paths, i, path)
    {
        snp_cleanup(snp_trajectory_info_done) struct snp_trajectory_info info = {0};

        if (snp_trajectory_info_read(json_string_value(path), &info, &err) < 0) {
            snp_cli_warn(cli, "%s", err.msg);
            continue;
        }
        faults_tell(cli, json_string_value(path), &info.check);
        if (cli->is_json) {
            (void)json_array_append_new(list, row_json(&info));
        } else {
            row_add(&table, &info);
        }
    }
    if (cli->is_json) {
        return snp_cli_print_json(list);
    }
    if (table.n_cells > 0) {
        snp_term_put(stdout, SNP_STYLE_BOLD, "Recent Trajectories");
        (void)putchar('\n');
    }
    snp_table_print(stdout, &table, "No trajectories found");
    snp_sessions_below(cli);
    return SNP_EXIT_OK;
}

/* Show -------------------------------------------------------------------------------------- */

/* One line of at most 80 characters, whatever the text is. */
static void line_print(const char *name, const json_t *text)
{
    snp_autobuf struct snp_buf line = {0};
    size_t n = json_string_length(text);

    snp_buf_init(&line, LINE_BYTES);
    if (n == 0 || snp_text_line(&line, json_string_value(text),
                                n < LINE_BYTES / 8 ? n : LINE_BYTES / 8, TEXT_SHOWN) < 0) {
        return;
    }
    snp_term_printf(stdout, "  %s: %s\n", name, snp_buf_cstr(&line));
}

static int event_collect(void *ctx, json_t *record, struct snp_err *err)
{
    return snp_trajectory_is_event(record) ? snp_runs_collect(ctx, record, err) : 0;
}

/* A run being printed. */
struct shown_run {
    json_t *events; /* owned */
    json_t *steps;  /* owned: their numbers, by step_key */
};

static void shown_done(struct shown_run *shown)
{
    json_decref(shown->events);
    json_decref(shown->steps);
}

/* The key of a tool call in a model's call. */
static char *step_key(const char *call_id, const char *tool_call_id)
{
    return snp_need_format("%s %s", call_id, tool_call_id);
}

static int shown_collect(void *ctx, json_t *record, struct snp_err *err)
{
    struct shown_run *shown = ctx;

    if (json_is_integer(json_object_get(record, "number"))) {
        snp_autofree char *key =
            step_key(snp_json_str(record, "call_id", ""), snp_json_str(record, "tool_call_id", ""));

        (void)json_object_set(shown->steps, key, json_object_get(record, "number"));
    }
    return event_collect(shown->events, record, err);
}

/* Print each call with the result of the same id, or by position without ids. */
static void calls_print(const json_t *event, const json_t *steps)
{
    const json_t *results = json_object_get(event, "tool_results");
    size_t i;
    json_t *call;
    size_t k;
    json_t *result;

    json_array_foreach((json_t *)(uintptr_t)json_object_get(event, "tool_calls"), i, call)
    {
        const json_t *found = json_array_get(results, i);
        snp_autofree char *step = NULL;

        json_array_foreach((json_t *)(uintptr_t)results, k, result)
        {
            if (snp_streq(snp_json_str(result, "tool_call_id", ""),
                          snp_json_str(call, "id", NULL))) {
                found = result;
            }
        }
        step = step_key(snp_json_str(event, "call_id", ""), snp_json_str(call, "id", ""));
        if (snp_json_int(steps, step, 0) > 0) {
            (void)printf("Step %lld ", (long long)snp_json_int(steps, step, 0));
        }
        snp_run_call_show(stdout, call);
        snp_run_result_show(stdout, json_object_get(found, "content"));
    }
}

/* Whether the prompt of an event repeats the last result that was shown. */
static bool is_shown(const json_t *before, const json_t *event)
{
    const json_t *results = json_object_get(before, "tool_results");
    const json_t *last = json_array_get(results, json_array_size(results) - 1);

    return json_is_string(json_object_get(last, "content")) &&
           json_equal(json_object_get(last, "content"), json_object_get(event, "prompt"));
}

/* before: the event before it, or NULL. */
static void event_print(const json_t *before, const json_t *event, const json_t *steps)
{
    const json_t *calls = json_object_get(event, "tool_calls");
    snp_autojson json_t *names = json_string("");
    size_t i;
    json_t *call;

    json_array_foreach((json_t *)(uintptr_t)calls, i, call)
    {
        json_t *more = json_sprintf("%s%s%s", json_string_value(names), i == 0 ? "" : ", ",
                                    snp_json_str(call, "name", "?"));

        json_decref(names);
        names = more;
    }
    snp_term_put(stdout, SNP_STYLE_BOLD, "Call ");
    (void)printf("%s (depth=%lld)\n", snp_json_str(event, "call_id", "?"),
                 (long long)snp_json_int(event, "depth", 0));
    if (!is_shown(before, event)) {
        line_print("Prompt", json_object_get(event, "prompt"));
    }
    line_print("Response", json_object_get(event, "response"));
    line_print("Tools", names);
    line_print("Error", json_object_get(event, "error"));
    (void)printf("  Tokens: %lld in / %lld out\n",
                 (long long)snp_json_int(event, "input_tokens", 0),
                 (long long)snp_json_int(event, "output_tokens", 0));
    (void)printf("  Duration: %lldms\n", (long long)snp_json_int(event, "duration_ms", 0));
    calls_print(event, steps);
}

/* The state of the run: its answer, or its error. */
static int state_print(struct snp_cli *cli, const char *path, const struct shown_run *shown)
{
    snp_cleanup(snp_trajectory_info_done) struct snp_trajectory_info info = {0};
    const json_t *end;
    const json_t *error;
    bool is_open;
    struct snp_err err;

    if (snp_trajectory_info_read(path, &info, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    end = json_object_get(info.end, "end");
    error = json_object_get(end, "error");
    is_open = snp_run_is_open(&info);
    if (json_array_size(shown->events) > 0) {
        snp_term_put(stdout, SNP_STYLE_BOLD, "End");
        (void)printf("\n  State: %s\n", snp_trajectory_state_name(info.state));
    } else {
        (void)printf("No model calls recorded\n  State: %s\n",
                     snp_trajectory_state_name(info.state));
    }
    snp_run_block_show(stdout, "Answer", json_object_get(json_object_get(end, "final"), "answer"));
    if (json_is_string(error)) {
        (void)fputs("  Error: ", stdout);
        (void)!snp_term_write(stdout, json_string_value(error), json_string_length(error));
        (void)putchar('\n');
    }
    if (is_open) {
        (void)printf("  Continue with: snipara-sandbox resume %.*s\n", ID_SHOWN, info.id);
    }
    if (json_object_size(shown->steps) > 0) {
        snp_autofree char *next = snp_need_format("back %.*s STEP", ID_SHOWN, info.id);

        snp_cli_next(cli, next);
    }
    return SNP_EXIT_OK;
}

static int show_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autofree char *path = NULL;
    snp_cleanup(shown_done) struct shown_run shown = {snp_need(json_array()),
                                                      snp_need(json_object())};
    struct snp_trajectory_check check;
    struct snp_err err;
    int r = snp_runs_find(cli, opts, 0, &path, &err);
    size_t i;
    json_t *event;

    if (r == SNP_E_NOT_FOUND && !cli->is_json &&
        snp_history_tell(cli, snp_opts_arg(opts, 0)) == 0) {
        return SNP_EXIT_OK;
    }
    if (r == SNP_E_NOT_FOUND) { /* as version 2.x reports it */
        r = snp_fail(&err, r, "Trajectory not found: %.80s", snp_opts_arg(opts, 0));
    }
    r = r < 0 ? r : snp_trajectory_read(path, shown_collect, &shown, &check, &err);
    if (r < 0) {
        err.code = r == SNP_E_INVALID ? SNP_E_NOT_FOUND : err.code; /* no usage error */
        return snp_cli_fail(cli, &err);
    }
    faults_tell(cli, path, &check);
    if (cli->is_json) {
        return snp_cli_print_json(shown.events);
    }
    json_array_foreach(shown.events, i, event)
    {
        event_print(i == 0 ? NULL : json_array_get(shown.events, i - 1), event, shown.steps);
    }
    return state_print(cli, path, &shown);
}

static int logs_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    return snp_opts_n_args(opts) == 0 ? list_run(cli, opts) : show_run(cli, opts);
}

static const struct snp_opt list_options[] = {
    SNP_RUNS_OPT_DIR('d'),
    {"tail", 'n', SNP_OPT_INT, "N", "list the newest N (default 10)", 0},
    SNP_CLI_OPT_JSON,
    SNP_CLI_OPT_CONFIG,
};
static const struct snp_opt_arg list_args[] = {
    {"RUN", "the run to show (its id, or the beginning of its id), or a session of exec", 0, 1},
};

static const struct snp_verb verb_list = {
    .name = "list",
    .summary = "list the newest runs and the sessions of exec, or show one",
    .spec = SNP_SPEC(list_options, list_args),
    .examples = "logs\nlogs 3f2a\nlogs verify 3f2a\nlogs export 3f2a --format md",
    .run = logs_run,
};

static const struct snp_opt other_options[] = {SNP_RUNS_OPT_DIR('d'), SNP_CLI_OPT_JSON,
                                               SNP_CLI_OPT_CONFIG};
static const struct snp_opt_arg one_arg[] = {
    {"RUN", "id of the run, or its beginning", 1, 1},
};

static const struct snp_verb verb_show = {
    .name = "show",
    .summary = "show one run, as `logs ID` does",
    .spec = SNP_SPEC(other_options, one_arg),
    .run = show_run,
};

/* Verify ------------------------------------------------------------------------------------ */

static void verdict_print(const struct snp_trajectory_info *info, bool is_good)
{
    const struct snp_trajectory_check *check = &info->check;

    snp_term_put(stdout, is_good ? SNP_STYLE_GREEN : SNP_STYLE_RED,
                 is_good              ? "intact"
                 : !check->is_chained ? "no hash chain"
                                      : "damaged");
    (void)printf(": %s\n  Records: %zu\n  State: %s\n", info->path, check->n_lines,
                 snp_trajectory_state_name(info->state));
    if (check->first_bad > 0) {
        snp_term_printf(stdout, "  First fault: line %zu: %s\n", check->first_bad, check->why);
    }
    if (check->torn > 0) {
        (void)printf("  Cut off at the end: %zu bytes of an incomplete record\n", check->torn);
    }
    if (!check->is_ended && check->is_chained) {
        snp_term_printf(stdout,
                        "  No end recorded: the run is still running, was interrupted, or its end "
                        "was cut off\n");
    }
    if (check->is_chained) {
        (void)printf("  Last hash: %s\n", check->chain.last);
    }
}

static int verify_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autofree char *path = NULL;
    snp_cleanup(snp_trajectory_info_done) struct snp_trajectory_info info = {0};
    struct snp_err err;
    bool is_good;
    int r = snp_runs_find(cli, opts, 0, &path, &err);

    r = r < 0 ? r : snp_trajectory_info_read(path, &info, &err);
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    is_good = info.check.is_chained && info.check.n_corrupt == 0 && info.check.n_broken == 0;
    if (cli->is_json) {
        snp_autojson json_t *verdict = json_pack(
            "{s:s, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:s?, s:I, s:s?}", "id", info.id, "intact",
            is_good, "chained", info.check.is_chained, "ended", info.check.is_ended, "records",
            (json_int_t)info.check.n_lines, "corrupt", (json_int_t)info.check.n_corrupt, "broken",
            (json_int_t)info.check.n_broken, "first_bad_line", (json_int_t)info.check.first_bad,
            "why", info.check.first_bad > 0 ? info.check.why : NULL, "torn_bytes",
            (json_int_t)info.check.torn, "last_hash",
            info.check.is_chained ? info.check.chain.last : NULL);

        r = snp_cli_print_json(verdict);
        return r != SNP_EXIT_OK || is_good ? r : SNP_EXIT_FAILED;
    }
    verdict_print(&info, is_good);
    return is_good ? SNP_EXIT_OK : SNP_EXIT_FAILED;
}

static const struct snp_verb verb_verify = {
    .name = "verify",
    .summary = "check the hash chain of a run's record",
    .description = "Check that every line of a record is unchanged and in its place; exit with 1 "
                   "if not. A file that was replaced as a whole passes; to detect that, compare "
                   "its last hash with a copy of that hash.",
    .spec = SNP_SPEC(other_options, one_arg),
    .run = verify_run,
};

/* Export ------------------------------------------------------------------------------------ */

static const struct snp_opt export_options[] = {
    SNP_RUNS_OPT_DIR('d'),
    {"format", 'f', SNP_OPT_STRING, "FORMAT", "json (default), md or html", 0},
    {"out", 'o', SNP_OPT_STRING, "FILE", "file to write (default: standard output)", 0},
    SNP_CLI_OPT_CONFIG,
};
static void on_warn(void *ctx, const char *text)
{
    snp_cli_warn(ctx, "%s", text);
}

/* The record at path in a form. */
static int export_make(struct snp_cli *cli,
                       const char *path,
                       enum snp_logs_format format,
                       struct snp_buf *out,
                       struct snp_err *err)
{
    const struct snp_page page = {.path = path, .warn = on_warn, .ctx = cli};
    snp_autojson json_t *records = NULL;
    struct snp_trajectory_check check;
    struct snp_page_made made;
    int r;

    if (format == SNP_LOGS_HTML) {
        return snp_page_make(&page, out, &made, err);
    }
    records = json_array();
    r = snp_trajectory_read(path, snp_runs_collect, records, &check, err);
    r = r < 0 ? r : snp_logs_export(records, format, out, err);
    if (r == 0) {
        faults_tell(cli, path, &check);
    }
    return r;
}

static int export_write(const struct snp_buf *out, const char *path, struct snp_err *err)
{
    if (path != NULL) {
        return snp_file_write_atomic(path, snp_buf_bytes(out), out->len, 0600, err);
    }
    return snp_term_write(stdout, snp_buf_bytes(out), out->len) < 0 || fflush(stdout) != 0
               ? snp_fail(err, SNP_E_SYS, "standard output is closed")
               : 0;
}

static int export_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autofree char *path = NULL;
    snp_autobuf struct snp_buf out = {0};
    const char *format = snp_opts_str(opts, "format");
    struct snp_err err;
    int r;

    format = format == NULL ? "json" : format;
    if (snp_logs_format(format) < 0) {
        return snp_cli_usage(cli, "--format is json, md or html, not '%.40s'", format);
    }
    snp_buf_init(&out, SNP_LOGS_EXPORT_MAX);
    r = snp_runs_find(cli, opts, 0, &path, &err);
    r = r < 0 ? r
              : export_make(cli, path, (enum snp_logs_format)snp_logs_format(format), &out, &err);
    r = r < 0 ? r : export_write(&out, snp_opts_str(opts, "out"), &err);
    return r < 0 ? snp_cli_fail(cli, &err) : SNP_EXIT_OK;
}

static const struct snp_verb verb_export = {
    .name = "export",
    .summary = "write a run as JSON, Markdown or one HTML page",
    .spec = SNP_SPEC(export_options, one_arg),
    .examples = "logs export 3f2a --format md\nlogs export 3f2a -f html -o run.html",
    .run = export_run,
};

/* Diff -------------------------------------------------------------------------------------- */

static const struct snp_opt_arg two_args[] = {
    {"A", "id of a run", 1, 1},
    {"B", "id of another", 1, 1},
};
static int diff_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *sides = json_pack("[[], []]");
    struct snp_err err;
    int r = 0;

    for (size_t i = 0; i < 2 && r == 0; i++) {
        snp_autofree char *path = NULL;
        struct snp_trajectory_check check;

        r = snp_runs_find(cli, opts, i, &path, &err);
        r = r < 0
                ? r
                : snp_trajectory_read(path, event_collect, json_array_get(sides, i), &check, &err);
        if (r == 0) {
            faults_tell(cli, path, &check);
        }
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    return snp_logs_diff(json_array_get(sides, 0), json_array_get(sides, 1), cli->is_json);
}

static const struct snp_verb verb_diff = {
    .name = "diff",
    .summary = "compare two runs",
    .description = "Call by call: responses, tool calls and tool results that differ. Exit status "
                   "1 if any do.",
    .spec = SNP_SPEC(other_options, two_args),
    .exit_codes = "0  no difference\n1  they differ, or cannot be read\n2  usage error",
    .run = diff_run,
};

static const struct snp_verb *const verbs[] = {&verb_list,   &verb_show, &verb_verify,
                                               &verb_export, &verb_diff, NULL};

const struct snp_verb snp_verb_logs = {
    .name = "logs",
    .summary = "list, show, verify, export and compare records of runs",
    .verbs = verbs,
    .fallback = &verb_list,
};
