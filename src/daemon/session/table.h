/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_TABLE_H
#define SNP_DAEMON_SESSION_TABLE_H

/* The table of sessions: who is in it, and how long each is remembered. */

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
/* NULL is fine. */
void snp_session_unref(struct snp_session *session);

/* Take it out of the table; the table's reference is dropped. */
void snp_session_remove(struct snp_session *session);

/* By name, else by id; closing ones are not found. NULL if there is none. Borrowed. */
struct snp_session *snp_sessions_find(const struct snp_server *server, const char *name);

/*
 * The same for who refers to a session that is there: also by the first 8 or more digits of its
 * id, if no other's begins so. Never where one may be created. SNP_E_NOT_FOUND, or SNP_E_INVALID:
 * more than one begins so.
 */
int snp_sessions_meant(struct snp_server *server,
                       const char *text,
                       struct snp_session **ret,
                       struct snp_err *err) SNP_NODISCARD;

/* SNP_E_NOT_FOUND, with the name that is meant if text is nearly one. what: "session". */
int snp_sessions_unknown(const struct snp_server *server,
                         const char *what,
                         const char *text,
                         struct snp_err *err);

/* A new session with that id: one that the journal knows. It is ASLEEP. Else as snp_session_new. */
int snp_session_known(struct snp_server *server,
                      const char *id,
                      const char *name,
                      struct snp_session **ret,
                      struct snp_err *err) SNP_NODISCARD;

/*
 * Are the journal's sessions in the table? If not nobody may say that one does not exist:
 * SNP_E_SYS with the reason; they are read once more, for the next try.
 */
int snp_sessions_check(struct snp_server *server, struct snp_err *err) SNP_NODISCARD;

#endif
