/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells for models.
 *
 * The text comes first as the product before ours gave it: the output, or "Error: ..."; what we
 * add stands after it, each piece behind a word in brackets, so that a reader can tell what the
 * program printed from what we say. structuredContent holds the same once more, because
 * some clients show only that. Both are bounded; what is cut can be read with read_file.
 */
#include "mcp/cell.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/str.h"
#include "mcp/caps.h"
#include "mcp/text.h"

enum {
    BUILD_MAX = 1 << 20, /* bytes of a text while it is made */
    DISPLAYS_MAX = 32,
    DISPLAY_TEXT = 2000, /* characters */
    STDOUT_TEXT = 6000,
    STDERR_TEXT = 1500,
    VALUE_TEXT = 1500,
    ERROR_TEXT = 1000,
    TRACE_TEXT = 1500,
    LINE_TEXT = 200,
    LIST_SHOWN = 10, /* files of one kind */
    DENIALS_SHOWN = 5,
    PATH_TEXT = 160, /* bytes of a path to read_file */
};

static const char *const stream_names[] = {"stdout", "stderr"};

/* Collecting ------------------------------------------------------------------------------ */

void snp_cell_init(struct snp_cell *cell)
{
    *cell = (struct snp_cell){.displays = json_array()};
    for (int i = 0; i < SNP_CELL_STREAMS; i++) {
        snp_buf_init(&cell->stream[i].text, SNP_CELL_STREAM_MAX);
    }
}

void snp_cell_done(struct snp_cell *cell)
{
    for (int i = 0; i < SNP_CELL_STREAMS; i++) {
        snp_buf_done(&cell->stream[i].text);
    }
    json_decref(cell->displays);
    *cell = (struct snp_cell){0};
}

static void on_output(struct snp_cell_stream *stream, const char *raw, size_t n)
{
    size_t room = SNP_CELL_STREAM_MAX - stream->text.len;

    stream->has_spill = stream->has_spill || n > room;
    if (snp_buf_add(&stream->text, raw, n < room ? n : room) < 0) {
        stream->has_spill = true;
    }
}

/* One part of a display; new reference. What is not plain text is kept to be read later. */
static json_t *part_json(struct snp_kept *kept, const char *mime, const char *bytes, size_t n)
{
    snp_autobuf struct snp_buf text = {0};
    uint64_t number;

    if (strcmp(mime, "text/plain") == 0) {
        snp_buf_init(&text, BUILD_MAX);
        return snp_mcp_text_add(&text, bytes, n < BUILD_MAX / 8 ? n : BUILD_MAX / 8,
                                DISPLAY_TEXT, NULL) < 0
                   ? NULL
                   : json_pack("{s:o}", "text", snp_mcp_text_json(&text));
    }
    number = snp_kept_add(kept, mime, bytes, n);
    return number == 0
               ? NULL
               : json_pack("{s:o, s:o, s:I}", "path",
                           json_sprintf("kept:%llu", (unsigned long long)number), "mime",
                           snp_json_bytes(mime, strlen(mime)), "bytes", (json_int_t)n);
}

static void on_display(struct snp_cell *cell,
                       struct snp_kept *kept,
                       const json_t *head,
                       const char *raw,
                       size_t raw_len)
{
    const json_t *parts = json_object_get(head, "mime");
    size_t n = json_array_size(parts);
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        const json_t *part = json_array_get(parts, i);
        const char *mime = json_string_value(json_array_get(part, 0));
        json_int_t len = json_integer_value(json_array_get(part, 1));
        json_t *shown;

        if (mime == NULL || len < 0 || (uint64_t)len > raw_len - at ||
            json_array_size(cell->displays) >= DISPLAYS_MAX) {
            return;
        }
        /* An image says more than the name of the object behind it. */
        shown = n > 1 && strcmp(mime, "text/html") == 0
                    ? NULL
                    : part_json(kept, mime, raw + at, (size_t)len);
        if (shown != NULL) {
            (void)json_array_append_new(cell->displays, shown);
        }
        at += (size_t)len;
    }
}

void snp_cell_event(struct snp_cell *cell,
                    struct snp_kept *kept,
                    const json_t *head,
                    const char *raw,
                    size_t raw_len)
{
    const char *event = snp_json_str(head, "event", "");
    const char *name = snp_json_str(head, "stream", event);

    for (int i = 0; i < SNP_CELL_STREAMS; i++) {
        struct snp_cell_stream *stream = &cell->stream[i];

        if (strcmp(name, stream_names[i]) != 0) {
            continue;
        }
        if (strcmp(event, "gap") == 0) {
            stream->has_gap = true;
            stream->gap_at = stream->text.len;
            stream->gap = snp_json_int(head, "omitted_chars", 0);
        } else {
            on_output(stream, raw, raw_len);
        }
    }
    if (strcmp(event, "display") == 0) {
        on_display(cell, kept, head, raw, raw_len);
    }
}

/* Making ---------------------------------------------------------------------------------- */

/* A result under way; the first failure is kept. */
struct making {
    const struct snp_cell *cell;
    const struct snp_cell_view *view;
    struct snp_kept *kept;
    struct snp_buf text;
    size_t prefix; /* bytes of text that what follows stands beside, not below */
    json_t *data;  /* structuredContent; owned */
    bool is_ok;
    bool was_cut; /* of the output, anything */
    int r;
};

static void say(struct making *m, const char *fmt, ...) SNP_PRINTF(2, 3);
static void say(struct making *m, const char *fmt, ...)
{
    snp_autofree char *line = NULL;
    va_list args;

    va_start(args, fmt);
    if (vasprintf(&line, fmt, args) < 0) {
        line = NULL;
    }
    va_end(args);
    if (m->r == 0) {
        m->r = line == NULL ? SNP_E_NOMEM : snp_buf_adds(&m->text, line);
    }
}

/* On a line of its own. */
static void line_begin(struct making *m)
{
    if (m->text.len > m->prefix && snp_buf_bytes(&m->text)[m->text.len - 1] != '\n') {
        say(m, "\n");
    }
}

static void put(struct making *m, const char *key, json_t *value)
{
    if (m->r == 0 && json_object_set_new(m->data, key, value) < 0) {
        m->r = SNP_E_NOMEM;
    } else if (m->r < 0) {
        json_decref(value);
    }
}

/* Where a stream can be read whole: "output:HANDLE:stdout", or "kept:7"; false: nowhere. */
static bool source_of(struct making *m, int i, char path[PATH_TEXT])
{
    const struct snp_cell_stream *stream = &m->cell->stream[i];
    const char *handle = snp_json_str(json_object_get(m->view->head, "output"), "handle", NULL);
    uint64_t number = 0;

    if (handle != NULL && stream->has_gap) {
        (void)snprintf(path, PATH_TEXT, "output:%s:%s", handle, stream_names[i]);
        return true;
    }
    if (stream->has_gap || stream->has_spill) {
        return false;
    }
    number =
        snp_kept_add(m->kept, "text/plain", snp_buf_bytes(&stream->text), stream->text.len);
    (void)snprintf(path, PATH_TEXT, "kept:%llu", (unsigned long long)number);
    return number != 0;
}

/* Clean text whose middle, at `before`, the daemon has left out: the ends towards it are cut further. */
static int gap_text(
    const char *bytes, size_t before, size_t n, int64_t gap, size_t max, struct snp_buf *out)
{
    size_t head = max * 3 / 5;
    int r = snp_mcp_text_cut(out, bytes, before, head, NULL);

    if (r == 0) {
        r = snp_buf_addf(out, "\n... (%lld characters omitted) ...\n", (long long)gap);
    }
    return r < 0 ? r : snp_mcp_text_cut(out, bytes + before, n - before, max - head, NULL);
}

/* A stream as it is shown, without the line end it may close with. */
static int stream_text(const struct snp_cell_stream *stream,
                       size_t max,
                       struct snp_buf *out,
                       bool *ret_cut)
{
    const char *bytes = stream->text.len == 0 ? "" : snp_buf_bytes(&stream->text);
    size_t n = stream->text.len;
    snp_autobuf struct snp_buf clean = {0};
    size_t before;
    int r;

    snp_buf_init(&clean, (size_t)SNP_CELL_STREAM_MAX * 8);
    r = snp_mcp_text_clean(&clean, bytes, stream->has_gap ? stream->gap_at : n);
    before = clean.len;
    if (r == 0 && stream->has_gap) {
        r = snp_mcp_text_clean(&clean, bytes + stream->gap_at, n - stream->gap_at);
    }
    while (r == 0 && clean.len > 0 && snp_buf_bytes(&clean)[clean.len - 1] == '\n') {
        clean.len--;
    }
    if (r < 0) {
        return r;
    }
    bytes = clean.len == 0 ? "" : snp_buf_bytes(&clean);
    if (!stream->has_gap || before > clean.len) {
        return snp_mcp_text_cut(out, bytes, clean.len, max, ret_cut);
    }
    *ret_cut = true;
    return gap_text(bytes, before, clean.len, stream->gap, max, out);
}

/* One stream into text and data; label NULL: bare. True if there was something. */
static bool stream_add(struct making *m, int i, const char *label, size_t max)
{
    snp_autobuf struct snp_buf shown = {0};
    char path[PATH_TEXT];
    char member[32];
    bool is_cut = m->cell->stream[i].has_spill;
    bool was_cut = false;

    snp_buf_init(&shown, BUILD_MAX);
    if (m->cell->stream[i].text.len == 0 || m->r < 0) {
        return false;
    }
    m->r = stream_text(&m->cell->stream[i], max, &shown, &was_cut);
    is_cut = is_cut || was_cut;
    put(m, stream_names[i], snp_mcp_text_json(&shown));
    if (shown.len == 0) {
        return false;
    }
    line_begin(m);
    say(m, "%s%.*s", label == NULL ? "" : label, (int)shown.len, snp_buf_bytes(&shown));
    if (is_cut) {
        m->was_cut = m->was_cut || i == SNP_CELL_STDOUT;
        (void)snprintf(member, sizeof(member), "%s_rest", stream_names[i]);
        put(m, member,
            source_of(m, i, path) ? json_sprintf("read_file(path=\"%s\")", path)
                                  : json_string("not kept: print less, or write it to a file"));
    }
    return true;
}

static void rest_add(struct making *m)
{
    for (int i = 0; i < SNP_CELL_STREAMS; i++) {
        char member[32];
        const char *how;

        (void)snprintf(member, sizeof(member), "%s_rest", stream_names[i]);
        how = snp_json_str(m->data, member, NULL);
        if (how != NULL) {
            line_begin(m);
            say(m, "[full %s] %s", stream_names[i], how);
        }
    }
}

/* Value and result: what a cell of a notebook shows. True if there was something. */
static bool values_add(struct making *m)
{
    static const struct {
        const char *member;
        const char *before;
    } rows[] = {
        {"value",  ""         },
        {"result", "result = "},
    };
    bool has = false;

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        const json_t *value = json_object_get(m->view->head, rows[i].member);
        snp_autobuf struct snp_buf shown = {0};

        snp_buf_init(&shown, BUILD_MAX);
        if (!json_is_string(value) || m->r < 0) {
            continue;
        }
        m->r = snp_mcp_text_add(&shown, json_string_value(value), json_string_length(value),
                                VALUE_TEXT, NULL);
        put(m, rows[i].member, snp_mcp_text_json(&shown));
        line_begin(m);
        say(m, "%s%s", rows[i].before, shown.len == 0 ? "" : snp_buf_cstr(&shown));
        has = true;
    }
    return has;
}

static void displays_add(struct making *m)
{
    const json_t *value = json_object_get(m->view->head, "value");
    json_t *data = json_array();
    size_t i;
    json_t *display;

    json_array_foreach(m->cell->displays, i, display)
    {
        const char *path = snp_json_str(display, "path", NULL);
        const char *mime = snp_json_str(display, "mime", "");
        const json_t *text = json_object_get(display, "text");

        if (path != NULL) {
            line_begin(m);
            say(m, "[display] %s: %s(path=\"%s\")", mime,
                snp_has_prefix(mime, "image/") ? "view_image" : "read_file", path);
            (void)json_array_append(data, display);
        } else if (text != NULL && !json_equal(text, value)) {
            line_begin(m);
            say(m, "[display] %s", snp_json_str(display, "text", ""));
            (void)json_array_append(data, display);
        }
    }
    if (json_array_size(data) > 0) {
        put(m, "displays", data);
    } else {
        json_decref(data);
    }
}

/* Failure --------------------------------------------------------------------------------- */

/* Line n of code, from 1, without the blanks around it. */
static const char *code_line(const struct snp_cell_view *view, int64_t n, size_t *ret_len)
{
    const char *at = view->code;
    const char *end = at == NULL ? NULL : at + view->code_len;

    for (; at != NULL && n > 1; n--) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at == NULL ? NULL : at + 1;
    }
    if (at == NULL || n < 1) {
        return NULL;
    }
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    *ret_len = strcspn(at, "\n");
    if (*ret_len > (size_t)(end - at)) {
        *ret_len = (size_t)(end - at);
    }
    return *ret_len == 0 ? NULL : at;
}

static int exception_add(struct snp_buf *out, const struct snp_cell_view *view)
{
    const json_t *error = json_object_get(view->head, "error");
    const json_t *type = json_object_get(error, "type");
    const json_t *message = json_object_get(error, "message");
    const char *hint = snp_json_str(error, "hint", NULL);
    size_t len = 0;
    int64_t line = snp_json_int(error, "line", 0);
    const char *source = code_line(view, line, &len);
    int r = snp_mcp_text_line(out, json_is_string(type) ? json_string_value(type) : "Error",
                              json_is_string(type) ? json_string_length(type) : 5, LINE_TEXT);

    if (r == 0 && json_string_length(message) > 0) {
        r = snp_buf_adds(out, ": ");
        r = r < 0 ? r
                  : snp_mcp_text_add(out, json_string_value(message),
                                     json_string_length(message), ERROR_TEXT, NULL);
    }
    if (r == 0 && source != NULL) {
        r = snp_buf_addf(out, "\n  Line %lld: ", (long long)line);
        r = r < 0 ? r : snp_mcp_text_line(out, source, len, LINE_TEXT);
    }
    if (r == 0 && hint != NULL) {
        r = snp_buf_adds(out, "\n  Hint: ");
        r = r < 0 ? r : snp_mcp_text_line(out, hint, strlen(hint), ERROR_TEXT);
    }
    return r;
}

int snp_cell_error(struct snp_buf *out, const struct snp_cell_view *view)
{
    const char *status = snp_json_str(view->head, "status", "");
    const char *signal_name = snp_json_str(view->head, "signal", NULL);
    const json_t *limit = json_object_get(view->head, "limit");
    int64_t code = snp_json_int(view->head, "exit_code", -1);

    if (strcmp(status, "ok") == 0) {
        return 0;
    }
    if (strcmp(status, "timeout") == 0) {
        return snp_buf_addf(out, "Error: Execution timed out after %g seconds",
                            view->timeout_s);
    }
    if (strcmp(status, "oom") == 0) {
        return snp_buf_addf(out, "Error: Out of memory (limit %s)",
                            snp_json_str(limit, "text", "reached"));
    }
    if (strcmp(status, "limit") == 0) {
        return snp_buf_addf(out, "Error: The limit %s of %s was reached",
                            snp_json_str(limit, "key", "?"), snp_json_str(limit, "text", "?"));
    }
    if (strcmp(status, "interrupted") == 0) {
        return snp_buf_adds(out, "Error: Interrupted before its end");
    }
    if (json_is_object(json_object_get(view->head, "error"))) {
        int r = snp_buf_adds(out, "Error: ");

        return r < 0 ? r : exception_add(out, view);
    }
    if (signal_name != NULL) {
        return snp_buf_addf(out, "Error: Ended by signal %s", signal_name);
    }
    return snp_buf_addf(out, "Error: Exit code %lld", (long long)code);
}

/* Whether a line of a traceback begins a frame, and whether that is of the user's own code. */
static bool is_frame(const char *line, size_t n, bool *ret_own)
{
    static const char begin[] = "  File \"";
    const char *file = line + sizeof(begin) - 1;
    size_t len = n - (sizeof(begin) - 1);

    if (n < sizeof(begin) || strncmp(line, begin, sizeof(begin) - 1) != 0) {
        return false;
    }
    *ret_own = *file != '/' || (len > 10 && strncmp(file, "/workspace", 10) == 0) ||
               (len > 4 && strncmp(file, "/tmp", 4) == 0);
    return true;
}

/* The traceback without frames of libraries; *ret_frames: how many are left. */
static int traceback_own(const char *text, size_t n, struct snp_buf *out, size_t *ret_frames)
{
    bool is_shown = true;
    bool is_own = true;
    size_t hidden = 0;
    int r = 0;

    while (n > 0 && r == 0) {
        const char *end = memchr(text, '\n', n);
        size_t len = end == NULL ? n : (size_t)(end - text) + 1;

        if (is_frame(text, len, &is_own)) {
            is_shown = is_own;
            hidden += is_own ? 0 : 1;
            *ret_frames += is_own ? 1 : 0;
        } else if (text[0] != ' ') {
            is_shown = true; /* the exception, or the beginning of another */
        }
        if (is_shown && hidden > 0) {
            r = snp_buf_addf(out, "  (%zu of libraries)\n", hidden);
            hidden = 0;
        }
        r = r < 0 || !is_shown ? r : snp_buf_add(out, text, len);
        text += len;
        n -= len;
    }
    return r;
}

static void traceback_add(struct making *m, json_t *data)
{
    const json_t *traceback =
        json_object_get(json_object_get(m->view->head, "error"), "traceback");
    snp_autobuf struct snp_buf own = {0};
    snp_autobuf struct snp_buf shown = {0};
    size_t frames = 0;

    snp_buf_init(&own, BUILD_MAX);
    snp_buf_init(&shown, BUILD_MAX);
    if (!json_is_string(traceback) || m->r < 0) {
        return;
    }
    m->r = traceback_own(json_string_value(traceback), json_string_length(traceback), &own,
                         &frames);
    while (own.len > 0 && snp_buf_bytes(&own)[own.len - 1] == '\n') {
        own.len--;
    }
    if (m->r == 0 && own.len > 0) {
        m->r = snp_mcp_text_add(&shown, snp_buf_bytes(&own), own.len, TRACE_TEXT, NULL);
    }
    (void)json_object_set_new(data, "traceback", snp_mcp_text_json(&shown));
    /* One frame says what the line above has said already. */
    if (shown.len > 0 && frames > 1) {
        line_begin(m);
        say(m, "[traceback]\n%s", snp_buf_cstr(&shown));
    }
}

/* What failed, as data: of an exception its own words, of all else ours. */
static void error_data(struct making *m, const char *first)
{
    const json_t *error = json_object_get(m->view->head, "error");
    const char *status = snp_json_str(m->view->head, "status", "error");
    bool is_exception = strcmp(status, "error") == 0 && json_is_object(error);
    const char *type = is_exception ? snp_json_str(error, "type", "Error") : status;
    const json_t *text = json_object_get(error, "message");
    int64_t line = snp_json_int(error, "line", 0);
    snp_autobuf struct snp_buf message = {0};
    snp_autobuf struct snp_buf name = {0};
    json_t *data;

    snp_buf_init(&message, BUILD_MAX);
    snp_buf_init(&name, BUILD_MAX);
    if (m->r == 0) {
        m->r = snp_mcp_text_line(&name, type, strlen(type), LINE_TEXT);
    }
    if (m->r == 0 && is_exception && json_is_string(text)) {
        m->r = snp_mcp_text_add(&message, json_string_value(text), json_string_length(text),
                                ERROR_TEXT, NULL);
    } else if (m->r == 0 && !is_exception) {
        m->r = snp_buf_adds(&message, first);
    }
    data = json_pack("{s:o, s:o}", "type", snp_mcp_text_json(&name), "message",
                     snp_mcp_text_json(&message));
    if (data == NULL) {
        m->r = SNP_E_NOMEM;
        return;
    }
    if (line > 0) {
        (void)json_object_set_new(data, "line", json_integer(line));
    }
    traceback_add(m, data);
    put(m, "error", data);
}

/* What else happened ---------------------------------------------------------------------- */

static void files_add(struct making *m)
{
    static const char *const kinds[] = {"created", "modified", "deleted"};
    const json_t *files = json_object_get(m->view->head, "files");
    json_t *data = json_object();

    for (size_t i = 0; i < SNP_ARRAY_LEN(kinds); i++) {
        const json_t *list = json_object_get(files, kinds[i]);
        size_t n = json_array_size(list);
        json_t *names = json_array();
        snp_autobuf struct snp_buf text = {0};
        int r = 0;

        snp_buf_init(&text, BUILD_MAX);
        for (size_t j = 0; j < n && j < LIST_SHOWN && r == 0; j++) {
            const json_t *name = json_array_get(list, j);
            size_t from = text.len;

            r = snp_mcp_text_line(&text, json_string_value(name), json_string_length(name),
                                  LINE_TEXT);
            (void)json_array_append_new(
                names, text.len == from
                           ? json_string("")
                           : snp_json_bytes(snp_buf_bytes(&text) + from, text.len - from));
            r = r < 0 || j + 1 == n || j + 1 == LIST_SHOWN ? r : snp_buf_adds(&text, ", ");
        }
        if (n > 0 && r == 0) {
            line_begin(m);
            say(m, "[files] %s: %s", kinds[i], snp_buf_cstr(&text));
            if (n > LIST_SHOWN) {
                say(m, " and %zu more", n - LIST_SHOWN);
                (void)json_array_append_new(names,
                                            json_sprintf("and %zu more", n - LIST_SHOWN));
            }
            (void)json_object_set_new(data, kinds[i], names);
        } else {
            json_decref(names);
        }
    }
    if (json_object_size(data) > 0) {
        put(m, "files", data);
    } else {
        json_decref(data);
    }
}

/* "network: connect 1.1.1.1:80; no network; HINT" */
static int denial_text(const json_t *denial, struct snp_buf *text)
{
    static const struct {
        const char *member;
        const char *before;
    } parts[] = {
        {"control",   ""  },
        {"operation", ": "},
        {"object",    " " },
        {"rule",      "; "},
        {"hint",      "; "},
    };
    int r = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(parts) && r == 0; i++) {
        const json_t *part = json_object_get(denial, parts[i].member);

        if (json_string_length(part) > 0) {
            r = snp_buf_adds(text, parts[i].before);
            r = r < 0 ? r
                      : snp_mcp_text_line(text, json_string_value(part),
                                          json_string_length(part), LINE_TEXT);
        }
    }
    return r;
}

static void denials_add(struct making *m)
{
    const json_t *denials = json_object_get(m->view->head, "denials");
    bool has_limit = json_is_object(json_object_get(m->view->head, "limit"));
    size_t n = json_array_size(denials);
    json_t *data = json_array();

    for (size_t i = 0; i < n && json_array_size(data) < DENIALS_SHOWN && m->r == 0; i++) {
        const json_t *denial = json_array_get(denials, i);
        snp_autobuf struct snp_buf text = {0};

        if (has_limit && snp_streq(snp_json_str(denial, "source", ""), "limit")) {
            continue; /* is told as the limit */
        }
        snp_buf_init(&text, BUILD_MAX);
        m->r = denial_text(denial, &text);
        line_begin(m);
        say(m, "[denied] %s", text.len == 0 ? "" : snp_buf_cstr(&text));
        (void)json_array_append_new(data, snp_mcp_text_json(&text));
    }
    if (json_array_size(data) > 0) {
        put(m, "denials", data);
    } else {
        json_decref(data);
    }
}

static void limit_add(struct making *m)
{
    const json_t *limit = json_object_get(m->view->head, "limit");
    const char *key = snp_json_str(limit, "key", "?");
    const char *text = snp_json_str(limit, "text", "?");

    if (!json_is_object(limit)) {
        return;
    }
    line_begin(m);
    say(m, "[limit] %s is %s%s", key, text,
        strcmp(key, "timeout") == 0 ? "; the argument timeout raises it, up to 600"
        : strcmp(key, "memory") == 0
            ? "; a new session with profile analysis or extended has more"
            : "");
    put(m, "limit", json_pack("{s:s, s:s}", "key", key, "value", text));
}

/* The session slept, or was lost and is back: what of it is missing. */
static void restored_add(struct making *m)
{
    const json_t *restored = json_object_get(m->view->head, "restored");
    const json_t *missing = json_object_get(restored, "missing");
    const json_t *failed = json_object_get(restored, "failed");
    size_t n_missing = json_array_size(missing);
    size_t n_failed = json_array_size(failed);

    if (!json_is_object(restored) || n_missing + n_failed == 0) {
        return; /* whole: nothing that needs to be known */
    }
    line_begin(m);
    say(m, "[session] restored as it was after cell %lld",
        (long long)snp_json_int(restored, "cell", 0));
    if (n_missing > 0) {
        say(m, "; what %zu later cells did is missing", n_missing);
    }
    for (size_t i = 0; i < n_failed && i < LIST_SHOWN && m->r == 0; i++) {
        const char *name = snp_json_str(json_array_get(failed, i), "name", "?");

        say(m, "%s", i == 0 ? "; not restored: " : ", ");
        m->r = m->r < 0 ? m->r : snp_mcp_text_line(&m->text, name, strlen(name), LINE_TEXT);
    }
    put(m, "restored",
        json_pack("{s:I, s:I, s:I}", "cell", snp_json_int(restored, "cell", 0), "missing_cells",
                  (json_int_t)n_missing, "lost_variables", (json_int_t)n_failed));
}

static void state_add(struct making *m)
{
    static const struct {
        const char *state;
        const char *text;
    } rows[] = {
        {"rolled_back",              "variables and files are as before this cell"},
        {"lost",                     "its variables are gone, files are there"    },
        {"restored_from_checkpoint", "it goes back to its latest checkpoint"      },
    };
    const char *state = snp_json_str(m->view->head, "state", "kept");

    if (snp_json_bool(m->view->head, "restarted", false)) {
        line_begin(m);
        say(m, "[session] restarted before this cell: variables of earlier cells are gone, "
               "files are there");
        put(m, "restarted", json_true());
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].state, state) == 0) {
            line_begin(m);
            say(m, "[session] %s: %s", state, rows[i].text);
            put(m, "state", json_string(state));
        }
    }
    if (m->view->notes[0] != '\0') {
        line_begin(m);
        say(m, "%s", m->view->notes);
        put(m, "notes", snp_json_bytes(m->view->notes, strlen(m->view->notes)));
    }
}

static void begin_data(struct making *m)
{
    const json_t *head = m->view->head;
    const json_t *code = json_object_get(head, "exit_code");
    const json_t *usage = json_object_get(head, "usage");

    put(m, "status", json_string(snp_json_str(head, "status", "error")));
    put(m, "session", snp_json_bytes(m->view->session_id, strlen(m->view->session_id)));
    put(m, "cell", json_integer(snp_json_int(head, "cell", 0)));
    put(m, "duration_ms", json_integer((snp_json_int(usage, "wall_us", 0) + 500) / 1000));
    if (json_is_integer(code)) {
        put(m, "exit_code", json_incref((json_t *)(uintptr_t)code));
    }
    if (json_is_string(json_object_get(head, "signal"))) {
        put(m, "signal", json_string(snp_json_str(head, "signal", "")));
    }
}

/* A command says its exit code first; Python is as it always was. */
static void make_text(struct making *m)
{
    bool is_command = m->view->code == NULL;
    const char *tier = snp_json_str(json_object_get(m->view->head, "manifest"), "tier", "");
    const char *first;
    bool has = false;

    if (!m->is_ok) {
        snp_autobuf struct snp_buf error = {0};

        snp_buf_init(&error, BUILD_MAX);
        m->r = m->r < 0 ? m->r : snp_cell_error(&error, m->view);
        first = error.len == 0 ? "Error: failed" : snp_buf_cstr(&error);
        say(m, "%s", first);
        (void)stream_add(m, SNP_CELL_STDOUT, is_command ? "[stdout]\n" : "[output]\n",
                         STDOUT_TEXT);
        error_data(m, first + strlen("Error: "));
    } else if (is_command) {
        say(m, "Exit code 0");
        has = stream_add(m, SNP_CELL_STDOUT, "[stdout]\n", STDOUT_TEXT);
        if (!has && m->cell->stream[SNP_CELL_STDERR].text.len == 0) {
            say(m, " (no output)");
        }
    } else {
        if (strcmp(tier, "local") == 0) {
            say(m, "[local mode] ");
            m->prefix = m->text.len;
        }
        has = stream_add(m, SNP_CELL_STDOUT, NULL, STDOUT_TEXT);
        has = values_add(m) || has;
        if (!has) {
            say(m, "(no output)");
        }
    }
    if (m->was_cut) {
        say(m, "\n... (output truncated)");
    }
    (void)stream_add(m, SNP_CELL_STDERR, "[stderr]\n", STDERR_TEXT);
}

json_t *snp_cell_result(const struct snp_cell *cell,
                        struct snp_kept *kept,
                        const struct snp_cell_view *view)
{
    snp_autobuf struct snp_buf text = {0};
    struct making m = {
        .cell = cell,
        .view = view,
        .kept = kept,
        .data = json_object(),
        .is_ok = snp_streq(snp_json_str(view->head, "status", ""), "ok"),
    };
    json_t *result = NULL;

    snp_buf_init(&m.text, BUILD_MAX);
    snp_buf_init(&text, BUILD_MAX);
    begin_data(&m);
    make_text(&m);
    displays_add(&m);
    rest_add(&m);
    limit_add(&m);
    denials_add(&m);
    restored_add(&m);
    files_add(&m);
    state_add(&m);
    m.r = m.r < 0 ? m.r : snp_mcp_json_bound(m.data, SNP_MCP_TEXT_MAX);
    if (m.r == 0) {
        m.r = snp_mcp_text_cut(&text, m.text.len == 0 ? "" : snp_buf_bytes(&m.text), m.text.len,
                               SNP_MCP_TEXT_MAX - 100, NULL);
    }
    if (m.r == 0) {
        result = json_pack("{s:[{s:s, s:o}], s:O}", "content", "type", "text", "text",
                           snp_mcp_text_json(&text), "structuredContent", m.data);
    }
    if (result != NULL && !m.is_ok) {
        (void)json_object_set_new(result, "isError", json_true());
    }
    snp_buf_done(&m.text);
    json_decref(m.data);
    return result;
}
