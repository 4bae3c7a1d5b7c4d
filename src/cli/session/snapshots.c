/* SPDX-License-Identifier: Apache-2.0 */
/* `snapshot`, `snapshots`, `fork` and `rollback`: moments of a session, and what is made of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/session/snapshot_tree.h"
#include "cli/show/human.h"
#include "cli/show/lost.h"
#include "cli/show/term.h"
#include "wire/session.h"
#include "wire/snapshot.h"

enum {
    FORKS_MAX = 64,
};

/* snapshot ----------------------------------------------------------------------------------- */

static void snapshot_tell(const json_t *answer, const char *session)
{
    char span[SNP_HUMAN_MAX];
    const json_t *where = json_object_get(answer, "where");

    (void)printf("%s@%s: %s after cell %lld (%s", session, snp_json_str(answer, "name", "?"),
                 session, (long long)snp_json_int(answer, "cell", 0),
                 snp_human_span((uint64_t)snp_json_int(answer, "us", 0), span, sizeof(span)));
    for (size_t i = 0; i < json_array_size(where); i++) {
        const char *place = json_string_value(json_array_get(where, i));

        (void)printf("%s%s %s", i == 0 ? "; " : " and ", snp_streq(place, "disk") ? "on" : "in",
                     place == NULL ? "?" : place);
    }
    (void)puts(")");
    snp_lost_tell(json_object_get(answer, "lost"), "not saved");
}

static int run_snapshot(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply reply = {0};
    snp_autofree char *given = NULL;
    snp_autofree char *session = NULL;
    const char *name = NULL;
    struct snp_err err;
    int r = snp_remote_split(opts, snp_opts_arg(opts, 0), '@', &given, &name, &err);

    r = r < 0 ? r : snp_remote_connect(false, &client, &err);
    if (r == 0) {
        r = snp_remote_session(client, given, &session, &err);
    }
    if (r == 0) {
        r = snp_remote_call(client,
                            SNP_WRITE(snp_snapshot_request, .session = session, .name = name,
                                      .wait = snp_opts_flag(opts, "wait", false)),
                            &reply, &err);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "json", false)) {
        return snp_cli_print_json(reply.head);
    }
    snapshot_tell(reply.head, session);
    return SNP_EXIT_OK;
}

/* snapshots ---------------------------------------------------------------------------------- */

static int session_names_print(struct snp_client *client, struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    int r = snp_remote_call(client, snp_record_write(&snp_sessions_list_request_form, NULL),
                            &reply, err);
    size_t i;
    json_t *item;

    json_array_foreach(r < 0 ? NULL : json_object_get(reply.head, "sessions"), i, item)
    {
        const char *name = snp_json_str(item, "name", NULL);

        if (name != NULL) {
            (void)puts(name);
        }
    }
    return r;
}

/* For the completion of shells: SESSION@NAME, and sessions too; no daemon is started. */
static int names_print(bool with_sessions)
{
    const struct snp_client_options options = {.has_start = false, .signal_fd = -1};
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply reply = {0};
    struct snp_err err;
    size_t i;
    json_t *item;

    if (snp_client_connect(&options, &client, &err) < 0) {
        return SNP_EXIT_OK; /* nothing is known without a daemon */
    }
    if (with_sessions && session_names_print(client, &err) < 0) {
        return SNP_EXIT_FAILED;
    }
    if (snp_remote_call(client, SNP_WRITE(snp_snapshots_list_request, .session = NULL), &reply,
                        &err) < 0) {
        return SNP_EXIT_FAILED;
    }
    json_array_foreach(json_object_get(reply.head, "snapshots"), i, item)
    {
        const char *name = snp_json_str(item, "name", NULL);
        const char *session = snp_json_str(item, "session_name", NULL);

        if (name != NULL && session != NULL) {
            (void)printf("%s@%s\n", session, name);
        }
    }
    return SNP_EXIT_OK;
}

int snp_snapshots_tell(struct snp_cli *cli, const char *session, bool is_json, const char *next)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply reply = {0};
    struct snp_err err;
    int r = snp_remote_connect(false, &client, &err);

    if (r == 0) {
        r = snp_remote_call(client, SNP_WRITE(snp_snapshots_list_request, .session = session),
                            &reply, &err);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (is_json) {
        return snp_cli_print_json(reply.head);
    }
    if (json_array_size(json_object_get(reply.head, "snapshots")) == 0) {
        (void)puts("no snapshots");
        next = next == NULL ? NULL : "snapshot SESSION@NAME";
    } else {
        r = snp_snapshots_print(stdout, reply.head, &err);
    }
    if (r == 0 && next != NULL) {
        snp_cli_next(cli, next);
    }
    return r < 0 ? snp_cli_fail(cli, &err) : SNP_EXIT_OK;
}

static int run_list(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autofree char *session = NULL;
    struct snp_err err;

    if (snp_opts_flag(opts, "names", false)) {
        return names_print(snp_opts_flag(opts, "sessions", false));
    }
    return snp_remote_given(opts, &session, &err) < 0
               ? snp_cli_fail(cli, &err)
               : snp_snapshots_tell(cli, session, snp_opts_flag(opts, "json", false), NULL);
}

static int run_remove(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autojson json_t *done = json_array();
    struct snp_err err;
    int exit_code = SNP_EXIT_OK;
    int r = snp_remote_refs_check(opts, &err);

    r = r < 0 ? r : snp_remote_connect(false, &client, &err);
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    for (size_t i = 0; i < snp_opts_n_args(opts); i++) {
        snp_autofree char *snapshot = NULL;
        snp_autoreply struct snp_reply reply = {0};

        if (snp_remote_moment_of(opts, snp_opts_arg(opts, i), &snapshot, &err) < 0 ||
            snp_remote_call(client,
                            SNP_WRITE(snp_snapshots_remove_request, .snapshot = snapshot),
                            &reply, &err) < 0) {
            exit_code = snp_cli_fail(cli, &err);
        } else if (json_array_append_new(done, json_string(snapshot)) < 0) {
            exit_code = SNP_EXIT_FAILED;
        }
    }
    if (snp_opts_flag(opts, "json", false)) {
        snp_autojson json_t *answer = json_pack("{s:O}", "removed", done);

        return snp_cli_print_json(answer) != 0 ? SNP_EXIT_FAILED : exit_code;
    }
    for (size_t i = 0; i < json_array_size(done); i++) {
        (void)printf("removed %s\n", json_string_value(json_array_get(done, i)));
    }
    return exit_code;
}

/* fork ---------------------------------------------------------------------------------------- */

static int run_fork(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply reply = {0};
    snp_autofree char *from = NULL;
    const json_t *sessions;
    int64_t n = snp_opts_int(opts, "number", 1);
    char span[SNP_HUMAN_MAX];
    struct snp_err err;
    int r;

    if (n < 1 || n > FORKS_MAX) {
        return snp_cli_usage(cli, "--number must be 1 to %d, not %lld", FORKS_MAX,
                             (long long)n);
    }
    r = snp_remote_moment_of(opts, snp_opts_arg(opts, 0), &from, &err);
    if (r == 0 && from == NULL) {
        return snp_sessions_tell(cli, snp_opts_flag(opts, "json", false), "fork SESSION");
    }
    r = r < 0 ? r : snp_remote_connect(false, &client, &err);
    if (r == 0) {
        r = snp_remote_call(client,
                            SNP_WRITE(snp_fork_request, .from = from, .n = (int64_t)n,
                                      .name = snp_opts_str(opts, "name")),
                            &reply, &err);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "json", false)) {
        return snp_cli_print_json(reply.head);
    }
    sessions = json_object_get(reply.head, "sessions");
    for (size_t i = 0; i < json_array_size(sessions); i++) {
        (void)puts(snp_json_str(json_array_get(sessions, i), "name", "?"));
    }
    (void)fflush(stdout);
    (void)fprintf(
        stderr, "forked %s by %s in %s\n", from, snp_json_str(reply.head, "how", "?"),
        snp_human_span((uint64_t)snp_json_int(reply.head, "us", 0), span, sizeof(span)));
    snp_lost_tell(json_object_get(reply.head, "lost"), "not in the forks");
    return SNP_EXIT_OK;
}

/* rollback ------------------------------------------------------------------------------------ */

static int run_rollback(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply reply = {0};
    snp_autofree char *snapshot = NULL;
    bool by_memory;
    char span[SNP_HUMAN_MAX];
    struct snp_err err;
    int r = snp_remote_refs_check(opts, &err);

    r = r < 0 ? r : snp_remote_moment_of(opts, snp_opts_arg(opts, 0), &snapshot, &err);
    if (r == 0 && snp_opts_n_args(opts) == 0) {
        return snp_snapshots_tell(cli, snapshot, snp_opts_flag(opts, "json", false),
                                  "rollback SESSION@NAME");
    }
    r = r < 0 ? r : snp_remote_connect(false, &client, &err);
    if (r == 0) {
        r = snp_remote_call(client, SNP_WRITE(snp_rollback_request, .snapshot = snapshot),
                            &reply, &err);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "json", false)) {
        return snp_cli_print_json(reply.head);
    }
    by_memory = strcmp(snp_json_str(reply.head, "how", ""), "memory") == 0;
    (void)printf(
        "Rolled back %s to \"%s\" (cell %lld; from %s, %s).\n",
        snp_json_str(reply.head, "session_name", "?"),
        strchr(snapshot, '@') == NULL ? snapshot : strchr(snapshot, '@') + 1,
        (long long)snp_json_int(reply.head, "cell", 0),
        by_memory ? "memory" : "its checkpoint on disk",
        snp_human_span((uint64_t)snp_json_int(reply.head, "us", 0), span, sizeof(span)));
    snp_lost_tell(json_object_get(reply.head, "lost"), "could not be saved then");
    snp_lost_tell(json_object_get(reply.head, "failed"), "could not be restored");
    return SNP_EXIT_OK;
}

/* Verbs ---------------------------------------------------------------------------------------- */

static const struct snp_opt snapshot_options[] = {
    {"session", 's', SNP_OPT_STRING, "NAME",
     "the same as SESSION@; may be left out if only one session exists",                          0},
    {"wait",    0,   SNP_OPT_FLAG,   NULL,   "return when it is on disk too, not only in memory", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt list_options[] = {
    {"names",    0, SNP_OPT_FLAG, NULL, "print only SESSION@NAME, one a line",  0},
    {"sessions", 0, SNP_OPT_FLAG, NULL, "with --names: print the sessions too", 0},
    SNP_CLI_OPT_SESSION,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt remove_options[] = {SNP_CLI_OPT_SESSION_AT, SNP_CLI_OPT_JSON};
static const struct snp_opt fork_options[] = {
    {"number", 'n', SNP_OPT_INT,    "N",      "how many: 1 to 64 (default 1)", 0},
    {"name",   0,   SNP_OPT_STRING, "PREFIX",
     "name them PREFIX-1, PREFIX-2 and so on (default: the session's name)",   0},
    SNP_CLI_OPT_SESSION_AT,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt rollback_options[] = {
    SNP_CLI_OPT_SESSION_AT,
    SNP_CLI_OPT_JSON,
};

static const struct snp_opt_arg snapshot_args[] = {
    {"NAME", "name of the snapshot, or SESSION@NAME (default: s1, s2 and so on)", 0, 1}
};
static const struct snp_opt_arg list_args[] = {
    {"SESSION", "only snapshots of this session", 0, 1}
};
static const struct snp_opt_arg remove_args[] = {
    {"SNAPSHOT", "name, SESSION@NAME or id", 1, 0}
};
static const struct snp_opt_arg fork_args[] = {
    {"SESSION|SNAPSHOT", "a session as it is now, or a snapshot: SESSION@NAME or id", 0, 1}
};
static const struct snp_opt_arg rollback_args[] = {
    {"SNAPSHOT", "name, SESSION@NAME or id (default: list them)", 0, 1}
};

const struct snp_verb snp_verb_snapshot = {
    .name = "snapshot",
    .summary = "take a snapshot of a session, to roll back to",
    .description =
        "Take a snapshot: a session's variables, files, limits and place in its history as "
        "they are now. This takes milliseconds. A copy is then written to disk; --wait waits "
        "for it, and names variables that cannot be saved there.",
    .spec = {snapshot_options, SNP_ARRAY_LEN(snapshot_options), snapshot_args,
             SNP_ARRAY_LEN(snapshot_args), false},
    .examples = "exec -s work 'import csv; rows = list(csv.reader(open(\"big.csv\")))'\n"
                "snapshot loaded -s work\n"
                "exec -s work 'rows.clear()'\n"
                "rollback loaded",
    .run = run_snapshot,
};

static const struct snp_verb verb_list = {
    .name = "list",
    .summary = "draw the tree of snapshots; in a pipe a plain list",
    .description = "Show all snapshots: each below its parent, with the cell it was taken "
                   "after, where it is stored, and the sessions that are at it now.",
    .spec = {list_options, SNP_ARRAY_LEN(list_options), list_args, SNP_ARRAY_LEN(list_args),
             false},
    .examples = "snapshots list work\nsnapshots list --json",
    .run = run_list,
};
static const struct snp_verb verb_remove = {
    .name = "remove",
    .summary = "remove snapshots, in memory and on disk",
    .description = "Remove snapshots. Sessions and snapshots made from them stay, and move to "
                   "their parent in the tree.",
    .spec = {remove_options, SNP_ARRAY_LEN(remove_options), remove_args,
             SNP_ARRAY_LEN(remove_args), false},
    .examples = "snapshots remove work@loaded",
    .run = run_remove,
};
static const struct snp_verb *const snapshots_verbs[] = {&verb_list, &verb_remove, NULL};

const struct snp_verb snp_verb_snapshots = {
    .name = "snapshots",
    .summary = "show the tree of snapshots, remove some",
    .description = "Without a command: list.",
    .verbs = snapshots_verbs,
    .fallback = &verb_list,
};

const struct snp_verb snp_verb_fork = {
    .name = "fork",
    .summary = "make new sessions from a session or a snapshot",
    .description =
        "Make sessions that begin as another session is now, or as it was at a snapshot. Each "
        "runs in a separate sandbox, with the same limits. Prints their names, one a line. If "
        "one cannot be made, none is. Without an argument it lists the sessions.",
    .spec = {fork_options, SNP_ARRAY_LEN(fork_options), fork_args, SNP_ARRAY_LEN(fork_args),
             false},
    .examples = "fork work -n 3 --name try\n"
                "exec -s try-1 'model.fit(rows, depth=3)'\n"
                "fork work@loaded",
    .run = run_fork,
};

const struct snp_verb snp_verb_rollback = {
    .name = "rollback",
    .summary = "roll a session back to one of its snapshots",
    .description = "Roll back variables, files and the place in the history together, once the "
                   "running cell has ended. Processes of the session are ended. All snapshots "
                   "stay, later ones too. A snapshot that is no longer in memory is read from "
                   "disk; variables that could not be saved there are named.",
    .spec = {rollback_options, SNP_ARRAY_LEN(rollback_options), rollback_args,
             SNP_ARRAY_LEN(rollback_args), false},
    .examples = "rollback loaded\nrollback work@loaded --json",
    .run = run_rollback,
};
