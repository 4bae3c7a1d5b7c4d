/* SPDX-License-Identifier: Apache-2.0 */
/* Base64, for the binary parts of displays in JSON. */
#include "base/base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *snp_base64(const void *bytes, size_t n)
{
    const unsigned char *in = bytes;
    char *text = malloc(n / 3 * 4 + 5);
    char *out = text;
    size_t i;

    if (text == NULL) {
        return NULL;
    }
    for (i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t group = (uint32_t)in[i] << 16U;

        group |= left > 1 ? (uint32_t)in[i + 1] << 8U : 0U;
        group |= left > 2 ? (uint32_t)in[i + 2] : 0U;
        *out++ = digits[group >> 18U];
        *out++ = digits[group >> 12U & 63U];
        *out++ = left > 1 ? digits[group >> 6U & 63U] : '=';
        *out++ = left > 2 ? digits[group & 63U] : '=';
    }
    *out = '\0';
    return text;
}

unsigned char *snp_base64_decode(const char *text, size_t n, size_t *ret_n)
{
    unsigned char *bytes = malloc(n / 4 * 3 + 3);
    uint32_t group = 0;
    unsigned bits = 0;
    size_t len = 0;

    if (bytes == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n && text[i] != '='; i++) {
        const char *digit = strchr(digits, text[i]);

        group = group << 6U | (digit == NULL ? 0U : (uint32_t)(digit - digits));
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes[len++] = (unsigned char)(group >> bits & 255U);
        }
    }
    *ret_n = len;
    return bytes;
}

int snp_base64_take(const char *text, size_t n, struct snp_buf *out)
{
    uint32_t group = 0;
    size_t n_digits = 0;
    size_t n_pads = 0;

    for (size_t i = 0; i < n; i++) {
        const char *digit = memchr(digits, text[i], sizeof(digits) - 1);

        if (text[i] == '\n' || text[i] == '\r') {
            continue;
        }
        n_pads += text[i] == '=' ? 1 : 0;
        if ((digit == NULL && text[i] != '=') || (digit != NULL && n_pads > 0) || n_pads > 2) {
            return SNP_E_INVALID;
        }
        group = group << 6U | (digit == NULL ? 0U : (uint32_t)(digit - digits));
        if (++n_digits % 4 == 0) {
            const unsigned char bytes[] = {(unsigned char)(group >> 16U & 255U),
                                           (unsigned char)(group >> 8U & 255U),
                                           (unsigned char)(group & 255U)};
            int r = snp_buf_add(out, bytes, sizeof(bytes) - n_pads);

            if (r < 0) {
                return r;
            }
        }
    }
    return n_digits % 4 == 0 ? 0 : SNP_E_INVALID;
}
