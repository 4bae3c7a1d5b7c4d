/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_REPLY_H
#define SNP_DAEMON_CELL_REPLY_H

/* A tier's result, as recorded in the journal and as sent to the client. */

#include "base/json.h"

struct snp_exec;
struct snp_session;
struct snp_tier_answer;

/*
 * The record of a checked result: the tier's members, changed in place, plus the session's id, the
 * epoch and `restored`. state: replaces the tier's, or NULL. New reference; NULL = out of memory.
 */
json_t *snp_reply_record(const struct snp_exec *exec,
                         const struct snp_tier_answer *answer,
                         const char *state);

/*
 * The client's form of a record: with the session's name, its manifest unless the record has one,
 * and `checkpoint` and `not_applied` unless they are NULL. All borrowed; record is not changed. New
 * reference; NULL = out of memory.
 */
json_t *snp_reply_whole(const struct snp_session *session,
                        json_t *record,
                        json_t *checkpoint,
                        json_t *not_applied);

#endif
