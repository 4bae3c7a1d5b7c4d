/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_LIBRARY_LIBRARY_H
#define SNP_LIBRARY_LIBRARY_H

/* What a connection and a call of the library are made of. */

#include <sys/types.h>

#include "base/buf.h"
#include "client/calls.h"
#include "snipara/sandbox.h"

/* What a callback may free while it is waited for; then it is NULL here. */
struct snp_library_wait {
    struct snipara *box;
    const struct snipara_call *call;
};

struct snipara {
    struct snp_calls calls;
    int epoll_fd;    /* owned; watches the socket, whichever it is */
    uint32_t events; /* that it watches for */
    char *socket;    /* owned; NULL = that of the user's daemon */
    bool no_start;
    bool is_handling;              /* callbacks run */
    bool is_closed;                /* by one of them: it is freed when they have returned */
    struct snp_library_wait *wait; /* of snipara_wait(), on its stack; NULL = nobody waits */
    pid_t pid;                     /* of who made it */
    struct snipara_call *first;    /* not freed yet */
    /*
     * The process of a run is such a connection, too: with the epoll descriptor of its root, which
     * drives it, and freed when the process is gone.
     */
    struct snipara *root; /* NULL = it is one itself */
    struct snipara *runs; /* of a root: owned, in the order of their begin */
    struct snipara *next_run;
    char run_id[40]; /* of its trajectory, once that has begun */
};

struct snipara_call {
    struct snipara *box; /* NULL = closed */
    struct snipara_call *prev;
    struct snipara_call *next;
    uint32_t id; /* of the open request; 0 = none */
    bool is_done;
    json_t *answer; /* owned; NULL = none */
    char *json;     /* owned, made when it is asked for */
    struct snp_buf data;
    struct snp_err err; /* code SNP_OK = none */
    struct snipara_error error;
    void (*done)(void *ctx, struct snipara_call *call);
    void *done_ctx;
    /* Of a cell, or of a run; their strings are not looked at any more. */
    struct snipara_cell cell;
    struct snipara_prompt prompt;
    /*
     * Of a cell that an older daemon refuses because of a member: the same without it. Owned;
     * NULL = there is none.
     */
    json_t *older;
    struct snp_buf older_raw;
    json_t *notes; /* owned; of a run whose caller does not take them; NULL = none */
    /* An event of a run. A callback in it may free the call. */
    void (*event)(struct snipara_call *call, const json_t *head, const char *raw, size_t raw_len);
    /* Ask for the next part, after an answer; false = that was the last, or it has failed. */
    bool (*more)(struct snipara_call *call, json_t *answer, const char *raw, size_t raw_len);
    char *session; /* owned; of a transfer */
    char *path;    /* owned */
    size_t at;     /* bytes moved */
    size_t most;
    unsigned mode;
    bool is_raw; /* the request is the caller's own */
};

/* The public form of err, which stays borrowed. */
void snp_library_error(const struct snp_err *err, struct snipara_error *ret);

/* Copy the options that the caller's structure has; what it lacks is 0. */
void snp_library_take(void *ret, size_t ret_size, const void *given);

/* A call of box that asks for nothing yet; NULL = out of memory. */
struct snipara_call *snp_call_new(struct snipara *box);

/* Make it one of another connection. */
void snp_call_move(struct snipara_call *call, struct snipara *box);

/*
 * Ask. head: consumed; NULL = out of memory. A failure is the call's. Returns call, which may
 * be NULL.
 */
struct snipara_call *snp_call_ask(struct snipara_call *call,
                                  json_t *head,
                                  const void *raw,
                                  size_t raw_len);

/* End it with this failure. Returns call. */
struct snipara_call *snp_call_fail(struct snipara_call *call, const struct snp_err *err);

/* A connection without anybody at its other end; NULL = out of memory. */
struct snipara *snp_library_box_new(void);

/* The connection that a call of the process of a run is driven by. */
static inline struct snipara *snp_library_root(struct snipara *box)
{
    return box->root == NULL ? box : box->root;
}

/* fd: consumed, also on failure. */
int snp_library_watch(struct snipara *box, int fd, struct snp_err *err) SNP_NODISCARD;

/* Connect if need be. */
int snp_library_connect(struct snipara *box, struct snp_err *err) SNP_NODISCARD;

/* Send what can be sent; a failure ends the calls. */
void snp_library_push(struct snipara *box);

#endif
