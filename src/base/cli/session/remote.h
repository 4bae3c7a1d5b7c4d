/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SESSION_REMOTE_H
#define SNP_BASE_CLI_SESSION_REMOTE_H

/* Requests of a command to the daemon, and the words that name a session. */

#include <inttypes.h>

#include "base/cli/cli.h"
#include "base/err.h"
#include "base/json.h"
#include "base/wire/call.h"
#include "base/wire/record.h"

/*
 * How a program reaches the daemon: the runtime as a client, the suite over the C library. A
 * command has one connection, made (and the daemon started) by its first call. With
 * cli->takes_signals, SIGINT and SIGTERM are blocked from then on and interrupt the cell.
 */
struct snp_transport {
    int (*find)(struct snp_cli *cli, struct snp_err *err);
    /* An event is only received by `exec` and `cell.show`; the suite's by `cell.show` alone. */
    int (*send)(struct snp_cli *cli,
                const struct snp_call *call,
                struct snp_reply *ret,
                struct snp_err *err);
};
/* Set it, before the first verb; borrowed. */
void snp_remote_over(const struct snp_transport *of_program);

int snp_remote_send(struct snp_cli *cli,
                    const struct snp_call *call,
                    struct snp_reply *ret,
                    struct snp_err *err) SNP_NODISCARD;
/* A call without events. head: of SNP_WRITE; consumed, NULL = a text in it is not UTF-8. */
int snp_remote_call(struct snp_cli *cli, json_t *head, struct snp_reply *ret, struct snp_err *err)
    SNP_NODISCARD;
/* The answer of `sessions.list`. */
int snp_remote_list(struct snp_cli *cli, struct snp_reply *ret, struct snp_err *err) SNP_NODISCARD;
/*
 * End a verb that sends one message: r < 0 is an earlier failure. Else send head (as for
 * snp_remote_call), and print the answer as JSON or pass it to tell; returns the exit status.
 * about: for tell.
 */
int snp_remote_end(struct snp_cli *cli,
                   int r,
                   struct snp_err *err,
                   json_t *head,
                   int (*tell)(struct snp_cli *cli, const char *about, const json_t *answer),
                   const char *about);
/* Run a verb that has `request` and `tell`; returns the exit status. */
int snp_remote_ask(struct snp_cli *cli, const struct snp_opts *opts);
/* Whether a tier works on this host. */
bool snp_remote_is_usable(struct snp_cli *cli, const char *tier);
/* Connect if a daemon runs. SNP_E_NOT_FOUND: none runs, and none is started. */
int snp_remote_find(struct snp_cli *cli, struct snp_err *err) SNP_NODISCARD;

/*
 * The session of a verb: the given one, else the only named one, else the one called `default`.
 * *ret_session is the caller's. SNP_E_INVALID: there are several, listed in the message;
 * SNP_E_NOT_FOUND: there is none.
 */
int snp_remote_session(struct snp_cli *cli,
                       const char *given,
                       char **ret_session,
                       struct snp_err *err) SNP_NODISCARD;

/* The same for a verb that has SNP_CLI_OPT_SESSION and SNP_CLI_ARG_SESSION. */
int snp_remote_session_of(struct snp_cli *cli,
                          const struct snp_opts *opts,
                          char **ret_session,
                          struct snp_err *err) SNP_NODISCARD;

/*
 * Replace a run's id, or the beginning of one, with the name of its session, if that still exists.
 */
int snp_remote_run_session(struct snp_cli *cli, char **session, struct snp_err *err) SNP_NODISCARD;

/* The session given as a word or with --session; *ret: the caller's, NULL if neither. */
int snp_remote_given(const struct snp_opts *opts, char **ret, struct snp_err *err) SNP_NODISCARD;

/*
 * A session from a word and --session: "SESSION:REST" (or with '@') is REST of that session, and so
 * is REST with --session. *ret_session: the caller's, NULL if neither gives it. *ret_rest: borrowed
 * from word; NULL = none. SNP_E_INVALID: not a session name, or the two differ.
 */
int snp_remote_split(const struct snp_opts *opts,
                     const char *word,
                     char separator,
                     char **ret_session,
                     const char **ret_rest,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * The session or snapshot from a word and --session, as the daemon accepts it: SESSION,
 * SESSION@NAME, NAME or an id. *ret: the caller's, NULL if neither is given.
 */
int snp_remote_moment_of(const struct snp_opts *opts,
                         const char *word,
                         char **ret,
                         struct snp_err *err) SNP_NODISCARD;

/*
 * Check that every word of the verb can be a session or snapshot: NAME, an id, or SESSION@NAME.
 * SNP_E_INVALID: one cannot.
 */
int snp_remote_refs_check(const struct snp_opts *opts, struct snp_err *err) SNP_NODISCARD;
/* The same for one text. */
int snp_remote_ref_check(const char *text, struct snp_err *err) SNP_NODISCARD;

#endif
