/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_TEXT_IMAGE_H
#define SNP_BASE_TEXT_IMAGE_H

/* Detect image types. */

#include <stddef.h>

/* "image/png", ... from the first bytes; NULL: not an image that is displayed. Static. */
const char *snp_image_type(const char *bytes, size_t n);

#endif
