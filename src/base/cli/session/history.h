/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SESSION_HISTORY_H
#define SNP_BASE_CLI_SESSION_HISTORY_H

/* Recorded cells of a session. */

#include "base/cli/cli.h"
#include "base/cli/session/result.h"
#include "base/cli/term.h"
#include "base/wire/call.h"
#include "base/wire/session.h"

enum {
    SNP_HISTORY_SHOWN = 50, /* rows */
};

/* The requested cell: its session (owned) and number. */
struct snp_cell_place {
    char *session;
    int64_t cell; /* 0 = the last one */
};

enum snp_style snp_cell_style(const char *status);
/* The number of the oldest cell, in the last row; 0 = no rows. */
int64_t snp_cells_last(const json_t *rows);
/*
 * The newest `limit` cells before `before` (0 = all), page by page, as one answer with the name of
 * the session. New reference in *ret.
 */
int snp_history_rows(struct snp_cli *cli,
                     const char *session,
                     int64_t before,
                     int64_t limit,
                     json_t **ret,
                     struct snp_err *err) SNP_NODISCARD;
/* Print that answer, oldest first, and how to list earlier cells. */
void snp_history_print(const json_t *answer, const char *session, int64_t limit);
/*
 * A cell as recorded: head of `cell.show`, raw = its code, then its standard input. Its displays go
 * to view; NULL = dropped.
 */
int snp_cell_get(struct snp_cli *cli,
                 const struct snp_cell_place *place,
                 struct snp_view *view,
                 struct snp_reply *ret,
                 struct snp_cell_show_answer *ret_cell,
                 struct snp_err *err) SNP_NODISCARD;
/*
 * A recorded cell as `show --json` prints it: code, and the result as in `exec --json`. *ret: the
 * caller's. display_dir: where its displays are saved; NULL = nowhere.
 */
int snp_cell_json(struct snp_cli *cli,
                  const struct snp_cell_place *place,
                  const char *display_dir,
                  json_t **ret,
                  struct snp_err *err) SNP_NODISCARD;
/* Print the newest cells of the session with that name. < 0: no such session, or no daemon. */
int snp_history_tell(struct snp_cli *cli, const char *session);
/*
 * Call record with {"_type": "session", "name", "before"}, then with the newest cells of a session,
 * oldest first, as `show --json` prints them. before: cells before this number were left out;
 * 0 = none.
 */
int snp_history_read(struct snp_cli *cli,
                     const char *session,
                     int (*record)(void *ctx, json_t *record, struct snp_err *err),
                     void *ctx,
                     struct snp_err *err) SNP_NODISCARD;

#endif
