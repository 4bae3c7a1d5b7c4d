/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/save/room.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/save/hibernate.h"
#include "daemon/save/memory.h"
#include "daemon/save/unsaved.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"
#include "store/job.h"

static bool is_candidate(const struct snp_session *session)
{
    return session->state == SNP_SESSION_IDLE && session->name[0] != '\0' &&
           session->live.wake == NULL && session->unsaved.save == NULL &&
           !session->unsaved.is_proving && session->unsaved.unsavable_us <= snp_now_us() &&
           snp_exec_first(session) == NULL && session->durable.is_recorded;
}

static struct snp_session *least_recently_used(const struct snp_sessions *table)
{
    struct snp_session *found = NULL;

    for (size_t i = 0; i < table->n_slots; i++) {
        struct snp_session *session = table->slots[i];

        if (session != NULL && is_candidate(session) &&
            (found == NULL || session->used_us < found->used_us)) {
            found = session;
        }
    }
    return found;
}

/* Memory as measured since its last cell, else that cell's maximum. */
static uint64_t bytes_of(const struct snp_session *session)
{
    return session->live.measured_bytes != 0 ? session->live.measured_bytes
                                             : session->live.memory_bytes;
}

/* Sessions with an executor, and their memory. */
struct living {
    uint64_t n;
    uint64_t bytes;     /* of the sessions that stay */
    uint64_t n_leaving; /* of them */
    uint64_t n_busy;    /* of them: to become idle, or end */
};

static struct living live_count(const struct snp_sessions *table)
{
    struct living living = {0};

    for (size_t i = 0; i < table->n_slots; i++) {
        const struct snp_session *session = table->slots[i];

        if (session == NULL || session->live.executor == NULL || session->name[0] == '\0') {
            continue;
        }
        living.n++;
        if (session->live.is_leaving || session->state == SNP_SESSION_HIBERNATING ||
            session->state == SNP_SESSION_CLOSING) {
            living.n_leaving++;
        } else {
            living.bytes += bytes_of(session);
            living.n_busy += session->state == SNP_SESSION_IDLE ? 0 : 1;
        }
    }
    return living;
}

static void left(void *ctx, const struct snp_err *err)
{
    struct snp_session *session = ctx;

    session->live.is_leaving = false;
    if (err != NULL) {
        snp_log(SNP_LOG_INFO, "hibernate-not", "session=%s why=\"%s\"", session->id, err->msg);
    }
    snp_session_unref(session);
}

static void leave(struct snp_session *session)
{
    session->live.is_leaving = true;
    snp_session_ref(session);
    snp_hibernate(session, true, left, session);
}

int snp_room_find(struct snp_server *server, struct snp_err *err)
{
    struct living living = live_count(&server->sessions);
    struct snp_session *session;

    if (living.n < server->options.live_max) {
        return 0;
    }
    session = living.n - living.n_leaving < server->options.live_max
                  ? NULL
                  : least_recently_used(&server->sessions);
    if (session != NULL) {
        leave(session);
        return 1;
    }
    if (living.n_leaving > 0 || living.n_busy > 0) {
        return 1;
    }
    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        session = server->sessions.slots[i];
        if (session != NULL && session->live.executor != NULL &&
            snp_unsaved_is(session, err)) { /* the fix lets all of them hibernate */
            return snp_err_wrap(err, "%llu sessions are awake (the limit), and %s cannot hibernate",
                                (unsigned long long)living.n, session->name);
        }
    }
    (void)snp_fail_with(err, SNP_E_LIMIT, SNP_REMEDY_END_SESSION, NULL, 0,
                        "%llu sessions are awake (the limit), and none can hibernate: each has "
                        "state that cannot be saved",
                        (unsigned long long)living.n);
    snp_err_limit(err, "live_sessions", (int64_t)server->options.live_max);
    return err->code;
}

void snp_room_want(struct snp_session *session)
{
    if (session->live.wants_room == 0) {
        session->live.wants_room = ++session->server->room_turns;
        session->server->n_wanting++;
    }
}

void snp_room_unwant(struct snp_session *session)
{
    if (session->live.wants_room != 0) {
        session->live.wants_room = 0;
        session->server->n_wanting--;
    }
}

/* The client whose cell the session wakes for; NULL: none, or it has disconnected. */
static struct snp_peer *peer_of(const struct snp_session *session)
{
    const struct snp_exec *exec = snp_exec_first(session);

    return exec == NULL || exec->request == NULL ? NULL : exec->request->peer;
}

/*
 * The next session to get room: of the client served least recently, the session waiting longest.
 */
static struct snp_session *wanting_next(const struct snp_server *server)
{
    struct snp_session *found = NULL;
    uint64_t found_turn = 0;

    for (size_t i = 0; server->n_wanting > 0 && i < server->sessions.n_slots; i++) {
        struct snp_session *session = server->sessions.slots[i];
        const struct snp_peer *peer;
        uint64_t turn;

        if (session == NULL || session->live.wants_room == 0) {
            continue;
        }
        peer = peer_of(session);
        turn = peer == NULL ? 0 : peer->room_turn;
        if (found == NULL || turn < found_turn ||
            (turn == found_turn && session->live.wants_room < found->live.wants_room)) {
            found = session;
            found_turn = turn;
        }
    }
    return found;
}

void snp_room_serve(struct snp_server *server)
{
    struct snp_session *session;

    while ((session = wanting_next(server)) != NULL) {
        struct snp_peer *peer = peer_of(session);
        bool is_served;

        snp_session_ref(session);
        snp_session_go_on(session);
        is_served = session->live.wants_room == 0;
        snp_session_unref(session);
        if (!is_served) {
            return;
        }
        if (peer != NULL) {
            peer->room_turn = ++server->room_turns;
        }
    }
}

void snp_room_tick(struct snp_server *server)
{
    const struct snp_server_options *options = &server->options;
    struct snp_sessions *table = &server->sessions;
    uint64_t now = snp_now_us();
    struct living living;

    for (size_t i = 0; i < table->n_slots; i++) {
        struct snp_session *session = table->slots[i];

        if (session != NULL && is_candidate(session) &&
            now - session->used_us > options->session_idle_ms * 1000) {
            leave(session);
        } else if (session != NULL && session->state == SNP_SESSION_IDLE &&
                   (session->live.measured_bytes == 0 || session->live.copies != NULL)) {
            snp_memory_measure(session);
        }
    }
    living = live_count(table);
    while (living.bytes > options->live_bytes && living.n > 1) {
        struct snp_session *session = least_recently_used(table);

        if (session == NULL) {
            return;
        }
        living.n--;
        living.bytes -= bytes_of(session);
        leave(session);
    }
}
