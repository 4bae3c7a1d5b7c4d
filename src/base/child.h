/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CHILD_H
#define SNP_BASE_CHILD_H

/*
 * Programs started outside any sandbox: MCP servers, commands that are tools, runs of agents. Each
 * gets a new session and process group, three descriptors, no blocked or ignored signals, and few
 * variables (so no API keys).
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
     * "NAME=value", NULL-terminated, in addition to the inherited HOME, LANG, LC_ALL, LOGNAME,
     * PATH, SHELL, TERM, TMPDIR, TZ and USER; snipara-sandbox also inherits the variables that name
     * its folders. NULL = none.
     */
    const char *const *env;
    bool has_only_env; /* inherit nothing, pass only env */
    const char *cwd;   /* NULL = ours */
    int fds[3];        /* its standard input, output and error */
};

/*
 * Start it. The caller reaps *ret, which is also its process group. SNP_E_NOT_FOUND: no such
 * program; SNP_E_SYS.
 */
int snp_child_start(const struct snp_child *child, pid_t *ret, struct snp_err *err) SNP_NODISCARD;

/*
 * The same with pipes; the caller owns the other ends, which do not block: ret_ends[0] writes to
 * its input, [1] and [2] read its output and errors. child->fds is ignored. On failure nothing is
 * open.
 */
int snp_child_start_piped(const struct snp_child *child,
                          int ret_ends[3],
                          pid_t *ret,
                          struct snp_err *err) SNP_NODISCARD;

/* A program whose output is being read. */
struct snp_child_output {
    pid_t pid;
    int fd; /* owned */
};

/* Start it without input; its standard error is discarded. child->fds is ignored. */
int snp_child_output_begin(const struct snp_child *child,
                           struct snp_child_output *ret,
                           struct snp_err *err) SNP_NODISCARD;

/*
 * Read its output to the end and append it to ret; its process group is killed. SNP_E_PEER: it
 * failed, did not end within that many ms, or printed more than ret has room for.
 */
int snp_child_output_end(struct snp_child_output *output,
                         unsigned ms,
                         struct snp_buf *ret,
                         struct snp_err *err) SNP_NODISCARD;

/* A descriptor that becomes readable when the process ends; the caller owns it. -1 with errno. */
int snp_child_watch(pid_t pid) SNP_NODISCARD;

/*
 * If the process has ended: kill the rest of its group, reap it, set *ret_status as waitpid() does
 * and return true. Until then it stays unreaped, so its number cannot be reused.
 */
bool snp_child_reap(pid_t pid, int *ret_status);

#endif
