/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_CELL_DENIALS_H
#define SNP_TIER_ENGINE_CELL_DENIALS_H

/* Denials during a cell, as data: bounded; equal ones are merged and counted. */

#include <stdint.h>

#include "base/json.h"

enum {
    SNP_DENIALS_MAX = 32
};

struct snp_denial {
    const char *source; /* "kernel", "limit", "guest" */
    const char *control;
    const char *operation;
    const char *object;
    const char *rule;
    const char *hint; /* NULL = none */
    uint64_t count;   /* occurrences; 0 = once */
};

struct snp_denials {
    json_t *list; /* owned array; NULL = none */
    uint64_t dropped;
};

/* Texts are copied; invalid UTF-8 is repaired, each is cut at 200 bytes. */
void snp_denials_add(struct snp_denials *denials, const struct snp_denial *d);
void snp_denials_done(struct snp_denials *denials);

#endif
