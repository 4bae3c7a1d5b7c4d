/* SPDX-License-Identifier: Apache-2.0 */
/* `checkpoint`, `hibernate` and `gc`: session data on disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/human.h"
#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "base/cli/unsaved.h"
#include "base/str.h"
#include "base/wire/session.h"
#include "cli/cli.h"

static int checkpoint_tell(struct snp_cli *cli, const char *session, const json_t *answer)
{
    SNP_READ(snp_checkpoint_answer, made, answer);

    (void)cli;
    snp_term_printf(stdout,
                    "Saved %s after cell %" PRIu64 ": %" PRIu64 " item%s, %" PRIu64
                    " unchanged, %s written in %s\n",
                    session, made.cell, made.items, made.items == 1 ? "" : "s", made.same_items,
                    snp_human_bytes(made.written_bytes).text, snp_human_span(made.us).text);
    snp_lost_tell(made.lost, made.image ? SNP_LOST_IMAGE : "not saved");
    return SNP_EXIT_OK;
}

static int hibernate_tell(struct snp_cli *cli, const char *session, const json_t *answer)
{
    (void)cli;
    snp_term_printf(stdout, "Hibernated %s; the next cell wakes it.\n", session);
    snp_lost_tell(json_object_get(answer, "lost"),
                  snp_json_bool(answer, "image", false) ? SNP_LOST_IMAGE : "not saved");
    return SNP_EXIT_OK;
}

static int gc_tell(struct snp_cli *cli, const char *about, const json_t *answer)
{
    SNP_READ(snp_gc_answer, done, answer);
    struct snp_err err;

    (void)about;
    snp_term_printf(stdout, "Freed %s (%" PRIu64 " stored items); the journal uses %s.\n",
                    snp_human_bytes(done.freed_bytes).text, done.blobs,
                    snp_human_bytes(done.bytes).text);
    if (!done.is_met) {
        (void)snp_fail(
            &err, SNP_E_LIMIT,
            "the journal uses %s, more than its limit of %s: sessions and snapshots use all of "
            "it; make room with snapshots remove",
            snp_human_bytes(done.bytes).text, snp_human_bytes(done.budget_bytes).text);
        return snp_cli_fail(cli, &err);
    }
    return SNP_EXIT_OK;
}

static int run_gc(struct snp_cli *cli, const struct snp_opts *opts)
{
    static const char *const names[] = {"budget", "journal-budget"};
    int64_t sizes[SNP_ARRAY_LEN(names)];
    struct snp_err err;

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        const char *text = snp_opts_str(opts, names[i]);
        uint64_t bytes = 0;

        if (text != NULL && (snp_parse_bytes(text, &bytes) < 0 || bytes > INT64_MAX)) {
            return snp_cli_usage(cli, "--%s: '%.40s' is not a size; write it as 512m or 2g",
                                 names[i], text);
        }
        sizes[i] = text == NULL ? SNP_NO_NUMBER : (int64_t)bytes;
    }
    return snp_remote_end(
        cli, 0, &err, SNP_WRITE(snp_gc_request, .budget_bytes = sizes[0], .limit_bytes = sizes[1]),
        gc_tell, NULL);
}

static const struct snp_opt session_options[] = {SNP_CLI_OPT_SESSION, SNP_CLI_OPT_JSON};
static const struct snp_opt gc_options[] = {
    {"budget", 'b', SNP_OPT_STRING, "SIZE",
     "how much may stay, such as 2g (default: all that is in use)", 0},
    {"journal-budget", 0, SNP_OPT_STRING, "SIZE",
     "let the running daemon use that much for its journal until it ends", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg session_args[] = {SNP_CLI_ARG_SESSION};

const struct snp_verb snp_verb_checkpoint = {
    .name = "checkpoint",
    .summary = "save a session to disk now",
    .description = "Write a session's variables and files to disk now, so that the session "
                   "survives a power cut. Idle sessions are saved without this command. "
                   "Unchanged variables and files are not written again. Variables that cannot "
                   "be saved (open sockets, generators, threads) are named.",
    .spec = SNP_SPEC(session_options, session_args),
    .examples = "checkpoint work\ncheckpoint work --json",
    .run = snp_remote_ask,
    .request = &snp_checkpoint_request_form,
    .tell = checkpoint_tell,
};
const struct snp_verb snp_verb_hibernate = {
    .name = "hibernate",
    .summary = "save a session to disk and free its memory",
    .description = "Write a session to disk and end its processes. The next cell wakes it. "
                   "Sessions that are idle for long hibernate automatically.",
    .spec = SNP_SPEC(session_options, session_args),
    .examples = "hibernate work",
    .run = snp_remote_ask,
    .request = &snp_hibernate_request_form,
    .tell = hibernate_tell,
};
const struct snp_verb snp_verb_gc = {
    .name = "gc",
    .summary = "free disk space that no session needs",
    .description =
        "Remove contents that no session, snapshot or result refers to. With --budget, also "
        "remove the oldest outputs until the rest fits. Sessions and snapshots are never "
        "removed; if they alone exceed the budget, the command reports it and exits with 1.",
    .spec = SNP_OPTIONS(gc_options),
    .examples = "gc\ngc --budget 2g --json\ngc --journal-budget 16g",
    .run = run_gc,
};
