/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP transport.
 *
 * libmicrohttpd reads and writes HTTP; our loop watches its epoll descriptor, so everything runs in
 * one thread. A request without an answer yet is suspended; the library then ignores its
 * connection, so we check it every SNP_MCP_HTTP_LOOK_MS.
 *
 * Invariants: a connection has at most one request, a request at most one stream
 * (mcp/http/stream.h), and a stream at most one request that reads it. Nothing of a body is read
 * before its head was judged. A slow connection is ended by shutting its socket down, which the
 * library detects.
 */
#include "mcp/http/httpd.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/httpd/head.h"
#include "base/httpd/take.h"
#include "base/mcp/caps.h"
#include "base/str.h"
#include "mcp/caps.h"
#include "mcp/http/stream.h"

enum {
    NAMES_MAX = 32,
    ROUNDS_MAX = 8, /* library rounds in one go */
    TICK_MS = 1000, /* while only connections are open */
    CHECK_MS = 2,   /* poll interval while ending */
    EVENTS_BLOCK = 16 << 10,
    N_SIGNALS = 3,
    US_PER_MS = 1000,
};

struct http_request;

/* A client's connection, known to the library as its socket's context. */
struct http_client {
    struct http *http;
    int fd; /* the library's */
    bool is_trusted;
    uint64_t since_us; /* end of its last request, or time of accept */
    struct http_request *request;
    struct http_client *next;
    struct http_client *prev;
};

enum phase {
    PHASE_HEAD = 0, /* the head is incomplete */
    PHASE_BODY,
    PHASE_WAITING, /* for an answer; suspended or about to be */
    PHASE_ANSWERED,
};

struct http_request {
    struct http *http;
    struct http_client *client;
    struct MHD_Connection *connection;
    enum phase phase;
    bool is_suspended;
    bool is_gone; /* the client left, or another request took its stream over */
    bool is_post;
    unsigned refusal; /* a status; 0 = none */
    uint64_t began_us;
    const char *uri_end; /* see struct snp_httpd_line */
    struct snp_httpd_head head;
    struct snp_buf body;
    size_t body_bytes; /* received, including dropped ones */
    struct snp_httpd_stream *stream;
    struct snp_httpd_session *made; /* by this request */
};

struct http {
    struct snp_mcp_hub *hub;
    const struct snp_httpd_options *options;
    struct snp_httpd_rules rules;
    const char *names[NAMES_MAX];
    char *key; /* of session ids; owned */
    struct snp_httpd_sessions sessions;
    struct snp_httpd_streams streams; /* its wake() finds us through the reader */
    struct MHD_Daemon *daemon;
    struct http_client *clients; /* newest first */
    size_t n_clients;
    size_t n_suspended;
    size_t body_bytes; /* of all requests */
    uint64_t ending_us;
    uv_poll_t poll;
    uv_idle_t idle; /* the library has work to do */
    uv_timer_t tick;
    uint64_t tick_ms; /* 0 = stopped */
    uv_timer_t check; /* of the shutdown */
    uv_signal_t signals[N_SIGNALS];
};

/* The library's turn ------------------------------------------------------------------------- */

static void tick_update(struct http *http);

static void on_idle(uv_idle_t *idle);

/* The library does not report unread connections again: the timeout 0 shows them. */
static void pump(struct http *http)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    bool is_ready = true;

    for (int i = 0; is_ready && i < ROUNDS_MAX; i++) {
        (void)MHD_run(http->daemon);
        is_ready = MHD_get_timeout(http->daemon, &wait_ms) == MHD_YES && wait_ms == 0;
    }
    if (is_ready) {
        (void)uv_idle_start(&http->idle, on_idle); /* let other handlers run first */
    }
    snp_httpd_streams_collect(&http->streams);
    tick_update(http);
}

static void on_idle(uv_idle_t *idle)
{
    struct http *http = idle->data;

    (void)uv_idle_stop(idle);
    pump(http);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    pump(poll->data);
}

static void request_resume(struct http_request *request)
{
    if (request->is_suspended) {
        request->is_suspended = false;
        request->http->n_suspended--;
        MHD_resume_connection(request->connection);
        (void)uv_idle_start(&request->http->idle, on_idle);
    }
}

static void request_suspend(struct http_request *request)
{
    request->is_suspended = true;
    request->http->n_suspended++;
    MHD_suspend_connection(request->connection);
}

static void on_wake(struct snp_httpd_stream *stream)
{
    request_resume(stream->reader);
}

/* Answers -------------------------------------------------------------------------------------- */

struct extra_header {
    const char *name;
    const char *value;
};

/* response: consumed; NULL = out of memory. */
static enum MHD_Result respond(struct http_request *request,
                               unsigned status,
                               struct MHD_Response *response,
                               const struct extra_header *extras)
{
    enum MHD_Result r = MHD_NO;

    request->phase = PHASE_ANSWERED;
    if (response == NULL) {
        return MHD_NO;
    }
    for (const struct extra_header *one = extras; one->name != NULL; one++) {
        (void)MHD_add_response_header(response, one->name, one->value);
    }
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (request->made != NULL) {
        (void)MHD_add_response_header(response, "Mcp-Session-Id", request->made->id);
    }
    if (request->head.field[SNP_HTTPD_TRANSFER_ENCODING].bytes != NULL) {
        /*
         * The library accepts a lone LF at the end of a chunk's line, so nothing after chunks is
         * trusted.
         */
        (void)MHD_add_response_header(response, "Connection", "close");
    }
    r = MHD_queue_response(request->connection, status, response);
    MHD_destroy_response(response);
    return r;
}

/* text: consumed, NULL = out of memory. */
static enum MHD_Result respond_json(struct http_request *request, unsigned status, char *text)
{
    const struct extra_header extras[] = {
        {"Content-Type", "application/json"},
        {status == 405   ? "Allow"
         : status == 401 ? "WWW-Authenticate"
                         : NULL,
         status == 405 ? "POST, GET, DELETE" : "Bearer realm=\"snipara-sandbox\""},
        {NULL, NULL},
    };
    struct MHD_Response *response =
        text == NULL ? NULL
                     : MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);

    if (response == NULL) {
        free(text);
    }
    return respond(request, status, response, extras);
}

/* An error for no request of the protocol, or for the one with this id. */
static enum MHD_Result refuse(
    struct http_request *request, unsigned status, json_t *id, int code, const char *message)
{
    snp_autojson json_t *error = snp_jsonrpc_error(id, code, message, NULL);

    return respond_json(request, status, error == NULL ? NULL : snp_json_text(error));
}

static enum MHD_Result respond_empty(struct http_request *request, unsigned status)
{
    static const struct extra_header none[] = {{NULL, NULL}};

    return respond(request, status,
                   MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT), none);
}

/* Give bytes of a stream to the connection when it can take some. */
static ssize_t on_read(void *cls, uint64_t pos, char *bytes, size_t max)
{
    struct http_request *request = cls;
    ssize_t n;

    (void)pos;
    if (request->is_gone || request->stream == NULL) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    n = snp_httpd_stream_read(request->stream, bytes, max);
    if (n < 0) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (n == 0) {
        request_suspend(request);
    }
    return n;
}

static enum MHD_Result respond_events(struct http_request *request)
{
    static const struct extra_header extras[] = {
        {"Content-Type", "text/event-stream"},
        {"X-Accel-Buffering", "no"},
        {NULL, NULL},
    };

    return respond(
        request, 200,
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENTS_BLOCK, on_read, request, NULL),
        extras);
}

/* Send available output; else wait. */
static enum MHD_Result respond_stream(struct http_request *request)
{
    struct snp_httpd_stream *stream = request->stream;

    if (stream->is_open) {
        return respond_events(request);
    }
    if (stream->answer != NULL) {
        return respond_json(request, snp_httpd_stream_status(stream), SNP_TAKE_PTR(stream->answer));
    }
    if (stream->is_final) {
        return respond_empty(request, 202); /* nothing to send */
    }
    request_suspend(request);
    return MHD_YES;
}

/* Messages ------------------------------------------------------------------------------------ */

static enum MHD_Result on_session_lost(struct http_request *request, json_t *id)
{
    /* The code of other servers, at which clients start a new session. */
    return refuse(request, 404, id, -32001, "Session not found");
}

/* The session of a legacy message. False: it names an unknown one. */
static bool session_of(struct http_request *request,
                       const struct snp_jsonrpc *message,
                       struct snp_httpd_session **ret)
{
    struct snp_httpd_text id = request->head.field[SNP_HTTPD_SESSION];
    struct snp_httpd_sessions *sessions = &request->http->sessions;

    *ret = NULL;
    if (snp_streq(message->method, "initialize")) {
        request->made = snp_httpd_session_new(sessions);
        *ret = request->made;
    } else if (id.bytes != NULL) {
        *ret = snp_httpd_session_find(sessions, id.bytes, id.n);
        return *ret != NULL;
    }
    return true;
}

/* Set the version of a legacy client, if known. */
static void version_tell(const struct http_request *request,
                         const struct snp_httpd_session *session,
                         struct snp_mcp_peer *peer)
{
    struct snp_httpd_text given = request->head.field[SNP_HTTPD_VERSION];

    if (given.n > 0 && given.n < sizeof(peer->version)) {
        memcpy(peer->version, given.bytes, given.n);
        peer->version[given.n] = '\0';
    } else if (session != NULL) {
        (void)snprintf(peer->version, sizeof(peer->version), "%s", session->version);
    }
}

/* message: a request, or list: a batch; id: of the request. */
static enum MHD_Result take_request(struct http_request *request,
                                    struct snp_jsonrpc *message,
                                    const json_t *list,
                                    const struct snp_httpd_stream_spec *spec)
{
    struct snp_httpd_stream *stream = snp_httpd_stream_new(&request->http->streams, spec);
    struct snp_mcp_peer *peer;
    int code;

    if (stream == NULL) {
        return refuse(request, 503, message->id, SNP_JSONRPC_INTERNAL,
                      "too many requests are in flight; try again later");
    }
    peer = &stream->peer;
    request->stream = stream;
    request->phase = PHASE_WAITING;
    version_tell(request, spec->session, peer);
    code = list == NULL ? snp_mcp_take(peer, message) : snp_mcp_take_batch(peer, list);
    stream->is_rejected = code != 0;
    if (request->made != NULL) {
        (void)snprintf(request->made->version, sizeof(request->made->version), "%s", peer->version);
    }
    stream->is_final |= peer->n_calls == 0; /* also for a batch without requests */
    snp_httpd_streams_end_cancelled(&request->http->streams, spec->session);
    return respond_stream(request);
}

/* A notification, or an answer to a request of this server. */
static enum MHD_Result take_other(struct http_request *request,
                                  struct snp_jsonrpc *message,
                                  const struct snp_httpd_session *session)
{
    struct http *http = request->http;
    struct snp_mcp_peer peer = {.client = session};

    snp_mcp_peer_init(&peer, http->hub);
    (void)snp_mcp_take(&peer, message); /* sends nothing to this peer */
    if (session != NULL) {
        snp_httpd_streams_end_cancelled(&http->streams, session);
    }
    return respond_empty(request, 202);
}

/* list: NULL, or a batch; then message is NULL. */
static enum MHD_Result take_message(struct http_request *request,
                                    struct snp_jsonrpc *message,
                                    const json_t *list)
{
    struct snp_httpd_stream_spec spec = {.takes = request->head.takes, .reader = request};
    struct snp_err err;
    int code = snp_httpd_match(&request->head, message, &err);

    if (code != 0) {
        return refuse(request, 400, message->kind == SNP_JSONRPC_IS_REQUEST ? message->id : NULL,
                      code, err.msg);
    }
    spec.is_modern = snp_httpd_is_modern(&request->head, message);
    if (!spec.is_modern && request->head.takes != SNP_HTTPD_TAKES_BOTH) {
        return refuse(request, 406, message->id, SNP_JSONRPC_REQUEST,
                      "Not Acceptable: Accept must list application/json and "
                      "text/event-stream");
    }
    if (!spec.is_modern && !session_of(request, message, &spec.session)) {
        return on_session_lost(request, message->id);
    }
    /* before this version clients expect JSON in every event */
    spec.is_primed =
        snp_httpd_text_is(request->head.field[SNP_HTTPD_VERSION], SNP_MCP_VERSION_PRIMED);
    return list != NULL || message->kind == SNP_JSONRPC_IS_REQUEST
               ? take_request(request, message, list, &spec)
               : take_other(request, message, spec.session);
}

static enum MHD_Result on_post(struct http_request *request)
{
    snp_autojsonrpc struct snp_jsonrpc message = {0};
    snp_autojson json_t *root = NULL;
    snp_autojson json_t *id = NULL;
    struct snp_err err;
    int code = 0;
    int r;

    if (request->refusal != 0) {
        return refuse(request, request->refusal, NULL, SNP_JSONRPC_REQUEST,
                      request->refusal == 413 ? "the message is too long"
                                              : "too much is being received; try again later");
    }
    r = snp_jsonrpc_read(snp_buf_bytes(&request->body), request->body.len, &root, &code, &err);
    request->http->body_bytes -= request->body.len;
    snp_buf_done(&request->body);
    if (r == 0 && json_is_object(root)) {
        r = snp_jsonrpc_take(SNP_TAKE_PTR(root), &message, &code, &id, &err);
    }
    return r < 0 ? refuse(request, code == SNP_JSONRPC_INTERNAL ? 500 : 400, id, code, err.msg)
                 : take_message(request, &message, root);
}

/* Resume a stream after the last event that the client saw. */
static enum MHD_Result on_get(struct http_request *request)
{
    struct snp_httpd_text id = request->head.field[SNP_HTTPD_SESSION];
    struct snp_httpd_text event = request->head.field[SNP_HTTPD_LAST_EVENT];
    struct snp_httpd_session *session =
        snp_httpd_session_find(&request->http->sessions, id.bytes, id.n);
    struct snp_httpd_stream *stream;
    size_t at = 0;

    if (session == NULL) {
        return on_session_lost(request, NULL);
    }
    stream = snp_httpd_stream_find(&request->http->streams, session, event.bytes, event.n, &at);
    if (stream == NULL) {
        return refuse(request, 400, NULL, SNP_JSONRPC_REQUEST, "this stream no longer exists");
    }
    if (stream->reader != NULL) {
        /* the old connection is dead, but not reported yet */
        struct http_request *old = stream->reader;

        old->stream = NULL;
        old->is_gone = true;
        request_resume(old);
    }
    stream->reader = request;
    stream->read_bytes = at;
    request->stream = stream;
    return respond_events(request);
}

static enum MHD_Result on_delete(struct http_request *request)
{
    struct snp_httpd_text id = request->head.field[SNP_HTTPD_SESSION];
    struct snp_httpd_session *session =
        snp_httpd_session_find(&request->http->sessions, id.bytes, id.n);

    if (session == NULL) {
        return on_session_lost(request, NULL);
    }
    session->is_ended = true;
    snp_httpd_streams_end_session(&request->http->streams, session);
    return respond_empty(request, 200);
}

/* Requests ------------------------------------------------------------------------------------- */

/* The head is complete. */
static enum MHD_Result on_head(struct http_request *request,
                               const char *verb,
                               const char *path,
                               const char *version)
{
    const struct snp_httpd_line line = {verb, path, request->uri_end, version};
    struct http *http = request->http;
    struct snp_err err;
    unsigned status;

    snp_httpd_head_take(request->connection, &line, &request->head);
    status = snp_httpd_judge(&request->head, &http->rules, verb, path, &err);
    if (status != 0) {
        return refuse(request, status, NULL, SNP_JSONRPC_REQUEST, err.msg);
    }
    request->client->is_trusted = true;
    request->is_post = strcmp(verb, "POST") == 0;
    request->phase = PHASE_BODY;
    return MHD_YES;
}

/* A body that is too long is read to its end and dropped: only then it can be answered. */
static void on_body(struct http_request *request, const char *bytes, size_t n)
{
    struct http *http = request->http;

    request->body_bytes += n;
    if (request->body_bytes > SNP_MCP_MESSAGE_MAX) {
        request->refusal = 413;
    } else if (request->refusal == 0 && (http->body_bytes + n > SNP_MCP_HTTP_BODIES_MAX ||
                                         snp_buf_add(&request->body, bytes, n) < 0)) {
        request->refusal = 503;
    }
    if (request->refusal == 0) {
        http->body_bytes += n;
    } else {
        http->body_bytes -= request->body.len;
        snp_buf_done(&request->body);
    }
}

/* The next bytes of the body; none: it is complete, and so is the request. */
static enum MHD_Result on_upload(struct http_request *request,
                                 const char *verb,
                                 const char *bytes,
                                 size_t *n)
{
    if (*n > 0) {
        on_body(request, bytes, *n);
        *n = 0;
        /* at twice the longest message, stop reading */
        return request->body_bytes > 2 * (size_t)SNP_MCP_MESSAGE_MAX ? MHD_NO : MHD_YES;
    }
    if (MHD_get_connection_values(request->connection, MHD_FOOTER_KIND, NULL, NULL) > 0) {
        return refuse(request, 400, NULL, SNP_JSONRPC_REQUEST, "trailers are not accepted");
    }
    return request->is_post              ? on_post(request)
           : strcmp(verb, "DELETE") == 0 ? on_delete(request)
                                         : on_get(request);
}

/* NOLINTNEXTLINE(readability-function-size): the library's prototype */
static enum MHD_Result on_request(void *cls,
                                  struct MHD_Connection *connection,
                                  const char *path,
                                  const char *verb,
                                  const char *version,
                                  const char *upload,
                                  size_t *upload_len,
                                  void **context)
{
    struct http_request *request = *context;

    (void)cls;
    (void)connection;
    if (request == NULL || request->is_gone || request->http->ending_us != 0) {
        return MHD_NO;
    }
    switch (request->phase) {
    case PHASE_HEAD:
        return on_head(request, verb, path, version);
    case PHASE_BODY:
        return on_upload(request, verb, upload, upload_len);
    case PHASE_WAITING:
        return respond_stream(request);
    case PHASE_ANSWERED:
        break;
    }
    return MHD_NO;
}

/* A request begins: its line is known. The result becomes its context. */
static void *on_begin(void *cls, const char *uri, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_client *client = info == NULL ? NULL : info->socket_context;
    struct http_request *request = client == NULL ? NULL : calloc(1, sizeof(*request));

    if (request == NULL) {
        return NULL;
    }
    request->http = cls;
    request->client = client;
    request->connection = connection;
    request->began_us = snp_now_us();
    request->uri_end = uri + strlen(uri);
    snp_buf_init(&request->body, SNP_MCP_MESSAGE_MAX);
    client->request = request;
    return request;
}

static void on_end(void *cls,
                   struct MHD_Connection *connection,
                   void **context,
                   enum MHD_RequestTerminationCode how)
{
    struct http_request *request = *context;
    struct http *http = cls;

    (void)connection;
    if (request == NULL) {
        return;
    }
    if (request->stream != NULL) {
        snp_httpd_stream_leave(request->stream, how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    }
    http->body_bytes -= request->body.len;
    http->n_suspended -= request->is_suspended ? 1 : 0;
    snp_buf_done(&request->body);
    request->client->request = NULL;
    request->client->since_us = snp_now_us();
    *context = NULL;
    free(request);
}

/* Connections ---------------------------------------------------------------------------------- */

/* Close an idle connection to make room: unauthenticated ones first, then the oldest. */
static void give_way(struct http *http)
{
    struct http_client *chosen = NULL;

    for (struct http_client *one = http->clients; one != NULL; one = one->next) {
        bool is_waiting = one->request == NULL || one->request->phase == PHASE_HEAD;

        if (is_waiting && one->fd >= 0 &&
            (chosen == NULL || !one->is_trusted || chosen->is_trusted)) {
            chosen = one;
        }
    }
    if (chosen != NULL) {
        (void)shutdown(chosen->fd, SHUT_RDWR);
        chosen->fd = -1;
    }
}

static void on_connection(void *cls,
                          struct MHD_Connection *connection,
                          void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *http = cls;
    struct http_client *client = *context;
    const union MHD_ConnectionInfo *info;

    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (client != NULL) {
            *(client->prev == NULL ? &http->clients : &client->prev->next) = client->next;
            if (client->next != NULL) {
                client->next->prev = client->prev;
            }
            http->n_clients--;
            free(client);
        }
        return;
    }
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    client = calloc(1, sizeof(*client));
    if (client == NULL || info == NULL) {
        free(client);
        return; /* its requests have no context, and are refused */
    }
    client->http = http;
    client->fd = info->connect_fd;
    client->since_us = snp_now_us();
    client->next = http->clients;
    if (client->next != NULL) {
        client->next->prev = client;
    }
    http->clients = client;
    http->n_clients++;
    *context = client;
    if (http->n_clients > SNP_MCP_HTTP_CONNECTIONS_GOOD) {
        give_way(http);
    }
}

/* Time ----------------------------------------------------------------------------------------- */

/* Whether a client took too long to begin a request, or to send it. */
static bool is_late(const struct http_client *client, uint64_t patience_ms, uint64_t now_us)
{
    const struct http_request *request = client->request;
    uint64_t since_us = client->since_us;
    uint64_t most_ms = client->is_trusted ? SNP_MCP_HTTP_IDLE_MS : SNP_MCP_HTTP_FIRST_MS;

    if (request != NULL) {
        since_us = request->began_us;
        most_ms = SNP_MCP_HTTP_READ_MS + request->body_bytes / SNP_MCP_HTTP_READ_BYTES * 1000;
    }
    if (patience_ms != 0 && patience_ms < most_ms) {
        most_ms = patience_ms;
    }
    return (request == NULL || request->phase < PHASE_WAITING) &&
           now_us > since_us + most_ms * US_PER_MS;
}

/* The library ignores suspended connections: check whether their clients are there. */
static void clients_look(struct http *http)
{
    struct pollfd fds[SNP_MCP_HTTP_CONNECTIONS_MAX];
    struct http_request *requests[SNP_MCP_HTTP_CONNECTIONS_MAX];
    nfds_t n = 0;

    for (struct http_client *one = http->clients; one != NULL; one = one->next) {
        if (one->request != NULL && one->request->is_suspended && one->fd >= 0 &&
            n < SNP_MCP_HTTP_CONNECTIONS_MAX) {
            requests[n] = one->request;
            fds[n++] = (struct pollfd){.fd = one->fd, .events = POLLRDHUP};
        }
    }
    if (n == 0 || poll(fds, n, 0) <= 0) {
        return;
    }
    for (nfds_t i = 0; i < n; i++) {
        if ((fds[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
            requests[i]->is_gone = true;
            request_resume(requests[i]);
        }
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct http *http = timer->data;
    uint64_t now_us = snp_now_us();

    for (struct http_client *one = http->clients; one != NULL; one = one->next) {
        if (one->fd >= 0 && is_late(one, http->options->patience_ms, now_us)) {
            (void)shutdown(one->fd, SHUT_RDWR);
            one->fd = -1;
        }
    }
    clients_look(http);
    snp_httpd_streams_tick(&http->streams, now_us);
    pump(http);
}

/* Tick fast while calls run, slowly while connections exist, else never. */
static void tick_update(struct http *http)
{
    uint64_t patience_ms = http->options->patience_ms;
    uint64_t seldom_ms = patience_ms > 0 && patience_ms < TICK_MS ? patience_ms / 2 + 1 : TICK_MS;
    uint64_t wanted_ms = http->n_suspended > 0                        ? SNP_MCP_HTTP_LOOK_MS
                         : http->n_clients > 0 || http->streams.n > 0 ? seldom_ms
                                                                      : 0;

    if (wanted_ms == http->tick_ms) {
        return;
    }
    http->tick_ms = wanted_ms;
    if (wanted_ms == 0) {
        (void)uv_timer_stop(&http->tick);
    } else {
        (void)uv_timer_start(&http->tick, on_tick, wanted_ms, wanted_ms);
    }
}

/* The end -------------------------------------------------------------------------------------- */

static void on_check(uv_timer_t *timer)
{
    const struct http *http = timer->data;
    const struct snp_httpd_options *options = http->options;

    if (options->is_settled == NULL || options->is_settled(options->ctx) ||
        (snp_now_us() - http->ending_us) / US_PER_MS >= SNP_MCP_FLUSH_MS) {
        uv_stop(http->hub->loop);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct http *http = handle->data;

    (void)number;
    if (http->ending_us != 0) {
        return;
    }
    http->ending_us = snp_now_us();
    for (struct snp_httpd_stream *one = http->streams.list; one != NULL; one = one->next) {
        snp_mcp_peer_done(&one->peer);
    }
    if (http->options->ending != NULL) {
        http->options->ending(http->options->ctx);
    }
    (void)uv_timer_start(&http->check, on_check, 0, CHECK_MS);
}

/* The start ------------------------------------------------------------------------------------ */

static int names_make(struct http *http, struct snp_err *err)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]"};
    const struct snp_httpd_options *options = http->options;
    size_t n = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(loopback); i++) {
        http->names[n++] = loopback[i];
    }
    http->names[n++] = options->address.host;
    for (size_t i = 0; i < options->n_names; i++) {
        if (n == NAMES_MAX) {
            return snp_fail(err, SNP_E_LIMIT, "at most %zu hosts can be allowed",
                            NAMES_MAX - SNP_ARRAY_LEN(loopback) - 1);
        }
        http->names[n++] = options->names[i];
    }
    http->rules = (struct snp_httpd_rules){http->names, n, options->token};
    return 0;
}

/* Session ids outlive the process as long as the token does. */
static int key_make(struct http *http, struct snp_err *err)
{
    char random[33];

    if (http->options->token == NULL && snp_random_id(random) < 0) {
        return snp_fail_sys(err, errno, "random bytes");
    }
    http->key = strdup(http->options->token == NULL ? random : http->options->token);
    return http->key == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

/* fd: consumed by the library. */
static int library_start(struct http *http, int fd, struct snp_err *err)
{
    const union MHD_DaemonInfo *info;

    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, http,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, on_end, http,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_URI_LOG_CALLBACK, on_begin,
        http, MHD_OPTION_CONNECTION_LIMIT, (unsigned)SNP_MCP_HTTP_CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SNP_MCP_HTTPD_HEAD_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SNP_MCP_HTTP_IDLE_MS / 1000,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (http->daemon == NULL) {
        (void)close(fd);
        return snp_fail(err, SNP_E_SYS, "libmicrohttpd does not start");
    }
    info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (info == NULL || uv_poll_init(http->hub->loop, &http->poll, info->epoll_fd) < 0) {
        MHD_stop_daemon(http->daemon);
        return snp_fail(err, SNP_E_SYS, "the connections cannot be watched");
    }
    http->poll.data = http;
    (void)uv_poll_start(&http->poll, UV_READABLE, on_ready);
    return 0;
}

static void handles_start(struct http *http)
{
    static const int numbers[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    uv_loop_t *loop = http->hub->loop;

    (void)uv_idle_init(loop, &http->idle);
    (void)uv_timer_init(loop, &http->tick);
    (void)uv_timer_init(loop, &http->check);
    http->idle.data = http;
    http->tick.data = http;
    http->check.data = http;
    for (int i = 0; i < N_SIGNALS; i++) {
        (void)uv_signal_init(loop, &http->signals[i]);
        http->signals[i].data = http;
        (void)uv_signal_start(&http->signals[i], on_signal, numbers[i]);
    }
}

static void handles_close(struct http *http)
{
    for (int i = 0; i < N_SIGNALS; i++) {
        uv_close((uv_handle_t *)&http->signals[i], NULL);
    }
    uv_close((uv_handle_t *)&http->poll, NULL);
    uv_close((uv_handle_t *)&http->idle, NULL);
    uv_close((uv_handle_t *)&http->tick, NULL);
    uv_close((uv_handle_t *)&http->check, NULL);
    (void)uv_run(http->hub->loop, UV_RUN_NOWAIT); /* our handles: run their close callbacks */
}

static void library_stop(struct http *http)
{
    for (struct http_client *one = http->clients; one != NULL; one = one->next) {
        if (one->request != NULL) {
            one->request->is_gone = true;
            request_resume(one->request);
        }
    }
    MHD_stop_daemon(http->daemon); /* ends all requests, and closes everything */
}

static void serve(struct http *http, unsigned port)
{
    const struct snp_httpd_options *options = http->options;
    const char *path = ((const struct sockaddr_un *)&options->address.where)->sun_path;
    snp_autofree char *url = options->address.is_unix
                                 ? snp_format("unix:%s", path)
                                 : snp_format("http://%s:%u/mcp", options->address.host, port);

    handles_start(http);
    if (options->listening != NULL && url != NULL) {
        options->listening(options->ctx, url);
    }
    (void)uv_run(http->hub->loop, UV_RUN_DEFAULT);
    library_stop(http);
    handles_close(http);
    if (options->address.is_unix) {
        (void)unlink(path);
    }
}

int snp_httpd_run(struct snp_mcp_hub *hub,
                  const struct snp_httpd_options *options,
                  struct snp_err *err)
{
    struct http *http = calloc(1, sizeof(*http));
    int fd = -1;
    unsigned port = 0;
    int r;

    if (http == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    http->hub = hub;
    http->options = options;
    http->streams.wake = on_wake;
    snp_httpd_streams_init(&http->streams, hub);
    r = names_make(http, err);
    r = r < 0 ? r : key_make(http, err);
    r = r < 0 ? r : snp_httpd_listen(&options->address, &fd, &port, err);
    snp_httpd_sessions_init(&http->sessions, http->key);
    r = r < 0 ? r : library_start(http, fd, err);
    if (r == 0) {
        serve(http, port);
    }
    snp_httpd_streams_done(&http->streams);
    snp_httpd_sessions_done(&http->sessions);
    snp_httpd_token_free(http->key);
    free(http);
    return r;
}
