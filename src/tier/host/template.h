/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_TEMPLATE_H
#define SNP_TIER_HOST_TEMPLATE_H

/*
 * Warm interpreters (templates) from which sandboxes are forked.
 *
 * A template is started at the first request, one for each interpreter, its packages and its
 * preloaded modules. It produces pending sandboxes: processes alone in new namespaces, with mapped
 * ids, in their cgroups, waiting for a spec. After a number of forks, or some time, a new template
 * takes over, so that hash seed and address layout are not shared forever. The zygote sets up
 * sandboxes one by one: send a pending sandbox's spec at once.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "guest/spec.h"

struct snp_python;
struct snp_supervisor;
struct snp_template;

/* Descriptors for starting a template: `PROGRAM --zygote NAME=VALUE...`, see args_make. */
enum {
    SNP_LAUNCH_CONTROL_FD = 3,
    SNP_LAUNCH_SESSION_FILTER_FD = 4,
    SNP_LAUNCH_ZYGOTE_FILTER_FD = 5,
    SNP_LAUNCH_LIFE_FD = 6, /* with keepers: closes with the supervisor */
};

enum {
    SNP_TEMPLATE_FORKS_MAX = 1000,
    SNP_TEMPLATE_AGE_MAX_S = 3600,
    SNP_TEMPLATE_IDLE_MAX_S = 600, /* for templates that are not built in */
    SNP_TEMPLATE_IMAGE_IDLE_MS = 2000,
    SNP_TEMPLATE_IMAGE_IDLE_MAX_MS = 3600000,
    SNP_TEMPLATE_RENEW_IDLE_S = 60, /* before replacing one that comes from an old image */
};

/* A sandbox before its set-up. Its holder owns the descriptors. */
struct snp_pending {
    pid_t pid;       /* in our namespace */
    uint32_t number; /* of its order */
    int pidfd;
    pid_t keeper;                     /* with keepers: adopts the orphans of this one ... */
    pid_t zygote;                     /* ... and its other child; -1 = ended */
    int control_fd;                   /* its control socket */
    int slot;                         /* id range, -1 = none */
    char python[SNP_VERSION_MAX + 1]; /* version of the interpreter */
    bool is_thawed;                   /* its template was started from an image */
    bool has_cgroup;
    char cgroup[24]; /* name of its groups, if it has them; it is already in them */
};

/* On failure pending is NULL and err set; else the callee owns pending. */
typedef void (*snp_pending_cb)(void *data,
                               const struct snp_pending *pending,
                               const struct snp_err *err);

/*
 * Request a pending sandbox of the template with this interpreter; cb runs now or later, once.
 * SNP_E_UNSUPPORTED: it could not be started, for the reason in the message. python is not kept.
 */
void snp_template_request(struct snp_supervisor *supervisor,
                          const struct snp_python *python,
                          snp_pending_cb cb,
                          void *data);

/* Have the template's image written soon, if missing: the image of a session depends on it. */
void snp_template_keep(struct snp_supervisor *supervisor, const struct snp_python *python);

/* Close a pending sandbox; its cgroups are removed when its processes have ended. */
void snp_pending_drop(struct snp_supervisor *supervisor, struct snp_pending *pending);

/* Remove the cgroups of dropped pending sandboxes; true when none remain. */
bool snp_pending_sweep(struct snp_supervisor *supervisor);

/* End unused templates; called by a timer. */
void snp_templates_watch(struct snp_supervisor *supervisor);

/* End every template; pending requests fail. */
void snp_templates_close(struct snp_supervisor *supervisor);

#endif
