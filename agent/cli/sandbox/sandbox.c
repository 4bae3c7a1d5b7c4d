/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sandbox/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/signalfd.h>

#include "base/cli/need.h"
#include "base/fd.h"
#include "base/str.h"

static struct {
    struct snipara *box; /* owned until the process ends; NULL = none */
    bool is_abandoned;
} connection;

struct snipara *snp_sandbox(void)
{
    if (connection.box == NULL && !connection.is_abandoned) {
        (void)snipara_connect(SNIPARA_OPTIONS(.later = true), &connection.box);
    }
    return connection.box;
}

void snp_sandbox_close(void)
{
    snipara_close(SNP_TAKE_PTR(connection.box));
}

/* Before the connection exists, the default action for signals (exit) is correct. */
static void signals_block(struct snp_cli *cli)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    cli->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (cli->signal_fd > 0) { /* else they end the process */
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
    }
}

/* Read a record of a signal; false: there is none. */
static bool signal_read(struct snp_cli *cli)
{
    struct signalfd_siginfo info;

    if (cli->signal_fd <= 0 || SNP_RETRY(read(cli->signal_fd, &info, sizeof(info))) <= 0) {
        return false;
    }
    cli->signal_no = cli->signal_no == 0 ? (int)info.ssi_signo : cli->signal_no;
    return true;
}

int snp_sandbox_interrupted(struct snp_cli *cli)
{
    (void)signal_read(cli);
    return cli->signal_no;
}

int snp_sandbox_wait(struct snp_cli *cli, struct snipara_call *call, struct snp_err *err)
{
    if (cli->takes_signals && cli->signal_fd == 0) {
        signals_block(cli);
    }
    while (!snipara_is_done(call)) {
        struct pollfd p[2] = {
            {.fd = snipara_fd(connection.box), .events = POLLIN},
            {.fd = cli->signal_fd > 0 ? cli->signal_fd : -1, .events = POLLIN},
        };
        bool is_second = cli->signal_no != 0;

        if (poll(p, 2, -1) > 0 && p[1].revents != 0 && signal_read(cli)) {
            if (is_second) {
                connection.is_abandoned = true;
                snp_sandbox_close();
                break;
            }
            snipara_interrupt(call);
        }
        (void)snipara_step(connection.box);
    }
    if (connection.is_abandoned) {
        return snp_fail(err, SNP_E_TIMEOUT, "interrupted twice; the cell was abandoned");
    }
    return snp_sandbox_error(call, err);
}

int snp_sandbox_end(struct snp_cli *cli,
                    struct snipara_call *call,
                    json_t **ret,
                    struct snp_err *err)
{
    snp_autocall struct snipara_call *owned = call;
    snp_autojson json_t *answer = NULL;

    SNP_TRY(snp_sandbox_wait(cli, call, err));
    SNP_TRY(snp_sandbox_answer(SNP_TAKE_PTR(owned), &answer, err));
    json_decref(cli->unsaved); /* reported at the end of the command */
    cli->unsaved = json_incref(json_object_get(answer, "unsaved"));
    if (ret != NULL) {
        *ret = SNP_TAKE_PTR(answer);
    }
    return 0;
}

int snp_sandbox_run(struct snp_cli *cli,
                    const struct snipara_cell *cell,
                    json_t **ret,
                    struct snp_err *err)
{
    int r = snp_sandbox_end(cli, snipara_run(snp_sandbox(), cell), ret, err);

    if (r == SNP_E_PEER && cell->session != NULL) {
        snp_err_lost(err);
    }
    return r;
}

/* Requests of base/cli/session ---------------------------------------------------------------- */

static int find(struct snp_cli *cli, struct snp_err *err)
{
    const struct snipara_error *error =
        connection.box != NULL || connection.is_abandoned
            ? NULL
            : snipara_connect(SNIPARA_OPTIONS(.no_start = true), &connection.box);

    (void)cli;
    return error == NULL ? 0 : snp_fail(err, (enum snp_code)error->code, "%s", error->message);
}

struct event_sink {
    const struct snp_call *call;
    int r; /* < 0: an event was refused */
    struct snp_err err;
};

static void on_event(void *ctx, const char *json, const char *bytes, size_t len)
{
    struct event_sink *sink = ctx;
    snp_autojson json_t *head = NULL;

    SNP_THEN(sink->r, snp_json_parse(json, strlen(json), &head, &sink->err));
    SNP_THEN(sink->r, sink->call->event(sink->call->ctx, head, bytes, len, &sink->err));
}

static int answer_take(const struct snipara_call *sent, struct snp_reply *ret, struct snp_err *err)
{
    const char *text = snipara_json(sent);
    const char *bytes = snipara_data(sent, &ret->raw_len);

    SNP_TRY_MEMORY(text != NULL, err);
    SNP_TRY(snp_json_parse(text, strlen(text), &ret->head, err));
    ret->raw = snp_need(calloc(ret->raw_len + 1, 1));
    if (ret->raw_len > 0) {
        memcpy(ret->raw, bytes, ret->raw_len);
    }
    return 0;
}

static int send_request(struct snp_cli *cli,
                        const struct snp_call *call,
                        struct snp_reply *ret,
                        struct snp_err *err)
{
    snp_autofree char *text = snp_need(snp_json_text(call->head));
    struct event_sink sink = {.call = call};
    snp_autocall struct snipara_call *sent =
        call->event == NULL ? snipara_request(snp_sandbox(), text, call->raw, call->raw_len)
                            : snipara_show(snp_sandbox(), snp_json_str(call->head, "session", NULL),
                                           snp_json_int(call->head, "cell", 0),
                                           SNIPARA_RUN(.event = on_event, .ctx = &sink));
    int r = snp_sandbox_wait(cli, sent, err);

    /* The library takes it for a mistake of the caller. */
    if (r < 0 && (snp_has_prefix(err->msg, "unknown method ") ||
                  strstr(err->msg, ": unknown member ") != NULL)) {
        const struct snp_err said = *err;

        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "the running daemon is older than this program (%.*s); restart it with: "
                        "snipara-sandbox daemon stop",
                        (int)strcspn(said.msg, ";"), said.msg);
    }
    SNP_TRY(r);
    if (sink.r < 0) {
        *err = sink.err;
        return sink.r;
    }
    return answer_take(sent, ret, err);
}

const struct snp_transport snp_sandbox_transport = {.find = find, .send = send_request};

int snp_sandbox_ask(struct snp_cli *cli, json_t *request, json_t **ret, struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};

    SNP_TRY(snp_remote_call(cli, request, &reply, err));
    if (ret != NULL) {
        *ret = SNP_TAKE_PTR(reply.head);
    }
    return 0;
}
