/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_SESSION_H
#define SNP_MCP_SERVER_SESSION_H

/* session_ids of callers, and the names the daemon knows; profiles. */

#include "base/text/say.h"
#include "mcp/server/sandboxes.h"
#include "policy/session_name.h"

/*
 * The server's name. Texts for models name its tools behind it, as SniparaSandbox.read_file:
 * clients have a read_file or view_image of their own, and a model that reads the bare name
 * calls that.
 */
#define SNP_MCP_NAME "SniparaSandbox"

/*
 * The daemon's name for a session_id: itself, if it may be a name; "default" (and none, which means
 * it) is one session per project; anything else is written as a name, the same one each time.
 */
void snp_mcp_session_name(struct snp_mcp_sandboxes *service,
                          const char *id,
                          char out[SNP_SESSION_NAME_MAX + 1]);
/* The advice for a model that is appended to a limit of a result; "" = none. */
const char *snp_mcp_more(const json_t *limit);

/* The daemon's name for the default session of a project; NULL = without a project. */
void snp_mcp_default_session(const char *project, char out[SNP_SESSION_NAME_MAX + 1]);
/* The session_id that a name means to callers of ours. Borrowed from service or from name. */
const char *snp_mcp_session_id(const struct snp_mcp_sandboxes *service, const char *name);

/*
 * What a session lacks after a crash and the ways out, as "BEFORE[incomplete] ..."; row: of
 * sessions.list, or the answer of history; nothing if nothing is missing.
 */
void snp_mcp_missing_say(struct snp_say *text,
                         const json_t *row,
                         const char *session_id,
                         const char *before);

/*
 * Put into a table (an object) what is to be remembered; when it has max members the oldest goes.
 */
void snp_mcp_remember(json_t *table, const char *key, json_t *value, size_t max);

struct snp_mcp_profile {
    const char *name;
    uint64_t timeout_ms;
    uint64_t memory_bytes;
};

/* NULL: there is none of that name. */
const struct snp_mcp_profile *snp_mcp_profile(const char *name);

#endif
