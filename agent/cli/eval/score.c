/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions are graded by grade.py, whose outcome follows a secret that the sample cannot know;
 * changes of a project by `verify`. A sample's own claims, exit status and output are ignored.
 */
#include "cli/eval/score.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/spawn.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"
#include "base/text/escape.h"
#include "cli/eval/tasks.h"
#include "cli/sandbox/sandbox.h"
#include "repair/embedded.h"
#include "repair/verdict.h"

enum {
    OUT_MAX = 4 << 20,
    COMMAND_MAX = 256 << 10,
    NAME_MAX_LEN = 64,
};

/* Functions ---------------------------------------------------------------------------------- */

static void on_output(void *ctx, enum snipara_stream stream, const char *bytes, size_t len)
{
    if (stream == SNIPARA_STDOUT) {
        (void)!snp_buf_add(ctx, bytes, len);
    }
}

/* The settings of a session that is saved nowhere. New reference. */
static json_t *request_make(const struct snp_score *with)
{
    return snp_need(json_pack("{s:O?, s:s}", "defaults", with->defaults, "checkpoint", "off"));
}

/* The outcome after the secret; without it how the command ended. */
static json_t *outcome_read(struct snp_buf *out, const char *secret, const json_t *result)
{
    const char *status = snp_json_str(result, "status", "?");
    const char *text = snp_need(snp_buf_cstr(out));
    const char *at = strstr(text, secret);
    struct snp_err ignored;
    json_t *found = NULL;

    if (at != NULL) {
        at += strlen(secret);
        (void)!snp_json_parse(at, strcspn(at, "\n"), &found, &ignored);
    }
    if (found != NULL) {
        return found;
    }
    return json_pack(
        "{s:s, s:o, s:n, s:n}", "outcome", strcmp(status, "timeout") == 0 ? "timeout" : "error",
        "why", json_sprintf("ended without an outcome: %s", status), "signature", "unresolved");
}

static int function_score(const struct snp_score *with,
                          const json_t *task,
                          const char *code,
                          json_t **ret,
                          struct snp_err *err)
{
    snp_autobuf struct snp_buf out = SNP_BUF(OUT_MAX);
    snp_autojson json_t *asked = json_copy((json_t *)(uintptr_t)task);
    const char *const argv[] = {"python3", "-I", "-c", snp_grade_py, NULL};
    snp_autojson json_t *settings = request_make(with);
    snp_autofree char *request = snp_need(snp_json_text(settings));
    snp_autojson json_t *result = NULL;
    snp_autofree char *text = NULL;
    char secret[33];

    if (snp_random_id(secret) < 0) {
        return snp_fail_sys(err, errno, "random name");
    }
    (void)json_object_set_new(asked, "self", json_string(snp_grade_py));
    (void)json_object_set_new(asked, "secret", json_string(secret));
    (void)json_object_set_new(asked, "code", json_string(code));
    text = snp_need(snp_json_text(asked));
    SNP_TRY(snp_sandbox_run(with->cli,
                            SNIPARA_RUN(.argv = argv, .input = text, .input_len = strlen(text),
                                        .timeout_ms = (int64_t)with->wall_ms, .quick = true,
                                        .output = on_output, .ctx = &out, .request = request),
                            &result, err));
    *ret = outcome_read(&out, secret, result);
    (void)json_object_set_new(
        *ret, "measures",
        json_pack("{s:O?, s:O?}", "signature_correctness", json_object_get(*ret, "signature"),
                  "hallucinated_call_rate", json_object_get(*ret, "unresolved")));
    return 0;
}

/* Changes of a project ----------------------------------------------------------------------- */

/* A command that runs these tests; NULL: no tests. The caller frees. */
static char *command_make(const json_t *task, const char *member)
{
    snp_autobuf struct snp_buf out = SNP_BUF(COMMAND_MAX);
    const json_t *ids = json_object_get(task, member);

    if (json_array_size(ids) == 0) {
        return NULL;
    }
    (void)!snp_buf_adds(&out, snp_json_str(task, "command", ""));
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        snp_autofree char *word = id == NULL ? NULL : snp_shell_word(id);

        (void)!snp_buf_addf(&out, " %s", word == NULL ? "" : word);
    }
    return snp_need_copy(snp_need(snp_buf_cstr(&out)));
}

/* Hunks that no test needs are not part of a benchmark; all other findings are. */
static const char *outcome_of(const json_t *evidence)
{
    const char *word = snp_json_str(evidence, "verdict", "");

    if (strcmp(word, snp_verdict_ready) == 0 ||
        (strcmp(word, snp_verdict_unproven) == 0 &&
         json_array_size(json_object_get(evidence, "reasons")) ==
             json_array_size(json_object_get(evidence, "unproven_hunks")))) {
        return "passed";
    }
    return strcmp(word, snp_verdict_failed) == 0 ? "failed" : "unproven";
}

static int session_score(const struct snp_score *with,
                         const json_t *task,
                         const char *session,
                         json_t **ret,
                         struct snp_err *err)
{
    snp_autofree char *test = command_make(task, "test");
    snp_autofree char *regress = command_make(task, "regress");
    const char *const tests[] = {test};
    const char *const others[] = {regress};
    struct snp_verify asked = with->proof;
    snp_autojson json_t *evidence = NULL;

    asked.cli = with->cli;
    asked.session = session;
    asked.commands[SNP_VERIFY_TEST] = tests;
    asked.n_commands[SNP_VERIFY_TEST] = test != NULL;
    asked.commands[SNP_VERIFY_REGRESS] = others;
    asked.n_commands[SNP_VERIFY_REGRESS] = regress != NULL;
    asked.wall_ms = with->wall_ms;
    SNP_TRY(snp_verify_run(&asked, &evidence, err));
    *ret = json_pack(
        "{s:s, s:O?, s:O, s:O, s:O}", "outcome", outcome_of(evidence), "why",
        json_object_get(json_array_get(json_object_get(evidence, "reasons"), 0), "text"), "verdict",
        json_object_get(evidence, "verdict"), "evidence", json_object_get(evidence, "folder"),
        "measures", json_object_get(evidence, "measures"));
    return 0;
}

static void session_end(const struct snp_score *with, const char *session)
{
    struct snp_err ignored;

    (void)!snp_sandbox_end(with->cli, snipara_destroy(snp_sandbox(), session), NULL, &ignored);
}

/* A session of the project, with the diff applied by the program patch; *ret: its status. */
static int patch_apply(const struct snp_score *with,
                       const json_t *task,
                       const char *session,
                       const char *diff,
                       bool *ret,
                       struct snp_err *err)
{
    static const char *const argv[] = {"patch", "-p1", "--batch", "--no-backup-if-mismatch",
                                       "-f",    NULL};
    snp_autojson json_t *settings = request_make(with);
    snp_autofree char *request = NULL;
    snp_autojson json_t *result = NULL;

    (void)json_object_set(settings, "project", json_object_get(task, "repo"));
    request = snp_need(snp_json_text(settings));
    SNP_TRY(
        snp_sandbox_run(with->cli,
                        SNIPARA_RUN(.session = session, .argv = argv, .input = diff,
                                    .input_len = strlen(diff), .quick = true, .request = request),
                        &result, err));
    *ret = snp_json_int(result, "exit_code", -1) == 0;
    return 0;
}

static int patch_score(const struct snp_score *with,
                       const json_t *task,
                       const char *diff,
                       json_t **ret,
                       struct snp_err *err)
{
    char session[NAME_MAX_LEN];
    char id[33];
    bool is_applied = false;
    int r;

    if (snp_random_id(id) < 0) {
        return snp_fail_sys(err, errno, "random name");
    }
    (void)snprintf(session, sizeof(session), "eval-%.16s", id);
    r = patch_apply(with, task, session, diff, &is_applied, err);
    if (r == 0 && !is_applied) {
        *ret = json_pack("{s:s, s:s}", "outcome", "error", "why", "the patch does not apply");
    } else if (r == 0) {
        r = session_score(with, task, session, ret, err);
    }
    session_end(with, session);
    return r;
}

/* Models ------------------------------------------------------------------------------------- */

/* The code of an answer: its first fenced block, else all. The caller frees. */
static char *code_of(const char *answer)
{
    const char *at = strstr(answer, "```");
    const char *end;

    at = at == NULL ? NULL : strchr(at, '\n');
    end = at == NULL ? NULL : strstr(at, "\n```");
    return end == NULL ? snp_need_copy(answer) : snp_need(strndup(at + 1, (size_t)(end - at)));
}

/*
 * `run`, or `agent` over the project, as a separate command: budgets, record and keys are the usual
 * ones.
 */
static int model_ask(const struct snp_score *with,
                     const json_t *task,
                     json_t **ret,
                     struct snp_err *err)
{
    bool is_repair = snp_task_is_repair(task);
    snp_autofree char *prompt = snp_need_format(
        "%s%s",
        is_repair ? "" : "Answer with the whole code of a Python module, and nothing else.\n\n",
        snp_json_str(task, "prompt", ""));
    snp_autofree char *text = NULL;
    snp_autobuf struct snp_buf out = SNP_BUF(OUT_MAX);
    const char *argv[20] = {"/proc/self/exe", is_repair ? "agent" : "run",
                            "--json",         "--model",
                            with->model,      "--log-dir",
                            with->log_dir};
    size_t n = 7;
    int status = 0;

    if (is_repair) {
        argv[n++] = "--project";
        argv[n++] = snp_json_str(task, "repo", "");
    } else {
        argv[n++] = "--no-project";
    }
    if (with->cost != NULL) {
        argv[n++] = "--cost-limit";
        argv[n++] = with->cost;
    }
    if (with->config != NULL) {
        argv[n++] = "--config";
        argv[n++] = with->config;
    }
    argv[n++] = "--";
    argv[n] = prompt;
    SNP_TRY(snp_spawn_status(argv, &out, &status, err));
    text = snp_need_copy(snp_need(snp_buf_cstr(&out)));
    return snp_json_parse(text, strlen(text), ret, err);
}

static int model_score(const struct snp_score *with,
                       const json_t *task,
                       json_t **ret,
                       struct snp_err *err)
{
    snp_autojson json_t *answer = NULL;
    const json_t *cost;
    const char *session;

    SNP_TRY(model_ask(with, task, &answer, err));
    session = snp_json_str(answer, "session", NULL);
    if (json_object_get(answer, "trajectory_id") == NULL) { /* no call was made */
        return snp_fail(err, SNP_E_PEER, "the model could not be asked: %.150s",
                        snp_json_str(answer, "error", "?"));
    }
    if (!snp_json_bool(answer, "success", false)) {
        *ret = json_pack("{s:s, s:s}", "outcome", "error", "why",
                         snp_json_str(answer, "error", "no answer"));
    } else if (!snp_task_is_repair(task)) {
        snp_autofree char *code = code_of(snp_json_str(answer, "response", ""));

        SNP_TRY(function_score(with, task, code, ret, err));
        (void)json_object_set_new(*ret, "sample", json_string(code));
    } else if (session == NULL) {
        *ret = json_pack("{s:s, s:s}", "outcome", "failed", "why", "nothing was changed");
    } else {
        SNP_TRY(session_score(with, task, session, ret, err));
    }
    if (session != NULL) {
        session_end(with, session);
    }
    cost = json_object_get(answer, "total_cost_usd");
    cost = cost == NULL ? json_object_get(answer, "total_cost") : cost;
    (void)json_object_set(*ret, "run", json_object_get(answer, "trajectory_id"));
    (void)json_object_set(*ret, "tokens", json_object_get(answer, "total_tokens"));
    (void)json_object_set(*ret, "cost_usd", (json_t *)(uintptr_t)cost);
    return 0;
}

int snp_score_task(const struct snp_score *with,
                   const json_t *task,
                   const char *text,
                   json_t **ret,
                   struct snp_err *err)
{
    snp_autofree char *code = NULL;

    if (text == NULL) {
        return model_score(with, task, ret, err);
    }
    if (snp_task_is_repair(task)) {
        return patch_score(with, task, text, ret, err);
    }
    /* HumanEval's samples continue the prompt. */
    code = json_is_string(json_object_get(task, "entry"))
               ? snp_need_format("%s%s", snp_json_str(task, "setup", ""), text)
               : snp_need_copy(text);
    return function_score(with, task, code, ret, err);
}
