/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_DURABLE_H
#define SNP_DAEMON_SAVE_DURABLE_H

/*
 * What the journal has of a session, as it changes otherwise than by a checkpoint (checkpoint.c).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

struct snp_journal_session;
struct snp_session;

/* What the journal's row of a session says, on its way from the store's thread to the loop. */
struct snp_durable_row {
    uint64_t disk_bytes;
    uint64_t checkpoint; /* the latest usable one; 0 = none */
    uint64_t checkpoint_cell;
    uint64_t checkpoint_bytes;
    bool has_image;
    json_t *lost; /* owned; or NULL */
};

/* On the store's thread. *ret is replaced. */
void snp_durable_row_read(const struct snp_journal_session *from, struct snp_durable_row *ret);
void snp_durable_row_done(struct snp_durable_row *row);
/* On the loop. */
void snp_durable_row_adopt(struct snp_session *session, const struct snp_durable_row *row);

/* It is in the journal, with this checkpoint. lost: owned by the caller, or NULL. */
void snp_durable_known(struct snp_session *session,
                       uint64_t checkpoint,
                       uint64_t checkpoint_cell,
                       json_t *lost);

/* It went back: this checkpoint of now is its latest, and it holds no more. */
void snp_durable_rolled_back(struct snp_session *session, uint64_t checkpoint, json_t *lost);

/* The loss of all its cells so far is accepted, beside a checkpoint of after `from`. */
void snp_durable_accept(struct snp_session *session, uint64_t from);

/* How its last cell ended is not known. */
void snp_durable_last_unknown(struct snp_session *session, bool is_unknown);

/* What it lacks (missing.h), or NULL. */
void snp_durable_found(struct snp_session *session, json_t *missing);

/* Nothing of it is left but its row. */
void snp_durable_clear(struct snp_session *session);

#endif
