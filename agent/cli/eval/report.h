/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_EVAL_REPORT_H
#define SNP_CLI_EVAL_REPORT_H

/* Results as JSON, as a table, as a page. */

#include "base/json.h"

/* head: the description of the evaluation; k: of pass@k, besides 1. New reference. */
json_t *snp_eval_report(const json_t *head, const json_t *tasks, const json_t *results, size_t k);

void snp_eval_table(const json_t *report);

/* A self-contained page. The caller frees. */
char *snp_eval_page(const json_t *report);

#endif
