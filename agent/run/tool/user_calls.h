/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_TOOL_USER_CALLS_H
#define SNP_RUN_TOOL_USER_CALLS_H

/* Tool calls of a run for user tools (run/tool/usertool.h). */

#include "run/tool/usertool.h"

struct snp_run;

/* A begun call, until its result is recorded. */
struct snp_outside_call {
    struct snp_run *run;
    bool is_used;
    size_t index;              /* of the answer's calls */
    struct snp_usercall *call; /* NULL: it has ended, and the rest is set */
    uint64_t started_us;
    int64_t duration_ms;
    bool is_error;
    char *content; /* owned; NULL = out of memory */
    json_t *error; /* owned; or NULL */
};

#endif
