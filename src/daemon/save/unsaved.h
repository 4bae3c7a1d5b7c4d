/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_UNSAVED_H
#define SNP_DAEMON_SAVE_UNSAVED_H

/*
 * Report state of a session that is not on disk, or that a trial restore failed to restore. Also
 * the only place that records which sessions could not be saved.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

struct snp_server;
struct snp_session;

/* Record that a checkpoint of the current state, or the journal entry of a cell, failed. */
void snp_unsaved_note(struct snp_session *session, const struct snp_err *err);
/* Forget the failure: the session is saved, or has nothing to save. */
void snp_unsaved_clear(struct snp_session *session);
/*
 * The latest save failed and later changes are not on disk, or the state folder was moved.
 * *ret_why: set if so.
 */
bool snp_unsaved_is(const struct snp_session *session, struct snp_err *ret_why);
/* The latest save failed because the disk is full. */
bool snp_unsaved_awaits_room(const struct snp_session *session);
/*
 * The `unsaved` member of answers (wire/session.h): new; NULL if the session is saved, or
 * without memory.
 */
json_t *snp_unsaved_row(const struct snp_session *session);
/* The same, with err as the reason. */
json_t *snp_unsaved_why(const struct snp_session *session, const struct snp_err *err);
/* The rows of all unsaved sessions: a new array, or NULL. */
json_t *snp_unsaved_list(const struct snp_server *server);

/*
 * The number of unsaved items that keep a session awake; *ret_first: the first of them, borrowed.
 * Folders for temporary files do not: they are reported when it wakes.
 */
size_t snp_lost_count(const json_t *lost, const json_t **ret_first);

/*
 * [{name, type, reason}]: items missing in its checkpoint, and items that the trial could not
 * restore: failed, such as session->durable.unrestorable. New.
 */
json_t *snp_lost_list(const struct snp_session *session, const json_t *failed);

/*
 * The daemon ends: report the session's state that is not on disk. err: why it is not saved, or
 * NULL.
 */
void snp_lost_tell_end(const struct snp_session *session, const struct snp_err *err);

#endif
