/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_REMEDY_H
#define SNP_MCP_SERVER_REMEDY_H

/* Remedies for an error, as tools and their arguments. */

#include "base/err.h"
#include "base/text/say.h"

/* "MESSAGE; WORDS" on one line, the message clean and of at most max characters. */
void snp_mcp_remedy_say(struct snp_say *out, const struct snp_err *err, size_t max);

/* Append the call that recovers a session's lost cells: ways of an error's remedy (base/err.h). */
void snp_mcp_ways_say(struct snp_say *text, int64_t ways, const char *session_id);

/*
 * Append an argument of a call in a text, ready to copy: name="value"; and `, session_id="..."`,
 * omitted for the default session.
 */
void snp_mcp_call_arg(struct snp_say *text, const char *name, const char *value);
void snp_mcp_call_session(struct snp_say *text, const char *session_id);

#endif
