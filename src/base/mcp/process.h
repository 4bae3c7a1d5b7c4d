/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_MCP_PROCESS_H
#define SNP_BASE_MCP_PROCESS_H

/*
 * A program that we start, its three pipes and its exit, watched by the loop. It stays unreaped
 * while its group is signalled, so its number cannot be reused; when it has exited, the rest of its
 * group is killed.
 */

#include <uv.h>
#include <sys/types.h>

#include "base/child.h"
#include "base/err.h"

enum {
    SNP_PROCESS_IN = 0, /* we write to it */
    SNP_PROCESS_OUT,
    SNP_PROCESS_ERRORS,
    SNP_PROCESS_ENDED, /* its pidfd */
    SNP_PROCESS_ENDS,
};

enum {
    SNP_PROCESS_SAID_MAX = 2048, /* bytes of the end of its standard error */
};

struct snp_process;

struct snp_process_end {
    struct snp_process *process;
    int fd;       /* owned; -1 = closed */
    bool is_open; /* poll is initialised and not closed */
    uv_poll_t poll;
};

/* Embedded. The caller sets the first members. */
struct snp_process {
    void *owner;
    void (*ready)(void *owner, int which); /* one of its ends is ready, while watched */
    void (*closed)(void *owner);           /* no handle is left: the memory may be freed */
    pid_t pid;                             /* -1 = reaped, or never started */
    int status;                            /* as of waitpid(), when pid is -1 */
    struct snp_process_end ends[SNP_PROCESS_ENDS];
    size_t n_handles; /* not closed yet */
    char said[SNP_PROCESS_SAID_MAX];
    size_t n_said;
};

/*
 * Start it; its output, errors and exit are watched. what: for messages. On failure nothing runs,
 * and `closed` is called from the loop if n_handles is above 0.
 */
int snp_process_start(struct snp_process *process,
                      uv_loop_t *loop,
                      const struct snp_child *child,
                      const char *what,
                      struct snp_err *err) SNP_NODISCARD;

/* Watch its input while there is something to write. */
void snp_process_watch_input(struct snp_process *process, bool is_wanted);

/*
 * Read bytes from an end; 0: none now, or end of file: then it is closed. Standard error is kept.
 */
size_t snp_process_read(struct snp_process *process, int which, char *bytes, size_t size);

void snp_process_end_close(struct snp_process *process, int which);
void snp_process_close(struct snp_process *process);

/* Signal its group. */
void snp_process_kill(const struct snp_process *process, int number);
/* Reap it if it has exited: true, and status is set. */
bool snp_process_reap(struct snp_process *process);

#endif
