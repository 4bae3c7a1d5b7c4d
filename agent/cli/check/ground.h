/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_CHECK_GROUND_H
#define SNP_CLI_CHECK_GROUND_H

/*
 * Which names, attributes, imports and arguments of files exist: agent/ground, run inside a box,
 * and context-parser outside. No code of the project runs. The result for a file is {"path",
 * "error"}, or
 *
 *   {"path", "known", "unknown", "findings": [{"kind", "severity": "error" | "warning", "line",
 *   "column", "name", "message",
 *    "nearest"?: {"name", "path"?, "line"?}}]}
 */

#include "base/patch/patch.h"
#include "cli/verify/box.h"

/* paths: files or folders in the project. *ret: a list of results, the caller's. */
int snp_ground_read(struct snp_patch_session *box, json_t *paths, json_t **ret, struct snp_err *err)
    SNP_NODISCARD;

/* "LINE:COLUMN: SEVERITY: MESSAGE, nearest: NAME (PATH:LINE)". */
void snp_ground_line(const json_t *finding, struct snp_buf *out);

/*
 * Problems that a patch adds: errors that the clean project does not have, or not as often, and
 * files that cannot be checked. Each is a reason (appended). *ret: {"known", "unknown", "findings":
 * [the same with "path"], "not_checked": [{"path", "error"}]}, the caller's; NULL: none.
 */
int snp_ground_patch(const struct snp_box_spec *spec,
                     const struct snp_patch *patch,
                     json_t **ret,
                     json_t *reasons,
                     struct snp_err *err) SNP_NODISCARD;

#endif
