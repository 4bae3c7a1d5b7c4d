/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sandbox/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
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

int snp_sandbox_ask(struct snp_cli *cli, json_t *request, json_t **ret, struct snp_err *err)
{
    snp_autojson json_t *owned = request;
    snp_autofree char *text = owned == NULL ? NULL : snp_need(snp_json_text(owned));
    int r = text == NULL
                ? snp_fail(err, SNP_E_INVALID, "an argument is not UTF-8")
                : snp_sandbox_end(cli, snipara_request(snp_sandbox(), text, NULL, 0), ret, err);

    /* The library takes it for a mistake of the caller. */
    if (r < 0 && (snp_has_prefix(err->msg, "unknown method ") ||
                  strstr(err->msg, ": unknown member ") != NULL)) {
        const struct snp_err said = *err;

        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "the running daemon is older than this program (%.*s); restart it with: "
                        "snipara-sandbox daemon stop",
                        (int)strcspn(said.msg, ";"), said.msg);
    }
    return r;
}

bool snp_sandbox_is_usable(struct snp_cli *cli, const char *tier)
{
    snp_autojson json_t *probe = NULL;
    struct snp_err err;

    return snp_sandbox_ask(cli, json_pack("{s:s, s:s}", "method", "probe", "tier", tier), &probe,
                           &err) == 0 &&
           snp_json_bool(probe, "usable", false);
}
