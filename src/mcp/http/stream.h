/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_HTTP_STREAM_H
#define SNP_MCP_HTTP_STREAM_H

/*
 * The answer to one POST: a JSON text, or a stream of events that ends with the answer. It lives as
 * long as its call or its reader; for a legacy client with a session a while longer, so that a
 * stream can be resumed after its connection broke.
 */

#include <sys/types.h>

#include "mcp/http/session.h"
#include "mcp/peer.h"

struct snp_httpd_stream {
    struct snp_mcp_peer peer; /* first: send() casts back */
    struct snp_httpd_streams *all;
    struct snp_httpd_session *session; /* counted there; NULL = none */
    bool is_modern;
    bool is_resumable;
    bool is_primed;   /* begins with an empty event, for clients of 2025-11-25 */
    bool is_rejected; /* answered before any method ran */
    bool is_open;     /* a stream, not a JSON text */
    bool is_final;    /* complete */
    unsigned takes;   /* SNP_HTTPD_TAKES_... */
    int error_code;   /* of the answer; 0 = a result */
    char *answer;     /* owned: a JSON text; NULL = none */
    struct snp_buf log;
    size_t gone_bytes; /* bytes dropped from the front of the log */
    char id[33];
    unsigned n_events;
    uint64_t began_us;
    uint64_t said_us;   /* time of the last output */
    uint64_t expire_us; /* without a reader; 0 = not yet */
    void *reader;       /* NULL: no connection */
    size_t read_bytes;  /* by the reader, from the start of the stream */
    struct snp_httpd_stream *next;
    struct snp_httpd_stream *prev;
};

/* All streams. Embedded. */
struct snp_httpd_streams {
    struct snp_mcp_hub *hub;                       /* borrowed */
    void (*wake)(struct snp_httpd_stream *stream); /* its reader can continue */
    struct snp_httpd_stream *list;                 /* oldest first */
    struct snp_httpd_stream *last;
    size_t n;
    bool has_loose; /* some may have to be freed */
};

struct snp_httpd_stream_spec {
    struct snp_httpd_session *session; /* NULL = none */
    bool is_modern;
    bool is_primed;
    unsigned takes;
    void *reader;
};

/* wake must be set by the caller. */
void snp_httpd_streams_init(struct snp_httpd_streams *all, struct snp_mcp_hub *hub);
/* All calls are cancelled. */
void snp_httpd_streams_done(struct snp_httpd_streams *all);

/* A new one; NULL: no memory, or too many. Freed by collect only. */
struct snp_httpd_stream *snp_httpd_stream_new(struct snp_httpd_streams *all,
                                              const struct snp_httpd_stream_spec *spec);

/* The status for the answer, and for a stream. */
unsigned snp_httpd_stream_status(const struct snp_httpd_stream *stream);

/*
 * Answer with a stream from now on. No effect if it is one, or answered, or the client accepts
 * none.
 */
void snp_httpd_stream_open(struct snp_httpd_stream *stream);

/* Read up to n bytes for the reader; 0: nothing yet; -1: the end. */
ssize_t snp_httpd_stream_read(struct snp_httpd_stream *stream, char *bytes, size_t n);

/*
 * The reader is gone: a modern call ends with it, a legacy one continues. is_sent: it had
 * everything.
 */
void snp_httpd_stream_leave(struct snp_httpd_stream *stream, bool is_sent);

/*
 * The stream of a session for an event id of n bytes, and *ret_bytes, where its reader continues.
 * NULL: it is gone, or belongs to another session.
 */
struct snp_httpd_stream *snp_httpd_stream_find(const struct snp_httpd_streams *all,
                                               const struct snp_httpd_session *session,
                                               const char *event,
                                               size_t n,
                                               size_t *ret_bytes);

/* End the streams whose calls were cancelled; of one session, or all (NULL). */
void snp_httpd_streams_end_cancelled(struct snp_httpd_streams *all,
                                     const struct snp_httpd_session *session);
/* A session ended: its calls are cancelled, its streams end. */
void snp_httpd_streams_end_session(struct snp_httpd_streams *all,
                                   const struct snp_httpd_session *session);

/* Timed work: open streams, send signs of life, drop expired ones. */
void snp_httpd_streams_tick(struct snp_httpd_streams *all, uint64_t now_us);
/* Free unused streams. Never call it from within a call's methods. */
void snp_httpd_streams_collect(struct snp_httpd_streams *all);

#endif
