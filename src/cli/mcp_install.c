/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mcp-install`: writing ourselves into the configuration of an MCP client, after showing what
 * changes. The file is edited as text: order, blanks and numbers of its owner stay. It has been parsed
 * before, so the scanner below may rely on well-formed JSON.
 */
#include "cli/mcp_install.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/mcp_clients.h"
#include "cli/term.h"

enum {
    FILE_MAX = 4 << 20,
};

/* JSON as text -------------------------------------------------------------------------------- */

static size_t blanks_skip(const char *text, size_t n, size_t i)
{
    while (i < n && strchr(" \t\r\n", text[i]) != NULL && text[i] != '\0') {
        i++;
    }
    return i;
}

/* Past the string that begins at i. */
static size_t string_skip(const char *text, size_t n, size_t i)
{
    for (i++; i < n && text[i] != '"'; i++) {
        i += text[i] == '\\' ? 1 : 0;
    }
    return i + 1;
}

/* Past the value that begins at i. */
static size_t value_skip(const char *text, size_t n, size_t i)
{
    int depth = 0;

    do {
        char c = text[i];

        if (c == '"') {
            i = string_skip(text, n, i);
            continue;
        }
        if (depth == 0 && c != '{' && c != '[') { /* a number or a word */
            while (i < n && strchr(",]} \t\r\n", text[i]) == NULL) {
                i++;
            }
            return i;
        }
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
        i++;
    } while (i < n && depth > 0);
    return i;
}

/* The value of a member of the object whose "{" is at i: from *ret_from to *ret_to. */
static bool member_find(
    const char *text, size_t n, size_t i, const char *key, size_t *ret_from, size_t *ret_to)
{
    i = blanks_skip(text, n, i + 1);
    while (i < n && text[i] == '"') {
        size_t end = string_skip(text, n, i);
        bool is_it = end - i - 2 == strlen(key) && strncmp(text + i + 1, key, end - i - 2) == 0;
        size_t from = blanks_skip(text, n, blanks_skip(text, n, end) + 1);
        size_t to = value_skip(text, n, from);

        if (is_it) {
            *ret_from = from;
            *ret_to = to;
            return true;
        }
        i = blanks_skip(text, n, to);
        i = i < n && text[i] == ',' ? blanks_skip(text, n, i + 1) : i;
    }
    return false;
}

/* Write `"key": value` as the first member of the object whose "{" is at i, indented by depth * 2. */
static int member_insert(const char *text,
                         size_t n,
                         size_t i,
                         const char *member,
                         unsigned depth,
                         struct snp_buf *out)
{
    size_t next = blanks_skip(text, n, i + 1);
    bool is_empty = text[next] == '}';
    int r = snp_buf_add(out, text, i + 1);

    r = r < 0 ? r : snp_buf_addf(out, "\n%*s%s", (int)depth * 2, "", member);
    if (is_empty) {
        r = r < 0 ? r : snp_buf_addf(out, "\n%*s", ((int)depth - 1) * 2, "");
        return r < 0 ? r : snp_buf_add(out, text + next, n - next);
    }
    r = r < 0 ? r : snp_buf_add(out, ",", 1);
    return r < 0 ? r : snp_buf_add(out, text + i + 1, n - i - 1);
}

static int put(const char *text,
               size_t n,
               const struct snp_json_entry *entry,
               struct snp_buf *out)
{
    size_t start = blanks_skip(text, n, 0);
    size_t from = 0;
    size_t to = 0;
    snp_autofree char *member = snp_format("\"%s\": %s", entry->name, entry->value);
    snp_autofree char *group =
        snp_format("\"%s\": {\n    \"%s\": %s\n  }", entry->group, entry->name, entry->value);
    int r;

    if (member == NULL || group == NULL) {
        return SNP_E_NOMEM;
    }
    if (!member_find(text, n, start, entry->group, &from, &to)) {
        return member_insert(text, n, start, group, 1, out);
    }
    if (text[from] != '{') {
        return SNP_E_INVALID;
    }
    start = from;
    if (!member_find(text, n, start, entry->name, &from, &to)) {
        return member_insert(text, n, start, member, 2, out);
    }
    r = snp_buf_add(out, text, from);
    r = r < 0 ? r : snp_buf_adds(out, entry->value);
    return r < 0 ? r : snp_buf_add(out, text + to, n - to);
}

int snp_json_text_put(const char *text,
                      size_t n,
                      const struct snp_json_entry *entry,
                      struct snp_buf *out,
                      struct snp_err *err)
{
    static const char nothing[] = "{}\n";
    snp_autojson json_t *parsed = NULL;
    snp_autojson json_t *made = NULL;
    int r;

    if (blanks_skip(text, n, 0) == n) {
        text = nothing;
        n = sizeof(nothing) - 1;
    }
    r = snp_json_parse(text, n, &parsed, err);
    if (r < 0) {
        return r;
    }
    r = put(text, n, entry, out);
    if (r == SNP_E_INVALID) {
        return snp_fail(err, SNP_E_INVALID, "'%s' in it is no object", entry->group);
    }
    if (r < 0) {
        return snp_fail(err, (enum snp_code)r, "the file is too large");
    }
    /* What is written must be what was meant. */
    r = snp_json_parse(snp_buf_bytes(out), out->len, &made, err);
    if (r == 0 && json_object_get(json_object_get(made, entry->group), entry->name) == NULL) {
        r = snp_fail(err, SNP_E_INTERNAL, "the entry could not be written into this file");
    }
    return r;
}

/* Showing -------------------------------------------------------------------------------------- */

struct lines {
    const char *text;
    size_t n;
    size_t at; /* of the line being looked at */
};

/* The next line without its end; NULL after the last. */
static const char *line_next(struct lines *lines, size_t *ret_n)
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

static void line_print(char mark, const char *line, size_t n)
{
    (void)putchar(mark);
    (void)!snp_term_write(stdout, line, n);
    (void)putchar('\n');
}

/* Bytes of whole lines that both begin with. */
static size_t common_begin(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t lines = 0;

    for (size_t i = 0; i < n_a && i < n_b && a[i] == b[i]; i++) {
        lines = a[i] == '\n' ? i + 1 : lines;
    }
    return lines;
}

/* The same for their ends, at most `max` bytes. */
static size_t common_end(const char *a, size_t n_a, const char *b, size_t n_b, size_t max)
{
    size_t lines = 0;

    for (size_t i = 1; i <= max && a[n_a - i] == b[n_b - i]; i++) {
        bool is_begin = i == n_a || a[n_a - i - 1] == '\n';

        lines = is_begin ? i : lines;
    }
    return lines;
}

static void part_print(char mark, const char *text, size_t n)
{
    struct lines lines = {text, n, 0};
    const char *line;
    size_t len = 0;

    while ((line = line_next(&lines, &len)) != NULL) {
        line_print(mark, line, len);
    }
}

/* What lies between what both begin and end with. */
static void change_print(const char *path,
                         const char *old,
                         size_t n_old,
                         const struct snp_buf *made)
{
    const char *text = snp_buf_bytes(made);
    size_t begin = common_begin(old, n_old, text, made->len);
    size_t most = (n_old < made->len ? n_old : made->len) - begin;
    size_t end = common_end(old, n_old, text, made->len, most);

    (void)printf("%s:\n", path);
    part_print('-', old + begin, n_old - begin - end);
    part_print('+', text + begin, made->len - begin - end);
}

/* The verb -------------------------------------------------------------------------------------- */

static const struct snp_opt options[] = {
    {"yes", 'y', SNP_OPT_FLAG, NULL, "write without asking", 0},
};

static const struct snp_opt_arg args[] = {
    {"CLIENT", "claude, claude-desktop, cursor, vscode, codex or gemini", 1, 1},
};

/* Read the file that is, or nothing; links followed, so that the file behind is replaced. */
static int file_read(char **path, char **ret_text, size_t *ret_n, struct snp_err *err)
{
    char *real = realpath(*path, NULL);

    if (real == NULL) {
        *ret_text = strdup("");
        *ret_n = 0;
        return errno == ENOENT && *ret_text != NULL ? 0 : snp_fail_sys(err, errno, "%s", *path);
    }
    free(*path);
    *path = real;
    return snp_file_read(real, FILE_MAX, ret_text, ret_n, err);
}

static int file_write(const char *path, const struct snp_buf *text, struct snp_err *err)
{
    snp_autofree char *folder = strdup(path);
    struct stat st;
    unsigned mode = stat(path, &st) == 0 ? st.st_mode & 0777U : 0644;
    int r;

    if (folder == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *strrchr(folder, '/') = '\0';
    r = folder[0] == '\0' ? 0 : snp_mkdir_p(folder, 0755, err);
    return r < 0 ? r : snp_file_write_atomic(path, snp_buf_bytes(text), text->len, mode, err);
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autofree char *path = NULL;
    snp_autofree char *old = NULL;
    snp_autobuf struct snp_buf made = {0};
    size_t n_old = 0;
    struct snp_err err;
    int r = snp_mcp_client_path(snp_opts_arg(opts, 0), &path, &err);

    snp_buf_init(&made, 2 * (size_t)FILE_MAX);
    if (r == SNP_E_INVALID) {
        return snp_cli_usage(cli, "%s", err.msg);
    }
    r = r < 0 ? r : file_read(&path, &old, &n_old, &err);
    r = r < 0 ? r : snp_mcp_client_edit(snp_opts_arg(opts, 0), old, n_old, &made, &err);
    if (r < 0) {
        (void)(path == NULL ? 0 : snp_err_wrap(&err, "%s", path));
        return snp_cli_fail(cli, &err);
    }
    if (made.len == n_old && memcmp(snp_buf_bytes(&made), old, n_old) == 0) {
        (void)printf("%s has it already\n", path);
        return SNP_EXIT_OK;
    }
    change_print(path, old, n_old, &made);
    if (!snp_opts_flag(opts, "yes", false)) {
        if (!snp_cli_can_ask()) {
            (void)snp_fail(&err, SNP_E_DENIED, "nothing was written; --yes writes it");
            return snp_cli_fail(cli, &err);
        }
        if (!snp_cli_confirm("Write this?")) {
            (void)puts("nothing was written");
            return SNP_EXIT_FAILED;
        }
    }
    r = file_write(path, &made, &err);
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    (void)printf("written; start the client anew\n");
    return SNP_EXIT_OK;
}

const struct snp_verb snp_verb_mcp_install = {
    .name = "mcp-install",
    .summary = "write the MCP server into a client's configuration",
    .description =
        "Show what is added to the client's configuration file, and write it when you "
        "agree. For claude and vscode that is the file of the project in the working "
        "directory, for the others one of yours.",
    .spec = {options, SNP_ARRAY_LEN(options), args, SNP_ARRAY_LEN(args), false},
    .examples = "mcp-install claude\nmcp-install codex --yes",
    .run = run,
};
