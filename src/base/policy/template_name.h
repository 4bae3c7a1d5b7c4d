/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_POLICY_TEMPLATE_NAME_H
#define SNP_BASE_POLICY_TEMPLATE_NAME_H

/* The form of template names. Pure decisions. */

#include <stdbool.h>

#include "base/err.h"

enum {
    SNP_TEMPLATE_NAME_MAX = 31 /* bytes, without terminator */
};

/* Always there: base, data and plot. */
bool snp_template_is_builtin(const char *name);

/* SNP_E_INVALID explains why a text cannot be the name of a template, built in or added. */
int snp_template_name_check(const char *name, struct snp_err *err) SNP_NODISCARD;

/* The same for a new template: not built in, and not "venv", which is reserved for projects. */
int snp_template_new_name_check(const char *name, struct snp_err *err) SNP_NODISCARD;

#endif
