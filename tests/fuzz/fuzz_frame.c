/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame reader: hostile bytes, arriving in pieces. A frame that is read lies within
 * the buffer and, written again, gives the same bytes; its head goes through the JSON
 * reader as each real reader does it.
 */
#include <string.h>

#include "base/json.h"
#include "base/wire/frame.h"
#include "fuzz/target.h"

enum {
    BODY_MAX = 1 << 16
};

static void check_frame(const struct snp_buf *buf, const struct snp_frame *frame, size_t size)
{
    const char *bytes = snp_buf_bytes(buf);
    SNP_ASSERT(size == SNP_FRAME_HEADER_LEN + frame->head_len + frame->raw_len);
    SNP_ASSERT(size <= buf->len);
    SNP_ASSERT(frame->head == bytes + SNP_FRAME_HEADER_LEN);
    SNP_ASSERT(frame->raw == frame->head + frame->head_len);

    snp_autobuf struct snp_buf again;
    snp_buf_init(&again, size);
    SNP_ASSERT(snp_frame_write(&again, frame) == 0);
    SNP_ASSERT(again.len == size && memcmp(snp_buf_bytes(&again), bytes, size) == 0);

    struct snp_err err;
    snp_autojson json_t *head = NULL;
    if (snp_json_parse(frame->head, frame->head_len, &head, &err) == 0) {
        snp_autofree char *text = snp_json_text(head);
        SNP_ASSERT(text != NULL);
    }
}

/* Read all frames that are there; -1 when the stream is refused. */
static int drain(struct snp_buf *buf)
{
    for (;;) {
        struct snp_frame frame;
        struct snp_err err;
        size_t size = 0;
        bool has = false;
        int r = snp_frame_peek(buf, BODY_MAX, &frame, &size, &has, &err);
        if (r < 0) {
            SNP_ASSERT(r == SNP_E_PEER && err.code == SNP_E_PEER && !has);
            return -1;
        }
        if (!has) {
            return 0;
        }
        check_frame(buf, &frame, size);
        snp_buf_consume(buf, size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    snp_autobuf struct snp_buf buf;
    snp_buf_init(&buf, 2 * ((size_t)BODY_MAX + SNP_FRAME_HEADER_LEN));
    size_t piece = 1 + (n > 4 ? bytes[4] % 61U : 0);
    for (size_t at = 0; at < n; at += piece) {
        size_t len = n - at < piece ? n - at : piece;
        if (snp_buf_add(&buf, bytes + at, len) < 0 || drain(&buf) < 0) {
            break;
        }
    }
    return 0;
}
