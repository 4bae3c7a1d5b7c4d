/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/cell/reply.h"

#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/tier.h"
#include "daemon/tiers.h"

json_t *snp_reply_record(const struct snp_exec *exec,
                         const struct snp_tier_answer *answer,
                         const char *state)
{
    const struct snp_session *session = exec->session;
    json_t *record = answer->head;
    json_t *manifest = json_object_get(record, "manifest");
    json_t *restored = session->live.restored;
    int r = manifest == NULL ? 0 : snp_tier_mark(session->policy.place.tier, manifest);

    r |= state == NULL ? 0 : json_object_set_new(record, "state", json_string(state));
    r |= json_object_set_new(record, "session", json_string(session->id));
    if (json_object_get(record, "epoch") == NULL) {
        r |= json_object_set_new(record, "epoch", json_integer((json_int_t)exec->executor->epoch));
    }
    r |= json_object_set_new(record, "restored",
                             restored == NULL ? json_null() : json_incref(restored));
    return r != 0 ? NULL : json_incref(record);
}

json_t *snp_reply_whole(const struct snp_session *session,
                        json_t *record,
                        json_t *checkpoint,
                        json_t *not_applied)
{
    const struct snp_executor *executor = session->live.executor;
    json_t *whole = json_copy(record);
    int r = json_object_set_new(
        whole, "name", session->name[0] == '\0' ? json_null() : json_string(session->name));

    r |= checkpoint == NULL ? 0 : json_object_set(whole, "checkpoint", checkpoint);
    r |= not_applied == NULL ? 0 : json_object_set(whole, "not_applied", not_applied);
    if (executor != NULL && json_array_size(executor->at_wake) > 0) {
        r |= json_object_set(whole, "at_wake", executor->at_wake);
    }
    if (json_object_get(record, "manifest") == NULL) {
        r |= json_object_set(whole, "manifest", session->policy.place.manifest);
    }
    if (r != 0) {
        json_decref(whole);
        return NULL;
    }
    return whole;
}
