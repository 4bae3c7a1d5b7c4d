/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SERVE_CALLER_H
#define SNP_BASE_CLI_SERVE_CALLER_H

/*
 * The program that started a run, if not a terminal: it speaks the client protocol with the methods
 * of base/wire/run.h over a socket. Sending waits until the other side reads, but at most for the
 * run's remaining time: unsent data is sent with later data. Receiving does not wait.
 */

#include "base/buf.h"
#include "base/cli/cli.h"
#include "base/wire/run.h"

struct snp_frame;

struct snp_caller {
    struct snp_cli_listener listener; /* for struct snp_cli */
    int fd;                           /* owned */
    bool is_gone;
    struct snp_buf in;
    struct snp_buf out;
    uint32_t id;     /* of the request, which is answered once */
    json_t *head;    /* owned: the request */
    json_t *refusal; /* owned: the reply to all requests; NULL = the version matches */
    char *prompt;    /* owned; the raw part of the request */
    bool is_begun;   /* the start of the record was reported */
    bool is_answered;
    /* borrowed from head; for `settings` only the members of both */
    struct snp_run_request request;
    bool is_settings;
    const json_t *command; /* borrowed from head: words; NULL = another request */
    /* The longest wait for sending an event; NULL: unlimited. */
    int64_t (*left_ms)(void *ctx);
    void *left_ctx;
};

/* The program that started the process, as listener of cli; NULL = a user. */
struct snp_caller *snp_caller_of(const struct snp_cli *cli);

/* fd: consumed. */
void snp_caller_init(struct snp_caller *caller, int fd);
void snp_caller_done(struct snp_caller *caller);

/* Wait for the request. SNP_E_PEER: the other side disconnected; else it got the error. */
int snp_caller_open(struct snp_caller *caller, struct snp_err *err) SNP_NODISCARD;

/* Store the request that this process serves, as snp_caller_open() does. */
void snp_caller_begin(
    struct snp_caller *caller, uint32_t id, json_t *head, const char *prompt, size_t n);

/* Further requests. */
struct snp_caller_ops {
    void (*interrupt)(void *ctx);
    /* False: no such pending call. */
    bool (*answer)(void *ctx, uint64_t call, bool ok, const char *bytes, size_t n);
    void *ctx;
};

/* Handle received data. False: the other side disconnected. */
bool snp_caller_receive(struct snp_caller *caller, const struct snp_caller_ops *ops);

/* Send an event; head: of SNP_WRITE, consumed. Dropped if the other side is gone. */
void snp_caller_event(struct snp_caller *caller, json_t *head, const char *raw, size_t raw_len);
/* Send a record of the trajectory with this id, beginning with the first. */
void snp_caller_record(struct snp_caller *caller, const char *id, const json_t *record);
void snp_caller_text(struct snp_caller *caller, const char *text, size_t n);

/* End with the result, or with an error. */
void snp_caller_end(struct snp_caller *caller, const json_t *result);
void snp_caller_fail(struct snp_caller *caller, const struct snp_err *err);

#endif
