/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of results and events. The tier has read a hostile guest; clients are
 * promised fixed records, so a tier that lets anything else through is ended.
 */
#include "daemon/session/result.h"

#include <string.h>

#include "base/str.h"
#include "policy/session_name.h"
#include "store/job.h"
#include "wire/record.h"
#include "wire/rpc.h"

enum {
    DENIALS_MAX = 32,
    FILES_MAX = 100000,
    MIME_MAX = 32,
    NOTES_MAX = 16,
};

static const struct snp_field result_fields[] = {
    {"session",         SNP_T_STR,                          SNP_SESSION_ID_LEN},
    {"cell",            SNP_T_INT,                          0                 },
    {"epoch",           SNP_T_INT | SNP_T_OPT,              0                 },
    {"status",          SNP_T_STR,                          0                 },
    {"state",           SNP_T_STR,                          0                 },
    {"exit_code",       SNP_T_INT | SNP_T_NEG | SNP_T_NULL, 0                 },
    {"signal",          SNP_T_STR | SNP_T_NULL,             32                },
    {"stdout",          SNP_T_TEXT | SNP_T_OPT,             0                 },
    {"stderr",          SNP_T_TEXT | SNP_T_OPT,             0                 },
    {"value",           SNP_T_TEXT | SNP_T_NULL,            0                 },
    {"result",          SNP_T_TEXT | SNP_T_NULL,            0                 },
    {"displays",        SNP_T_ARR | SNP_T_OPT,              0                 },
    {"error",           SNP_T_OBJ | SNP_T_NULL,             0                 },
    {"denials",         SNP_T_ARR,                          DENIALS_MAX       },
    {"denials_dropped", SNP_T_INT,                          0                 },
    {"restarted",       SNP_T_BOOL,                         0                 },
    {"transaction",     SNP_T_OBJ | SNP_T_OPT,              0                 },
    {"limit",           SNP_T_OBJ | SNP_T_NULL,             0                 },
    {"usage",           SNP_T_OBJ,                          0                 },
    {"output",          SNP_T_OBJ,                          0                 },
    {"files",           SNP_T_OBJ,                          0                 },
    {"manifest",        SNP_T_OBJ | SNP_T_OPT,              0                 },
    {"sources",         SNP_T_OBJ,                          0                 },
};
static const struct snp_record result_record = SNP_RECORD("result", result_fields);

static const struct snp_field error_fields[] = {
    {"type",      SNP_T_TEXT,                          0},
    {"message",   SNP_T_TEXT,                          0},
    {"traceback", SNP_T_TEXT | SNP_T_NULL,             0},
    {"line",      SNP_T_INT | SNP_T_NULL,              0},
    {"hint",      SNP_T_TEXT | SNP_T_NULL,             0},
    {"cause",     SNP_T_TEXT | SNP_T_NULL | SNP_T_OPT, 0},
    {"path",      SNP_T_TEXT | SNP_T_NULL | SNP_T_OPT, 0},
    {"module",    SNP_T_OBJ | SNP_T_NULL | SNP_T_OPT,  0},
};

static const struct snp_field limit_fields[] = {
    {"key",   SNP_T_STR, 64 },
    {"value", SNP_T_INT, 0  },
    {"text",  SNP_T_STR, 256},
    {"flag",  SNP_T_STR, 64 },
};

static const struct snp_field usage_fields[] = {
    {"wall_us",           SNP_T_INT,              0},
    {"cpu_us",            SNP_T_INT | SNP_T_NULL, 0},
    {"memory_peak_bytes", SNP_T_INT | SNP_T_NULL, 0},
    {"stdout_bytes",      SNP_T_INT,              0},
    {"stderr_bytes",      SNP_T_INT,              0},
    {"written_bytes",     SNP_T_INT | SNP_T_NULL, 0},
    {"setup_us",          SNP_T_INT,              0},
};

static const struct snp_field output_fields[] = {
    {"truncated",    SNP_T_BOOL,             0             },
    {"stdout_chars", SNP_T_INT,              0             },
    {"stderr_chars", SNP_T_INT,              0             },
    {"handle",       SNP_T_STR | SNP_T_NULL, SNP_CAP_HANDLE},
};

static const struct snp_field files_fields[] = {
    {"created",   SNP_T_ARR,  FILES_MAX},
    {"modified",  SNP_T_ARR,  FILES_MAX},
    {"deleted",   SNP_T_ARR,  FILES_MAX},
    {"truncated", SNP_T_BOOL, 0        },
};

static const struct snp_field transaction_fields[] = {
    {"interpreter", SNP_T_STR, 32       },
    {"workspace",   SNP_T_STR, 32       },
    {"notes",       SNP_T_ARR, NOTES_MAX},
};

static const struct snp_field sources_fields[] = {
    {"attested", SNP_T_ARR, 64},
    {"claimed",  SNP_T_ARR, 64},
};

/* The members that are records themselves; absent or null ones are passed over. */
static const struct {
    const char *member;
    struct snp_record record;
} nested[] = {
    {"error",       SNP_RECORD("result.error",       error_fields)      },
    {"limit",       SNP_RECORD("result.limit",       limit_fields)      },
    {"usage",       SNP_RECORD("result.usage",       usage_fields)      },
    {"output",      SNP_RECORD("result.output",      output_fields)     },
    {"files",       SNP_RECORD("result.files",       files_fields)      },
    {"transaction", SNP_RECORD("result.transaction", transaction_fields)},
    {"sources",     SNP_RECORD("result.sources",     sources_fields)    },
};

static const struct snp_field denial_fields[] = {
    {"source",    SNP_T_STR,               16},
    {"control",   SNP_T_STR,               32},
    {"operation", SNP_T_TEXT,              0 },
    {"object",    SNP_T_TEXT | SNP_T_NULL, 0 },
    {"rule",      SNP_T_TEXT | SNP_T_NULL, 0 },
    {"hint",      SNP_T_TEXT | SNP_T_NULL, 0 },
    {"count",     SNP_T_INT,               0 },
};
static const struct snp_record denial_record = SNP_RECORD("result.denials", denial_fields);

static const struct snp_field manifest_fields[] = {
    {"tier",     SNP_T_STR, 32},
    {"template", SNP_T_STR, 32},
    {"controls", SNP_T_OBJ, 0 },
    {"degraded", SNP_T_ARR, 64},
};
static const struct snp_record manifest_record = {"manifest", manifest_fields,
                                                  SNP_ARRAY_LEN(manifest_fields), true};

static const struct snp_field output_event_fields[] = {
    {"event", SNP_T_STR, 16},
};
static const struct snp_record output_event = SNP_RECORD("event", output_event_fields);

static const struct snp_field gap_fields[] = {
    {"event",         SNP_T_STR, 16},
    {"stream",        SNP_T_STR, 16},
    {"omitted_chars", SNP_T_INT, 0 },
};
static const struct snp_record gap_record = SNP_RECORD("gap", gap_fields);

static const struct snp_field display_fields[] = {
    {"event", SNP_T_STR, 16      },
    {"mime",  SNP_T_ARR, MIME_MAX},
};
static const struct snp_record display_record = SNP_RECORD("display", display_fields);

static bool is_word(const char *text, const char *words)
{
    size_t n = strlen(text);

    while (*words != '\0') {
        size_t len = strcspn(words, " ");

        if (len == n && strncmp(words, text, n) == 0) {
            return true;
        }
        words += len;
        words += strspn(words, " ");
    }
    return false;
}

static int strings_check(json_t *array, const char *what, struct snp_err *err)
{
    size_t i;
    json_t *item;

    json_array_foreach(array, i, item)
    {
        if (!json_is_string(item)) {
            return snp_fail(err, SNP_E_INVALID, "%s: element %zu must be a string", what, i);
        }
    }
    return 0;
}

static int lists_check(json_t *head, struct snp_err *err)
{
    static const char *const lists[][2] = {
        {"files",       "created" },
        {"files",       "modified"},
        {"files",       "deleted" },
        {"sources",     "attested"},
        {"sources",     "claimed" },
        {"transaction", "notes"   },
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(lists); i++) {
        json_t *list = json_object_get(json_object_get(head, lists[i][0]), lists[i][1]);
        int r = strings_check(list, lists[i][1], err);

        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int snp_manifest_check(json_t *manifest, struct snp_err *err)
{
    const char *key;
    json_t *control;
    int r = snp_record_check(manifest, &manifest_record, err);

    if (r < 0) {
        return r;
    }
    json_object_foreach(json_object_get(manifest, "controls"), key, control)
    {
        if (!json_is_boolean(json_object_get(control, "enforced"))) {
            return snp_fail(err, SNP_E_INVALID,
                            "manifest: control '%.64s' does not say 'enforced'", key);
        }
    }
    return strings_check(json_object_get(manifest, "degraded"), "manifest.degraded", err);
}

int snp_result_check(json_t *head, size_t raw_len, struct snp_err *err)
{
    size_t i;
    json_t *item;
    int r = snp_record_check(head, &result_record, err);

    if (r == 0 && raw_len != 0) {
        return snp_fail(err, SNP_E_INVALID, "result: has raw bytes");
    }
    if (r == 0 && !is_word(snp_json_str(head, "status", ""),
                           "ok error timeout oom killed limit interrupted")) {
        return snp_fail(err, SNP_E_INVALID, "result: unknown 'status'");
    }
    if (r == 0 && !is_word(snp_json_str(head, "state", ""),
                           "kept rolled_back restored_from_checkpoint lost")) {
        return snp_fail(err, SNP_E_INVALID, "result: unknown 'state'");
    }
    for (i = 0; r == 0 && i < SNP_ARRAY_LEN(nested); i++) {
        json_t *value = json_object_get(head, nested[i].member);

        if (value != NULL && !json_is_null(value)) {
            r = snp_record_check(value, &nested[i].record, err);
        }
    }
    if (r < 0) {
        return r;
    }
    json_array_foreach(json_object_get(head, "denials"), i, item)
    {
        r = snp_record_check(item, &denial_record, err);
        if (r < 0) {
            return r;
        }
    }
    r = lists_check(head, err);
    if (r < 0) {
        return r;
    }
    if (json_object_get(head, "manifest") == NULL) {
        return 0; /* that of `open` stands */
    }
    return snp_manifest_check(json_object_get(head, "manifest"), err);
}

static int display_check(json_t *head, size_t raw_len, struct snp_err *err)
{
    size_t total = 0;
    size_t i;
    json_t *pair;
    int r = snp_record_check(head, &display_record, err);

    if (r < 0) {
        return r;
    }
    json_array_foreach(json_object_get(head, "mime"), i, pair)
    {
        const char *type = json_string_value(json_array_get(pair, 0));
        const json_t *length = json_array_get(pair, 1);
        json_int_t n = json_integer_value(length);

        if (type == NULL || json_array_size(pair) != 2 || !json_is_integer(length) || n < 0 ||
            (uint64_t)n > raw_len - total) {
            return snp_fail(err, SNP_E_INVALID, "display: part %zu is not [type, byte length]",
                            i);
        }
        total += (size_t)n;
    }
    if (total != raw_len) {
        return snp_fail(err, SNP_E_INVALID, "display: the parts do not make up the raw bytes");
    }
    return 0;
}

static const struct snp_field call_fields[] = {
    {"event", SNP_T_STR, 16        },
    {"call",  SNP_T_INT, UINT32_MAX},
};
static const struct snp_record call_record = SNP_RECORD("call", call_fields);

int snp_event_check(json_t *head, size_t raw_len, struct snp_err *err)
{
    const char *event = snp_json_str(head, "event", "");
    int r;

    if (is_word(event, "stdout stderr")) {
        return snp_record_check(head, &output_event, err);
    }
    if (strcmp(event, "display") == 0) {
        return display_check(head, raw_len, err);
    }
    if (strcmp(event, "call") == 0) {
        r = snp_record_check(head, &call_record, err);
        return r < 0 || (raw_len > 0 && raw_len <= SNP_CALL_BYTES_MAX)
                   ? r
                   : snp_fail(err, SNP_E_INVALID, "call: of a wrong size");
    }
    if (strcmp(event, "gap") != 0) {
        return snp_fail(err, SNP_E_INVALID, "event: unknown kind '%.32s'", event);
    }
    r = snp_record_check(head, &gap_record, err);
    if (r == 0 &&
        (raw_len != 0 || !is_word(snp_json_str(head, "stream", ""), "stdout stderr"))) {
        return snp_fail(err, SNP_E_INVALID, "gap: of an unknown stream, or with raw bytes");
    }
    return r;
}
