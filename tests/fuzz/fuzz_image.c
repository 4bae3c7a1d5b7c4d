/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a template's image, as guest/thaw asks before it unmaps its own process: of what
 * passes, every run lies in mappings that it may write to, and no two overlap.
 */
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "fuzz/target.h"
#include "guest/image_check.h"

/* The next n records of that size; zeros where there are no more bytes. */
static void *take(const uint8_t **bytes, size_t *left, size_t n, size_t size)
{
    void *records = calloc(n + 1, size);
    size_t len = n * size < *left ? n * size : *left;

    SNP_ASSERT(records != NULL);
    memcpy(records, *bytes, len);
    *bytes += len;
    *left -= len;
    return records;
}

static void look(const struct snp_template_image_tables *t)
{
    for (uint64_t i = 0; i < t->image->n_runs; i++) {
        for (uint64_t at = t->runs[i].start; at < t->runs[i].start + t->runs[i].len;
             at += SNP_TEMPLATE_IMAGE_PAGE) {
            unsigned n = 0;
            for (uint64_t m = 0; m < t->image->n_maps; m++) {
                n += at >= t->maps[m].start && at < t->maps[m].end &&
                             t->maps[m].kind < SNP_TEMPLATE_IMAGE_SHARED && t->maps[m].has_runs != 0
                         ? 1
                         : 0;
            }
            SNP_ASSERT(n == 1);
        }
    }
    for (uint64_t i = 0; i < t->image->n_files; i++) {
        SNP_ASSERT(t->files[i].path + strlen(t->text + t->files[i].path) < t->image->text_len);
    }
}

/* First four counts, a byte each, so that small inputs have all tables. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct snp_template_image image = {.magic = SNP_TEMPLATE_IMAGE_MAGIC};
    struct snp_template_image_tables t = {.image = &image};
    void *tables[4];

    if (n < 6) {
        return 0;
    }
    image.n_maps = bytes[0] % 16;
    image.n_runs = bytes[1] % 16;
    image.n_files = bytes[2] % 8;
    image.text_len = bytes[3];
    image.bytes = (uint64_t)bytes[4] * SNP_TEMPLATE_IMAGE_PAGE;
    bytes += 6;
    n -= 6;
    SNP_ASSERT(snp_template_image_fits(&image));
    t.maps = tables[0] = take(&bytes, &n, image.n_maps, sizeof(*t.maps));
    t.runs = tables[1] = take(&bytes, &n, image.n_runs, sizeof(*t.runs));
    t.files = tables[2] = take(&bytes, &n, image.n_files, sizeof(*t.files));
    t.text = tables[3] = take(&bytes, &n, image.text_len, 1);
    if (snp_template_image_tables_fit(&t)) {
        look(&t);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(tables); i++) {
        free(tables[i]);
    }
    return 0;
}
