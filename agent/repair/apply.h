/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_REPAIR_APPLY_H
#define SNP_REPAIR_APPLY_H

/*
 * Write a patch into a project. Each file changes atomically: its new contents are written next to
 * it under a temporary name, and replace it; the replaced file is checked once more before it is
 * removed.
 */

#include "base/patch/patch.h"

enum {
    SNP_APPLY_TOKEN = 16, /* digits */
};

struct snp_apply {
    int project_fd; /* borrowed */
    const struct snp_patch *patch;
    const char *token; /* hexadecimal, in the names of temporary files; unique */
    /* Called when a file of the patch is in place. Negative ends the apply. May be NULL. */
    int (*applied)(void *ctx, const struct snp_patch_file *file, struct snp_err *err);
    void *ctx;
};

/*
 * Whether every file in the project equals the patch's base. SNP_E_DENIED names the first that
 * differs.
 */
int snp_apply_check(const struct snp_apply *apply, struct snp_err *err) SNP_NODISCARD;

/*
 * Check, then apply the whole patch. A failure before the first file changes leaves the project
 * unchanged; *ret_n: number of files in place. SNP_E_DENIED: the project has changed.
 */
int snp_apply_run(const struct snp_apply *apply, size_t *ret_n, struct snp_err *err) SNP_NODISCARD;

/*
 * Remove temporary files of an interrupted apply with this token. If a file was changed since, its
 * old contents are left, and *ret_left (the caller's; NULL = none) is their path.
 */
int snp_apply_sweep(int project_fd,
                    const char *token,
                    const char *path,
                    const char *base_hash,
                    char **ret_left,
                    struct snp_err *err) SNP_NODISCARD;

#endif
