/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_PROJECT_IGNORE_H
#define SNP_BASE_PROJECT_IGNORE_H

/*
 * A .gitignore file, with git's rules. It is untrusted: for any content, judging a path takes
 * bounded time.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"

enum {
    SNP_IGNORE_RULES_MAX = 2000, /* later ones are ignored */
    SNP_IGNORE_RULE_MAX = 1024,  /* bytes; longer ones are ignored */
};

enum snp_ignored {
    SNP_IGNORED_SILENT = 0, /* no rule matches */
    SNP_IGNORED_OUT,
    SNP_IGNORED_IN, /* by a rule with `!` */
};

struct snp_ignore;

/* *ret is the caller's: snp_ignore_free(). SNP_E_NOMEM. */
int snp_ignore_new(const char *text, size_t n, struct snp_ignore **ret) SNP_NODISCARD;
void snp_ignore_free(struct snp_ignore *ignore);

/* path: relative to the folder of the file, without a slash at its end. */
enum snp_ignored snp_ignore_judge(const struct snp_ignore *ignore,
                                  const char *path,
                                  bool is_folder);

#endif
