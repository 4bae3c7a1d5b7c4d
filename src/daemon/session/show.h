/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_SHOW_H
#define SNP_DAEMON_SESSION_SHOW_H

/* A session's row for clients. */

#include <stdbool.h>

#include "base/json.h"

struct snp_session;

/*
 * A row of sessions.list; with_policy adds `limits` and `manifest`. New reference, NULL when out
 * of memory.
 */
json_t *snp_session_to_json(const struct snp_session *session, bool with_policy);

#endif
