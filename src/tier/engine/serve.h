/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SERVE_H
#define SNP_TIER_ENGINE_SERVE_H

/* The server side of the tier protocol: reads the daemon's requests, sends answers and events. */

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/wire/frame.h"

struct snp_supervisor;

/* Handle one frame of the daemon. */
void snp_serve_frame(struct snp_supervisor *supervisor, const struct snp_frame *frame);

/* The names of its methods. New reference. */
json_t *snp_serve_methods(void);

#endif
