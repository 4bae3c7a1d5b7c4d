/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for the end of runs: a look at the lock of the record, again and again. */
#include "mcp/agent_wait.h"

#include <stdlib.h>

#include "base/clock.h"
#include "mcp/agent_record.h"
#include "mcp/caps.h"

struct snp_agent_wait {
    struct snp_mcp_sandboxes *service;
    struct snp_task *task;
    char *path; /* owned */
    uint64_t until_us;
    snp_agent_waited waited;
    uv_timer_t timer;
    struct snp_agent_wait *next;
};

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void wait_free(struct snp_agent_wait *wait)
{
    struct snp_agent_wait **at = &wait->service->agent_waits;

    while (*at != wait) {
        at = &(*at)->next;
    }
    *at = wait->next;
    free(wait->path);
    uv_close((uv_handle_t *)&wait->timer, on_closed);
}

static void on_look(uv_timer_t *timer)
{
    struct snp_agent_wait *wait = timer->data;
    struct snp_task *task = wait->task;
    bool is_over = !snp_agent_record_is_open(wait->path);

    if (task->call == NULL) { /* cancelled: nobody wants to know */
        wait_free(wait);
        snp_task_end(task, NULL);
    } else if (is_over || snp_now_us() >= wait->until_us) {
        wait->waited(task, wait->path, is_over);
        wait_free(wait);
    }
}

int snp_agent_wait(struct snp_task *task,
                   char *path,
                   uint64_t wait_ms,
                   snp_agent_waited waited,
                   struct snp_err *err)
{
    struct snp_agent_wait *wait = calloc(1, sizeof(*wait));

    if (wait == NULL) {
        free(path);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    wait->service = task->service;
    wait->task = task;
    wait->path = path;
    wait->until_us = snp_now_us() + wait_ms * 1000;
    wait->waited = waited;
    wait->next = task->service->agent_waits;
    task->service->agent_waits = wait;
    (void)uv_timer_init(task->service->loop, &wait->timer);
    wait->timer.data = wait;
    (void)uv_timer_start(&wait->timer, on_look, 0, SNP_MCP_AGENT_LOOK_MS);
    return 0;
}

void snp_agent_waits_drop(struct snp_mcp_sandboxes *service)
{
    while (service->agent_waits != NULL) {
        wait_free(service->agent_waits);
    }
}
