/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of templates. Their reader is also their owner, but a damaged record must neither crash a
 * tier nor lead it to a wrong file: types are checked here, paths where they are used.
 */
#include "base/registry/registry.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/policy/template_name.h"
#include "base/str.h"

static const struct {
    const char *name;
    json_type type;
    bool is_optional;
} members[] = {
    {"name", JSON_STRING, false},     {"python", JSON_STRING, false},
    {"version", JSON_STRING, false},  {"prefix", JSON_STRING, true},
    {"venv", JSON_STRING, false},     {"is_ours", JSON_TRUE, true},
    {"hash", JSON_STRING, false},     {"files", JSON_INTEGER, false},
    {"bytes", JSON_INTEGER, false},   {"preload", JSON_ARRAY, false},
    {"modules", JSON_ARRAY, false},   {"requirements", JSON_STRING, true},
    {"source", JSON_STRING, true},    {"index", JSON_STRING, true},
    {"created", JSON_INTEGER, false},
};

/* Modules of the built-in templates, and packages whose name differs from the module's. */
static const char *const builtin_modules[][2] = {
    {"numpy", "data"}, {"pandas", "data"}, {"matplotlib", "plot"}, {"mpl_toolkits", "plot"}};
static const char *const package_names[][2] = {
    {"yaml", "PyYAML"},
    {"cv2", "opencv-python"},
    {"sklearn", "scikit-learn"},
    {"skimage", "scikit-image"},
    {"PIL", "Pillow"},
    {"bs4", "beautifulsoup4"},
    {"dateutil", "python-dateutil"},
    {"dotenv", "python-dotenv"},
    {"Crypto", "pycryptodome"},
    {"docx", "python-docx"},
    {"jwt", "PyJWT"},
    {"OpenSSL", "pyOpenSSL"},
};

static const char *looked_up(const char *const (*table)[2],
                             size_t n,
                             const char *key,
                             const char *fallback)
{
    for (size_t i = 0; i < n; i++) {
        if (snp_streq(table[i][0], key)) {
            return table[i][1];
        }
    }
    return fallback;
}

char *snp_registry_dir(const char *state_dir)
{
    return snp_format("%s/templates", state_dir);
}

static char *record_path(const char *state_dir, const char *name)
{
    return snp_format("%s/templates/%s.json", state_dir, name);
}

static bool are_texts(const json_t *list)
{
    size_t i;
    json_t *item;

    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        if (json_string_value(item) == NULL ||
            strlen(json_string_value(item)) != json_string_length(item)) {
            return false;
        }
    }
    return true;
}

static bool is_record(const json_t *record, const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(members); i++) {
        const json_t *value = json_object_get(record, members[i].name);
        bool fits = members[i].type == JSON_TRUE
                        ? json_is_boolean(value)
                        : value != NULL && json_typeof(value) == members[i].type;

        if (!fits && !(members[i].is_optional && (value == NULL || json_is_null(value)))) {
            return false;
        }
    }
    return snp_streq(snp_json_str(record, "name", NULL), name) &&
           are_texts(json_object_get(record, "preload")) &&
           are_texts(json_object_get(record, "modules"));
}

static int not_found(const char *state_dir, const char *name, struct snp_err *err)
{
    snp_autojson json_t *list = snp_registry_list(state_dir);
    char names[256] = "base, data, plot";
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        size_t n = strlen(names);
        (void)snprintf(names + n, sizeof(names) - n, ", %s", snp_json_str(item, "name", "?"));
    }
    (void)snp_fail_with(err, SNP_E_NOT_FOUND, SNP_REMEDY_ADD_TEMPLATE, NULL, 0,
                        "no template '%s'; use one of %s", name, names);
    snp_err_about(err, name);
    return SNP_E_NOT_FOUND;
}

int snp_registry_read(const char *state_dir, const char *name, json_t **ret, struct snp_err *err)
{
    snp_autofree char *path = NULL;
    snp_autofree char *text = NULL;
    snp_autojson json_t *record = NULL;
    size_t n = 0;
    int r = snp_template_name_check(name, err);

    if (r < 0) {
        return r;
    }
    path = record_path(state_dir, name);
    if (path == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = snp_file_read(path, SNP_REGISTRY_RECORD_MAX, &text, &n, err);
    if (r == SNP_E_NOT_FOUND) {
        return not_found(state_dir, name, err);
    }
    if (r == 0) {
        r = snp_json_parse(text, n, &record, err);
    }
    if (r == 0 && !is_record(record, name)) {
        r = snp_fail(err, SNP_E_INVALID, "the file is not a template record");
    }
    if (r < 0) {
        (void)snp_err_wrap(err, "template %s: %.200s", name, path);
        return snp_err_remedy(err, r, SNP_REMEDY_RENEW_TEMPLATE, name, 0);
    }
    *ret = SNP_TAKE_PTR(record);
    return 0;
}

static int is_record_name(const struct dirent *entry)
{
    return snp_has_suffix(entry->d_name, ".json") && entry->d_name[0] != '.';
}

json_t *snp_registry_list(const char *state_dir)
{
    snp_autofree char *dir = snp_registry_dir(state_dir);
    json_t *list = json_array();
    struct dirent **entries = NULL;
    int n = dir == NULL ? -1 : scandir(dir, &entries, is_record_name, alphasort);

    for (int i = 0; i < n; i++) {
        char name[SNP_TEMPLATE_NAME_MAX + 1];
        size_t len = strlen(entries[i]->d_name) - strlen(".json");
        json_t *record = NULL;
        struct snp_err ignored;

        if (i < SNP_REGISTRY_MAX && len < sizeof(name)) {
            memcpy(name, entries[i]->d_name, len);
            name[len] = '\0';
            if (snp_registry_read(state_dir, name, &record, &ignored) == 0) {
                (void)json_array_append_new(list, record);
            }
        }
        free(entries[i]);
    }
    free((void *)entries);
    return list;
}

static bool has_text(const json_t *list, const char *text)
{
    size_t i;
    json_t *item;

    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        if (snp_streq(json_string_value(item), text)) {
            return true;
        }
    }
    return false;
}

json_t *snp_registry_advise(const char *state_dir, const char *module)
{
    snp_autojson json_t *list = snp_registry_list(state_dir);
    const char *builtin = looked_up(builtin_modules, SNP_ARRAY_LEN(builtin_modules), module, NULL);
    const char *package = looked_up(package_names, SNP_ARRAY_LEN(package_names), module, module);
    json_t *templates = json_array();
    size_t i;
    json_t *item;

    if (builtin != NULL) {
        (void)json_array_append_new(templates, json_string(builtin));
    }
    json_array_foreach(list, i, item)
    {
        if (has_text(json_object_get(item, "modules"), module)) {
            (void)json_array_append(templates, json_object_get(item, "name"));
        }
    }
    if (json_array_size(templates) > 0) {
        return json_pack("{s:s, s:o, s:o}", "name", module, "templates", templates, "command",
                         json_sprintf("snipara-sandbox exec --template %s",
                                      json_string_value(json_array_get(templates, 0))));
    }
    return json_pack("{s:s, s:o, s:o}", "name", module, "templates", templates, "command",
                     json_sprintf("echo %s >>requirements.txt; snipara-sandbox template add NAME "
                                  "--requirements requirements.txt",
                                  package));
}

int snp_registry_write(const char *state_dir, const json_t *record, struct snp_err *err)
{
    snp_autofree char *path = record_path(state_dir, snp_json_str(record, "name", ""));
    snp_autofree char *text = json_dumps(record, JSON_INDENT(2));

    if (path == NULL || text == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return snp_file_write_atomic(path, text, strlen(text), 0600, err);
}

int snp_registry_preload_check(const char *list, struct snp_err *err)
{
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_.";
    const char *at = list;

    if (strlen(list) > SNP_REGISTRY_PRELOAD_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "a preload list has at most %d characters",
                        SNP_REGISTRY_PRELOAD_MAX);
    }
    while (*at != '\0') {
        size_t n = strcspn(at, ",");
        if (n == 0 || strspn(at, bytes) < n || at[0] == '.') {
            return snp_fail(err, SNP_E_INVALID,
                            "'%.*s' is not a module name; write a preload list as a,b.c,d", (int)n,
                            at);
        }
        at += n;
        at += *at == ',' && at[1] != '\0' ? 1 : 0;
        if (*at == ',') {
            return snp_fail(err, SNP_E_INVALID, "a preload list does not end in a comma");
        }
    }
    return 0;
}
