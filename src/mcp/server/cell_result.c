/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results of cells for models.
 *
 * The text begins as in the predecessor product: the output, or "Error: ...". Our additions follow,
 * each after a word in brackets, to distinguish them from the program's output; no line of a
 * program begins with one of these words. Cut texts can be read with read_file. structuredContent
 * has the same data for programs.
 */
#include <stdio.h>
#include <string.h>

#include "base/policy/tier_file.h"
#include "base/str.h"
#include "base/text/hint.h"
#include "base/text/summary.h"
#include "base/text/text.h"
#include "base/wire/result.h"
#include "mcp/caps.h"
#include "mcp/server/cell.h"
#include "mcp/server/session.h"

enum {
    BUILD_MAX = 1 << 20, /* bytes of a text while it is built */
    STDOUT_TEXT = 6000,  /* characters */
    STDERR_TEXT = 1500,
    VALUE_TEXT = 1500,
    DISPLAY_TEXT = 2000,
    LINE_TEXT = 200,
    SESSION_TEXT = 400,
    FILES_TEXT = 2000,
    LIST_SHOWN = 10, /* files of one kind */
    DENIALS_SHOWN = 5,
    PATH_TEXT = 160, /* bytes of a path to read_file */
    TRIES = 6,       /* a text that is too long is rebuilt, with half of each part */
};

static const char *const stream_names[] = {"stdout", "stderr"};

/* Beginnings of our lines. */
static const char *const labels[] = {
    "[output]", "[stdout]",      "[stderr]", "[traceback]", "[display]", "[full stdout]", "[limit]",
    "[denied]", "[full stderr]", "[files]",  "[session]",   "[note]",    "[job]"};

/* Making ---------------------------------------------------------------------------------- */

/* A result under way; the first failure is kept. */
struct result_builder {
    const struct snp_mcp_cell *cell;
    const struct snp_cell_view *view;
    struct snp_mcp_kept *kept;
    struct snp_say text;
    size_t prefix; /* bytes of text whose next part is on the same line */
    json_t *data;  /* structuredContent; owned */
    bool is_ok;
    unsigned halvings;       /* times the size of each piece was halved */
    char (*path)[PATH_TEXT]; /* of each stream, where it can be read in full; "" = not known yet */
};

/* Bytes up to and including the next line end. */
static size_t line_length(const char *text, size_t n)
{
    const char *end = memchr(text, '\n', n);

    return end == NULL ? n : (size_t)(end - text) + 1;
}

/* Whether a line begins like one of ours. */
static bool is_like_ours(const char *line, size_t n)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(labels); i++) {
        size_t len = strlen(labels[i]);

        if (n >= len && memcmp(line, labels[i], len) == 0) {
            return true;
        }
    }
    return false;
}

/* Append clean text of a program. Lines that look like ours are indented by a blank. */
static void program_say(struct snp_say *out, const struct snp_buf *buf)
{
    const char *text = snp_buf_bytes(buf);
    size_t len;

    for (size_t n = buf->len; n > 0; n -= len) {
        len = line_length(text, n);
        snp_say(out, is_like_ours(text, len) ? " " : "");
        snp_say_bytes(out, text, len);
        text += len;
    }
}

void snp_cell_labelled(struct snp_say *out, const char *label, const json_t *text)
{
    size_t n = json_string_length(text);
    const struct snp_buf buf = {.data = (char *)(uintptr_t)json_string_value(text), .len = n};

    if (n > 0) {
        snp_say(out, "%s", label);
        program_say(out, &buf);
        snp_say(out, "\n");
    }
}

/* Begin a new line. */
static void line_begin(struct result_builder *m)
{
    const struct snp_buf *text = &m->text.buf;

    if (text->len > m->prefix && snp_buf_bytes(text)[text->len - 1] != '\n') {
        snp_say(&m->text, "\n");
    }
}

static void put(struct result_builder *m, const char *key, json_t *value)
{
    if (json_object_set_new(m->data, key, value) < 0) {
        m->text.r = SNP_E_NOMEM;
    }
}

/* The same for a list or object; nothing if it is empty. */
static void put_some(struct result_builder *m, const char *key, json_t *value)
{
    if (json_array_size(value) + json_object_size(value) > 0) {
        put(m, key, value);
    } else {
        json_decref(value);
    }
}

/* The path of a full stream: "output:HANDLE:stdout", or "kept:7"; NULL: none. */
static const char *source_of(struct result_builder *m, int i)
{
    const struct snp_cell_stream *stream = &m->cell->stream[i];
    const char *handle = snp_json_str(json_object_get(m->view->head, "output"), "handle", NULL);
    char *path = m->path[i];
    uint64_t number = 0;

    if (path[0] == '\0' && handle != NULL && stream->has_gap) {
        (void)snprintf(path, PATH_TEXT, "output:%s:%s", handle, stream_names[i]);
    } else if (path[0] == '\0' && !stream->has_gap && !stream->has_spill) {
        number =
            snp_mcp_kept_add(m->kept, "text/plain", snp_buf_bytes(&stream->text), stream->text.len);
        if (number != 0) {
            (void)snprintf(path, PATH_TEXT, "kept:%llu", (unsigned long long)number);
        }
    }
    return path[0] == '\0' ? NULL : path;
}

/* Add a stream to text and data. True if it was not empty. */
static bool stream_add(struct result_builder *m, int i, const char *label, size_t max)
{
    snp_autobuf struct snp_buf shown = SNP_BUF(BUILD_MAX);
    const char *path = NULL;
    char member[32];
    bool is_cut = false;

    if (m->cell->stream[i].text.len == 0 || m->text.r < 0) {
        return false;
    }
    m->text.r = snp_cell_news(&m->cell->stream[i], m->cell->stream[i].text.len, max >> m->halvings,
                              &shown, &is_cut);
    put(m, stream_names[i], snp_text_json(&shown));
    if (is_cut) {
        path = source_of(m, i);
        (void)snprintf(member, sizeof(member), "%s_rest", stream_names[i]);
        put(m, member,
            path == NULL ? json_string("not kept: print less, or write it to a file")
                         : json_sprintf("SniparaSandbox.read_file(path=\"%s\")", path));
    }
    if (shown.len == 0) {
        return false;
    }
    line_begin(m);
    snp_say(&m->text, "%s", label);
    program_say(&m->text, &shown);
    return true;
}

static void rest_add(struct result_builder *m)
{
    for (int i = 0; i < SNP_CELL_STREAMS; i++) {
        char member[32];
        const char *how;

        (void)snprintf(member, sizeof(member), "%s_rest", stream_names[i]);
        how = snp_json_str(m->data, member, NULL);
        if (how != NULL) {
            line_begin(m);
            snp_say(&m->text, "[full %s] %s", stream_names[i], how);
        }
    }
}

/* Add value and result, as in a notebook. True if there was something. */
static bool values_add(struct result_builder *m)
{
    static const struct {
        const char *member;
        const char *before;
    } rows[] = {
        {"value", ""},
        {"result", "result = "},
    };
    bool has = false;

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        const json_t *value = json_object_get(m->view->head, rows[i].member);
        snp_autobuf struct snp_buf shown = SNP_BUF(BUILD_MAX);

        if (!json_is_string(value) || m->text.r < 0) {
            continue;
        }
        m->text.r = snp_text_add(&shown, json_string_value(value), json_string_length(value),
                                 VALUE_TEXT >> m->halvings, NULL);
        put(m, rows[i].member, snp_text_json(&shown));
        line_begin(m);
        snp_say(&m->text, "%s", rows[i].before);
        program_say(&m->text, &shown);
        has = true;
    }
    return has;
}

static void displays_add(struct result_builder *m)
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
            snp_say(&m->text, "[display] %s: %s(path=\"%s\")", mime,
                    snp_has_prefix(mime, "image/") ? "SniparaSandbox.view_image"
                                                   : "SniparaSandbox.read_file",
                    path);
            (void)json_array_append(data, display);
        } else if (text != NULL && !json_equal(text, value)) {
            snp_autobuf struct snp_buf shown = SNP_BUF(BUILD_MAX);
            int r = snp_text_cut(&shown, json_string_value(text), json_string_length(text),
                                 DISPLAY_TEXT >> m->halvings, NULL);

            m->text.r = m->text.r < 0 ? m->text.r : r;
            line_begin(m);
            snp_say(&m->text, "[display] ");
            program_say(&m->text, &shown);
            (void)json_array_append(data, display);
        }
    }
    put_some(m, "displays", data);
}

/* Failure --------------------------------------------------------------------------------- */

static void error_add(struct result_builder *m, const char *reason)
{
    size_t frames = 0;
    json_t *data = snp_cell_error_data(m->view, reason, &frames);
    const json_t *trace = json_object_get(data, "traceback");
    const struct snp_buf text = {.data = (char *)(uintptr_t)json_string_value(trace),
                                 .len = json_string_length(trace)};

    /* A single frame only repeats the line above. */
    if (text.len > 0 && frames > 1) {
        line_begin(m);
        snp_say(&m->text, "[traceback]\n");
        program_say(&m->text, &text);
    }
    put(m, "error", data);
}

/* Other events ----------------------------------------------------------------------------- */

/* "[WORD] LABEL: TEXT; HINT" for each line of a summary. New reference: the texts, cleaned. */
static json_t *lines_add(struct result_builder *m, const json_t *lines, size_t max)
{
    json_t *data = json_array();

    m->text.r = lines == NULL ? SNP_E_NOMEM : m->text.r;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        const char *label;
        const char *word;
        const char *hint = snp_json_str(line, "hint", NULL);
        snp_autosay struct snp_say text = SNP_SAY(BUILD_MAX);

        snp_say_string(&text, json_object_get(line, "text"), max >> m->halvings);
        snp_say(&text, "%s%s", hint == NULL ? "" : "; ", hint == NULL ? "" : hint);
        snp_summary_labels(line, &label, &word);
        line_begin(m);
        snp_say(&m->text, "[%s] %s%s%s", word, strcmp(label, word) == 0 ? "" : label,
                strcmp(label, word) == 0 ? "" : ": ", snp_say_cstr(&text));
        (void)json_array_append_new(data, snp_text_json(&text.buf));
    }
    return data;
}

static void files_add(struct result_builder *m)
{
    snp_autojson json_t *lines = snp_summary_files(m->view->head, LIST_SHOWN);
    json_t *data = json_object();
    size_t i;
    json_t *line;

    json_decref(lines_add(m, lines, FILES_TEXT));
    json_array_foreach(lines, i, line)
    {
        const json_t *names = json_object_get(line, "names");
        json_t *shown = json_array();

        for (size_t j = 0; j < json_array_size(names); j++) {
            snp_autosay struct snp_say text = SNP_SAY(BUILD_MAX);

            snp_say_string(&text, json_array_get(names, j), LINE_TEXT >> m->halvings);
            (void)json_array_append_new(shown, snp_text_json(&text.buf));
        }
        (void)json_object_set_new(data, snp_json_str(line, "part", ""), shown);
    }
    put_some(m, "files", data);
}

static void denials_add(struct result_builder *m)
{
    const json_t *head = m->view->head;
    /* The hint of the error is printed already. */
    const char *told = snp_hint_of(json_object_get(head, "error"), SNP_HINT_MODEL);
    snp_autojson json_t *lines = snp_summary_denials(head, SNP_HINT_MODEL, told, DENIALS_SHOWN);

    put_some(m, "denials", lines_add(m, lines, SESSION_TEXT));
}

static void limit_add(struct result_builder *m)
{
    const json_t *limit = json_object_get(m->view->head, "limit");
    snp_autofree char *text = snp_summary_limit(m->view->head, SNP_HINT_MODEL);

    if (text != NULL) {
        line_begin(m);
        snp_say(&m->text, "[limit] %s%s", text, snp_mcp_more(limit));
        put(m, "limit",
            json_pack("{s:s, s:s}", "key", snp_json_str(limit, "key", "?"), "value",
                      snp_json_str(limit, "text", "?")));
    }
}

/* Add the state of the session: sentences to text, facts to data. */
static void session_data_add(struct result_builder *m)
{
    const json_t *head = m->view->head;
    const json_t *restored = json_object_get(head, "restored");
    const char *state = snp_json_str(head, "state", "kept");
    const char *error = snp_json_str(json_object_get(head, "checkpoint"), "error", NULL);
    size_t n_missing = json_array_size(json_object_get(restored, "missing"));
    size_t n_failed = json_array_size(json_object_get(restored, "failed"));
    size_t n_files = json_array_size(json_object_get(restored, "missing_puts"));

    if (n_missing + n_failed + n_files > 0) {
        put(m, "restored",
            json_pack("{s:I, s:I, s:I}", "cell", snp_json_int(restored, "cell", 0), "missing_cells",
                      (json_int_t)n_missing, "lost_variables", (json_int_t)n_failed));
    }
    if (snp_json_bool(head, "restarted", false)) {
        put(m, "restarted", json_true());
    }
    if (strcmp(state, "kept") != 0) {
        put(m, "state", json_string(state));
    }
    if (error != NULL) {
        put(m, "not_saved", snp_json_bytes(error, strlen(error)));
    }
}

static void session_add(struct result_builder *m)
{
    snp_autojson json_t *lines = snp_summary_session(m->view->head, LIST_SHOWN);
    const char *unsaved = snp_json_str(json_object_get(m->view->head, "unsaved"), "text", NULL);

    json_decref(lines_add(m, lines, SESSION_TEXT));
    session_data_add(m);
    if (unsaved != NULL) {
        line_begin(m);
        snp_say(&m->text, "[session] %.300s", unsaved);
        put(m, "unsaved", snp_json_bytes(unsaved, strlen(unsaved)));
    }
    if (m->view->notes[0] != '\0') {
        line_begin(m);
        snp_say(&m->text, "%s", m->view->notes);
        put(m, "notes", snp_json_bytes(m->view->notes, strlen(m->view->notes)));
    }
}

static void begin_data(struct result_builder *m)
{
    const json_t *head = m->view->head;
    const json_t *code = json_object_get(head, "exit_code");
    const json_t *usage = json_object_get(head, "usage");

    put(m, "status", json_string(snp_json_str(head, "status", "error")));
    put(m, "session", snp_json_bytes(m->view->session_id, strlen(m->view->session_id)));
    put(m, "cell", json_integer(snp_json_int(head, "cell", 0)));
    put(m, "duration_ms", json_integer((snp_json_int(usage, "wall_us", 0) + 500) / 1000));
    if (json_is_integer(code)) {
        put(m, "exit_code", json_integer(json_integer_value(code)));
    }
    if (json_is_string(json_object_get(head, "signal"))) {
        put(m, "signal", json_string(snp_json_str(head, "signal", "")));
    }
}

/* A command begins with its exit code; Python is unchanged. */
static void make_text(struct result_builder *m)
{
    bool is_command = m->view->code == NULL;
    const json_t *manifest = json_object_get(m->view->head, "manifest");
    const char *first;
    bool has = false;

    if (!m->is_ok) {
        snp_autosay struct snp_say error = SNP_SAY(BUILD_MAX);

        snp_cell_error(&error, m->view);
        first = error.buf.len == 0 ? "Error: failed" : snp_say_cstr(&error);
        program_say(&m->text, &error.buf);
        (void)stream_add(m, SNP_CELL_STDOUT, is_command ? "[stdout]\n" : "[output]\n", STDOUT_TEXT);
        error_add(m, first + strlen("Error: "));
    } else if (is_command) {
        snp_say(&m->text, "Exit code 0");
        has = stream_add(m, SNP_CELL_STDOUT, "[stdout]\n", STDOUT_TEXT);
        if (!has && m->cell->stream[SNP_CELL_STDERR].text.len == 0) {
            snp_say(&m->text, " (no output)");
        }
    } else {
        if (snp_json_int(manifest, "rank", SNP_TIER_RANK_WHOLE) < SNP_TIER_RANK_WHOLE) {
            snp_say(&m->text, "[local mode] ");
            m->prefix = m->text.buf.len;
        }
        has = stream_add(m, SNP_CELL_STDOUT, "", STDOUT_TEXT);
        has = values_add(m) || has;
        if (!has) {
            snp_say(&m->text,
                    m->cell->stream[SNP_CELL_STDOUT].told == 0 ? "(no output)" : "(no new output)");
        }
    }
    (void)stream_add(m, SNP_CELL_STDERR, "[stderr]\n", STDERR_TEXT);
}

static void make(struct result_builder *m)
{
    m->text.buf.max = BUILD_MAX;
    m->data = json_object();
    begin_data(m);
    make_text(m);
    displays_add(m);
    rest_add(m);
    limit_add(m);
    denials_add(m);
    files_add(m);
    session_add(m);
}

static void making_done(struct result_builder *m)
{
    snp_say_done(&m->text);
    json_decref(m->data);
}

static bool is_long(const struct result_builder *m)
{
    const struct snp_buf *text = &m->text.buf;

    return m->text.r == 0 && text->len > SNP_MCP_TEXT_MAX &&
           snp_utf8_count(snp_buf_bytes(text), text->len) > SNP_MCP_TEXT_MAX;
}

json_t *snp_cell_result(const struct snp_mcp_cell *cell,
                        struct snp_mcp_kept *kept,
                        const struct snp_cell_view *view)
{
    char path[SNP_CELL_STREAMS][PATH_TEXT] = {""};
    const struct result_builder begin = {
        .cell = cell,
        .view = view,
        .kept = kept,
        .path = path,
        .is_ok = snp_streq(snp_json_str(view->head, "status", ""), "ok"),
    };
    snp_autobuf struct snp_buf text = SNP_BUF(BUILD_MAX);
    struct result_builder m = begin;
    int r;
    json_t *result = NULL;

    make(&m);
    /* Shorten each piece, so that none is cut again with the whole. */
    for (unsigned i = 1; i < TRIES && is_long(&m); i++) {
        making_done(&m);
        m = begin;
        m.halvings = i;
        make(&m);
    }
    r = m.text.r < 0 ? m.text.r : snp_text_bound(m.data, SNP_MCP_TEXT_MAX);
    if (r == 0) {
        r = snp_text_cut(&text, snp_say_cstr(&m.text), m.text.buf.len,
                         is_long(&m) ? SNP_MCP_TEXT_MAX - 100 : SNP_MCP_TEXT_MAX, NULL);
    }
    if (r == 0) {
        result = json_pack("{s:[{s:s, s:o}], s:O}", "content", "type", "text", "text",
                           snp_text_json(&text), "structuredContent", m.data);
    }
    if (result != NULL && !m.is_ok) {
        (void)json_object_set_new(result, "isError", json_true());
    }
    making_done(&m);
    return result;
}
