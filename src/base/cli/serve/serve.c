/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cli/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "base/cli/input.h"
#include "base/cli/need.h"
#include "base/cli/serve/setting.h"
#include "base/cli/spawn.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/wire/frame.h"

int snp_serve_hand_over(const struct snp_caller *caller, struct snp_err *err)
{
    static char program[] = "snipara-sandbox";
    static char verb[] = "serve-command";
    snp_autojson json_t *request =
        snp_need(json_pack("{s:I, s:O}", "id", (json_int_t)caller->id, "head", caller->head));
    snp_autofree char *text = snp_need(snp_json_text(request));
    snp_autoclose int fd = memfd_create(verb, MFD_CLOEXEC);

    if (fd < 0 || snp_write_all(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
        dup2(fd, STDIN_FILENO) < 0 || fcntl(caller->fd, F_SETFD, 0) < 0) {
        return snp_fail_sys(err, errno, "pass the request to snipara-sandbox");
    }
    return snp_become(program, (char *const[]){program, verb, NULL}, err);
}

int snp_serve_take_over(struct snp_caller *caller, struct snp_err *err)
{
    snp_autofree char *text = NULL;
    snp_autojson json_t *request = NULL;
    size_t n = 0;

    SNP_TRY(snp_read_input("-", 2 * (size_t)SNP_FRAME_HEAD_MAX, &text, &n, err));
    SNP_TRY(snp_json_parse(text, n, &request, err));
    snp_caller_begin(caller, (uint32_t)snp_json_int(request, "id", 0),
                     json_object_get(request, "head"), "", 0);
    return 0;
}

int snp_serve_verb(struct snp_cli *cli,
                   const struct snp_verb *verb,
                   const char *const *more,
                   struct snp_err *err)
{
    const struct snp_run_request *request = &snp_caller_of(cli)->request;
    snp_cleanup(snp_settings_done) struct snp_settings words = {0};
    snp_cleanup(snp_opts_freep) struct snp_opts *opts = NULL;

    if (request->folder != NULL && chdir(request->folder) < 0) {
        return errno == ENOENT
                   ? snp_fail(err, SNP_E_NOT_FOUND, "no such folder: %.200s", request->folder)
                   : snp_fail_sys(err, errno, "folder %.200s", request->folder);
    }
    cli->is_json = true;
    cli->verb = verb;
    SNP_TRY(snp_settings_read(&words, request->settings, verb, err));
    cli->settings = words.keys;
    for (; *more != NULL; more++) {
        snp_settings_add(&words, strdup(*more));
    }
    SNP_TRY(snp_opts_parse(&verb->spec, words.argc, words.argv, &opts, err));
    return verb->run(cli, opts);
}

static int command_run(struct snp_cli *cli,
                       const struct snp_verb *const *verbs,
                       struct snp_err *err)
{
    const json_t *words = snp_caller_of(cli)->command;
    size_t n = json_array_size(words);
    snp_autofree char **argv = snp_need(calloc(n + 1, sizeof(*argv)));
    snp_cleanup(snp_opts_freep) struct snp_opts *opts = NULL;

    for (size_t i = 0; i < n; i++) {
        argv[i] = (char *)(uintptr_t)json_string_value(json_array_get(words, i));
    }
    while (*verbs != NULL && !snp_streq(argv[0], (*verbs)->name)) {
        verbs++;
    }
    if (*verbs == NULL) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "programs cannot use the command '%.40s'",
                        argv[0] == NULL ? "" : argv[0]);
    }
    cli->verb = *verbs;
    cli->is_json = true;
    (void)snprintf(cli->command, sizeof(cli->command), "%s", cli->verb->name);
    SNP_TRY(snp_opts_parse(&cli->verb->spec, (int)n - 1, argv + 1, &opts, err));
    return snp_opts_help(opts) ? snp_fail(err, SNP_E_INVALID, "programs cannot use --help")
                               : cli->verb->run(cli, opts);
}

int snp_serve_command(struct snp_cli *cli, const struct snp_verb *const *verbs)
{
    struct snp_err err;
    int r = command_run(cli, verbs, &err);

    return r < 0 ? snp_cli_fail(cli, &err) : r;
}

int snp_serve(struct snp_cli *cli,
              struct snp_caller *caller,
              int (*serve)(struct snp_cli *cli, struct snp_err *err))
{
    struct snp_err err;
    int r;

    cli->listener = &caller->listener;
    r = serve(cli, &err);
    if (r >= 0) {
        (void)snp_fail(&err, SNP_E_INTERNAL, "the process ended without an answer");
    }
    snp_caller_fail(caller, &err); /* nothing if it is answered */
    cli->listener = NULL;
    return r < 0 ? SNP_EXIT_FAILED : r;
}
