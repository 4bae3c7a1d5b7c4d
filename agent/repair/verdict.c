/* SPDX-License-Identifier: Apache-2.0 */
#include "repair/verdict.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

const char snp_verdict_ready[] = "ready for human review";
const char snp_verdict_passed[] = "tests passed";
const char snp_verdict_unproven[] = "not proven";
const char snp_verdict_failed[] = "failed";

/* From the best to the worst. */
static const char *const words[] = {snp_verdict_ready, snp_verdict_passed, snp_verdict_unproven,
                                    snp_verdict_failed};

static const char the_command[] = "the command";

enum {
    NAMED_MAX = 5, /* tests listed in one reason */
    COMMAND_MAX = 160,
};

/* Whether a path, or a bare name, names this program. */
static bool is_program_of(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');

    return strcmp(slash == NULL ? path : slash + 1, name) == 0;
}

const char *snp_verdict_runner(const char *command)
{
    static const char blank[] = " \t";
    snp_autofree char *copy = strdup(command);
    char *rest = copy;
    const char *before = "";
    const char *word;

    if (copy == NULL || strpbrk(command, ";|&<>`$()\n") != NULL) {
        return "other";
    }
    while ((word = strsep(&rest, blank)) != NULL) {
        bool is_program = before[0] == '\0' || strcmp(before, "-m") == 0;

        if (is_program && (is_program_of(word, "pytest") || is_program_of(word, "py.test"))) {
            return "pytest";
        }
        if (strcmp(before, "-m") == 0 && strcmp(word, "unittest") == 0) {
            return "unittest";
        }
        if (is_program_of(before, "node") && strcmp(word, "--test") == 0 &&
            strstr(command, "--test-reporter") == NULL &&
            strstr(command, "test-isolation") == NULL) { /* one process for all */
            return "node";
        }
        before = word[0] == '\0' ? before : word;
    }
    return "other";
}

void snp_verdict_add(json_t *reasons, const char *word, const char *fmt, ...)
{
    snp_autofree char *text = NULL;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vasprintf(&text, fmt, args);
    va_end(args);
    for (int i = 0; i < n; i++) { /* a path with a newline must not begin a line of the summary */
        if (iscntrl((unsigned char)text[i])) {
            text[i] = ' ';
        }
    }
    if (n >= 0) {
        (void)json_array_append_new(reasons, json_pack("{s:s, s:o}", "word", word, "text",
                                                       snp_json_bytes(text, (size_t)n)));
    }
}

void snp_verdict_for_user(json_t *reasons, bool is_both)
{
    json_t *last = json_array_get(reasons, json_array_size(reasons) - 1);

    (void)json_object_set_new(last, "removed_by", json_string(is_both ? "both" : "user"));
}

static const char *worst_of(const json_t *reasons, bool has_user, bool has_both)
{
    size_t worst = 0;

    for (size_t i = 0; i < json_array_size(reasons); i++) {
        const json_t *reason = json_array_get(reasons, i);
        const char *word = snp_json_str(reason, "word", "");
        const char *by = snp_json_str(reason, "removed_by", "");

        if ((!has_user && strcmp(by, "user") == 0) || (!has_both && strcmp(by, "both") == 0)) {
            continue;
        }
        for (size_t w = worst; w < SNP_ARRAY_LEN(words); w++) {
            worst = strcmp(word, words[w]) == 0 ? w : worst;
        }
    }
    return words[worst];
}

const char *snp_verdict_word(const json_t *reasons)
{
    return worst_of(reasons, true, true);
}

const char *snp_verdict_word_of_change(const json_t *reasons, bool is_told)
{
    for (size_t i = 0; i < json_array_size(reasons) && !is_told; i++) {
        is_told = strcmp(snp_json_str(json_array_get(reasons, i), "removed_by", ""), "user") == 0;
    }
    return worst_of(reasons, false, !is_told);
}

/* Comparing ---------------------------------------------------------------------------------- */

/* Tests that share a reason. */
struct named {
    char text[600];
    size_t n;
};

static void name_add(struct named *named, const char *id)
{
    size_t used = strlen(named->text);

    if (named->n++ < NAMED_MAX) {
        (void)snprintf(named->text + used, sizeof(named->text) - used, "%s%.100s",
                       used == 0 ? "" : ", ", id);
    }
}

/* A command in a reason, without a hidden one. */
static const char *command_text(const json_t *run, char text[static COMMAND_MAX])
{
    bool is_hidden = strcmp(snp_json_str(run, "kind", ""), "hidden") == 0;

    (void)snprintf(text, COMMAND_MAX, is_hidden ? "a hidden test command" : "`%.140s`",
                   snp_json_str(run, "command", ""));
    return text;
}

/* Names of hidden tests are not reported. */
static void named_tell(const struct named *named,
                       const json_t *run,
                       const char *word,
                       const char *what,
                       json_t *reasons)
{
    bool is_hidden = strcmp(snp_json_str(run, "kind", ""), "hidden") == 0;

    if (named->n == 0) {
        return;
    }
    if (is_hidden) {
        snp_verdict_add(reasons, word, "%zu hidden test%s %s", named->n, named->n == 1 ? "" : "s",
                        what);
    } else {
        snp_verdict_add(reasons, word, "%zu test%s %s: %s%s", named->n, named->n == 1 ? "" : "s",
                        what, named->text, named->n > NAMED_MAX ? ", ..." : "");
    }
}

static bool is_in(const json_t *tests, const char *id)
{
    size_t n = strlen(id);
    const char *name;
    json_t *outcome;

    json_object_foreach((json_t *)(uintptr_t)tests, name, outcome)
    {
        if (strncmp(name, id, n) == 0 && strchr(":.", name[n]) != NULL) { /* or its NUL */
            return true;
        }
    }
    return false;
}

static bool is_outcome(const json_t *tests, const char *id, const char *outcome)
{
    return strcmp(snp_json_str(tests, id, ""), outcome) == 0;
}

/* Every test of the clean project must be reported: a missing test may be a failing one. */
static void missing_tell(const json_t *was, const json_t *now, const json_t *run, json_t *reasons)
{
    const json_t *errors = json_object_get(was, "errors");
    const json_t *tests = json_object_get(now, "tests");
    struct named missing = {.n = 0};
    const char *id;
    json_t *outcome;

    json_object_foreach(json_object_get(was, "tests"), id, outcome)
    {
        if (json_object_get(tests, id) == NULL) {
            name_add(&missing, id);
        }
    }
    for (size_t i = 0; i < json_array_size(errors); i++) {
        const char *error = json_string_value(json_array_get(errors, i));

        if (!is_in(tests, error)) {
            name_add(&missing, error);
        }
    }
    named_tell(&missing, run, snp_verdict_failed, "not reported", reasons);
}

/* Whether a test is in a file that the clean project could not load. */
static bool is_of_error(const json_t *was, const char *id)
{
    const json_t *errors = json_object_get(was, "errors");

    for (size_t i = 0; i < json_array_size(errors); i++) {
        const char *error = json_string_value(json_array_get(errors, i));
        size_t n = error == NULL ? 0 : strlen(error);

        if (error != NULL && strncmp(id, error, n) == 0 && strchr(":./", id[n]) != NULL) {
            return true;
        }
    }
    return false;
}

/*
 * Tests stay as in the project, so a new test, or one with other parameters, comes from changed
 * code.
 */
static void cases_tell(const json_t *was, const json_t *now, const json_t *run, json_t *reasons)
{
    const json_t *before = json_object_get(was, "given");
    const json_t *after = json_object_get(now, "given");
    struct named added = {.n = 0};
    struct named other = {.n = 0};
    const char *id;
    json_t *value;

    json_object_foreach(json_object_get(now, "tests"), id, value)
    {
        if (is_of_error(was, id)) {
            continue;
        }
        if (json_object_get(json_object_get(was, "tests"), id) == NULL) {
            name_add(&added, id);
        } else if (!json_equal(json_object_get(before, id), json_object_get(after, id)) &&
                   json_object_get(before, id) != json_object_get(after, id)) {
            name_add(&other, id);
        }
    }
    named_tell(&added, run, snp_verdict_unproven, "not in the clean project", reasons);
    named_tell(&other, run, snp_verdict_unproven, "given other values than in the clean project",
               reasons);
}

/* An earlier failure may remain in --regress only. */
static void outcomes_tell(const json_t *was, const json_t *now, const json_t *run, json_t *reasons)
{
    const json_t *before = json_object_get(was, "tests");
    bool is_regress = strcmp(snp_json_str(run, "kind", ""), "regress") == 0;
    struct named failed = {.n = 0};
    struct named skipped = {.n = 0};
    const char *id;
    json_t *value;

    json_object_foreach(json_object_get(now, "tests"), id, value)
    {
        const char *outcome = json_string_value(value);
        bool is_known = json_object_get(before, id) != NULL;
        bool was_good = is_outcome(before, id, "passed");
        bool was_other = is_outcome(before, id, outcome == NULL ? "" : outcome);

        if (snp_streq(outcome, "passed")) {
            continue;
        }
        if (snp_streq(outcome, "skipped") || snp_streq(outcome, "xfailed")) {
            if (is_known && !was_other) {
                name_add(&skipped, id);
            }
        } else if (!is_regress || was_good || !is_known) {
            name_add(&failed, id);
        }
    }
    named_tell(&failed, run, snp_verdict_failed, "failed", reasons);
    named_tell(&skipped, run, snp_verdict_failed, "skipped or expected to fail only now", reasons);
}

bool snp_verdict_has_tests_of(const json_t *run, const char *path)
{
    const char *runner = snp_json_str(run, "runner", "");
    bool is_node = strcmp(runner, "node") == 0;
    bool is_pytest = strcmp(runner, "pytest") == 0 || is_node;
    size_t n = strlen(path);
    snp_autofree char *start = strdup(path);
    const char *id;
    json_t *outcome;

    if (start == NULL || (!is_node && (n < 3 || strcmp(path + n - 3, ".py") != 0))) {
        return start == NULL;
    }
    n -= is_pytest ? 0 : 3;
    for (size_t i = 0; i < n && !is_pytest; i++) {
        start[i] = start[i] == '/' ? '.' : start[i];
    }
    json_object_foreach(json_object_get(json_object_get(run, "report"), "tests"), id, outcome)
    {
        if (strncmp(id, start, n) == 0 &&
            (is_pytest ? strncmp(id + n, "::", 2) == 0 &&
                             (is_node || id[n + 2 + strcspn(id + n + 2, ".[")] != '.')
                       : id[n] == '.')) {
            return true;
        }
    }
    return false;
}

const struct snp_verdict_form snp_verdict_forms[SNP_VERDICT_FORMS] = {
    {"fails", snp_verdict_failed, "did not fail with a failing assertion at the end", true},
    {"negated", snp_verdict_failed, "failed when assertions were evaluated without the runner",
     false},
    {"little", snp_verdict_failed, "found a result equal to a constant that was changed a little",
     false},
    {"much", snp_verdict_failed, "found a result equal to a constant that was changed", false},
    {"far", snp_verdict_failed, "found a result equal to another value than the expected one",
     false},
    {"same", snp_verdict_failed, "failed when only texts and names were different", false},
    {"order", snp_verdict_unproven, "failed in the opposite order, with each file in a process",
     false},
};

json_t *snp_verdict_wrong(const struct snp_verdict_form *form,
                          const json_t *altered,
                          const json_t *report)
{
    const json_t *tests = json_object_get(report, "tests");
    json_t *wrong = json_array();
    bool is_cut = form->must_fail; /* the run ended before a test failed */

    for (size_t i = 0; i < json_array_size(altered) && is_cut; i++) {
        const char *id = json_string_value(json_array_get(altered, i));

        is_cut = !is_outcome(tests, id, "failed") && !is_outcome(tests, id, "error");
    }
    for (size_t i = 0; i < json_array_size(altered); i++) {
        json_t *id = json_array_get(altered, i);

        if (is_cut || is_outcome(tests, json_string_value(id), "passed") == form->must_fail) {
            (void)json_array_append(wrong, id);
        }
    }
    return wrong;
}

/* One reason for all tests of a list. */
static void ids_tell(
    const json_t *ids, const json_t *run, const char *word, const char *what, json_t *reasons)
{
    struct named named = {.n = 0};

    for (size_t i = 0; i < json_array_size(ids); i++) {
        name_add(&named, json_string_value(json_array_get(ids, i)));
    }
    named_tell(&named, run, word, what, reasons);
}

void snp_verdict_wrong_tell(const struct snp_verdict_form *form,
                            const json_t *wrong,
                            const json_t *run,
                            json_t *reasons)
{
    ids_tell(wrong, run, form->word, form->wrong, reasons);
}

json_t *snp_verdict_flaky(const json_t *before, const json_t *again)
{
    json_t *was = json_object_get(json_object_get(before, "report"), "tests");
    const json_t *now = json_object_get(json_object_get(again, "report"), "tests");
    json_t *flaky = json_array();
    const char *id;
    json_t *outcome;

    json_object_foreach(was, id, outcome)
    {
        if (!json_equal(outcome, json_object_get(now, id))) {
            (void)json_array_append_new(flaky, json_string(id));
        }
    }
    if (json_array_size(flaky) == 0 &&
        (json_object_size(was) != json_object_size(now) ||
         !json_equal(json_object_get(before, "exit_code"), json_object_get(again, "exit_code")))) {
        (void)json_array_append_new(flaky, json_string(the_command));
    }
    return flaky;
}

void snp_verdict_flaky_tell(
    const json_t *flaky, const json_t *run, const char *where, int64_t days, json_t *reasons)
{
    char what[120];

    (void)snprintf(what, sizeof(what),
                   "flaky: another outcome when run again%s, with a clock %lld days ahead", where,
                   (long long)days);
    ids_tell(flaky, run, snp_verdict_unproven, what, reasons);
}

bool snp_verdict_is_command(const json_t *flaky)
{
    return snp_streq(json_string_value(json_array_get(flaky, 0)), the_command);
}

void snp_verdict_together_tell(const json_t *tests,
                               const json_t *run,
                               bool is_known,
                               json_t *reasons)
{
    if (snp_verdict_is_command(tests)) {
        char command[COMMAND_MAX];

        snp_verdict_add(reasons, snp_verdict_ready,
                        "%s passes only if its files of tests share a process, but each test of "
                        "them passes separately",
                        command_text(run, command));
    } else if (is_known) {
        ids_tell(tests, run, snp_verdict_ready,
                 "passed only in one process with other files of tests, as in the clean project",
                 reasons);
    } else {
        ids_tell(tests, run, snp_verdict_unproven,
                 "passed only in one process with other files of tests", reasons);
    }
}

bool snp_verdict_has_failures(const json_t *report)
{
    const char *id;
    json_t *outcome;

    json_object_foreach(json_object_get(report, "tests"), id, outcome)
    {
        if (snp_streq(json_string_value(outcome), "failed") ||
            snp_streq(json_string_value(outcome), "error")) {
            return true;
        }
    }
    return json_array_size(json_object_get(report, "errors")) > 0;
}

static bool has_reached(const json_t *report, const json_t *row)
{
    const json_t *rows = json_object_get(report, "reached");

    for (size_t i = 0; i < json_array_size(rows); i++) {
        if (json_equal(json_object_get(json_array_get(rows, i), "what"),
                       json_object_get(row, "what"))) {
            return true;
        }
    }
    return false;
}

/*
 * What changed lines did while tests ran (report.py, watch.cjs), other than in the clean project;
 * returns whether it ended the run.
 */
static bool reached_tell(const json_t *base, const json_t *report, json_t *reasons)
{
    const json_t *rows = json_object_get(report, "reached");

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        if (!has_reached(base, row)) {
            snp_verdict_add(reasons, snp_verdict_unproven, "%.200s:%lld %.200s while the tests run",
                            snp_json_str(row, "path", "?"), (long long)snp_json_int(row, "line", 0),
                            snp_json_str(row, "what", "?"));
        }
    }
    return json_array_size(rows) > 0 && json_object_size(json_object_get(report, "tests")) == 0;
}

static void reports_compare(const json_t *base,
                            const json_t *run,
                            const char *what,
                            json_t *reasons)
{
    const json_t *was = json_object_get(base, "report");
    const json_t *now = json_object_get(run, "report");
    bool is_test = strcmp(snp_json_str(run, "kind", ""), "test") == 0;

    if (!json_is_object(now)) {
        snp_verdict_add(reasons, snp_verdict_failed, "%s ended before all results were reported",
                        what);
        return;
    }
    if (json_object_size(json_object_get(now, "tests")) == 0) {
        snp_verdict_add(reasons, snp_verdict_failed, "%s ran no test", what);
    }
    if (!json_is_object(was)) {
        snp_verdict_add(reasons, snp_verdict_unproven,
                        "%s gave no results for the clean project, so there is nothing to "
                        "compare with",
                        what);
        snp_verdict_for_user(reasons, false);
        return;
    }
    if (snp_json_bool(was, "is_cut", false) &&
        strcmp(snp_json_str(run, "kind", ""), "regress") == 0) {
        snp_verdict_add(reasons, snp_verdict_unproven,
                        "%s did not end for the clean project, so it is unknown which tests passed",
                        what);
        snp_verdict_for_user(reasons, false);
    }
    if (json_array_size(json_object_get(now, "errors")) > 0 &&
        json_array_size(json_object_get(was, "errors")) == 0) {
        snp_verdict_add(reasons, snp_verdict_failed, "%s could not load all tests", what);
    }
    missing_tell(was, now, run, reasons);
    cases_tell(was, now, run, reasons);
    outcomes_tell(was, now, run, reasons);
    if (is_test && !snp_verdict_has_failures(was)) {
        snp_verdict_add(
            reasons, snp_verdict_unproven,
            "no test of %s failed in the clean project, so the change does not make it pass", what);
        snp_verdict_for_user(reasons, false);
    }
}

void snp_verdict_compare(const json_t *base, const json_t *run, json_t *reasons)
{
    const char *status = snp_json_str(run, "status", "");
    const char *kind = snp_json_str(run, "kind", "");
    bool is_tap = strcmp(snp_json_str(base, "runner", ""), "tap") == 0;
    bool is_known = is_tap || strcmp(snp_json_str(run, "runner", ""), "other") != 0;
    bool may_fail =
        strcmp(kind, "regress") == 0 && is_known &&
        snp_json_int(json_object_get(base, "exit_code") == NULL ? NULL : base, "exit_code", 0) != 0;
    int64_t code = snp_json_int(run, "exit_code", -1);
    char text[COMMAND_MAX];
    const char *what = command_text(run, text);

    if (reached_tell(json_object_get(base, "report"), json_object_get(run, "report"), reasons)) {
        return;
    }
    if (strcmp(status, "ok") != 0 && strcmp(status, "error") != 0) {
        snp_verdict_add(reasons, snp_verdict_failed, "%s was stopped: %.40s", what, status);
    } else if (code != 0 && !may_fail) {
        snp_verdict_add(reasons, snp_verdict_failed, "%s exited with %lld", what, (long long)code);
    }
    if (is_known) {
        reports_compare(base, run, what, reasons);
    }
    if (is_tap) {
        snp_verdict_add(
            reasons, snp_verdict_passed,
            "%s prints its results itself (TAP), mixed with the output of the tested code", what);
    } else if (!is_known) {
        snp_verdict_add(reasons, snp_verdict_passed,
                        "%s reports no results test by test (pytest, unittest and node --test do)",
                        what);
    }
}
