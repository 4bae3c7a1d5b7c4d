/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `history`, `show` and `rerun`: what has run in a session, and running it again.
 *
 * Code and results are the sandbox's text: hostile, shown through term.h only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/show/human.h"
#include "cli/show/lost.h"
#include "cli/show/result.h"
#include "cli/show/term.h"
#include "text/escape.h"
#include "wire/exec.h"
#include "wire/session.h"

enum {
    COLUMNS = 6,
    NUMBER_MAX = 24,
    STATE_MAX = 80,
    PAGE = 1000,        /* rows asked for at once */
    LIMIT_DEFAULT = 50, /* rows shown */
    LIMIT_MAX = 1000000,
    ARGV_MAX_BYTES = 1 << 20,
    ESCAPE_FACTOR = 6, /* see term.c */
};

/* A cell that is meant: its session (owned) and number. */
struct cell_place {
    char *session;
    int64_t cell; /* 0 = the last one */
};

/* "SESSION:N", "N", or "SESSION", which is 0 for its last cell; --session may say the session. */
static int place_find(struct snp_client *client,
                      const struct snp_opts *opts,
                      const char *text,
                      struct cell_place *ret,
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
        session = strdup(number);
    }
    ret->cell = cell;
    return snp_remote_session(client, session, &ret->session, err);
}

/* history ------------------------------------------------------------------------------------ */

/* The texts of one row. */
struct line {
    char cell[NUMBER_MAX];
    char started[SNP_HUMAN_MAX];
    char took[SNP_HUMAN_MAX];
    char state[STATE_MAX];
};

static enum snp_style style_of(const char *status)
{
    static const struct {
        const char *status;
        enum snp_style style;
    } rows[] = {
        {"ok",      SNP_STYLE_GREEN },
        {"running", SNP_STYLE_CYAN  },
        {"unknown", SNP_STYLE_YELLOW},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].status, status) == 0) {
            return rows[i].style;
        }
    }
    return SNP_STYLE_RED;
}

/* What became of it, and which cell it repeats. */
static const char *state_text(const json_t *row, char *out, size_t out_len)
{
    long long rerun = (long long)snp_json_int(row, "rerun_of", 0);
    long long replay = (long long)snp_json_int(row, "replay_of", 0);
    const char *state = snp_json_str(row, "state", "-");

    if (rerun == 0 && replay == 0) {
        return state;
    }
    (void)snprintf(out, out_len, "%.40s, %s of %lld", state, rerun != 0 ? "rerun" : "replay",
                   rerun != 0 ? rerun : replay);
    return out;
}

static void line_fill(const json_t *row, struct line *line, const char **cells)
{
    (void)snprintf(line->cell, sizeof(line->cell), "%lld",
                   (long long)snp_json_int(row, "cell", 0));
    cells[0] = line->cell;
    cells[1] = snp_json_str(row, "status", "?");
    cells[2] = state_text(row, line->state, sizeof(line->state));
    cells[3] =
        snp_human_when(snp_json_number(row, "started"), line->started, sizeof(line->started));
    cells[4] = json_is_integer(json_object_get(row, "wall_us"))
                   ? snp_human_span((uint64_t)snp_json_int(row, "wall_us", 0), line->took,
                                    sizeof(line->took))
                   : "-";
    cells[5] = snp_json_str(row, "first_line", "");
}

/* rows: the newest first, printed the oldest first. */
static int rows_print(const json_t *rows, struct snp_err *err)
{
    static const char *const heads[COLUMNS] = {"Cell",    "Status", "State",
                                               "Started", "Took",   "Code"};
    size_t n = json_array_size(rows);
    snp_autofree struct line *lines = calloc(n + 1, sizeof(*lines));
    snp_autofree const char **cells = calloc((n + 1) * COLUMNS, sizeof(*cells));
    snp_autofree enum snp_style *styles = calloc((n + 1) * COLUMNS, sizeof(*styles));
    struct snp_table table = {.heads = heads, .n_cols = COLUMNS, .n_rows = n};

    if (lines == NULL || cells == NULL || styles == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (n == 0) {
        (void)puts("no cells");
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        line_fill(json_array_get(rows, n - 1 - i), &lines[i], &cells[i * COLUMNS]);
        styles[i * COLUMNS + 1] = style_of(cells[i * COLUMNS + 1]);
    }
    table.cells = cells;
    table.styles = styles;
    snp_table_print(stdout, &table);
    return 0;
}

/*
 * The newest `limit` cells before `before` (0 = all), page by page, as one answer with the name of
 * the session. New reference in *ret.
 */
static int rows_get(struct snp_client *client,
                    const char *session,
                    int64_t before,
                    int64_t limit,
                    json_t **ret,
                    struct snp_err *err)
{
    snp_autojson json_t *whole = NULL;
    snp_autojson json_t *rows = json_array();

    while ((int64_t)json_array_size(rows) < limit) {
        snp_autoreply struct snp_reply reply = {0};
        int64_t want = limit - (int64_t)json_array_size(rows);
        json_t *page;
        int r = snp_remote_call(client,
                                SNP_WRITE(snp_history_request, .session = session,
                                          .before = before > 0 ? (uint64_t)before : 0,
                                          .limit = (uint64_t)(want > PAGE ? PAGE : want)),
                                &reply, err);
        size_t n;

        if (r < 0) {
            return r;
        }
        page = json_object_get(reply.head, "cells");
        whole = whole == NULL ? json_incref(reply.head) : whole;
        n = json_array_size(page);
        if (json_array_extend(rows, page) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        before = n == 0 ? 0 : snp_json_int(json_array_get(page, n - 1), "cell", 0);
        if (before <= 1) {
            break; /* the first cell, or nothing more */
        }
    }
    if (whole == NULL || json_object_set(whole, "cells", rows) < 0 ||
        json_object_set_new(whole, "session", json_string(session)) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *ret = SNP_TAKE_PTR(whole);
    return 0;
}

static int run_history(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autofree char *session = NULL;
    snp_autojson json_t *answer = NULL;
    const json_t *rows;
    int64_t limit = snp_opts_int(opts, "limit", LIMIT_DEFAULT);
    int64_t first;
    struct snp_err err;
    int r;

    if (limit < 1 || limit > LIMIT_MAX) {
        return snp_cli_usage(cli, "--limit must be 1 to %d, not %lld", LIMIT_MAX,
                             (long long)limit);
    }
    if (snp_opts_given(opts, "before") && snp_opts_int(opts, "before", 0) < 1) {
        return snp_cli_usage(cli, "--before is the number of a cell: 1 or more");
    }
    r = snp_remote_connect(false, &client, &err);
    if (r == 0) {
        r = snp_remote_session_of(client, opts, &session, &err);
    }
    if (r == 0) {
        r = rows_get(client, session, snp_opts_int(opts, "before", 0), limit, &answer, &err);
    }
    if (r == 0 && snp_opts_flag(opts, "json", false)) {
        return snp_cli_print_json(answer);
    }
    rows = json_object_get(answer, "cells");
    if (r == 0) {
        r = rows_print(rows, &err);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    first = json_array_size(rows) == 0
                ? 0
                : snp_json_int(json_array_get(rows, json_array_size(rows) - 1), "cell", 0);
    if (first > 1) {
        (void)fprintf(stderr, "earlier cells: --limit, or --before %lld\n", (long long)first);
    }
    snp_missing_tell(answer, session);
    return SNP_EXIT_OK;
}

/* The number of the session's last cell. */
static int last_cell(struct snp_client *client,
                     const char *session,
                     int64_t *ret,
                     struct snp_err *err)
{
    snp_autojson json_t *answer = NULL;
    const json_t *rows;
    int r = rows_get(client, session, 0, 1, &answer, err);

    if (r < 0) {
        return r;
    }
    rows = json_object_get(answer, "cells");
    if (json_array_size(rows) == 0) {
        return snp_fail(err, SNP_E_NOT_FOUND, "no cell of %s is recorded", session);
    }
    *ret = snp_json_int(json_array_get(rows, 0), "cell", 0);
    return 0;
}

/* show --------------------------------------------------------------------------------------- */

static int on_event(
    void *ctx, const json_t *head, const char *raw, size_t raw_len, struct snp_err *err)
{
    return snp_view_event(ctx, head, raw, raw_len, err);
}

/*
 * A cell as recorded: head of `cell.show`, raw = its code, then its standard input. What it
 * has shown goes to view; NULL = nowhere.
 */
static int cell_get(struct snp_client *client,
                    const struct cell_place *place,
                    struct snp_view *view,
                    struct snp_reply *ret,
                    struct snp_err *err)
{
    snp_autojson json_t *head = SNP_WRITE(snp_cell_show_request, .session = place->session,
                                          .cell = (uint64_t)place->cell);
    struct snp_call call = {.head = head, .event = view == NULL ? NULL : on_event, .ctx = view};
    int64_t code_len;
    int r;

    if (head == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = snp_client_call(client, &call, ret, err);
    if (r == SNP_E_NOT_FOUND && snp_streq(err->object, "cell")) {
        return snp_fail(err, r, "session %.64s has no cell %lld", place->session,
                        (long long)place->cell);
    }
    if (r < 0) {
        return r;
    }
    code_len = snp_json_int(ret->head, "code_len", -1);
    if (code_len < 0 || (uint64_t)code_len > ret->raw_len) {
        return snp_fail(err, SNP_E_PEER,
                        "the daemon's record of the cell does not fit its bytes");
    }
    return 0;
}

static void heading(const char *text)
{
    snp_term_put(stdout, SNP_STYLE_CYAN, text);
    (void)putchar('\n');
}

/* Hostile text, a line of its own at its end. */
static void text_put(const char *text, size_t n)
{
    if (text != NULL && n > 0 && snp_term_write(stdout, text, n) == 0 && text[n - 1] != '\n') {
        (void)putchar('\n');
    }
}

/* Escaped in a pipe too: the words may come from an imported file. */
static void argv_put(const json_t *argv)
{
    snp_autobuf struct snp_buf text = {0};
    snp_autobuf struct snp_buf shown = {0};
    int r = 0;

    snp_buf_init(&text, ARGV_MAX_BYTES);
    snp_buf_init(&shown, (size_t)ARGV_MAX_BYTES * ESCAPE_FACTOR);
    for (size_t i = 0; i < json_array_size(argv); i++) {
        const json_t *word = json_array_get(argv, i);

        r = r < 0 ? r : snp_buf_adds(&text, i == 0 ? "" : " ");
        r = r < 0 ? r : snp_buf_add(&text, json_string_value(word), json_string_length(word));
    }
    if (r == 0 && snp_escape(&shown, snp_buf_bytes(&text), text.len) == 0) {
        (void)fwrite(snp_buf_bytes(&shown), 1, shown.len, stdout);
    }
    (void)putchar('\n');
}

static void title_put(const json_t *head, const char *session)
{
    char when[SNP_HUMAN_MAX];
    char age[SNP_HUMAN_MAX];
    char took[SNP_HUMAN_MAX] = "";
    const char *status = snp_json_str(head, "status", "?");
    const char *state = snp_json_str(head, "state", NULL);

    (void)printf("cell %lld of %s: ", (long long)snp_json_int(head, "cell", 0), session);
    snp_term_put(stdout, style_of(status), status);
    (void)printf("%s%s", state == NULL ? "" : ", ", state == NULL ? "" : state);
    (void)printf(", %s (%s)",
                 snp_human_when(snp_json_number(head, "started"), when, sizeof(when)),
                 snp_human_age(snp_json_number(head, "started"), age, sizeof(age)));
    if (json_is_integer(json_object_get(head, "wall_us"))) {
        (void)printf(", took %s", snp_human_span((uint64_t)snp_json_int(head, "wall_us", 0),
                                                 took, sizeof(took)));
    }
    (void)putchar('\n');
}

/* What the cell printed, from its recorded result. */
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

/* Why there is no result. */
static const char *why_none(const json_t *head)
{
    const char *status = snp_json_str(head, "status", "");

    if (strcmp(status, "running") == 0) {
        return "it runs";
    }
    if (strcmp(status, "refused") == 0) {
        return "it was refused before it ran, and left nothing";
    }
    return snp_json_bool(head, "dropped", false)
               ? "its result was removed to save disk space (gc)"
               : "how it ended is not known: the daemon or the machine ended first";
}

/* shown: what it printed and displayed, with the result if there is one. */
static void cell_put(const struct snp_reply *reply, const char *session, const json_t *shown)
{
    const json_t *argv = json_object_get(reply->head, "argv");
    const json_t *result = json_object_get(reply->head, "result");
    size_t code_len = (size_t)snp_json_int(reply->head, "code_len", 0);
    char size[NUMBER_MAX];
    struct snp_view view = {0};

    title_put(reply->head, session);
    if (json_array_size(argv) > 0) {
        heading(code_len > 0 ? "arguments" : "command");
        argv_put(argv);
    }
    if (code_len > 0) {
        heading("code");
        text_put(reply->raw, code_len);
    }
    if (reply->raw_len > code_len) {
        (void)printf("standard input: %s\n",
                     snp_format_bytes(reply->raw_len - code_len, size, sizeof(size)));
    }
    streams_put(shown);
    if (!json_is_object(result)) {
        heading("no result");
        (void)puts(why_none(reply->head));
        return;
    }
    if (snp_view_init(&view, true, NULL) == 0) {
        (void)snp_view_finish(&view, result);
    }
    snp_view_done(&view);
}

/* One object with everything: the code, and the result as `exec --json` has it. */
static int cell_json(struct snp_reply *reply, json_t *shown)
{
    size_t code_len = (size_t)snp_json_int(reply->head, "code_len", 0);
    bool has_result = json_is_object(json_object_get(reply->head, "result"));
    snp_autojson json_t *seen =
        json_pack("{s:O?, s:O?}", "stdout", json_object_get(shown, "stdout"), "stderr",
                  json_object_get(shown, "stderr"));

    (void)json_object_del(reply->head, "code_len");
    if (json_object_set_new(reply->head, "code", snp_json_bytes(reply->raw, code_len)) < 0 ||
        json_object_set(reply->head, has_result ? "result" : "seen",
                        has_result ? shown : seen) < 0) {
        return SNP_EXIT_FAILED;
    }
    return snp_cli_print_json(reply->head);
}

static int cell_show(struct snp_client *client,
                     const struct cell_place *place,
                     bool as_json,
                     int *ret_exit,
                     struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    snp_autojson json_t *nothing = json_object();
    snp_autojson json_t *shown = NULL;
    struct snp_view view = {0};
    json_t *result;
    int r = snp_view_init(&view, false, NULL);

    r = r < 0 ? snp_fail(err, SNP_E_NOMEM, "out of memory")
              : cell_get(client, place, &view, &reply, err);
    if (r == 0) {
        result = json_object_get(reply.head, "result");
        shown = snp_view_result(&view, json_is_object(result) ? result : nothing);
        r = shown == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
    }
    snp_view_done(&view);
    if (r == 0 && as_json) {
        *ret_exit = cell_json(&reply, shown);
    } else if (r == 0) {
        cell_put(&reply, place->session, shown);
    }
    return r;
}

static int run_show(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    struct cell_place place = {0};
    struct snp_err err;
    int exit_code = SNP_EXIT_OK;
    int r;

    if (snp_opts_n_args(opts) == 0 && !snp_opts_given(opts, "session")) {
        return snp_sessions_tell(cli, snp_opts_flag(opts, "json", false),
                                 "show SESSION:NUMBER");
    }
    r = snp_remote_connect(false, &client, &err);
    if (r == 0) {
        r = place_find(client, opts, snp_opts_arg(opts, 0), &place, &err);
    }
    if (r == 0 && place.cell == 0) {
        r = last_cell(client, place.session, &place.cell, &err);
    }
    if (r == 0) {
        r = cell_show(client, &place, snp_opts_flag(opts, "json", false), &exit_code, &err);
    }
    free(place.session);
    return r < 0 ? snp_cli_fail(cli, &err) : exit_code;
}

/* rerun -------------------------------------------------------------------------------------- */

/* Everything of one rerun. */
struct rerun {
    struct snp_client *client; /* borrowed */
    const char *session;       /* borrowed */
    json_t *done;              /* owned by the caller; NULL = print as it comes */
    bool is_range;             /* cells that repeat others are left out */
    int exit_code;             /* of the last cell */
};

/* The call as it was, its time limit included. */
static json_t *rerun_head(const struct rerun *rerun, const struct snp_reply *recorded)
{
    int64_t wall_ms = snp_json_int(recorded->head, "wall_ms", 0);
    snp_autojson json_t *limits =
        wall_ms > 0 ? json_pack("{s:I}", "timeout_ms", (json_int_t)wall_ms) : NULL;

    return SNP_WRITE(snp_exec_request, .transaction = true, .session = rerun->session,
                     .kind = snp_json_str(recorded->head, "kind", "python"),
                     .code_len = (uint64_t)snp_json_int(recorded->head, "code_len", 0),
                     .stdin = snp_json_bool(recorded->head, "stdin", false),
                     .argv = json_object_get(recorded->head, "argv"), .limits = limits,
                     .stream = rerun->done == NULL,
                     .rerun_of = (uint64_t)snp_json_int(recorded->head, "cell", 0));
}

/* Print or keep what came of it. */
static int rerun_take(struct rerun *rerun,
                      int64_t cell,
                      struct snp_view *view,
                      const struct snp_reply *answer,
                      struct snp_err *err)
{
    json_t *result;

    if (rerun->done == NULL) {
        if (snp_view_finish(view, answer->head) < 0 && rerun->exit_code == 0) {
            rerun->exit_code = SNP_EXIT_FAILED;
        }
        return 0;
    }
    result = snp_view_result(view, answer->head);
    if (result == NULL ||
        json_array_append_new(rerun->done, json_pack("{s:I, s:o}", "cell", (json_int_t)cell,
                                                     "result", result)) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

static int rerun_one(struct rerun *rerun, int64_t cell, struct snp_err *err)
{
    struct cell_place place = {(char *)(uintptr_t)rerun->session, cell};
    snp_autoreply struct snp_reply recorded = {0};
    snp_autoreply struct snp_reply answer = {0};
    snp_autojson json_t *head = NULL;
    struct snp_view view = {0};
    struct snp_call call = {.event = on_event, .ctx = &view};
    int r = cell_get(rerun->client, &place, NULL, &recorded, err);

    if (r < 0) {
        return r;
    }
    if (rerun->is_range && (snp_json_int(recorded.head, "rerun_of", 0) != 0 ||
                            snp_json_int(recorded.head, "replay_of", 0) != 0)) {
        rerun->exit_code = SNP_EXIT_OK;
        return 0;
    }
    head = rerun_head(rerun, &recorded);
    if (head == NULL || snp_view_init(&view, rerun->done == NULL, NULL) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    (void)fprintf(stderr, "rerun: cell %lld of %s\n",
                  (long long)snp_json_int(recorded.head, "cell", 0), rerun->session);
    call.head = head;
    call.raw = recorded.raw;
    call.raw_len = recorded.raw_len;
    r = snp_client_call(rerun->client, &call, &answer, err);
    if (r == 0) {
        rerun->exit_code = snp_result_exit(
            answer.head, snp_streq(snp_json_str(recorded.head, "kind", NULL), "command"));
        r = rerun_take(rerun, snp_json_int(recorded.head, "cell", 0), &view, &answer, err);
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
        if (snp_client_interrupted(rerun->client)) {
            break;
        }
    }
    rerun->exit_code = failed;
    return 0;
}

static int rerun_range(struct snp_client *client,
                       const struct snp_opts *opts,
                       struct cell_place *place,
                       int64_t *ret_last,
                       struct snp_err *err)
{
    int64_t from = snp_opts_int(opts, "from", 0);
    int r = place_find(client, opts, snp_opts_arg(opts, 0), place, err);

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
    r = last_cell(client, place->session, ret_last, err);
    place->cell = from > 0 ? from : *ret_last;
    if (r == 0 && place->cell > *ret_last) {
        r = snp_fail(err, SNP_E_NOT_FOUND, "--from %lld: the last cell of %s is %lld",
                     (long long)from, place->session, (long long)*ret_last);
    }
    return r;
}

static int run_rerun(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autojson json_t *done = snp_opts_flag(opts, "json", false) ? json_array() : NULL;
    struct rerun rerun = {.done = done};
    struct cell_place place = {0};
    int64_t last = 0;
    struct snp_err err;
    int r;

    if (snp_opts_given(opts, "from") && snp_opts_int(opts, "from", 0) < 1) {
        return snp_cli_usage(cli, "--from is the number of a cell: 1 or more");
    }
    r = snp_remote_connect(true, &client, &err);
    if (r == 0) {
        r = rerun_range(client, opts, &place, &last, &err);
    }
    if (r == 0) {
        rerun.client = client;
        rerun.session = place.session;
        rerun.is_range = snp_opts_given(opts, "from");
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
    {"limit",  'n', SNP_OPT_INT, "N", "show the last N cells (default 50)", 0},
    {"before", 0,   SNP_OPT_INT, "N", "only cells before cell N",           0},
    SNP_CLI_OPT_SESSION,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt show_options[] = {
    SNP_CLI_OPT_SESSION,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt rerun_options[] = {
    SNP_CLI_OPT_SESSION,
    {"from",       0,   SNP_OPT_INT,  "N",  "run cell N and all later cells again, except reruns", 0},
    {"keep-going", 'k', SNP_OPT_FLAG, NULL, "continue after a cell that fails",                    0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg history_args[] = {SNP_CLI_ARG_SESSION};
static const struct snp_opt_arg show_args[] = {
    {"CELL", "SESSION:NUMBER, a number, or SESSION for its last cell", 0, 1}
};
static const struct snp_opt_arg rerun_args[] = {
    {"CELL", "SESSION:NUMBER, a number, or SESSION for its last cell (default)", 0, 1}
};

const struct snp_verb snp_verb_history = {
    .name = "history",
    .summary = "list what has run in a session",
    .description =
        "List a session's cells: how each ended, what became of its effects, when it began, "
        "how long it took, and its first line. `running`: it has not ended yet. `refused`: it "
        "could not run. `unknown`: the daemon or the machine ended while it ran.",
    .spec = {history_options, SNP_ARRAY_LEN(history_options), history_args,
             SNP_ARRAY_LEN(history_args), false},
    .examples = "history work\nhistory work -n 5 --json",
    .run = run_history,
};
const struct snp_verb snp_verb_show = {
    .name = "show",
    .summary = "show a recorded cell: its code and its result",
    .description = "Show a recorded cell: code, arguments, output, and how it ended. Without "
                   "an argument it lists the sessions.",
    .spec = {show_options, SNP_ARRAY_LEN(show_options), show_args, SNP_ARRAY_LEN(show_args),
             false},
    .examples = "show work:3\nshow 3 -s work --json",
    .run = run_show,
};
const struct snp_verb snp_verb_rerun = {
    .name = "rerun",
    .summary = "run recorded cells again",
    .description =
        "Run a recorded cell again in its session as it is now: the same code, arguments and "
        "standard input, as a new cell. Variables and files may differ from the first time; "
        "roll the session back first if that matters. Standard error names the cells that run.",
    .spec = {rerun_options, SNP_ARRAY_LEN(rerun_options), rerun_args, SNP_ARRAY_LEN(rerun_args),
             false},
    .examples = "rerun work:3\nrollback work@loaded && rerun -s work --from 4",
    .exit_codes = "0  every cell finished\n"
                  "1  a cell failed, or could not be run\n"
                  "2  used wrongly\n"
                  "For a command its own exit code, as with exec.",
    .run = run_rerun,
};
