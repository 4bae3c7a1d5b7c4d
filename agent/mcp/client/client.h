/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_CLIENT_CLIENT_H
#define SNP_MCP_CLIENT_CLIENT_H

/*
 * A client of MCP servers: a program we start (stdio) or a URL (Streamable HTTP), in both eras of
 * the protocol. Nothing blocks and all callbacks come from the loop; many calls may be open at
 * once.
 *
 * No server is trusted. Every size and time is bounded (mcp/client/caps.h); an answer reaches only
 * its call, once; a server's text about itself and its tools is untrusted data, to be cleaned
 * (snp_text_line) before it is shown.
 *
 *     struct snp_mcp_client_options options = {.argv = argv, .opened = on_opened, .ctx = me};
 *     snp_mcp_client_new(loop, &options, &client, &err);
 *     snp_mcp_client_list(client, "tools/list", ...);     // may be asked before it is open
 *     snp_mcp_client_call(client, &(struct snp_mcp_client_call){.method = "tools/call", ...}, ...);
 *     snp_mcp_client_close(client, on_closed, me);        // the loop ends when nothing is left
 */

#include <uv.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mcp/era.h"
#include "mcp/client/options.h"

struct snp_mcp_client;

/* State after opening. Borrowed from the client; the server's text is untrusted. */
struct snp_mcp_client_info {
    enum snp_era era;
    const char *version;        /* of the protocol, "2025-11-25" */
    const json_t *server;       /* {"name", "version", ...}; NULL = not given */
    const json_t *capabilities; /* an object */
    const char *instructions;   /* "" = none */
};

/* How a call ended; all borrowed until the callback returns. */
struct snp_mcp_client_end {
    /*
     * NULL = result is set. SNP_E_TIMEOUT; SNP_E_LIMIT: it was too large or too much; SNP_E_DENIED:
     * HTTP 401 or 403; SNP_E_UNSUPPORTED: no common version; SNP_E_PEER: the server refused (then
     * `error` is there), broke the protocol, or is gone.
     */
    const struct snp_err *err;
    json_t *result;      /* an object; json_incref to keep */
    const json_t *error; /* the server's {"code", "message", "data"?}; NULL = none */
};

struct snp_mcp_client_call {
    const char *method;  /* copied */
    json_t *params;      /* an object or NULL; consumed, also on failure */
    uint64_t timeout_ms; /* total, regardless of progress; 0 = the client's; capped */
    /* Strictly increasing; total 0 = unknown; message is clean, "" = none. NULL = not requested. */
    void (*progress)(void *ctx, double progress, double total, const char *message);
    /* Once, never before snp_mcp_client_call has returned; not after cancel or close. */
    void (*done)(void *ctx, const struct snp_mcp_client_end *end);
    /* Instead of done, if cancelled or the client closed: only free ctx. May be NULL. */
    void (*dropped)(void *ctx);
    void *ctx;
};

/*
 * Begin to open. loop: borrowed, outlives it. *ret is the caller's: snp_mcp_client_close(), also if
 * it cannot be opened. SNP_E_INVALID: invalid options (a URL with a password in it, http to another
 * machine, an invalid token); SNP_E_NOT_FOUND: no such program.
 */
int snp_mcp_client_new(uv_loop_t *loop,
                       const struct snp_mcp_client_options *options,
                       struct snp_mcp_client **ret,
                       struct snp_err *err) SNP_NODISCARD;

/* NULL until it is open. */
const struct snp_mcp_client_info *snp_mcp_client_info(const struct snp_mcp_client *client);

/*
 * Send a request; before the client is open the call waits. *ret_call (may be NULL) identifies it
 * until done. If a modern server wants input, `asked` provides it and the request is repeated. Over
 * HTTP, arguments that a tool wants in headers are put there if snp_mcp_client_list has listed the
 * tools. SNP_E_LIMIT: too many are open.
 */
int snp_mcp_client_call(struct snp_mcp_client *client,
                        const struct snp_mcp_client_call *call,
                        uint64_t *ret_call,
                        struct snp_err *err) SNP_NODISCARD;

/* Cancel a call: the server is notified, and done is not called. Unknown ones are ignored. */
void snp_mcp_client_cancel(struct snp_mcp_client *client, uint64_t call);

/*
 * All pages of "tools/list", "resources/list", "resources/templates/list" or "prompts/list". items:
 * an array, borrowed. A tool is included only if it can be called: it has a unique name of
 * [A-Za-z0-9_./-], a schema, a limited size, and over HTTP headers that can be sent. notes: an
 * array of clean texts about the others. done: as for a call; on failure items and notes are NULL.
 */
int snp_mcp_client_list(struct snp_mcp_client *client,
                        const char *method,
                        uint64_t timeout_ms,
                        void (*done)(void *ctx,
                                     const struct snp_mcp_client_end *end,
                                     json_t *items,
                                     const json_t *notes),
                        void *ctx,
                        struct snp_err *err) SNP_NODISCARD;

/*
 * Close: open calls are dropped. A session over HTTP is ended; a program sees the end of its input
 * and gets 2 s, SIGTERM and 2 s, then its process group is killed. closed (may be NULL) comes from
 * the loop when nothing is left, and the client is freed. May be called from any callback.
 */
void snp_mcp_client_close(struct snp_mcp_client *client, void (*closed)(void *ctx), void *ctx);

/*
 * An elicitation's result (form mode) from its schema's defaults, for `asked`: {"action": "accept",
 * "content": {...}}; "decline" if a required field has no default, and for every other mode. New
 * reference.
 */
json_t *snp_mcp_elicit_defaults(const json_t *params);

#endif
