/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_CLIENT_LINK_H
#define SNP_MCP_CLIENT_LINK_H

/*
 * The interface between the client and its transport: a process (mcp/client/stdio.c) or HTTP
 * (mcp/client/http.c). The client handles ids and eras, a link handles bytes.
 */

#include <uv.h>

#include "mcp/client/options.h"

struct snp_mcp_client;

/* One message to be sent; all borrowed. */
struct snp_mcp_link_message {
    json_t *json;
    uint64_t id;         /* of this client's request; 0 = no answer is expected */
    const char *method;  /* NULL: an answer of this client */
    const char *version; /* of the protocol, for HTTP; NULL = not known yet */
    bool is_modern;
    const json_t *headers; /* "Mcp-Param-X: value", an array; NULL = none */
};

struct snp_mcp_link;

struct snp_mcp_link_ops {
    /* May fail at once, or later through snp_mcp_link_failed or _broken. */
    int (*send)(struct snp_mcp_link *link,
                const struct snp_mcp_link_message *message,
                struct snp_err *err);
    /* Discard the answer with this id. */
    void (*forget)(struct snp_mcp_link *link, uint64_t id);
    /*
     * Open a stream for what belongs to no request (legacy HTTP); then snp_mcp_link_listening.
     * NULL = there is one.
     */
    void (*listen)(struct snp_mcp_link *link);
    /*
     * Begin to close; snp_mcp_link_closed comes later, from the loop. Called once; no other call
     * follows. at_once: the server misbehaves, so the grace period is shorter.
     */
    void (*close)(struct snp_mcp_link *link, bool at_once);
    bool is_http;
};

/* Embedded by a link. */
struct snp_mcp_link {
    const struct snp_mcp_link_ops *ops;
    struct snp_mcp_client *client; /* borrowed */
};

/*
 * Make a link; the client owns it until it reports that it is closed. Options: borrowed during the
 * call.
 */
int snp_mcp_link_stdio(uv_loop_t *loop,
                       struct snp_mcp_client *client,
                       const struct snp_mcp_client_options *options,
                       struct snp_mcp_link **ret,
                       struct snp_err *err) SNP_NODISCARD;
int snp_mcp_link_http(uv_loop_t *loop,
                      struct snp_mcp_client *client,
                      const struct snp_mcp_client_options *options,
                      struct snp_mcp_link **ret,
                      struct snp_err *err) SNP_NODISCARD;

/* Reports of a link. Each may make the client close the link. -------------------------------- */

enum snp_mcp_link_verdict {
    SNP_MCP_LINK_NONE = 0, /* no message */
    SNP_MCP_LINK_TAKEN,    /* a message, but no answer */
    SNP_MCP_LINK_ANSWERED, /* the answer to `id` */
};

/* Text of a message; id: of the request on whose own stream it came, 0 = all share one. */
enum snp_mcp_link_verdict snp_mcp_link_received(struct snp_mcp_client *client,
                                                uint64_t id,
                                                const char *text,
                                                size_t n);

/* There will be no answer to a request. */
struct snp_mcp_link_failure {
    uint64_t id;
    int http_status; /* 0 = none came */
    bool is_session_gone;
    const struct snp_err *err;
};
void snp_mcp_link_failed(struct snp_mcp_client *client, const struct snp_mcp_link_failure *failure);

/* The listening stream is open, or not available. */
void snp_mcp_link_listening(struct snp_mcp_client *client);
/* Nothing more will come from it, and nothing can be sent. */
void snp_mcp_link_broken(struct snp_mcp_client *client, const struct snp_err *err);
/* Closed: its memory is the link's own again. */
void snp_mcp_link_closed(struct snp_mcp_client *client);
void snp_mcp_link_said(struct snp_mcp_client *client, const char *bytes, size_t n);

#endif
