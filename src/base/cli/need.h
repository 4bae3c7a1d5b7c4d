/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_NEED_H
#define SNP_BASE_CLI_NEED_H

/* Memory that a command requires: without it the command prints an error and exits with 1. */

#include "base/macro.h"

/* Return memory, which is not NULL. */
void *snp_need(void *memory) __attribute__((returns_nonnull));
/* A copy; the caller frees. NULL of NULL. */
char *snp_need_copy(const char *text);
/* The caller frees. */
char *snp_need_format(const char *fmt, ...) SNP_PRINTF(1, 2) __attribute__((returns_nonnull));

#endif
