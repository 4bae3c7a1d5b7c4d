/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/cell/restored.h"

#include <time.h>

#include "base/str.h"
#include "base/wire/result.h"
#include "base/wire/session.h"
#include "daemon/server.h"

#define ROLLBACK_NAME "the rollback to cell " /* no variable has such a name */

void snp_restored_done(struct snp_restored *restored)
{
    snp_missing_done(&restored->missing);
    json_decref(restored->left_out);
    json_decref(restored->differing);
    json_decref(restored->failed);
}

/* The replayed cells, or the others. */
static json_t *cells_json(const struct snp_restored *restored, bool is_replayed)
{
    bool is_replay = restored->decision == SNP_RECOVER_REPLAY;
    json_t *list =
        is_replayed || restored->left_out == NULL ? json_array() : json_copy(restored->left_out);

    for (size_t i = 0; is_replayed == is_replay && i < restored->missing.n_cells; i++) {
        (void)json_array_append_new(list,
                                    json_integer((json_int_t)restored->missing.cells[i].cell));
    }
    return list;
}

static json_t *puts_json(const struct snp_restored *restored)
{
    json_t *list = json_array();

    for (size_t i = 0; i < restored->missing.n_puts; i++) {
        (void)json_array_append_new(list, json_string(restored->missing.puts[i]));
    }
    return list;
}

/* Add to `to` the entries of a list in `from`, an undelivered report, that `to` lacks. */
static void untold_add(json_t *to, const json_t *from, const char *name)
{
    json_t *list = json_object_get(to, name);
    size_t at = 0;
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(from, name), i, item)
    {
        bool is_there = false;

        for (size_t j = 0; j < json_array_size(list) && !is_there; j++) {
            is_there = json_equal(json_array_get(list, j), item) != 0;
        }
        if (!is_there) {
            (void)json_array_insert(list, at++, item);
        }
    }
}

/* The same for a rollback, which is listed among the losses. */
static void rollback_add(json_t *to, const json_t *from)
{
    size_t i;
    json_t *one;

    json_array_foreach(json_object_get(from, "failed"), i, one)
    {
        if (snp_has_prefix(snp_json_str(one, "name", ""), ROLLBACK_NAME)) {
            (void)json_array_append(json_object_get(to, "failed"), one);
        }
    }
}

/* If variables were lost, a new name may have been one of them. NULL: no losses. */
static json_t *lost_name(const struct snp_session *session)
{
    time_t at = (time_t)(session->server->sessions_lost_us / 1000000);
    snp_autojson json_t *name = NULL;
    snp_autojson json_t *reason = NULL;
    snp_autojson json_t *none = NULL;
    snp_autojson json_t *failed = NULL;
    char day[16] = "";
    struct tm tm;

    if (at == 0) {
        return NULL;
    }
    (void)strftime(day, sizeof(day), "%Y-%m-%d", gmtime_r(&at, &tm));
    reason = json_sprintf("this session is new; the journal was damaged on %s UTC, and an "
                          "older session of this name may have been lost",
                          day);
    name = json_string(session->name);
    none = json_array();
    failed = json_array();
    (void)json_array_append_new(failed, SNP_WRITE(snp_failed_row, .name = name, .reason = reason));
    return SNP_WRITE(snp_result_restored, .missing = none, .replayed = none, .failed = failed,
                     .missing_puts = none);
}

/* Losses of the restore, including rollbacks and results: owned by the caller. */
static json_t *failed_json(const struct snp_restored *restored)
{
    json_t *failed = restored->failed == NULL ? json_array() : json_copy(restored->failed);

    (void)json_array_extend(failed, restored->differing);
    if (restored->missing.has_rollback) {
        snp_autojson json_t *name =
            json_sprintf(ROLLBACK_NAME "%llu", (unsigned long long)restored->missing.rollback_cell);
        snp_autojson json_t *reason =
            json_string("the checkpoint is damaged; the session was restored from an older one");

        (void)json_array_append_new(failed,
                                    SNP_WRITE(snp_failed_row, .name = name, .reason = reason));
    }
    return failed;
}

static json_t *report_json(const struct snp_restored *restored, uint64_t us)
{
    snp_autojson json_t *missing = cells_json(restored, false);
    snp_autojson json_t *replayed = cells_json(restored, true);
    snp_autojson json_t *failed = failed_json(restored);
    snp_autojson json_t *puts = puts_json(restored);

    return SNP_WRITE(
        snp_result_restored, .checkpoint = restored->checkpoint,
        .cell = restored->checkpoint == 0 ? 0 : restored->place.checkpoint_cell, .missing = missing,
        .replayed = replayed, .failed = failed, .missing_puts = puts, .image = restored->is_image,
        .no_image = restored->no_image[0] == '\0' ? NULL : restored->no_image, .wake_us = us);
}

void snp_restored_report(struct snp_session *session,
                         const struct snp_restored *restored,
                         bool was_live,
                         uint64_t wake_us)
{
    json_t *report = was_live                    ? report_json(restored, wake_us)
                     : restored->checkpoint == 0 ? lost_name(session)
                                                 : NULL;

    /* If the session died before its first result was sent, the next report has its losses. */
    if (report != NULL && session->live.restored != NULL) {
        untold_add(report, session->live.restored, "missing");
        untold_add(report, session->live.restored, "missing_puts");
        rollback_add(report, session->live.restored);
    }
    json_decref(session->live.restored);
    session->live.restored = report;
}
