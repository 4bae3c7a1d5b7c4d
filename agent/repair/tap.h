/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_REPAIR_TAP_H
#define SNP_REPAIR_TAP_H

/*
 * Test results that a program prints in the Test Anything Protocol. Only the program itself vouches
 * for them.
 */

#include <stddef.h>

#include "base/json.h"

/*
 * {"tests", "errors", "given"} of its top level; NULL: the text is no TAP, or its plan and its
 * tests differ.
 */
json_t *snp_tap_read(const char *text, size_t n);

#endif
