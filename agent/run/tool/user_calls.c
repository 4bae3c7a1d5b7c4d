/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tool calls that run outside the sandbox. As inside, start and end of each are recorded, in the
 * order of the answer's calls; with several at once those that end early wait for earlier ones. A
 * call that began and has no recorded result is never repeated: its effects are unknown.
 */
#include "run/tool/user_calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "model/provider.h"
#include "run/run_priv.h"
#include "run/tool/feedback.h"

static const char unknown_text[] =
    "The outcome of this call is unknown: this program stopped while the tool ran. Some of its "
    "effects may remain; check before you call it again.";

static const char *name_of(const json_t *call)
{
    return snp_json_str(call, "name", "");
}

static json_t *call_at(const struct snp_run *run, size_t index)
{
    return json_array_get(snp_run_state_calls(&run->state), index);
}

bool snp_run_outside_has(const struct snp_run *run, const json_t *call)
{
    return snp_usertools_has(run->with.usertools, name_of(call));
}

/* Results ------------------------------------------------------------------------------------- */

static void result_record(struct snp_run *run, struct snp_outside_call *slot)
{
    const json_t *call = call_at(run, run->state.next_call);
    json_t *members = NULL;

    if (slot->content != NULL) {
        members =
            json_pack("{s:O?, s:O?, s:O?, s:s, s:b, s:b, s:b, s:I, s:O?}", "call_id",
                      json_object_get(run->state.answer, "call_id"), "tool_call_id",
                      json_object_get(call, "id"), "name", json_object_get(call, "name"), "content",
                      slot->content, "is_error", slot->is_error, "skipped", 0, "outside", 1,
                      "duration_ms", (json_int_t)slot->duration_ms, "error", slot->error);
    }
    (void)!snp_run_step(run, "tool_result", members);
}

static void slot_clear(struct snp_outside_call *slot)
{
    snp_usercall_drop(slot->call);
    free(slot->content);
    json_decref(slot->error);
    *slot = (struct snp_outside_call){0};
}

/* The slot of a call of this turn; NULL: it has not begun. */
static struct snp_outside_call *slot_find(struct snp_run *run, size_t index)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(run->outside); i++) {
        if (run->outside[i].is_used && run->outside[i].index == index) {
            return &run->outside[i];
        }
    }
    return NULL;
}

/* Record all ended calls that are next in order. */
static void ended_record(struct snp_run *run)
{
    struct snp_outside_call *slot = slot_find(run, run->state.next_call);

    while (slot != NULL && slot->call == NULL && !run->is_ending && !run->has_failed) {
        result_record(run, slot);
        slot_clear(slot);
        slot = slot_find(run, run->state.next_call);
    }
}

static bool is_any_running(const struct snp_run *run)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(run->outside); i++) {
        if (run->outside[i].call != NULL) {
            return true;
        }
    }
    return false;
}

static void on_end(void *ctx, const struct snp_usercall_end *end)
{
    struct snp_outside_call *slot = ctx;
    struct snp_run *run = slot->run;

    slot->call = NULL;
    slot->is_error = end->is_error;
    slot->duration_ms = (int64_t)((snp_now_us() - slot->started_us) / 1000);
    slot->content = snp_feedback_outside(end, &slot->error);
    ended_record(run);
    /* A stopped run ends with all results recorded. */
    if (!is_any_running(run) || !run->is_cancelled) {
        snp_run_advance(run);
    }
}

/* Beginnings ---------------------------------------------------------------------------------- */

static int arguments_check(const struct snp_run *run, const json_t *call, struct snp_err *err)
{
    const char *wrong = snp_model_call_error(call);

    return wrong != NULL ? snp_fail(err, SNP_E_INVALID, "%s", wrong)
                         : snp_usertools_check(run->with.usertools, name_of(call),
                                               json_object_get(call, "arguments"), err);
}

static struct snp_outside_call *slot_take(struct snp_run *run, size_t index)
{
    size_t most = run->with.parallel == 0 ? 1 : run->with.parallel;

    for (size_t i = 0; i < SNP_ARRAY_LEN(run->outside) && i < most; i++) {
        if (!run->outside[i].is_used) {
            run->outside[i] = (struct snp_outside_call){
                .run = run, .is_used = true, .index = index, .started_us = snp_now_us()};
            return &run->outside[i];
        }
    }
    return NULL;
}

/* Record the start of a call, and begin it. Negative: the run is over. */
static int call_begin(struct snp_run *run, size_t index)
{
    const json_t *call = call_at(run, index);
    struct snp_outside_call *slot;
    struct snp_err err;

    if (snp_run_step(run, "tool",
                     json_pack("{s:O?, s:O?, s:s, s:b}", "call_id",
                               json_object_get(run->state.answer, "call_id"), "tool_call_id",
                               json_object_get(call, "id"), "name", name_of(call), "outside", 1)) <
        0) {
        return SNP_E_SYS;
    }
    slot = slot_take(run, index);
    SNP_ASSERT(slot != NULL); /* the caller has checked */
    if (snp_usercall_begin(run->with.usertools, name_of(call), json_object_get(call, "arguments"),
                           on_end, slot, &slot->call) < 0) {
        slot_clear(slot);
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        snp_run_fail(run, &err);
        return SNP_E_NOMEM;
    }
    return 0;
}

static size_t n_used(const struct snp_run *run)
{
    size_t n = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(run->outside); i++) {
        n += run->outside[i].is_used ? 1 : 0;
    }
    return n;
}

/* Whether the call at index may begin while earlier ones run; all between have begun. */
static bool may_begin(const struct snp_run *run, size_t index)
{
    const struct snp_run_state *state = &run->state;
    int64_t n_before = (int64_t)(index - state->next_call);
    const json_t *call = call_at(run, index);
    size_t most = run->with.parallel == 0 ? 1 : run->with.parallel;
    struct snp_err err;

    return call != NULL && !run->is_cancelled && snp_run_left_ms(run) > 0 && n_used(run) < most &&
           n_used(run) < SNP_ARRAY_LEN(run->outside) && snp_run_outside_has(run, call) &&
           (state->budget.tool_calls == 0 ||
            state->turn_tools + n_before < state->budget.tool_calls) &&
           arguments_check(run, call, &err) == 0;
}

enum snp_run_then snp_run_outside_act(struct snp_run *run)
{
    struct snp_run_state *state = &run->state;
    size_t index = state->next_call;
    struct snp_err err;

    if (slot_find(run, index) == NULL) {
        if (arguments_check(run, call_at(run, index), &err) < 0) {
            return snp_run_refuse(run, err.msg, false);
        }
        if (call_begin(run, index) < 0) {
            return SNP_RUN_AGAIN;
        }
    }
    while (slot_find(run, index) != NULL) {
        index++;
    }
    for (; may_begin(run, index); index++) {
        if (call_begin(run, index) < 0) {
            return SNP_RUN_AGAIN;
        }
    }
    return SNP_RUN_WAIT;
}

/* Ends ---------------------------------------------------------------------------------------- */

bool snp_run_outside_stop(struct snp_run *run, const char *why)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(run->outside); i++) {
        if (run->outside[i].call != NULL) {
            snp_usercall_stop(run->outside[i].call, why);
        }
    }
    return is_any_running(run);
}

void snp_run_outside_drop(struct snp_run *run)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(run->outside); i++) {
        slot_clear(&run->outside[i]);
    }
}

void snp_run_outside_lost(struct snp_run *run)
{
    struct snp_run_state *state = &run->state;
    struct snp_outside_call lost = {.is_error = true};

    while (state->tool != NULL && snp_json_bool(state->tool, "outside", false) &&
           !run->has_failed) {
        lost.content = snp_feedback_error(unknown_text);
        result_record(run, &lost);
        free(SNP_TAKE_PTR(lost.content));
    }
}

/* Resuming ------------------------------------------------------------------------------------ */

static const json_t *definition_find(const json_t *list, const char *name)
{
    size_t i;
    json_t *entry;

    json_array_foreach((json_t *)(uintptr_t)list, i, entry)
    {
        if (strcmp(name_of(entry), name) == 0) {
            return entry;
        }
    }
    return NULL;
}

int snp_run_outside_compare(const struct snp_run *run, struct snp_err *err)
{
    const json_t *recorded = json_object_get(run->state.head, "user_tools");
    const json_t *now =
        run->with.usertools == NULL ? NULL : snp_usertools_list(run->with.usertools);
    size_t i;
    json_t *entry;

    json_array_foreach((json_t *)(uintptr_t)now, i, entry)
    {
        const json_t *then = definition_find(recorded, name_of(entry));

        if (then == NULL || json_equal(then, entry) == 0) {
            return snp_fail(
                err, SNP_E_DENIED,
                "the tool %s %s when this run began; resume without it, or start a new run",
                name_of(entry), then == NULL ? "did not exist" : "was different");
        }
    }
    return 0;
}
