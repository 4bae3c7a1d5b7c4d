/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_STREAM_HANDLE_H
#define SNP_TIER_ENGINE_STREAM_HANDLE_H

/* Handles of the loop, allocated separately because they outlive their owner by one iteration. */

#include <uv.h>

/* A timer that is not started; NULL: out of memory. */
uv_timer_t *snp_timer_new(uv_loop_t *loop, void *data);

/* A poll handle for fd, not started; NULL: out of memory, or fd cannot be polled. */
uv_poll_t *snp_poll_new(uv_loop_t *loop, int fd, void *data);

/*
 * handle: address of a pointer to one, which becomes NULL; NULL there is fine. No callback follows.
 */
void snp_handle_close(void *handle);

#endif
