/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `history`, `show` and `rerun`: cells of a session, and running them again.
 *
 * Code and results are the sandbox's text: hostile, printed through term.h only.
 */
#include "base/cli/session/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/cli/session/result.h"
#include "base/cli/term.h"
#include "base/str.h"
#include "base/text/summary.h"
#include "base/wire/exec.h"
#include "base/wire/session.h"
#include "cli/cli.h"

enum {
    LIMIT_MAX = 1000000,
};

/* "SESSION:N", "N", or "SESSION", which is 0 for its last cell; --session may name the session. */
static int place_find(struct snp_cli *cli,
                      const struct snp_opts *opts,
                      const char *text,
                      struct snp_cell_place *ret,
                      struct snp_err *err)
{
    snp_autofree char *session = NULL;
    const char *number = NULL;
    int64_t cell = 0;
    int r = snp_remote_split(opts, text, ':', &session, &number, err);

    if (r < 0) {
        return r;
    }
    if (number != NULL && (snp_parse_i64(number, &cell) < 0 || cell < 1)) {
        if (strchr(text, ':') != NULL || (session != NULL && strcmp(session, number) != 0)) {
            return snp_fail(err, SNP_E_INVALID,
                            "'%.80s' is not a cell: give its number, or SESSION:NUMBER", text);
        }
        cell = 0; /* the word is the session */
        free(session);
        session = snp_need_copy(number);
    }
    ret->cell = cell;
    return snp_remote_session(cli, session, &ret->session, err);
}

/* history ------------------------------------------------------------------------------------ */

static int run_history(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autofree char *session = NULL;
    snp_autojson json_t *answer = NULL;
    int64_t limit = snp_opts_int(opts, "limit", SNP_HISTORY_SHOWN);
    struct snp_err err;
    int r;

    if (limit < 1 || limit > LIMIT_MAX) {
        return snp_cli_usage(cli, "--limit must be 1 to %d, not %lld", LIMIT_MAX, (long long)limit);
    }
    if (snp_opts_given(opts, "before") && snp_opts_int(opts, "before", 0) < 1) {
        return snp_cli_usage(cli, "--before is the number of a cell: 1 or more");
    }
    r = snp_remote_session_of(cli, opts, &session, &err);
    if (r == 0) {
        r = snp_history_rows(cli, session, snp_opts_int(opts, "before", 0), limit, &answer, &err);
    }
    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, answer);
    }
    snp_history_print(answer, session, limit);
    return SNP_EXIT_OK;
}

/* The number of the session's last cell. */
static int last_cell(struct snp_cli *cli, const char *session, int64_t *ret, struct snp_err *err)
{
    snp_autojson json_t *answer = NULL;
    int r = snp_history_rows(cli, session, 0, 1, &answer, err);

    *ret = r < 0 ? 0 : snp_cells_last(json_object_get(answer, "cells"));
    return r == 0 && *ret == 0 ? snp_fail(err, SNP_E_NOT_FOUND, "%s has no recorded cells", session)
                               : r;
}

/* show --------------------------------------------------------------------------------------- */

static void heading(const char *text)
{
    snp_term_put(stdout, SNP_STYLE_CYAN, text);
    (void)putchar('\n');
}

/* Print hostile text, with a line end at its end. */
static void text_put(const char *text, size_t n)
{
    if (text != NULL && n > 0 && snp_term_write(stdout, text, n) == 0 && text[n - 1] != '\n') {
        (void)putchar('\n');
    }
}

/* Escaped in a pipe too: the words may come from an imported file. */
static void argv_put(const json_t *argv)
{
    size_t i;
    json_t *word;

    json_array_foreach((json_t *)(uintptr_t)argv, i, word)
    {
        snp_autofree char *shown = snp_term_line(json_string_value(word), json_string_length(word));
        (void)printf("%s%s", i == 0 ? "" : " ", shown);
    }
    (void)putchar('\n');
}

static void title_put(const struct snp_cell_show_answer *cell, const char *session)
{
    (void)printf("cell %" PRIu64 " of %s: ", cell->cell, session);
    snp_term_put(stdout, snp_cell_style(cell->status), cell->status);
    (void)printf("%s%s, %s (%s), took %s\n", cell->state == NULL ? "" : ", ",
                 cell->state == NULL ? "" : cell->state, snp_human_when(cell->started).text,
                 snp_human_age(cell->started).text, snp_human_span(cell->wall_us).text);
    if (cell->process != NULL) {
        char text[SNP_SUMMARY_PROCESS];

        SNP_READ(snp_process_state, how, cell->process);
        (void)printf("process: %s\n",
                     snp_summary_process(how.state, how.exit_code, how.signal, text));
    }
}

/* The output of a cell, from its recorded result. */
static void streams_put(const json_t *result)
{
    static const char *const streams[] = {"stdout", "stderr"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(streams); i++) {
        const json_t *text = json_object_get(result, streams[i]);

        if (json_string_length(text) > 0) {
            heading(streams[i]);
            text_put(json_string_value(text), json_string_length(text));
        }
    }
}

/* Print the text displays; others can only be saved. */
static void displays_put(const json_t *displays)
{
    bool has_any = false;
    size_t i;
    json_t *display;

    json_array_foreach((json_t *)(uintptr_t)displays, i, display)
    {
        const json_t *text = json_object_get(display, "text/plain");

        if (json_string_length(text) > 0) {
            if (!has_any) {
                heading("displays");
            }
            has_any = true;
            text_put(json_string_value(text), json_string_length(text));
        }
    }
}

/* Why there is no result. */
static const char *why_none(const struct snp_cell_show_answer *cell)
{
    if (strcmp(cell->status, "running") == 0) {
        return "it is running";
    }
    if (strcmp(cell->status, "refused") == 0) {
        return "it was refused before it ran";
    }
    return cell->dropped ? "its result was removed to save disk space (gc)"
                         : "its outcome is unknown: the daemon or the machine stopped first";
}

/*
 * shown: output and displays, with the result if there is one; view: the same, for --display-dir.
 */
static int cell_put(const struct snp_reply *reply,
                    const struct snp_cell_show_answer *cell,
                    const char *session,
                    const json_t *shown,
                    struct snp_view *view,
                    struct snp_err *err)
{
    title_put(cell, session);
    if (json_array_size(cell->argv) > 0) {
        heading(cell->code_len > 0 ? "arguments" : "command");
        argv_put(cell->argv);
    }
    if (cell->code_len > 0) {
        heading("code");
        text_put(reply->raw, cell->code_len);
    }
    if (reply->raw_len > cell->code_len) {
        (void)printf("standard input: %s\n", snp_human_bytes(reply->raw_len - cell->code_len).text);
    }
    streams_put(shown);
    displays_put(json_object_get(shown, "displays"));
    if (cell->result == NULL) {
        heading("no result");
        (void)puts(why_none(cell));
        return view->display_dir == NULL ? 0 : snp_view_save(view, reply->head, err);
    }
    view->is_live = true; /* the output is already printed */
    return snp_view_finish(view, cell->result) < 0
               ? snp_fail(err, SNP_E_SYS, "some displays of the cell were not saved")
               : 0;
}

/* Print a recorded cell. display_dir: where its displays are saved; NULL = nowhere. */
static int cell_show(struct snp_cli *cli,
                     const struct snp_cell_place *place,
                     const char *display_dir,
                     struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    snp_autojson json_t *nothing = json_object();
    snp_autojson json_t *shown = NULL;
    struct snp_cell_show_answer cell = {0};
    struct snp_view view;
    int r;

    snp_view_init(&view, false, display_dir);
    r = snp_cell_get(cli, place, &view, &reply, &cell, err);
    if (r == 0) {
        shown = snp_view_result(&view, cell.result != NULL ? cell.result : nothing);
        r = cell_put(&reply, &cell, place->session, shown, &view, err);
    }
    snp_view_done(&view);
    return r;
}

static int run_show(struct snp_cli *cli, const struct snp_opts *opts)
{
    struct snp_cell_place place = {0};
    const char *display_dir = snp_opts_str(opts, "display-dir");
    snp_autojson json_t *cell = NULL;
    struct snp_err err;
    int r;

    if (snp_opts_n_args(opts) == 0 && !snp_opts_given(opts, "session")) {
        return snp_sessions_tell(cli, "show SESSION:NUMBER");
    }
    r = place_find(cli, opts, snp_opts_arg(opts, 0), &place, &err);
    if (r == 0 && place.cell == 0) {
        r = last_cell(cli, place.session, &place.cell, &err);
    }
    if (r == 0) {
        r = cli->is_json ? snp_cell_json(cli, &place, display_dir, &cell, &err)
                         : cell_show(cli, &place, display_dir, &err);
    }
    free(place.session);
    return r < 0 || cli->is_json ? snp_cli_end(cli, r, &err, cell) : SNP_EXIT_OK;
}

/* rerun -------------------------------------------------------------------------------------- */

/* Everything of one rerun. */
struct rerun {
    struct snp_cli *cli;
    char *session;
    const char *display_dir;
    json_t *done;  /* owned by the caller; NULL = print as it arrives */
    bool is_range; /* repeated cells are skipped */
    int exit_code; /* of the last cell */
};

/* The original call, including its time limit. */
static json_t *rerun_head(const struct rerun *rerun, const struct snp_cell_show_answer *cell)
{
    snp_autojson json_t *limits =
        cell->wall_ms > 0 ? json_pack("{s:I}", "timeout_ms", (json_int_t)cell->wall_ms) : NULL;

    return snp_need(SNP_WRITE(snp_exec_request, .transaction = true, .session = rerun->session,
                              .kind = cell->kind, .code_len = cell->code_len, .stdin = cell->stdin,
                              .open_stdin = cell->open_stdin, .argv = cell->argv, .limits = limits,
                              .stream = rerun->done == NULL, .rerun_of = cell->cell));
}

/* Print or store the outcome. */
static void rerun_take(struct rerun *rerun, uint64_t cell, struct snp_view *view, json_t *answer)
{
    struct snp_err err;

    if (rerun->done != NULL) {
        if (view->display_dir != NULL && snp_view_save(view, answer, &err) < 0) {
            snp_term_printf(stderr, "rerun: %s\n", err.msg);
            rerun->exit_code = rerun->exit_code == 0 ? SNP_EXIT_FAILED : rerun->exit_code;
        }
        (void)json_array_append_new(rerun->done,
                                    json_pack("{s:I, s:o}", "cell", (json_int_t)cell, "result",
                                              snp_view_result(view, answer)));
    } else if (snp_view_finish(view, answer) < 0 && rerun->exit_code == 0) {
        rerun->exit_code = SNP_EXIT_FAILED;
    }
}

static int rerun_one(struct rerun *rerun, int64_t number, struct snp_err *err)
{
    const struct snp_cell_place place = {rerun->session, number};
    snp_autoreply struct snp_reply recorded = {0};
    snp_autoreply struct snp_reply answer = {0};
    snp_autojson json_t *head = NULL;
    struct snp_cell_show_answer cell = {0};
    struct snp_view view;
    struct snp_call call = {.event = snp_view_event, .ctx = &view};
    int r = snp_cell_get(rerun->cli, &place, NULL, &recorded, &cell, err);

    if (r < 0) {
        return r;
    }
    if (rerun->is_range && (cell.rerun_of > 0 || cell.replay_of > 0)) {
        rerun->exit_code = SNP_EXIT_OK;
        return 0;
    }
    head = rerun_head(rerun, &cell);
    snp_view_init(&view, rerun->done == NULL, rerun->display_dir);
    (void)fprintf(stderr, "rerun: cell %" PRIu64 " of %s\n", cell.cell, rerun->session);
    call.head = head;
    call.raw = recorded.raw;
    call.raw_len = recorded.raw_len;
    r = snp_remote_send(rerun->cli, &call, &answer, err);
    if (r == 0) {
        rerun->exit_code =
            snp_result_exit(answer.head, snp_streq(cell.kind, "command") ? SNP_EXIT_OF_COMMAND
                                                                         : SNP_EXIT_OF_PYTHON);
        rerun_take(rerun, cell.cell, &view, answer.head);
    }
    snp_view_done(&view);
    return r;
}

static int rerun_all(
    struct rerun *rerun, int64_t first, int64_t last, bool keep_going, struct snp_err *err)
{
    int failed = 0;

    for (int64_t cell = first; cell <= last; cell++) {
        int r = rerun_one(rerun, cell, err);

        if (r < 0) {
            return r;
        }
        failed = rerun->exit_code != 0 ? rerun->exit_code : failed;
        if (failed != 0 && !keep_going) {
            if (cell < last) {
                (void)fprintf(stderr, "rerun: stopped; cells %lld to %lld were not run\n",
                              (long long)cell + 1, (long long)last);
            }
            break;
        }
        if (rerun->cli->signal_no != 0) {
            break;
        }
    }
    rerun->exit_code = failed;
    return 0;
}

static int rerun_range(struct snp_cli *cli,
                       const struct snp_opts *opts,
                       struct snp_cell_place *place,
                       int64_t *ret_last,
                       struct snp_err *err)
{
    int64_t from = snp_opts_int(opts, "from", 0);
    int r = place_find(cli, opts, snp_opts_arg(opts, 0), place, err);

    if (r < 0) {
        return r;
    }
    if (place->cell > 0 && from > 0) {
        return snp_fail(err, SNP_E_INVALID, "give one CELL, or --from with a number from 1");
    }
    if (place->cell > 0) {
        *ret_last = place->cell;
        return 0;
    }
    r = last_cell(cli, place->session, ret_last, err);
    place->cell = from > 0 ? from : *ret_last;
    if (r == 0 && place->cell > *ret_last) {
        r = snp_fail(err, SNP_E_NOT_FOUND, "--from %lld: the last cell of %s is %lld",
                     (long long)from, place->session, (long long)*ret_last);
    }
    return r;
}

static int run_rerun(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *done = cli->is_json ? json_array() : NULL;
    struct rerun rerun = {.cli = cli,
                          .display_dir = snp_opts_str(opts, "display-dir"),
                          .done = done,
                          .is_range = snp_opts_given(opts, "from")};
    struct snp_cell_place place = {0};
    int64_t last = 0;
    struct snp_err err;
    int r;

    if (snp_opts_given(opts, "from") && snp_opts_int(opts, "from", 0) < 1) {
        return snp_cli_usage(cli, "--from is the number of a cell: 1 or more");
    }
    cli->takes_signals = true;
    r = rerun_range(cli, opts, &place, &last, &err);
    rerun.session = place.session;
    if (r == 0) {
        r = rerun_all(&rerun, place.cell, last, snp_opts_flag(opts, "keep-going", false), &err);
    }
    if (r == 0 && done != NULL) {
        snp_autojson json_t *answer =
            json_pack("{s:s, s:O}", "session", place.session, "reran", done);
        r = snp_cli_print_json(answer) == 0
                ? 0
                : snp_fail(&err, SNP_E_SYS, "standard output is closed");
    }
    free(place.session);
    return r < 0 ? snp_cli_fail(cli, &err) : rerun.exit_code;
}

/* Verbs --------------------------------------------------------------------------------------- */

static const struct snp_opt history_options[] = {
    {"limit", 'n', SNP_OPT_INT, "N", "show the last N cells (default 50)", 0},
    {"before", 0, SNP_OPT_INT, "N", "only cells before cell N", 0},
    SNP_CLI_OPT_SESSION,
    SNP_CLI_OPT_JSON,
};
#define DISPLAY_OPTION                                                                        \
    {                                                                                         \
        "display-dir", 0, SNP_OPT_STRING, "DIR", "save displayed images and HTML as files", 0 \
    }
static const struct snp_opt show_options[] = {
    SNP_CLI_OPT_SESSION,
    DISPLAY_OPTION,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt rerun_options[] = {
    SNP_CLI_OPT_SESSION,
    {"from", 0, SNP_OPT_INT, "N", "run cell N and all later cells again, except reruns", 0},
    DISPLAY_OPTION,
    {"keep-going", 'k', SNP_OPT_FLAG, NULL, "continue after a cell that fails", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg history_args[] = {SNP_CLI_ARG_SESSION};
static const struct snp_opt_arg show_args[] = {
    {"CELL", "SESSION:NUMBER, a number, or SESSION for its last cell", 0, 1}};
static const struct snp_opt_arg rerun_args[] = {
    {"CELL", "SESSION:NUMBER, a number, or SESSION for its last cell (default)", 0, 1}};

const struct snp_verb snp_verb_history = {
    .name = "history",
    .summary = "list the cells of a session",
    .description = "List a session's cells: status, whether the effects were kept, start, "
                   "duration, number of displays (images, tables; `show --display-dir` saves "
                   "them) and the first line of code. `running`: the cell has not ended yet. "
                   "`refused`: it could not run. `unknown`: the daemon or the machine stopped "
                   "while it ran.",
    .spec = SNP_SPEC(history_options, history_args),
    .examples = "history work\nhistory work -n 5 --json",
    .run = run_history,
};
const struct snp_verb snp_verb_show = {
    .name = "show",
    .summary = "show a recorded cell: its code and its result",
    .description = "Show a recorded cell: code, arguments, output, and how it ended. Without "
                   "an argument it lists the sessions.",
    .spec = SNP_SPEC(show_options, show_args),
    .examples = "show work:3\nshow work:3 --display-dir plots\nshow 3 -s work --json",
    .run = run_show,
};
const struct snp_verb snp_verb_rerun = {
    .name = "rerun",
    .summary = "run recorded cells again",
    .description =
        "Run a recorded cell again in its session as it is now: the same code, arguments and "
        "standard input, as a new cell. Variables and files may differ from those of the first "
        "run; roll the session back first if that matters. Standard error names the cells that "
        "run.",
    .spec = SNP_SPEC(rerun_options, rerun_args),
    .examples = "rerun work:3\nrollback work@loaded\nrerun -s work --from 4",
    .exit_codes = "0  every cell finished\n"
                  "1  a cell failed, or could not be run\n"
                  "2  usage error\n"
                  "sys.exit(N): N. A command: its exit code, as with exec.",
    .run = run_rerun,
};
