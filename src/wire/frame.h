/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_WIRE_FRAME_H
#define SNP_WIRE_FRAME_H

/*
 * The frame every one of our streams is made of (docs/wire.md): a 16-byte header,
 * a JSON head and raw bytes. This file knows bytes, not meanings.
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
    uint32_t id;      /* request it belongs to; 0 = none */
    const char *head; /* borrowed from the buffer; JSON text, head_len bytes */
    size_t head_len;
    const char *raw; /* borrowed from the buffer */
    size_t raw_len;
};

/* Append one frame. SNP_E_LIMIT if it is over a cap or buf is full; then buf is unchanged. */
int snp_frame_write(struct snp_buf *buf, const struct snp_frame *frame) SNP_NODISCARD;

/*
 * Look at the front of buf. *ret_has says whether a whole frame is there; if so it is
 * described in *ret_frame, *ret_size is the bytes to consume when done with it.
 * body_max: this reader's cap (at most SNP_FRAME_BODY_MAX). SNP_E_PEER: the stream is
 * not ours or passes a cap; it cannot be resynchronised and must be closed.
 */
int snp_frame_peek(const struct snp_buf *buf,
                   size_t body_max,
                   struct snp_frame *ret_frame,
                   size_t *ret_size,
                   bool *ret_has,
                   struct snp_err *err) SNP_NODISCARD;

/*
 * Bytes that are still missing of the frame at the front, as far as is known: of its header, else
 * of its body; 0 = it is whole. What is there must have passed snp_frame_peek.
 */
size_t snp_frame_missing(const struct snp_buf *buf);

#endif
