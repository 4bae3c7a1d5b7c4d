/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agent: the verbs of the suite. snipara-sandbox executes it with the same arguments. `agent
 * --tables` prints the tables of its verbs, which the build writes to agent.json.
 */

#include <signal.h>

#include "base/cli/suite.h"
#include "base/str.h"
#include "cli/sandbox/sandbox.h"
#include "main/verbs.h"

#define VERB_ADDRESS(name) &snp_verb_##name,
static const struct snp_verb *const verbs[] = {SNP_SUITE_VERBS(VERB_ADDRESS) NULL};
static const struct snp_verb *const inner[] = {&snp_verb_serve_run, NULL};

int main(int argc, char **argv)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    if (argc == 2 && snp_streq(argv[1], "--tables")) {
        return snp_suite_print(verbs);
    }
    if (sigaction(SIGPIPE, &ignore, NULL) < 0) {
        return SNP_EXIT_FAILED;
    }
    snp_remote_over(&snp_sandbox_transport);
    return snp_cli_run(argc == 2 && snp_streq(argv[1], snp_verb_serve_run.name) ? inner : verbs,
                       argc, argv);
}
