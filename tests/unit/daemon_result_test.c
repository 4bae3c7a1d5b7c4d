/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a tier: the documented form passes, each departure from it is named. */
#include <string.h>

#include "daemon/session/result.h"
#include "unit/harness.h"

static const char good[] =
    "{\"session\": \"0123456789abcdef0123456789abcdef\", \"cell\": 1, \"status\": \"ok\","
    " \"state\": \"kept\", \"exit_code\": null, \"signal\": null, \"value\": \"1\","
    " \"result\": null, \"error\": null, \"denials\": [], \"denials_dropped\": 0, "
    "\"restarted\": false,"
    " \"limit\": null, \"usage\": {\"wall_us\": 1, \"cpu_us\": 1, \"memory_peak_bytes\": 1,"
    " \"stdout_bytes\": 0, \"stderr_bytes\": 0, \"written_bytes\": 0, \"setup_us\": 1},"
    " \"output\": {\"truncated\": false, \"stdout_chars\": 0, \"stderr_chars\": 0, \"handle\": "
    "null},"
    " \"files\": {\"created\": [], \"modified\": [], \"deleted\": [], \"truncated\": false},"
    " \"manifest\": {\"tier\": \"native\", \"template\": \"base\", \"interpreter\": "
    "\"/usr/bin/python3\","
    " \"python\": \"3.11\", \"kernel\": \"6.1\", \"controls\": {\"network\": {\"enforced\": "
    "true}},"
    " \"degraded\": []}, \"sources\": {\"attested\": [\"cell\"], \"claimed\": [\"value\"]}}";

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    return value;
}

TEST(the_documented_form_passes)
{
    struct snp_err err;
    snp_autojson json_t *head = parse(good);
    assert_int_equal(snp_result_check(head, 0, &err), 0);
    assert_int_equal(snp_result_check(head, 1, &err), SNP_E_INVALID);
}

TEST(each_departure_is_refused)
{
    static const struct {
        const char *member;
        const char *value;
        const char *says;
    } rows[] = {
        {"cell", "\"1\"", "'cell'"},
        {"status", "\"fine\"", "'status'"},
        {"state", "\"gone\"", "'state'"},
        {"exit_code", "\"0\"", "'exit_code'"},
        {"value", "5", "'value'"},
        {"error", "{\"type\": \"E\"}", "result.error"},
        {"denials", "[1]", "result.denials"},
        {"denials", "[{\"source\": \"kernel\"}]", "result.denials"},
        {"denials_dropped", "-1", "denials_dropped"},
        {"limit", "{\"key\": 1}", "result.limit"},
        {"usage", "{}", "result.usage"},
        {"output", "{\"truncated\": 1}", "result.output"},
        {"files", "{\"created\": [1], \"modified\": [], \"deleted\": [], \"truncated\": false}",
         "created"},
        {"sources", "{\"attested\": [], \"claimed\": [null]}", "claimed"},
        {"manifest", "{\"tier\": \"native\"}", "manifest"},
        {"manifest",
         "{\"tier\": \"n\", \"template\": \"b\", \"controls\": {\"network\": {}}, "
         "\"degraded\": []}",
         "enforced"},
        {"name", "\"n\"", "'name'"},
        {"extra", "1", "'extra'"},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        struct snp_err err = {0};
        snp_autojson json_t *head = parse(good);
        assert_int_equal(json_object_set_new(head, rows[i].member, parse(rows[i].value)), 0);
        assert_int_equal(snp_result_check(head, 0, &err), SNP_E_INVALID);
        if (strstr(err.msg, rows[i].says) == NULL) {
            fail_msg("%s: %s", rows[i].member, err.msg);
        }
    }
}

TEST(a_missing_member_but_the_manifest_is_refused)
{
    struct snp_err err;
    snp_autojson json_t *whole = parse(good);
    const char *key;
    json_t *value;
    json_object_foreach(whole, key, value)
    {
        snp_autojson json_t *head = json_copy(whole);
        int expected = strcmp(key, "manifest") == 0 ? 0 : SNP_E_INVALID;
        assert_int_equal(json_object_del(head, key), 0);
        assert_int_equal(snp_result_check(head, 0, &err), expected);
    }
}

TEST(events_are_checked)
{
    static const struct {
        const char *text;
        size_t raw_len;
        int code;
    } rows[] = {
        {"{\"event\": \"stdout\"}", 5, 0},
        {"{\"event\": \"stderr\"}", 0, 0},
        {"{\"event\": \"stdout\", \"x\": 1}", 5, SNP_E_INVALID},
        {"{\"event\": \"started\"}", 0, SNP_E_INVALID},
        {"{}", 0, SNP_E_INVALID},
        {"{\"event\": \"gap\", \"stream\": \"stdout\", \"omitted_chars\": 3}", 0, 0},
        {"{\"event\": \"gap\", \"stream\": \"stdin\", \"omitted_chars\": 3}", 0, SNP_E_INVALID},
        {"{\"event\": \"gap\", \"stream\": \"stdout\", \"omitted_chars\": 3}", 1, SNP_E_INVALID},
        {"{\"event\": \"gap\", \"stream\": \"stdout\", \"omitted_chars\": -3}", 0, SNP_E_INVALID},
        {"{\"event\": \"display\", \"mime\": [[\"a\", 2], [\"b\", 3]]}", 5, 0},
        {"{\"event\": \"display\", \"mime\": [[\"a\", 2], [\"b\", 3]]}", 6, SNP_E_INVALID},
        {"{\"event\": \"display\", \"mime\": [[\"a\", 2], [\"b\", 3]]}", 4, SNP_E_INVALID},
        {"{\"event\": \"display\", \"mime\": [[\"a\", 9223372036854775807], [\"b\", 1]]}", 0,
         SNP_E_INVALID},
        {"{\"event\": \"display\", \"mime\": [[\"a\"]]}", 0, SNP_E_INVALID},
        {"{\"event\": \"display\", \"mime\": [5]}", 0, SNP_E_INVALID},
        {"{\"event\": \"display\", \"mime\": [[\"a\", -1]]}", 0, SNP_E_INVALID},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        struct snp_err err;
        snp_autojson json_t *head = parse(rows[i].text);
        if (snp_event_check(head, rows[i].raw_len, &err) != rows[i].code) {
            fail_msg("%s with %zu bytes", rows[i].text, rows[i].raw_len);
        }
    }
}

RUN(UNIT(the_documented_form_passes),
    UNIT(each_departure_is_refused),
    UNIT(a_missing_member_but_the_manifest_is_refused),
    UNIT(events_are_checked))
