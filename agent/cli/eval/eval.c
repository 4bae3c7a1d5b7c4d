/* SPDX-License-Identifier: Apache-2.0 */
/* `eval`: how many samples of a data set pass their tests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/session/policy.h"
#include "base/str.h"
#include "cli/eval/report.h"
#include "cli/eval/work.h"
#include "cli/sandbox/sandbox.h"
#include "main/verbs.h"

enum {
    PARALLEL_MAX = 64,
    K_MAX = 1000,
    MS = 1000,
    EXPECTED_MAX = 1 << 20,
};

struct evaluating {
    struct snp_cli *cli;
    const struct snp_opts *opts;
    struct snp_tasks tasks;
    struct snp_score with;
    struct snp_eval_work work;
    json_t *defaults; /* owned */
    json_t *head;     /* owned */
    json_t *results;  /* owned */
    char *log_dir;    /* owned */
    size_t k;
};

static void evaluating_done(struct evaluating *all)
{
    snp_tasks_done(&all->tasks);
    json_decref(all->defaults);
    json_decref(all->head);
    json_decref(all->results);
    free(all->log_dir);
}

static int options_take(struct evaluating *all, struct snp_err *err)
{
    const struct snp_opts *opts = all->opts;
    int64_t k = snp_opts_int(opts, "k", 1);
    int64_t parallel = snp_opts_int(opts, "parallel", 2);
    double seconds = snp_opts_float(opts, "test-timeout", 30);
    const char *samples = snp_opts_str(opts, "samples");
    const char *model = snp_opts_str(opts, "model");

    if ((samples == NULL) == (model == NULL)) {
        return snp_fail(err, SNP_E_INVALID, "give --samples FILE or --model NAME");
    }
    if (k < 1 || k > K_MAX || parallel < 1 || parallel > PARALLEL_MAX || seconds < 1 ||
        seconds > 600) {
        return snp_fail(err, SNP_E_INVALID,
                        "--k is 1 to %d, --parallel 1 to %d, --test-timeout 1 to 600", K_MAX,
                        PARALLEL_MAX);
    }
    all->k = (size_t)k;
    all->with = (struct snp_score){.cli = all->cli,
                                   .wall_ms = (uint64_t)(seconds * MS),
                                   .model = model,
                                   .cost = snp_opts_str(opts, "cost-limit"),
                                   .config = snp_opts_str(opts, "config")};
    SNP_TRY(snp_verify_proof_options(opts, &all->with.proof, err));
    all->work = (struct snp_eval_work){.with = &all->with,
                                       .tasks = &all->tasks,
                                       .per_task = model == NULL ? 0 : all->k,
                                       .parallel = (size_t)parallel,
                                       .folder = snp_opts_str(opts, "output"),
                                       .is_quiet = all->cli->is_json || !snp_term_is(stderr)};
    all->work.folder = all->work.folder == NULL ? "eval" : all->work.folder;
    all->log_dir = snp_need_format("%s/logs", all->work.folder);
    all->with.log_dir = all->log_dir;
    return 0;
}

/* Hash the files that verify uses: results with other files are not comparable. */
static int proof_keep(struct evaluating *all, struct snp_err *err)
{
    const struct snp_verify *proof = &all->with.proof;

    for (size_t i = 0; i < proof->n_samples; i++) {
        snp_autofree char *text = NULL;
        char hash[SNP_PATCH_HASH_LEN + 1] = "";
        size_t n = 0;

        SNP_TRY(snp_file_read(proof->expected[i], EXPECTED_MAX, &text, &n, err));
        (void)!snp_patch_hash(text, n, hash);
        if (i == 0) {
            (void)json_object_set_new(all->head, "samples", json_array());
        }
        (void)json_array_append_new(
            json_object_get(all->head, "samples"),
            json_pack("{s:s, s:s}", "command", proof->samples[i], "expected_sha256", hash));
    }
    if (proof->allows_uncovered) {
        (void)json_object_set_new(all->head, "allow_uncovered", json_true());
    }
    return 0;
}

static int prepare(struct evaluating *all, struct snp_err *err)
{
    const struct snp_config *config;
    const char *path = snp_opts_arg(all->opts, 0);
    const char *name = strrchr(path, '/');

    SNP_TRY(options_take(all, err));
    SNP_TRY(snp_tasks_read(path, &all->tasks, err));
    if (snp_opts_str(all->opts, "samples") != NULL) {
        SNP_TRY(snp_tasks_samples(snp_opts_str(all->opts, "samples"), &all->tasks, err));
    }
    SNP_TRY(snp_cli_config(all->cli, all->opts, &config, err));
    SNP_TRY(snp_cli_session_defaults(config, NULL, true, &all->defaults, err));
    all->with.defaults = all->defaults;
    all->head = snp_need(json_pack("{s:o, s:s, s:s?, s:I, s:s}", "dataset",
                                   snp_cli_path_json(name == NULL ? path : name + 1), "sha256",
                                   all->tasks.sha256, "model", all->with.model, "test_timeout_ms",
                                   (json_int_t)all->with.wall_ms, "program", SNP_VERSION));
    all->work.head = all->head;
    return proof_keep(all, err);
}

static int file_keep(const char *folder, const char *name, const char *text, struct snp_err *err)
{
    snp_autofree char *path = snp_need_format("%s/%s", folder, name);

    return snp_file_write_atomic(path, text, strlen(text), 0644, err);
}

static int report_keep(const struct evaluating *all, const json_t *report, struct snp_err *err)
{
    snp_autofree char *text = snp_need(json_dumps(report, JSON_INDENT(1)));
    snp_autofree char *page = snp_eval_page(report);

    SNP_TRY(file_keep(all->work.folder, "report.json", text, err));
    return file_keep(all->work.folder, "report.html", page, err);
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(evaluating_done) struct evaluating all = {.cli = cli, .opts = opts};
    snp_autojson json_t *report = NULL;
    struct snp_err err;
    int r = prepare(&all, &err);

    /* Start the daemon once, before the workers; each worker then opens its connection. */
    r = r < 0 ? r : snp_sandbox_end(cli, snipara_sessions(snp_sandbox()), NULL, &err);
    snp_sandbox_close();
    r = r < 0 ? r : snp_work_do(&all.work, &all.results, &err);
    if (r == 0) {
        report = snp_eval_report(all.head, all.tasks.list, all.results, all.k);
        r = report_keep(&all, report, &err);
    }
    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, report);
    }
    snp_eval_table(report);
    (void)fprintf(stderr, "Report: %s/report.html\n", all.work.folder);
    return SNP_EXIT_OK;
}

static const struct snp_opt options[] = {
    {"samples", 0, SNP_OPT_STRING, "FILE", "solutions, as lines of JSON", 0},
    {"model", 'm', SNP_OPT_STRING, "NAME", "have this model solve each task, --k times", 0},
    {"k", 0, SNP_OPT_INT, "N", "also show pass@N: 1 to 1000 (default 1)", 0},
    {"output", 'o', SNP_OPT_STRING, "DIR", "folder of results and reports (default: ./eval)", 0},
    {"parallel", 0, SNP_OPT_INT, "N", "samples in parallel: 1 to 64 (default 2)", 0},
    {"test-timeout", 0, SNP_OPT_FLOAT, "S",
     "wall-clock limit of a sample's tests in seconds: 1 to 600 (default 30)", 0},
    SNP_VERIFY_OPTS_PROOF,
    {"cost-limit", 0, SNP_OPT_STRING, "USD", "cost limit of one answer of the model, as in run", 0},
    {"template", 0, SNP_OPT_STRING, "NAME", "template of the sandbox, as in exec",
     SNP_KEY_TEMPLATE},
    SNP_CLI_OPT_CONFIG,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg args[] = {{"DATASET", "tasks, as lines of JSON", 1, 1}};

const struct snp_verb snp_verb_eval = {
    .name = "eval",
    .summary = "measure how many solutions of a data set pass its tests",
    .description = "Judge samples, or have a model write them, each in a separate session. Tasks "
                   "have the form of HumanEval, MBPP or, with a folder for a repository, "
                   "SWE-bench. The tests run in a process that a sample cannot reach, and changes "
                   "to a project are judged as by verify. Results are saved one by one: after an "
                   "interrupt or a crash the same command continues.",
    .spec = SNP_SPEC(options, args),
    .asks_models = true,
    .examples = "eval HumanEval.jsonl --samples samples.jsonl --k 10\n"
                "eval mbpp.jsonl --model anthropic/claude-sonnet-4-5 --output mbpp",
    .exit_codes = "0  all samples were judged\n"
                  "1  some were not judged; repeat the command to continue\n"
                  "2  usage error",
    .run = run,
};
