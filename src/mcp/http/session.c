/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of HTTP clients. Some clients open one per call, so the list is bounded and being
 * dropped from it costs nothing. An ended one is remembered as ended while the list has room.
 */
#include "mcp/http/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "mcp/caps.h"

enum {
    NONCE_LEN = 32, /* of snp_random_id */
};

void snp_httpd_sessions_init(struct snp_httpd_sessions *sessions, const char *key)
{
    *sessions = (struct snp_httpd_sessions){.key = key};
}

void snp_httpd_sessions_done(struct snp_httpd_sessions *sessions)
{
    while (sessions->list != NULL) {
        struct snp_httpd_session *session = sessions->list;

        sessions->list = session->next;
        free(session);
    }
    sessions->n = 0;
}

static int second_half(const struct snp_httpd_sessions *sessions,
                       const char *nonce,
                       char out[SNP_HTTPD_MAC_LEN + 1])
{
    char text[64];

    (void)snprintf(text, sizeof(text), "mcp-session %.*s", NONCE_LEN, nonce);
    return snp_httpd_mac(sessions->key, text, out);
}

/* Drop the least recently used session without users. */
static void forget_one(struct snp_httpd_sessions *sessions)
{
    struct snp_httpd_session **oldest = NULL;
    struct snp_httpd_session *gone;

    for (struct snp_httpd_session **at = &sessions->list; *at != NULL; at = &(*at)->next) {
        oldest = (*at)->n_users == 0 ? at : oldest;
    }
    if (oldest == NULL) {
        return;
    }
    gone = *oldest;
    *oldest = gone->next;
    free(gone);
    sessions->n--;
}

static struct snp_httpd_session *add(struct snp_httpd_sessions *sessions, const char *id)
{
    struct snp_httpd_session *session = calloc(1, sizeof(*session));

    if (session == NULL) {
        return NULL;
    }
    if (sessions->n >= SNP_MCP_HTTP_SESSIONS_MAX) {
        forget_one(sessions);
    }
    (void)snprintf(session->id, sizeof(session->id), "%s", id);
    session->next = sessions->list;
    sessions->list = session;
    sessions->n++;
    return session;
}

struct snp_httpd_session *snp_httpd_session_new(struct snp_httpd_sessions *sessions)
{
    char id[SNP_HTTPD_SESSION_LEN + 1];

    return snp_random_id(id) < 0 || second_half(sessions, id, id + NONCE_LEN) < 0
               ? NULL
               : add(sessions, id);
}

struct snp_httpd_session *snp_httpd_session_find(struct snp_httpd_sessions *sessions,
                                                 const char *id,
                                                 size_t n)
{
    char copy[SNP_HTTPD_SESSION_LEN + 1] = "";
    char mac[SNP_HTTPD_MAC_LEN + 1];

    if (n != SNP_HTTPD_SESSION_LEN) {
        return NULL;
    }
    memcpy(copy, id, n);
    for (struct snp_httpd_session **at = &sessions->list; *at != NULL; at = &(*at)->next) {
        struct snp_httpd_session *found = *at;

        if (memcmp(found->id, copy, n) == 0) {
            *at = found->next;
            found->next = sessions->list;
            sessions->list = found;
            return found->is_ended ? NULL : found;
        }
    }
    if (second_half(sessions, copy, mac) < 0 ||
        !snp_httpd_token_equal(mac, copy + NONCE_LEN, SNP_HTTPD_MAC_LEN)) {
        return NULL;
    }
    return add(sessions, copy);
}
