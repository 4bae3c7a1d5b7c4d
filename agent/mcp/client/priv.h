/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_CLIENT_PRIV_H
#define SNP_MCP_CLIENT_PRIV_H

/* Shared declarations of the parts of the client. */

#include "mcp/client/client.h"
#include "mcp/client/link.h"

enum snp_mcp_client_state {
    SNP_MCP_CLIENT_PROBING = 0,  /* server/discover is pending */
    SNP_MCP_CLIENT_RESTARTING,   /* the process exited on discover; another is starting */
    SNP_MCP_CLIENT_INITIALIZING, /* the handshake */
    SNP_MCP_CLIENT_OPEN,
    SNP_MCP_CLIENT_BROKEN, /* permanently; `failure` has the reason */
    SNP_MCP_CLIENT_CLOSING,
};

struct snp_mcp_client;

struct snp_mcp_pending {
    uint64_t handle; /* the caller's handle */
    uint64_t id;     /* of the request last sent; 0 = not sent */
    char *method;    /* owned */
    json_t *params;  /* owned; as given by the caller */
    uint64_t timeout_ms;
    uint64_t deadline_us;
    double progress;                 /* the last one heard */
    unsigned rounds;                 /* times more input was requested */
    bool is_own;                     /* of opening; sent before anything else may be */
    bool was_sent_again;             /* because the session was gone */
    struct snp_mcp_client_call call; /* the callbacks; method and params are not its */
    struct snp_mcp_pending *next;
};

struct snp_mcp_client {
    uv_loop_t *loop;
    struct snp_mcp_client_options options; /* copied where it points; callbacks */
    json_t *capabilities;
    uint64_t timeout_ms;
    enum snp_mcp_client_state state;
    bool has_opened; /* `opened` was called */
    bool was_probed_twice;
    bool was_restarted;
    struct snp_err failure;
    struct snp_mcp_link *link;
    uv_timer_t timer; /* the nearest deadline, and deferred reports */
    struct snp_mcp_pending *pending;
    size_t n_pending;
    uint64_t last_id;
    uint64_t last_handle;
    unsigned unasked; /* messages since the last answer */
    unsigned strange;
    int last_http_status; /* of the last request that failed without an answer; 0 = none came */
    json_t *tool_headers; /* {tool: [{"header", "path"}]}; NULL = not listed yet */
    struct snp_mcp_client_info info;
    json_t *greeting; /* owned: what info borrows from */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* A request during opening. timeout_ms runs from now. */
int snp_mcp_client_own(struct snp_mcp_client *client,
                       const struct snp_mcp_client_call *call,
                       struct snp_err *err) SNP_NODISCARD;
/*
 * Send a notification; params: consumed. If it cannot be sent it is dropped; the link reports the
 * reason.
 */
void snp_mcp_client_notify(struct snp_mcp_client *client, const char *method, json_t *params);
/* Send waiting requests. */
void snp_mcp_client_flush(struct snp_mcp_client *client);
/* The connection is unusable: all calls fail. */
void snp_mcp_client_break(struct snp_mcp_client *client, const struct snp_err *err);
/* Make a new link by the options. */
int snp_mcp_client_connect(struct snp_mcp_client *client, struct snp_err *err) SNP_NODISCARD;

/*
 * mcp/client/era.c: begin to open in the configured mode; and again, after a restart or a lost
 * session.
 */
int snp_mcp_client_greet(struct snp_mcp_client *client, struct snp_err *err) SNP_NODISCARD;
int snp_mcp_client_initialize(struct snp_mcp_client *client, struct snp_err *err) SNP_NODISCARD;
/* The handshake is done, and unsolicited messages can arrive: calls may begin. */
void snp_mcp_client_ready(struct snp_mcp_client *client);
/* The link broke: true if only the detection of the era ended, and the client continues. */
bool snp_mcp_client_survives(struct snp_mcp_client *client);

/*
 * mcp/client/input.c: params of the next round of a call, by what its server wants. New reference.
 */
int snp_mcp_client_round(struct snp_mcp_client *client,
                         const struct snp_mcp_pending *pending,
                         const json_t *result,
                         json_t **ret,
                         struct snp_err *err) SNP_NODISCARD;
/* Forward a server's request to our user. SNP_E_UNSUPPORTED: it was not declared. */
int snp_mcp_client_ask(struct snp_mcp_client *client,
                       const char *method,
                       const json_t *params,
                       json_t **ret,
                       struct snp_err *err) SNP_NODISCARD;

#endif
