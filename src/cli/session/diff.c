/* SPDX-License-Identifier: Apache-2.0 */
/* `diff`: the differences between two sessions or snapshots. */
#include "base/cli/session/diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "cli/cli.h"

static int project_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autochanges struct snp_session_changes changes = {.project_fd = -1};
    snp_autofree char *session = NULL;
    snp_autojson json_t *json = NULL;
    const struct snp_diff_show show = {
        .is_stat = snp_opts_flag(opts, "stat", false),
        .may_page = snp_opts_flag(opts, "pager", true),
        .has_contents = snp_opts_flag(opts, "patch", false),
    };
    bool is_json = cli->is_json || show.has_contents;
    struct snp_err err;
    int r;

    if (snp_opts_n_args(opts) > 1) {
        return snp_cli_usage(cli, "--project compares one session with its project; name one");
    }
    r = snp_remote_session_of(cli, opts, &session, &err);
    r = r < 0 ? r : snp_changes_read(cli, session, NULL, 0, &changes, &err);
    r = r < 0 ? r : snp_diff_project(cli, &changes, &show, is_json ? &json : NULL, &err);
    if (r < 0 || is_json) {
        return snp_cli_end(cli, r, &err, json);
    }
    if (changes.patch.n == 0) {
        snp_term_printf(stderr, "Session %s and its project are identical.\n", changes.name);
    }
    return SNP_EXIT_OK;
}

/*
 * A single snapshot is compared with its session's current state; b stays NULL if there is nothing
 * to compare.
 */
static int sides_find(const struct snp_opts *opts, char **ret_a, char **ret_b, struct snp_err *err)
{
    const char *second = snp_opts_arg(opts, 1);
    const char *at;
    int r = snp_remote_moment_of(opts, snp_opts_arg(opts, 0), ret_a, err);

    if (r < 0 || *ret_a == NULL) {
        return r;
    }
    if (second != NULL) {
        return snp_remote_moment_of(opts, second, ret_b, err);
    }
    at = strchr(*ret_a, '@');
    *ret_b = at == NULL ? NULL : snp_need(strndup(*ret_a, (size_t)(at - *ret_a)));
    return 0;
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    const struct snp_diff_show show = {.is_stat = snp_opts_flag(opts, "stat", false),
                                       .may_page = snp_opts_flag(opts, "pager", true)};
    snp_autofree char *a = NULL;
    snp_autofree char *b = NULL;
    snp_autojson json_t *json = NULL;
    struct snp_err err;
    int r;

    if (snp_opts_flag(opts, "project", false)) {
        return project_run(cli, opts);
    }
    if (snp_opts_flag(opts, "patch", false)) {
        return snp_cli_usage(cli, "--patch needs --project");
    }
    r = sides_find(opts, &a, &b, &err);
    if (r == 0 && b == NULL) {
        return snp_snapshots_tell(cli, a, "diff SESSION@NAME");
    }
    SNP_THEN(r, snp_diff_moments(cli, a, b, &show, &json, &err));
    return r < 0 || cli->is_json ? snp_cli_end(cli, r, &err, json) : SNP_EXIT_OK;
}

static const struct snp_opt options[] = {
    {"project", 0, SNP_OPT_FLAG, NULL,
     "show the changes that `apply` would make to the project of session A", 0},
    {"patch", 0, SNP_OPT_FLAG, NULL,
     "with --project: print the changes as JSON with file contents, for programs", 0},
    {"stat", 0, SNP_OPT_FLAG, NULL, "print only the changed files and the numbers of lines", 0},
    {"pager", 0, SNP_OPT_BOOL, NULL, "on a terminal, page by page (default)", 0},
    SNP_CLI_OPT_SESSION_AT,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg args[] = {
    {"A", "a session (its current state) or a snapshot: SESSION@NAME or id", 0, 1},
    {"B", "another session or snapshot (default: the current state of the snapshot's session)", 0,
     1},
};

const struct snp_verb snp_verb_diff = {
    .name = "diff",
    .summary = "compare two sessions or snapshots",
    .description = "Show how B differs from A: variables by name and type, files line by line "
                   "(binary files by name only). In a pipe the output is plain, and patch -p1 "
                   "applies its changes to lines of regular files; patch ignores links, modes, "
                   "folders, and empty and binary files. On a terminal it is coloured and "
                   "shown by $SNIPARA_SANDBOX_PAGER, $PAGER or less.",
    .spec = SNP_SPEC(options, args),
    .examples = "diff work@loaded work\n"
                "diff try-1 try-2 --stat\n"
                "diff work --project\n"
                "diff work@loaded work | patch -p1 --dry-run",
    .run = run,
};
