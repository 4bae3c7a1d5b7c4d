/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_TEXT_TRACEBACK_H
#define SNP_BASE_TEXT_TRACEBACK_H

/* Python tracebacks, for readers who can change the user's code only. */

#include <stddef.h>

#include "base/buf.h"

/*
 * Append a traceback without the frames of libraries, which are counted, and without newlines at
 * its end. *ret_frames: number of remaining frames. SNP_E_LIMIT or SNP_E_NOMEM of the buffer.
 */
int snp_traceback_own(struct snp_buf *out, const char *text, size_t n, size_t *ret_frames)
    SNP_NODISCARD;

#endif
