/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_POLICY_SESSION_NAME_H
#define SNP_BASE_POLICY_SESSION_NAME_H

/* The form of session names: chosen by people, or the session's id. */

#include <stdbool.h>

#include "base/err.h"

enum {
    SNP_SESSION_ID_LEN = 32,   /* lower-case hex digits */
    SNP_SESSION_NAME_MAX = 64, /* bytes */
};

/* True if text has the form of an id (32 lower-case hex digits). */
bool snp_session_is_id(const char *text);

/*
 * 1 to 64 characters of A-Z a-z 0-9 . _ -, not starting with '.' or '-'.
 * SNP_E_INVALID says which rule is broken. An id passes as well.
 */
int snp_session_name_check(const char *name, struct snp_err *err) SNP_NODISCARD;

#endif
