/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory is bounded by the limit, for any output; each byte costs a scan for the character count
 * and, beyond the limit, one write.
 */
#include "tier/engine/stream/output.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fd.h"

enum {
    TAIL_SLACK = 256 << 10
};

/* Does c begin a character? pending: bytes missing from the previous one. */
static bool begins_char(uint8_t *pending, unsigned char c)
{
    if ((c & 0xc0U) == 0x80 && *pending > 0) {
        (*pending)--;
        return false;
    }
    *pending = c >= 0xc2 && c <= 0xdf   ? 1
               : (c & 0xf0U) == 0xe0    ? 2
               : c >= 0xf0 && c <= 0xf4 ? 3
                                        : 0;
    return true;
}

static uint64_t count_chars(const char *bytes, size_t n, uint8_t *pending)
{
    const uint64_t high_bits = 0x8080808080808080U;
    uint64_t chars = 0;
    uint64_t word;
    size_t i = 0;

    while (i < n) {
        if (n - i >= sizeof(word)) {
            memcpy(&word, bytes + i, sizeof(word));
            if ((word & high_bits) == 0) {
                *pending = 0;
                chars += sizeof(word);
                i += sizeof(word);
                continue;
            }
        }
        chars += begins_char(pending, (unsigned char)bytes[i++]) ? 1 : 0;
    }
    return chars;
}

/* Length of the first `chars` characters (n if there are fewer). */
static size_t prefix_len(const char *bytes, size_t n, uint64_t chars, uint8_t pending)
{
    size_t i = 0;

    while (i < n && (!begins_char(&pending, (unsigned char)bytes[i]) || chars-- > 0)) {
        i++;
    }
    return i;
}

/* Bytes of the tail that hold the characters to show, in any alignment. */
static size_t tail_bytes(const struct snp_output *out)
{
    return 4 * (size_t)(out->limit_chars - out->limit_chars / 2) + 3;
}

void snp_output_init(struct snp_output *out,
                     uint64_t limit_chars,
                     const struct snp_output_keeper *keeper)
{
    *out = (struct snp_output){.limit_chars = limit_chars, .keeper = *keeper};
    snp_buf_init(&out->head, 4 * limit_chars + TAIL_SLACK);
    snp_buf_init(&out->tail, 4 * limit_chars + 4 * (size_t)TAIL_SLACK);
}

void snp_output_done(struct snp_output *out)
{
    snp_buf_done(&out->head);
    snp_buf_done(&out->tail);
    snp_spool_done(SNP_TAKE_PTR(out->spool));
    (void)XXH64_freeState(SNP_TAKE_PTR(out->hash));
}

static void spool(struct snp_output *out, const char *bytes, size_t n)
{
    if (out->hash != NULL) {
        (void)XXH64_update(out->hash, bytes, n);
    }
    if (out->spool != NULL) {
        snp_spool_add(out->keeper.spools, out->spool, bytes, n);
    }
}

static void start_spool(struct snp_output *out)
{
    const struct snp_output_keeper *keeper = &out->keeper;

    if (out->was_spooled) {
        return;
    }
    out->was_spooled = true;
    out->hash = XXH64_createState();
    if (out->hash != NULL) {
        (void)XXH64_reset(out->hash, 0);
    }
    out->spool = snp_spool_new(keeper->spools, keeper->owner, keeper->cell, keeper->stream);
    spool(out, snp_buf_bytes(&out->head), out->head.len);
    spool(out, snp_buf_bytes(&out->tail), out->tail.len);
    snp_buf_done(&out->head);
}

void snp_output_feed(
    struct snp_output *out, const char *bytes, size_t n, snp_output_sink sink, void *data)
{
    uint64_t half = out->limit_chars / 2;
    uint8_t before = out->pending;
    size_t now = out->tail.len == 0 ? prefix_len(bytes, n, half - out->head_chars, before) : 0;
    size_t most = tail_bytes(out);

    out->bytes += n;
    out->chars += count_chars(bytes, n, &out->pending);
    if (snp_output_is_cut(out)) {
        start_spool(out);
        spool(out, bytes, n);
    }
    if (now > 0) {
        out->head_chars += count_chars(bytes, now, &before);
        if (!out->was_spooled && snp_buf_add(&out->head, bytes, now) < 0) {
            snp_buf_clear(&out->head);
        }
        sink(data, bytes, now);
        bytes += now;
        n -= now;
    }
    if (n > most + TAIL_SLACK) { /* only its end can be shown */
        bytes += n - most;
        n = most;
        snp_buf_clear(&out->tail);
    }
    if (out->tail.len > most + TAIL_SLACK) {
        snp_buf_consume(&out->tail, out->tail.len - most);
    }
    if (n > 0 && snp_buf_add(&out->tail, bytes, n) < 0) {
        snp_buf_clear(&out->tail);
    }
}

uint64_t snp_output_hash(const struct snp_output *out)
{
    return out->hash == NULL ? 0 : XXH64_digest(out->hash);
}

uint64_t snp_output_finish(struct snp_output *out,
                           snp_output_sink sink,
                           void *data,
                           void (*gap)(void *data, uint64_t chars))
{
    uint64_t keep = out->limit_chars - out->limit_chars / 2;
    uint8_t pending = 0;
    uint64_t have = count_chars(snp_buf_bytes(&out->tail), out->tail.len, &pending);
    uint64_t omitted = 0;

    if (have > keep) {
        snp_buf_consume(&out->tail,
                        prefix_len(snp_buf_bytes(&out->tail), out->tail.len, have - keep, 0));
        have = keep;
    }
    if (out->chars > out->head_chars + have) {
        omitted = out->chars - out->head_chars - have;
        gap(data, omitted);
    }
    if (out->tail.len > 0) {
        sink(data, snp_buf_bytes(&out->tail), out->tail.len);
    }
    return omitted;
}
