/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_INSIDE_H
#define SNP_TIER_ENGINE_INSIDE_H

/* The streams of a sandbox: to pid 1, to the interpreter, and the output of both. */

#include "base/buf.h"
#include "base/err.h"
#include "tier/engine/sandbox.h"

struct snp_denial;
struct snp_frame;

/* Callbacks for what arrives on the streams; one table for each supervisor. */
struct snp_sandbox_events {
    void (*guest_frame)(struct snp_sandbox *s, const struct snp_frame *frame);
    void (*guest_end)(struct snp_sandbox *s, const struct snp_err *err);
    void (*output)(struct snp_sandbox *s, int stream, const char *bytes, size_t n);
    void (*exited)(struct snp_sandbox *s, uint32_t id, const char *raw); /* 21 bytes of an EXIT */
    void (*process_exited)(struct snp_sandbox *s, pid_t pid, int status);
    void (*memory)(struct snp_sandbox *s, uint64_t bytes, bool is_crowded);
    /* The sandbox's files exceed a limit that no file system enforces. */
    void (*disk)(struct snp_sandbox *s, enum snp_limit limit);
    void (*denial)(struct snp_sandbox *s, const struct snp_denial *denial);
    /* A copy that sweeps must spare exists, or has ended on its own; UINT32_MAX = a job. */
    void (*copy_came)(struct snp_sandbox *s, uint32_t number);
    void (*copy_gone)(struct snp_sandbox *s, uint32_t number);
    /* End the running cell at once and roll back to that snapshot. */
    void (*abandon)(struct snp_sandbox *s, uint32_t snapshot);
};

/* For a tier's open -------------------------------------------------------------------- */

/*
 * Make the output's pipes. owner may reopen them (0 = no change of owner); the caller closes
 * ret_fd.
 */
int snp_sandbox_new_output(struct snp_sandbox *s, uid_t owner, int ret_fd[2], struct snp_err *err)
    SNP_NODISCARD;

/*
 * One more pipe with that owner, for a stream of a detached process. *ret_ours does not block: the
 * end to write to, if it is an input. The caller closes both, also on failure.
 */
int snp_sandbox_new_pipe(const struct snp_sandbox *s,
                         bool is_input,
                         int *ret_ours,
                         int *ret_theirs,
                         struct snp_err *err) SNP_NODISCARD;

/* Make a new guest stream; *ret_fd is the interpreter's end (caller closes). */
int snp_sandbox_new_guest(struct snp_sandbox *s, int *ret_fd, struct snp_err *err) SNP_NODISCARD;

/* Begin to read from pid 1, behind init_fd (consumed, also on failure), and from the output. */
int snp_sandbox_connect(struct snp_sandbox *s, int init_fd, struct snp_err *err) SNP_NODISCARD;

/* For the engine -------------------------------------------------------------------------- */

/* A request to pid 1; borrowed. */
struct snp_init_request {
    uint8_t type; /* SNP_INIT_* */
    const void *raw;
    size_t n;
    int fd; /* passed to pid 1, or -1; stays the caller's */
};
#define SNP_ASK(type_, raw_, n_, fd_) \
    (&(const struct snp_init_request){.type = (type_), .raw = (raw_), .n = (n_), .fd = (fd_)})

/* Send a request to pid 1. cb runs once, with EPIPE if pid 1 ends first. */
void snp_sandbox_ask_init(struct snp_sandbox *s,
                          const struct snp_init_request *request,
                          snp_init_cb cb,
                          void *data);

/* A callback that ignores the answer. */
void snp_sandbox_ignore(void *data, int eno, const char *bytes, size_t n);

/*
 * Send a frame with head (taken) and fd (-1 = none) to the interpreter behind link. -1: not sent.
 */
int snp_guest_send(struct snp_link *link, const struct snp_frame *frame, json_t *head, int fd)
    SNP_NODISCARD;

/* Send a frame without a head to the session's interpreter. */
void snp_sandbox_send_guest(struct snp_sandbox *s, uint8_t type, const char *raw, size_t n);

/* Send a new interpreter the session's settings. */
void snp_sandbox_start_guest(struct snp_sandbox *s);

/* Drop the interpreter's stream, e.g. after a protocol error. */
void snp_sandbox_drop_interpreter(struct snp_sandbox *s);

/* Read the available output (bounded). */
void snp_sandbox_drain(struct snp_sandbox *s);

/* Close all streams; idempotent. Pending calls of pid 1 stay pending ... */
void snp_sandbox_disconnect(struct snp_sandbox *s);

/* ... until this fails them with EPIPE. */
void snp_sandbox_fail_calls(struct snp_sandbox *s);

#endif
