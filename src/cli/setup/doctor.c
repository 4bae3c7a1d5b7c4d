/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `doctor`: features of this host, missing ones, their cost and the fix. Everything is a row; it
 * fails only where exec would.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "base/cli/unsaved.h"
#include "base/config/config.h"
#include "base/policy/engine_socket.h"
#include "base/policy/guarantee.h"
#include "base/rundir.h"
#include "base/session/policy.h"
#include "base/session/tier.h"
#include "base/str.h"
#include "base/wire/exec.h"
#include "base/wire/rpc.h"
#include "base/wire/session.h"
#include "cli/cli.h"

enum {
    PATH_TEXT_MAX = 64 << 10,
    TIERS_MAX = 64, /* checked at most */
};

enum {
    EVENTS_MAX = 20,                 /* of the journal, with --json */
    LOSS_SECONDS = 7 * 24 * 60 * 60, /* a loss is reported for this long */
};

enum check_state {
    CHECK_OK = 0,
    CHECK_MISSING, /* works without it, at a cost */
    CHECK_FAILED,  /* nothing runs */
    CHECK_WARNING, /* a recent loss */
};

/* The checks so far, in the form of --json. */
struct report {
    struct snp_cli *cli;
    const struct snp_config *config; /* borrowed; NULL: it is refused */
    json_t *checks;                  /* owned */
    const char *tier;                /* tier of exec here; NULL: the configuration is refused */
    bool usable;                     /* it runs */
    bool is_misused;                 /* --env names no tier */
    struct snp_tier_files *tiers;    /* borrowed, the strongest first */
    bool works[TIERS_MAX];           /* of each tier, on this host */
    json_t *degraded[TIERS_MAX]; /* owned: weaker controls of each, as in a result; NULL: none */
};

static const struct {
    const char *program;
    const char *detail;
    const char *cost;
    const char *fix;
} tools[] = {
    {"git", "version control of projects", "projects have no history inside",
     "apt-get install git"},
    {"bwrap", "for comparison only", NULL, "apt-get install bubblewrap"},
};

static const char *const state_names[] = {"ok", "missing", "failed", "warning"};

static void report_add(struct report *report,
                       const char *name,
                       enum check_state state,
                       json_t *details)
{
    (void)json_object_set_new(details, "name", json_string(name));
    (void)json_object_set_new(details, "status", json_string(state_names[state]));
    (void)json_array_append_new(report->checks, details);
}

static json_t *details(const char *detail, const char *cost, const char *fix)
{
    return snp_need(json_pack("{s:s?, s:s?, s:s?}", "detail", detail, "cost", cost, "fix", fix));
}

/* Add a failed row with the message. */
static void report_fail(struct report *report,
                        const char *name,
                        const struct snp_err *err,
                        const char *cost)
{
    report_add(report, name, CHECK_FAILED, details(err->msg, cost, "the message says why"));
}

/* The first executable of that name in PATH; NULL if there is none. The caller frees. */
static char *program_find(const char *name)
{
    const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe): one thread */

    while (path != NULL && *path != '\0') {
        size_t n = strcspn(path, ":");
        snp_autofree char *file = snp_need_format("%.*s/%s", (int)n, path, name);

        if (file != NULL && n > 0 && access(file, X_OK) == 0) {
            return SNP_TAKE_PTR(file);
        }
        path += n + (path[n] == ':' ? 1 : 0);
    }
    return NULL;
}

static void check_config(const struct snp_opts *opts, struct report *report)
{
    struct snp_cli *cli = report->cli;
    const struct snp_config *config = NULL;
    struct snp_err err;
    int r = snp_cli_config(cli, opts, &config, &err);
    const char *file = r < 0 ? NULL : snp_config_file(config);

    r = r < 0 ? r : snp_cli_tier_check(config, &err);
    report->is_misused = r == SNP_E_INVALID && snp_opts_given(opts, "env");
    if (r < 0) {
        report_add(report, "configuration", CHECK_FAILED,
                   details(err.msg, "commands refuse to run", "correct the file or variable"));
        return;
    }
    report->config = config;
    report->tier = snp_cli_tier(config);
    snp_cli_tier_stand_in(cli, config, report->tier);
    report_add(report, "configuration", file == NULL ? CHECK_MISSING : CHECK_OK,
               file == NULL ? details("no file; defaults apply", NULL, "snipara-sandbox init")
                            : details(file, NULL, NULL));
}

static void check_folders(struct report *report)
{
    static const struct {
        const char *name;
        int (*find)(char **ret, struct snp_err *err);
    } rows[] = {
        {"runtime folder", snp_runtime_dir},
        {"state folder", snp_state_dir},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autofree char *path = NULL;
        struct snp_err err;

        if (rows[i].find(&path, &err) < 0) {
            report_fail(report, rows[i].name, &err, "the daemon cannot run");
        } else {
            report_add(report, rows[i].name, CHECK_OK, details(path, NULL, NULL));
        }
    }
}

static void check_tools(struct report *report)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(tools); i++) {
        snp_autofree char *path = program_find(tools[i].program);

        report_add(report, tools[i].program, path != NULL ? CHECK_OK : CHECK_MISSING,
                   path != NULL ? details(path, NULL, NULL)
                                : details(tools[i].detail, tools[i].cost, tools[i].fix));
    }
}

static void probe_add(struct report *report, const json_t *features)
{
    for (size_t i = 0; i < json_array_size(features); i++) {
        SNP_READ(snp_feature_row, row, json_array_get(features, i));
        report_add(report, row.name, row.ok ? CHECK_OK : CHECK_MISSING,
                   details(row.detail, row.ok ? NULL : row.cost, row.ok ? NULL : row.fix));
    }
}

/* Claims of a user's tier, which nothing else confirms. */
static json_t *claims(const struct snp_tier_file *file, const json_t *guarantees)
{
    snp_autobuf struct snp_buf text = {0};
    size_t i;
    json_t *one;
    int r;

    snp_buf_init(&text, PATH_TEXT_MAX);
    r = snp_buf_addf(&text, "a tier of yours: %s; its claims are not checked: %s", file->path,
                     json_array_size(guarantees) == 0 ? "no guarantees" : "");
    json_array_foreach((json_t *)(uintptr_t)guarantees, i, one)
    {
        r = r < 0 ? r : snp_buf_addf(&text, "%s%.40s", i == 0 ? "" : ", ", json_string_value(one));
    }
    return details(r < 0 ? file->path : snp_need(snp_buf_cstr(&text)), NULL, NULL);
}

/*
 * Sessions use the engine of this command's DOCKER_HOST, so the row names that one. The probe is of
 * the daemon's, which may have been started with another DOCKER_HOST.
 */
static bool check_engine(struct report *report, const char *name, struct snp_probe_answer *probe)
{
    const char *host =
        report->config == NULL ? NULL : snp_config_process_env(report->config, "DOCKER_HOST");
    const json_t *row = json_array_get(probe->features, 0);
    char socket[SNP_ENGINE_PATH_MAX + 1] = "";
    char detail[SNP_ENGINE_PATH_MAX + 16];
    struct snp_err err;

    if (host == NULL || host[0] == '\0') {
        return false;
    }
    probe->usable = snp_engine_find(socket, &err) == 0;
    if (probe->usable && strstr(snp_json_str(row, "detail", ""), socket) != NULL) {
        return false; /* it is the same */
    }
    (void)snprintf(detail, sizeof(detail), "engine at %s", socket);
    report_add(report, name, probe->usable ? CHECK_OK : CHECK_MISSING,
               probe->usable ? details(detail, NULL, NULL)
                             : details("", snp_json_str(row, "cost", NULL), err.msg));
    return true;
}

static void check_tier(struct report *report, size_t number)
{
    const struct snp_tier_file *file = &report->tiers->files[number];
    snp_autofree char *name = snp_need_format("%s tier", file->name);
    snp_autoreply struct snp_reply reply = {0};
    struct snp_probe_answer probe;
    struct snp_err err;

    if (file->refused != NULL) {
        report_add(report, name, CHECK_MISSING, details("not used", NULL, file->refused));
        return;
    }
    if (snp_remote_call(report->cli, SNP_WRITE(snp_probe_request, .tier = file->name), &reply,
                        &err) < 0) {
        report_add(report, name, file->is_users ? CHECK_MISSING : CHECK_FAILED,
                   details(err.msg, "this tier cannot be used", "the message says why"));
        return;
    }
    snp_record_read(reply.head, &snp_probe_answer_form, &probe);
    bool is_told = strcmp(file->name, "docker") == 0 && check_engine(report, name, &probe);

    report->works[number] = probe.usable;
    report->degraded[number] = json_incref((json_t *)(uintptr_t)probe.degraded);
    if (file->is_users) {
        report_add(report, name, probe.usable ? CHECK_OK : CHECK_MISSING,
                   claims(file, probe.guarantees));
    }
    if (!is_told) {
        probe_add(report, probe.features);
    }
}

static void check_tiers(struct report *report)
{
    struct snp_err err;

    if (snp_tier_files_find(report->tiers, &err) < 0) {
        report_fail(report, "tiers", &err, "nothing runs");
        return;
    }
    snp_tier_files_rank(report->tiers);
    for (size_t i = 0; i < report->tiers->n && i < TIERS_MAX; i++) {
        check_tier(report, i);
    }
}

/* The strongest tier that works here and is named, or chosen automatically; NULL = none. */
static const struct snp_tier_file *taken(const struct report *report, const char *name)
{
    bool is_auto = snp_streq(name, SNP_TIER_AUTO);

    for (size_t i = 0; i < report->tiers->n && i < TIERS_MAX; i++) {
        const struct snp_tier_file *file = &report->tiers->files[i];

        if (report->works[i] && (name == NULL || snp_streq(file->name, name) ||
                                 (is_auto && file->rank >= SNP_TIER_RANK_WHOLE &&
                                  !snp_json_bool(file->about, "by_name", false)))) {
            return file;
        }
    }
    return NULL;
}

/* Tiers without the required guarantees are refused, even if named. */
static void check_guarantees(struct report *report)
{
    snp_autojson json_t *wanted =
        report->config == NULL ? NULL : snp_cli_guarantees(report->config);
    const struct snp_tier_file *used = report->tier == NULL ? NULL : taken(report, report->tier);

    for (size_t i = 0; i < report->tiers->n && i < TIERS_MAX && used != NULL; i++) {
        const struct snp_tier_file *file = &report->tiers->files[i];
        struct snp_err err;

        if (snp_guarantees_of(file->name, file->about,
                              snp_config_str(report->config, SNP_KEY_DOCKER_RUNTIME), wanted,
                              &err) == 0) {
            continue;
        }
        if (file == used) {
            report_fail(report, "guarantees", &err, "exec refuses to run");
        }
        report->works[i] = false;
    }
}

/*
 * Run a cell as exec would; nothing is pulled or built for it. *ret: the tier, template and image
 * used.
 */
static int try_container(struct report *report, char **ret, struct snp_err *err)
{
    static const char code[] = "None";
    snp_autoreply struct snp_reply reply = {0};
    snp_autojson json_t *defaults = NULL;
    snp_autojson json_t *head = NULL;
    const json_t *manifest;

    SNP_TRY(snp_cli_session_defaults(report->config, report->tier, false, &defaults, err));
    head = snp_need(
        SNP_WRITE(snp_exec_request, .kind = "python", .code_len = strlen(code),
                  .tier = report->tier, .defaults = defaults,
                  .require_exact = snp_config_bool(report->config, SNP_KEY_REQUIRE_EXACT)));
    SNP_TRY(snp_remote_send(
        report->cli, &(const struct snp_call){.head = head, .raw = code, .raw_len = strlen(code)},
        &reply, err));
    if (!snp_streq(snp_json_str(reply.head, "status", ""), "ok")) {
        return snp_fail(err, SNP_E_PEER, "code does not run there: %.300s",
                        snp_json_str(json_object_get(reply.head, "error"), "message", "?"));
    }
    manifest = json_object_get(reply.head, "manifest");
    *ret = snp_need_format(
        "%s, Python %s, runtime %s", snp_json_str(manifest, "rootfs", "?"),
        snp_json_str(manifest, "python", "?"),
        snp_json_str(json_object_get(json_object_get(manifest, "controls"), "syscalls"), "runtime",
                     "?"));
    return 0;
}

/*
 * An engine that answers is not enough: runtime, image and its Python are checked by running a
 * container.
 */
static void check_container(struct report *report)
{
    snp_autofree char *detail = NULL;
    struct snp_err err;

    for (size_t i = 0; i < report->tiers->n && i < TIERS_MAX; i++) {
        if (!report->works[i] || !snp_streq(report->tier, "docker") ||
            !snp_streq(report->tiers->files[i].name, "docker")) {
            continue;
        }
        report->works[i] = try_container(report, &detail, &err) == 0;
        if (report->works[i]) {
            report_add(report, "docker image", CHECK_OK, details(detail, NULL, NULL));
        } else {
            report_fail(report, "docker image", &err, "exec refuses to run there");
        }
    }
}

/* Add a row for each "NAME: reason" of the `degraded` line of results, under the same name. */
static void check_degraded(struct report *report)
{
    const struct snp_tier_file *used = report->tier == NULL ? NULL : taken(report, report->tier);

    for (size_t i = 0; i < report->tiers->n && i < TIERS_MAX; i++) {
        const json_t *list = &report->tiers->files[i] == used ? report->degraded[i] : NULL;

        for (size_t k = 0; k < json_array_size(list); k++) {
            const char *text = json_string_value(json_array_get(list, k));
            size_t n = text == NULL ? 0 : strcspn(text, ":");
            snp_autofree char *name = snp_need_format("%.*s", (int)n, text == NULL ? "" : text);

            if (n > 0 && strncmp(text + n, ": ", 2) == 0) {
                report_add(report, name, CHECK_MISSING, details(text + n + 2, NULL, NULL));
            }
        }
        json_decref(report->degraded[i]);
    }
}

static void verdict(const struct report *report)
{
    const struct snp_tier_file *used = report->tier == NULL ? NULL : taken(report, report->tier);
    const struct snp_tier_file *best = taken(report, NULL);

    if (report->tier == NULL) {
        (void)puts("exec refuses this configuration");
    } else if (used != NULL && used->is_users) {
        snp_term_printf(stdout,
                        "code can run here, in your own tier %s; its claims are not checked\n",
                        used->name);
    } else if (used != NULL && used != best) {
        snp_term_printf(stdout, "sandboxes can run here, in the weaker %s tier as configured\n",
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

/* The latest loss event that is unsolved, and recent or reported until it is solved; or NULL. */
static const json_t *loss_find(const json_t *events, const char **ret_cost, const char **ret_fix)
{
    static const struct {
        const char *kind;
        const char *cost;
        const char *fix;
        bool is_kept; /* until it is solved */
    } rows[] = {
        {"salvage", "unreadable sessions, cells and snapshots are lost",
         "check `sessions list`, `history` and `snapshots`; remove the renamed file when nothing "
         "is missing; check the disk",
         true},
        {"journal_lost", "sessions, cells and snapshots since the missing state",
         "stop the daemon and put the file back from a backup; or remove the file named above "
         "and restart: this deletes contents without a record",
         true},
        {"journal_moved", "data saved now is missing when the daemon restarts",
         "follow the message; or run `daemon stop --force` and set SNIPARA_SANDBOX_STATE_DIR to "
         "the new place",
         true},
        {"damaged_blob", "checkpoints that contain it cannot be used",
         "check the disk; bring the file back from a backup, or continue from earlier "
         "checkpoints",
         false},
        {"unusable_checkpoint", "the session's work since the previous checkpoint",
         "`rerun` the later cells, or `rollback` to a snapshot; check the disk", false},
        {"unreadable_session", "the session cannot be used",
         "use the version that wrote it, or `sessions destroy` it", false},
        {"end_unsaved", "their work since they were last saved",
         "`sessions` lists missing cells; `exec -s NAME --recover replay` runs cells again", false},
        {"snapshot_lost", "the snapshot", "`snapshot --wait` returns once it is on disk", false},
    };
    double oldest = (double)time(NULL) - LOSS_SECONDS;

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        SNP_READ(snp_journal_row, row, event);

        for (size_t k = 0; k < SNP_ARRAY_LEN(rows); k++) {
            if (snp_streq(rows[k].kind, row.kind) && !row.solved &&
                (rows[k].is_kept || row.at >= oldest)) {
                *ret_cost = rows[k].cost;
                *ret_fix = rows[k].fix;
                return event;
            }
        }
    }
    return NULL;
}

/* Check that session data on disk is encrypted. */
static void check_seal(struct report *report, const json_t *head)
{
    snp_autofree char *text = NULL;
    struct snp_journal_events_answer journal;
    json_t *row;

    snp_record_read(head, &snp_journal_events_answer_form, &journal);
    if (!journal.sealed) {
        text = snp_need_format("off; saved sessions are not encrypted");
    } else if (journal.unsealed == 0) {
        text = snp_need_format("saved sessions are encrypted");
    } else {
        text = snp_need_format("saved sessions are encrypted, except files older than the key: "
                               "%" PRIu64 " (removed when replaced or with their session)",
                               journal.unsealed);
    }
    row = details(text, NULL, NULL);
    (void)json_object_set_new(row, "sealed", json_boolean(journal.sealed));
    (void)json_object_set_new(row, "unsealed", json_integer((json_int_t)journal.unsealed));
    report_add(report, "store key", CHECK_OK, row);
}

/* The text about unsaved sessions, printed instead of the journal's events; the caller frees. */
static char *unsaved_text(const json_t *rows)
{
    snp_autofree char *first = snp_unsaved_text(json_array_get(rows, 0));
    size_t n = json_array_size(rows);

    return n == 1 ? SNP_TAKE_PTR(first)
                  : snp_need_format("%zu sessions are not saved, for example %s", n, first);
}

/* Check that sessions can be saved, and report recoveries. */
static void check_journal(struct report *report, const json_t *unsaved)
{
    snp_autoreply struct snp_reply reply = {0};
    json_t *events;
    const json_t *loss;
    const json_t *said;
    const char *cost = NULL;
    const char *fix = NULL;
    json_t *row;
    struct snp_err err;

    if (snp_remote_call(report->cli, SNP_WRITE(snp_journal_events_request, .limit = EVENTS_MAX),
                        &reply, &err) < 0) {
        report_add(report, "journal", CHECK_FAILED,
                   details(err.msg, "no named sessions",
                           "free disk space, repair the state folder or restore its key; existing "
                           "sessions are then found again"));
        return;
    }
    events = json_object_get(reply.head, "events");
    loss = loss_find(events, &cost, &fix);
    said = loss != NULL ? loss : json_array_get(events, 0);
    if (snp_json_bool(said, "solved", false)) {
        said = NULL;
    }
    if (json_array_size(unsaved) > 0 &&
        !snp_streq(snp_json_str(loss, "kind", NULL), "journal_moved")) {
        snp_autofree char *text = unsaved_text(unsaved);

        row = details(text, "unsaved work is lost if the daemon is killed", NULL);
    } else {
        row = details(said == NULL ? "in use" : snp_json_str(said, "text", "?"), cost, fix);
    }
    if (json_array_size(unsaved) > 0) {
        (void)json_object_set(row, "unsaved", (json_t *)(uintptr_t)unsaved);
    }
    (void)json_object_set(row, "events", events);
    report_add(report, "journal",
               loss == NULL && json_array_size(unsaved) == 0 ? CHECK_OK : CHECK_WARNING, row);
    check_seal(report, reply.head);
}

/* The daemon may have been started with other variables than this command's. */
static void check_state(struct report *report, const struct snp_hello_answer *daemon)
{
    snp_autofree char *own = NULL;
    snp_autofree char *text = NULL;
    char own_id[SNP_DIR_ID_MAX + 1];
    struct snp_err ignored;

    if (daemon->state_id == NULL || snp_state_dir(&own, &ignored) < 0 ||
        snp_streq(snp_dir_id(own, own_id), daemon->state_id)) {
        return;
    }
    text = snp_need_format("the running daemon has %s", daemon->state_dir);
    report_add(report, "state folder", CHECK_WARNING,
               details(text, "its sessions are there; this command's templates are not",
                       "snipara-sandbox daemon stop; the next command starts it here"));
}

static void check_daemon(struct report *report)
{
    snp_autoreply struct snp_reply stats = {0};
    snp_autoreply struct snp_reply hello = {0};
    snp_autofree char *text = NULL;
    struct snp_hello_answer daemon;
    struct snp_stats_answer now;
    struct snp_err err;
    int r =
        snp_remote_call(report->cli, snp_record_write(&snp_stats_request_form, NULL), &stats, &err);

    /* It may be an older daemon that was running when this program was installed. */
    if (r == 0) {
        r = snp_remote_call(report->cli, SNP_WRITE(snp_hello_request, .version = SNP_RPC_VERSION),
                            &hello, &err);
    }
    if (r < 0) {
        report_fail(report, "daemon", &err, "nothing runs");
        return;
    }
    snp_record_read(hello.head, &snp_hello_answer_form, &daemon);
    snp_record_read(stats.head, &snp_stats_answer_form, &now);
    text = snp_need_format("version %s, pid %" PRIu64 ", %" PRIu64 " sessions", daemon.program,
                           now.pid, now.sessions);
    report_add(report, "daemon", CHECK_OK, details(text, NULL, NULL));
    check_state(report, &daemon);
    check_journal(report, now.unsaved);
    check_tiers(report);
    check_guarantees(report);
    check_container(report);
    check_degraded(report);
    /* As exec does: a weak tier never replaces another automatically. */
    report->usable = report->tier != NULL && taken(report, report->tier) != NULL;
}

/* Printing ------------------------------------------------------------------------------------ */

/* "detail; cost: ...; fix: ..." */
static void details_add(struct snp_table *table, const json_t *check)
{
    static const char *const keys[][2] = {{"detail", ""}, {"cost", "cost: "}, {"fix", "fix: "}};
    snp_autobuf struct snp_buf text = {0};

    snp_buf_init(&text, PATH_TEXT_MAX);
    for (size_t i = 0; i < SNP_ARRAY_LEN(keys); i++) {
        const char *value = snp_json_str(check, keys[i][0], "");

        if (value[0] != '\0') { /* as much as fits */
            (void)!snp_buf_addf(&text, "%s%s%s", text.len > 0 ? "; " : "", keys[i][1], value);
        }
    }
    snp_table_add(table, snp_need(snp_buf_cstr(&text)));
}

static void report_print(const struct report *report)
{
    static const char *const heads[] = {"Check", "Status", "Details"};
    struct snp_table table = SNP_TABLE(heads);
    size_t i;
    json_t *check;

    table.wraps = true;
    json_array_foreach(report->checks, i, check)
    {
        const char *status = snp_json_str(check, "status", "?");

        snp_table_add(&table, snp_json_str(check, "name", "?"));
        snp_table_add(&table, status);
        snp_table_style(&table, strcmp(status, "ok") == 0       ? SNP_STYLE_GREEN
                                : strcmp(status, "failed") == 0 ? SNP_STYLE_RED
                                                                : SNP_STYLE_YELLOW);
        details_add(&table, check);
    }
    snp_table_print(stdout, &table, "");
    (void)puts("");
    verdict(report);
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *checks = snp_need(json_array());
    snp_autojson json_t *whole = NULL;
    snp_autotierfiles struct snp_tier_files tiers = {0};
    struct report report = {.cli = cli, .checks = checks, .tiers = &tiers};
    struct snp_err err;

    if (snp_opts_flag(opts, "names", false)) {
        return snp_cli_tier_names(&err) < 0 ? snp_cli_fail(cli, &err) : SNP_EXIT_OK;
    }
    check_config(opts, &report);
    check_folders(&report);
    check_tools(&report);
    check_daemon(&report);
    if (!cli->is_json) {
        report_print(&report);
    } else {
        whole = json_pack("{s:b, s:O}", "usable", report.usable, "checks", report.checks);
        report.usable = snp_cli_print_json(whole) == 0 && report.usable;
    }
    return report.usable ? SNP_EXIT_OK : report.is_misused ? SNP_EXIT_USAGE : SNP_EXIT_FAILED;
}

static const struct snp_opt options[] = {
    SNP_CLI_OPT_CONFIG,
    {"env", 0, SNP_OPT_STRING, "TIER", "check for exec --env TIER", SNP_KEY_ENVIRONMENT},
    {"names", 0, SNP_OPT_FLAG, NULL, "print only the names of tiers, one a line", 0},
    SNP_CLI_OPT_JSON,
};

const struct snp_verb snp_verb_doctor = {
    .name = "doctor",
    .summary = "check what this host can do",
    .spec = SNP_OPTIONS(options),
    .exit_codes = "0  exec runs here as configured; some features may be missing\n"
                  "1  exec refuses to run here as configured\n"
                  "2  usage error",
    .run = run,
};
