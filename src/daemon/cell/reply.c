/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of results. Members are added before the last brace; none of them is there already,
 * because the record of a tier's result has been checked.
 */
#include "daemon/cell/reply.h"

#include <string.h>

#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/tier.h"
#include "daemon/tiers.h"
#include "wire/frame.h"

/* An object's text without its last brace; it has members. */
static int open_object(const char *json, size_t n, struct snp_buf *text)
{
    while (n > 0 && json[n - 1] != '}') {
        n--;
    }
    SNP_ASSERT(n > 0);
    snp_buf_init(text, (size_t)2 * SNP_FRAME_HEAD_MAX);
    return snp_buf_add(text, json, n - 1);
}

static int add_json(struct snp_buf *text, const char *name, const json_t *value)
{
    snp_autofree char *json = snp_json_text(value);

    return json == NULL ? SNP_E_NOMEM : snp_buf_addf(text, ",\"%s\":%s", name, json);
}

int snp_reply_record(const struct snp_exec *exec,
                     const struct snp_tier_answer *answer,
                     const char *state,
                     struct snp_buf *text)
{
    const struct snp_session *session = exec->session;
    json_t *manifest = json_object_get(answer->head, "manifest");
    snp_autofree char *changed = NULL;
    int r;

    if (manifest != NULL && snp_tier_mark(session->policy.tier, manifest) < 0) {
        return SNP_E_NOMEM;
    }
    if (state != NULL || manifest != NULL || strcmp(exec->executor->id, session->id) != 0) {
        if ((state != NULL &&
             json_object_set_new(answer->head, "state", json_string(state)) < 0) ||
            json_object_set_new(answer->head, "session", json_string(session->id)) < 0) {
            return SNP_E_NOMEM;
        }
        changed = snp_json_text(answer->head);
        if (changed == NULL) {
            return SNP_E_NOMEM;
        }
        r = open_object(changed, strlen(changed), text);
    } else {
        r = open_object(answer->text, answer->text_len, text);
    }
    if (r == 0 && json_object_get(answer->head, "epoch") == NULL) {
        r = snp_buf_addf(text, ",\"epoch\":%llu", (unsigned long long)exec->executor->epoch);
    }
    if (r == 0 && session->live.restored != NULL) {
        r = add_json(text, "restored", session->live.restored);
    } else if (r == 0) {
        r = snp_buf_adds(text, ",\"restored\":null");
    }
    return r == 0 ? snp_buf_adds(text, "}") : r;
}

int snp_reply_whole(const struct snp_session *session,
                    const char *record,
                    bool has_manifest,
                    const json_t *checkpoint,
                    const json_t *not_applied,
                    struct snp_buf *text)
{
    const char *quote = session->name[0] == '\0' ? "" : "\"";
    const char *name = session->name[0] == '\0' ? "null" : session->name;
    int r = open_object(record, strlen(record), text);

    if (r == 0) {
        /* A name holds nothing that JSON would escape. */
        r = snp_buf_addf(text, ",\"name\":%s%s%s", quote, name, quote);
    }
    if (r == 0 && checkpoint != NULL) {
        r = add_json(text, "checkpoint", checkpoint);
    }
    if (r == 0 && not_applied != NULL) {
        r = add_json(text, "not_applied", not_applied);
    }
    if (r == 0 && !has_manifest) {
        r = snp_buf_adds(text, ",\"manifest\":");
        r = r == 0 ? snp_buf_adds(text, session->policy.manifest) : r;
    }
    return r == 0 ? snp_buf_adds(text, "}") : r;
}
