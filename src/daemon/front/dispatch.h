/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_FRONT_DISPATCH_H
#define SNP_DAEMON_FRONT_DISPATCH_H

/* The methods of the client protocol: one table, one row each. */

#include "base/err.h"
#include "base/json.h"
#include "base/wire/record.h"
#include "daemon/server.h"

struct snp_method_form;

/*
 * Find the row for a request's head, and check its members and the size of its raw bytes.
 * SNP_E_UNSUPPORTED: no such method (with the nearest name); SNP_E_INVALID: a wrong member. Pure.
 */
int snp_method_check(json_t *head,
                     size_t raw_len,
                     const struct snp_method_form **ret,
                     struct snp_err *err) SNP_NODISCARD;

/* Handle a request, which is taken over. head is borrowed. */
void snp_dispatch(struct snp_request *request, json_t *head, const char *raw, size_t raw_len);

#endif
