/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/files/worker.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/macro.h"

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void close_others(const struct snp_shadow_place *place, int pipe_fd)
{
    int kept[] = {place->view_fd, place->layer_fd, place->base_fd, place->store_fd, pipe_fd};
    unsigned next = 3;

    qsort(kept, SNP_ARRAY_LEN(kept), sizeof(kept[0]), by_number);
    for (size_t i = 0; i < SNP_ARRAY_LEN(kept); i++) {
        unsigned fd = (unsigned)kept[i];
        if (kept[i] < (int)next) {
            continue; /* there is none, or it was kept already */
        }
        if (fd > next) {
            (void)syscall(SYS_close_range, next, fd - 1, 0);
        }
        next = fd + 1;
    }
    (void)syscall(SYS_close_range, next, ~0U, 0);
}

/* The kernel makes it a child of pid 1, which reaps it as any other and answers for it. */
pid_t snp_worker_fork(const struct snp_shadow_place *place, int pipe_fd)
{
    pid_t parent = getppid();
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != parent) {
            _exit(1);
        }
        (void)prctl(PR_SET_NAME, "worker", 0, 0, 0);
        close_others(place, pipe_fd);
    }
    return pid;
}
