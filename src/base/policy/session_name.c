/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of sessions. A name appears in messages, tables and SESSION:PATH arguments, so it contains
 * nothing that needs quoting, no ':' and no prefix of an option.
 */
#include "base/policy/session_name.h"

#include <string.h>

static const char name_bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz"
                                 "0123456789._-";

bool snp_session_is_id(const char *text)
{
    return strlen(text) == SNP_SESSION_ID_LEN &&
           strspn(text, "0123456789abcdef") == SNP_SESSION_ID_LEN;
}

int snp_session_name_check(const char *name, struct snp_err *err)
{
    size_t n = strnlen(name, SNP_SESSION_NAME_MAX + 1);
    char bad;

    if (n == 0) {
        return snp_fail(err, SNP_E_INVALID, "a session name cannot be empty");
    }
    if (n > SNP_SESSION_NAME_MAX) {
        return snp_fail(err, SNP_E_INVALID, "a session name has at most %d characters",
                        SNP_SESSION_NAME_MAX);
    }
    if (name[0] == '.' || name[0] == '-') {
        return snp_fail(err, SNP_E_INVALID, "a session name cannot start with '%c'", name[0]);
    }
    bad = name[strspn(name, name_bytes)];
    if (bad > ' ' && bad <= '~') {
        return snp_fail(err, SNP_E_INVALID,
                        "a session name has only letters, digits, '.', '_' and '-', no '%c'", bad);
    }
    if (bad != '\0') {
        return snp_fail(err, SNP_E_INVALID,
                        "a session name has only letters, digits, '.', '_' and '-', no %s",
                        bad == ' ' ? "blanks" : "other characters");
    }
    return 0;
}
