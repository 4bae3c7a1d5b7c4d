/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_FORKED_H
#define SNP_TIER_HOST_FORKED_H

/*
 * A sandbox forked from a template, from the order of its first process to the removal of its
 * cgroups. A tier's record of a sandbox begins with struct snp_forked.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "guest/spec.h"
#include "tier/engine/ops.h"
#include "tier/engine/sandbox.h"
#include "tier/host/notify.h"
#include "tier/host/template.h"

struct snp_forked {
    struct snp_pending process; /* pending until the spec is sent, then the first process */
    uv_poll_t *pidfd_poll;
    uv_poll_t *setup_poll; /* waits for the set-up's reply */
    uv_timer_t *timer;     /* bounds set-up and cgroup removal; owned */
    int out_wr_fd[2];      /* write ends of the output, until the spec is sent */
    struct snp_notify notify;
    int fs_fd[SNP_SETUP_FS_N]; /* file systems that the code can fill; only for fstatfs */
    uint64_t empty_files;      /* free inodes and blocks of the workspace */
    uint64_t empty_blocks;     /* ... when it was empty */
    uint64_t mark;             /* of pid 1's signals; 0 = none */
    int landlock_abi;
    unsigned removals; /* attempts to remove the cgroups */
    unsigned n_jobs;   /* workers that use the sandbox, which is not freed before they end */
};

static inline struct snp_forked *snp_forked_of(const struct snp_sandbox *s)
{
    return s->own;
}

/* Allocate a record of size bytes, which begins with struct snp_forked. */
int snp_forked_make(struct snp_sandbox *s, size_t size) SNP_NODISCARD;
void snp_forked_unmake(struct snp_sandbox *s);

/* Order the first process and set it up. */
void snp_forked_open(struct snp_sandbox *s);

/* Opening failed: remove prepared parts. s->open_err holds the reason. */
void snp_forked_abandon(struct snp_sandbox *s);

/* Operations for the tables of tiers. */
void snp_forked_await(struct snp_sandbox *s);
uint64_t snp_forked_own_memory(const struct snp_sandbox *s, pid_t copy);
void snp_forked_limit(struct snp_sandbox *s, const struct snp_limits *wanted);
void snp_forked_copies_usage(const struct snp_sandbox *s,
                             const pid_t *copies,
                             size_t n,
                             struct snp_copies_usage *ret);

#endif
