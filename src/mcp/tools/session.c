/* SPDX-License-Identifier: Apache-2.0 */
/* list_sessions and destroy_session. */
#include "mcp/server/session.h"

#include <string.h>
#include <time.h>

#include "base/str.h"
#include "mcp/caps.h"
#include "mcp/server/task.h"
#include "policy/tier_file.h"
#include "text/text.h"
#include "wire/session.h"

enum {
    LIST_MAX = 1 << 20, /* bytes of the text */
    ID_SHOWN = 100,
};

static int keys_add(struct snp_buf *text, json_t *keys)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    int r = snp_buf_adds(text, ", context: [");

    json_object_foreach(keys, key, value)
    {
        r = r < 0 ? r : snp_buf_adds(text, n++ == 0 ? "" : ", ");
        r = r < 0 ? r : snp_text_line(text, key, strlen(key), ID_SHOWN);
    }
    return r < 0 ? r : snp_buf_adds(text, "]");
}

/* "  - ID: idle 3s, age 120s", and a line about what it lacks */
static int row_add(const struct snp_mcp_sandboxes *service,
                   const json_t *session,
                   struct snp_buf *text)
{
    const char *name = snp_json_str(session, "name", "");
    const char *id = snp_mcp_session_id(service, name);
    bool is_weak = snp_json_int(session, "rank", SNP_TIER_RANK_WHOLE) < SNP_TIER_RANK_WHOLE;
    double created = json_number_value(json_object_get(session, "created"));
    double age = (double)time(NULL) - created;
    json_t *keys = json_object_get(service->keys, name);
    int r = snp_buf_adds(text, "\n  - ");

    r = r < 0 ? r : snp_text_line(text, id, strlen(id), ID_SHOWN);
    r = r < 0 ? r
              : snp_buf_addf(text, "%s: idle %llds, age %llds", is_weak ? " [LOCAL]" : "",
                             (long long)(snp_json_int(session, "idle_ms", 0) / 1000),
                             (long long)(age > 0 ? age : 0));
    if (r == 0 && json_object_size(keys) > 0) {
        r = keys_add(text, keys);
    }
    return r < 0 ? r : snp_mcp_missing_add(text, session, id, "\n    ");
}

static void on_list(struct snp_task *task,
                    const struct snp_err *err,
                    json_t *head,
                    const char *raw,
                    size_t raw_len)
{
    const json_t *list = json_object_get(head, "sessions");
    snp_autobuf struct snp_buf rows = {0};
    snp_autobuf struct snp_buf text = {0};
    size_t n = 0;
    int r = 0;

    (void)raw;
    (void)raw_len;
    if (err != NULL) {
        snp_task_fail(task, err);
        return;
    }
    snp_buf_init(&rows, LIST_MAX);
    snp_buf_init(&text, LIST_MAX + 256);
    for (size_t i = 0; i < json_array_size(list) && r == 0; i++) {
        const json_t *session = json_array_get(list, i);

        /* One without a name ends with its call: nobody could name it. */
        if (snp_json_str(session, "name", "")[0] != '\0') {
            n++;
            r = row_add(task->service, session, &rows);
        }
    }
    r = r < 0 ? r
              : snp_buf_addf(&text, "Active sessions (%zu):\nTrust level: %s\n%s", n,
                             task->service->options.trust,
                             rows.len == 0 ? "" : snp_buf_cstr(&rows));
    if (r < 0) {
        snp_task_end(task, NULL);
        return;
    }
    {
        snp_autobuf struct snp_buf shown = {0};

        snp_buf_init(&shown, LIST_MAX + 512);
        if (snp_text_cut(&shown, snp_buf_bytes(&text), text.len, SNP_MCP_TEXT_MAX - 100, NULL) <
            0) {
            snp_task_end(task, NULL);
            return;
        }
        snp_task_say(task, false, snp_buf_bytes(&shown), shown.len);
    }
}

void snp_tool_list_sessions(struct snp_task *task)
{
    snp_task_ask(task, snp_record_write(&snp_sessions_list_request_form, NULL), NULL, 0,
                 on_list);
}

static void on_destroyed(struct snp_task *task,
                         const struct snp_err *err,
                         json_t *head,
                         const char *raw,
                         size_t raw_len)
{
    bool is_default = strcmp(task->session_id, "default") == 0;

    (void)head;
    (void)raw;
    (void)raw_len;
    if (err != NULL && err->code != SNP_E_NOT_FOUND) {
        snp_task_fail(task, err);
        return;
    }
    (void)json_object_del(task->service->keys, task->session);
    if (is_default) {
        snp_task_sayf(task, false, "Default session reset");
    } else {
        snp_task_sayf(task, err != NULL, "Session '%.500s' %s", task->session_id,
                      err != NULL ? "not found" : "destroyed");
    }
}

void snp_tool_destroy_session(struct snp_task *task)
{
    struct snp_err err;

    if (snp_task_arg(task, "session_id", "")[0] == '\0') {
        (void)snp_fail(&err, SNP_E_INVALID, "No session_id provided");
        snp_task_fail(task, &err);
        return;
    }
    snp_task_ask(task, SNP_WRITE(snp_sessions_destroy_request, .session = task->session), NULL,
                 0, on_destroyed);
}
