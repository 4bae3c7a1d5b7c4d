/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controls enforced on a session, as reported by its set-up. A listed control has been applied: a
 * failed step ends the set-up.
 */
#include "tier/engine/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "tier/engine/sandbox.h"
#include "tier/engine/supervisor.h"

/* A cpuset enforces a whole number of CPUs exactly. */
static bool is_whole(const struct snp_limits *limits)
{
    return limits->value[SNP_LIMIT_CPUS] % 1000 == 0;
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
        {SNP_LIMIT_MEMORY, SNP_CGROUP_MEMORY, "memory",
         "approximate: RLIMIT_DATA and sampling every 20 ms; at most 140 MiB more were "
         "measured"},
        {SNP_LIMIT_PROCESSES, SNP_CGROUP_PIDS, "pids", NULL},
        {SNP_LIMIT_CPUS, SNP_CGROUP_CPU, "cpu", "approximate: bound to whole CPUs"},
    };
    static const char *const others[SNP_LIMIT_N] = {
        [SNP_LIMIT_WALL] = "timer of the supervisor: interrupt, then kill",
        [SNP_LIMIT_FILE] = "RLIMIT_FSIZE",
        [SNP_LIMIT_OPEN_FILES] = "RLIMIT_NOFILE",
        [SNP_LIMIT_OUTPUT] = "cut by the supervisor, the rest counted",
    };

    const char *by = s->supervisor->ops->limited_by(s->supervisor, limit);

    for (size_t i = 0; i < SNP_ARRAY_LEN(by_cgroup); i++) {
        const struct snp_cgroup_slot *slot = &s->supervisor->cgroups.slot[by_cgroup[i].controller];
        if (by_cgroup[i].limit != limit || s->supervisor->ops->limits_itself) {
            continue;
        }
        if (slot->version == 0 && limit == SNP_LIMIT_CPUS && is_whole(&s->spec.limits)) {
            return "bound to as many CPUs";
        }
        if (slot->version == 0) {
            return by != NULL ? by : by_cgroup[i].otherwise;
        }
        (void)snprintf(out, out_len, "cgroup v%d %s", slot->version, by_cgroup[i].name);
        return out;
    }
    return by != NULL ? by : others[limit];
}

json_t *snp_manifest_limits(const struct snp_supervisor *supervisor)
{
    /* Only its supervisor and its limits are used here. */
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
    bool exact = !s->supervisor->ops->limits_itself &&
                 snp_cgroups_has(&s->supervisor->cgroups, SNP_CGROUP_MEMORY) &&
                 !can_swap(s->supervisor) && s->supervisor->uncounted == NULL;

    for (int i = 0; i < SNP_LIMIT_N; i++) {
        enum snp_limit limit = (enum snp_limit)i;
        const uint64_t set = s->spec.limits.value[i];
        uint64_t value = set;
        char text[64];
        char how[64];

        if (limit == SNP_LIMIT_WORKSPACE) {
            (void)snp_sandbox_room(s, &value); /* smaller if files use memory */
        }
        (void)json_object_set_new(limits, snp_limit_info(limit)->key,
                                  json_pack("{s:I,s:s,s:s,s:o*}", "value", (json_int_t)value,
                                            "text",
                                            snp_limit_format(limit, value, text, sizeof(text)),
                                            "by", how_limited(s, limit, how, sizeof(how)), "set",
                                            value == set ? NULL : json_integer((json_int_t)set)));
    }
    return json_pack("{s:b,s:s,s:o}", "enforced", 1, "memory", exact ? "exact" : "approximate",
                     "limits", limits);
}

json_t *snp_manifest_masked(const struct snp_sandbox *s, size_t max, size_t max_bytes)
{
    json_t *shown = json_array();
    size_t bytes = 0;
    size_t i;
    json_t *path;

    json_array_foreach(s->masked, i, path)
    {
        bytes += json_string_length(path);
        if (i >= max || bytes > max_bytes) {
            break;
        }
        (void)json_array_append(shown, path);
    }
    return shown;
}

void snp_manifest_degraded(const struct snp_supervisor *supervisor,
                           const struct snp_limits *limits,
                           json_t *list)
{
    supervisor->ops->degraded(supervisor, list);
    if (supervisor->ops->limits_itself) {
        return;
    }
    if (!snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_MEMORY)) {
        (void)json_array_append_new(list,
                                    json_sprintf("memory: approximate, up to 140 MiB more were "
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
    const struct snp_tier_ops *ops = s->supervisor->ops;
    json_t *controls = ops->controls(s, resources(s));
    struct utsname host = {0};

    (void)uname(&host);
    return json_pack("{s:s,s:s,s:s?,s:s,s:s?,s:s,s:s?,s:s?,s:s,s:b,s:b,s:o,s:O}", "tier", ops->name,
                     "template", s->spec.python.name, "template_hash", s->spec.python.hash,
                     "interpreter", s->spec.python.exe, "packages", s->spec.python.site, "python",
                     s->python, "venv_unused", s->spec.python.note, "rootfs", s->spec.python.rootfs,
                     "kernel", host.release, "from_pool", s->was_pooled, "from_image", s->is_thawed,
                     "controls", controls, "degraded", s->degraded);
}
