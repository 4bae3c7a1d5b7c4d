/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session/no_image.h"

#include <string.h>

/* No variable can have this name; src/guest/python/state.py writes it. */
#define IMAGE_NAME "image of memory"
#define IMAGE_TYPE "image"

bool snp_no_image_is(const json_t *row)
{
    return strcmp(snp_json_str(row, "name", ""), IMAGE_NAME) == 0 &&
           strcmp(snp_json_str(row, "type", ""), IMAGE_TYPE) == 0;
}

const char *snp_no_image_reason(const json_t *lost)
{
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)(uintptr_t)lost, i, one)
    {
        if (snp_no_image_is(one)) {
            return snp_json_str(one, "reason", NULL);
        }
    }
    return NULL;
}

void snp_no_image_drop(json_t *lost)
{
    for (size_t i = json_array_size(lost); i > 0; i--) {
        if (snp_no_image_is(json_array_get(lost, i - 1))) {
            (void)json_array_remove(lost, i - 1);
        }
    }
}
