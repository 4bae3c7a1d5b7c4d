/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/save/unsaved.h"

#include <errno.h>
#include <stdio.h>

#include "base/str.h"
#include "base/wire/session.h"
#include "daemon/save/journal_entry.h"
#include "daemon/server.h"
#include "daemon/session/no_image.h"
#include "store/store.h"

void snp_unsaved_note(struct snp_session *session, const struct snp_err *err)
{
    session->unsaved.failed = *err;
}

void snp_unsaved_clear(struct snp_session *session)
{
    session->unsaved.failed = (struct snp_err){.code = SNP_OK};
    session->unsaved.retry_ms = 0;
}

/* Without an executor, `missing` reports the lost cells. */
bool snp_unsaved_is(const struct snp_session *session, struct snp_err *ret_why)
{
    if (session->durable.is_recorded && snp_store_moved(session->server->store, ret_why) < 0) {
        return true;
    }
    *ret_why = session->unsaved.failed;
    return ret_why->code != SNP_OK && session->live.executor != NULL &&
           (session->unsaved.is_dirty || session->durable.debt != NULL);
}

static bool is_full(const struct snp_err *err)
{
    return (err->code == SNP_E_LIMIT && err->remedy.kind == SNP_REMEDY_STATE_DIR) ||
           err->sys_errno == ENOSPC || err->sys_errno == EDQUOT;
}

static const char *reason_of(const struct snp_err *err)
{
    if (err->remedy.kind == SNP_REMEDY_RAISE_LIMIT) {
        return "journal budget reached";
    }
    return is_full(err) ? "disk full" : err->msg;
}

bool snp_unsaved_awaits_room(const struct snp_session *session)
{
    return session->unsaved.failed.code != SNP_OK && is_full(&session->unsaved.failed);
}

json_t *snp_unsaved_why(const struct snp_session *session, const struct snp_err *err)
{
    snp_autojson json_t *error = snp_json_from_err(err);
    snp_autojson json_t *reason = NULL;
    snp_autojson json_t *text = NULL;
    char since[32] = "it began";

    if (session->durable.checkpoint_cell > 0) {
        (void)snprintf(since, sizeof(since), "cell %llu",
                       (unsigned long long)session->durable.checkpoint_cell);
    }
    reason = json_string(reason_of(err));
    text = json_sprintf("not saved since %s: %s", since, reason_of(err));
    return SNP_WRITE(snp_unsaved_row, .session = session->name,
                     .cell = session->durable.checkpoint_cell, .reason = reason, .text = text,
                     .error = error);
}

json_t *snp_unsaved_row(const struct snp_session *session)
{
    struct snp_err why;

    return snp_unsaved_is(session, &why) ? snp_unsaved_why(session, &why) : NULL;
}

json_t *snp_unsaved_list(const struct snp_server *server)
{
    json_t *list = json_array();

    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        const struct snp_session *session = server->sessions.slots[i];
        json_t *row = session == NULL || session->state == SNP_SESSION_CLOSING
                          ? NULL
                          : snp_unsaved_row(session);

        if (row != NULL) {
            (void)json_array_append_new(list, row);
        }
    }
    return list;
}

size_t snp_lost_count(const json_t *lost, const json_t **ret_first)
{
    size_t n = 0;
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)(uintptr_t)lost, i, one)
    {
        if (snp_json_str(one, "name", "")[0] != '/' && !snp_no_image_is(one)) {
            *ret_first = n++ == 0 ? one : *ret_first;
        }
    }
    return n;
}

json_t *snp_lost_list(const struct snp_session *session, const json_t *failed)
{
    json_t *list = session->durable.checkpoint_lost == NULL
                       ? json_array()
                       : json_deep_copy(session->durable.checkpoint_lost);
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)(uintptr_t)failed, i, one)
    {
        snp_autojson json_t *name = json_string(snp_json_str(one, "name", ""));
        snp_autojson json_t *reason = json_string(snp_json_str(one, "reason", ""));
        snp_autojson json_t *type = json_string(snp_json_str(one, "type", "variable"));

        (void)json_array_append_new(
            list, SNP_WRITE(snp_lost_row, .name = name, .type = type, .reason = reason));
    }
    return list;
}

void snp_lost_tell_end(const struct snp_session *session, const struct snp_err *err)
{
    struct snp_server *server = session->server;
    json_t *lost = snp_lost_list(session, session->durable.unrestorable);
    const json_t *first = NULL;
    size_t n = snp_lost_count(lost, &first);

    if (err != NULL || n > 0) {
        snp_autojson json_t *row = SNP_WRITE(snp_shutdown_row, .session = session->name,
                                             .reason = err == NULL ? "" : err->msg, .lost = lost,
                                             .image = session->durable.has_image);

        (void)json_array_append(server->end_lost, row);
        if (err != NULL && session->unsaved.is_dirty) {
            (void)json_array_append(server->end_unsaved, row);
        }
    }
    if (n > 0) {
        snp_entry_event(server, "end_lost", session,
                        "session %s: %zu items cannot be restored, first %.64s", session->name, n,
                        snp_json_str(first, "name", ""));
    }
    json_decref(lost);
}
