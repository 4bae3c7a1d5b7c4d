/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_JOURNAL_PRIV_H
#define SNP_STORE_JOURNAL_PRIV_H

/* Shared by the files of the journal. */

#include "base/wire/snapshot.h"
#include "store/journal.h"
#include "store/state.h"

/*
 * The order of a session's checkpoints: by the state they hold, not by the time of writing. c: the
 * prefix of the columns' names.
 */
#define SNP_NEWEST_FIRST(c) \
    " ORDER BY " c "epoch DESC, " c "cell DESC, " c "effect DESC, " c "row DESC"

/* For a row of snapshots: it is not a run's step. */
#define SNP_IS_NO_STEP "IFNULL(name NOT LIKE '" SNP_STEP_PREFIX "%', 1)"

/* The row of a session. ret_epoch may be NULL. SNP_E_NOT_FOUND. */
int snp_session_row(struct snp_tx *tx,
                    const char *id,
                    int64_t *ret_row,
                    uint64_t *ret_epoch,
                    struct snp_err *err) SNP_NODISCARD;

/* SNP_E_NOT_FOUND: the session has no such cell. */
int snp_cell_unknown(const char *session, uint64_t cell, struct snp_err *err);

/* Add bytes to a session's disk space, or subtract them. */
int snp_session_grow(struct snp_tx *tx, int64_t row, int64_t bytes, struct snp_err *err)
    SNP_NODISCARD;

#endif
