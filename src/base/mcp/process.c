/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mcp/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/fd.h"

/* Handles --------------------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct snp_process *process = ((struct snp_process_end *)handle->data)->process;

    if (--process->n_handles == 0) {
        process->closed(process->owner);
    }
}

void snp_process_end_close(struct snp_process *process, int which)
{
    struct snp_process_end *end = &process->ends[which];

    if (end->is_open) {
        end->is_open = false;
        uv_close((uv_handle_t *)&end->poll, on_handle_closed);
    }
    snp_closep(&end->fd);
}

void snp_process_close(struct snp_process *process)
{
    for (int i = 0; i < SNP_PROCESS_ENDS; i++) {
        snp_process_end_close(process, i);
    }
}

/* Reading, writing or reaping reports errors, so status is ignored. */
static void on_ready(uv_poll_t *poll, int status, int events)
{
    const struct snp_process_end *end = poll->data;
    struct snp_process *process = end->process;

    (void)status;
    (void)events;
    process->ready(process->owner, (int)(end - process->ends));
}

void snp_process_watch_input(struct snp_process *process, bool is_wanted)
{
    struct snp_process_end *end = &process->ends[SNP_PROCESS_IN];

    if (end->is_open) {
        (void)(is_wanted ? uv_poll_start(&end->poll, UV_WRITABLE, on_ready)
                         : uv_poll_stop(&end->poll));
    }
}

/* Output ---------------------------------------------------------------------------------- */

/* Keep the end of its standard error. */
static void said_keep(struct snp_process *process, const char *bytes, size_t n)
{
    size_t max = sizeof(process->said);
    size_t keep;

    if (n > max) {
        bytes += n - max;
        n = max;
    }
    keep = process->n_said + n > max ? max - n : process->n_said;
    memmove(process->said, process->said + process->n_said - keep, keep);
    memcpy(process->said + keep, bytes, n);
    process->n_said = keep + n;
}

size_t snp_process_read(struct snp_process *process, int which, char *bytes, size_t size)
{
    ssize_t n = SNP_RETRY(read(process->ends[which].fd, bytes, size));

    if (n > 0 && which == SNP_PROCESS_ERRORS) {
        said_keep(process, bytes, (size_t)n);
    } else if (n == 0 || (n < 0 && errno != EAGAIN)) {
        snp_process_end_close(process, which);
    }
    return n > 0 ? (size_t)n : 0;
}

/* Its life -------------------------------------------------------------------------------- */

void snp_process_kill(const struct snp_process *process, int number)
{
    if (process->pid > 0) {
        (void)kill(-process->pid, number);
    }
}

bool snp_process_reap(struct snp_process *process)
{
    if (process->pid > 0 && snp_child_reap(process->pid, &process->status)) {
        process->pid = -1;
    }
    return process->pid < 0;
}

/* Watch the running process in the loop. */
static int watch(struct snp_process *process,
                 uv_loop_t *loop,
                 const char *what,
                 struct snp_err *err)
{
    for (int i = 0; i < SNP_PROCESS_ENDS; i++) {
        struct snp_process_end *end = &process->ends[i];
        int r = end->fd < 0 ? -errno : uv_poll_init(loop, &end->poll, end->fd);

        if (r < 0) {
            return snp_fail(err, SNP_E_SYS, "watch the %s: %s", what, uv_strerror(r));
        }
        end->poll.data = end;
        end->is_open = true;
        process->n_handles++;
        if (i != SNP_PROCESS_IN) {
            (void)uv_poll_start(&end->poll, UV_READABLE, on_ready);
        }
    }
    return 0;
}

int snp_process_start(struct snp_process *process,
                      uv_loop_t *loop,
                      const struct snp_child *child,
                      const char *what,
                      struct snp_err *err)
{
    int fds[] = {-1, -1, -1};
    int r;

    process->pid = -1;
    r = snp_child_start_piped(child, fds, &process->pid, err);
    for (int i = 0; i < SNP_PROCESS_ENDS; i++) {
        process->ends[i] = (struct snp_process_end){
            .process = process, .fd = i == SNP_PROCESS_ENDED || r < 0 ? -1 : fds[i]};
    }
    if (r == 0) {
        process->ends[SNP_PROCESS_ENDED].fd = snp_child_watch(process->pid);
        r = watch(process, loop, what, err);
    }
    if (r < 0 && process->pid > 0) {
        snp_process_kill(process, SIGKILL);
        (void)SNP_RETRY(waitpid(process->pid, &process->status, 0));
        process->pid = -1;
    }
    if (r < 0) {
        snp_process_close(process);
    }
    return r;
}
