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
 * {"tests", "errors", "given"} at the top level; NULL: the text is not TAP, or its plan does not
 * match its tests.
 */
json_t *snp_tap_read(const char *text, size_t n);

#endif
