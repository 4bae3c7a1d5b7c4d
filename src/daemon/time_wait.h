/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_TIME_WAIT_H
#define SNP_DAEMON_TIME_WAIT_H

#include <stdint.h>
#include <uv.h>

#include "base/err.h"

/* In a coroutine: wait for so many milliseconds. */
int snp_time_await(uv_loop_t *loop, uint64_t ms, struct snp_err *err) SNP_NODISCARD;

#endif
