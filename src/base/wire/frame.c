/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame codec.
 *
 * Invariants: nothing beyond buf->len is read; every length in the header is checked before it is
 * used, as soon as the header is complete, so that a foreign stream is refused before its body is
 * awaited.
 */
#include "base/wire/frame.h"

#include <endian.h>
#include <string.h>

struct frame_header {
    uint32_t body_len;
    uint32_t id;
    uint32_t head_len;
    uint8_t type;
    uint8_t zero[3];
};

_Static_assert(sizeof(struct frame_header) == SNP_FRAME_HEADER_LEN, "as docs/wire.md says");

int snp_frame_write(struct snp_buf *buf, const struct snp_frame *frame)
{
    if (frame->head_len > SNP_FRAME_HEAD_MAX ||
        frame->raw_len > SNP_FRAME_BODY_MAX - frame->head_len) {
        return SNP_E_LIMIT;
    }
    size_t body_len = frame->head_len + frame->raw_len;
    struct frame_header header = {
        .body_len = htole32((uint32_t)body_len),
        .id = htole32(frame->id),
        .head_len = htole32((uint32_t)frame->head_len),
        .type = frame->type,
    };
    char *space = NULL;
    int r = snp_buf_reserve(buf, sizeof(header) + body_len, &space);
    if (r < 0) {
        return r;
    }
    memcpy(space, &header, sizeof(header));
    space += sizeof(header);
    if (frame->head_len > 0) {
        memcpy(space, frame->head, frame->head_len);
    }
    if (frame->raw_len > 0) {
        memcpy(space + frame->head_len, frame->raw, frame->raw_len);
    }
    snp_buf_commit(buf, sizeof(header) + body_len);
    return 0;
}

int snp_frame_peek(const struct snp_buf *buf,
                   size_t body_max,
                   struct snp_frame *ret_frame,
                   size_t *ret_size,
                   bool *ret_has,
                   struct snp_err *err)
{
    struct frame_header header;
    *ret_has = false;
    if (buf->len < sizeof(header)) {
        return 0;
    }
    const char *bytes = snp_buf_bytes(buf);
    memcpy(&header, bytes, sizeof(header));
    size_t body_len = le32toh(header.body_len);
    size_t head_len = le32toh(header.head_len);
    size_t most = body_max < SNP_FRAME_BODY_MAX ? body_max : SNP_FRAME_BODY_MAX;
    if (header.zero[0] != 0 || header.zero[1] != 0 || header.zero[2] != 0) {
        return snp_fail(err, SNP_E_PEER, "not a frame");
    }
    if (body_len > most) {
        return snp_fail(err, SNP_E_PEER, "frame of %zu bytes, at most %zu are read", body_len,
                        most);
    }
    if (head_len > body_len || head_len > SNP_FRAME_HEAD_MAX) {
        return snp_fail(err, SNP_E_PEER, "frame with a head of %zu bytes", head_len);
    }
    if (buf->len - sizeof(header) < body_len) {
        return 0;
    }
    *ret_frame = (struct snp_frame){
        .type = header.type,
        .id = le32toh(header.id),
        .head = bytes + sizeof(header),
        .head_len = head_len,
        .raw = bytes + sizeof(header) + head_len,
        .raw_len = body_len - head_len,
    };
    *ret_size = sizeof(header) + body_len;
    *ret_has = true;
    return 0;
}

size_t snp_frame_missing(const struct snp_buf *buf)
{
    struct frame_header header;
    size_t size;

    if (buf->len < sizeof(header)) {
        return sizeof(header) - buf->len;
    }
    memcpy(&header, snp_buf_bytes(buf), sizeof(header));
    size = sizeof(header) + le32toh(header.body_len);
    return size > buf->len ? size - buf->len : 0;
}
