/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_session, rollback_session, fork_session and session_history. */
#include <string.h>

#include "base/str.h"
#include "mcp/caps.h"
#include "mcp/server/remedy.h"
#include "mcp/server/session.h"
#include "mcp/server/task.h"
#include "text/text.h"
#include "wire/session.h"
#include "wire/snapshot.h"

enum {
    TEXT_BUILD = 256 << 10,
    NAMES_SHOWN = 10,
    NAME_SHOWN = 100, /* characters */
    LINE_SHOWN = 100,
    CELLS_DEFAULT = 20,
    CELLS_MAX = 100,
};

/* "\n[lost] a (type): reason": what could not be kept or brought back. */
static int lost_add(struct snp_buf *text, const char *label, const json_t *list)
{
    size_t n = json_array_size(list);
    int r = 0;

    for (size_t i = 0; i < n && i < NAMES_SHOWN && r == 0; i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = snp_json_str(item, "name", "?");
        const char *reason = snp_json_str(item, "reason", "");

        r = snp_buf_addf(text, "\n[%s] ", label);
        r = r < 0 ? r : snp_text_line(text, name, strlen(name), NAME_SHOWN);
        if (r == 0 && reason[0] != '\0') {
            r = snp_buf_adds(text, ": ");
            r = r < 0 ? r : snp_text_line(text, reason, strlen(reason), LINE_SHOWN);
        }
    }
    if (r == 0 && n > NAMES_SHOWN) {
        r = snp_buf_addf(text, "\n[%s] and %zu more", label, n - NAMES_SHOWN);
    }
    return r;
}

static void say(struct snp_task *task, struct snp_buf *text, int r)
{
    if (r < 0) {
        snp_task_end(task, NULL);
    } else {
        snp_task_say(task, false, snp_buf_bytes(text), text->len);
    }
}

/* Snapshots ----------------------------------------------------------------------------------- */

static void on_snapshot(struct snp_task *task,
                        const struct snp_err *err,
                        json_t *head,
                        const char *raw,
                        size_t raw_len)
{
    const char *name = snp_json_str(head, "name", "");
    snp_autobuf struct snp_buf text = {0};
    int r;

    (void)raw;
    (void)raw_len;
    if (err != NULL) {
        snp_task_fail(task, err);
        return;
    }
    snp_buf_init(&text, TEXT_BUILD);
    r = snp_buf_adds(&text, "Snapshot ");
    r = r < 0 ? r : snp_text_line(&text, name, strlen(name), NAME_SHOWN);
    r = r < 0 ? r
              : snp_buf_addf(&text, " made, after cell %lld; SniparaSandbox.rollback_session(",
                             (long long)snp_json_int(head, "cell", 0));
    r = r < 0 ? r : snp_mcp_call_arg(&text, "snapshot", name);
    r = r < 0 ? r : snp_mcp_call_session(&text, task->session_id);
    r = r < 0 ? r : snp_buf_adds(&text, ") comes back to it");
    r = r < 0 ? r : lost_add(&text, "not saved", json_object_get(head, "lost"));
    say(task, &text, r);
}

void snp_tool_snapshot(struct snp_task *task)
{
    const char *name = snp_task_arg(task, "name", NULL);

    /* On disk before it is said: what comes next may fork from it. */
    snp_task_ask(
        task,
        SNP_WRITE(snp_snapshot_request, .session = task->session, .name = name, .wait = true),
        NULL, 0, on_snapshot);
}

/* A snapshot of the task's session, as the daemon names it; the caller frees. */
static char *snapshot_name(const struct snp_task *task)
{
    return snp_format("%s@%s", task->session, snp_task_arg(task, "snapshot", ""));
}

static void on_rollback(struct snp_task *task,
                        const struct snp_err *err,
                        json_t *head,
                        const char *raw,
                        size_t raw_len)
{
    const char *name = snp_task_arg(task, "snapshot", "");
    snp_autobuf struct snp_buf text = {0};
    int r;

    (void)raw;
    (void)raw_len;
    if (err != NULL) {
        snp_task_fail(task, err);
        return;
    }
    snp_buf_init(&text, TEXT_BUILD);
    r = snp_buf_adds(&text, "Rolled back to snapshot ");
    r = r < 0 ? r : snp_text_line(&text, name, strlen(name), NAME_SHOWN);
    r = r < 0 ? r
              : snp_buf_addf(&text, " (cell %lld)", (long long)snp_json_int(head, "cell", 0));
    r = r < 0 ? r : lost_add(&text, "not saved", json_object_get(head, "lost"));
    r = r < 0 ? r : lost_add(&text, "not restored", json_object_get(head, "failed"));
    (void)json_object_del(task->service->keys, task->session);
    say(task, &text, r);
}

void snp_tool_rollback(struct snp_task *task)
{
    snp_autofree char *snapshot = NULL;

    if (snp_task_arg(task, "snapshot", "")[0] == '\0') {
        snp_task_sayf(task, true, "Error: No snapshot provided");
        return;
    }
    snapshot = snapshot_name(task);
    snp_task_ask(
        task, SNP_WRITE(snp_rollback_request, .snapshot = snapshot, .session = task->session),
        NULL, 0, on_rollback);
}

/* Forks --------------------------------------------------------------------------------------- */

static void on_fork(struct snp_task *task,
                    const struct snp_err *err,
                    json_t *head,
                    const char *raw,
                    size_t raw_len)
{
    const json_t *sessions = json_object_get(head, "sessions");
    snp_autobuf struct snp_buf text = {0};
    int r;

    (void)raw;
    (void)raw_len;
    if (err != NULL) {
        snp_task_fail(task, err);
        return;
    }
    snp_buf_init(&text, TEXT_BUILD);
    r = snp_buf_adds(&text, "New sessions (session_id):");
    for (size_t i = 0; i < json_array_size(sessions) && r == 0; i++) {
        const json_t *one = json_array_get(sessions, i);
        const char *name = snp_json_str(one, "name", snp_json_str(one, "session", "?"));

        r = snp_buf_adds(&text, i == 0 ? " " : ", ");
        r = r < 0 ? r : snp_text_line(&text, name, strlen(name), NAME_SHOWN);
    }
    r = r < 0 ? r : lost_add(&text, "not saved", json_object_get(head, "lost"));
    r = r < 0 ? r : lost_add(&text, "not restored", json_object_get(head, "failed"));
    say(task, &text, r);
}

void snp_tool_fork(struct snp_task *task)
{
    bool is_snapshot = snp_task_arg(task, "snapshot", "")[0] != '\0';
    double n = json_number_value(json_object_get(task->args, "count"));
    snp_autofree char *snapshot = NULL;

    if (n > SNP_MCP_FORKS_MAX) {
        snp_task_sayf(task, true, "Input validation error: 'count' must be at most %d, not %g",
                      SNP_MCP_FORKS_MAX, n);
        return;
    }
    snapshot = is_snapshot ? snapshot_name(task) : NULL;
    snp_task_ask(task,
                 SNP_WRITE(snp_fork_request, .from = is_snapshot ? snapshot : task->session,
                           .n = n < 1 ? 1 : (int64_t)n,
                           .name = snp_task_arg(task, "name", NULL)),
                 NULL, 0, on_fork);
}

/* History ------------------------------------------------------------------------------------- */

static int cell_add(struct snp_buf *text, const json_t *cell)
{
    const json_t *first = json_object_get(cell, "first_line");
    const char *line = json_is_string(first) ? json_string_value(first) : "";
    const char *state = snp_json_str(cell, "state", "kept");
    long long replay_of = (long long)snp_json_int(cell, "replay_of", 0);
    int r = snp_buf_addf(text, "\n  %lld %s %s", (long long)snp_json_int(cell, "cell", 0),
                         snp_json_str(cell, "kind", "?"), snp_json_str(cell, "status", "?"));

    if (r == 0 && strcmp(state, "kept") != 0) {
        r = snp_buf_addf(text, ", %.40s", state); /* what it did is not there any more */
    }
    if (r == 0 && replay_of != 0) {
        r = snp_buf_addf(text, ", replay of %lld", replay_of);
    }
    r = r < 0
            ? r
            : snp_buf_addf(text, ", %.1f s: ", (double)snp_json_int(cell, "wall_us", 0) / 1e6);
    if (r == 0 && snp_tool_is_context_cell(line)) {
        return snp_buf_adds(text, "(a context tool)");
    }
    return r < 0 ? r : snp_text_line(text, line, json_string_length(first), LINE_SHOWN);
}

static void on_history(struct snp_task *task,
                       const struct snp_err *err,
                       json_t *head,
                       const char *raw,
                       size_t raw_len)
{
    const json_t *cells = json_object_get(head, "cells");
    size_t n = json_array_size(cells);
    int64_t oldest = 0;
    snp_autobuf struct snp_buf text = {0};
    int r;

    (void)raw;
    (void)raw_len;
    if (err != NULL) {
        snp_task_fail(task, err);
        return;
    }
    snp_buf_init(&text, TEXT_BUILD);
    r = snp_buf_addf(&text, "%zu cells, the newest first:", n);
    for (size_t i = 0; i < n && r == 0 && text.len < SNP_MCP_TEXT_MAX - 1000; i++) {
        r = cell_add(&text, json_array_get(cells, i));
        oldest = snp_json_int(json_array_get(cells, i), "cell", 0);
    }
    if (r == 0 && oldest > 1) {
        r = snp_buf_addf(&text, "\n[next] SniparaSandbox.session_history(before=%lld",
                         (long long)oldest);
        r = r < 0 ? r : snp_mcp_call_session(&text, task->session_id);
        r = r < 0 ? r : snp_buf_adds(&text, ")");
    }
    r = r < 0 ? r : snp_mcp_missing_add(&text, head, task->session_id, "\n");
    say(task, &text, r);
}

void snp_tool_history(struct snp_task *task)
{
    double before = json_number_value(json_object_get(task->args, "before"));
    double limit = json_number_value(json_object_get(task->args, "limit"));

    snp_task_ask(task,
                 SNP_WRITE(snp_history_request, .session = task->session,
                           .before = before < 1 ? 0 : (uint64_t)before,
                           .limit = limit < 1           ? CELLS_DEFAULT
                                    : limit > CELLS_MAX ? CELLS_MAX
                                                        : (uint64_t)limit),
                 NULL, 0, on_history);
}
