/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_REPAIR_APPLY_H
#define SNP_REPAIR_APPLY_H

/*
 * Writing a patch into a project. Each file changes at once: its new contents stand beside it under
 * a name of their own, and take its place; what they take the place of is looked at once more
 * before it is removed.
 */

#include "patch/patch.h"

enum {
    SNP_APPLY_TOKEN = 16, /* digits */
};

struct snp_apply {
    int project_fd; /* borrowed */
    const struct snp_patch *patch;
    const char *token; /* hexadecimal, in the names of temporary files; not used before */
    /* A file of the patch is in place. Negative ends it. May be NULL. */
    int (*applied)(void *ctx, const struct snp_patch_file *file, struct snp_err *err);
    void *ctx;
};

/*
 * Whether the project has of every file what the patch says. SNP_E_DENIED names the first
 * that differs.
 */
int snp_apply_check(const struct snp_apply *apply, struct snp_err *err) SNP_NODISCARD;

/*
 * Check, then apply all of it. A failure before the first file changes leaves the project as it
 * was; *ret_n: how many are in place. SNP_E_DENIED: the project has moved.
 */
int snp_apply_run(const struct snp_apply *apply, size_t *ret_n, struct snp_err *err) SNP_NODISCARD;

/*
 * Remove what an apply with this token that was cut off has left beside a file. The old contents of
 * a file that somebody changed meanwhile are left, and *ret_left (the caller's; NULL = none) is
 * their path.
 */
int snp_apply_sweep(int project_fd,
                    const char *token,
                    const char *path,
                    const char *base_hash,
                    char **ret_left,
                    struct snp_err *err) SNP_NODISCARD;

#endif
