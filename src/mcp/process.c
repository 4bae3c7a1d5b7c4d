/* SPDX-License-Identifier: Apache-2.0 */
/* Starting programs. */
#include "mcp/process.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>

static int attributes_make(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    return posix_spawnattr_setsigmask(attributes, &none) |
           posix_spawnattr_setsigdefault(attributes, &all) |
           posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
}

int snp_mcp_process_start(const struct snp_mcp_process *process,
                          pid_t *ret,
                          struct snp_err *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int eno = 0;

    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    for (int fd = 0; fd < 3; fd++) {
        eno |= posix_spawn_file_actions_adddup2(&actions, process->fds[fd], fd);
    }
    if (process->cwd != NULL) {
        eno |= posix_spawn_file_actions_addchdir_np(&actions, process->cwd);
    }
    eno |= attributes_make(&attributes);
    eno = eno != 0 ? ENOMEM
                   : posix_spawnp(ret, process->argv[0], &actions, &attributes,
                                  (char *const *)(uintptr_t)process->argv,
                                  (char *const *)(uintptr_t)process->env);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    if (eno == ENOENT) {
        return snp_fail(err, SNP_E_NOT_FOUND, "there is no program '%.200s'%s",
                        process->argv[0],
                        process->cwd == NULL ? "" : ", or no such working directory");
    }
    return eno == 0 ? 0 : snp_fail_sys(err, eno, "start %.200s", process->argv[0]);
}
