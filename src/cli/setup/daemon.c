/* SPDX-License-Identifier: Apache-2.0 */
/* `daemon status` and `daemon stop`; neither starts one. */
#include <stdio.h>
#include <string.h>

#include "base/rundir.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/show/lost.h"
#include "wire/rpc.h"
#include "wire/session.h"

enum {
    NAMES_SHOWN = 5,
    NAMES_MAX_BYTES = 1024,
};

/* SNP_E_NOT_FOUND: none runs. */
static int daemon_find(struct snp_client **ret, struct snp_err *err)
{
    const struct snp_client_options options = {.has_start = false, .signal_fd = -1};

    return snp_client_connect(&options, ret, err);
}

/* status ---------------------------------------------------------------------------------- */

static int status_get(struct snp_client *client, json_t **ret, struct snp_err *err)
{
    snp_autoreply struct snp_reply hello = {0};
    snp_autoreply struct snp_reply stats = {0};
    snp_autofree char *socket = NULL;
    int r = snp_remote_call(client, SNP_WRITE(snp_hello_request, .version = SNP_RPC_VERSION),
                            &hello, err);

    if (r == 0) {
        r = snp_remote_call(client, snp_record_write(&snp_stats_request_form, NULL), &stats,
                            err);
    }
    if (r == 0) {
        r = snp_socket_path(&socket, err);
    }
    if (r < 0) {
        return r;
    }
    *ret = json_pack("{s:b, s:s, s:I, s:I, s:I, s:I, s:s}", "running", true, "version",
                     snp_json_str(hello.head, "program", "?"), "pid",
                     (json_int_t)snp_json_int(stats.head, "pid", 0), "uptime_ms",
                     (json_int_t)snp_json_int(hello.head, "uptime_ms", 0), "sessions",
                     (json_int_t)snp_json_int(stats.head, "sessions", 0), "rss_bytes",
                     (json_int_t)snp_json_int(stats.head, "rss_bytes", 0), "socket", socket);
    return *ret == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

static void status_print(const json_t *status)
{
    (void)printf(
        "running: version %s, pid %lld, up %lld s, %lld sessions, %s\n",
        snp_json_str(status, "version", "?"), (long long)snp_json_int(status, "pid", 0),
        (long long)(snp_json_int(status, "uptime_ms", 0) / 1000),
        (long long)snp_json_int(status, "sessions", 0), snp_json_str(status, "socket", "?"));
}

static int run_status(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autojson json_t *status = NULL;
    bool as_json = snp_opts_flag(opts, "json", false);
    struct snp_err err;
    int r = daemon_find(&client, &err);

    if (r == SNP_E_NOT_FOUND) {
        status = json_pack("{s:b}", "running", false);
        if (!as_json) {
            (void)puts("not running; the next command that needs the daemon starts it");
        } else if (snp_cli_print_json(status) != 0) {
            return SNP_EXIT_FAILED;
        }
        return SNP_EXIT_FAILED;
    }
    if (r == 0) {
        r = status_get(client, &status, &err);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (as_json) {
        return snp_cli_print_json(status);
    }
    status_print(status);
    return SNP_EXIT_OK;
}

/* stop ------------------------------------------------------------------------------------ */

/* SNP_E_DENIED, naming some, if cells run in named sessions: the end would cut them off. Idle ones are saved. */
static int unused_check(struct snp_client *client, struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    char names[NAMES_MAX_BYTES] = "";
    size_t n = 0;
    size_t i;
    json_t *item;
    int r = snp_remote_call(client, snp_record_write(&snp_sessions_list_request_form, NULL),
                            &reply, err);

    if (r < 0) {
        return r;
    }
    json_array_foreach(json_object_get(reply.head, "sessions"), i, item)
    {
        const char *name = snp_json_str(item, "name", NULL);
        size_t used = strlen(names);

        if (name != NULL && snp_streq(snp_json_str(item, "state", ""), "running") &&
            n++ < NAMES_SHOWN) {
            (void)snprintf(names + used, sizeof(names) - used, "%s%s", n > 1 ? ", " : "", name);
        }
    }
    return n == 0 ? 0
                  : snp_fail(err, SNP_E_DENIED,
                             "%zu sessions run a cell, which would be cut off (%.120s%s): "
                             "--force does it all the same",
                             n, names, n > NAMES_SHOWN ? ", ..." : "");
}

/* What became of it; pid 0: none ran. */
/* What of sessions will not come back. */
static void lost_print(const json_t *lost)
{
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)(uintptr_t)lost, i, one)
    {
        const char *reason = snp_json_str(one, "reason", "");

        if (reason[0] != '\0') {
            (void)fprintf(stderr, "session %s: %s\n", snp_json_str(one, "session", "?"),
                          reason);
        }
        snp_lost_tell(json_object_get(one, "lost"), "will not come back");
    }
}

static int stop_print(const struct snp_opts *opts, int64_t pid, json_t *lost)
{
    snp_autojson json_t *answer = NULL;

    if (!snp_opts_flag(opts, "json", false)) {
        lost_print(lost);
        (void)(pid == 0 ? puts("not running") : printf("stopped, pid %lld\n", (long long)pid));
        return SNP_EXIT_OK;
    }
    answer = json_pack("{s:b}", "stopped", pid != 0);
    if (answer == NULL ||
        (pid != 0 && json_object_set_new(answer, "pid", json_integer(pid)) < 0) ||
        (json_array_size(lost) > 0 && json_object_set(answer, "lost", lost) < 0)) {
        return SNP_EXIT_FAILED;
    }
    return snp_cli_print_json(answer);
}

static int run_stop(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply stats = {0};
    snp_autoreply struct snp_reply reply = {0};
    struct snp_err err;
    int r = daemon_find(&client, &err);

    if (r == SNP_E_NOT_FOUND) {
        return stop_print(opts, 0, NULL);
    }
    if (r == 0) {
        r = snp_remote_call(client, snp_record_write(&snp_stats_request_form, NULL), &stats,
                            &err);
    }
    /* One that cannot open its journal has none, and cannot say which. */
    if (r == 0 && snp_json_int(stats.head, "sessions", 1) > 0 &&
        !snp_opts_flag(opts, "force", false)) {
        r = unused_check(client, &err);
    }
    if (r == 0) {
        r = snp_remote_call(client, snp_record_write(&snp_shutdown_request_form, NULL), &reply,
                            &err);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    return stop_print(opts, snp_json_int(stats.head, "pid", 0),
                      json_object_get(reply.head, "lost"));
}

/* Verbs ----------------------------------------------------------------------------------- */

static const struct snp_opt status_options[] = {SNP_CLI_OPT_JSON};
static const struct snp_opt stop_options[] = {
    {"force", 'f', SNP_OPT_FLAG, NULL, "even if sessions run cells", 0},
    SNP_CLI_OPT_JSON,
};

static const struct snp_verb verb_status = {
    .name = "status",
    .summary = "say whether the daemon runs",
    .spec = {status_options, SNP_ARRAY_LEN(status_options), NULL, 0, false},
    .exit_codes = "0  it runs\n1  it does not, or cannot be asked\n2  used wrongly",
    .run = run_status,
};
static const struct snp_verb verb_stop = {
    .name = "stop",
    .summary = "stop the daemon; named sessions are saved",
    .description =
        "Stop the daemon. Named sessions are saved first; the next command starts a new daemon "
        "(after an upgrade the new version), which finds them. Unnamed cells end. While "
        "sessions run cells it refuses, unless --force is given, which cuts the cells off.",
    .spec = {stop_options, SNP_ARRAY_LEN(stop_options), NULL, 0, false},
    .exit_codes = "0  no daemon runs now\n1  failed, or a session runs a cell\n2  used wrongly",
    .run = run_stop,
};
static const struct snp_verb *const verbs[] = {&verb_status, &verb_stop, NULL};

const struct snp_verb snp_verb_daemon = {
    .name = "daemon",
    .summary = "the background process of all sessions: status, stop",
    .verbs = verbs,
    .fallback = &verb_status,
};
