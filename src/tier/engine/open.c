/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening: search the project for secrets (worker thread), then take a matching pooled sandbox, or
 * have the tier make one. Sandboxes for the pool take the same path, without a request. Closing:
 * the tier kills the sandbox and reports its removal; only then the request is answered.
 */
#include "tier/engine/open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/wire/rpc.h"
#include "guest/pid1/wire.h"
#include "guest/spec.h"
#include "tier/engine/answer.h"
#include "tier/engine/cell/cell.h"
#include "tier/engine/inside.h"
#include "tier/engine/manifest.h"
#include "tier/engine/pool.h"
#include "tier/engine/process.h"
#include "tier/engine/project.h"
#include "tier/engine/snapshot/clone.h"
#include "tier/engine/snapshot/puts.h"
#include "tier/engine/snapshot/rollback.h"
#include "tier/engine/snapshot/snapshot.h"
#include "tier/engine/snapshot/state.h"
#include "tier/engine/supervisor.h"
#include "wire/tier.h"

static void sandbox_free(struct snp_sandbox *s)
{
    snp_sandbox_leave(s);
    s->supervisor->n_opening -= s->state == SNP_SANDBOX_OPENING ? 1 : 0;
    snp_sandbox_disconnect(s);
    snp_closep(&s->project_fd);
    snp_meter_done(&s->meter);
    s->supervisor->ops->unmake(s);
    snp_snapshots_done(s);
    snp_puts_forget(s);
    snp_buf_done(&s->mask);
    json_decref(s->masked);
    json_decref(s->degraded);
    snp_sandbox_spec_done(&s->spec);
    free(s);
}

/* The sandbox is removed: answer pending requests and free it. */
void snp_sandbox_gone(struct snp_sandbox *s)
{
    if (s->is_pooled) {
        snp_pool_lost(s);
    } else if (s->state == SNP_SANDBOX_OPENING && s->open_id != 0) {
        struct snp_err err = s->open_err;
        if (err.code == SNP_OK) {
            (void)snp_fail(&err, SNP_E_INTERNAL, "the sandbox could not be set up: %s",
                           s->reason[0] == '\0' ? "it ended before it was ready" : s->reason);
        }
        snp_answer_error(s->supervisor, s->open_id, &err);
    } else if (s->close_id != 0) {
        snp_answer_response(s->supervisor, s->close_id, NULL, NULL, 0);
    } else {
        snp_answer_gone(s->supervisor, s->spec.id,
                        s->reason[0] == '\0' ? "pid 1 of the sandbox ended" : s->reason);
    }
    sandbox_free(s);
}

void snp_sandbox_failed(struct snp_sandbox *s, const struct snp_err *err)
{
    s->open_err = *err;
    snp_sandbox_gone(s);
}

void snp_sandbox_ended(struct snp_sandbox *s)
{
    if (s->state == SNP_SANDBOX_READY) {
        s->state = SNP_SANDBOX_CLOSING; /* it takes no cell while its cgroups are removed */
    }
    snp_sandbox_drain(s);
    snp_sandbox_disconnect(s);
    snp_closep(&s->project_fd);
    snp_meter_done(&s->meter);
    snp_sandbox_fail_calls(s);
    snp_detached_sandbox_ended(s);
    snp_snapshot_sandbox_ended(s);
    snp_rollback_sandbox_ended(s);
    snp_state_sandbox_ended(s);
    snp_clone_sandbox_ended(s);
    if (s->cell != NULL) {
        snp_cell_sandbox_ended(s->cell);
    }
}

static void kill_list(struct snp_sandbox *first)
{
    for (struct snp_sandbox *s = first; s != NULL; s = s->next) {
        snp_sandbox_kill(s, "the tier is ending");
    }
}

static void await_list(struct snp_sandbox *first)
{
    for (struct snp_sandbox *s = first; s != NULL; s = s->next) {
        s->supervisor->ops->await(s);
    }
}

void snp_sandbox_end_all(struct snp_supervisor *supervisor)
{
    if (supervisor->ops->end_all != NULL) {
        supervisor->ops->end_all(supervisor);
    } else {
        kill_list(supervisor->sandboxes);
        kill_list(supervisor->pooled);
    }
    await_list(supervisor->sandboxes);
    await_list(supervisor->pooled);
}

void snp_sandboxes_watch(struct snp_supervisor *supervisor)
{
    uint64_t now = snp_now_us();

    for (struct snp_sandbox *s = supervisor->sandboxes; s != NULL; s = s->next) {
        for (size_t i = 0; i < SNP_INIT_CALLS_MAX; i++) {
            if (s->calls[i].id != 0 && now - s->calls[i].start_us > s->calls[i].timeout_us) {
                snp_sandbox_kill(s, "pid 1 of the sandbox does not answer");
                break;
            }
        }
    }
}

static void send_pristine(struct snp_sandbox *s)
{
    if (!s->has_pristine) {
        s->has_pristine = true;
        snp_sandbox_send_guest(s, SNP_GUEST_SEED, NULL, 0);
    }
}

/* The sandbox is now a session. */
static void sandbox_begin(struct snp_sandbox *s)
{
    if (s->spec.is_lasting) {
        send_pristine(s);
    }
    snp_sandbox_start_guest(s);
    s->epoch = s->spec.epoch;
    s->wants_snapshot = s->spec.is_transactional;
    snp_snapshot_begin(s);
    s->setup_us = (uint32_t)(snp_now_us() - s->open_us);
    snp_autojson json_t *manifest = snp_manifest(s);
    json_t *answer = SNP_WRITE(snp_tier_open_answer, .manifest = manifest, .open_us = s->setup_us);
    snp_answer_response(s->supervisor, s->open_id, answer, NULL, 0);
    json_decref(answer);
    s->open_id = 0;
}

/* Move the project that from has opened to to. */
static void move_project(struct snp_sandbox *to, struct snp_sandbox *from)
{
    struct snp_buf mask = to->mask;
    json_t *masked = to->masked;

    to->mask = from->mask;
    from->mask = mask;
    to->masked = from->masked;
    from->masked = masked;
    to->project_stat = from->project_stat;
    to->project_fd = SNP_TAKE_FD(from->project_fd);
}

/* Move the request of from, which has at most opened its project, to pooled. */
static void adopt(struct snp_sandbox *pooled, struct snp_sandbox *from)
{
    const struct snp_tier_ops *ops = from->supervisor->ops;
    const bool is_filled =
        ops->fill != NULL && from->spec.project != NULL && !from->spec.is_to_load;
    struct snp_sandbox_spec spec = from->spec;

    snp_sandbox_leave(from);
    snp_sandbox_leave(pooled);
    from->spec = pooled->spec;
    pooled->spec = spec;
    pooled->open_id = from->open_id;
    pooled->open_us = from->open_us;
    pooled->is_pooled = false;
    pooled->was_pooled = true;
    if (ops->fill != NULL) {
        move_project(pooled, from);
    }
    sandbox_free(from);
    snp_sandbox_enter(pooled);
    if (is_filled) {
        pooled->state = SNP_SANDBOX_OPENING;
        pooled->supervisor->n_opening++;
        ops->fill(pooled);
    } else {
        sandbox_begin(pooled);
    }
}

void snp_sandbox_opened(struct snp_sandbox *s)
{
    s->state = SNP_SANDBOX_READY;
    s->supervisor->n_opening--;
    s->has_interpreter = true;
    if (!s->is_pooled) {
        sandbox_begin(s);
        return;
    }
    if (s->spec.is_lasting) {
        send_pristine(s);
    }
    snp_sandbox_send_guest(s, SNP_GUEST_WARM, NULL,
                           0); /* after the pristine copy, which would share the pages again */
}

/* The project is searched: find or make the sandbox. */
static void find_sandbox(struct snp_sandbox *s)
{
    const struct snp_tier_ops *ops = s->supervisor->ops;
    struct snp_sandbox *pooled = NULL;
    char *project = s->spec.project;

    if (ops->can_pool && !s->is_pooled) {
        /* A copied project would age in the pool: it is copied when the sandbox is taken. */
        s->spec.project = ops->fill != NULL ? NULL : project;
        pooled = snp_pool_find(s);
        snp_pool_want(s->supervisor, &s->spec);
        s->spec.project = project;
    }
    if (pooled != NULL) {
        adopt(pooled, s);
    } else {
        ops->open(s);
    }
}

static void on_searched(struct snp_sandbox *s)
{
    if (s->scan_result < 0) {
        snp_sandbox_failed(s, &s->scan_err);
    } else {
        find_sandbox(s);
    }
}

int snp_sandbox_check_exact(const struct snp_sandbox *s, struct snp_err *err)
{
    if (json_array_size(s->degraded) == 0) {
        return 0;
    }
    return snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_ALLOW_INEXACT, NULL, 0,
                         "exact controls are required, and this host cannot give them: %.220s; "
                         "run as root, or have systemd delegate control groups to your user",
                         json_string_value(json_array_get(s->degraded, 0)));
}

static int check_host(struct snp_sandbox *s, struct snp_err *err)
{
    struct snp_supervisor *supervisor = s->supervisor;

    if (!supervisor->can_run) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "%s", supervisor->why);
    }
    if (supervisor->n_sandboxes > SNP_SUPERVISOR_SANDBOXES_MAX) {
        return snp_fail(err, SNP_E_LIMIT,
                        "the tier has reached its limit of %d sandboxes; close one",
                        SNP_SUPERVISOR_SANDBOXES_MAX);
    }
    if (supervisor->ops->folder != NULL &&
        supervisor->ops->folder(supervisor, s->spec.id, s->folder, sizeof(s->folder), err) < 0) {
        return err->code;
    }
    if (supervisor->ops->check(s, err) < 0) {
        return err->code;
    }
    if (s->spec.instead_of != NULL) {
        (void)json_array_append_new(
            s->degraded,
            json_sprintf("environment: local, because native cannot run: %s", s->spec.instead_of));
    }
    snp_manifest_degraded(supervisor, &s->spec.limits, s->degraded);
    return s->spec.require_exact ? snp_sandbox_check_exact(s, err) : 0;
}

/* Allocate a sandbox; spec's owned members are taken. */
static struct snp_sandbox *sandbox_new(struct snp_supervisor *supervisor,
                                       struct snp_sandbox_spec *spec)
{
    struct snp_sandbox *s = calloc(1, sizeof(*s));

    if (s != NULL) {
        s->supervisor = supervisor;
    }
    if (s == NULL || supervisor->ops->make(s) < 0) {
        free(s);
        snp_sandbox_spec_done(spec);
        return NULL;
    }
    s->spec = *spec;
    spec->project = spec->env = spec->instead_of = NULL;
    spec->python = (struct snp_python){0};
    s->open_us = snp_now_us();
    s->out_fd[0] = s->out_fd[1] = -1;
    s->project_fd = -1;
    snp_meter_init(&s->meter);
    s->masked = json_array();
    s->degraded = json_array();
    snp_buf_init(&s->mask, SNP_MASK_MAX);
    supervisor->n_opening++;
    return s;
}

static int begin(struct snp_sandbox *s, struct snp_err *err)
{
    int r;

    snp_sandbox_enter(s);
    r = check_host(s, err);
    if (r == 0 && s->spec.project != NULL) {
        r = snp_project_open(s, on_searched, err);
    }
    if (r < 0) {
        sandbox_free(s);
        return r;
    }
    if (s->spec.project == NULL) {
        find_sandbox(s);
    }
    return 0;
}

int snp_sandbox_open(struct snp_supervisor *supervisor,
                     struct snp_sandbox_spec *spec,
                     uint32_t open_id,
                     struct snp_err *err)
{
    struct snp_sandbox *s = sandbox_new(supervisor, spec);

    if (s == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    s->open_id = open_id;
    return begin(s, err);
}

int snp_sandbox_prepare(struct snp_supervisor *supervisor,
                        const struct snp_sandbox_spec *spec,
                        struct snp_err *err)
{
    struct snp_sandbox_spec own;
    struct snp_sandbox *s =
        snp_sandbox_spec_copy(spec, &own) < 0 ? NULL : sandbox_new(supervisor, &own);

    if (s == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    s->is_pooled = true;
    return begin(s, err);
}
