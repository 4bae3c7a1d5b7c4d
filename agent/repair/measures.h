/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_REPAIR_MEASURES_H
#define SNP_REPAIR_MEASURES_H

/*
 * Measures of repairs: one table for evidence, `eval` and `stats`. Measures of one verdict are an
 * object NAME -> a number, true or false, or null if not measured. Pure.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

struct snp_measure {
    const char *name;
    const char *unit; /* "share" of true values, or the unit of a number */
    const char *how;
    bool is_sum; /* totalled as a sum, not as a mean */
};
#define SNP_MEASURES     14
#define SNP_MEASURE_TEXT 48
extern const struct snp_measure snp_measures[SNP_MEASURES];

/* Inputs for the measures of a verdict; borrowed. */
struct snp_measured {
    bool is_ready;
    size_t n_before;       /* other patches judged before this one */
    bool was_first_ready;  /* the first of those patches was ready */
    const json_t *base;    /* runs on the clean project */
    const json_t *runs;    /* runs on the clean project, then on the patched one */
    const json_t *look;    /* the result of reading the patch; NULL = it was not read */
    const json_t *checks;  /* of linters; NULL = none ran */
    size_t n_secrets;      /* files with new secrets */
    const json_t *attempt; /* of an agent; NULL = no agent */
};

/* Make the measures of one verdict. New reference. */
json_t *snp_measures_make(const struct snp_measured *of);

/*
 * Combine an array of measures into one object of the same names; null where all are null. New
 * reference.
 */
json_t *snp_measures_sum(const json_t *all);

/* Format a measure for people. */
void snp_measure_text(const struct snp_measure *of,
                      const json_t *value,
                      char out[SNP_MEASURE_TEXT]);

#endif
