/* SPDX-License-Identifier: Apache-2.0 */
/* `checkpoint`, `hibernate` and `gc`: what of sessions is on disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/show/human.h"
#include "cli/show/lost.h"
#include "cli/show/term.h"
#include "wire/session.h"

enum {
    SIZE_MAX_BYTES = 32,
};

/* A method with a session and nothing else; its answer in *ret. */
static int session_call(const struct snp_record *form,
                        const struct snp_opts *opts,
                        char **ret_session,
                        struct snp_reply *ret,
                        struct snp_err *err)
{
    snp_autoclient struct snp_client *client = NULL;
    struct snp_checkpoint_request asked; /* that of hibernate is the same */
    int r = snp_remote_connect(false, &client, err);

    if (r == 0) {
        r = snp_remote_session_of(client, opts, ret_session, err);
    }
    if (r == 0) {
        asked.session = *ret_session;
        r = snp_remote_call(client, snp_record_write(form, &asked), ret, err);
    }
    return r;
}

static void checkpoint_tell(const json_t *answer, const char *session)
{
    char size[SIZE_MAX_BYTES];
    char span[SNP_HUMAN_MAX];
    long long items = (long long)snp_json_int(answer, "items", 0);
    long long same = (long long)snp_json_int(answer, "same_items", 0);

    (void)printf("Saved %s after cell %lld: %lld items, %lld unchanged, %s written in %s\n",
                 session, (long long)snp_json_int(answer, "cell", 0), items, same,
                 snp_format_bytes((uint64_t)snp_json_int(answer, "written_bytes", 0), size,
                                  sizeof(size)),
                 snp_human_span((uint64_t)snp_json_int(answer, "us", 0), span, sizeof(span)));
    snp_lost_tell(json_object_get(answer, "lost"), "not saved");
}

static int run_checkpoint(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoreply struct snp_reply reply = {0};
    snp_autofree char *session = NULL;
    struct snp_err err;
    int r = session_call(&snp_checkpoint_request_form, opts, &session, &reply, &err);

    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "json", false)) {
        return snp_cli_print_json(reply.head);
    }
    checkpoint_tell(reply.head, session);
    return SNP_EXIT_OK;
}

static int run_hibernate(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoreply struct snp_reply reply = {0};
    snp_autofree char *session = NULL;
    struct snp_err err;
    int r = session_call(&snp_hibernate_request_form, opts, &session, &reply, &err);

    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "json", false)) {
        return snp_cli_print_json(reply.head);
    }
    (void)printf("Hibernated %s; the next cell wakes it.\n", session);
    snp_lost_tell(json_object_get(reply.head, "lost"), "not saved");
    return SNP_EXIT_OK;
}

static int run_gc(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply reply = {0};
    const char *budget = snp_opts_str(opts, "budget");
    uint64_t bytes = 0;
    json_t *head;
    char freed[SIZE_MAX_BYTES];
    char left[SIZE_MAX_BYTES];
    struct snp_err err;
    int r;

    if (budget != NULL && (snp_parse_bytes(budget, &bytes) < 0 || bytes > INT64_MAX)) {
        return snp_cli_usage(cli, "--budget: '%.40s' is no size; write it as 512m or 2g",
                             budget);
    }
    r = snp_remote_connect(false, &client, &err);
    if (r == 0) {
        head = SNP_WRITE(snp_gc_request,
                         .budget_bytes = budget == NULL ? SNP_NO_NUMBER : (int64_t)bytes);
        r = snp_remote_call(client, head, &reply, &err);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "json", false)) {
        return snp_cli_print_json(reply.head);
    }
    (void)printf(
        "freed %s, %lld contents; %s are left\n",
        snp_format_bytes((uint64_t)snp_json_int(reply.head, "freed_bytes", 0), freed,
                         sizeof(freed)),
        (long long)snp_json_int(reply.head, "blobs", 0),
        snp_format_bytes((uint64_t)snp_json_int(reply.head, "bytes", 0), left, sizeof(left)));
    if (!snp_json_bool(reply.head, "is_met", true)) {
        (void)snp_fail(&err, SNP_E_LIMIT,
                       "%s are left, more than the %s they may take: all of it is in use by "
                       "sessions and snapshots; make room with: snapshots remove, sessions "
                       "destroy (export keeps a copy)",
                       left,
                       snp_format_bytes((uint64_t)snp_json_int(reply.head, "budget_bytes", 0),
                                        freed, sizeof(freed)));
        return snp_cli_fail(cli, &err);
    }
    return SNP_EXIT_OK;
}

static const struct snp_opt session_options[] = {SNP_CLI_OPT_SESSION, SNP_CLI_OPT_JSON};
static const struct snp_opt gc_options[] = {
    {"budget", 'b', SNP_OPT_STRING, "SIZE",
     "how much may stay, such as 2g (default: all that is in use)", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg session_args[] = {SNP_CLI_ARG_SESSION};

const struct snp_verb snp_verb_checkpoint = {
    .name = "checkpoint",
    .summary = "write a session to disk now",
    .description = "Write a session's variables and files to disk now, so that the session "
                   "survives a power cut. Idle sessions are saved without this command. "
                   "Unchanged variables and files are not written again. Variables that cannot "
                   "be saved (open sockets, generators, threads) are named.",
    .spec = {session_options, SNP_ARRAY_LEN(session_options), session_args,
             SNP_ARRAY_LEN(session_args), false},
    .examples = "checkpoint work\ncheckpoint work --json",
    .run = run_checkpoint,
};
const struct snp_verb snp_verb_hibernate = {
    .name = "hibernate",
    .summary = "write a session to disk and free its memory",
    .description = "Write a session to disk and end its processes. The next cell wakes it. "
                   "Sessions that are idle for long hibernate without this command.",
    .spec = {session_options, SNP_ARRAY_LEN(session_options), session_args,
             SNP_ARRAY_LEN(session_args), false},
    .examples = "hibernate work",
    .run = run_hibernate,
};
const struct snp_verb snp_verb_gc = {
    .name = "gc",
    .summary = "free disk space that no session needs",
    .description =
        "Remove contents that no session, snapshot or result refers to. With --budget, also "
        "remove the oldest outputs until the rest fits. Sessions and snapshots are never "
        "removed; if they alone take more, it says so and exits with 1.",
    .spec = {gc_options, SNP_ARRAY_LEN(gc_options), NULL, 0, false},
    .examples = "gc\ngc --budget 2g --json",
    .run = run_gc,
};
