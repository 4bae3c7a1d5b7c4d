/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_LIBRARY_LIBRARY_H
#define SNP_LIBRARY_LIBRARY_H

/* Connections and calls of the library. */

#include <sys/types.h>

#include "base/buf.h"
#include "client/connection.h"
#include "snipara/sandbox.h"

/* Objects of a wait that a callback may free; then they are NULL. */
struct snp_library_wait {
    struct snipara *box;
    const struct snipara_call *call;
};

struct snipara {
    struct snp_connection connection;
    bool is_handling;              /* callbacks are running */
    bool is_closed;                /* by a callback: freed when they have returned */
    struct snp_library_wait *wait; /* of snipara_wait(), on its stack; NULL = none */
    pid_t pid;                     /* of the process that made it */
    struct snipara_call *first;    /* not freed yet */
    /*
     * The process of a run is also such a connection: it has the epoll descriptor of its root
     * (owned by that), which drives it, and is freed when the process is gone.
     */
    struct snipara *root; /* NULL = it is a root */
    struct snipara *runs; /* of a root: owned, oldest first */
    struct snipara *next_run;
    char run_id[40]; /* of its trajectory, once begun */
};

struct snipara_call {
    struct snipara *box; /* NULL = closed */
    struct snipara_call *prev;
    struct snipara_call *next;
    uint32_t id; /* of the open request; 0 = none */
    bool is_done;
    json_t *answer; /* owned; NULL = none */
    char *json;     /* owned, made on demand */
    struct snp_buf data;
    struct snp_err err; /* code SNP_OK = none */
    struct snipara_error error;
    void (*done)(void *ctx, struct snipara_call *call);
    void *done_ctx;
    /* Options of a cell, or of a run; their strings are no longer used. */
    struct snipara_cell cell;
    struct snipara_prompt prompt;
    /*
     * For a cell with a member that an older daemon refuses: the request without it. Owned; NULL =
     * none.
     */
    json_t *older;
    struct snp_buf older_raw;
    json_t *notes; /* owned; of a run without a callback for notes; NULL = none */
    /* An event of a run. A callback in it may free the call. */
    void (*event)(struct snipara_call *call, const json_t *head, const char *raw, size_t raw_len);
    /* Request the next part, after an answer; false = that was the last, or it has failed. */
    bool (*more)(struct snipara_call *call, json_t *answer, const char *raw, size_t raw_len);
    char *session; /* owned; of a transfer */
    char *path;    /* owned */
    size_t at;     /* bytes moved */
    size_t most;
    unsigned mode;
    bool is_raw; /* the caller wrote the request */
};

/* The public form of err, which stays borrowed. */
void snp_library_error(const struct snp_err *err, struct snipara_error *ret);

/* Copy the options in the caller's structure; missing ones are 0. */
void snp_library_take(void *ret, size_t ret_size, const void *given);

/* A call of box without a request; NULL = out of memory. */
struct snipara_call *snp_call_new(struct snipara *box);

/* Move it to another connection. */
void snp_call_move(struct snipara_call *call, struct snipara *box);

/*
 * Send its request. head: consumed; NULL = out of memory. A failure becomes the call's. Returns
 * call, which may be NULL.
 */
struct snipara_call *snp_call_ask(struct snipara_call *call,
                                  json_t *head,
                                  const void *raw,
                                  size_t raw_len);

/* End it with this failure. Returns call. */
struct snipara_call *snp_call_fail(struct snipara_call *call, const struct snp_err *err);

/* An unconnected connection; NULL = out of memory. */
struct snipara *snp_library_box_new(int epoll_fd);

/* The connection that drives a run's connection. */
static inline struct snipara *snp_library_root(struct snipara *box)
{
    return box->root == NULL ? box : box->root;
}

/* Begin to connect if needed. */
int snp_library_connect(struct snipara *box, struct snp_err *err) SNP_NODISCARD;

#endif
