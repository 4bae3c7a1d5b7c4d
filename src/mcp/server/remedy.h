/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_REMEDY_H
#define SNP_MCP_SERVER_REMEDY_H

/* The way out of an error, as tools and their arguments. */

#include "base/err.h"
#include "base/text/say.h"

/* "MESSAGE; WORDS" on one line, the message clean and of at most max characters. */
void snp_mcp_remedy_say(struct snp_say *out, const struct snp_err *err, size_t max);

/* The call that deals with what a session lacks: ways of an error's remedy (base/err.h). */
void snp_mcp_ways_say(struct snp_say *text, int64_t ways, const char *session_id);

/*
 * For a call that a text names, as it can be copied: name="value"; and `, session_id="..."`,
 * nothing where that is the default one.
 */
void snp_mcp_call_arg(struct snp_say *text, const char *name, const char *value);
void snp_mcp_call_session(struct snp_say *text, const char *session_id);

#endif
