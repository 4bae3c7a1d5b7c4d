/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_EXECUTOR_H
#define SNP_DAEMON_SESSION_EXECUTOR_H

/*
 * One life of a session in a tier: a sandbox, from the request until it is gone.
 *
 * A named session has several, one after the other, each with a separate epoch and id in the tier.
 * So late messages of an old one are never mistaken for messages of the new one, and
 * session->live.executor is replaced only when the old one is gone.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/policy/session_name.h"

struct snp_executor;
struct snp_place;
struct snp_server;
struct snp_session;
struct snp_tier;

/*
 * The end of an opening, called exactly once. manifest: borrowed; NULL = it failed, see err, and
 * the executor is gone, or is being closed.
 */
typedef void snp_executor_opened(void *ctx, json_t *manifest, const struct snp_err *err);

enum snp_executor_state {
    SNP_EXECUTOR_OPENING = 0,
    SNP_EXECUTOR_OPEN,
    SNP_EXECUTOR_CLOSING, /* the tier has the request to end it */
    SNP_EXECUTOR_GONE,    /* it has ended, or its tier is being killed */
};

struct snp_executor {
    struct snp_server *server; /* borrowed */
    unsigned refs;             /* the session's, one per open request to the tier, one per cell */
    enum snp_executor_state state;
    char id[SNP_SESSION_ID_LEN + 1]; /* in the tier */
    uint64_t epoch;
    struct snp_session *session;  /* one reference until it is gone, then NULL */
    struct snp_tier *tier;        /* borrowed; NULL once it is gone */
    struct snp_executor *same_id; /* next of the table's chain; borrowed */
    snp_executor_opened *opened;
    void *ctx;       /* of opened() */
    json_t *at_wake; /* owned: keys of limits that only its successor will have; NULL = none */
};

/* The end of a closing, called exactly once. err: NULL = it is gone. */
typedef void snp_executor_closed(void *ctx, const struct snp_err *err);

/*
 * Open a new executor in session->policy.place.tier, by the session's policy. It becomes
 * session->live.executor, which must be NULL. After a failure nothing has changed. opened() gets
 * the session.
 */
int snp_executor_open(struct snp_session *session,
                      snp_executor_opened *opened,
                      struct snp_err *err) SNP_NODISCARD;

/* In a coroutine: the same. ret_manifest: owned by the caller. */
int snp_executor_open_await(struct snp_session *session,
                            json_t **ret_manifest,
                            struct snp_err *err) SNP_NODISCARD;

/*
 * In a coroutine: open another one beside the present one, which stays. place: NULL = the session's
 * place. *ret: set, also on failure, until snp_executor_end().
 */
int snp_executor_open_beside(struct snp_session *session,
                             const struct snp_place *place,
                             struct snp_executor **ret,
                             json_t **ret_manifest,
                             struct snp_err *err) SNP_NODISCARD;
/* In a coroutine: close it, and drop the reference. NULL is allowed; failures are logged. */
void snp_executor_close_await(struct snp_executor *executor);
void snp_executor_end(struct snp_executor *executor);
SNP_DEFINE_CLEANUP(struct snp_executor *, snp_executor_end)

/* Ask the tier to end it. closed: NULL = none. For one that is gone it is called at once. */
void snp_executor_close(struct snp_executor *executor, snp_executor_closed *closed, void *ctx);

void snp_executor_ref(struct snp_executor *executor);
/* NULL is allowed. */
void snp_executor_unref(struct snp_executor *executor);

/* Find an executor by its id in the tier, or NULL. Borrowed. */
struct snp_executor *snp_executor_find(const struct snp_server *server, const char *id);

/* The executor ended unexpectedly. The session is notified once, if this was its executor. */
void snp_executor_gone(struct snp_executor *executor, const char *reason);

/* A tier has ended: all its executors are gone. */
void snp_executor_tier_lost(struct snp_server *server,
                            const struct snp_tier *tier,
                            const char *reason);

#endif
