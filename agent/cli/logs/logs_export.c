/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exported records of runs.
 *
 * Text of models and programs stays text: in Markdown its fence is longer than any run of backticks
 * in it. HTML is the page of runs (cli/logs/page.h).
 */
#include "cli/logs/logs_export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/cli.h"
#include "base/str.h"
#include "base/text/text.h"
#include "trajectory/reader.h"

enum {
    GROWTH = 8,
    FENCE_MIN = 3,
    DIFF_SHOWN = 160, /* characters of a side */
    DIFF_SAME = 80,   /* longest common beginning, in bytes, that is shown whole */
    DIFF_BEFORE = 40, /* bytes shown of a longer one */
};

int snp_logs_format(const char *name)
{
    static const char *const names[] = {"json", "md", "html"};

    for (int i = 0; i < (int)SNP_ARRAY_LEN(names); i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Text -------------------------------------------------------------------------------------- */

static int fenced_add(struct snp_buf *out, const char *text, size_t n)
{
    size_t longest = FENCE_MIN - 1;
    size_t run = 0;
    int r = 0;

    for (size_t i = 0; i < n; i++) {
        run = text[i] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    for (int side = 0; side < 2 && r == 0; side++) {
        for (size_t i = 0; i <= longest && r == 0; i++) {
            r = snp_buf_add(out, "`", 1);
        }
        r = r < 0 ? r : snp_buf_adds(out, "\n");
        if (side == 0 && r == 0) {
            r = snp_buf_add(out, text, n);
            r = r < 0 || (n > 0 && text[n - 1] == '\n') ? r : snp_buf_adds(out, "\n");
        }
    }
    return r < 0 ? r : snp_buf_adds(out, "\n");
}

/* A titled block of untrusted text, if there is any. */
static int block_add(struct snp_buf *out, const char *title, const json_t *text)
{
    snp_autobuf struct snp_buf clean = {0};
    size_t n = json_string_length(text);
    int r;

    if (n == 0) {
        return 0;
    }
    snp_buf_init(&clean, n * GROWTH + 1);
    r = snp_text_clean(&clean, json_string_value(text), n);
    if (r < 0 || clean.len == 0) {
        return r;
    }
    r = snp_buf_addf(out, "**%s**\n\n", title);
    return r < 0 ? r : fenced_add(out, snp_buf_bytes(&clean), clean.len);
}

/* Records ----------------------------------------------------------------------------------- */

/* Code of a call is shown as code, other arguments as JSON. */
static int call_add(struct snp_buf *out, const json_t *call)
{
    const json_t *arguments = json_object_get(call, "arguments");
    const json_t *code = json_object_get(arguments, "code");
    snp_autofree char *title = snp_format("Tool call: %.60s", snp_json_str(call, "name", "?"));
    snp_autofree char *text = snp_json_text(arguments);
    snp_autojson json_t *shown = text == NULL ? NULL : json_string(text);
    bool is_plain = title != NULL && strpbrk(title, "<>&`*\n") == NULL;

    return block_add(out, is_plain ? title : "Tool call", json_is_string(code) ? code : shown);
}

static int event_add(struct snp_buf *out, const json_t *event, size_t number)
{
    const json_t *list = json_object_get(event, "tool_calls");
    const json_t *results = json_object_get(event, "tool_results");
    int r = snp_buf_addf(out, "## Call %zu (depth %lld, %lld tokens in, %lld out, %lld ms)\n\n",
                         number, (long long)snp_json_int(event, "depth", 0),
                         (long long)snp_json_int(event, "input_tokens", 0),
                         (long long)snp_json_int(event, "output_tokens", 0),
                         (long long)snp_json_int(event, "duration_ms", 0));
    size_t i;
    json_t *item;

    r = r < 0 ? r : block_add(out, "Prompt", json_object_get(event, "prompt"));
    r = r < 0 ? r : block_add(out, "Response", json_object_get(event, "response"));
    r = r < 0 ? r : block_add(out, "Error", json_object_get(event, "error"));
    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        const json_t *result = json_array_get(results, i);
        bool is_error = snp_json_bool(result, "is_error", false);

        r = r < 0 ? r : call_add(out, item);
        r = r < 0 ? r
                  : block_add(out, is_error ? "Tool result (error)" : "Tool result",
                              json_object_get(result, "content"));
    }
    return r;
}

static bool is_safe_id(const char *id)
{
    return strspn(id, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-") ==
           strlen(id);
}

static int end_add(struct snp_buf *out, const json_t *end)
{
    int r = snp_buf_adds(out, "## End\n\n");

    r = r < 0 ? r
              : block_add(out, "Answer", json_object_get(json_object_get(end, "final"), "answer"));
    r = r < 0 ? r : block_add(out, "Partial", json_object_get(end, "partial"));
    return r < 0 ? r : block_add(out, "Error", json_object_get(end, "error"));
}

static int markdown_make(struct snp_buf *out, const json_t *records)
{
    const char *id = snp_json_str(json_array_get(records, 0), "trajectory_id", "");
    size_t number = 0;
    size_t i;
    json_t *record;
    int r = snp_buf_addf(out, "# Run %s\n\n", is_safe_id(id) ? id : "");

    json_array_foreach((json_t *)(uintptr_t)records, i, record)
    {
        const json_t *end = json_object_get(record, "end");

        if (r < 0) {
            break;
        }
        if (snp_trajectory_is_event(record)) {
            r = event_add(out, record, ++number);
        } else if (snp_trajectory_is_head(record) && end != NULL) {
            r = end_add(out, end);
        }
    }
    return r;
}

int snp_logs_export(const json_t *records,
                    enum snp_logs_format format,
                    struct snp_buf *out,
                    struct snp_err *err)
{
    snp_autofree char *text = format == SNP_LOGS_JSON ? json_dumps(records, JSON_INDENT(2)) : NULL;
    int r = format != SNP_LOGS_JSON ? markdown_make(out, records)
            : text == NULL          ? SNP_E_NOMEM
                                    : snp_buf_addf(out, "%s\n", text);

    return r < 0 ? snp_fail(err, r, "the export needs more than %d MiB", SNP_LOGS_EXPORT_MAX >> 20)
                 : 0;
}

/* Compared ---------------------------------------------------------------------------------- */

/* The result of a cell without its time, which always differs. New reference. */
static json_t *timeless(const json_t *text)
{
    snp_autojson json_t *object = NULL;
    snp_autofree char *rest = NULL;
    struct snp_err ignored;

    if (!json_is_string(text) ||
        snp_json_parse(json_string_value(text), json_string_length(text), &object, &ignored) < 0 ||
        json_object_del(object, "execution_time_ms") < 0) {
        return json_incref((json_t *)(uintptr_t)text);
    }
    rest = snp_json_text(object);
    return rest == NULL ? NULL : json_string(rest);
}

/* Calls or results without ids, which always differ. */
static json_t *calls_bare(const json_t *event, const char *list, const char *id)
{
    json_t *bare = json_deep_copy(json_object_get(event, list));
    size_t i;
    json_t *call;

    json_array_foreach(bare, i, call)
    {
        json_t *content = timeless(json_object_get(call, "content"));

        (void)json_object_del(call, id);
        if (content != NULL) {
            (void)json_object_set_new(call, "content", content);
        }
    }
    return bare;
}

/* Parts of events that are compared; new references. */
static json_t *part(const json_t *event, size_t which)
{
    switch (which) {
    case 0:
        return timeless(json_object_get(event, "prompt"));
    case 1:
        return json_incref(json_object_get(event, "response"));
    case 2:
        return calls_bare(event, "tool_calls", "id");
    default:
        return calls_bare(event, "tool_results", "tool_call_id");
    }
}

/* As one text; the caller frees. */
static char *side_text(const json_t *value)
{
    return json_is_string(value) ? strdup(json_string_value(value))
           : value == NULL       ? strdup("nothing")
                                 : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
}

/* Start of the shown part of a text: a little before the first difference. */
static size_t start_of(const char *a, const char *b)
{
    size_t n = 0;

    while (a[n] != '\0' && a[n] == b[n]) {
        n++;
    }
    n = n <= DIFF_SAME ? 0 : n - DIFF_BEFORE;
    while (n > 0 && ((unsigned char)a[n] & 0xc0U) == 0x80) {
        n--; /* not inside a character */
    }
    return n;
}

static void side_print(char sign, const char *text, size_t start)
{
    snp_autobuf struct snp_buf line = {0};

    snp_buf_init(&line, (size_t)DIFF_SHOWN * GROWTH * 2 + 16);
    if (snp_text_line(&line, text + start, strnlen(text + start, (size_t)DIFF_SHOWN * 2),
                      DIFF_SHOWN) == 0) {
        (void)printf("  %c %s%s\n", sign, start > 0 ? "..." : "",
                     line.len == 0 ? "" : snp_buf_cstr(&line));
    }
}

static void difference_print(const json_t *in_a, const json_t *in_b)
{
    snp_autofree char *a = side_text(in_a);
    snp_autofree char *b = side_text(in_b);
    size_t start = a == NULL || b == NULL ? 0 : start_of(a, b);

    side_print('-', a == NULL ? "" : a, start);
    side_print('+', b == NULL ? "" : b, start);
}

int snp_logs_diff(const json_t *a, const json_t *b, bool is_json)
{
    static const char *const parts[] = {"prompt", "response", "tool_calls", "tool_results"};
    size_t n = json_array_size(a) > json_array_size(b) ? json_array_size(a) : json_array_size(b);
    snp_autojson json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        const json_t *of_a = json_array_get(a, i);
        const json_t *of_b = json_array_get(b, i);
        json_int_t number = (json_int_t)i + 1;

        for (size_t which = 0; which < SNP_ARRAY_LEN(parts); which++) {
            snp_autojson json_t *in_a = part(of_a, which);
            snp_autojson json_t *in_b = part(of_b, which);

            if (in_a == in_b || (in_a != NULL && in_b != NULL && json_equal(in_a, in_b))) {
                continue;
            }
            (void)json_array_append_new(list,
                                        json_pack("{s:I, s:s, s:O?, s:O?}", "call", number, "part",
                                                  parts[which], "a", in_a, "b", in_b));
            if (!is_json) {
                (void)printf("Call %zu, %s:\n", i + 1, parts[which]);
                difference_print(in_a, in_b);
            }
        }
    }
    if (is_json && snp_cli_print_json(list) != SNP_EXIT_OK) {
        return SNP_EXIT_FAILED;
    }
    if (!is_json && json_array_size(list) == 0) {
        (void)puts("no difference");
    }
    return json_array_size(list) == 0 ? SNP_EXIT_OK : SNP_EXIT_FAILED;
}
