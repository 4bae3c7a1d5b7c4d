/* SPDX-License-Identifier: Apache-2.0 */
/* Outcomes of runs. */
#include "run/outcome.h"

#include <string.h>

#include "base/str.h"

struct snp_run_ending snp_run_ending_of(const struct snp_run_state *state)
{
    return (struct snp_run_ending){
        .stopped_by = snp_json_str(state->end, "stopped_by", NULL),
        .error = snp_json_str(state->end, "error", NULL),
    };
}

json_t *snp_run_outcome_cost(const struct snp_run_state *state)
{
    return state->is_cost_unknown ? json_null() : json_real(state->cost_usd);
}

json_t *snp_run_outcome_answer(const struct snp_run_state *state)
{
    const struct snp_run_level *root = snp_run_state_root(state);

    return root->final != NULL ? json_incref(json_object_get(root->final, "answer"))
                               : snp_run_state_partial(root);
}

/* The completed iterations, and the last one, which ends with the run. */
static json_t *summaries(const struct snp_run_state *state)
{
    json_t *list = json_copy(state->iterations);
    json_t *last = snp_run_state_summary(state);

    if (state->iteration > 0 && json_array_append_new(list, last) < 0) {
        json_decref(list);
        return NULL;
    }
    if (state->iteration == 0) {
        json_decref(last);
    }
    return list;
}

json_t *snp_run_outcome_agent(const struct snp_run_state *state,
                              const struct snp_run_ending *ending)
{
    const json_t *final = snp_run_state_root(state)->final;
    bool is_cancelled = snp_streq(ending->stopped_by, "cancelled");
    const char *source = is_cancelled || snp_streq(ending->stopped_by, "error")
                             ? "error"
                             : snp_json_str(final, "answer_source", "forced");
    json_t *answer = snp_run_outcome_answer(state);

    if (json_string_length(answer) == 0 && final == NULL) {
        json_decref(answer);
        answer = json_string(is_cancelled ? "Agent was cancelled." : "No answer produced.");
    }
    return json_pack("{s:o, s:s, s:I, s:I, s:o, s:I, s:b, s:O, s:b, s:o, s:O, s:s?}", "answer",
                     answer, "answer_source", source, "iterations", (json_int_t)state->iteration,
                     "total_tokens", (json_int_t)snp_run_state_tokens(state), "total_cost",
                     snp_run_outcome_cost(state), "duration_ms", (json_int_t)state->elapsed_ms,
                     "forced_termination", strcmp(source, "forced") == 0, "run_id",
                     json_object_get(state->head, "run_id"), "success", ending->error == NULL,
                     "iteration_summaries", summaries(state), "trajectory_id",
                     json_object_get(state->head, "trajectory_id"), "error", ending->error);
}
