/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding tiers.
 *
 * A tier runs with all the user's rights, outside any sandbox. So a file in the user's folder is
 * used only if no other user except root can change or replace it: this is checked for the file and
 * for each folder on the real path to it.
 */
#include "base/policy/tier_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"

enum {
    FILES_MAX = 64, /* in both folders */
    DESCRIBE_MS = 10000,
    DESCRIBE_MAX = 64 << 10,
    WORDS_MAX = 1024,
};

static const char prefix[] = "tier-";

int snp_tier_name_check(const char *name, struct snp_err *err)
{
    size_t n = strnlen(name, SNP_TIER_NAME_MAX + 1);

    if (n == 0 || n > SNP_TIER_NAME_MAX || name[0] < 'a' || name[0] > 'z' ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != n) {
        return snp_fail(err, SNP_E_INVALID,
                        "'%.40s' is not a valid tier name: 1 to %d of a-z, 0-9 and '-', "
                        "beginning with a letter",
                        name, SNP_TIER_NAME_MAX);
    }
    return 0;
}

/* Safe files ----------------------------------------------------------------------------------- */

/* Why another user could have made or changed it; NULL = impossible. The caller frees. */
static char *reason_of(const char *path, const struct stat *st)
{
    if (st->st_uid != geteuid() && st->st_uid != 0) {
        return snp_format("%s belongs to user %u; only your own files and root's are run", path,
                          (unsigned)st->st_uid);
    }
    /* In a sticky folder others cannot rename or remove our files. */
    if ((st->st_mode & 022) != 0 && !(S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) != 0)) {
        return snp_format("others may write to %s; run: chmod go-w %s", path, path);
    }
    return NULL;
}

/* The same for a folder without links in its path, and all its parents. */
static char *reason_of_folder(const char *folder)
{
    char real[PATH_MAX];
    struct stat st;
    char *why = NULL;

    if (realpath(folder, real) == NULL || lstat(folder, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return snp_format("%s is not a real folder; remove it", folder);
    }
    if ((st.st_mode & 022) != 0) { /* sticky is not enough here: files can be added */
        return snp_format("others may write to %s; run: chmod go-w %s", folder, folder);
    }
    while (why == NULL) {
        char *slash = strrchr(real, '/');

        why = lstat(real, &st) < 0 ? snp_format("%s cannot be read", real) : reason_of(real, &st);
        if (slash == NULL || slash[1] == '\0') {
            break;
        }
        slash[slash == real ? 1 : 0] = '\0';
    }
    return why;
}

static char *reason_of_file(const char *path)
{
    struct stat st;

    if (lstat(path, &st) < 0) {
        return snp_format("%s cannot be read", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return snp_format("%s is not a regular file; copy the program itself there", path);
    }
    return reason_of(path, &st);
}

/* The list -------------------------------------------------------------------------------- */

static void file_done(struct snp_tier_file *file)
{
    free(file->path);
    free(file->refused);
    json_decref(file->about);
}

void snp_tier_files_done(struct snp_tier_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        file_done(&files->files[i]);
    }
    free(files->files);
    *files = (struct snp_tier_files){0};
}

const struct snp_tier_file *snp_tier_files_of(const struct snp_tier_files *files, const char *name)
{
    for (size_t i = 0; i < files->n; i++) {
        if (files->files[i].refused == NULL && snp_streq(files->files[i].name, name)) {
            return &files->files[i];
        }
    }
    return NULL;
}

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* A user's file with the name of an installed tier is refused, like an unsafe one. */
static int add(struct snp_tier_files *files,
               const char *folder,
               const char *name,
               bool is_users,
               const char *folder_reason)
{
    struct snp_tier_file *file = &files->files[files->n];
    struct snp_err ignored;

    if (files->n == FILES_MAX || !snp_has_prefix(name, prefix) ||
        snp_tier_name_check(name + strlen(prefix), &ignored) < 0) {
        return 0;
    }
    *file = (struct snp_tier_file){.is_users = is_users, .path = snp_format("%s/%s", folder, name)};
    (void)snprintf(file->name, sizeof(file->name), "%s", name + strlen(prefix));
    if (file->path == NULL) {
        return SNP_E_NOMEM;
    }
    if (is_users) {
        file->refused =
            folder_reason != NULL ? strdup(folder_reason)
            : snp_streq(file->name, SNP_TIER_AUTO) || snp_tier_files_of(files, file->name) != NULL
                ? snp_format("%s has the name of a built-in tier; rename it", file->path)
                : reason_of_file(file->path);
    }
    if (file->refused == NULL && !is_program(file->path)) {
        free(file->path);
        return 0;
    }
    files->n++;
    return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int look_into(struct snp_tier_files *files, const char *folder, bool is_users)
{
    snp_autofree char *why = NULL;
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, NULL, by_name);
    int r = 0;

    if (n < 0) {
        return 0; /* no folder, no tiers */
    }
    why = is_users ? reason_of_folder(folder) : NULL;
    for (int i = 0; i < n; i++) {
        r = r < 0 ? r : add(files, folder, entries[i]->d_name, is_users, why);
        free(entries[i]);
    }
    free((void *)entries);
    return r;
}

int snp_tier_files_find(struct snp_tier_files *ret, struct snp_err *err)
{
    struct snp_tier_files found = {.files = calloc(FILES_MAX + 1, sizeof(*found.files))};
    snp_autofree char *daemon = NULL;
    snp_autofree char *users = snp_users_folder("tiers");
    int r = found.files == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                                : snp_own_program("snipara-sandboxd", &daemon, err);

    if (r == 0 && daemon != NULL) {
        *strrchr(daemon, '/') = '\0';
        r = look_into(&found, daemon, false);
        r = r < 0 || users == NULL ? r : look_into(&found, users, true);
        r = r < 0 ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
    }
    if (r < 0) {
        snp_tier_files_done(&found);
        return r;
    }
    *ret = found;
    return 0;
}

/* "auto, native and local" */
static void words_of(const struct snp_tier_files *files, struct snp_buf *text)
{
    size_t last = files->n;

    while (last > 0 && files->files[last - 1].refused != NULL) {
        last--;
    }
    (void)!snp_buf_adds(text, SNP_TIER_AUTO);
    for (size_t i = 0; i < last; i++) {
        if (files->files[i].refused == NULL) {
            (void)!snp_buf_addf(text, "%s%s", i + 1 == last ? " or " : ", ", files->files[i].name);
        }
    }
}

int snp_tier_files_get(const struct snp_tier_files *files,
                       const char *name,
                       const struct snp_tier_file **ret,
                       struct snp_err *err)
{
    const struct snp_tier_file *file = snp_tier_files_of(files, name);
    const char *names[FILES_MAX];
    const char *nearest;
    snp_autobuf struct snp_buf words = {0};

    for (size_t i = 0; i < files->n && file == NULL; i++) {
        if (snp_streq(files->files[i].name, name)) {
            return snp_fail(err, SNP_E_DENIED, "tier \"%s\" is not used: %.350s", name,
                            files->files[i].refused);
        }
        names[i] = files->files[i].name;
    }
    if (file != NULL) {
        *ret = file;
        return 0;
    }
    snp_buf_init(&words, WORDS_MAX);
    words_of(files, &words);
    nearest = snp_suggest(name, names, files->n);
    return snp_fail_near(err, SNP_E_UNSUPPORTED, nearest, "no tier \"%.32s\"; use %.300s", name,
                         words.len == 0 ? SNP_TIER_AUTO : snp_buf_cstr(&words));
}

/* Descriptions of installed tiers -------------------------------------------------------------- */

static int describe_begin(const char *program, struct snp_child_output *ret, struct snp_err *err)
{
    const char *const argv[] = {program, "--describe", NULL};
    const struct snp_child child = {.argv = argv};

    return snp_child_output_begin(&child, ret, err);
}

static int describe_end(const char *program,
                        struct snp_child_output *describing,
                        json_t **ret,
                        struct snp_err *err)
{
    snp_autobuf struct snp_buf text = SNP_BUF(DESCRIBE_MAX);
    struct snp_err ignored;

    return snp_child_output_end(describing, DESCRIBE_MS, &text, &ignored) == 0
               ? snp_json_parse(snp_buf_bytes(&text), text.len, ret, err)
               : snp_fail(err, SNP_E_PEER, "%s --describe failed", program);
}

static int by_rank(const void *a, const void *b)
{
    const struct snp_tier_file *one = a;
    const struct snp_tier_file *other = b;

    if (one->is_users != other->is_users) {
        return one->is_users ? 1 : -1;
    }
    return one->rank != other->rank ? other->rank - one->rank : strcmp(one->name, other->name);
}

/* All at the same time: each starts a program. */
void snp_tier_files_rank(struct snp_tier_files *files)
{
    struct snp_child_output describing[FILES_MAX] = {{0}};
    bool has_begun[FILES_MAX] = {false};
    struct snp_err ignored;

    for (size_t i = 0; i < files->n; i++) {
        const struct snp_tier_file *file = &files->files[i];

        has_begun[i] = !file->is_users && describe_begin(file->path, &describing[i], &ignored) == 0;
    }
    for (size_t i = 0; i < files->n; i++) {
        struct snp_tier_file *file = &files->files[i];

        if (has_begun[i] && describe_end(file->path, &describing[i], &file->about, &ignored) == 0) {
            file->rank = (int)snp_json_int(file->about, "rank", 0);
        }
    }
    if (files->n > 0) {
        qsort(files->files, files->n, sizeof(files->files[0]), by_rank);
    }
}
