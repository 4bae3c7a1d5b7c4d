/* SPDX-License-Identifier: Apache-2.0 */
/* Why a cell failed: in a line or two for the text, and as data. */
#include <string.h>

#include "base/str.h"
#include "mcp/server/cell.h"
#include "text/hint.h"
#include "text/text.h"
#include "text/traceback.h"

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
    const char *hint = snp_hint_of(error, SNP_HINT_MODEL);
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

/* The user's frames into shown, clean; *ret_frames: how many. */
static int traceback_text(const json_t *traceback, struct snp_buf *shown, size_t *ret_frames)
{
    snp_autobuf struct snp_buf own = {0};
    int r;

    snp_buf_init(&own, BUILD_MAX);
    r = snp_traceback_own(&own, json_string_value(traceback), json_string_length(traceback),
                          ret_frames);
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
