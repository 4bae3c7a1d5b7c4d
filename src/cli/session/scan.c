/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/need.h"
#include "repair/embedded.h"
#include "repair/place.h"
#include "repair/verdict.h"
#include "run/tool/redact.h"

/* Call a function of risk.py with the folder of the box. */
static int risk_call(const struct snp_box *box, const char *function, struct snp_err *err)
{
    const struct {
        const char *name;
        const char *text;
        size_t n;
    } files[] = {
        {"judge.py",   snp_judge_py,   snp_judge_py_len  },
        {"risk.py",    snp_risk_py,    snp_risk_py_len   },
        {"risk.rules", snp_risk_rules, snp_risk_rules_len},
        {"script.js",  snp_script_js,  snp_script_js_len }
    };
    snp_autofree char *code =
        snp_need_format("sys.path.insert(0, '/tmp/%s')\nimport risk\nrisk.%s('/tmp/%s')",
                        box->nonce, function, box->nonce);

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
    snp_autobox struct snp_box box = {0};
    const json_t *rows;

    SNP_TRY(snp_box_open(spec, &box, err));
    SNP_TRY(risk_call(&box, "look", err));
    SNP_TRY(snp_box_get(&box, "look.json", look, err));
    if (*look == NULL) {
        return snp_fail(err, SNP_E_PEER,
                        "the session that reads the patch gave no valid answer");
    }
    rows = json_object_get(*look, "findings");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        snp_verdict_add(reasons, snp_verdict_unproven, "%.200s:%lld %.200s",
                        snp_json_str(row, "path", "?"), (long long)snp_json_int(row, "line", 0),
                        snp_json_str(row, "why", "?"));
    }
    rows = json_object_get(*look, "tests");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        snp_verdict_add(
            reasons, snp_verdict_passed,
            "%.200s is a test or configures tests: it was left as the project has it",
            json_string_value(json_array_get(rows, i)));
    }
    rows = json_object_get(json_object_get(*look, "risk"), "reasons");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        snp_verdict_add(reasons, snp_json_str(row, "word", snp_verdict_unproven), "%.300s",
                        snp_json_str(row, "text", "?"));
    }
    return 0;
}

int snp_scan_lint(const struct snp_box_spec *spec,
                  json_t **checks,
                  json_t *reasons,
                  struct snp_err *err)
{
    snp_autobox struct snp_box box = {0};
    const char *tool;
    json_t *counts;

    SNP_TRY(snp_box_open(spec, &box, err));
    SNP_TRY(risk_call(&box, "check", err));
    SNP_TRY(snp_box_get(&box, "checks.json", checks, err));
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

/* A test by its name: it is put back, so what was changed in it does not count. */
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
        for (size_t n = 0;
             n < json_array_size(base) && !is_put_back(look, patch->files[i].path); n++) {
            if (snp_verdict_has_tests_of(json_array_get(base, n), patch->files[i].path)) {
                snp_verdict_add(reasons, snp_verdict_unproven,
                                "%.200s has tests of its own, and they were changed with it",
                                patch->files[i].path);
                break;
            }
        }
    }
}

/* How many secrets a file has; those that it had are not new. */
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
                            "%.200s is where the hidden files are put", patch->files[i].path);
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
            snp_verdict_add(reasons, snp_verdict_unproven,
                            "%.200s has what looks like a secret", patch->files[i].path);
            n++;
        }
    }
    return n;
}
