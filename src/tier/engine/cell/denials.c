/* SPDX-License-Identifier: Apache-2.0 */
/* A list of at most SNP_DENIALS_MAX different denials; further ones are only counted. */
#include "tier/engine/cell/denials.h"

#include <string.h>

#include "base/str.h"

enum {
    TEXT_MAX = 200,
    COUNT_MAX = 1000000000
};

static bool is_same(const json_t *have, const struct snp_denial *d)
{
    return snp_streq(snp_json_str(have, "source", ""), d->source) &&
           snp_streq(snp_json_str(have, "operation", ""), d->operation) &&
           snp_streq(snp_json_str(have, "object", ""), d->object) &&
           snp_streq(snp_json_str(have, "rule", ""), d->rule);
}

static json_t *text(const char *value)
{
    return snp_json_bytes(value, strnlen(value, TEXT_MAX));
}

void snp_denials_add(struct snp_denials *denials, const struct snp_denial *d)
{
    int count = d->count == 0 ? 1 : d->count > COUNT_MAX ? COUNT_MAX : (int)d->count;
    size_t i;
    json_t *have;

    if (denials->list == NULL) {
        denials->list = json_array();
    }
    json_array_foreach(denials->list, i, have)
    {
        if (is_same(have, d)) {
            (void)json_object_set_new(have, "count",
                                      json_integer(snp_json_int(have, "count", 1) + count));
            return;
        }
    }
    if (json_array_size(denials->list) >= SNP_DENIALS_MAX) {
        denials->dropped++;
        return;
    }
    (void)json_array_append_new(
        denials->list, json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:i}", "source", text(d->source),
                                 "control", text(d->control), "operation", text(d->operation),
                                 "object", text(d->object), "rule", text(d->rule), "hint",
                                 text(d->hint == NULL ? "" : d->hint), "count", count));
}

void snp_denials_done(struct snp_denials *denials)
{
    json_decref(denials->list);
    denials->list = NULL;
    denials->dropped = 0;
}
