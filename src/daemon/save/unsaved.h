/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_UNSAVED_H
#define SNP_DAEMON_SAVE_UNSAVED_H

/* What of a session is on no disk, or did not come back when that was tried; and telling it. */

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

struct snp_session;

/*
 * How many of what could not be saved keep a session awake; *ret_first: the first of them, borrowed. Folders for
 * temporary files do not: they are told when it comes back.
 */
size_t snp_lost_count(const json_t *lost, const json_t **ret_first);

/*
 * [{name, type, reason}]: what its checkpoint could not hold, and what of it did not come back when tried: failed, such as
 * session->durable.unrestorable. New.
 */
json_t *snp_lost_list(const struct snp_session *session, const json_t *failed);

/* The daemon ends, and with it what is not on disk: say what that is. err: why it is not saved, or NULL. */
void snp_lost_tell_end(const struct snp_session *session, const struct snp_err *err);

#endif
