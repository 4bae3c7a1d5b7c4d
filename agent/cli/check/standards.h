/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_CHECK_STANDARDS_H
#define SNP_CLI_CHECK_STANDARDS_H

/* Check a patch against the team's standards. */

#include "cli/verify/box.h"
#include "standard/standard.h"

/*
 * *ret: the caller's, {"documents": [{"id", "title", "category", "is_mandatory", "status", "why",
 * "rules": [{"kind", "text", "status", "why", "findings": [{"file", "line"}], "output"}]}], and the
 * number of each status}; NULL: the project has no standards. Reasons are added for mandatory
 * standards.
 */
int snp_standards_patch(const struct snp_box_spec *spec,
                        json_t **ret,
                        json_t *reasons,
                        struct snp_err *err) SNP_NODISCARD;

/* For a person, in Markdown; nothing for NULL. */
void snp_standards_write(const json_t *standards, struct snp_buf *out);

#endif
