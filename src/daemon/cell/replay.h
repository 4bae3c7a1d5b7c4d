/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_REPLAY_H
#define SNP_DAEMON_CELL_REPLAY_H

/* Read missing cells from the journal to run them again, and compare both runs. */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct snp_exec;
struct snp_session;
struct snp_tx;

/* Zeroed at first. The job owns it while it is pending. */
struct snp_cell_replay {
    const char *session;  /* its id; borrowed */
    uint64_t last;        /* the cell that was replayed before; 0 = none */
    uint64_t last_replay; /* the number of that replay */
    json_t *differs;      /* owned: sentences about how it differed; NULL = none */
    uint64_t cell;        /* to be replayed next; 0 = none */
    struct snp_buf code;  /* owned: its code, then standard input */
    size_t code_len;
    char kind[16];
    char *argv; /* owned: JSON; or NULL */
    char *spec; /* owned: JSON; or NULL */
};

/*
 * On the store's thread: compare the last cell by all that the journal has, and read the next. arg:
 * the replay.
 */
int snp_replay_read(struct snp_tx *tx, void *arg, struct snp_err *err) SNP_NODISCARD;

/* The request of the cell that was read, as it was then. *ret: owned by the caller. */
int snp_replay_exec(const struct snp_cell_replay *replay,
                    struct snp_session *session,
                    struct snp_exec **ret,
                    struct snp_err *err) SNP_NODISCARD;

void snp_replay_done(struct snp_cell_replay *replay);

#endif
