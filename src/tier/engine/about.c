/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/engine/about.h"

static void add_words(json_t *list, const char *const *words)
{
    for (; words != NULL && *words != NULL; words++) {
        (void)json_array_append_new(list, json_string(*words));
    }
}

json_t *snp_about_json(const struct snp_about *about, json_t *methods)
{
    json_t *guarantees = json_array();
    json_t *kernels = json_array();

    add_words(guarantees, about->guarantees);
    add_words(kernels, about->kernels);
    add_words(methods, about->verbs);
    return json_pack("{s:i, s:b, s:o, s:o, s:o}", "rank", about->rank, "by_name", about->is_by_name,
                     "guarantees", guarantees, "kernels", kernels, "verbs", methods);
}
