/* SPDX-License-Identifier: Apache-2.0 */
/* Files are opened below a descriptor, never through a link. */
#include "standard/standard.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/project/secret_name.h"
#include "base/str.h"
#include "standard/front.h"

enum {
    FILES_MAX = 2 * SNP_FRONT_BYTES_MAX
};

static const char folder_path[] = ".snipara/standards/";

/* Standards in the project's own folder. */
static const struct {
    const char *name;
    enum snp_standard_class class;
} single[] = {
    {"CODING_STANDARDS.md", SNP_STANDARD_MANDATORY},
    {"AGENTS.md", SNP_STANDARD_GUIDELINES},
    {"CONTRIBUTING.md", SNP_STANDARD_REFERENCE},
};

static const char *const class_names[] = {"MANDATORY", "BEST_PRACTICES", "GUIDELINES", "REFERENCE"};
static const char *const kind_names[] = {"forbid", "require", "check"};

const char *snp_standard_class_name(enum snp_standard_class class)
{
    return class_names[class];
}

static bool is_class(const char *name, const char *text, size_t n)
{
    if (strlen(name) != n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char c = text[i];

        c = c == '-' || c == ' ' ? '_' : (char)(c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c);
        if (c != name[i]) {
            return false;
        }
    }
    return true;
}

enum snp_standard_class snp_standard_class_of(const char *text, size_t n)
{
    size_t c = 0;

    while (c < SNP_ARRAY_LEN(class_names) && !is_class(class_names[c], text, n)) {
        c++;
    }
    return (enum snp_standard_class)c;
}

const char *snp_rule_kind_name(enum snp_rule_kind kind)
{
    return kind_names[kind];
}

void snp_standard_done(struct snp_standard *standard)
{
    for (size_t i = 0; i < standard->n_rules; i++) {
        free(standard->rules[i].text);
        free(standard->rules[i].problem);
        snp_regex_free(standard->rules[i].regex);
    }
    for (size_t i = 0; i < standard->n_tags; i++) {
        free(standard->tags[i]);
    }
    free(standard->path);
    free(standard->collection);
    free(standard->title);
    free(standard->problem);
    free(standard->text);
    snp_ignore_free(standard->files);
    *standard = (struct snp_standard){0};
}

void snp_standards_done(struct snp_standards *standards)
{
    for (size_t i = 0; i < standards->n; i++) {
        snp_standard_done(&standards->items[i]);
    }
    free(standards->items);
    *standards = (struct snp_standards){0};
}

/* One file ------------------------------------------------------------------------------------ */

struct standard_reader {
    struct snp_standard *standard;
    struct snp_buf files; /* patterns, one a line */
};

/* A part as UTF-8, cut; the caller frees. */
static char *text_copy(const char *text, size_t n, size_t max)
{
    n = n > max ? max - snp_utf8_begun(text, max) : n;
    return snp_utf8_clean(text, n, NULL);
}

static int problem_set(char **problem, const char *text)
{
    if (*problem == NULL) {
        *problem = strdup(text);
    }
    return *problem == NULL ? SNP_E_NOMEM : 0;
}

static int rule_add(struct snp_standard *standard,
                    enum snp_rule_kind kind,
                    const char *text,
                    size_t n)
{
    struct snp_rule *rule = &standard->rules[standard->n_rules];
    struct snp_err err;
    int r;

    if (standard->n_rules == SNP_STANDARD_RULES_MAX) {
        return problem_set(&standard->problem, "it has more than 16 rules");
    }
    *rule = (struct snp_rule){.kind = kind};
    rule->text = text_copy(text, n, SNP_STANDARD_RULE_MAX);
    if (rule->text == NULL) {
        return SNP_E_NOMEM;
    }
    standard->n_rules++;
    if (n > SNP_STANDARD_RULE_MAX) {
        return problem_set(&rule->problem, "it has more than 500 bytes");
    }
    if (kind == SNP_RULE_CHECK) {
        return 0;
    }
    r = snp_regex_new(rule->text, strlen(rule->text), &rule->regex, &err);
    return r == SNP_E_NOMEM ? r : r < 0 ? problem_set(&rule->problem, err.msg) : 0;
}

static int tag_add(struct snp_standard *standard, const struct snp_front_word *word)
{
    char *tag;

    if (standard->n_tags == SNP_STANDARD_TAGS_MAX) {
        return 0;
    }
    tag = text_copy(word->text, word->n, SNP_STANDARD_TITLE_MAX);
    if (tag == NULL) {
        return SNP_E_NOMEM;
    }
    standard->tags[standard->n_tags++] = tag;
    return 0;
}

static int pattern_add(struct snp_buf *files, const struct snp_front_word *word)
{
    SNP_TRY(snp_buf_add(files, word->text, word->n));
    return snp_buf_adds(files, "\n");
}

static int words_add(struct standard_reader *reading,
                     bool is_tags,
                     const struct snp_front_item *item)
{
    struct snp_front_word words[SNP_STANDARD_TAGS_MAX];
    size_t n = snp_front_words(item->value, item->n, words, SNP_ARRAY_LEN(words));
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        r = is_tags ? tag_add(reading->standard, &words[i])
                    : pattern_add(&reading->files, &words[i]);
    }
    return r;
}

static bool is_key(const struct snp_front_item *item, const char *key)
{
    return item->key_n == strlen(key) && memcmp(item->key, key, item->key_n) == 0;
}

static int on_item(void *arg, const struct snp_front_item *item)
{
    struct standard_reader *reading = arg;
    struct snp_standard *standard = reading->standard;

    for (size_t kind = 0; kind < SNP_ARRAY_LEN(kind_names); kind++) {
        if (is_key(item, kind_names[kind])) {
            return rule_add(standard, (enum snp_rule_kind)kind, item->value, item->n);
        }
    }
    if (is_key(item, "files") || is_key(item, "tags")) {
        return words_add(reading, is_key(item, "tags"), item);
    }
    if (is_key(item, "title") && standard->title == NULL) {
        standard->title = text_copy(item->value, item->n, SNP_STANDARD_TITLE_MAX);
        return standard->title == NULL ? SNP_E_NOMEM : 0;
    }
    if (is_key(item, "class") || is_key(item, "category")) {
        enum snp_standard_class class = snp_standard_class_of(item->value, item->n);

        if (class == SNP_STANDARD_CLASSES) {
            return problem_set(&standard->problem,
                               "class is MANDATORY, BEST_PRACTICES, GUIDELINES or REFERENCE");
        }
        standard->class = class;
    }
    return 0;
}

/* The first heading, else the name of the file. */
static int title_find(struct snp_standard *standard)
{
    const char *slash = strrchr(standard->path, '/');
    const char *at = standard->text;

    while (*at != '\0' && *at != '#') {
        at = strchrnul(at, '\n');
        at += *at == '\n';
    }
    if (*at == '#') {
        at += strspn(at, "# \t");
        standard->title = text_copy(at, strcspn(at, "\r\n"), SNP_STANDARD_TITLE_MAX);
    } else {
        standard->title = strdup(slash == NULL ? standard->path : slash + 1);
    }
    return standard->title == NULL ? SNP_E_NOMEM : 0;
}

static int read_rest(struct standard_reader *reading, const char *text, size_t n)
{
    struct snp_standard *standard = reading->standard;
    struct snp_front_matter front;

    SNP_TRY(snp_front_read(text, n, on_item, reading, &front));
    if (front.problem != NULL) {
        SNP_TRY(problem_set(&standard->problem, front.problem));
    }
    standard->text = snp_utf8_clean(text + front.body, n - front.body, NULL);
    if (standard->text == NULL) {
        return SNP_E_NOMEM;
    }
    standard->lines[0] = standard->lines[1] = front.body_line;
    for (const char *at = standard->text; *at != '\0'; at++) {
        standard->lines[1] += *at == '\n' && at[1] != '\0';
    }
    if (reading->files.len > 0) {
        SNP_TRY(
            snp_ignore_new(snp_buf_bytes(&reading->files), reading->files.len, &standard->files));
    }
    return standard->title == NULL ? title_find(standard) : 0;
}

int snp_standard_parse(const char *text,
                       size_t n,
                       const char *path,
                       enum snp_standard_class fallback,
                       struct snp_standard *ret)
{
    /* each item is part of the front matter and gets a newline */
    struct standard_reader reading = {.standard = ret, .files = SNP_BUF(FILES_MAX)};
    int r;

    *ret = (struct snp_standard){.class = fallback, .path = strdup(path)};
    r = ret->path == NULL ? SNP_E_NOMEM : read_rest(&reading, text, n);
    snp_buf_done(&reading.files);
    if (r < 0) {
        snp_standard_done(ret);
    }
    return r;
}

bool snp_standard_covers(const struct snp_standard *standard, const char *path)
{
    snp_autofree char *part = NULL;

    if (standard->files == NULL) {
        return true;
    }
    part = strdup(path);
    for (char *end = part; end != NULL;) { /* the path and each of its parent folders */
        bool is_folder = end != part;
        enum snp_ignored judged;

        if (is_folder) {
            *end = '\0';
        }
        judged = snp_ignore_judge(standard->files, part, is_folder);
        if (judged != SNP_IGNORED_SILENT) {
            return judged == SNP_IGNORED_OUT;
        }
        end = strrchr(part, '/');
    }
    return false;
}

/* Folders ------------------------------------------------------------------------------------- */

struct standard_folder {
    int dir_fd;
    const char *prefix;     /* of the path */
    const char *collection; /* NULL = the project */
};

static int item_add(struct snp_standards *list, struct snp_standard *standard)
{
    struct snp_standard *more;

    if ((list->n & (list->n - 1)) == 0) { /* a power of two: full */
        more = realloc(list->items, (list->n == 0 ? 1 : list->n * 2) * sizeof(*more));
        if (more == NULL) {
            snp_standard_done(standard);
            return SNP_E_NOMEM;
        }
        list->items = more;
    }
    list->items[list->n++] = *standard;
    return 0;
}

static int file_read(const struct standard_folder *place,
                     const char *name,
                     enum snp_standard_class fallback,
                     struct snp_standards *list)
{
    snp_autoclose int fd =
        openat(place->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    snp_autofree char *path = snp_format("%s%s", place->prefix, name);
    snp_autofree char *text = NULL;
    struct snp_standard standard;
    struct snp_err ignored;
    size_t n;

    if (fd < 0 && faccessat(place->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        return 0;
    }
    if (path == NULL) {
        return SNP_E_NOMEM;
    }
    if (fd < 0 || snp_secret_name(place->prefix, strlen(place->prefix), name) ||
        list->n >= SNP_STANDARD_FILES_MAX ||
        snp_file_read_fd(fd, name, SNP_STANDARD_FILE_MAX, &text, &n, &ignored) < 0) {
        list->left_out++;
        return 0;
    }
    SNP_TRY(snp_standard_parse(text, n, path, fallback, &standard));
    if (place->collection != NULL) {
        standard.collection = strdup(place->collection);
        if (standard.collection == NULL) {
            snp_standard_done(&standard);
            return SNP_E_NOMEM;
        }
    }
    return item_add(list, &standard);
}

static int is_markdown(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && snp_has_suffix(entry->d_name, ".md");
}

/* A repository's README.md describes it, and sets no standards. */
static bool is_readme(const struct standard_folder *place, const char *name)
{
    return place->collection != NULL && snp_streq(name, "README.md");
}

static int folder_read(const struct standard_folder *place, struct snp_standards *list)
{
    struct dirent **names = NULL;
    int n = scandirat(place->dir_fd, ".", &names, is_markdown, alphasort);
    int r = 0;

    for (int i = 0; i < n; i++) {
        if (!is_readme(place, names[i]->d_name)) {
            SNP_THEN(r, file_read(place, names[i]->d_name, SNP_STANDARD_GUIDELINES, list));
        }
        free(names[i]);
    }
    free((void *)names);
    return r;
}

static int is_collection(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && strchr(entry->d_name, ':') == NULL;
}

/*
 * A user who can write there influences the standards of all code, so it must be private. Links are
 * the user's own.
 */
static int collections_read(const char *shared, struct snp_standards *list, struct snp_err *err)
{
    snp_autoclose int above = open(shared, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent **names = NULL;
    struct stat st;
    int r = 0;
    int n;

    if (above < 0) {
        return 0;
    }
    if (fstat(above, &st) < 0 || (st.st_uid != geteuid() && st.st_uid != 0) ||
        (st.st_mode & 022) != 0) {
        return snp_fail(err, SNP_E_DENIED,
                        "others can write to %.200s, which holds rules for code; run: "
                        "sudo chown $USER %.200s && chmod go-w %.200s",
                        shared, shared, shared);
    }
    n = scandirat(above, ".", &names, is_collection, alphasort);
    for (int i = 0; i < n; i++) {
        snp_autoclose int fd = openat(above, names[i]->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        snp_autofree char *prefix = snp_format("%s:", names[i]->d_name);

        r = prefix == NULL ? SNP_E_NOMEM : r;
        if (fd >= 0) {
            const struct standard_folder place = {
                .dir_fd = fd, .prefix = prefix, .collection = names[i]->d_name};

            list->n_collections++;
            SNP_THEN(r, folder_read(&place, list));
        }
        free(names[i]);
    }
    free((void *)names);
    return r;
}

/* Sort by class; the order within a class is kept. */
static void sort(struct snp_standards *list)
{
    for (size_t i = 1; i < list->n; i++) {
        struct snp_standard one = list->items[i];
        size_t at = i;

        for (; at > 0 && list->items[at - 1].class > one.class; at--) {
            list->items[at] = list->items[at - 1];
        }
        list->items[at] = one;
    }
}

static int project_read(int project_fd, struct snp_standards *list)
{
    const struct standard_folder top = {.dir_fd = project_fd, .prefix = ""};
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    snp_autoclose int above = openat(project_fd, ".snipara", flags);
    snp_autoclose int fd = above < 0 ? -1 : openat(above, "standards", flags);
    int r = 0;

    if (fd >= 0) {
        r = folder_read(&(struct standard_folder){.dir_fd = fd, .prefix = folder_path}, list);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(single); i++) {
        SNP_THEN(r, file_read(&top, single[i].name, single[i].class, list));
    }
    return r;
}

int snp_standards_read(int project_fd,
                       const char *shared,
                       struct snp_standards *ret,
                       struct snp_err *err)
{
    int r;

    *ret = (struct snp_standards){0};
    (void)snp_fail(err, SNP_E_NOMEM, "out of memory");
    r = shared == NULL ? 0 : collections_read(shared, ret, err);
    SNP_THEN(r, project_read(project_fd, ret));
    sort(ret);
    if (r < 0) {
        snp_standards_done(ret);
    }
    return r;
}

bool snp_standard_is(const char *path)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(single); i++) {
        if (snp_streq(path, single[i].name)) {
            return true;
        }
    }
    return snp_has_prefix(path, folder_path);
}
