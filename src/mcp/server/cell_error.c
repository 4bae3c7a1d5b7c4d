/* SPDX-License-Identifier: Apache-2.0 */
/* Why a cell failed: in a line or two for the text, and as data. */
#include <string.h>

#include "base/str.h"
#include "base/text/hint.h"
#include "base/text/summary.h"
#include "base/text/text.h"
#include "base/text/traceback.h"
#include "mcp/server/cell.h"

enum {
    BUILD_MAX = 1 << 20, /* bytes of a text while it is built */
    ERROR_TEXT = 1000,   /* characters */
    TRACE_TEXT = 1500,
    LINE_TEXT = 200,
};

/* Line n of code, from 1, stripped. */
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

static void exception_say(struct snp_say *out, const struct snp_cell_view *view)
{
    const json_t *error = json_object_get(view->head, "error");
    const json_t *type = json_object_get(error, "type");
    const json_t *message = json_object_get(error, "message");
    const char *hint = snp_hint_of(error, SNP_HINT_MODEL);
    size_t len = 0;
    int64_t line = snp_json_int(error, "line", 0);
    const char *source = code_line(view, line, &len);

    snp_say(out, json_is_string(type) ? "Error: " : "Error: Error");
    snp_say_string(out, type, LINE_TEXT);
    if (json_string_length(message) > 0) {
        snp_say(out, ": ");
        snp_say_text(out, json_string_value(message), json_string_length(message), ERROR_TEXT);
    }
    if (source != NULL) {
        snp_say(out, "\n  Line %lld: ", (long long)line);
        out->r = out->r < 0 ? out->r : snp_text_line(&out->buf, source, len, LINE_TEXT);
    }
    if (hint != NULL) {
        snp_say(out, "\n  Hint: ");
        snp_say_line(out, hint, ERROR_TEXT);
    }
}

void snp_cell_error(struct snp_say *out, const struct snp_cell_view *view)
{
    snp_autofree char *end = snp_summary_end(view->head, SNP_HINT_MODEL);

    if (snp_streq(snp_json_str(view->head, "status", ""), "ok")) {
        return;
    }
    if (end != NULL) {
        snp_say(out, "Error: %s", end);
    } else if (json_is_object(json_object_get(view->head, "error"))) {
        exception_say(out, view);
    } else {
        snp_say(out, "Error: Exit code %lld", (long long)snp_json_int(view->head, "exit_code", -1));
    }
}

/* Append the user's frames to shown, clean; *ret_frames: their number. */
static void traceback_say(const json_t *traceback, struct snp_say *shown, size_t *ret_frames)
{
    snp_autobuf struct snp_buf own = SNP_BUF(BUILD_MAX);

    shown->r = snp_traceback_own(&own, json_string_value(traceback), json_string_length(traceback),
                                 ret_frames);
    if (own.len > 0) {
        snp_say_text(shown, snp_buf_bytes(&own), own.len, TRACE_TEXT);
    }
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
    int64_t line = snp_json_int(error, "line", 0);
    snp_autosay struct snp_say type = SNP_SAY(BUILD_MAX);
    snp_autosay struct snp_say message = SNP_SAY(BUILD_MAX);
    snp_autosay struct snp_say trace = SNP_SAY(BUILD_MAX);

    *ret_frames = 0;
    snp_say_line(&type, is_exception ? snp_json_str(error, "type", "Error") : status, LINE_TEXT);
    if (!is_exception) {
        snp_say(&message, "%s", reason);
    } else if (json_is_string(text)) {
        snp_say_text(&message, json_string_value(text), json_string_length(text), ERROR_TEXT);
    }
    if (json_is_string(traceback)) {
        traceback_say(traceback, &trace, ret_frames);
    }
    return type.r < 0 || message.r < 0 || trace.r < 0
               ? NULL
               : json_pack("{s:o, s:o, s:o*, s:o*}", "type", snp_text_json(&type.buf), "message",
                           snp_text_json(&message.buf), "line",
                           line > 0 ? json_integer(line) : NULL, "traceback",
                           json_is_string(traceback) ? snp_text_json(&trace.buf) : NULL);
}
