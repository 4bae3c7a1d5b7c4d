/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_LOCAL_FILTER_H
#define SNP_TIER_LOCAL_FILTER_H

/*
 * System calls of sandboxes without namespaces: the table of tier/host/syscalls.h, less what
 * reaches others.
 */

#include <stdbool.h>

#include "base/err.h"
#include "tier/host/syscalls.h"

struct snp_local_filter {
    bool counts_memory; /* a cgroup counts a sandbox's pages; see snp_filter_conditional */
    bool has_own_ids;   /* each sandbox is a user of its own; else all are the user we serve */
    bool has_truncate;  /* Landlock refuses to truncate by path (ABI 3) */
};

/* What the filters of sandboxes and of zygotes are made of; want is borrowed by them. */
struct snp_filter_parts snp_local_session_parts(const struct snp_local_filter *want);
struct snp_filter_parts snp_local_zygote_parts(const struct snp_local_filter *want);

#endif
