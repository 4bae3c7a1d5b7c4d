/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sessions. It decides nothing: life.c has the transitions. */
#include "daemon/session/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "daemon/server.h"
#include "store/store.h"

_Static_assert((SNP_CAP_SESSIONS & (SNP_CAP_SESSIONS - 1)) == 0, "buckets are masked");

enum {
    PREFIX_MIN = 8, /* digits of an id that identify a session */
};

/* FNV-1a. Ids are random, and names are chosen by the user who runs this daemon. */
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
                       enum snp_session_state state,
                       struct snp_session **ret,
                       struct snp_err *err)
{
    struct snp_sessions *table = &server->sessions;
    struct snp_session *session;

    if (table->n_free == 0 && table->n_slots == SNP_CAP_SESSIONS) {
        return snp_fail(err, SNP_E_LIMIT, "%d sessions already exist (the limit); end one of them",
                        SNP_CAP_SESSIONS);
    }
    session = calloc(1, sizeof(*session));
    SNP_TRY_MEMORY(session, err);
    memcpy(session->id, id, sizeof(session->id));
    (void)snprintf(session->name, sizeof(session->name), "%s", name == NULL ? "" : name);
    session->server = server;
    session->refs = 1;
    session->state = state;
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
    bool is_unnamed = name == NULL || name[0] == '\0';
    char id[SNP_SESSION_ID_LEN + 1];

    if (snp_random_id(id) < 0) {
        return snp_fail_sys(err, errno, "random id");
    }
    return session_add(server, id, name, is_unnamed ? SNP_SESSION_OPENING : SNP_SESSION_ASLEEP, ret,
                       err);
}

int snp_session_known(struct snp_server *server,
                      const char *id,
                      const char *name,
                      struct snp_session **ret,
                      struct snp_err *err)
{
    return snp_session_is_id(id) ? session_add(server, id, name, SNP_SESSION_ASLEEP, ret, err)
                                 : snp_fail(err, SNP_E_INVALID, "'%.64s' is not a session id", id);
}

void snp_session_ref(struct snp_session *session)
{
    session->refs++;
}

void snp_session_unref(struct snp_session *session)
{
    SNP_ASSERT(session == NULL || session->refs > 0);
    if (session == NULL || --session->refs > 0) {
        return;
    }
    session->server->hooks->forget(session);
    free(session->policy.project);
    free(session->policy.place.instead_of);
    free(session->policy.place.rootfs);
    json_decref(session->policy.env);
    json_decref(session->policy.guarantees);
    json_decref(session->live.restored);
    json_decref(session->durable.missing);
    json_decref(session->durable.checkpoint_lost);
    json_decref(session->durable.unrestorable);
    json_decref(session->policy.place.manifest);
    free(session);
}

void snp_session_remove(struct snp_session *session)
{
    struct snp_sessions *table = &session->server->sessions;

    if (table->slots[session->slot] != session) {
        return; /* removed before */
    }
    table->slots[session->slot] = NULL;
    table->free_slots[table->n_free++] = session->slot;
    chains_leave(table, session);
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

        if (session != NULL && session->name[0] != '\0' && session->state != SNP_SESSION_CLOSING) {
            names[n++] = session->name;
        }
    }
    nearest = names == NULL ? NULL : snp_suggest(text, names, n);
    (void)snp_fail_with(err, SNP_E_NOT_FOUND, SNP_REMEDY_LIST_SESSIONS, NULL, 0, "no %s '%.130s'",
                        what, text);
    snp_err_about(err, text);
    return snp_err_near(err, SNP_E_NOT_FOUND, nearest);
}

int snp_sessions_check(struct snp_server *server, struct snp_err *err)
{
    struct snp_err why = {.code = SNP_OK};

    if (server->is_recovered) {
        return 0;
    }
    if (snp_store_health(server->store, &why) == 0) {
        (void)snprintf(why.msg, sizeof(why.msg), "the journal is being opened; try again");
    }
    server->hooks->recover(server); /* for the next attempt */
    return snp_fail_with(err, SNP_E_SYS, SNP_REMEDY_NO_SESSION, NULL, 0,
                         "the journal of sessions cannot be used (%.260s)", why.msg);
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
        int r = snp_sessions_check(server, err);

        return r < 0 ? r : snp_sessions_unknown(server, "session", text, err);
    }
    *ret = found;
    return 0;
}
