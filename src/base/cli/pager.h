/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_PAGER_H
#define SNP_BASE_CLI_PAGER_H

/* Long texts on a terminal, page by page. */

#include <stdbool.h>
#include <stddef.h>

/*
 * Write text (already safe for a terminal, colours included) to standard output. On a terminal it
 * goes through the pager: SNIPARA_SANDBOX_PAGER, else PAGER, else less; "" or "cat": none.
 * Elsewhere, without a pager or with want_pager false it is written directly. 0, or -1 if standard
 * output is broken.
 */
int snp_pager_write(const char *text, size_t n, bool want_pager);

#endif
