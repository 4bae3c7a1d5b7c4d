/* SPDX-License-Identifier: Apache-2.0 */
/* `export` and `import`: a session as one file, for another machine. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/session/files.h"
#include "cli/show/lost.h"
#include "cli/show/term.h"
#include "cli/tier.h"
#include "policy/session_name.h"
#include "wire/rpc.h"
#include "wire/snapshot.h"

enum {
    SIZE_MAX_BYTES = 32,
};

/* export --------------------------------------------------------------------------------------- */

/* A file on its way: a temporary beside its place, a device, or standard output (path NULL). */
struct sink {
    const char *path; /* borrowed */
    char *temporary;  /* owned; removed unless taken into place; NULL = written into directly */
    int fd;           /* owned unless standard output */
    uint64_t bytes;
};

static void sink_done(struct sink *sink)
{
    if (sink->temporary != NULL) {
        (void)unlink(sink->temporary);
    }
    if (sink->path != NULL) {
        snp_closep(&sink->fd);
    }
    free(sink->temporary);
}

static int sink_open(struct sink *sink, bool replace, struct snp_err *err)
{
    char id[33];
    struct stat st;
    int special = -1;
    int r = snp_place_open(sink->path, &special, err);

    if (r < 0) {
        return r;
    }
    if (special >= 0) {
        sink->fd = special;
        return 0;
    }
    if (!replace && lstat(sink->path, &st) == 0) {
        return snp_fail(err, SNP_E_DENIED, "%s is there already; --force replaces it",
                        sink->path);
    }
    if (snp_random_id(id) < 0) {
        return snp_fail_sys(err, errno, "random name");
    }
    sink->temporary = snp_format("%s.%s.part", sink->path, id);
    if (sink->temporary == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    sink->fd =
        open(sink->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (sink->fd < 0) {
        int eno = errno;

        free(SNP_TAKE_PTR(sink->temporary)); /* not ours to remove */
        return snp_fail_sys(err, eno, "create %s", sink->path);
    }
    return 0;
}

static int sink_commit(struct sink *sink, struct snp_err *err)
{
    if (sink->temporary == NULL) {
        return 0; /* standard output, a device or a FIFO */
    }
    if (fsync(sink->fd) < 0 || rename(sink->temporary, sink->path) < 0) {
        return snp_fail_sys(err, errno, "write %s", sink->path);
    }
    free(SNP_TAKE_PTR(sink->temporary));
    return 0;
}

static int on_data(
    void *ctx, const json_t *head, const char *raw, size_t raw_len, struct snp_err *err)
{
    struct sink *sink = ctx;

    if (!snp_streq(snp_json_str(head, "event", NULL), "data")) {
        return snp_fail(err, SNP_E_PEER, "the daemon sent an unknown event");
    }
    if (snp_write_all(sink->fd, raw, raw_len) < 0) {
        return snp_fail_sys(err, errno, "write %s",
                            sink->path == NULL ? "standard output" : sink->path);
    }
    sink->bytes += raw_len;
    return 0;
}

static int export_to(struct snp_client *client,
                     const struct snp_opts *opts,
                     const char *from,
                     struct sink *sink,
                     struct snp_reply *ret,
                     struct snp_err *err)
{
    snp_autojson json_t *head = SNP_WRITE(snp_export_request, .from = from);
    struct snp_call call = {.head = head, .event = on_data, .ctx = sink};
    int r = 0;

    if (head == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (sink->path != NULL) {
        r = sink_open(sink, snp_opts_flag(opts, "force", false), err);
    }
    if (r == 0) {
        r = snp_client_call(client, &call, ret, err);
    }
    return r < 0 ? r : sink_commit(sink, err);
}

/* The session or snapshot, as a word, with -s, or NAME of it as the one and it as the other. *ret: NULL = not said. */
static int source_find(const struct snp_opts *opts, char **ret, struct snp_err *err)
{
    const char *word = snp_opts_arg(opts, 1);
    const char *given = snp_opts_str(opts, "session");

    if (given != NULL && strchr(given, '@') != NULL &&
        (word == NULL || snp_streq(word, given))) {
        word = given; /* a snapshot */
    } else {
        return snp_remote_moment_of(opts, word, ret, err);
    }
    if (snp_remote_ref_check(word, err) < 0) {
        return err->code;
    }
    *ret = strdup(word);
    return *ret == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

static int run_export(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply reply = {0};
    snp_autofree char *from = NULL;
    const char *path = snp_opts_arg(opts, 0);
    snp_autofree char *given = NULL;
    bool is_stdout = strcmp(path, "-") == 0;
    struct sink sink = {.path = is_stdout ? NULL : path, .fd = is_stdout ? STDOUT_FILENO : -1};
    char size[SIZE_MAX_BYTES];
    struct snp_err err;
    int r;

    if (sink.path == NULL && snp_term_is(stdout)) {
        return snp_cli_usage(cli, "an archive is not for a terminal; give a file");
    }
    if (sink.path == NULL && snp_opts_flag(opts, "json", false)) {
        return snp_cli_usage(cli, "--json and - both want standard output; name a file");
    }
    r = source_find(opts, &given, &err);
    r = r < 0 ? r : snp_remote_connect(false, &client, &err);
    if (r == 0 && given != NULL && strchr(given, '@') != NULL) {
        from = strdup(given); /* a snapshot */
        r = from == NULL ? snp_fail(&err, SNP_E_NOMEM, "out of memory") : 0;
    } else if (r == 0) {
        r = snp_remote_session(client, given, &from, &err);
    }
    if (r == 0) {
        r = export_to(client, opts, from, &sink, &reply, &err);
    }
    sink_done(&sink);
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "json", false) && sink.path != NULL) {
        return snp_cli_print_json(reply.head);
    }
    (void)fprintf(stderr, "%s -> %s (%s)\n", from, path,
                  snp_format_bytes(sink.bytes, size, sizeof(size)));
    snp_lost_tell(json_object_get(reply.head, "lost"), "not in the file");
    return SNP_EXIT_OK;
}

/* import --------------------------------------------------------------------------------------- */

static int source_open(const char *path, int *ret_fd, struct snp_err *err)
{
    struct stat st;
    snp_autoclose int fd = -1;

    if (strcmp(path, "-") == 0) {
        *ret_fd = STDIN_FILENO;
        return 0;
    }
    /* Not blocking, so that a FIFO is refused and not waited for. */
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        return snp_fail(err, SNP_E_NOT_FOUND, "there is no file %s", path);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return snp_fail_sys(err, errno, "open %s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return snp_fail(err, SNP_E_INVALID, "%s is not a regular file", path);
    }
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}

static int chunk_send(struct snp_client *client,
                      const char *token,
                      const char *bytes,
                      size_t n,
                      struct snp_err *err)
{
    snp_autojson json_t *head = SNP_WRITE(snp_import_data_request, .token = token);
    snp_autoreply struct snp_reply reply = {0};
    struct snp_call call = {.head = head, .raw = bytes, .raw_len = n};

    if (head == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return snp_client_call(client, &call, &reply, err);
}

static int file_send(struct snp_client *client, const char *token, int fd, struct snp_err *err)
{
    snp_autofree char *chunk = malloc(SNP_FILE_CHUNK_MAX);

    if (chunk == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    for (;;) {
        ssize_t n = snp_read_all(fd, chunk, SNP_FILE_CHUNK_MAX);
        int r;

        if (n < 0) {
            return snp_fail_sys(err, errno, "read the file");
        }
        if (n == 0) {
            return 0;
        }
        r = chunk_send(client, token, chunk, (size_t)n, err);
        if (r < 0) {
            return r;
        }
    }
}

/* What sessions made here may have: the file may have less, not more. */
static json_t *begin_head(const struct snp_config *config,
                          const struct snp_opts *opts,
                          const char *name)
{
    snp_autojson json_t *has = NULL;
    struct snp_limits limits;

    snp_config_limits(config, &limits);
    has = snp_limits_to_json(&limits);
    return SNP_WRITE(snp_import_begin_request, .name = name, .limits = has,
                     .tier = snp_cli_tier(config),
                     .allow_degraded = snp_opts_flag(opts, "allow-degraded", false),
                     .require_exact = snp_config_bool(config, SNP_KEY_REQUIRE_EXACT));
}

/* The import ends with the connection, whatever happened: nothing half-read stays. */
static int import_from(int fd, json_t *head, struct snp_reply *ret, struct snp_err *err)
{
    snp_autoclient struct snp_client *client = NULL;
    snp_autoreply struct snp_reply begun = {0};
    const char *token;
    int r = snp_remote_connect(false, &client, err);

    if (r < 0) {
        json_decref(head);
        return r;
    }
    r = snp_remote_call(client, head, &begun, err);
    if (r < 0) {
        return r;
    }
    token = snp_json_str(begun.head, "token", "");
    r = file_send(client, token, fd, err);
    return r < 0 ? r
                 : snp_remote_call(client, SNP_WRITE(snp_import_end_request, .token = token),
                                   ret, err);
}

static int run_import(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autoconfig struct snp_config *config = NULL;
    snp_autoreply struct snp_reply reply = {0};
    const char *path = snp_opts_arg(opts, 0);
    const char *name = snp_opts_str(opts, "name");
    struct snp_err err;
    int fd = -1;
    int r = name == NULL ? 0 : snp_session_name_check(name, &err);

    if (r < 0) {
        (void)snp_err_wrap(&err, "--name '%.80s'", name);
    }
    if (r == 0) {
        r = snp_cli_config(cli, &snp_verb_import, opts, &config, &err);
    }
    if (r == 0) {
        r = snp_cli_tier_check(config, &err);
    }
    if (r == 0) {
        snp_cli_tier_stand_in(cli, config);
        r = source_open(path, &fd, &err);
    }
    if (r == 0) {
        r = import_from(fd, begin_head(config, opts, name), &reply, &err);
        if (r == SNP_E_INVALID) {
            r = snp_err_wrap(&err, "%.100s", path);
        }
    }
    if (fd > STDERR_FILENO) {
        snp_closep(&fd);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (snp_opts_flag(opts, "json", false)) {
        return snp_cli_print_json(reply.head);
    }
    (void)printf("%s\n", snp_json_str(reply.head, "name", "?"));
    (void)fflush(stdout);
    for (size_t i = 0; i < json_array_size(json_object_get(reply.head, "notes")); i++) {
        const char *note =
            json_string_value(json_array_get(json_object_get(reply.head, "notes"), i));

        snp_cli_warn(cli, "%s", note == NULL ? "?" : note);
    }
    snp_lost_tell(json_object_get(reply.head, "lost"), "was not in the file");
    snp_lost_tell(json_object_get(reply.head, "failed"), "could not be restored");
    return SNP_EXIT_OK;
}

static const struct snp_opt export_options[] = {
    {"session", 's', SNP_OPT_STRING, "NAME", "the same as SESSION or SESSION@NAME", 0},
    {"force",   'f', SNP_OPT_FLAG,   NULL,   "replace FILE",                        0},
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt import_options[] = {
    {"name",           0,   SNP_OPT_STRING, "NAME",
     "name of the session here (default: the name in the file)",         0                    },
    {"env",            'e', SNP_OPT_STRING, "TIER",
     "where it runs: native, local (weaker), or auto (default)",         SNP_KEY_ENVIRONMENT  },
    SNP_CLI_OPT_LIMITS,
    {"allow-degraded", 0,   SNP_OPT_FLAG,   NULL,
     "make the session even if this host lacks a control",               0                    },
    {"require-exact",  0,   SNP_OPT_BOOL,   NULL,
     "refuse if a control or limit is missing or only approximate here", SNP_KEY_REQUIRE_EXACT},
    SNP_CLI_OPT_CONFIG,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt_arg export_args[] = {
    {"FILE",    "file to write; - is standard output",                                       1, 1},
    {"SESSION",
     "the session, or a snapshot: SESSION@NAME; may be left out if only one session exists", 0,
     1                                                                                           },
};
static const struct snp_opt_arg import_args[] = {
    {"FILE", "file that export wrote; - is standard input", 1, 1}
};

const struct snp_verb snp_verb_export = {
    .name = "export",
    .summary = "write a session to a file, for another machine",
    .description = "Write a session's variables, files, limits and history into one file. "
                   "Variables that cannot be saved are named. The file is not encrypted; "
                   "protect it as you would the session.",
    .spec = {export_options, SNP_ARRAY_LEN(export_options), export_args,
             SNP_ARRAY_LEN(export_args), false},
    .examples = "export work.snp work\nexport - -s work@loaded | ssh host snipara-sandbox "
                "import - --name work",
    .run = run_export,
};
const struct snp_verb snp_verb_import = {
    .name = "import",
    .summary = "make a session from an exported file",
    .description = "Make a session from a file that export wrote. The file is not trusted: its "
                   "variables are read inside the new sandbox only, and its limits are cut to "
                   "those that new sessions get here. Variables need the same Python and "
                   "packages here; what does not fit is named.",
    .spec = {import_options, SNP_ARRAY_LEN(import_options), import_args,
             SNP_ARRAY_LEN(import_args), false},
    .examples = "import work.snp --name work",
    .run = run_import,
};
