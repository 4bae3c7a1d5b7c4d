/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `apply`: write a session's changes into its project.
 *
 * The only command that writes to a project. The applied patch is the one shown: it is read once,
 * shown, confirmed and written, and the project is compared with it again before each file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/cli/session/changes.h"
#include "base/cli/session/diff.h"
#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "cli/verify/applied.h"
#include "main/verbs.h"
#include "repair/verdict.h"

struct apply_verb {
    struct snp_cli *cli;
    const struct snp_opts *opts;
    struct snp_session_changes changes;
    struct snp_applied *applied; /* owned */
};

static void applying_done(struct apply_verb *all)
{
    snp_applied_free(all->applied);
    snp_changes_done(&all->changes);
}

/*
 * Print a reason against a file on standard error. The path comes from the session, so it is
 * escaped.
 */
static void file_tell(const struct snp_patch_file *file, const char *why)
{
    snp_autofree char *path = snp_diff_name("", file->path);

    snp_term_printf(stderr, "  %s: %s\n", path, why);
}

static bool is_allowed(const struct apply_verb *all, const char *path)
{
    const char *const *allowed;
    size_t n = snp_opts_list(all->opts, "allow", &allowed);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(allowed[i], path) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * Whether the project's file changed after the session began, so the session may not have seen it.
 */
static const char *is_news(const struct apply_verb *all, const struct snp_patch_file *file)
{
    bool is_there = file->base.kind == SNP_PATCH_FILE || file->base.kind == SNP_PATCH_LINK;

    return is_there && file->base.ctime > all->changes.created &&
                   !snp_applied_has(all->applied, file)
               ? "it changed in the project after the session began"
               : NULL;
}

static const char *is_refused(const struct apply_verb *all, const struct snp_patch_file *file)
{
    (void)all;
    return file->refusal;
}

static const char *is_unnamed(const struct apply_verb *all, const struct snp_patch_file *file)
{
    return file->caution == NULL || is_allowed(all, file->path) ? NULL : file->caution;
}

static bool is_ready(const struct apply_verb *all)
{
    return all->applied != NULL && snp_applied_is_ready(all->applied, all->changes.patch.hash);
}

/* A kind of reason: all its files are listed, then the remedy. */
struct gate {
    const char *option; /* that overrides it; NULL = none */
    const char *(*why)(const struct apply_verb *all, const struct snp_patch_file *file);
    const char *way_out;
};

static const struct gate gates[] = {
    {NULL, is_refused, "some changes cannot be applied; name the others: apply SESSION PATH..."},
    {NULL, is_unnamed, "tools run some of these automatically; allow each with --allow PATH"},
    {"project-moved", is_news,
     "compare them with the project; --project-moved applies the patch anyway"},
};

static int gates_pass(const struct apply_verb *all, struct snp_err *err)
{
    const struct snp_patch *patch = &all->changes.patch;

    for (size_t g = 0; g < SNP_ARRAY_LEN(gates); g++) {
        const char *first = NULL;

        if (gates[g].option != NULL && snp_opts_flag(all->opts, gates[g].option, false)) {
            continue;
        }
        for (size_t i = 0; i < patch->n; i++) {
            const char *why = gates[g].why(all, &patch->files[i]);

            if (why != NULL) {
                file_tell(&patch->files[i], why);
                first = first == NULL ? patch->files[i].path : first;
            }
        }
        if (first != NULL) {
            (void)snp_fail(err, SNP_E_DENIED, "nothing was applied: %s", gates[g].way_out);
            snp_err_about(err, first);
            return err->code;
        }
    }
    if (!is_ready(all) && !snp_opts_flag(all->opts, "unverified", false)) {
        return snp_fail(err, SNP_E_DENIED,
                        "nothing was applied: this patch is not verified as ready; run verify, or "
                        "use --unverified if you reviewed it");
    }
    return 0;
}

/* Whether the risk class of the verdict requires review by a person. */
static bool needs_review(const struct apply_verb *all)
{
    const json_t *risk = snp_applied_risk(all->applied, all->changes.patch.hash);
    const char *how = snp_json_str(risk, "automation", "");

    return strcmp(how, "human-in-the-loop") == 0 || strcmp(how, "manual") == 0;
}

static int asked(const struct apply_verb *all, struct snp_err *err)
{
    struct snp_err ignored;
    const json_t *risk = snp_applied_risk(all->applied, all->changes.patch.hash);
    bool is_risky = needs_review(all) && !snp_opts_flag(all->opts, "reviewed", false);
    snp_autofree char *question = snp_need_format(
        "Apply %zu change%s to %s%s%s?", all->changes.patch.n, all->changes.patch.n == 1 ? "" : "s",
        all->changes.project, is_risky ? "; you have read them, the risk is " : "",
        is_risky ? snp_json_str(risk, "level", "") : "");

    if (is_risky && !snp_cli_can_ask()) {
        return snp_fail(err, SNP_E_DENIED,
                        "nothing was applied: the risk of this patch is %.20s (%.40s: %.200s), "
                        "and a person must read it; use --reviewed after that",
                        snp_json_str(risk, "level", "?"), snp_json_str(risk, "class", "?"),
                        snp_json_str(risk, "path", "?"));
    }
    if ((!is_risky && snp_opts_flag(all->opts, "yes", false)) || snp_cli_confirm(question)) {
        return 0;
    }
    if (snp_cli_can_ask()) {
        (void)!snp_applied_decline(all->applied, all->changes.patch.hash, &ignored);
    }
    return snp_fail(err, SNP_E_DENIED,
                    snp_cli_can_ask() ? "nothing was applied"
                                      : "nothing was applied: cannot ask without a terminal; "
                                        "--yes applies without asking");
}

static json_t *how_json(const struct apply_verb *all)
{
    const char *const *allowed;
    size_t n = snp_opts_list(all->opts, "allow", &allowed);
    json_t *names = json_array();

    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(names, snp_cli_path_json(allowed[i]));
    }
    return snp_need(json_pack(
        "{s:s?, s:b, s:b, s:b, s:o}", "verdict", is_ready(all) ? snp_verdict_ready : NULL,
        "unverified", !is_ready(all), "reviewed", snp_opts_flag(all->opts, "reviewed", false),
        "project_moved", snp_opts_flag(all->opts, "project-moved", false), "allowed", names));
}

static json_t *result_json(const struct apply_verb *all, size_t n)
{
    json_t *paths = json_array();

    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(paths, json_string(all->changes.patch.files[i].path));
    }
    return json_pack(
        "{s:s, s:o, s:s, s:o, s:s?, s:b, s:O?}", "session", all->changes.session, "project",
        snp_cli_path_json(all->changes.project), "sha256", all->changes.patch.hash, "applied",
        paths, "verdict", is_ready(all) ? snp_verdict_ready : NULL, "unverified", !is_ready(all),
        "risk",
        all->applied == NULL ? NULL : snp_applied_risk(all->applied, all->changes.patch.hash));
}

static int apply(struct apply_verb *all, json_t **ret, struct snp_err *err)
{
    size_t n_before = 0;
    size_t n_all = 0;
    size_t n = 0;
    int r = snp_applied_open(&all->changes, &all->applied, err);

    if (r == 0 && snp_applied_was_cut(all->applied, &n_before, &n_all)) {
        snp_term_printf(stderr,
                        "The last apply was cut off after %zu of %zu files; these remain.\n",
                        n_before, n_all);
    }
    SNP_THEN(r, gates_pass(all, err));
    SNP_THEN(r, asked(all, err));
    SNP_THEN(r, snp_applied_run(all->applied, &all->changes, how_json(all), &n, err));
    if (r < 0 && n > 0) {
        snp_term_printf(stderr,
                        "Applied %zu of %zu files, up to %s. The same command continues with the "
                        "rest.\n",
                        n, all->changes.patch.n, all->changes.patch.files[n - 1].path);
    }
    *ret = r < 0 ? NULL : result_json(all, n);
    return r;
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(applying_done) struct apply_verb all = {
        .cli = cli, .opts = opts, .changes = {.project_fd = -1}};
    const struct snp_diff_show show = {.is_stat = snp_opts_flag(opts, "stat", false)};
    snp_autojson json_t *result = NULL;
    snp_autofree char *session = NULL;
    size_t n_words = snp_opts_n_args(opts);
    struct snp_err err;
    int r = snp_remote_session(cli, snp_opts_arg(opts, 0), &session, &err);

    SNP_THEN(r, snp_remote_run_session(cli, &session, &err));
    r = r < 0 ? r
              : snp_changes_read(cli, session, snp_opts_args(opts) + 1, n_words - 1, &all.changes,
                                 &err);
    if (r == 0 && all.changes.patch.n == 0) {
        if (cli->is_json) {
            result = result_json(&all, 0);
            return snp_cli_end(cli, 0, NULL, result);
        }
        snp_term_printf(stderr, "Nothing to apply: session %s and its project are identical.\n",
                        all.changes.name);
        return SNP_EXIT_OK;
    }
    if (r == 0 && !cli->is_json) {
        r = snp_diff_project(cli, &all.changes, &show, NULL, &err);
    }
    r = r < 0 ? r : apply(&all, &result, &err);
    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, result);
    }
    snp_term_printf(stderr, "Applied %zu change%s to %s.\n", all.changes.patch.n,
                    all.changes.patch.n == 1 ? "" : "s", all.changes.project);
    return SNP_EXIT_OK;
}

static const struct snp_opt options[] = {
    {"yes", 'y', SNP_OPT_FLAG, NULL, "do not ask", 0},
    {"unverified", 0, SNP_OPT_FLAG, NULL,
     "apply without a verdict that the patch is ready; this is recorded", 0},
    {"reviewed", 0, SNP_OPT_FLAG, NULL,
     "apply a patch of high or critical risk that a person has read; this is recorded", 0},
    {"allow", 0, SNP_OPT_LIST, "PATH",
     "apply this file even if tools run it automatically; may be repeated", 0},
    {"project-moved", 0, SNP_OPT_FLAG, NULL,
     "apply even if files changed in the project after the session began", 0},
    {"stat", 0, SNP_OPT_FLAG, NULL, "print only the changed files and the numbers of lines", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg args[] = {
    {"SESSION|RUN", "a session with a project, or the id of a run", 1, 1},
    {"PATH", "apply only these files, or folders with their contents", 0, 0},
};

const struct snp_verb snp_verb_apply = {
    .name = "apply",
    .summary = "apply a session's changes to its project",
    .description = "Show the changes as `diff SESSION --project` does, ask, and write them into "
                   "the project: regular files and links, each atomically. If the project has "
                   "changed since, nothing is written. Files of version control are never written, "
                   "and files that tools run automatically, such as .envrc or .vscode/tasks.json, "
                   "only if --allow names them. After a crash the same command continues.",
    .spec = SNP_SPEC(options, args),
    .examples = "apply work --unverified\n"
                "apply 8c43f2a1\n"
                "apply work --unverified src/parse.py tests",
    .run = run,
};
