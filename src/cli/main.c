/* SPDX-License-Identifier: Apache-2.0 */

/* snipara-sandbox: the table of verbs, and the state a process needs before any of them. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

/* In the order of --help. */
/* clang-format off */
static const struct snp_verb *const verbs[] = {
    &snp_verb_exec,
    &snp_verb_sessions,
    &snp_verb_snapshot,
    &snp_verb_snapshots,
    &snp_verb_rollback,
    &snp_verb_fork,
    &snp_verb_diff,
    &snp_verb_history,
    &snp_verb_show,
    &snp_verb_rerun,
    &snp_verb_checkpoint,
    &snp_verb_hibernate,
    &snp_verb_export,
    &snp_verb_import,
    &snp_verb_gc,
    &snp_verb_template,
    &snp_verb_put,
    &snp_verb_get,
    &snp_verb_ls,
    &snp_verb_output,
    &snp_verb_models,
    &snp_verb_run,
    &snp_verb_agent,
    &snp_verb_resume,
    &snp_verb_replay,
    &snp_verb_runs,
    &snp_verb_logs,
    &snp_verb_visualize,
    &snp_verb_init,
    &snp_verb_trust,
    &snp_verb_config,
    &snp_verb_doctor,
    &snp_verb_daemon,
    &snp_verb_mcp_serve,
    &snp_verb_mcp_install,
    &snp_verb_mcp,
    &snp_verb_version,
    &snp_verb_completion,
    &snp_verb_man,
    NULL,
};
/* clang-format on */

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
    return snp_cli_run(verbs, argc, argv);
}
