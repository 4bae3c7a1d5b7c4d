/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_MCP_CLIENTS_H
#define SNP_CLI_MCP_CLIENTS_H

/* The configurations of MCP clients, and what to write into them. */

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/mcp/entry.h"

/* Print the snippet for a client of `mcp-serve` with these options; the exit status. */
int snp_mcp_client_print(struct snp_cli *cli, const struct snp_opts *opts, const char *name);

/* Where a client's configuration is. */
struct snp_mcp_place {
    char *path;    /* owned; absolute */
    char *project; /* owned: the folder that the file is of; NULL = the user's own file */
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
 * Append to out what the file, n bytes of text, is to be with us in it. SNP_E_INVALID: it cannot be
 * read, and is to be edited by hand; or the client cannot be told so.
 */
int snp_mcp_client_edit(const char *name,
                        const struct snp_mcp_entry *wanted,
                        const char *text,
                        size_t n,
                        struct snp_buf *out,
                        struct snp_err *err) SNP_NODISCARD;

#endif
