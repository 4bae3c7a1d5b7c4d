/* SPDX-License-Identifier: Apache-2.0 */
/* `snapshot`, `snapshots`, `fork` and `rollback`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/human.h"
#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "base/cli/unsaved.h"
#include "base/str.h"
#include "base/wire/session.h"
#include "base/wire/snapshot.h"
#include "cli/cli.h"
#include "cli/session/snapshot_tree.h"

enum {
    FORKS_MAX = 64,
    PLACES_MAX = 256,
};

/* snapshot ----------------------------------------------------------------------------------- */

static int snapshot_tell(struct snp_cli *cli, const char *session, const json_t *answer)
{
    SNP_READ(snp_snapshot_answer, made, answer);
    snp_autobuf struct snp_buf places = SNP_BUF(PLACES_MAX);
    size_t i;
    json_t *where;

    (void)cli;
    json_array_foreach(made.where, i, where)
    {
        const char *place = json_string_value(where);

        (void)!snp_buf_addf(&places, "%s%s %s", i == 0 ? "; " : " and ",
                            snp_streq(place, "disk") ? "on" : "in", place == NULL ? "?" : place);
    }
    snp_term_printf(stdout, "%s@%s: %s after cell %" PRIu64 " (%s%s)\n", session, made.name,
                    session, made.cell, snp_human_span(made.us).text,
                    places.len == 0 ? "" : snp_buf_cstr(&places));
    snp_lost_tell(made.lost, "not saved");
    return SNP_EXIT_OK;
}

static int run_snapshot(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autofree char *given = NULL;
    snp_autofree char *session = NULL;
    const char *name = NULL;
    struct snp_err err;
    int r = snp_remote_split(opts, snp_opts_arg(opts, 0), '@', &given, &name, &err);

    r = r < 0 ? r : snp_remote_session(cli, given, &session, &err);
    return snp_remote_end(cli, r, &err,
                          SNP_WRITE(snp_snapshot_request, .session = session, .name = name,
                                    .wait = snp_opts_flag(opts, "wait", false)),
                          snapshot_tell, session);
}

/* snapshots ---------------------------------------------------------------------------------- */

static int list_get(struct snp_cli *cli,
                    const char *session,
                    struct snp_reply *ret,
                    struct snp_err *err)
{
    return snp_remote_call(cli, SNP_WRITE(snp_snapshots_list_request, .session = session), ret,
                           err);
}

/* For shell completion: SESSION@NAME, and sessions too; starts no daemon. */
static int names_print(struct snp_cli *cli, bool with_sessions)
{
    snp_autoreply struct snp_reply reply = {0};
    struct snp_err err;
    size_t i;
    json_t *item;

    if (snp_remote_find(cli, &err) < 0) {
        return SNP_EXIT_OK; /* without a daemon there are no names */
    }
    if ((with_sessions && snp_sessions_names(cli) != SNP_EXIT_OK) ||
        list_get(cli, NULL, &reply, &err) < 0) {
        return SNP_EXIT_FAILED;
    }
    json_array_foreach(json_object_get(reply.head, "snapshots"), i, item)
    {
        SNP_READ(snp_snapshot_row, row, item);
        if (row.name != NULL && row.session_name != NULL) {
            (void)printf("%s@%s\n", row.session_name, row.name);
        }
    }
    return SNP_EXIT_OK;
}

int snp_snapshots_tell(struct snp_cli *cli, const char *session, const char *next)
{
    snp_autoreply struct snp_reply reply = {0};
    struct snp_err err;
    int r = list_get(cli, session, &reply, &err);

    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, reply.head);
    }
    if (json_array_size(json_object_get(reply.head, "snapshots")) == 0) {
        (void)puts("no snapshots");
        next = next == NULL ? NULL : "snapshot SESSION@NAME";
    } else {
        snp_snapshots_print(stdout, reply.head);
    }
    if (next != NULL) {
        snp_cli_next(cli, next);
    }
    return SNP_EXIT_OK;
}

static int run_list(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autofree char *session = NULL;
    struct snp_err err;

    if (snp_opts_flag(opts, "names", false)) {
        return names_print(cli, snp_opts_flag(opts, "sessions", false));
    }
    return snp_remote_given(opts, &session, &err) < 0 ? snp_cli_fail(cli, &err)
                                                      : snp_snapshots_tell(cli, session, NULL);
}

static int run_remove(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *done = json_array();
    struct snp_err err;
    int exit_code = SNP_EXIT_OK;

    if (snp_remote_refs_check(opts, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    for (size_t i = 0; i < snp_opts_n_args(opts); i++) {
        snp_autofree char *snapshot = NULL;
        snp_autoreply struct snp_reply reply = {0};

        if (snp_remote_moment_of(opts, snp_opts_arg(opts, i), &snapshot, &err) < 0 ||
            snp_remote_call(cli, SNP_WRITE(snp_snapshots_remove_request, .snapshot = snapshot),
                            &reply, &err) < 0) {
            exit_code = snp_cli_fail(cli, &err);
        } else {
            (void)json_array_append_new(done, json_string(snapshot));
        }
    }
    return snp_cli_done_list(cli, "removed", done, NULL, exit_code);
}

/* fork ---------------------------------------------------------------------------------------- */

static int fork_tell(struct snp_cli *cli, const char *from, const json_t *answer)
{
    SNP_READ(snp_fork_answer, made, answer);
    size_t i;
    json_t *item;

    (void)cli;
    json_array_foreach(made.sessions, i, item)
    {
        (void)puts(snp_json_str(item, "name", "?"));
    }
    (void)fflush(stdout);
    snp_term_printf(stderr, "forked %s by %s in %s\n", from, made.how,
                    snp_human_span(made.us).text);
    if (made.no_image != NULL) {
        snp_term_printf(stderr, "saved and restored, because there is no image: %s\n",
                        made.no_image);
    }
    snp_lost_tell(made.lost, "not in the forks");
    return SNP_EXIT_OK;
}

static int run_fork(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autofree char *from = NULL;
    int64_t n = snp_opts_int(opts, "number", 1);
    struct snp_err err;
    int r;

    if (n < 1 || n > FORKS_MAX) {
        return snp_cli_usage(cli, "--number must be 1 to %d, not %lld", FORKS_MAX, (long long)n);
    }
    r = snp_remote_moment_of(opts, snp_opts_arg(opts, 0), &from, &err);
    if (r == 0 && from == NULL) {
        return snp_sessions_tell(cli, "fork SESSION");
    }
    return snp_remote_end(
        cli, r, &err,
        SNP_WRITE(snp_fork_request, .from = from, .n = n, .name = snp_opts_str(opts, "name")),
        fork_tell, from);
}

/* rollback ------------------------------------------------------------------------------------ */

static int rollback_tell(struct snp_cli *cli, const char *snapshot, const json_t *answer)
{
    SNP_READ(snp_rollback_answer, done, answer);
    const char *at = strchr(snapshot, '@');

    (void)cli;
    snp_term_printf(stdout, "Rolled back %s to \"%s\" (cell %" PRIu64 "; from %s, %s).\n",
                    done.session_name, at == NULL ? snapshot : at + 1, done.cell,
                    snp_streq(done.how, "memory") ? "memory" : "its checkpoint on disk",
                    snp_human_span(done.us).text);
    snp_lost_tell(done.lost, "could not be saved then");
    snp_lost_tell(done.failed, "could not be restored");
    return SNP_EXIT_OK;
}

static int run_rollback(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autofree char *snapshot = NULL;
    struct snp_err err;
    int r = snp_remote_refs_check(opts, &err);

    r = r < 0 ? r : snp_remote_moment_of(opts, snp_opts_arg(opts, 0), &snapshot, &err);
    if (r == 0 && snp_opts_n_args(opts) == 0) {
        return snp_snapshots_tell(cli, snapshot, "rollback SESSION@NAME");
    }
    return snp_remote_end(cli, r, &err, SNP_WRITE(snp_rollback_request, .snapshot = snapshot),
                          rollback_tell, snapshot);
}

/* Verbs ---------------------------------------------------------------------------------------- */

static const struct snp_opt snapshot_options[] = {
    {"session", 's', SNP_OPT_STRING, "NAME", "the same as SESSION@ (default: the only session)", 0},
    {"wait", 0, SNP_OPT_FLAG, NULL, "return once it is also on disk", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt list_options[] = {
    {"names", 0, SNP_OPT_FLAG, NULL, "print only SESSION@NAME, one a line", 0},
    {"sessions", 0, SNP_OPT_FLAG, NULL, "with --names: print the sessions too", 0},
    SNP_CLI_OPT_SESSION,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt remove_options[] = {SNP_CLI_OPT_SESSION_AT, SNP_CLI_OPT_JSON};
static const struct snp_opt fork_options[] = {
    {"number", 'n', SNP_OPT_INT, "N", "number of sessions: 1 to 64 (default 1)", 0},
    {"name", 0, SNP_OPT_STRING, "PREFIX",
     "name them PREFIX-1, PREFIX-2 and so on (default: the session's name)", 0},
    SNP_CLI_OPT_SESSION_AT,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt rollback_options[] = {
    SNP_CLI_OPT_SESSION_AT,
    SNP_CLI_OPT_JSON,
};

static const struct snp_opt_arg snapshot_args[] = {
    {"NAME", "name of the snapshot, or SESSION@NAME (default: s1, s2 and so on)", 0, 1}};
static const struct snp_opt_arg list_args[] = {{"SESSION", "only snapshots of this session", 0, 1}};
static const struct snp_opt_arg remove_args[] = {{"SNAPSHOT", "name, SESSION@NAME or id", 1, 0}};
static const struct snp_opt_arg fork_args[] = {
    {"SESSION|SNAPSHOT", "a session (its current state) or a snapshot: SESSION@NAME or id", 0, 1}};
static const struct snp_opt_arg rollback_args[] = {
    {"SNAPSHOT", "name, SESSION@NAME or id (default: list them)", 0, 1}};

const struct snp_verb snp_verb_snapshot = {
    .name = "snapshot",
    .summary = "take a snapshot of a session",
    .description =
        "Take a snapshot of a session: its variables, files, limits and position in its history. "
        "This takes milliseconds. A copy is then written to disk; --wait waits for that and names "
        "variables that cannot be saved.",
    .spec = SNP_SPEC(snapshot_options, snapshot_args),
    .examples = "exec -s work 'import csv; rows = list(csv.reader(open(\"big.csv\")))'\n"
                "snapshot loaded -s work\n"
                "exec -s work 'rows.clear()'\n"
                "rollback loaded",
    .run = run_snapshot,
};

static const struct snp_verb verb_list = {
    .name = "list",
    .summary = "show the tree of snapshots; in a pipe a plain list",
    .description = "Show all snapshots: each below its parent, with the cell it was taken after, "
                   "where it is stored, and the sessions that continue from it.",
    .spec = SNP_SPEC(list_options, list_args),
    .examples = "snapshots list work\nsnapshots list --json",
    .run = run_list,
};
static const struct snp_verb verb_remove = {
    .name = "remove",
    .summary = "remove snapshots, in memory and on disk",
    .description = "Remove snapshots. Sessions and snapshots made from them stay, and move to "
                   "their parent in the tree.",
    .spec = SNP_SPEC(remove_options, remove_args),
    .examples = "snapshots remove work@loaded",
    .run = run_remove,
};
static const struct snp_verb *const snapshots_verbs[] = {&verb_list, &verb_remove, NULL};

const struct snp_verb snp_verb_snapshots = {
    .name = "snapshots",
    .summary = "show the tree of snapshots; remove snapshots",
    .description = "Without a command: list.",
    .verbs = snapshots_verbs,
    .fallback = &verb_list,
};

const struct snp_verb snp_verb_fork = {
    .name = "fork",
    .summary = "make new sessions from a session or a snapshot",
    .description =
        "Make sessions that continue from another session's current state or from a "
        "snapshot. Each runs in a separate sandbox with the same limits. Their names "
        "are printed, one a line. Either all of them are made, or none. Without an argument, "
        "list the sessions.",
    .spec = SNP_SPEC(fork_options, fork_args),
    .examples = "fork work -n 3 --name try\n"
                "exec -s try-1 'model.fit(rows, depth=3)'\n"
                "fork work@loaded",
    .run = run_fork,
};

const struct snp_verb snp_verb_rollback = {
    .name = "rollback",
    .summary = "roll a session back to one of its snapshots",
    .description =
        "Roll back variables, files and the position in the history together, after the running "
        "cell has ended. This ends the processes of the session. All snapshots stay, later "
        "ones too. A snapshot that is no longer in memory is read from "
        "disk; variables that could not be saved there are named.",
    .spec = SNP_SPEC(rollback_options, rollback_args),
    .examples = "rollback loaded\nrollback work@loaded --json",
    .run = run_rollback,
};
