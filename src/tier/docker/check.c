/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines accept settings that they cannot apply: limits without writable cgroups, unknown
 * runtimes. This reports the settings that are not in force.
 */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "tier/docker/docker.h"

bool snp_docker_is_gvisor(const struct snp_sandbox *s)
{
    const struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    const char *runtime = d->runtime[0] != '\0' ? d->runtime : snp_docker_runtime(s);

    for (const char *const *part = snp_docker_kernels; runtime != NULL && *part != NULL; part++) {
        if (strstr(runtime, *part) != NULL) {
            return true;
        }
    }
    return false;
}

bool snp_docker_counts_files(const struct snp_sandbox *s)
{
    return !snp_docker_engine(s)->is_podman && !snp_docker_is_gvisor(s);
}

/* Add a text, replacing one on the same subject. */
static void degrade(struct snp_sandbox *s, const char *text)
{
    size_t i;
    json_t *known;

    json_array_foreach(s->degraded, i, known)
    {
        if (strncmp(json_string_value(known), text, strcspn(text, ":") + 1) == 0) {
            (void)json_array_set_new(s->degraded, i, json_string(text));
            return;
        }
    }
    (void)json_array_append_new(s->degraded, json_string(text));
}

static void retract(struct snp_sandbox *s, const char *subject)
{
    size_t i;
    json_t *known;

    json_array_foreach(s->degraded, i, known)
    {
        if (snp_has_prefix(json_string_value(known), subject)) {
            (void)json_array_remove(s->degraded, i);
            return;
        }
    }
}

/* Report the limits that the engine has dropped, as dockerd does. */
static void check_limits(struct snp_sandbox *s, const json_t *host)
{
    const struct {
        const char *key;
        uint64_t wanted;
        enum snp_limit limit;
        const char *text;
    } rows[] = {
        {"Memory", snp_docker_memory(s), SNP_LIMIT_MEMORY,
         "memory: approximate (RLIMIT_DATA and sampling; the container engine does not bound "
         "it)"},
        {"PidsLimit", snp_docker_pids(s), SNP_LIMIT_PROCESSES,
         "processes: the container engine does not bound them"},
        {"NanoCpus", s->spec.limits.value[SNP_LIMIT_CPUS] * 1000000, SNP_LIMIT_CPUS,
         "cpus: the container engine does not bound them"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (snp_json_int(host, rows[i].key, 0) != (json_int_t)rows[i].wanted) {
            snp_docker_sandbox_of(s)->is_unbounded[rows[i].limit] = true;
            degrade(s, rows[i].text);
        }
    }
}

int snp_docker_check(struct snp_sandbox *s,
                     const json_t *made,
                     const json_t *found,
                     struct snp_err *err)
{
    struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);
    const json_t *host = json_object_get(found, "HostConfig");
    const char *asked = snp_docker_runtime(s);
    const json_t *text;
    size_t i;

    json_array_foreach(json_object_get(made, "Warnings"), i, text)
    {
        snp_autojson json_t *line =
            json_sprintf("the container engine warns: %.200s", json_string_value(text));

        (void)json_array_append(s->degraded, line);
    }
    (void)snprintf(d->runtime, sizeof(d->runtime), "%s",
                   snp_json_str(found, "OCIRuntime", snp_json_str(host, "Runtime", "")));
    if (snp_docker_is_gvisor(s)) {
        if (asked[0] == '\0') { /* its limits do not fit gVisor */
            return snp_fail(err, SNP_E_UNSUPPORTED,
                            "the container engine's default runtime is gVisor, which needs "
                            "other limits; set docker_runtime = \"%s\"",
                            d->runtime);
        }
        degrade(s, "processes: gVisor's own threads are counted too, so code can have up to 1024 "
                   "more than the limit");
        degrade(s, "memory: gVisor reports no details, so the limit plus 128 MiB applies to the "
                   "address space of each process");
        degrade(s, "copies: gVisor has no Landlock; code can change the copies of its workspace, "
                   "and signal our processes inside");
        retract(s, "mounts: "); /* its /proc shows no host paths */
    }
    if (!snp_docker_counts_files(s)) {
        degrade(s, "workspace: its size is bounded, but not its number of files");
    }
    check_limits(s, host);
    if (asked[0] != '\0' && !snp_streq(asked, d->runtime)) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "the container engine runs %s, not docker_runtime %s; name that, or "
                        "configure the engine",
                        d->runtime[0] == '\0' ? "another runtime" : d->runtime, asked);
    }
    return 0;
}
