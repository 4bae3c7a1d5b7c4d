/* SPDX-License-Identifier: Apache-2.0 */
/* list_sessions and destroy_session. */
#include "mcp/server/session.h"

#include <string.h>
#include <time.h>

#include "base/policy/tier_file.h"
#include "base/str.h"
#include "base/text/text.h"
#include "base/wire/session.h"
#include "mcp/caps.h"
#include "mcp/server/task.h"

enum {
    LIST_MAX = 1 << 20, /* bytes of the text */
    ID_SHOWN = 100,
};

static void keys_say(struct snp_say *text, json_t *keys)
{
    const char *key;
    json_t *value;
    size_t n = 0;

    snp_say(text, ", context: [");
    json_object_foreach(keys, key, value)
    {
        snp_say(text, n++ == 0 ? "" : ", ");
        snp_say_line(text, key, ID_SHOWN);
    }
    snp_say(text, "]");
}

/* "  - ID: idle 3s, age 120s", and lines about a failed save and missing cells */
static void row_say(const struct snp_mcp_sandboxes *service,
                    const json_t *session,
                    struct snp_say *text)
{
    struct snp_session_row row;
    const char *id;
    json_t *keys;
    bool is_asleep;
    double age;
    double idle;

    snp_record_read(session, &snp_session_row_form, &row);
    id = snp_mcp_session_id(service, row.name);
    keys = json_object_get(service->keys, row.name);
    age = (double)time(NULL) - row.created;
    is_asleep = snp_streq(row.state, "hibernated");
    idle = is_asleep ? (double)time(NULL) - row.used : (double)row.idle_ms / 1000;
    snp_say(text, "\n  - ");
    snp_say_line(text, id, ID_SHOWN);
    snp_say(text, "%s: idle %llds, age %llds%s", row.rank < SNP_TIER_RANK_WHOLE ? " [LOCAL]" : "",
            (long long)(idle > 0 ? idle : 0), (long long)(age > 0 ? age : 0),
            is_asleep ? ", hibernated" : "");
    if (json_object_size(keys) > 0) {
        keys_say(text, keys);
    }
    if (row.unsaved != NULL) {
        snp_say(text, "\n    [session] %.300s", snp_json_str(row.unsaved, "text", "not saved"));
    }
    snp_mcp_missing_say(text, session, id, "\n    ");
}

static void on_list(struct snp_task *task, json_t *head)
{
    const json_t *list = json_object_get(head, "sessions");
    snp_autosay struct snp_say rows = SNP_SAY(LIST_MAX);
    snp_autosay struct snp_say text = SNP_SAY(LIST_MAX + 256);
    snp_autosay struct snp_say shown = SNP_SAY(LIST_MAX + 512);
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *session = json_array_get(list, i);

        /* Unnamed sessions end with their call, so they are not listed. */
        if (snp_json_str(session, "name", "")[0] != '\0') {
            n++;
            row_say(task->service, session, &rows);
        }
    }
    text.r = rows.r;
    snp_say(&text, "Active sessions (%zu):\nTrust level: %s\n%s", n, task->service->options.trust,
            snp_say_cstr(&rows));
    shown.r = text.r < 0 ? text.r
                         : snp_text_cut(&shown.buf, snp_buf_bytes(&text.buf), text.buf.len,
                                        SNP_MCP_TEXT_MAX - 100, NULL);
    snp_task_say(task, false, &shown);
}

void snp_tool_list_sessions(struct snp_task *task)
{
    snp_task_ask(task, snp_record_write(&snp_sessions_list_request_form, NULL), on_list, NULL);
}

static void destroyed_say(struct snp_task *task, bool was_there)
{
    (void)json_object_del(task->service->keys, task->session);
    if (strcmp(task->session_id, "default") == 0) {
        snp_task_sayf(task, false, "Default session reset");
    } else {
        snp_task_sayf(task, !was_there, "Session '%.500s' %s", task->session_id,
                      was_there ? "destroyed" : "not found");
    }
}

static void on_destroyed(struct snp_task *task, json_t *head)
{
    (void)head;
    destroyed_say(task, true);
}

static void on_not_destroyed(struct snp_task *task, const struct snp_err *err)
{
    if (err->code == SNP_E_NOT_FOUND) {
        destroyed_say(task, false);
    } else {
        snp_task_fail(task, err);
    }
}

void snp_tool_destroy_session(struct snp_task *task)
{
    if (snp_task_arg(task, "session_id", "")[0] == '\0') {
        snp_task_failf(task, SNP_E_INVALID, "No session_id provided");
        return;
    }
    snp_task_ask(task, SNP_WRITE(snp_sessions_destroy_request, .session = task->session),
                 on_destroyed, on_not_destroyed);
}
