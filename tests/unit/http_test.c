/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP client against a server of a few lines, and the parser of event streams. */
#include "base/http/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>

#include "base/buf.h"
#include "base/http/sse.h"
#include "base/str.h"
#include "unit/harness.h"

enum {
    TEXT_MAX = 1 << 20,
    IDLE_MS = 80,
    MANY = 5,
    URL_LEN = 64,
};

/* Answers each connection's first request with `reply`, then closes, or keeps silent. */
struct server {
    uv_loop_t loop;
    uv_tcp_t listener;
    char url[URL_LEN];
    const char *reply;
    bool is_silent; /* after the reply */
    struct snp_buf requests;
    unsigned n_connections;
};

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_written(uv_write_t *write, int status)
{
    struct server *server = write->data;

    (void)status;
    if (!server->is_silent && !uv_is_closing((uv_handle_t *)write->handle)) {
        uv_close((uv_handle_t *)write->handle, on_closed);
    }
    free(write);
}

static void on_alloc(uv_handle_t *handle, size_t n, uv_buf_t *buf)
{
    (void)handle;
    *buf = uv_buf_init(malloc(n), (unsigned)n);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct server *server = stream->data;

    if (n > 0) {
        assert_int_equal(snp_buf_add(&server->requests, buf->base, (size_t)n), 0);
        const char *text = snp_buf_cstr(&server->requests);
        if (strstr(text, "\r\n\r\n") != NULL) {
            uv_write_t *write = calloc(1, sizeof(*write));
            uv_buf_t out =
                uv_buf_init((char *)(uintptr_t)server->reply, (unsigned)strlen(server->reply));

            write->data = server;
            assert_int_equal(uv_write(write, stream, &out, 1, on_written), 0);
        }
    } else if (n < 0 && !uv_is_closing((uv_handle_t *)stream)) {
        uv_close((uv_handle_t *)stream, on_closed);
    }
    free(buf->base);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct server *server = listener->data;
    uv_tcp_t *tcp = calloc(1, sizeof(*tcp));

    assert_int_equal(status, 0);
    server->n_connections++;
    assert_int_equal(uv_tcp_init(&server->loop, tcp), 0);
    tcp->data = server;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)tcp), 0);
    assert_int_equal(uv_read_start((uv_stream_t *)tcp, on_alloc, on_read), 0);
}

static void server_init(struct server *server, const char *reply)
{
    struct sockaddr_in address;
    int len = sizeof(address);

    *server = (struct server){.reply = reply};
    snp_buf_init(&server->requests, TEXT_MAX);
    assert_int_equal(uv_loop_init(&server->loop), 0);
    assert_int_equal(uv_tcp_init(&server->loop, &server->listener), 0);
    server->listener.data = server;
    assert_int_equal(uv_ip4_addr("127.0.0.1", 0, &address), 0);
    assert_int_equal(uv_tcp_bind(&server->listener, (struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_tcp_getsockname(&server->listener, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&server->listener, MANY, on_connection), 0);
    (void)snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u/x?y=1",
                   ntohs(address.sin_port));
}

static void close_any(uv_handle_t *handle, void *arg)
{
    struct server *server = arg;

    if (!uv_is_closing(handle)) {
        uv_close(handle, handle == (uv_handle_t *)&server->listener ? NULL : on_closed);
    }
}

static void server_done(struct server *server)
{
    uv_walk(&server->loop, close_any, server);
    assert_int_equal(uv_run(&server->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&server->loop), 0);
    snp_buf_done(&server->requests);
}

/* What came back. */
struct seen {
    struct snp_http *http;
    uv_loop_t *loop;
    struct snp_http_call *call;
    struct snp_http_call *other; /* cancelled by the first data */
    struct snp_buf body;
    struct snp_err err;
    char kind[URL_LEN];
    int status;
    unsigned n_heads;
    unsigned n_done;
    unsigned n_wanted; /* the loop stops after so many */
    bool is_refusing;  /* data says false */
    bool is_cancelling;
};

static bool on_head(void *ctx, struct snp_http_call *call)
{
    struct seen *seen = ctx;
    const char *kind = snp_http_header(call, "content-type");

    seen->n_heads++;
    seen->status = snp_http_status(call);
    (void)snprintf(seen->kind, sizeof(seen->kind), "%s", kind == NULL ? "" : kind);
    assert_null(snp_http_header(call, "x-nothing"));
    return true;
}

static bool on_data(void *ctx, const char *bytes, size_t n)
{
    struct seen *seen = ctx;

    assert_int_equal(snp_buf_add(&seen->body, bytes, n), 0);
    if (seen->other != NULL) {
        snp_http_cancel(seen->other);
        seen->other = NULL;
    }
    if (seen->is_cancelling) {
        snp_http_cancel(seen->call);
        uv_stop(seen->loop);
    }
    return !seen->is_refusing;
}

static void on_done(void *ctx, struct snp_http_call *call, const struct snp_err *err)
{
    struct seen *seen = ctx;

    (void)call;
    seen->n_done++;
    seen->err = (struct snp_err){0};
    if (err != NULL) {
        seen->err = *err;
    }
    if (seen->n_done == seen->n_wanted) {
        uv_stop(seen->loop);
    }
}

static struct snp_http_spec spec_for(struct seen *seen, const char *url)
{
    return (struct snp_http_spec){
        .url = url, .head = on_head, .data = on_data, .done = on_done, .ctx = seen};
}

static void seen_init(struct seen *seen, struct server *server)
{
    struct snp_err err;

    *seen = (struct seen){.loop = &server->loop, .n_wanted = 1};
    snp_buf_init(&seen->body, TEXT_MAX);
    assert_int_equal(snp_http_new(&server->loop, &seen->http, &err), 0);
}

static void seen_done(struct seen *seen)
{
    snp_http_free(seen->http);
    snp_buf_done(&seen->body);
}

static void ask(struct seen *seen, const struct snp_http_spec *spec)
{
    struct snp_err err;

    assert_int_equal(snp_http_start(seen->http, spec, &seen->call, &err), 0);
    assert_int_equal(seen->n_done, 0);
    (void)uv_run(seen->loop, UV_RUN_DEFAULT);
}

TEST(a_request_is_answered)
{
    static const char *const headers[] = {"X-Key: secret", NULL};
    struct server server;
    struct seen seen;

    server_init(&server, "HTTP/1.1 429 Slow\r\nContent-Type: text/a\r\ncontent-type: b\r\n"
                         "Content-Length: 5\r\n\r\nhello");
    seen_init(&seen, &server);
    struct snp_http_spec spec = spec_for(&seen, server.url);
    spec.headers = headers;
    spec.body = "{\"a\":1}";
    spec.body_len = strlen(spec.body);
    ask(&seen, &spec);
    assert_int_equal(seen.n_done, 1);
    assert_int_equal(seen.err.code, SNP_OK);
    assert_int_equal(seen.status, 429);
    assert_string_equal(seen.kind, "text/a");
    assert_string_equal(snp_buf_cstr(&seen.body), "hello");
    const char *request = snp_buf_cstr(&server.requests);
    assert_non_null(strstr(request, "POST /x?y=1 HTTP/1.1\r\n"));
    assert_non_null(strstr(request, "\r\nX-Key: secret\r\n"));
    assert_non_null(strstr(request, "\r\n\r\n{\"a\":1}"));
    assert_null(strstr(request, "Expect"));
    seen_done(&seen);
    server_done(&server);
}

TEST(a_reply_without_a_body_has_a_head)
{
    struct server server;
    struct seen seen;

    server_init(&server, "HTTP/1.1 204 No\r\n\r\n");
    seen_init(&seen, &server);
    struct snp_http_spec spec = spec_for(&seen, server.url);
    ask(&seen, &spec);
    assert_int_equal(seen.n_heads, 1);
    assert_int_equal(seen.status, 204);
    assert_int_equal(seen.err.code, SNP_OK);
    assert_non_null(strstr(snp_buf_cstr(&server.requests), "GET /x?y=1"));
    seen_done(&seen);
    server_done(&server);
}

TEST(failures_have_codes)
{
    static const struct {
        const char *reply;
        size_t max_bytes;
        uint64_t idle_ms;
        enum snp_code code;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", 0, 0, SNP_E_PEER},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 4, 0, SNP_E_LIMIT},
        {"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", 0, IDLE_MS, SNP_E_TIMEOUT},
        {"nonsense\r\n\r\n", 0, 0, SNP_E_PEER},
        {"", 0, 0, SNP_E_PEER},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        struct server server;
        struct seen seen;

        server_init(&server, rows[i].reply);
        server.is_silent = rows[i].idle_ms > 0;
        seen_init(&seen, &server);
        struct snp_http_spec spec = spec_for(&seen, server.url);
        spec.max_bytes = rows[i].max_bytes;
        spec.idle_ms = rows[i].idle_ms;
        ask(&seen, &spec);
        assert_int_equal(seen.n_done, 1);
        assert_int_equal(seen.err.code, rows[i].code);
        seen_done(&seen);
        server_done(&server);
    }
}

TEST(headers_are_bounded)
{
    snp_autobuf struct snp_buf reply = {0};
    struct server server;
    struct seen seen;

    snp_buf_init(&reply, TEXT_MAX);
    assert_int_equal(snp_buf_adds(&reply, "HTTP/1.1 200 OK\r\n"), 0);
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(snp_buf_addf(&reply, "X-%d: %040d\r\n", i, i), 0);
    }
    assert_int_equal(snp_buf_adds(&reply, "\r\n"), 0);
    server_init(&server, snp_buf_cstr(&reply));
    seen_init(&seen, &server);
    struct snp_http_spec spec = spec_for(&seen, server.url);
    ask(&seen, &spec);
    assert_int_equal(seen.err.code, SNP_E_LIMIT);
    seen_done(&seen);
    server_done(&server);
}

TEST(what_is_not_wanted_or_cancelled_ends_at_once)
{
    struct server server;
    struct seen seen;
    struct seen late;
    struct snp_err err;

    server_init(&server, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello");
    server.is_silent = true;
    seen_init(&seen, &server);
    struct snp_http_spec spec = spec_for(&seen, server.url);
    seen.is_refusing = true;
    ask(&seen, &spec);
    assert_int_equal(seen.n_done, 1);
    assert_int_equal(seen.err.code, SNP_OK);

    seen.n_done = 0;
    seen.is_refusing = false;
    seen.is_cancelling = true;
    ask(&seen, &spec);
    assert_int_equal(seen.n_done, 0);

    /* one call cancels another from inside its data, and asks again */
    seen.is_cancelling = false;
    seen.is_refusing = true;
    late = (struct seen){.loop = &server.loop};
    snp_buf_init(&late.body, TEXT_MAX);
    struct snp_http_spec other = spec_for(&late, server.url);
    assert_int_equal(snp_http_start(seen.http, &other, &seen.other, &err), 0);
    ask(&seen, &spec);
    assert_int_equal(seen.n_done, 1);
    assert_int_equal(late.n_done, 0);
    snp_buf_done(&late.body);
    seen_done(&seen);
    server_done(&server);
}

TEST(nothing_is_left_when_it_is_freed_in_the_middle)
{
    struct server server;
    struct seen seen;
    struct snp_err err;

    server_init(&server, "");
    server.is_silent = true;
    seen_init(&seen, &server);
    struct snp_http_spec spec = spec_for(&seen, server.url);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(snp_http_start(seen.http, &spec, &seen.call, &err), 0);
    }
    while (server.n_connections < MANY) {
        (void)uv_run(&server.loop, UV_RUN_ONCE);
    }
    seen_done(&seen);
    server_done(&server);
    assert_int_equal(seen.n_done, 0);
}

TEST(bad_requests_are_refused)
{
    static const char *const headers[] = {"Authorization: Bearer a\r\nX-Evil: 1", NULL};
    struct server server;
    struct seen seen;
    struct snp_err err;

    server_init(&server, "HTTP/1.1 200 OK\r\n\r\n");
    seen_init(&seen, &server);
    struct snp_http_spec spec = spec_for(&seen, server.url);
    spec.headers = headers;
    assert_int_equal(snp_http_start(seen.http, &spec, &seen.call, &err), SNP_E_INVALID);
    assert_null(strstr(err.msg, "Bearer"));
    spec = spec_for(&seen, NULL);
    assert_int_equal(snp_http_start(seen.http, &spec, &seen.call, &err), SNP_E_INVALID);
    spec = spec_for(&seen, "file:///etc/passwd");
    assert_int_equal(snp_http_start(seen.http, &spec, &seen.call, &err), SNP_E_INVALID);
    spec = spec_for(&seen, "http://[nonsense");
    ask(&seen, &spec);
    assert_int_equal(seen.err.code, SNP_E_INVALID);
    seen_done(&seen);
    server_done(&server);
}

TEST(a_request_to_this_host_goes_to_no_proxy)
{
    struct server server;
    struct seen seen;

    assert_int_equal(setenv("http_proxy", "http://192.0.2.1:9", 1), 0);
    server_init(&server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    seen_init(&seen, &server);
    struct snp_http_spec spec = spec_for(&seen, server.url);
    spec.connect_ms = 60000;
    ask(&seen, &spec);
    assert_int_equal(unsetenv("http_proxy"), 0);
    assert_int_equal(seen.err.code, SNP_OK);
    assert_int_equal(seen.status, 200);
    seen_done(&seen);
    server_done(&server);
}

/* Event streams --------------------------------------------------------------------------- */

static int on_event(void *ctx, const struct snp_sse_event *event, struct snp_err *err)
{
    (void)err;
    assert_int_equal(strlen(event->data), event->data_len);
    return snp_buf_addf(ctx, "[%s|%s|%s|%llu]", event->event, event->data, event->id,
                        (unsigned long long)event->retry_ms);
}

TEST(event_streams_are_read_in_any_pieces)
{
    static const struct {
        const char *text;
        const char *events;
    } rows[] = {
        {"data: a\n\n", "[message|a||0]"},
        {"\xef\xbb\xbf"
         "data: a\n\n",
         "[message|a||0]"},
        {"\xef\xbb"
         "data: a\n\ndata:b\n\n",
         "[message|b||0]"},
        {"data: a\r\rdata:b\r\n\r\n", "[message|a||0][message|b||0]"},
        {"event: x\nid: 7\ndata: a\ndata:  b\ndata\n\ndata: c\n\n",
         "[x|a\n b\n|7|0][message|c|7|0]"},
        {": comment\nretry: 50\nretry: +6\nretry:\nfoo: bar\ndata: a\n\n", "[message|a||50]"},
        {"data:\n\n", "[message|||0]"},
        {"event: lost\n\ndata: a\n\n", "[message|a||0]"},
        {"data: cut off\n", ""},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        size_t n = strlen(rows[i].text);

        for (size_t piece = 1; piece <= n; piece++) {
            snp_autobuf struct snp_buf seen = {0};
            struct snp_sse sse;
            struct snp_err err;

            snp_buf_init(&seen, TEXT_MAX);
            snp_sse_init(&sse, TEXT_MAX, on_event, &seen);
            for (size_t at = 0; at < n; at += piece) {
                size_t part = n - at < piece ? n - at : piece;
                assert_int_equal(snp_sse_feed(&sse, rows[i].text + at, part, &err), 0);
            }
            assert_string_equal(snp_buf_cstr(&seen), rows[i].events);
            snp_sse_done(&sse);
        }
    }
}

TEST(long_events_are_refused)
{
    snp_autobuf struct snp_buf seen = {0};
    struct snp_sse sse;
    struct snp_err err;

    snp_buf_init(&seen, TEXT_MAX);
    snp_sse_init(&sse, 16, on_event, &seen);
    assert_int_equal(snp_sse_feed(&sse, "data: 12345678\n", 15, &err), 0);
    assert_int_equal(snp_sse_feed(&sse, "data: 12345678\n", 15, &err), SNP_E_LIMIT);
    snp_sse_done(&sse);
    snp_sse_init(&sse, 16, on_event, &seen);
    assert_int_equal(snp_sse_feed(&sse, ":12345678901234567", 18, &err), SNP_E_LIMIT);
    snp_sse_done(&sse);
}

TEST(ids_stay_and_bad_ones_are_passed_over)
{
    static const char bytes[] = "id: 1\nretry: 9\n\nid: 2\0x\n\n";
    snp_autobuf struct snp_buf seen = {0};
    struct snp_sse sse;
    struct snp_err err;

    snp_buf_init(&seen, TEXT_MAX);
    snp_sse_init(&sse, TEXT_MAX, on_event, &seen);
    assert_int_equal(snp_sse_feed(&sse, bytes, sizeof(bytes) - 1, &err), 0);
    assert_int_equal(seen.len, 0);
    assert_string_equal(sse.id, "1");
    assert_int_equal(sse.retry_ms, 9);
    snp_sse_done(&sse);
}

RUN(UNIT(a_request_is_answered),
    UNIT(a_reply_without_a_body_has_a_head),
    UNIT(failures_have_codes),
    UNIT(headers_are_bounded),
    UNIT(what_is_not_wanted_or_cancelled_ends_at_once),
    UNIT(nothing_is_left_when_it_is_freed_in_the_middle),
    UNIT(bad_requests_are_refused),
    UNIT(a_request_to_this_host_goes_to_no_proxy),
    UNIT(event_streams_are_read_in_any_pieces),
    UNIT(long_events_are_refused),
    UNIT(ids_stay_and_bad_ones_are_passed_over))
