/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files are opened relative to descriptors, each below the previous one and never through a link: a
 * path that is swapped during the walk leads nowhere.
 */
#include "context/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/project/ignore.h"
#include "base/project/secret_name.h"
#include "base/str.h"

enum {
    IGNORE_BYTES_MAX = 1 << 20,
    NAMES_MAX = 400000, /* of one folder */
};

/* One folder of the current path. */
struct level {
    const struct level *above;
    struct snp_ignore *rules[2]; /* .gitignore; for the top folder also .git/info/exclude */
    size_t path_len;             /* of its path, with the slash */
};

struct project_walk {
    snp_walk_fn fn;                                               /* NULL: walk folders */
    int (*of_folder)(void *arg, int dir_fd, struct snp_err *err); /* NULL: walk files */
    void *arg;
    struct snp_walk_left *left;
    struct snp_err *err;
    uint64_t files;
    char path[SNP_WALK_PATH_MAX];
};

static int folder(struct project_walk *w, int dir_fd, const struct level *above, size_t path_len);

static struct snp_ignore *rules_read(int dir_fd, const char *name)
{
    snp_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    snp_autofree char *text = NULL;
    struct snp_ignore *rules = NULL;
    struct snp_err ignored;
    size_t n;

    if (fd < 0 || snp_file_read_fd(fd, name, IGNORE_BYTES_MAX, &text, &n, &ignored) < 0) {
        return NULL;
    }
    return snp_ignore_new(text, n, &rules) < 0 ? NULL : rules;
}

/* The nearest file with a matching rule decides. */
static bool is_ignored(const struct project_walk *w, const struct level *level, bool is_folder)
{
    for (; level != NULL; level = level->above) {
        for (size_t i = 0; i < SNP_ARRAY_LEN(level->rules); i++) {
            enum snp_ignored judged =
                level->rules[i] == NULL
                    ? SNP_IGNORED_SILENT
                    : snp_ignore_judge(level->rules[i], w->path + level->path_len, is_folder);

            if (judged != SNP_IGNORED_SILENT) {
                return judged == SNP_IGNORED_OUT;
            }
        }
    }
    return false;
}

static int descend(struct project_walk *w, int dir_fd, const char *name, const struct level *level)
{
    size_t len = strlen(w->path);
    snp_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || len + 2 > sizeof(w->path)) {
        w->left->beyond++;
        return 0;
    }
    w->path[len] = '/';
    w->path[len + 1] = '\0';
    return folder(w, fd, level, len + 1);
}

static int entry(struct project_walk *w, int dir_fd, const char *name, const struct level *level)
{
    struct stat st;
    bool is_folder;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        w->left->beyond++;
        return 0;
    }
    is_folder = S_ISDIR(st.st_mode);
    if (!is_folder && !S_ISREG(st.st_mode)) {
        w->left->special++;
        return 0;
    }
    if (is_ignored(w, level, is_folder)) {
        w->left->ignored++;
        return 0;
    }
    if (snp_secret_name(w->path, level->path_len, name)) {
        w->left->secret++;
        return 0;
    }
    if (is_folder) {
        return descend(w, dir_fd, name, level);
    }
    if (w->fn == NULL) {
        return 0;
    }
    if (w->files++ >= SNP_WALK_FILES_MAX) {
        return snp_fail(w->err, SNP_E_LIMIT,
                        "more than %d files; index a folder of the project, or add files that are "
                        "not source code to .gitignore",
                        SNP_WALK_FILES_MAX);
    }
    return w->fn(w->arg, w->path, dir_fd, name, &st, w->err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct name_list {
    char **items;
    size_t n;
};

static void names_done(struct name_list *names)
{
    for (size_t i = 0; i < names->n; i++) {
        free(names->items[i]);
    }
    free((void *)names->items);
}

/* 0, or SNP_E_NOMEM. An unreadable folder gives no names. */
static int names_read(struct project_walk *w, int dir_fd, struct name_list *ret)
{
    int again = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    const struct dirent *item;
    size_t room = 0;
    int r = 0;

    if (dir == NULL) {
        snp_closep(&again);
        w->left->beyond++;
        return 0;
    }
    while (r == 0 && (item = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        if (snp_streq(item->d_name, ".") || snp_streq(item->d_name, "..") ||
            snp_streq(item->d_name, ".git")) {
            continue;
        }
        if (ret->n == NAMES_MAX) {
            w->left->beyond++;
            break;
        }
        if (ret->n == room) {
            room = room == 0 ? 64 : room * 2;
            char **more = realloc((void *)ret->items, room * sizeof(*more));
            r = more == NULL ? SNP_E_NOMEM : 0;
            ret->items = more == NULL ? ret->items : more;
        }
        if (r == 0) {
            ret->items[ret->n] = strdup(item->d_name);
            r = ret->items[ret->n] == NULL ? SNP_E_NOMEM : 0;
            ret->n += r == 0;
        }
    }
    (void)closedir(dir);
    return r;
}

static int folder(struct project_walk *w, int dir_fd, const struct level *above, size_t path_len)
{
    struct level level = {.above = above, .path_len = path_len};
    snp_cleanup(names_done) struct name_list names = {0};
    unsigned depth = 0;
    int r;

    for (const struct level *up = above; up != NULL; up = up->above) {
        depth++;
    }
    if (depth >= SNP_WALK_DEPTH_MAX) {
        w->left->beyond++;
        return 0;
    }
    if (w->of_folder != NULL) {
        SNP_TRY(w->of_folder(w->arg, dir_fd, w->err));
    }
    if (names_read(w, dir_fd, &names) < 0) {
        return snp_fail(w->err, SNP_E_NOMEM, "out of memory");
    }
    if (names.n > 0) {
        qsort((void *)names.items, names.n, sizeof(*names.items), by_name);
    }
    level.rules[0] = rules_read(dir_fd, ".gitignore");
    level.rules[1] = above == NULL ? rules_read(dir_fd, ".git/info/exclude") : NULL;
    r = 0;
    for (size_t i = 0; i < names.n && r >= 0; i++) {
        if (path_len + strlen(names.items[i]) + 1 > sizeof(w->path)) {
            w->left->beyond++;
            continue;
        }
        (void)snprintf(w->path + path_len, sizeof(w->path) - path_len, "%s", names.items[i]);
        r = entry(w, dir_fd, names.items[i], &level);
        w->path[path_len] = '\0';
    }
    snp_ignore_free(level.rules[0]);
    snp_ignore_free(level.rules[1]);
    return r;
}

static int walk(int dir_fd,
                const struct project_walk *what,
                struct snp_walk_left *ret_left,
                struct snp_err *err)
{
    struct project_walk *w = malloc(sizeof(*w));
    int r;

    SNP_TRY_MEMORY(w, err);
    *ret_left = (struct snp_walk_left){0};
    *w = *what;
    w->left = ret_left;
    w->err = err;
    r = folder(w, dir_fd, NULL, 0);
    free(w);
    return r;
}

int snp_walk(
    int dir_fd, snp_walk_fn fn, void *arg, struct snp_walk_left *ret_left, struct snp_err *err)
{
    return walk(dir_fd, &(struct project_walk){.fn = fn, .arg = arg}, ret_left, err);
}

int snp_walk_folders(int dir_fd,
                     int (*fn)(void *arg, int dir_fd, struct snp_err *err),
                     void *arg,
                     struct snp_err *err)
{
    struct snp_walk_left unused;

    return walk(dir_fd, &(struct project_walk){.of_folder = fn, .arg = arg}, &unused, err);
}
