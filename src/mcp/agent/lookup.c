/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/agent/lookup.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mcp/process.h"
#include "base/str.h"
#include "mcp/caps.h"
#include "mcp/server/session.h"

enum {
    TIMEOUT_S = 120, /* the first call in a large project builds the index */
    OUTPUT_MAX = 256 << 10,
    READ_BYTES = 16 << 10,
    LOOKUPS_MAX = 32, /* processes at once */
    WORDS_MAX = 8,
};

struct snp_lookup {
    struct snp_mcp_sandboxes *service;
    struct snp_task *task; /* NULL: answered, or cancelled */
    struct snp_process process;
    uv_timer_t look;
    bool is_look_closed;
    void (*answer)(struct snp_task *task, const char *text, size_t n, bool ok);
    bool prints_errors;
    const char *late; /* static */
    uint64_t until_us;
    struct snp_buf out;
    struct snp_lookup *next;
};

/* Its end ----------------------------------------------------------------------------------- */

static void lookup_free_if_closed(struct snp_lookup *lookup)
{
    if (lookup->is_look_closed && lookup->process.n_handles == 0) {
        snp_buf_done(&lookup->out);
        free(lookup);
    }
}

static void on_look_closed(uv_handle_t *handle)
{
    struct snp_lookup *lookup = handle->data;

    lookup->is_look_closed = true;
    lookup_free_if_closed(lookup);
}

static void on_process_closed(void *owner)
{
    lookup_free_if_closed(owner);
}

/* Remove from the list, and free with the last handle. Its process is reaped, or never started. */
static void lookup_close(struct snp_lookup *lookup)
{
    struct snp_lookup **at = &lookup->service->lookups;

    while (*at != lookup) {
        at = &(*at)->next;
    }
    *at = lookup->next;
    snp_process_close(&lookup->process);
    uv_close((uv_handle_t *)&lookup->look, on_look_closed);
}

static struct snp_task *task_take(struct snp_lookup *lookup)
{
    struct snp_task *task = lookup->task;

    lookup->task = NULL;
    return task;
}

/*
 * Report the last line of its standard error, without the prefix of a command that the user did not
 * type.
 */
static void say_failure(const struct snp_process *process, struct snp_task *task)
{
    snp_autofree char *said = strndup(process->said, process->n_said);
    char *line = said == NULL ? NULL : strstr(said, "snipara-sandbox ");
    char *message = line == NULL ? NULL : strstr(line, ": ");

    if (message == NULL) {
        snp_task_failf(task, SNP_E_PEER, "the command that answers ended with status %d",
                       process->status);
        return;
    }
    message[strcspn(message, "\n")] = '\0';
    snp_task_failf(task, SNP_E_INVALID, "%s", message + 2);
}

static void answer(struct snp_lookup *lookup)
{
    struct snp_task *task = task_take(lookup);
    const struct snp_process *process = &lookup->process;
    bool ok = WIFEXITED(process->status) && WEXITSTATUS(process->status) == 0;
    size_t n = lookup->out.len;

    if (task == NULL) {
        return;
    }
    if (task->call == NULL) { /* cancelled: no recipient */
        snp_task_end(task, NULL);
    } else if (ok || (lookup->prints_errors && WIFEXITED(process->status) && n > 0)) {
        lookup->answer(task, n == 0 ? "" : snp_buf_bytes(&lookup->out), n, ok);
    } else {
        say_failure(process, task);
    }
}

/* Its output -------------------------------------------------------------------------------- */

static void give_up(struct snp_lookup *lookup, const char *why)
{
    struct snp_task *task = task_take(lookup);

    snp_process_kill(&lookup->process, SIGKILL);
    if (task != NULL) {
        snp_task_failf(task, SNP_E_LIMIT, "%s", why);
    }
}

static void output_read(struct snp_lookup *lookup, int which)
{
    char bytes[READ_BYTES];
    size_t n = snp_process_read(&lookup->process, which, bytes, sizeof(bytes));

    while (n > 0) {
        if (which == SNP_PROCESS_OUT && snp_buf_add(&lookup->out, bytes, n) < 0) {
            give_up(lookup, "the answer is longer than 256 KiB: ask for less");
            return;
        }
        n = snp_process_read(&lookup->process, which, bytes, sizeof(bytes));
    }
}

static void on_ready(void *owner, int which)
{
    struct snp_lookup *lookup = owner;

    if (which != SNP_PROCESS_ENDED) {
        output_read(lookup, which);
        return;
    }
    if (snp_process_reap(&lookup->process)) {
        output_read(lookup, SNP_PROCESS_OUT); /* its last output can be read now */
        output_read(lookup, SNP_PROCESS_ERRORS);
        answer(lookup);
        lookup_close(lookup);
    }
}

static void on_look(uv_timer_t *timer)
{
    struct snp_lookup *lookup = timer->data;
    struct snp_task *task = lookup->task;

    if (task == NULL) {
        return; /* killed: its end is reported next */
    }
    if (task->call == NULL) { /* cancelled */
        lookup->task = NULL;
        snp_process_kill(&lookup->process, SIGKILL);
        snp_task_end(task, NULL);
    } else if (snp_now_us() >= lookup->until_us) {
        give_up(lookup, lookup->late);
    }
}

/* The start --------------------------------------------------------------------------------- */

static int start(struct snp_lookup *lookup, const struct snp_lookup_spec *spec, struct snp_err *err)
{
    const char *argv[WORDS_MAX + 2] = {lookup->service->options.agent_argv[0]};
    const char *input = spec->input == NULL ? "" : spec->input;
    const struct snp_child child = {.argv = argv, .cwd = spec->cwd};
    ssize_t n = (ssize_t)strlen(input);
    int r;

    for (size_t i = 0; spec->words[i] != NULL; i++) {
        SNP_ASSERT(i < WORDS_MAX);
        argv[i + 1] = spec->words[i];
    }
    r = snp_process_start(&lookup->process, lookup->service->loop, &child, "answering command",
                          err);
    if (r == 0 && n > 0 &&
        SNP_RETRY(write(lookup->process.ends[SNP_PROCESS_IN].fd, input, (size_t)n)) != n) {
        snp_process_kill(&lookup->process, SIGKILL); /* its end is reported as an error */
    }
    if (r == 0) {
        snp_process_end_close(&lookup->process, SNP_PROCESS_IN);
    }
    return r;
}

static bool is_full(const struct snp_mcp_sandboxes *service)
{
    size_t n = 0;

    for (const struct snp_lookup *at = service->lookups; at != NULL; at = at->next) {
        n++;
    }
    return n >= LOOKUPS_MAX;
}

void snp_lookup_start(struct snp_task *task, const struct snp_lookup_spec *spec)
{
    struct snp_mcp_sandboxes *service = task->service;
    struct snp_lookup *lookup;
    struct snp_err err;

    if (is_full(service)) {
        snp_task_failf(task, SNP_E_LIMIT,
                       "%d questions are being answered, which is the limit: ask again when one "
                       "has ended",
                       LOOKUPS_MAX);
        return;
    }
    lookup = calloc(1, sizeof(*lookup));
    if (lookup == NULL) {
        snp_task_failf(task, SNP_E_NOMEM, "out of memory");
        return;
    }
    lookup->service = service;
    lookup->task = task;
    lookup->answer = spec->answer;
    lookup->prints_errors = spec->prints_errors;
    lookup->late = spec->late;
    lookup->until_us = snp_now_us() + (uint64_t)TIMEOUT_S * 1000000;
    lookup->process.owner = lookup;
    lookup->process.ready = on_ready;
    lookup->process.closed = on_process_closed;
    snp_buf_init(&lookup->out, OUTPUT_MAX);
    lookup->next = service->lookups;
    service->lookups = lookup;
    (void)uv_timer_init(service->loop, &lookup->look);
    lookup->look.data = lookup;
    if (start(lookup, spec, &err) < 0) {
        lookup->task = NULL;
        lookup_close(lookup);
        snp_task_fail(task, &err);
        return;
    }
    (void)uv_timer_start(&lookup->look, on_look, SNP_MCP_WAIT_LOOK_MS, SNP_MCP_WAIT_LOOK_MS);
}

void snp_lookups_drop(struct snp_mcp_sandboxes *service)
{
    while (service->lookups != NULL) {
        struct snp_lookup *lookup = service->lookups;

        lookup->task = NULL; /* freed with all tasks */
        snp_process_kill(&lookup->process, SIGKILL);
        (void)snp_process_reap(&lookup->process); /* if not exited yet, its new parent reaps it */
        lookup_close(lookup);
    }
}
