/* SPDX-License-Identifier: Apache-2.0 */
/* `runs`: list runs with their state, and stop one. Only their records are read. */
#include "cli/run/runs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/history.h"
#include "base/cli/session/list.h"
#include "base/cli/term.h"
#include "base/str.h"
#include "main/verbs.h"
#include "run/code_prompt.h"
#include "trajectory/reader.h"
#include "trajectory/writer.h"

enum {
    ID_SHOWN = 8,
    PROMPT_SHOWN = 60,
    TAIL_DEFAULT = 20,
    TAIL_MAX = 1000000,
};

static const struct snp_opt options[] = {
    SNP_RUNS_OPT_DIR('d'),
    {"names", 0, SNP_OPT_FLAG, NULL, "print only their ids, one a line", 0},
    {"tail", 'n', SNP_OPT_INT, "N", "list the newest N (default 20)", 0},
    SNP_CLI_OPT_JSON,
    SNP_CLI_OPT_CONFIG,
};
static const struct snp_opt one_options[] = {
    SNP_RUNS_OPT_DIR('d'),
    SNP_CLI_OPT_JSON,
    SNP_CLI_OPT_CONFIG,
};
static const struct snp_opt_arg one_arg[] = {
    {"RUN", "id of the run, or its beginning", 1, 1},
};

int snp_runs_folder(struct snp_cli *cli,
                    const struct snp_opts *opts,
                    char **ret,
                    struct snp_err *err)
{
    const struct snp_config *config = NULL;
    int r = snp_cli_config(cli, opts, &config, err);

    *ret = r < 0 ? NULL : snp_need_copy(snp_config_str(config, SNP_KEY_LOG_DIR));
    return r;
}

int snp_runs_find(
    struct snp_cli *cli, const struct snp_opts *opts, size_t i, char **ret, struct snp_err *err)
{
    snp_autofree char *dir = NULL;
    int r = snp_runs_folder(cli, opts, &dir, err);

    return r < 0 ? r : snp_trajectory_find(dir, snp_opts_arg(opts, i), ret, err);
}

int snp_runs_collect(void *ctx, json_t *record, struct snp_err *err)
{
    (void)err;
    (void)snp_need(json_array_append(ctx, record) < 0 ? NULL : ctx);
    return 0;
}

static json_t *info_json(const struct snp_trajectory_info *info)
{
    const json_t *end = json_object_get(info->end, "end");
    const json_t *final = json_object_get(end, "final");
    bool is_running = info->state == SNP_TRAJECTORY_RUNNING;

    return json_pack(
        "{s:s, s:s?, s:s, s:s?, s:s?, s:s?, s:I, s:I, s:I, s:O?, s:O?, s:O?, s:O?, s:o}", "id",
        info->id, "kind", snp_json_str(info->head, "kind", NULL), "state",
        snp_trajectory_state_name(info->state), "timestamp",
        snp_json_str(info->head, "timestamp", NULL), "prompt",
        snp_json_str(info->head, "prompt", NULL), "session",
        snp_json_str(info->head, "session", NULL), "calls", (json_int_t)info->calls, "tokens",
        (json_int_t)info->tokens, "duration_ms", (json_int_t)info->duration_ms, "stopped_by",
        json_object_get(end, "stopped_by"), "error", json_object_get(end, "error"), "answer",
        json_object_get(final, "answer"), "partial", json_object_get(end, "partial"), "pid",
        is_running ? json_incref(json_object_get(json_object_get(info->head, "process"), "pid"))
                   : json_null());
}

/* list ---------------------------------------------------------------------------------------- */

static void list_print(const json_t *list)
{
    static const char *const heads[] = {"ID", "Kind", "State", "Started", "Prompt"};
    struct snp_table table = SNP_TABLE(heads);

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        const char *by = snp_json_str(row, "stopped_by", NULL);

        snp_table_addf(&table, "%.*s", ID_SHOWN, snp_json_str(row, "id", ""));
        snp_table_add(&table, snp_json_str(row, "kind", ""));
        snp_table_addf(&table, "%s%s%s", snp_json_str(row, "state", ""), by == NULL ? "" : ": ",
                       by == NULL ? "" : by);
        snp_table_add(&table, snp_human_stamp(snp_json_str(row, "timestamp", "")).text);
        snp_table_addf(&table, "%.*s", PROMPT_SHOWN, snp_json_str(row, "prompt", ""));
    }
    snp_table_print(stdout, &table, "no runs");
}

/* List a folder; files that are not our runs are skipped. next: NULL = no such line. */
static int runs_tell(struct snp_cli *cli,
                     const struct snp_opts *opts,
                     int64_t tail,
                     bool resumable,
                     const char *next)
{
    snp_autofree char *dir = NULL;
    snp_autojson json_t *paths = NULL;
    snp_autojson json_t *list = json_array();
    bool names_only = next == NULL && snp_opts_flag(opts, "names", false);
    struct snp_err err;
    size_t i;
    json_t *path;
    int r = snp_runs_folder(cli, opts, &dir, &err);

    r = r < 0 ? r : snp_trajectory_list(dir, (size_t)tail, &paths, &err);
    json_array_foreach(paths, i, path)
    {
        snp_cleanup(snp_trajectory_info_done) struct snp_trajectory_info info = {0};

        if (snp_trajectory_info_read(json_string_value(path), &info, &err) < 0) {
            snp_cli_warn(cli, "%s", err.msg);
        } else if ((!resumable || snp_run_is_open(&info)) &&
                   json_object_get(info.head, "kind") != NULL) {
            (void)json_array_append_new(list, info_json(&info));
        }
    }
    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, list);
    }
    if (names_only) {
        json_array_foreach(list, i, path)
        {
            (void)printf("%.*s\n", ID_SHOWN, snp_json_str(path, "id", ""));
        }
        return SNP_EXIT_OK;
    }
    list_print(list);
    if (next == NULL) {
        snp_sessions_below(cli);
    } else if (json_array_size(list) > 0) {
        snp_cli_next(cli, next);
    }
    return SNP_EXIT_OK;
}

int snp_runs_tell(struct snp_cli *cli,
                  const struct snp_opts *opts,
                  bool resumable,
                  const char *next)
{
    return runs_tell(cli, opts, TAIL_DEFAULT, resumable, next);
}

static int list_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    int64_t tail = snp_opts_int(opts, "tail", TAIL_DEFAULT);

    return tail < 1 || tail > TAIL_MAX ? snp_cli_usage(cli, "--tail must be 1 to %d", TAIL_MAX)
                                       : runs_tell(cli, opts, tail, false, NULL);
}

static const struct snp_verb verb_list = {
    .name = "list",
    .summary = "list the newest runs and their state, and the sessions of exec",
    .spec = SNP_OPTIONS(options),
    .run = list_run,
};

/* show and cancel ------------------------------------------------------------------------------ */

static int info_find(struct snp_cli *cli,
                     const struct snp_opts *opts,
                     struct snp_trajectory_info *ret,
                     struct snp_err *err)
{
    snp_autofree char *path = NULL;
    int r = snp_runs_find(cli, opts, 0, &path, err);

    return r < 0 ? r : snp_trajectory_info_read(path, ret, err);
}

static void member_print(const char *name, const json_t *value)
{
    if (json_is_string(value)) {
        (void)printf("%-10s ", name);
        snp_term_text(stdout, json_string_value(value), json_string_length(value), 11);
        (void)putchar('\n');
    } else if (json_is_integer(value)) {
        (void)printf("%-10s %lld\n", name, (long long)json_integer_value(value));
    }
}

static int show_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    static const char *const members[][2] = {
        {"id", "Run"},          {"kind", "Kind"},
        {"state", "State"},     {"stopped_by", "Stopped by"},
        {"error", "Error"},     {"timestamp", "Started"},
        {"session", "Session"}, {"pid", "Process"},
        {"calls", "Calls"},     {"tokens", "Tokens"},
        {"prompt", "Prompt"},   {"answer", "Answer"},
        {"partial", "So far"},
    };
    snp_cleanup(snp_trajectory_info_done) struct snp_trajectory_info info = {0};
    snp_autojson json_t *shown = NULL;
    struct snp_err err;

    int r = info_find(cli, opts, &info, &err);

    if (r == SNP_E_NOT_FOUND && !cli->is_json &&
        snp_history_tell(cli, snp_opts_arg(opts, 0)) == 0) {
        return SNP_EXIT_OK;
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    shown = info_json(&info);
    if (cli->is_json) {
        return snp_cli_print_json(shown);
    }
    (void)json_object_set_new(
        shown, "timestamp",
        json_string(snp_human_stamp(snp_json_str(shown, "timestamp", "")).text));
    for (size_t i = 0; i < SNP_ARRAY_LEN(members); i++) {
        member_print(members[i][1], json_object_get(shown, members[i][0]));
    }
    return SNP_EXIT_OK;
}

static const struct snp_verb verb_show = {
    .name = "show",
    .summary = "show the state of one run, or the cells of a session",
    .spec = SNP_SPEC(one_options, one_arg),
    .run = show_run,
};

static int cancel_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_trajectory_info_done) struct snp_trajectory_info info = {0};
    struct snp_err err;
    int r = info_find(cli, opts, &info, &err);

    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    r = snp_trajectory_stop(info.path, json_object_get(info.head, "process"), SIGTERM, &err);
    if (r < 0) {
        (void)snp_err_wrap(&err, "run %.8s (%s)", info.id, snp_trajectory_state_name(info.state));
        return snp_cli_fail(cli, &err);
    }
    if (cli->is_json) {
        snp_autojson json_t *answer = json_pack("{s:s, s:b}", "id", info.id, "cancelled", 1);

        return snp_cli_print_json(answer);
    }
    (void)printf("Stopping run %s\n", info.id);
    return SNP_EXIT_OK;
}

static const struct snp_verb verb_cancel = {
    .name = "cancel",
    .summary = "stop a running run; resume continues it",
    .spec = SNP_SPEC(one_options, one_arg),
    .run = cancel_run,
};

static const struct snp_opt call_options[] = {
    {"wait", 0, SNP_OPT_INT, "S", "wait for its end for at most S seconds (limit 3600)", 0},
    {"cancel", 0, SNP_OPT_FLAG, NULL, "stop it", 0},
    {"kill", 0, SNP_OPT_FLAG, NULL, "with --cancel: kill it if it does not stop within 5 s", 0},
};
static const struct snp_opt_arg call_args[] = {
    {"DIR", "folder of the records", 1, 1},
    {"RUN", "id of the run, or its beginning", 1, 1},
};
static const struct snp_verb verb_call = {
    .name = "call",
    .summary = "answer a tool call about a run",
    .description = "Answer a call of snipara_agent_status or snipara_agent_cancel, as mcp-serve "
                   "does. Text of models and sandboxes is bounded and cleaned.",
    .spec = SNP_SPEC(call_options, call_args),
    .examples = "runs call logs 1a2b3c4d --wait 30",
    .run = snp_runs_call,
};

static const struct snp_verb *const verbs[] = {&verb_list, &verb_show, &verb_cancel, &verb_call,
                                               NULL};

const struct snp_verb snp_verb_runs = {
    .name = "runs",
    .summary = "list runs, show one, stop one",
    .verbs = verbs,
    .fallback = &verb_list,
};
