/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pid1/reap.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "guest/pid1/command.h"
#include "guest/pid1/frame.h"
#include "guest/pid1/kill.h"
#include "guest/pid1/wire.h"

static void worker_done(struct snp_init *in, int status)
{
    const char worked[SNP_INIT_HEADER_LEN] = {[12] = SNP_FILES_WORKED};
    uint32_t eno = WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : EIO;

    in->worker = -1;
    snp_helper_tell(&in->helper, worked, sizeof(worked));
    if (in->is_unpacking) {
        snp_changes_rebase(in->changes);
    }
    snp_frame_send(SNP_INIT_REPLY, in->worker_reply, &eno, sizeof(eno));
}

void snp_reap(struct snp_init *in)
{
    struct rusage usage;
    pid_t *detached;
    bool has_reaped = false;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG | WUNTRACED | WCONTINUED, &usage)) > 0) {
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
            snp_sleepers_moved(&in->sleepers, pid, WIFSTOPPED(status));
        } else if (pid == in->interpreter) {
            in->interpreter = -1;
            snp_frame_send_exit(SNP_INIT_INTERPRETER, 0, status, &usage);
        } else if (pid == in->helper.pid) {
            /*
             * The next request to it ends us; a supervisor that ends a sandbox from outside may
             * kill in any order.
             */
            in->helper.pid = -1;
            in->sleepers.spared(in->sleepers.data, UINT32_MAX, pid, false);
        } else if (pid == in->command) {
            in->command = -1;
            if (in->is_stopped) { /* a shell's background processes ignore SIGINT */
                (void)snp_init_kill(-pid, SIGKILL);
            }
            snp_frame_send_exit(SNP_INIT_COMMAND_TARGET, in->command_id, status, &usage);
        } else if ((detached = snp_detached_slot(in, pid)) != NULL) {
            *detached = 0;
            snp_left_add(in, pid);
            snp_frame_send_exit(SNP_INIT_PROCESS_TARGET, (uint32_t)pid, status, &usage);
        } else {
            (void)snp_sleepers_reaped(&in->sleepers, pid);
            if (pid == in->worker) {
                worker_done(in, status);
            }
        }
        has_reaped = true;
    }
    if (has_reaped) {
        snp_left_look(in);
    }
}

void snp_look_round(struct snp_init *in)
{
    const pid_t other[] = {in->interpreter, in->command};

    snp_reap(in);
    snp_sleepers_look(&in->sleepers, other, SNP_ARRAY_LEN(other));
}
