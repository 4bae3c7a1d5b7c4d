/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_MISSING_H
#define SNP_DAEMON_SAVE_MISSING_H

/*
 * Losses of a session without an executor: cells that ran after the checkpoint it would wake from,
 * and files put since. Read from the journal on the store's thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/policy/session_name.h"

struct snp_session;
struct snp_tx;

enum {
    SNP_MISSING_CELLS_MAX = 10000, /* listed; beyond these only the number is known */
};

struct snp_missing_cell {
    uint64_t cell;
    char status[16];
    /* Replays that ended differently from the first run; those that ended the session add two. */
    unsigned failed;
};

enum {
    SNP_MISSING_DEADLY = 2, /* at this value of `failed` a replay would end the session again */
};

/* Zeroed = nothing missing. */
struct snp_missing {
    struct snp_missing_cell *cells; /* owned, n_cells of them, oldest first */
    size_t n_cells;
    uint64_t n_beyond; /* cells after these */
    char **puts;       /* owned, n_puts of them: paths of files, the last ones */
    size_t n_puts;
    bool has_rollback;      /* a rollback after the checkpoint */
    uint64_t rollback_cell; /* the cell that the last such rollback went back to */
};

/* A session's position, for a job on the store's thread. */
struct snp_missing_place {
    char id[SNP_SESSION_ID_LEN + 1];
    char name[SNP_SESSION_NAME_MAX + 1];
    uint64_t after; /* cells up to this one need no replay */
    uint64_t checkpoint;
    uint64_t checkpoint_cell;
};

void snp_missing_place(const struct snp_session *session, struct snp_missing_place *ret);

/* *ret is replaced, and is the caller's, also on failure. */
int snp_missing_find(struct snp_tx *tx,
                     const struct snp_missing_place *place,
                     struct snp_missing *ret,
                     struct snp_err *err) SNP_NODISCARD;

bool snp_missing_any(const struct snp_missing *missing);

/* The first cell whose replay would end the session again; NULL: none. */
const struct snp_missing_cell *snp_missing_deadly(const struct snp_missing *missing);

/*
 * Remove the cells that failed in a replay. Their numbers, a new reference; NULL when out of
 * memory.
 */
json_t *snp_missing_leave_out(struct snp_missing *missing);

/* If anything is missing: SNP_E_DENIED with the list and the remedies. */
int snp_missing_check(struct snp_tx *tx,
                      const struct snp_missing_place *place,
                      struct snp_err *err) SNP_NODISCARD;
/* The same for a list that was found before. */
int snp_missing_fail(const struct snp_missing *missing,
                     const struct snp_missing_place *place,
                     struct snp_err *err);

/*
 * {"cells": the first 100, "n_cells", "files": paths, "n_files", "rollback": the cell it went back
 * to, or null, "text": all of it for people, "recover": choices for `exec`}. NULL when out of
 * memory.
 */
json_t *snp_missing_to_json(const struct snp_missing *missing);

void snp_missing_done(struct snp_missing *missing);

#endif
