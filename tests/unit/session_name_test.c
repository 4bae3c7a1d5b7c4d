/* SPDX-License-Identifier: Apache-2.0 */
/* Session names: every rule at its edge. */
#include "base/policy/session_name.h"

#include <string.h>

#include "unit/harness.h"

static int check(const char *name)
{
    struct snp_err err = {0};
    int r = snp_session_name_check(name, &err);
    if (r < 0) {
        assert_int_equal(r, SNP_E_INVALID);
        assert_true(err.msg[0] != '\0');
    }
    return r;
}

TEST(good_names_pass)
{
    static const char *const names[] = {"a", "Z", "0", "_", "a.b", "a-b_c.9", "_x"};
    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        assert_int_equal(check(names[i]), 0);
    }
}

TEST(bad_names_are_refused)
{
    static const char *const names[] = {"",    ".a", "-a",    "a b", "a/b",      "a:b",
                                        "a\n", "ä",  "a\x01", "..",  "\xff\xfe", "a*"};
    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        assert_int_equal(check(names[i]), SNP_E_INVALID);
    }
}

TEST(sixty_four_characters_are_the_most)
{
    char name[SNP_SESSION_NAME_MAX + 2];
    memset(name, 'a', sizeof(name));
    name[SNP_SESSION_NAME_MAX + 1] = '\0';
    assert_int_equal(check(name), SNP_E_INVALID);
    name[SNP_SESSION_NAME_MAX] = '\0';
    assert_int_equal(check(name), 0);
}

TEST(an_id_is_32_lower_case_hex_digits)
{
    assert_true(snp_session_is_id("0123456789abcdef0123456789abcdef"));
    assert_false(snp_session_is_id("0123456789ABCDEF0123456789abcdef"));
    assert_false(snp_session_is_id("0123456789abcdef0123456789abcde"));
    assert_false(snp_session_is_id("0123456789abcdef0123456789abcdef0"));
    assert_false(snp_session_is_id("g123456789abcdef0123456789abcdef"));
}

RUN(UNIT(good_names_pass),
    UNIT(bad_names_are_refused),
    UNIT(sixty_four_characters_are_the_most),
    UNIT(an_id_is_32_lower_case_hex_digits))
