/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CONFIG_DOTENV_H
#define SNP_BASE_CONFIG_DOTENV_H

/*
 * .env files: NAME=VALUE lines with shell-style quotes. Values are stored in an object; the
 * process's environment, which children inherit, is not changed.
 */

#include <stddef.h>

#include "base/config/trust.h"
#include "base/err.h"
#include "base/json.h"

enum {
    SNP_DOTENV_MAX_BYTES = 1 << 20
};

/* Called for a line that cannot be parsed; line numbers begin at 1. */
typedef void (*snp_dotenv_warn)(void *arg, unsigned line, const char *what);

/*
 * Parse the text of a .env file: blank lines and `#` comments, an optional `export `, 'single' and
 * "double" quotes, backslashes, a comment after a blank. The first `=` separates. An invalid line
 * is skipped and reported to warn (may be NULL); of a repeated name the last value is used. *ret is
 * an object of strings, a new reference. Fails only with SNP_E_NOMEM.
 */
int snp_dotenv_parse(const char *text,
                     size_t n,
                     snp_dotenv_warn warn,
                     void *arg,
                     json_t **ret,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * Find the nearest .env: in dir (absolute), then its parents, up to the first with .git. Non-files
 * and strangers' files are skipped; *ret_foreign (the caller's) reports the first of these.
 * *ret_path and *ret are the caller's too; *ret_path is NULL if there is none. An unreadable file
 * ends the search with *ret_path and a failure.
 */
int snp_dotenv_find(const char *dir,
                    char **ret_path,
                    struct snp_config_text *ret,
                    char **ret_foreign,
                    struct snp_err *err) SNP_NODISCARD;

#endif
