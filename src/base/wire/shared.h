/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_SHARED_H
#define SNP_BASE_WIRE_SHARED_H

/* Methods that the daemon and the process of a run have in common. */

#include "base/policy/session_name.h"
#include "base/wire/record.h"

struct snp_method_form {
    const struct snp_record *request; /* its `what` is the method's name */
    const struct snp_record *answer;  /* NULL = an object without members */
    size_t raw_max;                   /* bytes after the request */
    const char *text;                 /* its description, for docs/wire.md */
};

/* clang-format off */
#define SNP_HELLO_REQUEST(F, S) \
    F(S, INT,  version,   MUST,   0, 0, "protocol version: 1")
#define SNP_HELLO_ANSWER(F, S) \
    F(S, INT,  version,   MUST,   0, 0, "protocol version: 1") \
    F(S, STR,  program,   MUST,   0, 0, "version of the daemon") \
    F(S, INT,  pid,       MUST,   0, 0, "process id of the daemon") \
    F(S, INT,  uptime_ms, MUST,   0, 0, "time since the daemon started") \
    F(S, STR,  state_dir, OPT,    0, 0, "state folder of the daemon") \
    F(S, STR,  state_id,  OPT,    0, 0, "that folder as DEVICE:INODE, the same in every mount namespace")

#define SNP_INTERRUPT_REQUEST(F, S) \
    F(S, STR,  session,   OPT,    SNP_SESSION_NAME_MAX, 0, "id or name; give this or `request`") \
    F(S, INT,  request,   OPT,    UINT32_MAX, 0, "id of an open `exec` of this client")
#define SNP_INTERRUPT_ANSWER(F, S) \
    F(S, BOOL, interrupted, MUST, 0, 0, "true: a running or waiting cell was interrupted, and ends like a timeout")

#define SNP_ANSWER_REQUEST(F, S) \
    F(S, INT,  request,   MUST,   UINT32_MAX, 0, "id of an open `exec` of this client") \
    F(S, INT,  call,      MUST,   UINT32_MAX, 0, "number of the open call") \
    F(S, BOOL, ok,        MUST,   0, 0, "false: the code gets an exception")
#define SNP_ANSWER_ANSWER(F, S) \
    F(S, BOOL, answered,  MUST,   0, 0, "true: the call was still open")

#define SNP_SHARED_RECORDS(R) \
    R(snp_hello_request, "hello", SNP_HELLO_REQUEST, .tag = "method") \
    R(snp_hello_answer, "hello", SNP_HELLO_ANSWER) \
    R(snp_interrupt_request, "interrupt", SNP_INTERRUPT_REQUEST, .tag = "method") \
    R(snp_interrupt_answer, "interrupt", SNP_INTERRUPT_ANSWER) \
    R(snp_answer_request, "answer", SNP_ANSWER_REQUEST, .tag = "method") \
    R(snp_answer_answer, "answer", SNP_ANSWER_ANSWER)
SNP_SHARED_RECORDS(SNP_RECORD_DECLARE)
/* clang-format on */

#endif
