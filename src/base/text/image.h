/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_TEXT_IMAGE_H
#define SNP_BASE_TEXT_IMAGE_H

/* Which image something is. */

#include <stddef.h>

/* "image/png", ... by the first bytes; NULL: none that is shown to anybody. Static. */
const char *snp_image_type(const char *bytes, size_t n);

#endif
