/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_OUTCOME_H
#define SNP_RUN_OUTCOME_H

/* What an agent's run came to, from its state: for who drove it, and for who reads its record. */

#include "run/state.h"

/* How it ended. */
struct snp_run_ending {
    const char *stopped_by; /* as its end says; NULL = it is done */
    const char *error;      /* NULL = none */
};

/* The ending that is on record; of one without an end all is NULL. Borrowed from the state. */
struct snp_run_ending snp_run_ending_of(const struct snp_run_state *state);

/* What it cost, null if that is not known. New reference. */
json_t *snp_run_outcome_cost(const struct snp_run_state *state);

/* The final answer, else what can be said without one. New reference. */
json_t *snp_run_outcome_answer(const struct snp_run_state *state);

/* AgentResult. New reference, NULL when out of memory. */
json_t *snp_run_outcome_agent(const struct snp_run_state *state,
                              const struct snp_run_ending *ending);

#endif
