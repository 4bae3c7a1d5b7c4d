/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_BODY_H
#define SNP_GUEST_BODY_H

/*
 * Requests of the init protocol, and their raw bytes. Every read is checked; a read past the end
 * sets bad and returns 0 or "".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "guest/pid1/wire.h"

struct snp_body {
    const char *at;
    const char *end;
    bool bad;
};

/* A number of n bytes, at most 8. */
static inline uint64_t snp_body_take(struct snp_body *b, size_t n)
{
    uint64_t value = 0;

    if ((size_t)(b->end - b->at) < n) {
        b->bad = true;
        return 0;
    }
    memcpy(&value, b->at, n); /* little-endian hosts only, as in the protocol */
    b->at += n;
    return value;
}

/* A string with its NUL, inside the body. */
static inline const char *snp_body_text(struct snp_body *b)
{
    const char *text = b->at;
    size_t n = strnlen(text, (size_t)(b->end - b->at));

    if (n == (size_t)(b->end - b->at)) {
        b->bad = true;
        return "";
    }
    b->at += n + 1;
    return text;
}

struct snp_guest_request {
    uint8_t type;
    uint32_t id;
    int fd;            /* passed with it, or -1 */
    const char *frame; /* as received */
    size_t frame_len;
    struct snp_body body;
};

/* Take the first request of in; false: it is incomplete. An oversized one ends the process. */
static inline bool snp_request_take(const struct snp_buf *in, struct snp_guest_request *ret)
{
    struct snp_body b = {.at = snp_buf_bytes(in), .end = snp_buf_bytes(in) + in->len};
    uint32_t len;

    if (in->len < SNP_INIT_HEADER_LEN) {
        return false;
    }
    *ret = (struct snp_guest_request){.fd = -1, .frame = b.at};
    len = (uint32_t)snp_body_take(&b, 4);
    ret->id = (uint32_t)snp_body_take(&b, 8);
    ret->type = (uint8_t)snp_body_take(&b, 4);
    ret->frame_len = SNP_INIT_HEADER_LEN + (size_t)len;
    ret->body = (struct snp_body){.at = b.at, .end = ret->frame + ret->frame_len};
    if (len > SNP_INIT_BODY_MAX) {
        _exit(1);
    }
    return in->len >= ret->frame_len;
}

#endif
