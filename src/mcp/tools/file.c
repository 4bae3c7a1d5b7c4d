/* SPDX-License-Identifier: Apache-2.0 */
/* read_file, write_file, list_files and view_image. */
#include "base/wire/file.h"

#include <string.h>

#include "base/base64.h"
#include "base/str.h"
#include "base/text/image.h"
#include "base/text/text.h"
#include "base/wire/rpc.h"
#include "mcp/caps.h"
#include "mcp/server/fetch.h"
#include "mcp/server/remedy.h"
#include "mcp/server/session.h"
#include "mcp/server/task.h"

enum {
    READ_DEFAULT = 8000, /* bytes */
    READ_MAX = 9000,
    TEXT_BUILD = 1 << 20,
    PATH_SHOWN = 300,
};

/*
 * The path in the form of results of cells, also used in the answer; fallback: the default. NULL:
 * the task has ended.
 */
static const char *path_of(struct snp_task *task, const char *fallback)
{
    const char *path = snp_task_arg(task, "path", "");
    snp_autofree char *plain = NULL;

    path = path[0] == '\0' ? fallback : path;
    if (path == NULL) {
        snp_task_sayf(task, true, "Error: No path provided");
        return NULL;
    }
    plain = snp_path_plain(path);
    if (plain == NULL || json_object_set_new(task->args, "path", json_string(plain)) < 0) {
        snp_task_end(task, NULL);
        return NULL;
    }
    return snp_task_arg(task, "path", "");
}

/* Reading ------------------------------------------------------------------------------------- */

/* The number of bytes, of n, that can be shown whole, including the growth by cleaning. */
static size_t fitting(const char *bytes, size_t n)
{
    while (n > 1) {
        snp_autobuf struct snp_buf clean = SNP_BUF(TEXT_BUILD);
        size_t chars;

        if (snp_text_clean(&clean, bytes, n) < 0) {
            n /= 2;
            continue;
        }
        chars = clean.len == 0 ? 0 : snp_utf8_count(snp_buf_bytes(&clean), clean.len);
        if (chars <= READ_MAX) {
            break;
        }
        n = n * READ_MAX / chars;
        n -= snp_utf8_begun(bytes, n);
    }
    return n;
}

static void on_read(struct snp_task *task)
{
    const char *path = snp_task_arg(task, "path", "");
    const struct snp_fetch *fetch = &task->fetch;
    const char *bytes = task->work.len == 0 ? "" : snp_buf_bytes(&task->work);
    size_t n = task->work.len;
    snp_autosay struct snp_say text = SNP_SAY(TEXT_BUILD);
    unsigned long long size = fetch->size;
    size_t shown;
    bool is_end;

    if (memchr(bytes, '\0', n) != NULL) {
        const char *mime = snp_image_type(bytes, n);

        snp_task_sayf(task, true, "Error: %.300s is binary (%llu bytes%s%s); %s", path, size,
                      mime == NULL ? "" : ", ", mime == NULL ? "" : mime,
                      mime == NULL ? "read it with SniparaSandbox.execute_python"
                                   : "SniparaSandbox.view_image shows it");
        return;
    }
    n -= fetch->is_end ? 0 : snp_utf8_begun(bytes, n);
    shown = fitting(bytes, n);
    is_end = fetch->is_end && shown == n;
    snp_say_line(&text, path, PATH_SHOWN);
    if (fetch->from == 0 && is_end) {
        snp_say(&text, ": %llu bytes\n\n", size);
    } else {
        snp_say(&text, ": bytes %llu to %llu of %llu\n\n", (unsigned long long)fetch->from,
                (unsigned long long)fetch->from + shown, size);
    }
    snp_say_text(&text, bytes, shown, READ_MAX);
    if (!is_end) { /* the call that continues reading */
        snp_say(&text, "\n[next] SniparaSandbox.read_file(");
        snp_mcp_call_arg(&text, "path", path);
        snp_say(&text, ", offset=%llu", (unsigned long long)fetch->from + shown);
        snp_mcp_call_session(&text, task->session_id);
        snp_say(&text, ")");
    }
    snp_task_say(task, false, &text);
}

void snp_tool_read_file(struct snp_task *task)
{
    const char *path = path_of(task, NULL);
    double offset = json_number_value(json_object_get(task->args, "offset"));
    double limit = json_number_value(json_object_get(task->args, "limit"));

    if (path != NULL) {
        snp_fetch_start(task, path, (uint64_t)offset,
                        limit < 1          ? READ_DEFAULT
                        : limit > READ_MAX ? READ_MAX
                                           : (uint64_t)limit,
                        on_read, NULL);
    }
}

/* Images -------------------------------------------------------------------------------------- */

static void on_image(struct snp_task *task)
{
    const char *path = snp_task_arg(task, "path", "");
    const char *bytes = task->work.len == 0 ? "" : snp_buf_bytes(&task->work);
    const char *mime = snp_image_type(bytes, task->work.len);
    snp_autofree char *data = NULL;
    snp_autosay struct snp_say text = SNP_SAY(TEXT_BUILD);

    if (!task->fetch.is_end) {
        snp_task_sayf(task, true,
                      "Error: the image has %llu bytes, more than %d MiB: make it "
                      "smaller first",
                      (unsigned long long)task->fetch.size, SNP_MCP_IMAGE_MAX >> 20);
        return;
    }
    if (mime == NULL) {
        snp_task_sayf(task, true, "Error: %.300s is not a PNG, JPEG, GIF or WebP image", path);
        return;
    }
    data = snp_base64(bytes, task->work.len);
    snp_say_line(&text, path, PATH_SHOWN);
    snp_say(&text, ": %s, %zu bytes", mime, task->work.len);
    snp_task_end(task, data == NULL || text.r < 0
                           ? NULL
                           : json_pack("{s:[{s:s, s:o}, {s:s, s:s, s:s}]}", "content", "type",
                                       "text", "text", snp_text_json(&text.buf), "type", "image",
                                       "data", data, "mimeType", mime));
}

void snp_tool_view_image(struct snp_task *task)
{
    const char *path = path_of(task, NULL);

    if (path != NULL) {
        snp_fetch_start(task, path, 0, SNP_MCP_IMAGE_MAX, on_image, NULL);
    }
}

/* Writing ------------------------------------------------------------------------------------- */

static void chunk_put(struct snp_task *task);

static void on_put(struct snp_task *task, json_t *head)
{
    const char *unsaved = snp_json_str(json_object_get(head, "unsaved"), "text", NULL);

    if (task->fetch.from <= task->work.len && !task->is_cancelled) {
        chunk_put(task);
    } else {
        snp_task_sayf(task, false, "Wrote %zu bytes to %.300s%s%.300s", task->work.len,
                      snp_task_arg(task, "path", ""), unsaved == NULL ? "" : "\n[session] ",
                      unsaved == NULL ? "" : unsaved);
    }
}

static void chunk_put(struct snp_task *task)
{
    uint64_t at = task->fetch.from;
    size_t n =
        task->work.len - at < SNP_FILE_CHUNK_MAX ? task->work.len - (size_t)at : SNP_FILE_CHUNK_MAX;

    task->fetch.from += n < SNP_FILE_CHUNK_MAX ? n + 1 : n; /* a shorter part is the last */
    snp_session_ask(task,
                    SNP_WRITE(snp_put_request, .session = task->session,
                              .path = snp_task_arg(task, "path", ""), .offset = at,
                              .truncate = at == 0),
                    n == 0 ? NULL : snp_buf_bytes(&task->work) + at, n, on_put);
}

void snp_tool_write_file(struct snp_task *task)
{
    const char *path = path_of(task, NULL);
    const json_t *content = json_object_get(task->args, "content");
    const char *text = json_string_value(content);
    size_t n = json_string_length(content);
    bool is_base64 = snp_streq(snp_task_arg(task, "encoding", "utf-8"), "base64");
    int r;

    if (path == NULL) {
        return;
    }
    if (text == NULL || path[strlen(path) - 1] == '/') {
        snp_task_sayf(task, true,
                      text == NULL ? "Error: No content provided" : "Error: '%.300s' is a folder",
                      path);
        return;
    }
    r = is_base64 ? snp_base64_take(text, n, &task->work) : snp_buf_add(&task->work, text, n);
    if (r == SNP_E_INVALID) {
        snp_task_sayf(task, true, "Error: content is not base64");
    } else if (r == SNP_E_LIMIT) {
        snp_task_sayf(task, true,
                      "Error: content can have at most 16 MiB; write a part at a time "
                      "with SniparaSandbox.execute_python");
    } else if (r < 0) {
        snp_task_end(task, NULL);
    } else {
        chunk_put(task);
    }
}

/* Listing ------------------------------------------------------------------------------------- */

static void entry_say(struct snp_say *text, const json_t *entry)
{
    struct snp_ls_entry row;
    char size[32];

    snp_record_read(entry, &snp_ls_entry_form, &row);
    snp_say(text, "\n  ");
    snp_say_string(text, row.name, PATH_SHOWN);
    if (strcmp(row.type, "file") == 0) {
        snp_say(text, "  %s", snp_format_bytes(row.size, size, sizeof(size)));
    } else {
        snp_say(text, "%s",
                strcmp(row.type, "dir") == 0    ? "/"
                : strcmp(row.type, "link") == 0 ? "  (link)"
                                                : "  (neither file nor folder)");
    }
}

static void on_ls(struct snp_task *task, json_t *head)
{
    snp_autosay struct snp_say text = SNP_SAY(TEXT_BUILD);
    struct snp_ls_answer listed;
    size_t n;
    size_t i = 0;

    snp_record_read(head, &snp_ls_answer_form, &listed);
    n = json_array_size(listed.entries);
    snp_say_line(&text, snp_task_arg(task, "path", ""), PATH_SHOWN);
    snp_say(&text, ": %zu%s entries", n, listed.truncated ? " or more" : "");
    for (; i < n && i < SNP_MCP_ENTRIES_MAX && text.buf.len < SNP_MCP_TEXT_MAX - 600; i++) {
        entry_say(&text, json_array_get(listed.entries, i));
    }
    if (i < n || listed.truncated) {
        snp_say(&text,
                "\n[more] the first %zu are shown; SniparaSandbox.execute_shell has "
                "ls, find and grep",
                i);
    }
    snp_task_say(task, false, &text);
}

void snp_tool_list_files(struct snp_task *task)
{
    const char *path = path_of(task, "/workspace");

    if (path != NULL) {
        snp_session_ask(task, SNP_WRITE(snp_ls_request, .session = task->session, .path = path),
                        NULL, 0, on_ls);
    }
}
