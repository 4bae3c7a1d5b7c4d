/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that is a program we start: lines of JSON over two pipes.
 *
 * It gets a new session and process group, a few variables, and only its three descriptors. Its
 * standard error is passed on and the end of it kept, for the message when it exits.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/mcp/caps.h"
#include "base/mcp/lines.h"
#include "base/mcp/process.h"
#include "base/text/say.h"
#include "base/text/text.h"
#include "mcp/client/caps.h"
#include "mcp/client/link.h"

enum {
    READ_BYTES = 64 << 10,
    /* for the rest of its output after its exit, and for its exit after the end of output */
    LAST_MS = 300,
};

struct stdio_link {
    struct snp_mcp_link base; /* first: casts */
    struct snp_process process;
    uv_timer_t timer;
    struct snp_mcp_lines lines;
    struct snp_buf out;
    bool is_broken;
    bool is_closing;
    unsigned pressure; /* while closing: 0 requested, 1 SIGTERM, 2 SIGKILL */
};

static struct stdio_link *link_of(struct snp_mcp_link *base)
{
    return (struct stdio_link *)base;
}

/* Its end --------------------------------------------------------------------------------- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct stdio_link *link = handle->data;
    struct snp_mcp_client *client = link->base.client;

    snp_mcp_lines_done(&link->lines);
    snp_buf_done(&link->out);
    free(link);
    if (client != NULL) {
        snp_mcp_link_closed(client);
    }
}

/* Its pipes are closed: close the last handle if the client has released the link. */
static void on_closed(void *owner)
{
    struct stdio_link *link = owner;

    if (link->is_closing) {
        uv_close((uv_handle_t *)&link->timer, on_timer_closed);
    }
}

/* "it ended with status 1 and said: ..." */
static void broken(struct stdio_link *link, const char *why)
{
    const struct snp_process *process = &link->process;
    snp_autosay struct snp_say text = SNP_SAY((size_t)SNP_MCP_CLIENT_SAID_MAX * 8);
    bool is_signal = WIFSIGNALED(process->status);
    size_t n =
        process->n_said < SNP_MCP_CLIENT_SAID_MAX ? process->n_said : SNP_MCP_CLIENT_SAID_MAX;
    struct snp_err err;

    if (link->is_broken || link->is_closing) {
        return;
    }
    link->is_broken = true;
    snp_say(&text, "%s", why);
    if (process->pid < 0) {
        snp_say(&text, "; it ended with %s %d", is_signal ? "signal" : "status",
                is_signal ? WTERMSIG(process->status) : WEXITSTATUS(process->status));
    }
    if (n > 0 && text.r == 0) {
        snp_say(&text, "; it said: ");
        text.r = snp_text_line(&text.buf, process->said + process->n_said - n, n, 240);
    }
    (void)snp_fail(&err, SNP_E_PEER, "%s", text.r < 0 ? why : snp_say_cstr(&text));
    snp_mcp_link_broken(link->base.client, &err);
}

/* While we close: more pressure each time. */
static void on_grace_over(uv_timer_t *timer)
{
    struct stdio_link *link = timer->data;

    link->pressure++;
    snp_process_kill(&link->process, link->pressure == 1 ? SIGTERM : SIGKILL);
    (void)uv_timer_start(timer, on_grace_over, SNP_MCP_CLIENT_GRACE_MS, 0);
}

/* Its output has ended, or it has exited: nothing more will arrive. */
static void on_last(uv_timer_t *timer)
{
    broken(timer->data, "the server has gone");
}

static void on_ended(struct stdio_link *link)
{
    if (!snp_process_reap(&link->process)) {
        return;
    }
    snp_process_end_close(&link->process, SNP_PROCESS_ENDED);
    if (link->is_closing) {
        snp_process_close(&link->process);
    } else if (!link->process.ends[SNP_PROCESS_OUT].is_open) {
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
    while (!link->is_closing && !link->is_broken && snp_mcp_lines_next(&link->lines, &line, &len)) {
        if (strspn(line, " \t\r") < len) {
            (void)snp_mcp_link_received(link->base.client, 0, line, len);
        }
    }
}

static void on_output(struct stdio_link *link)
{
    char bytes[READ_BYTES];
    size_t n = snp_process_read(&link->process, SNP_PROCESS_OUT, bytes, sizeof(bytes));

    if (n > 0 && !link->is_broken && !link->is_closing) {
        lines_take(link, bytes, n);
    } else if (n == 0 && !link->process.ends[SNP_PROCESS_OUT].is_open) {
        if (link->process.pid < 0) {
            broken(link, "the server has gone");
        } else if (!link->is_closing) {
            (void)uv_timer_start(&link->timer, on_last, LAST_MS, 0);
        }
    }
}

static void on_said(struct stdio_link *link)
{
    char bytes[READ_BYTES];
    size_t n = snp_process_read(&link->process, SNP_PROCESS_ERRORS, bytes, sizeof(bytes));

    if (n > 0) {
        snp_mcp_link_said(link->base.client, bytes, n);
    }
}

/* Writing --------------------------------------------------------------------------------- */

static void write_out(struct stdio_link *link)
{
    const struct snp_process_end *end = &link->process.ends[SNP_PROCESS_IN];

    while (link->out.len > 0 && end->fd >= 0) {
        ssize_t n = SNP_RETRY(write(end->fd, snp_buf_bytes(&link->out), link->out.len));

        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) { /* its exit is reported when its output ends */
            snp_buf_clear(&link->out);
            snp_process_end_close(&link->process, SNP_PROCESS_IN);
            return;
        }
        snp_buf_consume(&link->out, (size_t)n);
    }
    snp_process_watch_input(&link->process, link->out.len > 0);
}

static void on_ready(void *owner, int which)
{
    static void (*const takes[])(struct stdio_link *) = {write_out, on_output, on_said, on_ended};

    takes[which](owner);
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
                        "the server does not read its input: more than %d MiB are waiting",
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

/* A process that has exited may have closed its last handle already. */
static void link_end(struct stdio_link *link)
{
    if (link->process.n_handles == 0) {
        on_closed(link);
    } else {
        snp_process_close(&link->process);
    }
}

static void link_close(struct snp_mcp_link *base, bool at_once)
{
    struct stdio_link *link = link_of(base);

    link->is_closing = true;
    snp_process_end_close(&link->process, SNP_PROCESS_IN);
    if (snp_process_reap(&link->process)) {
        link_end(link);
    } else {
        (void)uv_timer_start(&link->timer, on_grace_over, at_once ? 0 : SNP_MCP_CLIENT_GRACE_MS, 0);
    }
}

static const struct snp_mcp_link_ops stdio_ops = {
    .send = link_send,
    .forget = link_forget,
    .close = link_close,
};

/* The start ------------------------------------------------------------------------------- */

int snp_mcp_link_stdio(uv_loop_t *loop,
                       struct snp_mcp_client *client,
                       const struct snp_mcp_client_options *options,
                       struct snp_mcp_link **ret,
                       struct snp_err *err)
{
    const struct snp_child child = {
        .argv = options->argv,
        .env = options->env,
        .cwd = options->cwd,
    };
    struct stdio_link *link = calloc(1, sizeof(*link));
    int r;

    if (link == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    link->base = (struct snp_mcp_link){&stdio_ops, client};
    link->process.owner = link;
    link->process.ready = on_ready;
    link->process.closed = on_closed;
    snp_mcp_lines_init(&link->lines, SNP_MCP_MESSAGE_MAX);
    snp_buf_init(&link->out, SNP_MCP_OUT_MAX);
    (void)uv_timer_init(loop, &link->timer);
    link->timer.data = link;
    r = snp_process_start(&link->process, loop, &child, "server", err);
    if (r < 0) {
        link->base.client = NULL; /* reports go nowhere */
        link->is_closing = true;
        link_end(link);
    } else {
        *ret = &link->base;
    }
    return r;
}
