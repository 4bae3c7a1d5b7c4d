/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of limits, and the three forms of a limit: what people write ("512m", "0.5"), what they
 * read ("512 MiB", "0.5 s") and JSON numbers with the unit in the name. Internally every limit is
 * one uint64_t in the unit of enum snp_limit.
 */

#include "base/policy/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)

enum {
    NAME_MAX_BYTES = 64, /* key plus suffix */
    TEXT_SHOWN = 40,     /* bytes of an invalid text repeated in a message */
};

static const struct snp_limit_info rows[SNP_LIMIT_N] = {
    [SNP_LIMIT_WALL] = {"timeout", "--timeout", SNP_UNIT_MS, 30000, 50, 600000,
                        "wall clock of one cell, in seconds"},
    [SNP_LIMIT_CPUS] = {"cpus", "--cpus", SNP_UNIT_MILLI, 1000, 10, 64000,
                        "CPUs the sandbox may use"},
    [SNP_LIMIT_MEMORY] = {"memory", "--memory", SNP_UNIT_BYTES, 512 * MIB, 16 * MIB, TIB,
                          "memory of the whole sandbox, no swap"},
    [SNP_LIMIT_PROCESSES] = {"processes", "--processes", SNP_UNIT_COUNT, 64, 1, 4096,
                             "processes and threads of the code"},
    [SNP_LIMIT_TMP] = {"tmp_size", "--tmp-size", SNP_UNIT_BYTES, 64 * MIB, MIB, 64 * GIB,
                       "size of /tmp, and of /dev/shm"},
    [SNP_LIMIT_WORKSPACE] = {"workspace_size", "--workspace-size", SNP_UNIT_BYTES, GIB, MIB, TIB,
                             "bytes the code may write to /workspace"},
    [SNP_LIMIT_INODES] = {"workspace_files", "--workspace-files", SNP_UNIT_COUNT, 100000, 10,
                          10000000, "files the code may create in /workspace"},
    [SNP_LIMIT_FILE] = {"file_size", "--file-size", SNP_UNIT_BYTES, 512 * MIB, 4 * KIB, TIB,
                        "size of one file"},
    [SNP_LIMIT_OPEN_FILES] = {"open_files", "--open-files", SNP_UNIT_COUNT, 256, 16, 65536,
                              "open files of one process"},
    [SNP_LIMIT_OUTPUT] = {"output", "--output", SNP_UNIT_COUNT, 100000, 100, 10000000,
                          "characters of stdout and of stderr that are shown"},
};

static const char *const suffixes[] = {
    [SNP_UNIT_COUNT] = "",
    [SNP_UNIT_MS] = "_ms",
    [SNP_UNIT_MILLI] = "_milli",
    [SNP_UNIT_BYTES] = "_bytes",
};

static const char *const expectations[] = {
    [SNP_UNIT_COUNT] = "a whole number",
    [SNP_UNIT_MS] = "seconds such as 30 or 0.5",
    [SNP_UNIT_MILLI] = "a number such as 1.0",
    [SNP_UNIT_BYTES] = "a size such as 512m or 2g",
};

const struct snp_limit_info *snp_limit_info(enum snp_limit limit)
{
    SNP_ASSERT((unsigned)limit < SNP_LIMIT_N);
    return &rows[limit];
}

void snp_limits_default(struct snp_limits *limits)
{
    for (size_t i = 0; i < SNP_LIMIT_N; i++) {
        limits->value[i] = rows[i].fallback;
    }
}

/*
 * Thousandths of a decimal number, rounded to the nearest. Values outside the range by less than
 * half a thousandth stay outside.
 */
static int parse_thousandths(const struct snp_limit_info *row, const char *text, uint64_t *ret)
{
    const double slack = 1e-6; /* of a thousandth: rounding of decimal fractions in binary */
    double number = 0;
    if (snp_parse_double(text, &number) < 0 || number < 0) {
        return -1;
    }
    double scaled = number * 1000.0;
    if (scaled < (double)row->min - slack) {
        *ret = row->min - 1;
    } else if (scaled > (double)row->max + slack) {
        *ret = row->max + 1;
    } else {
        *ret = (uint64_t)llround(scaled);
    }
    return 0;
}

static int parse_unit(const struct snp_limit_info *row, const char *text, uint64_t *ret)
{
    switch (row->unit) {
    case SNP_UNIT_COUNT:
        return snp_parse_u64(text, ret);
    case SNP_UNIT_MS:
    case SNP_UNIT_MILLI:
        return parse_thousandths(row, text, ret);
    case SNP_UNIT_BYTES:
        return snp_parse_bytes(text, ret);
    }
    return -1;
}

/* Thousandths with as few decimals as are exact, but at least `digits`. */
static void format_thousandths(uint64_t value, int digits, char *out, size_t out_len)
{
    unsigned rest = (unsigned)(value % 1000);
    if (digits < 3 && rest % 10 != 0) {
        digits = 3;
    } else if (digits < 2 && rest % 100 != 0) {
        digits = 2;
    } else if (digits < 1 && rest != 0) {
        digits = 1;
    }
    if (digits == 0) {
        (void)snprintf(out, out_len, "%" PRIu64, value / 1000);
        return;
    }
    static const unsigned divisors[] = {1000, 100, 10, 1};
    (void)snprintf(out, out_len, "%" PRIu64 ".%0*u", value / 1000, digits, rest / divisors[digits]);
}

static int out_of_range(const struct snp_limit_info *row,
                        enum snp_limit limit,
                        const char *text,
                        const char *source,
                        struct snp_err *err)
{
    char low[32];
    char high[32];
    return snp_fail(err, SNP_E_INVALID, "%s: %.*s is out of range: %s to %s (%s)", source,
                    TEXT_SHOWN, text, snp_limit_format(limit, row->min, low, sizeof(low)),
                    snp_limit_format(limit, row->max, high, sizeof(high)), row->help);
}

int snp_limit_parse(
    enum snp_limit limit, const char *text, const char *source, uint64_t *ret, struct snp_err *err)
{
    const struct snp_limit_info *row = snp_limit_info(limit);
    uint64_t value = 0;
    errno = 0;
    if (parse_unit(row, text, &value) < 0) {
        if (errno == ERANGE) {
            return out_of_range(row, limit, text, source, err);
        }
        return snp_fail(err, SNP_E_INVALID, "%s: '%.*s' is not %s (%s)", source, TEXT_SHOWN, text,
                        expectations[row->unit], row->help);
    }
    if (value < row->min || value > row->max) {
        return out_of_range(row, limit, text, source, err);
    }
    *ret = value;
    return 0;
}

const char *snp_limit_format(enum snp_limit limit, uint64_t value, char *out, size_t out_len)
{
    switch (snp_limit_info(limit)->unit) {
    case SNP_UNIT_COUNT:
        (void)snprintf(out, out_len, "%" PRIu64, value);
        break;
    case SNP_UNIT_MS: {
        char number[32];
        format_thousandths(value, 0, number, sizeof(number));
        (void)snprintf(out, out_len, "%s s", number);
        break;
    }
    case SNP_UNIT_MILLI:
        format_thousandths(value, 1, out, out_len);
        break;
    case SNP_UNIT_BYTES:
        return snp_format_bytes(value, out, out_len);
    }
    return out;
}

const char *snp_limit_option(const char *key, uint64_t value, char *out, size_t out_len)
{
    static const char units[] = "kmgt";
    char number[32];
    char unit[2] = "";
    size_t i = 0;

    while (i < SNP_LIMIT_N && strcmp(rows[i].key, key) != 0) {
        i++;
    }
    out[0] = '\0';
    if (i == SNP_LIMIT_N) {
        return out;
    }
    if (rows[i].unit == SNP_UNIT_MS || rows[i].unit == SNP_UNIT_MILLI) {
        format_thousandths(value, 0, number, sizeof(number));
        (void)snprintf(out, out_len, "%s %s", rows[i].flag, number);
        return out;
    }
    for (size_t n = 0;
         rows[i].unit == SNP_UNIT_BYTES && n < sizeof(units) - 1 && value > 0 && value % KIB == 0;
         n++) {
        value /= KIB;
        unit[0] = units[n];
    }
    (void)snprintf(out, out_len, "%s %" PRIu64 "%s", rows[i].flag, value, unit);
    return out;
}

static const char *json_name(const struct snp_limit_info *row, char out[NAME_MAX_BYTES])
{
    (void)snprintf(out, NAME_MAX_BYTES, "%s%s", row->key, suffixes[row->unit]);
    return out;
}

json_t *snp_limits_to_json(const struct snp_limits *limits)
{
    json_t *object = json_object();
    for (size_t i = 0; object != NULL && i < SNP_LIMIT_N; i++) {
        char name[NAME_MAX_BYTES];
        if (json_object_set_new(object, json_name(&rows[i], name),
                                json_integer((json_int_t)limits->value[i])) < 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

/* Report the member of object that is no limit. */
static int unknown_member(const json_t *object, struct snp_err *err)
{
    snp_autojson json_t *copy = json_deep_copy(object);
    const char *name = NULL;
    json_t *member = NULL;
    json_object_foreach(copy, name, member)
    {
        size_t i = 0;
        char known[NAME_MAX_BYTES];
        while (i < SNP_LIMIT_N && strcmp(json_name(&rows[i], known), name) != 0) {
            i++;
        }
        if (i == SNP_LIMIT_N) {
            return snp_fail(err, SNP_E_INVALID, "limits: unknown member '%.*s'", TEXT_SHOWN, name);
        }
    }
    return snp_fail(err, SNP_E_NOMEM, "limits: out of memory");
}

static int member_read(enum snp_limit limit,
                       const char *name,
                       const json_t *member,
                       uint64_t *ret,
                       struct snp_err *err)
{
    const struct snp_limit_info *row = &rows[limit];
    if (!json_is_integer(member)) {
        return snp_fail(err, SNP_E_INVALID, "limits: %s: expected an integer", name);
    }
    json_int_t value = json_integer_value(member);
    if (value < 0 || (uint64_t)value < row->min || (uint64_t)value > row->max) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, value);
        char source[NAME_MAX_BYTES + sizeof("limits: ")];
        (void)snprintf(source, sizeof(source), "limits: %s", name);
        return out_of_range(row, limit, text, source, err);
    }
    *ret = (uint64_t)value;
    return 0;
}

int snp_limits_from_json(const json_t *object, struct snp_limits *limits, struct snp_err *err)
{
    if (!json_is_object(object)) {
        return snp_fail(err, SNP_E_INVALID, "limits: expected an object");
    }
    struct snp_limits read = *limits;
    size_t n_known = 0;
    for (size_t i = 0; i < SNP_LIMIT_N; i++) {
        char name[NAME_MAX_BYTES];
        const json_t *member = json_object_get(object, json_name(&rows[i], name));
        if (member == NULL) {
            continue;
        }
        n_known++;
        int r = member_read((enum snp_limit)i, name, member, &read.value[i], err);
        if (r < 0) {
            return r;
        }
    }
    if (n_known != json_object_size(object)) {
        return unknown_member(object, err);
    }
    *limits = read;
    return 0;
}
