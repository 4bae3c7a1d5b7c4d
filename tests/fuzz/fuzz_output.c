/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program writes, in pieces of any size: the first two bytes are the limit of characters
 * and the size of a piece. However it comes in pieces, the same is counted and shown: a
 * beginning and an end, no more characters than the limit, and the number of those left out.
 */
#include <string.h>

#include "fuzz/target.h"
#include "tier/engine/stream/output.h"

struct shown {
    struct snp_buf bytes;
    size_t head_len; /* of these before the gap */
    uint64_t omitted;
    uint64_t chars;
    uint64_t counted;
};

static void take(void *data, const char *bytes, size_t n)
{
    struct shown *shown = data;

    SNP_ASSERT(n > 0 && snp_buf_add(&shown->bytes, bytes, n) == 0);
}

static void gap(void *data, uint64_t chars)
{
    struct shown *shown = data;

    SNP_ASSERT(chars > 0 && shown->omitted == 0);
    shown->head_len = shown->bytes.len;
    shown->omitted = chars;
}

static void show(const char *bytes, size_t n, uint64_t limit, size_t piece, struct shown *shown)
{
    struct snp_spools none = {.folder = "/nonexistent"};
    const struct snp_output_keeper keeper = {&none, "0123456789abcdef0123456789abcdef", 1,
                                             "stdout"};
    struct snp_output out;

    *shown = (struct shown){0};
    snp_buf_init(&shown->bytes, n + 1);
    snp_output_init(&out, limit, &keeper);
    for (size_t at = 0; at < n; at += piece) {
        snp_output_feed(&out, bytes + at, n - at < piece ? n - at : piece, take, shown);
    }
    SNP_ASSERT(out.bytes == n && out.chars <= n && out.chars >= n / 4);
    SNP_ASSERT(snp_output_finish(&out, take, shown, gap) == shown->omitted);
    shown->chars = out.chars;
    snp_output_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct shown pieces;
    struct shown whole;
    const char *text = (const char *)bytes + 2;
    const char *got;
    uint64_t limit;

    if (n < 2) {
        return 0;
    }
    limit = bytes[0];
    n -= 2;
    show(text, n, limit, 1 + bytes[1], &pieces);
    show(text, n, limit, n + 1, &whole);
    SNP_ASSERT(pieces.chars == whole.chars && pieces.omitted == whole.omitted);
    SNP_ASSERT(pieces.bytes.len == whole.bytes.len);
    got = snp_buf_bytes(&pieces.bytes);
    if (pieces.omitted == 0) {
        SNP_ASSERT(pieces.chars <= limit && pieces.bytes.len == n &&
                   (n == 0 || memcmp(got, text, n) == 0));
    } else {
        size_t tail = pieces.bytes.len - pieces.head_len;
        SNP_ASSERT(pieces.chars > limit && pieces.chars - pieces.omitted <= limit);
        SNP_ASSERT(pieces.bytes.len < n && pieces.head_len == whole.head_len);
        SNP_ASSERT(pieces.head_len == 0 || memcmp(got, text, pieces.head_len) == 0);
        SNP_ASSERT(tail == 0 || memcmp(got + pieces.head_len, text + n - tail, tail) == 0);
    }
    snp_buf_done(&pieces.bytes);
    snp_buf_done(&whole.bytes);
    return 0;
}
