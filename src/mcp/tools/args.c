/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of tools, checked against the rows of mcp/server/catalog.c. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/text/text.h"
#include "mcp/server/tool.h"

static const struct snp_arg *arg_find(const struct snp_tool *tool, const char *name)
{
    for (const struct snp_arg *arg = tool->args; arg->name != NULL; arg++) {
        if (strcmp(arg->name, name) == 0) {
            return arg;
        }
    }
    return NULL;
}

static int choice_check(const struct snp_arg *arg, const char *text, struct snp_err *err)
{
    char list[128] = "";
    size_t used = 0;

    for (size_t i = 0; i < SNP_ARG_CHOICES && arg->choices[i] != NULL; i++) {
        if (snp_streq(text, arg->choices[i])) {
            return 0;
        }
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i == 0 ? "" : ", ",
                                 arg->choices[i]);
    }
    return snp_fail(err, SNP_E_INVALID, "'%s' must be one of %s, not '%.40s'", arg->name, list,
                    text);
}

static int number_check(const struct snp_arg *arg, const json_t *value, struct snp_err *err)
{
    const char *text = json_string_value(value);
    double number = json_number_value(value);
    bool is_large = number >= SNP_ARG_WHOLE_MAX || number <= -SNP_ARG_WHOLE_MAX;
    bool is_whole = !is_large && number == (double)(json_int_t)number;

    if (is_large) {
        return snp_fail(err, SNP_E_INVALID, "'%s' must be below 10^15", arg->name);
    }

    if (!json_is_number(value) || (arg->type == SNP_ARG_INTEGER && !is_whole)) {
        return snp_fail(err, SNP_E_INVALID, "'%s' must be %s%s%.40s%s", arg->name,
                        arg->type == SNP_ARG_INTEGER ? "an integer" : "a number",
                        text == NULL ? "" : ", not '", text == NULL ? "" : text,
                        text == NULL ? "" : "'");
    }
    if (arg->min < arg->max && number < arg->min) {
        return snp_fail(err, SNP_E_INVALID, "'%s' must be at least %g, not %g", arg->name, arg->min,
                        number);
    }
    return 0;
}

static int text_check(const struct snp_arg *arg, const json_t *value, struct snp_err *err)
{
    if (!json_is_string(value)) {
        return snp_fail(err, SNP_E_INVALID, "'%s' must be a string", arg->name);
    }
    if (arg->max > 0 && (double)json_string_length(value) > arg->max) {
        return snp_fail(err, SNP_E_INVALID, "'%s' can have at most %g bytes", arg->name, arg->max);
    }
    return 0;
}

static int arg_check(const struct snp_arg *arg, const json_t *value, struct snp_err *err)
{
    switch (arg->type) {
    case SNP_ARG_STRING:
        return text_check(arg, value, err);
    case SNP_ARG_CHOICE:
        return json_is_string(value)
                   ? choice_check(arg, json_string_value(value), err)
                   : snp_fail(err, SNP_E_INVALID, "'%s' must be a string", arg->name);
    case SNP_ARG_BOOLEAN:
        return json_is_boolean(value)
                   ? 0
                   : snp_fail(err, SNP_E_INVALID, "'%s' must be true or false%s%.40s%s", arg->name,
                              json_is_string(value) ? ", not '" : "",
                              json_is_string(value) ? json_string_value(value) : "",
                              json_is_string(value) ? "'" : "");
    case SNP_ARG_INTEGER:
    case SNP_ARG_NUMBER:
        return number_check(arg, value, err);
    }
    return 0;
}

/*
 * Models write "5" and "true", and objects instead of JSON text: the intended value, new; NULL:
 * none.
 */
static json_t *meant_by(const struct snp_arg *arg, const json_t *value)
{
    const char *text = json_string_value(value);
    bool is_word = arg->type == SNP_ARG_STRING || arg->type == SNP_ARG_CHOICE;
    json_t *meant;

    if (arg->is_json && value != NULL && text == NULL && !json_is_null(value)) {
        snp_autofree char *json = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

        return json == NULL ? NULL : json_string(json);
    }
    if (text == NULL || is_word) {
        return NULL;
    }
    if (arg->type == SNP_ARG_BOOLEAN && (strcmp(text, "True") == 0 || strcmp(text, "False") == 0)) {
        return json_boolean(text[0] == 'T');
    }
    meant = json_loads(text, JSON_DECODE_ANY, NULL);
    if (arg->type == SNP_ARG_BOOLEAN ? json_is_boolean(meant) : json_is_number(meant)) {
        return meant;
    }
    json_decref(meant);
    return NULL;
}

int snp_tool_args_check(const struct snp_tool *tool, json_t *args, struct snp_err *err)
{
    for (const struct snp_arg *arg = tool->args; arg->name != NULL; arg++) {
        const json_t *value = json_object_get(args, arg->name);
        json_t *meant = meant_by(arg, value);
        int r = 0;

        if (meant != NULL) {
            value = meant;
            (void)json_object_set_new(args, arg->name, meant);
        }
        if (value == NULL || json_is_null(value)) {
            /* Each tool reports missing arguments in its wording (which clients know). */
            continue;
        }
        r = arg_check(arg, value, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int snp_tool_args_unknown(const struct snp_tool *tool, json_t *args, struct snp_buf *out)
{
    const char *names[16];
    size_t n_names = 0;
    const char *key;
    json_t *value;
    int r = 0;

    for (const struct snp_arg *arg = tool->args; arg->name != NULL && n_names < 16; arg++) {
        names[n_names++] = arg->name;
    }
    json_object_foreach(args, key, value)
    {
        const char *meant;

        if (arg_find(tool, key) != NULL || r < 0 || out->len > 512) {
            continue;
        }
        meant = snp_suggest(key, names, n_names);
        r = snp_buf_adds(out, out->len == 0 ? "[note] argument " : "\n[note] argument ");
        r = r < 0 ? r : snp_text_line(out, key, strlen(key), 40);
        r = r < 0
                ? r
                : snp_buf_addf(out, " is unknown and was ignored%s%s",
                               meant == NULL ? "" : "; did you mean ", meant == NULL ? "" : meant);
    }
    return r;
}
