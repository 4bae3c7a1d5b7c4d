/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an image, as guest/thaw and the interpreter of a session ask before they replace
 * their memory: of what passes, every run lies in one mapping that they may write to, and no two
 * overlap.
 */
#include <sanitizer/asan_interface.h>
#include <string.h>

#include "base/macro.h"
#include "fuzz/target.h"
#include "guest/image.h"

static struct snp_image image;

static void look(void)
{
    const struct snp_image_vma *vmas = image.vmas;
    uint64_t last = 0;

    for (uint64_t i = 0; i < image.head.n_runs; i++) {
        const struct snp_image_run *run = &image.runs[i];
        unsigned n = 0;

        SNP_ASSERT(run->at >= last && run->len > 0);
        last = run->at + run->len;
        for (uint64_t m = 0; m < image.head.n_vmas; m++) {
            n += run->at >= vmas[m].start && last <= vmas[m].end &&
                         vmas[m].kind < SNP_IMAGE_SHARED && vmas[m].has_runs != 0
                     ? 1
                     : 0;
        }
        SNP_ASSERT(n == 1);
    }
    for (uint64_t i = 0; i < image.head.n_vmas; i++) {
        SNP_ASSERT(i == 0 || vmas[i].start >= vmas[i - 1].end);
        SNP_ASSERT(vmas[i].kind != SNP_IMAGE_SHARED || (vmas[i].prot & PROT_WRITE) == 0);
        SNP_ASSERT(!snp_image_has_file(&vmas[i]) || vmas[i].file < image.head.n_files);
    }
    for (uint64_t i = 0; i < image.head.n_files; i++) {
        const uint32_t path = image.files[i].path;
        SNP_ASSERT(path + strlen(image.text + path) < image.head.text_len);
    }
}

/* First five counts, a byte each, so that small inputs have all parts. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct iovec parts[SNP_IMAGE_PARTS];

    if (n < 6) {
        return 0;
    }
    ASAN_UNPOISON_MEMORY_REGION(&image, sizeof(image));
    image.head = (struct snp_image_head){.magic = SNP_IMAGE_MAGIC,
                                         .n_vmas = bytes[0] % 16,
                                         .n_files = bytes[2] % 8,
                                         .text_len = bytes[3],
                                         .n_runs = bytes[1] % 16,
                                         .bytes = bytes[4] * SNP_IMAGE_PAGE};
    bytes += 6;
    n -= 6;
    SNP_ASSERT(snp_image_fits(&image.head));
    (void)snp_image_parts(&image, parts);
    for (size_t i = 1; i < SNP_ARRAY_LEN(parts); i++) {
        char *end = i + 1 < SNP_ARRAY_LEN(parts) ? parts[i + 1].iov_base : (char *)(&image + 1);
        char *at = parts[i].iov_base;
        const size_t len = parts[i].iov_len < n ? parts[i].iov_len : n;

        memset(at, 0, parts[i].iov_len);
        memcpy(at, bytes, len);
        bytes += len;
        n -= len;
        at += parts[i].iov_len;
        ASAN_POISON_MEMORY_REGION(at, (size_t)(end - at));
    }
    if (snp_image_maps_fit(&image) && snp_image_runs_fit(&image)) {
        look();
    }
    SNP_ASSERT(!snp_template_image_fits(&image)); /* it has no process */
    return 0;
}
