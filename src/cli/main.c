/* SPDX-License-Identifier: Apache-2.0 */

/* snipara-sandbox: the tables of verbs, and the state a process needs before any of them. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cli/session/remote.h"
#include "base/cli/suite.h"
#include "base/str.h"
#include "cli/cli.h"

enum {
    VERBS_MAX = 64,
};

#define VERB_ADDRESS(name) &snp_verb_##name,
static const struct snp_verb *const runtime[] = {SNP_VERBS(VERB_ADDRESS) NULL};

/* Processes that a program started with the library (src/library/run.c); not listed. */
static const struct snp_verb serve_run = {.name = "serve-run", .program = "agent"};
static const struct snp_verb *const inner[] = {&serve_run, &snp_verb_serve_command, NULL};

/* Verbs of the runtime and of the suite in the order of --help: setup comes last. */
static const struct snp_verb *all[VERBS_MAX];

static const struct snp_verb *const *add_verbs(const struct snp_verb *const *verbs,
                                               const struct snp_verb *end,
                                               size_t *n)
{
    for (; *verbs != end; verbs++) {
        SNP_ASSERT(*n + 1 < VERBS_MAX);
        all[(*n)++] = *verbs;
    }
    return verbs;
}

static const struct snp_verb *const *all_verbs(void)
{
    size_t n = 0;
    const struct snp_verb *const *setup = add_verbs(runtime, &snp_verb_init, &n);

    (void)add_verbs(snp_suite_verbs(), NULL, &n);
    (void)add_verbs(setup, NULL, &n);
    return all;
}

/* The tables for a command line; those of the suite are read from a file only if needed. */
static const struct snp_verb *const *verbs_for(int argc, char *const *argv)
{
    const char *word = argc < 2 ? "" : argv[1];

    if (argc == 2 &&
        (snp_streq(word, serve_run.name) || snp_streq(word, snp_verb_serve_command.name))) {
        return inner;
    }
    for (size_t i = 0; runtime[i] != NULL; i++) {
        if (snp_streq(runtime[i]->name, word) && runtime[i] != &snp_verb_man &&
            runtime[i] != &snp_verb_completion) {
            return runtime;
        }
    }
    return all_verbs();
}

/* Open descriptors 0 to 2 if closed, so that no file gets their numbers. */
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
    snp_remote_over(&snp_transport_client);
    return snp_cli_run(verbs_for(argc, argv), argc, argv);
}
