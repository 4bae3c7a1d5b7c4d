/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_NO_IMAGE_H
#define SNP_DAEMON_SESSION_NO_IMAGE_H

/*
 * The row in a checkpoint's list of unsaved state, [{name, type, reason}], with the reason why it
 * has no image of the memory, if one was wanted.
 */

#include <stdbool.h>

#include "base/json.h"

bool snp_no_image_is(const json_t *row);
/* Borrowed from lost; NULL: no such row. */
const char *snp_no_image_reason(const json_t *lost);
void snp_no_image_drop(json_t *lost);

#endif
