/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was enforced on a session, from what its set-up reported. Nothing is listed as
 * enforced that a step has not done: a step that fails ends the set-up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "tier/engine/sandbox.h"
#include "tier/engine/supervisor.h"
#include "tier/host/syscalls.h"
#include "tier/local/local.h"

enum {
    MASKED_MAX = 2000,           /* paths listed */
    MASKED_BYTES_MAX = 64 << 10, /* of them */
};

static json_t *network(void)
{
    return json_pack("{s:b,s:s}", "enforced", 1, "how",
                     "own network namespace with a loopback and nothing else");
}

/* As many CPUs as it is bound to are just what is asked for. */
static bool is_whole(const struct snp_limits *limits)
{
    return limits->value[SNP_LIMIT_CPUS] % 1000 == 0;
}

/* Of the local tier without a cgroup: RLIMIT_NPROC counts a user's processes everywhere. */
static const char *processes_by(const struct snp_sandbox *s)
{
    return s->supervisor->is_root
               ? "RLIMIT_NPROC of its own user"
               : "approximate: RLIMIT_NPROC beyond the user's other processes";
}

static const char *how_limited(const struct snp_sandbox *s,
                               enum snp_limit limit,
                               char *out,
                               size_t out_len)
{
    static const struct {
        enum snp_limit limit;
        enum snp_cgroup_controller controller;
        const char *name;
        const char *otherwise;
    } by_cgroup[] = {
        {SNP_LIMIT_MEMORY,    SNP_CGROUP_MEMORY, "memory",
         "approximate: RLIMIT_DATA and sampling every 20 ms; at most 140 MiB more were "
         "measured"                                                                          },
        {SNP_LIMIT_PROCESSES, SNP_CGROUP_PIDS,   "pids",
         "RLIMIT_NPROC in its own user namespace"                                            },
        {SNP_LIMIT_CPUS,      SNP_CGROUP_CPU,    "cpu",    "approximate: bound to whole CPUs"},
    };
    static const char *const others[SNP_LIMIT_N] = {
        [SNP_LIMIT_WALL] = "timer of the supervisor: interrupt, then kill",
        [SNP_LIMIT_TMP] = "size of the tmpfs",
        [SNP_LIMIT_WORKSPACE] = "size of the tmpfs that takes the writes",
        [SNP_LIMIT_INODES] = "inodes of the tmpfs that takes the writes",
        [SNP_LIMIT_FILE] = "RLIMIT_FSIZE",
        [SNP_LIMIT_OPEN_FILES] = "RLIMIT_NOFILE",
        [SNP_LIMIT_OUTPUT] = "cut by the supervisor, the rest counted",
    };

    static const char *const local[SNP_LIMIT_N] = {
        [SNP_LIMIT_TMP] = "approximate: measured while cells run, then ended",
        [SNP_LIMIT_WORKSPACE] = "approximate: measured while cells run, then ended",
        [SNP_LIMIT_INODES] = "approximate: measured while cells run, then ended",
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(by_cgroup); i++) {
        const struct snp_cgroup_slot *slot =
            &s->supervisor->cgroups.slot[by_cgroup[i].controller];
        if (by_cgroup[i].limit != limit) {
            continue;
        }
        if (slot->version == 0 && limit == SNP_LIMIT_CPUS && is_whole(&s->spec.limits)) {
            return "bound to as many CPUs";
        }
        if (slot->version == 0) {
            return s->supervisor->is_local && limit == SNP_LIMIT_PROCESSES
                       ? processes_by(s)
                       : by_cgroup[i].otherwise;
        }
        (void)snprintf(out, out_len, "cgroup v%d %s", slot->version, by_cgroup[i].name);
        return out;
    }
    return s->supervisor->is_local && local[limit] != NULL ? local[limit] : others[limit];
}

json_t *snp_manifest_limits(const struct snp_supervisor *supervisor)
{
    /* What is asked of it here is only where it runs and what its limits are. */
    struct snp_sandbox *usual = calloc(1, sizeof(*usual));
    json_t *limits = json_object();

    if (usual == NULL) {
        return limits;
    }
    usual->supervisor = (struct snp_supervisor *)(uintptr_t)supervisor;
    snp_limits_default(&usual->spec.limits);
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        char how[64];

        (void)json_object_set_new(
            limits, snp_limit_info((enum snp_limit)i)->key,
            json_string(how_limited(usual, (enum snp_limit)i, how, sizeof(how))));
    }
    free(usual);
    return limits;
}

/* May memory of a sandbox be swapped out, beyond its limit? */
static bool can_swap(const struct snp_supervisor *supervisor)
{
    return !snp_cgroups_bound_swap(&supervisor->cgroups) && snp_swap_is_on("/proc/swaps");
}

static json_t *resources(const struct snp_sandbox *s)
{
    json_t *limits = json_object();
    bool exact = snp_cgroups_has(&s->supervisor->cgroups, SNP_CGROUP_MEMORY) &&
                 !can_swap(s->supervisor) && s->supervisor->uncounted == NULL;

    for (int i = 0; i < SNP_LIMIT_N; i++) {
        enum snp_limit limit = (enum snp_limit)i;
        char value[64];
        char how[64];
        (void)json_object_set_new(
            limits, snp_limit_info(limit)->key,
            json_pack("{s:I,s:s,s:s}", "value", (json_int_t)s->spec.limits.value[i], "text",
                      snp_limit_format(limit, s->spec.limits.value[i], value, sizeof(value)),
                      "by", how_limited(s, limit, how, sizeof(how))));
    }
    return json_pack("{s:b,s:s,s:o}", "enforced", 1, "memory", exact ? "exact" : "approximate",
                     "limits", limits);
}

/* The hidden paths; of very many the first ones, and how many there are. */
static json_t *masked_paths(const struct snp_sandbox *s)
{
    json_t *shown = json_array();
    size_t bytes = 0;
    size_t i;
    json_t *path;

    json_array_foreach(s->masked, i, path)
    {
        bytes += json_string_length(path);
        if (i >= MASKED_MAX || bytes > MASKED_BYTES_MAX) {
            break;
        }
        (void)json_array_append(shown, path);
    }
    return shown;
}

static json_t *filesystem(const struct snp_sandbox *s)
{
    return json_pack("{s:b,s:s,s:s,s:o,s:i,s:i}", "enforced", 1, "root",
                     s->spec.python.rootfs == NULL
                         ? "read-only: /usr, a minimal /etc and /dev"
                         : "read-only: another file system's /usr, a minimal /etc and /dev",
                     "workspace",
                     s->spec.project == NULL
                         ? "empty scratch"
                         : "overlay: the project is read-only below, writes go to scratch",
                     "masked", masked_paths(s), "masked_total", (int)json_array_size(s->masked),
                     "landlock_abi", s->landlock_abi);
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
                     s->supervisor->is_root);
}

void snp_manifest_degraded(const struct snp_supervisor *supervisor,
                           const struct snp_limits *limits,
                           json_t *list)
{
    if (supervisor->is_local) {
        snp_local_degraded(supervisor, list);
    } else if (supervisor->landlock_abi == 0) {
        (void)json_array_append_new(
            list, json_string("landlock: the kernel has none; mounts alone confine files"));
    }
    if (!supervisor->is_local && !supervisor->overlays_system) {
        (void)json_array_append_new(
            list, json_string("network: sockets of the host below /usr can be reached, because "
                              "an overlay of it is refused"));
    }
    if (supervisor->landlock_abi == 1) {
        (void)json_array_append_new(
            list, json_string("landlock: ABI 1 cannot tell moves and links between folders "
                              "apart, so it refuses them all; a kernel from 5.19 on can"));
    }
    if (!snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_MEMORY)) {
        (void)json_array_append_new(
            list, json_sprintf("memory: approximate, up to 140 MiB more were "
                               "measured (%s)",
                               supervisor->cgroups.slot[SNP_CGROUP_MEMORY].why));
    }
    if (snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_MEMORY) && can_swap(supervisor)) {
        (void)json_array_append_new(
            list, json_string("memory: approximate (this kernel does not count what it swaps "
                              "out; boot with swapaccount=1, or without swap)"));
    }
    if (supervisor->uncounted != NULL) {
        (void)json_array_append_new(
            list, json_sprintf("memory: approximate; this kernel does not count %s",
                               supervisor->uncounted));
    }
    if (!snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_CPU) && !is_whole(limits)) {
        (void)json_array_append_new(list,
                                    json_sprintf("cpus: whole CPUs only (%s)",
                                                 supervisor->cgroups.slot[SNP_CGROUP_CPU].why));
    }
}

json_t *snp_manifest(const struct snp_sandbox *s)
{
    json_t *controls = s->supervisor->is_local
                           ? snp_local_controls(s, resources(s))
                           : json_pack("{s:o,s:o,s:o,s:o,s:o}", "network", network(),
                                       "resources", resources(s), "filesystem", filesystem(s),
                                       "syscalls", syscalls(s), "disposable", disposable(s));
    struct utsname host = {0};

    (void)uname(&host);
    return json_pack("{s:s,s:s,s:s?,s:s,s:s?,s:s,s:s?,s:s?,s:s,s:b,s:o,s:O}", "tier",
                     s->supervisor->is_local ? "local" : "native", "template",
                     s->spec.python.name, "template_hash", s->spec.python.hash, "interpreter",
                     s->spec.python.exe, "packages", s->spec.python.site, "python", s->python,
                     "venv_unused", s->spec.python.note, "rootfs", s->spec.python.rootfs,
                     "kernel", host.release, "from_pool", s->was_pooled, "controls", controls,
                     "degraded", s->degraded);
}
