/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text/text.h"

void snp_say_done(struct snp_say *say)
{
    snp_buf_done(&say->buf);
}

void snp_say(struct snp_say *say, const char *fmt, ...)
{
    snp_autofree char *text = NULL;
    va_list args;

    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0) {
        text = NULL;
        say->r = SNP_E_NOMEM;
    }
    va_end(args);
    snp_say_bytes(say, text, text == NULL ? 0 : strlen(text));
}

void snp_say_bytes(struct snp_say *say, const char *bytes, size_t n)
{
    say->r = say->r < 0 || n == 0 ? say->r : snp_buf_add(&say->buf, bytes, n);
}

void snp_say_line(struct snp_say *say, const char *text, size_t max)
{
    say->r = say->r < 0 ? say->r : snp_text_line(&say->buf, text, strlen(text), max);
}

void snp_say_string(struct snp_say *say, const json_t *string, size_t max)
{
    if (say->r == 0 && json_is_string(string)) {
        say->r =
            snp_text_line(&say->buf, json_string_value(string), json_string_length(string), max);
    }
}

void snp_say_text(struct snp_say *say, const char *bytes, size_t n, size_t max)
{
    say->r = say->r < 0 ? say->r : snp_text_add(&say->buf, bytes, n, max, NULL);
}

const char *snp_say_cstr(struct snp_say *say)
{
    const char *text = say->r < 0 ? NULL : snp_buf_cstr(&say->buf);

    return text == NULL ? "" : text;
}
