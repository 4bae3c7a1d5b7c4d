/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_REMEDY_H
#define SNP_MCP_SERVER_REMEDY_H

/* The way out of an error, as tools and their arguments. */

#include "base/buf.h"
#include "base/err.h"

/* "MESSAGE; WORDS" on one line, the message clean and of at most max characters. */
int snp_mcp_remedy_text(struct snp_buf *out,
                        const struct snp_err *err,
                        size_t max) SNP_NODISCARD;

/* The call that deals with what a session lacks: ways of an error's remedy (base/err.h). */
int snp_mcp_ways_add(struct snp_buf *text, int64_t ways, const char *session_id) SNP_NODISCARD;

/*
 * For a call that a text names, as it can be copied: name="value"; and `, session_id="..."`, nothing where that is
 * the default one.
 */
int snp_mcp_call_arg(struct snp_buf *text, const char *name, const char *value) SNP_NODISCARD;
int snp_mcp_call_session(struct snp_buf *text, const char *session_id) SNP_NODISCARD;

#endif
