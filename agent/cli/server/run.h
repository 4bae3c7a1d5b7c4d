/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SERVER_RUN_H
#define SNP_CLI_SERVER_RUN_H

/* Shared by the verbs of `mcp`: a conversation with a server from beginning to end. */

#include "base/buf.h"
#include "base/cli/cli.h"
#include "mcp/client/client.h"

struct snp_mcp_run {
    struct snp_cli *cli;
    const struct snp_opts *opts;
    uv_loop_t loop;
    uv_signal_t signals[2];
    void (*begin)(struct snp_mcp_run *run);
    struct snp_mcp_client *client;
    json_t *arguments;   /* owned: arguments to send; NULL = none */
    json_t *pins;        /* owned: {tool: fingerprint}; NULL = none */
    struct snp_buf said; /* of the command, up to the end of its line */
    int status;          /* of the program, once it is over */
    bool is_over;
};

/*
 * Open the server of the options, call `begin` once it is open, and run the loop until
 * snp_mcp_run_end; returns the exit status. begin NULL: end at once. n_own: positionals of the verb
 * itself before `--`.
 */
int snp_mcp_run(struct snp_mcp_run *run, size_t n_own, void (*begin)(struct snp_mcp_run *run));

/* End the conversation; `status` is the program's. Later calls are ignored. */
void snp_mcp_run_end(struct snp_mcp_run *run, int status);
/* The same with a message. */
void snp_mcp_run_fail(struct snp_mcp_run *run, const struct snp_err *err);
/* Send a request with the arguments of the verb; failures end the run. params: consumed. */
void snp_mcp_run_call(struct snp_mcp_run *run,
                      const char *method,
                      json_t *params,
                      void (*done)(void *ctx, const struct snp_mcp_client_end *end));
/* Request a list; failures end the run, notes are warnings. */
void snp_mcp_run_list(struct snp_mcp_run *run,
                      const char *method,
                      void (*done)(void *ctx,
                                   const struct snp_mcp_client_end *end,
                                   json_t *items,
                                   const json_t *notes));

/* The number of positionals before `--`; all without a `--`. */
size_t snp_mcp_run_own_args(const struct snp_opts *opts);

#endif
