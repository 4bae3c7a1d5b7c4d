/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_RESULT_H
#define SNP_DAEMON_SESSION_RESULT_H

/* Check a tier's messages about a cell against docs/result.md and docs/wire.md. Pure. */

#include "base/err.h"
#include "base/json.h"

/* The answer to `exec`. SNP_E_INVALID names the member. */
int snp_result_check(json_t *head, size_t raw_len, struct snp_err *err) SNP_NODISCARD;

/* A session's manifest, as in the answer to `open`; or a result's, if it has one. */
int snp_manifest_check(json_t *manifest, struct snp_err *err) SNP_NODISCARD;

/* An event of a cell: stdout, stderr, gap, display. */
int snp_event_check(json_t *head, size_t raw_len, struct snp_err *err) SNP_NODISCARD;

#endif
