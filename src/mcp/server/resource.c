/* SPDX-License-Identifier: Apache-2.0 */
/* Resources: contents of sessions, under names that clients can show and fetch without a model. */
#include "mcp/server/resource.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/str.h"
#include "base/text/image.h"
#include "base/wire/file.h"
#include "base/wire/session.h"
#include "mcp/caps.h"
#include "mcp/server/fetch.h"
#include "mcp/server/session.h"
#include "mcp/server/task.h"

static const char scheme[] = "snipara://";
static const char standards[] = "snipara://standards";

/* URIs ---------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decode n bytes into out, NUL-terminated; -1: malformed, too long, or with a NUL. */
static int percent_decode(const char *text, size_t n, char *out, size_t out_len)
{
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)text[i];

        if (c == '%') {
            int high = i + 2 < n ? hex_digit(text[i + 1]) : -1;
            int low = i + 2 < n ? hex_digit(text[i + 2]) : -1;

            if (high < 0 || low < 0) {
                return -1;
            }
            c = high * 16 + low;
            i += 2;
        }
        if (c == 0 || len + 1 >= out_len) {
            return -1;
        }
        out[len++] = (char)c;
    }
    out[len] = '\0';
    return 0;
}

/* "offset=5&length=10" */
static int query_parse(const char *text, struct snp_mcp_uri *uri)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "&");
        size_t name = strcspn(text, "=");
        char number[24];
        uint64_t value = 0;

        if (name >= n || n - name - 1 >= sizeof(number)) {
            return -1;
        }
        memcpy(number, text + name + 1, n - name - 1);
        number[n - name - 1] = '\0';
        if (snp_parse_u64(number, &value) < 0 || value > INT64_MAX) {
            return -1;
        }
        if (name == 6 && strncmp(text, "offset", 6) == 0) {
            uri->offset = value;
        } else if (name == 6 && strncmp(text, "length", 6) == 0) {
            uri->length = value;
        } else {
            return -1;
        }
        text += n + (text[n] == '&' ? 1 : 0);
    }
    return 0;
}

/* The part after "ID/files/": a path of n bytes. */
static int file_parse(const char *text, size_t n, struct snp_mcp_uri *uri)
{
    if (percent_decode(text, n, uri->path, sizeof(uri->path)) < 0) {
        return -1;
    }
    uri->is_folder = uri->path[0] == '\0' || snp_has_suffix(uri->path, "/");
    if (snp_has_prefix(uri->path, "kept:") || snp_has_prefix(uri->path, "output:")) {
        return -1; /* these have another meaning for the fetcher */
    }
    if (uri->path[0] == '\0') {
        (void)snprintf(uri->path, sizeof(uri->path), "/workspace");
    }
    return 0;
}

static int stream_of(const char *name)
{
    return strcmp(name, "stdout") == 0   ? SNP_CELL_STDOUT
           : strcmp(name, "stderr") == 0 ? SNP_CELL_STDERR
                                         : -1;
}

/* The part after "ID/cells/": "N/STREAM". */
static int cell_parse(const char *text, size_t n, struct snp_mcp_uri *uri)
{
    const char *slash = memchr(text, '/', n);
    char number[24];

    if (slash == NULL || percent_decode(text, (size_t)(slash - text), number, sizeof(number)) < 0 ||
        percent_decode(slash + 1, n - (size_t)(slash + 1 - text), uri->path, sizeof(uri->path)) <
            0) {
        return -1;
    }
    return snp_parse_u64(number, &uri->cell) == 0 && uri->cell > 0 && uri->cell <= INT64_MAX &&
                   stream_of(uri->path) >= 0
               ? 0
               : -1;
}

/* The part after "session/", n bytes. */
static int session_parse(const char *text, size_t n, struct snp_mcp_uri *uri)
{
    static const struct {
        const char *after;
        int (*parse)(const char *text, size_t n, struct snp_mcp_uri *uri);
    } parts[] = {
        {"/files/", file_parse},
        {"/cells/", cell_parse},
    };
    const char *slash = memchr(text, '/', n);
    size_t id = slash == NULL ? n : (size_t)(slash - text);

    if (id == 0 || percent_decode(text, id, uri->session, sizeof(uri->session)) < 0) {
        return -1;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(parts); i++) {
        size_t begin = id + strlen(parts[i].after);

        if (n >= begin && strncmp(text + id, parts[i].after, strlen(parts[i].after)) == 0) {
            return parts[i].parse(text + begin, n - begin, uri);
        }
    }
    return -1;
}

/* "HANDLE/STREAM", where the handle may hold slashes. */
static int output_parse(const char *text, size_t n, struct snp_mcp_uri *uri)
{
    const char *slash = memrchr(text, '/', n);
    char handle[256];
    char stream[16];

    if (slash == NULL || percent_decode(text, (size_t)(slash - text), handle, sizeof(handle)) < 0 ||
        percent_decode(slash + 1, n - (size_t)(slash + 1 - text), stream, sizeof(stream)) < 0) {
        return -1;
    }
    (void)snprintf(uri->path, sizeof(uri->path), "output:%s:%s", handle, stream);
    return 0;
}

static int kept_parse(const char *text, size_t n, struct snp_mcp_uri *uri)
{
    (void)snprintf(uri->path, sizeof(uri->path), "kept:%.*s", (int)(n < 24 ? n : 24), text);
    return n == 0 ? -1 : 0;
}

static const struct {
    const char *prefix;
    int (*parse)(const char *text, size_t n, struct snp_mcp_uri *uri);
} kinds[] = {
    {"session/", session_parse},
    {"output/", output_parse},
    {"kept/", kept_parse},
};

int snp_mcp_uri_parse(const char *text, struct snp_mcp_uri *ret, struct snp_err *err)
{
    const char *rest = text + strlen(scheme);
    struct snp_mcp_uri uri = {0};

    if (!snp_has_prefix(text, scheme)) {
        return snp_fail(err, SNP_E_INVALID, "Resource not found");
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(kinds); i++) {
        const char *body = rest + strlen(kinds[i].prefix);
        size_t n;

        if (!snp_has_prefix(rest, kinds[i].prefix)) {
            continue;
        }
        n = strcspn(body, "?");
        if (kinds[i].parse(body, n, &uri) < 0 ||
            (body[n] == '?' && query_parse(body + n + 1, &uri) < 0)) {
            break;
        }
        *ret = uri;
        return 0;
    }
    return snp_fail(err, SNP_E_INVALID, "Resource not found");
}

/* Lists --------------------------------------------------------------------------------------- */

/* Encode a session_id for a URI: letters, digits and unreserved characters stay. */
static void percent_encode(const char *text, char *out, size_t out_len)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = 0;

    for (; *text != '\0' && len + 4 < out_len; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
            strchr("._-~", c) != NULL) {
            out[len++] = (char)c;
        } else {
            out[len++] = '%';
            out[len++] = digits[c >> 4U];
            out[len++] = digits[c & 15U];
        }
    }
    out[len] = '\0';
}

static json_t *session_resource(const struct snp_mcp_sandboxes *service, const json_t *session)
{
    const char *id = snp_mcp_session_id(service, snp_json_str(session, "name", ""));
    char encoded[3 * SNP_MCP_SESSION_ID_MAX];

    percent_encode(id, encoded, sizeof(encoded));
    return json_pack("{s:o, s:o, s:s, s:s}", "uri",
                     json_sprintf("%ssession/%s/files/", scheme, encoded), "name",
                     snp_json_bytes(id, strlen(id)), "description",
                     "files of this session, as a list", "mimeType", "application/json");
}

static const char plain[] = "text/plain";

/*
 * The MIME type of bytes. Cell output is never HTML: a client that renders it would fetch its
 * links.
 */
static const char *mime_of(const char *bytes, size_t n)
{
    const char *mime = snp_image_type(bytes, n);

    if (mime != NULL) {
        return mime;
    }
    return snp_utf8_valid(bytes, n) && memchr(bytes, '\0', n) == NULL ? plain
                                                                      : "application/octet-stream";
}

static void on_sessions(struct snp_task *task, json_t *head)
{
    const struct snp_mcp_sandboxes *service = task->service;
    json_t *list = json_array();
    size_t i;
    json_t *session;

    if (service->options.project != NULL) {
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "uri", standards,
                                                    "name", "team standards", "description",
                                                    "rules of the team for code in this project",
                                                    "mimeType", "text/plain"));
    }
    json_array_foreach(json_object_get(head, "sessions"), i, session)
    {
        if (snp_json_str(session, "name", "")[0] != '\0') {
            (void)json_array_append_new(list, session_resource(service, session));
        }
    }
    for (i = 0; i < service->kept.n_items; i++) {
        const struct snp_mcp_kept_item *item = &service->kept.items[i];
        unsigned long long number = item->number;

        (void)json_array_append_new(list, json_pack("{s:o, s:o, s:s, s:I}", "uri",
                                                    json_sprintf("%skept/%llu", scheme, number),
                                                    "name", json_sprintf("kept:%llu", number),
                                                    "mimeType", mime_of(item->bytes, item->n),
                                                    "size", (json_int_t)item->n));
    }
    /* Sessions change: this list must not be cached. */
    snp_task_end(
        task, json_pack("{s:o, s:i, s:s}", "resources", list, "ttlMs", 0, "cacheScope", "private"));
}

static void list_begin(struct snp_task *task)
{
    snp_task_ask(task, snp_record_write(&snp_sessions_list_request_form, NULL), on_sessions, NULL);
}

static void list_fail(struct snp_task *task, const struct snp_err *err)
{
    snp_task_refuse(task, SNP_JSONRPC_INTERNAL, NULL, err->msg);
}

static const struct snp_arg no_args[] = {{.name = NULL}};
/* Not tools, but run like them. */
static const struct snp_tool list_work = {
    .name = "resources/list", .args = no_args, .run = list_begin, .fail = list_fail};

void snp_resources_run_list(struct snp_mcp_call *call)
{
    snp_autojson json_t *args = json_object();

    if (!snp_mcp_refuse_cursor(call)) {
        snp_task_start(call->hub->service->ctx, call, &list_work, args);
    }
}

void snp_resources_run_templates(struct snp_mcp_call *call)
{
    if (!snp_mcp_refuse_cursor(call)) {
        snp_mcp_answer(
            call,
            json_pack("{s:[{s:s, s:s, s:s}, {s:s, s:s, s:s}, {s:s, s:s, s:s}]}",
                      "resourceTemplates", "uriTemplate",
                      "snipara://session/{session_id}/files/{+path}", "name", "session file",
                      "description",
                      "a file of a session, or a folder if the path ends with /; "
                      "?offset=N&length=N for a part",
                      "uriTemplate", "snipara://session/{session_id}/cells/{cell}/{stream}", "name",
                      "output of a cell", "description",
                      "what a cell of a session printed, stdout or stderr", "uriTemplate",
                      "snipara://output/{+handle}/{stream}", "name", "full output", "description",
                      "what a cell printed, stdout or stderr, where a result was cut"));
    }
}

/* Reading ------------------------------------------------------------------------------------- */

static void read_fail(struct snp_task *task, const struct snp_err *err)
{
    bool is_modern = task->call != NULL && task->call->era == SNP_ERA_MODERN;
    const char *uri = snp_task_arg(task, "uri", "");

    snp_task_refuse(task, is_modern ? SNP_JSONRPC_PARAMS : SNP_JSONRPC_NO_RESOURCE,
                    json_pack("{s:o}", "uri", snp_json_bytes(uri, strlen(uri))), err->msg);
}

/* contents: consumed. Sessions change: they must not be cached. */
static void contents_end(struct snp_task *task, json_t *contents)
{
    snp_task_end(task, contents == NULL ? NULL
                                        : json_pack("{s:[o], s:i, s:s}", "contents", contents,
                                                    "ttlMs", 0, "cacheScope", "private"));
}

static void on_folder(struct snp_task *task, json_t *head)
{
    snp_autofree char *text = snp_json_text(head);

    contents_end(task, text == NULL
                           ? NULL
                           : json_pack("{s:s, s:s, s:s}", "uri", snp_task_arg(task, "uri", ""),
                                       "mimeType", "application/json", "text", text));
}

static void on_file(struct snp_task *task)
{
    const char *bytes = task->work.len == 0 ? "" : snp_buf_bytes(&task->work);
    size_t n = task->work.len;
    const char *mime = mime_of(bytes, n);
    const char *uri = snp_task_arg(task, "uri", "");
    snp_autofree char *blob = NULL;

    if (mime == plain) {
        contents_end(task, json_pack("{s:s, s:s, s:o}", "uri", uri, "mimeType", plain, "text",
                                     snp_json_bytes(bytes, n)));
        return;
    }
    blob = snp_base64(bytes, n);
    contents_end(task, blob == NULL ? NULL
                                    : json_pack("{s:s, s:s, s:s}", "uri", uri, "mimeType", mime,
                                                "blob", blob));
}

/* Parse the task's URI; false: the task has ended. */
static bool uri_of(struct snp_task *task, struct snp_mcp_uri *ret)
{
    struct snp_err err;

    if (snp_mcp_uri_parse(snp_task_arg(task, "uri", ""), ret, &err) < 0) {
        read_fail(task, &err);
        return false;
    }
    if (ret->length == 0 || ret->length > SNP_MCP_RESOURCE_MAX) {
        ret->length = SNP_MCP_RESOURCE_MAX;
    }
    return true;
}

/* Join a journalled stream: its beginning and end, with a line between if some was cut. */
static int stream_join(const struct snp_cell_stream *stream, struct snp_buf *out)
{
    const char *text = stream->text.len == 0 ? "" : snp_buf_bytes(&stream->text);
    int r;

    if (!stream->has_gap) {
        return snp_buf_add(out, text, stream->text.len);
    }
    r = snp_buf_add(out, text, stream->gap_at);
    r = r < 0 ? r
              : snp_buf_addf(out, "\n... (%lld characters omitted) ...\n", (long long)stream->gap);
    return r < 0 ? r : snp_buf_add(out, text + stream->gap_at, stream->text.len - stream->gap_at);
}

static void journal_end(struct snp_task *task, const struct snp_mcp_uri *uri)
{
    snp_autobuf struct snp_buf whole = SNP_BUF((size_t)SNP_CELL_STREAM_MAX + 64);
    size_t from;
    size_t n;

    snp_buf_clear(&task->work);
    if (stream_join(&task->cell.stream[stream_of(uri->path)], &whole) < 0) {
        snp_task_end(task, NULL);
        return;
    }
    from = uri->offset < whole.len ? (size_t)uri->offset : whole.len;
    n = whole.len - from < uri->length ? whole.len - from : (size_t)uri->length;
    if (snp_buf_add(&task->work, n == 0 ? NULL : snp_buf_bytes(&whole) + from, n) < 0) {
        snp_task_end(task, NULL);
    } else {
        on_file(task);
    }
}

/* The daemon keeps full outputs while it runs; the journal has both ends. */
static void on_no_output(struct snp_task *task, const struct snp_err *err)
{
    struct snp_mcp_uri uri = {0};

    (void)err;
    if (uri_of(task, &uri)) {
        journal_end(task, &uri);
    }
}

static void on_cell(struct snp_task *task, json_t *head)
{
    const json_t *output = json_object_get(json_object_get(head, "result"), "output");
    const char *handle = snp_json_str(output, "handle", NULL);
    struct snp_mcp_uri uri = {0};
    snp_autofree char *path = NULL;

    if (!uri_of(task, &uri)) {
        return;
    }
    if (handle == NULL || !task->cell.stream[stream_of(uri.path)].has_gap) {
        journal_end(task, &uri);
        return;
    }
    path = snp_format("output:%s:%s", handle, uri.path);
    if (path == NULL) {
        snp_task_end(task, NULL);
    } else {
        snp_fetch_start(task, path, uri.offset, uri.length, on_file, on_no_output);
    }
}

static void read_begin(struct snp_task *task)
{
    struct snp_mcp_uri uri = {0};

    if (!uri_of(task, &uri)) {
        return;
    }
    if (uri.cell > 0) {
        snp_cell_init(&task->cell);
        snp_task_ask(task,
                     SNP_WRITE(snp_cell_show_request, .session = task->session, .cell = uri.cell),
                     on_cell, NULL);
    } else if (uri.is_folder) {
        snp_autojson json_t *path = snp_json_bytes(uri.path, strlen(uri.path));

        snp_task_ask(
            task,
            SNP_WRITE(snp_ls_request, .session = task->session, .path = json_string_value(path)),
            on_folder, NULL);
    } else {
        task->fetch.was_opened = true;
        snp_fetch_start(task, uri.path, uri.offset, uri.length, on_file, NULL);
    }
}

static const struct snp_tool read_work = {
    .name = "resources/read", .args = no_args, .run = read_begin, .fail = read_fail};
static const struct snp_tool standards_work = {
    .name = "resources/read", .args = no_args, .run = snp_resource_standards, .fail = read_fail};
static const struct snp_tool read_session_work = {.name = "resources/read",
                                                  .args = no_args,
                                                  .flags = SNP_TOOL_IN_SESSION,
                                                  .run = read_begin,
                                                  .fail = read_fail};

void snp_resources_run_read(struct snp_mcp_call *call)
{
    const char *text = snp_json_str(call->params, "uri", NULL);
    struct snp_mcp_uri uri = {0};
    struct snp_err err;
    snp_autojson json_t *args = NULL;
    bool is_ours = text != NULL && snp_mcp_uri_parse(text, &uri, &err) == 0;

    if (text == NULL) {
        snp_mcp_refuse(call, SNP_JSONRPC_PARAMS, NULL, "resources/read needs the string 'uri'");
        return;
    }
    args = json_pack("{s:s, s:o}", "uri", text, "session_id",
                     snp_json_bytes(uri.session, strlen(uri.session)));
    if (args == NULL) {
        snp_mcp_refuse(call, SNP_JSONRPC_INTERNAL, NULL, "out of memory");
        return;
    }
    snp_task_start(call->hub->service->ctx, call,
                   snp_streq(text, standards)          ? &standards_work
                   : is_ours && uri.session[0] != '\0' ? &read_session_work
                                                       : &read_work,
                   args);
}
