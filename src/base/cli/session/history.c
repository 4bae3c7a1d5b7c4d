/* SPDX-License-Identifier: Apache-2.0 */
/* Code and results are the sandbox's text: hostile, printed through term.h only. */
#include "base/cli/session/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/cli/unsaved.h"
#include "base/str.h"
#include "base/text/summary.h"
#include "base/wire/process.h"

enum {
    PAGE = 1000,           /* rows per request */
    READ_CELLS = 1000,     /* cells of a session in a page */
    READ_BYTES = 16 << 20, /* and bytes of them */
};

enum snp_style snp_cell_style(const char *status)
{
    static const struct {
        const char *status;
        enum snp_style style;
    } rows[] = {
        {"ok", SNP_STYLE_GREEN},
        {"running", SNP_STYLE_CYAN},
        {"unknown", SNP_STYLE_YELLOW},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].status, status) == 0) {
            return rows[i].style;
        }
    }
    return SNP_STYLE_RED;
}

/* ", exited with 3" of a row about a process, else "". */
static const char *process_text(const json_t *process, char text[SNP_SUMMARY_PROCESS + 2])
{
    text[0] = '\0';
    if (process != NULL) {
        SNP_READ(snp_process_state, how, process);
        memcpy(text, ", ", 2);
        (void)snp_summary_process(how.state, how.exit_code, how.signal, text + 2);
    }
    return text;
}

/* rows: newest first, printed oldest first. */
static void rows_print(const json_t *rows)
{
    static const char *const heads[] = {"Cell", "Status", "State", "Started", "Took", "Code"};
    struct snp_table table = SNP_TABLE(heads);

    for (size_t i = json_array_size(rows); i > 0; i--) {
        SNP_READ(snp_cell_row, row, json_array_get(rows, i - 1));
        bool is_rerun = row.rerun_of > 0;
        int64_t of = is_rerun ? row.rerun_of : row.replay_of;
        const char *state = row.state == NULL ? "-" : row.state;
        char displays[40] = "";
        char process[SNP_SUMMARY_PROCESS + 2];

        if (row.displays > 0) {
            (void)snprintf(displays, sizeof(displays), ", %" PRIu64 " display%s", row.displays,
                           row.displays == 1 ? "" : "s");
        }
        snp_table_addf(&table, "%" PRIu64, row.cell);
        snp_table_add(&table, row.status);
        snp_table_style(&table, snp_cell_style(row.status));
        if (of > 0) {
            snp_table_addf(&table, "%s, %s of %" PRId64 "%s%s", state,
                           is_rerun ? "rerun" : "replay", of, displays,
                           process_text(row.process, process));
        } else {
            snp_table_addf(&table, "%s%s%s", state, displays, process_text(row.process, process));
        }
        snp_table_add(&table, snp_human_when(row.started).text);
        snp_table_add(&table, snp_human_span(row.wall_us).text);
        snp_table_add(&table, json_string_value(row.first_line));
    }
    snp_table_print(stdout, &table, "no cells");
}

int64_t snp_cells_last(const json_t *rows)
{
    return snp_json_int(json_array_get(rows, json_array_size(rows) - 1), "cell", 0);
}

int snp_history_rows(struct snp_cli *cli,
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
        const json_t *page;
        int r = snp_remote_call(cli,
                                SNP_WRITE(snp_history_request, .session = session,
                                          .before = before > 0 ? (uint64_t)before : 0,
                                          .limit = (uint64_t)(want > PAGE ? PAGE : want)),
                                &reply, err);

        if (r < 0) {
            return r;
        }
        page = json_object_get(reply.head, "cells");
        whole = whole == NULL ? json_incref(reply.head) : whole;
        (void)json_array_extend(rows, (json_t *)(uintptr_t)page);
        before = snp_cells_last(page);
        if (before <= 1) {
            break; /* the first cell, or nothing more */
        }
    }
    (void)json_object_set(whole, "cells", rows);
    (void)json_object_set_new(whole, "session", json_string(session));
    *ret = SNP_TAKE_PTR(whole);
    return 0;
}

void snp_history_print(const json_t *answer, const char *session, int64_t limit)
{
    const json_t *rows = json_object_get(answer, "cells");

    rows_print(rows);
    if ((int64_t)json_array_size(rows) == limit && snp_cells_last(rows) > 1) {
        snp_term_printf(stderr, "earlier cells: history %s --before %" PRId64 "\n", session,
                        snp_cells_last(rows));
    }
    snp_missing_tell(answer, session);
}

int snp_history_tell(struct snp_cli *cli, const char *session)
{
    snp_autojson json_t *answer = NULL;
    struct snp_err ignored;
    int r = snp_session_name_check(session, &ignored);

    r = r < 0 ? r : snp_remote_find(cli, &ignored);
    r = r < 0 ? r : snp_history_rows(cli, session, 0, SNP_HISTORY_SHOWN, &answer, &ignored);
    if (r == 0) {
        snp_history_print(answer, session, SNP_HISTORY_SHOWN);
    }
    return r;
}

int snp_cell_get(struct snp_cli *cli,
                 const struct snp_cell_place *place,
                 struct snp_view *view,
                 struct snp_reply *ret,
                 struct snp_cell_show_answer *ret_cell,
                 struct snp_err *err)
{
    snp_autojson json_t *head = snp_need(
        SNP_WRITE(snp_cell_show_request, .session = place->session, .cell = (uint64_t)place->cell));
    const struct snp_call call = {
        .head = head, .event = view == NULL ? NULL : snp_view_event, .ctx = view};
    int r = snp_remote_send(cli, &call, ret, err);

    if (r == SNP_E_NOT_FOUND && snp_streq(err->object, "cell")) {
        return snp_fail(err, r, "session %.64s has no cell %lld", place->session,
                        (long long)place->cell);
    }
    if (r < 0) {
        return r;
    }
    snp_record_read(ret->head, &snp_cell_show_answer_form, ret_cell);
    return ret_cell->code_len > ret->raw_len
               ? snp_fail(err, SNP_E_PEER, "the daemon's record of the cell does not fit its bytes")
               : 0;
}

/* One object with the code and the result as in `exec --json`. New reference. */
static json_t *cell_object(struct snp_reply *reply,
                           const struct snp_cell_show_answer *cell,
                           json_t *shown)
{
    bool has_result = cell->result != NULL;
    json_t *seen = json_pack("{s:O?, s:O?}", "stdout", json_object_get(shown, "stdout"), "stderr",
                             json_object_get(shown, "stderr"));

    (void)json_object_del(reply->head, "code_len");
    (void)json_object_set_new(reply->head, "code", snp_json_bytes(reply->raw, cell->code_len));
    if (has_result) {
        (void)json_object_set(reply->head, "result", shown);
        json_decref(seen);
    } else {
        (void)json_object_set_new(reply->head, "seen", seen);
    }
    return json_incref(reply->head);
}

int snp_cell_json(struct snp_cli *cli,
                  const struct snp_cell_place *place,
                  const char *display_dir,
                  json_t **ret,
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
        r = display_dir == NULL ? 0 : snp_view_save(&view, reply.head, err);
    }
    *ret = r < 0 ? NULL : cell_object(&reply, &cell, shown);
    snp_view_done(&view);
    return r;
}

int snp_history_read(struct snp_cli *cli,
                     const char *session,
                     int (*record)(void *ctx, json_t *record, struct snp_err *err),
                     void *ctx,
                     struct snp_err *err)
{
    snp_autofree char *name = snp_need_copy(session);
    snp_autojson json_t *answer = NULL;
    snp_autojson json_t *cells = snp_need(json_array()); /* the newest first */
    snp_autojson json_t *head = NULL;
    const json_t *rows;
    json_int_t before = 0;
    size_t bytes = 0;
    int r = snp_history_rows(cli, session, 0, READ_CELLS, &answer, err);

    rows = json_object_get(answer, "cells");
    for (size_t i = 0; r == 0 && i < json_array_size(rows); i++) {
        const struct snp_cell_place place = {name,
                                             snp_json_int(json_array_get(rows, i), "cell", 0)};
        snp_autojson json_t *cell = NULL;

        r = snp_cell_json(cli, &place, NULL, &cell, err);
        bytes += r < 0 ? 0 : json_dumpb(cell, NULL, 0, JSON_COMPACT);
        if (r == 0 && bytes > READ_BYTES) {
            before = place.cell + 1;
            break;
        }
        if (r == 0) {
            (void)json_array_append(cells, cell);
        }
    }
    SNP_TRY(r);
    if (json_array_size(cells) == READ_CELLS) {
        before = snp_cells_last(rows);
    }
    head = snp_need(
        json_pack("{s:s, s:s, s:I}", "_type", "session", "name", session, "before", before));
    r = record(ctx, head, err);
    for (size_t i = json_array_size(cells); r == 0 && i > 0; i--) {
        r = record(ctx, json_array_get(cells, i - 1), err);
    }
    return r;
}
