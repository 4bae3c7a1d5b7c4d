/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded tool calls, once more. */
#include "run/recorded.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "run/run_priv.h"
#include "trajectory/reader.h"

/* One cell, waited for. */
struct wait {
    bool is_done;
    const struct snp_run_tool *tool; /* NULL: its outcome does not matter */
    struct snp_box *box;
    struct snp_run_outcome outcome;
    bool has_failed;
    struct snp_err err;
};

void snp_run_again_done(struct snp_run_again *again)
{
    json_decref(again->difference);
    *again = (struct snp_run_again){0};
}

static void on_done(void *ctx, const struct snp_err *err, const json_t *result)
{
    struct wait *wait = ctx;

    wait->is_done = true;
    if (err != NULL) {
        wait->has_failed = true;
        wait->err = *err;
    } else if (wait->tool != NULL) {
        snp_run_outcome_make(wait->tool, wait->box, result, &wait->outcome);
        wait->outcome.result = NULL;
    }
}

static void turn_until(uv_loop_t *loop, const struct wait *wait)
{
    while (!wait->is_done) {
        (void)uv_run(loop, UV_RUN_ONCE);
    }
}

/*
 * Drop our hint below an error: it is not the code's output, and its wording changes between
 * releases.
 */
static void hint_drop(json_t *object)
{
    static const char before[] = "\nhint: ";
    const char *text = snp_json_str(object, "error", NULL);
    const char *hint = text == NULL ? NULL : strstr(text, before);
    const char *end = hint == NULL ? NULL : strchr(hint + 1, '\n');
    snp_autofree char *rest =
        hint == NULL ? NULL
                     : snp_format("%.*s%s", (int)(hint - text), text, end == NULL ? "" : end);

    if (rest != NULL) {
        (void)json_object_set_new(object, "error", json_string(rest));
    }
}

/*
 * The text without variable parts, and without newer members if `other`, a record of 3.0.0, has
 * none. The caller frees; NULL when out of memory.
 */
static char *comparable(const char *content, const char *other)
{
    static const char *const newer[] = {"traceback", "limit", "files"};
    snp_autojson json_t *object = NULL;
    snp_autojson json_t *beside = NULL;
    struct snp_err err;

    if (snp_json_parse(content, strlen(content), &object, &err) < 0) {
        return strdup(content);
    }
    if (snp_json_parse(other, strlen(other), &beside, &err) == 0 && json_is_object(beside)) {
        for (size_t i = 0; i < SNP_ARRAY_LEN(newer); i++) {
            if (json_object_get(beside, newer[i]) == NULL) {
                (void)json_object_del(object, newer[i]);
            }
        }
    }
    (void)json_object_del(object, "execution_time_ms");
    hint_drop(object);
    return json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
}

static int compare(const json_t *call,
                   const char *recorded,
                   const struct wait *wait,
                   struct snp_run_again *ret,
                   struct snp_err *err)
{
    const char *now = wait->outcome.content;
    snp_autofree char *a = now == NULL ? NULL : comparable(recorded, now);
    snp_autofree char *b = now == NULL ? NULL : comparable(now, recorded);

    if (a == NULL || b == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (strcmp(a, b) != 0) {
        ret->difference =
            json_pack("{s:I, s:O?, s:O?, s:s, s:s}", "call", (json_int_t)ret->n_calls, "name",
                      json_object_get(call, "name"), "arguments",
                      json_object_get(call, "arguments"), "recorded", recorded, "now", now);
    }
    return 0;
}

/* Run the call of a recorded result, and compare. */
static int call_again(uv_loop_t *loop,
                      struct snp_box *box,
                      const json_t *call,
                      const json_t *record,
                      struct snp_run_again *ret,
                      struct snp_err *err)
{
    const struct snp_run_tool *tool = snp_run_tool_find(snp_json_str(call, "name", ""));
    snp_autofree char *code = NULL;
    snp_autofree char *input = NULL;
    struct wait wait = {.tool = tool, .box = box};
    snp_cleanup(snp_box_cell_done) struct snp_box_cell cell = {0};
    int r = tool == NULL ? snp_fail(err, SNP_E_INVALID, "a recorded call names an unknown tool")
                         : snp_run_tool_cell(tool, call, &cell, &code, &input, err);

    if (r < 0) {
        return r;
    }
    r = snp_box_run(box, &cell, on_done, &wait, err);
    if (r < 0) {
        return r;
    }
    turn_until(loop, &wait);
    ret->n_calls++;
    if (wait.has_failed) {
        *err = wait.err;
        r = err->code;
    } else {
        r = compare(call, snp_json_str(record, "content", ""), &wait, ret, err);
    }
    free(wait.outcome.content);
    json_decref(wait.outcome.error);
    json_decref(wait.outcome.final);
    return r;
}

/* The call of the answer for this result. */
static const json_t *call_find(const json_t *answer, const json_t *result)
{
    const json_t *calls = json_object_get(json_object_get(answer, "answer"), "tool_calls");
    const char *id = snp_json_str(result, "tool_call_id", "");
    size_t i;
    json_t *call;

    json_array_foreach((json_t *)(uintptr_t)calls, i, call)
    {
        if (strcmp(snp_json_str(call, "id", ""), id) == 0) {
            return call;
        }
    }
    return NULL;
}

/* Current answers: of the present completion, and below it of those that wait for it. */
struct answers {
    const json_t *of[SNP_RUN_NESTING_MAX + 1]; /* borrowed; NULL = none yet */
    size_t n;
};

static void answers_follow(struct answers *answers, const json_t *record)
{
    const char *step = snp_trajectory_step(record);

    if (strcmp(step, "answer") == 0) {
        answers->of[answers->n] = record;
    } else if (strcmp(step, "sub") == 0 && answers->n < SNP_RUN_NESTING_MAX) {
        answers->of[++answers->n] = NULL;
    } else if (snp_json_bool(record, "ends_sub", false) && answers->n > 0) {
        answers->n--;
    }
}

static int all_again(uv_loop_t *loop,
                     struct snp_box *box,
                     const json_t *records,
                     struct snp_run_again *ret,
                     struct snp_err *err)
{
    struct answers answers = {.n = 0};
    int r = 0;
    size_t i;
    json_t *record;

    json_array_foreach((json_t *)(uintptr_t)records, i, record)
    {
        const char *step = snp_trajectory_step(record);
        const json_t *answer;

        answers_follow(&answers, record);
        answer = answers.of[answers.n];
        if (strcmp(step, "tool_result") == 0 && snp_json_int(record, "cell", 0) > 0 &&
            call_find(answer, record) != NULL) {
            r = call_again(loop, box, call_find(answer, record), record, ret, err);
        }
        if (r < 0 || ret->difference != NULL) {
            break;
        }
    }
    return r;
}

int snp_run_again(uv_loop_t *loop,
                  struct snipara *sandbox,
                  const json_t *exec,
                  const json_t *records,
                  struct snp_run_again *ret,
                  struct snp_err *err)
{
    const json_t *recorded = json_object_get(json_array_get(records, 0), "exec");
    struct wait wait = {.is_done = false};
    char id[SNP_UUID_LEN + 1];
    snp_autofree char *session = NULL;
    struct snp_box box = {0};
    struct snp_err ignored;
    int r;

    *ret = (struct snp_run_again){0};
    if (!json_is_object(recorded)) {
        return snp_fail(err, SNP_E_INVALID, "the run of this record cannot be replayed");
    }
    session = snp_run_uuid(id) < 0 ? NULL : snp_format("replay-%.13s", id);
    if (session == NULL ||
        snp_box_init(&box, sandbox, session, exec == NULL ? recorded : exec) < 0) {
        snp_box_done(&box);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = all_again(loop, &box, records, ret, err);
    if (ret->n_calls > 0 && snp_box_destroy(&box, on_done, &wait, &ignored) == 0) {
        turn_until(loop, &wait);
    }
    snp_box_done(&box);
    return r;
}
