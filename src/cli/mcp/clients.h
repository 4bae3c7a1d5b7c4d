/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_MCP_CLIENTS_H
#define SNP_CLI_MCP_CLIENTS_H

/* Configurations of MCP clients, and our entries in them. */

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/mcp/entry.h"

/* Print the snippet for a client of `mcp-serve` with these options; the exit status. */
int snp_mcp_client_print(struct snp_cli *cli, const struct snp_opts *opts, const char *name);

/* The place of a client's configuration. */
struct snp_mcp_place {
    char *path;    /* owned; absolute */
    char *project; /* owned: the project of the file; NULL = the user's own file */
};
void snp_mcp_place_done(struct snp_mcp_place *place);
#define snp_autoplace snp_cleanup(snp_mcp_place_done)

/*
 * The file of a client. *ret is the caller's: snp_mcp_place_done(). SNP_E_INVALID: no such client.
 */
int snp_mcp_client_place(const char *name,
                         struct snp_mcp_place *ret,
                         struct snp_err *err) SNP_NODISCARD;

/*
 * Append to out the file, n bytes of text, with our entry put in. SNP_E_INVALID: the file cannot be
 * parsed and must be edited by hand, or the client does not support this.
 */
int snp_mcp_client_edit(const char *name,
                        const struct snp_mcp_entry *wanted,
                        const char *text,
                        size_t n,
                        struct snp_buf *out,
                        struct snp_err *err) SNP_NODISCARD;

#endif
