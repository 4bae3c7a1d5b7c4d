/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SERVE_SERVE_H
#define SNP_BASE_CLI_SERVE_SERVE_H

/*
 * The process of a request of a program with the library (base/wire/run.h): the request becomes the
 * words of a verb, which runs and answers by snp_cli_end(). The suite's process reads the request;
 * for a command of the runtime it becomes a process of that.
 */

#include "base/cli/serve/caller.h"
#include "base/cli/verb.h"

enum {
    SNP_SERVE_FD = 3, /* the program's socket */
};

/* Become the runtime's process, which has the same request. Returns only on failure. */
int snp_serve_hand_over(const struct snp_caller *caller, struct snp_err *err);

/* Receive that request there. */
int snp_serve_take_over(struct snp_caller *caller, struct snp_err *err) SNP_NODISCARD;

/*
 * Run verb in the folder of the request with its settings, and more words (NULL-terminated);
 * returns the exit status, or < 0.
 */
int snp_serve_verb(struct snp_cli *cli,
                   const struct snp_verb *verb,
                   const char *const *more,
                   struct snp_err *err);

/*
 * Run the command of the request, one of the verbs (NULL-terminated), which never ask without a
 * terminal, and answer by snp_cli_end(); returns the exit status.
 */
int snp_serve_command(struct snp_cli *cli, const struct snp_verb *const *verbs);

/* Call serve with the caller as listener, and answer the request if it has no answer then. */
int snp_serve(struct snp_cli *cli,
              struct snp_caller *caller,
              int (*serve)(struct snp_cli *cli, struct snp_err *err));

#endif
