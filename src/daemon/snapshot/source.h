/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SNAPSHOT_SOURCE_H
#define SNP_DAEMON_SNAPSHOT_SOURCE_H

/*
 * Resolve a reference (a session's current state, or a snapshot) to a complete checkpoint on disk:
 * the start of diff, fork and export.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/policy/session_name.h"

struct snp_server;
struct snp_session;

enum {
    SNP_SOURCE_REF_MAX = 2 * SNP_SESSION_NAME_MAX + 1, /* SESSION@NAME */
};

struct snp_source {
    char session[SNP_SESSION_ID_LEN + 1];
    char session_name[SNP_SESSION_NAME_MAX + 1];
    char snapshot[SNP_SESSION_ID_LEN + 1]; /* "" = the session's current state */
    char head[SNP_SESSION_ID_LEN + 1];     /* the snapshot, or the session's base; "" = none */
    uint64_t checkpoint;                   /* 0 = empty: no variables, no files */
    uint64_t cell;
    uint64_t epoch;
    bool is_live; /* a session with a sandbox, in that state */
    char *spec;   /* owned: policy, as session/spec.h writes it */
    json_t *lost; /* owned: its losses */
};

void snp_source_done(struct snp_source *source);

/*
 * The losses of a woken session's restore (its `restored`, which is taken and not reported again),
 * without those that were never saved (lost). New reference, NULL when out of memory.
 */
json_t *snp_source_failed(struct snp_session *session, const json_t *lost);

/*
 * In a coroutine: find a session, else a snapshot. Unsaved state is written to disk first, between
 * cells of the session. *ret: owned by the caller, cleared on failure. SNP_E_NOT_FOUND: neither
 * exists; SNP_E_DENIED: the session lacks cells after its checkpoint, or the snapshot was only in
 * memory and is gone.
 */
int snp_source_find(struct snp_server *server,
                    const char *ref,
                    struct snp_source *ret,
                    struct snp_err *err) SNP_NODISCARD;

#endif
