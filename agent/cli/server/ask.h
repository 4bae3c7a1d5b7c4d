/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SERVER_ASK_H
#define SNP_CLI_SERVER_ASK_H

/* The verbs of `mcp`, which return the exit status. Their rows are in cli/server/mcp.c. */

#include "base/cli/cli.h"

int snp_mcp_ask_info(struct snp_cli *cli, const struct snp_opts *opts);
int snp_mcp_ask_tools(struct snp_cli *cli, const struct snp_opts *opts);
int snp_mcp_ask_call(struct snp_cli *cli, const struct snp_opts *opts);
int snp_mcp_ask_resources(struct snp_cli *cli, const struct snp_opts *opts);
int snp_mcp_ask_read(struct snp_cli *cli, const struct snp_opts *opts);
int snp_mcp_ask_prompts(struct snp_cli *cli, const struct snp_opts *opts);
int snp_mcp_ask_prompt(struct snp_cli *cli, const struct snp_opts *opts);

#endif
