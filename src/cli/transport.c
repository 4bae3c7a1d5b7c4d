/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime's side of base/cli/session/remote.h: a client, connected by the first request. */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "base/cli/session/remote.h"
#include "cli/cli.h"
#include "client/calls.h"
#include "client/client.h"

static struct snp_client *client; /* owned until the process ends; NULL = not connected */

/* Before the connection exists, the default action for signals (exit) is correct. */
static int connect_now(struct snp_cli *cli, bool has_start, struct snp_err *err)
{
    struct snp_client_options options = {.has_start = has_start, .any_state = cli->any_state};
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    if (cli->takes_signals && cli->signal_fd == 0) { /* open until the process exits */
        cli->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    }
    if (cli->signal_fd < 0) {
        return snp_fail_sys(err, errno, "signalfd");
    }
    options.signal_fd = cli->signal_fd == 0 ? -1 : cli->signal_fd;
    SNP_TRY(snp_client_connect(&options, &client, err));
    if (cli->takes_signals) {
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
    }
    return 0;
}

static int find(struct snp_cli *cli, struct snp_err *err)
{
    return client != NULL ? 0 : connect_now(cli, false, err);
}

static int send(struct snp_cli *cli,
                const struct snp_call *call,
                struct snp_reply *ret,
                struct snp_err *err)
{
    int r = client != NULL ? 0 : connect_now(cli, true, err);

    r = r < 0 ? r : snp_client_call(client, call, ret, err);
    if (r < 0 && snp_calls_is_older(err) &&
        json_object_del(json_object_get(call->head, "defaults"), "configured") == 0) {
        r = snp_client_call(client, call, ret, err); /* it compares no settings */
    }
    if (cli->signal_no == 0 && client != NULL) {
        cli->signal_no = snp_client_interrupted(client);
    }
    return r;
}

const struct snp_transport snp_transport_client = {.find = find, .send = send};
