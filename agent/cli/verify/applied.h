/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_VERIFY_APPLIED_H
#define SNP_CLI_VERIFY_APPLIED_H

/*
 * The record of a session's verdicts, and of the files that `apply` wrote into its project:
 * STATE/applied/SESSION.jsonl, chained and authenticated like records of runs. It outlives the
 * session.
 */

#include "base/cli/session/changes.h"

struct snp_applied;

/*
 * Open or create the record, and lock it. Temporary files of an interrupted apply are removed.
 * SNP_E_LIMIT: apply or verify of this session is running. *ret is the caller's.
 */
int snp_applied_open(const struct snp_session_changes *changes,
                     struct snp_applied **ret,
                     struct snp_err *err) SNP_NODISCARD;
void snp_applied_free(struct snp_applied *applied);
SNP_DEFINE_CLEANUP(struct snp_applied *, snp_applied_free)

/* Whether apply wrote the project's file last: then it has no outside change. */
bool snp_applied_has(const struct snp_applied *applied, const struct snp_patch_file *file);

/* Whether the last apply was interrupted: number of files written, of all files. */
bool snp_applied_was_cut(const struct snp_applied *applied, size_t *ret_n, size_t *ret_of);

/* Record a verdict on a patch: its hash, the word and more; consumed. */
int snp_applied_judge(struct snp_applied *applied,
                      json_t *verdict,
                      struct snp_err *err) SNP_NODISCARD;
/*
 * How many other patches were judged before the patch of this hash; *ret_first: the first of them
 * was ready.
 */
size_t snp_applied_before(const struct snp_applied *applied, const char *hash, bool *ret_first);
/* Record that a person declined to apply the patch of this hash. */
int snp_applied_decline(struct snp_applied *applied,
                        const char *hash,
                        struct snp_err *err) SNP_NODISCARD;
/* Whether the last verdict on the patch of this hash is ready. */
bool snp_applied_is_ready(const struct snp_applied *applied, const char *hash);
/* The risk of that verdict: {"class", "level", "automation", ...}, borrowed; NULL = no verdict. */
const json_t *snp_applied_risk(const struct snp_applied *applied, const char *hash);

/*
 * Apply the patch, recording each step. how: members of the record's step with the source of the
 * permission. *ret_n: files in place.
 */
int snp_applied_run(struct snp_applied *applied,
                    const struct snp_session_changes *changes,
                    json_t *how,
                    size_t *ret_n,
                    struct snp_err *err) SNP_NODISCARD;

#endif
