/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetching, a chunk at a time. A first answer "not found" may mean the session: then an empty cell
 * opens it, and the request is repeated once.
 */
#include "mcp/server/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/wire/file.h"
#include "base/wire/rpc.h"
#include "base/wire/session.h"
#include "mcp/caps.h"
#include "mcp/server/task.h"

enum {
    OPEN_MS = 20 * 1000,
};

static void fetch_done(struct snp_fetch *fetch)
{
    free(fetch->handle);
    free(fetch->path);
    *fetch = (struct snp_fetch){0};
}

static void again_done(struct snp_again *again)
{
    json_decref(again->head);
    snp_buf_done(&again->raw);
    *again = (struct snp_again){0};
}

/* Questions about a session ------------------------------------------------------------------ */

static void on_opened(struct snp_task *task, json_t *head)
{
    struct snp_again *again = &task->again;

    (void)head;
    snp_task_send(task, SNP_TAKE_PTR(again->head),
                  again->raw.len == 0 ? NULL : snp_buf_bytes(&again->raw), again->raw.len,
                  again->next, NULL);
}

/* The session exists, so the first answer was about its content. */
static void on_shown(struct snp_task *task, json_t *head)
{
    (void)head;
    snp_task_fail(task, &task->refusal);
}

static void on_not_shown(struct snp_task *task, const struct snp_err *err)
{
    const struct snp_cell_spec nothing = {.code = "", .wall_ms = OPEN_MS};

    if (err->code == SNP_E_NOT_FOUND && !task->is_cancelled) {
        snp_task_run_cell(task, &nothing, on_opened, NULL);
    } else {
        snp_task_fail(task, &task->refusal);
    }
}

static void on_missing(struct snp_task *task, const struct snp_err *err)
{
    bool is_missing = err->code == SNP_E_NOT_FOUND || err->code == SNP_E_SYS;

    if (!is_missing || task->is_cancelled || task->fetch.was_opened) {
        snp_task_fail(task, err);
        return;
    }
    task->fetch.was_opened = true;
    task->refusal = *err;
    /* A cell would wait for the running one. */
    snp_task_ask(task, SNP_WRITE(snp_sessions_show_request, .session = task->session), on_shown,
                 on_not_shown);
}

void snp_session_ask(
    struct snp_task *task, json_t *head, const void *raw, size_t raw_len, snp_task_next next)
{
    struct snp_again *again = &task->again;

    again_done(again);
    again->next = next;
    again->head = json_copy(head);
    snp_buf_init(&again->raw, SNP_FILE_CHUNK_MAX);
    if (snp_buf_add(&again->raw, raw, raw_len) < 0) {
        json_decref(head);
        snp_task_end(task, NULL);
        return;
    }
    snp_task_send(task, head, raw, raw_len, next, on_missing);
}

/* Chunks -------------------------------------------------------------------------------------- */

static void chunk_ask(struct snp_task *task);

static void on_chunk(struct snp_task *task, json_t *head)
{
    struct snp_fetch *fetch = &task->fetch;

    fetch->size = (uint64_t)snp_json_int(head, "size", 0);
    fetch->is_end = snp_json_bool(head, "eof", true);
    if (snp_buf_add(&task->work, task->raw, task->raw_len) < 0) {
        snp_task_end(task, NULL);
    } else if (fetch->is_end || task->raw_len == 0 || task->work.len >= fetch->want ||
               task->is_cancelled) {
        fetch->done(task);
    } else {
        chunk_ask(task);
    }
}

static void chunk_ask(struct snp_task *task)
{
    struct snp_fetch *fetch = &task->fetch;
    uint64_t left = fetch->want - task->work.len;
    uint64_t at = fetch->from + task->work.len;

    left = left < SNP_FILE_CHUNK_MAX ? left : SNP_FILE_CHUNK_MAX;
    if (fetch->handle == NULL) {
        snp_session_ask(task,
                        SNP_WRITE(snp_get_request, .session = task->session, .path = fetch->path,
                                  .offset = at, .length = left),
                        NULL, 0, on_chunk);
    } else {
        snp_task_ask(task,
                     SNP_WRITE(snp_output_request, .handle = fetch->handle, .stream = fetch->path,
                               .offset = at, .length = left),
                     on_chunk, fetch->failed);
    }
}

static void kept_take(struct snp_task *task, const char *number_text)
{
    struct snp_fetch *fetch = &task->fetch;
    const struct snp_mcp_kept_item *item = NULL;
    uint64_t number = 0;
    uint64_t n;

    if (snp_parse_u64(number_text, &number) == 0) {
        item = snp_mcp_kept_find(&task->service->kept, number);
    }
    if (item == NULL) {
        snp_task_failf(task, SNP_E_NOT_FOUND,
                       "kept:%.32s is gone: the server keeps the last %d MiB, as long as it runs",
                       number_text, SNP_MCP_KEPT_MAX >> 20);
        return;
    }
    fetch->size = item->n;
    n = fetch->from >= item->n ? 0 : item->n - fetch->from;
    n = n < fetch->want ? n : fetch->want;
    fetch->is_end = fetch->from + n >= item->n;
    if (snp_buf_add(&task->work, n == 0 ? NULL : item->bytes + fetch->from, (size_t)n) < 0) {
        snp_task_end(task, NULL);
    } else {
        fetch->done(task);
    }
}

void snp_fetch_start(struct snp_task *task,
                     const char *path,
                     uint64_t from,
                     uint64_t want,
                     void (*done)(struct snp_task *task),
                     snp_task_failed failed)
{
    struct snp_fetch *fetch = &task->fetch;
    const char *stream = strrchr(path, ':');

    fetch_done(fetch);
    snp_buf_clear(&task->work);
    *fetch = (struct snp_fetch){.from = from, .want = want, .done = done, .failed = failed};
    if (snp_has_prefix(path, "kept:")) {
        kept_take(task, path + strlen("kept:"));
        return;
    }
    if (snp_has_prefix(path, "output:") && stream != NULL && stream > path + strlen("output:")) {
        const char *handle = path + strlen("output:");

        fetch->handle = strndup(handle, (size_t)(stream - handle));
        fetch->path = fetch->handle == NULL ? NULL : strdup(stream + 1);
    } else {
        fetch->path = strdup(path);
    }
    if (fetch->path == NULL) {
        snp_task_end(task, NULL);
        return;
    }
    chunk_ask(task);
}
