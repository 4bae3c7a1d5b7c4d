/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/box.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/str.h"
#include "cli/sandbox/sandbox.h"
#include "repair/embedded.h"

enum {
    OUTPUT_MAX = SNP_BOX_OUTPUT_MAX,
    REPORT_MAX = 16 << 20,
    NONCE = SNP_BOX_NONCE,
};

void snp_box_close(struct snp_patch_session *box)
{
    struct snp_err ignored;

    if (box->is_open) {
        (void)!snp_sandbox_end(box->spec->cli, snipara_destroy(snp_sandbox(), box->name), NULL,
                               &ignored);
    }
}

struct output_sink {
    struct snp_patch_session *box;
    struct snp_buf *out; /* the end of both streams */
};

static void on_output(void *ctx, enum snipara_stream stream, const char *bytes, size_t len)
{
    const struct output_sink *taking = ctx;
    struct snp_buf *out = taking->out;
    struct snp_patch_session *box = taking->box;

    if (box->printed != NULL && stream == SNIPARA_STDOUT) {
        box->is_cut |= snp_buf_add(box->printed, bytes, len) < 0;
    }
    if (out->len + len > OUTPUT_MAX) {
        snp_buf_clear(out);
    }
    (void)!snp_buf_add(out, bytes, len);
}

/* The settings of a box; NULL = a text is not UTF-8. The caller frees. */
static char *request_make(const struct snp_box_spec *spec)
{
    const struct snp_session_changes *changes = spec->changes;
    snp_autojson json_t *request =
        json_pack("{s:O?, s:O?, s:s?, s:s?, s:s?, s:s?, s:s, s:b}", "limits", spec->limits,
                  "defaults", spec->defaults, "tier", changes->tier, "template", changes->template,
                  "project", changes->project, "rootfs", changes->rootfs, "checkpoint", "off",
                  "temporary", true); /* destroyed with this process at the latest */

    return request == NULL ? NULL : snp_need(snp_json_text(request));
}

/* Run a cell: a shell line, or Python. */
static int run(struct snp_patch_session *box,
               const char *code,
               bool is_shell,
               struct snp_buf *out,
               json_t **ret,
               struct snp_err *err)
{
    struct snp_cli *cli = box->spec->cli;
    snp_autofree char *request = request_make(box->spec);
    struct output_sink taking = {.box = box, .out = out};
    snp_autojson json_t *result = NULL;
    int r = 0;

    if (request == NULL) {
        return snp_fail(err, SNP_E_INVALID, "the project's path is not UTF-8");
    }
    if (snp_sandbox_interrupted(cli) == 0) {
        r = snp_sandbox_run(cli,
                            SNIPARA_RUN(.session = box->name, .code = code, .shell = is_shell,
                                        .quick = true, .output = on_output, .ctx = &taking,
                                        .request = request),
                            &result, err);
    }
    if (snp_sandbox_interrupted(cli) != 0) {
        return snp_fail(err, SNP_E_DENIED, "interrupted; there is no verdict");
    }
    SNP_TRY(r);
    *ret = SNP_TAKE_PTR(result);
    return 0;
}

int snp_box_exec(struct snp_patch_session *box,
                 const char *line,
                 struct snp_buf *out,
                 json_t **ret,
                 struct snp_err *err)
{
    return snp_utf8_valid(line, strlen(line))
               ? run(box, line, true, out, ret, err)
               : snp_fail(err, SNP_E_INVALID, "a command is not UTF-8");
}

int snp_box_python(struct snp_patch_session *box, const char *code, struct snp_err *err)
{
    snp_autobuf struct snp_buf out = SNP_BUF(OUTPUT_MAX);
    snp_autojson json_t *result = NULL;
    const char *status;
    const char *message;

    SNP_TRY(run(box, code, false, &out, &result, err));
    status = snp_json_str(result, "status", "?");
    message = snp_json_str(json_object_get(result, "error"), "message", "");
    if (strcmp(status, "timeout") == 0) {
        return snp_fail(err, SNP_E_LIMIT,
                        "reading the project took longer than the time limit of its session; "
                        "raise it (check: --timeout, verify: --test-timeout)");
    }
    return strcmp(status, "ok") == 0
               ? 0
               : snp_fail(err, SNP_E_PEER, "a session could not read the project: %.200s",
                          message[0] == '\0' ? status : message);
}

/* The path of a file in the folder. The caller frees. */
static char *path_of(const struct snp_patch_session *box, const char *name)
{
    return snp_need_format("/tmp/%.*s/%s", NONCE, box->nonce, name);
}

int snp_box_put(const struct snp_patch_session *box,
                const char *text,
                size_t n,
                const char *name,
                struct snp_err *err)
{
    snp_autofree char *path = path_of(box, name);

    return snp_sandbox_end(box->spec->cli, snipara_put(snp_sandbox(), box->name, path, text, n, 0),
                           NULL, err);
}

json_t *snp_box_get(const struct snp_patch_session *box, const char *name)
{
    snp_autofree char *path = path_of(box, name);
    snp_autocall struct snipara_call *call =
        snipara_get(snp_sandbox(), box->name, path, REPORT_MAX);
    struct snp_err ignored;
    json_t *found = NULL;
    const char *text;
    size_t n = 0;

    if (snp_sandbox_wait(box->spec->cli, call, &ignored) == 0) {
        text = snipara_data(call, &n);
        if (n > 0 && snp_json_parse(text, n, &found, &ignored) < 0) {
            return NULL;
        }
    }
    return found;
}

int snp_box_apply(struct snp_patch_session *box,
                  const struct snp_box_part *part,
                  struct snp_err *err)
{
    static const char format[] =
        "how = json.load(open('/tmp/%s/how.json'))\n"
        "apply('/tmp/%s/patch.json', how['hunk'], how['unexecuted'] or [], how['has_tests'])";
    snp_autojson json_t *how =
        snp_need(json_pack("{s:O?, s:O?, s:b}", "hunk", part->hunk, "unexecuted", part->unexecuted,
                           "has_tests", part->has_tests));
    snp_autofree char *text = snp_need(snp_json_text(how));
    snp_autofree char *code = snp_need_format(format, box->nonce, box->nonce);

    SNP_TRY(snp_box_put(box, text, strlen(text), "how.json", err));
    return snp_box_python(box, code, err);
}

int snp_box_begin(const struct snp_box_spec *spec,
                  const char *code,
                  struct snp_patch_session *ret,
                  struct snp_err *err)
{
    snp_autofree char *first = NULL;

    *ret = (struct snp_patch_session){.spec = spec};
    if (snp_random_id(ret->nonce) < 0) {
        return snp_fail_sys(err, errno, "random name");
    }
    (void)snprintf(ret->name, sizeof(ret->name), "verify-%.16s", ret->nonce + NONCE);
    ret->nonce[NONCE] = '\0';
    first = snp_need_format("%s\n\nimport os\nos.makedirs('/tmp/%s')\n", code, ret->nonce);
    ret->is_open = true;
    return snp_box_python(ret, first, err);
}

int snp_box_open(const struct snp_box_spec *spec,
                 struct snp_patch_session *ret,
                 struct snp_err *err)
{
    snp_autofree char *plugin = NULL;
    snp_autofree char *reporter = NULL;

    SNP_TRY(snp_box_begin(spec, snp_judge_py, ret, err));
    plugin = snp_need_format("snp_%s.py", ret->nonce);
    SNP_TRY(snp_box_put(ret, snp_report_py, snp_report_py_len, plugin, err));
    reporter = snp_need_format("snp_%s.mjs", ret->nonce);
    SNP_TRY(snp_box_put(ret, snp_report_mjs, snp_report_mjs_len, reporter, err));
    return snp_box_put(ret, spec->patch, strlen(spec->patch), "patch.json", err);
}
