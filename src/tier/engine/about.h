/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_ABOUT_H
#define SNP_TIER_ENGINE_ABOUT_H

/* A tier's description of itself, as data (docs/wire.md, `probe`). */

#include <stdbool.h>

#include "base/json.h"

/* The part that each tier supplies. */
struct snp_about {
    int rank;                      /* see policy/tier_file.h */
    bool is_by_name;               /* never chosen by `auto` */
    const char *const *guarantees; /* names; NULL-terminated */
    const char *const *kernels;    /* runtimes that bring a kernel; NULL-terminated, NULL = none */
    const char *const *verbs;      /* besides the methods that all tiers serve; NULL-terminated */
};

/*
 * {"rank", "guarantees", "kernels", "verbs"}. methods: an array of names, taken. New reference,
 * NULL when out of memory.
 */
json_t *snp_about_json(const struct snp_about *about, json_t *methods);

#endif
