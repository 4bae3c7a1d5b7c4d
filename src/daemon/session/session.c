/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of sessions. It decides nothing: what a session may do next is in exec.c,
 * which drives the states.
 */
#include "daemon/session/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "daemon/save/entry.h"
#include "daemon/save/memory.h"
#include "daemon/server.h"
#include "daemon/session/recover.h"
#include "daemon/tier.h"
#include "daemon/tiers.h"
#include "wire/session.h"

_Static_assert((SNP_CAP_SESSIONS & (SNP_CAP_SESSIONS - 1)) == 0, "buckets are masked");

enum {
    PREFIX_MIN = 8, /* digits of an id that stand for all */
};

static const char *const state_names[] = {
    [SNP_SESSION_OPENING] = "running", /* its first cell waits for it */
    [SNP_SESSION_IDLE] = "idle",
    [SNP_SESSION_RUNNING] = "running",
    [SNP_SESSION_SAVING] = "idle", /* a cell may come at any time */
    [SNP_SESSION_HIBERNATING] = "hibernated",
    [SNP_SESSION_HIBERNATED] = "hibernated",
    [SNP_SESSION_WAKING] = "waking",
    [SNP_SESSION_ROLLING_BACK] = "running",
    [SNP_SESSION_INCOMPLETE] = "incomplete",
    [SNP_SESSION_UNKNOWN] = "unknown",
    [SNP_SESSION_LOST] = "lost",
    [SNP_SESSION_CLOSING] = "closing",
};

static bool is_asleep(enum snp_session_state state)
{
    return state == SNP_SESSION_HIBERNATED || state == SNP_SESSION_INCOMPLETE ||
           state == SNP_SESSION_UNKNOWN || state == SNP_SESSION_LOST;
}

static bool is_open(enum snp_session_state state)
{
    return !is_asleep(state) && state != SNP_SESSION_CLOSING;
}

/* FNV-1a. Ids are random, and names are chosen by the user whose daemon this is. */
static size_t bucket(const char *text)
{
    uint32_t hash = 2166136261U;

    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    }
    return (hash ^ hash >> 16U) & (SNP_CAP_SESSIONS - 1);
}

static void chains_enter(struct snp_sessions *table, struct snp_session *session)
{
    struct snp_session **id = &table->by_id[bucket(session->id)];
    struct snp_session **name = &table->by_name[bucket(session->name)];

    session->same_id = *id;
    *id = session;
    if (session->name[0] != '\0') {
        session->same_name = *name;
        *name = session;
    }
}

static void chains_leave(struct snp_sessions *table, struct snp_session *session)
{
    struct snp_session **at = &table->by_id[bucket(session->id)];

    while (*at != session) {
        at = &(*at)->same_id;
    }
    *at = session->same_id;
    if (session->name[0] == '\0') {
        return;
    }
    at = &table->by_name[bucket(session->name)];
    while (*at != session) {
        at = &(*at)->same_name;
    }
    *at = session->same_name;
}

static int session_add(struct snp_server *server,
                       const char *id,
                       const char *name,
                       struct snp_session **ret,
                       struct snp_err *err)
{
    struct snp_sessions *table = &server->sessions;
    struct snp_session *session;

    if (table->n_free == 0 && table->n_slots == SNP_CAP_SESSIONS) {
        return snp_fail(err, SNP_E_LIMIT,
                        "there are %d sessions already; end one with: sessions destroy NAME",
                        SNP_CAP_SESSIONS);
    }
    session = calloc(1, sizeof(*session));
    if (session == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    memcpy(session->id, id, sizeof(session->id));
    (void)snprintf(session->name, sizeof(session->name), "%s", name == NULL ? "" : name);
    session->server = server;
    session->refs = 1;
    session->epoch = 1;
    session->created_wall_us = snp_wall_us();
    session->used_us = snp_now_us();
    session->used_wall_us = session->created_wall_us;
    session->slot = table->n_free > 0 ? table->free_slots[--table->n_free] : table->n_slots++;
    table->slots[session->slot] = session;
    chains_enter(table, session);
    *ret = session;
    return 0;
}

int snp_session_new(struct snp_server *server,
                    const char *name,
                    struct snp_session **ret,
                    struct snp_err *err)
{
    char id[SNP_SESSION_ID_LEN + 1];
    int r;

    if (snp_random_id(id) < 0) {
        return snp_fail_sys(err, errno, "random id");
    }
    r = session_add(server, id, name, ret, err);
    if (r == 0) {
        server->sessions.n_open++;
    }
    return r;
}

int snp_session_known(struct snp_server *server,
                      const char *id,
                      const char *name,
                      struct snp_session **ret,
                      struct snp_err *err)
{
    int r;

    if (!snp_session_is_id(id)) {
        return snp_fail(err, SNP_E_INVALID, "'%.64s' is no id of a session", id);
    }
    r = session_add(server, id, name, ret, err);
    if (r == 0) {
        (*ret)->state = SNP_SESSION_HIBERNATED;
    }
    return r;
}

uint64_t snp_session_floor_of(uint64_t checkpoint_cell,
                              uint64_t accepted_cell,
                              uint64_t accepted_from)
{
    return checkpoint_cell > accepted_cell || checkpoint_cell < accepted_from ? checkpoint_cell
                                                                              : accepted_cell;
}

uint64_t snp_session_floor(const struct snp_session *session)
{
    return snp_session_floor_of(session->durable.checkpoint_cell,
                                session->durable.accepted_cell, session->durable.accepted_from);
}

/* Until the journal has been asked, every cell after the checkpoint may have left something. */
static bool is_lacking(const struct snp_session *session)
{
    return session->durable.missing == NULL
               ? snp_session_floor(session) < session->cells
               : snp_json_int(session->durable.missing, "n_cells", 0) > 0 ||
                     snp_json_int(session->durable.missing, "n_files", 0) > 0 ||
                     json_is_integer(json_object_get(session->durable.missing, "rollback"));
}

enum snp_session_state snp_session_resting_state(const struct snp_session *session)
{
    if (!is_lacking(session)) {
        return SNP_SESSION_HIBERNATED;
    }
    if (session->durable.is_last_unknown) {
        return SNP_SESSION_UNKNOWN;
    }
    return session->durable.checkpoint == 0 && session->cells > 0 ? SNP_SESSION_LOST
                                                                  : SNP_SESSION_INCOMPLETE;
}

bool snp_session_is_asleep(const struct snp_session *session)
{
    return is_asleep(session->state);
}

void snp_session_ref(struct snp_session *session)
{
    session->refs++;
}

void snp_session_unref(struct snp_session *session)
{
    SNP_ASSERT(session->refs > 0);
    session->refs--;
    if (session->refs > 0) {
        return;
    }
    snp_entry_forgive(session);
    free(session->policy.project);
    free(session->policy.instead_of);
    free(session->policy.rootfs);
    json_decref(session->policy.env);
    json_decref(session->live.restored);
    json_decref(session->durable.missing);
    json_decref(session->durable.checkpoint_lost);
    json_decref(session->durable.unrestorable);
    free(session->policy.manifest);
    snp_memory_forget(session);
    free(session);
}

void snp_session_remove(struct snp_session *session)
{
    struct snp_sessions *table = &session->server->sessions;

    if (table->slots[session->slot] != session) {
        return; /* it was removed before */
    }
    table->slots[session->slot] = NULL;
    table->free_slots[table->n_free++] = session->slot;
    chains_leave(table, session);
    if (is_open(session->state)) {
        table->n_open--;
    }
    snp_session_unref(session);
}

struct snp_session *snp_sessions_find(const struct snp_server *server, const char *name)
{
    const struct snp_sessions *table = &server->sessions;
    size_t at = bucket(name);

    for (struct snp_session *s = table->by_name[at]; s != NULL; s = s->same_name) {
        if (s->state != SNP_SESSION_CLOSING && strcmp(s->name, name) == 0) {
            return s;
        }
    }
    for (struct snp_session *s = table->by_id[at]; s != NULL; s = s->same_id) {
        if (s->state != SNP_SESSION_CLOSING && strcmp(s->id, name) == 0) {
            return s;
        }
    }
    return NULL;
}

int snp_sessions_unknown(const struct snp_server *server,
                         const char *what,
                         const char *text,
                         struct snp_err *err)
{
    const struct snp_sessions *table = &server->sessions;
    snp_autofree const char **names = calloc(table->n_slots + 1, sizeof(*names));
    const char *nearest;
    size_t n = 0;

    for (size_t i = 0; names != NULL && i < table->n_slots; i++) {
        const struct snp_session *session = table->slots[i];

        if (session != NULL && session->name[0] != '\0' &&
            session->state != SNP_SESSION_CLOSING) {
            names[n++] = session->name;
        }
    }
    nearest = names == NULL ? NULL : snp_suggest(text, names, n);
    (void)snp_fail_near(err, SNP_E_NOT_FOUND, nearest, "there is no %s '%.130s'", what, text);
    snp_err_about(err, text);
    return err->code;
}

int snp_sessions_meant(struct snp_server *server,
                       const char *text,
                       struct snp_session **ret,
                       struct snp_err *err)
{
    const struct snp_sessions *table = &server->sessions;
    struct snp_session *found = snp_sessions_find(server, text);
    size_t n = strlen(text);

    if (found == NULL && n >= PREFIX_MIN && strspn(text, "0123456789abcdef") == n) {
        for (size_t i = 0; i < table->n_slots; i++) {
            struct snp_session *session = table->slots[i];

            if (session == NULL || session->state == SNP_SESSION_CLOSING ||
                strncmp(session->id, text, n) != 0) {
                continue;
            }
            if (found != NULL) {
                return snp_fail(err, SNP_E_INVALID, "the ids of several sessions begin with %s",
                                text);
            }
            found = session;
        }
    }
    if (found == NULL) {
        int r = snp_recover_check(server, err);

        return r < 0 ? r : snp_sessions_unknown(server, "session", text, err);
    }
    *ret = found;
    return 0;
}

void snp_session_set_state(struct snp_session *session, enum snp_session_state state)
{
    struct snp_sessions *table = &session->server->sessions;

    if (is_open(session->state) && !is_open(state)) {
        table->n_open--;
    } else if (!is_open(session->state) && is_open(state)) {
        table->n_open++;
    }
    SNP_ASSERT(session->state != SNP_SESSION_CLOSING);
    session->state = state;
    if (state == SNP_SESSION_IDLE) {
        json_decref(SNP_TAKE_PTR(session->durable.missing));
    }
    session->used_us = snp_now_us();
    if (state == SNP_SESSION_RUNNING) {
        session->used_wall_us = snp_wall_us();
    }
}

const char *snp_session_state_text(const struct snp_session *session)
{
    return session->policy.manifest == NULL ? "running" : state_names[session->state];
}

json_t *snp_session_missing(const struct snp_session *session)
{
    return is_asleep(session->state) && session->state != SNP_SESSION_HIBERNATED
               ? session->durable.missing
               : NULL;
}

json_t *snp_session_to_json(const struct snp_session *session, bool with_policy)
{
    uint64_t idle_us = session->state == SNP_SESSION_IDLE ? snp_now_us() - session->used_us : 0;
    snp_autojson json_t *limits = NULL;
    snp_autojson json_t *manifest = NULL;
    struct snp_sessions_show_answer row = {
        .id = session->id,
        .name = session->name[0] == '\0' ? NULL : session->name,
        .tier = session->policy.tier->name,
        .rank = (uint64_t)session->policy.tier->rank,
        .template = session->policy.template_name,
        .state = snp_session_state_text(session),
        .cells = session->cells,
        .epoch = session->epoch,
        .created = (double)session->created_wall_us / 1e6,
        .used = (double)session->used_wall_us / 1e6,
        .idle_ms = idle_us / 1000,
        .project = session->policy.project,
        .memory_bytes = session->policy.limits.value[SNP_LIMIT_MEMORY],
        .memory_peak_bytes = session->live.executor == NULL ? 0 : session->live.memory_bytes,
        .disk_bytes = session->durable.disk_bytes,
        .checkpoint_cell = session->durable.checkpoint_cell,
        .snapshots_bytes = session->live.executor == NULL ? 0 : session->live.copies_bytes,
        .missing = snp_session_missing(session),
    };

    if (!with_policy) {
        return snp_record_write(&snp_session_row_form, &row); /* the first members of it */
    }
    limits = snp_limits_to_json(&session->policy.limits);
    manifest =
        session->policy.manifest == NULL ? NULL : json_loads(session->policy.manifest, 0, NULL);
    row.limits = limits;
    row.manifest = manifest;
    return snp_record_write(&snp_sessions_show_answer_form, &row);
}
