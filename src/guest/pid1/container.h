/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_CONTAINER_H
#define SNP_GUEST_PID1_CONTAINER_H

/*
 * Pid 1 of a container. It gets its streams from the supervisor over a socket in a folder that is
 * shown to it. Where that leads nowhere there is only its standard input and output: a child, the
 * relay, makes of them the streams that pid 1 has elsewhere (guest/channels.h). When the relay
 * ends, the stream does, and so pid 1.
 */

#include <sys/types.h>

/*
 * Where the engine shows what is ours, and the folder that the copies of the workspace are kept in.
 */
#define SNP_CONTAINER_OURS   "/run/snipara"
#define SNP_CONTAINER_COPIES "/run/copies"

/*
 * The folder of that socket. Who connects receives a byte with its ends of: control stream,
 * standard output, standard error; and answers with a byte. It can be had once, before any
 * code runs.
 */
#define SNP_CONTAINER_LINE   "/run/line"
#define SNP_CONTAINER_SOCKET "s"
enum {
    SNP_CONTAINER_STREAMS = 3
};

/*
 * A variable of its environment: RLIMIT_DATA of what runs code, in bytes. Not a limit of the
 * container: runtimes written in Go do not start below about 100 MiB.
 */
#define SNP_CONTAINER_DATA "SNIPARA_SANDBOX_DATA"
/* The same of RLIMIT_AS: gVisor does not count what is mapped as data. */
#define SNP_CONTAINER_SPACE "SNIPARA_SANDBOX_SPACE"
/* RLIMIT_NOFILE; pid 1 itself needs more than a small one. */
#define SNP_CONTAINER_FILES "SNIPARA_SANDBOX_FILES"

/* Processes of ours that its pids limit has room for, beside pid 1. */
#define SNP_CONTAINER_ROOM "SNIPARA_SANDBOX_ROOM"

/*
 * Make the descriptors of pid 1 (guest/spec.h). The relay's number, 0 = none; ends the process when
 * that fails.
 */
pid_t snp_container_enter(void);

/* As the variable says; 0 = that is not held. */
unsigned snp_container_room(void);

/*
 * Hold room for n processes of ours, which code would take: that many threads of pid 1 do nothing.
 * One takes a moment to end, so who forks then tries again. Where there is no room for all of them
 * there are fewer, until it is called again.
 */
void snp_container_hold(unsigned n);

/*
 * For a process that runs code, before that: it has its limit, does not see the copies, and cannot
 * signal us. Where the kernel has no Landlock it can. -1 with errno.
 */
int snp_container_fence(void);

#endif
