/* SPDX-License-Identifier: Apache-2.0 */
/* `run`, `agent` and `resume`: a model that works in a sandbox. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/input.h"
#include "base/cli/need.h"
#include "base/policy/limits.h"
#include "base/session/policy.h"
#include "base/str.h"
#include "cli/eval/race.h"
#include "cli/run/front.h"
#include "cli/run/limits.h"
#include "cli/run/no_model.h"
#include "cli/run/notes.h"
#include "cli/run/runs.h"
#include "cli/run/tools.h"
#include "cli/verify/verify.h"
#include "main/verbs.h"
#include "repair/verdict.h"
#include "run/agent_limits.h"
#include "schema/schema.h"
#include "trajectory/reader.h"

enum {
    MS = 1000,
    PROMPT_TESTS_MAX = 16 << 10,
    CONTEXT_TOKENS = 4000,
    CONTEXT_MIN = 100,
    CONTEXT_MAX = 10000,
};

/* Options that run and agent share. */
#define OPT_MODEL                                                                          \
    {"model",                                                                              \
     'm',                                                                                  \
     SNP_OPT_STRING,                                                                       \
     "NAME",                                                                               \
     "model, such as gpt-4o-mini or anthropic/claude-...",                                 \
     SNP_KEY_MODEL},                                                                       \
        {"backend",                                                                        \
         'b',                                                                              \
         SNP_OPT_STRING,                                                                   \
         "NAME",                                                                           \
         "API of the model (see docs/reference/configuration.md)",                         \
         SNP_KEY_BACKEND},                                                                 \
    {                                                                                      \
        "env", 'e', SNP_OPT_STRING, "TIER",                                                \
            "tier: native, docker, local (weaker), or auto (default)", SNP_KEY_ENVIRONMENT \
    }
#define OPT_OUTPUT                                                                                 \
    {                                                                                              \
        "output", 'o', SNP_OPT_STRING, "DIR", "copy new and changed files into this new folder", 0 \
    }
#define OPT_BOX                                                                                \
    OPT_OUTPUT,                                                                                \
        {"project",                                                                            \
         0,                                                                                    \
         SNP_OPT_STRING,                                                                       \
         "DIR",                                                                                \
         "folder shown at /workspace (default: the working directory); it is never changed",   \
         0},                                                                                   \
        {"no-project", 0, SNP_OPT_FLAG, NULL, "show no folder at /workspace", 0},              \
        {"template",      0, SNP_OPT_STRING, "NAME", "template of the sandbox, as in exec",    \
         SNP_KEY_TEMPLATE},                                                                    \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_MEMORY, "memory", 0, "SIZE",                               \
                          "memory of the sandbox: 16m to 1t (default 512m)"),                  \
        SNP_CLI_LIMIT_ROW(SNP_LIMIT_CPUS, "cpus", 0, "N",                                      \
                          "CPUs the sandbox may use (default 1.0)"),                           \
        SNP_CLI_LIMIT_ROW(                                                                     \
            SNP_LIMIT_WALL, "cell-timeout", 0, "S",                                            \
            "wall-clock limit of one tool call in seconds: 0.05 to 600 (default 30)"),         \
        {"allow-degraded", 0, SNP_OPT_FLAG, NULL, "run even if this host lacks a control", 0}, \
        {"require-exact",                                                                      \
         0,                                                                                    \
         SNP_OPT_BOOL,                                                                         \
         NULL,                                                                                 \
         "refuse if a control or limit is missing or only approximate here",                   \
         SNP_KEY_REQUIRE_EXACT},                                                               \
    {                                                                                          \
        "log-dir", 0, SNP_OPT_STRING, "DIR", "folder of the record (default: ./logs)",         \
            SNP_KEY_LOG_DIR                                                                    \
    }
#define OPT_END                                                                     \
    SNP_RUN_TOOLS_OPTS, SNP_CLI_OPT_CONFIG, SNP_CLI_OPT_JSON, SNP_FRONT_OPT_EVENTS, \
        SNP_FRONT_OPT_VERBOSE,                                                      \
        {"attached",                                                                \
         0,                                                                         \
         SNP_OPT_FLAG,                                                              \
         NULL,                                                                      \
         "stop, as if interrupted, when the reader of standard output ends",        \
         0},                                                                        \
    {                                                                               \
        "show-config", 0, SNP_OPT_FLAG, NULL, "print the settings and exit", 0      \
    }

#define OPT_SUBS                                                                   \
    {"sub-calls",                                                                  \
     0,                                                                            \
     SNP_OPT_BOOL,                                                                 \
     NULL,                                                                         \
     "let the model make sub-calls (default), or not",                             \
     SNP_KEY_SUB_CALLS_ENABLED},                                                   \
    {                                                                              \
        "max-sub-calls", 0, SNP_OPT_INT, "N", "sub-calls in one turn (default 5)", \
            SNP_KEY_SUB_CALLS_MAX_PER_TURN                                         \
    }

/* Shared code -------------------------------------------------------------------------------- */

/* Show settings if requested; true: that was all. */
static bool settings_show(struct snp_front *front, const struct snp_run_budget *budget)
{
    bool is_all = snp_opts_flag(front->opts, "show-config", false);

    if (is_all || (front->is_verbose && !front->is_for_programs)) {
        snp_run_notes_show(front, budget);
    }
    return is_all;
}

/* Whether no cost limit applies because the price is unknown and the user accepted that. */
static bool cost_is_free(const struct snp_front *front,
                         const struct snp_model_choice *choice,
                         struct snp_err *err)
{
    const char *text = snp_opts_str(front->opts, "cost-limit");

    if (text == NULL || strcmp(text, SNP_COST_UNPRICED) != 0 || !choice->is_priced ||
        (choice->input_usd <= 0 && choice->output_usd <= 0)) {
        return true;
    }
    (void)snp_fail(err, SNP_E_LIMIT,
                   "unpriced is for models without a known price, and the price of %s is "
                   "known; give a cost_limit of at most %.0f USD",
                   choice->model, SNP_AGENT_COST_USD_MAX);
    return false;
}

/* The default cost limit applies only to models with a known price. */
static void cost_default(const struct snp_front *front,
                         const struct snp_model_choice *choice,
                         struct snp_run_spec *spec)
{
    bool is_set = snp_opts_given(front->opts, "cost-limit") ||
                  snp_config_origin(front->config, SNP_KEY_COST_LIMIT) != SNP_ORIGIN_DEFAULT;

    if (spec->kind != SNP_RUN_COMPLETION || is_set || choice->is_priced) {
        return;
    }
    spec->budget.cost_usd = -1;
    snp_front_warn(front,
                   "the price of %s is not known, so only --token-budget (%lld tokens) "
                   "limits what this run costs (docs/reference/models.md: prices)",
                   choice->model, (long long)spec->budget.tokens);
}

static bool is_judged_in(const char *tier)
{
    return snp_streq(tier, "native") || snp_streq(tier, "auto") || snp_streq(tier, "docker");
}

/*
 * Changes that no verdict can cover are refused; limits of every verdict are reported before a
 * model is paid.
 */
static int repair_check(const struct snp_front *front,
                        const json_t *repair,
                        const json_t *exec,
                        struct snp_err *err)
{
    const char *tier = front->tier;
    const char *command;
    json_t *each;
    size_t i;

    if (!json_is_string(json_object_get(exec, "project"))) {
        return snp_fail(err, SNP_E_INVALID, "--test needs a project; name one: --project DIR");
    }
    json_array_foreach(json_object_get(repair, "test"), i, each)
    {
        command = json_string_value(each);
        if (command != NULL && strcmp(snp_verdict_runner(command), "other") == 0) {
            snp_front_warn(front,
                           "`%.140s` reports no results test by test (pytest, unittest and "
                           "node --test do): the best verdict is \"tests passed\"",
                           command);
        }
    }
    return is_judged_in(tier)
               ? 0
               : snp_fail(err, SNP_E_UNSUPPORTED,
                          "--test needs tier native or docker: in tier %.20s tests see the host",
                          tier == NULL ? "" : tier);
}

/*
 * An agent begins with the index's context for its task. Without it, the agent can search the index
 * itself.
 */
static int context_find(const struct snp_front *front,
                        const struct snp_run_spec *spec,
                        const json_t *exec,
                        char **ret,
                        struct snp_err *err)
{
    const char *project = snp_json_str(exec, "project", NULL);
    int64_t tokens = spec->kind == SNP_RUN_AGENT
                         ? snp_opts_int(front->opts, "context-budget", CONTEXT_TOKENS)
                         : 0;
    struct snp_err why = {0};

    if (tokens != 0 && (tokens < CONTEXT_MIN || tokens > CONTEXT_MAX)) {
        return snp_fail(err, SNP_E_INVALID, "--context-budget is 0 or %d to %d", CONTEXT_MIN,
                        CONTEXT_MAX);
    }
    if (tokens > 0 && project != NULL) {
        *ret = snp_run_tools_context(project, spec->prompt, tokens, &why);
        if (why.code != 0) {
            snp_front_warn(front, "the agent begins without code of the project: %s", why.msg);
        }
    }
    return 0;
}

/* If no model is configured, report that, or run a prompt that is code. */
static int start(struct snp_front *front, struct snp_run_spec *spec)
{
    struct snp_model_choice choice = {0};
    snp_autojson json_t *exec = NULL;
    snp_autofree char *context = NULL;
    struct snp_limits limits;
    struct snp_err err;

    spec->log = (struct snp_trajectory_place){
        .dir = snp_config_str(front->config, SNP_KEY_LOG_DIR),
        .is_beneath = !snp_config_is_chosen(front->config, SNP_KEY_LOG_DIR)};
    spec->environment = front->tier;
    snp_config_limits(front->config, &limits);
    spec->cell_ms = limits.value[SNP_LIMIT_WALL];
    if (snp_config_origin(front->config, SNP_KEY_MODEL) != SNP_ORIGIN_DEFAULT) {
        spec->model = snp_config_str(front->config, SNP_KEY_MODEL);
    }
    if (snp_model_choose(front->models, spec->model, &choice, &err) < 0) {
        return snp_run_direct(front, spec, &err);
    }
    if (!cost_is_free(front, &choice, &err) || snp_front_exec(front, &exec, &err) < 0 ||
        snp_run_notes_logs(front, &err) < 0) {
        return snp_front_fail(front, &err);
    }
    if (spec->repair != NULL && repair_check(front, spec->repair, exec, &err) < 0) {
        return snp_front_fail(front, &err);
    }
    if (context_find(front, spec, exec, &context, &err) < 0 ||
        (spec->repair != NULL && snp_front_tests(front, spec->repair, exec, &err) < 0)) {
        return snp_front_fail(front, &err);
    }
    cost_default(front, &choice, spec);
    spec->exec = exec;
    spec->context = context;
    if (snp_front_output(front, &err) < 0) {
        return snp_front_fail(front, &err);
    }
    return snp_front_start(front, spec);
}

/* run ----------------------------------------------------------------------------------------- */

static const struct snp_opt run_options[] = {
    OPT_MODEL,
    {"max-depth", 'd', SNP_OPT_INT, "N", "turns of the model (default 30)", SNP_KEY_MAX_DEPTH},
    {"token-budget", 't', SNP_OPT_INT, "N", "tokens, input and output (default 400000)",
     SNP_KEY_TOKEN_BUDGET},
    {"tool-budget", 0, SNP_OPT_INT, "N", "tool calls (default 100)", SNP_KEY_TOOL_BUDGET},
    {"cost-limit", 0, SNP_OPT_STRING, "USD", "cost limit, or none (default 2)", 0},
    {"timeout", 0, SNP_OPT_INT, "S", "wall-clock limit of the whole run in seconds (default 900)",
     SNP_KEY_TIMEOUT_SECONDS},
    {"max-calls", 0, SNP_OPT_INT, "N",
     "model calls, including failed ones, excluding sub-calls (default 60)", SNP_KEY_MAX_SUBCALLS},
    OPT_SUBS,
    {"system", 's', SNP_OPT_STRING, "TEXT", "instructions to the model, before the prompt", 0},
    {"schema", 0, SNP_OPT_STRING, "JSON", "JSON Schema of the answer, or @FILE", 0},
    OPT_BOX,
    OPT_END,
};
static const struct snp_opt_arg run_args[] = {
    {"PROMPT", "the task; - reads it from standard input", 1, 1}};

static int prompt_take(const struct snp_opts *opts,
                       bool is_for_caller,
                       char **ret,
                       struct snp_err *err)
{
    enum {
        PROMPT_MAX = 4 << 20
    };
    const char *given = snp_opts_arg(opts, 0);
    size_t n = 0;
    int r = 0;

    if (strcmp(given, "-") == 0 && !is_for_caller) {
        r = snp_read_input("-", PROMPT_MAX, ret, &n, err);
    } else {
        *ret = snp_need_copy(given);
        n = strlen(given);
    }
    if (r < 0) {
        return r;
    }
    if (strspn(*ret, " \t\r\n") == n || !snp_utf8_valid(*ret, n) || strlen(*ret) != n) {
        return snp_fail(err, SNP_E_INVALID, "the prompt is empty, or not UTF-8 text");
    }
    return 0;
}

/* Run a prompt from the command line. */
static int prompt_run(struct snp_cli *cli, const struct snp_opts *opts, struct snp_run_spec *spec)
{
    snp_cleanup(snp_front_done) struct snp_front front;
    snp_autofree char *prompt = NULL;
    struct snp_err err;
    int r;

    snp_front_init(&front, cli, opts);
    r = prompt_take(opts, cli->listener != NULL, &prompt, &err);
    r = r < 0 ? r : snp_front_open(&front, &err);
    r = r < 0 ? r : snp_front_attach(&front, &err);
    r = r < 0 ? r : snp_run_limits(&front, spec->kind, &spec->budget, &err);
    if (r < 0) {
        return snp_front_fail(&front, &err);
    }
    spec->prompt = prompt;
    return settings_show(&front, &spec->budget) ? SNP_EXIT_OK : start(&front, spec);
}

/* The schema of --schema. *ret is the caller's; NULL: none. */
static int schema_take(const char *given, bool is_for_caller, json_t **ret, struct snp_err *err)
{
    enum {
        SCHEMA_MAX = 1 << 20
    };
    snp_autoschema struct snp_schema *schema = NULL;
    snp_autofree char *text = NULL;
    const char *type;
    size_t n = 0;

    if (given == NULL) {
        return 0;
    }
    if (given[0] == '@' && !is_for_caller) {
        SNP_TRY(snp_read_input(given + 1, SCHEMA_MAX, &text, &n, err));
    } else {
        text = snp_need_copy(given);
        n = strlen(given);
    }
    if (snp_json_parse(text, n, ret, err) < 0 ||
        snp_schema_new(*ret, SNP_SCHEMA_LENIENT, &schema, err) < 0) {
        return snp_err_wrap(err, "--schema");
    }
    type = snp_json_str(*ret, "type", "object");
    return strcmp(type, "object") == 0 || strcmp(type, "array") == 0
               ? 0
               : snp_fail(err, SNP_E_INVALID,
                          "--schema: an answer is an object or an array, not '%.40s'", type);
}

static int run_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *schema = NULL;
    struct snp_run_spec spec = {.kind = SNP_RUN_COMPLETION, .system = snp_opts_str(opts, "system")};
    struct snp_err err;

    if (schema_take(snp_opts_str(opts, "schema"), cli->listener != NULL, &schema, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    spec.schema = schema;
    return prompt_run(cli, opts, &spec);
}

static const char run_codes[] =
    "0    answered\n1    no answer, or only a part: a limit was reached, or the model or the "
    "sandbox failed\n2    usage error\n130  Ctrl-C stopped it; resume continues";

const struct snp_verb snp_verb_run = {
    .name = "run",
    .summary = "have a model answer a prompt by running code in a sandbox",
    .asks_models = true,
    .description =
        "The model gets tools: Python and a patch tool in a sandbox, and tools to search and read "
        "the project's files. It sees the project at /workspace and cannot change it. Each turn is "
        "recorded in ./logs (see logs), and resume continues an interrupted run.",
    .spec = SNP_SPEC(run_options, run_args),
    .examples = "run 'How many orders of orders.csv are overdue?'\n"
                "run --model anthropic/claude-sonnet-4-5 --json 'Find the slowest test'\n"
                "run --max-depth 8 --cost-limit 0.50 'Why does parse() fail on empty input?'",
    .exit_codes = run_codes,
    .run = run_run,
};

/* agent ---------------------------------------------------------------------------------------- */

static const struct snp_opt agent_options[] = {
    OPT_MODEL,
    {"max-iterations", 'i', SNP_OPT_INT, "N", "iterations: 1 to 50 (default 10)", 0},
    {"max-depth", 'd', SNP_OPT_INT, "N", "turns of the model in each: 1 to 5 (default 3)",
     SNP_KEY_MAX_DEPTH},
    {"budget", 0, SNP_OPT_INT, "N", "tokens, input and output (default 400000)",
     SNP_KEY_TOKEN_BUDGET},
    {"context-budget", 0, SNP_OPT_INT, "N",
     "tokens of project code in the first prompt: 0, or 100 to 10000 (default 4000)", 0},
    {"tool-budget", 0, SNP_OPT_INT, "N", "tool calls in each iteration (default 50)",
     SNP_KEY_TOOL_BUDGET},
    {"cost-limit", 0, SNP_OPT_STRING, "USD",
     "cost limit: up to 10, none, or unpriced, which means none if the price is unknown (default "
     "2)",
     0},
    {"timeout", 0, SNP_OPT_INT, "S", "wall-clock limit of the whole run in seconds (default 900)",
     SNP_KEY_TIMEOUT_SECONDS},
    {"auto-context", 0, SNP_OPT_BOOL, NULL, "accepted, no effect in this version", 0},
    OPT_SUBS,
    {"candidates", 0, SNP_OPT_INT, "N",
     "with --test: race N attempts, which share the budget and the cost: 1 to 16", 0},
    SNP_VERIFY_OPTS,
    OPT_BOX,
    OPT_END,
};
static const struct snp_opt_arg agent_args[] = {
    {"TASK", "the task; - reads it from standard input", 1, 1}};

static const char repair_prompt[] = "Your work is judged by tests, in a fresh copy of the "
                                    "project into which your changes are written:\n"
                                    "%s- Begin by running them, and see the failure.\n"
                                    "- Before each fix write two lines of text: HYPOTHESIS: the "
                                    "cause, and INVARIANT: what must hold and does not.\n"
                                    "- After a verdict the project is clean again: make the "
                                    "whole change again.\n"
                                    "- Change the files below /workspace in place, and only what "
                                    "the fix needs: each change must be one without which a test "
                                    "fails.\n"
                                    "- Tests and their configuration are put back before they "
                                    "run; do not change them, and do not look for ways around "
                                    "them.\n"
                                    "- Then call FINAL with a summary. If the tests do not prove "
                                    "the change, you get the reasons and continue.";

/* A list of texts. New reference. */
static json_t *texts_json(const char *const *texts, size_t n)
{
    json_t *list = snp_need(json_array());

    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, snp_json_bytes(texts[i], strlen(texts[i])));
    }
    return list;
}

/* Absolute paths: a run may be resumed in another folder. */
static json_t *paths_json(const char *const *paths, size_t n)
{
    json_t *list = snp_need(json_array());

    for (size_t i = 0; i < n; i++) {
        snp_autofree char *path = realpath(paths[i], NULL);

        (void)json_array_append_new(list, snp_cli_path_json(path == NULL ? paths[i] : path));
    }
    return list;
}

/* Options not allowed with a judged change; all given ones are named. */
static int repair_admit(const struct snp_opts *opts, struct snp_err *err)
{
    const char *const *files;
    const char *tier = snp_opts_str(opts, "env");
    bool is_other = tier != NULL && !is_judged_in(tier);
    const struct {
        bool is_asked;
        const char *why;
    } rows[] = {
        {snp_opts_flag(opts, "allow-tools", false),
         "--allow-tools (outside the sandbox, with your network, files and credentials)"},
        {snp_opts_list(opts, "mcp-config", &files) > 0,
         "--mcp-config (outside the sandbox, with your network, files and credentials)"},
        {is_other, "--env (a verdict needs tier native or docker)"},
        {snp_opts_flag(opts, "no-project", false), "--no-project (--test needs a project)"},
    };
    snp_autobuf struct snp_buf all = SNP_BUF(PROMPT_TESTS_MAX);
    size_t n = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (rows[i].is_asked) {
            (void)!snp_buf_addf(&all, "%s%s", n++ == 0 ? "" : "; ", rows[i].why);
        }
    }
    return n == 0 ? 0
                  : snp_fail(err, SNP_E_INVALID, "--test cannot be combined with: %s",
                             (char *)snp_need(snp_buf_cstr(&all)));
}

/*
 * --test and related options: the members of the record, and the text for the model. Both are NULL
 * without a judged change.
 */
static int repair_take(const struct snp_opts *opts,
                       json_t **ret_repair,
                       char **ret_system,
                       struct snp_err *err)
{
    struct snp_verify asked = {0};
    snp_autobuf struct snp_buf tests = SNP_BUF(PROMPT_TESTS_MAX);
    snp_autofree char *hidden = NULL;
    int r = snp_verify_options(opts, &asked, err);

    if (r < 0 || asked.n_commands[SNP_VERIFY_TEST] == 0) {
        return r < 0 || asked.n_commands[SNP_VERIFY_REGRESS] + asked.n_commands[SNP_VERIFY_HIDDEN] +
                                asked.n_scope + asked.n_samples + asked.allows_uncovered ==
                            0
                   ? r
                   : snp_fail(err, SNP_E_INVALID,
                              "--regress, --hidden-test, --sample, --scope and "
                              "--allow-uncovered need --test CMD");
    }
    SNP_TRY(repair_admit(opts, err));
    if (asked.hidden_files != NULL) {
        hidden = realpath(asked.hidden_files, NULL);
        if (hidden == NULL) {
            return snp_fail(err, SNP_E_NOT_FOUND, "--hidden-files: no such folder: %.150s",
                            asked.hidden_files);
        }
    }
    for (int kind = SNP_VERIFY_TEST; kind <= SNP_VERIFY_REGRESS && r == 0; kind++) {
        for (size_t i = 0; i < asked.n_commands[kind] && r == 0; i++) {
            r = snp_buf_addf(&tests, "  %s: %s\n",
                             kind == SNP_VERIFY_TEST ? "must pass" : "must keep passing",
                             asked.commands[kind][i]);
        }
    }
    for (size_t i = 0; i < asked.n_samples && r == 0; i++) {
        r = snp_buf_addf(&tests, "  must print the right result: %s\n", asked.samples[i]);
    }
    if (r < 0) {
        return snp_fail(err, SNP_E_INVALID, "the test commands are too long");
    }
    *ret_system = snp_need_format(repair_prompt, (char *)snp_need(snp_buf_cstr(&tests)));
    *ret_repair = snp_need(json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:s?, s:b, s:I}", "test",
        texts_json(asked.commands[SNP_VERIFY_TEST], asked.n_commands[SNP_VERIFY_TEST]), "regress",
        texts_json(asked.commands[SNP_VERIFY_REGRESS], asked.n_commands[SNP_VERIFY_REGRESS]),
        "hidden",
        texts_json(asked.commands[SNP_VERIFY_HIDDEN], asked.n_commands[SNP_VERIFY_HIDDEN]), "scope",
        texts_json(asked.scope, asked.n_scope), "sample",
        texts_json(asked.samples, asked.n_samples), "expect",
        paths_json(asked.expected, asked.n_samples), "hidden_files", hidden, "allow_uncovered",
        asked.allows_uncovered, "wall_ms", (json_int_t)asked.wall_ms));
    return 0;
}

/* --candidates N: each candidate has an equal share of the limits. */
static int candidates_run(struct snp_cli *cli, const struct snp_opts *opts, bool is_repair)
{
    snp_cleanup(snp_front_done) struct snp_front front;
    struct snp_run_budget budget;
    int64_t n = snp_opts_int(opts, "candidates", 1);
    struct snp_err err;

    snp_front_init(&front, cli, opts);
    if (snp_cli_config(cli, opts, &front.config, &err) < 0 ||
        snp_run_limits(&front, SNP_RUN_AGENT, &budget, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (!is_repair || n < 1 || n > SNP_RACE_MAX || budget.tokens < n) {
        return snp_cli_usage(cli,
                             "--candidates must be 1 to %d, needs --test CMD, and each candidate "
                             "needs tokens of --budget",
                             SNP_RACE_MAX);
    }
    return snp_race_run(cli, opts, (size_t)n, budget.tokens, budget.cost_usd);
}

static int agent_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *repair = NULL;
    snp_autofree char *system = NULL;
    struct snp_run_spec spec = {.kind = SNP_RUN_AGENT};
    struct snp_err err;

    if (repair_take(opts, &repair, &system, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_int(opts, "candidates", 1) != 1) {
        return candidates_run(cli, opts, repair != NULL);
    }
    spec.repair = repair;
    spec.system = system;
    return prompt_run(cli, opts, &spec);
}

const struct snp_verb snp_verb_agent = {
    .name = "agent",
    .summary = "have a model work on a task in a sandbox until it is done",
    .asks_models = true,
    .description = "Like run, in iterations. It ends with the model's final answer, or at a limit "
                   "with the answer so far. With --test the answer is final only if these tests "
                   "prove the change, as in verify; otherwise the model gets the reasons and "
                   "continues. The project does not change; apply writes the change.",
    .spec = SNP_SPEC(agent_options, agent_args),
    .examples = "agent 'Analyze all CSV files and generate a report'\n"
                "agent --max-iterations 20 --cost-limit 5 'Make the tests pass'\n"
                "agent --test 'pytest -q tests/test_parse.py' --regress 'pytest -q' 'Fix parse()'",
    .exit_codes = "0    answered; with --test: ready for human review\n"
                  "1    no answer, or only a part: a limit was reached, or the model or the "
                  "sandbox failed; with --test: not ready\n2    usage error\n"
                  "130  Ctrl-C stopped it; resume continues",
    .run = agent_run,
};

/* resume --------------------------------------------------------------------------------------- */

static const struct snp_opt resume_options[] = {
    SNP_RUNS_OPT_DIR(0),
    {"max-depth", 'd', SNP_OPT_INT, "N", "turns of the model", 0},
    {"max-calls", 0, SNP_OPT_INT, "N", "model calls of a completion", 0},
    {"max-sub-calls", 0, SNP_OPT_INT, "N", "sub-calls in one turn", 0},
    {"token-budget", 0, SNP_OPT_INT, "N", "tokens of the whole run", 0},
    {"budget", 0, SNP_OPT_INT, "N", "the same", 0},
    {"tool-budget", 0, SNP_OPT_INT, "N", "tool calls", 0},
    {"max-iterations", 'i', SNP_OPT_INT, "N", "iterations of an agent", 0},
    {"cost-limit", 0, SNP_OPT_STRING, "USD", "cost limit of the whole run, or none", 0},
    {"timeout", 0, SNP_OPT_INT, "S",
     "wall-clock limit of the whole run in seconds, including its "
     "earlier parts",
     0},
    {"recover", 0, SNP_OPT_STRING, "HOW",
     "if cells of its session are missing after a crash: ask (default), replay, checkpoint", 0},
    OPT_OUTPUT,
    SNP_RUN_TOOLS_OPTS,
    SNP_CLI_OPT_CONFIG,
    SNP_CLI_OPT_JSON,
    SNP_FRONT_OPT_EVENTS,
    SNP_FRONT_OPT_VERBOSE,
};
static const struct snp_opt_arg resume_args[] = {
    {"RUN", "id of the run, or its beginning (default: list the runs that can be resumed)", 0, 1},
};

static int budget_changes(const struct snp_opts *opts, json_t *budget, struct snp_err *err)
{
    static const struct {
        const char *option;
        const char *member;
        int64_t unit;
    } rows[] = {
        {"max-depth", "max_depth", 1},
        {"max-calls", "max_subcalls", 1},
        {"max-sub-calls", "sub_calls_max_per_turn", 1},
        {"token-budget", "token_budget", 1},
        {"budget", "token_budget", 1},
        {"tool-budget", "tool_budget", 1},
        {"max-iterations", "max_iterations", 1},
        {"timeout", "timeout_ms", MS},
    };
    double cost = -1;

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        int64_t value = snp_opts_int(opts, rows[i].option, 0);

        if (!snp_opts_given(opts, rows[i].option)) {
            continue;
        }
        if (value < 1 || value > INT64_MAX / MS) {
            return snp_fail(err, SNP_E_INVALID, "--%s must be at least 1", rows[i].option);
        }
        (void)json_object_set_new(budget, rows[i].member, json_integer(value * rows[i].unit));
    }
    if (snp_opts_given(opts, "cost-limit")) {
        if (snp_front_cost(snp_opts_str(opts, "cost-limit"), &cost, err) < 0) {
            return err->code;
        }
        (void)json_object_set_new(budget, "cost_limit", json_real(cost));
    }
    return 0;
}

static int resume_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_front_done) struct snp_front front;
    snp_autojson json_t *budget = json_object();
    snp_autofree char *path = NULL;
    struct snp_run_changes changes = {.budget = budget, .recover = snp_opts_str(opts, "recover")};
    struct snp_err err;
    int r;

    snp_front_init(&front, cli, opts);
    if (snp_opts_n_args(opts) == 0) {
        return snp_runs_tell(cli, opts, true, "resume ID");
    }
    r = budget_changes(opts, budget, &err);
    r = r < 0 ? r : snp_cli_recover_check(changes.recover, &err);
    r = r < 0 ? r : snp_front_open(&front, &err);
    r = r < 0 || cli->listener == NULL ? r : snp_front_attach(&front, &err);
    r = r < 0 ? r : snp_front_output(&front, &err);
    r = r < 0 ? r
              : snp_trajectory_find(snp_config_str(front.config, SNP_KEY_LOG_DIR),
                                    snp_opts_arg(opts, 0), &path, &err);
    if (r < 0) {
        return snp_front_fail(&front, &err);
    }
    changes.is_log_beneath = !snp_config_is_chosen(front.config, SNP_KEY_LOG_DIR);
    return snp_front_resume(&front, path, &changes);
}

const struct snp_verb snp_verb_resume = {
    .name = "resume",
    .summary = "continue an interrupted or stopped run",
    .asks_models = true,
    .description = "Continue after the last record: no answer of the model is requested "
                   "again, and no cell runs twice. Limits given here replace the original ones.",
    .spec = SNP_SPEC(resume_options, resume_args),
    .examples = "resume 3f2a\nresume 3f2a --max-depth 8",
    .exit_codes = run_codes,
    .run = resume_run,
};
