/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of templates. A name becomes a file name in the state folder and a word of command lines,
 * so it contains no '/', starts with no '.' or '-' and needs no quoting.
 */
#include "base/policy/template_name.h"

#include <string.h>

#include "base/str.h"

static const char *const builtin[] = {"base", "data", "plot"};

bool snp_template_is_builtin(const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(builtin); i++) {
        if (snp_streq(builtin[i], name)) {
            return true;
        }
    }
    return false;
}

int snp_template_name_check(const char *name, struct snp_err *err)
{
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789._-";
    size_t n = strnlen(name, SNP_TEMPLATE_NAME_MAX + 1);

    if (n == 0 || n > SNP_TEMPLATE_NAME_MAX) {
        return snp_fail(err, SNP_E_INVALID, "a template's name has 1 to %d characters",
                        SNP_TEMPLATE_NAME_MAX);
    }
    if (name[0] == '.' || name[0] == '-' || strspn(name, bytes) != n) {
        return snp_fail(err, SNP_E_INVALID,
                        "a template's name has only letters, digits, '.', '_' and '-', and "
                        "cannot start with '.' or '-'");
    }
    return 0;
}

int snp_template_new_name_check(const char *name, struct snp_err *err)
{
    int r = snp_template_name_check(name, err);

    if (r == 0 && (snp_template_is_builtin(name) || snp_streq(name, "venv"))) {
        return snp_fail(err, SNP_E_INVALID,
                        "'%s' is built in: it can be neither replaced nor removed", name);
    }
    return r;
}
