/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/time_wait.h"

#include "daemon/co.h"

/* On the coroutine's stack until the timer is closed. */
struct time_wait {
    struct snp_await wait;
    uv_timer_t timer;
};

static void closed(uv_handle_t *timer)
{
    snp_await_ended(timer->data, NULL);
}

static void fired(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, closed);
}

int snp_time_await(uv_loop_t *loop, uint64_t ms, struct snp_err *err)
{
    struct time_wait time = {0};

    (void)uv_timer_init(loop, &time.timer);
    time.timer.data = &time.wait;
    (void)uv_timer_start(&time.timer, fired, ms, 0);
    return snp_await(&time.wait, NULL, err);
}
