/* SPDX-License-Identifier: Apache-2.0 */

/*
 * mcp-http: what `snipara-sandbox mcp-serve --http` and `snipara-sandbox visualize` become, by
 * exec, with the same arguments.
 */

#include <signal.h>
#include <stddef.h>

#include "cli/mcp/serve.h"
#include "cli/run/visualize.h"

int main(int argc, char **argv)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct snp_verb serve = snp_verb_mcp_serve;
    struct snp_verb visualize = snp_verb_visualize;
    const struct snp_verb *const verbs[] = {&serve, &visualize, NULL};

    serve.run = snp_mcp_http_verb;
    visualize.run = snp_visualize_http_verb;
    return sigaction(SIGPIPE, &ignore, NULL) < 0 ? SNP_EXIT_FAILED : snp_cli_run(verbs, argc, argv);
}
