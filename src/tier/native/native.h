/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_NATIVE_NATIVE_H
#define SNP_TIER_NATIVE_NATIVE_H

/* Sandboxes in private namespaces. */

#include "tier/host/host.h"
#include "tier/host/notify.h"

struct snp_native {
    struct snp_host host;
    bool overlays_system; /* /usr is shown by an overlay, whose sockets reach no server */
};

extern const struct snp_about snp_native_about;
extern const struct snp_host_ops snp_native_ops;

/*
 * signals.c: signals of the code, each checked by the supervisor. They reach its processes, but not
 * the session's snapshots.
 */
extern const struct snp_emulated snp_native_calls[];

static inline struct snp_native *snp_native_of(const struct snp_supervisor *supervisor)
{
    return supervisor->own;
}

/* manifest.c: enforced controls; see struct snp_tier_ops. */
const char *snp_native_limited_by(const struct snp_supervisor *supervisor, enum snp_limit limit);
void snp_native_degraded(const struct snp_supervisor *supervisor, json_t *list);
json_t *snp_native_controls(const struct snp_sandbox *s, json_t *resources);

#endif
