/* SPDX-License-Identifier: Apache-2.0 */
/* Tool calls, shown. */
#include "cli/run/calls.h"

#include <string.h>

#include "base/buf.h"
#include "base/cli/term.h"
#include "base/str.h"
#include "base/text/text.h"

enum {
    BLOCK_MAX = 6000, /* characters; export has all */
    INLINE_MAX = 100, /* longest text beside its title, in bytes */
    GROWTH = 8,
};

/* Members only for the model or without news; members that are false are also left out. */
static const char *const unsaid[] = {"success", "untrusted", "execution_time_ms"};

static bool is_said(const char *name, const json_t *value)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(unsaid); i++) {
        if (strcmp(unsaid[i], name) == 0) {
            return false;
        }
    }
    return !json_is_null(value) && !json_is_false(value) &&
           !(json_is_string(value) && json_string_length(value) == 0);
}

void snp_run_block_show(FILE *stream, const char *title, const json_t *text)
{
    snp_autobuf struct snp_buf shown = {0};
    size_t n = json_string_length(text);
    const char *at;
    bool is_line;

    snp_buf_init(&shown, n * GROWTH + BLOCK_MAX);
    if (n == 0 || snp_text_add(&shown, json_string_value(text), n, BLOCK_MAX, NULL) < 0 ||
        shown.len == 0) {
        return;
    }
    at = snp_buf_bytes(&shown);
    shown.len -= at[shown.len - 1] == '\n' ? 1 : 0;
    is_line = shown.len <= INLINE_MAX && memchr(at, '\n', shown.len) == NULL;
    (void)fputs("  ", stream);
    (void)!snp_term_write(stream, title, strlen(title));
    (void)fputs(is_line ? ": " : ":\n", stream);
    for (size_t left = shown.len; left > 0;) {
        const char *end = memchr(at, '\n', left);
        size_t len = end == NULL ? left : (size_t)(end - at);

        (void)fputs(len == 0 || is_line ? "" : "    ", stream);
        (void)!snp_term_write(stream, at, len);
        (void)fputc('\n', stream);
        len += end == NULL ? 0 : 1;
        at += len;
        left -= len;
    }
}

static void members_show(FILE *stream, const json_t *object)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        snp_autofree char *text = json_is_string(value) ? NULL : snp_json_text(value);
        snp_autojson json_t *other = text == NULL ? NULL : json_string(text);

        if (strcmp(name, "error") == 0 && json_object_get(object, "traceback") != NULL &&
            strchr(json_is_string(value) ? json_string_value(value) : "\n", '\n') == NULL) {
            continue; /* it ends the traceback */
        }
        if (is_said(name, value)) {
            snp_run_block_show(stream, name, json_is_string(value) ? value : other);
        }
    }
}

void snp_run_call_show(FILE *stream, const json_t *call)
{
    (void)fputc('[', stream);
    (void)!snp_term_write(stream, snp_json_str(call, "name", "tool"),
                          strlen(snp_json_str(call, "name", "tool")));
    (void)fputs("]\n", stream);
    members_show(stream, json_object_get(call, "arguments"));
}

void snp_run_result_show(FILE *stream, const json_t *content)
{
    snp_autojson json_t *object = NULL;
    struct snp_err err;

    if (json_is_string(content) &&
        snp_json_parse(json_string_value(content), json_string_length(content), &object, &err) ==
            0 &&
        json_is_object(object)) {
        members_show(stream, object);
    } else {
        snp_run_block_show(stream, "result", content);
    }
}
