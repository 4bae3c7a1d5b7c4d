/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_INSIDE_H
#define SNP_TIER_ENGINE_INSIDE_H

/* The streams of a sandbox: of pid 1, of the interpreter, and the output of both. */

#include "base/buf.h"
#include "base/err.h"
#include "tier/engine/sandbox.h"

struct snp_denial;
struct snp_frame;

/* What the streams bring, for the parts above; one table for a supervisor. */
struct snp_sandbox_events {
    void (*guest_frame)(struct snp_sandbox *s, const struct snp_frame *frame);
    void (*guest_end)(struct snp_sandbox *s, const struct snp_err *err);
    void (*output)(struct snp_sandbox *s, int stream, const char *bytes, size_t n);
    void (*exited)(struct snp_sandbox *s, uint32_t id, const char *raw); /* 21 bytes of an EXIT */
    void (*memory)(struct snp_sandbox *s, uint64_t bytes);
    /* Its files passed a limit that no file system holds. */
    void (*disk)(struct snp_sandbox *s, enum snp_limit limit);
    void (*denial)(struct snp_sandbox *s, const struct snp_denial *denial);
    /* A copy is there, which a sweep spares, or has gone by itself; UINT32_MAX = a job. */
    void (*copy_came)(struct snp_sandbox *s, uint32_t number);
    void (*copy_gone)(struct snp_sandbox *s, uint32_t number);
    /* The running cell is to be ended at once, and to go back to that snapshot. */
    void (*abandon)(struct snp_sandbox *s, uint32_t snapshot);
};

/* For a tier's open -------------------------------------------------------------------- */

/*
 * Make the output's pipes, which owner may open again (0 = anybody who could); the caller
 * closes ret_fd.
 */
int snp_sandbox_new_output(struct snp_sandbox *s, uid_t owner, int ret_fd[2], struct snp_err *err)
    SNP_NODISCARD;

/* Make a new guest stream; *ret_fd is the interpreter's end (caller closes). */
int snp_sandbox_new_guest(struct snp_sandbox *s, int *ret_fd, struct snp_err *err) SNP_NODISCARD;

/* Pid 1 is behind init_fd (consumed, also on failure): begin to listen to it and to the output. */
int snp_sandbox_connect(struct snp_sandbox *s, int init_fd, struct snp_err *err) SNP_NODISCARD;

/* For the engine -------------------------------------------------------------------------- */

/* What pid 1 is asked; borrowed. */
struct snp_init_request {
    uint8_t type; /* SNP_INIT_* */
    const void *raw;
    size_t n;
    int fd; /* passed along, or -1; stays the caller's */
};
#define SNP_ASK(type_, raw_, n_, fd_) \
    (&(const struct snp_init_request){.type = (type_), .raw = (raw_), .n = (n_), .fd = (fd_)})

/* Ask pid 1. cb runs once, with EPIPE when it goes away first. */
void snp_sandbox_ask_init(struct snp_sandbox *s,
                          const struct snp_init_request *request,
                          snp_init_cb cb,
                          void *data);

/* A callback for who does not care. */
void snp_sandbox_ignore(void *data, int eno, const char *bytes, size_t n);

/*
 * A frame to the interpreter behind link, with head (taken) and fd (-1 = none). -1: it could not
 * be sent.
 */
int snp_guest_send(struct snp_link *link, const struct snp_frame *frame, json_t *head, int fd)
    SNP_NODISCARD;

/* A frame without a head to the session's own. */
void snp_sandbox_send_guest(struct snp_sandbox *s, uint8_t type, const char *raw, size_t n);

/* Send the guest what makes an interpreter this session's; for each new one. */
void snp_sandbox_start_guest(struct snp_sandbox *s);

/* Drop the interpreter's stream, e.g. after it broke the protocol. */
void snp_sandbox_drop_interpreter(struct snp_sandbox *s);

/* Read what is in the output pipes now (bounded). */
void snp_sandbox_drain(struct snp_sandbox *s);

/* Close all streams; idempotent. Calls of pid 1 are not answered by that ... */
void snp_sandbox_disconnect(struct snp_sandbox *s);

/* ... but by this, with EPIPE. */
void snp_sandbox_fail_calls(struct snp_sandbox *s);

#endif
