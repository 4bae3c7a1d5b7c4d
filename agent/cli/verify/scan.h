/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_VERIFY_SCAN_H
#define SNP_CLI_VERIFY_SCAN_H

/* Objections to a patch besides its tests. Each function appends its reasons. */

#include "cli/verify/box.h"
#include "cli/verify/verify.h"

/*
 * Read the patch in a box, without running any of it. *look: the caller's: findings, hunks, tests,
 * unexecuted, risk.
 */
int snp_scan_read(const struct snp_box_spec *spec,
                  json_t **look,
                  json_t *reasons,
                  struct snp_err *err) SNP_NODISCARD;

/* Before there is a change: *ret, the caller's: paths of which a change needs a sample. */
int snp_scan_begin(const struct snp_box_spec *spec,
                   json_t **ret,
                   struct snp_err *err) SNP_NODISCARD;

/*
 * Check paths and contents: outside the scope, in the folder of hidden files, secrets; returns the
 * number of files with new secrets.
 */
size_t snp_scan_patch(const struct snp_verify *asked,
                      const struct snp_patch *patch,
                      json_t *reasons);

/* Find changed files without a test's name from which the runner reported tests. */
void snp_scan_tests(const struct snp_patch *patch,
                    const json_t *look,
                    const json_t *base,
                    json_t *reasons);

/*
 * Run linters and type checkers that the project configures. *checks: the caller's: {TOOL:
 * {"before", "after"}}.
 */
int snp_scan_lint(const struct snp_box_spec *spec,
                  json_t **checks,
                  json_t *reasons,
                  struct snp_err *err) SNP_NODISCARD;

/*
 * Compare the output of commands on sample data, before and after the patch, with the expected
 * output; both lists: appended to. A sample is {"command", "expect", "expected_sha256", "clean":
 * {"status", "exit_code", "sha256", "output"}, "patched", "is_as_expected", "changes": {"expected",
 * "clean"}}.
 */
int snp_samples_run(const struct snp_verify *asked,
                    const struct snp_box_spec *spec,
                    const json_t *look,
                    json_t *samples,
                    json_t *reasons,
                    struct snp_err *err) SNP_NODISCARD;

#endif
