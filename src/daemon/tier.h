/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_TIER_H
#define SNP_DAEMON_TIER_H

/*
 * A tier program: its process, its stream, and what it has been asked.
 *
 * A tier that ends, breaks the protocol or does not answer in time is killed, and
 * every open call gets an error; the next call for it starts a new one.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "daemon/session.h"

struct snp_found_tier;
struct snp_record;
struct snp_server;
struct snp_tier;

/* What a tier said; all borrowed until the callback returns. */
struct snp_tier_answer {
    json_t *head;     /* an object; NULL = the call failed, see err */
    const char *text; /* head as it came */
    size_t text_len;
    const char *raw;
    size_t raw_len;
    const struct snp_err *err; /* only if head is NULL */
    bool has_died;             /* the tier ended by itself before it answered */
    bool is_unread;            /* and it certainly did not begin the call */
};

/*
 * 0, or SNP_E_INVALID with *ret_bad when what the tier said is not what it must be: then the tier
 * is ended. The callee's own side (its request) must be dealt with in both cases.
 */
typedef int snp_tier_told(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad);

struct snp_tier_call {
    json_t *head;    /* of SNP_WRITE: a request; taken over, also on failure; NULL = no memory */
    const void *raw; /* borrowed */
    size_t raw_len;
    uint64_t timeout_ms; /* after this the tier counts as hung */
    bool is_urgent;      /* may pass a queue that is full for others */
    bool has_fd;
    int fd; /* with has_fd: goes along with the request; taken over, also on failure */
    const struct snp_record *answer; /* its form, if done() need not check it; a wrong one fails */
    snp_tier_told *done;             /* the end of the call, exactly once; NULL = nobody waits */
    snp_tier_told *event;            /* NULL = none may come */
    void *ctx;
};

/*
 * The running program of a tier, started if there is none. SNP_E_UNSUPPORTED, SNP_E_DENIED:
 * there is none that may be run. *ret is borrowed, valid until it ends.
 */
int snp_tier_get(struct snp_server *server,
                 struct snp_found_tier *found,
                 struct snp_tier **ret,
                 struct snp_err *err) SNP_NODISCARD;

/*
 * Start the tier that most sessions want, while the journal is being read. What fails is met
 * again by the first who wants it.
 */
void snp_tier_warm(struct snp_server *server);

/*
 * Ask. On failure nothing was sent and done() is not called. SNP_E_LIMIT: too large, or
 * too many open calls. SNP_E_UNSUPPORTED: the tier says that it has no such method.
 * done() is never called before this returns.
 */
int snp_tier_ask(struct snp_tier *tier,
                 const struct snp_tier_call *asked,
                 struct snp_err *err) SNP_NODISCARD;

/*
 * Have the full outputs of a session that has ended removed: by every tier that runs, since a
 * session may have been in several. Later calls find none.
 */
void snp_tier_forget(struct snp_server *server, const char *session);

/* Close the stream in order; the tier ends its sessions and itself, or is killed after a while. */
void snp_tier_end(struct snp_tier *tier);

#endif
