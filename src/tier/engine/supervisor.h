/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SUPERVISOR_H
#define SNP_TIER_ENGINE_SUPERVISOR_H

/*
 * State shared by all parts of a supervisor. One thread, one loop. The process owns everything
 * below; parts refer to it as `supervisor`.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <sys/types.h>

#include "base/err.h"
#include "os/cgroup.h"
#include "tier/engine/ops.h"
#include "tier/engine/stream/link.h"
#include "tier/engine/stream/spool.h"

struct snp_pool;
struct snp_sandbox_events;

enum {
    SNP_SUPERVISOR_SANDBOXES_MAX = 8192, /* a power of two */
    SNP_SUPERVISOR_PATH_MAX = 4096,
    SNP_SUPERVISOR_WHY_MAX = 400,
};

struct snp_supervisor {
    const struct snp_tier_ops *ops;
    const struct snp_sandbox_events *events; /* see inside.h */
    void *own;                               /* the tier's state; borrowed */
    uv_loop_t *loop;
    struct snp_link daemon;
    uid_t uid;    /* of our user, on the host */
    bool can_run; /* false: no sandboxes are possible, see why */
    char why[SNP_SUPERVISOR_WHY_MAX];
    char state_dir[SNP_SUPERVISOR_PATH_MAX];
    char python[SNP_SUPERVISOR_PATH_MAX]; /* the interpreter of the built-in templates */
    char *home;                           /* of the user, resolved; NULL = none; owned */
    struct snp_cgroups cgroups;
    /* unlimited kinds of memory, see snp_cgroups_uncounted; static; NULL = none */
    const char *uncounted;
    struct snp_spools spools;
    struct snp_sandbox *sandboxes;                           /* list; owned */
    struct snp_sandbox *by_id[SNP_SUPERVISOR_SANDBOXES_MAX]; /* the same, in chains by hash */
    unsigned n_sandboxes;
    unsigned n_opening;         /* these and pooled ones that are not set up yet */
    unsigned n_loading;         /* sandboxes that are being filled */
    struct snp_sandbox *pooled; /* list of the warm pool; owned */
    struct snp_pool *pool;      /* settings of the pool; owned; NULL = never used */
    unsigned pool_max;          /* sandboxes of each kind */
};

#endif
