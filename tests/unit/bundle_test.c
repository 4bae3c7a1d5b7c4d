/* SPDX-License-Identifier: Apache-2.0 */
/* The bundle's codec, and folders packed and unpacked through a pipe. */
#include "guest/files/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/fd.h"
#include "guest/files/pack.h"
#include "unit/harness.h"

/* Paths ------------------------------------------------------------------------------------- */

TEST(each_path_has_one_text_and_back)
{
    static const struct {
        const char *path;
        const char *text;
    } rows[] = {
        {"a/b c.txt", "a/b c.txt"},
        {"na\xc3\xafve", "na\xc3\xafve"},
        {"\xff", "\xee\xbf\xbf"},     /* U+EFFF */
        {"x\x80y", "x\xee\xbe\x80y"}, /* U+EF80 */
        {"\xc3", "\xee\xbf\x83"},
        {"\xee\xbe\x80", "\xee\xbf\xae\xee\xbe\xbe\xee\xbe\x80"}, /* the character itself */
        {"\xed\xa0\x80", "\xee\xbf\xad\xee\xbe\xa0\xee\xbe\x80"}, /* a surrogate is no UTF-8 */
        {"\xf0\x9f\x90\x8d", "\xf0\x9f\x90\x8d"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        char text[SNP_BUNDLE_NAME_LEN];
        char path[SNP_BUNDLE_PATH_LEN];
        assert_int_equal(snp_bundle_from_path(rows[i].path, text), 0);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(snp_bundle_to_path(text, path), 0);
        assert_string_equal(path, rows[i].path);
    }
}

TEST(a_text_that_no_path_makes_is_refused)
{
    static const char *const bad[] = {
        "\xff",                     /* no UTF-8 */
        "\xee\xbf\x83\xee\xbe\xa9", /* bytes that are a character together */
        "\xc0\x80",
    };
    char path[SNP_BUNDLE_PATH_LEN];

    for (size_t i = 0; i < SNP_ARRAY_LEN(bad); i++) {
        assert_int_equal(snp_bundle_to_path(bad[i], path), -1);
    }
}

TEST(only_paths_below_a_folder_are_paths)
{
    static const char *const good[] = {"a", "a/b", "...", ".a/..b", "a b\n/c"};
    static const char *const bad[] = {"",   "/",    "/a",   "a/",    "a//b",  ".",
                                      "..", "a/..", "../a", "a/./b", "a/../b"};
    char name[300];

    for (size_t i = 0; i < SNP_ARRAY_LEN(good); i++) {
        assert_true(snp_bundle_is_path(good[i]));
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(bad); i++) {
        assert_false(snp_bundle_is_path(bad[i]));
    }
    memset(name, 'n', sizeof(name));
    name[255] = '\0';
    assert_true(snp_bundle_is_path(name));
    name[255] = 'n';
    name[256] = '\0';
    assert_false(snp_bundle_is_path(name));
}

/* Streams ----------------------------------------------------------------------------------- */

struct stream {
    struct snp_buf bytes;
};

static void add_frame(struct stream *s, uint8_t type, const char *head, const void *raw, size_t n)
{
    char header[16] = {0};
    uint32_t head_len = (uint32_t)strlen(head);
    uint32_t body_len = head_len + (uint32_t)n;

    memcpy(header, &body_len, 4);
    memcpy(header + 8, &head_len, 4);
    header[12] = (char)type;
    assert_int_equal(snp_buf_add(&s->bytes, header, 16), 0);
    assert_int_equal(snp_buf_add(&s->bytes, head, head_len), 0);
    assert_int_equal(n == 0 ? 0 : snp_buf_add(&s->bytes, raw, n), 0);
}

/* A descriptor from which the stream can be read. */
static int open_stream(const struct stream *s)
{
    char name[] = "/tmp/snp-bundle-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(snp_write_all(fd, snp_buf_bytes(&s->bytes), s->bytes.len), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

struct world {
    char top[64];
    int view;
    int store;
    int outside;
    struct snp_workspace place;
};

static int make_dir(struct world *w, const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", w->top, name);
    assert_int_equal(mkdir(path, 0755), 0);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static struct world open_world(void)
{
    struct world w = {.top = "/tmp/snp-bundle-XXXXXX"};

    assert_non_null(mkdtemp(w.top));
    w.view = make_dir(&w, "workspace");
    w.store = make_dir(&w, "store");
    w.outside = make_dir(&w, "outside");
    w.place = (struct snp_workspace){
        .view_fd = w.view, .layer_fd = w.view, .store_fd = w.store, .base_fd = -1};
    return w;
}

static void close_world(struct world *w)
{
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

/* What pack writes, whole. */
static struct stream packed(const struct snp_pack *pack)
{
    struct snp_pack own = *pack;
    struct stream s = {0};
    char chunk[4096];
    int pair[2];
    int status;
    ssize_t n;
    pid_t pid;

    snp_buf_init(&s.bytes, 64 << 20);
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        own.fd = pair[1];
        (void)close(pair[0]);
        _exit(snp_pack(&own));
    }
    (void)close(pair[1]);
    while ((n = read(pair[0], chunk, sizeof(chunk))) > 0) {
        assert_int_equal(snp_buf_add(&s.bytes, chunk, (size_t)n), 0);
    }
    (void)close(pair[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return s;
}

static int unpack(struct world *w, const struct stream *s)
{
    snp_autoclose int fd = open_stream(s);

    return snp_unpack(&w->place, fd);
}

TEST(a_folder_comes_back_as_it_was_packed)
{
    struct world w = open_world();
    const struct timespec times[2] = {{.tv_sec = 9}, {.tv_sec = -5, .tv_nsec = 250000000}};
    struct stat st;
    struct stream s;
    char target[32] = {0};
    char *big = malloc(3 << 20);

    assert_non_null(big);
    memset(big, 'b', 3 << 20);
    put(w.view, "quote\" \\ and\nnewline", "one");
    put(w.view, "\xff\xfe", "two");
    assert_int_equal(mkdirat(w.view, "folder", 0700), 0);
    put(w.view, "folder/empty", "");
    put(w.view, "folder-x", "sorts between");
    assert_int_equal(symlinkat("../\xff\"", w.view, "link"), 0);
    assert_int_equal(mkfifoat(w.view, "fifo", 0600), 0);
    {
        snp_autoclose int fd = openat(w.view, "big", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(snp_write_all(fd, big, 3 << 20), 0);
    }
    assert_int_equal(utimensat(w.view, "folder", times, 0), 0);
    assert_int_equal(fchmodat(w.view, "folder", 0551, 0), 0);
    s = packed(&(struct snp_pack){.place = &w.place});
    assert_int_equal(fchmodat(w.view, "folder", 0755, 0), 0);
    assert_int_equal(snp_tree_empty(w.view), 0);
    put(w.view, "stays-not", "x");
    assert_int_equal(unpack(&w, &s), 0);

    assert_holds(w.view, "quote\" \\ and\nnewline", "one");
    assert_holds(w.view, "\xff\xfe", "two");
    assert_holds(w.view, "folder/empty", "");
    assert_holds(w.view, "folder-x", "sorts between");
    assert_false(is_there(w.view, "stays-not"));
    assert_false(is_there(w.view, "fifo"));
    assert_true(readlinkat(w.view, "link", target, sizeof(target)) > 0);
    assert_string_equal(target, "../\xff\"");
    assert_int_equal(fstatat(w.view, "big", &st, 0), 0);
    assert_int_equal(st.st_size, 3 << 20);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(fstatat(w.view, "folder", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0551);
    assert_int_equal(st.st_mtim.tv_sec, -5);
    assert_int_equal(st.st_mtim.tv_nsec, 250000000);
    snp_buf_done(&s.bytes);
    free(big);
    close_world(&w);
}

static ino_t inode(int dir, const char *name, nlink_t *ret_links)
{
    struct stat st;

    assert_int_equal(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    *ret_links = st.st_nlink;
    return st.st_ino;
}

TEST(names_of_one_file_stay_names_of_one_file)
{
    struct world w = open_world();
    nlink_t links = 0;
    struct stream s;

    assert_int_equal(mkdirat(w.view, "d", 0755), 0);
    put(w.view, "b", "shared");
    put(w.view, "apart", "shared");
    assert_int_equal(linkat(w.view, "b", w.view, "d/\xff", 0), 0);
    assert_int_equal(linkat(w.view, "b", w.view, "z", 0), 0);
    s = packed(&(struct snp_pack){.place = &w.place});
    assert_int_equal(snp_tree_empty(w.view), 0);
    assert_int_equal(unpack(&w, &s), 0);
    assert_holds(w.view, "d/\xff", "shared");
    assert_int_equal(inode(w.view, "z", &links), inode(w.view, "b", &links));
    assert_int_equal(links, 3);
    assert_int_not_equal(inode(w.view, "apart", &links), inode(w.view, "b", &links));
    snp_buf_done(&s.bytes);
    close_world(&w);
}

/* The key of the first item of a stream. */
static void first_key(const struct stream *s, char key[33])
{
    snp_autoclose int fd = open_stream(s);
    struct snp_bundle_in in;
    struct snp_bundle_frame frame;

    assert_int_equal(snp_bundle_in_init(&in, fd), 0);
    assert_int_equal(snp_bundle_next(&in, "files", &frame), 0);
    assert_int_equal(strlen(frame.item.key), 32);
    memcpy(key, frame.item.key, 33);
    snp_bundle_in_done(&in);
}

TEST(what_is_known_is_not_sent_again)
{
    struct world w = open_world();
    char known[64];
    char key[33];
    struct stream whole;
    struct stream part;

    put(w.view, "file", "contents that are long enough to be seen in the size of a stream");
    whole = packed(&(struct snp_pack){.place = &w.place});
    first_key(&whole, key);
    (void)snprintf(known, sizeof(known), "other\n%s\n", key);
    part = packed(&(struct snp_pack){.place = &w.place, .known = known, .n_known = strlen(known)});
    assert_true(part.bytes.len + 60 < whole.bytes.len);
    /* Whoever unpacks has nothing to fill in. */
    assert_int_equal(unpack(&w, &part), EBADMSG);
    snp_buf_done(&part.bytes);
    snp_buf_done(&whole.bytes);
    close_world(&w);
}

static void free_copies(struct snp_copies *copies)
{
    for (uint32_t number = 0; number < 16; number++) {
        (void)snp_copies_drop(copies, number);
    }
    snp_copies_forget(copies);
    snp_copies_read(copies, false);
    free(copies);
}

TEST(a_copy_is_packed_as_it_was)
{
    struct world w = open_world();
    struct snp_copies *copies = snp_copies_new(&w.place);
    struct snp_copied kept;
    struct stream s;

    put(w.view, "file", "before");
    assert_int_equal(
        snp_copies_take(copies, 7, &(struct snp_copy_most){1 << 20, 1 << 20, 10}, &kept), 0);
    put(w.view, "file", "after");
    put(w.view, "more", "more");
    s = packed(&(struct snp_pack){.place = &w.place, .tree = snp_copies_find(copies, 7)});
    assert_int_equal(unpack(&w, &s), 0);
    assert_holds(w.view, "file", "before");
    assert_false(is_there(w.view, "more"));
    snp_buf_done(&s.bytes);
    free_copies(copies);
    close_world(&w);
}

/* XXH3-128 of "x" and of nothing. */
#define KEY_X     "5c7401c0ec22eeeeeaf06c6480b2cd11"
#define KEY_EMPTY "99aa06d3014798d86001c324468d497f"

#define HEAD(kind, name, more) \
    "{\"kind\":\"" kind "\",\"name\":\"" name "\",\"key\":\"\",\"size\":0,\"same\":false" more "}"
#define NESTED "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
#define HEAD_X(name)                                                                            \
    "{\"kind\":\"file\",\"name\":\"" name "\",\"key\":\"" KEY_X "\",\"size\":1,\"same\":false," \
    "\"meta\":{\"mode\":420,\"mtime_ns\":1}}"
#define HEAD_LINKED(name, linked)                                                               \
    "{\"kind\":\"file\",\"name\":\"" name "\",\"key\":\"" KEY_X "\",\"size\":1,\"same\":false," \
    "\"meta\":{\"mode\":420,\"mtime_ns\":1,\"linked\":\"" linked "\"}}"

/* Only what this stream made becomes a file of two names; all else is a file of its own. */
TEST(a_file_is_linked_to_nothing_else)
{
    static const char *const linked[] = {
        HEAD_LINKED("zz", "out/x"), HEAD_LINKED("zz", "../outside/x"),   HEAD_LINKED("zz", "out"),
        HEAD_LINKED("zz", "plain"), HEAD_LINKED("zz", "\\u0001\\u0001"), HEAD_LINKED("zz", "zzz"),
    };
    struct world w = open_world();
    nlink_t links = 0;

    put(w.outside, "x", "x");
    for (size_t i = 0; i < SNP_ARRAY_LEN(linked); i++) {
        struct stream s = {0};
        snp_buf_init(&s.bytes, 1 << 20);
        add_frame(&s, SNP_BUNDLE_ITEM, HEAD_LINKED("first", "first"), "x", 1);
        add_frame(&s, SNP_BUNDLE_ITEM,
                  HEAD("link", "out", ",\"meta\":{\"target\":\"../outside\",\"mtime_ns\":1}"), NULL,
                  0);
        add_frame(&s, SNP_BUNDLE_ITEM, HEAD_X("plain"), "x", 1);
        add_frame(&s, SNP_BUNDLE_ITEM, HEAD_LINKED("second", "first"), "x", 1); /* control */
        add_frame(&s, SNP_BUNDLE_ITEM, linked[i], "x", 1);
        add_frame(&s, SNP_BUNDLE_END, "{\"part\":\"files\",\"items\":5}", NULL, 0);
        assert_int_equal(unpack(&w, &s), 0);
        assert_int_equal(inode(w.view, "first", &links), inode(w.view, "second", &links));
        assert_holds(w.view, "zz", "x");
        (void)inode(w.view, "zz", &links);
        assert_int_equal(links, 1);
        snp_buf_done(&s.bytes);
    }
    close_world(&w);
}

TEST(a_hostile_archive_is_refused_and_touches_nothing_outside)
{
    static const char *const heads[] = {
        HEAD_X("../outside/x"),
        HEAD_X("/tmp/x"),
        HEAD_X("out/x"), /* through a link that leads out */
        HEAD_X(""),
        HEAD_X("."),
        HEAD_X("a\\u0000b"),
        HEAD_X("a\\ud800"),
        HEAD_X("no/such/folder/x"),
        HEAD_X("aa"), /* less than the last name */
        HEAD("device", "zz", ""),
        HEAD("vars", "zz", ""),
        HEAD("file", "zz", ",\"size\":1"), /* twice */
        HEAD("file", "zz", ""),            /* without a key */
        HEAD("link", "zz", ",\"meta\":{\"target\":\"\"}"),
        HEAD("dir", "zz", ",\"meta\":{\"mode\":65535}"),
        HEAD("dir", "zz", ",\"meta\":{\"x\":" NESTED "}"),
        "{\"kind\":\"file\",\"name\":\"zz\",\"key\":\"" KEY_EMPTY "\",\"size\":1,\"same\":false}",
        "{\"kind\":\"dir\",\"name\":\"zz\",\"size\":99999999999999999999}",
        "{\"kind\":\"dir\",\"name\":\"zz\"} x",
        "{\"kind\":\"dir\",\"name\":\"zz\"",
        "[]",
        "",
    };
    struct world w = open_world();

    put(w.outside, "x", "precious");
    for (size_t i = 0; i < SNP_ARRAY_LEN(heads); i++) {
        struct stream s = {0};
        bool has_data = strstr(heads[i], "\"size\":1") != NULL;
        snp_buf_init(&s.bytes, 1 << 20);
        add_frame(&s, SNP_BUNDLE_ITEM,
                  HEAD("link", "out", ",\"meta\":{\"target\":\"../outside\",\"mtime_ns\":1}"), NULL,
                  0);
        add_frame(&s, SNP_BUNDLE_ITEM, heads[i], "x", has_data ? 1 : 0);
        add_frame(&s, SNP_BUNDLE_END, "{\"part\":\"files\",\"items\":2}", NULL, 0);
        assert_int_equal(unpack(&w, &s), EBADMSG);
        assert_holds(w.outside, "x", "precious");
        snp_buf_done(&s.bytes);
    }
    /* Control: the same stream with a name that may be is taken. */
    struct stream s = {0};
    snp_buf_init(&s.bytes, 1 << 20);
    add_frame(&s, SNP_BUNDLE_ITEM,
              HEAD("link", "out", ",\"meta\":{\"target\":\"../outside\",\"mtime_ns\":1}"), NULL, 0);
    add_frame(&s, SNP_BUNDLE_ITEM, HEAD_X("zz"), "x", 1);
    add_frame(&s, SNP_BUNDLE_END, "{\"part\":\"files\",\"items\":2}", NULL, 0);
    assert_int_equal(unpack(&w, &s), 0);
    assert_holds(w.view, "zz", "x");
    snp_buf_done(&s.bytes);
    close_world(&w);
}

TEST(a_torn_or_padded_stream_is_refused)
{
    struct world w = open_world();
    struct stream s = {0};

    snp_buf_init(&s.bytes, 1 << 20);
    add_frame(&s, SNP_BUNDLE_ITEM, HEAD_X("a"), NULL, 0);
    add_frame(&s, SNP_BUNDLE_DATA, "", "x", 1);
    add_frame(&s, SNP_BUNDLE_END, "{\"part\":\"files\",\"items\":1}", NULL, 0);
    for (size_t n = 0; n < s.bytes.len; n++) {
        struct stream cut = {.bytes = {.data = s.bytes.data, .len = n}};
        assert_int_equal(unpack(&w, &cut), EBADMSG);
    }
    assert_int_equal(unpack(&w, &s), 0);
    assert_holds(w.view, "a", "x");
    snp_buf_clear(&s.bytes);
    add_frame(&s, SNP_BUNDLE_ITEM, HEAD_X("a"), "xy", 2); /* more than its size */
    add_frame(&s, SNP_BUNDLE_END, "{\"part\":\"files\",\"items\":1}", NULL, 0);
    assert_int_equal(unpack(&w, &s), EBADMSG);
    snp_buf_clear(&s.bytes);
    add_frame(&s, SNP_BUNDLE_END, "{\"part\":\"vars\",\"items\":0}", NULL, 0);
    assert_int_equal(unpack(&w, &s), EBADMSG);
    snp_buf_clear(&s.bytes);
    add_frame(&s, SNP_BUNDLE_END, "{\"part\":\"files\",\"items\":1}", NULL, 0);
    assert_int_equal(unpack(&w, &s), EBADMSG);
    snp_buf_done(&s.bytes);
    close_world(&w);
}

RUN(UNIT(each_path_has_one_text_and_back),
    UNIT(a_text_that_no_path_makes_is_refused),
    UNIT(only_paths_below_a_folder_are_paths),
    UNIT(a_folder_comes_back_as_it_was_packed),
    UNIT(names_of_one_file_stay_names_of_one_file),
    UNIT(a_file_is_linked_to_nothing_else),
    UNIT(what_is_known_is_not_sent_again),
    UNIT(a_copy_is_packed_as_it_was),
    UNIT(a_hostile_archive_is_refused_and_touches_nothing_outside),
    UNIT(a_torn_or_padded_stream_is_refused))
