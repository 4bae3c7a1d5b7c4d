/* SPDX-License-Identifier: Apache-2.0 */

/* `version`: one line, the same as --version. */

#include "base/json.h"
#include "cli/cli.h"

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *answer = NULL;

    (void)opts;
    if (!cli->is_json) {
        return snp_cli_version();
    }
    answer = json_pack("{s:s}", "version", SNP_VERSION);
    return snp_cli_print_json(answer);
}

static const struct snp_opt options[] = {SNP_CLI_OPT_JSON};

const struct snp_verb snp_verb_version = {
    .name = "version",
    .summary = "show the version",
    .spec = SNP_OPTIONS(options),
    .run = run,
};
