/* SPDX-License-Identifier: Apache-2.0 */

/* context: `snipara-sandbox context ...` executes it with the same arguments. */

#include "cli/context/context.h"

#include <signal.h>
#include <stddef.h>

#include "cli/sandbox/sandbox.h"

#define COPY(name) struct snp_verb name = snp_verb_context_##name;
#define SET_RUN(name)                \
    (name).run = snp_context_##name; \
    (name).program = NULL;
#define COPY_ADDRESS(name) &(name),

int main(int argc, char **argv)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    SNP_CONTEXT_VERBS(COPY)
    const struct snp_verb *const below[] = {SNP_CONTEXT_VERBS(COPY_ADDRESS) NULL};
    struct snp_verb context = snp_verb_context;
    const struct snp_verb *const verbs[] = {&context, NULL};
    int exit_code = SNP_EXIT_FAILED;

    SNP_CONTEXT_VERBS(SET_RUN)
    context.verbs = below;
    context.program = NULL;
    snp_context_verbs = verbs;
    snp_remote_over(&snp_sandbox_transport);
    if (sigaction(SIGPIPE, &ignore, NULL) == 0) {
        exit_code = snp_cli_run(verbs, argc, argv);
    }
    snp_context_verbs = NULL;
    return exit_code;
}
