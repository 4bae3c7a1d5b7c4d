/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a run or command started through the library (src/library/run.c): the request
 * becomes the words of a verb, which runs it. It is not a child of the program, which need not wait
 * for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli/need.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/run/caller.h"
#include "cli/run/setting.h"
#include "main/verbs.h"

enum {
    CALLER_FD = 3,
};

static int request_check(const struct snp_caller *caller, struct snp_err *err)
{
    const struct snp_run_request *request = &caller->request;
    bool has_prompt = caller->prompt[0] != '\0';

    if (caller->is_settings) {
        return 0;
    }
    if (has_prompt == (request->resume != NULL)) {
        return snp_fail(err, SNP_E_INVALID,
                        has_prompt ? "a resumed run takes no prompt"
                                   : "the prompt is empty, or not UTF-8 text");
    }
    if (request->system != NULL && (request->agent || request->resume != NULL)) {
        return snp_fail(err, SNP_E_INVALID, "system: not accepted by an agent or a resumed run");
    }
    return 0;
}

/* Parse the requested words and run their verb. */
static int verb_run(struct snp_cli *cli, struct snp_settings *words, struct snp_err *err)
{
    const struct snp_run_request *request = &snp_caller_of(cli)->request;
    const char *prompt = snp_caller_of(cli)->prompt;
    snp_cleanup(snp_opts_freep) struct snp_opts *opts = NULL;
    int r;

    if (request->system != NULL) {
        snp_settings_add(words, snp_format("--system=%s", request->system));
    }
    if (!snp_caller_of(cli)->is_settings) {
        snp_settings_add(words, strdup("--"));
        snp_settings_add(words, strdup(request->resume != NULL ? request->resume : prompt));
    }
    r = snp_opts_parse(&cli->verb->spec, words->argc, words->argv, &opts, err);
    return r < 0 ? r : cli->verb->run(cli, opts);
}

/* Verbs that never ask without a terminal, and answer by snp_cli_end(). */
static const struct snp_verb *const commands[] = {&snp_verb_diff, &snp_verb_export,
                                                  &snp_verb_import, &snp_verb_apply};

static int command_run(struct snp_cli *cli, struct snp_err *err)
{
    const json_t *words = snp_caller_of(cli)->command;
    size_t n = json_array_size(words);
    snp_autofree char **argv = snp_need(calloc(n + 1, sizeof(*argv)));
    snp_cleanup(snp_opts_freep) struct snp_opts *opts = NULL;

    for (size_t i = 0; i < n; i++) {
        argv[i] = (char *)(uintptr_t)json_string_value(json_array_get(words, i));
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(commands); i++) {
        if (snp_streq(argv[0], commands[i]->name)) {
            cli->verb = commands[i];
        }
    }
    if (cli->verb == &snp_verb_serve_run) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "programs cannot use the command '%.40s'",
                        argv[0] == NULL ? "" : argv[0]);
    }
    cli->is_json = true;
    (void)snprintf(cli->command, sizeof(cli->command), "%s", cli->verb->name);
    SNP_TRY(snp_opts_parse(&cli->verb->spec, (int)n - 1, argv + 1, &opts, err));
    return snp_opts_help(opts) ? snp_fail(err, SNP_E_INVALID, "programs cannot use --help")
                               : cli->verb->run(cli, opts);
}

static int command(struct snp_cli *cli)
{
    struct snp_err err;
    int r = command_run(cli, &err);

    return r < 0 ? snp_cli_fail(cli, &err) : r;
}

static int serve(struct snp_cli *cli)
{
    struct snp_caller *caller = snp_caller_of(cli);
    const char *folder = caller->request.folder;
    snp_cleanup(snp_settings_done) struct snp_settings words = {0};
    struct snp_err err;
    int r = request_check(caller, &err);

    if (r == 0 && folder != NULL && chdir(folder) < 0) {
        r = errno == ENOENT ? snp_fail(&err, SNP_E_NOT_FOUND, "no such folder: %.200s", folder)
                            : snp_fail_sys(&err, errno, "folder %.200s", folder);
    }
    cli->is_json = true;
    cli->verb = caller->is_settings              ? snp_verb_config.fallback
                : caller->request.resume != NULL ? &snp_verb_resume
                : caller->request.agent          ? &snp_verb_agent
                                                 : &snp_verb_run;
    r = r < 0 ? r : snp_settings_read(&words, caller->request.settings, cli->verb, &err);
    if (r == 0) {
        cli->settings = words.keys;
        r = verb_run(cli, &words, &err);
    }
    if (r < 0) {
        snp_caller_fail(caller, &err);
    }
    return r < 0 ? SNP_EXIT_FAILED : r;
}

static int serve_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_caller_done) struct snp_caller caller = {.fd = -1};
    struct snp_err err;
    pid_t pid = fork();
    int exit_code;

    (void)opts;
    if (pid != 0) {
        _exit(pid < 0 ? SNP_EXIT_FAILED : SNP_EXIT_OK);
    }
    snp_caller_init(&caller, CALLER_FD);
    (void)fcntl(CALLER_FD, F_SETFD, FD_CLOEXEC);
    if (snp_caller_open(&caller, &err) < 0) {
        return SNP_EXIT_FAILED;
    }
    cli->listener = &caller.listener;
    exit_code = caller.command != NULL ? command(cli) : serve(cli);
    (void)snp_fail(&err, SNP_E_INTERNAL, "the process ended without an answer");
    snp_caller_fail(&caller, &err);
    cli->listener = NULL;
    return exit_code;
}

static const struct snp_opt no_options[1];

const struct snp_verb snp_verb_serve_run = {
    .name = "serve-run",
    .summary = "the process of a run that a program began with the library",
    .spec = {.options = no_options},
    .run = serve_run,
};
