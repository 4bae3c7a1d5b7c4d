/* SPDX-License-Identifier: Apache-2.0 */
/* Tools of runs that query the index of the project. Each call is a process, `context call`. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "usertool/usertool_priv.h"

enum {
    TIMEOUT_MS = 120 * 1000, /* the first call in a large project builds the index */
    WORDS = 6,
};

static const char context_query_text[] =
    "Find definitions in the project that answer a question: names, paths or words. Prefer it to "
    "reading whole files. Headings give file, lines and why. A heading `team standard` is "
    "followed by a rule for code that you write.";
static const char context_query_parameters[] =
    "{\"query\": {\"type\": \"string\", \"minLength\": 1}, \"max_tokens\": {\"type\": "
    "\"integer\", \"minimum\": 100, "
    "\"maximum\": 5000, \"default\": 2000}, \"search_mode\": {\"enum\": [\"hybrid\", "
    "\"keyword\", \"semantic\"], "
    "\"default\": \"hybrid\"}, \"file\": {\"type\": \"string\", \"description\": \"the file "
    "you work on\"}}";
static const char search_text[] =
    "Find lines of the project by a case-insensitive regular expression.";
static const char search_parameters[] =
    "{\"pattern\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 500}, "
    "\"max_results\": {\"type\": \"integer\", "
    "\"minimum\": 1, \"maximum\": 200, \"default\": 20}}";
static const char read_text[] = "Read numbered lines of a file of the project, at most 200.";
static const char read_parameters[] =
    "{\"file\": {\"type\": \"string\", \"minLength\": 1}, \"start_line\": {\"type\": "
    "\"integer\", \"minimum\": 1, "
    "\"default\": 1}, \"end_line\": {\"type\": \"integer\", \"minimum\": 1}}";
static const char sections_text[] = "List the definitions and sections of the project.";
static const char sections_parameters[] =
    "{\"filter\": {\"type\": \"string\"}, \"limit\": {\"type\": \"integer\", \"minimum\": 1, "
    "\"maximum\": 200, "
    "\"default\": 50}, \"offset\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": "
    "1000000, \"default\": 0}}";
static const char shared_context_text[] =
    "The team's rules for code that you write in this project.";
static const char shared_context_parameters[] =
    "{\"categories\": {\"type\": \"array\", \"maxItems\": 4, \"items\": {\"enum\": "
    "[\"MANDATORY\", \"BEST_PRACTICES\", "
    "\"GUIDELINES\", \"REFERENCE\"]}}, \"max_tokens\": {\"type\": \"integer\", \"minimum\": "
    "100, \"maximum\": 5000, "
    "\"default\": 2000}, \"include_content\": {\"type\": \"boolean\", \"default\": true}}";

static const struct {
    const char *name;
    const char *description;
    const char *parameters; /* JSON Schema */
} tools[] = {
    {"snipara_context_query", context_query_text, context_query_parameters},
    {"snipara_search", search_text, search_parameters},
    {"snipara_read", read_text, read_parameters},
    {"snipara_sections", sections_text, sections_parameters},
    {"snipara_shared_context", shared_context_text, shared_context_parameters},
};

/* The required argument is the first text with a minLength. */
static json_t *schema_make(const char *parameters)
{
    json_t *properties = NULL;
    json_t *required = json_array();
    const char *name;
    json_t *value;
    struct snp_err err;
    int r = snp_json_parse(parameters, strlen(parameters), &properties, &err);

    SNP_ASSERT(r == 0 || r == SNP_E_NOMEM); /* the table is ours */
    json_object_foreach(properties, name, value)
    {
        if (json_object_get(value, "minLength") != NULL) {
            (void)json_array_append_new(required, json_string(name));
        }
    }
    return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties, "required",
                     required, "additionalProperties", 0);
}

static int argv_make(const char *const words[WORDS], struct snp_toolbox_texts *ret)
{
    ret->items = calloc(WORDS + 1, sizeof(*ret->items));
    for (size_t i = 0; i < WORDS && ret->items != NULL; i++) {
        ret->items[i] = strdup(words[i]);
        if (ret->items[i] == NULL) {
            return SNP_E_NOMEM;
        }
        ret->n++;
    }
    return ret->items == NULL ? SNP_E_NOMEM : 0;
}

int snp_toolbox_add_context(struct snp_toolbox *box,
                            const char *program,
                            const char *project,
                            struct snp_err *err)
{
    int r = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(tools) && r == 0; i++) {
        const char *const words[WORDS] = {program,       "context", "call",
                                          tools[i].name, "--dir",   project};
        snp_autojson json_t *schema = schema_make(tools[i].parameters);
        struct snp_toolbox_command spec = {
            .name = tools[i].name,
            .description = tools[i].description,
            .schema = schema,
            .cwd = strdup(project),
            .timeout_ms = TIMEOUT_MS,
            .is_ours = true,
        };

        if (schema == NULL || spec.cwd == NULL || argv_make(words, &spec.argv) < 0) {
            snp_toolbox_texts_done(&spec.argv);
            free(spec.cwd);
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        r = snp_toolbox_command_add(box, &spec, err);
    }
    return r;
}
