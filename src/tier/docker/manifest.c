/* SPDX-License-Identifier: Apache-2.0 */
/* Controls requested from the engine, and their gaps. */
#include "tier/engine/manifest.h"

#include <stdio.h>

#include "tier/docker/docker.h"
#include "tier/engine/about.h"
#include "tier/host/features.h"

enum {
    MASKED_MAX = 200, /* paths named in the manifest */
};

static const char *const guarantees[] = {"network",    "filesystem", "syscalls", "resources",
                                         "disposable", "namespaces", NULL};
const char *const snp_docker_kernels[] = {"runsc", "gvisor", NULL};
static const char *const verbs[] = {"rootfs", "copies", NULL};
const struct snp_about snp_docker_about = {.rank = 150,
                                           .is_by_name = true,
                                           .guarantees = guarantees,
                                           .kernels = snp_docker_kernels,
                                           .verbs = verbs};

const char *snp_docker_limited_by(const struct snp_supervisor *supervisor, enum snp_limit limit)
{
    static const char *const by[SNP_LIMIT_N] = {
        [SNP_LIMIT_MEMORY] = "approximate: RLIMIT_DATA and sampling every 20 ms; the container "
                             "may have a quarter and 64 MiB more, without swap",
        [SNP_LIMIT_PROCESSES] = "the container's pids limit, of which pid 1 reserves the share of "
                                "our processes",
        [SNP_LIMIT_CPUS] = "the container's CPU quota",
        [SNP_LIMIT_TMP] = "size of the tmpfs",
        [SNP_LIMIT_WORKSPACE] = "size of the tmpfs",
        [SNP_LIMIT_INODES] = "inodes of the tmpfs",
    };

    (void)supervisor;
    return by[limit];
}

void snp_docker_degraded(const struct snp_supervisor *supervisor, json_t *list)
{
    static const char *const always[] = {
        "memory: approximate (RLIMIT_DATA and sampling; the container's bound is higher)",
        "processes: code can have up to two more than the limit",
        "denials: refused calls fail, but only those that Python notices are recorded",
        ("signals: code can end the sleeping copies of its interpreter; then a killed cell "
         "loses the session's variables"),
        ("mounts: code can read paths of the host in /proc/self/mountinfo (the engine's "
         "storage, our programs, the state folder)"),
    };

    (void)supervisor;
    for (size_t i = 0; i < SNP_ARRAY_LEN(always); i++) {
        (void)json_array_append_new(list, json_string(always[i]));
    }
}

static void set_by(json_t *resources, enum snp_limit limit, const char *by)
{
    json_t *limits = json_object_get(resources, "limits");

    (void)json_object_set_new(json_object_get(limits, snp_limit_info(limit)->key), "by",
                              json_string(by));
}

/* Withdraw limits that the engine ignores. Memory is still sampled. */
static void withdraw(const struct snp_sandbox *s, json_t *resources)
{
    const struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    if (!snp_docker_counts_files(s)) {
        set_by(resources, SNP_LIMIT_INODES, "nothing: podman and gVisor bound the size only");
    }
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        if (d->is_unbounded[i]) {
            set_by(resources, (enum snp_limit)i,
                   i == SNP_LIMIT_MEMORY ? "approximate: RLIMIT_DATA and sampling every 20 ms; "
                                           "the container engine does not bound it"
                                         : "nothing: the container engine does not bound it");
            (void)json_object_set_new(resources, "enforced", json_false());
            (void)json_object_set_new(
                resources, "how",
                json_string("the container engine ignores limits, as rootless ones do where "
                            "they may not write control groups"));
        }
    }
}

json_t *snp_docker_controls(const struct snp_sandbox *s, json_t *resources)
{
    const struct snp_docker_sandbox *d = snp_docker_sandbox_of(s);

    withdraw(s, resources);
    json_t *network =
        json_pack("{s:b,s:s}", "enforced", !s->spec.has_network, "how",
                  s->spec.has_network ? "the engine's network: docker_network_disabled = false"
                                      : "network none: a loopback and nothing else");
    json_t *files = json_pack("{s:b,s:s,s:s,s:o,s:i,s:s?}", "enforced", 1, "root",
                              "the image, read-only", "workspace",
                              s->spec.project == NULL ? "empty scratch: a sized tmpfs"
                                                      : "a copy of the project in a sized tmpfs",
                              "masked", snp_manifest_masked(s, MASKED_MAX, SIZE_MAX),
                              "masked_total", (int)json_array_size(s->masked), "image",
                              json_string_value(json_object_get(d->image, "Id")));
    json_t *calls =
        json_pack("{s:b,s:s,s:b,s:i,s:s,s:s}", "enforced", 1, "seccomp",
                  snp_docker_is_gvisor(s) ? "none: calls go to gVisor's kernel" : "allow-list",
                  "no_new_privs", 1, "capabilities", 0, "user", "65534", "runtime", d->runtime);
    json_t *disposable =
        json_pack("{s:b,s:s}", "enforced", 1, "how",
                  "the container ends with its pid 1, which ends with the supervisor");

    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "network", network, "resources", resources,
                     "filesystem", files, "syscalls", calls, "disposable", disposable);
}

json_t *snp_docker_probe(struct snp_supervisor *supervisor)
{
    struct snp_docker *docker = snp_docker_of(supervisor);
    snp_autojson json_t *version = NULL;
    json_t *features = json_array();
    struct snp_err err;
    char detail[200] = "";
    int status = 0;
    bool usable = false;

    err = docker->no_engine;
    if (err.code == SNP_OK) {
        usable = snp_docker_ask_now(docker->api.socket, NULL, "/version", &status, &version,
                                    &err) == 0 &&
                 status == SNP_DOCKER_OK;
        if (!usable && err.code == SNP_OK) {
            (void)snp_fail(&err, SNP_E_PEER, "the container engine answers with status %d: %.200s",
                           status, snp_docker_message(version));
        }
        (void)snprintf(detail, sizeof(detail), "engine %.40s at %.80s",
                       snp_json_str(version, "Version", "?"), docker->api.socket);
    }
    (void)json_array_append_new(features, snp_probe_row("docker tier", usable, usable ? detail : "",
                                                        "environment docker runs in native",
                                                        usable ? "" : err.msg));
    return json_pack("{s:o,s:b}", "features", features, "usable", usable);
}
