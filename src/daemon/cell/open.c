/* SPDX-License-Identifier: Apache-2.0 */
/* Find or create the session of a cell. The first call that names a session sets its policy. */
#include "daemon/cell/open.h"

#include <stdio.h>
#include <string.h>

#include "daemon/cell/end.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/project.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"

/* The executor of an unnamed session is ready or failed; on failure the session is removed. */
static void opened(void *ctx, json_t *manifest, const struct snp_err *why)
{
    struct snp_session *session = ctx;
    struct snp_err err = {.code = SNP_OK};

    if (session->state != SNP_SESSION_OPENING) {
        return; /* it is ending already */
    }
    if (manifest == NULL) {
        snp_turns_fail(session, SNP_TURNS_AWAKE, why);
        snp_session_remove(session);
        return;
    }
    if (snp_session_policy_opened(session, manifest, &err) < 0) {
        snp_turns_fail(session, SNP_TURNS_AWAKE, &err);
        snp_session_end(session);
        return;
    }
    snp_session_event(session, SNP_EV_OPENED);
    snp_session_go_on(session);
}

static void remember_guarantees(struct snp_session *session, const struct snp_exec_spec *spec)
{
    json_decref(session->policy.guarantees);
    session->policy.guarantees = json_deep_copy(spec->guarantees);
}

static int session_fill(struct snp_session *session,
                        const struct snp_exec_spec *spec,
                        pid_t client,
                        struct snp_err *err)
{
    const char *name = spec->asked.template != NULL ? spec->asked.template : spec->default_template;
    const char *project = spec->asked.project != NULL ? spec->asked.project : spec->default_project;
    const char *rootfs = spec->asked.rootfs != NULL ? spec->asked.rootfs : spec->default_rootfs;

    (void)snprintf(session->policy.template_name, sizeof(session->policy.template_name), "%s",
                   name == NULL ? "" : name);
    session->policy.project = project == NULL ? NULL : strdup(project);
    session->policy.place.rootfs = rootfs == NULL ? NULL : strdup(rootfs);
    session->policy.place.has_network = spec->has_network;
    remember_guarantees(session, spec);
    session->policy.env = spec->asked.env == NULL ? json_object() : json_incref(spec->asked.env);
    session->policy.limits = spec->limits;
    if (spec->asked.temporary) {
        snp_process_mark((uint64_t)client, session->policy.owner);
    }
    session->policy.place.is_auto = strcmp(spec->tier, SNP_TIER_AUTO) == 0;
    session->policy.place.allow_degraded = spec->asked.allow_degraded;
    session->policy.require_exact = spec->asked.require_exact;
    session->policy.transaction = spec->asked.transaction && spec->asked.session != NULL;
    session->unsaved.when = spec->checkpoint;
    SNP_TRY(snp_tiers_choose(&session->server->tiers, spec->tier, spec->asked.allow_degraded,
                             &session->policy.place.tier, err));
    SNP_TRY(snp_tier_guarantees(session->policy.place.tier, rootfs, spec->guarantees, err));
    if (session->policy.env == NULL || (project != NULL && session->policy.project == NULL) ||
        (rootfs != NULL && session->policy.place.rootfs == NULL)) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

static int session_open(struct snp_server *server,
                        const struct snp_exec_spec *spec,
                        pid_t client,
                        struct snp_session **ret,
                        struct snp_err *err)
{
    const char *project = spec->asked.project != NULL ? spec->asked.project : spec->default_project;
    struct snp_session *session = NULL;
    int r;

    if (project != NULL) {
        SNP_TRY(snp_session_project_check(project, server->options.home, err));
    }
    SNP_TRY(snp_session_new(server, spec->asked.session, &session, err));
    SNP_ASSERT(session != NULL);
    r = session_fill(session, spec, client, err);
    if (r == 0 && spec->asked.session == NULL) {
        r = snp_executor_open(session, opened, err);
    } else if (r == 0) {
        /* A named session is woken by its first cell, as by any other. */
        session->epoch = 0;
    }
    if (r < 0) {
        snp_session_remove(session);
        return r;
    }
    *ret = session;
    return 0;
}

int snp_session_for(const struct snp_request *request,
                    struct snp_exec_spec *spec,
                    struct snp_session **ret,
                    uint64_t *ret_wall_ms,
                    struct snp_err *err)
{
    struct snp_server *server = request->server;
    struct snp_session *session =
        spec->asked.session == NULL ? NULL : snp_sessions_find(server, spec->asked.session);

    SNP_TRY(spec->asked.session == NULL ? 0 : snp_sessions_check(server, err));
    if (session == NULL) {
        if (spec->asked.session != NULL && snp_session_is_id(spec->asked.session)) {
            return snp_fail(err, SNP_E_NOT_FOUND, "no session %s", spec->asked.session);
        }
        *ret_wall_ms = spec->limits.value[SNP_LIMIT_WALL];
        return session_open(server, spec, request->peer->pid, ret, err);
    }
    SNP_TRY(snp_exec_spec_fits(spec, &session->policy, ret_wall_ms, err));
    remember_guarantees(session, spec);
    *ret = session;
    return 0;
}
