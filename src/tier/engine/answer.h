/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_ANSWER_H
#define SNP_TIER_ENGINE_ANSWER_H

/* Messages to the daemon: answers, errors and events. */

#include "base/err.h"
#include "base/json.h"

struct snp_supervisor;

/* Answer request id. head may be NULL ({}); it stays the caller's. */
void snp_answer_response(struct snp_supervisor *supervisor,
                         uint32_t id,
                         const json_t *head,
                         const char *raw,
                         size_t raw_len);
void snp_answer_error(struct snp_supervisor *supervisor, uint32_t id, const struct snp_err *err);

/* Send an event of request id. */
void snp_answer_event(struct snp_supervisor *supervisor,
                      uint32_t id,
                      const json_t *head,
                      const char *raw,
                      size_t raw_len);

/* Report that a session ended without a request. */
void snp_answer_gone(struct snp_supervisor *supervisor, const char *session, const char *reason);

/* Report that a detached process of a session ended; signal_name: NULL = it exited. */
void snp_answer_process(struct snp_supervisor *supervisor,
                        const char *session,
                        uint64_t process,
                        int64_t exit_code,
                        const char *signal_name);

#endif
