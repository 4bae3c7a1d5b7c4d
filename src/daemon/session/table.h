/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_TABLE_H
#define SNP_DAEMON_SESSION_TABLE_H

/* The table of sessions: its entries, and their lifetimes. */

#include "base/err.h"
#include "daemon/session.h"

/*
 * A new session in the table, id set, all else zero: OPENING if it is unnamed (name: NULL or ""),
 * else ASLEEP, to be woken by its first cell. SNP_E_LIMIT: the table is full. *ret is borrowed from
 * the table.
 */
int snp_session_new(struct snp_server *server,
                    const char *name,
                    struct snp_session **ret,
                    struct snp_err *err) SNP_NODISCARD;

void snp_session_ref(struct snp_session *session);
/* NULL is allowed. */
void snp_session_unref(struct snp_session *session);
SNP_DEFINE_CLEANUP(struct snp_session *, snp_session_unref)

/* Remove a session from the table; the table's reference is dropped. */
void snp_session_remove(struct snp_session *session);

/* Find by name, else by id; closing sessions are not found. NULL if there is none. Borrowed. */
struct snp_session *snp_sessions_find(const struct snp_server *server, const char *name);

/*
 * Find an existing session that a user refers to: also by the first 8 or more digits of its id, if
 * they are unique. Not for calls that may create one. SNP_E_NOT_FOUND, or SNP_E_INVALID: ambiguous
 * digits.
 */
int snp_sessions_meant(struct snp_server *server,
                       const char *text,
                       struct snp_session **ret,
                       struct snp_err *err) SNP_NODISCARD;

/* SNP_E_NOT_FOUND, with the nearest name if there is one. what: "session". */
int snp_sessions_unknown(const struct snp_server *server,
                         const char *what,
                         const char *text,
                         struct snp_err *err);

/* Add a session with that id, which the journal knows. It is ASLEEP. Else as snp_session_new. */
int snp_session_known(struct snp_server *server,
                      const char *id,
                      const char *name,
                      struct snp_session **ret,
                      struct snp_err *err) SNP_NODISCARD;

/*
 * Check that the journal's sessions are in the table. If not, no call may report that a session
 * does not exist: SNP_E_SYS with the reason; they are read again, for the next attempt.
 */
int snp_sessions_check(struct snp_server *server, struct snp_err *err) SNP_NODISCARD;

#endif
