/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both arguments are 32-bit values in 64-bit registers. The kernel ignores the upper halves, but
 * the filter sees them: they hold the secret.
 */
#include "guest/pid1/kill.h"

#include <unistd.h>
#include <sys/syscall.h>

#include "base/fd.h"

static uint64_t mark[2];

void snp_init_kill_secret(uint64_t secret)
{
    mark[0] = secret & 0xffffffff00000000U;
    mark[1] = secret << 32U;
}

int snp_init_kill(pid_t pid, int number)
{
    return (int)syscall(SYS_kill, mark[0] | (uint32_t)pid, mark[1] | (uint32_t)number);
}

int snp_init_send_fd(int sock, char byte, int fd)
{
    return snp_send_fds_marked(sock, &byte, 1, &fd, 1, mark[0] | mark[1] >> 32U);
}
