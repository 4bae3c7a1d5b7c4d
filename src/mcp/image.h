/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_IMAGE_H
#define SNP_MCP_IMAGE_H

#include <stddef.h>

/* "image/png", ... by the first bytes; NULL: none that models are shown. Static. */
const char *snp_image_type(const char *bytes, size_t n);

#endif
