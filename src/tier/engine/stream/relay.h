/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_STREAM_RELAY_H
#define SNP_TIER_ENGINE_STREAM_RELAY_H

/*
 * Copies one pipe to another, on the loop: the code's output goes to a reader whose pipe the code
 * never holds. The reader thus gets an end of stream even if the code leaves its pipe open.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

struct snp_relay;

enum snp_relay_end {
    SNP_RELAY_EOF = 0,  /* the writer closed it, or it was drained after finish */
    SNP_RELAY_STALLED,  /* no data for too long */
    SNP_RELAY_GONE,     /* the reader has closed */
    SNP_RELAY_TOO_MUCH, /* above the limit */
};

typedef void (*snp_relay_cb)(void *data, enum snp_relay_end end);

struct snp_relay_spec {
    uv_loop_t *loop;
    int in_fd;         /* a pipe to read from, taken by the relay; -1 = make a new pipe */
    int out_fd;        /* stays the caller's, open until the relay is freed; becomes non-blocking */
    uint64_t stall_ms; /* without data, while the reader has room */
    uint64_t bytes_max;
    snp_relay_cb cb; /* runs once, from the loop */
    void *data;
};

/* *ret_in_fd is the end of a new pipe to write into, which the caller closes; else -1. */
int snp_relay_new(const struct snp_relay_spec *spec,
                  int *ret_in_fd,
                  struct snp_relay **ret,
                  struct snp_err *err) SNP_NODISCARD;

/* All data is written: end when the pipe is empty, even if a process holds it open. */
void snp_relay_finish(struct snp_relay *relay);

/* Stop; no callback follows. NULL is fine. */
void snp_relay_free(struct snp_relay *relay);

#endif
