/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_RESULT_H
#define SNP_DAEMON_SESSION_RESULT_H

/* Is what a tier says of a cell what docs/result.md and docs/wire.md allow? Pure. */

#include "base/err.h"
#include "base/json.h"

/* The answer to `exec`. SNP_E_INVALID names the member. */
int snp_result_check(json_t *head, size_t raw_len, struct snp_err *err) SNP_NODISCARD;

/* A session's manifest, as in the answer to `open`; of a result, if it has one of its own. */
int snp_manifest_check(json_t *manifest, struct snp_err *err) SNP_NODISCARD;

/* An event of a cell: stdout, stderr, gap, display. */
int snp_event_check(json_t *head, size_t raw_len, struct snp_err *err) SNP_NODISCARD;

#endif
