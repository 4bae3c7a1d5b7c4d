/* SPDX-License-Identifier: Apache-2.0 */
/* `replay`: run the recorded code of a run again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/project_dir.h"
#include "base/cli/term.h"
#include "base/str.h"
#include "cli/run/front.h"
#include "cli/run/runs.h"
#include "main/verbs.h"
#include "run/recorded.h"
#include "sandbox/sandboxes.h"
#include "trajectory/reader.h"

static const struct snp_opt options[] = {
    SNP_RUNS_OPT_DIR(0),
    {"project", 0, SNP_OPT_STRING, "DIR",
     "folder shown at /workspace, for a record that is not yours (default: none)", 0},
    SNP_CLI_OPT_JSON,
    SNP_CLI_OPT_CONFIG,
};
static const struct snp_opt_arg args[] = {
    {"RUN", "id of the run, or its beginning (default: list the runs)", 0, 1},
};

static void text_print(const char *title, const char *text)
{
    (void)printf("%s:\n", title);
    (void)!snp_term_write(stdout, text, strlen(text));
    (void)putchar('\n');
}

static int outcome_print(const struct snp_run_again *again, bool is_json)
{
    const json_t *difference = again->difference;

    if (is_json) {
        snp_autojson json_t *object =
            json_pack("{s:I, s:b, s:O?}", "calls", (json_int_t)again->n_calls, "same",
                      difference == NULL, "difference", difference);

        (void)snp_cli_print_json(object);
    } else if (difference == NULL) {
        (void)printf("%zu calls, all as recorded\n", again->n_calls);
    } else {
        const json_t *arguments = json_object_get(difference, "arguments");
        const char *code = snp_json_str(arguments, "code", NULL);
        snp_autofree char *text = code == NULL ? snp_json_text(arguments) : strdup(code);

        (void)printf("call %lld (%.40s) has a different result\n",
                     (long long)snp_json_int(difference, "call", 0),
                     snp_json_str(difference, "name", "?"));
        text_print("Call", text == NULL ? "" : text);
        text_print("Recorded", snp_json_str(difference, "recorded", ""));
        text_print("Now", snp_json_str(difference, "now", ""));
    }
    return difference == NULL ? SNP_EXIT_OK : SNP_EXIT_FAILED;
}

/*
 * The project, tier and limits of a record are used only if the record is the user's own: then *ret
 * is NULL. For another record, *ret has those of the command line and the configuration.
 */
static int exec_find(struct snp_cli *cli,
                     const struct snp_opts *opts,
                     const struct snp_config *config,
                     const char *path,
                     json_t **ret,
                     struct snp_err *err)
{
    const char *dir = snp_opts_str(opts, "project");
    snp_autofree char *project = NULL;
    unsigned char key[SNP_RUN_KEY];
    struct snp_trajectory_check check;
    bool is_own;
    int r = snp_run_key(key, err);

    if (r < 0) {
        return r;
    }
    is_own = snp_trajectory_own(path, key, &check, err) == 0;
    explicit_bzero(key, sizeof(key));
    if (is_own) {
        return dir == NULL ? 0
                           : snp_fail(err, SNP_E_INVALID,
                                      "--project applies only to records that are not yours; this "
                                      "record names its project");
    }
    r = dir == NULL ? 0 : snp_project_shown(dir, "--project", &project, err);
    r = r < 0 ? r : snp_front_exec_of(config, project, ret, err);
    if (r == 0) {
        snp_cli_warn(cli,
                     "the record was not made by this user on this machine, or was changed: its "
                     "code runs %s%.200s, with your tier and limits",
                     project == NULL ? "without a project" : "with the project ",
                     project == NULL ? "" : project);
    }
    return r;
}

static int replay_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    const struct snp_config *config = NULL;
    snp_autojson json_t *records = json_array();
    snp_autojson json_t *exec = NULL;
    snp_autofree char *path = NULL;
    struct snp_trajectory_check check;
    struct snp_sandboxes *sandboxes = NULL;
    struct snp_run_again again = {0};
    uv_loop_t loop;
    struct snp_err err;
    int exit_code = SNP_EXIT_FAILED;
    int r = snp_cli_config(cli, opts, &config, &err);

    if (r == 0 && snp_opts_n_args(opts) == 0) {
        return snp_runs_tell(cli, opts, false, "replay ID");
    }
    r = r < 0 ? r
              : snp_trajectory_find(snp_config_str(config, SNP_KEY_LOG_DIR), snp_opts_arg(opts, 0),
                                    &path, &err);
    r = r < 0 ? r : exec_find(cli, opts, config, path, &exec, &err);
    r = r < 0 ? r : snp_trajectory_read(path, snp_runs_collect, records, &check, &err);
    if (r == 0 && uv_loop_init(&loop) < 0) {
        r = snp_fail(&err, SNP_E_SYS, "no event loop");
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    r = snp_sandboxes_new(&loop, &sandboxes, &err);
    r = r < 0 ? r : snp_run_again(&loop, sandboxes->sandbox, exec, records, &again, &err);
    if (r < 0) {
        err.code = SNP_E_PEER; /* whatever it was: the command was right */
        exit_code = snp_cli_fail(cli, &err);
    } else {
        exit_code = outcome_print(&again, cli->is_json);
    }
    snp_run_again_done(&again);
    snp_sandboxes_free(sandboxes);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    (void)uv_loop_close(&loop);
    return exit_code;
}

const struct snp_verb snp_verb_replay = {
    .name = "replay",
    .summary = "run the recorded code of a run again, and compare",
    .description = "Run every recorded tool call again, in a fresh session and without a model, "
                   "until a result differs. The project's current files are used. From a record "
                   "that is not yours only the code is used.",
    .spec = SNP_SPEC(options, args),
    .exit_codes =
        "0  all as recorded\n1  a result differs, or a call could not run\n2  usage error",
    .run = replay_run,
};
