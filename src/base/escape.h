/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_ESCAPE_H
#define SNP_BASE_ESCAPE_H

/* Untrusted text, made safe to look at. */

#include <stddef.h>

#include "base/buf.h"

/*
 * Append untrusted bytes so that no terminal obeys them: control characters other than
 * newline and tab as \xNN, C1 controls and direction overrides as \uNNNN, invalid UTF-8 as \xNN.
 * SNP_E_LIMIT or SNP_E_NOMEM of the buffer.
 */
int snp_escape(struct snp_buf *out, const char *bytes, size_t n) SNP_NODISCARD;

#endif
