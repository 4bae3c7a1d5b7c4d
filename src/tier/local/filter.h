/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_LOCAL_FILTER_H
#define SNP_TIER_LOCAL_FILTER_H

/*
 * System calls of sandboxes without namespaces: the table of tier/host/syscalls.h, without calls
 * that reach other processes.
 */

#include <stdbool.h>

#include "base/err.h"
#include "tier/host/syscalls.h"

struct snp_local_filter {
    bool counts_memory; /* a cgroup counts the sandbox's pages; see snp_filter_conditional */
    bool has_own_ids;   /* each sandbox has a private user; else all have our user */
    bool has_truncate;  /* Landlock restricts truncation by path (ABI 3) */
};

/* Parts of the filters of sandboxes and of zygotes; they borrow want. */
struct snp_filter_parts snp_local_session_parts(const struct snp_local_filter *want);
struct snp_filter_parts snp_local_zygote_parts(const struct snp_local_filter *want);

#endif
