/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Display untrusted text: terminal controls, and characters that reorder or hide text, are escaped.
 */
#include "base/text/escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

/* The length of the well-formed UTF-8 character at the front; 0 if there is none. */
static size_t character_length(const char *bytes, size_t n)
{
    for (size_t len = 1; len <= 4 && len <= n; len++) {
        if (snp_utf8_valid(bytes, len)) {
            return len;
        }
    }
    return 0;
}

static uint32_t decode(const char *bytes, size_t len)
{
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t point = (unsigned char)bytes[0] & masks[len];
    for (size_t i = 1; i < len; i++) {
        point = point << 6 | ((unsigned char)bytes[i] & 0x3f);
    }
    return point;
}

/* Characters that terminals interpret, reorder or hide (except joiners). */
static bool is_hostile(uint32_t point)
{
    static const struct {
        uint32_t first;
        uint32_t last;
    } ranges[] = {
        {0x00, 0x08},     {0x0b, 0x1f},     {0x7f, 0x9f},     {0x061c, 0x061c},
        {0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x2064},
        {0x2066, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(ranges); i++) {
        if (point >= ranges[i].first && point <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

/* Bytes at the front that need no escaping: usually all of the text. */
static size_t plain_length(const char *bytes, size_t n)
{
    size_t i = 0;
    while (i < n &&
           ((bytes[i] >= 0x20 && bytes[i] < 0x7f) || bytes[i] == '\n' || bytes[i] == '\t')) {
        i++;
    }
    return i;
}

int snp_escape(struct snp_buf *out, const char *bytes, size_t n)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n;) {
        size_t plain = plain_length(bytes + i, n - i);
        r = snp_buf_add(out, bytes + i, plain);
        i += plain;
        if (r < 0 || i == n) {
            break;
        }
        size_t len = character_length(bytes + i, n - i);
        uint32_t point = len == 0 ? 0 : decode(bytes + i, len);
        if (len == 0) {
            r = snp_buf_addf(out, "\\x%02x", (unsigned char)bytes[i]);
            len = 1;
        } else if (!is_hostile(point)) {
            r = snp_buf_add(out, bytes + i, len);
        } else if (point < 0x80) {
            r = snp_buf_addf(out, "\\x%02x", point);
        } else {
            r = snp_buf_addf(out, point > 0xffff ? "\\U%08x" : "\\u%04x", point);
        }
        i += len;
    }
    return r;
}

char *snp_shell_word(const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+,:@%";
    snp_autobuf struct snp_buf out = {0};
    int r;

    if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
        return strdup(text);
    }
    snp_buf_init(&out, 4 * strlen(text) + 3); /* each byte may be a quote; two around them and a
                                               * NUL */
    r = snp_buf_adds(&out, "'");
    for (const char *c = text; *c != '\0' && r == 0; c++) {
        r = *c == '\'' ? snp_buf_adds(&out, "'\\''") : snp_buf_add(&out, c, 1);
    }
    r = r < 0 ? r : snp_buf_adds(&out, "'");
    return r < 0 || snp_buf_cstr(&out) == NULL ? NULL : strdup(snp_buf_cstr(&out));
}
