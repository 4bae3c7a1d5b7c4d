/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run the tool calls of an answer in order. The start of a call is recorded first, with the number
 * of the session's last cell: for a call without a result, the daemon's journal shows what happened
 * to the cell after that one. So nothing runs twice.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "run/prompt.h"
#include "run/run_priv.h"
#include "run/sub.h"
#include "run/tool/feedback.h"
#include "run/tool/tool.h"

enum {
    RECALLS_MAX = 3, /* limit of retries if the daemon dies each time */
    POLL_MS = 100,   /* while a cell of an earlier process runs */
    SPARE_MS = 1000,
};

static const char unknown_text[] =
    "The outcome of this call is unknown: the sandbox or the machine stopped while it ran. "
    "Some of its effects may remain; check before you call it again.";

static const char done_text[] = "{\"success\": true}";

json_t *snp_run_call_now(const struct snp_run *run)
{
    return json_array_get(snp_run_state_calls(&run->state), run->state.next_call);
}

static const struct snp_run_tool *tool_now(const struct snp_run *run)
{
    return snp_run_tool_find(snp_json_str(snp_run_call_now(run), "name", ""));
}

/* Results ----------------------------------------------------------------------------------- */

/* Images are for viewers of the record; the model gets none. */
static json_t *images_add(const struct snp_box *box, json_t *members)
{
    int r = 0;

    if (json_array_size(box->images) > 0) {
        r |= json_object_set_new(members, "images", json_copy(box->images));
    }
    if (box->images_omitted > 0) {
        r |= json_object_set_new(members, "images_omitted", json_integer(box->images_omitted));
    }
    if (r < 0) {
        json_decref(members);
    }
    return r < 0 ? NULL : members;
}

void snp_run_result_record(struct snp_run *run, struct snp_run_outcome *outcome)
{
    const json_t *result = outcome->result;
    const json_t *call = snp_run_call_now(run);
    json_t *members = NULL;

    if (outcome->content != NULL) {
        members = json_pack(
            "{s:O?, s:O?, s:O?, s:s, s:b, s:b, s:I, s:O?, s:O?, s:O?, s:I, s:o?, s:o?}", "call_id",
            json_object_get(run->state.answer, "call_id"), "tool_call_id",
            json_object_get(call, "id"), "name", json_object_get(call, "name"), "content",
            outcome->content, "is_error", outcome->is_error, "skipped", outcome->is_skipped, "cell",
            (json_int_t)snp_json_int(result, "cell", 0), "status",
            json_object_get(result, "status"), "state", json_object_get(result, "state"), "files",
            json_object_get(result, "files"), "duration_ms",
            (json_int_t)(snp_json_int(json_object_get(result, "usage"), "wall_us", 0) / 1000),
            "error", outcome->error, "final", outcome->final);
    } else {
        json_decref(outcome->error);
        json_decref(outcome->final);
    }
    free(outcome->content);
    members = result == NULL ? members : images_add(&run->box, members);
    (void)!snp_run_step(run, "tool_result", members);
}

enum snp_run_then snp_run_refuse(struct snp_run *run, const char *text, bool is_skipped)
{
    struct snp_run_outcome outcome = {
        .content = snp_feedback_error(text),
        .is_error = true,
        .is_skipped = is_skipped,
    };

    snp_run_result_record(run, &outcome);
    return SNP_RUN_AGAIN;
}

static const char *cell_status(const json_t *result)
{
    return snp_json_str(result, "status", "unknown");
}

void snp_run_outcome_make(const struct snp_run_tool *tool,
                          const struct snp_box *box,
                          const json_t *result,
                          struct snp_run_outcome *ret)
{
    const struct snp_feedback_output output = {&box->out, &box->err_out, box->out_gap,
                                               box->err_gap};
    const char *text = box->out.len == 0 ? "" : snp_buf_bytes(&box->out);
    bool is_ok = strcmp(cell_status(result), "ok") == 0;

    *ret = (struct snp_run_outcome){.result = result, .is_error = !is_ok};
    if (strcmp(cell_status(result), "unknown") == 0) {
        ret->content = snp_feedback_error(unknown_text);
    } else if (is_ok && tool->kind == SNP_RUN_TOOL_FILE) {
        ret->content = snp_feedback_tool(text, box->out.len, &ret->is_error);
    } else if (is_ok && tool->kind == SNP_RUN_TOOL_FINAL_VAR) {
        ret->content = strdup(done_text);
        ret->final = json_pack("{s:o, s:s}", "answer", snp_feedback_answer(text, box->out.len),
                               "answer_source", "final_var");
    } else {
        ret->content = snp_feedback_cell(result, &output, &ret->error);
    }
}

/* Cells ------------------------------------------------------------------------------------- */

static void on_recall(void *ctx, const struct snp_err *err, const json_t *result);

static void recall(struct snp_run *run)
{
    struct snp_err err;

    if (++run->n_recalls > RECALLS_MAX) {
        (void)snp_fail(&err, SNP_E_PEER, "the connection to the sandbox daemon was lost %d times",
                       RECALLS_MAX);
    } else if (snp_box_recall(&run->box, run->seen_cell, on_recall, run, &err) == 0) {
        return;
    }
    snp_run_fail(run, &err);
    snp_run_advance(run);
}

static void on_cell(void *ctx, const struct snp_err *err, const json_t *result)
{
    struct snp_run *run = ctx;
    struct snp_run_outcome outcome = {0};

    snp_run_inside_drop(run); /* it ended without waiting for its call */
    if (err != NULL && err->code == SNP_E_PEER) {
        recall(run);
        return;
    }
    /* Interrupted by us before it began: the reason is the end of the run. */
    run->is_unbegun = err != NULL && err->code == SNP_E_TIMEOUT &&
                      (run->is_cancelled || snp_run_left_ms(run) <= 0);
    if (err != NULL && !run->is_unbegun) {
        snp_run_fail(run, err);
    } else if (err == NULL) {
        run->has_session = true;
        run->seen_cell = snp_json_int(result, "cell", run->seen_cell);
        snp_run_outcome_make(tool_now(run), &run->box, result, &outcome);
        snp_run_result_record(run, &outcome);
    }
    snp_run_advance(run);
}

/*
 * The run's timer enforces the run's time by interrupting the cell; the remaining time plus a
 * second applies only if this process dies.
 */
static uint64_t cell_ms(const struct snp_run *run)
{
    int64_t left = snp_run_left_ms(run);
    uint64_t most = run->cell_ms;

    if (left == INT64_MAX) {
        return most;
    }
    left = (left < 0 ? 0 : left) + SPARE_MS;
    return (uint64_t)left < most ? (uint64_t)left : most;
}

/* not_kept: why `back` cannot restore the current session; NULL = it can, or there is none yet. */
static int step_record(struct snp_run *run,
                       const struct snp_run_tool *tool,
                       const struct snp_err *not_kept)
{
    bool is_first = not_kept == NULL ? !run->has_session : not_kept->code == SNP_E_NOT_FOUND;
    json_t *members =
        json_pack("{s:O?, s:O?, s:s, s:s, s:I, s:I, s:b}", "call_id",
                  json_object_get(run->state.answer, "call_id"), "tool_call_id",
                  json_object_get(snp_run_call_now(run), "id"), "name", tool->name, "session",
                  run->box.session, "after_cell", (json_int_t)run->seen_cell, "number",
                  (json_int_t)run->state.steps + 1, "opens", is_first);

    if (members != NULL && not_kept != NULL && !is_first &&
        json_object_set_new(members, "not_kept",
                            snp_json_bytes(not_kept->msg, strlen(not_kept->msg))) < 0) {
        json_decref(members);
        members = NULL;
    }
    return snp_run_step(run, "tool", members);
}

static enum snp_run_then cell_begin(struct snp_run *run,
                                    const struct snp_run_tool *tool,
                                    const struct snp_err *not_kept);

static void on_kept(void *ctx, const struct snp_err *err, const json_t *result)
{
    struct snp_run *run = ctx;
    (void)result;
    if (run->is_cancelled || snp_run_left_ms(run) <= 0 ||
        cell_begin(run, tool_now(run), err) == SNP_RUN_AGAIN) {
        snp_run_advance(run);
    }
}

/* The session is saved before each step; one that was not opened yet equals the project. */
static enum snp_run_then cell_run(struct snp_run *run, const struct snp_run_tool *tool)
{
    struct snp_err err;

    if (run->state.tool != NULL || !run->has_session) {
        return cell_begin(run, tool, NULL);
    }
    if (snp_box_keep(&run->box, run->state.steps + 1, on_kept, run, &err) < 0) {
        return cell_begin(run, tool, &err);
    }
    return SNP_RUN_WAIT;
}

static enum snp_run_then cell_begin(struct snp_run *run,
                                    const struct snp_run_tool *tool,
                                    const struct snp_err *not_kept)
{
    snp_autofree char *code = NULL;
    snp_autofree char *input = NULL;
    snp_cleanup(snp_box_cell_done) struct snp_box_cell cell = {0};
    struct snp_err err;
    int r = snp_run_tool_cell(tool, snp_run_call_now(run), &cell, &code, &input, &err);

    if (r == SNP_E_INVALID) {
        return snp_run_refuse(run, err.msg, false);
    }
    if (r == 0 && run->state.tool == NULL && step_record(run, tool, not_kept) < 0) {
        return SNP_RUN_AGAIN;
    }
    if (r == 0) {
        cell.wall_ms = cell_ms(run);
        r = snp_box_run(&run->box, &cell, on_cell, run, &err);
    }
    if (r < 0) {
        snp_run_fail(run, &err);
        return SNP_RUN_AGAIN;
    }
    return SNP_RUN_WAIT;
}

/* Turns ------------------------------------------------------------------------------------- */

/* Whether no turn follows in which a result could be used. */
static bool is_last_turn(const struct snp_run_state *state)
{
    const struct snp_run_budget *budget = &state->budget;
    bool is_last_round =
        snp_run_state_is_completion(state) || state->iteration >= budget->iterations;

    return is_last_round &&
           ((budget->max_depth > 0 && state->turn >= budget->max_depth) ||
            (budget->max_subcalls > 0 && state->turn_calls >= budget->max_subcalls));
}

/* Whether the answer ends the run, after its other calls. */
static bool ends_itself(const struct snp_run_state *state)
{
    const json_t *calls = snp_run_state_calls(state);
    size_t i;
    json_t *call;

    json_array_foreach((json_t *)(uintptr_t)calls, i, call)
    {
        const struct snp_run_tool *tool = snp_run_tool_find(snp_json_str(call, "name", ""));

        if (tool != NULL &&
            (tool->kind == SNP_RUN_TOOL_FINAL || tool->kind == SNP_RUN_TOOL_FINAL_VAR)) {
            return true;
        }
    }
    return false;
}

/* "execute_code, ..., lookup". The caller frees; NULL when out of memory. */
static char *names_all(const struct snp_run *run)
{
    char *names = snp_run_tool_names();
    size_t i;
    json_t *entry;

    if (run->with.usertools == NULL) {
        return names;
    }
    json_array_foreach((json_t *)(uintptr_t)snp_usertools_list(run->with.usertools), i, entry)
    {
        char *longer =
            names == NULL ? NULL : snp_format("%s, %s", names, snp_json_str(entry, "name", ""));

        free(names);
        names = longer;
    }
    return names;
}

static void on_clean(void *ctx, const struct snp_err *err, const json_t *result)
{
    struct snp_run *run = ctx;

    (void)result;
    if (err != NULL && err->code != SNP_E_NOT_FOUND) {
        snp_run_fail(run, err);
    } else {
        run->has_session = false;
        (void)!snp_run_step(run, "attempt",
                            json_pack("{s:I}", "attempt", (json_int_t)run->state.attempt.n + 2));
    }
    snp_run_advance(run);
}

/*
 * After a verdict the next cell runs in a session of the clean project, so that each attempt is
 * judged on its changes alone. Not earlier: until then the old session can be applied.
 */
static enum snp_run_then attempt_begin(struct snp_run *run)
{
    struct snp_err err;

    if (snp_box_destroy(&run->box, on_clean, run, &err) < 0) {
        snp_run_fail(run, &err);
        return SNP_RUN_AGAIN;
    }
    return SNP_RUN_WAIT;
}

enum snp_run_then snp_run_act(struct snp_run *run)
{
    const struct snp_run_state *state = &run->state;
    const struct snp_run_tool *tool = tool_now(run);
    const json_t *answer =
        json_object_get(json_object_get(snp_run_call_now(run), "arguments"), "answer");
    struct snp_run_outcome outcome = {.content = NULL};
    bool is_end =
        tool != NULL && (tool->kind == SNP_RUN_TOOL_FINAL || tool->kind == SNP_RUN_TOOL_FINAL_VAR);

    if (state->tool == NULL && !is_end && state->budget.tool_calls > 0 &&
        state->turn_tools >= state->budget.tool_calls && state->batch == NULL) {
        return snp_run_refuse(run, snp_run_prompt_over, true);
    }
    if (tool == NULL && !snp_run_outside_has(run, snp_run_call_now(run))) {
        snp_autofree char *name = names_all(run);
        snp_autofree char *text =
            snp_format("Tool not found: '%.80s'; there are %s",
                       snp_json_str(snp_run_call_now(run), "name", ""), name == NULL ? "" : name);

        return snp_run_refuse(run, text == NULL ? "Tool not found" : text, false);
    }
    if (state->batch != NULL) { /* it has begun */
        return snp_run_batch(run);
    }
    if (state->tool == NULL && is_last_turn(state) && !ends_itself(state)) {
        return snp_run_refuse(run, snp_run_prompt_not_run, true);
    }
    if (tool == NULL) {
        return snp_run_outside_act(run);
    }
    if (tool->kind == SNP_RUN_TOOL_SUB) {
        return snp_run_sub_begin(run);
    }
    if (tool->kind == SNP_RUN_TOOL_BATCH) {
        return snp_run_batch(run);
    }
    if (tool->kind != SNP_RUN_TOOL_FINAL || !json_is_string(answer)) {
        return state->attempt.is_over && state->tool == NULL && !is_end ? attempt_begin(run)
                                                                        : cell_run(run, tool);
    }
    outcome.content = strdup(done_text);
    outcome.final = json_pack("{s:O, s:s}", "answer", answer, "answer_source", "final");
    snp_run_result_record(run, &outcome);
    return SNP_RUN_AGAIN;
}

/* State of an earlier process --------------------------------------------------------------- */

static void on_poll(uv_timer_t *timer)
{
    struct snp_run *run = timer->data;

    run->n_recalls = 0;
    recall(run);
}

static void on_recall(void *ctx, const struct snp_err *err, const json_t *result)
{
    struct snp_run *run = ctx;
    struct snp_err gone;

    run->has_session = run->has_session || err == NULL;
    if (err != NULL && err->code == SNP_E_PEER) {
        recall(run);
        return;
    }
    if (err != NULL && err->code == SNP_E_NOT_FOUND) {
        (void)snp_fail(
            &gone, SNP_E_NOT_FOUND,
            "the session %s no longer exists; the variables and files of this run are lost",
            run->box.session);
        err = &gone;
    }
    if (err != NULL) {
        snp_run_fail(run, err);
    } else if (result != NULL && strcmp(cell_status(result), "running") == 0) {
        (void)uv_timer_start(run->later, on_poll, POLL_MS, 0);
        return;
    } else if (result != NULL && run->state.tool != NULL) {
        on_cell(run, NULL, result);
        return;
    } else if (result != NULL) { /* another client's cell */
        run->seen_cell = snp_json_int(result, "cell", run->seen_cell);
    } else if (run->state.tool != NULL && !run->is_cancelled) {
        if (cell_run(run, tool_now(run)) == SNP_RUN_WAIT) {
            return;
        }
    }
    snp_run_advance(run);
}

enum snp_run_then snp_run_recall(struct snp_run *run)
{
    run->n_recalls = 0;
    recall(run);
    return SNP_RUN_WAIT;
}
