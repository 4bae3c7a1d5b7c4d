/* SPDX-License-Identifier: Apache-2.0 */

/* `version`: one line, the same as --version. */

#include <stdio.h>

#include "cli/cli.h"

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    (void)cli;
    (void)opts;
    return printf("snipara-sandbox %s\n", SNP_VERSION) < 0 ? SNP_EXIT_FAILED : SNP_EXIT_OK;
}

const struct snp_verb snp_verb_version = {
    .name = "version",
    .summary = "show the version",
    .run = run,
};
