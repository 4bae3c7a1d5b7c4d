/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_ATTEMPT_H
#define SNP_RUN_ATTEMPT_H

/*
 * What a record says of an attempt at a repair, between two verdicts: how the model explained the
 * bug, and whether it did so, and ran the tests, before it changed a file. A part of the state of a
 * run: made of records alone.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

/* Zero to begin with. */
struct snp_run_attempt {
    int64_t n;          /* attempts before it */
    json_t *hypothesis; /* owned: the last line HYPOTHESIS: of the model; NULL = it wrote none */
    json_t *invariant;  /* owned: the same of INVARIANT: */
    bool has_changed;   /* it changed a file, caches aside */
    bool was_explained; /* both lines came before that */
    bool was_run;       /* so did a call that names a test command, or its runner */
    bool is_over;       /* there is a verdict; the next call of a tool begins the next one */
    bool has_next_hypothesis; /* the line came after the verdict, so it is of the next one */
    bool has_next_invariant;
};

void snp_run_attempt_done(struct snp_run_attempt *attempt);

/* The model wrote this. */
void snp_run_attempt_text(struct snp_run_attempt *attempt, const char *text);

/* A call of a tool and the files of its result. repair: of the head. */
void snp_run_attempt_call(struct snp_run_attempt *attempt,
                          const json_t *repair,
                          const json_t *call,
                          const json_t *files);

/* There is a verdict, with which the model continues. */
void snp_run_attempt_end(struct snp_run_attempt *attempt);

/*
 * The next one begins, where this one is over: with the lines that the model wrote since
 * the verdict.
 */
void snp_run_attempt_next(struct snp_run_attempt *attempt);

/* Members of the evidence. New reference. */
json_t *snp_run_attempt_json(const struct snp_run_attempt *attempt);

#endif
