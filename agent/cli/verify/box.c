/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/box.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "base/cli/need.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/remote.h"
#include "cli/session/files.h"
#include "repair/embedded.h"
#include "wire/exec.h"
#include "wire/session.h"

enum {
    OUTPUT_MAX = SNP_BOX_OUTPUT_MAX,
    REPORT_MAX = 16 << 20,
    NONCE = SNP_BOX_NONCE,
};

void snp_box_close(struct snp_patch_session *box)
{
    struct snp_err ignored;
    snp_autoreply struct snp_reply reply = {0};

    if (box->is_open) {
        (void)!snp_remote_call(box->spec->cli,
                               SNP_WRITE(snp_sessions_destroy_request, .session = box->name),
                               &reply, &ignored);
    }
}

struct output_sink {
    struct snp_patch_session *box;
    struct snp_buf *out; /* the end of both streams */
};

static int on_output(
    void *ctx, const json_t *head, const char *raw, size_t raw_len, struct snp_err *err)
{
    const struct output_sink *taking = ctx;
    struct snp_buf *out = taking->out;
    struct snp_patch_session *box = taking->box;
    const char *event = snp_json_str(head, "event", "");

    (void)err;
    if (box->printed != NULL && strcmp(event, "stdout") == 0) {
        box->is_cut |= snp_buf_add(box->printed, raw, raw_len) < 0;
    }
    if (strcmp(event, "stdout") == 0 || strcmp(event, "stderr") == 0) {
        if (out->len + raw_len > OUTPUT_MAX) {
            snp_buf_clear(out);
        }
        (void)!snp_buf_add(out, raw, raw_len);
    }
    return 0;
}

/* Before a cell or during it. */
static bool is_interrupted(const struct snp_patch_session *box)
{
    const struct snp_client *client = box->spec->cli->client;

    return client != NULL && snp_client_interrupted(client) != 0;
}

int snp_box_exec(struct snp_patch_session *box,
                 json_t *argv,
                 const char *code,
                 struct snp_buf *out,
                 json_t **ret,
                 struct snp_err *err)
{
    const struct snp_session_changes *changes = box->spec->changes;
    size_t n = code == NULL ? 0 : strlen(code);
    snp_autojson json_t *head =
        SNP_WRITE(snp_exec_request, SNP_EXEC_DEFAULTS, .session = box->name,
                  .kind = argv == NULL ? "python" : "command", .code_len = n, .argv = argv,
                  .limits = box->spec->limits, .defaults = box->spec->defaults,
                  .tier = changes->tier, .template = changes->template, .project = changes->project,
                  .rootfs = changes->rootfs, .durability = "process", .checkpoint = "off",
                  .temporary = true); /* destroyed with this process at the latest */
    snp_autoreply struct snp_reply reply = {0};
    struct output_sink taking = {.box = box, .out = out};
    const struct snp_call call = {
        .head = head, .raw = code, .raw_len = n, .event = on_output, .ctx = &taking};
    int r = 0;

    if (head == NULL) {
        return snp_fail(err, SNP_E_INVALID, "the project's path is not UTF-8");
    }
    if (!is_interrupted(box)) {
        r = snp_remote_send(box->spec->cli, &call, &reply, err);
    }
    if (is_interrupted(box)) {
        return snp_fail(err, SNP_E_DENIED, "interrupted; there is no verdict");
    }
    SNP_TRY(r);
    *ret = json_incref(reply.head);
    return 0;
}

int snp_box_python(struct snp_patch_session *box, const char *code, struct snp_err *err)
{
    snp_autobuf struct snp_buf out = SNP_BUF(OUTPUT_MAX);
    snp_autojson json_t *result = NULL;
    const char *status;
    const char *message;

    SNP_TRY(snp_box_exec(box, NULL, code, &out, &result, err));
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

static int put(const struct snp_patch_session *box, int fd, const char *name, struct snp_err *err)
{
    snp_autofree char *path = snp_need_format("/tmp/%.*s/%s", NONCE, box->nonce, name);
    const struct snp_remote_file to = {
        .cli = box->spec->cli, .session = box->name, .path = path, .mode = 0644};
    uint64_t size;

    return lseek(fd, 0, SEEK_SET) < 0 ? snp_fail_sys(err, errno, "read the patch")
                                      : snp_file_put(&to, fd, &size, err);
}

int snp_box_put(const struct snp_patch_session *box,
                const char *text,
                size_t n,
                const char *name,
                struct snp_err *err)
{
    snp_autoclose int fd = memfd_create("snipara-verify", MFD_CLOEXEC);

    if (fd < 0 || snp_write_all(fd, text, n) < 0) {
        return snp_fail_sys(err, errno, "keep a file in memory");
    }
    return put(box, fd, name, err);
}

int snp_box_get(const struct snp_patch_session *box,
                const char *name,
                json_t **ret,
                struct snp_err *err)
{
    snp_autofree char *path = snp_need_format("/tmp/%.*s/%s", NONCE, box->nonce, name);
    struct snp_remote_file from = {.cli = box->spec->cli, .session = box->name, .path = path};
    snp_autoclose int fd = memfd_create("snipara-verify", MFD_CLOEXEC);
    snp_autofree char *text = NULL;
    struct snp_moved moved = {0};
    struct snp_err why;
    ssize_t n;

    *ret = NULL;
    if (fd < 0) {
        return snp_fail_sys(err, errno, "keep a file in memory");
    }
    if (snp_file_get(&from, fd, &moved, &why) < 0 || moved.bytes > REPORT_MAX ||
        lseek(fd, 0, SEEK_SET) < 0) {
        return 0;
    }
    text = snp_need(malloc((size_t)moved.bytes + 1));
    n = snp_read_all(fd, text, (size_t)moved.bytes);
    if (n > 0 && snp_json_parse(text, (size_t)n, ret, &why) < 0) {
        *ret = NULL;
    }
    return 0;
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
    return put(ret, spec->patch_fd, "patch.json", err);
}
