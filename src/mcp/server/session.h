/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_SESSION_H
#define SNP_MCP_SERVER_SESSION_H

/* session_ids of callers, and their names at the daemon; profiles. */

#include "base/policy/session_name.h"
#include "base/text/say.h"
#include "mcp/server/sandboxes.h"

/*
 * The server's name. Texts for models prefix tools with it, as in SniparaSandbox.read_file: clients
 * have their own read_file or view_image, and a model would call that for the bare name.
 */
#define SNP_MCP_NAME "SniparaSandbox"

/*
 * The daemon's name for a session_id: unchanged, if it is a valid name; "default" (also for an
 * empty one) is one session per project; others are encoded as a name, always the same.
 */
void snp_mcp_session_name(struct snp_mcp_sandboxes *service,
                          const char *id,
                          char out[SNP_SESSION_NAME_MAX + 1]);
/* The advice for a model that is appended to a limit of a result; "" = none. */
const char *snp_mcp_more(const json_t *limit);

/* The daemon's name for the default session of a project; NULL = without a project. */
void snp_mcp_default_session(const char *project, char out[SNP_SESSION_NAME_MAX + 1]);
/* The session_id of callers for a name. Borrowed from service or from name. */
const char *snp_mcp_session_id(const struct snp_mcp_sandboxes *service, const char *name);

/*
 * Append the missing cells of a session after a crash and the remedies, as "BEFORE[incomplete]
 * ..."; row: of sessions.list, or the answer of history; nothing if nothing is missing.
 */
void snp_mcp_missing_say(struct snp_say *text,
                         const json_t *row,
                         const char *session_id,
                         const char *before);

/* Store a value in a table (an object); when it has max members the oldest is dropped. */
void snp_mcp_remember(json_t *table, const char *key, json_t *value, size_t max);

struct snp_mcp_profile {
    const char *name;
    uint64_t timeout_ms;
    uint64_t memory_bytes;
};

/* NULL: no such profile. */
const struct snp_mcp_profile *snp_mcp_profile(const char *name);

#endif
