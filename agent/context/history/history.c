/* SPDX-License-Identifier: Apache-2.0 */
#include "context/history/history.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/child.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"

enum {
    GIT_MS = 5000,
    NAMES_MAX = 4 << 20, /* bytes of all names */
    LINK_MAX = 4096,     /* of a .git that is a file */
    MARK_MAX = 96,
    FILES_MAX = 256,   /* the last changed files */
    TRIED_MAX = 20000, /* names to look up; the index may have few of them */
};
#define NS INT64_C(1000000000)

/*
 * The path of git's folder, relative to the project; .git may be a file with that path. The caller
 * frees.
 */
static char *git_folder(const struct snp_index *index)
{
    static const char head[] = "gitdir: ";
    snp_autofree char *text = NULL;
    struct snp_err ignored;
    snp_autoclose int fd =
        openat(index->root_fd, ".git", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return NULL;
    }
    if (S_ISDIR(st.st_mode)) {
        return strdup(".git");
    }
    if (snp_file_read_fd(fd, ".git", LINK_MAX, &text, NULL, &ignored) < 0 ||
        strncmp(text, head, sizeof(head) - 1) != 0) {
        return NULL;
    }
    text[strcspn(text, "\n")] = '\0';
    return strdup(text + sizeof(head) - 1);
}

/*
 * A mark that changes with each commit, checkout and pull; *ret_since: time of the last one. False:
 * git keeps no log of them.
 */
static bool mark_of(const struct snp_index *index, char ret[MARK_MAX], int64_t *ret_since)
{
    snp_autofree char *folder = git_folder(index);
    snp_autofree char *path = folder == NULL ? NULL : snp_format("%s/logs/HEAD", folder);
    struct stat st;

    if (path == NULL || fstatat(index->root_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(st.st_mode)) {
        return false;
    }
    *ret_since = (int64_t)st.st_mtim.tv_sec * NS + st.st_mtim.tv_nsec;
    (void)snprintf(ret, MARK_MAX, "%lld %lld", (long long)*ret_since, (long long)st.st_size);
    return true;
}

/* Names of files, the last changed first, each followed by a NUL. */
static bool names_read(const struct snp_index *index, struct snp_buf *ret)
{
    static const char *const variables[] = {"GIT_CONFIG_NOSYSTEM=1",
                                            "GIT_CONFIG_GLOBAL=/dev/null",
                                            "GIT_ATTR_NOSYSTEM=1",
                                            "GIT_OPTIONAL_LOCKS=0",
                                            "GIT_NO_LAZY_FETCH=1",
                                            "HOME=/nonexistent",
                                            "LC_ALL=C",
                                            NULL};
    snp_autofree char *program = NULL;
    struct snp_child_output output;
    struct snp_err ignored;

    if (snp_own_program("context-history", &program, &ignored) < 0) {
        return false;
    }
    const char *const argv[] = {program, index->root, NULL};
    const struct snp_child child = {
        .argv = argv, .env = variables, .has_only_env = true, .cwd = "/"};

    return snp_child_output_begin(&child, &output, &ignored) == 0 &&
           snp_child_output_end(&output, GIT_MS, ret, &ignored) == 0;
}

static int put(struct snp_index *index, const struct snp_buf *names, struct snp_err *err)
{
    const char *at = names->len == 0 ? "" : snp_buf_bytes(names);
    const char *end = at + names->len;
    int64_t place = 0;
    const char *stop;

    SNP_TRY(snp_db_run(&index->db, NULL, err, "DELETE FROM changed", ""));
    for (unsigned tried = 0; place < FILES_MAX && tried < TRIED_MAX; tried++) {
        uint64_t n = 0;

        stop = memchr(at, '\0', (size_t)(end - at));
        if (stop == NULL) {
            break;
        }
        SNP_TRY(snp_db_run(&index->db, &n, err,
                           "INSERT OR IGNORE INTO changed SELECT id, ? FROM file WHERE path = ?",
                           "it", place, at));
        place += n > 0 ? 1 : 0;
        at = stop + 1;
    }
    return 0;
}

int snp_history_refresh(struct snp_index *index, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    snp_autobuf struct snp_buf names = SNP_BUF(NAMES_MAX);
    char mark[MARK_MAX] = "";
    int64_t since = 0;
    bool has = mark_of(index, mark, &since);
    int r = snp_db_row(&index->db, &rows, err, "SELECT mark FROM history", "");

    SNP_TRY(r);
    if (r > 0 ? snp_streq(snp_col_text(&rows, 0), mark) : !has) {
        return 0;
    }
    snp_rows_done(&rows);
    /* if git fails, it is not tried again before the next commit */
    if (has && !names_read(index, &names)) {
        has = false;
        snp_buf_clear(&names); /* output of git before it failed */
    }
    SNP_TRY(snp_db_exec(&index->db, "BEGIN IMMEDIATE", err));
    r = put(index, &names, err);
    SNP_THEN(r, snp_db_run(&index->db, NULL, err, "DELETE FROM history", ""));
    SNP_THEN(r, snp_db_run(&index->db, NULL, err, "INSERT INTO history VALUES(?, ?)", "ti", mark,
                           has ? since : 0));
    SNP_THEN(r, snp_db_exec(&index->db, "COMMIT", err));
    return r;
}
