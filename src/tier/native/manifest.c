/* SPDX-License-Identifier: Apache-2.0 */
/* Controls of namespaces, and their gaps on this host. */
#include "tier/engine/manifest.h"

#include <stdio.h>

#include "tier/host/forked.h"
#include "tier/host/syscalls.h"
#include "tier/native/native.h"

enum {
    MASKED_MAX = 2000,           /* paths listed */
    MASKED_BYTES_MAX = 64 << 10, /* of the list */
};

const char *snp_native_limited_by(const struct snp_supervisor *supervisor, enum snp_limit limit)
{
    static const char *const by[SNP_LIMIT_N] = {
        [SNP_LIMIT_PROCESSES] = "RLIMIT_NPROC in its own user namespace",
        [SNP_LIMIT_TMP] = "size of the tmpfs",
        [SNP_LIMIT_WORKSPACE] = "size of the tmpfs that takes the writes",
        [SNP_LIMIT_INODES] = "inodes of the tmpfs that takes the writes",
    };

    (void)supervisor;
    return by[limit];
}

void snp_native_degraded(const struct snp_supervisor *supervisor, json_t *list)
{
    const struct snp_native *native = snp_native_of(supervisor);

    if (native->host.landlock_abi == 0) {
        (void)json_array_append_new(
            list, json_string("landlock: the kernel has none; mounts alone confine files"));
    }
    if (!native->overlays_system) {
        (void)json_array_append_new(
            list, json_string("network: sockets of the host below /usr can be reached, because "
                              "an overlay of it is refused"));
    }
    snp_host_degraded(supervisor, list);
}

static json_t *network(void)
{
    return json_pack("{s:b,s:s}", "enforced", 1, "how",
                     "own network namespace with a loopback and nothing else");
}

static json_t *filesystem(const struct snp_sandbox *s)
{
    return json_pack(
        "{s:b,s:s,s:s,s:o,s:i,s:i}", "enforced", 1, "root",
        s->spec.python.rootfs == NULL
            ? "read-only: /usr, a minimal /etc and /dev"
            : "read-only: another file system's /usr, a minimal /etc and /dev",
        "workspace",
        s->spec.project == NULL ? "empty scratch"
                                : "overlay: the project is read-only below, writes go to scratch",
        "masked", snp_manifest_masked(s, MASKED_MAX, MASKED_BYTES_MAX), "masked_total",
        (int)json_array_size(s->masked), "landlock_abi", snp_forked_of(s)->landlock_abi);
}

static json_t *syscalls(const struct snp_sandbox *s)
{
    return json_pack(
        "{s:b,s:s,s:i,s:b,s:i,s:b}", "enforced", 1, "seccomp", "allow-list, refusals recorded",
        "allowed",
        (int)snp_syscalls_count(snp_cgroups_has(&s->supervisor->cgroups, SNP_CGROUP_MEMORY)),
        "no_new_privs", 1, "capabilities", 0, "nested_namespaces", 0);
}

static json_t *disposable(const struct snp_sandbox *s)
{
    return json_pack("{s:b,s:s,s:b}", "enforced", 1, "how",
                     "pid namespace ends with pid 1, which ends with the supervisor", "own_ids",
                     snp_host_of(s->supervisor)->is_root);
}

json_t *snp_native_controls(const struct snp_sandbox *s, json_t *resources)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "network", network(), "resources", resources,
                     "filesystem", filesystem(s), "syscalls", syscalls(s), "disposable",
                     disposable(s));
}
