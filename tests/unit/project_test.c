/* SPDX-License-Identifier: Apache-2.0 */
/* The project rule: what may be shown to code. */
#include "base/project/project.h"

#include <string.h>

#include "unit/harness.h"

static int check(const char *path, const char *home)
{
    struct snp_err err = {0};
    int r = snp_project_check(path, home, &err);
    assert_true(r == 0 || (err.code == r && err.msg[0] != '\0'));
    return r;
}

TEST(ordinary_folders_pass)
{
    assert_int_equal(check("/home/u/project", "/home/u"), 0);
    assert_int_equal(check("/srv", "/home/u"), 0);
    assert_int_equal(check("/home/user", "/home/u"), 0);
    assert_int_equal(check("/home/u2", "/home/u"), 0);
    assert_int_equal(check("/home/u/.hidden", "/home/u"), 0);
    assert_int_equal(check("/a", NULL), 0);
    assert_int_equal(check("/...", "/home/u"), 0);
}

TEST(home_and_what_holds_it_is_refused)
{
    assert_int_equal(check("/home/u", "/home/u"), SNP_E_DENIED);
    assert_int_equal(check("/home", "/home/u"), SNP_E_DENIED);
    assert_int_equal(check("/", "/home/u"), SNP_E_DENIED);
    assert_int_equal(check("/", NULL), SNP_E_DENIED);
    assert_int_equal(check("/root", "/root"), SNP_E_DENIED);
}

TEST(paths_that_are_not_normal_are_refused)
{
    static const char *const paths[] = {"",       "a",     "./a", "/a/",     "//a", "/a//b",
                                        "/a/./b", "/a/..", "/..", "/a/../b", "/.",  "/a/."};
    for (size_t i = 0; i < SNP_ARRAY_LEN(paths); i++) {
        assert_int_equal(check(paths[i], "/home/u"), SNP_E_INVALID);
    }
}

TEST(the_longest_path_passes_and_one_more_does_not)
{
    char path[SNP_PROJECT_PATH_MAX + 2];
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    path[SNP_PROJECT_PATH_MAX + 1] = '\0';
    assert_int_equal(check(path, "/home/u"), SNP_E_INVALID);
    path[SNP_PROJECT_PATH_MAX] = '\0';
    assert_int_equal(check(path, "/home/u"), 0);
}

TEST(the_hint_names_a_way_out)
{
    struct snp_err err = {0};
    assert_int_equal(snp_project_check("/home/u", "/home/u", &err), SNP_E_DENIED);
    assert_non_null(strstr(err.msg, "/home/u/project"));
}

RUN(UNIT(ordinary_folders_pass),
    UNIT(home_and_what_holds_it_is_refused),
    UNIT(paths_that_are_not_normal_are_refused),
    UNIT(the_longest_path_passes_and_one_more_does_not),
    UNIT(the_hint_names_a_way_out))
