/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_CLIENT_OPTIONS_H
#define SNP_MCP_CLIENT_OPTIONS_H

/* Options of a client. */

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

/* Which era to speak. */
enum snp_mcp_client_mode {
    SNP_MCP_CLIENT_AUTO = 0, /* ask; modern where the server can */
    SNP_MCP_CLIENT_LEGACY,   /* `initialize` at once */
    SNP_MCP_CLIENT_MODERN,   /* fail if the server cannot */
};

/* Everything is copied, except the data of callbacks. Exactly one of argv and url. */
struct snp_mcp_client_options {
    /* A program, looked up in PATH, and its arguments; NULL-terminated. No shell sees it. */
    const char *const *argv;
    /*
     * "NAME=value" for the program, NULL-terminated. Of this process's variables it gets only HOME,
     * LANG, LC_ALL, LOGNAME, PATH, SHELL, TERM, TMPDIR, TZ and USER. NULL = none.
     */
    const char *const *env;
    const char *cwd; /* its working directory; NULL = this process's */

    const char *url;   /* https, or http to this very machine */
    const char *token; /* sent as a bearer token, to this URL only; NULL = none */
    /* further headers, "Name: value", to this URL only; NULL-terminated; NULL = none */
    const char *const *headers;
    const char *ca_file; /* trusted certificates; NULL = the system's */

    enum snp_mcp_client_mode mode;
    uint64_t timeout_ms; /* for opening, and for calls without one; 0 = a minute */
    /*
     * As ClientCapabilities: the requests a server may make. Borrowed during the call; NULL = none.
     */
    const json_t *capabilities;

    /*
     * A request by the server that the capabilities allow ("elicitation/create",
     * "sampling/createMessage", "roots/list"); params may be NULL. *ret: the result, a new
     * reference. A failure is returned to the server (legacy), or ends the call that needed the
     * input (modern). NULL = all are refused.
     */
    int (*asked)(
        void *ctx, const char *method, const json_t *params, json_t **ret, struct snp_err *err);
    /* Bytes a started program wrote to its standard error; untrusted. NULL = ignored. */
    void (*said)(void *ctx, const char *bytes, size_t n);
    /*
     * Once, never before snp_mcp_client_new has returned: it is open (err NULL), or cannot be
     * opened. NULL = not wanted: calls fail with the same err. Not after snp_mcp_client_close.
     */
    void (*opened)(void *ctx, const struct snp_err *err);
    void *ctx;
};

/* Make a checked copy. Callbacks are copied unchanged. */
int snp_mcp_options_copy(const struct snp_mcp_client_options *options,
                         struct snp_mcp_client_options *ret,
                         struct snp_err *err) SNP_NODISCARD;
void snp_mcp_options_free(struct snp_mcp_client_options *options);

#endif
