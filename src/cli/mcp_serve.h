/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_MCP_SERVE_H
#define SNP_CLI_MCP_SERVE_H

/*
 * What the two programs of `mcp-serve` share: snipara-sandbox itself, which serves standard input and
 * output, and mcp-http, which it becomes for --http: only that one loads the HTTP library, so that
 * nothing else starts later for it.
 */

#include "cli/cli.h"
#include "mcp/service.h"

/* Run one transport until it ends. ctx: as given to snp_mcp_serve. */
typedef int (*snp_mcp_transport)(struct snp_mcp_sandboxes *service,
                                 void *ctx,
                                 struct snp_err *err);

/* The verb's common part: configuration, project, service; then the transport, and the end. */
int snp_mcp_serve(struct snp_cli *cli,
                  const struct snp_opts *opts,
                  snp_mcp_transport transport,
                  void *ctx,
                  struct snp_err *err) SNP_NODISCARD;

/* What the verb runs in mcp-http. */
int snp_mcp_http_verb(struct snp_cli *cli, const struct snp_opts *opts);

#endif
