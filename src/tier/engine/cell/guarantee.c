/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/engine/cell/guarantee.h"

#include <string.h>

void snp_guarantee_done(struct snp_guarantee *guarantee)
{
    json_decref(guarantee->notes);
    *guarantee = (struct snp_guarantee){0};
}

struct snp_guarantee snp_guarantee_copy(const struct snp_guarantee *guarantee)
{
    struct snp_guarantee copy = *guarantee;

    copy.notes = guarantee->notes == NULL ? NULL : json_copy(guarantee->notes);
    return copy;
}

json_t *snp_guarantee_json(const struct snp_guarantee *guarantee)
{
    static const char *const interpreters[] = {
        [SNP_GUARANTEE_OFF] = "off",
        [SNP_GUARANTEE_UNAVAILABLE] = "unavailable",
        [SNP_GUARANTEE_DROPPED] = "dropped_for_memory",
        [SNP_GUARANTEE_STANDBY] = "standby",
    };
    static const char *const workspaces[] = {
        [SNP_GUARANTEE_FILES_OFF] = "off",
        [SNP_GUARANTEE_FILES_UNAVAILABLE] = "unavailable",
        [SNP_GUARANTEE_FILES_COPIED] = "copied",
    };

    return json_pack("{s:s,s:s,s:o}", "interpreter", interpreters[guarantee->interpreter],
                     "workspace", workspaces[guarantee->workspace], "notes",
                     guarantee->notes == NULL ? json_array() : json_incref(guarantee->notes));
}

void snp_guarantee_add(struct snp_guarantee *guarantee, json_t *text)
{
    if (guarantee->notes == NULL) {
        guarantee->notes = json_array();
    }
    (void)json_array_append_new(guarantee->notes, text);
}

void snp_guarantee_note(struct snp_guarantee *guarantee, const char *text)
{
    size_t i;
    json_t *note;

    json_array_foreach(guarantee->notes, i, note)
    {
        if (strcmp(json_string_value(note), text) == 0) {
            return;
        }
    }
    snp_guarantee_add(guarantee, json_string(text));
}
