/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_session, rollback_session, fork_session and session_history. */
#include <string.h>

#include "base/str.h"
#include "base/text/summary.h"
#include "base/wire/session.h"
#include "base/wire/snapshot.h"
#include "mcp/caps.h"
#include "mcp/server/remedy.h"
#include "mcp/server/session.h"
#include "mcp/server/task.h"

enum {
    TEXT_BUILD = 256 << 10,
    NAMES_SHOWN = 10,
    NAME_SHOWN = 100, /* characters */
    LINE_SHOWN = 100,
    CELLS_DEFAULT = 20,
    CELLS_MAX = 100,
};

/* "\n[LABEL] a: reason": variables that could not be saved or restored. */
static void lost_say(struct snp_say *text, const char *label, const json_t *list)
{
    size_t n = json_array_size(list);

    for (size_t i = 0; i < n && i < NAMES_SHOWN; i++) {
        struct snp_failed_row row;

        snp_record_read(json_array_get(list, i), &snp_failed_row_form, &row);
        snp_say(text, "\n[%s] ", label);
        snp_say_string(text, row.name, NAME_SHOWN);
        snp_say(text, json_string_length(row.reason) > 0 ? ": " : "");
        snp_say_string(text, row.reason, LINE_SHOWN);
    }
    if (n > NAMES_SHOWN) {
        snp_say(text, "\n[%s] and %zu more", label, n - NAMES_SHOWN);
    }
}

/* Snapshots ----------------------------------------------------------------------------------- */

static void on_snapshot(struct snp_task *task, json_t *head)
{
    snp_autosay struct snp_say text = SNP_SAY(TEXT_BUILD);
    struct snp_snapshot_answer made;

    snp_record_read(head, &snp_snapshot_answer_form, &made);
    snp_say(&text, "Snapshot ");
    snp_say_line(&text, made.name, NAME_SHOWN);
    snp_say(&text, " made after cell %llu; restore it with SniparaSandbox.rollback_session(",
            (unsigned long long)made.cell);
    snp_mcp_call_arg(&text, "snapshot", made.name);
    snp_mcp_call_session(&text, task->session_id);
    snp_say(&text, ")");
    lost_say(&text, "not saved", made.lost);
    snp_task_say(task, false, &text);
}

void snp_tool_snapshot(struct snp_task *task)
{
    /* On disk before the answer: the next call may fork from it. */
    snp_task_ask(task,
                 SNP_WRITE(snp_snapshot_request, .session = task->session,
                           .name = snp_task_arg(task, "name", NULL), .wait = true),
                 on_snapshot, NULL);
}

/* The daemon's name for a snapshot of the task's session, as errors print it; the caller frees. */
static char *snapshot_name(const struct snp_task *task)
{
    const char *name = snp_task_arg(task, "snapshot", "");

    return strchr(name, '@') != NULL ? strdup(name) : snp_format("%s@%s", task->session, name);
}

static void on_rollback(struct snp_task *task, json_t *head)
{
    snp_autosay struct snp_say text = SNP_SAY(TEXT_BUILD);
    struct snp_rollback_answer done;

    snp_record_read(head, &snp_rollback_answer_form, &done);
    snp_say(&text, "Rolled back to snapshot ");
    snp_say_line(&text, snp_task_arg(task, "snapshot", ""), NAME_SHOWN);
    snp_say(&text, " (cell %llu)", (unsigned long long)done.cell);
    lost_say(&text, "not saved", done.lost);
    lost_say(&text, "not restored", done.failed);
    (void)json_object_del(task->service->keys, task->session);
    snp_task_say(task, false, &text);
}

void snp_tool_rollback(struct snp_task *task)
{
    snp_autofree char *snapshot = NULL;

    if (snp_task_arg(task, "snapshot", "")[0] == '\0') {
        snp_task_sayf(task, true, "Error: No snapshot provided");
        return;
    }
    snapshot = snapshot_name(task);
    snp_task_ask(task,
                 SNP_WRITE(snp_rollback_request, .snapshot = snapshot, .session = task->session),
                 on_rollback, NULL);
}

/* Forks --------------------------------------------------------------------------------------- */

static void on_fork(struct snp_task *task, json_t *head)
{
    snp_autosay struct snp_say text = SNP_SAY(TEXT_BUILD);
    struct snp_fork_answer made;

    snp_record_read(head, &snp_fork_answer_form, &made);
    snp_say(&text, "New sessions (session_id):");
    for (size_t i = 0; i < json_array_size(made.sessions); i++) {
        struct snp_fork_row row;

        snp_record_read(json_array_get(made.sessions, i), &snp_fork_row_form, &row);
        snp_say(&text, i == 0 ? " " : ", ");
        snp_say_line(&text, row.name, NAME_SHOWN);
    }
    lost_say(&text, "not saved", made.lost);
    lost_say(&text, "not restored", made.failed);
    snp_task_say(task, false, &text);
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
                           .n = n < 1 ? 1 : (int64_t)n, .name = snp_task_arg(task, "name", NULL)),
                 on_fork, NULL);
}

/* History ------------------------------------------------------------------------------------- */

static void cell_say(struct snp_say *text, const struct snp_cell_row *cell)
{
    const char *line = json_string_value(cell->first_line);

    snp_say(text, "\n  %llu %s %s", (unsigned long long)cell->cell, cell->kind, cell->status);
    if (cell->state != NULL && strcmp(cell->state, "kept") != 0) {
        snp_say(text, ", %.40s", cell->state); /* its effects are gone */
    }
    if (cell->process != NULL) {
        char how[SNP_SUMMARY_PROCESS];

        SNP_READ(snp_process_state, process, cell->process);
        snp_say(text, ", %s",
                snp_summary_process(process.state, process.exit_code, process.signal, how));
    }
    if (cell->replay_of != 0) {
        snp_say(text, ", replay of %llu", (unsigned long long)cell->replay_of);
    }
    snp_say(text, ", %.1f s: ", (double)cell->wall_us / 1e6);
    if (line != NULL && snp_tool_is_context_cell(line)) {
        snp_say(text, "(a context tool)");
    } else {
        snp_say_string(text, cell->first_line, LINE_SHOWN);
    }
}

static void on_history(struct snp_task *task, json_t *head)
{
    const json_t *cells = json_object_get(head, "cells");
    size_t n = json_array_size(cells);
    snp_autosay struct snp_say text = SNP_SAY(TEXT_BUILD);
    struct snp_cell_row row = {0};

    snp_say(&text, "%zu cells, the newest first:", n);
    for (size_t i = 0; i < n && text.buf.len < SNP_MCP_TEXT_MAX - 1000; i++) {
        snp_record_read(json_array_get(cells, i), &snp_cell_row_form, &row);
        cell_say(&text, &row);
    }
    if (row.cell > 1) {
        snp_say(&text, "\n[next] SniparaSandbox.session_history(before=%llu",
                (unsigned long long)row.cell);
        snp_mcp_call_session(&text, task->session_id);
        snp_say(&text, ")");
    }
    snp_mcp_missing_say(&text, head, task->session_id, "\n");
    snp_task_say(task, false, &text);
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
                 on_history, NULL);
}
