/* SPDX-License-Identifier: Apache-2.0 */

/*
 * visualize: `snipara-sandbox visualize` executes it to serve pages: only it loads the HTTP
 * library.
 */

#include "cli/logs/visualize.h"

#include <signal.h>
#include <stddef.h>

#include "cli/sandbox/sandbox.h"
#include "main/verbs.h"

int main(int argc, char **argv)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct snp_verb visualize = snp_verb_visualize;
    const struct snp_verb *const verbs[] = {&visualize, NULL};

    visualize.run = snp_visualize_http_verb;
    snp_remote_over(&snp_sandbox_transport);
    return sigaction(SIGPIPE, &ignore, NULL) < 0 ? SNP_EXIT_FAILED : snp_cli_run(verbs, argc, argv);
}
