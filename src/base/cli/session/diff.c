/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents are fetched only of files that changed, and compared by diff(1) in a private folder.
 * Names, types and contents are the sandbox's: on a terminal they are escaped before they are
 * coloured, and names that could be read as more than a name are always quoted. For patch(1) the
 * output is hunks of regular files; it ignores all other lines.
 */
#include "base/cli/session/diff.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/pager.h"
#include "base/cli/session/remote.h"
#include "base/cli/spawn.h"
#include "base/cli/term.h"
#include "base/cli/unsaved.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/text/escape.h"
#include "base/wire/snapshot.h"

enum {
    TEXT_MAX = 8 << 20,  /* larger files are not compared by lines */
    DIFF_MAX = 32 << 20, /* of one file's differences */
    ALL_MAX = 128 << 20, /* of the whole output */
    BINARY_LOOK = 8000,  /* bytes searched for a NUL */
    NAME_MAX_BYTES = 64 << 10,
    TROUBLE = 2, /* diff's status when it could not compare */
};

/* A side of a file. */
struct file_side {
    const char *type;   /* borrowed: file, dir, link, deleted; NULL = missing */
    const char *hash;   /* borrowed: of a file's content */
    const char *target; /* borrowed: target of a link; NULL = no link */
    uint64_t size;
    unsigned mode;
    char *bytes; /* owned */
    size_t len;
};

struct comparison {
    struct snp_cli *cli;
    bool is_stat;
    char *folder;       /* owned: private, for diff(1); NULL = not made yet */
    struct snp_buf out; /* the output */
    uint64_t added;     /* lines */
    uint64_t removed;
    size_t files;
    size_t variables;
};

/* Text -------------------------------------------------------------------------------------- */

/* Add one line without its end, coloured; text is not trusted. */
static int line_add(struct comparison *all, enum snp_style style, const char *text, size_t n)
{
    const char *code = snp_term_code(stdout, style);
    int r = snp_buf_adds(&all->out, code);

    if (r == 0) {
        r = snp_term_is(stdout) ? snp_escape(&all->out, text, n) : snp_buf_add(&all->out, text, n);
    }
    return r < 0 ? r : snp_buf_addf(&all->out, "%s\n", code[0] == '\0' ? "" : SNP_TERM_PLAIN);
}

static int linef(struct comparison *all, enum snp_style style, const char *fmt, ...)
    SNP_PRINTF(3, 4);
static int linef(struct comparison *all, enum snp_style style, const char *fmt, ...)
{
    snp_autofree char *text = NULL;
    va_list args;

    va_start(args, fmt);
    (void)snp_need(vasprintf(&text, fmt, args) < 0 ? NULL : all);
    va_end(args);
    return line_add(all, style, text, strlen(text));
}

/* A name with a space is quoted too, because patch(1) ends a name there. */
char *snp_diff_name(const char *before, const char *name)
{
    snp_autobuf struct snp_buf text = {0};
    bool is_plain = snp_utf8_valid(name, strlen(name));
    int r;

    snp_buf_init(&text, NAME_MAX_BYTES);
    for (const char *c = name; *c != '\0'; c++) {
        is_plain = is_plain && (unsigned char)*c > 0x20 && *c != 0x7f && *c != '"' && *c != '\\';
    }
    r = snp_buf_addf(&text, "%s%s", is_plain ? "" : "\"", before);
    for (const char *c = name; *c != '\0' && r == 0; c++) {
        unsigned char byte = (unsigned char)*c;
        bool is_as_it_is = is_plain || (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\');

        r = is_as_it_is ? snp_buf_add(&text, c, 1) : snp_buf_addf(&text, "\\%03o", byte);
    }
    r = r < 0 ? r : snp_buf_adds(&text, is_plain ? "" : "\"");
    return snp_need_copy(r < 0 ? "?" : snp_need(snp_buf_cstr(&text)));
}

/* Variables ---------------------------------------------------------------------------------- */

static int variable_add(struct comparison *all, const json_t *row)
{
    SNP_READ(snp_diff_variable, variable, row);
    snp_autofree char *name = snp_diff_name("", json_string_value(variable.name));
    snp_autofree char *type_a = snp_diff_name("", variable.type_a == NULL ? "?" : variable.type_a);
    snp_autofree char *type_b = snp_diff_name("", variable.type_b == NULL ? "?" : variable.type_b);

    if (snp_streq(variable.change, "added")) {
        return linef(all, SNP_STYLE_GREEN, "variable %s: added, %.200s", name, type_b);
    }
    if (snp_streq(variable.change, "removed")) {
        return linef(all, SNP_STYLE_RED, "variable %s: removed, %.200s", name, type_a);
    }
    if (strcmp(type_a, type_b) == 0) {
        return linef(all, SNP_STYLE_YELLOW, "variable %s: changed, %.200s", name, type_a);
    }
    return linef(all, SNP_STYLE_YELLOW, "variable %s: changed, %.200s to %.200s", name, type_a,
                 type_b);
}

static int variables_add(struct comparison *all, const json_t *answer)
{
    const json_t *rows = json_object_get(answer, "variables");
    int r = 0;

    all->variables = json_array_size(rows);
    for (size_t i = 0; i < all->variables && r == 0; i++) {
        r = variable_add(all, json_array_get(rows, i));
    }
    return r;
}

/* Contents ----------------------------------------------------------------------------------- */

static bool has_content(const struct file_side *side)
{
    return snp_streq(side->type, "file");
}

static int side_fetch(struct snp_cli *cli, struct file_side *side, struct snp_err *err)
{
    return side->bytes != NULL || !has_content(side) || side->hash == NULL
               ? 0
               : snp_changes_content(cli, side->hash, TEXT_MAX, &side->bytes, &side->len, err);
}

static bool is_binary(const struct file_side *side)
{
    size_t look = side->len < BINARY_LOOK ? side->len : BINARY_LOOK;

    return look > 0 && memchr(side->bytes, '\0', look) != NULL;
}

static int folder_make(struct comparison *all, struct snp_err *err)
{
    const char *base = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe) */

    if (all->folder != NULL) {
        return 0;
    }
    all->folder =
        snp_need_format("%s/snipara-diff-XXXXXX", base == NULL || base[0] != '/' ? "/tmp" : base);
    if (mkdtemp(all->folder) == NULL) { /* mode 0700 */
        int eno = errno;

        free(SNP_TAKE_PTR(all->folder));
        return snp_fail_sys(err, eno, "make a folder for temporary files");
    }
    return 0;
}

static int side_store(const struct file_side *side, const char *path, struct snp_err *err)
{
    snp_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || snp_write_all(fd, side->bytes, side->len) < 0) {
        return snp_fail_sys(err, errno, "write %s", path);
    }
    return 0;
}

/* The hunks between two texts: diff's output without its two lines of names. */
static int hunks_make(struct comparison *all,
                      const struct file_side *a,
                      const struct file_side *b,
                      struct snp_buf *hunks,
                      struct snp_err *err)
{
    snp_autofree char *path_a = NULL;
    snp_autofree char *path_b = NULL;
    int status = 0;
    int r = folder_make(all, err);

    if (r < 0) {
        return r;
    }
    path_a = snp_need_format("%s/a", all->folder);
    path_b = snp_need_format("%s/b", all->folder);
    r = side_store(a, path_a, err);
    r = r < 0 ? r : side_store(b, path_b, err);
    if (r == 0) {
        const char *const argv[] = {"diff", "--text", "-U3",  "--label", "a", "--label",
                                    "b",    "--",     path_a, path_b,    NULL};

        r = snp_spawn_status(argv, hunks, &status, err);
    }
    if (r == 0 && status >= TROUBLE) {
        r = snp_fail(err, SNP_E_PEER, "diff failed with status %d", status);
    }
    for (int line = 0; line < 2 && r == 0 && hunks->len > 0; line++) {
        const char *end = memchr(snp_buf_bytes(hunks), '\n', hunks->len);

        snp_buf_consume(hunks, end == NULL ? hunks->len : (size_t)(end - snp_buf_bytes(hunks)) + 1);
    }
    return r;
}

static enum snp_style style_of(char first)
{
    switch (first) {
    case '+':
        return SNP_STYLE_GREEN;
    case '-':
        return SNP_STYLE_RED;
    case '@':
        return SNP_STYLE_CYAN;
    default:
        return SNP_STYLE_PLAIN;
    }
}

/* The remaining text, which may be missing (NULL, 0). */
struct rest {
    const char *text;
    size_t n;
};

/* The next line without its end; false: there is none. */
static bool line_next(struct rest *rest, struct rest *ret_line)
{
    const char *stop;
    size_t taken;

    if (rest->text == NULL || rest->n == 0) {
        return false;
    }
    stop = memchr(rest->text, '\n', rest->n);
    *ret_line = (struct rest){rest->text, stop == NULL ? rest->n : (size_t)(stop - rest->text)};
    taken = stop == NULL ? rest->n : ret_line->n + 1;
    rest->text += taken;
    rest->n -= taken;
    return true;
}

static int hunks_add(struct comparison *all, const struct snp_buf *hunks)
{
    struct rest rest = {snp_buf_bytes(hunks), hunks->len};
    struct rest line = {0};
    int r = 0;

    while (r == 0 && line_next(&rest, &line)) {
        r = line_add(all, style_of(line.n == 0 ? ' ' : line.text[0]), line.text, line.n);
    }
    return r;
}

/* Count added and removed lines: all lines of hunks except headings begin with a sign. */
static void hunks_count(const struct snp_buf *hunks, uint64_t *ret_added, uint64_t *ret_removed)
{
    struct rest rest = {snp_buf_bytes(hunks), hunks->len};
    struct rest line = {0};

    *ret_added = 0;
    *ret_removed = 0;
    while (line_next(&rest, &line)) {
        *ret_added += line.n > 0 && line.text[0] == '+' ? 1 : 0;
        *ret_removed += line.n > 0 && line.text[0] == '-' ? 1 : 0;
    }
}

/* Files -------------------------------------------------------------------------------------- */

/* One changed file, ready to be shown. */
struct change {
    char *path; /* owned */
    struct file_side a;
    struct file_side b;
    bool has_lines; /* both sides are text within the size limit */
    struct snp_buf hunks;
    uint64_t added;
    uint64_t removed;
    const char *note; /* borrowed: note of `apply`; NULL = none */
    const char *why;  /* borrowed */
};

static void change_done(struct change *change)
{
    free(change->path);
    free(change->a.bytes);
    free(change->b.bytes);
    snp_buf_done(&change->hunks);
}

static uint64_t number(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0;
}

static const char *target_of(const char *type, const json_t *target)
{
    return snp_streq(type, "link") && json_is_string(target) ? json_string_value(target) : NULL;
}

static void change_read(const json_t *json, struct change *ret)
{
    SNP_READ(snp_diff_file, row, json);

    snp_buf_init(&ret->hunks, DIFF_MAX);
    ret->path = snp_changes_path(&row);
    ret->a = (struct file_side){.type = row.type_a,
                                .hash = row.a,
                                .target = target_of(row.type_a, row.target_a),
                                .size = number(row.size_a),
                                .mode = (unsigned)number(row.mode_a)};
    ret->b = (struct file_side){.type = row.type_b,
                                .hash = row.b,
                                .target = target_of(row.type_b, row.target_b),
                                .size = number(row.size_b),
                                .mode = (unsigned)number(row.mode_b)};
}

static int change_load(struct comparison *all, struct change *change, struct snp_err *err)
{
    int r;

    if (change->a.size > TEXT_MAX || change->b.size > TEXT_MAX) {
        return 0;
    }
    if (change->a.hash != NULL && snp_streq(change->a.hash, change->b.hash)) {
        change->has_lines = true; /* only its mode changed */
        return 0;
    }
    r = side_fetch(all->cli, &change->a, err);
    r = r < 0 ? r : side_fetch(all->cli, &change->b, err);
    if (r < 0 || is_binary(&change->a) || is_binary(&change->b)) {
        return r;
    }
    r = hunks_make(all, &change->a, &change->b, &change->hunks, err);
    change->has_lines = r != SNP_E_LIMIT;
    if (r == 0) {
        hunks_count(&change->hunks, &change->added, &change->removed);
    }
    return r == SNP_E_LIMIT ? 0 : r;
}

/* Add "new file mode 644", or two lines for a change of kind or mode. */
static int modes_add(struct comparison *all, const struct change *change)
{
    const struct file_side *a = &change->a;
    const struct file_side *b = &change->b;
    int r = 0;

    if (snp_streq(a->type, b->type)) {
        return a->mode == b->mode
                   ? 0
                   : linef(all, SNP_STYLE_BOLD, "old mode %o\nnew mode %o", a->mode, b->mode);
    }
    if (a->type != NULL && !snp_streq(a->type, "deleted")) {
        r = linef(all, SNP_STYLE_BOLD, "deleted %.8s mode %o", a->type, a->mode);
    }
    if (r == 0 && b->type != NULL && !snp_streq(b->type, "deleted")) {
        r = linef(all, SNP_STYLE_BOLD, "new %.8s mode %o", b->type, b->mode);
    }
    if (r == 0 && snp_streq(b->type, "deleted")) {
        r = linef(all, SNP_STYLE_BOLD, "deleted file of the project");
    }
    return r;
}

/*
 * Print the target of a link: patch(1) does not support links, and would write the target into a
 * file.
 */
static int link_add(struct comparison *all, const char *what, const char *target)
{
    snp_autofree char *quoted = target == NULL ? NULL : snp_diff_name("", target);

    return quoted == NULL ? 0 : linef(all, SNP_STYLE_PLAIN, "%s link to %s", what, quoted);
}

static int change_add(struct comparison *all, const struct change *change)
{
    snp_autofree char *a = snp_diff_name("a/", change->path);
    snp_autofree char *b = snp_diff_name("b/", change->path);
    const char *shown_a = has_content(&change->a) ? a : "/dev/null";
    const char *shown_b = has_content(&change->b) ? b : "/dev/null";
    int r = linef(all, SNP_STYLE_BOLD, "diff %s %s", a, b);

    r = r < 0 ? r : modes_add(all, change);
    r = r < 0 ? r : link_add(all, "old", change->a.target);
    r = r < 0 ? r : link_add(all, "new", change->b.target);
    if (r == 0 && change->note != NULL) {
        r = linef(all, SNP_STYLE_YELLOW, "%s: %s", change->note, change->why);
    }
    if (r == 0 && !change->has_lines && (has_content(&change->a) || has_content(&change->b))) {
        return linef(all, SNP_STYLE_PLAIN, "Binary files %s and %s differ (%s, %s)", shown_a,
                     shown_b, snp_human_bytes(change->a.size).text,
                     snp_human_bytes(change->b.size).text);
    }
    if (r < 0 || change->hunks.len == 0) {
        return r;
    }
    r = linef(all, SNP_STYLE_BOLD, "--- %s", shown_a);
    r = r < 0 ? r : linef(all, SNP_STYLE_BOLD, "+++ %s", shown_b);
    return r < 0 ? r : hunks_add(all, &change->hunks);
}

static int change_stat(struct comparison *all, const struct change *change)
{
    snp_autofree char *name = snp_diff_name("", change->path);

    if (!change->has_lines) {
        return linef(all, SNP_STYLE_PLAIN, " %s | %s -> %s", name,
                     snp_human_bytes(change->a.size).text, snp_human_bytes(change->b.size).text);
    }
    return linef(all, SNP_STYLE_PLAIN, " %s | +%" PRIu64 " -%" PRIu64, name, change->added,
                 change->removed);
}

/* The text of a file's differences as a member of its row, for --json. */
static void change_json(const struct change *change, json_t *row)
{
    (void)json_object_set_new(
        row, "unified",
        change->has_lines
            ? snp_json_bytes(change->hunks.len == 0 ? "" : snp_buf_bytes(&change->hunks),
                             change->hunks.len)
            : json_null());
}

/* row: of --json; NULL = not wanted. */
static int change_tell(struct comparison *all,
                       struct change *change,
                       json_t *row,
                       struct snp_err *err)
{
    int r = change_load(all, change, err);

    if (r < 0) {
        return r;
    }
    all->added += change->added;
    all->removed += change->removed;
    if (row != NULL) {
        change_json(change, row);
    } else {
        r = all->is_stat ? change_stat(all, change) : change_add(all, change);
    }
    return r < 0 ? snp_fail(err, (enum snp_code)r,
                            "more than %d MiB of differences; --stat counts them", ALL_MAX >> 20)
                 : 0;
}

static int file_add(struct comparison *all, json_t *row, struct snp_err *err)
{
    snp_cleanup(change_done) struct change change = {0};

    change_read(row, &change);
    return change_tell(all, &change, all->cli->is_json ? row : NULL, err);
}

static int files_add(struct comparison *all, const json_t *answer, struct snp_err *err)
{
    const json_t *rows = json_object_get(answer, "files");
    int r = 0;

    all->files = json_array_size(rows);
    for (size_t i = 0; i < all->files && r == 0; i++) {
        r = file_add(all, json_array_get(rows, i), err);
    }
    return r;
}

static int total_add(struct comparison *all)
{
    return linef(all, SNP_STYLE_BOLD,
                 "%zu variable%s, %zu file%s changed, %" PRIu64 " lines added, %" PRIu64 " removed",
                 all->variables, all->variables == 1 ? "" : "s", all->files,
                 all->files == 1 ? "" : "s", all->added, all->removed);
}

static void comparison_done(struct comparison *all)
{
    static const char *const names[] = {"/a", "/b", ""};

    for (size_t i = 0; all->folder != NULL && i < SNP_ARRAY_LEN(names); i++) {
        snp_autofree char *path = snp_need_format("%s%s", all->folder, names[i]);

        (void)remove(path);
    }
    free(all->folder);
    snp_buf_done(&all->out);
}

static int compare(struct comparison *all,
                   const char *a,
                   const char *b,
                   struct snp_reply *reply,
                   struct snp_err *err)
{
    bool is_json = all->cli->is_json;
    int r = snp_remote_call(all->cli, SNP_WRITE(snp_diff_request, .a = a, .b = b), reply, err);

    if (r < 0) {
        return r;
    }
    if (!is_json && variables_add(all, reply->head) < 0) {
        return snp_fail(err, SNP_E_LIMIT, "more variables than can be shown; --json has all");
    }
    r = files_add(all, reply->head, err);
    if (r == 0 && !is_json && all->is_stat) {
        (void)!total_add(all);
    }
    return r;
}

int snp_diff_moments(struct snp_cli *cli,
                     const char *a,
                     const char *b,
                     const struct snp_diff_show *show,
                     json_t **ret_json,
                     struct snp_err *err)
{
    snp_cleanup(comparison_done) struct comparison all = {.cli = cli, .is_stat = show->is_stat};
    snp_autoreply struct snp_reply reply = {0};
    struct snp_diff_answer answer;
    int r;

    snp_buf_init(&all.out, ALL_MAX);
    SNP_TRY(compare(&all, a, b, &reply, err));
    if (cli->is_json) {
        *ret_json = SNP_TAKE_PTR(reply.head);
        return 0;
    }
    snp_record_read(reply.head, &snp_diff_answer_form, &answer);
    r = snp_pager_write(snp_buf_bytes(&all.out), all.out.len, show->may_page);
    if (answer.truncated) {
        snp_cli_warn(cli,
                     "some differences are not shown: there are more than one answer can hold");
    }
    snp_lost_tell(answer.lost_a, "not compared, not saved in A");
    snp_lost_tell(answer.lost_b, "not compared, not saved in B");
    return r < 0 ? snp_fail(err, SNP_E_SYS, "standard output is broken") : 0;
}

/* With the project ----------------------------------------------------------------------------- */

static struct file_side side_of_patch(const struct snp_patch_side *from)
{
    static const char *const types[] = {
        [SNP_PATCH_NONE] = NULL,    [SNP_PATCH_FILE] = "file",     [SNP_PATCH_LINK] = "link",
        [SNP_PATCH_FOLDER] = "dir", [SNP_PATCH_OTHER] = "special",
    };
    struct file_side side = {.type = types[from->kind], .target = from->target, .size = from->size};

    if (from->kind == SNP_PATCH_FILE) {
        side.hash = from->hash;
        side.mode = (from->mode & 0100U) != 0 ? 0755 : 0644;
    }
    if (from->bytes != NULL) {
        side.len = (size_t)from->size;
        side.bytes = snp_need(malloc(side.len + 1));
        memcpy(side.bytes, from->bytes, side.len + 1);
    }
    return side;
}

/* A file too large for a patch is shown like a binary file. */
static int patch_file_add(struct comparison *all,
                          const struct snp_patch_file *file,
                          json_t *row,
                          struct snp_err *err)
{
    snp_cleanup(change_done) struct change change = {
        .path = snp_need_copy(file->path),
        .a = side_of_patch(&file->base),
        .b = side_of_patch(&file->now),
        .note = file->refusal != NULL   ? "apply refuses this"
                : file->caution != NULL ? "apply needs --allow for this"
                                        : NULL,
        .why = file->refusal != NULL ? file->refusal : file->caution,
    };

    snp_buf_init(&change.hunks, DIFF_MAX);
    if ((has_content(&change.a) && change.a.bytes == NULL) ||
        (has_content(&change.b) && change.b.bytes == NULL)) {
        change.a.size = change.a.size > TEXT_MAX ? change.a.size : TEXT_MAX + 1;
    }
    return change_tell(all, &change, row, err);
}

int snp_diff_project(struct snp_cli *cli,
                     const struct snp_session_changes *changes,
                     const struct snp_diff_show *show,
                     json_t **ret_json,
                     struct snp_err *err)
{
    snp_cleanup(comparison_done) struct comparison all = {.cli = cli, .is_stat = show->is_stat};
    snp_autojson json_t *json = NULL;
    json_t *rows;
    int r = 0;

    snp_buf_init(&all.out, ALL_MAX);
    all.files = changes->patch.n;
    if (ret_json != NULL) {
        json = snp_need(snp_patch_to_json(&changes->patch, show->has_contents));
        (void)json_object_set_new(json, "session", json_string(changes->session));
        (void)json_object_set_new(json, "project", snp_cli_path_json(changes->project));
        (void)json_object_set_new(json, "left_out_caches",
                                  json_integer((json_int_t)changes->patch.n_caches));
    }
    rows = json_object_get(json, "files");
    for (size_t i = 0; i < changes->patch.n && r == 0 && !show->has_contents; i++) {
        r = patch_file_add(&all, &changes->patch.files[i], json_array_get(rows, i), err);
    }
    if (r < 0) {
        return r;
    }
    if (ret_json != NULL) {
        *ret_json = SNP_TAKE_PTR(json);
        return 0;
    }
    if (all.is_stat) {
        (void)!total_add(&all);
    }
    if (snp_pager_write(snp_buf_bytes(&all.out), all.out.len, show->may_page) < 0) {
        return snp_fail(err, SNP_E_SYS, "standard output is broken");
    }
    if (changes->patch.n_caches > 0) {
        (void)fprintf(stderr, "Left out %zu cache file%s.\n", changes->patch.n_caches,
                      changes->patch.n_caches == 1 ? "" : "s");
    }
    snp_lost_tell(changes->lost, "not compared, not saved");
    return 0;
}
