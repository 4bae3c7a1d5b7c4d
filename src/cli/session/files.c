/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `put`, `get`, `ls` of a session's files, and `output`, the full output of a cell.
 *
 * A file here appears under its name only when it is complete.
 */
#include "base/cli/session/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/policy/session_name.h"
#include "base/str.h"
#include "base/wire/file.h"
#include "base/wire/rpc.h"
#include "base/wire/session.h"
#include "cli/cli.h"
#include "cli/session/target.h"

enum {
    MARK_MAX = 64, /* of size and time */
    CREATED_MODE = 0644,
    OUTPUT_MAX_BYTES = 128 << 20, /* a stored stream has at most 64 MiB */
};

/* A file or folder of a session. */
struct session_path {
    char *session; /* owned */
    char *path;    /* owned */
};

static void place_done(struct session_path *place)
{
    free(place->session);
    free(place->path);
}
#define autoplace snp_cleanup(place_done)

/*
 * "SESSION:PATH", or PATH with --session; otherwise a plain word is a session. A missing path is
 * path_default, or refused if that is NULL.
 */
static int place_find(struct snp_cli *cli,
                      const struct snp_opts *opts,
                      const char *word,
                      const char *path_default,
                      struct session_path *ret,
                      struct snp_err *err)
{
    snp_autofree char *session = NULL;
    const char *path = NULL;
    int r = snp_remote_split(opts, word, ':', &session, &path, err);

    if (r == 0 && session == NULL && word != NULL) {
        path = NULL;
        session = snp_need_copy(word);
        r = snp_session_name_check(session, err);
        r = r < 0 ? snp_err_wrap(err, "'%.80s'", word) : 0;
    }
    path = path == NULL ? path_default : path;
    if (r == 0 && path == NULL) {
        const char *name = word != NULL ? word : session;

        r = name == NULL
                ? snp_fail(err, SNP_E_INVALID, "give SESSION:PATH")
                : snp_fail(err, SNP_E_INVALID, "'%.80s' names no file; give SESSION:PATH", name);
    }
    if (r < 0) {
        return r;
    }
    ret->path = snp_need_copy(path);
    return snp_remote_session(cli, session, &ret->session, err);
}

/* A path's last part; "" if it ends with a slash. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

/* put --------------------------------------------------------------------------------------- */

/* "-": standard input, of any kind. */
static int source_open(const char *path, int *ret_fd, struct stat *ret_stat, struct snp_err *err)
{
    snp_autoclose int fd = -1;
    int r = 0;

    if (snp_streq(path, "-")) {
        ret_stat->st_mode = CREATED_MODE;
        *ret_fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        return *ret_fd >= 0 ? 0 : snp_fail_sys(err, errno, "standard input");
    }
    r = snp_file_open(path, &fd, err);

    if (r == 0 && fstat(fd, ret_stat) < 0) {
        r = snp_fail_sys(err, errno, "open %s", path);
    }
    if (r == 0 && !S_ISREG(ret_stat->st_mode)) {
        r = snp_fail_with(err, SNP_E_INVALID,
                          S_ISDIR(ret_stat->st_mode) ? SNP_REMEDY_RECURSE : SNP_REMEDY_NONE, NULL,
                          0, "%s is not a regular file", path);
    }
    *ret_fd = r < 0 ? -1 : SNP_TAKE_FD(fd);
    return r;
}

/* One file or folder being copied; put and get set the place, and fill in the rest. */
struct copied {
    struct session_path place; /* owned */
    char *from;                /* owned */
    char *to;                  /* owned; NULL = standard output */
    struct snp_moved moved;
    bool is_tree;
    bool is_put;
};

static void copied_done(struct copied *copied)
{
    place_done(&copied->place);
    free(copied->from);
    free(copied->to);
}
#define autocopied snp_cleanup(copied_done)

static int copied_print(const struct copied *copied)
{
    const char *here = copied->is_put || copied->to == NULL ? copied->from : copied->to;
    snp_autojson json_t *answer =
        json_pack("{s:s, s:s, s:o, s:I, s:I, s:I}", "session", copied->place.session, "path",
                  copied->place.path, copied->is_put ? "source" : "destination",
                  snp_cli_path_json(here), "files", (json_int_t)copied->moved.files, "bytes",
                  (json_int_t)copied->moved.bytes, "left_out", (json_int_t)copied->moved.skipped);

    return snp_cli_print_json(answer);
}

/* "from -> to (3 files, 5 KiB)" */
static void copied_tell(const struct copied *copied)
{
    const struct snp_moved *moved = &copied->moved;

    if (copied->is_tree) {
        snp_term_printf(stderr, "%s -> %s (%" PRIu64 " file%s, %s)\n", copied->from, copied->to,
                        moved->files, moved->files == 1 ? "" : "s",
                        snp_human_bytes(moved->bytes).text);
    } else {
        snp_term_printf(stderr, "%s -> %s (%s)\n", copied->from, copied->to,
                        snp_human_bytes(moved->bytes).text);
    }
    if (moved->skipped > 0) {
        (void)fprintf(stderr, "Skipped %" PRIu64 " links, sockets or other special files.\n",
                      moved->skipped);
    }
}

/* End `put` and `get`: r < 0 is an earlier failure. */
static int copied_end(const struct snp_cli *cli,
                      const struct copied *copied,
                      int r,
                      const struct snp_err *err)
{
    if (r < 0) {
        return snp_cli_fail(cli, err);
    }
    if (cli->is_json) {
        return copied_print(copied);
    }
    if (copied->to != NULL) {
        copied_tell(copied);
    }
    return SNP_EXIT_OK;
}

/* A copy without the slashes at its end; owned. */
static char *trimmed(const char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    return snp_need(strndup(path, n));
}

/* "s:dir/" keeps the name of the source. */
static void name_keep(struct session_path *place, const char *name)
{
    char *whole = place->path;

    if (base_name(whole)[0] == '\0') {
        place->path = snp_need_format("%s%s", whole, name);
        free(whole);
    }
}

/* A mark on copied files, so that later changes by the user are noticed. */
static const char mark_name[] = "user.snipara-sandbox.copied";

static void mark_text(const struct stat *st, char out[MARK_MAX])
{
    (void)snprintf(out, MARK_MAX, "%lld %lld.%09ld", (long long)st->st_size,
                   (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

/* Without the mark, a file newer than the session is assumed to be changed. */
static void mark_set(const char *path)
{
    char text[MARK_MAX];
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        mark_text(&st, text);
        (void)!setxattr(path, mark_name, text, strlen(text), 0);
    }
}

/*
 * Refuse to overwrite a file that the user changed here since the session began; put and get leave
 * a mark.
 */
static int change_check(struct snp_cli *cli,
                        const char *session,
                        const char *path,
                        struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    char mark[MARK_MAX] = "";
    char text[MARK_MAX];
    struct stat st;

    if (snp_streq(path, "-") || lstat(path, &st) < 0 || !S_ISREG(st.st_mode)) {
        return 0;
    }
    mark_text(&st, text);
    if (getxattr(path, mark_name, mark, sizeof(mark) - 1) > 0 && strcmp(mark, text) == 0) {
        return 0;
    }
    SNP_TRY(snp_remote_call(cli, SNP_WRITE(snp_sessions_show_request, .session = session), &reply,
                            err));
    if ((double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec / 1e9 <=
        json_number_value(json_object_get(reply.head, "created"))) {
        return 0;
    }
    return snp_fail(err, SNP_E_DENIED,
                    "%.250s was changed here since the session began; --force replaces it", path);
}

static int put(struct snp_cli *cli,
               const struct snp_opts *opts,
               struct copied *copied,
               struct snp_err *err)
{
    const char *source = snp_opts_arg(opts, 0);
    struct session_path *place = &copied->place;
    snp_autofree char *real = copied->is_tree ? realpath(source, NULL) : NULL;
    bool is_stdin = !copied->is_tree && snp_streq(source, "-");
    const char *name = is_stdin ? NULL : base_name(real == NULL ? source : real);
    snp_autoclose int fd = -1;
    struct stat st = {0};
    struct snp_remote_file to = {.cli = cli};
    int r = !copied->is_tree ? source_open(source, &fd, &st, err)
            : real == NULL   ? snp_fail(err, SNP_E_NOT_FOUND, "%s: no such folder", source)
                             : 0;

    r = r < 0 ? r : place_find(cli, opts, snp_opts_arg(opts, 1), name, place, err);
    if (r == 0 && is_stdin && base_name(place->path)[0] == '\0') {
        r = snp_fail(err, SNP_E_INVALID, "standard input has no name to keep; give %s:%sNAME",
                     place->session, place->path);
    }
    if (r < 0) {
        return r;
    }
    name_keep(place, name);
    copied->from = copied->is_tree ? trimmed(source) : snp_need_copy(source);
    copied->to = snp_need_format("%s:%s", place->session, place->path);
    copied->moved.files = 1;
    to.session = place->session;
    to.path = place->path;
    to.mode = st.st_mode & 0777;
    if (copied->is_tree) {
        return snp_tree_put(&to, copied->from, &copied->moved, err);
    }
    r = snp_file_put(&to, fd, &copied->moved.bytes, err);
    if (r == 0 && !is_stdin) {
        mark_set(source);
    }
    return r;
}

static int run_put(struct snp_cli *cli, const struct snp_opts *opts)
{
    autocopied struct copied copied = {.is_tree = snp_opts_flag(opts, "recursive", false),
                                       .is_put = true};
    struct snp_err err;
    int r = put(cli, opts, &copied, &err);

    return copied_end(cli, &copied, r, &err);
}

/* get and output ------------------------------------------------------------------------------ */

/* The target of `get`: DEST, or DEST/NAME if that is a folder, or ./NAME; "-" = standard output. */
static char *destination(const char *dest, const char *path)
{
    struct stat st;

    if (dest == NULL) {
        return snp_need_copy(base_name(path));
    }
    return stat(dest, &st) == 0 && S_ISDIR(st.st_mode)
               ? snp_need_format("%s/%s", dest, base_name(path))
               : snp_need_copy(dest);
}

static int get_file(struct snp_remote_file *from, struct copied *copied, struct snp_err *err)
{
    snp_autotarget struct snp_target target = {.fd = -1};
    int r = snp_target_open(copied->to, true, &target, err);

    r = r < 0 ? r : snp_file_get(from, target.fd, &copied->moved, err);
    r = r < 0 ? r : snp_target_commit(&target, (int)from->mode, err);
    copied->moved.files = 1;
    if (r == 0) {
        mark_set(copied->to);
    }
    if (target.path == NULL) {
        free(SNP_TAKE_PTR(copied->to));
    }
    return r;
}

static int get(struct snp_cli *cli,
               const struct snp_opts *opts,
               struct copied *copied,
               struct snp_err *err)
{
    const char *dest = snp_opts_arg(opts, 1);
    struct session_path *place = &copied->place;
    struct snp_remote_file from = {.cli = cli, .mode = CREATED_MODE};
    char *path;
    int r = place_find(cli, opts, snp_opts_arg(opts, 0), copied->is_tree ? "." : NULL, place, err);

    if (r < 0) {
        return r;
    }
    if (!copied->is_tree && base_name(place->path)[0] == '\0') {
        return snp_fail_with(err, SNP_E_INVALID, SNP_REMEDY_RECURSE, NULL, 0, "'%s' names a folder",
                             snp_opts_arg(opts, 0));
    }
    if (!snp_utf8_valid(place->path, strlen(place->path))) {
        return snp_fail(err, SNP_E_INVALID, "the path is not UTF-8");
    }
    path = trimmed(place->path);
    free(place->path);
    place->path = path;
    /* A copy of the whole session gets the session's name. */
    copied->to = destination(dest, strcmp(path, ".") == 0 ? place->session : path);
    copied->from = snp_need_format("%s:%s", place->session, path);
    from.session = place->session;
    from.path = path;
    if (copied->is_tree) {
        return snp_tree_get(&from, copied->to, &copied->moved, err);
    }
    if (!snp_opts_flag(opts, "force", false)) {
        SNP_TRY(change_check(cli, place->session, copied->to, err));
    }
    return get_file(&from, copied, err);
}

static int run_get(struct snp_cli *cli, const struct snp_opts *opts)
{
    autocopied struct copied copied = {.is_tree = snp_opts_flag(opts, "recursive", false)};
    struct snp_err err;
    int r;

    if (snp_streq(snp_opts_arg(opts, 1), "-") && cli->is_json) {
        return snp_cli_usage(cli, "--json and - both use standard output; name a file");
    }
    r = get(cli, opts, &copied, &err);
    return copied_end(cli, &copied, r, &err);
}

/* Read all output of a cell: into kept, or (NULL) to standard output, escaped on a terminal. */
static int output_read(struct snp_cli *cli,
                       const struct snp_output_request *asked,
                       struct snp_buf *kept,
                       bool *ret_cut,
                       struct snp_err *err)
{
    struct snp_output_request piece = *asked;
    bool at_end = false;

    while (!at_end) {
        snp_autoreply struct snp_reply reply = {0};
        int r =
            snp_remote_call(cli, snp_record_write(&snp_output_request_form, &piece), &reply, err);
        SNP_READ(snp_output_answer, answer, reply.head);

        if (r < 0) {
            return r;
        }
        if (kept != NULL) {
            (void)snp_need(snp_buf_add(kept, reply.raw, reply.raw_len) < 0 ? NULL : kept);
        } else if (snp_term_write(stdout, reply.raw, reply.raw_len) < 0 || fflush(stdout) != 0) {
            return snp_fail_sys(err, errno, "write");
        }
        piece.offset += reply.raw_len;
        at_end = answer.eof || reply.raw_len == 0;
        *ret_cut = answer.truncated;
    }
    return 0;
}

/* Bytes that are not UTF-8 text are base64. */
static int output_print(const struct snp_output_request *asked,
                        const struct snp_buf *kept,
                        bool is_cut)
{
    const char *bytes = kept->len == 0 ? "" : snp_buf_bytes(kept);
    bool is_text = snp_utf8_valid(bytes, kept->len);
    snp_autofree char *coded = is_text ? NULL : snp_need(snp_base64(bytes, kept->len));
    snp_autojson json_t *answer =
        json_pack("{s:s, s:s, s:I, s:b, s:o}", "handle", asked->handle, "stream", asked->stream,
                  "bytes", (json_int_t)kept->len, "truncated", is_cut, is_text ? "text" : "base64",
                  is_text ? json_stringn(bytes, kept->len) : json_string(coded));

    return snp_cli_print_json(answer);
}

static int run_output(struct snp_cli *cli, const struct snp_opts *opts)
{
    const struct snp_output_request asked = {
        .handle = snp_opts_arg(opts, 0),
        .stream = snp_opts_flag(opts, "stderr", false) ? "stderr" : "stdout",
        .length = SNP_FILE_CHUNK_MAX,
    };
    snp_autobuf struct snp_buf kept = {0};
    bool is_cut = false;
    struct snp_err err;

    snp_buf_init(&kept, OUTPUT_MAX_BYTES);
    if (output_read(cli, &asked, cli->is_json ? &kept : NULL, &is_cut, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (cli->is_json) {
        return output_print(&asked, &kept, is_cut);
    }
    if (is_cut) {
        snp_term_printf(stderr, "truncated: the rest was not stored (limit 64 MiB a stream, if "
                                "the disk of the state folder has room)\n");
    }
    return SNP_EXIT_OK;
}

/* ls ------------------------------------------------------------------------------------------- */

static int ls_tell(struct snp_cli *cli, const char *about, const json_t *head)
{
    static const char *const heads[] = {"Name", "Type", "Size", "Modified"};
    struct snp_table table = SNP_TABLE(heads);
    SNP_READ(snp_ls_answer, answer, head);

    (void)cli;
    (void)about;
    for (size_t i = 0; i < json_array_size(answer.entries); i++) {
        SNP_READ(snp_ls_entry, entry, json_array_get(answer.entries, i));
        snp_table_add(&table, json_string_value(entry.name));
        snp_table_add(&table, entry.type);
        snp_table_add(&table, snp_human_bytes(entry.size).text);
        snp_table_add(&table, entry.mtime > 0 ? snp_human_when(entry.mtime).text : NULL);
    }
    snp_table_print(stdout, &table, "no files");
    if (answer.truncated) {
        (void)fputs("... and more\n", stderr);
    }
    return SNP_EXIT_OK;
}

static int run_ls(struct snp_cli *cli, const struct snp_opts *opts)
{
    autoplace struct session_path place = {0};
    struct snp_err err;
    int r = place_find(cli, opts, snp_opts_arg(opts, 0), ".", &place, &err);

    return snp_remote_end(cli, r, &err,
                          SNP_WRITE(snp_ls_request, .session = place.session, .path = place.path),
                          ls_tell, NULL);
}

/* Verbs ---------------------------------------------------------------------------------------- */

static const struct snp_opt_arg put_args[] = {
    {"SRC", "a regular file, - for standard input; with -r a folder", 1, 1},
    {"SESSION:PATH", "destination below /workspace; 'NAME:' keeps the file's name", 0, 1},
};
static const struct snp_opt_arg get_args[] = {
    {"SESSION:PATH", "a file of the session; with -r a folder", 0, 1},
    {"DEST", "file or folder here, - for standard output (default: the file's name)", 0, 1},
};
static const struct snp_opt_arg ls_args[] = {
    {"SESSION[:PATH]", "a folder of the session (default: /workspace)", 0, 1},
};
static const struct snp_opt_arg output_args[] = {
    {"HANDLE", "`output.handle` of a result", 1, 1},
};
static const struct snp_opt put_options[] = {
    {"recursive", 'r', SNP_OPT_FLAG, NULL, "copy a folder, without symbolic links", 0},
    SNP_CLI_OPT_SESSION_OF_PATH,
    SNP_CLI_OPT_JSON,
};
static const struct snp_opt get_options[] = {
    {"recursive", 'r', SNP_OPT_FLAG, NULL, "copy a folder to a new one, without symbolic links", 0},
    {"force", 'f', SNP_OPT_FLAG, NULL,
     "replace the file even if it was changed here since the "
     "session began",
     0},
    SNP_CLI_OPT_SESSION_OF_PATH,
    {"json", 0, SNP_OPT_FLAG, NULL, "print the copied files as JSON; not with -", 0},
};
static const struct snp_opt ls_options[] = {SNP_CLI_OPT_SESSION_OF_PATH, SNP_CLI_OPT_JSON};
static const struct snp_opt output_options[] = {
    {"stderr", 0, SNP_OPT_FLAG, NULL, "standard error instead of standard output", 0},
    SNP_CLI_OPT_JSON,
};

const struct snp_verb snp_verb_put = {
    .name = "put",
    .summary = "copy a file or folder into a session",
    .spec = SNP_SPEC(put_options, put_args),
    .examples = "put data.csv work:data.csv\nput -r data work:\nput data.csv -s work\n"
                "put - work:log <app.log",
    .run = run_put,
};
const struct snp_verb snp_verb_get = {
    .name = "get",
    .summary = "copy a file or folder out of a session",
    .spec = SNP_SPEC(get_options, get_args),
    .examples = "get work:plot.png\nget work:report.txt -\nget -r work:results",
    .run = run_get,
};
const struct snp_verb snp_verb_ls = {
    .name = "ls",
    .summary = "list a session's files",
    .spec = SNP_SPEC(ls_options, ls_args),
    .examples = "ls work\nls work:results --json",
    .run = run_ls,
};
const struct snp_verb snp_verb_output = {
    .name = "output",
    .summary = "print a cell's truncated output in full",
    .spec = SNP_SPEC(output_options, output_args),
    .run = run_output,
};
