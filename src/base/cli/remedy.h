/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_REMEDY_H
#define SNP_BASE_CLI_REMEDY_H

/* Remedies for an error, as options and commands. */

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

/* Append the words; nothing if there are none. */
int snp_cli_remedy_add(struct snp_buf *out, const struct snp_err *err) SNP_NODISCARD;

/* "MESSAGE; WORDS" as JSON. New reference. */
json_t *snp_cli_remedy_text(const struct snp_err *err);

/* The command that recovers lost cells of a session: "exec -s NAME --recover ...". */
int snp_cli_remedy_ways(struct snp_buf *out, int64_t ways, const char *session) SNP_NODISCARD;

#endif
