/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_LOCAL_LOCAL_H
#define SNP_TIER_LOCAL_LOCAL_H

/*
 * Sandboxes without namespaces: the supervisor makes and removes their folders, measures their
 * usage, and kills their processes from outside.
 */

#include "tier/host/forked.h"
#include "tier/host/host.h"

struct snp_local {
    struct snp_host host;
    int folder_lock_fd; /* of host.folder; owned; -1 = none */
};

struct snp_local_sandbox {
    struct snp_forked forked;
    bool is_sweeping; /* signals of the code are refused */
    bool is_swept;    /* already done for the current request */
    bool is_ending;
    bool is_measuring;
    uint64_t measured_us;
    uint64_t measure_cost_us;
    uint64_t mapping_bytes; /* kernel memory at the last measurement */
    uv_timer_t *watch;      /* owned */
};

extern const struct snp_about snp_local_about;
extern const struct snp_host_ops snp_local_ops;
extern const struct snp_emulated snp_local_calls[]; /* emulate.c */

static inline struct snp_local *snp_local_of(const struct snp_supervisor *supervisor)
{
    return supervisor->own;
}

static inline struct snp_local_sandbox *snp_local_sandbox_of(const struct snp_sandbox *s)
{
    return s->own;
}

/* jobs.c: work on /proc or a folder, in workers -------------------------------------- */

/* Make the folder and copy the project; then done(s), with s->open_err set on failure. */
void snp_local_prepare(struct snp_sandbox *s, void (*done)(struct snp_sandbox *));

/* Operations for the table. */
void snp_local_kill(struct snp_sandbox *s);
void snp_local_sweep(struct snp_sandbox *s);
void snp_local_watch(struct snp_sandbox *s, bool is_running);
void snp_local_bury(struct snp_sandbox *s, void (*gone)(struct snp_sandbox *));

/* manifest.c: enforced controls, and differences from native; for the table --- */

json_t *snp_local_probe(struct snp_supervisor *supervisor);
const char *snp_local_limited_by(const struct snp_supervisor *supervisor, enum snp_limit limit);
json_t *snp_local_controls(const struct snp_sandbox *s, json_t *resources);
void snp_local_degraded(const struct snp_supervisor *supervisor, json_t *list);

#endif
