/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SERVE_H
#define SNP_TIER_ENGINE_SERVE_H

/* The tier protocol's other end: requests of the daemon in, answers and events out. */

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "wire/frame.h"

struct snp_supervisor;

/* Handle one frame of the daemon. */
void snp_serve_frame(struct snp_supervisor *supervisor, const struct snp_frame *frame);

/* The names of its methods. New reference. */
json_t *snp_serve_methods(void);

/* Answer request id. head may be NULL ({}); it stays the caller's. */
void snp_serve_response(struct snp_supervisor *supervisor,
                        uint32_t id,
                        const json_t *head,
                        const char *raw,
                        size_t raw_len);
void snp_serve_error(struct snp_supervisor *supervisor, uint32_t id, const struct snp_err *err);

/* An event of request id. */
void snp_serve_event(struct snp_supervisor *supervisor,
                     uint32_t id,
                     const json_t *head,
                     const char *raw,
                     size_t raw_len);

/* A session ended by itself. */
void snp_serve_gone(struct snp_supervisor *supervisor, const char *session, const char *reason);

#endif
