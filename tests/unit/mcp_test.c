/* SPDX-License-Identifier: Apache-2.0 */
/* The MCP layer's small parts: messages, lines, texts, URIs, lists of tools. */
#include <stdlib.h>
#include <string.h>

#include "base/mcp/era.h"
#include "base/mcp/jsonrpc.h"
#include "base/mcp/lines.h"
#include "base/mcp/tooldef.h"
#include "base/text/text.h"
#include "mcp/caps.h"
#include "mcp/kept.h"
#include "mcp/server/catalog.h"
#include "mcp/server/resource.h"
#include "mcp/server/session.h"
#include "unit/harness.h"

static int parse(const char *text, struct snp_jsonrpc *ret, int *ret_code)
{
    struct snp_err err;
    json_t *id = NULL;
    int r = snp_jsonrpc_parse(text, strlen(text), ret, ret_code, &id, &err);

    json_decref(id);
    return r;
}

TEST(messages_are_told_apart)
{
    static const struct {
        const char *text;
        enum snp_jsonrpc_kind kind;
    } rows[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}", SNP_JSONRPC_IS_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"a\",\"params\":{}}",
         SNP_JSONRPC_IS_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"a\"}", SNP_JSONRPC_IS_NOTIFICATION},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", SNP_JSONRPC_IS_RESPONSE},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}", SNP_JSONRPC_IS_RESPONSE},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        struct snp_jsonrpc message = {0};
        int code = 0;

        assert_int_equal(parse(rows[i].text, &message, &code), 0);
        assert_int_equal(message.kind, rows[i].kind);
        snp_jsonrpc_done(&message);
    }
}

TEST(bad_messages_have_codes)
{
    static const struct {
        const char *text;
        int code;
    } rows[] = {
        {"", SNP_JSONRPC_PARSE},
        {"{", SNP_JSONRPC_PARSE},
        {"\"a\"", SNP_JSONRPC_PARSE},
        {" [1]", SNP_JSONRPC_REQUEST},
        {"{}", SNP_JSONRPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1}", SNP_JSONRPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":1}", SNP_JSONRPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"a\"}", SNP_JSONRPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":[]}", SNP_JSONRPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\\\\\",}", SNP_JSONRPC_PARSE},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        struct snp_jsonrpc message = {0};
        int code = 0;

        assert_int_equal(parse(rows[i].text, &message, &code), SNP_E_INVALID);
        assert_int_equal(code, rows[i].code);
        assert_null(message.root);
    }
}

TEST(versions_are_negotiated)
{
    assert_string_equal(snp_era_negotiate("2024-11-05"), "2024-11-05");
    assert_string_equal(snp_era_negotiate("2026-07-28"), "2025-11-25");
    assert_string_equal(snp_era_negotiate(""), "2025-11-25");
}

/*
 * Add a piece and compare the lines that come of it; *at counts them, *n_long those that were
 * too long.
 */
static void piece_add(
    struct snp_mcp_lines *lines, const char *bytes, size_t n, size_t *at, size_t *n_long)
{
    static const char *const wanted[] = {"one", "", "two", "three"};
    const char *want;
    const char *line = NULL;
    size_t len = 0;
    int r = snp_mcp_lines_add(lines, bytes, n);

    assert_true(r >= 0);
    *n_long += (size_t)r;
    while (snp_mcp_lines_next(lines, &line, &len)) {
        if (len == 10) {
            (*n_long)++; /* came whole, with a line before it */
            continue;
        }
        assert_true(*at < SNP_ARRAY_LEN(wanted));
        want = *at < SNP_ARRAY_LEN(wanted) ? wanted[*at] : "";
        assert_int_equal(len, strlen(want));
        assert_true(memcmp(line, want, len) == 0);
        (*at)++;
    }
}

TEST(lines_in_any_pieces)
{
    static const char text[] = "one\r\n\ntwo\n0123456789\nthree\nrest";
    const size_t n = sizeof(text) - 1;

    for (size_t step = 1; step <= n; step++) {
        struct snp_mcp_lines lines = {0};
        size_t n_lines = 0;
        size_t n_long = 0;

        snp_mcp_lines_init(&lines, 8);
        for (size_t at = 0; at < n; at += step) {
            piece_add(&lines, text + at, n - at < step ? n - at : step, &n_lines, &n_long);
        }
        assert_int_equal(n_lines, 4);
        assert_int_equal(n_long, 1);
        snp_mcp_lines_done(&lines);
    }
}

TEST(text_is_cut_at_characters)
{
    snp_autobuf struct snp_buf out = {0};
    bool is_cut = false;

    snp_buf_init(&out, 1000);
    assert_int_equal(snp_text_add(&out, "äöüäöüäöüä", 20, 5, &is_cut), 0);
    assert_true(is_cut);
    assert_string_equal(snp_buf_cstr(&out), "äöü\n... (5 characters omitted) ...\nüä");
    snp_buf_clear(&out);
    assert_int_equal(snp_text_add(&out, "äöüäö", 10, 5, &is_cut), 0);
    assert_false(is_cut);
    assert_string_equal(snp_buf_cstr(&out), "äöüäö");
    snp_buf_clear(&out);
    assert_int_equal(snp_text_line(&out, "a\nb\tc", 5, 4), 0);
    assert_string_equal(snp_buf_cstr(&out), "a b ...");
}

TEST(an_output_is_cut_once)
{
    static const char bar[] = "\r 1%\r 2%\r\nend\r\nab\rc";
    const struct snp_text_gap none = {0};
    const struct snp_text_gap gap = {.at = 10, .chars = 100};
    snp_autobuf struct snp_buf out = {0};
    bool is_cut = true;

    snp_buf_init(&out, 1000);
    assert_int_equal(snp_text_output(&out, bar, sizeof(bar) - 1), 0);
    assert_string_equal(snp_buf_cstr(&out), " 2%\nend\nc");
    snp_buf_clear(&out);
    assert_int_equal(snp_text_output_cut(&out, "0123456789", 10, &none, 10, &is_cut), 0);
    assert_false(is_cut);
    assert_string_equal(snp_buf_cstr(&out), "0123456789");
    snp_buf_clear(&out);
    assert_int_equal(snp_text_output_cut(&out, "0123456789abcdefghij", 20, &gap, 10, &is_cut), 0);
    assert_true(is_cut);
    assert_string_equal(snp_buf_cstr(&out),
                        "012345\n... (output truncated: 110 characters omitted) ...\nghij");
    snp_buf_clear(&out);
    assert_int_equal(snp_text_output_cut(&out, "0123456789x", 11, &gap, 20, &is_cut), 0);
    assert_string_equal(snp_buf_cstr(&out),
                        "0123456789\n... (output truncated: 100 characters omitted) ...\nx");
}

TEST(item_32_header_values_have_no_line_ends)
{
    static const struct {
        const char *text;
        const char *value;
    } rows[] = {
        {"plain", "plain"},
        {"", ""},
        {"a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="},
        {" blank", "=?base64?IGJsYW5r?="},
        {"caf\xc3\xa9", "=?base64?Y2Fmw6k=?="},
        {"=?base64?bG9v?=", "=?base64?PT9iYXNlNjQ/Ykc5dj89?="},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autofree char *value = snp_mcp_header_value(rows[i].text, strlen(rows[i].text));

        assert_string_equal(value, rows[i].value);
    }
}

TEST(what_is_kept_is_bounded)
{
    struct snp_mcp_kept kept = {0};
    const size_t n = SNP_MCP_KEPT_MAX / 4;
    char *bytes = calloc(n, 1);

    assert_int_equal(snp_mcp_kept_add(&kept, "text/plain", bytes, 0), 0);
    for (uint64_t i = 1; i <= 6; i++) {
        assert_int_equal(snp_mcp_kept_add(&kept, "text/plain", bytes, n), i);
        assert_true(kept.bytes <= SNP_MCP_KEPT_MAX);
    }
    assert_null(snp_mcp_kept_find(&kept, 2));
    assert_non_null(snp_mcp_kept_find(&kept, 3));
    snp_mcp_kept_done(&kept);
    free(bytes);
}

TEST(uris_of_ours_only)
{
    static const char *const bad[] = {
        "",
        "snipara:",
        "snipara://session/a",
        "snipara://session/a/files",
        "snipara://session/a/files/%",
        "snipara://session/a/files/%0",
        "snipara://session/a/files/%00",
        "snipara://session/a/files/x?length",
        "snipara://session/a/files/output:a:b",
        "snipara://session/a/files/x?length=-1",
        "snipara://kept/",
    };
    struct snp_mcp_uri uri;
    struct snp_err err;

    for (size_t i = 0; i < SNP_ARRAY_LEN(bad); i++) {
        assert_int_equal(snp_mcp_uri_parse(bad[i], &uri, &err), SNP_E_INVALID);
    }
    assert_int_equal(snp_mcp_uri_parse("snipara://session/a%2Fb/files/c%20d/?offset=5", &uri, &err),
                     0);
    assert_string_equal(uri.session, "a/b");
    assert_string_equal(uri.path, "c d/");
    assert_true(uri.is_folder);
    assert_int_equal(uri.offset, 5);
    assert_int_equal(snp_mcp_uri_parse("snipara://output/h/2/stderr", &uri, &err), 0);
    assert_string_equal(uri.path, "output:h/2:stderr");
}

TEST(lists_of_tools)
{
    json_t *list = NULL;
    struct snp_err err;

    assert_int_equal(snp_tools_list("core,job_poll", NULL, &list, &err), 0);
    assert_int_equal(json_array_size(json_object_get(list, "tools")), 5);
    json_decref(list);
    assert_int_equal(snp_tools_list("core,,files", NULL, &list, &err), SNP_E_INVALID);
    assert_int_equal(snp_tools_list("Core", NULL, &list, &err), SNP_E_INVALID);
    assert_non_null(strstr(err.msg, "'Core'"));
}

TEST(a_limit_proposes_only_what_has_more)
{
    static const struct {
        const char *key;
        json_int_t value;
        const char *more;
    } rows[] = {
        {"timeout", 30000, "; the argument timeout raises it, up to 600"},
        {"timeout", 600000, "; do less in one call"},
        {"memory", (json_int_t)1 << 29,
         "; a new session with profile analysis or extended has more"},
        {"memory", (json_int_t)1 << 31, "; a new session with profile extended has more"},
        {"memory", (json_int_t)1 << 32, "; use less at a time"},
        {"output", 100000, ""},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autojson json_t *limit =
            json_pack("{s:s, s:I}", "key", rows[i].key, "value", rows[i].value);

        assert_string_equal(snp_mcp_more(limit), rows[i].more);
    }
}

RUN(UNIT(messages_are_told_apart),
    UNIT(bad_messages_have_codes),
    UNIT(versions_are_negotiated),
    UNIT(lines_in_any_pieces),
    UNIT(text_is_cut_at_characters),
    UNIT(an_output_is_cut_once),
    UNIT(item_32_header_values_have_no_line_ends),
    UNIT(what_is_kept_is_bounded),
    UNIT(uris_of_ours_only),
    UNIT(lists_of_tools),
    UNIT(a_limit_proposes_only_what_has_more))
