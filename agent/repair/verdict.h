/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_REPAIR_VERDICT_H
#define SNP_REPAIR_VERDICT_H

/*
 * Judge a patch by runs of tests. A run of a command is
 *
 *   {"kind": "test" | "regress" | "hidden", "command", "runner": "pytest" | "unittest" | "node" |
 *   "tap" | "other", "status", "exit_code",
 *    "parts": [FILE] | null, "report": {"tests": {ID: OUTCOME}, "errors": [ID],
 *    "given": {ID: HASH}, "parts": [FILE], "exit_code"} | null}
 *
 * (of a run of the clean project that did not end all outcomes are "error", and `is_cut` is true;
 * `given` has the tests with parameters; parts of a run: files of tests that each had a process)
 *
 * where status and exit code are attested by pid 1, and the report was read once the command had
 * ended. Reasons are {"word": the best verdict they leave, "text", "removed_by": "user" | "both"}:
 * without the last only another change removes it. Pure decisions.
 */

#include <stdbool.h>

#include "base/json.h"

extern const char snp_verdict_ready[];
extern const char snp_verdict_passed[]; /* "tests passed" */
extern const char snp_verdict_unproven[];
extern const char snp_verdict_failed[];

/* The test runner of a command: static. tap is only visible in a command's output. */
const char *snp_verdict_runner(const char *command);

/* Append a reason; word is one of the above. */
void snp_verdict_add(json_t *reasons, const char *word, const char *fmt, ...) SNP_PRINTF(3, 4);

/*
 * Mark the last reason as removable by an option or another test command of the user; is_both: also
 * by another change.
 */
void snp_verdict_for_user(json_t *reasons, bool is_both);

/* Compare a run of the patched project with that of the clean one; reasons: appended to. */
void snp_verdict_compare(const json_t *base, const json_t *run, json_t *reasons);

/* Altered forms of tests (alter.py). */
#define SNP_VERDICT_FORMS 7
struct snp_verdict_form {
    const char *name;
    const char *word;  /* the best verdict if a test behaves wrongly */
    const char *wrong; /* description of such a test's behaviour */
    bool must_fail;    /* altered tests must fail in this form; else they must pass */
};
extern const struct snp_verdict_form snp_verdict_forms[SNP_VERDICT_FORMS];

/* Tests of altered (IDs) with the wrong outcome for the form in the report. New reference. */
json_t *snp_verdict_wrong(const struct snp_verdict_form *form,
                          const json_t *altered,
                          const json_t *report);

/* Append a reason for the wrong tests of a run, if there are any. */
void snp_verdict_wrong_tell(const struct snp_verdict_form *form,
                            const json_t *wrong,
                            const json_t *run,
                            json_t *reasons);

/*
 * Tests (IDs) with another outcome than in an earlier identical run; "the command" if only its end
 * differs. New reference.
 */
json_t *snp_verdict_flaky(const json_t *before, const json_t *again);

/*
 * Append a reason for the flaky tests of a run, if there are any. where: "" or " in one process".
 * days: its clock was ahead.
 */
void snp_verdict_flaky_tell(
    const json_t *flaky, const json_t *run, const char *where, int64_t days, json_t *reasons);

/* Whether the tests had the same outcomes, and only the end of the command was different. */
bool snp_verdict_is_command(const json_t *flaky);

/*
 * Append a reason for tests that pass only beside other files of tests, if there are any.
 * is_known: as in the clean project, so it blocks nothing.
 */
void snp_verdict_together_tell(const json_t *tests,
                               const json_t *run,
                               bool is_known,
                               json_t *reasons);

/* Whether a report has a failed test, or a file that could not be loaded. */
bool snp_verdict_has_failures(const json_t *report);

/*
 * Whether a run reported a test from the file at path (no doctest: reading the file finds these).
 */
bool snp_verdict_has_tests_of(const json_t *run, const char *path);

/* The worst word of the reasons; without any: ready. */
const char *snp_verdict_word(const json_t *reasons);

/*
 * The same, ignoring reasons that only the user can remove. If there are some, or with is_told,
 * also ignoring those that both can remove: no other change is ready.
 */
const char *snp_verdict_word_of_change(const json_t *reasons, bool is_told);

#endif
