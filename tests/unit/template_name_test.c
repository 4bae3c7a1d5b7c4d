/* SPDX-License-Identifier: Apache-2.0 */
/* What may name a template, and which folders of an interpreter may be shown. */
#include "base/policy/template_name.h"

#include <string.h>

#include "base/policy/prefix.h"
#include "unit/harness.h"

static int check(const char *name)
{
    struct snp_err err = {0};
    int r = snp_template_name_check(name, &err);
    assert_true(r == 0 || (err.code == r && err.msg[0] != '\0'));
    return r;
}

static int check_prefix(const char *path, const char *home)
{
    struct snp_err err = {0};
    int r = snp_prefix_check(path, home, &err);
    assert_true(r == 0 || (err.code == r && err.msg[0] != '\0'));
    return r;
}

TEST(plain_names_pass)
{
    assert_int_equal(check("base"), 0);
    assert_int_equal(check("py3.12_web-x"), 0);
    assert_int_equal(check("1234567890123456789012345678901"), 0);
}

TEST(names_that_are_paths_or_options_are_refused)
{
    static const char *const names[] = {"",
                                        ".",
                                        "..",
                                        "../x",
                                        "a/b",
                                        "-a",
                                        ".hidden",
                                        "a b",
                                        "a\n",
                                        "\xc3\xa9",
                                        "12345678901234567890123456789012"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        assert_int_equal(check(names[i]), SNP_E_INVALID);
    }
}

TEST(own_names_cannot_be_added)
{
    static const char *const names[] = {"base", "data", "plot", "venv"};
    struct snp_err err;

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        assert_int_equal(snp_template_new_name_check(names[i], &err), SNP_E_INVALID);
        assert_int_equal(snp_template_is_builtin(names[i]), strcmp(names[i], "venv") != 0);
    }
    assert_int_equal(snp_template_new_name_check("basic", &err), 0);
}

TEST(installations_may_be_shown)
{
    assert_int_equal(check_prefix("/opt/python3.12", "/home/u"), 0);
    assert_int_equal(check_prefix("/home/u/.pyenv/versions/3.8.18", "/home/u"), 0);
    assert_int_equal(check_prefix("/root/.pyenv/versions/3.8.18", "/root"), 0);
    assert_int_equal(check_prefix("/home/other/miniconda3", "/home/u"), 0);
}

TEST(homes_and_what_holds_them_may_not)
{
    assert_int_equal(check_prefix("/", NULL), SNP_E_DENIED);
    assert_int_equal(check_prefix("/home", NULL), SNP_E_DENIED);
    assert_int_equal(check_prefix("/home/u", "/home/u"), SNP_E_DENIED);
    assert_int_equal(check_prefix("/home/other", "/home/u"), SNP_E_DENIED);
    assert_int_equal(check_prefix("/root", NULL), SNP_E_DENIED);
    assert_int_equal(check_prefix("/srv/homes", "/srv/homes/u"), SNP_E_DENIED);
    assert_int_equal(check_prefix("opt/x", NULL), SNP_E_INVALID);
}

TEST(places_a_sandbox_has_itself_are_known)
{
    assert_true(snp_prefix_is_covered("/tmp/python"));
    assert_true(snp_prefix_is_covered("/workspace"));
    assert_false(snp_prefix_is_covered("/tmpx/python"));
    assert_false(snp_prefix_is_covered("/opt"));
    assert_true(snp_prefix_is_system("/usr/local/bin/python3.12"));
    assert_false(snp_prefix_is_system("/usrx/bin/python3"));
}

RUN(UNIT(plain_names_pass),
    UNIT(names_that_are_paths_or_options_are_refused),
    UNIT(own_names_cannot_be_added),
    UNIT(installations_may_be_shown),
    UNIT(homes_and_what_holds_them_may_not),
    UNIT(places_a_sandbox_has_itself_are_known))
