/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_JOB_H
#define SNP_MCP_SERVER_JOB_H

/* Background work: started with background=true, queried with job_poll. */

#include "mcp/server/sandboxes.h"

struct snp_job {
    char id[24]; /* "job-1": short, because models copy it; all clients share sessions too */
    struct snp_task *task; /* NULL: ended */
    json_t *result;        /* owned: of tools/call, after the end */
    bool is_cancelled;
    uint64_t started_us;
    struct snp_job *next;
};

/*
 * A new job at the end of the list; the oldest ended one is dropped if there are too many. NULL:
 * all run.
 */
struct snp_job *snp_job_new(struct snp_mcp_sandboxes *service, struct snp_task *task);
struct snp_job *snp_job_find(const struct snp_mcp_sandboxes *service, const char *id);
/* End a job with this result of tools/call (consumed; NULL = out of memory). */
void snp_job_end(struct snp_job *job, bool is_cancelled, json_t *result);
/* "job-1 (12 s)" */
void snp_job_text(const struct snp_job *job, char *text, size_t size);
void snp_jobs_done(struct snp_mcp_sandboxes *service);

#endif
