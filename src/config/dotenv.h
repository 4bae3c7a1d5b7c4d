/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONFIG_DOTENV_H
#define SNP_CONFIG_DOTENV_H

/*
 * .env files: NAME=VALUE lines with shell-style quotes. Values stay in an object; the
 * process's environment, and so that of every child, is never touched.
 */

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"
#include "config/trust.h"

enum {
    SNP_DOTENV_MAX_BYTES = 1 << 20
};

/* Called for a line that cannot be read; line counts from 1. */
typedef void (*snp_dotenv_warn)(void *arg, unsigned line, const char *what);

/*
 * Parse the text of a .env file: blank lines and `#` comments, an optional `export `,
 * 'single' and "double" quotes, backslashes, a comment after a blank. The first `=`
 * separates. A line that makes no sense is skipped and reported to warn (may be
 * NULL); a name given twice has its last value. *ret is an object of strings, a new
 * reference. Fails only with SNP_E_NOMEM.
 */
int snp_dotenv_parse(const char *text,
                     size_t n,
                     snp_dotenv_warn warn,
                     void *arg,
                     json_t **ret,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * The nearest .env: in dir (absolute), then its parents, up to the first that holds .git. What is
 * no file is passed over, and so are files of strangers; *ret_foreign (the caller's) says so of the
 * first. *ret_path and *ret are the caller's too; *ret_path is NULL if there is none. A file that
 * cannot be read ends the search with *ret_path and a failure.
 */
int snp_dotenv_find(const char *dir,
                    char **ret_path,
                    struct snp_config_text *ret,
                    char **ret_foreign,
                    struct snp_err *err) SNP_NODISCARD;

#endif
