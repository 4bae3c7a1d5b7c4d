/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_BODY_H
#define SNP_GUEST_BODY_H

/*
 * The raw bytes of a request of the init protocol. Every read is checked; a short one sets bad
 * and gives 0 or "".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
    memcpy(&value, b->at, n); /* little-endian hosts only, as the wire is */
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

#endif
