/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No new work begins. Sessions are saved, then the tiers end, then the journal is closed; only then
 * is the request for the end answered, and the loop ends once the last handle is closed.
 */
#include "daemon/front/end.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/wire/session.h"
#include "daemon/front/settle.h"
#include "daemon/request.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/hibernate.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/memory.h"
#include "daemon/save/prove.h"
#include "daemon/save/unsaved.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"
#include "daemon/tier.h"
#include "store/store.h"

enum {
    NAMES_MAX = 200,                             /* bytes of names in an error */
    NAMES_REST = sizeof(" and 4294967295 more"), /* of these: for the number of further names */
};

_Static_assert(NAMES_MAX - NAMES_REST > SNP_SESSION_NAME_MAX, "the first fits");

/*
 * Check whether clients can still reach the socket. Its folder is removed with the user's last
 * login (/run/user), or by a cleaner of /tmp; then the next client starts another daemon, which
 * needs the journal that this one holds.
 */
bool snp_server_is_reachable(const struct snp_server *server)
{
    struct stat st;

    return server->socket.ino == 0 ||
           (lstat(server->options.socket_path, &st) == 0 && st.st_dev == server->socket.dev &&
            st.st_ino == server->socket.ino);
}

static void on_end_timer(uv_timer_t *timer)
{
    struct snp_server *server = timer->data;

    /* Clients that still have not read their last answer are disconnected. */
    for (size_t i = 0; i < SNP_CAP_CLIENTS; i++) {
        if (server->peers[i] != NULL) {
            snp_conn_abort(&server->peers[i]->conn, NULL);
        }
    }
    uv_close((uv_handle_t *)timer, NULL);
}

/* Sessions are gone: answer the request for the end, and release the clients. */
static void end_finish(struct snp_server *server)
{
    if (uv_is_closing((uv_handle_t *)&server->sigterm)) {
        return;
    }
    if (server->shutdown != NULL) {
        snp_autojson json_t *lost = SNP_TAKE_PTR(server->end_lost);

        lost = lost == NULL ? json_array() : lost;
        snp_request_answer(SNP_TAKE_PTR(server->shutdown),
                           SNP_WRITE(snp_shutdown_answer, .lost = lost));
    }
    for (size_t i = 0; i < SNP_CAP_CLIENTS; i++) {
        if (server->peers[i] != NULL) {
            snp_conn_end(&server->peers[i]->conn);
        }
    }
    uv_close((uv_handle_t *)&server->sigterm, NULL);
    uv_close((uv_handle_t *)&server->sigint, NULL);
    (void)uv_timer_start(&server->end_timer, on_end_timer, (uint64_t)2 * SNP_CAP_FLUSH_MS, 0);
    uv_unref((uv_handle_t *)&server->end_timer);
}

static void journal_closed(void *arg)
{
    end_finish(arg);
}

/* "a, b and 3 more": as many names of the rows as fit, at least one. */
static void names_of(const json_t *rows, char *out, size_t out_len)
{
    const size_t n = json_array_size(rows);
    const size_t room = out_len - NAMES_REST;
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const char *name = snp_json_str(json_array_get(rows, i), "session", "?");

        if (i > 0 && used + strlen(", ") + strlen(name) >= room) {
            (void)snprintf(out + used, out_len - used, " and %zu more", n - i);
            return;
        }
        used += (size_t)snprintf(out + used, room - used, "%s%s", i == 0 ? "" : ", ", name);
    }
}

/* The next daemon's `doctor` reports it; `sessions` shows what each session lacks. */
static void end_report(struct snp_server *server)
{
    snp_autojson json_t *unsaved = SNP_TAKE_PTR(server->end_unsaved);
    char names[NAMES_MAX];

    if (json_array_size(unsaved) > 0) {
        names_of(unsaved, names, sizeof(names));
        snp_log(SNP_LOG_WARN, "end-unsaved", "sessions=\"%s\"", names);
        snp_entry_event(server, "end_unsaved", NULL, "not saved when the daemon ended: %s (%.300s)",
                        names, snp_json_str(json_array_get(unsaved, 0), "reason", ""));
    }
}

/* Nothing runs any more; pending entries are written. */
static void end_journal(struct snp_server *server)
{
    if (server->store != NULL) {
        end_report(server);
        for (size_t i = 0; i < server->sessions.n_slots; i++) {
            if (server->sessions.slots[i] != NULL) {
                (void)snp_entry_pay(server->sessions.slots[i], NULL, NULL);
            }
        }
        snp_store_close(SNP_TAKE_PTR(server->store), journal_closed, server);
    }
}

static bool is_unsaved(const struct snp_session *session)
{
    return session->unsaved.is_dirty || snp_checkpoint_is_moving(session);
}

/* The session's cell runs: the state before it, which was answered, is saved. */
static bool has_before(const struct snp_session *session)
{
    return !is_unsaved(session) || session->unsaved.saved_changes == session->unsaved.begun_changes;
}

/* Report the cells still running after the time limit: they lose all since their last save. */
static void end_tell(struct snp_server *server)
{
    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        const struct snp_session *session = server->sessions.slots[i];
        struct snp_err err;

        if (session != NULL && session->state == SNP_SESSION_RUNNING && session->name[0] != '\0' &&
            (!has_before(session) || session->unsaved.changes != session->unsaved.begun_changes)) {
            (void)snp_fail(&err, SNP_E_TIMEOUT,
                           "cell %llu was still running; the session was last saved after "
                           "cell %llu%s",
                           (unsigned long long)session->cells,
                           (unsigned long long)session->durable.checkpoint_cell,
                           session->unsaved.changes == session->unsaved.begun_changes
                               ? ""
                               : ", without the files put into it beside that cell");
            snp_lost_tell_end(session, &err);
        }
    }
}

/* No executor is needed any more: end the tiers. */
static void end_tiers(struct snp_server *server)
{
    if (server->has_ended_tiers) {
        return;
    }
    server->has_ended_tiers = true;
    end_tell(server);
    (void)uv_timer_stop(&server->end_timer);
    for (struct snp_found_tier *tier = server->tiers.first; tier != NULL; tier = tier->next) {
        if (tier->running != NULL) {
            snp_tier_end(tier->running);
        }
    }
    if (server->n_tiers == 0) {
        end_journal(server);
    }
}

static void end_saved(void *ctx, const struct snp_err *err)
{
    struct snp_session *session = ctx;
    struct snp_server *server = session->server;

    if (err != NULL) {
        snp_log(SNP_LOG_WARN, "end-save", "session=%s error=\"%s\"", session->id, err->msg);
    }
    snp_session_unref(session);
    server->n_end_saves--;
    snp_server_saved(server);
}

static bool is_unproven(const struct snp_session *session)
{
    return session->durable.checkpoint != 0 && !snp_prove_is_done(session);
}

/*
 * Save the state before the running cell; if that fails, or files were put since, wait for the
 * cell.
 */
static bool end_running(struct snp_session *session)
{
    if (session->live.running != NULL && session->live.running->record != NULL) {
        return true; /* its answer is pending */
    }
    if (has_before(session) && session->unsaved.changes == session->unsaved.begun_changes) {
        return false;
    }
    if (!has_before(session) && session->unsaved.end_tries == 0) {
        session->unsaved.end_tries++;
        snp_checkpoint_make(session, NULL, NULL);
        return true;
    }
    return snp_now_us() - session->server->end_us < (uint64_t)SNP_CAP_END_CELL_MS * 1000;
}

static bool awaits_room(const struct snp_session *session)
{
    const struct snp_server *server = session->server;

    return server->end_awaits_room && is_unsaved(session) && snp_unsaved_awaits_room(session) &&
           snp_now_us() - server->end_us < (uint64_t)SNP_CAP_END_ROOM_MS * 1000;
}

/* Begin the next step for a session before its executor goes. False: no step is left. */
static bool end_session(struct snp_session *session)
{
    struct snp_server *server = session->server;

    if (session->name[0] == '\0' || session->live.executor == NULL || session->live.wake != NULL) {
        return false;
    }
    if (session->unsaved.save != NULL || session->unsaved.n_putting > 0 ||
        snp_memory_is_leaving(session)) {
        return true;
    }
    if (session->unsaved.end_changes != session->unsaved.changes) {
        session->unsaved.end_changes = session->unsaved.changes;
        session->unsaved.end_tries = 0;
    }
    if (session->state == SNP_SESSION_RUNNING) {
        return end_running(session);
    }
    if (session->state != SNP_SESSION_IDLE) {
        return session->state == SNP_SESSION_SAVING || session->state == SNP_SESSION_ROLLING_BACK;
    }
    if (awaits_room(session)) {
        if (snp_now_us() < session->unsaved.end_retry_us) {
            return true;
        }
        session->unsaved.end_tries = 0;
        (void)snp_entry_pay(session, NULL, NULL);
    }
    if (is_unsaved(session) ? session->unsaved.end_tries == SNP_CAP_END_TRIES
                            : session->unsaved.end_tries > 0 || !is_unproven(session)) {
        return false;
    }
    session->unsaved.end_tries++;
    session->unsaved.end_retry_us = snp_now_us() + (uint64_t)SNP_CAP_END_RETRY_MS * 1000;
    server->n_end_saves++;
    snp_session_ref(session);
    snp_hibernate(session, false, end_saved, session);
    return true;
}

/*
 * Save what sessions hold before their executors go: also state that was answered during other
 * saves, and snapshots in memory. No cell begins until then.
 */
static void end_look(uv_timer_t *timer)
{
    struct snp_server *server = timer->data;
    bool is_waiting = false;

    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        struct snp_session *session = server->sessions.slots[i];

        is_waiting |= session != NULL && end_session(session);
    }
    is_waiting |= server->n_end_saves > 0 || server->n_saving > 0;
    if (!is_waiting) {
        end_tiers(server);
    } else if (snp_now_us() - server->end_us > (uint64_t)SNP_CAP_END_SAVE_MS * 1000) {
        snp_log(SNP_LOG_WARN, "end", "why=\"%u checkpoints are not done in time\"",
                server->n_end_saves);
        end_tiers(server);
    } else {
        (void)uv_timer_start(timer, end_look, SNP_CAP_END_LOOK_MS, 0);
    }
}

void snp_server_saved(struct snp_server *server)
{
    if (server->is_ending && !server->has_ended_tiers) {
        (void)uv_timer_start(&server->end_timer, end_look, 0, 0);
    }
}

/* Cells that have not begun are refused. */
static void end_begin(struct snp_server *server)
{
    server->end_us = snp_now_us();
    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        struct snp_session *session = server->sessions.slots[i];

        if (session != NULL) {
            snp_memory_retry(session);
            snp_session_go_on(session);
        }
    }
    end_look(&server->end_timer);
}

void snp_server_end(struct snp_server *server, struct snp_request *request)
{
    if (server->is_ending) {
        server->end_awaits_room = false; /* a second request */
        if (request != NULL) {
            snp_request_refuse(request, SNP_E_PEER, "the daemon is ending");
        }
        return;
    }
    server->is_ending = true;
    server->end_awaits_room = request == NULL;
    if (server->shutdown != NULL && request != NULL) {
        snp_request_refuse(server->shutdown, SNP_E_PEER, "the daemon is ending");
        server->shutdown = request;
    } else if (request != NULL) {
        server->shutdown = request;
    } /* else server->shutdown is a request that waits for the saves */
    server->end_lost = json_array();
    server->end_unsaved = json_array();
    uv_close((uv_handle_t *)&server->listener, NULL);
    snp_closep(&server->listen_fd);
    server->listen_fd = -1;
    /*
     * From here on a new client finds no daemon and starts the next one; its socket may be there
     * already.
     */
    if (!server->options.is_socket_given && snp_server_is_reachable(server)) {
        (void)unlink(server->options.socket_path);
    }
    uv_close((uv_handle_t *)&server->folder, NULL);
    uv_close((uv_handle_t *)&server->ticker, NULL);
    uv_close((uv_handle_t *)&server->checkpoints, NULL);
    uv_close((uv_handle_t *)&server->intents, NULL);
    uv_close((uv_handle_t *)&server->waits, NULL);
    end_begin(server);
}

static void stop_settled(struct snp_server *server, bool is_saved)
{
    struct snp_request *request = SNP_TAKE_PTR(server->shutdown);
    snp_autojson json_t *unsaved = snp_unsaved_list(server);
    size_t n = json_array_size(unsaved);
    char names[NAMES_MAX];

    if (is_saved) {
        snp_server_end(server, request);
    } else if (n == 0) {
        snp_request_refuse(request, SNP_E_DENIED, "sessions were not saved within %d s",
                           SNP_CAP_END_SAVE_MS / 1000);
    } else {
        names_of(unsaved, names, sizeof(names));
        snp_request_refuse(request, SNP_E_DENIED, "%zu session%s could not be saved: %s", n,
                           n == 1 ? "" : "s", names);
    }
}

void snp_server_stop(struct snp_server *server, struct snp_request *request)
{
    if (server->shutdown == NULL) {
        server->shutdown = request;
        if (snp_server_settle(server, stop_settled)) {
            return;
        }
        server->shutdown = NULL;
    }
    snp_request_refuse(request, SNP_E_LIMIT,
                       "sessions are already being saved; try again in a moment");
}

void snp_server_tier_gone(struct snp_server *server)
{
    server->n_tiers--;
    if (server->has_ended_tiers && server->n_tiers == 0) {
        end_journal(server);
    }
}
