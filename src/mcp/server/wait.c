/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting, with a timer for each call. */
#include "mcp/server/wait.h"

#include <stdlib.h>

#include "base/clock.h"
#include "mcp/caps.h"

struct snp_wait {
    struct snp_mcp_sandboxes *service;
    struct snp_task *task;
    struct snp_wait_spec spec;
    uint64_t until_us;
    uv_timer_t timer;
    struct snp_wait *next;
};

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void wait_free(struct snp_wait *wait)
{
    struct snp_wait **at = &wait->service->waits;

    while (*at != wait) {
        at = &(*at)->next;
    }
    *at = wait->next;
    free(wait->spec.what);
    uv_close((uv_handle_t *)&wait->timer, on_closed);
}

static void on_look(uv_timer_t *timer)
{
    struct snp_wait *wait = timer->data;
    struct snp_task *task = wait->task;
    bool is_over = task->call != NULL && wait->spec.is_over(task, wait->spec.what);

    if (task->call == NULL) { /* cancelled: no recipient */
        wait_free(wait);
        snp_task_end(task, NULL);
    } else if (is_over || snp_now_us() >= wait->until_us) {
        wait->spec.done(task, wait->spec.what, is_over);
        wait_free(wait);
    }
}

int snp_wait(struct snp_task *task, const struct snp_wait_spec *spec, struct snp_err *err)
{
    struct snp_wait *wait = calloc(1, sizeof(*wait));

    if (wait == NULL) {
        free(spec->what);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    wait->service = task->service;
    wait->task = task;
    wait->spec = *spec;
    wait->until_us = snp_now_us() + spec->ms * 1000;
    wait->next = task->service->waits;
    task->service->waits = wait;
    (void)uv_timer_init(task->service->loop, &wait->timer);
    wait->timer.data = wait;
    (void)uv_timer_start(&wait->timer, on_look, 0, SNP_MCP_WAIT_LOOK_MS);
    return 0;
}

void snp_waits_drop(struct snp_mcp_sandboxes *service)
{
    while (service->waits != NULL) {
        wait_free(service->waits);
    }
}
