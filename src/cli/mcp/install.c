/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mcp-install`: write our entry into the configuration of an MCP client, after showing the change.
 * A project may be hostile: its links must not redirect the write, and other users' files are not
 * touched.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/text/text.h"
#include "cli/cli.h"
#include "cli/mcp/clients.h"
#include "cli/mcp/serve.h"

enum {
    FILE_MAX = 4 << 20,
    CHANGE_MAX = 8 * FILE_MAX, /* both texts, each line with a mark */
};

/* Showing -------------------------------------------------------------------------------------- */

struct line_cursor {
    const char *text;
    size_t n;
    size_t at; /* of the current line */
};

/* The next line without its end; NULL after the last. */
static const char *line_next(struct line_cursor *lines, size_t *ret_n)
{
    const char *line = lines->text + lines->at;
    const char *end;

    if (lines->at >= lines->n) {
        return NULL;
    }
    end = memchr(line, '\n', lines->n - lines->at);
    *ret_n = end == NULL ? lines->n - lines->at : (size_t)(end - line);
    lines->at += *ret_n + 1;
    return line;
}

static int line_add(struct snp_buf *out, char mark, const char *line, size_t n)
{
    int r = snp_buf_add(out, &mark, 1);

    r = r < 0 ? r : snp_buf_add(out, line, n);
    return r < 0 ? r : snp_buf_add(out, "\n", 1);
}

/* Bytes of whole lines that both texts begin with. */
static size_t common_begin(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t lines = 0;

    for (size_t i = 0; i < n_a && i < n_b && a[i] == b[i]; i++) {
        lines = a[i] == '\n' ? i + 1 : lines;
    }
    return lines;
}

/* The same for the ends, at most `max` bytes. */
static size_t common_end(const char *a, size_t n_a, const char *b, size_t n_b, size_t max)
{
    size_t lines = 0;

    for (size_t i = 1; i <= max && a[n_a - i] == b[n_b - i]; i++) {
        bool is_begin = i == n_a || a[n_a - i - 1] == '\n';

        lines = is_begin ? i : lines;
    }
    return lines;
}

static int part_add(struct snp_buf *out, char mark, const char *text, size_t n)
{
    struct line_cursor lines = {text, n, 0};
    const char *line;
    size_t len = 0;
    int r = 0;

    while (r == 0 && (line = line_next(&lines, &len)) != NULL) {
        r = line_add(out, mark, line, len);
    }
    return r;
}

/* The lines between the common beginning and end, with - and +. */
static int change_text(const char *old,
                       size_t n_old,
                       const struct snp_buf *made,
                       struct snp_buf *out)
{
    const char *text = snp_buf_bytes(made);
    size_t begin = common_begin(old, n_old, text, made->len);
    size_t most = (n_old < made->len ? n_old : made->len) - begin;
    size_t end = common_end(old, n_old, text, made->len, most);

    int r = part_add(out, '-', old + begin, n_old - begin - end);

    return r < 0 ? r : part_add(out, '+', text + begin, made->len - begin - end);
}

/* The file ------------------------------------------------------------------------------------- */

/* The file to change. */
struct target {
    char *path; /* owned; links resolved */
    unsigned mode;
    char *text; /* owned; current content, "" = no file */
    size_t n;
};

static void target_done(struct target *target)
{
    free(target->path);
    free(target->text);
    *target = (struct target){0};
}
#define autotarget snp_cleanup(target_done)

/* The deepest existing folder above path, links resolved; the caller frees. */
static char *folder_of(const char *path)
{
    snp_autofree char *folder = snp_need_copy(path);
    char *slash = folder == NULL ? NULL : strrchr(folder, '/');
    char *real = NULL;

    while (slash != NULL && slash != folder && real == NULL) {
        *slash = '\0';
        real = realpath(folder, NULL);
        slash = strrchr(folder, '/');
    }
    return real;
}

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Check a new file: a link in place of its folder must not lead out of the project. */
static int target_new(const struct snp_mcp_place *place, struct target *target, struct snp_err *err)
{
    snp_autofree char *folder = folder_of(place->path);
    struct stat st;

    if (lstat(place->path, &st) == 0) {
        return snp_fail(err, SNP_E_INVALID, "%s is a link to a missing file", place->path);
    }
    if (folder == NULL || (place->project != NULL && !is_below(folder, place->project))) {
        return snp_fail(err, SNP_E_DENIED, "%s is a link out of the project; edit it by hand",
                        place->path);
    }
    target->path = snp_need_copy(place->path);
    target->text = snp_need_copy("");
    target->mode = place->project == NULL ? 0600 : 0644; /* users' own files may hold tokens */
    return 0;
}

static int target_open(const struct snp_mcp_place *place,
                       struct target *target,
                       struct snp_err *err)
{
    struct stat st;

    target->path = realpath(place->path, NULL);
    if (target->path == NULL && errno == ENOENT) {
        return target_new(place, target, err);
    }
    if (target->path == NULL || stat(target->path, &st) < 0) {
        return snp_fail_sys(err, errno, "%s", place->path);
    }
    if (place->project != NULL && !is_below(target->path, place->project)) {
        return snp_fail(err, SNP_E_DENIED,
                        "%s is a link to %s, out of the project; edit it by hand", place->path,
                        target->path);
    }
    if (st.st_uid != geteuid()) {
        return snp_fail(err, SNP_E_DENIED, "%s belongs to user %u; run this as that user",
                        target->path, st.st_uid);
    }
    target->mode = st.st_mode & 0777U;
    return snp_file_read(target->path, FILE_MAX, &target->text, &target->n, err);
}

/* Check that the file is unchanged since the change was shown, or still missing. */
static int target_check(const struct snp_mcp_place *place,
                        const struct target *target,
                        struct snp_err *err)
{
    autotarget struct target now = {0};
    int r = target_open(place, &now, err);

    if (r < 0) {
        return r;
    }
    return strcmp(now.path, target->path) == 0 && now.n == target->n &&
                   memcmp(now.text, target->text, now.n) == 0
               ? 0
               : snp_fail(err, SNP_E_DENIED,
                          "%s was changed by another program; nothing was "
                          "written",
                          target->path);
}

static int target_write(const struct snp_mcp_place *place,
                        const struct target *target,
                        const struct snp_buf *text,
                        struct snp_err *err)
{
    snp_autofree char *folder = snp_need_copy(target->path);
    int r;

    *strrchr(folder, '/') = '\0';
    r = folder[0] == '\0' ? 0 : snp_mkdir_p(folder, 0755, err);
    r = r < 0 ? r : target_check(place, target, err);
    return r < 0 ? r
                 : snp_file_write_atomic(target->path, snp_buf_bytes(text), text->len, target->mode,
                                         err);
}

/* The verb ------------------------------------------------------------------------------------- */

static const struct snp_opt options[] = {
    {"yes", 'y', SNP_OPT_FLAG, NULL, "write without asking", 0},
    {"http", 0, SNP_OPT_STRING, "[HOST:]PORT|URL",
     "let the client connect to a server that you start with mcp-serve --http", 0},
    {"token-file", 0, SNP_OPT_STRING, "FILE", "with --http: the file with that server's token", 0},
    {"no-token", 0, SNP_OPT_FLAG, NULL, "with --http: the server needs no token", 0},
    SNP_MCP_OPT_SERVED,
    SNP_CLI_OPT_CONFIG,
    SNP_CLI_OPT_JSON,
};

static const struct snp_opt_arg args[] = {
    {"CLIENT", "claude, claude-desktop, cursor, vscode, codex, gemini or qwen", 1, 1},
};

/* Whether the user agrees; our question must not mix with JSON. */
static bool is_agreed(const struct snp_cli *cli, const struct snp_opts *opts)
{
    struct snp_err err;

    if (snp_opts_flag(opts, "yes", false)) {
        return true;
    }
    if (!snp_cli_can_ask()) {
        (void)snp_fail(&err, SNP_E_DENIED, "nothing was written; --yes writes it");
        (void)snp_cli_fail(cli, &err);
        return false;
    }
    if (!snp_cli_confirm("Write this?")) {
        (void)fputs("nothing was written\n", stderr);
        return false;
    }
    return true;
}

/* change: NULL = none. */
static int answer_print(const struct target *target, const struct snp_buf *change, bool written)
{
    snp_autojson json_t *answer =
        json_pack("{s:o, s:b, s:o}", "file", snp_cli_path_json(target->path), "written", written,
                  "change", change == NULL ? json_null() : snp_text_json(change));

    return snp_cli_print_json(answer);
}

/* Show the change before asking; with JSON it goes to standard error. */
static void change_show(FILE *out, const struct target *target, const struct snp_buf *change)
{
    (void)fprintf(out, "%s:\n", target->path);
    (void)!snp_term_write(out, snp_buf_bytes(change), change->len);
}

static int install(struct snp_cli *cli,
                   const struct snp_opts *opts,
                   const struct snp_mcp_place *place,
                   const struct target *target,
                   const struct snp_buf *made)
{
    bool as_json = cli->is_json;
    snp_autobuf struct snp_buf change = {0};
    struct snp_err err;
    bool agreed;
    int r;

    if (made->len == target->n && memcmp(snp_buf_bytes(made), target->text, target->n) == 0) {
        if (as_json) {
            return answer_print(target, NULL, false);
        }
        snp_term_printf(stdout, "%s already has it.\n", target->path);
        return SNP_EXIT_OK;
    }
    snp_buf_init(&change, CHANGE_MAX);
    r = change_text(target->text, target->n, made, &change);
    (void)snp_need(r < 0 ? NULL : &change);
    if (!as_json || snp_cli_can_ask()) {
        change_show(as_json ? stderr : stdout, target, &change);
    }
    agreed = is_agreed(cli, opts);
    r = agreed ? target_write(place, target, made, &err) : 0;
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (as_json && answer_print(target, &change, agreed) != SNP_EXIT_OK) {
        return SNP_EXIT_FAILED;
    }
    if (agreed && !as_json) {
        (void)printf("Saved. Restart the client. It may ask you to approve the server.\n");
    }
    return agreed ? SNP_EXIT_OK : SNP_EXIT_FAILED;
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    const char *client = snp_opts_arg(opts, 0);
    snp_autoplace struct snp_mcp_place place = {0};
    snp_autoentry struct snp_mcp_entry wanted = {0};
    autotarget struct target target = {0};
    snp_autobuf struct snp_buf made = {0};
    struct snp_err err;
    int r = snp_mcp_client_place(client, &place, &err);

    snp_buf_init(&made, 2 * (size_t)FILE_MAX);
    r = r < 0 ? r : snp_mcp_entry_make(cli, opts, &wanted, &err);
    if (r == SNP_E_INVALID) {
        return snp_cli_usage(cli, "%s", err.msg);
    }
    r = r < 0 ? r : target_open(&place, &target, &err);
    if (r == 0) {
        r = snp_mcp_client_edit(client, &wanted, target.text, target.n, &made, &err);
        (void)(r < 0 ? snp_err_wrap(&err, "%s", target.path) : 0);
    }
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    r = install(cli, opts, &place, &target, &made);
    if (r == SNP_EXIT_OK) {
        snp_mcp_entry_advise(cli, opts, &wanted, snp_buf_cstr(&made));
    }
    return r;
}

const struct snp_verb snp_verb_mcp_install = {
    .name = "mcp-install",
    .summary = "add the MCP server to a client's configuration",
    .description = "Show the change to the client's configuration file, and write it after you "
                   "confirm. For claude and vscode the file is in the working directory, for other "
                   "clients in your home folder. Options of mcp-serve go into the entry; with "
                   "--http the client connects to a server that you start.",
    .spec = SNP_SPEC(options, args),
    .examples = "mcp-install claude\n"
                "mcp-install codex --yes --memory 1g\n"
                "mcp-install gemini --http 8765",
    .run = run,
};
