/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `exec`: one cell of Python or one command, in a new sandbox or in a named session.
 *
 * Output of the code goes to our standard output and error as it arrives; our messages go to
 * standard error, on separate lines.
 */
#include "base/wire/exec.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/cli/input.h"
#include "base/cli/need.h"
#include "base/cli/project_dir.h"
#include "base/cli/session/remote.h"
#include "base/cli/session/result.h"
#include "base/cli/term.h"
#include "base/policy/session_name.h"
#include "base/policy/template_name.h"
#include "base/project/project.h"
#include "base/registry/registry.h"
#include "base/rundir.h"
#include "base/session/policy.h"
#include "base/session/tier.h"
#include "base/str.h"
#include "base/wire/result.h"
#include "cli/cli.h"
#include "cli/setup/rootfs.h"

enum {
    INPUT_MAX = 15 << 20, /* code and standard input together; a frame has 16 MiB */
};

static const struct snp_opt options[] = {
    {"file", 'f', SNP_OPT_STRING, "FILE", "read the code from FILE", 0},
    {"session", 's', SNP_OPT_STRING, "NAME",
     "run in this session, and keep it; created if it does not exist", 0},
    {"env", 'e', SNP_OPT_STRING, "TIER",
     "tier: native, docker, local (weaker), or auto (default): the strongest available",
     SNP_KEY_ENVIRONMENT},
    {"template", 0, SNP_OPT_STRING, "NAME",
     "template of a new session: base, data (numpy, pandas), plot (matplotlib), or one that you "
     "added",
     SNP_KEY_TEMPLATE},
    SNP_CLI_OPT_LIMITS,
    {"project", 0, SNP_OPT_STRING, "DIR", "folder shown at /workspace; changes stay in the sandbox",
     0},
    {"rootfs", 0, SNP_OPT_STRING, "DIR|TAR",
     "root file system to use instead of this machine's /usr", 0},
    {"sh", 0, SNP_OPT_FLAG, NULL, "CODE is a shell line, not Python", 0},
    {"detach", 'd', SNP_OPT_FLAG, NULL,
     "start the command as a process that runs beside the session's cells; see ps, attach, kill",
     0},
    {"check", 0, SNP_OPT_FLAG, NULL,
     "exit with the code of a failed ! line or %%bash cell, even if the Python code succeeded", 0},
    {"stdin", 0, SNP_OPT_STRING, "FILE",
     "standard input of the code; - passes on the standard input of this command", 0},
    {"open-stdin", 0, SNP_OPT_FLAG, NULL,
     "with --detach: keep standard input open, for attach --stdin", 0},
    {"set-env", 0, SNP_OPT_LIST, "NAME=VALUE", "a variable for the code (repeatable)", 0},
    {"pass-env", 0, SNP_OPT_LIST, "NAME", "pass your variable NAME to the code (repeatable)", 0},
    {"allow-degraded", 0, SNP_OPT_FLAG, NULL,
     "run even if this host lacks a control; the result names it", 0},
    {"require-exact", 0, SNP_OPT_BOOL, NULL,
     "refuse if a control or limit is missing or only approximate here (memory, for example)",
     SNP_KEY_REQUIRE_EXACT},
    {"transaction", 0, SNP_OPT_BOOL, NULL,
     "in a session, undo the effects of code that is killed (default)", SNP_KEY_TRANSACTION},
    {"atomic", 0, SNP_OPT_FLAG, NULL,
     "also undo the effects of code that fails; if that is impossible, refuse to run it", 0},
    {"durability", 0, SNP_OPT_STRING, "HOW",
     "what a returned result survives: synced (a power cut), process (a crash of the daemon)",
     SNP_KEY_DURABILITY},
    {"checkpoint", 0, SNP_OPT_STRING, "WHEN",
     "when the session is saved: idle (soon after the last cell), after (each answer), cell "
     "(before each answer), off",
     SNP_KEY_CHECKPOINT},
    {"recover", 0, SNP_OPT_STRING, "HOW",
     "if cells are missing after a crash: ask (fail and list them; default), replay (run them "
     "again first), skip (like replay, except for cells that failed in an earlier replay), "
     "checkpoint (continue without them)",
     0},
    {"stream", 0, SNP_OPT_BOOL, NULL, "show output as it comes (default), or at the end", 0},
    {"display-dir", 0, SNP_OPT_STRING, "DIR", "save displayed images and HTML as files", 0},
    {"quiet", 'q', SNP_OPT_FLAG, NULL,
     "print only how the code ended, not denials, files and degraded controls", 0},
    SNP_CLI_OPT_CONFIG,
    SNP_CLI_OPT_JSON,
};

static const struct snp_opt_arg args[] = {
    {"CODE",
     "Python (or a shell line with --sh); - reads it from standard input; after -- a command "
     "and its arguments; after --file its arguments (after -- if they look like options)",
     0, 0},
};

/* State of one run; ownership as marked. */
struct exec_job {
    struct snp_cli *cli;
    const struct snp_opts *opts;
    const struct snp_verb *verb;
    const struct snp_config *config; /* borrowed */
    bool is_command;
    bool is_detached;
    json_t *argv; /* owned, or NULL */
    char *raw;    /* owned: code, then standard input */
    size_t code_len;
    size_t raw_len;
    bool has_stdin;
    json_t *head;                     /* owned */
    json_t *not_applied;              /* owned: of the result */
    char tier[SNP_TIER_NAME_MAX + 1]; /* in which the code ran */
};

static void job_done(struct exec_job *job)
{
    json_decref(job->argv);
    json_decref(job->head);
    json_decref(job->not_applied);
    free(job->raw);
}

/* What to run ------------------------------------------------------------------------------ */

/* Append all positionals to job->argv. */
static int words_take(struct exec_job *job, struct snp_err *err)
{
    const char *const *words = snp_opts_args(job->opts);

    for (size_t i = 0; i < snp_opts_n_args(job->opts); i++) {
        if (!snp_utf8_valid(words[i], strlen(words[i]))) {
            return snp_fail(err, SNP_E_INVALID, "argument %zu is not UTF-8", i + 1);
        }
        (void)json_array_append_new(job->argv, json_string(words[i]));
    }
    return 0;
}

static int command_take(struct exec_job *job, struct snp_err *err)
{
    job->is_command = true;
    job->argv = json_array();
    return words_take(job, err);
}

static int shell_take(struct exec_job *job, const char *text, size_t len, struct snp_err *err)
{
    if (strlen(text) != len) {
        return snp_fail(err, SNP_E_INVALID, "a shell line cannot contain a NUL byte");
    }
    job->is_command = true;
    job->argv = snp_need(json_pack("[s, s, o]", "/bin/sh", "-c", snp_json_bytes(text, len)));
    return 0;
}

/* Take the words after --file FILE: FILE is argument 0, as for a script. */
static int script_args_take(struct exec_job *job, const char *file, struct snp_err *err)
{
    if (job->argv == NULL) {
        job->argv = json_array();
    }
    (void)json_array_append_new(job->argv, snp_json_bytes(file, strlen(file)));
    return words_take(job, err);
}

/* "exec script.py" does not run a file: as code it is an attribute of a variable. */
static bool is_script(const struct exec_job *job)
{
    const char *text = snp_opts_n_args(job->opts) > 0 ? snp_opts_arg(job->opts, 0) : "";

    return !snp_opts_flag(job->opts, "sh", false) && snp_has_suffix(text, ".py") &&
           access(text, R_OK) == 0;
}

/* The source of the code; NULL in *ret_path: it is *ret_text. */
static int source_find(const struct exec_job *job,
                       const char **ret_path,
                       const char **ret_text,
                       struct snp_err *err)
{
    const char *file = snp_opts_str(job->opts, "file");
    size_t n = snp_opts_n_args(job->opts);

    if (file == NULL && n == 0) {
        return snp_fail(err, SNP_E_INVALID,
                        "nothing to run: give CODE, --file FILE, - or -- COMMAND");
    }
    if (file == NULL && is_script(job)) {
        return snp_fail(err, SNP_E_INVALID, "'%.200s' is a file, not code; run it with --file",
                        snp_opts_arg(job->opts, 0));
    }
    if (file == NULL && n > 1) {
        return snp_fail(err, SNP_E_INVALID,
                        "CODE is one argument; quote it, or put -- before a command");
    }
    *ret_path = file;
    *ret_text = NULL;
    if (file == NULL) {
        *ret_text = snp_opts_arg(job->opts, 0);
        *ret_path = strcmp(*ret_text, "-") == 0 ? "-" : NULL;
    }
    return 0;
}

static int code_take(struct exec_job *job, struct snp_err *err)
{
    const char *file = snp_opts_str(job->opts, "file");
    const char *path = NULL;
    const char *text = "";
    snp_autofree char *read = NULL;
    size_t len = 0;
    size_t before = 0;
    int r;

    if (file == NULL && snp_opts_dashes(job->opts, &before) &&
        snp_opts_n_args(job->opts) > before) {
        if (before > 0 || snp_opts_flag(job->opts, "sh", false)) {
            return snp_fail(err, SNP_E_INVALID, "give either code or a command after --, not both");
        }
        return command_take(job, err);
    }
    r = source_find(job, &path, &text, err);
    if (r < 0) {
        return r;
    }
    if (path != NULL && strcmp(path, "-") == 0 &&
        snp_streq(snp_opts_str(job->opts, "stdin"), "-")) {
        return snp_fail(err, SNP_E_INVALID,
                        "code and --stdin cannot both come from standard input");
    }
    if (path != NULL) {
        r = snp_read_input(path, INPUT_MAX, &read, &len, err);
        if (r < 0) {
            return r;
        }
        text = read == NULL ? "" : read;
    } else {
        len = strlen(text);
    }
    if (snp_opts_flag(job->opts, "sh", false)) {
        r = shell_take(job, text, len, err);
        return r == 0 && file != NULL ? script_args_take(job, file, err) : r;
    }
    if (file != NULL) {
        r = script_args_take(job, file, err);
        if (r < 0) {
            return r;
        }
    }
    job->raw = read != NULL ? SNP_TAKE_PTR(read) : snp_need_copy(text);
    job->raw_len = len;
    job->code_len = len;
    return 0;
}

static int stdin_take(struct exec_job *job, struct snp_err *err)
{
    const char *path = snp_opts_str(job->opts, "stdin");
    snp_autofree char *input = NULL;
    size_t len = 0;
    int r;

    if (path == NULL) {
        return 0;
    }
    r = snp_read_input(path, INPUT_MAX - job->raw_len, &input, &len, err);
    if (r < 0) {
        return snp_err_wrap(err, "--stdin");
    }
    SNP_ASSERT(input != NULL);
    job->raw = snp_need(realloc(job->raw, job->raw_len + len + 1));
    memcpy(job->raw + job->raw_len, input, len);
    job->raw_len += len;
    job->has_stdin = true;
    return 0;
}

/* How to run it ------------------------------------------------------------------------------ */

static int project_find(const struct exec_job *job, char **ret_path, struct snp_err *err)
{
    const char *dir = snp_opts_str(job->opts, "project");

    return dir == NULL ? 0 : snp_project_shown(dir, "--project", ret_path, err);
}

/* The workspace of a new session without --project: from the configuration. */
static int workspace_find(const struct exec_job *job, json_t *defaults, struct snp_err *err)
{
    const char *dir = snp_cli_workspace(job->config, snp_json_str(defaults, "tier", NULL), NULL);
    snp_autofree char *path = NULL;
    int r;

    if (dir == NULL || snp_opts_str(job->opts, "project") != NULL) {
        return 0;
    }
    r = snp_project_shown(dir, "docker_workspace_path", &path, err);
    if (r < 0 && snp_config_str(job->config, SNP_KEY_DOCKER_WORKSPACE_PATH) == NULL) {
        snp_cli_warn(job->cli, "no project: %s", err->msg);
        return 0;
    }
    return r < 0 ? r
           : json_object_set_new(defaults, "project", json_string(path)) < 0
               ? snp_fail(err, SNP_E_INVALID, "the project's path is not UTF-8")
               : 0;
}

/* A folder or archive with another file system; links resolved, unpacked if necessary. */
static int rootfs_find(const struct exec_job *job, char **ret_path, struct snp_err *err)
{
    const char *given = snp_opts_str(job->opts, "rootfs");
    snp_autofree char *state = NULL;
    int r;

    if (given == NULL) {
        *ret_path = NULL;
        return 0;
    }
    r = snp_state_dir(&state, err);
    return r < 0 ? r : snp_rootfs_folder(given, state, ret_path, err);
}

static int env_add(
    json_t *env, const char *name, size_t name_len, const char *value, struct snp_err *err)
{
    snp_autofree char *key = snp_need(strndup(name, name_len));

    return json_object_set_new(env, key, snp_json_bytes(value, strlen(value))) < 0
               ? snp_fail(err, SNP_E_INVALID, "'%s' is not a valid variable name", key)
               : 0;
}

static int env_collect(const struct exec_job *job, json_t *env, struct snp_err *err)
{
    const char *const *items = NULL;
    size_t n = snp_opts_list(job->opts, "pass-env", &items);
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        const char *value = snp_config_env_any(job->config, items[i]);

        if (value == NULL) {
            return snp_fail(err, SNP_E_NOT_FOUND, "--pass-env: %s is not set", items[i]);
        }
        r = env_add(env, items[i], strlen(items[i]), value, err);
    }
    n = snp_opts_list(job->opts, "set-env", &items);
    for (size_t i = 0; i < n && r == 0; i++) {
        const char *equals = strchr(items[i], '=');

        if (equals == NULL || equals == items[i]) {
            return snp_fail(err, SNP_E_INVALID, "--set-env needs NAME=VALUE, not '%s'", items[i]);
        }
        r = env_add(env, items[i], (size_t)(equals - items[i]), equals + 1, err);
    }
    return r;
}

static int head_make(struct exec_job *job, struct snp_err *err)
{
    const char *session = snp_opts_str(job->opts, "session");
    bool has_template = snp_config_origin(job->config, SNP_KEY_TEMPLATE) == SNP_ORIGIN_CLI;
    bool has_checkpoint = snp_config_origin(job->config, SNP_KEY_CHECKPOINT) != SNP_ORIGIN_DEFAULT;
    bool has_tier = snp_config_origin(job->config, SNP_KEY_ENVIRONMENT) == SNP_ORIGIN_CLI;
    const char *tier =
        session == NULL ? snp_cli_tier(job->config) : snp_cli_tier_to_stay(job->config);
    snp_autofree char *project = NULL;
    snp_autofree char *rootfs = NULL;
    snp_autojson json_t *env = json_object();
    snp_autojson json_t *limits = snp_config_limits_explicit(job->config);
    snp_autojson json_t *defaults = NULL;
    int r = 0;

    if (session != NULL) {
        r = snp_session_name_check(session, err);
        r = r < 0 ? snp_err_wrap(err, "--session '%.80s'", session) : 0;
    }
    r = r < 0 ? r : snp_cli_tier_check(job->config, err);
    r = r < 0 ? r : snp_cli_template_check(job->config, err);
    r = r < 0 ? r : project_find(job, &project, err);
    r = r < 0 ? r : rootfs_find(job, &rootfs, err);
    r = r < 0 ? r : env_collect(job, env, err);
    if (r < 0) {
        return r;
    }
    r = snp_cli_session_defaults(job->config, tier, true, &defaults, err);
    r = r < 0 ? r : workspace_find(job, defaults, err);
    if (r < 0) {
        return r;
    }
    job->head = SNP_WRITE(
        snp_exec_request, .session = session,
        .kind = job->is_detached  ? "process"
                : job->is_command ? "command"
                                  : "python",
        .code_len = job->code_len, .stdin = job->has_stdin,
        .open_stdin = snp_opts_flag(job->opts, "open-stdin", false), .argv = job->argv,
        .tell_wait =
            session != NULL && !snp_opts_flag(job->opts, "quiet", false) && !job->cli->is_json,
        .tier = has_tier ? tier : NULL,
        .template = has_template ? snp_config_str(job->config, SNP_KEY_TEMPLATE) : NULL,
        .limits = limits, .defaults = defaults, .project = project, .rootfs = rootfs, .env = env,
        .allow_degraded = snp_opts_flag(job->opts, "allow-degraded", false),
        .require_exact = snp_config_bool(job->config, SNP_KEY_REQUIRE_EXACT),
        .stream = snp_opts_flag(job->opts, "stream", true) && !job->cli->is_json,
        .transaction = snp_config_bool(job->config, SNP_KEY_TRANSACTION),
        .atomic = snp_opts_flag(job->opts, "atomic", false),
        .durability = snp_config_str(job->config, SNP_KEY_DURABILITY),
        .checkpoint = has_checkpoint ? snp_config_str(job->config, SNP_KEY_CHECKPOINT) : NULL,
        .recover = snp_opts_str(job->opts, "recover"));
    /* A folder name that is not UTF-8 cannot be represented in JSON. */
    return job->head == NULL ? snp_fail(err, SNP_E_INVALID, "the request cannot be written as JSON")
                             : 0;
}

/* Print the name of a started process, and how to continue with it. */
static void process_tell(const struct exec_job *job, const json_t *head)
{
    SNP_READ(snp_result, result, head);
    const char *session = snp_opts_str(job->opts, "session");

    if (!snp_streq(result.status, "ok")) {
        return; /* the error was printed */
    }
    (void)printf("%s:%" PRIu64 "\n", session, result.cell);
    (void)fflush(stdout);
    if (!snp_opts_flag(job->opts, "quiet", false)) {
        snp_term_printf(stderr, "started; for its output: %s attach %s:%" PRIu64 "\n",
                        job->cli->program, session, result.cell);
    }
}

/* Running --------------------------------------------------------------------------------- */

static int job_run(struct exec_job *job, struct snp_view *view, int *ret_exit, struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    snp_autojson json_t *result = NULL;
    const struct snp_call call = {
        .head = job->head,
        .raw = job->raw,
        .raw_len = job->raw_len,
        .event = snp_view_event,
        .ctx = view,
    };
    int r;

    job->cli->takes_signals = true;
    r = snp_remote_send(job->cli, &call, &reply, err);
    if (r < 0) {
        return r;
    }
    *ret_exit = snp_result_exit(reply.head, job->is_command ? SNP_EXIT_OF_COMMAND
                                            : snp_opts_flag(job->opts, "check", false)
                                                ? SNP_EXIT_OF_SHELL_LINES
                                                : SNP_EXIT_OF_PYTHON);
    job->not_applied = json_incref(json_object_get(reply.head, "not_applied"));
    (void)snprintf(job->tier, sizeof(job->tier), "%s",
                   snp_json_str(json_object_get(reply.head, "manifest"), "tier", ""));
    if (view->is_live) {
        if (snp_view_finish(view, reply.head) < 0 && *ret_exit == 0) {
            *ret_exit = SNP_EXIT_FAILED;
        }
        if (job->is_detached) {
            process_tell(job, reply.head);
        }
        return 0;
    }
    result = snp_view_result(view, reply.head);
    if (view->display_dir != NULL && snp_view_save(view, reply.head, err) < 0) {
        return err->code;
    }
    return snp_cli_print_json(result) == SNP_EXIT_OK
               ? 0
               : snp_fail(err, SNP_E_SYS, "standard output is closed");
}

/* Refuse combinations of options that have no meaning. */
static int options_check(const struct snp_opts *opts, struct snp_err *err)
{
    static const char *const of_sessions[] = {"atomic", "durability", "checkpoint", "recover",
                                              "detach"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(of_sessions); i++) {
        if (snp_opts_str(opts, "session") == NULL && snp_opts_given(opts, of_sessions[i])) {
            return snp_fail(err, SNP_E_INVALID,
                            "--%s needs --session: without one, nothing is kept after the code "
                            "ends",
                            of_sessions[i]);
        }
    }
    if (snp_opts_flag(opts, "open-stdin", false) &&
        (!snp_opts_flag(opts, "detach", false) || snp_opts_given(opts, "stdin"))) {
        return snp_fail(err, SNP_E_INVALID, "--open-stdin needs --detach, and excludes --stdin");
    }
    if (snp_opts_flag(opts, "atomic", false) && !snp_opts_flag(opts, "transaction", true)) {
        return snp_fail(err, SNP_E_INVALID,
                        "--atomic needs the transaction that --no-transaction turns off");
    }
    return snp_cli_recover_check(snp_opts_str(opts, "recover"), err);
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(job_done) struct exec_job job = {.cli = cli, .opts = opts};
    const char *session = snp_opts_str(opts, "session");
    struct snp_view view;
    struct snp_err err;
    int exit_code = SNP_EXIT_FAILED;
    int r = options_check(opts, &err);

    r = r < 0 ? r : code_take(&job, &err);
    job.is_detached = snp_opts_flag(opts, "detach", false);
    if (r == 0 && job.is_detached && !job.is_command) {
        r = snp_fail(&err, SNP_E_INVALID,
                     "--detach runs a command: add --sh, or put -- before a command; Python code "
                     "runs in the session's interpreter, one cell after the other");
    }
    if (r == SNP_E_INVALID) {
        return snp_cli_usage(cli, "%s", err.msg);
    }
    r = r < 0 ? r : snp_cli_config(cli, opts, &job.config, &err);
    r = r < 0 ? r : stdin_take(&job, &err);
    r = r < 0 ? r : head_make(&job, &err);
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    snp_view_init(&view, !cli->is_json, snp_opts_str(opts, "display-dir"));
    view.is_quiet = snp_opts_flag(opts, "quiet", false);
    view.argv = job.is_command ? job.argv : NULL;
    r = job_run(&job, &view, &exit_code, &err);
    if (r == 0 && !view.is_quiet &&
        !snp_cli_not_applied(cli, job.config, session, job.not_applied)) {
        snp_cli_tier_notice(cli, job.config, job.tier);
    }
    snp_view_done(&view);
    return r < 0 ? snp_cli_fail(cli, &err) : exit_code;
}

const struct snp_verb snp_verb_exec = {
    .name = "exec",
    .summary = "run Python or a command in a sandbox",
    .description = "Run Python code, or a command, isolated by the kernel: no network, none of "
                   "your files, limited memory and time.\n"
                   "Without --session the sandbox ends with the code. With it, variables and files "
                   "stay for the next call. Ctrl-C interrupts the code; a second one stops waiting "
                   "for it.",
    .spec = SNP_SPEC(options, args),
    .examples = "exec 'print(6 * 7)'\n"
                "exec --session work -f load.py data.csv\n"
                "exec --session work 'df.describe()'\n"
                "exec --project . --sh 'python3 -m pytest -q'\n"
                "exec --memory 1g --timeout 60 -- python3 script.py",
    .exit_codes = "0    the code finished\n"
                  "1    the code raised, was stopped by a limit, or could not be run\n"
                  "2    usage error\n"
                  "130  Ctrl-C stopped it\n"
                  "sys.exit(N): N. A command (--sh, --): its exit code, 128 + N if signal N "
                  "ended it, 124 if it timed out.",
    .run = run,
};
