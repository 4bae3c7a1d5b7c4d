/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_TOOL_REDACT_H
#define SNP_RUN_TOOL_REDACT_H

/*
 * Secrets in text: keys, tokens, private key blocks, passwords and random-looking strings, by the
 * rules of agent/run/tool/redaction.rules. Detection is best effort: a secret spelled backwards is
 * missed. Time is linear in the text, for any text.
 */

#include <stddef.h>

#include "base/buf.h"

/* Maximum growth per byte: "://a:b@" is the shortest secret. */
enum {
    SNP_REDACT_GROWTH = 8
};

/*
 * Append text with every secret replaced by "[redacted:NAME]"; *ret_n (may be NULL): their number.
 * Redact before a text is cut, or half a secret passes. SNP_E_LIMIT or SNP_E_NOMEM of the buffer.
 */
int snp_redact(struct snp_buf *out, const char *text, size_t n, size_t *ret_n) SNP_NODISCARD;

#endif
