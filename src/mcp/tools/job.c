/* SPDX-License-Identifier: Apache-2.0 */
/* Tools for jobs. */
#include "mcp/server/job.h"

#include <string.h>

#include "base/str.h"
#include "base/text/text.h"
#include "mcp/caps.h"
#include "mcp/server/task.h"
#include "mcp/server/wait.h"

enum {
    OUT_SHOWN = 6000, /* characters of a running job's output since the last report */
    ERR_SHOWN = 1500,
    TEXT_MAX = 1 << 20,
};

/* NULL: none, and the task has ended. */
static struct snp_job *job_of(struct snp_task *task)
{
    const char *id = snp_task_arg(task, "job_id", "");
    struct snp_job *job = snp_job_find(task->service, id);

    if (job == NULL) {
        snp_task_failf(task, SNP_E_NOT_FOUND,
                       "no job '%.40s': this server has started %llu (job-1, job-2, ...), and "
                       "keeps the last %d until it ends",
                       id, (unsigned long long)task->service->last_job, SNP_MCP_JOBS_MAX);
    }
    return job;
}

/* Bytes of a stream up to the end of its last line, or of text that a progress bar overwrote. */
static size_t lines_length(const struct snp_cell_stream *stream)
{
    const char *bytes = stream->text.len == 0 ? "" : snp_buf_bytes(&stream->text);
    size_t n = stream->text.len;

    while (n > stream->told && bytes[n - 1] != '\n' && bytes[n - 1] != '\r') {
        n--;
    }
    return n;
}

/* Whether it has ended, or printed a whole line since the last look. */
static bool has_news(const struct snp_job *job)
{
    const struct snp_cell_stream *stream = job->task == NULL ? NULL : job->task->cell.stream;

    return stream == NULL ||
           lines_length(&stream[SNP_CELL_STDOUT]) > stream[SNP_CELL_STDOUT].told ||
           lines_length(&stream[SNP_CELL_STDERR]) > stream[SNP_CELL_STDERR].told;
}

/*
 * Take the output of a stream since the last look, and mark it as reported. If there are whole
 * lines an unfinished one is left for the next time. New reference.
 */
static json_t *news_take(struct snp_cell_stream *stream, size_t max, int *ret)
{
    snp_autobuf struct snp_buf shown = SNP_BUF(TEXT_MAX);
    size_t n = lines_length(stream);
    bool is_cut = false;

    if (n <= stream->told) {
        n = stream->text.len;
        n -= n == 0 ? 0 : snp_utf8_begun(snp_buf_bytes(&stream->text), n);
    }
    *ret = *ret < 0 ? *ret : snp_cell_news(stream, n, max, &shown, &is_cut);
    stream->was_cut = stream->was_cut || is_cut;
    stream->told = n > stream->told ? n : stream->told;
    return snp_text_json(&shown);
}

static void say_running(struct snp_task *task, const struct snp_job *job)
{
    struct snp_mcp_cell *cell = &job->task->cell;
    const char *status = job->task->state == SNP_TASK_WAITING ? "waiting" : "running";
    snp_autosay struct snp_say text = SNP_SAY(TEXT_MAX);
    snp_autojson json_t *out = news_take(&cell->stream[SNP_CELL_STDOUT], OUT_SHOWN, &text.r);
    snp_autojson json_t *err = news_take(&cell->stream[SNP_CELL_STDERR], ERR_SHOWN, &text.r);
    char name[64];

    snp_job_text(job, name, sizeof(name));
    snp_cell_labelled(&text, "[stdout]\n", out);
    snp_cell_labelled(&text, "[stderr]\n", err);
    snp_say(&text,
            "[job] %s is %s%s; SniparaSandbox.job_poll(job_id=\"%s\", wait=30) waits for more",
            name, status, text.buf.len == 0 ? ", nothing new was printed" : "", job->id);
    snp_task_end(task, text.r < 0 ? NULL
                                  : json_pack("{s:[{s:s, s:o}], s:{s:s, s:s, s:O, s:O}}", "content",
                                              "type", "text", "text", snp_text_json(&text.buf),
                                              "structuredContent", "status", status, "job_id",
                                              job->id, "stdout", out, "stderr", err));
}

static void say(struct snp_task *task)
{
    struct snp_job *job = job_of(task);

    if (job == NULL) {
        return;
    }
    if (job->task != NULL) {
        say_running(task, job);
    } else if (job->result == NULL) {
        snp_task_sayf(task, true, "Error: out of memory for the result of %s", job->id);
    } else {
        snp_task_end(task, json_deep_copy(job->result));
    }
}

static bool is_told(const struct snp_task *task, const char *what)
{
    const struct snp_job *job = snp_job_find(task->service, what);

    return job == NULL || has_news(job);
}

static void on_waited(struct snp_task *task, const char *what, bool is_over)
{
    (void)what;
    (void)is_over;
    say(task);
}

void snp_tool_job_poll(struct snp_task *task)
{
    int64_t wait_s = snp_json_int(task->args, "wait", 0);
    struct snp_job *job = job_of(task);
    struct snp_wait_spec spec = {.is_over = is_told, .done = on_waited};
    struct snp_err err;

    if (job == NULL) {
        return;
    }
    if (wait_s <= 0 || has_news(job)) {
        say(task);
        return;
    }
    spec.ms = 1000 * (uint64_t)(wait_s < SNP_MCP_WAIT_S ? wait_s : SNP_MCP_WAIT_S);
    spec.what = strdup(job->id);
    if (snp_wait(task, &spec, &err) < 0) {
        snp_task_fail(task, &err);
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
        snp_task_sayf(task, false, "%s had already ended", id);
        return;
    }
    snp_task_cancel(job->task);
    snp_task_sayf(
        task, false,
        "Stopping %s; SniparaSandbox.job_poll(job_id=\"%s\", wait=10) shows what it printed", id,
        id);
}
