/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_OUTCOME_H
#define SNP_RUN_OUTCOME_H

/* Outcome of an agent's run, from its state: for its driver, and for readers of its record. */

#include "run/state.h"

/* The end of a run. */
struct snp_run_ending {
    const char *stopped_by; /* of its end; NULL = done */
    const char *error;      /* NULL = none */
};

/* The recorded ending; without one all is NULL. Borrowed from the state. */
struct snp_run_ending snp_run_ending_of(const struct snp_run_state *state);

/* The cost, null if unknown. New reference. */
json_t *snp_run_outcome_cost(const struct snp_run_state *state);

/* The final answer, else a partial one. New reference. */
json_t *snp_run_outcome_answer(const struct snp_run_state *state);

/* AgentResult. New reference, NULL when out of memory. */
json_t *snp_run_outcome_agent(const struct snp_run_state *state,
                              const struct snp_run_ending *ending);

#endif
