/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standards come from the clean project: a change cannot weaken its own standards. Their commands
 * run in sandboxes only.
 */
#include "cli/check/standards.h"

#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/rundir.h"
#include "base/str.h"
#include "repair/verdict.h"

enum {
    STEPS = 200000000, /* of all searches together: a few seconds */
    CHECKS_MAX = 20,
    FINDINGS_MAX = 5, /* shown for one rule */
    OUTPUT_KEPT = 2 << 10,
    WHERE_MAX = 1200,
};

/* From the best to the worst. */
enum status {
    NOT_CONCERNED = 0,
    PASSED,
    BROKEN_BEFORE,
    NOT_CHECKABLE,
    NOT_CHECKED, /* the change prevented the check */
    BROKEN,
    STATUSES,
};

static const char *const status_names[] = {"not concerned", "passed",      "broken before",
                                           "not checkable", "not checked", "broken"};

struct standards_check {
    const struct snp_box_spec *spec;
    const struct snp_patch *patch;
    json_t *reasons;
    uint64_t steps;
    size_t n_checks;
};

/* A rule and its result. */
struct told {
    enum status status;
    const char *why; /* static or the rule's; NULL = none */
    json_t *findings;
    json_t *output; /* owned: of a command that failed; NULL = none */
    char where[WHERE_MAX];
    size_t n;
};

/* Patterns ------------------------------------------------------------------------------------ */

static void finding_add(struct told *told, const char *path, uint32_t line)
{
    size_t used = strlen(told->where);

    if (told->n++ < FINDINGS_MAX) {
        (void)snprintf(told->where + used, sizeof(told->where) - used,
                       line > 0 ? "%s%.200s:%u" : "%s%.200s", used > 0 ? ", " : "", path, line);
    }
    (void)json_array_append_new(told->findings,
                                snp_need(json_pack("{s:o, s:I}", "file", snp_cli_path_json(path),
                                                   "line", (json_int_t)line)));
}

static int file_judge(struct standards_check *j,
                      const struct snp_rule *rule,
                      const struct snp_patch_file *file,
                      struct told *told,
                      struct snp_err *err)
{
    static const enum status statuses[] = {PASSED, BROKEN, BROKEN_BEFORE, NOT_CHECKED};
    const struct snp_rule_text before = {
        file->base.kind == SNP_PATCH_FILE ? file->base.bytes : NULL, file->base.size};
    const struct snp_rule_text after = {file->now.bytes, file->now.size};
    enum snp_rule_judged judged = SNP_RULE_UNJUDGED;
    const char *why = "a link";
    uint32_t line = 0;

    if (file->now.kind == SNP_PATCH_NONE || file->now.kind == SNP_PATCH_FOLDER) {
        return 0;
    }
    if (file->now.kind == SNP_PATCH_FILE && file->now.bytes == NULL) {
        why = "a file is too large";
    } else if (file->now.kind == SNP_PATCH_FILE) {
        why = "searching took too long";
        SNP_TRY_MEMORY(snp_rule_judge(rule, &before, &after, &j->steps, &judged, &line) == 0, err);
    }
    if (statuses[judged] > told->status) { /* keep the findings of the worst status */
        (void)json_array_clear(told->findings);
        told->where[0] = '\0';
        told->n = 0;
        told->status = statuses[judged];
        told->why = told->status == NOT_CHECKED ? why : NULL;
    }
    if (statuses[judged] == told->status && told->status != PASSED) {
        finding_add(told, file->path, line);
    }
    return 0;
}

/* Commands ------------------------------------------------------------------------------------ */

static int command_run(struct standards_check *j,
                       const char *command,
                       bool is_patched,
                       struct told *told,
                       bool *ret_is_good,
                       struct snp_err *err)
{
    const struct snp_box_part part = {.has_tests = false};
    snp_autobox struct snp_patch_session box = {0};
    snp_autobuf struct snp_buf out = SNP_BUF(SNP_BOX_OUTPUT_MAX);
    snp_autojson json_t *result = NULL;
    size_t left_out;

    SNP_TRY(snp_box_open(j->spec, &box, err));
    if (is_patched) {
        SNP_TRY(snp_box_apply(&box, &part, err));
    }
    SNP_TRY(snp_box_exec(&box, command, &out, &result, err));
    *ret_is_good = snp_streq(snp_json_str(result, "status", ""), "ok") &&
                   snp_json_int(result, "exit_code", -1) == 0;
    if (is_patched && !*ret_is_good) {
        left_out = out.len > OUTPUT_KEPT ? out.len - OUTPUT_KEPT : 0;
        told->output =
            snp_json_bytes(out.len == 0 ? "" : snp_buf_bytes(&out) + left_out, out.len - left_out);
    }
    return 0;
}

/* A command whose files are changed by the patch proves nothing about it. */
static const char *names_changed(const struct standards_check *j, const char *command)
{
    for (size_t i = 0; i < j->patch->n; i++) {
        if (strstr(command, j->patch->files[i].path) != NULL) {
            return j->patch->files[i].path;
        }
    }
    return NULL;
}

static int check_judge(struct standards_check *j,
                       const struct snp_rule *rule,
                       struct told *told,
                       struct snp_err *err)
{
    const char *changed = names_changed(j, rule->text);
    bool is_good = false;
    bool was_good = false;

    if (changed != NULL) {
        told->status = NOT_CHECKED;
        told->why = "the change touches a file that the check names";
        finding_add(told, changed, 0);
        return 0;
    }
    if (j->n_checks++ >= CHECKS_MAX) {
        told->status = NOT_CHECKABLE;
        told->why = "a verdict runs at most 20 checks";
        return 0;
    }
    SNP_TRY(command_run(j, rule->text, true, told, &is_good, err));
    if (!is_good) {
        SNP_TRY(command_run(j, rule->text, false, told, &was_good, err));
    }
    told->status = is_good ? PASSED : was_good ? BROKEN : NOT_CHECKABLE;
    told->why = is_good || was_good ? NULL : "the check fails on the clean project, too";
    return 0;
}

/* Standards ----------------------------------------------------------------------------------- */

static bool is_concerned(const struct standards_check *j, const struct snp_standard *standard)
{
    for (size_t i = 0; i < j->patch->n; i++) {
        if (snp_standard_covers(standard, j->patch->files[i].path)) {
            return true;
        }
    }
    return false;
}

static int rule_judge(struct standards_check *j,
                      const struct snp_standard *standard,
                      const struct snp_rule *rule,
                      struct told *told,
                      struct snp_err *err)
{
    int r = 0;

    if (rule->problem != NULL) {
        told->status = NOT_CHECKABLE;
        told->why = rule->problem;
        return 0;
    }
    if (rule->kind == SNP_RULE_CHECK) {
        return check_judge(j, rule, told, err);
    }
    for (size_t i = 0; i < j->patch->n && r == 0; i++) {
        const struct snp_patch_file *file = &j->patch->files[i];

        r = snp_standard_covers(standard, file->path) ? file_judge(j, rule, file, told, err) : 0;
    }
    return r;
}

static void reason_add(const struct standards_check *j,
                       const struct snp_standard *standard,
                       const struct snp_rule *rule,
                       const struct told *told)
{
    const char *more = told->n > FINDINGS_MAX ? ", ..." : "";

    if (standard->class != SNP_STANDARD_MANDATORY) {
        return;
    }
    if (told->status == BROKEN) {
        snp_verdict_add(j->reasons, snp_verdict_failed,
                        "the change breaks \"%.100s\" (%.200s), %s `%.200s`%s%s%s", standard->title,
                        standard->path, snp_rule_kind_name(rule->kind), rule->text,
                        told->n > 0 ? ": " : "", told->where, more);
    } else if (told->status == NOT_CHECKED) {
        snp_verdict_add(j->reasons, snp_verdict_unproven,
                        "\"%.100s\" (%.200s) was not checked: %.200s: %s%s", standard->title,
                        standard->path, told->why, told->where, more);
    }
}

static json_t *rule_json(const struct snp_rule *rule, struct told *told)
{
    return snp_need(json_pack("{s:s, s:s, s:s, s:s?, s:O, s:o?}", "kind",
                              snp_rule_kind_name(rule->kind), "text", rule->text, "status",
                              status_names[told->status], "why", told->why, "findings",
                              told->findings, "output", SNP_TAKE_PTR(told->output)));
}

static int standard_judge(struct standards_check *j,
                          const struct snp_standard *standard,
                          json_t *documents,
                          enum status *ret,
                          struct snp_err *err)
{
    snp_autojson json_t *rules = snp_need(json_array());
    bool is_of = is_concerned(j, standard);
    const char *why = standard->problem;

    *ret = NOT_CONCERNED;
    for (size_t i = 0; i < standard->n_rules && is_of; i++) {
        const struct snp_rule *rule = &standard->rules[i];
        snp_autojson json_t *findings = snp_need(json_array());
        struct told told = {.findings = findings};

        SNP_TRY(rule_judge(j, standard, rule, &told, err));
        reason_add(j, standard, rule, &told);
        *ret = told.status > *ret ? told.status : *ret;
        (void)json_array_append_new(rules, rule_json(rule, &told));
    }
    if (is_of && (standard->n_rules == 0 || why != NULL)) {
        *ret = *ret < NOT_CHECKABLE ? NOT_CHECKABLE : *ret;
        why = why != NULL ? why : "it has no forbid, require or check";
    }
    (void)json_array_append_new(
        documents,
        snp_need(json_pack("{s:o, s:s, s:s, s:b, s:s, s:s?, s:O}", "id",
                           snp_cli_path_json(standard->path), "title", standard->title, "category",
                           snp_standard_class_name(standard->class), "is_mandatory",
                           standard->class == SNP_STANDARD_MANDATORY, "status", status_names[*ret],
                           "why", is_of ? why : NULL, "rules", rules)));
    return 0;
}

int snp_standards_patch(const struct snp_box_spec *spec,
                        json_t **ret,
                        json_t *reasons,
                        struct snp_err *err)
{
    snp_autostandards struct snp_standards standards = {0};
    snp_autojson json_t *documents = snp_need(json_array());
    snp_autofree char *shared = snp_users_folder("standards");
    struct standards_check j = {
        .spec = spec, .patch = &spec->changes->patch, .reasons = reasons, .steps = STEPS};
    json_int_t counts[STATUSES] = {0};

    SNP_TRY(snp_standards_read(spec->changes->project_fd, shared, &standards, err));
    for (size_t i = 0; i < j.patch->n; i++) {
        if (snp_standard_is(j.patch->files[i].path)) {
            snp_verdict_add(reasons, snp_verdict_unproven,
                            "%.200s contains the team's rules for code", j.patch->files[i].path);
        }
    }
    for (size_t i = 0; i < standards.n; i++) {
        enum status status;

        SNP_TRY(standard_judge(&j, &standards.items[i], documents, &status, err));
        counts[status]++;
    }
    if (standards.n == 0) {
        return 0;
    }
    *ret = snp_need(json_object());
    for (size_t i = 0; i < STATUSES; i++) {
        (void)json_object_set_new(*ret, status_names[i], json_integer(counts[i]));
    }
    (void)json_object_set(*ret, "documents", documents);
    return 0;
}

void snp_standards_write(const json_t *standards, struct snp_buf *out)
{
    const json_t *documents = json_object_get(standards, "documents");

    for (size_t i = 0; i < json_array_size(documents); i++) {
        const json_t *one = json_array_get(documents, i);
        const char *why = snp_json_str(one, "why", NULL);

        (void)!snp_buf_addf(out, "%s- %s: `%s` (%s)%s%s\n", i == 0 ? "\nStandards:\n\n" : "",
                            snp_json_str(one, "status", ""), snp_json_str(one, "id", ""),
                            snp_json_str(one, "category", ""), why == NULL ? "" : ": ",
                            why == NULL ? "" : why);
    }
}
