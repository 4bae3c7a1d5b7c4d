/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs. They do not outlive the server. */
#include "mcp/server/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mcp/caps.h"

static void job_free(struct snp_mcp_sandboxes *service, struct snp_job *job)
{
    struct snp_job **at = &service->jobs;

    while (*at != job) {
        at = &(*at)->next;
    }
    *at = job->next;
    service->n_jobs--;
    json_decref(job->result);
    free(job);
}

/* The oldest ended job, and the number of running ones. */
static struct snp_job *oldest_ended(const struct snp_mcp_sandboxes *service, size_t *ret_running)
{
    struct snp_job *oldest = NULL;

    *ret_running = 0;
    for (struct snp_job *job = service->jobs; job != NULL; job = job->next) {
        *ret_running += job->task != NULL ? 1 : 0;
        oldest = oldest == NULL && job->task == NULL ? job : oldest;
    }
    return oldest;
}

struct snp_job *snp_job_new(struct snp_mcp_sandboxes *service, struct snp_task *task)
{
    struct snp_job **at = &service->jobs;
    size_t n_running;
    struct snp_job *old = oldest_ended(service, &n_running);
    struct snp_job *job = calloc(1, sizeof(*job));

    if (job == NULL || n_running >= SNP_MCP_JOBS_RUNNING_MAX) {
        free(job);
        return NULL;
    }
    if (service->n_jobs >= SNP_MCP_JOBS_MAX && old != NULL) {
        job_free(service, old);
    }
    (void)snprintf(job->id, sizeof(job->id), "job-%llu", (unsigned long long)++service->last_job);
    job->task = task;
    job->started_us = snp_now_us();
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = job;
    service->n_jobs++;
    return job;
}

struct snp_job *snp_job_find(const struct snp_mcp_sandboxes *service, const char *id)
{
    struct snp_job *job = service->jobs;

    while (job != NULL && strcmp(job->id, id) != 0) {
        job = job->next;
    }
    return job;
}

void snp_jobs_done(struct snp_mcp_sandboxes *service)
{
    while (service->jobs != NULL) {
        job_free(service, service->jobs);
    }
}

void snp_job_text(const struct snp_job *job, char *text, size_t size)
{
    (void)snprintf(text, size, "%s (%llu s)", job->id,
                   (unsigned long long)((snp_now_us() - job->started_us) / 1000000));
}

void snp_job_end(struct snp_job *job, bool is_cancelled, json_t *result)
{
    json_t *part = json_array_get(json_object_get(result, "content"), 0);
    const char *text = snp_json_str(part, "text", NULL);

    job->is_cancelled = is_cancelled;
    job->task = NULL;
    job->result = result;
    if (text != NULL) {
        (void)json_object_set_new(
            part, "text",
            json_sprintf("%s\n[job] %s ended after %llu s", text, job->id,
                         (unsigned long long)((snp_now_us() - job->started_us) / 1000000)));
    }
}
