/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of a folder: what changes it, what does not, what is refused. */
#include "base/registry/treehash.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "unit/harness.h"

static char dir[64];

static const char *at(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void put(const char *name, const char *text, mode_t mode)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(snp_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    snp_closep(&fd);
}

static void begin(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/snp-tree-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(mkdir(at("lib"), 0755), 0);
    put("lib/a.py", "a = 1\n", 0644);
    put("run", "#!x\n", 0755);
    assert_int_equal(symlink("lib", at("lib64")), 0);
}

static const char *hash(struct snp_tree_digest *tree)
{
    static char last[2][SNP_TREE_HASH_LEN + 1];
    static int which;
    struct snp_err err;

    assert_int_equal(snp_tree_hash(dir, tree, &err), 0);
    which = !which;
    (void)snprintf(last[which], sizeof(last[which]), "%s", tree->hash);
    return last[which];
}

static void end(void)
{
    static const char *const names[] = {
        "lib/__pycache__/a.pyc", "lib/a.py", "lib/b.py", "run", "lib64", "fifo"};
    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        (void)unlink(at(names[i]));
    }
    (void)rmdir(at("lib/__pycache__"));
    (void)rmdir(at("lib"));
    assert_int_equal(rmdir(dir), 0);
}

TEST(the_same_files_have_the_same_hash)
{
    struct snp_tree_digest tree = {0};
    const char *first;

    begin();
    first = hash(&tree);
    assert_true(snp_has_prefix(first, "sha256:"));
    assert_int_equal(strlen(first), SNP_TREE_HASH_LEN);
    assert_int_equal(tree.files, 4);
    assert_int_equal(tree.bytes, 10);
    put("lib/a.py", "a = 1\n", 0644); /* another time of change */
    assert_string_equal(first, hash(&tree));
    end();
}

TEST(every_change_changes_the_hash)
{
    struct snp_tree_digest tree = {0};
    char before[SNP_TREE_HASH_LEN + 1];

    begin();
    for (int i = 0; i < 5; i++) {
        (void)snprintf(before, sizeof(before), "%s", hash(&tree));
        switch (i) {
        case 0: /* content of the same length */
            put("lib/a.py", "a = 2\n", 0644);
            break;
        case 1: /* the execute bit */
            put("lib/a.py", "a = 2\n", 0755);
            break;
        case 2: /* a file more */
            put("lib/b.py", "", 0644);
            break;
        case 3: /* its name */
            assert_int_equal(unlink(at("lib/b.py")), 0);
            put("run", "", 0755);
            break;
        default: /* where a link leads */
            assert_int_equal(unlink(at("lib64")), 0);
            assert_int_equal(symlink("run", at("lib64")), 0);
        }
        assert_string_not_equal(before, hash(&tree));
    }
    end();
}

TEST(bytecode_counts_unless_told_otherwise)
{
    struct snp_tree_digest all = {0};
    struct snp_tree_digest less = {.skip_bytecode = true};
    char with[SNP_TREE_HASH_LEN + 1];
    char without[SNP_TREE_HASH_LEN + 1];

    begin();
    (void)snprintf(with, sizeof(with), "%s", hash(&all));
    (void)snprintf(without, sizeof(without), "%s", hash(&less));
    assert_string_equal(with, without);
    assert_int_equal(mkdir(at("lib/__pycache__"), 0755), 0);
    put("lib/__pycache__/a.pyc", "x", 0644);
    assert_string_equal(without, hash(&less));
    assert_string_not_equal(with, hash(&all));
    end();
}

TEST(what_is_no_file_is_refused)
{
    struct snp_tree_digest tree = {0};
    struct snp_err err;

    begin();
    assert_int_equal(mkfifo(at("fifo"), 0644), 0); /* opening it would wait for ever */
    assert_int_equal(snp_tree_hash(dir, &tree, &err), SNP_E_INVALID);
    assert_non_null(strstr(err.msg, "fifo"));
    end();
}

TEST(what_others_cannot_read_is_named)
{
    struct snp_tree_digest tree = {.must_be_public = true};
    struct snp_err err;

    begin();
    assert_int_equal(snp_tree_hash(dir, &tree, &err), 0);
    put("lib/a.py", "a = 1\n", 0600);
    assert_int_equal(snp_tree_hash(dir, &tree, &err), SNP_E_DENIED);
    assert_non_null(strstr(err.msg, "lib/a.py"));
    end();
}

RUN(UNIT(the_same_files_have_the_same_hash),
    UNIT(every_change_changes_the_hash),
    UNIT(bytecode_counts_unless_told_otherwise),
    UNIT(what_is_no_file_is_refused),
    UNIT(what_others_cannot_read_is_named))
