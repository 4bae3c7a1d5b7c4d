/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/check/ground.h"

#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/str.h"
#include "context/parse.h"
#include "repair/embedded.h"
#include "repair/verdict.h"

enum {
    LINE_MAX = 4096,
    ROUNDS_MAX = 4000,
    TREES_MAX = 64 << 20, /* bytes at a time */
};
#define NO_PARSER UINT32_MAX

#define FILE_ROW(name) {#name ".py", snp_##name##_py, snp_##name##_py_len},

/*
 * Syntax trees, requested there and parsed here by a program that can do nothing else. Each has its
 * size before it: 0 = the text cannot be parsed, NO_PARSER = this build has no grammars.
 */
static int trees_put(const struct snp_patch_session *box,
                     struct snp_parse *parse,
                     const json_t *texts,
                     struct snp_err *err)
{
    snp_autobuf struct snp_buf out = SNP_BUF(TREES_MAX);

    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *row = json_array_get(texts, i);
        const json_t *text = json_object_get(row, "text");
        size_t at = out.len;
        uint32_t size = 0;

        if (snp_buf_add(&out, &size, sizeof(size)) < 0) {
            return snp_fail(err, SNP_E_LIMIT, "the syntax trees of the files are too large");
        }
        if (out.len < TREES_MAX - SNP_PARSE_TREE_MAX &&
            snp_parse_tree(parse, snp_language_of(snp_json_str(row, "path", "")),
                           json_is_string(text) ? json_string_value(text) : "",
                           json_string_length(text), &out)) {
            size = (uint32_t)(out.len - at - sizeof(size));
        } else {
            out.len = at + sizeof(size);
            size = parse->is_missing ? NO_PARSER : 0;
        }
        memcpy(snp_buf_bytes(&out) + at, &size, sizeof(size));
    }
    return snp_box_put(box, snp_buf_bytes(&out), out.len, "trees", err);
}

int snp_ground_read(struct snp_patch_session *box, json_t *paths, json_t **ret, struct snp_err *err)
{
    const struct {
        const char *name;
        const char *text;
        size_t n;
    } files[] = {SNP_GROUND_FILES(FILE_ROW)};
    snp_autojson json_t *asked = snp_need(json_pack("{s:O}", "paths", paths));
    snp_autojson json_t *answer = NULL;
    snp_cleanup(snp_parse_done) struct snp_parse parse = SNP_PARSE_NEW;
    snp_autofree char *text = snp_need(snp_json_text(asked));
    snp_autofree char *code =
        snp_need_format("import sys\nsys.path.insert(0, '/tmp/%s')\nimport ground\n"
                        "ground.answer('/workspace', '/tmp/%s')",
                        box->nonce, box->nonce);

    for (size_t i = 0; i < SNP_ARRAY_LEN(files); i++) {
        SNP_TRY(snp_box_put(box, files[i].text, files[i].n, files[i].name, err));
    }
    SNP_TRY(snp_box_put(box, text, strlen(text), "paths.json", err));
    SNP_TRY(snp_box_python(box, code, err));
    answer = snp_box_get(box, "ground.json");
    snp_parse_find(&parse);
    for (int i = 0; i < ROUNDS_MAX && json_array_size(json_object_get(answer, "texts")) > 0; i++) {
        SNP_TRY(trees_put(box, &parse, json_object_get(answer, "texts"), err));
        json_decref(SNP_TAKE_PTR(answer));
        SNP_TRY(snp_box_python(box, "ground.go_on()", err));
        answer = snp_box_get(box, "ground.json");
    }
    *ret = json_incref(json_object_get(answer, "files"));
    return json_is_array(*ret)
               ? 0
               : snp_fail(err, SNP_E_PEER, "the session that reads the files gave no valid answer");
}

void snp_ground_line(const json_t *finding, struct snp_buf *out)
{
    const json_t *near = json_object_get(finding, "nearest");
    const char *message = snp_json_str(finding, "message", "?");
    const char *name = snp_json_str(near, "name", NULL);
    const char *path = snp_json_str(near, "path", NULL);

    (void)!snp_buf_addf(out, "%lld:%lld: %s: %.500s", (long long)snp_json_int(finding, "line", 0),
                        (long long)snp_json_int(finding, "column", 0),
                        snp_json_str(finding, "severity", "error"), message);
    if (name != NULL && strstr(message, " exists, ") == NULL) {
        (void)!snp_buf_addf(out, ", nearest: %.200s", name);
    }
    if (path != NULL) {
        (void)!snp_buf_addf(out, " (%.500s:%lld)", path, (long long)snp_json_int(near, "line", 0));
    }
}

/* Of a patch --------------------------------------------------------------------------------- */

/* A line number is not compared: a change moves an error to another line. */
static size_t n_of(const json_t *findings, const char *message, size_t n)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        found += snp_streq(snp_json_str(json_array_get(findings, i), "message", ""), message);
    }
    return found;
}

/* Add errors of after that are missing or rarer in before. */
static void news_add(const json_t *before, const json_t *after, json_t *ret, json_t *reasons)
{
    const char *path = snp_json_str(after, "path", "?");
    const json_t *were = json_object_get(before, "findings");
    const json_t *findings = json_object_get(after, "findings");

    for (size_t i = 0; i < json_array_size(findings); i++) {
        json_t *finding = json_array_get(findings, i);
        const char *message = snp_json_str(finding, "message", "?");
        snp_autobuf struct snp_buf line = SNP_BUF(LINE_MAX);

        if (!snp_streq(snp_json_str(finding, "severity", ""), "error") ||
            n_of(findings, message, i) < n_of(were, message, json_array_size(were))) {
            continue;
        }
        snp_ground_line(finding, &line);
        snp_verdict_add(reasons, snp_verdict_unproven, "%.200s:%.500s", path, snp_buf_cstr(&line));
        (void)json_object_set_new(finding, "path", json_string(path));
        (void)json_array_append(ret, finding);
    }
}

static json_t *paths_of(const struct snp_patch *patch)
{
    json_t *paths = snp_need(json_array());

    for (size_t i = 0; i < patch->n; i++) {
        const struct snp_patch_file *file = &patch->files[i];

        if (snp_language_of(file->path) != SNP_LANGUAGE_NONE && file->now.kind == SNP_PATCH_FILE) {
            (void)json_array_append_new(paths, json_string(file->path));
        }
    }
    return paths;
}

int snp_ground_patch(const struct snp_box_spec *spec,
                     const struct snp_patch *patch,
                     json_t **ret,
                     json_t *reasons,
                     struct snp_err *err)
{
    snp_autobox struct snp_patch_session box = {0};
    const struct snp_box_part part = {.has_tests = true};
    snp_autojson json_t *paths = paths_of(patch);
    snp_autojson json_t *before = NULL;
    snp_autojson json_t *after = NULL;
    snp_autojson json_t *news = snp_need(json_array());
    snp_autojson json_t *unread = snp_need(json_array());
    json_int_t known = 0;
    json_int_t unknown = 0;

    if (json_array_size(paths) == 0) {
        return 0;
    }
    SNP_TRY(snp_box_open(spec, &box, err));
    SNP_TRY(snp_ground_read(&box, paths, &before, err));
    SNP_TRY(snp_box_apply(&box, &part, err));
    SNP_TRY(snp_ground_read(&box, paths, &after, err));
    for (size_t i = 0; i < json_array_size(after); i++) {
        json_t *file = json_array_get(after, i);
        const char *error = snp_json_str(file, "error", NULL);

        if (error != NULL) { /* else a file that is too large would hide the names that it uses */
            snp_verdict_add(reasons, snp_verdict_unproven,
                            "%.200s: names and calls were not looked up: %.200s",
                            snp_json_str(file, "path", "?"), error);
            (void)json_array_append(unread, file);
        }
        known += snp_json_int(file, "known", 0);
        unknown += snp_json_int(file, "unknown", 0);
        news_add(json_array_get(before, i), file, news, reasons);
    }
    *ret = snp_need(json_pack("{s:I, s:I, s:O, s:O}", "known", known, "unknown", unknown,
                              "findings", news, "not_checked", unread));
    return 0;
}
