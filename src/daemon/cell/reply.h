/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_REPLY_H
#define SNP_DAEMON_CELL_REPLY_H

/*
 * The texts made of a tier's result: what the journal keeps, and what the client gets. The tier's
 * text is taken as it came wherever it can be, since most of it is of no concern to us.
 */

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct snp_exec;
struct snp_session;
struct snp_tier_answer;

/*
 * The record of a result that has been checked: the tier's members, the session's id, the epoch,
 * what was restored. state: instead of the tier's, or NULL. A JSON object in text.
 */
int snp_reply_record(const struct snp_exec *exec,
                     const struct snp_tier_answer *answer,
                     const char *state,
                     struct snp_buf *text) SNP_NODISCARD;

/*
 * A record as clients get it: with the session's name, its manifest unless the record has
 * one, `checkpoint` (borrowed; NULL = none was asked for), and `not_applied` (borrowed, or NULL).
 */
int snp_reply_whole(const struct snp_session *session,
                    const char *record,
                    bool has_manifest,
                    const json_t *checkpoint,
                    const json_t *not_applied,
                    struct snp_buf *text) SNP_NODISCARD;

#endif
