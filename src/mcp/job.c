/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs, and the tools that ask about them. A job lives as long as the server, not longer. */
#include "mcp/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/text.h"
#include "mcp/caps.h"
#include "mcp/task.h"

enum {
    OUTPUT_SHOWN = 2000, /* characters of what a running job has printed */
    OUTPUT_BYTES = 64 << 10,
    OUTPUT_CLEAN = 8 * OUTPUT_BYTES,
};

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

struct snp_job *snp_job_new(struct snp_mcp_sandboxes *service, struct snp_task *task)
{
    struct snp_job **at = &service->jobs;
    struct snp_job *job;

    if (service->n_jobs >= SNP_MCP_JOBS_MAX) {
        struct snp_job *old = service->jobs;

        while (old != NULL && old->task != NULL) {
            old = old->next;
        }
        if (old == NULL) {
            return NULL;
        }
        job_free(service, old);
    }
    job = calloc(1, sizeof(*job));
    if (job == NULL || snp_random_id(job->id) < 0) {
        free(job);
        return NULL;
    }
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

/* Tools ------------------------------------------------------------------------------------- */

static struct snp_job *job_of(struct snp_task *task)
{
    const char *id = snp_task_arg(task, "job_id", "");
    struct snp_job *job = snp_job_find(task->service, id);
    struct snp_err err;

    if (job == NULL) {
        (void)snp_fail(&err, SNP_E_NOT_FOUND,
                       "there is no job '%.40s': jobs end with the server, and of %d the "
                       "oldest ended one goes",
                       id, SNP_MCP_JOBS_MAX);
        snp_task_fail(task, &err);
    }
    return job;
}

static void say_running(struct snp_task *task, const struct snp_job *job)
{
    const struct snp_cell_stream *stream = &job->task->cell.stream[SNP_CELL_STDOUT];
    snp_autobuf struct snp_buf output = {0};
    size_t n = stream->text.len < OUTPUT_BYTES ? stream->text.len : OUTPUT_BYTES;
    const char *bytes = n == 0 ? "" : snp_buf_bytes(&stream->text) + stream->text.len - n;
    const char *status = job->task->state == SNP_TASK_WAITING ? "waiting" : "running";
    json_int_t seconds = (json_int_t)((snp_now_us() - job->started_us) / 1000000);

    snp_buf_init(&output, OUTPUT_CLEAN);
    if (snp_text_add(&output, bytes, n, OUTPUT_SHOWN, NULL) < 0) {
        snp_task_end(task, NULL);
        return;
    }
    snp_task_end(
        task,
        json_pack("{s:[{s:s, s:o}], s:{s:s, s:s, s:I, s:o}}", "content", "type", "text", "text",
                  json_sprintf("Job %s is %s, since %lld s%s%s", job->id, status,
                               (long long)seconds, output.len == 0 ? "" : "\n[stdout so far]\n",
                               output.len == 0 ? "" : snp_buf_cstr(&output)),
                  "structuredContent", "status", status, "job_id", job->id, "elapsed_s",
                  seconds, "stdout", snp_text_json(&output)));
}

void snp_tool_job_poll(struct snp_task *task)
{
    struct snp_job *job = job_of(task);

    if (job == NULL) {
        return;
    }
    if (job->task != NULL) {
        say_running(task, job);
    } else if (job->result == NULL) {
        snp_task_sayf(task, true, "Error: out of memory for the result of job %s", job->id);
    } else {
        snp_task_end(task, json_deep_copy(job->result));
    }
}

void snp_tool_job_cancel(struct snp_task *task)
{
    struct snp_job *job = job_of(task);
    char id[sizeof(job->id)];

    if (job == NULL) {
        return;
    }
    memcpy(id, job->id, sizeof(id));
    if (job->task == NULL) {
        snp_task_sayf(task, false, "Job %s had ended already", id);
        return;
    }
    snp_task_cancel(job->task);
    snp_task_sayf(task, false, "Job %s is being cancelled; job_poll shows what it printed", id);
}
