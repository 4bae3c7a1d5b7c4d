/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_CONTAINER_H
#define SNP_GUEST_PID1_CONTAINER_H

/*
 * Pid 1 of a container. It receives its streams from the supervisor over a socket in a mounted
 * folder. Without a connection it has only standard input and output: a child, the relay, converts
 * these to the streams that pid 1 has in other tiers (guest/channels.h). When the relay ends, so
 * does the stream, and with it pid 1.
 */

#include <sys/types.h>

/* Mount points of our programs, and of the folder for copies of the workspace. */
#define SNP_CONTAINER_OURS   "/run/snipara"
#define SNP_CONTAINER_COPIES "/run/copies"

/*
 * The folder of that socket. A client receives a byte with its ends of: control stream, standard
 * output, standard error; and answers with a byte. Possible once, before any code runs.
 */
#define SNP_CONTAINER_LINE   "/run/line"
#define SNP_CONTAINER_SOCKET "s"
enum {
    SNP_CONTAINER_STREAMS = 3
};

/*
 * An environment variable: RLIMIT_DATA of processes with code, in bytes. Not a limit of the
 * container: runtimes written in Go need about 100 MiB to start.
 */
#define SNP_CONTAINER_DATA "SNIPARA_SANDBOX_DATA"
/* The same for RLIMIT_AS: gVisor does not count mappings as data. */
#define SNP_CONTAINER_SPACE "SNIPARA_SANDBOX_SPACE"
/* RLIMIT_NOFILE; pid 1 may need more. */
#define SNP_CONTAINER_FILES "SNIPARA_SANDBOX_FILES"

/* Our processes, besides pid 1, that its pids limit allows for. */
#define SNP_CONTAINER_ROOM "SNIPARA_SANDBOX_ROOM"

/*
 * Open the descriptors of pid 1 (guest/spec.h). Returns the relay's pid, 0 = none; ends the process
 * on failure.
 */
pid_t snp_container_enter(void);

/* The value of the variable; 0 = no reservation. */
unsigned snp_container_room(void);

/*
 * Reserve room for n of our processes, so that code cannot use it: as many threads of pid 1 sleep.
 * One takes a moment to end, so retry a failed fork. If there is no room for all, there are fewer
 * until the next call.
 */
void snp_container_hold(unsigned n);

/*
 * Confine a process before it runs code: it gets its limit, cannot see the copies, and cannot
 * signal us (unless the kernel lacks Landlock). -1 with errno.
 */
int snp_container_fence(void);

#endif
