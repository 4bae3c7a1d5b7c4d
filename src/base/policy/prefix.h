/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_POLICY_PREFIX_H
#define SNP_BASE_POLICY_PREFIX_H

/* Which folders of an interpreter may be shown inside a sandbox. Pure decisions. */

#include <stdbool.h>

#include "base/err.h"

/* Below /usr, which every sandbox shows: needs no mount. */
bool snp_prefix_is_system(const char *path);

/*
 * path: an interpreter's prefix or a virtual environment, all links resolved; home: also resolved,
 * or NULL. SNP_E_DENIED: '/', a home folder, or a folder that contains one, with a hint;
 * SNP_E_INVALID: not absolute.
 */
int snp_prefix_check(const char *path, const char *home, struct snp_err *err) SNP_NODISCARD;

/* The sandbox has other content at this path (/tmp, /proc, /workspace ...). */
bool snp_prefix_is_covered(const char *path);

#endif
