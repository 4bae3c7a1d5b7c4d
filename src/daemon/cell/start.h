/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_START_H
#define SNP_DAEMON_CELL_START_H

/* The queue of cells of a session: entering, leaving, starting the next one. */

#include <stddef.h>

#include "base/json.h"

struct snp_exec;
struct snp_request;
struct snp_session;

/* Handle the request `exec`; head has passed snp_exec_request_form. The request is taken over. */
void snp_exec_start(struct snp_request *request, json_t *head, const char *raw, size_t raw_len);

/*
 * Stop a cell: a waiting one is answered at once, a running one is interrupted by its tier.
 * request: of the method `interrupt`; taken over.
 */
void snp_exec_interrupt(struct snp_exec *exec, struct snp_request *request);

/* The cell's client has disconnected: a waiting cell is dropped, an unnamed session ends. */
void snp_exec_abandon(struct snp_exec *exec);

#endif
