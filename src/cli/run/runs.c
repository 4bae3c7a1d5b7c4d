/* SPDX-License-Identifier: Apache-2.0 */
/* `runs`: what runs there are, in which state, and stopping one. Their records are read, nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/show/human.h"
#include "cli/show/term.h"
#include "run/plain.h"
#include "trajectory/reader.h"
#include "trajectory/writer.h"

enum {
    COLUMNS = 5,
    ID_SHOWN = 8,
    PROMPT_SHOWN = 60,
    TAIL_DEFAULT = 20,
    TAIL_MAX = 1000000,
    TEXT_MAX_BYTES = 300,
};

static const struct snp_opt options[] = {
    {"dir",  'd', SNP_OPT_STRING, "DIR", "folder of the records (default: ./logs)",
     SNP_KEY_LOG_DIR                                                                 },
    {"tail", 'n', SNP_OPT_INT,    "N",   "list the newest N (default 20)",          0},
    SNP_CLI_OPT_JSON,
    SNP_CLI_OPT_CONFIG,
};
static const struct snp_opt one_options[] = {
    {"dir", 'd', SNP_OPT_STRING, "DIR", "folder of the records (default: ./logs)",
     SNP_KEY_LOG_DIR},
    SNP_CLI_OPT_JSON,
    SNP_CLI_OPT_CONFIG,
};
static const struct snp_opt_arg one_arg[] = {
    {"RUN", "id of the run, or its beginning", 1, 1},
};

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

/* Each of the folder's runs as info_json gives it; what is no run of ours is left out. */
static int runs_read(
    struct snp_cli *cli, const json_t *paths, bool resumable, json_t *list, struct snp_err *err)
{
    size_t i;
    json_t *path;

    json_array_foreach((json_t *)(uintptr_t)paths, i, path)
    {
        snp_cleanup(snp_trajectory_info_done) struct snp_trajectory_info info = {0};
        struct snp_err why;

        if (snp_trajectory_info_read(json_string_value(path), &info, &why) < 0) {
            snp_cli_warn(cli, "%s", why.msg);
            continue;
        }
        if (resumable && !snp_run_is_open(&info)) {
            continue;
        }
        if (json_object_get(info.head, "kind") != NULL &&
            json_array_append_new(list, info_json(&info)) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    return 0;
}

static void list_print(const json_t *list)
{
    static const char *const heads[COLUMNS] = {"ID", "Kind", "State", "Started", "Prompt"};
    size_t n = json_array_size(list);
    snp_autofree char(*texts)[COLUMNS][TEXT_MAX_BYTES] = calloc(n + 1, sizeof(*texts));
    snp_autofree const char **cells = calloc((n + 1) * COLUMNS, sizeof(*cells));
    const struct snp_table table = {
        .heads = heads, .n_cols = COLUMNS, .cells = cells, .n_rows = n};

    if (n == 0 || texts == NULL || cells == NULL) {
        (void)puts("no runs");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(list, i);
        const char *by = snp_json_str(row, "stopped_by", NULL);

        (void)snprintf(texts[i][0], TEXT_MAX_BYTES, "%.*s", ID_SHOWN,
                       snp_json_str(row, "id", ""));
        (void)snprintf(texts[i][1], TEXT_MAX_BYTES, "%.20s", snp_json_str(row, "kind", ""));
        (void)snprintf(texts[i][2], TEXT_MAX_BYTES, "%s%s%.40s", snp_json_str(row, "state", ""),
                       by == NULL ? "" : ": ", by == NULL ? "" : by);
        (void)snp_human_stamp(snp_json_str(row, "timestamp", ""), texts[i][3], TEXT_MAX_BYTES);
        (void)snprintf(texts[i][4], TEXT_MAX_BYTES, "%.*s", PROMPT_SHOWN,
                       snp_json_str(row, "prompt", ""));
        for (size_t k = 0; k < COLUMNS; k++) {
            cells[i * COLUMNS + k] = texts[i][k];
        }
    }
    snp_table_print(stdout, &table);
}

static int runs_tell(struct snp_cli *cli,
                     const char *dir,
                     int64_t tail,
                     bool resumable,
                     bool is_json,
                     size_t *ret_n)
{
    snp_autojson json_t *paths = NULL;
    snp_autojson json_t *list = json_array();
    struct snp_err err;
    int r = snp_trajectory_list(dir, (size_t)tail, &paths, &err);

    r = r < 0 ? r : runs_read(cli, paths, resumable, list, &err);
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    *ret_n = json_array_size(list);
    if (is_json) {
        return snp_cli_print_json(list);
    }
    list_print(list);
    return SNP_EXIT_OK;
}

int snp_runs_tell(
    struct snp_cli *cli, const char *dir, bool resumable, bool is_json, const char *next)
{
    size_t n = 0;
    int exit_code = runs_tell(cli, dir, TAIL_DEFAULT, resumable, is_json, &n);

    if (exit_code == SNP_EXIT_OK && !is_json && n > 0) {
        snp_cli_next(cli, next);
    }
    return exit_code;
}

static const struct snp_verb verb_list;

static int list_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoconfig struct snp_config *config = NULL;
    size_t n = 0;
    int64_t tail = snp_opts_int(opts, "tail", TAIL_DEFAULT);
    struct snp_err err;
    int r = snp_cli_config(cli, &verb_list, opts, &config, &err);

    if (tail < 1 || tail > TAIL_MAX) {
        return snp_cli_usage(cli, "--tail is 1 to %d", TAIL_MAX);
    }
    return r < 0 ? snp_cli_fail(cli, &err)
                 : runs_tell(cli, snp_config_str(config, SNP_KEY_LOG_DIR), tail, false,
                             snp_opts_flag(opts, "json", false), &n);
}

static const struct snp_verb verb_list = {
    .name = "list",
    .summary = "list the newest runs and their state",
    .spec = {options, SNP_ARRAY_LEN(options), NULL, 0, false},
    .run = list_run,
};

/* show and cancel ------------------------------------------------------------------------------- */

static int info_find(struct snp_cli *cli,
                     const struct snp_verb *verb,
                     const struct snp_opts *opts,
                     struct snp_trajectory_info *ret,
                     struct snp_err *err)
{
    snp_autoconfig struct snp_config *config = NULL;
    snp_autofree char *path = NULL;
    int r = snp_cli_config(cli, verb, opts, &config, err);

    r = r < 0 ? r
              : snp_trajectory_find(snp_config_str(config, SNP_KEY_LOG_DIR),
                                    snp_opts_arg(opts, 0), &path, err);
    return r < 0 ? r : snp_trajectory_info_read(path, ret, err);
}

static void member_print(const char *name, const json_t *value)
{
    if (json_is_string(value)) {
        (void)printf("%-10s ", name);
        (void)!snp_term_write(stdout, json_string_value(value), json_string_length(value));
        (void)putchar('\n');
    } else if (json_is_integer(value)) {
        (void)printf("%-10s %lld\n", name, (long long)json_integer_value(value));
    }
}

static const struct snp_verb verb_show;

static int show_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    static const char *const members[][2] = {
        {"id",         "Run"       },
        {"kind",       "Kind"      },
        {"state",      "State"     },
        {"stopped_by", "Stopped by"},
        {"error",      "Error"     },
        {"timestamp",  "Started"   },
        {"session",    "Session"   },
        {"pid",        "Process"   },
        {"calls",      "Calls"     },
        {"tokens",     "Tokens"    },
        {"prompt",     "Prompt"    },
        {"answer",     "Answer"    },
        {"partial",    "So far"    },
    };
    snp_cleanup(snp_trajectory_info_done) struct snp_trajectory_info info = {0};
    snp_autojson json_t *shown = NULL;
    char when[SNP_HUMAN_MAX];
    struct snp_err err;

    if (info_find(cli, &verb_show, opts, &info, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    shown = info_json(&info);
    if (snp_opts_flag(opts, "json", false)) {
        return snp_cli_print_json(shown);
    }
    (void)json_object_set_new(
        shown, "timestamp",
        json_string(snp_human_stamp(snp_json_str(shown, "timestamp", ""), when, sizeof(when))));
    for (size_t i = 0; i < SNP_ARRAY_LEN(members); i++) {
        member_print(members[i][1], json_object_get(shown, members[i][0]));
    }
    return SNP_EXIT_OK;
}

static const struct snp_verb verb_show = {
    .name = "show",
    .summary = "the state of one run",
    .spec = {one_options, SNP_ARRAY_LEN(one_options), one_arg, SNP_ARRAY_LEN(one_arg), false},
    .run = show_run,
};

static const struct snp_verb verb_cancel;

static int cancel_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_trajectory_info_done) struct snp_trajectory_info info = {0};
    struct snp_err err;
    int r = info_find(cli, &verb_cancel, opts, &info, &err);

    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    r = snp_trajectory_stop(info.path, json_object_get(info.head, "process"), &err);
    if (r < 0) {
        (void)snp_err_wrap(&err, "run %.8s (%s)", info.id,
                           snp_trajectory_state_name(info.state));
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "json", false)) {
        snp_autojson json_t *answer = json_pack("{s:s, s:b}", "id", info.id, "cancelled", 1);

        return snp_cli_print_json(answer);
    }
    (void)printf("Stopping run %s\n", info.id);
    return SNP_EXIT_OK;
}

static const struct snp_verb verb_cancel = {
    .name = "cancel",
    .summary = "stop a running run; resume continues it",
    .spec = {one_options, SNP_ARRAY_LEN(one_options), one_arg, SNP_ARRAY_LEN(one_arg), false},
    .run = cancel_run,
};

static const struct snp_verb *const verbs[] = {&verb_list, &verb_show, &verb_cancel, NULL};

const struct snp_verb snp_verb_runs = {
    .name = "runs",
    .summary = "list runs, show one, stop one",
    .verbs = verbs,
    .fallback = &verb_list,
};
