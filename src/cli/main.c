/* SPDX-License-Identifier: Apache-2.0 */

/* snipara-sandbox: the table of verbs, and the state a process needs before any of them. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

#define VERB_ADDRESS(name) &snp_verb_##name,
static const struct snp_verb *const verbs[] = {SNP_VERBS(VERB_ADDRESS) NULL};
static const struct snp_verb *const inner[] = {&snp_verb_serve_run, NULL};

/* Descriptors 0 to 2 are open, so that no file is ever opened in their place. */
static int open_standard_fds(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            /* The lowest free number is fd itself; children need it, so no O_CLOEXEC. */
            if (open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) !=
                fd) { /* NOLINT(android-cloexec-open) */
                return -1;
            }
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (open_standard_fds() < 0 || sigaction(SIGPIPE, &ignore, NULL) < 0) {
        return SNP_EXIT_FAILED;
    }
    return snp_cli_run(argc == 2 && strcmp(argv[1], snp_verb_serve_run.name) == 0 ? inner : verbs,
                       argc, argv);
}
