/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short texts that people and strangers write: the first byte chooses what the rest is: 'L' a
 * limit, 'N' a number or size, 'S' a session's name, 'P' a project's path, 'U' bytes on
 * their way to a terminal, 'W' a misspelt word. What is accepted is what the rules say, told
 * here once more in other words.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/term.h"
#include "base/policy/limits.h"
#include "base/policy/session_name.h"
#include "base/project/project.h"
#include "base/str.h"
#include "base/text/escape.h"
#include "fuzz/target.h"

static void check_limit(const char *text)
{
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        const struct snp_limit_info *info = snp_limit_info((enum snp_limit)i);
        struct snp_err err = {0};
        uint64_t value = 7;
        char shown[64];
        int r = snp_limit_parse((enum snp_limit)i, text, info->flag, &value, &err);

        if (r < 0) {
            SNP_ASSERT(r == SNP_E_INVALID && value == 7 && err.msg[0] != '\0');
            continue;
        }
        SNP_ASSERT(value >= info->min && value <= info->max);
        SNP_ASSERT(snp_limit_format((enum snp_limit)i, value, shown, sizeof(shown)) == shown);
        SNP_ASSERT(shown[0] != '\0' && strlen(shown) < sizeof(shown) - 1);
    }
}

static void check_number(const char *text)
{
    const char *digits = text + (*text == '-' ? 1 : 0);
    bool is_plain = *digits != '\0' && digits[strspn(digits, "0123456789")] == '\0';
    uint64_t natural;
    int64_t integer;
    uint64_t bytes;
    double real;
    char shown[32];

    if (snp_parse_u64(text, &natural) == 0) {
        SNP_ASSERT(is_plain && digits == text);
    } else {
        SNP_ASSERT(!is_plain || digits != text || strlen(text) > 19);
    }
    if (snp_parse_i64(text, &integer) == 0) {
        SNP_ASSERT(is_plain && (integer < 0) == (digits != text && integer != 0));
    }
    if (snp_parse_double(text, &real) == 0) {
        SNP_ASSERT(isfinite(real));
    }
    if (snp_parse_bytes(text, &bytes) == 0) {
        SNP_ASSERT(text[0] != '-' && strpbrk(text, "0123456789") != NULL);
        SNP_ASSERT(strlen(snp_format_bytes(bytes, shown, sizeof(shown))) < sizeof(shown) - 1);
    }
}

static void check_name(const char *text)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    struct snp_err err;
    bool is_good = text[0] != '\0' && text[0] != '.' && text[0] != '-' &&
                   strlen(text) <= SNP_SESSION_NAME_MAX && text[strspn(text, allowed)] == '\0';

    SNP_ASSERT((snp_session_name_check(text, &err) == 0) == is_good);
    if (snp_session_is_id(text)) {
        SNP_ASSERT(is_good && strlen(text) == SNP_SESSION_ID_LEN);
        SNP_ASSERT(text[strspn(text, "0123456789abcdef")] == '\0');
    }
}

/* Neither /, nor the home folder, nor what holds it; no part that leads elsewhere. */
static void check_project(const char *text)
{
    static const char *const homes[] = {"/home/u", "/", NULL};
    struct snp_err err;

    for (size_t i = 0; i < SNP_ARRAY_LEN(homes); i++) {
        if (snp_project_check(text, homes[i], &err) < 0) {
            continue;
        }
        SNP_ASSERT(text[0] == '/' && text[1] != '\0' && strlen(text) <= SNP_PROJECT_PATH_MAX);
        SNP_ASSERT(text[strlen(text) - 1] != '/' && strstr(text, "//") == NULL);
        SNP_ASSERT(strstr(text, "/../") == NULL && strstr(text, "/./") == NULL);
        SNP_ASSERT(!snp_has_suffix(text, "/..") && !snp_has_suffix(text, "/."));
        SNP_ASSERT(homes[i] == NULL || strcmp(text, homes[i]) != 0);
        SNP_ASSERT(i != 0 || strcmp(text, "/home") != 0);
    }
}

static bool is_bad_on_a_terminal(unsigned char c)
{
    return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
}

static void check_shown(const char *bytes, size_t n)
{
    snp_autobuf struct snp_buf shown = {0};
    snp_autobuf struct snp_buf again = {0};
    const char *text;

    snp_buf_init(&shown, 16 * n + 16);
    snp_buf_init(&again, 16 * n + 16);
    SNP_ASSERT(snp_escape(&shown, bytes, n) == 0);
    text = snp_buf_bytes(&shown);
    SNP_ASSERT(snp_utf8_valid(text, shown.len));
    for (size_t i = 0; i < shown.len; i++) {
        SNP_ASSERT(!is_bad_on_a_terminal((unsigned char)text[i]));
        /*
         * C1 controls, and marks and overrides of direction: U+0080.., U+200E/F, U+202A.., U+2066..
         */
        SNP_ASSERT(i + 1 >= shown.len || (unsigned char)text[i] != 0xc2 ||
                   (unsigned char)text[i + 1] >= 0xa0);
        SNP_ASSERT(i + 2 >= shown.len || memcmp(text + i, "\xe2\x80", 2) != 0 ||
                   (unsigned char)text[i + 2] < 0xa8 || (unsigned char)text[i + 2] > 0xae);
        SNP_ASSERT(i + 2 >= shown.len || memcmp(text + i, "\xe2\x81", 2) != 0 ||
                   (unsigned char)text[i + 2] < 0xa6 || (unsigned char)text[i + 2] > 0xa9);
    }
    SNP_ASSERT(snp_escape(&again, text, shown.len) == 0);
    SNP_ASSERT(again.len == shown.len &&
               (shown.len == 0 || memcmp(snp_buf_bytes(&again), text, shown.len) == 0));
}

static void check_utf8(const char *bytes, size_t n)
{
    size_t len = 0;
    snp_autofree char *clean = snp_utf8_clean(bytes, n, &len);

    SNP_ASSERT(clean != NULL && clean[len] == '\0' && snp_utf8_valid(clean, len));
    SNP_ASSERT(snp_utf8_count(bytes, n) <= n && len <= 3 * n);
    if (snp_utf8_valid(bytes, n)) {
        SNP_ASSERT(len == n && (n == 0 || memcmp(clean, bytes, n) == 0));
        SNP_ASSERT(snp_utf8_count(bytes, n) == snp_utf8_count(clean, len));
    }
}

static void check_word(const char *text)
{
    static const char *const words[] = {"exec", "sessions", "output", "config"};
    const char *found = snp_suggest(text, words, SNP_ARRAY_LEN(words));

    for (size_t i = 0; i < SNP_ARRAY_LEN(words); i++) {
        SNP_ASSERT(snp_edit_distance(text, words[i]) == snp_edit_distance(words[i], text));
        SNP_ASSERT(found == NULL ||
                   snp_edit_distance(text, found) <= snp_edit_distance(text, words[i]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *rest = (const char *)bytes + 1;
    snp_autofree char *text = NULL;

    if (n == 0) {
        return 0;
    }
    text = strndup(rest, n - 1 < 8192 ? n - 1 : 8192);
    SNP_ASSERT(text != NULL);
    switch (bytes[0]) {
    case 'L':
        check_limit(text);
        break;
    case 'N':
        check_number(text);
        break;
    case 'S':
        check_name(text);
        break;
    case 'P':
        check_project(text);
        break;
    case 'W':
        check_word(text);
        break;
    default:
        check_shown(rest, n - 1);
        check_utf8(rest, n - 1);
    }
    return 0;
}
