/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_HTTP_SESSION_H
#define SNP_MCP_HTTP_SESSION_H

/*
 * Mcp-Session-Id of legacy clients: it says whose request ids are whose, for cancellation,
 * questions and resumed streams, and nothing else. What an id is good for is not kept: one that we
 * made is known by its second half, also after it was forgotten or the server began anew.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"
#include "mcp/http/token.h"

enum {
    SNP_HTTPD_SESSION_LEN = 32 + SNP_HTTPD_MAC_LEN,
};

struct snp_httpd_session {
    char id[SNP_HTTPD_SESSION_LEN + 1];
    char version[16]; /* what was negotiated; "" = that was forgotten */
    bool is_ended;
    size_t n_users; /* streams; it is not forgotten while there are any */
    struct snp_httpd_session *next;
};

/* Embedded. */
struct snp_httpd_sessions {
    const char *key;                /* borrowed */
    struct snp_httpd_session *list; /* used last first */
    size_t n;
};

void snp_httpd_sessions_init(struct snp_httpd_sessions *sessions, const char *key);
void snp_httpd_sessions_done(struct snp_httpd_sessions *sessions);

/* A new one; NULL: no memory or no random bytes. Borrowed, until it is not used and forgotten. */
struct snp_httpd_session *snp_httpd_session_new(struct snp_httpd_sessions *sessions);
/* The one with this id; NULL: there is none, or it was ended. Borrowed, as above. */
struct snp_httpd_session *snp_httpd_session_find(struct snp_httpd_sessions *sessions,
                                                 const char *id,
                                                 size_t n);

#endif
