/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_BUDGET_H
#define SNP_RUN_BUDGET_H

/* Whether a run may call its model again: decisions without effects. */

#include <stdbool.h>
#include <stdint.h>

#include "run/state.h"

/* Why a run ends early. */
struct snp_run_stop {
    const char *by;     /* static: "max_depth", "token_budget", ... */
    bool can_be_raised; /* by is a configured limit */
    char message[800];
    char told[800]; /* for models, which cannot raise limits */
};

/* Estimate of the next call. */
struct snp_run_next {
    uint64_t input;      /* tokens, estimated */
    double input_usd;    /* of these */
    double output_usd;   /* of one token of the answer */
    bool is_priced;      /* else both mean nothing */
    int64_t elapsed_ms;  /* of the run, now */
    int64_t watched_ms;  /* of this, until viewers of the output had read */
    uint64_t output_cap; /* the most tokens the answer should have */
};

/*
 * True: over budget, *ret has the reason. False: *ret_max_tokens (at least 1) is the maximum for
 * its answer, so that neither tokens nor cost exceed their limits.
 */
bool snp_run_budget_is_over(const struct snp_run_state *state,
                            const struct snp_run_next *next,
                            uint64_t *ret_max_tokens,
                            struct snp_run_stop *ret);

/* Estimate of a sub-call. */
struct snp_run_sub_next {
    struct snp_run_next call; /* of its first call of the model */
    int64_t wanted_tokens;    /* of both directions, requested by the caller; 0 = as available */
    int64_t reserved_tokens;  /* that concurrent sub-calls may still use */
    double reserved_usd;
};

/*
 * True: the present completion may make no sub-call, *ret has the reason. False: *ret_budget is the
 * sub-call's budget, a share of the remaining one.
 */
bool snp_run_budget_sub_is_over(const struct snp_run_state *state,
                                const struct snp_run_sub_next *next,
                                struct snp_run_budget *ret_budget,
                                struct snp_run_stop *ret);

/*
 * Maximum tokens for the answer to a single call under that budget; below 64 it is not worth
 * calling.
 */
uint64_t snp_run_budget_sub_answer(const struct snp_run_state *state,
                                   const struct snp_run_sub_next *next,
                                   const struct snp_run_budget *budget);

/* Whether the next answer is the last one of its completion: after it no tool runs. */
bool snp_run_budget_is_last_turn(const struct snp_run_state *state);

/*
 * The stop of a run whose time is over, or too short for the next step. watched_ms: as in struct
 * snp_run_next; why: details, or ""; always true.
 */
bool snp_run_budget_timeout(const struct snp_run_state *state,
                            int64_t elapsed_ms,
                            int64_t watched_ms,
                            const char *why,
                            struct snp_run_stop *ret);

/* Whether the limit is an agent's and at its maximum. */
bool snp_run_budget_is_most(const struct snp_run_state *state, const char *limit);

/*
 * Limits that let `resume` continue, {LIMIT: value, null = none}: for each limit reached, or that
 * the next call would exceed, one with room for several more. next: of the run's own completion.
 * New reference.
 */
json_t *snp_run_budget_resume(const struct snp_run_state *state, const struct snp_run_next *next);

/* Fill in a stop; always true. */
bool snp_run_stop_set(struct snp_run_stop *stop,
                      const char *by,
                      bool can_be_raised,
                      const char *fmt,
                      ...) SNP_PRINTF(4, 5);

#endif
