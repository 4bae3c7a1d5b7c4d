/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_MCP_ENTRY_H
#define SNP_CLI_MCP_ENTRY_H

/*
 * The entry of our server in a client's configuration: a command with the given options, or a URL;
 * and advice for the user.
 */

#include "base/json.h"
#include "cli/cli.h"

/* The variable that a client reads the bearer token from: no configuration holds the token. */
#define SNP_MCP_TOKEN_VARIABLE "SNIPARA_SANDBOX_MCP_TOKEN"

struct snp_mcp_entry {
    json_t *args;     /* owned: "mcp-serve" and the options */
    bool has_options; /* true if any options */
    char *url;        /* owned; NULL = the client starts the server */
    bool has_token;   /* with a URL: the server requires one */
};
void snp_mcp_entry_done(struct snp_mcp_entry *entry);
#define snp_autoentry snp_cleanup(snp_mcp_entry_done)

/*
 * Make the entry from the options of a verb with SNP_MCP_OPT_SERVED, `http`, `token-file` and
 * `no-token`. *ret is the caller's: snp_mcp_entry_done(). SNP_E_INVALID: an option's value.
 */
int snp_mcp_entry_make(struct snp_cli *cli,
                       const struct snp_opts *opts,
                       struct snp_mcp_entry *ret,
                       struct snp_err *err) SNP_NODISCARD;

/*
 * Print remaining steps on standard error, and a warning if a client will use another daemon than
 * this command. text: the configuration; anything it names is not repeated.
 */
void snp_mcp_entry_advise(const struct snp_cli *cli,
                          const struct snp_opts *opts,
                          const struct snp_mcp_entry *entry,
                          const char *text);

#endif
