/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON through jansson.
 *
 * Invariants: nesting is checked before the parser runs, so its recursion is bounded;
 * a string with a NUL inside parses, but reads as absent through snp_json_str, because
 * C would see only its beginning.
 */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* Deepest nesting of brackets outside of strings; stops counting above the limit. */
static int nesting(const char *text, size_t n)
{
    int depth = 0;
    int most = 0;
    bool in_string = false;
    for (size_t i = 0; i < n && most <= SNP_JSON_DEPTH_MAX; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            depth++;
            most = depth > most ? depth : most;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return most;
}

int snp_json_parse_any(const char *text, size_t n, json_t **ret, struct snp_err *err)
{
    if (nesting(text, n) > SNP_JSON_DEPTH_MAX) {
        return snp_fail(err, SNP_E_INVALID, "JSON is nested deeper than %d levels",
                        SNP_JSON_DEPTH_MAX);
    }
    json_error_t jerr = {0};
    snp_autojson json_t *value =
        json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &jerr);
    if (value == NULL) {
        if (json_error_code(&jerr) == json_error_out_of_memory) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        /* Drop "... near 'WORD'": the quoted text may be secret, for example from /etc/shadow. */
        char *quoted = strstr(jerr.text, " near '");
        if (quoted != NULL) {
            *quoted = '\0';
        }
        return snp_fail(err, SNP_E_INVALID, "JSON line %d column %d: %s", jerr.line, jerr.column,
                        jerr.text);
    }
    *ret = SNP_TAKE_PTR(value);
    return 0;
}

int snp_json_parse(const char *text, size_t n, json_t **ret, struct snp_err *err)
{
    snp_autojson json_t *value = NULL;
    if (n == 0) {
        value = json_object();
        if (value == NULL) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        *ret = SNP_TAKE_PTR(value);
        return 0;
    }
    int r = snp_json_parse_any(text, n, &value, err);
    if (r < 0) {
        return r;
    }
    if (!json_is_object(value)) {
        return snp_fail(err, SNP_E_INVALID, "JSON is not an object");
    }
    *ret = SNP_TAKE_PTR(value);
    return 0;
}

char *snp_json_text(const json_t *value)
{
    return json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
}

const char *snp_json_str(const json_t *object, const char *key, const char *fallback)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != json_string_length(value)) {
        return fallback;
    }
    return text;
}

int64_t snp_json_int(const json_t *object, const char *key, int64_t fallback)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : fallback;
}

bool snp_json_bool(const json_t *object, const char *key, bool fallback)
{
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

json_t *snp_json_bytes(const char *bytes, size_t n)
{
    if (n == 0) {
        return json_string("");
    }
    if (snp_utf8_valid(bytes, n)) {
        return json_stringn_nocheck(bytes, n);
    }
    size_t len = 0;
    snp_autofree char *clean = snp_utf8_clean(bytes, n, &len);
    return clean == NULL ? NULL : json_stringn_nocheck(clean, len);
}

json_t *snp_json_from_ways(int64_t ways)
{
    json_t *list = json_array();

    for (unsigned i = 0; snp_recover_ways[i] != NULL; i++) {
        if ((ways & (1 << i)) != 0) {
            (void)json_array_append_new(list, json_string(snp_recover_ways[i]));
        }
    }
    return list;
}

int64_t snp_json_to_ways(const json_t *list)
{
    int64_t ways = 0;

    for (unsigned i = 0; snp_recover_ways[i] != NULL; i++) {
        for (size_t k = 0; k < json_array_size(list); k++) {
            const char *way = json_string_value(json_array_get(list, k));

            ways |= way != NULL && strcmp(way, snp_recover_ways[i]) == 0 ? 1 << i : 0;
        }
    }
    return ways;
}

json_t *snp_json_from_remedy(const struct snp_remedy *remedy)
{
    json_t *object = json_pack("{s:s}", "kind", snp_remedy_name(remedy->kind));

    if (remedy->kind == SNP_REMEDY_RECOVER) {
        (void)json_object_set_new(object, "ways", snp_json_from_ways(remedy->value));
    } else if (remedy->value != 0) {
        (void)json_object_set_new(object, "value", json_integer(remedy->value));
    }
    if (remedy->name[0] != '\0') {
        (void)json_object_set_new(object, "name",
                                  snp_json_bytes(remedy->name, strlen(remedy->name)));
    }
    return object;
}

void snp_json_to_remedy(const json_t *object, struct snp_remedy *ret)
{
    struct snp_err made;

    (void)snp_err_remedy(&made, 0, snp_remedy_from_name(snp_json_str(object, "kind", NULL)),
                         snp_json_str(object, "name", ""), snp_json_int(object, "value", 0));
    made.remedy.value |= snp_json_to_ways(json_object_get(object, "ways"));
    *ret = made.remedy;
}

/* Add the details that are known as members. */
static int details_add(json_t *object, const struct snp_err *err)
{
    int r = err->sys_errno == 0
                ? 0
                : json_object_set_new(object, "errno", json_integer(err->sys_errno));

    if (r == 0 && err->object[0] != '\0') {
        r = json_object_set_new(object, "object", snp_json_bytes(err->object, strlen(err->object)));
    }
    if (r == 0 && err->limit[0] != '\0') {
        r = json_object_set_new(
            object, "limit",
            json_pack("{s:s, s:I}", "name", err->limit, "value", (json_int_t)err->limit_value));
    }
    if (r == 0 && err->remedy.kind != SNP_REMEDY_NONE) {
        r = json_object_set_new(object, "remedy", snp_json_from_remedy(&err->remedy));
    }
    return r;
}

json_t *snp_json_from_err(const struct snp_err *err)
{
    snp_autojson json_t *object = json_object();
    if (json_object_set_new(object, "code", json_string(snp_code_name(err->code))) < 0 ||
        json_object_set_new(object, "message",
                            snp_json_bytes(err->msg, strnlen(err->msg, sizeof(err->msg)))) < 0) {
        return NULL;
    }
    return details_add(object, err) < 0 ? NULL : SNP_TAKE_PTR(object);
}

int snp_json_to_err(const json_t *object, struct snp_err *err)
{
    const char *name = snp_json_str(object, "code", NULL);
    const char *message = snp_json_str(object, "message", NULL);
    enum snp_code code = snp_code_from_name(name);
    if (name == NULL || message == NULL || code == SNP_OK) {
        return snp_fail(err, SNP_E_PEER,
                        "the other side sent an error without a known code or a message");
    }
    int r = snp_fail(err, code, "%s", message); /* its text already includes that of errno */
    int64_t eno = snp_json_int(object, "errno", 0);
    if (err != NULL && code == SNP_E_SYS && eno > 0 && eno < 4096) {
        err->sys_errno = (int)eno;
    }
    if (err != NULL) {
        const json_t *limit = json_object_get(object, "limit");

        snp_err_about(err, snp_json_str(object, "object", ""));
        snp_err_limit(err, snp_json_str(limit, "name", ""), snp_json_int(limit, "value", 0));
        snp_json_to_remedy(json_object_get(object, "remedy"), &err->remedy);
    }
    return r;
}

void snp_json_unref(json_t *value)
{
    json_decref(value);
}
