/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_MCP_CAPS_H
#define SNP_BASE_MCP_CAPS_H

/* Limits of servers and clients. */

enum {
    SNP_MCP_MESSAGE_MAX = 24 << 20, /* bytes of one JSON-RPC message */
    SNP_MCP_ID_MAX = 256,           /* bytes of a request's id, if it is a string */
    SNP_MCP_METHOD_MAX = 128,       /* bytes of a method's name */
    SNP_MCP_OUT_MAX = 64 << 20,     /* bytes waiting for one client to read */
    SNP_MCP_TTL_MS = 3600 * 1000,   /* how long a list may be cached */
};

/* For clients, which trust no server. */
enum {
    SNP_MCP_CLIENT_DEFINITION_MAX = 256 << 10, /* bytes of a tool's definition */
    SNP_MCP_CLIENT_NAME_MAX = 128,             /* bytes of a tool's name */
    SNP_MCP_CLIENT_NOTE_MAX = 500,             /* characters of a server's text shown */
    SNP_MCP_CLIENT_HEADERS_MAX = 64,           /* headers of one request */
};

#endif
