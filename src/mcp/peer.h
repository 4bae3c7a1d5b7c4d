/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_PEER_H
#define SNP_MCP_PEER_H

/*
 * Conversations: messages in, messages out, requests in flight. Knows the protocol, but not the
 * transport (which calls snp_mcp_receive and provides send) or the service (a table of methods).
 */

#include <uv.h>

#include "base/buf.h"
#include "base/mcp/era.h"
#include "base/mcp/jsonrpc.h"
#include "mcp/caps.h"

struct snp_mcp_call;
struct snp_mcp_peer;
struct snp_mcp_batch;

/*
 * A method a service offers. Core methods (initialize, ping, server/discover) are not in its table.
 */
struct snp_mcp_method {
    const char *name;
    unsigned eras;   /* SNP_IN_... */
    bool is_listing; /* modern answers state a cache time */
    /* Ends with exactly one snp_mcp_answer or snp_mcp_refuse, possibly later. */
    void (*run)(struct snp_mcp_call *call);
};

/* The service; all borrowed and constant. */
struct snp_mcp_service {
    json_t *info;         /* server info of a handshake: name, version, title, ... */
    json_t *brief;        /* the short form, for every modern answer */
    json_t *capabilities; /* of `initialize` and `server/discover` */
    const char *instructions;
    const struct snp_mcp_method *methods;
    size_t n_methods;
    void *ctx;
};

/* State shared by conversations. Embedded. */
struct snp_mcp_hub {
    const struct snp_mcp_service *service; /* borrowed */
    uv_loop_t *loop;                       /* borrowed */
    uv_timer_t ticks;                      /* of progress */
    struct snp_mcp_call *calls;            /* in flight or waiting, oldest first */
    size_t n_waiting;
    size_t waiting_bytes; /* of their messages */
    bool is_starting;     /* waiting calls are being started */
    json_int_t last_ask;
};

/* One request in flight. Services read the first part and may set the second. */
struct snp_mcp_call {
    struct snp_mcp_hub *hub;
    struct snp_mcp_peer *peer; /* NULL: the answer has no recipient any more */
    enum snp_era era;
    json_t *params; /* an object; borrowed from root */
    json_t *id;     /* borrowed from root */
    json_t *token;  /* of progress, borrowed; NULL = not wanted */

    void *state;                /* the service's */
    void (*state_free)(void *); /* NULL = nothing */
    /* The caller is gone (cancelled, or disconnected): end soon, normally. NULL = just wait. */
    void (*cancel)(struct snp_mcp_call *call);
    /* Append a line on the state, for progress. NULL = none is sent. */
    void (*describe)(struct snp_mcp_call *call, struct snp_buf *out);
    /* The _meta of a notification of progress, new reference; NULL = none. May itself be NULL. */
    json_t *(*accompany)(struct snp_mcp_call *call);

    /* private */
    json_t *root; /* owned */
    const struct snp_mcp_method *method;
    struct snp_mcp_batch *batch; /* that it came in; NULL = alone */
    size_t waiting_bytes;        /* 0 = started */
    uint64_t started_us;
    double progress; /* the last one sent */
    struct snp_mcp_call *next;
    struct snp_mcp_call *prev;
};

/* A request of ours that a client has not answered. */
struct snp_mcp_ask {
    json_int_t id; /* 0 = free */
    struct snp_mcp_call *call;
    void (*answered)(struct snp_mcp_call *call, json_t *result, json_t *error);
};

/*
 * One client, or one request of a client whose requests are independent. Embedded by a transport.
 */
struct snp_mcp_peer {
    struct snp_mcp_hub *hub; /* borrowed */
    /*
     * Peers with the same value are one client: ids and answers are looked up in all. NULL = alone.
     */
    const void *client;
    /* Send one message. It is borrowed; a transport that cannot send it drops it. */
    void (*send)(struct snp_mcp_peer *peer, json_t *message);
    size_t n_calls;
    struct snp_mcp_ask asks[SNP_MCP_ASKS_MAX];
    struct snp_mcp_batch *batch; /* being read; NULL = none */
    bool is_gone;
    /*
     * Legacy: the negotiated version, "" = none yet. Set by `initialize`, or by a transport that
     * knows it.
     */
    char version[16];
};

void snp_mcp_hub_init(struct snp_mcp_hub *hub,
                      uv_loop_t *loop,
                      const struct snp_mcp_service *service);
/* All calls are cancelled. The timer must still be closed by the loop. */
void snp_mcp_hub_done(struct snp_mcp_hub *hub);

/* peer->send must be set, peer->client may be. */
void snp_mcp_peer_init(struct snp_mcp_peer *peer, struct snp_mcp_hub *hub);
/* The client is gone: cancel its calls. */
void snp_mcp_peer_done(struct snp_mcp_peer *peer);

/*
 * Handle a message of the client, or a batch where the version has batches, n bytes of text. Errors
 * are answered; answers to a batch are sent together, as one array.
 */
void snp_mcp_receive(struct snp_mcp_peer *peer, const char *text, size_t n);
/*
 * The same for a parsed message; its contents are consumed. 0, or the code of the error it was
 * answered with immediately, before any method ran.
 */
int snp_mcp_take(struct snp_mcp_peer *peer, struct snp_jsonrpc *message);
/* The same for a parsed batch. */
int snp_mcp_take_batch(struct snp_mcp_peer *peer, const json_t *list);
/* Answer a message that is not JSON-RPC with this code and reason. */
void snp_mcp_reject(struct snp_mcp_peer *peer, int code, const char *message);

/* Answer a call and end it. result: an object, consumed; NULL = out of memory. */
void snp_mcp_answer(struct snp_mcp_call *call, json_t *result);
/* Answer with an error and end the call. data: consumed, may be NULL. */
void snp_mcp_refuse(struct snp_mcp_call *call, int code, json_t *data, const char *fmt, ...)
    SNP_PRINTF(4, 5);

/* Refuse a call that asks for a further page of a listing; ours have one page. True: refused. */
bool snp_mcp_refuse_cursor(struct snp_mcp_call *call);

/* Send a notification about a call in flight; params: consumed. */
void snp_mcp_notify(struct snp_mcp_call *call, const char *method, json_t *params);
/*
 * Send progress of a call that wants it; values not above the last are not sent. total: 0 =
 * unknown; meta: consumed, NULL = none.
 */
void snp_mcp_progress(
    struct snp_mcp_call *call, double progress, double total, const char *message, json_t *meta);
/*
 * Send the client a request (legacy only). answered: called once, from the loop, while the call
 * lives; error is also set when the client disconnects. SNP_E_LIMIT: too many pending.
 */
int snp_mcp_ask(struct snp_mcp_call *call,
                const char *method,
                json_t *params,
                void (*answered)(struct snp_mcp_call *call, json_t *result, json_t *error),
                struct snp_err *err) SNP_NODISCARD;

#endif
