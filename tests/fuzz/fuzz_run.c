/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run reads of others: 'o': output of a cell, which becomes feedback for a model; 't': a
 * result of a file tool; 'c': a call of code in the sandbox; 'r': records of a trajectory, one a
 * line, from which its state is made. Feedback is JSON whatever went in, no longer than it may be,
 * and without control characters.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "fuzz/target.h"
#include "run/state.h"
#include "run/sub.h"
#include "run/tool/feedback.h"
#include "trajectory/chain.h"

enum {
    TEXT_CHARS = 500,
    CUT_SLACK = 64, /* the line that says how much is missing */
};

static void check_json(const char *text, const char *member)
{
    snp_autojson json_t *object = NULL;
    struct snp_err err;

    SNP_ASSERT(text != NULL && snp_json_parse(text, strlen(text), &object, &err) == 0);
    SNP_ASSERT(member == NULL || json_is_string(json_object_get(object, member)));
}

static void output_try(const char *bytes, size_t n)
{
    snp_autobuf struct snp_buf out = {0};
    snp_autobuf struct snp_buf none = {0};
    const struct snp_feedback_output output = {.out = &out, .err = &none};
    snp_autojson json_t *result = json_pack("{s:s}", "status", "ok");
    snp_autojson json_t *shown = snp_feedback_text(bytes, n, TEXT_CHARS);
    snp_autofree char *text = NULL;
    json_t *error = NULL;

    SNP_ASSERT(shown != NULL);
    SNP_ASSERT(snp_utf8_count(json_string_value(shown), json_string_length(shown)) <=
               TEXT_CHARS + CUT_SLACK);
    for (size_t i = 0; i < json_string_length(shown); i++) {
        unsigned char c = (unsigned char)json_string_value(shown)[i];

        SNP_ASSERT((c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t');
    }
    snp_buf_init(&out, n + 1);
    snp_buf_init(&none, 1);
    SNP_ASSERT(snp_buf_add(&out, bytes, n) == 0);
    text = snp_feedback_cell(result, &output, &error);
    SNP_ASSERT(error == NULL);
    check_json(text, "output");
}

static void tool_try(const char *bytes, size_t n)
{
    bool is_error = false;
    snp_autofree char *text = snp_feedback_tool(bytes, n, &is_error);

    check_json(text, is_error ? "error" : NULL);
}

static void call_try(const char *bytes, size_t n)
{
    json_t *request = NULL;

    if (snp_run_inside_read(bytes, n, &request) == 0) {
        SNP_ASSERT(json_string_length(json_array_get(json_object_get(request, "prompts"), 0)) > 0);
        json_decref(request);
    }
}

static void records_try(const char *bytes, size_t n)
{
    struct snp_run_state state;
    struct snp_chain chain;
    struct snp_err err;

    SNP_ASSERT(snp_run_state_init(&state) == 0);
    snp_chain_init(&chain);
    for (size_t at = 0; at < n;) {
        const char *end = memchr(bytes + at, '\n', n - at);
        size_t len = end == NULL ? n - at : (size_t)(end - bytes) - at;
        snp_autojson json_t *record = NULL;

        (void)snp_chain_check(&chain, bytes + at, len);
        if (len > 0 && snp_json_parse(bytes + at, len, &record, &err) == 0) {
            (void)!snp_run_state_apply(&state, record, &err);
        }
        at += len + 1;
    }
    json_decref(snp_run_state_event(&state, "now"));
    json_decref(snp_run_state_files(&state));
    json_decref(snp_run_state_partial(&state.level));
    json_decref(snp_run_state_summary(&state));
    snp_run_state_done(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *text = (const char *)bytes;

    if (n == 0) {
        return 0;
    }
    switch (text[0]) {
    case 'o':
        output_try(text + 1, n - 1);
        break;
    case 't':
        tool_try(text + 1, n - 1);
        break;
    case 'c':
        call_try(text + 1, n - 1);
        break;
    default:
        records_try(text + 1, n - 1);
    }
    return 0;
}
