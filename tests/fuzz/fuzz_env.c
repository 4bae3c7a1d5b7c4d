/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A .env file of a stranger: what is read are names a shell knows and texts in UTF-8, and
 * no variable can be read as a value of another type than its key's.
 */
#include <string.h>

#include "base/config/dotenv.h"
#include "base/config/value.h"
#include "base/str.h"
#include "fuzz/target.h"

enum {
    VALUES_TRIED = 8
};

static void count_line(void *arg, unsigned line, const char *what)
{
    unsigned *last = arg;
    SNP_ASSERT(line > *last && what[0] != '\0');
    *last = line;
}

static void check_name(const char *name)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char more[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    SNP_ASSERT(name[0] != '\0' && strchr(first, name[0]) != NULL);
    SNP_ASSERT(name[strspn(name, more)] == '\0');
}

static void check_value(const char *text)
{
    for (int key = SNP_KEY_NONE + 1; key < SNP_KEY_N; key++) {
        struct snp_err err;
        snp_autojson json_t *value = NULL;
        int r;

        if (snp_config_info((enum snp_config_key)key)->is_tier) {
            continue; /* an error asks all tiers what they are: programs that run */
        }
        r = snp_value_from_text((enum snp_config_key)key, text, "key from NAME", &value, &err);
        SNP_ASSERT(r == 0 || r == SNP_E_INVALID);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct snp_err err;
    unsigned last_line = 0;
    snp_autojson json_t *vars = NULL;
    SNP_ASSERT(snp_dotenv_parse((const char *)bytes, n, count_line, &last_line, &vars, &err) == 0);
    const char *name = NULL;
    json_t *value = NULL;
    unsigned tried = 0;
    json_object_foreach(vars, name, value)
    {
        check_name(name);
        SNP_ASSERT(json_is_string(value));
        SNP_ASSERT(strlen(json_string_value(value)) == json_string_length(value));
        SNP_ASSERT(json_string_length(value) < n);
        if (tried++ < VALUES_TRIED) {
            check_value(json_string_value(value));
        }
    }
    return 0;
}
