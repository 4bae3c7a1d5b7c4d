/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SESSION_TARGET_H
#define SNP_CLI_SESSION_TARGET_H

/* An output file that appears under its name only when it is complete. */

#include <stdbool.h>

#include "base/err.h"

struct snp_target {
    const char *path; /* borrowed; NULL = standard output */
    char *temporary;  /* owned; removed unless taken into place; NULL = written into directly */
    int fd;           /* owned unless standard output */
};

/*
 * Begin: a temporary next to path, path itself if it is a character device or FIFO, or standard
 * output for "-". *ret is the caller's, also on failure: snp_target_done(). SNP_E_INVALID: a link,
 * folder, socket or block device, which are never replaced; SNP_E_DENIED: it exists, and may not be
 * replaced.
 */
int snp_target_open(const char *path, bool may_replace, struct snp_target *ret, struct snp_err *err)
    SNP_NODISCARD;
/* Complete: give it its name, and a mode (-1: 0600). */
int snp_target_commit(struct snp_target *target, int mode, struct snp_err *err) SNP_NODISCARD;
void snp_target_done(struct snp_target *target);
#define snp_autotarget snp_cleanup(snp_target_done)

#endif
