/* SPDX-License-Identifier: Apache-2.0 */
/* Limits: every row at, below and above its range, in the text form and in JSON. */
#include "base/policy/limits.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "unit/harness.h"

/* What people write at the edges of each range, just outside of it, and for the default. */
static const struct {
    enum snp_limit limit;
    const char *key;
    const char *json;
    const char *below;
    const char *least;
    const char *fallback;
    const char *most;
    const char *above;
    uint64_t min;
    uint64_t value; /* of the default */
    uint64_t max;
} edges[] = {
    {SNP_LIMIT_WALL, "timeout", "timeout_ms", "0.0499", "0.05", "30", "600", "600.0001", 50, 30000,
     600000},
    {SNP_LIMIT_CPUS, "cpus", "cpus_milli", "0.00999", "0.01", "1.0", "64", "64.0001", 10, 1000,
     64000},
    {SNP_LIMIT_MEMORY, "memory", "memory_bytes", "16777215", "16m", "512m", "1t", "1099511627777",
     16777216, 536870912, 1099511627776},
    {SNP_LIMIT_PROCESSES, "processes", "processes", "0", "1", "64", "4096", "4097", 1, 64, 4096},
    {SNP_LIMIT_TMP, "tmp_size", "tmp_size_bytes", "1048575", "1m", "64m", "64g", "68719476737",
     1048576, 67108864, 68719476736},
    {SNP_LIMIT_WORKSPACE, "workspace_size", "workspace_size_bytes", "1048575", "1m", "1g", "1t",
     "1099511627777", 1048576, 1073741824, 1099511627776},
    {SNP_LIMIT_INODES, "workspace_files", "workspace_files", "9", "10", "100000", "10000000",
     "10000001", 10, 100000, 10000000},
    {SNP_LIMIT_FILE, "file_size", "file_size_bytes", "4095", "4k", "512m", "1t", "1099511627777",
     4096, 536870912, 1099511627776},
    {SNP_LIMIT_OPEN_FILES, "open_files", "open_files", "15", "16", "256", "65536", "65537", 16, 256,
     65536},
    {SNP_LIMIT_OUTPUT, "output", "output", "99", "100", "100000", "10000000", "10000001", 100,
     100000, 10000000},
};

static uint64_t parsed(enum snp_limit limit, const char *text)
{
    uint64_t value = 0;
    struct snp_err err;
    assert_int_equal(snp_limit_parse(limit, text, "--x", &value, &err), 0);
    return value;
}

static void refused(enum snp_limit limit, const char *text, const char *part)
{
    uint64_t value = 77;
    struct snp_err err;
    assert_int_equal(snp_limit_parse(limit, text, "--x", &value, &err), SNP_E_INVALID);
    assert_int_equal(value, 77);
    assert_true(snp_has_prefix(err.msg, "--x: "));
    if (strstr(err.msg, part) == NULL) {
        fail_msg("no '%s' in: %s", part, err.msg);
    }
}

TEST(every_limit_has_an_edge_here)
{
    assert_int_equal(SNP_ARRAY_LEN(edges), SNP_LIMIT_N);
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        assert_int_equal(edges[i].limit, i);
        assert_string_equal(snp_limit_info((enum snp_limit)i)->key, edges[i].key);
    }
}

TEST(text_at_the_edges_is_read_and_beyond_is_refused)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(edges); i++) {
        enum snp_limit limit = edges[i].limit;
        assert_int_equal(parsed(limit, edges[i].least), edges[i].min);
        assert_int_equal(parsed(limit, edges[i].fallback), edges[i].value);
        assert_int_equal(parsed(limit, edges[i].most), edges[i].max);
        refused(limit, edges[i].below, "is out of range");
        refused(limit, edges[i].above, "is out of range");
    }
}

TEST(range_message_has_both_edges_as_people_read_them)
{
    refused(SNP_LIMIT_WALL, "601", "0.05 s to 600 s");
    refused(SNP_LIMIT_MEMORY, "1k", "16 MiB to 1 TiB");
    refused(SNP_LIMIT_CPUS, "65", "0.01 to 64.0");
    refused(SNP_LIMIT_PROCESSES, "99999999999999999999999", "1 to 4096");
}

TEST(words_and_other_units_are_refused)
{
    static const char *const wrong[] = {"",    " ",  "abc", "-1",  "nan",
                                        "inf", "1e", "5x",  "1 2", "0x10"};
    for (int limit = 0; limit < SNP_LIMIT_N; limit++) {
        for (size_t i = 0; i < SNP_ARRAY_LEN(wrong); i++) {
            refused((enum snp_limit)limit, wrong[i], "is not ");
        }
    }
    refused(SNP_LIMIT_PROCESSES, "1.5", "is not a whole number");
    refused(SNP_LIMIT_WALL, "30s", "is not seconds");
}

TEST(defaults_are_the_table_s)
{
    struct snp_limits limits;
    snp_limits_default(&limits);
    for (size_t i = 0; i < SNP_ARRAY_LEN(edges); i++) {
        assert_int_equal(limits.value[edges[i].limit], edges[i].value);
    }
}

TEST(flags_are_the_keys_with_hyphens)
{
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        const struct snp_limit_info *row = snp_limit_info((enum snp_limit)i);
        assert_true(snp_has_prefix(row->flag, "--"));
        assert_int_equal(strlen(row->flag), strlen(row->key) + 2);
        for (size_t at = 0; row->key[at] != '\0'; at++) {
            assert_int_equal(row->flag[at + 2], row->key[at] == '_' ? '-' : row->key[at]);
        }
    }
}

TEST(format_keeps_what_matters)
{
    static const struct {
        enum snp_limit limit;
        uint64_t value;
        const char *text;
    } cases[] = {
        {SNP_LIMIT_WALL, 30000, "30 s"},
        {SNP_LIMIT_WALL, 500, "0.5 s"},
        {SNP_LIMIT_WALL, 50, "0.05 s"},
        {SNP_LIMIT_WALL, 1001, "1.001 s"},
        {SNP_LIMIT_CPUS, 1000, "1.0"},
        {SNP_LIMIT_CPUS, 1250, "1.25"},
        {SNP_LIMIT_CPUS, 10, "0.01"},
        {SNP_LIMIT_PROCESSES, 64, "64"},
        {SNP_LIMIT_MEMORY, 536870912, "512 MiB"},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        char out[32];
        assert_string_equal(snp_limit_format(cases[i].limit, cases[i].value, out, sizeof(out)),
                            cases[i].text);
    }
}

TEST(options_are_written_for_a_command_line)
{
    static const struct {
        const char *key;
        uint64_t value;
        const char *text;
    } cases[] = {
        {"timeout", 500, "--timeout 0.5"},
        {"cpus", 2000, "--cpus 2"},
        {"memory", 1073741824, "--memory 1g"},
        {"memory", 1048577, "--memory 1048577"},
        {"file_size", 1536 << 10, "--file-size 1536k"},
        {"memory", 1ULL << 40, "--memory 1t"},
        {"processes", 1024, "--processes 1024"},
        {"mars", 1, ""},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        char out[64];
        assert_string_equal(snp_limit_option(cases[i].key, cases[i].value, out, sizeof(out)),
                            cases[i].text);
    }
}

TEST(json_names_carry_the_unit_and_come_back)
{
    struct snp_limits limits;
    struct snp_limits back;
    struct snp_err err;
    for (size_t i = 0; i < SNP_ARRAY_LEN(edges); i++) {
        limits.value[edges[i].limit] = edges[i].max;
    }
    snp_autojson json_t *object = snp_limits_to_json(&limits);
    assert_int_equal(json_object_size(object), SNP_LIMIT_N);
    for (size_t i = 0; i < SNP_ARRAY_LEN(edges); i++) {
        assert_int_equal(snp_json_int(object, edges[i].json, -1), edges[i].max);
    }
    snp_limits_default(&back);
    assert_int_equal(snp_limits_from_json(object, &back, &err), 0);
    assert_memory_equal(&back, &limits, sizeof(back));
}

static void json_refused(json_t *object, const char *part)
{
    struct snp_limits limits;
    struct snp_limits before;
    struct snp_err err;
    snp_limits_default(&limits);
    before = limits;
    assert_int_equal(snp_limits_from_json(object, &limits, &err), SNP_E_INVALID);
    assert_memory_equal(&limits, &before, sizeof(limits));
    if (strstr(err.msg, part) == NULL) {
        fail_msg("no '%s' in: %s", part, err.msg);
    }
    json_decref(object);
}

TEST(json_beyond_the_range_is_refused_and_changes_nothing)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(edges); i++) {
        json_int_t below = (json_int_t)edges[i].min - 1;
        json_int_t above = (json_int_t)edges[i].max + 1;
        json_refused(json_pack("{s:I}", edges[i].json, below), "is out of range");
        json_refused(json_pack("{s:I}", edges[i].json, above), "is out of range");
    }
    json_refused(json_pack("{s:i, s:i}", "processes", 5, "output", -1), "is out of range");
}

TEST(json_of_a_wrong_kind_is_refused)
{
    json_refused(json_pack("{s:s}", "processes", "5"), "expected an integer");
    json_refused(json_pack("{s:f}", "timeout_ms", 5.0), "expected an integer");
    json_refused(json_pack("{s:n}", "memory_bytes"), "expected an integer");
    json_refused(json_pack("{s:i, s:i}", "processes", 5, "procesess", 5),
                 "unknown member 'procesess'");
    json_refused(json_pack("{s:i}", "timeout", 5), "unknown member 'timeout'");
    json_refused(json_pack("[i]", 5), "expected an object");
}

TEST(json_absent_members_keep_what_is_there)
{
    struct snp_limits limits;
    struct snp_err err;
    snp_limits_default(&limits);
    limits.value[SNP_LIMIT_OUTPUT] = 500;
    snp_autojson json_t *object = json_pack("{s:i}", "processes", 7);
    assert_int_equal(snp_limits_from_json(object, &limits, &err), 0);
    assert_int_equal(limits.value[SNP_LIMIT_PROCESSES], 7);
    assert_int_equal(limits.value[SNP_LIMIT_OUTPUT], 500);
}

RUN(UNIT(every_limit_has_an_edge_here),
    UNIT(text_at_the_edges_is_read_and_beyond_is_refused),
    UNIT(range_message_has_both_edges_as_people_read_them),
    UNIT(words_and_other_units_are_refused),
    UNIT(defaults_are_the_table_s),
    UNIT(flags_are_the_keys_with_hyphens),
    UNIT(format_keeps_what_matters),
    UNIT(options_are_written_for_a_command_line),
    UNIT(json_names_carry_the_unit_and_come_back),
    UNIT(json_beyond_the_range_is_refused_and_changes_nothing),
    UNIT(json_of_a_wrong_kind_is_refused),
    UNIT(json_absent_members_keep_what_is_there))
