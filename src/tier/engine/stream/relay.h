/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_STREAM_RELAY_H
#define SNP_TIER_ENGINE_STREAM_RELAY_H

/*
 * From one pipe into another, on the loop: what the code writes goes on to who reads it, while
 * the reader's pipe is never in the code's hands, so that whatever the code keeps open or
 * leaves undone, the reader meets the end of the stream.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

struct snp_relay;

enum snp_relay_end {
    SNP_RELAY_EOF = 0,  /* whoever wrote has closed it, or it was drained when asked to end */
    SNP_RELAY_STALLED,  /* nothing came for too long */
    SNP_RELAY_GONE,     /* the reader has gone */
    SNP_RELAY_TOO_MUCH, /* more than is allowed */
};

typedef void (*snp_relay_cb)(void *data, enum snp_relay_end end);

struct snp_relay_spec {
    uv_loop_t *loop;
    int in_fd;  /* a pipe's end to read from, from now on the relay's; -1 = a new pipe is made */
    int out_fd; /* stays the caller's, open until the relay is freed; becomes non-blocking */
    uint64_t stall_ms; /* without a byte, while the reader has room */
    uint64_t bytes_max;
    snp_relay_cb cb; /* runs once, from the loop */
    void *data;
};

/* *ret_in_fd is the end of a new pipe to write into, which the caller closes; else -1. */
int snp_relay_new(const struct snp_relay_spec *spec,
                  int *ret_in_fd,
                  struct snp_relay **ret,
                  struct snp_err *err) SNP_NODISCARD;

/* All was written that is to be: end when the pipe is empty, although somebody may hold it open. */
void snp_relay_finish(struct snp_relay *relay);

/* Stop; no callback follows. NULL is fine. */
void snp_relay_free(struct snp_relay *relay);

#endif
