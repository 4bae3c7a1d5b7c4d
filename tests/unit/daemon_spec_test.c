/* SPDX-License-Identifier: Apache-2.0 */
/* The request `exec`: what is read from it, what is refused, and what an open session allows. */
#include <string.h>

#include "base/str.h"
#include "daemon/spec.h"
#include "daemon/tiers.h"
#include "unit/harness.h"

enum {
    RAW_LEN = 10
};

/* A request with one member replaced (NULL = none); value in JSON. */
static json_t *request(const char *member, const char *value)
{
    json_t *head = json_pack("{s:s, s:s, s:s, s:i}", "method", "exec", "kind", "python", "session",
                             "s", "code_len", RAW_LEN);
    if (member != NULL) {
        json_t *parsed = json_loads(value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(parsed);
        assert_int_equal(json_object_set_new(head, member, parsed), 0);
    }
    return head;
}

static int read_with(const char *member,
                     const char *value,
                     struct snp_exec_spec *spec,
                     struct snp_err *err)
{
    snp_autojson json_t *head = request(member, value);
    int r = snp_record_check(head, &snp_exec_request_form, err);
    return r < 0 ? r : snp_exec_spec_read(head, RAW_LEN, spec, err);
}

TEST(a_plain_request_gets_the_defaults)
{
    struct snp_exec_spec spec = {0};
    struct snp_limits limits;
    struct snp_err err;
    snp_limits_default(&limits);
    assert_int_equal(read_with(NULL, NULL, &spec, &err), 0);
    assert_string_equal(spec.asked.session, "s");
    assert_null(spec.asked.template);
    assert_null(spec.default_template);
    assert_true(spec.asked.stream);
    assert_memory_equal(&spec.limits, &limits, sizeof(limits));
    snp_exec_spec_done(&spec);
}

TEST(explicit_limits_win_over_defaults)
{
    struct snp_exec_spec spec = {0};
    struct snp_err err;
    snp_autojson json_t *head =
        request("defaults", "{\"processes\": 8, \"open_files\": 99, \"template\": \"plot\"}");
    assert_int_equal(json_object_set_new(head, "limits", json_pack("{s:i}", "processes", 9)), 0);
    assert_int_equal(snp_exec_spec_read(head, RAW_LEN, &spec, &err), 0);
    assert_int_equal(spec.limits.value[SNP_LIMIT_PROCESSES], 9);
    assert_int_equal(spec.limits.value[SNP_LIMIT_OPEN_FILES], 99);
    assert_string_equal(spec.default_template, "plot");
    snp_exec_spec_done(&spec);
}

TEST(bad_members_are_refused_by_name)
{
    static const struct {
        const char *member;
        const char *value;
        const char *says;
    } rows[] = {
        {"session", "5", "'session' must be"},
        {"session", "\"-x\"", "cannot start with"},
        {"session", "\"a\\u0000b\"", "NUL"},
        {"kind", "\"ruby\"", "not 'ruby'"},
        {"kind", "\"command\"", "'argv'"},
        {"argv", "[1]", "argv[0] must be a string"},
        {"argv", "{}", "'argv' must be an array"},
        {"code_len", "11", "'code_len' is 11"},
        {"code_len", "9", "'stdin' is false"},
        {"code_len", "-1", "cannot be negative"},
        {"tier", "\"../vm\"", "valid tier name"},
        {"template", "\"../big\"", "template's name"},
        {"limits", "{\"procesess\": 1}", "limits"},
        {"limits", "{\"processes\": 99999999}", "exec: limits: "},
        {"defaults", "{\"template\": 1}", "template"},
        {"defaults", "{\"template\": \"../big\"}", "template's name"},
        {"env", "{\"A B\": \"x\"}", "'A B'"},
        {"env", "{\"A\": 1}", "variable A"},
        {"env", "{\"A\": \"x\\u0000y\"}", "variable A"},
        {"stream", "1", "'stream' must be"},
        {"limitz", "{}", "did you mean 'limits'"},
        {"project", "[]", "'project' must be"},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        struct snp_exec_spec spec = {0};
        struct snp_err err = {0};
        int r = read_with(rows[i].member, rows[i].value, &spec, &err);
        assert_true(r == SNP_E_INVALID || r == SNP_E_UNSUPPORTED);
        if (strstr(err.msg, rows[i].says) == NULL) {
            fail_msg("%s=%s: %s", rows[i].member, rows[i].value, err.msg);
        }
        assert_null(spec.head);
    }
}

/*
 * Does such a request fit a session of template base, project /p, A=1 and default limits?
 * *ret_kept: what it names in vain.
 */
static int fits_but(const char *member,
                    const char *value,
                    uint64_t *ret_wall_ms,
                    json_t **ret_kept,
                    struct snp_err *err)
{
    struct snp_exec_spec spec = {0};
    snp_autojson json_t *env = json_pack("{s:s}", "A", "1");
    char project[] = "/p";
    struct snp_found_tier tier = {.name = "native"};
    struct snp_session_policy policy = {
        .place = {.tier = &tier}, .template_name = "base", .project = project, .env = env};
    snp_limits_default(&policy.limits);
    assert_int_equal(read_with(member, value, &spec, err), 0);
    int r = snp_exec_spec_fits(&spec, &policy, ret_wall_ms, err);
    *ret_kept = json_incref(spec.not_applied);
    snp_exec_spec_done(&spec);
    return r;
}

static int fits(const char *member, const char *value, uint64_t *ret_wall_ms, struct snp_err *err)
{
    snp_autojson json_t *kept = NULL;
    return fits_but(member, value, ret_wall_ms, &kept, err);
}

TEST(a_session_keeps_its_policy)
{
    static const struct {
        const char *member;
        const char *value;
        int code;
    } rows[] = {
        {NULL, NULL, 0},
        {"template", "\"base\"", 0},
        {"template", "\"data\"", SNP_E_INVALID},
        {"project", "\"/p\"", 0},
        {"project", "\"/q\"", SNP_E_INVALID},
        {"limits", "{\"processes\": 64}", 0},
        {"limits", "{\"processes\": 65}", SNP_E_INVALID},
        {"defaults", "{\"processes\": 65}", 0},
        {"env", "{\"A\": \"1\"}", 0},
        {"env", "{\"A\": \"2\"}", SNP_E_INVALID},
        {"env", "{\"B\": \"1\"}", SNP_E_INVALID},
        {"tier", "\"auto\"", 0},
        {"tier", "\"docker\"", SNP_E_INVALID},
        {"rootfs", "\"/r\"", SNP_E_INVALID},
        {"rootfs", "\"##/run/a.sock\"", 0},
        {"network", "true", SNP_E_INVALID},
        {"network", "false", 0},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        struct snp_err err = {0};
        uint64_t wall_ms = 0;
        assert_int_equal(fits(rows[i].member, rows[i].value, &wall_ms, &err), rows[i].code);
        assert_true(rows[i].code != 0 || wall_ms == 30000);
    }
}

TEST(configured_settings_that_an_open_session_does_not_have_are_listed)
{
    static const struct {
        const char *defaults;
        const char *setting; /* NULL: none */
        const char *asked;
    } rows[] = {
        {"{\"template\": \"data\"}", NULL, NULL}, /* a built-in default */
        {"{\"configured\": [\"memory\"]}", NULL, NULL},
        {"{\"configured\": [\"template\"], \"template\": \"base\"}", NULL, NULL},
        {"{\"configured\": [\"template\"], \"template\": \"data\"}", "template", "data"},
        {"{\"configured\": [\"project\"], \"project\": \"/q\"}", "project", "/q"},
        {"{\"configured\": [\"tier\"], \"tier\": \"auto\"}", NULL, NULL},
        {"{\"configured\": [\"tier\", \"rootfs\", \"network\"], \"tier\": \"docker\","
         " \"rootfs\": \"i##/s\", \"network\": true}",
         "tier", "docker"},
        {"{\"configured\": [\"rootfs\"], \"tier\": \"native\", \"rootfs\": \"/r\"}", "rootfs",
         "/r"},
        {"{\"tier\": \"native\", \"rootfs\": \"i##/s\"}", "engine", "/s"},
        {"{\"configured\": [\"network\"], \"tier\": \"native\"}", NULL, NULL},
        {"{\"configured\": [\"network\"], \"tier\": \"native\", \"network\": true}", "network",
         "the engine's"},
        {"{\"configured\": [\"memory\"], \"memory_bytes\": 1073741824}", "memory", "1 GiB"},
        {"{\"configured\": [\"timeout\"], \"timeout_ms\": 5000}", "timeout", "5 s"},
        {"{\"configured\": 5}", NULL, NULL},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autojson json_t *kept = NULL;
        struct snp_err err = {0};
        uint64_t wall_ms = 0;
        const json_t *row;
        assert_int_equal(fits_but("defaults", rows[i].defaults, &wall_ms, &kept, &err), 0);
        row = json_array_get(kept, 0);
        if (json_array_size(kept) != (rows[i].setting == NULL ? 0 : 1) ||
            !snp_streq(snp_json_str(row, "setting", NULL), rows[i].setting) ||
            !snp_streq(snp_json_str(row, "asked", NULL), rows[i].asked)) {
            snp_autofree char *text = snp_json_text(kept);
            fail_msg("%s: %s", rows[i].defaults, text);
        }
    }
}

TEST(the_wall_clock_may_differ_per_cell)
{
    struct snp_err err;
    uint64_t wall_ms = 0;
    snp_autojson json_t *asked = NULL;
    struct snp_limits limits;
    snp_limits_default(&limits);
    limits.value[SNP_LIMIT_WALL] = 1234;
    asked = snp_limits_to_json(&limits);
    snp_autofree char *text = snp_json_text(asked);
    assert_int_equal(fits("limits", text, &wall_ms, &err), 0);
    assert_int_equal(wall_ms, 1234);
}

RUN(UNIT(a_plain_request_gets_the_defaults),
    UNIT(explicit_limits_win_over_defaults),
    UNIT(bad_members_are_refused_by_name),
    UNIT(a_session_keeps_its_policy),
    UNIT(configured_settings_that_an_open_session_does_not_have_are_listed),
    UNIT(the_wall_clock_may_differ_per_cell))
