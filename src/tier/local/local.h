/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_LOCAL_LOCAL_H
#define SNP_TIER_LOCAL_LOCAL_H

/*
 * What the supervisor does differently for sandboxes without namespaces: it makes and
 * removes their folders, looks after what they use, and ends their processes from outside.
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

struct snp_sandbox;
struct snp_supervisor;

/*
 * The supervisor's start: folders, filters, what the host can do. The reason why nothing
 * can run here is no failure: it is in tier->why, with tier->can_namespace false.
 */
int snp_local_init(struct snp_supervisor *supervisor, struct snp_err *err) SNP_NODISCARD;
/* The end: the keepers kill all that is left. */
void snp_local_release(struct snp_supervisor *supervisor);
void snp_local_done(struct snp_supervisor *supervisor);

/*
 * Make the folder and copy the project, in a worker, as all of these; then done(s), with
 * s->open_err set if it failed. A session may not be freed while snp_local_is_busy.
 */
void snp_local_prepare(struct snp_sandbox *s, void (*done)(struct snp_sandbox *));
bool snp_local_is_busy(const struct snp_sandbox *s);

/* End every process of the session, its first one last. Idempotent. */
void snp_local_kill(struct snp_sandbox *s);

/* Its first process is gone: end what is left, remove the folder. gone(s) runs later. */
void snp_local_bury(struct snp_sandbox *s, void (*gone)(struct snp_sandbox *));

/* As SNP_INIT_SWEEP. swept runs later, with 0 or an errno. */
void snp_local_sweep(struct snp_sandbox *s, void (*swept)(struct snp_sandbox *, int eno));

/* A cell begins or ends: look at memory and disk more or less often. */
void snp_local_watch(struct snp_sandbox *s, bool is_running);

/* CPU time of all its processes so far. */
uint64_t snp_local_cpu(const struct snp_sandbox *s);

/* The controls of the manifest (resources: that one, taken), and why this tier is weaker than native. */
json_t *snp_local_controls(const struct snp_sandbox *s, json_t *resources);
void snp_local_degraded(const struct snp_supervisor *supervisor, json_t *list);

#endif
