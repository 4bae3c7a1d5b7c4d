/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/evidence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"
#include "cli/check/standards.h"
#include "repair/measures.h"

enum {
    TEXT_MAX = 4 << 20,
    FEEDBACK_MAX = 24 << 10,
};

/* For a model, without reasons that only the user can remove. */
static void reasons_write(const json_t *reasons, bool is_for_model, struct snp_buf *out)
{
    for (size_t i = 0; i < json_array_size(reasons); i++) {
        const json_t *reason = json_array_get(reasons, i);

        if (is_for_model && strcmp(snp_json_str(reason, "removed_by", ""), "user") == 0) {
            continue;
        }
        (void)!snp_buf_addf(out, "- %s: %s\n", snp_json_str(reason, "word", ""),
                            snp_json_str(reason, "text", ""));
    }
}

/* Places for a reviewer to look at; blocking findings are among the reasons. */
static void findings_write(const json_t *findings, struct snp_buf *out)
{
    bool is_first = true;

    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *row = json_array_get(findings, i);

        if (!snp_json_bool(row, "blocks", true)) {
            (void)!snp_buf_addf(out, "%s- %s:%lld %s\n", is_first ? "\nLook at:\n\n" : "",
                                snp_json_str(row, "path", ""),
                                (long long)snp_json_int(row, "line", 0),
                                snp_json_str(row, "why", ""));
            is_first = false;
        }
    }
}

static void samples_write(const json_t *samples, struct snp_buf *out)
{
    for (size_t i = 0; i < json_array_size(samples); i++) {
        const json_t *sample = json_array_get(samples, i);
        const char *changes = snp_json_str(json_object_get(sample, "changes"), "expected", "");

        (void)!snp_buf_addf(
            out, "\nSample `%s` %s `%s` has.\n", snp_json_str(sample, "command", ""),
            snp_json_bool(sample, "is_as_expected", false) ? "prints what" : "does not print what",
            snp_json_str(sample, "expect", ""));
        if (changes[0] != '\0') {
            (void)!snp_buf_addf(out, "\n```diff\n%s\n```\n", changes);
        }
    }
}

static void new_tests_write(const json_t *run, struct snp_buf *out)
{
    const json_t *tests = json_object_get(json_object_get(run, "report"), "tests");
    const char *id;
    json_t *outcome;

    if (json_is_object(run)) {
        (void)!snp_buf_addf(out, "\nNew tests, those of the patch (no proof), `%s`:%s\n\n",
                            snp_json_str(run, "command", ""),
                            json_object_size(tests) == 0 ? " no results" : "");
    }
    json_object_foreach((json_t *)(uintptr_t)tests, id, outcome)
    {
        (void)!snp_buf_addf(out, "- %s: %s\n", id, json_string_value(outcome));
    }
}

char *snp_evidence_summary(const json_t *evidence)
{
    struct snp_buf out = SNP_BUF(TEXT_MAX);
    const json_t *runs = json_object_get(evidence, "runs");
    const json_t *risk = json_object_get(evidence, "risk");
    const json_t *reasons = json_object_get(evidence, "reasons");

    (void)!snp_buf_addf(
        &out, "# %s\n\nSession %s, patch %.16s.\n", snp_json_str(evidence, "verdict", ""),
        snp_json_str(evidence, "session", ""), snp_json_str(evidence, "sha256", ""));
    (void)!snp_buf_adds(&out, json_array_size(reasons) == 0 ? "" : "\n");
    reasons_write(reasons, false, &out);
    findings_write(json_object_get(evidence, "findings"), &out);
    if (json_is_object(risk)) {
        (void)!snp_buf_addf(&out, "\nRisk: %s (%s), by `%s` of `%s`: %s Automation: %s.\n",
                            snp_json_str(risk, "level", ""), snp_json_str(risk, "class", ""),
                            snp_json_str(risk, "rule", "no rule"), snp_json_str(risk, "path", ""),
                            snp_json_str(risk, "strategy", ""),
                            snp_json_str(risk, "automation", ""));
    }
    (void)!snp_buf_adds(&out, "\n| command | project | status | exit code | tests |\n"
                              "|---|---|---|---|---|\n");
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);

        (void)!snp_buf_addf(
            &out, "| `%s` | %s | %s | %lld | %zu |\n", snp_json_str(run, "command", ""),
            snp_json_bool(run, "patched", false) ? "patched" : "clean",
            snp_json_str(run, "status", ""), (long long)snp_json_int(run, "exit_code", -1),
            json_object_size(json_object_get(json_object_get(run, "report"), "tests")));
    }
    snp_standards_write(json_object_get(evidence, "standards"), &out);
    samples_write(json_object_get(evidence, "samples"), &out);
    new_tests_write(json_object_get(evidence, "new_tests"), &out);
    for (size_t m = 0; m < SNP_MEASURES; m++) {
        const json_t *value =
            json_object_get(json_object_get(evidence, "measures"), snp_measures[m].name);
        char text[SNP_MEASURE_TEXT];

        snp_measure_text(&snp_measures[m], value, text);
        if (json_is_boolean(value) || json_is_number(value)) {
            (void)!snp_buf_addf(&out, "%s%s: %s\n", m == 0 ? "\nMeasures:\n\n- " : "- ",
                                snp_measures[m].name, text);
        }
    }
    return snp_need(snp_buf_cstr(&out));
}

static int file_write(const char *folder, const char *name, const char *text, struct snp_err *err)
{
    snp_autofree char *path = snp_need_format("%s/%s", folder, name);

    return snp_file_write_atomic(path, text, strlen(text), 0600, err);
}

int snp_evidence_keep(const struct snp_patch *of,
                      struct snp_applied *applied,
                      json_t *evidence,
                      struct snp_err *err)
{
    snp_autofree char *state = NULL;
    snp_autofree char *folder = NULL;
    snp_autofree char *text = NULL;
    snp_autofree char *summary = snp_evidence_summary(evidence);
    snp_autojson json_t *patch = snp_need(snp_patch_to_json(of, true));
    snp_autofree char *patch_text = snp_need(json_dumps(patch, JSON_INDENT(1)));
    char hash[SNP_PATCH_HASH_LEN + 1] = "";

    SNP_TRY(snp_state_dir(&state, err));
    folder = snp_need_format("%s/evidence/%.16s", state, of->hash);
    (void)json_object_set_new(evidence, "folder", snp_cli_path_json(folder));
    text = snp_need(json_dumps(evidence, JSON_INDENT(1)));
    SNP_TRY(snp_mkdir_p(folder, 0700, err));
    SNP_TRY(file_write(folder, "patch.json", patch_text, err));
    SNP_TRY(file_write(folder, "evidence.json", text, err));
    SNP_TRY(file_write(folder, "summary.md", summary, err));
    (void)!snp_patch_hash(text, strlen(text), hash);
    (void)json_object_set_new(evidence, "evidence_sha256", json_string(hash)); /* not in the file */
    return snp_applied_judge(
        applied,
        json_pack("{s:s, s:s, s:s, s:O, s:O?, s:O, s:O?}", "sha256", of->hash, "verdict",
                  snp_json_str(evidence, "verdict", ""), "evidence_sha256", hash, "reasons",
                  json_object_get(evidence, "reasons"), "risk", json_object_get(evidence, "risk"),
                  "measures", json_object_get(evidence, "measures"), "run",
                  json_object_get(evidence, "run")),
        err);
}

char *snp_evidence_feedback(const json_t *evidence)
{
    struct snp_buf out = SNP_BUF(FEEDBACK_MAX);
    const json_t *runs = json_object_get(evidence, "runs");

    (void)!snp_buf_addf(&out, "Verdict on your changes: %s.\n",
                        snp_json_str(evidence, "verdict", ""));
    reasons_write(json_object_get(evidence, "reasons"), true, &out);
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);

        if (snp_json_bool(run, "patched", false) && snp_json_int(run, "exit_code", -1) != 0 &&
            strcmp(snp_json_str(run, "kind", ""), "hidden") != 0) {
            (void)!snp_buf_addf(&out, "\nOutput of `%s` (untrusted data):\n%s\n",
                                snp_json_str(run, "command", ""), snp_json_str(run, "output", ""));
        }
    }
    samples_write(json_object_get(evidence, "samples"), &out);
    return snp_need(snp_buf_cstr(&out));
}
