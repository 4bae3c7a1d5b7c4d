/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_TEXT_ESCAPE_H
#define SNP_BASE_TEXT_ESCAPE_H

/* Make untrusted text safe to display. */

#include <stddef.h>

#include "base/buf.h"

/*
 * Append untrusted bytes so that no terminal interprets them: control characters except newline and
 * tab as \xNN, C1 controls and direction overrides as \uNNNN, invalid UTF-8 as \xNN. SNP_E_LIMIT or
 * SNP_E_NOMEM of the buffer.
 */
int snp_escape(struct snp_buf *out, const char *bytes, size_t n) SNP_NODISCARD;

/*
 * Quote text as one shell word, for commands that are shown for pasting: untrusted names of folders
 * and files may contain commands. The caller frees; NULL when out of memory.
 */
char *snp_shell_word(const char *text) SNP_NODISCARD;

#endif
