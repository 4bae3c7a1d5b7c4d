/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server at a URL: each message is a separate POST, its answer a JSON object or a stream of
 * events.
 *
 * Only the given URL is used: redirects are reported, not followed. Token and headers go nowhere
 * else. A stream belongs to its request; messages on it for other requests are dropped. Broken
 * legacy streams are resumed if the server gave its events ids; modern ones are not.
 *
 * Invariants: an exchange is in the list until its done or cancellation; while its callback runs it
 * is not cancelled but marked unwanted, and freed in its done.
 */
#include "base/http/http.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/http/sse.h"
#include "base/mcp/caps.h"
#include "base/mcp/tooldef.h"
#include "base/str.h"
#include "base/text/say.h"
#include "base/text/text.h"
#include "mcp/client/caps.h"
#include "mcp/client/link.h"

enum exchange_kind {
    KIND_REQUEST = 0,
    KIND_LISTEN,  /* unsolicited messages of the server */
    KIND_NOTE,    /* no answer is expected */
    KIND_GOODBYE, /* the session's end */
};

struct http_link;

struct exchange {
    struct http_link *link;
    enum exchange_kind kind;
    uint64_t id;
    struct snp_http_call *call; /* NULL: waiting to be resumed */
    int status;
    bool is_initialize;
    bool is_stream; /* its reply is one of events */
    bool is_json;
    bool is_modern;
    bool is_busy;     /* its callback runs */
    bool is_unwanted; /* dropped: its reply is discarded */
    bool has_answer;
    struct snp_buf body;
    struct snp_sse sse;
    bool has_sse;
    uint64_t received;  /* bytes of streams */
    unsigned resumes;   /* since the last event */
    uint64_t resume_us; /* time to resume; 0 = not */
    struct snp_err err; /* code 0 = none */
    char *version;      /* owned; for taking up */
    struct exchange *next;
};

struct http_link {
    struct snp_mcp_link base; /* first: casts */
    uv_loop_t *loop;
    struct snp_http *http;
    const struct snp_mcp_client_options *options; /* the client's */
    struct exchange *exchanges;
    size_t n_exchanges;
    char session[SNP_MCP_CLIENT_SESSION_MAX + 1]; /* "" = none */
    char version[16];                             /* of the session */
    uv_timer_t timer;
    bool is_closing;
    uint64_t listen_us; /* when to wait no longer for the stream of KIND_LISTEN; 0 = not */
    uint64_t leave_us;  /* while closing: when to wait no longer */
};

static struct http_link *link_of(struct snp_mcp_link *base)
{
    return (struct http_link *)base;
}

static void timer_update(struct http_link *link);

/* Exchanges ------------------------------------------------------------------------------- */

static void exchange_free(struct exchange *x)
{
    struct exchange **at = &x->link->exchanges;

    while (*at != x) {
        at = &(*at)->next;
    }
    *at = x->next;
    x->link->n_exchanges--;
    if (x->has_sse) {
        snp_sse_done(&x->sse);
    }
    snp_buf_done(&x->body);
    free(x->version);
    free(x);
}

static struct exchange *exchange_new(struct http_link *link, enum exchange_kind kind, uint64_t id)
{
    struct exchange *x = calloc(1, sizeof(*x));

    if (x == NULL) {
        return NULL;
    }
    x->link = link;
    x->kind = kind;
    x->id = id;
    snp_buf_init(&x->body, SNP_MCP_MESSAGE_MAX);
    x->next = link->exchanges;
    link->exchanges = x;
    link->n_exchanges++;
    return x;
}

/* Drop an exchange: immediately, or after its running callback. */
static void exchange_drop(struct exchange *x)
{
    if (x->is_busy) {
        x->is_unwanted = true;
        return;
    }
    if (x->call != NULL) {
        snp_http_cancel(x->call);
    }
    exchange_free(x);
}

static void exchange_fail(const struct exchange *x, const struct snp_err *err, bool is_session_gone)
{
    const struct snp_mcp_link_failure failure = {
        .id = x->id,
        .http_status = x->status,
        .is_session_gone = is_session_gone,
        .err = err,
    };

    if (x->kind == KIND_REQUEST && !x->is_unwanted) {
        snp_mcp_link_failed(x->link->base.client, &failure);
    }
}

/* Headers --------------------------------------------------------------------------------- */

struct headers {
    char *lines[SNP_MCP_CLIENT_HEADERS_MAX + 1]; /* owned */
    size_t n;
    bool has_failed;
};

static void headers_done(struct headers *headers)
{
    for (size_t i = 0; i < headers->n; i++) {
        explicit_bzero(headers->lines[i], strlen(headers->lines[i])); /* tokens */
        free(headers->lines[i]);
    }
    headers->n = 0;
}

static void header_add(struct headers *headers, const char *name, const char *value)
{
    char *line = NULL;

    if (value != NULL && headers->n < SNP_MCP_CLIENT_HEADERS_MAX) {
        line = name == NULL ? strdup(value) : snp_format("%s: %s", name, value);
    }
    if (line == NULL) {
        headers->has_failed = true;
    } else {
        headers->lines[headers->n++] = line;
    }
}

/* Add the headers of every request to this server. version: NULL = unknown yet. */
static void headers_common(const struct http_link *link, const char *version, struct headers *out)
{
    const struct snp_mcp_client_options *options = link->options;
    snp_autofree char *bearer =
        options->token == NULL ? NULL : snp_format("Bearer %s", options->token);

    header_add(out, "User-Agent", "snipara-sandbox/" SNP_VERSION);
    if (version != NULL) {
        header_add(out, "MCP-Protocol-Version", version);
    }
    if (link->session[0] != '\0') {
        header_add(out, "Mcp-Session-Id", link->session);
    }
    if (options->token != NULL) {
        header_add(out, "Authorization", bearer);
    }
    for (size_t i = 0; options->headers != NULL && options->headers[i] != NULL; i++) {
        header_add(out, NULL, options->headers[i]);
    }
    if (bearer != NULL) {
        explicit_bzero(bearer, strlen(bearer));
    }
}

/* Mcp-Method, Mcp-Name and Mcp-Param-*, which repeat parts of the body. */
static void headers_of_body(const struct snp_mcp_link_message *message, struct headers *out)
{
    const json_t *params = json_object_get(message->json, "params");
    const json_t *name =
        json_object_get(params, snp_streq(message->method, "resources/read") ? "uri" : "name");
    size_t i;
    json_t *line;

    header_add(out, "Mcp-Method", message->method);
    if (json_is_string(name) &&
        (snp_streq(message->method, "resources/read") || snp_streq(message->method, "tools/call") ||
         snp_streq(message->method, "prompts/get"))) {
        snp_autofree char *value =
            snp_mcp_header_value(json_string_value(name), json_string_length(name));

        header_add(out, "Mcp-Name", value);
    }
    json_array_foreach(message->headers, i, line)
    {
        header_add(out, NULL, json_string_value(line));
    }
}

/* Replies --------------------------------------------------------------------------------- */

static bool is_type(const char *given, const char *wanted)
{
    size_t n = strlen(wanted);

    return given != NULL && strncasecmp(given, wanted, n) == 0 &&
           (given[n] == '\0' || given[n] == ';' || given[n] == ' ');
}

/* The stream of unsolicited messages is open, or will not be awaited. */
static void link_listens(struct http_link *link)
{
    link->listen_us = 1; /* reported by the timer, outside callbacks */
    timer_update(link);
}

/* Remember a session, if its id is one: visible ASCII, not too long. */
static bool session_take(struct http_link *link, const char *id)
{
    size_t n = strlen(id);

    for (size_t i = 0; i < n; i++) {
        if (id[i] <= 0x20 || id[i] > 0x7e) {
            return false;
        }
    }
    if (n == 0 || n > SNP_MCP_CLIENT_SESSION_MAX) {
        return false;
    }
    memcpy(link->session, id, n + 1);
    return true;
}

static int on_event(void *ctx, const struct snp_sse_event *event, struct snp_err *err)
{
    struct exchange *x = ctx;
    enum snp_mcp_link_verdict verdict;

    if (x->is_unwanted || x->has_answer) {
        return snp_fail(err, SNP_E_PEER, "no more is wanted");
    }
    x->resumes = 0;
    if (event->data_len == 0 || !snp_streq(event->event, "message")) {
        return 0;
    }
    verdict = snp_mcp_link_received(x->link->base.client, x->id, event->data, event->data_len);
    x->has_answer = x->has_answer || verdict == SNP_MCP_LINK_ANSWERED;
    return x->has_answer || x->is_unwanted ? snp_fail(err, SNP_E_PEER, "no more is wanted") : 0;
}

/* A parser for a new stream; it continues after the last event of the previous one. */
static void stream_begin(struct exchange *x)
{
    struct snp_sse before = x->sse;

    snp_sse_init(&x->sse, SNP_MCP_MESSAGE_MAX, on_event, x);
    if (x->has_sse) {
        memcpy(x->sse.id, before.id, sizeof(before.id));
        x->sse.retry_ms = before.retry_ms;
        snp_sse_done(&before);
    }
    x->has_sse = true;
}

static bool on_head(void *ctx, struct snp_http_call *call)
{
    struct exchange *x = ctx;
    const char *type = snp_http_header(call, "Content-Type");
    const char *session = snp_http_header(call, "Mcp-Session-Id");

    x->status = snp_http_status(call);
    x->is_json = is_type(type, "application/json");
    x->is_stream = x->status / 100 == 2 && is_type(type, "text/event-stream");
    if (x->kind == KIND_LISTEN) {
        x->resumes = x->is_stream ? x->resumes : SNP_MCP_CLIENT_RESUMES_MAX;
        link_listens(x->link);
    }
    snp_buf_done(&x->body);
    snp_buf_init(&x->body, x->status < 300 ? SNP_MCP_MESSAGE_MAX : SNP_MCP_CLIENT_REFUSAL_MAX);
    if (x->is_initialize && x->status / 100 == 2 && session != NULL &&
        !session_take(x->link, session)) {
        (void)snp_fail(&x->err, SNP_E_PEER,
                       "the server's Mcp-Session-Id is not 1 to %d visible "
                       "ASCII characters",
                       SNP_MCP_CLIENT_SESSION_MAX);
        return false;
    }
    if (x->is_stream) {
        stream_begin(x);
    }
    return x->kind == KIND_REQUEST || (x->kind == KIND_LISTEN && x->is_stream);
}

static bool on_data(void *ctx, const char *bytes, size_t n)
{
    struct exchange *x = ctx;
    struct snp_err err;
    int r;

    x->received += n;
    if (x->received > SNP_MCP_CLIENT_STREAM_MAX) {
        (void)snp_fail(&x->err, SNP_E_LIMIT, "the server sent more than %d MiB to one request",
                       SNP_MCP_CLIENT_STREAM_MAX >> 20);
        return false;
    }
    if (!x->is_stream) {
        r = snp_buf_add(&x->body, bytes, n);
        if (r < 0) {
            (void)snp_fail(&x->err, (enum snp_code)r, "the server's answer is larger than %zu KiB",
                           x->body.max >> 10);
        }
        return r == 0;
    }
    x->is_busy = true;
    r = snp_sse_feed(&x->sse, bytes, n, &err);
    x->is_busy = false;
    if (r < 0 && !x->has_answer && !x->is_unwanted) {
        x->err = err;
    }
    return r == 0;
}

/* Convert a status to an error for the user. */
static void status_fail(struct exchange *x, const char *detail, size_t n, struct snp_err *err)
{
    static const struct {
        int status;
        enum snp_code code;
        const char *meaning;
    } known[] = {
        {401, SNP_E_DENIED, "the token is missing or wrong"},
        {403, SNP_E_DENIED, "the token lacks the permission, or the host is not allowed"},
        {404, SNP_E_PEER, "no MCP server at this URL"},
        {405, SNP_E_PEER, "no MCP server at this URL"},
        {413, SNP_E_LIMIT, "the request is too large for the server"},
        {429, SNP_E_LIMIT, "too many requests"},
    };
    snp_autosay struct snp_say shown = SNP_SAY((size_t)SNP_MCP_CLIENT_REFUSAL_MAX * 8);
    const char *meaning = "";
    enum snp_code code = SNP_E_PEER;

    shown.r = snp_text_line(&shown.buf, detail, n, 200);
    for (size_t i = 0; i < SNP_ARRAY_LEN(known); i++) {
        if (known[i].status == x->status) {
            meaning = known[i].meaning;
            code = known[i].code;
        }
    }
    (void)snp_fail(err, code, "the server answers HTTP %d%s%s%s%s", x->status,
                   *meaning == '\0' ? "" : ": ", meaning, shown.buf.len == 0 ? "" : ": ",
                   snp_say_cstr(&shown));
}

/* Handle a complete reply that is not a stream. */
static void reply_take(struct exchange *x, struct snp_http_call *call)
{
    struct http_link *link = x->link;
    const char *body = x->body.len == 0 ? "" : snp_buf_bytes(&x->body);
    const char *place = snp_http_header(call, "Location");
    bool is_gone = x->status == 404 && link->session[0] != '\0';
    struct snp_err err;

    if (is_gone) {
        link->session[0] = '\0';
        (void)snp_fail(&err, SNP_E_PEER, "the server has ended the session");
        exchange_fail(x, &err, true);
        return;
    }
    if (x->is_json && x->body.len > 0 && x->status != 401 && x->status != 403 &&
        snp_mcp_link_received(link->base.client, x->id, body, x->body.len) ==
            SNP_MCP_LINK_ANSWERED) {
        return;
    }
    if (x->status >= 300 && x->status < 400) {
        snp_autosay struct snp_say shown = SNP_SAY(SNP_MCP_CLIENT_REFUSAL_MAX);

        snp_say_line(&shown, place == NULL ? "" : place, 200);
        (void)snp_fail(
            &err, SNP_E_DENIED,
            "the server redirects (HTTP %d), and redirects are not followed%s%s", x->status,
            place == NULL ? "" : "; if you trust it, use this URL instead: ", snp_say_cstr(&shown));
    } else if (x->status < 300) {
        (void)snp_fail(&err, SNP_E_PEER, "the server's reply (HTTP %d) does not answer the request",
                       x->status);
    } else {
        status_fail(x, body, x->is_json ? 0 : x->body.len, &err);
    }
    exchange_fail(x, &err, false);
}

/* Resuming -------------------------------------------------------------------------------- */

/* A legacy stream broke off: whether it will be taken up. */
static bool is_resumed(struct exchange *x)
{
    const char *id = x->has_sse ? x->sse.id : "";
    uint64_t ms = x->has_sse ? x->sse.retry_ms : 0;

    if (x->is_modern || (x->kind == KIND_REQUEST && *id == '\0') || x->err.code != 0 ||
        x->is_unwanted || x->link->is_closing || ++x->resumes > SNP_MCP_CLIENT_RESUMES_MAX) {
        return false;
    }
    for (const char *c = id; *c != '\0'; c++) {
        if (*c < 0x20 || *c > 0x7e) {
            return false; /* it could not be sent */
        }
    }
    ms = ms == 0 ? SNP_MCP_CLIENT_RETRY_MS : ms;
    ms = ms > SNP_MCP_CLIENT_RETRY_MAX_MS ? SNP_MCP_CLIENT_RETRY_MAX_MS : ms;
    x->call = NULL;
    x->resume_us = snp_now_us() + ms * 1000;
    timer_update(x->link);
    return true;
}

static void on_done(void *ctx, struct snp_http_call *call, const struct snp_err *err)
{
    struct exchange *x = ctx;
    struct http_link *link = x->link;
    struct snp_err why;

    x->is_busy = true;
    if (x->kind == KIND_LISTEN && is_resumed(x)) {
        x->is_busy = false;
        return;
    }
    if (x->is_unwanted || x->has_answer || x->kind != KIND_REQUEST) {
        /* nothing to report */
    } else if (x->err.code != 0) {
        why = x->err;
        exchange_fail(x, &why, false);
    } else if (x->is_stream && is_resumed(x)) {
        x->is_busy = false;
        return;
    } else if (err != NULL) {
        exchange_fail(x, err, false);
    } else if (x->is_stream) {
        (void)snp_fail(&why, SNP_E_PEER, "the server's stream ended before its answer");
        exchange_fail(x, &why, false);
    } else {
        reply_take(x, call);
    }
    if (x->kind == KIND_LISTEN && link->listen_us != 0) {
        link_listens(link);
    }
    exchange_free(x);
    if (link->is_closing) {
        timer_update(link);
    }
}

static int exchange_start(struct exchange *x,
                          const char *method,
                          const struct headers *headers,
                          const char *body,
                          struct snp_err *err)
{
    const struct snp_http_spec spec = {
        .method = method,
        .url = x->link->options->url,
        .headers = (const char *const *)headers->lines,
        .body = body,
        .body_len = body == NULL ? 0 : strlen(body),
        .ca_file = x->link->options->ca_file,
        .connect_ms = SNP_MCP_CLIENT_CONNECT_MS,
        .total_ms = x->kind == KIND_NOTE || x->kind == KIND_GOODBYE ? SNP_MCP_CLIENT_CONNECT_MS : 0,
        .head = on_head,
        .data = on_data,
        .done = on_done,
        .ctx = x,
    };

    return headers->has_failed
               ? snp_fail(err, SNP_E_LIMIT, "more than %d headers", SNP_MCP_CLIENT_HEADERS_MAX)
               : snp_http_start(x->link->http, &spec, &x->call, err);
}

/* Send a GET, which continues a broken stream after its last event. */
static void resume(struct exchange *x)
{
    snp_cleanup(headers_done) struct headers headers = {0};
    struct snp_err err;

    x->resume_us = 0;
    header_add(&headers, "Accept", "text/event-stream");
    if (x->has_sse && *x->sse.id != '\0') {
        header_add(&headers, "Last-Event-ID", x->sse.id);
    }
    headers_common(x->link, x->version, &headers);
    if (exchange_start(x, "GET", &headers, NULL, &err) < 0) {
        x->is_busy = true;
        exchange_fail(x, &err, false);
        exchange_free(x);
    }
}

/* The link -------------------------------------------------------------------------------- */

static int link_send(struct snp_mcp_link *base,
                     const struct snp_mcp_link_message *message,
                     struct snp_err *err)
{
    struct http_link *link = link_of(base);
    snp_cleanup(headers_done) struct headers headers = {0};
    snp_autofree char *body = snp_json_text(message->json);
    struct exchange *x = NULL;
    int r;

    if (link->n_exchanges >= 2 * (size_t)SNP_MCP_CLIENT_CALLS_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "too many messages to the server wait for a reply");
    }
    if (body != NULL) {
        x = exchange_new(link, message->id == 0 ? KIND_NOTE : KIND_REQUEST, message->id);
    }
    if (x == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    x->is_modern = message->is_modern;
    x->is_initialize = snp_streq(message->method, "initialize");
    x->version = message->version == NULL ? NULL : strdup(message->version);
    if (message->version != NULL) {
        (void)snprintf(link->version, sizeof(link->version), "%s", message->version);
    }
    header_add(&headers, "Content-Type", "application/json");
    header_add(&headers, "Accept", "application/json, text/event-stream");
    if (message->is_modern) {
        headers_of_body(message, &headers);
    }
    if (x->is_initialize) {
        link->session[0] = '\0';
    }
    headers_common(link, message->version, &headers);
    r = exchange_start(x, "POST", &headers, body, err);
    if (r < 0) {
        exchange_free(x);
    }
    return r;
}

static void link_listen(struct snp_mcp_link *base)
{
    struct http_link *link = link_of(base);
    struct exchange *x = exchange_new(link, KIND_LISTEN, 0);

    link->listen_us = snp_now_us() + (uint64_t)SNP_MCP_CLIENT_LISTEN_MS * 1000;
    if (x != NULL) {
        x->version = strdup(link->version);
        x->resume_us = 1; /* at once, outside of this callback */
    }
    timer_update(link);
}

static void link_forget(struct snp_mcp_link *base, uint64_t id)
{
    struct exchange *x = link_of(base)->exchanges;

    while (x != NULL && (x->kind != KIND_REQUEST || x->id != id)) {
        x = x->next;
    }
    if (x != NULL) {
        exchange_drop(x);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct http_link *link = handle->data;
    struct snp_mcp_client *client = link->base.client;

    free(link);
    snp_mcp_link_closed(client);
}

static void on_timer(uv_timer_t *timer)
{
    struct http_link *link = timer->data;
    uint64_t now = snp_now_us();
    struct exchange *x = link->exchanges;

    if (link->is_closing) {
        while (link->exchanges != NULL) {
            exchange_drop(link->exchanges);
        }
        snp_http_free(link->http);
        uv_close((uv_handle_t *)timer, on_timer_closed);
        return;
    }
    while (x != NULL && !link->is_closing) {
        if (x->resume_us != 0 && x->resume_us <= now) {
            resume(x);
            x = link->exchanges; /* the list may have changed */
        } else {
            x = x->next;
        }
    }
    if (link->listen_us != 0 && link->listen_us <= now && !link->is_closing) {
        link->listen_us = 0;
        snp_mcp_link_listening(link->base.client);
    }
    timer_update(link);
}

static void timer_update(struct http_link *link)
{
    uint64_t now = snp_now_us();
    uint64_t next = link->listen_us == 0 ? UINT64_MAX : link->listen_us;

    for (const struct exchange *x = link->exchanges; x != NULL; x = x->next) {
        next = x->resume_us != 0 && x->resume_us < next ? x->resume_us : next;
    }
    if (link->is_closing) {
        next = link->n_exchanges == 0 ? now : link->leave_us;
    }
    if (next == UINT64_MAX) {
        (void)uv_timer_stop(&link->timer);
    } else {
        uv_update_time(link->loop);
        (void)uv_timer_start(&link->timer, on_timer, next <= now ? 0 : (next - now) / 1000 + 1, 0);
    }
}

/* Notify a legacy server that its session is over; the reply does not matter. */
static void goodbye(struct http_link *link)
{
    snp_cleanup(headers_done) struct headers headers = {0};
    struct exchange *x = exchange_new(link, KIND_GOODBYE, 0);
    struct snp_err ignored;

    if (x == NULL) {
        return;
    }
    headers_common(link, link->version, &headers);
    if (exchange_start(x, "DELETE", &headers, NULL, &ignored) < 0) {
        exchange_free(x);
    }
}

static void link_close(struct snp_mcp_link *base, bool at_once)
{
    struct http_link *link = link_of(base);
    struct exchange *x = link->exchanges;

    (void)at_once; /* there is no process, and the goodbye is short */
    link->is_closing = true;
    link->leave_us = snp_now_us() + (uint64_t)SNP_MCP_CLIENT_GOODBYE_MS * 1000;
    while (x != NULL) {
        struct exchange *next = x->next;

        if (x->kind == KIND_REQUEST || x->kind == KIND_LISTEN) {
            exchange_drop(x);
        }
        x = next;
    }
    if (link->session[0] != '\0') {
        goodbye(link);
    }
    timer_update(link);
}

static const struct snp_mcp_link_ops http_ops = {
    .send = link_send,
    .forget = link_forget,
    .listen = link_listen,
    .close = link_close,
    .is_http = true,
};

int snp_mcp_link_http(uv_loop_t *loop,
                      struct snp_mcp_client *client,
                      const struct snp_mcp_client_options *options,
                      struct snp_mcp_link **ret,
                      struct snp_err *err)
{
    struct http_link *link = calloc(1, sizeof(*link));
    int r;

    if (link == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    link->base = (struct snp_mcp_link){&http_ops, client};
    link->loop = loop;
    link->options = options;
    r = snp_http_new(loop, &link->http, err);
    if (r < 0) {
        free(link);
        return r;
    }
    (void)uv_timer_init(loop, &link->timer);
    link->timer.data = link;
    *ret = &link->base;
    return 0;
}
