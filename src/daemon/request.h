/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_REQUEST_H
#define SNP_DAEMON_REQUEST_H

/*
 * Requests of clients. The code that works on a request owns it, and ends it exactly once, by
 * snp_request_answer, snp_request_pass or snp_request_fail. A disconnect does not end requests:
 * they lose their client, and their answers are dropped.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct snp_peer;
struct snp_request;

/* NULL, and err: SNP_E_PEER = the client broke the protocol. */
struct snp_request *snp_request_new(struct snp_peer *peer, uint32_t id, struct snp_err *err);

/* Send an ERROR that belongs to no open request. */
void snp_peer_fail(struct snp_peer *peer, uint32_t id, const struct snp_err *err);

/* End a request with a RESPONSE. head: consumed, NULL = out of memory. */
void snp_request_answer(struct snp_request *request, json_t *head);
/* The same with JSON text, an object that has been checked. All borrowed. */
void snp_request_pass(struct snp_request *request,
                      const char *head,
                      size_t head_len,
                      const void *raw,
                      size_t raw_len);
/* End a request with an ERROR. */
void snp_request_fail(struct snp_request *request, const struct snp_err *err);
#define snp_request_refuse(request, code, ...)          \
    do {                                                \
        struct snp_err refusal_;                        \
        (void)snp_fail(&refusal_, (code), __VA_ARGS__); \
        snp_request_fail((request), &refusal_);         \
    } while (0)
/*
 * Allocate zeroed memory for handling a request; the caller owns it. NULL: out of memory, and the
 * request was ended.
 */
void *snp_request_state(struct snp_request *request, size_t n);
/* Send an EVENT; head is borrowed JSON text. */
void snp_request_event(struct snp_request *request,
                       const char *head,
                       size_t head_len,
                       const void *raw,
                       size_t raw_len);

#endif
