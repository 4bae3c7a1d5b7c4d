/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: its clients and their requests.
 *
 * Invariants: a request in peer->open[] has that peer; a request whose client has disconnected has
 * none.
 */
#include "daemon/front/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/rundir.h"
#include "base/wire/frame.h"
#include "base/wire/rpc.h"
#include "daemon/archive/import.h"
#include "daemon/cell/end.h"
#include "daemon/cell/start.h"
#include "daemon/front/dispatch.h"
#include "daemon/front/end.h"
#include "daemon/front/hooks.h"
#include "daemon/front/recover.h"
#include "daemon/front/settle.h"
#include "daemon/request.h"
#include "daemon/save/room.h"
#include "daemon/save/unsaved.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"
#include "daemon/tier.h"
#include "store/store.h"

enum {
    TICK_MIN_MS = 50,
    TICK_MAX_MS = 10 * 1000,
    TICK_LOST_MS = 200, /* while unreachable, with unanswered requests */
    TICKS = 5,          /* checks per idle time */
};

/* Clients ------------------------------------------------------------------------------ */

/* -1: the client broke the protocol; it got the error, and must be disconnected. */
static int peer_handle(struct snp_peer *peer, const struct snp_frame *frame, struct snp_err *err)
{
    snp_autojson json_t *head = NULL;
    struct snp_request *request;

    if (frame->type != SNP_RPC_REQUEST || frame->id == 0) {
        return snp_fail(err, SNP_E_PEER, "a frame of type %u with id %u is not a request",
                        frame->type, frame->id);
    }
    SNP_TRY(snp_json_parse(frame->head, frame->head_len, &head, err));
    request = snp_request_new(peer, frame->id, err);
    if (request == NULL) {
        if (err->code == SNP_E_PEER) {
            return err->code;
        }
        snp_peer_fail(peer, frame->id, err);
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
        snp_peer_fail(peer, frame->id, &err);
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

/* The peer has our user id. Other users are disconnected without an answer. */
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
        (void)snp_fail(&err, SNP_E_LIMIT, "%d clients are already connected", SNP_CAP_CLIENTS);
        snp_peer_fail(peer, 0, &err);
        snp_conn_end(&peer->conn);
        return;
    }
    server->peers[slot] = peer;
}

/* Upgrades -------------------------------------------------------------------------------- */

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

/* The program files are unchanged since the start: ours was not replaced or removed. */
static bool is_current(const struct snp_server *server)
{
    snp_autofree char *path = NULL;
    struct snp_err ignored;
    struct stat st;

    return server->program.ino == 0 ||
           (snp_own_program("snipara-sandboxd", &path, &ignored) == 0 && stat(path, &st) == 0 &&
            st.st_dev == server->program.dev && st.st_ino == server->program.ino);
}

static void program_note(struct snp_server *server)
{
    struct stat st;

    if (stat("/proc/self/exe", &st) == 0) {
        server->program = (struct snp_file_id){st.st_dev, st.st_ino};
    }
}

/* No request is open, none is about to arrive, and no cell runs. */
static bool is_quiet(const struct snp_server *server)
{
    for (size_t i = 0; i < SNP_CAP_CLIENTS; i++) {
        const struct snp_peer *peer = server->peers[i];
        int unread = 0;

        if (peer != NULL &&
            (peer->conn.in.len > 0 || ioctl(peer->conn.fd, FIONREAD, &unread) < 0 || unread > 0)) {
            return false;
        }
    }
    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        const struct snp_session *session = server->sessions.slots[i];

        if (session != NULL && session->live.running != NULL) {
            return false;
        }
    }
    return !has_requests(server);
}

/* Whether an automatic end may now save all sessions. */
static bool may_settle(const struct snp_server *server)
{
    return !server->is_ending && server->settled == NULL && snp_now_us() >= server->settle_us;
}

static bool is_settled(struct snp_server *server, bool is_saved)
{
    if (!is_saved) {
        server->settle_us = snp_now_us() + (uint64_t)SNP_CAP_RETRY_MAX_MS * 1000;
        snp_log(SNP_LOG_WARN, "end-waits", "why=\"sessions could not be saved\"");
    }
    return is_saved;
}

static void on_listener(uv_poll_t *poll, int status, int events);

/* Connected clients reconnect to the next daemon automatically. */
static void hand_over_settled(struct snp_server *server, bool is_saved)
{
    if (!is_settled(server, is_saved) || !is_quiet(server)) {
        (void)uv_poll_start(&server->listener, UV_READABLE, on_listener);
        return;
    }
    snp_log(SNP_LOG_INFO, "replaced", "why=\"the programs were upgraded or removed\"");
    snp_server_end(server, NULL);
    for (size_t i = 0; i < SNP_CAP_CLIENTS; i++) {
        if (server->peers[i] != NULL) {
            snp_conn_end(&server->peers[i]->conn);
        }
    }
}

/*
 * After an upgrade: save all sessions, then end; the next daemon restores them. New connections
 * wait, but not for later attempts: a session that cannot be saved would delay all others again
 * and again.
 */
static bool hand_over(struct snp_server *server)
{
    const bool is_first = server->settle_us == 0;

    if (!may_settle(server) || is_current(server) || !is_quiet(server)) {
        return server->is_ending;
    }
    if (is_first) {
        (void)uv_poll_stop(&server->listener);
    }
    if (!snp_server_settle(server, hand_over_settled)) {
        (void)uv_poll_start(&server->listener, UV_READABLE, on_listener);
        return false;
    }
    return is_first || server->is_ending;
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
    if (hand_over(server)) {
        return; /* a client about to connect finds the next daemon */
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

/* The journal had no room, and may have room later. */
static bool has_no_room(const struct snp_server *server)
{
    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        const struct snp_session *session = server->sessions.slots[i];
        struct snp_err ignored;

        if (session != NULL && snp_unsaved_is(session, &ignored) &&
            ((session->unsaved.retry_ms > 0 && !session->unsaved.is_tiers) ||
             session->durable.debt != NULL)) {
            return true;
        }
    }
    return false;
}

/*
 * A session whose sandbox fails to save it must not keep the journal from the next daemon: no
 * client can reach us.
 */
static void unreachable_settled(struct snp_server *server, bool is_saved)
{
    if (is_settled(server, is_saved || !has_no_room(server)) && !has_requests(server)) {
        snp_log(SNP_LOG_WARN, "socket-gone", "path=%s", server->options.socket_path);
        snp_server_end(server, NULL);
    }
}

/* The socket is unreachable: save all and end, once no request is open. */
static void reachable_check(struct snp_server *server)
{
    if (!may_settle(server) || snp_server_is_reachable(server)) {
        return;
    }
    if (!has_requests(server)) {
        (void)snp_server_settle(server, unreachable_settled);
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

/* Without the watch (no inotify left) the ticker detects it a little later. */
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

static void on_signal(uv_signal_t *handle, int signum)
{
    struct snp_server *server = handle->data;

    snp_log(SNP_LOG_INFO, "signal", "number=%d", signum);
    snp_server_end(server, NULL);
}

/* End sessions whose owning programs have ended. */
static void owners_check(struct snp_server *server)
{
    for (size_t i = 0; !server->is_ending && i < server->sessions.n_slots; i++) {
        struct snp_session *session = server->sessions.slots[i];

        if (session != NULL && session->policy.owner[0] != '\0' &&
            session->state != SNP_SESSION_CLOSING && snp_process_is_over(session->policy.owner)) {
            snp_log(SNP_LOG_INFO, "owner-ended", "session=%s", session->id);
            snp_session_end(session);
        }
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct snp_server *server = timer->data;
    uint64_t now = snp_now_us();

    if (!server->is_recovered) {
        snp_recover(server, NULL); /* the disk may have room now */
    }
    snp_store_look(server->store);
    snp_daemon_log_trim(server->options.state_dir);
    snp_room_tick(server);
    owners_check(server);
    if (server->n_peers > 0 || snp_sessions_open(&server->sessions) > 0) {
        server->busy_us = now;
    } else if (now - server->busy_us > server->options.idle_ms * 1000) {
        snp_log(SNP_LOG_INFO, "idle", "ms=%llu", (unsigned long long)server->options.idle_ms);
        snp_server_end(server, NULL);
        return;
    }
    if (!hand_over(server)) {
        reachable_check(server);
    }
}

/* Start ---------------------------------------------------------------------------------- */

static uint64_t tick_ms(const struct snp_server_options *options)
{
    uint64_t least =
        options->idle_ms < options->session_idle_ms ? options->idle_ms : options->session_idle_ms;
    uint64_t tick = least / TICKS;

    if (tick < TICK_MIN_MS) {
        return TICK_MIN_MS;
    }
    return tick > TICK_MAX_MS ? TICK_MAX_MS : tick;
}

/* Until now another daemon may have run a tier with the state folder. */
static void state_locked(void *arg)
{
    struct snp_server *server = arg;

    if (!server->is_ending) {
        snp_tier_warm(server);
    }
}

/* The sessions of the journal are loaded: accept clients. */
static void serve_start(struct snp_server *server)
{
    if (!server->is_ending) {
        (void)uv_poll_start(&server->listener, UV_READABLE, on_listener);
    }
}

uint64_t snp_server_divide(struct snp_server *server)
{
    uint64_t budget = server->options.budget_bytes;
    uint64_t part = budget / SNP_CAP_OUTPUTS_SHARE;

    server->outputs_bytes =
        budget == 0 || part > SNP_CAP_OUTPUTS_BYTES ? SNP_CAP_OUTPUTS_BYTES : part;
    return budget == 0 ? 0 : budget - 2 * server->outputs_bytes; /* two tiers may run */
}

int snp_server_init(struct snp_server *server,
                    int listen_fd,
                    const struct snp_server_options *options,
                    struct snp_err *err)
{
    struct snp_store_options store_options = {.dir = options->state_dir,
                                              .key_path = options->store_key,
                                              .locked = state_locked,
                                              .arg = server};
    snp_autoclose int owned = listen_fd;
    int r;

    *server = (struct snp_server){.options = *options, .hooks = &snp_daemon_hooks, .listen_fd = -1};
    store_options.budget_bytes = snp_server_divide(server);
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
    program_note(server);
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
    json_decref(SNP_TAKE_PTR(server->end_unsaved));
    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        if (server->sessions.slots[i] != NULL) {
            snp_session_remove(server->sessions.slots[i]); /* lost with their tier */
        }
    }
    snp_tiers_done(&server->tiers);
}
