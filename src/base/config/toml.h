/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CONFIG_TOML_H
#define SNP_BASE_CONFIG_TOML_H

/*
 * TOML 1.0 to JSON. The only C++ module, because the library is C++; its interface is C, and no
 * exception leaves it.
 */

#include <stddef.h>

#include "base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snp_toml_fault {
    unsigned line; /* from 1; 0 = of the whole text (out of memory) */
    unsigned column;
    char text[256]; /* one line, NUL-terminated */
};

/*
 * Parse a whole document. Dates, times, infinities and NaN, which JSON lacks, become null. *ret is
 * a new reference. 0, or -1 with *fault filled.
 */
int snp_toml_parse(const char *text, size_t n, json_t **ret, struct snp_toml_fault *fault);

#ifdef __cplusplus
}
#endif

#endif
