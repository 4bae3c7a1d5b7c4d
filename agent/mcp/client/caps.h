/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_CLIENT_CAPS_H
#define SNP_MCP_CLIENT_CAPS_H

/* Limits of our client, which trusts no server. */

enum {
    SNP_MCP_CLIENT_TIMEOUT_MS = 60 * 1000,   /* of a call without one */
    SNP_MCP_CLIENT_TIMEOUT_MAX_MS = 3600000, /* the longest of a call */
    SNP_MCP_CLIENT_PROBE_MS = 5000,          /* for a process to answer server/discover */
    SNP_MCP_CLIENT_CALLS_MAX = 64,           /* calls in flight */
    SNP_MCP_CLIENT_UNASKED_MAX = 10000,      /* messages between two answers */
    SNP_MCP_CLIENT_STRANGE_MAX = 100,        /* lines and events that are not messages */
    SNP_MCP_CLIENT_VALUES_MAX = 1000000,     /* JSON values of one message */
    SNP_MCP_CLIENT_ROUNDS_MAX = 8,           /* rounds of input that a server may request for
                                                * one call */
    SNP_MCP_CLIENT_INPUTS_MAX = 16,          /* inputs per round */
    SNP_MCP_CLIENT_STATE_MAX = 1 << 20,      /* bytes of state to carry for it (requestState) */
    SNP_MCP_CLIENT_PAGES_MAX = 100,          /* pages of one list */
    SNP_MCP_CLIENT_ITEMS_MAX = 2000,         /* items of one list */
    SNP_MCP_CLIENT_LIST_MAX = 16 << 20,      /* bytes of one list */
    SNP_MCP_CLIENT_CURSOR_MAX = 4096,        /* bytes of a page's cursor */
    SNP_MCP_CLIENT_SESSION_MAX = 256,        /* bytes of an Mcp-Session-Id */
    SNP_MCP_CLIENT_TOKEN_MAX = 16 << 10,     /* bytes of a bearer token */
    SNP_MCP_CLIENT_STREAM_MAX = 256 << 20,   /* bytes of one stream of events */
    SNP_MCP_CLIENT_REFUSAL_MAX = 64 << 10,   /* bytes of an error reply */
    SNP_MCP_CLIENT_CONNECT_MS = 10 * 1000,   /* for a connection */
    SNP_MCP_CLIENT_RESUMES_MAX = 32,         /* breaks of a stream without an event between */
    SNP_MCP_CLIENT_RETRY_MS = 1000,          /* before a stream is resumed */
    SNP_MCP_CLIENT_RETRY_MAX_MS = 60 * 1000, /* the longest delay a server may set */
    SNP_MCP_CLIENT_LISTEN_MS = 1000,  /* for a server to open its stream of unsolicited messages */
    SNP_MCP_CLIENT_GOODBYE_MS = 1000, /* for the end of a session over HTTP */
    SNP_MCP_CLIENT_GRACE_MS = 2000,   /* for a process to exit on its own, and after SIGTERM */
    SNP_MCP_CLIENT_SAID_MAX = 1024,   /* bytes of standard error kept for messages */
    SNP_MCP_CLIENT_ENV_MAX = 256,     /* variables of a server we start */
};

#endif
