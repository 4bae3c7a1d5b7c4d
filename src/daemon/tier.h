/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_TIER_H
#define SNP_DAEMON_TIER_H

/*
 * A tier program: its process, its stream, and its open calls.
 *
 * A tier that ends, breaks the protocol or does not answer in time is killed, and every open call
 * fails; the next call for it starts a new process.
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

/* A tier's answer or event; all borrowed until the callback returns. */
struct snp_tier_answer {
    json_t *head;     /* an object; NULL = the call failed, see err */
    const char *text; /* head as received */
    size_t text_len;
    const char *raw;
    size_t raw_len;
    const struct snp_err *err; /* only if head is NULL */
    bool has_died;             /* the tier ended before it answered */
    bool is_unread;            /* and it certainly did not begin the call */
};

/*
 * 0, or SNP_E_INVALID with *ret_bad if the tier's message is invalid: then the tier is ended. The
 * callee's request must be handled in both cases.
 */
typedef int snp_tier_told(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad);

struct snp_tier_call {
    json_t *head;    /* of SNP_WRITE: a request; taken over, also on failure; NULL = no memory */
    const void *raw; /* borrowed */
    size_t raw_len;
    uint64_t timeout_ms; /* after this the tier is considered hung */
    bool is_urgent;      /* may pass a queue that is full for others */
    bool has_fd;
    int fd; /* with has_fd: sent with the request; taken over, also on failure */
    const struct snp_record *answer; /* its form, if done() need not check it; fails if invalid */
    snp_tier_told *done;             /* the end of the call, exactly once; NULL = none */
    snp_tier_told *event;            /* NULL = no events allowed */
    void *ctx;
};

/*
 * Get the running program of a tier, or start it. SNP_E_UNSUPPORTED, SNP_E_DENIED: no program may
 * be run. *ret is borrowed, valid until it ends.
 */
int snp_tier_get(struct snp_server *server,
                 struct snp_found_tier *found,
                 struct snp_tier **ret,
                 struct snp_err *err) SNP_NODISCARD;

/*
 * Start the default tier while the journal is being read. Failures show again when it is first
 * used.
 */
void snp_tier_warm(struct snp_server *server);

/*
 * Send a call. On failure nothing was sent and done() is not called. SNP_E_LIMIT: too large, or too
 * many open calls. SNP_E_UNSUPPORTED: the tier lacks the method. done() is never called before this
 * returns.
 */
int snp_tier_ask(struct snp_tier *tier,
                 const struct snp_tier_call *asked,
                 struct snp_err *err) SNP_NODISCARD;

/*
 * In a coroutine: send a call without done() and wait for its end. ret_answer: NULL = dropped; else
 * owned by the caller.
 */
int snp_tier_await(struct snp_tier *tier,
                   const struct snp_tier_call *asked,
                   json_t **ret_answer,
                   struct snp_err *err) SNP_NODISCARD;
/* done() of a call whose ctx is a struct snp_await. */
snp_tier_told snp_tier_answered;

/*
 * Remove the full outputs of an ended session in every running tier, since a session may have been
 * in several. Later calls find none.
 */
void snp_tier_forget(struct snp_server *server, const char *session);

/* Tell every running tier the new server->outputs_bytes. */
void snp_tier_bound_outputs(struct snp_server *server);

/*
 * Close the stream in order; the tier ends its sessions and exits, or is killed after a time limit.
 */
void snp_tier_end(struct snp_tier *tier);

#endif
