/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Showing a cell.
 *
 * Output is printed as it comes and kept as well where JSON is wanted. A chunk may end inside a
 * UTF-8 character; its beginning is held back until the rest comes, so that a terminal sees
 * whole characters. What ended the cell, what was denied and what changed gets one line each.
 */
#include "cli/show/result.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/show/nearby.h"
#include "cli/show/term.h"
#include "text/escape.h"
#include "wire/frame.h"

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

static const char *const members[] = {
    "session",     "name",      "cell",     "epoch",           "status",    "state", "restored",
    "transaction", "exit_code", "signal",   "stdout",          "stderr",    "value", "result",
    "displays",    "error",     "denials",  "denials_dropped", "restarted", "limit", "usage",
    "output",      "files",     "manifest", "sources",
};

/* What a display is saved as. Types that are not here are saved as .bin, text as .txt. */
static const struct {
    const char *mime;
    const char *extension;
    bool is_text;
} types[] = {
    {"image/png",              "png",  false},
    {"image/jpeg",             "jpg",  false},
    {"image/gif",              "gif",  false},
    {"image/webp",             "webp", false},
    {"image/svg+xml",          "svg",  true },
    {"text/html",              "html", true },
    {"text/markdown",          "md",   true },
    {"text/latex",             "tex",  true },
    {"text/csv",               "csv",  true },
    {"application/json",       "json", true },
    {"application/pdf",        "pdf",  false},
    {"application/javascript", "js",   true },
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

int snp_view_init(struct snp_view *view, bool is_live, const char *display_dir)
{
    *view = (struct snp_view){
        .is_live = is_live, .display_dir = display_dir, .at_line_start = true};
    for (int i = 0; i < SNP_STREAM_N; i++) {
        snp_buf_init(&view->text[i], TEXT_MAX);
        snp_buf_init(&view->pending[i], PENDING_MAX);
    }
    snp_buf_init(&view->said, SAID_MAX);
    view->displays = json_array();
    return view->displays == NULL ? SNP_E_NOMEM : 0;
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

/* Bytes at the end that begin a UTF-8 character whose rest is missing: 0 to 3. */
static size_t unfinished(const char *bytes, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)bytes[n - back];

        if ((c & 0xC0U) == 0x80U) {
            continue;
        }
        if ((c >= 0xF0U && back < 4) || (c >= 0xE0U && c < 0xF0U && back < 3) ||
            (c >= 0xC0U && c < 0xE0U && back < 2)) {
            return back;
        }
        return 0;
    }
    return 0;
}

static void write_out(struct snp_view *view,
                      enum snp_stream stream,
                      const char *bytes,
                      size_t n)
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

/* Print a chunk; in a pipe bytes pass as they are. */
static void write_live(struct snp_view *view,
                       enum snp_stream stream,
                       const char *bytes,
                       size_t n)
{
    struct snp_buf *pending = &view->pending[stream];
    size_t tail;

    if (!snp_term_is(file_of(stream))) {
        write_out(view, stream, bytes, n);
        return;
    }
    /* Complete the character that was begun. */
    while (pending->len > 0 && n > 0 && unfinished(snp_buf_bytes(pending), pending->len) > 0 &&
           ((unsigned char)bytes[0] & 0xC0U) == 0x80U) {
        if (snp_buf_add(pending, bytes, 1) < 0) {
            break;
        }
        bytes++;
        n--;
    }
    if (n == 0 && unfinished(snp_buf_bytes(pending), pending->len) > 0) {
        return;
    }
    pending_flush(view, stream);
    tail = unfinished(bytes, n);
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
    const char *name = snp_json_str(head, "stream", "");
    enum snp_stream stream =
        strcmp(name, "stderr") == 0 ? SNP_STREAM_STDERR : SNP_STREAM_STDOUT;
    int64_t chars = snp_json_int(head, "omitted_chars", -1);

    if (chars < 0) {
        return snp_fail(err, SNP_E_PEER, "a gap without a size");
    }
    view->has_gap[stream] = true;
    view->gap_at[stream] = view->text[stream].len;
    view->gap_chars[stream] = chars;
    if (view->is_live) {
        pending_flush(view, stream);
        (void)fprintf(file_of(stream), "\n... (%lld characters omitted) ...\n",
                      (long long)chars);
        if (stream == SNP_STREAM_STDOUT) {
            view->at_line_start = true;
        }
    }
    return 0;
}

/* One part of a display as its value in JSON. New reference, NULL when out of memory. */
static json_t *part_json(const char *mime, const char *bytes, size_t n)
{
    snp_autofree char *coded = NULL;

    if (is_text_type(mime)) {
        return snp_json_bytes(bytes, n);
    }
    coded = snp_base64(bytes, n);
    return coded == NULL ? NULL : json_string(coded);
}

/* The plain text of a display, in lines of its own. */
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

static int event_display(struct snp_view *view,
                         const json_t *head,
                         const char *raw,
                         size_t raw_len,
                         struct snp_err *err)
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
        if (json_object_set_new(bundle, mime, part_json(mime, raw + at, (size_t)len)) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
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

static void notef(enum snp_style style, const char *label, const char *fmt, ...)
    SNP_PRINTF(3, 4);

/* Another cell is at work, or what else keeps the session from this one. */
static void event_waiting(const json_t *head)
{
    static const char *const doing[][2] = {
        {"save",     "the session is being saved"      },
        {"rollback", "the session is being rolled back"},
        {"start",    "the session is being started"    }
    };
    const char *what = "the session is busy";
    int64_t cell = snp_json_int(head, "cell", 0);
    int64_t ahead = snp_json_int(head, "ahead", 0);
    double seconds = (double)snp_json_int(head, "ms", 0) / 1000;
    char running[64];
    char more[64] = "";

    for (size_t i = 0; i < SNP_ARRAY_LEN(doing); i++) {
        what = snp_streq(doing[i][0], snp_json_str(head, "for", "")) ? doing[i][1] : what;
    }
    if (cell > 0) {
        (void)snprintf(running, sizeof(running), "cell %lld is running", (long long)cell);
        what = running;
    }
    if (ahead > 0) {
        (void)snprintf(more, sizeof(more), "; %lld more before this one", (long long)ahead);
    }
    notef(SNP_STYLE_YELLOW, "waiting", "%s (%.1f s so far)%s", what, seconds, more);
}

int snp_view_event(struct snp_view *view,
                   const json_t *head,
                   const char *raw,
                   size_t raw_len,
                   struct snp_err *err)
{
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

static const char *handle_of(const json_t *head)
{
    return snp_json_str(json_object_get(head, "output"), "handle", NULL);
}

/* A stream's text with a marker where its middle was left out. */
static json_t *text_json(const struct snp_view *view,
                         enum snp_stream stream,
                         const char *handle)
{
    const struct snp_buf *text = &view->text[stream];
    const char *bytes = text->len == 0 ? "" : snp_buf_bytes(text);
    snp_autobuf struct snp_buf whole = {0};

    snp_buf_init(&whole, (size_t)TEXT_MAX + LINE_MAX_BYTES);
    if (!view->has_gap[stream]) {
        return snp_json_bytes(bytes, text->len);
    }
    if (snp_buf_add(&whole, bytes, view->gap_at[stream]) < 0 ||
        snp_buf_addf(&whole, "\n... (%lld characters omitted",
                     (long long)view->gap_chars[stream]) < 0 ||
        (handle != NULL &&
         snp_buf_addf(&whole, "; full text: snipara-sandbox output %s%s", handle,
                      stream == SNP_STREAM_STDERR ? " --stderr" : "") < 0) ||
        snp_buf_adds(&whole, ") ...\n") < 0 ||
        snp_buf_add(&whole, bytes + view->gap_at[stream], text->len - view->gap_at[stream]) <
            0) {
        return NULL;
    }
    return snp_json_bytes(snp_buf_bytes(&whole), whole.len);
}

/* A member of the result, taken from where it is known. New reference. */
static json_t *member_json(const struct snp_view *view, json_t *head, const char *name)
{
    json_t *given = json_object_get(head, name);

    if (strcmp(name, "stdout") == 0 && (view->text[0].len > 0 || given == NULL)) {
        return text_json(view, SNP_STREAM_STDOUT, handle_of(head));
    }
    if (strcmp(name, "stderr") == 0 && (view->text[1].len > 0 || given == NULL)) {
        return text_json(view, SNP_STREAM_STDERR, handle_of(head));
    }
    if (strcmp(name, "displays") == 0 &&
        (json_array_size(view->displays) > 0 || given == NULL)) {
        return json_incref(view->displays);
    }
    return given == NULL ? json_null() : json_incref(given);
}

json_t *snp_view_result(const struct snp_view *view, json_t *head)
{
    snp_autojson json_t *result = json_object();
    const char *key;
    json_t *value;

    for (size_t i = 0; i < SNP_ARRAY_LEN(members); i++) {
        if (json_object_set_new(result, members[i], member_json(view, head, members[i])) < 0) {
            return NULL;
        }
    }
    json_object_foreach(head, key, value)
    {
        if (json_object_get(result, key) == NULL && json_object_set(result, key, value) < 0) {
            return NULL;
        }
    }
    return SNP_TAKE_PTR(result);
}

/* For people ---------------------------------------------------------------------------- */

/* "label: text" on stderr; the label is our own, the text of the sandbox and shown in one line. */
static void note(enum snp_style style, const char *label, struct snp_buf *text)
{
    snp_autobuf struct snp_buf shown = {0};

    snp_buf_init(&shown, (size_t)4 * LINE_MAX_BYTES);
    for (size_t i = 0; i < text->len; i++) {
        char *c = snp_buf_bytes(text) + i;

        *c = *c == '\n' || *c == '\r' || *c == '\t' ? ' ' : *c;
    }
    snp_term_put(stderr, style, label);
    if (text->len > 0 && snp_escape(&shown, snp_buf_bytes(text), text->len) == 0) {
        (void)fprintf(stderr, ": %.*s", (int)shown.len, snp_buf_bytes(&shown));
    }
    (void)fputc('\n', stderr);
}

static void notef(enum snp_style style, const char *label, const char *fmt, ...)
{
    snp_autobuf struct snp_buf text = {0};
    snp_autofree char *line = NULL;
    va_list args;

    snp_buf_init(&text, LINE_MAX_BYTES);
    va_start(args, fmt);
    if (vasprintf(&line, fmt, args) < 0) {
        line = NULL;
    }
    va_end(args);
    if (line != NULL && snp_buf_add(&text, line, strnlen(line, LINE_MAX_BYTES)) == 0) {
        note(style, label, &text);
    }
}

/* A value with a rich form was displayed, its text too, just before it came as the value. */
static bool was_displayed(const struct snp_view *view, const json_t *value)
{
    size_t n = json_array_size(view->displays);
    const json_t *last = n == 0 ? NULL : json_array_get(view->displays, n - 1);

    /* Figures that were left open come after it. */
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
        {"value",  ""         },
        {"result", "result = "},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        const json_t *value = json_object_get(head, rows[i].member);

        if (json_is_string(value) && !was_displayed(view, value)) {
            if (!view->at_line_start) {
                write_out(view, SNP_STREAM_STDOUT, "\n", 1);
            }
            write_out(view, SNP_STREAM_STDOUT, rows[i].before, strlen(rows[i].before));
            write_out(view, SNP_STREAM_STDOUT, json_string_value(value),
                      json_string_length(value));
            write_out(view, SNP_STREAM_STDOUT, "\n", 1);
        }
    }
}

static void show_error(struct snp_view *view, const json_t *head)
{
    const json_t *error = json_object_get(head, "error");
    const json_t *traceback = json_object_get(error, "traceback");
    bool is_ok = snp_streq(snp_json_str(head, "status", ""), "ok");
    const char *session = snp_json_str(head, "name", NULL);
    snp_autofree char *nearby = is_ok ? NULL
                                : view->argv != NULL
                                    ? snp_nearby_words(view->argv, &view->said, session)
                                    : snp_nearby_error(error, session);
    const char *hint = nearby != NULL ? nearby : snp_json_str(error, "hint", NULL);
    const char *text = json_string_value(traceback);
    size_t n = json_string_length(traceback);

    if (!json_is_object(error)) {
        if (hint != NULL) {
            notef(SNP_STYLE_YELLOW, "hint", "%s", hint);
        }
        return;
    }
    if (n > 0) {
        write_out(view, SNP_STREAM_STDERR, text, n);
        write_out(view, SNP_STREAM_STDERR, "\n", text[n - 1] == '\n' ? 0 : 1);
    } else {
        notef(SNP_STYLE_RED, "error", "%s: %s", snp_json_str(error, "type", "Error"),
              snp_json_str(error, "message", ""));
    }
    if (hint != NULL) {
        notef(SNP_STYLE_YELLOW, "hint", "%s", hint);
    }
}

static void show_end(const json_t *head)
{
    static const struct {
        const char *status;
        const char *text;
    } rows[] = {
        {"timeout",     "the wall clock ran out"},
        {"oom",         "the memory ran out"    },
        {"killed",      "ended by a signal"     },
        {"limit",       "a limit was reached"   },
        {"interrupted", "stopped before its end"},
    };
    const char *status = snp_json_str(head, "status", "");
    const char *signal_name = snp_json_str(head, "signal", NULL);
    const json_t *limit = json_object_get(head, "limit");
    const char *text = NULL;

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        text = strcmp(rows[i].status, status) == 0 ? rows[i].text : text;
    }
    if (signal_name == NULL && snp_streq(status, "killed")) {
        text = NULL; /* exited by itself: the error says so */
    }
    if (text != NULL || signal_name != NULL) {
        notef(SNP_STYLE_RED, text != NULL ? status : "ended", "%s%s%s%s",
              text != NULL ? text : "by a signal", signal_name != NULL ? " (" : "",
              signal_name != NULL ? signal_name : "", signal_name != NULL ? ")" : "");
    }
    if (json_is_object(limit)) {
        notef(SNP_STYLE_YELLOW, "limit", "%s is %s; %s raises it%s",
              snp_json_str(limit, "key", "?"), snp_json_str(limit, "text", "?"),
              snp_json_str(limit, "flag", "?"),
              snp_streq(snp_json_str(limit, "key", ""), "timeout") ||
                      snp_json_str(head, "name", NULL) == NULL
                  ? ""
                  : " in a new session");
    }
    if (snp_json_bool(head, "restarted", false)) {
        notef(SNP_STYLE_YELLOW, "restarted", "variables of earlier cells are gone, files stay");
    }
}

/* What became of the session, where that is not what the code has left. */
static void show_state(const json_t *head)
{
    const char *state = snp_json_str(head, "state", "");
    const json_t *transaction = json_object_get(head, "transaction");
    bool has_files = snp_streq(snp_json_str(transaction, "workspace", ""), "copied");

    if (snp_json_str(head, "name", NULL) == NULL) {
        return; /* a sandbox without a name is gone with its code */
    }
    if (snp_streq(state, "rolled_back")) {
        notef(SNP_STYLE_YELLOW, "state", "rolled back: variables%s are as before this cell",
              has_files ? " and files" : "");
    } else if (snp_streq(state, "lost")) {
        notef(SNP_STYLE_YELLOW, "state",
              "lost: variables are as at the session's start, files %s",
              has_files ? "as before this cell" : "stay");
    }
    if (snp_streq(state, "restored_from_checkpoint")) {
        notef(SNP_STYLE_YELLOW, "state",
              "lost: the session falls back to its last checkpoint, unless it was cleared or "
              "destroyed meanwhile");
    }
    if (snp_streq(state, "rolled_back") || snp_streq(state, "lost")) {
        const json_t *notes = json_object_get(transaction, "notes");
        for (size_t i = 0; i < json_array_size(notes); i++) {
            notef(SNP_STYLE_DIM, "not undone", "%s",
                  json_string_value(json_array_get(notes, i)));
        }
    }
}

/* Of --checkpoint cell: that it was saved goes without saying. */
static void show_unsaved(const json_t *head)
{
    const char *error = snp_json_str(json_object_get(head, "checkpoint"), "error", NULL);

    if (error != NULL) {
        notef(SNP_STYLE_YELLOW, "not saved", "this cell could not be saved: %.300s", error);
    }
}

/* "3, 4, 5" */
static void list_cells(struct snp_buf *text, const json_t *cells)
{
    for (size_t i = 0; i < json_array_size(cells); i++) {
        if (snp_buf_addf(text, "%s%lld", i == 0 ? "" : ", ",
                         (long long)json_integer_value(json_array_get(cells, i))) < 0) {
            return;
        }
    }
}

/* "a.csv, b.csv and 3 more": of files put. */
static int list_names(struct snp_buf *text, const json_t *names)
{
    size_t n = json_array_size(names);
    int r = 0;

    for (size_t i = 0; i < n && i < NAMES_SHOWN && r == 0; i++) {
        const char *name = json_string_value(json_array_get(names, i));

        r = snp_buf_addf(text, "%s%.1000s", i == 0 ? "" : ", ", name == NULL ? "?" : name);
    }
    return r == 0 && n > NAMES_SHOWN ? snp_buf_addf(text, " and %zu more", n - NAMES_SHOWN) : r;
}

static void show_missing_puts(const json_t *restored)
{
    const json_t *puts = json_object_get(restored, "missing_puts");
    snp_autobuf struct snp_buf text = {0};

    snp_buf_init(&text, LINE_MAX_BYTES);
    if (json_array_size(puts) > 0 && snp_buf_adds(&text, "files that were put later: ") == 0 &&
        list_names(&text, puts) == 0) {
        note(SNP_STYLE_YELLOW, "not restored", &text);
    }
}

/* A session that was woken without anything to say of it is not worth a line. */
static void show_restored(const json_t *head)
{
    const json_t *restored = json_object_get(head, "restored");
    const json_t *missing = json_object_get(restored, "missing");
    const json_t *replayed = json_object_get(restored, "replayed");
    const json_t *failed = json_object_get(restored, "failed");
    snp_autobuf struct snp_buf text = {0};
    size_t i;
    json_t *item;
    int r = 0;

    snp_buf_init(&text, LINE_MAX_BYTES);
    if (json_array_size(replayed) > 0) {
        r = snp_buf_adds(&text, "cells run again: ");
        list_cells(&text, replayed);
    }
    if (json_array_size(missing) > 0) {
        r = snp_buf_addf(&text, "the state after cell %lld; missing: cells ",
                         (long long)snp_json_int(restored, "cell", 0));
        list_cells(&text, missing);
    }
    if (text.len > 0 && r == 0) {
        note(SNP_STYLE_YELLOW, "restored", &text);
    }
    show_missing_puts(restored);
    json_array_foreach(failed, i, item)
    {
        notef(SNP_STYLE_YELLOW, "not restored", "%s: %s", snp_json_str(item, "name", "?"),
              snp_json_str(item, "reason", "?"));
    }
}

static void show_denials(const json_t *head)
{
    const json_t *denials = json_object_get(head, "denials");
    int64_t dropped = snp_json_int(head, "denials_dropped", 0);
    bool has_limit = json_is_object(json_object_get(head, "limit"));
    const char *told = snp_json_str(json_object_get(head, "error"), "hint", "");
    size_t n = json_array_size(denials);

    for (size_t i = 0; i < n; i++) {
        const json_t *denial = json_array_get(denials, i);
        const char *object = snp_json_str(denial, "object", "");
        const char *rule = snp_json_str(denial, "rule", "");
        const char *hint = snp_json_str(denial, "hint", "");
        int64_t count = snp_json_int(denial, "count", 1);
        char times[32] = "";
        bool is_sentence;

        if (has_limit && snp_streq(snp_json_str(denial, "source", ""), "limit")) {
            continue; /* has its line already */
        }
        hint = snp_streq(hint, told) ? "" : hint; /* has its line already, too */
        is_sentence = hint[0] >= 'A' && hint[0] <= 'Z';
        if (count > 1) {
            (void)snprintf(times, sizeof(times), " (%lld times)", (long long)count);
        }
        notef(SNP_STYLE_YELLOW, "denied", "%s: %s%s%s%s%s%s%s%s [%s]",
              snp_json_str(denial, "control", "?"), snp_json_str(denial, "operation", "?"),
              object[0] != '\0' ? " " : "", object, times, rule[0] != '\0' ? ", " : "", rule,
              is_sentence || hint[0] == '\0' ? "" : "; ", is_sentence ? "" : hint,
              snp_json_str(denial, "source", "?"));
        if (is_sentence) {
            notef(SNP_STYLE_YELLOW, "hint", "%s", hint);
            told = hint;
        }
    }
    if (dropped > 0) {
        notef(SNP_STYLE_YELLOW, "denied", "%lld more", (long long)dropped);
    }
}

/* Whether a file lies in a folder that tools leave behind; such are counted, not named. */
static bool is_cache(const char *path)
{
    static const char *const folders[] = {"__pycache__", ".pytest_cache", ".mypy_cache",
                                          ".ruff_cache", ".cache"};

    for (const char *part = path; part != NULL;) {
        const char *slash = strchr(part, '/');

        for (size_t i = 0; slash != NULL && i < SNP_ARRAY_LEN(folders); i++) {
            if (strlen(folders[i]) == (size_t)(slash - part) &&
                strncmp(folders[i], part, (size_t)(slash - part)) == 0) {
                return true;
            }
        }
        part = slash == NULL ? NULL : slash + 1;
    }
    return false;
}

/* "a, b and 3 more, 7 cache files" */
static int names_add(struct snp_buf *text, const json_t *list)
{
    size_t n_shown = 0;
    size_t n_more = 0;
    size_t n_caches = 0;
    int r = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text_of = json_string_value(json_array_get(list, i));
        const char *name = text_of == NULL ? "?" : text_of;

        if (is_cache(name)) {
            n_caches++;
        } else if (n_shown == NAMES_SHOWN) {
            n_more++;
        } else if (r == 0) {
            r = snp_buf_addf(text, "%s%.1000s", n_shown++ > 0 ? ", " : "", name);
        }
    }
    if (n_more > 0 && r == 0) {
        r = snp_buf_addf(text, " and %zu more", n_more);
    }
    if (n_caches > 0 && r == 0) {
        r = snp_buf_addf(text, "%s%zu cache file%s", n_shown > 0 ? ", " : "", n_caches,
                         n_caches == 1 ? "" : "s");
    }
    return r;
}

static void show_files(const json_t *head)
{
    static const char *const kinds[] = {"created", "modified", "deleted"};
    const json_t *files = json_object_get(head, "files");

    for (size_t i = 0; i < SNP_ARRAY_LEN(kinds); i++) {
        const json_t *list = json_object_get(files, kinds[i]);
        snp_autobuf struct snp_buf text = {0};

        snp_buf_init(&text, LINE_MAX_BYTES);
        if (names_add(&text, list) == 0 && text.len > 0) {
            note(SNP_STYLE_DIM, kinds[i], &text);
        }
    }
}

/* Decode what event_display encoded. */
static int display_write(const char *path,
                         const char *mime,
                         const json_t *part,
                         struct snp_err *err)
{
    const char *text = json_string_value(part);
    size_t n = json_string_length(part);
    snp_autofree unsigned char *bytes = NULL;

    if (is_text_type(mime)) {
        return snp_file_write_atomic(path, text, n, 0644, err);
    }
    bytes = snp_base64_decode(text, n, &n);
    if (bytes == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return snp_file_write_atomic(path, bytes, n, 0644, err);
}

static int display_save(const struct snp_view *view,
                        const json_t *head,
                        size_t number,
                        json_t *bundle,
                        struct snp_err *err)
{
    const char *mime;
    json_t *part;
    bool has_other = json_object_size(bundle) > 1;

    json_object_foreach(bundle, mime, part)
    {
        snp_autofree char *path = NULL;
        int r;

        if (has_other && strcmp(mime, "text/plain") == 0) {
            continue;
        }
        path = snp_format("%s/cell%lld-%zu.%s", view->display_dir,
                          (long long)snp_json_int(head, "cell", 0), number, extension_of(mime));
        if (path == NULL) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        r = display_write(path, mime, part, err);
        if (r < 0) {
            return r;
        }
        notef(SNP_STYLE_DIM, "saved", "%s", path);
    }
    return 0;
}

int snp_view_save(const struct snp_view *view, const json_t *head, struct snp_err *err)
{
    size_t i;
    json_t *bundle;
    int r;

    if (json_array_size(view->displays) == 0) {
        return 0;
    }
    r = snp_mkdir_p(view->display_dir, 0755, err);
    if (r < 0) {
        return r;
    }
    json_array_foreach(view->displays, i, bundle)
    {
        r = display_save(view, head, i + 1, bundle, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Say what was displayed and cannot be seen in text. */
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
            char size[32];

            if (strcmp(mime, "text/plain") == 0) {
                continue;
            }
            n = is_text_type(mime) ? n : n / 4 * 3;
            count++;
            if (count <= NAMES_SHOWN &&
                snp_buf_addf(&text, "%s%.100s, %s", count > 1 ? "; " : "", mime,
                             snp_format_bytes(n, size, sizeof(size))) < 0) {
                return;
            }
        }
    }
    if (count > 0 &&
        snp_buf_addf(&text, "%s; --display-dir DIR saves %s", count > NAMES_SHOWN ? " ..." : "",
                     count > 1 ? "them" : "it") == 0) {
        char label[48];

        (void)snprintf(label, sizeof(label), "%zu display%s", count, count > 1 ? "s" : "");
        note(SNP_STYLE_DIM, label, &text);
    }
}

/* Which controls are weaker than they should be: their names; the manifest has the reasons. */
static void show_degraded(const json_t *head)
{
    /* Of a session that lasts: with its first cell, and when it has come back. */
    bool is_told = snp_json_str(head, "name", NULL) != NULL &&
                   snp_json_int(head, "cell", 1) > 1 &&
                   !json_is_object(json_object_get(head, "restored"));

    const json_t *degraded = json_object_get(json_object_get(head, "manifest"), "degraded");
    snp_autobuf struct snp_buf text = {0};

    snp_buf_init(&text, LINE_MAX_BYTES);
    for (size_t i = 0; i < json_array_size(degraded); i++) {
        const char *reason = json_string_value(json_array_get(degraded, i));
        int n = reason == NULL ? 0 : (int)strcspn(reason, ":");

        if (snp_buf_addf(&text, "%s%.*s", i == 0 ? "" : ", ", n, reason == NULL ? "" : reason) <
            0) {
            return;
        }
    }
    if (text.len > 0 && !is_told &&
        snp_buf_adds(&text, " (why: snipara-sandbox doctor)") == 0) {
        note(SNP_STYLE_YELLOW, "degraded", &text);
    }
}

/* A project's virtual environment that is not used, and why. */
static void show_venv(const json_t *head)
{
    const char *why = snp_json_str(json_object_get(head, "manifest"), "venv_unused", NULL);

    if (why != NULL) {
        notef(SNP_STYLE_YELLOW, "python", "the project's .venv is not used: %s", why);
    }
}

int snp_view_finish(struct snp_view *view, const json_t *head)
{
    const char *handle = handle_of(head);
    struct snp_err err;
    int r = 0;

    pending_flush(view, SNP_STREAM_STDOUT);
    pending_flush(view, SNP_STREAM_STDERR);
    show_value(view, head);
    (void)fflush(stdout);
    show_error(view, head);
    show_end(head);
    show_state(head);
    show_unsaved(head);
    show_restored(head);
    if (!view->is_quiet) {
        show_denials(head);
    }
    if (handle != NULL && !view->is_quiet) {
        notef(SNP_STYLE_DIM, "full output", "snipara-sandbox output %s", handle);
    }
    if (view->display_dir == NULL) {
        if (!view->is_quiet) {
            displays_tell(view);
        }
    } else if (snp_view_save(view, head, &err) < 0) {
        notef(SNP_STYLE_RED, "display not saved", "%s", err.msg);
        r = -1;
    }
    if (!view->is_quiet) {
        show_files(head);
        show_degraded(head);
        show_venv(head);
    }
    return r;
}

/* Exit status ---------------------------------------------------------------------------- */

/* "SIGKILL" -> 9; 0 if unknown. */
static int signal_number(const char *name)
{
    for (int i = 1; i < NSIG; i++) {
        const char *abbrev = sigabbrev_np(i);

        if (abbrev != NULL && snp_has_prefix(name, "SIG") && strcmp(name + 3, abbrev) == 0) {
            return i;
        }
    }
    return 0;
}

int snp_result_exit(const json_t *head, bool is_command)
{
    const char *status = snp_json_str(head, "status", "");
    const char *signal_name = snp_json_str(head, "signal", NULL);
    int64_t code = snp_json_int(head, "exit_code", -1);

    if (!is_command) {
        return strcmp(status, "ok") == 0 ? 0 : 1;
    }
    if (strcmp(status, "timeout") == 0) {
        return TIMEOUT_EXIT;
    }
    if (code >= 0 && code <= 255) {
        return code == 0 && strcmp(status, "ok") != 0 ? 1 : (int)code;
    }
    if (signal_name != NULL && signal_number(signal_name) > 0) {
        return SIGNAL_EXIT + signal_number(signal_name);
    }
    return strcmp(status, "ok") == 0 ? 0 : 1;
}
