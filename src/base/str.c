/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text: exact numbers, UTF-8, spelling suggestions, ids.
 *
 * Invariants: a number is accepted only when the whole text is that number, and never
 * wraps; nothing depends on the locale; the UTF-8 reader never looks past n bytes.
 */
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    EDIT_MAX = 64,        /* bytes of a word that are compared */
    FRACTION_DIGITS = 18, /* of a size; 10^18 still fits 64 bits */
};

bool snp_streq(const char *a, const char *b)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    return strcmp(a, b) == 0;
}

bool snp_has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool snp_has_suffix(const char *text, const char *suffix)
{
    size_t n = strlen(text);
    size_t m = strlen(suffix);
    return n >= m && memcmp(text + n - m, suffix, m) == 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Read digits at *p into *ret and advance *p. 0 or -1 with errno. */
static int read_digits(const char **p, uint64_t *ret)
{
    const char *text = *p;
    uint64_t value = 0;
    if (!is_digit(*text)) {
        errno = EINVAL;
        return -1;
    }
    for (; is_digit(*text); text++) {
        if (__builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value)) {
            errno = ERANGE;
            return -1;
        }
    }
    *p = text;
    *ret = value;
    return 0;
}

int snp_parse_u64(const char *text, uint64_t *ret)
{
    uint64_t value = 0;
    if (text == NULL) {
        errno = EINVAL;
        return -1;
    }
    if (read_digits(&text, &value) < 0) {
        return -1;
    }
    if (*text != '\0') {
        errno = EINVAL;
        return -1;
    }
    *ret = value;
    return 0;
}

int snp_parse_i64(const char *text, int64_t *ret)
{
    if (text == NULL) {
        errno = EINVAL;
        return -1;
    }
    bool negative = *text == '-';
    uint64_t value = 0;
    if (snp_parse_u64(text + (negative ? 1 : 0), &value) < 0) {
        return -1;
    }
    uint64_t most = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    if (value > most) {
        errno = ERANGE;
        return -1;
    }
    *ret = negative ? (int64_t)(0 - value) : (int64_t)value;
    return 0;
}

static const char *skip_digits(const char *p)
{
    while (is_digit(*p)) {
        p++;
    }
    return p;
}

/* Is all of text [+-]digits[.digits][e[+-]digits], with a digit on at least one side of the dot? */
static bool is_decimal(const char *text)
{
    const char *p = text + (*text == '-' || *text == '+' ? 1 : 0);
    const char *whole = p;
    p = skip_digits(p);
    bool has_digits = p > whole;
    if (*p == '.') {
        const char *fraction = p + 1;
        p = skip_digits(fraction);
        has_digits = has_digits || p > fraction;
    }
    if (!has_digits) {
        return false;
    }
    if (*p == 'e' || *p == 'E') {
        p += p[1] == '-' || p[1] == '+' ? 2 : 1;
        if (!is_digit(*p)) {
            return false;
        }
        p = skip_digits(p);
    }
    return *p == '\0';
}

int snp_parse_double(const char *text, double *ret)
{
    if (text == NULL || !is_decimal(text)) {
        errno = EINVAL;
        return -1;
    }
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) {
        return -1;
    }
    double value = strtod_l(text, NULL, c_locale);
    freelocale(c_locale);
    if (!isfinite(value)) {
        errno = ERANGE;
        return -1;
    }
    *ret = value;
    return 0;
}

/* The shift of a unit: "" and "b" 0, "k", "kb", "kib" 10, and so on to "t"; -1 if it is none. */
static int unit_shift(const char *unit)
{
    static const char letters[] = "kmgt";
    char low[4] = {0};
    size_t n = strlen(unit);
    if (n >= sizeof(low)) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        low[i] = (char)(unit[i] >= 'A' && unit[i] <= 'Z' ? unit[i] - 'A' + 'a' : unit[i]);
    }
    if (snp_streq(low, "") || snp_streq(low, "b")) {
        return 0;
    }
    const char *letter = strchr(letters, low[0]);
    if (letter == NULL) {
        return -1;
    }
    if (low[1] != '\0' && !snp_streq(low + 1, "b") && !snp_streq(low + 1, "ib")) {
        return -1;
    }
    return 10 * (int)(letter - letters + 1);
}

/*
 * Read ".75" at *p as *ret_part of *ret_whole; digits that cannot matter are skipped. -1 without a
 * digit.
 */
static int read_fraction(const char **p, uint64_t *ret_part, uint64_t *ret_whole)
{
    const char *text = *p + 1;
    *ret_part = 0;
    *ret_whole = 1;
    if (!is_digit(*text)) {
        return -1;
    }
    for (int i = 0; is_digit(*text); i++, text++) {
        if (i < FRACTION_DIGITS) {
            *ret_part = *ret_part * 10 + (uint64_t)(*text - '0');
            *ret_whole *= 10;
        }
    }
    *p = text;
    return 0;
}

int snp_parse_bytes(const char *text, uint64_t *ret)
{
    uint64_t whole = 0;
    uint64_t part = 0;
    uint64_t of = 1;
    if (text == NULL) {
        errno = EINVAL;
        return -1;
    }
    if (read_digits(&text, &whole) < 0) {
        return -1;
    }
    bool fraction = *text == '.';
    if (fraction && read_fraction(&text, &part, &of) < 0) {
        errno = EINVAL;
        return -1;
    }
    if (*text == ' ' && text[1] != '\0') {
        text++;
    }
    int shift = unit_shift(text);
    if (shift < 0 || (fraction && shift == 0)) {
        errno = EINVAL;
        return -1;
    }
    unsigned __int128 value = (unsigned __int128)whole << shift;
    value += ((unsigned __int128)part << shift) / of;
    if (value > UINT64_MAX) {
        errno = ERANGE;
        return -1;
    }
    *ret = (uint64_t)value;
    return 0;
}

const char *snp_format_bytes(uint64_t bytes, char *out, size_t out_len)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t i = 0;
    uint64_t tenths = bytes < UINT64_MAX / 10 ? bytes * 10 : UINT64_MAX;
    while (i + 1 < SNP_ARRAY_LEN(units) && bytes >> (10 * (i + 1)) != 0) {
        i++;
    }
    if (i > 0) {
        unsigned __int128 wide = (unsigned __int128)bytes * 10;
        tenths = (uint64_t)((wide + ((uint64_t)1 << (10 * i - 1))) >> (10 * i));
        if (tenths >= 10240 && i + 1 < SNP_ARRAY_LEN(units)) {
            tenths = 10; /* 1023.96 KiB rounds to one of the next unit */
            i++;
        }
    }
    if (tenths % 10 == 0) {
        (void)snprintf(out, out_len, "%ju %s", (uintmax_t)(tenths / 10), units[i]);
    } else {
        (void)snprintf(out, out_len, "%ju.%ju %s", (uintmax_t)(tenths / 10),
                       (uintmax_t)(tenths % 10), units[i]);
    }
    return out;
}

/* Valid continuation of a sequence whose first byte is in first..last (RFC 3629, section 4). */
struct utf8_row {
    unsigned char first, last; /* range of the lead byte */
    unsigned char low, high;   /* range of the second byte; all after it are 80..BF */
    unsigned char len;
};

static const struct utf8_row utf8_rows[] = {
    {0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
    {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
    {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

/*
 * Look at the sequence at bytes (n > 0). Returns its length, at least 1: of a whole character
 * (*ret_ok true), or of the longest valid beginning of a broken one (false).
 */
static size_t utf8_step(const char *bytes, size_t n, bool *ret_ok)
{
    const unsigned char *p = (const unsigned char *)bytes;
    const struct utf8_row *row = NULL;
    for (size_t i = 0; i < SNP_ARRAY_LEN(utf8_rows); i++) {
        if (p[0] >= utf8_rows[i].first && p[0] <= utf8_rows[i].last) {
            row = &utf8_rows[i];
            break;
        }
    }
    *ret_ok = false;
    if (row == NULL) {
        return 1;
    }
    for (size_t i = 1; i < row->len; i++) {
        unsigned char low = i == 1 ? row->low : 0x80;
        unsigned char high = i == 1 ? row->high : 0xBF;
        if (i >= n || p[i] < low || p[i] > high) {
            return i;
        }
    }
    *ret_ok = true;
    return row->len;
}

bool snp_utf8_valid(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n;) {
        bool ok = true;
        i += (unsigned char)bytes[i] < 0x80U ? 1 : utf8_step(bytes + i, n - i, &ok);
        if (!ok) {
            return false;
        }
    }
    return true;
}

size_t snp_utf8_count(const char *bytes, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n;) {
        bool ok = true;
        size_t step = (unsigned char)bytes[i] < 0x80U ? 1 : utf8_step(bytes + i, n - i, &ok);
        count += ok ? 1 : step;
        i += step;
    }
    return count;
}

size_t snp_utf8_begun(const char *bytes, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)bytes[n - back];

        if ((c & 0xc0U) != 0x80U) {
            size_t len = c >= 0xf0U ? 4 : c >= 0xe0U ? 3 : c >= 0xc0U ? 2 : 1;

            return len > back ? back : 0;
        }
    }
    return 0;
}

char *snp_utf8_clean(const char *bytes, size_t n, size_t *ret_len)
{
    static const char mark[3] = "\xEF\xBF\xBD";
    size_t len = 0;
    for (size_t i = 0; i < n;) {
        bool ok = true;
        size_t step = utf8_step(bytes + i, n - i, &ok);
        len += ok ? step : sizeof(mark);
        i += step;
    }
    char *out = malloc(len + 1);
    if (out == NULL) {
        return NULL;
    }
    char *to = out;
    for (size_t i = 0; i < n;) {
        bool ok = true;
        size_t step = utf8_step(bytes + i, n - i, &ok);
        size_t add = ok ? step : sizeof(mark);
        memcpy(to, ok ? bytes + i : mark, add);
        to += add;
        i += step;
    }
    *to = '\0';
    if (ret_len != NULL) {
        *ret_len = len;
    }
    return out;
}

static unsigned min_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned snp_edit_distance(const char *a, const char *b)
{
    unsigned rows[3][EDIT_MAX + 1]; /* the last three rows, in turn: row i is rows[i % 3] */
    size_t n = strnlen(a, EDIT_MAX);
    size_t m = strnlen(b, EDIT_MAX);
    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = (unsigned)j;
    }
    for (size_t i = 1; i <= n; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i - 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U);
            best = min_of(best, min_of(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                best = min_of(best, rows[(i - 2) % 3][j - 2] + 1);
            }
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *snp_suggest(const char *text, const char *const *words, size_t n)
{
    size_t len = strnlen(text, EDIT_MAX);
    unsigned most = len < 6 ? 1 : len < 9 ? 2 : 3;
    const char *best = NULL;
    if (len < 2) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned d = snp_edit_distance(text, words[i]);
        if (d <= most && d < strlen(words[i])) {
            best = words[i];
            if (d == 0) {
                return best;
            }
            most = d - 1; /* only a closer word replaces it */
        }
    }
    return best;
}

void snp_hex(const void *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = bytes;

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[at[i] >> 4U];
        out[2 * i + 1] = digits[at[i] & 15U];
    }
    out[2 * n] = '\0';
}

int snp_random_id(char out[33])
{
    unsigned char raw[16];
    size_t have = 0;
    while (have < sizeof(raw)) {
        ssize_t got = getrandom(raw + have, sizeof(raw) - have, 0);
        if (got < 0 && errno != EINTR) {
            return -1;
        }
        have += got > 0 ? (size_t)got : 0;
    }
    snp_hex(raw, sizeof(raw), out);
    return 0;
}

char *snp_path_plain(const char *path)
{
    static const char root[] = "/workspace";
    char *plain = calloc(1, strlen(path) + sizeof(root) + 1);
    size_t n = 0;
    bool is_folder = true;
    const char *below;

    if (plain == NULL) {
        return NULL;
    }
    if (path[0] == '/') {
        plain[n++] = '/';
    }
    while (*path != '\0') {
        size_t len = strcspn(path, "/");

        is_folder = len == 0 || (len == 1 && path[0] == '.');
        if (!is_folder) {
            if (n > 0 && plain[n - 1] != '/') {
                plain[n++] = '/';
            }
            memcpy(plain + n, path, len);
            n += len;
        }
        path += len;
        is_folder = is_folder || *path == '/';
        path += *path == '/' ? 1 : 0;
    }
    if (n > 0 && is_folder && plain[n - 1] != '/') {
        plain[n++] = '/';
    }
    if (n == 0) {
        memcpy(plain, root, sizeof(root));
        return plain;
    }
    plain[n] = '\0';
    below = snp_has_prefix(plain, root) ? plain + sizeof(root) - 1 : NULL;
    if (below != NULL && strcmp(below, "/") == 0) {
        plain[sizeof(root) - 1] = '\0';
    } else if (below != NULL && below[0] == '/' && strcmp(below, "/..") != 0 &&
               strncmp(below, "/../", 4) != 0) {
        memmove(plain, below + 1, strlen(below));
    }
    return plain;
}

char *snp_format(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    return n < 0 ? NULL : text;
}
