/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CHILD_H
#define SNP_BASE_CHILD_H

/*
 * Programs that we start outside any sandbox: MCP servers, commands that are tools, runs of agents.
 * They get a session and process group of their own, three descriptors, no signal blocked or
 * ignored, and few variables, so none of our keys.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* All borrowed during the call. */
struct snp_child {
    /* the program, looked up in PATH, and its arguments; no shell sees it */
    const char *const *argv;
    /*
     * "NAME=value", NULL-terminated, besides HOME, LANG, LC_ALL, LOGNAME, PATH, SHELL, TERM,
     * TMPDIR, TZ and USER, the only ones of ours it gets; snipara-sandbox itself those too that say
     * where its folders are. NULL = none.
     */
    const char *const *env;
    bool has_only_env; /* none of these, only env */
    const char *cwd;   /* NULL = ours */
    int fds[3];        /* its standard input, output and error */
};

/*
 * Start it. *ret is to be reaped by the caller; its group has the same number. SNP_E_NOT_FOUND:
 * there is no such program; SNP_E_SYS.
 */
int snp_child_start(const struct snp_child *child, pid_t *ret, struct snp_err *err) SNP_NODISCARD;

/*
 * The same with pipes, whose other ends are the caller's: ret_ends[0] to write to it, the other two
 * to read its output and errors; none of them blocks. child->fds is not looked at. On failure
 * nothing is open.
 */
int snp_child_start_piped(const struct snp_child *child,
                          int ret_ends[3],
                          pid_t *ret,
                          struct snp_err *err) SNP_NODISCARD;

/* A program whose output is being taken. */
struct snp_child_output {
    pid_t pid;
    int fd; /* owned */
};

/* Start it; it has no input, and what it says of errors is lost. child->fds is not looked at. */
int snp_child_output_begin(const struct snp_child *child,
                           struct snp_child_output *ret,
                           struct snp_err *err) SNP_NODISCARD;

/*
 * All that it prints until its end, added to ret. Its group is gone afterwards. SNP_E_PEER: it
 * failed, had not ended after that many ms, or printed more than ret has room for.
 */
int snp_child_output_end(struct snp_child_output *output,
                         unsigned ms,
                         struct snp_buf *ret,
                         struct snp_err *err) SNP_NODISCARD;

/* A descriptor that is readable when it has ended; the caller's. -1 with errno. */
int snp_child_watch(pid_t pid) SNP_NODISCARD;

/*
 * If it has ended: kill what is left of its group, and reap it. True: it is gone, and *ret_status
 * is as of waitpid(). It stays unreaped until then, so its number names nothing else.
 */
bool snp_child_reap(pid_t pid, int *ret_status);

#endif
