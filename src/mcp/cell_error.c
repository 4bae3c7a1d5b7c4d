/* SPDX-License-Identifier: Apache-2.0 */
/* Why a cell failed: in a line or two for the text, and as data. */
#include <string.h>

#include "base/str.h"
#include "base/text.h"
#include "mcp/cell.h"

enum {
    BUILD_MAX = 1 << 20, /* bytes of a text while it is made */
    ERROR_TEXT = 1000,   /* characters */
    TRACE_TEXT = 1500,
    LINE_TEXT = 200,
};

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
    int r = snp_text_line(out, json_is_string(type) ? json_string_value(type) : "Error",
                          json_is_string(type) ? json_string_length(type) : 5, LINE_TEXT);

    if (r == 0 && json_string_length(message) > 0) {
        r = snp_buf_adds(out, ": ");
        r = r < 0 ? r
                  : snp_text_add(out, json_string_value(message), json_string_length(message),
                                 ERROR_TEXT, NULL);
    }
    if (r == 0 && source != NULL) {
        r = snp_buf_addf(out, "\n  Line %lld: ", (long long)line);
        r = r < 0 ? r : snp_text_line(out, source, len, LINE_TEXT);
    }
    if (r == 0 && hint != NULL) {
        r = snp_buf_adds(out, "\n  Hint: ");
        r = r < 0 ? r : snp_text_line(out, hint, strlen(hint), ERROR_TEXT);
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

/* The user's frames into shown, clean; *ret_frames: how many. */
static int traceback_text(const json_t *traceback, struct snp_buf *shown, size_t *ret_frames)
{
    snp_autobuf struct snp_buf own = {0};
    int r;

    snp_buf_init(&own, BUILD_MAX);
    r = traceback_own(json_string_value(traceback), json_string_length(traceback), &own,
                      ret_frames);
    while (own.len > 0 && snp_buf_bytes(&own)[own.len - 1] == '\n') {
        own.len--;
    }
    return r < 0 || own.len == 0
               ? r
               : snp_text_add(shown, snp_buf_bytes(&own), own.len, TRACE_TEXT, NULL);
}

json_t *snp_cell_error_data(const struct snp_cell_view *view,
                            const char *reason,
                            size_t *ret_frames)
{
    const json_t *error = json_object_get(view->head, "error");
    const json_t *traceback = json_object_get(error, "traceback");
    const json_t *text = json_object_get(error, "message");
    const char *status = snp_json_str(view->head, "status", "error");
    bool is_exception = strcmp(status, "error") == 0 && json_is_object(error);
    const char *type = is_exception ? snp_json_str(error, "type", "Error") : status;
    int64_t line = snp_json_int(error, "line", 0);
    snp_autobuf struct snp_buf name = {0};
    snp_autobuf struct snp_buf message = {0};
    snp_autobuf struct snp_buf trace = {0};
    int r;

    snp_buf_init(&name, BUILD_MAX);
    snp_buf_init(&message, BUILD_MAX);
    snp_buf_init(&trace, BUILD_MAX);
    *ret_frames = 0;
    r = snp_text_line(&name, type, strlen(type), LINE_TEXT);
    if (r == 0 && is_exception && json_is_string(text)) {
        r = snp_text_add(&message, json_string_value(text), json_string_length(text),
                         ERROR_TEXT, NULL);
    } else if (r == 0 && !is_exception) {
        r = snp_buf_adds(&message, reason);
    }
    if (r == 0 && json_is_string(traceback)) {
        r = traceback_text(traceback, &trace, ret_frames);
    }
    return r < 0 ? NULL
                 : json_pack("{s:o, s:o, s:o*, s:o*}", "type", snp_text_json(&name), "message",
                             snp_text_json(&message), "line",
                             line > 0 ? json_integer(line) : NULL, "traceback",
                             json_is_string(traceback) ? snp_text_json(&trace) : NULL);
}
