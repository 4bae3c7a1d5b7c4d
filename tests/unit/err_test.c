/* SPDX-License-Identifier: Apache-2.0 */
/* Failure reports: texts are cut and cleaned, names are stable. */
#include "base/err.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "unit/harness.h"

TEST(code_names_are_unique_and_come_back)
{
    for (int code = 0; code >= SNP_CODE_MIN; code--) {
        const char *name = snp_code_name(code);
        assert_non_null(name);
        assert_int_equal(snp_code_from_name(name), code);
        for (int other = code - 1; other >= SNP_CODE_MIN; other--) {
            assert_string_not_equal(name, snp_code_name(other));
        }
    }
}

TEST(remedy_names_are_unique_and_come_back)
{
    for (int kind = 1; kind < SNP_REMEDY_KINDS; kind++) {
        assert_string_not_equal(snp_remedy_name((enum snp_remedy_kind)kind), "");
        assert_int_equal(snp_remedy_from_name(snp_remedy_name((enum snp_remedy_kind)kind)), kind);
    }
    assert_string_equal(snp_remedy_name((enum snp_remedy_kind)SNP_REMEDY_KINDS), "");
    assert_string_equal(snp_remedy_name((enum snp_remedy_kind) - 1), "");
    assert_int_equal(snp_remedy_from_name(""), SNP_REMEDY_NONE);
    assert_int_equal(snp_remedy_from_name(NULL), SNP_REMEDY_NONE);
}

TEST(a_new_report_has_no_way_out_of_an_older_one)
{
    struct snp_err err;
    assert_int_equal(snp_fail_with(&err, SNP_E_DENIED, SNP_REMEDY_NEAR_NAME, "w\nx", 3, "no"),
                     SNP_E_DENIED);
    assert_string_equal(err.remedy.name, "w x");
    snp_err_about(&err, "y");
    snp_err_limit(&err, "memory", 5);
    (void)snp_err_wrap(&err, "exec");
    assert_int_equal(err.remedy.kind, SNP_REMEDY_NEAR_NAME);
    assert_string_equal(err.object, "y");
    (void)snp_fail(&err, SNP_E_DENIED, "other");
    assert_int_equal(err.remedy.kind, SNP_REMEDY_NONE);
    assert_string_equal(err.object, "");
    assert_string_equal(err.limit, "");
    assert_int_equal(snp_fail_with(NULL, SNP_E_LIMIT, SNP_REMEDY_FORCE, NULL, 0, "x"), SNP_E_LIMIT);
}

TEST(unknown_codes_and_names_are_internal)
{
    assert_string_equal(snp_code_name(1), "internal");
    assert_string_equal(snp_code_name(SNP_CODE_MIN - 1), "internal");
    assert_int_equal(snp_code_from_name("Not_Found"), SNP_E_INTERNAL);
    assert_int_equal(snp_code_from_name(""), SNP_E_INTERNAL);
    assert_int_equal(snp_code_from_name(NULL), SNP_E_INTERNAL);
}

TEST(exit_status_follows_the_code)
{
    assert_int_equal(snp_code_exit(SNP_OK), 0);
    assert_int_equal(snp_code_exit(SNP_E_INVALID), 2);
    assert_int_equal(snp_code_exit(SNP_E_LIMIT), 1);
    assert_int_equal(snp_code_exit(SNP_E_INTERNAL), 1);
}

TEST(fail_fills_the_record_and_keeps_errno)
{
    struct snp_err err;
    errno = EXDEV;
    assert_int_equal(snp_fail(&err, SNP_E_LIMIT, "%d of %s", 3, "four"), SNP_E_LIMIT);
    assert_int_equal(errno, EXDEV);
    assert_int_equal(err.code, SNP_E_LIMIT);
    assert_int_equal(err.sys_errno, 0);
    assert_string_equal(err.msg, "3 of four");
    assert_true(snp_has_prefix(err.where, "fail_fills_the_record_and_keeps_errn:"));
}

TEST(fail_sys_appends_the_reason)
{
    struct snp_err err;
    assert_int_equal(snp_fail_sys(&err, EACCES, "open %s", "/x"), SNP_E_SYS);
    assert_int_equal(err.sys_errno, EACCES);
    assert_string_equal(err.msg, "open /x: Permission denied");
}

TEST(a_missing_record_still_gives_the_code)
{
    assert_int_equal(snp_fail(NULL, SNP_E_DENIED, "x"), SNP_E_DENIED);
}

TEST(wrap_puts_context_in_front)
{
    struct snp_err err;
    (void)snp_fail_sys(&err, ENOENT, "open b");
    assert_int_equal(snp_err_wrap(&err, "step %s", "a"), SNP_E_SYS);
    assert_string_equal(err.msg, "step a: open b: No such file or directory");
    assert_int_equal(err.sys_errno, ENOENT);
}

TEST(own_message_may_be_an_argument)
{
    struct snp_err err;
    (void)snp_fail(&err, SNP_E_LIMIT, "inner");
    (void)snp_fail(&err, SNP_E_PEER, "<%s>", err.msg);
    assert_string_equal(err.msg, "<inner>");
    (void)snp_err_wrap(&err, "%s", err.msg);
    assert_string_equal(err.msg, "<inner>: <inner>");
}

TEST(control_bytes_become_spaces)
{
    struct snp_err err;
    (void)snp_fail(&err, SNP_E_INVALID, "a\nb\x1b[31mc\x7f\r");
    assert_string_equal(err.msg, "a b [31mc  ");
}

TEST(a_cut_never_splits_a_character)
{
    static const char *const characters[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    struct snp_err err;
    for (size_t c = 0; c < SNP_ARRAY_LEN(characters); c++) {
        for (size_t lead = sizeof(err.msg) - 6; lead < sizeof(err.msg) + 2; lead++) {
            char text[sizeof(err.msg) + 16];
            memset(text, 'x', lead);
            memcpy(text + lead, characters[c], strlen(characters[c]) + 1);
            (void)snp_fail(&err, SNP_E_INVALID, "%s", text);
            size_t len = strlen(err.msg);
            assert_true(snp_utf8_valid(err.msg, len));
            bool fits = lead + strlen(characters[c]) < sizeof(err.msg);
            size_t cut = lead < sizeof(err.msg) ? lead : sizeof(err.msg) - 1;
            assert_int_equal(len, fits ? lead + strlen(characters[c]) : cut);
        }
    }
}

TEST(long_wraps_are_cut)
{
    struct snp_err err;
    char text[2000];
    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)snp_fail(&err, SNP_E_INVALID, "end");
    (void)snp_err_wrap(&err, "%s", text);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
}

RUN(UNIT(code_names_are_unique_and_come_back),
    UNIT(unknown_codes_and_names_are_internal),
    UNIT(remedy_names_are_unique_and_come_back),
    UNIT(a_new_report_has_no_way_out_of_an_older_one),
    UNIT(exit_status_follows_the_code),
    UNIT(fail_fills_the_record_and_keeps_errno),
    UNIT(fail_sys_appends_the_reason),
    UNIT(a_missing_record_still_gives_the_code),
    UNIT(wrap_puts_context_in_front),
    UNIT(own_message_may_be_an_argument),
    UNIT(control_bytes_become_spaces),
    UNIT(a_cut_never_splits_a_character),
    UNIT(long_wraps_are_cut))
