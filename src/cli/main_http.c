/* SPDX-License-Identifier: Apache-2.0 */

/* mcp-http: `snipara-sandbox mcp-serve --http` becomes it, by exec, with the same arguments. */

#include <signal.h>
#include <stddef.h>

#include "base/cli/session/remote.h"
#include "cli/mcp/serve.h"

int main(int argc, char **argv)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct snp_verb serve = snp_verb_mcp_serve;
    const struct snp_verb *const verbs[] = {&serve, NULL};

    serve.run = snp_mcp_http_verb;
    snp_remote_over(&snp_transport_client);
    return sigaction(SIGPIPE, &ignore, NULL) < 0 ? SNP_EXIT_FAILED : snp_cli_run(verbs, argc, argv);
}
