/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to POSTs.
 *
 * Invariants: `answer` and `is_open` exclude each other. The log holds whole events; of a stream
 * that can be resumed all of them, else those that were not read. A stream is freed by collect
 * only, because a call still looks at its peer after it has sent its answer.
 */
#include "mcp/http/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/httpd/head.h"
#include "base/str.h"
#include "base/text/say.h"
#include "mcp/caps.h"

enum {
    ID_LEN = 32, /* of snp_random_id */
    RETRY_MS = 500,
    US_PER_MS = 1000,
};

/* Events --------------------------------------------------------------------------------------- */

static bool is_dead(const struct snp_httpd_stream *stream)
{
    return stream->reader == NULL && !stream->is_resumable;
}

/* Add an event; data NULL: an empty one. False: no room. */
static bool event_add(struct snp_httpd_stream *stream, const char *data)
{
    snp_autosay struct snp_say event = SNP_SAY(SNP_MCP_HTTP_ANSWER_MAX);

    snp_say(&event, data == NULL ? "" : "event: message\n");
    if (stream->is_resumable) {
        snp_say(&event, "id: %s-%u\n", stream->id, stream->n_events + 1);
    }
    if (data == NULL) {
        snp_say(&event, "retry: %d\n", RETRY_MS);
    }
    snp_say(&event, "data: %s\n\n", data == NULL ? "" : data);
    if (event.r < 0 || snp_buf_add(&stream->log, snp_buf_bytes(&event.buf), event.buf.len) < 0) {
        return false;
    }
    stream->n_events++;
    stream->said_us = snp_now_us();
    return true;
}

/* Wake the reader, or drop the stream if it has none. */
static void told(struct snp_httpd_stream *stream)
{
    if (stream->reader != NULL) {
        stream->all->wake(stream);
    } else {
        stream->all->has_loose = true;
    }
}

void snp_httpd_stream_open(struct snp_httpd_stream *stream)
{
    if (stream->is_open || stream->is_final || (stream->takes & SNP_HTTPD_TAKES_EVENTS) == 0) {
        return;
    }
    stream->is_open = true;
    stream->said_us = snp_now_us();
    if (stream->is_resumable && stream->is_primed) {
        (void)event_add(stream, NULL);
    }
    told(stream);
}

/* Bytes pending for the reader. */
static size_t pending(const struct snp_httpd_stream *stream)
{
    return stream->gone_bytes + stream->log.len - stream->read_bytes;
}

static void on_send(struct snp_mcp_peer *peer, json_t *message)
{
    struct snp_httpd_stream *stream = (struct snp_httpd_stream *)peer;
    const char *method = snp_json_str(message, "method", NULL);
    bool is_note = method != NULL && snp_has_prefix(method, "notifications/");
    snp_autofree char *text = NULL;

    if (stream->is_final || is_dead(stream)) {
        stream->is_final |= method == NULL;
        stream->all->has_loose = true;
        return;
    }
    if (is_note && pending(stream) > SNP_MCP_HTTP_PENDING_MAX) {
        return; /* a client that does not read still gets the end */
    }
    text = snp_json_text(message);
    if (method == NULL) {
        stream->error_code = (int)snp_json_int(json_object_get(message, "error"), "code", 0);
        if (!stream->is_open && (stream->takes & SNP_HTTPD_TAKES_JSON) != 0) {
            stream->answer = SNP_TAKE_PTR(text);
            stream->is_final = true;
            told(stream);
            return;
        }
    }
    snp_httpd_stream_open(stream);
    if (stream->is_open && text != NULL) {
        (void)event_add(stream, text);
    }
    stream->is_final |= method == NULL;
    told(stream);
}

unsigned snp_httpd_stream_status(const struct snp_httpd_stream *stream)
{
    int code = stream->error_code;

    if (code == 0 || stream->is_open) {
        return 200;
    }
    if (code == SNP_JSONRPC_PARSE || code == SNP_JSONRPC_REQUEST) {
        return stream->is_rejected ? 400 : 200;
    }
    if (!stream->is_modern) {
        return 200;
    }
    if (code == SNP_JSONRPC_METHOD) {
        return 404;
    }
    return code == SNP_JSONRPC_HEADER || code == SNP_JSONRPC_CAPABILITY ||
                   code == SNP_JSONRPC_VERSION ||
                   (code == SNP_JSONRPC_PARAMS && stream->is_rejected)
               ? 400
               : 200;
}

ssize_t snp_httpd_stream_read(struct snp_httpd_stream *stream, char *bytes, size_t n)
{
    size_t at = stream->read_bytes - stream->gone_bytes;
    size_t left = stream->log.len - at;

    if (left == 0) {
        return stream->is_final ? -1 : 0;
    }
    n = n < left ? n : left;
    memcpy(bytes, snp_buf_bytes(&stream->log) + at, n);
    stream->read_bytes += n;
    if (!stream->is_resumable) {
        snp_buf_consume(&stream->log, n);
        stream->gone_bytes += n;
    }
    return (ssize_t)n;
}

/* Resuming ------------------------------------------------------------------------------------- */

/* The position after the event with this id ("\nid: ID\n") in the log; 0 = not there. */
static size_t event_end(const struct snp_httpd_stream *stream, const char *event)
{
    char line[64];
    const char *log = snp_buf_bytes(&stream->log);
    const char *at;
    const char *end;
    int n = snprintf(line, sizeof(line), "id: %s\n", event);

    at = stream->log.len == 0 ? NULL : memmem(log, stream->log.len, line, (size_t)n);
    end = at == NULL ? NULL : memmem(at, stream->log.len - (size_t)(at - log), "\n\n", 2);
    return end == NULL ? 0 : (size_t)(end - log) + 2;
}

struct snp_httpd_stream *snp_httpd_stream_find(const struct snp_httpd_streams *all,
                                               const struct snp_httpd_session *session,
                                               const char *event,
                                               size_t n,
                                               size_t *ret_bytes)
{
    char copy[ID_LEN + 12] = "";

    if (n <= ID_LEN || n >= sizeof(copy) || event[ID_LEN] != '-') {
        return NULL;
    }
    memcpy(copy, event, n);
    for (struct snp_httpd_stream *stream = all->list; stream != NULL; stream = stream->next) {
        if (stream->session == session && stream->is_resumable && stream->is_open &&
            memcmp(stream->id, copy, ID_LEN) == 0) {
            *ret_bytes = event_end(stream, copy);
            return *ret_bytes == 0 ? NULL : stream;
        }
    }
    return NULL;
}

/* Lives ---------------------------------------------------------------------------------------- */

static void stream_free(struct snp_httpd_stream *stream)
{
    struct snp_httpd_streams *all = stream->all;

    snp_mcp_peer_done(&stream->peer);
    *(stream->prev == NULL ? &all->list : &stream->prev->next) = stream->next;
    *(stream->next == NULL ? &all->last : &stream->next->prev) = stream->prev;
    all->n--;
    if (stream->session != NULL) {
        stream->session->n_users--;
    }
    snp_buf_done(&stream->log);
    free(stream->answer);
    free(stream);
}

void snp_httpd_streams_init(struct snp_httpd_streams *all, struct snp_mcp_hub *hub)
{
    void (*wake)(struct snp_httpd_stream *) = all->wake;

    *all = (struct snp_httpd_streams){.hub = hub, .wake = wake};
}

void snp_httpd_streams_done(struct snp_httpd_streams *all)
{
    while (all->list != NULL) {
        stream_free(all->list);
    }
}

/* The oldest ended one that is kept for a reader; NULL = none. */
static struct snp_httpd_stream *oldest_kept(const struct snp_httpd_streams *all)
{
    for (struct snp_httpd_stream *stream = all->list; stream != NULL; stream = stream->next) {
        if (stream->reader == NULL && stream->peer.n_calls == 0) {
            return stream;
        }
    }
    return NULL;
}

struct snp_httpd_stream *snp_httpd_stream_new(struct snp_httpd_streams *all,
                                              const struct snp_httpd_stream_spec *spec)
{
    struct snp_httpd_stream *kept = all->n < SNP_MCP_HTTP_STREAMS_MAX ? NULL : oldest_kept(all);
    struct snp_httpd_stream *stream;

    if (kept != NULL) {
        stream_free(kept);
    }
    stream = all->n < SNP_MCP_HTTP_STREAMS_MAX ? calloc(1, sizeof(*stream)) : NULL;
    if (stream == NULL || snp_random_id(stream->id) < 0) {
        free(stream);
        return NULL;
    }
    stream->peer.send = on_send;
    stream->peer.client = spec->session;
    snp_mcp_peer_init(&stream->peer, all->hub);
    snp_buf_init(&stream->log, 2 * (size_t)SNP_MCP_HTTP_ANSWER_MAX);
    stream->all = all;
    stream->session = spec->session;
    stream->is_modern = spec->is_modern;
    stream->is_resumable = spec->session != NULL;
    stream->is_primed = spec->is_primed;
    stream->takes = spec->takes;
    stream->reader = spec->reader;
    stream->began_us = snp_now_us();
    if (spec->session != NULL) {
        spec->session->n_users++;
    }
    stream->prev = all->last;
    *(all->last == NULL ? &all->list : &all->last->next) = stream;
    all->last = stream;
    all->n++;
    return stream;
}

void snp_httpd_stream_leave(struct snp_httpd_stream *stream, bool is_sent)
{
    uint64_t keep_ms = is_sent ? SNP_MCP_HTTP_KEEP_SENT_MS : SNP_MCP_HTTP_KEEP_MS;

    stream->reader = NULL;
    stream->all->has_loose = true;
    if (!stream->is_open) {
        stream->is_resumable = false; /* no event was sent, so the rest cannot be requested */
    }
    if (stream->is_modern) {
        snp_mcp_peer_done(&stream->peer);
        stream->is_final = true;
    }
    stream->expire_us = snp_now_us() + keep_ms * US_PER_MS;
}

static void stream_end(struct snp_httpd_stream *stream)
{
    snp_httpd_stream_open(stream);
    stream->is_final = true;
    told(stream);
}

void snp_httpd_streams_end_cancelled(struct snp_httpd_streams *all,
                                     const struct snp_httpd_session *session)
{
    for (struct snp_httpd_stream *stream = all->list; stream != NULL; stream = stream->next) {
        if (!stream->is_final && stream->peer.n_calls == 0 &&
            (session == NULL || stream->session == session)) {
            stream_end(stream);
        }
    }
}

void snp_httpd_streams_end_session(struct snp_httpd_streams *all,
                                   const struct snp_httpd_session *session)
{
    for (struct snp_httpd_stream *stream = all->list; stream != NULL; stream = stream->next) {
        if (stream->session == session) {
            snp_mcp_peer_done(&stream->peer);
            stream->is_resumable = false;
        }
    }
    snp_httpd_streams_end_cancelled(all, session);
    all->has_loose = true;
}

/* Time ----------------------------------------------------------------------------------------- */

static void stream_tick(struct snp_httpd_stream *stream, uint64_t now_us)
{
    static const char alive[] = ":\n\n";

    if (!stream->is_final && !stream->is_open &&
        now_us > stream->began_us + (uint64_t)SNP_MCP_HTTP_OPEN_MS * US_PER_MS) {
        snp_httpd_stream_open(stream);
    }
    if (stream->reader != NULL && stream->is_open && !stream->is_final && pending(stream) == 0 &&
        now_us > stream->said_us + (uint64_t)SNP_MCP_HTTP_ALIVE_MS * US_PER_MS &&
        snp_buf_add(&stream->log, alive, sizeof(alive) - 1) == 0) {
        stream->said_us = now_us;
        stream->all->wake(stream);
    }
}

void snp_httpd_streams_tick(struct snp_httpd_streams *all, uint64_t now_us)
{
    size_t kept_bytes = 0;

    for (struct snp_httpd_stream *stream = all->list; stream != NULL; stream = stream->next) {
        stream_tick(stream, now_us);
        kept_bytes += stream->reader == NULL ? stream->log.len : 0;
    }
    for (struct snp_httpd_stream *stream = all->list; stream != NULL; stream = stream->next) {
        bool is_over = now_us > stream->expire_us || kept_bytes > SNP_MCP_HTTP_KEEP_BYTES;

        if (stream->reader == NULL && stream->is_final && stream->is_resumable && is_over) {
            kept_bytes -= stream->log.len;
            stream->is_resumable = false;
            all->has_loose = true;
        }
    }
}

void snp_httpd_streams_collect(struct snp_httpd_streams *all)
{
    struct snp_httpd_stream *next = NULL;

    if (!all->has_loose) {
        return;
    }
    all->has_loose = false;
    for (struct snp_httpd_stream *stream = all->list; stream != NULL; stream = next) {
        next = stream->next;
        if (stream->reader == NULL && stream->peer.n_calls == 0 && !stream->is_resumable) {
            stream_free(stream);
        }
    }
}
