/* SPDX-License-Identifier: Apache-2.0 */
/* `daemon status` and `daemon stop`; neither starts one. */
#include <stdio.h>
#include <string.h>

#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "base/cli/unsaved.h"
#include "base/rundir.h"
#include "base/str.h"
#include "base/wire/rpc.h"
#include "base/wire/session.h"
#include "cli/cli.h"

enum {
    NAMES_SHOWN = 5,
    NAMES_MAX_BYTES = 1024,
};

static int hello(struct snp_cli *cli, struct snp_reply *ret, struct snp_err *err)
{
    return snp_remote_call(cli, SNP_WRITE(snp_hello_request, .version = SNP_RPC_VERSION), ret, err);
}

static int stats_get(struct snp_cli *cli, struct snp_reply *ret, struct snp_err *err)
{
    return snp_remote_call(cli, snp_record_write(&snp_stats_request_form, NULL), ret, err);
}

/* status ---------------------------------------------------------------------------------- */

static int run_status(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoreply struct snp_reply greeting = {0};
    snp_autoreply struct snp_reply stats = {0};
    snp_autofree char *socket = NULL;
    snp_autojson json_t *status = NULL;
    struct snp_hello_answer daemon;
    struct snp_stats_answer now;
    struct snp_err err;
    int r;

    (void)opts;
    cli->any_state = true;
    r = snp_remote_find(cli, &err);
    if (r == SNP_E_NOT_FOUND) {
        status = json_pack("{s:b}", "running", false);
        (void)(cli->is_json ? snp_cli_print_json(status)
                            : puts("not running; the next command that needs the daemon "
                                   "starts it"));
        return SNP_EXIT_FAILED;
    }
    r = r < 0 ? r : hello(cli, &greeting, &err);
    r = r < 0 ? r : stats_get(cli, &stats, &err);
    r = r < 0 ? r : snp_socket_path(&socket, &err);
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    snp_record_read(greeting.head, &snp_hello_answer_form, &daemon);
    snp_record_read(stats.head, &snp_stats_answer_form, &now);
    status = json_pack("{s:b, s:s, s:I, s:I, s:I, s:I, s:s}", "running", true, "version",
                       daemon.program, "pid", (json_int_t)now.pid, "uptime_ms",
                       (json_int_t)daemon.uptime_ms, "sessions", (json_int_t)now.sessions,
                       "rss_bytes", (json_int_t)now.rss_bytes, "socket", socket);
    if (json_array_size(now.unsaved) > 0) {
        (void)json_object_set(status, "unsaved", now.unsaved);
    }
    if (cli->is_json) {
        return snp_cli_print_json(status);
    }
    snp_term_printf(stdout,
                    "running: version %s, pid %" PRIu64 ", up %" PRIu64 " s, %" PRIu64
                    " session%s, %s\n",
                    daemon.program, now.pid, daemon.uptime_ms / 1000, now.sessions,
                    now.sessions == 1 ? "" : "s", socket);
    snp_unsaved_tell(cli, now.unsaved);
    return SNP_EXIT_OK;
}

/* stop ------------------------------------------------------------------------------------ */

/*
 * SNP_E_DENIED, naming some, if cells run in named sessions: stopping would cut them off. Idle ones
 * are saved.
 */
static int unused_check(struct snp_cli *cli, struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    char names[NAMES_MAX_BYTES] = "";
    size_t n = 0;
    size_t i;
    json_t *item;
    int r = snp_remote_list(cli, &reply, err);

    if (r < 0) {
        return r;
    }
    json_array_foreach(json_object_get(reply.head, "sessions"), i, item)
    {
        SNP_READ(snp_session_row, row, item);
        size_t used = strlen(names);

        if (row.name != NULL && snp_streq(row.state, "running") && n++ < NAMES_SHOWN) {
            (void)snprintf(names + used, sizeof(names) - used, "%s%s", n > 1 ? ", " : "", row.name);
        }
    }
    return n == 0 ? 0
                  : snp_fail(err, SNP_E_DENIED,
                             "%zu sessions run a cell, which would be cut off (%.120s%s); --force "
                             "does it anyway",
                             n, names, n > NAMES_SHOWN ? ", ..." : "");
}

/* Print the state of sessions that is lost. */
static void lost_print(const json_t *lost)
{
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)(uintptr_t)lost, i, one)
    {
        const char *reason = snp_json_str(one, "reason", "");

        if (reason[0] != '\0') {
            (void)fprintf(stderr, "session %s: %s\n", snp_json_str(one, "session", "?"), reason);
        }
        snp_lost_tell(json_object_get(one, "lost"),
                      snp_json_bool(one, "image", false) ? SNP_LOST_IMAGE : "will be lost");
    }
}

/* Print the result; pid 0: no daemon ran. */
static int stop_print(const struct snp_cli *cli, uint64_t pid, json_t *lost)
{
    snp_autojson json_t *answer = NULL;

    if (!cli->is_json) {
        lost_print(lost);
        (void)(pid == 0 ? puts("not running") : printf("stopped, pid %" PRIu64 "\n", pid));
        return SNP_EXIT_OK;
    }
    answer = json_pack("{s:b}", "stopped", pid != 0);
    if (pid != 0) {
        (void)json_object_set_new(answer, "pid", json_integer((json_int_t)pid));
    }
    if (json_array_size(lost) > 0) {
        (void)json_object_set(answer, "lost", lost);
    }
    return snp_cli_print_json(answer);
}

/* A daemon older than this program does not know `force`, and always stops. */
static int shutdown_call(struct snp_cli *cli,
                         bool is_forced,
                         struct snp_reply *ret,
                         struct snp_err *err)
{
    int r = snp_remote_call(cli, SNP_WRITE(snp_shutdown_request, .force = is_forced), ret, err);

    return r == SNP_E_UNSUPPORTED && is_forced
               ? snp_remote_call(cli, SNP_WRITE(snp_shutdown_request, .force = false), ret, err)
               : r;
}

/* The daemon refused to stop: list the unsaved sessions with their reasons. */
static int refused_tell(struct snp_cli *cli, struct snp_err *err)
{
    snp_autoreply struct snp_reply stats = {0};
    struct snp_err ignored;

    if (stats_get(cli, &stats, &ignored) == 0) {
        snp_unsaved_tell(cli, json_object_get(stats.head, "unsaved"));
    }
    return snp_err_wrap(err, "the daemon still runs; --force stops it and discards unsaved work");
}

static int run_stop(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoreply struct snp_reply stats = {0};
    snp_autoreply struct snp_reply reply = {0};
    bool is_forced = snp_opts_flag(opts, "force", false);
    struct snp_stats_answer now;
    struct snp_err err;
    int r;

    cli->any_state = true;
    r = snp_remote_find(cli, &err);
    if (r == SNP_E_NOT_FOUND) {
        return stop_print(cli, 0, NULL);
    }
    r = r < 0 ? r : stats_get(cli, &stats, &err);
    snp_record_read(stats.head, &snp_stats_answer_form, &now);
    /* A daemon without a journal has no sessions, and cannot list them. */
    if (r == 0 && now.sessions > 0 && !is_forced) {
        r = unused_check(cli, &err);
    }
    if (r == 0) {
        r = shutdown_call(cli, is_forced, &reply, &err);
        r = r == SNP_E_DENIED ? refused_tell(cli, &err) : r;
    }
    return r < 0 ? snp_cli_fail(cli, &err)
                 : stop_print(cli, now.pid, json_object_get(reply.head, "lost"));
}

/* Verbs ----------------------------------------------------------------------------------- */

static const struct snp_opt status_options[] = {SNP_CLI_OPT_JSON};
static const struct snp_opt stop_options[] = {
    {"force", 'f', SNP_OPT_FLAG, NULL, "stop even if sessions run cells or cannot be saved", 0},
    SNP_CLI_OPT_JSON,
};

static const struct snp_verb verb_status = {
    .name = "status",
    .summary = "show whether the daemon runs",
    .spec = SNP_OPTIONS(status_options),
    .exit_codes = "0  the daemon runs\n1  it does not run, or does not answer\n2  usage error",
    .run = run_status,
};
static const struct snp_verb verb_stop = {
    .name = "stop",
    .summary = "stop the daemon; named sessions are saved",
    .description = "Stop the daemon. Named sessions are saved first; the next command starts a new "
                   "daemon (after an upgrade the new version), which finds them. Cells in unnamed "
                   "sessions end. If cells of sessions are running, it refuses; --force cuts them "
                   "off. If sessions cannot be saved, for example because the disk is full, it "
                   "names them and refuses; --force discards their unsaved work.",
    .spec = SNP_OPTIONS(stop_options),
    .exit_codes = "0  no daemon runs now\n1  failed, or a session runs a cell or cannot be "
                  "saved\n2  usage error",
    .run = run_stop,
};
static const struct snp_verb *const verbs[] = {&verb_status, &verb_stop, NULL};

const struct snp_verb snp_verb_daemon = {
    .name = "daemon",
    .summary = "show or stop the background process of all sessions",
    .verbs = verbs,
    .fallback = &verb_status,
};
