/* SPDX-License-Identifier: Apache-2.0 */
#include "repair/measures.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

const struct snp_measure snp_measures[SNP_MEASURES] = {
    {"first_attempt_pass_rate", "share", "repairs whose first patch was ready", false},
    {"final_pass_rate", "share", "repairs whose last patch is ready", false},
    {"signature_correctness", "share", "existing functions that keep their parameters", false},
    {"standards_compliance", "share", "patches without new findings of linters and type checkers",
     false},
    {"hallucinated_call_rate", "share", "patches that use names or arguments that do not exist",
     false},
    {"regressions", "tests", "tests that passed before the change, but not now", true},
    {"lint", "findings", "additional findings of flake8 and ruff", true},
    {"types", "findings", "additional findings of mypy", true},
    {"security_findings", "files", "files with a possible new secret", true},
    {"patch_size", "lines", "added and removed lines", false},
    {"retries", "patches", "patches judged before the last one", false},
    {"reproduction_before_edit", "share",
     "repairs of agents that ran the tests before they changed a file", false},
    {"acceptance", "share", "applied patches among those decided about", false},
    {"time_to_decision", "seconds", "time from the verdict to the decision", false},
};

/* One ------------------------------------------------------------------------------------------ */

static bool is_passed(const json_t *tests, const char *id)
{
    return strcmp(snp_json_str(tests, id, ""), "passed") == 0;
}

/* null: no command reported its tests on both sides. */
static json_t *regressions(const struct snp_measured *of)
{
    size_t n_base = json_array_size(of->base);
    size_t n_known = 0;
    json_int_t n = 0;

    for (size_t i = 0; i < n_base; i++) {
        const json_t *was = json_object_get(json_array_get(of->base, i), "report");
        const json_t *run = json_array_get(of->runs, n_base + i);
        const json_t *tests = json_object_get(json_object_get(run, "report"), "tests");
        const char *id;
        json_t *outcome;

        if (!json_is_object(was) || run == NULL) {
            continue;
        }
        n_known++;
        json_object_foreach(json_object_get(was, "tests"), id, outcome)
        {
            n += snp_streq(json_string_value(outcome), "passed") && !is_passed(tests, id);
        }
    }
    return n_known == 0 ? json_null() : json_integer(n);
}

/*
 * Findings of a tool beyond those before; 0 if a number is missing. *is_known: set if both are
 * known.
 */
static json_int_t findings_add(const json_t *checks, const char *tool, bool *is_known)
{
    const json_t *counts = json_object_get(checks, tool);
    int64_t before = snp_json_int(counts, "before", -1);
    int64_t after = snp_json_int(counts, "after", -1);

    if (before < 0 || after < 0) {
        return 0;
    }
    *is_known = true;
    return after - before;
}

json_t *snp_measures_make(const struct snp_measured *of)
{
    bool has_lint = false;
    bool has_types = false;
    bool is_read = of->look != NULL;
    json_int_t lint =
        findings_add(of->checks, "flake8", &has_lint) + findings_add(of->checks, "ruff", &has_lint);
    json_int_t types = findings_add(of->checks, "mypy", &has_types);
    json_t *all = json_copy(json_object_get(of->look, "measures"));

    all = all == NULL ? json_object() : all;
    (void)json_object_set_new(all, "first_attempt_pass_rate",
                              json_boolean(of->n_before == 0 ? of->is_ready : of->was_first_ready));
    (void)json_object_set_new(all, "final_pass_rate", json_boolean(of->is_ready));
    (void)json_object_set_new(all, "regressions", regressions(of));
    (void)json_object_set_new(all, "lint", has_lint ? json_integer(lint) : json_null());
    (void)json_object_set_new(all, "types", has_types ? json_integer(types) : json_null());
    (void)json_object_set_new(all, "standards_compliance",
                              has_lint || has_types ? json_boolean(lint <= 0 && types <= 0)
                                                    : json_null());
    (void)json_object_set_new(all, "security_findings",
                              is_read ? json_integer((json_int_t)of->n_secrets) : json_null());
    (void)json_object_set_new(all, "retries", json_integer((json_int_t)of->n_before));
    (void)json_object_set(all, "reproduction_before_edit",
                          json_object_get(of->attempt, "reproduced_before_edit"));
    for (size_t i = 0; i < SNP_MEASURES; i++) {
        if (json_object_get(all, snp_measures[i].name) == NULL) {
            (void)json_object_set_new(all, snp_measures[i].name, json_null());
        }
    }
    return all;
}

/* Many --------------------------------------------------------------------------------------- */

json_t *snp_measures_sum(const json_t *all)
{
    json_t *ret = json_object();

    for (size_t m = 0; m < SNP_MEASURES; m++) {
        double sum = 0;
        size_t n = 0;

        for (size_t i = 0; i < json_array_size(all); i++) {
            const json_t *value = json_object_get(json_array_get(all, i), snp_measures[m].name);

            n += json_is_boolean(value) || json_is_number(value);
            sum += json_is_true(value) ? 1 : json_number_value(value);
        }
        (void)json_object_set_new(
            ret, snp_measures[m].name,
            n == 0 ? json_null() : json_real(snp_measures[m].is_sum ? sum : sum / (double)n));
    }
    return ret;
}

void snp_measure_text(const struct snp_measure *of, const json_t *value, char out[SNP_MEASURE_TEXT])
{
    bool is_share = strcmp(of->unit, "share") == 0;

    if (json_is_boolean(value)) {
        (void)snprintf(out, SNP_MEASURE_TEXT, "%s", json_is_true(value) ? "yes" : "no");
    } else if (!json_is_number(value)) {
        (void)snprintf(out, SNP_MEASURE_TEXT, "not known");
    } else if (is_share) {
        (void)snprintf(out, SNP_MEASURE_TEXT, "%.1f %%", 100 * json_number_value(value));
    } else {
        (void)snprintf(out, SNP_MEASURE_TEXT, "%.4g %s", json_number_value(value), of->unit);
    }
}
