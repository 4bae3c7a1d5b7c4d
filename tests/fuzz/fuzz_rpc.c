/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon reads: requests of clients and answers of tiers. Input: the JSON head
 * up to the first NUL byte, the raw bytes after it. What passes must keep the promises that
 * the code behind the checks relies on.
 */
#include <string.h>

#include "base/policy/session_name.h"
#include "base/project/project.h"
#include "base/str.h"
#include "daemon/front/dispatch.h"
#include "daemon/session/result.h"
#include "daemon/spec.h"
#include "daemon/tiers.h"
#include "fuzz/target.h"

static void check_exec(json_t *head, size_t raw_len)
{
    struct snp_found_tier tier = {.name = "native"};
    struct snp_exec_spec spec = {0};
    snp_autojson json_t *env = json_object();
    struct snp_session_policy policy = {
        .place = {.tier = &tier}, .template_name = "base", .env = env};
    uint64_t wall_ms = 0;
    struct snp_err err;
    snp_limits_default(&policy.limits);
    if (snp_exec_spec_read(head, raw_len, &spec, &err) < 0) {
        SNP_ASSERT(err.msg[0] != '\0' && spec.head == NULL);
        return;
    }
    SNP_ASSERT(spec.asked.code_len <= raw_len);
    SNP_ASSERT(spec.asked.stdin || spec.asked.code_len == raw_len);
    SNP_ASSERT(spec.asked.session == NULL || snp_session_name_check(spec.asked.session, &err) == 0);
    SNP_ASSERT(strcmp(spec.asked.kind, "python") == 0 || json_array_size(spec.asked.argv) > 0);
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        const struct snp_limit_info *info = snp_limit_info((enum snp_limit)i);
        SNP_ASSERT(spec.limits.value[i] >= info->min && spec.limits.value[i] <= info->max);
    }
    if (snp_exec_spec_fits(&spec, &policy, &wall_ms, &err) == 0) {
        SNP_ASSERT(wall_ms >= snp_limit_info(SNP_LIMIT_WALL)->min);
        SNP_ASSERT(wall_ms <= snp_limit_info(SNP_LIMIT_WALL)->max);
    }
    if (spec.asked.project != NULL && snp_project_check(spec.asked.project, "/home/u", &err) == 0) {
        SNP_ASSERT(spec.asked.project[0] == '/' && strstr(spec.asked.project, "/../") == NULL);
    }
    snp_exec_spec_done(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const uint8_t *nul = n == 0 ? NULL : memchr(bytes, 0, n);
    size_t head_len = nul == NULL ? n : (size_t)(nul - bytes);
    size_t raw_len = nul == NULL ? 0 : n - head_len - 1;
    const struct snp_method_form *method = NULL;
    snp_autojson json_t *head = NULL;
    struct snp_err err = {0};
    if (snp_json_parse((const char *)bytes, head_len, &head, &err) < 0) {
        return 0;
    }
    if (snp_method_check(head, raw_len, &method, &err) < 0) {
        SNP_ASSERT(method == NULL && err.msg[0] != '\0');
    } else if (strcmp(snp_json_str(head, "method", ""), "exec") == 0) {
        check_exec(head, raw_len);
    }
    if (snp_result_check(head, raw_len, &err) == 0) {
        SNP_ASSERT(raw_len == 0 && json_is_object(json_object_get(head, "usage")));
    }
    if (snp_event_check(head, raw_len, &err) == 0) {
        SNP_ASSERT(snp_json_str(head, "event", NULL) != NULL);
    }
    return 0;
}
