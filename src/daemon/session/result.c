/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of results and events. The tier reads a hostile guest, and clients are promised fixed
 * records, so a tier that passes anything else is ended.
 */
#include "daemon/session/result.h"

#include <string.h>

#include "base/wire/result.h"
#include "base/wire/rpc.h"

int snp_manifest_check(json_t *manifest, struct snp_err *err)
{
    const char *key;
    json_t *control;

    SNP_TRY(snp_record_check(manifest, &snp_result_manifest_form, err));
    json_object_foreach(json_object_get(manifest, "controls"), key, control)
    {
        if (!json_is_boolean(json_object_get(control, "enforced"))) {
            return snp_fail(err, SNP_E_INVALID, "manifest: control '%.64s' does not say 'enforced'",
                            key);
        }
    }
    return 0;
}

int snp_result_check(json_t *head, size_t raw_len, struct snp_err *err)
{
    json_t *manifest = json_object_get(head, "manifest");
    int r = snp_record_check(head, &snp_result_form, err);

    if (r == 0 && raw_len != 0) {
        return snp_fail(err, SNP_E_INVALID, "result: has raw bytes");
    }
    return r < 0 || manifest == NULL ? r /* the manifest of `open` stands */
                                     : snp_manifest_check(manifest, err);
}

static int display_check(json_t *head, size_t raw_len, struct snp_err *err)
{
    size_t total = 0;
    size_t i;
    json_t *pair;

    SNP_TRY(snp_record_check(head, &snp_event_display_form, err));
    json_array_foreach(json_object_get(head, "mime"), i, pair)
    {
        const char *type = json_string_value(json_array_get(pair, 0));
        const json_t *length = json_array_get(pair, 1);
        json_int_t n = json_integer_value(length);

        if (type == NULL || json_array_size(pair) != 2 || !json_is_integer(length) || n < 0 ||
            (uint64_t)n > raw_len - total) {
            return snp_fail(err, SNP_E_INVALID, "display: part %zu is not [type, byte length]", i);
        }
        total += (size_t)n;
    }
    if (total != raw_len) {
        return snp_fail(err, SNP_E_INVALID, "display: the parts do not make up the raw bytes");
    }
    return 0;
}

static const struct snp_record *const events[] = {
    &snp_event_stdout_form,  &snp_event_stderr_form, &snp_event_gap_form,
    &snp_event_display_form, &snp_event_call_form,
};

int snp_event_check(json_t *head, size_t raw_len, struct snp_err *err)
{
    const char *name = snp_json_str(head, "event", "");
    const struct snp_record *event = NULL;

    for (size_t i = 0; event == NULL && i < SNP_ARRAY_LEN(events); i++) {
        event = strcmp(events[i]->what, name) == 0 ? events[i] : NULL;
    }
    if (event == NULL) {
        return snp_fail(err, SNP_E_INVALID, "event: unknown kind '%.32s'", name);
    }
    if (event == &snp_event_display_form) {
        return display_check(head, raw_len, err);
    }
    SNP_TRY(snp_record_check(head, event, err));
    if (event == &snp_event_call_form && (raw_len == 0 || raw_len > SNP_CALL_BYTES_MAX)) {
        return snp_fail(err, SNP_E_INVALID, "call: of a wrong size");
    }
    if (event == &snp_event_gap_form && raw_len != 0) {
        return snp_fail(err, SNP_E_INVALID, "gap: has raw bytes");
    }
    return 0;
}
