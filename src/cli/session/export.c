/* SPDX-License-Identifier: Apache-2.0 */
/* `export` and `import`: a session as one file, for another machine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "base/cli/unsaved.h"
#include "base/fd.h"
#include "base/policy/session_name.h"
#include "base/session/tier.h"
#include "base/str.h"
#include "base/wire/rpc.h"
#include "base/wire/snapshot.h"
#include "cli/cli.h"
#include "cli/session/target.h"

/* export --------------------------------------------------------------------------------------- */

/* The output file while it is written. */
struct sink {
    struct snp_target target;
    uint64_t bytes;
};

static int on_data(
    void *ctx, const json_t *head, const char *raw, size_t raw_len, struct snp_err *err)
{
    struct sink *sink = ctx;

    if (!snp_streq(snp_json_str(head, "event", NULL), "data")) {
        return snp_fail(err, SNP_E_PEER, "the daemon sent an unknown event");
    }
    if (snp_write_all(sink->target.fd, raw, raw_len) < 0) {
        return snp_fail_sys(err, errno, "write %s",
                            sink->target.path == NULL ? "standard output" : sink->target.path);
    }
    sink->bytes += raw_len;
    return 0;
}

static int export_to(struct snp_cli *cli,
                     const struct snp_opts *opts,
                     const char *from,
                     struct sink *sink,
                     struct snp_reply *ret,
                     struct snp_err *err)
{
    snp_autojson json_t *head = snp_need(SNP_WRITE(snp_export_request, .from = from));
    const struct snp_call call = {.head = head, .event = on_data, .ctx = sink};
    int r = snp_target_open(snp_opts_arg(opts, 0), snp_opts_flag(opts, "force", false),
                            &sink->target, err);

    r = r < 0 ? r : snp_remote_send(cli, &call, ret, err);
    return r < 0 ? r : snp_target_commit(&sink->target, -1, err);
}

/* The session or snapshot, as a word, with -s, or one as each. *ret: NULL = not given. */
static int source_find(const struct snp_opts *opts, char **ret, struct snp_err *err)
{
    const char *word = snp_opts_arg(opts, 1);
    const char *given = snp_opts_str(opts, "session");

    if (given != NULL && strchr(given, '@') != NULL && (word == NULL || snp_streq(word, given))) {
        word = given; /* a snapshot */
    } else {
        return snp_remote_moment_of(opts, word, ret, err);
    }
    *ret = snp_need_copy(word);
    return snp_remote_ref_check(word, err);
}

static int run_export(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoreply struct snp_reply reply = {0};
    snp_autofree char *from = NULL;
    const char *path = snp_opts_arg(opts, 0);
    snp_autofree char *given = NULL;
    bool is_stdout = strcmp(path, "-") == 0;
    struct sink sink = {.target = {.fd = -1}};
    struct snp_err err;
    int r;

    if (is_stdout && snp_term_is(stdout)) {
        return snp_cli_usage(cli, "cannot write an archive to a terminal; give a file");
    }
    if (is_stdout && cli->is_json) {
        return snp_cli_usage(cli, "--json and - both use standard output; name a file");
    }
    r = source_find(opts, &given, &err);
    if (r == 0 && given != NULL && strchr(given, '@') != NULL) {
        from = SNP_TAKE_PTR(given); /* a snapshot */
    } else if (r == 0) {
        r = snp_remote_session(cli, given, &from, &err);
    }
    r = r < 0 ? r : export_to(cli, opts, from, &sink, &reply, &err);
    snp_target_done(&sink.target);
    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, reply.head);
    }
    snp_term_printf(stderr, "%s -> %s (%s)\n", from, path, snp_human_bytes(sink.bytes).text);
    snp_lost_tell(json_object_get(reply.head, "lost"), "not in the file");
    return SNP_EXIT_OK;
}

/* import --------------------------------------------------------------------------------------- */

static int source_open(const char *path, int *ret_fd, struct snp_err *err)
{
    struct stat st;
    snp_autoclose int fd = -1;
    int r = strcmp(path, "-") == 0 ? 0 : snp_file_open(path, &fd, err);

    if (r == 0 && fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        r = snp_fail(err, SNP_E_INVALID, "%s is not a regular file", path);
    }
    *ret_fd = SNP_TAKE_FD(fd); /* -1: standard input */
    return r;
}

static int file_send(struct snp_cli *cli, const char *token, int fd, struct snp_err *err)
{
    snp_autofree char *chunk = snp_need(malloc(SNP_FILE_CHUNK_MAX));
    snp_autojson json_t *head = snp_need(SNP_WRITE(snp_import_data_request, .token = token));
    ssize_t n = 1;
    int r = 0;

    while (r == 0 && n > 0) {
        snp_autoreply struct snp_reply reply = {0};
        struct snp_call call = {.head = head, .raw = chunk};

        n = snp_read_all(fd, chunk, SNP_FILE_CHUNK_MAX);
        call.raw_len = n > 0 ? (size_t)n : 0;
        r = n < 0   ? snp_fail_sys(err, errno, "read the file")
            : n > 0 ? snp_remote_send(cli, &call, &reply, err)
                    : 0;
    }
    return r;
}

/*
 * Limits of the file are capped by those of new sessions here; limits on the command line replace
 * both.
 */
static json_t *begin_head(const struct snp_config *config,
                          const struct snp_opts *opts,
                          const char *name)
{
    snp_autojson json_t *given = snp_config_limits_explicit(config);
    snp_autojson json_t *has = NULL;
    struct snp_limits limits;

    snp_config_limits(config, &limits);
    has = snp_limits_to_json(&limits);
    return SNP_WRITE(snp_import_begin_request, .name = name, .limits = has,
                     .given = json_object_size(given) > 0 ? given : NULL,
                     .tier = snp_cli_tier_to_stay(config),
                     .allow_degraded = snp_opts_flag(opts, "allow-degraded", false),
                     .require_exact = snp_config_bool(config, SNP_KEY_REQUIRE_EXACT));
}

/* The import ends with the connection in every case: nothing half-read stays. */
static int import_from(
    struct snp_cli *cli, int fd, json_t *head, struct snp_reply *ret, struct snp_err *err)
{
    snp_autoreply struct snp_reply begun = {0};
    int r = snp_remote_call(cli, head, &begun, err);
    SNP_READ(snp_import_begin_answer, answer, begun.head);

    r = r < 0 ? r : file_send(cli, answer.token, fd, err);
    return r < 0 ? r
                 : snp_remote_call(cli, SNP_WRITE(snp_import_end_request, .token = answer.token),
                                   ret, err);
}

static int run_import(struct snp_cli *cli, const struct snp_opts *opts)
{
    const struct snp_config *config = NULL;
    snp_autoreply struct snp_reply reply = {0};
    const char *path = snp_opts_arg(opts, 0);
    const char *name = snp_opts_str(opts, "name");
    struct snp_import_end_answer made;
    struct snp_err err;
    snp_autoclose int fd = -1;
    size_t i;
    json_t *note;
    int r = name == NULL ? 0 : snp_session_name_check(name, &err);

    if (r < 0) {
        (void)snp_err_wrap(&err, "--name '%.80s'", name);
    }
    r = r < 0 ? r : snp_cli_config(cli, opts, &config, &err);
    r = r < 0 ? r : snp_cli_tier_check(config, &err);
    r = r < 0 ? r : source_open(path, &fd, &err);
    if (r == 0) {
        r = import_from(cli, fd < 0 ? STDIN_FILENO : fd, begin_head(config, opts, name), &reply,
                        &err);
        if (r == SNP_E_INVALID) {
            r = snp_err_wrap(&err, "%.100s", path);
        }
    }
    if (r < 0 || cli->is_json) {
        return snp_cli_end(cli, r, &err, reply.head);
    }
    snp_record_read(reply.head, &snp_import_end_answer_form, &made);
    (void)printf("%s\n", made.name);
    (void)fflush(stdout);
    json_array_foreach(made.notes, i, note)
    {
        snp_cli_warn(cli, "%s", json_string_value(note));
    }
    snp_lost_tell(made.lost, "was not in the file");
    snp_lost_tell(made.failed, "could not be restored");
    return SNP_EXIT_OK;
}

static const struct snp_opt export_options[] = {
    {"session", 's', SNP_OPT_STRING, "NAME", "the same as SESSION or SESSION@NAME", 0},
    {"force", 'f', SNP_OPT_FLAG, NULL, "replace FILE", 0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt import_options[] = {
    {"name", 0, SNP_OPT_STRING, "NAME", "name of the session here (default: the name in the file)",
     0},
    {"env", 'e', SNP_OPT_STRING, "TIER", "tier: native, docker, local (weaker), or auto (default)",
     SNP_KEY_ENVIRONMENT},
    SNP_CLI_OPT_LIMITS,
    {"allow-degraded", 0, SNP_OPT_FLAG, NULL, "make the session even if this host lacks a control",
     0},
    {"require-exact", 0, SNP_OPT_BOOL, NULL,
     "refuse if a control or limit is missing or only approximate here", SNP_KEY_REQUIRE_EXACT},
    SNP_CLI_OPT_CONFIG,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg export_args[] = {
    {"FILE", "file to write; - is standard output", 1, 1},
    {"SESSION", "the session, or a snapshot: SESSION@NAME (default: the only session)", 0, 1},
};
static const struct snp_opt_arg import_args[] = {
    {"FILE", "file that export wrote; - is standard input", 1, 1}};

const struct snp_verb snp_verb_export = {
    .name = "export",
    .summary = "write a session to a file, for another machine",
    .description = "Write a session's variables, files, limits and history into one file. "
                   "Variables that cannot be saved are named. The file is not encrypted; "
                   "protect it as you would the session.",
    .spec = SNP_SPEC(export_options, export_args),
    .examples = "export work.snp work\nexport - -s work@loaded | ssh host snipara-sandbox "
                "import - --name work",
    .run = run_export,
};
const struct snp_verb snp_verb_import = {
    .name = "import",
    .summary = "make a session from an exported file",
    .description = "Make a session from a file that export wrote. The file is not trusted: its "
                   "variables are read inside the new sandbox only, and its limits are lowered to "
                   "those of new sessions here. Limits that you give override those of the file. "
                   "Variables need the same Python and packages here; those that cannot be "
                   "restored are named.",
    .spec = SNP_SPEC(import_options, import_args),
    .examples = "import work.snp --name work",
    .run = run_import,
};
