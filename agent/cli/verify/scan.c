/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/fd.h"
#include "base/patch/place.h"
#include "base/str.h"
#include "repair/embedded.h"
#include "repair/verdict.h"
#include "run/tool/redact.h"

enum {
    PRINTED_MAX = 1 << 20, /* bytes of output to compare */
    KEPT = 6 << 10,        /* last bytes of output, both streams */
};

/* Call a function of risk.py with the folder of the box. */
static int risk_call(struct snp_patch_session *box, const char *function, struct snp_err *err)
{
    const struct {
        const char *name;
        const char *text;
        size_t n;
    } files[] = {{"judge.py", snp_judge_py, snp_judge_py_len},
                 {"findings.py", snp_findings_py, snp_findings_py_len},
                 {"risk.py", snp_risk_py, snp_risk_py_len},
                 {"risk.rules", snp_risk_rules, snp_risk_rules_len},
                 {"script.js", snp_script_js, snp_script_js_len}};
    snp_autofree char *code = snp_need_format(
        "import sys\nsys.path.insert(0, '/tmp/%s')\nimport risk\nrisk.%s('/tmp/%s')", box->nonce,
        function, box->nonce);

    for (size_t i = 0; i < SNP_ARRAY_LEN(files); i++) {
        SNP_TRY(snp_box_put(box, files[i].text, files[i].n, files[i].name, err));
    }
    return snp_box_python(box, code, err);
}

int snp_scan_read(const struct snp_box_spec *spec,
                  json_t **look,
                  json_t *reasons,
                  struct snp_err *err)
{
    snp_autobox struct snp_patch_session box = {0};
    const json_t *rows;

    SNP_TRY(snp_box_open(spec, &box, err));
    SNP_TRY(risk_call(&box, "look", err));
    *look = snp_box_get(&box, "look.json");
    if (*look == NULL) {
        return snp_fail(err, SNP_E_PEER, "the session that reads the patch gave no valid answer");
    }
    rows = json_object_get(*look, "findings");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        if (snp_json_bool(row, "blocks", true)) {
            snp_verdict_add(reasons, snp_verdict_unproven, "%.200s:%lld %.200s",
                            snp_json_str(row, "path", "?"), (long long)snp_json_int(row, "line", 0),
                            snp_json_str(row, "why", "?"));
        }
    }
    rows = json_object_get(*look, "tests");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        snp_verdict_add(reasons, snp_verdict_passed,
                        "%.200s is a test or configures tests: the project's version was used",
                        json_string_value(json_array_get(rows, i)));
    }
    rows = json_object_get(json_object_get(*look, "risk"), "reasons");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        snp_verdict_add(reasons, snp_json_str(row, "word", snp_verdict_unproven), "%.300s",
                        snp_json_str(row, "text", "?"));
        if (snp_json_bool(row, "for_user", false)) {
            snp_verdict_for_user(reasons, false);
        }
    }
    return 0;
}

int snp_scan_begin(const struct snp_box_spec *spec, json_t **ret, struct snp_err *err)
{
    snp_autobox struct snp_patch_session box = {0};
    snp_autojson json_t *found = NULL;

    SNP_TRY(snp_box_open(spec, &box, err));
    SNP_TRY(risk_call(&box, "begin", err));
    found = snp_box_get(&box, "begin.json");
    *ret = json_incref(json_object_get(found, "needs_sample"));
    return *ret != NULL ? 0
                        : snp_fail(err, SNP_E_PEER,
                                   "the session that reads the project gave no valid answer");
}

int snp_scan_lint(const struct snp_box_spec *spec,
                  json_t **checks,
                  json_t *reasons,
                  struct snp_err *err)
{
    snp_autobox struct snp_patch_session box = {0};
    const char *tool;
    json_t *counts;

    SNP_TRY(snp_box_open(spec, &box, err));
    SNP_TRY(risk_call(&box, "check", err));
    *checks = snp_box_get(&box, "checks.json");
    json_object_foreach(*checks, tool, counts)
    {
        int64_t before = snp_json_int(counts, "before", -1);
        int64_t after = snp_json_int(counts, "after", -1);

        if (after > before && before >= 0) {
            snp_verdict_add(reasons, snp_verdict_unproven,
                            "%.20s has %lld findings; without the change it has %lld", tool,
                            (long long)after, (long long)before);
        }
    }
    return 0;
}

/* Whether a path is a test by its name: it is restored, so changes in it are ignored. */
static bool is_put_back(const json_t *look, const char *path)
{
    const json_t *rows = json_object_get(look, "tests");

    for (size_t i = 0; i < json_array_size(rows); i++) {
        if (snp_streq(json_string_value(json_array_get(rows, i)), path)) {
            return true;
        }
    }
    return false;
}

void snp_scan_tests(const struct snp_patch *patch,
                    const json_t *look,
                    const json_t *base,
                    json_t *reasons)
{
    for (size_t i = 0; i < patch->n; i++) {
        for (size_t n = 0; n < json_array_size(base) && !is_put_back(look, patch->files[i].path);
             n++) {
            if (snp_verdict_has_tests_of(json_array_get(base, n), patch->files[i].path)) {
                snp_verdict_add(reasons, snp_verdict_unproven,
                                "%.200s contains tests, which were changed with it",
                                patch->files[i].path);
                break;
            }
        }
    }
}

/* The number of secrets in a file, to find new ones. */
static size_t n_secrets(const struct snp_patch_side *side)
{
    snp_autobuf struct snp_buf out = {0};
    size_t n = 0;

    if (side->bytes == NULL) {
        return 0;
    }
    snp_buf_init(&out, side->size * SNP_REDACT_GROWTH + 1);
    return snp_redact(&out, side->bytes, side->size, &n) < 0 ? SIZE_MAX : n;
}

size_t snp_scan_patch(const struct snp_verify *asked,
                      const struct snp_patch *patch,
                      json_t *reasons)
{
    size_t n = 0;
    const char *hidden = asked->hidden_files;
    const char *slash = hidden == NULL ? NULL : strrchr(hidden, '/');

    hidden = slash == NULL ? hidden : slash + 1;
    for (size_t i = 0; i < patch->n && hidden != NULL; i++) {
        if (snp_place_is_below(patch->files[i].path, hidden)) {
            snp_verdict_add(reasons, snp_verdict_unproven,
                            "%.200s is in the folder of the hidden files", patch->files[i].path);
        }
    }

    for (size_t i = 0; i < patch->n && asked->n_scope > 0; i++) {
        bool is_inside = false;

        for (size_t s = 0; s < asked->n_scope; s++) {
            is_inside |= snp_place_is_below(patch->files[i].path, asked->scope[s]);
        }
        if (!is_inside) {
            snp_verdict_add(reasons, snp_verdict_unproven, "%.200s is outside the scope",
                            patch->files[i].path);
        }
    }
    for (size_t i = 0; i < patch->n; i++) {
        if (n_secrets(&patch->files[i].now) > n_secrets(&patch->files[i].base)) {
            snp_verdict_add(reasons, snp_verdict_unproven, "%.200s seems to contain a secret",
                            patch->files[i].path);
            n++;
        }
    }
    return n;
}

/* Samples ------------------------------------------------------------------------------------- */

struct scan_sample {
    const char *command;
    const char *path; /* of the expected output */
    struct snp_box_part part;
};

/* One run of a command. */
struct scan_run {
    struct snp_buf printed; /* standard output alone */
    bool is_cut;
    json_t *result; /* owned: in the form for the evidence */
};

static void side_done(struct scan_run *side)
{
    snp_buf_done(&side->printed);
    json_decref(side->result);
}

static const char *bytes_of(const struct scan_run *side)
{
    return side->printed.len == 0 ? "" : snp_buf_bytes(&side->printed);
}

/* Run a command; part NULL: on the clean project. */
static int side_run(const struct snp_box_spec *spec,
                    const char *command,
                    const struct snp_box_part *part,
                    struct scan_run *side,
                    struct snp_err *err)
{
    snp_autobox struct snp_patch_session box = {0};
    snp_autobuf struct snp_buf out = SNP_BUF(SNP_BOX_OUTPUT_MAX);
    snp_autofree char *line = snp_need_format("export PYTHONDONTWRITEBYTECODE=1\n%s", command);
    snp_autojson json_t *result = NULL;
    char hash[SNP_PATCH_HASH_LEN + 1] = "";
    size_t left_out;

    snp_buf_init(&side->printed, PRINTED_MAX);
    SNP_TRY(snp_box_open(spec, &box, err));
    if (part != NULL) {
        SNP_TRY(snp_box_apply(&box, part, err));
    }
    box.printed = &side->printed;
    SNP_TRY(snp_box_exec(&box, line, &out, &result, err));
    side->is_cut = box.is_cut;
    (void)!snp_patch_hash(bytes_of(side), side->printed.len, hash);
    left_out = out.len > KEPT ? out.len - KEPT : 0;
    side->result = snp_need(json_pack(
        "{s:s, s:O?, s:s, s:o}", "status", snp_json_str(result, "status", "?"), "exit_code",
        json_object_get(result, "exit_code"), "sha256", hash, "output",
        snp_json_bytes(out.len == 0 ? "" : snp_buf_bytes(&out) + left_out, out.len - left_out)));
    return 0;
}

/*
 * Describe the differences for a person, in a session that runs nothing of the patch. *ret: the
 * caller's.
 */
static int changes_find(const struct snp_box_spec *spec,
                        const json_t *texts,
                        json_t **ret,
                        struct snp_err *err)
{
    snp_autobox struct snp_patch_session box = {0};
    snp_autofree char *text = snp_need(snp_json_text(texts));

    SNP_TRY(snp_box_open(spec, &box, err));
    SNP_TRY(snp_box_put(&box, text, strlen(text), "sample.json", err));
    SNP_TRY(risk_call(&box, "sample_compare", err));
    *ret = snp_box_get(&box, "changes.json");
    return 0;
}

static void reasons_add(const struct scan_sample *of,
                        const struct scan_run *now,
                        bool is_as_expected,
                        json_t *reasons)
{
    const char *status = snp_json_str(now->result, "status", "");
    int64_t code = snp_json_int(now->result, "exit_code", -1);

    if (strcmp(status, "ok") != 0 && strcmp(status, "error") != 0) {
        snp_verdict_add(reasons, snp_verdict_failed, "sample `%.140s` was stopped: %.40s",
                        of->command, status);
    } else if (code != 0) {
        snp_verdict_add(reasons, snp_verdict_failed, "sample `%.140s` exited with %lld",
                        of->command, (long long)code);
    }
    if (now->is_cut) {
        snp_verdict_add(reasons, snp_verdict_failed,
                        "sample `%.140s` prints more than 1 MiB, the most that is compared",
                        of->command);
    } else if (!is_as_expected) {
        snp_verdict_add(reasons, snp_verdict_failed,
                        "sample `%.140s` does not print what %.150s has", of->command, of->path);
    }
}

static int sample_run(const struct snp_box_spec *spec,
                      const struct scan_sample *of,
                      json_t **ret,
                      json_t *reasons,
                      struct snp_err *err)
{
    snp_cleanup(side_done) struct scan_run was = {.is_cut = false};
    snp_cleanup(side_done) struct scan_run now = {.is_cut = false};
    snp_autofree char *expected = NULL;
    snp_autojson json_t *texts = NULL;
    json_t *changes = NULL;
    char hash[SNP_PATCH_HASH_LEN + 1] = "";
    bool is_as_expected;
    size_t n;

    if (snp_file_read(of->path, PRINTED_MAX, &expected, &n, err) < 0) {
        err->code = SNP_E_INVALID; /* no session is missing */
        return snp_err_wrap(err, "--expect");
    }
    SNP_TRY(side_run(spec, of->command, NULL, &was, err));
    SNP_TRY(side_run(spec, of->command, &of->part, &now, err));
    is_as_expected =
        !now.is_cut && now.printed.len == n && (n == 0 || memcmp(bytes_of(&now), expected, n) == 0);
    texts = snp_need(json_pack("{s:o, s:o, s:o}", "expected", snp_json_bytes(expected, n), "clean",
                               snp_json_bytes(bytes_of(&was), was.printed.len), "patched",
                               snp_json_bytes(bytes_of(&now), now.printed.len)));
    SNP_TRY(changes_find(spec, texts, &changes, err));
    reasons_add(of, &now, is_as_expected, reasons);
    (void)!snp_patch_hash(expected, n, hash);
    *ret = snp_need(json_pack("{s:s, s:o, s:s, s:O, s:O, s:b, s:o?}", "command", of->command,
                              "expect", snp_cli_path_json(of->path), "expected_sha256", hash,
                              "clean", was.result, "patched", now.result, "is_as_expected",
                              is_as_expected, "changes", changes));
    return 0;
}

int snp_samples_run(const struct snp_verify *asked,
                    const struct snp_box_spec *spec,
                    const json_t *look,
                    json_t *samples,
                    json_t *reasons,
                    struct snp_err *err)
{
    if (asked->n_samples == 0 &&
        snp_json_bool(json_object_get(look, "risk"), "needs_sample", false)) {
        snp_verdict_add(reasons, snp_verdict_unproven,
                        "the change transforms data, and no sample was run: give --sample CMD "
                        "--expect FILE");
        snp_verdict_for_user(reasons, false);
    }
    for (size_t i = 0; i < asked->n_samples; i++) {
        const struct scan_sample of = {asked->samples[i],
                                       asked->expected[i],
                                       {.unexecuted = json_object_get(look, "unexecuted")}};
        json_t *sample = NULL;

        if (asked->progress != NULL) {
            asked->progress(asked->ctx, asked->samples[i]);
        }
        SNP_TRY(sample_run(spec, &of, &sample, reasons, err));
        (void)json_array_append_new(samples, sample);
    }
    return 0;
}
