/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Showing a cell.
 *
 * Output is printed as it arrives, and also stored for JSON. A chunk may end inside a UTF-8
 * character; its beginning is held back until the rest comes, so that a terminal sees whole
 * characters. What ended the cell, what was denied and what changed gets one line each.
 */
#include "base/cli/session/result.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/nearby.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/text/hint.h"
#include "base/text/summary.h"
#include "base/wire/result.h"

enum {
    TEXT_MAX = 64 << 20, /* of one stream: the largest limit of output, in bytes */
    PENDING_MAX = 4,
    SAID_MAX = 16 << 10,
    DISPLAYS_MAX = 10000,
    NAMES_SHOWN = 5,
    LINE_MAX_BYTES = 16 << 10,
    TIMEOUT_EXIT = 124,
    SIGNAL_EXIT = 128,
};

/* File extensions of displays. Other types are saved as .bin, text as .txt. */
static const struct {
    const char *mime;
    const char *extension;
    bool is_text;
} types[] = {
    {"image/png", "png", false},       {"image/jpeg", "jpg", false},
    {"image/gif", "gif", false},       {"image/webp", "webp", false},
    {"image/svg+xml", "svg", true},    {"text/html", "html", true},
    {"text/markdown", "md", true},     {"text/latex", "tex", true},
    {"text/csv", "csv", true},         {"application/json", "json", true},
    {"application/pdf", "pdf", false}, {"application/javascript", "js", true},
};

static bool is_text_type(const char *mime)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(types); i++) {
        if (strcmp(types[i].mime, mime) == 0) {
            return types[i].is_text;
        }
    }
    return snp_has_prefix(mime, "text/") || snp_has_suffix(mime, "+json") ||
           snp_has_suffix(mime, "+xml");
}

static const char *extension_of(const char *mime)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(types); i++) {
        if (strcmp(types[i].mime, mime) == 0) {
            return types[i].extension;
        }
    }
    return is_text_type(mime) ? "txt" : "bin";
}

static FILE *file_of(enum snp_stream stream)
{
    return stream == SNP_STREAM_STDOUT ? stdout : stderr;
}

void snp_view_init(struct snp_view *view, bool is_live, const char *display_dir)
{
    *view =
        (struct snp_view){.is_live = is_live, .display_dir = display_dir, .at_line_start = true};
    for (int i = 0; i < SNP_STREAM_N; i++) {
        snp_buf_init(&view->text[i], TEXT_MAX);
        snp_buf_init(&view->pending[i], PENDING_MAX);
    }
    snp_buf_init(&view->said, SAID_MAX);
    view->displays = snp_need(json_array());
}

void snp_view_done(struct snp_view *view)
{
    for (int i = 0; i < SNP_STREAM_N; i++) {
        snp_buf_done(&view->text[i]);
        snp_buf_done(&view->pending[i]);
    }
    snp_buf_done(&view->said);
    json_decref(view->displays);
    view->displays = NULL;
}

/* Output ------------------------------------------------------------------------------- */

static void write_out(struct snp_view *view, enum snp_stream stream, const char *bytes, size_t n)
{
    if (n == 0) {
        return;
    }
    if (snp_term_write(file_of(stream), bytes, n) == 0 && stream == SNP_STREAM_STDOUT) {
        view->at_line_start = bytes[n - 1] == '\n';
    }
    (void)fflush(file_of(stream));
}

static void pending_flush(struct snp_view *view, enum snp_stream stream)
{
    struct snp_buf *pending = &view->pending[stream];

    write_out(view, stream, snp_buf_bytes(pending), pending->len);
    snp_buf_clear(pending);
}

/* Print a chunk; in a pipe bytes are unchanged. */
static void write_live(struct snp_view *view, enum snp_stream stream, const char *bytes, size_t n)
{
    struct snp_buf *pending = &view->pending[stream];
    size_t tail;

    if (!snp_term_is(file_of(stream))) {
        write_out(view, stream, bytes, n);
        return;
    }
    /* Complete the pending character. */
    while (pending->len > 0 && n > 0 && snp_utf8_begun(snp_buf_bytes(pending), pending->len) > 0 &&
           ((unsigned char)bytes[0] & 0xC0U) == 0x80U) {
        if (snp_buf_add(pending, bytes, 1) < 0) {
            break;
        }
        bytes++;
        n--;
    }
    if (n == 0 && snp_utf8_begun(snp_buf_bytes(pending), pending->len) > 0) {
        return;
    }
    pending_flush(view, stream);
    tail = snp_utf8_begun(bytes, n);
    write_out(view, stream, bytes, n - tail);
    if (snp_buf_add(pending, bytes + n - tail, tail) < 0) {
        write_out(view, stream, bytes + n - tail, tail);
    }
}

static int event_output(struct snp_view *view,
                        enum snp_stream stream,
                        const char *raw,
                        size_t raw_len,
                        struct snp_err *err)
{
    size_t room = SAID_MAX - view->said.len;
    int r;

    if (view->is_live) {
        write_live(view, stream, raw, raw_len);
        if (stream == SNP_STREAM_STDERR && view->argv != NULL && room > 0) {
            (void)!snp_buf_add(&view->said, raw, raw_len < room ? raw_len : room);
        }
        return 0;
    }
    r = snp_buf_add(&view->text[stream], raw, raw_len);
    return r < 0 ? snp_fail(err, (enum snp_code)r, "more than %d MiB of output", TEXT_MAX >> 20)
                 : 0;
}

static int event_gap(struct snp_view *view, const json_t *head, struct snp_err *err)
{
    SNP_READ(snp_event_gap, gap, head);
    enum snp_stream stream =
        snp_streq(gap.stream, "stderr") ? SNP_STREAM_STDERR : SNP_STREAM_STDOUT;

    if (!json_is_integer(json_object_get(head, "omitted_chars"))) {
        return snp_fail(err, SNP_E_PEER, "a gap without a size");
    }
    view->has_gap[stream] = true;
    view->gap_at[stream] = view->text[stream].len;
    view->gap_chars[stream] = gap.omitted_chars;
    if (view->is_live) {
        pending_flush(view, stream);
        (void)fprintf(file_of(stream), "\n... (%" PRIu64 " characters omitted) ...\n",
                      gap.omitted_chars);
        view->at_line_start = view->at_line_start || stream == SNP_STREAM_STDOUT;
    }
    return 0;
}

/* One part of a display as its value in JSON. New reference. */
static json_t *part_json(const char *mime, const char *bytes, size_t n)
{
    snp_autofree char *coded = NULL;

    if (is_text_type(mime)) {
        return snp_json_bytes(bytes, n);
    }
    coded = snp_need(snp_base64(bytes, n));
    return json_string(coded);
}

/* Print the plain text of a display on separate lines. */
static void write_plain(struct snp_view *view, const char *text, size_t n)
{
    pending_flush(view, SNP_STREAM_STDOUT);
    if (!view->at_line_start) {
        write_out(view, SNP_STREAM_STDOUT, "\n", 1);
    }
    write_out(view, SNP_STREAM_STDOUT, text, n);
    if (!view->at_line_start) {
        write_out(view, SNP_STREAM_STDOUT, "\n", 1);
    }
}

static int event_display(
    struct snp_view *view, const json_t *head, const char *raw, size_t raw_len, struct snp_err *err)
{
    snp_autojson json_t *bundle = json_object();
    const json_t *parts = json_object_get(head, "mime");
    size_t n = json_array_size(parts);
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        const json_t *part = json_array_get(parts, i);
        const char *mime = json_string_value(json_array_get(part, 0));
        json_int_t len = json_integer_value(json_array_get(part, 1));

        if (mime == NULL || len < 0 || (uint64_t)len > raw_len - at) {
            return snp_fail(err, SNP_E_PEER, "a display whose parts do not fit its bytes");
        }
        (void)json_object_set_new(bundle, mime, part_json(mime, raw + at, (size_t)len));
        if (view->is_live && strcmp(mime, "text/plain") == 0) {
            write_plain(view, raw + at, (size_t)len);
        }
        at += (size_t)len;
    }
    if (json_array_size(view->displays) >= DISPLAYS_MAX ||
        json_array_append(view->displays, bundle) < 0) {
        return snp_fail(err, SNP_E_LIMIT, "more than %d displays", DISPLAYS_MAX);
    }
    return 0;
}

static void notef(enum snp_style style, const char *label, const char *fmt, ...) SNP_PRINTF(3, 4);

/* Report why the session is busy, such as another running cell. */
static void event_waiting(const json_t *head)
{
    static const char *const doing[][2] = {{"save", "the session is being saved"},
                                           {"rollback", "the session is being rolled back"},
                                           {"start", "the session is being started"}};
    SNP_READ(snp_event_waiting, waiting, head);
    const char *what = "the session is busy";
    char running[64];
    char more[64] = "";

    for (size_t i = 0; i < SNP_ARRAY_LEN(doing); i++) {
        what = snp_streq(doing[i][0], waiting.why) ? doing[i][1] : what;
    }
    if (waiting.cell > 0) {
        (void)snprintf(running, sizeof(running), "cell %" PRIu64 " is running", waiting.cell);
        what = running;
    }
    if (waiting.ahead > 0) {
        (void)snprintf(more, sizeof(more), "; %" PRIu64 " more before this one", waiting.ahead);
    }
    notef(SNP_STYLE_YELLOW, "waiting", "%s (%.1f s so far)%s", what, (double)waiting.ms / 1000,
          more);
}

int snp_view_event(
    void *ctx, const json_t *head, const char *raw, size_t raw_len, struct snp_err *err)
{
    struct snp_view *view = ctx;
    const char *event = snp_json_str(head, "event", "");

    if (strcmp(event, "stdout") == 0) {
        return event_output(view, SNP_STREAM_STDOUT, raw, raw_len, err);
    }
    if (strcmp(event, "stderr") == 0) {
        return event_output(view, SNP_STREAM_STDERR, raw, raw_len, err);
    }
    if (strcmp(event, "gap") == 0) {
        return event_gap(view, head, err);
    }
    if (strcmp(event, "display") == 0) {
        return event_display(view, head, raw, raw_len, err);
    }
    if (strcmp(event, "waiting") == 0) {
        event_waiting(head);
        return 0;
    }
    return snp_fail(err, SNP_E_PEER, "the daemon sent an unknown event");
}

/* JSON --------------------------------------------------------------------------------- */

/* A stream's text with a marker where its middle was left out. */
static json_t *text_json(const struct snp_view *view, enum snp_stream stream, const char *handle)
{
    const struct snp_buf *text = &view->text[stream];
    const char *bytes = text->len == 0 ? "" : snp_buf_bytes(text);
    snp_autobuf struct snp_buf whole = {0};
    size_t at = view->gap_at[stream];
    int r;

    if (!view->has_gap[stream]) {
        return snp_json_bytes(bytes, text->len);
    }
    snp_buf_init(&whole, (size_t)TEXT_MAX + LINE_MAX_BYTES);
    r = snp_buf_add(&whole, bytes, at);
    r = r < 0 ? r
              : snp_buf_addf(&whole, "\n... (%" PRIu64 " characters omitted",
                             view->gap_chars[stream]);
    if (r == 0 && handle != NULL) {
        r = snp_buf_addf(&whole, "; full text: snipara-sandbox output %s%s", handle,
                         stream == SNP_STREAM_STDERR ? " --stderr" : "");
    }
    r = r < 0 ? r : snp_buf_adds(&whole, ") ...\n");
    r = r < 0 ? r : snp_buf_add(&whole, bytes + at, text->len - at);
    return r < 0 ? NULL : snp_json_bytes(snp_buf_bytes(&whole), whole.len);
}

/* A member of the result, from its source. New reference. */
static json_t *member_json(const struct snp_view *view, json_t *head, const char *name)
{
    static const char *const streams[] = {"stdout", "stderr"};
    const char *handle = snp_json_str(json_object_get(head, "output"), "handle", NULL);
    json_t *given = json_object_get(head, name);

    for (int i = 0; i < SNP_STREAM_N; i++) {
        if (strcmp(name, streams[i]) == 0 && (view->text[i].len > 0 || given == NULL)) {
            return text_json(view, (enum snp_stream)i, handle);
        }
    }
    if (strcmp(name, "displays") == 0 && (json_array_size(view->displays) > 0 || given == NULL)) {
        return json_incref(view->displays);
    }
    return given == NULL ? json_null() : json_incref(given);
}

json_t *snp_view_result(const struct snp_view *view, json_t *head)
{
    static const struct snp_record *const forms[] = {&snp_result_form, &snp_result_added_form};
    json_t *result = snp_need(json_object());

    snp_hints_fill(head, SNP_HINT_PERSON);
    /* The name stands beside the id; the loop sets both. */
    (void)json_object_set_new(result, "session", json_null());
    (void)json_object_set_new(result, "name", json_null());
    for (size_t i = 0; i < SNP_ARRAY_LEN(forms); i++) {
        for (size_t j = 0; j < forms[i]->n_fields; j++) {
            const struct snp_field *field = &forms[i]->fields[j];

            /* Leave out members that the daemon adds only when they apply. */
            if (forms[i] == &snp_result_form || (field->types & SNP_T_NULL) != 0) {
                (void)json_object_set_new(result, field->name,
                                          member_json(view, head, field->name));
            }
        }
    }
    (void)json_object_update_missing(result, head);
    return result;
}

/* For people ---------------------------------------------------------------------------- */

/* "label: text" on stderr; the label is ours, the text from the sandbox and printed on one line. */
static void note(enum snp_style style, const char *label, const char *text)
{
    snp_autofree char *shown = snp_term_line(text, strnlen(text, LINE_MAX_BYTES));

    snp_term_note(stderr, style, label, shown);
}

static void notef(enum snp_style style, const char *label, const char *fmt, ...)
{
    snp_autofree char *text = NULL;
    va_list args;

    va_start(args, fmt);
    (void)snp_need(vasprintf(&text, fmt, args) < 0 ? NULL : &args);
    va_end(args);
    note(style, label, text);
}

/* Whether a value with a rich form was displayed, with its text, just before it was returned. */
static bool was_displayed(const struct snp_view *view, const json_t *value)
{
    size_t n = json_array_size(view->displays);
    const json_t *last = n == 0 ? NULL : json_array_get(view->displays, n - 1);

    /* Figures left open are displayed after it. */
    while (n > 0 && json_object_size(last) == 2 && json_object_get(last, "image/png") != NULL) {
        n--;
        last = n == 0 ? NULL : json_array_get(view->displays, n - 1);
    }
    return json_equal(json_object_get(last, "text/plain"), value);
}

static void show_value(struct snp_view *view, const json_t *head)
{
    static const struct {
        const char *member;
        const char *before;
    } rows[] = {
        {"value", ""},
        {"result", "result = "},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        const json_t *value = json_object_get(head, rows[i].member);

        if (json_is_string(value) && !was_displayed(view, value)) {
            if (!view->at_line_start) {
                write_out(view, SNP_STREAM_STDOUT, "\n", 1);
            }
            write_out(view, SNP_STREAM_STDOUT, rows[i].before, strlen(rows[i].before));
            write_out(view, SNP_STREAM_STDOUT, json_string_value(value), json_string_length(value));
            write_out(view, SNP_STREAM_STDOUT, "\n", 1);
        }
    }
}

/* One result while it is printed. */
struct shown_result {
    struct snp_result result;
    struct snp_result_added added;
    struct snp_result_error error;
    struct snp_result_output output;
    const json_t *manifest; /* NULL = none */
};

static void shown_read(const json_t *head, struct shown_result *ret)
{
    snp_record_read(head, &snp_result_form, &ret->result);
    snp_record_read(head, &snp_result_added_form, &ret->added);
    snp_record_read(ret->result.error, &snp_result_error_form, &ret->error);
    snp_record_read(ret->result.output, &snp_result_output_form, &ret->output);
    ret->manifest = ret->result.manifest;
}

/* A claimed text; fallback if it is none. */
static const char *text_of(const json_t *text, const char *fallback)
{
    return json_is_string(text) ? json_string_value(text) : fallback;
}

static void show_error(struct snp_view *view, const struct shown_result *shown)
{
    const json_t *error = shown->result.error;
    const char *session = shown->added.name;
    const char *text = json_string_value(shown->error.traceback);
    size_t n = json_string_length(shown->error.traceback);
    snp_autofree char *nearby = snp_streq(shown->result.status, "ok") ? NULL
                                : view->argv != NULL
                                    ? snp_nearby_words(view->argv, &view->said, session)
                                    : snp_nearby_error(error, session);
    const char *hint = nearby != NULL ? nearby : text_of(shown->error.hint, NULL);

    if (n > 0) {
        write_out(view, SNP_STREAM_STDERR, text, n);
        write_out(view, SNP_STREAM_STDERR, "\n", text[n - 1] == '\n' ? 0 : 1);
    } else if (error != NULL) {
        notef(SNP_STYLE_RED, "error", "%s: %s", text_of(shown->error.type, "Error"),
              text_of(shown->error.message, ""));
    }
    if (hint != NULL) {
        note(SNP_STYLE_YELLOW, "hint", hint);
    }
}

static void show_end(const json_t *head, const struct shown_result *shown)
{
    snp_autofree char *end = snp_summary_end(head, SNP_HINT_PERSON);
    snp_autofree char *limit = snp_summary_limit(head, SNP_HINT_PERSON);

    if (end != NULL) {
        note(SNP_STYLE_RED, shown->result.status, end);
    }
    if (limit != NULL) {
        note(SNP_STYLE_YELLOW, "limit", limit);
    }
}

/*
 * Print lines of a summary and free them. A hint that is a sentence gets a line, a phrase ends its
 * line.
 */
static void show_lines(json_t *lines)
{
    size_t i;
    json_t *line;

    json_array_foreach(lines, i, line)
    {
        const char *part = snp_json_str(line, "part", "");
        bool is_dim =
            snp_streq(snp_json_str(line, "member", ""), "files") || snp_streq(part, "notes");
        const char *hint = snp_json_str(line, "hint", "");
        bool is_sentence = hint[0] >= 'A' && hint[0] <= 'Z';
        const char *label;
        const char *ignored;

        snp_summary_labels(line, &label, &ignored);
        notef(is_dim ? SNP_STYLE_DIM : SNP_STYLE_YELLOW, label, "%s%s%s",
              snp_json_str(line, "text", ""), hint[0] == '\0' || is_sentence ? "" : "; ",
              is_sentence ? "" : hint);
        if (is_sentence) {
            note(SNP_STYLE_YELLOW, "hint", hint);
        }
    }
    json_decref(lines);
}

/*
 * First in saved HTML: opened in a browser it requests nothing from the network. Scripts of plots
 * run, and can lead the page elsewhere.
 */
#define PAGE_HEAD                                                                               \
    "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" "      \
    "content=\"default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src "        \
    "'unsafe-inline'; img-src data: blob:; font-src data:; media-src data:; worker-src blob:; " \
    "form-action 'none'; base-uri 'none'\"><meta http-equiv=\"x-dns-prefetch-control\" "        \
    "content=\"off\">\n"

/* Decode what event_display encoded. */
static int display_write(const char *path,
                         const char *mime,
                         const json_t *part,
                         struct snp_err *err)
{
    const char *text = json_string_value(part);
    size_t n = json_string_length(part);
    snp_autofree unsigned char *bytes =
        is_text_type(mime) ? NULL : snp_need(snp_base64_decode(text, n, &n));
    snp_autofree char *page = NULL;

    if (snp_streq(mime, "text/html")) {
        text = page = snp_need_format("%s%s", PAGE_HEAD, text);
        n = strlen(page);
    }
    return snp_file_write_atomic(path, bytes != NULL ? (const char *)bytes : text, n, 0644, err);
}

static int display_save(
    const struct snp_view *view, int64_t cell, size_t number, json_t *bundle, struct snp_err *err)
{
    const char *mime;
    json_t *part;
    bool has_other = json_object_size(bundle) > 1;

    json_object_foreach(bundle, mime, part)
    {
        snp_autofree char *path = snp_need_format("%s/cell%" PRId64 "-%zu.%s", view->display_dir,
                                                  cell, number, extension_of(mime));

        if (has_other && strcmp(mime, "text/plain") == 0) {
            continue;
        }
        if (display_write(path, mime, part, err) < 0) {
            return err->code;
        }
        note(SNP_STYLE_DIM, "saved", path);
    }
    return 0;
}

int snp_view_save(const struct snp_view *view, const json_t *head, struct snp_err *err)
{
    size_t i;
    json_t *bundle;
    int r = json_array_size(view->displays) == 0 ? 0 : snp_mkdir_p(view->display_dir, 0755, err);

    json_array_foreach(view->displays, i, bundle)
    {
        r = r < 0 ? r : display_save(view, snp_json_int(head, "cell", 0), i + 1, bundle, err);
    }
    return r;
}

/* Report displays that text cannot show. */
static void displays_tell(const struct snp_view *view)
{
    snp_autobuf struct snp_buf text = {0};
    size_t count = 0;
    size_t i;
    json_t *bundle;

    snp_buf_init(&text, LINE_MAX_BYTES);
    json_array_foreach(view->displays, i, bundle)
    {
        const char *mime;
        json_t *part;

        json_object_foreach(bundle, mime, part)
        {
            size_t n = json_string_length(part);

            if (strcmp(mime, "text/plain") == 0) {
                continue;
            }
            n = is_text_type(mime) ? n : n / 4 * 3;
            count++;
            if (count <= NAMES_SHOWN && snp_buf_addf(&text, "%s%.100s, %s", count > 1 ? "; " : "",
                                                     mime, snp_human_bytes(n).text) < 0) {
                return;
            }
        }
    }
    if (count > 0 &&
        snp_buf_addf(&text, "%s; --display-dir DIR saves %s", count > NAMES_SHOWN ? " ..." : "",
                     count > 1 ? "them" : "it") == 0) {
        char label[48];

        (void)snprintf(label, sizeof(label), "%zu display%s", count, count > 1 ? "s" : "");
        note(SNP_STYLE_DIM, label, snp_need(snp_buf_cstr(&text)));
    }
}

/* Print the names of controls that are weaker than intended; the manifest has the reasons. */
static void show_degraded(const struct shown_result *shown)
{
    /* For a named session: with its first cell, and after it was restored. */
    bool is_told =
        shown->added.name != NULL && shown->result.cell > 1 && shown->added.restored == NULL;
    snp_autobuf struct snp_buf text = {0};
    size_t i;
    json_t *item;
    int r = 0;

    snp_buf_init(&text, LINE_MAX_BYTES);
    json_array_foreach(json_object_get(shown->manifest, "degraded"), i, item)
    {
        const char *reason = text_of(item, "");

        r = r < 0 ? r
                  : snp_buf_addf(&text, "%s%.*s", i == 0 ? "" : ", ", (int)strcspn(reason, ":"),
                                 reason);
    }
    r = r < 0 ? r
              : snp_buf_addf(&text, " (why: snipara-sandbox doctor --env %s)",
                             snp_json_str(shown->manifest, "tier", "auto"));
    if (i > 0 && r == 0 && !is_told) {
        note(SNP_STYLE_YELLOW, "degraded", snp_need(snp_buf_cstr(&text)));
    }
}

/* Print members worth a line, other than how the cell ended. */
static void show_rest(const struct snp_view *view,
                      const json_t *head,
                      const struct shown_result *shown)
{
    /* An unused virtual environment of the project. */
    const char *why = snp_json_str(shown->manifest, "venv_unused", NULL);

    if (view->display_dir == NULL) {
        displays_tell(view);
    }
    show_lines(snp_summary_files(head, NAMES_SHOWN));
    show_degraded(shown);
    if (why != NULL) {
        notef(SNP_STYLE_YELLOW, "python", "the project's .venv is not used: %s", why);
    }
}

int snp_view_finish(struct snp_view *view, json_t *head)
{
    struct shown_result shown;
    struct snp_err err;
    int r = 0;

    snp_hints_fill(head, SNP_HINT_PERSON);
    shown_read(head, &shown);
    pending_flush(view, SNP_STREAM_STDOUT);
    pending_flush(view, SNP_STREAM_STDERR);
    show_value(view, head);
    (void)fflush(stdout);
    show_error(view, &shown);
    show_end(head, &shown);
    if (shown.added.name != NULL) { /* an unnamed sandbox is gone with its code */
        show_lines(snp_summary_session(head, SIZE_MAX));
    }
    if (!view->is_quiet) {
        show_lines(
            snp_summary_denials(head, SNP_HINT_PERSON, text_of(shown.error.hint, NULL), SIZE_MAX));
    }
    if (shown.output.handle != NULL && !view->is_quiet) {
        notef(SNP_STYLE_DIM, "full output", "snipara-sandbox output %s", shown.output.handle);
    }
    if (view->display_dir != NULL && snp_view_save(view, head, &err) < 0) {
        notef(SNP_STYLE_RED, "display not saved", "%s", err.msg);
        r = -1;
    }
    if (!view->is_quiet) {
        show_rest(view, head, &shown);
    }
    return r;
}

/* Exit status ---------------------------------------------------------------------------- */

int snp_signal_number(const char *name)
{
    uint64_t number = 0;

    if (name == NULL || snp_parse_u64(name, &number) == 0) {
        return number < NSIG ? (int)number : 0;
    }
    name += snp_has_prefix(name, "SIG") ? 3 : 0;
    for (int i = 1; i < NSIG; i++) {
        if (snp_streq(sigabbrev_np(i), name)) {
            return i;
        }
    }
    return 0;
}

int snp_result_exit(const json_t *head, enum snp_exit_of of)
{
    SNP_READ(snp_result, result, head);
    const json_t *code = json_object_get(head, "exit_code");
    int signal_no = snp_signal_number(result.signal);
    int plain = snp_streq(result.status, "ok") ? 0 : 1;

    if (of == SNP_EXIT_OF_COMMAND && snp_streq(result.status, "timeout")) {
        return TIMEOUT_EXIT;
    }
    if (json_is_integer(code) && (of != SNP_EXIT_OF_PYTHON || snp_streq(result.status, "error"))) {
        int byte = (int)(json_integer_value(code) & 0xFF); /* as the kernel truncates it */

        return byte == 0 ? plain : byte;
    }
    return of == SNP_EXIT_OF_COMMAND && signal_no > 0 ? SIGNAL_EXIT + signal_no : plain;
}
