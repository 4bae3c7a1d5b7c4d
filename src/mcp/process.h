/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_PROCESS_H
#define SNP_MCP_PROCESS_H

/* Programs this layer starts: servers that our client asks, and runs of agents. */

#include <sys/types.h>

#include "base/err.h"

struct snp_mcp_process {
    const char *const *argv; /* NULL-terminated; the program is looked up in PATH */
    const char *const *env;  /* "NAME=value", NULL-terminated: all it gets */
    const char *cwd;         /* NULL = ours */
    int fds[3];              /* its standard input, output and error; it gets no others */
};

/*
 * Start it, in a session and process group of its own, with no signal blocked or ignored. The caller
 * reaps. SNP_E_NOT_FOUND: there is no such program or folder.
 */
int snp_mcp_process_start(const struct snp_mcp_process *process,
                          pid_t *ret,
                          struct snp_err *err) SNP_NODISCARD;

#endif
