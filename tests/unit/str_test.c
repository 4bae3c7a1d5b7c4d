/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers at their edges, UTF-8 against a second opinion, suggestions, ids. */
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/harness.h"

TEST(equal_and_affixes)
{
    assert_true(snp_streq(NULL, NULL));
    assert_false(snp_streq(NULL, ""));
    assert_false(snp_streq("", NULL));
    assert_true(snp_streq("a", "a"));
    assert_true(snp_has_prefix("abc", ""));
    assert_true(snp_has_prefix("abc", "abc"));
    assert_false(snp_has_prefix("ab", "abc"));
    assert_true(snp_has_suffix("abc", "bc"));
    assert_false(snp_has_suffix("c", "bc"));
}

struct number {
    const char *text;
    int eno; /* 0: it is a number */
    uint64_t value;
};

TEST(u64_takes_whole_numbers_only)
{
    static const struct number cases[] = {
        {"0", 0, 0},
        {"007", 0, 7},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", ERANGE, 0},
        {"18446744073709551620", ERANGE, 0},
        {"99999999999999999999999999", ERANGE, 0},
        {"", EINVAL, 0},
        {" 1", EINVAL, 0},
        {"1 ", EINVAL, 0},
        {"+1", EINVAL, 0},
        {"-0", EINVAL, 0},
        {"0x10", EINVAL, 0},
        {"1e3", EINVAL, 0},
        {"1.0", EINVAL, 0},
        {"\xD9\xA1", EINVAL, 0}, /* ARABIC-INDIC DIGIT ONE */
        {NULL, EINVAL, 0},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        uint64_t value = 77;
        errno = 0;
        assert_int_equal(snp_parse_u64(cases[i].text, &value), cases[i].eno == 0 ? 0 : -1);
        assert_int_equal(cases[i].eno, cases[i].eno == 0 ? 0 : errno);
        assert_int_equal(value, cases[i].eno == 0 ? cases[i].value : 77);
    }
}

TEST(i64_holds_both_ends)
{
    int64_t value = 0;
    assert_int_equal(snp_parse_i64("-9223372036854775808", &value), 0);
    assert_true(value == INT64_MIN);
    assert_int_equal(snp_parse_i64("9223372036854775807", &value), 0);
    assert_true(value == INT64_MAX);
    assert_int_equal(snp_parse_i64("-0", &value), 0);
    assert_int_equal(value, 0);
    static const char *const bad[] = {
        "9223372036854775808",   "-9223372036854775809", "-", "--1", "+1", "- 1", "",
        "-18446744073709551616",
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(bad); i++) {
        assert_int_equal(snp_parse_i64(bad[i], &value), -1);
    }
    assert_int_equal(snp_parse_i64(NULL, &value), -1);
}

TEST(double_is_a_finite_decimal)
{
    static const struct {
        const char *text;
        double value;
    } good[] = {
        {"0", 0},  {"-1.5", -1.5}, {"+2", 2},     {".5", 0.5},
        {"5.", 5}, {"1e3", 1000},  {"1E-1", 0.1}, {"1e-999", 0},
    };
    static const char *const bad[] = {
        "",     ".",     "-",   "e1", "1e", "1e+",   "nan",   "inf",
        "-inf", "0x1p3", "1,5", " 1", "1 ", "1e999", "1.2.3", "1_0",
    };
    double value = 0;
    for (size_t i = 0; i < SNP_ARRAY_LEN(good); i++) {
        assert_int_equal(snp_parse_double(good[i].text, &value), 0);
        assert_true(value == good[i].value);
    }
    value = 7;
    for (size_t i = 0; i < SNP_ARRAY_LEN(bad); i++) {
        assert_int_equal(snp_parse_double(bad[i], &value), -1);
    }
    assert_int_equal(snp_parse_double(NULL, &value), -1);
    assert_true(value == 7);
}

TEST(bytes_with_units)
{
    static const struct number cases[] = {
        {"0", 0, 0},
        {"1048576", 0, 1048576},
        {"900b", 0, 900},
        {"64k", 0, 65536},
        {"64K", 0, 65536},
        {"64kb", 0, 65536},
        {"512m", 0, 512ULL << 20},
        {"512MiB", 0, 512ULL << 20},
        {"512 MiB", 0, 512ULL << 20},
        {"1GiB", 0, 1ULL << 30},
        {"1.5g", 0, 3ULL << 29},
        {"0.5k", 0, 512},
        {"0.0001k", 0, 0},
        {"1.00000000000000000000000000001k", 0, 1024},
        {"2t", 0, 2ULL << 40},
        {"16777215t", 0, 16777215ULL << 40},
        {"16777216t", ERANGE, 0},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551615k", ERANGE, 0},
        {"18446744073709551616", ERANGE, 0},
        {"", EINVAL, 0},
        {"k", EINVAL, 0},
        {".5g", EINVAL, 0},
        {"1.g", EINVAL, 0},
        {"1.5", EINVAL, 0},
        {"1.5b", EINVAL, 0},
        {"1ib", EINVAL, 0},
        {"1bk", EINVAL, 0},
        {"1kib1", EINVAL, 0},
        {"1ki", EINVAL, 0},
        {"1p", EINVAL, 0},
        {"-1k", EINVAL, 0},
        {"1  k", EINVAL, 0},
        {"1 ", EINVAL, 0},
        {" 1", EINVAL, 0},
        {"1k ", EINVAL, 0},
        {"1e3", EINVAL, 0},
        {NULL, EINVAL, 0},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        uint64_t value = 77;
        errno = 0;
        assert_int_equal(snp_parse_bytes(cases[i].text, &value), cases[i].eno == 0 ? 0 : -1);
        assert_int_equal(cases[i].eno, cases[i].eno == 0 ? 0 : errno);
        assert_int_equal(value, cases[i].eno == 0 ? cases[i].value : 77);
    }
}

TEST(bytes_are_written_as_people_read_them)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {900, "900 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {1536, "1.5 KiB"},
        {512ULL << 20, "512 MiB"},
        {3ULL << 29, "1.5 GiB"},
        {(1ULL << 20) - 1, "1 MiB"},
        {(1ULL << 20) - 60, "1023.9 KiB"},
        {UINT64_MAX, "16 EiB"},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        char text[32];
        assert_string_equal(snp_format_bytes(cases[i].bytes, text, sizeof(text)), cases[i].text);
    }
    char tiny[4];
    assert_string_equal(snp_format_bytes(512ULL << 20, tiny, sizeof(tiny)), "512");
}

/* Is p[0..n) exactly one character? Decodes and encodes back, unlike the code under test. */
static bool is_one_character(const unsigned char *p, size_t n)
{
    static const unsigned lead[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    static const unsigned first[] = {0, 0, 0x80, 0x800, 0x10000};
    static const unsigned mask[] = {0, 0x80, 0xE0, 0xF0, 0xF8};
    if ((p[0] & mask[n]) != lead[n]) {
        return false;
    }
    unsigned value = p[0] & ~mask[n];
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0U) != 0x80U) {
            return false;
        }
        value = value << 6U | (p[i] & 0x3FU);
    }
    return value >= first[n] && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
}

static bool is_utf8_slowly(const unsigned char *p, size_t n)
{
    if (n == 0) {
        return true;
    }
    for (size_t len = 1; len <= 4 && len <= n; len++) {
        if (is_one_character(p, len) && is_utf8_slowly(p + len, n - len)) {
            return true;
        }
    }
    return false;
}

static void compare_utf8(const unsigned char *bytes, size_t most)
{
    for (size_t n = 1; n <= most; n++) {
        if (snp_utf8_valid((const char *)bytes, n) != is_utf8_slowly(bytes, n)) {
            fail_msg("%02x %02x %02x %02x, %zu bytes", bytes[0], bytes[1], bytes[2], bytes[3], n);
        }
    }
}

TEST(utf8_agrees_with_a_second_opinion)
{
    /* every byte that starts or ends a range, in all sequences of four */
    static const unsigned char edges[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                          0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                          0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    enum {
        N = sizeof(edges)
    };
    for (unsigned i = 0; i < N * N * N * N; i++) {
        const unsigned char bytes[4] = {edges[i % N], edges[i / N % N], edges[i / N / N % N],
                                        edges[i / N / N / N]};
        compare_utf8(bytes, sizeof(bytes));
    }
}

TEST(utf8_clean_marks_each_broken_part_once)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *clean;
        size_t count;
    } cases[] = {
        {"", 0, "", 0},
        {"abc", 3, "abc", 3},
        {"\xC3\xA9t\xC3\xA9", 5, "\xC3\xA9t\xC3\xA9", 3},
        {"a\xFFz", 3, "a\xEF\xBF\xBDz", 3},
        {"\xE2\x82", 2, "\xEF\xBF\xBD", 2},                             /* cut short */
        {"\xF0\x9F\x98", 3, "\xEF\xBF\xBD", 3},                         /* cut short */
        {"\xC0\xAF", 2, "\xEF\xBF\xBD\xEF\xBF\xBD", 2},                 /* overlong */
        {"\xED\xA0\x80", 3, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 3}, /* surrogate */
        {"\xF0\x9F\x41", 3, "\xEF\xBF\xBD\x41", 3},                     /* broken off */
        {"\xF4\x90\x80\x80", 4, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 4},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        size_t len = 0;
        snp_autofree char *clean = snp_utf8_clean(cases[i].bytes, cases[i].n, &len);
        assert_non_null(clean);
        assert_string_equal(clean, cases[i].clean);
        assert_int_equal(len, strlen(cases[i].clean));
        assert_int_equal(snp_utf8_count(cases[i].bytes, cases[i].n), cases[i].count);
    }
}

TEST(utf8_clean_keeps_nul_bytes)
{
    size_t len = 0;
    snp_autofree char *clean = snp_utf8_clean("a\0b", 3, &len);
    assert_non_null(clean);
    assert_int_equal(len, 3);
    assert_memory_equal(clean, "a\0b", 4);
}

TEST(edit_distance_counts_swaps_once)
{
    assert_int_equal(snp_edit_distance("", ""), 0);
    assert_int_equal(snp_edit_distance("", "abc"), 3);
    assert_int_equal(snp_edit_distance("abc", ""), 3);
    assert_int_equal(snp_edit_distance("timeout", "timeout"), 0);
    assert_int_equal(snp_edit_distance("timeuot", "timeout"), 1);
    assert_int_equal(snp_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(snp_edit_distance("ca", "abc"), 3);
    char a[200];
    char b[200];
    memset(a, 'a', sizeof(a) - 1);
    memset(b, 'b', sizeof(b) - 1);
    a[sizeof(a) - 1] = b[sizeof(b) - 1] = '\0';
    assert_int_equal(snp_edit_distance(a, b), 64);
}

TEST(only_typos_get_a_suggestion)
{
    static const char *const words[] = {"--timeout", "--memory", "--cpus", "exec", "ls", "put"};
    enum {
        N = SNP_ARRAY_LEN(words)
    };
    assert_string_equal(snp_suggest("--timout", words, N), "--timeout");
    assert_string_equal(snp_suggest("--meomry", words, N), "--memory");
    assert_string_equal(snp_suggest("exce", words, N), "exec");
    assert_string_equal(snp_suggest("sl", words, N), "ls");
    assert_string_equal(snp_suggest("put", words, N), "put");
    assert_null(snp_suggest("--frobnicate", words, N));
    assert_null(snp_suggest("", words, N));
    assert_null(snp_suggest("x", words, N));
    assert_null(snp_suggest("exec", words, 0));
}

TEST(random_ids_are_hex_and_differ)
{
    char a[33];
    char b[33];
    assert_int_equal(snp_random_id(a), 0);
    assert_int_equal(snp_random_id(b), 0);
    assert_int_equal(strlen(a), 32);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    assert_string_not_equal(a, b);
}

TEST(a_path_has_one_name)
{
    static const char *const rows[][2] = {
        {"z.txt", "z.txt"},
        {"./z.txt", "z.txt"},
        {"/workspace/z.txt", "z.txt"},
        {"//workspace//./a//b", "a/b"},
        {"a/./b/.", "a/b/"},
        {"a/", "a/"},
        {"..z/.z/z.", "..z/.z/z."},
        {"", "/workspace"},
        {".", "/workspace"},
        {"./", "/workspace"},
        {"/workspace", "/workspace"},
        {"/workspace/./", "/workspace"},
        {"/workspaces/x", "/workspaces/x"},
        {"/tmp//x", "/tmp/x"},
        {"a/../b", "a/../b"},
        {"/workspace/..x/y", "..x/y"},
        {"/workspace/../tmp/x", "/workspace/../tmp/x"},
        {"/workspace/..", "/workspace/.."},
        {"/", "/"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autofree char *plain = snp_path_plain(rows[i][0]);

        assert_string_equal(plain, rows[i][1]);
    }
}

TEST(format_returns_owned_text)
{
    snp_autofree char *text = snp_format("%s-%d", "a", 5);
    assert_string_equal(text, "a-5");
}

RUN(UNIT(equal_and_affixes),
    UNIT(u64_takes_whole_numbers_only),
    UNIT(i64_holds_both_ends),
    UNIT(double_is_a_finite_decimal),
    UNIT(bytes_with_units),
    UNIT(bytes_are_written_as_people_read_them),
    UNIT(utf8_agrees_with_a_second_opinion),
    UNIT(utf8_clean_marks_each_broken_part_once),
    UNIT(utf8_clean_keeps_nul_bytes),
    UNIT(edit_distance_counts_swaps_once),
    UNIT(only_typos_get_a_suggestion),
    UNIT(random_ids_are_hex_and_differ),
    UNIT(a_path_has_one_name),
    UNIT(format_returns_owned_text))
