/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_WIRE_FRAME_H
#define SNP_BASE_WIRE_FRAME_H

/*
 * The frame of all our streams (docs/wire.md): a 16-byte header, a JSON head and raw bytes. This
 * file handles bytes, not their meaning.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    SNP_FRAME_HEADER_LEN = 16,
    SNP_FRAME_HEAD_MAX = 4 << 20,  /* bytes of JSON */
    SNP_FRAME_BODY_MAX = 16 << 20, /* head + raw */
};

struct snp_frame {
    uint8_t type;
    uint32_t id;      /* of its request; 0 = none */
    const char *head; /* borrowed from the buffer; JSON text, head_len bytes */
    size_t head_len;
    const char *raw; /* borrowed from the buffer */
    size_t raw_len;
};

/* Append one frame. SNP_E_LIMIT if it exceeds a cap or buf is full; then buf is unchanged. */
int snp_frame_write(struct snp_buf *buf, const struct snp_frame *frame) SNP_NODISCARD;

/*
 * Parse the front of buf. *ret_has: a complete frame is there; then *ret_frame describes it, and
 * *ret_size is the number of bytes to consume after use. body_max: this reader's cap (at most
 * SNP_FRAME_BODY_MAX). SNP_E_PEER: the stream is invalid or exceeds a cap; it cannot be
 * resynchronised and must be closed.
 */
int snp_frame_peek(const struct snp_buf *buf,
                   size_t body_max,
                   struct snp_frame *ret_frame,
                   size_t *ret_size,
                   bool *ret_has,
                   struct snp_err *err) SNP_NODISCARD;

/*
 * Bytes known to be missing from the frame at the front: from its header, else from its body; 0 =
 * complete. The bytes must have passed snp_frame_peek.
 */
size_t snp_frame_missing(const struct snp_buf *buf);

#endif
