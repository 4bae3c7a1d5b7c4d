/* SPDX-License-Identifier: Apache-2.0 */
/* Shadows of a folder, as pid 1 makes them; here by an ordinary process on ordinary folders. */
#include "guest/files/copies.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "guest/pid1/wire.h"
#include "unit/harness.h"

enum {
    DEEP = 200
};

static const struct snp_copy_most plenty = {
    .bytes = 64 << 20, .new_bytes = 64 << 20, .files = 5000};

struct world {
    char top[64];
    char path[4200];
    int view;
    int store;
    int outside;
    struct snp_copies *copies;
};

static int make_dir(struct world *w, const char *name)
{
    (void)snprintf(w->path, sizeof(w->path), "%s/%s", w->top, name);
    assert_int_equal(mkdir(w->path, 0755), 0);
    return open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static struct world open_world(void)
{
    struct world w = {.top = "/tmp/snp-copy-XXXXXX"};
    struct snp_workspace place = {.base_fd = -1};

    assert_non_null(mkdtemp(w.top));
    w.view = make_dir(&w, "workspace");
    w.store = make_dir(&w, "store");
    w.outside = make_dir(&w, "outside");
    place.view_fd = place.layer_fd = w.view;
    place.store_fd = w.store;
    w.copies = snp_copies_new(&place);
    assert_non_null(w.copies);
    return w;
}

static void free_copies(struct snp_copies *copies)
{
    for (uint32_t number = 0; number < 32; number++) {
        (void)snp_copies_drop(copies, number);
    }
    snp_copies_forget(copies);
    snp_copies_read(copies, false);
    free(copies);
}

static void close_world(struct world *w)
{
    free_copies(w->copies);
    assert_int_equal(snp_tree_empty(w->store), 0);
    assert_int_equal(snp_tree_empty(w->view), 0);
    assert_int_equal(snp_tree_empty(w->outside), 0);
    (void)close(w->view);
    (void)close(w->store);
    (void)close(w->outside);
    assert_int_equal(snp_tree_remove(AT_FDCWD, w->top), 0);
}

static void put(int dir, const char *path, const char *text)
{
    snp_autoclose int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(snp_write_all(fd, text, strlen(text)), 0);
}

static void assert_holds(int dir, const char *path, const char *text)
{
    char now[64] = {0};
    snp_autoclose int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_true(snp_read_all(fd, now, sizeof(now) - 1) >= 0);
    assert_string_equal(now, text);
}

static bool is_there(int dir, const char *path)
{
    struct stat st;

    return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static struct snp_copied keep(struct world *w, uint32_t number)
{
    struct snp_copied kept;

    assert_int_equal(snp_copies_take(w->copies, number, &plenty, &kept), 0);
    assert_int_equal(kept.flags & SNP_KEEP_OVER, 0);
    return kept;
}

static unsigned copies(struct world *w)
{
    int own = openat(w->store, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fdopendir(own);
    struct dirent *entry;
    unsigned n = 0;

    while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread */
        n += entry->d_name[0] == '.' ? 0 : 1;
    }
    (void)closedir(dir);
    return n;
}

TEST(restore_undoes_every_kind_of_change)
{
    struct world w = open_world();
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000, .tv_nsec = 7}};
    struct stat st;
    char target[16] = {0};

    put(w.view, "modified", "before");
    put(w.view, "deleted", "gone");
    put(w.view, "becomes-folder", "file");
    assert_int_equal(mkdirat(w.view, "folder", 0750), 0);
    put(w.view, "folder/inner", "inner");
    assert_int_equal(mkdirat(w.view, "becomes-file", 0755), 0);
    put(w.view, "becomes-file/x", "x");
    assert_int_equal(symlinkat("modified", w.view, "link"), 0);
    assert_int_equal(fchmodat(w.view, "modified", 0600, 0), 0);
    assert_int_equal(utimensat(w.view, "modified", old, 0), 0);
    assert_int_equal(keep(&w, 1).files, 6);

    put(w.view, "modified", "BEFORE");
    assert_int_equal(fchmodat(w.view, "modified", 0666, 0), 0);
    assert_int_equal(unlinkat(w.view, "deleted", 0), 0);
    assert_int_equal(snp_tree_remove(w.view, "becomes-folder"), 0);
    assert_int_equal(mkdirat(w.view, "becomes-folder", 0755), 0);
    put(w.view, "becomes-folder/new", "new");
    assert_int_equal(snp_tree_remove(w.view, "folder"), 0);
    assert_int_equal(snp_tree_remove(w.view, "becomes-file"), 0);
    put(w.view, "becomes-file", "now a file");
    assert_int_equal(unlinkat(w.view, "link", 0), 0);
    assert_int_equal(symlinkat("elsewhere", w.view, "link"), 0);
    put(w.view, "created", "created");

    assert_int_equal(snp_copies_restore(w.copies, 1), 0);
    assert_holds(w.view, "modified", "before");
    assert_holds(w.view, "deleted", "gone");
    assert_holds(w.view, "becomes-folder", "file");
    assert_holds(w.view, "folder/inner", "inner");
    assert_holds(w.view, "becomes-file/x", "x");
    assert_false(is_there(w.view, "created"));
    assert_true(readlinkat(w.view, "link", target, sizeof(target)) > 0);
    assert_string_equal(target, "modified");
    assert_int_equal(fstatat(w.view, "modified", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_mtim.tv_sec, 1000);
    assert_int_equal(st.st_mtim.tv_nsec, 7);
    assert_int_equal(fstatat(w.view, "folder", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    close_world(&w);
}

TEST(what_did_not_change_is_copied_once)
{
    struct world w = open_world();

    put(w.view, "a", "one");
    put(w.view, "b", "two");
    (void)keep(&w, 1);
    assert_int_equal(copies(&w), 2);
    (void)keep(&w, 2);
    assert_int_equal(copies(&w), 2);
    put(w.view, "b", "three");
    (void)keep(&w, 3);
    assert_int_equal(copies(&w), 3);
    assert_int_equal(snp_copies_drop(w.copies, 1), 0);
    assert_int_equal(copies(&w), 3);
    assert_int_equal(snp_copies_drop(w.copies, 2), 0);
    assert_int_equal(copies(&w), 2);
    assert_int_equal(snp_copies_drop(w.copies, 2), ENOENT);
    assert_int_equal(snp_copies_restore(w.copies, 2), ENOENT);
    close_world(&w);
}

TEST(a_write_of_the_same_moment_is_seen)
{
    struct world w = open_world();
    char text[8];

    /* All writes have one size and are likely to have one time. */
    for (uint32_t i = 0; i < 20; i++) {
        (void)snprintf(text, sizeof(text), "v%03u", i);
        put(w.view, "file", text);
        (void)keep(&w, i);
    }
    for (uint32_t i = 20; i-- > 0;) {
        (void)snprintf(text, sizeof(text), "v%03u", i);
        assert_int_equal(snp_copies_restore(w.copies, i), 0);
        assert_holds(w.view, "file", text);
    }
    close_world(&w);
}

TEST(an_open_file_is_told_and_looked_at_again)
{
    struct world w = open_world();
    snp_autoclose int fd = -1;

    put(w.view, "log", "12345");
    (void)poll(NULL, 0, 20); /* past the tick of its times */
    fd = openat(w.view, "log", O_RDWR | O_CLOEXEC);
    assert_int_equal(keep(&w, 1).flags, SNP_KEEP_OPEN);
    assert_int_equal(pwrite(fd, "abcde", 5, 0), 5);
    assert_int_equal(keep(&w, 2).flags, SNP_KEEP_OPEN);
    assert_int_equal(snp_copies_restore(w.copies, 1), 0);
    assert_holds(w.view, "log", "12345");
    /* Its inode was kept: who holds it open goes on with the file of this name. */
    assert_int_equal(pwrite(fd, "X", 1, 0), 1);
    assert_holds(w.view, "log", "X2345");
    close_world(&w);
}

TEST(links_lead_nowhere)
{
    struct world w = open_world();
    struct stat before;
    struct stat after;

    put(w.outside, "precious", "precious");
    assert_int_equal(mkdirat(w.view, "folder", 0755), 0);
    put(w.view, "folder/precious", "mine");
    put(w.view, "file", "mine");
    (void)keep(&w, 1);
    assert_int_equal(fstatat(w.outside, "precious", &before, 0), 0);

    assert_int_equal(snp_tree_remove(w.view, "folder"), 0);
    assert_int_equal(symlinkat("../outside", w.view, "folder"), 0);
    assert_int_equal(unlinkat(w.view, "file", 0), 0);
    assert_int_equal(symlinkat("../outside/precious", w.view, "file"), 0);
    assert_int_equal(symlinkat("../outside", w.view, "extra"), 0);
    assert_int_equal(snp_copies_restore(w.copies, 1), 0);

    assert_holds(w.view, "folder/precious", "mine");
    assert_holds(w.view, "file", "mine");
    assert_false(is_there(w.view, "extra"));
    assert_holds(w.outside, "precious", "precious");
    assert_int_equal(fstatat(w.outside, "precious", &after, 0), 0);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    close_world(&w);
}

TEST(a_hard_link_does_not_spread_what_is_restored)
{
    struct world w = open_world();

    put(w.view, "a", "aaaa");
    put(w.view, "b", "bbbb");
    (void)keep(&w, 1);
    assert_int_equal(unlinkat(w.view, "b", 0), 0);
    assert_int_equal(linkat(w.view, "a", w.view, "b", 0), 0);
    assert_int_equal(snp_copies_restore(w.copies, 1), 0);
    assert_holds(w.view, "a", "aaaa");
    assert_holds(w.view, "b", "bbbb");
    close_world(&w);
}

TEST(a_tree_too_deep_to_keep_is_refused_and_can_be_undone)
{
    struct world w = open_world();
    struct snp_copied kept;
    int at = openat(w.view, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    put(w.view, "file", "kept");
    (void)keep(&w, 1);
    for (int i = 0; i < DEEP; i++) {
        int below;
        assert_int_equal(mkdirat(at, "deep", 0755), 0);
        below = openat(at, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(at);
        at = below;
    }
    (void)close(at);
    assert_int_equal(snp_copies_take(w.copies, 2, &plenty, &kept), 0);
    assert_int_equal(kept.flags & SNP_KEEP_OVER, SNP_KEEP_OVER);
    assert_null(snp_copies_find(w.copies, 2));
    assert_int_equal(snp_copies_restore(w.copies, 1), 0);
    assert_false(is_there(w.view, "deep"));
    assert_holds(w.view, "file", "kept");
    close_world(&w);
}

TEST(what_is_over_the_limit_is_not_made_and_leaves_nothing)
{
    struct world w = open_world();
    struct snp_copied kept;
    char name[16];

    for (int i = 0; i < 30; i++) {
        (void)snprintf(name, sizeof(name), "f%d", i);
        put(w.view, name, "0123456789");
    }
    assert_int_equal(
        snp_copies_take(
            w.copies, 1,
            &(struct snp_copy_most){.bytes = 1 << 20, .new_bytes = 1 << 20, .files = 29}, &kept),
        0);
    assert_int_equal(kept.flags, SNP_KEEP_OVER);
    assert_int_equal(
        snp_copies_take(w.copies, 1,
                        &(struct snp_copy_most){.bytes = 299, .new_bytes = 1 << 20, .files = 30},
                        &kept),
        0);
    assert_int_equal(kept.flags, SNP_KEEP_OVER);
    assert_null(snp_copies_find(w.copies, 1));
    assert_int_equal(copies(&w), 0);
    assert_int_equal(
        snp_copies_take(w.copies, 1,
                        &(struct snp_copy_most){.bytes = 300, .new_bytes = 300, .files = 30},
                        &kept),
        0);
    assert_int_equal(kept.flags, 0);
    assert_int_equal(kept.bytes, 300);
    assert_int_equal(kept.files, 30);
    close_world(&w);
}

TEST(a_fifo_is_named_and_stalls_nobody)
{
    struct world w = open_world();

    assert_int_equal(mkfifoat(w.view, "fifo", 0600), 0);
    put(w.view, "file", "x");
    assert_int_equal(keep(&w, 1).flags & SNP_KEEP_LOST, SNP_KEEP_LOST);
    put(w.view, "file", "y");
    assert_int_equal(snp_copies_restore(w.copies, 1), 0);
    assert_holds(w.view, "file", "x");
    assert_true(is_there(w.view, "fifo"));
    close_world(&w);
}

TEST(contents_outlive_their_copy_while_they_are_read)
{
    struct world w = open_world();

    put(w.view, "a", "one");
    (void)keep(&w, 1);
    put(w.view, "a", "two");
    (void)keep(&w, 2);
    snp_copies_read(w.copies, true);
    assert_int_equal(snp_copies_drop(w.copies, 1), 0);
    assert_int_equal(copies(&w), 2);
    snp_copies_read(w.copies, false);
    assert_int_equal(copies(&w), 1);
    close_world(&w);
}

RUN(UNIT(restore_undoes_every_kind_of_change),
    UNIT(what_did_not_change_is_copied_once),
    UNIT(a_write_of_the_same_moment_is_seen),
    UNIT(an_open_file_is_told_and_looked_at_again),
    UNIT(links_lead_nowhere),
    UNIT(a_hard_link_does_not_spread_what_is_restored),
    UNIT(a_tree_too_deep_to_keep_is_refused_and_can_be_undone),
    UNIT(what_is_over_the_limit_is_not_made_and_leaves_nothing),
    UNIT(a_fifo_is_named_and_stalls_nobody),
    UNIT(contents_outlive_their_copy_while_they_are_read))
