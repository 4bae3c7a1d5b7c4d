/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_CALL_H
#define SNP_DAEMON_CELL_CALL_H

/* Messages to a running cell: an interrupt, and answers to the calls of its code. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct snp_exec;
struct snp_request;
struct snp_session;
struct snp_tier_answer;

/* Have the tier interrupt the running cell. request: is answered; NULL = none. */
void snp_exec_interrupt_running(struct snp_session *session, struct snp_request *request);

/* A client's answer to a call of its cell's code. */
struct snp_exec_answer {
    uint32_t call;
    bool is_ok;
    const char *raw; /* borrowed */
    size_t raw_len;
};
/* request: of the method `answer`; taken over. */
void snp_exec_answer(struct snp_exec *exec,
                     const struct snp_exec_answer *answer,
                     struct snp_request *request);

/* Pass a call of the cell's code to the client; without a client the code gets an error. */
int snp_exec_call(struct snp_exec *exec,
                  const struct snp_tier_answer *event,
                  struct snp_err *ret_bad) SNP_NODISCARD;

/* The client has disconnected: fail the open call. */
void snp_exec_call_refuse(struct snp_exec *exec);

#endif
