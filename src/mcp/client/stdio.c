/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that is a program of ours to start: lines of JSON over two pipes.
 *
 * It gets a session and process group of its own, a few variables, and no descriptor but its three.
 * It stays unreaped while its group is signalled, so the number names nothing else; when it is gone, what
 * is left of the group is killed. What it says on standard error is passed on and its
 * end kept, for the message when it dies.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "mcp/caps.h"
#include "mcp/client/link.h"
#include "mcp/lines.h"
#include "text/text.h"

enum {
    READ_BYTES = 64 << 10,
    LAST_MS =
        300, /* for the rest of its output when it has ended, and for its end when that is over */
    N_ENDS = 4,
};

/* A descriptor that the loop watches. */
struct end {
    int fd;       /* owned */
    bool is_open; /* poll is initialised and not closed */
    uv_poll_t poll;
};

enum {
    TO_CHILD = 0,
    FROM_CHILD,
    ERRORS,
    ENDED, /* its pidfd */
};

struct stdio_link {
    struct snp_mcp_link base; /* first: casts */
    uv_loop_t *loop;
    pid_t pid; /* -1 = reaped */
    struct end ends[N_ENDS];
    uv_timer_t timer;
    size_t n_handles; /* not closed yet */
    struct snp_mcp_lines lines;
    struct snp_buf out;
    char said[SNP_MCP_CLIENT_SAID_MAX]; /* the end of its standard error */
    size_t n_said;
    int status; /* of waitid; valid when pid is -1 */
    bool is_broken;
    bool is_closing;
    unsigned pressure; /* while closing: 0 asked, 1 SIGTERM, 2 SIGKILL */
};

static struct stdio_link *link_of(struct snp_mcp_link *base)
{
    return (struct stdio_link *)base;
}

/* Handles --------------------------------------------------------------------------------- */

static void link_finish(struct stdio_link *link)
{
    struct snp_mcp_client *client = link->base.client;

    if (link->n_handles > 0) {
        return;
    }
    snp_mcp_lines_done(&link->lines);
    snp_buf_done(&link->out);
    free(link);
    if (client != NULL) {
        snp_mcp_link_closed(client);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct stdio_link *link = handle->data;

    link->n_handles--;
    link_finish(link);
}

static void end_close(struct stdio_link *link, int which)
{
    struct end *end = &link->ends[which];

    if (end->is_open) {
        end->is_open = false;
        uv_close((uv_handle_t *)&end->poll, on_handle_closed);
    }
    snp_closep(&end->fd);
}

static int end_open(struct stdio_link *link, int which, struct snp_err *err)
{
    struct end *end = &link->ends[which];
    int r = uv_poll_init(link->loop, &end->poll, end->fd);

    if (r < 0) {
        return snp_fail(err, SNP_E_SYS, "watch the server: %s", uv_strerror(r));
    }
    end->poll.data = link;
    end->is_open = true;
    link->n_handles++;
    return 0;
}

/* Its end --------------------------------------------------------------------------------- */

/* "it ended with status 1 and said: ..." */
static void broken(struct stdio_link *link, const char *why)
{
    snp_autobuf struct snp_buf text = {0};
    struct snp_err err;
    int r;

    if (link->is_broken || link->is_closing) {
        return;
    }
    link->is_broken = true;
    snp_buf_init(&text, (size_t)SNP_MCP_CLIENT_SAID_MAX * 8);
    r = snp_buf_adds(&text, why);
    if (link->pid < 0) {
        r = r < 0 ? r
                  : snp_buf_addf(&text, "; it ended with %s %d",
                                 WIFSIGNALED(link->status) ? "signal" : "status",
                                 WIFSIGNALED(link->status) ? WTERMSIG(link->status)
                                                           : WEXITSTATUS(link->status));
    }
    if (link->n_said > 0) {
        r = r < 0 ? r : snp_buf_adds(&text, "; it said: ");
        r = r < 0 ? r : snp_text_line(&text, link->said, link->n_said, 240);
    }
    (void)snp_fail(&err, SNP_E_PEER, "%.*s", (int)text.len,
                   r < 0 || text.len == 0 ? why : snp_buf_bytes(&text));
    snp_mcp_link_broken(link->base.client, &err);
}

static void group_kill(const struct stdio_link *link, int number)
{
    if (link->pid > 0) {
        (void)kill(-link->pid, number);
    }
}

/* It has ended: nothing of its group stays. */
static void child_reap(struct stdio_link *link)
{
    if (link->pid > 0 && snp_child_reap(link->pid, &link->status)) {
        link->pid = -1;
    }
}

static void all_close(struct stdio_link *link)
{
    for (int i = 0; i < N_ENDS; i++) {
        end_close(link, i);
    }
    uv_close((uv_handle_t *)&link->timer, on_handle_closed);
}

/* While we close: more pressure each time. */
static void on_grace_over(uv_timer_t *timer)
{
    struct stdio_link *link = timer->data;

    link->pressure++;
    group_kill(link, link->pressure == 1 ? SIGTERM : SIGKILL);
    (void)uv_timer_start(timer, on_grace_over, SNP_MCP_CLIENT_GRACE_MS, 0);
}

/* Its output is over, or it has ended: what there was to come has come. */
static void on_last(uv_timer_t *timer)
{
    broken(timer->data, "the server has gone");
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
    struct stdio_link *link = poll->data;

    (void)status;
    (void)events;
    child_reap(link);
    if (link->pid >= 0) {
        return;
    }
    end_close(link, ENDED);
    if (link->is_closing) {
        all_close(link);
    } else if (!link->ends[FROM_CHILD].is_open) {
        broken(link, "the server has gone");
    } else {
        (void)uv_timer_start(&link->timer, on_last, LAST_MS, 0);
    }
}

/* Reading --------------------------------------------------------------------------------- */

static void lines_take(struct stdio_link *link, const char *bytes, size_t n)
{
    const char *line = NULL;
    size_t len = 0;
    int r = snp_mcp_lines_add(&link->lines, bytes, n);

    if (r != 0) {
        broken(link, r < 0 ? "out of memory" : "the server sent a line that is too long");
        return;
    }
    while (!link->is_closing && !link->is_broken &&
           snp_mcp_lines_next(&link->lines, &line, &len)) {
        if (strspn(line, " \t\r") < len) {
            (void)snp_mcp_link_received(link->base.client, 0, line, len);
        }
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct stdio_link *link = poll->data;
    char bytes[READ_BYTES];
    ssize_t n = SNP_RETRY(read(link->ends[FROM_CHILD].fd, bytes, sizeof(bytes)));

    (void)status;
    (void)events;
    if (n > 0) {
        if (!link->is_broken && !link->is_closing) {
            lines_take(link, bytes, (size_t)n);
        }
    } else if (n == 0 || errno != EAGAIN) {
        end_close(link, FROM_CHILD);
        if (link->pid < 0) {
            broken(link, "the server has gone");
        } else if (!link->is_closing) {
            (void)uv_timer_start(&link->timer, on_last, LAST_MS, 0);
        }
    }
}

/* Keep the end of what it says. */
static void said_keep(struct stdio_link *link, const char *bytes, size_t n)
{
    size_t max = sizeof(link->said);

    if (n >= max) {
        memcpy(link->said, bytes + n - max, max);
        link->n_said = max;
        return;
    }
    if (link->n_said + n > max) {
        size_t drop = link->n_said + n - max;

        memmove(link->said, link->said + drop, link->n_said - drop);
        link->n_said -= drop;
    }
    memcpy(link->said + link->n_said, bytes, n);
    link->n_said += n;
}

static void on_said(uv_poll_t *poll, int status, int events)
{
    struct stdio_link *link = poll->data;
    char bytes[READ_BYTES];
    ssize_t n = SNP_RETRY(read(link->ends[ERRORS].fd, bytes, sizeof(bytes)));

    (void)status;
    (void)events;
    if (n > 0) {
        said_keep(link, bytes, (size_t)n);
        snp_mcp_link_said(link->base.client, bytes, (size_t)n);
    } else if (n == 0 || errno != EAGAIN) {
        end_close(link, ERRORS);
    }
}

/* Writing --------------------------------------------------------------------------------- */

static void on_writable(uv_poll_t *poll, int status, int events);

static void write_out(struct stdio_link *link)
{
    while (link->out.len > 0 && link->ends[TO_CHILD].fd >= 0) {
        ssize_t n =
            SNP_RETRY(write(link->ends[TO_CHILD].fd, snp_buf_bytes(&link->out), link->out.len));

        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) { /* its end is told when its output ends */
            snp_buf_clear(&link->out);
            end_close(link, TO_CHILD);
            return;
        }
        snp_buf_consume(&link->out, (size_t)n);
    }
    if (link->ends[TO_CHILD].is_open) {
        (void)(link->out.len > 0
                   ? uv_poll_start(&link->ends[TO_CHILD].poll, UV_WRITABLE, on_writable)
                   : uv_poll_stop(&link->ends[TO_CHILD].poll));
    }
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    write_out(poll->data);
}

static int link_send(struct snp_mcp_link *base,
                     const struct snp_mcp_link_message *message,
                     struct snp_err *err)
{
    struct stdio_link *link = link_of(base);
    snp_autofree char *text = snp_json_text(message->json);
    size_t n = text == NULL ? 0 : strlen(text);

    if (text == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (n > SNP_MCP_MESSAGE_MAX || link->out.len + n + 1 > SNP_MCP_OUT_MAX) {
        return snp_fail(err, SNP_E_LIMIT,
                        "the server does not read: more than %d MiB wait for it",
                        SNP_MCP_OUT_MAX >> 20);
    }
    if (snp_buf_add(&link->out, text, n) < 0 || snp_buf_add(&link->out, "\n", 1) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    write_out(link);
    return 0;
}

/* All share one stream: there is nothing to close. */
static void link_forget(struct snp_mcp_link *base, uint64_t id)
{
    (void)base;
    (void)id;
}

static void link_close(struct snp_mcp_link *base, bool at_once)
{
    struct stdio_link *link = link_of(base);

    link->is_closing = true;
    end_close(link, TO_CHILD);
    child_reap(link);
    if (link->pid < 0) {
        all_close(link);
    } else {
        (void)uv_timer_start(&link->timer, on_grace_over, at_once ? 0 : SNP_MCP_CLIENT_GRACE_MS,
                             0);
    }
}

static const struct snp_mcp_link_ops stdio_ops = {
    .send = link_send,
    .forget = link_forget,
    .close = link_close,
};

/* The start ------------------------------------------------------------------------------- */

static int start(struct stdio_link *link,
                 const struct snp_mcp_client_options *options,
                 struct snp_err *err)
{
    const struct snp_child child = {
        .argv = options->argv,
        .env = options->env,
        .cwd = options->cwd,
    };
    int ends[3];
    int r = snp_child_start_piped(&child, ends, &link->pid, err);

    if (r < 0) {
        return r;
    }
    link->ends[TO_CHILD].fd = ends[0];
    link->ends[FROM_CHILD].fd = ends[1];
    link->ends[ERRORS].fd = ends[2];
    link->ends[ENDED].fd = snp_child_watch(link->pid);
    if (link->ends[ENDED].fd < 0) {
        return snp_fail_sys(err, errno, "watch the server's process");
    }
    for (int i = 0; i < N_ENDS && r == 0; i++) {
        r = end_open(link, i, err);
    }
    return r;
}

int snp_mcp_link_stdio(uv_loop_t *loop,
                       struct snp_mcp_client *client,
                       const struct snp_mcp_client_options *options,
                       struct snp_mcp_link **ret,
                       struct snp_err *err)
{
    struct stdio_link *link = calloc(1, sizeof(*link));
    int r;

    if (link == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    link->base = (struct snp_mcp_link){&stdio_ops, client};
    link->loop = loop;
    link->pid = -1;
    for (int i = 0; i < N_ENDS; i++) {
        link->ends[i].fd = -1;
    }
    snp_mcp_lines_init(&link->lines, SNP_MCP_MESSAGE_MAX);
    snp_buf_init(&link->out, SNP_MCP_OUT_MAX);
    (void)uv_timer_init(loop, &link->timer);
    link->timer.data = link;
    link->n_handles = 1;
    r = start(link, options, err);
    if (r < 0) {
        if (link->pid > 0) {
            group_kill(link, SIGKILL);
            (void)SNP_RETRY(waitpid(link->pid, &link->status, 0));
            link->pid = -1;
        }
        link->base.client = NULL; /* nobody is told */
        all_close(link);
        return r;
    }
    (void)uv_poll_start(&link->ends[FROM_CHILD].poll, UV_READABLE, on_readable);
    (void)uv_poll_start(&link->ends[ERRORS].poll, UV_READABLE, on_said);
    (void)uv_poll_start(&link->ends[ENDED].poll, UV_READABLE, on_ended);
    *ret = &link->base;
    return 0;
}
