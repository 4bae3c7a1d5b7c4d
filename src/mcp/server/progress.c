/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of tasks: one clean line for people, and whole lines of output for programs. */
#include "mcp/server/progress.h"

#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/text/text.h"
#include "mcp/server/task_record.h"

enum {
    LINE_SHOWN = 160,  /* characters of output in a line of progress */
    LINE_BYTES = 512,  /* searched for it */
    PART_SHOWN = 4000, /* characters of one stream in one notification */
    PART_BUILD = 8 * (SNP_CELL_STREAM_MAX + 1),
};

/* The end of the last complete line, or of text that a progress bar overwrote; NULL: none. */
static const char *last_line(const char *text, size_t n)
{
    while (n > 0 && text[n - 1] != '\n' && text[n - 1] != '\r') {
        n--;
    }
    return n == 0 ? NULL : text + n - 1;
}

/* "running for 4 s; output: the last line" */
static void on_describe(struct snp_mcp_call *call, struct snp_buf *out)
{
    const struct snp_task *task = call->state;
    const struct snp_buf *text = &task->cell.stream[SNP_CELL_STDOUT].text;
    size_t n = text->len < LINE_BYTES ? text->len : LINE_BYTES;
    const char *tail;
    const char *line;

    if (task->state == SNP_TASK_WAITING) {
        (void)!snp_buf_adds(out, "waiting for an earlier call of this session");
        return;
    }
    (void)!snp_buf_addf(out, "running for %llu s",
                        (unsigned long long)((snp_now_us() - task->started_us) / 1000000));
    if (n == 0) {
        return;
    }
    tail = snp_buf_bytes(text) + text->len - n;
    while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == '\r')) {
        n--;
    }
    line = n == 0 ? NULL : last_line(tail, n);
    if (line != NULL) {
        n -= (size_t)(line + 1 - tail);
        tail = line + 1;
    }
    if (n > 0 && snp_buf_adds(out, "; output: ") == 0) {
        (void)!snp_text_line(out, tail, n, LINE_SHOWN);
    }
}

/* Whole lines printed since the last call; NULL: none. New reference. */
static json_t *part_take(struct snp_task *task, int stream)
{
    const struct snp_buf *text = &task->cell.stream[stream].text;
    size_t *told = &task->told[stream];
    snp_autobuf struct snp_buf shown = SNP_BUF(PART_BUILD);
    const char *from;
    const char *end;
    size_t n;

    if (text->len <= *told) {
        return NULL;
    }
    from = snp_buf_bytes(text) + *told;
    end = memrchr(from, '\n', text->len - *told);
    if (end == NULL) {
        return NULL;
    }
    n = (size_t)(end + 1 - from);
    *told += n;
    return snp_text_add(&shown, from, n, PART_SHOWN, NULL) < 0 ? NULL : snp_text_json(&shown);
}

static json_t *on_accompany(struct snp_mcp_call *call)
{
    struct snp_task *task = call->state;
    json_t *out = part_take(task, SNP_CELL_STDOUT);
    json_t *err = part_take(task, SNP_CELL_STDERR);

    return out == NULL && err == NULL
               ? NULL
               : json_pack("{s:{s:o*, s:o*}}", SNP_MCP_META_OUTPUT, "stdout", out, "stderr", err);
}

void snp_progress_bind(struct snp_mcp_call *call)
{
    const json_t *meta = json_object_get(call->params, "_meta");

    call->describe = on_describe;
    call->accompany = snp_json_bool(meta, SNP_MCP_META_OUTPUT, false) ? on_accompany : NULL;
}
