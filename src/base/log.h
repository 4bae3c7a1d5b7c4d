/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_LOG_H
#define SNP_BASE_LOG_H

/*
 * One line per event on standard error: "level time component event key=value ...".
 * Used by programs only; libraries return struct snp_err. Control bytes are escaped
 * here and nowhere else. Never pass secrets, code or file contents.
 */

#include "base/macro.h"

enum snp_log_level {
    SNP_LOG_ERROR = 0,
    SNP_LOG_WARN,
    SNP_LOG_INFO,
    SNP_LOG_DEBUG,
};

/* component: static string, e.g. "daemon". */
void snp_log_setup(const char *component, enum snp_log_level level);
/* event: a word; fmt: "key=value key=value". */
void snp_log(enum snp_log_level level, const char *event, const char *fmt, ...) SNP_PRINTF(3, 4);

#endif
