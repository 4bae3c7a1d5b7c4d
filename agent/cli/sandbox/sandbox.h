/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SANDBOX_SANDBOX_H
#define SNP_CLI_SANDBOX_SANDBOX_H

/*
 * Sessions for the verbs of the suite, over the C library.
 *
 *     snp_sandbox_end(cli, snipara_destroy(snp_sandbox(), "work"), NULL, &err)
 */

#include "base/cli/cli.h"
#include "base/cli/session/remote.h"
#include "base/err.h"
#include "base/json.h"
#include "sandbox/sandboxes.h"

/* Requests of base/cli/session over this connection. */
extern const struct snp_transport snp_sandbox_transport;

/*
 * The connection of this process, made (and the daemon started) by its first call. Every call of it
 * is ended by a function below, which also reports why there is no connection.
 */
struct snipara *snp_sandbox(void);

/* Close it, before a fork for example; the next call connects again. */
void snp_sandbox_close(void);

/*
 * Wait until the call has succeeded. With cli->takes_signals, SIGINT and SIGTERM are blocked from
 * then on. Of them, or of those in cli->signal_fd, the first interrupts the running cell and the
 * second abandons it: SNP_E_TIMEOUT, also of all later calls.
 */
int snp_sandbox_wait(struct snp_cli *cli,
                     struct snipara_call *call,
                     struct snp_err *err) SNP_NODISCARD;

/* The same; then free the call. *ret: its answer, the caller's; ret may be NULL. */
int snp_sandbox_end(struct snp_cli *cli,
                    struct snipara_call *call,
                    json_t **ret,
                    struct snp_err *err) SNP_NODISCARD;

/* Run a cell. *ret: its result, the caller's; ret may be NULL. */
int snp_sandbox_run(struct snp_cli *cli,
                    const struct snipara_cell *cell,
                    json_t **ret,
                    struct snp_err *err) SNP_NODISCARD;

/*
 * Send another request of docs/wire.md. request: consumed, NULL = a text in it is not UTF-8. *ret:
 * the answer, the caller's; ret may be NULL.
 */
int snp_sandbox_ask(struct snp_cli *cli, json_t *request, json_t **ret, struct snp_err *err)
    SNP_NODISCARD;

/* The signal that interrupted the command, before a call or during one; 0 = none. */
int snp_sandbox_interrupted(struct snp_cli *cli);

#endif
