/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `verify`: what tests prove of what a session changed.
 *
 * Nothing of the session itself is used but its patch. Each command runs in a fresh session of the clean project, into
 * which the patch was written without its tests, and pid 1 starts it. One more session reads the patch and runs
 * nothing of it. The commands run on the clean project, on the patched one, and once for each hunk without that hunk.
 */
#include "cli/session/verify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"
#include "cli/need.h"
#include "cli/remote.h"
#include "cli/session/applied.h"
#include "cli/session/files.h"
#include "cli/show/term.h"
#include "policy/limits.h"
#include "repair/embedded.h"
#include "repair/place.h"
#include "repair/verdict.h"
#include "wire/exec.h"
#include "wire/session.h"

enum {
    HUNKS_MAX = 20,
    OUTPUT_MAX = 256 << 10, /* bytes of a command's output that are taken ... */
    OUTPUT_KEPT = 6 << 10,  /* ... and kept: the last ones */
    REPORT_MAX = 16 << 20,
    NONCE = 16, /* digits */
    MS = 1000,
    TEXT_MAX = 4 << 20,
    FEEDBACK_MAX = 24 << 10,
    NAME_LEN = 64,
};

static const char *const kinds[] = {"test", "regress", "hidden"};

struct verifying {
    const struct snp_verify *asked;
    struct snp_changes changes;
    int patch_fd;   /* owned: the patch with its contents, as JSON */
    json_t *limits; /* owned: of every session */
    json_t *runs; /* owned: on the clean project, and on the patched one, one after the other */
    json_t *base; /* owned: the former alone */
    json_t *reasons;  /* owned */
    json_t *look;     /* owned: what reading the patch found */
    json_t *unproven; /* owned: hunks without which all passes as well */
};

static void verifying_done(struct verifying *v)
{
    snp_changes_done(&v->changes);
    snp_closep(&v->patch_fd);
    json_decref(v->limits);
    json_decref(v->runs);
    json_decref(v->base);
    json_decref(v->reasons);
    json_decref(v->look);
    json_decref(v->unproven);
}

/* A fresh session of the clean project. */
struct box {
    const struct verifying *v;
    char name[NAME_LEN];
    char nonce[33];
    bool is_open;
};

static void box_close(struct box *box)
{
    struct snp_err ignored;
    snp_autoreply struct snp_reply reply = {0};

    if (box->is_open) {
        (void)!snp_remote_call(box->v->asked->cli,
                               SNP_WRITE(snp_sessions_destroy_request, .session = box->name),
                               &reply, &ignored);
    }
}
#define autobox snp_cleanup(box_close)

static int on_output(
    void *ctx, const json_t *head, const char *raw, size_t raw_len, struct snp_err *err)
{
    struct snp_buf *out = ctx;
    const char *event = snp_json_str(head, "event", "");

    (void)err;
    if (strcmp(event, "stdout") == 0 || strcmp(event, "stderr") == 0) {
        if (out->len + raw_len > OUTPUT_MAX) {
            snp_buf_clear(out);
        }
        (void)!snp_buf_add(out, raw, raw_len);
    }
    return 0;
}

/* Before a cell or during it. */
static bool is_interrupted(const struct box *box)
{
    const struct snp_client *client = box->v->asked->cli->client;

    return client != NULL && snp_client_interrupted(client);
}

/* One cell. argv NULL: Python code. *ret: its result, the caller's. */
static int box_exec(const struct box *box,
                    json_t *argv,
                    const char *code,
                    struct snp_buf *out,
                    json_t **ret,
                    struct snp_err *err)
{
    const struct snp_changes *changes = &box->v->changes;
    size_t n = code == NULL ? 0 : strlen(code);
    snp_autojson json_t *head = SNP_WRITE(
        snp_exec_request, SNP_EXEC_DEFAULTS, .session = box->name,
        .kind = argv == NULL ? "python" : "command", .code_len = n, .argv = argv,
        .limits = box->v->limits, .tier = changes->tier, .template = changes->template,
        .project = changes->project, .durability = "process", .checkpoint = "off");
    snp_autoreply struct snp_reply reply = {0};
    const struct snp_call call = {
        .head = head, .raw = code, .raw_len = n, .event = on_output, .ctx = out};
    int r = 0;

    if (head == NULL) {
        return snp_fail(err, SNP_E_INVALID, "the project's path is not UTF-8");
    }
    if (!is_interrupted(box)) {
        r = snp_remote_send(box->v->asked->cli, &call, &reply, err);
    }
    if (is_interrupted(box)) {
        return snp_fail(err, SNP_E_DENIED, "interrupted; there is no verdict");
    }
    SNP_TRY(r);
    *ret = json_incref(reply.head);
    return 0;
}

/* Code of ours, which does not fail. */
static int box_python(const struct box *box, const char *code, struct snp_err *err)
{
    snp_autobuf struct snp_buf out = SNP_BUF(OUTPUT_MAX);
    snp_autojson json_t *result = NULL;

    SNP_TRY(box_exec(box, NULL, code, &out, &result, err));
    if (strcmp(snp_json_str(result, "status", ""), "ok") != 0) {
        return snp_fail(err, SNP_E_PEER,
                        "a session for the verdict could not be prepared: %.200s",
                        snp_json_str(json_object_get(result, "error"), "message",
                                     snp_json_str(result, "status", "?")));
    }
    return 0;
}

static int box_put(const struct box *box, int fd, const char *name, struct snp_err *err)
{
    snp_autofree char *path = snp_need_format("/tmp/%.*s/%s", NONCE, box->nonce, name);
    const struct snp_remote_file to = {
        .cli = box->v->asked->cli, .session = box->name, .path = path, .mode = 0644};
    uint64_t size;

    return lseek(fd, 0, SEEK_SET) < 0 ? snp_fail_sys(err, errno, "read the patch")
                                      : snp_file_put(&to, fd, &size, err);
}

static int text_put(
    const struct box *box, const char *text, size_t n, const char *name, struct snp_err *err)
{
    snp_autoclose int fd = memfd_create("snipara-verify", MFD_CLOEXEC);

    if (fd < 0 || snp_write_all(fd, text, n) < 0) {
        return snp_fail_sys(err, errno, "keep a file in memory");
    }
    return box_put(box, fd, name, err);
}

/* A JSON object that our code left; NULL in *ret: there is none, or it is none. */
static int json_get(const struct box *box, const char *name, json_t **ret, struct snp_err *err)
{
    snp_autofree char *path = snp_need_format("/tmp/%.*s/%s", NONCE, box->nonce, name);
    struct snp_remote_file from = {
        .cli = box->v->asked->cli, .session = box->name, .path = path};
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

/* Open it, with our programs and the patch in a folder of a random name. */
static int box_open(const struct verifying *v, struct box *ret, struct snp_err *err)
{
    snp_autofree char *code = NULL;
    snp_autofree char *plugin = NULL;

    *ret = (struct box){.v = v};
    if (snp_random_id(ret->nonce) < 0) {
        return snp_fail_sys(err, errno, "random name");
    }
    (void)snprintf(ret->name, sizeof(ret->name), "verify-%.16s", ret->nonce + NONCE);
    ret->nonce[NONCE] = '\0';
    code = snp_need_format("%s\n\nos.makedirs('/tmp/%s')\n", snp_judge_py, ret->nonce);
    ret->is_open = true;
    SNP_TRY(box_python(ret, code, err));
    plugin = snp_need_format("snp_%s.py", ret->nonce);
    SNP_TRY(text_put(ret, snp_report_py, snp_report_py_len, plugin, err));
    return box_put(ret, v->patch_fd, "patch.json", err);
}

/* Reading ------------------------------------------------------------------------------------ */

static int patch_keep(struct verifying *v, struct snp_err *err)
{
    snp_autojson json_t *json = snp_need(snp_patch_to_json(&v->changes.patch, true));
    snp_autofree char *text = snp_need(snp_json_text(json));

    v->patch_fd = memfd_create("snipara-patch", MFD_CLOEXEC);
    return v->patch_fd < 0 || snp_write_all(v->patch_fd, text, strlen(text)) < 0
               ? snp_fail_sys(err, errno, "keep the patch in memory")
               : 0;
}

static void progress(const struct verifying *v, const char *text)
{
    if (v->asked->progress != NULL) {
        v->asked->progress(v->asked->ctx, text);
    }
}

static int patch_look(struct verifying *v, struct snp_err *err)
{
    autobox struct box box = {0};
    snp_autofree char *code = NULL;
    const json_t *rows;

    SNP_TRY(box_open(v, &box, err));
    code = snp_need_format("look('/tmp/%s/patch.json', '/tmp/%s/look.json')", box.nonce,
                           box.nonce);
    SNP_TRY(box_python(&box, code, err));
    SNP_TRY(json_get(&box, "look.json", &v->look, err));
    if (v->look == NULL) {
        return snp_fail(err, SNP_E_PEER,
                        "the session that reads the patch gave no valid answer");
    }
    rows = json_object_get(v->look, "findings");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        snp_verdict_add(v->reasons, snp_verdict_unproven, "%.200s:%lld %.200s",
                        snp_json_str(row, "path", "?"), (long long)snp_json_int(row, "line", 0),
                        snp_json_str(row, "why", "?"));
    }
    rows = json_object_get(v->look, "tests");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        snp_verdict_add(
            v->reasons, snp_verdict_passed,
            "%.200s is a test or configures tests: it was left as the project has it",
            json_string_value(json_array_get(rows, i)));
    }
    return 0;
}

/* A test by its name: it is put back, so what was changed in it does not count. */
static bool is_put_back(const struct verifying *v, const char *path)
{
    const json_t *rows = json_object_get(v->look, "tests");

    for (size_t i = 0; i < json_array_size(rows); i++) {
        if (snp_streq(json_string_value(json_array_get(rows, i)), path)) {
            return true;
        }
    }
    return false;
}

/* Tests that stand where no name says so: the runner has reported them from a changed file. */
static void tests_check(const struct verifying *v)
{
    const struct snp_patch *patch = &v->changes.patch;

    for (size_t i = 0; i < patch->n; i++) {
        for (size_t n = 0;
             n < json_array_size(v->base) && !is_put_back(v, patch->files[i].path); n++) {
            if (snp_verdict_has_tests_of(json_array_get(v->base, n), patch->files[i].path)) {
                snp_verdict_add(v->reasons, snp_verdict_unproven,
                                "%.200s has tests of its own, and they were changed with it",
                                patch->files[i].path);
                break;
            }
        }
    }
}

static void scope_check(struct verifying *v)
{
    const struct snp_patch *patch = &v->changes.patch;
    const char *hidden = v->asked->hidden_files;
    const char *slash = hidden == NULL ? NULL : strrchr(hidden, '/');

    hidden = slash == NULL ? hidden : slash + 1;
    for (size_t i = 0; i < patch->n && hidden != NULL; i++) {
        if (snp_place_is_below(patch->files[i].path, hidden)) {
            snp_verdict_add(v->reasons, snp_verdict_unproven,
                            "%.200s is where the hidden files are put", patch->files[i].path);
        }
    }

    for (size_t i = 0; i < patch->n && v->asked->n_scope > 0; i++) {
        bool is_inside = false;

        for (size_t s = 0; s < v->asked->n_scope; s++) {
            is_inside |= snp_place_is_below(patch->files[i].path, v->asked->scope[s]);
        }
        if (!is_inside) {
            snp_verdict_add(v->reasons, snp_verdict_unproven, "%.200s is outside the scope",
                            patch->files[i].path);
        }
    }
}

/* Running ------------------------------------------------------------------------------------ */

/* hunk: what is left out of the patch; null: nothing. has_patch false: the clean project. */
static int box_prepare(const struct box *box,
                       bool has_patch,
                       const json_t *hunk,
                       struct snp_err *err)
{
    snp_autofree char *code = hunk == NULL
                                  ? snp_need_format("apply('/tmp/%s/patch.json')", box->nonce)
                                  : snp_need_format("apply('/tmp/%s/patch.json', "
                                                    "json.load(open('/tmp/%s/hunk.json')))",
                                                    box->nonce, box->nonce);
    snp_autofree char *text = hunk == NULL ? NULL : snp_need(snp_json_text(hunk));
    const char *files = box->v->asked->hidden_files;
    const char *slash = files == NULL ? NULL : strrchr(files, '/');
    struct snp_moved moved = {0};

    if (text != NULL) {
        SNP_TRY(text_put(box, text, strlen(text), "hunk.json", err));
    }
    if (has_patch) {
        SNP_TRY(box_python(box, code, err));
    }
    if (files != NULL) {
        snp_autofree char *path =
            snp_need_format("/workspace/%s", slash == NULL ? files : slash + 1);
        const struct snp_remote_file to = {
            .cli = box->v->asked->cli, .session = box->name, .path = path};

        return snp_tree_put(&to, files, &moved, err);
    }
    return 0;
}

/* The shell line: how the runner finds our half of it. */
static char *line_make(const struct box *box, const char *command, const char *runner)
{
    const char *at = strstr(command, "-m unittest");
    snp_autofree char *own =
        strcmp(runner, "unittest") == 0 && at != NULL
            ? snp_need_format("%.*s/tmp/%s/snp_%s.py%s", (int)(at - command), command,
                              box->nonce, box->nonce, at + strlen("-m unittest"))
            : snp_need_copy(command);

    return snp_need_format("export PYTHONDONTWRITEBYTECODE=1\n%s%s%s%s%s%s",
                           strcmp(runner, "pytest") == 0 ? "export PYTHONPATH=/tmp/" : "",
                           strcmp(runner, "pytest") == 0 ? box->nonce : "",
                           strcmp(runner, "pytest") == 0
                               ? "\nexport PYTEST_ADDOPTS='-p no:cacheprovider -p snp_"
                               : "",
                           strcmp(runner, "pytest") == 0 ? box->nonce : "",
                           strcmp(runner, "pytest") == 0 ? "'\n" : "", own);
}

/* One command, of the table of all. */
struct job {
    enum snp_verify_kind kind;
    const char *command;
    bool has_patch;
    const json_t *hunk; /* that the patch is without; NULL = none */
};

/* The n-th command of all kinds; false: there are no more. */
static bool job_nth(const struct snp_verify *asked, size_t n, struct job *ret)
{
    for (int kind = 0; kind < SNP_VERIFY_KINDS; kind++) {
        if (n < asked->n_commands[kind]) {
            ret->kind = (enum snp_verify_kind)kind;
            ret->command = asked->commands[kind][n];
            return true;
        }
        n -= asked->n_commands[kind];
    }
    return false;
}

static int job_run(const struct verifying *v,
                   const struct job *job,
                   json_t **ret,
                   struct snp_err *err)
{
    autobox struct box box = {0};
    snp_autobuf struct snp_buf out = SNP_BUF(OUTPUT_MAX);
    const char *runner = snp_verdict_runner(job->command);
    snp_autofree char *line = NULL;
    snp_autojson json_t *argv = NULL;
    snp_autojson json_t *result = NULL;
    json_t *report = NULL;
    size_t left_out;

    SNP_TRY(box_open(v, &box, err));
    SNP_TRY(box_prepare(&box, job->has_patch, job->hunk, err));
    line = line_make(&box, job->command, runner);
    argv = json_pack("[s, s, s]", "/bin/sh", "-c", line);
    if (argv == NULL) {
        return snp_fail(err, SNP_E_INVALID, "a test command is not UTF-8");
    }
    SNP_TRY(box_exec(&box, argv, NULL, &out, &result, err));
    SNP_TRY(json_get(&box, "report.json", &report, err));
    if (report == NULL && !job->has_patch) {
        SNP_TRY(json_get(&box, "begun.json", &report, err));
    }
    left_out = out.len > OUTPUT_KEPT ? out.len - OUTPUT_KEPT : 0;
    *ret = snp_need(json_pack("{s:s, s:s, s:s, s:b, s:s, s:O?, s:o?, s:o}", "kind",
                              kinds[job->kind], "command", job->command, "runner", runner,
                              "patched", job->has_patch, "status",
                              snp_json_str(result, "status", "?"), "exit_code",
                              json_object_get(result, "exit_code"), "report", report, "output",
                              snp_json_bytes(out.len == 0 ? "" : snp_buf_bytes(&out) + left_out,
                                             out.len - left_out)));
    return 0;
}

static int commands_run(struct verifying *v, bool has_patch, struct snp_err *err)
{
    struct job job = {.has_patch = has_patch};

    for (size_t n = 0; job_nth(v->asked, n, &job); n++) {
        json_t *run = NULL;

        progress(v, job.kind == SNP_VERIFY_HIDDEN ? "a hidden test" : job.command);
        SNP_TRY(job_run(v, &job, &run, err));
        (void)json_array_append_new(v->runs, run);
        if (has_patch) {
            snp_verdict_compare(json_array_get(v->base, n), run, v->reasons);
        } else {
            (void)json_array_append(v->base, run);
        }
    }
    return 0;
}

/* Whether a command fails without the hunk. */
static int hunk_is_needed(const struct verifying *v,
                          const json_t *hunk,
                          bool *ret,
                          struct snp_err *err)
{
    struct job job = {.has_patch = true, .hunk = hunk};

    *ret = false;
    for (size_t n = 0; !*ret && job_nth(v->asked, n, &job); n++) {
        snp_autojson json_t *run = NULL;
        snp_autojson json_t *reasons = snp_need(json_array());

        SNP_TRY(job_run(v, &job, &run, err));
        snp_verdict_compare(json_array_get(v->base, n), run, reasons);
        *ret = strcmp(snp_verdict_word(reasons), snp_verdict_failed) == 0;
    }
    return 0;
}

static int hunks_run(struct verifying *v, struct snp_err *err)
{
    const json_t *hunks = json_object_get(v->look, "hunks");
    size_t n = json_array_size(hunks);

    if (n > HUNKS_MAX) {
        snp_verdict_add(v->reasons, snp_verdict_unproven,
                        "%zu hunks are more than can be left out one by one (%d)", n,
                        HUNKS_MAX);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        json_t *hunk = json_array_get(hunks, i);
        bool is_needed = false;

        progress(v, "the tests without one hunk");
        SNP_TRY(hunk_is_needed(v, hunk, &is_needed, err));
        if (!is_needed) {
            (void)json_array_append(v->unproven, hunk);
            snp_verdict_add(v->reasons, snp_verdict_unproven,
                            "no test fails without the change at %.200s:%lld",
                            snp_json_str(hunk, "path", "?"),
                            (long long)snp_json_int(hunk, "line", 0));
        }
    }
    return 0;
}

/* Evidence ----------------------------------------------------------------------------------- */

static void reasons_write(const json_t *reasons, struct snp_buf *out)
{
    for (size_t i = 0; i < json_array_size(reasons); i++) {
        const json_t *reason = json_array_get(reasons, i);

        (void)!snp_buf_addf(out, "- %s: %s\n", snp_json_str(reason, "word", ""),
                            snp_json_str(reason, "text", ""));
    }
}

/* For a person. What it quotes stands in code, and is the session's word. */
static char *summary_make(const json_t *evidence)
{
    struct snp_buf out = SNP_BUF(TEXT_MAX);
    const json_t *runs = json_object_get(evidence, "runs");

    (void)!snp_buf_addf(
        &out, "# %s\n\nSession %s, patch %.16s.\n\n", snp_json_str(evidence, "verdict", ""),
        snp_json_str(evidence, "session", ""), snp_json_str(evidence, "sha256", ""));
    reasons_write(json_object_get(evidence, "reasons"), &out);
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
    return snp_need(snp_buf_cstr(&out));
}

static int file_write(const char *folder,
                      const char *name,
                      const char *text,
                      struct snp_err *err)
{
    snp_autofree char *path = snp_need_format("%s/%s", folder, name);

    return snp_file_write_atomic(path, text, strlen(text), 0600, err);
}

/* STATE/evidence/PATCH: patch.json, evidence.json, summary.md; and the verdict on record. */
static int evidence_keep(const struct verifying *v,
                         struct snp_applied *applied,
                         json_t *evidence,
                         struct snp_err *err)
{
    snp_autofree char *state = NULL;
    snp_autofree char *folder = NULL;
    snp_autofree char *text = NULL;
    snp_autofree char *summary = summary_make(evidence);
    snp_autojson json_t *patch = snp_need(snp_patch_to_json(&v->changes.patch, true));
    snp_autofree char *patch_text = snp_need(json_dumps(patch, JSON_INDENT(1)));
    char hash[SNP_PATCH_HASH_LEN + 1] = "";

    SNP_TRY(snp_state_dir(&state, err));
    folder = snp_need_format("%s/evidence/%.16s", state, v->changes.patch.hash);
    (void)json_object_set_new(evidence, "folder", snp_cli_path_json(folder));
    text = snp_need(json_dumps(evidence, JSON_INDENT(1)));
    SNP_TRY(snp_mkdir_p(folder, 0700, err));
    SNP_TRY(file_write(folder, "patch.json", patch_text, err));
    SNP_TRY(file_write(folder, "evidence.json", text, err));
    SNP_TRY(file_write(folder, "summary.md", summary, err));
    (void)!snp_patch_hash(text, strlen(text), hash);
    (void)json_object_set_new(evidence, "evidence_sha256",
                              json_string(hash)); /* not in the file */
    return snp_applied_judge(applied,
                             json_pack("{s:s, s:s, s:s, s:O}", "sha256", v->changes.patch.hash,
                                       "verdict", snp_json_str(evidence, "verdict", ""),
                                       "evidence_sha256", hash, "reasons", v->reasons),
                             err);
}

static int is_unmoved(const struct verifying *v, struct snp_err *err)
{
    snp_autochanges struct snp_changes now = {.project_fd = -1};

    SNP_TRY(snp_changes_read(v->asked->cli, v->changes.session, NULL, 0, &now, err));
    return strcmp(now.patch.hash, v->changes.patch.hash) == 0
               ? 0
               : snp_fail(err, SNP_E_DENIED,
                          "the session or its project changed meanwhile; verify again");
}

static int verify(struct verifying *v, struct snp_err *err)
{
    SNP_TRY(patch_keep(v, err));
    SNP_TRY(patch_look(v, err));
    scope_check(v);
    SNP_TRY(commands_run(v, false, err));
    tests_check(v);
    SNP_TRY(commands_run(v, true, err));
    if (strcmp(snp_verdict_word(v->reasons), snp_verdict_failed) != 0) {
        SNP_TRY(hunks_run(v, err));
    }
    return is_unmoved(v, err);
}

static int limits_set(struct verifying *v, struct snp_err *err)
{
    struct snp_limits limits;

    snp_limits_default(&limits);
    SNP_TRY(snp_limits_from_json(v->changes.limits, &limits, err));
    limits.value[SNP_LIMIT_WALL] = v->asked->wall_ms;
    v->limits = snp_need(snp_limits_to_json(&limits));
    return 0;
}

int snp_verify_run(const struct snp_verify *asked, json_t **ret, struct snp_err *err)
{
    snp_cleanup(verifying_done) struct verifying v = {
        .asked = asked,
        .changes = {.project_fd = -1},
        .patch_fd = -1,
        .runs = snp_need(json_array()),
        .base = snp_need(json_array()),
        .reasons = snp_need(json_array()),
        .unproven = snp_need(json_array()),
    };
    snp_cleanup(snp_applied_freep) struct snp_applied *applied = NULL;
    snp_autojson json_t *evidence = NULL;
    uint64_t began_us = snp_now_us();

    SNP_TRY(snp_changes_read(asked->cli, asked->session, NULL, 0, &v.changes, err));
    SNP_TRY(limits_set(&v, err));
    SNP_TRY(snp_applied_open(&v.changes, &applied, err));
    if (v.changes.patch.n == 0) {
        snp_verdict_add(v.reasons, snp_verdict_failed, "the session changed nothing");
    } else {
        SNP_TRY(verify(&v, err));
    }
    evidence = snp_need(json_pack(
        "{s:s, s:O, s:s, s:s, s:o, s:s, s:s, s:O?, s:O, s:O, s:I, s:s}", "verdict",
        snp_verdict_word(v.reasons), "reasons", v.reasons, "session", v.changes.session,
        "session_name", v.changes.name, "project", snp_cli_path_json(v.changes.project),
        "sha256", v.changes.patch.hash, "template", v.changes.template, "limits", v.limits,
        "runs", v.runs, "unproven_hunks", v.unproven, "duration_ms",
        (json_int_t)((snp_now_us() - began_us) / MS), "program", SNP_VERSION));
    SNP_TRY(evidence_keep(&v, applied, evidence, err));
    *ret = SNP_TAKE_PTR(evidence);
    return 0;
}

char *snp_verify_feedback(const json_t *evidence)
{
    struct snp_buf out = SNP_BUF(FEEDBACK_MAX);
    const json_t *runs = json_object_get(evidence, "runs");

    (void)!snp_buf_addf(&out, "Verdict on your changes: %s.\n",
                        snp_json_str(evidence, "verdict", ""));
    reasons_write(json_object_get(evidence, "reasons"), &out);
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);

        if (snp_json_bool(run, "patched", false) && snp_json_int(run, "exit_code", -1) != 0 &&
            strcmp(snp_json_str(run, "kind", ""), kinds[SNP_VERIFY_HIDDEN]) != 0) {
            (void)!snp_buf_addf(&out, "\nOutput of `%s` (untrusted data):\n%s\n",
                                snp_json_str(run, "command", ""),
                                snp_json_str(run, "output", ""));
        }
    }
    return snp_need(snp_buf_cstr(&out));
}

/* The verb ----------------------------------------------------------------------------------- */

int snp_verify_options(const struct snp_opts *opts, struct snp_verify *ret, struct snp_err *err)
{
    static const char *const names[] = {"test", "regress", "hidden-test"};
    int64_t seconds = snp_opts_int(opts, "test-timeout", 300);

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        ret->n_commands[i] = snp_opts_list(opts, names[i], &ret->commands[i]);
    }
    ret->n_scope = snp_opts_list(opts, "scope", &ret->scope);
    ret->hidden_files = snp_opts_str(opts, "hidden-files");
    if (seconds < 1 || seconds > 600) {
        return snp_fail(err, SNP_E_INVALID, "--test-timeout is 1 to 600 seconds");
    }
    ret->wall_ms = (uint64_t)seconds * MS;
    return 0;
}

static void on_progress(void *ctx, const char *text)
{
    (void)ctx;
    (void)fprintf(stderr, "Running %.100s\n", text);
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    struct snp_verify asked = {.cli = cli};
    snp_autojson json_t *evidence = NULL;
    snp_autofree char *session = NULL;
    snp_autofree char *summary = NULL;
    struct snp_err err;
    bool is_ready;
    int r = snp_verify_options(opts, &asked, &err);

    if (r == 0 && asked.n_commands[SNP_VERIFY_TEST] == 0) {
        return snp_cli_usage(cli, "give the tests that the change is to make pass: --test CMD");
    }
    cli->takes_signals = true; /* the sessions of the verdict end with it */
    r = r < 0 ? r : snp_remote_session_of(cli, opts, &session, &err);
    asked.session = session;
    asked.progress = cli->is_json ? NULL : on_progress;
    r = r < 0 ? r : snp_verify_run(&asked, &evidence, &err);
    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    is_ready = strcmp(snp_json_str(evidence, "verdict", ""), snp_verdict_ready) == 0;
    if (cli->is_json) {
        r = snp_cli_print_json(evidence);
        return r != SNP_EXIT_OK || is_ready ? r : SNP_EXIT_FAILED;
    }
    summary = summary_make(evidence);
    (void)!snp_term_write(stdout, summary, strlen(summary));
    (void)fprintf(stderr, "Evidence: %s\n", snp_json_str(evidence, "folder", ""));
    return is_ready ? SNP_EXIT_OK : SNP_EXIT_FAILED;
}

static const struct snp_opt options[] = {SNP_VERIFY_OPTS, SNP_CLI_OPT_SESSION,
                                         SNP_CLI_OPT_JSON};
static const struct snp_opt_arg args[] = {SNP_CLI_ARG_SESSION};

const struct snp_verb snp_verb_verify = {
    .name = "verify",
    .summary = "see what tests prove of what a session changed in its project",
    .description = "Write the changes without their tests into fresh sessions of the clean "
                   "project, and run the commands there, on "
                   "the clean project, and without each hunk. The verdict is \"ready for human "
                   "review\" only if every test of the "
                   "clean project is reported, those of --test failed before and pass now, "
                   "nothing else broke, no hunk can be left "
                   "out, and nothing in the code could have changed what is reported. pytest "
                   "and unittest report test by test; with "
                   "other commands the most is \"tests passed\".",
    .spec = SNP_SPEC(options, args),
    .examples = "verify work --test 'pytest -q tests/test_parse.py' --regress 'pytest -q'\n"
                "verify work --test 'python3 -m unittest' --scope src",
    .exit_codes =
        "0  ready for human review\n1  anything else\n2  used wrongly; nothing was done",
    .run = run,
};
