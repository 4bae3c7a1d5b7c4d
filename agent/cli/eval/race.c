/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each candidate is a separate command (--attached: it ends with this process), with its session,
 * record and limits, so none sees another's work. A terminal's signal reaches all of them directly.
 */
#include "cli/eval/race.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/sandbox/sandbox.h"
#include "repair/verdict.h"

enum {
    OUT_MAX = 64 << 20,
    CHUNK = 64 << 10,
    WORDS = 10, /* added words */
};

struct racer {
    pid_t pid;
    int fd; /* owned: its standard output */
    struct snp_buf out;
    char *id;       /* owned: of its run; NULL: none was started */
    json_t *result; /* owned; NULL: none */
    int status;
};

struct race {
    struct snp_cli *cli;
    struct racer all[SNP_RACE_MAX];
    size_t n;
    size_t n_open;
    ssize_t winner;
};

static void race_done(struct race *race)
{
    for (size_t i = 0; i < race->n; i++) {
        snp_closep(&race->all[i].fd);
        snp_buf_done(&race->all[i].out);
        json_decref(race->all[i].result);
        free(race->all[i].id);
    }
}

/* The words of this command, with `more` before a `--`; the last value of an option wins. */
static char **argv_make(struct snp_cli *cli, const char *const *more)
{
    size_t n = 0;
    size_t at = 0;
    size_t dashes;
    char **argv;

    while (cli->argv[n] != NULL) {
        n++;
    }
    for (dashes = 0; dashes < n && strcmp(cli->argv[dashes], "--") != 0; dashes++) {
    }
    argv = snp_need(calloc(n + WORDS + 1, sizeof(*argv)));
    for (size_t i = 0; i < dashes; i++) {
        argv[at++] = cli->argv[i];
    }
    for (; *more != NULL; more++) {
        argv[at++] = (char *)(uintptr_t)*more;
    }
    for (size_t i = dashes; i < n; i++) {
        argv[at++] = cli->argv[i];
    }
    return argv;
}

static int candidate_start(struct race *race, char **argv, struct snp_err *err)
{
    struct racer *one = &race->all[race->n];
    posix_spawn_file_actions_t actions;
    int pair[2];
    int eno;

    if (pipe2(pair, O_CLOEXEC) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, pair[1], 1);
    eno = posix_spawn(&one->pid, "/proc/self/exe", &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    snp_closep(&pair[1]);
    if (eno != 0) {
        snp_closep(&pair[0]);
        return snp_fail_sys(err, eno, "run a candidate");
    }
    one->fd = pair[0];
    snp_buf_init(&one->out, OUT_MAX);
    race->n++;
    race->n_open++;
    return 0;
}

static void others_stop(const struct race *race)
{
    for (size_t i = 0; i < race->n; i++) {
        if (race->all[i].fd >= 0) {
            (void)kill(race->all[i].pid, SIGTERM); /* a normal, recorded end */
        }
    }
}

/* Store the result of a candidate that has ended. */
static void candidate_end(struct race *race, struct racer *one)
{
    struct snp_err ignored;
    char *rest = snp_need(snp_buf_cstr(&one->out));
    const char *line;
    int status = -1;

    snp_closep(&one->fd);
    race->n_open--;
    (void)SNP_RETRY(waitpid(one->pid, &status, 0));
    one->status = status;
    while ((line = strsep(&rest, "\n")) != NULL) { /* its record, and finally its result */
        json_t *object = NULL;

        if (snp_json_parse(line, strlen(line), &object, &ignored) < 0) {
            continue;
        }
        if (one->id == NULL && json_object_get(object, "trajectory_id") != NULL) {
            one->id = snp_need_copy(snp_json_str(object, "trajectory_id", ""));
        }
        if (json_object_get(object, "_type") == NULL &&
            json_object_get(object, "success") != NULL) {
            one->result = object;
            break;
        }
        json_decref(object);
    }
    if (status == 0 && one->result != NULL && race->winner < 0) {
        race->winner = one - race->all;
        others_stop(race);
    }
}

static void race_watch(struct race *race)
{
    char chunk[CHUNK];

    while (race->n_open > 0) {
        struct pollfd polled[SNP_RACE_MAX];

        for (size_t i = 0; i < race->n; i++) {
            polled[i] = (struct pollfd){.fd = race->all[i].fd, .events = POLLIN};
        }
        if (poll(polled, race->n, -1) < 0 && errno != EINTR) {
            return;
        }
        for (size_t i = 0; i < race->n; i++) {
            struct racer *one = &race->all[i];
            ssize_t got;

            if (one->fd < 0 || polled[i].revents == 0) {
                continue;
            }
            got = SNP_RETRY(read(one->fd, chunk, sizeof(chunk)));
            if (got <= 0 || snp_buf_add(&one->out, chunk, (size_t)got) < 0) {
                candidate_end(race, one);
            }
        }
    }
}

static const char *word_of(const struct racer *one)
{
    return snp_json_str(json_object_get(one->result, "verdict"), "verdict", "no verdict");
}

/* The winner, or without one the candidate with the best verdict. */
static size_t best_of(const struct race *race)
{
    static const char *const order[] = {snp_verdict_ready, snp_verdict_passed, snp_verdict_unproven,
                                        snp_verdict_failed};
    size_t best = 0;
    size_t rank = SNP_ARRAY_LEN(order) + 1;

    for (size_t i = 0; i < race->n && race->winner < 0; i++) {
        size_t own = 0;

        while (own < SNP_ARRAY_LEN(order) && strcmp(order[own], word_of(&race->all[i])) != 0) {
            own++;
        }
        own += race->all[i].result == NULL;
        if (own < rank) {
            rank = own;
            best = i;
        }
    }
    return race->winner < 0 ? best : (size_t)race->winner;
}

/*
 * Results of all candidates. Sessions of candidates that lost to the winner or were killed are
 * destroyed. New reference.
 */
static json_t *candidates_make(const struct race *race)
{
    json_t *list = snp_need(json_array());

    for (size_t i = 0; i < race->n; i++) {
        const json_t *result = race->all[i].result;
        const json_t *session = json_object_get(result, "session");
        bool is_gone = (race->winner >= 0 && (ssize_t)i != race->winner) || result == NULL;
        struct snp_err ignored;

        if (is_gone && race->all[i].id != NULL) { /* if killed, it may not have done so itself */
            snp_autofree char *name = snp_need_format("run-%.13s", race->all[i].id);

            (void)!snp_sandbox_end(race->cli, snipara_destroy(snp_sandbox(), name), NULL, &ignored);
        }
        (void)json_array_append_new(
            list, json_pack("{s:s?, s:s, s:O?, s:O?, s:O?, s:O?, s:b}", "trajectory_id",
                            race->all[i].id, "verdict", word_of(&race->all[i]), "stopped_by",
                            json_object_get(result, "stopped_by"), "total_tokens",
                            json_object_get(result, "total_tokens"), "total_cost",
                            json_object_get(result, "total_cost"), "session",
                            is_gone ? NULL : session, "chosen", (ssize_t)i == race->winner));
    }
    return list;
}

/* Store the list next to the evidence of the winner. */
static void candidates_keep(const json_t *result, const json_t *list)
{
    const char *folder = snp_json_str(json_object_get(result, "verdict"), "folder", NULL);
    snp_autofree char *path = snp_need_format("%s/candidates.json", folder == NULL ? "" : folder);
    snp_autofree char *text = snp_need(json_dumps(list, JSON_INDENT(1)));
    struct snp_err ignored;

    if (folder != NULL) {
        (void)!snp_file_write_atomic(path, text, strlen(text), 0600, &ignored);
    }
}

static void result_print(const json_t *result, const json_t *list)
{
    const char *answer = snp_json_str(result, "answer", "");
    const char *session = snp_json_str(result, "session", NULL);
    bool is_ready = strcmp(snp_json_str(json_object_get(result, "verdict"), "verdict", ""),
                           snp_verdict_ready) == 0;

    (void)!snp_term_write(stdout, answer, strlen(answer));
    (void)fputc('\n', stdout);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *by = snp_json_str(one, "stopped_by", NULL);

        (void)fprintf(stderr, "Candidate %zu: run %.8s, %s%s%s\n", i + 1,
                      snp_json_str(one, "trajectory_id", "-"), snp_json_str(one, "verdict", ""),
                      by == NULL ? "" : ", stopped: ", by == NULL ? "" : by);
    }
    if (session != NULL) {
        snp_term_printf(stderr, "Look at it and apply it with: snipara-sandbox apply %s%s\n",
                        session, is_ready ? "" : " --unverified");
    }
}

/* Ctrl-C reaches all candidates; this process ignores it. */
static bool was_interrupted(const struct race *race)
{
    for (size_t i = 0; i < race->n; i++) {
        if (WIFEXITED(race->all[i].status) &&
            WEXITSTATUS(race->all[i].status) == SNP_EXIT_SIGNAL + SIGINT) {
            return true;
        }
    }
    return false;
}

int snp_race_run(
    struct snp_cli *cli, const struct snp_opts *opts, size_t n, int64_t tokens, double cost_usd)
{
    snp_cleanup(race_done) struct race race = {.cli = cli, .winner = -1};
    snp_autofree char *share = snp_need_format("%lld", (long long)(tokens / (int64_t)n));
    snp_autofree char *cost = snp_need_format("%.6f", cost_usd / (double)n);
    const char *more[] = {"--candidates", "1",  "--budget", share, "--events", "--attached",
                          "--cost-limit", cost, NULL};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    snp_autofree char **argv = NULL;
    snp_autojson json_t *list = NULL;
    json_t *result;
    struct snp_err err;
    int r = 0;

    if (cost_usd < 0) {
        more[SNP_ARRAY_LEN(more) - 3] = NULL; /* keep the cost limit of the command */
    }
    if (snp_opts_given(opts, "output") || snp_opts_flag(opts, "events", false) ||
        cli->listener != NULL || strcmp(snp_opts_arg(opts, 0), "-") == 0) {
        return snp_cli_usage(cli, "--candidates cannot be combined with --output, --events or a "
                                  "task from standard input");
    }
    argv = argv_make(cli, more);
    while (race.n < n && r == 0) {
        r = candidate_start(&race, argv, &err);
    }
    /* after the start: a program inherits ignored signals. Each candidate handles them itself. */
    (void)sigaction(SIGINT, &ignore, NULL);
    if (r < 0) {
        others_stop(&race);
    }
    race_watch(&race);
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    result = race.all[best_of(&race)].result;
    list = candidates_make(&race);
    if (result == NULL || json_object_get(result, "trajectory_id") == NULL) {
        (void)snp_fail(
            &err, SNP_E_PEER, "no candidate has a result: %.150s",
            snp_json_str(result, "error", "all were killed or could not start (see above)"));
        return snp_cli_fail(cli, &err);
    }
    (void)json_object_set(result, "candidates", list);
    candidates_keep(result, list);
    if (!cli->is_json) {
        result_print(result, list);
    } else if (snp_cli_print_json(result) != SNP_EXIT_OK) {
        return SNP_EXIT_FAILED;
    }
    if (race.winner < 0 && was_interrupted(&race)) {
        cli->signal_no = SIGINT;
    }
    return race.winner >= 0 ? SNP_EXIT_OK : SNP_EXIT_FAILED;
}
