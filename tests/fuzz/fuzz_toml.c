/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration file of a stranger: TOML to JSON, and every value of every table to
 * every key. A value that is accepted has the type its key promises; a refusal is one line.
 */
#include <string.h>

#include "base/config/toml.h"
#include "base/config/value.h"
#include "fuzz/target.h"

static json_type type_of(enum snp_config_key key)
{
    static const json_type types[] = {
        [SNP_CONFIG_STRING] = JSON_STRING, [SNP_CONFIG_PATH] = JSON_STRING,
        [SNP_CONFIG_BOOL] = JSON_TRUE,     [SNP_CONFIG_INT] = JSON_INTEGER,
        [SNP_CONFIG_FLOAT] = JSON_REAL,    [SNP_CONFIG_LIST] = JSON_ARRAY,
        [SNP_CONFIG_LIMIT] = JSON_INTEGER,
    };
    return types[snp_config_info(key)->type];
}

static void check_value(enum snp_config_key key, const json_t *given)
{
    struct snp_err err;
    snp_autojson json_t *value = NULL;
    int r = snp_value_from_json(key, given, "key in file", &value, &err);
    if (r < 0) {
        SNP_ASSERT(r == SNP_E_INVALID && strchr(err.msg, '\n') == NULL);
        return;
    }
    json_type expected = type_of(key);
    SNP_ASSERT(value == NULL || json_typeof(value) == expected ||
               (expected == JSON_TRUE && json_is_false(value)));
}

static void check_members(json_t *object)
{
    const char *name = NULL;
    json_t *given = NULL;
    json_object_foreach(object, name, given)
    {
        for (int key = SNP_KEY_NONE + 1; key < SNP_KEY_N; key++) {
            check_value((enum snp_config_key)key, given);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct snp_toml_fault fault = {0};
    snp_autojson json_t *document = NULL;
    if (snp_toml_parse((const char *)bytes, n, &document, &fault) < 0) {
        SNP_ASSERT(document == NULL && fault.text[0] != '\0');
        SNP_ASSERT(memchr(fault.text, '\0', sizeof(fault.text)) != NULL);
        SNP_ASSERT(strpbrk(fault.text, "\r\n") == NULL);
        return 0;
    }
    SNP_ASSERT(json_is_object(document));
    check_members(document);
    check_members(json_object_get(document, "snipara_sandbox"));
    return 0;
}
