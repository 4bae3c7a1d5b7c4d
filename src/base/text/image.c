/* SPDX-License-Identifier: Apache-2.0 */
/* Detect the type of an image by its first bytes, not by its name. */
#include "base/text/image.h"

#include <string.h>

#include "base/macro.h"

static const struct {
    const char *mime;
    size_t at;
    const char *bytes;
    size_t n;
} kinds[] = {
    {"image/png", 0, "\x89PNG\r\n\x1a\n", 8},
    {"image/jpeg", 0, "\xff\xd8\xff", 3},
    {"image/gif", 0, "GIF8", 4},
    {"image/webp", 8, "WEBP", 4},
};

const char *snp_image_type(const char *bytes, size_t n)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(kinds); i++) {
        if (n >= kinds[i].at + kinds[i].n &&
            memcmp(bytes + kinds[i].at, kinds[i].bytes, kinds[i].n) == 0) {
            return kinds[i].mime;
        }
    }
    return NULL;
}
