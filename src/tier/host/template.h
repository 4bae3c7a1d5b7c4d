/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_TEMPLATE_H
#define SNP_TIER_HOST_TEMPLATE_H

/*
 * Warm interpreters and what is forked from them.
 *
 * A template is started when first asked for: one for each interpreter, its packages and what it
 * preloads. It hands out pending sandboxes: processes alone in new namespaces, ids mapped, in their
 * control groups, waiting for a spec. After a number of forks or a time a successor is warmed and
 * takes over, so that hash seed and address layout are not shared for ever. The zygote makes one
 * after the other: who takes a pending sandbox sends its spec at once.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "guest/spec.h"

struct snp_python;
struct snp_supervisor;
struct snp_template;

/* Descriptors of what starts a template: `PROGRAM --zygote NAME=VALUE...`, see args_make. */
enum {
    SNP_LAUNCH_CONTROL_FD = 3,
    SNP_LAUNCH_SESSION_FILTER_FD = 4,
    SNP_LAUNCH_ZYGOTE_FILTER_FD = 5,
    SNP_LAUNCH_LIFE_FD = 6, /* with keepers: ends with the supervisor */
};

enum {
    SNP_TEMPLATE_FORKS_MAX = 1000,
    SNP_TEMPLATE_AGE_MAX_S = 3600,
    SNP_TEMPLATE_IDLE_MAX_S = 600, /* of one that is not built in */
    SNP_TEMPLATE_IMAGE_IDLE_MS = 2000,
    SNP_TEMPLATE_IMAGE_IDLE_MAX_MS = 3600000,
    SNP_TEMPLATE_RENEW_IDLE_S = 60, /* before one is replaced that comes from an old image */
};

/* One sandbox to be. Descriptors are owned by whoever holds it. */
struct snp_pending {
    pid_t pid;       /* as the supervisor sees it */
    uint32_t number; /* of the order it comes of */
    int pidfd;
    pid_t keeper;                     /* with keepers: who adopts what this one leaves behind ... */
    pid_t zygote;                     /* ... and its other child; -1 = gone */
    int control_fd;                   /* to its control socket */
    int slot;                         /* id range, -1 = none */
    char python[SNP_VERSION_MAX + 1]; /* version of the interpreter */
    bool is_thawed;                   /* its template was started from an image */
    bool has_cgroup;
    char cgroup[24]; /* name of its groups, when it has them; it is in them already */
};

/* Pending is NULL and err set on failure; else it is the callee's. */
typedef void (*snp_pending_cb)(void *data,
                               const struct snp_pending *pending,
                               const struct snp_err *err);

/*
 * Ask for a pending sandbox of the template with this interpreter; cb runs now or later, once.
 * SNP_E_UNSUPPORTED: it could not be started, the message says why. python is not kept.
 */
void snp_template_request(struct snp_supervisor *supervisor,
                          const struct snp_python *python,
                          snp_pending_cb cb,
                          void *data);

/* Have its image written soon, if it has none: that of a session is of use with it only. */
void snp_template_keep(struct snp_supervisor *supervisor, const struct snp_python *python);

/* Close everything of a pending sandbox; its cgroups go as soon as its processes are gone. */
void snp_pending_drop(struct snp_supervisor *supervisor, struct snp_pending *pending);

/* Remove the cgroups of dropped pending sandboxes; true when none is left. */
bool snp_pending_sweep(struct snp_supervisor *supervisor);

/* End templates that nobody has asked for in a long time; for a timer. */
void snp_templates_watch(struct snp_supervisor *supervisor);

/* End every template; what waits is told. */
void snp_templates_close(struct snp_supervisor *supervisor);

#endif
