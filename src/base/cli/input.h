/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_INPUT_H
#define SNP_BASE_CLI_INPUT_H

/* Files and standard input given to a command. */

#include <stddef.h>

#include "base/err.h"

/*
 * Read a file, a FIFO to its end, or standard input for "-", of at most max bytes. The caller
 * frees; *ret_text is NUL-terminated. SNP_E_LIMIT names the limit.
 */
int snp_read_input(const char *path,
                   size_t max,
                   char **ret_text,
                   size_t *ret_len,
                   struct snp_err *err) SNP_NODISCARD;

#endif
