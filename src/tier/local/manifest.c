/* SPDX-License-Identifier: Apache-2.0 */
/* Controls without namespaces, and their gaps. */
#include "tier/engine/manifest.h"

#include <stdio.h>
#include <unistd.h>

#include "tier/engine/about.h"
#include "tier/host/features.h"
#include "tier/local/local.h"

enum {
    ABI_TCP = 4,
    ABI_SCOPES = 6,
    MASKED_MAX = 500, /* paths listed */
};

static const char *const guarantees[] = {"network",   "filesystem", "syscalls",
                                         "resources", "disposable", NULL};
static const char *const verbs[] = {"copies", NULL};
const struct snp_about snp_local_about = {.rank = 50, .guarantees = guarantees, .verbs = verbs};

json_t *snp_local_controls(const struct snp_sandbox *s, json_t *resources)
{
    const struct snp_supervisor *supervisor = s->supervisor;
    json_t *network = json_pack("{s:b,s:s,s:b}", "enforced", 1, "how",
                                "no call that makes or connects a socket, connected pairs excepted",
                                "landlock_tcp", snp_forked_of(s)->landlock_abi >= ABI_TCP);
    json_t *files =
        json_pack("{s:b,s:s,s:s,s:o,s:i,s:i}", "enforced", 1, "root",
                  "the host's, of which Landlock opens /usr and a few files only", "workspace",
                  s->spec.project == NULL ? "a separate folder" : "a copy of the project", "masked",
                  snp_manifest_masked(s, MASKED_MAX, SIZE_MAX), "masked_total",
                  (int)json_array_size(s->masked), "landlock_abi", snp_forked_of(s)->landlock_abi);
    json_t *calls = json_pack("{s:b,s:s,s:b,s:i,s:s,s:b}", "enforced", 1, "seccomp",
                              "allow-list, refusals recorded", "no_new_privs", 1, "capabilities", 0,
                              "signals", "sent by the supervisor, inside the session only",
                              "landlock_scopes", snp_forked_of(s)->landlock_abi >= ABI_SCOPES);
    json_t *disposable = json_pack("{s:b,s:s,s:b}", "enforced", 1, "how",
                                   "killed and removed from outside: descendants of one process, "
                                   "which adopts orphans",
                                   "own_ids", snp_host_of(supervisor)->is_root);

    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "network", network, "resources", resources,
                     "filesystem", files, "syscalls", calls, "disposable", disposable);
}

void snp_local_degraded(const struct snp_supervisor *supervisor, json_t *list)
{
    static const char *const always[] = {
        "namespaces: none; names, sizes and owners of the host's files and the existence of "
        "its "
        "processes can be seen",
        "disk: workspace and tmp are measured, not capped",
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(always); i++) {
        (void)json_array_append_new(list, json_string(always[i]));
    }
    if (!snp_host_of(supervisor)->is_root) {
        (void)json_array_append_new(
            list, json_string("user: the code runs as you; filter and Landlock alone keep it from "
                              "your processes and files"));
    }
    if (snp_host_of(supervisor)->landlock_abi < ABI_SCOPES) {
        (void)json_array_append_new(
            list, json_sprintf("landlock: ABI %d does not confine signals and abstract sockets; "
                               "only the filter refuses them",
                               snp_host_of(supervisor)->landlock_abi));
    }
    snp_host_degraded(supervisor, list);
}

const char *snp_local_limited_by(const struct snp_supervisor *supervisor, enum snp_limit limit)
{
    static const char measured[] = "approximate: measured while cells run, then ended";

    switch ((int)limit) {
    case SNP_LIMIT_TMP:
    case SNP_LIMIT_WORKSPACE:
    case SNP_LIMIT_INODES:
        return measured;
    case SNP_LIMIT_PROCESSES: /* RLIMIT_NPROC counts a user's processes everywhere */
        return snp_host_of(supervisor)->is_root
                   ? "RLIMIT_NPROC of a separate user"
                   : "approximate: RLIMIT_NPROC beyond the user's other processes";
    default:
        return NULL;
    }
}

/* The local tier: rows that native's do not have. */
json_t *snp_local_probe(struct snp_supervisor *supervisor)
{
    json_t *features = json_array();
    bool has_notify = snp_probe_works(snp_probe_seccomp_notify);
    bool usable = supervisor->can_run && has_notify && access(supervisor->python, X_OK) == 0;
    char detail[96];

    (void)snprintf(detail, sizeof(detail), "weaker than native; Landlock ABI %d",
                   snp_host_of(supervisor)->landlock_abi);
    (void)json_array_append_new(
        features, snp_probe_row("local tier", usable, detail, "environment local does not work",
                                "a kernel from 5.13 on with landlock in lsm= and seccomp notify"));
    (void)json_array_append_new(
        features, snp_probe_row("local: signal fence",
                                snp_host_of(supervisor)->landlock_abi >= ABI_SCOPES, "Landlock",
                                "the filter alone keeps signals inside", "a kernel from 6.12 on"));
    (void)json_array_append_new(
        features, snp_probe_row("local: own user ids", snp_host_of(supervisor)->is_root, "",
                                "the code runs as you; filter and Landlock keep it from your files",
                                "run as root"));
    return json_pack("{s:o,s:b}", "features", features, "usable", usable);
}
