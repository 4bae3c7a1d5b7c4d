/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `verify`: test a session's changes.
 *
 * Only the patch of the session is used. Each command runs in a fresh session of the clean project,
 * into which the patch was written without its tests, and pid 1 starts it. One more session reads
 * the patch and runs nothing of it. The commands run on the clean project, on the patched one, and
 * once for each hunk without that hunk.
 */
#include "cli/verify/verify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/session/files.h"
#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/policy/limits.h"
#include "base/str.h"
#include "cli/check/ground.h"
#include "cli/check/standards.h"
#include "cli/verify/applied.h"
#include "cli/verify/box.h"
#include "cli/verify/evidence.h"
#include "cli/verify/scan.h"
#include "main/verbs.h"
#include "repair/embedded.h"
#include "repair/measures.h"
#include "repair/tap.h"
#include "repair/verdict.h"

enum {
    HUNKS_MAX = 20,
    REPEATS = 3, /* runs after the first of a patch that would be ready; one records coverage */
    REPEATS_MAX = 10,
    TOGETHER = 2,       /* the repeat with all files of tests in one process */
    QUICK_US = 2000000, /* for more than REPEATS */
    DAY_S = 24 * 60 * 60,
    TOLD_MAX = 4 << 10,    /* bytes of line numbers in a reason */
    PARTS_MAX = 40,        /* processes of a run, as in alter.py */
    OUTPUT_KEPT = 6 << 10, /* last bytes of a command's output */
    MS = 1000,
};

static const char *const kinds[] = {"test", "regress", "hidden"};

struct verifying {
    const struct snp_verify *asked;
    struct snp_session_changes changes;
    struct snp_box_spec spec; /* owned: limits */
    char *patch;              /* owned: of the spec */
    json_t *runs;             /* owned: first on the clean project, then on the patched one */
    json_t *base;             /* owned: those on the clean project */
    json_t *reasons;          /* owned */
    json_t *look;             /* owned: the result of reading the patch */
    json_t *checks;           /* owned: findings of linters before and after */
    /* owned: names and calls of the patch that do not exist; NULL = not looked up */
    json_t *grounding;
    json_t *standards; /* owned: results of the team's standards; NULL = none */
    json_t *samples;   /* owned: output of sample commands, and the expected output */
    json_t *new_tests; /* owned: a run of the patch's own tests; NULL = none */
    json_t *unproven;  /* owned: hunks without which all tests pass, too */
    json_t *altered;   /* owned: runs of altered tests */
    json_t *uncovered; /* owned: changed lines that no command ran; NULL = not measured */
    size_t n_secrets;  /* files with new secrets */
};

static void verifying_done(struct verifying *v)
{
    snp_changes_done(&v->changes);
    free(v->patch);
    json_decref(v->spec.limits);
    json_decref(v->runs);
    json_decref(v->base);
    json_decref(v->reasons);
    json_decref(v->look);
    json_decref(v->checks);
    json_decref(v->grounding);
    json_decref(v->standards);
    json_decref(v->unproven);
    json_decref(v->samples);
    json_decref(v->new_tests);
    json_decref(v->altered);
    json_decref(v->uncovered);
}

/* Reading ------------------------------------------------------------------------------------ */

static void patch_keep(struct verifying *v)
{
    snp_autojson json_t *json = snp_need(snp_patch_to_json(&v->changes.patch, true));

    v->spec.patch = v->patch = snp_need(snp_json_text(json));
}

static void progress(const struct verifying *v, const char *text)
{
    if (v->asked->progress != NULL) {
        v->asked->progress(v->asked->ctx, text);
    }
}

/* Running ------------------------------------------------------------------------------------ */

/* Put hidden files into the box of a hidden test. */
static int hidden_put(const struct verifying *v,
                      struct snp_patch_session *box,
                      enum snp_verify_kind kind,
                      struct snp_err *err)
{
    const char *files = kind == SNP_VERIFY_HIDDEN ? v->asked->hidden_files : NULL;
    const char *slash = files == NULL ? NULL : strrchr(files, '/');
    struct snp_moved moved = {0};

    if (files != NULL) {
        snp_autofree char *path =
            snp_need_format("/workspace/%s", slash == NULL ? files : slash + 1);
        const struct snp_remote_file to = {
            .cli = v->asked->cli, .session = box->name, .path = path};

        return snp_tree_put(&to, files, &moved, err);
    }
    return 0;
}

/* A command to run, in a table of all commands. */
struct verify_command {
    enum snp_verify_kind kind;
    const char *command;
    bool has_patch;
    bool has_tests;                      /* those of the patch */
    const json_t *hunk;                  /* left out of the patch; NULL = none */
    const struct snp_verdict_form *form; /* altered form of the tests; NULL = unaltered */
    const json_t *passed;                /* tests to alter */
    const json_t *parts;                 /* files with a process each; []: they need one for all */
    unsigned seed;                       /* hash seed of Python; 0 = random */
    int64_t ahead_s;                     /* of its clock */
    const json_t *cover;                 /* lines whose execution is recorded; NULL = none */
};

/*
 * How a runner loads our plugin, with $N as the nonce: text before its command, and the replacement
 * of its words.
 */
struct runner {
    const char *name;
    const char *before;
    const char *words;
    const char *own;
};

static const struct runner runners[] = {
    {"pytest",
     "export PYTHONPATH=/tmp/$N${PYTHONPATH:+:$PYTHONPATH} PYTEST_ADDOPTS=\"-p "
     "no:cacheprovider -p snp_$N\"\n",
     NULL, NULL},
    {"unittest", "", "-m unittest", "/tmp/$N/snp_$N.py"},
    {"node", "", "node --test",
     "node --test-reporter=spec --test-reporter-destination=stdout "
     "--test-reporter=/tmp/$N/snp_$N.mjs --test-reporter-destination=/dev/null --test"},
};

/* The shell line of a command. */
static char *line_make(const struct snp_patch_session *box,
                       const char *command,
                       const char *runner,
                       const struct verify_command *job)
{
    char start[512] = "export PYTHONDONTWRITEBYTECODE=1";

    if (job->seed != 0) {
        (void)snprintf(start + strlen(start), sizeof(start) - strlen(start), " PYTHONHASHSEED=%u",
                       job->seed);
    }
    if (strcmp(runner, "node") == 0) { /* in a form, an evaluated text reaches all */
        (void)snprintf(start + strlen(start), sizeof(start) - strlen(start),
                       " NODE_OPTIONS='--require=/tmp/%s/snp_watch.cjs%s'", box->nonce,
                       job->form == NULL ? "" : " --disallow-code-generation-from-strings");
    }
    if (job->ahead_s != 0) {
        (void)snprintf(start + strlen(start), sizeof(start) - strlen(start),
                       "\n[ ! -e /tmp/%s/snp_clock.so ] || export SNP_CLOCK=%lld "
                       "LD_PRELOAD=/tmp/%s/snp_clock.so${LD_PRELOAD:+:$LD_PRELOAD}",
                       box->nonce, (long long)job->ahead_s, box->nonce);
    }
    if (job->cover != NULL) {
        (void)snprintf(start + strlen(start), sizeof(start) - strlen(start),
                       " PYTHONPATH=/tmp/%s${PYTHONPATH:+:$PYTHONPATH} NODE_V8_COVERAGE=/tmp/%s",
                       box->nonce, box->nonce);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(runners); i++) {
        const struct runner *one = &runners[i];
        const char *at = one->words == NULL ? NULL : strstr(command, one->words);

        if (strcmp(runner, one->name) == 0 && (one->words == NULL || at != NULL)) {
            size_t head = at == NULL ? strlen(command) : (size_t)(at - command);

            return snp_need_format("%s\nN=%s\n%s%.*s%s%s", start, box->nonce, one->before,
                                   (int)head, command, at == NULL ? "" : one->own,
                                   at == NULL ? "" : at + strlen(one->words));
        }
    }
    return snp_need_format("%s\n%s", start, command);
}

/* Write the tests in the requested form. *ret: alter.py's answer, the caller's. */
static int tests_alter(struct snp_patch_session *box,
                       const struct verify_command *job,
                       json_t **ret,
                       struct snp_err *err)
{
    snp_autojson json_t *how = snp_need(
        json_pack("{s:s, s:s, s:s, s:O, s:b}", "form", job->form->name, "runner",
                  snp_verdict_runner(job->command), "command", job->command, "tests", job->passed,
                  "is_together", json_is_array(job->parts) && json_array_size(job->parts) == 0));
    snp_autofree char *text = snp_need(snp_json_text(how));
    snp_autofree char *code = snp_need_format(
        "exec(open('/tmp/%s/alter.py').read())\nalter('/tmp/%s', is_test)", box->nonce, box->nonce);

    SNP_TRY(snp_box_put(box, text, strlen(text), "alter.json", err));
    SNP_TRY(snp_box_put(box, snp_alter_py, snp_alter_py_len, "alter.py", err));
    SNP_TRY(snp_box_put(box, snp_alter_js, snp_alter_js_len, "alter.js", err));
    SNP_TRY(snp_box_python(box, code, err));
    *ret = snp_box_get(box, "altered.json");
    return json_is_array(json_object_get(*ret, "tests"))
               ? 0
               : snp_fail(err, SNP_E_PEER, "the session that alters tests gave no valid answer");
}

/* Restore the project's names of renamed tests in a report. */
static void names_restore(json_t *report, const json_t *names)
{
    json_t *tests = json_object_get(report, "tests");
    const char *now;
    json_t *was;

    json_object_foreach((json_t *)(uintptr_t)names, now, was)
    {
        json_t *outcome = json_object_get(tests, now);

        if (outcome != NULL && strcmp(now, json_string_value(was)) != 0) {
            (void)json_object_set(tests, json_string_value(was), outcome);
            (void)json_object_del(tests, now);
        }
    }
}

/* The n-th command of all kinds; false: there are no more. */
static bool job_nth(const struct snp_verify *asked, size_t n, struct verify_command *ret)
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

/* Before a command: install the recorder of executed lines. */
static int cover_begin(struct snp_patch_session *box, const json_t *lines, struct snp_err *err)
{
    snp_autofree char *text = snp_need(snp_json_text(lines));

    SNP_TRY(snp_box_put(box, snp_cover_py, snp_cover_py_len, "sitecustomize.py", err));
    return snp_box_put(box, text, strlen(text), "cover.json", err);
}

/* After it: the lines that were not executed, the caller's. */
static int cover_end(struct snp_patch_session *box, json_t **ret, struct snp_err *err)
{
    snp_autofree char *code = snp_need_format("%s\nuncovered('/tmp/%s')", snp_cover_py, box->nonce);

    SNP_TRY(snp_box_python(box, code, err));
    *ret = snp_box_get(box, "uncovered.json");
    return *ret != NULL ? 0
                        : snp_fail(err, SNP_E_PEER,
                                   "the session that records executed lines gave no valid answer");
}

/* Have report.py run each file of tests in a process. */
static int parts_put(struct snp_patch_session *box, const json_t *parts, struct snp_err *err)
{
    snp_autojson json_t *form =
        snp_need(json_pack("{s:s, s:{}, s:O}", "form", "", "texts", "parts", parts));
    snp_autofree char *text = snp_need(snp_json_text(form));

    return snp_box_put(box, text, strlen(text), "snp_form.json", err);
}

/* A run in the form of verdict.h, without its report. New reference. */
static json_t *run_make(const struct verify_command *job,
                        const char *runner,
                        const json_t *result,
                        const struct snp_buf *out)
{
    size_t left_out = out->len > OUTPUT_KEPT ? out->len - OUTPUT_KEPT : 0;

    return snp_need(json_pack(
        "{s:s, s:s, s:s, s:s?, s:b, s:O?, s:s, s:O?, s:o}", "kind", kinds[job->kind], "command",
        job->command, "runner", runner, "form", job->form == NULL ? NULL : job->form->name,
        "patched", job->has_patch, "parts", job->parts, "status",
        snp_json_str(result, "status", "?"), "exit_code", json_object_get(result, "exit_code"),
        "output",
        snp_json_bytes(out->len == 0 ? "" : snp_buf_bytes(out) + left_out, out->len - left_out)));
}

/*
 * Open the box of a command and prepare it. *altered: alter.py's answer, the caller's; NULL = none.
 * alter.py runs before the patch is written, because other files decide how a test is altered.
 */
static int job_prepare(const struct verifying *v,
                       const struct verify_command *job,
                       struct snp_patch_session *box,
                       json_t **altered,
                       struct snp_err *err)
{
    const struct snp_box_part part = {json_object_get(v->look, "unexecuted"), job->hunk,
                                      job->has_tests};
    snp_autofree char *code = NULL;

    SNP_TRY(snp_box_open(&v->spec, box, err));
    SNP_TRY(hidden_put(v, box, job->kind, err));
    if (job->form != NULL) {
        SNP_TRY(tests_alter(box, job, altered, err));
    }
    if (job->has_patch) {
        SNP_TRY(snp_box_apply(box, &part, err));
    }
    code = snp_need_format("clean('/tmp/%s')", box->nonce);
    SNP_TRY(snp_box_python(box, code, err));
    if (strcmp(snp_verdict_runner(job->command), "node") == 0) {
        SNP_TRY(snp_box_put(box, snp_watch_cjs, snp_watch_cjs_len, "snp_watch.cjs", err));
    }
    if (job->form == NULL && json_array_size(job->parts) > 0) {
        SNP_TRY(parts_put(box, job->parts, err));
    }
    return job->cover == NULL ? 0 : cover_begin(box, job->cover, err);
}

/*
 * Run a command. *ret: NULL if there is nothing to alter in the tests, else the run, the caller's.
 */
static int job_run(const struct verifying *v,
                   const struct verify_command *job,
                   json_t **ret,
                   struct snp_err *err)
{
    snp_autobox struct snp_patch_session box = {0};
    snp_autobuf struct snp_buf out = SNP_BUF(SNP_BOX_OUTPUT_MAX);
    const char *runner = snp_verdict_runner(job->command);
    snp_autofree char *line = NULL;
    snp_autojson json_t *result = NULL;
    snp_autojson json_t *altered = NULL;
    snp_autojson json_t *uncovered = NULL;
    json_t *report = NULL;
    json_t *tests;

    SNP_TRY(job_prepare(v, job, &box, &altered, err));
    tests = json_object_get(altered, "tests");
    if (job->form != NULL && json_array_size(tests) == 0) { /* the form changes nothing in them */
        return 0;
    }
    line = line_make(&box, snp_json_str(altered, "command", job->command), runner, job);
    SNP_TRY(snp_box_exec(&box, line, &out, &result, err));
    if (job->cover != NULL) {
        SNP_TRY(cover_end(&box, &uncovered, err));
    }
    report = snp_box_get(&box, "report.json");
    if (report == NULL && !job->has_patch) {
        report = snp_box_get(&box, "begun.json");
    }
    if (report == NULL && strcmp(runner, "other") == 0 &&
        (report = snp_tap_read(snp_buf_bytes(&out), out.len)) != NULL) {
        runner = "tap";
    }
    names_restore(report, json_object_get(altered, "names"));
    *ret = run_make(job, runner, result, &out);
    (void)json_object_set_new(*ret, "report", report == NULL ? json_null() : report);
    (void)json_object_set(*ret, "altered", tests == NULL ? json_null() : tests);
    (void)json_object_set(*ret, "uncovered", uncovered == NULL ? json_null() : uncovered);
    return 0;
}

/* Tests of a report with this outcome. New reference. */
static json_t *tests_of(const json_t *run, const char *outcome)
{
    json_t *found = snp_need(json_array());
    const char *id;
    json_t *value;

    json_object_foreach(json_object_get(json_object_get(run, "report"), "tests"), id, value)
    {
        if (snp_streq(json_string_value(value), outcome)) {
            (void)json_array_append_new(found, json_string(id));
        }
    }
    return found;
}

/* Tests that misbehave in the form of a run; without a form: other than in the plain run. */
static json_t *wrong_of(const struct snp_verdict_form *form, const json_t *plain, const json_t *run)
{
    return snp_need(form == NULL ? snp_verdict_flaky(plain, run)
                                 : snp_verdict_wrong(form, json_object_get(run, "altered"),
                                                     json_object_get(run, "report")));
}

/* Remove names from a list. */
static void names_drop(json_t *list, const json_t *names)
{
    for (size_t i = json_array_size(list); i > 0; i--) {
        for (size_t n = 0; n < json_array_size(names); n++) {
            if (json_equal(json_array_get(list, i - 1), json_array_get(names, n))) {
                (void)json_array_remove(list, i - 1);
                break;
            }
        }
    }
}

/*
 * Drop tests that misbehave in the same way in the clean project, if they pass there or have no
 * form: the form, or the other time, does not fit them.
 */
static int unfit_drop(const struct verifying *v,
                      size_t n,
                      struct verify_command job,
                      json_t *wrong,
                      struct snp_err *err)
{
    const json_t *plain = json_array_get(v->base, n);
    snp_autojson json_t *passed = tests_of(plain, "passed");
    snp_autojson json_t *run = NULL;
    snp_autojson json_t *unfit = NULL;

    if (json_array_size(wrong) == 0) {
        return 0;
    }
    job.has_patch = false;
    job.passed = passed;
    SNP_TRY(job_run(v, &job, &run, err));
    unfit = wrong_of(job.form, plain, run);
    names_drop(wrong, unfit);
    return 0;
}

/* Run a command on the patched project and compare it with the clean one. *ret: the caller's. */
static int compared_run(const struct verifying *v,
                        size_t n,
                        const struct verify_command *job,
                        json_t **ret,
                        json_t *reasons,
                        struct snp_err *err)
{
    SNP_TRY(job_run(v, job, ret, err));
    snp_verdict_compare(json_array_get(v->base, n), *ret, reasons);
    return 0;
}

static bool has_failed(const json_t *reasons)
{
    return strcmp(snp_verdict_word(reasons), snp_verdict_failed) == 0;
}

/*
 * A run failed with a process for each file of tests: run the command as given, in one process. If
 * that passes, tests depend on another file. *run: replaced.
 */
static int together_run(const struct verifying *v,
                        size_t n,
                        struct verify_command job,
                        json_t **run,
                        json_t *reasons,
                        struct snp_err *err)
{
    snp_autojson json_t *apart = SNP_TAKE_PTR(*run);
    snp_autojson json_t *none = snp_need(json_array());
    snp_autojson json_t *dependent = NULL;
    snp_autojson json_t *known = NULL;
    const json_t *parts = job.parts;

    (void)json_array_clear(reasons);
    job.parts = none;
    SNP_TRY(compared_run(v, n, &job, run, reasons, err));
    if (has_failed(reasons)) {
        return 0;
    }
    dependent = snp_verdict_flaky(*run, apart);
    known = snp_need(json_copy(dependent));
    job.parts = parts;
    if (snp_verdict_is_command(dependent)) { /* its tests have the same outcomes */
        (void)json_array_clear(dependent);
    } else {
        SNP_TRY(unfit_drop(v, n, job, dependent, err));
        names_drop(known, dependent);
    }
    snp_verdict_together_tell(dependent, *run, false, reasons);
    snp_verdict_together_tell(known, *run, true, reasons);
    return 0;
}

/* Files of tests that the clean project reported; NULL: at most one, or too many. Borrowed. */
static const json_t *parts_of(const json_t *base)
{
    const json_t *parts = json_object_get(json_object_get(base, "report"), "parts");
    size_t n = json_array_size(parts);

    return n > 1 && n <= PARTS_MAX ? parts : NULL;
}

/*
 * Run a command on the clean project, as given. If it cannot load a file of tests, the runner runs
 * none of the others; then each has a process. *ret: the caller's.
 */
static int clean_run(const struct verifying *v,
                     struct verify_command job,
                     json_t **ret,
                     struct snp_err *err)
{
    snp_autojson json_t *first = NULL;
    const json_t *report;

    SNP_TRY(job_run(v, &job, &first, err));
    report = json_object_get(first, "report");
    job.parts = parts_of(first);
    if (job.parts != NULL && json_array_size(json_object_get(report, "errors")) > 0) {
        return job_run(v, &job, ret, err);
    }
    *ret = SNP_TAKE_PTR(first);
    return 0;
}

/* Run a command on the patched project, each file of tests in a process. *ret: the caller's. */
static int patched_run(const struct verifying *v,
                       size_t n,
                       struct verify_command job,
                       json_t **ret,
                       struct snp_err *err)
{
    snp_autojson json_t *reasons = snp_need(json_array());

    job.parts = parts_of(json_array_get(v->base, n));
    SNP_TRY(compared_run(v, n, &job, ret, reasons, err));
    if (job.parts != NULL && has_failed(reasons)) {
        SNP_TRY(together_run(v, n, job, ret, reasons, err));
    }
    (void)json_array_extend(v->reasons, reasons);
    return 0;
}

static int commands_run(struct verifying *v, bool has_patch, struct snp_err *err)
{
    struct verify_command job = {.has_patch = has_patch};

    for (size_t n = 0; job_nth(v->asked, n, &job); n++) {
        snp_autojson json_t *run = NULL;

        progress(v, job.kind == SNP_VERIFY_HIDDEN ? "a hidden test" : job.command);
        SNP_TRY(has_patch ? patched_run(v, n, job, &run, err) : clean_run(v, job, &run, err));
        (void)json_array_append(v->runs, run);
        if (!has_patch) {
            (void)json_array_append(v->base, run);
        }
    }
    return 0;
}

/* Run the tests of one command that passed, in one form. */
static int form_run(struct verifying *v, size_t n, struct verify_command job, struct snp_err *err)
{
    const json_t *plain = json_array_get(v->runs, json_array_size(v->base) + n);
    snp_autojson json_t *passed = tests_of(plain, "passed");
    snp_autojson json_t *wrong = NULL;
    json_t *run = NULL;

    job.passed = passed;
    job.parts = json_object_get(plain, "parts");
    SNP_TRY(job_run(v, &job, &run, err));
    if (run == NULL) {
        return 0;
    }
    (void)json_array_append_new(v->altered, run);
    wrong = wrong_of(job.form, plain, run);
    SNP_TRY(unfit_drop(v, n, job, wrong, err));
    (void)json_object_set(run, "wrong", wrong);
    snp_verdict_wrong_tell(job.form, wrong, run, v->reasons);
    return 0;
}

static int forms_run(struct verifying *v, struct snp_err *err)
{
    struct verify_command job = {.has_patch = true};

    progress(v, "the tests in altered forms");
    for (size_t n = 0; job_nth(v->asked, n, &job); n++) {
        for (size_t f = 0; f < SNP_VERDICT_FORMS && job.kind != SNP_VERIFY_REGRESS; f++) {
            int r;

            job.form = &snp_verdict_forms[f];
            r = form_run(v, n, job, err);
            if (r < 0) {
                return r;
            }
        }
    }
    return 0;
}

/* A line, or a part of a line (cover.py), as text. */
static const char *place_text(const json_t *place, char number[static 24])
{
    (void)snprintf(number, 24, "%lld", (long long)json_integer_value(place));
    return json_is_string(place) ? json_string_value(place) : number;
}

/* The function that contains a line; "": none. */
static const char *function_of(const struct verifying *v, const char *path, const json_t *place)
{
    char number[24];
    char key[24];
    const char *text = place_text(place, number);

    (void)snprintf(key, sizeof(key), "%.*s", (int)strcspn(text, ":"), text);
    return snp_json_str(json_object_get(json_object_get(v->look, "functions"), path), key, "");
}

/*
 * Report lines of one function, from the n-th on; returns the index of the next function's first
 * line.
 */
static size_t lines_tell(const struct verifying *v, const char *path, const json_t *lines, size_t n)
{
    const char *name = function_of(v, path, json_array_get(lines, n));
    struct snp_buf text = SNP_BUF(TOLD_MAX);
    const char *told;

    for (size_t first = n; n < json_array_size(lines) &&
                           strcmp(function_of(v, path, json_array_get(lines, n)), name) == 0;
         n++) {
        char number[24];

        (void)!snp_buf_addf(&text, "%s%s", n == first ? "" : ", ",
                            place_text(json_array_get(lines, n), number));
    }
    told = snp_buf_cstr(&text);
    snp_verdict_add(
        v->reasons, v->asked->allows_uncovered ? snp_verdict_ready : snp_verdict_unproven,
        "no test command runs %.200s:%.200s%s%.80s%s%s", path, told == NULL ? "?" : told,
        name[0] == '\0' ? "" : " (function ", name, name[0] == '\0' ? "" : ")",
        v->asked->allows_uncovered ? "" : " (--allow-uncovered)");
    snp_verdict_for_user(v->reasons, true);
    snp_buf_done(&text);
    return n;
}

/* Assertions that failed in the clean project (report.py), {PATH: [LINE]}. New reference. */
static json_t *asserted_of(const struct verifying *v)
{
    json_t *found = snp_need(json_object());

    for (size_t n = 0; n < json_array_size(v->base); n++) {
        const json_t *run = json_array_get(v->base, n);
        const json_t *lines = json_object_get(json_object_get(run, "report"), "asserted");

        if (strcmp(snp_json_str(run, "kind", ""), "test") == 0) {
            (void)json_object_update_missing(found, (json_t *)(uintptr_t)lines);
        }
    }
    return found;
}

/* A test that passes because its assertion is no longer reached proves nothing. */
static void unreached_tell(const struct verifying *v, const char *path, const json_t *lines)
{
    for (size_t n = 0; n < json_array_size(lines); n++) {
        json_t *line = json_array_get(lines, n);

        if (json_is_integer(line)) {
            snp_verdict_add(v->reasons, snp_verdict_unproven,
                            "the assertion at %.200s:%lld failed without the change, and no test "
                            "reaches it now",
                            path, (long long)json_integer_value(line));
        }
    }
}

static void uncovered_tell(const struct verifying *v, const json_t *asserted)
{
    const char *path;
    json_t *lines;

    json_object_foreach(v->uncovered, path, lines)
    {
        if (json_object_get(asserted, path) != NULL) {
            unreached_tell(v, path, lines);
            continue;
        }
        for (size_t n = 0; n < json_array_size(lines);) {
            n = lines_tell(v, path, lines, n);
        }
    }
}

/* Repeat one command. A run that records lines is slow, so its results are not compared. */
static int repeat_run(struct verifying *v, size_t n, struct verify_command job, struct snp_err *err)
{
    const json_t *plain = json_array_get(v->runs, json_array_size(v->base) + n);
    snp_autojson json_t *run = NULL;
    snp_autojson json_t *flaky = NULL;
    bool is_together;

    job.parts = json_object_get(plain, "parts");
    is_together = job.seed == TOGETHER && json_array_size(job.parts) > 0;
    job.parts = is_together ? NULL : job.parts;
    SNP_TRY(job_run(v, &job, &run, err));
    if (job.cover == NULL) {
        flaky = wrong_of(NULL, plain, run);
        SNP_TRY(unfit_drop(v, n, job, flaky, err));
        snp_verdict_flaky_tell(flaky, run, is_together ? " in one process" : "",
                               job.ahead_s / DAY_S, v->reasons);
    } else { /* the next command records only the remaining lines */
        json_decref(v->uncovered);
        v->uncovered = json_incref(json_object_get(run, "uncovered"));
    }
    return 0;
}

/* By how much the clock of a repeat is ahead: weeks or years, and some hours and seconds. */
static int64_t ahead_of(unsigned seed)
{
    int64_t least = seed % 2 == 0 ? 20 * DAY_S : 365 * DAY_S;
    uint32_t chance = 0;

    (void)!getrandom(&chance, sizeof(chance), 0);
    return least + chance % (3 * least);
}

/*
 * A test that passes by chance, or only now, proves nothing. The first repeat records which changed
 * lines run. The second one is the command as given, in one process. Quick tests run more often.
 */
static int repeats_run(struct verifying *v, struct snp_err *err)
{
    struct verify_command job = {.has_patch = true};
    snp_autojson json_t *asserted = asserted_of(v);
    size_t n_reasons = json_array_size(v->reasons);
    uint64_t began_us = snp_now_us();
    int r = 0;

    progress(v, "the tests again");
    v->uncovered = snp_need(json_copy(json_object_get(v->look, "changed")));
    (void)json_object_update_missing(v->uncovered, asserted);
    for (job.seed = 1; r == 0 && (job.seed <= REPEATS ||
                                  (job.seed <= REPEATS_MAX && snp_now_us() - began_us < QUICK_US &&
                                   json_array_size(v->reasons) == n_reasons));
         job.seed++) {
        job.ahead_s = job.seed == 1 ? 0 : ahead_of(job.seed);
        for (size_t n = 0; r == 0 && job_nth(v->asked, n, &job); n++) {
            job.cover = job.seed == 1 ? v->uncovered : NULL;
            r = repeat_run(v, n, job, err);
        }
    }
    if (r == 0) {
        uncovered_tell(v, asserted);
    }
    return r;
}

/* Whether a command fails without the hunk. */
static int hunk_is_needed(const struct verifying *v,
                          const json_t *hunk,
                          bool *ret,
                          struct snp_err *err)
{
    struct verify_command job = {.has_patch = true, .hunk = hunk};

    *ret = false;
    for (size_t n = 0; !*ret && job_nth(v->asked, n, &job); n++) {
        snp_autojson json_t *run = NULL;
        snp_autojson json_t *reasons = snp_need(json_array());

        job.parts = json_object_get(json_array_get(v->base, n), "parts");
        SNP_TRY(compared_run(v, n, &job, &run, reasons, err));
        *ret = has_failed(reasons);
    }
    return 0;
}

static int hunks_run(struct verifying *v, struct snp_err *err)
{
    const json_t *hunks = json_object_get(v->look, "hunks");
    size_t n = json_array_size(hunks);

    if (n > HUNKS_MAX) {
        snp_verdict_add(v->reasons, snp_verdict_unproven,
                        "%zu hunks are more than can be left out one by one (%d)", n, HUNKS_MAX);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        json_t *hunk = json_array_get(hunks, i);
        const char *names = snp_json_str(hunk, "functions", "");
        bool is_needed = false;

        progress(v, "the tests without one hunk");
        SNP_TRY(hunk_is_needed(v, hunk, &is_needed, err));
        if (!is_needed) {
            (void)json_array_append(v->unproven, hunk);
            snp_verdict_add(
                v->reasons, snp_verdict_unproven,
                "no test fails without the change at %.200s:%lld%s%.80s%s",
                snp_json_str(hunk, "path", "?"), (long long)snp_json_int(hunk, "line", 0),
                names[0] == '\0' ? "" : " (function ", names, names[0] == '\0' ? "" : ")");
        }
    }
    return 0;
}

/* Run the patch's own tests. They prove nothing, because they come from the author of the patch. */
static int new_tests_run(struct verifying *v, struct snp_err *err)
{
    const char *runner = snp_verdict_runner(v->asked->commands[SNP_VERIFY_TEST][0]);
    const json_t *commands = json_object_get(v->look, "own_tests");
    const struct verify_command job = {
        .command = snp_json_str(commands, runner, NULL), .has_patch = true, .has_tests = true};

    if (job.command == NULL) {
        return 0;
    }
    progress(v, job.command);
    return job_run(v, &job, &v->new_tests, err);
}

static int is_unmoved(const struct verifying *v, struct snp_err *err)
{
    snp_autochanges struct snp_session_changes now = {.project_fd = -1};

    SNP_TRY(snp_changes_read(v->asked->cli, v->changes.session, NULL, 0, &now, err));
    return strcmp(now.patch.hash, v->changes.patch.hash) == 0
               ? 0
               : snp_fail(err, SNP_E_DENIED,
                          "the session or its project changed during verify; run verify again");
}

/* Find names and calls in files of the patch that do not exist. */
static int ground(struct verifying *v, struct snp_err *err)
{
    SNP_TRY(snp_ground_patch(&v->spec, &v->changes.patch, &v->grounding, v->reasons, err));
    if (v->grounding != NULL) {
        size_t n = json_array_size(json_object_get(v->grounding, "findings"));

        (void)json_object_set_new(json_object_get(v->look, "measures"), "hallucinated_call_rate",
                                  json_boolean(n > 0));
    }
    return 0;
}

static bool is_word(const struct verifying *v, const char *word)
{
    return strcmp(snp_verdict_word(v->reasons), word) == 0;
}

/* Run the expensive checks, only while the verdict can still be ready. */
static int proofs_run(struct verifying *v, struct snp_err *err)
{
    int r = 0;

    if (!is_word(v, snp_verdict_failed)) {
        r = forms_run(v, err);
    }
    if (r == 0 && !is_word(v, snp_verdict_failed)) {
        r = hunks_run(v, err);
    }
    /* Also run if only reasons of the user remain, so that all are reported at once. */
    if (r == 0 && strcmp(snp_verdict_word_of_change(v->reasons, true), snp_verdict_ready) == 0) {
        r = repeats_run(v, err);
    }
    return r;
}

static int verify(struct verifying *v, struct snp_err *err)
{
    patch_keep(v);
    SNP_TRY(snp_scan_read(&v->spec, &v->look, v->reasons, err));
    SNP_TRY(ground(v, err));
    SNP_TRY(snp_standards_patch(&v->spec, &v->standards, v->reasons, err));
    v->n_secrets = snp_scan_patch(v->asked, &v->changes.patch, v->reasons);
    SNP_TRY(commands_run(v, false, err));
    snp_scan_tests(&v->changes.patch, v->look, v->base, v->reasons);
    SNP_TRY(commands_run(v, true, err));
    SNP_TRY(snp_samples_run(v->asked, &v->spec, v->look, v->samples, v->reasons, err));
    SNP_TRY(new_tests_run(v, err));
    SNP_TRY(snp_scan_lint(&v->spec, &v->checks, v->reasons, err));
    SNP_TRY(proofs_run(v, err));
    return is_unmoved(v, err);
}

static int limits_set(struct verifying *v, struct snp_err *err)
{
    struct snp_limits limits;

    snp_limits_default(&limits);
    SNP_TRY(snp_limits_from_json(v->changes.limits, &limits, err));
    limits.value[SNP_LIMIT_WALL] = v->asked->wall_ms;
    v->spec.limits = snp_need(snp_limits_to_json(&limits));
    return 0;
}

/* An agent counts its own attempts: each has a separate session. */
static json_t *measures_make(const struct verifying *v, const struct snp_applied *applied)
{
    const char *word = snp_verdict_word(v->reasons);
    struct snp_measured of = {
        .is_ready = strcmp(word, snp_verdict_ready) == 0,
        .base = v->base,
        .runs = v->runs,
        .look = v->look,
        .checks = v->checks,
        .n_secrets = v->n_secrets,
        .attempt = v->asked->attempt,
    };
    int64_t n = snp_json_int(of.attempt, "attempt", 0);

    of.n_before = n > 0 ? (size_t)n - 1
                        : snp_applied_before(applied, v->changes.patch.hash, &of.was_first_ready);
    return snp_need(snp_measures_make(&of));
}

int snp_verify_begin(const struct snp_verify *asked,
                     const json_t *exec,
                     json_t **needs_sample,
                     struct snp_err *err)
{
    struct snp_verify tests = *asked;
    snp_cleanup(verifying_done) struct verifying v = {
        .asked = &tests,
        .changes = {.project = snp_need_copy(snp_json_str(exec, "project", "")), .project_fd = -1},
        .runs = snp_need(json_array()),
        .base = snp_need(json_array()),
    };

    v.spec = (struct snp_box_spec){
        .cli = asked->cli,
        .changes = &v.changes,
        .limits = snp_need(json_pack("{s:I}", "timeout_ms", (json_int_t)asked->wall_ms)),
        .defaults = json_object_get(exec, "defaults"),
    };
    tests.n_commands[SNP_VERIFY_REGRESS] = 0;
    tests.n_commands[SNP_VERIFY_HIDDEN] = 0;
    patch_keep(&v);
    SNP_TRY(commands_run(&v, false, err));
    for (size_t n = 0; n < json_array_size(v.base); n++) {
        const json_t *run = json_array_get(v.base, n);
        const json_t *report = json_object_get(run, "report");
        bool is_known = strcmp(snp_json_str(run, "runner", ""), "other") != 0;

        if (json_is_object(report) ? !snp_verdict_has_failures(report) : is_known) {
            return snp_fail(err, SNP_E_INVALID,
                            "`%.140s` %s of the unchanged project, so it proves no "
                            "change; give --test a command that fails without the change",
                            snp_json_str(run, "command", ""),
                            json_is_object(report) ? "fails no test" : "reports no test");
        }
    }
    return asked->n_samples > 0 ? 0 : snp_scan_begin(&v.spec, needs_sample, err);
}

int snp_verify_run(const struct snp_verify *asked, json_t **ret, struct snp_err *err)
{
    snp_cleanup(verifying_done) struct verifying v = {
        .asked = asked,
        .changes = {.project_fd = -1},
        .spec = {.cli = asked->cli},
        .runs = snp_need(json_array()),
        .base = snp_need(json_array()),
        .reasons = snp_need(json_array()),
        .unproven = snp_need(json_array()),
        .samples = snp_need(json_array()),
        .altered = snp_need(json_array()),
    };
    snp_cleanup(snp_applied_freep) struct snp_applied *applied = NULL;
    snp_autojson json_t *evidence = NULL;
    uint64_t began_us = snp_now_us();

    v.spec.changes = &v.changes;
    SNP_TRY(snp_changes_read(asked->cli, asked->session, NULL, 0, &v.changes, err));
    if (!snp_streq(v.changes.tier, "native") && !snp_streq(v.changes.tier, "docker")) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "session %.80s is in tier %.20s, where tests see the host; a verdict "
                        "needs tier native or docker",
                        v.changes.name, v.changes.tier);
    }
    SNP_TRY(limits_set(&v, err));
    SNP_TRY(snp_applied_open(&v.changes, &applied, err));
    if (v.changes.patch.n == 0) {
        snp_verdict_add(v.reasons, snp_verdict_failed, "the session changed nothing");
    } else {
        SNP_TRY(verify(&v, err));
    }
    evidence = snp_need(json_pack(
        "{s:s, s:O, s:s, s:s, s:o, s:s, s:s, s:O?, s:O, s:O, s:O?, s:O?, s:O?, s:O?, s:O, "
        "s:O?, s:O, s:O?, s:O?, s:o, "
        "s:I, s:s}",
        "verdict", snp_verdict_word(v.reasons), "reasons", v.reasons, "session", v.changes.session,
        "session_name", v.changes.name, "project", snp_cli_path_json(v.changes.project), "sha256",
        v.changes.patch.hash, "template", v.changes.template, "limits", v.spec.limits, "runs",
        v.runs, "unproven_hunks", v.unproven, "risk", json_object_get(v.look, "risk"), "checks",
        v.checks, "grounding", v.grounding, "standards", v.standards, "samples", v.samples,
        "new_tests", v.new_tests, "altered", v.altered, "uncovered", v.uncovered, "findings",
        json_object_get(v.look, "findings"), "measures", measures_make(&v, applied), "duration_ms",
        (json_int_t)((snp_now_us() - began_us) / MS), "program", SNP_VERSION));
    (void)json_object_update(evidence, (json_t *)(uintptr_t)asked->attempt);
    SNP_TRY(snp_evidence_keep(&v.changes.patch, applied, evidence, err));
    *ret = SNP_TAKE_PTR(evidence);
    return 0;
}

/* The verb ----------------------------------------------------------------------------------- */

int snp_verify_proof_options(const struct snp_opts *opts,
                             struct snp_verify *ret,
                             struct snp_err *err)
{
    ret->allows_uncovered = snp_opts_flag(opts, "allow-uncovered", false);
    ret->n_samples = snp_opts_list(opts, "sample", &ret->samples);
    if (snp_opts_list(opts, "expect", &ret->expected) != ret->n_samples) {
        return snp_fail(err, SNP_E_INVALID,
                        "each --sample CMD needs an --expect FILE, in the same order");
    }
    for (size_t i = 0; i < ret->n_samples; i++) {
        if (access(ret->expected[i], R_OK) < 0) {
            return snp_fail(err, SNP_E_NOT_FOUND, "--expect: cannot read %.150s: %s",
                            ret->expected[i], strerror(errno));
        }
    }
    return 0;
}

int snp_verify_options(const struct snp_opts *opts, struct snp_verify *ret, struct snp_err *err)
{
    static const char *const names[] = {"test", "regress", "hidden-test"};
    int64_t seconds = snp_opts_int(opts, "test-timeout", 300);

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        ret->n_commands[i] = snp_opts_list(opts, names[i], &ret->commands[i]);
    }
    ret->n_scope = snp_opts_list(opts, "scope", &ret->scope);
    ret->hidden_files = snp_opts_str(opts, "hidden-files");
    SNP_TRY(snp_verify_proof_options(opts, ret, err));
    if (seconds < 1 || seconds > 600) {
        return snp_fail(err, SNP_E_INVALID, "--test-timeout is 1 to 600 seconds");
    }
    ret->wall_ms = (uint64_t)seconds * MS;
    return 0;
}

static void on_progress(void *ctx, const char *text)
{
    (void)ctx;
    snp_term_printf(stderr, "Running %.100s\n", text);
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
        return snp_cli_usage(cli, "missing option --test CMD: tests that failed and must pass now");
    }
    cli->takes_signals = true; /* the sessions of the verdict end with it */
    r = r < 0 ? r : snp_remote_session_of(cli, opts, &session, &err);
    SNP_THEN(r, snp_remote_run_session(cli, &session, &err));
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
    summary = snp_evidence_summary(evidence);
    snp_term_text(stdout, summary, strlen(summary), 0);
    (void)putchar('\n');
    (void)fprintf(stderr, "Evidence: %s\n", snp_json_str(evidence, "folder", ""));
    return is_ready ? SNP_EXIT_OK : SNP_EXIT_FAILED;
}

static const struct snp_opt options[] = {SNP_VERIFY_OPTS, SNP_CLI_OPT_SESSION, SNP_CLI_OPT_JSON};
static const struct snp_opt_arg args[] = {SNP_CLI_ARG_SESSION};

const struct snp_verb snp_verb_verify = {
    .name = "verify",
    .summary = "test a session's changes to its project",
    .description =
        "Run the test commands in fresh sessions: with the changes but without their "
        "tests, on the clean project, and without each hunk. The verdict is \"ready for "
        "human review\" only if every test of the clean project is reported, those of "
        "--test failed before and pass now, nothing else broke, no hunk can be left "
        "out, every changed line runs, and no finding in the code blocks it. pytest, unittest "
        "and node --test report test by test; with other commands the best verdict is "
        "\"tests passed\".",
    .spec = SNP_SPEC(options, args),
    .examples = "verify work --test 'pytest -q tests/test_parse.py' --regress 'pytest -q'\n"
                "verify work --test 'python3 -m unittest' --scope src",
    .exit_codes = "0  ready for human review\n1  anything else\n2  usage error; nothing was done",
    .run = run,
};
