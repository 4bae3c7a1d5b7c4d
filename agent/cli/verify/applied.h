/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_VERIFY_APPLIED_H
#define SNP_CLI_VERIFY_APPLIED_H

/*
 * The record of a session's verdicts, and of the files that `apply` wrote into its project:
 * STATE/applied/SESSION.jsonl, chained and authenticated like records of runs. It outlives the
 * session.
 */

#include "cli/session/changes.h"

struct snp_applied;

/*
 * Open or begin it, and lock it. What an apply that was cut off left beside files is removed.
 * SNP_E_LIMIT: apply or verify of this session runs. *ret is the caller's.
 */
int snp_applied_open(const struct snp_session_changes *changes,
                     struct snp_applied **ret,
                     struct snp_err *err) SNP_NODISCARD;
void snp_applied_free(struct snp_applied *applied);
SNP_DEFINE_CLEANUP(struct snp_applied *, snp_applied_free)

/* Whether the project has of a file what was applied last: then that change is no news. */
bool snp_applied_has(const struct snp_applied *applied, const struct snp_patch_file *file);

/* The last apply was cut off: how many files it had written, of how many. */
bool snp_applied_was_cut(const struct snp_applied *applied, size_t *ret_n, size_t *ret_of);

/* A verdict on a patch: its hash, the word and more; consumed. */
int snp_applied_judge(struct snp_applied *applied,
                      json_t *verdict,
                      struct snp_err *err) SNP_NODISCARD;
/*
 * How many other patches were judged before that of this hash; *ret_first: the first of them
 * was ready.
 */
size_t snp_applied_before(const struct snp_applied *applied, const char *hash, bool *ret_first);
/* A person was asked whether to apply the patch of this hash, and said no. */
int snp_applied_decline(struct snp_applied *applied,
                        const char *hash,
                        struct snp_err *err) SNP_NODISCARD;
/* Whether the last verdict on the patch of this hash was that it is ready. */
bool snp_applied_is_ready(const struct snp_applied *applied, const char *hash);
/* What it said of the risk: {"class", "level", "automation", ...}, borrowed; NULL = no verdict. */
const json_t *snp_applied_risk(const struct snp_applied *applied, const char *hash);

/*
 * Apply the patch, recording each step. how: members of the record's step: who allowed it. *ret_n:
 * files in place.
 */
int snp_applied_run(struct snp_applied *applied,
                    const struct snp_session_changes *changes,
                    json_t *how,
                    size_t *ret_n,
                    struct snp_err *err) SNP_NODISCARD;

#endif
