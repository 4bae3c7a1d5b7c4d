/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a command that a program started with the library: base/cli/serve/serve.h. */
#include "base/cli/serve/serve.h"

#include <fcntl.h>

#include "cli/cli.h"

static int serve(struct snp_cli *cli, struct snp_err *err)
{
    static const struct snp_verb *const commands[] = {&snp_verb_diff, &snp_verb_export,
                                                      &snp_verb_import, NULL};
    static const char *const no_words[] = {NULL};

    SNP_TRY(snp_serve_take_over(snp_caller_of(cli), err));
    return snp_caller_of(cli)->is_settings
               ? snp_serve_verb(cli, snp_verb_config.fallback, no_words, err)
               : snp_serve_command(cli, commands);
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_caller_done) struct snp_caller caller = {.fd = -1};

    (void)opts;
    snp_caller_init(&caller, SNP_SERVE_FD);
    (void)fcntl(SNP_SERVE_FD, F_SETFD, FD_CLOEXEC);
    return snp_serve(cli, &caller, serve);
}

static const struct snp_opt no_options[1];

const struct snp_verb snp_verb_serve_command = {
    .name = "serve-command",
    .summary = "the process of a command that a program began with the library",
    .spec = {.options = no_options},
    .run = run,
};
