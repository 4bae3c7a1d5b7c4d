/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_EXEC_H
#define SNP_DAEMON_EXEC_H

/*
 * Cells: waiting for their turn in a session, and running in the tier. One cell at a time runs in a session, in the order they came.
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

struct snp_exec;
struct snp_request;
struct snp_session;

/* The request `exec`; head has passed snp_exec_record. The request is taken over. */
void snp_exec_start(struct snp_request *request, json_t *head, const char *raw, size_t raw_len);

/*
 * Stop a cell: a waiting one is answered at once, a running one is interrupted by its
 * tier. request: of the method `interrupt`; taken over.
 */
void snp_exec_interrupt(struct snp_exec *exec, struct snp_request *request);

/* The client of the cell has gone: a waiting one is dropped, an unnamed session ends. */
void snp_exec_abandon(struct snp_exec *exec);

/* Start the next cell of a session if it is free for it. */
void snp_exec_pump(struct snp_session *session);

/* Fail all cells that wait for a session; true if there was any. */
bool snp_exec_fail_waiting(struct snp_session *session, const struct snp_err *err);

#endif
