/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_ABOUT_H
#define SNP_TIER_ENGINE_ABOUT_H

/* What a tier says of itself, as data (docs/wire.md, `probe`). */

#include <stdbool.h>

#include "base/json.h"

/* The part that a tier brings. */
struct snp_about {
    int rank;                      /* policy/tier_file.h says what it means */
    bool is_by_name;               /* `auto` never takes it */
    const char *const *guarantees; /* names; NULL after the last */
    const char *const *kernels;    /* runtimes that have one of their own; likewise, NULL = none */
    const char *const *verbs;      /* besides the methods that all serve; likewise */
};

/*
 * {"rank", "guarantees", "kernels", "verbs"}. methods: an array of names, taken. New reference,
 * NULL when out of memory.
 */
json_t *snp_about_json(const struct snp_about *about, json_t *methods);

#endif
