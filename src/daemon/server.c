/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: who is connected, what they have asked, when it all ends.
 *
 * Invariants: a request in peer->open[] has that peer; a request whose client has gone has
 * none. After snp_server_end nothing new begins, and the loop ends by itself once the last handle
 * is closed.
 */
#include "daemon/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/rundir.h"
#include "daemon/archive/import.h"
#include "daemon/front/dispatch.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/memory.h"
#include "daemon/save/prove.h"
#include "daemon/session/exec.h"
#include "daemon/session/hibernate.h"
#include "daemon/session/recover.h"
#include "daemon/tier.h"
#include "store/store.h"
#include "wire/rpc.h"
#include "wire/session.h"

enum {
    TICK_MIN_MS = 50,
    TICK_MAX_MS = 10 * 1000,
    TICK_LOST_MS = 200, /* while nobody finds us, and somebody waits for an answer */
    TICKS = 5,          /* looks per idle time */
};

/* Requests ----------------------------------------------------------------------------- */

static struct snp_request *request_new(struct snp_peer *peer, uint32_t id, struct snp_err *err)
{
    struct snp_request *request;
    size_t slot = SNP_CAP_REQUESTS;

    for (size_t i = 0; i < SNP_CAP_REQUESTS; i++) {
        if (peer->open[i] == NULL) {
            slot = i < slot ? i : slot;
        } else if (peer->open[i]->id == id) {
            (void)snp_fail(err, SNP_E_PEER, "request %u is open already", id);
            return NULL;
        }
    }
    if (slot == SNP_CAP_REQUESTS) {
        (void)snp_fail(err, SNP_E_LIMIT, "%d requests are open already", SNP_CAP_REQUESTS);
        return NULL;
    }
    request = calloc(1, sizeof(*request));
    if (request == NULL) {
        (void)snp_fail(err, SNP_E_NOMEM, "out of memory");
        return NULL;
    }
    *request = (struct snp_request){.server = peer->server, .peer = peer, .id = id};
    peer->open[slot] = request;
    return request;
}

static void request_free(struct snp_request *request)
{
    struct snp_peer *peer = request->peer;

    for (size_t i = 0; peer != NULL && i < SNP_CAP_REQUESTS; i++) {
        if (peer->open[i] == request) {
            peer->open[i] = NULL;
        }
    }
    free(request);
}

/* An ERROR without a request of ours. */
static void error_send(struct snp_peer *peer, uint32_t id, const struct snp_err *err)
{
    snp_autojson json_t *head = snp_json_from_err(err);
    snp_autofree char *text = head == NULL ? NULL : snp_json_text(head);
    struct snp_frame frame = {.type = SNP_RPC_ERROR, .id = id, .head = text};

    if (text == NULL) {
        snp_conn_end(&peer->conn);
        return;
    }
    frame.head_len = strlen(text);
    if (snp_conn_send(&peer->conn, &frame) < 0) {
        snp_conn_end(&peer->conn); /* cannot be: a message is short */
    }
}

void snp_request_fail(struct snp_request *request, const struct snp_err *err)
{
    if (request->peer != NULL) {
        error_send(request->peer, request->id, err);
    }
    request_free(request);
}

void snp_request_pass(struct snp_request *request,
                      const char *head,
                      size_t head_len,
                      const void *raw,
                      size_t raw_len)
{
    struct snp_frame frame = {.type = SNP_RPC_RESPONSE,
                              .id = request->id,
                              .head = head,
                              .head_len = head_len,
                              .raw = raw,
                              .raw_len = raw_len};
    struct snp_err err;

    if (request->peer != NULL && snp_conn_send(&request->peer->conn, &frame) < 0) {
        (void)snp_fail(&err, SNP_E_LIMIT, "the answer is larger than a frame");
        snp_request_fail(request, &err);
        return;
    }
    request_free(request);
}

void snp_request_answer(struct snp_request *request, json_t *head)
{
    snp_autojson json_t *owned = head;
    snp_autofree char *text = owned == NULL ? NULL : snp_json_text(owned);
    struct snp_err err;

    if (text == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        snp_request_fail(request, &err);
        return;
    }
    snp_request_pass(request, text, strlen(text), NULL, 0);
}

void snp_request_event(struct snp_request *request,
                       const char *head,
                       size_t head_len,
                       const void *raw,
                       size_t raw_len)
{
    struct snp_frame frame = {.type = SNP_RPC_EVENT,
                              .id = request->id,
                              .head = head,
                              .head_len = head_len,
                              .raw = raw,
                              .raw_len = raw_len};

    /* It came in one frame of the same size, so it fits one. */
    if (request->peer != NULL && snp_conn_send(&request->peer->conn, &frame) < 0) {
        snp_conn_end(&request->peer->conn);
    }
}

/* Clients ------------------------------------------------------------------------------ */

/* -1: the client has broken the protocol; it was told and is to go. */
static int peer_handle(struct snp_peer *peer,
                       const struct snp_frame *frame,
                       struct snp_err *err)
{
    snp_autojson json_t *head = NULL;
    struct snp_request *request;
    int r;

    if (frame->type != SNP_RPC_REQUEST || frame->id == 0) {
        return snp_fail(err, SNP_E_PEER, "a frame of type %u with id %u is no request",
                        frame->type, frame->id);
    }
    r = snp_json_parse(frame->head, frame->head_len, &head, err);
    if (r < 0) {
        return r;
    }
    request = request_new(peer, frame->id, err);
    if (request == NULL) {
        if (err->code == SNP_E_PEER) {
            return err->code;
        }
        error_send(peer, frame->id, err);
        return 0;
    }
    snp_dispatch(request, head, frame->raw, frame->raw_len);
    return 0;
}

static void peer_frame(struct snp_conn *conn, const struct snp_frame *frame)
{
    struct snp_peer *peer = snp_container_of(conn, struct snp_peer, conn);
    struct snp_err err;

    if (peer_handle(peer, frame, &err) < 0) {
        snp_log(SNP_LOG_WARN, "client-broke", "pid=%d why=\"%s\"", (int)peer->pid, err.msg);
        error_send(peer, frame->id, &err);
        snp_conn_end(conn);
    }
}

static void peer_closed(struct snp_conn *conn, const struct snp_err *why)
{
    struct snp_peer *peer = snp_container_of(conn, struct snp_peer, conn);
    struct snp_server *server = peer->server;

    if (why->code != SNP_OK) {
        snp_log(SNP_LOG_WARN, "client-cut", "pid=%d why=\"%s\"", (int)peer->pid, why->msg);
    }
    snp_import_peer_gone(server, peer);
    for (size_t i = 0; i < SNP_CAP_REQUESTS; i++) {
        struct snp_request *request = SNP_TAKE_PTR(peer->open[i]);

        if (request != NULL) {
            request->peer = NULL;
            if (server->shutdown != request && request->exec != NULL) {
                snp_exec_abandon(request->exec);
            }
        }
    }
    for (size_t i = 0; i < SNP_CAP_CLIENTS; i++) {
        if (server->peers[i] == peer) {
            server->peers[i] = NULL;
        }
    }
    server->n_peers--;
    server->busy_us = snp_now_us();
}

static void peer_released(struct snp_conn *conn)
{
    free(snp_container_of(conn, struct snp_peer, conn));
}

static const struct snp_conn_ops peer_ops = {peer_frame, peer_closed, peer_released};

/* Is the other end our own user? Anybody else is turned away without a word. */
static bool peer_is_ours(int fd, pid_t *ret_pid)
{
    struct ucred cred = {0};
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || len != sizeof(cred)) {
        return false;
    }
    *ret_pid = cred.pid;
    return cred.uid == geteuid();
}

static void peer_add(struct snp_server *server, int fd)
{
    snp_autoclose int owned = fd;
    struct snp_peer *peer;
    struct snp_err err;
    pid_t pid = 0;
    size_t slot = 0;

    if (!peer_is_ours(owned, &pid)) {
        snp_log(SNP_LOG_WARN, "client-refused", "pid=%d why=\"another user\"", (int)pid);
        return;
    }
    while (slot < SNP_CAP_CLIENTS && server->peers[slot] != NULL) {
        slot++;
    }
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return;
    }
    peer->server = server;
    peer->pid = pid;
    if (snp_conn_open(&peer->conn, &server->loop, SNP_TAKE_FD(owned), &peer_ops, &err) < 0) {
        snp_log(SNP_LOG_ERROR, "client-watch", "error=\"%s\"", err.msg);
        free(peer);
        return;
    }
    server->n_peers++;
    if (slot == SNP_CAP_CLIENTS) {
        (void)snp_fail(&err, SNP_E_LIMIT, "%d clients are connected already", SNP_CAP_CLIENTS);
        error_send(peer, 0, &err);
        snp_conn_end(&peer->conn);
        return;
    }
    server->peers[slot] = peer;
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    struct snp_server *server = poll->data;
    int fd;

    (void)events;
    if (status < 0) {
        snp_log(SNP_LOG_ERROR, "listen", "error=\"%s\"", uv_strerror(status));
        return;
    }
    fd = SNP_RETRY(accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd < 0) {
        if (errno != EAGAIN && errno != ECONNABORTED) {
            snp_log(SNP_LOG_ERROR, "accept", "errno=%d", errno);
        }
        return;
    }
    peer_add(server, fd);
}

/* The end -------------------------------------------------------------------------------- */

static void on_end_timer(uv_timer_t *timer)
{
    struct snp_server *server = timer->data;

    /* Whoever still does not read its last answer is cut off. */
    for (size_t i = 0; i < SNP_CAP_CLIENTS; i++) {
        if (server->peers[i] != NULL) {
            snp_conn_abort(&server->peers[i]->conn, NULL);
        }
    }
    uv_close((uv_handle_t *)timer, NULL);
}

static void end_finish(struct snp_server *server);

static void journal_closed(void *arg)
{
    end_finish(arg);
}

/* Nothing runs any more; what waits to be written is written. */
static void end_journal(struct snp_server *server)
{
    if (server->store != NULL) {
        snp_store_close(SNP_TAKE_PTR(server->store), journal_closed, server);
    }
}

/*
 * Is there still a way to us? The folder of the socket is removed with the user's last login
 * (/run/user), or by a cleaner of /tmp; then the next client starts another daemon, which needs
 * the journal that we hold.
 */
static bool is_reachable(const struct snp_server *server)
{
    struct stat st;

    return server->socket.ino == 0 ||
           (lstat(server->options.socket_path, &st) == 0 && st.st_dev == server->socket.dev &&
            st.st_ino == server->socket.ino);
}

static bool has_requests(const struct snp_server *server)
{
    for (size_t i = 0; i < SNP_CAP_CLIENTS; i++) {
        for (size_t k = 0; server->peers[i] != NULL && k < SNP_CAP_REQUESTS; k++) {
            if (server->peers[i]->open[k] != NULL) {
                return true;
            }
        }
    }
    return false;
}

/* Nobody finds us: save everything and go, once nobody waits for an answer. */
static void reachable_check(struct snp_server *server)
{
    if (server->is_ending || is_reachable(server)) {
        return;
    }
    if (!has_requests(server)) {
        snp_log(SNP_LOG_WARN, "socket-gone", "path=%s", server->options.socket_path);
        snp_server_end(server, NULL);
    } else if (uv_timer_get_repeat(&server->ticker) > TICK_LOST_MS) {
        uv_timer_set_repeat(&server->ticker, TICK_LOST_MS);
        (void)uv_timer_again(&server->ticker);
    }
}

static void on_folder(uv_fs_event_t *handle, const char *name, int events, int status)
{
    (void)name;
    (void)events;
    (void)status;
    reachable_check(handle->data);
}

/* Without the watch (no inotify left) the ticker finds out, a little later. */
static void folder_watch(struct snp_server *server)
{
    snp_autofree char *folder = strdup(server->options.socket_path);
    char *slash = folder == NULL ? NULL : strrchr(folder, '/');
    struct stat st;

    server->folder.data = server;
    (void)uv_fs_event_init(&server->loop, &server->folder);
    if (lstat(server->options.socket_path, &st) < 0 || slash == NULL || slash == folder) {
        return;
    }
    server->socket = (struct snp_file_id){st.st_dev, st.st_ino};
    *slash = '\0';
    if (uv_fs_event_start(&server->folder, on_folder, folder, 0) < 0) {
        snp_log(SNP_LOG_WARN, "watch", "folder=%s", folder);
    }
}

/* Sessions are gone: tell who asked, and let the clients go. */
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

static bool is_unsaved(const struct snp_session *session)
{
    return session->unsaved.is_dirty || snp_checkpoint_is_moving(session);
}

/* Of one whose cell runs: what was answered before that is saved. */
static bool has_before(const struct snp_session *session)
{
    return !is_unsaved(session) ||
           session->unsaved.saved_changes == session->unsaved.begun_changes;
}

/* Who has a cell still running after all that time loses what was done since it was saved last. */
static void end_tell(struct snp_server *server)
{
    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        const struct snp_session *session = server->sessions.slots[i];
        struct snp_err err;

        if (session != NULL && session->state == SNP_SESSION_RUNNING &&
            session->name[0] != '\0' &&
            (!has_before(session) ||
             session->unsaved.changes != session->unsaved.begun_changes)) {
            (void)snp_fail(&err, SNP_E_TIMEOUT,
                           "cell %llu was still running; the session was last saved after "
                           "cell %llu%s",
                           (unsigned long long)session->cells,
                           (unsigned long long)session->durable.checkpoint_cell,
                           session->unsaved.changes == session->unsaved.begun_changes
                               ? ""
                               : ", and lacks files put into it beside that cell");
            snp_hibernate_tell_end(session, &err);
        }
    }
}

/* No executor is needed any more: the tiers end. */
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

/* As it was before its cell; if that cannot be saved, or files were put since, the cell is waited for. */
static bool end_running(struct snp_session *session)
{
    if (session->live.running != NULL && session->live.running->record != NULL) {
        return true; /* its answer is on its way */
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

/* Begin what is to be done for a session before its executor goes. False: that is all done. */
static bool end_session(struct snp_session *session)
{
    struct snp_server *server = session->server;

    if (session->name[0] == '\0' || session->live.executor == NULL ||
        session->live.wake != NULL) {
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
        return session->state == SNP_SESSION_SAVING ||
               session->state == SNP_SESSION_ROLLING_BACK;
    }
    if (is_unsaved(session) ? session->unsaved.end_tries == SNP_CAP_END_TRIES
                            : session->unsaved.end_tries > 0 || !is_unproven(session)) {
        return false;
    }
    session->unsaved.end_tries++;
    server->n_end_saves++;
    snp_session_ref(session);
    snp_hibernate(session, false, end_saved, session);
    return true;
}

/*
 * What sessions hold is saved before their executors go: also what was answered while others were
 * saved, and snapshots that are in memory only. No cell begins meanwhile.
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

/* Who has not begun will not. */
static void end_begin(struct snp_server *server)
{
    server->end_us = snp_now_us();
    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        struct snp_session *session = server->sessions.slots[i];

        if (session != NULL) {
            snp_memory_retry(session);
            snp_exec_pump(session);
        }
    }
    end_look(&server->end_timer);
}

void snp_server_end(struct snp_server *server, struct snp_request *request)
{
    struct snp_err err;

    if (server->is_ending) {
        if (request != NULL) {
            (void)snp_fail(&err, SNP_E_PEER, "the daemon is ending");
            snp_request_fail(request, &err);
        }
        return;
    }
    server->is_ending = true;
    server->shutdown = request;
    server->end_lost = json_array();
    uv_close((uv_handle_t *)&server->listener, NULL);
    snp_closep(&server->listen_fd);
    server->listen_fd = -1;
    /* From here on a new client finds nobody and starts the next daemon; whose socket may be there already. */
    if (is_reachable(server)) {
        (void)unlink(server->options.socket_path);
    }
    uv_close((uv_handle_t *)&server->folder, NULL);
    uv_close((uv_handle_t *)&server->ticker, NULL);
    uv_close((uv_handle_t *)&server->checkpoints, NULL);
    uv_close((uv_handle_t *)&server->intents, NULL);
    uv_close((uv_handle_t *)&server->waits, NULL);
    end_begin(server);
}

void snp_server_tier_gone(struct snp_server *server)
{
    server->n_tiers--;
    if (server->has_ended_tiers && server->n_tiers == 0) {
        end_journal(server);
    }
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct snp_server *server = handle->data;

    snp_log(SNP_LOG_INFO, "signal", "number=%d", signum);
    snp_server_end(server, NULL);
}

static void on_tick(uv_timer_t *timer)
{
    struct snp_server *server = timer->data;
    uint64_t now = snp_now_us();

    if (!server->is_recovered) {
        snp_recover(server, NULL); /* the disk may have room again */
    }
    snp_daemon_log_trim(server->options.state_dir);
    snp_hibernate_tick(server);
    if (server->n_peers > 0 || server->sessions.n_open > 0) {
        server->busy_us = now;
    } else if (now - server->busy_us > server->options.idle_ms * 1000) {
        snp_log(SNP_LOG_INFO, "idle", "ms=%llu", (unsigned long long)server->options.idle_ms);
        snp_server_end(server, NULL);
        return;
    }
    reachable_check(server);
}

/* Start ---------------------------------------------------------------------------------- */

static uint64_t tick_ms(const struct snp_server_options *options)
{
    uint64_t least = options->idle_ms < options->session_idle_ms ? options->idle_ms
                                                                 : options->session_idle_ms;
    uint64_t tick = least / TICKS;

    if (tick < TICK_MIN_MS) {
        return TICK_MIN_MS;
    }
    return tick > TICK_MAX_MS ? TICK_MAX_MS : tick;
}

/* The sessions of the journal are there: clients may come. */
static void serve_start(struct snp_server *server)
{
    if (!server->is_ending) {
        (void)uv_poll_start(&server->listener, UV_READABLE, on_listener);
    }
}

uint64_t snp_outputs_bytes(uint64_t budget)
{
    uint64_t part = budget / SNP_CAP_OUTPUTS_SHARE;

    return budget == 0 || part > SNP_CAP_OUTPUTS_BYTES ? SNP_CAP_OUTPUTS_BYTES : part;
}

/* What both tiers leave of it. */
static uint64_t journal_bytes(uint64_t budget)
{
    return budget == 0 ? 0 : budget - 2 * snp_outputs_bytes(budget);
}

int snp_server_init(struct snp_server *server,
                    int listen_fd,
                    const struct snp_server_options *options,
                    struct snp_err *err)
{
    const struct snp_store_options store_options = {
        .dir = options->state_dir, .budget_bytes = journal_bytes(options->budget_bytes)};
    snp_autoclose int owned = listen_fd;
    int r;

    *server = (struct snp_server){.options = *options, .listen_fd = -1};
    server->started_us = snp_now_us();
    server->busy_us = server->started_us;
    r = uv_loop_init(&server->loop);
    if (r < 0) {
        return snp_fail(err, SNP_E_INTERNAL, "event loop: %s", uv_strerror(r));
    }
    r = uv_poll_init(&server->loop, &server->listener, owned);
    if (r < 0) {
        (void)uv_loop_close(&server->loop);
        return snp_fail(err, SNP_E_INTERNAL, "watch the socket: %s", uv_strerror(r));
    }
    r = snp_store_open(&server->loop, &store_options, &server->store, err);
    if (r < 0) {
        uv_close((uv_handle_t *)&server->listener, NULL);
        (void)uv_run(&server->loop, UV_RUN_DEFAULT);
        (void)uv_loop_close(&server->loop);
        return r;
    }
    server->listen_fd = SNP_TAKE_FD(owned);
    server->listener.data = server;
    server->ticker.data = server;
    server->end_timer.data = server;
    server->sigterm.data = server;
    server->sigint.data = server;
    server->checkpoints.data = server;
    server->intents.data = server;
    server->waits.data = server;
    (void)uv_timer_init(&server->loop, &server->ticker);
    (void)uv_timer_init(&server->loop, &server->end_timer);
    (void)uv_timer_init(&server->loop, &server->checkpoints);
    (void)uv_timer_init(&server->loop, &server->intents);
    (void)uv_timer_init(&server->loop, &server->waits);
    (void)uv_timer_start(&server->ticker, on_tick, tick_ms(options), tick_ms(options));
    (void)uv_signal_init(&server->loop, &server->sigterm);
    (void)uv_signal_init(&server->loop, &server->sigint);
    (void)uv_signal_start(&server->sigterm, on_signal, SIGTERM);
    (void)uv_signal_start(&server->sigint, on_signal, SIGINT);
    folder_watch(server);
    snp_recover(server, serve_start);
    return 0;
}

void snp_server_run(struct snp_server *server)
{
    (void)uv_run(&server->loop, UV_RUN_DEFAULT);
    if (!uv_is_closing((uv_handle_t *)&server->end_timer)) {
        uv_close((uv_handle_t *)&server->end_timer, NULL);
        (void)uv_run(&server->loop, UV_RUN_DEFAULT);
    }
    (void)uv_loop_close(&server->loop);
    json_decref(SNP_TAKE_PTR(server->end_lost));
    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        if (server->sessions.slots[i] != NULL) {
            snp_session_remove(server->sessions.slots[i]); /* lost with their tier */
        }
    }
    snp_tiers_done(&server->tiers);
}
