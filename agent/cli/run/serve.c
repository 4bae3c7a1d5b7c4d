/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a run or command started through the library (src/library/run.c). It is not a
 * child of the program, which need not wait for it.
 */
#include "base/cli/serve/serve.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/cli/need.h"
#include "base/str.h"
#include "main/verbs.h"

static int request_check(const struct snp_caller *caller, struct snp_err *err)
{
    const struct snp_run_request *request = &caller->request;
    bool has_prompt = caller->prompt[0] != '\0';

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

static int serve(struct snp_cli *cli, struct snp_err *err)
{
    static const struct snp_verb *const commands[] = {&snp_verb_apply, NULL};
    const struct snp_caller *caller = snp_caller_of(cli);
    const struct snp_run_request *request = &caller->request;
    const struct snp_verb *verb = request->resume != NULL ? &snp_verb_resume
                                  : request->agent        ? &snp_verb_agent
                                                          : &snp_verb_run;
    snp_autofree char *system =
        request->system == NULL ? NULL : snp_need_format("--system=%s", request->system);
    const char *const more[] = {"--", request->resume != NULL ? request->resume : caller->prompt,
                                NULL};
    const char *const with_system[] = {system, more[0], more[1], NULL};

    if (caller->is_settings ||
        (caller->command != NULL &&
         !snp_streq(json_string_value(json_array_get(caller->command, 0)), snp_verb_apply.name))) {
        return snp_serve_hand_over(caller, err);
    }
    if (caller->command != NULL) {
        return snp_serve_command(cli, commands);
    }
    SNP_TRY(request_check(caller, err));
    return snp_serve_verb(cli, verb, system == NULL ? more : with_system, err);
}

static int serve_run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_cleanup(snp_caller_done) struct snp_caller caller = {.fd = -1};
    struct snp_err err;
    pid_t pid = fork();

    (void)opts;
    if (pid != 0) {
        _exit(pid < 0 ? SNP_EXIT_FAILED : SNP_EXIT_OK);
    }
    snp_caller_init(&caller, SNP_SERVE_FD);
    (void)fcntl(SNP_SERVE_FD, F_SETFD, FD_CLOEXEC);
    return snp_caller_open(&caller, &err) < 0 ? SNP_EXIT_FAILED : snp_serve(cli, &caller, serve);
}

static const struct snp_opt no_options[1];

const struct snp_verb snp_verb_serve_run = {
    .name = "serve-run",
    .summary = "the process of a run that a program began with the library",
    .spec = {.options = no_options},
    .run = serve_run,
};
