/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `doctor`: what this host can do, what it lacks, what that costs and how to get it.
 * Everything is a row; it fails only where exec would.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/rundir.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/show/human.h"
#include "cli/show/term.h"
#include "cli/tier.h"
#include "wire/rpc.h"
#include "wire/session.h"

enum {
    COLUMNS = 3,
    ROWS_MAX = 300,
    PATH_TEXT_MAX = 64 << 10,
    TIERS_MAX = 64, /* looked at */
};

enum {
    EVENTS_MAX = 20,                 /* of the journal, with --json */
    LOSS_SECONDS = 7 * 24 * 60 * 60, /* so long a loss is warned of */
};

enum check_state {
    CHECK_OK = 0,
    CHECK_MISSING, /* works without it, at a cost */
    CHECK_FAILED,  /* nothing runs */
    CHECK_WARNING, /* something was lost not long ago */
};

/* The checks collected so far, as they are printed with --json. */
struct report {
    json_t *checks; /* owned */
    char tier_name[SNP_TIER_NAME_MAX + 1];
    const char *tier;             /* that exec takes here; NULL: the configuration is refused */
    bool usable;                  /* it runs */
    struct snp_tier_files *tiers; /* borrowed, the strongest first */
    bool works[TIERS_MAX];        /* each of them, on this host */
};

static const struct {
    const char *program;
    const char *detail;
    const char *cost;
    const char *fix;
} tools[] = {
    {"python3", "interpreter of the sandboxes", "no Python cells",                 "apt-get install python3"                },
    {"git",     "version control of projects",  "projects have no history inside",
     "apt-get install git"                                                                                                  },
    {"docker",  "for a later tier",             "no docker tier",                  "https://docs.docker.com/engine/install/"},
    {"bwrap",   "for comparison only",          NULL,                              "apt-get install bubblewrap"             },
};

static const char *const state_names[] = {"ok", "missing", "failed", "warning"};

static int report_add(struct report *report,
                      const char *name,
                      enum check_state state,
                      json_t *details)
{
    snp_autojson json_t *row = details;

    if (row == NULL || json_object_set_new(row, "name", json_string(name)) < 0 ||
        json_object_set_new(row, "status", json_string(state_names[state])) < 0) {
        return SNP_E_NOMEM;
    }
    return json_array_append(report->checks, row);
}

static json_t *details(const char *detail, const char *cost, const char *fix)
{
    return json_pack("{s:s?, s:s?, s:s?}", "detail", detail, "cost", cost, "fix", fix);
}

/* The first executable of that name in PATH; NULL if there is none. The caller frees. */
static char *program_find(const char *name)
{
    const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe): one thread */

    while (path != NULL && *path != '\0') {
        size_t n = strcspn(path, ":");
        snp_autofree char *file = snp_format("%.*s/%s", (int)n, path, name);

        if (file != NULL && n > 0 && access(file, X_OK) == 0) {
            return SNP_TAKE_PTR(file);
        }
        path += n + (path[n] == ':' ? 1 : 0);
    }
    return NULL;
}

static int check_config(struct snp_cli *cli,
                        const struct snp_verb *verb,
                        const struct snp_opts *opts,
                        struct report *report)
{
    snp_autoconfig struct snp_config *config = NULL;
    struct snp_err err;
    int r = snp_cli_config(cli, verb, opts, &config, &err);
    const char *file = r < 0 ? NULL : snp_config_file(config);

    r = r < 0 ? r : snp_cli_tier_check(config, &err);
    if (r == 0) {
        (void)snprintf(report->tier_name, sizeof(report->tier_name), "%s",
                       snp_cli_tier(config));
        report->tier = report->tier_name;
        snp_cli_tier_stand_in(cli, config);
    }
    if (r < 0) {
        return report_add(
            report, "configuration", CHECK_FAILED,
            details(err.msg, "commands refuse to run", "correct the file or variable"));
    }
    return report_add(report, "configuration", file == NULL ? CHECK_MISSING : CHECK_OK,
                      file == NULL
                          ? details("no file; defaults apply", NULL, "snipara-sandbox init")
                          : details(file, NULL, NULL));
}

static int check_folders(struct report *report)
{
    static const struct {
        const char *name;
        int (*find)(char **ret, struct snp_err *err);
    } rows[] = {
        {"runtime folder", snp_runtime_dir},
        {"state folder",   snp_state_dir  },
    };
    int r = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows) && r == 0; i++) {
        snp_autofree char *path = NULL;
        struct snp_err err;

        if (rows[i].find(&path, &err) < 0) {
            r = report_add(report, rows[i].name, CHECK_FAILED,
                           details(err.msg, "the daemon cannot run", "see the message"));
        } else {
            r = report_add(report, rows[i].name, CHECK_OK, details(path, NULL, NULL));
        }
    }
    return r;
}

static int check_tools(struct report *report)
{
    int r = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(tools) && r == 0; i++) {
        snp_autofree char *path = program_find(tools[i].program);

        r = path != NULL
                ? report_add(report, tools[i].program, CHECK_OK, details(path, NULL, NULL))
                : report_add(report, tools[i].program, CHECK_MISSING,
                             details(tools[i].detail, tools[i].cost, tools[i].fix));
    }
    return r;
}

static int probe_add(struct report *report, const json_t *head)
{
    size_t i;
    json_t *feature;
    int r = 0;

    json_array_foreach(json_object_get(head, "features"), i, feature)
    {
        enum check_state state = snp_json_bool(feature, "ok", false) ? CHECK_OK : CHECK_MISSING;

        r = report_add(report, snp_json_str(feature, "name", "?"), state,
                       details(snp_json_str(feature, "detail", NULL),
                               state == CHECK_OK ? NULL : snp_json_str(feature, "cost", NULL),
                               state == CHECK_OK ? NULL : snp_json_str(feature, "fix", NULL)));
        if (r < 0) {
            return r;
        }
    }
    return r;
}

/* What a tier of the user's says of itself, and that nobody else does. */
static json_t *claims(const struct snp_tier_file *file, const json_t *probe)
{
    const json_t *list = json_object_get(probe, "guarantees");
    snp_autobuf struct snp_buf text = {0};
    size_t i;
    json_t *one;
    int r;

    snp_buf_init(&text, PATH_TEXT_MAX);
    r = snp_buf_addf(&text, "your own: %s; nothing checks what it claims: ", file->path);
    json_array_foreach((json_t *)(uintptr_t)list, i, one)
    {
        r = r < 0 ? r
                  : snp_buf_addf(&text, "%s%.40s", i == 0 ? "" : ", ", json_string_value(one));
    }
    if (r == 0 && json_array_size(list) == 0) {
        r = snp_buf_adds(&text, "no guarantees");
    }
    return r < 0 ? NULL : details(snp_buf_cstr(&text), NULL, NULL);
}

static int check_tier(struct report *report,
                      struct snp_client *client,
                      const struct snp_tier_file *file,
                      bool *ret_works)
{
    snp_autofree char *name = snp_format("%s tier", file->name);
    snp_autoreply struct snp_reply probe = {0};
    struct snp_err err;
    int r = 0;

    if (name == NULL) {
        return SNP_E_NOMEM;
    }
    if (file->refused != NULL) {
        return report_add(report, name, CHECK_MISSING,
                          details("not used", NULL, file->refused));
    }
    if (snp_remote_call(client, SNP_WRITE(snp_probe_request, .tier = file->name), &probe,
                        &err) < 0) {
        return report_add(report, name, file->is_users ? CHECK_MISSING : CHECK_FAILED,
                          details(err.msg, "it does not run", "see the message"));
    }
    *ret_works = snp_json_bool(probe.head, "usable", false);
    if (file->is_users) {
        r = report_add(report, name, *ret_works ? CHECK_OK : CHECK_MISSING,
                       claims(file, probe.head));
    }
    return r < 0 ? r : probe_add(report, probe.head);
}

static int check_tiers(struct report *report, struct snp_client *client)
{
    struct snp_err err;
    int r = snp_tier_files_find(report->tiers, &err);

    if (r < 0) {
        return report_add(report, "tiers", CHECK_FAILED,
                          details(err.msg, "nothing runs", "see the message"));
    }
    snp_tier_files_rank(report->tiers);
    for (size_t i = 0; r == 0 && i < report->tiers->n && i < TIERS_MAX; i++) {
        r = check_tier(report, client, &report->tiers->files[i], &report->works[i]);
    }
    return r;
}

/* The strongest that works here and is named, or is taken unasked; NULL = none. */
static const struct snp_tier_file *taken(const struct report *report, const char *name)
{
    bool is_auto = snp_streq(name, SNP_TIER_AUTO);

    for (size_t i = 0; i < report->tiers->n && i < TIERS_MAX; i++) {
        const struct snp_tier_file *file = &report->tiers->files[i];

        if (report->works[i] && (name == NULL || snp_streq(file->name, name) ||
                                 (is_auto && file->rank >= SNP_TIER_RANK_WHOLE))) {
            return file;
        }
    }
    return NULL;
}

/* What exec will do: a weak tier never takes the place of another by itself. */
static void judge(struct report *report)
{
    report->usable = report->tier != NULL && taken(report, report->tier) != NULL;
}

static void verdict(const struct report *report)
{
    const struct snp_tier_file *used =
        report->tier == NULL ? NULL : taken(report, report->tier);
    const struct snp_tier_file *best = taken(report, NULL);

    if (report->tier == NULL) {
        (void)puts("exec refuses this configuration");
    } else if (used != NULL && used->is_users) {
        (void)printf("code can run here, in your own tier %s; nothing checks what it claims\n",
                     used->name);
    } else if (used != NULL && used != best) {
        (void)printf("sandboxes can run here, in the weaker %s tier as configured\n",
                     used->name);
    } else if (used != NULL) {
        (void)puts("sandboxes can run here");
    } else if (best == NULL) {
        (void)puts("nothing can run here");
    } else {
        (void)printf("only the %s%s tier can run here: exec --env %s\n",
                     best->rank < SNP_TIER_RANK_WHOLE ? "weaker " : "", best->name, best->name);
    }
}

/* The latest event, not older than that, by which something was lost; NULL = none. */
static json_t *loss_find(const json_t *events, const char **ret_cost, const char **ret_fix)
{
    static const struct {
        const char *kind;
        const char *cost;
        const char *fix;
    } rows[] = {
        {"salvage",             "what could not be read of sessions, cells and snapshots is gone",
         "look through `sessions list`, `history` and `snapshots`; remove the file set aside "
         "once "
         "nothing is missed; check the disk"                                                                                                     },
        {"damaged_blob",        "checkpoints that hold it cannot be used",
         "check the disk; bring the file back from a backup, or go on from earlier "
         "checkpoints"                                                                                                                           },
        {"unusable_checkpoint", "what the session did after the one before it",
         "`rerun` the cells after it, or `rollback` to a snapshot; check the disk"                                                               },
        {"unreadable_session",  "the session cannot be used",
         "use the version that wrote it, or `sessions destroy` it"                                                                               },
        {"snapshot_lost",       "the snapshot",                                                    "`snapshot --wait` returns once it is on disk"},
    };
    double oldest = (double)time(NULL) - LOSS_SECONDS;

    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *event = json_array_get(events, i);
        const char *kind = snp_json_str(event, "kind", "");

        for (size_t k = 0; k < SNP_ARRAY_LEN(rows); k++) {
            if (strcmp(rows[k].kind, kind) == 0 && snp_json_number(event, "at") >= oldest) {
                *ret_cost = rows[k].cost;
                *ret_fix = rows[k].fix;
                return event;
            }
        }
    }
    return NULL;
}

/* Whether sessions can be kept, and what recovery had to do. */
static int check_journal(struct report *report, struct snp_client *client)
{
    snp_autoreply struct snp_reply reply = {0};
    const json_t *events;
    const json_t *loss;
    const json_t *said;
    const char *cost = NULL;
    const char *fix = NULL;
    json_t *row;
    struct snp_err err;

    if (snp_remote_call(client, SNP_WRITE(snp_journal_events_request, .limit = EVENTS_MAX),
                        &reply, &err) < 0) {
        return report_add(report, "journal", CHECK_FAILED,
                          details(err.msg, "no named sessions",
                                  "make room or mend the state folder; sessions that are there "
                                  "are found again"));
    }
    events = json_object_get(reply.head, "events");
    loss = loss_find(events, &cost, &fix);
    said = loss != NULL ? loss : json_array_get(events, 0);
    row = details(said == NULL ? "in use" : snp_json_str(said, "text", "?"), cost, fix);
    if (row != NULL &&
        json_object_set(row, "events", json_object_get(reply.head, "events")) < 0) {
        json_decref(row);
        row = NULL;
    }
    return report_add(report, "journal", loss == NULL ? CHECK_OK : CHECK_WARNING, row);
}

static int check_daemon(struct report *report)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply stats = {0};
    snp_autoreply struct snp_reply hello = {0};
    snp_autofree char *text = NULL;
    struct snp_err err;
    int r = snp_remote_connect(false, &client, &err);

    if (r == 0) {
        r = snp_remote_call(client, snp_record_write(&snp_stats_request_form, NULL), &stats,
                            &err);
    }
    if (r < 0) {
        return report_add(report, "daemon", CHECK_FAILED,
                          details(err.msg, "nothing runs", "see the message"));
    }
    /* It may be an older one that was running when this program was installed. */
    if (snp_remote_call(client, SNP_WRITE(snp_hello_request, .version = SNP_RPC_VERSION),
                        &hello, &err) < 0) {
        return report_add(report, "daemon", CHECK_FAILED,
                          details(err.msg, "nothing runs", "see the message"));
    }
    text = snp_format("version %s, pid %lld, %lld sessions",
                      snp_json_str(hello.head, "program", "?"),
                      (long long)snp_json_int(stats.head, "pid", 0),
                      (long long)snp_json_int(stats.head, "sessions", 0));
    r = report_add(report, "daemon", CHECK_OK, details(text, NULL, NULL));
    if (r == 0) {
        r = check_journal(report, client);
    }
    if (r < 0) {
        return r;
    }
    r = check_tiers(report, client);
    judge(report);
    return r;
}

/* Printing ------------------------------------------------------------------------------------ */

/* "detail; cost: ...; fix: ..." The caller frees; NULL when out of memory. */
static char *details_text(const json_t *check)
{
    static const char *const keys[] = {"detail", "cost", "fix"};
    snp_autobuf struct snp_buf text = {0};

    snp_buf_init(&text, PATH_TEXT_MAX);
    for (size_t i = 0; i < SNP_ARRAY_LEN(keys); i++) {
        const char *value = snp_json_str(check, keys[i], NULL);

        if (value != NULL && value[0] != '\0' &&
            snp_buf_addf(&text, "%s%s%s%s", text.len > 0 ? "; " : "", i > 0 ? keys[i] : "",
                         i > 0 ? ": " : "", value) < 0) {
            return NULL;
        }
    }
    return snp_buf_cstr(&text) == NULL ? NULL : strdup(snp_buf_cstr(&text));
}

static int report_print(const struct report *report)
{
    static const char *const heads[COLUMNS] = {"Check", "Status", "Details"};
    size_t n = json_array_size(report->checks);
    char *texts[ROWS_MAX] = {NULL};
    const char *cells[ROWS_MAX * COLUMNS];
    enum snp_style styles[ROWS_MAX * COLUMNS] = {SNP_STYLE_PLAIN};
    struct snp_table table = {heads, COLUMNS, cells, n < ROWS_MAX ? n : ROWS_MAX, styles};

    for (size_t i = 0; i < table.n_rows; i++) {
        const json_t *check = json_array_get(report->checks, i);
        const char *status = snp_json_str(check, "status", "?");

        texts[i] = details_text(check);
        cells[i * COLUMNS] = snp_json_str(check, "name", "?");
        cells[i * COLUMNS + 1] = status;
        cells[i * COLUMNS + 2] = texts[i];
        styles[i * COLUMNS + 1] = strcmp(status, "ok") == 0       ? SNP_STYLE_GREEN
                                  : strcmp(status, "failed") == 0 ? SNP_STYLE_RED
                                                                  : SNP_STYLE_YELLOW;
    }
    snp_table_print(stdout, &table);
    for (size_t i = 0; i < table.n_rows; i++) {
        free(texts[i]);
    }
    (void)puts("");
    verdict(report);
    return report->usable ? SNP_EXIT_OK : SNP_EXIT_FAILED;
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *checks = json_array();
    snp_autotierfiles struct snp_tier_files tiers = {0};
    struct report report = {.checks = checks, .tiers = &tiers};
    struct snp_err err;
    int r;

    if (snp_opts_flag(opts, "names", false)) {
        return snp_cli_tier_names(&err) < 0 ? snp_cli_fail(cli, &err) : SNP_EXIT_OK;
    }
    r = check_config(cli, &snp_verb_doctor, opts, &report);

    if (r == 0) {
        r = check_folders(&report);
    }
    if (r == 0) {
        r = check_tools(&report);
    }
    if (r == 0) {
        r = check_daemon(&report);
    }
    if (r < 0) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "json", false)) {
        snp_autojson json_t *whole =
            json_pack("{s:b, s:O}", "usable", report.usable, "checks", report.checks);

        if (snp_cli_print_json(whole) != 0) {
            return SNP_EXIT_FAILED;
        }
        return report.usable ? SNP_EXIT_OK : SNP_EXIT_FAILED;
    }
    return report_print(&report);
}

static const struct snp_opt options[] = {
    SNP_CLI_OPT_CONFIG,
    {"env",   0, SNP_OPT_STRING, "TIER", "judge what exec --env TIER would do",
      SNP_KEY_ENVIRONMENT                                                          },
    {"names", 0, SNP_OPT_FLAG,   NULL,   "only the names of tiers, a line each", 0},
    SNP_CLI_OPT_JSON,
};

const struct snp_verb snp_verb_doctor = {
    .name = "doctor",
    .summary = "check what this host can do",
    .spec = {options, SNP_ARRAY_LEN(options), NULL, 0, false},
    .exit_codes = "0  exec runs here as configured (perhaps with something missing)\n"
                  "1  exec refuses to run here as configured\n"
                  "2  used wrongly",
    .run = run,
};
