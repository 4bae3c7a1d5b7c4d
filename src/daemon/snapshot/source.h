/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SNAPSHOT_SOURCE_H
#define SNP_DAEMON_SNAPSHOT_SOURCE_H

/*
 * What a reference names (a session as it is now, or a snapshot), as a whole checkpoint on
 * disk: what diff, fork and export start from.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "policy/session_name.h"

struct snp_server;
struct snp_session;

enum {
    SNP_SOURCE_REF_MAX = 2 * SNP_SESSION_NAME_MAX + 1, /* SESSION@NAME */
};

struct snp_source {
    char session[SNP_SESSION_ID_LEN + 1];
    char session_name[SNP_SESSION_NAME_MAX + 1];
    char snapshot[SNP_SESSION_ID_LEN + 1]; /* "" = the session as it is now */
    char head[SNP_SESSION_ID_LEN + 1];     /* the snapshot it is, or stands on; "" = none */
    uint64_t checkpoint;                   /* 0 = nothing yet: no variables, no files */
    uint64_t cell;
    uint64_t epoch;
    bool is_live; /* a session that has a sandbox, with that state */
    char *spec;   /* owned: policy, as session/spec.h writes it */
    json_t *lost; /* owned: what could not be saved */
};

void snp_source_done(struct snp_source *source);

/*
 * What a session that woke could not restore (its `restored`, which is taken and told no more),
 * without what was never saved (lost). New reference, NULL when out of memory.
 */
json_t *snp_source_failed(struct snp_session *session, const json_t *lost);

/* source: borrowed until return; NULL = see err. */
typedef void snp_source_found(void *ctx,
                              const struct snp_source *source,
                              const struct snp_err *err);

/*
 * A session is looked for first, then a snapshot. What is not on disk yet is written first, for
 * which a session must be between cells. found is called once, maybe at once. SNP_E_NOT_FOUND:
 * there is neither; SNP_E_DENIED: the session lacks what cells did after its checkpoint, or the
 * snapshot was in memory only, and that is gone.
 */
void snp_source_find(struct snp_server *server,
                     const char *ref,
                     snp_source_found *found,
                     void *ctx);

#endif
