/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_DURABLE_H
#define SNP_DAEMON_SAVE_DURABLE_H

/* The journaled facts of a session, and their changes other than by a checkpoint (checkpoint.c). */

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

struct snp_journal_session;
struct snp_session;

/* A session's journal row, on its way from the store's thread to the loop. */
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

/* The journal has the session, with this checkpoint. lost: owned by the caller, or NULL. */
void snp_durable_known(struct snp_session *session,
                       uint64_t checkpoint,
                       uint64_t checkpoint_cell,
                       json_t *lost);

/* A rollback: this checkpoint is now its latest, and it holds no other state. */
void snp_durable_rolled_back(struct snp_session *session, uint64_t checkpoint, json_t *lost);

/* The loss of all its cells so far is accepted, beside a checkpoint taken after `from`. */
void snp_durable_accept(struct snp_session *session, uint64_t from);

/* The outcome of its last cell is unknown. */
void snp_durable_last_unknown(struct snp_session *session, bool is_unknown);

/* Set the missing cells (missing.h), or NULL. */
void snp_durable_found(struct snp_session *session, json_t *missing);

/* Only the session's row is left. */
void snp_durable_clear(struct snp_session *session);

#endif
