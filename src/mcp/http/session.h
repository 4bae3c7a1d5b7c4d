/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_HTTP_SESSION_H
#define SNP_MCP_HTTP_SESSION_H

/*
 * Mcp-Session-Id of legacy clients: it only scopes request ids, for cancellation, questions and
 * resumed streams. Ids need no storage: one of ours is verified by its second half, even after it
 * was dropped or the server restarted.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/httpd/token.h"
#include "base/macro.h"

enum {
    SNP_HTTPD_SESSION_LEN = 32 + SNP_HTTPD_MAC_LEN,
};

struct snp_httpd_session {
    char id[SNP_HTTPD_SESSION_LEN + 1];
    char version[16]; /* negotiated version; "" = dropped */
    bool is_ended;
    size_t n_users; /* streams; it is kept while there are any */
    struct snp_httpd_session *next;
};

/* Embedded. */
struct snp_httpd_sessions {
    const char *key;                /* borrowed */
    struct snp_httpd_session *list; /* most recently used first */
    size_t n;
};

void snp_httpd_sessions_init(struct snp_httpd_sessions *sessions, const char *key);
void snp_httpd_sessions_done(struct snp_httpd_sessions *sessions);

/* A new one; NULL: no memory or no random bytes. Borrowed, until it is unused and dropped. */
struct snp_httpd_session *snp_httpd_session_new(struct snp_httpd_sessions *sessions);
/* The session of this id; NULL: none, or it was ended. Borrowed, as above. */
struct snp_httpd_session *snp_httpd_session_find(struct snp_httpd_sessions *sessions,
                                                 const char *id,
                                                 size_t n);

#endif
