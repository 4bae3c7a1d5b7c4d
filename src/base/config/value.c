/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From text or TOML to a checked value. As in 2.x, numbers and booleans may also be written as text
 * ("4", "yes"), and lists as "a, b" or as JSON.
 */

#include "base/config/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/policy/tier_file.h"
#include "base/str.h"

enum {
    TIERS_SHOWN = 256,
    TEXT_SHOWN = 60,
    LIST_MAX = 1000, /* items */
};

static const char *const expectations[] = {
    [SNP_CONFIG_STRING] = "text",
    [SNP_CONFIG_PATH] = "a path",
    [SNP_CONFIG_BOOL] = "true or false",
    [SNP_CONFIG_INT] = "a whole number",
    [SNP_CONFIG_FLOAT] = "a number",
    [SNP_CONFIG_LIST] = "a list of texts",
    [SNP_CONFIG_LIMIT] = "a number or a size such as 512m",
};

/* "text 'x'", "the number 5", "a table": the value found, for messages. */
static const char *describe(enum snp_config_key key, const json_t *given, char *out, size_t len)
{
    switch (json_typeof(given)) {
    case JSON_STRING:
        if (snp_config_info(key)->is_secret) {
            return "other text";
        }
        (void)snprintf(out, len, "'%.*s'", TEXT_SHOWN, json_string_value(given));
        return out;
    case JSON_INTEGER:
        (void)snprintf(out, len, "%" JSON_INTEGER_FORMAT, json_integer_value(given));
        return out;
    case JSON_REAL:
        (void)snprintf(out, len, "%g", json_real_value(given));
        return out;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_ARRAY:
        return "a list";
    case JSON_OBJECT:
        return "a table";
    case JSON_NULL:
        return "a date, time, infinity or NaN";
    }
    return "something else";
}

static int wrong_type(enum snp_config_key key,
                      const json_t *given,
                      const char *place,
                      struct snp_err *err)
{
    char found[TEXT_SHOWN + 16];
    return snp_fail(err, SNP_E_INVALID, "%s: expected %s, got %s", place,
                    expectations[snp_config_info(key)->type],
                    describe(key, given, found, sizeof(found)));
}

static int out_of_memory(struct snp_err *err)
{
    return snp_fail(err, SNP_E_NOMEM, "out of memory");
}

static int finish(json_t *value, json_t **ret, struct snp_err *err)
{
    if (value == NULL) {
        return out_of_memory(err);
    }
    *ret = value;
    return 0;
}

static int check_range(enum snp_config_key key,
                       double number,
                       const char *place,
                       struct snp_err *err)
{
    const struct snp_config_info *info = snp_config_info(key);
    bool is_free = info->min == info->max;
    if (is_free || (number >= info->min && number <= info->max)) {
        return 0;
    }
    return snp_fail(err, SNP_E_INVALID, "%s: %.15g is out of range: %.15g to %.15g", place, number,
                    info->min, info->max);
}

/*
 * 1: it is a tier; 0: it is not, and out is ", native, local", nearest: the most similar name or
 * ""; SNP_E_DENIED: it exists, but must not be used.
 */
static int check_tier(const char *text,
                      const char *place,
                      char out[TIERS_SHOWN],
                      char nearest[SNP_TIER_NAME_MAX + 1],
                      struct snp_err *err)
{
    snp_autotierfiles struct snp_tier_files files = {0};
    const struct snp_tier_file *file;
    size_t used = 0;
    int r = snp_tier_files_find(&files, err);

    if (r < 0 || snp_tier_files_of(&files, text) != NULL) {
        return r < 0 ? r : 1;
    }
    if (snp_tier_files_get(&files, text, &file, err) == SNP_E_DENIED) {
        return snp_err_wrap(err, "%s", place);
    }
    (void)snprintf(nearest, SNP_TIER_NAME_MAX + 1, "%.*s", SNP_TIER_NAME_MAX, err->remedy.name);
    snp_tier_files_rank(&files);
    for (size_t i = 0; i < files.n && used < TIERS_SHOWN; i++) {
        if (files.files[i].refused == NULL) {
            used += (size_t)snprintf(out + used, TIERS_SHOWN - used, ", %s", files.files[i].name);
        }
    }
    return 0;
}

static int check_choice(const struct snp_config_info *info,
                        const char *text,
                        const char *place,
                        struct snp_err *err)
{
    char all[512] = "";
    char tiers[TIERS_SHOWN] = "";
    char nearest[SNP_TIER_NAME_MAX + 1] = "";
    size_t used = 0;
    for (size_t i = 0; i < SNP_CONFIG_CHOICES && info->choices[i] != NULL; i++) {
        if (snp_streq(info->choices[i], text)) {
            return 0;
        }
    }
    if (info->choices[0] == NULL) {
        return 0;
    }
    if (info->is_tier) {
        int r = check_tier(text, place, tiers, nearest, err);

        if (r != 0) {
            return r < 0 ? r : 0;
        }
    }
    for (size_t i = 0; i < SNP_CONFIG_CHOICES && info->choices[i] != NULL; i++) {
        int n = snprintf(all + used, sizeof(all) - used, "%s%s%s", i == 0 ? "" : ", ",
                         info->choices[i], i == 0 ? tiers : "");
        SNP_ASSERT(n > 0 && (size_t)n < sizeof(all) - used);
        used += (size_t)n;
    }
    return snp_fail(err, SNP_E_INVALID, "%s: expected one of %s, got '%.*s'%s%s%s", place, all,
                    TEXT_SHOWN, text, nearest[0] == '\0' ? "" : "; did you mean ", nearest,
                    nearest[0] == '\0' ? "" : "?");
}

static int to_text(enum snp_config_key key,
                   const json_t *given,
                   const char *place,
                   json_t **ret,
                   struct snp_err *err)
{
    const struct snp_config_info *info = snp_config_info(key);
    if (!json_is_string(given)) {
        return wrong_type(key, given, place, err);
    }
    const char *text = json_string_value(given);
    if (strlen(text) != json_string_length(given)) {
        return snp_fail(err, SNP_E_INVALID, "%s: the text contains a NUL character", place);
    }
    if (info->fallback == NULL && text[0] == '\0') {
        *ret = NULL;
        return 0;
    }
    int r = check_choice(info, text, place, err);
    return r < 0 ? r : finish(json_string(text), ret, err);
}

static int bool_from_text(const char *text, bool *ret)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {
        {"true", true},   {"yes", true}, {"on", true},   {"1", true},  {"t", true},  {"y", true},
        {"false", false}, {"no", false}, {"off", false}, {"0", false}, {"f", false}, {"n", false},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(words); i++) {
        if (strcasecmp(text, words[i].word) == 0) {
            *ret = words[i].value;
            return 0;
        }
    }
    return -1;
}

static int to_bool(enum snp_config_key key,
                   const json_t *given,
                   const char *place,
                   json_t **ret,
                   struct snp_err *err)
{
    bool value = json_is_true(given);
    bool is_one = json_is_integer(given) &&
                  (json_integer_value(given) == 0 || json_integer_value(given) == 1);
    if (is_one) {
        value = json_integer_value(given) == 1;
    } else if (json_is_string(given)) {
        if (bool_from_text(json_string_value(given), &value) < 0) {
            return wrong_type(key, given, place, err);
        }
    } else if (!json_is_boolean(given)) {
        return wrong_type(key, given, place, err);
    }
    return finish(json_boolean(value), ret, err);
}

static int to_int(enum snp_config_key key,
                  const json_t *given,
                  const char *place,
                  json_t **ret,
                  struct snp_err *err)
{
    int64_t value = 0;
    if (json_is_integer(given)) {
        value = json_integer_value(given);
    } else if (json_is_real(given) && fabs(json_real_value(given)) < 1e15 &&
               round(json_real_value(given)) == json_real_value(given)) {
        value = (int64_t)json_real_value(given);
    } else if (!json_is_string(given) || snp_parse_i64(json_string_value(given), &value) < 0) {
        return wrong_type(key, given, place, err);
    }
    int r = check_range(key, (double)value, place, err);
    return r < 0 ? r : finish(json_integer(value), ret, err);
}

static int to_float(enum snp_config_key key,
                    const json_t *given,
                    const char *place,
                    json_t **ret,
                    struct snp_err *err)
{
    double value = 0;
    if (json_is_number(given)) {
        value = json_number_value(given);
    } else if (!json_is_string(given) || snp_parse_double(json_string_value(given), &value) < 0) {
        return wrong_type(key, given, place, err);
    }
    int r = check_range(key, value, place, err);
    return r < 0 ? r : finish(json_real(value), ret, err);
}

static int to_limit(enum snp_config_key key,
                    const json_t *given,
                    const char *place,
                    json_t **ret,
                    struct snp_err *err)
{
    char number[40];
    const char *text = json_string_value(given);
    if (json_is_integer(given)) {
        (void)snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(given));
        text = number;
    } else if (json_is_real(given)) {
        (void)snprintf(number, sizeof(number), "%.6f", json_real_value(given));
        text = number;
    }
    if (text == NULL || strlen(text) > sizeof(number)) {
        return wrong_type(key, given, place, err);
    }
    uint64_t value = 0;
    int r = snp_limit_parse((enum snp_limit)(key - SNP_KEY_LIMIT_FIRST), text, place, &value, err);
    return r < 0 ? r : finish(json_integer((json_int_t)value), ret, err);
}

static bool is_separator(enum snp_config_key key, char c)
{
    bool is_space = c == ' ' || c == '\t' || c == '\n';
    return c == ',' || (is_space && key == SNP_KEY_DOCKER_WORKSPACE_INSTALL_EXTRAS);
}

/* Append one item of a text list without the blanks around it; empty ones are dropped. */
static int append_item(json_t *list, const char *item, size_t n)
{
    while (n > 0 && strchr(" \t\n", item[0]) != NULL) {
        item++;
        n--;
    }
    while (n > 0 && strchr(" \t\n", item[n - 1]) != NULL) {
        n--;
    }
    return n == 0 ? 0 : json_array_append_new(list, json_stringn(item, n));
}

static int list_from_words(enum snp_config_key key,
                           const char *text,
                           json_t **ret,
                           struct snp_err *err)
{
    snp_autojson json_t *list = json_array();
    const char *start = text;
    for (const char *at = text;; at++) {
        if (*at != '\0' && !is_separator(key, *at)) {
            continue;
        }
        if (list == NULL || append_item(list, start, (size_t)(at - start)) < 0) {
            return out_of_memory(err);
        }
        if (*at == '\0') {
            break;
        }
        start = at + 1;
    }
    *ret = SNP_TAKE_PTR(list);
    return 0;
}

/* An array that holds only usable texts. */
static int check_items(enum snp_config_key key,
                       const json_t *list,
                       const char *place,
                       struct snp_err *err)
{
    size_t i = 0;
    json_t *item = NULL;
    if (json_array_size(list) > LIST_MAX) {
        return snp_fail(err, SNP_E_INVALID, "%s: more than %d items", place, LIST_MAX);
    }
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item) || strlen(json_string_value(item)) != json_string_length(item)) {
            char found[TEXT_SHOWN + 16];
            return snp_fail(err, SNP_E_INVALID, "%s: expected %s, but item %zu is %s", place,
                            expectations[SNP_CONFIG_LIST], i + 1,
                            describe(key, item, found, sizeof(found)));
        }
    }
    return 0;
}

static int to_list(enum snp_config_key key,
                   const json_t *given,
                   const char *place,
                   json_t **ret,
                   struct snp_err *err)
{
    snp_autojson json_t *list = NULL;
    const char *text = json_string_value(given);
    int r = 0;
    if (json_is_array(given)) {
        list = json_deep_copy(given);
        r = list == NULL ? out_of_memory(err) : 0;
    } else if (text != NULL && text[strspn(text, " \t\n")] == '[') {
        json_error_t fault;
        list = json_loads(text, JSON_REJECT_DUPLICATES, &fault);
        if (!json_is_array(list)) {
            return snp_fail(err, SNP_E_INVALID,
                            "%s: expected a comma list or a JSON array of texts, got '%.*s'", place,
                            TEXT_SHOWN, text);
        }
    } else if (text != NULL) {
        r = list_from_words(key, text, &list, err);
    } else {
        return wrong_type(key, given, place, err);
    }
    if (r == 0) {
        r = check_items(key, list, place, err);
    }
    if (r == 0) {
        *ret = SNP_TAKE_PTR(list);
    }
    return r;
}

int snp_value_from_json(enum snp_config_key key,
                        const json_t *given,
                        const char *place,
                        json_t **ret,
                        struct snp_err *err)
{
    switch (snp_config_info(key)->type) {
    case SNP_CONFIG_STRING:
    case SNP_CONFIG_PATH:
        return to_text(key, given, place, ret, err);
    case SNP_CONFIG_BOOL:
        return to_bool(key, given, place, ret, err);
    case SNP_CONFIG_INT:
        return to_int(key, given, place, ret, err);
    case SNP_CONFIG_FLOAT:
        return to_float(key, given, place, ret, err);
    case SNP_CONFIG_LIST:
        return to_list(key, given, place, ret, err);
    case SNP_CONFIG_LIMIT:
        return to_limit(key, given, place, ret, err);
    }
    return snp_fail(err, SNP_E_INTERNAL, "%s: no such type", place);
}

int snp_value_from_text(
    enum snp_config_key key, const char *text, const char *place, json_t **ret, struct snp_err *err)
{
    snp_autojson json_t *given = json_string(text);
    if (given == NULL) {
        return snp_utf8_valid(text, strlen(text))
                   ? out_of_memory(err)
                   : snp_fail(err, SNP_E_INVALID, "%s: not text in UTF-8", place);
    }
    return snp_value_from_json(key, given, place, ret, err);
}
