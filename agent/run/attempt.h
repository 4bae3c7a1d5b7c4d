/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_ATTEMPT_H
#define SNP_RUN_ATTEMPT_H

/*
 * The record of a repair attempt, between two verdicts: the model's explanation of the bug, and
 * whether it gave it, and ran the tests, before it changed a file. A part of the state of a run:
 * derived from records only.
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
    bool was_explained; /* both lines came before the change */
    bool was_run;       /* a call before it names a test command, or its runner */
    bool is_over;       /* judged; the next tool call begins the next attempt */
    bool has_next_hypothesis; /* the line came after the verdict, so it is for the next one */
    bool has_next_invariant;
};

void snp_run_attempt_done(struct snp_run_attempt *attempt);

/* Add text of the model. */
void snp_run_attempt_text(struct snp_run_attempt *attempt, const char *text);

/* Add a tool call and the files of its result. repair: of the head. */
void snp_run_attempt_call(struct snp_run_attempt *attempt,
                          const json_t *repair,
                          const json_t *call,
                          const json_t *files);

/* End the attempt with a verdict after which the model continues. */
void snp_run_attempt_end(struct snp_run_attempt *attempt);

/* If this attempt is over, begin the next one with the lines written since the verdict. */
void snp_run_attempt_next(struct snp_run_attempt *attempt);

/* Members for the report. New reference. */
json_t *snp_run_attempt_json(const struct snp_run_attempt *attempt);

#endif
