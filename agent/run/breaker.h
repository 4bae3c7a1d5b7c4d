/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_BREAKER_H
#define SNP_RUN_BREAKER_H

/*
 * Stops a model that repeats itself: the same error (numbers and addresses aside), the same call
 * with the same result, or the same answer without a call, three times in a row. Equal calls of one
 * answer are one repetition: the model has not yet seen the result of the first when it makes
 * the second.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

enum {
    SNP_BREAKER_TIMES = 3
};

/* Embedded; zero to begin with. */
struct snp_breaker {
    uint64_t error; /* hash of the last error; 0 = the last call did not fail */
    unsigned n_errors;
    uint64_t call; /* hash of the last call and its result */
    unsigned n_calls;
    int64_t answer; /* number of the answer with the last call */
    uint64_t text;  /* hash of the last answer; 0 = it had tool calls */
    unsigned n_texts;
};

/* Add an ended tool call of the n-th answer. error: its text if it failed, else NULL. */
void snp_breaker_add(struct snp_breaker *breaker,
                     int64_t answer,
                     const char *tool,
                     const json_t *arguments,
                     const char *result,
                     const char *error);

/* Note an answer without a tool call. */
void snp_breaker_say(struct snp_breaker *breaker, const char *text);

bool snp_breaker_is_tripped(const struct snp_breaker *breaker);

#endif
