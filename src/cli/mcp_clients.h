/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_MCP_CLIENTS_H
#define SNP_CLI_MCP_CLIENTS_H

/* The configurations of MCP clients, and what to write into them. */

#include "cli/cli.h"

/* Print the snippet for a client; the exit status. */
int snp_mcp_client_print(const struct snp_cli *cli, const char *name);

#endif
