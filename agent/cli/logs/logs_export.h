/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_LOGS_LOGS_EXPORT_H
#define SNP_CLI_LOGS_LOGS_EXPORT_H

/* Records of runs, exported and compared. */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum snp_logs_format {
    SNP_LOGS_JSON = 0,
    SNP_LOGS_MD,
    SNP_LOGS_HTML, /* the page of cli/logs/page.h */
};

enum {
    SNP_LOGS_EXPORT_MAX = 256 << 20, /* bytes; init buffers with it */
};

/* The format of a name, or -1. */
int snp_logs_format(const char *name);

/* Append all records of one run as JSON or Markdown. SNP_E_LIMIT: they need more room. */
int snp_logs_export(const json_t *records,
                    enum snp_logs_format format,
                    struct snp_buf *out,
                    struct snp_err *err) SNP_NODISCARD;

/* Print the differences between the events of two runs; the exit status: 0 none, 1 some. */
int snp_logs_diff(const json_t *a, const json_t *b, bool is_json);

#endif
